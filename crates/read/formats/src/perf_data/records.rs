//! Records out of their bytes.

use ferretto_trace_model::profiles::resolve::MAX_FRAMES;

use super::attr::{Attr, read_format, sample};
use super::bytes::Bytes;
use super::packed::Packed;
use super::session::Session;

/// Types of records.
pub(super) mod kind {
    pub(in super::super) const MMAP: u32 = 1;
    pub(in super::super) const LOST: u32 = 2;
    pub(in super::super) const COMM: u32 = 3;
    pub(in super::super) const EXIT: u32 = 4;
    pub(in super::super) const FORK: u32 = 7;
    pub(in super::super) const SAMPLE: u32 = 9;
    pub(in super::super) const MMAP2: u32 = 10;
    pub(in super::super) const ITRACE_START: u32 = 12;
    pub(in super::super) const LOST_SAMPLES: u32 = 13;
    /// perf's own begin here: they have no time.
    pub(in super::super) const USER: u32 = 64;
    pub(in super::super) const ATTR: u32 = 64;
    pub(in super::super) const TRACING_DATA: u32 = 66;
    pub(in super::super) const BUILD_ID: u32 = 67;
    pub(in super::super) const AUXTRACE_INFO: u32 = 70;
    pub(in super::super) const AUXTRACE: u32 = 71;
    pub(in super::super) const EVENT_UPDATE: u32 = 78;
    pub(in super::super) const TIME_CONV: u32 = 79;
    pub(in super::super) const FEATURE: u32 = 80;
    pub(in super::super) const COMPRESSED: u32 = 81;
    pub(in super::super) const COMPRESSED2: u32 = 83;
    pub(in super::super) const AUX: u32 = 11;
}

/// Bits of a record's flags.
mod misc {
    pub(super) const MODE: u16 = 7;
    pub(super) const COMM_EXEC: u16 = 1 << 13;
    pub(super) const MMAP_BUILD_ID: u16 = 1 << 14;
}

/// In which mode the processor was, by the numbers of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Unknown,
    Kernel,
    User,
    Hypervisor,
    GuestKernel,
    GuestUser,
}

impl Mode {
    fn of_record(misc: u16) -> Self {
        match misc & misc::MODE {
            1 => Self::Kernel,
            2 => Self::User,
            3 => Self::Hypervisor,
            4 => Self::GuestKernel,
            5 => Self::GuestUser,
            _ => Self::Unknown,
        }
    }

    /// What a mark in a call chain says of the frames behind it; nothing if it is none.
    pub(super) fn of_mark(address: u64) -> Option<Self> {
        /// The lowest of them.
        const MAX: u64 = -4095_i64 as u64;
        if address < MAX {
            return None;
        }
        Some(match address.cast_signed() {
            -32 => Self::Hypervisor,
            -128 => Self::Kernel,
            -512 => Self::User,
            -2176 => Self::GuestKernel,
            -2560 => Self::GuestUser,
            _ => Self::Unknown,
        })
    }

    pub(super) fn is_kernel(self) -> bool {
        matches!(self, Self::Kernel | Self::GuestKernel)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Kernel => "kernel",
            Self::User => "user",
            Self::Hypervisor => "hypervisor",
            Self::GuestKernel => "guest_kernel",
            Self::GuestUser => "guest_user",
        }
    }
}

/// A range of one of the lists of [`Events`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    start: usize,
    len: u32,
}

impl Span {
    pub(super) fn of<T>(self, list: &[T]) -> &[T] {
        list.get(self.start..).and_then(|list| list.get(..self.len as usize)).unwrap_or_default()
    }
}

/// A sample.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) attr: u32,
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) cpu: Option<u32>,
    pub(super) period: Option<u64>,
    pub(super) mode: Mode,
    /// Addresses, the innermost first, with marks between them.
    pub(super) chain: Span,
    /// Ids and values of counters.
    pub(super) reads: Span,
    /// What a tracepoint says.
    pub(super) raw: Span,
}

