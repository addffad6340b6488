//! Chunks of usual packets, which can be folded without being looked at again.
//!
//! Nearly all packets that programs write are an event, with a time as a difference to the one before and names that were said earlier. All
//! that their sequence's state learns from them is how far its clock has gone. That is found while a chunk is stored, when its bytes are in
//! the cache and are walked in any case, and kept behind its fragments. When the chunk is overwritten, one number is added.

use crate::fragments::{self, OnFragment};
use crate::ring::{Header, Ring};

use super::packet::field;

/// What is kept of a chunk, behind its fragments: how far the clock goes, 8 bytes.
pub(crate) const SUM_BYTES: usize = 8;

/// A packet begins with the tag of its time.
const TIMESTAMP_TAG: u64 = (field::TIMESTAMP as u64) << 3;
/// Behind the time: the flag that says that the packet relies on the state, and the event's tag.
const BEFORE_EVENT: u64 =
    (field::SEQUENCE_FLAGS as u64) << 3 | 2 << 8 | ((field::TRACK_EVENT as u64) << 3 | 2) << 16;
const BEFORE_EVENT_LEN: usize = 3;
/// Differences in time that are longer leave no room in a word for what follows.
const MAX_TIME_LEN: usize = 4;

/// Adds up the times of a chunk's packets, as long as all of them are usual.
#[derive(Debug, Default)]
pub(crate) struct Times {
    sum: u64,
    has_others: bool,
}

impl Times {
    /// How far the clock goes in all, if every packet was a usual one.
    pub(crate) fn sum(&self) -> Option<u64> {
        (!self.has_others).then_some(self.sum)
    }
}

impl OnFragment for Times {
    #[inline(always)]
    fn fragment(&mut self, body: &[u8]) {
        match time_of(body) {
            Some(time) => self.sum = self.sum.wrapping_add(time),
            None => self.has_others = true,
        }
    }
}

/// The time of a usual packet.
#[inline(always)]
fn time_of(packet: &[u8]) -> Option<u64> {
    let word = u64::from_le_bytes(*packet.first_chunk()?);
    let behind_tag = word >> 8;
    let time_len = (!behind_tag & 0x8080_8080).trailing_zeros() as usize / 8 + 1;
    if word & 0xff != TIMESTAMP_TAG || time_len > MAX_TIME_LEN {
        return None;
    }
    if behind_tag >> (8 * time_len) & 0xff_ffff != BEFORE_EVENT {
        return None;
    }
    let rest = packet.get(1 + time_len + BEFORE_EVENT_LEN..)?;
    let ends_with_event = match rest {
        [len @ 0..0x80, event @ ..] => usize::from(*len) == event.len(),
        _ => fragments::read_size(rest).is_some_and(|(len, len_bytes)| {
            Some(len) == rest.len().checked_sub(len_bytes).map(|len| len as u64)
        }),
    };
    ends_with_event.then(|| number_in(behind_tag & ((1 << (8 * time_len)) - 1)))
}

/// A varint of at most four bytes.
#[inline(always)]
fn number_in(bytes: u64) -> u64 {
    bytes & 0x7f | bytes >> 1 & 0x7f << 7 | bytes >> 2 & 0x7f << 14 | bytes >> 3 & 0x7f << 21
}

/// What was kept of the chunk at `at`, if that is a chunk of usual packets.
#[inline]
pub(crate) fn kept(ring: &Ring, at: usize, header: &Header) -> Option<u64> {
    if !header.is_usual {
        return None;
    }
    ring.behind_payload(at, header).first_chunk().map(|sum| u64::from_le_bytes(*sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_packet_is_known_only_if_it_is_a_usual_one() {
        let event = [0x5a, 2, 0x48, 1];
        let usual = |time: &[u8]| [&[0x40], time, &[0x68, 2], &event[..]].concat();
        for (packet, time) in [
            (usual(&[5]), Some(5)),
            (usual(&[0x80, 1]), Some(0x80)),
            (usual(&[0xff, 0xff, 0x7f]), Some(0x1f_ffff)),
            (usual(&[0xff, 0xff, 0xff, 0x7f]), Some(0xfff_ffff)),
            (usual(&[0xff, 0xff, 0xff, 0xff, 1]), None),
            ([&usual(&[5])[..], &[0x58, 1]].concat(), None), // something behind the event
            (vec![0x40, 5, 0x68, 3, 0x5a, 2, 0x48, 1], None), // clears the state
            (vec![0x40, 5, 0x68, 2, 0x62, 2, 0x48, 1], None), // interned data
            (vec![0x40, 5, 0x68, 2, 0x5a, 3, 0x48, 1], None), // the event runs over the end
            (vec![0x40, 5, 0x68, 2, 0x5a, 0x82, 0x80, 0x80, 0, 0x48, 1], Some(5)), // a length in more bytes than it needs
            (vec![0x40, 5, 0x68, 2, 0x5a, 1], None),
        ] {
            assert_eq!(time_of(&packet), time, "{packet:x?}");
        }
    }
}
