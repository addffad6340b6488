//! What a session asks for (`HeapprofdConfig`; upstream: heapprofd_producer.cc, heapprofd_config.proto), as far as it is done here.

use std::time::Duration;

use ferretto_protos::HeapprofdConfig;

/// The heap that there is: that of `malloc`.
pub(crate) const HEAP: &str = "libc.malloc";
/// Upstream's (heapprofd_producer.cc, kDefaultShmemSize).
const DEFAULT_RING_BYTES: u64 = 8 << 20;
/// A ring holds some records of 64 KiB each; and is not larger than memory may be that is shared here.
const MIN_RING_BYTES: u64 = 4 << 20;
const MAX_RING_BYTES: u64 = 128 << 20;
/// More often, dumps would be most of the work.
const MIN_DUMP_INTERVAL: Duration = Duration::from_millis(100);

/// What is to be profiled, and how.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) interval_bytes: u64,
    pub(crate) ring_bytes: usize,
    /// Before the first dump, and between two; without it there is one at the end.
    pub(crate) dumps: Option<(Duration, Duration)>,
    /// The state at the moment at which most was allocated, instead of that at the end.
    pub(crate) at_max: bool,
}

impl Wanted {
    /// What a config asks for, or why that is not to be had.
    pub(crate) fn of(config: &HeapprofdConfig) -> Result<Self, String> {
        refuse(config)?;
        let interval_bytes = match config.heap_sampling_intervals.first() {
            Some(interval) => *interval,
            None => config.sampling_interval_bytes(),
        };
        if interval_bytes == 0 || interval_bytes > i64::MAX as u64 / 2 {
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
            ring_bytes: usize::try_from(ring_bytes).unwrap_or(usize::MAX),
            dumps,
            at_max: config.dump_at_max(),
        })
    }
}

fn refuse(config: &HeapprofdConfig) -> Result<(), String> {
    let is_malloc = |heaps: &[String]| heaps.iter().all(|heap| heap == HEAP);
    for (is_asked_for, what) in [
        (config.stream_allocations(), "stream_allocations: allocations are not written one by one"),
        (
            config.block_client(),
            "block_client: a program never waits for its profiler; a larger shmem_size_bytes helps",
        ),
        (!is_malloc(&config.heaps), "heaps other than libc.malloc are not known here"),
        (!config.exclude_heaps.is_empty(), "exclude_heaps: there is one heap, libc.malloc"),
        (config.heap_sampling_intervals.len() > 1, "heap_sampling_intervals: there is one heap, libc.malloc"),
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
        (
            !config.pid.is_empty() || !config.process_cmdline.is_empty(),
            "pid, process_cmdline: whoever is started with the library is profiled; say `all: true`",
        ),
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
        let wanted = Wanted::of(&config()).unwrap();
        assert_eq!(
            (wanted.interval_bytes, wanted.ring_bytes, wanted.dumps, wanted.at_max),
            (4096, 8 << 20, None, false)
        );
        let dumps = ContinuousDumpConfig { dump_phase_ms: Some(5), dump_interval_ms: Some(1) };
        let wanted = Wanted::of(&HeapprofdConfig {
            continuous_dump_config: Some(dumps),
            shmem_size_bytes: Some(5 << 20),
            dump_at_max: Some(true),
            heaps: vec![HEAP.to_owned()],
            heap_sampling_intervals: vec![7],
            ..config()
        })
        .unwrap();
        assert_eq!((wanted.interval_bytes, wanted.ring_bytes, wanted.at_max), (7, 8 << 20, true));
        assert_eq!(wanted.dumps, Some((Duration::from_millis(5), MIN_DUMP_INTERVAL)));
        for (other, part) in [
            (HeapprofdConfig { sampling_interval_bytes: None, ..config() }, "between 1"),
            (HeapprofdConfig { block_client: Some(true), ..config() }, "never waits"),
            (HeapprofdConfig { heaps: vec!["art".to_owned()], ..config() }, "other than libc.malloc"),
            (HeapprofdConfig { pid: vec![1], ..config() }, "all: true"),
            (HeapprofdConfig { stream_allocations: Some(true), ..config() }, "one by one"),
        ] {
            assert!(Wanted::of(&other).unwrap_err().contains(part), "{part}");
        }
    }
}
