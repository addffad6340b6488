//! A producer brings its shared memory along, and goes on to use the file that it is: what it does there holds the file's locks.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ferretto_interop::config;
use ferretto_protos::commit_data_request::ChunksToMove;
use ferretto_protos::{CommitDataRequest, DataSourceDescriptor, RegisterTraceWriterRequest};

use crate::client::{Client, Memory};
use crate::{Case, Target};

pub(crate) const WRITTEN: Case = Case {
    name: "own_memory_written",
    tells: "a producer that is scraped a hundred times a second writes 32 MiB into the file of its memory, in 32 threads",
    needs_many: false,
    asks_for_kib: 64,
    is_slow: false,
    run: write,
};

pub(crate) const TORN: Case = Case {
    name: "own_memory_torn",
    tells: "a producer takes all pages out of its memory, which it has mapped 20 times, while it commits chunks that are there",
    run: tear,
    ..WRITTEN
};

const MEMORY_BYTES: usize = 32 << 20;
const PAGES: u32 = (MEMORY_BYTES / 4096) as u32;
const THREADS: usize = 32;
/// The first time it is waited for, which takes the kernel some 2 ms for each; that is not defended (docs/security.md). All further ones are not.
const MAPPINGS: usize = 20;

fn write(target: &Target) -> io::Result<()> {
    let (_producer, memory, _consumer) = scraped(target)?;
    let zeroes = vec![0; MEMORY_BYTES];
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| while target.goes_on() && memory.write(&zeroes).is_ok() {});
        }
    });
    Ok(())
}

fn tear(target: &Target) -> io::Result<()> {
    let (mut producer, memory, _consumer) = scraped(target)?;
    let mappings = (0..MAPPINGS).map(|_| memory.map()).collect::<io::Result<Vec<_>>>()?;
    while target.goes_on() {
        memory.fill_with_complete_chunks(1, 0)?;
        mappings.iter().try_for_each(Memory::look_at_all)?;
        let is_torn = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let _ = memory.tear();
                is_torn.store(true, Ordering::Relaxed);
            });
            let mut page = 0;
            while !is_torn.load(Ordering::Relaxed) {
                commit(&mut producer, page)?;
                page += 1;
            }
            Ok::<_, io::Error>(())
        })?;
    }
    Ok(())
}

/// Some pages, from everywhere.
fn commit(producer: &mut Client, from: u32) -> io::Result<()> {
    let chunk = |number: u32| ChunksToMove {
        page: Some((from + number * 500) % PAGES),
        chunk: Some(0),
        target_buffer: Some(2),
        ..Default::default()
    };
    let chunks_to_move = (0..16).map(chunk).collect();
    producer.commit(&CommitDataRequest { chunks_to_move, ..Default::default() })?;
    producer.sync()
}

fn scraped(target: &Target) -> io::Result<(Client, Memory, Client)> {
    let (mut producer, memory) = Client::producer_with_memory(&target.producers, "own", MEMORY_BYTES)?;
    producer.listen()?;
    let name = Some("own".to_owned());
    producer.register(&DataSourceDescriptor { name, no_flush: Some(true), ..Default::default() })?;
    producer.sync()?;
    let mut consumer = target.consumer()?;
    let sources = "data_sources { config { name: 'own' } } flush_period_ms: 10";
    consumer.have_enabled(&config(&format!("buffers {{ size_kb: 64 }} {sources}")))?;
    let writer = RegisterTraceWriterRequest { trace_writer_id: Some(1), target_buffer: Some(2) };
    producer.send("RegisterTraceWriter", &writer)?;
    producer.sync()?;
    Ok((producer, memory, consumer))
}
