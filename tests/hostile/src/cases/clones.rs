//! Copies of a large buffer, as fast as they go.

use std::io;

use ferretto_interop::config;
use ferretto_protos::clone_session_request::Selector;
use ferretto_protos::{
    CloneSessionRequest, DataSourceDescriptor, FlushRequest, FreeBuffersRequest, RegisterTraceWriterRequest,
    TraceStats,
};

use crate::client::Client;
use crate::{Case, Refused, Target};

pub(crate) const CASE: Case = Case {
    name: "clones",
    tells: "clones of a session with 256 MiB in its buffer, each freed at once",
    needs_many: true,
    asks_for_kib: 256 * 1024,
    is_slow: true,
    run,
};

const MEMORY_BYTES: usize = 32 * 1024 * 1024;
/// The session of the honest has the first buffer, so this is one of the next few.
const BUFFERS: std::ops::Range<u32> = 2..4;
const FLUSHES: u32 = 9;

fn run(target: &Target) -> io::Result<()> {
    let (mut producer, memory) = Client::producer_with_memory(&target.producers, "copied", MEMORY_BYTES)?;
    producer.listen()?;
    let name = Some("copied".to_owned());
    producer.register(&DataSourceDescriptor { name, no_flush: Some(true), ..Default::default() })?;
    let mut consumer = target.consumer()?;
    consumer.have_enabled(&config(
        "buffers { size_kb: 262144 } unique_session_name: 'copied' data_sources { config { name: 'copied' } }",
    ))?;
    for (writer, buffer) in (1..).zip(BUFFERS) {
        let request =
            RegisterTraceWriterRequest { trace_writer_id: Some(writer), target_buffer: Some(buffer) };
        producer.send("RegisterTraceWriter", &request)?;
    }
    for round in 0..FLUSHES {
        memory.fill_with_complete_chunks(BUFFERS.len() as u16, round * 10_000)?;
        consumer.call("Flush", &FlushRequest { timeout_ms: Some(1000), ..Default::default() })?;
    }
    Refused::unless(buffered(&consumer.stats()?) > 128 * 1024 * 1024, "the buffer is not full")?;
    let mut cloner = target.consumer()?;
    let selector = Some(Selector::UniqueSessionName("copied".to_owned()));
    let clone = CloneSessionRequest { selector, ..Default::default() };
    while target.goes_on() {
        Refused::unless(cloner.ask("CloneSession", &clone)?.last.is_some(), "a clone was refused")?;
        cloner.call("FreeBuffers", &FreeBuffersRequest::default())?;
    }
    Ok(())
}

fn buffered(stats: &TraceStats) -> u64 {
    stats.buffer_stats.iter().map(|buffer| buffer.bytes_written()).sum()
}
