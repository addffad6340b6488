//! What is known of a trace: the rows of all queries.

use std::collections::BTreeMap;

use ferretto_analysis::Trace;
use ferretto_convert::flame::FlameGraph;
use ferretto_convert::stacks::Of;

use crate::questions::{self as q, Row, ask};
use crate::{Error, Options};

/// Parts of the time in which a counter's course is known: as `counter_course.sql` has it.
pub(crate) const COURSE_BINS: usize = 120;
/// Parts of the time in which it is known who ran: a picture has not many more pixels to tell.
pub(crate) const CPU_BINS: usize = 240;
/// Processes that are told apart over time; further ones are one: as `cpu_course.sql` has it.
pub(crate) const CPU_PLACES: usize = 9;
/// Lengths of waits that are told apart, as `latency_bins.sql` has them.
pub(crate) const LATENCY_BINS: usize = 22;
/// Counters whose course is asked for.
const COURSES: usize = 24;

#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) overview: Overview,
    pub(crate) machine: Machine,
    pub(crate) processes: Vec<Process>,
    pub(crate) cpu_course: CpuCourse,
    pub(crate) threads: Vec<Thread>,
    pub(crate) waits: Vec<Waits>,
    pub(crate) wait_bins: [i64; LATENCY_BINS],
    pub(crate) worst_waits: Vec<Wait>,
    pub(crate) blocked: Vec<Blocked>,
    pub(crate) wakers: Vec<Waker>,
    pub(crate) slices: Vec<Slices>,
    pub(crate) longest_slices: Vec<Slice>,
    pub(crate) counters: Vec<Counter>,
    /// Of samples, of memory, of a profile: what there is; of slices if pictures are wanted.
    pub(crate) flames: Vec<FlameGraph>,
    pub(crate) stats: Vec<Stat>,
}

/// How much there is of everything. Times are in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Overview {
    /// From the first switch to the end.
    pub(crate) span: i64,
    pub(crate) begins: i64,
    pub(crate) ends: i64,
    pub(crate) cpus: i64,
    pub(crate) switches: i64,
    pub(crate) ran: i64,
    pub(crate) waited: i64,
    pub(crate) waits: i64,
    pub(crate) blocked: i64,
    pub(crate) slices: i64,
    pub(crate) slices_without_end: i64,
    pub(crate) counters: i64,
}

#[derive(Debug, Default)]
pub(crate) struct Machine {
    pub(crate) words: Vec<String>,
    /// The file was written while it was recorded, not at the end.
    pub(crate) writes_into_file: bool,
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) processes: i64,
    pub(crate) pid: Option<i64>,
    pub(crate) cpu: i64,
    pub(crate) runs: i64,
}

/// Who ran over time: nanoseconds, of the busiest processes and of all others.
#[derive(Debug, Default)]
pub(crate) struct CpuCourse {
    pub(crate) places: Vec<Vec<f64>>,
    pub(crate) bin_ns: f64,
}

#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) thread: String,
    pub(crate) process: String,
    pub(crate) threads: i64,
    pub(crate) tid: Option<i64>,
    pub(crate) cpu: i64,
    pub(crate) waiting: i64,
    pub(crate) blocked: i64,
    pub(crate) asleep: i64,
}

#[derive(Debug)]
pub(crate) struct Waits {
    pub(crate) thread: String,
    pub(crate) process: String,
    pub(crate) times: i64,
    pub(crate) total: i64,
    pub(crate) p50: i64,
    pub(crate) p90: i64,
    pub(crate) p99: i64,
    pub(crate) longest: i64,
}

#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) at: i64,
    pub(crate) dur: i64,
    pub(crate) thread: String,
    pub(crate) process: String,
    pub(crate) cpu: Option<i64>,
    pub(crate) woken_by: Option<String>,
    pub(crate) meanwhile: Option<String>,
    pub(crate) meanwhile_dur: Option<i64>,
}

