//! What each daemon goes on to need once it is ready, and `--user`, `--no-sandbox`, with which it is changed.
//!
//! The sandbox is there by default. It is for the day on which somebody makes a daemon do what he wants.

use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Result;
use ferretto_ipc::address::Address;
use ferretto_sandbox::{Capability, Connection, Rights, User};
use rustix::fs::{Access, OFlags};

/// Where a config's `output_path` may lead to if nothing else is said.
const DEFAULT_OUTPUT_DIRS: [&str; 2] = ["/tmp", "/var/tmp"];

/// What resolving names of machines takes (nsswitch.conf(5), getaddrinfo(3)): whom to ask, and libraries that are loaded for it.
const RESOLVER: [&str; 13] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/ld.so.cache",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/run/systemd/resolve",
];
/// Where this is a link, it leads to a folder of whoever writes it anew when the network changes.
const WHOM_TO_ASK: &str = "/etc/resolv.conf";
const DNS_PORT: u16 = 53;

/// Where tracefs is mounted. Files beside it, in /sys/kernel, say which programs the kernel starts.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Flags of all daemons.
#[derive(clap::Args, Debug, Default, Clone)]
pub(crate) struct ShutInArgs {
    /// Become this user, by name or number, once what only root may do is done.
    #[arg(long, value_name = "USER")]
    user: Option<User>,

    /// Keep all rights of the user, instead of those that are used only.
    #[arg(long)]
    no_sandbox: bool,
}

impl ShutInArgs {
    /// Whether files may be made in some folders only.
    pub(crate) fn has_sandbox(&self) -> bool {
        !self.no_sandbox
    }

    pub(crate) fn changes_user(&self) -> bool {
        self.user.is_some()
    }

    /// Becomes another user, if one is named. Before, while this one may open the terminal, it is left.
    pub(crate) fn become_user(&self, rights: &Rights) -> Result<()> {
        if self.has_sandbox()
            && let Err(error) = stop_listening_to_the_terminal()
        {
            tracing::warn!("what is typed can still be read: {error}");
        }
        if let Some(user) = &self.user {
            ferretto_sandbox::become_user(user, &rights.capabilities)?;
        }
        Ok(())
    }

    /// Takes all other rights, and from others what they could read of the daemon. Before the first thread is started.
    pub(crate) fn shut_in(&self, rights: &Rights) {
        if self.no_sandbox {
            return tracing::info!("not shut in, as --no-sandbox says");
        }
        if let Err(error) = ferretto_sys::hide_arguments() {
            tracing::warn!(
                "neighbours who read this daemon's arguments in /proc can keep it from its memory: {error}"
            );
        }
        let shut_in = ferretto_sandbox::shut_in(rights);
        match shut_in.missing.as_slice() {
            [] => tracing::info!("{shut_in}"),
            _ => tracing::warn!("{shut_in}"),
        }
    }
}

/// No daemon reads what is typed where it was started, such as a password. The log goes on to be written there.
fn stop_listening_to_the_terminal() -> io::Result<()> {
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    let write_only = |fd: BorrowedFd<'_>| {
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        File::options().write(true).custom_flags(OFlags::NOCTTY.bits().cast_signed()).open(path)
    };
    let (stdout, stderr) = (io::stdout(), io::stderr());
    if stdout.is_terminal() {
        rustix::stdio::dup2_stdout(write_only(stdout.as_fd())?)?;
    }
    if stderr.is_terminal() {
        rustix::stdio::dup2_stderr(write_only(stderr.as_fd())?)?;
    }
    // Whoever started it may have had more of them open.
    ferretto_sys::close_terminals()
}

/// The folders in which the service may make files.
pub(crate) fn output_dirs(more: &[PathBuf]) -> Vec<PathBuf> {
    DEFAULT_OUTPUT_DIRS.iter().map(PathBuf::from).chain(more.iter().cloned()).collect()
}

