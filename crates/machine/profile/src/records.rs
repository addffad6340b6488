//! What the kernel's records say (perf_event_open(2); linux/perf_event.h, `enum perf_event_type`).
//!
//! The kernel makes them, but what it copies into them is the program's. What is shorter than it should be is no record; what is longer has
//! fields of later kernels.

use ferretto_unwind::Registers;

/// PERF_SAMPLE_*: what a sample says, in this order. The end of every other record says the same of thread, time and processor.
pub(crate) const SAMPLE_TYPE: u64 = TID | TIME | CPU | CALLCHAIN | REGS_USER | STACK_USER;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const CALLCHAIN: u64 = 1 << 5;
const CPU: u64 = 1 << 7;
const REGS_USER: u64 = 1 << 12;
const STACK_USER: u64 = 1 << 13;
/// Thread, time, processor.
const TRAILER_BYTES: usize = 24;

/// Registers that are asked for, by their numbers in asm/perf_regs.h; they come in the order of these.
#[cfg(target_arch = "aarch64")]
pub(crate) const USER_REGISTERS: u64 = 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32;
/// Registers that are asked for, by their numbers in asm/perf_regs.h; they come in the order of these.
#[cfg(not(target_arch = "aarch64"))]
pub(crate) const USER_REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8;

/// PERF_RECORD_*.
const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const MMAP2: u32 = 10;
const LOST_SAMPLES: u32 = 13;
const SWITCH: u32 = 14;
const SWITCH_CPU_WIDE: u32 = 15;

const HEADER_BYTES: usize = 8;
/// Addresses from here on are marks in a callchain: whose the ones behind it are.
const CONTEXT_MAX: u64 = (-4095i64).cast_unsigned();
const CONTEXT_KERNEL: u64 = (-128i64).cast_unsigned();
const MISC_CPU_MODE: u16 = 7;
const MISC_COMM_EXEC: u16 = 1 << 13;
const MISC_MMAP_BUILD_ID: u16 = 1 << 14;
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;
/// PROT_EXEC.
const EXECUTABLE: u32 = 4;
const MAX_BUILD_ID_BYTES: usize = 20;

/// Who, when, where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) time_ns: u64,
    pub(crate) cpu: u32,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    Sample(Sample<'a>),
    Map(Map<'a>),
    /// A thread has a name; and its process runs another program from now on, if that is why.
    Name {
        name: &'a [u8],
        is_exec: bool,
    },
    Fork {
        pid: u32,
        parent_pid: u32,
        parent_tid: u32,
    },
    /// A process has another thread.
    Thread {
        tid: u32,
        parent_tid: u32,
    },
    /// A thread has ended, and with its main one a process.
    Exit {
        pid: u32,
        tid: u32,
    },
    /// A thread runs again.
    SwitchedIn,
    /// A thread does not run any more.
    SwitchedOut {
        /// It does not wait: others had to have their turn.
        would_go_on: bool,
    },
    /// So many had no room.
    Lost(u64),
    /// What is of no use here.
    Other,
}

/// Where a thread was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample<'a> {
    /// `PerfSample.cpu_mode` has the same numbers (PERF_RECORD_MISC_CPUMODE_MASK).
    pub(crate) cpu_mode: u16,
    /// Addresses in the kernel, innermost first.
    pub(crate) kernel: Vec<u64>,
    /// Its own registers; a thread of the kernel has none.
    pub(crate) registers: Option<Registers>,
    /// Its stack.
    pub(crate) stack: &'a [u8],
}

/// Code is mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Map<'a> {
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) offset: u64,
    pub(crate) build_id: Option<&'a [u8]>,
    pub(crate) path: &'a [u8],
}

/// Bytes that are taken one field after the other.
struct Taken<'a>(&'a [u8]);

impl<'a> Taken<'a> {
    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.bytes(4)?.first_chunk()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(*self.bytes(8)?.first_chunk()?))
    }

    fn len(&mut self) -> Option<usize> {
        usize::try_from(self.u64()?).ok()
    }

    /// Up to the zero.
    fn text(self) -> &'a [u8] {
        self.0.split(|byte| *byte == 0).next().unwrap_or_default()
    }
}

/// The records that stand one behind the other.
pub(crate) fn split(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let size = u16::from_ne_bytes(*rest.get(6..)?.first_chunk()?);
        let (record, behind) = rest.split_at_checked(usize::from(size).max(HEADER_BYTES))?;
        rest = behind;
        Some(record)
    })
}

