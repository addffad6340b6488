//! How to turn one kind of record into protobuf: made once from the kernel's format file, followed for every record.

use ferretto_protos::fields;
use ferretto_protos::ftrace::{FieldKind as ProtoKind, KNOWN_EVENTS, KnownEvent, KnownField};
use ferretto_protozero::Message;

use super::format::{EventFormat, FieldKind, FormatField};
use super::short;

/// The first field number that generic events get in `FtraceEvent` (upstream: kGenericEvtProtoMinPbFieldId).
pub(crate) const FIRST_GENERIC_FIELD: u32 = 65536;

/// What to do with one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    /// A thread id: an `i32` that process_stats hears about.
    Pid,
    /// Bytes up to a NUL, at most this many.
    FixedString {
        len: u16,
    },
    /// Bytes up to a NUL or the record's end.
    TailString,
    /// Offset and length in one word; the offset counts from the record's start, or from the field's end.
    Located {
        relative: bool,
        is_string: bool,
    },
    /// This many bytes.
    FixedBytes {
        len: u16,
    },
    /// An address that `printk_formats` has the text of.
    StringPointer {
        size: u8,
    },
    /// An address that leaves this process as an index only.
    Symbol {
        size: u8,
    },
    /// A kernel device number.
    Device {
        size: u8,
    },
    /// Numbers one after another.
    Array {
        count: u16,
        element: Number,
    },
}

/// A number's width and sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    pub(crate) size: u8,
    pub(crate) signed: bool,
}

/// One field of a record on its way into a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldPlan {
    /// In the event's message.
    pub(crate) number: u32,
    pub(crate) offset: u16,
    pub(crate) op: Op,
}

/// Where a record says which files it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileFields {
    /// The device of all of them.
    pub(crate) device: Place,
    pub(crate) inodes: Vec<Place>,
}

/// Where a number of 4 or 8 bytes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) offset: u16,
    pub(crate) size: u8,
}

impl FileFields {
    /// `None` for the events, nearly all, that are not about files.
    fn find(fields: &[FormatField]) -> Option<Self> {
        let place = |field: &FormatField| match field.size {
            4 | 8 => Some(Place { offset: field.offset, size: width(field) }),
            _ => None,
        };
        // Those of mm_filemap_* have a plain number's type, which upstream does not know for an inode.
        let is_inode = |field: &&FormatField| field.kind == FieldKind::Inode || field.name == "i_ino";
        let device = fields.iter().find(|field| field.kind == FieldKind::Device).and_then(place)?;
        let inodes: Vec<Place> = fields.iter().filter(is_inode).filter_map(place).collect();
        (!inodes.is_empty()).then_some(Self { device, inodes })
    }
}

/// What kind of message an event becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlanKind {
    /// One that the schema knows.
    Known,
    /// One that travels with its own description.
    Generic {
        /// An encoded `GenericEventDescriptor`.
        descriptor: Vec<u8>,
        /// Names and kinds for the older encoding, in the order of the plan's fields.
        legacy: Vec<(String, LegacyKind)>,
    },
    /// A probe on a kernel function: only its name and type are recorded.
    Kprobe,
}

/// Which member of `GenericFtraceEvent.Field.value` holds a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LegacyKind {
    String,
    Int,
    Uint,
    /// There is none: bytes and arrays.
    None,
}

/// Everything about one event of this kernel.
#[derive(Clone, Debug)]
pub(crate) struct EventPlan {
    pub(crate) id: u16,
    pub(crate) group: String,
    pub(crate) name: String,
    /// In `FtraceEvent`.
    pub(crate) field_id: u32,
    /// A shorter record is broken.
    pub(crate) min_size: usize,
    pub(crate) pid_offset: Option<u16>,
    pub(crate) flags_offset: Option<u16>,
    pub(crate) fields: Vec<FieldPlan>,
    pub(crate) files: Option<FileFields>,
    pub(crate) kind: PlanKind,
    /// Its events may go the quick way.
    pub(crate) is_short: bool,
    /// The kernel's format, for the compact scheduler encoding's checks.
    pub(crate) format: EventFormat,
}

impl EventPlan {
    /// The plan for an event that upstream's schema has a message for; `None` if it has none or none of the fields fit.
    pub(crate) fn known(group: &str, format: &EventFormat) -> Option<Self> {
        let known = known_event(group, &format.name)?;
        let is_function_graph = group == "ftrace" && format.name.starts_with("funcgraph_");
        let mut fields = Vec::new();
        for target in &known.fields {
            let Some(source) = format.fields.iter().find(|f| f.name == target.name) else { continue };
            // A function's address in a plain u64 field (upstream: proto_translation_table.cc).
            let op = if is_function_graph && source.name == "func" {
                symbol(source)
            } else {
                known_op(source, target, format.name == "sys_enter")
            };
            if let Some(op) = op {
                fields.push(FieldPlan { number: target.number, offset: source.offset, op });
            }
        }
        if fields.is_empty() && !known.fields.is_empty() && !format.fields.is_empty() {
            return None;
        }
        Some(Self::new(group, format, known.field_id, fields, PlanKind::Known))
    }

