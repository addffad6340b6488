//! A bundle of the kernel's events arrives (upstream: ftrace_tokenizer.cc).
//!
//! Its events say their time by the clock that the kernel was told to use. Where that is none that a snapshot shows, the bundle itself brings
//! a pair of times, taken when it was read.

use std::rc::Rc;
use std::sync::Arc;

use ferretto_protos::fields::{
    ftrace_event as event_field, ftrace_event_bundle as field, system_info, trace_packet,
    tracing_service_event, utsname,
};
use ferretto_trace_read::fields::{Field, Fields, Value};
use ferretto_trace_tables::MachineId;

use super::{Bundle, Cpu, KernelEvent, MAX_CPUS, QueueKind, own_time};
use crate::again::{Keep, Lies};
use crate::clocks::{BOOTTIME, Clock, Machine, Reading};
use crate::metadata::{Key, Metadatum};
use crate::model::Model;
use crate::order::{Order, QueueId, Run};
use crate::sequence::Generation;
use crate::stats::Stat;

/// `BUILTIN_CLOCK_MONOTONIC_RAW`.
const MONOTONIC_RAW: u32 = 5;
/// The clock of a sequence's own that stands for a kernel clock that no program can read. Upstream's.
const KERNEL_CLOCK: u32 = 64;

/// `FtraceClock`.
mod ftrace_clock {
    pub(super) const UNSPECIFIED: u64 = 0;
    pub(super) const GLOBAL: u64 = 2;
    pub(super) const LOCAL: u64 = 3;
    pub(super) const MONO_RAW: u64 = 4;
}

/// Fewer events of a bundle wait one by one: as many as make up for the room that a bundle needs.
const MIN_RUN: usize = 16;

/// The tag of an event in its bundle; the wire type of messages is 2.
const EVENT_TAG: u8 = (field::EVENT << 3 | 2) as u8;

/// A short event: more of them have no room in a bundle, mostly.
const EVENT_BYTES: usize = 24;

/// What takes part when packets of the kernel arrive.
#[derive(Debug)]
pub struct Arrival<'a> {
    /// All that is known.
    pub model: &'a mut Model,
    /// Where events wait.
    pub order: &'a mut Order,
    /// Where the packet comes from.
    pub machine: MachineId,
    /// Its sequence.
    pub sequence_id: u32,
    /// Where its data lies, if it can be read again.
    pub(crate) lies: Option<Lies>,
}

/// The fields of a bundle that are there once.
#[derive(Clone, Copy, Debug, Default)]
struct Head<'a> {
    cpu: Option<u32>,
    lost_events: bool,
    compact: Option<&'a [u8]>,
    clock: Option<u64>,
    ftrace_timestamp: Option<u64>,
    boot_timestamp: Option<u64>,
    last_read: Option<u64>,
    previous_end: Option<u64>,
    has_descriptors: bool,
}

/// What a packet says that has a bundle whose events are in order, and as all writers write them. Made of its bytes alone, so that another
/// thread may make it than the one that takes packets: see [`Import::push_bundle`](crate::Import::push_bundle).
#[derive(Debug)]
pub struct BundleOutline {
    head: Head<'static>,
    run: EventRun,
}

impl BundleOutline {
    /// That of a packet; nothing if there is something else in it.
    #[must_use]
    pub fn of(packet: &[u8]) -> Option<Self> {
        if packet.len() < MIN_RUN * EVENT_BYTES {
            return None;
        }
        let message = only_bundle(packet)?;
        let mut run = SoFar::default();
        let head = Head::of(message, |_, event| run.take(event));
        if head.compact.is_some() || head.has_descriptors {
            return None;
        }
        Some(Self { run: run.run()?, head: Head { compact: None, ..head } })
    }
}

/// The bundle of a packet, if it has one.
fn only_bundle(packet: &[u8]) -> Option<&[u8]> {
    let mut bundle = None;
    for part in Fields::new(packet) {
        let Field { number, value } = part.ok()?;
        if let (trace_packet::FTRACE_EVENTS, Value::Bytes(message)) = (number, value)
            && bundle.replace(message).is_some()
        {
            return None;
        }
    }
    bundle
}

