//! A producer: connects to a service, and has what sessions ask for start and stop.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ferretto_producer::{
    Connector, ExhaustedPolicy, InstanceConfig, InstanceId, ProducerClient, ProducerError, ProducerEvent,
    ProducerOptions,
};
use ferretto_protos::DataSourceDescriptor;
use ferretto_protos::fields::trace_packet::{self, not_recorded};
use ferretto_sys::{KernelClock, clock_ns};

/// How often records are looked at: files of a process that has ended may be gone soon.
const READ_PERIOD: Duration = Duration::from_millis(20);
/// How long an ending sampler waits for the service to take the last data.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// A data source that is offered: whoever starts what a session asks for.
pub(crate) trait Source {
    /// One that runs.
    type Instance: Instance;
    /// The data source.
    const NAME: &'static str;
    /// The name that configs' producer filters know.
    const PRODUCER_NAME: &'static str;

    /// Starts what a config asks for, or says in words why not. There are so many already.
    fn start(
        &self,
        client: &ProducerClient,
        config: &InstanceConfig,
        running: usize,
    ) -> Result<Self::Instance, String>;
}

/// What runs for a session.
pub(crate) trait Instance {
    /// Does what there is to do by now.
    fn turn(&mut self);
    /// Hands over what is written.
    fn flush(&mut self);
    /// Readers may have lost what was said.
    fn clear(&mut self);
    /// The last of it.
    fn finish(&mut self);
}

/// Where it is offered.
pub(crate) struct Offer {
    pub(crate) connector: Connector,
    /// Becomes readable when it shall end.
    pub(crate) stop: OwnedFd,
    /// Gets the byte `1` and is closed once the data source is registered.
    pub(crate) notify: Option<OwnedFd>,
}

struct Producer<S: Source> {
    client: ProducerClient,
    source: S,
    instances: BTreeMap<InstanceId, S::Instance>,
}

/// Offers a source to a service's sessions, on this thread, until told to stop.
pub(crate) fn offer<S: Source>(source: S, offer: Offer) -> Result<(), ProducerError> {
    let has_one_connection = matches!(offer.connector, Connector::Stream(_));
    let mut client_options = ProducerOptions::new(S::PRODUCER_NAME);
    client_options.connector = offer.connector;
    let mut client = ProducerClient::new(client_options)?;
    client.register_data_source(&DataSourceDescriptor {
        name: Some(S::NAME.to_owned()),
        will_notify_on_start: Some(true),
        will_notify_on_stop: Some(true),
        handles_incremental_state_clear: Some(true),
        ..DataSourceDescriptor::default()
    });
    let mut notify = offer.notify;
    let mut producer = Producer { client, source, instances: BTreeMap::new() };
    let mut next_read = Instant::now();
    loop {
        let timeout =
            (!producer.instances.is_empty()).then(|| next_read.saturating_duration_since(Instant::now()));
        if producer.wait(timeout, offer.stop.as_fd())? {
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
        producer.instances.values_mut().for_each(Instance::turn);
        next_read = Instant::now() + READ_PERIOD;
    }
    producer.instances.values_mut().for_each(Instance::finish);
    producer.instances.clear();
    producer.client.drain(DRAIN_TIMEOUT);
    Ok(())
}

impl<S: Source> Producer<S> {
    /// Waits until there is something to do; says whether to stop.
    fn wait(&mut self, timeout: Option<Duration>, stop: BorrowedFd<'_>) -> Result<bool, ProducerError> {
        let ready = self.client.wait(timeout, &[stop])?;
        Ok(ready.first() == Some(&true))
    }

    fn handle(&mut self, event: ProducerEvent) {
        match event {
            ProducerEvent::Start { instance, config } => {
                match self.source.start(&self.client, &config, self.instances.len()) {
                    Ok(started) => _ = self.instances.insert(instance, started),
                    Err(reason) => self.refuse(&config, &reason),
                }
                self.client.notify_started(instance);
            }
            ProducerEvent::Stop { instance } => {
                if let Some(mut stopped) = self.instances.remove(&instance) {
                    stopped.finish();
                }
                self.client.notify_stopped(instance);
            }
            ProducerEvent::Flush { request_id, instances, .. } => {
                let of_these = self.instances.iter_mut().filter(|(id, _)| instances.contains(id));
                of_these.for_each(|(_, instance)| instance.flush());
                self.client.notify_flush_complete(request_id);
            }
            ProducerEvent::ClearIncrementalState { instances } => {
                let of_these = self.instances.iter_mut().filter(|(id, _)| instances.contains(id));
                of_these.for_each(|(_, instance)| instance.clear());
            }
            // Their sessions are gone with the service.
            ProducerEvent::Disconnected { .. } => self.instances.clear(),
            ProducerEvent::Setup { .. }
            | ProducerEvent::Connected
            | ProducerEvent::StartupEnded { .. }
            | ProducerEvent::Synced => {}
        }
    }

    /// Says in the log and in the trace why there are no samples.
    fn refuse(&self, config: &InstanceConfig, reason: &str) {
        tracing::error!("{} records nothing: {reason}", S::NAME);
        let mut writer = self.client.create_writer(target_buffer(config), ExhaustedPolicy::Drop);
        let mut packet = writer.new_packet();
        packet.varint(trace_packet::TIMESTAMP, clock_ns(KernelClock::Boot));
        packet.varint(trace_packet::PREVIOUS_PACKET_DROPPED, 1);
        let mut note = packet.nested(trace_packet::NOT_RECORDED);
        note.string(not_recorded::DATA_SOURCE_NAME, S::NAME);
        note.string(not_recorded::PRODUCER_NAME, S::PRODUCER_NAME);
        note.string(not_recorded::REASON, reason);
    }
}

/// The service's numbers of buffers have 16 bits.
pub(crate) fn target_buffer(config: &InstanceConfig) -> u16 {
    u16::try_from(config.target_buffer()).unwrap_or(0)
}
