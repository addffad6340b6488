//! Scripts of buffer operations: chunks in and out of order, scraped and committed again, patched, malformed, and reads in between.
//!
//! As long as a script is tidy (chunks are well-formed and none changes what it said before) it is known what each packet must be;
//! after that, only what holds for any input.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};

use ferretto_trace_buffer::{
    Chunk, ClientIdentity, FillPolicy, OverwriteSink, Packet, Patch, ProducerId, Stats, TraceBuffer,
    chunk_flags, loss,
};
use libfuzzer_sys::arbitrary::{self, Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;

const PRODUCER: ProducerId = ProducerId(1);
/// Writers of a flock are another producer's.
const FLOCK: ProducerId = ProducerId(2);
/// More than the sequences without chunks that a buffer remembers.
const MAX_FLOCK: u16 = 1300;
/// Fragments of a chunk; a tag has a byte for the index.
const MAX_FRAGMENTS: usize = 200;
/// So often a script may compare all packets of two buffers: that is slow.
const MAX_COMPARISONS: u32 = 8;
/// Where each writer's chunk ids begin: two of them wrap round.
const FIRST_IDS: [u32; 4] = [0, u32::MAX - 1, 1 << 31, u32::MAX - 30];

#[derive(Debug)]
struct Script {
    pages: u8,
    discard: bool,
    /// Packets that are overwritten are looked at.
    looks: bool,
    /// What is overwritten is folded into states, which are packets of the buffer's own.
    folds: bool,
    /// Nothing hostile happens: wild chunks are left out, and patches change nothing.
    tame: bool,
    /// How many more writers there may be at once; they make a script slow.
    flock: u16,
    operations: Vec<Operation>,
}

impl<'a> Arbitrary<'a> for Script {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        let settings: u8 = bytes.arbitrary()?;
        let mut script = Self {
            pages: settings % 4 + 1,
            discard: settings & 0x1c == 0x04,
            looks: settings & 0x20 != 0,
            folds: settings & 0x80 != 0,
            tame: settings & 0x40 != 0,
            flock: if settings & 0xdc == 0 { MAX_FLOCK } else { 0 },
            operations: Vec::new(),
        };
        // A derived list would end after a few elements.
        while !bytes.is_empty() {
            let operation = bytes.arbitrary()?;
            if !(script.tame && matches!(operation, Operation::Wild { .. })) {
                script.operations.push(operation);
            }
        }
        Ok(script)
    }
}

#[derive(Arbitrary, Debug)]
enum Operation {
    /// A well-formed chunk: mostly the writer's next one.
    Copy {
        writer: u8,
        ahead: i8,
        sizes: Vec<u8>,
        flags: u8,
        scraped_with_room: Option<u16>,
    },
    /// A chunk that was scraped before has more fragments now.
    Again {
        writer: u8,
        back: u8,
        sizes: Vec<u8>,
        complete: bool,
    },
    /// A chunk that says anything.
    Wild {
        writer: u8,
        chunk_id: u32,
        num_fragments: u16,
        flags: u8,
        complete: bool,
        payload: Vec<u8>,
    },
    /// One chunk of each of many other writers.
    Flock {
        writers: u16,
    },
    /// Patches for one of the writer's latest chunks.
    Patch {
        writer: u8,
        back: u8,
        patches: Vec<(u16, [u8; 4])>,
        more_pending: bool,
    },
    Begin,
    Read {
        max: u8,
    },
    /// A clone and the buffer itself give the same packets.
    ReadBoth,
    /// From here on with a clone.
    Clone,
    /// Changes nothing of what can be read.
    Compact,
}

fuzz_target!(|script: Script| {
    let policy = if script.discard { FillPolicy::Discard } else { FillPolicy::Ring };
    let size = 4096 * usize::from(script.pages);
    let buffer = TraceBuffer::new(size, policy).expect("a small buffer");
    let mut world = World {
        buffer: if script.folds { buffer.fold_overwritten() } else { buffer },
        writers: std::array::from_fn(|_| Writer::default()),
        seen: BTreeSet::new(),
        bytes_given: 0,
        bytes_read: 0,
        flock: script.flock,
        looks: script.looks,
        tame: script.tame,
        // A clone says all states again.
        comparisons: if script.folds { MAX_COMPARISONS } else { 0 },
        tidy: !script.folds,
    };
    for operation in &script.operations {
        let before = *world.buffer.stats();
        world.apply(operation);
        world.check(&before);
    }
    world.read_both();
});

