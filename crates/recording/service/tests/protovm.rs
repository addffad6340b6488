//! ProtoVMs: what a buffer overwrites comes out as a state, for those who want that.

mod world;

use ferretto_protos::clone_session_request::Selector;
use ferretto_protos::test_event::ProtoVmPatch;
use ferretto_protos::trace_packet::{Data, ProtoVms, proto_vms};
use ferretto_protos::vm_instruction::Operation;
use ferretto_protos::vm_op_select::{PathComponent, path_component::Field};
use ferretto_protos::{
    self as protos, DataSourceDescriptor, TestEvent, TracePacket, VmCursorEnum, VmInstruction, VmOpSelect,
    VmOpSet, VmProgram, fields,
};
use ferretto_service::{ConsumerCall, ConsumerConn, FileHandle, ProducerConn, limits};
use prost::Message;
use world::{World, only_setup};

const MEMORY_KB: u32 = 16;

const PATCH_TEXT: [u32; 3] = [
    fields::trace_packet::FOR_TESTING,
    fields::test_event::PROTOVM_PATCH,
    fields::test_event::proto_vm_patch::STRING_TO_MERGE,
];
const STATE_TEXT: [u32; 3] = [
    fields::trace_packet::FOR_TESTING,
    fields::test_event::PROTOVM_INCREMENTAL_STATE,
    fields::test_event::proto_vm_incremental_state::STRING_MERGED,
];

fn select(cursor: VmCursorEnum, path: &[u32], then: VmInstruction) -> VmInstruction {
    let component = |id: &u32| PathComponent { field: Some(Field::FieldId(*id)), ..Default::default() };
    VmInstruction {
        operation: Some(Operation::Select(VmOpSelect {
            cursor: Some(cursor.into()),
            relative_path: path.iter().map(component).collect(),
            create_if_not_exist: Some(cursor == VmCursorEnum::VmCursorDst),
        })),
        nested_instructions: vec![then],
        ..Default::default()
    }
}

fn set() -> VmInstruction {
    VmInstruction { operation: Some(Operation::Set(VmOpSet {})), ..Default::default() }
}

/// Sets a field of the state to a field of the packet.
fn copying(version: u32, src: &[u32], dst: &[u32]) -> Vec<u8> {
    let set_dst = select(VmCursorEnum::VmCursorDst, dst, set());
    let instruction = select(VmCursorEnum::VmCursorSrc, src, set_dst);
    VmProgram { version: Some(version), instructions: vec![instruction] }.encode_to_vec()
}

/// The state's text becomes the patch's.
fn program(version: u32) -> Vec<u8> {
    copying(version, &PATCH_TEXT, &STATE_TEXT)
}

fn descriptor(name: &str, program: Vec<u8>) -> DataSourceDescriptor {
    DataSourceDescriptor {
        name: Some(name.to_owned()),
        protovm_program: Some(program.into()),
        ..Default::default()
    }
}

/// A ring that holds three patches.
fn config(sources: &str) -> String {
    format!("buffers {{ size_kb: 4 }} {sources}")
}

fn with_vm(name: &str) -> String {
    format!(
        "data_sources {{ config {{ name: \"{name}\" protovm_config {{ memory_limit_kb: {MEMORY_KB} }} }} }}"
    )
}

/// A packet of about a kilobyte.
fn patch(text: &str) -> Vec<u8> {
    let patch = ProtoVmPatch {
        string_to_merge: Some(format!("{text}{}", "#".repeat(1000))),
        ..ProtoVmPatch::default()
    };
    event(TestEvent { protovm_patch: Some(patch), ..Default::default() })
}

fn event(event: TestEvent) -> Vec<u8> {
    TracePacket { data: Some(Data::ForTesting(event)), ..Default::default() }.encode_to_vec()
}

fn write(world: &mut World, producer: ProducerConn, chunk_ids: std::ops::Range<u32>, texts: &[&str]) {
    for (id, text) in chunk_ids.zip(texts) {
        world.emit(producer, 1, id, 1, &[&patch(text)]);
    }
}

