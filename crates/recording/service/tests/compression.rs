//! Compressed traces: what is inside is what would be there without.

mod world;

use std::io::Read;

use ferretto_protos::trace_packet::Data;
use ferretto_protos::{self as protos, TracePacket};
use ferretto_service::{ConsumerCall, ConsumerConn, FileHandle, ProducerConn};
use flate2::read::ZlibDecoder;
use prost::Message;
use ruzstd::decoding::StreamingDecoder;
use world::{World, config, packet, payloads};

/// The ways to ask for it. A config may name a fallback for services that lack zstd.
const ASKED_FOR: [(&str, Codec); 5] = [
    ("compression_type: COMPRESSION_TYPE_DEFLATE", Codec::Deflate),
    ("compression { deflate {} }", Codec::Deflate),
    ("compression { zstd {} }", Codec::Zstd),
    ("compression { zstd { level: 19 } }", Codec::Zstd),
    ("compression { zstd { level: -3 } } compression_type: COMPRESSION_TYPE_DEFLATE", Codec::Zstd),
];
/// One of each.
const CODECS: [(&str, Codec); 2] = [ASKED_FOR[1], ASKED_FOR[2]];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Codec {
    Deflate,
    Zstd,
}

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

/// The packets inside, and how those that were compressed were.
fn unpack(packets: &[TracePacket]) -> (Vec<TracePacket>, Vec<Codec>) {
    let mut inside = Vec::new();
    let mut codecs = Vec::new();
    for packet in packets {
        let mut bytes = Vec::new();
        match &packet.data {
            Some(Data::CompressedPackets(batch)) => {
                ZlibDecoder::new(batch.as_ref()).read_to_end(&mut bytes).expect("zlib's format");
                codecs.push(Codec::Deflate);
            }
            Some(Data::ZstdCompressedPackets(batch)) => {
                let mut frame = StreamingDecoder::new(batch.as_ref()).expect("a frame");
                frame.read_to_end(&mut bytes).expect("zstd's format");
                codecs.push(Codec::Zstd);
            }
            _ => inside.push(packet.clone()),
        }
        inside.extend(protos::Trace::decode(bytes.as_slice()).expect("a part of a trace").packet);
    }
    (inside, codecs)
}

/// What a consumer reads of a hundred packets that can be compressed.
fn read_hundred(asked_for: &str) -> Vec<TracePacket> {
    let (mut world, producer, consumer) = tracing(asked_for, None);
    for index in 0..100u32 {
        world.emit(producer, 1, index, 1, &[&packet(&format!("{index} {}", "x".repeat(3000)))]);
    }
    world.read(consumer)
}

fn size(packets: &[TracePacket]) -> usize {
    packets.iter().map(Message::encoded_len).sum()
}

#[test]
fn a_consumer_gets_the_same_packets() {
    let plain = read_hundred("");
    for (asked_for, codec) in ASKED_FOR {
        let compressed = read_hundred(asked_for);
        let (inside, codecs) = unpack(&compressed);
        assert!(codecs.len() > 1, "300 kB are several batches");
        assert!(codecs.iter().all(|found| *found == codec), "{asked_for}: {codecs:?}");
        assert_eq!(payloads(&inside), payloads(&plain), "{asked_for}");
        assert_eq!(inside.len(), plain.len(), "{asked_for}");
        assert!(size(&compressed) < size(&plain) / 10, "{} of {}", size(&compressed), size(&plain));
    }
}

/// Any number will do: upstream gives it to `ZSTD_CCtx_setParameter`, which takes 0 for the default and brings others into its range.
#[test]
fn a_level_of_zstd_changes_no_packet() {
    let plain = payloads(&read_hundred(""));
    for level in [i32::MIN, -131_072, -7, 0].into_iter().chain(1..=23).chain([i32::MAX]) {
        let (inside, codecs) = unpack(&read_hundred(&format!("compression {{ zstd {{ level: {level} }} }}")));
        assert!(!codecs.is_empty() && codecs.iter().all(|codec| *codec == Codec::Zstd), "level {level}");
        assert_eq!(payloads(&inside), plain, "level {level}");
    }
}

/// Each alone, and fast.
#[test]
fn large_packets_are_compressed_in_their_order() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    let consumer = world.consumer(1000);
    world.enable(consumer, &config("compression { deflate {} }").replace("size_kb: 128", "size_kb: 512"));
    let texts = ["small".to_owned(), "large".repeat(30_000), "little".to_owned()];
    for (id, text) in (0..).zip(&texts) {
        world.emit_in_pieces(producer, 1 + id, 1, &packet(text));
    }
    let packets = world.read(consumer);
    assert!(size(&packets) < 10_000);
    let (inside, codecs) = unpack(&packets);
    assert!(payloads(&inside) == texts && codecs.len() == 3);
}

