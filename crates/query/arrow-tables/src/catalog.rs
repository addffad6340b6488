//! All relations of a trace by name.

use ferretto_trace_tables::{Tables, Value};

use crate::arg_sets::ArgSets;
use crate::relation::{Column, Relation, Rows, Source};
use crate::views::{ADDED, Named, OTHERS, Only, SAMPLES, TRACKS, View, What};

/// What can be asked of a trace, by name.
#[derive(Debug)]
pub struct Catalog<'a> {
    tables: &'a Tables,
    arg_sets: Option<&'a ArgSets>,
}

impl<'a> Catalog<'a> {
    /// That of these tables.
    #[must_use]
    pub fn new(tables: &'a Tables) -> Self {
        Self { tables, arg_sets: None }
    }

    /// With sets of arguments numbered and in order as files have them.
    #[must_use]
    pub fn with_arg_sets(self, arg_sets: &'a ArgSets) -> Self {
        Self { arg_sets: Some(arg_sets), ..self }
    }

    /// All names: tables first, then views.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        let tables = self.tables.all().into_iter().map(|table| table.name());
        tables.chain(views().map(|view| view.name)).collect()
    }

    /// A table or view by its name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Relation<'a>> {
        self.table(name).or_else(|| self.view(views().find(|view| view.name == name)?))
    }

    /// What a folder of files should have: the tables, and those views that are no table under another name. None has columns that can be
    /// had from those beside them.
    #[must_use]
    pub fn files(&self) -> Vec<Relation<'a>> {
        let tables = self.tables.all().into_iter().filter_map(|table| self.table(table.name()));
        let views = views().filter(|view| !view.is_spare).filter_map(|view| self.view(view));
        tables.chain(views).map(Relation::without_spares).collect()
    }

    fn table(&self, name: &str) -> Option<Relation<'a>> {
        let table = self.tables.find(name)?;
        let mut relation = Relation::of_table(table, &self.tables.strings);
        if let Some(arg_sets) = self.arg_sets {
            relation = relation.with_arg_sets(arg_sets);
        }
        for (_, name, doc, what, is_spare) in ADDED.iter().filter(|(of, ..)| *of == name) {
            let Some(source) = self.source(&relation, name, *what) else { continue };
            let column = Column { name, doc, is_spare: *is_spare, source };
            match relation.columns.iter_mut().find(|column| column.name == *name) {
                Some(there) => *there = column,
                // A key stands beside `id`, others at the end.
                None if is_key(*what) => relation.columns.insert(1, column),
                None => relation.columns.push(column),
            }
        }
        Some(relation)
    }

    fn view(&self, view: &View) -> Option<Relation<'a>> {
        let below = self.table(view.of)?;
        let columns = match view.columns {
            [] => below.columns.clone(),
            named => named.iter().filter_map(|column| self.column(&below, column)).collect(),
        };
        let rows = match view.only {
            [] => below.rows.clone(),
            only => Rows::Picked(self.pick(&below, only)),
        };
        Some(Relation { name: view.name, doc: view.doc, rows, columns, strings: below.strings })
    }

    fn column(&self, below: &Relation<'a>, (name, what): &Named) -> Option<Column<'a>> {
        let doc = |column: &Column<'_>| column.doc;
        let doc = match what {
            What::Same => find(below, name).map(doc),
            What::As(other) => find(below, other).map(doc),
            What::Through(_, table, other) => {
                self.table(table).as_ref().and_then(|it| find(it, other)).map(doc)
            }
            What::Argument(..) => Some("What its source says of it."),
            What::Sum(..) => None,
        };
        let source = self.source(below, name, *what)?;
        Some(Column { name, doc: doc.unwrap_or_default(), is_spare: false, source })
    }

    fn source(&self, below: &Relation<'a>, name: &str, what: What) -> Option<Source<'a>> {
        let cells = |relation: &Relation<'a>, name| match find(relation, name)?.source {
            Source::Cells(cells) | Source::SetOf(cells, _) => Some(cells),
            _ => None,
        };
        Some(match what {
            What::Same => find(below, name)?.source,
            What::As(other) => find(below, other)?.source,
            What::Sum(one, other) => Source::Sum(cells(below, one)?, cells(below, other)?),
            What::Through(there, table, column) => {
                Source::Through(cells(below, there)?, cells(&self.table(table)?, column)?)
            }
            What::Argument(set, key) => Source::Argument {
                set: cells(below, set)?,
                key: self.tables.strings.find(key),
                args: &self.tables.args,
            },
        })
    }

    /// The rows of which all of it holds.
    fn pick(&self, below: &Relation<'a>, only: &[Only]) -> Vec<u32> {
        let wanted: Option<Vec<_>> = only.iter().map(|only| self.wanted(below, only)).collect();
        // A text that the trace does not have stands in no row.
        let Some(wanted) = wanted else { return Vec::new() };
        let holds = |row: usize| {
            wanted.iter().all(|(column, value)| match (below.cell(column, row), value) {
                (found, Some(value)) => found == *value,
                (found, None) => found != Value::Null,
            })
        };
        (0..below.len()).filter(|row| holds(*row)).filter_map(|row| u32::try_from(row).ok()).collect()
    }

    fn wanted(&self, below: &Relation<'a>, only: &Only) -> Option<(Column<'a>, Option<Value>)> {
        let (name, value) = match only {
            Only::Is(name, text) => (name, Some(Value::Str(self.tables.strings.find(text)?))),
            Only::Number(name, number) => (name, Some(Value::Int(*number))),
            Only::Set(name) => (name, None),
        };
        find(below, name).map(|column| (*column, value))
    }
}

