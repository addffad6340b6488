//! All interleavings of a writer's thread with the service, on one page of memory.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p ferretto-shm --release --test loom`
#![cfg(loom)]

use std::sync::Arc;

use ferretto_shm::{ChunkHeader, NewChunk, PageLayout, PageSize, ProducerView, ServiceView, SharedMemory};
use loom::thread;

fn views(pages: usize) -> (ProducerView, ServiceView) {
    let page_size = PageSize::new(64).unwrap();
    let memory = Arc::new(SharedMemory::in_process(pages * 64).unwrap());
    let producer = ProducerView::new(Arc::clone(&memory), page_size).unwrap();
    (producer, ServiceView::new(memory, page_size).unwrap())
}

fn write_packet(chunk: &mut ferretto_shm::ChunkWriter, number: u8) {
    chunk.increment_packet_count();
    let at = 2 * usize::from(number);
    chunk.write_at(at, &[1, number + 0x10]);
}

/// All packets but the last of an incomplete chunk must be there.
fn check(header: ChunkHeader, payload: &[u8], complete: bool) {
    let whole = if complete { header.packet_count } else { header.packet_count - 1 };
    for number in 0..whole as u8 {
        let at = 2 * usize::from(number);
        assert_eq!(
            payload[at..at + 2],
            [1, number + 0x10],
            "packet {number} of {header:?}, complete: {complete}"
        );
    }
}

#[test]
fn a_scrape_sees_every_packet_that_is_counted_as_finished() {
    loom::model(|| {
        let (producer, service) = views(1);
        let writer = thread::spawn(move || {
            let new = NewChunk { chunk_id: 5, writer_id: 9 };
            let mut chunk = producer.try_acquire(PageLayout::Div1, new).unwrap();
            write_packet(&mut chunk, 0);
            write_packet(&mut chunk, 1);
            chunk.complete().unwrap();
        });
        service.scrape(
            |writer_id| writer_id == 9,
            |header, payload, complete| {
                assert_eq!((header.chunk_id, header.writer_id), (5, 9));
                check(header, payload, complete);
            },
        );
        writer.join().unwrap();
    });
}

#[test]
fn a_complete_chunk_is_read_whole_and_can_be_taken_again() {
    loom::model(|| {
        let (producer, service) = views(1);
        let writer = thread::spawn(move || {
            let new = NewChunk { chunk_id: 0, writer_id: 9 };
            let mut chunk = producer.try_acquire(PageLayout::Div1, new).unwrap();
            write_packet(&mut chunk, 0);
            chunk.complete().unwrap();
            // The next one is there only if the service has freed the first.
            if let Some(mut chunk) =
                producer.try_acquire(PageLayout::Div1, NewChunk { chunk_id: 1, writer_id: 9 })
            {
                write_packet(&mut chunk, 0);
                chunk.complete().unwrap();
            }
        });
        let mut payload = Vec::new();
        let mut expected_id = 0;
        for _ in 0..2 {
            if let Ok(header) = service.read_complete_chunk(0, 0, &mut payload) {
                assert_eq!((header.chunk_id, header.writer_id, header.packet_count), (expected_id, 9, 1));
                check(header, &payload, true);
                expected_id += 1;
            }
        }
        writer.join().unwrap();
    });
}

#[test]
fn two_writers_never_get_the_same_chunk() {
    loom::model(|| {
        let (producer, _service) = views(1);
        let other = producer.clone();
        let take = |producer: &ProducerView, writer_id| {
            let new = NewChunk { chunk_id: 0, writer_id };
            producer.try_acquire(PageLayout::Div2, new).map(|chunk| chunk.complete().unwrap())
        };
        let thread = thread::spawn(move || take(&other, 1));
        let ours = take(&producer, 2);
        let theirs = thread.join().unwrap();
        assert!(ours.is_some() || theirs.is_some());
        assert_ne!(ours, theirs);
    });
}
