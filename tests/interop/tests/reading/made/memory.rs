//! Programs that say where their memory went, as Chrome does: graphs of nodes, and the mappings of processes.

use ferretto_protos::fields::{trace, trace_packet};
use ferretto_protozero::Message;

use super::Numbers;

/// `MemoryTrackerSnapshot` and `SmapsPacket` in `TracePacket`, and their fields.
const MEMORY_TRACKER_SNAPSHOT: u32 = 73;
const SMAPS_PACKET: u32 = 68;
/// `global_dump_id`, `level_of_detail`, `process_memory_dumps`
const SNAPSHOT: (u32, u32, u32) = (1, 2, 3);
const PROCESSES: [u64; 2] = [40, 50];

/// Snapshots of two processes at five times. Memory that both of them use is one's, which the other points to.
pub(crate) fn snapshots() -> Vec<u8> {
    let mut numbers = Numbers::of(3);
    let mut bytes = Vec::new();
    for at in 0..5 {
        let ts = 1_000_000_000 + at * 50_000_000;
        packet(&mut bytes, ts, MEMORY_TRACKER_SNAPSHOT, &snapshot(at, &mut numbers));
        for pid in PROCESSES {
            packet(&mut bytes, ts, SMAPS_PACKET, &smaps(pid, &mut numbers));
        }
    }
    bytes
}

fn packet(to: &mut Vec<u8>, ts: u64, field: u32, data: &[u8]) {
    let packet = message(|packet| {
        packet.varint(trace_packet::TIMESTAMP, ts);
        packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, 1);
        packet.bytes(field, data);
    });
    Message::new(to).bytes(trace::PACKET, &packet);
}

fn message(build: impl FnOnce(&mut Message<'_, Vec<u8>>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    build(&mut Message::new(&mut bytes));
    bytes
}

fn snapshot(at: u64, numbers: &mut Numbers) -> Vec<u8> {
    let (global_dump_id, level_of_detail, process_memory_dumps) = SNAPSHOT;
    message(|snapshot| {
        snapshot.varint(global_dump_id, at + 1);
        snapshot.varint(level_of_detail, at % 3);
        for pid in PROCESSES {
            snapshot.bytes(process_memory_dumps, &process(pid, numbers));
        }
    })
}

/// A process's nodes: a tree by their names, and what is shared with the first process.
fn process(pid: u64, numbers: &mut Numbers) -> Vec<u8> {
    let nodes = ["malloc", "malloc/allocated_objects", "skia/images/1", "skia/images/2", "shared"];
    let id = |at: u64| pid * 100 + at;
    message(|process| {
        process.varint(1, pid);
        for (at, name) in nodes.iter().enumerate() {
            let node = message(|node| {
                node.varint(1, id(at as u64));
                node.bytes(2, name.as_bytes());
                node.varint(4, 4096 * (1 + numbers.below(100)));
                node.bytes(
                    5,
                    &message(|entry| {
                        entry.bytes(1, b"object_count");
                        entry.varint(2, 2);
                        entry.varint(3, numbers.below(1000));
                    }),
                );
                node.bytes(
                    5,
                    &message(|entry| {
                        entry.bytes(1, b"kind");
                        entry.bytes(4, b"written by hand");
                    }),
                );
            });
            process.bytes(2, &node);
        }
        // Objects are part of the allocator's memory.
        process.bytes(3, &edge(id(1), id(0), 0));
        process.bytes(3, &edge(id(4), PROCESSES[0] * 100 + 4, pid / 10));
    })
}

fn edge(source: u64, target: u64, importance: u64) -> Vec<u8> {
    message(|edge| {
        edge.varint(1, source);
        edge.varint(2, target);
        edge.varint(3, importance);
    })
}

fn smaps(pid: u64, numbers: &mut Numbers) -> Vec<u8> {
    message(|packet| {
        packet.varint(1, pid);
        for path in ["/bin/prog", "/lib/libc.so", "[heap]", "/tmp/gone (deleted)"] {
            let entry = message(|entry| {
                entry.bytes(1, path.as_bytes());
                // From `size_kb` on to `swap_kb`.
                for field in 2..=4 {
                    entry.varint(field, numbers.below(500));
                }
            });
            packet.bytes(2, &entry);
        }
    })
}
