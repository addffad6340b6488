//! Reads the raw pages of the kernel's ring buffer (`per_cpu/cpuN/trace_pipe_raw`): no allocation, no panic, every byte checked.
//!
//! A page is a 64-bit timestamp, a commit word (length and flags), and records; a record is a word of 5 bits of type or length and
//! 27 bits of time since the previous one, and data. The layout is the kernel's own (`include/linux/ring_buffer.h`,
//! `events/header_event`); what counts as an error follows upstream's `cpu_reader.cc`.

use super::format::PageLayout;

/// Why a page or an event could not be read: `FtraceParseStatus` of upstream's ftrace_stats.proto, by its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ParseStatus {
    /// `read()` on the pipe failed in a way that is not routine.
    UnexpectedReadError = 2,
    /// `read()` gave less than a page.
    PartialPageRead = 3,
    /// The length in the page's header is 0 or leads out of the page.
    InvalidPageHeader = 4,
    /// Fewer than 4 bytes where a record's header should be.
    ShortEventHeader = 5,
    /// Padding without a length inside of the data.
    NullPadding = 6,
    /// Padding whose length word is cut off.
    ShortPaddingLength = 7,
    /// Padding that claims to be smaller than its own length word.
    InvalidPaddingLength = 8,
    /// A time extension whose second word is cut off.
    ShortTimeExtend = 9,
    /// An absolute timestamp whose second word is cut off.
    ShortTimeStamp = 10,
    /// A long record whose length word is cut off.
    ShortDataLength = 11,
    /// A long record of length 0: the rest of the page is zeroes.
    ZeroDataLength = 12,
    /// A long record that claims to be smaller than its own length word.
    InvalidDataLength = 13,
    /// A record too small for an event id.
    ShortEventId = 14,
    /// A record that leads out of the page's data.
    EndOverflow = 15,
    /// A scheduler event shorter than its format says.
    ShortCompactEvent = 16,
    /// Any other event shorter than its format says, or pointing outside of itself.
    InvalidEvent = 17,
}

/// The most bits that a set of [`ParseStatus`] needs.
const STATUSES: u8 = 18;

/// Which errors have been seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParseStatuses(u32);

impl ParseStatuses {
    /// Adds one.
    pub fn insert(&mut self, status: ParseStatus) {
        self.0 |= 1 << status as u8;
    }

    /// The numbers of those seen, in order.
    pub fn numbers(self) -> impl Iterator<Item = u64> {
        (0..STATUSES).filter(move |n| self.0 & (1 << n) != 0).map(u64::from)
    }
}

/// A page whose header made sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page<'a> {
    /// The time that the first record's delta counts from, in ns of the buffer's clock.
    pub timestamp: u64,
    /// The kernel has overwritten events between the previous page and this one.
    pub lost_events: bool,
    /// The records.
    pub data: &'a [u8],
}

/// The commit word's low bits are the length (upstream: cpu_reader.cc; trace-cmd uses the same 27 bits).
const SIZE_MASK: u32 = (1 << 27) - 1;
/// The kernel's `RB_MISSED_EVENTS`.
const MISSED_EVENTS: u32 = 1 << 31;

impl<'a> Page<'a> {
    /// Reads the header of one whole page. The error holds the header's timestamp, if that much could be read.
    pub fn open(page: &'a [u8], layout: PageLayout) -> Result<Self, Option<u64>> {
        let timestamp = read_u64(page, 0).ok_or(None)?;
        // Little endian: the flags and the length are in the low word, whatever the width of the kernel's local_t.
        let commit = read_u32(page, 8).ok_or(Some(timestamp))?;
        let size = (commit & SIZE_MASK) as usize;
        let data =
            page.get(layout.header_size..).and_then(|rest| rest.get(..size)).filter(|data| !data.is_empty());
        Ok(Self { timestamp, lost_events: commit & MISSED_EVENTS != 0, data: data.ok_or(Some(timestamp))? })
    }

