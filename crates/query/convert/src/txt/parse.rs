//! Text to packets.

use std::io::{self, BufRead, Read};

use ferretto_protos::text::literal::{boolean, float, integer};
use ferretto_protos::text::nearest;
use ferretto_protos::text::token::{Kind as TokenKind, Place, ReadError, Token, Tokens};
use ferretto_protozero::{Message as Writer, varint};

use super::schema::{EnumId, Field, Kind, Message, MessageId, Schema};

/// Messages within messages. Ours: it bounds the depth of our own calls; what we print is not deeper.
const MAX_DEPTH: usize = 100;
/// Bytes of a packet. Ours: readers of traces pass over longer ones.
const MAX_PACKET_BYTES: usize = 64 << 20;
/// `Trace.packet`.
const PACKET: u32 = 1;

type Result<T> = std::result::Result<T, ReadError>;

/// A trace out of its text: to be read as if its file were read.
///
/// ```
/// use std::io::Read;
/// use ferretto_convert::txt::TraceOfText;
///
/// let text = "packet { timestamp: 7  trusted_packet_sequence_id: 1 }";
/// let mut trace = Vec::new();
/// TraceOfText::new(text.as_bytes()).read_to_end(&mut trace)?;
/// assert_eq!(trace, b"\x0a\x04\x40\x07\x50\x01");
///
/// let mistake = TraceOfText::new(&b"packet {\n  timestmp: 7 }"[..]).read_to_end(&mut trace).unwrap_err();
/// assert_eq!(mistake.to_string(), "2:3: unknown field `timestmp` in TracePacket; did you mean `timestamp`?");
/// # Ok::<_, std::io::Error>(())
/// ```
pub struct TraceOfText<R> {
    packets: Packets<R>,
    /// A part of the trace, and how far it was read.
    part: Vec<u8>,
    at: usize,
}

impl<R> std::fmt::Debug for TraceOfText<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceOfText")
            .field("part", &self.part.len())
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl<R: BufRead> TraceOfText<R> {
    /// Reads `text`, which is a trace in protobuf's text format.
    pub fn new(text: R) -> Self {
        Self { packets: Packets::new(text), part: Vec::new(), at: 0 }
    }
}

impl<R: BufRead> Read for TraceOfText<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.at == self.part.len() {
            self.part.clear();
            self.at = 0;
            match self.packets.next_into(&mut self.part) {
                Ok(_) => {}
                Err(ReadError::Io(error)) => return Err(error),
                Err(ReadError::Text(error)) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
        }
        let len = self.part.get(self.at..).unwrap_or_default().read(to)?;
        self.at += len;
        Ok(len)
    }
}

/// Reads packets one by one.
struct Packets<R> {
    tokens: Tokens<R>,
    schema: Schema,
    /// Vectors that were used for messages.
    spare: Vec<Vec<u8>>,
}

/// Which field a name is.
enum Named<'a> {
    Known(&'a Field),
    Number(u32),
}

impl<R: BufRead> Packets<R> {
    fn new(text: R) -> Self {
        Self { tokens: Tokens::new(text), schema: Schema::own(), spare: Vec::new() }
    }

    /// Appends the next packet with its frame; whether there was one.
    fn next_into(&mut self, trace: &mut Vec<u8>) -> Result<bool> {
        let token = self.tokens.take()?;
        let is_packet = match &token.kind {
            TokenKind::End => return Ok(false),
            TokenKind::Word(word) => word == "packet" || word == "1",
            _ => false,
        };
        if !is_packet {
            let found = token.describe();
            return Err(token.place.error(format!("expected `packet` of Trace, found {found}")).into());
        }
        let has_colon = self.tokens.take_if(':')?;
        let mut packet = self.vector();
        if matches!(self.tokens.peek()?.kind, TokenKind::Text(_)) && has_colon {
            packet = self.text("packet")?.0;
        } else {
            let open = self.open("packet")?;
            let id = self.schema.packet();
            // Taken out for as long as a packet is read: it learns between packets only.
            let schema = std::mem::take(&mut self.schema);
            let read = self.message(&schema, id, &open, &mut packet, 0);
            self.schema = schema;
            read?;
        }
        self.separator()?;
        self.schema.learn(&packet);
        Writer::new(trace).bytes(PACKET, &packet);
        self.spare.push(packet);
        Ok(true)
    }

    fn vector(&mut self) -> Vec<u8> {
        let mut vector = self.spare.pop().unwrap_or_default();
        vector.clear();
        vector
    }

    fn separator(&mut self) -> Result<()> {
        if !self.tokens.take_if(',')? {
            self.tokens.take_if(';')?;
        }
        Ok(())
    }