/// Events that may wait in their bundle: they are in order, and there is nothing odd about any of them.
#[derive(Clone, Copy, Debug)]
struct EventRun {
    /// When the first and the last happen, by the bundle's clock.
    times: (i64, i64),
    events: usize,
}

/// The events of a bundle so far, as far as they may be a run.
#[derive(Clone, Copy, Debug, Default)]
struct SoFar {
    events: usize,
    first: i64,
    last: i64,
    is_odd: bool,
}

impl SoFar {
    #[inline(always)]
    fn take(&mut self, event: &[u8]) {
        self.events += 1;
        if self.is_odd {
            return;
        }
        let usual = usual(event).filter(|(_, found)| !own_time::is_one(found.field));
        let ts = usual.and_then(|(ts, _)| i64::try_from(ts).ok()).filter(|ts| *ts >= self.last);
        let Some(ts) = ts else {
            self.is_odd = true;
            return;
        };
        if self.events == 1 {
            self.first = ts;
        }
        self.last = ts;
    }

    fn run(&self) -> Option<EventRun> {
        let is_run = !self.is_odd && self.events >= MIN_RUN;
        is_run.then_some(EventRun { times: (self.first, self.last), events: self.events })
    }
}

impl Arrival<'_> {
    /// Reads `TracePacket.ftrace_events`, into which somebody may have `looked`.
    pub fn bundle(&mut self, message: &[u8], state: &Rc<Generation>, looked: Option<&BundleOutline>) {
        let mut so_far = SoFar::default();
        let (head, run) = match looked {
            Some(looked) => (looked.head, Some(looked.run)),
            None => {
                let head = Head::of(message, |_, event| so_far.take(event));
                (head, so_far.run())
            }
        };
        let Some(cpu) = head.cpu.filter(|cpu| *cpu < MAX_CPUS) else {
            self.model.stats.count(Stat::FtraceBundleTokenizerErrors);
            return;
        };
        let cpu = Cpu { machine: self.machine, cpu };
        if head.lost_events {
            self.model.stats.set(Stat::FtraceCpuHasDataLoss, Some(i64::from(cpu.cpu)), 1);
        }
        let Some(clock) = self.clock_of(&head) else {
            self.model.stats.count(Stat::FtraceBundleTokenizerErrors);
            return;
        };
        if let Some(compact) = head.compact {
            self.compact_sched(cpu, clock, compact);
        }
        match run {
            Some(run) if self.may_take_run(clock, run) => self.take_run(cpu, message, run, state),
            None if so_far.events == 0 => {}
            _ => self.events(cpu, clock, message, state),
        }
        if head.has_descriptors {
            self.descriptors(message);
        }
        let Some(first_ts) = head.previous_end.or(head.last_read) else {
            self.model.kernel(self.machine).windows.see(cpu.cpu, None);
            return;
        };
        // Only the first bundle of a processor counts; others need no conversion.
        if !self.model.kernel(self.machine).windows.has_seen(cpu.cpu) {
            // It may lie before the trace's 0: nothing happens then.
            let since = self.model.to_trace_time(clock, i64::try_from(first_ts).unwrap_or(i64::MAX)).ok();
            let windows = &mut self.model.kernel(self.machine).windows;
            windows.see(cpu.cpu, since);
            if let Some(whole_since) = windows.whole_since() {
                let value = Metadatum::Int(whole_since);
                self.model.set_metadata(Key::FtraceLatestDataStartNs, self.machine, value);
            }
        }
    }

    /// `TracePacket.system_info`: what the kernel is decides how its numbers are read.
    pub fn system_info(&mut self, message: &[u8]) {
        for part in Fields::new(message).whole() {
            let (system_info::UTSNAME, Value::Bytes(names)) = (part.number, part.value) else { continue };
            let (mut sysname, mut release, mut machine) = (&b""[..], &b""[..], &b""[..]);
            for part in Fields::new(names).whole() {
                match (part.number, part.value) {
                    (utsname::SYSNAME, Value::Bytes(text)) => sysname = text,
                    (utsname::RELEASE, Value::Bytes(text)) => release = text,
                    (utsname::MACHINE, Value::Bytes(text)) => machine = text,
                    _ => {}
                }
            }
            let arch = self.model.tables.strings.intern_bytes(machine);
            let kernel = self.model.kernel(self.machine);
            kernel.version = if sysname == b"Linux" { version_of(release) } else { None };
            kernel.arch = Some(arch);
        }
    }

    /// `TracePacket.service_event`: when the recording began.
    pub fn service_event(&mut self, message: &[u8], ts: i64) {
        let has_started = Fields::new(message).whole().any(|part| {
            part.number == tracing_service_event::TRACING_STARTED && part.value.as_u64() == Some(1)
        });
        if has_started {
            self.model.kernel(self.machine).windows.tracing_started = Some(ts);
        }
    }

    /// The trace's time of a clock's. What cannot be told is counted.
    #[inline]
    pub(super) fn trace_time(&mut self, clock: Clock, value: u64) -> Option<i64> {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        match self.model.to_trace_time(clock, value) {
            Ok(ts) if ts >= 0 => Some(ts),
            Ok(_) => {
                self.model.stats.count(Stat::TraceSorterNegativeTimestampDropped);
                None
            }
            Err(unknown) => {
                self.model.log_unknown(unknown, clock, value, None);
                None
            }
        }
    }

    /// The clock of a bundle's events; nothing if it is none that is known.
    fn clock_of(&mut self, head: &Head<'_>) -> Option<Clock> {
        let of = |id| Clock::new(id, self.sequence_id, Machine(self.machine.0));
        let Some(number) = head.clock else { return Some(of(BOOTTIME)) };
        let clock = match number {
            ftrace_clock::UNSPECIFIED => of(BOOTTIME),
            ftrace_clock::MONO_RAW => of(MONOTONIC_RAW),
            ftrace_clock::GLOBAL | ftrace_clock::LOCAL => of(KERNEL_CLOCK),
            _ => return None,
        };
        let boot = of(BOOTTIME);
        if let (Some(here), Some(there)) = (head.ftrace_timestamp, head.boot_timestamp) {
            let kernel = self.model.kernel(self.machine);
            // Bundles that were read together bring the same pair.
            if kernel.last_clock_pair.replace(here) != Some(here) && clock != boot {
                let reading =
                    |clock, value: u64| Reading::new(clock, i64::try_from(value).unwrap_or(i64::MAX));
                self.model.add_snapshot(&[reading(clock, here), reading(boot, there)]);
            }
        }
        Some(clock)
    }

    /// Events that do not wait in their bundle.
    fn events(&mut self, cpu: Cpu, clock: Clock, message: &[u8], state: &Rc<Generation>) {
        let mut events = Vec::with_capacity(message.len() / EVENT_BYTES);
        Head::of(message, |at, event| events.push((at, event)));
        let number = self.model.bundles.next();
        self.open(cpu, QueueKind::Events);
        let waiting = self.events_one_by_one(cpu, clock, &events, number);
        let bytes = Arc::new(Keep::new(message, self.lies.take()));
        self.model.bundles.push(Bundle { bytes, state: state.clone() }, waiting);
    }

    /// Whether events may wait in their bundle: that is in no memory, or memory is not short; and their clock is the trace's.
    fn may_take_run(&mut self, clock: Clock, run: EventRun) -> bool {
        (self.lies.is_some() || !self.model.bundles.has_store())
            && self.trace_time(clock, run.times.0 as u64).is_some()
            && clock == self.model.clocks.trace_clock()
    }

    fn take_run(&mut self, cpu: Cpu, message: &[u8], run: EventRun, state: &Rc<Generation>) {
        let bundle = self.model.bundles.next();
        self.open(cpu, QueueKind::Events);
        let bytes = Arc::new(Keep::new(message, self.lies.take()));
        let events = InBundle { bytes: bytes.clone(), bundle, events: run.events };
        self.model.bundles.push(Bundle { bytes, state: state.clone() }, run.events);
        self.order.push_kernel_run(cpu, run.times, Box::new(events));
    }

    /// Each event waits by itself; as how many they do.
    fn events_one_by_one(&mut self, cpu: Cpu, clock: Clock, events: &[(usize, &[u8])], number: u32) -> usize {
        let mut waiting = 0;
        for (at, event) in events {
            match usual(event) {
                Some((timestamp, found)) => {
                    let Some(ts) = self.trace_time(clock, timestamp) else { continue };
                    if own_time::is_one(found.field) {
                        let message = event.get(found.at as usize..).unwrap_or_default();
                        self.model.own_time(self.order, cpu, ts, found.field, message);
                    }
                    let at = u32::try_from(*at).unwrap_or(u32::MAX).saturating_add(found.at);
                    self.order.push_kernel(cpu, ts, KernelEvent { bundle: number, at, ..found });
                    waiting += 1;
                }
                None => waiting += self.event(cpu, clock, event, *at, number),
            }
        }
        waiting
    }

    /// A processor's queue is made with those of lower numbers: the order of queues decides which of two events is first.
    pub(super) fn open(&mut self, cpu: Cpu, kind: QueueKind) {
        let queue = match kind {
            QueueKind::Events => QueueId::of_cpu,
            QueueKind::Switches => QueueId::switches_of_cpu,
            QueueKind::Wakings => QueueId::wakeups_of_cpu,
        };
        let Some(made) = self.model.kernel(cpu.machine).made_queues.get_mut(kind as usize) else { return };
        let first = *made;
        *made = first.max(cpu.cpu + 1);
        for number in first..=cpu.cpu {
            self.order.open(queue(cpu.machine, number));
        }
    }

    /// An event whose fields come in no usual order; as how many it waits.
    fn event(&mut self, cpu: Cpu, clock: Clock, event: &[u8], at: usize, bundle: u32) -> usize {
        let (mut timestamp, mut tid) = (None, None);
        let mut found: Option<KernelEvent> = None;
        let mut others: Vec<KernelEvent> = Vec::new();
        let mut fields = Fields::new(event);
        while let Some(Ok(part)) = fields.next() {
            match part.value {
                Value::Bytes(payload) => {
                    let at = at + fields.offset() - payload.len();
                    let narrow = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
                    let this = KernelEvent {
                        bundle,
                        at: narrow(at),
                        len: narrow(payload.len()),
                        field: part.number,
                        tid: None,
                    };
                    // No writer puts two into one, but the format allows it.
                    match found {
                        None => found = Some(this),
                        Some(_) => others.push(this),
                    }
                }
                value if part.number == event_field::TIMESTAMP => timestamp = value.as_u64(),
                value if part.number == event_field::PID => tid = value.as_u64().map(|tid| tid as u32),
                _ => {}
            }
        }
        let Some(timestamp) = timestamp else {
            self.model.stats.count(Stat::FtraceBundleTokenizerErrors);
            return 0;
        };
        let Some(found) = found else {
            self.model.stats.count(Stat::FtraceMissingEventId);
            return 0;
        };
        let Some(ts) = self.trace_time(clock, timestamp) else { return 0 };
        let all = others.len() + 1;
        for found in [found].into_iter().chain(others) {
            if own_time::is_one(found.field) {
                let from = (found.at as usize).saturating_sub(at);
                let message = event.get(from..from.saturating_add(found.len as usize)).unwrap_or_default();
                self.model.own_time(self.order, cpu, ts, found.field, message);
            }
            self.order.push_kernel(cpu, ts, KernelEvent { tid, ..found });
        }
        all
    }

    fn descriptors(&mut self, message: &[u8]) {
        use field::generic_event_descriptor as its;
        for part in Fields::new(message).whole() {
            let (field::GENERIC_EVENT_DESCRIPTORS, Value::Bytes(message)) = (part.number, part.value) else {
                continue;
            };
            let (mut number, mut descriptor) = (0, &b""[..]);
            for part in Fields::new(message).whole() {
                match (part.number, part.value) {
                    (its::FIELD_ID, value) => number = value.as_u64().unwrap_or(0) as u32,
                    (its::EVENT_DESCRIPTOR, Value::Bytes(bytes)) => descriptor = bytes,
                    _ => {}
                }
            }
            self.model.add_generic(self.machine, number, descriptor);
        }
    }
}

