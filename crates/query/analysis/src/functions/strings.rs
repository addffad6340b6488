//! Functions of texts.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StringViewArray, StringViewBuilder};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};

use crate::functions::conversions::one;
use crate::functions::text::{ints, texts};
use crate::functions::{Returns, Simple, rows};

/// Bytes of a pattern: what is looked for takes as many steps as it and the text have letters, multiplied.
pub(crate) const MAX_PATTERN_BYTES: usize = 10_000;
/// What a pattern of `LIKE` goes through.
pub(crate) const PATTERN: &str = "pattern_of_like";

pub(crate) fn all() -> Vec<Simple> {
    vec![
        Simple::of(2, "glob", Returns::Truth, glob),
        Simple::of(1, PATTERN, Returns::Text, |args| {
            let patterns = texts(one(args)?)?;
            match patterns.iter().flatten().any(|pattern| pattern.len() > MAX_PATTERN_BYTES) {
                true => exec_err!("a pattern of like has more than {MAX_PATTERN_BYTES} bytes"),
                false => Ok(Arc::new(patterns)),
            }
        }),
        Simple::new("substr", Returns::Text, substr),
        Simple::of(2, "instr", Returns::Int, instr),
        Simple::of(1, "length", Returns::Int, length),
        Simple::of(1, "hex", Returns::Text, hex),
        Simple::of(1, "unicode", Returns::Int, |args| {
            let first = |text: &str| text.chars().next().map(|it| i64::from(u32::from(it)));
            Ok(Arc::new(texts(one(args)?)?.iter().map(|text| text.and_then(first)).collect::<Int64Array>()))
        }),
        Simple::new("char", Returns::Text, char),
        Simple::of(1, "reverse", Returns::Text, |args| {
            Ok(map_text(&texts(one(args)?)?, |text| Some(text.chars().rev().collect())))
        }),
        Simple::of(3, "str_split", Returns::Text, str_split),
        Simple::of(1, "unhex", Returns::Int, unhex),
        Simple::of(1, "quote", Returns::Text, |args| {
            let array = one(args)?;
            let is_text = crate::functions::text::is_text(array.data_type());
            let values = texts(array)?;
            let quote = |text: Option<&str>| match text {
                None => "NULL".to_owned(),
                Some(text) if is_text => format!("'{}'", text.replace('\'', "''")),
                Some(text) => text.to_owned(),
            };
            Ok(Arc::new(StringViewArray::from_iter_values(values.iter().map(quote))))
        }),
    ]
}

fn map_text(texts: &StringViewArray, map: impl Fn(&str) -> Option<String>) -> ArrayRef {
    let mut out = StringViewBuilder::with_capacity(texts.len());
    texts.iter().for_each(|text| out.append_option(text.and_then(&map)));
    Arc::new(out.finish())
}

/// `glob(pattern, text)`.
fn glob(args: &[ArrayRef]) -> Result<ArrayRef> {
    let [patterns, values] = args else { return Ok(Arc::new(BooleanArray::new_null(rows(args)))) };
    let (patterns, values) = (texts(patterns)?, texts(values)?);
    let mut last: Option<Glob> = None;
    let mut out = Vec::with_capacity(values.len());
    for ((pattern, value), view) in patterns.iter().zip(values.iter()).zip(values.views().iter()) {
        let (Some(pattern), Some(value)) = (pattern, value) else {
            out.push(None);
            continue;
        };
        // Nearly always the same as the row's before.
        let glob = match last.take() {
            Some(glob) if glob.text == pattern => last.insert(glob),
            _ => last.insert(Glob::new(pattern)?),
        };
        out.push(Some(glob.matches(*view, value)));
    }
    Ok(Arc::new(BooleanArray::from(out)))
}

/// A pattern, and what it says of texts of one column: most columns have few that come again and again.
struct Glob {
    text: String,
    letters: Vec<char>,
    /// By a part of the view: views, which are different for different texts, and whether they match.
    known: Vec<Option<(u128, bool)>>,
}

impl Glob {
    const KNOWN: usize = 256;

    fn new(pattern: &str) -> Result<Self> {
        if pattern.len() > MAX_PATTERN_BYTES {
            return exec_err!("a pattern of glob has more than {MAX_PATTERN_BYTES} bytes");
        }
        let letters = pattern.chars().collect();
        Ok(Self { text: pattern.to_owned(), letters, known: vec![None; Self::KNOWN] })
    }

