//! The words for losses: each way in which an event can fail to be in the trace, in one table that all commands use.
//!
//! `docs/losses.md` has a row for each kind, with how it is counted, the words, and a test that brings it about.

mod find;

use std::fmt;

use ferretto_protos::TraceStats;
use ferretto_trace_info::Tally;

pub(crate) use self::find::{find, listed};
use crate::record::plan::Plan;

/// The ways. Their names are those of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The kernel's buffer of a CPU was full.
    KernelBuffer,
    /// Another program switched the kernel's tracing off, or emptied it.
    KernelInterference,
    /// Pages of it could not be read.
    KernelPages,
    /// Events that the kernel does not have, or does not let be switched on; options that it refuses.
    KernelEvents,
    /// The kernel's ring of a CPU was full, in which samples are.
    Samples,
    /// There was no room for samples of a program's heap.
    HeapSamples,
    /// Shared memory between a program and the service was full.
    SharedMemory,
    /// There was none.
    NoSharedMemory,
    /// A program's threads outnumber the ids of writers.
    WriterIds,
    /// A ring overwrote what nobody had read.
    Overwritten,
    /// A buffer that keeps the oldest was full.
    BufferFull,
    /// A chunk that a ring could not take.
    ChunksRefused,
    /// Data that breaks the rules.
    BrokenData,
    /// Patches for what is no longer there.
    PatchesTooLate,
    /// Packets whose end never came.
    Unfinished,
    /// Data for a buffer that is not the program's.
    ForeignBuffer,
    /// Packets that a program may not write.
    InvalidPackets,
    /// Large packets beside others that nobody took.
    LargePackets,
    /// The file's largest size.
    FileFull,
    /// The trace filter.
    Filter,
    /// Times on clocks that nobody knows.
    Clocks,
    /// Packets that refer to what was overwritten.
    Names,
    /// Gaps that packets report and nothing else explains.
    Gaps,
    /// Data sources that started late or never.
    SlowStart,
    /// Data sources that did not answer the last flush.
    SlowFlush,
    /// Data sources that did not stop in time.
    SlowStop,
    /// The end of a program whose memory could not be looked at.
    UnseenEnd,
    /// Programs that the service did not let in.
    Refused,
    /// Programs that did not reach the service, or only late.
    NotReached,
    /// Programs that go on after the command whose children they are.
    Outlives,
    /// Data sources that were one too many.
    SourcesLeftOut,
    /// Data sources that programs do not record for this session.
    NotRecorded,
    /// States that were to keep what is overwritten.
    ProtoVm,
    /// Names and tracks that were to be kept when they were overwritten.
    SequenceStates,
    /// Data that goes elsewhere.
    Interceptor,
    /// Packets larger than anybody takes.
    Oversized,
    /// Packets of the file that cannot be read.
    Undecodable,
    /// The end of the file is missing.
    TornFile,
}

/// All of them, with the names of their rows in `docs/losses.md`.
const KINDS: &[(Kind, &str)] = &[
    (Kind::KernelBuffer, "kernel-buffer"),
    (Kind::KernelInterference, "kernel-interference"),
    (Kind::KernelPages, "kernel-pages"),
    (Kind::KernelEvents, "kernel-events"),
    (Kind::Samples, "samples"),
    (Kind::HeapSamples, "heap-samples"),
    (Kind::SharedMemory, "shared-memory"),
    (Kind::NoSharedMemory, "no-shared-memory"),
    (Kind::WriterIds, "writer-ids"),
    (Kind::Overwritten, "overwritten"),
    (Kind::BufferFull, "buffer-full"),
    (Kind::ChunksRefused, "chunks-refused"),
    (Kind::BrokenData, "broken-data"),
    (Kind::PatchesTooLate, "patches-too-late"),
    (Kind::Unfinished, "unfinished"),
    (Kind::ForeignBuffer, "foreign-buffer"),
    (Kind::InvalidPackets, "invalid-packets"),
    (Kind::LargePackets, "large-packets"),
    (Kind::FileFull, "file-full"),
    (Kind::Filter, "filter"),
    (Kind::Clocks, "clocks"),
    (Kind::Names, "names"),
    (Kind::Gaps, "gaps"),
    (Kind::SlowStart, "slow-start"),
    (Kind::SlowFlush, "slow-flush"),
    (Kind::SlowStop, "slow-stop"),
    (Kind::UnseenEnd, "unseen-end"),
    (Kind::Refused, "refused"),
    (Kind::NotReached, "not-reached"),
    (Kind::Outlives, "outlives"),
    (Kind::SourcesLeftOut, "sources-left-out"),
    (Kind::NotRecorded, "not-recorded"),
    (Kind::ProtoVm, "protovm"),
    (Kind::SequenceStates, "sequence-states"),
    (Kind::Interceptor, "interceptor"),
    (Kind::Oversized, "oversized"),
    (Kind::Undecodable, "undecodable"),
    (Kind::TornFile, "torn-file"),
];

