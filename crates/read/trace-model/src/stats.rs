//! What is counted because it was lost, wrong or odd.
//!
//! A counter is one for all of the trace, or one for each thing that it is about: a processor, a buffer. Most belong to a machine. Single ones
//! have a row also at 0, so that it can be seen that nothing was lost (upstream: global_stats_tracker.cc; the list is in `list`).
//!
//! Memory: a row for each single counter and machine, and one for each thing that was counted, at most `MAX_ROWS`.

mod list;

use ferretto_trace_tables::tables::{StatRow, Tables};
use ferretto_trace_tables::{MachineId, TraceFileId};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use list::ALL;
pub use list::Stat;

/// Counters of one trace; further ones are not counted. Ours: a trace may name any number of processors, buffers and processes.
const MAX_ROWS: usize = 1 << 20;

/// What is known of a counter.
struct Definition {
    stat: Stat,
    name: &'static str,
    kind: Kind,
    severity: Severity,
    source: Source,
    scope: Scope,
    /// A line each.
    docs: &'static [&'static str],
}

/// How many there are of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One.
    Single,
    /// One for each thing that it is about.
    Indexed,
}

/// What it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// All of the trace.
    OfAll,
    /// A machine.
    OfMachine,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Not at all.
    Info,
    /// Not much.
    Notice,
    /// Data is missing.
    DataLoss,
    /// Data may be wrong.
    Error,
}

/// Where it was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// While the trace was recorded.
    Trace,
    /// While it was read.
    Analysis,
}

impl Stat {
    /// What it is called in SQL.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.definition().name
    }

    /// How bad it is.
    #[must_use]
    pub fn severity(self) -> Severity {
        self.definition().severity
    }

    fn definition(self) -> &'static Definition {
        let at = ALL.binary_search_by_key(&self, |definition| definition.stat);
        // It is there: the list and the type are made of the same lines.
        &ALL[at.unwrap_or(0)]
    }
}

/// Which counter of which machine, and of which thing.
type Key = (Stat, Option<i64>, Option<MachineId>);

/// What each counter stands at.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// In the order in which they came.
    rows: Vec<(Key, i64)>,
    numbers: HashMap<Key, usize, RandomState>,
    /// Whose events are read now.
    machine: MachineId,
    machines: usize,
}

impl Stats {
    /// What is counted from now on belongs to this machine.
    #[inline]
    pub fn set_machine(&mut self, machine: MachineId) {
        self.machine = machine;
    }

    /// One more.
    pub fn count(&mut self, stat: Stat) {
        self.add(stat, None, 1);
    }

    /// `by` more, of the thing `index` where there is one counter for each.
    pub fn add(&mut self, stat: Stat, index: Option<i64>, by: i64) {
        if let Some(value) = self.value(stat, index) {
            *value = value.saturating_add(by);
        }
    }

    /// What a counter that the trace itself brought stood at.
    pub fn set(&mut self, stat: Stat, index: Option<i64>, new: i64) {
        if let Some(value) = self.value(stat, index) {
            *value = new;
        }
    }

    /// What one of the machine stands at.
    #[must_use]
    pub fn get(&self, stat: Stat, index: Option<i64>) -> i64 {
        self.numbers
            .get(&self.key(stat, index))
            .and_then(|number| self.rows.get(*number))
            .map_or(0, |(_, value)| *value)
    }

    /// Whether any of the machine that `is_meant` is above 0, of whatever thing.
    pub(crate) fn any(&self, is_meant: impl Fn(Stat) -> bool) -> bool {
        self.rows.iter().any(|((stat, _, machine), value)| {
            *value > 0 && machine.is_none_or(|machine| machine == self.machine) && is_meant(*stat)
        })
    }

    /// Whether one of the machine was counted or set.
    #[must_use]
    pub fn has(&self, stat: Stat, index: Option<i64>) -> bool {
        self.numbers.contains_key(&self.key(stat, index))
    }

    /// Writes the table `stats`: all single counters, also those at 0, and those of things that were counted.
    pub fn write(&mut self, tables: &mut Tables) {
        self.begin(tables.machine.len().max(1));
        for ((stat, index, machine), value) in &self.rows {
            let definition = stat.definition();
            let severity = match definition.severity {
                Severity::Info => "info",
                Severity::Notice => "notice",
                Severity::DataLoss => "data_loss",
                Severity::Error => "error",
            };
            let source = match definition.source {
                Source::Trace => "trace",
                Source::Analysis => "analysis",
            };
            let strings = &mut tables.strings;
            let lines: Vec<&str> = definition.docs.iter().map(|line| line.trim_ascii()).collect();
            let row = StatRow {
                name: Some(strings.intern(definition.name)),
                key: *stat as u32,
                idx: *index,
                severity: Some(strings.intern(severity)),
                source: Some(strings.intern(source)),
                value: *value,
                description: Some(strings.intern(&lines.join(" "))),
                machine_id: *machine,
                trace_id: machine.map(|_| TraceFileId(0)),
            };
            tables.stats.push(row);
        }
    }

