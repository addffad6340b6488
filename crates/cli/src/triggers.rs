//! Activating triggers: the only thing that a producer does without any data source (upstream: trigger_producer.cc).

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ferretto_ipc::address::default_producer;
use ferretto_ipc::client::Event;
use ferretto_ipc::link::ClientLink;
use ferretto_ipc::socket::Stream;
use ferretto_protos::{ActivateTriggersRequest, InitializeConnectionRequest};
use rustix::event::{PollFd, PollFlags, Timespec};

/// How long the service may take for the whole conversation (upstream: perfetto_cmd.cc).
const TIMEOUT: Duration = Duration::from_secs(10);

/// Connects as the producer `name` and activates the triggers.
pub(crate) fn activate(name: &str, triggers: Vec<String>) -> Result<()> {
    let addresses = default_producer()?;
    let address = addresses.first().context("no producer socket is configured")?;
    let stream = Stream::connect_within(address, TIMEOUT)
        .with_context(|| format!("cannot connect to the tracing service at {address}"))?;
    let mut link = ClientLink::new(stream, "ProducerPort");
    let deadline = Instant::now() + TIMEOUT;
    wait_for(&mut link, deadline, |event| matches!(event, Event::Bound))?;

    let hello = InitializeConnectionRequest { producer_name: Some(name.to_owned()), ..Default::default() };
    link.connection().invoke("InitializeConnection", &hello, None, true)?;
    wait_for(&mut link, deadline, |event| matches!(event, Event::Reply { .. }))?;

    let request = ActivateTriggersRequest { trigger_names: triggers };
    link.connection().invoke("ActivateTriggers", &request, None, true)?;
    wait_for(&mut link, deadline, |event| matches!(event, Event::Reply { .. }))
}

fn wait_for(link: &mut ClientLink, deadline: Instant, wanted: impl Fn(&Event) -> bool) -> Result<()> {
    loop {
        link.flush()?;
        let mut more = true;
        while more {
            more = link.receive()?;
            while let Some(event) = link.connection().poll_event() {
                match event {
                    Event::BindFailed | Event::Reply { body: None, .. } => {
                        bail!("the tracing service refused")
                    }
                    event if wanted(&event) => return Ok(()),
                    _ => {}
                }
            }
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            bail!("the tracing service did not answer within {} s", TIMEOUT.as_secs());
        }
        sleep_until_ready(link, left);
    }
}

/// A failure shows in the next receive.
fn sleep_until_ready(link: &ClientLink, timeout: Duration) {
    let flags = if link.wants_write() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let fd = link.fd();
    let timeout = Timespec::try_from(timeout).ok();
    let _ = rustix::event::poll(&mut [PollFd::new(&fd, flags)], timeout.as_ref());
}
