//! The words that the kernel prints its events in: what stands behind `print fmt:` in an event's `format` file.
//!
//! They are data: an event and its words, in which `{FIELD}` is an argument, and `{FIELD:HOW}` one in another form ([`How`]). `{A-B}` is the
//! difference of two, and `{args*}` are all of `args[0]` and so on. Where the kernel's words have changed over time, there are several:
//! the first count for which the trace has all arguments. An event that lacks one for all of them is printed by its arguments, as one without
//! words.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use crate::args::{Arg, ArgValue};

/// Events and their words.
const FORMATS: &[(&str, &str)] = &[
    ("block_bio_backmerge", "{dev:dev} {rwbs} {sector} + {nr_sector} [{comm}]"),
    ("block_bio_bounce", "{dev:dev} {rwbs} {sector} + {nr_sector} [{comm}]"),
    ("block_bio_complete", "{dev:dev} {rwbs} {sector} + {nr_sector} [{error}]"),
    ("block_bio_frontmerge", "{dev:dev} {rwbs} {sector} + {nr_sector} [{comm}]"),
    ("block_bio_queue", "{dev:dev} {rwbs} {sector} + {nr_sector} [{comm}]"),
    ("block_bio_remap", "{dev:dev} {rwbs} {sector} + {nr_sector} <- ({old_dev:dev}) {old_sector}"),
    ("block_dirty_buffer", "{dev:dev} sector={sector} size={size}"),
    ("block_getrq", "{dev:dev} {rwbs} {sector} + {nr_sector} [{comm}]"),
    ("block_io_done", "{dev:dev} {rwbs} {bytes} ({cmd}) {sector} + {nr_sector} [{comm}]"),
    ("block_io_start", "{dev:dev} {rwbs} {bytes} ({cmd}) {sector} + {nr_sector} [{comm}]"),
    ("block_plug", "[{comm}]"),
    ("block_rq_complete", "{dev:dev} {rwbs} ({cmd}) {sector} + {nr_sector} [{error}]"),
    ("block_rq_complete", "{dev:dev} {rwbs} ({cmd}) {sector} + {nr_sector} [{errors}]"),
    ("block_rq_insert", "{dev:dev} {rwbs} {bytes} ({cmd}) {sector} + {nr_sector} [{comm}]"),
    ("block_rq_issue", "{dev:dev} {rwbs} {bytes} ({cmd}) {sector} + {nr_sector} [{comm}]"),
    ("block_rq_remap", "{dev:dev} {rwbs} {sector} + {nr_sector} <- ({old_dev:dev}) {old_sector} {nr_bios}"),
    ("block_rq_requeue", "{dev:dev} {rwbs} ({cmd}) {sector} + {nr_sector} [{errors}]"),
    ("block_sleeprq", "{dev:dev} {rwbs} {sector} + {nr_sector} [{comm}]"),
    ("block_split", "{dev:dev} {rwbs} {sector} / {new_sector} [{comm}]"),
    ("block_touch_buffer", "{dev:dev} sector={sector} size={size}"),
    ("block_unplug", "[{comm}] {nr_rq}"),
    ("cdev_update", "type={type} target={target}"),
    ("cgroup_mkdir", "root={root} id={id} level={level} path={path}"),
    ("cgroup_release", "root={root} id={id} level={level} path={path}"),
    ("cgroup_rename", "root={root} id={id} level={level} path={path}"),
    (
        "cgroup_attach_task",
        "dst_root={dst_root} dst_id={dst_id} dst_level={dst_level} dst_path={dst_path} pid={pid} comm={comm}",
    ),
    ("cgroup_attach_task", "dst_root={dst_root} dst_id={dst_id} cgroup={cname} pid={pid} comm={comm}"),
    ("clk_disable", "{name}"),
    ("clk_enable", "{name}"),
    ("clk_set_rate", "{name} {rate}"),
    ("clock_disable", "{name} state={state} cpu_id={cpu_id}"),
    ("clock_enable", "{name} state={state} cpu_id={cpu_id}"),
    ("clock_set_rate", "{name} state={state} cpu_id={cpu_id}"),
    ("cpu_frequency", "state={state} cpu_id={cpu_id}"),
    ("cpu_frequency_limits", "min={min_freq} max={max_freq} cpu_id={cpu_id}"),
    ("cpu_idle", "state={state} cpu_id={cpu_id}"),
    ("cpuhp_enter", "cpu: {cpu:04} target: {target:3} step: {idx:3} ({fun:ps})"),
    ("cpuhp_exit", " cpu: {cpu:04}  state: {state:3} step: {idx:3} ret: {ret}"),
    ("cpuhp_multi_enter", "cpu: {cpu:04} target: {target:3} step: {idx:3} ({fun:ps})"),
    ("device_pm_callback_end", "{driver} {device}, err={error}"),
    ("device_pm_callback_start", "{driver} {device}, parent: {parent}, {pm_ops}[{event:pm}]"),
    ("dma_fence_init", "driver={driver} timeline={timeline} context={context} seqno={seqno}"),
    ("dma_fence_signaled", "driver={driver} timeline={timeline} context={context} seqno={seqno}"),
    ("dma_fence_wait_end", "driver={driver} timeline={timeline} context={context} seqno={seqno}"),
    ("dma_fence_wait_start", "driver={driver} timeline={timeline} context={context} seqno={seqno}"),
    ("ext4_alloc_da_blocks", "dev {dev:dev} ino {ino} data_blocks {data_blocks} meta_blocks {meta_blocks}"),
    ("ext4_alloc_da_blocks", "dev {dev:dev} ino {ino} reserved_data_blocks {data_blocks}"),
    ("ext4_allocate_inode", "dev {dev:dev} ino {ino} dir {dir} mode 0{mode:o}"),
    ("ext4_begin_ordered_truncate", "dev {dev:dev} ino {ino} new_size {new_size}"),
    ("ext4_da_write_begin", "dev {dev:dev} ino {ino} pos {pos} len {len} flags {flags}"),
    ("ext4_da_write_begin", "dev {dev:dev} ino {ino} pos {pos} len {len}"),
    ("ext4_da_write_end", "dev {dev:dev} ino {ino} pos {pos} len {len} copied {copied}"),
    ("ext4_discard_blocks", "dev {dev:dev} blk {blk} count {count}"),
    ("ext4_discard_preallocations", "dev {dev:dev} ino {ino} len: {len} needed {needed}"),
    ("ext4_discard_preallocations", "dev {dev:dev} ino {ino} len: {len}"),
    ("ext4_drop_inode", "dev {dev:dev} ino {ino} drop {drop}"),
    ("ext4_es_lookup_extent_enter", "dev {dev:dev} ino {ino} lblk {lblk}"),
    (
        "ext4_es_lookup_extent_exit",
        "dev {dev:dev} ino {ino} found {found} [{lblk}/{len}) {pblk} {status:extent}",
    ),
    (
        "ext4_es_insert_extent",
        "dev {dev:dev} ino {ino} es [{lblk}/{len}) mapped {pblk} status {status:extent}",
    ),
    ("ext4_es_remove_extent", "dev {dev:dev} ino {ino} es [{lblk}/{len})"),
    ("ext4_evict_inode", "dev {dev:dev} ino {ino} nlink {nlink}"),
    ("ext4_ext_load_extent", "dev {dev:dev} ino {ino} lblk {lblk} pblk {pblk}"),
    ("ext4_fallocate_enter", "dev {dev:dev} ino {ino} offset {offset} len {len} mode {mode}"),
    ("ext4_fallocate_exit", "dev {dev:dev} ino {ino} pos {pos} blocks {blocks} ret {ret}"),
    ("ext4_free_inode", "dev {dev:dev} ino {ino} mode 0{mode:o} uid {uid} gid {gid} blocks {blocks}"),
    ("ext4_journal_start_reserved", "dev {dev:dev} blocks, {blocks} caller {ip:ps}"),
    ("ext4_load_inode", "dev {dev:dev} ino {ino}"),
    ("ext4_load_inode_bitmap", "dev {dev:dev} group {group}"),
    ("ext4_mark_inode_dirty", "dev {dev:dev} ino {ino} caller {ip:ps}"),
    ("ext4_mb_bitmap_load", "dev {dev:dev} group {group}"),
    ("ext4_mb_buddy_bitmap_load", "dev {dev:dev} group {group}"),
    ("ext4_readpage", "dev {dev:dev} ino {ino} page_index {index}"),
    ("ext4_releasepage", "dev {dev:dev} ino {ino} page_index {index}"),
    ("ext4_request_inode", "dev {dev:dev} dir {dir} mode 0{mode:o}"),
    ("ext4_sync_file_enter", "dev {dev:dev} ino {ino} parent {parent} datasync {datasync} "),
    ("ext4_sync_file_exit", "dev {dev:dev} ino {ino} ret {ret}"),
    ("ext4_sync_fs", "dev {dev:dev} wait {wait}"),
    ("ext4_truncate_enter", "dev {dev:dev} ino {ino} blocks {blocks}"),
    ("ext4_truncate_exit", "dev {dev:dev} ino {ino} blocks {blocks}"),
    ("ext4_unlink_enter", "dev {dev:dev} ino {ino} size {size} parent {parent}"),
    ("ext4_unlink_exit", "dev {dev:dev} ino {ino} ret {ret}"),
    ("ext4_write_begin", "dev {dev:dev} ino {ino} pos {pos} len {len} flags {flags}"),
    ("ext4_write_begin", "dev {dev:dev} ino {ino} pos {pos} len {len}"),
    ("ext4_write_end", "dev {dev:dev} ino {ino} pos {pos} len {len} copied {copied}"),
    ("ext4_writepage", "dev {dev:dev} ino {ino} page_index {index}"),
    (
        "ext4_writepages",
        "dev {dev:dev} ino {ino} nr_to_write {nr_to_write} pages_skipped {pages_skipped} range_start {range_start} \
         range_end {range_end} sync_mode {sync_mode} for_kupdate {for_kupdate} range_cyclic {range_cyclic} \
         writeback_index {writeback_index}",
    ),
    (
        "ext4_writepages_result",
        "dev {dev:dev} ino {ino} ret {ret} pages_written {pages_written} pages_skipped {pages_skipped} \
         sync_mode {sync_mode} writeback_index {writeback_index}",
    ),
    ("f2fs_write_begin", "dev = ({dev:dev}), ino = {ino}, pos = {pos}, len = {len}, flags = {flags}"),
    ("f2fs_write_end", "dev = ({dev:dev}), ino = {ino}, pos = {pos}, len = {len}, copied = {copied}"),
    ("gpu_frequency", "gpu_id={gpu_id} state={state}"),
    ("hrtimer_cancel", "hrtimer={hrtimer:p}"),
    ("hrtimer_expire_entry", "hrtimer={hrtimer:p} function={function:ps} now={now}"),
    ("hrtimer_expire_exit", "hrtimer={hrtimer:p}"),
    ("hrtimer_init", "hrtimer={hrtimer:p} clockid={clockid:clock} mode={mode:hrtimer}"),
    (
        "hrtimer_start",
        "hrtimer={hrtimer:p} function={function:ps} expires={expires} softexpires={softexpires} mode={mode:hrtimer}",
    ),
    ("ipi_entry", "({reason})"),
    ("ipi_exit", "({reason})"),
    ("irq_handler_entry", "irq={irq} name={name}"),
    ("irq_handler_exit", "irq={irq} ret={ret:handled}"),
    ("kmem_cache_free", "call_site={call_site:ps} ptr={ptr:p}"),
    ("local_timer_entry", "vector={vector}"),
    ("local_timer_exit", "vector={vector}"),
    ("mark_victim", "pid={pid}"),
    ("mm_filemap_add_to_page_cache", "dev {s_dev:dev:} ino {i_ino:x} pfn=0x{pfn:x} ofs={index:page}"),
    ("mm_filemap_delete_from_page_cache", "dev {s_dev:dev:} ino {i_ino:x} pfn=0x{pfn:x} ofs={index:page}"),
    ("mm_vmscan_direct_reclaim_end", "nr_reclaimed={nr_reclaimed}"),
    ("mm_vmscan_kswapd_sleep", "nid={nid}"),
    ("mm_vmscan_kswapd_wake", "nid={nid} order={order}"),
    ("net_dev_xmit", "dev={name} skbaddr={skbaddr:p} len={len} rc={rc}"),
    ("netif_receive_skb", "dev={name} skbaddr={skbaddr:p} len={len}"),
    ("oom_score_adj_update", "pid={pid} comm={comm} oom_score_adj={oom_score_adj}"),
    ("regulator_disable", "name={name}"),
    ("regulator_disable_complete", "name={name}"),
    ("regulator_enable", "name={name}"),
    ("regulator_enable_complete", "name={name}"),
    ("regulator_enable_delay", "name={name}"),
    ("regulator_set_voltage", "name={name} ({min}-{max})"),
    ("regulator_set_voltage_complete", "name={name}, val={val}"),
    ("sched_blocked_reason", "pid={pid} iowait={io_wait} caller={caller:x}"),
    ("sched_migrate_task", "comm={comm} pid={pid} prio={prio} orig_cpu={orig_cpu} dest_cpu={dest_cpu}"),
    ("sched_pi_setprio", "comm={comm} pid={pid} oldprio={oldprio} newprio={newprio}"),
    ("sched_process_exec", "filename={filename} pid={pid} old_pid={old_pid}"),
    ("sched_process_exit", "comm={comm} pid={pid} prio={prio}"),
    (
        "sched_process_fork",
        "comm={parent_comm} pid={parent_pid} child_comm={child_comm} child_pid={child_pid}",
    ),
    ("sched_process_free", "comm={comm} pid={pid} prio={prio}"),
    ("sched_process_hang", "comm={comm} pid={pid}"),
    ("sched_process_wait", "comm={comm} pid={pid} prio={prio}"),
    ("sched_stat_runtime", "comm={comm} pid={pid} runtime={runtime} [ns]"),
    (
        "sched_switch",
        "prev_comm={prev_comm} prev_pid={prev_pid} prev_prio={prev_prio} prev_state={prev_state:state} ==> \
         next_comm={next_comm} next_pid={next_pid} next_prio={next_prio}",
    ),
    ("sched_wakeup", "comm={comm} pid={pid} prio={prio} target_cpu={target_cpu:03}"),
    ("sched_wakeup_new", "comm={comm} pid={pid} prio={prio} target_cpu={target_cpu:03}"),
    ("sched_waking", "comm={comm} pid={pid} prio={prio} target_cpu={target_cpu:03}"),
    ("softirq_entry", "vec={vec} [action={vec:softirq}]"),
    ("softirq_exit", "vec={vec} [action={vec:softirq}]"),
    ("softirq_raise", "vec={vec} [action={vec:softirq}]"),
    ("suspend_resume", "{action}[{val}] {start:begin}"),
    ("sys_enter", "NR {id} ({args*})"),
    ("sys_exit", "NR {id} = {ret}"),
    ("task_newtask", "pid={pid} comm={comm} clone_flags={clone_flags:x} oom_score_adj={oom_score_adj}"),
    ("task_rename", "pid={pid} oldcomm={oldcomm} newcomm={newcomm} oom_score_adj={oom_score_adj}"),
    ("thermal_temperature", "thermal_zone={thermal_zone} id={id} temp_prev={temp_prev} temp={temp}"),
    ("timer_cancel", "timer={timer:p}"),
    ("timer_expire_entry", "timer={timer:p} function={function:ps} now={now} baseclk={baseclk}"),
    ("timer_expire_entry", "timer={timer:p} function={function:ps} now={now}"),
    ("timer_expire_exit", "timer={timer:p}"),
    ("timer_init", "timer={timer:p}"),
    (
        "timer_start",
        "timer={timer:p} function={function:ps} expires={expires} [timeout={expires-now}] \
         bucket_expiry={bucket_expiry} cpu={flags:timer_cpu} idx={flags:timer_idx} flags={flags:timer}",
    ),
    (
        "timer_start",
        "timer={timer:p} function={function:ps} expires={expires} [timeout={expires-now}] cpu={flags:timer_cpu} idx={flags:timer_idx} flags={flags:timer}",
    ),
    ("wakeup_source_activate", "{name} state=0x{state:x}"),
    ("wakeup_source_deactivate", "{name} state=0x{state:x}"),
    ("workqueue_activate_work", "work struct {work:p} function={function:ps} "),
    ("workqueue_activate_work", "work struct {work:p}"),
    ("workqueue_execute_end", "work struct {work:p}: function {function:ps}"),
    ("workqueue_execute_end", "work struct {work:p}"),
    ("workqueue_execute_start", "work struct {work:p}: function {function:ps}"),
    (
        "workqueue_queue_work",
        "work struct={work:p} function={function:ps} workqueue={workqueue} req_cpu={req_cpu} cpu={cpu}",
    ),
];

