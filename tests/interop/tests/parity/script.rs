//! What happens while the configs of a [`Case`] are recorded.
//!
//! | step | what happens |
//! |---|---|
//! | `start N [ARGS]` | `perfetto` starts with the Nth config and writes `N.pftrace`, unless an argument is `no-out` |
//! | `end N` | wait until it has ended |
//! | `stop N` | interrupt it, wait until it has ended |
//! | `record N [ARGS]` | `start`, `end` |
//! | `ask N` | our consumer instead of `perfetto`, which changes or refuses some configs, records the Nth config |
//! | `run NAME ARGS` | `perfetto` with the arguments, to its end; `NAME.pftrace` if it clones |
//! | `snapshot N` | wait until `perfetto` has written the clone that a trigger asked for, `N.pftrace.0` |
//! | `trace NAME` | the service has written `NAME.pftrace` |
//! | `sessions N`, `configured N` | wait until N sessions run; are there |
//! | `registered N` | wait until N data sources are there, those of the service not counted |
//! | `left N` | wait until `perfetto` has ended, leaving its session |
//! | `setup N`, `written N`, `stopped N`, `flushed N`, `cleared N` | wait until producers were told so often, and have obeyed |
//! | `producer NAME`, `leave NAME` | another producer comes; goes |
//! | `trigger NAME` | the first producer activates a trigger |
//! | `client N` | upstream's client library writes N rounds of track events |

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ferretto_consumer::{Event, write_packet};
use ferretto_interop::{Daemon, Maker, Peers, Program, World, upstream_client};
use ferretto_protos::{DataSourceDescriptor, TracingServiceState};
use prost::Message;
use rustix::process::Signal;

use crate::case::Case;
use crate::digest::{Digest, Pids};
use crate::producer::{MAIN, Producer, Told};

/// Longer than any session of the corpus, on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(60);

struct Stage<'a> {
    case: &'a Case,
    peers: &'a Peers,
    world: World,
    producers: Vec<Producer>,
    /// Of those that left.
    told: BTreeMap<String, Told>,
    running: BTreeMap<String, Daemon>,
    client: Option<Daemon>,
    digest: Digest,
}

/// Records a case on a service.
///
/// # Panics
///
/// If something that should happen does not.
pub(crate) fn perform(case: &Case, peers: &Peers, maker: Maker) -> Digest {
    let world = World::with_traced(peers, maker);
    let producers = vec![Producer::start("parity", world.producer_socket())];
    world.wait_for_data_source(MAIN);
    let mut stage = Stage {
        case,
        peers,
        world,
        producers,
        told: BTreeMap::default(),
        running: BTreeMap::default(),
        client: None,
        digest: Digest::default(),
    };
    for words in &case.steps {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        stage.step(&words);
    }
    stage.finish()
}

