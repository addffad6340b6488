//! A data source of a program's own, made with our client library (src/bin/sdk-source.rs), in two sessions at a time of each service:
//! set-up, late answers, flushes, cleared incremental state, and each thread's packets in their order.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use ferretto_consumer::Consumer;
use ferretto_interop::{Daemon, Maker, Peers, World, config, through_each_service, wait_for_end};
use ferretto_protos::TracePacket;
use ferretto_protos::trace_packet::{Data, OptionalTrustedPacketSequenceId};
use prost::Message;

const TIMEOUT: Duration = Duration::from_secs(60);
/// The first session clears incremental state this often.
const CLEAR_PERIOD_MS: u32 = 100;
const RECORDED: Duration = Duration::from_secs(1);
/// Asked for by a consumer (`flush_flags.h`).
const EXPLICIT: u64 = 0x34;

through_each_service!(check);

fn check(peers: &Peers, maker: Maker) {
    let world = World::with_traced(peers, maker);
    let program = world.spawn(Command::new(env!("CARGO_BIN_EXE_sdk-source")), "source");
    world.wait_for_data_source("ferretto.texts");

    let clearing = format!("incremental_state_config {{ clear_period_ms: {CLEAR_PERIOD_MS} }}");
    let mut one = start(&world, &program, "one", &clearing);
    let mut two = start(&world, &program, "two", "");
    std::thread::sleep(RECORDED);
    one.flush(TIMEOUT, EXPLICIT).expect("the answer to a flush");
    let [one, two] = [end(&mut one), end(&mut two)];

    let clears = check_packets(&one, "one");
    // The least that a busy machine comes to: some of the ten a second, for one of the threads.
    assert!(clears > 3, "{clears} clears");
    assert!(one.iter().any(|said| said.text == "one flushed Explicit"), "{}", program.log());
    assert_eq!(check_packets(&two, "two"), 0);
}

/// A session, when the program has been asked to start. The service waits for the end of it.
fn start(world: &World, program: &Daemon, label: &str, more: &str) -> Consumer {
    let text = format!(
        r#"buffers {{ size_kb: 4096 }} data_source_stop_timeout_ms: 20000 {more}
        data_sources {{ config {{ name: "ferretto.texts" legacy_config: "{label}" }} }}"#
    );
    let mut consumer = world.consumer();
    consumer.enable_tracing(config(&text), None).expect("a session");
    world.wait_until("the start of the source", || program.log().contains(&format!("start {label}\n")));
    consumer
}

/// What one packet says.
struct Said {
    text: String,
    sequence: u32,
    /// The reader of the sequence is to forget what it knew.
    is_cleared: bool,
}

fn end(consumer: &mut Consumer) -> Vec<Said> {
    consumer.disable().expect("an end");
    assert_eq!(wait_for_end(consumer), None);
    let mut packets = Vec::new();
    let read = |packet: &[u8]| {
        let packet = TracePacket::decode(packet).expect("a packet");
        assert!(
            packet.previous_packet_dropped() == 0 || packet.first_packet_on_sequence(),
            "nothing is lost"
        );
        if let Some(Data::ForTesting(ref event)) = packet.data {
            packets.push(Said {
                text: event.str().to_owned(),
                sequence: sequence(&packet),
                is_cleared: packet.sequence_flags() == 1,
            });
        }
        Ok(())
    };
    consumer.read_buffers(read).expect("the trace");
    packets
}

fn sequence(packet: &TracePacket) -> u32 {
    match packet.optional_trusted_packet_sequence_id {
        Some(OptionalTrustedPacketSequenceId::TrustedPacketSequenceId(id)) => id,
        None => panic!("a packet without its sequence: {packet:?}"),
    }
}

/// The session has its own texts only, of two threads without a gap and of those that answered; each sequence begins with a cleared
/// state. Counts later clears.
fn check_packets(packets: &[Said], label: &str) -> usize {
    let mut sequences: BTreeMap<u32, Vec<&Said>> = BTreeMap::new();
    for said in packets {
        assert!(said.text.starts_with(&format!("{label} ")), "{}", said.text);
        sequences.entry(said.sequence).or_default().push(said);
    }
    let mut clears = 0;
    let mut writers = 0;
    for sequence in sequences.values() {
        assert!(sequence[0].is_cleared, "{}", sequence[0].text);
        clears += sequence[1..].iter().filter(|said| said.is_cleared).count();
        let numbers: Vec<usize> =
            sequence.iter().filter_map(|said| said.text[label.len() + 1..].parse().ok()).collect();
        if !numbers.is_empty() {
            writers += 1;
            assert!(numbers.len() > 20, "{label}: {numbers:?}");
            assert!(numbers.iter().copied().eq(1..=numbers.len()), "{label}: {numbers:?}");
        }
    }
    assert_eq!(writers, 2, "threads");
    for word in ["started", "stopped"] {
        let expected = format!("{label} {word}");
        assert_eq!(packets.iter().filter(|said| said.text == expected).count(), 1, "{expected}");
    }
    clears
}
