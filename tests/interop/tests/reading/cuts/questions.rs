//! What is asked of a trace and of a cut, and which of the answers are about a range.

use std::collections::BTreeMap;

use ferretto_interop::Table as Answer;

/// Columns that are numbers of this trace's rows come first, what is compared after them.
pub(super) const QUERIES: [&str; 13] = [
    SLICES, COUNTERS, SCHED, STATES, FLOWS, SAMPLES, EVENTS, SNAPSHOTS, CALLSITES, ARGS, THREADS, PROCESSES,
    LOSSES,
];

const SLICES: &str = "select s.id, s.arg_set_id, s.ts, s.dur, s.name, s.category, s.depth, t.name, t.type, th.tid, th.name, p.pid, \
     p.name, p2.pid, p2.name, t.machine_id, s.thread_ts, s.thread_dur, \
     (select ts || '/' || ifnull(name, '') from slice x where x.id = s.parent_id) \
     from slice s join track t on s.track_id = t.id left join thread_track tt on tt.id = t.id \
     left join thread th on th.utid = tt.utid left join process p on p.upid = th.upid \
     left join process_track pt on pt.id = t.id left join process p2 on p2.upid = pt.upid";
const COUNTERS: &str = "select t.dimension_arg_set_id, c.arg_set_id, c.ts, c.value, t.name, t.type, t.machine_id \
     from counter c join track t on t.id = c.track_id order by c.ts, c.id";
const SCHED: &str = "select s.ts, s.dur, th.tid, th.name, p.pid, s.end_state, s.priority, c.cpu, th.machine_id \
     from sched s left join cpu c on c.id = s.ucpu join thread th using (utid) left join process p using (upid)";
/// The state that the waker was in is told by whose it is and since when.
const STATES: &str = "select s.ts, s.dur, th.tid, th.name, s.state, s.io_wait, s.blocked_function, w.tid, s.irq_context, c.cpu, \
     th.machine_id, wth.tid, ws.ts from thread_state s join thread th using (utid) \
     left join thread w on w.utid = s.waker_utid left join cpu c on c.id = s.ucpu \
     left join thread_state ws on ws.id = s.waker_id left join thread wth on wth.utid = ws.utid";
const FLOWS: &str = "select slice_out, slice_in from flow";
/// Of processors, of programs' own, and of heaps: a heap's dumps count by their differences, so that all of them are in a cut.
const SAMPLES: &str = "select s.callsite_id, s.ts, 'perf', th.tid, s.cpu, s.cpu_mode, s.unwind_error \
     from perf_sample s left join thread th using (utid) \
     union all select s.callsite_id, s.ts, 'chrome', th.tid, s.process_priority, '', '' \
     from cpu_profile_stack_sample s left join thread th using (utid) \
     union all select a.callsite_id, a.ts, a.heap_name, p.pid, a.count, a.size, '' \
     from heap_profile_allocation a join process p using (upid)";
const EVENTS: &str = "select e.arg_set_id, e.ts, e.name, th.tid, c.cpu \
     from ftrace_event e join thread th using (utid) left join cpu c on c.id = e.ucpu";
/// Of programs' memory, and of the mappings of processes.
const SNAPSHOTS: &str = "select n.arg_set_id, s.timestamp, 'node', s.detail_level, p.pid, n.path, up.path, n.size, n.effective_size \
     from memory_snapshot_node n left join memory_snapshot_node up on up.id = n.parent_node_id \
     join process_memory_snapshot ps on ps.id = n.process_snapshot_id join memory_snapshot s on s.id = ps.snapshot_id \
     join process p using (upid) \
     union all select null, s.timestamp, 'edge', p.pid, n.path, tp.pid, t.path, e.importance, '' \
     from memory_snapshot_edge e join memory_snapshot_node n on n.id = e.source_node_id \
     join process_memory_snapshot ps on ps.id = n.process_snapshot_id join memory_snapshot s on s.id = ps.snapshot_id \
     join process p using (upid) join memory_snapshot_node t on t.id = e.target_node_id \
     join process_memory_snapshot tps on tps.id = t.process_snapshot_id join process tp on tp.upid = tps.upid \
     union all select null, m.ts, 'mapping', p.pid, m.path, m.size_kb, m.private_dirty_kb, m.swap_kb, '' \
     from profiler_smaps m join process p using (upid)";
