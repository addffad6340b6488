//! What a session asks for (`PerfEventConfig`; upstream: event_config.cc), as far as it is done here.

use std::ffi::CString;
use std::path::Path;

use ferretto_protos::perf_event_config::{CallstackSampling, UnwindMode};
use ferretto_protos::perf_events::{Counter, EventModifier, Timebase, Tracepoint, timebase};
use ferretto_protos::{BuiltinClock, PerfEventConfig};
use ferretto_sys::{KernelClock, perf_flags};

use crate::counters::{HARDWARE, KnownCounter, SOFTWARE};

/// Sampling more often would be most of what is sampled (the kernel's own limit, `perf_event_max_sample_rate`, is 100,000).
pub const MAX_FREQUENCY_HZ: u64 = 50_000;
/// Upstream's (event_config.cc, kDefaultSamplingFrequencyHz).
const DEFAULT_FREQUENCY_HZ: u64 = 10;

/// A session's rings may take 64 MiB for each processor.
const MAX_RING_PAGES: u32 = 16 << 10;
const RING_PAGE_BYTES: usize = 4096;

/// PERF_TYPE_TRACEPOINT.
const TRACEPOINT: u32 = 2;

/// The name of a timebase that is waits: at each switch to another thread the stack of the one that waits from then on, and for each moment of the wait a
/// sample, `sampling_frequency` a second. Upstream's profiler, which does not know it, has one sample for each switch.
pub const OFF_CPU: &str = "off-cpu";

/// Where tracefs is mounted.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// When a sample is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interval {
    /// So many times a second.
    FrequencyHz(u64),
    /// At each so many events.
    Period(u64),
}

/// What is to be sampled, and what of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanted {
    /// As the trace is to say it.
    pub(crate) timebase: Timebase,
    /// The fields `type`, `config`, `config1` and `config2` of perf_event_open(2).
    pub(crate) kind: u32,
    pub(crate) configs: [u64; 3],
    /// The kernel's filter of a tracepoint.
    pub(crate) filter: Option<CString>,
    pub(crate) interval: Interval,
    /// EXCLUDE_* of [`perf_flags`].
    pub(crate) excludes: u64,
    pub(crate) kernel_frames: bool,
    pub(crate) user_frames: bool,
    /// Samples are of waits, so many for each second.
    pub(crate) waits_hz: Option<u64>,
    /// Only on these processors, if there are any.
    pub(crate) cpus: Vec<u32>,
    /// Who has not got it on one of them has it on the others.
    pub(crate) ignores_open_failure: bool,
    /// Of a processor's ring.
    pub(crate) ring_bytes: Option<usize>,
}

impl Wanted {
    /// What a config asks for, or why that is not to be had.
    pub(crate) fn of(config: &PerfEventConfig) -> Result<Self, String> {
        if !config.followers.is_empty() {
            return Err("followers are not read yet".to_owned());
        }
        if !config.cpuid.is_empty() || !config.target_installed_by.is_empty() {
            return Err(
                "processors by their cpuid and programs by who has installed them are not told apart here"
                    .to_owned(),
            );
        }
        if config.max_enqueued_footprint_kb() > 0 || config.max_daemon_memory_kb() > 0 {
            return Err("it keeps to no bounds on memory but its own".to_owned());
        }
        let mut timebase = config.timebase.clone().unwrap_or_default();
        let event = timebase.event.get_or_insert(timebase::Event::Counter(Counter::SwCpuClock as i32));
        let (kind, configs, filter) = event_of(event)?;
        let interval = interval(&timebase, config.sampling_frequency)?;
        timebase.interval = Some(match interval {
            Interval::FrequencyHz(hz) => timebase::Interval::Frequency(hz),
            Interval::Period(events) => timebase::Interval::Period(events),
        });
        let (kernel_frames, user_frames) = frames(config)?;
        let excludes = excludes(timebase.modifiers())?;
        let waits_hz = waits_hz(&timebase, config.sampling_frequency)?;
        Ok(Self {
            timebase,
            kind,
            configs,
            filter,
            interval,
            excludes,
            kernel_frames,
            user_frames,
            waits_hz,
            cpus: config.target_cpu.clone(),
            ignores_open_failure: config.ignore_open_failure(),
            ring_bytes: config.ring_buffer_pages.map(ring_bytes).transpose()?,
        })
    }

