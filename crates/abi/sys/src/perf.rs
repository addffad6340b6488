//! Events of perf_event_open(2), and the memory through which the kernel hands over their records.

use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

/// Places in `struct perf_event_mmap_page` (linux/perf_event.h): how far the kernel has written, and how far this side has read.
const HEAD_OFFSET: usize = 1024;
const TAIL_OFFSET: usize = 1032;
/// `struct perf_event_header`: type (u32), misc (u16), size (u16) with the header.
const HEADER_BYTES: usize = 8;
const SIZE_OFFSET: usize = 6;
/// PERF_FLAG_FD_CLOEXEC.
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
/// PERF_FLAG_PID_CGROUP: the number is that of a folder.
const OF_A_GROUP: libc::c_ulong = 1 << 2;
/// PERF_EVENT_IOC_ENABLE and _DISABLE: `_IO('$', 0)` and `_IO('$', 1)`.
const ENABLE: libc::c_ulong = 0x2400;
const DISABLE: libc::c_ulong = 0x2401;
/// PERF_EVENT_IOC_SET_OUTPUT and _SET_FILTER: `_IO('$', 5)` and `_IOW('$', 6, char *)`.
const SET_OUTPUT: libc::c_ulong = 0x2405;
const SET_FILTER: libc::c_ulong = 0x4000_2406 | (size_of::<*const c_char>() as libc::c_ulong) << 16;

/// What an event is to be: `struct perf_event_attr`, as Linux 6.3 has it (PERF_ATTR_SIZE_VER8). A kernel that knows less refuses what it does not
/// know only if it is asked for. `size` is filled in. The meaning of the fields is in perf_event_open(2).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "perf_event_open(2) says it, under the same names")]
pub struct PerfAttr {
    pub kind: u32,
    pub size: u32,
    pub config: u64,
    pub sample_period_or_freq: u64,
    pub sample_type: u64,
    pub read_format: u64,
    /// Bits of [`perf_flags`].
    pub flags: u64,
    pub wakeup_events_or_watermark: u32,
    pub bp_type: u32,
    pub config1: u64,
    pub config2: u64,
    pub branch_sample_type: u64,
    pub sample_regs_user: u64,
    pub sample_stack_user: u32,
    pub clockid: i32,
    pub sample_regs_intr: u64,
    pub aux_watermark: u32,
    pub sample_max_stack: u16,
    pub reserved_2: u16,
    pub aux_sample_size: u32,
    pub reserved_3: u32,
    pub sig_data: u64,
    pub config3: u64,
}

/// Bits of [`PerfAttr::flags`], in the order of the bit fields of `struct perf_event_attr`.
#[allow(missing_docs, reason = "perf_event_open(2) says it, under the same names")]
pub mod perf_flags {
    pub const DISABLED: u64 = 1;
    pub const INHERIT: u64 = 1 << 1;
    pub const EXCLUDE_USER: u64 = 1 << 4;
    pub const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub const EXCLUDE_HV: u64 = 1 << 6;
    pub const EXCLUDE_IDLE: u64 = 1 << 7;
    pub const MMAP: u64 = 1 << 8;
    pub const COMM: u64 = 1 << 9;
    pub const FREQ: u64 = 1 << 10;
    pub const ENABLE_ON_EXEC: u64 = 1 << 12;
    pub const TASK: u64 = 1 << 13;
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub const EXCLUDE_CALLCHAIN_KERNEL: u64 = 1 << 21;
    pub const EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;
    pub const MMAP2: u64 = 1 << 23;
    pub const COMM_EXEC: u64 = 1 << 24;
    pub const USE_CLOCKID: u64 = 1 << 25;
    pub const CONTEXT_SWITCH: u64 = 1 << 26;
    pub const BUILD_ID: u64 = 1 << 34;
}

/// Whom an event of a processor counts.
#[derive(Clone, Copy, Debug)]
pub enum PerfScope<'a> {
    /// A thread; 0 is the caller's.
    Thread(i32),
    /// Whoever runs.
    All,
    /// Whoever of this control group runs: the folder of one of the hierarchy that has the controller `perf_event`.
    Group(BorrowedFd<'a>),
}

/// An event of one processor, with its ring; for several threads, if they are [added](PerfEvent::add).
#[derive(Debug)]
pub struct PerfEvent {
    event: OwnedFd,
    /// Those of further threads, with the same ring.
    others: Vec<OwnedFd>,
    cpu: u32,
    ring: MmapRaw,
    /// Bytes of records that the ring holds: a power of two.
    ring_bytes: usize,
    /// Up to where this side has read.
    tail: u64,
}