/// A session with one producer that brings this program.
fn tracing(program: Vec<u8>) -> (World, ProducerConn, ConsumerConn) {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register_as(producer, descriptor("data", program));
    let consumer = world.consumer(1000);
    world.enable(consumer, &config(&with_vm("data")));
    assert_eq!(world.ended(consumer), None);
    (world, producer, consumer)
}

/// The instances of all `protovms` packets.
fn instances(packets: &[TracePacket]) -> Vec<proto_vms::Instance> {
    let vms = packets.iter().filter_map(|packet| match &packet.data {
        Some(Data::Protovms(ProtoVms { instance })) => Some(instance.clone()),
        _ => None,
    });
    vms.flatten().collect()
}

fn plain(text: &str) -> String {
    text.trim_end_matches('#').to_owned()
}

fn state_text(instance: &proto_vms::Instance) -> String {
    let state = TracePacket::decode(instance.state.clone().expect("a state")).unwrap();
    match state.data {
        Some(Data::ForTesting(TestEvent { protovm_incremental_state: Some(state), .. })) => {
            plain(state.string_merged())
        }
        None => String::new(),
        other => panic!("{other:?}"),
    }
}

fn states(packets: &[TracePacket]) -> Vec<String> {
    instances(packets).iter().map(state_text).collect()
}

/// The texts of the patches that are left.
fn patches(packets: &[TracePacket]) -> Vec<String> {
    let patches = packets.iter().filter_map(|packet| match &packet.data {
        Some(Data::ForTesting(TestEvent { protovm_patch: Some(patch), .. })) => {
            Some(plain(patch.string_to_merge()))
        }
        _ => None,
    });
    patches.collect()
}

mod a_vm {
    use super::*;

    #[test]
    fn folds_what_is_overwritten_and_nothing_else() {
        let all = ["1", "2", "3", "4", "5"];
        for (written, state) in [(0, ""), (3, ""), (4, "1"), (5, "2")] {
            let (mut world, producer, consumer) = tracing(program(1));
            write(&mut world, producer, 0..5, &all[..written]);
            let packets = world.read(consumer);
            assert_eq!(states(&packets), [state], "{written}");
            assert_eq!(patches(&packets), all[written.saturating_sub(3)..written], "{written}");
        }
    }

    #[test]
    fn comes_out_once_before_the_data_and_after_who_wrote_it() {
        let (mut world, producer, consumer) = tracing(program(1));
        write(&mut world, producer, 0..4, &["1", "2", "3", "4"]);
        let packets = world.read(consumer);
        let is_vms = |packet: &TracePacket| matches!(packet.data, Some(Data::Protovms(_)));
        let at = packets.iter().position(is_vms).unwrap();
        assert!(matches!(packets[at - 1].data, Some(Data::ServiceEvent(_))), "{:?}", packets[at - 1]);
        assert!(matches!(packets[at + 1].data, Some(Data::ForTesting(_))), "{:?}", packets[at + 1]);
        let trusted = protos::trace_packet::OptionalTrustedPacketSequenceId::TrustedPacketSequenceId(1);
        assert_eq!(packets[at].optional_trusted_packet_sequence_id, Some(trusted));
        assert_eq!(packets[at].timestamp, None);

        let instance = &instances(&packets)[0];
        assert_eq!(instance.program.as_deref(), Some(program(1).as_slice()));
        assert_eq!(instance.memory_limit_kb(), MEMORY_KB);
        let provenance = packets.iter().find_map(|packet| match &packet.data {
            Some(Data::TraceProvenance(provenance)) => Some(provenance.buffers[0].sequences[0]),
            _ => None,
        });
        assert_eq!(instance.producer_id, [provenance.unwrap().producer_id()]);

        write(&mut world, producer, 4..8, &["5", "6", "7", "8"]);
        assert_eq!(instances(&world.read(consumer)), []);
    }