/// The service: its sockets are there, and everything else comes in by them.
pub(crate) fn traced(sockets: &[Address], output_dirs: Vec<PathBuf>) -> Rights {
    Rights {
        writes: output_dirs,
        removes: folders(sockets),
        capabilities: vec![Capability::SysNice, Capability::DacOverride],
        ..Rights::default()
    }
}

/// The probes look at everything but devices, among which are terminals, and change nothing but tracefs.
pub(crate) fn probes(services: &[Address]) -> Rights {
    Rights {
        lists: vec!["/".into()],
        reads: all_but_devices(),
        controls: tracefs(),
        capabilities: vec![
            Capability::SysNice,
            Capability::DacOverride,
            Capability::DacReadSearch,
            Capability::SysPtrace,
            Capability::Syslog,
        ],
        ..connecting_to(services)
    }
}

/// The sampler reads whatever programs have mapped, and changes nothing.
pub(crate) fn perf(services: &[Address]) -> Rights {
    Rights {
        samples: true,
        capabilities: vec![
            Capability::Perfmon,
            Capability::SysPtrace,
            Capability::DacReadSearch,
            Capability::Syslog,
            Capability::SysNice,
        ],
        ..connecting_to(services)
    }
}

/// The heap profiler reads what programs have mapped, as the sampler does. What they share with it comes in by its socket.
pub(crate) fn heap(services: &[Address]) -> Rights {
    Rights {
        looks_into_programs: true,
        capabilities: vec![Capability::SysPtrace, Capability::DacReadSearch],
        ..connecting_to(services)
    }
}

/// The relay has a socket, and makes connections.
pub(crate) fn relay(sockets: &[Address], service: &Address) -> Rights {
    Rights { removes: folders(sockets), ..connecting_to(std::slice::from_ref(service)) }
}

/// The bridge makes connections.
pub(crate) fn bridge(traced: &Address, adb: &Address) -> Rights {
    connecting_to(&[traced.clone(), adb.clone()])
}

/// Of those who are not root, only who may not write into tracefs by itself keeps the right to write everywhere: with it the probes could
/// connect to sockets that are root's only.
pub(crate) fn keep_to_tracefs(rights: &mut Rights, may_write_tracefs: bool) {
    if may_write_tracefs {
        rights.capabilities.retain(|kept| *kept != Capability::DacOverride);
    }
}

/// Whether the user that this process is now may make instances of tracefs and write into them without root's rights.
pub(crate) fn may_write_tracefs() -> bool {
    let is_open = |folder: &str| {
        let folder = Path::new(folder);
        let files = [folder.join("tracing_on"), folder.join("set_event"), folder.join("instances")];
        files.iter().all(|file| rustix::fs::access(file, Access::WRITE_OK).is_ok())
    };
    TRACEFS.into_iter().any(is_open)
}

/// What is in the root, but for what is no data source's: devices, and what services keep for themselves.
fn all_but_devices() -> Vec<PathBuf> {
    const LEFT_OUT: [&str; 2] = ["/dev", "/run"];
    let all = fs::read_dir("/").into_iter().flatten().flatten().map(|entry| entry.path());
    let leads_there = |path: &PathBuf| {
        let path = fs::canonicalize(path).unwrap_or_default();
        LEFT_OUT.iter().any(|left_out| Path::new(left_out).starts_with(&path) || path.starts_with(left_out))
    };
    let mut reads: Vec<PathBuf> = all.filter(|path| !leads_there(path)).collect();
    // The journal, while it is not kept on the disk.
    reads.push("/run/log".into());
    reads
}

/// Rights are for what is mounted now: what is mounted there later is another folder.
fn tracefs() -> Vec<PathBuf> {
    let folders = TRACEFS.map(PathBuf::from);
    for folder in &folders {
        // The second one is mounted when somebody looks into it.
        let _ = folder.join("tracing_on").exists();
    }
    folders.into()
}

