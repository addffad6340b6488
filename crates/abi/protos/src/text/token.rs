//! Splits a text into tokens, each with its place.

use super::TextError;

/// Where a token stands, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Place {
    pub(super) fn error(self, message: impl Into<String>) -> TextError {
        TextError { line: self.line, column: self.column, message: message.into() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name, or a number: `size_kb`, `RING_BUFFER`, `0x10`, `1.5e3`. A sign is a [`Kind::Punct`].
    Word(String),
    /// A quoted string, its escapes undone.
    Text(Vec<u8>),
    /// One of `: { } < > [ ] , ; - / .`
    Punct(char),
    /// The end of the text.
    End,
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) place: Place,
}

impl Token {
    /// The token as an error message names it.
    pub(super) fn describe(&self) -> String {
        match &self.kind {
            Kind::Word(word) => format!("`{word}`"),
            Kind::Text(text) => format!("the string \"{}\"", String::from_utf8_lossy(text).escape_debug()),
            Kind::Punct(c) => format!("`{c}`"),
            Kind::End => "the end of the text".to_owned(),
        }
    }

    pub(super) fn is(&self, c: char) -> bool {
        self.kind == Kind::Punct(c)
    }
}

const PUNCTUATION: &str = ":{}<>[],;-/.";

pub(super) fn tokenize(text: &str) -> Result<Vec<Token>, TextError> {
    let mut scanner = Scanner { rest: text.chars().peekable(), place: Place { line: 1, column: 1 } };
    let mut tokens = Vec::new();
    loop {
        let token = scanner.token()?;
        let last = token.kind == Kind::End;
        tokens.push(token);
        if last {
            return Ok(tokens);
        }
    }
}

struct Scanner<'t> {
    rest: std::iter::Peekable<std::str::Chars<'t>>,
    place: Place,
}

impl Scanner<'_> {
    fn advance(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        if c == '\n' {
            self.place = Place { line: self.place.line + 1, column: 1 };
        } else {
            self.place.column += 1;
        }
        Some(c)
    }

    fn skip_blank(&mut self) {
        while let Some(&c) = self.rest.peek() {
            if c == '#' {
                while self.rest.peek().is_some_and(|&c| c != '\n') {
                    self.advance();
                }
            } else if c.is_whitespace() || c == '\u{feff}' {
                self.advance();
            } else {
                return;
            }
        }
    }

    fn token(&mut self) -> Result<Token, TextError> {
        self.skip_blank();
        let place = self.place;
        let kind = match self.rest.peek().copied() {
            None => Kind::End,
            Some(quote @ ('"' | '\'')) => Kind::Text(self.quoted(quote, place)?),
            Some(c) if c == '_' || c.is_ascii_alphanumeric() => Kind::Word(self.word()),
            Some(c) if PUNCTUATION.contains(c) => {
                self.advance();
                self.punctuation_or_fraction(c)
            }
            Some(c) => return Err(place.error(format!("unexpected character `{}`", c.escape_debug()))),
        };
        Ok(Token { kind, place })
    }

    /// `.5` is a number; any other dot is punctuation.
    fn punctuation_or_fraction(&mut self, c: char) -> Kind {
        if c == '.' && self.rest.peek().is_some_and(char::is_ascii_digit) {
            return Kind::Word(format!("0.{}", self.word()));
        }
        Kind::Punct(c)
    }

    /// A name, or a number with its fraction and exponent.
    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(&c) = self.rest.peek() {
            let numeric = word.starts_with(|c: char| c.is_ascii_digit());
            let exponent_sign =
                numeric && matches!(c, '+' | '-') && word.ends_with(['e', 'E']) && !word.starts_with("0x");
            if c == '_' || c.is_ascii_alphanumeric() || (numeric && c == '.') || exponent_sign {
                word.push(c);
                self.advance();
            } else {
                break;
            }
        }
        word
    }

    fn quoted(&mut self, quote: char, start: Place) -> Result<Vec<u8>, TextError> {
        self.advance();
        let mut bytes = Vec::new();
        loop {
            match self.rest.peek().copied() {
                None | Some('\n') => {
                    return Err(start.error(format!("this string has no closing {quote} on its line")));
                }
                Some('\\') => self.escape(&mut bytes)?,
                Some(c) => {
                    self.advance();
                    if c == quote {
                        return Ok(bytes);
                    }
                    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), TextError> {
        let place = self.place;
        self.advance();
        let Some(c) = self.advance() else {
            return Err(place.error("an escape at the end of the text"));
        };
        match c {
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            'a' => bytes.push(7),
            'b' => bytes.push(8),
            'f' => bytes.push(12),
            'v' => bytes.push(11),
            '\\' | '\'' | '"' | '?' => bytes.push(c as u8),
            'x' | 'X' => bytes.push(self.escaped_byte("", 16, 2, place)?),
            '0'..='7' => bytes.push(self.escaped_byte(&c.to_string(), 8, 3, place)?),
            'u' => self.escaped_char(4, bytes, place)?,
            'U' => self.escaped_char(8, bytes, place)?,
            _ => return Err(place.error(format!("unknown escape `\\{}`", c.escape_debug()))),
        }
        Ok(())
    }

    fn digits(&mut self, mut digits: String, radix: u32, most: usize) -> String {
        while digits.len() < most && self.rest.peek().is_some_and(|c| c.is_digit(radix)) {
            digits.extend(self.advance());
        }
        digits
    }

    fn escaped_byte(&mut self, first: &str, radix: u32, most: usize, place: Place) -> Result<u8, TextError> {
        let digits = self.digits(first.to_owned(), radix, most);
        u8::from_str_radix(&digits, radix)
            .map_err(|_| place.error("an escape that is no byte; expected \\xHH or \\OOO up to \\377"))
    }

    fn escaped_char(&mut self, length: usize, bytes: &mut Vec<u8>, place: Place) -> Result<(), TextError> {
        let digits = self.digits(String::new(), 16, length);
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