    #[test]
    fn is_there_only_if_both_sides_want_it() {
        let plain_source = "data_sources { config { name: \"data\" } }".to_owned();
        let no_limit = "data_sources { config { name: \"data\" protovm_config { } } }".to_owned();
        let plain_descriptor = || DataSourceDescriptor { name: Some("data".into()), ..Default::default() };
        let cases = [
            (descriptor("data", program(1)), with_vm("data"), 1),
            (descriptor("data", program(1)), plain_source.clone(), 0),
            (descriptor("data", program(1)), no_limit, 0),
            (plain_descriptor(), with_vm("data"), 0),
            (plain_descriptor(), plain_source, 0),
        ];
        for (descriptor, sources, expected) in cases {
            let mut world = World::default();
            let producer = world.producer("p");
            world.register_as(producer, descriptor.clone());
            let consumer = world.consumer(1000);
            world.enable(consumer, &config(&sources));
            write(&mut world, producer, 0..5, &["1", "2", "3", "4", "5"]);
            let packets = world.read(consumer);
            assert_eq!(instances(&packets).len(), expected, "{descriptor:?} {sources}");
            assert_eq!(patches(&packets), ["3", "4", "5"]);
        }
    }

    #[test]
    fn takes_packets_from_several_chunks_whole() {
        let (mut world, producer, consumer) = tracing(program(1));
        let packet = patch("long");
        let (head, tail) = packet.split_at(700);
        let mut first = world.write(producer, 1, 0, &[head]);
        first.set_flags(ferretto_shm::ChunkFlags::LAST_PACKET_CONTINUES_ON_NEXT_CHUNK);
        let mut second = world.write(producer, 1, 1, &[tail]);
        second.set_flags(ferretto_shm::ChunkFlags::FIRST_PACKET_CONTINUES_FROM_PREV_CHUNK);
        for chunk in [first, second] {
            let at = chunk.complete().unwrap();
            world.commit_chunk(producer, World::move_request(at, 1));
        }
        write(&mut world, producer, 2..5, &["2", "3", "4"]);
        assert_eq!(states(&world.read(consumer)), ["long"]);
    }

    #[test]
    fn may_be_nested_deeper_than_messages_are_decoded() {
        // An instruction that fails is skipped with all in it; so nothing is ever run of the depths.
        let skipped = VmInstruction { abort_level: Some(1), ..set() };
        let deep = (0..110).fold(skipped, |inner, _| select(VmCursorEnum::VmCursorSrc, &[1], inner));
        let mut program = program(1);
        VmProgram { version: None, instructions: vec![deep] }.encode_raw(&mut program);
        assert!(VmProgram::decode(program.as_slice()).is_err(), "not deep enough");

        let (mut world, producer, consumer) = tracing(program.clone());
        write(&mut world, producer, 0..4, &["1", "2", "3", "4"]);
        let packets = world.read(consumer);
        assert_eq!(states(&packets), ["1"]);
        assert_eq!(instances(&packets)[0].program.as_deref(), Some(program.as_slice()));
    }

    #[test]
    fn keeps_the_state_within_its_limit() {
        let mut world = World::default();
        let producer = world.producer("p");
        world.register_as(producer, descriptor("data", program(1)));
        let consumer = world.consumer(1000);
        let small = with_vm("data").replace(&MEMORY_KB.to_string(), "1");
        world.enable(consumer, &config(&small));
        let short = ProtoVmPatch { string_to_merge: Some("short".to_owned()), ..Default::default() };
        let short = event(TestEvent { protovm_patch: Some(short), ..Default::default() });
        world.emit(producer, 1, 0, 1, &[&short]);
        write(&mut world, producer, 1..6, &["too large", "and this", "3", "4", "5"]);
        let packets = world.read(consumer);
        let instance = &instances(&packets)[0];
        assert!(instance.state.as_ref().unwrap().len() <= 1024);
        assert!(!state_text(instance).contains("too large"), "{}", state_text(instance));
        assert_eq!(patches(&packets), ["3", "4", "5"]);
    }
}

mod producers {
    use super::*;

