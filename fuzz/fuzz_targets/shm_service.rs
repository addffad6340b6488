//! Any shared memory, changed between any calls of the service: errors or copies, and no chunk touched that
//! is the producer's.
#![no_main]

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use ferretto_shm::{ChunkState, PageSize, Seals, ServiceView, SharedMemory};
use libfuzzer_sys::fuzz_target;

const PAGES: u32 = 2;

fuzz_target!(|data: &[u8]| {
    let [shift, fill @ ..] = data else { return };
    let Ok(page_size) = PageSize::new(4096 << (shift % 5)) else { return };
    let memory = SharedMemory::create(PAGES as usize * page_size.bytes()).expect("memory can be had");
    let producer =
        memory.as_fd().expect("it has a descriptor").try_clone_to_owned().expect("it can be copied");
    let service = producer.try_clone().expect("it can be copied");
    let service = Arc::new(SharedMemory::from_fd(service, Seals::Required).expect("it is sealed"));
    let view = ServiceView::new(service, page_size).expect("it has whole pages");

    let mut world = World { producer, page_size, view, payload: Vec::new() };
    let (pages, ops) = fill.split_at(fill.len() / 2);
    for (page, bytes) in (0..PAGES).zip(pages.chunks(pages.len().div_ceil(PAGES as usize).max(1))) {
        world.write(page, 0, bytes);
    }
    for op in ops.chunks_exact(7) {
        world.apply([op[0], op[1], op[2]], &op[3..]);
    }
});

struct World {
    /// The producer writes by system calls, so that the target needs no mapping of its own.
    producer: OwnedFd,
    page_size: PageSize,
    view: ServiceView,
    payload: Vec<u8>,
}

impl World {
    fn apply(&mut self, [op, a, b]: [u8; 3], bytes: &[u8]) {
        let page = u32::from(a % 4);
        match op % 4 {
            0 => self.write(page % PAGES, 0, bytes),
            1 => self.write(page % PAGES, usize::from(b) * 4, bytes),
            2 => self.read(page, u32::from(b % 16)),
            _ => self.view.scrape(
                |writer_id| writer_id % 2 == u16::from(b % 2),
                |header, payload, complete| {
                    assert!(header.packet_count <= 1023 && (complete || header.packet_count >= 2));
                    assert!(payload.len() <= 65520);
                },
            ),
        }
    }

    fn write(&self, page: u32, offset: usize, bytes: &[u8]) {
        let page_start = page as usize * self.page_size.bytes();
        let room = self.page_size.bytes().saturating_sub(offset);
        let bytes = &bytes[..bytes.len().min(room)];
        let _ = rustix::io::pwrite(self.producer.as_fd(), bytes, (page_start + offset) as u64);
    }

    fn bitmap(&self, page: u32) -> Option<u32> {
        let mut bytes = [0; 4];
        let at = u64::from(page) * self.page_size.bytes() as u64;
        rustix::io::pread(self.producer.as_fd(), &mut bytes[..], at).ok().filter(|len| *len == 4)?;
        Some(u32::from_le_bytes(bytes))
    }

    fn read(&mut self, page: u32, chunk: u32) {
        let before = self.bitmap(page);
        let result = self.view.read_complete_chunk(page, chunk, &mut self.payload);
        assert_eq!(result.is_ok(), !self.payload.is_empty());
        let (Some(before), Some(after)) = (before, self.bitmap(page)) else {
            assert!(result.is_err());
            return;
        };
        let state = |bitmap: u32| bitmap >> (2 * chunk.min(13)) & 3;
        if result.is_err() {
            assert_eq!(before, after, "a refused chunk is left as it is");
        } else {
            assert_eq!(state(before), ChunkState::Complete as u32);
            let freed = before & !(3 << (2 * chunk));
            assert!(after == freed || (after == 0 && freed & 0x0fff_ffff == 0), "nothing else changes");
        }
    }
}