/// Names of numbers from 0 (kernel: `show_softirq_name`, `irq_handler_exit`, `suspend_resume`, `decode_hrtimer_mode`, `decode_clockid`).
const NAMES: &[(&str, &[&str])] = &[
    (
        "softirq",
        &["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"],
    ),
    ("handled", &["unhandled", "handled"]),
    ("begin", &["end", "begin"]),
    (
        "hrtimer",
        &[
            "ABS",
            "REL",
            "ABS|PINNED",
            "REL|PINNED",
            "ABS|SOFT",
            "REL|SOFT",
            "ABS|PINNED|SOFT",
            "REL|PINNED|SOFT",
            "ABS|HARD",
            "REL|HARD",
            "ABS|PINNED|HARD",
            "REL|PINNED|HARD",
        ],
    ),
    (
        "clock",
        &[
            "CLOCK_REALTIME",
            "CLOCK_MONOTONIC",
            "2",
            "3",
            "4",
            "5",
            "6",
            "CLOCK_BOOTTIME",
            "8",
            "9",
            "10",
            "CLOCK_TAI",
        ],
    ),
];

/// Letters of bits (kernel: `decode_timer_flags`, `show_extent_status`; `TASK_REPORT` as of Linux 4.14; `pm_verb_symbolic`).
const BITS: &[Bits] = &[
    ("timer", "|", &[(0x4_0000, "M"), (0x8_0000, "D"), (0x10_0000, "P"), (0x20_0000, "I")]),
    ("extent", "", &[(1, "W"), (2, "U"), (4, "D"), (8, "H"), (16, "R")]),
    (
        "pm",
        "|",
        &[
            (2, "suspend"),
            (16, "resume"),
            (1, "freeze"),
            (4, "hibernate"),
            (32, "thaw"),
            (64, "restore"),
            (8, "recover"),
        ],
    ),
    ("state", "|", &[(1, "S"), (2, "D"), (4, "T"), (8, "t"), (16, "X"), (32, "Z"), (64, "P"), (128, "I")]),
];

