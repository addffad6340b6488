//! The script language in which tests and the replay example drive a buffer: one operation a line.
//! `tests/upstream-buffer` drives upstream's buffer with it, too.
//!
//! | operation | prints |
//! |---|---|
//! | `new SIZE ring\|discard` | `new SIZE_AFTER_ROUNDING` |
//! | `want PRODUCER…` (whose overwritten packets to print from here on) | |
//! | `copy PRODUCER WRITER CHUNK NUM_FRAGMENTS FLAGS COMPLETE HEX` | `gone PRODUCER WRITER HEX` for each overwritten packet that is wanted |
//! | `patch PRODUCER WRITER CHUNK MORE_PENDING OFFSET:HEX4…` | `patch 1` or `patch 0` |
//! | `begin` | |
//! | `read MAX` | `packet PRODUCER WRITER LOSS HEX` each, then `end COUNT` |
//! | `clone` (the buffer becomes its own read-only clone) | `clone` |
//! | `compact` | |
//! | `stats` | `stats`, then ` name=value` for each counter that is not 0 |
//!
//! Bytes are hex, `-` for none; `61*9,00` means nine bytes 61 and a 00. Packets are printed in the same form
//! without repetitions. Lines that are blank or begin with `#` are skipped.

use std::fmt::Write;

use ferretto_trace_buffer::{
    Chunk, ClientIdentity, FillPolicy, OverwriteSink, Packet, Patch, ProducerId, Stats, TraceBuffer,
};

/// Where and why a script cannot be run.
pub(crate) type ScriptError = String;

/// A buffer that scripts can drive.
pub(crate) trait Driven: Sized {
    fn create(size: usize, policy: FillPolicy) -> Result<Self, ScriptError>;
    fn size(&self) -> usize;
    fn copy(&mut self, chunk: &Chunk<'_>, gone: &mut Gone);
    fn patch(&mut self, of: ChunkName, patches: &[Patch], more_pending: bool) -> bool;
    fn begin(&mut self);
    fn read(&mut self) -> Option<Found>;
    fn clone_read_only(&self) -> Result<Self, ScriptError>;
    fn compact(&mut self);
    fn stats(&self) -> Stats;
}

/// Which chunk is meant.
#[derive(Clone, Copy)]
pub(crate) struct ChunkName {
    pub(crate) producer: ProducerId,
    pub(crate) writer: u16,
    pub(crate) chunk_id: u32,
}

/// A packet that was read.
pub(crate) struct Found {
    pub(crate) producer: u16,
    pub(crate) writer: u16,
    pub(crate) loss: u32,
    pub(crate) bytes: Vec<u8>,
}

/// Runs a script and gives what it prints.
pub(crate) fn run(script: &str) -> Result<String, ScriptError> {
    run_on::<TraceBuffer>(script)
}

/// The same with a buffer of any make.
pub(crate) fn run_on<B: Driven>(script: &str) -> Result<String, ScriptError> {
    let mut player = Player::<B> { buffer: None, gone: Gone::default(), printed: String::new() };
    for (index, line) in script.lines().enumerate() {
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            player.step(line).map_err(|error| format!("line {}: {error}", index + 1))?;
        }
    }
    Ok(player.printed)
}

impl Driven for TraceBuffer {
    fn create(size: usize, policy: FillPolicy) -> Result<Self, ScriptError> {
        Self::new(size, policy).map_err(|error| error.to_string())
    }

    fn size(&self) -> usize {
        self.size()
    }

    fn copy(&mut self, chunk: &Chunk<'_>, gone: &mut Gone) {
        match gone.wanted.is_empty() {
            true => self.copy_chunk(chunk),
            false => self.copy_chunk_with(chunk, gone),
        }
    }

    fn patch(&mut self, of: ChunkName, patches: &[Patch], more_pending: bool) -> bool {
        self.try_patch(of.producer, of.writer, of.chunk_id, patches, more_pending)
    }

    fn begin(&mut self) {
        self.begin_read();
    }

    fn read(&mut self) -> Option<Found> {
        self.read_next().map(|packet| Found {
            producer: packet.producer.0,
            writer: packet.writer,
            loss: packet.loss,
            bytes: packet.to_vec(),
        })
    }

