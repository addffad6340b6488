//! The arguments of an event (upstream: track_event_event_importer.h, args_parser.cc).

use std::rc::Rc;

use ferretto_protos::fields::{
    interned_data, log_message, source_location, task_execution, track_event as field,
};
use ferretto_trace_read::fields::{Fields, Value};
use ferretto_trace_read::recent::Recent;
use ferretto_trace_tables::{Str, Strings, Utid};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::WriterId;
use super::reflect::Pool;
use crate::args::{Arg, ArgValue};
use crate::sequence::Generation;
use crate::translation::{METHOD_ADDRESS, METHOD_MAPPING};
use crate::wire::{bytes as bytes_of, number as number_of};

/// Memory that is used again for each event.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    args: Vec<Arg>,
    /// The next number of each array, by its key.
    arrays: HashMap<Str, u32, RandomState>,
    key: String,
    flat_key: String,
    keys: Keys,
}

/// Keys of annotations by who wrote them and the numbers of their names, as they were met lately.
#[derive(Debug, Default)]
pub(super) struct Keys(Recent<(WriterId, u64), Str, KEYS>);

/// Ours: programs have some hundreds of names, and this fits into the processor's cache.
const KEYS: usize = 512;

impl Keys {
    #[inline]
    pub(super) fn get(&self, writer: WriterId, name_iid: u64) -> Option<Str> {
        self.0.get(name_iid ^ u64::from(writer.0) << 4, (writer, name_iid))
    }

    fn put(&mut self, writer: WriterId, name_iid: u64, key: Str) {
        self.0.put(name_iid ^ u64::from(writer.0) << 4, (writer, name_iid), key);
    }
}

/// What usual annotations are read with.
#[derive(Debug)]
pub(super) struct Usual<'a> {
    /// Arguments, of which there are none.
    pub args: &'a mut Vec<Arg>,
    pub keys: &'a Keys,
}

impl Scratch {
    /// Begins an event that may be a usual one.
    #[inline]
    pub(super) fn begin_usual(&mut self) -> Usual<'_> {
        self.args.clear();
        Usual { args: &mut self.args, keys: &self.keys }
    }
}

/// Why the rest of something is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

/// Reads arguments.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub strings: &'a mut Strings,
    /// What the sequence has interned.
    pub state: &'a Generation,
    pub pool: &'a mut Pool,
    scratch: &'a mut Scratch,
    /// Parts that could not be read.
    pub failures: u32,
    /// Numbers that nothing is behind.
    pub missing: u32,
    /// Fields that no descriptor tells of.
    pub unknown_fields: u32,
    needs_turn: bool,
    has_arrays: bool,
    /// What its `log_message` said.
    pub log: Option<Log>,
    /// The place of a method in the program.
    pub native: Option<Native>,
}

/// A place in a program, whose mapping is known in its turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Native {
    /// Which argument is the mapping's number; the next is the address.
    pub at: usize,
    /// The place's number.
    pub iid: u64,
    /// The mapping's.
    pub mapping_iid: u64,
}

/// What is known of an event in its turn only.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    /// It is on a thread's track.
    pub has_thread: bool,
    /// The number that its track of the old kind was found by.
    pub source_id: Option<i64>,
}

/// A line of a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log {
    pub priority: i32,
    pub place: Option<Str>,
    pub text: Str,
}

/// Where the key stood.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyMark(usize, usize);

/// Fields of `TrackEvent` that are read otherwise, or not at all: the others become arguments as they are. Upstream's list, turned round.
const fn is_read_otherwise(number: u32) -> bool {
    matches!(number, 1..=6 | 8..=12 | 16 | 17 | 20..=23 | 30 | 31 | 36 | 42 | 44..=48 | 52..=57)
}

/// Numbers of interned places of the source within Chrome's messages: the place stands for them.
const LOCATIONS: [&str; 4] = [
    "begin_impl_frame_args.current_args.source_location_iid",
    "begin_impl_frame_args.last_args.source_location_iid",
    "begin_frame_observer_state.last_begin_frame_args.source_location_iid",
    "chrome_memory_pressure_notification.creation_location_iid",
];

/// Fields of Chrome's that become arguments by their own rules, too.
const SCREENSHOT: u32 = 50;
const CHROME_HISTOGRAM_SAMPLE: u32 = 28;
/// `InternedData.histogram_names`.
const HISTOGRAM_NAMES: u32 = 25;

