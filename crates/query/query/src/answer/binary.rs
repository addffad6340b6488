//! Arrow's stream, and Parquet.

use arrow_ipc::writer::StreamWriter;
use ferretto_analysis::Rows;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, GzipLevel};
use parquet::file::properties::WriterProperties;

use crate::answer::{Error, Out};

pub(crate) fn arrow(rows: Rows, out: &mut dyn Out) -> Result<(), Error> {
    let fail = |error: arrow::error::ArrowError| match error {
        arrow::error::ArrowError::IoError(_, error) => Error::Io(error),
        other => Error::Other(other.to_string()),
    };
    let mut writer = StreamWriter::try_new(out, &rows.schema()).map_err(fail)?;
    for batch in rows {
        writer.write(&batch?).map_err(fail)?;
    }
    writer.finish().map_err(fail)
}

pub(crate) fn parquet(rows: Rows, out: &mut dyn Out) -> Result<(), Error> {
    let fail = |error: parquet::errors::ParquetError| Error::Other(error.to_string());
    let properties =
        WriterProperties::builder().set_compression(Compression::GZIP(GzipLevel::default())).build();
    let mut writer = ArrowWriter::try_new(out, rows.schema(), Some(properties)).map_err(fail)?;
    for batch in rows {
        writer.write(&batch?).map_err(fail)?;
    }
    writer.close().map_err(fail)?;
    Ok(())
}
