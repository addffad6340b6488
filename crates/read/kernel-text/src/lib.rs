//! The kernel's events as its own text (`trace` of tracefs, as systrace and Trace Processor's `to_ftrace` have it).
//!
//! A line an event: `COMM-PID (TGID) [CPU] FLAGS SECONDS.MICROS: EVENT: ARGS`. The usual events have the kernel's own words
//! (module `formats`), others their arguments as `name=value`. What writes a whole text and what makes one line of SQL have it from here, and all
//! that look at arguments of events have them from [`args_of`].

mod args;
mod formats;
mod line;

pub use args::{Arg, ArgValue, args_of};
pub use line::{HEAD, write_event};
