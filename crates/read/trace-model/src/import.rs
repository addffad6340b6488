//! Packets in the order of their file (upstream: proto_trace_reader.cc).
//!
//! What a packet says is taken in a fixed order: whose machine it is; what is missing before it; whether what is interned is forgotten; its
//! defaults; what it interns; then its data. Of these, what is about the trace or a machine as a whole is read at once (clocks, statistics,
//! events of the service, metadata, the hardware), whether or not something is missing; the rest waits for its turn in time. A packet without
//! a time has that of the latest so far. One whose clock no snapshot has shown is put off to the end of the file.

use std::rc::Rc;
use std::sync::Arc;

use ferretto_protos::fields::{trace_packet as kind, tracing_service_event};
use ferretto_trace_read::recent::Recent;
use ferretto_trace_read::{Head, Place};
use ferretto_trace_tables::{Helper, MachineId, Store, Tables, TraceFileId};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::again::{Again, Lies};
use crate::chrome;
use crate::clock_snapshots::FileTimes;
use crate::clocks::{BOOTTIME, Clock, MONOTONIC, Machine, REALTIME, Unknown};
use crate::config::Printer;
use crate::event::{Event, Origin, WholePacket};
use crate::ftrace::bundle::{Arrival, BundleOutline};
use crate::ftrace::kept::{KeptArgs, RowArgs};
use crate::import_logs::Where;
use crate::lanes::{Lane, Lanes, Outline};
use crate::logs::android;
use crate::machines::OfFile;
use crate::model::Model;
use crate::order::{Each, Order, QueueId};
use crate::packages::PACKAGES_LIST;
use crate::profiles::streaming;
use crate::sequence::{Generation, Sequence, Verdict};
use crate::stats::Stat;
use crate::trace_files::File;
use crate::trace_stats::Losses;
use crate::track_event::descriptor::DEFAULT_UUID;
use crate::translation::TRANSLATION_TABLE;
use crate::wire;

/// `TracePacket.track_event_range_of_interest`, which the messages here do without.
const RANGE_OF_INTEREST: u32 = 90;

/// Events between two questions whether to go on: some milliseconds of work.
const EVENTS_PER_QUESTION: usize = 16 << 10;

/// Makes tables of packets.
#[derive(Debug, Default)]
pub struct Import {
    model: Model,
    order: Order,
    sequences: Sequences,
    /// Where packets with nothing but a usual event go.
    lanes: Lanes,
    /// The latest time of each machine's packets.
    latest: Vec<i64>,
    /// Packets on clocks that no snapshot had shown when they came.
    deferred: Vec<(Box<[u8]>, Place)>,
    /// Of an archive: how many files there were so far. Their sequences may have the same numbers, which mean others.
    files_so_far: u32,
    /// Somebody packs blocks of the tables.
    has_helper: bool,
    /// The trace, if it can be read again.
    again: Option<Arc<dyn Again>>,
}

/// Sequences by machine and number.
#[derive(Debug, Default)]
struct Sequences {
    all: Vec<Sequence>,
    numbers: HashMap<(MachineId, u32), usize, RandomState>,
    recent: Recent<(MachineId, u32), usize>,
}

/// How it goes on.
#[derive(Clone, Debug)]
pub enum Next {
    /// As before.
    GoOn,
    /// Memory is short: see [`Import::move_to`].
    GoOnIn(Arc<dyn Store>),
    /// Not at all.
    Stop,
}

/// Applies what waits, and asks now and then whether to go on.
struct Settling<'a> {
    model: &'a mut Model,
    next: &'a mut dyn FnMut(usize, usize) -> Next,
    done: usize,
    all: usize,
    /// Events up to the next question.
    left: usize,
    is_going_on: bool,
}

impl Settling<'_> {
    #[cold]
    #[inline(never)]
    fn ask(&mut self) {
        self.left = EVENTS_PER_QUESTION;
        if self.is_going_on {
            match (self.next)(self.done, self.all) {
                Next::GoOn => {}
                Next::GoOnIn(store) => self.model.move_to(&store),
                Next::Stop => self.is_going_on = false,
            }
        }
        self.done += EVENTS_PER_QUESTION;
    }
}

