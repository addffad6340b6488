//! A consumer that reads back more than fits into any queue, as fast as it can.

use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use ferretto_consumer::Consumer;
use ferretto_producer::{Connector, ExhaustedPolicy, ProducerClient, ProducerEvent, ProducerOptions};
use ferretto_protos::fields::{test_event, trace_packet};
use ferretto_protos::{self as protos, DataSourceDescriptor};
use ferretto_traced::in_process::{Host, HostOptions};
use prost::Message;

const PACKETS: u64 = 10_000;
/// 40 MB: many times what the service queues for a consumer.
const PACKET_BYTES: usize = 4000;

fn config() -> protos::TraceConfig {
    let source = protos::DataSourceConfig { name: Some("data".to_owned()), ..Default::default() };
    protos::TraceConfig {
        buffers: vec![protos::trace_config::BufferConfig { size_kb: Some(65_536), ..Default::default() }],
        data_sources: vec![protos::trace_config::DataSource { config: Some(source), ..Default::default() }],
        ..Default::default()
    }
}

/// Writes all its packets as soon as it is started, and tells.
fn produce(mut client: ProducerClient, written: &Sender<()>) {
    let mut writer = None;
    loop {
        client.wait(None, &[]).unwrap();
        while let Some(event) = client.next_event() {
            match event {
                ProducerEvent::Start { config, .. } => {
                    let mut new = client.create_writer(config.target_buffer() as u16, ExhaustedPolicy::Stall);
                    for _ in 0..PACKETS {
                        let mut packet = new.new_packet();
                        packet
                            .nested(trace_packet::FOR_TESTING)
                            .bytes(test_event::STR, &[b'x'; PACKET_BYTES]);
                    }
                    new.flush();
                    writer = Some(new);
                    written.send(()).unwrap();
                }
                ProducerEvent::Flush { request_id, .. } => client.notify_flush_complete(request_id),
                ProducerEvent::Stop { instance } => {
                    writer = None;
                    client.notify_stopped(instance);
                }
                ProducerEvent::Disconnected { .. } => return drop(writer),
                _ => {}
            }
        }
    }
}

#[test]
fn a_long_read_back_comes_to_its_end() {
    let host = Host::spawn(HostOptions::default()).unwrap();
    let mut options = ProducerOptions::new("much");
    options.connector = Connector::Stream(host.connect_producer().unwrap());
    let mut client = ProducerClient::new(options).unwrap();
    client.register_data_source(&DataSourceDescriptor {
        name: Some("data".to_owned()),
        will_notify_on_stop: Some(true),
        ..Default::default()
    });
    let (written, is_written) = channel();
    let producer = thread::spawn(move || produce(client, &written));
    let mut consumer = Consumer::over(host.connect_consumer().unwrap()).unwrap();
    consumer.enable_tracing(config().encode_to_vec(), None).unwrap();
    is_written.recv_timeout(Duration::from_secs(60)).expect("the producer writes");
    consumer.flush(Duration::ZERO, 0).unwrap();
    consumer.disable().unwrap();
    let mut large = 0;
    let count = |packet: &[u8]| {
        large += u64::from(packet.len() > PACKET_BYTES);
        Ok(())
    };
    consumer.read_buffers(count).unwrap();
    assert_eq!(large, PACKETS);
    drop((consumer, host));
    producer.join().unwrap();
}
