//! Arguments out of any message that a descriptor is known of (upstream: proto_to_args_parser.cc, descriptors.cc).
//!
//! The descriptors are those of this system's own messages and of Chrome's, which are read when one is first asked for, and those that a trace
//! brings itself.
//!
//! Memory: some 100 bytes for each field that a trace describes.

use std::rc::Rc;

use ferretto_protos::fields::extension_descriptor;
use ferretto_protozero::read::{Fields, PackedVarints, Value};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::annotation::MAX_DEPTH;
use super::said::{Reader, Unreadable, base64};
use crate::args::ArgValue;
use crate::wire;

const DEBUG_ANNOTATION: &str = "perfetto.protos.DebugAnnotation";

/// `FieldDescriptorProto.Type`.
pub(super) mod field_type {
    pub(in super::super) const DOUBLE: u64 = 1;
    pub(in super::super) const FLOAT: u64 = 2;
    pub(in super::super) const INT64: u64 = 3;
    pub(in super::super) const UINT64: u64 = 4;
    pub(in super::super) const INT32: u64 = 5;
    pub(in super::super) const FIXED64: u64 = 6;
    pub(in super::super) const FIXED32: u64 = 7;
    pub(in super::super) const BOOL: u64 = 8;
    pub(in super::super) const STRING: u64 = 9;
    pub(in super::super) const MESSAGE: u64 = 11;
    pub(in super::super) const BYTES: u64 = 12;
    pub(in super::super) const UINT32: u64 = 13;
    pub(in super::super) const ENUM: u64 = 14;
    pub(in super::super) const SFIXED32: u64 = 15;
    pub(in super::super) const SFIXED64: u64 = 16;
    pub(in super::super) const SINT32: u64 = 17;
    pub(in super::super) const SINT64: u64 = 18;
}

/// All descriptors that are known.
#[derive(Debug, Default)]
pub struct Pool {
    messages: HashMap<String, Rc<MessageType>, RandomState>,
    enums: HashMap<String, Rc<HashMap<i32, String, RandomState>>, RandomState>,
    has_own: bool,
}

/// A message.
#[derive(Clone, Debug, Default)]
pub(super) struct MessageType {
    fields: HashMap<u32, FieldType, RandomState>,
}

/// A field.
#[derive(Clone, Debug, Default)]
pub(super) struct FieldType {
    pub number: u32,
    pub name: String,
    pub kind: u64,
    pub is_repeated: bool,
    pub type_name: String,
}

impl MessageType {
    pub(super) fn field(&self, number: u32) -> Option<&FieldType> {
        self.fields.get(&number)
    }
}

impl Pool {
    /// Takes note of what a trace describes (`ExtensionDescriptor`). What is known stays as it is.
    pub fn add_extensions(&mut self, message: &[u8]) {
        self.add_own();
        self.add_files(wire::bytes(message, extension_descriptor::EXTENSION_SET).unwrap_or_default());
    }

    /// The message of a name.
    pub(super) fn find(&mut self, name: &str) -> Option<Rc<MessageType>> {
        self.add_own();
        self.messages.get(name).cloned()
    }

    fn add_own(&mut self) {
        if !std::mem::replace(&mut self.has_own, true) {
            self.add_files(ferretto_protos::DESCRIPTORS);
            self.add_chrome();
        }
    }

    pub(super) fn has_enum(&self, name: &str) -> bool {
        self.enums.contains_key(name)
    }

    /// A message without fields so far.
    pub(super) fn add_empty(&mut self, name: &str) {
        if !self.has_enum(name) {
            self.messages.entry(name.to_owned()).or_default();
        }
    }

    /// A value of an enum; what is known stays as it is.
    pub(super) fn add_value(&mut self, of: &str, number: i32, name: &str) {
        let values = self.enums.entry(of.to_owned()).or_default();
        Rc::make_mut(values).entry(number).or_insert_with(|| name.to_owned());
    }

    /// A field of a message; what is known stays as it is.
    pub(super) fn add_field(&mut self, of: &str, field: FieldType) {
        let message = self.messages.entry(of.to_owned()).or_default();
        Rc::make_mut(message).fields.entry(field.number).or_insert(field);
    }