impl<'a> Head<'a> {
    /// Reads them, and calls `each` with the events, each with where it begins in the bundle.
    #[inline]
    fn of(message: &'a [u8], mut each: impl FnMut(usize, &'a [u8])) -> Self {
        let mut head = Self::default();
        let mut fields = Fields::new(message);
        loop {
            // Nearly all are events. The bytes of one are the last of its field.
            if let Some(event) = fields.message_of(EVENT_TAG) {
                each(fields.offset() - event.len(), event);
                continue;
            }
            let Some(Ok(part)) = fields.next() else { return head };
            let number = part.value.as_u64();
            match (part.number, part.value) {
                (field::EVENT, Value::Bytes(event)) => each(fields.offset() - event.len(), event),
                (field::GENERIC_EVENT_DESCRIPTORS, _) => head.has_descriptors = true,
                (field::CPU, _) => head.cpu = number.map(|cpu| u32::try_from(cpu).unwrap_or(u32::MAX)),
                (field::LOST_EVENTS, _) => head.lost_events = number.is_some_and(|lost| lost != 0),
                (field::COMPACT_SCHED, Value::Bytes(compact)) => head.compact = Some(compact),
                (field::FTRACE_CLOCK, _) => head.clock = number,
                (field::FTRACE_TIMESTAMP, _) => head.ftrace_timestamp = number,
                (field::BOOT_TIMESTAMP, _) => head.boot_timestamp = number,
                (field::LAST_READ_EVENT_TIMESTAMP, _) => head.last_read = number,
                (field::PREVIOUS_BUNDLE_END_TIMESTAMP, _) => head.previous_end = number,
                _ => {}
            }
        }
    }
}