    /// The plan for an event that travels with its description.
    pub(crate) fn generic(group: &str, format: &EventFormat, field_id: u32) -> Self {
        let mut fields = Vec::new();
        let mut legacy = Vec::new();
        let mut descriptor = Vec::new();
        {
            use fields::ftrace_event_bundle::generic_event_descriptor as outer;
            let mut out = Message::new(&mut descriptor);
            out.varint(outer::FIELD_ID, u64::from(field_id));
            let mut event = out.nested(outer::EVENT_DESCRIPTOR);
            event.string(descriptor_proto::NAME, &format.name);
            for source in &format.fields {
                let Some((op, kind)) = generic_op(source).filter(|_| !source.name.is_empty()) else {
                    continue;
                };
                let number = fields.len() as u32 + 1;
                fields.push(FieldPlan { number, offset: source.offset, op });
                legacy.push((source.name.clone(), kind.legacy()));
                let mut field = event.nested(descriptor_proto::FIELD);
                field.string(descriptor_proto::field::NAME, &source.name);
                field.varint(descriptor_proto::field::NUMBER, u64::from(number));
                if matches!(op, Op::Array { .. }) {
                    field.varint(descriptor_proto::field::LABEL, descriptor_proto::field::LABEL_REPEATED);
                }
                field.varint(descriptor_proto::field::TYPE, kind as u64);
            }
            drop(event);
            out.string(outer::GROUP_NAME, group);
        }
        Self::new(group, format, field_id, fields, PlanKind::Generic { descriptor, legacy })
    }

    /// The plan for a probe that this daemon has installed.
    pub(crate) fn kprobe(group: &str, format: &EventFormat) -> Self {
        Self::new(group, format, fields::ftrace_event::KPROBE_EVENT, Vec::new(), PlanKind::Kprobe)
    }

    fn new(group: &str, format: &EventFormat, field_id: u32, fields: Vec<FieldPlan>, kind: PlanKind) -> Self {
        let common = |name: &str, size| {
            format.common.iter().find(|f| f.name == name && f.size == size).map(|f| f.offset)
        };
        Self {
            id: format.id,
            group: group.to_owned(),
            name: format.name.clone(),
            field_id,
            min_size: format.fixed_size(),
            is_short: short::is_short(&kind, &fields),
            pid_offset: common("common_pid", 4),
            flags_offset: common("common_flags", 1),
            fields,
            files: FileFields::find(&format.fields),
            kind,
            format: format.clone(),
        }
    }

    /// Whether it travels with its description.
    pub(crate) fn is_generic(&self) -> bool {
        matches!(self.kind, PlanKind::Generic { .. })
    }
}

/// Field numbers of `google.protobuf.DescriptorProto`, which every protobuf implementation shares (descriptor.proto).
mod descriptor_proto {
    pub(super) const NAME: u32 = 1;
    pub(super) const FIELD: u32 = 2;
    pub(super) mod field {
        pub(in super::super) const NAME: u32 = 1;
        pub(in super::super) const NUMBER: u32 = 3;
        pub(in super::super) const LABEL: u32 = 4;
        pub(in super::super) const TYPE: u32 = 5;
        pub(in super::super) const LABEL_REPEATED: u64 = 3;
    }
}

/// `FieldDescriptorProto.Type` of the kinds that generic events use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum GenericKind {
    Int64 = 3,
    Uint64 = 4,
    String = 9,
    Bytes = 12,
}

impl GenericKind {
    fn legacy(self) -> LegacyKind {
        match self {
            Self::Int64 => LegacyKind::Int,
            Self::Uint64 => LegacyKind::Uint,
            Self::String => LegacyKind::String,
            Self::Bytes => LegacyKind::None,
        }
    }
}

fn known_event(group: &str, name: &str) -> Option<&'static KnownEvent> {
    // These two are not events of the kernel: the envelope for others, and that for probes.
    let wanted = |e: &&KnownEvent| {
        e.event == name && e.group == group && !matches!(e.name, "generic" | "kprobe_event")
    };
    KNOWN_EVENTS.iter().find(wanted)
}

/// Whether the schema has a message for this event.
pub(crate) fn is_known(group: &str, name: &str) -> bool {
    known_event(group, name).is_some()
}