/// A file in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Mmap {
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) offset: u64,
    pub(super) build_id: Option<Vec<u8>>,
    pub(super) path: Vec<u8>,
    pub(super) is_kernel: bool,
}

/// A thread that another has started, or one that has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Task {
    pub(super) pid: u32,
    pub(super) parent_pid: u32,
    pub(super) tid: u32,
    pub(super) parent_tid: u32,
    pub(super) time: u64,
}

/// What a record says.
#[derive(Clone, Debug)]
pub(super) enum What {
    Sample(Sample),
    Comm {
        pid: u32,
        tid: u32,
        name: Vec<u8>,
        is_exec: bool,
    },
    Mmap(Box<Mmap>),
    Fork(Task),
    Exit(Task),
    Lost {
        cpu: Option<u32>,
        count: u64,
    },
    /// Of a type that is not read.
    Unknown(u32),
    /// It cannot be read.
    Malformed(u32),
    /// A sample that does not say when, or of which thread.
    Incomplete,
}

/// A record that waits for its turn.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) time: u64,
    pub(super) what: What,
}

/// All records.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) all: Vec<Event>,
    pub(super) addresses: Vec<u64>,
    pub(super) reads: Vec<(Option<u64>, u64)>,
    pub(super) raw: Vec<u8>,
    pub(super) packed: Packed,
    latest: u64,
}

/// Records that say nothing that is kept are counted up to here, one by one. Ours.
const MAX_UNKNOWN: usize = 1 << 24;

/// Counters of one sample. Ours: the kernel reads some dozens of a processor's at once.
const MAX_READS: u64 = 1024;

/// A record's head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) kind: u32,
    pub(super) misc: u16,
    /// With the head.
    pub(super) bytes: usize,
}

impl Head {
    pub(super) const BYTES: usize = 8;

    /// Nothing if it is none.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut at = Bytes(bytes);
        let (kind, misc, size) = (at.u32()?, at.u16()?, at.u16()?);
        (usize::from(size) >= Self::BYTES).then_some(Self { kind, misc, bytes: usize::from(size) })
    }

    /// Bytes that follow the record and belong to it.
    pub(super) fn behind(self, record: &[u8]) -> u64 {
        let mut at = Bytes(record);
        match self.kind {
            kind::TRACING_DATA => u64::from(at.u32().unwrap_or(0)).next_multiple_of(8),
            kind::AUXTRACE => at.u64().unwrap_or(0),
            _ => 0,
        }
    }
}

impl Events {
    /// Takes a record, without its head.
    pub(super) fn take(&mut self, head: Head, record: &[u8], session: &mut Session) {
        let at = Bytes(record);
        match head.kind {
            kind::ATTR => _ = take_attr(at, session),
            kind::FEATURE => {
                let mut at = at;
                if let Some(number) = at.u64().and_then(|number| u32::try_from(number).ok()) {
                    session.feature(number, at.0);
                }
            }
            kind::BUILD_ID => session.build_id(head.misc, record),
            kind::EVENT_UPDATE => {
                take_update(at, session);
                self.unknown(head.kind);
            }
            kind::COMPRESSED => self.packed.push(record),
            kind::COMPRESSED2 => {
                let mut at = at;
                let len = at.u64().and_then(|len| usize::try_from(len).ok()).unwrap_or(0);
                self.packed.push(at.0.get(..len.min(at.len())).unwrap_or_default());
            }
            kind::AUX
            | kind::AUXTRACE
            | kind::AUXTRACE_INFO
            | kind::ITRACE_START
            | kind::TIME_CONV
            | kind::TRACING_DATA => {}
            user if user >= kind::USER => self.unknown(user),
            _ => self.take_event(head, at, session),
        }
    }