impl Stage<'_> {
    fn step(&mut self, words: &[&str]) {
        match *words {
            ["start", number, ref args @ ..] => self.start(number, args),
            ["end", number] => self.end(number),
            ["stop", number] => {
                self.running[number].signal(Signal::INT);
                self.end(number);
            }
            ["record", number, ref args @ ..] => {
                self.start(number, args);
                self.end(number);
            }
            ["ask", number] => self.ask(number),
            ["run", name, ref args @ ..] => self.run(name, args),
            ["trace", name] => self.digest_trace(name, &self.world.path(&format!("{name}.pftrace"))),
            ["snapshot", number] => {
                let perfetto = &self.running[number];
                self.world.wait_until("a snapshot", || perfetto.log().contains("Wrote "));
                self.digest_trace("snapshot", &self.world.path(&format!("{number}.pftrace.0")));
            }
            ["sessions", number] => {
                self.wait_for_state(words, |state| state.num_sessions_started() == parse::<i32>(number));
            }
            ["configured", number] => {
                self.wait_for_state(words, |state| state.num_sessions() == parse::<i32>(number));
            }
            ["registered", number] => self.wait_for_state(words, |state| count_ours(state) == parse(number)),
            ["left", number] => self.leave_session(number),
            ["setup", number] => self.wait_for_told(words, parse(number), |told| told.setups.len()),
            ["written", number] => self.wait_for_told(words, parse(number), |told| told.written),
            ["stopped", number] => self.wait_for_told(words, parse(number), |told| told.stops),
            ["flushed", number] => self.wait_for_told(words, parse(number), |told| told.flushes),
            ["cleared", number] => self.wait_for_told(words, parse(number), |told| told.clears),
            ["producer", name] => self.producers.push(Producer::start(name, self.world.producer_socket())),
            ["leave", name] => self.leave(name),
            ["trigger", name] => self.producers[0].activate_trigger(name),
            ["client", rounds] => self.run_client(rounds),
            _ => panic!("{}: no step {words:?}", self.case.name),
        }
    }

    fn perfetto(&self) -> Command {
        self.peers.command(Maker::Upstream, Program::Perfetto)
    }

    fn start(&mut self, number: &str, args: &[&str]) {
        let config = self.world.path(&format!("{number}.pb"));
        let index: usize = parse(number);
        std::fs::write(&config, &self.case.configs[index - 1]).expect("a config file");
        let mut command = self.perfetto();
        command.arg("-c").arg(config);
        if !args.contains(&"no-out") {
            command.arg("-o").arg(self.world.path(&format!("{number}.pftrace")));
        }
        command.args(args.iter().filter(|arg| **arg != "no-out"));
        let perfetto = self.world.spawn(command, number);
        self.running.insert(number.to_owned(), perfetto);
    }

    fn end(&mut self, number: &str) {
        let mut perfetto = self.running.remove(number).expect("it was started");
        let status = perfetto.wait(TIMEOUT).unwrap_or_else(|| {
            panic!("{}: perfetto hangs:\n{}{}", self.case.name, perfetto.log(), self.world.logs())
        });
        self.digest.set(format!("{number}.exit"), status);
        self.digest.set(format!("{number}.refused"), perfetto.log().contains("Service error"));
        self.digest.remark(&perfetto.log());
        self.digest_trace(number, &self.world.path(&format!("{number}.pftrace")));
    }

    fn ask(&mut self, number: &str) {
        let mut consumer = self.world.consumer();
        let config = self.case.configs[parse::<usize>(number) - 1].clone();
        let path = self.world.path(&format!("{number}.pftrace"));
        consumer.enable_tracing(config, None).expect("the service listens");
        let refusal = loop {
            match consumer.poll(Some(TIMEOUT)) {
                Some(Event::TracingDisabled { error }) => break error,
                Some(_) => {}
                None => panic!("{}: the session does not end", self.case.name),
            }
        };
        self.digest.set(format!("{number}.refused"), refusal.is_some());
        self.digest.remark(&refusal.map_or_else(String::new, |text| format!("error: {text}")));
        let mut file = File::create(&path).expect("a file");
        // Without a session there is nothing to read.
        let _ = consumer.read_buffers(|packet| write_packet(&mut file, packet));
        self.digest_trace(number, &path);
    }

    fn run(&mut self, name: &str, args: &[&str]) {
        let mut command = self.perfetto();
        command.args(args);
        let trace = self.world.path(&format!("{name}.pftrace"));
        if args.iter().any(|arg| arg.starts_with("--clone")) {
            command.arg("-o").arg(&trace);
        }
        let done = self.world.run(command, TIMEOUT);
        self.digest.set(format!("{name}.exit"), done.status);
        self.digest.remark(&done.stderr);
        self.digest_trace(name, &trace);
    }

    fn digest_trace(&mut self, name: &str, path: &Path) {
        let trace = std::fs::read(path).ok();
        let state = match &trace {
            None => "none",
            Some(bytes) if bytes.is_empty() => "empty",
            Some(_) => "filled",
        };
        self.digest.set(format!("{name}.file"), state);
        let client = self.client.as_ref().map(Daemon::pid);
        self.digest.trace(name, &trace.unwrap_or_default(), Pids { own: std::process::id(), client });
    }

    fn wait_for_state(&self, what: &[&str], is_so: impl Fn(&TracingServiceState) -> bool) {
        let mut consumer = self.world.consumer();
        self.world.wait_until(&format!("{}: {what:?}", self.case.name), || {
            is_so(&consumer.query_service_state(false).expect("the service tells its state"))
        });
    }

    fn leave_session(&mut self, number: &str) {
        let mut perfetto = self.running.remove(number).expect("it was started");
        let status = perfetto.wait(TIMEOUT).unwrap_or_else(|| panic!("{} hangs", self.case.name));
        self.digest.set(format!("{number}.exit"), status);
        self.digest.remark(&perfetto.log());
    }

    fn wait_for_told(&self, what: &[&str], number: usize, so_often: impl Fn(&Told) -> usize) {
        self.world.wait_until(&format!("{}: {what:?}", self.case.name), || {
            self.producers.iter().map(|producer| so_often(&producer.told())).sum::<usize>() >= number
        });
    }

    fn leave(&mut self, name: &str) {
        let index = self.producers.iter().position(|producer| producer.name == name).expect("it came");
        let producer = self.producers.remove(index);
        self.told.insert(producer.name.clone(), producer.told().clone());
    }

    /// It writes as soon as a session wants to have its events, and lives until the end.
    fn run_client(&mut self, rounds: &str) {
        let mut command = upstream_client().expect("asked for before");
        command.args([rounds, "0"]);
        let client = self.world.spawn(command, "client");
        self.world.wait_until("the client", || client.log().contains("events"));
        self.client = Some(client);
    }

    fn finish(mut self) -> Digest {
        // Sources that acknowledge nothing may be told of their end after it.
        self.world.wait_until(&format!("{}: the end of all data sources", self.case.name), || {
            let has_stopped = |told: &Told| told.stops == told.written;
            self.producers.iter().all(|producer| has_stopped(&producer.told()))
        });
        for producer in &self.producers {
            self.told.insert(producer.name.clone(), producer.told().clone());
        }
        for (name, told) in &self.told {
            self.digest.told(name, told);
        }
        let service = &mut self.world.daemons()[0];
        self.digest.set("service".to_owned(), if service.is_running() { "serves" } else { "died" });
        // Before the service goes, so that they do not look for another.
        self.producers.clear();
        self.digest
    }
}

fn parse<T: std::str::FromStr<Err: std::fmt::Debug>>(number: &str) -> T {
    number.parse().expect("a number")
}

/// Data sources of the producers of the corpus.
fn count_ours(state: &TracingServiceState) -> usize {
    let descriptors = state.data_sources.iter().filter_map(|source| source.ds_descriptor.clone());
    let names = descriptors.filter_map(|bytes| DataSourceDescriptor::decode(bytes).ok()?.name);
    names.filter(|name| name.starts_with("parity.")).count()
}