/// What is known of a recording.
pub(crate) struct Evidence<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) tally: &'a Tally,
    /// The service's own count, at the end.
    pub(crate) stats: Option<&'a TraceStats>,
    /// Whether the packets were looked at.
    pub(crate) counted: bool,
    /// The recording is over: the data sources have said their last.
    pub(crate) is_over: bool,
    /// The trace ends in the middle of a packet.
    pub(crate) torn: bool,
    /// Packets too large to be looked into.
    pub(crate) huge: u64,
    /// What programs say that were not recorded, or only late: process id, name, and why.
    pub(crate) reports: &'a [String],
    /// Programs that go on after the command that started them: name and process id.
    pub(crate) outliving: &'a [String],
}

/// One cause of loss: what is missing and why, and what to do about it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Loss {
    pub(crate) kind: Kind,
    what: String,
    /// Empty if there is nothing to do.
    remedy: String,
}

/// All that can be said about losses.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) losses: Vec<Loss>,
    /// What could not be asked, each a thing.
    pub(crate) unknown: Vec<String>,
}

impl Kind {
    /// The name of its row in `docs/losses.md`.
    pub(crate) fn name(self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.remedy.is_empty() {
            true => write!(f, "{}.", self.what),
            false => write!(f, "{}; {}.", self.what, self.remedy),
        }
    }
}

impl Verdict {
    /// One line if nothing is known to be lost, else a list. Nothing is said to be lost only if that is known.
    pub(crate) fn render(&self) -> String {
        match (self.losses.is_empty(), self.unknown()) {
            (true, None) => "Lost: nothing.\n".to_owned(),
            (true, Some(unknown)) => format!("Lost: nothing known; {unknown}.\n"),
            (false, unknown) => {
                let more = unknown.map(|unknown| format!("perhaps more; {unknown}."));
                let lines = self.losses.iter().map(Loss::to_string).chain(more);
                lines.fold("Lost:\n".to_owned(), |text, line| format!("{text}  - {line}\n"))
            }
        }
    }

    /// A line for each loss, and one for what could not be asked; none if nothing was lost.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        let more = if self.losses.is_empty() { "" } else { " more" };
        let unknown = self.unknown().map(|unknown| format!("lost: nothing{more} known; {unknown}."));
        self.losses.iter().map(|loss| format!("lost: {loss}")).chain(unknown)
    }

    fn unknown(&self) -> Option<String> {
        (!self.unknown.is_empty()).then(|| format!("could not be asked: {}", self.unknown.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    /// The name of each row, of six cells of which none is empty.
    fn rows() -> Vec<String> {
        let page = std::fs::read_to_string(root().join("docs/losses.md")).unwrap();
        let row = |line: &str| {
            let cells: Vec<&str> = line.trim_matches(['|', ' ']).split(" | ").collect();
            assert!(cells.len() == 6 && cells.iter().all(|cell| !cell.trim().is_empty()), "{line}");
            cells[0].trim_matches([' ', '`']).to_owned()
        };
        page.lines().filter(|line| line.starts_with("| `")).map(row).collect()
    }

    #[test]
    fn every_kind_has_its_row() {
        let rows = rows();
        let names: BTreeSet<&str> = rows.iter().map(String::as_str).collect();
        assert_eq!(names.len(), rows.len(), "a row is there twice");
        assert!(KINDS.is_sorted_by(|a, b| a.0 < b.0) && KINDS.last().unwrap().0 == Kind::TornFile);
        assert_eq!(KINDS.len(), Kind::TornFile as usize + 1, "a kind has no name");
        for (kind, name) in KINDS {
            assert!(names.contains(name), "docs/losses.md has no row for {kind:?}, {name}");
        }
    }

    #[test]
    fn nothing_is_said_to_be_lost_only_if_all_could_be_asked() {
        let mut verdict = Verdict::default();
        assert_eq!(verdict.render(), "Lost: nothing.\n");
        assert_eq!(verdict.lines().count(), 0);
        verdict.unknown = vec!["the service".to_owned(), "the kernel".to_owned()];
        assert_eq!(verdict.render(), "Lost: nothing known; could not be asked: the service, the kernel.\n");
        let what = "a thing: it fell".to_owned();
        verdict.losses = vec![Loss { kind: Kind::Gaps, what, remedy: "hold it".to_owned() }];
        assert_eq!(
            verdict.render(),
            "Lost:\n  - a thing: it fell; hold it.\n  - perhaps more; could not be asked: the service, the kernel.\n"
        );
        assert_eq!(verdict.lines().next().unwrap(), "lost: a thing: it fell; hold it.");
    }
}
