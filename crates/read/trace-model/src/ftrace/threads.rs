//! What happens in threads: signals, queued work, memory that is won back, probes (upstream: ftrace_parser.cc, i2c_tracker.cc).

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use ferretto_trace_tables::{MachineId, Utid};

use super::apply::At;
use super::numbers as event;
use super::payload::Payload;
use crate::args::ArgValue;
use crate::model::Model;

/// `KprobeEvent` in `FtraceEvent`, and its fields: no event of the kernel's own.
mod kprobe_event {
    pub(super) const NUMBER: u32 = 542;
    pub(super) const NAME: u32 = 1;
    pub(super) const TYPE: u32 = 2;
    /// `KprobeType`.
    pub(super) const BEGIN: u64 = 1;
    pub(super) const END: u64 = 2;
    pub(super) const INSTANT: u64 = 3;
}

/// Numbers of I2C adapters are below this. Upstream's.
const MAX_I2C_ADAPTERS: u32 = 256;

/// Transfers over I2C that have begun: the adapter, and how many messages it has had.
pub(super) type I2cTransfers = HashMap<Utid, (u32, u32), RandomState>;

/// What the last moves of pages for allocations in one piece were: migrated, reclaimed, mapped.
pub(super) type CmaMigrations = HashMap<Utid, [u64; 3], RandomState>;

/// Which events of such allocations a kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CmaKernel {
    Neither,
    Info,
    Finish,
}

impl Model {
    /// Whether an event is of these; if so, it has its slice.
    pub(super) fn thread_slice(&mut self, at: At<'_>, number: u32, payload: &Payload<'_>) -> bool {
        let (ts, machine) = (at.ts, at.cpu.machine);
        match number {
            event::signal_generate::NUMBER => {
                use event::signal_generate as field;
                // It is told where the signal goes to.
                let track = self.track_of_tid(machine, payload.u32(field::PID));
                self.signal(ts, track, "signal_generate", payload.i32(field::SIG));
            }
            event::signal_deliver::NUMBER => {
                let track = self.track_of_tid(machine, at.tid);
                self.signal(ts, track, "signal_deliver", payload.i32(event::signal_deliver::SIG));
            }
            event::mark_victim::NUMBER => {
                let track = self.track_of_tid(machine, payload.u32(event::mark_victim::PID));
                let name = self.tables.strings.intern("mem.oom_kill");
                self.instant(ts, track, None, Some(name), &[]);
            }
            event::workqueue_execute_start::NUMBER => {
                let name = self.function(at, payload.u64(event::workqueue_execute_start::FUNCTION));
                let track = self.track_of_tid(machine, at.tid);
                let cpu = ArgValue::Int(at.cpu.cpu.into());
                self.begin_slice(ts, track, Some("workqueue"), Some(name), &[("cpu", cpu)]);
            }
            event::workqueue_execute_end::NUMBER => {
                let track = self.track_of_tid(machine, at.tid);
                self.end_slice(ts, track, Some("workqueue"), None, &[]);
            }
            kprobe_event::NUMBER => self.kprobe(at, payload),
            event::i2c_read::NUMBER | event::i2c_write::NUMBER => {
                use event::i2c_read as field;
                self.i2c_message(at, payload.u32(field::ADAPTER_NR), payload.u32(field::MSG_NR));
            }
            event::i2c_result::NUMBER => {
                use event::i2c_result as field;
                self.i2c_result(at, payload.u32(field::ADAPTER_NR), payload.u32(field::NR_MSGS));
            }
            _ => return self.reclaim(at, number, payload),
        }
        true
    }

    fn signal(&mut self, ts: i64, track: ferretto_trace_tables::TrackId, name: &str, signal: i32) {
        let name = self.tables.strings.intern(name);
        self.instant(ts, track, None, Some(name), &[("signal.sig", ArgValue::Int(signal.into()))]);
    }

    fn kprobe(&mut self, at: At<'_>, payload: &Payload<'_>) {
        let name = payload.name(kprobe_event::NAME, &mut self.tables.strings);
        let track = self.track_of_tid(at.cpu.machine, at.tid);
        match payload.u64(kprobe_event::TYPE) {
            kprobe_event::BEGIN => {
                self.begin_slice(at.ts, track, None, name, &[]);
            }
            kprobe_event::END => {
                self.end_slice(at.ts, track, None, name, &[]);
            }
            kprobe_event::INSTANT => {
                self.instant(at.ts, track, None, name, &[]);
            }
            _ => {}
        }
    }

