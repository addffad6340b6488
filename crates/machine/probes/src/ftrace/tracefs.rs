//! The files of one tracefs instance, by what they do.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::cpu_stats::CpuStats;
use crate::proc_fs;

/// Where tracefs is mounted: the modern place, then the one of old distributions (upstream: tracefs.cc).
pub(crate) const MOUNT_POINTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Files that setting up writes first: without them nothing can be recorded.
const NEEDED_FILES: [&str; 4] = ["tracing_on", "trace_clock", "buffer_size_kb", "trace"];

/// More than any file has that must be read at once.
const LARGE_FILE: usize = 16 << 10;

/// What this user may do with tracefs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Mounted here, and writable.
    Usable(PathBuf),
    /// Nowhere.
    NotMounted {
        /// The kernel knows the file system.
        kernel_has_it: bool,
    },
    /// Mounted, and not for this user.
    Denied {
        /// The mount point.
        root: PathBuf,
        /// A file that must be writable and is not.
        missing: PathBuf,
    },
}

/// Tries the mount points in order.
pub(crate) fn check() -> Access {
    let mut denied = None;
    for root in MOUNT_POINTS.map(PathBuf::from) {
        // Without permission to enter the directory only /proc/mounts tells it from an unused mount point.
        if !root.join("tracing_on").exists() && !is_mounted(&root) {
            continue;
        }
        match NEEDED_FILES.map(|f| root.join(f)).into_iter().find(|f| !writable(f)) {
            None => return Access::Usable(root),
            Some(missing) => {
                denied.get_or_insert(Access::Denied { root, missing });
            }
        }
    }
    denied.unwrap_or_else(|| Access::NotMounted { kernel_has_it: kernel_has_tracefs() })
}

fn is_mounted(root: &Path) -> bool {
    let mounts = proc_fs::read("/proc/mounts");
    proc_fs::lines(&mounts).any(|line| {
        let mut words = proc_fs::words(line).skip(1);
        words.next() == Some(root.as_os_str().as_encoded_bytes()) && words.next() == Some(b"tracefs")
    })
}

fn kernel_has_tracefs() -> bool {
    let filesystems = proc_fs::read("/proc/filesystems");
    proc_fs::lines(&filesystems).any(|line| proc_fs::words(line).last() == Some(b"tracefs"))
}

/// One instance: the root of tracefs, or a directory of `instances/`.
#[derive(Debug)]
pub(crate) struct Tracefs {
    root: PathBuf,
    /// Where the files are that all instances share.
    top: PathBuf,
}

