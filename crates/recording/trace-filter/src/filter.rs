//! Applies a filter to messages (upstream: message_filter.cc).

use ferretto_protozero::read::{Field, Fields, ReadError, Value};
use ferretto_protozero::varint;

use crate::bytecode::{Bytecode, Verdict};
use crate::strings::{Place, Redacted, StringFilter};

/// Messages within one another that are kept. Protobuf's parsers take as many; upstream's filter takes any number.
pub const MAX_DEPTH: usize = 100;

/// A filter for one kind of message.
#[derive(Debug, Clone, Default)]
pub struct MessageFilter {
    program: Bytecode,
    strings: StringFilter,
    /// The index of the kind of message.
    root: u32,
}

/// The program does not say what becomes of the messages that were asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the program keeps no message in field {field} on the way {path:?} to the messages that are filtered"
)]
pub struct RootError {
    /// The field.
    pub field: u32,
    /// The whole way.
    pub path: Vec<u32>,
}

/// Why a message is not filtered, and nothing of it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// It is no protobuf message, or one within it is not.
    #[error(transparent)]
    Malformed(#[from] ReadError),
    /// It has more messages within one another than is allowed.
    #[error("messages are nested more than {MAX_DEPTH} deep")]
    TooDeep,
}

impl MessageFilter {
    /// Filters messages as the program's first message says.
    #[must_use]
    pub const fn new(program: Bytecode, strings: StringFilter) -> Self {
        Self { program, strings, root: 0 }
    }

    /// Filters messages that are found at the end of this way instead: fields, each within the one before. The program of a trace config
    /// begins at `Trace`, and its packets are at `[1]`.
    pub fn with_root(mut self, path: &[u32]) -> Result<Self, RootError> {
        for &field in path {
            match self.program.verdict(self.root, field) {
                Verdict::Message(index) => self.root = index,
                _ => return Err(RootError { field, path: path.to_vec() }),
            }
        }
        Ok(self)
    }

    /// Puts what is kept of a message into `kept`, in place of what is there; after an error, nothing. It is never longer than the message.
    ///
    /// Numbers come out in their shortest form. The length of a message within takes as many bytes as the shortest form of what it was.
    ///
    /// # Errors
    /// When the message is none, or too deep.
    pub fn filter(&self, message: &[u8], kept: &mut Vec<u8>) -> Result<(), FilterError> {
        let mut run = self.begin(message, kept);
        self.go_on(&mut run, message, kept, &mut u64::MAX.clone()).map(drop)
    }

    /// Begins to do in steps what [`filter`](Self::filter) does at once.
    pub fn begin(&self, message: &[u8], kept: &mut Vec<u8>) -> FilterRun {
        kept.clear();
        let root = Open { at: 0, end: message.len(), index: self.root, len_at: 0, body_at: 0 };
        FilterRun { current: root, outer: Vec::new(), text: None }
    }

    /// Goes on with the same message and what is kept of it so far, until what may be spent is: bytes of strings times bytes of compiled
    /// rules that are tried on them, and [`FIELD_COST`] for each field. Says whether it has come to the end. After an error it is over, and
    /// nothing is kept.
    ///
    /// # Errors
    /// When the message is none, or too deep.
    pub fn go_on(
        &self,
        run: &mut FilterRun,
        message: &[u8],
        kept: &mut Vec<u8>,
        may_spend: &mut u64,
    ) -> Result<bool, FilterError> {
        let result = self.try_to_go_on(run, message, kept, may_spend);
        if result.is_err() {
            kept.clear();
        }
        result
    }

    fn try_to_go_on(
        &self,
        run: &mut FilterRun,
        message: &[u8],
        kept: &mut Vec<u8>,
        may_spend: &mut u64,
    ) -> Result<bool, FilterError> {
        if let Some(text) = run.text.take()
            && !self.redact(text, run, message, kept, may_spend)
        {
            return Ok(false);
        }
        loop {
            let open = &mut run.current;
            let rest = message.get(open.at..open.end).unwrap_or_default();
            let Some(field) = Fields::new(rest).next() else {
                open.close(kept);
                match run.outer.pop() {
                    Some(parent) => run.current = parent,
                    None => return Ok(true),
                }
                continue;
            };
            if *may_spend == 0 {
                return Ok(false);
            }
            *may_spend = may_spend.saturating_sub(FIELD_COST);
            let field = field?;
            open.at += field.raw.len();
            match self.keep(open, &field, kept) {
                Kept::Field => {}
                Kept::Text(text) => {
                    if !self.redact(text, run, message, kept, may_spend) {
                        return Ok(false);
                    }
                }
                Kept::Message(inner) => {
                    if run.outer.len() >= MAX_DEPTH {
                        return Err(FilterError::TooDeep);
                    }
                    run.outer.push(std::mem::replace(&mut run.current, inner));
                }
            }
        }
    }

