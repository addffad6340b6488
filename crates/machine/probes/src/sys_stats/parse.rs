//! The files of /proc that describe the whole system, as bytes, each written into a `SysStats` message.

use std::collections::HashMap;

use ferretto_protos::fields::sys_stats as field;
use ferretto_protos::{MeminfoCounters, VmstatCounters};
use ferretto_protozero::{Message, Sink};

use crate::proc_fs::{leading_u64, lines, words};

/// Counters of a file by the kernel's names.
pub(crate) type Counters = HashMap<Vec<u8>, u64>;

/// The names of /proc/meminfo, where they cannot be derived from the schema's (upstream: sys_stats_counters.h).
const MEMINFO_NAMES: [(&str, MeminfoCounters); 38] = {
    use MeminfoCounters::*;
    [
        ("MemTotal", MeminfoMemTotal),
        ("MemFree", MeminfoMemFree),
        ("MemAvailable", MeminfoMemAvailable),
        ("Buffers", MeminfoBuffers),
        ("Cached", MeminfoCached),
        ("SwapCached", MeminfoSwapCached),
        ("Active", MeminfoActive),
        ("Inactive", MeminfoInactive),
        ("Active(anon)", MeminfoActiveAnon),
        ("Inactive(anon)", MeminfoInactiveAnon),
        ("Active(file)", MeminfoActiveFile),
        ("Inactive(file)", MeminfoInactiveFile),
        ("Unevictable", MeminfoUnevictable),
        ("Mlocked", MeminfoMlocked),
        ("SwapTotal", MeminfoSwapTotal),
        ("SwapFree", MeminfoSwapFree),
        ("Dirty", MeminfoDirty),
        ("Writeback", MeminfoWriteback),
        ("AnonPages", MeminfoAnonPages),
        ("Mapped", MeminfoMapped),
        ("Shmem", MeminfoShmem),
        ("Slab", MeminfoSlab),
        ("SReclaimable", MeminfoSlabReclaimable),
        ("SUnreclaim", MeminfoSlabUnreclaimable),
        ("KernelStack", MeminfoKernelStack),
        ("PageTables", MeminfoPageTables),
        ("CommitLimit", MeminfoCommitLimit),
        ("Committed_AS", MeminfoCommitedAs),
        ("VmallocTotal", MeminfoVmallocTotal),
        ("VmallocUsed", MeminfoVmallocUsed),
        ("VmallocChunk", MeminfoVmallocChunk),
        ("CmaTotal", MeminfoCmaTotal),
        ("CmaFree", MeminfoCmaFree),
        ("Gpu", MeminfoGpu),
        ("Zram", MeminfoZram),
        ("Misc", MeminfoMisc),
        ("ION_heap", MeminfoIonHeap),
        ("ION_heap_pool", MeminfoIonHeapPool),
    ]
};

/// The last number of `VmstatCounters` that is tried.
const MAX_VMSTAT: i32 = 1024;

/// The counters of /proc/meminfo that a config asks for: all of them if it names none.
pub(crate) fn meminfo_counters(wanted: &[i32]) -> Counters {
    let known = MEMINFO_NAMES.iter().map(|(name, id)| (name.as_bytes().to_vec(), *id as i32));
    known
        .filter(|(_, id)| wanted.is_empty() || wanted.contains(id))
        .map(|(name, id)| (name, id as u64))
        .collect()
}

/// The counters of /proc/vmstat that a config asks for. Their names are the schema's in lower case.
pub(crate) fn vmstat_counters(wanted: &[i32]) -> Counters {
    (1..MAX_VMSTAT)
        .filter(|id| wanted.is_empty() || wanted.contains(id))
        .filter_map(|id| {
            let name = VmstatCounters::try_from(id).ok()?.as_str_name().strip_prefix("VMSTAT_")?;
            Some((name.to_ascii_lowercase().into_bytes(), id as u64))
        })
        .collect()
}

/// `MemTotal:       24676400 kB`.
pub(crate) fn meminfo<S: Sink>(text: &[u8], wanted: &Counters, out: &mut Message<'_, S>) {
    key_values(text, wanted, field::MEMINFO, out);
}

/// `nr_free_pages 12345`.
pub(crate) fn vmstat<S: Sink>(text: &[u8], wanted: &Counters, out: &mut Message<'_, S>) {
    key_values(text, wanted, field::VMSTAT, out);
}

