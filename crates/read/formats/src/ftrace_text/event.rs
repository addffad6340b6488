//! What the arguments of a line say (upstream: systrace_line_parser.cc).
//!
//! Arguments are words, most of them `KEY=VALUE`; of two with one key the first counts. A thread's name with a blank in it is cut there.

use ferretto_trace_model::ftrace::text::{Task, TextEvent};

/// Which event a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Switch,
    Waking,
    BlockedReason,
    Marker,
    CpuFrequency,
    CpuIdle,
    CpuFrequencyLimits,
    ClockRate,
    ClockState,
    Temperature,
    Cooling,
    Rss,
    WorkBegins,
    WorkEnds,
    /// It only says who its thread is.
    Other,
}

impl Kind {
    /// By its name.
    pub(super) fn of(name: &[u8]) -> Self {
        match name {
            b"sched_switch" => Self::Switch,
            b"sched_waking" => Self::Waking,
            b"sched_blocked_reason" => Self::BlockedReason,
            b"tracing_mark_write" | b"0" | b"print" => Self::Marker,
            b"cpu_frequency" => Self::CpuFrequency,
            b"cpu_idle" => Self::CpuIdle,
            b"cpu_frequency_limits" => Self::CpuFrequencyLimits,
            b"clock_set_rate" => Self::ClockRate,
            b"clock_enable" | b"clock_disable" => Self::ClockState,
            b"thermal_temperature" => Self::Temperature,
            b"cdev_update" => Self::Cooling,
            b"rss_stat" => Self::Rss,
            b"workqueue_execute_start" => Self::WorkBegins,
            b"workqueue_execute_end" => Self::WorkEnds,
            _ => Self::Other,
        }
    }

    /// What its arguments say; nothing if something is missing.
    pub(super) fn read(self, text: &str) -> Option<TextEvent<'_>> {
        let args = Args(text);
        Some(match self {
            Self::Switch => TextEvent::Switch {
                prev: Task {
                    comm: args.text_or_empty("prev_comm"),
                    tid: args.u32("prev_pid")?,
                    prio: args.i32("prev_prio")?,
                },
                prev_state: args.text_or_empty("prev_state"),
                next: Task {
                    comm: args.text_or_empty("next_comm"),
                    tid: args.u32("next_pid")?,
                    prio: args.i32("next_prio")?,
                },
            },
            Self::Waking => {
                TextEvent::Waking(Task { comm: args.text_or_empty("comm"), tid: args.u32("pid")?, prio: 0 })
            }
            Self::BlockedReason => TextEvent::BlockedReason {
                tid: args.u32("pid")?,
                io_wait: args.i32("iowait")? != 0,
                function: args.text_or_empty("caller"),
            },
            Self::Marker => TextEvent::Marker(text),
            Self::CpuFrequency => {
                TextEvent::CpuFrequency { cpu: args.u32("cpu_id")?, khz: args.f64("state")? }
            }
            Self::CpuIdle => TextEvent::CpuIdle { cpu: args.u32("cpu_id")?, state: args.f64("state")? },
            Self::CpuFrequencyLimits => TextEvent::CpuFrequencyLimits {
                cpu: args.u32("cpu_id")?,
                max: args.f64(args.one_of("max", "max_freq")),
                min: args.f64(args.one_of("min", "min_freq")),
            },
            Self::ClockRate => TextEvent::ClockRate { clock: args.name(), rate: args.u32("state")? },
            Self::ClockState => TextEvent::ClockState { clock: args.name(), state: args.u32("state")? },
            Self::Temperature => {
                TextEvent::Temperature { zone: args.text_or_empty("thermal_zone"), value: args.i32("temp")? }
            }
            Self::Cooling => {
                TextEvent::Cooling { device: args.text_or_empty("type"), target: args.f64("target")? }
            }
            Self::Rss => TextEvent::Rss { member: args.u32("member")?, size: args.i64("size")? },
            Self::WorkBegins => {
                // `work struct 0x…: function NAME`, or as an argument, of which upstream makes no sense.
                let behind = text.split("function ").filter(|part| !part.is_empty()).nth(1);
                let function = behind.or_else(|| args.text("function"))?;
                TextEvent::WorkBegins { function }
            }
            Self::WorkEnds => TextEvent::WorkEnds,
            Self::Other => return None,
        })
    }
}

/// The arguments of a line.
#[derive(Clone, Copy, Debug)]
struct Args<'a>(&'a str);

impl<'a> Args<'a> {
    fn text(self, key: &str) -> Option<&'a str> {
        self.0.split(' ').filter(|word| word.contains('=')).find_map(|word| {
            let mut parts = word.split('=').filter(|part| !part.is_empty());
            (parts.next() == Some(key)).then(|| parts.next_back().unwrap_or_default())
        })
    }

    /// As upstream has it, what is not there is empty.
    fn text_or_empty(self, key: &str) -> &'a str {
        self.text(key).unwrap_or_default()
    }

    /// The first word that has no key, or what has this one.
    fn name(self) -> &'a str {
        let bare = |word: &&str| !word.is_empty() && !word.contains('=');
        self.0.split(' ').find(bare).or_else(|| self.text("name")).unwrap_or_default()
    }

    fn one_of<'b>(self, first: &'b str, second: &'b str) -> &'b str {
        if self.text(first).is_some() { first } else { second }
    }

    fn i64(self, key: &str) -> Option<i64> {
        self.text(key)?.parse().ok()
    }

    /// Numbers that are too large are cut, and those below zero wrap, as C's do.
    fn u32(self, key: &str) -> Option<u32> {
        self.i64(key).map(|number| number as u32)
    }

    fn i32(self, key: &str) -> Option<i32> {
        self.i64(key).map(|number| number as i32)
    }

    fn f64(self, key: &str) -> Option<f64> {
        self.text(key)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_keys_and_values() {
        let args = Args("mmcx  prev_comm=Web Content a=1 a=2 b==3 c=-1 d= ==> name=x f=0.5 g=1=2");
        let texts = ["prev_comm", "a", "b", "d", "e", "g", ">"].map(|key| args.text(key));
        assert_eq!(texts, [Some("Web"), Some("1"), Some("3"), Some(""), None, Some("2"), Some("")]);
        assert_eq!((args.name(), args.u32("c"), args.i32("c")), ("mmcx", Some(u32::MAX), Some(-1)));
        assert_eq!((args.f64("f"), args.i64("f"), Args("name=y").name()), (Some(0.5), None, "y"));
    }

    #[test]
    fn events_that_lack_something_are_none() {
        for (kind, text) in [
            (Kind::Switch, "prev_comm=a prev_pid=1 prev_prio=1 prev_state=S ==> next_comm=b next_pid=2"),
            (Kind::Waking, "comm=a"),
            (Kind::CpuIdle, "cpu_id=1"),
            (Kind::CpuFrequency, "state=1"),
            (Kind::WorkBegins, "work struct 0x1"),
            (Kind::Other, "a=1"),
        ] {
            assert_eq!(kind.read(text), None, "{kind:?}");
        }
    }

    #[test]
    fn a_function_that_works_is_behind_its_word() {
        for text in ["work struct 00000000: function pm_runtime_work", "work=1 function=pm_runtime_work"] {
            let event = Kind::WorkBegins.read(text);
            assert_eq!(event, Some(TextEvent::WorkBegins { function: "pm_runtime_work" }), "{text}");
        }
    }
}
