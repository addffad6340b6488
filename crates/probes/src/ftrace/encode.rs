//! Turns raw pages into packets: one bundle of events for each run of pages of one CPU, for one session.

use std::collections::BTreeSet;
use std::rc::Rc;

use ferretto_protos::fields::{self, ftrace_event, ftrace_event_bundle as bundle_field, trace_packet};
use ferretto_protozero::{Message, Sink};

use super::compact::{CompactLayout, CompactSched, INTERN_LIMIT};
use super::format::PageLayout;
use super::metadata::Metadata;
use super::page::{Page, ParseStatus, ParseStatuses, Record, read_u32, read_u64};
use super::plan::{EventPlan, FieldPlan, LegacyKind, Number, Op, PlanKind};
use super::print_filter::PrintFilter;
use super::symbols::{KernelSymbols, PrintkFormats};
use crate::packets::Packets;

/// The buffer's clock and the boot clock at one moment, for readers to convert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockPair {
    /// `FtraceClock`.
    pub(crate) clock: u64,
    pub(crate) ftrace_ns: u64,
    pub(crate) boot_ns: u64,
}

/// Raw pages of one CPU, one after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch<'a> {
    pub(crate) cpu: u32,
    pub(crate) pages: &'a [u8],
    pub(crate) layout: PageLayout,
    /// Absent for the boot clock, which is what readers expect.
    pub(crate) clock: Option<ClockPair>,
}

/// What a session wants of the events in the pages, which it may share with other sessions.
#[derive(Debug, Default)]
pub(crate) struct ParseConfig {
    /// By event id: 0 for events of others, or one of the special values, or an index into `events` plus one.
    dispatch: Vec<u16>,
    events: Vec<SessionEvent>,
    compact: Option<CompactLayout>,
    /// Events that nobody's schema knows carry their description (upstream: denser_generic_event_encoding).
    self_describing: bool,
    symbolize: bool,
    /// Other sessions share the buffer, so that a page may hold nothing for this one.
    pub(crate) shared: bool,
}

#[derive(Debug)]
struct SessionEvent {
    plan: Rc<EventPlan>,
    filter: Filter,
}

/// Which records of an event a session keeps.
#[derive(Debug)]
pub(crate) enum Filter {
    All,
    Print(PrintFilter),
    /// System calls by number, at this offset (an `int` or `long`).
    Syscalls { offset: usize, ids: BTreeSet<u32> },
    /// A kernel probe's type for the trace (KprobeEvent.KprobeType).
    Kprobe { kind: u64 },
}

const COMPACT_SWITCH: u16 = u16::MAX;
const COMPACT_WAKING: u16 = u16::MAX - 1;

impl ParseConfig {
    pub(crate) fn new(self_describing: bool, symbolize: bool) -> Self {
        Self { self_describing, symbolize, ..Self::default() }
    }

    pub(crate) fn enable(&mut self, plan: Rc<EventPlan>, filter: Filter) {
        let id = usize::from(plan.id);
        // Event ids are 16 bits wide, so there are fewer events than special values leave room for.
        let Ok(index) = u16::try_from(self.events.len() + 1) else { return };
        if index >= COMPACT_WAKING {
            return;
        }
        if self.dispatch.len() <= id {
            self.dispatch.resize(id + 1, 0);
        }
        self.events.push(SessionEvent { plan, filter });
        if let Some(slot) = self.dispatch.get_mut(id) {
            *slot = index;
        }
    }

    /// Encodes the two scheduler events column by column, those of them that are enabled.
    pub(crate) fn set_compact(&mut self, layout: CompactLayout) {
        for (id, special) in [(layout.switch.id, COMPACT_SWITCH), (layout.waking.id, COMPACT_WAKING)] {
            if let Some(slot) = self.dispatch.get_mut(usize::from(id)).filter(|slot| **slot != 0) {
                *slot = special;
            }
        }
        self.compact = Some(layout);
    }

    #[cfg(test)]
    pub(crate) fn is_compact(&self) -> bool {
        self.compact.is_some()
    }

