//! Compressed traces: what is inside is what would be there without.

mod world;

use std::io::Read;

use ferretto_protos::trace_packet::Data;
use ferretto_protos::{self as protos, TracePacket};
use ferretto_service::{ConsumerConn, FileHandle, ProducerConn};
use flate2::read::ZlibDecoder;
use prost::Message;
use world::{World, config, packet, payloads};

/// The ways to ask for it; the last names a way that we lack first.
const ASKED_FOR: [&str; 3] = [
    "compression_type: COMPRESSION_TYPE_DEFLATE",
    "compression { deflate {} }",
    "compression { zstd { level: 3 } } compression_type: COMPRESSION_TYPE_DEFLATE",
];

fn tracing(more: &str, file: Option<FileHandle>) -> (World, ProducerConn, ConsumerConn) {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    match file {
        Some(file) => world.enable_into(consumer, &config(more), file),
        None => world.enable(consumer, &config(more)),
    }
    assert_eq!(world.ended(consumer), None);
    (world, producer, consumer)
}

/// The packets inside, and how many were found compressed.
fn unpack(packets: &[TracePacket]) -> (Vec<TracePacket>, usize) {
    let mut inside = Vec::new();
    let mut num_compressed = 0;
    for packet in packets {
        let Some(Data::CompressedPackets(batch)) = &packet.data else {
            inside.push(packet.clone());
            continue;
        };
        num_compressed += 1;
        let mut bytes = Vec::new();
        ZlibDecoder::new(batch.as_ref()).read_to_end(&mut bytes).expect("zlib's format");
        inside.extend(protos::Trace::decode(bytes.as_slice()).expect("a part of a trace").packet);
    }
    (inside, num_compressed)
}

#[test]
fn a_consumer_gets_the_same_packets() {
    let read = |asked_for: &str| {
        let (mut world, producer, consumer) = tracing(asked_for, None);
        for index in 0..100u32 {
            world.emit(producer, 1, index, 1, &[&packet(&format!("{index} {}", "x".repeat(3000)))]);
        }
        world.read(consumer)
    };
    let plain = read("");
    for asked_for in ASKED_FOR {
        let compressed = read(asked_for);
        let (inside, num_compressed) = unpack(&compressed);
        assert!(num_compressed > 1, "300 kB are several batches");
        assert_eq!(payloads(&inside), payloads(&plain), "{asked_for}");
        assert_eq!(inside.len(), plain.len(), "{asked_for}");
        let size = |packets: &[TracePacket]| packets.iter().map(Message::encoded_len).sum::<usize>();
        assert!(size(&compressed) < size(&plain) / 10, "{} of {}", size(&compressed), size(&plain));
    }
}

#[test]
fn what_readers_look_for_first_is_not_compressed() {
    let (mut world, producer, consumer) = tracing(ASKED_FOR[0], None);
    world.emit(producer, 1, 0, 1, &[&packet("x")]);
    let packets = world.read(consumer);
    let is_plain = |wanted: fn(&Data) -> bool| packets.iter().filter_map(|p| p.data.as_ref()).any(wanted);
    assert!(is_plain(|data| matches!(data, Data::ClockSnapshot(_))));
    assert!(is_plain(|data| matches!(data, Data::TraceConfig(_))));
    assert!(is_plain(|data| matches!(data, Data::TraceUuid(_))));
    assert!(is_plain(|data| matches!(data, Data::SynchronizationMarker(_))));
    assert!(!is_plain(|data| matches!(data, Data::ForTesting(_))));
}

#[test]
fn zstd_alone_leaves_the_trace_as_it_is() {
    let (mut world, producer, consumer) = tracing("compression { zstd { level: 3 } }", None);
    world.emit(producer, 1, 0, 1, &[&packet("x")]);
    let packets = world.read(consumer);
    assert_eq!(unpack(&packets).1, 0);
    assert_eq!(payloads(&packets), ["x"]);
}

#[test]
fn a_file_is_complete_at_its_end() {
    let file = FileHandle(1);
    let more = format!("{} write_into_file: true file_write_period_ms: 100 duration_ms: 1000", ASKED_FOR[0]);
    let (mut world, producer, consumer) = tracing(&more, Some(file));
    for index in 0..10u32 {
        world.emit(producer, 1, index, 1, &[&packet(&index.to_string())]);
        world.advance_ms(100);
        world.acknowledge_flushes(producer);
    }
    assert_eq!(world.ended(consumer).as_deref(), Some(""));
    let (inside, num_compressed) = unpack(&world.file_packets(file));
    assert!(num_compressed >= 10);
    assert_eq!(payloads(&inside), (0..10).map(|index| index.to_string()).collect::<Vec<_>>());
    assert!(matches!(inside.last().and_then(|packet| packet.data.as_ref()), Some(Data::TraceStats(_))));
}

/// Packets that shrink a lot, and packets that do not shrink at all: the limit is kept, and used.
#[test]
fn a_file_with_a_limit_takes_what_fits_compressed() {
    let mut state = 1u32;
    let mut noise = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'!' + (state >> 24) as u8 % 90)
    };
    let noisy: Vec<String> = (0..200).map(|_| (0..500).map(|_| noise()).collect()).collect();
    let smooth = vec!["x".repeat(500); 200];
    let max = 20_000;
    for (texts, at_least) in [(noisy, 30), (smooth, 150)] {
        let file = FileHandle(1);
        let more = format!(
            "{} write_into_file: true file_write_period_ms: 100 max_file_size_bytes: {max}",
            ASKED_FOR[0]
        );
        let (mut world, producer, consumer) = tracing(&more, Some(file));
        for (index, text) in (0u32..).zip(&texts) {
            world.emit(producer, 1, index, 1, &[&packet(text)]);
        }
        world.advance_ms(100);
        let len = world.files[&file].bytes.len();
        let (inside, _) = unpack(&world.file_packets(file));
        let found = payloads(&inside);
        assert!(len <= max, "{len}");
        assert!(found.len() >= at_least, "{} packets in {len} bytes", found.len());
        assert_eq!(found, texts[..found.len()], "the first ones, in order");
        assert_eq!(world.ended(consumer).is_some(), found.len() < texts.len());
    }
}
