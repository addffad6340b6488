//! Sessions with data sources of any kind, for tests that look at packets.

#![allow(dead_code, reason = "each test binary uses some of it")]

use std::time::{Duration, Instant};

use ferretto_consumer::{Consumer, Event, Observe};
use ferretto_protos::trace_config::{BufferConfig, DataSource, IncrementalStateConfig};
use ferretto_protos::trace_packet::Data;
use ferretto_protos::{DataSourceConfig, TraceConfig, TracePacket};
use prost::Message;

pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// A recording under way.
pub(crate) struct Session {
    pub(crate) consumer: Consumer,
}

/// A session with these data sources and a buffer that they fit into.
pub(crate) fn config(sources: &[&str]) -> TraceConfig {
    let source = |name: &&str| DataSource {
        config: Some(DataSourceConfig { name: Some((*name).to_owned()), ..Default::default() }),
        ..Default::default()
    };
    TraceConfig {
        buffers: vec![BufferConfig { size_kb: Some(8 * 1024), ..Default::default() }],
        data_sources: sources.iter().map(source).collect(),
        data_source_stop_timeout_ms: Some(TIMEOUT.as_millis() as u32),
        ..Default::default()
    }
}

/// As [`config`], with incremental state that is cleared so often.
pub(crate) fn clearing(sources: &[&str], period_ms: u32) -> TraceConfig {
    TraceConfig {
        incremental_state_config: Some(IncrementalStateConfig { clear_period_ms: Some(period_ms) }),
        ..config(sources)
    }
}

impl Session {
    /// Starts, and waits until all data sources have.
    pub(crate) fn start(mut consumer: Consumer, config: &TraceConfig) -> Self {
        for source in &config.data_sources {
            wait_for_source(&mut consumer, source.config.as_ref().unwrap().name());
        }
        consumer.observe(Observe::ALL_DATA_SOURCES_STARTED).unwrap();
        consumer.enable_tracing(config.encode_to_vec(), None).unwrap();
        loop {
            match consumer.poll(Some(TIMEOUT)) {
                Some(Event::Observed(events)) if events.all_data_sources_started() => {
                    return Self { consumer };
                }
                Some(Event::TracingDisabled { error }) => panic!("refused: {error:?}"),
                None => panic!("the data sources did not start"),
                _ => {}
            }
        }
    }

    pub(crate) fn flush(&mut self) {
        self.consumer.flush(TIMEOUT, 0x34).unwrap();
    }

    /// Stops and reads the packets.
    pub(crate) fn stop(mut self) -> Vec<TracePacket> {
        self.consumer.disable().unwrap();
        self.read_ended()
    }

    /// Reads when the session has ended.
    pub(crate) fn read_ended(mut self) -> Vec<TracePacket> {
        while !matches!(
            self.consumer.poll(Some(TIMEOUT)).expect("the session ends"),
            Event::TracingDisabled { .. }
        ) {}
        let mut packets = Vec::new();
        self.consumer
            .read_buffers(|packet| {
                packets.push(TracePacket::decode(packet).unwrap());
                Ok(())
            })
            .unwrap();
        packets
    }
}

/// Waits until the service lists a data source of this name.
pub(crate) fn wait_for_source(consumer: &mut Consumer, name: &str) {
    let until = Instant::now() + TIMEOUT;
    loop {
        let state = consumer.query_service_state(false).unwrap();
        let names = state.data_sources.into_iter().map(|source| {
            let bytes = source.ds_descriptor.unwrap_or_default();
            ferretto_protos::DataSourceDescriptor::decode(bytes).unwrap().name.unwrap_or_default()
        });
        if names.into_iter().any(|listed| listed == name) {
            return;
        }
        assert!(Instant::now() < until, "{name} is not registered");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits for something that another thread does.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < until, "in vain for: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The texts of test events, in the order of the trace.
pub(crate) fn texts(packets: &[TracePacket]) -> Vec<&str> {
    let text = |packet| match packet {
        &TracePacket { data: Some(Data::ForTesting(ref event)), .. } => Some(event.str()),
        _ => None,
    };
    packets.iter().filter_map(text).collect()
}