impl Tracefs {
    /// The root instance.
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { top: root.clone(), root }
    }

    /// The one in the folder `root` of the tracefs at `top`.
    pub(crate) fn instance(top: PathBuf, root: PathBuf) -> Self {
        Self { root, top }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether this user may write the files that setting up writes.
    pub(crate) fn is_usable(&self) -> bool {
        NEEDED_FILES.iter().all(|file| writable(&self.root.join(file)))
    }

    /// Whether an instance has all that the root has: larger pages, and what programs write to the root's `trace_marker`.
    pub(crate) fn has_good_instances(&self) -> bool {
        ["buffer_subbuf_size_kb", "options/copy_trace_marker"].iter().all(|file| self.top.join(file).exists())
    }

    /// Replaces what the file holds. The kernel takes one `write()` as one command.
    pub(crate) fn write(&self, file: &str, text: &str) -> io::Result<()> {
        File::options().write(true).open(self.root.join(file))?.write_all(text.as_bytes())
    }

    fn append(&self, file: &str, text: &str) -> io::Result<()> {
        File::options().append(true).open(self.root.join(file))?.write_all(text.as_bytes())
    }

    /// Opening with O_TRUNC is how tracefs files are emptied.
    pub(crate) fn clear(&self, file: &str) -> io::Result<()> {
        OpenOptions::new().write(true).truncate(true).open(self.root.join(file)).map(drop)
    }

    /// The whole file; empty if it cannot be read.
    pub(crate) fn read(&self, file: &str) -> Vec<u8> {
        read_whole(&self.root.join(file)).unwrap_or_default()
    }

    /// A file that all instances share.
    pub(crate) fn read_shared(&self, file: &str) -> Vec<u8> {
        read_whole(&self.top.join(file)).unwrap_or_default()
    }

    fn append_shared(&self, file: &str, text: &str) -> io::Result<()> {
        File::options().append(true).open(self.top.join(file))?.write_all(text.as_bytes())
    }

    fn read_trimmed(&self, file: &str) -> String {
        String::from_utf8_lossy(&self.read(file)).trim().to_owned()
    }

    pub(crate) fn tracing_on(&self) -> bool {
        self.read_trimmed("tracing_on") == "1"
    }

    pub(crate) fn set_tracing_on(&self, on: bool) -> io::Result<()> {
        self.write("tracing_on", if on { "1" } else { "0" })
    }

    pub(crate) fn current_tracer(&self) -> String {
        self.read_trimmed("current_tracer")
    }

    /// Whether any event is switched on; `X` is some, `1` all.
    pub(crate) fn has_events(&self) -> bool {
        self.read_trimmed("events/enable").starts_with(['1', 'X'])
    }

    /// What `events/enable` says, and the events that are on if it is some of them.
    pub(crate) fn events_on(&self) -> (String, Vec<(String, String)>) {
        let switch = self.read_trimmed("events/enable");
        if !switch.starts_with('X') {
            return (switch, Vec::new());
        }
        let text = String::from_utf8_lossy(&self.read("set_event")).into_owned();
        let pairs = text.lines().filter_map(|line| line.trim().split_once(':'));
        (switch, pairs.map(|(group, name)| (group.to_owned(), name.to_owned())).collect())
    }

    /// Switches on again what was on.
    pub(crate) fn enable_events(&self, (switch, events): &(String, Vec<(String, String)>)) {
        if switch.starts_with('1') {
            let _ = self.write("events/enable", "1");
        }
        for (group, name) in events {
            let _ = self.enable_event(group, name);
        }
    }

    /// Whether no buffer holds an event.
    pub(crate) fn is_empty(&self) -> bool {
        self.cpus().into_iter().all(|cpu| CpuStats::parse(cpu, &self.cpu_stats(cpu)).entries == 0)
    }

    /// Whether somebody has taken events out of a buffer since it was last emptied.
    pub(crate) fn was_read(&self) -> bool {
        self.cpus().into_iter().any(|cpu| CpuStats::parse(cpu, &self.cpu_stats(cpu)).read_events > 0)
    }

    /// Whether the kernel lets nobody open `trace_pipe` because somebody has (Linux 6.6).
    pub(crate) fn is_pipe_taken(&self) -> bool {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        options
            .open(self.root.join("trace_pipe"))
            .is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
    }

    /// Whether it is a folder of `instances/`.
    pub(crate) fn is_instance(&self) -> bool {
        self.root != self.top
    }

    /// Whether the event's own file says that it is on; true where it cannot be read.
    pub(crate) fn is_enabled(&self, group: &str, name: &str) -> bool {
        !self.read_trimmed(&format!("events/{group}/{name}/enable")).starts_with('0')
    }

    pub(crate) fn disable_all_events(&self) -> io::Result<()> {
        self.write("events/enable", "0")
    }

    /// Empties all ring buffers; `trace` covers the online CPUs only.
    pub(crate) fn clear_trace(&self) -> io::Result<()> {
        self.clear("trace")?;
        for cpu in parse_cpu_list(&proc_fs::read("/sys/devices/system/cpu/offline")) {
            let _ = self.clear(&format!("per_cpu/cpu{cpu}/trace"));
        }
        Ok(())
    }

    /// The text of an event's format file; empty if there is no such event.
    pub(crate) fn event_format(&self, group: &str, name: &str) -> Vec<u8> {
        self.read(&format!("events/{group}/{name}/format"))
    }

    /// The names of a group's events.
    pub(crate) fn events_in(&self, group: &str) -> BTreeSet<String> {
        let dir = std::fs::read_dir(self.root.join("events").join(group));
        let entries = dir.into_iter().flatten().flatten();
        entries
            .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
            .filter_map(|e| e.file_name().into_string().ok())
            .collect()
    }

    /// Every `(group, name)` whose name is `name`, in the kernel's order, then the built-in `ftrace` group.
    pub(crate) fn groups_of_event(&self, name: &str) -> Vec<String> {
        let available = self.read("available_events");
        let mut groups: Vec<String> = proc_fs::lines(&available)
            .filter_map(|line| std::str::from_utf8(line).ok()?.split_once(':'))
            .filter(|(_, event)| *event == name)
            .map(|(group, _)| group.to_owned())
            .collect();
        if self.root.join("events/ftrace").join(name).is_dir() && !groups.iter().any(|g| g == "ftrace") {
            groups.push("ftrace".to_owned());
        }
        groups
    }

    /// Switches an event on, by its own file or, where that is not writable, by `set_event`.
    pub(crate) fn enable_event(&self, group: &str, name: &str) -> io::Result<()> {
        self.write(&format!("events/{group}/{name}/enable"), "1")
            .or_else(|_| self.append("set_event", &format!("{group}:{name}")))
    }

    pub(crate) fn disable_event(&self, group: &str, name: &str) -> io::Result<()> {
        self.write(&format!("events/{group}/{name}/enable"), "0")
            .or_else(|_| self.append("set_event", &format!("!{group}:{name}")))
    }

    /// The clocks on offer, and the one in use (in brackets).
    pub(crate) fn clocks(&self) -> (Vec<String>, String) {
        let text = self.read_trimmed("trace_clock");
        let mut current = String::new();
        let mut all = Vec::new();
        for word in text.split_whitespace() {
            let clock = word.trim_matches(['[', ']']);
            if word.starts_with('[') {
                clock.clone_into(&mut current);
            }
            all.push(clock.to_owned());
        }
        (all, current)
    }

    pub(crate) fn set_clock(&self, clock: &str) -> io::Result<()> {
        self.write("trace_clock", clock)
    }

    pub(crate) fn set_cpu_buffer_size_kb(&self, kb: u64) -> io::Result<()> {
        self.write("buffer_size_kb", &kb.to_string())
    }

    /// The real size of a CPU's buffer in KiB; the kernel rounds what was asked for.
    pub(crate) fn cpu_buffer_size_kb(&self) -> u64 {
        proc_fs::leading_u64(&self.read("per_cpu/cpu0/buffer_size_kb")).unwrap_or(0)
    }

    /// Sizes of the buffers by their files, to be written there again: one if all CPUs have the same.
    pub(crate) fn buffer_sizes_kb(&self) -> Vec<(String, u64)> {
        let size_of = |file: String| {
            let size_kb = proc_fs::leading_u64(&self.read(&file)).filter(|&kb| kb > 0)?;
            Some((file, size_kb))
        };
        match size_of("buffer_size_kb".to_owned()) {
            Some(of_all) => vec![of_all],
            None => {
                let files = self.cpus().into_iter().map(|cpu| format!("per_cpu/cpu{cpu}/buffer_size_kb"));
                files.filter_map(size_of).collect()
            }
        }
    }

    pub(crate) fn buffer_percent(&self) -> Option<u64> {
        proc_fs::leading_u64(&self.read("buffer_percent"))
    }

    /// Sets the size of the pages that a buffer consists of and is read by (Linux 6.8: `buffer_subbuf_size_kb`).
    pub(crate) fn set_page_size_kb(&self, kb: u64) -> io::Result<()> {
        self.write("buffer_subbuf_size_kb", &kb.to_string())
    }

    pub(crate) fn set_buffer_percent(&self, percent: u64) -> io::Result<()> {
        self.write("buffer_percent", &percent.to_string())
    }

    /// The CPUs that have a buffer, online or not.
    pub(crate) fn cpus(&self) -> Vec<u32> {
        let dir = std::fs::read_dir(self.root.join("per_cpu"));
        let names = dir.into_iter().flatten().flatten().filter_map(|e| e.file_name().into_string().ok());
        let mut cpus: Vec<u32> = names.filter_map(|name| name.strip_prefix("cpu")?.parse().ok()).collect();
        cpus.sort_unstable();
        cpus
    }

    /// A CPU's raw pages, without blocking when there are none.
    pub(crate) fn open_raw_pipe(&self, cpu: u32) -> io::Result<File> {
        let path = self.root.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
            .open(path)
    }

    pub(crate) fn cpu_stats(&self, cpu: u32) -> Vec<u8> {
        self.read(&format!("per_cpu/cpu{cpu}/stats"))
    }

    /// Lets only these system calls through the `raw_syscalls` events; none means all.
    pub(crate) fn set_syscall_filter(&self, ids: &BTreeSet<u32>) -> io::Result<()> {
        let terms: Vec<String> = ids.iter().map(|id| format!("id == {id}")).collect();
        let filter = if terms.is_empty() { "0".to_owned() } else { terms.join(" || ") };
        self.write("events/raw_syscalls/sys_enter/filter", &filter)?;
        self.write("events/raw_syscalls/sys_exit/filter", &filter)
    }

    /// Adds a kprobe or kretprobe on the function `name`; one that exists already counts as added.
    pub(crate) fn create_kprobe(&self, group: &str, name: &str, is_return: bool) -> io::Result<()> {
        // maxactive of return probes: upstream's kKretprobeDefaultMaxactives.
        let kind = if is_return { "r1024" } else { "p" };
        match self.append_shared("kprobe_events", &format!("{kind}:{group}/{name} {name}")) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            result => result,
        }
    }

    pub(crate) fn remove_kprobe(&self, group: &str, name: &str) -> io::Result<()> {
        self.append_shared("kprobe_events", &format!("-:{group}/{name}"))
    }

    /// Appends function names to one of the function tracer's filter files.
    pub(crate) fn append_functions(&self, file: &str, functions: &[String]) -> io::Result<()> {
        // `name:command` would run a command of the tracer for everyone who shares the instance, and `!name` take a function from the others.
        let takes_away = |filter: &String| filter.split_whitespace().any(|name| name.starts_with('!'));
        if functions.iter().any(|filter| filter.contains(':') || takes_away(filter)) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a function filter must not contain ':' or begin with '!'",
            ));
        }
        if functions.is_empty() { Ok(()) } else { self.append(file, &functions.join("\n")) }
    }

    /// The state of an option of `options/`, if it exists.
    pub(crate) fn option(&self, name: &str) -> Option<bool> {
        match self.read_trimmed(&format!("options/{name}")).as_str() {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        }
    }

    pub(crate) fn set_option(&self, name: &str, on: bool) -> io::Result<()> {
        self.write(&format!("options/{name}"), if on { "1" } else { "0" })
    }

    pub(crate) fn cpumask(&self) -> String {
        self.read_trimmed("tracing_cpumask")
    }
}

