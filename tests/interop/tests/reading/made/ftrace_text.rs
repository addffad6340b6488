//! The kernel's text of its events, as `trace-cmd report` and systrace have it.

use std::fmt::Write;

use super::Numbers;

/// Names and numbers of threads, and the processes that they belong to.
const THREADS: [(&str, u32, Option<u32>); 5] = [
    ("init", 1, Some(1)),
    ("Web Content", 20, Some(19)),
    ("web", 19, Some(19)),
    ("kworker/1:0", 30, Some(30)),
    ("<...>", 44, None),
];

/// Two processors that run one thread after the other, who wakes whom, and what the threads say meanwhile.
pub(crate) fn lines() -> String {
    let mut numbers = Numbers::of(5);
    let mut text =
        "# tracer: nop\n#\n#           TASK-PID     TGID   CPU#  ||||   TIMESTAMP  FUNCTION\n".to_owned();
    let mut runs = [0, 1];
    for at in 0..400 {
        let cpu = at % 2;
        let before = runs[cpu];
        let other = runs[1 - cpu];
        let next = (0..THREADS.len())
            .cycle()
            .skip(numbers.below(5) as usize)
            .find(|next| *next != before && *next != other);
        let next = next.expect("there are more threads than processors");
        let us = 1_000_000 + at * 100;
        let mut line = |after: usize, thread: usize, event: String| {
            let (name, tid, process) = THREADS[thread];
            let process = process.map_or("(-----)".to_owned(), |pid| format!("({pid:>5})"));
            let us = us + after;
            writeln!(
                text,
                "{name:>16}-{tid:<5} {process} [{cpu:03}] d..2 {:5}.{:06}: {event}",
                us / 1_000_000,
                us % 1_000_000
            )
            .expect("a text");
        };
        let (name, tid, process) = THREADS[before];
        let pid = process.unwrap_or(tid);
        let (next_name, next_tid, _) = THREADS[next];
        match at % 8 {
            0 => line(1, before, format!("tracing_mark_write: B|{pid}|step {at}")),
            1 => line(
                1,
                before,
                format!(
                    "sched_blocked_reason: pid={next_tid} iowait={} caller=io_schedule+0x12/0x40",
                    at / 8 % 2
                ),
            ),
            2 => line(1, before, format!("print: C|19|queue|{}", numbers.below(50))),
            3 => line(1, before, format!("tracing_mark_write: S|19|load|{}", at / 8)),
            4 => line(
                1,
                before,
                format!("cpu_frequency: state={} cpu_id={cpu}", 300_000 + 100_000 * numbers.below(15)),
            ),
            5 => line(
                1,
                before,
                format!("cpu_idle: state={} cpu_id={cpu}", if at % 16 == 5 { 1 } else { 4_294_967_295_u32 }),
            ),
            6 => line(1, before, format!("tracing_mark_write: F|19|load|{}", at / 8)),
            _ => line(1, before, format!("tracing_mark_write: E|{pid}")),
        }
        line(
            20,
            before,
            format!("sched_waking: comm={next_name} pid={next_tid} prio=120 target_cpu={cpu:03}"),
        );
        let state = ["S", "R", "D", "R+", "D|K"][numbers.below(5) as usize];
        line(
            60,
            before,
            format!(
                "sched_switch: prev_comm={name} prev_pid={tid} prev_prio=120 prev_state={state} ==> \
                 next_comm={next_name} next_pid={next_tid} next_prio=120"
            ),
        );
        runs[cpu] = next;
    }
    text
}