impl Each for &mut Settling<'_> {
    #[inline(always)]
    fn take(&mut self, ts: i64, event: Event) {
        if self.left == 0 {
            self.ask();
        }
        self.left -= 1;
        if self.is_going_on {
            self.model.apply(ts, event);
        }
    }
}

/// A packet that has arrived.
struct Arrived<'a> {
    head: &'a Head<'a>,
    machine: MachineId,
    place: Place,
    /// All of it, to be put off if its clock is not known; without it, it is given up then.
    packet: Option<&'a [u8]>,
    /// What somebody has seen in it.
    looked: Option<&'a BundleOutline>,
}

impl Import {
    /// Configs have their text in the metadata, which `printer` makes.
    #[must_use]
    pub fn with_config_printer(mut self, printer: Printer) -> Self {
        self.model.config_printer = Some(printer);
        self
    }

    /// Events of programs before the range of interest, if the trace says one, are left out, and counted.
    #[must_use]
    pub fn crop_track_events(mut self) -> Self {
        self.model.crop.is_wanted = true;
        self
    }

    /// The file is over: what is known of it.
    pub fn end_file(&mut self, file: File<'_>) {
        self.model.end_file(file);
    }

    /// Packets are kept that rely on what their sequence had said before some of it was lost. Upstream leaves them out, up to where the
    /// sequence begins anew.
    ///
    /// Names are those that the sequence gave the same numbers before the loss, or `unknown(NUMBER)`. Such slices have the argument
    /// `ferretto.after_loss`, and the counter `ferretto_packets_kept_after_loss` says how many packets there were. Where a clock says
    /// differences, those that were lost are missing, so that times are too early. A sequence whose defaults were never seen is left out
    /// all the same: by which clock its times are nobody knows.
    #[must_use]
    pub fn keep_lost(mut self) -> Self {
        self.model.keeps_lost = true;
        self
    }

    /// What becomes of the arguments of rows of `ftrace_event`: they are most of what the kernel's events cost, in time and memory.
    /// [`RowArgs::Written`] unless said.
    #[must_use]
    pub fn ftrace_args(mut self, row_args: RowArgs) -> Self {
        self.model.raw.row_args = row_args;
        self
    }

    /// What is known so far, for files of other formats in one archive with packets.
    pub fn model(&mut self) -> &mut Model {
        &mut self.model
    }

    /// A machine that the manifest of an archive names; nothing if there are too many. They come before all files.
    pub fn name_machine(&mut self, name: &str) -> Option<MachineId> {
        let known = self.model.tables.machine.len();
        let machine = self.model.machines.named(name, &mut self.model.tables)?;
        self.model.begin_machines(known, &mut self.order);
        Some(machine)
    }

    /// The machine of files of which a manifest says nothing.
    pub fn host(&mut self) -> MachineId {
        let model = &mut self.model;
        match model.machines.are_named() {
            true => {
                model.machines.begin_file(OfFile::AsTheySay);
                model.machine_of_packet(0, false, &mut self.order)
            }
            false => MachineId(0),
        }
    }

    /// Rows that come are of a file of another format, of that machine; of the service's own if it is none, or of the first if no manifest
    /// has named any.
    pub fn next_other_file(
        &mut self,
        file: TraceFileId,
        machine: Option<MachineId>,
        times: Option<FileTimes>,
    ) {
        self.model.file_machine = machine.unwrap_or_else(|| self.host());
        self.model.begin_file_of_archive(file, times);
    }

    /// Packets that come are of another file of the same archive, of which its manifest says this.
    pub fn next_file(&mut self, file: TraceFileId, machines: OfFile, times: Option<FileTimes>) {
        self.take_deferred();
        self.again = None;
        self.model.file = file;
        self.model.file_times = times;
        self.model.machines.begin_file(machines);
        self.lanes.clear();
        self.files_so_far += 1;
    }

