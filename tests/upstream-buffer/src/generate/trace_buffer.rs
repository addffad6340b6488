//! Random scripts for the trace buffer: writers that cut packets into chunks as real ones do, and everything that can go wrong
//! on the way to the buffer.

use std::fmt::{self, Display, Formatter};

use ferretto_trace_buffer::chunk_flags;

use super::{Odds, hex};
use crate::rng::Rng;
use crate::shrink::{self, shorter_bytes, simpler_numbers};

/// An operation of the script language in `crates/recording/trace-buffer/tests/script/mod.rs`.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    New { size: usize, discard: bool },
    Want(Vec<u16>),
    Copy(Copy),
    Patch(Patch),
    Begin,
    Read(usize),
    Clone,
    Compact,
    Stats,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Copy {
    producer: u16,
    writer: u16,
    chunk_id: u32,
    num_fragments: u16,
    flags: u8,
    scraped: bool,
    payload: Vec<u8>,
}

#[derive(Debug, Clone)]
pub(crate) struct Patch {
    producer: u16,
    writer: u16,
    chunk_id: u32,
    more_pending: bool,
    patches: Vec<(u32, [u8; 4])>,
}

impl Display for Operation {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::New { size, discard } => {
                write!(to, "new {size} {}", if *discard { "discard" } else { "ring" })
            }
            Self::Want(producers) => {
                write!(to, "want")?;
                producers.iter().try_for_each(|producer| write!(to, " {producer}"))
            }
            Self::Copy(copy) => {
                let Copy { producer, writer, chunk_id, num_fragments, flags, scraped, payload } = copy;
                let (complete, payload) = (u8::from(!scraped), hex(payload));
                write!(to, "copy {producer} {writer} {chunk_id} {num_fragments} {flags} {complete} {payload}")
            }
            Self::Patch(Patch { producer, writer, chunk_id, more_pending, patches }) => {
                write!(to, "patch {producer} {writer} {chunk_id} {}", u8::from(*more_pending))?;
                patches.iter().try_for_each(|(offset, data)| write!(to, " {offset}:{}", hex(data)))
            }
            Self::Begin => write!(to, "begin"),
            Self::Read(max) => write!(to, "read {max}"),
            Self::Clone => write!(to, "clone"),
            Self::Compact => write!(to, "compact"),
            Self::Stats => write!(to, "stats"),
        }
    }
}

impl shrink::Operation for Operation {
    fn simpler(&self) -> Vec<Self> {
        match self {
            Self::New { size, discard } => {
                let size = simpler_numbers(*size as u64, 4096).into_iter();
                size.map(|size| Self::New { size: size as usize, discard: *discard }).collect()
            }
            Self::Want(producers) => (0..producers.len())
                .map(|index| {
                    let mut fewer = producers.clone();
                    fewer.remove(index);
                    Self::Want(fewer)
                })
                .collect(),
            Self::Copy(copy) => copy.simpler().into_iter().map(Self::Copy).collect(),
            Self::Patch(patch) => patch.simpler().into_iter().map(Self::Patch).collect(),
            Self::Read(max) => {
                simpler_numbers(*max as u64, 0).into_iter().map(|max| Self::Read(max as usize)).collect()
            }
            Self::Begin | Self::Clone | Self::Compact | Self::Stats => Vec::new(),
        }
    }

