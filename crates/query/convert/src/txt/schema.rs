//! What messages, their fields and their enums are called: this system's own, and those that a trace describes itself.
//!
//! Memory: some 200 bytes for each field that is described; a trace that describes fields has their names in it.

use std::sync::Arc;

use ferretto_trace_read::wire;
use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// Messages within messages of a description. Ours: it bounds the depth of our own calls.
const MAX_DEPTH: usize = 32;
/// What traces describe, in bytes. Ours: a description of all of Chrome's events has some 100 kB.
const MAX_DESCRIBED_BYTES: usize = 16 << 20;

/// The message that a trace is made of.
const PACKET: &str = "perfetto.protos.TracePacket";

/// `FileDescriptorSet` and what it is made of (protobuf: descriptor.proto).
mod number {
    pub(super) const FILE: u32 = 1;
    pub(super) mod file {
        pub(crate) const PACKAGE: u32 = 2;
        pub(crate) const MESSAGE_TYPE: u32 = 4;
        pub(crate) const ENUM_TYPE: u32 = 5;
        pub(crate) const EXTENSION: u32 = 7;
        pub(crate) const SYNTAX: u32 = 12;
    }
    pub(super) mod message {
        pub(crate) const NAME: u32 = 1;
        pub(crate) const FIELD: u32 = 2;
        pub(crate) const NESTED_TYPE: u32 = 3;
        pub(crate) const ENUM_TYPE: u32 = 4;
        pub(crate) const EXTENSION: u32 = 6;
    }
    pub(super) mod field {
        pub(crate) const NAME: u32 = 1;
        pub(crate) const EXTENDEE: u32 = 2;
        pub(crate) const NUMBER: u32 = 3;
        pub(crate) const LABEL: u32 = 4;
        pub(crate) const TYPE: u32 = 5;
        pub(crate) const TYPE_NAME: u32 = 6;
        pub(crate) const OPTIONS: u32 = 8;
        pub(crate) const ONEOF_INDEX: u32 = 9;
        pub(crate) const PACKED: u32 = 2;
    }
    pub(super) mod enumeration {
        pub(crate) const NAME: u32 = 1;
        pub(crate) const VALUE: u32 = 2;
        pub(crate) const VALUE_NAME: u32 = 1;
        pub(crate) const VALUE_NUMBER: u32 = 2;
    }
}

/// A message, by its place in a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageId(usize);

/// An enum, by its place in a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EnumId(usize);

/// What a field's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Double,
    Float,
    Int64,
    Uint64,
    Int32,
    Fixed64,
    Fixed32,
    Bool,
    Text,
    Message(MessageId),
    Bytes,
    Uint32,
    Enum(EnumId),
    Sfixed32,
    Sfixed64,
    Sint32,
    Sint64,
    /// Of a type that is not described.
    Unknown,
}

/// A field of a message.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) number: u32,
    /// That of an extension is its full name in brackets.
    pub(super) name: Arc<str>,
    pub(super) kind: Kind,
    pub(super) is_list: bool,
    /// Whether writers put all values of a list into one field.
    pub(super) is_packed: bool,
    /// Of fields with the same number here one is set.
    pub(super) oneof: Option<u32>,
    /// The number and the name of its type, which is looked for when all are known.
    described: (u64, Arc<str>),
}

/// A message.
#[derive(Debug, Default)]
pub(super) struct Message {
    /// Without its package.
    pub(super) name: Arc<str>,
    by_number: HashMap<u32, Arc<Field>, RandomState>,
    by_name: HashMap<Arc<str>, u32, RandomState>,
}

impl Message {
    pub(super) fn field(&self, number: u32) -> Option<&Arc<Field>> {
        self.by_number.get(&number)
    }

    pub(super) fn find(&self, name: &str) -> Option<&Arc<Field>> {
        self.field(*self.by_name.get(name)?)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(|name| &**name)
    }

    /// What is known of a number stays.
    fn add(&mut self, field: Field) {
        if !self.by_number.contains_key(&field.number) {
            self.by_name.entry(Arc::clone(&field.name)).or_insert(field.number);
            self.by_number.insert(field.number, Arc::new(field));
        }
    }
}

/// An enum.
#[derive(Debug, Default)]
pub(super) struct Enum {
    /// Without its package.
    pub(super) name: Arc<str>,
    by_number: HashMap<i32, Arc<str>, RandomState>,
    by_name: HashMap<Arc<str>, i32, RandomState>,
}