    fn open(&mut self, name: &str) -> Result<Token> {
        let token = self.tokens.take()?;
        if token.is('{') || token.is('<') {
            return Ok(token);
        }
        let found = token.describe();
        Err(token.place.error(format!("expected `{{` after `{name}`, found {found}")).into())
    }

    /// The fields of a message, up to its closing brace.
    fn message(
        &mut self,
        schema: &Schema,
        id: MessageId,
        open: &Token,
        out: &mut Vec<u8>,
        depth: usize,
    ) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(open
                .place
                .error(format!("messages are nested more than {MAX_DEPTH} deep here"))
                .into());
        }
        let Some(described) = schema.message(id) else { return Ok(()) };
        // Values of a list that belong into one field.
        let mut packed = (0, self.vector());
        while let Some(name) = self.next_name(open, &described.name)? {
            let named = self.named(described, name)?;
            if let Named::Known(field) = named
                && field.is_packed
            {
                if packed.0 != field.number {
                    write_packed(&mut packed, out);
                    packed.0 = field.number;
                }
                self.values(schema, field, &mut packed.1, depth)?;
            } else {
                write_packed(&mut packed, out);
                match named {
                    Named::Known(field) => self.values(schema, field, out, depth)?,
                    Named::Number(number) => self.values_of_number(number, out, depth)?,
                }
            }
            if out.len() + packed.1.len() > MAX_PACKET_BYTES {
                return Err(open
                    .place
                    .error(format!("this message has more than {MAX_PACKET_BYTES} bytes"))
                    .into());
            }
            self.separator()?;
        }
        write_packed(&mut packed, out);
        self.spare.push(packed.1);
        Ok(())
    }

    /// The token that a field begins with; nothing at the end of the message.
    fn next_name(&mut self, open: &Token, of: &str) -> Result<Option<Token>> {
        let close = if open.is('<') { '>' } else { '}' };
        let token = self.tokens.take()?;
        match token.kind {
            TokenKind::Punct(punct) if punct == close => Ok(None),
            TokenKind::Word(_) | TokenKind::Punct('[') => Ok(Some(token)),
            TokenKind::End => Err(token
                .place
                .error(format!(
                    "the text ends, but the {} of line {} is not closed; expected `{}`",
                    open.describe(),
                    open.place.line,
                    close
                ))
                .into()),
            _ => Err(token
                .place
                .error(format!("expected a field of {of} or `{}`, found {}", close, token.describe()))
                .into()),
        }
    }

    fn named<'a>(&mut self, of: &'a Message, token: Token) -> Result<Named<'a>> {
        let name = match token.kind {
            TokenKind::Word(word) => word,
            _ => self.extension()?,
        };
        if let Some(field) = of.find(&name).filter(|field| field.kind != Kind::Unknown) {
            return Ok(Named::Known(field));
        }
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            let number = name.parse().ok().filter(|number| (1..1 << 29).contains(number));
            return number.map(Named::Number).ok_or_else(|| {
                token.place.error(format!("`{name}` is no number of a field; expected 1 to 536870911")).into()
            });
        }
        let hint = hint(&name, of.names());
        Err(token.place.error(format!("unknown field `{name}` in {}{hint}", of.name)).into())
    }

    /// `[full.name]`, of which the first bracket was taken.
    fn extension(&mut self) -> Result<String> {
        let mut name = "[".to_owned();
        loop {
            let token = self.tokens.take()?;
            match &token.kind {
                TokenKind::Word(word) => name.push_str(word),
                TokenKind::Punct('.') => name.push('.'),
                TokenKind::Punct(']') => {
                    name.push(']');
                    return Ok(name);
                }
                _ => {
                    let found = token.describe();
                    return Err(token
                        .place
                        .error(format!("expected the name of an extension, found {found}"))
                        .into());
                }
            }
        }
    }

    /// What follows a field's name: one value, or a list of them in brackets.
    fn values(&mut self, schema: &Schema, field: &Field, out: &mut Vec<u8>, depth: usize) -> Result<()> {
        let has_colon = self.tokens.take_if(':')?;
        let token = self.tokens.peek()?;
        let is_message = matches!(field.kind, Kind::Message(_));
        if !has_colon && !is_message {
            let found = token.describe();
            let message = format!("expected `:` and a value after `{}`, found {found}", field.name);
            return Err(token.place.error(message).into());
        }
        if !token.is('[') {
            return self.value(schema, field, out, depth);
        }
        if !field.is_list {
            return Err(token.place.error(format!("`{}` takes one value, not a list", field.name)).into());
        }
        self.tokens.take()?;
        if self.tokens.take_if(']')? {
            return Ok(());
        }
        loop {
            self.value(schema, field, out, depth)?;
            if self.tokens.take_if(']')? {
                return Ok(());
            }
            if !self.tokens.take_if(',')? {
                let token = self.tokens.peek()?;
                let message = format!("expected `,` or `]` in this list, found {}", token.describe());
                return Err(token.place.error(message).into());
            }
        }
    }

    /// One value; of a packed field without its tag.
    fn value(&mut self, schema: &Schema, field: &Field, out: &mut Vec<u8>, depth: usize) -> Result<()> {
        match field.kind {
            Kind::Message(id) => {
                let open = self.open(&field.name)?;
                let mut inside = self.vector();
                self.message(schema, id, &open, &mut inside, depth + 1)?;
                Writer::new(out).bytes(field.number, &inside);
                self.spare.push(inside);
            }
            Kind::Text | Kind::Bytes => {
                let (bytes, _) = self.text(&field.name)?;
                Writer::new(out).bytes(field.number, &bytes);
            }
            Kind::Enum(id) => {
                let value = self.enum_value(schema, field, id)?;
                put(field, Scalar::Varint(i64::from(value).cast_unsigned()), out);
            }
            _ => {
                let value = self.scalar(field)?;
                put(field, value, out);
            }
        }
        Ok(())
    }

    /// Strings that follow one another are one string, as in C.
    fn text(&mut self, name: &str) -> Result<(Vec<u8>, Place)> {
        let token = self.tokens.take()?;
        let TokenKind::Text(mut bytes) = token.kind else {
            let found = token.describe();
            return Err(token
                .place
                .error(format!("expected a string in quotes for `{name}`, found {found}"))
                .into());
        };
        while matches!(self.tokens.peek()?.kind, TokenKind::Text(_)) {
            if let TokenKind::Text(more) = self.tokens.take()?.kind {
                bytes.extend_from_slice(&more);
            }
            if bytes.len() > MAX_PACKET_BYTES {
                return Err(token
                    .place
                    .error(format!("this string has more than {MAX_PACKET_BYTES} bytes"))
                    .into());
            }
        }
        Ok((bytes, token.place))
    }

    /// A word, whether it is negative, and its place with the sign.
    fn signed(&mut self, expected: &str, name: &str) -> Result<(bool, String, Place)> {
        let place = self.tokens.peek()?.place;
        let is_negative = self.tokens.take_if('-')?;
        let token = self.tokens.take()?;
        match token.kind {
            TokenKind::Word(word) => Ok((is_negative, word, place)),
            _ => Err(place
                .error(format!("expected {expected} for `{name}`, found {}", token.describe()))
                .into()),
        }
    }

    fn enum_value(&mut self, schema: &Schema, field: &Field, id: EnumId) -> Result<i32> {
        let Some(described) = schema.enumeration(id) else { return Ok(0) };
        let expected = format!("a value of {}", described.name);
        let (is_negative, word, place) = self.signed(&expected, &field.name)?;
        if let Some(number) = integer(&word, is_negative) {
            return i32::try_from(number).map_err(|_| {
                place
                    .error(format!("`{word}` is out of range for `{}`; expected {expected}", field.name))
                    .into()
            });
        }
        described.number_of(&word).filter(|_| !is_negative).ok_or_else(|| {
            let hint = hint(&word, described.names());
            place.error(format!("unknown value `{word}` of {}{hint}", described.name)).into()
        })
    }

    fn scalar(&mut self, field: &Field) -> Result<Scalar> {
        let expected = expectation(field.kind);
        let (is_negative, word, place) = self.signed(expected, &field.name)?;
        let sign = if is_negative { "-" } else { "" };
        let wrong = || place.error(format!("expected {expected} for `{}`, found `{sign}{word}`", field.name));
        let range = || {
            place.error(format!("`{sign}{word}` is out of range for `{}`; expected {expected}", field.name))
        };
        let integer = || integer(&word, is_negative).ok_or_else(wrong);
        let i32 = || i32::try_from(integer()?).map_err(|_| range());
        let i64 = || i64::try_from(integer()?).map_err(|_| range());
        let u32 = || u32::try_from(integer()?).map_err(|_| range());
        let u64 = || u64::try_from(integer()?).map_err(|_| range());
        Ok(match field.kind {
            Kind::Double => Scalar::Fixed64(float(&word, is_negative).ok_or_else(wrong)?.to_bits()),
            Kind::Float => {
                // A narrow field takes the nearest value.
                let value = float(&word, is_negative).ok_or_else(wrong)? as f32;
                Scalar::Fixed32(value.to_bits())
            }
            Kind::Bool => Scalar::Varint(boolean(&word).filter(|_| !is_negative).ok_or_else(wrong)?.into()),
            Kind::Int32 => Scalar::Varint(i64::from(i32()?).cast_unsigned()),
            Kind::Int64 => Scalar::Varint(i64()?.cast_unsigned()),
            Kind::Uint32 => Scalar::Varint(u32()?.into()),
            Kind::Sint32 => Scalar::Varint(varint::zigzag(i32()?.into())),
            Kind::Sint64 => Scalar::Varint(varint::zigzag(i64()?)),
            Kind::Fixed32 => Scalar::Fixed32(u32()?),
            Kind::Fixed64 => Scalar::Fixed64(u64()?),
            Kind::Sfixed32 => Scalar::Fixed32(i32()?.cast_unsigned()),
            Kind::Sfixed64 => Scalar::Fixed64(i64()?.cast_unsigned()),
            _ => Scalar::Varint(u64()?),
        })
    }

    /// The value of a field that is named by its number, as we print them.
    fn values_of_number(&mut self, number: u32, out: &mut Vec<u8>, depth: usize) -> Result<()> {
        let has_colon = self.tokens.take_if(':')?;
        let token = self.tokens.peek()?;
        match &token.kind {
            TokenKind::Punct('{' | '<') => {
                let open = self.tokens.take()?;
                let mut inside = self.vector();
                self.unknown_message(&open, &mut inside, depth + 1)?;
                Writer::new(out).bytes(number, &inside);
                self.spare.push(inside);
            }
            TokenKind::Text(_) if has_colon => {
                let (bytes, _) = self.text(&number.to_string())?;
                Writer::new(out).bytes(number, &bytes);
            }
            TokenKind::Word(_) | TokenKind::Punct('-') if has_colon => {
                let name = number.to_string();
                let (is_negative, word, place) = self.signed("a number", &name)?;
                let wrong = || place.error(format!("expected a number, a string or `{{`, found `{word}`"));
                let value = integer(&word, is_negative).ok_or_else(wrong)?;
                let value = u64::try_from(value).or_else(|_| i64::try_from(value).map(i64::cast_unsigned));
                let value = value.map_err(|_| wrong())?;
                let mut writer = Writer::new(out);
                match word.len() {
                    // So they are printed.
                    10 if word.starts_with("0x") => writer.fixed32(number, value as u32),
                    18 if word.starts_with("0x") => writer.fixed64(number, value),
                    _ => writer.varint(number, value),
                }
            }
            _ => {
                let found = token.describe();
                return Err(token
                    .place
                    .error(format!("expected a value of field {number}, found {found}"))
                    .into());
            }
        }
        Ok(())
    }

    fn unknown_message(&mut self, open: &Token, out: &mut Vec<u8>, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(open
                .place
                .error(format!("messages are nested more than {MAX_DEPTH} deep here"))
                .into());
        }
        let nothing = Message::default();
        while let Some(name) = self.next_name(open, "numbers")? {
            if let Named::Number(number) = self.named(&nothing, name)? {
                self.values_of_number(number, out, depth)?;
            }
            self.separator()?;
        }
        Ok(())
    }
}