    fn key(&self, stat: Stat, index: Option<i64>) -> Key {
        let is_of_machine = stat.definition().scope == Scope::OfMachine;
        (stat, index, is_of_machine.then_some(self.machine))
    }

    fn value(&mut self, stat: Stat, index: Option<i64>) -> Option<&mut i64> {
        self.begin(self.machine.index() + 1);
        let key = self.key(stat, index);
        if !self.numbers.contains_key(&key) {
            if self.rows.len() >= MAX_ROWS {
                return None;
            }
            self.add_row(key);
        }
        let number = *self.numbers.get(&key)?;
        self.rows.get_mut(number).map(|(_, value)| value)
    }

    /// So many machines have rows for all of their single counters.
    fn begin(&mut self, machines: usize) {
        if self.rows.is_empty() {
            self.add_singles(Scope::OfAll, None);
        }
        while self.machines < machines {
            let machine = MachineId(u32::try_from(self.machines).unwrap_or(u32::MAX));
            self.machines += 1;
            self.add_singles(Scope::OfMachine, Some(machine));
        }
    }

    fn add_singles(&mut self, scope: Scope, machine: Option<MachineId>) {
        for definition in ALL.iter().filter(|it| it.kind == Kind::Single && it.scope == scope) {
            self.add_row((definition.stat, None, machine));
        }
    }

    fn add_row(&mut self, key: Key) {
        if let hashbrown::hash_map::Entry::Vacant(entry) = self.numbers.entry(key) {
            entry.insert(self.rows.len());
            self.rows.push((key, 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use ferretto_trace_tables::table::Table;
    use ferretto_trace_tables::{Str, Value};

    use super::*;

    #[test]
    fn the_list_is_in_the_order_of_numbers_and_names_are_different() {
        assert!(ALL.is_sorted_by(|a, b| a.stat < b.stat));
        let names: std::collections::BTreeSet<_> = ALL.iter().map(|it| it.name).collect();
        assert_eq!(names.len(), ALL.len());
        assert_eq!(Stat::MisplacedEndEvent.name(), "misplaced_end_event");
        assert_eq!(Stat::PacketSkippedSeqNeedsIncrementalStateInvalid as u32, 346);
    }

    #[test]
    fn single_ones_have_rows_at_0_and_others_when_they_are_counted() {
        let mut stats = Stats::default();
        stats.count(Stat::MisplacedEndEvent);
        stats.set(Stat::TracedBufBytesRead, Some(3), 4096);
        stats.set_machine(MachineId(1));
        stats.add(Stat::MisplacedEndEvent, None, 5);
        stats.count(Stat::InvalidClockSnapshots);
        assert_eq!(stats.get(Stat::MisplacedEndEvent, None), 5);
        let mut tables = Tables::default();
        stats.write(&mut tables);
        let rows = |name: &str| -> Vec<(Value, Value, Value)> {
            let name = tables.strings.find(name);
            let is_it = |row: &usize| tables.stats.name.get(*row).copied().flatten() == name;
            let cells = |row| {
                let cell = |column| tables.stats.cell(column, row);
                (cell("idx"), cell("machine_id"), cell("value"))
            };
            (0..tables.stats.len()).filter(is_it).map(cells).collect()
        };
        let of = |machine, value| (Value::Null, Value::Int(machine), Value::Int(value));
        assert_eq!(rows("misplaced_end_event"), [of(0, 1), of(1, 5)]);
        assert_eq!(rows("filter_errors"), [of(0, 0), of(1, 0)]);
        assert_eq!(rows("traced_buf_bytes_read"), [(Value::Int(3), Value::Int(0), Value::Int(4096))]);
        assert_eq!(rows("invalid_clock_snapshots"), [(Value::Null, Value::Null, Value::Int(1))]);
        let text: Option<Str> = tables.stats.description.first().copied().flatten();
        assert!(text.is_some_and(|text| tables.strings.get(text).ends_with('.')));
    }
}
