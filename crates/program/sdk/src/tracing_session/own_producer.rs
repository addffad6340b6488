//! Waiting for this process to be known to the service before a session starts, so that its first event is in the trace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ferretto_consumer::Answer;
use ferretto_producer::log;
use ferretto_protos::{DataSourceDescriptor, TracingServiceState};
use prost::Message;

use super::channel::{Channel, Deadline};
use super::error::SessionError;
use super::place::Place;
use crate::backends::Backends;
use crate::runtime;

/// A process registers with the system's service within milliseconds of `init`; one that may not connect never does, and the session is
/// about others. Nothing is wrong then, so this is short.
const SYSTEM_TIMEOUT: Duration = Duration::from_secs(1);

/// Between two questions to the service.
const PAUSE: Duration = Duration::from_millis(1);

/// Waits until the service knows this process and its data sources, if it is to be a producer there.
///
/// # Errors
///
/// If the service in this process does not hear of it. The system's may have good reasons.
pub(crate) async fn wait_for_registration(
    channel: &Arc<Channel>,
    place: &Place,
    timeout: Duration,
) -> Result<(), SessionError> {
    let backend = place.backend();
    // On the runtime's own thread, in a callback, nothing would happen while it waits.
    if !runtime::backends().contains(backend) || runtime::is_this_thread() {
        return Ok(());
    }
    let is_own = backend == Backends::IN_PROCESS;
    let deadline = Deadline::after(if is_own { timeout } else { timeout.min(SYSTEM_TIMEOUT) });
    match wait(channel, deadline).await {
        Err(SessionError::TimedOut { .. }) if !is_own => {
            log::debug(format_args!("this process is no producer of the service whose session starts"));
            Ok(())
        }
        result => result,
    }
}

async fn wait(channel: &Arc<Channel>, deadline: Deadline) -> Result<(), SessionError> {
    let what = "the registration of this process";
    loop {
        let query = channel.call(what, deadline, |consumer| consumer.begin_query_service_state(false));
        if let Answer::ServiceState(state) = query.await?
            && knows_this_process(&state)
        {
            return wait_for_news(channel, what, deadline).await;
        }
        if deadline.is_over() {
            return Err(deadline.error(what));
        }
        // Nothing is waited for but the time.
        let _ = channel.wait(what, Deadline::after(PAUSE), |_| None::<()>).await;
    }
}

/// Waits until the service has heard what the runtime was told before: data sources that were registered a moment ago.
async fn wait_for_news(
    channel: &Arc<Channel>,
    what: &'static str,
    deadline: Deadline,
) -> Result<(), SessionError> {
    let is_done = Arc::new(AtomicBool::new(false));
    let (told, waiting) = (is_done.clone(), channel.clone());
    let refused = runtime::drain_then(Box::new(move |_| {
        told.store(true, Ordering::Release);
        waiting.look_again();
    }));
    if refused.is_some() {
        // It is being shut down.
        return Ok(());
    }
    channel.wait(what, deadline, |_| is_done.load(Ordering::Acquire).then_some(())).await
}

fn knows_this_process(state: &TracingServiceState) -> bool {
    let pid = i32::try_from(std::process::id()).ok();
    let own: Vec<_> = state.producers.iter().filter(|p| p.pid == pid).map(|p| p.id).collect();
    let is_track_event = |descriptor: &Bytes| {
        DataSourceDescriptor::decode(descriptor.clone()).is_ok_and(|source| source.name() == "track_event")
    };
    state.data_sources.iter().any(|source| {
        own.contains(&source.producer_id) && source.ds_descriptor.as_ref().is_some_and(is_track_event)
    })
}
