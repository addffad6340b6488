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
    /// The name of its field in `FtraceEvent`: the kernel's name of the event, but for a few groups whose names would collide.
    pub name: &'static str,
    /// The kernel's group (`sched`).
    pub group: &'static str,
    /// The kernel's name of the event within the group (`sched_switch`).
    pub event: &'static str,
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
/// assert_eq!((event.group, event.field_id), ("sched", 4));
/// ```
pub fn known_event(name: &str) -> Option<&'static KnownEvent> {
    KNOWN_EVENTS.binary_search_by(|event| event.name.cmp(name)).ok().and_then(|index| KNOWN_EVENTS.get(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_by_name() {
        assert!(KNOWN_EVENTS.is_sorted_by(|a, b| a.name < b.name));
        assert!(KNOWN_EVENTS.len() > 500);
    }

    #[test]
    fn names_that_would_collide_carry_their_group() {
        for (name, group, event) in [
            ("sched_switch", "sched", "sched_switch"),
            ("sde_tracing_mark_write", "sde", "tracing_mark_write"),
            ("tracing_mark_write", "mdss", "tracing_mark_write"),
            ("mali_mali_PM_MCU_ON", "mali", "mali_PM_MCU_ON"),
            ("hypervisor_hyp_enter", "hypervisor", "hyp_enter"),
            ("hyp_enter", "hyp", "hyp_enter"),
            ("kgsl_gpu_frequency", "kgsl", "gpu_frequency"),
            ("zero", "systrace", "0"),
        ] {
            let known = known_event(name).unwrap_or_else(|| panic!("{name} is not in the table"));
            assert_eq!((known.group, known.event), (group, event), "{name}");
        }
        assert!(known_event("generic").is_none());
    }
}
