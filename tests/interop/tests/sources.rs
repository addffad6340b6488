//! Data sources that need something from the machine first: a stopped ftrace instance, files that events mention, systemd's journal.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use Maker::{Ferretto, Upstream};
use ferretto_interop::{Maker, Peers, Program, Reason, World, both, ferretto, need, trace_query, tracefs};
use ferretto_protos::trace_packet::Data;
use ferretto_protos::{Trace, inode_file_map};
use prost::Message;

/// Longer than any recording here, with a loaded machine in mind.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A service of that maker with our data sources.
fn world(peers: &Peers, traced: Maker) -> World {
    let mut world = World::with_traced(peers, traced);
    world.start_probes(peers, Ferretto);
    world
}

fn record(world: &World, peers: &Peers, config: &str) -> PathBuf {
    let (path, trace) = (world.path("config.txtpb"), world.path("trace.pftrace"));
    fs::write(&path, config).unwrap();
    let mut command = peers.command(Ferretto, Program::Perfetto);
    command.arg("--txt").arg("-c").arg(path).arg("-o").arg(&trace);
    let done = world.run(command, TIMEOUT);
    assert!(done.status.success(), "{}{}\n{}", done.stdout, done.stderr, world.logs());
    trace
}

/// A tracefs instance of our own; it goes with this.
struct Instance(PathBuf);

impl Instance {
    fn new(name: &str) -> Self {
        let path = Path::new("/sys/kernel/tracing/instances").join(name);
        fs::create_dir(&path).expect("root may make an instance");
        Self(path)
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.0.join(file)).unwrap_or_default().trim().to_owned()
    }

    fn write(&self, file: &str, text: &str) {
        let written = OpenOptions::new()
            .write(true)
            .open(self.0.join(file))
            .and_then(|mut file| file.write_all(text.as_bytes()));
        written.unwrap_or_else(|error| panic!("{file}: {error}"));
    }

    /// Entries in the buffers of all CPUs.
    fn entries(&self) -> u64 {
        let cpus = fs::read_dir(self.0.join("per_cpu")).expect("buffers").flatten();
        let stats = cpus.map(|cpu| fs::read_to_string(cpu.path().join("stats")).unwrap_or_default());
        let count = |stats: String| {
            stats.lines().find_map(|line| line.strip_prefix("entries: ")?.parse::<u64>().ok()).unwrap_or(0)
        };
        stats.map(count).sum()
    }

    /// What must not change: everything but the content.
    fn settings(&self) -> Vec<String> {
        ["tracing_on", "trace_clock", "buffer_size_kb", "set_event", "current_tracer", "tracing_cpumask"]
            .map(|file| self.read(file))
            .to_vec()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// An instance that has recorded the scheduler and a counter of ours, and was stopped.
fn frozen_instance(world: &World, name: &str) -> Instance {
    let instance = Instance::new(name);
    instance.write("trace_clock", "boot");
    instance.write("events/sched/sched_switch/enable", "1");
    instance.write("trace_marker", "C|1|before it froze|42");
    // More than a page of each CPU.
    world.wait_until("a few hundred scheduling events", || instance.entries() > 500);
    instance.write("tracing_on", "0");
    instance
}

fn a_frozen_instance_is_read_whole(peers: &Peers, traced: Maker) {
    let sql = need!(trace_query());
    let world = world(peers, traced);
    let name = format!("ferretto-frozen-{}", std::process::id());
    let instance = frozen_instance(&world, &name);
    let (entries, settings) = (instance.entries(), instance.settings());
    let config = format!(
        "buffers {{ size_kb: 16384 }} duration_ms: 1500 data_sources {{ config {{ \
         name: 'linux.frozen_ftrace' frozen_ftrace_config {{ instance_name: '{name}' }} }} }}"
    );
    let trace = record(&world, peers, &config);
    assert_eq!(instance.settings(), settings);
    assert_eq!(instance.entries(), 0, "what is in the trace is not found again at the next boot");
    // Some kernels leave out switches from idle, which is their loss.
    let losses: Vec<String> = sql
        .losses(&trace)
        .into_iter()
        .filter(|loss| !loss.starts_with("mismatched_sched_switch_tids"))
        .collect();
    assert_eq!(losses, Vec::<String>::new());
    let numbers = sql.numbers(
        &trace,
        &[
            "select count(*) from ftrace_event",
            "select count(*) from sched",
            "select count(*) from counter join counter_track t on counter.track_id = t.id \
             where t.name = 'before it froze' and value = 42",
        ],
    );
    // The markers of pages that were cut are counted by the kernel, too, and no events.
    assert!(numbers[0] > 400 && numbers[0] as u64 <= entries, "{numbers:?} of {entries}");
    assert!(numbers[1] > 0 && numbers[2] == 1, "{numbers:?}");
}

/// Each takes the kernel's memory, and a config may name thousands.
#[test]
fn a_config_has_a_bounded_number_of_instances_made_and_leaves_none_behind() {
    need!(tracefs());
    let peers = need!(ferretto());
    let world = world(&peers, Ferretto);
    let prefix = format!("ferretto-many-{}-", std::process::id());
    let count = || {
        let all = fs::read_dir("/sys/kernel/tracing/instances").expect("instances").flatten();
        all.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix)).count()
    };
    let source = |number: usize| {
        format!(
            "data_sources {{ config {{ name: 'linux.ftrace' ftrace_config {{ ftrace_events: 'sched/sched_switch' \
             buffer_size_kb: 8 instance_name: '{prefix}{number}' }} }} }}"
        )
    };
    let sources: String = (0..20).map(source).collect();
    let config = format!("buffers {{ size_kb: 4096 }} duration_ms: 3000 {sources}");
    let is_over = AtomicBool::new(false);
    let (trace, most) = thread::scope(|scope| {
        let most = scope.spawn(|| {
            let mut most = 0;
            while !is_over.load(Ordering::Relaxed) {
                most = most.max(count());
                thread::sleep(Duration::from_millis(20));
            }
            most
        });
        let trace = record(&world, &peers, &config);
        is_over.store(true, Ordering::Relaxed);
        (trace, most.join().expect("counts"))
    });
    assert_eq!(most, 4);
    world.wait_until("the instances to go", || count() == 0);
    let trace = Trace::decode(fs::read(trace).unwrap().as_slice()).unwrap();
    let refused = trace.packet.iter().filter(|packet| match &packet.data {
        Some(Data::FtraceStats(stats)) => {
            stats.atrace_errors().contains("a session has 4 instances beside the shared one")
        }
        _ => false,
    });
    assert!(refused.count() >= 12, "those that were not made are said to be missing");
    // Of the twenty the probes take sixteen.
    let is_of_ftrace = |packet: &&ferretto_protos::TracePacket| {
        packet.not_recorded.as_ref().is_some_and(|it| it.data_source_name() == "linux.ftrace")
    };
    assert_eq!(trace.packet.iter().filter(is_of_ftrace).count(), 1, "so are the others, once");
}

