//! Functions that make longer texts of texts: `a || b || c`, `concat`, `concat_ws`, `replace`.

use arrow::array::{Array, ArrayRef, StringViewArray};
use datafusion::common::{Result, plan_err};

use crate::functions::text::{Made, texts};
use crate::functions::{Returns, Simple, rows};

/// What `||` becomes: all that stand behind each other are one call.
pub(crate) const CONCATENATED: &str = "concatenated";

pub(crate) fn all() -> Vec<Simple> {
    vec![
        // NULL if one of them is.
        Simple::new(CONCATENATED, Returns::Text, |args| {
            let parts = args.iter().map(texts).collect::<Result<Vec<_>>>()?;
            made(rows(args), |row, text| {
                parts.iter().try_for_each(|part| text.add(part.is_valid(row).then(|| part.value(row))))
            })
        }),
        Simple::new("concat", Returns::Text, |args| {
            let parts = args.iter().map(texts).collect::<Result<Vec<_>>>()?;
            made(rows(args), |row, text| {
                parts
                    .iter()
                    .filter(|part| part.is_valid(row))
                    .try_for_each(|part| text.add(Some(part.value(row))))
            })
        }),
        Simple::new("concat_ws", Returns::Text, concat_ws),
        Simple::of(3, "replace", Returns::Text, replace),
    ]
}

/// A row's text while it is made.
struct Text<'m> {
    made: &'m Made,
    text: String,
    is_null: bool,
}

impl Text<'_> {
    /// With NULL all of it is.
    fn add(&mut self, part: Option<&str>) -> Result<()> {
        let Some(part) = part else {
            self.is_null = true;
            return Ok(());
        };
        self.made.may_grow(self.text.len() + part.len())?;
        self.text.push_str(part);
        Ok(())
    }
}

fn made(rows: usize, mut add: impl FnMut(usize, &mut Text<'_>) -> Result<()>) -> Result<ArrayRef> {
    let mut made = Made::with_capacity(rows);
    let mut text = String::new();
    for row in 0..rows {
        text.clear();
        let mut next = Text { made: &made, text, is_null: false };
        add(row, &mut next)?;
        let is_null = next.is_null;
        text = next.text;
        made.push((!is_null).then_some(text.as_str()))?;
    }
    Ok(made.finish())
}

/// `concat_ws(between, a, b, …)`, NULLs left out.
fn concat_ws(args: &[ArrayRef]) -> Result<ArrayRef> {
    let parts = args.iter().map(texts).collect::<Result<Vec<_>>>()?;
    let [between, parts @ ..] = parts.as_slice() else {
        return plan_err!("concat_ws wants what stands between");
    };
    let value =
        |array: &StringViewArray, row: usize| array.is_valid(row).then(|| array.value(row).to_owned());
    made(rows(args), |row, text| {
        let Some(between) = value(between, row) else { return text.add(None) };
        let valid = parts.iter().filter(|part| part.is_valid(row));
        for (at, part) in valid.enumerate() {
            text.add((at > 0).then_some(between.as_str()).or(Some("")))?;
            text.add(Some(part.value(row)))?;
        }
        Ok(())
    })
}

/// `replace(text, what, with)`; nothing is found where `what` is empty.
fn replace(args: &[ArrayRef]) -> Result<ArrayRef> {
    let parts = args.iter().map(texts).collect::<Result<Vec<_>>>()?;
    let [all, what, with] = parts.as_slice() else { return plan_err!("replace wants three texts") };
    made(rows(args), |row, text| {
        if !parts.iter().all(|part| part.is_valid(row)) {
            return text.add(None);
        }
        let (all, what, with) = (all.value(row), what.value(row), with.value(row));
        if what.is_empty() {
            return text.add(Some(all));
        }
        for (at, part) in all.split(what).enumerate() {
            text.add((at > 0).then_some(with).or(Some("")))?;
            text.add(Some(part))?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::AsArray as _;

    use super::*;

    fn text(value: Option<&str>) -> ArrayRef {
        Arc::new(StringViewArray::from(vec![value]))
    }

    fn shown(array: &ArrayRef) -> Option<&str> {
        array.is_valid(0).then(|| array.as_string_view().value(0))
    }

    #[test]
    fn texts_are_joined_and_replaced() {
        let parts = [text(Some(", ")), text(Some("a")), text(None), text(Some("b"))];
        assert_eq!(shown(&concat_ws(&parts).unwrap()), Some("a, b"));
        let replaced = |all, what, with| {
            let array = replace(&[text(Some(all)), text(Some(what)), text(Some(with))]).unwrap();
            shown(&array).map(str::to_owned)
        };
        assert_eq!(replaced("banana", "an", "<>").as_deref(), Some("b<><>a"));
        assert_eq!(replaced("banana", "", "x").as_deref(), Some("banana"));
        assert_eq!(replaced("", "a", "x").as_deref(), Some(""));
    }

    #[test]
    fn texts_of_texts_stay_small() {
        let (many, long) = ("a".repeat(1 << 14), "b".repeat(1 << 14));
        let error = replace(&[text(Some(&many)), text(Some("a")), text(Some(&long))]).unwrap_err();
        assert!(error.to_string().contains("64 MB"), "{error}");
    }
}