/// What they are called here, what stands between two of them, and each one's letters.
type Bits = (&'static str, &'static str, &'static [(u64, &'static str)]);

/// Bits of a device's number that are the minor one's.
const MINOR_BITS: u32 = 20;
/// A page is so many bits of an address.
const PAGE_BITS: u32 = 12;
/// Of a timer's flags: its processor, and its place in the wheel (kernel: timer.h).
const TIMER_CPU: u64 = 0x3_ffff;
const TIMER_IDX_SHIFT: u32 = 22;

/// Writes an event's arguments in the kernel's words behind `out`. Whether it has any, and all that they want.
pub(crate) fn print(event: &str, args: &[Arg<'_>], out: &mut String) -> bool {
    static BY_NAME: LazyLock<HashMap<&str, Vec<&str>>> = LazyLock::new(|| {
        let mut by_name = HashMap::<_, Vec<_>>::new();
        FORMATS.iter().for_each(|(name, words)| by_name.entry(*name).or_default().push(*words));
        by_name
    });
    let start = out.len();
    BY_NAME.get(event).into_iter().flatten().any(|words| {
        out.truncate(start);
        write(words, args, out).is_some()
    }) || {
        out.truncate(start);
        false
    }
}

fn write(words: &str, args: &[Arg<'_>], out: &mut String) -> Option<()> {
    let mut rest = words;
    while let Some((before, behind)) = rest.split_once('{') {
        out.push_str(before);
        let (argument, after) = behind.split_once('}')?;
        write_argument(argument, args, out)?;
        rest = after;
    }
    out.push_str(rest);
    Some(())
}

fn write_argument(argument: &str, args: &[Arg<'_>], out: &mut String) -> Option<()> {
    if let Some(prefix) = argument.strip_suffix('*') {
        return write_all(prefix, args, out);
    }
    if let Some((from, less)) = argument.split_once('-') {
        let difference = number(find(from, args)?)?.wrapping_sub(number(find(less, args)?)?);
        return write!(out, "{}", difference as i64).ok();
    }
    let (field, how) = argument.split_once(':').unwrap_or((argument, ""));
    let value = find(field, args)?;
    match number(value) {
        Some(number) if !how.is_empty() => write_number(number, how, out),
        _ => {
            out.push_str(&value.to_text());
            Some(())
        }
    }
}

/// `args[0]`, `args[1]` and so on, as the kernel shows what a program calls it with.
fn write_all(prefix: &str, args: &[Arg<'_>], out: &mut String) -> Option<()> {
    let is_one =
        |key: &str| key.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('['));
    for (place, arg) in args.iter().filter(|arg| is_one(arg.key)).enumerate() {
        let comma = if place > 0 { ", " } else { "" };
        write!(out, "{comma}{:x}", number(arg.value)?).ok()?;
    }
    Some(())
}

fn find<'a>(field: &str, args: &[Arg<'a>]) -> Option<ArgValue<'a>> {
    args.iter().find(|arg| arg.key == field).map(|arg| arg.value)
}

