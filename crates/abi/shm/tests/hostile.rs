//! A producer that breaks every rule: the service goes on, and touches nothing that is not its own.
#![cfg(not(loom))]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ferretto_shm::{ChunkError, ChunkState, PageSize, Seals, ServiceView, SharedMemory};
use proptest::prelude::*;

/// The producer's own mapping of the memory, where it can do as it likes.
struct Scribbler {
    words: *const AtomicU32,
    len: usize,
    _memory: Arc<SharedMemory>,
}

#[expect(unsafe_code, reason = "a hostile producer is not bound to this crate's API")]
impl Scribbler {
    /// A second mapping of `fd`'s memory by the system's ordinary means.
    fn new(memory: &Arc<SharedMemory>) -> Self {
        let len = memory.len();
        // SAFETY: no address is asked for, and the memfd has `len` bytes.
        // JUSTIFICATION: the test writes anywhere in the memory, which the API rightly does not offer.
        let base = unsafe {
            use rustix::mm::{MapFlags, ProtFlags, mmap};
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            mmap(std::ptr::null_mut(), len, prot, MapFlags::SHARED, memory.as_fd().unwrap(), 0).unwrap()
        };
        Self { words: base.cast(), len: len / 4, _memory: Arc::clone(memory) }
    }

    fn word(&self, index: usize) -> &AtomicU32 {
        assert!(index < self.len);
        // SAFETY: within the mapping, which is never unmapped.
        // JUSTIFICATION: as above.
        unsafe { &*self.words.add(index) }
    }
}

// SAFETY: all access is atomic.
// JUSTIFICATION: the test scribbles from a second thread.
#[expect(unsafe_code, reason = "as above")]
unsafe impl Send for Scribbler {}

fn memory(pages: usize, page_size: PageSize) -> (Arc<SharedMemory>, ServiceView) {
    let memory = Arc::new(SharedMemory::create(pages * page_size.bytes()).unwrap());
    let peer = memory.as_fd().unwrap().try_clone_to_owned().unwrap();
    let service_memory = Arc::new(SharedMemory::from_fd(peer, Seals::Required).unwrap());
    (memory, ServiceView::new(service_memory, page_size).unwrap())
}

#[test]
fn each_broken_rule_has_its_own_error_and_changes_nothing() {
    let (memory, service) = memory(2, PageSize::DEFAULT);
    let scribbler = Scribbler::new(&memory);
    let complete = |chunk: u32| 3 << (2 * chunk);
    let wrong = |found| ChunkError::WrongState { page: 1, chunk: 0, expected: ChunkState::Complete, found };
    let cases = [
        (0, 0, ChunkError::NotPartitioned { page: 1, layout: 0 }),
        (6 << 28 | complete(0), 0, ChunkError::NotPartitioned { page: 1, layout: 6 }),
        (7 << 28 | complete(0), 0, ChunkError::NotPartitioned { page: 1, layout: 7 }),
        (1 << 28 | complete(1), 1, ChunkError::NoSuchChunk { page: 1, chunk: 1, chunks: 1 }),
        (5 << 28 | complete(13), 14, ChunkError::NoSuchChunk { page: 1, chunk: 14, chunks: 14 }),
        (5 << 28, u32::MAX, ChunkError::NoSuchChunk { page: 1, chunk: u32::MAX, chunks: 14 }),
        (2 << 28 | complete(1), 0, wrong(ChunkState::Free)),
        (2 << 28 | 1, 0, wrong(ChunkState::BeingWritten)),
        (2 << 28 | 2, 0, wrong(ChunkState::BeingRead)),
    ];
    for (bitmap, chunk, expected) in cases {
        scribbler.word(1024).store(bitmap, Ordering::Relaxed);
        let mut payload = vec![1];
        assert_eq!(service.read_complete_chunk(1, chunk, &mut payload), Err(expected));
        assert_eq!(scribbler.word(1024).load(Ordering::Relaxed), bitmap, "{expected}");
        assert!(payload.is_empty());
    }
    for page in [2, u32::MAX] {
        let found = service.read_complete_chunk(page, 0, &mut Vec::new());
        assert_eq!(found, Err(ChunkError::NoSuchPage { page, pages: 2 }));
    }
}