    /// Of the kernel's clocks the one that its times are by. Events that come at any moment, within the kernel's own work too, have no other than this
    /// one (kernel/events/core.c, perf_event_set_clock); of software's it may be that of the trace.
    pub(crate) fn clock(&self) -> (KernelClock, BuiltinClock) {
        match self.kind {
            SOFTWARE => (KernelClock::Boot, BuiltinClock::Boottime),
            _ => (KernelClock::MonotonicRaw, BuiltinClock::MonotonicRaw),
        }
    }

    /// It happens in the kernel: who may not see that sees nothing of it.
    pub(crate) fn is_of_the_kernel(&self) -> bool {
        let switches = [Counter::SwContextSwitches, Counter::SwCpuMigrations].map(|counter| counter as i32);
        match self.timebase.event {
            Some(timebase::Event::Counter(counter)) => switches.contains(&counter),
            Some(timebase::Event::Tracepoint(_)) => true,
            _ => false,
        }
    }

    /// How samples come about, in words: behind "so many samples".
    pub(crate) fn in_words(&self) -> String {
        if let Some(hz) = self.waits_hz {
            return format!("{hz} a second of a thread's waiting");
        }
        let name = match &self.timebase.event {
            Some(timebase::Event::Counter(counter)) => match known(*counter) {
                Some(known) if [Counter::SwCpuClock, Counter::SwTaskClock].contains(&known.counter) => None,
                Some(known) => Some(known.name.to_owned()),
                None => Some(counter.to_string()),
            },
            Some(timebase::Event::Tracepoint(tracepoint)) => Some(tracepoint.name().replace('/', ":")),
            Some(timebase::Event::RawEvent(_)) | None => Some("a raw event".to_owned()),
        };
        match (self.interval, name) {
            (Interval::FrequencyHz(hz), None) => format!("{hz} a second of a processor's time"),
            (Interval::FrequencyHz(hz), Some(name)) => format!("of {name}, {hz} a second"),
            (Interval::Period(1), Some(name)) => format!("one for each of {name}"),
            (Interval::Period(events), Some(name)) => format!("one for each {events} of {name}"),
            (Interval::Period(ns), None) => format!("one for each {ns} ns of a processor's time"),
        }
    }
}

/// As the kernel wants it.
fn ring_bytes(pages: u32) -> Result<usize, String> {
    match pages {
        0 | MAX_RING_PAGES.. => {
            Err(format!("a ring of {pages} pages is none that can be: 1 to {MAX_RING_PAGES}"))
        }
        pages if !pages.is_power_of_two() => {
            Err(format!("a ring has a power of two of pages, and not {pages}"))
        }
        pages => Ok(pages as usize * RING_PAGE_BYTES),
    }
}

fn known(counter: i32) -> Option<&'static KnownCounter> {
    KnownCounter::of(Counter::try_from(counter).ok()?)
}

