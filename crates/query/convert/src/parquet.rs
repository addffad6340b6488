//! Parquet, made to be small and to be asked in parts.
//!
//! Rows are by time, so that the bounds of a row group, and those of a page, say which times are not in it. Numbers that only grow (times, ids)
//! are kept as differences from one to the next. How others are smallest no rule says: by a dictionary, as differences where they nearly grow
//! or come in steps, one after the other where they repeat, or first all their lowest bytes, then all the next, and so on, where what many
//! have in common is in their higher bytes. So a sample of each table is written in each way, and each column is kept as it was smallest. All
//! is packed by gzip, which all readers know: a quarter to a half less than with LZ4, and zstd would be C.

use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::{Compression, Encoding, GzipLevel};
use ::parquet::file::metadata::SortingColumn;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use ::parquet::schema::types::ColumnPath;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use ferretto_arrow_tables::{BATCH_ROWS, Batches, Relation, batches};

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
/// What readers may pass over within a row group; columns of fewer rows are one page, whose bounds are those of the group.
const PAGE_ROWS: usize = 20_000;
/// Rows that are written in each way, out of the middle of the table, to tell which is the smallest: some ten pages take the time of one row
/// group at most, and are as the others are.
const SAMPLE_ROWS: usize = 64 << 10;
/// Of fewer rows no way is worth a sample.
const MIN_SAMPLE_ROWS: usize = 64;

fn write(relation: &Relation<'_>, _: &Options, out: &mut Out<'_>) -> Result<(), Error> {
    let batches = batches(relation, BATCH_ROWS)?;
    let ways = ways(relation, &batches)?;
    let mut writer = ArrowWriter::try_new(out, batches.schema(), Some(properties(relation, &ways)))?;
    for batch in batches {
        writer.write(&batch?)?;
    }
    writer.close()?;
    Ok(())
}

/// How a column is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Dictionary,
    As(Encoding),
}

/// All ways to keep whole numbers. Of those with a point there are no differences.
const WAYS: [Way; 4] = [
    Way::Dictionary,
    Way::As(Encoding::DELTA_BINARY_PACKED),
    Way::As(Encoding::BYTE_STREAM_SPLIT),
    Way::As(Encoding::PLAIN),
];

impl Way {
    fn set(self, properties: WriterPropertiesBuilder, path: ColumnPath) -> WriterPropertiesBuilder {
        match self {
            Self::Dictionary => properties.set_column_dictionary_enabled(path, true),
            Self::As(encoding) => properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, encoding),
        }
    }
}

fn properties(relation: &Relation<'_>, ways: &[Way]) -> WriterProperties {
    let columns = relation.columns();
    let mut properties = packed().set_max_row_group_row_count(Some(ROW_GROUP_ROWS));
    if relation.len() <= PAGE_ROWS {
        properties =
            properties.set_statistics_enabled(EnabledStatistics::Chunk).set_offset_index_disabled(true);
    }
    if let Some(ts) =
        columns.iter().position(|column| column.name == "ts").and_then(|at| i32::try_from(at).ok())
    {
        let by_time = SortingColumn { column_idx: ts, descending: false, nulls_first: true };
        properties = properties.set_sorting_columns(Some(vec![by_time]));
    }
    let each = columns.iter().zip(ways);
    each.fold(properties, |properties, (column, way)| way.set(properties, column.name.into())).build()
}

fn packed() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_created_by(concat!("ferretto-query version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::GZIP(GzipLevel::default()))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_data_page_row_count_limit(PAGE_ROWS)
}

/// How each column is smallest, as a sample shows. Texts and truths have dictionaries.
fn ways(relation: &Relation<'_>, batches: &Batches<'_, '_>) -> Result<Vec<Way>, Error> {
    let mut ways = vec![Way::Dictionary; relation.columns().len()];
    let begin = relation.len().saturating_sub(SAMPLE_ROWS) / 2;
    let sample = batches.batch(begin..relation.len().min(begin + SAMPLE_ROWS))?;
    if sample.num_rows() < MIN_SAMPLE_ROWS {
        return Ok(ways);
    }
    let mut unsure = Vec::new();
    for (at, (way, column)) in ways.iter_mut().zip(sample.columns()).enumerate() {
        match Numbers::of(column) {
            Numbers::Growing => *way = Way::As(Encoding::DELTA_BINARY_PACKED),
            Numbers::Same => {}
            Numbers::Other => unsure.push((at, u64::MAX)),
        }
    }
    for try_way in WAYS {
        // What cannot be kept so is not asked.
        let is_possible = |at: usize| {
            try_way != Way::As(Encoding::DELTA_BINARY_PACKED)
                || *sample.column(at).data_type() == DataType::Int64
        };
        let asked: Vec<usize> = unsure.iter().map(|(at, _)| *at).filter(|at| is_possible(*at)).collect();
        let sizes = sizes(&sample.project(&asked)?, try_way)?;
        for (at, bytes) in asked.into_iter().zip(sizes) {
            let best = unsure.iter_mut().find(|(column, best)| *column == at && bytes < *best);
            if let (Some((_, best)), Some(way)) = (best, ways.get_mut(at)) {
                (*best, *way) = (bytes, try_way);
            }
        }
    }
    Ok(ways)
}

/// How large the columns are if they are written in this way.
fn sizes(sample: &RecordBatch, way: Way) -> Result<Vec<u64>, Error> {
    let schema = sample.schema();
    let properties = schema
        .fields()
        .iter()
        .fold(packed(), |properties, field| way.set(properties, field.name().as_str().into()));
    let mut writer = ArrowWriter::try_new(std::io::sink(), schema, Some(properties.build()))?;
    writer.write(sample)?;
    let written = writer.close()?;
    let columns = written.row_groups().iter().flat_map(|group| group.columns());
    Ok(columns.map(|column| u64::try_from(column.compressed_size()).unwrap_or(0)).collect())
}

/// What is told of a column's numbers without writing them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    /// None is below the one before it, and more than half of them are above.
    Growing,
    /// All the same or none, or no numbers.
    Same,
    Other,
}

