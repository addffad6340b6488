//! The world: a service, clients that come and go, clocks, files, and an order of events that the seed decides.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ferretto_protos as protos;
use ferretto_service::{
    ClockReadings, ConsumerCall, ConsumerConn, Environment, FileHandle, Machine, Now, Output, Peer,
    ProducerCall, ProducerConn, Reply, Service, ServiceOptions, Token,
};
use ferretto_shm::SharedMemory;

use crate::consumer::{Consumer, Phase};
use crate::fate::{Fate, Report};
use crate::files::Files;
use crate::link::Call;
use crate::model::Model;
use crate::plan::{Plan, machine_name};
use crate::producer::Producer;
use crate::relay::Relay;
use crate::rng::Rng;
use crate::session::{Clocks, NS_PER_MS};

const MAX_PRODUCERS: usize = 5;
const MAX_CONSUMERS: usize = 4;
const MAX_RELAYS: usize = 3;
const MAX_STEPS: usize = 3000;
/// Rounds in which everybody brings things to an end; each delivers all that is on its way.
const SETTLE_ROUNDS: usize = 400;
/// Meanwhile work is done faster than time passes, as it is where a step is a millisecond's.
const SETTLE_STEPS: usize = 10;
/// Rounds between looks at the service's state.
const STEPS_PER_LOOK: usize = 64;
/// The user of the service itself.
pub(crate) const SERVICE_UID: u32 = 900;
const CONSUMER_UIDS: [u32; 4] = [0, 1, 1, 2];
const BYSTANDER_UID: u32 = 3;
const RELAY_UID: u32 = 4;
const FIRST_PRODUCER_UID: u32 = 1000;
const FIRST_PID: i32 = 20_000;

/// A service and its clients.
pub struct World {
    seed: u64,
    fate: Fate,
    service: Service,
    model: Model,
    nature: Arc<Mutex<Shared>>,
    now_ns: u64,
    suspended_ns: u64,
    wall_ns: u64,
    last_conn: u64,
    plans: Vec<Plan>,
    producers: Vec<(ProducerConn, Producer)>,
    consumers: Vec<(ConsumerConn, Consumer)>,
    relays: Vec<(ProducerConn, Relay)>,
    /// Of the relays' calls, the last that was answered.
    relay_told: u64,
    /// Root, who looks at the state and tidies up.
    janitor: ConsumerConn,
    /// Somebody who only asks how things are, and must never wait.
    bystander: ConsumerConn,
    /// Of the bystander's questions, the last that was answered.
    bystander_told: u64,
    last_token: u64,
}

/// What the service has got from nature, for the world to look after.
#[derive(Default)]
struct Shared {
    files: Files,
    memory: Vec<Weak<SharedMemory>>,
    refusals: u64,
}

struct Nature {
    rng: Rng,
    shared: Arc<Mutex<Shared>>,
}

impl Environment for Nature {
    fn allocate_memory(&mut self, len: usize) -> Result<Arc<SharedMemory>, String> {
        let mut shared = lock(&self.shared);
        if self.rng.one_in(50) {
            shared.refusals += 1;
            return Err("the world has no memory today".to_owned());
        }
        let memory = SharedMemory::create(len).map(Arc::new).map_err(|error| error.to_string())?;
        shared.memory.push(Arc::downgrade(&memory));
        Ok(memory)
    }

    fn random_u64(&mut self) -> u64 {
        self.rng.next()
    }

    fn create_output(&mut self, path: &str) -> Result<FileHandle, String> {
        let session = path.parse().map_err(|_| format!("{path}: no such directory"))?;
        Ok(lock(&self.shared).files.open(session, &mut self.rng))
    }
}

fn lock(shared: &Mutex<Shared>) -> std::sync::MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("seed", &self.seed).finish_non_exhaustive()
    }
}

impl World {
    /// A world in which all choices come from `seed`. Its story is printed if `is_told`.
    pub fn new(seed: u64, is_told: bool) -> Self {
        let mut fate = Fate::new(seed, is_told);
        let nature = Arc::new(Mutex::new(Shared::default()));
        let environment = Nature { rng: Rng::new(fate.next()), shared: nature.clone() };
        // Mostly so little that all that takes steps takes several.
        let step_cost = NonZeroUsize::new(fate.pick(&[0, 1, 2, 5, 20]));
        let options = ServiceOptions { uid: SERVICE_UID, step_cost, ..Default::default() };
        Self {
            seed,
            fate,
            service: Service::new(options, Box::new(environment)),
            model: Model::default(),
            nature,
            now_ns: 1_000_000 * NS_PER_MS,
            suspended_ns: 0,
            wall_ns: 1_700_000_000_000 * NS_PER_MS,
            last_conn: 0,
            plans: Vec::new(),
            producers: Vec::new(),
            consumers: Vec::new(),
            relays: Vec::new(),
            relay_told: 0,
            janitor: ConsumerConn(0),
            bystander: ConsumerConn(0),
            bystander_told: 0,
            last_token: 0,
        }
    }

