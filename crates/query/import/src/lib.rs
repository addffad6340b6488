//! A trace file in, its tables out.
//!
//! | module | what it does |
//! |---|---|
//! | [`drive`] | reads a file through to its end: one thread reads and unpacks, the caller's makes tables |
//! | [`archive`] | a zip of traces, each one more file of the same trace |
//! | [`memory`] | how much memory there is, and is used; the bound on it |
//! | `jobs` | what another thread does meanwhile |
//! | `hash` | the hash of the file, one of these things, for who asks for it |
//! | `plain` | the file again: what waits for its turn lies in it, if it is plain |
//! | `block_file` | a file for what it has no room for |
//! | [`kept`] | tables in a file, to be asked again without their trace |
//!
//! The rows are the same whatever the number of threads: packets come to the rules in the order of the file, on one thread; others read and
//! unpack before them, and behind them write what no rule waits for, and pack columns. This is the only room of the wing that starts threads.
//!
//! ```
//! use ferretto_import::{Options, import};
//!
//! let trace = b"\x0a\x02\x40\x01";
//! let (tables, imported) = import(&trace[..], &Options::default(), &mut |_| true)?;
//! assert_eq!((imported.end.packets, imported.source.bytes), (1, 4));
//! assert!(tables.slice.is_empty());
//! # Ok::<_, ferretto_import::Error>(())
//! ```

pub mod archive;
mod block_file;
pub mod drive;
mod error;
mod hash;
mod jobs;
pub mod kept;
mod manifest;
pub mod memory;
mod others;
mod plain;
mod source;

pub use crate::drive::{Imported, Options, Progress, import};
pub use crate::error::Error;
pub use crate::others::is_trace;
pub use crate::source::SourceFile;
