//! Random scripts for trace filters: rules, a program that is mostly right, and messages that mostly fit it.

use std::fmt::{self, Display, Formatter};

use ferretto_trace_filter::{Bytecode, BytecodeError, assemble};

use super::{Odds, hex, wire};
use crate::filter_script::RuleLine;
use crate::rng::Rng;
use crate::shrink;

/// An operation of the script language in `filter_script.rs`.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Rule(RuleLine),
    Program { program: Vec<u8>, overlay: Vec<u8> },
    Root(Vec<u32>),
    Filter(Vec<u8>),
}

impl Display for Operation {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(RuleLine { policy, types, prefix, pattern, name }) => {
                write!(to, "rule {policy} {types} {} {} {}", hex(prefix), hex(pattern), hex(name))
            }
            Self::Program { program, overlay } => write!(to, "program {} {}", hex(program), hex(overlay)),
            Self::Root(path) => {
                write!(to, "root")?;
                path.iter().try_for_each(|field| write!(to, " {field}"))
            }
            Self::Filter(message) => write!(to, "filter {}", hex(message)),
        }
    }
}

impl shrink::Operation for Operation {
    fn simpler(&self) -> Vec<Self> {
        match self {
            Self::Filter(message) => {
                let mut simpler = wire::simpler(message);
                simpler.retain(|message| !message.is_empty());
                simpler.into_iter().map(Self::Filter).collect()
            }
            _ => Vec::new(),
        }
    }

    fn repaired(script: Vec<Self>) -> Vec<Self> {
        script
    }
}

/// Few numbers, so that programs and messages meet; some around the limit of direct look-up.
const FIELDS: [u32; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 126, 127, 128, 129, 200, 5000];

/// Some of them are beyond what a rule can name.
const TYPES: [u32; 7] = [0, 1, 2, 3, 127, 128, 300];

pub(crate) fn script(rng: &mut Rng) -> Vec<Operation> {
    // Few texts, so that rules and messages meet.
    let texts: Vec<Vec<u8>> = (0..3).map(|_| text(rng)).collect();
    let mut script: Vec<Operation> = (0..rng.below(8)).map(|_| Operation::Rule(rule(rng, &texts))).collect();
    let program = program(rng);
    script.push(program);
    if rng.one_in(3) {
        script.push(Operation::Root((0..rng.below(3)).map(|_| rng.pick(&FIELDS)).collect()));
    }
    let breaks = Odds::any(rng);
    for _ in 0..1 + rng.below(8) {
        let mut bytes = message(rng, &texts, 4);
        if breaks.come_up(rng) {
            mutate(rng, &mut bytes);
        }
        // Upstream takes an empty message for a mistake; there are none in a buffer.
        if !bytes.is_empty() {
            script.push(Operation::Filter(bytes));
        }
    }
    script
}

/// A program that only ours refuses is not compared: see `compare.rs`.
fn program(rng: &mut Rng) -> Operation {
    loop {
        let (words, overlay) = words(rng);
        let (mut program, mut overlay) =
            (assemble(&words), if overlay.is_empty() { Vec::new() } else { assemble(&overlay) });
        if rng.one_in(30) {
            mutate(rng, &mut program);
        }
        if rng.one_in(30) {
            mutate(rng, &mut overlay);
        }
        match Bytecode::parse(&program, &overlay) {
            Err(
                BytecodeError::SemanticType { .. }
                | BytecodeError::RangeTooLong { .. }
                | BytecodeError::FieldNumber { part: ferretto_trace_filter::Part::Overlay, .. },
            ) => {}
            _ => return Operation::Program { program, overlay },
        }
    }
}

