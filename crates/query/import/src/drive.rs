//! Drives the reading of a file.
//!
//! ```text
//! reader's thread: file ─▶ unpack ─▶ cut, look in ─▶ parcels ──▶ caller's thread: rules ─▶ tables
//!                   └────▶ helper's thread: hash; states of threads, lists of arguments, blocks ◀───┘
//! ```
//!
//! Memory: beside the tables and what waits to become rows, `PARCELS` parcels of at most `PARCEL_BYTES` and one packet. The bound is looked at
//! for each parcel, and while events become rows. When half of it is used, what waits and most of the rows go into a temporary file. What
//! stays are the last rows of each table, the different texts, and the different lists of arguments.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use ferretto_trace_formats::recognize::{Format, recognize};
use ferretto_trace_model::config::Printer;
use ferretto_trace_model::import::Next;
use ferretto_trace_model::trace_files;
use ferretto_trace_model::{BundleOutline, Import, Outline};
use ferretto_trace_read::container::{Container, FileBytes, unpacked};
use ferretto_trace_read::{End, Place, Reader};
use ferretto_trace_tables::{Helper, Tables};

use crate::Error;
use crate::archive::{self, Member};
use crate::jobs::{Ending, Jobs};
use crate::memory::{Bound, resident_bytes};
use crate::others;
use crate::plain::Plain;
use crate::source::{Shared, SourceFile, Tap};

/// Bytes of packets that go from thread to thread at once: a fraction of a millisecond's work.
const PARCEL_BYTES: usize = 256 << 10;
/// Packets that do so at most: what is known of each takes as much again as a small one.
const PARCEL_PACKETS: usize = 8 << 10;
/// Bytes of a trace that are looked at, to say whether it is one. Few: what is packed may break behind them.
const HEAD_BYTES: usize = 1024;
/// Parcels that may wait.
const PARCELS: usize = 8;

/// How to read.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of memory that the process may have.
    pub memory_bytes: u64,
    /// 1 does everything on the caller's thread. The rows are the same.
    pub threads: usize,
    /// Makes the text of a config, which the metadata have then.
    pub config_printer: Option<Printer>,
    /// Leaves out events of programs before the range of interest, if a trace says one.
    pub crop_track_events: bool,
    /// Makes the hash of the file, which otherwise is nobody's need.
    pub sha256: bool,
    /// The file again, if it has one that is read from its first byte on and stays as it is: unless it is packed, events of the kernel wait for their
    /// turn where they lie in it, and not in memory.
    pub file: Option<Arc<File>>,
}

impl Default for Options {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            memory_bytes: crate::memory::default_limit_bytes(),
            threads,
            config_printer: None,
            crop_track_events: false,
            sha256: false,
            file: None,
        }
    }
}

impl Options {
    fn rules(&self) -> Import {
        let rules = match self.config_printer {
            Some(printer) => Import::default().with_config_printer(printer),
            None => Import::default(),
        };
        if self.crop_track_events { rules.crop_track_events() } else { rules }
    }
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So many bytes of the file were read.
    Reading {
        /// As they are in the file.
        bytes: u64,
    },
    /// So many events have become rows.
    Rows {
        /// Of these.
        done: usize,
        /// Of all.
        all: usize,
    },
}

/// What reading a file has shown of it, beside its tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The file.
    pub source: SourceFile,
    /// How its packets ended.
    pub end: End,
    /// If it is an archive: the files in it.
    pub members: Vec<Member>,
}

