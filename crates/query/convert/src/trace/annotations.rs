//! Arguments as annotations of events: `debug.list[3].x` is an entry `x` of the fourth value of an array.
//!
//! Those whose keys begin otherwise (`args.x` of Chrome's JSON, `otlp.kind`) are annotations, too, but in a field of their own, which the trace
//! describes (`ExtensionDescriptor`): what is in fields of events by other names than `debug` has no word before it.
//!
//! A value that is missing in an array has no place there: those after it move up.

use ferretto_protos::fields::debug_annotation as field;
use ferretto_protos::fields::interned_data::DEBUG_ANNOTATION_NAMES;
use ferretto_protos::fields::trace_packet::EXTENSION_DESCRIPTOR;
use ferretto_protos::fields::{extension_descriptor, track_event};
use ferretto_protozero::Message;
use ferretto_trace_tables::{ArgSetId, Str, Tables};

use super::kept::Kept;
use super::number;
use super::sequence::Sequence;
use crate::Error;
use crate::args::{Arg, ArgValue, args_of};
use crate::packets::Sink;

/// Names within names; what is deeper is one name. Ours: it bounds the depth of our own calls, and of those who read it.
const MAX_DEPTH: usize = 32;

/// The extension of `TrackEvent` for arguments that are not `debug`'s. Its number is of those that are left for tests, which nobody registers
/// (upstream: track_event.proto).
const OTHERS: u32 = 9_900;

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

/// Describes the extension, if there is anything to be in it.
pub(super) fn describe(tables: &Tables, sink: &mut dyn Sink) -> Result<(), Error> {
    /// `FileDescriptorSet.file`, and of `FileDescriptorProto`.
    const FILE: u32 = 1;
    const EXTENSION: u32 = 7;
    /// Of `FieldDescriptorProto`, and of its `Label` and `Type`.
    const NAME: u32 = 1;
    const EXTENDEE: u32 = 2;
    const NUMBER: u32 = 3;
    const LABEL: u32 = 4;
    const TYPE: u32 = 5;
    const TYPE_NAME: u32 = 6;
    const REPEATED: u64 = 3;
    const MESSAGE: u64 = 11;
    let keys = &tables.args.key;
    let is_needed = (0..tables.args.len()).any(|row| {
        let key = keys.at(row).map(|key| tables.strings.get(key));
        key.is_some_and(|key| !key.starts_with(DEBUG))
    });
    if !is_needed {
        return Ok(());
    }
    let mut bytes = Vec::new();
    let mut descriptor = Message::new(&mut bytes);
    let mut set = descriptor.nested(extension_descriptor::EXTENSION_SET);
    let mut file = set.nested(FILE);
    file.string(NAME, "ferretto/arguments.proto");
    let mut extension = file.nested(EXTENSION);
    extension.string(NAME, "arguments");
    extension.string(EXTENDEE, ".perfetto.protos.TrackEvent");
    extension.varint(NUMBER, OTHERS.into());
    extension.varint(LABEL, REPEATED);
    extension.varint(TYPE, MESSAGE);
    extension.string(TYPE_NAME, ".perfetto.protos.DebugAnnotation");
    drop(extension);
    drop(file);
    drop(set);
    drop(descriptor);
    Sequence::new(number::DESCRIPTIONS).put(None, EXTENSION_DESCRIPTOR, &bytes, sink)
}

/// What keys of annotations begin with.
const DEBUG: &str = "debug.";

/// Writes the arguments of a set into an event.
///
/// A reader takes annotations after all other fields: a set in another order is in the extension as a whole.
pub(super) fn write(
    tables: &Tables,
    set: ArgSetId,
    kept: Kept,
    sequence: &mut Sequence,
    event: &mut Message<'_, Vec<u8>>,
) {
    let args: Vec<Arg<'_>> = args_of(tables, set).filter(|arg| kept.has(arg.key)).collect();
    let first = args.iter().position(|arg| arg.key.starts_with(DEBUG)).unwrap_or(args.len());
    let (others, annotations) = args.split_at(first);
    if annotations.iter().all(|arg| arg.key.starts_with(DEBUG)) {
        write_nodes(tables, others, "", sequence, event, OTHERS);
        write_nodes(tables, annotations, DEBUG, sequence, event, track_event::DEBUG_ANNOTATIONS);
    } else {
        write_nodes(tables, &args, "", sequence, event, OTHERS);
    }
}

fn write_nodes(
    tables: &Tables,
    args: &[Arg<'_>],
    without: &str,
    sequence: &mut Sequence,
    event: &mut Message<'_, Vec<u8>>,
    into: u32,
) {
    let mut nodes = Vec::new();
    for arg in args {
        add(&mut nodes, arg.key.strip_prefix(without).unwrap_or(arg.key), arg.value);
    }
    for node in &nodes {
        node.write(tables, sequence, &mut event.nested(into));
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
