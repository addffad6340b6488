//! Descriptions of tracks: what a sequence says once about each that its events are on.

use ferretto_protos::fields::{counter_descriptor, process_descriptor, thread_descriptor, track_descriptor};
use ferretto_protozero::control::Writer;

use crate::identity::{process, thread_name, thread_uuid};
use crate::track_event::track::{Base, ChildOrder, Counter, Kind, Layout, Merge, Track, Unit};

/// The thread that writes, with its name.
pub(crate) fn describe_thread(tid: i32) -> Writer {
    let mut track = Writer::new();
    track.integer(track_descriptor::UUID, thread_uuid(tid));
    put_thread(&mut track, tid, thread_name().as_deref());
    track
}

/// This process.
pub(crate) fn describe_process() -> Writer {
    let mut description = Writer::new();
    description.signed(process_descriptor::PID, process().pid.into());
    // Trace Processor shows the name, which upstream's clients take from here, too.
    if let Some(name) = &process().name {
        description.text(process_descriptor::PROCESS_NAME, name);
    }
    for argument in &process().cmdline {
        description.text(process_descriptor::CMDLINE, argument);
    }
    let mut track = Writer::new();
    track.integer(track_descriptor::UUID, process().uuid);
    put_apart(&mut track);
    track.message(track_descriptor::PROCESS, &description);
    track
}

/// Any other track. Its parents have descriptions of their own.
pub(crate) fn describe_track(track: &Track, uuid: u64) -> Writer {
    let mut message = Writer::new();
    message.integer(track_descriptor::UUID, uuid);
    let parent = track.parent().map(Track::uuid);
    let parent = parent.or_else(|| (!track.is_base()).then(|| track.base_uuid()));
    if let Some(parent) = parent.filter(|parent| *parent != 0) {
        message.integer(track_descriptor::PARENT_UUID, parent);
    }
    if let Some(name) = track.static_name() {
        message.text(track_descriptor::STATIC_NAME, name);
    } else if let Some(name) = track.name() {
        message.text(track_descriptor::NAME, name);
    }
    if let (Base::Thread(tid), true) = (track.base(), track.is_base()) {
        put_thread(&mut message, tid, None);
    }
    put_layout(&mut message, &track.layout);
    match &track.kind {
        Kind::Events => {}
        Kind::Counter(counter) => {
            message.message(track_descriptor::COUNTER, &describe_counter(counter));
        }
        Kind::State => {
            message.bytes(track_descriptor::STATE, &[]);
        }
    }
    message
}

/// Of the tracks that the kernel's data has, too.
fn put_apart(track: &mut Writer) {
    if process().is_apart {
        track.truth(track_descriptor::DISALLOW_MERGING_WITH_SYSTEM_TRACKS, true);
    }
}

/// What makes a track a thread's.
fn put_thread(track: &mut Writer, tid: i32, name: Option<&str>) {
    track.integer(track_descriptor::PARENT_UUID, process().uuid);
    put_apart(track);
    let mut thread = Writer::new();
    thread.signed(thread_descriptor::PID, process().pid.into()).signed(thread_descriptor::TID, tid.into());
    if let Some(name) = name {
        thread.text(thread_descriptor::THREAD_NAME, name);
    }
    track.message(track_descriptor::THREAD, &thread);
}

fn put_layout(message: &mut Writer, layout: &Layout) {
    if let Some(description) = layout.description {
        message.text(track_descriptor::DESCRIPTION, description);
    }
    if let Some(order) = layout.child_order {
        // `TrackDescriptor.ChildTracksOrdering`.
        let order = match order {
            ChildOrder::Lexicographic => 1,
            ChildOrder::Chronological => 2,
            ChildOrder::Explicit => 3,
        };
        message.integer(track_descriptor::CHILD_ORDERING, order);
    }
    if let Some(rank) = layout.rank {
        message.signed(track_descriptor::SIBLING_ORDER_RANK, rank.into());
    }
    if let Some(merge) = layout.merge {
        // `TrackDescriptor.SiblingMergeBehavior`.
        let behavior = match merge {
            Merge::ByName => 1,
            Merge::Never => 2,
            Merge::ByKey(_) | Merge::ByNumber(_) => 3,
        };
        message.integer(track_descriptor::SIBLING_MERGE_BEHAVIOR, behavior);
        if let Merge::ByKey(key) = merge {
            message.text(track_descriptor::SIBLING_MERGE_KEY, key);
        }
        if let Merge::ByNumber(number) = merge {
            message.integer(track_descriptor::SIBLING_MERGE_KEY_INT, number);
        }
    }
}

fn describe_counter(counter: &Counter) -> Writer {
    let mut message = Writer::new();
    // `CounterDescriptor.Unit`.
    let unit = match counter.unit {
        Some(Unit::TimeNs) => 1,
        Some(Unit::Count) => 2,
        Some(Unit::Bytes) => 3,
        Some(Unit::Named(_)) | None => 0,
    };
    if unit != 0 {
        message.integer(counter_descriptor::UNIT, unit);
    }
    if let Some(Unit::Named(name)) = counter.unit {
        message.text(counter_descriptor::UNIT_NAME, name);
    }
    if counter.unit_multiplier != 1 {
        message.signed(counter_descriptor::UNIT_MULTIPLIER, counter.unit_multiplier);
    }
    if counter.is_incremental {
        message.truth(counter_descriptor::IS_INCREMENTAL, true);
    }
    if let Some(key) = counter.share_key {
        message.text(counter_descriptor::Y_AXIS_SHARE_KEY, key);
    }
    for category in counter.categories {
        message.text(counter_descriptor::CATEGORIES, category);
    }
    message
}