impl Enum {
    pub(super) fn name_of(&self, number: i32) -> Option<&str> {
        self.by_number.get(&number).map(|name| &**name)
    }

    pub(super) fn number_of(&self, name: &str) -> Option<i32> {
        self.by_name.get(name).copied()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(|name| &**name)
    }
}

/// All that is described.
#[derive(Debug, Default)]
pub(super) struct Schema {
    messages: Vec<Message>,
    enums: Vec<Enum>,
    message_names: HashMap<Arc<str>, MessageId, RandomState>,
    enum_names: HashMap<Arc<str>, EnumId, RandomState>,
    /// Fields of messages that were not described when their extension was.
    waiting: Vec<(Arc<str>, Field)>,
    described_bytes: usize,
}

impl Schema {
    /// This system's own messages.
    pub(super) fn own() -> Self {
        let mut schema = Self::default();
        schema.add_files(ferretto_protos::DESCRIPTORS);
        schema
    }

    /// The message that a packet is.
    pub(super) fn packet(&self) -> MessageId {
        self.message_names.get(PACKET).copied().unwrap_or(MessageId(0))
    }

    pub(super) fn message(&self, id: MessageId) -> Option<&Message> {
        self.messages.get(id.0)
    }

    pub(super) fn enumeration(&self, id: EnumId) -> Option<&Enum> {
        self.enums.get(id.0)
    }

    /// Takes note of what a packet describes (`TracePacket.extension_descriptor`). What is known stays as it is.
    pub(super) fn learn(&mut self, packet: &[u8]) {
        use ferretto_protos::fields::{extension_descriptor, trace_packet};
        for extension in wire::all_bytes(packet, trace_packet::EXTENSION_DESCRIPTOR) {
            let set = wire::bytes(extension, extension_descriptor::EXTENSION_SET).unwrap_or_default();
            self.described_bytes += set.len();
            if self.described_bytes <= MAX_DESCRIBED_BYTES {
                self.add_files(set);
            }
        }
    }

    fn add_files(&mut self, set: &[u8]) {
        for file in wire::all_bytes(set, number::FILE) {
            let package = text(file, number::file::PACKAGE);
            let is_proto3 = text(file, number::file::SYNTAX) == "proto3";
            for message in wire::all_bytes(file, number::file::MESSAGE_TYPE) {
                self.add_message(&package, message, is_proto3, 0);
            }
            for each in wire::all_bytes(file, number::file::ENUM_TYPE) {
                self.add_enum(&package, each);
            }
            for extension in wire::all_bytes(file, number::file::EXTENSION) {
                self.add_extension(&package, extension, is_proto3);
            }
        }
        self.add_waiting();
        self.resolve();
    }

    fn add_message(&mut self, within: &str, message: &[u8], is_proto3: bool, depth: usize) {
        if depth >= MAX_DEPTH {
            return;
        }
        let name = text(message, number::message::NAME);
        let full_name = full_name(within, &name);
        for nested in wire::all_bytes(message, number::message::NESTED_TYPE) {
            self.add_message(&full_name, nested, is_proto3, depth + 1);
        }
        for each in wire::all_bytes(message, number::message::ENUM_TYPE) {
            self.add_enum(&full_name, each);
        }
        for extension in wire::all_bytes(message, number::message::EXTENSION) {
            self.add_extension(&full_name, extension, is_proto3);
        }
        if self.message_names.contains_key(&*full_name) {
            return;
        }
        let mut new = Message { name: name.into(), ..Message::default() };
        for field in wire::all_bytes(message, number::message::FIELD) {
            let name = text(field, number::field::NAME);
            new.add(read_field(field, name.into(), is_proto3));
        }
        self.message_names.insert(full_name.into(), MessageId(self.messages.len()));
        self.messages.push(new);
    }

    fn add_enum(&mut self, within: &str, message: &[u8]) {
        let name = text(message, number::enumeration::NAME);
        let full_name = full_name(within, &name);
        if self.enum_names.contains_key(&*full_name) {
            return;
        }
        let mut new = Enum { name: name.into(), ..Enum::default() };
        for value in wire::all_bytes(message, number::enumeration::VALUE) {
            let name: Arc<str> = text(value, number::enumeration::VALUE_NAME).into();
            let number = wire::number(value, number::enumeration::VALUE_NUMBER).unwrap_or(0) as i32;
            new.by_number.entry(number).or_insert_with(|| Arc::clone(&name));
            new.by_name.entry(name).or_insert(number);
        }
        self.enum_names.insert(full_name.into(), EnumId(self.enums.len()));
        self.enums.push(new);
    }

