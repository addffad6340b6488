//! What the service learns from this machine: clocks, memory, randomness, names and numbers.

use std::fs;
use std::io;
use std::sync::Arc;

use ferretto_ipc::identity::machine_name;
use ferretto_peers::{Elsewhere, Whose};
use ferretto_protos::{SystemInfo, Utsname};
use ferretto_service::{Boost, ClockReadings, Environment, FileHandle, Now, ServiceOptions};
use ferretto_shm::SharedMemory;
use ferretto_sys::{Scheduling, time_stamp_counter};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::files::FileTable;

/// What the machine is compatible with, where there is a device tree.
const DEVICE_TREE: &str = "/sys/firmware/devicetree/base/compatible";

/// Reads all clocks, the boot clock first: it is the one that the others are compared with.
pub(crate) fn now() -> Now {
    let read = |id| nanoseconds(clock_gettime(id));
    Now {
        clocks: ClockReadings {
            boottime: read(ClockId::Boottime),
            realtime_coarse: read(ClockId::RealtimeCoarse),
            monotonic_coarse: read(ClockId::MonotonicCoarse),
            realtime: read(ClockId::Realtime),
            monotonic: read(ClockId::Monotonic),
            monotonic_raw: read(ClockId::MonotonicRaw),
            tsc: time_stamp_counter(),
        },
    }
}

fn nanoseconds(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or_default())
}

/// What the service asks for from inside its inputs.
#[derive(Default)]
pub(crate) struct SystemEnvironment {
    pub(crate) files: FileTable,
    elsewhere: Elsewhere,
    /// How the service's thread was scheduled before it was boosted.
    unboosted: Option<Scheduling>,
}

impl SystemEnvironment {
    pub(crate) fn new(files: FileTable, elsewhere: Elsewhere) -> Self {
        Self { files, elsewhere, unboosted: None }
    }
}

impl Environment for SystemEnvironment {
    fn allocate_memory(&mut self, len: usize) -> Result<Arc<SharedMemory>, String> {
        SharedMemory::create(len).map(Arc::new).map_err(|error| error.to_string())
    }

    fn random_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        if got != Ok(bytes.len()) {
            // Never seen on Linux; an id from the clock is still an id.
            return nanoseconds(clock_gettime(ClockId::Realtime));
        }
        u64::from_ne_bytes(bytes)
    }

    fn create_output(&mut self, path: &str) -> Result<FileHandle, String> {
        self.files.create(path).map_err(|error| error.to_string())
    }

    fn check_file(&mut self, file: FileHandle) -> Result<(), String> {
        self.files.check(file).map_err(|error| error.to_string())
    }

    fn stopwatch_ns(&mut self) -> u64 {
        nanoseconds(clock_gettime(ClockId::Monotonic))
    }

    fn dispose(&mut self, thing: Box<dyn Send>) {
        self.elsewhere.end(Whose::Service, thing);
    }

    fn set_scheduling(&mut self, boost: Option<Boost>) -> Result<(), String> {
        let text = |error: io::Error| error.to_string();
        let unboosted = match self.unboosted {
            Some(unboosted) => unboosted,
            None => *self.unboosted.insert(Scheduling::current().map_err(text)?),
        };
        let wanted = match boost {
            Some(Boost::Other(boost)) => Scheduling::other(boost),
            Some(Boost::Fifo(priority)) => Scheduling::fifo(priority),
            None => unboosted,
        };
        wanted.apply().map_err(text)
    }
}

/// The facts for a service of this process.
pub(crate) fn service_options() -> ServiceOptions {
    ServiceOptions {
        uid: rustix::process::geteuid().as_raw(),
        version: crate::VERSION.to_owned(),
        machine_name: machine_name(),
        system_info: system_info(),
        step_cost: None,
    }
}

/// What this machine is, for the packet of that name.
pub fn system_info() -> SystemInfo {
    let uname = rustix::system::uname();
    let text = |text: &std::ffi::CStr| Some(text.to_string_lossy().into_owned());
    let memory = rustix::system::sysinfo();
    SystemInfo {
        utsname: Some(Utsname {
            sysname: text(uname.sysname()),
            version: text(uname.version()),
            release: text(uname.release()),
            machine: text(uname.machine()),
        }),
        hz: i64::try_from(rustix::param::clock_ticks_per_second()).ok(),
        tracing_service_version: Some(crate::VERSION.to_owned()),
        page_size: u32::try_from(rustix::param::page_size()).ok(),
        num_cpus: Some(num_cpus()),
        timezone_off_mins: timezone_offset_minutes(),
        system_ram_bytes: Some((memory.totalram as u64).saturating_mul(memory.mem_unit.into())),
        device_tree_compatibles: fs::read(DEVICE_TREE).map_or_else(|_| Vec::new(), |list| split_list(&list)),
        ..Default::default()
    }
}

/// A list in the form of the device tree: each entry ends with a zero.
fn split_list(list: &[u8]) -> Vec<String> {
    let entries = list.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    entries.map(|entry| String::from_utf8_lossy(entry).into_owned()).collect()
}

/// Processors that are configured, online or not, as `sysconf(_SC_NPROCESSORS_CONF)` says.
fn num_cpus() -> u32 {
    let possible = fs::read_to_string("/sys/devices/system/cpu/present").ok();
    let counted = possible.as_deref().map(count_cpu_list).filter(|count| *count > 0);
    let available =
        || std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
    counted.unwrap_or_else(available)
}

/// Counts a list such as `0-3,8`.
fn count_cpu_list(list: &str) -> u32 {
    let count = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    list.trim().split(',').filter_map(count).fold(0, u32::saturating_add)
}

fn timezone_offset_minutes() -> Option<i32> {
    let zone = tz::TimeZone::local().ok()?;
    Some(zone.find_current_local_time_type().ok()?.ut_offset() / 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_counted() {
        for (list, count) in [("0-3\n", 4), ("0", 1), ("0-1,4-5,7", 5), ("", 0), ("x", 0), ("3-1", 0)] {
            assert_eq!(count_cpu_list(list), count, "{list:?}");
        }
    }

    #[test]
    fn device_tree_entries_are_told_apart() {
        assert_eq!(
            split_list(b"raspberrypi,4-model-b\0brcm,bcm2711\0"),
            ["raspberrypi,4-model-b", "brcm,bcm2711"]
        );
        assert_eq!(split_list(b""), [""; 0]);
    }

    #[test]
    fn clocks_run() {
        let (a, b) = (now().clocks, now().clocks);
        assert!(b.tsc >= a.tsc);
    }

    /// In a thread of its own: tests that run beside it keep their priority.
    #[test]
    fn a_boost_holds_until_it_is_taken_back() {
        std::thread::spawn(|| {
            let before = Scheduling::current().unwrap();
            let mut environment = SystemEnvironment::default();
            for (boost, expected) in
                [(Boost::Other(5), Scheduling::other(5)), (Boost::Other(7), Scheduling::other(7))]
            {
                match environment.set_scheduling(Some(boost)) {
                    Ok(()) => assert_eq!(Scheduling::current().unwrap(), expected),
                    Err(error) => println!("skipped: {boost:?} is not granted here: {error}"),
                }
            }
            environment.set_scheduling(None).unwrap();
            assert_eq!(Scheduling::current().unwrap(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn clocks_do_not_go_back() {
        let (a, b) = (now().clocks, now().clocks);
        assert!(a.boottime > 0 && b.boottime >= a.boottime);
        assert!(b.monotonic >= a.monotonic && a.realtime > a.boottime);
    }
}
