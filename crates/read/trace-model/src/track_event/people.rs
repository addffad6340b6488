//! Descriptors in their turn: threads and processes begin, and get names (upstream: track_event_parser.cc).

use ferretto_protos::fields::{process_descriptor, thread_descriptor};
use ferretto_protozero::read::{Fields, Value};
use ferretto_trace_tables::{MachineId, Upid, Utid};

use super::descriptor::Message;
use super::resolve::synthetic_tid;
use crate::model::Model;
use crate::processes::{ProcessName, ThreadName};
use crate::stats::Stat;
use crate::wire::{bytes as bytes_of, number as number_of};

impl Model {
    /// Applies `TracePacket.track_descriptor`.
    pub fn apply_track_descriptor(&mut self, message: &[u8], machine: MachineId) {
        let message = Message::read(message);
        let Some(uuid) = message.uuid else { return };
        let track = self.descriptors.slot(machine, uuid);
        if self.scope_of(track).is_none() {
            return self.stats.count(Stat::TrackEventParserErrors);
        }
        if let Some(thread) = message.thread {
            let utid = self.apply_thread_descriptor(thread, machine, message.is_sandboxed_tid());
            if let Some(chrome) = message.chrome_thread {
                self.apply_chrome_thread(machine, utid, chrome);
            }
        } else if let Some(process) = message.process {
            let upid = self.apply_process_descriptor(process, machine);
            if let Some(chrome) = message.chrome_process {
                self.apply_chrome_process(machine, upid, chrome);
            }
        }
    }

    /// Applies a `ThreadDescriptor`, of a track or on its own.
    pub fn apply_thread_descriptor(
        &mut self,
        message: &[u8],
        machine: MachineId,
        is_sandboxed: bool,
    ) -> Utid {
        let pid = i64::from(number_of(message, thread_descriptor::PID).unwrap_or(0) as i32);
        let tid = number_of(message, thread_descriptor::TID).unwrap_or(0) as i64;
        let tid = if is_sandboxed { synthetic_tid(tid, pid) } else { tid };
        let (tables, processes) = self.processes(machine);
        let utid = processes.thread_of(tables, tid, pid);
        if let Some(name) = bytes_of(message, thread_descriptor::THREAD_NAME).filter(|name| !name.is_empty())
        {
            let name = tables.strings.intern_bytes(name);
            processes.name_thread(tables, utid, name, ThreadName::TrackDescriptor);
        }
        utid
    }

    /// Applies a `ProcessDescriptor`, of a track or on its own.
    pub fn apply_process_descriptor(&mut self, message: &[u8], machine: MachineId) -> Upid {
        let pid = i64::from(number_of(message, process_descriptor::PID).unwrap_or(0) as u32);
        let (tables, processes) = self.processes(machine);
        let upid = processes.process(tables, pid);
        if let Some(name) =
            bytes_of(message, process_descriptor::PROCESS_NAME).filter(|name| !name.is_empty())
        {
            let name = tables.strings.intern_bytes(name);
            processes.name_process(tables, upid, name, ProcessName::TrackDescriptor);
        }
        let start = number_of(message, process_descriptor::START_TIMESTAMP_NS).map(|ts| ts as i64);
        if let Some(start) = start.filter(|ts| *ts > 0)
            && tables.process.start_ts.get(upid.index()).is_none()
        {
            tables.process.start_ts.set(upid.index(), Some(start));
        }
        if let Some(kind) = number_of(message, process_descriptor::CHROME_PROCESS_TYPE) {
            self.name_chrome_process(machine, upid, kind);
        }
        let (tables, processes) = self.processes(machine);
        let labels = Fields::new(message).map_while(Result::ok).filter_map(|part| match part.value {
            Value::Bytes(label) if part.number == process_descriptor::PROCESS_LABELS => Some(label),
            _ => None,
        });
        for (index, label) in labels.enumerate() {
            let label = crate::args::ArgValue::Text(tables.strings.intern_bytes(label));
            processes.add_process_arg(tables, upid, &format!("chrome.process_label[{index}]"), label);
        }
        upid
    }
}