fn views() -> impl Iterator<Item = &'static View> {
    TRACKS.iter().chain(SAMPLES).chain(OTHERS)
}

fn find<'b, 'a>(relation: &'b Relation<'a>, name: &str) -> Option<&'b Column<'a>> {
    relation.columns.iter().find(|column| column.name == name)
}

fn is_key(what: What) -> bool {
    matches!(what, What::As("id"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ferretto_trace_tables::tables::{
        ArgRow, CounterRow, CpuRow, ProfilerSampleRow, ProfilerTaskContextRow, SchedRow, SliceRow, ThreadRow,
        TrackRow,
    };
    use ferretto_trace_tables::{ArgSetId, TaskContextId, TrackId, Ucpu, Utid};

    use super::*;

    /// A relation as text, a line a row.
    fn rows(tables: &Tables, name: &str, columns: &[&str]) -> Vec<String> {
        let relation = Catalog::new(tables).find(name).unwrap_or_else(|| panic!("there is no {name}"));
        let cell = |row, name: &str| {
            let column = find(&relation, name).unwrap_or_else(|| panic!("there is no {name}"));
            match relation.cell(column, row) {
                Value::Null => "-".to_owned(),
                Value::Int(value) => value.to_string(),
                Value::Real(value) => value.to_string(),
                Value::Bool(value) => value.to_string(),
                Value::Str(text) => relation.text(text).to_owned(),
            }
        };
        let line = |row| columns.iter().map(|name| cell(row, name)).collect::<Vec<_>>().join(" ");
        (0..relation.len()).map(line).collect()
    }

    fn trace() -> Tables {
        let mut tables = Tables::default();
        let mut text = |text: &str| Some(tables.strings.intern(text));
        let (slice, counter, main, load, percent) =
            (text("slice"), text("counter"), text("main"), text("load"), text("%"));
        let (description, busy) = (text("description"), text("how busy it is"));
        tables.args.push(ArgRow {
            arg_set_id: ArgSetId(0),
            key: percent,
            string_value: percent,
            ..ArgRow::default()
        });
        for key in [main, description] {
            tables.args.push(ArgRow {
                arg_set_id: ArgSetId(1),
                key,
                string_value: busy,
                ..ArgRow::default()
            });
        }
        let track = TrackRow { event_type: slice, ..TrackRow::default() };
        tables.track.push(TrackRow { name: main, utid: Some(Utid(1)), ..track });
        tables.track.push(track);
        tables.track.push(TrackRow {
            event_type: counter,
            name: load,
            counter_unit: percent,
            cpu: Some(3),
            source_arg_set_id: Some(ArgSetId(1)),
            ..TrackRow::default()
        });
        tables.counter.push(CounterRow { ts: 7, track_id: TrackId(2), value: 0.5, ..CounterRow::default() });
        tables.thread.push(ThreadRow { tid: 42, ..ThreadRow::default() });
        tables.sched.push(SchedRow { ts: 10, dur: 5, ucpu: Ucpu(3), ..SchedRow::default() });
        tables.slice.push(SliceRow { ts: 20, dur: 0, category: main, ..SliceRow::default() });
        tables.slice.push(SliceRow { ts: 10, dur: 5, ..SliceRow::default() });
        tables.cpu.push(CpuRow { ucpu: Ucpu(4099), cpu: 3, ..CpuRow::default() });
        let perf = Some(tables.strings.intern("linux.perf"));
        tables
            .profiler_task_context
            .push(ProfilerTaskContextRow { utid: Some(Utid(5)), ..ProfilerTaskContextRow::default() });
        for (ts, source) in [(1, None), (2, perf)] {
            let task_context_id = Some(TaskContextId(0));
            tables.profiler_sample.push(ProfilerSampleRow {
                ts,
                source,
                task_context_id,
                ..ProfilerSampleRow::default()
            });
        }
        tables
    }

    #[test]
    fn views_have_the_rows_and_columns_that_they_name() {
        let tables = trace();
        for (name, columns, expected) in [
            ("thread_track", &["id", "name", "utid"][..], &["0 main 1"][..]),
            ("process_track", &["id"], &[]),
            ("counter_track", &["id", "name", "unit", "description"], &["2 load % how busy it is"]),
            ("cpu_counter_track", &["id", "cpu"], &["2 3"]),
            ("state_track", &["id"], &[]),
            ("counters", &["id", "ts", "value", "name", "unit"], &["0 7 0.5 load %"]),
            ("thread", &["id", "utid", "tid"], &["0 0 42"]),
            ("sched", &["id", "ts", "dur", "cpu", "ucpu", "ts_end"], &["0 10 5 3 3 15"]),
            ("sched_slice", &["id", "ts", "dur", "cpu"], &["0 10 5 3"]),
            ("slices", &["id", "slice_id", "cat"], &["0 0 main", "1 1 -"]),
            ("instant", &["ts"], &["20"]),
            ("cpu", &["id", "ucpu", "cpu"], &["4099 4099 3"]),
            ("perf_sample", &["id", "ts", "utid", "cpu"], &["1 2 5 -"]),
            ("stack_sample", &["id"], &[]),
        ] {
            assert_eq!(rows(&tables, name, columns), expected, "{name}");
        }
    }

    #[test]
    fn every_name_is_there_once_and_every_column_of_a_definition_exists() {
        let tables = Tables::default();
        let catalog = Catalog::new(&tables);
        let mut names = BTreeSet::new();
        for name in catalog.names() {
            assert!(names.insert(name), "{name} twice");
            let relation = catalog.find(name).unwrap();
            let mut columns = BTreeSet::new();
            for column in relation.columns() {
                assert!(columns.insert(column.name), "{name}.{} twice", column.name);
                assert!(!column.doc.is_empty(), "{name}.{}", column.name);
            }
        }
        for view in views() {
            let found = catalog.find(view.name).unwrap();
            let expected = if view.columns.is_empty() {
                catalog.find(view.of).unwrap().columns.len()
            } else {
                view.columns.len()
            };
            assert_eq!(found.columns.len(), expected, "{}", view.name);
        }
        for (table, name, ..) in ADDED {
            assert!(find(&catalog.find(table).unwrap(), name).is_some(), "{table}.{name}");
        }
    }

    #[test]
    fn the_page_on_reading_names_every_table_and_view() {
        let page = include_str!("../../../../docs/reading.md");
        for name in Catalog::new(&Tables::default()).names() {
            assert!(page.contains(&format!("`{name}`")), "docs/reading.md does not have {name}");
        }
    }

    #[test]
    fn files_are_by_time_and_have_no_spare_columns() {
        let tables = trace();
        let files = Catalog::new(&tables).files();
        assert!(!files.iter().any(|file| file.name() == "slices"));
        let slices = files.into_iter().find(|file| file.name() == "slice").unwrap().by_time();
        assert!(find(&slices, "cat").is_none());
        let ids: Vec<_> = (0..2).map(|row| slices.cell(find(&slices, "id").unwrap(), row)).collect();
        assert_eq!(ids, [Value::Int(1), Value::Int(0)]);
    }
}
