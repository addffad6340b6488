//! Functions and lines as packets that may stand at the end of any trace (upstream: profile_common.proto, `ModuleSymbols`).

use std::io::{self, Write};

use ferretto_protos::fields::{address_symbols, line, module_symbols, trace_packet};
use ferretto_protozero::Message;
use ferretto_symbols::lines::Place;

use crate::Module;

/// `Trace.packet`.
const PACKET: u32 = 1;
/// A packet is written when it has so many bytes: writers of profiles cut theirs so (upstream: kPacketSizeThreshold is 400,000).
const PACKET_BYTES: usize = 256 << 10;

/// Writes symbols of one file.
pub(crate) struct Packets<'a, W> {
    module: &'a Module,
    to: W,
    /// The fields of `ModuleSymbols` that are not written yet.
    pending: Vec<u8>,
}

impl<'a, W: Write> Packets<'a, W> {
    pub(crate) fn new(module: &'a Module, to: W) -> Self {
        Self { module, to, pending: Vec::new() }
    }

    /// What is at an address, innermost first.
    pub(crate) fn push(&mut self, address: u64, places: &[Place]) -> io::Result<()> {
        let mut fields = Message::new(&mut self.pending);
        let mut symbols = fields.nested(module_symbols::ADDRESS_SYMBOLS);
        symbols.varint(address_symbols::ADDRESS, address);
        for place in places {
            let mut line = symbols.nested(address_symbols::LINES);
            if let Some(function) = &place.function {
                line.string(line::FUNCTION_NAME, function);
            }
            if let Some(file) = &place.file {
                line.string(line::SOURCE_FILE_NAME, file);
            }
            if let Some(number) = place.line {
                line.varint(line::LINE_NUMBER, number.into());
            }
        }
        drop(symbols);
        drop(fields);
        if self.pending.len() >= PACKET_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(self.pending.len() + 64);
        let mut trace = Message::new(&mut bytes);
        let mut packet = trace.nested(PACKET);
        let mut symbols = packet.nested(trace_packet::MODULE_SYMBOLS);
        symbols.bytes(module_symbols::PATH, &self.module.path);
        symbols.bytes(module_symbols::BUILD_ID, &self.module.build_id);
        symbols.raw(&self.pending);
        drop(symbols);
        drop(packet);
        drop(trace);
        self.pending.clear();
        self.to.write_all(&bytes)
    }

    /// All are there.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        if self.pending.is_empty() { Ok(()) } else { self.flush() }
    }
}
