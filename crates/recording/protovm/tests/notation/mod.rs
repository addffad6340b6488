//! Messages and programs in a form that can be read.
//!
//! A message is a list of `NUMBER:VALUE`, where a value is a number (`5`; `5f` as fixed32, `5d` as fixed64), a
//! text (`"abc"`) or a message (`{1:5}`). For programs see [`program`].

#![allow(dead_code, reason = "not every test uses all of it")]

use ferretto_protovm::Program;
use ferretto_protozero::varint;

/// Encodes a message.
pub(crate) fn message(text: &str) -> Vec<u8> {
    let (bytes, rest) = fields(text);
    assert!(rest.is_empty(), "{rest:?} is left of {text:?}");
    bytes
}

/// Encodes the fields up to a closing brace or the end, and gives what is left.
fn fields(mut text: &str) -> (Vec<u8>, &str) {
    let mut bytes = Vec::new();
    loop {
        text = text.trim_start();
        if text.is_empty() || text.starts_with('}') {
            return (bytes, text);
        }
        let (number, rest) = text.split_once(':').expect("a field");
        let tag = number.parse::<u64>().expect("a field number") << 3;
        text = field(tag, rest, &mut bytes);
    }
}

fn field<'t>(tag: u64, text: &'t str, out: &mut Vec<u8>) -> &'t str {
    if let Some(nested) = text.strip_prefix('{') {
        let (value, rest) = fields(nested);
        delimited(tag, &value, out);
        return rest.strip_prefix('}').expect("a closing brace");
    }
    if let Some(quoted) = text.strip_prefix('"') {
        let (value, rest) = quoted.split_once('"').expect("a closing quote");
        delimited(tag, value.as_bytes(), out);
        return rest;
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let value: u64 = digits.parse().expect("a number");
    if let Some(rest) = rest.strip_prefix('f') {
        varint::encode(tag | 5, out);
        out.extend_from_slice(&u32::try_from(value).expect("32 bits").to_le_bytes());
        rest
    } else if let Some(rest) = rest.strip_prefix('d') {
        varint::encode(tag | 1, out);
        out.extend_from_slice(&value.to_le_bytes());
        rest
    } else {
        varint::encode(tag, out);
        varint::encode(value, out);
        rest
    }
}

fn delimited(tag: u64, value: &[u8], out: &mut Vec<u8>) {
    varint::encode(tag | 2, out);
    varint::encode(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// Parses a program, one instruction a line, those nested in it indented by two more spaces:
///
/// | line | instruction |
/// |---|---|
/// | `src 1 2` | select the field 2 in the field 1 of the source |
/// | `dst 1 2` | the same of the destination |
/// | `both 1` | the same with the cursor BOTH |
/// | `dst+ 1` | created if it does not exist |
/// | `src 1[3]`, `src 1[*]`, `dst 1[2=r0]` | by index; each; by the key in field 2 from register 0 |
/// | `src 1[*r5]` | each, with its index stored in register 5 |
/// | `load 3`, `load 3 dst` | reg_load |
/// | `set`, `del`, `merge`, `merge skip del` | with the flags skip_submessages and del_if_src_empty |
/// | `none` | no operation |
///
/// `| skip` and `| abort` at the end of a line are abort levels.
pub(crate) fn program(text: &str) -> Program {
    Program::parse(&program_bytes(text)).expect("a program within the bounds")
}

/// As [`program`], encoded.
pub(crate) fn program_bytes(text: &str) -> Vec<u8> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let mut out = Vec::new();
    for instruction in instructions(&lines) {
        delimited(2 << 3, &instruction, &mut out);
    }
    out
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn instructions(lines: &[&str]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = lines;
    while let Some((first, after)) = rest.split_first() {
        let end = after.iter().position(|line| indent(line) <= indent(first)).unwrap_or(after.len());
        let (nested, next) = after.split_at(end);
        let mut bytes = instruction(first.trim());
        for instruction in instructions(nested) {
            delimited(7 << 3, &instruction, &mut bytes);
        }
        out.push(bytes);
        rest = next;
    }
    out
}

fn instruction(line: &str) -> Vec<u8> {
    let (line, level) = line.split_once('|').unwrap_or((line, ""));
    let words: Vec<&str> = line.split_whitespace().collect();
    let (number, operation) = match words[..] {
        ["load", register] => (2, message(&format!("2:{register}"))),
        ["load", register, "dst"] => (2, message(&format!("1:2 2:{register}"))),
        ["merge", ref flags @ ..] => {
            let flag = |name, number| if flags.contains(&name) { number } else { "" };
            (3, message(&format!("{} {}", flag("skip", "1:1"), flag("del", "2:1"))))
        }
        ["set"] => (4, Vec::new()),
        ["del"] => (5, Vec::new()),
        ["none"] => (15, Vec::new()),
        [cursor, ref path @ ..] => (1, select(cursor, path)),
        [] => unreachable!("blank lines are skipped"),
    };
    let mut out = Vec::new();
    delimited(number << 3, &operation, &mut out);
    match level.trim() {
        "" => {}
        "skip" => out.extend(message("6:1")),
        "break" => out.extend(message("6:2")),
        "abort" => out.extend(message("6:3")),
        other => panic!("{other:?} is no abort level"),
    }
    out
}

fn select(cursor: &str, path: &[&str]) -> Vec<u8> {
    let (cursor, create) = cursor.strip_suffix('+').map_or((cursor, ""), |cursor| (cursor, "3:1"));
    let cursor = match cursor {
        "src" => "",
        "dst" => "1:2",
        "both" => "1:3",
        other => panic!("{other:?} is no cursor"),
    };
    let mut out = message(&format!("{cursor} {create}"));
    for component in path.iter().flat_map(|step| components(step)) {
        delimited(2 << 3, &message(&component), &mut out);
    }
    out
}

fn components(step: &str) -> Vec<String> {
    let Some((field, inner)) = step.strip_suffix(']').and_then(|step| step.split_once('[')) else {
        return vec![format!("1:{step}")];
    };
    if let Some(register) = inner.strip_prefix("*r") {
        return vec![format!("1:{field} 5:1 7:{register}")];
    }
    if inner == "*" {
        return vec![format!("1:{field} 5:1")];
    }
    let field = if field.is_empty() { String::new() } else { format!("1:{field}") };
    match inner.split_once("=r") {
        Some((key, register)) => vec![field, format!("3:{key} 6:{register}")],
        None => vec![field, format!("2:{inner}")],
    }
}