    /// Lets the world run, then end, and checks it.
    ///
    /// # Panics
    /// If the system breaks a promise.
    pub fn run(mut self) -> Report {
        self.janitor_comes();
        self.bystander_comes();
        let steps = self.fate.below(MAX_STEPS);
        for _ in 0..steps {
            self.step();
        }
        self.settle();
        self.check_end();
        self.fate.report.clone()
    }

    fn clocks(&self) -> Clocks {
        Clocks { monotonic: self.now_ns, boottime: self.now_ns + self.suspended_ns }
    }

    fn now(&self) -> Now {
        let Clocks { monotonic, boottime } = self.clocks();
        let realtime = self.wall_ns + boottime;
        let clocks = ClockReadings {
            boottime,
            monotonic,
            monotonic_coarse: monotonic,
            monotonic_raw: monotonic,
            realtime,
            realtime_coarse: realtime,
            tsc: None,
        };
        Now { clocks }
    }

    /// One event.
    fn step(&mut self) {
        match self.fate.below(100) {
            0..2 => self.add_producer(),
            2..4 => self.add_consumer(),
            4..35 => self.producer_acts(),
            35..50 => self.consumer_acts(),
            50..85 => self.deliver_somewhere(),
            85..97 => self.time_passes(),
            97 | 98 => self.relay_acts(),
            _ => self.somebody_vanishes(),
        }
        self.write_files(false);
        self.serve();
        self.model.check_count(self.service.session_count());
        self.model.check_semaphores();
        self.fate.report.steps += 1;
        if self.fate.report.steps.is_multiple_of(STEPS_PER_LOOK as u64) {
            self.look();
        }
    }

    fn next_conn(&mut self) -> u64 {
        self.last_conn += 1;
        self.last_conn
    }

    fn add_producer(&mut self) {
        if self.producers.len() >= MAX_PRODUCERS {
            return;
        }
        let conn = ProducerConn(self.next_conn());
        let number = u32::try_from(conn.0).unwrap_or(0);
        let uid = FIRST_PRODUCER_UID + number;
        let producer = Producer::new(uid, conn.0 as usize, &mut self.fate);
        let peer = Peer { uid, pid: FIRST_PID + number as i32, emulated: producer.habits.is_emulated };
        self.fate.tell(format_args!("producer {conn} comes: {:?}", producer.habits));
        producer.note(&mut self.fate);
        let machine = producer.habits.machine;
        self.model.producer_connects(conn, peer, &producer.name, producer.habits);
        self.service.handle_producer_connected(conn, peer);
        if let Some(name) = machine_name(machine) {
            self.service.handle_producer_machine(conn, Machine { id: machine, name: name.to_owned() });
        }
        self.producers.push((conn, producer));
    }

    fn add_consumer(&mut self) {
        if self.consumers.len() >= MAX_CONSUMERS {
            return;
        }
        let conn = ConsumerConn(self.next_conn());
        let uid = self.fate.pick(&CONSUMER_UIDS);
        let is_hostile = uid != 0 && self.fate.one_in(4);
        self.fate.tell(format_args!("consumer {conn} of {uid} comes, hostile: {is_hostile}"));
        self.model.consumer_connects(conn, uid);
        self.service.handle_consumer_connected(conn, Peer { uid, pid: 8, emulated: false });
        self.consumers.push((conn, Consumer::new(uid, is_hostile)));
    }

    /// A relay comes, says something, or goes.
    fn relay_acts(&mut self) {
        match self.fate.below(8) {
            0 if self.relays.len() < MAX_RELAYS => self.add_relay(),
            1 if !self.relays.is_empty() => self.relay_vanishes(),
            _ => self.relay_calls(),
        }
    }