    /// What waits becomes rows, but for what comes later. Asks `next` as [`finish_while`](Self::finish_while) does; false if it said no.
    pub fn settle(&mut self, mut next: impl FnMut(usize, usize) -> Next) -> bool {
        self.take_deferred();
        let Self { model, order, .. } = self;
        let mut settling =
            Settling { model, next: &mut next, done: 0, all: order.len(), left: 0, is_going_on: true };
        let late = order.drain_into(&mut settling);
        let is_going_on = settling.is_going_on;
        model.stats.add(Stat::SorterPushEventOutOfOrder, None, late);
        is_going_on
    }

    /// Takes the next packet of the file.
    pub fn push(&mut self, packet: &[u8], place: Place) {
        self.push_outlined(packet, Outline::of(packet), place);
    }

    /// The same, where somebody has looked into the packet already: `outline` is what [`Outline::of`] says of it.
    #[inline(never)]
    pub fn push_outlined(&mut self, packet: &[u8], outline: Option<Outline>, place: Place) {
        if outline.and_then(|outline| self.take_usual(packet, outline)).is_none() {
            self.take(packet, place, false, None);
        }
    }

    /// The same for a packet with a bundle of the kernel's events, of which `outline` is what [`BundleOutline::of`] says.
    pub fn push_bundle(&mut self, packet: &[u8], outline: &BundleOutline, place: Place) {
        self.take(packet, place, false, Some(outline));
    }

    /// Memory is short: what waits, and most of the rows, lie in the store from now on. Called again, also what has come since.
    pub fn move_to(&mut self, store: &Arc<dyn Store>) {
        self.order.move_to(store);
        self.model.move_to(store);
    }

    /// The trace can be read again, in the places that packets come with: what waits need not lie in memory.
    pub fn set_again(&mut self, again: Arc<dyn Again>) {
        self.again = Some(again);
    }

    /// Somebody packs and unpacks blocks from now on: see [`Helper`]. For queues of events that come up later, this is called again. Tables
    /// keep it until [`Tables::set_helper`] says otherwise.
    pub fn set_helper(&mut self, helper: &Arc<dyn Helper>) {
        self.order.set_helper(helper);
        if !std::mem::replace(&mut self.has_helper, true) {
            self.model.tables.set_helper(Some(helper));
            self.model.args.set_helper(helper, &mut self.model.tables);
            self.model.thread_states.set_helper(helper, &mut self.model.tables);
        }
    }

    /// Gives the tables: nothing more comes.
    #[must_use]
    pub fn finish(self) -> Tables {
        self.finish_while(|_, _| Next::GoOn).unwrap_or_default()
    }

    /// As [`finish`](Self::finish), but asks `next` now and then, with how many events of how many have become rows, whether to go on. If
    /// not, there are no tables.
    #[must_use]
    pub fn finish_while(self, next: impl FnMut(usize, usize) -> Next) -> Option<Tables> {
        self.apply_all(next).map(Model::finish)
    }

    /// Gives the tables, and what makes arguments of the rows of `ftrace_event` if [`RowArgs::Kept`] was said.
    #[must_use]
    pub fn finish_with_args(self) -> (Tables, KeptArgs) {
        self.apply_all(|_, _| Next::GoOn).map(Model::finish_with_args).unwrap_or_default()
    }

    fn apply_all(mut self, next: impl FnMut(usize, usize) -> Next) -> Option<Model> {
        self.settle(next).then_some(self.model)
    }

    fn take_deferred(&mut self) {
        for (packet, place) in std::mem::take(&mut self.deferred) {
            self.take(&packet, place, true, None);
        }
    }

    /// Takes a packet that has nothing but a usual event, of a sequence whose last packet was like that: as [`take`](Self::take) does, in one
    /// go. Nothing if it is not such a packet; then nothing has changed.
    #[inline(always)]
    fn take_usual(&mut self, packet: &[u8], outline: Outline) -> Option<()> {
        let Lane { number, writer, default_uuid, clock, .. } = self.lanes.get(outline.sequence_id)?;
        let model = &mut self.model;
        let sequence = self.sequences.all.get_mut(number)?;
        let event = model.read_usual_event(outline.event(packet)?, writer, default_uuid)?;
        let timestamp = outline.timestamp as i64;
        let ts = match clock {
            Some(clock) => model.clocks.to_trace_time_of(clock, timestamp)?,
            None => timestamp,
        };
        if outline.needs_state {
            sequence.losses.needed = sequence.losses.needed.saturating_add(1);
        }
        let latest = latest_of(&mut self.latest, MachineId(0));
        *latest = ts.max(*latest);
        model.stats.set_machine(MachineId(0));
        if let Some(event) = model.usual_event(ts, event, writer, sequence) {
            self.order.push_track(MachineId(0), ts, event);
        }
        Some(())
    }

