//! Packets as protobuf's text, and back.
//!
//! The text is that of protobuf's own printers (`protoc --decode=perfetto.protos.Trace`, upstream's `traceconv text`): `packet { … }` for each
//! packet, fields by their names in the order of their numbers, two blanks a level. Extensions have their full names in brackets; those that
//! the trace describes itself (`extension_descriptor`) are known from there on. What nothing describes stands by its number: numbers as they
//! are, messages in braces, other bytes as a string. [`TraceOfText`] is the way back: bytes to text to bytes says the same.
//!
//! | module | what it does |
//! |---|---|
//! | `schema` | what messages, fields and enums are called |
//! | `print`, `float` | a packet as text |
//! | `parse` | text to packets, with the line and the column of a mistake |
//!
//! Memory: what is described, and one packet, as bytes and as text.

mod float;
mod parse;
mod print;
mod schema;

pub use parse::TraceOfText;

use crate::packets::Sink;
use crate::{Error, Form, Format, Options, Out};
use schema::Schema;

/// Protobuf's text.
pub const FORMAT: Format = Format {
    name: "txt",
    doc: "packets as protobuf's text, as traceconv has it; --to pftrace reads it back",
    extension: "pbtxt",
    is_binary: false,
    form: Form::Packets(sink),
};

fn sink<'a>(out: &'a mut Out<'_>, _: &Options) -> Box<dyn Sink + 'a> {
    Box::new(Texts { out, schema: Schema::own(), text: Vec::new() })
}

struct Texts<'a, 'b> {
    out: &'a mut Out<'b>,
    schema: Schema,
    text: Vec<u8>,
}

impl Sink for Texts<'_, '_> {
    fn packet(&mut self, packet: &[u8]) -> Result<(), Error> {
        self.text.clear();
        print::packet(&self.schema, packet, &mut self.text);
        self.schema.learn(packet);
        Ok(self.out.write_all(&self.text)?)
    }

    fn finish(&mut self) -> Result<(), Error> {
        Ok(self.out.flush()?)
    }
}

#[cfg(test)]
mod tests;
