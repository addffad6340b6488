//! Random operations of a producer and the service on every layout and page size, compared with a plain
//! model.
#![cfg(not(loom))]

use std::collections::HashMap;
use std::sync::Arc;

use ferretto_shm::{
    CHUNK_HEADER_LEN, ChunkError, ChunkFlags, ChunkHeader, ChunkIndex, ChunkState, ChunkWriter, NewChunk,
    PageLayout, PageSize, ProducerView, ServiceView, SharedMemory,
};
use proptest::prelude::*;

const PAGES: usize = 3;

#[derive(Clone, Debug)]
enum Op {
    Acquire {
        layout: PageLayout,
        writer_id: u16,
    },
    /// The index picks one of the chunks being written.
    Write {
        pick: usize,
        at: usize,
        bytes: Vec<u8>,
    },
    WriteSmall {
        pick: usize,
        at: usize,
        bytes: [u8; 16],
        len: usize,
    },
    CountPacket {
        pick: usize,
    },
    SetFlags {
        pick: usize,
        flags: u8,
    },
    ClearFlags {
        pick: usize,
        flags: u8,
    },
    Complete {
        pick: usize,
    },
    Drop {
        pick: usize,
    },
    /// Any place, right or wrong.
    Read {
        page: u32,
        chunk: u32,
    },
    Scrape {
        writer_id: Option<u16>,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let pick = any::<usize>();
    prop_oneof![
        4 => (prop::sample::select(&PageLayout::ALL[..]), 1u16..4)
            .prop_map(|(layout, writer_id)| Op::Acquire { layout, writer_id }),
        4 => (pick, any::<usize>(), prop::collection::vec(any::<u8>(), 0..70))
            .prop_map(|(pick, at, bytes)| Op::Write { pick, at, bytes }),
        2 => (pick, any::<usize>(), any::<[u8; 16]>(), 0usize..17)
            .prop_map(|(pick, at, bytes, len)| Op::WriteSmall { pick, at, bytes, len }),
        4 => pick.prop_map(|pick| Op::CountPacket { pick }),
        1 => (pick, 0u8..8).prop_map(|(pick, flags)| Op::SetFlags { pick, flags }),
        1 => (pick, 0u8..8).prop_map(|(pick, flags)| Op::ClearFlags { pick, flags }),
        4 => pick.prop_map(|pick| Op::Complete { pick }),
        1 => pick.prop_map(|pick| Op::Drop { pick }),
        4 => (0..PAGES as u32 + 1, 0u32..15).prop_map(|(page, chunk)| Op::Read { page, chunk }),
        2 => prop::option::of(1u16..4).prop_map(|writer_id| Op::Scrape { writer_id }),
    ]
}

/// What a chunk should look like.
#[derive(Clone, Debug)]
struct ModelChunk {
    header: ChunkHeader,
    payload: Vec<u8>,
    complete: bool,
}

/// A page is its layout and the chunks that are not free.
#[derive(Clone, Debug, Default)]
struct ModelPage {
    layout: Option<PageLayout>,
    used: HashMap<u32, ModelChunk>,
}

struct World {
    page_size: PageSize,
    producer: ProducerView,
    service: ServiceView,
    writers: Vec<ChunkWriter>,
    model: Vec<ModelPage>,
    last_page: usize,
    next_chunk_id: u32,
    dropped: u64,
}

impl World {
    fn new(page_size: PageSize) -> Self {
        let memory = Arc::new(SharedMemory::in_process(PAGES * page_size.bytes()).unwrap());
        Self {
            page_size,
            producer: ProducerView::new(Arc::clone(&memory), page_size).unwrap(),
            service: ServiceView::new(memory, page_size).unwrap(),
            writers: Vec::new(),
            model: vec![ModelPage::default(); PAGES],
            last_page: 0,
            next_chunk_id: u32::MAX - 2, // wraps soon
            dropped: 0,
        }
    }

