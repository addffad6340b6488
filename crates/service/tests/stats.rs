//! What the service says of itself, in statistics and in configs: the fields that upstream fills, and no others.

mod world;

use ferretto_protos::trace_packet::Data;
use world::{World, config, only_setup, packet};

#[test]
fn statistics_leave_out_what_did_not_happen() {
    let mut world = World::default();
    let producer = world.producer("p");
    world.register(producer, "data");
    world.register(producer, "unused");
    let consumer = world.consumer(1000);
    world.enable(consumer, &config(""));
    let before = world.stats(consumer);
    assert_eq!((before.data_sources_registered(), before.data_sources_seen()), (2, 1), "instances are seen");
    assert_eq!(before.chunk_payload_histogram_def, [] as [i64; 0], "there are no histograms");
    let buffer = before.buffer_stats[0];
    assert!(buffer.buffer_size() > 0 && buffer.chunks_written.is_none() && buffer.abi_violations.is_none());

    world.emit(producer, 1, 0, 1, &[&packet("x")]);
    let after = world.stats(consumer);
    assert!(!after.chunk_payload_histogram_def.is_empty());
    assert_eq!(after.buffer_stats[0].chunks_written, Some(1));
}

#[test]
fn a_packet_of_statistics_has_no_time() {
    let mut world = World::default();
    let consumer = world.consumer(1000);
    world.enable(consumer, &config(""));
    let packets = world.read(consumer);
    let stats = packets.iter().find(|packet| matches!(packet.data, Some(Data::TraceStats(_)))).unwrap();
    assert_eq!((stats.timestamp, stats.timestamp_clock_id), (None, None));
}

#[test]
fn producers_are_told_of_the_clock_for_the_duration_if_it_is_another() {
    for (more, told) in [("", None), ("duration_ms: 9 prefer_suspend_clock_for_duration: true", Some(true))] {
        let mut world = World::default();
        let producer = world.producer("p");
        world.register(producer, "data");
        let consumer = world.consumer(1000);
        world.enable(consumer, &config(more));
        let (_, told_config) = only_setup(&world.commands(producer));
        assert_eq!(told_config.prefer_suspend_clock_for_duration, told);
    }
}
