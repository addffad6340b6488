//! Cuts a chunk's payload into fragments. Trusts nothing in it.
//!
//! A fragment is its size as a varint, then as many bytes. Whether it is a whole packet or a part of one
//! follows from its place in the chunk and from the chunk's flags.

use crate::chunk_flags::{FIRST_CONTINUES_FROM_PREVIOUS, LAST_CONTINUES_ON_NEXT};

/// In place of a size: the writer gave up the packet that it had begun in an earlier chunk.
///
/// Source: upstream's shared_memory_abi.h, `kPacketSizeDropPacket`.
const SIZE_OF_DROPPED_PACKET: u64 = 0x0fff_ffff;

/// A 64-bit varint has at most ten bytes.
const MAX_VARINT_BYTES: usize = 10;

/// What a fragment is of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Whole,
    Begin,
    Continue,
    End,
}

/// Where a fragment lies in its payload. Offsets fit, since a payload is at most 64 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(crate) kind: Kind,
    /// Where its bytes begin, after the size.
    pub(crate) body_at: usize,
    /// Where its bytes end.
    pub(crate) end: usize,
}

impl Fragment {
    #[inline]
    pub(crate) fn body_size(&self) -> usize {
        self.end - self.body_at
    }
}

/// What is found at an offset of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Fragment(Fragment),
    /// The end of the payload.
    Nothing,
    /// The writer's sign that it gave up a packet. Nothing can follow it.
    GivenUp,
    /// A size that is malformed or runs over the end. Nothing behind it can be found.
    Corrupt,
}

/// Looks at `offset`, where a fragment would begin.
#[inline]
pub(crate) fn fragment_at(payload: &[u8], offset: usize, flags: u8) -> Found {
    let Some(rest) = payload.get(offset..).filter(|rest| !rest.is_empty()) else {
        return Found::Nothing;
    };
    let Some((body_size, size_bytes)) = read_size(rest) else {
        return Found::Corrupt;
    };
    if body_size == SIZE_OF_DROPPED_PACKET {
        return Found::GivenUp;
    }
    if body_size > (rest.len() - size_bytes) as u64 {
        return Found::Corrupt;
    }
    let body_at = offset + size_bytes;
    let end = body_at + body_size as usize;
    Found::Fragment(Fragment { kind: kind(offset == 0, end == payload.len(), flags), body_at, end })
}

#[inline]
fn kind(is_first: bool, is_last: bool, flags: u8) -> Kind {
    let continues_from_previous = is_first && flags & FIRST_CONTINUES_FROM_PREVIOUS != 0;
    let continues_on_next = is_last && flags & LAST_CONTINUES_ON_NEXT != 0;
    match (continues_from_previous, continues_on_next) {
        (false, false) => Kind::Whole,
        (false, true) => Kind::Begin,
        (true, true) => Kind::Continue,
        (true, false) => Kind::End,
    }
}

/// A varint and the bytes it takes; none if it does not end, or not within ten bytes.
///
/// Bits beyond the 64th are dropped, as upstream's `ParseVarInt` does.
#[inline]
pub(crate) fn read_size(bytes: &[u8]) -> Option<(u64, usize)> {
    match read_short_size(bytes) {
        Some((size, size_bytes)) => Some((size as u64, size_bytes)),
        None => read_long_size(bytes),
    }
}

/// The same for a varint of one or two bytes that has another byte behind it; none for all others.
///
/// One way for both lengths: a processor that guesses which it is would guess wrong too often.
#[inline]
fn read_short_size(bytes: &[u8]) -> Option<(usize, usize)> {
    let [first, second, ..] = *bytes else { return None };
    if first & second & 0x80 != 0 {
        return None;
    }
    let is_long = usize::from(first >> 7);
    let high = (usize::from(second) << 7) & is_long.wrapping_neg();
    Some((usize::from(first & 0x7f) | high, 1 + is_long))
}

fn read_long_size(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(MAX_VARINT_BYTES).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    None
}

/// What a chunk's payload holds of the fragments that its header announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Measured {
    /// Bytes of the fragments that could be found.
    pub(crate) size: usize,
    /// Every fragment found is a whole packet, and at least one has bytes.
    pub(crate) plain: bool,
    /// What stood in the place of the first fragment that could not be found, if any.
    pub(crate) missing: Option<Missing>,
}

/// Why there are fewer fragments than announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The writer gave up a packet, and says so.
    GivenUp,
    /// The chunk breaks the rules.
    Violation,
}

/// How far [`skip_short`] has come.
struct Skipped {
    num_left: u16,
    offset: usize,
    bodies_size: usize,
}

/// Looks at fragments while they are found.
pub(crate) trait OnFragment {
    /// The next one's bytes.
    fn fragment(&mut self, body: &[u8]);
}

/// Does not look.
impl OnFragment for () {
    #[inline(always)]
    fn fragment(&mut self, _body: &[u8]) {}
}

/// Passes over fragments of usual sizes. Stops at the first of `num_fragments` that needs a closer look.
///
/// Every chunk that is committed is walked here: this loop is a tenth of the time that storing it takes.
#[inline]
fn skip_short(payload: &[u8], num_fragments: u16, on_fragment: &mut impl OnFragment) -> Skipped {
    let mut skipped = Skipped { num_left: num_fragments, offset: 0, bodies_size: 0 };
    while skipped.num_left > 0
        && let Some((body_size, size_bytes)) = payload.get(skipped.offset..).and_then(read_short_size)
        && let end = skipped.offset + size_bytes + body_size
        && let Some(body) = payload.get(skipped.offset + size_bytes..end)
    {
        on_fragment.fragment(body);
        skipped.offset = end;
        skipped.bodies_size += body_size;
        skipped.num_left -= 1;
    }
    skipped
}

/// Finds the first `num_fragments` fragments.
pub(crate) fn measure(
    payload: &[u8],
    num_fragments: u16,
    flags: u8,
    on_fragment: &mut impl OnFragment,
) -> Measured {
    let Skipped { mut num_left, mut offset, mut bodies_size } =
        skip_short(payload, num_fragments, on_fragment);
    let mut missing = None;
    while num_left > 0 {
        num_left -= 1;
        match fragment_at(payload, offset, 0) {
            Found::Fragment(fragment) => {
                on_fragment.fragment(&payload[fragment.body_at..fragment.end]);
                bodies_size += fragment.body_size();
                offset = fragment.end;
            }
            Found::GivenUp => {
                missing = Some(Missing::GivenUp);
                break;
            }
            Found::Nothing | Found::Corrupt => {
                missing = Some(Missing::Violation);
                break;
            }
        }
    }
    let all_whole = flags & (FIRST_CONTINUES_FROM_PREVIOUS | LAST_CONTINUES_ON_NEXT) == 0;
    Measured { size: offset, plain: all_whole && bodies_size > 0, missing }
}