/// The event's fields of perf_event_open(2), and the filter of a tracepoint.
fn event_of(event: &timebase::Event) -> Result<(u32, [u64; 3], Option<CString>), String> {
    match event {
        timebase::Event::Counter(counter) => {
            let known = known(*counter).ok_or_else(|| format!("there is no counter {counter}"))?;
            Ok((known.kind, [known.config, 0, 0], None))
        }
        timebase::Event::Tracepoint(tracepoint) => {
            let filter = tracepoint.filter.clone().filter(|filter| !filter.is_empty());
            let filter = filter.map(CString::new).transpose().map_err(|_| "a filter has a zero byte")?;
            Ok((TRACEPOINT, [tracepoint_id(tracepoint)?, 0, 0], filter))
        }
        timebase::Event::RawEvent(raw) => {
            let kind = match (&raw.pmu_name, raw.r#type) {
                (Some(_), Some(_)) => return Err("a raw event has a type or a pmu_name".to_owned()),
                (Some(name), None) => pmu(name)?,
                (None, kind) => kind.unwrap_or(HARDWARE),
            };
            Ok((kind, [raw.config(), raw.config1(), raw.config2()], None))
        }
    }
}

/// The kernel's number of `group/name` or `group:name`.
fn tracepoint_id(tracepoint: &Tracepoint) -> Result<u64, String> {
    let name = tracepoint.name();
    let is_plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let (group, event) = name
        .split_once([':', '/'])
        .filter(|(group, event)| !group.is_empty() && !event.is_empty() && is_plain(group) && is_plain(event))
        .ok_or_else(|| {
            format!("a tracepoint is called GROUP:NAME, such as sched:sched_switch, and not {name:?}")
        })?;
    let mut why = "tracefs is not mounted (mount -t tracefs nodev /sys/kernel/tracing, as root)".to_owned();
    for root in TRACEFS {
        let events = Path::new(root).join("events");
        match std::fs::read_to_string(events.join(group).join(event).join("id")) {
            Ok(id) => {
                return id.trim().parse().map_err(|_| format!("the kernel's number of {name} is {id:?}"));
            }
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                why = "only root may look into tracefs here".to_owned();
            }
            Err(_) if events.is_dir() => why = "this kernel has none of that name".to_owned(),
            Err(_) => {}
        }
    }
    Err(format!("there is no tracepoint {name}: {why}"))
}

/// The kernel's number of a unit that counts.
fn pmu(name: &str) -> Result<u32, String> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    let path = Path::new("/sys/bus/event_source/devices").join(name).join("type");
    let read = if is_plain { std::fs::read_to_string(path).ok() } else { None };
    read.and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| format!("there is no unit {name:?} that counts (/sys/bus/event_source/devices)"))
}

fn interval(timebase: &Timebase, legacy_frequency_hz: Option<u32>) -> Result<Interval, String> {
    match timebase.interval {
        None => frequency_hz(legacy_frequency_hz.map_or(DEFAULT_FREQUENCY_HZ, u64::from)),
        Some(timebase::Interval::Frequency(hz)) => frequency_hz(hz),
        Some(timebase::Interval::Period(events)) if events > 0 => Ok(Interval::Period(events)),
        Some(timebase::Interval::Period(_)) => Err("a period of 0 is none that can be".to_owned()),
        Some(_) => Err("counters are not polled yet: ask for a frequency or a period".to_owned()),
    }
}

fn frequency_hz(hz: u64) -> Result<Interval, String> {
    if !(1..=MAX_FREQUENCY_HZ).contains(&hz) {
        return Err(format!(
            "a frequency of {hz} is none that can be: 1 to {MAX_FREQUENCY_HZ} times a second"
        ));
    }
    Ok(Interval::FrequencyHz(hz))
}

fn waits_hz(timebase: &Timebase, legacy_frequency_hz: Option<u32>) -> Result<Option<u64>, String> {
    if timebase.name() != OFF_CPU {
        return Ok(None);
    }
    let event = Some(timebase::Event::Counter(Counter::SwContextSwitches as i32));
    if (&timebase.event, timebase.interval) != (&event, Some(timebase::Interval::Period(1))) {
        return Err(format!("a timebase called {OFF_CPU} is one of each of SW_CONTEXT_SWITCHES"));
    }
    let hz = legacy_frequency_hz.map_or(DEFAULT_FREQUENCY_HZ, u64::from);
    frequency_hz(hz).map(|_| Some(hz))
}