    #[test]
    fn with_the_same_program_share_a_state_and_others_do_not() {
        let mut world = World::default();
        let registered = [("one", 1), ("one", 1), ("two", 1), ("two", 2)];
        let producers = registered.map(|(name, version)| {
            let producer = world.producer("p");
            world.register_as(producer, descriptor(name, program(version)));
            producer
        });
        let bystander = world.producer("p");
        world.register(bystander, "none");
        let consumer = world.consumer(1000);
        let sources = [with_vm("one"), with_vm("two"), with_vm("none")].concat();
        world.enable(consumer, &config(&sources));

        for (producer, text) in producers.into_iter().zip(["a", "b", "c", "d"]) {
            write(&mut world, producer, 0..1, &[text]);
        }
        write(&mut world, bystander, 0..5, &["1", "2", "3", "4", "5"]);
        let packets = world.read(consumer);
        assert_eq!(states(&packets), ["b", "c", "d"]);
        let ids: Vec<Vec<i32>> = instances(&packets).into_iter().map(|vm| vm.producer_id).collect();
        assert_eq!(ids, [vec![1, 2], vec![3], vec![4]]);
        assert_eq!(patches(&packets), ["3", "4", "5"]);
    }

    #[test]
    fn join_late() {
        let mut world = World::default();
        let consumer = world.consumer(1000);
        world.enable(consumer, &config(&with_vm("data")));
        let first = world.producer("p");
        world.register_as(first, descriptor("data", program(1)));
        write(&mut world, first, 0..2, &["1", "2"]);
        let second = world.producer("q");
        world.register_as(second, descriptor("data", program(1)));
        write(&mut world, second, 0..3, &["3", "4", "5"]);
        let packets = world.read(consumer);
        assert_eq!(states(&packets), ["2"]);
        assert_eq!(instances(&packets)[0].producer_id, [1, 2]);
    }

    #[test]
    fn leave_their_packets_to_their_vm() {
        let (mut world, first, consumer) = tracing(program(1));
        write(&mut world, first, 0..3, &["1", "2", "3"]);
        world.disconnect(first);
        let second = world.producer("q");
        world.register_as(second, descriptor("data", program(1)));
        write(&mut world, second, 0..2, &["4", "5"]);
        let packets = world.read(consumer);
        assert_eq!(states(&packets), ["2"]);
        assert_eq!(instances(&packets)[0].producer_id, [1, 2]);
    }
}

mod hostile {
    use super::*;

    #[test]
    fn programs_beyond_the_bounds_make_no_vm() {
        let deep = (0..300).fold(Vec::new(), |inner: Vec<u8>, _| {
            let mut outer = Vec::new();
            prost::encoding::bytes::encode(7, &inner, &mut outer);
            outer
        });
        let mut too_deep = Vec::new();
        prost::encoding::bytes::encode(2, &deep, &mut too_deep);
        let (mut world, producer, consumer) = tracing(too_deep);
        write(&mut world, producer, 0..5, &["1", "2", "3", "4", "5"]);
        let packets = world.read(consumer);
        assert_eq!(instances(&packets), []);
        assert_eq!(patches(&packets), ["3", "4", "5"]);
    }

    #[test]
    fn programs_without_sense_have_an_empty_state() {
        for program in [vec![], vec![0xff; 100], vec![0x12, 0x00], vec![0x12, 0x7f, 0x01], b"text".to_vec()] {
            let (mut world, producer, consumer) = tracing(program.clone());
            write(&mut world, producer, 0..5, &["1", "2", "3", "4", "5"]);
            let packets = world.read(consumer);
            assert_eq!(states(&packets), [""], "{program:?}");
            assert_eq!(patches(&packets), ["3", "4", "5"]);
        }
    }

    /// A program that does nothing, but that very often: it iterates over the patch's texts, and for each of them again.
    fn busy() -> Vec<u8> {
        let each = |then: VmInstruction| {
            let component = PathComponent {
                field: Some(Field::FieldId(fields::test_event::PROTOVM_PATCH)),
                is_repeated: Some(true),
                ..Default::default()
            };
            VmInstruction {
                operation: Some(Operation::Select(VmOpSelect {
                    cursor: Some(VmCursorEnum::VmCursorSrc.into()),
                    relative_path: vec![component],
                    create_if_not_exist: None,
                })),
                nested_instructions: vec![then],
                ..Default::default()
            }
        };
        let nested = VmInstruction {
            nested_instructions: vec![each(set()); 4000],
            ..select(VmCursorEnum::VmCursorSrc, &PATCH_TEXT[..1], set())
        };
        VmProgram { version: None, instructions: vec![nested] }.encode_to_vec()
    }

