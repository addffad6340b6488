//! Who uses a tracefs instance: one recorder at a time, for each empties the buffers when it begins and switches everything off when it
//! ends.
//!
//! Recorders of ours lock the instance's folder. Others do not: they are seen by the pipes that they read it through.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Component, Path};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::tracefs::Tracefs;

/// Instances that recorders make for themselves are called so, and after their process.
const PRIVATE_PREFIX: &str = "ferretto-";
/// Names that are tried: a process of another PID namespace may have the same number.
const MAX_NAMES: u32 = 64;

/// The right to use an instance, for as long as it exists.
#[derive(Debug)]
pub(crate) struct Claim {
    /// The locked folder; none where this user may not open it, and nobody can be asked.
    _folder: Option<File>,
}

impl Claim {
    /// Claims the instance with this folder; none if another recorder has it.
    pub(crate) fn take(instance: &Path) -> Option<Self> {
        let Ok(folder) = File::open(instance) else { return Some(Self { _folder: None }) };
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => None,
            // File systems that know no locks have no second user either.
            Ok(()) | Err(_) => Some(Self { _folder: Some(folder) }),
        }
    }
}

/// Makes an instance for this process under the root of tracefs: its name, and the claim.
pub(crate) fn make_private(root: &Path) -> Result<(String, Claim), String> {
    remove_abandoned(root);
    let mut problem = "every name is taken".to_owned();
    for number in 1..=MAX_NAMES {
        let name = match number {
            1 => format!("{PRIVATE_PREFIX}{}", std::process::id()),
            n => format!("{PRIVATE_PREFIX}{}-{n}", std::process::id()),
        };
        let folder = root.join("instances").join(&name);
        if let Err(error) = std::fs::create_dir(&folder) {
            problem = error.to_string();
            continue;
        }
        // Somebody who tidies up may have been quicker.
        if let Some(claim) = Claim::take(&folder).filter(|_| folder.is_dir()) {
            return Ok((name, claim));
        }
    }
    Err(format!("could not create an ftrace instance in {}: {problem}", root.join("instances").display()))
}

/// Removes the instances of recorders that were killed: the kernel would record into them for ever.
pub(crate) fn remove_abandoned(root: &Path) {
    for entry in std::fs::read_dir(root.join("instances")).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_private)
            && let Some(_claim) = Claim::take(&entry.path())
        {
            // Removing an instance ends whatever is recorded into it.
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

/// Whether a recorder calls its own instance so: `ferretto-123`, or `ferretto-123-2`.
pub(crate) fn is_private(name: &str) -> bool {
    let number = name.strip_prefix(PRIVATE_PREFIX).unwrap_or_default();
    number.starts_with(|c: char| c.is_ascii_digit())
        && number.bytes().all(|b| b.is_ascii_digit() || b == b'-')
}

/// Whether nobody uses the root instance now.
pub(crate) fn is_root_free(root: &Path) -> bool {
    Claim::take(root).is_some() && !is_used_by_others(&Tracefs::new(root.to_owned()))
}

/// Whether a program that takes no claims uses the root instance: a tracer runs, or events are switched on and somebody reads them.
/// Events that nobody reads were left behind by a recorder that was killed.
fn is_used_by_others(root: &Tracefs) -> bool {
    if !matches!(root.current_tracer().as_str(), "nop" | "") {
        return true;
    }
    root.tracing_on() && root.has_events() && is_read(root)
}

/// Who has a pipe of an instance open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Somebody.
    Some,
    Nobody,
    /// Nobody of those that may be looked at.
    Unknown,
}

/// Whether a process has a pipe of the instance open, as far as this user may look.
pub(crate) fn is_read(tracefs: &Tracefs) -> bool {
    readers(tracefs) == Readers::Some
}

/// Looks for a process that has a pipe of the instance open. A daemon that is shut in may look into no other process; from Linux 6.6 on the kernel
/// still says who reads `trace_pipe`, if not `trace_pipe_raw`.
pub(crate) fn readers(tracefs: &Tracefs) -> Readers {
    if tracefs.is_pipe_taken() {
        return Readers::Some;
    }
    let mut readers = Readers::Nobody;
    let is_closed = |error: &std::io::Error| error.kind() == ErrorKind::PermissionDenied;
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in
        processes.filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit))
    {
        let files = std::fs::read_dir(process.path().join("fd"));
        if files.as_ref().is_err_and(is_closed) {
            readers = Readers::Unknown;
        }
        for file in files.into_iter().flatten().flatten() {
            match std::fs::read_link(file.path()) {
                Ok(path) if is_pipe_of(tracefs, &path) => return Readers::Some,
                Err(error) if is_closed(&error) => readers = Readers::Unknown,
                Ok(_) | Err(_) => {}
            }
        }
    }
    readers
}

