//! The data source `linux.perf`: what a session asks for is sampled.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use ferretto_producer::{Connector, ExhaustedPolicy, InstanceConfig, ProducerClient, ProducerError};
use ferretto_sys::{KernelClock, clock_ns};

use crate::config::Wanted;
use crate::events::{Events, Refused, Target};
use crate::producer::{Instance, Offer, Source, offer, target_buffer};
use crate::sampler::{Sampler, Whom};
use crate::scope::Scope;
use crate::strangers::FileBooks;
use crate::summary::Summary;

/// The data source.
pub const DATA_SOURCE: &str = "linux.perf";
/// Sessions that are sampled for at a time, each with rings of its own: a service has 15, and two more that are root's.
const MAX_SAMPLERS: usize = 17;

/// How to run.
#[derive(Debug)]
pub struct ProfileOptions {
    /// Where the tracing service is.
    pub connector: Connector,
    /// What is sampled: children are those that are started once the data source runs. Without it what the session's scope says, of the whole machine.
    pub target: Option<Target>,
    /// Becomes readable when it shall end.
    pub stop: OwnedFd,
    /// Gets the byte `1` and is closed once the data source is registered.
    pub notify: Option<OwnedFd>,
    /// Where the time went, by now, if somebody reads it.
    pub summary: Option<Arc<Mutex<Summary>>>,
}

struct Cpu {
    target: Option<Target>,
    summary: Option<Arc<Mutex<Summary>>>,
    /// Of all sessions.
    books: FileBooks,
}

/// Samples for a service's sessions, on this thread, until told to stop.
///
/// # Errors
///
/// If the connection cannot be prepared. What the kernel refuses is an error of the session that asks for it.
pub fn run(options: ProfileOptions) -> Result<(), ProducerError> {
    let ProfileOptions { connector, target, stop, notify, summary } = options;
    let books = match &target {
        Some(Target::ChildrenOf(_) | Target::Group(_) | Target::Processes(_)) => FileBooks::that_trust_all(),
        Some(Target::Machine) | None => FileBooks::default(),
    };
    offer(Cpu { target, summary, books }, Offer { connector, stop, notify })
}

impl Source for Cpu {
    type Instance = Sampler;
    const NAME: &'static str = DATA_SOURCE;
    /// As upstream's (perf_producer.cc).
    const PRODUCER_NAME: &'static str = "perfetto.traced_perf";

    fn start(
        &self,
        client: &ProducerClient,
        config: &InstanceConfig,
        running: usize,
    ) -> Result<Sampler, String> {
        if running >= MAX_SAMPLERS {
            return Err(format!("{MAX_SAMPLERS} sessions are sampled for already"));
        }
        let decoded = config.decode().map_err(|error| error.to_string())?;
        let config_of = decoded.perf_event_config.unwrap_or_default();
        let wanted = Wanted::of(&config_of)?;
        let scope = Scope::of(&config_of, clock_ns(KernelClock::Boot))?;
        let (events, target) = self.open(&wanted, &scope).map_err(|error| error.to_string())?;
        // Without a sample here and there the picture is the same; a profiler that waits is one that samples itself.
        let writer =
            client.create_writer(target_buffer(config), config.exhausted_policy(ExhaustedPolicy::Stall));
        let whose = (wanted, scope, Whom::of(&target));
        Sampler::new(events, whose, writer, (self.summary.clone(), &self.books))
            .map_err(|error| error.to_string())
    }
}

impl Cpu {
    /// Events of what is sampled. Who may not have those of the machine may have those of processes that a session names.
    fn open(&self, wanted: &Wanted, scope: &Scope) -> Result<(Events, Target), Refused> {
        let target = self.target.clone().unwrap_or(Target::Machine);
        let refused = match Events::open(&target, wanted) {
            Ok(events) => return Ok((events, target)),
            Err(refused) => refused,
        };
        match scope.only_pids().filter(|_| self.target.is_none() && refused.is_denied()) {
            Some(pids) => {
                let target = Target::Processes(pids);
                Ok((Events::open(&target, wanted)?, target))
            }
            None => Err(refused),
        }
    }
}

impl Instance for Sampler {
    fn turn(&mut self) {
        Self::turn(self);
    }

    fn flush(&mut self) {
        Self::flush(self);
    }

    fn clear(&mut self) {
        Self::clear(self);
    }

    fn finish(&mut self) {
        Self::flush(self);
    }
}