    fn matches(&mut self, view: u128, text: &str) -> bool {
        // Any odd number with bits everywhere: the highest of the product are of all below.
        let mixed = ((view >> 64) as u64 ^ view as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = (mixed >> 56) as usize % Self::KNOWN;
        if let Some(Some((of, is_match))) = self.known.get(place)
            && *of == view
        {
            return *is_match;
        }
        let is_match = match is_plain(&self.text) {
            Some(part) => part.matches(text),
            None => matches_glob(&self.letters, text),
        };
        self.known.get_mut(place).into_iter().for_each(|known| *known = Some((view, is_match)));
        is_match
    }
}

/// A pattern that needs no pattern matching.
enum Plain<'a> {
    Begins(&'a str),
    Ends(&'a str),
    Has(&'a str),
    Is(&'a str),
}

impl Plain<'_> {
    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Begins(part) => text.starts_with(part),
            Self::Ends(part) => text.ends_with(part),
            Self::Has(part) => text.contains(part),
            Self::Is(part) => text == *part,
        }
    }
}

fn is_plain(pattern: &str) -> Option<Plain<'_>> {
    let is_plain = |text: &str| !text.contains(['*', '?', '[']);
    let behind = pattern.strip_prefix('*');
    let before = pattern.strip_suffix('*');
    match (behind, before) {
        _ if is_plain(pattern) => Some(Plain::Is(pattern)),
        (Some(behind), _) if is_plain(behind) => Some(Plain::Ends(behind)),
        (_, Some(before)) if is_plain(before) => Some(Plain::Begins(before)),
        (Some(behind), Some(_)) => behind.strip_suffix('*').filter(|part| is_plain(part)).map(Plain::Has),
        _ => None,
    }
}

/// `*` is anything, `?` a character, `[a-z]` and `[^a-z]` one of them or none of them. In time that grows with the product of both.
fn matches_glob(pattern: &[char], text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let (mut p, mut t) = (0, 0);
    // Where the last star was, and what it has taken so far.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        let step = match (pattern.get(p), text.get(t)) {
            (Some('*'), _) => {
                star = Some((p + 1, t));
                p += 1;
                continue;
            }
            (Some(_), Some(it)) => one_matches(pattern, p, *it),
            _ => None,
        };
        match (step, &mut star) {
            (Some(next), _) => (p, t) = (next, t + 1),
            (None, Some((behind, taken))) => {
                *taken += 1;
                (p, t) = (*behind, *taken);
            }
            (None, None) => return false,
        }
    }
    pattern.iter().skip(p).all(|it| *it == '*')
}

/// Where the pattern goes on, if one of its signs takes the character.
fn one_matches(pattern: &[char], at: usize, it: char) -> Option<usize> {
    match pattern.get(at)? {
        '?' => Some(at + 1),
        '[' => {
            let mut next = at + 1;
            let is_negated = pattern.get(next) == Some(&'^');
            next += usize::from(is_negated);
            let first = next;
            let mut is_in = false;
            loop {
                let from = *pattern.get(next)?;
                if from == ']' && next > first {
                    break;
                }
                match (pattern.get(next + 1), pattern.get(next + 2)) {
                    (Some('-'), Some(to)) if *to != ']' => {
                        is_in |= (from..=*to).contains(&it);
                        next += 3;
                    }
                    _ => {
                        is_in |= from == it;
                        next += 1;
                    }
                }
            }
            (is_in != is_negated).then_some(next + 1)
        }
        other => (*other == it).then_some(at + 1),
    }
}

/// `substr(text, from)` or with a length; from the end if `from` is negative, backwards if the length is.
fn substr(args: &[ArrayRef]) -> Result<ArrayRef> {
    let values = texts(one(args)?)?;
    let from = args.get(1).map(ints).transpose()?;
    let length = args.get(2).map(ints).transpose()?;
    let mut out = StringViewBuilder::with_capacity(values.len());
    for row in 0..values.len() {
        let number = |of: &Option<Int64Array>, otherwise: i64| match of {
            None => Some(otherwise),
            Some(of) => of.is_valid(row).then(|| of.value(row)),
        };
        let all = values.is_valid(row).then(|| values.value(row));
        match (all, number(&from, 1), number(&length, i64::MAX)) {
            (Some(text), Some(from), Some(length)) => out.append_value(part(text, from, length)),
            _ => out.append_null(),
        }
    }
    Ok(Arc::new(out.finish()))
}

fn part(text: &str, from: i64, length: i64) -> &str {
    let count = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let (mut from, mut length) = (i128::from(from), i128::from(length));
    if from < 0 {
        from += i128::from(count);
        if from < 0 {
            // What lies before the text is missing.
            length += if length < 0 { 0 } else { from };
            from = 0;
        }
    } else if from > 0 {
        from -= 1;
    } else if length > 0 {
        length -= 1;
    }
    let (start, end) = if length < 0 { (from + length, from) } else { (from, from + length) };
    let at = |place: i128| {
        let place = usize::try_from(place.max(0)).unwrap_or(usize::MAX);
        text.char_indices().nth(place).map_or(text.len(), |(at, _)| at)
    };
    text.get(at(start)..at(end.max(start))).unwrap_or_default()
}

fn instr(args: &[ArrayRef]) -> Result<ArrayRef> {
    let [values, parts] = args else { return Ok(Arc::new(Int64Array::new_null(rows(args)))) };
    let (values, parts) = (texts(values)?, texts(parts)?);
    let place = |(text, part): (Option<&str>, Option<&str>)| {
        let (text, part) = (text?, part?);
        let before = text.find(part).and_then(|at| text.get(..at));
        Some(before.map_or(0, |before| i64::try_from(before.chars().count()).unwrap_or(0) + 1))
    };
    Ok(Arc::new(values.iter().zip(parts.iter()).map(place).collect::<Int64Array>()))
}

