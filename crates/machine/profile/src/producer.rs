//! The producer: connects to a service, and samples while sessions want it.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ferretto_producer::{
    Connector, ExhaustedPolicy, InstanceConfig, InstanceId, ProducerClient, ProducerError, ProducerEvent,
    ProducerOptions,
};
use ferretto_protos::DataSourceDescriptor;
use ferretto_protos::fields::trace_packet::{self, not_recorded};
use ferretto_sys::{KernelClock, clock_ns};

use crate::config::Wanted;
use crate::events::{Events, Refused, Target};
use crate::sampler::{Sampler, Whom};
use crate::scope::Scope;
use crate::strangers::FileBooks;
use crate::summary::Summary;

/// The data source.
pub const DATA_SOURCE: &str = "linux.perf";
/// The name that configs' producer filters know (upstream: perf_producer.cc).
const PRODUCER_NAME: &str = "perfetto.traced_perf";
/// How often records are looked at: files of a process that has ended may be gone soon.
const READ_PERIOD: Duration = Duration::from_millis(20);
/// Sessions that are sampled for at a time, each with rings of its own: a service has 15, and two more that are root's.
const MAX_SAMPLERS: usize = 17;
/// How long an ending sampler waits for the service to take the last data.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// How to run.
#[derive(Debug)]
pub struct ProfileOptions {
    /// Where the tracing service is.
    pub connector: Connector,
    /// What is sampled: children are those that are started once the data source runs. Without it what the session's scope says, of the whole machine.
    pub target: Option<Target>,
    /// Becomes readable when it shall end.
    pub stop: OwnedFd,
    /// Gets the byte `1` and is closed once the data source is registered.
    pub notify: Option<OwnedFd>,
    /// Where the time went, by now, if somebody reads it.
    pub summary: Option<Arc<Mutex<Summary>>>,
}

struct Producer {
    client: ProducerClient,
    samplers: BTreeMap<InstanceId, Sampler>,
    target: Option<Target>,
    summary: Option<Arc<Mutex<Summary>>>,
    /// Of all sessions.
    books: FileBooks,
}

/// Samples for a service's sessions, on this thread, until told to stop.
///
/// # Errors
///
/// If the connection cannot be prepared. What the kernel refuses is an error of the session that asks for it.
pub fn run(options: ProfileOptions) -> Result<(), ProducerError> {
    let has_one_connection = matches!(options.connector, Connector::Stream(_));
    let mut client_options = ProducerOptions::new(PRODUCER_NAME);
    client_options.connector = options.connector;
    let mut client = ProducerClient::new(client_options)?;
    client.register_data_source(&DataSourceDescriptor {
        name: Some(DATA_SOURCE.to_owned()),
        will_notify_on_start: Some(true),
        will_notify_on_stop: Some(true),
        handles_incremental_state_clear: Some(true),
        ..DataSourceDescriptor::default()
    });
    let mut notify = options.notify;
    let samplers = BTreeMap::new();
    let books = match &options.target {
        Some(Target::ChildrenOf(_) | Target::Group(_) | Target::Processes(_)) => FileBooks::that_trust_all(),
        Some(Target::Machine) | None => FileBooks::default(),
    };
    let (target, summary) = (options.target, options.summary);
    let mut producer = Producer { client, samplers, target, summary, books };
    let mut next_read = Instant::now();
    loop {
        let timeout =
            (!producer.samplers.is_empty()).then(|| next_read.saturating_duration_since(Instant::now()));
        if producer.wait(timeout, options.stop.as_fd())? {
            break;
        }
        let mut is_connected = true;
        while let Some(event) = producer.client.next_event() {
            is_connected &= !matches!(event, ProducerEvent::Disconnected { .. });
            producer.handle(event);
        }
        if producer.client.is_connected()
            && let Some(notify) = notify.take()
        {
            producer.client.sync();
            // Nobody may listen any more.
            let _ = std::fs::File::from(notify).write_all(b"1");
        }
        if has_one_connection && !is_connected {
            break;
        }
        producer.samplers.values_mut().for_each(Sampler::turn);
        next_read = Instant::now() + READ_PERIOD;
    }
    producer.samplers.values_mut().for_each(Sampler::flush);
    producer.samplers.clear();
    producer.client.drain(DRAIN_TIMEOUT);
    Ok(())
}