    fn take(&mut self, packet: &[u8], place: Place, is_deferred: bool, looked: Option<&BundleOutline>) {
        let model = &mut self.model;
        let Ok(mut head) = Head::of(packet) else {
            return model.log(Stat::TokenizerSkippedPackets, Some(Where::At(place)), &[]);
        };
        let raw_sequence_id = head.sequence_id;
        self.lanes.leave(&head);
        head.sequence_id = sequence_of_file(head.sequence_id, self.files_so_far);
        let is_marker = matches!(head.data, Some((kind::SYNCHRONIZATION_MARKER, _)));
        let machine = model.machine_of_packet(head.machine_id, is_marker, &mut self.order);
        model.stats.set_machine(machine);
        let number = self.sequences.number(machine, head.sequence_id);
        let packet = (!is_deferred).then_some(packet);
        let arrived = Arrived { head: &head, machine, place, packet, looked };
        // What was put off has told its state when it came.
        if !is_deferred && self.arrive(&arrived, number) == Taken::Wholly {
            return;
        }
        self.wait(&arrived, number);
        if matches!(head.data, Some((kind::TRACK_EVENT, _)))
            && machine == MachineId(0)
            && head.machine_id == 0
        {
            self.enter_lane(raw_sequence_id, &head, number);
        }
    }

    /// The next packet of a sequence may be a usual one.
    fn enter_lane(&mut self, raw_sequence_id: u32, head: &Head<'_>, number: usize) {
        let Some(sequence) = self.sequences.all.get(number) else { return };
        let generation = sequence.generation();
        let Some(writer) = generation.writer.get().filter(|writer| !writer.is_last()) else { return };
        let has_time = head.timestamp.is_some();
        let is_pinned = self.model.file_times.is_some();
        if head.sequence_id == 0 || is_pinned || !has_time || !sequence.is_valid() || generation.is_doubtful {
            return;
        }
        let said = generation.defaults().clock_id.filter(|id| *id != 0);
        let clocks = &self.model.clocks;
        let clock = said.or_else(|| clocks.default_of(Machine(0)));
        let clock = clock.map(|id| Clock::new(id, head.sequence_id, Machine(0)));
        let clock = clock.filter(|clock| *clock != clocks.trace_clock());
        let number_of_clock = clock.and_then(|clock| clocks.number_of(clock));
        if clock.is_some() && number_of_clock.is_none() {
            return;
        }
        let default_uuid = generation.defaults().track_uuid.unwrap_or(DEFAULT_UUID);
        self.lanes.enter(Lane {
            sequence_id: raw_sequence_id,
            number,
            writer,
            default_uuid,
            clock: number_of_clock,
        });
    }

