//! Values of several types in one column of an answer.

use ferretto_analysis::{Options, Trace};
use ferretto_trace_tables::Tables;
use ferretto_trace_tables::tables::ThreadRow;

/// A table `t` of the numbers 0 to 3, of which the first two have a name.
fn trace() -> Trace {
    let mut tables = Tables::default();
    tables.thread.push(ThreadRow::default());
    let trace = Trace::of(tables, &Options { threads: 1, ..Options::default() }).unwrap();
    let sql = "create perfetto table t as select column1 as id, column2 as name from (values (0, 'a'), (1, 'b'), (2, null), (3, null))";
    trace.query(sql).unwrap();
    trace
}

/// The cells of all rows, each with its type.
fn shown(sql: &str) -> String {
    let rows = trace().query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut out = Vec::new();
    for rows in rows.shown() {
        let rows = rows.unwrap();
        out.extend(
            (0..rows.num_rows())
                .flat_map(|row| rows.cells(row).map(|it| format!("{it:?}")).collect::<Vec<_>>()),
        );
    }
    out.join(" ")
}

#[test]
fn each_value_has_the_type_of_what_was_chosen() {
    for (sql, expected) in [
        ("select coalesce(name, id) from t", r#"Text("a") Text("b") Int(2) Int(3)"#),
        ("select ifnull(name, id * 1.5) from t", r#"Text("a") Text("b") Real(3.0) Real(4.5)"#),
        (
            "select case id when 0 then 'x' when 1 then 1 when 2 then 2.5 end from t",
            r#"Text("x") Int(1) Real(2.5) Null"#,
        ),
        ("select iif(id = 0, 0, id / 2.0) from t", "Int(0) Real(0.5) Real(1.0) Real(1.5)"),
        ("select max(id, 1.5) from t", "Real(1.5) Real(1.5) Int(2) Int(3)"),
        ("select min(1, 1.0), max(1, 1.0), max(1, null, 2.0)", "Real(1.0) Int(1) Null"),
        (
            "select coalesce(iif(id < 2, null, id), iif(id = 0, 'x', 1.5)) from t",
            r#"Text("x") Real(1.5) Int(2) Int(3)"#,
        ),
        // A conversion that somebody wrote is one.
        ("select coalesce(name, cast(id as text)) from t where id > 1", r#"Text("2") Text("3")"#),
        // What text is a number stays a text, and numbers are exact.
        ("select iif(id = 0, '007', id + 0.1 + 0.2) from t where id < 2", r#"Text("007") Real(1.3)"#),
        ("select coalesce(null, 9223372036854775807, 0.5)", "Int(9223372036854775807)"),
    ] {
        assert_eq!(shown(sql), expected, "{sql}");
    }
}

#[test]
fn it_goes_through_sorting_limits_conditions_and_lists_of_columns() {
    for (sql, expected) in [
        ("select iif(id % 2, 'x', id) as v from t order by v limit 3", r#"Int(0) Int(2) Text("x")"#),
        ("select coalesce(name, id) from t order by id desc limit 2", "Int(3) Int(2)"),
        (
            "select b, a from (select id as a, coalesce(name, id) as b from t) where a in (0, 2)",
            r#"Text("a") Int(0) Int(2) Int(2)"#,
        ),
        ("with w as (select coalesce(name, id) as v from t) select * from w limit 1 offset 2", "Int(2)"),
    ] {
        assert_eq!(shown(sql), expected, "{sql}");
    }
}

#[test]
fn elsewhere_a_column_has_one_type() {
    for (sql, expected) in [
        ("select distinct coalesce(name, id) as v from t order by v limit 1", r#"Text("2")"#),
        ("select coalesce(name, id) as v from t where id = 2 group by v", r#"Text("2")"#),
        ("select coalesce(name, id) || '' from t where id = 2", r#"Text("2")"#),
        ("select coalesce(name, id) from t where id = 2 union all select 'x'", r#"Text("2") Text("x")"#),
    ] {
        assert_eq!(shown(sql), expected, "{sql}");
    }
    // Arrow has the type into which all fit, and no column more.
    let batches: Vec<_> =
        trace().query("select coalesce(name, id), id from t").unwrap().collect::<Result<_, _>>().unwrap();
    let types: Vec<_> = batches
        .iter()
        .flat_map(|batch| {
            batch.schema().fields().iter().map(|it| it.data_type().to_string()).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(types, ["Utf8View", "Int64"]);
}