struct World {
    buffer: TraceBuffer,
    writers: [Writer; FIRST_IDS.len()],
    /// The sequences that have written anything.
    seen: BTreeSet<(ProducerId, u16)>,
    bytes_given: usize,
    bytes_read: usize,
    /// So many of a flock may still come.
    flock: u16,
    looks: bool,
    tame: bool,
    comparisons: u32,
    /// The packets can be foretold.
    tidy: bool,
}

#[derive(Default)]
struct Writer {
    /// Its chunks so far by their distance from its first, and how many fragments of each the buffer took.
    chunks: BTreeMap<i32, (Written, usize)>,
    next: i32,
    /// Fragments that the buffer took, and that neither came out again nor were passed by one that did.
    unread: BTreeSet<Tag>,
    /// Packets were overwritten since the last one that was read.
    has_loss: bool,
    /// A packet told of a loss since the last fragment with a tag.
    is_announced: bool,
}

/// What a chunk said when it was copied last.
struct Written {
    sizes: Vec<u8>,
    flags: u8,
    /// Size in bytes with the room behind the fragments, while it is incomplete.
    scraped: Option<usize>,
}

/// A fragment's place: the chunk's distance from the writer's first, and the index in the chunk.
type Tag = (i32, u8);

/// A fragment of at least so many bytes begins with its tag.
const TAG_BYTES: usize = 5;

