//! What went wrong, with the place where it did: the table `trace_import_logs` (upstream: import_logs_tracker.cc).

use ferretto_trace_read::Place;
use ferretto_trace_tables::tables::TraceImportLogRow;

use crate::args::{Arg, ArgValue};
use crate::model::Model;
use crate::stats::Stat;

/// Rows of the table; what goes wrong more often is only counted. Ours: a hostile trace is nothing but errors.
const MAX_ROWS: usize = 1 << 20;

/// Where something went wrong.
#[derive(Clone, Copy, Debug)]
pub enum Where {
    /// In a packet, when it arrived.
    At(Place),
    /// At a time, when its turn came.
    When(i64),
}

impl Model {
    /// Counts what went wrong, and logs it.
    #[cold]
    pub fn log(&mut self, stat: Stat, place: Option<Where>, args: &[(&str, ArgValue)]) {
        self.stats.count(stat);
        if self.tables.trace_import_logs.len() >= MAX_ROWS {
            return;
        }
        let args: Vec<Arg> = args.iter().map(|(key, value)| self.arg(key, *value)).collect();
        let list = self.args.intern(&args);
        let (ts, byte_offset) = match place {
            Some(Where::At(place)) => (None, Some(i64::try_from(place.offset).unwrap_or(i64::MAX))),
            Some(Where::When(ts)) => (Some(ts), None),
            None => (None, None),
        };
        let row = TraceImportLogRow {
            trace_id: Some(self.file),
            ts,
            byte_offset,
            stat_key: stat as u32,
            arg_set_id: self.args.write(list, &mut self.tables),
        };
        self.tables.trace_import_logs.push(row);
    }
}