    /// Memory that is won back or allocated in one piece.
    fn reclaim(&mut self, at: At<'_>, number: u32, payload: &Payload<'_>) -> bool {
        match number {
            event::mm_vmscan_direct_reclaim_begin::NUMBER => {
                use event::mm_vmscan_direct_reclaim_begin as field;
                let args = [
                    ("direct_reclaim_order", int(payload, field::ORDER)),
                    ("direct_reclaim_may_writepage", int(payload, field::MAY_WRITEPAGE)),
                    ("direct_reclaim_gfp_flags", uint32(payload, field::GFP_FLAGS)),
                ];
                self.begin_in_thread(at, "mm_vmscan_direct_reclaim", &args);
            }
            event::mm_vmscan_direct_reclaim_end::NUMBER => {
                use event::mm_vmscan_direct_reclaim_end as field;
                self.end_in_thread(
                    at,
                    &[("direct_reclaim_nr_reclaimed", uint(payload, field::NR_RECLAIMED))],
                );
            }
            event::mm_vmscan_memcg_reclaim_begin::NUMBER => {
                use event::mm_vmscan_memcg_reclaim_begin as field;
                let args = [
                    ("memcg_reclaim_order", int(payload, field::ORDER)),
                    ("memcg_reclaim_may_writepage", int(payload, field::MAY_WRITEPAGE)),
                    ("memcg_reclaim_gfp_flags", uint32(payload, field::GFP_FLAGS)),
                ];
                self.begin_in_thread(at, "mm_vmscan_memcg_reclaim", &args);
            }
            event::mm_vmscan_memcg_reclaim_end::NUMBER => {
                use event::mm_vmscan_memcg_reclaim_end as field;
                self.end_in_thread(at, &[("memcg_reclaim_nr_reclaimed", uint(payload, field::NR_RECLAIMED))]);
            }
            event::mm_shrink_slab_start::NUMBER => {
                use event::mm_shrink_slab_start as field;
                let shrink = self.function(at, payload.u64(field::SHRINK));
                let args = [
                    ("shrink_name", ArgValue::Text(shrink)),
                    ("total_scan", uint(payload, field::TOTAL_SCAN)),
                    ("priority", int(payload, field::PRIORITY)),
                ];
                self.begin_in_thread(at, "mm_vmscan_shrink_slab", &args);
            }
            event::mm_shrink_slab_end::NUMBER => {
                self.end_in_thread(at, &[("freed", int(payload, event::mm_shrink_slab_end::RETVAL))]);
            }
            event::cma_alloc_start::NUMBER => self.cma_alloc_start(at),
            event::cma_alloc_info::NUMBER => self.cma_alloc_info(at, payload),
            event::mm_alloc_contig_migrate_range_info::NUMBER => self.cma_migration(at, payload),
            event::cma_alloc_finish::NUMBER => self.cma_alloc_finish(at, payload),
            _ => return false,
        }
        true
    }

    /// Since 6.1 two events say what an older kernel's `cma_alloc_info` says; before 5.10 there is neither.
    fn cma_kernel(&mut self, at: At<'_>) -> CmaKernel {
        match self.kernel(at.cpu.machine).version {
            Some(version) if version >= (6, 1) => CmaKernel::Finish,
            Some(version) if version >= (5, 10) => CmaKernel::Info,
            _ => CmaKernel::Neither,
        }
    }

    fn cma_alloc_start(&mut self, at: At<'_>) {
        match self.cma_kernel(at) {
            CmaKernel::Neither => return,
            CmaKernel::Info => {}
            CmaKernel::Finish => {
                let utid = self.kernel_thread(at.cpu.machine, at.tid);
                self.kernel(at.cpu.machine).cma_migrations.remove(&utid);
            }
        }
        self.begin_in_thread(at, "mm_cma_alloc", &[]);
    }

    fn cma_migration(&mut self, at: At<'_>, payload: &Payload<'_>) {
        use event::mm_alloc_contig_migrate_range_info as field;
        if self.cma_kernel(at) != CmaKernel::Finish {
            return;
        }
        let utid = self.kernel_thread(at.cpu.machine, at.tid);
        let moved = [field::NR_MIGRATED, field::NR_RECLAIMED, field::NR_MAPPED].map(|its| payload.u64(its));
        self.kernel(at.cpu.machine).cma_migrations.insert(utid, moved);
    }

