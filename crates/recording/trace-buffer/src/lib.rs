//! The ring that gives back whole packets, in order, with every loss accounted for.
//!
//! Producers write packets into chunks of shared memory; the service copies each chunk into a [`TraceBuffer`]
//! when it is committed or scraped. Chunks arrive late, twice, out of order, in need of patches, or malformed.
//! What comes out of [`TraceBuffer::read_next`] is always a whole packet, in the order its writer wrote it,
//! marked with the reasons ([`loss`]) of whatever is missing before it.
//!
//! ```
//! use ferretto_trace_buffer::{Chunk, ClientIdentity, FillPolicy, ProducerId, TraceBuffer};
//!
//! let mut buffer = TraceBuffer::new(64 * 1024, FillPolicy::Ring)?;
//! buffer.copy_chunk(&Chunk {
//!     producer: ProducerId(1),
//!     client: ClientIdentity { uid: 1000, pid: 42, machine_id: 0 },
//!     writer: 1,
//!     chunk_id: 0,
//!     num_fragments: 2,
//!     flags: 0,
//!     complete: true,
//!     payload: b"\x03one\x03two", // each fragment begins with its size as a varint
//! });
//!
//! buffer.begin_read();
//! let mut packets = Vec::new();
//! while let Some(packet) = buffer.read_next() {
//!     packets.push(packet.to_vec());
//! }
//! assert_eq!(packets, [b"one", b"two"]);
//! # Ok::<(), ferretto_trace_buffer::CreateError>(())
//! ```
//!
//! The crate knows nothing of sockets, clocks or shared memory: a chunk's payload is a slice of private memory.
//! Nothing in a chunk or a patch can make it panic, loop or allocate without bound.
//!
//! | module | what it does |
//! |---|---|
//! | `buffer` | the public type and its parts |
//! | `ring` | the bytes: chunk headers and payloads at offsets |
//! | `fragments` | cuts a payload into fragments |
//! | `sequence`, `sequences` | the state of one writer; the table of all |
//! | `chunk_queue` | where one writer's chunks are |
//! | `write`, `patch` | what a commit does |
//! | `evict` | makes room in the ring, and gives what goes to whoever wants it |
//! | `drain` | walks one sequence in order; reading and evicting share it |
//! | `read` | walks the ring and gives out packets |
//! | `fold` | keeps what the packets that are left rely on of those that are gone |
//! | `snapshot`, `compact` | read-only clones; moving live chunks to the front |
//! | [`validator`] | is a packet fit to go into a trace? |

#![deny(unsafe_code)]

mod buffer;
mod chunk_queue;
mod compact;
mod copying;
mod drain;
mod evict;
mod fold;
mod fragments;
#[cfg(test)]
mod invariants;
pub mod loss;
mod memory;
mod patch;
mod prefetch;
mod read;
mod ring;
mod sequence;
mod sequences;
mod snapshot;
mod stats;
pub mod validator;
mod write;

pub use buffer::{
    ClientIdentity, CreateError, FillPolicy, ProducerId, TraceBuffer, WriterOwner, WritersOfOwner,
};
pub use compact::{CompactionBudget, Released};
pub use evict::OverwriteSink;
pub use patch::Patch;
pub use read::{Packet, Slices};
pub use stats::{
    HISTOGRAM_BOUNDS_BYTES, HISTOGRAM_BUCKETS, MAX_WRITER_HISTOGRAMS, Stats, Unread, WriterHistogram,
};
pub use write::{Chunk, chunk_flags};