const CALLSITES: &str = "select c.id, c.parent_id, f.name, f.rel_pc, m.name from stack_profile_callsite c \
     join stack_profile_frame f on f.id = c.frame_id join stack_profile_mapping m on m.id = f.mapping";
const ARGS: &str =
    "select arg_set_id, key, int_value, string_value, real_value, value_type from args order by id";
const THREADS: &str = "select utid, tid from thread";
const PROCESSES: &str = "select upid, pid from process";
/// What v52 does not know has its own number in each.
const LOSSES: &str = "select name, idx, value from stats where value != 0 and severity in ('error', 'data_loss') \
     and name != 'unknown_extension_fields'";

/// How often each row is there.
pub(super) type Rows = BTreeMap<String, usize>;

/// The answers to all questions about a trace.
pub(super) struct Answers {
    slices: Vec<Vec<String>>,
    counters: Vec<Vec<String>>,
    sched: Vec<Vec<String>>,
    states: Vec<Vec<String>>,
    flows: Vec<Vec<String>>,
    samples: Vec<Vec<String>>,
    events: Vec<Vec<String>>,
    snapshots: Vec<Vec<String>>,
    callsites: BTreeMap<String, Vec<String>>,
    sets: BTreeMap<String, String>,
    losses: Vec<Vec<String>>,
}

impl Answers {
    pub(super) fn of(answers: Vec<Answer>) -> Self {
        let mut answers = answers.into_iter().map(|answer| answer.rows);
        let mut next = || answers.next().expect("an answer to each query");
        let [
            slices,
            counters,
            sched,
            states,
            flows,
            samples,
            events,
            snapshots,
            callsites,
            args,
            threads,
            processes,
            losses,
        ] = std::array::from_fn::<_, 13, _>(|_| next());
        let by_first = |rows: Vec<Vec<String>>| rows.into_iter().map(|row| (row[0].clone(), row)).collect();
        Self {
            sets: sets(&args, &by_first(threads), &by_first(processes)),
            callsites: by_first(callsites),
            slices,
            counters,
            sched,
            states,
            flows,
            samples,
            events,
            snapshots,
            losses,
        }
    }

    /// The answers about a range, by question.
    pub(super) fn within(&self, from: i64, to: i64) -> Vec<(&'static str, Rows)> {
        let is_in = |ts: &str| (from..to).contains(&time(ts));
        let reaches_in = |row: &[String]| reaches_into(time(&row[0]), time(&row[1]), from, to);
        let slices: Vec<_> = self.slices.iter().filter(|row| reaches_in(&row[2..])).collect();
        let text = |row: &[String]| row.join(" ");
        let of_heaps = |row: &Vec<String>| row[2] != "perf" && row[2] != "chrome";
        vec![
            ("slices", count(slices.iter().map(|row| text(&row[2..])))),
            ("args", count(slices.iter().map(|row| format!("{} {} {}", row[2], row[4], self.set(&row[1]))))),
            ("counters", self.counters_within(from, to)),
            ("sched", count(self.sched.iter().filter(|row| reaches_in(row)).map(|row| text(row)))),
            ("states", count(self.states.iter().filter(|row| reaches_in(row)).map(|row| text(row)))),
            ("flows", self.flows_of(&slices)),
            (
                "samples",
                count(
                    self.samples
                        .iter()
                        .filter(|row| is_in(&row[1]) || of_heaps(row))
                        .map(|row| format!("{} {}", text(&row[1..]), self.stack(&row[0]))),
                ),
            ),
            (
                "events",
                count(
                    self.events
                        .iter()
                        .filter(|row| is_in(&row[1]))
                        .map(|row| format!("{} {}", text(&row[1..]), self.set(&row[0]))),
                ),
            ),
            (
                "snapshots",
                count(
                    self.snapshots
                        .iter()
                        .filter(|row| is_in(&row[1]))
                        .map(|row| format!("{} {}", text(&row[1..]), self.set(&row[0]))),
                ),
            ),
            ("losses", count(self.losses.iter().map(|row| text(row)))),
        ]
    }

