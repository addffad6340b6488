//! The shared-memory ABI of the Perfetto tracing protocol: pages, chunks and their states.
//!
//! A producer and the service map the same memory. It is divided into pages of equal size, a page into 1 to
//! 14 chunks. The producer takes a free chunk, writes packets into it and marks it complete; then it tells
//! the service over the socket, which copies the chunk and frees it. There is no lock across the processes:
//! the states of a page's chunks share one atomic word.
//!
//! ```text
//! page   │ bitmap: u32 │ reserved: u32 │ chunk 0 │ chunk 1 │ …
//! bitmap   bits 2i, 2i+1: state of chunk i; bits 28..=30: layout
//! chunk  │ chunk id: u32 │ writer id: u16 │ packet count (10 bits) and flags (6): u16 │ payload …
//! ```
//!
//! * [`SharedMemory`] is the mapping: a sealed memfd, or memory within one process.
//! * [`ProducerView`] hands out [`ChunkWriter`]s, each the sole owner of a chunk.
//! * [`ServiceView`] copies chunks out. It takes everything it reads for hostile: bad values are errors, and
//!   no reference into shared memory ever leaves this crate.
//!
//! [`heap`] is another kind of shared memory, between a program and the profiler of its heap: a ring of records.
//!
//! All `unsafe` code for shared memory is in one private module here. Upstream's definition is
//! `shared_memory_abi.h`.
//!
//! ```
//! use std::sync::Arc;
//! use ferretto_shm::{NewChunk, PageLayout, PageSize, ProducerView, ServiceView, SharedMemory};
//!
//! let memory = Arc::new(SharedMemory::in_process(16 * 4096)?);
//! let producer = ProducerView::new(Arc::clone(&memory), PageSize::DEFAULT)?;
//! let service = ServiceView::new(memory, PageSize::DEFAULT)?;
//!
//! let mut chunk = producer.try_acquire(PageLayout::Div1, NewChunk { chunk_id: 0, writer_id: 7 }).expect("all are free");
//! chunk.write_at(0, b"\x05hello"); // a fragment: its size, its bytes
//! chunk.increment_packet_count();
//! let at = chunk.complete()?;
//!
//! let mut payload = Vec::new();
//! let header = service.read_complete_chunk(at.page, at.chunk, &mut payload)?;
//! assert_eq!((header.writer_id, header.packet_count), (7, 1));
//! assert_eq!(&payload[..6], b"\x05hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(not(target_endian = "little"))]
compile_error!("the tracing ABI is little-endian, and so is this crate");

#[cfg(not(loom))]
pub mod heap;
mod layout;
#[cfg(not(loom))]
mod memory;
#[cfg(loom)]
#[path = "memory_loom.rs"]
mod memory;
mod pages;
mod producer;
mod service;
mod used;

pub use layout::{
    CHUNK_HEADER_LEN, ChunkFlags, ChunkHeader, ChunkState, InlineChunkError, MAX_CHUNK_LEN,
    MAX_CHUNKS_PER_PAGE, MAX_PACKETS_PER_CHUNK, PAGE_HEADER_LEN, PageLayout, PageSize, PageSizeError,
    WRITER_MAX_PACKETS_PER_CHUNK,
};
pub use memory::SharedMemory;
#[cfg(not(loom))]
pub use memory::{MAX_LEN, MemoryError, Seals};
pub use pages::{ChunkError, ChunkIndex, ViewError};
pub use producer::{ChunkWriter, NewChunk, ProducerView};
pub use service::{Scrape, ServiceView};