    fn add_files(&mut self, set: &[u8]) {
        /// `FileDescriptorSet.file`, and of `FileDescriptorProto`.
        const FILE: u32 = 1;
        const PACKAGE: u32 = 2;
        const MESSAGE_TYPE: u32 = 4;
        const ENUM_TYPE: u32 = 5;
        const EXTENSION: u32 = 7;
        let mut extensions = Vec::new();
        for file in wire::all_bytes(set, FILE) {
            let package = text(file, PACKAGE);
            for message in wire::all_bytes(file, MESSAGE_TYPE) {
                self.add_message(&package, message, &mut extensions, 0);
            }
            for each in wire::all_bytes(file, ENUM_TYPE) {
                self.add_enum(&package, each);
            }
            extensions.extend(wire::all_bytes(file, EXTENSION));
        }
        for extension in extensions {
            self.add_extension(extension);
        }
    }

    fn add_message<'a>(
        &mut self,
        within: &str,
        message: &'a [u8],
        extensions: &mut Vec<&'a [u8]>,
        depth: usize,
    ) {
        /// Of `DescriptorProto`.
        const NAME: u32 = 1;
        const FIELD: u32 = 2;
        const NESTED_TYPE: u32 = 3;
        const ENUM_TYPE: u32 = 4;
        const EXTENSION: u32 = 6;
        if depth >= MAX_DEPTH {
            return;
        }
        let name = full_name(within, &text(message, NAME));
        for nested in wire::all_bytes(message, NESTED_TYPE) {
            self.add_message(&name, nested, extensions, depth + 1);
        }
        for each in wire::all_bytes(message, ENUM_TYPE) {
            self.add_enum(&name, each);
        }
        extensions.extend(wire::all_bytes(message, EXTENSION));
        let fields =
            wire::all_bytes(message, FIELD).map(read_field).map(|field| (field.number, field)).collect();
        self.messages.entry(name).or_insert_with(|| Rc::new(MessageType { fields }));
    }

    fn add_enum(&mut self, within: &str, message: &[u8]) {
        /// Of `EnumDescriptorProto` and `EnumValueDescriptorProto`.
        const NAME: u32 = 1;
        const VALUE: u32 = 2;
        const NUMBER: u32 = 2;
        let mut values = HashMap::<i32, String, RandomState>::default();
        for value in wire::all_bytes(message, VALUE) {
            let number = wire::number(value, NUMBER).unwrap_or(0) as i32;
            values.entry(number).or_insert_with(|| text(value, NAME));
        }
        let name = full_name(within, &text(message, NAME));
        self.enums.entry(name).or_insert_with(|| Rc::new(values));
    }

    fn add_extension(&mut self, message: &[u8]) {
        const EXTENDEE: u32 = 2;
        let extendee = text(message, EXTENDEE);
        let field = read_field(message);
        if let Some(extended) = self.messages.get_mut(extendee.trim_start_matches('.')) {
            Rc::make_mut(extended).fields.entry(field.number).or_insert(field);
        }
    }
}

fn read_field(message: &[u8]) -> FieldType {
    /// Of `FieldDescriptorProto`.
    const NAME: u32 = 1;
    const NUMBER: u32 = 3;
    const LABEL: u32 = 4;
    const TYPE: u32 = 5;
    const TYPE_NAME: u32 = 6;
    const REPEATED: u64 = 3;
    let number = |field| wire::number(message, field).unwrap_or(0);
    FieldType {
        number: number(NUMBER) as u32,
        name: text(message, NAME),
        kind: number(TYPE),
        is_repeated: number(LABEL) == REPEATED,
        type_name: text(message, TYPE_NAME).trim_start_matches('.').to_owned(),
    }
}

fn full_name(within: &str, name: &str) -> String {
    if within.is_empty() { name.to_owned() } else { format!("{within}.{name}") }
}

fn text(message: &[u8], number: u32) -> String {
    String::from_utf8_lossy(wire::bytes(message, number).unwrap_or_default()).into_owned()
}

/// How often each repeated field of a message has come.
type Repeated = HashMap<u32, u32, RandomState>;

