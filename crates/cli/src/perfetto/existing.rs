//! Sessions that are there already: `--attach`, `--is_detached`, `--clone*`, `--save-for-bugreport`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use ferretto_consumer::{CallError, Consumer, Event};
use ferretto_protos::CloneSessionRequest;
use ferretto_protos::clone_session_request::Selector;

use super::EXIT_NO_SESSION;
use super::args::{Attach, CloneOf, CloneRequest};
use super::out_file::OutFile;
use super::watch::Watch;
use crate::wake::{self, Signals, Wake};

/// Selects the session with the highest bugreport_score (upstream: `kBugreportSessionId`).
const BUGREPORT_SESSION_ID: u64 = u64::MAX;
/// How long a session may take to end once it was told to: its own stop and flush time-outs, 5 s each, and some.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// A wait without limit still looks around from time to time.
const FOREVER: Duration = Duration::from_secs(3600);

/// `--is_detached=KEY`.
pub(crate) fn is_detached(key: &str) -> Result<ExitCode> {
    let mut consumer = Consumer::connect_default()?;
    match consumer.attach(key) {
        Ok(_) => {
            // Whoever wants the session must still find it.
            consumer.detach(key)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(CallError::Rejected { .. }) => Ok(ExitCode::from(EXIT_NO_SESSION)),
        Err(error) => Err(error.into()),
    }
}

/// `--attach=KEY [--stop]`: waits for the session's end, or brings it about.
pub(crate) fn attach(attach: &Attach) -> Result<ExitCode> {
    let mut signals = Signals::install()?;
    let mut consumer = Consumer::connect_default()?;
    match consumer.attach(&attach.key) {
        Ok(_) => {}
        Err(CallError::Rejected { .. }) => {
            eprintln!("perfetto: no session of yours is detached with the key {}", attach.key);
            return Ok(ExitCode::from(EXIT_NO_SESSION));
        }
        Err(error) => return Err(error.into()),
    }
    consumer.notify_when_disabled()?;
    if attach.stop {
        consumer.begin_disable()?;
    }
    let mut deadline = Instant::now() + if attach.stop { STOP_TIMEOUT } else { FOREVER };
    let mut stopping = attach.stop;
    loop {
        match wake::wait(&mut consumer, &mut signals, deadline) {
            Wake::Service(Event::TracingDisabled { error: None }) => break,
            Wake::Service(Event::TracingDisabled { error: Some(error) }) => {
                eprintln!("Service error: {error}");
                return Ok(ExitCode::SUCCESS);
            }
            Wake::Service(Event::Disconnected { reason }) => {
                anyhow::bail!("the tracing service went away: {reason}")
            }
            Wake::Stop => {
                signals.make_deadly();
                consumer.begin_disable()?;
                stopping = true;
                deadline = Instant::now() + STOP_TIMEOUT;
            }
            Wake::Timeout if stopping => {
                anyhow::bail!("the session did not stop within {} s", STOP_TIMEOUT.as_secs())
            }
            Wake::Timeout => deadline = Instant::now() + FOREVER,
            _ => {}
        }
    }
    consumer.free()?;
    Ok(ExitCode::SUCCESS)
}

/// `--clone*`: a copy of a running session into a file.
pub(crate) fn clone(request: &CloneRequest) -> Result<ExitCode> {
    let mut out = OutFile::open(&request.out.path, request.out.no_clobber)?;
    let result = clone_into(&wire_request(&request.of, request.for_bugreport), &mut out);
    out.remove_if_empty();
    if let Some(refusal) = result? {
        // Upstream exits with 0 after any error of the service, and scripts rely on it (perfetto_cmd.cc).
        eprintln!("Service error: {refusal}");
        return Ok(ExitCode::SUCCESS);
    }
    out.announce();
    Ok(ExitCode::SUCCESS)
}

fn wire_request(of: &CloneOf, for_bugreport: bool) -> CloneSessionRequest {
    let selector = match of {
        CloneOf::Session(id) => Selector::SessionId(*id),
        CloneOf::Name(name) => Selector::UniqueSessionName(name.clone()),
        CloneOf::Bugreport => Selector::SessionId(BUGREPORT_SESSION_ID),
    };
    let is_bugreport = for_bugreport || *of == CloneOf::Bugreport;
    CloneSessionRequest {
        selector: Some(selector),
        for_bugreport: is_bugreport.then_some(true),
        skip_trace_filter: is_bugreport.then_some(true),
        ..CloneSessionRequest::default()
    }
}

/// Clones and reads the clone. `Some` is why the service refused.
pub(crate) fn clone_into(request: &CloneSessionRequest, out: &mut OutFile) -> Result<Option<String>> {
    let mut consumer = Consumer::connect_default()?;
    let response = consumer.clone_session(request, Some(out.descriptor()?))?;
    if !response.success() {
        return Ok(Some(response.error().to_owned()));
    }
    // The service has appended to the descriptor itself what a write_into_file session had.
    let mut watch = Watch::of_clone();
    match response.was_write_into_file() {
        true => watch.file(out.to_read()),
        false => {
            let read = consumer.read_buffers(|packet| {
                watch.packet(packet);
                out.write_packet(packet)
            })?;
            watch.read_back(read);
        }
    }
    watch.say(&mut consumer);
    consumer.free()?;
    Ok(None)
}