fn known_op(source: &FormatField, target: &KnownField, arrays: bool) -> Option<Op> {
    match (source.kind, target.kind) {
        (FieldKind::FixedString, ProtoKind::String) => Some(Op::FixedString { len: source.size }),
        (FieldKind::TailString, ProtoKind::String) => Some(Op::TailString),
        (FieldKind::DataLocString | FieldKind::DataLocBytes, ProtoKind::String) => {
            Some(Op::Located { relative: false, is_string: true })
        }
        (FieldKind::RelLocString | FieldKind::RelLocBytes, ProtoKind::String) => {
            Some(Op::Located { relative: true, is_string: true })
        }
        (FieldKind::DataLocBytes | FieldKind::DataLocString, ProtoKind::Bytes) => {
            Some(Op::Located { relative: false, is_string: false })
        }
        (FieldKind::RelLocBytes | FieldKind::RelLocString, ProtoKind::Bytes) => {
            Some(Op::Located { relative: true, is_string: false })
        }
        (FieldKind::FixedBytes, ProtoKind::Bytes) => Some(Op::FixedBytes { len: source.size }),
        (FieldKind::StringPointer, ProtoKind::String) => Some(Op::StringPointer { size: width(source) }),
        (FieldKind::SymbolAddress, ProtoKind::Uint64) => symbol(source),
        (FieldKind::Device, ProtoKind::Uint64) => Some(Op::Device { size: width(source) }),
        (FieldKind::Pid, ProtoKind::Int32 | ProtoKind::Int64) => Some(Op::Pid),
        (FieldKind::IntArray { element_size, signed }, ProtoKind::Uint64 | ProtoKind::Int64) if arrays => {
            Some(array(source, Number { size: element_size, signed }))
        }
        // An address of four bytes is a number in the schema.
        (FieldKind::FixedBytes | FieldKind::IntArray { .. }, _) if is_number_size(source.size) => {
            number(width(source), source.signed, target.kind)
        }
        (FieldKind::Bool, _) => number(1, false, target.kind),
        (FieldKind::Inode, _) => number(width(source), false, target.kind),
        (FieldKind::Int { signed }, _) => number(width(source), signed, target.kind),
        (FieldKind::StringPointer | FieldKind::Device | FieldKind::Pid, _) => {
            number(width(source), source.signed, target.kind)
        }
        _ => None,
    }
}

/// A number that is no wider than the schema's type. Its sign follows the schema where the two differ, so that readers see the value
/// that the schema's type would hold.
fn number(size: u8, signed: bool, kind: ProtoKind) -> Option<Op> {
    let (target_size, target_signed) = match kind {
        ProtoKind::Int32 | ProtoKind::Enum => (4, true),
        ProtoKind::Int64 => (8, true),
        ProtoKind::Uint32 | ProtoKind::Bool => (4, false),
        ProtoKind::Uint64 => (8, false),
        _ => return None,
    };
    let signed = if size == target_size { target_signed } else { signed };
    (size <= target_size).then(|| number_op(Number { size, signed }))
}

fn number_op(number: Number) -> Op {
    match (number.size, number.signed) {
        (1, false) => Op::U8,
        (2, false) => Op::U16,
        (4, false) => Op::U32,
        (1, true) => Op::I8,
        (2, true) => Op::I16,
        (4, true) => Op::I32,
        (_, true) => Op::I64,
        (_, false) => Op::U64,
    }
}

fn generic_op(source: &FormatField) -> Option<(Op, GenericKind)> {
    use GenericKind::{Bytes, Int64, String, Uint64};
    let sign = |signed| if signed { Int64 } else { Uint64 };
    Some(match source.kind {
        FieldKind::FixedString => (Op::FixedString { len: source.size }, String),
        FieldKind::TailString => (Op::TailString, String),
        FieldKind::DataLocString => (Op::Located { relative: false, is_string: true }, String),
        FieldKind::RelLocString => (Op::Located { relative: true, is_string: true }, String),
        FieldKind::DataLocBytes => (Op::Located { relative: false, is_string: false }, Bytes),
        FieldKind::RelLocBytes => (Op::Located { relative: true, is_string: false }, Bytes),
        // Readers show bytes as text; where they make a number they are one, as in upstream.
        FieldKind::FixedBytes if is_number_size(source.size) => {
            (number_op(Number { size: width(source), signed: false }), Uint64)
        }
        FieldKind::FixedBytes => (Op::FixedBytes { len: source.size }, Bytes),
        FieldKind::StringPointer => (Op::StringPointer { size: width(source) }, String),
        FieldKind::SymbolAddress => (symbol(source)?, Uint64),
        FieldKind::Bool => (Op::U8, Uint64),
        FieldKind::Inode => (number_op(Number { size: width(source), signed: false }), Uint64),
        FieldKind::Device => (Op::Device { size: width(source) }, Uint64),
        FieldKind::Pid => (Op::Pid, Int64),
        FieldKind::Int { signed } => (number_op(Number { size: width(source), signed }), sign(signed)),
        FieldKind::IntArray { element_size: 1, .. } => (Op::FixedBytes { len: source.size }, Bytes),
        FieldKind::IntArray { element_size, signed } => {
            (array(source, Number { size: element_size, signed }), sign(signed))
        }
        FieldKind::Unknown => return None,
    })
}

