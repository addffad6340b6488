//! Traces for the commands.
#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;

use ferretto_protos::fields::trace_packet as field;
use ferretto_protozero::Message;
use tempfile::TempDir;

/// A trace with `count` instants on a track.
pub(crate) fn trace(count: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut descriptor = Vec::new();
    Message::new(&mut descriptor).bytes(field::TRACK_DESCRIPTOR, b"\x08\x07\x12\x05track");
    Message::new(&mut bytes).bytes(1, &descriptor);
    for n in 0..count {
        let mut packet = Vec::new();
        let mut message = Message::new(&mut packet);
        message.varint(field::TIMESTAMP, 1000 + n);
        message.varint(field::TRUSTED_PACKET_SEQUENCE_ID, 1);
        // An instant on the track 7.
        message.bytes(field::TRACK_EVENT, b"\x48\x03\x58\x07\xba\x01\x04name");
        drop(message);
        Message::new(&mut bytes).bytes(1, &packet);
    }
    bytes
}

/// A folder with a trace.
pub(crate) fn place(count: u64) -> TempDir {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("t.pftrace"), trace(count)).unwrap();
    dir
}
