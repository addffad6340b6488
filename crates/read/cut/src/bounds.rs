//! The first pass: when a trace begins and ends, and since when the kernel's data are complete.

use ferretto_protos::fields::{ftrace_event, trace_packet};

use crate::event::{self, TrackEvent};
use crate::ftrace::bundle::Parts;
use crate::kind::Kind;
use crate::walk::{Seen, Walk};

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

/// What is known of a trace's times.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    /// The first event and the last.
    span: Option<(i64, i64)>,
    /// The first profile of a heap, or by a program, and the last: all of a trace are kept, but a trace may have nothing else.
    dumps: Option<(i64, i64)>,
    /// CPUs of all machines.
    pub(crate) cpus: HashSet<(u32, u32), RandomState>,
    /// Scheduling counts since then: the last of the times at which CPUs' data begin (upstream: ftrace_parser.cc, the soft drop).
    pub(crate) sched_counts_from: Option<i64>,
    /// Whom the first switch of each CPU leaves that says it, and when: a machine, a thread and a time.
    pub(crate) first_leaves: Vec<(u32, i32, i64)>,
    waiting: HashMap<(u32, u32), Option<i32>, RandomState>,
}

/// CPUs whose first switches are looked for. Ours.
const MAX_CPUS: usize = 1 << 14;
/// `SchedSwitchFtraceEvent.prev_pid`.
const PREV_PID: u32 = 2;

impl Bounds {
    /// Takes the next packet of the file; returns its time, if it counts at a time.
    #[inline]
    pub(crate) fn take(
        &mut self,
        walk: &mut Walk,
        seen: &Seen<'_>,
        parts: Option<&Parts<'_>>,
    ) -> Option<i64> {
        match seen.kind {
            Kind::Whole if seen.head.data.is_some_and(|(number, _)| is_profile(number)) => {
                widen(&mut self.dumps, seen.ts);
                None
            }
            Kind::Whole | Kind::Descriptor | Kind::Progress | Kind::State => None,
            Kind::Ftrace => self.ftrace(walk, seen, parts?),
            Kind::TrackEvent => {
                let ends =
                    || seen.head.data.is_some_and(|(_, data)| TrackEvent::of(data).kind == event::SLICE_END);
                // An end alone is no event.
                if self.span.is_some() || !ends() {
                    self.widen(seen.ts);
                }
                seen.ts
            }
            _ => {
                self.widen(seen.ts);
                seen.ts
            }
        }
    }

    /// Takes a slice's begin or end.
    #[inline]
    pub(crate) fn take_usual(&mut self, ts: i64, is_begin: bool) {
        if is_begin || self.span.is_some() {
            self.widen(Some(ts));
        }
    }

    /// The first event and the last; if there is none, of a trace of heaps the first dump and the last.
    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        self.span.or(self.dumps)
    }

    #[inline]
    fn widen(&mut self, ts: Option<i64>) {
        widen(&mut self.span, ts);
    }

    fn ftrace(&mut self, walk: &mut Walk, seen: &Seen<'_>, parts: &Parts<'_>) -> Option<i64> {
        let bundle = &parts.bundle;
        let cpu = (seen.head.machine_id, bundle.cpu);
        if let Some(pair) = bundle.pair() {
            walk.add_pair(seen, pair);
        }
        if self.cpus.insert(cpu) {
            let raw = bundle.previous_end.map(|end| end as u64);
            let begin = raw.and_then(|raw| bundle.when(walk, seen, raw)).map(|when| when.ts);
            self.sched_counts_from = self.sched_counts_from.max(begin);
            if self.waiting.len() < MAX_CPUS {
                self.waiting.insert(cpu, None);
            }
        }
        // Of the compact form, the first switch of a CPU makes no row.
        let waits = self.waiting.get(&cpu).copied();
        let is_new = waits == Some(None);
        if let Some(last) = waits {
            self.first_leave(walk, seen, parts, last);
        }
        // A CPU's events are in order: the first and the last tell.
        let mut at = None;
        let counted = parts.switches.get(usize::from(is_new)..).unwrap_or_default();
        let ends = [
            counted.first().map(|switch| switch.raw_ts),
            counted.last().map(|switch| switch.raw_ts),
            parts.events.first().map(|event| event.raw_ts),
            parts.events.last().map(|event| event.raw_ts),
        ];
        for raw in ends.into_iter().flatten() {
            let ts = bundle.when(walk, seen, raw).map(|when| when.ts);
            at = at.or(ts);
            self.widen(ts);
        }
        at
    }

    /// `last` is the thread of a switch in the compact form, which the next one leaves.
    fn first_leave(&mut self, walk: &mut Walk, seen: &Seen<'_>, parts: &Parts<'_>, last: Option<i32>) {
        let cpu = (seen.head.machine_id, parts.bundle.cpu);
        let mut found = None;
        let mut last = last;
        for switch in parts.switches.iter().take(2) {
            match last {
                Some(tid) => {
                    found = Some((tid, switch.raw_ts));
                    break;
                }
                None => last = Some(switch.next_pid),
            }
        }
        self.waiting.insert(cpu, last);
        let switch = parts.events.iter().find(|event| event.kind == ftrace_event::SCHED_SWITCH);
        if let Some(switch) = switch.filter(|switch| found.is_none_or(|(_, raw)| switch.raw_ts < raw)) {
            found = Some((switch.number(PREV_PID).unwrap_or(0) as i32, switch.raw_ts));
        }
        if let Some((tid, raw)) = found {
            self.waiting.remove(&cpu);
            let when = parts.bundle.when(walk, seen, raw);
            self.first_leaves.extend(when.map(|when| (cpu.0, tid, when.ts)));
        }
    }

    /// Whether what is looked for with the one finds the same as with the other.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        self.sched_counts_from == other.sched_counts_from && self.first_leaves == other.first_leaves
    }
}

fn is_profile(number: u32) -> bool {
    matches!(number, trace_packet::PROFILE_PACKET | trace_packet::STREAMING_PROFILE_PACKET)
}

#[inline]
fn widen(span: &mut Option<(i64, i64)>, ts: Option<i64>) {
    let Some(ts) = ts else { return };
    let (first, last) = span.get_or_insert((ts, ts));
    (*first, *last) = (ts.min(*first), ts.max(*last));
}