    fn add_relay(&mut self) {
        let conn = ProducerConn(self.next_conn());
        let machine = self.fate.pick(&[0, 1, 1, 2]);
        self.fate.tell(format_args!("relay {conn} of the machine {machine} comes"));
        self.service.handle_producer_connected(conn, Peer { uid: RELAY_UID, pid: 6, emulated: true });
        if let Some(name) = machine_name(machine) {
            self.service.handle_producer_machine(conn, Machine { id: machine, name: name.to_owned() });
        }
        self.relays.push((conn, Relay::new(machine, &mut self.fate)));
    }

    fn relay_calls(&mut self) {
        let Some(index) = self.somebody(self.relays.len()) else { return };
        let now = self.now();
        self.last_token += 1;
        let token = Token(self.last_token);
        let (conn, relay) = &mut self.relays[index];
        let call = relay.call(now.clocks.boottime, &mut self.fate);
        self.fate.tell(format_args!("relay {conn} of the machine {}: {}", relay.machine, call.method()));
        self.service.handle_relay_call(*conn, token, call, &now);
        self.serve();
        assert_eq!(self.relay_told, self.last_token, "a relay is not answered");
    }

    fn relay_vanishes(&mut self) {
        let index = self.fate.below(self.relays.len());
        let (conn, _) = self.relays.remove(index);
        self.fate.tell(format_args!("relay {conn} vanishes"));
        let now = self.now();
        self.service.handle_producer_disconnected(conn, &now);
        self.serve();
    }

    fn producer_acts(&mut self) {
        if let Some(index) = self.somebody(self.producers.len()) {
            self.producers[index].1.act(&mut self.fate);
        }
    }

    fn consumer_acts(&mut self) {
        if let Some(index) = self.somebody(self.consumers.len()) {
            self.consumers[index].1.act(&mut self.plans, &mut self.fate);
        }
    }

    fn somebody(&mut self, of: usize) -> Option<usize> {
        (of > 0).then(|| self.fate.below(of))
    }

    fn deliver_somewhere(&mut self) {
        let of = self.producers.len() + self.consumers.len();
        match self.somebody(of) {
            Some(index) if index < self.producers.len() => self.deliver_producer(index),
            Some(index) => self.deliver_consumer(index - self.producers.len()),
            None => {}
        }
    }

    fn deliver_producer(&mut self, index: usize) {
        let Some((conn, producer)) = self.producers.get_mut(index) else { return };
        let conn = *conn;
        for call in producer.link.deliver(&mut self.fate) {
            self.producer_calls(conn, call);
        }
        self.hang_up();
    }

    fn producer_calls(&mut self, conn: ProducerConn, call: Call) {
        let now = self.now();
        self.fate.tell(format_args!("producer {conn}: {} of {} bytes", call.method, call.args.len()));
        let Some((_, producer)) = self.producers.iter_mut().find(|(other, _)| *other == conn) else { return };
        let Ok(decoded) = ProducerCall::decode(call.method, call.args) else {
            return producer.link.reply(rejected(call.token));
        };
        let memory = producer.provided.clone().filter(|_| decoded.takes_memory());
        self.model.producer_calls(conn, &decoded, &mut self.fate);
        self.service.handle_producer_call(conn, call.token, decoded, memory, &now);
        while self.service.is_committing(conn) {
            self.fate.saw("a commit in steps");
            self.service.continue_commit(conn, &now);
        }
        if let Some((stream, count)) = producer.service_took(call.request) {
            self.fate.tell(format_args!("the service has {count} of {stream:?}"));
            self.model.service_has(stream, count);
        }
        self.serve();
        self.model.producer_has_called();
    }

    fn deliver_consumer(&mut self, index: usize) {
        let Some((conn, consumer)) = self.consumers.get_mut(index) else { return };
        let conn = *conn;
        if self.service.is_busy(conn) {
            return;
        }
        for call in consumer.link.deliver(&mut self.fate) {
            // Those that came together are not served before the work for the one before is done.
            while self.service.is_busy(conn) {
                self.handle_timeout();
            }
            self.consumer_calls(conn, call);
        }
        self.hang_up();
    }

    fn consumer_calls(&mut self, conn: ConsumerConn, call: Call) {
        let now = self.now();
        self.fate.tell(format_args!("consumer {conn}: {} of {} bytes", call.method, call.args.len()));
        let Some((_, consumer)) = self.consumers.iter_mut().find(|(other, _)| *other == conn) else { return };
        let Ok(decoded) = ConsumerCall::decode(call.method, call.args) else {
            return consumer.link.reply(rejected(call.token));
        };
        let clocks = self.clocks();
        self.model.consumer_calls(conn, call.token, &decoded, &self.plans, clocks);
        let file = self.file_for(&decoded);
        if let (ConsumerCall::CloneSession(_), Some(file)) = (&decoded, file) {
            self.model.clone_takes_file(conn, call.token, file);
        }
        self.service.handle_consumer_call(conn, call.token, decoded, file, &now);
        self.serve();
        self.model.consumer_has_called(conn, call.method, &mut self.fate);
    }

