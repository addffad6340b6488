//! Memory of processes and of the machine, by events (upstream: rss_stat_tracker.cc, event_tracker.cc, ftrace_parser.cc).
//!
//! Some counters are of the process of a thread, which may not be known yet. Their values are written at once and get their tracks at the
//! end: the process's, or the thread's if no process was found.

use ferretto_trace_tables::tables::CounterRow;
use ferretto_trace_tables::{CounterId, MachineId, TrackId, Utid};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::apply::At;
use super::numbers as event;
use super::payload::Payload;
use crate::args::ArgValue;
use crate::counters::TrackType;
use crate::model::Model;
use crate::stats::Stat;

/// By their numbers in the kernel; `unreclaimable` is of one vendor's.
const MEMBERS: [&str; 5] = ["rss.file", "rss.anon", "swap", "rss.shmem", "unreclaimable"];
/// By the numbers of `mm_event_record`.
const MM_EVENTS: [&str; 7] =
    ["min_flt", "maj_flt", "read_io", "compaction", "reclaim", "swp_flt", "kern_alloc"];

/// What is kept of a machine's memory.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// The thread whose memory it is, by the kernel's hash of its address.
    owners: HashMap<i64, Utid, RandomState>,
}

/// Values that wait for their tracks.
#[derive(Debug, Default)]
pub struct Pending {
    values: Vec<(CounterId, MachineId, Utid, Of)>,
}

/// Which counter of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Of {
    OomScoreAdj,
    Memory(&'static str),
    MmEvent(&'static str, &'static str),
}

impl Model {
    /// Whether an event is of these; if so, its counters have its values.
    pub(super) fn memory(&mut self, at: At<'_>, number: u32, payload: &Payload<'_>) -> bool {
        let machine = at.cpu.machine;
        match number {
            event::rss_stat::NUMBER => {
                use event::rss_stat as field;
                let owner = (payload.has(field::CURR) && payload.has(field::MM_ID))
                    .then(|| (payload.i64(field::MM_ID), payload.u64(field::CURR) != 0));
                self.rss_stat(at, payload.u32(field::MEMBER), payload.i64(field::SIZE), owner);
            }
            event::rss_stat_throttled::NUMBER => {
                use event::rss_stat_throttled as field;
                let owner = (payload.i64(field::MM_ID), payload.u64(field::CURR) != 0);
                self.rss_stat(at, payload.u32(field::MEMBER), payload.i64(field::SIZE), Some(owner));
            }
            event::oom_score_adj_update::NUMBER => {
                use event::oom_score_adj_update as field;
                let utid = self.kernel_thread(machine, payload.u32(field::PID));
                // Old recorders wrote negative numbers wrongly; their lowest 16 bits are right.
                let value = payload.u64(field::OOM_SCORE_ADJ) as i16;
                self.pend(at, f64::from(value), utid, Of::OomScoreAdj);
            }
            event::dmabuf_rss_stat::NUMBER => {
                let utid = self.kernel_thread(machine, at.tid);
                let rss = payload.u64(event::dmabuf_rss_stat::RSS) as f64;
                self.pend(at, rss, utid, Of::Memory("dmabuf_rss"));
            }
            event::mm_event_record::NUMBER => self.mm_event(at, payload),
            event::ion_heap_grow::NUMBER => self.ion_heap(at, payload, 1),
            event::ion_heap_shrink::NUMBER => self.ion_heap(at, payload, -1),
            event::ion_stat::NUMBER => self.ion_stat(at, payload),
            event::dma_heap_stat::NUMBER => self.dma_heap_stat(at, payload),
            event::gpu_mem_total::NUMBER => self.gpu_memory(at, payload),
            event::gpu_frequency::NUMBER => {
                use event::gpu_frequency as field;
                let dimensions = self.gpu(machine, payload.u32(field::GPU_ID));
                let track = TrackType::counter("gpu_frequency", &dimensions).in_unit("kHz");
                let track = self.track(machine, track, |strings| strings.intern("gpufreq"));
                self.push_counter(at.ts, track, payload.u32(field::STATE).into());
            }
            _ => return false,
        }
        true
    }

    /// Nothing more comes: values get their tracks.
    pub(crate) fn resolve_pending(&mut self) {
        let mut tracks = HashMap::<(Utid, Of), TrackId, RandomState>::default();
        for (id, machine, utid, of) in std::mem::take(&mut self.pending.values) {
            let track = match tracks.get(&(utid, of)) {
                Some(track) => *track,
                None => {
                    let track = self.track_of_pending(machine, utid, of);
                    tracks.insert((utid, of), track);
                    track
                }
            };
            self.tables.counter.track_id.set(id.index(), track);
        }
    }

