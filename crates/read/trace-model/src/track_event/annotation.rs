//! Arguments out of debug annotations (upstream: proto_to_args_parser.cc).

use ferretto_protos::fields::debug_annotation::nested_value;
use ferretto_protos::fields::{debug_annotation as field, interned_data};
use ferretto_trace_read::fields::{Fields, Value};
use ferretto_trace_tables::{Str, Strings};

use super::said::{Keys, Reader, Unreadable};
use super::{WriterId, json};
use crate::args::ArgValue;
use crate::wire;

/// Annotations and messages within others. Ours: it bounds the depth of our own calls; writers go a few deep.
pub(super) const MAX_DEPTH: usize = 64;

/// What an annotation says. Of several values the first of these counts, wherever it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Dict,
    Array,
    Bool,
    Uint,
    Int,
    Real,
    Text,
    TextIid,
    Pointer,
    Json,
    Message,
    Nested,
    #[default]
    Nothing,
}

/// An annotation as it was written.
#[derive(Clone, Copy, Debug, Default)]
struct Annotation<'a> {
    message: &'a [u8],
    name_iid: u64,
    name: Option<&'a [u8]>,
    kind: Kind,
    number: u64,
    bytes: &'a [u8],
    type_name: Option<&'a [u8]>,
    type_name_iid: Option<u64>,
}

impl Kind {
    /// It is one argument with the key of its annotation, and is read without fail.
    const fn is_simple(self) -> bool {
        matches!(self, Self::Bool | Self::Uint | Self::Int | Self::Real | Self::Pointer | Self::Text)
    }
}

impl<'a> Annotation<'a> {
    #[inline]
    fn of(message: &'a [u8]) -> Self {
        let mut it = Self { message, ..Self::default() };
        for part in Fields::new(message).whole() {
            let number = part.value.as_u64().unwrap_or(0);
            let bytes = part.value.as_bytes().unwrap_or_default();
            let kind = match part.number {
                field::NAME_IID => {
                    it.name_iid = number;
                    continue;
                }
                field::NAME => {
                    it.name = part.value.as_bytes();
                    continue;
                }
                field::PROTO_TYPE_NAME => {
                    it.type_name = part.value.as_bytes();
                    continue;
                }
                field::PROTO_TYPE_NAME_IID => {
                    it.type_name_iid = Some(number);
                    continue;
                }
                field::DICT_ENTRIES => Kind::Dict,
                field::ARRAY_VALUES => Kind::Array,
                field::BOOL_VALUE => Kind::Bool,
                field::UINT_VALUE => Kind::Uint,
                field::INT_VALUE => Kind::Int,
                field::DOUBLE_VALUE => Kind::Real,
                field::STRING_VALUE => Kind::Text,
                field::STRING_VALUE_IID => Kind::TextIid,
                field::POINTER_VALUE => Kind::Pointer,
                field::LEGACY_JSON_VALUE => Kind::Json,
                field::PROTO_VALUE => Kind::Message,
                field::NESTED_VALUE => Kind::Nested,
                _ => continue,
            };
            if kind <= it.kind {
                (it.kind, it.number, it.bytes) = (kind, number, bytes);
            }
        }
        it
    }
}

const NAME_IID_TAG: u8 = (field::NAME_IID << 3) as u8;
const BOOL_VALUE_TAG: u8 = (field::BOOL_VALUE << 3) as u8;
const UINT_VALUE_TAG: u8 = (field::UINT_VALUE << 3) as u8;
const INT_VALUE_TAG: u8 = (field::INT_VALUE << 3) as u8;
const DOUBLE_VALUE_TAG: u8 = (field::DOUBLE_VALUE << 3 | 1) as u8;
const STRING_VALUE_TAG: u8 = (field::STRING_VALUE << 3 | 2) as u8;
const POINTER_VALUE_TAG: u8 = (field::POINTER_VALUE << 3) as u8;