impl World {
    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Copy { writer, ahead, sizes, flags, scraped_with_room } => {
                self.copy_next(*writer, *ahead, sizes, *flags, *scraped_with_room);
            }
            Operation::Again { writer, back, sizes, complete } => {
                self.copy_again(*writer, *back, sizes, *complete);
            }
            Operation::Wild { writer, chunk_id, num_fragments, flags, complete, payload } => {
                self.tidy = false;
                let writer = u16::from(*writer) % FIRST_IDS.len() as u16;
                let (num_fragments, flags, complete) = (*num_fragments, *flags, *complete);
                let chunk = Chunk { num_fragments, flags, complete, ..chunk(writer, *chunk_id, payload) };
                self.copy(&chunk);
            }
            Operation::Flock { writers } => self.fly_by(*writers),
            Operation::Patch { writer, back, patches, more_pending } => {
                self.patch(*writer, *back, patches, *more_pending);
            }
            Operation::Begin => self.buffer.begin_read(),
            Operation::Read { max } => {
                for _ in 0..*max {
                    let Some(packet) = self.buffer.read_next() else { break };
                    let packet = Got::new(&packet);
                    self.take_read(&packet);
                }
            }
            Operation::ReadBoth => self.read_both(),
            Operation::Clone => self.buffer = self.clone(),
            Operation::Compact => {
                let before = self.readable();
                self.buffer.compact(&mut ferretto_trace_buffer::CompactionBudget::default());
                let after = before.is_some().then(|| read_all(&mut self.clone()));
                assert_eq!(before, after, "compaction moves chunks, no more");
            }
        }
    }

    fn copy_next(&mut self, writer: u8, ahead: i8, sizes: &[u8], flags: u8, room: Option<u16>) {
        let index = usize::from(writer) % FIRST_IDS.len();
        let writer = &mut self.writers[index];
        // Mostly the next; else up to 8 too late or 7 too early.
        let distance = writer.next + if ahead % 4 == 1 { i32::from(ahead / 16) } else { 0 };
        if writer.chunks.contains_key(&distance) {
            if self.tame {
                return;
            }
            self.tidy = false;
        }
        writer.next = writer.next.max(distance + 1);
        let sizes = sizes[..sizes.len().min(MAX_FRAGMENTS)].to_vec();
        let scraped = room.map(|room| payload(distance, &sizes).len() + usize::from(room) % 4096);
        let written = Written { sizes, flags: flags & chunk_flags::MASK, scraped };
        self.commit(index, distance, written);
    }

    fn copy_again(&mut self, writer: u8, back: u8, more: &[u8], complete: bool) {
        let index = usize::from(writer) % FIRST_IDS.len();
        let Some((&distance, (old, _))) = self.writers[index].chunks.iter().rev().nth(usize::from(back % 8))
        else {
            return;
        };
        let Some(size) = old.scraped else { return };
        let mut sizes = old.sizes.clone();
        for &size_code in more {
            sizes.push(size_code);
            if sizes.len() > MAX_FRAGMENTS || payload(distance, &sizes).len() > size {
                sizes.pop();
                break;
            }
        }
        let written = Written { sizes, flags: old.flags, scraped: (!complete).then_some(size) };
        self.commit(index, distance, written);
    }

    fn commit(&mut self, index: usize, distance: i32, written: Written) {
        let mut bytes = payload(distance, &written.sizes);
        bytes.resize(written.scraped.unwrap_or(bytes.len()), 0);
        let before = *self.buffer.stats();
        self.copy(&Chunk {
            num_fragments: written.sizes.len() as u16,
            flags: written.flags,
            complete: written.scraped.is_none(),
            ..chunk(index as u16, FIRST_IDS[index].wrapping_add(distance as u32), &bytes)
        });
        let writer = &mut self.writers[index];
        let mut known = writer.chunks.get(&distance).map_or(0, |(_, known)| *known);
        if stored(self.buffer.stats()) > stored(&before) {
            for (fragment, &code) in (0..).zip(&written.sizes).take(written.valid()).skip(known) {
                if size(code) >= TAG_BYTES {
                    writer.unread.insert((distance, fragment));
                }
            }
            known = written.valid();
            // What is overwritten by a chunk that comes late may be a later one of the same writer. Then the order is lost: the loss is
            // told too early, and what is committed yet again may come out twice. So it is in upstream's buffer; no real writer has two
            // unfinished chunks at a time.
            self.tidy &= distance + 1 == writer.next || cleared(self.buffer.stats()) == cleared(&before);
        }
        writer.chunks.insert(distance, (written, known));
    }

    fn copy(&mut self, chunk: &Chunk<'_>) {
        if !self.buffer.is_read_only() {
            self.seen.insert((chunk.producer, chunk.writer));
            self.bytes_given += chunk.payload.len();
        }
        if !self.looks {
            return self.buffer.copy_chunk(chunk);
        }
        let mut overwritten = Overwritten(Vec::new());
        self.buffer.copy_chunk_with(chunk, &mut overwritten);
        for packet in overwritten.0 {
            self.take(&packet);
            if let Some(writer) = self.writer_of(&packet) {
                writer.has_loss = true;
            }
        }
    }

    fn fly_by(&mut self, writers: u16) {
        for writer in 0..writers.min(self.flock) {
            self.tidy = false;
            self.flock -= 1;
            self.copy(&Chunk { producer: FLOCK, num_fragments: 1, ..chunk(writer, 0, b"\x01x") });
        }
    }

    fn patch(&mut self, writer: u8, back: u8, patches: &[(u16, [u8; 4])], more_pending: bool) {
        let index = usize::from(writer) % FIRST_IDS.len();
        let distance = self.writers[index].next - 1 - i32::from(back % 8);
        let id = FIRST_IDS[index].wrapping_add(distance as u32);
        let patches = if self.tame { &[] } else { patches };
        let patches: Vec<Patch> =
            patches.iter().map(|&(offset, data)| Patch { offset: offset.into(), data }).collect();
        self.tidy &= patches.is_empty();
        let patched = self.buffer.try_patch(PRODUCER, index as u16, id, &patches, more_pending);
        assert!(!(patched && self.buffer.is_read_only()));
    }

    fn clone(&self) -> TraceBuffer {
        self.buffer.clone_read_only().expect("a small buffer")
    }

    /// What a clone gives, unless that was asked too often.
    fn readable(&mut self) -> Option<Vec<Got>> {
        self.comparisons += 1;
        (self.comparisons <= MAX_COMPARISONS).then(|| read_all(&mut self.clone()))
    }

    fn read_both(&mut self) {
        assert!(self.buffer.writer_stats().count() <= self.seen.len());
        let of_clone = self.readable();
        let packets = read_all(&mut self.buffer);
        assert!(of_clone.is_none_or(|of_clone| of_clone == packets));
        packets.iter().for_each(|packet| self.take_read(packet));
    }

    fn take_read(&mut self, packet: &Got) {
        assert_eq!(packet.loss != 0, packet.loss & loss::DATA_LOSS_PRESENT != 0);
        if let Some(writer) = self.writer_of(packet) {
            let has_loss = std::mem::take(&mut writer.has_loss);
            assert!(!has_loss || packet.loss & loss::OVERWRITE != 0);
        }
        self.take(packet);
    }

    fn writer_of(&mut self, packet: &Got) -> Option<&mut Writer> {
        let foretold = self.tidy && packet.producer == PRODUCER;
        foretold.then(|| &mut self.writers[usize::from(packet.writer)])
    }

    /// A packet that came out, be it that it was read or overwritten.
    fn take(&mut self, packet: &Got) {
        self.bytes_read += packet.slices.iter().map(Vec::len).sum::<usize>();
        assert!(
            self.buffer.folds_overwritten() || self.bytes_read <= self.bytes_given,
            "nothing is read twice"
        );
        assert!(self.seen.contains(&(packet.producer, packet.writer)));
        assert_eq!(packet.loss & !(2 * loss::WRITER_ABORT - 1), 0, "only the buffer's own reasons");
        assert!(packet.slices.iter().all(|slice| !slice.is_empty()));
        let Some(Writer { unread, is_announced, .. }) = self.writer_of(packet) else {
            return;
        };
        *is_announced |= packet.loss != 0;
        for slice in &packet.slices {
            let Some(tag) = tag_of(slice) else { continue };
            let rest = unread.split_off(&tag);
            assert!(rest.contains(&tag), "fragments come in order, and once");
            assert!(unread.is_empty() || *is_announced, "{tag:?}: {unread:?} are lost without notice");
            *unread = rest;
            unread.remove(&tag);
            *is_announced = false;
        }
    }

    fn check(&self, before: &Stats) {
        let (buffer, after) = (&self.buffer, self.buffer.stats());
        assert!(buffer.used_size() <= buffer.size());
        if buffer.is_read_only() {
            assert_eq!(after.chunks_written, before.chunks_written);
        }
        assert!(after.chunks_written >= before.chunks_written);
        assert!(after.bytes_written >= 16 * after.chunks_written);
        assert!(after.padding_bytes_cleared <= after.bytes_written + after.padding_bytes_written);
        assert!(
            after.chunks_read + after.chunks_overwritten <= after.chunks_written + after.chunks_rewritten
        );
    }
}

