//! Traces from recorders of all kinds.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ferretto_interop::{
    Maker, Mix, Reason, TwoMachines, World, both, config, end_into_file, ferretto, tracefs, upstream,
    upstream_client, wait_for_end,
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

/// Scheduling in columns.
pub(crate) const COMPACT: &str = "compact_sched { enabled: true }";

/// Without what only one of two probes may do: the kernel has one ftrace.
const OF_MACHINES: &str = r#"
    buffers { size_kb: 16384 }
    duration_ms: 1500
    trace_all_machines: true
    data_sources { config { name: "track_event" } }
    data_sources { config { name: "linux.process_stats"
        process_stats_config { scan_all_processes_on_start: true proc_stats_poll_ms: 500 }
    } }
    data_sources { config { name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 200 stat_period_ms: 200 } } }
    data_sources { config { name: "linux.system_info" } }
"#;

/// Each ring goes round some times.
const OF_RINGS: &str = r#"
    buffers { size_kb: 256 fill_policy: RING_BUFFER }
    buffers { size_kb: 128 fill_policy: RING_BUFFER }
    duration_ms: 3000
    incremental_state_config { clear_period_ms: 400 }
    data_sources { config { name: "linux.ftrace" target_buffer: 0 ftrace_config {
        ftrace_events: "sched/sched_switch" ftrace_events: "sched/sched_waking" ftrace_events: "sched/sched_process_exit"
        ftrace_events: "task/task_newtask" ftrace_events: "task/task_rename" ftrace_events: "irq/*"
        ftrace_events: "raw_syscalls/sys_enter" ftrace_events: "raw_syscalls/sys_exit"
    } } }
    data_sources { config { name: "track_event" target_buffer: 1 } }
"#;

/// What a program writes while everything of programs is recorded.
fn program(maker: Maker, command: Command, to: &Path) -> Result<(), Reason> {
    let peers = if maker == Maker::Upstream { upstream() } else { ferretto() }?;
    let world = World::with_traced(&peers, maker);
    let mut program = world.spawn(command, "program");
    world.wait_for_data_source("track_event");
    let mut consumer = world.consumer();
    consumer.enable_tracing(config(OF_PROGRAMS), None).unwrap();
    let status = program.wait(TIMEOUT).unwrap_or_else(|| panic!("it hangs: {}", program.log()));
    assert!(status.success(), "{}", program.log());
    end_into_file(&mut consumer, to);
    Ok(())
}

pub(crate) fn gallery(maker: Maker, to: &Path) -> Result<(), Reason> {
    program(maker, Command::new(env!("CARGO_BIN_EXE_sdk-gallery")), to)
}

pub(crate) fn tasks(to: &Path) -> Result<(), Reason> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sdk-tasks"));
    command.arg("40");
    program(Maker::Ferretto, command, to)
}

pub(crate) fn upstreams_library(to: &Path) -> Result<(), Reason> {
    let mut command = upstream_client()?;
    command.args(["500", "1"]);
    program(Maker::Ferretto, command, to)
}

/// What happens on this machine, as one maker's probes and service say it.
pub(crate) fn machine(maker: Maker, sched: &str, to: &Path) -> Result<(), Reason> {
    tracefs()?;
    let peers = if maker == Maker::Upstream { upstream() } else { ferretto() }?;
    let mut world = World::with_traced(&peers, maker);
    world.start_probes(&peers, maker);
    world.wait_for_data_source("linux.ftrace");
    world.start(busy(), "busy");
    record_to_its_end(&world, &OF_A_MACHINE.replace("SCHED", sched), to);
    Ok(())
}

fn busy() -> Command {
    let mut busy = Command::new("sh");
    // Its command line has what a printer of tables must write otherwise.
    busy.args(["-c", "while true; do /bin/true; sleep 0.01; done # \\n \t \n \r"]);
    busy
}

fn record_to_its_end(world: &World, text: &str, to: &Path) {
    let mut consumer = world.consumer();
    consumer.enable_tracing(config(text), None).unwrap();
    assert_eq!(wait_for_end(&mut consumer), None);
    let mut file = File::create(to).unwrap();
    consumer.read_buffers(|packet| ferretto_consumer::write_packet(&mut file, packet)).unwrap();
}

/// Two machines, and a program on the one that is relayed.
pub(crate) fn machines(maker: Maker, to: &Path) -> Result<(), Reason> {
    let mut machines = TwoMachines::new(both()?, Mix { traced: maker, guest_probes: Maker::Ferretto })?;
    let mut client = Command::new(env!("CARGO_BIN_EXE_sdk-client"));
    client.args(["200", "1"]);
    machines.start_on_guest(&client, "client");
    fs::copy(machines.record(OF_MACHINES), to).expect("a copy");
    Ok(())
}

/// Rings that lost their begins while sequences went on.
pub(crate) fn ring(to: &Path) -> Result<(), Reason> {
    tracefs()?;
    let peers = ferretto()?;
    let mut world = World::with_traced(&peers, Maker::Ferretto);
    world.start_probes(&peers, Maker::Ferretto);
    world.wait_for_data_source("linux.ftrace");
    world.start(busy(), "busy");
    let mut threads = Command::new(env!("CARGO_BIN_EXE_sdk-threads"));
    threads.args(["8", "2000", "60"]);
    world.start(threads, "threads");
    world.wait_for_data_source("track_event");
    record_to_its_end(&world, OF_RINGS, to);
    Ok(())
}