fn symbol(source: &FormatField) -> Option<Op> {
    matches!(source.size, 4 | 8).then(|| Op::Symbol { size: width(source) })
}

fn array(source: &FormatField, element: Number) -> Op {
    Op::Array { count: source.size / u16::from(element.size.max(1)), element }
}

fn is_number_size(size: u16) -> bool {
    matches!(size, 1 | 2 | 4 | 8)
}

/// The size of a number's field; the format parser has checked that it is 1, 2, 4 or 8.
fn width(source: &FormatField) -> u8 {
    u8::try_from(source.size).unwrap_or(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(name: &str) -> EventFormat {
        let path = format!("{}/tests/data/formats/{name}", env!("CARGO_MANIFEST_DIR"));
        EventFormat::parse(&std::fs::read(path).unwrap()).unwrap()
    }

    #[test]
    fn a_known_event_takes_the_schemas_numbers_and_the_kernels_offsets() {
        let plan = EventPlan::known("sched", &format("sched_waking")).unwrap();
        assert_eq!(plan.field_id, fields::ftrace_event::SCHED_WAKING);
        assert_eq!(plan.pid_offset, Some(4));
        let fields: Vec<_> = plan.fields.iter().map(|f| (f.number, f.offset, f.op)).collect();
        // `success` is gone from newer kernels, so it is gone from the plan.
        assert_eq!(
            fields,
            [(1, 8, Op::FixedString { len: 16 }), (2, 24, Op::Pid), (3, 28, Op::I32), (5, 32, Op::I32)]
        );
    }

    #[test]
    fn dynamic_strings_and_arrays_of_known_events_are_planned() {
        let fork = EventPlan::known("sched", &format("sched_process_fork")).unwrap();
        assert!(fork.fields.iter().any(|f| matches!(
            f.op,
            Op::Located { relative: false, is_string: true } | Op::FixedString { .. }
        )));
        let enter = EventPlan::known("raw_syscalls", &format("sys_enter")).unwrap();
        assert!(
            enter
                .fields
                .iter()
                .any(|f| f.op == Op::Array { count: 6, element: Number { size: 8, signed: false } })
        );
    }

    #[test]
    fn an_unknown_event_describes_itself() {
        let mut format = format("sched_waking");
        format.name = "no_such_event".to_owned();
        assert!(EventPlan::known("sched", &format).is_none());
        let plan = EventPlan::generic("sched", &format, FIRST_GENERIC_FIELD);
        assert_eq!(plan.fields.iter().map(|f| f.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
        let PlanKind::Generic { descriptor, legacy } = plan.kind else { panic!("not generic") };
        assert!(descriptor.windows(13).any(|w| w == b"no_such_event"));
        assert_eq!(
            legacy.iter().map(|l| l.1).collect::<Vec<_>>(),
            [LegacyKind::String, LegacyKind::Int, LegacyKind::Int, LegacyKind::Int]
        );
    }

    #[test]
    fn events_about_files_say_where_device_and_inodes_are() {
        let files = |name: &str| EventPlan::generic("test", &format(name), FIRST_GENERIC_FIELD).files;
        let place = |offset, size| Place { offset, size };
        let filemap = FileFields { device: place(32, 4), inodes: vec![place(16, 8)] };
        assert_eq!(files("mm_filemap_add_to_page_cache"), Some(filemap));
        let unlink = FileFields { device: place(8, 4), inodes: vec![place(16, 8), place(24, 8)] };
        assert_eq!(files("ext4_unlink_enter"), Some(unlink));
        assert_eq!(files("sched_switch"), None);
    }

    #[test]
    fn numbers_wider_than_the_schemas_type_are_left_out() {
        assert_eq!(number(8, false, ProtoKind::Uint32), None);
        assert_eq!(number(4, false, ProtoKind::Int32), Some(Op::I32));
        assert_eq!(number(4, true, ProtoKind::Uint64), Some(Op::I32));
        assert_eq!(number(2, false, ProtoKind::Int32), Some(Op::U16));
    }
}
