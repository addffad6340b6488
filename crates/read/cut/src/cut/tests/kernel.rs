use std::fmt::Write as _;

use super::*;
use crate::ftrace::bundle::Parts;
use crate::ftrace::pairs::is_always_kept;

// Fields of `FtraceEvent`.
const SCHED_SWITCH: u32 = 4;
const SCHED_WAKING: u32 = 20;
const TASK_NEWTASK: u32 = 235;
const TASK_RENAME: u32 = 236;
const SCHED_PROCESS_FREE: u32 = 240;
const SCHED_BLOCKED_REASON: u32 = ferretto_protos::fields::ftrace_event::SCHED_BLOCKED_REASON;
const SYS_ENTER: u32 = 329;
const SYS_EXIT: u32 = 330;
const WORKQUEUE_EXECUTE_END: u32 = 57;
const WORKQUEUE_EXECUTE_START: u32 = 58;
// A field of `FtraceEventBundle`.
const PREVIOUS_BUNDLE_END: u32 = 10;

const RUNNABLE: u64 = 0x100;
const SLEEPS: u64 = 1;
const DEAD: u64 = 16;

/// A thread's number and name.
type Who = (u64, &'static str);
const IDLE: Who = (0, "swapper/0");

/// A bundle of a CPU.
fn bundle_of(out: &mut Vec<u8>, cpu: u64, fill: impl FnOnce(&mut Message<'_, Vec<u8>>)) {
    let mut body = Vec::new();
    let mut packet = Message::new(&mut body);
    packet.varint(10, 1);
    let mut bundle = packet.nested(1);
    bundle.varint(1, cpu);
    fill(&mut bundle);
    drop(bundle);
    drop(packet);
    Message::new(out).bytes(1, &body);
}

fn event(
    bundle: &mut Message<'_, Vec<u8>>,
    ts: u64,
    pid: u64,
    kind: u32,
    fill: impl FnOnce(&mut Message<'_, Vec<u8>>),
) {
    let mut event = bundle.nested(2);
    event.varint(1, ts);
    event.varint(2, pid);
    fill(&mut event.nested(kind));
}

fn switch(bundle: &mut Message<'_, Vec<u8>>, ts: u64, prev: Who, state: u64, next: Who) {
    event(bundle, ts, prev.0, SCHED_SWITCH, |switch| {
        switch.string(1, prev.1);
        switch.varint(2, prev.0);
        switch.varint(3, 120);
        switch.varint(4, state);
        switch.string(5, next.1);
        switch.varint(6, next.0);
        switch.varint(7, 120);
    });
}

fn waking(bundle: &mut Message<'_, Vec<u8>>, ts: u64, waker: Who, wakee: Who) {
    event(bundle, ts, waker.0, SCHED_WAKING, |waking| {
        waking.string(1, wakee.1);
        waking.varint(2, wakee.0);
        waking.varint(3, 120);
        waking.varint(4, 1);
    });
}

/// Switches in columns: when, the state of the thread before, and the thread; and wakings: when, and whom.
fn columns(bundle: &mut Message<'_, Vec<u8>>, switches: &[(u64, u64, Who)], wakings: &[(u64, Who)]) {
    let mut compact = bundle.nested(4);
    let next = switches.iter().map(|(_, _, next)| next);
    let woken = wakings.iter().map(|(_, wakee)| wakee);
    next.clone().chain(woken.clone()).for_each(|who| compact.string(5, who.1));
    let differences = |times: Vec<u64>| {
        let before: Vec<u64> = std::iter::once(0).chain(times.iter().copied()).collect();
        times.into_iter().zip(before).map(|(time, before)| time - before).collect::<Vec<u64>>().into_iter()
    };
    compact.packed_varints(1, differences(switches.iter().map(|(ts, ..)| *ts).collect()));
    compact.packed_varints(2, switches.iter().map(|(_, state, _)| *state));
    compact.packed_varints(3, next.map(|who| who.0));
    compact.packed_varints(4, switches.iter().map(|_| 120));
    compact.packed_varints(6, 0..switches.len() as u64);
    compact.packed_varints(7, differences(wakings.iter().map(|(ts, _)| *ts).collect()));
    compact.packed_varints(8, woken.map(|who| who.0));
    compact.packed_varints(9, wakings.iter().map(|_| 0));
    compact.packed_varints(10, wakings.iter().map(|_| 120));
    compact.packed_varints(11, (0..wakings.len()).map(|at| (switches.len() + at) as u64));
    compact.packed_varints(12, wakings.iter().map(|_| 0));
}

/// The events of all CPUs, in the order of time: each a line.
fn lines(trace: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = |ts: u64, cpu: u32, fill: &dyn Fn(&mut String)| {
        let mut text = format!("{ts} cpu{cpu} ");
        fill(&mut text);
        lines.push((ts, text));
    };
    ferretto_trace_read::Reader::new(trace)
        .for_each(|packet, _| {
            let bundle = Fields::new(packet).whole().find(|part| part.number == 1);
            let Some(Value::Bytes(bundle)) = bundle.map(|part| part.value) else { return };
            let parts = Parts::of(bundle).unwrap();
            let cpu = parts.bundle.cpu;
            let name = |at: usize| String::from_utf8_lossy(parts.names[at]).into_owned();
            for switch in &parts.switches {
                line(switch.raw_ts, cpu, &|text| {
                    write!(text, "to {} {}", switch.next_pid, name(switch.next_comm)).unwrap();
                });
            }
            for waking in &parts.wakings {
                line(waking.raw_ts, cpu, &|text| write!(text, "wakes {}", waking.pid).unwrap());
            }
            for event in &parts.events {
                let text_of = |field| {
                    let part = Fields::new(event.payload).whole().find(|part| part.number == field);
                    match part.map(|part| part.value) {
                        Some(Value::Bytes(text)) => String::from_utf8_lossy(text).into_owned(),
                        _ => String::new(),
                    }
                };
                line(event.raw_ts, cpu, &|text| {
                    match event.kind {
                        SCHED_SWITCH => write!(text, "to {} {}", event.number(6).unwrap(), text_of(5)),
                        SCHED_WAKING => write!(text, "{} wakes {}", event.pid, event.number(2).unwrap()),
                        kind if is_always_kept(kind) => write!(text, "{} makes", event.pid),
                        _ => write!(text, "{} does", event.pid),
                    }
                    .unwrap();
                });
            }
        })
        .unwrap();
    lines.sort_unstable();
    lines.into_iter().map(|(_, line)| line).collect()
}

/// The thread that a switch says was left, and its name then.
fn left_at(trace: &[u8], ts: u64) -> Option<(u64, String)> {
    let mut found = None;
    ferretto_trace_read::Reader::new(trace)
        .for_each(|packet, _| {
            let bundle = Fields::new(packet).whole().find(|part| part.number == 1);
            let Some(Value::Bytes(bundle)) = bundle.map(|part| part.value) else { return };
            let events = Parts::of(bundle).unwrap().events;
            let switch = events.iter().find(|event| event.kind == SCHED_SWITCH && event.raw_ts == ts);
            let Some(switch) = switch else { return };
            let comm = Fields::new(switch.payload).whole().find(|part| part.number == 1);
            let Some(Value::Bytes(comm)) = comm.map(|part| part.value) else { return };
            found = Some((switch.number(2).unwrap(), String::from_utf8_lossy(comm).into_owned()));
        })
        .unwrap();
    found
}

fn cut_of(trace: &[u8], from: i64, to: i64) -> Vec<String> {
    lines(&cut_bytes(trace, from, to))
}

fn cut_bytes(trace: &[u8], from: i64, to: i64) -> Vec<u8> {
    let options =
        Options { from: Some(Moment::Absolute(from)), to: Some(Moment::Absolute(to)), ..Options::default() };
    let mut out = Vec::new();
    cut(trace, "t", &options, &mut out).unwrap();
    out
}

/// Readers take the waker of a waking in columns to be the CPU's thread: without a switch before it they leave it out.
#[test]
fn who_woke_a_thread_that_never_ran_again_is_known_by_the_first_switch_of_the_cpu() {
    let mut trace = Vec::new();
    bundle_of(&mut trace, 0, |bundle| {
        let switches = [
            (1000, SLEEPS, (10, "waker")),
            (1020, SLEEPS, IDLE),
            (1030, SLEEPS, (11, "other")),
            (1040, SLEEPS, IDLE),
        ];
        columns(bundle, &switches, &[(1010, (77, "woken"))]);
    });
    bundle_of(&mut trace, 0, |bundle| {
        columns(bundle, &[(5000, 0, (11, "other")), (5010, SLEEPS, IDLE)], &[]);
    });
    let cut = cut_of(&trace, 3000, 4000);
    let at = |line: &str| cut.iter().position(|other| other == line);
    let woken = at("1010 cpu0 wakes 77").unwrap_or_else(|| panic!("{cut:#?}"));
    let before = at("1000 cpu0 to 10 waker").unwrap_or_else(|| panic!("{cut:#?}"));
    assert!(before < woken, "{cut:#?}");
    assert!(at("1020 cpu0 to 0 swapper/0").is_some(), "{cut:#?}");
}

/// A state that a creation has opened says in which state the maker was.
#[test]
fn whoever_made_a_thread_runs_while_it_does() {
    let (maker, child) = ((10, "maker"), 77);
    let newtask = |bundle: &mut Message<'_, Vec<u8>>| {
        event(bundle, 1010, maker.0, TASK_NEWTASK, |task| {
            task.varint(1, child);
            task.string(2, maker.1);
        });
    };
    let others = [(1030, SLEEPS, (11, "other")), (1035, SLEEPS, maker), (1040, SLEEPS, IDLE)];
    let mut by_events = Vec::new();
    bundle_of(&mut by_events, 0, |bundle| {
        switch(bundle, 900, (12, "first"), SLEEPS, IDLE);
        switch(bundle, 1000, IDLE, 0, maker);
        newtask(bundle);
        switch(bundle, 1020, maker, SLEEPS, IDLE);
        let mut prev = IDLE;
        for (ts, state, next) in others {
            switch(bundle, ts, prev, state, next);
            prev = next;
        }
    });
    let mut in_columns = Vec::new();
    bundle_of(&mut in_columns, 0, |bundle| columns(bundle, &[(900, SLEEPS, IDLE)], &[]));
    bundle_of(&mut in_columns, 0, |bundle| {
        let own = [(1000, 0, maker), (1020, SLEEPS, IDLE)];
        columns(bundle, &[&own[..], &others].concat(), &[]);
        newtask(bundle);
    });
    let mut in_the_first_columns = Vec::new();
    bundle_of(&mut in_the_first_columns, 0, |bundle| {
        let own = [(900, SLEEPS, IDLE), (1000, 0, maker), (1020, SLEEPS, IDLE)];
        columns(bundle, &[&own[..], &others].concat(), &[]);
        newtask(bundle);
    });
    for mut trace in [by_events, in_columns, in_the_first_columns] {
        bundle_of(&mut trace, 0, |bundle| switch(bundle, 5000, IDLE, 0, maker));
        let cut = cut_of(&trace, 3000, 4000);
        for line in ["1000 cpu0 to 10 maker", "1010 cpu0 10 makes", "1020 cpu0 to 0 swapper/0"] {
            assert!(cut.iter().any(|other| other == line), "{line}: {cut:#?}");
        }
    }
}

/// What one CPU has to tell comes before all that another one has.
#[test]
fn a_waking_is_not_forgotten_for_those_before_it_that_come_later_in_the_file() {
    let thread = (20, "sleeper");
    let mut trace = Vec::new();
    bundle_of(&mut trace, 0, |bundle| waking(bundle, 900_000, (21, "other"), thread));
    bundle_of(&mut trace, 1, |bundle| {
        for now in (1000..101_000).step_by(1000) {
            waking(bundle, now, IDLE, thread);
            switch(bundle, now + 10, IDLE, 0, thread);
            switch(bundle, now + 20, thread, SLEEPS, IDLE);
        }
    });
    let cut = cut_of(&trace, 950_000, 960_000);
    assert!(cut.iter().any(|line| line == "900000 cpu0 21 wakes 20"), "{cut:#?}");
}

/// As where switches were lost: the state is as old as the first.
#[test]
fn the_waking_that_opens_a_state_is_not_forgotten_for_many_after_it() {
    let thread = (20, "sleeper");
    let mut trace = Vec::new();
    bundle_of(&mut trace, 0, |bundle| {
        switch(bundle, 1000, IDLE, 0, thread);
        switch(bundle, 1010, thread, SLEEPS, IDLE);
        (2000..50_000).step_by(1000).for_each(|now| waking(bundle, now, IDLE, thread));
        switch(bundle, 90_000, IDLE, 0, thread);
    });
    let cut = cut_of(&trace, 60_000, 70_000);
    assert!(cut.iter().any(|line| line == "2000 cpu0 0 wakes 20"), "{cut:#?}");
}

/// It waits for a busy processor, and is woken by another one nevertheless. That it has slept is told later in the file.
#[test]
fn the_waking_that_opens_a_state_is_known_among_many_whose_run_before_comes_later_in_the_file() {
    let (thread, waker) = ((20, "sleeper"), (21, "waker"));
    let mut trace = Vec::new();
    bundle_of(&mut trace, 1, |bundle| {
        switch(bundle, 1000, IDLE, 0, thread);
        switch(bundle, 1010, thread, SLEEPS, IDLE);
    });
    bundle_of(&mut trace, 0, |bundle| {
        switch(bundle, 1020, IDLE, 0, waker);
        waking(bundle, 1500, waker, thread);
        (2100..42_100).step_by(200).for_each(|now| waking(bundle, now, waker, thread));
    });
    bundle_of(&mut trace, 1, |bundle| {
        switch(bundle, 1600, IDLE, 0, thread);
        switch(bundle, 2000, thread, SLEEPS, IDLE);
        switch(bundle, 90_000, IDLE, 0, thread);
    });
    let cut = cut_of(&trace, 60_000, 70_000);
    assert!(cut.iter().any(|line| line == "2100 cpu0 21 wakes 20"), "{cut:#?}");
}

/// After events were lost, a thread may be left that was not seen to run; what closes its state is what comes first.
#[test]
fn what_comes_first_after_the_range_closes_a_state() {
    let thread = (20, "sleeper");
    let mut trace = Vec::new();
    bundle_of(&mut trace, 0, |bundle| {
        switch(bundle, 1000, IDLE, 0, thread);
        switch(bundle, 1010, thread, SLEEPS, IDLE);
        waking(bundle, 2000, IDLE, thread);
        switch(bundle, 4000, IDLE, 0, (21, "other"));
        switch(bundle, 4010, (21, "other"), SLEEPS, IDLE);
        switch(bundle, 5000, IDLE, 0, thread);
        switch(bundle, 5010, thread, SLEEPS, IDLE);
    });
    bundle_of(&mut trace, 1, |bundle| switch(bundle, 6000, thread, SLEEPS, IDLE));
    let cut = cut_of(&trace, 1500, 3000);
    assert!(cut.iter().any(|line| line == "5000 cpu0 to 20 sleeper"), "{cut:#?}");
}

/// Two CPUs' clocks do not agree: whoever leaves the second one does not run any more, so that its state before stays open for ever.
#[test]
fn a_state_that_a_thread_on_two_cpus_at_once_leaves_open_is_kept() {
    let thread = (60, "on both");
    let on = |out: &mut Vec<u8>, cpu: u64, [enter, leave]: [u64; 2], state: u64| {
        bundle_of(out, cpu, |bundle| {
            switch(bundle, enter, IDLE, 0, thread);
            switch(bundle, leave, thread, state, IDLE);
        });
    };
    for (first, second) in [([2000, 2020], [2010, 2030]), ([2000, 2040], [2010, 2030])] {
        for is_turned in [false, true] {
            let mut trace = Vec::new();
            on(&mut trace, 0, [1000, 1010], SLEEPS);
            match is_turned {
                false => {
                    on(&mut trace, 0, first, RUNNABLE);
                    on(&mut trace, 1, second, SLEEPS);
                }
                true => {
                    on(&mut trace, 1, second, SLEEPS);
                    on(&mut trace, 0, first, RUNNABLE);
                }
            }
            on(&mut trace, 1, [3000, 3010], SLEEPS);
            for (cpu, now) in (4000..8000).step_by(10).enumerate() {
                bundle_of(&mut trace, cpu as u64 % 2, |bundle| {
                    switch(bundle, now, IDLE, 0, (61, "other"));
                    switch(bundle, now + 1, (61, "other"), SLEEPS, IDLE);
                });
            }
            let cut = cut_of(&trace, 6000, 7000);
            for line in [
                format!("{} cpu0 to 60 on both", first[0]),
                format!("{} cpu1 to 60 on both", second[0]),
                format!("{} cpu0 to 0", first[1]),
                format!("{} cpu1 to 0", second[1]),
            ] {
                assert!(cut.iter().any(|other| other.starts_with(&line)), "{line}: {cut:#?}");
            }
        }
    }
}

/// The same of whole bundles in columns, of which the runs in between do not count otherwise; and again where one of the CPUs hands over many
/// bundles before the other one comes.
#[test]
fn a_state_that_a_thread_on_two_cpus_at_once_leaves_open_in_columns_is_kept() {
    let (thread, other) = ((60, "on both"), (61, "other"));
    for bundles in [1, 200] {
        let mut trace = Vec::new();
        (0..2).for_each(|cpu| bundle_of(&mut trace, cpu, |bundle| columns(bundle, &[(900, 0, IDLE)], &[])));
        let first = [(2000, 0, thread), (2020, RUNNABLE, other), (2025, SLEEPS, IDLE)];
        bundle_of(&mut trace, 0, |bundle| columns(bundle, &first, &[]));
        for now in 0..bundles - 1 {
            let run = [(2100 + now * 2, 0, thread), (2101 + now * 2, SLEEPS, IDLE)];
            bundle_of(&mut trace, 0, |bundle| columns(bundle, &run, &[]));
        }
        let second = [(2010, 0, thread), (2030, SLEEPS, IDLE), (3000, 0, thread), (3010, SLEEPS, IDLE)];
        bundle_of(&mut trace, 1, |bundle| columns(bundle, &second, &[(2022, thread)]));
        for cpu in 0..2 {
            let ends = [(8000, 0, other), (8010, SLEEPS, IDLE)];
            bundle_of(&mut trace, cpu, |bundle| columns(bundle, &ends, &[]));
        }
        let cut = cut_of(&trace, 6000, 7000);
        for line in [
            "2000 cpu0 to 60 on both",
            "2010 cpu1 to 60 on both",
            "2020 cpu0 to 61 other",
            "2022 cpu1 wakes 60",
            "2030 cpu1 to 0 swapper/1",
        ] {
            assert!(cut.iter().any(|other| other == line), "{line}: {cut:#?}");
        }
    }
}

fn newtask(bundle: &mut Message<'_, Vec<u8>>, ts: u64, maker: Who, child: Who) {
    event(bundle, ts, maker.0, TASK_NEWTASK, |task| {
        task.varint(1, child.0);
        task.string(2, child.1);
    });
}

fn free(bundle: &mut Message<'_, Vec<u8>>, ts: u64, thread: Who) {
    event(bundle, ts, 0, SCHED_PROCESS_FREE, |event| {
        event.string(1, thread.1);
        event.varint(2, thread.0);
    });
}

/// Its last state is open for ever, and so is that of whoever had its number before.
#[test]
fn a_thread_whose_number_another_has_keeps_its_last_state() {
    let (maker, one, two) = ((10, "maker"), (77, "one"), (77, "two"));
    let first = |trace: &mut Vec<u8>| {
        bundle_of(trace, 0, |bundle| {
            switch(bundle, 1000, IDLE, 0, maker);
            newtask(bundle, 1010, maker, one);
            switch(bundle, 1020, maker, SLEEPS, one);
            switch(bundle, 1030, one, DEAD, IDLE);
            switch(bundle, 3000, IDLE, 0, maker);
            switch(bundle, 3010, maker, SLEEPS, IDLE);
        });
    };
    let second = |trace: &mut Vec<u8>| {
        bundle_of(trace, 1, |bundle| {
            switch(bundle, 500, (11, "other"), SLEEPS, IDLE);
            free(bundle, 1500, one);
            switch(bundle, 2000, IDLE, 0, two);
            switch(bundle, 2010, two, SLEEPS, IDLE);
            switch(bundle, 8000, IDLE, 0, (11, "other"));
        });
    };
    for is_turned in [false, true] {
        let mut trace = Vec::new();
        match is_turned {
            false => [first(&mut trace), second(&mut trace)],
            true => [second(&mut trace), first(&mut trace)],
        };
        let cut = cut_of(&trace, 6000, 7000);
        for line in ["1020 cpu0 to 77 one", "1030 cpu0 to 0 swapper/0", "2000 cpu1 to 77 two"] {
            assert!(cut.iter().any(|other| other == line), "{line}: {cut:#?}");
        }
    }
}

/// Readers take it for another process then (v52), whose first thread was only made.
#[test]
fn whoever_made_a_process_whose_parent_the_list_of_processes_calls_otherwise_runs_while_it_does() {
    let (maker, child) = ((10, "maker"), (77, "child"));
    let mut trace = Vec::new();
    let tree = |trace: &mut Vec<u8>, ts: u64, pid: u64, parent: u64| {
        let mut body = Vec::new();
        let mut packet = Message::new(&mut body);
        packet.varint(8, ts);
        packet.varint(10, 2);
        let mut tree = packet.nested(2);
        let mut process = tree.nested(1);
        process.varint(1, pid);
        process.varint(2, parent);
        drop(process);
        drop(tree);
        drop(packet);
        Message::new(trace).bytes(1, &body);
    };
    tree(&mut trace, 500, maker.0, 1);
    tree(&mut trace, 1015, child.0, 1);
    bundle_of(&mut trace, 0, |bundle| {
        switch(bundle, 1000, IDLE, 0, maker);
        newtask(bundle, 1010, maker, child);
        switch(bundle, 1020, maker, SLEEPS, child);
        switch(bundle, 1030, child, SLEEPS, maker);
        switch(bundle, 1040, maker, SLEEPS, IDLE);
        switch(bundle, 8000, IDLE, 0, maker);
    });
    let cut = cut_of(&trace, 6000, 7000);
    for line in ["1000 cpu0 to 10 maker", "1010 cpu0 10 makes", "1020 cpu0 to 77 child"] {
        assert!(cut.iter().any(|other| other == line), "{line}: {cut:#?}");
    }
}

fn call(bundle: &mut Message<'_, Vec<u8>>, ts: u64, thread: Who, kind: u32, id: u64) {
    event(bundle, ts, thread.0, kind, |call| call.varint(1, id));
}

/// Its end was lost: readers leave it open for ever, with all that comes after it within. One that ends before its number comes again is over.
#[test]
fn a_system_call_that_does_not_end_is_kept() {
    let thread = (20, "caller");
    let mut trace = Vec::new();
    bundle_of(&mut trace, 0, |bundle| {
        call(bundle, 500, thread, SYS_EXIT, 61);
        call(bundle, 600, thread, SYS_ENTER, 15);
        call(bundle, 1000, thread, SYS_ENTER, 61);
        // Here events were lost.
        call(bundle, 2000, thread, SYS_EXIT, 58);
        for now in (2010..4000).step_by(20) {
            call(bundle, now, thread, SYS_ENTER, 14);
            call(bundle, now + 10, thread, SYS_EXIT, 14);
        }
        call(bundle, 4000, thread, SYS_ENTER, 61);
        call(bundle, 8000, thread, SYS_EXIT, 61);
        call(bundle, 8010, thread, SYS_ENTER, 14);
        call(bundle, 8020, thread, SYS_EXIT, 14);
    });
    let times = |cut: &[String]| -> Vec<String> {
        cut.iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    };
    // What ends is the topmost.
    assert_eq!(times(&cut_of(&trace, 6000, 7000)), ["1000", "4000", "8000"]);
}

/// As many ends as begins may be lost; then the trace says so.
#[test]
fn a_system_call_that_ends_as_another_one_is_kept() {
    let thread = (20, "caller");
    let mut trace = Vec::new();
    bundle_of(&mut trace, 0, |bundle| {
        call(bundle, 1000, thread, SYS_ENTER, 61);
        call(bundle, 1100, thread, SYS_ENTER, 61);
        call(bundle, 1110, thread, SYS_EXIT, 61);
    });
    bundle_of(&mut trace, 0, |bundle| {
        bundle.varint(3, 1);
        call(bundle, 6500, thread, SYS_EXIT, 61);
        call(bundle, 9000, thread, SYS_ENTER, 61);
    });
    let cut = cut_of(&trace, 6000, 7000);
    assert!(cut.iter().any(|line| line.starts_with("1000 ")), "{cut:#?}");
}

/// What ends below others ends them as soon as something comes, which readers count.
#[test]
fn an_end_that_is_out_of_place_is_kept_with_what_it_ends() {
    let thread = (20, "caller");
    let mut trace = Vec::new();
    bundle_of(&mut trace, 0, |bundle| {
        call(bundle, 1000, thread, SYS_ENTER, 61);
        call(bundle, 1100, thread, SYS_ENTER, 62);
        call(bundle, 1200, thread, SYS_EXIT, 61);
        call(bundle, 1300, thread, SYS_ENTER, 63);
        call(bundle, 1400, thread, SYS_EXIT, 63);
        call(bundle, 1500, thread, SYS_ENTER, 63);
        call(bundle, 1600, thread, SYS_EXIT, 63);
        call(bundle, 9000, thread, SYS_ENTER, 61);
    });
    let cut = cut_of(&trace, 6000, 7000);
    let times: Vec<_> = cut.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(times, ["1000", "1100", "1200", "1300", "1400"]);
}

/// Of two runs at once the later end has the name that the other one has brought: what is written says whom it leaves, which columns do not.
#[test]
fn a_name_that_one_of_two_runs_at_once_brings_is_the_last() {
    let (thread, other) = ((60, "old"), (61, "other"));
    let mut trace = Vec::new();
    (0..2).for_each(|cpu| bundle_of(&mut trace, cpu, |bundle| columns(bundle, &[(900, 0, IDLE)], &[])));
    bundle_of(&mut trace, 1, |bundle| {
        columns(bundle, &[(2000, 0, thread), (2040, SLEEPS, other), (2050, SLEEPS, IDLE)], &[]);
    });
    bundle_of(&mut trace, 0, |bundle| {
        columns(bundle, &[(2010, 0, thread), (2030, SLEEPS, other), (2045, SLEEPS, IDLE)], &[]);
        event(bundle, 2020, thread.0, TASK_RENAME, |rename| {
            rename.varint(1, thread.0);
            rename.string(2, thread.1);
            rename.string(3, "new");
        });
    });
    (0..2).for_each(|cpu| {
        bundle_of(&mut trace, cpu, |bundle| columns(bundle, &[(8000, 0, other), (8010, SLEEPS, IDLE)], &[]));
    });
    let cut = cut_bytes(&trace, 6000, 7000);
    assert_eq!(left_at(&cut, 2040), Some((60, "new".to_owned())), "{:#?}", lines(&cut));
}

/// A switch to it was lost: it is left, though readers think that it waits.
#[test]
fn a_state_that_a_lost_switch_leaves_open_is_kept() {
    let thread = (70, "woken");
    let mut trace = Vec::new();
    bundle_of(&mut trace, 0, |bundle| {
        switch(bundle, 1000, IDLE, 0, thread);
        switch(bundle, 1010, thread, SLEEPS, IDLE);
        waking(bundle, 1500, IDLE, thread);
        switch(bundle, 2000, thread, SLEEPS, IDLE);
        switch(bundle, 3000, IDLE, 0, thread);
        switch(bundle, 3010, thread, SLEEPS, IDLE);
        switch(bundle, 4000, IDLE, 0, (61, "other"));
        switch(bundle, 8000, (61, "other"), SLEEPS, IDLE);
    });
    let cut = cut_of(&trace, 6000, 7000);
    for line in ["1010 cpu0 to 0 swapper/0", "1500 cpu0 0 wakes 70", "2000 cpu0 to 0 swapper/0"] {
        assert!(cut.iter().any(|other| other == line), "{line}: {cut:#?}");
    }
}

/// The switches of a CPU that leave another thread than it runs: when, and whom. Readers say how many there are, and never end the row before.
fn mismatches(trace: &[u8]) -> Vec<(u64, u64)> {
    let mut switches = Vec::new();
    ferretto_trace_read::Reader::new(trace)
        .for_each(|packet, _| {
            let bundle = Fields::new(packet).whole().find(|part| part.number == 1);
            let Some(Value::Bytes(bundle)) = bundle.map(|part| part.value) else { return };
            let Parts { bundle, events, .. } = Parts::of(bundle).unwrap();
            let number = |event: &crate::ftrace::bundle::Event<'_>, field| event.number(field).unwrap();
            switches.extend(
                events.iter().map(|event| (bundle.cpu, event.raw_ts, number(event, 2), number(event, 6))),
            );
        })
        .unwrap();
    switches.sort_unstable();
    let pairs = switches.windows(2).filter(|pair| pair[0].0 == pair[1].0 && pair[0].3 != pair[1].2);
    pairs.map(|pair| (pair[1].1, pair[1].2)).collect()
}

/// On both sides of the range, each with others around it.
#[test]
fn a_run_whose_end_was_lost_stays_open() {
    let (open, left, other) = ((70, "open"), (71, "left"), (72, "other"));
    let mut trace = Vec::new();
    bundle_of(&mut trace, 0, |bundle| {
        for now in (1000..9000).step_by(1000) {
            switch(bundle, now, IDLE, 0, other);
            switch(bundle, now + 10, other, SLEEPS, open);
            if now % 3000 == 0 {
                switch(bundle, now + 30, left, SLEEPS, other);
                switch(bundle, now + 40, other, SLEEPS, IDLE);
            } else {
                switch(bundle, now + 20, open, SLEEPS, IDLE);
            }
        }
    });
    assert_eq!(mismatches(&trace), [(3030, 71), (6030, 71)]);
    for (from, to) in [(5000, 5500), (3020, 3025), (3025, 6020), (1005, 1015), (8000, 9000)] {
        let part = cut_bytes(&trace, from, to);
        assert_eq!(mismatches(&part), mismatches(&trace), "{from} {to}");
        let cut = lines(&part);
        for line in ["3010 cpu0 to 70 open", "6010 cpu0 to 70 open"] {
            assert!(cut.iter().any(|other| other == line), "{line}: {cut:#?}");
        }
    }
}

/// What was before the lost switch comes later in the file, and so does what was long before.
#[test]
fn what_a_lost_switch_leaves_open_is_kept_wherever_it_is_in_the_file() {
    let (thread, other) = ((70, "on both"), (61, "other"));
    let mut trace = Vec::new();
    bundle_of(&mut trace, 0, |bundle| {
        switch(bundle, 500, other, SLEEPS, IDLE);
        switch(bundle, 2000, thread, SLEEPS, IDLE);
        switch(bundle, 5000, IDLE, 0, thread);
        switch(bundle, 5010, thread, SLEEPS, IDLE);
        switch(bundle, 9000, IDLE, 0, other);
    });
    bundle_of(&mut trace, 1, |bundle| {
        switch(bundle, 400, other, SLEEPS, IDLE);
        switch(bundle, 1000, IDLE, 0, thread);
        switch(bundle, 1010, thread, SLEEPS, IDLE);
        waking(bundle, 1500, other, thread);
        waking(bundle, 1700, other, thread);
        switch(bundle, 9000, IDLE, 0, other);
    });
    let cut = cut_of(&trace, 7000, 8000);
    for line in [
        "1010 cpu1 to 0 swapper/0",
        "1500 cpu1 61 wakes 70",
        "2000 cpu0 to 0 swapper/0",
        "5010 cpu0 to 0 swapper/0",
    ] {
        assert!(cut.iter().any(|other| other == line), "{line}: {cut:#?}");
    }
    assert!(!cut.iter().any(|line| line.starts_with("1700")), "{cut:#?}");
}

/// Whom a CPU's first switch leaves is known before the file is read: what comes earlier in it is told apart.
#[test]
fn what_the_first_switch_of_a_cpu_leaves_open_is_kept_though_it_comes_later_in_the_file() {
    let (thread, other) = ((70, "on both"), (61, "other"));
    let mut trace = Vec::new();
    bundle_of(&mut trace, 1, |bundle| {
        switch(bundle, 1000, other, SLEEPS, IDLE);
        waking(bundle, 1500, other, thread);
        switch(bundle, 3000, IDLE, 0, thread);
        switch(bundle, 3010, thread, SLEEPS, IDLE);
    });
    bundle_of(&mut trace, 0, |bundle| {
        switch(bundle, 2000, thread, SLEEPS, IDLE);
        switch(bundle, 2010, IDLE, SLEEPS, other);
        switch(bundle, 9000, other, SLEEPS, IDLE);
    });
    let cut = cut_of(&trace, 5000, 6000);
    for line in ["1500 cpu1 61 wakes 70", "2000 cpu0 to 0 swapper/0"] {
        assert!(cut.iter().any(|other| other == line), "{line}: {cut:#?}");
    }
}

/// In columns only the switch before says who was left.
#[test]
fn whom_a_cpu_runs_when_the_range_begins_is_known_by_its_first_switch() {
    let mut trace = Vec::new();
    bundle_of(&mut trace, 0, |bundle| columns(bundle, &[(1000, SLEEPS, (10, "runs on"))], &[]));
    bundle_of(&mut trace, 0, |bundle| columns(bundle, &[(2500, SLEEPS, IDLE)], &[(2600, (11, "woken"))]));
    bundle_of(&mut trace, 0, |bundle| {
        columns(bundle, &[(8000, 0, (10, "runs on")), (8010, SLEEPS, IDLE)], &[]);
    });
    let cut = cut_of(&trace, 2000, 3000);
    let lines = ["1000 cpu0 to 10 runs on", "2500 cpu0 to 0 swapper/0", "2600 cpu0 wakes 11"];
    assert!(cut.starts_with(&lines.map(str::to_owned)), "{cut:#?}");
}

#[test]
fn why_a_thread_was_blocked_is_kept_though_it_is_said_after_the_range() {
    let thread = (20, "blocked");
    let reason = |bundle: &mut Message<'_, Vec<u8>>, ts: u64| {
        event(bundle, ts, 21, SCHED_BLOCKED_REASON, |reason| {
            reason.varint(1, thread.0);
            reason.varint(3, 1);
        });
    };
    let mut trace = Vec::new();
    bundle_of(&mut trace, 0, |bundle| {
        switch(bundle, 1000, IDLE, 0, thread);
        switch(bundle, 1010, thread, SLEEPS, IDLE);
        reason(bundle, 4000);
        waking(bundle, 4000, (21, "other"), thread);
        reason(bundle, 5000);
    });
    let cut = cut_of(&trace, 2000, 3000);
    assert!(cut.iter().any(|line| line == "4000 cpu0 21 does"), "{cut:#?}");
    assert!(!cut.iter().any(|line| line.starts_with("5000")), "{cut:#?}");
}

/// Many switches were lost: what the thread was left in the last time, and what woke it after that.
#[test]
fn the_last_of_many_runs_without_a_begin_opens_the_state() {
    let thread = (70, "often lost");
    let mut trace = Vec::new();
    bundle_of(&mut trace, 0, |bundle| {
        switch(bundle, 1000, IDLE, 0, thread);
        switch(bundle, 1010, thread, SLEEPS, IDLE);
        for now in [2000, 3000, 4000] {
            waking(bundle, now, (61, "other"), thread);
            switch(bundle, now + 10, thread, SLEEPS, IDLE);
        }
        waking(bundle, 4500, (61, "other"), thread);
        switch(bundle, 8000, IDLE, 0, thread);
    });
    let cut = cut_of(&trace, 6000, 7000);
    for line in ["4010 cpu0 to 0 swapper/0", "4500 cpu0 61 wakes 70", "8000 cpu0 to 70 often lost"] {
        assert!(cut.iter().any(|other| other == line), "{line}: {cut:#?}");
    }
}

/// Its first switch, and with it its name, comes after the range: in the range it only enters the kernel.
#[test]
fn a_thread_that_ran_all_the_time_has_its_name() {
    let mut trace = Vec::new();
    bundle_of(&mut trace, 0, |bundle| {
        event(bundle, 1000, 30, SYS_ENTER, |call| call.varint(1, 1));
        event(bundle, 2000, 30, SYS_ENTER, |call| call.varint(1, 1));
    });
    bundle_of(&mut trace, 1, |bundle| {
        switch(bundle, 4000, IDLE, 0, (31, "other"));
        switch(bundle, 4010, (31, "other"), SLEEPS, IDLE);
        switch(bundle, 5000, IDLE, 0, (30, "named late"));
        switch(bundle, 5010, (30, "named late"), DEAD, IDLE);
    });
    let cut = cut_of(&trace, 1500, 3000);
    assert!(cut.iter().any(|line| line == "5000 cpu1 to 30 named late"), "{cut:#?}");
}

/// In a ring a CPU's data begin before those of another one. What it says until then makes no rows, but columns name threads: one that is only
/// woken after that has no other name.
#[test]
fn a_name_that_only_a_switch_before_the_data_of_all_cpus_says_is_kept() {
    let (woken, runs) = ((30, "named early"), (31, "runs on"));
    let mut trace = Vec::new();
    bundle_of(&mut trace, 0, |bundle| {
        bundle.varint(PREVIOUS_BUNDLE_END, 500);
        let early = [
            (900, SLEEPS, (30, "a name before")),
            (1000, SLEEPS, woken),
            (1010, SLEEPS, runs),
            (1020, SLEEPS, IDLE),
        ];
        let counted = [(2100, 0, runs), (2110, SLEEPS, IDLE), (2120, 0, (32, "last")), (2130, SLEEPS, IDLE)];
        columns(bundle, &[&early[..], &counted].concat(), &[(2125, woken)]);
    });
    bundle_of(&mut trace, 1, |bundle| {
        bundle.varint(PREVIOUS_BUNDLE_END, 2000);
        columns(bundle, &[(2050, 0, IDLE), (9000, 0, runs)], &[]);
    });
    for (from, to) in [(4000, 5000), (1005, 1015), (600, 700)] {
        let cut = cut_of(&trace, from, to);
        let named: Vec<&String> = cut.iter().filter(|line| line.contains("to 30")).collect();
        assert_eq!(named, ["1000 cpu0 to 30 named early"], "{cut:#?}");
        let is_early = |line: &&String| line.starts_with("1010 ");
        assert_eq!(cut.iter().filter(is_early).count(), usize::from(from == 1005), "{cut:#?}");
    }
}

/// Its number stands for another symbol once the sequence was cleared.
#[test]
fn a_symbol_that_an_event_before_the_range_names_is_the_one_that_it_named() {
    let mut trace = Vec::new();
    let symbol = |out: &mut Vec<u8>, name: &str| {
        let mut body = Vec::new();
        let mut packet = Message::new(&mut body);
        packet.varint(10, 1);
        packet.varint(13, 1);
        let mut interned = packet.nested(12);
        let mut symbol = interned.nested(26);
        symbol.varint(1, 2);
        symbol.string(2, name);
        drop(symbol);
        drop(interned);
        drop(packet);
        Message::new(out).bytes(1, &body);
    };
    let work = |bundle: &mut Message<'_, Vec<u8>>, ts: u64, kind: u32| {
        event(bundle, ts, 10, kind, |work| {
            work.varint(1, 77);
            work.varint(2, 2);
        });
    };
    symbol(&mut trace, "first");
    bundle_of(&mut trace, 0, |bundle| work(bundle, 1000, WORKQUEUE_EXECUTE_START));
    symbol(&mut trace, "second");
    bundle_of(&mut trace, 0, |bundle| work(bundle, 4000, WORKQUEUE_EXECUTE_END));
    symbol(&mut trace, "third");
    let mut order = Vec::new();
    ferretto_trace_read::Reader::new(&cut_bytes(&trace, 2000, 3000)[..])
        .for_each(|packet, _| {
            for part in Fields::new(packet).whole() {
                match (part.number, part.value) {
                    (12, _) => order.push("symbol".to_owned()),
                    (1, Value::Bytes(bundle)) => {
                        let events = Parts::of(bundle).unwrap().events;
                        order.extend(events.iter().map(|event| event.raw_ts.to_string()));
                    }
                    _ => {}
                }
            }
        })
        .unwrap();
    assert_eq!(order, ["symbol", "1000", "symbol", "4000"]);
}