/// Reads an annotation with a name by a number that was met lately, and then one simple value: as most are. Nothing if it is another.
#[inline(always)]
pub(super) fn usual_arg(
    message: &[u8],
    writer: WriterId,
    keys: &Keys,
    strings: &mut Strings,
) -> Option<(Str, ArgValue)> {
    let mut fields = Fields::new(message);
    let key = keys.get(writer, fields.number_of(NAME_IID_TAG)?)?;
    let value = match fields.first_byte()? {
        BOOL_VALUE_TAG => ArgValue::Bool(fields.take_number()? != 0),
        UINT_VALUE_TAG => ArgValue::Uint(fields.take_number()?),
        INT_VALUE_TAG => ArgValue::Int(fields.take_number()? as i64),
        DOUBLE_VALUE_TAG => ArgValue::Real(f64::from_bits(fields.take_fixed64()?)),
        STRING_VALUE_TAG => ArgValue::Text(strings.intern_bytes(fields.take_message()?)),
        POINTER_VALUE_TAG => ArgValue::Pointer(fields.take_number()?),
        _ => return None,
    };
    fields.first_byte().is_none().then_some((key, value))
}

impl Reader<'_> {
    /// Reads an annotation of an event, with its name, and all within it. Whoever calls it goes back to where the key was.
    pub(super) fn read_annotation(
        &mut self,
        message: &[u8],
        writer: Option<WriterId>,
    ) -> Result<(), Unreadable> {
        let annotation = Annotation::of(message);
        let writer = writer.filter(|_| annotation.name_iid != 0);
        if let Some(key) = writer.and_then(|writer| self.recent_key(writer, annotation.name_iid))
            && let Some(value) = self.simple_value(&annotation)
        {
            self.add(key, key, value);
            return Ok(());
        }
        let name = self.name_of(&annotation)?;
        self.enter("debug");
        self.enter_sanitized(name);
        self.read_value(&annotation, 0)?;
        if let Some(writer) = writer.filter(|_| annotation.kind.is_simple()) {
            self.remember_key(writer, annotation.name_iid);
        }
        Ok(())
    }

    /// Whether something was added.
    pub(super) fn read_named(&mut self, message: &[u8], depth: usize) -> Result<bool, Unreadable> {
        let annotation = Annotation::of(message);
        let name = self.name_of(&annotation)?;
        let mark = self.mark();
        self.enter_sanitized(name);
        let added = self.read_value(&annotation, depth)?;
        self.leave(mark);
        Ok(added)
    }

    /// A value that is one argument with the key of its annotation, and is read without fail.
    #[inline]
    fn simple_value(&mut self, annotation: &Annotation<'_>) -> Option<ArgValue> {
        let number = annotation.number;
        Some(match annotation.kind {
            Kind::Bool => ArgValue::Bool(number != 0),
            Kind::Uint => ArgValue::Uint(number),
            Kind::Int => ArgValue::Int(number as i64),
            Kind::Real => ArgValue::Real(f64::from_bits(number)),
            Kind::Pointer => ArgValue::Pointer(number),
            Kind::Text => ArgValue::Text(self.strings.intern_bytes(annotation.bytes)),
            _ => return None,
        })
    }

    fn name_of(&mut self, annotation: &Annotation<'_>) -> Result<Str, Unreadable> {
        match (annotation.name_iid, annotation.name) {
            (0, Some(name)) => Ok(self.strings.intern_bytes(name)),
            (0, None) => Err(Unreadable),
            (iid, _) => self.interned(interned_data::DEBUG_ANNOTATION_NAMES, iid),
        }
    }

    /// What means something in keys is none in names.
    fn enter_sanitized(&mut self, name: Str) {
        let name = self.strings.get(name);
        let needs_it = name.contains(['.', '[', ']']);
        let name = if needs_it { name.replace(['.', '[', ']'], "_") } else { name.to_owned() };
        self.enter(&name);
    }

    fn read_value(&mut self, annotation: &Annotation<'_>, depth: usize) -> Result<bool, Unreadable> {
        if depth >= MAX_DEPTH {
            return Err(Unreadable);
        }
        let number = annotation.number;
        match annotation.kind {
            Kind::Dict => {
                for entry in wire::all_bytes(annotation.message, field::DICT_ENTRIES) {
                    self.read_named(entry, depth + 1)?;
                }
            }
            Kind::Array => return self.read_array(annotation.message, depth),
            Kind::Bool | Kind::Uint | Kind::Int | Kind::Real | Kind::Pointer | Kind::Text => {
                if let Some(value) = self.simple_value(annotation) {
                    self.add_here(value);
                }
            }
            Kind::TextIid => {
                let text = self.interned(interned_data::DEBUG_ANNOTATION_STRING_VALUES, number)?;
                self.add_here(ArgValue::Text(text));
            }
            Kind::Json => json::read(self, annotation.bytes),
            Kind::Message => self.read_proto(annotation, depth)?,
            Kind::Nested => return self.read_nested(annotation.bytes, depth + 1),
            Kind::Nothing => return Ok(false),
        }
        Ok(true)
    }

    fn read_array(&mut self, message: &[u8], depth: usize) -> Result<bool, Unreadable> {
        let mut index = self.next_in_array();
        let mut added = false;
        for element in wire::all_bytes(message, field::ARRAY_VALUES) {
            let mark = self.mark();
            self.enter_element(index);
            let one = self.read_value(&Annotation::of(element), depth + 1)?;
            self.leave(mark);
            if one {
                index = self.count_in_array();
                added = true;
            }
        }
        Ok(added)
    }

    fn read_proto(&mut self, annotation: &Annotation<'_>, depth: usize) -> Result<(), Unreadable> {
        let name = match (annotation.type_name, annotation.type_name_iid) {
            (Some(name), _) => String::from_utf8_lossy(name).into_owned(),
            (None, Some(iid)) => {
                let name = self.interned(interned_data::DEBUG_ANNOTATION_VALUE_TYPE_NAMES, iid)?;
                self.strings.get(name).to_owned()
            }
            (None, None) => return Err(Unreadable),
        };
        self.read_message(annotation.bytes, name.strip_prefix('.').ok_or(Unreadable)?, depth + 1)
    }

    /// The older way of saying annotations within others.
    fn read_nested(&mut self, message: &[u8], depth: usize) -> Result<bool, Unreadable> {
        /// `NestedValue.NestedType`.
        const DICT: u64 = 1;
        const ARRAY: u64 = 2;
        if depth >= MAX_DEPTH {
            return Err(Unreadable);
        }
        let kind = wire::number(message, nested_value::NESTED_TYPE).unwrap_or(0);
        match kind {
            DICT => {
                let keys: Vec<&[u8]> = wire::all_bytes(message, nested_value::DICT_KEYS).collect();
                let values: Vec<&[u8]> = wire::all_bytes(message, nested_value::DICT_VALUES).collect();
                if keys.len() != values.len() {
                    return Err(Unreadable);
                }
                for (key, value) in keys.into_iter().zip(values) {
                    let key = self.strings.intern_bytes(key);
                    let mark = self.mark();
                    self.enter_sanitized(key);
                    self.read_nested(value, depth + 1)?;
                    self.leave(mark);
                }
                Ok(true)
            }
            ARRAY => {
                let mut index = self.next_in_array();
                let mut added = false;
                for element in wire::all_bytes(message, nested_value::ARRAY_VALUES) {
                    let mark = self.mark();
                    self.enter_element(index);
                    let one = self.read_nested(element, depth + 1)?;
                    self.leave(mark);
                    if one {
                        index = self.count_in_array();
                        added = true;
                    }
                }
                Ok(added)
            }
            _ => Ok(self.read_nested_leaf(message)),
        }
    }

    fn read_nested_leaf(&mut self, message: &[u8]) -> bool {
        let find = |number| {
            let mut fields = Fields::new(message).whole();
            fields.find(|part| part.number == number).map(|part| part.value)
        };
        let number = |number| find(number).and_then(|value| value.as_u64());
        let value = if let Some(value) = number(nested_value::BOOL_VALUE) {
            ArgValue::Bool(value != 0)
        } else if let Some(value) = number(nested_value::INT_VALUE) {
            ArgValue::Int(value as i64)
        } else if let Some(value) = number(nested_value::DOUBLE_VALUE) {
            ArgValue::Real(f64::from_bits(value))
        } else if let Some(Value::Bytes(text)) = find(nested_value::STRING_VALUE) {
            self.add_text_here(text);
            return true;
        } else {
            return false;
        };
        self.add_here(value);
        true
    }
}
