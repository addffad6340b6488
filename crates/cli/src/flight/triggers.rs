//! Snapshots by trigger: a thread of the recorder that listens for them and writes numbered files.
//!
//! It listens through a session of its own that records nothing. A session that waits for triggers may last a week at most, and the
//! recording is to last for as long as one likes; this one is simply begun again.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use ferretto_consumer::{Consumer, Event, Observe};
use ferretto_ipc::address::Address;
use ferretto_printable::{printable, printable_lines};
use ferretto_protos::observable_events::CloneTriggerHit;
use ferretto_protos::trace_config::trigger_config::{Trigger, TriggerMode};
use ferretto_protos::trace_config::{BufferConfig, TriggerConfig};
use ferretto_protos::{CloneSessionRequest, TraceConfig};
use prost::Message;

use super::{Flight, numbered, request, snapshot};
use crate::record::output::Output;
use crate::report::{self, UserError};

/// The most that the service allows: a week (upstream: tracing_service_impl.h).
const LISTEN_MS: u32 = 7 * 24 * 3600 * 1000;
/// Numbers tried for a file before giving up.
const MAX_NUMBER: u32 = 100_000;
/// Of these, those that were free and then could not be written. More than a neighbour is quick enough to take, and where none can be written
/// it is soon said.
const MAX_REFUSED: usize = 16;
/// Snapshots that may follow each other at once, and the time that earns one more. Programs call triggers as often as they like, and each
/// snapshot takes room for good.
const BURST: u32 = 10;
const EARNED_IN: Duration = Duration::from_secs(60);

/// Listens until the service goes away or the process ends.
pub(crate) struct Listener {
    /// Held while a snapshot is written.
    busy: Arc<Mutex<()>>,
}

impl Listener {
    /// Starts to listen, if the recorder has triggers. The recording has begun already.
    pub(crate) fn start(flight: &Flight) -> Result<Option<Self>> {
        if flight.triggers.is_empty() {
            return Ok(None);
        }
        let busy = Arc::new(Mutex::new(()));
        let mut ears = Ears {
            flight: flight.clone(),
            allowance: Allowance::new(Instant::now()),
            busy: Arc::clone(&busy),
            consumer: connect(flight)?,
        };
        ears.begin()?;
        let thread = std::thread::Builder::new().name("triggers".to_owned());
        thread.spawn(move || ears.listen()).context("cannot start a thread")?;
        Ok(Some(Self { busy }))
    }