/// A name for a while, and then the one before.
#[test]
fn the_last_name_of_a_thread_is_kept_whatever_it_had_in_between() {
    let mut trace = Vec::new();
    bundle_of(&mut trace, 0, |bundle| {
        let mut now = 1000;
        for name in ["one", "one", "other", "other", "one", "one"] {
            switch(bundle, now, IDLE, 0, (40, name));
            switch(bundle, now + 10, (40, name), SLEEPS, IDLE);
            now += 1000;
        }
    });
    let named: Vec<String> =
        cut_of(&trace, 1500, 2500).into_iter().filter(|line| line.contains("to 40")).collect();
    assert_eq!(named.last().map(String::as_str), Some("5000 cpu0 to 40 one"), "{named:#?}");
}

/// It changes it itself, by what only its leaving says, or by an event.
#[test]
fn a_name_that_a_thread_gives_itself_after_the_range_is_kept() {
    let mut trace = Vec::new();
    bundle_of(&mut trace, 0, |bundle| {
        for now in [1000, 5000, 6000] {
            switch(bundle, now, IDLE, 0, (40, "old"));
            switch(bundle, now + 10, (40, if now == 6000 { "new" } else { "old" }), SLEEPS, IDLE);
        }
        event(bundle, 9000, 41, TASK_RENAME, |rename| rename.varint(1, 41));
    });
    let cut = cut_bytes(&trace, 1005, 2000);
    assert_eq!(left_at(&cut, 6010), Some((40, "new".to_owned())), "{:#?}", lines(&cut));
    assert_eq!(lines(&cut).last().map(String::as_str), Some("9000 cpu0 41 makes"));
}

