//! A producer that writes numbered packets as the protocol asks, or, if it is hostile, as it pleases.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use ferretto_ipc::client::{Event, RequestId};
use ferretto_protos as protos;
use ferretto_protos::commit_data_request::{ChunkToPatch, ChunksToMove, chunk_to_patch::Patch};
use ferretto_protos::get_async_command_response::Cmd;
use ferretto_protozero::varint;
use ferretto_shm::{ChunkFlags, NewChunk, PageLayout, PageSize, ProducerView, SharedMemory};
use prost::Message;

use crate::link::Link;
use crate::rng::Rng;
use crate::trace::{self, Stream};

pub(crate) const DATA_SOURCE: &str = "sim.packets";
/// What a producer may commit in its life: with five of them never as much as an ample buffer holds.
const CHUNK_BUDGET: usize = 150;

/// A writer of one data source instance.
struct Writer {
    id: u16,
    buffer: u32,
    next_chunk: u32,
    next_packet: u64,
    /// Packets in commits that the service has answered.
    acked: u64,
    /// A packet could not be finished for want of memory: the stream has a gap of its own making.
    is_broken: bool,
}

pub(crate) struct Producer {
    pub(crate) link: Link,
    pub(crate) uid: u32,
    pub(crate) is_hostile: bool,
    /// Does not answer the service until this many more acts.
    stalled: usize,
    memory: Option<Arc<SharedMemory>>,
    view: Option<ProducerView>,
    page_size: PageSize,
    writers: BTreeMap<u64, Writer>,
    last_writer: u16,
    /// Commits on their way: what is acknowledged when they are answered.
    commits: HashMap<RequestId, (u64, u64)>,
    /// Commands that were received and wait to be obeyed.
    commands: Vec<Cmd>,
    /// Instances that were ever set up.
    pub(crate) instances: Vec<u64>,
    /// As in [`Writer`], of instances that have stopped.
    finished: Vec<(u64, u64, bool)>,
    chunk_budget: usize,
}

impl Producer {
    pub(crate) fn new(uid: u32, is_hostile: bool, rng: &mut Rng) -> Self {
        let page_size = PageSize::new(rng.pick(&[4096, 8192, 16384, 32768])).expect("a page size");
        Self {
            link: Link::producer(),
            uid,
            is_hostile,
            stalled: 0,
            memory: None,
            view: None,
            page_size,
            writers: BTreeMap::new(),
            last_writer: 0,
            commits: HashMap::new(),
            commands: Vec::new(),
            instances: Vec::new(),
            finished: Vec::new(),
            chunk_budget: CHUNK_BUDGET,
        }
    }

    /// Of each stream that has no gap of its own making, how many packets the service has acknowledged.
    pub(crate) fn acknowledged(&self) -> impl Iterator<Item = (Stream, u64)> {
        let running =
            self.writers.iter().map(|(&instance, writer)| (instance, writer.acked, writer.is_broken));
        let all = running.chain(self.finished.iter().copied()).filter(|(_, _, is_broken)| !is_broken);
        all.map(|(instance, acked, _)| (Stream { uid: self.uid, instance }, acked))
    }

    /// One thing that a producer may do.
    pub(crate) fn act(&mut self, rng: &mut Rng) {
        self.receive();
        if self.stalled > 0 {
            self.stalled -= 1;
            return;
        }
        if self.is_hostile && rng.one_in(4) {
            return self.misbehave(rng);
        }
        if !self.commands.is_empty() {
            let command = self.commands.remove(0);
            return self.obey(command, rng);
        }
        if !self.writers.is_empty() && rng.one_in(2) {
            self.write(rng);
        }
    }

    /// Obeys all commands at once: at the end of the world nobody stalls.
    pub(crate) fn settle(&mut self, rng: &mut Rng) {
        self.stalled = 0;
        self.receive();
        while !self.commands.is_empty() {
            let command = self.commands.remove(0);
            self.obey(command, rng);
        }
    }

    fn call(&mut self, method: &str, args: &impl Message, want_reply: bool) -> Option<RequestId> {
        self.link.client.invoke(method, args, None, want_reply).ok()
    }