    fn chunk(&mut self, at: ChunkIndex) -> &mut ModelChunk {
        self.model[at.page as usize].used.get_mut(&at.chunk).expect("a writer's chunk is in use")
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Acquire { layout, writer_id } => self.acquire(layout, writer_id),
            Op::Read { page, chunk } => self.read(page, chunk),
            Op::Scrape { writer_id } => self.scrape(writer_id),
            Op::Write { pick, .. }
            | Op::WriteSmall { pick, .. }
            | Op::CountPacket { pick }
            | Op::SetFlags { pick, .. }
            | Op::ClearFlags { pick, .. }
            | Op::Complete { pick }
            | Op::Drop { pick } => {
                if !self.writers.is_empty() {
                    let pick = pick % self.writers.len();
                    self.use_writer(pick, op);
                }
            }
        }
    }

    fn acquire(&mut self, layout: PageLayout, writer_id: u16) {
        let chunk_id = self.next_chunk_id;
        self.next_chunk_id = chunk_id.wrapping_add(1);
        let found = self.producer.try_acquire(layout, NewChunk { chunk_id, writer_id });
        let expected = (0..PAGES).map(|step| (self.last_page + step) % PAGES).find_map(|page| {
            let chunks = self.model[page].layout.unwrap_or(layout).chunks();
            let chunk = (0..chunks).find(|chunk| !self.model[page].used.contains_key(chunk))?;
            Some((page, chunk))
        });
        assert_eq!(
            found.as_ref().map(ChunkWriter::index),
            expected.map(|(page, chunk)| ChunkIndex { page: page as u32, chunk })
        );
        let (Some(writer), Some((page, chunk))) = (found, expected) else { return };
        self.last_page = page;
        let model = &mut self.model[page];
        let layout = *model.layout.get_or_insert(layout);
        let chunk_len = layout.chunk_len(self.page_size);
        assert_eq!(writer.capacity(), chunk_len - CHUNK_HEADER_LEN);
        // What earlier chunks left behind, under whatever layout, is still there; the test compares only what
        // was written since.
        let mut payload = vec![0; writer.capacity()];
        writer.read_at(0, &mut payload);
        let header = ChunkHeader { chunk_id, writer_id, packet_count: 0, flags: ChunkFlags::NONE };
        assert_eq!(writer.header(), header);
        model.used.insert(chunk, ModelChunk { header, payload, complete: false });
        self.writers.push(writer);
    }

    fn use_writer(&mut self, pick: usize, op: Op) {
        let at = self.writers[pick].index();
        let writer = &mut self.writers[pick];
        match op {
            Op::Write { at: offset, bytes, .. } => {
                let offset = offset % (writer.capacity() - bytes.len() + 1);
                writer.write_at(offset, &bytes);
                let mut back = vec![0; bytes.len()];
                writer.read_at(offset, &mut back);
                assert_eq!(back, bytes);
                self.chunk(at).payload[offset..offset + bytes.len()].copy_from_slice(&bytes);
            }
            Op::WriteSmall { at: offset, bytes, len, .. } => {
                let capacity = writer.capacity();
                let offset = offset % (capacity - len + 1);
                writer.write_small_at(offset, bytes, len);
                // With room, all 16 are stored.
                let stored = if offset + 16 <= capacity { 16 } else { len };
                self.chunk(at).payload[offset..offset + stored].copy_from_slice(&bytes[..stored]);
            }
            Op::CountPacket { .. } => {
                writer.increment_packet_count();
                self.chunk(at).header.packet_count += 1;
            }
            Op::SetFlags { flags, .. } => {
                writer.set_flags(ChunkFlags::from_bits(flags));
                let header = &mut self.chunk(at).header;
                header.flags = header.flags | ChunkFlags::from_bits(flags);
            }
            Op::ClearFlags { flags, .. } => {
                writer.clear_flags(ChunkFlags::from_bits(flags));
                let header = &mut self.chunk(at).header;
                header.flags = header.flags.without(ChunkFlags::from_bits(flags));
            }
            Op::Complete { .. } => {
                assert_eq!(self.writers.swap_remove(pick).complete(), Ok(at));
                self.chunk(at).complete = true;
            }
            Op::Drop { .. } => {
                drop(self.writers.swap_remove(pick));
                self.dropped += 1;
            }
            Op::Acquire { .. } | Op::Read { .. } | Op::Scrape { .. } => unreachable!("no writer needed"),
        }
    }