fn length(args: &[ArrayRef]) -> Result<ArrayRef> {
    let array = one(args)?;
    if *array.data_type() == DataType::Binary {
        let binary = array.as_binary::<i32>();
        let count = |bytes: &[u8]| i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        return Ok(Arc::new(binary.iter().map(|bytes| bytes.map(count)).collect::<Int64Array>()));
    }
    let count = |text: &str| i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    Ok(Arc::new(texts(array)?.iter().map(|text| text.map(count)).collect::<Int64Array>()))
}

fn hex(args: &[ArrayRef]) -> Result<ArrayRef> {
    let array = one(args)?;
    let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    let mut out = StringViewBuilder::with_capacity(array.len());
    match array.data_type() {
        DataType::Binary => array
            .as_binary::<i32>()
            .iter()
            .for_each(|it| out.append_value(it.map(digits).unwrap_or_default())),
        _ => texts(array)?
            .iter()
            .for_each(|it| out.append_value(it.map(|it| digits(it.as_bytes())).unwrap_or_default())),
    }
    Ok(Arc::new(out.finish()))
}

/// The number that digits to the base of 16 are, with or without `0x`.
fn unhex(args: &[ArrayRef]) -> Result<ArrayRef> {
    let number = |text: &str| {
        let text = text.trim();
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
        u64::from_str_radix(digits, 16).ok().map(|value| value as i64)
    };
    Ok(Arc::new(texts(one(args)?)?.iter().map(|text| text.and_then(number)).collect::<Int64Array>()))
}

fn char(args: &[ArrayRef]) -> Result<ArrayRef> {
    let codes = args.iter().map(ints).collect::<Result<Vec<_>>>()?;
    let text = |row: usize| {
        let code = |codes: &Int64Array| codes.is_valid(row).then(|| codes.value(row));
        let it = |code: i64| u32::try_from(code).ok().and_then(std::char::from_u32).unwrap_or('\u{fffd}');
        codes.iter().filter_map(code).map(it).collect::<String>()
    };
    Ok(Arc::new(StringViewArray::from_iter_values((0..rows(args)).map(text))))
}

/// `str_split(text, delimiter, n)`: the part with this number, from 0; NULL if there is none.
fn str_split(args: &[ArrayRef]) -> Result<ArrayRef> {
    let [values, delimiters, places] = args else {
        return Ok(Arc::new(StringViewArray::new_null(rows(args))));
    };
    let (values, delimiters, places) = (texts(values)?, texts(delimiters)?, ints(places)?);
    let mut out = StringViewBuilder::with_capacity(values.len());
    for ((text, delimiter), place) in values.iter().zip(delimiters.iter()).zip(places.iter()) {
        let part = || {
            let (text, delimiter, place) = (text?, delimiter?, usize::try_from(place?).ok()?);
            if delimiter.is_empty() { None } else { text.split(delimiter).nth(place) }
        };
        out.append_option(part());
    }
    Ok(Arc::new(out.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_as_sqlites_do() {
        for (pattern, text, is_match) in [
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("*b*", "abc", true),
            ("a*c*e", "abcde", true),
            ("a?c", "abc", true),
            ("A*", "abc", false),
            ("[a-c]x[^0-9]", "bxz", true),
            ("[^a]", "a", false),
            ("[]]", "]", true),
            ("*[0-9]", "x12", true),
            ("", "", true),
            ("[", "[", false),
        ] {
            let args: [ArrayRef; 2] =
                [pattern, text].map(|it| Arc::new(StringViewArray::from(vec![it])) as ArrayRef);
            assert_eq!(glob(&args).unwrap().as_boolean().value(0), is_match, "{pattern} {text}");
        }
        let names: Vec<String> = (0..2000).map(|n| format!("a name of some length {}", n % 700)).collect();
        let patterns = names.iter().enumerate().map(|(row, _)| if row < 1500 { "*[12]?" } else { "*7*" });
        let args: [ArrayRef; 2] = [
            Arc::new(StringViewArray::from_iter_values(patterns)),
            Arc::new(StringViewArray::from_iter_values(&names)),
        ];
        let found = glob(&args).unwrap();
        for (row, name) in names.iter().enumerate() {
            let tens = name.chars().rev().nth(1);
            let expected = if row < 1500 { matches!(tens, Some('1' | '2')) } else { name.contains('7') };
            assert_eq!(found.as_boolean().value(row), expected, "{row} {name}");
        }
    }

    #[test]
    fn parts_are_counted_from_both_ends() {
        for (from, length, found) in [
            (1, 2, "he"),
            (-3, i64::MAX, "llo"),
            (-3, 2, "ll"),
            (0, 3, "he"),
            (3, -2, "he"),
            (9, 2, ""),
            (-9, 6, "he"),
        ] {
            assert_eq!(part("hello", from, length), found, "{from} {length}");
        }
    }
}