    fn receive(&mut self) {
        while let Some(event) = self.link.poll_event() {
            match event {
                Event::Bound => self.introduce(),
                Event::BindFailed => {}
                Event::Reply { request, body: Some(body), has_more } => {
                    if let Some((instance, count)) = self.commits.remove(&request) {
                        self.acknowledge(instance, count);
                    } else if has_more {
                        let response = protos::GetAsyncCommandResponse::decode(body).expect("a command");
                        self.commands.extend(response.cmd);
                    }
                }
                Event::Reply { request, body: None, .. } => {
                    self.commits.remove(&request);
                }
            }
        }
    }

    fn acknowledge(&mut self, instance: u64, count: u64) {
        if let Some(writer) = self.writers.get_mut(&instance) {
            writer.acked = writer.acked.max(count);
        }
    }

    fn introduce(&mut self) {
        let request = protos::InitializeConnectionRequest {
            producer_name: Some(format!("sim.{}", self.uid)),
            shared_memory_page_size_hint_bytes: u32::try_from(self.page_size.bytes()).ok(),
            shared_memory_size_hint_bytes: Some(256 * 1024),
            smb_scraping_mode: Some(1),
            ..Default::default()
        };
        self.call("InitializeConnection", &request, true);
        self.call("GetAsyncCommand", &protos::GetAsyncCommandRequest::default(), true);
        let descriptor = protos::DataSourceDescriptor {
            name: Some(DATA_SOURCE.to_owned()),
            will_notify_on_start: Some(true),
            will_notify_on_stop: Some(true),
            ..Default::default()
        };
        let register = protos::RegisterDataSourceRequest {
            data_source_descriptor: Some(descriptor.encode_to_vec().into()),
        };
        self.call("RegisterDataSource", &register, true);
    }

    fn obey(&mut self, command: Cmd, rng: &mut Rng) {
        match command {
            Cmd::SetupTracing(setup) => {
                let page_size = u64::from(setup.shared_buffer_page_size_kb()) * 1024;
                self.page_size =
                    PageSize::new(page_size).expect("the service chooses a page size of the ABI");
                self.memory = self.link.take_memory();
                let memory = self.memory.clone().expect("memory comes along");
                self.view = Some(ProducerView::new(memory, self.page_size).expect("whole pages"));
            }
            Cmd::SetupDataSource(setup) => self.instances.push(setup.new_instance_id()),
            Cmd::StartDataSource(start) => {
                self.start(start.new_instance_id(), &start.config.unwrap_or_default())
            }
            Cmd::StopDataSource(stop) => self.stop(stop.instance_id(), rng),
            Cmd::Flush(flush) => {
                let request =
                    protos::CommitDataRequest { flush_request_id: flush.request_id, ..Default::default() };
                self.call("CommitData", &request, false);
            }
            Cmd::ClearIncrementalState(_) => {}
        }
        if rng.one_in(20) {
            self.stalled = rng.below(40);
        }
    }

    fn start(&mut self, instance: u64, config: &Bytes) {
        let config = protos::DataSourceConfig::decode(config.clone()).expect("a config");
        self.last_writer += 1;
        let writer = Writer {
            id: self.last_writer,
            buffer: config.target_buffer(),
            next_chunk: 0,
            next_packet: 0,
            acked: 0,
            is_broken: false,
        };
        let register = protos::RegisterTraceWriterRequest {
            trace_writer_id: Some(u32::from(writer.id)),
            target_buffer: Some(writer.buffer),
        };
        self.writers.insert(instance, writer);
        self.call("RegisterTraceWriter", &register, true);
        let started = protos::NotifyDataSourceStartedRequest { data_source_id: Some(instance) };
        self.call("NotifyDataSourceStarted", &started, true);
    }

