//! The CPU sampler beside a recording: its data source in the config, its producer on a thread of this process.

use std::sync::{Arc, Mutex};

use ferretto_profile::{DATA_SOURCE, ProfileOptions, Summary};
use ferretto_protos::perf_event_config::{CallstackSampling, UnwindMode};
use ferretto_protos::perf_events::{Counter, Timebase, timebase};
use ferretto_protos::trace_config::DataSource;
use ferretto_protos::{DataSourceConfig, PerfEventConfig};

use super::default_config::EVENTS_BUFFER;

/// Of the default config what is about the machine, and not about the command: for those who ask for it.
const OF_THE_MACHINE: [&str; 2] = ["linux.ftrace", "linux.sys_stats"];

/// What is to be sampled: the command of the recording.
#[derive(Debug)]
pub(crate) struct Sampling {
    /// Times a second of a processor's time.
    pub(crate) frequency_hz: u64,
    /// All that `record` records is recorded, too.
    pub(crate) with_machine: bool,
    /// Where the time went.
    pub(crate) summary: Arc<Mutex<Summary>>,
}

impl Sampling {
    /// Whether a source of the default config is wanted beside.
    pub(crate) fn wants(&self, source: &str) -> bool {
        self.with_machine || !OF_THE_MACHINE.contains(&source)
    }

    pub(crate) fn data_source(&self) -> DataSource {
        let timebase = Timebase {
            interval: Some(timebase::Interval::Frequency(self.frequency_hz)),
            event: Some(timebase::Event::Counter(Counter::SwCpuClock as i32)),
            ..Timebase::default()
        };
        let stacks = CallstackSampling {
            kernel_frames: Some(true),
            user_frames: Some(UnwindMode::UnwindDwarf as i32),
            ..CallstackSampling::default()
        };
        let perf = PerfEventConfig {
            timebase: Some(timebase),
            callstack_sampling: Some(stacks),
            ..PerfEventConfig::default()
        };
        let config = DataSourceConfig {
            name: Some(DATA_SOURCE.to_owned()),
            target_buffer: Some(EVENTS_BUFFER),
            perf_event_config: Some(perf),
            ..DataSourceConfig::default()
        };
        DataSource { config: Some(config), ..DataSource::default() }
    }

    /// How its producer runs: children of the thread that calls this are sampled.
    pub(crate) fn options(&self, at: super::service::Place) -> ProfileOptions {
        ProfileOptions {
            connector: at.connector,
            parent_thread: rustix::thread::gettid().as_raw_nonzero().get(),
            stop: at.stopped,
            notify: at.notify,
            summary: self.summary.clone(),
        }
    }
}