#[test]
fn a_frozen_instance_is_read_whole_for_our_service() {
    need!(tracefs());
    a_frozen_instance_is_read_whole(&need!(ferretto()), Ferretto);
}

#[test]
fn a_frozen_instance_is_read_whole_for_upstreams_service() {
    need!(tracefs());
    a_frozen_instance_is_read_whole(&need!(both()), Upstream);
}

#[test]
fn an_instance_that_is_not_there_is_not_made_and_the_trace_says_so() {
    need!(tracefs());
    let peers = need!(ferretto());
    let world = world(&peers, Ferretto);
    let name = format!("ferretto-missing-{}", std::process::id());
    let config = format!(
        "buffers {{ size_kb: 1024 }} duration_ms: 200 data_sources {{ config {{ \
         name: 'linux.frozen_ftrace' frozen_ftrace_config {{ instance_name: '{name}' }} }} }}"
    );
    let trace = Trace::decode(&*fs::read(record(&world, &peers, &config)).unwrap()).unwrap();
    let says_so = trace.packet.iter().any(|packet| match &packet.data {
        Some(Data::FtraceStats(stats)) => stats.atrace_errors().contains("there is no ftrace instance"),
        _ => false,
    });
    assert!(says_so);
    assert!(!Path::new("/sys/kernel/tracing/instances").join(name).exists());
}