    /// Takes note of a packet, and reads what is about the trace as a whole.
    fn arrive(&mut self, arrived: &Arrived<'_>, number: usize) -> Taken {
        let Arrived { head, machine, place, .. } = arrived;
        let Some(sequence) = self.sequences.all.get_mut(number) else { return Taken::Wholly };
        let model = &mut self.model;
        if head.previous_packet_dropped != 0 && sequence.has_begun && head.sequence_id != 0 {
            sequence.losses.count(head.previous_packet_dropped);
        }
        if let Some((kind::TRACE_ATTRIBUTES, data)) = head.data {
            model.read_attributes(*machine, data);
        }
        sequence.arrive(head, model, *place);
        match head.data {
            Some((kind::CLOCK_SNAPSHOT, data)) => {
                model.read_clock_snapshot(*machine, head.sequence_id, data);
                return Taken::Wholly;
            }
            Some((kind::TRACE_STATS, data)) => {
                let sequences = &self.sequences;
                let files_so_far = self.files_so_far;
                model.read_trace_stats(data, |sequence| {
                    sequences.losses(*machine, sequence_of_file(sequence, files_so_far))
                });
            }
            Some((kind::REMOTE_CLOCK_SYNC, data)) => {
                model.read_remote_clock_sync(*machine, data);
                return Taken::Wholly;
            }
            Some((kind::SERVICE_EVENT, data)) => {
                let value = head.timestamp.unwrap_or(0) as i64;
                let clock = head.clock_id.filter(|id| *id != 0).unwrap_or(BOOTTIME);
                let ts =
                    model.to_trace_time(Clock::of_machine(clock, Machine(machine.0)), value).unwrap_or(value);
                model.read_service_event(ts, *machine, data);
                self.kernel(arrived).service_event(data, ts);
                self.take_turns(data);
                return Taken::Wholly;
            }
            Some((kind::EXTENSION_DESCRIPTOR, data)) => {
                model.pool.add_extensions(data);
                return Taken::Wholly;
            }
            _ => {}
        }
        let Some(sequence) = self.sequences.all.get_mut(number) else { return Taken::Wholly };
        if sequence.judge(head, model, *place) == Verdict::Unreadable {
            return Taken::Wholly;
        }
        if let Some((kind::TRACE_CONFIG, data)) = head.data {
            model.read_config(*machine, data);
        }
        Taken::UpToItsData
    }

    /// Gives a packet its time, and puts it where it waits for its turn.
    fn wait(&mut self, arrived: &Arrived<'_>, sequence_number: usize) {
        let Some(sequence) = self.sequences.all.get_mut(sequence_number) else { return };
        let Some(ts) = self.model.time_of(arrived, sequence, &mut self.order, &mut self.deferred) else {
            return;
        };
        let machine = arrived.machine;
        let latest = latest_of(&mut self.latest, machine);
        let ts = ts.unwrap_or_else(|| self.order.max_ts().max(*latest));
        *latest = ts.max(*latest);
        let Some((number, data)) = arrived.head.data else { return };
        let model = &mut self.model;
        match number {
            kind::TRACK_EVENT => {
                let ts = arrived.head.timestamp.map(|_| ts);
                let event = model.arrive_track_event(data, arrived.head, ts, sequence, machine);
                match event {
                    Some((ts, _)) if ts < 0 => model.stats.count(Stat::TraceSorterNegativeTimestampDropped),
                    Some((ts, event)) => self.order.push_track(machine, ts, event),
                    None => {}
                }
            }
            kind::TRACK_DESCRIPTOR
                if !model.arrive_track_descriptor(data, arrived.head, sequence, machine) => {}
            kind::THREAD_DESCRIPTOR if !model.arrive_thread_descriptor(data, arrived.head, sequence) => {}
            kind::SYSTEM_INFO => {
                model.read_system_info(machine, data);
                self.kernel(arrived).system_info(data);
            }
            kind::FTRACE_EVENTS => {
                let state = sequence.generation().clone();
                let lies = self.again.as_ref().zip(arrived.packet);
                let lies = lies.and_then(|(again, packet)| Lies::of(again, arrived.place, packet, data));
                Arrival { lies, ..self.kernel(arrived) }.bundle(data, &state, arrived.looked);
            }
            kind::FTRACE_STATS => self.kernel(arrived).statistics(data),
            kind::CPU_INFO => model.read_cpu_info(machine, data),
            kind::INTERRUPT_INFO => model.read_interrupt_info(machine, data),
            kind::TRACE_UUID => model.read_uuid(data),
            chrome::kind::METADATA => model.read_chrome_metadata(machine, data),
            kind::STREAMING_PROFILE_PACKET => self.streaming_samples(arrived, sequence_number, data),
            PACKAGES_LIST => model.read_packages(data),
            RANGE_OF_INTEREST => model.read_range_of_interest(machine, data),
            TRANSLATION_TABLE => model.read_translation_table(data),
            android::ANDROID_LOG => {
                let state = sequence.generation().clone();
                self.android_log(arrived, &state, data);
            }
            kind::TRACE_STATS | kind::TRACE_ATTRIBUTES | kind::SYNCHRONIZATION_MARKER => {}
            _ => {
                let packet = arrived.whole(number, data, sequence.generation().clone());
                self.push_event(QueueId::packets(machine), ts, packet);
            }
        }
    }

