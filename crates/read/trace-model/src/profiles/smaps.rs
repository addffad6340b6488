//! Where the memory of a process lies (upstream: profile_module.cc, `ParseSmapsPacket`).
//!
//! Newer recorders write columns: each value of all mappings, then the next value of all.

use ferretto_protos::fields::{packed_smaps as packed, smaps_entry as entry, smaps_packet as field};
use ferretto_trace_tables::tables::{ProfilerSmapsRow, Tables};
use ferretto_trace_tables::{Str, Upid};

use crate::event::WholePacket;
use crate::model::Model;
use crate::stats::Stat;
use crate::wire;

/// What the kernel adds to the path of a file that was deleted.
const DELETED: &str = " (deleted)";

#[derive(Clone, Copy)]
struct Path {
    whole: Str,
    trimmed: Str,
    is_deleted: bool,
}

impl Path {
    fn read(bytes: &[u8], tables: &mut Tables) -> Self {
        let whole = tables.strings.intern_bytes(bytes);
        let trimmed = bytes.strip_suffix(DELETED.as_bytes());
        Self {
            whole,
            trimmed: trimmed.map_or(whole, |bytes| tables.strings.intern_bytes(bytes)),
            is_deleted: trimmed.is_some(),
        }
    }

    fn row(self, upid: Upid, ts: i64) -> ProfilerSmapsRow {
        ProfilerSmapsRow {
            upid,
            ts,
            path: Some(self.whole),
            path_trimmed: Some(self.trimmed),
            aggregate_count: 1,
            is_deleted: self.is_deleted,
            ..ProfilerSmapsRow::default()
        }
    }
}

impl Model {
    pub(super) fn apply_smaps(&mut self, ts: i64, packet: &WholePacket) {
        let pid = wire::number(&packet.data, field::PID).unwrap_or(0) as u32;
        let (tables, processes) = self.processes(packet.origin.machine);
        let upid = processes.process(tables, i64::from(pid));
        if let Some(columns) = wire::bytes(&packet.data, field::PACKED_ENTRIES) {
            if !push_packed(&mut self.tables, ts, upid, columns) {
                self.stats.count(Stat::SmapsParserErrors);
            }
            return;
        }
        for message in wire::all_bytes(&packet.data, field::ENTRIES) {
            let row = read_entry(message, &mut self.tables, upid, ts);
            self.tables.profiler_smaps.push(row);
        }
    }
}

fn read_entry(message: &[u8], tables: &mut Tables, upid: Upid, ts: i64) -> ProfilerSmapsRow {
    let text = |field| wire::bytes(message, field).unwrap_or_default();
    let mut row = Path::read(text(entry::PATH), tables).row(upid, ts);
    for part in wire::fields(message) {
        let number = part.value.as_u64().unwrap_or(0) as i64;
        let mut text = || Some(tables.strings.intern_bytes(part.value.as_bytes().unwrap_or_default()));
        match part.number {
            entry::SIZE_KB => row.size_kb = number,
            entry::PRIVATE_DIRTY_KB => row.private_dirty_kb = number,
            entry::SWAP_KB => row.swap_kb = number,
            entry::FILE_NAME => row.file_name = text(),
            entry::START_ADDRESS => row.start_address = number,
            entry::MODULE_TIMESTAMP => row.module_timestamp = number,
            entry::MODULE_DEBUGID => row.module_debugid = text(),
            entry::MODULE_DEBUG_PATH => row.module_debug_path = text(),
            // Of 32 bits in upstream's table.
            entry::PROTECTION_FLAGS => row.protection_flags = i64::from(number as i32),
            entry::PRIVATE_CLEAN_RESIDENT_KB => row.private_clean_resident_kb = number,
            entry::SHARED_DIRTY_RESIDENT_KB => row.shared_dirty_resident_kb = number,
            entry::SHARED_CLEAN_RESIDENT_KB => row.shared_clean_resident_kb = number,
            entry::LOCKED_KB => row.locked_kb = number,
            entry::PROPORTIONAL_RESIDENT_KB => row.proportional_resident_kb = number,
            _ => {}
        }
    }
    row
}

type Cell = fn(&mut ProfilerSmapsRow) -> &mut i64;