    #[test]
    fn programs_that_take_too_long_are_switched_off() {
        let (mut world, producer, consumer) = tracing(busy());
        // Thousands of empty patches in one packet, for each of 4000 instructions.
        let mut patches = Vec::new();
        (0..1500).for_each(|_| prost::encoding::bytes::encode(PATCH_TEXT[1], &Vec::new(), &mut patches));
        let mut packet = Vec::new();
        prost::encoding::bytes::encode(PATCH_TEXT[0], &patches, &mut packet);
        for id in 0..20 {
            world.emit(producer, 1, id, 1, &[&packet]);
        }
        let packets = world.read(consumer);
        assert_eq!(instances(&packets), [], "it is still on");
        assert!(packets.iter().any(|packet| matches!(packet.data, Some(Data::ForTesting(_)))));
    }

    #[test]
    fn states_with_fields_of_the_service_are_left_out() {
        for field in [fields::trace_packet::TRUSTED_UID, fields::trace_packet::TRACE_CONFIG] {
            let program = copying(1, &PATCH_TEXT, &[field]);
            let (mut world, producer, consumer) = tracing(program);
            write(&mut world, producer, 0..5, &["1", "2", "3", "4", "5"]);
            assert_eq!(instances(&world.read(consumer)), [], "field {field}");
        }
    }

    #[test]
    fn packets_that_the_trace_would_not_take_are_not_folded() {
        let (mut world, producer, consumer) = tracing(program(1));
        let mut spoofed = patch("spoofed");
        prost::encoding::int32::encode(fields::trace_packet::TRUSTED_UID, &0, &mut spoofed);
        write(&mut world, producer, 0..1, &["1"]);
        world.emit(producer, 1, 1, 1, &[&spoofed]);
        write(&mut world, producer, 2..5, &["2", "3", "4"]);
        assert_eq!(states(&world.read(consumer)), ["1"]);
    }

    #[test]
    fn memory_for_programs_is_bounded() {
        let mut world = World::default();
        let producer = world.producer("p");
        for version in 0..limits::MAX_PROTOVMS_PER_SESSION as u8 {
            // Many times the shortest instruction, with one within it.
            let program = [vec![0x08, version], [0x12, 0x02, 0x3a, 0x00].repeat(25_000)].concat();
            world.register_as(producer, descriptor("data", program));
        }
        let consumer = world.consumer(1000);
        world.enable(consumer, &config(&with_vm("data")));
        assert!(world.service.has_work(), "all of them were parsed at once");
        world.advance_ms(0);
        let count = instances(&world.read(consumer)).len();
        assert!((2..10).contains(&count), "{count} programs of a hundred thousand bytes");
        let stats = world.stats(consumer);
        let off = limits::MAX_PROTOVMS_PER_SESSION - count;
        assert_eq!(stats.losses.unwrap().buffers[0].protovms_off(), off as u64);
    }

    #[test]
    fn numbers_of_programs_are_bounded() {
        let mut world = World::default();
        let producer = world.producer("p");
        for version in 0..limits::MAX_PROTOVMS_PER_SESSION as u32 + 10 {
            world.register_as(producer, descriptor("data", program(version)));
        }
        let consumer = world.consumer(1000);
        world.enable(consumer, &config(&with_vm("data")));
        assert_eq!(instances(&world.read(consumer)).len(), limits::MAX_PROTOVMS_PER_SESSION);
    }
}

mod limits_of_memory {
    use super::*;

    fn enabled(limits_kb: &[u32]) -> (World, ConsumerConn) {
        let mut world = World::default();
        let producer = world.producer("p");
        let mut sources = String::new();
        for (index, limit) in limits_kb.iter().enumerate() {
            world.register_as(producer, descriptor(&format!("data{index}"), program(1)));
            sources += &with_vm(&format!("data{index}")).replace(&MEMORY_KB.to_string(), &limit.to_string());
        }
        let consumer = world.consumer(1000);
        world.enable(consumer, &config(&sources));
        (world, consumer)
    }

