//! Lines of logs: systemd's journal and Android's log (upstream: linux_probes_parser.cc, android_probes_module.cc,
//! android_probes_parser.cc).

use ferretto_protos::fields::systemd_journald_event as journal;
use ferretto_protozero::read::Value;
use ferretto_trace_tables::tables::LogRow;
use ferretto_trace_tables::{MachineId, Str, Utid};

use crate::args::ArgValue;
use crate::model::Model;
use crate::stats::Stat;
use crate::wire;

/// `AndroidLogPacket`, which only Android writes.
pub mod android {
    /// Its number in `TracePacket`.
    pub const ANDROID_LOG: u32 = 39;
    /// `AndroidLogPacket.events`.
    pub const EVENTS: u32 = 1;
    /// `AndroidLogPacket.stats`.
    pub const STATS: u32 = 2;
    /// `LogEvent.timestamp`, on `REALTIME`.
    pub const TIMESTAMP: u32 = 5;
    pub(super) const PID: u32 = 2;
    pub(super) const TID: u32 = 3;
    pub(super) const TAG: u32 = 6;
    pub(super) const PRIO: u32 = 7;
    pub(super) const MESSAGE: u32 = 8;
    pub(super) const ARGS: u32 = 9;
    /// `Arg`.
    pub(super) const NAME: u32 = 1;
    pub(super) const INT_VALUE: u32 = 2;
    pub(super) const FLOAT_VALUE: u32 = 3;
    pub(super) const STRING_VALUE: u32 = 4;
    /// `Stats`.
    pub(super) const NUM_TOTAL: u32 = 1;
    pub(super) const NUM_FAILED: u32 = 2;
    pub(super) const NUM_SKIPPED: u32 = 3;
    /// `PRIO_INFO`.
    pub(super) const INFO: i32 = 4;
}

/// Bytes of arguments in a line. Upstream's.
const MAX_ARG_BYTES: usize = 4096;

impl Model {
    /// Reads `TracePacket.journald_event`: a line, or how many there were.
    pub fn apply_journal(&mut self, ts: i64, machine: MachineId, message: &[u8]) {
        let counts = [
            (journal::NUM_FAILED, Stat::SystemdJournalNumFailed),
            (journal::NUM_TOTAL, Stat::SystemdJournalNumTotal),
        ];
        let mut is_count = false;
        for (number, stat) in counts {
            if let Some(value) = wire::int(message, number) {
                self.stats.set(stat, None, value);
                is_count = true;
            }
        }
        if is_count {
            return;
        }
        let pid = wire::number(message, journal::PID).unwrap_or(0) as u32;
        let tid = wire::number(message, journal::TID).map_or(pid, |tid| tid as u32);
        let utid = (pid != 0).then(|| self.utid(machine, tid, pid));
        let msg = self.text_if_any(wire::bytes(message, journal::MESSAGE));
        let tag = self.text_if_any(wire::bytes(message, journal::TAG));
        let log_source = Some(self.tables.strings.intern("systemd_journald"));
        let prio = wire::number(message, journal::PRIO).unwrap_or(0) as i32;
        let row = self.tables.logs.push(LogRow { ts, utid, prio, log_source, tag, msg, arg_set_id: None });
        let mut args = Vec::new();
        if let Some(uid) = wire::number(message, journal::UID) {
            args.push(self.arg("uid", ArgValue::Int(i64::from(uid as u32))));
        }
        let texts = [
            (journal::COMM, "comm"),
            (journal::SYSTEMD_UNIT, "systemd_unit"),
            (journal::HOSTNAME, "hostname"),
            (journal::TRANSPORT, "transport"),
        ];
        for (number, key) in texts {
            if let Some(text) = wire::bytes(message, number) {
                let text = self.tables.strings.intern_bytes(text);
                args.push(self.arg(key, ArgValue::Text(text)));
            }
        }
        let list = self.args.intern(&args);
        let set = self.args.write(list, &mut self.tables);
        self.tables.logs.arg_set_id.set(row as usize, set);
    }

    /// Reads `AndroidLogPacket.LogEvent`.
    pub fn apply_android_log(&mut self, ts: i64, machine: MachineId, message: &[u8]) {
        let number = |number| wire::number(message, number).unwrap_or(0) as u32;
        let tag = Some(self.text(wire::bytes(message, android::TAG)));
        let msg = self.android_message(message);
        let utid = Some(self.utid(machine, number(android::TID), number(android::PID)));
        let prio = match number(android::PRIO) as i32 {
            0 => android::INFO,
            prio => prio,
        };
        let log_source = Some(self.tables.strings.intern("android_logcat"));
        let row = LogRow { ts, utid, prio, log_source, tag, msg: Some(msg), arg_set_id: None };
        self.tables.logs.push(row);
    }

    /// Reads `AndroidLogPacket.Stats`, when it arrives.
    pub fn read_android_log_stats(&mut self, message: &[u8]) {
        let counts = [
            (android::NUM_FAILED, Stat::AndroidLogNumFailed),
            (android::NUM_SKIPPED, Stat::AndroidLogNumSkipped),
            (android::NUM_TOTAL, Stat::AndroidLogNumTotal),
        ];
        for (number, stat) in counts {
            if let Some(value) = wire::int(message, number) {
                self.stats.set(stat, None, value);
            }
        }
    }

    /// Its text, and its arguments as `name=value`.
    fn android_message(&mut self, message: &[u8]) -> Str {
        let mut text =
            String::from_utf8_lossy(wire::bytes(message, android::MESSAGE).unwrap_or_default()).into_owned();
        let mut args = String::new();
        for arg in wire::all_bytes(message, android::ARGS) {
            let Some(name) = wire::bytes(arg, android::NAME) else { continue };
            args.push_str(&format!(" {}=", String::from_utf8_lossy(name)));
            for part in wire::fields(arg) {
                match (part.number, part.value) {
                    (android::INT_VALUE, Value::Varint(value)) => args.push_str(&(value as i64).to_string()),
                    (android::FLOAT_VALUE, Value::Fixed32(bits)) => {
                        args.push_str(&format!("{:.6}", f32::from_bits(bits)));
                    }
                    (android::STRING_VALUE, Value::Bytes(value)) => {
                        args.push_str(&format!("\"{}\"", String::from_utf8_lossy(value)));
                    }
                    _ => {}
                }
            }
            if args.len() >= MAX_ARG_BYTES {
                break;
            }
        }
        let end = (0..=MAX_ARG_BYTES.min(args.len())).rev().find(|end| args.is_char_boundary(*end));
        let args = args.get(..end.unwrap_or(0)).unwrap_or_default();
        text.push_str(if text.is_empty() { args.trim_start_matches(' ') } else { args });
        self.tables.strings.intern(&text)
    }

    fn utid(&mut self, machine: MachineId, tid: u32, pid: u32) -> Utid {
        let (tables, processes) = self.processes(machine);
        processes.thread_of(tables, i64::from(tid), i64::from(pid))
    }
}
