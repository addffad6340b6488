//! Track events: slices, instants, counters, states, logs, from a macro to the packets of a sequence.
//!
//! | modules | what they are for |
//! |---|---|
//! | `macros`, `point`, `details`, `value`, `serialized` | what a trace point says |
//! | `category`, `matching`, `wishes` | which events sessions want, and in which form |
//! | `track`, `flow`, `location`, `timestamp` | what events refer to |
//! | `event`, `session` | the way of an event: to each session that records it, on this thread |
//! | `sequence`, `payload`, `descriptors`, `numbers`, `thread_time` | packets, and what the reader of a sequence knows |
//! | `source`, `startup` | the data source `track_event`, and sessions that are still to come |

pub(crate) mod category;
mod descriptors;
pub(crate) mod details;
pub(crate) mod event;
pub(crate) mod flow;
pub(crate) mod location;
mod macros;
mod matching;
pub(crate) mod numbers;
pub(crate) mod open;
mod payload;
pub(crate) mod point;
mod sequence;
#[cfg(feature = "serde")]
pub(crate) mod serialized;
pub(crate) mod session;
pub(crate) mod source;
pub(crate) mod startup;
mod thread_time;
pub(crate) mod timestamp;
pub(crate) mod track;
pub(crate) mod value;
mod wishes;