impl<'a> Reader<'a> {
    pub(super) fn new(
        strings: &'a mut Strings,
        state: &'a Generation,
        scratch: &'a mut Scratch,
        pool: &'a mut Pool,
    ) -> Self {
        scratch.args.clear();
        scratch.key.clear();
        scratch.flat_key.clear();
        if !scratch.arrays.is_empty() {
            scratch.arrays.clear();
        }
        Self {
            strings,
            state,
            pool,
            scratch,
            failures: 0,
            missing: 0,
            unknown_fields: 0,
            needs_turn: false,
            has_arrays: false,
            log: None,
            native: None,
        }
    }

    /// What was read.
    pub(super) fn args(&self) -> &[Arg] {
        &self.scratch.args
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failures != 0 || self.unknown_fields != 0
    }

    /// It holds something that is known in its turn only.
    pub(super) fn needs_turn(&self) -> bool {
        self.needs_turn
    }

    /// It holds arrays whose numbers go on if the same slice has more of the same name.
    pub(super) fn has_arrays(&self) -> bool {
        self.has_arrays
    }

    /// The arrays of a slice's arguments so far go on.
    pub(super) fn go_on_from(&mut self, args: &[Arg]) {
        for arg in args {
            let key = self.strings.get(arg.key);
            let mut nexts = Vec::new();
            for (at, _) in key.match_indices('[') {
                let index = key.get(at + 1..).and_then(|rest| rest.split(']').next()?.parse::<u32>().ok());
                nexts.extend(
                    index.and_then(|index| Some((key.get(..at)?.to_owned(), index.saturating_add(1)))),
                );
            }
            for (array, next) in nexts {
                let array = self.strings.intern(&array);
                let known = self.scratch.arrays.entry(array).or_default();
                *known = next.max(*known);
            }
        }
    }

    /// Reads all arguments of a `TrackEvent`, with `turn` in its turn.
    pub(super) fn read_event(&mut self, message: &[u8], turn: Option<Turn>) {
        let mut special = Special::default();
        for part in Fields::new(message).whole() {
            special.take(part.number, part.value);
        }
        if special.is_there {
            self.read_special(&special, turn);
        }
        if let Some(id) = turn.and_then(|turn| turn.source_id) {
            self.add_as("legacy_trace_source_id", ArgValue::Int(id));
        }
        if special.has_typed {
            let result = self.read_typed(message);
            self.note(result);
        }
        if special.has_annotations {
            self.read_annotations(message, None);
        }
    }

    /// Reads the annotations of a `TrackEvent`. If `writer` is known, names that it has used lately are found quickly. (What a number
    /// stands for does not change within a generation.)
    pub(super) fn read_annotations(&mut self, message: &[u8], writer: Option<WriterId>) {
        for part in Fields::new(message).whole() {
            if let (field::DEBUG_ANNOTATIONS, Value::Bytes(annotation)) = (part.number, part.value) {
                let mark = self.mark();
                let result = self.read_annotation(annotation, writer);
                self.note(result);
                self.leave(mark);
            }
        }
    }

    /// The key of an annotation that names itself by a number, if it was met lately.
    #[inline]
    pub(super) fn recent_key(&self, writer: WriterId, name_iid: u64) -> Option<Str> {
        self.scratch.keys.get(writer, name_iid)
    }

    /// The key so far is that of this annotation.
    pub(super) fn remember_key(&mut self, writer: WriterId, name_iid: u64) {
        let key = self.strings.intern(&self.scratch.key);
        self.scratch.keys.put(writer, name_iid, key);
    }

    /// The event was written by this thread, though it is not on its track.
    pub(super) fn add_passthrough(&mut self, utid: Utid) {
        let key = self.strings.intern("legacy_event.passthrough_utid");
        if self.scratch.args.iter().all(|arg| arg.key != key) {
            self.add(key, key, ArgValue::Uint(u64::from(utid.0)));
        }
    }

