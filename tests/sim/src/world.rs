//! The world: a service, clients that come and go, a clock, and an order of events that the seed decides.

use std::collections::BTreeSet;
use std::sync::Arc;

use ferretto_protos as protos;
use ferretto_service::{
    ClockReadings, ConsumerCall, ConsumerConn, Environment, FileHandle, Now, Output, Peer, ProducerCall,
    ProducerConn, Reply, Service, ServiceOptions, Token,
};
use ferretto_shm::SharedMemory;

use crate::consumer::{Consumer, DETACH_KEY, Phase};
use crate::producer::Producer;
use crate::rng::Rng;
use crate::trace::Stream;

const MAX_PRODUCERS: usize = 5;
const MAX_CONSUMERS: usize = 3;
const MAX_STEPS: usize = 4000;
/// Rounds in which everybody brings things to an end; each delivers all that is on its way.
const SETTLE_ROUNDS: usize = 400;
const NS_PER_MS: u64 = 1_000_000;
/// Consumers are this user: sessions of one user see each other.
const CONSUMER_UID: u32 = 1;
const FIRST_PRODUCER_UID: u32 = 1000;

/// What happened in a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Sessions that were read to their end.
    pub sessions: u64,
    /// Packets that were read.
    pub packets: u64,
    /// Announced gaps among them.
    pub gaps: u64,
    /// Streams of which every packet was asserted to be there.
    pub complete_streams: u64,
}

/// A service and its clients.
pub struct World {
    seed: u64,
    rng: Rng,
    service: Service,
    now_ns: u64,
    last_conn: u64,
    producers: Vec<(ProducerConn, Producer)>,
    consumers: Vec<(ConsumerConn, Consumer)>,
    hostile_uids: BTreeSet<u32>,
    report: Report,
}

struct Nature {
    rng: Rng,
}

impl Environment for Nature {
    fn allocate_memory(&mut self, len: usize) -> Result<Arc<SharedMemory>, String> {
        if self.rng.one_in(100) {
            return Err("the world has no memory today".to_owned());
        }
        SharedMemory::create(len).map(Arc::new).map_err(|error| error.to_string())
    }

    fn random_u64(&mut self) -> u64 {
        self.rng.next()
    }

    fn create_output(&mut self, path: &str) -> Result<FileHandle, String> {
        Err(format!("{path}: the world has no files"))
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("seed", &self.seed).finish_non_exhaustive()
    }
}