/// Whether the kernel's frames are wanted, and the program's. However they are asked for to be unwound: here it is one way, which uses frame pointers
/// where there is nothing better.
fn frames(config: &PerfEventConfig) -> Result<(bool, bool), String> {
    let Some(CallstackSampling { kernel_frames, user_frames, .. }) = &config.callstack_sampling else {
        // As configs were before: whoever asked for all processors wanted stacks.
        return Ok((config.all_cpus() && config.kernel_frames(), config.all_cpus()));
    };
    let mode = UnwindMode::try_from(user_frames.unwrap_or_default())
        .map_err(|_| format!("there is no way {} to unwind", user_frames.unwrap_or_default()))?;
    Ok((kernel_frames.unwrap_or_default(), mode != UnwindMode::UnwindSkip))
}

/// Whoever names some wants no others.
fn excludes(modifiers: impl Iterator<Item = EventModifier>) -> Result<u64, String> {
    let mut wanted = 0;
    for modifier in modifiers {
        wanted |= match modifier {
            EventModifier::CountUserspace => perf_flags::EXCLUDE_USER,
            EventModifier::CountKernel => perf_flags::EXCLUDE_KERNEL,
            EventModifier::CountHypervisor => perf_flags::EXCLUDE_HV,
            EventModifier::UnknownEventModifier => return Err("there is no modifier 0".to_owned()),
        };
    }
    let all = perf_flags::EXCLUDE_USER | perf_flags::EXCLUDE_KERNEL | perf_flags::EXCLUDE_HV;
    Ok(if wanted == 0 { perf_flags::EXCLUDE_HV } else { all & !wanted })
}

#[cfg(test)]
mod tests {
    use ferretto_protos::perf_event_config::Scope;
    use ferretto_protos::perf_events::RawEvent;

    use super::*;

    fn with(event: timebase::Event, interval: Option<timebase::Interval>) -> PerfEventConfig {
        let timebase = Timebase { event: Some(event), interval, ..Timebase::default() };
        PerfEventConfig { timebase: Some(timebase), ..PerfEventConfig::default() }
    }

    fn counter(counter: Counter) -> timebase::Event {
        timebase::Event::Counter(counter as i32)
    }

    #[test]
    fn an_empty_config_is_upstreams() {
        let wanted = Wanted::of(&PerfEventConfig::default()).unwrap();
        assert_eq!((wanted.kind, wanted.configs, wanted.interval), (1, [0; 3], Interval::FrequencyHz(10)));
        assert!(!wanted.kernel_frames && !wanted.user_frames, "counters only");
        assert_eq!(wanted.in_words(), "10 a second of a processor's time");
    }

    #[test]
    fn events_are_the_kernels() {
        let period = Some(timebase::Interval::Period(1));
        for (event, kind, configs, of_the_kernel, words) in [
            (counter(Counter::SwPageFaults), 1, [2, 0, 0], false, "one for each of page-faults"),
            (counter(Counter::SwContextSwitches), 1, [3, 0, 0], true, "one for each of context-switches"),
            (counter(Counter::HwCpuCycles), 0, [0; 3], false, "one for each of cpu-cycles"),
            (
                timebase::Event::RawEvent(RawEvent {
                    r#type: Some(4),
                    config: Some(7),
                    config1: Some(8),
                    ..RawEvent::default()
                }),
                4,
                [7, 8, 0],
                false,
                "one for each of a raw event",
            ),
        ] {
            let wanted = Wanted::of(&with(event, period)).unwrap();
            assert_eq!((wanted.kind, wanted.configs), (kind, configs), "{words}");
            assert_eq!((wanted.is_of_the_kernel(), wanted.in_words().as_str()), (of_the_kernel, words));
        }
    }

