//! The ftrace events that have a message of their own in `FtraceEvent`, as a table: an encoder matches a kernel's format file with it
//! by name, so there is no need for a Rust type per event.

/// How a field of a known event is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are protobuf's own.
pub enum FieldKind {
    Double,
    Float,
    Int64,
    Uint64,
    Int32,
    Fixed64,
    Fixed32,
    Bool,
    String,
    Bytes,
    Uint32,
    Enum,
    Sfixed32,
    Sfixed64,
    Sint32,
    Sint64,
}

/// A field of a [`KnownEvent`].
#[derive(Clone, Copy, Debug)]
pub struct KnownField {
    /// The kernel's name of the field.
    pub name: &'static str,
    /// Its number in the event's message.
    pub number: u32,
    /// Its type in the event's message.
    pub kind: FieldKind,
}

/// An ftrace event with a message of its own.
#[derive(Clone, Copy, Debug)]
pub struct KnownEvent {
    /// The kernel's name of the event, without its group.
    pub name: &'static str,
    /// The number of its field in `FtraceEvent`.
    pub field_id: u32,
    /// The scalar fields of its message.
    pub fields: &'static [KnownField],
}

/// All known events, sorted by name.
pub static KNOWN_EVENTS: &[KnownEvent] = include!("generated/known_events.rs");

/// The known event of that name, if there is one.
///
/// ```
/// let event = ferretto_protos::ftrace::known_event("sched_switch").unwrap();
/// assert_eq!(event.field_id, 4);
/// ```
pub fn known_event(name: &str) -> Option<&'static KnownEvent> {
    KNOWN_EVENTS.binary_search_by(|event| event.name.cmp(name)).ok().map(|index| &KNOWN_EVENTS[index])
}