fn words(rng: &mut Rng) -> (Vec<u32>, Vec<u32>) {
    let count = 1 + rng.below(4);
    let (disorder, mistakes) = (Odds::any(rng), Odds::any(rng));
    let (mut words, mut overlay) = (Vec::new(), Vec::new());
    for message in 0..count {
        let mut fields: Vec<u32> = FIELDS.iter().copied().filter(|_| rng.one_in(2)).collect();
        if disorder.come_up(rng) && rng.one_in(5) {
            fields.reverse();
        }
        for field in fields {
            push_field(rng, field, count, &mut words);
        }
        for field in FIELDS {
            if rng.one_in(8) {
                let opcode = rng.pick(&[1, 4, 5]);
                overlay.extend([message as u32, field << 3 | opcode, rng.pick(&TYPES)]);
            }
        }
        words.push(0);
    }
    if mistakes.come_up(rng) && rng.one_in(4) {
        let at = rng.below(words.len());
        words[at] = rng.pick(&[0, 1, 2, 3, 7, 8, 11, 1 << 20, u32::MAX]);
    }
    if !overlay.is_empty() && mistakes.come_up(rng) && rng.one_in(4) {
        let at = rng.below(overlay.len());
        overlay[at] = rng.pick(&[0, 1, 2, 3, 9, 12, 1 << 20]);
    }
    if rng.one_in(3) {
        overlay.clear();
    }
    (words, overlay)
}

fn push_field(rng: &mut Rng, field: u32, messages: usize, words: &mut Vec<u32>) {
    match rng.below(20) {
        0..4 => words.push(field << 3 | 1),
        4 => words.extend([field << 3 | 2, rng.below(4) as u32]),
        5..12 => words.extend([field << 3 | 3, rng.below(messages) as u32]),
        12..16 => words.push(field << 3 | 4),
        _ => words.extend([field << 3 | 5, rng.pick(&TYPES)]),
    }
}

fn rule(rng: &mut Rng, texts: &[Vec<u8>]) -> RuleLine {
    let text = &texts[rng.below(texts.len())];
    let types = match rng.below(3) {
        0 => 1,
        1 => 1 << rng.below(4),
        _ => u128::MAX,
    };
    RuleLine {
        policy: rng.pick(&[1, 1, 1, 2, 2, 3, 4, 5, 5]),
        types,
        prefix: rng.pick(&["", "", "", "", "", "a", "ab", "b="]).into(),
        pattern: if rng.one_in(4) { any_pattern(rng) } else { pattern_of(rng, text) }.into(),
        name: rng.pick(&["", "", "n", "m"]).into(),
    }
}

/// One that mostly matches this text, or the beginning of it.
fn pattern_of(rng: &mut Rng, text: &[u8]) -> String {
    const MOST: usize = 24;
    let mut pattern = String::new();
    let (mut stars, mut is_open) = (3, false);
    for &byte in text.iter().take(MOST) {
        if !is_open && rng.one_in(5) {
            pattern.push('(');
            is_open = true;
        }
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' if rng.one_in(4) => pattern.push_str(r"\w"),
            b'0'..=b'9' if rng.one_in(3) => pattern.push_str(r"\d"),
            b'|' => pattern.push_str(r"\|"),
            b' '..=b'~' => pattern.push(char::from(byte)),
            _ => pattern.push_str("[^q]"),
        }
        if stars > 0 && rng.one_in(8) {
            stars -= 1;
            pattern.push_str(rng.pick(&["+", "+?"]));
        }
        if is_open && rng.one_in(8) {
            pattern.push_str(rng.pick(&[")", ")", ")?"]));
            is_open = false;
        }
    }
    if is_open {
        pattern.push(')');
    }
    if text.len() > MOST || rng.one_in(4) {
        pattern.push_str("[^q]*");
    }
    pattern
}

