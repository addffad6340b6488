//! Turns raw pages into packets: one bundle of events for each run of pages of one CPU, for one session.

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use ferretto_protos::fields::{self, ftrace_event, ftrace_event_bundle as bundle_field, trace_packet};
use ferretto_protozero::{Message, Sink};

use super::clock_pair::ClockPair;
use super::compact::{CompactLayout, CompactSched, INTERN_LIMIT};
use super::format::PageLayout;
use super::metadata::{FileId, Metadata, Named};
use super::page::{Page, ParseStatus, ParseStatuses, Record, read_u32, read_u64};
use super::plan::{EventPlan, FieldPlan, FileFields, LegacyKind, Number, Op, Place, PlanKind};
use super::print_filter::PrintFilter;
use super::short;
use super::symbols::{KernelSymbols, PrintkFormats};
use super::words::Words;
use crate::packets::Packets;

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
    Syscalls {
        offset: usize,
        ids: BTreeSet<u32>,
    },
    /// A kernel probe's type for the trace (KprobeEvent.KprobeType).
    Kprobe {
        kind: u64,
    },
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

/// Memory that is used again for every batch of every session.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    compact: CompactSched,
    /// The events of one page, as they go into the bundle. Lengths are known before they are written here, where in shared memory
    /// they would have to be reserved and every event moved afterwards.
    events: Words,
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
    scratch: &mut Scratch,
    names: Names<'_>,
) {
    if config.shared && !holds_anything(batch, config) {
        return;
    }
    state.metadata.clock = batch.clock;
    let mut pages = batch
        .pages
        .chunks_exact(batch.layout.page_size)
        .map(|page| Page::open(page, batch.layout))
        .peekable();
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
                    is_first
                        || !(page.is_ok_and(|page| page.lost_events)
                            || scratch.compact.interned() > INTERN_LIMIT)
                }) {
                    is_first = false;
                    encode_page(&mut bundle, page, batch.cpu, config, state, scratch, names);
                }
                scratch.compact.write_and_reset(&mut bundle);
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
        Ok(page) => {
            page.records().any(|record| record.map_or(true, |record| config.is_enabled(record.event_id)))
        }
    })
}

/// Says that events of a CPU are missing here.
pub(crate) fn write_gap<P: Packets>(out: &mut P, cpu: u32, state: &mut EncodeState) {
    out.packet(|packet| {
        let mut bundle = packet.nested(trace_packet::FTRACE_EVENTS);
        bundle.varint(bundle_field::CPU, u64::from(cpu));
        bundle.bool(bundle_field::LOST_EVENTS, true);
        bundle.varint(bundle_field::PREVIOUS_BUNDLE_END_TIMESTAMP, state.bundle_end(cpu));
    });
}

fn write_bundle_header<S: Sink>(
    bundle: &mut Message<'_, S>,
    batch: &Batch<'_>,
    lost: bool,
    previous_end: u64,
) {
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
        if let Some(PlanKind::Generic { descriptor, .. }) =
            config.events.get(usize::from(index)).map(|e| &e.plan.kind)
        {
            bundle.bytes(bundle_field::GENERIC_EVENT_DESCRIPTORS, descriptor);
        }
    }
}

/// Names of the addresses that are new in this packet. Indices start anew with each round, which the first packet says.
fn write_symbols<S: Sink>(packet: &mut Message<'_, S>, metadata: &mut Metadata, symbols: &KernelSymbols) {
    use fields::{interned_data, interned_string};
    const INCREMENTAL_STATE_CLEARED: u64 = 1;
    let mut named = metadata
        .symbols
        .unwritten()
        .filter_map(|(index, address)| Some((index, symbols.lookup(address)?)))
        .peekable();
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
    scratch: &mut Scratch,
    names: Names<'_>,
) {
    let page = match page {
        Ok(page) => page,
        Err(timestamp) => return write_error(bundle, state, timestamp, ParseStatus::InvalidPageHeader),
    };
    scratch.events.clear();
    let mut last_written = 0;
    let mut damage = None;
    for record in page.records() {
        match record.and_then(|record| encode_record(&record, config, state, scratch, names)) {
            Ok(0) => {}
            Ok(timestamp) => last_written = timestamp,
            Err(status) => {
                damage = Some(status);
                break;
            }
        }
    }
    if !scratch.events.is_empty() {
        bundle.raw(scratch.events.as_slice());
    }
    match damage {
        Some(status) => write_error(bundle, state, Some(page.timestamp), status),
        None if last_written != 0 => state.set_bundle_end(cpu, last_written),
        None => {}
    }
}

fn write_error<S: Sink>(
    bundle: &mut Message<'_, S>,
    state: &mut EncodeState,
    timestamp: Option<u64>,
    status: ParseStatus,
) {
    state.errors.insert(status);
    let mut error = bundle.nested(bundle_field::ERROR);
    if let Some(timestamp) = timestamp {
        error.varint(bundle_field::ftrace_error::TIMESTAMP, timestamp);
    }
    error.varint(bundle_field::ftrace_error::STATUS, status as u64);
}

