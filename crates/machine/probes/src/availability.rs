//! What works here, what does not, and the one command that would change it.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::ftrace::tracefs;

/// One data source on this system for this user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    /// The name that configs use, for example `linux.ftrace`.
    pub data_source: &'static str,
    /// Whether a recording will get anything at all from it.
    pub works: bool,
    /// What is left out, and what would bring it in.
    pub limitations: Vec<Limitation>,
}

/// Something that a data source cannot record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limitation {
    /// What is missing, as a person would say it: `scheduling and all other kernel events`.
    pub what: String,
    /// Why, as found on this system.
    pub why: String,
    /// The one command that would grant it; `None` where no command would (the kernel lacks it).
    pub remedy: Option<String>,
}

/// Checks every registered data source on the system as it is now, by trying wherever trying is possible.
pub fn availability() -> Vec<Availability> {
    vec![
        ftrace(),
        process_stats(),
        sys_stats(),
        Availability { data_source: "linux.system_info", works: true, limitations: Vec::new() },
        sysfs_power(),
        inode_file_map(),
        frozen_ftrace(),
        systemd_journald(),
    ]
}

fn ftrace() -> Availability {
    let mut limitations = Vec::new();
    match tracefs_limitation("scheduling and all other kernel events".to_owned()) {
        Ok(root) => limitations.extend(foreign_tracer(&root)),
        Err(limitation) => limitations.push(limitation),
    }
    let works = limitations.is_empty();
    if works && !kallsyms_readable() {
        limitations.push(Limitation {
            what: "names of kernel functions in ftrace events (symbolize_ksyms)".to_owned(),
            why: "/proc/kallsyms hides addresses from this user".to_owned(),
            remedy: Some("sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1".to_owned()),
        });
    }
    Availability { data_source: "linux.ftrace", works, limitations }
}

/// Where tracefs is, or why it is of no use to this user.
fn tracefs_limitation(what: String) -> Result<PathBuf, Limitation> {
    match tracefs::check() {
        tracefs::Access::Usable(root) => Ok(root),
        tracefs::Access::NotMounted { kernel_has_it: true } => {
            let remedy = Some("sudo mount -t tracefs nodev /sys/kernel/tracing".to_owned());
            Err(Limitation { what, why: "tracefs is not mounted".to_owned(), remedy })
        }
        tracefs::Access::NotMounted { kernel_has_it: false } => {
            Err(Limitation { what, why: "this kernel is built without tracefs".to_owned(), remedy: None })
        }
        tracefs::Access::Denied { root, missing } => {
            let why = format!("this user may not write {}", missing.display());
            let remedy = Some(format!("sudo chown -R $USER {}", root.display()));
            Err(Limitation { what, why, remedy })
        }
    }
}

/// Another program's tracer keeps ftrace to itself; setting up would be refused.
fn foreign_tracer(root: &Path) -> Option<Limitation> {
    let tracer = std::fs::read_to_string(root.join("current_tracer")).ok()?;
    let tracer = tracer.trim();
    (!matches!(tracer, "nop" | "")).then(|| Limitation {
        what: "scheduling and all other kernel events".to_owned(),
        why: format!("another program uses ftrace (its current_tracer is {tracer})"),
        remedy: Some(format!("echo nop | sudo tee {}", root.join("current_tracer").display())),
    })
}

/// Whether kallsyms shows real addresses: the kernel prints zeroes to those it does not trust.
fn kallsyms_readable() -> bool {
    let Ok(file) = File::open("/proc/kallsyms") else { return false };
    let mut start = [0; 256];
    let read = crate::proc_fs::read_start(&file, &mut start).unwrap_or(0);
    let start = start.get(..read).unwrap_or(&[]);
    // The first symbols of a 64-bit kernel may be per-CPU ones at 0, which the symboliser has no use for either way.
    crate::proc_fs::lines(start)
        .any(|line| line.iter().take_while(|b| b.is_ascii_hexdigit()).any(|&b| b != b'0'))
}