impl Written {
    /// How many fragments the buffer could take: the last one of a scraped chunk may not be finished.
    fn valid(&self) -> usize {
        let unfinished = usize::from(self.scraped.is_some());
        self.sizes.len().saturating_sub(unfinished)
    }
}

/// A packet, copied.
#[derive(Debug, PartialEq)]
struct Got {
    producer: ProducerId,
    writer: u16,
    loss: u32,
    slices: Vec<Vec<u8>>,
}

impl Got {
    fn new(packet: &Packet<'_>) -> Self {
        let slices: Vec<Vec<u8>> = packet.slices().map(<[u8]>::to_vec).collect();
        assert_eq!(slices.concat(), packet.to_vec());
        Self { producer: packet.producer, writer: packet.writer, loss: packet.loss, slices }
    }
}

struct Overwritten(Vec<Got>);

impl OverwriteSink for Overwritten {
    fn wants(&self, producer: ProducerId) -> bool {
        producer == PRODUCER
    }

    fn take(&mut self, packet: &Packet<'_>) {
        self.0.push(Got::new(packet));
    }
}

fn read_all(buffer: &mut TraceBuffer) -> Vec<Got> {
    let mut packets = Vec::new();
    buffer.begin_read();
    while let Some(packet) = buffer.read_next() {
        packets.push(Got::new(&packet));
    }
    packets
}

/// A complete chunk without fragments.
fn chunk(writer: u16, chunk_id: u32, payload: &[u8]) -> Chunk<'_> {
    Chunk {
        producer: PRODUCER,
        client: ClientIdentity::default(),
        writer,
        chunk_id,
        num_fragments: 0,
        flags: 0,
        complete: true,
        payload,
    }
}

/// Changes when a chunk is taken, or its new part is.
fn stored(stats: &Stats) -> u64 {
    stats.chunks_written + stats.chunks_rewritten
}

/// Changes when something is overwritten.
fn cleared(stats: &Stats) -> u64 {
    stats.bytes_overwritten + stats.padding_bytes_cleared
}

/// Most fragments are small; the largest fill a half of the smallest buffer.
fn size(code: u8) -> usize {
    let code = usize::from(code);
    if code < 192 { code } else { (code - 191) * 32 }
}

fn payload(distance: i32, sizes: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, &code) in (0..).zip(sizes) {
        let size = size(code);
        if size < 0x80 {
            bytes.push(size as u8);
        } else {
            bytes.extend([size as u8 | 0x80, (size >> 7) as u8]);
        }
        let mut body = vec![index; size];
        if size >= TAG_BYTES {
            body[..4].copy_from_slice(&distance.to_le_bytes());
        }
        bytes.extend(body);
    }
    bytes
}

fn tag_of(fragment: &[u8]) -> Option<Tag> {
    let (distance, rest) = fragment.split_first_chunk()?;
    Some((i32::from_le_bytes(*distance), *rest.first()?))
}
