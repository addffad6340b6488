//! What a writer writes is what a reader gets, whatever the sizes of pages, chunks and packets.

mod support;

use std::time::Duration;

use ferretto_producer::{ChunkSink, ExhaustedPolicy, ProducerOptions, SmallPacket, TraceWriter};
use ferretto_protozero::read::{Fields, Value};
use ferretto_protozero::{Message, Sink};
use ferretto_shm::{NewChunk, PageLayout, PageSize, ProducerView};
use proptest::prelude::*;

use support::{Setup, settle, started, turn};

/// Fields below are values; at and above are nested messages.
const NESTED: u32 = 100;
/// Says which packet it is.
const NUMBER: u32 = 1;
const PREVIOUS_PACKET_DROPPED: u32 = 42;
const FIRST_PACKET_ON_SEQUENCE: u32 = 87;

#[derive(Debug, Clone)]
enum Field {
    Varint(u32, u64),
    Fixed(u32, u64),
    Bytes(u32, usize),
    Nested(u32, Vec<Self>),
}

#[derive(Debug, Clone)]
enum Step {
    Packet(Vec<Field>),
    /// A packet in one go, if it is small enough.
    Small(Vec<Field>),
    /// The service copies what was committed.
    Pump,
    Flush,
    Scrape,
}

fn field() -> impl Strategy<Value = Field> {
    let leaf = prop_oneof![
        1 => (2..40_u32, any::<u64>()).prop_map(|(field, value)| Field::Varint(field, value)),
        1 => (2..40_u32, any::<u64>()).prop_map(|(field, value)| Field::Fixed(field, value)),
        4 => (2..40_u32, 0..200_usize).prop_map(|(field, len)| Field::Bytes(field, len)),
        1 => (2..40_u32, 0..20_000_usize).prop_map(|(field, len)| Field::Bytes(field, len)),
    ];
    leaf.prop_recursive(5, 24, 5, |inner| {
        (NESTED..NESTED + 3000, prop::collection::vec(inner, 0..5))
            .prop_map(|(field, fields)| Field::Nested(field, fields))
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => prop::collection::vec(field(), 0..6).prop_map(Step::Packet),
        8 => prop::collection::vec((2..40_u32, any::<u64>()).prop_map(|(field, value)| Field::Varint(field, value)), 0..12)
            .prop_map(Step::Small),
        2 => Just(Step::Pump),
        1 => Just(Step::Flush),
        2 => Just(Step::Scrape),
    ]
}

fn write_fields<S: Sink>(message: &mut Message<'_, S>, fields: &[Field]) {
    for field in fields {
        match field {
            Field::Varint(number, value) => message.varint(*number, *value),
            Field::Fixed(number, value) => message.fixed64(*number, *value),
            Field::Bytes(number, len) => {
                let bytes: Vec<u8> = (0..*len).map(|index| (index * 7 + len) as u8).collect();
                message.bytes(*number, &bytes);
            }
            Field::Nested(number, fields) => write_fields(&mut message.nested(*number), fields),
        }
    }
}

/// The same message whatever the form of its sizes; and whether it says that something was lost before.
fn normal_form(bytes: &[u8], has_lost: &mut bool) -> String {
    let mut text = String::new();
    for field in Fields::new(bytes) {
        let field = field.expect("what was written can be read");
        match field.value {
            Value::Varint(_) if field.number == FIRST_PACKET_ON_SEQUENCE => {}
            Value::Varint(value) if field.number == PREVIOUS_PACKET_DROPPED => {
                assert_eq!(value, 257);
                *has_lost = true;
            }
            Value::Bytes(bytes) if field.number >= NESTED => {
                text += &format!("{} {{ {}}} ", field.number, normal_form(bytes, has_lost));
            }
            value => text += &format!("{}: {value:?} ", field.number),
        }
    }
    text
}

fn number_of(packet: &[u8]) -> Option<u64> {
    Fields::new(packet).flatten().find_map(|field| match field.value {
        Value::Varint(value) if field.number == NUMBER => Some(value),
        _ => None,
    })
}

fn encoded(number: u64, fields: &[Field]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut message = Message::new(&mut bytes);
    message.varint(NUMBER, number);
    write_fields(&mut message, fields);
    drop(message);
    bytes
}

fn expected(number: u64, fields: &[Field]) -> String {
    normal_form(&encoded(number, fields), &mut false)
}

/// In one go if there is room for that, else as any other. Every other packet is said to be shorter than it is.
fn write_small_packet(writer: &mut TraceWriter, number: u64, fields: &[Field]) {
    let bytes = encoded(number, fields);
    let said = if number.is_multiple_of(2) { bytes.len() } else { bytes.len() - 1 };
    let is_written = writer.small_packet(said).is_some_and(|mut packet| {
        for (index, piece) in bytes.chunks(16).enumerate() {
            let mut small = [0xee; 16];
            small[..piece.len()].copy_from_slice(piece);
            match index {
                0 => packet.put_bytes(piece),
                _ => packet.put(small, piece.len()),
            }
        }
        // A byte that is known last.
        packet.set(1, bytes[1]);
        packet.finish()
    });
    assert!(!is_written || said == bytes.len() && said <= SmallPacket::MAX_LEN, "{said} of {}", bytes.len());
    if !is_written {
        write_packet(writer, number, fields);
    }
}

fn write_packet(writer: &mut TraceWriter, number: u64, fields: &[Field]) {
    let mut packet = writer.new_packet();
    let message: &mut Message<'_, ChunkSink> = &mut packet;
    message.varint(NUMBER, number);
    write_fields(message, fields);
}

/// Every packet that arrives is one that was written, in order; a gap is announced by the packet behind it.
fn check_packets(received: &[Vec<u8>], written: &[String], drop_count: u64) {
    let mut next = 0;
    for packet in received {
        let mut has_lost = false;
        let found = normal_form(packet, &mut has_lost);
        let number = number_of(packet).expect("each packet has a number");
        assert!(number >= next, "packet {number} came after {next}");
        assert!(number == next || has_lost, "packets {next}..{number} were lost without a word");
        assert_eq!(found, written[number as usize], "packet {number}");
        next = number + 1;
    }
    if drop_count == 0 {
        assert_eq!(received.len(), written.len(), "nothing was dropped");
    }
}

/// Divides pages as another writer would: one chunk of each stays taken.
fn divide(service: &support::FakeService, page_size: u32, layouts: &[PageLayout]) {
    let memory = service.memory.clone().unwrap();
    let view = ProducerView::new(memory, PageSize::new(page_size.into()).unwrap()).unwrap();
    let mut others = Vec::new();
    for layout in layouts {
        // All chunks of the page, so that the search goes on to the next; then all but the first are freed again.
        for index in 0..layout.chunks() {
            let chunk = view.try_acquire(*layout, NewChunk { chunk_id: index, writer_id: 32000 }).unwrap();
            others.push((index, chunk));
        }
    }
    for (index, chunk) in others {
        if index == 0 {
            std::mem::forget(chunk);
        } else {
            chunk.complete_emulated().unwrap();
        }
    }
}

#[derive(Debug, Clone)]
struct Case {
    setup: Setup,
    layouts: Vec<PageLayout>,
    steps: Vec<Step>,
    /// The writer is there before its session, which comes before this step; at the latest when the writer has ended.
    adopted_at: Option<usize>,
}

fn case() -> impl Strategy<Value = Case> {
    let layout = prop::sample::select(PageLayout::ALL.to_vec());
    (
        prop::sample::select(vec![4096, 8192, 16384, 32768]),
        2..20_usize,
        any::<bool>(),
        prop::bool::weighted(0.2),
        prop::collection::vec(layout, 0..20),
        prop::collection::vec(step(), 1..40),
        prop::option::of(0..45_usize),
    )
        .prop_map(|(page_size, pages, direct_patching, emulated, mut layouts, steps, adopted_at)| {
            layouts.truncate(if emulated { 0 } else { pages });
            let setup = Setup { page_size, pages, direct_patching, emulated, ..Setup::default() };
            Case { setup, layouts, steps, adopted_at }
        })
}

fn run(case: &Case) {
    let mut options = ProducerOptions::new("test");
    options.page_size_hint_bytes = case.setup.page_size;
    let (mut client, mut service) = started(case.setup, options);
    if !case.layouts.is_empty() {
        divide(&service, case.setup.page_size, &case.layouts);
    }
    let startup = client.start_startup_writers(Duration::from_secs(3600)).unwrap();
    let mut writer = match case.adopted_at {
        Some(_) => startup.create_writer(),
        None => client.create_writer(support::BUFFER, ExhaustedPolicy::Drop),
    };
    let id = writer.id();
    let mut written = Vec::new();
    for (index, step) in case.steps.iter().enumerate() {
        if case.adopted_at == Some(index) {
            assert!(startup.adopt(support::BUFFER));
        }
        match step {
            Step::Packet(fields) => {
                let number = written.len() as u64;
                write_packet(&mut writer, number, fields);
                written.push(expected(number, fields));
            }
            Step::Small(fields) => {
                let number = written.len() as u64;
                write_small_packet(&mut writer, number, fields);
                written.push(expected(number, fields));
            }
            Step::Pump => turn(&mut client, &mut service),
            Step::Flush => writer.flush(),
            Step::Scrape => {
                for chunk in service.scrape().iter().filter(|chunk| chunk.header.writer_id == id) {
                    check_scraped(chunk, &written);
                }
            }
        }
    }
    let drop_count = writer.drop_count();
    drop(writer);
    settle(&mut client, &mut service);
    if case.adopted_at.is_some_and(|at| at >= case.steps.len()) {
        assert!(service.packets(id).is_empty());
        assert!(startup.adopt(support::BUFFER));
        settle(&mut client, &mut service);
    }
    check_packets(&service.packets(id), &written, drop_count);
    assert!(service.writers.is_empty());
}

/// A chunk that is being written holds finished packets only, but for the last, and the end of one that began before.
fn check_scraped(chunk: &support::Chunk, written: &[String]) {
    let mut chunk = chunk.clone();
    chunk.header.flags =
        chunk.header.flags.without(ferretto_shm::ChunkFlags::LAST_PACKET_CONTINUES_ON_NEXT_CHUNK);
    let continues =
        chunk.header.flags.contains(ferretto_shm::ChunkFlags::FIRST_PACKET_CONTINUES_FROM_PREV_CHUNK);
    let mut partial = continues.then(Vec::new);
    let mut packets = Vec::new();
    support::reassemble(&chunk, &mut partial, &mut packets);
    for packet in packets.iter().skip(usize::from(continues)) {
        let number = number_of(packet).expect("each packet has a number");
        assert_eq!(normal_form(packet, &mut false), written[number as usize]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_what_is_read(case in case()) {
        run(&case);
    }
}

#[test]
fn many_small_packets_fill_chunks_up_to_their_count() {
    // Two bytes each: 1022 packets before the page of 32 KiB is full.
    let setup = Setup { page_size: 32768, pages: 4, ..Setup::default() };
    for step in [Step::Packet(Vec::new()), Step::Small(Vec::new())] {
        let steps = vec![step; 3000];
        run(&Case { setup, layouts: Vec::new(), steps, adopted_at: None });
    }
}

#[test]
fn a_small_packet_that_is_not_finished_was_never_written() {
    let (mut client, mut service) = started(Setup::default(), ProducerOptions::new("test"));
    let mut writer = client.create_writer(support::BUFFER, ExhaustedPolicy::Drop);
    let id = writer.id();
    assert!(writer.small_packet(2).is_none(), "the first packet of a sequence says that it is");
    write_packet(&mut writer, 0, &[]);
    let mut unfinished = writer.small_packet(2).unwrap();
    unfinished.put_bytes(&[8, 99]);
    drop(unfinished);
    assert!(!writer.small_packet(2).unwrap().finish(), "an empty packet");
    write_small_packet(&mut writer, 2, &[]);
    std::mem::forget(writer.new_packet());
    assert!(writer.small_packet(2).is_none(), "there is a packet that was leaked");
    drop(writer);
    settle(&mut client, &mut service);
    let numbers: Vec<_> = service.packets(id).iter().map(|packet| number_of(packet)).collect();
    assert_eq!(numbers, [Some(0), Some(2)]);
}

#[test]
fn packets_of_every_size_around_a_chunks_end_arrive() {
    let sizes = (0..400).chain(3800..4300).chain(8000..8400);
    let mut steps = Vec::new();
    for size in sizes {
        let inner =
            Field::Nested(100, vec![Field::Bytes(2, size), Field::Nested(101, vec![Field::Varint(3, 1)])]);
        steps.extend([Step::Packet(vec![inner]), Step::Pump]);
    }
    run(&Case { setup: Setup::default(), layouts: Vec::new(), steps, adopted_at: None });
}

#[test]
fn a_leaked_packet_or_message_leaves_the_sequence_readable() {
    let (mut client, mut service) = started(Setup::default(), ProducerOptions::new("test"));
    let mut writer = client.create_writer(support::BUFFER, ExhaustedPolicy::Drop);
    let id = writer.id();
    let mut packet = writer.new_packet();
    packet.varint(NUMBER, 0);
    std::mem::forget(packet);
    let mut packet = writer.new_packet();
    packet.varint(NUMBER, 1);
    let mut nested = packet.nested(NESTED);
    nested.bytes(2, &[1; 10_000]);
    let mut inner = nested.nested(NESTED);
    inner.varint(3, 3);
    std::mem::forget(inner);
    std::mem::forget(nested);
    drop(packet);
    drop(writer);
    settle(&mut client, &mut service);
    let numbers: Vec<_> = service.packets(id).iter().map(|packet| number_of(packet)).collect();
    assert_eq!(numbers, [Some(0), Some(1)]);
}
