//! The program of a filter (upstream: filter_bytecode_parser.cc, filter_bytecode_common.h).
//!
//! A program is a row of 32-bit words, each a varint; the last is a checksum of the others. A word is `field number << 3 | opcode`; some
//! opcodes have an argument, the next word. Messages come one after another, each ended by a word of its own; the first is the root, and
//! the others are named by their index.
//!
//! | opcode | meaning | argument |
//! |---|---|---|
//! | 0 | end of the message | |
//! | 1 | keep the field, a number or bytes | |
//! | 2 | keep a range of such fields | how many |
//! | 3 | keep the field, a message, as the program says of it | its index |
//! | 4 | keep the field, a string, after the rules for strings | |
//! | 5 | the same, with a semantic type for the rules to tell it by | the type |
//!
//! An overlay (from v54 on) adds to a program, for services that know more opcodes than those that read the program alone. It is a row
//! of words of the same form, three for each change: message, field with opcode 1, 4 or 5, argument; in the order of the first two.

use ferretto_protozero::fnv::{fnv1a, fnv1a_on};
use ferretto_protozero::read::PackedVarints;

/// Bytes of a program and of an overlay, each. A config comes in one IPC frame, which is as long.
pub const MAX_BYTECODE_BYTES: usize = 128 * 1024;

/// The greatest semantic type of a field. Upstream cuts off what is above and takes 65,534 and 65,535 for opcodes 4 and 1.
pub const MAX_SEMANTIC_TYPE: u32 = 0xfffd;

/// Fields below this may be looked up directly, others by searching (upstream: `kDirectlyIndexLimit`).
const DIRECT_LIMIT: u32 = 128;
/// They are if the table has no more places than this for each run of fields with the same verdict. Where runs are fewer, the search is
/// short; and three bytes of a program would have a table of hundreds.
const PLACES_PER_RUN: usize = 8;

pub(crate) const OPCODE_BITS: u32 = 3;

pub(crate) mod opcode {
    pub(crate) const END: u32 = 0;
    pub(crate) const KEEP: u32 = 1;
    pub(crate) const KEEP_RANGE: u32 = 2;
    pub(crate) const MESSAGE: u32 = 3;
    pub(crate) const STRING: u32 = 4;
    pub(crate) const TYPED_STRING: u32 = 5;
}

/// A program that was checked: every message it names exists.
///
/// It takes at most thirty times its bytes, whatever it is ([`memory_bytes`](Self::memory_bytes)).
#[derive(Debug, Clone, Default)]
pub struct Bytecode {
    messages: Vec<Message>,
    /// The tables of messages, one after the other.
    places: Vec<Packed>,
    /// The ranges of messages, one after the other.
    ranges: Vec<Range>,
}

/// What becomes of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Drop,
    Keep,
    String {
        semantic_type: u32,
    },
    /// A message, by its index.
    Message(u32),
}

/// A verdict in four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Packed(u32);

impl Packed {
    const DROP: Self = Self(0);
    const KEEP: u32 = 1;
    const STRING: u32 = 2;
    const MESSAGE: u32 = 3;
    const KIND_BITS: u32 = 2;

    /// Both numbers have bits to spare: a program has no more messages than bytes.
    const fn new(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Drop => Self::DROP,
            Verdict::Keep => Self(Self::KEEP),
            Verdict::String { semantic_type } => Self(semantic_type << Self::KIND_BITS | Self::STRING),
            Verdict::Message(index) => Self(index << Self::KIND_BITS | Self::MESSAGE),
        }
    }

    #[inline]
    const fn verdict(self) -> Verdict {
        let number = self.0 >> Self::KIND_BITS;
        match self.0 & ((1 << Self::KIND_BITS) - 1) {
            Self::KEEP => Verdict::Keep,
            Self::STRING => Verdict::String { semantic_type: number },
            Self::MESSAGE => Verdict::Message(number),
            _ => Verdict::Drop,
        }
    }
}

/// Where its fields are among those of the program.
#[derive(Debug, Clone, Copy)]
struct Message {
    /// The table, by field number from 0 on. It is empty, or has all fields below [`DIRECT_LIMIT`].
    places_start: u32,
    places_len: u32,
    /// All other fields, in ascending order and without overlaps.
    ranges_start: u32,
    ranges_len: u32,
}

