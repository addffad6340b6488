//! Kernel events that Android's atrace categories stand for; people name them on the command line on Linux too.

use super::plan::is_known;
use super::tracefs::Tracefs;

/// A category's events as `group/name`, or `group/*` for those of the group that the schema knows (upstream:
/// predefined_tracepoints.cc, without the groups that only phones have).
const CATEGORIES: [(&str, &[&str]); 23] = [
    (
        "binder_driver",
        &[
            "binder/binder_transaction",
            "binder/binder_transaction_received",
            "binder/binder_transaction_alloc_buf",
            "binder/binder_set_priority",
        ],
    ),
    ("binder_lock", &["binder/binder_lock", "binder/binder_locked", "binder/binder_unlock"]),
    (
        "disk",
        &[
            "f2fs/f2fs_sync_file_enter",
            "f2fs/f2fs_sync_file_exit",
            "f2fs/f2fs_write_begin",
            "f2fs/f2fs_write_end",
            "f2fs/f2fs_iostat",
            "f2fs/f2fs_iostat_latency",
            "ext4/ext4_da_write_begin",
            "ext4/ext4_da_write_end",
            "ext4/ext4_sync_file_enter",
            "ext4/ext4_sync_file_exit",
            "block/block_bio_queue",
            "block/block_bio_complete",
            "ufs/ufshcd_command",
        ],
    ),
    (
        "freq",
        &[
            "power/cpu_frequency",
            "power/gpu_frequency",
            "power/clock_set_rate",
            "power/clock_disable",
            "power/clock_enable",
            "clk/clk_set_rate",
            "clk/clk_disable",
            "clk/clk_enable",
            "power/cpu_frequency_limits",
            "power/suspend_resume",
            "cpuhp/cpuhp_enter",
            "cpuhp/cpuhp_exit",
            "cpuhp/cpuhp_pause",
        ],
    ),
    ("gfx", &["mdss/*", "mali/*", "sde/*", "dpu/*", "g2d/*", "panel/*"]),
    ("i2c", &["i2c/*", "smbus/*"]),
    ("idle", &["power/cpu_idle"]),
    ("ion", &["kmem/ion_alloc_buffer_start"]),
    ("irq", &["irq/*", "ipi/*"]),
    ("irqoff", &["preemptirq/irq_enable", "preemptirq/irq_disable"]),
    ("load", &["cpufreq_interactive/*"]),
    ("membus", &["memory_bus/*"]),
    (
        "memory",
        &[
            "kmem/rss_stat",
            "kmem/ion_heap_grow",
            "kmem/ion_heap_shrink",
            "ion/ion_stat",
            "mm_event/mm_event_record",
            "dmabuf_heap/dma_heap_stat",
            "gpu_mem/gpu_mem_total",
        ],
    ),
    (
        "memreclaim",
        &[
            "vmscan/mm_vmscan_direct_reclaim_begin",
            "vmscan/mm_vmscan_direct_reclaim_end",
            "vmscan/mm_vmscan_memcg_reclaim_begin",
            "vmscan/mm_vmscan_memcg_reclaim_end",
            "vmscan/mm_vmscan_kswapd_wake",
            "vmscan/mm_vmscan_kswapd_sleep",
            "lowmemorykiller/*",
        ],
    ),
    ("mmc", &["mmc/*"]),
    ("pagecache", &["filemap/*"]),
    ("preemptoff", &["preemptirq/preempt_enable", "preemptirq/preempt_disable"]),
    ("regulators", &["regulator/*"]),
    (
        "sched",
        &[
            "sched/sched_switch",
            "sched/sched_waking",
            "sched/sched_blocked_reason",
            "sched/sched_cpu_hotplug",
            "sched/sched_pi_setprio",
            "sched/sched_process_exit",
            "cgroup/*",
            "oom/oom_score_adj_update",
            "task/task_rename",
            "task/task_newtask",
        ],
    ),
    ("sync", &["sync/*", "fence/*", "dma_fence/*"]),
    ("thermal", &["thermal/thermal_temperature", "thermal/cdev_update"]),
    ("thermal_tj", &["thermal/thermal_temperature", "thermal/cdev_update"]),
    ("workq", &["workqueue/*"]),
];

/// The events of a category that this kernel has; `None` for a category without kernel events.
pub(crate) fn events_of(category: &str, tracefs: &Tracefs) -> Option<Vec<(String, String)>> {
    let (_, patterns) = CATEGORIES.iter().find(|(name, _)| *name == category)?;
    let mut events = Vec::new();
    for (group, name) in patterns.iter().filter_map(|pattern| pattern.split_once('/')) {
        let names = tracefs.events_in(group);
        let wanted = names
            .into_iter()
            .filter(|event| if name == "*" { is_known(group, event) } else { event == name });
        events.extend(wanted.map(|event| (group.to_owned(), event)));
    }
    Some(events)
}
