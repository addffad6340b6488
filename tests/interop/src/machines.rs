//! Two machines on this one: two network namespaces with a cable between them, a service in the one and a relay in the other, whose boot
//! clock is in a namespace of its own, too, so that it differs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use Maker::Ferretto;
use ferretto_ipc::address::{CONSUMER_SOCKET_ENV, PRODUCER_SOCKET_ENV};

use crate::{Maker, Peers, Program, Reason, World};

/// Longer than any recording here, with a loaded machine in mind.
const TIMEOUT: Duration = Duration::from_secs(60);
/// What the relay's machine is called.
const GUEST: &str = "guest";
/// So much later it is by the guest's boot clock.
pub const AHEAD_S: i64 = 100_000;
/// A network namespace for each of two machines. They go away when this is dropped.
#[derive(Debug)]
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
pub struct Mix {
    /// The service.
    pub traced: Maker,
    /// The probes on the machine that is relayed.
    pub guest_probes: Maker,
}

/// A service on the one machine, a relay on the other, and probes on both.
#[derive(Debug)]
pub struct TwoMachines {
    world: World,
    peers: Peers,
    /// Dropped last: programs run there.
    machines: Machines,
}

impl TwoMachines {
    /// All of them, ready.
    ///
    /// # Errors
    ///
    /// If this machine has not what that needs.
    ///
    /// # Panics
    ///
    /// If one of the programs does not get ready.
    pub fn new(peers: Peers, mix: Mix) -> Result<Self, Reason> {
        let machines = Machines::new()?;
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
        Ok(Self { world, peers, machines })
    }

    /// Starts a producer on the machine that is relayed. It lives as long as this does.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start_on_guest(&mut self, command: &Command, name: &str) {
        let socket = self.guest_socket();
        let socket = socket.to_str().expect("a path");
        let command = self.machines.on_guest(&[(PRODUCER_SOCKET_ENV, socket)], command);
        self.world.start(command, name);
        self.world.wait_for_data_source("track_event");
    }

    fn guest_socket(&self) -> PathBuf {
        self.world.path("guest")
    }

    /// A trace by a config.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn record(&self, config: &str) -> PathBuf {
        let (path, trace) = (self.world.path("config.txtpb"), self.world.path("trace.pftrace"));
        std::fs::write(&path, config).expect("a file");
        let mut perfetto = self.peers.command(Ferretto, Program::Perfetto);
        perfetto.arg("--txt").arg("-c").arg(path).arg("-o").arg(&trace);
        let done = self.world.run(perfetto, TIMEOUT);
        assert!(done.status.success(), "{}{}\n{}", done.stdout, done.stderr, self.world.logs());
        trace
    }
}