    fn track_of_pending(&mut self, machine: MachineId, utid: Utid, of: Of) -> TrackId {
        let upid = self.tables.thread.upid.get(utid.index());
        let who = match upid {
            Some(upid) => ("upid", ArgValue::Int(upid.0.into())),
            None => ("utid", ArgValue::Int(utid.0.into())),
        };
        let type_ = |of_process, of_thread| if upid.is_some() { of_process } else { of_thread };
        match of {
            Of::OomScoreAdj => {
                let dimensions = [who];
                let type_ = type_("oom_score_adj", "oom_score_adj_thread_fallback");
                let track = TrackType::counter(type_, &dimensions);
                self.track(machine, track, |strings| strings.intern("oom_score_adj"))
            }
            Of::Memory(key) => {
                let dimensions = [who, ("process_memory_key", self.text_arg(key))];
                let type_ = type_("process_memory", "process_memory_thread_fallback");
                let track = TrackType::counter(type_, &dimensions);
                self.track(machine, track, |strings| strings.intern(&format!("mem.{key}")))
            }
            Of::MmEvent(kind, metric) => {
                let dimensions =
                    [who, ("mm_event_type", self.text_arg(kind)), ("mm_event_metric", self.text_arg(metric))];
                let track = TrackType::counter(type_("mm_event", "mm_event_thread_fallback"), &dimensions);
                self.track(machine, track, |strings| strings.intern(&format!("mem.mm.{kind}.{metric}")))
            }
        }
    }

    fn pend(&mut self, at: At<'_>, value: f64, utid: Utid, of: Of) {
        let list = self.named_args(&[("utid", ArgValue::Uint(utid.0.into()))]);
        let arg_set_id = self.args.write(list, &mut self.tables);
        let row = CounterRow { ts: at.ts, value, arg_set_id, ..CounterRow::default() };
        let id = CounterId(self.tables.counter.push(row));
        self.pending.values.push((id, at.cpu.machine, utid, of));
    }

    /// `owner` is the memory's hash, and whether it is that of the thread of the event.
    pub(super) fn rss_stat(&mut self, at: At<'_>, member: u32, size: i64, owner: Option<(i64, bool)>) {
        if size < 0 {
            return self.stats.count(Stat::RssStatNegativeSize);
        }
        let key = MEMBERS.get(member as usize).copied().unwrap_or("unknown");
        let utid = match owner {
            Some((hash, is_own)) => self.owner_of(at, hash, is_own),
            None => Some(self.kernel_thread(at.cpu.machine, at.tid)),
        };
        match utid {
            Some(utid) => self.pend(at, size as f64, utid, Of::Memory(key)),
            None => self.stats.count(Stat::RssStatUnknownThreadForMmId),
        }
    }

    fn owner_of(&mut self, at: At<'_>, hash: i64, is_own: bool) -> Option<Utid> {
        let machine = at.cpu.machine;
        if is_own {
            let utid = self.kernel_thread(machine, at.tid);
            self.kernel(machine).memory.owners.insert(hash, utid);
            return Some(utid);
        }
        let utid = *self.kernel(machine).memory.owners.get(&hash)?;
        let (tables, processes) = self.processes(machine);
        if processes.is_alive(tables, utid) {
            return Some(utid);
        }
        self.kernel(machine).memory.owners.remove(&hash);
        None
    }

    fn mm_event(&mut self, at: At<'_>, payload: &Payload<'_>) {
        use event::mm_event_record as field;
        let utid = self.kernel_thread(at.cpu.machine, at.tid);
        let Some(kind) = MM_EVENTS.get(payload.u32(field::TYPE) as usize) else {
            return self.stats.count(Stat::MmUnknownType);
        };
        for (metric, number) in
            [("count", field::COUNT), ("max_lat", field::MAX_LAT), ("avg_lat", field::AVG_LAT)]
        {
            self.pend(at, payload.u32(number).into(), utid, Of::MmEvent(kind, metric));
        }
    }

    /// The event says what was allocated before it.
    fn ion_heap(&mut self, at: At<'_>, payload: &Payload<'_>, sign: i64) {
        use event::ion_heap_grow as field;
        let change = payload.i64(field::LEN).wrapping_mul(sign);
        let total = payload.i64(field::TOTAL_ALLOCATED).wrapping_add(change);
        let heap = payload.text(field::HEAP_NAME);
        let heap = if payload.has(field::HEAP_NAME) { &heap } else { "unknown" };
        self.ion(at, heap, total, change);
    }