/// Events that wait in their bundle, all of which are as all writers write them.
#[derive(Debug)]
struct InBundle {
    bytes: Arc<Keep>,
    /// The number of the bundle.
    bundle: u32,
    events: usize,
}

impl Run<KernelEvent> for InBundle {
    fn len(&self) -> usize {
        self.events
    }

    fn is_here(&self) -> bool {
        self.bytes.are_here()
    }

    fn read(&self, to: &mut Vec<(i64, KernelEvent)>) {
        let mut fields = Fields::new(self.bytes.get());
        loop {
            let event = match fields.message_of(EVENT_TAG) {
                Some(event) => event,
                None => match fields.next() {
                    Some(Ok(Field { number: field::EVENT, value: Value::Bytes(event) })) => event,
                    Some(Ok(_)) => continue,
                    _ => return,
                },
            };
            let Some((timestamp, found)) = usual(event) else { continue };
            // Those of a longer bundle have no number.
            let at =
                u32::try_from(fields.offset() - event.len()).unwrap_or(u32::MAX).saturating_add(found.at);
            to.push((timestamp as i64, KernelEvent { bundle: self.bundle, at, ..found }));
        }
    }
}

/// An event as all writers write it: its time, its thread, and what happened. Returns its time, and where its fields lie in it.
#[inline(always)]
fn usual(event: &[u8]) -> Option<(u64, KernelEvent)> {
    const TIMESTAMP: u8 = (event_field::TIMESTAMP << 3) as u8;
    const PID: u8 = (event_field::PID << 3) as u8;
    let mut fields = Fields::new(event);
    let timestamp = fields.number_of(TIMESTAMP)?;
    let tid = fields.number_of(PID)?;
    let Field { number: field, value: Value::Bytes(payload) } = fields.next()?.ok()? else { return None };
    if fields.first_byte().is_some() {
        return None;
    }
    let found = KernelEvent {
        bundle: 0,
        at: u32::try_from(event.len() - payload.len()).ok()?,
        len: u32::try_from(payload.len()).ok()?,
        field,
        tid: Some(tid as u32),
    };
    Some((timestamp, found))
}

/// `6.1.0-13-amd64` is (6, 1).
fn version_of(release: &[u8]) -> Option<(u32, u32)> {
    let mut numbers = std::str::from_utf8(release).ok()?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_two_numbers() {
        assert_eq!(version_of(b"6.1.0-13-amd64"), Some((6, 1)));
        assert_eq!(version_of(b"5.10"), Some((5, 10)));
        assert_eq!(version_of(b"6"), None);
        assert_eq!(version_of(b"x.1.2"), None);
    }
}
