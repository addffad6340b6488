//! `ferretto heap`: programs that run already, and their children, in sessions of a service; with the library and with the SDK's allocator.

mod common;

use std::alloc::System;
use std::hint::black_box;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use common::heap::{Figures, Heap, assert_about};
use common::{Daemon, Place, assert_status, packets, stderr, wait_until};
use ferretto_protos::TracePacket;

#[global_allocator]
static ALLOCATOR: ferretto::heap::Profiled<System> = ferretto::heap::Profiled::new(System);
static ARENA: ferretto::heap::Heap = ferretto::heap::Heap::new("org.example.arena");

const BLOCKS: u64 = 2000;
const BLOCK_BYTES: u64 = 1000;
const KEPT: u64 = BLOCKS * BLOCK_BYTES;

#[inline(never)]
fn site_kept() -> Vec<Vec<u8>> {
    let mut blocks = Vec::with_capacity(BLOCKS as usize);
    blocks.extend((0..BLOCKS).map(|_| black_box(vec![1u8; BLOCK_BYTES as usize])));
    black_box(blocks)
}

#[inline(never)]
fn site_of_arena() {
    (1..=BLOCKS).for_each(|id| _ = ARENA.allocated(id, BLOCK_BYTES));
}

/// Four threads that allocate, free, grow and look whether all is as it was, for some seconds.
fn churn() {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(4);
    let work = move |thread: usize| {
        let mut blocks: Vec<Vec<u8>> = Vec::new();
        for round in 0.. {
            if round % 1000 == 0 && std::time::Instant::now() > until {
                break;
            }
            let byte = (round + thread) as u8;
            blocks.push(vec![byte; 1 + round * 7 % 5000]);
            if round % 3 == 0 {
                let grown = blocks.remove(round % blocks.len());
                assert!(grown.iter().all(|other| *other == grown[0]));
            }
            let at = round % (blocks.len() + 1);
            if let Some(block) = blocks.get_mut(at) {
                block.extend(vec![block[0]; 100]);
            }
            blocks.truncate(500);
        }
    };
    let threads: Vec<_> = (0..4).map(|thread| std::thread::spawn(move || work(thread))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Does what it is told, and says when it has.
#[test]
#[ignore = "a program of the other tests, not one itself"]
fn obeys() {
    let mut kept = Vec::new();
    for line in std::io::stdin().lines() {
        match line.unwrap().as_str() {
            "keep" => kept.push(site_kept()),
            "free" => kept.clear(),
            "arena" => site_of_arena(),
            "threads" => {
                let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(site_kept)).collect();
                kept.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
            }
            "churn" => churn(),
            "child" => {
                let mut child = Command::new(std::env::current_exe().unwrap());
                child.args(["--ignored", "--exact", "keeps"]).stdout(Stdio::null());
                assert!(child.status().unwrap().success());
            }
            other => panic!("{other}"),
        }
        eprintln!("done");
    }
    std::process::exit(0)
}

#[test]
#[ignore = "a program of the other tests, not one itself"]
fn keeps() {
    std::mem::forget(site_kept());
    std::process::exit(0)
}

/// A service, the daemon, and its socket.
struct World {
    place: Place,
    socket: String,
    _traced: Daemon,
    _heap: Daemon,
}

impl World {
    fn new(name: &str) -> Self {
        let place = Place::new();
        let traced = place.traced();
        let socket = format!("@ferretto-test-{name}-{}", std::process::id());
        let mut heap = place.applet("heapprofd", &["--ring", "128mb"]);
        heap.env("FERRETTO_HEAP", &socket).env("HEAPPROFD_NOTIFY_FD", "1");
        let mut heap = Daemon(heap.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
        let mut byte = [0];
        heap.0.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        Self { place, socket, _traced: traced, _heap: heap }
    }

    fn program(&self, with_library: bool) -> Program {
        let itself = std::env::current_exe().unwrap();
        let mut command = Command::new(&itself);
        if with_library {
            command.env("LD_PRELOAD", itself.parent().unwrap().join("libferretto_preload.so"));
        }
        command.args(["--ignored", "--exact", "obeys", "--nocapture"]).env("FERRETTO_HEAP", &self.socket);
        Program::start(command)
    }

    /// While it runs, this is done.
    fn record(&self, config: &str, work: impl FnOnce()) -> Vec<TracePacket> {
        let config = format!(
            "buffers {{ size_kb: 16384 }} data_source_stop_timeout_ms: 30000
             data_sources {{ config {{ name: 'android.heapprofd' heapprofd_config {{ {config} }} }} }}"
        );
        let config = self.place.write("config", config);
        let mut perfetto = self.place.applet("perfetto", &["--txt", "--notify-fd", "1", "-o", "t", "-c"]);
        perfetto.arg(config).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut session = perfetto.spawn().unwrap();
        let mut byte = [0];
        session.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        work();
        common::send_signal(&session, "-INT");
        let output = session.wait_with_output().unwrap();
        assert_status(&output, 0);
        packets(&self.place.path("t"))
    }
}

struct Program {
    child: Child,
    says: BufReader<std::process::ChildStderr>,
}

impl Program {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let says = BufReader::new(child.stderr.take().unwrap());
        Self { child, says }
    }

    fn tell(&mut self, what: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{what}").unwrap();
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        assert_eq!(line, "done\n", "{what}");
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Of a heap that is called so.
fn heap(packets: &[TracePacket], name: &str) -> Heap {
    Heap::read_heap(packets, name)
}

/// What 2000 blocks and their list are; what went before a thread has seen that there is a session is not there, and that are 4 KiB at most.
#[track_caller]
fn assert_kept(found: u64, times: u64) {
    let expected = times * (KEPT + BLOCKS * size_of::<Vec<u8>>() as u64);
    assert!((expected - times * (8 << 10)..=expected).contains(&found), "{found} of {expected}");
}

#[test]
fn a_program_that_runs_is_profiled_while_a_session_wants_it_and_again_by_the_next() {
    for (with_library, name) in [(true, "libc.malloc"), (false, "rust.global")] {
        let world = World::new(&format!("again-{with_library}"));
        let mut program = world.program(with_library);
        program.tell("keep");
        let every = format!("sampling_interval_bytes: 1 pid: {}", program.pid());
        let trace = world.record(&every, || {
            program.tell("keep");
            program.tell("threads");
        });
        let first = heap(&trace, name);
        assert_kept(first.live("site_kept"), 5);
        assert_eq!(first.pids("site_kept").into_iter().collect::<Vec<_>>(), [program.pid()]);
        // What nobody wants nobody has, and what a session has not seen is not freed in it.
        program.tell("keep");
        let trace = world.record(&every, || {
            program.tell("free");
            program.tell("keep");
            program.tell("free");
        });
        let second = heap(&trace, name).of("site_kept");
        assert_eq!(second.allocated, second.freed, "{second:?}");
        assert_kept(second.allocated, 1);
    }
}

#[test]
fn programs_are_named_by_number_by_name_or_all() {
    let world = World::new("names");
    let (mut one, mut other) = (world.program(true), world.program(true));
    let own = std::env::current_exe().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    for (what, are_wanted) in [
        (format!("pid: {}", one.pid()), [true, false]),
        (format!("process_cmdline: '{own}'"), [true, true]),
        ("process_cmdline: 'heap_daemo*'".to_owned(), [true, true]),
        ("process_cmdline: 'somebody-else'".to_owned(), [false, false]),
        ("all: true".to_owned(), [true, true]),
        ("all: true no_running: true".to_owned(), [false, false]),
    ] {
        let trace = world.record(&format!("sampling_interval_bytes: 1 {what}"), || {
            one.tell("keep");
            other.tell("keep");
        });
        let heap = heap(&trace, "libc.malloc");
        let pids = heap.pids("site_kept");
        assert_eq!([&one, &other].map(|program| pids.contains(&program.pid())), are_wanted, "{what}");
    }
}

#[test]
fn who_starts_in_a_session_is_there_from_its_first_line_on() {
    let world = World::new("startup");
    for (more, is_there) in [("", true), ("no_startup: true", false)] {
        let trace = world.record(&format!("sampling_interval_bytes: 1 all: true {more}"), || {
            world.program(false).tell("keep");
        });
        let heap = heap(&trace, "rust.global");
        let list = BLOCKS * size_of::<Vec<u8>>() as u64;
        assert_eq!(heap.live("site_kept"), if is_there { KEPT + list } else { 0 });
    }
}

#[test]
fn children_and_what_they_run_have_their_own() {
    let world = World::new("children");
    let mut program = world.program(true);
    // A shell that was there before the session; what it forks then keeps memory without running anything.
    let mut perl = Command::new("perl");
    perl.args(["-e", FORKS]).env("FERRETTO_HEAP", &world.socket);
    perl.env("LD_PRELOAD", std::env::current_exe().unwrap().parent().unwrap().join("libferretto_preload.so"));
    let mut perl = Program::start(perl);
    let trace = world.record("sampling_interval_bytes: 1 all: true", || {
        program.tell("child");
        perl.tell("fork");
    });
    let heap = heap(&trace, "libc.malloc");
    assert_kept(heap.live("site_kept"), 1);
    assert!(!heap.pids("site_kept").contains(&program.pid()));
    // Each of the four children has kept 4 MB.
    let mut by_process = std::collections::BTreeMap::new();
    for ((pid, _), (_, figures)) in &heap.sites {
        *by_process.entry(pid).or_insert(0) += figures.allocated;
    }
    let large = by_process.values().filter(|bytes| **bytes > 4_000_000).count();
    assert_eq!(large, 4, "{by_process:?}");
}

/// Two children, and one of each of these; the parents of the latter are gone.
const FORKS: &str = r#"
$| = 1;
while (<STDIN>) {
    for (1 .. 2) {
        next if fork;
        my @a = map { 'x' x 1000 } 1 .. 4000;
        if (!fork) { my @b = map { 'y' x 1000 } 1 .. 4000; select(undef, undef, undef, 0.3); exit 0 }
        exit 0;
    }
    1 while wait > 0;
    select(undef, undef, undef, 0.8);
    print STDERR "done\n";
}
"#;

#[test]
fn heaps_of_a_programs_own_are_there_if_they_are_wanted() {
    for with_library in [true, false] {
        let world = World::new(&format!("arena-{with_library}"));
        let mut program = world.program(with_library);
        program.tell("arena");
        let mut record = |what: &str| {
            world.record(&format!("sampling_interval_bytes: 1 all: true {what}"), || {
                program.tell("arena");
                program.tell("keep");
            })
        };
        let trace = record("all_heaps: true");
        let arena = heap(&trace, "org.example.arena").of("site_of_arena");
        // Of the first blocks one may look whether there is a session.
        assert!((KEPT - 8000..=KEPT).contains(&arena.allocated), "{arena:?}");
        let trace = record("heaps: 'org.example.arena'");
        assert!(heap(&trace, "org.example.arena").live("site_of_arena") >= KEPT - 8000);
        for name in ["libc.malloc", "rust.global"] {
            assert_eq!(heap(&trace, name).of("site_kept"), Figures::default());
        }
    }
}

#[test]
fn samples_of_a_program_that_runs_stand_for_what_there_is() {
    let world = World::new("samples");
    let mut program = world.program(true);
    let trace = world.record("sampling_interval_bytes: 16384 all: true", || {
        (0..8).for_each(|_| program.tell("keep"));
    });
    // The lists are more than an interval, and so are there themselves.
    let lists = 8 * BLOCKS * size_of::<Vec<u8>>() as u64;
    assert_about(heap(&trace, "libc.malloc").live("site_kept") - lists, 8 * KEPT, 16384);
}

#[test]
fn what_is_not_done_is_said_in_the_trace() {
    let world = World::new("refused");
    for (config, words) in [
        ("sampling_interval_bytes: 1", "no program is named"),
        ("all: true", "sampling_interval_bytes must be"),
        ("sampling_interval_bytes: 1 all: true shmem_size_bytes: 268435456", "ferretto heap --ring"),
        ("sampling_interval_bytes: 1 all: true block_client: true", "never waits"),
    ] {
        let trace = world.record(config, || {});
        let notes = trace.iter().filter_map(|packet| packet.not_recorded.as_ref());
        let reasons: Vec<&str> = notes.map(|note| note.reason()).collect();
        assert!(reasons.iter().any(|reason| reason.contains(words)), "{config}: {reasons:?}");
    }
}

#[test]
fn a_name_that_is_taken_is_said() {
    let world = World::new("taken");
    let mut second = world.place.ferretto(&["heap"]);
    let output = second.env("FERRETTO_HEAP", &world.socket).output().unwrap();
    assert_status(&output, 1);
    assert!(stderr(&output).contains("another one runs"), "{}", stderr(&output));
    let output = second.env("FERRETTO_HEAP", "/a/file").output().unwrap();
    assert!(stderr(&output).contains("no name of a socket"), "{}", stderr(&output));
}

#[test]
fn threads_allocate_on_while_sessions_come_and_go() {
    let world = World::new("churn");
    let mut programs = [world.program(true), world.program(false)];
    for program in &mut programs {
        writeln!(program.child.stdin.as_mut().unwrap(), "churn").unwrap();
    }
    let mut samples = 0;
    for _ in 0..6 {
        let trace = world.record("sampling_interval_bytes: 256 all: true", || {
            std::thread::sleep(std::time::Duration::from_millis(200));
        });
        let dumps = trace.iter().filter(|packet| {
            matches!(&packet.data, Some(ferretto_protos::trace_packet::Data::ProfilePacket(it)) if !it.process_dumps.is_empty())
        });
        samples += dumps.count();
    }
    assert!(samples >= 12, "{samples} dumps");
    for program in &mut programs {
        let mut line = String::new();
        program.says.read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
        program.tell("keep");
    }
    let trace = world.record("sampling_interval_bytes: 1 all: true", || {
        programs.iter_mut().for_each(|program| program.tell("keep"));
    });
    for name in ["libc.malloc", "rust.global"] {
        assert_kept(heap(&trace, name).live("site_kept"), 1);
    }
}

/// Programs that fork, run others and have threads, from their first line on or in the middle.
#[test]
fn what_programs_do_in_a_session_is_what_they_do_without() {
    let world = World::new("programs");
    let library = std::env::current_exe().unwrap().parent().unwrap().join("libferretto_preload.so");
    let programs: [&[&str]; 3] = [
        &[
            "bash",
            "-c",
            "for i in 1 2 3; do (echo $i; exit $i) || echo \"status $?\"; done; echo a | sort | cat; ls /proc/self/fd | wc -l; exit 9",
        ],
        &[
            "perl",
            "-e",
            "my %h = map { $_ => 'x' x $_ } 1..2000; print scalar(keys %h), \"\\n\"; exec 'echo', 'end';",
        ],
        &[
            "python3",
            "-c",
            "import threading, subprocess\nt = [threading.Thread(target=lambda: [bytes(n) for n in range(20000)]) for _ in range(4)]\n[x.start() for x in t]; [x.join() for x in t]\nprint(subprocess.run(['sh', '-c', 'echo out; exit 3'], capture_output=True))",
        ],
    ];
    for command in programs {
        let run = |is_profiled: bool| {
            let mut run = Command::new(command[0]);
            run.args(&command[1..]);
            if is_profiled {
                run.env("FERRETTO_HEAP", &world.socket).env("LD_PRELOAD", &library);
            }
            run.output()
                .ok()
                .map(|output| (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned()))
        };
        let Some(plain) = run(false) else {
            println!("skipped: there is no {}", command[0]);
            continue;
        };
        // It waits, is profiled, and waits again.
        assert_eq!(run(true).as_ref(), Some(&plain), "{command:?}");
        world.record("sampling_interval_bytes: 256 all: true", || {
            assert_eq!(run(true).as_ref(), Some(&plain), "{command:?}");
        });
    }
}

#[test]
fn the_daemon_is_shut_in() {
    let world = World::new("shut-in");
    let status = std::fs::read_to_string(format!("/proc/{}/status", world._heap.0.id())).unwrap();
    let says = |what: &str| status.lines().any(|line| line.replace('\t', " ") == what);
    assert!(says("NoNewPrivs: 1") && says("Seccomp: 2"), "{status}");
    let mut program = world.program(true);
    let trace = world.record("sampling_interval_bytes: 1 all: true", || program.tell("keep"));
    assert_kept(heap(&trace, "libc.malloc").live("site_kept"), 1);
}

#[test]
fn a_program_goes_on_when_the_daemon_is_gone() {
    let mut world = World::new("gone");
    let mut program = world.program(true);
    world._heap.signal("-KILL");
    wait_until("it is gone", || world._heap.0.try_wait().unwrap().is_some());
    program.tell("keep");
    program.tell("child");
    program.tell("free");
}