    #[test]
    fn are_refused_beyond_a_sessions() {
        let (mut world, consumer) = enabled(&[limits::MAX_PROTOVM_MEMORY_KB + 1]);
        let error = world.ended(consumer).expect("the config is refused");
        assert!(error.contains("memory_limit_kb"), "{error}");
    }

    #[test]
    fn hold_for_all_vms_of_a_session_together() {
        let half = limits::MAX_PROTOVM_MEMORY_KB / 2;
        let (mut world, consumer) = enabled(&[half, half, half]);
        assert_eq!(world.ended(consumer), None);
        assert_eq!(instances(&world.read(consumer)).len(), 2);
    }
}

mod clones {
    use super::*;

    fn clone(world: &mut World, producer: ProducerConn) -> ConsumerConn {
        let other = world.consumer(1000);
        let request = protos::CloneSessionRequest {
            selector: Some(Selector::SessionId(1)),
            ..protos::CloneSessionRequest::default()
        };
        world.ask(other, ConsumerCall::CloneSession(request));
        world.acknowledge_flushes(producer);
        assert!(world.answer::<protos::CloneSessionResponse>(other, "CloneSession").success());
        other
    }

    #[test]
    fn have_the_state_of_their_moment() {
        let (mut world, producer, consumer) = tracing(program(1));
        write(&mut world, producer, 0..4, &["1", "2", "3", "4"]);
        let early = clone(&mut world, producer);
        write(&mut world, producer, 4..5, &["5"]);
        for (reader, state, left) in [(early, "1", ["2", "3", "4"]), (consumer, "2", ["3", "4", "5"])] {
            let packets = world.read(reader);
            assert_eq!(states(&packets), [state]);
            assert_eq!(instances(&packets)[0].producer_id, [1]);
            assert_eq!(patches(&packets), left);
        }
        // The session's state has been told; a clone is a trace of its own.
        write(&mut world, producer, 5..9, &["6", "7", "8", "9"]);
        let late = clone(&mut world, producer);
        assert_eq!(states(&world.read(late)), ["6"]);
    }

    /// What a clone takes away, or has cleared before, is as good as overwritten for the session.
    #[test]
    fn leave_the_session_with_all_that_they_take_or_clear() {
        for (option, cloned) in [("transfer_on_clone", ("1", 3)), ("clear_before_clone", ("4", 0))] {
            let mut world = World::default();
            let producer = world.producer("p");
            world.register_as(producer, descriptor("data", program(1)));
            let consumer = world.consumer(1000);
            let buffers = format!("buffers {{ size_kb: 4 {option}: true }}");
            world.enable(consumer, &format!("{buffers} {}", with_vm("data")));
            let (_, instance) = only_setup(&world.commands(producer));
            assert_eq!(instance.target_buffer(), 1);
            write(&mut world, producer, 0..4, &["1", "2", "3", "4"]);
            let other = clone(&mut world, producer);
            let packets = world.read(other);
            assert_eq!((states(&packets)[0].as_str(), patches(&packets).len()), cloned, "{option}");
            write(&mut world, producer, 4..5, &["5"]);
            let packets = world.read(consumer);
            assert_eq!(states(&packets), ["4"], "{option}");
            assert_eq!(patches(&packets), ["5"], "{option}");
        }
    }
}

#[test]
fn a_file_begins_with_the_state_and_has_it_once() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register_as(producer, descriptor("data", program(1)));
    let consumer = world.consumer(1000);
    let file = FileHandle(1);
    let sources = with_vm("data");
    world.enable_into(
        consumer,
        &config(&format!("{sources} write_into_file: true file_write_period_ms: 1000")),
        file,
    );
    write(&mut world, producer, 0..4, &["1", "2", "3", "4"]);
    world.advance_ms(1000);
    write(&mut world, producer, 4..9, &["5", "6", "7", "8", "9"]);
    world.advance_ms(1000);
    world.disable(consumer);
    world.disconnect(producer);
    assert_eq!(world.ended(consumer).as_deref(), Some(""));
    let packets = world.file_packets(file);
    assert_eq!(states(&packets), ["1"]);
    assert_eq!(patches(&packets), ["2", "3", "4", "7", "8", "9"]);
}
