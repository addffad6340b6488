//! Builds a message from tokens, following its descriptor.

use std::collections::HashMap;

use prost_reflect::{
    DynamicMessage, EnumDescriptor, FieldDescriptor, Kind as FieldKind, MessageDescriptor,
    ReflectMessage as _, Value,
};

use super::token::{Kind, Place, Token, tokenize};
use super::{TextError, literal, nearest};

/// How deep messages may nest. The deepest config of upstream's is under ten; the limit keeps a hostile text off the stack.
const MAX_DEPTH: usize = 64;

/// Longer texts are no configs: a service takes 128 KiB of the binary form, which is seldom a tenth of the text.
const MAX_TEXT_BYTES: usize = 16 << 20;

pub(super) struct Parser {
    tokens: Vec<Token>,
    next: usize,
    lossy: bool,
    dropped: Vec<TextError>,
}

type Result<T> = std::result::Result<T, TextError>;

impl Parser {
    pub(super) fn new(text: &str, lossy: bool) -> Result<Self> {
        if text.len() > MAX_TEXT_BYTES {
            let message =
                format!("this text has {} bytes; more than {MAX_TEXT_BYTES} are not read", text.len());
            return Err(Place { line: 1, column: 1 }.error(message));
        }
        Ok(Self { tokens: tokenize(text)?, next: 0, lossy, dropped: Vec::new() })
    }

    pub(super) fn into_dropped(self) -> Vec<TextError> {
        self.dropped
    }

    pub(super) fn parse(&mut self, descriptor: &MessageDescriptor) -> Result<DynamicMessage> {
        self.message(descriptor, None, 0)
    }

