//! The counters that are sampled by, each with its names.

use ferretto_protos::perf_events::Counter;

/// PERF_TYPE_*.
pub(crate) const HARDWARE: u32 = 0;
pub(crate) const SOFTWARE: u32 = 1;

/// A counter of the kernel or of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownCounter {
    /// As configs name it.
    pub counter: Counter,
    /// As `perf list` does.
    pub name: &'static str,
    /// As it does, too, if it is not empty.
    pub other_name: &'static str,
    /// It goes on by itself while a program runs, so that "so many times a second" means something.
    pub is_clock: bool,
    /// PERF_TYPE_* and PERF_COUNT_*.
    pub(crate) kind: u32,
    pub(crate) config: u64,
}

impl KnownCounter {
    /// Of this config's.
    #[must_use]
    pub fn of(counter: Counter) -> Option<&'static Self> {
        COUNTERS.iter().find(|known| known.counter == counter)
    }

    /// Of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        COUNTERS.iter().find(|known| known.names().any(|other| other == name))
    }

    /// All of its names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.name, self.other_name].into_iter().filter(|name| !name.is_empty())
    }

    const fn software(counter: Counter, name: &'static str, config: u64) -> Self {
        Self { counter, name, other_name: "", is_clock: false, kind: SOFTWARE, config }
    }

    const fn hardware(counter: Counter, name: &'static str, config: u64) -> Self {
        Self { counter, name, other_name: "", is_clock: false, kind: HARDWARE, config }
    }

    const fn or(self, other_name: &'static str) -> Self {
        Self { other_name, ..self }
    }

    const fn clock(self) -> Self {
        Self { is_clock: true, ..self }
    }
}

/// All of them.
pub const COUNTERS: [KnownCounter; 20] = [
    KnownCounter::software(Counter::SwCpuClock, "cpu-clock", 0).clock(),
    KnownCounter::software(Counter::SwTaskClock, "task-clock", 1).clock(),
    KnownCounter::software(Counter::SwPageFaults, "page-faults", 2).or("faults"),
    KnownCounter::software(Counter::SwPageFaultsMin, "minor-faults", 5),
    KnownCounter::software(Counter::SwPageFaultsMaj, "major-faults", 6),
    KnownCounter::software(Counter::SwContextSwitches, "context-switches", 3),
    KnownCounter::software(Counter::SwCpuMigrations, "cpu-migrations", 4),
    KnownCounter::software(Counter::SwAlignmentFaults, "alignment-faults", 7),
    KnownCounter::software(Counter::SwEmulationFaults, "emulation-faults", 8),
    KnownCounter::hardware(Counter::HwCpuCycles, "cpu-cycles", 0).or("cycles").clock(),
    KnownCounter::hardware(Counter::HwInstructions, "instructions", 1).clock(),
    KnownCounter::hardware(Counter::HwCacheReferences, "cache-references", 2),
    KnownCounter::hardware(Counter::HwCacheMisses, "cache-misses", 3),
    KnownCounter::hardware(Counter::HwBranchInstructions, "branch-instructions", 4).or("branches"),
    KnownCounter::hardware(Counter::HwBranchMisses, "branch-misses", 5),
    KnownCounter::hardware(Counter::HwBusCycles, "bus-cycles", 6).clock(),
    KnownCounter::hardware(Counter::HwStalledCyclesFrontend, "stalled-cycles-frontend", 7),
    KnownCounter::hardware(Counter::HwStalledCyclesBackend, "stalled-cycles-backend", 8),
    KnownCounter::hardware(Counter::HwRefCpuCycles, "ref-cycles", 9).clock(),
    KnownCounter::software(Counter::SwDummy, "dummy", 9),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_of_a_config_has_names_that_no_other_has() {
        let names: Vec<&str> = COUNTERS.iter().flat_map(KnownCounter::names).collect();
        let different: std::collections::BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(names.len(), different.len());
        let numbers = (0..100).filter_map(|number| Counter::try_from(number).ok());
        let known = numbers.filter(|counter| *counter != Counter::UnknownCounter);
        assert_eq!(known.filter(|counter| KnownCounter::of(*counter).is_some()).count(), COUNTERS.len());
        assert_eq!(KnownCounter::named("faults"), KnownCounter::of(Counter::SwPageFaults));
        assert_eq!(KnownCounter::named(""), None);
    }
}