    fn cma_alloc_finish(&mut self, at: At<'_>, payload: &Payload<'_>) {
        use event::cma_alloc_finish as field;
        if self.cma_kernel(at) != CmaKernel::Finish {
            return;
        }
        let utid = self.kernel_thread(at.cpu.machine, at.tid);
        let moved = self.kernel(at.cpu.machine).cma_migrations.get(&utid).copied();
        let [migrated, reclaimed, mapped] = moved.unwrap_or_default().map(ArgValue::Uint);
        let name = payload.name(field::NAME, &mut self.tables.strings);
        let args = [
            ("cma_name", ArgValue::of_text(name)),
            ("cma_pfn", uint(payload, field::PFN)),
            ("cma_req_pages", uint(payload, field::COUNT)),
            ("cma_nr_migrated", migrated),
            ("cma_nr_reclaimed", reclaimed),
            ("cma_nr_mapped", mapped),
        ];
        self.end_in_thread(at, &args);
    }

    fn cma_alloc_info(&mut self, at: At<'_>, payload: &Payload<'_>) {
        use event::cma_alloc_info as field;
        if self.cma_kernel(at) != CmaKernel::Info {
            return;
        }
        let name = payload.name(field::NAME, &mut self.tables.strings);
        let args = [
            ("cma_name", name.map_or(ArgValue::NoText, ArgValue::Text)),
            ("cma_pfn", uint(payload, field::PFN)),
            ("cma_req_pages", uint(payload, field::COUNT)),
            ("cma_nr_migrated", uint(payload, field::NR_MIGRATED)),
            ("cma_nr_reclaimed", uint(payload, field::NR_RECLAIMED)),
            ("cma_nr_mapped", uint(payload, field::NR_MAPPED)),
            ("cma_nr_isolate_fail", uint32(payload, field::ERR_ISO)),
            ("cma_nr_migrate_fail", uint32(payload, field::ERR_MIG)),
            ("cma_nr_test_fail", uint32(payload, field::ERR_TEST)),
        ];
        self.end_in_thread(at, &args);
    }

    fn begin_in_thread(&mut self, at: At<'_>, name: &str, args: &[(&'static str, ArgValue)]) {
        let name = self.tables.strings.intern(name);
        let track = self.track_of_tid(at.cpu.machine, at.tid);
        self.begin_slice(at.ts, track, None, Some(name), args);
    }

    fn end_in_thread(&mut self, at: At<'_>, args: &[(&'static str, ArgValue)]) {
        let track = self.track_of_tid(at.cpu.machine, at.tid);
        self.end_slice(at.ts, track, None, None, args);
    }

    /// The messages of a transfer are one slice, until its result comes.
    fn i2c_message(&mut self, at: At<'_>, adapter: u32, message: u32) {
        if adapter >= MAX_I2C_ADAPTERS {
            return;
        }
        let utid = self.kernel_thread(at.cpu.machine, at.tid);
        let messages = message.saturating_add(1);
        if let Some((_, most)) = self.i2c_transfers(at.cpu.machine).get_mut(&utid) {
            *most = messages.max(*most);
            return;
        }
        self.i2c_transfers(at.cpu.machine).insert(utid, (adapter, messages));
        let track = self.main_track(at.cpu.machine, utid);
        let name = self.tables.strings.intern(&format!("i2c-{adapter}"));
        self.begin_slice(at.ts, track, None, Some(name), &[]);
    }

    fn i2c_result(&mut self, at: At<'_>, adapter: u32, messages: u32) {
        let utid = self.kernel_thread(at.cpu.machine, at.tid);
        let transfers = self.i2c_transfers(at.cpu.machine);
        if transfers.get(&utid) != Some(&(adapter, messages)) {
            return;
        }
        transfers.remove(&utid);
        let track = self.main_track(at.cpu.machine, utid);
        let name = self.tables.strings.intern(&format!("i2c-{adapter}"));
        self.end_slice(at.ts, track, None, Some(name), &[]);
    }

    fn i2c_transfers(&mut self, machine: MachineId) -> &mut I2cTransfers {
        &mut self.kernel(machine).i2c_transfers
    }
}

fn int(payload: &Payload<'_>, field: u32) -> ArgValue {
    ArgValue::Int(payload.i32(field).into())
}

fn uint32(payload: &Payload<'_>, field: u32) -> ArgValue {
    ArgValue::Uint(payload.u32(field).into())
}

fn uint(payload: &Payload<'_>, field: u32) -> ArgValue {
    ArgValue::Uint(payload.u64(field))
}
