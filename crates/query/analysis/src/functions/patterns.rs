//! `regexp(pattern, text)` and what is made of what it finds.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use datafusion::common::{Result, exec_err, plan_err};
use regex::{Regex, RegexBuilder};

use crate::functions::text::{Made, texts};
use crate::functions::{Returns, Simple};

/// Bytes of a pattern, and of what it is compiled to: a longer one is no query of anybody's.
const MAX_PATTERN_BYTES: usize = 10_000;
const MAX_COMPILED_BYTES: usize = 1 << 20;

pub(crate) fn all() -> Vec<Simple> {
    vec![
        Simple::new("regexp", Returns::Truth, |args| {
            let found = each(args, |regex, text, _| Some(regex.is_match(text)))?;
            Ok(Arc::new(BooleanArray::from(found)))
        }),
        Simple::new("regexp_extract", Returns::Text, |args| {
            // The first group if there are any, else all.
            let extract = |regex: &Regex, text: &str, _: Option<&str>| {
                let found = regex.captures(text)?;
                Some(found.get(1).or_else(|| found.get(0))?.as_str().to_owned())
            };
            text(each(&swapped(args), extract)?)
        }),
        Simple::of(3, "regexp_replace_simple", Returns::Text, |args| {
            let replace = |regex: &Regex, text: &str, with: Option<&str>| {
                Some(regex.replace_all(text, regex::NoExpand(with?)).into_owned())
            };
            text(each(&swapped(args), replace)?)
        }),
    ]
}

/// The pattern first.
fn swapped(args: &[ArrayRef]) -> Vec<ArrayRef> {
    let mut args = args.to_vec();
    if args.len() > 1 {
        args.swap(0, 1);
    }
    args
}

fn text(values: Vec<Option<String>>) -> Result<ArrayRef> {
    let mut made = Made::with_capacity(values.len());
    values.iter().try_for_each(|value| made.push(value.as_deref()))?;
    Ok(made.finish())
}

/// What a function finds in each row's text by its pattern. The third argument are flags where it is `i` or `c`.
fn each<T>(
    args: &[ArrayRef],
    find: impl Fn(&Regex, &str, Option<&str>) -> Option<T>,
) -> Result<Vec<Option<T>>> {
    let [patterns, values, rest @ ..] = args else { return plan_err!("it wants a pattern and a text") };
    let (patterns, values) = (texts(patterns)?, texts(values)?);
    let third = rest.first().map(texts).transpose()?;
    let mut last: Option<(String, Regex)> = None;
    let mut out = Vec::with_capacity(values.len());
    for row in 0..values.len() {
        if patterns.is_null(row) || values.is_null(row) {
            out.push(None);
            continue;
        }
        let pattern = patterns.value(row);
        let third = third.as_ref().filter(|third| third.is_valid(row)).map(|third| third.value(row));
        if last.as_ref().is_none_or(|(text, _)| text != pattern) {
            if pattern.len() > MAX_PATTERN_BYTES {
                return exec_err!("a regular expression has more than {MAX_PATTERN_BYTES} bytes");
            }
            let mut builder = RegexBuilder::new(pattern);
            builder
                .size_limit(MAX_COMPILED_BYTES)
                .case_insensitive(third.is_some_and(|flags| flags.ends_with('i')));
            match builder.build() {
                Ok(regex) => last = Some((pattern.to_owned(), regex)),
                Err(regex::Error::CompiledTooBig(_)) => {
                    return exec_err!(
                        "the regular expression {pattern} takes more than {MAX_COMPILED_BYTES} bytes"
                    );
                }
                Err(_) => return exec_err!("{pattern} is no regular expression"),
            }
        }
        out.push(last.as_ref().and_then(|(_, regex)| find(regex, values.value(row), third)));
    }
    Ok(out)
}