    /// Upstream forbids some orders of calls, and aborts, or reads freed memory, if they come nevertheless: nothing may be
    /// written to a clone, and a read pass ends with the first call that is not a read. Ours says what it does then, so these
    /// are the tests' business, not this one's.
    fn repaired(script: Vec<Self>) -> Vec<Self> {
        let (mut is_there, mut read_only, mut reading) = (false, false, false);
        let mut repaired = script;
        repaired.retain(|operation| {
            let may_stand = match operation {
                Self::New { .. } => true,
                Self::Copy(_) | Self::Patch(_) => is_there && !read_only,
                Self::Read(_) => reading,
                Self::Want(_) | Self::Begin | Self::Clone | Self::Compact | Self::Stats => is_there,
            };
            if may_stand {
                match operation {
                    Self::New { .. } => (is_there, read_only, reading) = (true, false, false),
                    Self::Clone => (read_only, reading) = (true, false),
                    Self::Copy(_) | Self::Patch(_) | Self::Compact => reading = false,
                    Self::Begin => reading = true,
                    Self::Want(_) | Self::Read(_) | Self::Stats => {}
                }
            }
            may_stand
        });
        repaired
    }
}

impl Copy {
    fn simpler(&self) -> Vec<Self> {
        let mut simpler = Vec::new();
        simpler
            .extend(shorter_bytes(&self.payload).into_iter().map(|payload| Self { payload, ..self.clone() }));
        simpler
            .extend(numbers(self.num_fragments).map(|num_fragments| Self { num_fragments, ..self.clone() }));
        simpler.extend(numbers(self.writer).map(|writer| Self { writer, ..self.clone() }));
        simpler.extend(
            simpler_numbers(self.producer.into(), 1)
                .into_iter()
                .map(|producer| Self { producer: producer as u16, ..self.clone() }),
        );
        if self.scraped {
            simpler.push(Self { scraped: false, ..self.clone() });
        }
        let fewer_flags = (0..8).map(|bit| self.flags & !(1 << bit)).filter(|&flags| flags != self.flags);
        simpler.extend(fewer_flags.map(|flags| Self { flags, ..self.clone() }));
        let odd = self.payload.iter().rposition(|&byte| byte != 0);
        simpler.extend(odd.map(|odd| {
            let mut payload = self.payload.clone();
            payload[odd] = 0;
            Self { payload, ..self.clone() }
        }));
        simpler
    }
}

impl Patch {
    fn simpler(&self) -> Vec<Self> {
        let fewer = (0..self.patches.len()).map(|index| {
            let mut patches = self.patches.clone();
            patches.remove(index);
            Self { patches, ..self.clone() }
        });
        let done = self.more_pending.then(|| Self { more_pending: false, ..self.clone() });
        fewer.chain(done).collect()
    }
}

fn numbers(number: u16) -> impl Iterator<Item = u16> {
    simpler_numbers(number.into(), 0).into_iter().map(|number| number as u16)
}

/// A writer gives up a packet with this in place of a size. Source: upstream's shared_memory_abi.h, `kPacketSizeDropPacket`.
const GIVEN_UP: [u8; 4] = [0xff, 0xff, 0xff, 0x7f];

/// What one script is like.
struct Habits {
    ring_size: usize,
    discard: bool,
    num_operations: usize,
    num_writers: u16,
    writers_per_producer: u16,
    first_chunk_id: u32,
    /// Bytes of a chunk's payload.
    room: usize,
    max_packet: usize,
    continues: Odds,
    needs_patching: Odds,
    never_patched: Odds,
    given_up: Odds,
    padded: Odds,
    scraped: Odds,
    late: Odds,
    twice: Odds,
    lost: Odds,
    gap: Odds,
    malformed: Odds,
    read: Odds,
    stats: Odds,
    compact: Odds,
    want: Odds,
    renewed: Odds,
}

