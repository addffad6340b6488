//! A producer: it does what the service asks for, writes, stalls, and keeps the rules; or, if it is hostile, does as it pleases too
//! (see `liar.rs`).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use ferretto_ipc::client::{Event, RequestId};
use ferretto_protos as protos;
use ferretto_protos::VmCursorEnum;
use ferretto_protos::fields;
use ferretto_protos::get_async_command_response::Cmd;
use ferretto_protos::initialize_connection_request::ProducerSmbScrapingMode;
use ferretto_protos::vm_instruction::Operation;
use ferretto_protos::vm_op_select::{PathComponent, path_component::Field};
use ferretto_shm::{PageSize, ProducerView, SharedMemory};
use prost::Message;

use crate::fate::Fate;
use crate::link::Link;
use crate::plan::{DATA_SOURCES, TRIGGERS, producer_name};
use crate::trace::Stream;
use crate::writer::Writer;

/// Chunks that one writer may fill in its life: those of a whole world seldom fill an ample buffer.
const CHUNK_BUDGET: usize = 40;

/// What follows when the service has taken a call.
enum Sent {
    Commit { instance: u64, stream: Stream, count: u64, patches: usize },
    Register { instance: u64 },
}

/// How it introduces itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    pub(crate) is_hostile: bool,
    /// Without shared memory.
    pub(crate) is_emulated: bool,
    /// The one that it runs on; 0 is the service's own.
    pub(crate) machine: u32,
    brings_memory: bool,
    pub(crate) scrapes: bool,
    notifies_start: bool,
    notifies_stop: bool,
    flushes: bool,
    has_vm: bool,
    /// At most so many packets at a time.
    burst: usize,
    sources: usize,
}

pub(crate) struct Producer {
    pub(crate) link: Link,
    pub(crate) uid: u32,
    pub(crate) name: String,
    pub(crate) habits: Habits,
    /// The memory that it brings along.
    pub(crate) provided: Option<Arc<SharedMemory>>,
    pub(crate) memory: Option<Arc<SharedMemory>>,
    pub(crate) view: Option<ProducerView>,
    pub(crate) page_size: PageSize,
    pub(crate) writers: BTreeMap<u64, Writer>,
    /// The sessions of instances that are set up.
    sessions: BTreeMap<u64, u32>,
    memory_len: usize,
    last_writer: u16,
    sent: HashMap<RequestId, Sent>,
    /// Commands that were received and wait to be obeyed.
    commands: VecDeque<Cmd>,
    /// Does nothing for this many more acts.
    stalled: usize,
    has_unregistered: bool,
    vm_program: Bytes,
}

impl Producer {
    pub(crate) fn new(uid: u32, number: usize, fate: &mut Fate) -> Self {
        let page_size = PageSize::new(fate.pick(&[4096, 4096, 8192, 32768])).expect("a page size");
        let memory_len = page_size.bytes() * fate.pick(&[2, 8, 32]);
        let is_emulated = fate.one_in(8);
        let habits = Habits {
            is_hostile: fate.one_in(3),
            is_emulated,
            machine: if is_emulated { fate.pick(&[0, 1, 2]) } else { 0 },
            brings_memory: !is_emulated && fate.one_in(4),
            scrapes: fate.one_in(2),
            notifies_start: fate.one_in(2),
            notifies_stop: !fate.one_in(4),
            flushes: !fate.one_in(6),
            has_vm: fate.one_in(2),
            // A busy one fills a small buffer in no time. One without memory sends all it has in a frame, which has an end.
            burst: if is_emulated { 4 } else { fate.pick(&[4, 4, 60]) },
            sources: 1 + fate.below(DATA_SOURCES.len()),
        };
        let create = || Arc::new(SharedMemory::create(memory_len).expect("memory"));
        let own = habits.brings_memory.then(create);
        Self {
            link: Link::producer(),
            uid,
            name: producer_name(number),
            habits,
            provided: own.clone(),
            memory: own.or_else(|| is_emulated.then(create)),
            view: None,
            page_size,
            writers: BTreeMap::new(),
            sessions: BTreeMap::new(),
            memory_len,
            last_writer: 0,
            sent: HashMap::new(),
            commands: VecDeque::new(),
            stalled: 0,
            has_unregistered: false,
            vm_program: vm_program(uid, habits.is_hostile, fate),
        }
    }

