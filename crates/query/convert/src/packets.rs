//! Formats that a trace is written in packet by packet, wherever its packets come from: out of a file that has them, or made of tables.
//!
//! A file of packets is gone through once, in bounded memory, and is no bigger afterwards: what is in compressed batches is taken out of them,
//! and packets that say nothing are left out.

use std::cell::Cell;
use std::io::{self, BufReader, Read};

use ferretto_protos::fields::trace_packet as field;
use ferretto_protozero::read::{Fields, Value};
use ferretto_trace_read::container::{Container, FileBytes, unpacked};
use ferretto_trace_read::head::INCREMENTAL_STATE_CLEARED;
use ferretto_trace_read::recognize::{Format, HEAD_BYTES, Use, recognize};
use ferretto_trace_read::{End, Reader};
use flate2::read::MultiGzDecoder;

use crate::txt::TraceOfText;
use crate::{Error, MakeSink, Options, Out};

/// Read at once.
const PIECE_BYTES: usize = 1 << 18;

/// Takes packets.
pub trait Sink {
    /// Takes the next one, without its frame.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    fn packet(&mut self, packet: &[u8]) -> Result<(), Error>;

    /// Nothing more comes.
    ///
    /// # Errors
    ///
    /// If the last bytes cannot be written.
    fn finish(&mut self) -> Result<(), Error>;
}

/// What a file is.
pub enum Opened<'a> {
    /// A trace that is made of packets, without what it was packed into.
    Packets(Box<dyn Read + Send + 'a>),
    /// An archive, which may hold several traces: its bytes as they are.
    Archive(Box<dyn Read + Send + 'a>),
    /// Something else: its bytes as they are.
    Other(Box<dyn Read + Send + 'a>),
}

impl std::fmt::Debug for Opened<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Packets(_) => "Packets",
            Self::Archive(_) => "Archive",
            Self::Other(_) => "Other",
        })
    }
}

/// Looks at a file's first bytes. A trace in protobuf's text is one of packets, too: they are read out of it.
///
/// # Errors
///
/// If it cannot be read.
pub fn open<'a>(mut file: impl Read + Send + 'a) -> io::Result<Opened<'a>> {
    let mut head = Vec::new();
    file.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    let mut inner = Vec::new();
    // A head may end within what is packed: what came out of it is enough.
    _ = unpacked(head.as_slice()).and_then(|file| file.take(HEAD_BYTES as u64).read_to_end(&mut inner));
    let container = Container::of(&head);
    let outer = recognize(&head);
    let file = io::Cursor::new(head).chain(file);
    Ok(match recognize(&inner).or(outer) {
        Some(Format::Zip | Format::Tar) => Opened::Archive(Box::new(file)),
        Some(format) if format.use_() == Use::Own => Opened::Packets(Box::new(file)),
        Some(Format::ProtoText) if container == Container::None => {
            Opened::Packets(Box::new(TraceOfText::new(BufReader::with_capacity(PIECE_BYTES, file))))
        }
        Some(Format::ProtoText) => {
            let text = BufReader::with_capacity(PIECE_BYTES, MultiGzDecoder::new(file));
            Opened::Packets(Box::new(TraceOfText::new(text)))
        }
        _ => Opened::Other(Box::new(file)),
    })
}

/// What was met on the way through a file of packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// How its packets ended.
    pub end: End,
    /// The file's bytes, as it is on the disk.
    pub bytes: u64,
    /// Packets that say nothing.
    pub left_out: u64,
}

/// Goes through a file of packets, and gives them to the sink of a format. `watch` hears how many bytes of the file were read.
///
/// # Errors
///
/// If the file cannot be read or has no packet, or what is made of it cannot be written.
pub fn copy(
    file: &mut dyn Read,
    sink: MakeSink,
    options: &Options,
    out: &mut Out<'_>,
    watch: &mut dyn FnMut(u64),
) -> Result<Copied, Error> {
    let has_failed = Cell::new(false);
    let bytes = Cell::new(0);
    let mut sink = sink(out, options);
    let (mut failure, mut left_out) = (None, 0);
    let watched = Watched { file, bytes: &bytes, watch, has_failed: &has_failed };
    let file_bytes = FileBytes::default();
    let unpacked = unpacked(file_bytes.of(watched)).map_err(Error::Read)?;
    let end = Reader::new(unpacked).within(file_bytes).for_each(|packet, _| {
        if has_failed.get() {
            return;
        }
        if says_nothing(packet) {
            left_out += 1;
        } else if let Err(error) = sink.packet(packet) {
            failure = Some(error);
            has_failed.set(true);
        }
    });
    if let Some(failure) = failure {
        return Err(failure);
    }
    let end = end.map_err(Error::Read)?;
    if end.packets == 0 && end.torn_at != Some(0) {
        return Err(Error::Read(io::Error::new(io::ErrorKind::InvalidData, "it has no packet")));
    }
    sink.finish()?;
    Ok(Copied { end, bytes: bytes.get(), left_out })
}

/// Whether a packet has nothing but what every packet has: its time, its clock, whose it is.
fn says_nothing(packet: &[u8]) -> bool {
    Fields::new(packet).all(|part| match part.map(|part| (part.number, part.value)) {
        Ok((
            field::TIMESTAMP
            | field::TIMESTAMP_CLOCK_ID
            | field::TRUSTED_UID
            | field::TRUSTED_PID
            | field::TRUSTED_PACKET_SEQUENCE_ID
            | field::MACHINE_ID,
            _,
        )) => true,
        // That a sequence begins anew, or lacks something, is said.
        Ok((field::SEQUENCE_FLAGS, Value::Varint(flags))) => {
            flags & u64::from(INCREMENTAL_STATE_CLEARED) == 0
        }
        Ok(_) | Err(_) => false,
    })
}

/// A file that somebody watches, and that ends when what is made of it cannot be written.
struct Watched<'a> {
    file: &'a mut dyn Read,
    bytes: &'a Cell<u64>,
    watch: &'a mut dyn FnMut(u64),
    has_failed: &'a Cell<bool>,
}

impl Read for Watched<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.has_failed.get() {
            return Ok(0);
        }
        let len = self.file.read(to)?;
        self.bytes.set(self.bytes.get() + len as u64);
        (self.watch)(self.bytes.get());
        Ok(len)
    }
}
