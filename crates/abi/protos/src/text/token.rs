//! Splits a text, which may come in pieces, into tokens, each with its place.
//!
//! Memory: the token that is read.

use std::io::{self, BufRead};

use super::TextError;

/// Bytes of a token. Ours: no packet is longer that anybody reads.
const MAX_TOKEN_BYTES: usize = 64 << 20;

/// Why a text that comes in pieces is not read on.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Its bytes cannot be had.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A mistake in it, with its line and column.
    #[error(transparent)]
    Text(#[from] TextError),
}

/// Where a token stands, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl Place {
    /// A mistake that was made here.
    pub fn error(self, message: impl Into<String>) -> TextError {
        TextError { line: self.line, column: self.column, message: message.into() }
    }
}

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A name, or a number: `size_kb`, `RING_BUFFER`, `0x10`, `1.5e3`. A sign is a [`Kind::Punct`].
    Word(String),
    /// A quoted string, its escapes undone.
    Text(Vec<u8>),
    /// One of `: { } < > [ ] , ; - / .`
    Punct(char),
    /// The end of the text.
    End,
}

/// A token.
#[derive(Clone, Debug)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Where it begins.
    pub place: Place,
}

impl Token {
    /// Whether it is this sign.
    pub fn is(&self, punct: char) -> bool {
        self.kind == Kind::Punct(punct)
    }

    /// As an error names it; of a long string its begin.
    pub fn describe(&self) -> String {
        /// Characters of a string that are shown.
        const SHOWN: usize = 40;
        match &self.kind {
            Kind::Word(word) => format!("`{word}`"),
            Kind::Text(text) => {
                let text = String::from_utf8_lossy(text.get(..SHOWN).unwrap_or(text)).into_owned();
                format!("the string \"{}\"", text.escape_debug())
            }
            Kind::Punct(punct) => format!("`{punct}`"),
            Kind::End => "the end of the text".to_owned(),
        }
    }
}

/// All tokens of a text, of which the last is [`Kind::End`].
pub(super) fn tokenize(text: &str) -> Result<Vec<Token>, TextError> {
    let mut tokens = Tokens::new(text.as_bytes());
    let mut all = Vec::new();
    loop {
        let token = tokens.take().map_err(|error| match error {
            ReadError::Text(error) => error,
            ReadError::Io(error) => tokens.place.error(error.to_string()),
        })?;
        let is_last = token.kind == Kind::End;
        all.push(token);
        if is_last {
            return Ok(all);
        }
    }
}

/// Reads tokens one by one.
#[derive(Debug)]
pub struct Tokens<R> {
    text: R,
    place: Place,
    peeked: Option<Token>,
}

impl<R: BufRead> Tokens<R> {
    /// Of `text`, which is UTF-8.
    pub fn new(text: R) -> Self {
        Self { text, place: Place { line: 1, column: 1 }, peeked: None }
    }

    /// The next token, which stays the next. At the end it is [`Kind::End`], for as long as one asks.
    ///
    /// # Errors
    /// A mistake in the text, or none of its bytes can be had.
    pub fn peek(&mut self) -> Result<&Token, ReadError> {
        let token = match self.peeked.take() {
            Some(token) => token,
            None => self.read()?,
        };
        Ok(self.peeked.insert(token))
    }

    /// The next token, which is passed.
    ///
    /// # Errors
    /// As of [`Self::peek`].
    pub fn take(&mut self) -> Result<Token, ReadError> {
        match self.peeked.take() {
            Some(token) => Ok(token),
            None => self.read(),
        }
    }

    /// Passes the next token if it is this sign; whether it is.
    ///
    /// # Errors
    /// As of [`Self::peek`].
    pub fn take_if(&mut self, punct: char) -> Result<bool, ReadError> {
        let is_it = self.peek()?.is(punct);
        if is_it {
            self.peeked = None;
        }
        Ok(is_it)
    }

    fn byte(&mut self) -> Result<Option<u8>, ReadError> {
        loop {
            match self.text.fill_buf() {
                Ok(bytes) => return Ok(bytes.first().copied()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ReadError::Io(error)),
            }
        }
    }