    fn read_special(&mut self, special: &Special<'_>, turn: Option<Turn>) {
        if let Some(iid) = special.source_location_iid {
            let result = self.read_location(iid, "source");
            self.note(result);
        }
        if let Some(task) = special.task_execution {
            let iid = number_of(task, task_execution::POSTED_FROM_IID).unwrap_or(0);
            let result = self.read_location(iid, "task.posted_from");
            self.note(result);
        }
        match (special.log_message, turn) {
            (Some(_), None) => self.needs_turn = true,
            (Some(message), Some(turn)) => {
                let result = self.read_log(message, turn);
                self.note(result);
            }
            (None, _) => {}
        }
        if let Some(screenshot) = special.screenshot {
            for (number, key) in
                [(1, "screenshot.jpg_image"), (2, "screenshot.pam_image"), (3, "screenshot.ppm_image")]
            {
                if let Some(image) = bytes_of(screenshot, number) {
                    let text = self.strings.intern(&base64(image));
                    self.add_as(key, ArgValue::Text(text));
                }
            }
        }
        if let Some(sample) = special.histogram_sample {
            let result = self.read_histogram(sample);
            self.note(result);
        }
        let correlation = match special.correlation {
            Correlation::None => return,
            Correlation::Id(id) => Some(self.strings.intern(&format!("tp:#{id}"))),
            Correlation::Text(text) => Some(self.strings.intern_bytes(text)),
            Correlation::Iid(iid) => self.interned(interned_data::CORRELATION_ID_STR, iid).ok(),
        };
        match correlation {
            Some(text) => self.add_as("correlation_id", ArgValue::Text(text)),
            // No failure, but it may be interned later.
            None => self.needs_turn = true,
        }
    }

    /// The file, function and line of an interned `SourceLocation`.
    fn read_location(&mut self, iid: u64, prefix: &str) -> Result<(), Unreadable> {
        let location = self.location(iid)?;
        let file = String::from_utf8_lossy(location.file()).replace('\\', "/");
        let file = self.strings.intern(&file);
        let function = self.strings.intern_bytes(location.function());
        self.add_as(&format!("{prefix}.file_name"), ArgValue::Text(file));
        self.add_as(&format!("{prefix}.function_name"), ArgValue::Text(function));
        self.add_as(&format!("{prefix}.line_number"), ArgValue::Uint(location.line().into()));
        Ok(())
    }

    /// Reads a number of a message of Chrome's behind which a place of its source is, or of its program. False if there is none: then the number
    /// is the argument.
    pub(super) fn read_place(&mut self, name: &str, value: Value<'_>) -> bool {
        /// `InternedData.unsymbolized_source_locations`, and of `UnsymbolizedSourceLocation`.
        const PLACES: u32 = 28;
        const MAPPING_ID: u32 = 2;
        const REL_PC: u32 = 3;
        let key = self.scratch.key.clone();
        let iid = value.as_u64().unwrap_or(0);
        if key == "chrome_mojo_event_info.mojo_interface_method_iid" {
            let Some(place) = self.state.message(PLACES, iid) else { return false };
            let number = |field| number_of(&place, field).unwrap_or(0);
            self.native = Some(Native { at: self.scratch.args.len(), iid, mapping_iid: number(MAPPING_ID) });
            self.add_as(METHOD_MAPPING, ArgValue::Uint(0));
            self.add_as(METHOD_ADDRESS, ArgValue::Uint(number(REL_PC)));
            return true;
        }
        let within = key.strip_suffix(name).and_then(|key| key.strip_suffix('.'));
        let Some(within) = within.filter(|_| LOCATIONS.contains(&key.as_str())) else { return false };
        let Some(location) = self.state.message(interned_data::SOURCE_LOCATIONS, iid).map(Location) else {
            return false;
        };
        let file = String::from_utf8_lossy(location.file()).replace('\\', "/");
        let (file, function) = (self.strings.intern(&file), self.strings.intern_bytes(location.function()));
        self.add_as(&format!("{within}.file_name"), ArgValue::Text(file));
        self.add_as(&format!("{within}.function_name"), ArgValue::Text(function));
        if number_of(&location.0, source_location::LINE_NUMBER).is_some() {
            self.add_as(&format!("{within}.line_number"), ArgValue::Int(location.line().into()));
        }
        true
    }

    fn location(&mut self, iid: u64) -> Result<Location, Unreadable> {
        let message = self.state.message(interned_data::SOURCE_LOCATIONS, iid).filter(|_| iid != 0);
        self.missing += u32::from(message.is_none() && iid != 0);
        message.map(Location).ok_or(Unreadable)
    }