    /// Values in the range, and of each counter its last one before; but for the memory of processes, of which v52 leaves out what the kernel
    /// says by a number whose thread it does not know yet: it knows others in a cut.
    fn counters_within(&self, from: i64, to: i64) -> Rows {
        let mut last = BTreeMap::new();
        let mut rows = Vec::new();
        for row in &self.counters {
            let ts = time(&row[2]);
            let of = format!("{} {}", row[4..].join(" "), self.set(&row[0]));
            if ts < from {
                if !row[4].starts_with("mem.") {
                    last.insert(of, &row[3]);
                }
            } else if ts < to {
                rows.push(format!("{of} {ts} {} {}", row[3], self.set(&row[1])));
            }
        }
        rows.extend(last.into_iter().map(|(of, value)| format!("{of} before: {value}")));
        count(rows.into_iter())
    }

    /// Flows that begin or end at one of these slices.
    fn flows_of(&self, slices: &[&Vec<String>]) -> Rows {
        let inside: BTreeMap<&str, ()> = slices.iter().map(|row| (row[0].as_str(), ())).collect();
        let all: BTreeMap<&str, String> =
            self.slices.iter().map(|row| (row[0].as_str(), row[2..5].join(" "))).collect();
        let flows =
            self.flows.iter().filter(|row| row.iter().any(|slice| inside.contains_key(slice.as_str())));
        count(flows.map(|row| format!("{} -> {}", all[row[0].as_str()], all[row[1].as_str()])))
    }

    fn set(&self, set: &str) -> &str {
        self.sets.get(set).map_or("", String::as_str)
    }

    /// Its frames, the innermost first.
    fn stack(&self, callsite: &str) -> String {
        let mut stack = String::new();
        let mut next = self.callsites.get(callsite);
        while let Some(row) = next {
            stack.push_str(&format!("{}; ", row[2..].join(" ")));
            next = self.callsites.get(&row[1]);
        }
        stack
    }
}

fn time(cell: &str) -> i64 {
    cell.parse().unwrap_or_else(|error| panic!("{cell}: {error}"))
}

/// What has no end reaches into everything after it.
fn reaches_into(ts: i64, dur: i64, from: i64, to: i64) -> bool {
    let end = if dur == -1 { i64::MAX } else { ts + dur };
    ts < to && (end > from || ts >= from)
}

fn count(rows: impl Iterator<Item = String>) -> Rows {
    let mut counts = Rows::new();
    for row in rows {
        *counts.entry(row).or_default() += 1;
    }
    counts
}

/// Each set of arguments as a text. Rows of threads and processes become their own numbers.
fn sets(
    args: &[Vec<String>],
    threads: &BTreeMap<String, Vec<String>>,
    processes: &BTreeMap<String, Vec<String>>,
) -> BTreeMap<String, String> {
    let mut sets = BTreeMap::<_, String>::new();
    for row in args {
        let key = row[1].as_str();
        let of = match key.rsplit('.').next() {
            Some("utid" | "passthrough_utid") => threads.get(&row[2]),
            Some("upid") => processes.get(&row[2]),
            _ => None,
        };
        let int = of.map_or(&row[2], |row| &row[1]);
        let set = sets.entry(row[0].clone()).or_default();
        set.push_str(&format!("{key}={int}|{}|{}|{}; ", row[3], row[4], row[5]));
    }
    sets
}

#[test]
fn what_touches_a_range_reaches_into_it_or_not() {
    for (ts, dur, is_in) in [
        (0, 5, false),
        (0, 6, true),
        (0, -1, true),
        (5, 0, true),
        (9, 0, true),
        (10, 0, false),
        (3, 0, false),
    ] {
        assert_eq!(reaches_into(ts, dur, 5, 10), is_in, "{ts} {dur}");
    }
}