/// Reads a trace through to its end. `watch` hears how far it is, and says whether to go on.
///
/// # Errors
///
/// If its bytes cannot be had, are no trace, or become more than memory may hold; or if `watch` says no.
pub fn import(
    file: impl Read + Send,
    options: &Options,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<(Tables, Imported), Error> {
    let mut file = file;
    let head = others::peek(&mut file)?;
    if let Some(format) = archive::format_of(&head) {
        return archive::import(format, others::whole(head, file), options, watch);
    }
    if recognize(&head) == Some(Format::Manifest) {
        return archive::import_manifest(others::whole(head, file), options, watch);
    }
    if let Some(format) = others::format_of(&head) {
        return others::import(format, others::whole(head, file), options, watch);
    }
    let is_plain = Container::of(&head) == Container::None;
    let plain = options.file.clone().filter(|_| is_plain).map(|file| Arc::new(Plain::new(file)));
    let file = others::whole(head, file);
    if options.threads <= 1 {
        return make((file, plain), options, None, watch);
    }
    let jobs = Arc::new(Jobs::default());
    std::thread::scope(|scope| {
        let _ending = Ending(jobs.clone());
        scope.spawn(|| jobs.work());
        make((file, plain), options, Some(jobs.clone()), watch)
    })
}

/// Makes tables, with a helper on two threads.
fn make(
    (file, plain): (impl Read + Send, Option<Arc<Plain>>),
    options: &Options,
    helper: Option<Arc<dyn Helper>>,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<(Tables, Imported), Error> {
    let shared = Shared::default();
    let mut fold = Fold::new(options, watch);
    fold.helper = helper;
    if let Some(plain) = &plain {
        fold.import.set_again(plain.clone());
    }
    let imported = match fold.helper {
        None => {
            let tap = Tap::new(file, &shared, options, None);
            read(tap, &mut |packet, place| fold.take(packet, place, &shared))
        }
        Some(_) => {
            let tap = Tap::new(file, &shared, options, fold.helper.clone());
            on_two_threads(tap, &shared, &mut fold)
        }
    };
    // The reader only says that it was stopped.
    if let Some(wrong) = fold.wrong {
        return Err(wrong);
    }
    let imported = imported?;
    let SourceFile { bytes, head, .. } = &imported.source;
    fold.import.end_file(trace_files::File { name: None, bytes: *bytes, head });
    let tables = fold.finish()?;
    plain.map_or(Ok(()), |plain| plain.check())?;
    Ok((tables, imported))
}

/// Reads, hashes, unpacks and cuts.
fn read<R: Read>(mut tap: Tap<'_, R>, each: &mut dyn FnMut(&[u8], Place)) -> Result<Imported, Error> {
    let file_bytes = FileBytes::default();
    let mut trace = unpacked(file_bytes.of(&mut tap))?;
    let mut head = Vec::new();
    trace.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    others::must_be_own(&head)?;
    let end = Reader::new(io::Cursor::new(head).chain(trace)).within(file_bytes).for_each(each)?;
    if end.packets == 0 && end.torn_at != Some(0) {
        return Err(Error::NotATrace("it has no packet"));
    }
    Ok(Imported { source: tap.finish()?, end, members: Vec::new() })
}

/// Packets on their way.
#[derive(Default)]
struct Parcel {
    bytes: Vec<u8>,
    packets: Vec<InParcel>,
    /// Whoever takes it looks into its packets.
    is_plain: bool,
}

/// A packet in a parcel.
struct InParcel {
    /// Where it ends in the parcel's bytes.
    end: usize,
    /// Where it is in the file.
    place: Place,
    looked: Looked,
}

/// What was seen in a packet.
enum Looked {
    Nothing,
    Event(Outline),
    Bundle(Box<BundleOutline>),
}

impl Looked {
    #[inline]
    fn into(packet: &[u8]) -> Self {
        if let Some(outline) = Outline::of(packet) {
            return Self::Event(outline);
        }
        BundleOutline::of(packet).map_or(Self::Nothing, |outline| Self::Bundle(Box::new(outline)))
    }
}

impl Parcel {
    fn push(&mut self, packet: &[u8], place: Place) {
        self.bytes.extend_from_slice(packet);
        let looked = if self.is_plain { Looked::Nothing } else { Looked::into(packet) };
        self.packets.push(InParcel { end: self.bytes.len(), place, looked });
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= PARCEL_BYTES || self.packets.len() >= PARCEL_PACKETS
    }

    /// Gives its packets to the rules.
    fn empty(&mut self, fold: &mut Fold<'_>, shared: &Shared) {
        let count = self.packets.len();
        let mut start = 0;
        for InParcel { end, place, looked } in self.packets.drain(..) {
            let packet = self.bytes.get(start..end).unwrap_or_default();
            let looked = if self.is_plain { Looked::into(packet) } else { looked };
            fold.push(packet, looked, place);
            start = end;
        }
        fold.count(self.bytes.len(), count, shared);
        self.bytes.clear();
    }
}

fn on_two_threads<R: Read + Send>(
    tap: Tap<'_, R>,
    shared: &Shared,
    fold: &mut Fold<'_>,
) -> Result<Imported, Error> {
    let (send, parcels) = sync_channel::<Parcel>(PARCELS);
    // Empty ones go back, with the memory that they have.
    let (back, empty) = sync_channel::<Parcel>(PARCELS + 2);
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut parcel = Parcel::default();
            let imported = read(tap, &mut |packet, place| {
                parcel.push(packet, place);
                if parcel.is_full() {
                    hand_over(&mut parcel, shared, &send, &empty);
                }
            });
            hand_over(&mut parcel, shared, &send, &empty);
            imported
        });
        for mut parcel in parcels {
            parcel.empty(fold, shared);
            shared.parcels.fetch_sub(1, Ordering::Relaxed);
            // A packet may have been huge.
            if parcel.bytes.capacity() <= 2 * PARCEL_BYTES {
                let _ = back.try_send(parcel);
            }
        }
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn hand_over(parcel: &mut Parcel, shared: &Shared, to: &SyncSender<Parcel>, empty: &Receiver<Parcel>) {
    let mut next = empty.try_recv().unwrap_or_default();
    // Who has waited for this one may as well look into the next.
    next.is_plain = shared.parcels.fetch_add(1, Ordering::Relaxed) == 0;
    // Who does not take it has stopped, and has told the file.
    let _ = to.send(std::mem::replace(parcel, next));
}

/// The rules, their bound, and who watches.
pub(crate) struct Fold<'a> {
    pub(crate) import: Import,
    pub(crate) bound: Bound,
    pub(crate) watch: &'a mut dyn FnMut(Progress) -> bool,
    /// Why it does not go on.
    wrong: Option<Error>,
    /// Who packs and unpacks.
    helper: Option<Arc<dyn Helper>>,
    /// Bytes of packets since the last look.
    since: usize,
}

