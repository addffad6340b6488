//! What a producer may rely on: exhaustion, patching in place, going without a service, threads.
#![cfg(not(loom))]

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use ferretto_shm::{
    ChunkError, ChunkFlags, ChunkIndex, ChunkState, MAX_PACKETS_PER_CHUNK, NewChunk, PageLayout, PageSize,
    ProducerView, Seals, ServiceView, SharedMemory, ViewError, WRITER_MAX_PACKETS_PER_CHUNK,
};

fn views(pages: usize) -> (ProducerView, ServiceView) {
    let memory = Arc::new(SharedMemory::create(pages * 4096).unwrap());
    let sent = memory.as_fd().unwrap().try_clone_to_owned().unwrap();
    let received = Arc::new(SharedMemory::from_fd(sent, Seals::Required).unwrap());
    let producer = ProducerView::new(memory, PageSize::DEFAULT).unwrap();
    (producer, ServiceView::new(received, PageSize::DEFAULT).unwrap())
}

fn new(chunk_id: u32) -> NewChunk {
    NewChunk { chunk_id, writer_id: 1 }
}

#[test]
fn full_memory_gives_no_chunk_until_the_service_frees_one() {
    let (producer, service) = views(2);
    let chunks: Vec<_> =
        (0..28).map(|id| producer.try_acquire(PageLayout::Div14, new(id)).unwrap()).collect();
    assert!(producer.try_acquire(PageLayout::Div14, new(28)).is_none());
    let places: Vec<_> = chunks.into_iter().map(|chunk| chunk.complete().unwrap()).collect();
    assert!(producer.try_acquire(PageLayout::Div14, new(28)).is_none());
    let middle = places[17];
    service.read_complete_chunk(middle.page, middle.chunk, &mut Vec::new()).unwrap();
    let chunk = producer.try_acquire(PageLayout::Div1, new(28)).unwrap();
    assert_eq!(chunk.index(), middle, "a page in use keeps its layout");
    drop(chunk);
}

#[test]
fn chunks_that_no_writer_holds_are_counted() {
    let (producer, service) = views(3);
    assert_eq!(producer.chunks_without_writer(usize::MAX), 3, "free pages");
    let acquire = |id| producer.try_acquire(PageLayout::Div2, new(id)).unwrap();
    let mut chunks: Vec<_> = (0..6).map(acquire).collect();
    assert_eq!(producer.chunks_without_writer(usize::MAX), 0);
    let first = chunks.swap_remove(0).complete().unwrap();
    let second = chunks.swap_remove(0).complete().unwrap();
    assert_eq!(producer.chunks_without_writer(usize::MAX), 2, "the service is to take them");
    assert_eq!(producer.chunks_without_writer(1), 1, "no further than need be");
    service.read_complete_chunk(first.page, first.chunk, &mut Vec::new()).unwrap();
    assert_eq!(producer.chunks_without_writer(usize::MAX), 2, "one of them is free");
    service.read_complete_chunk(second.page, second.chunk, &mut Vec::new()).unwrap();
    drop(chunks);
    assert_eq!(producer.chunks_without_writer(usize::MAX), 2, "who drops one does not give it back");
}

#[test]
fn memory_is_used_no_further_than_chunks_are_in_use() {
    let (producer, service) = views(1024);
    let acquire = |id| producer.try_acquire(PageLayout::Div1, new(id));
    for id in 0..1000 {
        let index = acquire(id).unwrap().complete().unwrap();
        assert!(index.page < 64, "{index:?}");
        service.read_complete_chunk(index.page, index.chunk, &mut Vec::new()).unwrap();
    }
    let held: Vec<_> = (0..1024).map_while(acquire).collect();
    assert_eq!(held.len(), 1024, "when they are, all of it is used");
    assert!(held[..64].iter().all(|chunk| chunk.index().page < 64));
    assert!((0..4).all(|id| acquire(id).is_none()));
    // However far it is from where the last search was, a free chunk is found in the end.
    let places: Vec<_> = held.into_iter().map(|chunk| chunk.complete().unwrap()).collect();
    service.read_complete_chunk(places[700].page, 0, &mut Vec::new()).unwrap();
    let found = (0..4).find_map(acquire).unwrap();
    assert_eq!(found.index(), places[700]);
    drop(found);
}

