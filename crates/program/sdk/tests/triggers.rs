//! A program calls out a trigger that a recording waits for.

use std::time::{Duration, Instant};

use ferretto::Connector;
use ferretto_consumer::{Consumer, Event};
use ferretto_protos::TraceConfig;
use ferretto_protos::trace_config::trigger_config::{Trigger, TriggerMode};
use ferretto_protos::trace_config::{BufferConfig, TriggerConfig};
use ferretto_traced::in_process::{Host, HostOptions};
use prost::Message;

const TIMEOUT: Duration = Duration::from_secs(30);

#[test]
fn a_program_ends_a_recording_by_a_trigger() {
    assert!(!ferretto::activate_triggers(&["enough"]), "before init there is nobody to tell");
    let host = Host::spawn(HostOptions::default()).unwrap();
    let stream = host.connect_producer().unwrap();
    ferretto::builder("app").connector(Connector::Stream(stream)).init().unwrap();
    let mut consumer = Consumer::over(host.connect_consumer().unwrap()).unwrap();
    // What is called out before the program is connected reaches nobody.
    let until = Instant::now() + TIMEOUT;
    while consumer.query_service_state(false).unwrap().producers.is_empty() {
        assert!(Instant::now() < until, "the program has not connected");
        std::thread::sleep(Duration::from_millis(2));
    }
    let trigger = Trigger {
        producer_name_regex: Some("app".to_owned()),
        name: Some("enough".to_owned()),
        ..Default::default()
    };
    let config = TraceConfig {
        buffers: vec![BufferConfig { size_kb: Some(4), ..Default::default() }],
        trigger_config: Some(TriggerConfig {
            trigger_mode: Some(TriggerMode::StopTracing as i32),
            trigger_timeout_ms: Some(600_000),
            triggers: vec![trigger],
            ..Default::default()
        }),
        ..Default::default()
    };
    consumer.enable_tracing(config.encode_to_vec(), None).unwrap();
    // Answered after it: the session is there.
    consumer.stats().unwrap();
    assert!(ferretto::activate_triggers(&["something", "enough"]));
    let ended = consumer.poll(Some(TIMEOUT));
    assert!(matches!(ended, Some(Event::TracingDisabled { error: None })), "{ended:?}");
    let mut packets = 0;
    consumer
        .read_buffers(|_| {
            packets += 1;
            Ok(())
        })
        .unwrap();
    assert!(packets > 0, "the trace may be read");
}
