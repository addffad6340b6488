//! How much memory there is, and is used.
//!
//! What the process has in memory is asked of the kernel. Sums over what each rule holds would leave out what the allocator keeps between, and
//! what the next rule forgets to count; and it is by this number that a process is killed.

use std::fs;
use std::sync::Arc;

use ferretto_trace_tables::Store;

use crate::Error;
use crate::block_file::BlockFile;

/// Of a machine that does not say: what one of 4 GiB may use.
const DEFAULT_BYTES: u64 = 1 << 30;

/// Of the bound: beyond it memory is short. What is read further needs room, and what was freed is not all given back.
const SHORT_PARTS: (u64, u64) = (1, 2);

/// The bound on memory, and where what is beyond it lies.
#[derive(Debug)]
pub(crate) struct Bound {
    limit_bytes: u64,
    store: Option<Arc<dyn Store>>,
    /// There is no place for a file.
    is_without: bool,
}

impl Bound {
    pub(crate) fn new(limit_bytes: u64) -> Self {
        Self { limit_bytes, store: None, is_without: false }
    }

    /// Bytes that the process may have.
    pub(crate) fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Looks how much memory is used. Says where things are to lie if it is short.
    pub(crate) fn look(&mut self) -> Result<Option<&Arc<dyn Store>>, Error> {
        // There is none: the kernel need not be asked.
        if self.limit_bytes == u64::MAX {
            return Ok(None);
        }
        let resident = resident_bytes().unwrap_or(0);
        if resident > self.limit_bytes {
            return Err(Error::Memory { limit_bytes: self.limit_bytes });
        }
        let (part, parts) = SHORT_PARTS;
        if resident <= self.limit_bytes / parts * part {
            return Ok(None);
        }
        if self.store.is_none() && !self.is_without {
            match BlockFile::temporary() {
                Ok(file) => self.store = Some(Arc::new(file)),
                // Perhaps memory is enough.
                Err(_) => self.is_without = true,
            }
        }
        Ok(self.store.as_ref())
    }
}

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