#[derive(Debug, Clone, Copy)]
struct Range {
    start: u32,
    /// Exclusive.
    end: u32,
    verdict: Packed,
}

/// Which of the two rows of words is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// `bytecode` or `bytecode_v2`.
    Program,
    /// `bytecode_overlay_v54`.
    Overlay,
}

impl std::fmt::Display for Part {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Program => "program",
            Self::Overlay => "overlay",
        })
    }
}

/// Why a program is refused. Words are counted from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum BytecodeError {
    #[error("the program is empty")]
    Empty,
    #[error("the {part} has {len} bytes; {MAX_BYTECODE_BYTES} are the most")]
    TooLong { part: Part, len: usize },
    #[error("the {part} ends within a word, or has one of more than ten bytes")]
    Truncated { part: Part },
    #[error("the {part} has the checksum {found:#010x}, but its words give {expected:#010x}: it was damaged")]
    Checksum { part: Part, expected: u32, found: u32 },
    #[error("{part}, word {word}: a field has the number 0")]
    FieldNumber { part: Part, word: usize },
    #[error("{part}, word {word}: opcode {opcode} is unknown here")]
    Opcode { part: Part, word: usize, opcode: u32 },
    #[error("program, word {word}: the argument of opcode {opcode} is missing")]
    NoArgument { word: usize, opcode: u32 },
    #[error("{part}, word {word}: semantic type {semantic_type} is above {MAX_SEMANTIC_TYPE}")]
    SemanticType { part: Part, word: usize, semantic_type: u32 },
    #[error("program, word {word}: {count} fields from {start} on are more than there are numbers")]
    RangeTooLong { word: usize, start: u32, count: u32 },
    #[error(
        "message {message}: its fields from {start} on come after those up to {end}; they must be in order"
    )]
    Overlap { message: usize, start: u32, end: u32 },
    #[error("the last message of the program has no end")]
    NoEnd,
    #[error("the program names message {index}, but has {count}, counted from 0")]
    NoSuchMessage { index: u32, count: usize },
    #[error("the overlay has {words} words; each of its entries takes three")]
    OverlayLength { words: usize },
    #[error("overlay, word {word}: entries must be in the order of message and field, each once")]
    OverlayOrder { word: usize },
    #[error("the overlay changes message {message}, but the program has {count}, counted from 0")]
    OverlayMessage { message: u32, count: usize },
}

impl Bytecode {
    /// Reads a program, and an overlay unless it is empty.
    pub fn parse(program: &[u8], overlay: &[u8]) -> Result<Self, BytecodeError> {
        if program.is_empty() {
            return Err(BytecodeError::Empty);
        }
        let words = read_words(program, Part::Program)?;
        let overlay = match overlay {
            [] => Vec::new(),
            overlay => read_overlay(&read_words(overlay, Part::Overlay)?)?,
        };
        let built = Self::default();
        let mut parser =
            Parser { words: &words, at: 0, overlay: &overlay, built, current: Building::default() };
        parser.parse()?;
        let mut program = parser.built;
        program.messages.shrink_to_fit();
        program.places.shrink_to_fit();
        program.ranges.shrink_to_fit();
        Ok(program)
    }

    /// The bytes of memory that it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.messages) + size_of_val(&*self.places) + size_of_val(&*self.ranges)
    }

    /// What becomes of a field of a message.
    #[inline]
    pub(crate) fn verdict(&self, message: u32, field: u32) -> Verdict {
        let Some(message) = self.messages.get(message as usize) else { return Verdict::Drop };
        if field < message.places_len {
            let place = self.places.get((message.places_start + field) as usize);
            return place.map_or(Verdict::Drop, |packed| packed.verdict());
        }
        self.find(message, field)
    }

    fn find(&self, message: &Message, field: u32) -> Verdict {
        let start = message.ranges_start as usize;
        let ranges = self.ranges.get(start..start + message.ranges_len as usize).unwrap_or_default();
        let at = ranges.partition_point(|range| range.end <= field);
        match ranges.get(at) {
            Some(range) if range.start <= field => range.verdict.verdict(),
            _ => Verdict::Drop,
        }
    }
}

