//! The lines at the end of `ferretto profile --heap`.

use std::collections::HashMap;
use std::fmt::Write as _;

use ferretto_printable::printable;
use ferretto_profile::heap::{Site, Summary};

use crate::units::{bytes, count, counted};

/// Processes that are listed.
const PROCESSES: usize = 5;
/// Functions of a stack that are shown, and characters of all of them.
const CALLERS: usize = 4;
const NAME_CHARS: usize = 150;
/// What functions begin with that allocate for others: who has asked for memory stands behind them.
const ALLOCATORS: [&str; 16] = [
    "operator new",
    "alloc::",
    "<alloc::",
    "__rust_",
    "__rustc::",
    "__rdl_",
    "__rg_",
    "core::alloc",
    "std::alloc",
    "std::sys::alloc",
    "hashbrown::raw",
    "std::__new_allocator",
    "__gnu_cxx::new_allocator",
    "std::allocator",
    "std::_Vector_base",
    "core::ptr",
];

/// What was sampled, in words; each line ends.
pub(crate) fn render(summary: &Summary, sites: usize) -> String {
    let samples = counted(summary.samples, "sample", "samples");
    let mut text =
        format!("\nHeap: {samples}, one for each {} that are allocated.\n", bytes(summary.interval_bytes));
    text.push_str(&doubts(summary));
    if summary.processes.is_empty() {
        text.push_str(
            "No program has asked to be profiled: those do not that are linked statically, that get other rights as they start (setuid),\n\
             or that are started without LD_PRELOAD in their environment.\n",
        );
        return text;
    }
    let _ = writeln!(text, "\n not freed   at peak    in all  process");
    for process in summary.processes.iter().take(PROCESSES) {
        let figures = row([process.live_bytes, process.maximum_bytes, process.allocated_bytes]);
        let _ =
            writeln!(text, "{figures}  {} {}{}", printable(&process.name), process.pid, heap(&process.heap));
    }
    if summary.processes.len() > PROCESSES {
        let others = summary.processes.len() - PROCESSES;
        let _ = writeln!(text, "{:>31}{} more", "", count(others as u64));
    }
    if summary.samples == 0 {
        text.push_str(
            "There was nothing to sample: less was allocated than the bytes between two samples.\n",
        );
        return text;
    }
    let by_callers = by_callers(&summary.sites);
    for (title, figure) in [
        ("not freed, by who has allocated it", (|site: &Figures| site[0]) as fn(&Figures) -> u64),
        ("allocated in all, by who has", |site| site[2]),
    ] {
        let mut all: Vec<_> = by_callers.iter().filter(|(_, figures)| figure(figures) > 0).collect();
        all.sort_by(|(a, af), (b, bf)| figure(bf).cmp(&figure(af)).then(a.cmp(b)));
        if all.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n not freed   at peak    in all  {title}");
        for (callers, figures) in all.into_iter().take(sites) {
            let _ = writeln!(text, "{}  {}", row(*figures), shown(callers));
        }
    }
    text
}

/// Not freed, at the most, in all.
type Figures = [u64; 3];

fn row(figures: Figures) -> String {
    figures.map(|figure| format!("{:>10}", bytes(figure))).concat()
}

/// Heaps that are not that of the program's allocator are named.
fn heap(name: &str) -> String {
    let is_main = name.is_empty() || ["libc.malloc", "rust.global"].contains(&name);
    if is_main { String::new() } else { format!(", in {}", printable(name)) }
}

/// What the same functions have allocated, whoever has called them.
fn by_callers(sites: &[Site]) -> Vec<(String, Figures)> {
    let mut sums: HashMap<String, Figures> = HashMap::new();
    for site in sites {
        let sum = sums.entry(callers(&site.functions) + &heap(&site.heap)).or_default();
        for (sum, figure) in sum.iter_mut().zip([site.live_bytes, site.maximum_bytes, site.allocated_bytes]) {
            *sum = sum.saturating_add(figure);
        }
    }
    sums.into_iter().collect()
}

/// The innermost functions that are not there to allocate for others.
fn callers(functions: &[String]) -> String {
    let is_allocator = |name: &String| ALLOCATORS.iter().any(|allocator| name.starts_with(allocator));
    let own = functions.iter().take_while(|name| is_allocator(name)).count();
    let own = if own == functions.len() { 0 } else { own };
    let names = functions.iter().skip(own).take(CALLERS).map(String::as_str);
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "?".to_owned() } else { names.join(" < ") }
}

