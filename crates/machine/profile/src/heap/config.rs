//! What a session asks for (`HeapprofdConfig`; upstream: heapprofd_producer.cc, heapprofd_config.proto), as far as it is done here.

use std::time::Duration;

use ferretto_protos::HeapprofdConfig;
use ferretto_shm::heap::{HeapName, MAX_HEAPS, Wishes};

use crate::scope::matches;

/// Upstream's (heapprofd_producer.cc, kDefaultShmemSize).
const DEFAULT_RING_BYTES: u64 = 8 << 20;
/// A ring holds some records of 64 KiB each; and is not larger than memory may be that is shared here.
const MIN_RING_BYTES: u64 = 4 << 20;
const MAX_RING_BYTES: u64 = 128 << 20;
/// Programs that are named. Each name is tried on each program.
const MAX_TARGETS: usize = 4096;
/// A countdown has a sign.
const MAX_INTERVAL: u64 = i64::MAX as u64 / 2;
/// More often, dumps would be most of the work.
const MIN_DUMP_INTERVAL: Duration = Duration::from_millis(100);

/// What is to be profiled, and how.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanted {
    /// Of heaps that are not named.
    pub(crate) interval_bytes: u64,
    /// Those that are, by their names; 0 is none.
    pub(crate) heaps: Vec<(String, u64)>,
    /// Whether others are wanted besides: all of them, or the allocator's own.
    pub(crate) others: Others,
    /// Which programs.
    pub(crate) targets: Targets,
    pub(crate) ring_bytes: usize,
    /// Before the first dump, and between two; without it there is one at the end.
    pub(crate) dumps: Option<(Duration, Duration)>,
    /// The state at the moment at which most was allocated, instead of that at the end.
    pub(crate) at_max: bool,
}

/// Heaps that are not named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    None,
    /// That of the program's allocator, whatever it is called: `libc.malloc`, or `rust.global`.
    Main,
    All,
}

/// Which programs a session wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Targets {
    all: bool,
    pids: Vec<u64>,
    cmdlines: Vec<String>,
    /// Not those that are there when it begins.
    pub(crate) no_running: bool,
    /// Not those that come later.
    pub(crate) no_startup: bool,
}

impl Targets {
    fn of(config: &HeapprofdConfig) -> Result<Self, String> {
        let targets = Self {
            all: config.all(),
            pids: config.pid.clone(),
            cmdlines: config.process_cmdline.clone(),
            no_running: config.no_running(),
            no_startup: config.no_startup(),
        };
        if !targets.all && targets.pids.is_empty() && targets.cmdlines.is_empty() {
            return Err("no program is named: pid, process_cmdline, or `all: true`".to_owned());
        }
        let count = targets.pids.len() + targets.cmdlines.len();
        match count > MAX_TARGETS {
            true => Err(format!(
                "{count} programs are named by pid and process_cmdline, and {MAX_TARGETS} may be"
            )),
            false => Ok(targets),
        }
    }

    /// Everybody who asks.
    fn all() -> Self {
        Self { all: true, ..Self::default() }
    }

    /// Whether it may be wanted, before it is known what it is called.
    pub(crate) fn may_want(&self, pid: u32) -> bool {
        self.want_number(pid) || !self.cmdlines.is_empty()
    }

    /// Whether a process with this command line is wanted.
    pub(crate) fn want(&self, pid: u32, cmdline: &[u8]) -> bool {
        let program = cmdline.split(|byte| *byte == 0).next().unwrap_or_default();
        self.want_number(pid) || self.cmdlines.iter().any(|name| matches(name.as_bytes(), program))
    }

    fn want_number(&self, pid: u32) -> bool {
        self.all || self.pids.contains(&pid.into())
    }
}

impl Wanted {
    /// What programs are told.
    pub(crate) fn wishes(&self) -> Wishes {
        let interval_if = |is_so: bool| if is_so { self.interval_bytes } else { 0 };
        let named = |(name, interval): &(String, u64)| Some((HeapName::new(name.as_bytes())?, *interval));
        Wishes {
            main_interval: interval_if(self.others != Others::None),
            all_interval: interval_if(self.others == Others::All),
            named: self.heaps.iter().filter_map(named).collect(),
        }
    }

    /// Bytes between samples of a heap.
    pub(crate) fn interval_of(&self, heap: &str) -> u64 {
        let named = self.heaps.iter().find(|(name, _)| name == heap);
        named.map_or(self.interval_bytes, |(_, interval)| *interval)
    }