/// A message whose end has not come yet.
#[derive(Debug)]
struct Building {
    /// The verdicts of fields below [`DIRECT_LIMIT`], which come in any order, the last one counts; those that are set in `present`.
    low: [Packed; DIRECT_LIMIT as usize],
    present: u128,
    /// Of the others, as they came.
    high: Vec<Range>,
}

impl Default for Building {
    fn default() -> Self {
        Self { low: [Packed::DROP; DIRECT_LIMIT as usize], present: 0, high: Vec::new() }
    }
}

impl Building {
    fn add(&mut self, field: u32, verdict: Verdict) {
        let verdict = Packed::new(verdict);
        match self.low.get_mut(field as usize) {
            Some(place) => {
                *place = verdict;
                self.present |= 1 << field;
            }
            None => self.high.push(Range { start: field, end: field + 1, verdict }),
        }
    }

    fn add_range(&mut self, start: u32, end: u32) {
        for field in start..end.min(DIRECT_LIMIT) {
            self.add(field, Verdict::Keep);
        }
        let start = start.max(DIRECT_LIMIT);
        if start < end {
            self.high.push(Range { start, end, verdict: Packed::new(Verdict::Keep) });
        }
    }

    /// Adds the message, the one with this index, to a program, and begins with the next.
    fn end(&mut self, index: usize, program: &mut Bytecode) -> Result<(), BytecodeError> {
        self.check(index)?;
        let (places_start, ranges_start) = (program.places.len(), program.ranges.len());
        self.put_low(program);
        program.ranges.append(&mut self.high);
        self.present = 0;
        program.messages.push(Message {
            places_start: places_start as u32,
            places_len: (program.places.len() - places_start) as u32,
            ranges_start: ranges_start as u32,
            ranges_len: (program.ranges.len() - ranges_start) as u32,
        });
        Ok(())
    }

    /// As a table or as ranges, whichever is small.
    fn put_low(&self, program: &mut Bytecode) {
        let places = (u128::BITS - self.present.leading_zeros()) as usize;
        if places <= PLACES_PER_RUN * self.runs().count() {
            let place = |(field, verdict): (u32, &Packed)| match self.present >> field & 1 {
                0 => Packed::DROP,
                _ => *verdict,
            };
            program.places.extend((0..).zip(&self.low).take(places).map(place));
        } else {
            program.ranges.extend(self.runs());
        }
    }

    /// Fields below [`DIRECT_LIMIT`] that follow each other and have the same verdict.
    fn runs(&self) -> impl Iterator<Item = Range> {
        let mut left = self.present;
        std::iter::from_fn(move || {
            let start = left.trailing_zeros();
            let verdict = *self.low.get(start as usize)?;
            let is_more =
                |field: &u32| left >> field & 1 == 1 && self.low.get(*field as usize) == Some(&verdict);
            let end = start + (start..DIRECT_LIMIT).take_while(is_more).count() as u32;
            left = left.checked_shr(end).unwrap_or(0).checked_shl(end).unwrap_or(0);
            Some(Range { start, end, verdict })
        })
    }

    fn check(&self, index: usize) -> Result<(), BytecodeError> {
        let overlaps = |pair: &[Range]| match *pair {
            [before, after] if after.start < before.end => Some((after.start, before.end)),
            _ => None,
        };
        match self.high.windows(2).find_map(overlaps) {
            Some((start, end)) => Err(BytecodeError::Overlap { message: index, start, end }),
            None => Ok(()),
        }
    }
}

/// The words of a row, without its checksum.
fn read_words(bytes: &[u8], part: Part) -> Result<Vec<u32>, BytecodeError> {
    if bytes.len() > MAX_BYTECODE_BYTES {
        return Err(BytecodeError::TooLong { part, len: bytes.len() });
    }
    // Bits beyond the 32nd are dropped, as upstream does.
    let words: Option<Vec<u32>> =
        PackedVarints::new(bytes).map(|word| word.map(|word| word as u32)).collect();
    let mut words = words.ok_or(BytecodeError::Truncated { part })?;
    let found = words.pop().ok_or(BytecodeError::Truncated { part })?;
    match checksum(&words) {
        expected if expected == found => Ok(words),
        expected => Err(BytecodeError::Checksum { part, expected, found }),
    }
}

/// The low half of FNV-1a over the words as little-endian bytes.
pub(crate) fn checksum(words: &[u32]) -> u32 {
    words.iter().fold(fnv1a(b""), |hash, word| fnv1a_on(hash, &word.to_le_bytes())) as u32
}

