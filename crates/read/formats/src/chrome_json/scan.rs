//! Finds the events in Chrome's JSON, in pieces as the file comes.
//!
//! A trace is a list of events, `[{…},{…}`, which may lack its end, or an object whose `traceEvents` is that list; stray commas are let
//! pass. Only strings and braces are looked at: what is in an event is read elsewhere, and one that is malformed costs no other.
//!
//! Memory: one event, or one other value of the outer object; both have a bound.

/// An event, or another value of the outer object, is up to so large. Ours: it bounds our memory.
const MAX_VALUE_BYTES: usize = 64 << 20;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// An element of the list of events: an object as it was written.
    Event(&'a [u8]),
    /// A key of the outer object, without its quotes, and its value as it was written.
    Member(&'a [u8], &'a [u8]),
}

/// Where in the file it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing has come but blanks.
    #[default]
    Start,
    /// In the outer object: a key or its end comes.
    Key,
    /// After a key: its value comes.
    Value(Vec<u8>),
    /// In the list of events.
    Events { is_outermost: bool },
    /// It is over.
    End,
    /// It is no JSON, from here on.
    Broken,
}

/// Cuts a file into its events.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    state: State,
    /// What was not enough for an event.
    pending: Vec<u8>,
    /// Where `pending` begins, in bytes from the file's start.
    offset: u64,
    /// How far `pending` was looked at in vain, and what was found there.
    looked: Look,
}

/// How far a value was looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    at: usize,
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
}

impl Scanner {
    /// Takes the next piece; calls `each` with what is whole now and its offset in the file.
    pub(crate) fn push(&mut self, piece: &[u8], each: &mut impl FnMut(Found<'_>, u64)) {
        let mut pending = std::mem::take(&mut self.pending);
        pending.extend_from_slice(piece);
        let mut at = 0;
        while let Some(used) = self.step(pending.get(at..).unwrap_or_default(), each) {
            at += used;
            self.offset += used as u64;
            self.looked = Look::default();
        }
        pending.drain(..at);
        if pending.len() > MAX_VALUE_BYTES {
            self.state = State::Broken;
            pending = Vec::new();
        }
        self.pending = pending;
    }

    /// Whether the file ended where a trace may end: a list needs no end.
    pub(crate) fn is_whole(&self) -> bool {
        match self.state {
            State::End => true,
            State::Events { is_outermost } => {
                is_outermost && self.pending.iter().all(|byte| is_blank(*byte) || *byte == b',')
            }
            _ => false,
        }
    }

    /// Where bytes begin that are no JSON.
    pub(crate) fn broken_at(&self) -> Option<u64> {
        (self.state == State::Broken).then_some(self.offset)
    }

    /// Where what is not whole begins.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Takes one thing from the start of `bytes`; says how many bytes it was. `None` if more are needed, or nothing more comes.
    fn step(&mut self, bytes: &[u8], each: &mut impl FnMut(Found<'_>, u64)) -> Option<usize> {
        let blanks = bytes.iter().take_while(|byte| is_blank(**byte)).count();
        let rest = bytes.get(blanks..).unwrap_or_default();
        let first = *rest.first()?;
        if blanks > 0 && self.looked.at == 0 {
            return Some(blanks);
        }
        match std::mem::take(&mut self.state) {
            State::Start => {
                self.state = match first {
                    b'{' => State::Key,
                    b'[' => State::Events { is_outermost: true },
                    _ => State::Broken,
                };
                (self.state != State::Broken).then_some(1)
            }
            State::Key => self.key(first, rest),
            State::Value(key) => self.value(key, first, rest, each),
            State::Events { is_outermost } => self.event(is_outermost, first, rest, each),
            // A last line's end is no harm.
            State::End => {
                self.state = State::End;
                None
            }
            State::Broken => {
                self.state = State::Broken;
                None
            }
        }
    }

    fn key(&mut self, first: u8, rest: &[u8]) -> Option<usize> {
        self.state = State::Key;
        match first {
            b',' => Some(1),
            b'}' => {
                self.state = State::End;
                Some(1)
            }
            b'"' => {
                let len = self.value_len(rest)?;
                let after = rest.get(len..)?;
                let blanks = after.iter().take_while(|byte| is_blank(**byte)).count();
                match after.get(blanks) {
                    Some(b':') => {
                        let key = rest.get(1..len.saturating_sub(1)).unwrap_or_default();
                        self.state = State::Value(key.to_vec());
                        Some(len + blanks + 1)
                    }
                    Some(_) => self.give_up(),
                    None => None,
                }
            }
            _ => self.give_up(),
        }
    }

    fn value(
        &mut self,
        key: Vec<u8>,
        first: u8,
        rest: &[u8],
        each: &mut impl FnMut(Found<'_>, u64),
    ) -> Option<usize> {
        if key == b"traceEvents" && first == b'[' {
            self.state = State::Events { is_outermost: false };
            return Some(1);
        }
        let Some(len) = self.value_len(rest) else {
            self.state = State::Value(key);
            return None;
        };
        each(Found::Member(&key, rest.get(..len).unwrap_or_default()), self.offset);
        self.state = State::Key;
        Some(len)
    }

    fn event(
        &mut self,
        is_outermost: bool,
        first: u8,
        rest: &[u8],
        each: &mut impl FnMut(Found<'_>, u64),
    ) -> Option<usize> {
        self.state = State::Events { is_outermost };
        match first {
            b',' => Some(1),
            b']' => {
                self.state = if is_outermost { State::End } else { State::Key };
                Some(1)
            }
            b'{' => {
                let len = self.value_len(rest)?;
                each(Found::Event(rest.get(..len).unwrap_or_default()), self.offset);
                Some(len)
            }
            _ => self.give_up(),
        }
    }

    fn give_up(&mut self) -> Option<usize> {
        self.state = State::Broken;
        None
    }

    /// How long the value is that begins here, if it is whole. It goes on where it stopped when there was not enough.
    fn value_len(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut look = self.looked;
        let is_plain = !matches!(bytes.first(), Some(b'{' | b'[' | b'"'));
        while let Some(byte) = bytes.get(look.at) {
            if look.is_in_string {
                match byte {
                    _ if look.is_escaped => look.is_escaped = false,
                    b'\\' => look.is_escaped = true,
                    b'"' => look.is_in_string = false,
                    _ => {}
                }
            } else {
                match byte {
                    b'"' => look.is_in_string = true,
                    b'{' | b'[' => look.depth += 1,
                    b'}' | b']' if look.depth > 0 => look.depth -= 1,
                    // A number or a word ends before what follows it.
                    b'}' | b']' | b',' if is_plain => return Some(look.at),
                    _ => {}
                }
            }
            look.at += 1;
            if look.depth == 0 && !look.is_in_string && !is_plain {
                return Some(look.at);
            }
        }
        self.looked = look;
        None
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}