/// A number as it is written.
enum Scalar {
    Varint(u64),
    Fixed32(u32),
    Fixed64(u64),
}

fn put(field: &Field, value: Scalar, out: &mut Vec<u8>) {
    match (field.is_packed, value) {
        (true, Scalar::Varint(value)) => varint::encode(value, out),
        (true, Scalar::Fixed32(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (true, Scalar::Fixed64(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (false, Scalar::Varint(value)) => Writer::new(out).varint(field.number, value),
        (false, Scalar::Fixed32(value)) => Writer::new(out).fixed32(field.number, value),
        (false, Scalar::Fixed64(value)) => Writer::new(out).fixed64(field.number, value),
    }
}

fn write_packed((number, values): &mut (u32, Vec<u8>), out: &mut Vec<u8>) {
    if *number != 0 {
        Writer::new(out).bytes(*number, values);
    }
    *number = 0;
    values.clear();
}

fn expectation(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "true or false",
        Kind::Double | Kind::Float => "a number",
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => "a 32-bit integer",
        Kind::Uint32 | Kind::Fixed32 => "an integer from 0 to 4294967295",
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => "a 64-bit integer",
        _ => "an integer from 0 to 18446744073709551615",
    }
}

fn hint<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> String {
    // In one order, whatever order names are kept in.
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    nearest(word, names).first().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}
