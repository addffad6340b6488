//! Two machines in one trace: two network namespaces with a cable between them, a service in the one and a relay in the other, whose
//! boot clock is in a namespace of its own, too, so that it differs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use Maker::{Ferretto, Upstream};
use ferretto_interop::{Maker, Peers, Program, Reason, TraceQuery, World, both, need, trace_query};
use ferretto_ipc::address::{CONSUMER_SOCKET_ENV, PRODUCER_SOCKET_ENV};

/// Longer than any recording here, with a loaded machine in mind.
const TIMEOUT: Duration = Duration::from_secs(60);
/// What the relay's machine is called.
const GUEST: &str = "guest";
/// So much later it is by the guest's boot clock.
const AHEAD_S: i64 = 100_000;
/// Aligned clocks may be apart by this: what a loaded machine makes of a message's way, and far less than `AHEAD_S`.
const APART_NS: i64 = 5_000_000_000;

/// A network namespace for each of two machines. They go away when this is dropped.
struct Machines {
    host: String,
    guest: String,
}

impl Machines {
    fn new() -> Result<Self, Reason> {
        if !rustix::process::geteuid().is_root() {
            return Err("needs root to make network namespaces; run it as root".to_owned());
        }
        if !Path::new("/proc/self/timens_offsets").exists() {
            return Err("needs time namespaces (Linux 5.6)".to_owned());
        }
        for program in ["nsenter", "unshare"] {
            let found = Command::new(program).arg("--version").output();
            found.map_err(|error| format!("needs the program {program}: {error}"))?;
        }
        static LAST: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}-{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed));
        let machines = Self { host: format!("ferretto-host-{id}"), guest: format!("ferretto-guest-{id}") };
        let (host, guest) = (machines.host.as_str(), machines.guest.as_str());
        ip(&["netns", "add", host])?;
        ip(&["netns", "add", guest])?;
        ip(&[
            "link", "add", "cable", "netns", host, "type", "veth", "peer", "name", "cable", "netns", guest,
        ])?;
        for (machine, address) in [(host, "10.77.0.1/24"), (guest, "10.77.0.2/24")] {
            ip(&["-n", machine, "address", "add", address, "dev", "cable"])?;
            ip(&["-n", machine, "link", "set", "cable", "up"])?;
        }
        Ok(machines)
    }

    fn on_host(&self, variables: &[(&str, &str)], command: &Command) -> Command {
        Self::within(&["nsenter", &format!("--net=/run/netns/{}", self.host)], variables, command)
    }

    /// With the boot clock of the guest.
    fn on_guest(&self, variables: &[(&str, &str)], command: &Command) -> Command {
        let net = format!("--net=/run/netns/{}", self.guest);
        let ahead = AHEAD_S.to_string();
        let enter = ["nsenter", &net, "unshare", "--time", "--boottime", &ahead, "--monotonic", &ahead];
        Self::within(&enter, variables, command)
    }

    fn within(enter: &[&str], variables: &[(&str, &str)], command: &Command) -> Command {
        let mut within = Command::new(enter[0]);
        within.args(&enter[1..]).arg("env");
        within.args(variables.iter().map(|(name, value)| format!("{name}={value}")));
        within.arg(command.get_program()).args(command.get_args());
        within
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for machine in [&self.host, &self.guest] {
            let _ = ip(&["netns", "delete", machine]);
        }
    }
}

fn ip(args: &[&str]) -> Result<(), Reason> {
    let output =
        Command::new("ip").args(args).output().map_err(|error| format!("needs the program ip: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            Err(format!("ip {} fails: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
        }
    }
}

/// Who makes what; the relay is ours.
#[derive(Debug, Clone, Copy)]
struct Mix {
    traced: Maker,
    guest_probes: Maker,
}

struct Setting {
    world: World,
    peers: Peers,
    sql: TraceQuery,
    /// Dropped last: programs run there.
    _machines: Machines,
}

impl Setting {
    fn new(peers: Peers, sql: TraceQuery, machines: Machines, mix: Mix) -> Self {
        let mut world = World::new();
        let text = |path: PathBuf| path.to_str().expect("a path").to_owned();
        let (producers, consumers) = (text(world.producer_socket()), text(world.consumer_socket()));
        let guest_producers = text(world.path("guest"));
        let listen = format!("{producers},10.77.0.1:20001");

        let mut traced = peers.command(mix.traced, Program::Traced);
        traced.arg("--enable-relay-endpoint");
        let sockets = [(PRODUCER_SOCKET_ENV, listen.as_str()), (CONSUMER_SOCKET_ENV, &consumers)];
        world.start(machines.on_host(&sockets, &traced), "traced");
        world.wait_for_sockets();

        let mut relay = peers.ferretto();
        relay.arg("relay");
        let guest = [
            (PRODUCER_SOCKET_ENV, guest_producers.as_str()),
            ("PERFETTO_RELAY_SOCK_NAME", "10.77.0.1:20001"),
            ("PERFETTO_MACHINE_NAME", GUEST),
        ];
        world.start(machines.on_guest(&guest, &relay), "relay");
        world.wait_until("the relay is connected", || world.logs().contains("connected to the service on"));

        let probes = peers.command(mix.guest_probes, Program::Probes);
        world.start(machines.on_guest(&guest, &probes), "guest_probes");
        world.start(peers.command(Ferretto, Program::Probes), "probes");
        let mut consumer = world.consumer();
        world.wait_until("probes on both machines", || {
            let state = consumer.query_service_state(false).expect("the service tells its state");
            let has = |is_guest| {
                let mut producers = state.producers.iter().filter(|p| (p.machine_id() != 0) == is_guest);
                let producer = producers.next().map(|producer| producer.id());
                state.data_sources.iter().filter(|source| Some(source.producer_id()) == producer).count() >= 3
            };
            has(false) && has(true)
        });
        Self { world, peers, sql, _machines: machines }
    }

    fn record(&self, config: &str) -> PathBuf {
        let (path, trace) = (self.world.path("config.txtpb"), self.world.path("trace.pftrace"));
        std::fs::write(&path, config).expect("a file");
        let mut perfetto = self.peers.command(Ferretto, Program::Perfetto);
        perfetto.arg("--txt").arg("-c").arg(path).arg("-o").arg(&trace);
        let done = self.world.run(perfetto, TIMEOUT);
        assert!(done.status.success(), "{}{}\n{}", done.stdout, done.stderr, self.world.logs());
        trace
    }

    fn numbers(&self, trace: &Path, queries: &[&str]) -> Vec<i64> {
        self.sql.numbers(trace, queries)
    }
}

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
    let (peers, sql) = (need!(both()), need!(trace_query()));
    let setting = Setting::new(peers, sql, need!(Machines::new()), mix);

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
    let numbers = setting.numbers(&trace, &queries);
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
    assert_eq!(
        setting.numbers(&trace, &[processes]),
        [0],
        "{mix:?}: only the service's own unless asked for"
    );
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