    /// Passes over the byte that [`Self::byte`] has shown.
    fn pass(&mut self, byte: u8) {
        self.text.consume(1);
        match byte {
            b'\n' => self.place = Place { line: self.place.line + 1, column: 1 },
            // Another byte of the same character.
            0x80..=0xbf => {}
            _ => self.place.column += 1,
        }
    }

    fn next_byte(&mut self) -> Result<Option<u8>, ReadError> {
        let byte = self.byte()?;
        if let Some(byte) = byte {
            self.pass(byte);
        }
        Ok(byte)
    }

    fn read(&mut self) -> Result<Token, ReadError> {
        self.pass_blanks()?;
        let place = self.place;
        let kind = match self.byte()? {
            None => Kind::End,
            Some(quote @ (b'"' | b'\'')) => Kind::Text(self.quoted(quote)?),
            Some(b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z') => Kind::Word(self.word(String::new())?),
            Some(punct) if b":{}<>[],;-/.".contains(&punct) => {
                self.pass(punct);
                // `.5` is a number; any other dot is punctuation.
                match self.byte()? {
                    Some(b'0'..=b'9') if punct == b'.' => Kind::Word(self.word("0.".to_owned())?),
                    _ => Kind::Punct(char::from(punct)),
                }
            }
            Some(byte) => return Err(unexpected(char::from(byte), place)),
        };
        Ok(Token { kind, place })
    }

    /// Blanks, and comments up to the ends of their lines.
    fn pass_blanks(&mut self) -> Result<(), ReadError> {
        let mut blanks = Vec::new();
        loop {
            blanks.clear();
            match self.byte()? {
                Some(b'#') => self.run(|byte| byte != b'\n', &mut blanks)?,
                Some(b' ' | b'\t') => self.run(|byte| matches!(byte, b' ' | b'\t'), &mut blanks)?,
                Some(byte) if byte.is_ascii_whitespace() || byte == 0x0b => self.pass(byte),
                Some(0x80..) => self.pass_wide_blank()?,
                _ => return Ok(()),
            }
        }
    }

    /// A blank of other alphabets, or the mark that some editors begin a file with.
    fn pass_wide_blank(&mut self) -> Result<(), ReadError> {
        let place = self.place;
        let mut bytes = Vec::new();
        // The first byte of a character, and those that go on with it.
        while let Some(byte) = self.byte()?.filter(|byte| bytes.is_empty() || matches!(byte, 0x80..=0xbf)) {
            bytes.push(byte);
            self.pass(byte);
            match std::str::from_utf8(&bytes).map(|text| text.chars().next()) {
                Ok(Some(c)) if c.is_whitespace() || c == '\u{feff}' => return Ok(()),
                Ok(Some(c)) => return Err(unexpected(c, place)),
                _ if bytes.len() == 4 => break,
                _ => {}
            }
        }
        Err(unexpected(char::REPLACEMENT_CHARACTER, place))
    }

    /// A name, or a number with its fraction and exponent.
    fn word(&mut self, mut word: String) -> Result<String, ReadError> {
        let start = self.place;
        loop {
            let mut run = Vec::new();
            self.run(|byte| byte == b'_' || byte.is_ascii_alphanumeric(), &mut run)?;
            word.push_str(&String::from_utf8_lossy(&run));
            self.bound(word.len(), start)?;
            let is_number = word.starts_with(|c: char| c.is_ascii_digit());
            let may_be_signed = word.ends_with(['e', 'E']) && !word.starts_with("0x");
            match self.byte()? {
                Some(byte @ b'.') if is_number => {
                    word.push('.');
                    self.pass(byte);
                }
                Some(byte @ (b'+' | b'-')) if is_number && may_be_signed => {
                    word.push(char::from(byte));
                    self.pass(byte);
                }
                _ => return Ok(word),
            }
        }
    }

    /// Takes bytes for as long as they are parts of something; none of them ends a line.
    fn run(&mut self, is_part: impl Fn(u8) -> bool, into: &mut Vec<u8>) -> Result<(), ReadError> {
        while self.byte()?.is_some() {
            let bytes = self.text.fill_buf().map_err(ReadError::Io)?;
            let len = bytes.iter().position(|byte| !is_part(*byte)).unwrap_or(bytes.len());
            let run = bytes.get(..len).unwrap_or_default();
            into.extend_from_slice(run);
            self.place.column += run.iter().filter(|byte| !matches!(byte, 0x80..=0xbf)).count();
            let is_over = len < bytes.len();
            self.text.consume(len);
            if is_over || into.len() >= MAX_TOKEN_BYTES {
                break;
            }
        }
        Ok(())
    }

    fn bound(&self, bytes: usize, start: Place) -> Result<(), ReadError> {
        match bytes < MAX_TOKEN_BYTES {
            true => Ok(()),
            false => Err(start.error(format!("more than {MAX_TOKEN_BYTES} bytes without an end")).into()),
        }
    }

    fn quoted(&mut self, quote: u8) -> Result<Vec<u8>, ReadError> {
        let start = self.place;
        self.pass(quote);
        let mut bytes = Vec::new();
        loop {
            self.bound(bytes.len(), start)?;
            match self.byte()? {
                None | Some(b'\n') => {
                    let quote = char::from(quote);
                    return Err(start
                        .error(format!("this string has no closing {quote} on its line"))
                        .into());
                }
                Some(b'\\') => self.escape(&mut bytes)?,
                Some(byte) if byte == quote => {
                    self.pass(byte);
                    return Ok(bytes);
                }
                Some(_) => self.run(|byte| byte != quote && !matches!(byte, b'\n' | b'\\'), &mut bytes)?,
            }
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), ReadError> {
        let place = self.place;
        self.pass(b'\\');
        let Some(byte) = self.next_byte()? else {
            return Err(place.error("an escape at the end of the text").into());
        };
        match byte {
            b'n' => bytes.push(b'\n'),
            b'r' => bytes.push(b'\r'),
            b't' => bytes.push(b'\t'),
            b'a' => bytes.push(7),
            b'b' => bytes.push(8),
            b'f' => bytes.push(12),
            b'v' => bytes.push(11),
            b'\\' | b'\'' | b'"' | b'?' => bytes.push(byte),
            b'x' | b'X' => bytes.push(self.escaped_byte(String::new(), 16, 2, place)?),
            b'0'..=b'7' => bytes.push(self.escaped_byte(char::from(byte).to_string(), 8, 3, place)?),
            b'u' => self.escaped_char(4, bytes, place)?,
            b'U' => self.escaped_char(8, bytes, place)?,
            _ => {
                return Err(place
                    .error(format!("unknown escape `\\{}`", char::from(byte).escape_debug()))
                    .into());
            }
        }
        Ok(())
    }

    fn digits(&mut self, mut digits: String, radix: u32, most: usize) -> Result<String, ReadError> {
        while let Some(byte) = self.byte()?.filter(|byte| char::from(*byte).is_digit(radix)) {
            if digits.len() >= most {
                break;
            }
            digits.push(char::from(byte));
            self.pass(byte);
        }
        Ok(digits)
    }

    fn escaped_byte(
        &mut self,
        first: String,
        radix: u32,
        most: usize,
        place: Place,
    ) -> Result<u8, ReadError> {
        let digits = self.digits(first, radix, most)?;
        u8::from_str_radix(&digits, radix)
            .map_err(|_| place.error("an escape that is no byte; expected \\xHH or \\OOO up to \\377").into())
    }

    fn escaped_char(&mut self, length: usize, bytes: &mut Vec<u8>, place: Place) -> Result<(), ReadError> {
        let digits = self.digits(String::new(), 16, length)?;
        let c = Some(digits)
            .filter(|digits| digits.len() == length)
            .and_then(|digits| u32::from_str_radix(&digits, 16).ok())
            .and_then(char::from_u32)
            .ok_or_else(|| {
                place.error(format!("an escape that is no character; expected {length} hex digits"))
            })?;
        bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }
}

fn unexpected(c: char, place: Place) -> ReadError {
    place.error(format!("unexpected character `{}`", c.escape_debug())).into()
}
