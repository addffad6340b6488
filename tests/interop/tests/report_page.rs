//! The page of `ferretto report --html` in a browser: pictures are drawn, nothing is loaded, and a name is nothing but text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use ferretto_interop::{browser, ferretto_query, need};

/// What would be noticed if it became more than text. A script's end would be that of a text of the kernel's.
const HOSTILE: &str = "\"><img src=x onerror=harm=1><svg onload='harm=1'></svg><script>harm=1";

/// The kernel's text of two processes that take turns, with slices and a counter, named by an enemy.
fn trace(path: &Path) {
    let mut text = String::from("# tracer: nop\n#\n");
    let names = [("<script>h()", 20), ("\"><svg/onload", 30)];
    for turn in 0..200 {
        let ((from, from_pid), (to, to_pid)) = (names[turn % 2], names[(turn + 1) % 2]);
        let at = |micros: usize| 100.0 + turn as f64 * 0.01 + micros as f64 / 1e6;
        let mut line = |micros, event: String| {
            writeln!(text, "           app-{from_pid}  ( {from_pid}) [000] d..3 {:.6}: {event}", at(micros))
                .unwrap();
        };
        line(0, format!("tracing_mark_write: B|{from_pid}|{HOSTILE}"));
        line(10, format!("tracing_mark_write: C|{from_pid}|{HOSTILE}|{}", turn % 7));
        line(2_000, format!("sched_waking: comm={to} pid={to_pid} prio=120 target_cpu=000"));
        line(3_000, "tracing_mark_write: E".to_owned() + &format!("|{from_pid}"));
        let switch = format!(
            "sched_switch: prev_comm={from} prev_pid={from_pid} prev_prio=120 prev_state={} ==> next_comm={to} next_pid={to_pid} next_prio=120",
            ["S", "D"][turn / 2 % 2]
        );
        line(9_990, switch);
    }
    fs::write(path, text).unwrap();
}

fn page(folder: &Path, args: &[&str]) -> Option<(std::path::PathBuf, Command)> {
    let mut query = match ferretto_query() {
        Ok(query) => query,
        Err(reason) => {
            eprintln!("skipped: {reason}");
            return None;
        }
    };
    let (traces, page) = (folder.join("trace.txt"), folder.join("report.html"));
    trace(&traces);
    query
        .arg("report")
        .args(args)
        .arg(&traces)
        .args(args.iter().map(|_| &traces))
        .arg("--html")
        .arg("-o")
        .arg(&page);
    Some((page, query))
}

fn seen(args: &[&str]) -> Option<BTreeMap<String, u64>> {
    let browser = match browser() {
        Ok(browser) => browser,
        Err(reason) => {
            eprintln!("skipped: {reason}");
            return None;
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let (page, mut query) = page(folder.path(), args)?;
    let output = query.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = browser.open_report(&page, folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let number = |line: &str| {
        let (name, number) = line.split_once('\t')?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    Some(text.lines().map(|line| number(line).unwrap_or_else(|| panic!("{line}"))).collect())
}

fn check_quiet(seen: &BTreeMap<String, u64>) {
    for nothing in ["loaded", "scripts", "harm", "wider", "troubles"] {
        assert_eq!(seen[nothing], 0, "{nothing}: {seen:?}");
    }
    assert_eq!(seen["darker"], 1);
}

#[test]
fn a_report_is_drawn_loads_nothing_and_has_names_as_text() {
    let Some(seen) = seen(&[]) else { return };
    check_quiet(&seen);
    // CPUs over time, waits, a counter of each process, slices.
    assert_eq!((seen["pictures"], seen["drawn"]), (5, 5), "{seen:?}");
    assert!(seen["rows"] > 20, "{seen:?}");
}

#[test]
fn so_is_a_comparison() {
    let Some(seen) = seen(&["--compare"]) else { return };
    check_quiet(&seen);
    assert!(seen["rows"] >= 5, "{seen:?}");
}

/// Without a browser, too.
#[test]
fn a_page_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (page, mut query) = need!(page(folder.path(), &[]).ok_or("there is no ferretto-query"));
    assert!(query.status().unwrap().success());
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("&lt;script&gt;harm=1") && !page.contains("<script"), "{page}");
}
