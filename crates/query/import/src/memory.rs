//! How much memory there is, and is used.
//!
//! What the process has in memory is asked of the kernel. Sums over what each rule holds would leave out what the allocator keeps between, and
//! what the next rule forgets to count; and it is by this number that a process is killed.

use std::fs;

/// Of a machine that does not say: what one of 4 GiB may use.
const DEFAULT_BYTES: u64 = 1 << 30;

/// Bytes of memory that an import may have if nobody says: a quarter of the machine's, or of what the control group may have.
#[must_use]
pub fn default_limit_bytes() -> u64 {
    let of_machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| mem_total_bytes(&text));
    let limit = |path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let of_group = limit("/sys/fs/cgroup/memory.max");
    of_machine.into_iter().chain(of_group).min().map_or(DEFAULT_BYTES, |bytes| bytes / 4)
}

/// Bytes of this process that are in memory; nothing where the kernel does not say.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    let pages = resident_pages(&fs::read_to_string("/proc/self/statm").ok()?)?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

/// `MemTotal:       24594036 kB`
fn mem_total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
}

/// The second number of the line.
fn resident_pages(statm: &str) -> Option<u64> {
    statm.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_numbers_are_read() {
        assert_eq!(mem_total_bytes("MemTotal:       24594036 kB\nMemFree: 1 kB\n"), Some(24_594_036 << 10));
        assert_eq!(mem_total_bytes("MemFree: 1 kB\n"), None);
        assert_eq!(resident_pages("4067 1223 900 5 0 300 0\n"), Some(1223));
        assert_eq!(resident_pages(""), None);
        assert!(resident_bytes().unwrap() > 100_000 && default_limit_bytes() > 1_000_000);
    }
}
