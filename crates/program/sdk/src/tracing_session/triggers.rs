//! Triggers of one who is no producer otherwise.

use std::time::{Duration, Instant};

use ferretto_producer::{Connector, ProducerClient, ProducerOptions};

use super::error::SessionError;
use super::place::Place;

/// What configs see as the producer's name.
const PRODUCER_NAME: &str = "ferretto-session";

/// Connects as a producer, activates the triggers, and waits until the service has heard of them.
pub(crate) fn activate(place: &Place, names: &[&str], timeout: Duration) -> Result<(), SessionError> {
    let late = || SessionError::TimedOut { what: "the trigger", after: timeout };
    let stream = place.connect_producer()?.ok_or(SessionError::NoProducerSocket)?;
    let options =
        ProducerOptions { connector: Connector::Stream(stream), ..ProducerOptions::new(PRODUCER_NAME) };
    let mut client = ProducerClient::new(options)?;
    let until = Instant::now() + timeout;
    while !client.is_connected() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late());
        }
        client.wait(Some(left), &[])?;
    }
    client.activate_triggers(names);
    let left = until.saturating_duration_since(Instant::now());
    if client.drain(left) { Ok(()) } else { Err(late()) }
}