/// What a record says; nothing of one that is too short.
pub(crate) fn read(record: &[u8]) -> Option<(Stamp, Record<'_>)> {
    let mut head = Taken(record.get(..HEADER_BYTES)?);
    let kind = head.u32()?;
    let misc = u16::from_ne_bytes(*head.bytes(2)?.first_chunk()?);
    let body = record.get(HEADER_BYTES..)?;
    if kind == SAMPLE {
        return sample(misc, Taken(body));
    }
    let stamp = stamp_of(record)?;
    let mut body = Taken(body.get(..body.len().checked_sub(TRAILER_BYTES)?)?);
    let record = match kind {
        COMM => {
            body.bytes(8)?;
            Record::Name { name: body.text(), is_exec: misc & MISC_COMM_EXEC != 0 }
        }
        FORK | EXIT => {
            let (pid, parent_pid, tid, parent_tid) = (body.u32()?, body.u32()?, body.u32()?, body.u32()?);
            match kind {
                FORK if pid != parent_pid => Record::Fork { pid, parent_pid, parent_tid },
                FORK => Record::Thread { tid, parent_tid },
                _ => Record::Exit { pid, tid },
            }
        }
        LOST => {
            body.u64()?;
            Record::Lost(body.u64()?)
        }
        LOST_SAMPLES => Record::Lost(body.u64()?),
        MMAP2 => map(misc, body)?,
        SWITCH | SWITCH_CPU_WIDE if misc & MISC_SWITCH_OUT == 0 => Record::SwitchedIn,
        SWITCH | SWITCH_CPU_WIDE => Record::SwitchedOut { would_go_on: misc & MISC_SWITCH_OUT_PREEMPT != 0 },
        _ => Record::Other,
    };
    Some((stamp, record))
}

pub(crate) fn is_sample(record: &[u8]) -> bool {
    Taken(record).u32() == Some(SAMPLE)
}

/// Whose a record is, and of when: without reading the rest of it.
pub(crate) fn stamp_of(record: &[u8]) -> Option<Stamp> {
    let body = record.get(HEADER_BYTES..)?;
    let at = if is_sample(record) { 0 } else { body.len().checked_sub(TRAILER_BYTES)? };
    stamp(&mut Taken(body.get(at..)?))
}

fn stamp(from: &mut Taken<'_>) -> Option<Stamp> {
    let (pid, tid, time_ns, cpu) = (from.u32()?, from.u32()?, from.u64()?, from.u32()?);
    from.u32()?;
    Some(Stamp { pid, tid, time_ns, cpu })
}

fn sample(misc: u16, mut body: Taken<'_>) -> Option<(Stamp, Record<'_>)> {
    let stamp = stamp(&mut body)?;
    let kernel = kernel_chain(body.len()?, &mut body)?;
    let registers = registers(&mut body)?;
    let copied = body.len()?;
    let stack = body.bytes(copied)?;
    // How much of it is the stack's: the copy may be shorter than what was asked for, but takes as much room.
    let filled = if copied > 0 { body.len()? } else { 0 };
    let stack = stack.get(..filled.min(copied)).unwrap_or_default();
    Some((stamp, Record::Sample(Sample { cpu_mode: misc & MISC_CPU_MODE, kernel, registers, stack })))
}

/// Of a callchain the addresses that are the kernel's.
fn kernel_chain(len: usize, body: &mut Taken<'_>) -> Option<Vec<u64>> {
    let chain = body.bytes(len.checked_mul(size_of::<u64>())?)?;
    let mut is_kernel = false;
    let addresses = chain.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).filter(|address| {
        let is_mark = *address >= CONTEXT_MAX;
        if is_mark {
            is_kernel = *address == CONTEXT_KERNEL;
        }
        !is_mark && is_kernel
    });
    Some(addresses.collect())
}

/// The inner nothing is of a thread that has none.
#[expect(clippy::option_option, reason = "a record that is too short is no record")]
fn registers(body: &mut Taken<'_>) -> Option<Option<Registers>> {
    /// PERF_SAMPLE_REGS_ABI_64: of others the registers are another program's than this one can unwind.
    const ABI_64: u64 = 2;
    let abi = body.u64()?;
    if abi == 0 {
        return Some(None);
    }
    let mut next = || body.u64();
    #[cfg(target_arch = "aarch64")]
    let registers = {
        let (fp, lr, sp, pc) = (next()?, next()?, next()?, next()?);
        Registers { pc, sp, fp, lr }
    };
    #[cfg(not(target_arch = "aarch64"))]
    let registers = {
        let (fp, sp, pc) = (next()?, next()?, next()?);
        Registers { pc, sp, fp, lr: 0 }
    };
    Some((abi == ABI_64).then_some(registers))
}

