//! A producer that writes what has changed since its last packet, into a ring that forgets: the trace has it all.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use ferretto_consumer::Consumer;
use ferretto_ipc::socket::Stream;
use ferretto_producer::{
    Connector, ExhaustedPolicy, ProducerClient, ProducerEvent, ProducerOptions, TraceWriter,
};
use ferretto_protos::fields::{test_event as event, test_event::proto_vm_message as element, trace_packet};
use ferretto_protos::{self as protos, CompileConfig, DataSourceDescriptor, TracePacket, text};
use ferretto_protovm::compile::compile;
use ferretto_protovm::{Program, Vm};
use ferretto_traced::in_process::{Host, HostOptions};
use prost::Message;

const RING_KB: u32 = 32;
const LAPS: u64 = 10;
const MEMORY_KB: u32 = 4096;

/// More than there are changes in the ring, so that most of the state was overwritten long ago.
const KEYS: u32 = 4999;

/// How a patch changes the state, by the names of their fields.
const DESCRIPTION: &str = r#"
root_message: "perfetto.protos.TracePacket"
commands {
  enter_scope {
    src: "for_testing" src: "protovm_patch" dst: "for_testing" dst: "protovm_incremental_state"
    commands {
      set { src: "string_to_merge" dst: "string_merged" }
      abort_level: SKIP_CURRENT_COMMAND
    }
    commands {
      merge { src: "messages" dst: "messages" key_field: "id" recursive: true }
      abort_level: SKIP_CURRENT_COMMAND
    }
    commands {
      del { src: "delete_message_ids" dst: "messages" dst_key_field: "id" }
      abort_level: SKIP_CURRENT_COMMAND
    }
  }
}"#;

fn program() -> Vec<u8> {
    let description = text::parse("perfetto.protos.CompileConfig", DESCRIPTION).unwrap();
    let config = CompileConfig::decode(description.as_slice()).unwrap();
    compile(&config, text::descriptor_pool()).unwrap().encode_to_vec()
}

