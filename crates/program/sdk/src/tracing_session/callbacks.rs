//! What a session's user is told of, on the driver's thread.

use std::fmt;
use std::sync::Arc;

use ferretto_protos::observable_events::CloneTriggerHit;

use super::channel::{Channel, Deadline, Ended, State};
use super::driver::spawn;
use super::error::SessionError;

type OnEvent = Box<dyn FnOnce() + Send>;
type OnError = Box<dyn FnOnce(SessionError) + Send>;
type OnTrigger = Box<dyn FnMut(&CloneTriggerHit) + Send>;

/// What to call, and when.
#[derive(Default)]
pub(crate) struct Callbacks {
    pub(crate) on_start: Vec<OnEvent>,
    pub(crate) on_stop: Vec<OnEvent>,
    pub(crate) on_error: Vec<OnError>,
    pub(crate) on_clone_trigger: Vec<OnTrigger>,
}

impl Callbacks {
    /// Has them called. Without callbacks no thread is started.
    pub(crate) fn install(self, channel: &Arc<Channel>) -> Result<(), SessionError> {
        let Self { on_start, on_stop, on_error, on_clone_trigger } = self;
        if !on_start.is_empty() {
            spawn(when_started(channel.clone(), on_start))?;
        }
        if !on_stop.is_empty() || !on_error.is_empty() {
            spawn(when_ended(channel.clone(), on_stop, on_error))?;
        }
        if !on_clone_trigger.is_empty() {
            spawn(at_clone_triggers(channel.clone(), on_clone_trigger))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Callbacks").finish_non_exhaustive()
    }
}

async fn when_started(channel: Arc<Channel>, callbacks: Vec<OnEvent>) {
    let look = |state: &mut State| {
        if state.started { Some(true) } else { state.ended.as_ref().map(|_| false) }
    };
    // A session that ends or is dropped before never starts.
    if let Ok(true) = channel.wait("the start", Deadline::NEVER, look).await {
        callbacks.into_iter().for_each(|callback| callback());
    }
}

async fn when_ended(channel: Arc<Channel>, on_stop: Vec<OnEvent>, on_error: Vec<OnError>) {
    let ended = channel.wait("the end", Deadline::NEVER, |state| state.ended.clone()).await;
    let Ok(ended) = ended else { return };
    if let Err(why) = ended {
        on_error.into_iter().for_each(|callback| callback(Ended::error(&why)));
    }
    on_stop.into_iter().for_each(|callback| callback());
}

async fn at_clone_triggers(channel: Arc<Channel>, mut callbacks: Vec<OnTrigger>) {
    let look = |state: &mut State| match std::mem::take(&mut state.trigger_hits) {
        hits if !hits.is_empty() => Some(hits),
        _ => state.ended.as_ref().map(|_| Vec::new()),
    };
    while let Ok(hits) = channel.wait("a trigger", Deadline::NEVER, look).await {
        if hits.is_empty() {
            return;
        }
        for hit in &hits {
            callbacks.iter_mut().for_each(|callback| callback(hit));
        }
    }
}