    /// What a config asks for, or why that is not to be had. Of programs that wait for sessions the rings are there already, of this size; others were all
    /// started to be profiled.
    pub(crate) fn of(config: &HeapprofdConfig, fixed_ring_bytes: Option<usize>) -> Result<Self, String> {
        refuse(config)?;
        let targets = match fixed_ring_bytes {
            Some(_) => Targets::of(config)?,
            None if !config.pid.is_empty() || !config.process_cmdline.is_empty() => {
                return Err(
                    "pid, process_cmdline: whoever is started with the library is profiled; say `all: true`"
                        .to_owned(),
                );
            }
            None => Targets::all(),
        };
        if let Some(bytes) = fixed_ring_bytes.filter(|bytes| config.shmem_size_bytes() > *bytes as u64) {
            return Err(format!(
                "shmem_size_bytes: programs have rings of {bytes} bytes from their start; `ferretto heap --ring` gives them larger ones"
            ));
        }
        let others = match (config.all_heaps(), config.heaps.is_empty()) {
            (true, _) => Others::All,
            (false, true) => Others::Main,
            (false, false) => Others::None,
        };
        let interval_bytes = config.sampling_interval_bytes();
        let heaps = heaps(config)?;
        let others_have = (others != Others::None).then_some(interval_bytes);
        let included = heaps.iter().take(config.heaps.len()).map(|(_, interval)| *interval);
        if included.chain(others_have).any(|bytes| bytes == 0 || bytes > MAX_INTERVAL) {
            return Err(
                "sampling_interval_bytes must be between 1 and half of what there are addresses".to_owned()
            );
        }
        let dumps = config.continuous_dump_config.as_ref().filter(|dumps| dumps.dump_interval_ms() > 0);
        let ms = |ms: u32| Duration::from_millis(ms.into());
        let dumps = dumps
            .map(|dumps| (ms(dumps.dump_phase_ms()), ms(dumps.dump_interval_ms()).max(MIN_DUMP_INTERVAL)));
        let ring_bytes = match config.shmem_size_bytes() {
            0 => DEFAULT_RING_BYTES,
            bytes => bytes.clamp(MIN_RING_BYTES, MAX_RING_BYTES).next_power_of_two(),
        };
        Ok(Self {
            interval_bytes,
            heaps,
            others,
            targets,
            ring_bytes: usize::try_from(ring_bytes).unwrap_or(usize::MAX),
            dumps,
            at_max: config.dump_at_max(),
        })
    }
}

/// Heaps that are named, those first that are wanted.
fn heaps(config: &HeapprofdConfig) -> Result<Vec<(String, u64)>, String> {
    let default = std::iter::repeat_n(config.sampling_interval_bytes(), config.heaps.len());
    let intervals: Vec<u64> = match config.heap_sampling_intervals.is_empty() {
        true => default.collect(),
        false => config.heap_sampling_intervals.clone(),
    };
    let wanted = config.heaps.iter().cloned().zip(intervals);
    let excluded = config.exclude_heaps.iter().map(|heap| (heap.clone(), 0));
    let heaps: Vec<_> = wanted.chain(excluded).collect();
    match heaps.iter().find(|(name, _)| HeapName::new(name.as_bytes()).is_none()) {
        Some((name, _)) => {
            Err(format!("heaps, exclude_heaps: no heap is called {name:?}: names have 1 to 63 bytes"))
        }
        None if heaps.len() > MAX_HEAPS => Err(format!("heaps, exclude_heaps: more than {MAX_HEAPS} names")),
        None => Ok(heaps),
    }
}

