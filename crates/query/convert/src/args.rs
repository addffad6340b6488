//! Arguments as JSON: `debug.list[3].x` is what is called `x` in the fourth of a list.

pub(crate) use ferretto_kernel_text::{Arg, ArgValue, args_of};
use ferretto_trace_tables::ArgSetId;
use ferretto_trace_tables::tables::Tables;
use serde_json::{Map, Value};

/// Names within names. Ours: it bounds the depth of what is made, and of our own calls; Trace Processor's keys go a few deep.
const MAX_DEPTH: usize = 64;
/// Lists are filled up to here. Ours: a key may claim any place in one.
const MAX_ELEMENTS: usize = 1 << 16;

/// A set as one object. What programs call `debug` and `args` comes without that word.
pub(crate) fn to_json(tables: &Tables, set: ArgSetId) -> Map<String, Value> {
    let mut root = Value::Object(Map::new());
    for arg in args_of(tables, set) {
        let key = arg.key.strip_prefix("debug.").or_else(|| arg.key.strip_prefix("args.")).unwrap_or(arg.key);
        if let Some(place) = place(&mut root, key) {
            *place = json_of(arg.value);
        }
    }
    match root {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// A value as JSON.
fn json_of(value: ArgValue<'_>) -> Value {
    match value {
        ArgValue::Int(value) => value.into(),
        ArgValue::Uint(value) => value.into(),
        ArgValue::Bool(value) => value.into(),
        ArgValue::Real(value) => value.into(),
        ArgValue::Pointer(value) => format!("{value:#x}").into(),
        ArgValue::Text(value) => value.into(),
        ArgValue::Json(value) => serde_json::from_str(value).unwrap_or_else(|_| value.into()),
        ArgValue::Null => Value::Null,
    }
}

/// Where a key points to. Nothing if something else stands in its way.
fn place<'a>(root: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    let mut at = root;
    for part in key.split('.').take(MAX_DEPTH) {
        let (name, indices) = part.split_once('[').map_or((part, ""), |(name, rest)| (name, rest));
        at = member(at, name)?;
        for index in indices.split('[').filter(|index| !index.is_empty()) {
            at = element(at, index.strip_suffix(']')?.parse().ok()?)?;
        }
    }
    Some(at)
}

fn member<'a>(at: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    if at.is_null() {
        *at = Value::Object(Map::new());
    }
    Some(at.as_object_mut()?.entry(name).or_insert(Value::Null))
}

fn element(at: &mut Value, index: usize) -> Option<&mut Value> {
    if at.is_null() {
        *at = Value::Array(Vec::new());
    }
    let list = at.as_array_mut()?;
    if index >= MAX_ELEMENTS {
        return None;
    }
    if list.len() <= index {
        list.resize(index + 1, Value::Null);
    }
    list.get_mut(index)
}

#[cfg(test)]
mod tests {
    use ferretto_trace_tables::tables::ArgRow;

    use super::*;

    #[test]
    fn keys_become_objects_and_lists() {
        let mut tables = Tables::default();
        let mut add = |key: &str, kind: &str, int_value, string: Option<&str>| {
            let strings = &mut tables.strings;
            let row = ArgRow {
                arg_set_id: ArgSetId(0),
                key: Some(strings.intern(key)),
                value_type: Some(strings.intern(kind)),
                int_value,
                string_value: string.map(|text| strings.intern(text)),
                ..ArgRow::default()
            };
            tables.args.push(row);
        };
        add("debug.list[1].x", "int", Some(-3), None);
        add("debug.list[0]", "uint", Some(-1), None);
        add("debug.truth", "bool", Some(1), None);
        add("source.file", "string", None, Some("a.rs"));
        add("debug.at", "pointer", Some(0xbeef), None);
        add("debug.more", "json", None, Some("{\"a\":[1]}"));
        add("debug.truth.below", "int", Some(1), None);
        add("debug.far[99999999]", "int", Some(1), None);
        let json = Value::Object(to_json(&tables, ArgSetId(0))).to_string();
        assert_eq!(
            json,
            "{\"list\":[18446744073709551615,{\"x\":-3}],\"truth\":true,\"source\":{\"file\":\"a.rs\"},\
             \"at\":\"0xbeef\",\"more\":{\"a\":[1]},\"far\":[]}"
        );
    }
}