/// `/sys/kernel/tracing/trace_pipe`, or that of a CPU, by whichever name of tracefs; for the root not that of an instance.
fn is_pipe_of(tracefs: &Tracefs, path: &Path) -> bool {
    let is_pipe =
        matches!(path.file_name().and_then(|name| name.to_str()), Some("trace_pipe" | "trace_pipe_raw"));
    let mut parts =
        path.components().map(Component::as_os_str).skip_while(|part| *part != "instances").skip(1);
    let instance = tracefs.root().file_name().filter(|_| tracefs.is_instance());
    is_pipe && parts.next() == instance
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> std::path::PathBuf {
        let root = std::env::temp_dir().join(format!("ferretto-claim-{name}-{}", std::process::id()));
        std::fs::create_dir_all(root.join("instances")).unwrap();
        root
    }

    #[test]
    fn an_instance_has_one_recorder_at_a_time() {
        let root = folder("one");
        let first = Claim::take(&root).unwrap();
        assert!(Claim::take(&root).is_none());
        drop(first);
        assert!(Claim::take(&root).is_some());
        assert!(Claim::take(&root.join("missing")).is_some(), "nobody can be asked");
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn private_instances_have_names_of_their_own_and_go_when_nobody_has_them() {
        let root = folder("private");
        let (first, claim) = make_private(&root).unwrap();
        let (second, _claim) = make_private(&root).unwrap();
        assert_ne!(first, second);
        drop(claim);
        std::fs::create_dir(root.join("instances/ferretto-of-somebody")).unwrap();
        remove_abandoned(&root);
        let left =
            [&first, &second, "ferretto-of-somebody"].map(|name| root.join("instances").join(name).is_dir());
        assert_eq!(left, [false, true, true]);
        std::fs::remove_dir_all(root).unwrap();
        assert!(make_private(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn pipes_of_the_root_are_told_from_those_of_instances() {
        let root = Tracefs::new("/sys/kernel/tracing".into());
        let is = |path: &str| is_pipe_of(&root, Path::new(path));
        assert!(is("/sys/kernel/tracing/per_cpu/cpu3/trace_pipe_raw"));
        assert!(is("/sys/kernel/debug/tracing/trace_pipe"));
        assert!(!is("/sys/kernel/tracing/instances/a/per_cpu/cpu3/trace_pipe_raw"));
        assert!(!is("/sys/kernel/tracing/trace_marker"));
        let instance =
            Tracefs::instance("/sys/kernel/tracing".into(), "/sys/kernel/tracing/instances/a".into());
        let is = |path: &str| is_pipe_of(&instance, Path::new(path));
        assert!(is("/sys/kernel/tracing/instances/a/per_cpu/cpu3/trace_pipe_raw"));
        assert!(!is("/sys/kernel/tracing/instances/b/trace_pipe") && !is("/sys/kernel/tracing/trace_pipe"));
    }

    #[test]
    fn a_pipe_that_is_read_is_seen_without_a_look_at_the_reader() {
        let path = Path::new("/sys/kernel/tracing/instances").join(format!("reader-{}", std::process::id()));
        if let Err(error) = std::fs::create_dir(&path) {
            return println!("skipped: no instance of tracefs can be made here: {error}");
        }
        let tracefs = Tracefs::instance("/sys/kernel/tracing".into(), path.clone());
        let before = tracefs.is_pipe_taken();
        let reader = File::open(path.join("trace_pipe")).unwrap();
        // Kernels before 6.6 let any number read.
        let is_exclusive = File::open(path.join("trace_pipe")).is_err();
        let while_read = tracefs.is_pipe_taken();
        assert_eq!(readers(&tracefs), Readers::Some);
        drop(reader);
        let after = tracefs.is_pipe_taken();
        std::fs::remove_dir(path).unwrap();
        assert_eq!([before, while_read, after], [false, is_exclusive, false]);
    }
}
