//! What is counted because it was lost, wrong or odd.
//!
//! Names, severities and sources are upstream's (tp/storage/stats.h).

use std::collections::BTreeMap;

use ferretto_trace_tables::tables::{StatRow, Tables};
use ferretto_trace_tables::{MachineId, TraceFileId};

macro_rules! stats {
    ($($(#[doc = $doc:literal])+ $variant:ident, $name:literal, $severity:ident, $source:ident;)*) => {
        /// A counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Stat {
            $($(#[doc = $doc])+ $variant,)*
        }

        /// All of them, in the order of their numbers.
        const ALL: &[Definition] = &[
            $(Definition {
                stat: Stat::$variant,
                name: $name,
                severity: Severity::$severity,
                source: Source::$source,
                doc: concat!($($doc,)+),
            },)*
        ];
    };
}

struct Definition {
    stat: Stat,
    name: &'static str,
    severity: Severity,
    source: Source,
    doc: &'static str,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Not at all.
    Info,
    /// Not much.
    Notice,
    /// Data is missing.
    DataLoss,
    /// Data may be wrong.
    Error,
}

/// Where it was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// While the trace was recorded.
    Trace,
    /// While it was read.
    Analysis,
}

stats! {
    /// Packets that cannot be read, as no protobuf.
    TokenizerSkippedPackets, "tokenizer_skipped_packets", Info, Analysis;
    /// Packets that rely on what their sequence had interned before something of it was lost.
    PacketSkippedSeqNeedsIncrementalStateInvalid,
        "packet_skipped_seq_needs_incremental_state_invalid", Notice, Analysis;
    /// Interned data that came when what it belongs to was lost.
    InternedDataSkippedIncrementalStateInvalid, "interned_data_skipped_incremental_state_invalid", Notice, Analysis;
    /// Packets on a clock that no snapshot knows.
    ClockSyncFailureUnknownSourceClock, "clock_sync_failure_unknown_source_clock", Error, Analysis;
    /// Packets on a clock that no snapshot relates to the trace's.
    ClockSyncFailureNoPath, "clock_sync_failure_no_path", Error, Analysis;
    /// Events whose time is before 0.
    TraceSorterNegativeTimestampDropped, "trace_sorter_negative_timestamp_dropped", Error, Analysis;
    /// Events of programs that cannot be read.
    TrackEventTokenizerErrors, "track_event_tokenizer_errors", Info, Analysis;
    /// Events of programs that fit nowhere.
    TrackEventParserErrors, "track_event_parser_errors", Info, Analysis;
    /// Slices below so many others that they were left out.
    SliceMaxDepthExceeded, "slice_max_depth_exceeded", DataLoss, Analysis;
    /// Slices of negative length.
    SliceNegativeDuration, "slice_negative_duration", DataLoss, Analysis;
    /// Complete slices that end after what they begin in.
    SliceDropOverlappingCompleteEvent, "slice_drop_overlapping_complete_event", DataLoss, Analysis;
    /// Slices that were ended by what they lie within.
    MisplacedEndEvent, "misplaced_end_event", DataLoss, Analysis;
}

/// What each counter stands at.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    values: BTreeMap<(Stat, Option<i64>), i64>,
}

impl Stats {
    /// One more.
    pub fn count(&mut self, stat: Stat) {
        self.add(stat, None, 1);
    }

    /// `by` more, of the thing `index` where there is one counter for each.
    pub fn add(&mut self, stat: Stat, index: Option<i64>, by: i64) {
        let value = self.values.entry((stat, index)).or_default();
        *value = value.saturating_add(by);
    }

    /// What a counter that the trace itself brought stood at.
    pub fn set(&mut self, stat: Stat, index: Option<i64>, value: i64) {
        self.values.insert((stat, index), value);
    }

    /// What one stands at.
    #[must_use]
    pub fn get(&self, stat: Stat, index: Option<i64>) -> i64 {
        self.values.get(&(stat, index)).copied().unwrap_or(0)
    }

    /// Writes the table `stats`: all single counters, also those at 0, and those of things that were counted.
    pub fn write(&self, tables: &mut Tables) {
        for (key, definition) in ALL.iter().enumerate() {
            let of_this = (definition.stat, None)..=(definition.stat, Some(i64::MAX));
            let mut values: Vec<_> =
                self.values.range(of_this).map(|((_, index), value)| (*index, *value)).collect();
            if values.is_empty() {
                values.push((None, 0));
            }
            for (index, value) in values {
                let severity = match definition.severity {
                    Severity::Info => "info",
                    Severity::Notice => "notice",
                    Severity::DataLoss => "data_loss",
                    Severity::Error => "error",
                };
                let source = match definition.source {
                    Source::Trace => "trace",
                    Source::Analysis => "analysis",
                };
                let strings = &mut tables.strings;
                let row = StatRow {
                    name: Some(strings.intern(definition.name)),
                    key: u32::try_from(key).unwrap_or(u32::MAX),
                    idx: index,
                    severity: Some(strings.intern(severity)),
                    source: Some(strings.intern(source)),
                    value,
                    description: Some(strings.intern(definition.doc.trim_ascii())),
                    machine_id: Some(MachineId(0)),
                    trace_id: Some(TraceFileId(0)),
                };
                tables.stats.push(row);
            }
        }
    }
}
