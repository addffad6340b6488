//! The numbers of events that do more than a row of `ftrace_event`, and of their fields: a module an event. `NUMBER` is its number in
//! `FtraceEvent`. A test compares them with the table of known events.

macro_rules! events {
    ($($event:ident = $number:literal { $($field:ident = $id:literal),* })*) => {
        $(
            #[allow(missing_docs)] // The names are the kernel's own.
            pub mod $event {
                pub const NUMBER: u32 = $number;
                $(pub const $field: u32 = $id;)*
            }
        )*

        #[cfg(test)]
        const ALL: &[(&str, u32, &[(&str, u32)])] =
            &[$((stringify!($event), $number, &[$((stringify!($field), $id)),*])),*];
    };
}

events! {
    sched_switch = 4 {
        PREV_COMM = 1, PREV_PID = 2, PREV_PRIO = 3, PREV_STATE = 4, NEXT_COMM = 5, NEXT_PID = 6,
        NEXT_PRIO = 7
    }
    sched_waking = 20 { COMM = 1, PID = 2, PRIO = 3, SUCCESS = 4, TARGET_CPU = 5 }
    sched_process_free = 240 { COMM = 1, PID = 2, PRIO = 3 }
    sched_blocked_reason = 18 { PID = 1, CALLER = 2, IO_WAIT = 3 }
    task_newtask = 235 { PID = 1, COMM = 2, CLONE_FLAGS = 3, OOM_SCORE_ADJ = 4 }
    task_rename = 236 { PID = 1, OLDCOMM = 2, NEWCOMM = 3, OOM_SCORE_ADJ = 4 }
    cpu_frequency = 11 { STATE = 1, CPU_ID = 2 }
    cpu_idle = 13 { STATE = 1, CPU_ID = 2 }
    cpu_frequency_limits = 12 { MIN_FREQ = 1, MAX_FREQ = 2, CPU_ID = 3 }
    clock_set_rate = 16 { NAME = 1, STATE = 2, CPU_ID = 3 }
    clock_enable = 14 { NAME = 1, STATE = 2, CPU_ID = 3 }
    clock_disable = 15 { NAME = 1, STATE = 2, CPU_ID = 3 }
    print = 3 { IP = 1, BUF = 2 }
    zero = 331 { FLAG = 1, NAME = 2, PID = 3, VALUE = 4 }
    rss_stat = 313 { MEMBER = 1, SIZE = 2, CURR = 3, MM_ID = 4 }
    rss_stat_throttled = 359 { CURR = 1, MEMBER = 2, MM_ID = 3, SIZE = 4 }
    ion_heap_grow = 315 { HEAP_NAME = 1, LEN = 2, TOTAL_ALLOCATED = 3 }
    ion_heap_shrink = 314 { HEAP_NAME = 1, LEN = 2, TOTAL_ALLOCATED = 3 }
    ion_stat = 335 { BUFFER_ID = 1, LEN = 2, TOTAL_ALLOCATED = 3 }
    dma_heap_stat = 351 { INODE = 1, LEN = 2, TOTAL_ALLOCATED = 3 }
    dmabuf_rss_stat = 579 { RSS = 1, RSS_DELTA = 2, I_INO = 3 }
    signal_generate = 325 { CODE = 1, COMM = 2, GROUP = 3, PID = 4, RESULT = 5, SIG = 6 }
    signal_deliver = 324 { CODE = 1, SA_FLAGS = 2, SIG = 3 }
    oom_score_adj_update = 326 { COMM = 1, OOM_SCORE_ADJ = 2, PID = 3 }
    mark_victim = 334 { PID = 1 }
    mm_event_record = 328 { AVG_LAT = 1, COUNT = 2, MAX_LAT = 3, TYPE = 4 }
    sys_enter = 329 { ID = 1, ARGS = 2 }
    sys_exit = 330 { ID = 1, RET = 2 }
    workqueue_execute_start = 58 { WORK = 1, FUNCTION = 2 }
    workqueue_execute_end = 57 { WORK = 1, FUNCTION = 2 }
    local_timer_entry = 559 { VECTOR = 1 }
    local_timer_exit = 560 { VECTOR = 1 }
    irq_handler_entry = 36 { IRQ = 1, NAME = 2, HANDLER = 3 }
    irq_handler_exit = 37 { IRQ = 1, RET = 2 }
    softirq_entry = 24 { VEC = 1 }
    softirq_exit = 25 { VEC = 1 }
    gpu_mem_total = 340 { GPU_ID = 1, PID = 2, SIZE = 3 }
    gpu_frequency = 332 { GPU_ID = 1, STATE = 2 }
    thermal_temperature = 341 { ID = 1, TEMP = 2, TEMP_PREV = 3, THERMAL_ZONE = 4 }
    cdev_update = 342 { TARGET = 1, TYPE = 2 }
    thermal_exynos_acpm_bulk = 506 {
        TZ_ID = 1, CURRENT_TEMP = 2, CTRL_TEMP = 3, CDEV_STATE = 4, PID_ET_P = 5, PID_POWER_RANGE = 6,
        PID_P = 7, PID_I = 8, K_P = 9, K_I = 10, TIMESTAMP = 11
    }
    kgsl_adreno_cmdbatch_queued = 534 { ID = 1, TIMESTAMP = 2, QUEUED = 3, FLAGS = 4, PRIO = 5 }
    kgsl_adreno_cmdbatch_sync = 536 { ID = 1, TIMESTAMP = 2, TICKS = 3, PRIO = 4 }
    kgsl_adreno_cmdbatch_retired = 537 {
        ID = 1, TIMESTAMP = 2, INFLIGHT = 3, RECOVERY = 4, FLAGS = 5, START = 6, RETIRE = 7, PRIO = 8,
        RB_ID = 9, RPTR = 10, WPTR = 11, Q_INFLIGHT = 12, FAULT_RECOVERY = 13, DISPATCH_QUEUE = 14,
        SUBMITTED_TO_RB = 15, RETIRED_ON_GMU = 16, ACTIVE = 17
    }
    netif_receive_skb = 360 { LEN = 1, NAME = 2, SKBADDR = 3 }
    net_dev_xmit = 361 { LEN = 1, NAME = 2, RC = 3, SKBADDR = 4 }
    inet_sock_set_state = 362 {
        DADDR = 1, DPORT = 2, FAMILY = 3, NEWSTATE = 4, OLDSTATE = 5, PROTOCOL = 6, SADDR = 7, SKADDR = 8,
        SPORT = 9
    }
    tcp_retransmit_skb = 363 { DADDR = 1, DPORT = 2, SADDR = 3, SKADDR = 4, SKBADDR = 5, SPORT = 6, STATE = 7 }
    napi_gro_receive_entry = 365 {
        DATA_LEN = 1, GSO_SIZE = 2, GSO_TYPE = 3, HASH = 4, IP_SUMMED = 5, L4_HASH = 6, LEN = 7,
        MAC_HEADER = 8, MAC_HEADER_VALID = 9, NAME = 10, NAPI_ID = 11, NR_FRAGS = 12, PROTOCOL = 13,
        QUEUE_MAPPING = 14, SKBADDR = 15, TRUESIZE = 16, VLAN_PROTO = 17, VLAN_TAGGED = 18, VLAN_TCI = 19
    }
    napi_gro_receive_exit = 366 { RET = 1 }
    kfree_skb = 367 { LOCATION = 1, PROTOCOL = 2, SKBADDR = 3 }
    wakeup_source_activate = 404 { NAME = 1, STATE = 2 }
    wakeup_source_deactivate = 405 { NAME = 1, STATE = 2 }
    suspend_resume = 113 { ACTION = 1, VAL = 2, START = 3 }
    suspend_resume_minimal = 481 { START = 1 }
    drm_vblank_event = 409 { CRTC = 1, HIGH_PREC = 2, SEQ = 3, TIME = 4 }
    drm_vblank_event_delivered = 410 { CRTC = 1, FILE = 2, SEQ = 3 }
    drm_sched_job = 411 { ENTITY = 1, FENCE = 2, HW_JOB_COUNT = 3, ID = 4, JOB_COUNT = 5, NAME = 6 }
    drm_run_job = 412 { ENTITY = 1, FENCE = 2, HW_JOB_COUNT = 3, ID = 4, JOB_COUNT = 5, NAME = 6 }
    drm_sched_process_job = 413 { FENCE = 1 }
    drm_sched_job_done = 592 { FENCE_CONTEXT = 1, FENCE_SEQNO = 2 }
    drm_sched_job_queue = 593 {
        NAME = 1, JOB_COUNT = 2, HW_JOB_COUNT = 3, DEV = 4, FENCE_CONTEXT = 5, FENCE_SEQNO = 6,
        CLIENT_ID = 7
    }
    drm_sched_job_run = 594 {
        NAME = 1, JOB_COUNT = 2, HW_JOB_COUNT = 3, DEV = 4, FENCE_CONTEXT = 5, FENCE_SEQNO = 6,
        CLIENT_ID = 7
    }
    dma_fence_init = 414 { CONTEXT = 1, DRIVER = 2, SEQNO = 3, TIMELINE = 4 }
    dma_fence_emit = 415 { CONTEXT = 1, DRIVER = 2, SEQNO = 3, TIMELINE = 4 }
    dma_fence_signaled = 416 { CONTEXT = 1, DRIVER = 2, SEQNO = 3, TIMELINE = 4 }
    dma_fence_wait_start = 417 { CONTEXT = 1, DRIVER = 2, SEQNO = 3, TIMELINE = 4 }
    dma_fence_wait_end = 418 { CONTEXT = 1, DRIVER = 2, SEQNO = 3, TIMELINE = 4 }
    sched_cpu_util_cfs = 421 {
        ACTIVE = 1, CAPACITY = 2, CAPACITY_ORIG = 3, CPU = 4, CPU_IMPORTANCE = 5, CPU_UTIL = 6,
        EXIT_LAT = 7, GROUP_CAPACITY = 8, GRP_OVERUTILIZED = 9, IDLE_CPU = 10, NR_RUNNING = 11,
        SPARE_CAP = 12, TASK_FITS = 13, WAKE_GROUP_UTIL = 14, WAKE_UTIL = 15
    }
    i2c_read = 27 { ADAPTER_NR = 1, MSG_NR = 2, ADDR = 3, FLAGS = 4, LEN = 5 }
    i2c_write = 28 { ADAPTER_NR = 1, MSG_NR = 2, ADDR = 3, FLAGS = 4, LEN = 5, BUF = 7 }
    i2c_result = 29 { ADAPTER_NR = 1, NR_MSGS = 2, RET = 3 }
    funcgraph_entry = 437 { DEPTH = 1, FUNC = 2 }
    funcgraph_exit = 438 { CALLTIME = 1, DEPTH = 2, FUNC = 3, OVERRUN = 4, RETTIME = 5 }
    devfreq_frequency = 541 { DEV_NAME = 1, FREQ = 2, PREV_FREQ = 3, BUSY_TIME = 4, TOTAL_TIME = 5 }
    rpm_status = 489 { NAME = 1, STATUS = 2 }
    device_pm_callback_start = 504 { DEVICE = 1, DRIVER = 2, PARENT = 3, PM_OPS = 4, EVENT = 5 }
    device_pm_callback_end = 505 { DEVICE = 1, DRIVER = 2, ERROR = 3 }
    block_io_start = 546 { DEV = 1, SECTOR = 2, NR_SECTOR = 3, BYTES = 4, IOPRIO = 5, RWBS = 6, COMM = 7, CMD = 8 }
    block_io_done = 547 { DEV = 1, SECTOR = 2, NR_SECTOR = 3, BYTES = 4, IOPRIO = 5, RWBS = 6, COMM = 7, CMD = 8 }
    cpuhp_enter = 345 { CPU = 1, FUN = 2, IDX = 3, TARGET = 4 }
    cpuhp_multi_enter = 344 { CPU = 1, FUN = 2, IDX = 3, TARGET = 4 }
    cpuhp_exit = 343 { CPU = 1, IDX = 2, RET = 3, STATE = 4 }
    hrtimer_expire_entry = 553 { HRTIMER = 1, NOW = 2, FUNCTION = 3 }
    hrtimer_expire_exit = 554 { HRTIMER = 1 }
    f2fs_write_checkpoint = 272 { DEV = 1, IS_UMOUNT = 2, MSG = 3, REASON = 4, PHASE = 5 }
    mm_vmscan_direct_reclaim_begin = 46 { ORDER = 1, MAY_WRITEPAGE = 2, GFP_FLAGS = 3 }
    mm_vmscan_direct_reclaim_end = 47 { NR_RECLAIMED = 1 }
    mm_vmscan_memcg_reclaim_begin = 607 { ORDER = 1, MAY_WRITEPAGE = 2, GFP_FLAGS = 3 }
    mm_vmscan_memcg_reclaim_end = 608 { NR_RECLAIMED = 1 }
    mm_shrink_slab_start = 443 {
        CACHE_ITEMS = 1, DELTA = 2, GFP_FLAGS = 3, LRU_PGS = 4, NR_OBJECTS_TO_SHRINK = 5, PGS_SCANNED = 6,
        SHR = 7, SHRINK = 8, TOTAL_SCAN = 9, NID = 10, PRIORITY = 11
    }
    mm_shrink_slab_end = 444 {
        NEW_SCAN = 1, RETVAL = 2, SHR = 3, SHRINK = 4, TOTAL_SCAN = 5, UNUSED_SCAN = 6, NID = 7
    }
    cma_alloc_start = 465 { ALIGN = 1, COUNT = 2, NAME = 3 }
    cma_alloc_info = 466 {
        ALIGN = 1, COUNT = 2, ERR_ISO = 3, ERR_MIG = 4, ERR_TEST = 5, NAME = 6, NR_MAPPED = 7,
        NR_MIGRATED = 8, NR_RECLAIMED = 9, PFN = 10
    }
    cma_alloc_finish = 576 { NAME = 1, PFN = 2, PAGE = 3, COUNT = 4, ALIGN = 5, ERRORNO = 6 }
    mm_alloc_contig_migrate_range_info = 577 { START = 1, END = 2, NR_MIGRATED = 3, NR_RECLAIMED = 4, NR_MAPPED = 5, MIGRATETYPE = 6 }
    cros_ec_sensorhub_data = 364 { CURRENT_TIME = 1, CURRENT_TIMESTAMP = 2, DELTA = 3, EC_FIFO_TIMESTAMP = 4, EC_SENSOR_NUM = 5, FIFO_TIMESTAMP = 6 }
    ufshcd_command = 406 { DEV_NAME = 1, DOORBELL = 2, INTR = 3, LBA = 4, OPCODE = 5, STR = 6, TAG = 7, TRANSFER_LEN = 8, GROUP_ID = 9, STR_T = 10 }
    f2fs_iostat = 419 { APP_BIO = 1, APP_BRIO = 2, APP_DIO = 3, APP_DRIO = 4, APP_MIO = 5, APP_MRIO = 6, APP_RIO = 7, APP_WIO = 8, DEV = 9, FS_CDRIO = 10, FS_CP_DIO = 11, FS_CP_MIO = 12, FS_CP_NIO = 13, FS_DIO = 14, FS_DISCARD = 15, FS_DRIO = 16, FS_GC_DIO = 17, FS_GC_NIO = 18, FS_GDRIO = 19, FS_MIO = 20, FS_MRIO = 21, FS_NIO = 22, FS_NRIO = 23 }
    f2fs_iostat_latency = 420 { D_RD_AVG = 1, D_RD_CNT = 2, D_RD_PEAK = 3, D_WR_AS_AVG = 4, D_WR_AS_CNT = 5, D_WR_AS_PEAK = 6, D_WR_S_AVG = 7, D_WR_S_CNT = 8, D_WR_S_PEAK = 9, DEV = 10, M_RD_AVG = 11, M_RD_CNT = 12, M_RD_PEAK = 13, M_WR_AS_AVG = 14, M_WR_AS_CNT = 15, M_WR_AS_PEAK = 16, M_WR_S_AVG = 17, M_WR_S_CNT = 18, M_WR_S_PEAK = 19, N_RD_AVG = 20, N_RD_CNT = 21, N_RD_PEAK = 22, N_WR_AS_AVG = 23, N_WR_AS_CNT = 24, N_WR_AS_PEAK = 25, N_WR_S_AVG = 26, N_WR_S_CNT = 27, N_WR_S_PEAK = 28 }
    sde_tracing_mark_write = 333 { PID = 1, TRACE_NAME = 2, TRACE_TYPE = 3, VALUE = 4, TRACE_BEGIN = 5 }
    tracing_mark_write = 80 { PID = 1, TRACE_NAME = 2, TRACE_BEGIN = 3 }
    samsung_tracing_mark_write = 484 { PID = 1, TRACE_NAME = 2, TRACE_BEGIN = 3, TRACE_TYPE = 4, VALUE = 5 }
    dpu_tracing_mark_write = 348 { PID = 1, TRACE_NAME = 2, TRACE_BEGIN = 3, NAME = 4, TYPE = 5, VALUE = 6 }
    g2d_tracing_mark_write = 349 { PID = 1, NAME = 4, TYPE = 5, VALUE = 6 }
    mali_tracing_mark_write = 350 { NAME = 1, PID = 2, TYPE = 3, VALUE = 4 }
    lwis_tracing_mark_write = 467 { LWIS_NAME = 1, TYPE = 2, PID = 3, FUNC_NAME = 4, VALUE = 5 }
    panel_write_generic = 490 { PID = 1, TRACE_NAME = 2, TRACE_BEGIN = 3, NAME = 4, TYPE = 5, VALUE = 6 }
    dcvsh_freq = 508 { CPU = 1, FREQ = 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_known_events() {
        for (name, number, fields) in ALL {
            let known = ferretto_protos::ftrace::known_event(name).unwrap();
            assert_eq!(known.field_id, *number, "{name}");
            for (field, number) in *fields {
                let its = known.fields.iter().find(|its| its.name.to_uppercase() == *field).unwrap();
                assert_eq!(its.number, *number, "{name}.{field}");
            }
        }
    }
}