    pub(crate) fn is_enabled(&self, id: u16) -> bool {
        self.dispatch.get(usize::from(id)).is_some_and(|&slot| slot != 0)
    }

    /// The events of this session.
    pub(crate) fn plans(&self) -> impl Iterator<Item = &Rc<EventPlan>> {
        self.events.iter().map(|event| &event.plan)
    }
}

/// One session's state while its events are encoded.
#[derive(Debug, Default)]
pub(crate) struct EncodeState {
    pub(crate) metadata: Metadata,
    pub(crate) errors: ParseStatuses,
    /// By CPU: the last event that went into a bundle. Readers trust a CPU's data from there on.
    bundle_end: Vec<u64>,
    /// Generic events of the current bundle.
    descriptors: Vec<u16>,
}

impl EncodeState {
    fn bundle_end(&mut self, cpu: u32) -> u64 {
        self.bundle_end.get(cpu as usize).copied().unwrap_or(0)
    }

    fn set_bundle_end(&mut self, cpu: u32, timestamp: u64) {
        let cpu = cpu as usize;
        if self.bundle_end.len() <= cpu {
            self.bundle_end.resize(cpu + 1, 0);
        }
        if let Some(end) = self.bundle_end.get_mut(cpu) {
            *end = timestamp;
        }
    }
}

/// Names for addresses, shared by all sessions of an instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    pub(crate) printk: &'a PrintkFormats,
    /// Absent when no session asked for names or the kernel hides them.
    pub(crate) symbols: Option<&'a KernelSymbols>,
}

/// Encodes a batch for one session. Damaged pages end with an error in the bundle; those after them are still read.
pub(crate) fn encode_batch<P: Packets>(
    out: &mut P,
    batch: &Batch<'_>,
    config: &ParseConfig,
    state: &mut EncodeState,
    compact: &mut CompactSched,
    names: Names<'_>,
) {
    if config.shared && !holds_anything(batch, config) {
        return;
    }
    let mut pages = batch.pages.chunks_exact(batch.layout.page_size).map(|page| Page::open(page, batch.layout)).peekable();
    while pages.peek().is_some() {
        out.packet(|packet| {
            {
                let mut bundle = packet.nested(trace_packet::FTRACE_EVENTS);
                let lost = pages.peek().is_some_and(|page| page.is_ok_and(|page| page.lost_events));
                write_bundle_header(&mut bundle, batch, lost, state.bundle_end(batch.cpu));
                let mut is_first = true;
                // A page after which events were lost starts a bundle, for the flag is the bundle's; so does a page once the
                // bundle has many names, to keep looking them up cheap.
                while let Some(page) = pages.next_if(|page| {
                    is_first || !(page.is_ok_and(|page| page.lost_events) || compact.interned() > INTERN_LIMIT)
                }) {
                    is_first = false;
                    encode_page(&mut bundle, page, batch.cpu, config, state, compact, names);
                }
                compact.write_and_reset(&mut bundle);
                write_descriptors(&mut bundle, config, &mut state.descriptors);
            }
            if let Some(symbols) = names.symbols.filter(|_| config.symbolize) {
                write_symbols(packet, &mut state.metadata, symbols);
            }
        });
    }
}

fn holds_anything(batch: &Batch<'_>, config: &ParseConfig) -> bool {
    batch.pages.chunks_exact(batch.layout.page_size).any(|page| match Page::open(page, batch.layout) {
        Err(_) => true,
        Ok(page) => page.records().any(|record| record.map_or(true, |record| config.is_enabled(record.event_id))),
    })
}

fn write_bundle_header<S: Sink>(bundle: &mut Message<'_, S>, batch: &Batch<'_>, lost: bool, previous_end: u64) {
    bundle.varint(bundle_field::CPU, u64::from(batch.cpu));
    if lost {
        bundle.bool(bundle_field::LOST_EVENTS, true);
    }
    // Present and 0 in a CPU's first bundle: everything since the session's start is there.
    bundle.varint(bundle_field::PREVIOUS_BUNDLE_END_TIMESTAMP, previous_end);
    if let Some(pair) = batch.clock {
        bundle.varint(bundle_field::FTRACE_CLOCK, pair.clock);
        bundle.varint(bundle_field::FTRACE_TIMESTAMP, pair.ftrace_ns);
        bundle.varint(bundle_field::BOOT_TIMESTAMP, pair.boot_ns);
    }
}

