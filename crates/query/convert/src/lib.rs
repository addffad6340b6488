//! The tables of a trace in the formats of other programs.
//!
//! A format is a file of its own with a constant [`Format`], which [`FORMATS`] lists: command line, help and errors go by that list. What a
//! format must never know: paths, signals, the command line. It is given a [`Source`], and [`Out`]s for its bytes; whoever calls it sees to
//! it that no half-written file gets a good name.
//!
//! | module | what it does |
//! |---|---|
//! | [`write`](mod@write) | a trace in any format, into a folder or one file |
//! | [`manifest`] | what a folder says of itself |
//! | [`json_text`] | texts and numbers as JSON has them |
//! | [`parquet`] | a table as Parquet |
//! | [`arrow`] | a table as an Arrow IPC file |
//! | [`csv`] | a table as comma-separated values |
//! | [`jsonl`] | a table as lines of JSON |
//! | [`json`] | Chrome's trace events |
//! | [`otlp`] | spans and logs for OpenTelemetry |
//! | [`firefox`] | a profile for profiler.firefox.com |
//! | [`pprof`], [`collapsed`], [`svg`] | call stacks and their cost: a profile, lines, a flame graph ([`stacks`], [`flame`]) |
//! | [`text`] | the kernel's events as its own text |
//! | [`packets`] | formats of packets, out of a file of packets or out of tables |
//! | [`pftrace`] | a trace of Perfetto |
//! | [`trace`] | the packets that tables are made into |
//! | [`txt`] | packets as protobuf's text, and back |
//!
//! ```
//! use ferretto_convert::{Form, find};
//!
//! assert!(matches!(find("csv").unwrap().form, Form::Table(_)));
//! ```

mod args;
pub mod arrow;
pub mod collapsed;
pub mod csv;
mod error;
pub mod firefox;
pub mod flame;
pub mod json;
pub mod json_text;
pub mod jsonl;
pub mod manifest;
pub mod otlp;
mod owners;
pub mod packets;
pub mod parquet;
pub mod pftrace;
pub mod pprof;
mod samples;
pub mod stacks;
pub mod svg;
#[cfg(test)]
mod testing;
pub mod text;
pub mod trace;
pub mod txt;
mod wall_clock;
pub mod write;

use std::io::Write;

use ferretto_arrow_tables::{Catalog, Relation};
use ferretto_import::Imported;
use ferretto_trace_tables::Tables;

pub use crate::error::Error;
pub use crate::write::{Written, into_file, into_folder};

/// All formats, in the order of the help.
pub const FORMATS: &[Format] = &[
    parquet::FORMAT,
    arrow::FORMAT,
    csv::FORMAT,
    jsonl::FORMAT,
    json::FORMAT,
    otlp::FORMAT,
    firefox::FORMAT,
    pprof::FORMAT,
    collapsed::FORMAT,
    svg::FORMAT,
    text::FORMAT,
    pftrace::FORMAT,
    txt::FORMAT,
];

/// Of what is written for other programs: names, types and meanings of tables and columns. A change that a reader must know of is another
/// number.
pub const SCHEMA_VERSION: u32 = 1;

/// What a trace can be written as.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// As the command line calls it.
    pub name: &'static str,
    /// A line for the help.
    pub doc: &'static str,
    /// How its files end, without the dot.
    pub extension: &'static str,
    /// Whether it would garble a terminal.
    pub is_binary: bool,
    /// What it is made of.
    pub form: Form,
}

/// What a format is made of, and the function that writes it.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// A file for each table: a folder of them, or a single one to a file or to stdout.
    Table(fn(&Relation<'_>, &Options, &mut Out<'_>) -> Result<(), Error>),
    /// One file for the whole trace.
    Trace(fn(&Source<'_>, &Options, &mut Out<'_>) -> Result<(), Error>),
    /// Some files, whose names depend on what is in the trace: a folder of them, or, if it is one, that one to a file or to stdout.
    Files(fn(&Source<'_>, &Options, &mut dyn Folder) -> Result<(), Error>),
    /// One file, packet by packet: of a file that has packets [`packets::copy`] needs no tables.
    Packets(MakeSink),
}

/// Makes what takes packets, and writes them.
pub type MakeSink = for<'a> fn(&'a mut Out<'_>, &Options) -> Box<dyn packets::Sink + 'a>;

/// Where bytes go. Buffered, and flushed by whoever made it.
pub type Out<'a> = dyn Write + Send + 'a;

/// Where files go.
pub trait Folder {
    /// Begins the next file; the one before is complete.
    ///
    /// # Errors
    ///
    /// If it cannot be made, or the one before could not be written to its end.
    fn create(&mut self, name: &str) -> Result<Box<Out<'_>>, Error>;
}

/// What is written.
#[derive(Debug)]
pub struct Source<'a> {
    /// The name of the file that it was read from, for people.
    pub name: &'a str,
    /// Everything that is known of the trace.
    pub tables: &'a Tables,
    /// What reading the file has shown of it.
    pub imported: &'a Imported,
}

impl<'a> Source<'a> {
    /// Its tables and views by name.
    #[must_use]
    pub fn catalog(&self) -> Catalog<'a> {
        Catalog::new(self.tables)
    }
}

/// What the user asked for. A format takes what concerns it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What stacks are made of, for formats of stacks: otherwise of the first of samples, memory and slices that the trace has.
    pub stacks_of: Option<stacks::Of>,
    /// Packets are compressed together.
    pub compress: bool,
}

/// The format of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}