    fn expected_read(&self, page: u32, chunk: u32) -> Result<ModelChunk, ChunkError> {
        let no_page = ChunkError::NoSuchPage { page, pages: PAGES as u32 };
        let model = self.model.get(page as usize).ok_or(no_page)?;
        let layout = model.layout.ok_or(ChunkError::NotPartitioned { page, layout: 0 })?;
        let chunks = layout.chunks();
        if chunk >= chunks {
            return Err(ChunkError::NoSuchChunk { page, chunk, chunks });
        }
        let wrong =
            |found| Err(ChunkError::WrongState { page, chunk, expected: ChunkState::Complete, found });
        match model.used.get(&chunk) {
            None => wrong(ChunkState::Free),
            Some(found) if !found.complete => wrong(ChunkState::BeingWritten),
            Some(found) => Ok(found.clone()),
        }
    }

    fn read(&mut self, page: u32, chunk: u32) {
        let mut payload = vec![0xaa; 3];
        let found = self.service.read_complete_chunk(page, chunk, &mut payload);
        match self.expected_read(page, chunk) {
            Err(expected) => {
                assert_eq!(found, Err(expected));
                assert!(payload.is_empty());
            }
            Ok(expected) => {
                assert_eq!(found, Ok(expected.header));
                assert_eq!(payload, expected.payload);
                let model = &mut self.model[page as usize];
                model.used.remove(&chunk);
                if model.used.is_empty() {
                    model.layout = None;
                }
            }
        }
    }

    fn scrape(&mut self, writer_id: Option<u16>) {
        let mut expected = Vec::new();
        for model in &self.model {
            for chunk in 0..14 {
                let Some(found) = model.used.get(&chunk) else { continue };
                let wanted = writer_id.is_none_or(|writer_id| found.header.writer_id == writer_id);
                if wanted && (found.complete || found.header.packet_count >= 2) {
                    expected.push((found.header, found.payload.clone(), found.complete));
                }
            }
        }
        let wanted = |id| writer_id.is_none_or(|writer_id| id == writer_id);
        let mut found = Vec::new();
        self.service
            .scrape(wanted, |header, payload, complete| found.push((header, payload.to_vec(), complete)));
        // Those of a writer are in the order of their numbers.
        let in_order = |two: &[(ChunkHeader, Vec<u8>, bool)]| {
            let [before, after] = [&two[0].0, &two[1].0];
            before.writer_id < after.writer_id
                || before.writer_id == after.writer_id
                    && after.chunk_id.wrapping_sub(before.chunk_id) < 1 << 31
        };
        assert!(found.windows(2).all(in_order));
        let key = |(header, payload, complete): &(ChunkHeader, Vec<u8>, bool)| {
            (header.to_bytes(), payload.clone(), *complete)
        };
        found.sort_by_key(key);
        expected.sort_by_key(key);
        assert_eq!(found, expected);
        let mut places = 0;
        self.producer.scrape(wanted, |_, _, _, _| places += 1);
        assert_eq!(places, expected.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn both_views_agree_with_a_plain_model(shift in 0u32..5, ops in prop::collection::vec(op(), 1..120)) {
        let mut world = World::new(PageSize::new(4096 << shift).unwrap());
        for op in ops {
            world.apply(op);
        }
        prop_assert_eq!(world.producer.abandoned_chunks(), world.dropped);
    }
}
