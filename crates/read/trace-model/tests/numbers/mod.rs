//! Packets of messages that `ferretto-protos` does without, as text: fields by their numbers.
//!
//! ```text
//! numbers { 8: 100  117 { 1: 0  2: "task"  3: 101  6: 0.5 } }
//! ```
//!
//! is a packet of a trace. Whole numbers are varints (negative ones of 64 bits), those with a point are doubles, and `[…]` is packed.

use std::iter::Peekable;
use std::str::Chars;

use ferretto_protozero::Message;

/// A trace's text, with such packets in it, as bytes; `parse` makes bytes of all else.
pub(crate) fn parse(text: &str, parse: impl Fn(&str) -> super::Result<Vec<u8>>) -> super::Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\nnumbers {") {
        out.extend(parse(before)?);
        let mut chars = after.chars().peekable();
        let packet = message(&mut chars)?;
        Message::new(&mut out).bytes(1, &packet);
        let left: usize = chars.map(char::len_utf8).sum();
        rest = &after[after.len() - left..];
    }
    out.extend(parse(rest)?);
    Ok(out)
}

fn message(chars: &mut Peekable<Chars<'_>>) -> super::Result<Vec<u8>> {
    let mut out = Vec::new();
    loop {
        skip_blanks(chars);
        if chars.next_if_eq(&'}').is_some() {
            return Ok(out);
        }
        let number = word(chars).parse().map_err(|_| "a field's number is missing")?;
        skip_blanks(chars);
        let mut to = Message::new(&mut out);
        match chars.next() {
            Some('{') => to.bytes(number, &message(chars)?),
            Some(':') => value(&mut to, number, chars)?,
            other => return Err(format!("after the number {number}: {other:?}").into()),
        }
    }
}

fn value(to: &mut Message<'_, Vec<u8>>, number: u32, chars: &mut Peekable<Chars<'_>>) -> super::Result<()> {
    skip_blanks(chars);
    if chars.next_if_eq(&'"').is_some() {
        let text: String = chars.by_ref().take_while(|c| *c != '"').collect();
        to.bytes(number, text.as_bytes());
    } else if chars.next_if_eq(&'[').is_some() {
        let list: String = chars.by_ref().take_while(|c| *c != ']').collect();
        let mut packed = Vec::new();
        for word in list.split_whitespace() {
            let mut value: u64 = word.parse()?;
            while value >= 0x80 {
                packed.push(value as u8 | 0x80);
                value >>= 7;
            }
            packed.push(value as u8);
        }
        to.bytes(number, &packed);
    } else {
        let word = word(chars);
        match word.contains('.') {
            true => to.double(number, word.parse()?),
            false => to.varint(number, word.parse::<i128>()? as u64),
        }
    }
    Ok(())
}

fn word(chars: &mut Peekable<Chars<'_>>) -> String {
    std::iter::from_fn(|| chars.next_if(|c| c.is_ascii_digit() || matches!(c, '-' | '.'))).collect()
}

fn skip_blanks(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|c| c.is_whitespace()).is_some() {}
}
