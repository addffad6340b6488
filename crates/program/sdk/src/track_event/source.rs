//! Track events as a data source: all categories and trace points of the process are one.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use ferretto_producer::{StartupLoss, StartupWriters};
use ferretto_protos::fields::{
    data_source_descriptor as fields, track_event_category, track_event_descriptor,
};
use ferretto_protozero::control::Writer;

use crate::data_source::SetupArgs;
use crate::observers;
use crate::runtime::{Ack, Held, Setup, Source, Stage, TOO_MANY_SESSIONS};
use crate::track_event::category::{Category, announce_change, registry};
use crate::track_event::event;
use crate::track_event::session::{self, Session};
use crate::track_event::startup::StartupConfig;
use crate::track_event::wishes::Wishes;

/// The data source's name, for all programs with track events.
const NAME: &str = "track_event";
/// Tells the data source apart when it is updated; any number, always the same.
const ID: u64 = 0x0066_6572_7265_7474;

pub(crate) static TRACK_EVENTS: TrackEvents = TrackEvents { is_known: AtomicBool::new(false) };

pub(crate) struct TrackEvents {
    /// Whether the descriptor was asked for before.
    is_known: AtomicBool,
}

impl Source for TrackEvents {
    fn name(&self) -> String {
        NAME.to_owned()
    }

    fn descriptor(&self) -> Bytes {
        let mut categories = Writer::new();
        for category in registry().distinct() {
            categories.message(track_event_descriptor::AVAILABLE_CATEGORIES, &describe(category));
        }
        let mut descriptor = Writer::new();
        descriptor
            .text(fields::NAME, NAME)
            .integer(fields::ID, ID)
            .truth(fields::WILL_NOTIFY_ON_START, true)
            .truth(fields::WILL_NOTIFY_ON_STOP, true)
            .truth(fields::HANDLES_INCREMENTAL_STATE_CLEAR, true)
            .message(fields::TRACK_EVENT_DESCRIPTOR, &categories);
        descriptor.into_bytes().into()
    }

    fn take_news(&self) -> bool {
        let is_new = !self.is_known.swap(true, Ordering::Relaxed);
        registry().take_news() || is_new
    }

    fn setup(&self, setup: &Setup, stage: &mut Stage<'_>) -> Result<usize, String> {
        let wishes =
            Wishes::new(&setup.config).map_err(|error| format!("its config cannot be decoded: {error}"))?;
        let adopted = session::adopt_startup(setup, &wishes);
        let slot = adopted.or_else(|| session::add(Session::new(setup, wishes)));
        let slot = slot.ok_or(TOO_MANY_SESSIONS)?;
        let args = SetupArgs { config: &setup.config, instance_index: slot, backend: setup.backend };
        observers::notify(stage, &|observer| observer.on_setup(&args));
        Ok(slot)
    }

    fn start(&self, slot: usize, ack: Ack, stage: &mut Stage<'_>) {
        let session = session::slot(slot).and_then(|slot| slot.session);
        let filter = session.map(|session| session.wishes.filter.clone());
        registry().set_filter(slot, filter);
        session::start(slot);
        stage.call(announce_change);
        observers::notify(stage, &|observer| observer.on_start(slot));
        ack.done();
    }

    fn stop(&self, slot: usize, ack: Ack, stage: &mut Stage<'_>) {
        observers::notify(stage, &|observer| observer.on_stop(slot));
        registry().set_filter(slot, None);
        session::end_waits(slot);
        stage.call(|| {
            announce_change();
            // What callbacks have traced on this thread.
            event::flush_slot(slot);
        });
        ack.done();
    }

    fn stopped(&self, slot: usize, _: &mut Stage<'_>) {
        session::remove(slot);
    }

    fn flush(&self, slot: usize, _: u64, ack: Ack, _: &mut Stage<'_>) {
        // Threads hand over at their next event. What they hold until then the service copies itself (scraping).
        session::flush(slot);
        ack.done();
    }

    fn clear_incremental_state(&self, slot: usize, stage: &mut Stage<'_>) {
        observers::notify(stage, &|observer| observer.will_clear_incremental_state(slot));
        session::clear_incremental_state(slot);
    }

    /// The background thread has no events of its own, but for those of callbacks.
    fn flush_thread(&self, slot: usize) {
        event::flush_slot(slot);
    }

    fn lock_for_fork(&'static self) -> Box<dyn Held> {
        session::lock_for_fork()
    }

    fn forked(&self, revives: bool) {
        self.is_known.store(false, Ordering::Relaxed);
        session::forget();
        registry().forget_sessions(revives);
    }
}

/// Records from now on, for a session that is still to come; `false` if there is no room.
pub(crate) fn start_startup(writers: StartupWriters, config: StartupConfig) -> bool {
    let session = Session::startup(writers, config);
    let filter = session.wishes.filter.clone();
    registry().forget_use();
    let slot = session::add(session);
    if let Some(slot) = slot {
        registry().set_filter(slot, Some(filter));
        session::start(slot);
    }
    slot.is_some()
}

/// Ends recordings that no session will adopt any more.
pub(crate) fn end_startups() {
    while let Some((slot, StartupLoss { reason, volume })) = session::given_up_startup() {
        registry().set_filter(slot, None);
        session::remove(slot);
        if !volume.is_empty() {
            session::say("what was traced before a session is lost", volume, &reason);
        }
    }
}

fn describe(category: &'static Category) -> Writer {
    let mut message = Writer::new();
    message.text(track_event_category::NAME, category.name());
    if !category.description().is_empty() {
        message.text(track_event_category::DESCRIPTION, category.description());
    }
    for tag in category.tags() {
        message.text(track_event_category::TAGS, tag);
    }
    message
}
