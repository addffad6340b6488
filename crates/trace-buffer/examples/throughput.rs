//! Prints how fast the buffer is: `NAME BYTES_PER_SECOND` for each of three workloads.
//!
//! - `write_single`: one writer into a ring of 64 MiB that has long been full.
//! - `write_1000`: the same with 1000 writers in turn.
//! - `read`: every packet of a ring of 128 MiB, once.
//!
//! Chunks count as 4096 bytes when written; what counts when reading are the packets' bytes. Each figure is the
//! best of several runs. With an argument, only the workload of that name runs.

use std::time::{Duration, Instant};

use ferretto_trace_buffer::{Chunk, ClientIdentity, FillPolicy, ProducerId, TraceBuffer};

const CHUNK_BYTES: usize = 4096;
const PAYLOAD_BYTES: usize = 4080;
const TEMPLATES: usize = 100;
const MIB: usize = 1024 * 1024;
const MIN_RUNS: usize = 5;
const TIME_PER_WORKLOAD: Duration = Duration::from_millis(1500);

fn main() {
    let wanted = std::env::args().nth(1);
    let templates = make_templates();
    let workloads: [(&str, Workload); 3] = [
        ("write_single", |templates| measure_writing(templates, 1)),
        ("write_1000", |templates| measure_writing(templates, 1000)),
        ("read", measure_reading),
    ];
    for (name, measure) in workloads {
        if wanted.as_deref().is_none_or(|wanted| wanted == name) {
            println!("{name} {:.0}", measure(&templates));
        }
    }
}

/// Gives bytes per second.
type Workload = fn(&[Template]) -> f64;

struct Template {
    payload: Vec<u8>,
    num_fragments: u16,
}

fn make_templates() -> Vec<Template> {
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

/// Adds a packet that takes `size` bytes with the varint before it.
fn push_packet(template: &mut Template, size: usize) {
    if size <= 128 {
        template.payload.push((size - 1) as u8);
    } else {
        let body = size - 2;
        template.payload.extend([body as u8 | 0x80, (body >> 7) as u8]);
    }
    let start = template.payload.len() + size - if size <= 128 { 1 } else { 2 };
    template.payload.resize(start, b'x');
    template.num_fragments += 1;
}

fn copy(buffer: &mut TraceBuffer, template: &Template, writer: usize, chunk_id: u32) {
    buffer.copy_chunk(&Chunk {
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

fn measure_writing(templates: &[Template], writers: usize) -> f64 {
    let mut buffer = TraceBuffer::new(64 * MIB, FillPolicy::Ring).expect("64 MiB");
    let mut count = 0;
    best(|| {
        let start = Instant::now();
        for _ in 0..64 * MIB / CHUNK_BYTES {
            copy(&mut buffer, &templates[count % TEMPLATES], count % writers, (count / writers) as u32);
            count += 1;
        }
        (64 * MIB, start.elapsed())
    })
}

fn measure_reading(templates: &[Template]) -> f64 {
    best(|| {
        let mut buffer = TraceBuffer::new(128 * MIB, FillPolicy::Ring).expect("128 MiB");
        for index in 0..(128 * MIB - CHUNK_BYTES) / CHUNK_BYTES {
            copy(&mut buffer, &templates[index % TEMPLATES], 0, index as u32);
        }
        let start = Instant::now();
        buffer.begin_read();
        let mut bytes = 0;
        while let Some(packet) = buffer.read_next() {
            bytes += packet.len();
        }
        (bytes, start.elapsed())
    })
}