    fn stop(&mut self, instance: u64, rng: &mut Rng) {
        if rng.one_in(2) {
            self.write_into(instance, rng);
        }
        if let Some(writer) = self.writers.remove(&instance) {
            self.finished.push((instance, writer.acked, writer.is_broken));
            let unregister =
                protos::UnregisterTraceWriterRequest { trace_writer_id: Some(u32::from(writer.id)) };
            self.call("UnregisterTraceWriter", &unregister, true);
        }
        let stopped = protos::NotifyDataSourceStoppedRequest { data_source_id: Some(instance) };
        self.call("NotifyDataSourceStopped", &stopped, true);
    }

    fn write(&mut self, rng: &mut Rng) {
        let instances: Vec<u64> = self.writers.keys().copied().collect();
        self.write_into(rng.pick(&instances), rng);
    }

    /// Fills a chunk or, with a large packet, several, and commits them.
    fn write_into(&mut self, instance: u64, rng: &mut Rng) {
        let (Some(view), Some(writer)) = (self.view.clone(), self.writers.get_mut(&instance)) else { return };
        if self.chunk_budget == 0 {
            return;
        }
        self.chunk_budget -= 1;
        let stream = Stream { uid: self.uid, instance };
        let mut commit = protos::CommitDataRequest::default();
        if rng.one_in(4) {
            write_large(&view, writer, stream, rng, &mut commit);
        } else {
            write_small(&view, writer, stream, rng, &mut commit);
        }
        let count = writer.next_packet;
        if let Some(request) = self.call("CommitData", &commit, true) {
            self.commits.insert(request, (instance, count));
        }
    }

    /// What no producer may do, but somebody will.
    fn misbehave(&mut self, rng: &mut Rng) {
        match rng.below(8) {
            0 => {
                let garbage = rng.bytes(300);
                self.link.send_garbage(&garbage);
            }
            1 => self.scribble(rng),
            2 | 3 => {
                let commit = random_commit(rng);
                self.call("CommitData", &commit, true);
            }
            4 => {
                let id = Some(rng.next() % 100);
                self.call(
                    "NotifyDataSourceStarted",
                    &protos::NotifyDataSourceStartedRequest { data_source_id: id },
                    true,
                );
                self.call(
                    "NotifyDataSourceStopped",
                    &protos::NotifyDataSourceStoppedRequest { data_source_id: id },
                    true,
                );
            }
            5 => {
                let register = protos::RegisterTraceWriterRequest {
                    trace_writer_id: Some((rng.next() % 70_000) as u32),
                    target_buffer: Some((rng.next() % 70_000) as u32),
                };
                self.call("RegisterTraceWriter", &register, true);
            }
            6 => self.introduce(),
            _ => {
                let name = Some(DATA_SOURCE.to_owned());
                self.call(
                    "UnregisterDataSource",
                    &protos::UnregisterDataSourceRequest { data_source_name: name },
                    true,
                );
            }
        }
    }

    /// Writes anything anywhere into the memory that the service reads.
    fn scribble(&mut self, rng: &mut Rng) {
        let Some(memory) = &self.memory else { return };
        let Some(fd) = memory.as_fd() else { return };
        for _ in 0..20 {
            let bytes = rng.bytes(64);
            // Headers of pages are the tender spots.
            let page = rng.below(memory.len() / self.page_size.bytes()) * self.page_size.bytes();
            let offset = if rng.one_in(2) { page } else { rng.below(memory.len() - 64) };
            rustix::io::pwrite(fd, &bytes, offset as u64).expect("a memfd can be written");
        }
    }
}

fn write_small(
    view: &ProducerView,
    writer: &mut Writer,
    stream: Stream,
    rng: &mut Rng,
    commit: &mut protos::CommitDataRequest,
) {
    let layout = rng.pick(&PageLayout::ALL);
    let label = NewChunk { chunk_id: writer.next_chunk, writer_id: writer.id };
    let Some(mut chunk) = view.try_acquire(layout, label) else { return };
    writer.next_chunk += 1;
    let mut offset = 0;
    for _ in 0..1 + rng.below(6) {
        let packet = trace::packet(stream, writer.next_packet, rng.below(120));
        let mut fragment = Vec::new();
        varint::encode(packet.len() as u64, &mut fragment);
        fragment.extend_from_slice(&packet);
        if offset + fragment.len() > chunk.capacity() {
            break;
        }
        chunk.write_at(offset, &fragment);
        offset += fragment.len();
        chunk.increment_packet_count();
        writer.next_packet += 1;
    }
    complete(chunk, writer.buffer, commit);
}