/// Not by pread, and not in small pieces: some tracefs files mind offsets, and `events/header_page` has nothing to say to a second read
/// (Linux: trace_events.c, show_header_page_file).
fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut text = Vec::with_capacity(LARGE_FILE);
    file.read_to_end(&mut text)?;
    Ok(text)
}

/// Parses `0-2,5` as the kernel prints lists of CPUs.
pub(crate) fn parse_cpu_list(text: &[u8]) -> Vec<u32> {
    /// More CPUs than any kernel is built for (CONFIG_NR_CPUS ends at 8192).
    const MAX_CPUS: u32 = 1 << 14;
    let mut cpus = Vec::new();
    for range in text.trim_ascii().split(|&b| b == b',') {
        let mut ends = range.split(|&b| b == b'-').map(|n| std::str::from_utf8(n).ok()?.parse::<u32>().ok());
        let Some(Some(first)) = ends.next() else { continue };
        let last = ends.next().flatten().unwrap_or(first);
        cpus.extend((first..=last.min(MAX_CPUS)).filter(|cpu| *cpu < MAX_CPUS));
    }
    cpus
}

/// Whether a file can be opened for writing, without changing it.
fn writable(path: &Path) -> bool {
    OpenOptions::new().write(true).open(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_parse() {
        assert_eq!(parse_cpu_list(b"0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(parse_cpu_list(b"\n"), []);
        assert_eq!(parse_cpu_list(b"3"), [3]);
        assert_eq!(parse_cpu_list(b"x,1-"), [1]);
    }

    #[test]
    fn checking_access_changes_nothing_and_never_fails() {
        let first = check();
        assert_eq!(first, check());
    }
}