#[test]
fn looking_for_chunks_takes_no_memory() {
    let (producer, service) = views(1024);
    let blocks = || rustix::fs::fstat(producer.memory().as_fd().unwrap()).unwrap().st_blocks;
    let mut found = 0;
    service.scrape(|_| true, |_, _, _| found += 1);
    assert_eq!((found, blocks()), (0, 0));
    let chunk = producer.try_acquire(PageLayout::Div1, new(0)).unwrap();
    let place = chunk.complete().unwrap();
    let before = blocks();
    service.scrape(|_| true, |_, _, _| found += 1);
    assert_eq!((found, service.pages_in_use(place.page + 1), blocks()), (1, 1, before));
    service.read_complete_chunk(place.page, place.chunk, &mut Vec::new()).unwrap();
    assert_eq!(service.pages_in_use(place.page + 1), 0);
}

#[test]
fn a_held_chunk_is_patched_in_place_and_then_needs_no_patching() {
    let (producer, service) = views(1);
    let mut chunk = producer.try_acquire(PageLayout::Div1, new(0)).unwrap();
    chunk.write_at(0, &[7, 0x0a, 0, 0, 0, 0, 0x08, 1]);
    chunk.increment_packet_count();
    chunk.set_flags(ChunkFlags::NEEDS_PATCHING | ChunkFlags::LAST_PACKET_CONTINUES_ON_NEXT_CHUNK);
    let queued = chunk; // the arbiter holds it while the packet goes on in the next chunk
    let mut arbiter_chunk = thread::spawn(move || queued).join().unwrap();
    arbiter_chunk.write_at(2, &[0x82, 0x80, 0x80, 0x00]);
    arbiter_chunk.clear_flags(ChunkFlags::NEEDS_PATCHING);
    let at = arbiter_chunk.complete().unwrap();
    let mut payload = Vec::new();
    let header = service.read_complete_chunk(at.page, at.chunk, &mut payload).unwrap();
    assert_eq!(header.flags, ChunkFlags::LAST_PACKET_CONTINUES_ON_NEXT_CHUNK);
    assert_eq!(payload[..8], [7, 0x0a, 0x82, 0x80, 0x80, 0x00, 0x08, 1]);
}

#[test]
fn a_full_packet_count_leaves_the_flags_alone() {
    let (producer, service) = views(1);
    let mut chunk = producer.try_acquire(PageLayout::Div1, new(0)).unwrap();
    for _ in 0..WRITER_MAX_PACKETS_PER_CHUNK + 1 {
        chunk.increment_packet_count();
    }
    assert_eq!(chunk.packet_count(), MAX_PACKETS_PER_CHUNK);
    let at = chunk.complete().unwrap();
    let header = service.read_complete_chunk(at.page, at.chunk, &mut Vec::new()).unwrap();
    assert_eq!((header.packet_count, header.flags), (1023, ChunkFlags::NONE));
}

#[test]
fn a_dropped_chunk_can_be_scraped_but_not_taken() {
    let (producer, service) = views(1);
    let mut chunk = producer.try_acquire(PageLayout::Div1, new(0)).unwrap();
    chunk.write_at(0, &[1, b'a', 1, b'b']);
    chunk.increment_packet_count();
    chunk.increment_packet_count();
    drop(chunk);
    assert_eq!(producer.abandoned_chunks(), 1);
    let found = service.read_complete_chunk(0, 0, &mut Vec::new());
    let (expected, found_state) = (ChunkState::Complete, ChunkState::BeingWritten);
    assert_eq!(found, Err(ChunkError::WrongState { page: 0, chunk: 0, expected, found: found_state }));
    let mut scraped = 0;
    service.scrape(
        |_| true,
        |header, payload, complete| {
            assert_eq!((header.packet_count, complete, &payload[..4]), (2, false, &[1, b'a', 1, b'b'][..]));
            scraped += 1;
        },
    );
    assert_eq!(scraped, 1);
}