    /// The file that goes with a call: where one is wanted, and sometimes where none is.
    fn file_for(&mut self, call: &ConsumerCall) -> Option<FileHandle> {
        if !call.takes_file() {
            return None;
        }
        let mut session = 0;
        // Whoever clones cannot know whether the session writes into a file.
        let mut is_welcome = matches!(call, ConsumerCall::CloneSession(_)) && !self.fate.one_in(3);
        if let ConsumerCall::EnableTracing(request) = call {
            let serial = crate::plan::serial_of(request.trace_config.as_deref().unwrap_or_default());
            let plan = serial.and_then(|serial| self.plans.iter().find(|plan| plan.serial == serial));
            session = match plan.and_then(|plan| Some((plan.serial, plan.file.as_ref()?.is_by_path))) {
                Some((serial, false)) => serial,
                _ => 0,
            };
        }
        is_welcome |= session != 0 || self.fate.one_in(20);
        is_welcome.then(|| lock(&self.nature).files.open(session, &mut self.fate))
    }

    fn time_passes(&mut self) {
        let step_ms = self.fate.pick(&[1, 1, 5, 20, 100, 1000]);
        self.now_ns += step_ms * NS_PER_MS;
        self.fate.now_ms += step_ms;
        if self.fate.one_in(40) {
            self.fate.saw("suspend");
            self.suspended_ns += self.fate.pick(&[50, 5000, 10_000_000]) * NS_PER_MS;
        }
        if self.fate.one_in(60) {
            self.fate.saw("a clock is set");
            let by = self.fate.pick(&[1, 3_600_000, 100_000_000]) * NS_PER_MS;
            self.wall_ns =
                if self.fate.one_in(2) { self.wall_ns + by } else { self.wall_ns.saturating_sub(by) };
        }
        let now = self.now();
        if self.service.next_timeout_ns(&now) == Some(0) || self.fate.one_in(10) {
            self.handle_timeout();
        }
    }

    fn handle_timeout(&mut self) {
        let (now, clocks) = (self.now(), self.clocks());
        self.model.time_is_handled(clocks, &mut self.fate);
        self.service.handle_timeout(&now);
        let is_working = self.service.has_work();
        assert!(
            is_working || self.service.next_timeout_ns(&now) != Some(0),
            "what is due stays due: a driver would spin"
        );
        if is_working {
            self.fate.saw("work is done in steps");
            self.bystander_asks();
        }
        self.serve();
        self.model.time_was_handled(clocks, &mut self.fate);
    }

    /// Somebody hangs up, whatever is on its way.
    fn somebody_vanishes(&mut self) {
        let of = self.producers.len() + self.consumers.len();
        let Some(index) = self.somebody(of) else { return };
        if index < self.producers.len() {
            self.producer_vanishes(index);
        } else {
            self.fate.saw("a consumer vanishes");
            self.consumer_vanishes(index - self.producers.len());
        }
    }

    fn producer_vanishes(&mut self, index: usize) {
        let now = self.now();
        let (conn, producer) = self.producers.remove(index);
        self.fate.tell(format_args!("producer {conn} vanishes"));
        producer.note_vanishing(&mut self.fate);
        self.model.producer_vanishes(conn, producer.scrapable(), &mut self.fate);
        self.service.handle_producer_disconnected(conn, &now);
        self.serve();
        self.model.producer_has_vanished();
    }

    fn consumer_vanishes(&mut self, index: usize) {
        let now = self.now();
        let (conn, _) = self.consumers.remove(index);
        self.fate.tell(format_args!("consumer {conn} vanishes"));
        self.model.consumer_vanishes(conn);
        self.service.handle_consumer_disconnected(conn, &now);
        self.serve();
        self.model.consumer_has_vanished(conn);
    }

    /// Whoever spoke nonsense is hung up on, as in the daemon.
    fn hang_up(&mut self) {
        while let Some(index) = self.producers.iter().position(|(_, producer)| producer.link.is_down) {
            self.producer_vanishes(index);
        }
        while let Some(index) = self.consumers.iter().position(|(_, consumer)| consumer.link.is_down) {
            self.consumer_vanishes(index);
        }
    }

