//! A producer that says anything through CommitData, over memory in which it writes anything: the service goes on, and what it gives
//! back are packets.
#![no_main]

use ferretto_fuzz::Stage;
use ferretto_protos as protos;
use ferretto_service::{ConsumerCall, Peer, ProducerCall, ProducerConn};
use ferretto_shm::SharedMemory;
use libfuzzer_sys::fuzz_target;

const PRODUCER: ProducerConn = ProducerConn(1);

fuzz_target!(|data: &[u8]| {
    let mut stage = set_up();
    let mut rest = data;
    while let [op, len, after @ ..] = rest {
        let (bytes, after) = after.split_at(after.len().min(usize::from(*len)));
        apply(&mut stage, *op, bytes);
        rest = after;
    }
    stage.end(check_packet);
});

fn set_up() -> Stage {
    let mut stage = Stage::new(SharedMemory::create);
    stage.service.handle_producer_connected(PRODUCER, Peer { uid: 7, pid: 7, emulated: false });
    let hello = protos::InitializeConnectionRequest {
        shared_memory_size_hint_bytes: Some(32 * 1024),
        shared_memory_page_size_hint_bytes: Some(4096),
        smb_scraping_mode: Some(1),
        ..Default::default()
    };
    stage.introduce(PRODUCER, hello);
    stage.enable(protos::TraceConfig::default());
    assert!(stage.memory.is_some(), "the session starts the producer's data source");
    let register = protos::RegisterTraceWriterRequest { trace_writer_id: Some(1), target_buffer: Some(1) };
    stage.producer(PRODUCER, ProducerCall::RegisterTraceWriter(register));
    stage
}

fn apply(stage: &mut Stage, op: u8, bytes: &[u8]) {
    stage.now_ns += 1_000_000;
    match op % 8 {
        0..3 => {
            if let Ok(call) = ProducerCall::decode("CommitData", bytes.to_vec().into()) {
                stage.producer(PRODUCER, call);
            }
        }
        3 => write(stage, u64::from(op >> 3) * 4096, bytes),
        4 | 5 => {
            let [low, high, bytes @ ..] = bytes else { return };
            write(stage, u64::from(u16::from_le_bytes([*low, *high])) % (32 * 1024), bytes);
        }
        6 => {
            let flush = protos::FlushRequest { timeout_ms: Some(1), ..Default::default() };
            stage.consumer(ConsumerCall::Flush(flush));
        }
        _ => {
            stage.handle_timeout();
            stage.read(check_packet);
        }
    }
}

fn write(stage: &Stage, offset: u64, bytes: &[u8]) {
    let Some(memory) = &stage.memory else { return };
    let room = (memory.len() as u64).saturating_sub(offset);
    let len = bytes.len().min(usize::try_from(room).unwrap_or(0));
    let _ = rustix::io::pwrite(memory.as_fd().expect("a memfd"), &bytes[..len], offset);
}

/// A packet has fields, and the service's own come last and are its own.
fn check_packet(packet: &[u8]) {
    let mut sequence = None;
    for field in ferretto_protozero::read::Fields::new(packet) {
        let field = field.expect("packets are well-formed");
        if field.number == protos::fields::trace_packet::TRUSTED_PACKET_SEQUENCE_ID {
            assert_eq!(sequence.replace(field.value), None, "the sequence is set once, by the service");
        }
    }
    assert!(sequence.is_some());
}