#[test]
fn reserved_bits_survive_and_do_not_matter() {
    let (memory, service) = memory(1, PageSize::DEFAULT);
    let scribbler = Scribbler::new(&memory);
    scribbler.word(0).store(1 << 31 | 2 << 28 | 3 << 2 | 1, Ordering::Relaxed);
    scribbler.word(2 + 511 + 1).store(u32::MAX, Ordering::Relaxed); // header of chunk 1
    let header = service.read_complete_chunk(0, 1, &mut Vec::new()).unwrap();
    assert_eq!((header.writer_id, header.packet_count, header.flags.bits()), (0xffff, 1023, 7));
    assert_eq!(scribbler.word(0).load(Ordering::Relaxed), 1 << 31 | 2 << 28 | 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_memory_can_be_read_and_scraped(
        shift in 0u32..5,
        bitmaps in prop::collection::vec(any::<u32>(), 2),
        seed: u32,
    ) {
        let page_size = PageSize::new(4096 << shift).unwrap();
        let (memory, service) = memory(2, page_size);
        let scribbler = Scribbler::new(&memory);
        let mut value = seed | 1;
        for index in 0..memory.len() / 4 {
            value = value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            scribbler.word(index).store(value, Ordering::Relaxed);
        }
        let words_per_page = page_size.bytes() / 4;
        for (page, bitmap) in bitmaps.iter().enumerate() {
            scribbler.word(page * words_per_page).store(*bitmap, Ordering::Relaxed);
        }
        service.scrape(|_| true, |header, payload, _| {
            assert!(header.packet_count <= 1023 && payload.len() < 65536);
        });
        let mut payload = Vec::new();
        for page in 0..3 {
            for chunk in 0..16 {
                let before = bitmaps.get(page as usize).map_or(0, |bitmap| bitmap >> (2 * chunk) & 3);
                let read = service.read_complete_chunk(page, chunk, &mut payload);
                prop_assert!(read.is_err() || before == 3);
            }
        }
    }
}

/// Whatever the other thread writes at the same time, calls return, and soon.
#[test]
fn scribbling_while_the_service_reads_does_not_stop_it() {
    let page_size = PageSize::DEFAULT;
    let (memory, service) = memory(4, page_size);
    let stop = Arc::new(AtomicBool::new(false));
    let scribbler = Scribbler::new(&memory);
    let stopped = Arc::clone(&stop);
    let thread = thread::spawn(move || {
        let scribbler = scribbler;
        let mut value = 1u32;
        while !stopped.load(Ordering::Relaxed) {
            for page in 0..4 {
                value = value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Plausible pages most of the time: valid layouts, random states.
                let layout = if value & 7 == 0 { value >> 28 } else { 1 + (value >> 8) % 5 };
                scribbler.word(page * 1024).store(layout << 28 | value >> 4, Ordering::Relaxed);
                scribbler
                    .word(page * 1024 + 2 + (value >> 20) as usize % 1000)
                    .store(value, Ordering::Relaxed);
            }
        }
    });
    let (mut read, mut refused, mut scraped) = (0u64, 0u64, 0u64);
    let mut payload = Vec::new();
    let deadline = Instant::now() + Duration::from_millis(500);
    while Instant::now() < deadline {
        for page in 0..4 {
            for chunk in 0..14 {
                match service.read_complete_chunk(page, chunk, &mut payload) {
                    Ok(_) => read += 1,
                    Err(_) => {
                        assert!(payload.is_empty());
                        refused += 1;
                    }
                }
            }
        }
        service.scrape(|_| true, |_, _, _| scraped += 1);
    }
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    println!("{read} read, {refused} refused, {scraped} scraped");
    assert!(read + refused > 0);
}