/// Encodes one record; gives its time, or 0 if this session does not want it.
#[inline]
fn encode_record(
    record: &Record<'_>,
    config: &ParseConfig,
    state: &mut EncodeState,
    scratch: &mut Scratch,
    names: Names<'_>,
) -> Result<u64, ParseStatus> {
    let slot = config.dispatch.get(usize::from(record.event_id)).copied().unwrap_or(0);
    let pid = match (slot, &config.compact) {
        (0, _) => return Ok(0),
        (COMPACT_SWITCH, Some(layout)) => scratch.compact.switch(record, &layout.switch),
        (COMPACT_WAKING, Some(layout)) => scratch.compact.waking(record, &layout.waking),
        _ => {
            let index = slot - 1;
            let Some(event) = config.events.get(usize::from(index)) else { return Ok(0) };
            if !event.filter.keeps(record.payload) {
                return Ok(0);
            }
            if event.plan.is_generic() && config.self_describing && !state.descriptors.contains(&index) {
                state.descriptors.push(index);
            }
            encode_event(record, event, config.self_describing, &mut state.metadata, scratch, names)?;
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

fn encode_event(
    record: &Record<'_>,
    event: &SessionEvent,
    self_describing: bool,
    metadata: &mut Metadata,
    scratch: &mut Scratch,
    names: Names<'_>,
) -> Result<(), ParseStatus> {
    let plan = &*event.plan;
    if record.payload.len() < plan.min_size {
        return Err(ParseStatus::InvalidEvent);
    }
    let pid = plan
        .pid_offset
        .and_then(|offset| read_u32(record.payload, usize::from(offset)))
        .map(u32::cast_signed);
    if let Some(pid) = pid {
        metadata.pids.insert(pid);
    }
    let is_short = plan.is_short && (self_describing || !plan.is_generic());
    let complete = is_short
        && short::encode(&mut scratch.events, record, plan, pid, &mut metadata.pids).is_some()
        || encode_any(&mut scratch.events, record, event, pid, self_describing, metadata, names);
    if matches!(plan.field_id, ftrace_event::TASK_NEWTASK | ftrace_event::TASK_RENAME) {
        let named = pid.and_then(|pid| Named::from_event(plan, pid, record.timestamp, record.payload));
        metadata.named.extend(named);
    }
    if let Some(fields) = &plan.files
        && metadata.files.are_wanted_of(pid)
    {
        files(fields, record.payload).for_each(|file| metadata.files.insert(file));
    }
    if complete { Ok(()) } else { Err(ParseStatus::InvalidEvent) }
}

/// Appends an `FtraceEvent` field of the bundle: time, thread, and the event's message. False if a field leads out of the record.
fn encode_any(
    out: &mut Words,
    record: &Record<'_>,
    event: &SessionEvent,
    pid: Option<i32>,
    self_describing: bool,
    metadata: &mut Metadata,
    names: Names<'_>,
) -> bool {
    let plan = &*event.plan;
    let envelope = out.begin(bundle_field::EVENT);
    out.varint(ftrace_event::TIMESTAMP, record.timestamp);
    if let Some(pid) = pid {
        out.int(ftrace_event::PID, i64::from(pid));
    }
    let complete = match &plan.kind {
        PlanKind::Generic { legacy, .. } if !self_describing => {
            let body = out.begin(ftrace_event::GENERIC);
            out.bytes(fields::generic_ftrace_event::EVENT_NAME, plan.name.as_bytes());
            let complete = encode_legacy_fields(out, plan, legacy, record.payload, metadata, names);
            out.end(body);
            complete
        }
        PlanKind::Kprobe => {
            let body = out.begin(plan.field_id);
            out.bytes(fields::kprobe_event::NAME, plan.name.as_bytes());
            if let Filter::Kprobe { kind } = event.filter {
                out.varint(fields::kprobe_event::TYPE, kind);
            }
            out.end(body);
            true
        }
        PlanKind::Known | PlanKind::Generic { .. } => {
            let body = out.begin(plan.field_id);
            let mut complete = true;
            for field in &plan.fields {
                complete &= encode_field(out, field, record.payload, metadata, names).is_some();
            }
            out.end(body);
            complete
        }
    };
    out.end(envelope);
    complete
}

/// The files that a record is about.
fn files(fields: &FileFields, payload: &[u8]) -> impl Iterator<Item = FileId> {
    let number = |place: Place| address(payload.get(usize::from(place.offset)..)?, place.size);
    let device = number(fields.device).map(user_device);
    fields.inodes.iter().filter_map(move |&place| Some(FileId { device: device?, inode: number(place)? }))
}

/// The older encoding of an event that nobody's schema knows: each field with its name. False if one leads out of the record.
fn encode_legacy_fields(
    out: &mut Words,
    plan: &EventPlan,
    legacy: &[(String, LegacyKind)],
    payload: &[u8],
    metadata: &mut Metadata,
    names: Names<'_>,
) -> bool {
    use fields::generic_ftrace_event::{self, field as number};
    let mut complete = true;
    for (field, (name, kind)) in plan.fields.iter().zip(legacy) {
        let number = match kind {
            LegacyKind::String => number::STR_VALUE,
            LegacyKind::Int => number::INT_VALUE,
            LegacyKind::Uint => number::UINT_VALUE,
            LegacyKind::None => continue,
        };
        // A repeated number has no place in this encoding.
        if matches!(field.op, Op::Array { .. }) {
            continue;
        }
        let start = out.begin(generic_ftrace_event::FIELD);
        out.bytes(generic_ftrace_event::field::NAME, name.as_bytes());
        complete &= encode_field(out, &FieldPlan { number, ..*field }, payload, metadata, names).is_some();
        out.end(start);
    }
    complete
}

/// Encodes one field; `None` if it leads out of the record.
#[inline]
fn encode_field(
    body: &mut Words,
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
        Op::FixedString { len: COMM_LEN } => {
            let (word, len) = short_string(u128::from_le_bytes(*rest.first_chunk()?));
            body.short_bytes(number, word, len);
        }
        Op::FixedString { len } => body.bytes(number, until_nul(rest.get(..usize::from(len))?)),
        Op::TailString => body.bytes(number, until_nul(rest)),
        Op::FixedBytes { len } => body.bytes(number, rest.get(..usize::from(len))?),
        Op::Located { relative, is_string } => {
            let place = located(rest, usize::from(field.offset), relative)?;
            match last_word(payload, &place).filter(|_| is_string) {
                Some(word) => {
                    let (word, len) = short_string(word);
                    body.short_bytes(number, word, len);
                }
                None => {
                    let bytes = payload.get(place)?;
                    body.bytes(number, if is_string { until_nul(bytes) } else { bytes });
                }
            }
        }
        Op::StringPointer { size } => body.bytes(number, names.printk.lookup(address(rest, size)?)),
        Op::Symbol { size } => body.varint(number, u64::from(metadata.symbols.index(address(rest, size)?))),
        Op::Device { size } => body.varint(number, user_device(address(rest, size)?)),
        Op::Array { count, element } => {
            for bytes in rest
                .get(..usize::from(count) * usize::from(element.size))?
                .chunks_exact(usize::from(element.size.max(1)))
            {
                body.varint(number, array_element(bytes, element));
            }
        }
    }
    Some(())
}

/// Where the bytes are that a `__data_loc` or `__rel_loc` word points to. An empty one points nowhere.
pub(crate) fn located(field: &[u8], field_offset: usize, relative: bool) -> Option<Range<usize>> {
    let word = u32::from_le_bytes(*field.first_chunk()?);
    let (offset, len) = ((word & 0xffff) as usize, (word >> 16) as usize);
    let start = if relative { field_offset + 4 + offset } else { offset };
    Some(if len == 0 { 0..0 } else { start..start + len })
}

/// The kernel's TASK_COMM_LEN. Names of threads are the most frequent strings by far, and fit into a register.
const COMM_LEN: u16 = 16;

/// One to sixteen bytes, with zeroes behind them; `None` for others, and where too little is before them. Strings that a record points
/// to are at its end: a load that ends where they do does not leave it.
#[inline(always)]
pub(crate) fn last_word(payload: &[u8], place: &Range<usize>) -> Option<u128> {
    let len = place.len();
    if !(1..=usize::from(COMM_LEN)).contains(&len) {
        return None;
    }
    let word = u128::from_le_bytes(*payload.get(..place.end)?.last_chunk()?);
    Some(word >> (8 * (usize::from(COMM_LEN) - len)))
}

/// A word and how many of its bytes are before the first zero.
#[inline(always)]
pub(crate) fn short_string(word: u128) -> (u128, usize) {
    // The lowest set bit of this well-known expression belongs to the first zero byte.
    const LOW: u128 = u128::MAX / 0xff;
    let zeroes = word.wrapping_sub(LOW) & !word & (LOW << 7);
    (word, zeroes.trailing_zeros() as usize / 8)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftrace::format::EventFormat;
    use crate::ftrace::metadata::Birth;
    use crate::packets::testing::Recorded;
    use ferretto_protos::TracePacket;
    use ferretto_protozero::read::{Fields, Value};
    use ferretto_protozero::varint;

    const SCHED_PAGES: &[u8] = include_bytes!("../../tests/data/pages/sched");
    const SYSCALL_PAGES: &[u8] = include_bytes!("../../tests/data/pages/syscalls");
    const LAYOUT: PageLayout = PageLayout::native_64bit(4096);

    fn format(name: &str) -> EventFormat {
        let path = format!("{}/tests/data/formats/{name}", env!("CARGO_MANIFEST_DIR"));
        EventFormat::parse(&std::fs::read(path).unwrap()).unwrap()
    }

    fn known(group: &str, name: &str) -> Rc<EventPlan> {
        Rc::new(EventPlan::known(group, &format(name)).unwrap())
    }

    fn generic(name: &str, field: u32) -> Rc<EventPlan> {
        Rc::new(EventPlan::generic("test", &format(name), field))
    }

    fn config(self_describing: bool, plans: &[Rc<EventPlan>]) -> ParseConfig {
        let mut config = ParseConfig::new(self_describing, false);
        for plan in plans {
            config.enable(plan.clone(), Filter::All);
        }
        config
    }

    fn sched_config() -> ParseConfig {
        let (switch, waking) = (known("sched", "sched_switch"), known("sched", "sched_waking"));
        let mut config = config(true, &[switch.clone(), waking.clone()]);
        config.set_compact(CompactLayout::new(&switch, &waking).unwrap());
        config
    }

    fn encode_into(out: &mut Recorded, pages: &[u8], config: &ParseConfig, state: &mut EncodeState) {
        let batch = Batch { cpu: 3, pages, layout: LAYOUT, clock: None };
        let printk = PrintkFormats::default();
        encode_batch(
            out,
            &batch,
            config,
            state,
            &mut Scratch::default(),
            Names { printk: &printk, symbols: None },
        );
    }

    fn encode(pages: &[u8], config: &ParseConfig) -> (Vec<Vec<u8>>, EncodeState) {
        let (mut out, mut state) = (Recorded::default(), EncodeState::default());
        encode_into(&mut out, pages, config, &mut state);
        (out.0, state)
    }

    /// The events that no code but these tests mentions have no constant.
    fn field_of(event: &str) -> u32 {
        ferretto_protos::ftrace::known_event(event).unwrap().field_id
    }

    /// The values of a field, in order.
    fn field(message: &[u8], number: u32) -> Vec<Value<'_>> {
        Fields::new(message).map(|f| f.unwrap()).filter(|f| f.number == number).map(|f| f.value).collect()
    }

    fn bytes(message: &[u8], number: u32) -> Vec<&[u8]> {
        field(message, number)
            .into_iter()
            .map(|v| if let Value::Bytes(b) = v { b } else { panic!("{v:?}") })
            .collect()
    }

    fn numbers(message: &[u8], number: u32) -> Vec<u64> {
        field(message, number)
            .into_iter()
            .map(|v| if let Value::Varint(n) = v { n } else { panic!("{v:?}") })
            .collect()
    }

    fn bundles(packets: &[Vec<u8>]) -> Vec<&[u8]> {
        packets.iter().flat_map(|p| bytes(p, trace_packet::FTRACE_EVENTS)).collect()
    }

    fn packed(message: &[u8], number: u32) -> Vec<u64> {
        let mut rest = *bytes(message, number).first().unwrap_or(&&[][..]);
        let mut values = Vec::new();
        while let Some((value, len)) = varint::decode(rest) {
            values.push(value);
            rest = &rest[len..];
        }
        values
    }

    fn record_count(pages: &[u8]) -> usize {
        pages.chunks(4096).map(|page| Page::open(page, LAYOUT).unwrap().records().count()).sum()
    }

    #[test]
    fn recorded_scheduler_pages_become_one_compact_bundle() {
        use bundle_field::compact_sched as compact;
        let (packets, state) = encode(SCHED_PAGES, &sched_config());
        let bundles = bundles(&packets);
        assert_eq!(bundles.len(), 1);
        assert_eq!(
            (
                numbers(bundles[0], bundle_field::CPU),
                numbers(bundles[0], bundle_field::PREVIOUS_BUNDLE_END_TIMESTAMP)
            ),
            (vec![3], vec![0])
        );
        let sched = bytes(bundles[0], bundle_field::COMPACT_SCHED)[0];
        let names: Vec<_> = bytes(sched, compact::INTERN_TABLE);
        assert!(names.contains(&&b"ping"[..]) && names.contains(&&b"pong"[..]));
        let (switches, wakings) =
            (packed(sched, compact::SWITCH_TIMESTAMP), packed(sched, compact::WAKING_TIMESTAMP));
        assert_eq!(switches.len() + wakings.len(), record_count(SCHED_PAGES));
        for column in [
            compact::SWITCH_PREV_STATE,
            compact::SWITCH_NEXT_PID,
            compact::SWITCH_NEXT_PRIO,
            compact::SWITCH_NEXT_COMM_INDEX,
        ] {
            assert_eq!(packed(sched, column).len(), switches.len());
        }
        for column in [
            compact::WAKING_PID,
            compact::WAKING_TARGET_CPU,
            compact::WAKING_PRIO,
            compact::WAKING_COMM_INDEX,
            compact::WAKING_COMMON_FLAGS,
        ] {
            assert_eq!(packed(sched, column).len(), wakings.len());
        }
        // Ping wakes pong, pong wakes ping.
        let next: Vec<_> = packed(sched, compact::SWITCH_NEXT_PID)
            .into_iter()
            .zip(packed(sched, compact::SWITCH_NEXT_COMM_INDEX))
            .collect();
        assert!(next.iter().all(|&(pid, comm)| pid != 1001 || names[comm as usize] == b"ping"));
        assert!(state.metadata.pids.iter().any(|pid| pid == 1002));
        assert_eq!(state.errors, ParseStatuses::default());
    }

    #[test]
    fn threads_born_and_renamed_are_known_with_their_names() {
        let plan = known("task", "task_rename");
        let mut payload = [0; 46];
        payload[28..33].copy_from_slice(b"sleep");
        let found = Named::from_event(&plan, 1001, 7, &payload).unwrap();
        assert_eq!((found.pid, found.name(), found.time_ns, found.birth), (1001, &b"sleep"[..], 7, None));
        assert_eq!(Named::from_event(&plan, 1001, 7, &payload[..40]), None);

        let plan = known("task", "task_newtask");
        let mut payload = [0; 46];
        payload[8..12].copy_from_slice(&1002_u32.to_le_bytes());
        payload[12..14].copy_from_slice(b"sh");
        for (flags, is_thread) in [(0x4100_u64, false), (0x3d_0f00, true)] {
            payload[32..40].copy_from_slice(&flags.to_le_bytes());
            let found = Named::from_event(&plan, 1001, 8, &payload).unwrap();
            assert_eq!((found.pid, found.name()), (1002, &b"sh"[..]));
            assert_eq!(found.birth, Some(Birth { parent: 1001, is_thread }));
        }
        assert_eq!(Named::from_event(&plan, 1001, 8, &payload[..34]), None);
    }

    #[test]
    fn the_plain_encoding_says_the_same_as_the_compact_one() {
        let plain = config(true, &[known("sched", "sched_switch"), known("sched", "sched_waking")]);
        let (packets, _) = encode(SCHED_PAGES, &plain);
        let events = bytes(bundles(&packets)[0], bundle_field::EVENT);
        assert_eq!(events.len(), record_count(SCHED_PAGES));
        let switches: Vec<_> = events
            .iter()
            .filter_map(|e| {
                Some((numbers(e, ftrace_event::TIMESTAMP)[0], *bytes(e, ftrace_event::SCHED_SWITCH).first()?))
            })
            .collect();
        let (packets, _) = encode(SCHED_PAGES, &sched_config());
        let sched = bytes(bundles(&packets)[0], bundle_field::COMPACT_SCHED)[0];
        let mut time = 0;
        let compact_times: Vec<_> = packed(sched, bundle_field::compact_sched::SWITCH_TIMESTAMP)
            .into_iter()
            .map(|delta| {
                time += delta;
                time
            })
            .collect();
        assert_eq!(switches.iter().map(|s| s.0).collect::<Vec<_>>(), compact_times);
        let next_pid = 6;
        let plain_pids: Vec<_> = switches.iter().map(|s| numbers(s.1, next_pid)[0]).collect();
        assert_eq!(plain_pids, packed(sched, bundle_field::compact_sched::SWITCH_NEXT_PID));
    }

    #[test]
    fn a_bundle_goes_on_where_the_last_one_of_its_cpu_ended() {
        let (mut out, mut state) = (Recorded::default(), EncodeState::default());
        let config = sched_config();
        encode_into(&mut out, &SCHED_PAGES[..4096], &config, &mut state);
        let last =
            Page::open(&SCHED_PAGES[..4096], LAYOUT).unwrap().records().last().unwrap().unwrap().timestamp;
        encode_into(&mut out, &SCHED_PAGES[4096..], &config, &mut state);
        assert_eq!(numbers(bundles(&out.0)[1], bundle_field::PREVIOUS_BUNDLE_END_TIMESTAMP), [last]);
    }

    #[test]
    fn lost_events_start_a_bundle_that_says_so() {
        let mut pages = SCHED_PAGES.to_vec();
        // The kernel overwrote events before the first page was read: the flag is as recorded.
        pages[2 * 4096 + 11] |= 0x80;
        let (packets, _) = encode(&pages, &sched_config());
        let lost: Vec<_> = bundles(&packets).iter().map(|b| numbers(b, bundle_field::LOST_EVENTS)).collect();
        assert_eq!(lost, [[1], [1]]);
        pages[11] &= 0x7f;
        pages.truncate(2 * 4096);
        let (packets, _) = encode(&pages, &sched_config());
        assert!(numbers(bundles(&packets)[0], bundle_field::LOST_EVENTS).is_empty());
    }

    #[test]
    fn a_damaged_page_is_counted_and_the_next_one_read() {
        let mut pages = SCHED_PAGES.to_vec();
        pages[4096 + 8..4096 + 12].fill(0xff);
        pages[2 * 4096 + 16] = 29; // Padding without a length.
        pages[2 * 4096 + 17..2 * 4096 + 20].fill(0);
        let (packets, state) =
            encode(&pages, &config(true, &[known("sched", "sched_switch"), known("sched", "sched_waking")]));
        assert_eq!(
            state.errors.numbers().collect::<Vec<_>>(),
            [ParseStatus::InvalidPageHeader as u64, ParseStatus::NullPadding as u64]
        );
        let bundles = bundles(&packets);
        let events: usize = bundles.iter().map(|b| bytes(b, bundle_field::EVENT).len()).sum();
        assert_eq!(events, record_count(&[&SCHED_PAGES[..4096], &SCHED_PAGES[3 * 4096..]].concat()));
        let errors: Vec<_> = bundles.iter().flat_map(|b| bytes(b, bundle_field::ERROR)).collect();
        assert_eq!(errors.len(), 2);
    }

    #[test]
    fn a_session_gets_its_own_events_only_and_no_packet_without_any() {
        let (packets, state) = encode(SCHED_PAGES, &config(true, &[known("sched", "sched_waking")]));
        let events = bytes(bundles(&packets)[0], bundle_field::EVENT);
        assert!(!events.is_empty() && events.iter().all(|e| bytes(e, ftrace_event::SCHED_SWITCH).is_empty()));
        assert_eq!(state.errors, ParseStatuses::default());
        let mut other = config(true, &[known("irq", "irq_handler_entry")]);
        other.shared = true;
        assert!(encode(SCHED_PAGES, &other).0.is_empty());
    }

    #[test]
    fn the_quick_way_gives_the_same_bytes() {
        let mut plans =
            ["sched_switch", "sched_waking", "sched_process_exit"].map(|n| known("sched", n)).to_vec();
        plans.extend([known("irq", "irq_handler_entry"), known("task", "task_newtask")]);
        plans.push(generic("sched_waking", 65_536));
        for plan in plans {
            let name = &plan.name;
            assert!(plan.is_short, "{name}");
            let slow = Rc::new(EventPlan { is_short: false, ..(*plan).clone() });
            // Numbers of all lengths, strings at any place, and records that are cut short.
            for seed in 0u64..400 {
                let byte = |i: u64| (seed * 31 + i).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56 >> (seed % 9);
                let mut payload: Vec<u8> = (0..100 + seed % 30).map(|i| byte(i) as u8).collect();
                payload[..2].copy_from_slice(&plan.id.to_le_bytes());
                if let Some(field) = plan.fields.iter().find(|f| matches!(f.op, Op::Located { .. })) {
                    let place = (40 + seed % 80) | ((seed % 24) << 16);
                    let at = usize::from(field.offset);
                    payload[at..at + 4].copy_from_slice(&(place as u32).to_le_bytes());
                }
                payload.truncate(payload.len() / 4 * 4);
                let mut page = page_of(&payload);
                if payload.len() > 4 * 28 {
                    let header = [0u32, payload.len() as u32 + 4].map(u32::to_le_bytes).concat();
                    page =
                        [&page[..8], &(payload.len() as u64 + 8).to_le_bytes(), &header, &payload].concat();
                    page.resize(4096, 0);
                }
                // From a machine that has just started to one that has run for ages.
                page[..8].copy_from_slice(&(u64::MAX >> (1 + seed % 63)).to_le_bytes());
                for self_describing in [true, false] {
                    let [quick, slow] = [&plan, &slow]
                        .map(|plan| encode(&page, &config(self_describing, std::slice::from_ref(plan))));
                    assert_eq!((quick.0, quick.1.errors), (slow.0, slow.1.errors), "{name}, {seed}");
                    let pids = [quick.1.metadata.pids.iter(), slow.1.metadata.pids.iter()]
                        .map(Iterator::collect::<Vec<_>>);
                    assert_eq!(pids[0], pids[1]);
                }
            }
        }
    }

    #[test]
    fn arrays_of_arguments_repeat_their_field() {
        let plans = [known("raw_syscalls", "sys_enter"), known("raw_syscalls", "sys_exit")];
        let (packets, _) = encode(SYSCALL_PAGES, &config(true, &plans));
        let events = bytes(bundles(&packets)[0], bundle_field::EVENT);
        let enters: Vec<_> = events.iter().flat_map(|e| bytes(e, field_of("sys_enter"))).collect();
        // id = 1, args = 2
        assert!(
            !enters.is_empty() && enters.iter().all(|e| numbers(e, 1).len() == 1 && numbers(e, 2).len() == 6)
        );
    }

    #[test]
    fn system_calls_can_be_filtered_by_number() {
        let plan = known("raw_syscalls", "sys_enter");
        let mut config = ParseConfig::new(true, false);
        config.enable(plan, Filter::Syscalls { offset: 8, ids: [1].into() });
        let (packets, _) = encode(SYSCALL_PAGES, &config);
        let events = bytes(bundles(&packets)[0], bundle_field::EVENT);
        let ids: Vec<_> =
            events.iter().flat_map(|e| numbers(bytes(e, field_of("sys_enter"))[0], 1)).collect();
        assert!(!ids.is_empty() && ids.iter().all(|&id| id == 1));
    }

    #[test]
    fn generic_events_carry_their_description_once_a_bundle() {
        let (packets, _) = encode(SCHED_PAGES, &config(true, &[generic("sched_waking", 65_536)]));
        let bundle = bundles(&packets)[0];
        let descriptors = bytes(bundle, bundle_field::GENERIC_EVENT_DESCRIPTORS);
        assert_eq!(descriptors.len(), 1);
        assert_eq!(numbers(descriptors[0], bundle_field::generic_event_descriptor::FIELD_ID), [65_536]);
        let event = bytes(bundle, bundle_field::EVENT)[0];
        let body = bytes(event, 65_536)[0];
        assert!(bytes(body, 1)[0] == b"ping" || bytes(body, 1)[0] == b"pong");
    }

    #[test]
    fn the_older_encoding_of_generic_events_names_each_field() {
        use fields::generic_ftrace_event as legacy;
        let (packets, _) = encode(SCHED_PAGES, &config(false, &[generic("sched_waking", 65_536)]));
        let bundle = bundles(&packets)[0];
        assert!(bytes(bundle, bundle_field::GENERIC_EVENT_DESCRIPTORS).is_empty());
        let body = bytes(bytes(bundle, bundle_field::EVENT)[0], ftrace_event::GENERIC)[0];
        assert_eq!(bytes(body, legacy::EVENT_NAME), [b"sched_waking"]);
        let names: Vec<_> =
            bytes(body, legacy::FIELD).into_iter().map(|f| bytes(f, legacy::field::NAME)[0]).collect();
        assert_eq!(names, [&b"comm"[..], b"pid", b"prio", b"target_cpu"]);
    }

    /// A page with one record of this payload.
    fn page_of(payload: &[u8]) -> Vec<u8> {
        let words = payload.len().div_ceil(4);
        let mut page = 5u64.to_le_bytes().to_vec();
        page.extend((words as u64 * 4 + 4).to_le_bytes());
        page.extend((words as u32 | 1 << 5).to_le_bytes());
        page.extend(payload);
        page.resize(4096, 0);
        page
    }

    #[test]
    fn files_that_events_mention_are_handed_on_if_somebody_wants_to_know() {
        let config = config(
            true,
            &[known("ext4", "ext4_unlink_enter"), known("filemap", "mm_filemap_add_to_page_cache")],
        );
        let mut unlink = [0; 40];
        let mut filemap = [0; 40];
        // Ids, thread, device 8:1, inodes: as in the format files.
        unlink[..12].copy_from_slice(&[0xbc, 4, 0, 0, 77, 0, 0, 0, 1, 0, 0x80, 0]);
        (unlink[16], unlink[24]) = (12, 2);
        filemap[..8].copy_from_slice(&[0x58, 2, 0, 0, 77, 0, 0, 0]);
        filemap[16] = 13;
        filemap[32..36].copy_from_slice(&[1, 0, 0x80, 0]);
        let pages = [page_of(&unlink), page_of(&filemap)].concat();
        let files_if = |wanted_by| {
            let mut state = EncodeState::default();
            state.metadata.files.set_wanted_by(wanted_by);
            encode_into(&mut Recorded::default(), &pages, &config, &mut state);
            assert_eq!(state.errors.numbers().count(), 0);
            let mut files: Vec<_> =
                state.metadata.files.iter().map(|file| (file.device, file.inode)).collect();
            files.sort_unstable();
            files
        };
        let device = rustix::fs::makedev(8, 1);
        assert_eq!(files_if(Some(1)), [(device, 2), (device, 12), (device, 13)]);
        assert_eq!(files_if(Some(77)), [], "the thread that looks for files mentions them, too");
        assert_eq!(files_if(None), []);
    }

    #[test]
    fn dynamic_strings_are_found_and_bad_ones_are_errors() {
        let text = "name: dynamic\nID: 9\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\tfield:__data_loc char[] a;\toffset:8;\tsize:4;\tsigned:1;\n\
                    \tfield:__rel_loc char[] b;\toffset:12;\tsize:4;\tsigned:1;\n\tfield:long n[2];\toffset:16;\tsize:16;\tsigned:1;\n";
        let plan = Rc::new(EventPlan::generic("test", &EventFormat::parse(text.as_bytes()).unwrap(), 70_000));
        let config = config(true, &[plan]);
        let mut payload = vec![9, 0, 0, 0, 7, 0, 0, 0];
        payload.extend((32u32 | 4 << 16).to_le_bytes()); // at 32
        payload.extend((20u32 | 3 << 16).to_le_bytes()); // at 16 + 20
        payload.extend((-2i64).to_le_bytes());
        payload.extend(3i64.to_le_bytes());
        payload.extend(b"abc\0de\0\0");
        let (packets, state) = encode(&page_of(&payload), &config);
        let event = bytes(bundles(&packets)[0], bundle_field::EVENT)[0];
        assert_eq!((numbers(event, ftrace_event::PID), state.errors), (vec![7], ParseStatuses::default()));
        let body = bytes(event, 70_000)[0];
        assert_eq!((bytes(body, 1)[0], bytes(body, 2)[0]), (&b"abc"[..], &b"de"[..]));
        assert_eq!(numbers(body, 3), [(-2i64).cast_unsigned(), 3]);
        payload[8..12].copy_from_slice(&(39u32 | 4 << 16).to_le_bytes());
        let (_, state) = encode(&page_of(&payload), &config);
        assert_eq!(state.errors.numbers().collect::<Vec<_>>(), [ParseStatus::InvalidEvent as u64]);
        let (_, state) = encode(&page_of(&payload[..20]), &config);
        assert_eq!(state.errors.numbers().collect::<Vec<_>>(), [ParseStatus::InvalidEvent as u64]);
    }

    #[test]
    fn kernel_addresses_leave_as_indices_with_their_names_beside_them() {
        let text = "name: call\nID: 9\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:void * fn;\toffset:8;\tsize:8;\tsigned:0;\n";
        let plan = Rc::new(EventPlan::generic("test", &EventFormat::parse(text.as_bytes()).unwrap(), 70_000));
        let mut config = ParseConfig::new(true, true);
        config.enable(plan, Filter::All);
        let mut payload = vec![9, 0, 0, 0, 7, 0, 0, 0];
        payload.extend(0xffff_0010u64.to_le_bytes());
        let symbols = KernelSymbols::parse(b"ffff0000 T do_it\n");
        let (printk, pages) = (PrintkFormats::default(), page_of(&payload));
        let (mut out, mut state) = (Recorded::default(), EncodeState::default());
        let names = Names { printk: &printk, symbols: Some(&symbols) };
        for _ in 0..2 {
            let batch = Batch { cpu: 0, pages: &pages, layout: LAYOUT, clock: None };
            encode_batch(&mut out, &batch, &config, &mut state, &mut Scratch::default(), names);
        }
        let body = bytes(bytes(bundles(&out.0)[0], bundle_field::EVENT)[0], 70_000)[0];
        assert_eq!(numbers(body, 1), [1]);
        let packets: Vec<TracePacket> = out.decoded();
        let symbols = |p: &TracePacket| {
            p.interned_data
                .iter()
                .flat_map(|i| &i.kernel_symbols)
                .map(|s| (s.iid(), s.str().to_vec()))
                .collect::<Vec<_>>()
        };
        assert_eq!((symbols(&packets[0]), packets[0].sequence_flags()), (vec![(1, b"do_it".to_vec())], 1));
        assert_eq!((symbols(&packets[1]), packets[1].sequence_flags()), (vec![], 0));
    }

    #[test]
    fn clocks_other_than_boot_come_with_a_pair() {
        let (mut out, mut state) = (Recorded::default(), EncodeState::default());
        let clock = Some(ClockPair { clock: 4, ftrace_ns: 10, boot_ns: 20 });
        let batch = Batch { cpu: 0, pages: &SCHED_PAGES[..4096], layout: LAYOUT, clock };
        let printk = PrintkFormats::default();
        encode_batch(
            &mut out,
            &batch,
            &sched_config(),
            &mut state,
            &mut Scratch::default(),
            Names { printk: &printk, symbols: None },
        );
        let bundle = bundles(&out.0)[0];
        let pair = [bundle_field::FTRACE_CLOCK, bundle_field::FTRACE_TIMESTAMP, bundle_field::BOOT_TIMESTAMP]
            .map(|f| numbers(bundle, f)[0]);
        assert_eq!(pair, [4, 10, 20]);
    }

    #[test]
    fn strings_end_at_their_first_nul() {
        assert_eq!(until_nul(b"\0\x01\0"), b"");
        assert_eq!(until_nul(&[1, 0, 1, 0, 1, 1]), [1]);
        for len in 0..=16 {
            let mut comm = [b'x'; 16];
            comm[len..].fill(0x80);
            comm[len..].iter_mut().take(1).for_each(|b| *b = 0);
            assert_eq!(short_string(u128::from_le_bytes(comm)).1, len);
        }
        // At any place of a record, with any length, terminated or not.
        let mut record: Vec<u8> = (1..=40).collect();
        record[25] = 0;
        for (start, end) in (0..=42).flat_map(|end| (0..=end).map(move |start| (start, end))) {
            let Some(word) = last_word(&record, &(start..end)) else {
                assert!(!(16..=40).contains(&end) || start == end || end - start > 16, "{start}..{end}");
                continue;
            };
            let (word, len) = short_string(word);
            assert_eq!(&word.to_le_bytes()[..len], until_nul(&record[start..end]), "{start}..{end}");
        }
    }

    #[test]
    fn device_numbers_are_shown_as_stat_shows_them() {
        assert_eq!(user_device(8 << 20 | 1), 8 << 8 | 1);
        assert_eq!(user_device(259 << 20 | 300), (259 << 8) | (300 & 0xff) | (1 << 20));
    }

    proptest::proptest! {
        #[test]
        fn damaged_pages_never_panic(hits in proptest::collection::vec((0usize..4096, proptest::num::u8::ANY), 1..12), plain: bool) {
            let mut page = SCHED_PAGES[..4096].to_vec();
            for (at, byte) in hits {
                page[at] = byte;
            }
            let plans = [known("sched", "sched_switch"), known("sched", "sched_waking"), generic("sched_process_fork", 65_536)];
            let config = if plain { config(true, &plans) } else { sched_config() };
            let (packets, _) = encode(&page, &config);
            proptest::prop_assert!(packets.len() <= 1);
        }

        #[test]
        fn lying_formats_never_panic(payload in proptest::collection::vec(proptest::num::u8::ANY, 4..120), offset: u16, size: u16, kind in 0usize..6) {
            let declaration = ["char a[16]", "__data_loc char[] a", "__rel_loc u8[] a", "long a[4]", "void * a", "int a"][kind];
            let text = format!(
                "name: lie\nID: 9\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                 \tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:1;\n"
            );
            let mut payload = payload;
            payload[..2].copy_from_slice(&[9, 0]);
            let format = EventFormat::parse(text.as_bytes()).unwrap();
            for self_describing in [true, false] {
                let plan = Rc::new(EventPlan::generic("test", &format, 65_536));
                let _ = encode(&page_of(&payload), &config(self_describing, &[plan]));
            }
        }
    }

    /// `cargo test --release -p ferretto-probes -- --ignored --nocapture` prints the cost of an event.
    #[test]
    #[ignore = "prints figures that only a release build makes meaningful; .ci/run runs it so that it keeps working"]
    fn cost_of_an_event() {
        let plain = config(true, &[known("sched", "sched_switch"), known("sched", "sched_waking")]);
        for (name, config) in [("compact", sched_config()), ("plain", plain)] {
            let (mut out, mut state, mut scratch) =
                (Recorded::default(), EncodeState::default(), Scratch::default());
            let printk = PrintkFormats::default();
            let started = std::time::Instant::now();
            const ROUNDS: usize = 3000;
            for _ in 0..ROUNDS {
                out.0.clear();
                let batch = Batch { cpu: 0, pages: SCHED_PAGES, layout: LAYOUT, clock: None };
                encode_batch(
                    &mut out,
                    &batch,
                    &config,
                    &mut state,
                    &mut scratch,
                    Names { printk: &printk, symbols: None },
                );
                state.metadata.clear();
            }
            let events = ROUNDS * record_count(SCHED_PAGES);
            println!("{name}: {:.1} ns an event", started.elapsed().as_nanos() as f64 / events as f64);
        }
    }
}
