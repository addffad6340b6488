//! Operators on spans of time: rows with `ts` and `dur`.

pub(crate) mod span_join;
mod spans;
