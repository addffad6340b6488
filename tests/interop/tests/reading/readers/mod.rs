//! What we write of a trace, read by others: counts and sums are those of our tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::Command;

use ferretto_convert::txt::TraceOfText;
use ferretto_convert::{Error, Folder, Form, Out, Source, find, into_file, into_folder, packets};
use ferretto_import::{Imported, Options, import};
use ferretto_interop::{browser, need, readers, trace_query};
use ferretto_trace_tables::{Tables, Value};

use crate::kinds::{Kind, folder};

/// A trace that was read, and what it is written as.
struct Read {
    kind: Kind,
    tables: Tables,
    imported: Imported,
}

impl Read {
    fn of(kind: Kind, trace: &Path) -> Self {
        let file = File::open(trace).expect("the trace");
        let (tables, imported) = import(file, &Options::default(), &mut |_| true).expect("a trace");
        Self { kind, tables, imported }
    }

    fn source(&self) -> Source<'_> {
        Source { name: "trace", tables: &self.tables, imported: &self.imported }
    }

    /// As a file of a format.
    fn as_file(&self, format: &str) -> PathBuf {
        let path = folder().join(format!("{:?}.{format}", self.kind));
        let mut out = BufWriter::new(File::create(&path).expect("a file"));
        into_file(find(format).expect("a format"), &self.source(), None, &Default::default(), &mut out)
            .expect("it is written");
        path
    }

    /// As a folder of files of a format.
    fn as_folder(&self, format: &str) -> PathBuf {
        let path = folder().join(format!("{:?}.{format}", self.kind));
        _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        into_folder(
            find(format).expect("a format"),
            &self.source(),
            &Default::default(),
            &mut OnDisk(path.clone()),
        )
        .expect("it is written");
        path
    }
}

struct OnDisk(PathBuf);

impl Folder for OnDisk {
    fn create(&mut self, name: &str) -> Result<Box<Out<'_>>, Error> {
        Ok(Box::new(BufWriter::new(File::create(self.0.join(name))?)))
    }
}

/// What readers.py says of files: numbers by name.
fn said(mut command: Command, what: &str, path: &Path) -> BTreeMap<String, f64> {
    command.arg(what).arg(path);
    numbers(command)
}

/// What a program says in lines of a name and a number.
fn numbers(mut command: Command) -> BTreeMap<String, f64> {
    let output = command.output().expect("the reader runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let number = |line: &str| {
        let (name, number) = line.split_once('\t').expect("a name and a number");
        (name.to_owned(), number.parse().unwrap_or_else(|_| panic!("{line}")))
    };
    text.lines().map(number).collect()
}

/// Up to what adding in another order loses.
fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs())
}

fn check_parquet(kind: Kind) {
    let command = need!(readers());
    let read = Read::of(kind, &need!(kind.trace()));
    let said = said(command, "parquet", &read.as_folder("parquet"));
    let mut columns = 0;
    for table in read.tables.all() {
        let name = table.name();
        let Some(rows) = said.get(name) else { panic!("there is no file of {name}") };
        assert_eq!(*rows, table.len() as f64, "{name}");
        for column in table.columns() {
            let number = |row| match column.data.get(row) {
                Value::Int(value) => Some(value as f64),
                Value::Real(value) => Some(value),
                _ => None,
            };
            let Some(found) = said.get(&format!("{name}.{}", column.name)) else { continue };
            // Sets of arguments have other numbers in files (ferretto-arrow-tables, `arg_sets`): no sum to compare.
            if column.name.ends_with("arg_set_id") {
                continue;
            }
            let sum: f64 = (0..table.len()).filter_map(number).sum();
            assert!(is_near(*found, sum), "{name}.{}: {found}, {sum} in the table", column.name);
            columns += 1;
        }
    }
    assert!(columns > 50, "{columns} columns of numbers");
}

#[test]
fn duckdb_and_pyarrow_read_parquet_of_a_machine() {
    check_parquet(Kind::ProbesCompact);
}

#[test]
fn duckdb_and_pyarrow_read_parquet_of_samples() {
    check_parquet(Kind::Samples);
}

#[test]
fn opentelemetrys_library_reads_spans_links_and_logs() {
    let command = need!(readers());
    let read = Read::of(Kind::Tasks, &need!(Kind::Tasks.trace()));
    let said = said(command, "otlp", &read.as_folder("otlp"));
    let slices = &read.tables.slice;
    let durations: Vec<i64> = (0..slices.len()).map(|row| slices.dur.at(row)).collect();
    let count = |is: fn(&&i64) -> bool| durations.iter().filter(is).count() as f64;
    assert_eq!(said["spans"], count(|dur| **dur != 0));
    assert_eq!(said["logs"], count(|dur| **dur == 0));
    assert_eq!(said["ns"], durations.iter().filter(|dur| **dur > 0).sum::<i64>() as f64);
    let leads_to_span = |row: &usize| durations[read.tables.flow.slice_in.at(*row).index()] != 0;
    let links = (0..read.tables.flow.len()).filter(leads_to_span).count();
    assert_eq!(said["links"], links as f64);
    assert!(links > 0);
}

#[test]
fn firefoxs_profile_is_as_its_tables_say() {
    for kind in [Kind::Samples, Kind::Tasks] {
        let read = Read::of(kind, &need!(kind.trace()));
        let file = read.as_file("firefox");
        let said = said(need!(readers()), "firefox", &file);
        assert_eq!(said["samples"], samples_of_threads(&read.tables) as f64);
        assert_eq!(said["markers"], read.tables.slice.len() as f64);
    }
}

