//! Statements that would take all of the machine: each ends with rows, or with a message that names the bound that it has reached, in bounded
//! memory. A case a row.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use ferretto_analysis::{Error, Options, Stop, Trace};
use ferretto_trace_tables::tables::{SliceRow, ThreadRow, TrackRow};
use ferretto_trace_tables::{SliceId, Tables, TrackId, Utid};

/// What queries may have of memory.
const MEMORY: u64 = 32 << 20;
/// What else the process may come to: texts and plans while they are made.
const BESIDE: u64 = 400 << 20;
/// How long a query may work of which nothing but its end is expected; and one that is to have rows, or a message, on a slow machine.
const TIMEOUT: Duration = Duration::from_secs(1);
const ENOUGH: Duration = Duration::from_secs(60);
/// How long a case may take, whatever ends it: on a slow machine, unoptimized.
const PATIENCE: Duration = Duration::from_secs(120);

/// A few thousand slices, each within the one before it, ten deep.
fn tables() -> Tables {
    let mut tables = Tables::default();
    let name = Some(tables.strings.intern("main"));
    let utid = Utid(tables.thread.push(ThreadRow { tid: 1, name, ..ThreadRow::default() }));
    let event_type = Some(tables.strings.intern("slice"));
    tables.track.push(TrackRow { name, event_type, utid: Some(utid), ..TrackRow::default() });
    for n in 0..3000u32 {
        let depth = n % 10;
        let row = SliceRow {
            ts: i64::from(n) * 10,
            dur: i64::from(100 - n % 10),
            track_id: TrackId(0),
            name: Some(tables.strings.intern(&format!("a slice of the number {n}"))),
            depth,
            parent_id: (depth > 0).then(|| SliceId(n - 1)),
            ..SliceRow::default()
        };
        tables.slice.push(row);
    }
    tables
}

fn trace(timeout: Duration) -> Trace {
    let options = Options { memory_bytes: MEMORY, threads: 2, timeout, path: None };
    Trace::of(tables(), &options).unwrap()
}

fn run(trace: &Trace, sql: &str) -> Result<usize, Error> {
    let mut rows = 0;
    for batch in trace.query(sql)? {
        rows += batch?.num_rows();
    }
    Ok(rows)
}