#[derive(Debug)]
pub(crate) struct Blocked {
    pub(crate) state: String,
    pub(crate) io_wait: Option<i64>,
    pub(crate) function: Option<String>,
    pub(crate) times: i64,
    pub(crate) total: i64,
    pub(crate) longest: i64,
    pub(crate) threads: i64,
    pub(crate) most: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Waker {
    pub(crate) thread: String,
    pub(crate) process: String,
    pub(crate) state: String,
    pub(crate) io_wait: Option<i64>,
    pub(crate) waker: Option<String>,
    pub(crate) times: i64,
    pub(crate) total: i64,
    pub(crate) longest: i64,
}

#[derive(Debug)]
pub(crate) struct Slices {
    pub(crate) name: String,
    pub(crate) times: i64,
    pub(crate) total: i64,
    pub(crate) own: i64,
    pub(crate) p50: i64,
    pub(crate) p99: i64,
    pub(crate) longest: i64,
}

#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) name: String,
    pub(crate) at: i64,
    pub(crate) dur: i64,
    pub(crate) owner: Option<String>,
    pub(crate) process: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Counter {
    pub(crate) track: i64,
    pub(crate) name: String,
    pub(crate) unit: Option<String>,
    pub(crate) owner: Option<String>,
    pub(crate) times: i64,
    pub(crate) lowest: f64,
    pub(crate) mean: f64,
    pub(crate) highest: f64,
    pub(crate) latest: f64,
    /// In equal parts of the trace's time; empty if nobody has asked.
    pub(crate) course: Vec<f64>,
}

#[derive(Debug)]
pub(crate) struct Stat {
    pub(crate) name: String,
    pub(crate) index: Option<i64>,
    pub(crate) value: i64,
    pub(crate) description: String,
}

impl Facts {
    pub(crate) fn of(trace: &Trace, options: &Options) -> Result<Self, Error> {
        ask(trace, q::PREPARE, |_| ())?;
        let overview = ask(trace, q::OVERVIEW, overview)?.pop().unwrap_or_default();
        let mut facts = Self { overview, ..Self::default() };
        facts.machine = ask(trace, q::MACHINE, machine)?.pop().unwrap_or_default();
        facts.stats = ask(trace, q::LOSSES, stat)?;
        if facts.overview.switches > 0 {
            facts.ask_of_scheduling(trace, options)?;
        }
        if facts.overview.slices > 0 {
            facts.slices = ask(trace, q::SLICES, slices)?;
            facts.longest_slices = ask(trace, q::LONGEST_SLICES, slice)?;
        }
        if facts.overview.counters > 0 {
            facts.counters = ask(trace, q::COUNTERS, counter)?;
            facts.ask_for_courses(trace)?;
        }
        let of_slices = options.has_pictures.then_some(Of::Slices);
        facts.flames = [Of::Samples, Of::Heap, Of::Profile]
            .into_iter()
            .chain(of_slices)
            .filter_map(|of| FlameGraph::of(trace.tables(), Some(of)).ok())
            .collect();
        Ok(facts)
    }

    fn ask_of_scheduling(&mut self, trace: &Trace, options: &Options) -> Result<(), Error> {
        self.processes = ask(trace, q::CPU_PROCESSES, process)?;
        self.threads = ask(trace, q::CPU_THREADS, thread)?;
        self.waits = ask(trace, q::LATENCY, waits)?;
        self.worst_waits = ask(trace, q::LATENCY_WORST, wait)?;
        for (bin, times) in ask(trace, q::LATENCY_BINS, |row| (row.sum(), row.sum()))? {
            if let Some(it) = usize::try_from(bin).ok().and_then(|bin| self.wait_bins.get_mut(bin)) {
                *it = times;
            }
        }
        self.blocked = ask(trace, q::BLOCKED, blocked)?;
        self.wakers = ask(trace, q::WAKERS, waker)?;
        if options.has_pictures {
            self.cpu_course = cpu_course(trace, self.overview.span)?;
        }
        Ok(())
    }