    /// Waits for the snapshot that is being written. None is begun afterwards.
    pub(crate) fn finish(self) {
        std::mem::forget(self.busy.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// A connection to the recorder's service.
fn connect(flight: &Flight) -> Result<Consumer> {
    Ok(match &flight.socket {
        Some(path) => Consumer::connect(&Address::Path(path.clone()))?,
        None => Consumer::connect_default()?,
    })
}

struct Ears {
    flight: Flight,
    allowance: Allowance,
    busy: Arc<Mutex<()>>,
    consumer: Consumer,
}

impl Ears {
    fn begin(&mut self) -> Result<()> {
        self.consumer.observe(Observe::CLONE_TRIGGER_HIT)?;
        self.consumer.enable_tracing(config(&self.flight.triggers).encode_to_vec(), None)?;
        Ok(())
    }

    fn listen(mut self) {
        loop {
            match self.consumer.poll(None) {
                Some(Event::Observed(events)) => {
                    if let Some(hit) = events.clone_trigger_hit {
                        self.take(&hit);
                    }
                }
                Some(Event::TracingDisabled { error: None }) => {
                    if let Err(error) = self.consumer.free().map_err(Into::into).and_then(|()| self.begin()) {
                        return report::print(&error.context("triggers are not listened to any longer"));
                    }
                }
                Some(Event::TracingDisabled { error: Some(error) }) => {
                    let error = UserError::new(format!("triggers are not listened to: {error}"));
                    return report::print(&error.into());
                }
                Some(Event::Disconnected { .. }) => return,
                Some(_) | None => {}
            }
        }
    }

    fn take(&mut self, hit: &CloneTriggerHit) {
        let Some(left_out) = self.allowance.take(Instant::now()) else { return };
        if left_out > 0 {
            eprintln!("\rno snapshot for {left_out} triggers: they came too fast, one a minute is taken");
        }
        let _busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let name = printable(hit.trigger_name());
        match self.write(hit) {
            // On a line of its own, whatever the progress line shows.
            Ok(words) => eprint!("\r{name}: {}", printable_lines(&words)),
            Err(error) => report::print(&error.context(format!("no snapshot for {name}"))),
        }
    }

    fn write(&self, hit: &CloneTriggerHit) -> Result<String> {
        let request = CloneSessionRequest {
            clone_trigger_name: hit.trigger_name.clone(),
            clone_trigger_producer_name: hit.producer_name.clone(),
            clone_trigger_trusted_producer_uid: hit.producer_uid.map(u32::cast_signed),
            clone_trigger_boot_time_ns: hit.boot_time_ns,
            clone_trigger_delay_ms: hit.trigger_delay_ms,
            ..request(&self.flight.name)
        };
        let mut output = open_numbered(&self.flight.base())?;
        snapshot::take(&mut connect(&self.flight)?, &request, &mut output, self.flight.quiet)
    }
}

/// Opens the first number that nothing has, or one after it: what came there meanwhile is refused if it is a neighbour's.
fn open_numbered(base: &Path) -> Result<Output> {
    let is_free = |path: &PathBuf| {
        // A link that leads to nothing is something.
        fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    let paths = (1..MAX_NUMBER).map(|number| numbered(base, &number.to_string())).filter(is_free);
    let mut refused = None;
    for path in paths.take(MAX_REFUSED) {
        match Output::open(&path) {
            Ok(output) => return Ok(output),
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.unwrap_or_else(|| anyhow!("no number is left for {}", base.display())))
}

/// How many snapshots may be taken now.
#[derive(Debug)]
struct Allowance {
    snapshots: u32,
    since: Instant,
    left_out: u64,
}

impl Allowance {
    fn new(now: Instant) -> Self {
        Self { snapshots: BURST, since: now, left_out: 0 }
    }

    /// One snapshot, and how many were left out before it; or none.
    fn take(&mut self, now: Instant) -> Option<u64> {
        while self.snapshots < BURST && now.saturating_duration_since(self.since) >= EARNED_IN {
            self.snapshots += 1;
            self.since += EARNED_IN;
        }
        let Some(left) = self.snapshots.checked_sub(1) else {
            self.left_out += 1;
            return None;
        };
        if self.snapshots == BURST {
            self.since = now;
        }
        self.snapshots = left;
        Some(std::mem::take(&mut self.left_out))
    }
}

fn config(triggers: &[String]) -> TraceConfig {
    let trigger = |name: &String| Trigger { name: Some(name.clone()), ..Trigger::default() };
    TraceConfig {
        buffers: vec![BufferConfig { size_kb: Some(4), ..BufferConfig::default() }],
        trigger_config: Some(TriggerConfig {
            trigger_mode: Some(TriggerMode::CloneSnapshot as i32),
            trigger_timeout_ms: Some(LISTEN_MS),
            triggers: triggers.iter().map(trigger).collect(),
            ..TriggerConfig::default()
        }),
        ..TraceConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_triggers_does_not_fill_the_disk() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        let taken = (0..1000).filter(|_| allowance.take(start).is_some()).count();
        assert_eq!(taken, BURST as usize);
        let later = start + EARNED_IN + Duration::from_secs(1);
        assert_eq!(allowance.take(later), Some(990), "and says how many it left out");
        assert_eq!(allowance.take(later), None);
        let taken = (0..1000).filter(|_| allowance.take(start + 100 * EARNED_IN).is_some()).count();
        assert_eq!(taken, BURST as usize);
    }

    #[test]
    fn a_planted_name_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("t-1.pftrace"), "").unwrap();
        std::os::unix::fs::symlink("nothing", path("t-2.pftrace")).unwrap();
        let output = open_numbered(&path("t.pftrace")).unwrap();
        assert_eq!(output.target_path(), Some(path("t-3.pftrace").as_path()));
        assert!(open_numbered(&path("no/such/t.pftrace")).is_err());
    }
}
