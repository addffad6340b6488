//! Recording a Linux system with the service, the data sources and the command line of either maker: every mix fills the same tables.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use Maker::{Ferretto, Upstream};
use ferretto_interop::{Maker, Peers, Program, TraceQuery, World, both, need, trace_query, tracefs};
use rustix::process::Signal;

/// Longer than any recording here, with a loaded machine in mind.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Who makes what.
#[derive(Debug, Clone, Copy)]
struct Mix {
    traced: Maker,
    probes: Maker,
    perfetto: Maker,
}

const UPSTREAM: Mix = Mix { traced: Upstream, probes: Upstream, perfetto: Upstream };

/// One test a mix.
macro_rules! on_each_mix {
    ($($promise:ident)*) => {
        on_each_mix! { @ service_is_ours, Mix { traced: Ferretto, ..UPSTREAM }, $($promise)* }
        on_each_mix! { @ probes_are_ours, Mix { probes: Ferretto, ..UPSTREAM }, $($promise)* }
        on_each_mix! { @ command_line_is_ours, Mix { perfetto: Ferretto, ..UPSTREAM }, $($promise)* }
        on_each_mix! { @ only_service_is_upstreams, Mix { traced: Upstream, probes: Ferretto, perfetto: Ferretto }, $($promise)* }
        on_each_mix! { @ all_is_ours, Mix { traced: Ferretto, probes: Ferretto, perfetto: Ferretto }, $($promise)* }
        on_each_mix! { @ all_is_upstreams, UPSTREAM, $($promise)* }
    };
    (@ $mix:ident, $value:expr, $($promise:ident)*) => {
        mod $mix {
            use super::*;
            $(#[test] fn $promise() {
                need!(tracefs());
                super::$promise(&Setting::new(need!(both()), need!(trace_query()), $value));
            })*
        }
    };
}

on_each_mix! {
    a_timed_recording_fills_the_same_tables
    a_discarding_buffer_keeps_the_beginning
    a_small_ring_keeps_the_end
    ctrl_c_ends_a_recording_and_keeps_it
    a_session_writes_into_a_file_while_it_records
    a_compressed_recording_has_it_all
    the_service_is_queried
}

struct Setting {
    world: World,
    peers: Peers,
    sql: TraceQuery,
    mix: Mix,
}

/// Something to see in a trace: processes that come and go and sleep.
struct Load(std::process::Child);