    /// Those that are shown: of the first counters.
    fn ask_for_courses(&mut self, trace: &Trace) -> Result<(), Error> {
        let tracks: Vec<_> =
            self.counters.iter().take(COURSES).map(|counter| counter.track.to_string()).collect();
        let question = q::COUNTER_COURSE.replace("TRACKS", &tracks.join(", "));
        let mut courses: BTreeMap<i64, BTreeMap<i64, f64>> = BTreeMap::new();
        ask(trace, &question, |row| {
            let (track, bin) = (row.sum(), row.sum());
            if let Some(value) = row.real() {
                courses.entry(track).or_default().insert(bin, value);
            }
        })?;
        for counter in self.counters.iter_mut().take(COURSES) {
            counter.course = courses.get(&counter.track).map(course).unwrap_or_default();
        }
        Ok(())
    }
}

/// A counter has a value until it has another.
fn course(known: &BTreeMap<i64, f64>) -> Vec<f64> {
    let Some(first) = known.values().next() else { return Vec::new() };
    let mut latest = *first;
    let of_bin = |bin: usize| {
        latest = known.get(&(bin as i64)).copied().unwrap_or(latest);
        latest
    };
    (0..COURSE_BINS).map(of_bin).collect()
}

/// Each time that somebody ran, cut at the borders of the parts.
fn cpu_course(trace: &Trace, span: i64) -> Result<CpuCourse, Error> {
    let bin_ns = (span as f64 / CPU_BINS as f64).max(1.0);
    let mut places = vec![vec![0.0; CPU_BINS]; CPU_PLACES + 1];
    ask(trace, q::CPU_COURSE, |row| {
        let (mut ts, dur) = (row.sum().max(0) as f64, row.sum());
        let place = row.int().and_then(|place| usize::try_from(place).ok()).unwrap_or(CPU_PLACES);
        let Some(bins) = places.get_mut(place.min(CPU_PLACES)) else { return };
        let ends = ts + dur as f64;
        let first = (ts / bin_ns) as usize;
        for (bin, ran) in bins.iter_mut().enumerate().skip(first) {
            let border = (bin + 1) as f64 * bin_ns;
            *ran += (ends.min(border) - ts).max(0.0);
            ts = border;
            if ends <= border {
                break;
            }
        }
    })?;
    Ok(CpuCourse { places, bin_ns })
}

fn overview(row: &mut Row<'_>) -> Overview {
    Overview {
        span: row.sum(),
        begins: row.sum(),
        ends: row.sum(),
        cpus: row.sum(),
        switches: row.sum(),
        ran: row.sum(),
        waited: row.sum(),
        waits: row.sum(),
        blocked: row.sum(),
        slices: row.sum(),
        slices_without_end: row.sum(),
        counters: row.sum(),
    }
}

fn machine(row: &mut Row<'_>) -> Machine {
    let words = [row.text(), row.text(), row.text()];
    let writes_into_file = row.has_words("write_into_file: true");
    Machine { words: words.into_iter().flatten().collect(), writes_into_file }
}

fn process(row: &mut Row<'_>) -> Process {
    Process { name: row.name(), processes: row.sum(), pid: row.int(), cpu: row.sum(), runs: row.sum() }
}

fn thread(row: &mut Row<'_>) -> Thread {
    Thread {
        thread: row.name(),
        process: row.name(),
        threads: row.sum(),
        tid: row.int(),
        cpu: row.sum(),
        waiting: row.sum(),
        blocked: row.sum(),
        asleep: row.sum(),
    }
}

fn waits(row: &mut Row<'_>) -> Waits {
    Waits {
        thread: row.name(),
        process: row.name(),
        times: row.sum(),
        total: row.sum(),
        p50: row.sum(),
        p90: row.sum(),
        p99: row.sum(),
        longest: row.sum(),
    }
}

fn wait(row: &mut Row<'_>) -> Wait {
    Wait {
        at: row.sum(),
        dur: row.sum(),
        thread: row.name(),
        process: row.name(),
        cpu: row.int(),
        woken_by: row.text(),
        meanwhile: row.text(),
        meanwhile_dur: row.int(),
    }
}

fn blocked(row: &mut Row<'_>) -> Blocked {
    Blocked {
        state: row.name(),
        io_wait: row.int(),
        function: row.text(),
        times: row.sum(),
        total: row.sum(),
        longest: row.sum(),
        threads: row.sum(),
        most: row.text(),
    }
}

fn waker(row: &mut Row<'_>) -> Waker {
    Waker {
        thread: row.name(),
        process: row.name(),
        state: row.name(),
        io_wait: row.int(),
        waker: row.text(),
        times: row.sum(),
        total: row.sum(),
        longest: row.sum(),
    }
}

fn slices(row: &mut Row<'_>) -> Slices {
    Slices {
        name: row.name(),
        times: row.sum(),
        total: row.sum(),
        own: row.sum(),
        p50: row.sum(),
        p99: row.sum(),
        longest: row.sum(),
    }
}

fn slice(row: &mut Row<'_>) -> Slice {
    Slice { name: row.name(), at: row.sum(), dur: row.sum(), owner: row.text(), process: row.text() }
}

fn counter(row: &mut Row<'_>) -> Counter {
    Counter {
        track: row.sum(),
        name: row.name(),
        unit: row.text(),
        owner: row.text(),
        times: row.sum(),
        lowest: row.real().unwrap_or(0.0),
        mean: row.real().unwrap_or(0.0),
        highest: row.real().unwrap_or(0.0),
        latest: row.real().unwrap_or(0.0),
        course: Vec::new(),
    }
}

fn stat(row: &mut Row<'_>) -> Stat {
    Stat { name: row.name(), index: row.int(), value: row.sum(), description: row.name() }
}