fn connecting_to(addresses: &[Address]) -> Rights {
    let mut rights = Rights::default();
    for address in addresses {
        rights.connects.push(match address {
            Address::Path(_) | Address::Abstract(_) => Connection::Unix,
            Address::Tcp { .. } => Connection::Tcp,
            Address::Vsock { .. } => Connection::Vsock,
        });
        match address {
            Address::Abstract(_) => rights.connects_to_abstract_names = true,
            Address::Tcp { host, port } => {
                rights.connects_to_ports.push(*port);
                if host.parse::<std::net::IpAddr>().is_err() {
                    resolve_names(&mut rights);
                }
            }
            Address::Path(_) | Address::Vsock { .. } => {}
        }
    }
    rights
}

fn resolve_names(rights: &mut Rights) {
    rights.connects.push(Connection::Names);
    rights.connects_to_ports.push(DNS_PORT);
    rights.reads.extend(RESOLVER.iter().map(PathBuf::from));
    let written_anew = fs::canonicalize(WHOM_TO_ASK).ok().and_then(|file| file.parent().map(Path::to_owned));
    rights
        .reads
        .extend(written_anew.filter(|folder| folder.starts_with("/run") && folder != Path::new("/run")));
}

/// Where the files of these sockets are removed from, unless others may make files there: the right is for all files of the folder, and
/// those are not the daemon's. There its sockets stay, and the next start removes them.
fn folders(sockets: &[Address]) -> Vec<PathBuf> {
    const OTHERS_WRITE: u32 = 0o022;
    let is_common =
        |folder: &PathBuf| fs::metadata(folder).is_ok_and(|found| found.mode() & OTHERS_WRITE != 0);
    let folder = |socket: &Address| match socket {
        Address::Path(path) => match path.parent() {
            Some(parent) if parent != Path::new("") => Some(parent.to_owned()),
            _ => Some(PathBuf::from(".")),
        },
        _ => None,
    };
    sockets.iter().filter_map(folder).filter(|folder| !is_common(folder)).collect()
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs::Permissions;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::Command;
    use std::thread;

    use super::*;

    /// What a hostile thread gets in a daemon with these rights, in letters.
    fn gets(rights: &Rights, folder: &Path, port: u16) -> String {
        type Attempt<'a> = (char, &'a dyn Fn() -> io::Result<()>);
        let attempts: [Attempt<'_>; 9] = [
            ('x', &|| Command::new("true").status().map(drop)),
            ('r', &|| File::open("/etc/passwd").map(drop)),
            ('v', &|| File::open("/dev/null").map(drop)),
            ('w', &|| File::options().write(true).open(folder.join("file")).map(drop)),
            ('m', &|| File::create(folder.join("made")).map(drop)),
            ('d', &|| fs::remove_file(folder.join("file"))),
            ('u', &|| UnixStream::connect(folder.join("socket")).map(drop)),
            ('t', &|| TcpStream::connect(("127.0.0.1", port)).map(drop)),
            ('k', &|| control(BESIDE_TRACEFS)),
        ];
        let got = attempts.iter().filter(|(_, attempt)| attempt().is_ok()).map(|(letter, _)| letter);
        let got: String = got.collect();
        format!("{} {got}", rights.capabilities.len())
    }

    /// A file that root may write, on nearly every machine.
    const BESIDE_TRACEFS: &str = "/sys/kernel/rcu_expedited";

    fn control(file: &str) -> io::Result<()> {
        File::options().write(true).open(file).map(drop)
    }

    /// Anybody may make files there, as in /tmp.
    fn common(folder: &Path) -> &Path {
        fs::set_permissions(folder, Permissions::from_mode(0o1777)).unwrap();
        folder
    }

    #[test]
    fn the_probes_write_into_tracefs_and_not_beside_it() {
        let file = Path::new(TRACEFS[0]).join("tracing_on");
        let file = file.to_str().unwrap();
        if let Err(error) = control(file).and(control(BESIDE_TRACEFS)) {
            return println!("skipped: not for this user: {error}");
        }
        let inside = || {
            let shut_in = ferretto_sandbox::shut_in(&probes(&[]));
            (control(file).is_ok(), control(BESIDE_TRACEFS).is_ok(), shut_in)
        };
        let (within, beside, shut_in) = thread::scope(|scope| scope.spawn(inside).join().unwrap());
        if !shut_in.missing.is_empty() {
            return println!("skipped: {shut_in}");
        }
        assert_eq!((within, beside), (true, false));
    }

    #[test]
    fn each_daemon_has_what_it_uses() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        let service = Address::Tcp { host: "127.0.0.1".to_owned(), port };
        let elsewhere = Address::Tcp { host: "127.0.0.1".to_owned(), port: port ^ 1 };
        let named = Address::Tcp { host: "localhost".to_owned(), port };
        let local = Address::Path("/run/nowhere/socket".into());
        let sockets = |folder: &Path| vec![Address::Path(folder.join("socket"))];
        type Profile<'a> = (&'a str, &'a dyn Fn(&Path) -> Rights, &'a str);
        let profiles: [Profile<'_>; 14] = [
            ("traced", &|_| traced(std::slice::from_ref(&local), vec!["/nowhere".into()]), "2 "),
            ("traced's sockets", &|folder| traced(&sockets(folder), Vec::new()), "2 d"),
            ("traced's files", &|folder| traced(&[], vec![folder.to_owned()]), "2 wm"),
            ("probes", &|_| probes(std::slice::from_ref(&local)), "5 ru"),
            ("probes by TCP", &|_| probes(std::slice::from_ref(&service)), "5 rt"),
            ("probes by vsock", &|_| probes(&[Address::Vsock { cid: 2, port: 1 }]), "5 r"),
            // It may open a device, too.
            ("perf", &|_| perf(std::slice::from_ref(&local)), "5 rvu"),
            ("heap", &|_| heap(std::slice::from_ref(&local)), "2 rvu"),
            ("relay", &|_| relay(std::slice::from_ref(&local), &service), "0 t"),
            ("relay to a named service", &|_| relay(std::slice::from_ref(&local), &named), "0 ut"),
            ("relay's sockets", &|folder| relay(&sockets(folder), &elsewhere), "0 d"),
            ("relay in a common folder", &|folder| relay(&sockets(common(folder)), &elsewhere), "0 "),
            ("bridge", &|_| bridge(&local, &service), "0 ut"),
            ("bridge to elsewhere", &|_| bridge(&local, &elsewhere), "0 u"),
        ];
        for (name, profile, expected) in profiles {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("file"), "").unwrap();
            let _socket = UnixListener::bind(folder.path().join("socket")).unwrap();
            let rights = profile(folder.path());
            let inside = || {
                let shut_in = ferretto_sandbox::shut_in(&rights);
                (gets(&rights, folder.path(), port), shut_in)
            };
            let (got, shut_in) = thread::scope(|scope| scope.spawn(inside).join().unwrap());
            if !shut_in.missing.is_empty() {
                return println!("skipped: {shut_in}");
            }
            assert_eq!(got, expected, "{name}");
        }
    }

    #[test]
    fn only_who_may_not_write_into_tracefs_keeps_the_right_to_write_everywhere() {
        for may_write in [false, true] {
            let mut rights = probes(&[]);
            keep_to_tracefs(&mut rights, may_write);
            assert_eq!(rights.capabilities.contains(&Capability::DacOverride), !may_write);
            assert!(rights.capabilities.contains(&Capability::DacReadSearch));
        }
        // As root, whatever this machine has: where there is no tracefs nobody may write into it.
        let there = TRACEFS.iter().any(|folder| Path::new(folder).join("set_event").exists());
        assert!(there || !may_write_tracefs());
    }

    #[test]
    fn names_of_machines_take_a_resolver() {
        let named = Address::Tcp { host: "board.local".to_owned(), port: 20001 };
        let rights = relay(&[], &named);
        assert_eq!(rights.connects_to_ports, [20001, DNS_PORT]);
        assert_eq!(rights.connects, [Connection::Tcp, Connection::Names]);
        assert!(rights.reads.contains(&PathBuf::from("/etc/resolv.conf")));
        for all in ["/", "/etc", "/run"] {
            assert!(!rights.reads.contains(&PathBuf::from(all)), "{all} has secrets");
        }
    }
}
