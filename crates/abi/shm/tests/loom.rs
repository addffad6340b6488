//! All interleavings of a writer's thread with the service, on one page of memory.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p ferretto-shm --release --test loom`
#![cfg(loom)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ferretto_shm::{
    ChunkHeader, ChunkWriter, NewChunk, PageLayout, PageSize, ProducerView, ServiceView, SharedMemory,
};
use loom::thread;

fn views(pages: usize) -> (ProducerView, ServiceView) {
    let page_size = PageSize::new(64).unwrap();
    let memory = Arc::new(SharedMemory::in_process(pages * 64).unwrap());
    let producer = ProducerView::new(Arc::clone(&memory), page_size).unwrap();
    (producer, ServiceView::new(memory, page_size).unwrap())
}

/// A word, so that the model sees one store.
fn packet(number: u8) -> [u8; 4] {
    [3, number + 0x10, number + 0x20, number + 0x30]
}

fn write_packet(chunk: &mut ChunkWriter, number: u8) {
    chunk.increment_packet_count();
    chunk.write_at(4 * usize::from(number), &packet(number));
}

/// All packets but the last of an incomplete chunk must be there.
fn check(header: ChunkHeader, payload: &[u8], complete: bool) {
    let whole = if complete { header.packet_count } else { header.packet_count - 1 };
    for number in 0..whole as u8 {
        let at = 4 * usize::from(number);
        assert_eq!(
            payload[at..at + 4],
            packet(number),
            "packet {number} of {header:?}, complete: {complete}"
        );
    }
}

/// How often the model came upon something, to be sure that it looked where it should.
struct Seen(AtomicU32);

impl Seen {
    const fn never() -> Self {
        Self(AtomicU32::new(0))
    }

    fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn at_least_once(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

// The writer runs on the first thread: the model checker starts with its whole run, and finds the other
// schedules from the loads of the second thread that conflict with it.

#[test]
fn a_scrape_sees_every_packet_that_is_counted_as_finished() {
    static COMPLETE: Seen = Seen::never();
    static INCOMPLETE: Seen = Seen::never();
    loom::model(|| {
        let (producer, service) = views(1);
        let scraper = thread::spawn(move || {
            service.scrape(
                |writer_id| writer_id == 9,
                |header, payload, complete| {
                    assert_eq!((header.chunk_id, header.writer_id), (5, 9));
                    check(header, payload, complete);
                    if complete { COMPLETE.note() } else { INCOMPLETE.note() }
                },
            );
        });
        let mut chunk =
            producer.try_acquire(PageLayout::Div1, NewChunk { chunk_id: 5, writer_id: 9 }).unwrap();
        write_packet(&mut chunk, 0);
        write_packet(&mut chunk, 1);
        chunk.complete().unwrap();
        scraper.join().unwrap();
    });
    assert!(COMPLETE.at_least_once() && INCOMPLETE.at_least_once());
}

/// A small packet is written before it is counted, and then one is counted ahead: the last one counted is no packet yet.
#[test]
fn a_scrape_sees_every_packet_that_was_written_before_it_was_counted() {
    static TWO: Seen = Seen::never();
    loom::model(|| {
        let (producer, service) = views(1);
        let scraper = thread::spawn(move || {
            service.scrape(
                |writer_id| writer_id == 9,
                |header, payload, complete| {
                    assert!(!complete);
                    check(header, payload, false);
                    if header.packet_count == 3 {
                        TWO.note();
                    }
                },
            );
        });
        let mut chunk =
            producer.try_acquire(PageLayout::Div1, NewChunk { chunk_id: 5, writer_id: 9 }).unwrap();
        chunk.write_at(0, &packet(0));
        chunk.increment_packet_count();
        chunk.increment_packet_count();
        chunk.write_at(4, &packet(1));
        chunk.increment_packet_count();
        scraper.join().unwrap();
    });
    assert!(TWO.at_least_once());
}

#[test]
fn a_complete_chunk_is_read_whole_and_can_be_taken_again() {
    let mut model = loom::model::Builder::new();
    // Waiting loops make many schedules; three preemptions reach every order of the steps that matter, in
    // seconds.
    model.preemption_bound = Some(3);
    model.check(|| {
        let (producer, service) = views(1);
        let reader = thread::spawn(move || {
            let mut payload = Vec::new();
            for expected_id in 0..2 {
                let header = loop {
                    match service.read_complete_chunk(0, 0, &mut payload) {
                        Ok(header) => break header,
                        Err(_) => thread::yield_now(),
                    }
                };
                assert_eq!((header.chunk_id, header.writer_id, header.packet_count), (expected_id, 9, 1));
                check(header, &payload, true);
            }
        });
        for chunk_id in 0..2 {
            // The second one is there only when the service has freed the first.
            let mut chunk = loop {
                match producer.try_acquire(PageLayout::Div1, NewChunk { chunk_id, writer_id: 9 }) {
                    Some(chunk) => break chunk,
                    None => thread::yield_now(),
                }
            };
            write_packet(&mut chunk, 0);
            chunk.complete().unwrap();
        }
        reader.join().unwrap();
    });
}

#[test]
fn a_scrape_never_takes_a_new_chunk_for_the_one_before_it() {
    loom::model(|| {
        let (producer, service) = views(1);
        let mut first =
            producer.try_acquire(PageLayout::Div1, NewChunk { chunk_id: 0, writer_id: 9 }).unwrap();
        write_packet(&mut first, 0);
        write_packet(&mut first, 1);
        first.complete().unwrap();
        service.read_complete_chunk(0, 0, &mut Vec::new()).unwrap();
        let scraper = thread::spawn(move || {
            service.scrape(|_| true, |header, _, _| panic!("{header:?} is gone"));
        });
        let mut second =
            producer.try_acquire(PageLayout::Div1, NewChunk { chunk_id: 1, writer_id: 9 }).unwrap();
        write_packet(&mut second, 0);
        scraper.join().unwrap();
    });
}

#[test]
fn two_writers_never_get_the_same_chunk() {
    static BOTH: Seen = Seen::never();
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
        if ours.is_some() && theirs.is_some() {
            BOTH.note();
        }
    });
    assert!(BOTH.at_least_once());
}

#[test]
fn a_page_is_not_divided_anew_while_a_writer_takes_one_of_its_chunks() {
    loom::model(|| {
        let (producer, service) = views(1);
        let new = |chunk_id| NewChunk { chunk_id, writer_id: 9 };
        let chunk = producer.try_acquire(PageLayout::Div2, new(0)).unwrap();
        let at = chunk.complete().unwrap();
        // Freeing the only chunk in use makes the whole page free at the same time.
        let reader = thread::spawn(move || {
            service.read_complete_chunk(at.page, at.chunk, &mut Vec::new()).unwrap();
            service
        });
        let taken =
            producer.try_acquire(PageLayout::Div1, new(1)).map(|chunk| (chunk.capacity(), chunk.complete()));
        let service = reader.join().unwrap();
        if let Some((capacity, at)) = taken {
            let at = at.unwrap();
            let mut payload = Vec::new();
            let header = service.read_complete_chunk(at.page, at.chunk, &mut payload).unwrap();
            assert_eq!((header.chunk_id, payload.len()), (1, capacity));
        }
    });
}
