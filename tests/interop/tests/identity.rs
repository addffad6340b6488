//! Who a peer is, of a service in a container: there the kernel shows processes of the host as 0, and users as those of the name space.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use ferretto_interop::{Daemon, Peers, World, ferretto, need, root};

const TIMEOUT: Duration = Duration::from_secs(60);
const OWNER: u32 = 1001;
const NEIGHBOUR: u32 = 1002;
const ROOT: u32 = 0;

const CONFIG: &str = "buffers { size_kb: 64 } data_sources { config { name: \"none\" } } duration_ms: 60000
    unique_session_name: \"of the owner\"";

/// A folder and a binary that every user may use, and a service that `unshare` keeps apart with these options.
///
/// # Errors
///
/// If there are no such name spaces here.
fn world(peers: &Peers, apart: &[&str]) -> Result<World, String> {
    root()?;
    let check = Command::new("unshare").args(apart).args(["--fork", "true"]).output();
    if !check.is_ok_and(|done| done.status.success()) {
        return Err(format!("unshare {apart:?} does not work here"));
    }
    let mut world = World::new();
    let anybody = Permissions::from_mode(0o777);
    set_permissions(world.path("."), anybody).unwrap();
    world.copy_program(peers.ferretto().get_program(), "ferretto");
    std::fs::write(world.path("config"), CONFIG).unwrap();
    let mut service = Command::new("unshare");
    service.args(apart).args(["--fork", "--kill-child"]).arg(world.path("ferretto"));
    service.args(["traced", "--set-socket-permissions", "root:0666:root:0666"]);
    world.start(service, "traced");
    world.wait_for_sockets();
    Ok(world)
}

/// `ferretto perfetto` as this user.
fn perfetto(world: &World, uid: u32, args: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={uid}"), format!("--regid={uid}"), "--clear-groups".to_owned()]);
    command.arg(world.path("ferretto")).arg("perfetto").args(args);
    command
}

/// The owner records.
fn session_of_owner(world: &World) -> Daemon {
    let (config, trace) = (world.path("config"), world.path("trace"));
    let args = ["--txt", "-c", config.to_str().unwrap(), "-o", trace.to_str().unwrap()];
    let recorder = world.spawn(perfetto(world, OWNER, &args), "recorder");
    let mut consumer = world.consumer();
    world.wait_until("the session", || {
        consumer.query_service_state(true).is_ok_and(|state| state.num_sessions() == 1)
    });
    recorder
}

/// Whether the service lists the owner's session for this user, and of whom it says that it is.
fn sees_owner(world: &World, uid: u32) -> Option<String> {
    let done = world.run(perfetto(world, uid, &["--query"]), TIMEOUT);
    assert!(done.status.success(), "{}", done.stderr);
    let row = done.stdout.lines().find(|line| line.ends_with("of the owner"))?;
    row.split_whitespace().nth(1).map(str::to_owned)
}

/// Whether the service gives this user the owner's session. As upstream's, the command line says that it does not, and ends well.
fn clones_owner(world: &World, uid: u32) -> bool {
    let file = world.path(&format!("clone of {uid}"));
    let args = ["--clone-by-name", "of the owner", "-o", file.to_str().unwrap()];
    let done = world.run(perfetto(world, uid, &args), TIMEOUT);
    let is_refused = done.stderr.contains("Service error");
    let is_given = std::fs::metadata(file).is_ok_and(|file| file.len() > 0);
    assert_ne!(is_given, is_refused, "{}", done.stderr);
    is_given
}

#[test]
fn users_are_told_apart_from_within_a_pid_name_space() {
    let mut world = need!(world(&need!(ferretto()), &["--pid"]));
    let recorder = session_of_owner(&world);
    assert_eq!(sees_owner(&world, OWNER).as_deref(), Some("1001"));
    assert_eq!(sees_owner(&world, NEIGHBOUR), None);
    assert_eq!(sees_owner(&world, ROOT).as_deref(), Some("1001"));
    assert_eq!([OWNER, NEIGHBOUR].map(|uid| clones_owner(&world, uid)), [true, false]);
    drop(recorder);
    // `unshare` passes no signal on, and takes the service with it.
    world.kill_service();
}

#[test]
fn users_that_a_name_space_does_not_have_are_nobody() {
    let mut world = need!(world(&need!(ferretto()), &["--user", "--map-root-user"]));
    let recorder = session_of_owner(&world);
    // All of them look the same from there, so that not even the owner is told.
    assert_eq!(sees_owner(&world, OWNER), None);
    assert_eq!(sees_owner(&world, NEIGHBOUR), None);
    assert!(sees_owner(&world, ROOT).is_some());
    assert!(!clones_owner(&world, NEIGHBOUR));
    drop(recorder);
    // `unshare` passes no signal on, and takes the service with it.
    world.kill_service();
}

/// Anybody can listen where anybody may make files: only root and oneself are believed to be the service.
#[test]
fn a_neighbours_service_in_a_common_folder_is_not_trusted() {
    need!(root());
    let peers = need!(ferretto());
    let mut world = World::new();
    set_permissions(world.path("."), Permissions::from_mode(0o1777)).unwrap();
    world.copy_program(peers.ferretto().get_program(), "ferretto");
    let mut service = Command::new("setpriv");
    service.args([format!("--reuid={OWNER}"), format!("--regid={OWNER}"), "--clear-groups".to_owned()]);
    service.arg(world.path("ferretto")).args(["traced", "--set-socket-permissions"]);
    service.arg(format!("{OWNER}:0666:{OWNER}:0666"));
    world.start(service, "traced");
    world.wait_for_sockets();
    let own = world.run(perfetto(&world, OWNER, &["--query"]), TIMEOUT);
    assert!(own.status.success(), "{}", own.stderr);
    for other in [ROOT, NEIGHBOUR] {
        let refused = world.run(perfetto(&world, other, &["--query"]), TIMEOUT);
        assert!(!refused.status.success() && refused.stderr.contains("is not trusted"), "{}", refused.stderr);
    }
}