    fn clone_read_only(&self) -> Result<Self, ScriptError> {
        self.clone_read_only().map_err(|error| error.to_string())
    }

    fn compact(&mut self) {
        self.compact(&mut ferretto_trace_buffer::CompactionBudget::default());
    }

    fn stats(&self) -> Stats {
        *self.stats()
    }
}

struct Player<B> {
    buffer: Option<B>,
    gone: Gone,
    printed: String,
}

/// Prints what is overwritten of some producers.
#[derive(Default)]
pub(crate) struct Gone {
    pub(crate) wanted: Vec<ProducerId>,
    printed: String,
}

impl Gone {
    pub(crate) fn print(&mut self, producer: ProducerId, writer: u16, packet: &[u8]) {
        writeln!(self.printed, "gone {} {writer} {}", producer.0, to_hex(packet))
            .expect("a String takes everything");
    }
}

impl OverwriteSink for Gone {
    fn wants(&self, producer: ProducerId) -> bool {
        self.wanted.contains(&producer)
    }

    fn take(&mut self, packet: &Packet<'_>) {
        self.print(packet.producer, packet.writer, &packet.to_vec());
    }
}

impl<B: Driven> Player<B> {
    fn step(&mut self, line: &str) -> Result<(), ScriptError> {
        let mut words = Words(line.split_ascii_whitespace());
        let operation = words.next()?;
        if operation == "new" {
            return self.create(&mut words);
        }
        let buffer = self.buffer.as_mut().ok_or("`new` must come first")?;
        match operation {
            "want" => {
                let wanted = words.0.by_ref().map(|word| word.parse().map(ProducerId));
                self.gone.wanted = wanted.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
            }
            "copy" => {
                copy(buffer, &mut self.gone, &mut words)?;
                self.printed.push_str(&std::mem::take(&mut self.gone.printed));
            }
            "patch" => {
                let patched = patch(buffer, &mut words)?;
                self.print(format_args!("patch {}", u8::from(patched)));
            }
            "begin" => buffer.begin(),
            "read" => self.read(words.number()?)?,
            "clone" => {
                *buffer = buffer.clone_read_only()?;
                self.print(format_args!("clone"));
            }
            "compact" => buffer.compact(),
            "stats" => {
                let line = format_stats(&buffer.stats());
                self.print(format_args!("{line}"));
            }
            other => return Err(format!("no such operation: {other}")),
        }
        Ok(())
    }

    fn print(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.printed, "{line}").expect("a String takes everything");
    }

    fn create(&mut self, words: &mut Words<'_>) -> Result<(), ScriptError> {
        let size = words.number()?;
        let policy = match words.next()? {
            "ring" => FillPolicy::Ring,
            "discard" => FillPolicy::Discard,
            other => return Err(format!("no such fill policy: {other}")),
        };
        let buffer = B::create(size, policy)?;
        self.print(format_args!("new {}", buffer.size()));
        self.buffer = Some(buffer);
        Ok(())
    }

    fn read(&mut self, max: usize) -> Result<(), ScriptError> {
        let Some(buffer) = &mut self.buffer else { return Ok(()) };
        let mut count = 0;
        while count < max
            && let Some(Found { producer, writer, loss, bytes }) = buffer.read()
        {
            writeln!(self.printed, "packet {producer} {writer} {loss} {}", to_hex(&bytes))
                .expect("a String takes everything");
            count += 1;
        }
        self.print(format_args!("end {count}"));
        Ok(())
    }
}

fn copy(buffer: &mut impl Driven, gone: &mut Gone, words: &mut Words<'_>) -> Result<(), ScriptError> {
    let chunk = Chunk {
        producer: ProducerId(words.number()?),
        client: ClientIdentity::default(),
        writer: words.number()?,
        chunk_id: words.number()?,
        num_fragments: words.number()?,
        flags: words.number()?,
        complete: words.number::<u8>()? != 0,
        payload: &from_hex(words.next()?)?,
    };
    buffer.copy(&chunk, gone);
    Ok(())
}

