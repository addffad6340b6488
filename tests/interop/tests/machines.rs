//! Two machines in one trace.

use Maker::{Ferretto, Upstream};
use ferretto_interop::{AHEAD_S, Maker, Mix, TwoMachines, both, need, trace_query};

/// Aligned clocks may be apart by this: what a loaded machine makes of a message's way, and far less than `AHEAD_S`.
const APART_NS: i64 = 5_000_000_000;

const CONFIG: &str = "
    buffers { size_kb: 16384 }
    data_sources { config {
        name: \"linux.process_stats\"
        process_stats_config { scan_all_processes_on_start: true }
    } }
    data_sources { config { name: \"linux.sys_stats\" sys_stats_config { meminfo_period_ms: 200 } } }
    duration_ms: 2000
";

fn check(mix: Mix) {
    let sql = need!(trace_query());
    let setting = need!(TwoMachines::new(need!(both()), mix));

    let trace = setting.record(&format!("{CONFIG} trace_all_machines: true"));
    let counters = |of: &str, what: &str| {
        format!(
            "select {what}(ts) from counter join track on counter.track_id = track.id where machine_id is {of}"
        )
    };
    let queries = [
        "select count(*) from machine".to_owned(),
        "select count(*) from process where machine_id is null and pid > 0".to_owned(),
        "select count(*) from process where machine_id = 1 and pid > 0".to_owned(),
        "select count(*) from stats where severity != 'info' and value > 0 and name not like 'ftrace%'"
            .to_owned(),
        counters("null", "min"),
        counters("1", "min"),
        counters("1", "max"),
        counters("null", "max"),
    ];
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    let numbers = sql.numbers(&trace, &queries);
    let [machines, host_processes, guest_processes, errors, host_first, guest_first, guest_last, host_last] =
        numbers.try_into().expect("as many answers");
    assert_eq!((machines, errors), (2, 0), "{mix:?}");
    assert!(host_processes > 10 && guest_processes > 10, "{mix:?}: {host_processes}, {guest_processes}");
    // Trace Processor before v54 takes packets that name no clock for the host's time, as upstream's probes' are.
    let shift = if mix.guest_probes == Upstream { AHEAD_S * 1_000_000_000 } else { 0 };
    for (host, guest) in [(host_first, guest_first), (host_last, guest_last)] {
        assert!((guest - shift - host).abs() < APART_NS, "{mix:?}: {host} and {guest}");
    }

    let trace = setting.record(CONFIG);
    let processes = "select count(distinct machine_id) from process where pid > 0";
    assert_eq!(sql.numbers(&trace, &[processes]), [0], "{mix:?}: only the service's own unless asked for");
}

#[test]
fn one_trace_has_two_machines_all_is_ours() {
    check(Mix { traced: Ferretto, guest_probes: Ferretto });
}

#[test]
fn one_trace_has_two_machines_service_is_upstreams() {
    check(Mix { traced: Upstream, guest_probes: Ferretto });
}

#[test]
fn one_trace_has_two_machines_probes_there_are_upstreams() {
    check(Mix { traced: Ferretto, guest_probes: Upstream });
}

#[test]
fn one_trace_has_two_machines_only_relay_is_ours() {
    check(Mix { traced: Upstream, guest_probes: Upstream });
}
