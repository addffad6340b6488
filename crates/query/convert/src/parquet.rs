//! Parquet, made to be small and to be asked in parts.
//!
//! Rows are by time, so that the bounds of a row group, and those of a page, say which times are not in it. Numbers that are few (of a thread, of
//! a processor) have a dictionary; those that are many (times, ids) are kept as differences from one to the next.
//! What is left is packed by LZ4, in the form that all readers know (`LZ4_RAW`).

use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::{Compression, Encoding};
use ::parquet::file::metadata::SortingColumn;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::schema::types::ColumnPath;
use ferretto_arrow_tables::{BATCH_ROWS, Column, Relation, batches};
use ferretto_trace_tables::{Kind, Value};
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
/// A column of more different numbers than this has no dictionary.
const MAX_DICTIONARY_NUMBERS: usize = 4 << 10;

fn write(relation: &Relation<'_>, _: &Options, out: &mut Out<'_>) -> Result<(), Error> {
    let batches = batches(relation, BATCH_ROWS)?;
    let mut writer = ArrowWriter::try_new(out, batches.schema(), Some(properties(relation)))?;
    for batch in batches {
        writer.write(&batch?)?;
    }
    writer.close()?;
    Ok(())
}

fn properties(relation: &Relation<'_>) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("ferretto-query version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::LZ4_RAW)
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS));
    let columns = relation.columns();
    if let Some(ts) =
        columns.iter().position(|column| column.name == "ts").and_then(|at| i32::try_from(at).ok())
    {
        let by_time = SortingColumn { column_idx: ts, descending: false, nulls_first: true };
        properties = properties.set_sorting_columns(Some(vec![by_time]));
    }
    for column in columns.iter().filter(|column| column.kind() == Kind::Int && has_many(relation, column)) {
        let path = ColumnPath::from(column.name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

/// Whether a column has more different numbers than a dictionary is good for.
fn has_many(relation: &Relation<'_>, column: &Column<'_>) -> bool {
    let mut seen: HashSet<i64, RandomState> = HashSet::default();
    (0..relation.len()).any(|row| {
        if let Value::Int(value) = relation.cell(column, row) {
            seen.insert(value);
        }
        seen.len() > MAX_DICTIONARY_NUMBERS
    })
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