    /// A record of the kernel's.
    fn take_event(&mut self, head: Head, at: Bytes<'_>, session: &Session) {
        let is_sample = head.kind == kind::SAMPLE;
        let Some(number) = session.attr_of_record(is_sample, at) else {
            let what = if is_sample { What::Incomplete } else { What::Malformed(head.kind) };
            return self.push(None, what);
        };
        let Some(attr) = session.attr(number) else { return };
        if is_sample {
            match self.sample(head, at, attr, number) {
                Some((Some(time), sample)) => self.push(Some(time), What::Sample(sample)),
                _ => self.push(None, What::Incomplete),
            }
            return;
        }
        let time = attr.time_before_end().and_then(|before| at.u64_before_end(before));
        let what = other(head, at, attr).unwrap_or(What::Malformed(head.kind));
        match what {
            What::Fork(task) | What::Exit(task) => self.push(Some(time.unwrap_or(task.time)), what),
            what => self.push(time, what),
        }
    }

    /// What has no time has that of the latest so far.
    fn push(&mut self, time: Option<u64>, what: What) {
        let time = time.unwrap_or(self.latest);
        self.latest = self.latest.max(time);
        self.all.push(Event { time, what });
    }

    fn unknown(&mut self, kind: u32) {
        if self.all.len() < MAX_UNKNOWN {
            self.push(None, What::Unknown(kind));
        }
    }

    /// With its time, if it has one. Nothing if it says not who it is of, or ends early.
    fn sample(
        &mut self,
        head: Head,
        mut at: Bytes<'_>,
        attr: &Attr,
        number: usize,
    ) -> Option<(Option<u64>, Sample)> {
        let has = |bit: u64| attr.sample_type & bit != 0;
        let word = |at: &mut Bytes<'_>, bit: u64| match has(bit) {
            true => at.u64().map(Some),
            false => Some(None),
        };
        let _identifier = word(&mut at, sample::IDENTIFIER)?;
        let ip = word(&mut at, sample::IP)?;
        let who = word(&mut at, sample::TID)?;
        let time = word(&mut at, sample::TIME)?;
        let _address = word(&mut at, sample::ADDR)?;
        let _id = word(&mut at, sample::ID)?;
        let _stream = word(&mut at, sample::STREAM_ID)?;
        let cpu = word(&mut at, sample::CPU)?;
        let period = word(&mut at, sample::PERIOD)?;
        let who = who?;
        let reads = if has(sample::READ) { self.reads(&mut at, attr.read_format)? } else { Span::default() };
        let mut chain = if has(sample::CALLCHAIN) { self.chain(&mut at)? } else { Span::default() };
        if let (0, Some(ip)) = (chain.len, ip) {
            chain = Span { start: self.addresses.len(), len: 1 };
            self.addresses.push(ip);
        }
        let raw = match has(sample::RAW) && attr.tracepoint().is_some() {
            true => self.raw(&mut at)?,
            false => Span::default(),
        };
        let sample = Sample {
            attr: u32::try_from(number).ok()?,
            pid: who as u32,
            tid: (who >> 32) as u32,
            cpu: cpu.map(|cpu| cpu as u32),
            period: period.or(attr.period()),
            mode: Mode::of_record(head.misc),
            chain,
            reads,
            raw,
        };
        Some((time, sample))
    }

    fn reads(&mut self, at: &mut Bytes<'_>, format: u64) -> Option<Span> {
        let has = |bit: u64| format & bit != 0;
        let first = at.u64()?;
        for bit in [read_format::TOTAL_TIME_ENABLED, read_format::TOTAL_TIME_RUNNING] {
            if has(bit) {
                at.u64()?;
            }
        }
        let start = self.reads.len();
        let (count, mut value) = if has(read_format::GROUP) { (first, None) } else { (1, Some(first)) };
        if count > MAX_READS {
            return None;
        }
        for _ in 0..count {
            let value = match value.take() {
                Some(value) => value,
                None => at.u64()?,
            };
            let id = if has(read_format::ID) { Some(at.u64()?) } else { None };
            if has(read_format::LOST) {
                at.u64()?;
            }
            self.reads.push((id, value));
        }
        Some(Span { start, len: u32::try_from(count).ok()? })
    }

    fn raw(&mut self, at: &mut Bytes<'_>) -> Option<Span> {
        let len = at.u32()?;
        let start = self.raw.len();
        self.raw.extend_from_slice(at.take(usize::try_from(len).ok()?)?);
        Some(Span { start, len })
    }

    fn chain(&mut self, at: &mut Bytes<'_>) -> Option<Span> {
        let count = usize::try_from(at.u64()?).ok()?;
        let (words, _) = at.take(count.checked_mul(8)?)?.as_chunks();
        let start = self.addresses.len();
        self.addresses.extend(words.iter().take(MAX_FRAMES).map(|word| u64::from_le_bytes(*word)));
        Some(Span { start, len: u32::try_from(self.addresses.len() - start).ok()? })
    }
}

