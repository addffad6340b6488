//! Descriptions of tracks: what a sequence says once about each that its events are on.

use ferretto_protos::fields::{
    counter_descriptor, process_descriptor, thread_descriptor, trace_packet, track_descriptor,
};
use ferretto_protozero::{Message, Sink};

use crate::identity::{process, thread_name, thread_uuid};
use crate::track::{Base, ChildOrder, Counter, Kind, Layout, Merge, Track, Unit};

/// The thread that writes, with its name.
pub(crate) fn describe_thread<S: Sink>(packet: &mut Message<'_, S>, tid: i32) {
    let mut track = packet.nested(trace_packet::TRACK_DESCRIPTOR);
    track.varint(track_descriptor::UUID, thread_uuid(tid));
    track.varint(track_descriptor::PARENT_UUID, process().uuid);
    put_apart(&mut track);
    put_thread(&mut track, tid, thread_name().as_deref());
}

/// This process.
pub(crate) fn describe_process<S: Sink>(packet: &mut Message<'_, S>) {
    let mut track = packet.nested(trace_packet::TRACK_DESCRIPTOR);
    track.varint(track_descriptor::UUID, process().uuid);
    put_apart(&mut track);
    let mut description = track.nested(track_descriptor::PROCESS);
    description.int(process_descriptor::PID, process().pid.into());
    // Trace Processor shows the name, which upstream's clients take from here, too.
    if let Some(name) = &process().name {
        description.string(process_descriptor::PROCESS_NAME, name);
    }
    for argument in &process().cmdline {
        description.string(process_descriptor::CMDLINE, argument);
    }
}

/// Any other track. Its parents have descriptions of their own.
pub(crate) fn describe_track<S: Sink>(packet: &mut Message<'_, S>, track: &Track, uuid: u64) {
    let mut message = packet.nested(trace_packet::TRACK_DESCRIPTOR);
    message.varint(track_descriptor::UUID, uuid);
    let parent = track.parent().map(Track::uuid);
    let parent = parent.or_else(|| (!track.is_base()).then(|| track.base_uuid()));
    if let Some(parent) = parent.filter(|parent| *parent != 0) {
        message.varint(track_descriptor::PARENT_UUID, parent);
    }
    match (track.static_name(), track.name()) {
        (Some(name), _) => message.string(track_descriptor::STATIC_NAME, name),
        (None, Some(name)) => message.string(track_descriptor::NAME, name),
        (None, None) => {}
    }
    if let (Base::Thread(tid), true) = (track.base(), track.is_base()) {
        message.varint(track_descriptor::PARENT_UUID, process().uuid);
        put_apart(&mut message);
        put_thread(&mut message, tid, None);
    }
    put_layout(&mut message, &track.layout);
    match &track.kind {
        Kind::Events => {}
        Kind::Counter(counter) => put_counter(&mut message.nested(track_descriptor::COUNTER), counter),
        Kind::State => message.nested(track_descriptor::STATE).finish(),
    }
}

/// Of the tracks that the kernel's data has, too.
fn put_apart<S: Sink>(track: &mut Message<'_, S>) {
    if process().is_apart {
        track.bool(track_descriptor::DISALLOW_MERGING_WITH_SYSTEM_TRACKS, true);
    }
}

fn put_thread<S: Sink>(track: &mut Message<'_, S>, tid: i32, name: Option<&str>) {
    let mut thread = track.nested(track_descriptor::THREAD);
    thread.int(thread_descriptor::PID, process().pid.into());
    thread.int(thread_descriptor::TID, tid.into());
    if let Some(name) = name {
        thread.string(thread_descriptor::THREAD_NAME, name);
    }
}

fn put_layout<S: Sink>(message: &mut Message<'_, S>, layout: &Layout) {
    if let Some(description) = layout.description {
        message.string(track_descriptor::DESCRIPTION, description);
    }
    if let Some(order) = layout.child_order {
        // `TrackDescriptor.ChildTracksOrdering`.
        let order = match order {
            ChildOrder::Lexicographic => 1,
            ChildOrder::Chronological => 2,
            ChildOrder::Explicit => 3,
        };
        message.varint(track_descriptor::CHILD_ORDERING, order);
    }
    if let Some(rank) = layout.rank {
        message.int(track_descriptor::SIBLING_ORDER_RANK, rank.into());
    }
    if let Some(merge) = layout.merge {
        // `TrackDescriptor.SiblingMergeBehavior`.
        let behavior = match merge {
            Merge::ByName => 1,
            Merge::Never => 2,
            Merge::ByKey(_) | Merge::ByNumber(_) => 3,
        };
        message.varint(track_descriptor::SIBLING_MERGE_BEHAVIOR, behavior);
        match merge {
            Merge::ByKey(key) => message.string(track_descriptor::SIBLING_MERGE_KEY, key),
            Merge::ByNumber(number) => message.varint(track_descriptor::SIBLING_MERGE_KEY_INT, number),
            Merge::ByName | Merge::Never => {}
        }
    }
}

fn put_counter<S: Sink>(message: &mut Message<'_, S>, counter: &Counter) {
    match counter.unit {
        // `CounterDescriptor.Unit`.
        Some(Unit::TimeNs) => message.varint(counter_descriptor::UNIT, 1),
        Some(Unit::Count) => message.varint(counter_descriptor::UNIT, 2),
        Some(Unit::Bytes) => message.varint(counter_descriptor::UNIT, 3),
        Some(Unit::Named(name)) => message.string(counter_descriptor::UNIT_NAME, name),
        None => {}
    }
    if counter.unit_multiplier != 1 {
        message.int(counter_descriptor::UNIT_MULTIPLIER, counter.unit_multiplier);
    }
    if counter.is_incremental {
        message.bool(counter_descriptor::IS_INCREMENTAL, true);
    }
    if let Some(key) = counter.share_key {
        message.string(counter_descriptor::Y_AXIS_SHARE_KEY, key);
    }
    for category in counter.categories {
        message.string(counter_descriptor::CATEGORIES, category);
    }
}
