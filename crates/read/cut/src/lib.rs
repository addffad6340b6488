//! Parts of traces as traces of their own, and several traces as one.
//!
//! A cut is a trace like any other. For the time from `from` to before `to`, every question has the answer that it has in the whole trace: what
//! reaches into that time from before or beyond keeps its true begin and end, counters have their last value before it, and whoever is named
//! elsewhere is named. What is outside of it is there only as far as that needs it.
//!
//! A file is read and never held. One pass sees all of it: `bounds` finds when it begins, and `index` what is needed from outside of the range
//! (which it has to know: a glance at the file's first megabytes guesses it; a guess that proves wrong costs a further pass). Then [`write`]
//! copies, and sees only the `blocks` in which something is kept. Memory is bounded whatever the file says; each module says by what.
//!
//! | module | what it does |
//! |---|---|
//! | `passes`, `walk` | what every pass does alike: sequences, flags, clocks |
//! | `kind` | which packets are about a time, and which about the trace |
//! | `bounds` | when the trace begins and ends |
//! | `index`, `tracks`, `ftrace`, `counted` | the pass that looks: slices, counters, scheduling at the ends of the range |
//! | `usual`, `tag` | the packets that most are, read in one go |
//! | `blocks` | which parts of the file the pass that writes has to see |
//! | `links` | the other ends of flows |
//! | `filter`, `around`, `sizes` | processes and categories; where a slice is; where to split |
//! | `plan` | what is needed, as the pass that looks tells it to the one that writes |
//! | [`write`], `edit` | the pass that writes |
//! | [`merge`] | several traces as one |
//!
//! **State.** Packets rely on earlier ones of their sequence: texts behind numbers, defaults, clocks and counters of differences. Of a packet that
//! is left out only that remains, if a later one that is kept relies on it (that is: has the same generation); times and values that are
//! differences become those from the last packet that was kept. So nothing is interned anew, and nothing of it is held.

#![forbid(unsafe_code)]

mod around;
mod blocks;
mod bounds;
mod counted;
mod cut;
mod edit;
mod event;
mod filter;
mod ftrace;
mod index;
mod kind;
mod links;
mod look;
mod merge;
mod names;
mod packed;
mod passes;
mod plan;
mod range;
mod sizes;
mod source;
mod tag;
mod tracks;
mod usual;
mod walk;
mod write;

pub use cut::{Around, Error, Options, Report, cut, split};
pub use merge::{Machines, Merged, merge};
pub use range::{Moment, Range};
pub use source::{Source, UnpackedFile};
