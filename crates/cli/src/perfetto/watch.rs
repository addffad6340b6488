//! What `perfetto` says of losses, on stderr beside the lines of upstream's: nothing if nothing was lost.

use std::fs::File;
use std::os::unix::fs::FileExt;

use ferretto_consumer::{Consumer, ReadSummary};
use ferretto_printable::printable;
use ferretto_protos::TraceConfig;
use ferretto_trace_info::Tally;
use ferretto_trace_read::PacketStream;

use crate::losses::{self, Evidence};
use crate::record::plan::Plan;

/// A file that the service wrote is looked through up to here: it takes a second a gigabyte, and who traces for hours waits for more.
const MAX_SCANNED_BYTES: u64 = 1 << 30;
/// Bytes read at once.
const PIECE_BYTES: usize = 1 << 20;

/// Looks at what goes into the trace.
pub(crate) struct Watch {
    plan: Plan,
    tally: Tally,
    stream: PacketStream,
    counted: bool,
    is_over: bool,
}

impl Watch {
    /// Of a session with this config.
    pub(crate) fn of_session(config: &TraceConfig) -> Self {
        Self {
            plan: Plan::of(config, true),
            tally: Tally::default(),
            stream: PacketStream::default(),
            counted: true,
            is_over: true,
        }
    }

    /// Of a copy of a session that goes on. That its rings have gone round is what they are for.
    pub(crate) fn of_clone() -> Self {
        let plan = Plan { from_file: true, is_ring: true, ..Plan::default() };
        Self { plan, is_over: false, ..Self::of_session(&TraceConfig::default()) }
    }

    pub(crate) fn packet(&mut self, packet: &[u8]) {
        self.tally.packet(packet);
    }

    pub(crate) fn read_back(&mut self, read: ReadSummary) {
        self.tally.read_back(read.oversized_packets, read.torn);
    }

    /// A file that others wrote.
    pub(crate) fn file(&mut self, file: Option<&File>) {
        let is_small = |file: &&File| {
            file.metadata().is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_SCANNED_BYTES)
        };
        let Some(file) = file.filter(is_small) else {
            self.counted = false;
            return;
        };
        let mut piece = vec![0; PIECE_BYTES];
        let mut at = 0;
        while let Ok(len @ 1..) = file.read_at(&mut piece, at) {
            let tally = &mut self.tally;
            self.stream.push(piece.get(..len).unwrap_or_default(), &mut |packet, _| tally.packet(packet));
            at += len as u64;
        }
    }

    /// Says what was lost, if anything was. Ask before the session is freed.
    pub(crate) fn say(&self, consumer: &mut Consumer) {
        let stats = consumer.stats().ok();
        let verdict = losses::find(&Evidence {
            plan: &self.plan,
            tally: &self.tally,
            stats: stats.as_ref(),
            counted: self.counted,
            is_over: self.is_over,
            torn: self.stream.is_torn(),
            huge: self.stream.huge(),
            reports: &[],
            outliving: &[],
        });
        if !verdict.losses.is_empty() || stats.is_none() {
            verdict.lines().for_each(|line| eprintln!("{}", printable(&line)));
        }
    }
}