impl Reader<'_> {
    /// Reads a message of the type of this name, by the key so far.
    pub(super) fn read_message(
        &mut self,
        message: &[u8],
        name: &str,
        depth: usize,
    ) -> Result<(), Unreadable> {
        if name == DEBUG_ANNOTATION {
            return self.read_named(message, depth).map(|_| ());
        }
        if depth >= MAX_DEPTH {
            return Err(Unreadable);
        }
        let known = self.pool.find(name).ok_or(Unreadable)?;
        let mut repeated = Repeated::default();
        let mut is_empty = true;
        for part in Fields::new(message).map_while(Result::ok) {
            is_empty = false;
            match known.field(part.number) {
                Some(field) => self.read_field(field, part.value, &mut repeated, depth)?,
                None => self.unknown_fields += 1,
            }
        }
        if is_empty {
            self.add_here(ArgValue::Null);
        }
        Ok(())
    }

    /// Reads a field of a message.
    pub(super) fn read_field(
        &mut self,
        field: &FieldType,
        value: Value<'_>,
        repeated: &mut Repeated,
        depth: usize,
    ) -> Result<(), Unreadable> {
        let is_delimited = matches!(field.kind, field_type::STRING | field_type::MESSAGE | field_type::BYTES);
        if let (true, false, Value::Bytes(packed)) = (field.is_repeated, is_delimited, value) {
            return self.read_packed(field, packed, repeated);
        }
        let mark = self.mark();
        if (field.kind, field.type_name.as_str()) == (field_type::MESSAGE, DEBUG_ANNOTATION) {
            // It has its own name.
            let result = self.read_named(value.as_bytes().unwrap_or_default(), depth + 1);
            self.leave(mark);
            return result.map(|_| ());
        }
        self.enter_field(field, repeated);
        let result = match field.kind {
            _ if field.name.ends_with("_iid") && self.read_place(&field.name, value) => Ok(()),
            field_type::MESSAGE => {
                self.read_message(value.as_bytes().unwrap_or_default(), &field.type_name, depth + 1)
            }
            _ => self.read_scalar(field, value),
        };
        self.leave(mark);
        result
    }

    fn enter_field(&mut self, field: &FieldType, repeated: &mut Repeated) {
        self.enter(&field.name);
        if field.is_repeated {
            let index = repeated.entry(field.number).or_default();
            self.enter_element(*index);
            *index = index.saturating_add(1);
        }
    }

    fn read_packed(
        &mut self,
        field: &FieldType,
        packed: &[u8],
        repeated: &mut Repeated,
    ) -> Result<(), Unreadable> {
        let values: Vec<Value<'_>> = match field.kind {
            field_type::FIXED32 | field_type::SFIXED32 | field_type::FLOAT => {
                let (chunks, _) = packed.as_chunks::<4>();
                chunks.iter().map(|chunk| Value::Fixed32(u32::from_le_bytes(*chunk))).collect()
            }
            field_type::FIXED64 | field_type::SFIXED64 | field_type::DOUBLE => {
                let (chunks, _) = packed.as_chunks::<8>();
                chunks.iter().map(|chunk| Value::Fixed64(u64::from_le_bytes(*chunk))).collect()
            }
            field_type::INT32
            | field_type::INT64
            | field_type::UINT32
            | field_type::UINT64
            | field_type::ENUM => {
                PackedVarints::new(packed).map_while(|value| value).map(Value::Varint).collect()
            }
            _ => return Err(Unreadable),
        };
        for value in values {
            let mark = self.mark();
            self.enter_field(field, repeated);
            let result = self.read_scalar(field, value);
            self.leave(mark);
            result?;
        }
        Ok(())
    }

    fn read_scalar(&mut self, field: &FieldType, value: Value<'_>) -> Result<(), Unreadable> {
        let number = value.as_u64().unwrap_or(0);
        let bytes = value.as_bytes().unwrap_or_default();
        let zigzag = |number: u64| (number >> 1) as i64 ^ -((number & 1) as i64);
        let value = match field.kind {
            field_type::INT32 | field_type::SFIXED32 => ArgValue::Int(i64::from(number as i32)),
            field_type::INT64 | field_type::SFIXED64 => ArgValue::Int(number as i64),
            field_type::SINT32 => ArgValue::Int(i64::from(zigzag(number) as i32)),
            field_type::SINT64 => ArgValue::Int(zigzag(number)),
            field_type::UINT32 | field_type::FIXED32 => ArgValue::Uint(u64::from(number as u32)),
            field_type::UINT64 | field_type::FIXED64 => ArgValue::Uint(number),
            field_type::BOOL => ArgValue::Bool(number != 0),
            field_type::DOUBLE => ArgValue::Real(f64::from_bits(number)),
            field_type::FLOAT => ArgValue::Real(f64::from(f32::from_bits(number as u32))),
            field_type::STRING => {
                self.add_text_here(bytes);
                return Ok(());
            }
            field_type::BYTES => {
                self.add_text_here(base64(bytes).as_bytes());
                return Ok(());
            }
            field_type::ENUM => {
                let values = self.pool.enums.get(&field.type_name);
                let name = values.and_then(|values| values.get(&(number as i32)).cloned());
                let name = name.unwrap_or_else(|| (number as i32).to_string());
                self.add_text_here(name.as_bytes());
                return Ok(());
            }
            _ => return Err(Unreadable),
        };
        self.add_here(value);
        Ok(())
    }
}