/// A line of `/proc/self/status`, in bytes.
fn status(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// What may come of a case.
enum Ends {
    /// Rows, so many.
    With(usize),
    /// A message with these words.
    Saying(&'static str),
    /// Either: it is on the edge.
    Somehow,
}
use Ends::{Saying, Somehow, With};

fn nested(open: &str, inner: &str, close: &str, count: usize) -> String {
    format!("{}{inner}{}", open.repeat(count), close.repeat(count))
}

/// `with q0 as (…), q1 as (select … from q0 …), … select … from the last one`.
fn chain(count: usize, first: &str, next: impl Fn(usize) -> String, last: &str) -> String {
    let named: Vec<String> = (1..count).map(|n| format!("q{n} as ({})", next(n - 1))).collect();
    let end = last.replace("LAST", &format!("q{}", count - 1));
    format!("with q0 as ({first}), {} {end}", named.join(", "))
}

fn statements(count: usize, one: impl Fn(usize) -> String, last: &str) -> String {
    let all: Vec<String> = (0..count).map(one).collect();
    format!("{};{last}", all.join(";"))
}

const DEEP: Ends = Saying("too deep");
const TIME: &str = "more than its time";
const MEM: Ends = Saying("more memory than it may have");

fn cases() -> Vec<(&'static str, String, Ends)> {
    let megabyte = "x".repeat(1 << 20);
    vec![
        // Depth.
        ("brackets", format!("select {}", nested("(", "1", ")", 100_000)), DEEP),
        ("brackets on the edge", format!("select {}", nested("(", "1", ")", 190)), With(1)),
        ("brackets that close nothing", format!("select 1{}", ")".repeat(100_000)), Saying("expected")),
        ("brackets that nothing closes", format!("select {}1", "(".repeat(190)), Saying("expected")),
        ("subqueries", nested("select * from (", "select 1", ")", 10_000), DEEP),
        ("subqueries on the edge", nested("select * from (", "select 1", ")", 60), With(1)),
        ("subqueries as values", nested("select (", "select 1", ")", 10_000), DEEP),
        ("subqueries as values on the edge", nested("select (", "select 1", ")", 60), Somehow),
        ("exists of exists", nested("select 1 where exists (", "select 1", ")", 60), Somehow),
        ("functions of functions", format!("select {}", nested("abs(", "1", ")", 50_000)), DEEP),
        ("functions of functions on the edge", format!("select {}", nested("abs(", "1", ")", 190)), With(1)),
        ("sums", format!("select 1{}", " + 1".repeat(100_000)), DEEP),
        ("ors", format!("select 1 from slice where id = 1{}", " or id = 1".repeat(100_000)), DEEP),
        ("ors on the edge", format!("select 1 from slice where id = 1{}", " or id = 1".repeat(700)), Somehow),
        ("ors of different ones on the edge", {
            let all: Vec<String> = (0..700).map(|n| format!("id = {n}")).collect();
            format!("select 1 from slice where {}", all.join(" or "))
        }, With(700)),
        ("ands", format!("select 1 from slice where id = 1{}", " and id = 1".repeat(100_000)), DEEP),
        ("bars", format!("select 'x'{}", " || 'x'".repeat(100_000)), DEEP),
        ("bars on the edge", format!("select 'x'{}", " || 'x'".repeat(1400)), With(1)),
        ("unions", format!("select 1, 2{}", " union all select 1, 2".repeat(50_000)), DEEP),
        ("unions on the edge", format!("select 1, 2{}", " union all select 1, 2".repeat(1400)), Somehow),
        ("unions of different ones on the edge", format!("select 1, 2{}", " union select 1, 2".repeat(300)), Somehow),
        ("cases", format!("select {}", nested("case when 1 then ", "1", " else 2 end", 50_000)), DEEP),
        ("cases on the edge", format!("select {}", nested("case when 1 then ", "1", " else 2 end", 1400)), Somehow),
        ("whens", format!("select case id {} end from slice", "when 1 then 2 ".repeat(50_000)), Somehow),
        ("signs", format!("select {}1", "- ".repeat(100_000)), DEEP),
        ("nots", format!("select {}1", "not ".repeat(100_000)), DEEP),
        ("globs", format!("select 'a'{}", " glob 'a'".repeat(100_000)), DEEP),
        ("types", format!("select 1{}", "::int".repeat(100_000)), DEEP),
        ("collations", format!("select 'a'{}", " collate nocase".repeat(100_000)), DEEP),
        ("explains", format!("{}select 1", "explain ".repeat(100_000)), DEEP),
        ("arrays of arrays", format!("select cast(1 as {})", nested("array<", "int", ">", 50_000)), DEEP),
        ("joins in brackets", format!("select 1 from {}", nested("(", "slice", " join slice)", 10_000)), DEEP),
        ("withs in withs", nested("with a as (", "select 1", ") select * from a", 10_000), DEEP),
        // Length.
        ("a long text", format!("select 1 -- {}", megabyte.repeat(3)), Saying("more than 2 MB")),
        ("values in a list", format!("select count(*) from slice where id in ({})", vec!["7"; 200_000].join(",")), Somehow),
        ("columns", format!("select {}", vec!["1"; 100_000].join(",")), Saying("and may have 2000")),
        ("columns on the edge", format!("select {}", (0..2000).map(|n| n.to_string()).collect::<Vec<_>>().join(",")), With(1)),
        ("columns in quotes", format!("select {} from slice", (0..2000).map(|n| format!("\"t{n}\"")).collect::<Vec<_>>().join(",")), Somehow),
        ("columns to sort by", format!("select id from slice order by {}", vec!["id"; 50_000].join(",")), Somehow),
        ("columns to group by", format!("select 1 from slice group by {}", vec!["id"; 5_000].join(",")), Somehow),
        ("rows", format!("values {}", vec!["(1)"; 100_000].join(",")), Somehow),
        ("statements", statements(5_000, |_| "select 1".to_owned(), "select 2"), Somehow),
        ("statements of nothing", ";".repeat(1 << 20), With(0)),
        ("a long name of a table", format!("select 1 from {megabyte}"), Saying("more than 1000 bytes")),
        ("a long name of a column", format!("select {megabyte} from slice"), Saying("more than 1000 bytes")),
        ("a long name of a function", format!("select {megabyte}(1)"), Saying("more than 1000 bytes")),
        ("a long name of a module", format!("include perfetto module {megabyte}"), Saying("more than 1000 bytes")),
        ("a long alias", format!("select 1 as {megabyte}"), Saying("more than 1000 bytes")),
        ("a long text as a value", format!("select '{megabyte}'"), With(1)),
        ("letters of many bytes on one line", statements(2_000, |_| "select 'é', 1".to_owned(), "select 2"), Somehow),
        // Joins of everything.
        ("counted", "select count(*) from slice a, slice b, slice c".into(), Saying(TIME)),
        ("shown", "select * from slice a, slice b, slice c".into(), MEM),
        ("kept", "create table t as select a.* from slice a, slice b, slice c".into(), MEM),
        ("kept by perfetto", "create perfetto table t as select a.name || b.name as x from slice a, slice b, slice c".into(), MEM),
        ("sorted", "select a.name from slice a, slice b, slice c order by a.name || b.name || c.name".into(), Somehow),
        ("grouped", "select a.id, b.id, c.id, count(*) from slice a, slice b, slice c group by 1, 2, 3".into(), Somehow),
        ("distinct", "select distinct a.id, b.id, c.id from slice a, slice b, slice c".into(), Somehow),
        ("counted distinct", "select count(distinct a.id * 3000 + b.id) from slice a, slice b, slice c".into(), Somehow),
        ("in windows", "select sum(a.id) over () from slice a, slice b, slice c".into(), MEM),
        ("in ordered windows", "select row_number() over (order by a.id + b.id) from slice a, slice b, slice c".into(), Somehow),
        ("in windows that look far", "select lead(a.id, 100000000) over (order by a.id) from slice a, slice b, slice c".into(), Somehow),
        ("in one text", "select group_concat(a.name) from slice a, slice b, slice c".into(), Somehow),
        ("in one text each", "select a.id, group_concat(b.name) from slice a, slice b, slice c group by 1".into(), Somehow),
        ("by conditions that nothing meets", "select count(*) from slice a, slice b, slice c where a.id + b.id + c.id < 0".into(), Saying(TIME)),
        ("by inequalities", "select count(*) from slice a join slice b on a.ts < b.ts join slice c on b.ts < c.ts".into(), Saying(TIME)),
        ("in subqueries", "select count(*) from slice a where exists (select 1 from slice b, slice c where a.id + b.id + c.id < 0)".into(), Somehow),
        ("more than 64", format!("select 1 from {}", vec!["slice"; 500].join(", ")), Saying("joins more than 64 tables")),
        ("64", format!("select count(*) from {}", (0..64).map(|n| format!("slice s{n}")).collect::<Vec<_>>().join(", ")), Somehow),
        ("64 by keys", {
            let joins: Vec<String> = (1..60).map(|n| format!("join slice s{n} on s{n}.id = s0.id")).collect();
            format!("select count(*) from slice s0 {}", joins.join(" "))
        }, With(1)),
        // Recursion.
        ("a recursion without an end", "with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c".into(), Saying(TIME)),
        ("a recursion that doubles", "with recursive c(x) as (select 1 union all select x + 1 from c union all select x from c) select count(*) from c".into(), Somehow),
        ("a recursion over everything", "with recursive c(x) as (select id from slice union all select c.x from c, slice) select count(*) from c".into(), Somehow),
        ("a recursion of different ones", "with recursive c(x) as (select 1 union select x + 1 from c) select count(*) from c".into(), Somehow),
        ("a recursion of texts", "with recursive c(x) as (select 'abcdefgh' union all select x || x from c) select length(x) from c".into(), MEM),
        // Texts that grow.
        ("a wide number", "select printf('%1000000000d', 1)".into(), Saying("wider than 10000")),
        ("a wide number by argument", "select printf('%*d', 1000000000, 1)".into(), Saying("wider than 10000")),
        ("many digits", "select printf('%.1000000000f', 1)".into(), Saying("wider than 10000")),
        ("many wide numbers", format!("select printf('{}')", "%9999d".repeat(10_000)), Saying("no more than 1048576 bytes")),
        ("a wide number a row", format!("select printf('{}', a.id) from slice a, slice b", "%9999d".repeat(20)), Saying("64 MB of texts")),
        ("zeroes", "select zeroblob(1000000000)".into(), Saying("nvalid function")),
        ("repetitions", "select repeat('x', 1000000000)".into(), Saying("nvalid function")),
        ("padding", "select lpad('x', 1000000000)".into(), Saying("nvalid function")),
        ("hex of hex", format!("select {}", nested("hex(", "'abc'", ")", 60)), Somehow),
        ("quotes of quotes", format!("select {}", nested("quote(", "''''", ")", 60)), Somehow),
        ("replacements of replacements", format!("select {}", nested("replace(", "'aaaaaaaaaa'", ", 'a', 'aaaaaaaaaa')", 30)), Somehow),
        ("doubled texts", chain(60, "select 'abcdefgh' x", |n| format!("select x || x as x from q{n}"), "select length(x) from LAST"), Somehow),
        ("doubled texts of rows", chain(60, "select name x from slice", |n| format!("select x || x as x from q{n}"), "select max(length(x)) from LAST"), Somehow),
        // Patterns.
        ("a huge pattern", "select regexp('(((a{1000}){1000}){1000})', 'a')".into(), Saying("takes more than 1048576 bytes")),
        ("a long pattern", format!("select regexp('{}', 'a')", r"\w".repeat(100_000)), Saying("more than 10000 bytes")),
        ("a pattern that goes back", "select regexp('(a*)*(a*)*(a*)*b', printf('%9000d', 1))".into(), With(1)),
        ("a pattern of glob", format!("select '{}' glob '{}b'", "a".repeat(100_000), "*a".repeat(3000)), Somehow),
        ("a long pattern of glob", format!("select 'a' glob '{}b'", "*a".repeat(100_000)), Saying("more than 10000 bytes")),
        ("a pattern of like", format!("select '{}' like '{}b'", "a".repeat(100_000), "%a".repeat(100_000)), Saying("more than 10000 bytes")),
        // Macros and functions.
        ("a macro that calls itself", "create perfetto macro a() returns Expr as a!(); select a!()".into(), Saying("more than 64 deep")),
        ("macros that double", {
            let doubled = |n: usize| match n {
                0 => "create perfetto macro m0(x Expr) returns Expr as $x + $x".to_owned(),
                n => format!("create perfetto macro m{n}(x Expr) returns Expr as m{}!(m{}!($x))", n - 1, n - 1),
            };
            statements(20, doubled, "select m19!(1)")
        }, Somehow),
        ("macros of nothing", {
            let more = |n: usize| match n {
                0 => "create perfetto macro m0() returns Expr as ".to_owned(),
                n => format!("create perfetto macro m{n}() returns Expr as {}", format!("m{}!() ", n - 1).repeat(10)),
            };
            statements(20, more, "select 1 m19!()")
        }, Saying("524288 words")),
        ("a macro of a long text", format!("create perfetto macro m(x Expr) returns Expr as {}; select m!('{megabyte}')", vec!["$x"; 1000].join(",")), Saying("524288 words")),
        ("a function that calls itself", "create perfetto function f(x long) returns long as select f($x)".into(), Saying("calls itself")),
        ("functions in a circle", "create perfetto function f(x long) returns long as select 1; create perfetto function g(x long) returns long as select f($x); create or replace perfetto function f(x long) returns long as select g($x)".into(), Saying("calls itself")),
        ("functions that double", {
            let doubled = |n: usize| match n {
                0 => "create perfetto function f0(x long) returns long as select $x + $x".to_owned(),
                n => format!("create perfetto function f{n}(x long) returns long as select f{}($x) + f{}($x)", n - 1, n - 1),
            };
            statements(30, doubled, "select f29(1)")
        }, Saying("262144 expressions")),
        ("functions of large arguments", format!("create perfetto function f(x long) returns long as select {}; select f({})", vec!["$x"; 1000].join("+"), vec!["1"; 1000].join("+")), Saying("262144 expressions")),
        ("functions that make a chain", {
            let deeper = |n: usize| match n {
                0 => format!("create perfetto function f0(x long) returns long as select {}", nested("(", "$x", ")", 190)),
                n => format!("create perfetto function f{n}(x long) returns long as select f{}({})", n - 1, nested("(", "$x", ")", 190)),
            };
            statements(20, deeper, "select f19(1)")
        }, Saying("1500 expressions deep")),
        // Views and named queries.
        ("views upon views", statements(2_000, |n| match n {
            0 => "create view v0 as select 1 x".to_owned(),
            n => format!("create view v{n} as select * from v{}", n - 1),
        }, "select * from v1999"), Somehow),
        ("views that double", statements(40, |n| match n {
            0 => "create view v0 as select id from slice".to_owned(),
            n => format!("create view v{n} as select a.id from v{} a join v{} b on a.id = b.id", n - 1, n - 1),
        }, "select * from v39"), Saying("reads tables more than 2000")),
        ("views of many columns", statements(40, |n| match n {
            0 => "create view v0 as select * from slice".to_owned(),
            n => format!("create view v{n} as select * from v{} a, v{} b", n - 1, n - 1),
        }, "select * from v39"), Somehow),
        ("named queries that double", chain(40, "select 1 x", |n| format!("select a.x from q{n} a, q{n} b"), "select * from LAST"), Saying("reads tables more than 2000")),
        ("named queries of many columns", chain(40, "select 1 x", |n| format!("select * from q{n} a, q{n} b"), "select 1 from LAST"), Saying("and may have 2000")),
        ("named queries of one another", chain(200, "select id x from slice", |n| format!("select x + 1 as x from q{n}"), "select count(*) from LAST where x > 1"), Somehow),
        ("named queries whose columns double", chain(60, "select id x from slice", |n| format!("select x + x as x from q{n}"), "select count(*) from LAST where x > 1"), Saying("made of more than 16384")),
        ("named queries whose columns double, without a condition", chain(60, "select id x from slice", |n| format!("select x + x as x from q{n}"), "select count(x) from LAST"), Saying("made of more than 16384")),
        ("a view of itself", "create view v as select * from v".into(), Saying("there is no table")),
        ("a module in a circle", "include perfetto module *; include perfetto module *; select 1".into(), With(1)),
        // Operators on whole tables.
        ("a join of spans with each partition", "create perfetto table a as select id as p, ts, dur from slice; create perfetto table b as select x.ts * 3000 + y.id as ts, 1 as dur from slice x, slice y where y.id < 30; create virtual table j using span_join(a partitioned p, b); select count(*) from j".into(), Somehow),
        ("a join of spans of everything", "create view a as select a.id as p, b.ts, b.dur from slice a, slice b, slice c; create view b as select c.id as q, ts, dur from slice c; create virtual table j using span_join(a partitioned p, b); select count(*) from j".into(), MEM),
        ("joins of spans upon each other", statements(30, |n| match n {
            0 => "create view v0 as select ts, dur, id as i0 from slice".to_owned(),
            n => format!("create view w{n} as select ts, dur, i0 as j{n} from v{}; create virtual table j{n} using span_join(v{}, w{n}); create view v{n} as select ts, dur, i0 from j{n}", n - 1, n - 1),
        }, "select count(*) from v29"), Saying("reads tables more than 2000")),
        ("overlaps of everything", "include perfetto module intervals.intersect; select count(*) from _interval_intersect!((slice_all, slice_all, slice_all), ())".replace("slice_all", "(select a.id as id, 0 as ts, 1000 as dur from slice a)"), Somehow),
        ("a graph that goes round", "include perfetto module graphs.scan; select count(*) from _graph_scan!((select id as source_node_id, (id + 1) % 3000 as dest_node_id from slice), (select 1 as id, 0 as n), (n), (select id, n + 1 as n from $table))".into(), Somehow),
    ]
}

/// What the environment has the name of a case in, for a process that runs it.
const CASE: &str = "HOSTILE_SQL_CASE";
/// What that says before rows, a message, milliseconds and megabytes.
const SAYS: &str = "HOSTILE: ";

/// A case in a process of its own: what it is, how long it took, and the most memory that it had beyond what there was before.
fn run_apart(name: &str) -> Result<(Result<usize, String>, Duration, u64), String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["one_case", "--exact", "--nocapture"]).env(CASE, name).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let broken = || format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    let line = said.lines().find_map(|line| line.split_once(SAYS)).ok_or_else(broken)?.1;
    let parts: Vec<&str> = line.splitn(4, '|').collect();
    let [millis, bytes, rows, message] = parts.as_slice() else { return Err(broken()) };
    let found = rows.parse::<usize>().map_err(|_| (*message).to_owned());
    Ok((found, Duration::from_millis(millis.parse().unwrap()), bytes.parse().unwrap()))
}