/// What upstream's engine here (`std::regex`) and ours understand alike: no dots, for they differ on ends of lines; groups that do not
/// repeat, for engines differ on what is left in one that did.
fn any_pattern(rng: &mut Rng) -> String {
    let mut stars = 3;
    let mut pattern = String::new();
    if rng.one_in(3) {
        pattern.push_str(r"[BCE]\|\d*\|");
    }
    for _ in 0..1 + rng.below(4) {
        match rng.below(4) {
            0 => {
                let first = sequence(rng, &mut stars);
                let second = sequence(rng, &mut stars);
                let both = if rng.one_in(2) { format!("{first}|{second}") } else { first };
                pattern.push_str(&format!("({both}){}", rng.pick(&["", "", "?"])));
            }
            1 => {
                pattern.push_str(&format!("(?:{}|{})", sequence(rng, &mut stars), sequence(rng, &mut stars)))
            }
            _ => pattern.push_str(&sequence(rng, &mut stars)),
        }
    }
    pattern
}

/// Not too many stars: upstream's engine goes back and tries again.
fn sequence(rng: &mut Rng, stars: &mut usize) -> String {
    let mut sequence = String::new();
    for _ in 0..rng.below(4) {
        sequence.push_str(
            rng.pick(&["a", "b", "c", "=", "1", r"\|", r"\w", r"\d", r"\s", "[ab]", "[^a]", "[^|]"]),
        );
        if *stars > 0 && rng.one_in(3) {
            *stars -= 1;
            sequence.push_str(rng.pick(&["*", "+", "*?", "+?"]));
        } else if rng.one_in(5) {
            sequence.push_str(rng.pick(&["?", "??", "{2}"]));
        }
    }
    sequence
}

fn message(rng: &mut Rng, texts: &[Vec<u8>], levels: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..rng.below(6) {
        let field = if rng.one_in(10) { 1 + rng.below(6000) as u32 } else { rng.pick(&FIELDS) };
        let tag = |wire_type: u64| u64::from(field) << 3 | wire_type;
        match rng.below(8) {
            0 => {
                push_varint(rng, tag(0), &mut bytes);
                let number = rng.next() >> rng.below(64);
                push_varint(rng, number, &mut bytes);
            }
            1 => {
                push_varint(rng, tag(1), &mut bytes);
                bytes.extend(rng.next().to_le_bytes());
            }
            2 => {
                push_varint(rng, tag(5), &mut bytes);
                bytes.extend((rng.next() as u32).to_le_bytes());
            }
            3..6 => {
                let text = if rng.one_in(4) { text(rng) } else { texts[rng.below(texts.len())].clone() };
                push_bytes(rng, tag(2), &text, &mut bytes);
            }
            _ if levels > 0 => {
                let inner = message(rng, texts, levels - 1);
                push_bytes(rng, tag(2), &inner, &mut bytes);
            }
            _ => push_bytes(rng, tag(2), &[], &mut bytes),
        }
    }
    bytes
}

fn push_bytes(rng: &mut Rng, tag: u64, body: &[u8], bytes: &mut Vec<u8>) {
    push_varint(rng, tag, bytes);
    push_varint(rng, body.len() as u64, bytes);
    bytes.extend(body);
}

/// Longer than it need be, now and then.
fn push_varint(rng: &mut Rng, mut number: u64, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    while rng.one_in(30) && bytes.len() - start < 10 {
        if let Some(last) = bytes.last_mut() {
            *last |= 0x80;
        }
        bytes.push(0);
    }
}

fn text(rng: &mut Rng) -> Vec<u8> {
    let mut text = Vec::new();
    if rng.one_in(2) {
        text.extend(rng.pick(&["B|12|", "E|12|", "C|1|", "B||", "B|"]).as_bytes());
    }
    for _ in 0..rng.below(24) {
        text.extend(rng.pick(&["a", "b", "c", "=", "1", "2", "|", " ", "ab", "a=1"]).as_bytes());
        if rng.one_in(40) {
            text.push(rng.pick(&[0, 0x80, 0xc3, 0xff]));
        }
    }
    // Lengths of two bytes.
    if rng.one_in(20) {
        text = text.repeat(6);
        text.truncate(200);
    }
    text
}

/// Cuts, changes or adds some bytes.
fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..1 + rng.below(3) {
        let at = rng.below(bytes.len() + 1);
        match rng.below(4) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, rng.next() as u8),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = rng.next() as u8;
                }
            }
        }
    }
}