    /// Goes on with a string. Says whether that is done; if not, it is what the run has to go on with.
    fn redact(
        &self,
        mut text: Text,
        run: &mut FilterRun,
        message: &[u8],
        kept: &mut [u8],
        may_spend: &mut u64,
    ) -> bool {
        let Some(bytes) = kept.get_mut(text.at..) else { return true };
        let original = message.get(text.from..).and_then(|rest| rest.get(..bytes.len()));
        let Some(original) = original else { return true };
        match self.strings.redact_from(&mut text.place, original, bytes, text.semantic_type, may_spend) {
            Redacted::Yes | Redacted::No => true,
            Redacted::ToBeContinued => {
                run.text = Some(text);
                false
            }
        }
    }

    /// Keeps a field of a message if the program says so, where the message has come to.
    fn keep(&self, message: &Open, field: &Field<'_>, kept: &mut Vec<u8>) -> Kept {
        let verdict = self.program.verdict(message.index, field.number);
        match (verdict, field.value) {
            (Verdict::Drop, _) => {}
            (Verdict::Keep, Value::Varint(value)) => {
                put_tag(field.number, VARINT, kept);
                varint::encode(value, kept);
            }
            (Verdict::Keep, Value::Fixed32(value)) => {
                put_tag(field.number, FIXED32, kept);
                kept.extend_from_slice(&value.to_le_bytes());
            }
            (Verdict::Keep, Value::Fixed64(value)) => {
                put_tag(field.number, FIXED64, kept);
                kept.extend_from_slice(&value.to_le_bytes());
            }
            // A string or message is not a number, whatever the packet says.
            (_, Value::Varint(_) | Value::Fixed32(_) | Value::Fixed64(_)) => {}
            (Verdict::Keep, Value::Bytes(value)) => drop(put_bytes(field.number, value, kept)),
            (Verdict::String { semantic_type }, Value::Bytes(value)) => {
                let at = put_bytes(field.number, value, kept);
                let from = message.at - value.len();
                return Kept::Text(Text { at, from, semantic_type, place: Place::default() });
            }
            (Verdict::Message(index), Value::Bytes(value)) => {
                put_tag(field.number, BYTES, kept);
                let len_at = kept.len();
                varint::encode(value.len() as u64, kept);
                // A field that has bytes ends with them.
                let (at, end) = (message.at - value.len(), message.at);
                return Kept::Message(Open { at, end, index, len_at, body_at: kept.len() });
            }
        }
        Kept::Field
    }
}

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;
const FIXED32: u32 = 5;

fn put_tag(number: u32, wire_type: u32, out: &mut Vec<u8>) {
    varint::encode(u64::from(number << 3 | wire_type), out);
}

/// Gives where the bytes themselves begin.
fn put_bytes(number: u32, value: &[u8], out: &mut Vec<u8>) -> usize {
    put_tag(number, BYTES, out);
    varint::encode(value.len() as u64, out);
    let at = out.len();
    out.extend_from_slice(value);
    at
}

/// What a field costs in the units of [`MessageFilter::go_on`]: as much as matching a short string.
pub const FIELD_COST: u64 = 256;

/// How far filtering a message has come.
#[derive(Debug)]
pub struct FilterRun {
    current: Open,
    outer: Vec<Open>,
    /// A string that rules are still to be tried on.
    text: Option<Text>,
}

/// What has become of a field.
enum Kept {
    /// All is done with it.
    Field,
    Text(Text),
    Message(Open),
}

