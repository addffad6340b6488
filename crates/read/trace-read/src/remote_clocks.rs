//! `RemoteClockSync`: how the clocks of another machine relate to those of the first (upstream: proto_trace_reader.cc).
//!
//! A round of pings is four snapshots, in turn of the other machine (client) and of the first (host): `c1 h1 c2 h2`. Two round trips are in
//! it, and each says by how much the client's clock is ahead, if both ways take as long:
//!
//! ```text
//! client   c1 ──────╲         ╱──▶ c2 ───╲
//! host               ╲─▶ h1 ─╱            ╲──▶ h2       (c1 + c2)/2 − h1,  c2 − (h1 + h2)/2
//! ```
//!
//! The mean of all counts.

use std::collections::BTreeMap;

use ferretto_protos::fields::clock_snapshot;
use ferretto_protos::fields::remote_clock_sync as field;

use crate::clocks::{BOOTTIME, Clock, MAX_CLOCKS_OF_SNAPSHOT, Machine, Reading};
use crate::wire;

/// Snapshots that follow each other by less belong to one round. Upstream's.
const ROUND_NS: u64 = 30_000_000_000;
/// Pings of one packet. Ours: relays say a few at once.
const MAX_PINGS: usize = 1024;

/// What both machines showed, by clock: host, client.
type Pair = BTreeMap<u32, (u64, u64)>;

/// What a machine's pings say, as snapshots: what its clocks showed at each, and how each stands to the one of the machine `host`.
#[must_use]
pub fn snapshots(message: &[u8], machine: Machine, host: Machine) -> Vec<Vec<Reading>> {
    let mut snapshots = Vec::new();
    let mut pairs = Vec::new();
    for synced in wire::all_bytes(message, field::SYNCED_CLOCKS).take(MAX_PINGS) {
        let clocks = |number| {
            let snapshot = wire::bytes(synced, number).unwrap_or_default();
            let clocks = wire::all_bytes(snapshot, clock_snapshot::CLOCKS).take(MAX_CLOCKS_OF_SNAPSHOT);
            clocks.map(|clock| Reading::read(clock, 0, machine))
        };
        let mut pair = Pair::new();
        for reading in clocks(field::synced_clocks::HOST_CLOCKS) {
            pair.entry(reading.clock.id).or_default().0 = reading.value as u64;
        }
        let mut client = Vec::new();
        for reading in clocks(field::synced_clocks::CLIENT_CLOCKS) {
            pair.entry(reading.clock.id).or_default().1 = reading.value as u64;
            client.push(Reading::new(Clock::of_machine(reading.clock.id, machine), reading.value));
        }
        snapshots.push(client);
        pairs.push(pair);
    }
    let shown = pairs.iter().flatten().filter(|(_, (host, _))| *host != 0);
    let last_shown: BTreeMap<u32, u64> = shown.map(|(id, (host, _))| (*id, *host)).collect();
    for (id, offset) in offsets(&pairs) {
        let anchor = last_shown.get(&id).copied().unwrap_or(0) as i64;
        snapshots.push(vec![
            Reading::new(Clock::of_machine(id, host), anchor),
            Reading::new(Clock::of_machine(id, machine), anchor.wrapping_add(offset)),
        ]);
    }
    snapshots
}

/// By how much each of the client's clocks is ahead.
fn offsets(pairs: &[Pair]) -> Vec<(u32, i64)> {
    let mut sums = BTreeMap::<u32, (i64, i64)>::new();
    for two in pairs.windows(2) {
        let [ping, update] = two else { continue };
        let boot = |pair: &Pair| pair.get(&BOOTTIME).map_or(0, |(_, client)| *client);
        if boot(update).wrapping_sub(boot(ping)) >= ROUND_NS {
            continue;
        }
        for (id, (h1, c1)) in ping {
            let (h2, c2) = update.get(id).copied().unwrap_or_default();
            if [*h1, *c1, h2, c2].contains(&0) {
                continue;
            }
            let middle = |a: u64, b: u64| (a.wrapping_add(b) as i64) / 2;
            let ahead = [middle(*c1, c2).wrapping_sub(*h1 as i64), (c2 as i64).wrapping_sub(middle(*h1, h2))];
            let (sum, count) = sums.entry(*id).or_default();
            *sum = ahead.into_iter().fold(*sum, i64::wrapping_add);
            *count += 2;
        }
    }
    sums.into_iter().map(|(id, (sum, count))| (id, sum / count.max(1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_has_so_many_pings_of_so_many_clocks() {
        let pings = b"\x0a\x00".repeat(100_000);
        assert_eq!(snapshots(&pings, Machine(1), Machine(0)).len(), MAX_PINGS);
        let mut message = Vec::new();
        let clocks = b"\x0a\x02\x08\x06".repeat(1000);
        let mut pings = ferretto_protozero::Message::new(&mut message);
        pings.nested(field::SYNCED_CLOCKS).bytes(field::synced_clocks::CLIENT_CLOCKS, &clocks);
        drop(pings);
        let snapshots = snapshots(&message, Machine(1), Machine(0));
        assert_eq!(snapshots.first().map(Vec::len), Some(MAX_CLOCKS_OF_SNAPSHOT));
    }

    #[test]
    fn the_mean_of_both_round_trips_counts_within_a_round() {
        // The client is 1000 ahead, and a way takes 10.
        let at = |host: u64, client: u64| Pair::from([(BOOTTIME, (host, client)), (1, (0, 5))]);
        assert_eq!(offsets(&[at(5010, 6000), at(5030, 6020)]), [(BOOTTIME, 1000)]);
        let later = ROUND_NS + 6020;
        assert_eq!(offsets(&[at(5010, 6000), at(later, later)]), []);
        assert_eq!(offsets(&[at(u64::MAX, 1), at(1, u64::MAX)]).len(), 0);
    }
}