    /// One thing that a producer may do.
    pub(crate) fn act(&mut self, fate: &mut Fate) {
        self.receive(fate);
        if self.stalled > 0 {
            self.stalled -= 1;
            return;
        }
        if self.habits.is_hostile && fate.one_in(4) {
            return self.misbehave(fate);
        }
        if let Some(command) = self.commands.pop_front() {
            return self.obey(command, fate);
        }
        match fate.below(100) {
            0..60 => self.write(fate),
            60..80 => self.send_patches(fate),
            80 if !self.has_unregistered && fate.one_in(3) => self.unregister(),
            81 | 82 => {
                let trigger_names = vec![fate.pick(&TRIGGERS).to_owned()];
                self.call("ActivateTriggers", &protos::ActivateTriggersRequest { trigger_names }, true);
            }
            _ => {}
        }
    }

    /// Obeys all commands at once: at the end of the world nobody stalls.
    pub(crate) fn settle(&mut self, fate: &mut Fate) {
        self.stalled = 0;
        self.receive(fate);
        while let Some(command) = self.commands.pop_front() {
            self.obey(command, fate);
        }
    }

    pub(crate) fn call(&mut self, method: &str, args: &impl Message, want_reply: bool) -> Option<RequestId> {
        self.link.call(method, args, want_reply)
    }

    fn receive(&mut self, fate: &mut Fate) {
        while let Some(event) = self.link.poll_event() {
            match event {
                Event::Bound => {
                    if self.habits.is_hostile && fate.one_in(3) {
                        self.speak_too_early(fate);
                    }
                    self.introduce();
                    self.register_all();
                }
                Event::Reply { body: Some(body), has_more: true, .. } => {
                    let response = protos::GetAsyncCommandResponse::decode(body).expect("a command");
                    self.commands.extend(response.cmd);
                }
                Event::BindFailed | Event::Reply { .. } => {}
            }
        }
    }

    pub(crate) fn introduce(&mut self) {
        let scrapes = if self.habits.scrapes {
            ProducerSmbScrapingMode::SmbScrapingEnabled
        } else {
            ProducerSmbScrapingMode::SmbScrapingDisabled
        };
        let request = protos::InitializeConnectionRequest {
            producer_name: Some(self.name.clone()),
            shared_memory_page_size_hint_bytes: u32::try_from(self.page_size.bytes()).ok(),
            shared_memory_size_hint_bytes: u32::try_from(self.memory_len).ok(),
            smb_scraping_mode: Some(scrapes as i32),
            producer_provided_shmem: self.provided.is_some().then_some(true),
            ..Default::default()
        };
        self.call("InitializeConnection", &request, true);
        self.call("GetAsyncCommand", &protos::GetAsyncCommandRequest::default(), true);
    }

    pub(crate) fn register_all(&mut self) {
        for name in DATA_SOURCES.iter().take(self.habits.sources) {
            let descriptor = protos::DataSourceDescriptor {
                name: Some((*name).to_owned()),
                will_notify_on_start: Some(self.habits.notifies_start),
                will_notify_on_stop: Some(self.habits.notifies_stop),
                handles_incremental_state_clear: Some(true),
                no_flush: Some(!self.habits.flushes),
                protovm_program: self.habits.has_vm.then(|| self.vm_program.clone()),
                ..Default::default()
            };
            let register = protos::RegisterDataSourceRequest {
                data_source_descriptor: Some(descriptor.encode_to_vec().into()),
            };
            self.call("RegisterDataSource", &register, true);
        }
    }

    fn unregister(&mut self) {
        self.has_unregistered = true;
        let name = Some(DATA_SOURCES[0].to_owned());
        self.call(
            "UnregisterDataSource",
            &protos::UnregisterDataSourceRequest { data_source_name: name },
            true,
        );
    }

    fn obey(&mut self, command: Cmd, fate: &mut Fate) {
        match command {
            Cmd::SetupTracing(setup) => self.set_up_memory(&setup),
            Cmd::SetupDataSource(setup) => {
                let session = session_of(setup.config.as_ref());
                let known = self.sessions.insert(setup.new_instance_id(), session);
                assert!(known.is_none() || self.habits.is_hostile, "an instance is set up twice");
            }
            Cmd::StartDataSource(start) => {
                self.start(start.new_instance_id(), &start.config.unwrap_or_default());
            }
            Cmd::StopDataSource(stop) => self.stop(stop.instance_id(), fate),
            Cmd::Flush(flush) => self.flush(flush.request_id(), fate),
            Cmd::ClearIncrementalState(clear) => {
                for instance in clear.data_source_ids {
                    self.writers.get_mut(&instance).into_iter().for_each(Writer::begin_anew);
                }
                fate.saw("incremental state cleared");
            }
        }
        if fate.one_in(20) {
            fate.saw("a producer stalls");
            self.stalled = fate.below(40);
        }
    }