    /// The records, in order.
    pub fn records(&self) -> Records<'a> {
        Records { data: self.data, timestamp: self.timestamp }
    }
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// In ns of the buffer's clock.
    pub timestamp: u64,
    /// The event's number: the first two bytes of `payload`.
    pub event_id: u16,
    /// The record from its first byte on; the offsets of the format file count from here.
    pub payload: &'a [u8],
}

/// Iterator over the records of a page; ends after the first error.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    data: &'a [u8],
    timestamp: u64,
}

const TYPE_PADDING: u32 = 29;
const TYPE_TIME_EXTEND: u32 = 30;
const TYPE_TIME_STAMP: u32 = 31;
/// Bits of the time delta in a record's header.
const DELTA_BITS: u32 = 27;

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, ParseStatus>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        while !self.data.is_empty() {
            match self.step() {
                Ok(None) => {}
                Ok(Some(record)) => return Some(Ok(record)),
                Err(status) => {
                    self.data = &[];
                    return Some(Err(status));
                }
            }
        }
        None
    }
}

impl<'a> Records<'a> {
    #[inline]
    fn step(&mut self) -> Result<Option<Record<'a>>, ParseStatus> {
        let header = self.take_u32().ok_or(ParseStatus::ShortEventHeader)?;
        let (kind, delta) = (header & 31, u64::from(header >> 5));
        self.timestamp = self.timestamp.wrapping_add(delta);
        match kind {
            TYPE_PADDING => self.skip_padding(delta)?,
            TYPE_TIME_EXTEND => {
                let high = self.take_u32().ok_or(ParseStatus::ShortTimeExtend)?;
                self.timestamp = self.timestamp.wrapping_add(u64::from(high) << DELTA_BITS);
            }
            TYPE_TIME_STAMP => {
                let high = self.take_u32().ok_or(ParseStatus::ShortTimeStamp)?;
                self.timestamp = (u64::from(high) << DELTA_BITS).wrapping_add(delta);
            }
            0 => {
                let length = self.take_u32().ok_or(ParseStatus::ShortDataLength)?;
                // Seen on some kernels: the header promises data, and the rest of the page is zeroes.
                let length = match length {
                    0 => return Err(ParseStatus::ZeroDataLength),
                    1..4 => return Err(ParseStatus::InvalidDataLength),
                    _ => length as usize - 4,
                };
                return self.record(length).map(Some);
            }
            words => return self.record(4 * words as usize).map(Some),
        }
        Ok(None)
    }

    #[inline]
    fn record(&mut self, length: usize) -> Result<Record<'a>, ParseStatus> {
        let (payload, rest) = self.data.split_at_checked(length).ok_or(ParseStatus::EndOverflow)?;
        self.data = rest;
        let &[low, high, ..] = payload else { return Err(ParseStatus::ShortEventId) };
        Ok(Record { timestamp: self.timestamp, event_id: u16::from_le_bytes([low, high]), payload })
    }

    fn skip_padding(&mut self, delta: u64) -> Result<(), ParseStatus> {
        if delta == 0 {
            return Err(ParseStatus::NullPadding);
        }
        let length = self.take_u32().ok_or(ParseStatus::ShortPaddingLength)?;
        let rest = length.checked_sub(4).ok_or(ParseStatus::InvalidPaddingLength)? as usize;
        // Padding may run past the data: then there is nothing after it.
        self.data = self.data.get(rest..).unwrap_or(&[]);
        Ok(())
    }

    #[inline]
    fn take_u32(&mut self) -> Option<u32> {
        let (word, rest) = self.data.split_first_chunk::<4>()?;
        self.data = rest;
        Some(u32::from_le_bytes(*word))
    }
}

/// The 4 bytes at `offset`, if they are there.
#[inline]
pub fn read_u32(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk::<4>().map(|b| u32::from_le_bytes(*b))
}

