//! SQL on a trace: its tables in DataFusion, in the language of Perfetto's Trace Processor.
//!
//! | module | what it does |
//! |---|---|
//! | [`trace`], [`cell`] | a trace that is asked, its answers |
//! | [`fleet`] | many traces that are asked as one |
//! | `session` | what statements do, one behind the other |
//! | `sql` | the language: words, macros, statements |
//! | `rewrite` | what SQLite means otherwise than DataFusion, a rule a file |
//! | `coerce` | texts beside numbers |
//! | [`own_types`] | values of several types in one column of an answer |
//! | `inline` | functions that queries have defined, put where they are called |
//! | `functions` | functions that DataFusion lacks |
//! | `operators` | what SQL has no words for: joins of spans, graphs |
//! | `modules` | the standard library |
//! | `table`, `prelude` | tables of the trace, and views over them |
//! | `in_order` | rows in SQLite's order |
//! | [`json`] | texts of JSON |
//! | [`limits`] | what ends a query before its end |
//! | `interrupt` | plans that can be ended |
//! | `gather` | batches of few rows become batches of many |
//! | `memory` | what rows take of memory |
//! | `over` | nodes of a plan over one other node |
//! | `windows` | the memory of windows |
//! | `runtime` | the threads that it is done on |
//! | `error` | what is wrong, where, and what was meant |
//!
//! ```
//! use ferretto_analysis::Trace;
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("trace.pftrace");
//! # std::fs::write(&path, b"\x0a\x02\x40\x01").unwrap();
//! let trace = Trace::open(&path)?;
//! for batch in trace.query("select count(*) as slices from slice")? {
//!     assert_eq!(batch?.num_rows(), 1);
//! }
//! # Ok::<_, ferretto_analysis::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod cell;
mod coerce;
mod error;
pub mod fleet;
mod functions;
mod gather;
mod in_order;
mod inline;
mod interrupt;
pub mod json;
pub mod limits;
mod memory;
mod modules;
mod operators;
mod over;
pub mod own_types;
mod prelude;
mod rewrite;
mod runtime;
mod session;
mod sql;
mod table;
pub mod trace;
mod windows;

pub use crate::cell::Cell;
pub use crate::error::{Error, Place};
pub use crate::fleet::Fleet;
pub use crate::limits::Stop;
pub use crate::own_types::Shown;
pub use crate::trace::{Names, Options, Rows, Trace};