impl<'a> Fold<'a> {
    pub(crate) fn new(options: &Options, watch: &'a mut dyn FnMut(Progress) -> bool) -> Self {
        Self {
            import: options.rules(),
            bound: Bound::new(options.memory_bytes),
            watch,
            wrong: None,
            helper: None,
            since: 0,
        }
    }

    pub(crate) fn take(&mut self, packet: &[u8], place: Place, shared: &Shared) {
        let looked = Outline::of(packet).map_or(Looked::Nothing, Looked::Event);
        self.push(packet, looked, place);
        self.count(packet.len(), 1, shared);
    }

    /// Gives the rules a packet that somebody has looked into.
    #[inline]
    fn push(&mut self, packet: &[u8], looked: Looked, place: Place) {
        if self.wrong.is_some() {
            return;
        }
        match looked {
            Looked::Nothing => self.import.push_outlined(packet, None, place),
            Looked::Event(outline) => self.import.push_outlined(packet, Some(outline), place),
            Looked::Bundle(outline) => self.import.push_bundle(packet, &outline, place),
        }
    }

    /// Counts packets, and looks now and then whether to go on.
    #[inline]
    fn count(&mut self, bytes: usize, packets: usize, shared: &Shared) {
        // Also of packets of no bytes a number is held.
        self.since += bytes + packets * 16;
        if self.since >= PARCEL_BYTES && self.wrong.is_none() {
            self.look(shared);
        }
    }

