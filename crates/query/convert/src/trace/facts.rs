//! Facts about the trace and its machine: `metadata`, processors, and what interrupts are called.
//!
//! What is said of the file itself (its size, its format) is another file's then.

use ferretto_protos::fields::cpu_info::{self, cpu};
use ferretto_protos::fields::interrupt_info::{self, interrupt_mapping};
use ferretto_protos::fields::trace_attributes::{ATTRIBUTE, attribute};
use ferretto_protos::fields::tracing_service_event::data_sources::{self, data_source};
use ferretto_protos::fields::{
    system_info, trace_config, trace_packet, trace_uuid, tracing_service_event as event, utsname,
};
use ferretto_protos::text::parse_trace_config_lossy;
use ferretto_protozero::Message;
use ferretto_trace_tables::Tables;

use super::number;
use super::sequence::Sequence;
use crate::Error;
use crate::args::{ArgValue, args_of};
use crate::packets::Sink;

/// `TracePacket.track_event_range_of_interest`, and its only field.
const RANGE_OF_INTEREST: u32 = 90;
const START_US: u32 = 1;

/// What a key of `TraceAttributes` has before it.
const ATTRIBUTE_PREFIX: &str = "trace_attribute.";

/// Texts of `SystemInfo`.
const SYSTEM_TEXTS: [(&str, u32); 9] = [
    ("tracing_service_version", system_info::TRACING_SERVICE_VERSION),
    ("android_build_fingerprint", system_info::ANDROID_BUILD_FINGERPRINT),
    ("android_device_manufacturer", system_info::ANDROID_DEVICE_MANUFACTURER),
    ("android_soc_model", system_info::ANDROID_SOC_MODEL),
    ("android_guest_soc_model", system_info::ANDROID_GUEST_SOC_MODEL),
    ("android_hardware_revision", system_info::ANDROID_HARDWARE_REVISION),
    ("android_storage_model", system_info::ANDROID_STORAGE_MODEL),
    ("android_ram_model", system_info::ANDROID_RAM_MODEL),
    ("android_serial_console", system_info::ANDROID_SERIAL_CONSOLE),
];

/// Numbers of `SystemInfo`.
const SYSTEM_NUMBERS: [(&str, u32); 3] = [
    ("android_sdk_version", system_info::ANDROID_SDK_VERSION),
    ("timezone_off_mins", system_info::TIMEZONE_OFF_MINS),
    ("system_ram_bytes", system_info::SYSTEM_RAM_BYTES),
];

/// Texts of its `Utsname`.
const UTSNAME: [(&str, u32); 4] = [
    ("system_name", utsname::SYSNAME),
    ("system_version", utsname::VERSION),
    ("system_release", utsname::RELEASE),
    ("system_machine", utsname::MACHINE),
];

/// Times that the service's events stand for.
const TIMES: [(&str, u32); 4] = [
    ("tracing_started_ns", event::TRACING_STARTED),
    ("all_data_source_started_ns", event::ALL_DATA_SOURCES_STARTED),
    ("all_data_source_flushed_ns", event::ALL_DATA_SOURCES_FLUSHED),
    ("tracing_disabled_ns", event::TRACING_DISABLED),
];

/// Facts that are written in ways of their own.
const OTHERS: [&str; 5] = [
    "trace_uuid",
    "trace_config_pbtxt",
    "unique_session_name",
    "range_of_interest_start_us",
    "slow_start_data_source",
];

/// Facts that follow from others, or that are the file's own.
const FOLLOW: [&str; 6] = [
    "trace_type",
    "trace_size_bytes",
    "trace_time_clock_id",
    "system_ram_gb",
    "android_incremental_build",
    "ftrace_latest_data_start_ns",
];

/// Whether a fact is written, or need not be.
pub(super) fn is_written(name: &str) -> bool {
    let is_of = |list: &[(&str, u32)]| list.iter().any(|(it, _)| *it == name);
    name.starts_with(ATTRIBUTE_PREFIX)
        || [&SYSTEM_TEXTS[..], &SYSTEM_NUMBERS, &UTSNAME, &TIMES].into_iter().any(is_of)
        || OTHERS.contains(&name)
        || FOLLOW.contains(&name)
}

/// A fact of the machine that the service ran on, or of no machine.
struct Fact<'a> {
    name: &'a str,
    int: Option<i64>,
    text: Option<&'a str>,
}

fn facts(tables: &Tables) -> impl Iterator<Item = Fact<'_>> {
    let table = &tables.metadata;
    let is_own = |row: &usize| table.machine_id.get(*row).is_none_or(|machine| machine.0 == 0);
    (0..table.len()).filter(is_own).filter_map(|row| {
        let text = |it: Option<&Option<_>>| it.copied().flatten().map(|it| tables.strings.get(it));
        let name = text(table.name.get(row))?;
        Some(Fact { name, int: table.int_value.get(row), text: text(table.str_value.get(row)) })
    })
}