    fn set_up_memory(&mut self, setup: &protos::get_async_command_response::SetupTracing) {
        if self.memory.is_none() {
            let page_size = u64::from(setup.shared_buffer_page_size_kb()) * 1024;
            self.page_size = PageSize::new(page_size).expect("the service chooses a page size of the ABI");
            self.memory = self.link.take_memory();
        }
        let memory = self.memory.clone().expect("memory comes along");
        if self.view.is_none() {
            self.view = Some(ProducerView::new(memory, self.page_size).expect("whole pages"));
        }
    }

    fn start(&mut self, instance: u64, config: &Bytes) {
        let session = session_of(Some(config));
        let is_set_up = self.sessions.get(&instance) == Some(&session);
        assert!(is_set_up || self.habits.is_hostile, "the instance {instance} was not set up for this");
        let buffer = protos::DataSourceConfig::decode(config.clone()).expect("a config").target_buffer();
        self.last_writer += 1;
        let stream = Stream { uid: self.uid, session, instance };
        let writer = Writer::new(self.last_writer, stream, buffer, CHUNK_BUDGET);
        let register = protos::RegisterTraceWriterRequest {
            trace_writer_id: Some(u32::from(writer.id)),
            target_buffer: Some(buffer),
        };
        self.writers.insert(instance, writer);
        if let Some(request) = self.call("RegisterTraceWriter", &register, true) {
            self.sent.insert(request, Sent::Register { instance });
        }
        if self.habits.notifies_start {
            let started = protos::NotifyDataSourceStartedRequest { data_source_id: Some(instance) };
            self.call("NotifyDataSourceStarted", &started, true);
        }
    }

    fn stop(&mut self, instance: u64, fate: &mut Fate) {
        let was_set_up = self.sessions.remove(&instance).is_some();
        assert!(was_set_up || self.habits.is_hostile, "the instance {instance} stops and was never set up");
        if fate.one_in(2) {
            self.write_into(instance, fate);
        }
        self.commit_all(instance, fate);
        if let Some(writer) = self.writers.remove(&instance) {
            let id = Some(u32::from(writer.id));
            let unregister = protos::UnregisterTraceWriterRequest { trace_writer_id: id };
            self.call("UnregisterTraceWriter", &unregister, true);
        }
        if self.habits.notifies_stop {
            let stopped = protos::NotifyDataSourceStoppedRequest { data_source_id: Some(instance) };
            self.call("NotifyDataSourceStopped", &stopped, true);
        }
    }

    fn flush(&mut self, request_id: u64, fate: &mut Fate) {
        let instances: Vec<u64> = self.writers.keys().copied().collect();
        for instance in instances {
            self.commit_all(instance, fate);
        }
        let request = protos::CommitDataRequest { flush_request_id: Some(request_id), ..Default::default() };
        self.call("CommitData", &request, false);
    }

    fn write(&mut self, fate: &mut Fate) {
        let instances: Vec<u64> = self.writers.keys().copied().collect();
        if instances.is_empty() {
            return;
        }
        let instance = fate.pick(&instances);
        self.write_into(instance, fate);
        if fate.one_in(2) {
            let with_patches = fate.one_in(2);
            self.commit(instance, with_patches, fate.one_in(4), fate);
        }
    }

    fn write_into(&mut self, instance: u64, fate: &mut Fate) {
        if let (Some(view), Some(writer)) = (&self.view, self.writers.get_mut(&instance)) {
            writer.write(view, self.habits.burst, self.habits.is_emulated, fate);
        }
    }

    fn send_patches(&mut self, fate: &mut Fate) {
        let owes = self.writers.iter().find(|(_, writer)| writer.owes_patches());
        if let Some(instance) = owes.map(|(instance, _)| *instance) {
            fate.saw("a patch comes late");
            self.commit(instance, true, true, fate);
        }
    }

    fn commit_all(&mut self, instance: u64, fate: &mut Fate) {
        if let (Some(view), Some(writer)) = (&self.view, self.writers.get_mut(&instance)) {
            writer.finish(view, self.habits.is_emulated);
        }
        self.commit(instance, true, true, fate);
    }

