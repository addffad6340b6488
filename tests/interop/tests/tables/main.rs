//! The tables that we make of a trace beside those of upstream's Trace Processor, row by row, for traces from all kinds of recorders.
//!
//! `comparison` says which table and which columns of Trace Processor are beside which of ours, `differences` where they may differ and
//! why.

mod comparison;
mod differences;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ferretto_interop::{
    Maker, Peers, World, config, end_into_file, ferretto, need, trace_query, tracefs, upstream,
    upstream_client,
};

const TIMEOUT: Duration = Duration::from_secs(60);

/// But what v52 does not know: states, call stacks.
const OF_PROGRAMS: &str = r#"
    buffers { size_kb: 16384 }
    data_sources { config { name: "track_event" track_event_config { 
        enabled_categories: "gallery" enabled_categories: "gallery.plugin*" enabled_categories: "gallery.one"
        enabled_categories: "ferretto.*" enabled_categories: "upstream.*" enabled_categories: "logged" enabled_tags: "debug"
        disabled_categories: "*"
    } } }
"#;

const OF_A_MACHINE: &str = r#"
    buffers { size_kb: 32768 }
    buffers { size_kb: 8192 }
    duration_ms: 1500
    data_sources { config { name: "linux.ftrace" target_buffer: 0 ftrace_config {
        SCHED
        ftrace_events: "sched/sched_switch" ftrace_events: "sched/sched_waking" ftrace_events: "sched/sched_process_free"
        ftrace_events: "sched/sched_process_exec" ftrace_events: "sched/sched_process_fork" ftrace_events: "sched/sched_process_exit"
        ftrace_events: "task/task_newtask" ftrace_events: "task/task_rename" ftrace_events: "irq/*"
        ftrace_events: "raw_syscalls/sys_enter" ftrace_events: "raw_syscalls/sys_exit" ftrace_events: "workqueue/*"
        ftrace_events: "power/cpu_idle" ftrace_events: "power/cpu_frequency" ftrace_events: "signal/*"
        ftrace_events: "ftrace/print" ftrace_events: "kmem/rss_stat"
        symbolize_ksyms: true
    } } }
    data_sources { config { name: "linux.process_stats" target_buffer: 1 process_stats_config {
        scan_all_processes_on_start: true record_thread_names: true proc_stats_poll_ms: 500
    } } }
    data_sources { config { name: "linux.sys_stats" target_buffer: 1 sys_stats_config {
        meminfo_period_ms: 500 vmstat_period_ms: 500 stat_period_ms: 500 psi_period_ms: 500 diskstat_period_ms: 500
        buddyinfo_period_ms: 500
    } } }
    data_sources { config { name: "linux.system_info" target_buffer: 1 } }
"#;

fn compare(trace: &Path) {
    comparison::compare(&need!(trace_query()), trace);
}

/// What a program writes while everything of programs is recorded.
fn record_program(world: &World, command: Command) -> PathBuf {
    let mut program = world.spawn(command, "program");
    world.wait_for_data_source("track_event");
    let mut consumer = world.consumer();
    consumer.enable_tracing(config(OF_PROGRAMS), None).unwrap();
    let status = program.wait(TIMEOUT).unwrap_or_else(|| panic!("it hangs: {}", program.log()));
    assert!(status.success(), "{}", program.log());
    let path = world.path("trace.pftrace");
    end_into_file(&mut consumer, &path);
    path
}

#[test]
fn events_of_every_kind_of_our_library() {
    let world = World::with_traced(&need!(ferretto()), Maker::Ferretto);
    compare(&record_program(&world, Command::new(env!("CARGO_BIN_EXE_sdk-gallery"))));
}

#[test]
fn events_of_every_kind_through_upstreams_service() {
    let world = World::with_traced(&need!(upstream()), Maker::Upstream);
    compare(&record_program(&world, Command::new(env!("CARGO_BIN_EXE_sdk-gallery"))));
}

#[test]
fn tasks_of_ours_and_of_tracing() {
    let world = World::with_traced(&need!(ferretto()), Maker::Ferretto);
    let mut command = Command::new(env!("CARGO_BIN_EXE_sdk-tasks"));
    command.arg("40");
    compare(&record_program(&world, command));
}

#[test]
fn events_of_upstreams_library() {
    let mut command = need!(upstream_client());
    let world = World::with_traced(&need!(ferretto()), Maker::Ferretto);
    command.args(["500", "1"]);
    compare(&record_program(&world, command));
}

fn check_machine(peers: &Peers, maker: Maker, sched: &str) {
    need!(tracefs());
    let mut world = World::with_traced(peers, maker);
    world.start_probes(peers, maker);
    world.wait_for_data_source("linux.ftrace");
    let mut busy = Command::new("sh");
    // Its command line has what a printer of tables must write otherwise.
    busy.args(["-c", "while true; do /bin/true; sleep 0.01; done # \\n \t \n \r"]);
    world.start(busy, "busy");
    let mut consumer = world.consumer();
    consumer.enable_tracing(config(&OF_A_MACHINE.replace("SCHED", sched)), None).unwrap();
    assert_eq!(ferretto_interop::wait_for_end(&mut consumer), None);
    let path = world.path("trace.pftrace");
    let mut file = std::fs::File::create(&path).unwrap();
    consumer.read_buffers(|packet| ferretto_consumer::write_packet(&mut file, packet)).unwrap();
    compare(&path);
}

#[test]
fn a_machine_by_our_probes() {
    check_machine(&need!(ferretto()), Maker::Ferretto, "");
}

#[test]
fn a_machine_by_our_probes_with_compact_scheduling() {
    check_machine(&need!(ferretto()), Maker::Ferretto, "compact_sched { enabled: true }");
}

#[test]
fn a_machine_by_upstreams_probes() {
    check_machine(&need!(upstream()), Maker::Upstream, "compact_sched { enabled: true }");
}
