//! Flushes, each of which has the service look through a large shared memory and copy all of it.

use std::io;

use ferretto_interop::config;
use ferretto_protos::{DataSourceDescriptor, FlushRequest, RegisterTraceWriterRequest, TraceStats};

use crate::client::Client;
use crate::{Case, Refused, Target};

pub(crate) const CASE: Case = Case {
    name: "flushes",
    tells: "flushes of a session whose producer left 32 MiB of complete chunks in its memory, as fast as they go",
    needs_many: true,
    asks_for_kib: 0,
    is_slow: false,
    run,
};

const MEMORY_BYTES: usize = 32 * 1024 * 1024;
const REQUESTS: usize = 100;
/// The session of the honest has the first buffer, so this is one of the next few.
const BUFFERS: std::ops::Range<u32> = 2..6;

fn run(target: &Target) -> io::Result<()> {
    let (mut producer, memory) = Client::producer_with_memory(&target.producers, "scraped", MEMORY_BYTES)?;
    producer.listen()?;
    let name = Some("scraped".to_owned());
    producer.register(&DataSourceDescriptor { name, no_flush: Some(true), ..Default::default() })?;
    let mut consumer = target.consumer()?;
    consumer
        .have_enabled(&config("buffers { size_kb: 4096 } data_sources { config { name: 'scraped' } }"))?;
    for (writer, buffer) in (1..).zip(BUFFERS) {
        let request =
            RegisterTraceWriterRequest { trace_writer_id: Some(writer), target_buffer: Some(buffer) };
        producer.send("RegisterTraceWriter", &request)?;
    }
    memory.fill_with_complete_chunks(BUFFERS.len() as u16, 0)?;
    let flush = FlushRequest { timeout_ms: Some(1000), ..Default::default() };
    Refused::unless(consumer.ask("Flush", &flush)?.last.is_some(), "a flush failed")?;
    Refused::unless(written(&consumer.stats()?) > 1024 * 1024, "nothing was scraped")?;
    let bytes: Vec<u8> = (0..REQUESTS).flat_map(|_| consumer.bytes_of("Flush", &flush, true)).collect();
    while target.goes_on() {
        consumer.write_for(&bytes, target)?;
    }
    Ok(())
}

fn written(stats: &TraceStats) -> u64 {
    stats.buffer_stats.iter().map(|buffer| buffer.bytes_written()).sum()
}