    fn peek(&self) -> &Token {
        // The last token is `End`, and nothing moves past it.
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    fn take_if(&mut self, c: char) -> bool {
        let found = self.peek().is(c);
        self.next += usize::from(found);
        found
    }

    /// The fields of a message, up to `close` (or the end of the text).
    fn message(
        &mut self,
        descriptor: &MessageDescriptor,
        open: Option<&Token>,
        depth: usize,
    ) -> Result<DynamicMessage> {
        if depth > MAX_DEPTH {
            return Err(self
                .peek()
                .place
                .error(format!("messages are nested more than {MAX_DEPTH} deep here")));
        }
        let close = open.map(|token| if token.is('<') { '>' } else { '}' });
        let mut message = DynamicMessage::new(descriptor.clone());
        let mut seen = HashMap::new();
        loop {
            let token = self.take();
            match (&token.kind, close) {
                (Kind::End, None) => return Ok(message),
                (Kind::Punct(c), Some(close)) if *c == close => return Ok(message),
                (Kind::Word(name), _) => self.field(name, token.place, &mut message, &mut seen, depth)?,
                (Kind::Punct('['), _) => return Err(token.place.error("extensions are not supported here")),
                (Kind::End, Some(close)) => return Err(unclosed(open, close, token.place)),
                _ => return Err(unexpected(&token, descriptor, close)),
            }
        }
    }

    /// One `name: value`, and the separator behind it.
    fn field(
        &mut self,
        name: &str,
        place: Place,
        message: &mut DynamicMessage,
        seen: &mut HashMap<u32, usize>,
        depth: usize,
    ) -> Result<()> {
        let descriptor = message.descriptor();
        match descriptor.get_field_by_name(name) {
            Some(field) => {
                if !field.is_list() {
                    check_unset(&field, place, seen)?;
                }
                self.values(&field, message, depth)?;
            }
            None => {
                let error = unknown_field(name, place, &descriptor);
                if !self.lossy {
                    return Err(error);
                }
                self.dropped.push(error);
                self.skip_values(depth)?;
            }
        }
        if !self.take_if(',') {
            self.take_if(';');
        }
        Ok(())
    }

    /// What follows a field's name: one value, or a list of them in brackets.
    fn values(&mut self, field: &FieldDescriptor, message: &mut DynamicMessage, depth: usize) -> Result<()> {
        let is_message = matches!(field.kind(), FieldKind::Message(_));
        let braces = is_message && matches!(self.peek().kind, Kind::Punct('{' | '<' | '['));
        if !braces && !self.take_if(':') {
            let expected = if is_message { "`{`" } else { "`:` and a value" };
            let token = self.peek();
            return Err(token.place.error(format!(
                "expected {expected} after `{}`, found {}",
                field.name(),
                token.describe()
            )));
        }
        if !self.peek().is('[') {
            return self.value(field, message, depth);
        }
        let open = self.take();
        if !field.is_list() {
            return Err(open.place.error(format!("`{}` takes one value, not a list", field.name())));
        }
        if self.take_if(']') {
            return Ok(());
        }
        loop {
            self.value(field, message, depth)?;
            if self.take_if(']') {
                return Ok(());
            }
            if !self.take_if(',') {
                let token = self.peek();
                return Err(token
                    .place
                    .error(format!("expected `,` or `]` in this list, found {}", token.describe())));
            }
        }
    }

    fn value(&mut self, field: &FieldDescriptor, message: &mut DynamicMessage, depth: usize) -> Result<()> {
        let value = match field.kind() {
            FieldKind::Message(descriptor) => {
                let open = self.take();
                if !open.is('{') && !open.is('<') {
                    let found = open.describe();
                    return Err(open
                        .place
                        .error(format!("expected `{{` after `{}`, found {found}", field.name())));
                }
                Some(Value::Message(self.message(&descriptor, Some(&open), depth + 1)?))
            }
            FieldKind::String => Some(Value::String(self.string(field)?)),
            FieldKind::Bytes => Some(Value::Bytes(self.bytes(field)?.0.into())),
            FieldKind::Enum(descriptor) => self.enum_value(field, &descriptor)?.map(Value::EnumNumber),
            kind => Some(self.scalar(field, &kind)?),
        };
        let Some(value) = value else { return Ok(()) };
        if field.is_list() {
            if let Some(list) = message.get_field_mut(field).as_list_mut() {
                list.push(value);
            }
        } else {
            message.set_field(field, value);
        }
        Ok(())
    }

    fn bytes(&mut self, field: &FieldDescriptor) -> Result<(Vec<u8>, Place)> {
        let token = self.take();
        let Kind::Text(mut bytes) = token.kind else {
            let found = token.describe();
            return Err(token
                .place
                .error(format!("expected a string in quotes for `{}`, found {found}", field.name())));
        };
        // Strings that follow one another are one string, as in C.
        while let Kind::Text(more) = &self.peek().kind {
            bytes.extend_from_slice(more);
            self.next += 1;
        }
        Ok((bytes, token.place))
    }

    fn string(&mut self, field: &FieldDescriptor) -> Result<String> {
        let (bytes, place) = self.bytes(field)?;
        String::from_utf8(bytes)
            .map_err(|_| place.error(format!("the string for `{}` is not UTF-8", field.name())))
    }

    fn enum_value(&mut self, field: &FieldDescriptor, descriptor: &EnumDescriptor) -> Result<Option<i32>> {
        let (negative, token) = self.signed();
        let Kind::Word(word) = &token.kind else {
            let found = token.describe();
            return Err(token.place.error(format!(
                "expected a value of {} for `{}`, found {found}",
                descriptor.name(),
                field.name()
            )));
        };
        if let Some(number) = literal::integer(word, negative) {
            return i32::try_from(number)
                .map(Some)
                .map_err(|_| out_of_range(&token, negative, field, "a 32-bit enum value"));
        }
        if let Some(value) = descriptor.get_value_by_name(word) {
            return Ok(Some(value.number()));
        }
        let error = unknown_enum_value(word, token.place, descriptor);
        if !self.lossy {
            return Err(error);
        }
        self.dropped.push(error);
        Ok(None)
    }

    /// What may be a number, whether it is negative, and its place with the sign.
    fn signed(&mut self) -> (bool, Token) {
        let sign = self.peek().place;
        let negative = self.take_if('-');
        let token = self.take();
        (negative, Token { place: sign, ..token })
    }

    /// A number or a boolean.
    fn scalar(&mut self, field: &FieldDescriptor, kind: &FieldKind) -> Result<Value> {
        let (negative, token) = self.signed();
        let expected = expectation(kind);
        let Kind::Word(word) = &token.kind else {
            let found = token.describe();
            return Err(token
                .place
                .error(format!("expected {expected} for `{}`, found {found}", field.name())));
        };
        let wrong = || {
            let sign = if negative { "-" } else { "" };
            token.place.error(format!("expected {expected} for `{}`, found `{sign}{word}`", field.name()))
        };
        let integer = || literal::integer(word, negative).ok_or_else(wrong);
        let range = || out_of_range(&token, negative, field, expected);
        Ok(match kind {
            FieldKind::Bool => Value::Bool(literal::boolean(word).filter(|_| !negative).ok_or_else(wrong)?),
            FieldKind::Double => Value::F64(literal::float(word, negative).ok_or_else(wrong)?),
            #[allow(clippy::cast_possible_truncation)] // A float field takes the nearest value.
            FieldKind::Float => Value::F32(literal::float(word, negative).ok_or_else(wrong)? as f32),
            FieldKind::Int32 | FieldKind::Sint32 | FieldKind::Sfixed32 => {
                Value::I32(integer()?.try_into().map_err(|_| range())?)
            }
            FieldKind::Uint32 | FieldKind::Fixed32 => Value::U32(integer()?.try_into().map_err(|_| range())?),
            FieldKind::Int64 | FieldKind::Sint64 | FieldKind::Sfixed64 => {
                Value::I64(integer()?.try_into().map_err(|_| range())?)
            }
            _ => Value::U64(integer()?.try_into().map_err(|_| range())?),
        })
    }

    /// Passes over the value of an unknown field.
    fn skip_values(&mut self, depth: usize) -> Result<()> {
        let colon = self.take_if(':');
        let token = self.peek();
        match token.kind {
            Kind::Punct('{' | '<' | '[') => self.skip_group(depth),
            Kind::Punct('-') | Kind::Word(_) | Kind::Text(_) if colon => {
                self.take_if('-');
                let first = self.take();
                while matches!((&first.kind, &self.peek().kind), (Kind::Text(_), Kind::Text(_))) {
                    self.next += 1;
                }
                Ok(())
            }
            _ => Err(token.place.error(format!("expected a value, found {}", token.describe()))),
        }
    }

    fn skip_group(&mut self, depth: usize) -> Result<()> {
        let open = self.take();
        let mut expected = vec![closing(&open)];
        while let Some(&close) = expected.last() {
            let token = self.take();
            match token.kind {
                Kind::End => return Err(unclosed(Some(&open), close, token.place)),
                Kind::Punct('{' | '<' | '[') => expected.push(closing(&token)),
                Kind::Punct(c) if c == close => {
                    expected.pop();
                }
                _ => {}
            }
            if depth + expected.len() > MAX_DEPTH {
                return Err(token
                    .place
                    .error(format!("messages are nested more than {MAX_DEPTH} deep here")));
            }
        }
        Ok(())
    }
}

fn closing(open: &Token) -> char {
    match open.kind {
        Kind::Punct('<') => '>',
        Kind::Punct('[') => ']',
        _ => '}',
    }
}

/// A field that is not a list may stand once; of a oneof's fields one.
fn check_unset(field: &FieldDescriptor, place: Place, seen: &mut HashMap<u32, usize>) -> Result<()> {
    let others = field.containing_oneof();
    let numbers: Vec<u32> = match &others {
        Some(oneof) => oneof.fields().map(|field| field.number()).collect(),
        None => vec![field.number()],
    };
    if let Some((number, line)) = numbers.iter().find_map(|number| Some((*number, *seen.get(number)?))) {
        if number == field.number() {
            return Err(
                place.error(format!("`{}` is set already, on line {line}; it takes one value", field.name()))
            );
        }
        let other =
            field.parent_message().get_field(number).map(|other| other.name().to_owned()).unwrap_or_default();
        return Err(
            place.error(format!("`{}` excludes `{other}`, which is set on line {line}", field.name()))
        );
    }
    seen.insert(field.number(), place.line);
    Ok(())
}

fn expectation(kind: &FieldKind) -> &'static str {
    match kind {
        FieldKind::Bool => "true or false",
        FieldKind::Double | FieldKind::Float => "a number",
        FieldKind::Int32 | FieldKind::Sint32 | FieldKind::Sfixed32 => "a 32-bit integer",
        FieldKind::Uint32 | FieldKind::Fixed32 => "an integer from 0 to 4294967295",
        FieldKind::Int64 | FieldKind::Sint64 | FieldKind::Sfixed64 => "a 64-bit integer",
        _ => "an integer from 0 to 18446744073709551615",
    }
}