#[test]
fn without_a_service_the_producer_frees_its_own_chunks() {
    let (producer, _) = views(1);
    let mut payload = Vec::new();
    for id in 0..100 {
        let mut chunk = producer.try_acquire(PageLayout::Div2, new(id)).unwrap();
        chunk.write_at(0, &[1, id as u8]);
        chunk.increment_packet_count();
        if id % 2 == 0 {
            chunk.complete_emulated().unwrap();
        } else {
            let at = chunk.complete().unwrap();
            let header = producer.take_complete(at, &mut payload).unwrap();
            assert_eq!((header.chunk_id, &payload[..2]), (id, &[1, id as u8][..]));
        }
    }
    let free = ChunkIndex { page: 0, chunk: 0 };
    assert!(producer.take_complete(free, &mut payload).is_err());
    assert_eq!(producer.abandoned_chunks(), 0);
}

#[test]
fn memory_that_is_no_multiple_of_the_page_size_has_no_view() {
    let memory = Arc::new(SharedMemory::in_process(3 * 4096).unwrap());
    let expected = ViewError { len: 3 * 4096, page_size: 8192 };
    let page_size = PageSize::new(8192).unwrap();
    assert_eq!(ServiceView::new(Arc::clone(&memory), page_size).err(), Some(expected));
    assert_eq!(ProducerView::new(memory, page_size).err(), Some(expected));
}