    fn commit(&mut self, instance: u64, with_patches: bool, want_reply: bool, fate: &mut Fate) {
        let Some(commit) = self.writers.get_mut(&instance).and_then(|writer| writer.commit(with_patches))
        else {
            return;
        };
        if commit.request.chunks_to_move.len() > 1 {
            fate.saw("a commit with several chunks");
        }
        if let Some(request) = self.call("CommitData", &commit.request, want_reply) {
            let (stream, count, patches) = (commit.stream, commit.count, commit.patches);
            self.sent.insert(request, Sent::Commit { instance, stream, count, patches });
        }
    }

    /// The service has taken a call: how many packets of which stream are in its hands now, if that has changed.
    pub(crate) fn service_took(&mut self, request: RequestId) -> Option<(Stream, u64)> {
        match self.sent.remove(&request)? {
            Sent::Register { instance } => {
                if let Some(writer) = self.writers.get_mut(&instance) {
                    writer.is_registered = true;
                }
                None
            }
            Sent::Commit { instance, stream, count, patches } => {
                if let Some(writer) = self.writers.get_mut(&instance) {
                    writer.patches_on_the_way -= patches;
                }
                (!self.habits.is_hostile).then_some((stream, count))
            }
        }
    }

    /// What the service must find in the memory if the producer vanishes now.
    pub(crate) fn scrapable(&self) -> Vec<(Stream, u64)> {
        let is_visible = self.habits.scrapes && !self.habits.is_emulated && !self.habits.is_hostile;
        let writers = self.writers.values().filter(|_| is_visible);
        writers.filter_map(|writer| Some((writer.stream, writer.scrapable()?))).collect()
    }

    /// What is worth a count when it vanishes now.
    pub(crate) fn note_vanishing(&self, fate: &mut Fate) {
        fate.saw("a producer vanishes");
        if self.writers.values().any(Writer::has_open_chunk) {
            fate.saw("a producer vanishes in the middle of a chunk");
        }
        if self.writers.values().any(Writer::owes_patches) {
            fate.saw("a patch comes never");
        }
    }

    /// Who it is.
    pub(crate) fn note(&self, fate: &mut Fate) {
        if self.habits.is_emulated {
            fate.saw("a producer has no shared memory");
        }
        if self.habits.machine != 0 {
            fate.saw("a producer of another machine");
        }
        if self.habits.brings_memory {
            fate.saw("a producer brings its memory");
        }
    }

    /// Nothing is on its way and nothing left to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.link.is_quiet() && self.commands.is_empty()
    }

    /// Instances that the service has set up and not stopped, as far as the producer has obeyed.
    pub(crate) fn instances(&self) -> usize {
        self.sessions.len()
    }
}

/// A ProtoVM whose state is the last event that was overwritten; of somebody hostile, anything.
fn vm_program(uid: u32, is_hostile: bool, fate: &mut Fate) -> Bytes {
    if is_hostile {
        return fate.bytes(60).into();
    }
    let set =
        protos::VmInstruction { operation: Some(Operation::Set(protos::VmOpSet {})), ..Default::default() };
    let into_state = select_event(VmCursorEnum::VmCursorDst, set);
    let from_packet = select_event(VmCursorEnum::VmCursorSrc, into_state);
    // The version says whose it is: producers with the same program would share a state.
    protos::VmProgram { version: Some(uid), instructions: vec![from_packet] }.encode_to_vec().into()
}

fn select_event(cursor: VmCursorEnum, then: protos::VmInstruction) -> protos::VmInstruction {
    let event = PathComponent {
        field: Some(Field::FieldId(fields::trace_packet::FOR_TESTING)),
        ..Default::default()
    };
    protos::VmInstruction {
        operation: Some(Operation::Select(protos::VmOpSelect {
            cursor: Some(cursor.into()),
            relative_path: vec![event],
            create_if_not_exist: Some(cursor == VmCursorEnum::VmCursorDst),
        })),
        nested_instructions: vec![then],
        ..Default::default()
    }
}

/// Which session a data source's config is for.
pub(crate) fn session_of(config: Option<&Bytes>) -> u32 {
    let config = config.and_then(|config| protos::DataSourceConfig::decode(config.clone()).ok());
    config.and_then(|config| config.legacy_config().parse().ok()).unwrap_or(0)
}