impl Habits {
    fn any(rng: &mut Rng) -> Self {
        // Upstream forgets sequences once it has 1152 empty ones.
        let very_many = rng.one_in(100);
        let num_operations = if very_many { 4000 } else { rng.pick(&[10, 40, 120, 300]) };
        Self {
            ring_size: rng.pick(&[1, 4096, 4096, 4096, 8192, 12_288, 16_384, 65_536]),
            discard: rng.one_in(6),
            num_operations,
            num_writers: if very_many { 3000 } else { rng.pick(&[1, 1, 2, 3, 8, 40]) },
            writers_per_producer: rng.pick(&[1, 2, 100]),
            first_chunk_id: rng.pick(&[0, 0, 1, u32::MAX, u32::MAX - 2, u32::MAX - 20, 0x7fff_fff0]),
            room: if very_many { 16 } else { rng.pick(&[8, 16, 40, 100, 240, 500, 1000, 4064, 4080]) },
            max_packet: rng.pick(&[0, 3, 20, 100, 200, 600, 5000]),
            continues: Odds::any(rng),
            needs_patching: Odds::any(rng),
            never_patched: Odds::any(rng),
            given_up: Odds::any(rng),
            padded: Odds::any(rng),
            scraped: Odds::any(rng),
            late: Odds::any(rng),
            twice: Odds::any(rng),
            lost: Odds::any(rng),
            gap: Odds::any(rng),
            malformed: Odds::any(rng),
            read: Odds::any(rng),
            stats: Odds::any(rng),
            compact: Odds::any(rng),
            want: Odds::any(rng),
            renewed: if rng.one_in(10) { Odds(50) } else { Odds(0) },
        }
    }
}

/// Where a writer is in its stream.
#[derive(Clone, Default)]
struct Writer {
    producer: u16,
    id: u16,
    next_chunk_id: u32,
    /// The packet that the last chunk ended with goes on in the next.
    continues: bool,
}

/// A random script.
pub(crate) fn script(rng: &mut Rng) -> Vec<Operation> {
    let habits = Habits::any(rng);
    let writers = (0..habits.num_writers)
        .map(|index| Writer {
            producer: 1 + index / habits.writers_per_producer,
            id: 1 + index % habits.writers_per_producer,
            next_chunk_id: habits.first_chunk_id,
            continues: false,
        })
        .collect();
    let mut author = Author { rng, habits, writers, held: Vec::new(), owed: Vec::new(), script: Vec::new() };
    author.renew();
    while author.script.len() < author.habits.num_operations {
        author.step();
    }
    author.finish();
    <Operation as shrink::Operation>::repaired(author.script)
}

struct Author<'a> {
    rng: &'a mut Rng,
    habits: Habits,
    writers: Vec<Writer>,
    /// Chunks that are finished but have not been committed.
    held: Vec<Copy>,
    /// Patches that have not been sent.
    owed: Vec<Patch>,
    script: Vec<Operation>,
}