    #[test]
    fn what_cannot_be_is_said() {
        let tracepoint = |name: &str| {
            timebase::Event::Tracepoint(Tracepoint { name: Some(name.to_owned()), ..Tracepoint::default() })
        };
        let pmu = RawEvent { pmu_name: Some("../x".to_owned()), ..RawEvent::default() };
        let clock = || counter(Counter::SwCpuClock);
        for (config, part) in [
            (with(clock(), Some(timebase::Interval::Frequency(0))), "frequency of 0"),
            (with(clock(), Some(timebase::Interval::Frequency(50_001))), "frequency of 50001"),
            (with(clock(), Some(timebase::Interval::Period(0))), "period of 0"),
            (with(clock(), Some(timebase::Interval::PollPeriodMs(5))), "not polled"),
            (with(timebase::Event::Counter(99), None), "no counter 99"),
            (with(tracepoint("sched"), None), "GROUP:NAME"),
            (with(tracepoint("../a:b"), None), "GROUP:NAME"),
            (with(tracepoint("no_such_group:event"), None), "no tracepoint no_such_group:event: "),
            (with(timebase::Event::RawEvent(pmu), None), "no unit"),
            (PerfEventConfig { ring_buffer_pages: Some(3), ..PerfEventConfig::default() }, "power of two"),
            (PerfEventConfig { ring_buffer_pages: Some(0), ..PerfEventConfig::default() }, "0 pages"),
            (
                PerfEventConfig { max_daemon_memory_kb: Some(1), ..PerfEventConfig::default() },
                "bounds on memory",
            ),
            (PerfEventConfig { cpuid: vec!["0x1".to_owned()], ..PerfEventConfig::default() }, "cpuid"),
        ] {
            let error = Wanted::of(&config).unwrap_err();
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn waits_are_told_by_their_name() {
        let named = |event, period| {
            let interval = Some(timebase::Interval::Period(period));
            let timebase = Timebase {
                name: Some(OFF_CPU.to_owned()),
                event: Some(event),
                interval,
                ..Timebase::default()
            };
            PerfEventConfig {
                timebase: Some(timebase),
                sampling_frequency: Some(99),
                ..PerfEventConfig::default()
            }
        };
        let wanted = Wanted::of(&named(counter(Counter::SwContextSwitches), 1)).unwrap();
        assert_eq!(
            (wanted.waits_hz, wanted.in_words().as_str()),
            (Some(99), "99 a second of a thread's waiting")
        );
        for config in
            [named(counter(Counter::SwContextSwitches), 2), named(counter(Counter::SwPageFaults), 1)]
        {
            assert!(Wanted::of(&config).unwrap_err().contains("off-cpu"));
        }
    }

    #[test]
    fn frames_are_those_that_are_asked_for() {
        let sampling = |kernel_frames, mode: UnwindMode| PerfEventConfig {
            callstack_sampling: Some(CallstackSampling {
                kernel_frames: Some(kernel_frames),
                user_frames: Some(mode as i32),
                scope: Some(Scope::default()),
            }),
            ..PerfEventConfig::default()
        };
        let legacy = PerfEventConfig { all_cpus: Some(true), ..PerfEventConfig::default() };
        for (config, expected) in [
            (sampling(true, UnwindMode::UnwindUnknown), (true, true)),
            (sampling(false, UnwindMode::UnwindFramePointer), (false, true)),
            (sampling(true, UnwindMode::UnwindSkip), (true, false)),
            (legacy, (false, true)),
        ] {
            let wanted = Wanted::of(&config).unwrap();
            assert_eq!((wanted.kernel_frames, wanted.user_frames), expected);
        }
    }

    #[test]
    fn who_names_modes_wants_no_others() {
        let excluded = |modifiers: &[EventModifier]| excludes(modifiers.iter().copied()).unwrap();
        assert_eq!(excluded(&[]), perf_flags::EXCLUDE_HV);
        assert_eq!(
            excluded(&[EventModifier::CountUserspace]),
            perf_flags::EXCLUDE_KERNEL | perf_flags::EXCLUDE_HV
        );
    }
}