/// The 8 bytes at `offset`, if they are there.
#[inline]
pub fn read_u64(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk::<8>().map(|b| u64::from_le_bytes(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: PageLayout = PageLayout::native_64bit(256);

    fn page(commit_flags: u32, words: &[u32]) -> Vec<u8> {
        let mut page = 1000u64.to_le_bytes().to_vec();
        let size = u32::try_from(words.len() * 4).unwrap();
        page.extend((size | commit_flags).to_le_bytes());
        page.extend([0; 4]);
        page.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        page.resize(256, 0);
        page
    }

    fn read(bytes: &[u8]) -> Vec<Result<(u64, u16, usize), ParseStatus>> {
        let page = Page::open(bytes, LAYOUT).unwrap();
        page.records().map(|r| r.map(|r| (r.timestamp, r.event_id, r.payload.len()))).collect()
    }

    const fn header(kind: u32, delta: u32) -> u32 {
        kind | delta << 5
    }

    #[test]
    fn records_of_every_type_are_read_with_their_times() {
        let bytes = page(
            MISSED_EVENTS,
            &[
                header(1, 10),
                7, // one word of payload
                header(TYPE_TIME_EXTEND, 5),
                1, // 5 + 2^27
                header(0, 0),
                8,
                9, // explicit length, itself included
                header(TYPE_PADDING, 1),
                8,
                0xffff_ffff, // a discarded event of one word
                header(TYPE_TIME_STAMP, 3),
                2, // absolute: 3 + 2 * 2^27
                header(2, 4),
                11,
                0,
            ],
        );
        assert!(Page::open(&bytes, LAYOUT).unwrap().lost_events);
        let absolute = 2 << 27;
        assert_eq!(read(&bytes), [Ok((1010, 7, 4)), Ok((1015 + (1 << 27), 9, 4)), Ok((absolute + 7, 11, 8))]);
    }

    #[test]
    fn each_kind_of_damage_has_its_status_and_ends_the_page() {
        use ParseStatus::*;
        let cases: &[(&[u32], ParseStatus)] = &[
            (&[header(TYPE_PADDING, 0), 0], NullPadding),
            (&[header(TYPE_PADDING, 1)], ShortPaddingLength),
            (&[header(TYPE_PADDING, 1), 3], InvalidPaddingLength),
            (&[header(TYPE_TIME_EXTEND, 1)], ShortTimeExtend),
            (&[header(TYPE_TIME_STAMP, 1)], ShortTimeStamp),
            (&[header(0, 1)], ShortDataLength),
            (&[header(0, 1), 0, 0, 0], ZeroDataLength),
            (&[header(0, 1), 2, 0, 0], InvalidDataLength),
            (&[header(0, 1), 4, 0, 0], ShortEventId),
            (&[header(3, 1), 7, 0], EndOverflow),
            (&[header(0, 1), 400, 7], EndOverflow),
        ];
        for (words, status) in cases {
            assert_eq!(read(&page(0, words)), [Err(*status)], "{words:?}");
        }
        let mut cut = page(0, &[header(1, 10), 7]);
        cut[8] += 2;
        assert_eq!(read(&cut), [Ok((1010, 7, 4)), Err(ShortEventHeader)]);
    }

    #[test]
    fn padding_past_the_data_is_the_end() {
        assert_eq!(read(&page(0, &[header(TYPE_PADDING, 1), 4000, 5])), []);
    }

    #[test]
    fn a_header_that_leads_out_of_the_page_is_refused() {
        assert_eq!(Page::open(&[0; 7], LAYOUT), Err(None));
        assert_eq!(Page::open(&page(0, &[]), LAYOUT), Err(Some(1000)));
        let mut too_long = page(0, &[0]);
        too_long[9] = 1;
        assert_eq!(Page::open(&too_long, LAYOUT), Err(Some(1000)));
    }

    proptest::proptest! {
        #[test]
        fn any_page_is_read_to_an_end_without_a_panic(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300), size in 0u32..260,
        ) {
            let mut bytes = bytes;
            if let Some(commit) = bytes.get_mut(8..12) {
                commit.copy_from_slice(&size.to_le_bytes());
            }
            if let Ok(page) = Page::open(&bytes, LAYOUT) {
                proptest::prop_assert!(page.records().count() <= 300);
            }
        }
    }
}