    /// Looks whether to go on, and how.
    #[cold]
    #[inline(never)]
    fn look(&mut self, shared: &Shared) {
        self.since = 0;
        if let Some(helper) = &self.helper {
            self.import.set_helper(helper);
        }
        let progress = Progress::Reading { bytes: shared.bytes.load(Ordering::Relaxed) };
        match self.bound.look() {
            Ok(None) => {}
            Ok(Some(store)) => self.import.move_to(store),
            Err(error) => self.wrong = Some(error),
        }
        if self.wrong.is_none() && !(self.watch)(progress) {
            self.wrong = Some(Error::Stopped);
        }
        if self.wrong.is_some() {
            self.import = Import::default();
            shared.is_stopped.store(true, Ordering::Relaxed);
        }
    }

    /// What waits becomes rows.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong);
        }
        let Self { import, bound, watch, .. } = self;
        let mut wrong = None;
        let is_settled = import.settle(|done, all| {
            if !watch(Progress::Rows { done, all }) {
                return Next::Stop;
            }
            match bound.look() {
                Ok(None) => Next::GoOn,
                Ok(Some(store)) => Next::GoOnIn(store.clone()),
                Err(error) => {
                    wrong = Some(error);
                    Next::Stop
                }
            }
        });
        if is_settled { Ok(()) } else { Err(wrong.unwrap_or(Error::Stopped)) }
    }

    pub(crate) fn finish(mut self) -> Result<Tables, Error> {
        self.settle()?;
        let mut tables = self.import.finish();
        tables.set_helper(None);
        if tables.are_whole() { Ok(tables) } else { Err(Error::Spilled) }
    }
}