fn map(misc: u16, mut body: Taken<'_>) -> Option<Record<'_>> {
    body.bytes(8)?;
    let (start, len, offset) = (body.u64()?, body.u64()?, body.u64()?);
    // Its build id with its length, or its device and inode.
    let about = body.bytes(24)?;
    let (protection, _flags) = (body.u32()?, body.u32()?);
    if protection & EXECUTABLE == 0 {
        return Some(Record::Other);
    }
    let has_build_id = misc & MISC_MMAP_BUILD_ID != 0;
    let id_len = about.first().map_or(0, |len| usize::from(*len)).min(MAX_BUILD_ID_BYTES);
    let build_id = about.get(4..4 + id_len).filter(|id| has_build_id && !id.is_empty());
    Some(Record::Map(Map { start, len, offset, build_id, path: body.text() }))
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) const STAMP: Stamp = Stamp { pid: 7, tid: 8, time_ns: 900, cpu: 1 };

    fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(misc.to_ne_bytes());
        bytes.extend(((body.len() + HEADER_BYTES) as u16).to_ne_bytes());
        bytes.extend(body);
        bytes
    }

    fn stamped(body: &[u64]) -> Vec<u8> {
        let trailer = [7 | 8 << 32, 900, 1];
        body.iter().chain(&trailer).flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn each_kind_says_what_it_says() {
        let pair = |low: u64, high: u64| low | high << 32;
        let name = u64::from_ne_bytes(*b"make\0\0\0\0");
        for (kind, misc, body, expected) in [
            (7, 0, vec![pair(9, 7), pair(9, 8), 900], Record::Fork { pid: 9, parent_pid: 7, parent_tid: 8 }),
            (7, 0, vec![pair(7, 7), pair(9, 8), 900], Record::Thread { tid: 9, parent_tid: 8 }),
            (4, 0, vec![pair(7, 1), pair(7, 1), 900], Record::Exit { pid: 7, tid: 7 }),
            (4, 0, vec![pair(7, 1), pair(8, 1), 900], Record::Exit { pid: 7, tid: 8 }),
            (14, 0, vec![], Record::SwitchedIn),
            (14, MISC_SWITCH_OUT, vec![], Record::SwitchedOut { would_go_on: false }),
            (
                15,
                MISC_SWITCH_OUT | MISC_SWITCH_OUT_PREEMPT,
                vec![pair(0, 0)],
                Record::SwitchedOut { would_go_on: true },
            ),
            (3, 0, vec![pair(7, 8), name], Record::Name { name: b"make", is_exec: false }),
            (3, MISC_COMM_EXEC, vec![pair(7, 8), name], Record::Name { name: b"make", is_exec: true }),
            (2, 0, vec![1, 33], Record::Lost(33)),
            (13, 0, vec![44], Record::Lost(44)),
            (99, 0, vec![], Record::Other),
        ] {
            let record = record(kind, misc, &stamped(&body));
            assert_eq!(read(&record), Some((STAMP, expected)), "kind {kind}");
        }
    }

    #[test]
    fn code_is_mapped_with_its_build_id_if_the_kernel_knows_it() {
        let (path, id) = (u64::from_ne_bytes(*b"/bin/ls\0"), u64::from_ne_bytes([20, 0, 0, 0, 1, 2, 3, 4]));
        let body = |protection: u64| stamped(&[0, 0x1000, 0x2000, 0x3000, id, 0, 0, protection, path]);
        let mapped = |build_id| {
            Record::Map(Map { start: 0x1000, len: 0x2000, offset: 0x3000, build_id, path: b"/bin/ls" })
        };
        let id = [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let with = record(10, MISC_MMAP_BUILD_ID, &body(5));
        assert_eq!(read(&with), Some((STAMP, mapped(Some(&id[..])))));
        assert_eq!(read(&record(10, 0, &body(5))), Some((STAMP, mapped(None))));
        assert_eq!(read(&record(10, 0, &body(1))), Some((STAMP, Record::Other)), "it is no code");
    }

    /// One of a thread that was in the kernel.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn sampled(stack: &[u64]) -> Vec<u8> {
        let mut words =
            vec![7 | 8 << 32, 900, 1, 5, CONTEXT_KERNEL, 0xffff_8000_0000_0010, 0xffff_8000_0000_0020];
        words.extend([(-512i64).cast_unsigned(), 0x1234, 2, 30, 20, 10, stack.len() as u64 * 8 + 16]);
        words.extend(stack.iter().chain(&[1, 1, stack.len() as u64 * 8]));
        record(9, 1, &words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>())
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_sample_is_the_kernels_part_and_what_to_unwind() {
        let bytes = sampled(&[3, 4]);
        let Some((STAMP, Record::Sample(sample))) = read(&bytes) else { panic!("no sample") };
        assert_eq!(
            (sample.cpu_mode, sample.kernel.as_slice()),
            (1, &[0xffff_8000_0000_0010, 0xffff_8000_0000_0020][..])
        );
        assert_eq!(sample.registers, Some(Registers { pc: 10, sp: 20, fp: 30, lr: 0 }));
        assert_eq!(sample.stack, [3u64, 4].map(u64::to_ne_bytes).as_flattened());
    }

    proptest! {
        #[test]
        fn whatever_the_bytes_are_each_is_in_one_record_at_most(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0), Just(9)], 0..300)
        ) {
            let all: usize = split(&bytes).map(|record| { let _ = read(record); record.len() }).sum();
            prop_assert!(all <= bytes.len());
        }
    }
}