fn number(value: ArgValue<'_>) -> Option<u64> {
    match value {
        ArgValue::Int(value) => Some(value.cast_unsigned()),
        ArgValue::Uint(value) | ArgValue::Pointer(value) => Some(value),
        _ => None,
    }
}

fn write_number(number: u64, how: &str, out: &mut String) -> Option<()> {
    let (major, minor) = (number >> MINOR_BITS, number & ((1 << MINOR_BITS) - 1));
    match how {
        // Of functions without a name the address is known.
        "p" | "ps" => write!(out, "{number:#x}"),
        "x" => write!(out, "{number:x}"),
        "o" => write!(out, "{number:o}"),
        "3" => write!(out, "{:3}", number as i64),
        "03" => write!(out, "{:03}", number as i64),
        "04" => write!(out, "{:04}", number as i64),
        "dev" => write!(out, "{major},{minor}"),
        "dev:" => write!(out, "{major}:{minor}"),
        "page" => write!(out, "{}", number << PAGE_BITS),
        "timer_cpu" => write!(out, "{}", number & TIMER_CPU),
        "timer_idx" => write!(out, "{}", number >> TIMER_IDX_SHIFT),
        "state" if number == 0 => write!(out, "R"),
        _ => return write_named(number, how, out),
    }
    .ok()
}