impl PerfEvent {
    /// Opens an event for somebody on a processor. Its ring holds so many bytes of records: a power of two
    /// of pages.
    ///
    /// # Errors
    ///
    /// If the kernel has no such event, or this user must not have it, or not so much memory for its ring (EPERM; see `perf_event_mlock_kb`).
    pub fn open(attr: &PerfAttr, scope: PerfScope<'_>, cpu: u32, ring_bytes: usize) -> io::Result<Self> {
        let event = open(attr, scope, cpu)?;
        let page = rustix::param::page_size();
        let ring = MmapOptions::new().len(page + ring_bytes).map_raw(&event)?;
        Ok(Self { event, others: Vec::new(), cpu, ring, ring_bytes, tail: 0 })
    }

    /// Opens the same event for another thread. Its records come into this one's ring, too.
    ///
    /// # Errors
    ///
    /// If the kernel refuses it (a thread that has ended: ESRCH).
    pub fn add(&mut self, attr: &PerfAttr, thread: i32) -> io::Result<()> {
        let event = open(attr, PerfScope::Thread(thread), self.cpu)?;
        // SAFETY: the request takes the number of a descriptor and touches no memory of this process.
        // JUSTIFICATION: neither std nor rustix has it.
        match unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT as _, self.event.as_raw_fd()) } {
            0 => self.others.push(event),
            _ => return Err(io::Error::last_os_error()),
        }
        Ok(())
    }

    /// Of a tracepoint only those that this says, in the kernel's words (Documentation/trace/events.rst).
    ///
    /// # Errors
    ///
    /// If the kernel does not understand it.
    pub fn filter(&self, filter: &CStr) -> io::Result<()> {
        for event in self.events() {
            // SAFETY: the request reads a text with a zero at its end, and keeps nothing of it.
            // JUSTIFICATION: neither std nor rustix has it.
            if unsafe { libc::ioctl(event.as_raw_fd(), SET_FILTER as _, filter.as_ptr()) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    fn events(&self) -> impl Iterator<Item = &OwnedFd> {
        std::iter::once(&self.event).chain(&self.others)
    }

    /// Lets it count and sample.
    ///
    /// # Errors
    ///
    /// If the kernel refuses it.
    pub fn enable(&self) -> io::Result<()> {
        self.control(ENABLE)
    }

    /// Lets it be.
    ///
    /// # Errors
    ///
    /// If the kernel refuses it.
    pub fn disable(&self) -> io::Result<()> {
        self.control(DISABLE)
    }

    fn control(&self, request: libc::c_ulong) -> io::Result<()> {
        for event in self.events() {
            // SAFETY: these requests take a number and touch no memory of this process.
            // JUSTIFICATION: neither std nor rustix has it.
            if unsafe { libc::ioctl(event.as_raw_fd(), request as _, 0) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    /// Appends whole records that the kernel has written, in their order, until there are no more or `to` has `max_bytes`; makes their room in the ring
    /// free.
    ///
    /// # Errors
    ///
    /// If what stands there is no record: then all that is there is given up. Only this process can have written it.
    pub fn read(&mut self, to: &mut Vec<u8>, max_bytes: usize) -> io::Result<()> {
        let head = self.place(HEAD_OFFSET).load(Ordering::Acquire);
        let mut result = Ok(());
        while self.tail != head && to.len() < max_bytes {
            let waiting = head.wrapping_sub(self.tail);
            let mut header = [0; HEADER_BYTES];
            self.copy(self.tail, &mut header);
            let size = u64::from(u16::from_ne_bytes([header[SIZE_OFFSET], header[SIZE_OFFSET + 1]]));
            if size < HEADER_BYTES as u64 || size > waiting || waiting > self.ring_bytes as u64 {
                self.tail = head;
                result = Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the kernel's ring has no record where one should be",
                ));
                break;
            }
            let start = to.len();
            to.resize(start + size as usize, 0);
            self.copy(self.tail, to.get_mut(start..).unwrap_or_default());
            self.tail = self.tail.wrapping_add(size);
        }
        self.place(TAIL_OFFSET).store(self.tail, Ordering::Release);
        result
    }

    /// Copies bytes of the ring, from this place on.
    fn copy(&self, at: u64, to: &mut [u8]) {
        let at = (at & (self.ring_bytes as u64 - 1)) as usize;
        let len = to.len().min(self.ring_bytes);
        let first = len.min(self.ring_bytes - at);
        let ring = self.ring.as_ptr().wrapping_add(rustix::param::page_size());
        // SAFETY: `at + first` and `len - first` are within the ring, which is mapped behind the first page, and `len` is within `to`, which the kernel
        // does not know. Between the tail and the head, where this reads, the kernel does not write before the tail goes on.
        // JUSTIFICATION: what another party writes must not be looked at through a slice.
        unsafe {
            std::ptr::copy_nonoverlapping(ring.add(at), to.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(ring, to.as_mut_ptr().add(first), len - first);
        }
    }

    fn place(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the place is in the first page, which is mapped as long as `self` lives, and a multiple of 8. The kernel reads and writes it as a whole.
        // JUSTIFICATION: head and tail are shared with the kernel.
        unsafe { AtomicU64::from_ptr(self.ring.as_mut_ptr().add(offset).cast()) }
    }
}

fn open(attr: &PerfAttr, scope: PerfScope<'_>, cpu: u32) -> io::Result<OwnedFd> {
    let attr = PerfAttr { size: size_of::<PerfAttr>() as u32, ..*attr };
    let (any_group, cpu) = (-1, c_int::try_from(cpu).map_err(|_| io::ErrorKind::InvalidInput)?);
    let (whose, flags) = match scope {
        PerfScope::Thread(thread) => (thread, CLOSE_ON_EXEC),
        PerfScope::All => (-1, CLOSE_ON_EXEC),
        PerfScope::Group(folder) => (folder.as_raw_fd(), CLOSE_ON_EXEC | OF_A_GROUP),
    };
    // SAFETY: the kernel reads `size` bytes at the address, which are those of `attr`, and keeps nothing of it.
    // JUSTIFICATION: neither std nor rustix has this call.
    let fd =
        unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attr, whose, cpu, any_group, flags) };
    let fd = c_int::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the descriptor is new, so it is nobody else's.
    // JUSTIFICATION: there is no other way from a number to what owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK.
    const SOFTWARE: u32 = 1;
    const TASK_CLOCK: u64 = 1;
    /// PERF_SAMPLE_TID, PERF_SAMPLE_TIME.
    const TID_AND_TIME: u64 = 1 << 1 | 1 << 2;
    const SAMPLE: u32 = 9;
    const RING_BYTES: usize = 4096;

    #[test]
    fn records_come_whole_however_often_the_ring_goes_round() {
        let attr = PerfAttr {
            kind: SOFTWARE,
            config: TASK_CLOCK,
            sample_period_or_freq: 20_000,
            sample_type: TID_AND_TIME,
            flags: perf_flags::DISABLED | perf_flags::EXCLUDE_KERNEL | perf_flags::EXCLUDE_HV,
            ..PerfAttr::default()
        };
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
        let events = (0..cpus)
            .map(|cpu| PerfEvent::open(&attr, PerfScope::Thread(0), cpu, RING_BYTES))
            .collect::<io::Result<Vec<_>>>();
        let mut events = match events {
            Ok(events) => events,
            Err(error) => return eprintln!("skipped: this user cannot have perf events here: {error}"),
        };
        events.iter().for_each(|event| event.enable().unwrap());
        let (mut all, until) = (Vec::new(), std::time::Instant::now() + std::time::Duration::from_secs(20));
        // Three rings full at least.
        while all.len() < 3 * RING_BYTES && std::time::Instant::now() < until {
            events.iter_mut().for_each(|event| event.read(&mut all, usize::MAX).unwrap());
        }
        events.iter().for_each(|event| event.disable().unwrap());
        let mut rest = all.as_slice();
        let mut samples = 0;
        while !rest.is_empty() {
            let kind = u32::from_ne_bytes(*rest.first_chunk().unwrap());
            let size = usize::from(u16::from_ne_bytes(*rest[SIZE_OFFSET..].first_chunk().unwrap()));
            if kind == SAMPLE {
                samples += 1;
                assert_eq!(
                    u32::from_ne_bytes(*rest[HEADER_BYTES..].first_chunk().unwrap()),
                    std::process::id()
                );
            }
            rest = &rest[size..];
        }
        assert!(samples > 100, "{samples} samples");
    }
}
