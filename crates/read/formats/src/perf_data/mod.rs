//! Recordings of Linux's `perf` (perf.data, upstream: importers/perf).
//!
//! A file is a header with the *attributes* of what was sampled, then records in the order in which the kernel's buffers were read, then
//! *features*: what the machine and the recording were. What `perf record -o -` writes has all of these as records. Records may be packed.
//! (The format is Linux's tools/perf/Documentation/perf.data-file-format.txt, and perf_event.h of its ABI.)
//!
//! | module | what it does |
//! |---|---|
//! | `bytes` | numbers and texts out of records |
//! | `attr` | what was sampled, and where in records the time and the id are |
//! | `file` | the parts of a file, in the order in which they come |
//! | `packed` | records that were packed together |
//! | `records` | records out of their bytes |
//! | `session` | attributes, names and build ids, whichever part they came in |
//! | `tracepoints` | what the kernel's events say in their raw bytes |
//! | `maps` | which file is at an address |
//! | `apply` | records in their turn |
//!
//! Rows are those of upstream, with these reasons for more: forks and exits start and end threads and processes, and a child has its parent's
//! mappings and name until it starts another program (upstream counts such records as unknown); losses that the kernel tells of are
//! counted by processor; a process has the name of its main thread; piped and packed recordings are read, as are those that were not
//! finished. Frames in no mapping share one. Samples of tracepoints are events of the kernel, too: rows of `ftrace_event` with their arguments.
//!
//! Memory: what samples and other records say, a hundred bytes and eight a frame each, for they are in no order; packed ones beside that.

mod apply;
mod attr;
mod bytes;
mod file;
mod maps;
mod packed;
mod records;
mod session;
mod tracepoints;

use std::io::BufRead;

use ferretto_trace_model::model::Model;

use crate::Error;
use records::Events;
use session::Session;

/// Reads a file.
///
/// # Errors
///
/// If its bytes cannot be had, are too many in one part, or are no such file from some place on. What is before it is in the model.
pub fn read(file: impl BufRead, model: &mut Model) -> Result<(), Error> {
    let mut session = Session::default();
    let mut events = Events::default();
    let end = file::read(file, &mut session, &mut events);
    apply::apply(model, &session, events);
    end
}
