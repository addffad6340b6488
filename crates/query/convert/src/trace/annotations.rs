//! Arguments as annotations of events: `debug.list[3].x` is an entry `x` of the fourth value of an array.
//!
//! A value that is missing in an array has no place there: those after it move up.

use ferretto_protos::fields::debug_annotation as field;
use ferretto_protos::fields::interned_data::DEBUG_ANNOTATION_NAMES;
use ferretto_protozero::Message;
use ferretto_trace_tables::{ArgSetId, Str, Tables};

use super::sequence::Sequence;
use crate::args::{ArgValue, args_of};

/// Names within names; what is deeper is one name. Ours: it bounds the depth of our own calls, and of those who read it.
const MAX_DEPTH: usize = 32;

/// Numbers of rows, which are others when the trace is read again.
const OF_ROWS: [&str; 3] = ["utid", "upid", "legacy_event.passthrough_utid"];

/// An annotation, or a value of an array.
struct Node<'a> {
    /// What it is called, or that it is in an array.
    name: Part<'a>,
    value: Option<ArgValue<'a>>,
    inner: Vec<Self>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part<'a> {
    Name(&'a str),
    Index(&'a str),
}

/// Writes the arguments of a set into an event, in their `field`.
pub(super) fn write(
    tables: &Tables,
    set: ArgSetId,
    sequence: &mut Sequence,
    event: &mut Message<'_, Vec<u8>>,
    into: u32,
) {
    let mut nodes = Vec::new();
    for arg in args_of(tables, set) {
        if OF_ROWS.contains(&arg.key) {
            continue;
        }
        let key = arg.key.strip_prefix("debug.").or_else(|| arg.key.strip_prefix("args.")).unwrap_or(arg.key);
        add(&mut nodes, key, arg.value);
    }
    for node in &nodes {
        let mut annotation = event.nested(into);
        node.write(tables, sequence, &mut annotation);
    }
}

/// Only the last of each level is looked at: keys come in order, and of two with one name both count.
fn add<'a>(nodes: &mut Vec<Node<'a>>, key: &'a str, value: ArgValue<'a>) {
    let mut at = nodes;
    let parts = parts(key);
    let Some((last, above)) = parts.split_last() else { return };
    for part in above {
        let is_there = at.last().is_some_and(|node| node.name == *part && node.value.is_none());
        if !is_there {
            at.push(Node { name: *part, value: None, inner: Vec::new() });
        }
        match at.last_mut() {
            Some(node) => at = &mut node.inner,
            None => return,
        }
    }
    at.push(Node { name: *last, value: Some(value), inner: Vec::new() });
}

fn parts(key: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    for word in key.splitn(MAX_DEPTH, '.') {
        let (name, indices) = word.split_once('[').map_or((word, None), |(name, rest)| (name, Some(rest)));
        parts.push(Part::Name(name));
        let indices = indices.into_iter().flat_map(|rest| rest.split('['));
        parts.extend(indices.take(MAX_DEPTH).map(|index| Part::Index(index.trim_end_matches(']'))));
    }
    parts
}

impl Node<'_> {
    fn write(&self, tables: &Tables, sequence: &mut Sequence, to: &mut Message<'_, Vec<u8>>) {
        if let Part::Name(name) = self.name {
            match tables.strings.find(name) {
                Some(known) => to.varint(field::NAME_IID, name_iid(tables, known, sequence)),
                None => to.string(field::NAME, name),
            }
        }
        match self.value {
            Some(value) => write_value(value, to),
            None => {
                for node in &self.inner {
                    let into = match node.name {
                        Part::Name(_) => field::DICT_ENTRIES,
                        Part::Index(_) => field::ARRAY_VALUES,
                    };
                    node.write(tables, sequence, &mut to.nested(into));
                }
            }
        }
    }
}

fn name_iid(tables: &Tables, name: Str, sequence: &mut Sequence) -> u64 {
    sequence.text(DEBUG_ANNOTATION_NAMES, name, &tables.strings)
}

fn write_value(value: ArgValue<'_>, to: &mut Message<'_, Vec<u8>>) {
    match value {
        ArgValue::Int(value) => to.int(field::INT_VALUE, value),
        ArgValue::Uint(value) => to.varint(field::UINT_VALUE, value),
        ArgValue::Bool(value) => to.bool(field::BOOL_VALUE, value),
        ArgValue::Real(value) => to.double(field::DOUBLE_VALUE, value),
        ArgValue::Pointer(value) => to.varint(field::POINTER_VALUE, value),
        ArgValue::Text(value) => to.string(field::STRING_VALUE, value),
        ArgValue::Json(value) => to.string(field::LEGACY_JSON_VALUE, value),
        ArgValue::Null => to.string(field::LEGACY_JSON_VALUE, "null"),
    }
}