/// The process for a case; nothing where there is none.
#[test]
fn one_case() {
    let Ok(name) = std::env::var(CASE) else { return };
    let (_, sql, ends) = cases().into_iter().find(|(it, ..)| *it == name).unwrap();
    let is_of_time = matches!(ends, Somehow | Saying(TIME));
    let trace = trace(if is_of_time { TIMEOUT } else { ENOUGH });
    let before = status("VmRSS:");
    let since = Instant::now();
    let found = run(&trace, &sql);
    let (time, peak) = (since.elapsed().as_millis(), status("VmHWM:").saturating_sub(before));
    let (rows, message) = match found {
        Ok(rows) => (rows.to_string(), String::new()),
        Err(error) => ("-".to_owned(), error.to_string().replace('\n', " ")),
    };
    println!("\n{SAYS}{time}|{peak}|{rows}|{message}");
    // Threads that are still busy are of no use to anybody.
    std::process::exit(0);
}

#[test]
fn hostile_statements_end_by_a_bound_that_they_name() {
    let mut wrong = Vec::new();
    let only = std::env::var("HOSTILE").unwrap_or_default();
    for (name, _, ends) in cases().into_iter().filter(|(name, ..)| name.contains(&only)) {
        let (found, time, peak) = match run_apart(name) {
            Ok(done) => done,
            Err(broken) => {
                println!("{name}: {broken}");
                wrong.push(format!("{name}: {broken}"));
                continue;
            }
        };
        let is_right = match (&ends, &found) {
            (With(rows), Ok(found)) => rows == found,
            (Saying(words), Err(message)) => message.contains(words),
            (Somehow, Ok(_)) => true,
            // Somehow, but not by a mistake of ours.
            (Somehow, Err(message)) => !message.contains("broke off"),
            _ => false,
        };
        let said: String = found.map_or_else(|message| message, |rows| format!("{rows} rows"));
        let said: String = said.chars().take(150).collect();
        println!("{:7.2} s {:5} MB  {name}: {said}", time.as_secs_f64(), peak >> 20);
        if !is_right {
            wrong.push(format!("{name}: {said}"));
        }
        if time > PATIENCE {
            wrong.push(format!("{name}: took {time:?}"));
        }
        if peak > MEMORY + BESIDE {
            wrong.push(format!("{name}: {} MB", peak >> 20));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_query_that_is_ended_ends_and_the_next_one_is_answered() {
    let trace = trace(ENOUGH);
    for sql in [
        "select count(*) from slice a, slice b, slice c, slice d",
        "create table t as select count(*) from slice a, slice b, slice c, slice d",
        "with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c",
    ] {
        let stop = Stop::new();
        std::thread::scope(|scope| {
            let asked =
                scope.spawn(|| trace.query_until(sql, &stop)?.try_for_each(|batch| batch.map(|_| ())));
            std::thread::sleep(Duration::from_millis(200));
            stop.stop();
            let since = Instant::now();
            let error = asked.join().unwrap().unwrap_err();
            assert_eq!(error.to_string(), "the query was ended");
            assert!(since.elapsed() < Duration::from_secs(3));
        });
        assert_eq!(run(&trace, "select id from slice limit 3").unwrap(), 3);
    }
}

#[test]
fn rows_that_nobody_takes_are_made_no_more() {
    let trace = trace(ENOUGH);
    for _ in 0..20 {
        let rows = trace.query("select count(*) from slice a, slice b, slice c, slice d").unwrap();
        drop(rows);
    }
    // Else they would have the threads.
    let since = Instant::now();
    assert_eq!(run(&trace, "select id from slice limit 3").unwrap(), 3);
    assert!(since.elapsed() < Duration::from_secs(3));
}

#[test]
fn what_a_module_makes_is_there_also_if_the_first_query_of_it_was_ended() {
    let trace = trace(ENOUGH);
    let stop = Stop::new();
    stop.stop();
    let sql = "include perfetto module slices.with_context; select count(*) from thread_slice";
    assert!(trace.query_until(sql, &stop).is_err());
    assert_eq!(run(&trace, sql).unwrap(), 1);
}
