//! Parquet, made to be small and to be asked in parts.
//!
//! Rows are by time, so that the bounds of a row group, and those of a page, say which times are not in it. Numbers that only grow (times, ids)
//! are kept as differences from one to the next, those that are few (of a thread, of a processor) have a dictionary. Of others either the
//! numbers stand one after the other, or first all their lowest bytes, then all the next, and so on, whichever a sample shows to be smaller:
//! where numbers repeat, or what many have in common is in their higher bytes. All is packed by gzip, which all readers know: a quarter to a
//! half less than with LZ4, and zstd would be C.

use std::io::Write;

use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::{Compression, Encoding, GzipLevel};
use ::parquet::file::metadata::SortingColumn;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::schema::types::ColumnPath;
use ferretto_arrow_tables::{BATCH_ROWS, Column, Relation, batches};
use ferretto_trace_tables::{Kind, Value};
use flate2::write::GzEncoder;
use foldhash::fast::RandomState;
use hashbrown::HashSet;

use crate::{Error, Form, Format, Options, Out};

/// A table as Parquet.
pub const FORMAT: Format = Format {
    name: "parquet",
    doc: "Parquet, a file a table, for DuckDB, pandas, Spark and others",
    extension: "parquet",
    is_binary: true,
    form: Form::Table(write),
};

/// Readers take a row group a thread, and leave out whole ones; each has dictionaries of its own.
const ROW_GROUP_ROWS: usize = 256 << 10;
/// Numbers that are looked at to tell how a column is kept.
const SAMPLE: usize = 64 << 10;
/// A column of more different numbers than this has no dictionary.
const MAX_DICTIONARY_NUMBERS: usize = 4 << 10;

fn write(relation: &Relation<'_>, _: &Options, out: &mut Out<'_>) -> Result<(), Error> {
    let batches = batches(relation, BATCH_ROWS)?;
    let mut writer = ArrowWriter::try_new(out, batches.schema(), Some(properties(relation)?))?;
    for batch in batches {
        writer.write(&batch?)?;
    }
    writer.close()?;
    Ok(())
}

fn properties(relation: &Relation<'_>) -> Result<WriterProperties, Error> {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("ferretto-query version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::GZIP(GzipLevel::default()))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS));
    let columns = relation.columns();
    if let Some(ts) =
        columns.iter().position(|column| column.name == "ts").and_then(|at| i32::try_from(at).ok())
    {
        let by_time = SortingColumn { column_idx: ts, descending: false, nulls_first: true };
        properties = properties.set_sorting_columns(Some(vec![by_time]));
    }
    for column in columns.iter().filter(|column| matches!(column.kind(), Kind::Int | Kind::Real)) {
        let encoding = match Numbers::of(relation, column) {
            Numbers::Growing => Encoding::DELTA_BINARY_PACKED,
            Numbers::Few => continue,
            Numbers::Many => of_many(relation, column)?,
        };
        let path = ColumnPath::from(column.name);
        properties =
            properties.set_column_dictionary_enabled(path.clone(), false).set_column_encoding(path, encoding);
    }
    Ok(properties.build())
}

/// How a column of many different numbers is smallest.
fn of_many(relation: &Relation<'_>, column: &Column<'_>) -> Result<Encoding, Error> {
    let number = |row| match relation.cell(column, row) {
        Value::Int(value) => Some(value.to_le_bytes()),
        Value::Real(value) => Some(value.to_le_bytes()),
        _ => None,
    };
    let numbers: Vec<[u8; 8]> = (0..relation.len()).filter_map(number).take(SAMPLE).collect();
    let split: Vec<u8> =
        (0..8).flat_map(|byte| numbers.iter().filter_map(move |it| it.get(byte))).copied().collect();
    let is_split_smaller = packed_bytes(&split)? < packed_bytes(numbers.as_flattened())?;
    Ok(if is_split_smaller { Encoding::BYTE_STREAM_SPLIT } else { Encoding::PLAIN })
}

fn packed_bytes(bytes: &[u8]) -> std::io::Result<usize> {
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(bytes)?;
    Ok(gzip.finish()?.len())
}

/// What a column's numbers are like, which says how they are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    /// None is below the one before it, and they are not few.
    Growing,
    /// Few different ones.
    Few,
    Many,
}

impl Numbers {
    fn of(relation: &Relation<'_>, column: &Column<'_>) -> Self {
        let mut seen: HashSet<u64, RandomState> = HashSet::default();
        // There are no differences of floating-point numbers.
        let (mut is_growing, mut last) = (column.kind() == Kind::Int, i64::MIN);
        for row in 0..relation.len() {
            let bits = match relation.cell(column, row) {
                Value::Int(value) => {
                    is_growing &= last <= value;
                    last = value;
                    value as u64
                }
                Value::Real(value) => value.to_bits(),
                _ => continue,
            };
            if seen.len() <= MAX_DICTIONARY_NUMBERS {
                seen.insert(bits);
            } else if !is_growing {
                return Self::Many;
            }
        }
        match seen.len() {
            0..=MAX_DICTIONARY_NUMBERS if !is_growing || seen.len() <= relation.len() / 2 => Self::Few,
            _ if is_growing => Self::Growing,
            _ => Self::Many,
        }
    }
}

