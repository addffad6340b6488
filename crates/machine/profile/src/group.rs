//! A control group for a command, so that all of its processes have the same events: those of a group go on whoever of it runs.
//!
//! Events that children inherit do not: each child begins with a whole period to go, on each processor anew, and what is left of it at its end is
//! lost. Of children that live a millisecond one sample in six is there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders of groups are called so, and then as the process that has made them.
const PREFIX: &str = "ferretto-profile-";

/// A group below the one that this process is in. It is gone when this is dropped; who is in it by then goes where this process is.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    /// Where this process is.
    home: PathBuf,
}

impl Group {
    /// Makes one, in the hierarchy that has all controllers which no other one has (cgroups(7), version 2).
    ///
    /// # Errors
    ///
    /// If there is no such hierarchy, or this user may make no groups in it, as all but root mostly.
    pub fn make() -> io::Result<Self> {
        let home = home().ok_or(io::ErrorKind::NotFound)?;
        remove_left(&home);
        let path = home.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path)?;
        let group = Self { path, home };
        // Within groups of threads it is none that processes can be in.
        match fs::read_to_string(group.path.join("cgroup.type"))?.trim() {
            "domain" => Ok(group),
            kind => Err(io::Error::other(format!("a control group would be a {kind} one"))),
        }
    }

    /// Its folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Starts something in it: this process is in it meanwhile.
    ///
    /// # Errors
    ///
    /// If this process cannot be moved.
    pub fn start<T>(&self, start: impl FnOnce() -> T) -> io::Result<T> {
        move_to(&self.path, "0")?;
        let started = start();
        move_to(&self.home, "0")?;
        Ok(started)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let left = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        for pid in left.lines() {
            // It has ended, or the folder stays.
            let _ = move_to(&self.home, pid);
        }
        let _ = fs::remove_dir(&self.path);
    }
}

/// Zero is the process that writes it.
fn move_to(group: &Path, pid: &str) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), pid)
}

/// Removes the groups of those who were killed.
fn remove_left(home: &Path) {
    let folders = fs::read_dir(home).into_iter().flatten().flatten();
    for folder in folders {
        let name = folder.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|pid| pid.parse().ok());
        if pid.is_some_and(|pid: u32| !Path::new(&format!("/proc/{pid}")).exists()) {
            // Somebody is in it still.
            let _ = fs::remove_dir(folder.path());
        }
    }
}

/// The folder of the group that this process is in.
fn home() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    place(&mounts, &groups).filter(|place| place.is_dir())
}

/// Out of proc_pid_mountinfo(5) and the hierarchy without a number in `/proc/PID/cgroup` (cgroups(7)).
fn place(mounts: &str, groups: &str) -> Option<PathBuf> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mounted = mounts.lines().filter_map(|line| {
        let (fields, kind) = line.split_once(" - ")?;
        let mut fields = fields.split(' ').skip(3);
        let (root, place) = (fields.next()?, fields.next()?);
        kind.starts_with("cgroup2 ").then_some((root, place))
    });
    let mut within = mounted
        .filter_map(|(root, place)| Some(Path::new(place).join(Path::new(group).strip_prefix(root).ok()?)));
    within.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_below_where_its_hierarchy_is_mounted() {
        let mounts = "36 35 98:0 / / rw,noatime master:1 - ext4 /dev/root rw\n\
            40 36 0:30 /pod/a /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
        let expected = [
            ("0::/pod/a/b c\n", Some("/sys/fs/cgroup/b c")),
            ("3:cpu:/pod/a\n0::/pod/a\n", Some("/sys/fs/cgroup/")),
            ("0::/elsewhere\n", None),
            ("3:cpu:/pod/a\n", None),
        ];
        for (groups, place_of) in expected {
            assert_eq!(place(mounts, groups), place_of.map(PathBuf::from), "{groups}");
        }
        assert_eq!(place("", "0::/\n"), None);
    }

    #[test]
    fn what_is_started_in_one_is_in_it_and_goes_home_at_the_end() {
        let group = match Group::make() {
            Ok(group) => group,
            Err(error) => return eprintln!("skipped: no control groups here: {error}"),
        };
        let own = || fs::read_to_string("/proc/self/cgroup").unwrap();
        let before = own();
        let sleep = || std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let mut child = group.start(sleep).unwrap();
        assert_eq!(own(), before);
        let of_child = || fs::read_to_string(format!("/proc/{}/cgroup", child.id())).unwrap();
        assert!(of_child().contains(PREFIX), "{}", of_child());
        let path = group.path().to_owned();
        drop(group);
        assert_eq!(of_child(), before);
        assert!(!path.exists());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn groups_of_those_who_were_killed_are_removed() {
        let Some(home) = home() else { return eprintln!("skipped: no control groups here") };
        let (left, other) = (home.join(format!("{PREFIX}4194305")), home.join("ferretto-other"));
        if let Err(error) = fs::create_dir(&left).and_then(|()| fs::create_dir(&other)) {
            return eprintln!("skipped: no control groups to be made here: {error}");
        }
        remove_left(&home);
        assert!(!left.exists() && other.exists());
        fs::remove_dir(&other).unwrap();
    }
}
