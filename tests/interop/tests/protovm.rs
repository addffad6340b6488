//! A trace that begins with the state of a ProtoVM, in the eyes of upstream's Trace Processor.

use std::fs::File;
use std::thread;
use std::time::Duration;

use ferretto_consumer::write_packet;
use ferretto_interop::{Maker, World, config, ferretto, need, serve, trace_query};
use ferretto_ipc::address::Address;
use ferretto_producer::{ExhaustedPolicy, ProducerClient};
use ferretto_protos::fields::{sys_stats, sys_stats::meminfo_value, trace_packet};
use ferretto_protos::{
    CompileConfig, DataSourceConfig, DataSourceDescriptor, MeminfoCounters, TracePacket, text,
};
use ferretto_protovm::compile::compile;
use prost::Message;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Far more than the ring holds.
const PACKETS: u64 = 20_000;

/// Statistics of memory, of which each packet has only one: the state has the latest of all.
const DESCRIPTION: &str = r#"
root_message: "perfetto.protos.TracePacket"
commands { set { src: "timestamp" dst: "timestamp" } }
commands {
  merge { src: "sys_stats" src: "meminfo" dst: "sys_stats" dst: "meminfo" key_field: "key" recursive: true }
}"#;

fn program() -> Vec<u8> {
    let description = text::parse("perfetto.protos.CompileConfig", DESCRIPTION).expect("a description");
    let config = CompileConfig::decode(description.as_slice()).expect("a CompileConfig");
    compile(&config, text::descriptor_pool()).expect("a program").encode_to_vec()
}

/// Total memory comes first and only once; then free memory, again and again.
fn write(client: &ProducerClient, config: &DataSourceConfig) {
    let mut writer = client.create_writer(config.target_buffer() as u16, ExhaustedPolicy::Stall);
    for number in 0..PACKETS {
        let key = match number {
            0 => MeminfoCounters::MeminfoMemTotal,
            _ => MeminfoCounters::MeminfoMemFree,
        };
        let mut packet = writer.new_packet();
        packet.varint(trace_packet::TIMESTAMP, 1_000_000_000 + number * 1000);
        let mut stats = packet.nested(trace_packet::SYS_STATS);
        let mut value = stats.nested(sys_stats::MEMINFO);
        value.varint(meminfo_value::KEY, key as u64);
        value.varint(meminfo_value::VALUE, number);
    }
    writer.flush();
    assert_eq!(writer.drop_count(), 0);
}

#[test]
fn a_trace_with_a_state_can_be_read() {
    let (peers, sql) = (need!(ferretto()), need!(trace_query()));
    let mut world = World::with_traced(&peers, Maker::Ferretto);
    let address = Address::Path(world.producer_socket());
    let source = DataSourceDescriptor {
        name: Some("state".to_owned()),
        protovm_program: Some(program().into()),
        ..DataSourceDescriptor::default()
    };
    let producer = thread::spawn(move || serve(address, "changes", &source, write));
    world.wait_for_data_source("state");

    let mut consumer = world.consumer();
    let config = config(
        "buffers { size_kb: 64 } data_sources { config { name: \"state\" protovm_config { memory_limit_kb: 64 } } }",
    );
    consumer.enable_tracing(config, None).expect("a session");
    // The producer answers when it has written everything.
    consumer.flush(TIMEOUT, 0).expect("a flush");
    let stats = consumer.stats().expect("statistics");
    assert!(stats.buffer_stats[0].write_wrap_count() > 3, "{stats:?}");
    consumer.disable().expect("the end");
    let trace = world.path("trace.pftrace");
    let mut file = File::create(&trace).expect("a file");
    let mut states = 0;
    consumer
        .read_buffers(|packet| {
            let data = TracePacket::decode(packet).expect("a packet").data;
            states += usize::from(matches!(data, Some(ferretto_protos::trace_packet::Data::Protovms(_))));
            write_packet(&mut file, packet)
        })
        .expect("the packets");
    assert_eq!(states, 1);

    let free = "select count(*) from counter join counter_track on track_id = counter_track.id where name = 'MemFree'";
    let total = "select count(*) from counter join counter_track on track_id = counter_track.id where name = 'MemTotal'";
    let wrong = "select coalesce(sum(value), 0) from stats where name like 'protovm%'";
    // Versions that know ProtoVMs say the total, which only the state has, as often as the free memory.
    let known = "select count(*) from stats where name = 'protovm_abort'";
    let [free, total, wrong, known] = sql.numbers(&trace, &[free, total, wrong, known])[..] else { panic!() };
    assert!(free > 0 && wrong == 0, "{free} counters, {wrong} errors");
    assert_eq!(total, if known > 0 { free } else { 0 });

    world.kill_service();
    producer.join().expect("the producer ends with the service");
}