fn text_of<'a>(tables: &'a Tables, name: &str) -> Option<&'a str> {
    facts(tables).find(|fact| fact.name == name)?.text
}

pub(super) fn write(tables: &Tables, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut writer = Facts { tables, sequence: Sequence::new(number::FACTS), sink, bytes: Vec::new() };
    writer.put(None, trace_packet::TRACE_UUID, write_uuid)?;
    writer.put(None, trace_packet::TRACE_CONFIG, write_config)?;
    writer.put(None, trace_packet::SYSTEM_INFO, write_system_info)?;
    writer.put(None, trace_packet::TRACE_ATTRIBUTES, write_attributes)?;
    writer.put(None, RANGE_OF_INTEREST, |tables, range| {
        let start = facts(tables).find(|fact| fact.name == "range_of_interest_start_us");
        start.and_then(|fact| fact.int).into_iter().for_each(|start| range.int(START_US, start));
    })?;
    writer.put(None, trace_packet::CPU_INFO, write_cpus)?;
    writer.put(None, trace_packet::INTERRUPT_INFO, write_interrupts)?;
    writer.put(None, trace_packet::SERVICE_EVENT, write_slow_sources)?;
    for fact in facts(tables) {
        let number = TIMES.iter().find(|(name, _)| *name == fact.name).map(|(_, number)| *number);
        if let (Some(number), Some(ts)) = (number, fact.int) {
            writer.put(Some(ts), trace_packet::SERVICE_EVENT, |_, event| event.bool(number, true))?;
        }
    }
    Ok(())
}

struct Facts<'a> {
    tables: &'a Tables,
    sequence: Sequence,
    sink: &'a mut dyn Sink,
    bytes: Vec<u8>,
}

impl Facts<'_> {
    /// Writes a packet, if it says anything.
    fn put(
        &mut self,
        ts: Option<i64>,
        field: u32,
        write: impl FnOnce(&Tables, &mut Message<'_, Vec<u8>>),
    ) -> Result<(), Error> {
        self.bytes.clear();
        write(self.tables, &mut Message::new(&mut self.bytes));
        match self.bytes.is_empty() {
            true => Ok(()),
            false => self.sequence.put(ts, field, &self.bytes, self.sink),
        }
    }
}

fn write_uuid(tables: &Tables, uuid: &mut Message<'_, Vec<u8>>) {
    let digits = text_of(tables, "trace_uuid").map(|text| text.replace('-', ""));
    let number = digits.and_then(|digits| u128::from_str_radix(&digits, 16).ok());
    if let Some(number) = number.filter(|number| *number != 0) {
        uuid.varint(trace_uuid::MSB, (number >> 64) as u64);
        uuid.varint(trace_uuid::LSB, number as u64);
    }
}

fn write_config(tables: &Tables, config: &mut Message<'_, Vec<u8>>) {
    let bytes = text_of(tables, "trace_config_pbtxt").and_then(|text| parse_trace_config_lossy(text).ok());
    match (bytes, text_of(tables, "unique_session_name")) {
        (Some(parsed), _) => config.raw(&parsed.bytes),
        (None, Some(name)) => config.string(trace_config::UNIQUE_SESSION_NAME, name),
        (None, None) => {}
    }
}

fn write_system_info(tables: &Tables, info: &mut Message<'_, Vec<u8>>) {
    if facts(tables).any(|fact| UTSNAME.iter().any(|(name, _)| *name == fact.name)) {
        let mut utsname = info.nested(system_info::UTSNAME);
        for (name, number) in UTSNAME {
            text_of(tables, name).into_iter().for_each(|text| utsname.string(number, text));
        }
    }
    for fact in facts(tables) {
        let number = |list: &[(&str, u32)]| list.iter().find(|it| it.0 == fact.name).map(|it| it.1);
        if let (Some(number), Some(text)) = (number(&SYSTEM_TEXTS), fact.text) {
            info.string(number, text);
        }
        if let (Some(number), Some(value)) = (number(&SYSTEM_NUMBERS), fact.int) {
            info.int(number, value);
        }
    }
    let machines = &tables.machine;
    if let Some(name) = machines.name.first().copied().flatten() {
        info.string(system_info::MACHINE_NAME, tables.strings.get(name));
    }
    if let Some(cpus) = machines.num_cpus.get(0) {
        info.varint(system_info::NUM_CPUS, cpus.into());
    }
}