/// A string at the end of what is kept.
#[derive(Debug)]
struct Text {
    at: usize,
    /// Where it stands in the whole message, as it was.
    from: usize,
    semantic_type: u32,
    /// How far the rules have come with it.
    place: Place,
}

/// A message that is being gone through.
#[derive(Debug)]
struct Open {
    /// What is left of it, in the whole message.
    at: usize,
    end: usize,
    index: u32,
    /// Where the length of what is kept goes: from here to `body_at`. The root has none.
    len_at: usize,
    body_at: usize,
}

impl Open {
    /// Writes the length in as many bytes as are there for it.
    fn close(&self, kept: &mut [u8]) {
        let mut len = kept.len() - self.body_at;
        let Some((last, others)) = kept.get_mut(self.len_at..self.body_at).and_then(<[u8]>::split_last_mut)
        else {
            return;
        };
        for byte in others {
            *byte = (len & 0x7f) as u8 | 0x80;
            len >>= 7;
        }
        *last = len as u8;
    }
}

#[cfg(test)]
mod tests {
    use ferretto_protozero::Message;
    use proptest::prelude::*;

    use super::*;
    use crate::builder::{BytecodeBuilder, assemble};
    use crate::strings::Rule;

    /// Keeps 1 to 3, the string 4, and in 5 a message of the same kind; 200 too.
    fn filter() -> MessageFilter {
        let mut builder = BytecodeBuilder::new();
        let root = builder.message();
        builder.keep_range(root, 1, 3).string(root, 4, 0).nested(root, 5, root).keep(root, 200);
        let built = builder.build().unwrap();
        let program = Bytecode::parse(&built.bytecode_v2, &built.bytecode_overlay_v54).unwrap();
        let mut strings = StringFilter::default();
        strings.add(&Rule { pattern: "secret (.*)", ..Rule::default() }).unwrap();
        MessageFilter::new(program, strings)
    }

    fn check(message: &[u8], expected: &[u8]) {
        let mut kept = vec![1, 2, 3];
        filter().filter(message, &mut kept).unwrap_or_else(|error| panic!("{message:x?}: {error}"));
        assert_eq!(kept, expected, "{message:x?} became {kept:x?}");
    }

    #[test]
    fn only_what_the_program_names_is_kept() {
        check(b"", b"");
        check(b"\x08\x01\x30\x02\x10\x03", b"\x08\x01\x10\x03");
        check(
            b"\x0d\x01\x02\x03\x04\x11\x01\x02\x03\x04\x05\x06\x07\x08",
            b"\x0d\x01\x02\x03\x04\x11\x01\x02\x03\x04\x05\x06\x07\x08",
        );
        check(b"\x35\x01\x02\x03\x04\x31\x01\x02\x03\x04\x05\x06\x07\x08\x32\x02hi", b"");
        check(b"\x0a\x02hi\xc0\x0c\x07", b"\x0a\x02hi\xc0\x0c\x07");
    }

    #[test]
    fn strings_and_messages_are_never_numbers() {
        check(b"\x20\x01\x28\x01\x25\x01\x02\x03\x04\x29\x01\x02\x03\x04\x05\x06\x07\x08", b"");
    }

    #[test]
    fn strings_go_through_the_rules() {
        check(b"\x22\x08secret x\x22\x00\x0a\x08secret x", b"\x22\x08secret P\x22\x00\x0a\x08secret x");
    }

    #[test]
    fn messages_keep_the_size_of_their_lengths() {
        check(b"\x2a\x04\x08\x01\x30\x01", b"\x2a\x02\x08\x01");
        check(b"\x2a\x02\x30\x01\x2a\x00", b"\x2a\x00\x2a\x00");
        // 133 bytes of which 2 are kept.
        let body = [b"\x32\x80\x01", &[7; 128][..], b"\x08\x01"].concat();
        check(&[b"\x2a\x85\x01", &body[..]].concat(), b"\x2a\x82\x00\x08\x01");
        check(b"\x2a\x08\x2a\x04\x08\x01\x30\x01\x10\x02", b"\x2a\x06\x2a\x02\x08\x01\x10\x02");
    }

