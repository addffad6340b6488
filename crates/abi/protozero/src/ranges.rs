//! A sink made of separate small ranges, as shared memory is.

use crate::sink::{LenSlot, MAX_LEN, SMALL_LEN, Sink};
use crate::varint;

/// Writes to ranges of given sizes, one after another, and makes patches for lengths whose range is gone.
///
/// It does on the heap what a trace writer does with chunks of shared memory, so it can prove that messages
/// survive being cut anywhere; nothing else should need it.
///
/// ```
/// use ferretto_protozero::{Message, RangeSink};
///
/// let mut sink = RangeSink::new([8].into_iter().cycle());
/// let mut message = Message::new(&mut sink);
/// message.nested(1).string(2, "over the edge");
/// drop(message);
/// let ranges = sink.into_ranges();
/// assert!(ranges.len() > 1);
/// assert_eq!(ranges[0].patches.len(), 1);
/// let whole: Vec<u8> = ranges.iter().flat_map(|range| range.patched()).collect();
/// assert_eq!(&whole[whole.len() - 4..], b"edge");
/// ```
#[derive(Debug)]
pub struct RangeSink<I> {
    sizes: I,
    ranges: Vec<Range>,
    /// Bytes that fit in the last of `ranges`.
    capacity: usize,
    written: u64,
}

/// One range: the bytes it was left with, and what has to be changed in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The bytes at the time the range was left.
    pub bytes: Vec<u8>,
    /// Lengths that became known later.
    pub patches: Vec<LenPatch>,
}

/// A length that became known after its range was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LenPatch {
    /// Where it goes, from the start of the range.
    pub offset: u32,
    /// The length as a redundant varint.
    pub bytes: [u8; 4],
}

impl Range {
    /// The bytes with all patches applied.
    #[must_use]
    pub fn patched(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for patch in &self.patches {
            let offset = patch.offset as usize;
            if let Some(place) = bytes.get_mut(offset..offset + patch.bytes.len()) {
                place.copy_from_slice(&patch.bytes);
            }
        }
        bytes
    }
}

impl<I: Iterator<Item = usize>> RangeSink<I> {
    /// Starts with an empty range of the first of `sizes`. Sizes below four, which no length fits in, count
    /// as four; when `sizes` ends, the last range grows without end.
    pub fn new(sizes: I) -> Self {
        let mut sink = Self { sizes, ranges: Vec::new(), capacity: 0, written: 0 };
        sink.next_range();
        sink
    }

    /// All ranges, in order.
    #[must_use]
    pub fn into_ranges(self) -> Vec<Range> {
        self.ranges
    }

    fn next_range(&mut self) {
        self.capacity = self.sizes.next().map_or(usize::MAX, |size| size.max(4));
        self.ranges.push(Range::default());
    }

    /// The current range's bytes and how many more fit.
    fn current(&mut self) -> (&mut Vec<u8>, usize) {
        if self.ranges.is_empty() {
            self.ranges.push(Range::default());
        }
        let last = self.ranges.len() - 1;
        let bytes = &mut self.ranges[last].bytes;
        let room = self.capacity.saturating_sub(bytes.len());
        (bytes, room)
    }
}

impl<I: Iterator<Item = usize>> Sink for RangeSink<I> {
    fn write(&mut self, mut bytes: &[u8]) {
        self.written += bytes.len() as u64;
        while !bytes.is_empty() {
            let (range, room) = self.current();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            range.extend_from_slice(now);
            bytes = later;
            if !bytes.is_empty() {
                self.next_range();
            }
        }
    }

    fn write_small(&mut self, bytes: [u8; SMALL_LEN], len: usize) {
        let (range, room) = self.current();
        if room >= SMALL_LEN {
            let end = range.len() + len;
            range.extend_from_slice(&bytes);
            range.truncate(end);
            self.written += len as u64;
        } else {
            self.write(bytes.get(..len).unwrap_or(&bytes));
        }
    }

    fn reserve_len(&mut self) -> LenSlot {
        if self.current().1 < 4 {
            self.next_range();
        }
        let offset = self.current().0.len() as u32;
        self.write(&[0; 4]);
        LenSlot { range: self.ranges.len() as u32 - 1, offset, start: self.written }
    }

    fn close_len(&mut self, slot: LenSlot) {
        let len = self.written - slot.start;
        let offset = slot.offset as usize;
        if slot.range as usize + 1 != self.ranges.len() {
            let bytes = varint::redundant4(len.min(u64::from(MAX_LEN)) as u32);
            if let Some(range) = self.ranges.get_mut(slot.range as usize) {
                range.patches.push(LenPatch { offset: slot.offset, bytes });
            }
            return;
        }
        let (range, _) = self.current();
        if len < 0x80 {
            range.copy_within(offset + 4.., offset + 1);
            range.truncate(offset + 1 + len as usize);
            range[offset] = len as u8;
            self.written -= 3;
        } else {
            range[offset..offset + 4]
                .copy_from_slice(&varint::redundant4(len.min(u64::from(MAX_LEN)) as u32));
        }
    }
}