    /// Carries out what the service wants.
    fn serve(&mut self) {
        let now = self.now();
        self.model.is_working = self.service.has_work();
        loop {
            while let Some(output) = self.service.poll_output() {
                self.carry_out(output);
            }
            let Some(write) = self.service.poll_file_write(&now) else { break };
            lock(&self.nature).files.write(write, &mut self.fate);
        }
        for index in 0..self.consumers.len() {
            let conn = self.consumers[index].0;
            for reply in self.service.poll_read(conn, &now) {
                self.reply_consumer(conn, reply);
            }
        }
        self.model.is_working = self.service.has_work();
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::ToProducer(conn, reply) => {
                if let Some((_, relay)) = self.relays.iter().find(|(other, _)| *other == conn) {
                    assert_eq!(reply.body.is_some(), relay.machine != 0, "whose relays are let in");
                    self.relay_told = reply.token.0;
                    return;
                }
                let Some((_, producer)) = self.producers.iter_mut().find(|(other, _)| *other == conn) else {
                    return;
                };
                let method = producer.link.method_of(reply.token).expect("only calls are answered");
                self.model.producer_is_told(conn, method, &reply, &mut self.fate);
                producer.link.reply(reply);
            }
            Output::ToConsumer(conn, reply) => self.reply_consumer(conn, reply),
            Output::CloseFile(handle) => {
                self.fate.tell(format_args!("file {handle} is closed"));
                self.model.file_is_closed(handle, lock(&self.nature).files.close(handle), &mut self.fate);
            }
        }
    }

    fn reply_consumer(&mut self, conn: ConsumerConn, reply: Reply) {
        let clocks = self.clocks();
        if conn == self.janitor {
            return self.model.consumer_is_told(conn, "QueryServiceState", &reply, clocks, &mut self.fate);
        }
        if conn == self.bystander {
            self.bystander_told = reply.token.0;
            return;
        }
        let Some((_, consumer)) = self.consumers.iter_mut().find(|(other, _)| *other == conn) else { return };
        let method = consumer.link.method_of(reply.token).expect("only calls are answered");
        let is_rejected = reply.body.is_none();
        self.fate.tell(format_args!("consumer {conn} is told of its {method}, rejected: {is_rejected}"));
        self.model.consumer_is_told(conn, method, &reply, clocks, &mut self.fate);
        consumer.link.reply(reply);
    }

    /// Brings writes on, and tells how they went.
    fn write_files(&mut self, at_once: bool) {
        let now = self.now();
        let done = lock(&self.nature).files.progress(at_once, &mut self.fate);
        for (file, result) in done {
            self.fate.tell(format_args!("file {file} was written: {result:?}"));
            self.model.file_was_written(lock(&self.nature).files.session_of(file), result.is_err());
            self.service.handle_file_written(file, result, &now);
            self.serve();
        }
    }

    // The janitor.

    fn janitor_comes(&mut self) {
        self.janitor = ConsumerConn(self.next_conn());
        self.model.consumer_connects(self.janitor, 0);
        self.service.handle_consumer_connected(self.janitor, Peer { uid: 0, pid: 9, emulated: false });
    }

    /// Looks at the state of the service, which the model compares with its own.
    fn look(&mut self) {
        self.last_token += 1;
        let call = ConsumerCall::QueryServiceState(protos::QueryServiceStateRequest::default());
        let now = self.now();
        self.service.handle_consumer_call(self.janitor, Token(self.last_token), call, None, &now);
        self.serve();
    }

    // The bystander.

    fn bystander_comes(&mut self) {
        self.bystander = ConsumerConn(self.next_conn());
        self.model.consumer_connects(self.bystander, BYSTANDER_UID);
        let peer = Peer { uid: BYSTANDER_UID, pid: 7, emulated: false };
        self.service.handle_consumer_connected(self.bystander, peer);
    }

    /// Whatever the service is in the middle of, who asks for the sessions is answered in the same turn.
    fn bystander_asks(&mut self) {
        if !self.fate.one_in(4) {
            return;
        }
        self.fate.saw("somebody asks while work is under way");
        self.last_token += 1;
        let request = protos::QueryServiceStateRequest { sessions_only: Some(true) };
        let call = ConsumerCall::QueryServiceState(request);
        let now = self.now();
        self.service.handle_consumer_call(self.bystander, Token(self.last_token), call, None, &now);
        self.serve();
        assert_eq!(self.bystander_told, self.last_token, "the bystander has to wait for the work of others");
    }

    // The end.

    /// Nobody misbehaves or stalls any more; everybody comes to an end, which must be soon.
    fn settle(&mut self) {
        // Hostile consumers do not know themselves what they have.
        while let Some(index) = self.consumers.iter().position(|(_, consumer)| consumer.is_hostile) {
            self.consumer_vanishes(index);
        }
        for _ in 0..SETTLE_ROUNDS {
            self.settle_once();
            if self.is_settled() {
                break;
            }
        }
        for (conn, consumer) in &self.consumers {
            let is_over = consumer.phase == Phase::Over || !consumer.link.is_bound();
            assert!(is_over, "the consumer {conn} never came to its end: {:?}", consumer.phase);
        }
    }

    fn settle_once(&mut self) {
        for index in 0..self.producers.len() {
            if let Some((_, producer)) = self.producers.get_mut(index) {
                producer.settle(&mut self.fate);
            }
            self.deliver_producer(index);
        }
        for index in 0..self.consumers.len() {
            if let Some((_, consumer)) = self.consumers.get_mut(index) {
                consumer.settle(&self.plans);
            }
            self.deliver_consumer(index);
        }
        self.write_files(true);
        self.serve();
        self.time_passes();
        // Periodic flushes of several sessions may make more work than is done in one step each time.
        for _ in 0..SETTLE_STEPS {
            if self.service.has_work() {
                self.handle_timeout();
            }
        }
    }

    fn is_settled(&self) -> bool {
        let is_idle = |(_, producer): &(_, Producer)| producer.is_idle();
        let is_over =
            |(_, consumer): &(_, Consumer)| consumer.phase == Phase::Over && consumer.link.is_quiet();
        !self.service.has_work() && self.producers.iter().all(is_idle) && self.consumers.iter().all(is_over)
    }

    fn has_open_files(&self) -> bool {
        lock(&self.nature).files.files.values().any(|file| file.is_open)
    }

    fn check_end(&mut self) {
        self.free_detached();
        for _ in 0..SETTLE_ROUNDS {
            self.settle_once();
            if self.is_settled() && !self.has_open_files() {
                break;
            }
        }
        self.look();
        assert_eq!(self.service.session_count(), 0, "sessions are left: {:?}", self.model.sessions);
        let now = self.now();
        assert_eq!(self.service.next_timeout_ns(&now), None, "timers are left");
        self.check_answers();
        assert!(!self.has_open_files(), "a file is left open");
        self.check_memory();
    }

    /// Whoever has the key may take a detached session up.
    fn free_detached(&mut self) {
        while let Some((uid, key)) = self.model.detached() {
            let conn = ConsumerConn(self.next_conn());
            let now = self.now();
            self.model.consumer_connects(conn, uid);
            self.service.handle_consumer_connected(conn, Peer { uid, pid: 9, emulated: false });
            self.model.attach_at_the_end(conn, uid, &key);
            let attach = protos::AttachRequest { key: Some(key) };
            self.service.handle_consumer_call(conn, Token(1), ConsumerCall::Attach(attach), None, &now);
            self.service.handle_consumer_disconnected(conn, &now);
            self.serve();
            self.model.consumer_has_vanished(conn);
        }
    }

    /// Every call has its answer; only streams may be open.
    fn check_answers(&self) {
        for (conn, producer) in &self.producers {
            let mut unanswered = producer.link.unanswered();
            assert!(
                unanswered.all(|(_, method)| method == "GetAsyncCommand"),
                "the producer {conn} waits for an answer"
            );
            let running = if producer.habits.is_hostile { 0 } else { producer.instances() };
            assert_eq!(running, 0, "the producer {conn} was never told to stop");
        }
        for (conn, consumer) in &self.consumers {
            for (_, method) in consumer.link.unanswered() {
                assert!(self.model.may_wait(*conn, method), "the consumer {conn} waits for {method}");
            }
        }
    }

    /// When all have gone, their memory is free.
    fn check_memory(&mut self) {
        while !self.producers.is_empty() {
            self.producer_vanishes(0);
        }
        while !self.consumers.is_empty() {
            self.consumer_vanishes(0);
        }
        let shared = lock(&self.nature);
        let left = shared.memory.iter().filter(|memory| memory.strong_count() > 0).count();
        assert_eq!(left, 0, "shared memory of producers that are gone");
        for _ in 0..shared.refusals {
            self.fate.saw("memory refused");
        }
    }
}

fn rejected(token: Token) -> Reply {
    Reply { token, body: None, has_more: false, memory: None }
}
