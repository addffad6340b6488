//! Producers that do the same whatever the service: they write when they are started what the config's `for_testing` says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use ferretto_ipc::address::Address;
use ferretto_producer::{
    Connector, ExhaustedPolicy, InstanceId, ProducerClient, ProducerEvent, ProducerOptions, ProducerWaker,
    TraceWriter,
};
use ferretto_protos::fields::{test_event, trace_packet};
use ferretto_protos::{DataSourceConfig, DataSourceDescriptor};

/// Acknowledges everything.
pub(crate) const MAIN: &str = "parity.main";
/// Never acknowledges its start nor its stop.
const SILENT: &str = "parity.silent";
/// Never acknowledges a flush, and neither do the others of its producer while it runs.
const DEAF: &str = "parity.deaf";

/// What the data sources say about themselves.
fn descriptors() -> [DataSourceDescriptor; 6] {
    let named =
        |name: &str| DataSourceDescriptor { name: Some(name.to_owned()), ..DataSourceDescriptor::default() };
    let notifying = |name| DataSourceDescriptor {
        will_notify_on_start: Some(true),
        will_notify_on_stop: Some(true),
        ..named(name)
    };
    [
        notifying(MAIN),
        named("parity.plain"),
        notifying(SILENT),
        notifying(DEAF),
        DataSourceDescriptor { no_flush: Some(true), ..notifying("parity.no_flush") },
        DataSourceDescriptor {
            handles_incremental_state_clear: Some(true),
            ..notifying("parity.incremental")
        },
    ]
}

/// What a producer was told and has done.
#[derive(Debug, Default, Clone)]
pub(crate) struct Told {
    pub(crate) setups: Vec<Vec<u8>>,
    /// `setup NAME`, `start NAME`, `stop NAME`.
    pub(crate) order: Vec<String>,
    pub(crate) written: usize,
    pub(crate) stops: usize,
    pub(crate) flushes: usize,
    pub(crate) flush_flags: BTreeSet<u64>,
    pub(crate) clears: usize,
}

/// A producer on a thread of its own; it leaves when dropped.
#[derive(Debug)]
pub(crate) struct Producer {
    pub(crate) name: String,
    told: Arc<Mutex<Told>>,
    commands: Option<Sender<String>>,
    waker: ProducerWaker,
    thread: Option<JoinHandle<()>>,
}

impl Producer {
    pub(crate) fn start(name: &str, socket: PathBuf) -> Self {
        let mut options = ProducerOptions::new(name);
        options.connector = Connector::Address(Address::Path(socket));
        let client = ProducerClient::new(options).expect("a producer");
        let told = Arc::new(Mutex::new(Told::default()));
        let (sender, receiver) = channel();
        let waker = client.waker();
        let actor =
            Actor { client, told: Arc::clone(&told), commands: receiver, running: BTreeMap::default() };
        let thread = Some(std::thread::spawn(move || actor.act()));
        Self { name: name.to_owned(), told, commands: Some(sender), waker, thread }
    }

    pub(crate) fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap()
    }

    pub(crate) fn activate_trigger(&self, name: &str) {
        let commands = self.commands.as_ref().expect("a running producer");
        commands.send(name.to_owned()).expect("a running producer");
        self.waker.wake();
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        // Without a sender the thread ends.
        drop(self.commands.take());
        self.waker.wake();
        let ended = self.thread.take().expect("only here").join();
        if !std::thread::panicking() {
            ended.expect("the producer's thread ends well");
        }
    }
}

struct Actor {
    client: ProducerClient,
    told: Arc<Mutex<Told>>,
    /// Triggers to activate.
    commands: Receiver<String>,
    running: BTreeMap<InstanceId, (String, TraceWriter)>,
}

impl Actor {
    fn act(mut self) {
        for descriptor in descriptors() {
            self.client.register_data_source(&descriptor);
        }
        loop {
            self.client.wait(None, &[]).expect("events");
            while let Some(event) = self.client.next_event() {
                self.handle(event);
            }
            loop {
                match self.commands.try_recv() {
                    Ok(trigger) => assert!(self.client.activate_triggers(&[&trigger]), "no service"),
                    Err(std::sync::mpsc::TryRecvError::Empty) => break,
                    Err(std::sync::mpsc::TryRecvError::Disconnected) => return,
                }
            }
        }
    }

    fn handle(&mut self, event: ProducerEvent) {
        match event {
            ProducerEvent::Setup { config, .. } => {
                let mut told = self.told.lock().unwrap();
                told.setups.push(config.raw().to_vec());
                told.order.push(format!("setup {}", config.name()));
            }
            ProducerEvent::Start { instance, config } => {
                self.start(instance, &config.decode().expect("a config"));
            }
            ProducerEvent::Stop { instance } => self.stop(instance),
            ProducerEvent::Flush { request_id, instances, flags } => {
                self.flush(request_id, &instances, flags)
            }
            ProducerEvent::ClearIncrementalState { .. } => self.told.lock().unwrap().clears += 1,
            _ => {}
        }
    }

    fn start(&mut self, instance: InstanceId, config: &DataSourceConfig) {
        let policy = ExhaustedPolicy::from_config(config, ExhaustedPolicy::Stall);
        let mut writer = self.client.create_writer(config.target_buffer() as u16, policy);
        write(&mut writer, config);
        self.client.commit();
        let name = config.name().to_owned();
        if name != SILENT {
            self.client.notify_started(instance);
        }
        let mut told = self.told.lock().unwrap();
        told.order.push(format!("start {name}"));
        told.written += 1;
        self.running.insert(instance, (name, writer));
    }

    fn stop(&mut self, instance: InstanceId) {
        let Some((name, writer)) = self.running.remove(&instance) else { return };
        drop(writer);
        if name != SILENT {
            self.client.notify_stopped(instance);
        }
        let mut told = self.told.lock().unwrap();
        told.order.push(format!("stop {name}"));
        told.stops += 1;
    }

    fn flush(&mut self, request_id: u64, instances: &[InstanceId], flags: u64) {
        let mut told = self.told.lock().unwrap();
        told.flushes += 1;
        told.flush_flags.insert(flags);
        drop(told);
        for instance in instances {
            if let Some((_, writer)) = self.running.get_mut(instance) {
                writer.flush();
            }
        }
        if !self.running.values().any(|(name, _)| name == DEAF) {
            self.client.notify_flush_complete(request_id);
        }
    }
}

/// `message_count` packets with about `message_size` bytes each, numbered from `seed`.
fn write(writer: &mut TraceWriter, config: &DataSourceConfig) {
    let wanted = config.for_testing.as_ref();
    let count = wanted.map_or(10, |wanted| wanted.message_count());
    let seed = wanted.map_or(0, |wanted| wanted.seed());
    let filler = "x".repeat(wanted.map_or(20, |wanted| wanted.message_size()) as usize);
    for number in 0..count {
        let mut packet = writer.new_packet();
        packet.varint(trace_packet::TIMESTAMP, 1_000_000_000 + u64::from(number));
        // SEQ_INCREMENTAL_STATE_CLEARED and SEQ_NEEDS_INCREMENTAL_STATE.
        packet.varint(trace_packet::SEQUENCE_FLAGS, if number == 0 { 3 } else { 2 });
        let mut event = packet.nested(trace_packet::FOR_TESTING);
        event.varint(test_event::SEQ_VALUE, u64::from(seed + number));
        event.string(test_event::STR, &filler);
    }
    writer.flush();
}
