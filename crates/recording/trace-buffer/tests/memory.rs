//! What the buffer takes beside its ring, counted at the allocator.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use ferretto_trace_buffer::{
    Chunk, ClientIdentity, FillPolicy, MAX_WRITER_HISTOGRAMS, ProducerId, TraceBuffer, WriterHistogram,
};

thread_local! {
    /// By this thread: the test harness has others, which are none of the buffer's.
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

fn allocated() -> usize {
    ALLOCATED.with(Cell::get)
}

fn count(change: impl FnOnce(usize) -> usize) {
    // In the last moments of a thread nobody counts.
    let _ = ALLOCATED.try_with(|allocated| allocated.set(change(allocated.get())));
}

struct Counting;

// SAFETY: the system's allocator does everything.
// JUSTIFICATION: there is no other way to see what is allocated.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(|allocated| allocated.wrapping_add(layout.size()));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(|allocated| allocated.wrapping_sub(layout.size()));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const RING_BYTES: usize = 128 * 1024 * 1024;

/// Each of `num_writers` commits `chunks_each` chunks; gives the bytes that the buffer has allocated beside its ring (which does not come
/// from the allocator) and beside the histograms of chunk sizes, which are statistics and outlive the sequences.
fn bytes_beside_the_ring(num_writers: usize, chunks_each: u32) -> usize {
    let before = allocated();
    let mut buffer = TraceBuffer::new(RING_BYTES, FillPolicy::Ring).expect("128 MiB");
    for chunk_id in 0..chunks_each {
        for writer in 0..num_writers {
            buffer.copy_chunk(&Chunk {
                producer: ProducerId(1 + (writer >> 16) as u16),
                client: ClientIdentity::default(),
                writer: writer as u16,
                chunk_id,
                num_fragments: 1,
                flags: 0,
                complete: true,
                payload: b"\x03abc",
            });
        }
    }
    assert_eq!(buffer.stats().chunks_overwritten, 0);
    let allocated = allocated() - before;
    let key_and_index_bytes = 16;
    let histograms = num_writers.next_power_of_two().min(MAX_WRITER_HISTOGRAMS)
        * (size_of::<WriterHistogram>() + key_and_index_bytes);
    allocated - histograms
}

#[test]
fn a_live_sequence_takes_at_most_64_bytes_and_a_chunk_8() {
    // Just above the sizes at which tables grow, and far above.
    for num_writers in [1000, 14_337, 28_673, 57_345, 65_537, 114_689, 200_000] {
        for chunks_each in [1, 2, 3, 9] {
            let bytes = bytes_beside_the_ring(num_writers, chunks_each);
            let chunks = num_writers * chunks_each as usize;
            assert!(
                bytes <= 64 * num_writers + 8 * chunks,
                "{num_writers} sequences with {chunks_each} chunks each take {bytes} bytes: {:.1} a sequence",
                (bytes as f64 - 8.0 * chunks as f64) / num_writers as f64
            );
        }
    }
}

#[test]
fn sequences_that_come_and_go_do_not_add_up() {
    let before = allocated();
    let mut buffer = TraceBuffer::new(4096, FillPolicy::Ring).expect("a page");
    let mut peak = 0;
    for number in 0..400_000usize {
        buffer.copy_chunk(&Chunk {
            producer: ProducerId(1 + (number >> 16) as u16),
            client: ClientIdentity::default(),
            writer: number as u16,
            chunk_id: 0,
            num_fragments: 1,
            flags: 0,
            complete: true,
            payload: b"\x03abc",
        });
        // What the harness has made may be freed here.
        peak = peak.max(allocated().saturating_sub(before));
    }
    let histograms = 2 * MAX_WRITER_HISTOGRAMS * (size_of::<WriterHistogram>() + 16);
    assert!(peak < histograms + 512 * 1024, "400,000 short-lived writers took {peak} bytes");
}

/// A clone copies at once where the chunks of all buffers of a session are.
#[test]
fn where_chunks_are_takes_no_more_in_many_buffers_than_in_one() {
    const CHUNKS: u32 = 300_000;
    const HEADER_BYTES: u64 = 16;
    let size_of_each = |parts| {
        let mut buffer = TraceBuffer::new(RING_BYTES, FillPolicy::Ring).expect("128 MiB").one_of(parts);
        for chunk_id in 0..CHUNKS {
            buffer.copy_chunk(&Chunk {
                producer: ProducerId(1),
                client: ClientIdentity::default(),
                writer: 1,
                chunk_id,
                num_fragments: 0,
                flags: 0,
                complete: true,
                payload: &[],
            });
        }
        buffer.stats().bytes_written / u64::from(CHUNKS)
    };
    assert_eq!(size_of_each(1), HEADER_BYTES);
    assert!(size_of_each(32) > 10 * HEADER_BYTES);
    assert!(size_of_each(128) > 100 * HEADER_BYTES);
}
