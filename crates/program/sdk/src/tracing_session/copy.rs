//! Copies of sessions that go on.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use ferretto_consumer::Answer;
use ferretto_protos::CloneSessionRequest;
use ferretto_protos::clone_session_request::Selector;

use super::channel::Deadline;
use super::error::SessionError;
use super::file::TraceFile;
use super::place::Place;
use super::session::{About, Connection, Storage};
use super::setup::unexpected;
use super::trace::{RecordedTrace, read, write_all};

/// The session with the best `bugreport_score` (upstream: `kBugreportSessionId`).
const BUGREPORT_SESSION: u64 = u64::MAX;

/// Which session to copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloneOf {
    /// The one with this number, see [`TracingSession::id`](super::TracingSession::id).
    Id(u64),
    /// The one whose config has this `unique_session_name`.
    Name(String),
    /// The one with the highest `bugreport_score`.
    Bugreport,
}

/// How to copy it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CloneOptions {
    /// Leaves the session's trace filter out. For privileged callers only.
    pub skip_trace_filter: bool,
    /// Tells producers that the flush before the copy is for a bug report.
    pub for_bugreport: bool,
    /// Writes the copy into this file, under a temporary name until it is whole. Of a session that writes into a file only this gets all;
    /// without it, the copy is of what is not in the file yet.
    pub into_file: Option<PathBuf>,
}

/// Makes the copy the session of this connection.
pub(crate) async fn clone_session(
    connection: Connection,
    place: Place,
    timeout: Duration,
    which: &CloneOf,
    options: &CloneOptions,
) -> Result<RecordedTrace, SessionError> {
    let file = options.into_file.as_deref().map(TraceFile::create).transpose()?;
    let descriptor = file.as_ref().map(TraceFile::descriptor).transpose()?;
    let request = request(which, options);
    let call = connection.0.call("the copy of the session", Deadline::after(timeout), |consumer| {
        consumer.begin_clone_session(&request, descriptor)
    });
    let Answer::Cloned(response) = call.await? else {
        return Err(unexpected("CloneSession"));
    };
    if !response.success() {
        return Err(SessionError::Clone(response.error().to_owned()));
    }
    // Only for sessions that write into a file the service does it.
    if let Some(file) = file.as_ref().filter(|_| !response.was_write_into_file()) {
        fill(file, &connection, timeout).await?;
    }
    let uuid = u128::from(response.uuid_msb().cast_unsigned()) << 64
        | u128::from(response.uuid_lsb().cast_unsigned());
    let storage = file.map_or(Storage::Memory, Storage::File);
    let about = About { place, timeout, unique_name: String::new(), storage };
    Ok(RecordedTrace::new(connection, about)?.with_uuid(uuid))
}

async fn fill(file: &TraceFile, connection: &Connection, timeout: Duration) -> Result<(), SessionError> {
    let mut out = file.writer();
    read(&connection.0, timeout, |packets| write_all(&mut out, packets)).await?;
    out.flush().map_err(SessionError::Sink)
}

fn request(which: &CloneOf, options: &CloneOptions) -> CloneSessionRequest {
    let selector = match which {
        CloneOf::Id(id) => Selector::SessionId(*id),
        CloneOf::Name(name) => Selector::UniqueSessionName(name.clone()),
        CloneOf::Bugreport => Selector::SessionId(BUGREPORT_SESSION),
    };
    CloneSessionRequest {
        selector: Some(selector),
        skip_trace_filter: Some(options.skip_trace_filter),
        for_bugreport: Some(options.for_bugreport),
        ..Default::default()
    }
}