/// What a record says that is no sample; nothing if it ends early.
fn other(head: Head, mut at: Bytes<'_>, attr: &Attr) -> Option<What> {
    let of_whole = at;
    let cpu =
        || attr.cpu_before_end().and_then(|before| of_whole.u64_before_end(before)).map(|cpu| cpu as u32);
    Some(match head.kind {
        kind::COMM => {
            let (pid, tid) = (at.u32()?, at.u32()?);
            What::Comm { pid, tid, name: at.text().to_vec(), is_exec: head.misc & misc::COMM_EXEC != 0 }
        }
        kind::FORK => What::Fork(task(at)?),
        kind::EXIT => What::Exit(task(at)?),
        kind::LOST => {
            let (_id, count) = (at.u64()?, at.u64()?);
            What::Lost { cpu: cpu(), count }
        }
        kind::LOST_SAMPLES => What::Lost { cpu: cpu(), count: at.u64()? },
        kind::MMAP | kind::MMAP2 => {
            let (pid, tid) = (at.u32()?, at.u32()?);
            let (start, len, offset) = (at.u64()?, at.u64()?, at.u64()?);
            let mut build_id = None;
            if head.kind == kind::MMAP2 {
                // Where the file is, or its build id; how it is mapped.
                let file = at.take(24)?;
                at.take(8)?;
                if head.misc & misc::MMAP_BUILD_ID != 0 {
                    let size = usize::from(*file.first()?).min(20);
                    build_id = file.get(4..4 + size).map(<[u8]>::to_vec);
                }
            }
            let is_kernel = Mode::of_record(head.misc).is_kernel();
            let path = at.text().to_vec();
            What::Mmap(Box::new(Mmap { pid, tid, start, len, offset, build_id, path, is_kernel }))
        }
        other => What::Unknown(other),
    })
}

fn task(mut at: Bytes<'_>) -> Option<Task> {
    Some(Task {
        pid: at.u32()?,
        parent_pid: at.u32()?,
        tid: at.u32()?,
        parent_tid: at.u32()?,
        time: at.u64()?,
    })
}

/// What was sampled, in a piped recording: the attributes, as large as they say, and ids.
fn take_attr(at: Bytes<'_>, session: &mut Session) -> Option<()> {
    let mut head = at;
    let (_type, size) = (head.u32()?, head.u32()? as usize);
    let size = size.max(Attr::MIN_BYTES);
    let attr = Attr::read(at.0.get(..size)?)?;
    session.add_attr(attr, at.0.get(size..)?);
    Some(())
}

/// More about what was sampled: its name.
fn take_update(mut at: Bytes<'_>, session: &mut Session) {
    const NAME: u64 = 2;
    if let (Some(NAME), Some(id)) = (at.u64(), at.u64()) {
        session.name(id, &String::from_utf8_lossy(at.text()));
    }
}
