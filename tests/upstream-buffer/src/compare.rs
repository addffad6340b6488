//! Runs scripts on both sides and stops at the first difference, made as small as it gets.
//!
//! What differs on purpose, or cannot be compared, is kept out, as narrowly as possible:
//!
//! | what | where it is kept out |
//! |---|---|
//! | calls in an order that upstream forbids: writing to a clone, reading before `begin` | `generate/trace_buffer.rs`, `repaired` |
//! | a read after the end of a pass, which upstream does not expect | `replay.rs`, `TheirBuffer::pass_over` |
//! | a chunk that is missing within one walk through a sequence, of which only ours tells | [`without_gaps_that_only_ours_tells`] |
//! | the writer of an overwritten packet, which upstream's buffer does not tell | [`without_writers`] |
//! | ProtoVM programs with a string for a number, or with a field that v59.0 does not know | `generate/screen.rs` |
//! | encoding a ProtoVM state that is a number, of which upstream dies | `generate/protovm.rs`, `is_dangerous`; [`Report::cut`] |
//! | filter programs with semantic types above 65,533, ranges beyond 32 bits, or field 0 in an overlay: ours refuses them | `generate/filter.rs`, `program` |
//! | messages with field numbers that are none, or more than 100 deep: ours filters them away | `filter_script.rs`, `without_what_only_ours_refuses` |
//! | regular expressions: those that both engines take alike; an empty message, which upstream's filter takes for an error | `generate/filter.rs` |
//! | whatever else upstream aborts on, or does not end with | [`Report::died`] |
//!
//! Programs stay within the bounds that ours sets and upstream does not, for they are small.

use std::io;
use std::time::{Duration, Instant};

use crate::Kind;
use crate::filter_script::without_what_only_ours_refuses;
use crate::generate::{filter, protovm, trace_buffer};
use crate::peer::{Answer, Peer, Side};
use crate::rng::Rng;
use crate::shrink::{Operation, shrink, to_text};

/// What was compared.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) scripts: u64,
    pub(crate) operations: u64,
    /// Scripts on which upstream died, and that were compared without the operations that are dangerous to it.
    pub(crate) cut: u64,
    /// Scripts on which upstream aborted or did not end all the same; nothing is compared then.
    pub(crate) died: u64,
}

impl Report {
    /// Has enough been compared to say something?
    pub(crate) const fn is_sound(&self) -> bool {
        self.died <= self.scripts / 1000
    }
}

/// A script on which the sides differ.
#[derive(Debug)]
pub(crate) struct Difference {
    pub(crate) seed: u64,
    pub(crate) script: String,
    pub(crate) ours: String,
    pub(crate) theirs: String,
}

/// Compares the scripts of `count` seeds from `first` on.
///
/// # Errors
/// If the processes of the two sides cannot be started.
pub(crate) fn compare(kind: Kind, first: u64, count: u64) -> io::Result<Result<Report, Box<Difference>>> {
    match kind {
        Kind::TraceBuffer => Comparison::new(kind).scripts(first, count, trace_buffer::script),
        Kind::Protovm => Comparison::new(kind).scripts(first, count, protovm::script),
        Kind::Filter => Comparison::new(kind).scripts(first, count, filter::script),
    }
}

/// The script of a seed.
pub(crate) fn script_of(kind: Kind, seed: u64) -> String {
    let mut rng = Rng::new(seed);
    match kind {
        Kind::TraceBuffer => to_text(&trace_buffer::script(&mut rng)),
        Kind::Protovm => to_text(&protovm::script(&mut rng)),
        Kind::Filter => to_text(&filter::script(&mut rng)),
    }
}

/// How often the report says how far it is.
const PROGRESS: Duration = Duration::from_secs(10);

struct Comparison {
    kind: Kind,
    ours: Peer,
    theirs: Peer,
    report: Report,
}

/// What both sides answer to a script.
enum Answers {
    Same,
    Different { ours: String, theirs: String },
    Died(&'static str),
}

impl Comparison {
    fn new(kind: Kind) -> Self {
        let [ours, theirs] = [Side::Ours, Side::Theirs].map(|side| Peer::new(side, kind));
        Self { kind, ours, theirs, report: Report::default() }
    }