#[cfg(test)]
mod tests {
    use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use ::parquet::basic::Encoding;
    use ::parquet::file::statistics::Statistics;
    use arrow_array::StringArray;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int32Type, Int64Type};
    use bytes::Bytes;
    use ferretto_arrow_tables::Catalog;
    use ferretto_trace_tables::tables::{CounterRow, HeapProfileAllocationRow};

    use super::{Numbers, of_many};
    use crate::write::tests::{folder, tables};

    fn slices(count: i64) -> ParquetRecordBatchReaderBuilder<Bytes> {
        let file = folder("parquet", &tables(count)).remove("slice.parquet").unwrap();
        ParquetRecordBatchReaderBuilder::try_new(file.into()).unwrap()
    }

    #[test]
    fn rows_are_by_time_and_groups_say_which_times_they_have() {
        let reader = slices(300_000);
        let groups = reader.metadata().row_groups();
        let bounds = groups.iter().map(|group| match group.column(1).statistics() {
            Some(Statistics::Int64(bounds)) => {
                (group.num_rows(), *bounds.min_opt().unwrap(), *bounds.max_opt().unwrap())
            }
            other => panic!("{other:?}"),
        });
        assert_eq!(bounds.collect::<Vec<_>>(), [(262_144, 10, 2_621_440), (37_856, 2_621_450, 3_000_000)]);
        assert!(groups[0].sorting_columns().is_some_and(|by| by[0].column_idx == 1));
        assert!(groups[0].column(1).encodings().any(|it| it == Encoding::DELTA_BINARY_PACKED));
        assert!(groups[0].column(2).encodings().any(|it| it == Encoding::RLE_DICTIONARY));
    }

    #[test]
    fn numbers_are_kept_by_what_they_are_like() {
        let mut tables = tables(100_000);
        for n in 0..100_000_i64 {
            let value = (n * n % 60_013) as f64;
            tables.counter.push(CounterRow { ts: n * n % 50_021, value, ..CounterRow::default() });
        }
        tables.heap_profile_allocation.push(HeapProfileAllocationRow::default());
        let of = |table: &str, column: &str| {
            let relation = Catalog::new(&tables).find(table).unwrap();
            let column = relation.columns().iter().find(|it| it.name == column).copied().unwrap();
            Numbers::of(&relation, &column)
        };
        assert_eq!(of("slice", "id"), Numbers::Growing);
        assert_eq!(of("slice", "dur"), Numbers::Few);
        assert_eq!([of("counter", "ts"), of("counter", "value")], [Numbers::Many; 2]);
        assert_eq!(of("slice", "parent_id"), Numbers::Few, "there are none");
        // Tables of one row and of none are written, too.
        assert!(folder("parquet", &tables)["heap_profile_allocation.parquet"].ends_with(b"PAR1"));
    }

    #[test]
    fn many_numbers_are_kept_as_a_sample_shows() {
        let mut tables = tables(0);
        let mut random = 1u64;
        for n in 0..20_000u64 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // Of one the higher bytes are the same, the other mostly repeats one of some numbers.
            let ts = random as i64 & 0x3f_ffff;
            let seed = if n % 4 == 0 { random } else { random % 500 };
            let repeated = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            tables.counter.push(CounterRow {
                ts,
                value: f64::from_bits(repeated >> 2),
                ..CounterRow::default()
            });
        }
        let relation = Catalog::new(&tables).find("counter").unwrap();
        let of = |name| {
            let column = relation.columns().iter().find(|it| it.name == name).unwrap();
            (Numbers::of(&relation, column), of_many(&relation, column).unwrap())
        };
        assert_eq!(of("ts"), (Numbers::Many, Encoding::BYTE_STREAM_SPLIT));
        assert_eq!(of("value"), (Numbers::Many, Encoding::PLAIN));
    }

    #[test]
    fn what_is_written_is_read() {
        let reader = slices(1000);
        assert_eq!(
            reader.schema().field_with_name("dur").unwrap().metadata()["doc"].split(';').next(),
            Some("How long it took")
        );
        let batch = reader.build().unwrap().next().unwrap().unwrap();
        let ids = batch.column_by_name("id").unwrap().as_primitive::<Int64Type>();
        let names = batch.column_by_name("name").unwrap().as_dictionary::<Int32Type>();
        let texts: &StringArray = names.values().as_string();
        for row in 0..1000 {
            let id = ids.value(row);
            assert_eq!(id, 999 - row as i64);
            let name = names.key(row).map(|key| texts.value(key).to_owned());
            assert_eq!(name, (id % 5 != 0).then(|| format!("name {}", id % 5)));
        }
    }
}