impl Load {
    fn start() -> Self {
        let script = "while :; do sleep 0.01; done";
        let child = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).spawn();
        Self(child.expect("a shell"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Setting {
    fn new(peers: Peers, sql: TraceQuery, mix: Mix) -> Self {
        let mut world = World::with_traced(&peers, mix.traced);
        world.start_probes(&peers, mix.probes);
        Self { world, peers, sql, mix }
    }

    fn perfetto(&self, config: &str, trace: &Path) -> Command {
        let path = self.world.path("config.txtpb");
        std::fs::write(&path, config).unwrap();
        let mut command = self.peers.command(self.mix.perfetto, Program::Perfetto);
        command.arg("--txt").arg("-c").arg(path).arg("-o").arg(trace);
        command
    }

    fn record(&self, config: &str) -> PathBuf {
        let trace = self.world.path("trace.pftrace");
        let _load = Load::start();
        let done = self.world.run(self.perfetto(config, &trace), TIMEOUT);
        assert!(
            done.status.success(),
            "{:?}: {}{}\n{}",
            self.mix,
            done.stdout,
            done.stderr,
            self.world.logs()
        );
        trace
    }

    /// Nothing is lost, and the load is seen by every source.
    fn check_system(&self, trace: &Path) {
        assert_eq!(self.sql.losses(trace), Vec::<String>::new(), "{:?}", self.mix);
        let checks = [
            (
                "slices of the load on CPUs",
                "select count(*) from sched join thread using (utid) where thread.name = 'sleep'",
            ),
            (
                "states of the load",
                "select count(*) from thread_state join thread using (utid) where thread.name = 'sleep' and state = 'S'",
            ),
            (
                "processes by name and command line",
                "select count(*) from process where name is not null and cmdline is not null",
            ),
            (
                "the load's parents",
                "select count(*) from process p join process q on p.parent_upid = q.upid where q.name like '%sh%'",
            ),
            (
                "memory over time",
                "select count(*) from counter join counter_track t on counter.track_id = t.id where t.name = 'MemFree'",
            ),
            (
                "the kernel",
                "select count(*) from metadata where name = 'system_name' and str_value = 'Linux'",
            ),
            ("the session's id", "select count(*) from metadata where name = 'trace_uuid'"),
            ("the config", "select count(*) from metadata where name = 'trace_config_pbtxt'"),
            ("clocks", "select count(*) from clock_snapshot where clock_name = 'REALTIME'"),
        ];
        let numbers = self.sql.numbers(trace, &checks.map(|(_, query)| query));
        for ((what, _), number) in checks.into_iter().zip(numbers) {
            assert!(number > 0, "{:?}: no {what}", self.mix);
        }
    }

    /// Of the tables that a Linux recording can fill, those that have rows.
    fn filled(&self, trace: &Path) -> BTreeSet<&'static str> {
        const TABLES: [&str; 14] = [
            "sched",
            "thread_state",
            "process",
            "thread",
            "counter",
            "clock_snapshot",
            "metadata",
            "cpu",
            "process_counter_track",
            "cpu_counter_track",
            "counter_track",
            "machine",
            "ftrace_event",
            "args",
        ];
        let queries = TABLES.map(|table| format!("select count(*) from {table}"));
        let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
        let tables = self.sql.query(trace, &queries);
        TABLES
            .into_iter()
            .zip(tables)
            .filter(|(_, table)| table.column() != ["0"])
            .map(|(name, _)| name)
            .collect()
    }

    fn counter_names(&self, trace: &Path) -> BTreeSet<String> {
        let query = "select distinct name from counter_track where id in (select track_id from counter)";
        self.sql.query(trace, &[query]).remove(0).column().into_iter().map(str::to_owned).collect()
    }
}

fn config(buffer: &str, rest: &str) -> String {
    format!(
        r#"
        buffers {{ {buffer} }}
        buffers {{ size_kb: 4096 }}
        data_sources {{ config {{
          name: "linux.ftrace" target_buffer: 0
          ftrace_config {{
            ftrace_events: "sched/sched_switch" ftrace_events: "sched/sched_waking"
            ftrace_events: "sched/sched_process_exit" ftrace_events: "sched/sched_process_free"
            ftrace_events: "task/task_newtask" ftrace_events: "task/task_rename"
            compact_sched {{ enabled: true }}
          }}
        }} }}
        data_sources {{ config {{
          name: "linux.process_stats" target_buffer: 1
          process_stats_config {{ scan_all_processes_on_start: true proc_stats_poll_ms: 250 }}
        }} }}
        data_sources {{ config {{
          name: "linux.sys_stats" target_buffer: 1
          sys_stats_config {{
            meminfo_period_ms: 250 meminfo_counters: MEMINFO_MEM_FREE meminfo_counters: MEMINFO_CACHED
            vmstat_period_ms: 250 vmstat_counters: VMSTAT_PGFAULT
            stat_period_ms: 250 stat_counters: STAT_CPU_TIMES stat_counters: STAT_FORK_COUNT
          }}
        }} }}
        data_sources {{ config {{ name: "linux.system_info" target_buffer: 1 }} }}
        {rest}
        "#
    )
}

fn a_timed_recording_fills_the_same_tables(setting: &Setting) {
    let text = config("size_kb: 16384 fill_policy: RING_BUFFER", "duration_ms: 1500");
    let trace = setting.record(&text);
    setting.check_system(&trace);
    let reference = Setting::new(setting.peers.clone(), setting.sql.clone(), UPSTREAM);
    let expected = reference.record(&text);
    assert_eq!(setting.filled(&trace), reference.filled(&expected), "{:?}", setting.mix);
    let missing: Vec<String> =
        reference.counter_names(&expected).difference(&setting.counter_names(&trace)).cloned().collect();
    assert_eq!(missing, Vec::<String>::new(), "counters, {:?}", setting.mix);
}

fn a_discarding_buffer_keeps_the_beginning(setting: &Setting) {
    let trace =
        setting.record(&config("size_kb: 64 fill_policy: DISCARD", "duration_ms: 2000 flush_period_ms: 100"));
    let spread = setting.sql.number(&trace, "select count(*) from sched");
    assert!(spread > 0, "{:?}", setting.mix);
    let discards =
        "select coalesce(sum(value), 0) from stats where name = 'traced_buf_chunks_overwritten' and idx = 0";
    assert_eq!(setting.sql.number(&trace, discards), 0, "{:?}", setting.mix);
}

fn a_small_ring_keeps_the_end(setting: &Setting) {
    let trace = setting
        .record(&config("size_kb: 64 fill_policy: RING_BUFFER", "duration_ms: 2000 flush_period_ms: 100"));
    // The last slices lie near the end of the recording, which the counters span.
    let query = "select (select max(ts) from counter) - (select max(ts) from sched)";
    let distance_ns = setting.sql.number(&trace, query);
    assert!(distance_ns.abs() < 700_000_000, "{:?}: {distance_ns}", setting.mix);
}

fn ctrl_c_ends_a_recording_and_keeps_it(setting: &Setting) {
    let trace = setting.world.path("trace.pftrace");
    let _load = Load::start();
    let text = config("size_kb: 16384", "");
    let mut recording = setting.world.spawn(setting.perfetto(&text, &trace), "perfetto");
    setting.world.wait_until("the session", || {
        setting
            .world
            .consumer()
            .query_service_state(false)
            .is_ok_and(|state| state.num_sessions_started() == 1)
    });
    std::thread::sleep(Duration::from_millis(1500));
    recording.signal(Signal::INT);
    let status =
        recording.wait(TIMEOUT).unwrap_or_else(|| panic!("{:?} hangs: {}", setting.mix, recording.log()));
    assert!(status.success(), "{:?}: {}", setting.mix, recording.log());
    setting.check_system(&trace);
}

fn a_session_writes_into_a_file_while_it_records(setting: &Setting) {
    let rest = "write_into_file: true file_write_period_ms: 300 flush_period_ms: 300 duration_ms: 1500";
    let trace = setting.record(&config("size_kb: 16384", rest));
    setting.check_system(&trace);
}

fn a_compressed_recording_has_it_all(setting: &Setting) {
    let rest = "compression_type: COMPRESSION_TYPE_DEFLATE duration_ms: 1500";
    for more in ["", "write_into_file: true file_write_period_ms: 300 flush_period_ms: 300"] {
        let trace = setting.record(&config("size_kb: 16384", &format!("{rest} {more}")));
        setting.check_system(&trace);
    }
}

fn the_service_is_queried(setting: &Setting) {
    let mut command = setting.peers.command(setting.mix.perfetto, Program::Perfetto);
    command.arg("--query");
    let done = setting.world.run(command, TIMEOUT);
    assert!(done.status.success(), "{}", done.stderr);
    for part in ["linux.ftrace", "linux.process_stats", "linux.sys_stats", "PRODUCER", "DATA SOURCES"] {
        assert!(done.stdout.contains(part), "{:?}: no {part} in {}", setting.mix, done.stdout);
    }
}