    /// The text behind a number.
    pub(super) fn interned(&mut self, field: u32, iid: u64) -> Result<Str, Unreadable> {
        let text = self.state.text(field, iid);
        self.missing += u32::from(text.is_none());
        text.ok_or(Unreadable)
    }

    fn read_log(&mut self, message: &[u8], turn: Turn) -> Result<(), Unreadable> {
        /// `PRIO_INFO` of Android's logs: what says nothing is shown as that.
        const INFO: i32 = 4;
        if !turn.has_thread {
            return Err(Unreadable);
        }
        let body = number_of(message, log_message::BODY_IID).unwrap_or(0);
        let text = self.interned(interned_data::LOG_MESSAGE_BODY, body)?;
        self.add_as("track_event.log_message.message", ArgValue::Text(text));
        let mut place = None;
        if let Some(iid) = number_of(message, log_message::SOURCE_LOCATION_IID) {
            let location = self.location(iid)?;
            let file = self.strings.intern_bytes(location.file());
            let function = self.strings.intern_bytes(location.function());
            let line = format!("{}:{}", self.strings.get(file), location.line());
            place = Some(self.strings.intern(&line));
            self.add_as("track_event.log_message.file_name", ArgValue::Text(file));
            self.add_as("track_event.log_message.function_name", ArgValue::Text(function));
            self.add_as("track_event.log_message.line_number", ArgValue::Int(location.line().into()));
        }
        let priority = number_of(message, log_message::PRIO).map(|prio| match prio {
            1..=7 => prio as i32,
            _ => 0,
        });
        if let Some(priority) = priority {
            self.add_as("track_event.priority", ArgValue::Int(priority.into()));
        }
        self.log = Some(Log { priority: priority.unwrap_or(INFO), place, text });
        Ok(())
    }

    fn read_histogram(&mut self, sample: &[u8]) -> Result<(), Unreadable> {
        /// Of `ChromeHistogramSample`.
        const NAME: u32 = 2;
        const NAME_IID: u32 = 4;
        let Some(iid) = number_of(sample, NAME_IID) else { return Ok(()) };
        if bytes_of(sample, NAME).is_some() {
            return Err(Unreadable);
        }
        let name = self.interned(HISTOGRAM_NAMES, iid)?;
        self.add_as("chrome_histogram_sample.name", ArgValue::Text(name));
        Ok(())
    }

    fn note(&mut self, result: Result<(), Unreadable>) {
        self.failures += u32::from(result.is_err());
    }

    fn add_as(&mut self, key: &str, value: ArgValue) {
        let key = self.strings.intern(key);
        self.add(key, key, value);
    }

    pub(super) fn add(&mut self, flat_key: Str, key: Str, value: ArgValue) {
        self.scratch.args.push(Arg { flat_key, key, value });
    }

    /// Adds a value by the key so far.
    pub(super) fn add_here(&mut self, value: ArgValue) {
        let key = self.strings.intern(&self.scratch.key);
        let flat_key = match self.scratch.key == self.scratch.flat_key {
            true => key,
            false => self.strings.intern(&self.scratch.flat_key),
        };
        self.add(flat_key, key, value);
    }

    /// Adds a text by the key so far.
    pub(super) fn add_text_here(&mut self, text: &[u8]) {
        let text = self.strings.intern_bytes(text);
        self.add_here(ArgValue::Text(text));
    }

    pub(super) fn mark(&self) -> KeyMark {
        KeyMark(self.scratch.key.len(), self.scratch.flat_key.len())
    }

    pub(super) fn leave(&mut self, mark: KeyMark) {
        self.scratch.key.truncate(mark.0);
        self.scratch.flat_key.truncate(mark.1);
    }

    /// Goes on to a name within what the key says.
    pub(super) fn enter(&mut self, name: &str) {
        for key in [&mut self.scratch.key, &mut self.scratch.flat_key] {
            if !key.is_empty() {
                key.push('.');
            }
            key.push_str(name);
        }
    }

    /// Goes on to an element of the array that the key says.
    pub(super) fn enter_element(&mut self, index: u32) {
        use std::fmt::Write as _;
        let written = write!(self.scratch.key, "[{index}]");
        debug_assert!(written.is_ok(), "a text takes all");
    }

