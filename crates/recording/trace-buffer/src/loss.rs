//! Why packets of a sequence are missing: the bits of `TracePacket.previous_packet_dropped`.
//!
//! Names and values are upstream's `TracePacket.DataLossReason` (trace_packet.proto). A packet carries the
//! bits of everything that was lost on its sequence since the packet before it.

/// Set together with any other bit, so that readers which know only "dropped or not" stay right.
pub const DATA_LOSS_PRESENT: u32 = 1;
/// The ids of two chunks read one after the other are not consecutive.
pub const READ_GAP: u32 = 2;
/// A fragment's size ran over the end of its chunk.
pub const CHUNK_CORRUPTED: u32 = 4;
/// The continuation of a packet whose beginning is not there.
pub const ORPHAN_CONTINUATION: u32 = 8;
/// A packet's fragments are in chunks whose ids are not consecutive.
pub const REASSEMBLY_GAP: u32 = 16;
/// The beginning of a packet is followed by something that does not continue it.
pub const REASSEMBLY_BROKEN_CHAIN: u32 = 32;
/// The ring overwrote packets that nobody had read.
pub const OVERWRITE: u32 = 64;
/// The writer gave up in the middle of a packet, for want of shared memory.
pub const WRITER_ABORT: u32 = 128;
/// Set by the producer's trace writer in the packet itself, never by the buffer.
pub const SMB_FULL: u32 = 256;