/// Where the device of a file is mounted, if events and `stat` have the same number for it.
fn mount_point(file: &Path) -> Result<String, Reason> {
    let device = fs::metadata(file).map_err(|error| error.to_string())?.dev();
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|error| error.to_string())?;
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mount = mounts.find(|words| words.get(2) == Some(&number.as_str()));
    let mount_point = mount.and_then(|words| words.get(4).map(|&path| path.to_owned()));
    mount_point.ok_or(format!("needs temporary files on a device that is mounted; {number} is not"))
}

fn files_that_events_mention_get_their_paths(peers: &Peers, traced: Maker) {
    if !Path::new("/sys/kernel/tracing/events/filemap/mm_filemap_add_to_page_cache").exists() {
        return eprintln!("skipped: needs a kernel with the events of the page cache");
    }
    let mut world = world(peers, traced);
    let folder = world.path("folder");
    fs::create_dir(&folder).unwrap();
    let mount_point = need!(mount_point(&folder));
    let file = folder.join("a file");
    let busy = format!("while :; do head -c 10000 /dev/zero >> '{}'; sleep 0.02; done", file.display());
    let mut command = Command::new("sh");
    command.args(["-c", &busy]);
    world.start(command, "busy");
    let config = format!(
        "buffers {{ size_kb: 32768 }} duration_ms: 3000 \
         data_sources {{ config {{ name: 'linux.ftrace' ftrace_config {{ \
           ftrace_events: 'filemap/mm_filemap_add_to_page_cache' }} }} }} \
         data_sources {{ config {{ name: 'linux.inode_file_map' inode_file_config {{ \
           scan_delay_ms: 200 scan_interval_ms: 10 scan_batch_size: 100 \
           mount_point_mapping {{ mountpoint: '{mount_point}' scan_roots: '{}' }} }} }} }}",
        folder.display()
    );
    let trace = record(&world, peers, &config);
    let trace = Trace::decode(&*fs::read(trace).unwrap()).unwrap();
    let metadata = fs::metadata(&file).unwrap();
    let maps = trace.packet.iter().filter_map(|packet| match &packet.data {
        Some(Data::InodeFileMap(map)) if map.block_device_id() == metadata.dev() => Some(map),
        _ => None,
    });
    let maps: Vec<_> = maps.collect();
    assert!(maps.iter().all(|map| map.mount_points.contains(&mount_point)), "{maps:?}");
    let entry = inode_file_map::Entry {
        inode_number: Some(metadata.ino()),
        paths: vec![file.to_str().unwrap().to_owned()],
        r#type: Some(inode_file_map::entry::Type::File as i32),
    };
    assert!(maps.iter().any(|map| map.entries.contains(&entry)), "{maps:?}\n{}", world.logs());
}

#[test]
fn files_that_events_mention_get_their_paths_with_our_service() {
    need!(tracefs());
    files_that_events_mention_get_their_paths(&need!(ferretto()), Ferretto);
}

#[test]
fn files_that_events_mention_get_their_paths_with_upstreams_service() {
    need!(tracefs());
    files_that_events_mention_get_their_paths(&need!(both()), Upstream);
}

/// A journal of our own: systemd's daemon in a mount namespace where /run is empty. It goes with the world.
struct Journal {
    /// Whoever enters this process's namespace sees the journal.
    pid: u32,
}

