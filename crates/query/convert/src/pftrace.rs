//! A trace of Perfetto, of packets as they are: as its own recorders write it, and as everything that reads traces takes it.
//!
//! What has packets already is copied ([`crate::packets`]), everything else made of tables ([`crate::trace`]). With
//! [`Options::compress`] packets are deflated together, in batches like those of services that compress.

use std::io::Write;

use ferretto_protos::fields::trace_packet::COMPRESSED_PACKETS;
use ferretto_protozero::Message;
use flate2::Compression;
use flate2::write::ZlibEncoder;

use crate::packets::Sink;
use crate::{Error, Form, Format, Options, Out};

/// A trace of Perfetto.
pub const FORMAT: Format = Format {
    name: "pftrace",
    doc: "a trace of Perfetto, out of any format that is read; of one already without what says nothing",
    extension: "pftrace",
    is_binary: true,
    form: Form::Packets(sink),
};

/// `Trace.packet`.
const PACKET: u32 = 1;
/// Packets are compressed together up to so many bytes, as services do it. A reader unpacks a batch as a whole: it bounds that.
const BATCH_BYTES: usize = 512 << 10;
/// Longer packets are not compressed. Ours: no reader of ours unpacks more than four times as much at once.
const MAX_COMPRESSED_PACKET_BYTES: usize = 16 << 20;

fn sink<'a>(out: &'a mut Out<'_>, options: &Options) -> Box<dyn Sink + 'a> {
    let plain = Plain { out, frame: Vec::new() };
    match options.compress {
        true => Box::new(Compressed { plain, batch: Vec::new() }),
        false => Box::new(plain),
    }
}

/// Packets one after the other.
struct Plain<'a, 'b> {
    out: &'a mut Out<'b>,
    frame: Vec<u8>,
}

impl Sink for Plain<'_, '_> {
    fn packet(&mut self, packet: &[u8]) -> Result<(), Error> {
        self.frame.clear();
        Message::new(&mut self.frame).bytes(PACKET, packet);
        Ok(self.out.write_all(&self.frame)?)
    }

    fn finish(&mut self) -> Result<(), Error> {
        Ok(self.out.flush()?)
    }
}

/// Packets together.
struct Compressed<'a, 'b> {
    plain: Plain<'a, 'b>,
    /// Those that wait, with their frames.
    batch: Vec<u8>,
}

impl Compressed<'_, '_> {
    fn write_batch(&mut self) -> Result<(), Error> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&self.batch)?;
        let compressed = encoder.finish()?;
        if compressed.len() < self.batch.len() {
            let mut packet = Vec::new();
            Message::new(&mut packet).bytes(COMPRESSED_PACKETS, &compressed);
            self.plain.packet(&packet)?;
        } else {
            self.plain.out.write_all(&self.batch)?;
        }
        self.batch.clear();
        Ok(())
    }
}

impl Sink for Compressed<'_, '_> {
    fn packet(&mut self, packet: &[u8]) -> Result<(), Error> {
        if self.batch.len().saturating_add(packet.len()) > BATCH_BYTES {
            self.write_batch()?;
        }
        if packet.len() > MAX_COMPRESSED_PACKET_BYTES {
            return self.plain.packet(packet);
        }
        Message::new(&mut self.batch).bytes(PACKET, packet);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.write_batch()?;
        self.plain.finish()
    }
}