fn write_attributes(tables: &Tables, attributes: &mut Message<'_, Vec<u8>>) {
    for fact in facts(tables) {
        let Some(key) = fact.name.strip_prefix(ATTRIBUTE_PREFIX) else { continue };
        let mut message = attributes.nested(ATTRIBUTE);
        message.string(attribute::KEY, key);
        match (fact.int, fact.text) {
            (Some(value), _) => message.int(attribute::LONG_VALUE, value),
            (None, text) => message.string(attribute::STRING_VALUE, text.unwrap_or_default()),
        }
    }
}

/// Rows have the names of a producer and its source with a blank between; names of producers have none.
fn write_slow_sources(tables: &Tables, event: &mut Message<'_, Vec<u8>>) {
    let mut slow = facts(tables).filter(|fact| fact.name == "slow_start_data_source").peekable();
    if slow.peek().is_none() {
        return;
    }
    let mut sources = event.nested(event::SLOW_STARTING_DATA_SOURCES);
    for text in slow.filter_map(|fact| fact.text) {
        let (producer, source) = text.split_once(' ').unwrap_or((text, ""));
        let mut message = sources.nested(data_sources::DATA_SOURCE);
        message.string(data_source::PRODUCER_NAME, producer);
        message.string(data_source::DATA_SOURCE_NAME, source);
    }
}

/// Processors stand in the order of their numbers.
fn write_cpus(tables: &Tables, info: &mut Message<'_, Vec<u8>>) {
    let table = &tables.cpu;
    let is_own = |row: &usize| table.machine_id.get(*row).is_none_or(|machine| machine.0 == 0);
    let mut rows: Vec<usize> = (0..table.len()).filter(is_own).collect();
    rows.sort_by_key(|row| table.cpu.get(*row).copied());
    let is_known = |row: &usize| {
        table.processor.get(*row).copied().flatten().is_some() || table.capacity.get(*row).is_some()
    };
    if tables.cpu_freq.is_empty() && !rows.iter().any(is_known) {
        return;
    }
    for (number, row) in (0..).zip(rows) {
        if table.cpu.get(row) != Some(&number) {
            return;
        }
        write_cpu(tables, row, &mut info.nested(cpu_info::CPUS));
    }
}

fn write_cpu(tables: &Tables, row: usize, message: &mut Message<'_, Vec<u8>>) {
    /// What arguments of a processor are called, and what they are of its identifier.
    const IDENTIFIER: [(&str, u32); 5] = [
        ("arm_cpu_implementer", cpu_info::arm_cpu_identifier::IMPLEMENTER),
        ("arm_cpu_architecture", cpu_info::arm_cpu_identifier::ARCHITECTURE),
        ("arm_cpu_variant", cpu_info::arm_cpu_identifier::VARIANT),
        ("arm_cpu_part", cpu_info::arm_cpu_identifier::PART),
        ("arm_cpu_revision", cpu_info::arm_cpu_identifier::REVISION),
    ];
    let table = &tables.cpu;
    if let Some(processor) = table.processor.get(row).copied().flatten() {
        message.string(cpu::PROCESSOR, tables.strings.get(processor));
    }
    let freqs = &tables.cpu_freq;
    for (ucpu, khz) in freqs.ucpu.iter().zip(&freqs.freq) {
        if table.ucpu.get(row) == Some(ucpu) {
            message.varint(cpu::FREQUENCIES, (*khz).into());
        }
    }
    if let Some(capacity) = table.capacity.get(row) {
        message.varint(cpu::CAPACITY, capacity.into());
    }
    let args = || table.arg_set_id.get(row).into_iter().flat_map(|set| args_of(tables, set));
    let number = |name: &str| {
        args().find(|arg| arg.key == name).and_then(|arg| match arg.value {
            ArgValue::Uint(value) => Some(value),
            _ => None,
        })
    };
    if number("arm_cpu_implementer").is_some() {
        let mut identifier = message.nested(cpu::ARM_IDENTIFIER);
        for (name, field) in IDENTIFIER {
            identifier.varint(field, number(name).unwrap_or(0));
        }
    }
    if let Some(features) = number("cpu_features.raw_bitmap") {
        message.varint(cpu::FEATURES, features);
    }
}

fn write_interrupts(tables: &Tables, info: &mut Message<'_, Vec<u8>>) {
    let table = &tables.interrupt_mapping;
    for row in 0..table.len() {
        if table.machine_id.get(row).is_some_and(|machine| machine.0 != 0) {
            continue;
        }
        let mut mapping = info.nested(interrupt_info::IRQ_MAPPING);
        mapping.varint(interrupt_mapping::IRQ_ID, table.irq_id.get(row).copied().unwrap_or(0).into());
        if let Some(name) = table.name.get(row).copied().flatten() {
            mapping.string(interrupt_mapping::NAME, tables.strings.get(name));
        }
    }
}