/// One packet over as many chunks as it needs; the sizes of the fragments but the last are patched in afterwards.
fn write_large(
    view: &ProducerView,
    writer: &mut Writer,
    stream: Stream,
    rng: &mut Rng,
    commit: &mut protos::CommitDataRequest,
) {
    const SIZE_LEN: usize = 4;
    let packet = trace::packet(stream, writer.next_packet, 3000 + rng.below(9000));
    let mut rest = packet.as_slice();
    let mut is_first = true;
    let first_chunk = writer.next_chunk;
    while !rest.is_empty() {
        let label = NewChunk { chunk_id: writer.next_chunk, writer_id: writer.id };
        let Some(mut chunk) = view.try_acquire(PageLayout::Div1, label) else {
            // The packet stays unfinished: it is lost, and the next one on this sequence says so.
            break;
        };
        writer.next_chunk += 1;
        let len = rest.len().min(chunk.capacity() - SIZE_LEN);
        let (part, after) = rest.split_at(len);
        let is_patched = !after.is_empty() && rng.one_in(2);
        let size = redundant_size(len);
        chunk.write_at(0, if is_patched { &[0; SIZE_LEN] } else { &size });
        chunk.write_at(SIZE_LEN, part);
        chunk.increment_packet_count();
        if !is_first {
            chunk.set_flags(ChunkFlags::FIRST_PACKET_CONTINUES_FROM_PREV_CHUNK);
        }
        if !after.is_empty() {
            chunk.set_flags(ChunkFlags::LAST_PACKET_CONTINUES_ON_NEXT_CHUNK);
        }
        // A size field that the service has copied before it was known cannot be walked over; real writers patch inside the packet.
        // So the first bytes of the packet are what is patched here.
        if is_patched {
            patch_packet(&mut chunk, &size, part, writer, label.chunk_id, commit);
        }
        complete(chunk, writer.buffer, commit);
        rest = after;
        is_first = false;
    }
    let was_begun = writer.next_chunk != first_chunk;
    writer.is_broken |= was_begun && !rest.is_empty();
    writer.next_packet += u64::from(was_begun);
}

/// Leaves four bytes of the fragment to be patched.
fn patch_packet(
    chunk: &mut ferretto_shm::ChunkWriter,
    size: &[u8; 4],
    part: &[u8],
    writer: &Writer,
    chunk_id: u32,
    commit: &mut protos::CommitDataRequest,
) {
    chunk.write_at(0, size);
    chunk.write_at(4, &[0; 4]);
    chunk.set_flags(ChunkFlags::NEEDS_PATCHING);
    let patch = Patch { offset: Some(4), data: Some(Bytes::copy_from_slice(&part[..4])) };
    commit.chunks_to_patch.push(ChunkToPatch {
        target_buffer: Some(writer.buffer),
        writer_id: Some(u32::from(writer.id)),
        chunk_id: Some(chunk_id),
        patches: vec![patch],
        has_more_patches: Some(false),
    });
}

fn complete(chunk: ferretto_shm::ChunkWriter, buffer: u32, commit: &mut protos::CommitDataRequest) {
    // The world of a hostile producer may have changed the chunk's state: then it is lost.
    let Ok(at) = chunk.complete() else { return };
    commit.chunks_to_move.push(ChunksToMove {
        page: Some(at.page),
        chunk: Some(at.chunk),
        target_buffer: Some(buffer),
        ..Default::default()
    });
}

/// A length in four bytes, as writers reserve them.
fn redundant_size(len: usize) -> [u8; 4] {
    let len = u32::try_from(len).expect("a fragment is smaller than a page");
    let part = |shift: u32| (len >> shift) as u8 & 0x7f;
    [part(0) | 0x80, part(7) | 0x80, part(14) | 0x80, part(21)]
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