fn samples_of_threads(tables: &Tables) -> usize {
    let samples = &tables.profiler_sample;
    let has_thread = |row: &usize| {
        let context = samples.task_context_id.get(*row);
        context.is_some_and(|context| tables.profiler_task_context.utid.get(context.index()).is_some())
    };
    (0..samples.len()).filter(has_thread).count()
}

#[test]
fn protobuf_reads_pprof() {
    let read = Read::of(Kind::Samples, &need!(Kind::Samples.trace()));
    let said = said(need!(readers()), "pprof", &read.as_file("pprof"));
    let stacks = &read.tables.profiler_sample.callsite_id;
    let samples = (0..read.tables.profiler_sample.len()).filter(|row| stacks.get(*row).is_some()).count();
    assert_eq!(said.get("samples"), Some(&(samples as f64)), "{said:?}");
}

/// Chrome's events of a trace have its slices, counters, threads and flows, by Trace Processor.
#[test]
fn trace_processor_reads_chromes_events() {
    let sql = need!(trace_query());
    let trace = need!(Kind::Tasks.trace());
    let file = Read::of(Kind::Tasks, &trace).as_file("json");
    let queries = [
        "select count(*), sum(max(dur, 0)), count(distinct name) from slice",
        "select count(*), sum(value) from counter",
        "select count(distinct tid) from thread join thread_track using (utid) join slice on slice.track_id = thread_track.id",
        "select o.name, o.ts, i.name, i.ts from flow join slice o on slice_out = o.id join slice i on slice_in = i.id order by o.ts, i.ts",
    ];
    let [whole, written] = &sql.query_each(&[&trace, &file], &queries)[..] else { panic!("two answers") };
    assert_eq!(written, whole);
}

/// The UI opens what chrome://tracing would, without a complaint, and shows all of it.
#[test]
fn the_perfetto_ui_opens_chromes_events() {
    let browser = need!(browser());
    let read = Read::of(Kind::Tasks, &need!(Kind::Tasks.trace()));
    let out = folder().join("ui");
    fs::create_dir_all(&out).expect("a folder");
    let said = numbers(browser.open_page(&read.as_file("json"), &out));
    let slices = &read.tables.slice;
    let ns: i64 = (0..slices.len()).map(|row| slices.dur.at(row).max(0)).sum();
    let threads: BTreeSet<_> = (0..slices.len())
        .filter_map(|row| read.tables.track.utid.get(slices.track_id.at(row).index()))
        .collect();
    let expected = [
        ("slices", slices.len() as f64),
        ("ns", ns as f64),
        ("counters", read.tables.counter.len() as f64),
        ("threads", threads.len() as f64),
        ("flows", read.tables.flow.len() as f64),
        ("errors", 0.0),
        ("troubles", 0.0),
    ];
    assert_eq!(said, expected.map(|(name, number)| (name.to_owned(), number)).into());
    assert!(slices.len() > 100, "{} slices", slices.len());
}

/// What a program wrote, as text: by protobuf's own reader it says the same, and so do the packets that are made of it again.
#[test]
fn protobuf_reads_packets_as_text() {
    let (sql, mut command) = (need!(trace_query()), need!(readers()));
    let trace = need!(Kind::Tasks.trace());
    let dir = folder().join("Tasks.txt");
    fs::create_dir_all(&dir).expect("a folder");
    fs::copy(&trace, dir.join("trace")).expect("a copy");
    fs::write(dir.join("descriptors"), ferretto_protos::DESCRIPTORS).expect("the descriptors");
    let Form::Packets(sink) = find("txt").expect("a format").form else { panic!("it is of packets") };
    let mut text = File::create(dir.join("text")).expect("a file");
    let mut file = File::open(&trace).expect("the trace");
    let copied = packets::copy(&mut file, sink, &Default::default(), &mut text, &mut |_| {});
    let packets = copied.expect("it is written").end.packets;
    let output = command.arg("txt").arg(&dir).output().expect("the reader runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("packets\t{packets}\n"));
    let again = dir.join("again.pftrace");
    let text = BufReader::new(File::open(dir.join("text")).expect("the text"));
    std::io::copy(&mut TraceOfText::new(text), &mut File::create(&again).expect("a file")).expect("packets");
    let query = ["select ts, dur, name, category, depth from slice", "select slice_out, slice_in from flow"];
    let [before, after] = &sql.query_each(&[&trace, &again], &query)[..] else { panic!("two answers") };
    assert_eq!(after, before);
}

/// Chrome's events as packets have their slices, arguments, counters, threads and flows, by Trace Processor.
#[test]
fn trace_processor_reads_packets_made_of_chromes_events() {
    let sql = need!(trace_query());
    let json = Read::of(Kind::Tasks, &need!(Kind::Tasks.trace())).as_file("json");
    let file = Read::of(Kind::Tasks, &json).as_file("pftrace");
    let queries = [
        "select ts, dur, name, category, depth from slice order by ts, dur, name",
        "select ts, name, key, value_type, int_value, string_value, real_value from slice join args using (arg_set_id) \
         order by ts, name, key, string_value, int_value",
        "select count(*), sum(value) from counter",
        "select s.ts, tid from thread join thread_track using (utid) join slice s on s.track_id = thread_track.id order by 1, 2",
        "select o.name, o.ts, i.name, i.ts from flow join slice o on slice_out = o.id join slice i on slice_in = i.id order by o.ts, i.ts",
        "select name, value from stats where value > 0 and severity in ('error', 'data_loss')",
    ];
    let [whole, written] = &sql.query_each(&[&json, &file], &queries)[..] else { panic!("two answers") };
    assert_eq!(written, whole);
}
