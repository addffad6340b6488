//! What buffers are measured with; the bench `trace_buffer` and upstream's half of it (`tests/upstream-buffer`) use it, too.
//!
//! - `write_single`: one writer into a ring of 64 MiB that has long been full.
//! - `write_1000`: the same with 1000 writers in turn.
//! - `write_small`: one writer again, with packets of 22 bytes, the smallest that programs write.
//! - `fold_single`, `fold_1000`, `fold_small`: the same with `fold_overwritten`; of our buffer only (`folding.rs`).
//! - `read`: every packet of a ring of 128 MiB, once.
//! - `memcpy`: what `write_single` copies, and nothing else: the bytes of each chunk, 4096 further on than those of the last.
//!
//! Chunks count as 4096 bytes when written; what counts when reading are the packets' bytes. Each figure is the
//! best of several runs.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ferretto_trace_buffer::{Chunk, ClientIdentity, FillPolicy, ProducerId, TraceBuffer};

const CHUNK_BYTES: usize = 4096;
const PAYLOAD_BYTES: usize = 4080;
const TEMPLATES: usize = 100;
/// A packet and the varint before it.
const SMALL_BYTES: usize = 23;
const MIB: usize = 1024 * 1024;
const MIN_RUNS: usize = 5;
const TIME_PER_WORKLOAD: Duration = Duration::from_millis(1500);

/// The workloads that need a buffer.
pub(crate) const OF_BUFFERS: [&str; 4] = ["write_single", "write_1000", "write_small", "read"];

/// A buffer that can be measured.
pub(crate) trait Measured {
    fn create(size_bytes: usize) -> Self;
    fn copy(&mut self, chunk: &Chunk<'_>);
    /// Reads every packet in a pass of its own and gives the sum of their sizes.
    fn read_all(&mut self) -> usize;
}

/// Bytes per second of a workload. `None` if there is none of that name.
pub(crate) fn measure<B: Measured>(workload: &str) -> Option<f64> {
    let templates = match workload {
        "write_small" => vec![make_small_template()],
        _ => make_templates(),
    };
    Some(match workload {
        "write_single" => measure_writing::<B>(&templates, 1),
        "write_1000" => measure_writing::<B>(&templates, 1000),
        "write_small" => measure_writing::<B>(&templates, 1),
        "read" => measure_reading::<B>(&templates),
        "memcpy" => measure_copying(&templates),
        _ => return None,
    })
}

impl Measured for TraceBuffer {
    fn create(size_bytes: usize) -> Self {
        Self::new(size_bytes, FillPolicy::Ring).expect("memory for the ring")
    }

    fn copy(&mut self, chunk: &Chunk<'_>) {
        self.copy_chunk(chunk);
    }

    fn read_all(&mut self) -> usize {
        self.begin_read();
        let mut bytes = 0;
        while let Some(packet) = self.read_next() {
            bytes += packet.len();
        }
        bytes
    }
}

/// A chunk to be written again and again.
pub(crate) struct Template {
    pub(crate) payload: Vec<u8>,
    pub(crate) num_fragments: u16,
}

pub(crate) fn make_templates() -> Vec<Template> {
    let mut state = 42u64;
    let mut random = move || {
        state = state * 48271 % 2_147_483_647;
        state as usize
    };
    (0..TEMPLATES).map(|_| make_template(&mut random)).collect()
}

fn make_template(random: &mut impl FnMut() -> usize) -> Template {
    let mut template = Template { payload: Vec::with_capacity(PAYLOAD_BYTES), num_fragments: 0 };
    let num_packets = 5 + random() % 11;
    for _ in 0..num_packets {
        let left = PAYLOAD_BYTES - template.payload.len();
        if left < 50 {
            break;
        }
        let size = (50 + random() % 451).min(left);
        if size < 10 {
            break;
        }
        push_packet(&mut template, size);
    }
    template
}

fn make_small_template() -> Template {
    let mut template = Template { payload: Vec::with_capacity(PAYLOAD_BYTES), num_fragments: 0 };
    while template.payload.len() + SMALL_BYTES <= PAYLOAD_BYTES {
        push_packet(&mut template, SMALL_BYTES);
    }
    template
}

/// Adds a packet that takes `size` bytes with the varint before it.
fn push_packet(template: &mut Template, size: usize) {
    if size <= 128 {
        template.payload.push((size - 1) as u8);
    } else {
        let body = size - 2;
        template.payload.extend([body as u8 | 0x80, (body >> 7) as u8]);
    }
    let start = template.payload.len() + size - if size <= 128 { 1 } else { 2 };
    let body = template.payload.len();
    template.payload.resize(start, b'x');
    // A track event as a writer's usual one, for buffers that look into packets: a time, flags, and the event.
    if let Some([head @ .., low, high]) = template.payload.get_mut(body..body + 7) {
        head.copy_from_slice(&[0x40, 1, 0x68, 2, 0x5a]);
        let event = start - body - 7;
        (*low, *high) = (event as u8 | 0x80, (event >> 7) as u8);
    }
    template.num_fragments += 1;
}

fn copy(buffer: &mut impl Measured, template: &Template, writer: usize, chunk_id: u32) {
    buffer.copy(&Chunk {
        producer: ProducerId(1 + (writer / 100) as u16),
        client: ClientIdentity::default(),
        writer: 1 + (writer % 100) as u16,
        chunk_id,
        num_fragments: template.num_fragments,
        flags: 0,
        complete: true,
        payload: &template.payload,
    });
}

/// The best of at least [`MIN_RUNS`] runs, in bytes a second.
fn best(mut run: impl FnMut() -> (usize, Duration)) -> f64 {
    let start = Instant::now();
    let mut best: f64 = 0.0;
    let mut runs = 0;
    while runs < MIN_RUNS || start.elapsed() < TIME_PER_WORKLOAD {
        let (bytes, time) = run();
        best = best.max(bytes as f64 / time.as_secs_f64());
        runs += 1;
    }
    best
}

fn measure_writing<B: Measured>(templates: &[Template], writers: usize) -> f64 {
    let mut buffer = B::create(64 * MIB);
    let mut count = 0;
    best(|| {
        let start = Instant::now();
        for _ in 0..64 * MIB / CHUNK_BYTES {
            copy(&mut buffer, &templates[count % templates.len()], count % writers, (count / writers) as u32);
            count += 1;
        }
        (64 * MIB, start.elapsed())
    })
}

fn measure_reading<B: Measured>(templates: &[Template]) -> f64 {
    best(|| {
        let mut buffer = B::create(128 * MIB);
        for index in 0..(128 * MIB - CHUNK_BYTES) / CHUNK_BYTES {
            copy(&mut buffer, &templates[index % TEMPLATES], 0, index as u32);
        }
        let start = Instant::now();
        let bytes = buffer.read_all();
        (bytes, start.elapsed())
    })
}

fn measure_copying(templates: &[Template]) -> f64 {
    let mut ring = vec![0; 64 * MIB];
    let mut count = 0;
    best(|| {
        let start = Instant::now();
        for place in ring.chunks_exact_mut(CHUNK_BYTES) {
            let payload = &templates[count % templates.len()].payload;
            place[..payload.len()].copy_from_slice(payload);
            count += 1;
        }
        black_box(&mut ring);
        (64 * MIB, start.elapsed())
    })
}