    fn scripts<O: Operation>(
        mut self,
        first: u64,
        count: u64,
        generate: impl Fn(&mut Rng) -> Vec<O>,
    ) -> io::Result<Result<Report, Box<Difference>>> {
        let mut said = Instant::now();
        for seed in first..first.saturating_add(count) {
            let mut script = generate(&mut Rng::new(seed));
            let mut answers = self.run(&to_text(&script))?;
            if matches!(answers, Answers::Died(_)) && script.iter().any(Operation::is_dangerous) {
                script.retain(|operation| !operation.is_dangerous());
                answers = self.run(&to_text(&script))?;
                self.report.cut += 1;
            }
            self.report.scripts += 1;
            self.report.operations += script.len() as u64;
            match answers {
                Answers::Same => {}
                Answers::Died(how) => {
                    self.report.died += 1;
                    println!("{}: upstream {how} on seed {seed}", self.kind.name());
                }
                Answers::Different { .. } => return Ok(Err(Box::new(self.smallest(seed, script)?))),
            }
            if said.elapsed() > PROGRESS {
                said = Instant::now();
                println!("{}: {} of {count} scripts", self.kind.name(), self.report.scripts);
            }
        }
        Ok(Ok(self.report))
    }

    fn run(&mut self, script: &str) -> io::Result<Answers> {
        let (ours, theirs) = (self.ours.run(script)?, self.theirs.run(script)?);
        Ok(match (ours, theirs) {
            (Answer::Died(how), theirs) => {
                Answers::Different { ours: format!("{how}\n"), theirs: format!("{theirs:?}\n") }
            }
            (Answer::Printed(_), Answer::Died(how)) => Answers::Died(how),
            (Answer::Printed(ours), Answer::Printed(theirs)) => {
                let ours = without_writers(&ours);
                let theirs = match self.kind {
                    Kind::Filter => without_what_only_ours_refuses(&ours, &theirs),
                    Kind::TraceBuffer | Kind::Protovm => theirs,
                };
                let ours = without_gaps_that_only_ours_tells(&ours, &theirs);
                if ours == theirs { Answers::Same } else { Answers::Different { ours, theirs } }
            }
        })
    }

    fn smallest<O: Operation>(&mut self, seed: u64, script: Vec<O>) -> io::Result<Difference> {
        println!("{}: seed {seed} differs; looking for a smaller script", self.kind.name());
        let script =
            shrink(script, |script| matches!(self.run(&to_text(script)), Ok(Answers::Different { .. })));
        let script = to_text(&script);
        let (ours, theirs) = match self.run(&script)? {
            Answers::Different { ours, theirs } => (ours, theirs),
            Answers::Same | Answers::Died(_) => Default::default(),
        };
        Ok(Difference { seed, script, ours, theirs })
    }
}

/// Chunks of which one in between never came are drained in one walk if the ring has them in another order. Upstream says nothing of the
/// gap then (trace_buffer_v2.cc compares numbers where a walk begins).
fn without_gaps_that_only_ours_tells(ours: &str, theirs: &str) -> String {
    let mut theirs = theirs.lines();
    let as_theirs = |line: &str| match (theirs.next(), packet_of(line)) {
        (Some(their_line), Some((loss, packet))) => match packet_of(their_line) {
            Some((their_loss, their_packet)) if packet == their_packet && loss == their_loss | TOLD_GAP => {
                format!("{their_line}\n")
            }
            _ => format!("{line}\n"),
        },
        _ => format!("{line}\n"),
    };
    ours.lines().map(as_theirs).collect()
}

/// `DATA_LOSS_PRESENT` and `READ_GAP`.
const TOLD_GAP: u32 = 3;

/// The loss before a packet, and all else of its line.
fn packet_of(line: &str) -> Option<(u32, [&str; 3])> {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["packet", producer, writer, loss, bytes] => Some((loss.parse().ok()?, [producer, writer, bytes])),
        _ => None,
    }
}

/// Upstream's buffer does not say which writer a packet was of when it hands over what it overwrites: its answers have a 0
/// there.
fn without_writers(printed: &str) -> String {
    let without_writer = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["gone", producer, _, packet] => format!("gone {producer} 0 {packet}\n"),
            _ => format!("{line}\n"),
        }
    };
    printed.lines().map(without_writer).collect()
}
