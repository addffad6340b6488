//! `__intrinsic_arg_set_to_json(arg_set_id)`: a set of arguments as an object of JSON.
//!
//! Points in keys are objects in objects, and numbers in brackets places in arrays.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewBuilder};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use ferretto_trace_tables::{Tables, Value};

use crate::functions::conversions::one;
use crate::functions::of_tables::{OfTables, Returns, cell};
use crate::functions::text::{ints, real_text};
use crate::json::quoted;

/// Objects in objects; the rest of a key is one name then. Ours: writing an object takes some stack for each.
const MAX_DEPTH: usize = 64;
/// Places in an array; what has a higher number is left out. Ours: a key may say any number.
const MAX_PLACES: usize = 1 << 16;

pub(crate) fn all(tables: &Arc<Tables>) -> Vec<OfTables> {
    let returns = Returns::Always(&DataType::Utf8View);
    ["__intrinsic_arg_set_to_json", "arg_set_to_json"]
        .map(|name| OfTables::new(tables, name, 1, returns, |tables, args, _| run(tables, args)))
        .into()
}

fn run(tables: &Tables, args: &[ArrayRef]) -> Result<ArrayRef> {
    let sets = ints(one(args)?)?;
    let mut out = StringViewBuilder::with_capacity(sets.len());
    for row in 0..sets.len() {
        out.append_option((!sets.is_null(row)).then(|| object(tables, sets.value(row))).flatten());
    }
    Ok(Arc::new(out.finish()))
}

/// A set's number is that of its first row.
fn object(tables: &Tables, set: i64) -> Option<String> {
    let cell = |name: &str, row| cell(&tables.args, name, row);
    let first = usize::try_from(set).ok()?;
    let rows = (first..tables.args.len()).take_while(|row| cell("arg_set_id", *row) == Value::Int(set));
    let mut whole = Node::default();
    let mut is_there = false;
    for row in rows {
        is_there = true;
        let (Value::Str(key), Value::Str(value_type)) = (cell("key", row), cell("value_type", row)) else {
            continue;
        };
        let value_type = tables.strings.get(value_type);
        let value = match (cell("int_value", row), cell("real_value", row), cell("string_value", row)) {
            (Value::Int(value), ..) => int(value, value_type),
            (_, Value::Real(value), _) if value.is_finite() => real_text(value),
            (.., Value::Str(text)) if value_type == "json" => tables.strings.get(text).to_owned(),
            (.., Value::Str(text)) => quoted(tables.strings.get(text)),
            _ => "null".to_owned(),
        };
        whole.put(tables.strings.get(key), value, 0);
    }
    let mut text = String::new();
    whole.write(&mut text);
    is_there.then_some(text)
}

fn int(value: i64, value_type: &str) -> String {
    match value_type {
        "uint" => (value as u64).to_string(),
        "pointer" => format!("\"0x{value:x}\""),
        "bool" => (value != 0).to_string(),
        _ => value.to_string(),
    }
}

/// A value, or what is in an object or an array, in the order in which it came.
#[derive(Default)]
enum Node {
    #[default]
    Nothing,
    Value(String),
    Object(Vec<(String, Self)>),
    Array(Vec<Self>),
}

impl Node {
    fn put(&mut self, key: &str, value: String, depth: usize) {
        if key.is_empty() {
            *self = Self::Value(value);
            return;
        }
        let place = key.strip_prefix('[').filter(|_| depth < MAX_DEPTH).and_then(|rest| rest.split_once(']'));
        if let Some((place, rest)) = place
            && let Ok(place) = place.parse::<usize>()
        {
            if place < MAX_PLACES
                && let Some(node) = self.place(place)
            {
                node.put(rest.strip_prefix('.').unwrap_or(rest), value, depth + 1);
            }
            return;
        }
        let end = match depth < MAX_DEPTH {
            true => key.find(['.', '[']).filter(|end| *end > 0).unwrap_or(key.len()),
            false => key.len(),
        };
        let (name, rest) = key.split_at(end);
        self.field(name).put(rest.strip_prefix('.').unwrap_or(rest), value, depth + 1);
    }

    fn place(&mut self, place: usize) -> Option<&mut Self> {
        if !matches!(self, Self::Array(_)) {
            *self = Self::Array(Vec::new());
        }
        let Self::Array(nodes) = self else { return None };
        if nodes.len() <= place {
            nodes.resize_with(place + 1, Self::default);
        }
        nodes.get_mut(place)
    }

    fn field(&mut self, name: &str) -> &mut Self {
        if !matches!(self, Self::Object(_)) {
            *self = Self::Object(Vec::new());
        }
        let Self::Object(fields) = self else { return self };
        // Most often it is the last.
        let at = fields.iter().rposition(|(its, _)| its == name).unwrap_or_else(|| {
            fields.push((name.to_owned(), Self::default()));
            fields.len() - 1
        });
        &mut fields[at].1
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Nothing => out.push_str("null"),
            Self::Value(value) => out.push_str(value),
            Self::Object(fields) => {
                for (at, (name, node)) in fields.iter().enumerate() {
                    out.push(if at == 0 { '{' } else { ',' });
                    out.push_str(&quoted(name));
                    out.push(':');
                    node.write(out);
                }
                out.push('}');
            }
            Self::Array(nodes) => {
                for (at, node) in nodes.iter().enumerate() {
                    out.push(if at == 0 { '[' } else { ',' });
                    node.write(out);
                }
                out.push(']');
            }
        }
    }
}
