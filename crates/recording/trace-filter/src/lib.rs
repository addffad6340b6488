//! Trace filters: which fields of a packet survive read-back, and what is overwritten in its strings.
//!
//! A filter comes with a trace config (upstream: `TraceConfig.trace_filter`). It has two parts:
//!
//! * a *program*, which lists the fields to keep, message by message ([`Bytecode`], made by [`BytecodeBuilder`]). All other fields go,
//!   those that nobody knows first of all.
//! * *rules* for strings that the program says are to be looked at ([`StringFilter`]).
//!
//! [`MessageFilter`] applies both to one message after another.
//!
//! ```
//! use ferretto_trace_filter::{Bytecode, BytecodeBuilder, MessageFilter, Policy, Rule, StringFilter};
//!
//! let mut builder = BytecodeBuilder::new();
//! let (trace, packet) = (builder.message(), builder.message());
//! builder.nested(trace, 1, packet);
//! builder.keep(packet, 8).string(packet, 900, 0);
//! let built = builder.build()?;
//!
//! let mut strings = StringFilter::default();
//! strings.add(&Rule { policy: Policy::MatchRedactGroups, pattern: "user=(.*)", ..Rule::default() })?;
//!
//! let program = Bytecode::parse(&built.bytecode_v2, &built.bytecode_overlay_v54)?;
//! let filter = MessageFilter::new(program, strings).with_root(&[1])?;
//! let mut kept = Vec::new();
//! //                field 8    7      900: "user=sue"
//! filter.filter(b"\x40\x05\x38\x06\xa2\x38\x08user=sue", &mut kept)?;
//! assert_eq!(kept, b"\x40\x05\xa2\x38\x08user=P60");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Programs, rules and messages may all be hostile: whatever they are, there is an error or a result, and both take time and memory that
//! their sizes justify. The bytes that come out are those that upstream's filter (v59) gives; where upstream's would abort, or let pass
//! what a reader could take for something else, ours refuses (see [`BytecodeError`], [`RuleError`], [`FilterError`]).
#![forbid(unsafe_code)]

mod builder;
mod bytecode;
mod filter;
mod strings;

pub use builder::{BuildError, Built, BytecodeBuilder, MessageId, assemble};
pub use bytecode::{Bytecode, BytecodeError, MAX_BYTECODE_BYTES, MAX_SEMANTIC_TYPE, Part};
pub use filter::{FIELD_COST, FilterError, FilterRun, MAX_DEPTH, MessageFilter, RootError};
pub use strings::{
    MAX_ALL_PATTERNS_BYTES, MAX_PATTERN_BYTES, MAX_RULE_SEMANTIC_TYPE, MAX_RULES, MAX_STRING_BYTES, Policy,
    Rule, RuleError, StringFilter,
};