fn shown(name: &str) -> String {
    let name = printable(name).to_string();
    match name.char_indices().nth(NAME_CHARS) {
        Some((at, _)) => format!("{}…", name.get(..at).unwrap_or_default()),
        None => name,
    }
}

/// What makes the picture less than whole.
fn doubts(summary: &Summary) -> String {
    let mut text = String::new();
    let lost = &summary.lost;
    const SAMPLE: (&str, &str) = ("sample was lost", "samples were lost");
    for (number, (one, many), what) in [
        (
            lost.no_room,
            SAMPLE,
            ": they came faster than they were read. A larger --interval makes them fewer, a larger --ring holds more.",
        ),
        (
            lost.table_full,
            SAMPLE,
            ": a program has a million sampled blocks. A larger --interval makes them fewer.",
        ),
        (
            lost.no_place,
            SAMPLE,
            ": there are too many blocks or stacks to tell apart. A larger --interval makes them fewer.",
        ),
        (lost.unfinished, SAMPLE, ": their threads have ended within."),
        (
            lost.frees,
            ("block was freed", "blocks were freed"),
            " without notice, as if they lived on: a larger --ring holds more.",
        ),
        (
            lost.foreign_stacks,
            ("sample is", "samples are"),
            " on stacks that programs have made for themselves: their outer frames may be missing.",
        ),
        (
            lost.refused,
            ("program was not", "programs were not"),
            " profiled: gone before it was answered, too many at a time, or another user's.",
        ),
        (
            lost.broken,
            ("program has", "programs have"),
            " written what makes no sense: of these nothing is known from then on.",
        ),
    ] {
        if number > 0 {
            let _ = writeln!(text, "{}{what}", counted(number, one, many));
        }
    }
    if summary.incomplete > 0 {
        let share = 100.0 * summary.incomplete as f64 / summary.samples.max(1) as f64;
        let _ = writeln!(
            text,
            "Of {share:.1} % the outer frames are missing: of a deep stack 64 kB are there, and some code does not say how to go on."
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use ferretto_profile::heap::ProcessLine;

    use super::*;

    fn site(functions: &[&str], live_bytes: u64, allocated_bytes: u64) -> Site {
        let functions = functions.iter().map(|name| (*name).to_owned()).collect();
        Site { functions, live_bytes, maximum_bytes: live_bytes, allocated_bytes, ..Site::default() }
    }

    #[test]
    fn who_has_allocated_most_comes_first_and_what_is_missing_is_said() {
        let mut summary = Summary { interval_bytes: 32768, ..Summary::default() };
        assert!(render(&summary, 9).contains("No program has asked"));
        let process =
            ProcessLine { pid: 7, name: "prog".to_owned(), live_bytes: 3_000_000, ..ProcessLine::default() };
        summary.processes = vec![process];
        assert!(render(&summary, 9).contains("nothing to sample"));
        summary.samples = 3;
        summary.incomplete = 1;
        summary.lost.no_room = 2_000;
        summary.sites = vec![
            site(&["alloc::raw_vec::grow", "leaks", "main"], 1_000_000, 1_000_000),
            site(&["leaks", "main"], 2_000_000, 2_000_000),
            site(&["churns", "main"], 0, 9_000_000),
            site(&["operator new", "operator new"], 1, 1),
            Site { heap: "an.arena".to_owned(), ..site(&["churns", "main"], 0, 8_000_000) },
        ];
        summary.processes.push(ProcessLine { heap: "an.arena".to_owned(), ..summary.processes[0].clone() });
        let text = render(&summary, 1);
        for part in [
            "3 samples, one for each 32.8 kB",
            "2,000 samples were lost: they came faster",
            "Of 33.3 % the outer frames",
            "prog 7\n",
            "prog 7, in an.arena\n",
            "not freed, by who has allocated it\n   3.00 MB   3.00 MB   3.00 MB  leaks < main\n\n",
            "  0 bytes   0 bytes   9.00 MB  churns < main\n",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
        assert!(render(&summary, 2).contains("8.00 MB  churns < main, in an.arena\n"));
    }
}
