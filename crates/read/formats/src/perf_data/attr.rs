//! `struct perf_event_attr`: what was sampled, and what each sample says.

use super::bytes::Bytes;

/// Bits of `sample_type`, in the order in which samples have what they stand for; what comes behind these is not read.
pub(super) mod sample {
    pub(in super::super) const IP: u64 = 1;
    pub(in super::super) const TID: u64 = 1 << 1;
    pub(in super::super) const TIME: u64 = 1 << 2;
    pub(in super::super) const ADDR: u64 = 1 << 3;
    pub(in super::super) const READ: u64 = 1 << 4;
    pub(in super::super) const CALLCHAIN: u64 = 1 << 5;
    pub(in super::super) const ID: u64 = 1 << 6;
    pub(in super::super) const CPU: u64 = 1 << 7;
    pub(in super::super) const PERIOD: u64 = 1 << 8;
    pub(in super::super) const STREAM_ID: u64 = 1 << 9;
    pub(in super::super) const RAW: u64 = 1 << 10;
    pub(in super::super) const IDENTIFIER: u64 = 1 << 16;
}

/// Bits of `read_format`.
pub(super) mod read_format {
    pub(in super::super) const TOTAL_TIME_ENABLED: u64 = 1;
    pub(in super::super) const TOTAL_TIME_RUNNING: u64 = 1 << 1;
    pub(in super::super) const ID: u64 = 1 << 2;
    pub(in super::super) const GROUP: u64 = 1 << 3;
    pub(in super::super) const LOST: u64 = 1 << 4;
}

/// Bits of the flags.
mod flag {
    pub(super) const FREQ: u64 = 1 << 10;
    pub(super) const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub(super) const USE_CLOCKID: u64 = 1 << 25;
}

/// Each thing that a sample says is a word.
const WORD: usize = 8;

/// One of the things that were sampled.
#[derive(Clone, Debug, Default)]
pub(super) struct Attr {
    type_: u32,
    config: u64,
    period_or_freq: u64,
    flags: u64,
    clock: u32,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    /// Its name, if that was said.
    pub(super) name: Option<String>,
}

impl Attr {
    /// The smallest there was, which has all but the clock.
    pub(super) const MIN_BYTES: usize = 64;

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut at = Bytes(bytes);
        let (type_, _size) = (at.u32()?, at.u32()?);
        let (config, period_or_freq) = (at.u64()?, at.u64()?);
        let (sample_type, read_format, flags) = (at.u64()?, at.u64()?, at.u64()?);
        // wakeup, bp_type, bp_addr, bp_len, branch_sample_type, sample_regs_user, sample_stack_user
        let clock = at.take(4 + 4 + 8 + 8 + 8 + 8 + 4).and_then(|_| at.u32()).unwrap_or(0);
        Some(Self { type_, config, period_or_freq, flags, clock, sample_type, read_format, name: None })
    }

    fn words(&self, of: u64) -> usize {
        (self.sample_type & of).count_ones() as usize * WORD
    }

    fn has(&self, bits: u64) -> bool {
        self.sample_type & bits != 0
    }

    /// Whether records other than samples say when and where they were.
    pub(super) fn says_id_always(&self) -> bool {
        self.flags & flag::SAMPLE_ID_ALL != 0
    }

    /// Where in a sample its id is.
    pub(super) fn id_from_start(&self) -> Option<usize> {
        if self.has(sample::IDENTIFIER) {
            return Some(0);
        }
        let before = sample::IP | sample::TID | sample::TIME | sample::ADDR;
        self.has(sample::ID).then(|| self.words(before))
    }

    /// Where in another record, before its end.
    pub(super) fn id_before_end(&self) -> Option<usize> {
        if self.has(sample::IDENTIFIER) {
            return Some(WORD);
        }
        self.has(sample::ID).then(|| self.words(sample::ID | sample::STREAM_ID | sample::CPU))
    }

    /// Where in another record the time is.
    pub(super) fn time_before_end(&self) -> Option<usize> {
        let from = sample::TIME | sample::ID | sample::STREAM_ID | sample::CPU | sample::IDENTIFIER;
        (self.says_id_always() && self.has(sample::TIME)).then(|| self.words(from))
    }

    /// Where in another record the processor is.
    pub(super) fn cpu_before_end(&self) -> Option<usize> {
        (self.says_id_always() && self.has(sample::CPU)).then(|| self.words(sample::CPU | sample::IDENTIFIER))
    }

    /// The number of the tracepoint that it is.
    pub(super) fn tracepoint(&self) -> Option<u64> {
        /// `PERF_TYPE_TRACEPOINT`.
        const TRACEPOINT: u32 = 2;
        (self.type_ == TRACEPOINT).then_some(self.config)
    }

    /// How much a sample counts, if it is the same for all.
    pub(super) fn period(&self) -> Option<u64> {
        (self.flags & flag::FREQ == 0).then_some(self.period_or_freq)
    }

    /// Whether samples were taken by it. simpleperf's mark, and upstream's: others have a period that is never reached.
    pub(super) fn is_timebase(&self) -> bool {
        self.period_or_freq < 1 << 62
    }

    /// The clock of its times, by the numbers of a trace.
    pub(super) fn trace_clock(&self) -> u32 {
        /// perf's own clock, `PERF` of builtin_clock.proto.
        const PERF: u32 = 10;
        if self.flags & flag::USE_CLOCKID == 0 {
            return PERF;
        }
        match self.clock {
            0 => 1,
            1 => 3,
            4 => 5,
            5 => 2,
            6 => 4,
            7 => 6,
            _ => PERF,
        }
    }

    /// What it is called, if nothing else has said that.
    pub(super) fn words_for_it(&self) -> String {
        const HARDWARE: [&str; 10] = [
            "cycles",
            "instructions",
            "cache-references",
            "cache-misses",
            "branches",
            "branch-misses",
            "bus-cycles",
            "stalled-cycles-frontend",
            "stalled-cycles-backend",
            "ref-cycles",
        ];
        const SOFTWARE: [&str; 11] = [
            "cpu-clock",
            "task-clock",
            "page-faults",
            "context-switches",
            "cpu-migrations",
            "minor-faults",
            "major-faults",
            "alignment-faults",
            "emulation-faults",
            "dummy",
            "bpf-output",
        ];
        let names: &[&str] = match self.type_ {
            0 => &HARDWARE,
            1 => &SOFTWARE,
            _ => &[],
        };
        let name = usize::try_from(self.config).ok().and_then(|config| names.get(config));
        name.map_or_else(|| format!("raw.{:#x}.{:#x}", self.type_, self.config), |name| (*name).to_owned())
    }
}
