use super::*;

const BOOT: u64 = 6;
/// Clocks of a sequence's own: one counts differences, the other one does not.
const DIFFERENCES: u64 = 64;
const OWN: u64 = 65;

fn packet(out: &mut Vec<u8>, sequence: u64, fill: impl FnOnce(&mut Message<'_, Vec<u8>>)) {
    let mut body = Vec::new();
    let mut packet = Message::new(&mut body);
    packet.varint(10, sequence);
    fill(&mut packet);
    drop(packet);
    Message::new(out).bytes(1, &body);
}

/// What clocks show at once: which clock, what, and whether it counts differences.
fn snapshot(message: &mut Message<'_, Vec<u8>>, clocks: &[(u64, u64, bool)]) {
    for (id, value, is_incremental) in clocks {
        let mut clock = message.nested(1);
        clock.varint(1, *id);
        clock.varint(2, *value);
        clock.varint(3, u64::from(*is_incremental));
    }
}

fn instant(packet: &mut Message<'_, Vec<u8>>, ts: u64, name: &str) {
    packet.varint(8, ts);
    packet.varint(13, 2);
    let mut event = packet.nested(11);
    event.varint(9, INSTANT);
    event.string(23, name);
}

/// The instants of a trace, and when they are on its clock.
fn instants(trace: &[u8]) -> Vec<(String, i64)> {
    let mut instants = Vec::new();
    // What comes before the first snapshot of its clock is told by a pass that has seen all of them.
    let (walk, _) = pass(trace, Walk::default(), |_, _| Ok(())).unwrap();
    pass(trace, walk.again(), |_, seen| {
        if seen.kind == Kind::TrackEvent {
            let name = TrackEvent::of(seen.head.data.unwrap().1).name_text.unwrap();
            instants.push((String::from_utf8_lossy(name).into_owned(), seen.ts.unwrap()));
        }
        Ok(())
    })
    .unwrap();
    instants
}

fn cut_of(trace: &[u8], from: i64, to: i64) -> Vec<u8> {
    let options =
        Options { from: Some(Moment::Absolute(from)), to: Some(Moment::Absolute(to)), ..Options::default() };
    let mut out = Vec::new();
    cut(trace, "t", &options, &mut out).unwrap();
    out
}

#[test]
fn a_snapshot_of_other_clocks_leaves_a_clock_of_differences_as_it_is() {
    let mut trace = Vec::new();
    packet(&mut trace, 2, |packet| {
        packet.varint(8, 1000);
        packet.varint(58, BOOT);
        packet.varint(13, 1);
        packet.nested(59).varint(58, DIFFERENCES);
        snapshot(&mut packet.nested(6), &[(BOOT, 1000, false), (DIFFERENCES, 1000, true)]);
    });
    packet(&mut trace, 2, |packet| instant(packet, 500, "before"));
    packet(&mut trace, 2, |packet| {
        packet.varint(8, 1600);
        packet.varint(58, BOOT);
        snapshot(&mut packet.nested(6), &[(BOOT, 1600, false), (OWN, 7, false)]);
    });
    packet(&mut trace, 2, |packet| {
        packet.varint(58, OWN);
        instant(packet, 17, "by its own clock");
    });
    packet(&mut trace, 2, |packet| instant(packet, 200, "in the range"));
    let of_whole = instants(&trace);
    assert_eq!(of_whole.last(), Some(&("in the range".to_owned(), 1700)));
    assert_eq!(instants(&cut_of(&trace, 1600, 2000)), of_whole[1..]);
}

/// A machine that is relayed.
const MACHINE: u64 = 7;

/// Two instants of the machine that records.
fn here() -> Vec<u8> {
    let mut trace = Vec::new();
    packet(&mut trace, 1, |packet| snapshot(&mut packet.nested(6), &[(BOOT, 20_000, false)]));
    for ts in [20_000, 30_000] {
        packet(&mut trace, 1, |packet| {
            packet.varint(58, BOOT);
            packet.varint(13, 1);
            instant(packet, ts, "here");
        });
    }
    trace
}

/// It has been on for less long: by its pings, its clock shows 10,000 less.
fn pings(trace: &mut Vec<u8>) {
    packet(trace, 1, |packet| {
        packet.varint(98, MACHINE);
        let mut sync = packet.nested(107);
        for (host, client) in [(20_010, 10_000), (20_030, 10_020)] {
            let mut both = sync.nested(1);
            snapshot(&mut both.nested(2), &[(BOOT, client, false)]);
            snapshot(&mut both.nested(3), &[(BOOT, host, false)]);
        }
    });
}

/// Its own instants, at these times of its clock.
fn there(trace: &mut Vec<u8>, times: [u64; 3]) {
    for ts in times {
        packet(trace, 3, |packet| {
            packet.varint(98, MACHINE);
            packet.varint(58, BOOT);
            packet.varint(13, 1);
            instant(packet, ts, "there");
        });
    }
}

#[test]
fn times_of_another_machine_are_those_that_its_pings_say() {
    let mut trace = here();
    pings(&mut trace);
    there(&mut trace, [11_000, 15_000, 19_000]);
    assert_eq!(instants(&cut_of(&trace, 24_000, 26_000)), [("there".to_owned(), 25_000)]);
}

/// The first pass does not know them when it needs them.
#[test]
fn pings_of_another_machine_may_come_after_its_events() {
    let mut trace = here();
    there(&mut trace, [11_000, 15_000, 19_000]);
    pings(&mut trace);
    for glance_bytes in [100, GRAIN.glance_bytes] {
        let (from, to) = (Some(Moment::Absolute(24_000)), Some(Moment::Absolute(26_000)));
        let options = Options { from, to, ..Options::default() };
        let mut part = Vec::new();
        cut_by(&trace[..], "t", &options, &mut part, Grain { glance_bytes, block_bytes: 1 }).unwrap();
        assert_eq!(instants(&part), [("there".to_owned(), 25_000)], "{glance_bytes}");
    }
}

#[test]
fn without_pings_the_clocks_of_another_machine_are_taken_for_the_same() {
    let mut trace = here();
    there(&mut trace, [21_000, 25_000, 29_000]);
    assert_eq!(instants(&cut_of(&trace, 24_000, 26_000)), [("there".to_owned(), 25_000)]);
}

/// Times of samples that a program takes of itself go on from those of the packet before, whose time may be before the range.
#[test]
fn samples_of_programs_are_all_kept_as_their_times_are_differences() {
    let mut trace = Vec::new();
    for ts in [1000, 2000, 3000] {
        packet(&mut trace, 2, |packet| {
            packet.varint(8, ts);
            packet.nested(54).varint(2, 7);
        });
    }
    let mut samples = 0;
    ferretto_trace_read::Reader::new(&cut_of(&trace, 1500, 2500)[..])
        .for_each(|packet, _| samples += Fields::new(packet).whole().filter(|part| part.number == 54).count())
        .unwrap();
    assert_eq!(samples, 3);
}
