//! A profiler beside a recording: its data source in the config, its producer on a thread of this process.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use ferretto_profile::heap::{self, HeapOptions, Listener};
use ferretto_profile::{DATA_SOURCE, Group, ProfileOptions, Summary, Target};
use ferretto_protos::perf_event_config::{CallstackSampling, UnwindMode};
use ferretto_protos::perf_events::Timebase;
use ferretto_protos::trace_config::DataSource;
use ferretto_protos::{DataSourceConfig, HeapprofdConfig, PerfEventConfig, TraceConfig};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::default_config::EVENTS_BUFFER;
use super::service::Place;
use crate::report::UserError;

/// A heap's last dump is all of it: the symbols of large programs are read then, if they were not before.
const HEAP_STOP_TIMEOUT_MS: u32 = 12_000;
/// Of the default config what is about the machine, and not about the command: for those who ask for it.
const OF_THE_MACHINE: [&str; 2] = ["linux.ftrace", "linux.sys_stats"];

/// What is to be sampled.
#[derive(Debug)]
pub(crate) struct Sampling {
    pub(crate) what: What,
    /// When all of these have ended there is nothing left to sample, if there are any.
    pub(crate) until: Vec<Running>,
    /// All that `record` records is recorded, too.
    pub(crate) with_machine: bool,
}

/// Of what.
#[derive(Debug)]
pub(crate) enum What {
    /// Of the time.
    Time(Time),
    /// Of what is allocated.
    Heap(Heap),
}

/// Where the time goes.
#[derive(Debug)]
pub(crate) struct Time {
    pub(crate) target: Target,
    /// In which the command is started.
    pub(crate) group: Option<Group>,
    /// At what.
    pub(crate) timebase: Timebase,
    /// If that is waits: samples for each second of one.
    pub(crate) waits_hz: Option<u64>,
    /// Where it went.
    pub(crate) summary: Arc<Mutex<Summary>>,
}

/// Who allocates.
#[derive(Debug)]
pub(crate) struct Heap {
    /// Taken by the producer.
    pub(crate) listener: Mutex<Option<Listener>>,
    /// What the command's environment has besides: the library, and where it asks.
    pub(crate) env: Vec<(&'static str, String)>,
    pub(crate) config: HeapprofdConfig,
    /// Who has allocated, at the end.
    pub(crate) summary: Arc<Mutex<heap::Summary>>,
}

impl Sampling {
    /// Starts the command.
    pub(crate) fn start<T>(&self, start: impl FnOnce() -> Result<T>) -> Result<T> {
        match &self.what {
            What::Time(Time { group: Some(group), .. }) => {
                group.start(start).context("cannot start the command in a control group")?
            }
            What::Time(_) | What::Heap(_) => start(),
        }
    }

    /// Whether a source of the default config is wanted beside.
    pub(crate) fn wants(&self, source: &str) -> bool {
        self.with_machine || !OF_THE_MACHINE.contains(&source)
    }

    /// Whether what was sampled is over.
    pub(crate) fn is_over(&self) -> bool {
        !self.until.is_empty() && self.until.iter().all(Running::has_ended)
    }

    /// Adds the data source to a config.
    pub(crate) fn extend(&self, config: &mut TraceConfig) {
        let source = DataSourceConfig { target_buffer: Some(EVENTS_BUFFER), ..DataSourceConfig::default() };
        let source = match &self.what {
            What::Time(time) => DataSourceConfig {
                name: Some(DATA_SOURCE.to_owned()),
                perf_event_config: Some(time.config()),
                ..source
            },
            What::Heap(heap) => {
                config.data_source_stop_timeout_ms = Some(HEAP_STOP_TIMEOUT_MS);
                DataSourceConfig {
                    name: Some(heap::DATA_SOURCE.to_owned()),
                    heapprofd_config: Some(heap.config.clone()),
                    ..source
                }
            }
        };
        config.data_sources.push(DataSource { config: Some(source), ..DataSource::default() });
    }

    /// What the command's environment has besides.
    pub(crate) fn env(&self) -> &[(&'static str, String)] {
        match &self.what {
            What::Time(_) => &[],
            What::Heap(heap) => &heap.env,
        }
    }

    /// What its producer does, with the threads that it starts.
    pub(crate) fn producer(&self, at: Place) -> Box<dyn FnOnce() -> Result<(), String> + Send> {
        let Place { connector, stopped: stop, notify } = at;
        let notify = Some(notify);
        match &self.what {
            What::Time(time) => {
                let (target, summary) = (Some(time.target.clone()), Some(time.summary.clone()));
                let options = ProfileOptions { connector, target, stop, notify, summary };
                Box::new(|| ferretto_profile::run(options).map_err(|error| error.to_string()))
            }
            What::Heap(heap) => {
                let listener = heap.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
                let summary = heap.summary.clone();
                Box::new(move || {
                    let Some(listener) = listener else { return Ok(()) };
                    let waiting_ring_bytes = None;
                    heap::run(HeapOptions { connector, listener, waiting_ring_bytes, stop, notify, summary })
                        .map_err(|error| error.to_string())
                })
            }
        }
    }
}

impl Time {
    /// Lets all processes of a command have their events together, where this user may have them so. Of waits each thread has its own.
    pub(crate) fn gather(&mut self) {
        if !matches!(self.target, Target::ChildrenOf(_)) || self.waits_hz.is_some() {
            return;
        }
        let group = Group::make().ok();
        self.group = group.filter(|group| {
            let target = Target::Group(group.path().to_owned());
            ferretto_profile::can_sample(&target, &self.config()).is_ok()
        });
        if let Some(group) = &self.group {
            self.target = Target::Group(group.path().to_owned());
        }
    }

    pub(crate) fn config(&self) -> PerfEventConfig {
        let stacks = CallstackSampling {
            kernel_frames: Some(true),
            user_frames: Some(UnwindMode::UnwindDwarf as i32),
            ..CallstackSampling::default()
        };
        PerfEventConfig {
            timebase: Some(self.timebase.clone()),
            callstack_sampling: Some(stacks),
            sampling_frequency: self.waits_hz.and_then(|hz| u32::try_from(hz).ok()),
            ..PerfEventConfig::default()
        }
    }
}

/// A process that runs, until it does no more: another one of its number is not taken for it.
#[derive(Debug)]
pub(crate) struct Running(OwnedFd);

impl Running {
    /// The process of a number.
    pub(crate) fn find(pid: u32) -> Result<Self> {
        let none = || UserError::new(format!("there is no process {pid}"));
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(none)?;
        match pidfd_open(number, PidfdFlags::empty()) {
            Ok(fd) => Ok(Self(fd)),
            Err(rustix::io::Errno::INVAL) => {
                Err(none().help("a thread of one has that number: name its process").into())
            }
            Err(rustix::io::Errno::SRCH) => Err(none().into()),
            Err(error) => Err(UserError::new(format!("cannot wait for process {pid}: {error}")).into()),
        }
    }

    fn has_ended(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_waited_for_until_it_has_ended() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let running = Running::find(child.id()).unwrap();
        assert!(!running.has_ended());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(running.has_ended());
        for pid in [0, u32::MAX, child.id()] {
            assert!(Running::find(pid).unwrap_err().to_string().contains("there is no process"), "{pid}");
        }
    }
}