fn config() -> Vec<u8> {
    let config = format!(
        "buffers {{ size_kb: {RING_KB} }}
         data_sources {{ config {{ name: \"state\" protovm_config {{ memory_limit_kb: {MEMORY_KB} }} }} }}"
    );
    text::parse_trace_config(&config).unwrap()
}

/// What the producer knows.
#[derive(Debug, Default, PartialEq, Eq)]
struct State {
    text: String,
    numbers: BTreeMap<u32, u32>,
}

impl State {
    /// From a packet with the state in full.
    fn of(packet: &[u8]) -> Self {
        let packet = TracePacket::decode(packet).unwrap();
        let Some(protos::trace_packet::Data::ForTesting(event)) = packet.data else {
            panic!("no state: {packet:?}");
        };
        let state = event.protovm_incremental_state.unwrap();
        let number = |element: &protos::test_event::ProtoVmMessage| {
            (element.id(), element.submessage.as_ref().unwrap().single_int())
        };
        Self { text: state.string_merged().to_owned(), numbers: state.messages.iter().map(number).collect() }
    }

    /// Changes a little of it, and writes just that.
    fn change(&mut self, number: u32, writer: &mut TraceWriter) {
        let (key, gone) = (number * 7 % KEYS, number * 13 % KEYS);
        let mut packet = writer.new_packet();
        let mut testing = packet.nested(trace_packet::FOR_TESTING);
        testing.varint(event::SEQ_VALUE, number.into());
        let mut patch = testing.nested(event::PROTOVM_PATCH);
        if number.is_multiple_of(1000) {
            self.text = format!("{number} changes{}", "!".repeat(number as usize % 97));
            patch.bytes(event::proto_vm_patch::STRING_TO_MERGE, self.text.as_bytes());
        }
        self.numbers.insert(key, number);
        let mut changed = patch.nested(event::proto_vm_patch::MESSAGES);
        changed.varint(element::ID, key.into());
        changed.nested(element::SUBMESSAGE).varint(element::proto_vm_submessage::SINGLE_INT, number.into());
        drop(changed);
        if number.is_multiple_of(5) && gone != key && self.numbers.remove(&gone).is_some() {
            patch.varint(event::proto_vm_patch::DELETE_MESSAGE_IDS, gone.into());
        }
    }
}

/// Serves the service on one thread until it is told to stop.
struct Producer {
    client: ProducerClient,
    writer: Option<TraceWriter>,
    written: Sender<State>,
}

impl Producer {
    fn new(service: Stream, written: Sender<State>) -> Self {
        let mut options = ProducerOptions::new("changes");
        options.connector = Connector::Stream(service);
        // Less than the ring: chunks do not overtake their patches.
        options.shm_size_hint_bytes = RING_KB * 1024 / 2;
        let mut client = ProducerClient::new(options).unwrap();
        client.register_data_source(&DataSourceDescriptor {
            name: Some("state".to_owned()),
            protovm_program: Some(program().into()),
            will_notify_on_stop: Some(true),
            ..Default::default()
        });
        Self { client, writer: None, written }
    }

    fn run(mut self) {
        loop {
            self.client.wait(None, &[]).unwrap();
            while let Some(event) = self.client.next_event() {
                match event {
                    ProducerEvent::Start { config, .. } => self.write(config.target_buffer() as u16),
                    ProducerEvent::Flush { request_id, .. } => self.client.notify_flush_complete(request_id),
                    ProducerEvent::Stop { instance } => {
                        self.writer = None;
                        self.client.notify_stopped(instance);
                    }
                    ProducerEvent::Disconnected { .. } => return,
                    _ => {}
                }
            }
        }
    }

    /// Ten times as much as the ring holds.
    fn write(&mut self, buffer: u16) {
        let mut writer = self.client.create_writer(buffer, ExhaustedPolicy::Stall);
        let mut state = State::default();
        let mut number = 0;
        while writer.written_bytes() < LAPS * u64::from(RING_KB) * 1024 {
            number += 1;
            state.change(number, &mut writer);
        }
        writer.flush();
        assert_eq!(writer.drop_count(), 0);
        self.writer = Some(writer);
        self.written.send(state).unwrap();
    }
}

fn record(host: &Host, written: &Receiver<State>) -> (Vec<Vec<u8>>, State, protos::TraceStats) {
    let mut consumer = Consumer::over(host.connect_consumer().unwrap()).unwrap();
    consumer.enable_tracing(config(), None).unwrap();
    let state = written.recv_timeout(Duration::from_secs(60)).expect("the producer has written all");
    consumer.flush(Duration::from_secs(60), 0).unwrap();
    consumer.disable().unwrap();
    let stats = consumer.stats().unwrap();
    let mut packets = Vec::new();
    consumer
        .read_buffers(|packet| {
            packets.push(packet.to_vec());
            Ok(())
        })
        .unwrap();
    (packets, state, stats)
}

/// As a reader of the trace does it: from the state that it begins with, one patch after the other.
fn reconstruct(packets: &[Vec<u8>]) -> (State, usize) {
    let mut vm = None;
    let mut patches = 0;
    for bytes in packets {
        match TracePacket::decode(bytes.as_slice()).unwrap().data {
            Some(protos::trace_packet::Data::Protovms(vms)) => {
                let [instance] = vms.instance.as_slice() else { panic!("{vms:?}") };
                let program = Program::parse(instance.program.as_ref().unwrap()).unwrap();
                let limit = instance.memory_limit_kb() as usize * 1024;
                vm = Some(Vm::with_state(program, limit, instance.state.as_ref().unwrap()));
            }
            Some(protos::trace_packet::Data::ForTesting(_)) => {
                vm.as_mut().expect("the state comes first").apply(bytes).unwrap();
                patches += 1;
            }
            _ => {}
        }
    }
    let mut state = Vec::new();
    vm.expect("a state").serialize_state(&mut state);
    (State::of(&state), patches)
}

#[test]
fn a_ring_that_went_round_ten_times_has_the_producers_state() {
    let host = Host::spawn(HostOptions::default()).unwrap();
    let (written, finished) = channel();
    let service = host.connect_producer().unwrap();
    let producer = thread::spawn(move || Producer::new(service, written).run());

    let (packets, own, stats) = record(&host, &finished);
    let buffer = &stats.buffer_stats[0];
    let ring = u64::from(RING_KB) * 1024;
    assert!(buffer.bytes_overwritten() >= (LAPS - 2) * ring, "{buffer:?}");
    assert_eq!((buffer.patches_failed(), stats.chunks_discarded()), (0, 0));

    let (state, patches) = reconstruct(&packets);
    assert!(patches > 0 && own.numbers.len() > patches, "{patches} patches");
    assert_eq!(state, own);

    drop(host);
    producer.join().unwrap();
}
