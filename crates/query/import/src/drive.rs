//! Drives the reading of a file.

use std::io::Read;

use ferretto_trace_model::Import;
use ferretto_trace_read::container::unpacked;
use ferretto_trace_read::{End, Reader};
use ferretto_trace_tables::Tables;

use crate::Error;

/// How to read.
#[derive(Clone, Debug, Default)]
pub struct Options {}

/// What reading a file has shown of it, beside its tables.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// How it ended.
    pub end: End,
}

/// Reads a trace through to its end.
///
/// # Errors
///
/// If its bytes cannot be had, or are no trace.
pub fn import(file: impl Read, _: &Options) -> Result<(Tables, Imported), Error> {
    let mut import = Import::default();
    let end = Reader::new(unpacked(file)?).for_each(|packet, place| import.push(packet, place))?;
    Ok((import.finish(), Imported { end }))
}
