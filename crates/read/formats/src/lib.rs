//! Profiles and traces that other programs write.
//!
//! [`recognize`] says which format a file is by its first bytes. Each format has a reader, a module: it takes the bytes of the file, without
//! what it is packed into, and fills a [`Model`] as packets would. Names, rules and rows are those of
//! upstream's Trace Processor.
//!
//! | module | what it reads | what it fills |
//! |---|---|---|
//! | [`chrome_json`] | Chrome's trace events | slices, counters, flows, states of threads |
//! | [`collapsed`] | stacks a line, as `flamegraph.pl` takes them | `__intrinsic_aggregate_sample` |
//! | [`pprof`] | `profile.proto`, of Go and of many profilers | `__intrinsic_aggregate_sample` |
//! | [`perf_data`] | recordings of `perf record`, from a file or a pipe | samples, counters, threads |
//! | [`perf_text`] | what `perf script` prints | `__intrinsic_profiler_sample` |
//! | [`ftrace_text`] | the kernel's events as text | what its events fill |
//! | [`firefox`] | profiles of Firefox and samply, raw or processed | `__intrinsic_profiler_sample`, slices |
//! | [`otlp`] | spans of OpenTelemetry, as protobuf or JSON | slices, flows |
//! | [`strace`] | what `strace -f -ttt` prints | slices |
//! | [`manifest`] | what an archive says of its files' times | |
//! | [`lines`] | lines of bounded length | |
//!
//! A file is hostile: no reader panics, and what it holds in memory is in proportion to the file.
//!
//! ```
//! use ferretto_trace_formats::recognize::{Format, recognize};
//! use ferretto_trace_formats::read;
//! use ferretto_trace_model::model::Model;
//!
//! let file = b"main;work;sleep 3\nmain;work 1\n";
//! assert_eq!(recognize(file), Some(Format::CollapsedStack));
//! let mut model = Model::default();
//! read(Format::CollapsedStack, &file[..], &mut model).unwrap();
//! let tables = model.finish();
//! assert_eq!(tables.aggregate_sample.value, [3.0, 1.0]);
//! ```

pub mod chrome_json;
pub mod collapsed;
pub mod firefox;
pub mod ftrace_text;
mod json;
mod lanes;
pub mod lines;
pub mod manifest;
pub mod otlp;
pub mod perf_data;
pub mod perf_text;
pub mod pprof;
pub mod strace;

use std::fmt;
use std::io::{self, BufRead};

use ferretto_trace_model::model::Model;

pub use ferretto_trace_read::recognize;

use recognize::{Format, Use};

/// Why a file cannot be read on. What was read before is in the model.
#[derive(Debug)]
pub enum Error {
    /// Its bytes cannot be had.
    Io(io::Error),
    /// It is not what it seemed to be.
    Broken {
        /// Where in the unpacked file.
        offset: u64,
        /// What is there, or is not.
        what: &'static str,
    },
    /// It has more bytes than are read of its format.
    TooLarge {
        /// The bound.
        bytes: u64,
    },
    /// There is no reader for this format here.
    NoReader(Format),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the file cannot be read: {error}"),
            Self::Broken { offset, what } => write!(f, "at offset {offset}: {what}"),
            Self::TooLarge { bytes } => {
                write!(f, "it has more than the {bytes} bytes that are read of such a file")
            }
            Self::NoReader(format) => write!(f, "files of the format {} are not read", format.name()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Whether [`read`] reads files of a format.
#[must_use]
pub const fn has_reader(format: Format) -> bool {
    matches!(format.use_(), Use::Imported)
}

/// Reads a file of a format that was recognized.
///
/// # Errors
///
/// If its bytes cannot be had, are not of that format, are too many, or if the format has no reader here.
pub fn read(format: Format, file: impl BufRead, model: &mut Model) -> Result<(), Error> {
    match format {
        Format::CollapsedStack => collapsed::read(file, model),
        Format::Pprof => pprof::read(file, model),
        Format::Perf => perf_data::read(file, model),
        Format::PerfText => perf_text::read(file, model),
        Format::Json => chrome_json::read(file, model),
        Format::Systrace => ftrace_text::read(file, model),
        Format::Strace => strace::read(file, model),
        Format::Gecko => firefox::read(file, model),
        Format::Otlp => otlp::read(file, model),
        Format::OtlpJson => otlp::read_json(file, model),
        other => Err(Error::NoReader(other)),
    }
}