struct Change {
    message: u32,
    field: u32,
    verdict: Verdict,
}

fn read_overlay(words: &[u32]) -> Result<Vec<Change>, BytecodeError> {
    let part = Part::Overlay;
    let (entries, []) = words.as_chunks::<3>() else {
        return Err(BytecodeError::OverlayLength { words: words.len() });
    };
    let mut changes: Vec<Change> = Vec::with_capacity(entries.len());
    for (index, &[message, word, argument]) in entries.iter().enumerate() {
        let at = 3 * index + 1;
        let (field, code) = split(word);
        let verdict = match code {
            opcode::KEEP => Verdict::Keep,
            opcode::STRING => Verdict::String { semantic_type: 0 },
            opcode::TYPED_STRING => string_of(argument, part, at + 1)?,
            opcode => return Err(BytecodeError::Opcode { part, word: at, opcode }),
        };
        if field == 0 {
            return Err(BytecodeError::FieldNumber { part, word: at });
        }
        if changes.last().is_some_and(|last| (last.message, last.field) >= (message, field)) {
            return Err(BytecodeError::OverlayOrder { word: at });
        }
        changes.push(Change { message, field, verdict });
    }
    Ok(changes)
}

fn split(word: u32) -> (u32, u32) {
    (word >> OPCODE_BITS, word & ((1 << OPCODE_BITS) - 1))
}

fn string_of(semantic_type: u32, part: Part, word: usize) -> Result<Verdict, BytecodeError> {
    match semantic_type {
        0..=MAX_SEMANTIC_TYPE => Ok(Verdict::String { semantic_type }),
        _ => Err(BytecodeError::SemanticType { part, word, semantic_type }),
    }
}

/// Goes through program and overlay together; both are in the order of messages and fields.
struct Parser<'a> {
    words: &'a [u32],
    at: usize,
    /// What is left of it.
    overlay: &'a [Change],
    built: Bytecode,
    current: Building,
}