impl Numbers {
    fn of(column: &dyn Array) -> Self {
        if let Some(numbers) = column.as_primitive_opt::<Int64Type>() {
            return Self::of_all(numbers.iter().flatten());
        }
        let Some(numbers) = column.as_primitive_opt::<Float64Type>() else { return Self::Same };
        match Self::of_all(numbers.iter().flatten().map(f64::to_bits)) {
            Self::Growing => Self::Other,
            other => other,
        }
    }

    fn of_all<T: PartialOrd>(mut numbers: impl Iterator<Item = T>) -> Self {
        let Some(mut last) = numbers.next() else { return Self::Same };
        let (mut above, mut not_above, mut is_growing) = (0, 0, true);
        for number in numbers {
            is_growing &= last <= number;
            match last == number {
                true => not_above += 1,
                false => above += 1,
            }
            last = number;
        }
        match (above, is_growing) {
            (0, _) => Self::Same,
            (above, true) if above >= not_above => Self::Growing,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use ::parquet::basic::Encoding;
    use ::parquet::file::statistics::Statistics;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int32Type, Int64Type};
    use arrow_array::{BooleanArray, Float64Array, Int64Array, StringArray};
    use bytes::Bytes;
    use ferretto_arrow_tables::{BATCH_ROWS, Catalog, batches};
    use ferretto_trace_tables::tables::{CounterRow, HeapProfileAllocationRow, Tables};
    use ferretto_trace_tables::{ArgSetId, TrackId};

    use super::{Numbers, Way, ways};
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
    fn tables_of_one_page_have_bounds_once() {
        for (rows, has_pages) in [(20_000, false), (20_001, true)] {
            let reader = slices(rows);
            let ts = reader.metadata().row_group(0).column(1).clone();
            assert!(
                matches!(ts.statistics(), Some(Statistics::Int64(bounds)) if bounds.max_opt() == Some(&(rows * 10)))
            );
            assert_eq!(
                (ts.column_index_offset().is_some(), ts.offset_index_offset().is_some()),
                (has_pages, has_pages)
            );
        }
    }

    /// How the columns of a table are kept, by their names.
    fn kept(tables: &Tables, table: &str) -> BTreeMap<&'static str, Way> {
        let relation = Catalog::new(tables).find(table).unwrap();
        let ways = ways(&relation, &batches(&relation, BATCH_ROWS).unwrap()).unwrap();
        relation.columns().iter().map(|column| column.name).zip(ways).collect()
    }

    #[test]
    fn numbers_are_kept_as_a_sample_is_smallest() {
        let mut tables = tables(0);
        let mut random = 1u64;
        for n in 0..20_000u64 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let repeated = (random % 500).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            tables.counter.push(CounterRow {
                // Of which the higher bytes are the same.
                ts: random as i64 & 0x3f_ffff,
                // Of which there are few.
                value: f64::from_bits(repeated >> 2),
                // In steps.
                track_id: TrackId((n % 20) as u32),
                // Growing, each some times.
                arg_set_id: Some(ArgSetId((n / 10) as u32)),
            });
        }
        let kept = kept(&tables, "counter");
        let expected = [
            ("arg_set_id", Way::As(Encoding::DELTA_BINARY_PACKED)),
            ("id", Way::As(Encoding::DELTA_BINARY_PACKED)),
            ("track_id", Way::As(Encoding::DELTA_BINARY_PACKED)),
            ("ts", Way::As(Encoding::BYTE_STREAM_SPLIT)),
            ("value", Way::Dictionary),
        ];
        assert_eq!(kept.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn tables_of_one_row_and_of_none_are_written_too() {
        let mut tables = tables(0);
        tables.heap_profile_allocation.push(HeapProfileAllocationRow::default());
        let files = folder("parquet", &tables);
        for name in ["heap_profile_allocation.parquet", "sched.parquet"] {
            assert!(files[name].ends_with(b"PAR1"));
        }
        assert!(kept(&tables, "heap_profile_allocation").values().all(|way| *way == Way::Dictionary));
    }

    #[test]
    fn numbers_that_grow_or_are_the_same_need_no_sample() {
        let of = |numbers: Vec<Option<i64>>| Numbers::of(&Int64Array::from(numbers));
        assert_eq!(of(vec![Some(1), None, Some(2), Some(2), Some(4)]), Numbers::Growing);
        assert_eq!(of(vec![Some(1), Some(1), Some(1), Some(4)]), Numbers::Other);
        assert_eq!(of(vec![Some(1), Some(3), Some(2)]), Numbers::Other);
        assert_eq!([of(vec![Some(7), None, Some(7)]), of(vec![None]), of(vec![])], [Numbers::Same; 3]);
        assert_eq!(Numbers::of(&Float64Array::from(vec![1.0, 2.0, 3.0])), Numbers::Other);
        assert_eq!(Numbers::of(&BooleanArray::from(vec![true, false])), Numbers::Same);
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
