//! Producers name each page of their shared memory, so that the service looks at all of it: the system provides memory for what is looked at.

use std::io;

use ferretto_interop::config;
use ferretto_protos::commit_data_request::ChunksToMove;
use ferretto_protos::{CommitDataRequest, DataSourceDescriptor};

use crate::client::Client;
use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "touched_memory",
    tells: "4,000 producers name all pages of their shared memory: of the first eight it is 32 MiB",
    needs_many: true,
    asks_for_kib: 64,
    is_slow: true,
    run: |target| touch(target, 8, 4000),
};

pub(crate) const ONE: Case = Case {
    name: "touched_memory_one",
    tells: "a producer names all pages of the 256 MiB that a config of its user wishes for it",
    needs_many: false,
    run: |target| touch(target, 0, 0),
    ..CASE
};

const LARGE: u32 = 32 * 1024 * 1024;
const SMALL: u32 = 64 * 1024;

fn touch(target: &Target, large: usize, small: usize) -> io::Result<()> {
    let mut consumer = target.consumer()?;
    consumer.have_enabled(&config(
        "buffers { size_kb: 64 } data_sources { config { name: 'touched' } } \
         producers { producer_name: 'given' shm_size_kb: 262144 page_size_kb: 4 }",
    ))?;
    let mut all = Vec::new();
    if large == 0 {
        all.push(producer(target, "given", 256 << 20)?);
    }
    for number in 0..large + small {
        all.push(producer(target, "own", if number < large { LARGE } else { SMALL })?);
    }
    for producer in &mut all {
        producer.sync()?;
    }
    Ok(())
}

fn producer(target: &Target, name: &str, bytes: u32) -> io::Result<Client> {
    let mut producer = target.producer(name, bytes.min(LARGE))?;
    let name = Some("touched".to_owned());
    producer.register(&DataSourceDescriptor { name, no_flush: Some(true), ..Default::default() })?;
    let pages: Vec<u32> = (0..bytes / 4096).collect();
    for pages in pages.chunks(4000) {
        let chunk = |page: &u32| ChunksToMove {
            page: Some(*page),
            chunk: Some(0),
            target_buffer: Some(2),
            ..Default::default()
        };
        let chunks_to_move = pages.iter().map(chunk).collect();
        producer.commit(&CommitDataRequest { chunks_to_move, ..Default::default() })?;
    }
    Ok(producer)
}