fn out_of_range(token: &Token, negative: bool, field: &FieldDescriptor, expected: &str) -> TextError {
    let Kind::Word(word) = &token.kind else { return token.place.error(format!("expected {expected}")) };
    let sign = if negative { "-" } else { "" };
    token.place.error(format!("`{sign}{word}` is out of range for `{}`; expected {expected}", field.name()))
}

fn unknown_field(name: &str, place: Place, descriptor: &MessageDescriptor) -> TextError {
    let names: Vec<String> = descriptor.fields().map(|field| field.name().to_owned()).collect();
    place.error(format!("unknown field `{name}` in {}{}", descriptor.name(), hint(name, &names)))
}

fn unknown_enum_value(word: &str, place: Place, descriptor: &EnumDescriptor) -> TextError {
    let names: Vec<String> = descriptor.values().map(|value| value.name().to_owned()).collect();
    place.error(format!("unknown value `{word}` of {}{}", descriptor.name(), hint(word, &names)))
}

/// Names so few are all listed when none is near.
const MAX_LISTED: usize = 8;

fn hint(word: &str, names: &[String]) -> String {
    if let Some(near) = nearest(word, names.iter().map(String::as_str)).first() {
        return format!("; did you mean `{near}`?");
    }
    if names.is_empty() || names.len() > MAX_LISTED {
        return String::new();
    }
    format!("; it has {}", names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
}

fn unclosed(open: Option<&Token>, close: char, end: Place) -> TextError {
    let line = open.map_or(0, |token| token.place.line);
    end.error(format!(
        "the text ends, but the {} of line {line} is not closed; expected `{close}`",
        open.map_or_else(String::new, Token::describe)
    ))
}

fn unexpected(token: &Token, descriptor: &MessageDescriptor, close: Option<char>) -> TextError {
    let or_close = close.map(|c| format!(" or `{c}`")).unwrap_or_default();
    token.place.error(format!(
        "expected a field of {}{or_close}, found {}",
        descriptor.name(),
        token.describe()
    ))
}