fn key_values<S: Sink>(text: &[u8], wanted: &Counters, number: u32, out: &mut Message<'_, S>) {
    for line in lines(text) {
        let mut words = words(line);
        let (Some(name), Some(value)) = (words.next(), words.next()) else { continue };
        let name = name.strip_suffix(b":").unwrap_or(name);
        let (Some(&key), Some(value)) = (wanted.get(name), leading_u64(value)) else { continue };
        let mut entry = out.nested(number);
        entry.varint(field::meminfo_value::KEY, key);
        entry.varint(field::meminfo_value::VALUE, value);
    }
}

/// Which parts of /proc/stat a config asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatParts {
    pub(crate) cpu_times: bool,
    pub(crate) irq_counts: bool,
    pub(crate) softirq_counts: bool,
    pub(crate) fork_count: bool,
}

/// The columns of a `cpu` line, in order.
const CPU_TIMES: [u32; 8] = {
    use field::cpu_times as f;
    [
        f::USER_NS,
        f::USER_NICE_NS,
        f::SYSTEM_MODE_NS,
        f::IDLE_NS,
        f::IO_WAIT_NS,
        f::IRQ_NS,
        f::SOFTIRQ_NS,
        f::STEAL_NS,
    ]
};

/// /proc/stat.
pub(crate) fn stat<S: Sink>(text: &[u8], parts: StatParts, ns_per_tick: u64, out: &mut Message<'_, S>) {
    for line in lines(text) {
        let mut values = words(line);
        let Some(name) = values.next() else { continue };
        match name {
            b"intr" if parts.irq_counts => {
                interrupts(values, field::NUM_IRQ_TOTAL, field::NUM_IRQ, false, out)
            }
            b"softirq" if parts.softirq_counts => {
                interrupts(values, field::NUM_SOFTIRQ_TOTAL, field::NUM_SOFTIRQ, true, out)
            }
            b"processes" if parts.fork_count => {
                if let Some(forks) = values.next().and_then(leading_u64) {
                    out.varint(field::NUM_FORKS, forks);
                }
            }
            // `cpu0`; the line `cpu` is the sum of the others.
            _ if parts.cpu_times => {
                let Some(cpu) = name.strip_prefix(b"cpu").and_then(leading_u64) else { continue };
                let mut times = out.nested(field::CPU_STAT);
                times.varint(field::cpu_times::CPU_ID, cpu);
                for (number, ticks) in CPU_TIMES.iter().zip(values) {
                    times.varint(*number, leading_u64(ticks).unwrap_or(0).wrapping_mul(ns_per_tick));
                }
            }
            _ => {}
        }
    }
}

/// `intr TOTAL COUNT COUNT…`: those that never came are left out unless `with_zeroes`.
fn interrupts<'a, S: Sink>(
    values: impl Iterator<Item = &'a [u8]>,
    total: u32,
    each: u32,
    with_zeroes: bool,
    out: &mut Message<'_, S>,
) {
    for (index, value) in values.enumerate() {
        let count = leading_u64(value).unwrap_or(0);
        match index.checked_sub(1) {
            None => out.varint(total, count),
            Some(_) if count == 0 && !with_zeroes => {}
            Some(irq) => {
                let mut entry = out.nested(each);
                entry.varint(field::interrupt_count::IRQ, irq as u64);
                entry.varint(field::interrupt_count::COUNT, count);
            }
        }
    }
}

/// `Node 0, zone   Normal   1 2 3 …`.
pub(crate) fn buddyinfo<S: Sink>(text: &[u8], out: &mut Message<'_, S>) {
    for line in lines(text) {
        let mut words = words(line).skip(1);
        let (Some(node), Some(zone)) = (words.next(), words.nth(1)) else { continue };
        let mut entry = out.nested(field::BUDDY_INFO);
        entry.bytes(field::buddy_info::NODE, node.strip_suffix(b",").unwrap_or(node));
        entry.bytes(field::buddy_info::ZONE, zone);
        for pages in words {
            entry.varint(field::buddy_info::ORDER_PAGES, leading_u64(pages).unwrap_or(0));
        }
    }
}

