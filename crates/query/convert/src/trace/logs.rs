//! Lines of logs, as the journal's; those of Android as its own, where the trace knows the wall's time, which they go by.

use ferretto_protos::fields::systemd_journald_event as journal;
use ferretto_protos::fields::trace_packet::JOURNALD_EVENT;
use ferretto_protozero::Message;
use ferretto_trace_model::logs::android;
use ferretto_trace_tables::{Str, Tables};

use super::number;
use super::sequence::Sequence;
use crate::Error;
use crate::args::{ArgValue, args_of};
use crate::owners::{pid, tid};
use crate::packets::Sink;
use crate::wall_clock::WallClock;

/// `LogEvent`, which only Android writes.
mod event {
    pub(super) const PID: u32 = 2;
    pub(super) const TID: u32 = 3;
    pub(super) const TAG: u32 = 6;
    pub(super) const PRIO: u32 = 7;
    pub(super) const MESSAGE: u32 = 8;
}

/// What the journal says of whoever wrote a line, by the argument's key.
const TEXTS: [(&str, u32); 4] = [
    ("comm", journal::COMM),
    ("systemd_unit", journal::SYSTEMD_UNIT),
    ("hostname", journal::HOSTNAME),
    ("transport", journal::TRANSPORT),
];

pub(super) fn write(tables: &Tables, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut sequence = Sequence::new(number::LOGS);
    let clock = WallClock::of(tables);
    let logs = &tables.logs;
    let mut bytes = Vec::new();
    for row in 0..logs.len() {
        bytes.clear();
        let ts = logs.ts.at(row);
        let source = logs.log_source.at(row).map(|source| tables.strings.get(source));
        if source == Some("android_logcat") && clock.is_known() {
            write_android(tables, row, clock.at(ts), &mut bytes);
            sequence.put(Some(ts), android::ANDROID_LOG, &bytes, sink)?;
        } else {
            write_journal(tables, row, &mut bytes);
            sequence.put(Some(ts), JOURNALD_EVENT, &bytes, sink)?;
        }
    }
    Ok(())
}

/// The numbers of the thread's process, and of the thread.
fn writer(tables: &Tables, row: usize) -> Option<(u64, u64)> {
    let utid = tables.logs.utid.get(row)?;
    let tid = tid(tables, utid);
    let pid = tables.thread.upid.get(utid.index()).map_or(tid, |upid| pid(tables, upid));
    Some((pid.cast_unsigned(), tid.cast_unsigned()))
}

fn text(tables: &Tables, text: Option<Str>) -> Option<&str> {
    text.map(|text| tables.strings.get(text))
}

fn write_android(tables: &Tables, row: usize, wall_ts: i64, bytes: &mut Vec<u8>) {
    let mut packet = Message::new(bytes);
    let mut line = packet.nested(android::EVENTS);
    if let Some((pid, tid)) = writer(tables, row) {
        line.varint(event::PID, pid);
        line.varint(event::TID, tid);
    }
    line.varint(android::TIMESTAMP, wall_ts.cast_unsigned());
    line.varint(event::PRIO, i64::from(tables.logs.prio.at(row)).cast_unsigned());
    if let Some(tag) = text(tables, tables.logs.tag.at(row)) {
        line.string(event::TAG, tag);
    }
    line.string(event::MESSAGE, text(tables, tables.logs.msg.at(row)).unwrap_or_default());
}

fn write_journal(tables: &Tables, row: usize, bytes: &mut Vec<u8>) {
    let mut line = Message::new(bytes);
    if let Some((pid, tid)) = writer(tables, row) {
        line.varint(journal::PID, pid);
        line.varint(journal::TID, tid);
    }
    line.varint(journal::PRIO, i64::from(tables.logs.prio.at(row)).cast_unsigned());
    if let Some(tag) = text(tables, tables.logs.tag.at(row)) {
        line.string(journal::TAG, tag);
    }
    if let Some(message) = text(tables, tables.logs.msg.at(row)) {
        line.string(journal::MESSAGE, message);
    }
    let Some(set) = tables.logs.arg_set_id.get(row) else { return };
    for arg in args_of(tables, set) {
        match (arg.key, arg.value) {
            ("uid", ArgValue::Int(uid)) => line.int(journal::UID, uid),
            (key, ArgValue::Text(text)) => {
                if let Some((_, number)) = TEXTS.iter().find(|(its, _)| *its == key) {
                    line.string(*number, text);
                }
            }
            _ => {}
        }
    }
}
