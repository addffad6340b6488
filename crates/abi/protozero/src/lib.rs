//! Writes protobuf straight into memory that may end in the middle of a message; reads it without copying.
//!
//! A trace point cannot know how long a nested message gets before its last field is written, and the memory
//! it writes to (a chunk of shared memory) may run out before that. So a nested message starts with four
//! reserved bytes for its length, which are filled in when the message ends; if their chunk is gone by then,
//! the sink makes a patch of them, to be applied by whoever holds the chunk's copy.
//!
//! * [`Message`] encodes fields into a [`Sink`]; it is thin and free of allocation.
//! * [`Sink`] is where the bytes go. `Vec<u8>` is one; [`RangeSink`] is one made of small ranges, for tests
//!   and scratch space; the producer has one over chunks of shared memory.
//! * [`read::Fields`] iterates over the fields of an encoded message, which may come from a hostile process.
//! * [`control`] reads and writes control messages with little code.
//! * [`fnv`] makes numbers of names.
//! * [`varint`] has the encodings underneath.
//!
//! This crate knows no message by name.
//!
//! ```
//! use ferretto_protozero::{Message, read::{Fields, Value}};
//!
//! let mut bytes = Vec::new();
//! let mut root = Message::new(&mut bytes);
//! root.varint(1, 150);
//! let mut child = root.nested(2);
//! child.string(1, "hello");
//! drop(child); // fills the length in
//! drop(root);
//! assert_eq!(bytes, b"\x08\x96\x01\x12\x07\x0a\x05hello");
//!
//! let fields: Result<Vec<_>, _> = Fields::new(&bytes).collect();
//! assert_eq!(fields.unwrap()[0].value, Value::Varint(150));
//! ```
#![forbid(unsafe_code)]

pub mod control;
pub mod fnv;
mod message;
mod ranges;
pub mod read;
mod sink;
pub mod varint;

pub use message::Message;
pub use ranges::{LenPatch, Range, RangeSink};
pub use sink::{LenSlot, MAX_LEN, SMALL_LEN, Sink};
