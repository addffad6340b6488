//! Programs that live for a moment: through upstream's service, as another user, in a container.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ferretto_interop::{Daemon, Maker, Peers, TraceQuery, World, both, ferretto, need, root, trace_query};
use rustix::process::Signal;

const TIMEOUT: Duration = Duration::from_secs(60);
const RUNS: usize = 5;
const ENDS: [&str; 2] = ["return", "kill"];
/// The user `nobody`.
const NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// The program where every user may run it.
fn program(world: &World) -> PathBuf {
    set_permissions(world.path("."), Permissions::from_mode(0o755)).unwrap();
    let path = world.path("sdk-brief");
    if path.exists() { path } else { world.copy_program(env!("CARGO_BIN_EXE_sdk-brief"), "sdk-brief") }
}

/// Records the command to its end, and counts its events.
fn recorded(peers: &Peers, sql: &TraceQuery, world: &World, args: &[&str], command: &[&str]) -> (i64, i64) {
    let trace = world.path("trace.pftrace");
    let mut record = peers.ferretto();
    record.arg("record").arg("-o").arg(&trace).args(args).arg("--").args(command);
    let done = world.run(record, TIMEOUT);
    assert!(done.stderr.contains("Lost: nothing"), "{}", done.stderr);
    events(sql, &trace)
}

fn events(sql: &TraceQuery, trace: &Path) -> (i64, i64) {
    let count = |name| format!("select count(*) from slice where name = '{name}'");
    let numbers = sql.numbers(trace, &[&count("first"), &count("last")]);
    (numbers[0], numbers[1])
}

#[test]
fn upstreams_service_misses_nothing_of_them() {
    let (peers, sql) = (need!(both()), need!(trace_query()));
    let world = World::with_traced(&peers, Maker::Upstream);
    let program = program(&world);
    std::fs::write(
        world.path("config"),
        "buffers { size_kb: 1024 } data_sources { config { name: \"track_event\" } }",
    )
    .unwrap();
    let config = world.path("config");
    let args = ["--system", "--any-source", "-c", config.to_str().unwrap()];
    for end in ENDS {
        for run in 0..RUNS {
            let found = recorded(&peers, &sql, &world, &args, &[program.to_str().unwrap(), end]);
            assert_eq!(found, (1, 1), "{end}, run {run}");
        }
    }
}

#[test]
fn root_records_another_users_program() {
    let (peers, sql) = (need!(ferretto()), need!(trace_query()));
    need!(root());
    let world = World::new();
    let program = program(&world);
    for end in ENDS {
        for run in 0..RUNS {
            let command: Vec<&str> = NOBODY.into_iter().chain([program.to_str().unwrap(), end]).collect();
            assert_eq!(recorded(&peers, &sql, &world, &[], &command), (1, 1), "{end}, run {run}");
        }
    }
}

#[test]
fn another_users_program_finds_roots_recorder() {
    let (peers, sql) = (need!(ferretto()), need!(trace_query()));
    need!(root());
    let world = World::new();
    let program = program(&world);
    let mut recorder = recorder(&peers, &world);
    for _ in 0..RUNS {
        let mut command = Command::new(NOBODY[0]);
        command.args(&NOBODY[1..]).arg(&program).arg("return");
        assert!(world.run(command, TIMEOUT).status.success());
    }
    recorder.signal(Signal::INT);
    assert!(recorder.wait(TIMEOUT).is_some_and(|status| status.success()), "{}", recorder.log());
    assert_eq!(events(&sql, &world.path("trace.pftrace")), (RUNS as i64, RUNS as i64));
}

#[test]
fn a_container_needs_the_socket_only() {
    let (peers, sql) = (need!(ferretto()), need!(trace_query()));
    need!(root());
    let world = World::new();
    let program = program(&world);
    let mut recorder = recorder(&peers, &world);
    // A file system in which of the host's /tmp there is the mounted folder alone, and no process of the host.
    let inside = format!(
        "mount --bind {} /mnt && mount -t tmpfs none /tmp && mount -t proc proc /proc && ! test -e {} && {}",
        world.path(".").display(),
        program.display(),
        "for end in return kill; do PERFETTO_PRODUCER_SOCK_NAME=/mnt/producer /mnt/sdk-brief $end; done; true"
    );
    let mut container = Command::new("unshare");
    container.args(["--mount", "--pid", "--fork", "--net", "--uts", "--ipc", "sh", "-c", &inside]);
    let done = world.run(container, TIMEOUT);
    if !done.status.success() {
        return println!("skipped: no namespaces here: {}", done.stderr);
    }
    recorder.signal(Signal::INT);
    assert!(recorder.wait(TIMEOUT).is_some_and(|status| status.success()), "{}", recorder.log());
    assert_eq!(events(&sql, &world.path("trace.pftrace")), (2, 2), "{}", recorder.log());
}

/// A recorder whose sources run.
fn recorder(peers: &Peers, world: &World) -> Daemon {
    let mut command = peers.ferretto();
    command.arg("record").arg("-o").arg(world.path("trace.pftrace"));
    let recorder = world.spawn(command, "recorder");
    world.wait_until("the recorder's socket", || {
        std::os::unix::net::UnixStream::connect(world.producer_socket()).is_ok()
    });
    // The kernel's events take a moment, and nothing says when the last of them is switched on.
    std::thread::sleep(Duration::from_secs(2));
    recorder
}
