//! What decides: the seed's random choices; and what remembers: the story so far, and how often each behaviour has occurred.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::ops::{Deref, DerefMut};

use crate::rng::Rng;

/// What worlds are made of. Within a thousand seeds each occurs, or the world has lost a part of itself.
pub const BEHAVIOURS: &[&str] = &[
    "a chunk stays open over several steps",
    "a clock is set",
    "a commit with several chunks",
    "a consumer calls twice",
    "a consumer sends garbage",
    "a consumer vanishes",
    "a frame arrives in pieces",
    "a packet over several chunks",
    "a patch comes late",
    "a patch comes never",
    "a producer brings its memory",
    "a producer comes late",
    "a producer has no shared memory",
    "a producer of another machine",
    "a producer kept out by lock-down",
    "a producer sends garbage",
    "a producer stalls",
    "a producer vanishes",
    "a producer vanishes in the middle of a chunk",
    "a relay lies about clocks",
    "a sequence is complete",
    "a trace has a gap that is announced",
    "a trace has the clocks of another machine",
    "a trace has the state of a ProtoVM",
    "a writer finds no free chunk",
    "attach",
    "attach refused",
    "buffer: discard",
    "buffer: ring",
    "calls before InitializeConnection",
    "change config",
    "clone",
    "clone by bugreport",
    "clone by name",
    "clone into a file",
    "clone into a file fails",
    "clone in steps",
    "clone of another user refused",
    "clone with cleared buffers",
    "clone with transferred buffers",
    "clone without a file refused",
    "compressed trace",
    "config refused",
    "deferred start",
    "detach",
    "duration on the boot clock",
    "duration over",
    "exclusive session",
    "file closed",
    "file complete",
    "file fails",
    "file full",
    "a file says that it is full",
    "file named by path",
    "file has writes waiting",
    "file stalls",
    "filtered trace",
    "flush acknowledged",
    "flush refused",
    "flush timed out",
    "folded states are read",
    "folded states are read from a clone",
    "forged packets",
    "incremental state cleared",
    "invented commits",
    "lock-down",
    "lock-down ends",
    "machine filter",
    "memory refused",
    "memory scribbled over",
    "observed events",
    "periodic flush",
    "producer filter",
    "read while recording",
    "second InitializeConnection",
    "session refused for a semaphore",
    "session semaphore",
    "several sessions at once",
    "state queried",
    "stats queried",
    "stop acknowledged",
    "stop flush failed with a name",
    "stop timed out",
    "somebody asks while work is under way",
    "suspend",
    "trigger called out",
    "trigger for a clone",
    "trigger that starts",
    "trigger that stops",
    "uncommitted chunks are scraped",
    "unregistered while recording",
    "what is overwritten is folded",
    "work is done in steps",
    "a commit in steps",
];

/// How often each of [`BEHAVIOURS`] occurred, and what was counted beside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// By behaviour.
    pub seen: BTreeMap<&'static str, u64>,
    /// Steps of worlds.
    pub steps: u64,
    /// Sessions that were made.
    pub sessions: u64,
    /// Packets that were checked, in traces that were read and in files.
    pub packets: u64,
    /// Of everything that happened, in order: two runs of a seed have the same.
    pub fingerprint: u64,
}

impl Report {
    /// Adds another world's.
    pub fn add(&mut self, other: &Self) {
        for (behaviour, count) in &other.seen {
            *self.seen.entry(behaviour).or_default() += count;
        }
        self.steps += other.steps;
        self.sessions += other.sessions;
        self.packets += other.packets;
        self.fingerprint ^= other.fingerprint;
    }

    /// The behaviours that have not occurred.
    pub fn missing(&self) -> Vec<&'static str> {
        BEHAVIOURS.iter().copied().filter(|behaviour| !self.seen.contains_key(behaviour)).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for behaviour in BEHAVIOURS {
            let count = self.seen.get(behaviour).copied().unwrap_or(0);
            writeln!(f, "{count:>12}  {behaviour}")?;
        }
        write!(f, "{} steps, {} sessions, {} packets checked", self.steps, self.sessions, self.packets)
    }
}

/// The one source of choices in a world.
pub(crate) struct Fate {
    rng: Rng,
    pub(crate) report: Report,
    is_told: bool,
    line: String,
    /// For the story: milliseconds since the world began.
    pub(crate) now_ms: u64,
}

impl Fate {
    pub(crate) fn new(seed: u64, is_told: bool) -> Self {
        Self { rng: Rng::new(seed), report: Report::default(), is_told, line: String::new(), now_ms: 0 }
    }

    /// A behaviour has occurred.
    pub(crate) fn saw(&mut self, behaviour: &'static str) {
        debug_assert!(BEHAVIOURS.contains(&behaviour), "{behaviour} is not in the list");
        *self.report.seen.entry(behaviour).or_default() += 1;
    }

    /// One line of the story.
    pub(crate) fn tell(&mut self, event: fmt::Arguments<'_>) {
        self.line.clear();
        // Writing to memory cannot fail.
        let _ = self.line.write_fmt(event);
        if self.is_told {
            println!("{:>6} {:>8} ms  {}", self.report.steps, self.now_ms, self.line);
        }
        for byte in self.line.bytes() {
            self.report.fingerprint =
                (self.report.fingerprint ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Deref for Fate {
    type Target = Rng;

    fn deref(&self) -> &Rng {
        &self.rng
    }
}

impl DerefMut for Fate {
    fn deref_mut(&mut self) -> &mut Rng {
        &mut self.rng
    }
}
