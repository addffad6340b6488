//! `ProcessStats`: samples of what /proc says of processes, as counters of them, and the files that they had open (upstream:
//! system_probes_parser.cc, chrome_system_probes_parser.cc).

use ferretto_protos::fields::process_stats as field;
use ferretto_protos::fields::process_stats::process;
use ferretto_trace_tables::tables::FiledescriptorRow;
use ferretto_trace_tables::{MachineId, Strings, Upid};

use crate::args::ArgValue;
use crate::counters::TrackType;
use crate::model::Model;
use crate::stats::Stat;
use crate::wire;

/// What a number of a process becomes.
struct Counter {
    type_: &'static str,
    /// Its name is this and the key.
    prefix: &'static str,
    /// The dimension, and its value; nothing if the process alone tells it apart.
    key: Option<(&'static str, &'static str)>,
    factor: i64,
}

impl Model {
    /// Reads `TracePacket.process_stats`.
    pub fn apply_process_stats(&mut self, ts: i64, machine: MachineId, message: &[u8]) {
        for process in wire::all_bytes(message, field::PROCESSES) {
            self.process_sample(ts, machine, process);
        }
        // Chrome's come after all others: upstream has a module of its own for them.
        for process in wire::all_bytes(message, field::PROCESSES) {
            self.chrome_sample(ts, machine, process);
        }
    }

    fn process_sample(&mut self, ts: i64, machine: MachineId, message: &[u8]) {
        let pid = pid_of(message);
        for part in wire::fields(message) {
            match part.number {
                process::PID | process::IS_PEAK_RSS_RESETTABLE | process::CHROME_PRIVATE_FOOTPRINT_KB => {}
                process::THREADS => {
                    let thread = part.value.as_bytes().unwrap_or_default();
                    let tid = i64::from(wire::number(thread, field::thread::TID).unwrap_or(0) as u32);
                    let (tables, processes) = self.processes(machine);
                    processes.thread_of(tables, tid, pid);
                }
                process::FDS => self.open_file(ts, machine, pid, part.value.as_bytes().unwrap_or_default()),
                number => {
                    let upid = self.upid(machine, pid);
                    match counter_of(number) {
                        Some(counter) => {
                            let value = part.value.as_u64().unwrap_or(0) as i64;
                            self.count_of_process(ts, machine, upid, &counter, value);
                        }
                        None => self.stats.count(Stat::ProcStatUnknownCounters),
                    }
                }
            }
        }
    }

    fn chrome_sample(&mut self, ts: i64, machine: MachineId, message: &[u8]) {
        let pid = pid_of(message);
        for part in wire::fields(message) {
            let key = match part.number {
                process::CHROME_PRIVATE_FOOTPRINT_KB => "private_footprint_kb",
                process::CHROME_PEAK_RESIDENT_SET_KB => "peak_resident_set_kb",
                _ => continue,
            };
            let upid = self.upid(machine, pid);
            let counter = Counter {
                type_: "chrome_process_stats",
                prefix: "chrome.",
                key: Some(("key", key)),
                factor: 1024,
            };
            let value = part.value.as_u64().unwrap_or(0) as i64;
            self.count_of_process(ts, machine, upid, &counter, value);
        }
    }

    fn count_of_process(&mut self, ts: i64, machine: MachineId, upid: Upid, counter: &Counter, value: i64) {
        let of_process = ("upid", ArgValue::Int(i64::from(upid.0)));
        let track = match counter.key {
            None => {
                let name = |strings: &mut Strings| strings.intern(counter.prefix);
                self.track(machine, TrackType::counter(counter.type_, &[of_process]), name)
            }
            Some((dimension, key)) => {
                let text = self.tables.strings.intern(key);
                let dimensions = [of_process, (dimension, ArgValue::Text(text))];
                let name = |strings: &mut Strings| strings.intern(&[counter.prefix, key].concat());
                self.track(machine, TrackType::counter(counter.type_, &dimensions), name)
            }
        };
        self.push_counter(ts, track, value.wrapping_mul(counter.factor) as f64);
    }

    fn open_file(&mut self, ts: i64, machine: MachineId, pid: i64, message: &[u8]) {
        let path = self.text_if_any(wire::bytes(message, field::fd_info::PATH));
        let upid = self.upid(machine, pid);
        self.tables.filedescriptor.push(FiledescriptorRow {
            // Upstream gives it no number.
            ufd: 0,
            fd: wire::int(message, field::fd_info::FD).unwrap_or(0),
            ts: Some(ts),
            upid: Some(upid),
            path,
        });
    }

    fn upid(&mut self, machine: MachineId, pid: i64) -> Upid {
        let (tables, processes) = self.processes(machine);
        processes.process(tables, pid)
    }
}

fn pid_of(message: &[u8]) -> i64 {
    i64::from(wire::number(message, process::PID).unwrap_or(0) as u32)
}

fn counter_of(number: u32) -> Option<Counter> {
    let memory = |key| Counter {
        type_: "process_memory",
        prefix: "mem.",
        key: Some(("process_memory_key", key)),
        factor: 1024,
    };
    let smaps =
        |key| Counter { type_: "smaps", prefix: "mem.smaps.", key: Some(("smaps_key", key)), factor: 1024 };
    let runtime = |key| Counter {
        type_: "proc_stat_runtime",
        prefix: "runtime.",
        key: Some(("proc_stat_runtime_key", key)),
        factor: 1,
    };
    Some(match number {
        process::VM_SIZE_KB => memory("virt"),
        process::VM_RSS_KB => memory("rss"),
        process::RSS_ANON_KB => memory("rss.anon"),
        process::RSS_FILE_KB => memory("rss.file"),
        process::RSS_SHMEM_KB => memory("rss.shmem"),
        process::VM_SWAP_KB => memory("swap"),
        process::VM_LOCKED_KB => memory("locked"),
        process::VM_HWM_KB => memory("rss.watermark"),
        process::DMABUF_RSS_KB => memory("dmabuf_rss"),
        process::SMR_RSS_KB => smaps("rss"),
        process::SMR_PSS_KB => smaps("pss"),
        process::SMR_PSS_ANON_KB => smaps("pss.anon"),
        process::SMR_PSS_FILE_KB => smaps("pss.file"),
        process::SMR_PSS_SHMEM_KB => smaps("pss.smem"),
        process::SMR_SWAP_PSS_KB => smaps("swap.pss"),
        process::RUNTIME_USER_MODE => runtime("user_ns"),
        process::RUNTIME_KERNEL_MODE => runtime("kernel_ns"),
        process::OOM_SCORE_ADJ => {
            Counter { type_: "oom_score_adj", prefix: "oom_score_adj", key: None, factor: 1 }
        }
        _ => return None,
    })
}
