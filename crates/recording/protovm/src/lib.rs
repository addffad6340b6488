//! Runs the programs that fold overwritten packets into a state.
//!
//! A ring buffer forgets its oldest packets. That is no loss if each packet stands for itself, but a data
//! source that writes what has *changed* since its last packet leaves a trace that cannot be understood once
//! the first packets are gone. So such a data source brings a program along: the service runs it on each
//! packet that is about to be overwritten, and it merges the packet into a *state*. The trace then begins with
//! the state, and the packets that survived go on from there.
//!
//! A program is a `VmProgram` message. It knows the fields of its packets by number only, and so does the VM:
//! there is no schema. Two cursors walk along: the source, in the packet, and the destination, in the state.
//! An instruction moves them ([`select`](#instructions)) for the instructions nested in it, or changes the
//! state where the destination stands.
//!
//! ```
//! use ferretto_protovm::{Program, Vm};
//!
//! // One instruction: merge the packet into the state. VmProgram { instructions { merge {} } }
//! let program = Program::parse(&[0x12, 0x02, 0x1a, 0x00])?;
//! let mut vm = Vm::new(program, 64 * 1024);
//! vm.apply(&[0x08, 1, 0x10, 2])?; // field 1 = 1, field 2 = 2
//! vm.apply(&[0x08, 3])?; // field 1 = 3
//!
//! let mut state = Vec::new();
//! vm.serialize_state(&mut state);
//! assert_eq!(state, [0x08, 3, 0x10, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Instructions
//!
//! | operation | what it does |
//! |---|---|
//! | `select` | moves a cursor down a path: fields, elements by index, entries by key, or each element in turn |
//! | `reg_load` | loads the number at a cursor into one of 32 registers, to be a key later |
//! | `merge` | replaces the fields of the destination that the source has, repeated ones as a whole |
//! | `set` | replaces the destination by the source |
//! | `del` | deletes the destination |
//!
//! A select that does not find its field *fails*; the instruction's abort level says what that ends: the
//! instruction, the outer ones as well, or the program. What cannot be right (a number used as a message, no
//! memory) *aborts* the program. Either way the state keeps what was done before.
//!
//! # Bounds
//!
//! Programs and packets come from producers, which may be hostile. [`Program::parse`] bounds what a program
//! can be ([`MAX_PROGRAM_SIZE`], [`MAX_DEPTH`]), [`MAX_STEPS`] what it can do with a packet, and the limit
//! given to [`Vm::new`] what the state can take.
//!
//! | module | what it does |
//! |---|---|
//! | `vm` | the public type |
//! | `program` | parses programs |
//! | `run` | runs instructions: paths, registers, abort levels |
//! | `destination` | the cursor in the state, and the operations on it |
//! | `tree`, `map` | the state: nodes, what they become, what they cost |
//! | `serialize` | encodes the state |
//! | `wire` | reads fields, leniently |
//! | `compile` (feature `compile`) | makes programs from descriptions with names |

#![forbid(unsafe_code)]

mod abort;
#[cfg(feature = "compile")]
pub mod compile;
mod destination;
mod map;
mod program;
mod run;
mod serialize;
mod tree;
mod vm;
mod wire;

pub use abort::{AbortReason, ApplyError};
pub use program::{MAX_DEPTH, MAX_PROGRAM_SIZE, Program, ProgramError};
pub use run::MAX_STEPS;
pub use vm::Vm;
