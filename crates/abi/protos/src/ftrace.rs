//! The ftrace events that have a message of their own in `FtraceEvent`, as a table: an encoder matches a kernel's format file with it
//! by name, so there is no need for a Rust type per event.

use std::sync::LazyLock;

/// How a line of `FtraceStats.atrace_errors` begins that says that another program has ended what was being recorded. Ours: upstream's
/// data sources do not notice it.
pub const INTERFERENCE: &str = "another program interfered: ";

macro_rules! field_kinds {
    ($($kind:ident),*) => {
        /// How a field of a known event is encoded.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)] // The names are protobuf's own.
        pub enum FieldKind {
            $($kind,)*
        }

        impl FieldKind {
            fn named(name: &str) -> Option<Self> {
                match name {
                    $(stringify!($kind) => Some(Self::$kind),)*
                    _ => None,
                }
            }
        }
    };
}

field_kinds!(
    Double, Float, Int64, Uint64, Int32, Fixed64, Fixed32, Bool, String, Bytes, Uint32, Enum, Sfixed32,
    Sfixed64, Sint32, Sint64
);

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
#[derive(Clone, Debug)]
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
    pub fields: Vec<KnownField>,
}

/// All known events, sorted by name. They are kept as text until the first use: as a table of pointers they would be written to by the
/// loader in each process, most of which never look at them.
pub static KNOWN_EVENTS: LazyLock<Vec<KnownEvent>> = LazyLock::new(|| {
    // Generated with this crate; a test sees that every line is read.
    include_str!("generated/known_events.txt").lines().filter_map(parse_event).collect()
});

/// `name group event field_id` and, for each field, `name number kind`.
fn parse_event(line: &'static str) -> Option<KnownEvent> {
    let mut words = line.split(' ');
    let (name, group, event) = (words.next()?, words.next()?, words.next()?);
    let field_id = words.next()?.parse().ok()?;
    let mut fields = Vec::new();
    while let Some(name) = words.next() {
        let number = words.next()?.parse().ok()?;
        fields.push(KnownField { name, number, kind: FieldKind::named(words.next()?)? });
    }
    Some(KnownEvent { name, group, event, field_id, fields })
}

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
    fn the_whole_table_is_read_and_sorted_by_name() {
        assert_eq!(KNOWN_EVENTS.len(), include_str!("generated/known_events.txt").lines().count());
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