/// Whether to go on.
pub(crate) fn look(
    limit_bytes: u64,
    watch: &mut dyn FnMut(Progress) -> bool,
    progress: Progress,
) -> Result<(), Error> {
    if resident_bytes().is_some_and(|bytes| bytes > limit_bytes) {
        return Err(Error::Memory { limit_bytes });
    }
    if watch(progress) { Ok(()) } else { Err(Error::Stopped) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use ferretto_protos::fields::{
        ftrace_event, ftrace_event_bundle, sched_switch_ftrace_event as switch, trace_packet as field,
    };
    use ferretto_protozero::Message;
    use ferretto_trace_tables::{Table, Value};

    use super::*;

    /// A trace with `count` instants, out of order.
    fn trace(count: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut descriptor = Vec::new();
        Message::new(&mut descriptor).bytes(field::TRACK_DESCRIPTOR, b"\x08\x07\x12\x05track");
        Message::new(&mut bytes).bytes(1, &descriptor);
        for n in 0..count {
            let mut packet = Vec::new();
            let mut message = Message::new(&mut packet);
            message.varint(field::TIMESTAMP, 1000 + n * 7 % 500);
            message.varint(field::TRUSTED_PACKET_SEQUENCE_ID, n % 5 + 1);
            message.bytes(field::TRACK_EVENT, b"\x48\x03\x58\x07\xba\x01\x04name");
            drop(message);
            Message::new(&mut bytes).bytes(1, &packet);
        }
        bytes
    }

    /// Bundles of switches of two processors: most are in order, some are not, and some begin before the last one's end.
    fn bundles(count: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for n in 0..count {
            let mut packet = Vec::new();
            let mut message = Message::new(&mut packet);
            message.varint(field::TRUSTED_PACKET_SEQUENCE_ID, 1 + n % 2);
            let mut bundle = message.nested(field::FTRACE_EVENTS);
            bundle.varint(ftrace_event_bundle::CPU, n % 2);
            for event in 0..40 + n % 3 * 30 {
                let event = if n % 7 == 3 { 40 - event.min(39) } else { event };
                let mut written = bundle.nested(ftrace_event_bundle::EVENT);
                written.varint(ftrace_event::TIMESTAMP, 1_000_000 + n / 2 * 500 + event * 13);
                written.varint(ftrace_event::PID, 100 + event % 9);
                let mut switched = written.nested(ftrace_event::SCHED_SWITCH);
                switched.string(switch::PREV_COMM, &format!("thread {}", event % 9));
                switched.varint(switch::PREV_PID, 100 + event % 9);
                switched.varint(switch::PREV_PRIO, 120);
                switched.varint(switch::PREV_STATE, n % 3);
                switched.string(switch::NEXT_COMM, &format!("thread {}", (event + 1) % 9));
                switched.varint(switch::NEXT_PID, 100 + (event + 1) % 9);
                switched.varint(switch::NEXT_PRIO, 100 + n % 50);
            }
            drop(bundle);
            drop(message);
            Message::new(&mut bytes).bytes(1, &packet);
        }
        bytes
    }

    /// The rows of all tables.
    fn all_rows(tables: &Tables) -> Vec<String> {
        let of = |table: &dyn Table| {
            let columns = table.columns();
            let text = |value| match value {
                Value::Str(text) => format!("{} ", tables.strings.get(text)),
                value => format!("{value:?} "),
            };
            let cells = |row| columns.iter().map(move |it| text(it.data.get(row)));
            (0..table.len()).map(|row| cells(row).collect::<String>()).collect::<Vec<_>>()
        };
        tables.all().into_iter().flat_map(of).collect()
    }

    fn options(threads: usize) -> Options {
        Options { threads, ..Options::default() }
    }

    fn rows(tables: &Tables) -> Vec<String> {
        let slices = tables.slice.columns();
        (0..tables.slice.len())
            .map(|row| slices.iter().map(|column| format!("{:?} ", column.data.get(row))).collect())
            .collect()
    }

    #[test]
    fn rows_are_the_same_whatever_the_number_of_threads() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&trace(50_000)).unwrap();
        let file = gzip.finish().unwrap();
        let (one, of_one) = import(file.as_slice(), &options(1), &mut |_| true).unwrap();
        let (two, of_two) = import(file.as_slice(), &options(2), &mut |_| true).unwrap();
        assert_eq!(of_one, of_two);
        assert_eq!((of_one.end.packets, of_one.source.bytes), (50_001, file.len() as u64));
        assert_eq!(one.slice.len(), 50_000);
        assert_eq!(rows(&one), rows(&two));
    }

    #[test]
    fn so_are_those_of_bundles_wherever_their_events_wait() {
        let file = bundles(1500);
        let (one, _) = import(file.as_slice(), &options(1), &mut |_| true).unwrap();
        assert!(one.sched.len() > 90_000, "{}", one.sched.len());
        let (two, _) = import(file.as_slice(), &options(2), &mut |_| true).unwrap();
        assert!(all_rows(&one) == all_rows(&two));
        let used = vec![1u8; 200 << 20];
        for threads in [1, 2] {
            let memory_bytes = resident_bytes().unwrap() * 2 - (50 << 20);
            let options = Options { memory_bytes, threads, ..Options::default() };
            let (spilled, _) = import(file.as_slice(), &options, &mut |_| true).unwrap();
            assert!(spilled.are_elsewhere());
            assert!(all_rows(&one) == all_rows(&spilled));
        }
        drop(used);
    }

    #[test]
    fn so_are_they_where_events_wait_in_the_file_and_one_that_changes_is_an_error() {
        let bytes = bundles(1500);
        let (tables, _) = import(bytes.as_slice(), &options(1), &mut |_| true).unwrap();
        let rows = all_rows(&tables);
        let mut written = tempfile::tempfile().unwrap();
        written.write_all(&bytes).unwrap();
        let file = Arc::new(written);
        for threads in [1, 2] {
            let options = Options { file: Some(file.clone()), ..options(threads) };
            let (tables, _) = import(bytes.as_slice(), &options, &mut |_| true).unwrap();
            assert!(all_rows(&tables) == rows);
        }
        file.set_len(bytes.len() as u64 / 2).unwrap();
        for threads in [1, 2] {
            let options = Options { file: Some(file.clone()), ..options(threads) };
            let error = import(bytes.as_slice(), &options, &mut |_| true).unwrap_err();
            assert!(error.to_string().contains("changed meanwhile"), "{error}");
        }
        // One that is packed is not asked again.
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&bytes).unwrap();
        let gzip = gzip.finish().unwrap();
        let options = Options { file: Some(file), ..options(1) };
        let (unpacked, _) = import(gzip.as_slice(), &options, &mut |_| true).unwrap();
        assert_eq!(unpacked.sched.len(), tables.sched.len());
    }

    #[test]
    fn a_bound_on_memory_is_an_error_that_says_so() {
        for threads in [1, 2] {
            let options = Options { memory_bytes: 1_000_000, threads, ..Options::default() };
            let error = import(trace(100_000).as_slice(), &options, &mut |_| true).unwrap_err();
            assert!(matches!(error, Error::Memory { limit_bytes: 1_000_000 }), "{error}");
            assert!(error.to_string().contains("more memory than the 1 MB"), "{error}");
        }
    }

    #[test]
    fn what_memory_has_no_room_for_goes_into_a_file_and_rows_are_the_same() {
        let file = trace(150_000);
        let (in_memory, _) = import(file.as_slice(), &options(1), &mut |_| true).unwrap();
        assert!(!in_memory.are_elsewhere());
        // Of twice as much as is used, half is used from the beginning.
        let used = vec![1u8; 200 << 20];
        for threads in [1, 2] {
            let memory_bytes = resident_bytes().unwrap() * 2 - (50 << 20);
            let options = Options { memory_bytes, threads, ..Options::default() };
            let (spilled, _) = import(file.as_slice(), &options, &mut |_| true).unwrap();
            assert!(spilled.are_elsewhere() && spilled.are_whole());
            assert!(spilled.memory_bytes() < in_memory.memory_bytes());
            for (one, other) in in_memory.slice.columns().iter().zip(spilled.slice.columns()) {
                assert!((0..150_000).all(|row| one.data.get(row) == other.data.get(row)), "{}", one.name);
            }
        }
        drop(used);
    }

    #[test]
    fn who_watches_hears_how_far_it_is_and_may_stop_it() {
        for threads in [1, 2] {
            let mut heard = Vec::new();
            import(trace(50_000).as_slice(), &options(threads), &mut |progress| {
                heard.push(progress);
                true
            })
            .unwrap();
            assert!(matches!(heard.first(), Some(Progress::Reading { bytes }) if *bytes > 0), "{heard:?}");
            // The track has its turn, too.
            let last = heard.last();
            assert!(matches!(last, Some(Progress::Rows { done, all: 50_001 }) if *done > 40_000), "{last:?}");
            // A file without an end is not read on.
            let endless = Endless(trace(1000), 0);
            let error = import(endless, &options(threads), &mut |_| false).unwrap_err();
            assert!(matches!(error, Error::Stopped), "{error}");
        }
    }

    struct Endless(Vec<u8>, usize);

    impl Read for Endless {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let len = self.0.as_slice().get(self.1..).unwrap_or_default().read(to)?;
            self.1 = (self.1 + len) % self.0.len();
            Ok(len)
        }
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        for (bytes, words) in [
            (&b""[..], "empty"),
            (b"{\"nodes\":[]}", "cpuprofile"),
            (b"\x0a\x01", ""),
            (b"\x0b\x01\x02", "no format"),
        ] {
            match import(bytes, &options(2), &mut |_| true) {
                Err(error) => assert!(!words.is_empty() && error.to_string().contains(words), "{error}"),
                Ok((_, imported)) => assert_eq!((words, imported.end.torn_at), ("", Some(0))),
            }
        }
    }
}
