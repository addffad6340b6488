//! Programs that a command has started and that go on when it has ended.
//!
//! They are known by the recorder's name in their environment, which they have from the command. One that has cleared its environment, or is
//! of a user into whose processes the recorder may not look, is not seen.

use std::cmp::Reverse;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use ferretto_ipc::recorder::RECORDER_ENV;
use ferretto_printable::is_unseen;
use ferretto_probes::{MemoryFile, MemoryFiles, Target};

/// Of a name as much as is shown: the kernel keeps 15 bytes of a thread's.
const MAX_NAME_CHARS: usize = 32;
/// As many as are named.
const MAX_NAMED: usize = 20;

/// For so long processes are looked at: a thousand take a few milliseconds. The recording goes on meanwhile.
const MAX_TIME: Duration = Duration::from_secs(1);

/// Those whose environment names the recorder of these reports: name and process id. The last one says so if not all could be looked at.
pub(crate) fn of_recorder(reports: &Path) -> Vec<String> {
    let mut wanted = RECORDER_ENV.as_bytes().to_vec();
    wanted.push(b'=');
    wanted.extend_from_slice(reports.as_os_str().as_bytes());
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let names = processes.filter_map(Result::ok).map(|entry| entry.file_name());
    let pids = names.filter_map(|name| name.to_str()?.parse::<i32>().ok());
    let mut targets: Vec<Target> = pids.map(|pid| Target { pid, uid: user_of(pid) }).collect();
    // A command's programs are of the recorder's user as a rule, and young: they come first.
    let own = rustix::process::getuid().as_raw();
    targets.sort_unstable_by_key(|target| (target.uid != own, Reverse(target.pid)));
    let deadline = Instant::now() + MAX_TIME;
    let mut found = Vec::new();
    // Of a process that has ended, and of one that may not be looked at, nothing can be read.
    let mut files = MemoryFiles::default();
    let done = files.read_until(Some(deadline), &MemoryFile::ENVIRON, &targets, |number, environment| {
        let mut variables = environment.unwrap_or_default().split(|byte| *byte == 0);
        if let Some(target) = targets.get(number).filter(|_| variables.any(|variable| variable == wanted)) {
            found.push(target.pid);
        }
    });
    found.sort_unstable();
    let mut named: Vec<String> = found.into_iter().take(MAX_NAMED).map(described).collect();
    if done < targets.len() {
        named.push(format!("perhaps more: there was no time to look at {} processes", targets.len() - done));
    }
    named
}

/// Not the owner of the folder: that is root's if the process does not let itself be looked at.
fn user_of(pid: i32) -> u32 {
    let status = fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn described(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let shown: String = name.chars().filter(|c| !is_unseen(*c)).take(MAX_NAME_CHARS).collect();
    format!("{shown} (process {pid})")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn those_with_the_recorders_name_in_their_environment_are_found() {
        let reports = Path::new("/tmp/reports of a test");
        let start = |value: &str| Command::new("sleep").arg("60").env(RECORDER_ENV, value).spawn().unwrap();
        let (mut own, mut others) = (start("/tmp/reports of a test"), start("/tmp/reports of a test 2"));
        // It is the test's own image until it has become `sleep`.
        let expected = format!("sleep (process {})", own.id());
        let until = Instant::now() + Duration::from_secs(20);
        while of_recorder(reports) != [expected.clone()] {
            assert!(Instant::now() < until, "{:?}", of_recorder(reports));
        }
        for child in [&mut own, &mut others] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(of_recorder(reports).is_empty());
    }
}
