//! Traces of OpenTelemetry (OTLP): `TracesData`, or the requests of an exporter one after the other, as protobuf or as JSON. Upstream reads
//! neither.
//!
//! | module | what it does |
//! |---|---|
//! | `span` | what both forms say |
//! | `proto` | the messages |
//! | `json` | the same as JSON: one document, or one a line |
//! | `apply` | spans to slices, links to flows |
//!
//! A resource is a process: its name is `service.name`, its number `process.pid` if that is said, and its other attributes are arguments of the
//! process. Spans of a scope are slices on tracks of that scope, in that process; a span with `thread.id` is on its thread's. A span lies within
//! its parent where it is on the same tracks, and nothing else lies there meanwhile; what overlaps has a track of its own. Attributes are
//! arguments `debug.KEY`, events are instants on their span's track, a link is a flow from the span that it names. Times are those of the wall
//! clock.
//!
//! Memory: the file, if it is protobuf; some 200 bytes a span, beside its texts.

mod apply;
mod json;
mod proto;
mod span;

use std::io::BufRead;

use ferretto_trace_model::model::Model;

use crate::Error;
use span::Spans;

/// Reads a file of messages.
///
/// # Errors
///
/// If its bytes cannot be had, are too many, or are no such messages from some place on. Spans before it are in the model.
pub fn read(file: impl BufRead, model: &mut Model) -> Result<(), Error> {
    let mut spans = Spans::new(model);
    let end = proto::read(file, &mut spans);
    spans.finish();
    end
}

/// Reads a file of JSON.
///
/// # Errors
///
/// If its bytes cannot be had, or are no such JSON from some place on. Spans before it are in the model.
pub fn read_json(file: impl BufRead, model: &mut Model) -> Result<(), Error> {
    let mut spans = Spans::new(model);
    let end = json::read(file, &mut spans);
    spans.finish();
    end
}