fn patch(buffer: &mut impl Driven, words: &mut Words<'_>) -> Result<bool, ScriptError> {
    let (producer, writer, chunk_id) = (ProducerId(words.number()?), words.number()?, words.number()?);
    let of = ChunkName { producer, writer, chunk_id };
    let more_pending = words.number::<u8>()? != 0;
    let patches: Vec<Patch> = words.0.by_ref().map(parse_patch).collect::<Result<_, _>>()?;
    Ok(buffer.patch(of, &patches, more_pending))
}

fn parse_patch(word: &str) -> Result<Patch, ScriptError> {
    let (offset, data) = word.split_once(':').ok_or_else(|| format!("not OFFSET:HEX4: {word}"))?;
    let offset = offset.parse().map_err(|_| format!("not an offset: {offset}"))?;
    let data = from_hex(data)?.try_into().map_err(|_| format!("not four bytes: {data}"))?;
    Ok(Patch { offset, data })
}

/// The counters that are not 0, as the language prints them.
pub(crate) fn format_stats(stats: &Stats) -> String {
    let counters = [
        ("buffer_size", stats.buffer_size),
        ("bytes_written", stats.bytes_written),
        ("bytes_overwritten", stats.bytes_overwritten),
        ("bytes_read", stats.bytes_read),
        ("padding_bytes_written", stats.padding_bytes_written),
        ("padding_bytes_cleared", stats.padding_bytes_cleared),
        ("chunks_written", stats.chunks_written),
        ("chunks_rewritten", stats.chunks_rewritten),
        ("chunks_overwritten", stats.chunks_overwritten),
        ("chunks_discarded", stats.chunks_discarded),
        ("chunks_read", stats.chunks_read),
        ("chunks_committed_out_of_order", stats.chunks_committed_out_of_order),
        ("chunks_relocated", stats.chunks_relocated),
        ("write_wrap_count", stats.write_wrap_count),
        ("patches_succeeded", stats.patches_succeeded),
        ("patches_failed", stats.patches_failed),
        ("readaheads_succeeded", stats.readaheads_succeeded),
        ("readaheads_failed", stats.readaheads_failed),
        ("abi_violations", stats.abi_violations),
        ("trace_writer_packet_loss", stats.trace_writer_packet_loss),
        ("compactions", stats.compactions),
        ("compactions_skipped", stats.compactions_skipped),
    ];
    let printed =
        counters.iter().filter(|(_, value)| *value != 0).map(|(name, value)| format!(" {name}={value}"));
    std::iter::once("stats".to_owned()).chain(printed).collect()
}

struct Words<'a>(std::str::SplitAsciiWhitespace<'a>);

impl<'a> Words<'a> {
    fn next(&mut self) -> Result<&'a str, ScriptError> {
        self.0.next().ok_or_else(|| "the line ends too early".to_owned())
    }

    fn number<N: std::str::FromStr>(&mut self) -> Result<N, ScriptError> {
        let word = self.next()?;
        word.parse().map_err(|_| format!("not a number, or too large: {word}"))
    }
}

/// Hex digits; pieces of them may be separated by commas, and each may be repeated: `9001,61*144`.
fn from_hex(word: &str) -> Result<Vec<u8>, ScriptError> {
    let mut bytes = Vec::new();
    for piece in word.split(',') {
        let (digits, times) = piece.split_once('*').unwrap_or((piece, "1"));
        let times = times.parse().map_err(|_| format!("not a number: {times}"))?;
        let piece = parse_digits(digits).ok_or_else(|| format!("not hex: {digits}"))?;
        bytes.extend(piece.repeat(times));
    }
    Ok(bytes)
}

fn parse_digits(digits: &str) -> Option<Vec<u8>> {
    if digits == "-" {
        return Some(Vec::new());
    }
    let (pairs, odd) = digits.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    odd.is_empty().then(|| bytes.collect()).flatten()
}

fn to_hex(bytes: &[u8]) -> String {
    let mut hex = String::new();
    for byte in bytes {
        write!(hex, "{byte:02x}").expect("a String takes everything");
    }
    if hex.is_empty() { "-".to_owned() } else { hex }
}