    fn ion(&mut self, at: At<'_>, heap: &str, total: i64, change: i64) {
        let machine = at.cpu.machine;
        let suffix = if heap.is_empty() { String::new() } else { format!(".{heap}") };
        let heap = self.text_arg(heap);
        let dimensions = [("heap_name", heap)];
        let track = self.track(machine, TrackType::counter("ion", &dimensions), |strings| {
            strings.intern(&format!("mem.ion{suffix}"))
        });
        self.push_counter(at.ts, track, total as f64);
        let utid = self.kernel_thread(machine, at.tid);
        let dimensions = [("heap_name", heap), ("utid", ArgValue::Int(utid.0.into()))];
        let track = self.track(machine, TrackType::counter("ion_change", &dimensions), |strings| {
            strings.intern(&format!("mem.ion_change{suffix}"))
        });
        self.push_counter(at.ts, track, change as f64);
    }

    fn ion_stat(&mut self, at: At<'_>, payload: &Payload<'_>) {
        use event::ion_stat as field;
        let len = payload.i64(field::LEN);
        self.ion(at, "", payload.i64(field::TOTAL_ALLOCATED), len);
        let buffer = i64::from(payload.i32(field::BUFFER_ID));
        self.buffer(at, ("android_ion_allocations", "mem.ion_buffer"), buffer, len);
    }

    fn dma_heap_stat(&mut self, at: At<'_>, payload: &Payload<'_>) {
        use event::dma_heap_stat as field;
        let (machine, len) = (at.cpu.machine, payload.i64(field::LEN));
        let track = self.track(machine, TrackType::counter("android_dma_heap", &[]), |strings| {
            strings.intern("mem.dma_heap")
        });
        self.push_counter(at.ts, track, payload.i64(field::TOTAL_ALLOCATED) as f64);
        let utid = self.kernel_thread(machine, at.tid);
        let dimensions = [("utid", ArgValue::Int(utid.0.into()))];
        let track = TrackType::counter("android_dma_heap_change", &dimensions);
        let track = self.track(machine, track, |strings| strings.intern("mem.dma_heap_change"));
        let inode = payload.u64(field::INODE);
        self.counter_with(at.ts, track, len as f64, &[("inode", ArgValue::Uint(inode))]);
        self.buffer(at, ("android_dma_allocations", "mem.dma_buffer"), inode as i64, len);
    }

    /// A buffer is there from its allocation to its release.
    fn buffer(&mut self, at: At<'_>, (type_, name): (&'static str, &str), cookie: i64, len: i64) {
        let set = self.global_set(type_, at.cpu.machine);
        let name = self.tables.strings.intern(name);
        if len > 0 {
            let Some(track) = self.begin_on_set(set, cookie, Some(name), &[]) else { return };
            let size = self.tables.strings.intern(&format!("{} kB", len / 1024));
            self.begin_slice(at.ts, track, None, Some(size), &[]);
        } else if let Some(track) = self.end_on_set(set, cookie, Some(name), &[]) {
            self.end_slice(at.ts, track, None, None, &[]);
        }
    }

    fn gpu_memory(&mut self, at: At<'_>, payload: &Payload<'_>) {
        use event::gpu_mem_total as field;
        let machine = at.cpu.machine;
        let [ugpu, gpu] = self.gpu(machine, payload.u32(field::GPU_ID));
        let pid = payload.u32(field::PID);
        let size = payload.u64(field::SIZE) as f64;
        if pid == 0 {
            // All processes together.
            let dimensions = [ugpu, gpu];
            let track = TrackType::counter("gpu_memory", &dimensions).in_unit("bytes");
            let track = self.track(machine, track, |strings| strings.intern("GPU Memory"));
            self.push_counter(at.ts, track, size);
            return;
        }
        let (tables, processes) = self.processes(machine);
        // Such events may come when the process is no more.
        if processes.find_thread(pid.into()).is_none() {
            return;
        }
        let utid = processes.thread_of(tables, pid.into(), pid.into());
        let Some(upid) = tables.thread.upid.get(utid.index()) else { return };
        let dimensions = [ugpu, gpu, ("upid", ArgValue::Int(upid.0.into()))];
        let track = TrackType::counter("process_gpu_memory", &dimensions).in_unit("bytes");
        let track = self.track(machine, track, |strings| strings.intern("GPU Memory"));
        self.push_counter(at.ts, track, size);
    }

    /// What tells a GPU from others: its number over all machines, and its own.
    pub(crate) fn gpu(&mut self, machine: MachineId, gpu: u32) -> [(&'static str, ArgValue); 2] {
        let next = u32::try_from(self.gpus.len()).unwrap_or(u32::MAX);
        let ugpu = *self.gpus.entry((machine, gpu)).or_insert(next);
        [("ugpu", ArgValue::Int(ugpu.into())), ("gpu", ArgValue::Int(gpu.into()))]
    }
}