    /// After a flush, and a reading of the buffers, events have their turn.
    fn take_turns(&mut self, service_event: &[u8]) {
        let says = |number| wire::number(service_event, number).is_some_and(|is_it| is_it != 0);
        if says(tracing_service_event::ALL_DATA_SOURCES_FLUSHED) {
            self.order.flushed();
        }
        if says(tracing_service_event::READ_TRACING_BUFFERS_COMPLETED) {
            let model = &mut self.model;
            let late = self.order.buffers_read(|ts, event| model.apply(ts, event));
            model.stats.add(Stat::SorterPushEventOutOfOrder, None, late);
        }
    }

    /// Samples of Chrome's own profiler have times that count on from those of their sequence's events.
    fn streaming_samples(&mut self, arrived: &Arrived<'_>, number: usize, data: &[u8]) {
        let Some(sequence) = self.sequences.all.get_mut(number) else { return };
        let (model, machine) = (&mut self.model, arrived.machine);
        let (samples, end) = streaming::read(data, |delta| sequence.running.ts_after(delta));
        let state = sequence.generation().clone();
        if let Err(stat) = end {
            model.stats.count(stat);
        }
        let Some((begin, samples)) = samples else { return };
        let clock = Clock::of_machine(MONOTONIC, Machine(machine.0));
        let begin = model.to_trace_time(clock, begin).unwrap_or(begin);
        for (since, sample) in samples {
            let event = arrived.whole(kind::STREAMING_PROFILE_PACKET, &sample, state.clone());
            self.push_event(QueueId::packets(machine), begin.saturating_add(since), event);
        }
    }

    fn kernel(&mut self, arrived: &Arrived<'_>) -> Arrival<'_> {
        let (machine, sequence_id) = (arrived.machine, arrived.head.sequence_id);
        Arrival { model: &mut self.model, order: &mut self.order, machine, sequence_id, lies: None }
    }

    /// Lines of Android's log have times of their own.
    fn android_log(&mut self, arrived: &Arrived<'_>, state: &Rc<Generation>, message: &[u8]) {
        let machine = arrived.machine;
        for line in wire::all_bytes(message, android::EVENTS) {
            let value = wire::int(line, android::TIMESTAMP).unwrap_or(0);
            let clock = Clock::of_machine(REALTIME, Machine(machine.0));
            match self.model.to_trace_time(clock, value) {
                Ok(ts) => {
                    let packet = arrived.whole(android::ANDROID_LOG, line, state.clone());
                    self.push_event(QueueId::packets(machine), ts, packet);
                }
                Err(unknown) => self.model.log_unknown(unknown, clock, value, None),
            }
        }
        if let Some(stats) = wire::bytes(message, android::STATS) {
            self.model.read_android_log_stats(stats);
        }
    }

    #[inline]
    fn push_event(&mut self, queue: QueueId, ts: i64, event: Event) {
        if ts < 0 {
            return self.model.stats.count(Stat::TraceSorterNegativeTimestampDropped);
        }
        self.order.push(queue, ts, event);
    }
}

/// How much of a packet was taken when it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// All of it.
    Wholly,
    /// Its data waits for its turn.
    UpToItsData,
}

impl Arrived<'_> {
    fn whole(&self, kind: u32, data: &[u8], state: Rc<Generation>) -> Event {
        let origin = Origin {
            machine: self.machine,
            sequence_id: self.head.sequence_id,
            trusted_pid: self.head.trusted_pid,
            trusted_uid: self.head.trusted_uid,
            place: self.place,
        };
        Event::Packet(Box::new(WholePacket { kind, data: data.into(), origin, state }))
    }
}

