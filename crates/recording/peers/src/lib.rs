//! Who connects to a daemon's socket may be anybody: what its users may hold of it, so that there is something left for others, and where
//! what they pass is closed, so that nobody else waits for it.
//!
//! | module | what it does |
//! |---|---|
//! | `holdings` | places and bytes, by users |
//! | `elsewhere` | closes descriptors that were passed, and sockets, on threads of their users |
//! | `unread` | keeps the places of those whose connection has ended, and who have not read all |
#![forbid(unsafe_code)]

mod elsewhere;
mod holdings;
mod unread;

pub use elsewhere::{Elsewhere, MAX_WAITING, Passed, Whose, close_stream};
pub use holdings::{Holder, Holdings, TooMuch};
pub use unread::{Unread, has_unread};
