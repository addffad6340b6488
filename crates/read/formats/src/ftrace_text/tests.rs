use ferretto_trace_tables::{Str, Tables, Upid, consistency};
use proptest::prelude::*;

use super::*;

/// Every event; the rows below are Trace Processor's.
const TEXT: &str = include_str!("../../tests/data/ftrace.txt");
const HTML: &str = include_str!("../../tests/data/systrace.html");

fn tables_of(file: &[u8]) -> (Tables, Result<(), Error>) {
    let mut model = Model::default();
    let end = read(file, &mut model);
    let tables = model.finish();
    consistency::check(&tables).unwrap();
    (tables, end)
}

fn text(tables: &Tables, text: Option<Str>) -> &str {
    text.map_or("-", |text| tables.strings.get(text))
}

fn tid(tables: &Tables, utid: ferretto_trace_tables::Utid) -> i64 {
    tables.thread.tid[utid.index()]
}

#[test]
fn switches_and_wakings_become_what_threads_do() {
    let (tables, end) = tables_of(TEXT.as_bytes());
    end.unwrap();
    let sched = &tables.sched;
    let found: Vec<_> = (0..sched.len())
        .map(|row| {
            (
                sched.ts.at(row),
                sched.dur.at(row),
                tid(&tables, sched.utid.at(row)),
                text(&tables, sched.end_state.at(row)),
            )
        })
        .collect();
    let expected = [
        (1_000_000_000, 740_000, 20, "R+"),
        (1_000_250_000, 200_000, 30, "DK"),
        (1_000_450_000, -1, 0, "-"),
        (1_000_740_000, -1, 1, "-"),
    ];
    assert_eq!(found, expected);
    let states = &tables.thread_state;
    let found: Vec<_> = (0..states.len())
        .map(|row| {
            let (state, function) =
                (text(&tables, states.state.at(row)), text(&tables, states.blocked_function.at(row)));
            (states.ts.at(row), states.dur.at(row), tid(&tables, states.utid.at(row)), state, function)
        })
        .collect();
    let expected = [
        (1_000_000_000, 740_000, 1, "S", "-"),
        (1_000_000_000, 740_000, 20, "Running", "-"),
        (1_000_200_000, 50_000, 30, "R", "-"),
        (1_000_250_000, 200_000, 30, "Running", "-"),
        (1_000_450_000, -1, 30, "DK", "io_schedule+0x12/0x40"),
        // The time is a floating-point number on its way.
        (1_000_734_999, -1, 44, "R", "-"),
        (1_000_740_000, -1, 20, "R+", "-"),
        (1_000_740_000, -1, 1, "Running", "-"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn markers_counters_and_work_become_slices_and_values() {
    let (tables, _) = tables_of(TEXT.as_bytes());
    let slices = &tables.slice;
    let found: Vec<_> = (0..slices.len())
        .map(|row| (slices.ts.at(row), slices.dur.at(row), text(&tables, slices.name.at(row))))
        .collect();
    let expected = [
        (1_000_100_000, 599_999, "outer"),
        (1_000_300_000, 100_000, "vmstat_update"),
        (1_000_320_000, 390_000, "load"),
    ];
    assert_eq!(found, expected);
    let counters = &tables.counter;
    let track = |row: usize| text(&tables, tables.track.name[counters.track_id.at(row).index()]);
    let found: Vec<_> =
        (0..counters.len()).map(|row| (counters.ts.at(row), counters.value.at(row), track(row))).collect();
    let expected = [
        (1_000_150_000, 4_294_967_295.0, "cpuidle"),
        (1_000_310_000, 7.0, "queue"),
        (1_000_410_000, 8_437_760.0, "mem.rss.anon"),
        (1_000_599_999, 1_800_000.0, "cpufreq"),
        (1_000_610_000, 1_900_000.0, "Cpu 0 Max Freq Limit"),
        (1_000_610_000, 300_000.0, "Cpu 0 Min Freq Limit"),
        (1_000_620_000, 19_200.0, "mmcx Frequency"),
        (1_000_629_999, 1.0, "mmcx State"),
        (1_000_640_000, 41_000.0, "cpu Temperature"),
        (1_000_650_000, 3.0, "fan Cooling Device"),
    ];
    assert_eq!(found, expected);
}

fn threads(tables: &Tables) -> Vec<(i64, &str, Option<Upid>)> {
    let threads = &tables.thread;
    (0..threads.len())
        .map(|row| (threads.tid[row], text(tables, threads.name[row]), threads.upid.get(row)))
        .collect()
}

#[test]
fn lines_say_whose_they_are_and_bad_ones_are_counted() {
    let (tables, _) = tables_of(TEXT.as_bytes());
    let expected = [
        (0, "swapper", Some(Upid(0))),
        (1, "init", Some(Upid(1))),
        (20, "web", Some(Upid(2))),
        (19, "-", Some(Upid(2))),
        (30, "kworker/1:0", Some(Upid(3))),
        // What is woken without its name.
        (44, "", None),
    ];
    assert_eq!(threads(&tables), expected);
    let failures = Stat::SystraceParseFailure.name();
    let row = (0..tables.stats.len()).find(|row| text(&tables, tables.stats.name[*row]) == failures);
    // A line that is none, and a marker that is none.
    assert_eq!(row.map(|row| tables.stats.value[row]), Some(2));
}

#[test]
fn html_has_lists_of_processes_too() {
    let (tables, end) = tables_of(HTML.as_bytes());
    end.unwrap();
    let expected = [
        (0, "swapper", Some(Upid(0))),
        (1, "init", Some(Upid(1))),
        (19, "-", Some(Upid(2))),
        (20, "Web Thread", Some(Upid(2))),
    ];
    assert_eq!(threads(&tables), expected);
    assert_eq!(text(&tables, tables.process.name[2]), "com.web");
    assert_eq!(tables.slice.dur, [599_999]);
}

#[test]
fn what_comes_before_the_trace_is_left_out() {
    let line = "a-1 [001] 1.5: tracing_mark_write: I|1|now\n";
    for (file, expected) in [
        (format!("capturing trace... done\nTRACE:\n{line}"), 1),
        (format!("cpus=4\n{line}{line}"), 2),
        (line.to_owned(), 1),
        (line.trim_end().to_owned(), 0),
        (String::new(), 0),
        ("TRACE:\n".to_owned(), 0),
    ] {
        let (tables, end) = tables_of(file.as_bytes());
        assert_eq!((tables.slice.len(), end.is_ok()), (expected, true), "{file}");
    }
}

#[test]
fn what_only_seemed_to_be_a_trace_is_said_to_be_none() {
    for (file, is_ok) in [
        ("# tracer: nop\n#\n", true),
        ("  a letter\n", false),
        ("<html>\n<p>a page\n</html>\n", false),
        ("  a letter\na-1 [001] 1.5: x: y\n", true),
    ] {
        assert_eq!(tables_of(file.as_bytes()).1.is_ok(), is_ok, "{file}");
    }
}

#[test]
fn a_file_that_ends_anywhere_is_read_up_to_there() {
    for file in [TEXT, HTML] {
        for len in 0..file.len() {
            let (tables, end) = tables_of(&file.as_bytes()[..len]);
            // A page may end before its trace.
            assert!(tables.slice.len() <= 3 && (end.is_ok() || file == HTML), "{len}");
        }
    }
}

proptest! {
    #[test]
    fn any_change_leaves_tables_that_hang_together(at in 0..TEXT.len(), byte: u8, is_html: bool) {
        let mut file = if is_html { HTML } else { TEXT }.as_bytes().to_vec();
        let at = at % file.len();
        file[at] = byte;
        let _end = tables_of(&file);
    }

    #[test]
    fn garbage_of_words_leaves_tables_that_hang_together(
        words in proptest::collection::vec(
            prop::sample::select(vec![
                "a-1 ", "-9 ", "(", ")", "[000] ", "[1023] ", "[9999999] ", "d..2. ", "1.5: ", "99999999999999999999.9: ",
                "0.0: ", "sched_switch: ", "prev_pid=-1 ", "prev_prio=x ", "prev_prio=1 ", "next_pid=4294967295 ",
                "next_prio=-99999999999 ", "prev_state=Q ", "print: ", "C|1|x|-9223372036854775808", "H|", "\n",
                "sched_waking: ", "pid=7 ", "cpu_idle: ", "state=inf ", "cpu_id=4294967295 ", "rss_stat: ",
                "size=-1 ", "member=77 ", "\0", "=", "function ", "workqueue_execute_start: ",
            ]),
            0..60,
        ),
    ) {
        let mut file = words.concat();
        file.push('\n');
        let _end = tables_of(file.as_bytes());
    }
}
