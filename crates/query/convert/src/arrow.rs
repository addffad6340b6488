//! Arrow IPC files (the file format, also called Feather 2), not compressed: programs map them into memory as they are.

use arrow_ipc::writer::FileWriter;
use ferretto_arrow_tables::{BATCH_ROWS, Relation, batches};

use crate::{Error, Form, Format, Options, Out};

/// A table as an Arrow IPC file.
pub const FORMAT: Format = Format {
    name: "arrow",
    doc: "Arrow IPC, a file a table, for memory mapping",
    extension: "arrow",
    is_binary: true,
    form: Form::Table(write),
};

fn write(relation: &Relation<'_>, _: &Options, out: &mut Out<'_>) -> Result<(), Error> {
    let batches = batches(relation, BATCH_ROWS)?;
    let mut writer = FileWriter::try_new(out, &batches.schema())?;
    for batch in batches {
        writer.write(&batch?)?;
    }
    Ok(writer.finish()?)
}

#[cfg(test)]
mod tests {
    use arrow_ipc::reader::FileReader;

    use crate::write::tests::{folder, tables};

    #[test]
    fn what_is_written_is_read_with_documentation() {
        let files = folder("arrow", &tables(100_000));
        let reader = FileReader::try_new(std::io::Cursor::new(&files["slice.arrow"]), None).unwrap();
        let schema = reader.schema();
        assert_eq!(schema.field_with_name("ts").unwrap().metadata()["doc"], "When it began.");
        let rows: Vec<_> = reader.map(|batch| batch.unwrap().num_rows()).collect();
        assert_eq!(rows, [65_536, 34_464]);
    }
}