fn write_descriptors<S: Sink>(bundle: &mut Message<'_, S>, config: &ParseConfig, used: &mut Vec<u16>) {
    used.sort_unstable();
    used.dedup();
    for index in used.drain(..) {
        if let Some(PlanKind::Generic { descriptor, .. }) = config.events.get(usize::from(index)).map(|e| &e.plan.kind) {
            bundle.bytes(bundle_field::GENERIC_EVENT_DESCRIPTORS, descriptor);
        }
    }
}

/// Names of the addresses that are new in this packet. Indices start anew with each round, which the first packet says.
fn write_symbols<S: Sink>(packet: &mut Message<'_, S>, metadata: &mut Metadata, symbols: &KernelSymbols) {
    use fields::{interned_data, interned_string};
    const INCREMENTAL_STATE_CLEARED: u64 = 1;
    let mut named = metadata.symbols.unwritten().filter_map(|(index, address)| Some((index, symbols.lookup(address)?))).peekable();
    // Nothing to name leaves the flag to the packet that has something.
    if named.peek().is_none() {
        return;
    }
    if metadata.symbols.is_fresh() {
        packet.varint(trace_packet::SEQUENCE_FLAGS, INCREMENTAL_STATE_CLEARED);
    }
    let mut interned = packet.nested(trace_packet::INTERNED_DATA);
    for (index, name) in named {
        let mut entry = interned.nested(interned_data::KERNEL_SYMBOLS);
        entry.varint(interned_string::IID, u64::from(index));
        entry.bytes(interned_string::STR, name);
    }
    drop(interned);
    metadata.symbols.mark_written();
}

fn encode_page<S: Sink>(
    bundle: &mut Message<'_, S>,
    page: Result<Page<'_>, Option<u64>>,
    cpu: u32,
    config: &ParseConfig,
    state: &mut EncodeState,
    compact: &mut CompactSched,
    names: Names<'_>,
) {
    let page = match page {
        Ok(page) => page,
        Err(timestamp) => return write_error(bundle, state, timestamp, ParseStatus::InvalidPageHeader),
    };
    let mut last_written = 0;
    for record in page.records() {
        match record.and_then(|record| encode_record(bundle, &record, config, state, compact, names)) {
            Ok(0) => {}
            Ok(timestamp) => last_written = timestamp,
            Err(status) => return write_error(bundle, state, Some(page.timestamp), status),
        }
    }
    if last_written != 0 {
        state.set_bundle_end(cpu, last_written);
    }
}

fn write_error<S: Sink>(bundle: &mut Message<'_, S>, state: &mut EncodeState, timestamp: Option<u64>, status: ParseStatus) {
    state.errors.insert(status);
    let mut error = bundle.nested(bundle_field::ERROR);
    if let Some(timestamp) = timestamp {
        error.varint(bundle_field::ftrace_error::TIMESTAMP, timestamp);
    }
    error.varint(bundle_field::ftrace_error::STATUS, status as u64);
}

/// Encodes one record; gives its time, or 0 if this session does not want it.
#[inline]
fn encode_record<S: Sink>(
    bundle: &mut Message<'_, S>,
    record: &Record<'_>,
    config: &ParseConfig,
    state: &mut EncodeState,
    compact: &mut CompactSched,
    names: Names<'_>,
) -> Result<u64, ParseStatus> {
    let slot = config.dispatch.get(usize::from(record.event_id)).copied().unwrap_or(0);
    let pid = match (slot, &config.compact) {
        (0, _) => return Ok(0),
        (COMPACT_SWITCH, Some(layout)) => compact.switch(record, &layout.switch),
        (COMPACT_WAKING, Some(layout)) => compact.waking(record, &layout.waking),
        _ => {
            let index = slot - 1;
            let Some(event) = config.events.get(usize::from(index)) else { return Ok(0) };
            if !event.filter.keeps(record.payload) {
                return Ok(0);
            }
            if event.plan.is_generic() && config.self_describing && !state.descriptors.contains(&index) {
                state.descriptors.push(index);
            }
            encode_event(bundle, record, event, config.self_describing, &mut state.metadata, names)?;
            return Ok(record.timestamp);
        }
    };
    state.metadata.pids.insert(pid.ok_or(ParseStatus::ShortCompactEvent)?);
    Ok(record.timestamp)
}