impl Journal {
    fn start(world: &mut World) -> Result<Self, Reason> {
        const DAEMON: &str = "/usr/lib/systemd/systemd-journald";
        if !rustix::process::geteuid().is_root() || !Path::new(DAEMON).exists() {
            return Err(format!("needs root and {DAEMON}"));
        }
        if fs::read_to_string("/etc/machine-id").unwrap_or_default().trim().is_empty() {
            return Err("needs /etc/machine-id".to_owned());
        }
        for program in ["unshare", "nsenter", "systemd-cat"] {
            let found = Command::new(program).arg("--version").output();
            found.map_err(|error| format!("needs the program {program}: {error}"))?;
        }
        if !Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success()) {
            return Err("needs permission to make a mount namespace".to_owned());
        }
        // Journals on disk are covered, too: this machine's own is not to be in the trace, nor ours in it.
        let script = format!(
            "mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/journal && \
             if [ -d /var/log/journal ]; then mount -t tmpfs tmpfs /var/log/journal; fi && exec {DAEMON}"
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script]);
        world.start(command, "journald");
        let pid = world.daemons().last().expect("just started").pid();
        let journal = Self { pid };
        world.wait_until("the journal", || !journal.text().is_empty());
        Ok(journal)
    }

    fn within(&self, command: &Command) -> Command {
        let mut within = Command::new("nsenter");
        within.args(["--mount", "--target", &self.pid.to_string()]).arg(command.get_program());
        within.args(command.get_args());
        within
    }

    /// All messages, a line each; empty if there is no journal yet.
    fn text(&self) -> String {
        let output = self.within(Command::new("journalctl").args(["--quiet", "--output", "cat"])).output();
        String::from_utf8_lossy(&output.expect("journalctl runs").stdout).into_owned()
    }

    /// Logs a message, and waits until it is written down.
    fn log(&self, world: &World, tag: &str, priority: &str, text: &str) {
        let mut command = Command::new("systemd-cat");
        command.args(["--identifier", tag, "--priority", priority, "echo", text]);
        assert!(self.within(&command).status().expect("systemd-cat runs").success());
        world.wait_until("the message", || self.text().lines().any(|line| line == text));
    }
}

/// What a trace holds of the journal.
#[derive(Debug, Default)]
struct JournalEvents {
    /// With their priorities.
    messages: Vec<(String, u32)>,
    /// Counts of messages, and of those that could not be read.
    summaries: Vec<(u64, u64)>,
}

fn journal_events(trace: &Path) -> JournalEvents {
    // Not there yet, or in the middle of a packet: nothing.
    let trace = fs::read(trace).ok().and_then(|bytes| Trace::decode(&*bytes).ok()).unwrap_or_default();
    let mut events = JournalEvents::default();
    for packet in trace.packet {
        let Some(Data::JournaldEvent(event)) = packet.data else { continue };
        match event.num_total {
            Some(total) => events.summaries.push((total, event.num_failed())),
            None => events.messages.push((event.message().to_owned(), event.prio())),
        }
    }
    events
}

#[test]
fn what_systemds_journal_takes_down_meanwhile_is_in_the_trace() {
    let peers = need!(ferretto());
    let mut world = World::with_traced(&peers, Ferretto);
    let journal = need!(Journal::start(&mut world));
    world.start(journal.within(&peers.command(Ferretto, Program::Probes)), "probes");
    world.wait_for_data_source("linux.systemd_journald");
    journal.log(&world, "ferretto-test", "info", "before the recording");
    let trace = world.path("trace.pftrace");
    let config = "buffers { size_kb: 4096 } data_sources { config { name: 'linux.systemd_journald' \
                  journald_config { min_prio: 6 filter_identifiers: 'ferretto-test' } } }";
    fs::write(world.path("config.txtpb"), config).unwrap();
    let mut command = peers.command(Ferretto, Program::Perfetto);
    command
        .arg("--txt")
        .arg("-c")
        .arg(world.path("config.txtpb"))
        .arg("-o")
        .arg(&trace)
        .arg("--background-wait");
    let started = world.run(command, TIMEOUT);
    assert!(started.status.success(), "{}\n{}", started.stderr, world.logs());
    let recorder =
        rustix::process::Pid::from_raw(started.stdout.trim().parse().expect("a process id")).unwrap();
    // Fields of more than some hundred bytes are packed.
    let long = "long ".repeat(1000);
    journal.log(&world, "ferretto-test", "warning", "while it records");
    journal.log(&world, "ferretto-test", "info", long.trim());
    journal.log(&world, "ferretto-test", "debug", "of no importance");
    journal.log(&world, "somebody-else", "warning", "of no interest");
    rustix::process::kill_process(recorder, rustix::process::Signal::INT).expect("the recorder lives");
    world.wait_until("the trace", || !journal_events(&trace).summaries.is_empty());
    let JournalEvents { messages, summaries } = journal_events(&trace);
    assert_eq!(messages, [("while it records".to_owned(), 4), (long.trim().to_owned(), 6)]);
    assert_eq!(summaries.last(), Some(&(2, 0)));
}
