//! A trace file in, its tables out.
//!
//! | module | what it does |
//! |---|---|
//! | [`drive`](import) | reads a file through to its end, on threads of its own |

mod drive;
mod error;

pub use crate::drive::{Imported, Options, import};
pub use crate::error::Error;