impl Author<'_> {
    fn renew(&mut self) {
        let (size, discard) = (self.habits.ring_size, self.habits.discard);
        self.script.push(Operation::New { size, discard });
    }

    fn step(&mut self) {
        match self.rng.below(8) {
            0..5 => self.write_chunk(),
            5 => self.commit_held(),
            6 => self.send_patch(),
            _ => self.look(),
        }
    }

    fn write_chunk(&mut self) {
        let index = self.rng.below(self.writers.len());
        let mut chunk = self.next_chunk(index);
        if self.habits.malformed.come_up(self.rng) {
            self.damage(&mut chunk);
        }
        if self.habits.scraped.come_up(self.rng) {
            self.scrape(&chunk);
        }
        if self.habits.lost.come_up(self.rng) {
            return;
        }
        if self.habits.twice.come_up(self.rng) {
            self.held.push(chunk.clone());
        }
        if self.habits.late.come_up(self.rng) {
            self.held.push(chunk);
        } else {
            self.script.push(Operation::Copy(chunk));
        }
    }

    /// What the writer finishes next.
    fn next_chunk(&mut self, index: usize) -> Copy {
        let mut writer = self.writers[index].clone();
        let mut chunk = Copy {
            producer: writer.producer,
            writer: writer.id,
            chunk_id: writer.next_chunk_id,
            flags: if writer.continues { chunk_flags::FIRST_CONTINUES_FROM_PREVIOUS } else { 0 },
            ..Copy::default()
        };
        writer.continues = false;
        let most = self.rng.pick(&[0, 1, 1, 2, 5, 200]);
        while usize::from(chunk.num_fragments) < most {
            let left = self.habits.room - chunk.payload.len();
            if left < 6 {
                break;
            }
            let size = self.rng.below(self.habits.max_packet.min(left - 4) + 1);
            let fills = size + 4 == left || usize::from(chunk.num_fragments) + 1 == most;
            self.push_fragment(&mut chunk, size, fills);
        }
        if chunk.num_fragments > 0 && self.habits.continues.come_up(self.rng) {
            chunk.flags |= chunk_flags::LAST_CONTINUES_ON_NEXT;
            writer.continues = true;
            self.ask_for_patch(&mut chunk);
        } else if self.habits.given_up.come_up(self.rng) {
            chunk.payload.extend(GIVEN_UP);
            chunk.num_fragments += 1;
        }
        if self.habits.padded.come_up(self.rng) {
            let padding = 1 + self.rng.below(40);
            chunk.payload.resize(chunk.payload.len() + padding, self.rng.pick(&[0, 0, 1, 0xff]));
        }
        writer.next_chunk_id = writer.next_chunk_id.wrapping_add(self.step_of_ids());
        self.writers[index] = writer;
        chunk
    }

    fn step_of_ids(&mut self) -> u32 {
        match self.habits.gap.come_up(self.rng) {
            false => 1,
            true => self.rng.pick(&[0, 2, 3, 1000, u32::MAX, u32::MAX - 3, 0x7fff_ffff, 0x8000_0000]),
        }
    }

    fn push_fragment(&mut self, chunk: &mut Copy, size: usize, last: bool) {
        // Trace writers reserve four bytes; others use as many as it takes.
        if last || size >= 1 << 14 || self.rng.one_in(3) {
            chunk.payload.extend(long_varint(size));
        } else if size < 128 {
            chunk.payload.push(size as u8);
        } else {
            chunk.payload.extend([size as u8 | 0x80, (size >> 7) as u8]);
        }
        let byte = self.rng.pick(b"abcdefgh\x00\x01\x7f\xff");
        chunk.payload.resize(chunk.payload.len() + size, byte);
        chunk.num_fragments += 1;
    }

    /// Takes something out of the chunk that a patch brings later: the last fragment's size, or any four bytes.
    fn ask_for_patch(&mut self, chunk: &mut Copy) {
        if chunk.payload.len() < 4 || !self.habits.needs_patching.come_up(self.rng) {
            return;
        }
        chunk.flags |= chunk_flags::NEEDS_PATCHING;
        let mut patches = Vec::new();
        for _ in 0..1 + self.rng.below(3) {
            let offset = self.rng.below(chunk.payload.len() - 3);
            if let Some(bytes) = chunk.payload[offset..].first_chunk_mut() {
                patches.push((offset as u32, *bytes));
                *bytes = [0; 4];
            }
        }
        patches.reverse(); // They overlap at times: the oldest has the truth.
        if !self.habits.never_patched.come_up(self.rng) {
            let Copy { producer, writer, chunk_id, .. } = *chunk;
            self.owed.push(Patch { producer, writer, chunk_id, more_pending: false, patches });
        }
    }

    /// Copies the chunk as it may have been in the middle of being written, and holds back the finished one.
    fn scrape(&mut self, chunk: &Copy) {
        let mut scraped = Copy { scraped: true, ..chunk.clone() };
        match self.rng.below(4) {
            0 => {}
            1 => scraped.payload.truncate(self.rng.below(chunk.payload.len() + 1)),
            2 => {
                let written = self.rng.below(chunk.payload.len() + 1);
                scraped.payload[written..].fill(0);
            }
            _ => scraped.flags &= chunk_flags::FIRST_CONTINUES_FROM_PREVIOUS,
        }
        scraped.num_fragments = self.rng.below(usize::from(chunk.num_fragments) + 2) as u16;
        self.script.push(Operation::Copy(scraped));
    }

    /// Does what a faulty or hostile writer might.
    fn damage(&mut self, chunk: &mut Copy) {
        match self.rng.below(8) {
            0 => chunk.num_fragments = self.rng.pick(&[0, 1, 2, 100, u16::MAX]),
            1 => chunk.num_fragments = chunk.num_fragments.wrapping_add(1),
            2 => chunk.flags = self.rng.next() as u8,
            3 => chunk.flags ^= 1 << self.rng.below(3),
            4 => chunk.payload.truncate(self.rng.below(chunk.payload.len() + 1)),
            5 => chunk.payload.resize(self.rng.pick(&[4079, 4081, 8176, 65_504, 65_519, 65_536, 70_000]), 0),
            6 => chunk.payload = self.rng.bytes(60),
            _ => {
                for _ in 0..1 + self.rng.below(4) {
                    let at = self.rng.below(chunk.payload.len().max(1));
                    if let Some(byte) = chunk.payload.get_mut(at) {
                        *byte = self.rng.next() as u8;
                    }
                }
            }
        }
    }

    fn commit_held(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let index = self.rng.below(self.held.len());
        let mut chunk = self.held.swap_remove(index);
        if self.habits.malformed.come_up(self.rng) {
            self.damage(&mut chunk);
        }
        self.script.push(Operation::Copy(chunk));
    }

    fn send_patch(&mut self) {
        if self.owed.is_empty() {
            return;
        }
        let index = self.rng.below(self.owed.len());
        let mut patch = self.owed.swap_remove(index);
        if patch.patches.len() > 1 && self.rng.one_in(4) {
            let rest = patch.patches.split_off(1);
            self.owed.push(Patch { patches: rest, ..patch.clone() });
            patch.more_pending = true;
        }
        if self.habits.malformed.come_up(self.rng) {
            match self.rng.below(3) {
                0 => patch.chunk_id = patch.chunk_id.wrapping_add(self.rng.pick(&[1, u32::MAX])),
                1 => patch.patches.push((self.rng.pick(&[0, 4092, u32::MAX, u32::MAX - 3]), [b'!'; 4])),
                _ => patch.patches.clear(),
            }
        }
        self.script.push(Operation::Patch(patch));
    }

    /// What is not writing.
    fn look(&mut self) {
        if self.habits.read.come_up(self.rng) {
            self.script.push(Operation::Begin);
            for _ in 0..1 + self.rng.below(2) {
                let max = self.rng.pick(&[0, 1, 2, 5, 100_000]);
                self.script.push(Operation::Read(max));
            }
        }
        if self.habits.stats.come_up(self.rng) {
            self.script.push(Operation::Stats);
        }
        if self.habits.compact.come_up(self.rng) {
            self.script.push(Operation::Compact);
        }
        if self.habits.want.come_up(self.rng) {
            let producers = 0..self.rng.below(3);
            let wanted = producers.map(|_| self.writers[self.rng.below(self.writers.len())].producer);
            self.script.push(Operation::Want(wanted.collect()));
        }
        if self.habits.renewed.come_up(self.rng) {
            self.renew();
        }
    }

    fn finish(&mut self) {
        if self.rng.one_in(5) {
            self.script.push(Operation::Clone);
        }
        let rounds = 1 + self.rng.below(2);
        for _ in 0..rounds {
            let max = self.rng.pick(&[1, 3, 100_000]);
            self.script.extend([Operation::Stats, Operation::Begin, Operation::Read(max)]);
        }
        self.script.extend([Operation::Begin, Operation::Read(100_000), Operation::Stats]);
    }
}

/// A size in four bytes, however small it is.
fn long_varint(size: usize) -> [u8; 4] {
    [0, 7, 14, 21].map(|shift| (size >> shift) as u8 & 0x7f | if shift < 21 { 0x80 } else { 0 })
}