impl Filter {
    fn keeps(&self, payload: &[u8]) -> bool {
        match self {
            Self::All | Self::Kprobe { .. } => true,
            Self::Print(filter) => filter.keeps(payload),
            // Little endian: the low half of a long is enough, system calls are few.
            Self::Syscalls { offset, ids } => read_u32(payload, *offset).is_some_and(|id| ids.contains(&id)),
        }
    }
}

fn encode_event<S: Sink>(
    bundle: &mut Message<'_, S>,
    record: &Record<'_>,
    event: &SessionEvent,
    self_describing: bool,
    metadata: &mut Metadata,
    names: Names<'_>,
) -> Result<(), ParseStatus> {
    let plan = &*event.plan;
    if record.payload.len() < plan.min_size {
        return Err(ParseStatus::InvalidEvent);
    }
    let mut out = bundle.nested(bundle_field::EVENT);
    out.varint(ftrace_event::TIMESTAMP, record.timestamp);
    let pid = plan.pid_offset.and_then(|offset| read_u32(record.payload, usize::from(offset))).map(u32::cast_signed);
    if let Some(pid) = pid {
        out.int(ftrace_event::PID, i64::from(pid));
        metadata.pids.insert(pid);
    }
    let mut complete = true;
    match &plan.kind {
        PlanKind::Generic { legacy, .. } if !self_describing => {
            let mut body = out.nested(ftrace_event::GENERIC);
            body.string(fields::generic_ftrace_event::EVENT_NAME, &plan.name);
            for (field, (name, kind)) in plan.fields.iter().zip(legacy) {
                complete &= encode_legacy_field(&mut body, field, name, *kind, record.payload, metadata, names);
            }
        }
        PlanKind::Kprobe => {
            let mut body = out.nested(plan.field_id);
            body.string(fields::kprobe_event::NAME, &plan.name);
            if let Filter::Kprobe { kind } = event.filter {
                body.varint(fields::kprobe_event::TYPE, kind);
            }
        }
        PlanKind::Known | PlanKind::Generic { .. } => {
            let mut body = out.nested(plan.field_id);
            for field in &plan.fields {
                complete &= encode_field(&mut body, field, record.payload, metadata, names).is_some();
            }
        }
    }
    // The thread that renames itself is the one renamed, in all cases that matter here (upstream: cpu_reader.cc).
    if plan.field_id == ftrace_event::TASK_RENAME {
        metadata.renamed.extend(pid);
    }
    if complete { Ok(()) } else { Err(ParseStatus::InvalidEvent) }
}

fn encode_legacy_field<S: Sink>(
    body: &mut Message<'_, S>,
    field: &FieldPlan,
    name: &str,
    kind: LegacyKind,
    payload: &[u8],
    metadata: &mut Metadata,
    names: Names<'_>,
) -> bool {
    use fields::generic_ftrace_event::field as legacy;
    let number = match kind {
        LegacyKind::String => legacy::STR_VALUE,
        LegacyKind::Int => legacy::INT_VALUE,
        LegacyKind::Uint => legacy::UINT_VALUE,
        LegacyKind::None => return true,
    };
    // A repeated number has no place in this encoding.
    if matches!(field.op, Op::Array { .. }) {
        return true;
    }
    let mut out = body.nested(fields::generic_ftrace_event::FIELD);
    out.string(legacy::NAME, name);
    encode_field(&mut out, &FieldPlan { number, ..*field }, payload, metadata, names).is_some()
}