impl Model {
    /// A packet's time on the trace's clock: `Some(None)` if it has none, nothing if it cannot be told. Then the packet is put off or given up.
    #[inline]
    fn time_of(
        &mut self,
        arrived: &Arrived<'_>,
        sequence: &Sequence,
        order: &mut Order,
        deferred: &mut Vec<(Box<[u8]>, Place)>,
    ) -> Option<Option<i64>> {
        let Arrived { head, machine, place, packet, .. } = arrived;
        let Some(timestamp) = head.timestamp else { return Some(None) };
        let value = timestamp as i64;
        let said = head.clock_id.filter(|id| *id != 0);
        let said = said.or(sequence.generation().defaults().clock_id.filter(|id| *id != 0));
        if said.is_none() && self.file_times.is_some() {
            return Some(Some(self.time_of_file(0, value)));
        }
        let Some(id) = said.or_else(|| self.clocks.default_of(Machine(machine.0))) else {
            return Some(Some(value));
        };
        let clock = Clock::new(id, head.sequence_id, Machine(machine.0));
        match self.to_trace_time(clock, value) {
            Ok(ts) => Some(Some(ts)),
            Err(unknown) => {
                match packet {
                    Some(packet) if order.wait_for_end() => deferred.push(((*packet).into(), *place)),
                    Some(_) => self.give_up(None, clock, value, *place),
                    None => self.give_up(Some(unknown), clock, value, *place),
                }
                None
            }
        }
    }

    #[cold]
    fn give_up(&mut self, unknown: Option<Unknown>, clock: Clock, value: i64, place: Place) {
        if let Some(unknown) = unknown {
            self.log_unknown(unknown, clock, value, Some(Where::At(place)));
        }
        self.log(Stat::ClockSyncFailureUndeferrablePacketLoss, Some(Where::At(place)), &[]);
    }

    #[inline]
    fn machine_of_packet(&mut self, raw_id: u32, is_marker: bool, order: &mut Order) -> MachineId {
        let known = self.tables.machine.len();
        let machine = self.machines.of_packet(raw_id, is_marker, &mut self.tables);
        if known < self.tables.machine.len() {
            self.begin_machines(known, order);
        }
        machine
    }

    #[cold]
    fn begin_machines(&mut self, known: usize, order: &mut Order) {
        for new in known..self.tables.machine.len() {
            self.begin_machine(MachineId(u32::try_from(new).unwrap_or(u32::MAX)), order);
        }
    }

    #[cold]
    fn begin_machine(&mut self, machine: MachineId, order: &mut Order) {
        order.open(QueueId::packets(machine));
        order.open(QueueId::track_events(machine));
        self.processes(machine);
        match machine {
            MachineId(0) => self.begin_file(),
            _ => self.clocks.add_machine(Machine(machine.0)),
        }
    }
}

impl Sequences {
    #[inline]
    fn number(&mut self, machine: MachineId, sequence_id: u32) -> usize {
        let key = (machine, sequence_id);
        match self.recent.get(u64::from(sequence_id), key) {
            Some(number) => number,
            None => {
                let next = self.all.len();
                let number = *self.numbers.entry(key).or_insert(next);
                if number == next {
                    self.all.push(Sequence::default());
                }
                self.recent.put(u64::from(sequence_id), key, number);
                number
            }
        }
    }

    fn losses(&self, machine: MachineId, sequence_id: u32) -> Option<Losses> {
        let number = self.numbers.get(&(machine, sequence_id))?;
        self.all.get(*number).map(|sequence| sequence.losses)
    }
}

/// A number of its own for each sequence of each file of an archive, as far as numbers go: they are scattered. 0 is none.
fn sequence_of_file(sequence_id: u32, files_so_far: u32) -> u32 {
    match (sequence_id, files_so_far) {
        (0, _) | (_, 0) => sequence_id,
        _ => sequence_id.wrapping_add((files_so_far - 1).wrapping_mul(0x9e37_79b1)).max(1),
    }
}

fn latest_of(latest: &mut Vec<i64>, machine: MachineId) -> &mut i64 {
    if latest.len() <= machine.index() {
        latest.resize(machine.index() + 1, 0);
    }
    &mut latest[machine.index()]
}