/// Names that come with columns, too.
#[test]
fn a_name_that_a_thread_gets_after_the_range_is_kept() {
    let mut trace = Vec::new();
    for (at, name) in (1u64..).zip(["old", "old", "new", "new"]) {
        bundle_of(&mut trace, 0, |bundle| {
            columns(bundle, &[(1000 * at, 0, (50, name)), (1000 * at + 10, SLEEPS, IDLE)], &[]);
        });
    }
    let cut = cut_of(&trace, 1500, 2500);
    assert!(cut.iter().any(|line| line.ends_with("to 50 new")), "{cut:#?}");
}

/// Columns are known before the events of their bundle, and do not say the name of whom they leave: the switch that is written does.
#[test]
fn a_name_that_a_thread_gives_itself_while_it_runs_in_columns_is_its_last() {
    let mut trace = Vec::new();
    bundle_of(&mut trace, 0, |bundle| columns(bundle, &[(900, SLEEPS, IDLE)], &[]));
    bundle_of(&mut trace, 0, |bundle| {
        let switches =
            [(1000, 0, (50, "old")), (1020, SLEEPS, IDLE), (1030, 0, (51, "other")), (1040, 0, IDLE)];
        columns(bundle, &switches, &[]);
        event(bundle, 1010, 50, TASK_RENAME, |rename| {
            rename.varint(1, 50);
            rename.string(2, "old");
            rename.string(3, "new");
        });
    });
    bundle_of(&mut trace, 0, |bundle| columns(bundle, &[(5000, 0, (51, "other")), (5010, 0, IDLE)], &[]));
    let cut = cut_bytes(&trace, 2000, 3000);
    assert_eq!(left_at(&cut, 1020), Some((50, "new".to_owned())), "{:#?}", lines(&cut));
}