/// The columns of values, and the cell that each is for.
const COLUMNS: [(u32, Cell); 12] = [
    (packed::SIZE_KB, |row| &mut row.size_kb),
    (packed::RSS_KB, |row| &mut row.rss_kb),
    (packed::ANONYMOUS_KB, |row| &mut row.anonymous_kb),
    (packed::SWAP_KB, |row| &mut row.swap_kb),
    (packed::SHARED_CLEAN_KB, |row| &mut row.shared_clean_resident_kb),
    (packed::SHARED_DIRTY_KB, |row| &mut row.shared_dirty_resident_kb),
    (packed::PRIVATE_CLEAN_KB, |row| &mut row.private_clean_resident_kb),
    (packed::PRIVATE_DIRTY_KB, |row| &mut row.private_dirty_kb),
    (packed::LOCKED_KB, |row| &mut row.locked_kb),
    (packed::PSS_KB, |row| &mut row.proportional_resident_kb),
    (packed::PSS_DIRTY_KB, |row| &mut row.pss_dirty_kb),
    (packed::SWAP_PSS_KB, |row| &mut row.swap_pss_kb),
];

/// Writes as many rows as all columns have; false if one has more, or names a path that is none.
///
/// Mappings are said one by one, each with the number of its path; or summed up by path, in the order of the paths, with how many each is.
fn push_packed(tables: &mut Tables, ts: i64, upid: Upid, message: &[u8]) -> bool {
    let paths: Vec<Path> =
        wire::all_bytes(message, packed::STRING_TABLE).map(|path| Path::read(path, tables)).collect();
    let column = |field| wire::all_numbers(message, field).collect::<Vec<u64>>();
    let (names, sums) = (column(packed::NAME_ID), column(packed::AGGREGATE_COUNT));
    let is_summed = wire::fields(message).any(|part| part.number == packed::AGGREGATE_COUNT);
    let values = COLUMNS.map(|(field, _)| column(field));
    let said = values.iter().filter(|values| !values.is_empty()).map(Vec::len);
    let leading = if is_summed { sums.len() } else { names.len() };
    let rows = said.min().unwrap_or(leading).min(leading);
    for at in 0..rows {
        let name = if is_summed { Some(at) } else { names.get(at).and_then(|it| usize::try_from(*it).ok()) };
        let Some(path) = name.and_then(|name| paths.get(name)) else { return false };
        let mut row = path.row(upid, ts);
        if is_summed {
            row.aggregate_count = sums.get(at).copied().unwrap_or(0) as u32;
        }
        for ((_, cell), values) in COLUMNS.iter().zip(&values) {
            *cell(&mut row) = values.get(at).copied().unwrap_or(0) as i64;
        }
        tables.profiler_smaps.push(row);
    }
    let is_even = |values: &Vec<u64>| values.is_empty() || values.len() == rows;
    is_even(&names) && is_even(&sums) && values.iter().all(is_even) && (!is_summed || rows == paths.len())
}

#[cfg(test)]
mod tests {
    use ferretto_protozero::Message;

    use super::*;

    /// Paths, numbers of paths, counts, sizes; sizes of rows, and whether it is well.
    #[test]
    fn columns_of_unequal_length_are_counted() {
        type Case<'a> = (&'a [&'a str], &'a [u64], &'a [u64], &'a [u64], &'a [i64], bool);
        let cases: [Case<'_>; 6] = [
            (&["a", "b (deleted)"], &[1, 0, 1], &[], &[4, 8, 12], &[4, 8, 12], true),
            (&["a", "b"], &[], &[2, 3], &[4, 8], &[4, 8], true),
            (&["a", "b"], &[], &[2], &[4], &[4], false),
            (&["a"], &[0, 1], &[], &[4, 8], &[4], false),
            (&["a"], &[0, 0], &[], &[4], &[4], false),
            (&[], &[], &[], &[4], &[], false),
        ];
        for (paths, names, counts, sizes, expected, is_well) in cases {
            let mut bytes = Vec::new();
            let mut message = Message::new(&mut bytes);
            for path in paths {
                message.bytes(packed::STRING_TABLE, path.as_bytes());
            }
            for (field, values) in
                [(packed::NAME_ID, names), (packed::AGGREGATE_COUNT, counts), (packed::SIZE_KB, sizes)]
            {
                if !values.is_empty() {
                    message.packed_varints(field, values.iter().copied());
                }
            }
            drop(message);
            let mut tables = Tables::default();
            assert_eq!(push_packed(&mut tables, 5, Upid(0), &bytes), is_well, "{paths:?} {names:?}");
            assert_eq!(tables.profiler_smaps.size_kb, expected);
        }
    }
}
