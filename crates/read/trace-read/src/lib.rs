//! Bytes to packets: where each packet of a trace begins and ends, what is compressed in it, and what its head says.
//!
//! A trace is `repeated TracePacket packet = 1` (upstream: trace.proto): the byte 0x0a, a length, and so many bytes, again and again. The
//! whole may be compressed (gzip, zstd), and so may packets together, within one packet. Nothing here knows what a
//! packet is about, but for snapshots of clocks: without them no head's time means anything.
//!
//! | module | what it does |
//! |---|---|
//! | [`stream`] | cuts a file that comes in pieces, and may still grow, into packets |
//! | [`batch`] | unpacks packets that were compressed together |
//! | [`container`] | what a file is by its first bytes, and its bytes without gzip or zstd around them |
//! | [`zip`], [`tar`] | the members of an archive |
//! | [`recognize`] | which format a file is, of all that are known |
//! | [`reader`] | all of it together: a file, packet by packet, each with its [`Place`] |
//! | [`fields`] | the fields of a message, quickly |
//! | [`wire`] | the same for rare messages, in fewer words |
//! | [`head`] | the fields that every packet may have: time, sequence, flags, and which data it carries |
//! | [`recent`] | what was looked up just before |
//! | [`clocks`], [`remote_clocks`] | every clock's time to the trace's; what pings say of another machine's |
//!
//! A trace is hostile. Memory is bounded whatever it says: one packet ([`stream::MAX_BUFFERED_PACKET_BYTES`]), the window of what
//! decompresses it, and the constants of [`clocks`]. Time grows as the packets do, and what is unpacked as the file does
//! ([`Reader::within`]). What is whole is read; what is not is an error, or a count, with its place.

pub mod batch;
pub mod clocks;
pub mod container;
pub mod fields;
pub mod head;
pub mod place;
pub mod reader;
pub mod recent;
pub mod recognize;
pub mod remote_clocks;
pub mod stream;
pub mod tar;
pub mod wire;
pub mod zip;

pub use batch::Batch;
pub use head::{Change, Continuity, Head, Heads, Written};
pub use place::Place;
pub use reader::{End, Reader};
pub use stream::PacketStream;
