//! What no producer may do, but somebody will.

use bytes::Bytes;
use ferretto_protos as protos;
use ferretto_protos::commit_data_request::{ChunkToPatch, ChunksToMove, chunk_to_patch::Patch};
use ferretto_protozero::varint;
use ferretto_shm::{NewChunk, PageLayout};
use prost::Message as _;

use crate::fate::Fate;
use crate::interned::Said;
use crate::plan::DATA_SOURCES;
use crate::producer::Producer;
use crate::rng::Rng;
use crate::trace::{self, Stream};

impl Producer {
    pub(crate) fn misbehave(&mut self, fate: &mut Fate) {
        match fate.below(10) {
            0 if fate.one_in(3) => {
                fate.saw("a producer sends garbage");
                let garbage = fate.bytes(300);
                self.link.send_garbage(&garbage);
            }
            0 | 1 => self.scribble(fate),
            2 | 3 => {
                fate.saw("invented commits");
                let commit = random_commit(fate);
                self.call("CommitData", &commit, true);
            }
            4 => self.notify_anything(fate),
            5 => {
                let register = protos::RegisterTraceWriterRequest {
                    trace_writer_id: Some((fate.next() % 70_000) as u32),
                    target_buffer: Some((fate.next() % 70_000) as u32),
                };
                self.call("RegisterTraceWriter", &register, true);
            }
            6 => {
                fate.saw("second InitializeConnection");
                self.introduce();
                self.register_all();
            }
            7 | 8 => self.forge(fate),
            _ => {
                let name = Some(fate.pick(&DATA_SOURCES).to_owned());
                let unregister = protos::UnregisterDataSourceRequest { data_source_name: name };
                self.call("UnregisterDataSource", &unregister, true);
            }
        }
    }

    pub(crate) fn speak_too_early(&mut self, fate: &mut Fate) {
        let commit = random_commit(fate);
        self.call("CommitData", &commit, true);
        self.register_all();
        self.notify_anything(fate);
    }

    fn notify_anything(&mut self, fate: &mut Fate) {
        let id = Some(fate.next() % 100);
        let started = protos::NotifyDataSourceStartedRequest { data_source_id: id };
        self.call("NotifyDataSourceStarted", &started, true);
        let stopped = protos::NotifyDataSourceStoppedRequest { data_source_id: id };
        self.call("NotifyDataSourceStopped", &stopped, true);
    }

    /// Writes anything anywhere into the memory that the service reads.
    fn scribble(&mut self, fate: &mut Fate) {
        let Some(memory) = &self.memory else { return };
        let Some(fd) = memory.as_fd() else { return };
        fate.saw("memory scribbled over");
        for _ in 0..20 {
            let bytes = fate.bytes(64);
            // Headers of pages are the tender spots.
            let page = fate.below(memory.len() / self.page_size.bytes()) * self.page_size.bytes();
            let offset = if fate.one_in(2) { page } else { fate.below(memory.len() - 64) };
            rustix::io::pwrite(fd, &bytes, offset as u64).expect("a memfd can be written");
        }
    }

    /// A well-formed chunk whose packets claim to be others', for its own buffer or for any.
    fn forge(&mut self, fate: &mut Fate) {
        let Some(view) = &self.view else { return };
        let writer_id = 1 + fate.below(5) as u16;
        let label = NewChunk { chunk_id: fate.below(10) as u32, writer_id };
        let Some(mut chunk) = view.try_acquire(PageLayout::Div1, label) else { return };
        fate.saw("forged packets");
        let mut offset = 0;
        for count in 0..5 {
            let stream = Stream { uid: 1000 + fate.below(20) as u32, session: 1, instance: 1 };
            let mut said = Said::default();
            let packet = match fate.below(3) {
                0 => trace::forged_packet(stream, count, stream.uid as i32, 1),
                1 => trace::forged_packet(stream, count, 0, 2 + fate.below(5) as u32),
                _ => trace::packet(stream, count, 5, &mut said, fate).encode_to_vec(),
            };
            let mut fragment = Vec::new();
            varint::encode(packet.len() as u64, &mut fragment);
            fragment.extend_from_slice(&packet);
            // What scribbles may have divided the page otherwise.
            if offset + fragment.len() > chunk.capacity() {
                break;
            }
            chunk.write_at(offset, &fragment);
            chunk.increment_packet_count();
            offset += fragment.len();
        }
        let Ok(at) = chunk.complete() else { return };
        let own = self.writers.values().next().map(|writer| writer.buffer);
        let target = own.filter(|_| fate.one_in(2)).unwrap_or_else(|| fate.below(12) as u32);
        let chunk = ChunksToMove {
            page: Some(at.page),
            chunk: Some(at.chunk),
            target_buffer: Some(target),
            ..Default::default()
        };
        let commit = protos::CommitDataRequest { chunks_to_move: vec![chunk], ..Default::default() };
        self.call("CommitData", &commit, true);
    }
}

fn random_commit(rng: &mut Rng) -> protos::CommitDataRequest {
    let number = |rng: &mut Rng| Some((rng.next() % rng.pick(&[3, 20, 100_000, u64::from(u32::MAX)])) as u32);
    let data = match rng.below(5) {
        0 => Some(Bytes::new()),
        1 => Some(Bytes::from(vec![0; 65536])),
        2 => Some(Bytes::from(rng.bytes(300))),
        _ => None,
    };
    let patch_len = rng.below(7);
    let patch = Patch { offset: number(rng), data: Some(Bytes::from(vec![0xff; patch_len])) };
    let patches = vec![patch; rng.pick(&[0, 1, 3, 1025])];
    protos::CommitDataRequest {
        chunks_to_move: vec![ChunksToMove {
            page: number(rng),
            chunk: number(rng),
            target_buffer: number(rng),
            data,
            chunk_incomplete: Some(rng.one_in(2)),
        }],
        chunks_to_patch: vec![ChunkToPatch {
            target_buffer: number(rng),
            writer_id: number(rng),
            chunk_id: number(rng),
            patches,
            has_more_patches: Some(rng.one_in(2)),
        }],
        flush_request_id: Some(rng.next() % 50),
    }
}
