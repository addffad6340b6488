//! Where the memory of processes lay: a packet for each process and time.

use ferretto_protos::fields::trace_packet::SMAPS_PACKET;
use ferretto_protos::fields::{packed_smaps as packed, smaps_entry as entry, smaps_packet as field};
use ferretto_protozero::{Message, varint};
use ferretto_trace_tables::tables::ProfilerSmapsTable;
use ferretto_trace_tables::{Str, Tables};

use super::number;
use super::sequence::Sequence;
use crate::Error;
use crate::owners::pid;
use crate::packets::Sink;

type Numbers = fn(&ProfilerSmapsTable) -> &[i64];

/// What a message of one mapping has.
const OF_ENTRIES: [(u32, Numbers); 11] = [
    (entry::SIZE_KB, |table| &table.size_kb),
    (entry::PRIVATE_DIRTY_KB, |table| &table.private_dirty_kb),
    (entry::SWAP_KB, |table| &table.swap_kb),
    (entry::START_ADDRESS, |table| &table.start_address),
    (entry::MODULE_TIMESTAMP, |table| &table.module_timestamp),
    (entry::PROTECTION_FLAGS, |table| &table.protection_flags),
    (entry::PRIVATE_CLEAN_RESIDENT_KB, |table| &table.private_clean_resident_kb),
    (entry::SHARED_DIRTY_RESIDENT_KB, |table| &table.shared_dirty_resident_kb),
    (entry::SHARED_CLEAN_RESIDENT_KB, |table| &table.shared_clean_resident_kb),
    (entry::LOCKED_KB, |table| &table.locked_kb),
    (entry::PROPORTIONAL_RESIDENT_KB, |table| &table.proportional_resident_kb),
];

/// What only such messages have.
const ONLY_OF_ENTRIES: [Numbers; 3] =
    [|table| &table.start_address, |table| &table.module_timestamp, |table| &table.protection_flags];

/// What columns have.
const OF_COLUMNS: [(u32, Numbers); 12] = [
    (packed::SIZE_KB, |table| &table.size_kb),
    (packed::RSS_KB, |table| &table.rss_kb),
    (packed::ANONYMOUS_KB, |table| &table.anonymous_kb),
    (packed::SWAP_KB, |table| &table.swap_kb),
    (packed::SHARED_CLEAN_KB, |table| &table.shared_clean_resident_kb),
    (packed::SHARED_DIRTY_KB, |table| &table.shared_dirty_resident_kb),
    (packed::PRIVATE_CLEAN_KB, |table| &table.private_clean_resident_kb),
    (packed::PRIVATE_DIRTY_KB, |table| &table.private_dirty_kb),
    (packed::LOCKED_KB, |table| &table.locked_kb),
    (packed::PSS_KB, |table| &table.proportional_resident_kb),
    (packed::PSS_DIRTY_KB, |table| &table.pss_dirty_kb),
    (packed::SWAP_PSS_KB, |table| &table.swap_pss_kb),
];

pub(super) fn write(tables: &Tables, sink: &mut dyn Sink) -> Result<(), Error> {
    let table = &tables.profiler_smaps;
    let mut sequence = Sequence::new(number::SMAPS);
    let rows: Vec<usize> = (0..table.upid.len()).collect();
    let mut bytes = Vec::new();
    for rows in rows.chunk_by(|one, other| {
        table.upid.get(*one) == table.upid.get(*other) && table.ts.get(*one) == table.ts.get(*other)
    }) {
        let Some(first) = rows.first() else { continue };
        bytes.clear();
        let mut packet = Message::new(&mut bytes);
        if let Some(upid) = table.upid.get(*first) {
            packet.varint(field::PID, pid(tables, *upid).cast_unsigned());
        }
        match rows.iter().any(|row| is_entry(table, *row)) {
            true => rows.iter().for_each(|row| write_entry(tables, *row, &mut packet.nested(field::ENTRIES))),
            false => write_columns(tables, rows, &mut packet.nested(field::PACKED_ENTRIES)),
        }
        drop(packet);
        sequence.put(table.ts.get(*first).copied(), SMAPS_PACKET, &bytes, sink)?;
    }
    Ok(())
}

/// Whether a row has what columns have not.
fn is_entry(table: &ProfilerSmapsTable, row: usize) -> bool {
    let has = |texts: &Vec<Option<Str>>| texts.get(row).is_some_and(Option::is_some);
    has(&table.file_name)
        || has(&table.module_debugid)
        || has(&table.module_debug_path)
        || ONLY_OF_ENTRIES.iter().any(|numbers| numbers(table).get(row).is_some_and(|value| *value != 0))
}

fn write_entry(tables: &Tables, row: usize, message: &mut Message<'_, Vec<u8>>) {
    let table = &tables.profiler_smaps;
    let texts = [
        (entry::PATH, &table.path),
        (entry::FILE_NAME, &table.file_name),
        (entry::MODULE_DEBUGID, &table.module_debugid),
        (entry::MODULE_DEBUG_PATH, &table.module_debug_path),
    ];
    for (number, texts) in texts {
        if let Some(text) = texts.get(row).copied().flatten() {
            message.string(number, tables.strings.get(text));
        }
    }
    for (number, numbers) in OF_ENTRIES {
        message.int(number, numbers(table).get(row).copied().unwrap_or(0));
    }
}

/// Each row has a path of its own: with the counts of their mappings if one has several.
fn write_columns(tables: &Tables, rows: &[usize], columns: &mut Message<'_, Vec<u8>>) {
    let table = &tables.profiler_smaps;
    for row in rows {
        let path = table.path.get(*row).copied().flatten();
        columns.string(packed::STRING_TABLE, path.map_or("", |path| tables.strings.get(path)));
    }
    let count = |row: &usize| u64::from(table.aggregate_count.get(*row).copied().unwrap_or(1));
    if rows.iter().any(|row| count(row) != 1) {
        put(columns, packed::AGGREGATE_COUNT, rows.iter().map(count));
    } else {
        put(columns, packed::NAME_ID, 0..rows.len() as u64);
    }
    for (number, numbers) in OF_COLUMNS {
        let value = |row: &usize| numbers(table).get(*row).copied().unwrap_or(0).cast_unsigned();
        put(columns, number, rows.iter().map(value));
    }
}

fn put(columns: &mut Message<'_, Vec<u8>>, number: u32, values: impl Iterator<Item = u64>) {
    let mut bytes = Vec::new();
    values.for_each(|value| varint::encode(value, &mut bytes));
    columns.bytes(number, &bytes);
}