/// Encodes one field; `None` if it leads out of the record.
#[inline]
fn encode_field<S: Sink>(
    body: &mut Message<'_, S>,
    field: &FieldPlan,
    payload: &[u8],
    metadata: &mut Metadata,
    names: Names<'_>,
) -> Option<()> {
    let rest = payload.get(usize::from(field.offset)..)?;
    let number = field.number;
    match field.op {
        Op::U8 => body.varint(number, u64::from(*rest.first()?)),
        Op::I8 => body.int(number, i64::from(rest.first()?.cast_signed())),
        Op::U16 => body.varint(number, u64::from(u16::from_le_bytes(*rest.first_chunk()?))),
        Op::I16 => body.int(number, i64::from(i16::from_le_bytes(*rest.first_chunk()?))),
        Op::U32 => body.varint(number, u64::from(u32::from_le_bytes(*rest.first_chunk()?))),
        Op::I32 => body.int(number, i64::from(i32::from_le_bytes(*rest.first_chunk()?))),
        Op::U64 => body.varint(number, u64::from_le_bytes(*rest.first_chunk()?)),
        Op::I64 => body.int(number, i64::from_le_bytes(*rest.first_chunk()?)),
        Op::Pid => {
            let pid = i32::from_le_bytes(*rest.first_chunk()?);
            body.int(number, i64::from(pid));
            metadata.pids.insert(pid);
        }
        Op::FixedString { len } => body.bytes(number, until_nul(rest.get(..usize::from(len))?)),
        Op::TailString => body.bytes(number, until_nul(rest)),
        Op::FixedBytes { len } => body.bytes(number, rest.get(..usize::from(len))?),
        Op::Located { relative, is_string } => {
            let bytes = located(payload, rest, usize::from(field.offset), relative)?;
            body.bytes(number, if is_string { until_nul(bytes) } else { bytes });
        }
        Op::StringPointer { size } => body.bytes(number, names.printk.lookup(address(rest, size)?)),
        Op::Symbol { size } => body.varint(number, u64::from(metadata.symbols.index(address(rest, size)?))),
        Op::Device { size } => body.varint(number, user_device(address(rest, size)?)),
        Op::Array { count, element } => {
            for bytes in rest.get(..usize::from(count) * usize::from(element.size))?.chunks_exact(usize::from(element.size.max(1))) {
                body.varint(number, array_element(bytes, element));
            }
        }
    }
    Some(())
}

/// The bytes that a `__data_loc` or `__rel_loc` word points to. An empty one points nowhere.
fn located<'a>(payload: &'a [u8], field: &[u8], field_offset: usize, relative: bool) -> Option<&'a [u8]> {
    let word = u32::from_le_bytes(*field.first_chunk()?);
    let (offset, len) = ((word & 0xffff) as usize, (word >> 16) as usize);
    let start = if relative { field_offset + 4 + offset } else { offset };
    if len == 0 { Some(&[]) } else { payload.get(start..start + len) }
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    let len = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    bytes.get(..len).unwrap_or(bytes)
}

fn address(bytes: &[u8], size: u8) -> Option<u64> {
    if size == 4 { read_u32(bytes, 0).map(u64::from) } else { read_u64(bytes, 0) }
}

fn array_element(bytes: &[u8], element: Number) -> u64 {
    let mut wide = [0; 8];
    for (to, from) in wide.iter_mut().zip(bytes) {
        *to = *from;
    }
    let value = u64::from_le_bytes(wide);
    let unused_bits = 64 - 8 * u32::from(element.size).clamp(1, 8);
    if element.signed { ((value << unused_bits).cast_signed() >> unused_bits).cast_unsigned() } else { value }
}

/// The device number as `stat` shows it. The kernel keeps 12 bits of major over 20 of minor (include/linux/kdev_t.h).
fn user_device(kernel: u64) -> u64 {
    let (major, minor) = (kernel >> 20, kernel & 0xf_ffff);
    ((major & 0xffff_f000) << 32) | ((minor & 0xffff_ff00) << 12) | ((major & 0xfff) << 8) | (minor & 0xff)
}