fn process_stats() -> Availability {
    let mut limitations = Vec::new();
    // hidepid hides other users' processes; pid 1 is never this user's own unless this user is root.
    if !Path::new("/proc/1").exists() {
        limitations.push(Limitation {
            what: "processes of other users".to_owned(),
            why: "/proc is mounted with hidepid".to_owned(),
            remedy: Some("sudo mount -o remount,hidepid=0 /proc".to_owned()),
        });
    }
    // Root may read those of all processes but a few that protect themselves, and no command would change that.
    if !rustix::process::geteuid().is_root() && File::open("/proc/1/smaps_rollup").is_err() {
        limitations.push(Limitation {
            what: "proportional memory (scan_smaps_rollup) and open files (resolve_process_fds) of other users' processes".to_owned(),
            why: "the kernel shows them to their owner and to root only".to_owned(),
            remedy: Some("run it with sudo".to_owned()),
        });
    }
    Availability {
        data_source: "linux.process_stats",
        works: Path::new("/proc/self/status").exists(),
        limitations,
    }
}

fn sys_stats() -> Availability {
    let mut limitations = Vec::new();
    if !Path::new("/proc/pressure/cpu").exists() {
        limitations.push(Limitation {
            what: "pressure stall information (psi_period_ms)".to_owned(),
            why: "this kernel does not offer /proc/pressure (boot it with psi=1 if it was built with CONFIG_PSI)".to_owned(),
            remedy: None,
        });
    }
    if !has_entry("/sys/devices/system/cpu", |cpu| cpu.join("cpufreq/scaling_cur_freq").exists()) {
        limitations.push(Limitation {
            what: "CPU frequencies (cpufreq_period_ms)".to_owned(),
            why: "this machine offers no scaling_cur_freq, as most virtual machines".to_owned(),
            remedy: None,
        });
    }
    if Path::new("/proc/slabinfo").exists() && File::open("/proc/slabinfo").is_err() {
        limitations.push(Limitation {
            what: "slab caches (slab_period_ms)".to_owned(),
            why: "/proc/slabinfo may be read by root only".to_owned(),
            remedy: Some("run it with sudo".to_owned()),
        });
    }
    Availability { data_source: "linux.sys_stats", works: File::open("/proc/meminfo").is_ok(), limitations }
}

fn sysfs_power() -> Availability {
    let works = has_entry("/sys/class/power_supply", |supply| supply.join("capacity").exists());
    let limitations = if works {
        Vec::new()
    } else {
        vec![Limitation {
            what: "battery counters".to_owned(),
            why: "this machine has no battery".to_owned(),
            remedy: None,
        }]
    };
    Availability { data_source: "linux.sysfs_power", works, limitations }
}

fn inode_file_map() -> Availability {
    let mut limitations = Vec::new();
    if !rustix::process::geteuid().is_root() {
        limitations.push(Limitation {
            what: "files in folders of other users (inode_file_config)".to_owned(),
            why: "this user may not read those folders".to_owned(),
            remedy: Some("run it with sudo".to_owned()),
        });
    }
    Availability {
        data_source: "linux.inode_file_map",
        works: File::open("/proc/self/mountinfo").is_ok(),
        limitations,
    }
}

/// Which instance is the config's to say; what stands in the way of ftrace stands in the way of this, too.
fn frozen_ftrace() -> Availability {
    let limitations = match tracefs_limitation("what a stopped ftrace instance holds".to_owned()) {
        Ok(_) => Vec::new(),
        Err(limitation) => vec![limitation],
    };
    Availability { data_source: "linux.frozen_ftrace", works: limitations.is_empty(), limitations }
}

fn systemd_journald() -> Availability {
    let missing = crate::journald::what_is_missing();
    let limitation = |why| Limitation { what: "messages of systemd's journal".to_owned(), why, remedy: None };
    Availability {
        data_source: "linux.systemd_journald",
        works: missing.is_none(),
        limitations: missing.map(limitation).into_iter().collect(),
    }
}

fn has_entry(dir: &str, wanted: impl Fn(&Path) -> bool) -> bool {
    std::fs::read_dir(dir).is_ok_and(|entries| entries.flatten().any(|entry| wanted(&entry.path())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_data_source_is_reported_once_and_a_missing_one_says_why() {
        let report = availability();
        for (index, source) in report.iter().enumerate() {
            assert!(report.iter().skip(index + 1).all(|other| other.data_source != source.data_source));
            assert!(source.works || !source.limitations.is_empty(), "{source:?}");
            for limitation in &source.limitations {
                assert!(!limitation.what.is_empty() && !limitation.why.is_empty());
            }
        }
    }
}