/// Columns of /proc/diskstats, counted from 0 (Documentation/admin-guide/iostats.rst).
const DISK_COLUMNS: [(usize, u32); 8] = {
    use field::disk_stat as f;
    [
        (5, f::READ_SECTORS),
        (6, f::READ_TIME_MS),
        (9, f::WRITE_SECTORS),
        (10, f::WRITE_TIME_MS),
        (16, f::DISCARD_SECTORS),
        (17, f::DISCARD_TIME_MS),
        (18, f::FLUSH_COUNT),
        (19, f::FLUSH_TIME_MS),
    ]
};

/// /proc/diskstats. Old kernels have fewer columns.
pub(crate) fn diskstats<S: Sink>(text: &[u8], out: &mut Message<'_, S>) {
    for line in lines(text) {
        let Some(name) = words(line).nth(2) else { continue };
        let mut entry = out.nested(field::DISK_STAT);
        entry.bytes(field::disk_stat::DEVICE_NAME, name);
        for (index, value) in words(line).enumerate() {
            if let Some((_, number)) = DISK_COLUMNS.iter().find(|(column, _)| *column == index) {
                entry.varint(*number, leading_u64(value).unwrap_or(0));
            }
        }
    }
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=123` of /proc/pressure/RESOURCE.
pub(crate) fn pressure<S: Sink>(text: &[u8], some: u64, full: u64, out: &mut Message<'_, S>) {
    for line in lines(text) {
        let mut words = words(line);
        let resource = match words.next() {
            Some(b"some") => some,
            Some(b"full") => full,
            _ => continue,
        };
        let Some(total_us) = words.find_map(|word| leading_u64(word.strip_prefix(b"total=")?)) else {
            continue;
        };
        let mut sample = out.nested(field::PSI);
        sample.varint(field::psi_sample::RESOURCE, resource);
        sample.varint(field::psi_sample::TOTAL_NS, total_us.wrapping_mul(1000));
    }
}

/// /proc/slabinfo: two lines of headings, then `name active objects size per-slab pages : tunables a b c : slabdata active total shared`.
pub(crate) fn slabinfo<S: Sink>(text: &[u8], out: &mut Message<'_, S>) {
    for line in lines(text).skip(2) {
        let mut words = words(line);
        let Some(name) = words.next() else { continue };
        let (pages_per_slab, slabs) = (words.nth(4), words.nth(8));
        let mut entry = out.nested(field::SLAB_INFO);
        entry.bytes(field::slab_info::NAME, name);
        if let Some(pages) = pages_per_slab.and_then(leading_u64) {
            entry.varint(field::slab_info::PAGES_PER_SLAB, pages);
        }
        if let Some(slabs) = slabs.and_then(leading_u64) {
            entry.varint(field::slab_info::NUM_SLABS, slabs);
        }
    }
}

/// The clock in use of AMD's `pp_dpm_sclk`: the line that ends in an asterisk, `1: 1500Mhz *`.
pub(crate) fn amd_gpu_mhz(text: &[u8]) -> Option<u64> {
    let line = lines(text).find(|line| line.trim_ascii_end().ends_with(b"*"))?;
    words(line).find(|word| word.ends_with(b"Mhz")).and_then(leading_u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferretto_protos::SysStats;
    use prost::Message as _;

    fn parse(write: impl FnOnce(&mut Message<'_, Vec<u8>>)) -> SysStats {
        let mut bytes = Vec::new();
        write(&mut Message::new(&mut bytes));
        SysStats::decode(bytes.as_slice()).unwrap()
    }

    fn file(name: &str) -> Vec<u8> {
        std::fs::read(format!("{}/tests/data/proc/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    #[test]
    fn every_counter_of_the_schema_has_a_kernel_name() {
        assert_eq!(meminfo_counters(&[]).len(), 38);
        assert!(vmstat_counters(&[]).len() > 150);
        assert_eq!(
            vmstat_counters(&[VmstatCounters::VmstatPgfault as i32]).keys().collect::<Vec<_>>(),
            [b"pgfault"]
        );
        assert!(meminfo_counters(&[9999]).is_empty());
    }

    #[test]
    fn meminfo_and_vmstat_give_the_counters_asked_for() {
        let all = parse(|out| meminfo(&file("meminfo"), &meminfo_counters(&[]), out));
        assert!(all.meminfo.len() > 20 && all.meminfo.iter().all(|m| m.key.is_some() && m.value.is_some()));
        let one = parse(|out| {
            meminfo(&file("meminfo"), &meminfo_counters(&[MeminfoCounters::MeminfoMemTotal as i32]), out)
        });
        assert_eq!(
            one.meminfo.iter().map(|m| (m.key(), m.value())).collect::<Vec<_>>(),
            [(MeminfoCounters::MeminfoMemTotal, 16_000_000)]
        );
        let vm = parse(|out| vmstat(&file("vmstat"), &vmstat_counters(&[]), out));
        assert!(vm.vmstat.len() > 50);
    }

    #[test]
    fn stat_gives_times_per_cpu_and_counts() {
        let all = StatParts { cpu_times: true, irq_counts: true, softirq_counts: true, fork_count: true };
        let text = b"cpu  10 20 30 40 50 60 70 80 0 0\ncpu0 1 2 3 4 5 6 7 8 9 0\ncpu1 1 2\nintr 9 0 4 5\nctxt 7\nprocesses 77\nsoftirq 6 0 6\n";
        let stats = parse(|out| stat(text, all, 10, out));
        assert_eq!(stats.cpu_stat.len(), 2);
        assert_eq!((stats.cpu_stat[0].user_ns(), stats.cpu_stat[0].steal_ns()), (10, 80));
        assert_eq!(stats.num_forks(), 77);
        assert_eq!(stats.num_irq.iter().map(|i| (i.irq(), i.count())).collect::<Vec<_>>(), [(1, 4), (2, 5)]);
        assert_eq!(
            stats.num_softirq.iter().map(|i| (i.irq(), i.count())).collect::<Vec<_>>(),
            [(0, 0), (1, 6)]
        );
        let none =
            StatParts { cpu_times: false, irq_counts: false, softirq_counts: false, fork_count: false };
        assert_eq!(parse(|out| stat(text, none, 10, out)), SysStats::default());
    }

    #[test]
    fn disks_pressure_buddies_and_slabs_parse() {
        let disks = parse(|out| {
            diskstats(b" 254 0 vda 1 2 300 4 5 6 700 8 9 10 11 12 13 1400 15 16 17\n 7 0 loop0 1 2 3 4 5 6 7 8 9 10 11\n", out)
        });
        assert_eq!(
            (
                disks.disk_stat[0].read_sectors(),
                disks.disk_stat[0].write_sectors(),
                disks.disk_stat[0].flush_time_ms()
            ),
            (300, 700, 17)
        );
        assert_eq!(disks.disk_stat[1].discard_sectors, None);
        let psi = parse(|out| {
            pressure(b"some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n", 3, 4, out)
        });
        assert_eq!(
            psi.psi.iter().map(|p| (p.resource() as i32, p.total_ns())).collect::<Vec<_>>(),
            [(3, 12_000), (4, 5000)]
        );
        let buddies = parse(|out| buddyinfo(b"Node 0, zone    DMA32   1   2   3\n", out));
        assert_eq!((buddies.buddy_info[0].node(), buddies.buddy_info[0].zone()), ("0", "DMA32"));
        assert_eq!(buddies.buddy_info[0].order_pages, [1, 2, 3]);
        let slabs = parse(|out| {
            slabinfo(b"slabinfo - version: 2.1\n# name\ninode_cache 10 20 600 13 2 : tunables 0 0 0 : slabdata 44 45 0\n", out)
        });
        assert_eq!(
            (slabs.slab_info[0].name(), slabs.slab_info[0].pages_per_slab(), slabs.slab_info[0].num_slabs()),
            ("inode_cache", 2, 45)
        );
        assert_eq!(amd_gpu_mhz(b"0: 500Mhz\n1: 1500Mhz *\n"), Some(1500));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_parse_without_a_panic(text in "[ -~\n\t]{0,300}", bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let parts = StatParts { cpu_times: true, irq_counts: true, softirq_counts: true, fork_count: true };
            for text in [text.as_bytes(), &bytes] {
                let mut out = Vec::new();
                let out = &mut Message::new(&mut out);
                meminfo(text, &meminfo_counters(&[]), out);
                stat(text, parts, u64::MAX, out);
                buddyinfo(text, out);
                diskstats(text, out);
                pressure(text, 1, 2, out);
                slabinfo(text, out);
                let _ = amd_gpu_mhz(text);
            }
        }
    }
}