impl World {
    /// A world in which all choices come from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let nature = Nature { rng: Rng::new(rng.next()) };
        Self {
            seed,
            service: Service::new(ServiceOptions::default(), Box::new(nature)),
            rng,
            now_ns: 1_000_000 * NS_PER_MS,
            last_conn: 0,
            producers: Vec::new(),
            consumers: Vec::new(),
            hostile_uids: BTreeSet::new(),
            report: Report::default(),
        }
    }

    /// Lets the world run, then end, and checks it.
    ///
    /// # Panics
    /// If the system breaks a promise.
    pub fn run(mut self) -> Report {
        let steps = self.rng.below(MAX_STEPS);
        for _ in 0..steps {
            self.step();
        }
        self.settle();
        self.check_traces();
        self.check_nothing_is_left();
        self.report
    }

    fn now(&self) -> Now {
        let ns = self.now_ns;
        let clocks = ClockReadings {
            boottime: ns,
            monotonic: ns,
            monotonic_coarse: ns,
            monotonic_raw: ns,
            realtime: ns + 1_700_000_000_000 * NS_PER_MS,
            realtime_coarse: ns + 1_700_000_000_000 * NS_PER_MS,
            tsc: None,
        };
        Now { clocks }
    }

    /// One event.
    fn step(&mut self) {
        match self.rng.below(100) {
            0..2 => self.add_producer(),
            2..4 => self.add_consumer(),
            4..35 => self.producer_acts(),
            35..50 => self.consumer_acts(),
            50..85 => self.deliver_somewhere(),
            85..99 => self.time_passes(),
            _ => self.somebody_vanishes(),
        }
        self.serve();
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
        let uid = FIRST_PRODUCER_UID + u32::try_from(conn.0).unwrap_or(0);
        let is_hostile = self.rng.one_in(3);
        self.service.handle_producer_connected(conn, Peer { uid, pid: 7, emulated: false });
        if is_hostile {
            self.hostile_uids.insert(uid);
        }
        self.producers.push((conn, Producer::new(uid, is_hostile, &mut self.rng)));
    }

    fn add_consumer(&mut self) {
        if self.consumers.len() >= MAX_CONSUMERS {
            return;
        }
        let conn = ConsumerConn(self.next_conn());
        self.service.handle_consumer_connected(conn, Peer { uid: CONSUMER_UID, pid: 8, emulated: false });
        let is_hostile = self.rng.one_in(4);
        self.consumers.push((conn, Consumer::new(is_hostile)));
    }

    fn producer_acts(&mut self) {
        if let Some(index) = self.somebody(self.producers.len()) {
            self.producers[index].1.act(&mut self.rng);
        }
    }

    fn consumer_acts(&mut self) {
        if let Some(index) = self.somebody(self.consumers.len()) {
            self.consumers[index].1.act(&mut self.rng);
        }
    }

    fn somebody(&mut self, of: usize) -> Option<usize> {
        (of > 0).then(|| self.rng.below(of))
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
        let now = self.now();
        let (conn, producer) = &mut self.producers[index];
        let was_down = producer.link.is_down;
        for call in producer.link.deliver(&mut self.rng) {
            match ProducerCall::decode(call.method, call.args) {
                Ok(decoded) => self.service.handle_producer_call(*conn, call.token, decoded, None, &now),
                Err(_) => producer.link.reply(rejected(call.token)),
            }
        }
        if producer.link.is_down && !was_down {
            self.service.handle_producer_disconnected(*conn, &now);
        }
    }

    fn deliver_consumer(&mut self, index: usize) {
        let now = self.now();
        let (conn, consumer) = &mut self.consumers[index];
        consumer.hostile_uids.clone_from(&self.hostile_uids);
        let was_down = consumer.link.is_down;
        for call in consumer.link.deliver(&mut self.rng) {
            match ConsumerCall::decode(call.method, call.args) {
                Ok(decoded) => self.service.handle_consumer_call(*conn, call.token, decoded, None, &now),
                Err(_) => consumer.link.reply(rejected(call.token)),
            }
        }
        if consumer.link.is_down && !was_down {
            self.service.handle_consumer_disconnected(*conn, &now);
        }
    }

    fn time_passes(&mut self) {
        let step_ms = self.rng.pick(&[1, 1, 5, 20, 100, 1000]);
        self.now_ns += step_ms * NS_PER_MS;
        let now = self.now();
        if self.service.next_timeout_ns(&now) == Some(0) || self.rng.one_in(10) {
            self.service.handle_timeout(&now);
        }
    }

    /// Somebody hangs up, whatever is on its way.
    fn somebody_vanishes(&mut self) {
        let now = self.now();
        let of = self.producers.len() + self.consumers.len();
        let Some(index) = self.somebody(of) else { return };
        if index < self.producers.len() {
            let (conn, producer) = self.producers.remove(index);
            if !producer.link.is_down {
                self.service.handle_producer_disconnected(conn, &now);
            }
        } else {
            let (conn, consumer) = self.consumers.remove(index - self.producers.len());
            if !consumer.link.is_down {
                self.service.handle_consumer_disconnected(conn, &now);
            }
        }
    }

    /// Carries out what the service wants.
    fn serve(&mut self) {
        let now = self.now();
        while let Some(output) = self.service.poll_output() {
            match output {
                Output::ToProducer(conn, reply) => {
                    if let Some((_, producer)) = self.producers.iter_mut().find(|(other, _)| *other == conn) {
                        producer.link.reply(reply);
                    }
                }
                Output::ToConsumer(conn, reply) => self.reply_consumer(conn, reply),
                Output::CloseFile(file) => panic!("there is no file {file}"),
            }
        }
        for index in 0..self.consumers.len() {
            let (conn, consumer) = &mut self.consumers[index];
            for reply in self.service.poll_read(*conn, &now) {
                consumer.link.reply(reply);
            }
        }
    }

    fn reply_consumer(&mut self, conn: ConsumerConn, reply: Reply) {
        let honest =
            self.producers.iter().filter(|(_, producer)| !producer.is_hostile && !producer.link.is_down);
        let acknowledged = || honest.flat_map(|(_, producer)| producer.acknowledged()).collect();
        if let Some((_, consumer)) = self.consumers.iter_mut().find(|(other, _)| *other == conn) {
            if consumer.link.method_of(reply.token) == Some("EnableTracing") {
                consumer.acknowledged = acknowledged();
            }
            consumer.link.reply(reply);
        }
    }

    /// Nobody misbehaves or stalls any more; everybody comes to an end, which must be soon.
    fn settle(&mut self) {
        for _ in 0..SETTLE_ROUNDS {
            for index in 0..self.producers.len() {
                self.producers[index].1.settle(&mut self.rng);
                self.deliver_producer(index);
            }
            for index in 0..self.consumers.len() {
                self.consumers[index].1.settle();
                self.deliver_consumer(index);
            }
            self.serve();
            self.time_passes();
            self.serve();
        }
        for (conn, consumer) in &self.consumers {
            let is_over = consumer.is_hostile
                || consumer.link.is_down
                || matches!(consumer.phase, Phase::Connecting | Phase::Done);
            assert!(is_over, "the consumer {conn} never came to its end: {:?}", consumer.phase);
        }
    }

    fn check_traces(&mut self) {
        self.check_no_stream_is_in_two_traces();
        for (_, consumer) in &self.consumers {
            self.report.packets += consumer.checker.packets;
            self.report.gaps += consumer.checker.gaps;
            let is_over = consumer.phase == Phase::Done && consumer.error.is_none();
            self.report.sessions += u64::from(is_over);
            // Of a session whose buffer cannot overflow, everything that was acknowledged to an honest producer is there.
            if is_over && consumer.is_ample && !consumer.is_hostile {
                for (stream, count) in &consumer.acknowledged {
                    if consumer.checker.has(*stream) {
                        consumer.checker.check_complete(*stream, *count);
                        self.report.complete_streams += 1;
                    }
                }
            }
        }
    }

    /// An instance belongs to one session.
    fn check_no_stream_is_in_two_traces(&self) {
        for (_, producer) in &self.producers {
            for &instance in &producer.instances {
                let stream = Stream { uid: producer.uid, instance };
                let traces =
                    self.consumers.iter().filter(|(_, consumer)| consumer.checker.has(stream)).count();
                assert!(traces <= 1, "{stream:?} is in {traces} traces");
            }
        }
    }

    /// When all have gone, nothing is left of them.
    fn check_nothing_is_left(&mut self) {
        let now = self.now();
        for (conn, producer) in std::mem::take(&mut self.producers) {
            if !producer.link.is_down {
                self.service.handle_producer_disconnected(conn, &now);
            }
        }
        for (conn, consumer) in std::mem::take(&mut self.consumers) {
            if !consumer.link.is_down {
                self.service.handle_consumer_disconnected(conn, &now);
            }
        }
        self.free_detached_session(&now);
        while self.service.poll_output().is_some() {}
        assert_eq!(self.service.session_count(), 0, "sessions are left");
        assert_eq!(self.service.next_timeout_ns(&now), None, "timers are left");
    }

    /// Hostile consumers detach their sessions and leave. Whoever has the key may take such a session up; keys are unique.
    fn free_detached_session(&mut self, now: &Now) {
        let conn = ConsumerConn(self.next_conn());
        self.service.handle_consumer_connected(conn, Peer { uid: CONSUMER_UID, pid: 9, emulated: false });
        let attach = protos::AttachRequest { key: Some(DETACH_KEY.to_owned()) };
        self.service.handle_consumer_call(conn, Token(1), ConsumerCall::Attach(attach), None, now);
        self.service.handle_consumer_disconnected(conn, now);
    }
}

fn rejected(token: Token) -> Reply {
    Reply { token, body: None, has_more: false, memory: None }
}
