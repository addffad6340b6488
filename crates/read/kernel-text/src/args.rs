//! Arguments of events, whatever their type.

use ferretto_trace_tables::tables::Tables;
use ferretto_trace_tables::{ArgSetId, Blocks, Str};

/// An argument, whatever its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arg<'a> {
    /// What it is called.
    pub key: &'a str,
    /// What it is.
    pub value: ArgValue<'a>,
}

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ArgValue<'a> {
    /// A whole number.
    Int(i64),
    /// One that is never negative.
    Uint(u64),
    /// A condition.
    Bool(bool),
    /// A number.
    Real(f64),
    /// An address.
    Pointer(u64),
    /// A text.
    Text(&'a str),
    /// A text of JSON.
    Json(&'a str),
    /// Nothing.
    Null,
}

/// The arguments of a set, in their order.
pub fn args_of(tables: &Tables, set: ArgSetId) -> impl Iterator<Item = Arg<'_>> {
    let args = &tables.args;
    let rows = (set.index()..args.len()).take_while(move |row| args.arg_set_id.get(*row) == Some(set));
    rows.map(move |row| {
        let text = |column: &Blocks<Option<Str>>| column.at(row).map_or("", |it| tables.strings.get(it));
        let int = args.int_value.get(row).unwrap_or(0);
        let value = match text(&args.value_type) {
            "int" => ArgValue::Int(int),
            "uint" => ArgValue::Uint(int.cast_unsigned()),
            "bool" => ArgValue::Bool(int != 0),
            "real" => ArgValue::Real(args.real_value.get(row).unwrap_or(0.0)),
            "pointer" => ArgValue::Pointer(int.cast_unsigned()),
            "string" => ArgValue::Text(text(&args.string_value)),
            "json" => ArgValue::Json(text(&args.string_value)),
            _ => ArgValue::Null,
        };
        Arg { key: text(&args.key), value }
    })
}

impl ArgValue<'_> {
    /// As a text, whatever it is.
    #[must_use]
    pub fn to_text(self) -> String {
        match self {
            Self::Text(value) | Self::Json(value) => value.to_owned(),
            Self::Pointer(value) => format!("{value:#x}"),
            Self::Int(value) => value.to_string(),
            Self::Uint(value) => value.to_string(),
            Self::Bool(value) => value.to_string(),
            // With a point, as JSON has it.
            Self::Real(value) if value.is_finite() => format!("{value:?}"),
            Self::Real(_) | Self::Null => "null".to_owned(),
        }
    }
}