impl Parser<'_> {
    fn parse(&mut self) -> Result<(), BytecodeError> {
        let mut has_ended = true;
        let mut greatest_named = None;
        while let Some(&word) = self.words.get(self.at) {
            let at = self.at;
            self.at += 1;
            let (field, code) = split(word);
            has_ended = code == opcode::END;
            if field == 0 && !has_ended {
                return Err(BytecodeError::FieldNumber { part: Part::Program, word: at });
            }
            let verdict = match code {
                opcode::END => {
                    self.end_message()?;
                    continue;
                }
                opcode::KEEP_RANGE => {
                    let count = self.argument(code)?;
                    let too_long = BytecodeError::RangeTooLong { word: at, start: field, count };
                    self.current.add_range(field, field.checked_add(count).ok_or(too_long)?);
                    continue;
                }
                opcode::KEEP => Verdict::Keep,
                opcode::MESSAGE => {
                    let index = self.argument(code)?;
                    greatest_named = greatest_named.max(Some(index));
                    Verdict::Message(index)
                }
                opcode::STRING => Verdict::String { semantic_type: 0 },
                opcode::TYPED_STRING => string_of(self.argument(code)?, Part::Program, at + 1)?,
                opcode => return Err(BytecodeError::Opcode { part: Part::Program, word: at, opcode }),
            };
            let changed = self.overlay_up_to(field);
            self.current.add(field, changed.unwrap_or(verdict));
        }
        if !has_ended {
            return Err(BytecodeError::NoEnd);
        }
        let count = self.built.messages.len();
        if let Some(change) = self.overlay.first() {
            return Err(BytecodeError::OverlayMessage { message: change.message, count });
        }
        match greatest_named {
            Some(index) if index as usize >= count => Err(BytecodeError::NoSuchMessage { index, count }),
            _ => Ok(()),
        }
    }

    fn argument(&mut self, opcode: u32) -> Result<u32, BytecodeError> {
        let missing = BytecodeError::NoArgument { word: self.at - 1, opcode };
        let argument = self.words.get(self.at).ok_or(missing)?;
        self.at += 1;
        Ok(*argument)
    }

    fn end_message(&mut self) -> Result<(), BytecodeError> {
        // No word's field number is that great: all that is left for this message is added.
        self.overlay_up_to(u32::MAX);
        self.current.end(self.built.messages.len(), &mut self.built)
    }

    /// Adds the overlay's fields below this one; says if it changes this one. Ranges do not ask, as upstream's do not: what an overlay has
    /// for fields before a range or in it is added later, and must then be in order with the rest.
    fn overlay_up_to(&mut self, field: u32) -> Option<Verdict> {
        let index = self.built.messages.len();
        while let Some((change, rest)) = self.overlay.split_first()
            && (change.message as usize) == index
            && change.field <= field
        {
            self.overlay = rest;
            if change.field == field {
                return Some(change.verdict);
            }
            self.current.add(change.field, change.verdict);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::assemble;

    fn word(field: u32, opcode: u32) -> u32 {
        field << OPCODE_BITS | opcode
    }

    fn parse(words: &[u32], overlay: &[u32]) -> Result<Bytecode, BytecodeError> {
        let overlay = if overlay.is_empty() { Vec::new() } else { assemble(overlay) };
        Bytecode::parse(&assemble(words), &overlay)
    }

    const STRING: Verdict = Verdict::String { semantic_type: 0 };

    #[test]
    fn each_opcode_says_what_becomes_of_its_fields() {
        let words = [
            word(1, 1),
            word(2, 2),
            3,
            word(7, 3),
            1,
            word(9, 4),
            word(10, 5),
            2,
            word(126, 2),
            5,
            word(500, 4),
            0,
            word(1, 1),
            0,
        ];
        let program = parse(&words, &[]).unwrap();
        let kept: Vec<(u32, Verdict)> = (0..600)
            .map(|field| (field, program.verdict(0, field)))
            .filter(|(_, verdict)| *verdict != Verdict::Drop)
            .collect();
        let mut expected: Vec<(u32, Verdict)> =
            [1, 2, 3, 4].into_iter().map(|field| (field, Verdict::Keep)).collect();
        expected.extend([(7, Verdict::Message(1)), (9, STRING)]);
        expected.push((10, Verdict::String { semantic_type: 2 }));
        expected.extend((126..131).map(|field| (field, Verdict::Keep)));
        expected.push((500, STRING));
        assert_eq!(kept, expected);
        assert_eq!(program.verdict(1, 1), Verdict::Keep);
        assert_eq!(program.verdict(1, 2), Verdict::Drop);
        assert_eq!(program.verdict(2, 1), Verdict::Drop);
        assert_eq!(program.verdict(u32::MAX, u32::MAX), Verdict::Drop);
    }

    /// Fields, and what becomes of them.
    type Kept<'a> = &'a [(u32, Verdict)];

    /// What is a table and what is searched is nobody's concern but the speed's.
    #[test]
    fn fields_in_any_order_have_their_last_verdict() {
        let cases: [(&[u32], Kept<'_>); 5] = [
            (&[word(127, 1), 0], &[(127, Verdict::Keep)]),
            (&[word(127, 4), word(3, 3), 0, 0], &[(3, Verdict::Message(0)), (127, STRING)]),
            (
                &[word(3, 1), word(1, 1), word(2, 4), word(3, 4), 0],
                &[(1, Verdict::Keep), (2, STRING), (3, STRING)],
            ),
            (
                &[word(126, 2), 4, word(127, 4), 0],
                &[(126, Verdict::Keep), (127, STRING), (128, Verdict::Keep), (129, Verdict::Keep)],
            ),
            (&[word(100, 1), word(300, 1), 0], &[(100, Verdict::Keep), (300, Verdict::Keep)]),
        ];
        for (words, expected) in cases {
            let program = parse(words, &[]).unwrap();
            let kept: Vec<(u32, Verdict)> = (0..400)
                .map(|field| (field, program.verdict(0, field)))
                .filter(|(_, verdict)| *verdict != Verdict::Drop)
                .collect();
            assert_eq!(kept, expected, "{words:?}");
        }
    }

    #[test]
    fn a_program_takes_memory_as_its_size_justifies() {
        let far_apart: Vec<u32> = (1..16).map(|field| word(8 * field, 1)).collect();
        let all_but_every_eighth: Vec<u32> =
            [word(1, 2), 127].into_iter().chain((1..16).map(|field| word(8 * field, 4))).collect();
        let messages: [&[u32]; 6] = [
            &[],
            &[word(127, 1)],
            &[word(1, 2), 127],
            &[word(1, 1), word(15, 1)],
            &far_apart,
            &all_but_every_eighth,
        ];
        for message in messages {
            let words = [message, &[0]].concat().repeat(1000);
            let bytes = assemble(&words).len();
            let taken = parse(&words, &[]).unwrap().memory_bytes();
            assert!(taken <= 30 * bytes, "{message:?}: {bytes} bytes take {taken}");
        }
    }

    #[test]
    fn an_overlay_adds_fields_and_changes_them() {
        let words = [word(2, 1), word(5, 4), word(300, 1), 0, word(1, 1), 0];
        let overlay = [
            [0, word(1, 1), 0],
            [0, word(2, 4), 0],
            [0, word(5, 5), 3],
            [0, word(400, 1), 0],
            [1, word(9, 1), 0],
        ]
        .concat();
        let program = parse(&words, &overlay).unwrap();
        for (message, field, expected) in [
            (0, 1, Verdict::Keep),
            (0, 2, STRING),
            (0, 5, Verdict::String { semantic_type: 3 }),
            (0, 300, Verdict::Keep),
            (0, 400, Verdict::Keep),
            (1, 1, Verdict::Keep),
            (1, 9, Verdict::Keep),
            (1, 5, Verdict::Drop),
        ] {
            assert_eq!(program.verdict(message, field), expected, "field {field} of message {message}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        use BytecodeError as Error;
        let cases: [(&[u32], &[u32], Error); 14] = [
            (&[word(0, 1), 0], &[], Error::FieldNumber { part: Part::Program, word: 0 }),
            (&[word(1, 7), 0], &[], Error::Opcode { part: Part::Program, word: 0, opcode: 7 }),
            (&[word(1, 2)], &[], Error::NoArgument { word: 0, opcode: 2 }),
            (&[word(1, 3)], &[], Error::NoArgument { word: 0, opcode: 3 }),
            (&[word(1, 5)], &[], Error::NoArgument { word: 0, opcode: 5 }),
            (&[0, word(1, 1)], &[], Error::NoEnd),
            (&[word(1, 3), 1, 0], &[], Error::NoSuchMessage { index: 1, count: 1 }),
            (&[word(5, 2), u32::MAX, 0], &[], Error::RangeTooLong { word: 0, start: 5, count: u32::MAX }),
            (&[word(200, 2), 10, word(205, 1), 0], &[], Error::Overlap { message: 0, start: 205, end: 210 }),
            (
                &[word(1, 5), 0xfffe, 0],
                &[],
                Error::SemanticType { part: Part::Program, word: 1, semantic_type: 0xfffe },
            ),
            (&[0], &[0, word(1, 1)], Error::OverlayLength { words: 2 }),
            (&[0], &[0, word(1, 3), 0], Error::Opcode { part: Part::Overlay, word: 1, opcode: 3 }),
            (&[0], &[0, word(1, 1), 0, 0, word(1, 4), 0], Error::OverlayOrder { word: 4 }),
            (&[0], &[1, word(1, 1), 0], Error::OverlayMessage { message: 1, count: 1 }),
        ];
        for (words, overlay, expected) in cases {
            assert_eq!(parse(words, overlay).unwrap_err(), expected, "{words:?} {overlay:?}");
        }
        assert_eq!(Bytecode::parse(&[], &[]).unwrap_err(), Error::Empty);
        let whole = assemble(&[word(1, 1), 0]);
        let cut = Bytecode::parse(&whole[..whole.len() - 1], &[]).unwrap_err();
        assert_eq!(cut, Error::Truncated { part: Part::Program });
        let mut damaged = whole;
        damaged[0] ^= 8;
        assert!(matches!(Bytecode::parse(&damaged, &[]), Err(Error::Checksum { .. })));
        let long = vec![0; MAX_BYTECODE_BYTES + 1];
        assert!(matches!(Bytecode::parse(&long, &[]), Err(Error::TooLong { .. })));
    }

    #[test]
    fn the_checksum_is_fnv_1a() {
        assert_eq!(checksum(&[]), 0x8422_2325);
        assert_eq!(checksum(&[word(1, 3), 1, 0, word(8, 1), 0]), 0xeb91_8e6e);
    }
}