    fn add_extension(&mut self, within: &str, extension: &[u8], is_proto3: bool) {
        let extendee = text(extension, number::field::EXTENDEE);
        let name = format!("[{}]", full_name(within, &text(extension, number::field::NAME)));
        let field = read_field(extension, name.into(), is_proto3);
        self.waiting.push((extendee.trim_start_matches('.').into(), field));
    }

    fn add_waiting(&mut self) {
        for (extendee, field) in std::mem::take(&mut self.waiting) {
            let extended = self.message_names.get(&extendee).and_then(|id| self.messages.get_mut(id.0));
            match extended {
                Some(extended) => extended.add(field),
                None => self.waiting.push((extendee, field)),
            }
        }
    }

    /// Types by their names.
    fn resolve(&mut self) {
        let Self { messages, message_names, enum_names, .. } = self;
        for field in messages.iter_mut().flat_map(|message| message.by_number.values_mut()) {
            if field.kind == Kind::Unknown {
                let kind = kind(field, message_names, enum_names);
                let field = Arc::make_mut(field);
                field.kind = kind;
                let is_number = !matches!(kind, Kind::Text | Kind::Bytes | Kind::Message(_) | Kind::Unknown);
                field.is_packed &= is_number;
            }
        }
    }
}

fn kind(
    field: &Field,
    messages: &HashMap<Arc<str>, MessageId, RandomState>,
    enums: &HashMap<Arc<str>, EnumId, RandomState>,
) -> Kind {
    let (number, type_name) = &field.described;
    // `FieldDescriptorProto.Type`; groups (10) no trace has.
    match number {
        1 => Kind::Double,
        2 => Kind::Float,
        3 => Kind::Int64,
        4 => Kind::Uint64,
        5 => Kind::Int32,
        6 => Kind::Fixed64,
        7 => Kind::Fixed32,
        8 => Kind::Bool,
        9 => Kind::Text,
        11 => messages.get(type_name).map_or(Kind::Unknown, |id| Kind::Message(*id)),
        12 => Kind::Bytes,
        13 => Kind::Uint32,
        14 => enums.get(type_name).map_or(Kind::Unknown, |id| Kind::Enum(*id)),
        15 => Kind::Sfixed32,
        16 => Kind::Sfixed64,
        17 => Kind::Sint32,
        18 => Kind::Sint64,
        _ => Kind::Unknown,
    }
}

fn read_field(message: &[u8], name: Arc<str>, is_proto3: bool) -> Field {
    /// `FieldDescriptorProto.Label`.
    const REPEATED: u64 = 3;
    let number = |field| wire::number(message, field);
    let packed = wire::bytes(message, number::field::OPTIONS)
        .and_then(|options| wire::number(options, number::field::PACKED))
        .map(|packed| packed != 0);
    let is_list = number(number::field::LABEL) == Some(REPEATED);
    let type_name = text(message, number::field::TYPE_NAME);
    Field {
        number: number(number::field::NUMBER).unwrap_or(0) as u32,
        name,
        kind: Kind::Unknown,
        is_list,
        is_packed: is_list && packed.unwrap_or(is_proto3),
        oneof: number(number::field::ONEOF_INDEX).map(|index| index as u32),
        described: (number(number::field::TYPE).unwrap_or(0), type_name.trim_start_matches('.').into()),
    }
}

fn text(message: &[u8], number: u32) -> String {
    String::from_utf8_lossy(wire::bytes(message, number).unwrap_or_default()).into_owned()
}

fn full_name(within: &str, name: &str) -> String {
    if within.is_empty() { name.to_owned() } else { format!("{within}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_packets_are_known_by_number_and_by_name() {
        let schema = Schema::own();
        let packet = schema.message(schema.packet()).unwrap();
        let event = packet.find("track_event").unwrap();
        assert_eq!((event.number, &*packet.field(11).unwrap().name), (11, "track_event"));
        let Kind::Message(event) = event.kind else { panic!("{event:?}") };
        let kind = schema.message(event).unwrap().find("type").unwrap().kind;
        let Kind::Enum(kind) = kind else { panic!("{kind:?}") };
        let kind = schema.enumeration(kind).unwrap();
        assert_eq!((kind.name_of(3), kind.number_of("TYPE_COUNTER")), (Some("TYPE_INSTANT"), Some(4)));
        assert!(
            schema
                .messages
                .iter()
                .all(|message| { message.by_number.values().all(|field| field.kind != Kind::Unknown) })
        );
    }
}