    #[test]
    fn numbers_come_out_in_their_shortest_form() {
        check(b"\x88\x80\x00\x81\x80\x00", b"\x08\x01");
        check(b"\xaa\x00\x82\x00\x08\x01", b"\x2a\x02\x08\x01");
        check(b"\x8a\x00\x82\x00hi", b"\x0a\x02hi");
    }

    #[test]
    fn nothing_is_kept_of_what_is_malformed() {
        for message in [
            &b"\x08\x01\x08"[..],
            b"\x08\x01\x0b",
            b"\x08\x01\x00\x01",
            b"\x08\x01\x0a\x03hi",
            b"\x08\x01\x2a\x01\x08\x01",
            b"\x08\x01\x30\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
        ] {
            let mut kept = vec![1];
            let result = filter().filter(message, &mut kept);
            assert!(matches!(result, Err(FilterError::Malformed(_))), "{message:x?}: {result:?}");
            assert_eq!(kept, b"");
        }
    }

    #[test]
    fn what_goes_is_not_looked_into() {
        check(b"\x32\x02\x0b\xff\x08\x01", b"\x08\x01");
    }

    #[test]
    fn nesting_ends_somewhere() {
        let nested = |levels| {
            let mut message = Vec::new();
            for _ in 0..levels {
                let mut outer = Vec::new();
                Message::new(&mut outer).bytes(5, &message);
                message = outer;
            }
            message
        };
        let mut kept = Vec::new();
        assert_eq!(filter().filter(&nested(MAX_DEPTH), &mut kept), Ok(()));
        assert_eq!(kept, nested(MAX_DEPTH));
        assert_eq!(filter().filter(&nested(MAX_DEPTH + 1), &mut kept), Err(FilterError::TooDeep));
    }

    #[test]
    fn the_root_may_be_further_in() {
        let program = |words: &[u32]| Bytecode::parse(&assemble(words), &[]).unwrap();
        let words = [1 << 3 | 3, 1, 2 << 3 | 1, 0, 7 << 3 | 1, 0];
        let filter = MessageFilter::new(program(&words), StringFilter::default());
        let mut kept = Vec::new();
        filter.clone().with_root(&[1]).unwrap().filter(b"\x38\x01\x10\x01", &mut kept).unwrap();
        assert_eq!(kept, b"\x38\x01");
        for path in [&[2][..], &[3], &[1, 7]] {
            let error = filter.clone().with_root(path).unwrap_err();
            assert_eq!(error.field, *path.last().unwrap(), "{path:?}");
        }
        assert!(MessageFilter::new(program(&[]), StringFilter::default()).with_root(&[1]).is_err());
    }

    /// As little at a time as there is.
    fn in_steps(message: &[u8]) -> Result<Vec<u8>, FilterError> {
        let (filter, mut kept) = (filter(), vec![1]);
        let mut run = filter.begin(message, &mut kept);
        while !filter.go_on(&mut run, message, &mut kept, &mut 1)? {}
        Ok(kept)
    }

    #[test]
    fn a_message_may_be_filtered_in_steps() {
        let message = b"\x08\x01\x22\x08secret x\x2a\x0c\x08\x01\x22\x08secret x\x22\x06secret";
        let mut at_once = Vec::new();
        filter().filter(message, &mut at_once).unwrap();
        assert_eq!(in_steps(message).unwrap(), at_once);
        let (filter, mut kept) = (filter(), Vec::new());
        let mut run = filter.begin(message, &mut kept);
        let steps = std::iter::repeat_with(|| filter.go_on(&mut run, message, &mut kept, &mut 1).unwrap());
        assert!(steps.take_while(|is_done| !is_done).count() > 5);
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_error_or_less(message in proptest::collection::vec(prop_oneof![any::<u8>(), 0u8..48], 0..300)) {
            let (mut kept, mut again) = (Vec::new(), Vec::new());
            let result = filter().filter(&message, &mut kept);
            prop_assert_eq!(in_steps(&message), result.map(|()| kept.clone()));
            match result {
                Ok(()) => {
                    prop_assert!(kept.len() <= message.len());
                    prop_assert_eq!(filter().filter(&kept, &mut again), Ok(()));
                    // Lengths get shorter once more where a message became much smaller.
                    prop_assert!(again.len() <= kept.len());
                }
                Err(_) => prop_assert!(kept.is_empty()),
            }
        }
    }
}
