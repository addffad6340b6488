//! What `--event` names: the kernel's and the processor's counters, and tracepoints.

use ferretto_profile::{COUNTERS, KnownCounter, OFF_CPU};
use ferretto_protos::perf_events::{Counter, Timebase, Tracepoint, timebase};

/// What samples are made at unless something else is said: a moment of a processor's time.
pub(crate) const DEFAULT: &str = "cpu-clock";

/// An event, by its name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event(timebase::Event);

/// The event of a name, or which there are.
pub(crate) fn parse(name: &str) -> Result<Event, String> {
    if name.contains(':') {
        let tracepoint = Tracepoint { name: Some(name.to_owned()), ..Tracepoint::default() };
        return Ok(Event(timebase::Event::Tracepoint(tracepoint)));
    }
    let known = KnownCounter::named(name).ok_or_else(|| {
        let names: Vec<&str> = COUNTERS.iter().flat_map(KnownCounter::names).collect();
        format!("there are {}; and tracepoints, such as sched:sched_switch", names.join(", "))
    })?;
    Ok(Event(timebase::Event::Counter(known.counter as i32)))
}

/// Where threads wait.
pub(crate) fn off_cpu() -> Timebase {
    Timebase {
        interval: Some(timebase::Interval::Period(1)),
        event: Some(timebase::Event::Counter(Counter::SwContextSwitches as i32)),
        name: Some(OFF_CPU.to_owned()),
        ..Timebase::default()
    }
}

impl Event {
    /// When it makes a sample: at each so many, if that is said; so many times a second, if it goes on by itself; else each time.
    pub(crate) fn timebase(self, every: Option<u64>, frequency_hz: u64, filter: Option<String>) -> Timebase {
        let interval = match (every, self.is_clock()) {
            (Some(every), _) => timebase::Interval::Period(every),
            (None, true) => timebase::Interval::Frequency(frequency_hz),
            (None, false) => timebase::Interval::Period(1),
        };
        let event = match self.0 {
            timebase::Event::Tracepoint(tracepoint) => {
                timebase::Event::Tracepoint(Tracepoint { filter, ..tracepoint })
            }
            event => event,
        };
        Timebase { interval: Some(interval), event: Some(event), ..Timebase::default() }
    }

    pub(crate) fn is_tracepoint(&self) -> bool {
        matches!(self.0, timebase::Event::Tracepoint(_))
    }

    fn is_clock(&self) -> bool {
        let timebase::Event::Counter(counter) = self.0 else { return false };
        Counter::try_from(counter).ok().and_then(KnownCounter::of).is_some_and(|known| known.is_clock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_by_itself_is_sampled_by_time_and_all_else_each_time() {
        let interval = |name: &str, every| parse(name).unwrap().timebase(every, 99, None).interval.unwrap();
        assert_eq!(interval("cpu-clock", None), timebase::Interval::Frequency(99));
        assert_eq!(interval("cycles", Some(7)), timebase::Interval::Period(7));
        for name in ["faults", "sched:sched_switch", "cache-misses"] {
            assert_eq!(interval(name, None), timebase::Interval::Period(1), "{name}");
        }
    }

    #[test]
    fn names_that_are_none_are_told_which_there_are() {
        assert!(parse("fault").unwrap_err().contains("page-faults, faults,"));
        let filter = "next_pid == 1".to_owned();
        let timebase = parse("sched:sched_switch").unwrap().timebase(None, 1, Some(filter));
        let Some(timebase::Event::Tracepoint(tracepoint)) = timebase.event else { panic!("{timebase:?}") };
        assert_eq!((tracepoint.name(), tracepoint.filter()), ("sched:sched_switch", "next_pid == 1"));
    }
}