fn refuse(config: &HeapprofdConfig) -> Result<(), String> {
    for (is_asked_for, what) in [
        (config.stream_allocations(), "stream_allocations: allocations are not written one by one"),
        (
            config.block_client(),
            "block_client: a program never waits for its profiler; a larger shmem_size_bytes helps",
        ),
        (
            config.heap_sampling_intervals.len() != config.heaps.len()
                && !config.heap_sampling_intervals.is_empty(),
            "heap_sampling_intervals: one for each of heaps",
        ),
        (
            !config.target_installed_by.is_empty(),
            "target_installed_by: programs are not told apart by who has installed them",
        ),
        (
            config.adaptive_sampling_shmem_threshold() > 0,
            "adaptive_sampling_shmem_threshold: the interval stays what it is",
        ),
        (
            config.max_heapprofd_memory_kb() > 0 || config.max_heapprofd_cpu_secs() > 0,
            "max_heapprofd_memory_kb, max_heapprofd_cpu_secs: it keeps to no bounds but its own",
        ),
        (
            config.min_anonymous_memory_kb() > 0,
            "min_anonymous_memory_kb: programs are not told apart by their memory",
        ),
        (!config.skip_symbol_prefix.is_empty(), "skip_symbol_prefix: all names are said"),
    ] {
        if is_asked_for {
            return Err(what.to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ferretto_protos::heapprofd_config::ContinuousDumpConfig;

    use super::*;

    fn config() -> HeapprofdConfig {
        HeapprofdConfig { sampling_interval_bytes: Some(4096), all: Some(true), ..HeapprofdConfig::default() }
    }

    #[test]
    fn what_is_asked_for_is_done_or_refused_in_words() {
        let wanted = Wanted::of(&config(), None).unwrap();
        assert_eq!(
            (wanted.interval_bytes, wanted.ring_bytes, wanted.dumps, wanted.at_max),
            (4096, 8 << 20, None, false)
        );
        let dumps = ContinuousDumpConfig { dump_phase_ms: Some(5), dump_interval_ms: Some(1) };
        let wanted = HeapprofdConfig {
            continuous_dump_config: Some(dumps),
            shmem_size_bytes: Some(5 << 20),
            dump_at_max: Some(true),
            heaps: vec!["libc.malloc".to_owned()],
            heap_sampling_intervals: vec![7],
            sampling_interval_bytes: None,
            ..config()
        };
        let wanted = Wanted::of(&wanted, None).unwrap();
        assert_eq!((wanted.interval_of("libc.malloc"), wanted.ring_bytes, wanted.at_max), (7, 8 << 20, true));
        assert_eq!(wanted.dumps, Some((Duration::from_millis(5), MIN_DUMP_INTERVAL)));
        for (other, part) in [
            (HeapprofdConfig { sampling_interval_bytes: None, ..config() }, "between 1"),
            (HeapprofdConfig { block_client: Some(true), ..config() }, "never waits"),
            (HeapprofdConfig { heaps: vec![String::new()], ..config() }, "1 to 63 bytes"),
            (HeapprofdConfig { heaps: vec!["a".to_owned(); 65], ..config() }, "more than 64"),
            (HeapprofdConfig { heap_sampling_intervals: vec![1], ..config() }, "one for each"),
            (
                HeapprofdConfig { heaps: vec!["a".to_owned()], heap_sampling_intervals: vec![0], ..config() },
                "between 1",
            ),
            (HeapprofdConfig { pid: vec![1], ..config() }, "all: true"),
            (HeapprofdConfig { stream_allocations: Some(true), ..config() }, "one by one"),
        ] {
            assert!(Wanted::of(&other, None).unwrap_err().contains(part), "{part}");
        }
    }

    #[test]
    fn heaps_are_those_that_are_named_or_all_but_some() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let wishes = |config: HeapprofdConfig| {
            let wishes = Wanted::of(&config, None).unwrap().wishes();
            let named: Vec<_> =
                wishes.named.iter().map(|(name, interval)| (name.to_text(), *interval)).collect();
            (wishes.main_interval, wishes.all_interval, named)
        };
        assert_eq!(wishes(config()), (4096, 0, vec![]));
        let all = HeapprofdConfig { all_heaps: Some(true), exclude_heaps: names(&["a"]), ..config() };
        assert_eq!(wishes(all), (4096, 4096, vec![("a".to_owned(), 0)]));
        let some = HeapprofdConfig { heaps: names(&["a", "b"]), ..config() };
        assert_eq!(wishes(some), (0, 0, vec![("a".to_owned(), 4096), ("b".to_owned(), 4096)]));
    }

    #[test]
    fn programs_that_wait_are_named_by_number_by_name_or_all() {
        const RING: usize = 8 << 20;
        let of = |config: &HeapprofdConfig| Wanted::of(config, Some(RING)).map(|wanted| wanted.targets);
        let nobody = HeapprofdConfig { all: None, ..config() };
        assert!(of(&nobody).unwrap_err().contains("no program is named"));
        let large = HeapprofdConfig { shmem_size_bytes: Some(RING as u64 + 1), ..config() };
        assert!(of(&large).unwrap_err().contains("--ring"));
        let many = HeapprofdConfig { pid: vec![1; MAX_TARGETS + 1], ..config() };
        assert!(of(&many).unwrap_err().contains("4097 programs"));
        assert!(of(&config()).unwrap().want(7, b""));
        let by_number = of(&HeapprofdConfig { pid: vec![7], ..nobody.clone() }).unwrap();
        assert!(by_number.may_want(7) && by_number.want(7, b"") && !by_number.may_want(8));
        let names = ["server", "/usr/*/work*"].map(str::to_owned).to_vec();
        let by_name = of(&HeapprofdConfig { process_cmdline: names, ..nobody }).unwrap();
        for (cmdline, is_wanted) in [
            (&b"/opt/bin/server\0--flag"[..], true),
            (b"server", true),
            (b"servers", false),
            (b"/usr/lib/worker", true),
            (b"/opt/lib/worker", false),
            (b"", false),
        ] {
            assert!(by_name.may_want(1));
            assert_eq!(by_name.want(1, cmdline), is_wanted, "{}", String::from_utf8_lossy(cmdline));
        }
    }
}
