//! Arguments out of JSON in annotations of the old kind (upstream: json_args.cc, json_parser.h).
//!
//! What cannot be read ends it; what came before stays.

use super::annotation::MAX_DEPTH;
use super::said::{Reader, Unreadable};
use crate::args::ArgValue;

/// Reads a text by the key so far.
pub(super) fn read(reader: &mut Reader<'_>, text: &[u8]) {
    let mut json = Json { rest: text };
    json.skip_blanks();
    let mark = reader.mark();
    // A plain number at the end could go on, so upstream does not take it.
    let _ends_early = match json.rest.first() {
        Some(b'{' | b'[') => json.value(reader, 0),
        Some(b'"' | b't' | b'f') => json.value(reader, 0),
        _ => Ok(()),
    };
    reader.leave(mark);
}

struct Json<'a> {
    rest: &'a [u8],
}

impl Json<'_> {
    fn value(&mut self, reader: &mut Reader<'_>, depth: usize) -> Result<(), Unreadable> {
        if depth >= MAX_DEPTH {
            return Err(Unreadable);
        }
        match self.peek()? {
            b'{' => self.object(reader, depth),
            b'[' => self.array(reader, depth),
            b'"' => {
                let text = self.string()?;
                reader.add_text_here(text.as_bytes());
                Ok(())
            }
            b't' => self.word(b"true").map(|()| reader.add_here(ArgValue::Bool(true))),
            b'f' => self.word(b"false").map(|()| reader.add_here(ArgValue::Bool(false))),
            b'n' => self.word(b"null"),
            _ => self.number().map(|value| reader.add_here(value)),
        }
    }

    fn object(&mut self, reader: &mut Reader<'_>, depth: usize) -> Result<(), Unreadable> {
        self.take(b'{')?;
        if self.peek()? == b'}' {
            return self.take(b'}');
        }
        loop {
            self.skip_blanks();
            let name = self.string()?;
            self.skip_blanks();
            self.take(b':')?;
            self.skip_blanks();
            let mark = reader.mark();
            reader.enter(&name);
            let result = self.value(reader, depth + 1);
            reader.leave(mark);
            result?;
            match self.peek()? {
                b',' => self.take(b',')?,
                _ => return self.take(b'}'),
            }
        }
    }

    fn array(&mut self, reader: &mut Reader<'_>, depth: usize) -> Result<(), Unreadable> {
        self.take(b'[')?;
        if self.peek()? == b']' {
            return self.take(b']');
        }
        loop {
            self.skip_blanks();
            if self.peek()? == b'n' {
                // Nothing is not counted.
                self.word(b"null")?;
            } else {
                let index = reader.next_in_array();
                reader.count_in_array();
                let mark = reader.mark();
                reader.enter_element(index);
                let result = self.value(reader, depth + 1);
                reader.leave(mark);
                result?;
            }
            match self.peek()? {
                b',' => self.take(b',')?,
                _ => return self.take(b']'),
            }
        }
    }

    fn number(&mut self) -> Result<ArgValue, Unreadable> {
        let is_of_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let len = self.rest.iter().take_while(|byte| is_of_number(byte)).count();
        let (text, rest) = self.rest.split_at_checked(len).ok_or(Unreadable)?;
        let text = std::str::from_utf8(text).map_err(|_| Unreadable)?;
        self.rest = rest;
        match text.parse::<i64>() {
            Ok(value) => Ok(ArgValue::Int(value)),
            Err(_) => text.parse().map(ArgValue::Real).map_err(|_| Unreadable),
        }
    }

    fn string(&mut self) -> Result<String, Unreadable> {
        self.take(b'"')?;
        let mut out = Vec::new();
        loop {
            let (byte, rest) = self.rest.split_first().ok_or(Unreadable)?;
            self.rest = rest;
            match byte {
                b'"' => return Ok(String::from_utf8_lossy(&out).into_owned()),
                b'\\' => self.escape(&mut out)?,
                byte => out.push(*byte),
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), Unreadable> {
        let (byte, rest) = self.rest.split_first().ok_or(Unreadable)?;
        self.rest = rest;
        out.push(match byte {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let (digits, rest) = self.rest.split_at_checked(4).ok_or(Unreadable)?;
                self.rest = rest;
                let digits = std::str::from_utf8(digits).map_err(|_| Unreadable)?;
                let code = u32::from_str_radix(digits, 16).map_err(|_| Unreadable)?;
                let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            byte @ (b'"' | b'\\' | b'/') => *byte,
            _ => return Err(Unreadable),
        });
        Ok(())
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Unreadable> {
        self.rest = self.rest.strip_prefix(word).ok_or(Unreadable)?;
        Ok(())
    }

    fn take(&mut self, byte: u8) -> Result<(), Unreadable> {
        self.word(&[byte])
    }

    fn peek(&mut self) -> Result<u8, Unreadable> {
        self.skip_blanks();
        self.rest.first().copied().ok_or(Unreadable)
    }

    fn skip_blanks(&mut self) {
        let blanks = self.rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.rest = self.rest.get(blanks..).unwrap_or_default();
    }
}