impl Producer {
    /// Waits until there is something to do; says whether to stop.
    fn wait(&mut self, timeout: Option<Duration>, stop: BorrowedFd<'_>) -> Result<bool, ProducerError> {
        let ready = self.client.wait(timeout, &[stop])?;
        Ok(ready.first() == Some(&true))
    }

    fn handle(&mut self, event: ProducerEvent) {
        match event {
            ProducerEvent::Start { instance, config } => {
                match self.start(&config) {
                    Ok(sampler) => _ = self.samplers.insert(instance, sampler),
                    Err(reason) => self.refuse(&config, &reason),
                }
                self.client.notify_started(instance);
            }
            ProducerEvent::Stop { instance } => {
                if let Some(mut sampler) = self.samplers.remove(&instance) {
                    sampler.flush();
                }
                self.client.notify_stopped(instance);
            }
            ProducerEvent::Flush { request_id, instances, .. } => {
                let of_these = |id: &InstanceId| instances.contains(id);
                let samplers = self.samplers.iter_mut().filter(|(id, _)| of_these(id));
                samplers.for_each(|(_, sampler)| sampler.flush());
                self.client.notify_flush_complete(request_id);
            }
            ProducerEvent::ClearIncrementalState { instances } => {
                for (_, sampler) in self.samplers.iter_mut().filter(|(id, _)| instances.contains(id)) {
                    sampler.clear();
                }
            }
            // Their sessions are gone with the service.
            ProducerEvent::Disconnected { .. } => self.samplers.clear(),
            ProducerEvent::Setup { .. }
            | ProducerEvent::Connected
            | ProducerEvent::StartupEnded { .. }
            | ProducerEvent::Synced => {}
        }
    }

    /// Says in the log and in the trace why there are no samples.
    fn refuse(&self, config: &InstanceConfig, reason: &str) {
        tracing::error!("{DATA_SOURCE} records nothing: {reason}");
        let mut writer = self.client.create_writer(target_buffer(config), ExhaustedPolicy::Drop);
        let mut packet = writer.new_packet();
        packet.varint(trace_packet::TIMESTAMP, clock_ns(KernelClock::Boot));
        packet.varint(trace_packet::PREVIOUS_PACKET_DROPPED, 1);
        let mut note = packet.nested(trace_packet::NOT_RECORDED);
        note.string(not_recorded::DATA_SOURCE_NAME, DATA_SOURCE);
        note.string(not_recorded::PRODUCER_NAME, PRODUCER_NAME);
        note.string(not_recorded::REASON, reason);
    }

    fn start(&self, config: &InstanceConfig) -> Result<Sampler, String> {
        if self.samplers.len() >= MAX_SAMPLERS {
            return Err(format!("{MAX_SAMPLERS} sessions are sampled for already"));
        }
        let decoded = config.decode().map_err(|error| error.to_string())?;
        let config_of = decoded.perf_event_config.unwrap_or_default();
        let wanted = Wanted::of(&config_of)?;
        let scope = Scope::of(&config_of, clock_ns(KernelClock::Boot))?;
        let (events, target) = self.open(&wanted, &scope).map_err(|error| error.to_string())?;
        // Without a sample here and there the picture is the same; a profiler that waits is one that samples itself.
        let writer =
            self.client.create_writer(target_buffer(config), config.exhausted_policy(ExhaustedPolicy::Stall));
        let whose = (wanted, scope, Whom::of(&target));
        Sampler::new(events, whose, writer, (self.summary.clone(), &self.books))
            .map_err(|error| error.to_string())
    }

    /// Events of what is sampled. Who may not have those of the machine may have those of processes that a session names.
    fn open(&self, wanted: &Wanted, scope: &Scope) -> Result<(Events, Target), Refused> {
        let target = self.target.clone().unwrap_or(Target::Machine);
        let refused = match Events::open(&target, wanted) {
            Ok(events) => return Ok((events, target)),
            Err(refused) => refused,
        };
        match scope.only_pids().filter(|_| self.target.is_none() && refused.is_denied()) {
            Some(pids) => {
                let target = Target::Processes(pids);
                Ok((Events::open(&target, wanted)?, target))
            }
            None => Err(refused),
        }
    }
}

/// The service's numbers of buffers have 16 bits.
fn target_buffer(config: &InstanceConfig) -> u16 {
    u16::try_from(config.target_buffer()).unwrap_or(0)
}
