use std::collections::BTreeMap;

use super::*;

const CLEARED: u64 = 1;
const NEEDS: u64 = 2;
/// Sequences: always readable; readable from late on, and early only; never readable.
const WHOLE: u64 = 2;
const LATE: u64 = 3;
const EARLY: u64 = 4;
const NEVER: u64 = 5;

fn event(out: &mut Vec<u8>, sequence: u64, ts: u64, flags: u64, drops: bool) {
    let mut body = Vec::new();
    let mut packet = Message::new(&mut body);
    packet.varint(8, ts);
    packet.varint(10, sequence);
    packet.varint(13, flags);
    if drops {
        packet.varint(42, 1);
    }
    let mut event = packet.nested(11);
    event.varint(9, INSTANT);
    event.string(23, "event");
    drop(event);
    drop(packet);
    Message::new(out).bytes(1, &body);
}

/// Of each sequence how many packets rely on what is interned, and whether some, all or none of them can be read.
fn counted(trace: &[u8]) -> BTreeMap<u32, [u32; 2]> {
    let mut counted = BTreeMap::new();
    pass(trace, Walk::default(), |_, seen| {
        if seen.head.needs_state() {
            let [all, skipped] = counted.entry(seen.head.sequence_id).or_default();
            *all += 1;
            *skipped += u32::from(!seen.is_readable);
        }
        Ok(())
    })
    .unwrap();
    counted
}

/// Readers say so of a sequence of which they have to skip all packets.
#[test]
fn the_same_sequences_seem_dropped_as_in_the_whole() {
    let mut trace = Vec::new();
    for ts in (1000..6000).step_by(1000) {
        event(&mut trace, WHOLE, ts, if ts == 1000 { CLEARED } else { NEEDS }, false);
        event(&mut trace, LATE, ts, if ts == 4000 { CLEARED | NEEDS } else { NEEDS }, false);
        event(&mut trace, EARLY, ts, if ts == 1000 { CLEARED | NEEDS } else { NEEDS }, ts == 3000);
        event(&mut trace, NEVER, ts, NEEDS, ts == 3000);
    }
    for from in (1000..6000).step_by(500) {
        for len in [1, 500, 3000] {
            let (_, part) = cut_in(GRAIN, &trace, from - 1000, from - 1000 + len);
            let dropped = counted(&part).into_iter().filter(|(_, [all, skipped])| all == skipped);
            let dropped: Vec<u64> = dropped.map(|(sequence, _)| u64::from(sequence)).collect();
            assert_eq!(dropped, [NEVER], "{from} {len}");
        }
    }
}