    /// The next number in the array that the key says.
    pub(super) fn next_in_array(&mut self) -> u32 {
        self.has_arrays = true;
        let key = self.strings.intern(&self.scratch.key);
        self.scratch.arrays.get(&key).copied().unwrap_or(0)
    }

    /// One more is in the array that the key says; its next number.
    pub(super) fn count_in_array(&mut self) -> u32 {
        let key = self.strings.intern(&self.scratch.key);
        let next = self.scratch.arrays.entry(key).or_default();
        *next = next.saturating_add(1);
        *next
    }

    /// The fields that become arguments as they are.
    fn read_typed(&mut self, message: &[u8]) -> Result<(), Unreadable> {
        let event = self.pool.find("perfetto.protos.TrackEvent");
        let mut repeated = HashMap::<u32, u32, RandomState>::default();
        for part in Fields::new(message).whole() {
            match (part.number, part.value) {
                (field::SOURCE_LOCATION_IID, Value::Varint(iid)) => {
                    self.add_as("source_location_iid", ArgValue::Uint(iid));
                }
                (number, _) if is_read_otherwise(number) => {}
                (number, value) => match event.as_ref().and_then(|event| event.field(number)) {
                    Some(field) => self.read_field(field, value, &mut repeated, 0)?,
                    None => self.unknown_fields += 1,
                },
            }
        }
        Ok(())
    }
}

/// An interned `SourceLocation`.
#[derive(Clone, Debug)]
struct Location(Rc<[u8]>);

impl Location {
    fn file(&self) -> &[u8] {
        bytes_of(&self.0, source_location::FILE_NAME).unwrap_or_default()
    }

    fn function(&self) -> &[u8] {
        bytes_of(&self.0, source_location::FUNCTION_NAME).unwrap_or_default()
    }

    fn line(&self) -> u32 {
        number_of(&self.0, source_location::LINE_NUMBER).unwrap_or(0) as u32
    }
}

#[derive(Clone, Copy, Debug, Default)]
enum Correlation<'a> {
    #[default]
    None,
    Id(u64),
    Text(&'a [u8]),
    Iid(u64),
}

/// The fields that become arguments by rules of their own.
#[derive(Clone, Copy, Debug, Default)]
struct Special<'a> {
    is_there: bool,
    has_typed: bool,
    has_annotations: bool,
    source_location_iid: Option<u64>,
    task_execution: Option<&'a [u8]>,
    log_message: Option<&'a [u8]>,
    screenshot: Option<&'a [u8]>,
    histogram_sample: Option<&'a [u8]>,
    correlation: Correlation<'a>,
}

impl<'a> Special<'a> {
    fn take(&mut self, number: u32, value: Value<'a>) {
        match (number, value) {
            (field::DEBUG_ANNOTATIONS, _) => {
                self.has_annotations = true;
                return;
            }
            (field::SOURCE_LOCATION_IID, Value::Varint(iid)) => self.source_location_iid = Some(iid),
            (field::TASK_EXECUTION, Value::Bytes(message)) => self.task_execution = Some(message),
            (field::LOG_MESSAGE, Value::Bytes(message)) => self.log_message = Some(message),
            (SCREENSHOT, Value::Bytes(message)) => self.screenshot = Some(message),
            (CHROME_HISTOGRAM_SAMPLE, Value::Bytes(message)) => self.histogram_sample = Some(message),
            (field::CORRELATION_ID, Value::Varint(id)) => self.correlation = Correlation::Id(id),
            (field::CORRELATION_ID_STR, Value::Bytes(text)) => self.correlation = Correlation::Text(text),
            (field::CORRELATION_ID_STR_IID, Value::Varint(iid)) => self.correlation = Correlation::Iid(iid),
            _ => {
                self.has_typed |= !is_read_otherwise(number);
                return;
            }
        }
        self.is_there = true;
        self.has_typed |= !is_read_otherwise(number);
    }
}

/// Bytes as text.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit) & 63) as usize;
            let is_there = digit <= chunk.len();
            out.push(if is_there { DIGITS.get(index).copied().map_or('=', char::from) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn bytes_become_text_with_padding() {
        let texts = [&b""[..], b"f", b"fo", b"foo", b"foob", &[0xff, 0xfe]].map(super::base64);
        assert_eq!(texts, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "//4="]);
    }
}