/// As upstream's compressor_unittest.cc, `CompressionLevelIsHonored`; there it may also stay as large.
#[test]
fn a_higher_level_of_zstd_makes_less_of_it() {
    let read = |level: i32| {
        let (mut world, producer, consumer) =
            tracing(&format!("compression {{ zstd {{ level: {level} }} }}"), None);
        let mut state = 1u32;
        for chunk in 0..30 {
            let mut text = String::new();
            while text.len() < 3000 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                text += ["switch to ", "wake up ", "counter "][state as usize / 256 % 3];
                text += &(state >> 22).to_string();
            }
            world.emit(producer, 1, chunk, 1, &[&packet(&text)]);
        }
        size(&world.read(consumer))
    };
    let (low, high) = (read(1), read(9));
    assert!(high < low, "{high} bytes of {low}");
}

#[test]
fn what_readers_look_for_first_is_not_compressed() {
    for (asked_for, codec) in CODECS {
        let (mut world, producer, consumer) = tracing(asked_for, None);
        world.emit(producer, 1, 0, 1, &[&packet("x")]);
        let packets = world.read(consumer);
        let [first @ .., last] = packets.as_slice() else { panic!("no packets") };
        assert!(matches!(
            first.iter().filter_map(|packet| packet.data.as_ref()).collect::<Vec<_>>()[..],
            [Data::ClockSnapshot(_), Data::TraceConfig(_), Data::TraceUuid(_)]
        ));
        let (inside, codecs) = unpack(std::slice::from_ref(last));
        assert_eq!(codecs, [codec]);
        assert!(inside.iter().any(|packet| matches!(packet.data, Some(Data::SynchronizationMarker(_)))));
        assert_eq!(payloads(&inside), ["x"]);
    }
}

#[test]
fn an_unknown_way_leaves_the_trace_as_it_is() {
    let (mut world, producer, consumer) = tracing("compression {}", None);
    world.emit(producer, 1, 0, 1, &[&packet("x")]);
    let packets = world.read(consumer);
    assert_eq!(unpack(&packets).1, []);
    assert_eq!(payloads(&packets), ["x"]);
}

#[test]
fn a_clone_is_compressed_as_its_source() {
    for (asked_for, codec) in CODECS {
        let (mut world, producer, _) = tracing(&format!("{asked_for} unique_session_name: \"s\""), None);
        world.emit(producer, 1, 0, 1, &[&packet("x")]);
        let cloning = world.consumer(1000);
        let selector = Some(protos::clone_session_request::Selector::UniqueSessionName("s".to_owned()));
        let request = protos::CloneSessionRequest { selector, ..Default::default() };
        world.ask(cloning, ConsumerCall::CloneSession(request));
        world.acknowledge_flushes(producer);
        let (inside, codecs) = unpack(&world.read(cloning));
        assert_eq!(codecs, [codec]);
        assert_eq!(payloads(&inside), ["x"]);
    }
}

#[test]
fn a_file_is_complete_at_its_end() {
    CODECS.into_iter().for_each(|(asked_for, _)| check_whole_file(asked_for));
}

fn check_whole_file(asked_for: &str) {
    let file = FileHandle(1);
    let more = format!("{asked_for} write_into_file: true file_write_period_ms: 100 duration_ms: 1000");
    let (mut world, producer, consumer) = tracing(&more, Some(file));
    for index in 0..10u32 {
        world.emit(producer, 1, index, 1, &[&packet(&index.to_string())]);
        world.advance_ms(100);
        world.acknowledge_flushes(producer);
    }
    assert_eq!(world.ended(consumer).as_deref(), Some(""));
    let (inside, codecs) = unpack(&world.file_packets(file));
    assert!(codecs.len() >= 10);
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
    let cases = [(&noisy, 30), (&smooth, 150)];
    for ((asked_for, _), (texts, at_least)) in
        CODECS.into_iter().flat_map(|codec| cases.map(|case| (codec, case)))
    {
        let file = FileHandle(1);
        let more =
            format!("{asked_for} write_into_file: true file_write_period_ms: 100 max_file_size_bytes: {max}");
        let (mut world, producer, consumer) = tracing(&more, Some(file));
        for (index, text) in (0u32..).zip(texts) {
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