#[test]
fn many_threads_lose_nothing_and_mix_nothing_up() {
    const WRITERS: u16 = 4;
    const CHUNKS: u32 = 2000;
    let (producer, service) = views(3);
    let (commit, committed) = mpsc::channel();
    let threads: Vec<_> = (1..=WRITERS)
        .map(|writer_id| {
            let (producer, commit) = (producer.clone(), commit.clone());
            thread::spawn(move || {
                for chunk_id in 0..CHUNKS {
                    let layout = PageLayout::ALL[(chunk_id as usize + usize::from(writer_id)) % 5];
                    let mut chunk = loop {
                        match producer.try_acquire(layout, NewChunk { chunk_id, writer_id }) {
                            Some(chunk) => break chunk,
                            None => thread::yield_now(),
                        }
                    };
                    let fill = (chunk_id as u8).wrapping_add(writer_id as u8);
                    chunk.write_at(0, &vec![fill; chunk.capacity()]);
                    chunk.increment_packet_count();
                    commit.send(chunk.complete().unwrap()).unwrap();
                }
            })
        })
        .collect();
    drop(commit);
    let mut next_ids = [0; WRITERS as usize + 1];
    let mut payload = Vec::new();
    for at in committed {
        let header = service.read_complete_chunk(at.page, at.chunk, &mut payload).unwrap();
        let next_id = &mut next_ids[usize::from(header.writer_id)];
        assert_eq!(header.chunk_id, *next_id);
        *next_id += 1;
        let fill = (header.chunk_id as u8).wrapping_add(header.writer_id as u8);
        assert!(payload.iter().all(|byte| *byte == fill), "{header:?}");
        service.scrape(|writer_id| writer_id == 1, |header, _, _| assert_eq!(header.writer_id, 1));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(next_ids[1..], [CHUNKS; WRITERS as usize]);
}

#[test]
fn a_scrape_in_steps_takes_what_is_still_there_in_the_order_of_its_numbers() {
    let (producer, service) = views(4);
    let mut places: Vec<ChunkIndex> = Vec::new();
    // The numbers go down as the places go up.
    for id in (0..8).rev() {
        let mut chunk = producer.try_acquire(PageLayout::Div2, new(id)).unwrap();
        chunk.increment_packet_count();
        places.push(chunk.complete().unwrap());
    }
    let mut scrape = service.begin_scrape();
    let (mut ids, mut steps) = (Vec::new(), 0);
    while !scrape.is_done() {
        let mut each = |header: ferretto_shm::ChunkHeader, _: &[u8], _| {
            ids.push(header.chunk_id);
            0
        };
        let cost = service.go_on_scraping(&mut scrape, 1, |_| true, &mut each);
        assert!((1..4096).contains(&cost), "a page is looked at, or a chunk is copied: {cost}");
        steps += 1;
        if ids.len() == 2 {
            // This one is handed over meanwhile.
            let at = places[places.len() - 1 - 5];
            _ = service.read_complete_chunk(at.page, at.chunk, &mut Vec::new());
        }
    }
    // All pages twice.
    assert_eq!((ids, steps), (vec![0, 1, 2, 3, 4, 6, 7], 2 * 4 + 8));
}

#[test]
fn a_scrape_misses_no_chunk_before_one_that_it_finds() {
    let (producer, service) = views(4);
    let of_writer = |writer_id, chunk_id| NewChunk { chunk_id, writer_id };
    let mut places = Vec::new();
    for id in 0..4 {
        let mut chunk = producer.try_acquire(PageLayout::Div1, of_writer(2, id)).unwrap();
        chunk.increment_packet_count();
        places.push(chunk.complete().unwrap());
    }
    let free = |place: ChunkIndex| {
        service.read_complete_chunk(place.page, place.chunk, &mut Vec::new()).unwrap();
    };
    let take = |id| {
        let mut chunk = producer.try_acquire(PageLayout::Div1, of_writer(1, id)).unwrap();
        chunk.increment_packet_count();
        chunk.complete().unwrap()
    };
    let mut scrape = service.begin_scrape();
    let mut ids = Vec::new();
    let mut each = |header: ferretto_shm::ChunkHeader, _: &[u8], _| {
        if header.writer_id == 1 {
            ids.push(header.chunk_id);
        }
        0
    };
    // The first page was looked at when a writer takes it, and then the last, which was not.
    service.go_on_scraping(&mut scrape, 1, |_| true, &mut each);
    free(places[0]);
    assert_eq!(take(0).page, 0);
    free(places[3]);
    assert_eq!(take(1).page, 3);
    while !scrape.is_done() {
        service.go_on_scraping(&mut scrape, usize::MAX, |_| true, &mut each);
    }
    assert_eq!(ids, [0, 1]);
}

/// Whoever looked there would make the system provide memory, or wait for a producer that is punching holes.
#[test]
fn memory_that_its_producer_takes_away_is_looked_at_no_more() {
    use rustix::fs::{FallocateFlags, fallocate};

    let (producer, service) = views(4);
    let fd = producer.memory().as_fd().unwrap();
    let mut payload = Vec::new();
    let not_used = |page, payload: &mut _| {
        let error = service.read_complete_chunk(page, 0, payload).unwrap_err();
        assert_eq!(error, ChunkError::NotPartitioned { page, layout: 0 });
    };
    not_used(3, &mut payload);
    let [first, second] = [0, 1].map(|id| producer.try_acquire(PageLayout::Div1, new(id)).unwrap());
    let [first, second] = [first, second].map(|chunk| chunk.complete().unwrap());
    service.read_complete_chunk(first.page, 0, &mut payload).unwrap();
    service.look_for_tears();
    service.read_complete_chunk(second.page, 0, &mut payload).unwrap();
    let page = 4096 * u64::from(first.page);
    fallocate(fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, page, 4096).unwrap();
    service.look_for_tears();
    let third = producer.try_acquire(PageLayout::Div1, new(2)).unwrap().complete().unwrap();
    not_used(third.page, &mut payload);
    let mut found = 0;
    service.scrape(|_| true, |_, _, _| found += 1);
    assert_eq!((found, service.pages_in_use(4)), (0, 0));
}