fn write_named(number: u64, how: &str, out: &mut String) -> Option<()> {
    if let Some((_, names)) = NAMES.iter().find(|(name, _)| *name == how) {
        return match usize::try_from(number).ok().and_then(|number| names.get(number)) {
            Some(name) => write!(out, "{name}").ok(),
            None => write!(out, "{number}").ok(),
        };
    }
    let (_, between, bits) = BITS.iter().find(|(name, ..)| *name == how)?;
    let letters: Vec<&str> =
        bits.iter().filter(|(bit, _)| number & bit != 0).map(|(_, letters)| *letters).collect();
    match (letters.is_empty(), how) {
        // Bits that newer kernels have moved: it was runnable.
        (true, "state") => out.push_str("R+"),
        (true, "timer") => write!(out, "0x{:x}", number & 0x3c_0000).ok()?,
        _ => out.push_str(&letters.join(between)),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use ferretto_protos::ftrace::known_event;

    use super::*;

    fn printed(event: &str, args: &[(&'static str, ArgValue<'static>)]) -> Option<String> {
        let args: Vec<Arg<'_>> = args.iter().map(|(key, value)| Arg { key, value: *value }).collect();
        let mut out = String::new();
        print(event, &args, &mut out).then_some(out)
    }

    const fn int(value: i64) -> ArgValue<'static> {
        ArgValue::Int(value)
    }

    const fn uint(value: u64) -> ArgValue<'static> {
        ArgValue::Uint(value)
    }

    const fn text(value: &'static str) -> ArgValue<'static> {
        ArgValue::Text(value)
    }

    /// An event, its arguments, and what the kernel prints of it.
    type Case = (&'static str, &'static [(&'static str, ArgValue<'static>)], &'static str);

    /// Lines as kernels have printed them.
    const CASES: &[Case] = &[
        (
            "workqueue_execute_start",
            &[("work", uint(0xffff_8881_0039_b0c8)), ("function", text("vmstat_update"))],
            "work struct 0xffff88810039b0c8: function vmstat_update",
        ),
        (
            "workqueue_queue_work",
            &[
                ("work", uint(0xffff_8881)),
                ("function", uint(0xffff_ffff_8112)),
                ("req_cpu", int(8192)),
                ("cpu", int(-1)),
                ("workqueue", text("events")),
            ],
            "work struct=0xffff8881 function=0xffffffff8112 workqueue=events req_cpu=8192 cpu=-1",
        ),
        ("softirq_entry", &[("vec", uint(1))], "vec=1 [action=TIMER]"),
        ("softirq_raise", &[("vec", uint(9))], "vec=9 [action=RCU]"),
        (
            "irq_handler_entry",
            &[("irq", int(26)), ("name", text("virtio0-input.0"))],
            "irq=26 name=virtio0-input.0",
        ),
        ("irq_handler_exit", &[("irq", int(26)), ("ret", int(1))], "irq=26 ret=handled"),
        ("sys_enter", &[("id", int(1)), ("args[0]", uint(2)), ("args[1]", uint(0x7ffd))], "NR 1 (2, 7ffd)"),
        ("sys_exit", &[("id", int(1)), ("ret", int(-11))], "NR 1 = -11"),
        (
            "sched_switch",
            &[
                ("prev_comm", text("a b")),
                ("prev_pid", int(1)),
                ("prev_prio", int(120)),
                ("prev_state", int(3)),
                ("next_comm", text("c")),
                ("next_pid", int(2)),
                ("next_prio", int(98)),
            ],
            "prev_comm=a b prev_pid=1 prev_prio=120 prev_state=S|D ==> next_comm=c next_pid=2 next_prio=98",
        ),
        (
            "sched_waking",
            &[
                ("comm", text("a")),
                ("pid", int(1)),
                ("prio", int(120)),
                ("success", int(1)),
                ("target_cpu", int(2)),
            ],
            "comm=a pid=1 prio=120 target_cpu=002",
        ),
        (
            "sched_process_fork",
            &[
                ("parent_comm", text("sh")),
                ("parent_pid", int(1)),
                ("child_comm", text("sh")),
                ("child_pid", int(2)),
            ],
            "comm=sh pid=1 child_comm=sh child_pid=2",
        ),
        (
            "timer_start",
            &[
                ("timer", uint(0xffff)),
                ("function", text("process_timeout")),
                ("expires", uint(4_295_000_123)),
                ("now", uint(4_295_000_098)),
                ("deferrable", uint(0)),
                ("flags", uint(0x7100_0001)),
                ("bucket_expiry", uint(4_295_000_124)),
            ],
            "timer=0xffff function=process_timeout expires=4295000123 [timeout=25] bucket_expiry=4295000124 cpu=1 \
             idx=452 flags=0x0",
        ),
        (
            "hrtimer_start",
            &[
                ("hrtimer", uint(0xffff)),
                ("function", text("tick_sched_timer")),
                ("expires", int(10)),
                ("softexpires", int(9)),
                ("mode", uint(2)),
            ],
            "hrtimer=0xffff function=tick_sched_timer expires=10 softexpires=9 mode=ABS|PINNED",
        ),
        (
            "block_rq_issue",
            &[
                ("dev", uint(8 << 20 | 1)),
                ("sector", uint(2048)),
                ("nr_sector", uint(8)),
                ("bytes", uint(4096)),
                ("rwbs", text("WS")),
                ("comm", text("jbd2/sda1-8")),
                ("cmd", text("")),
            ],
            "8,1 WS 4096 () 2048 + 8 [jbd2/sda1-8]",
        ),
        (
            "ext4_sync_file_enter",
            &[("dev", uint(8 << 20)), ("ino", uint(5)), ("parent", uint(2)), ("datasync", int(1))],
            "dev 8,0 ino 5 parent 2 datasync 1 ",
        ),
        (
            "ext4_es_lookup_extent_exit",
            &[
                ("dev", uint(8 << 20)),
                ("ino", uint(5)),
                ("lblk", uint(0)),
                ("len", uint(1)),
                ("pblk", uint(77)),
                ("status", uint(1)),
                ("found", int(1)),
            ],
            "dev 8,0 ino 5 found 1 [0/1) 77 W",
        ),
        ("workqueue_execute_end", &[("work", uint(0xffff))], "work struct 0xffff"),
        ("cpu_idle", &[("state", uint(4_294_967_295)), ("cpu_id", uint(3))], "state=4294967295 cpu_id=3"),
        (
            "cpu_frequency_limits",
            &[("min_freq", uint(1)), ("max_freq", uint(2)), ("cpu_id", uint(3))],
            "min=1 max=2 cpu_id=3",
        ),
        (
            "suspend_resume",
            &[("action", text("CPU_OFF")), ("val", int(3)), ("start", uint(1))],
            "CPU_OFF[3] begin",
        ),
        (
            "device_pm_callback_start",
            &[
                ("device", text("sda")),
                ("driver", text("sd")),
                ("parent", text("0:0:0:0")),
                ("pm_ops", text("bus ")),
                ("event", int(2)),
            ],
            "sd sda, parent: 0:0:0:0, bus [suspend]",
        ),
        (
            "clock_set_rate",
            &[("name", text("gpu")), ("state", uint(5)), ("cpu_id", uint(0))],
            "gpu state=5 cpu_id=0",
        ),
        (
            "wakeup_source_activate",
            &[("name", text("alarm")), ("state", uint(0x20001))],
            "alarm state=0x20001",
        ),
        (
            "task_newtask",
            &[
                ("pid", int(7)),
                ("comm", text("a")),
                ("clone_flags", uint(0x3d0f00)),
                ("oom_score_adj", int(-5)),
            ],
            "pid=7 comm=a clone_flags=3d0f00 oom_score_adj=-5",
        ),
    ];

    #[test]
    fn events_are_printed_in_the_kernels_words() {
        for (event, args, expected) in CASES {
            assert_eq!(printed(event, args).as_deref(), Some(*expected), "{event}");
        }
    }

    #[test]
    fn what_lacks_an_argument_or_has_no_words_is_not() {
        assert_eq!(printed("sys_exit", &[("id", int(1))]), None);
        assert_eq!(printed("no_such_event", &[]), None);
    }

    #[test]
    fn words_are_of_fields_that_the_events_have() {
        let mut seen = HashSet::new();
        for (event, words) in FORMATS {
            assert!(seen.insert((event, words)), "{event} is there twice");
            let Some(known) = known_event(event) else { continue };
            for part in words.split('{').skip(1) {
                let argument = part.split('}').next().unwrap();
                for field in argument.split(':').next().unwrap().split('-') {
                    let field = field.trim_end_matches('*');
                    assert!(known.fields.iter().any(|it| it.name == field), "{event}: {field}");
                }
            }
        }
    }
}
