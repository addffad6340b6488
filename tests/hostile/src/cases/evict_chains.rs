//! One chunk overwrites the beginnings of two thousand packets, each of which is looked for in thousands of empty chunks behind it.

use std::io;

use ferretto_interop::config;
use ferretto_protos::{DataSourceDescriptor, DisableTracingRequest};
use prost::encoding::encode_varint;

use crate::chunks::{LAST_CONTINUES, chunk, commit_all};
use crate::{Case, Refused, Target};

pub(crate) const CASE: Case = Case {
    name: "evict_chains",
    tells: "a chunk of 64 KB overwrites the beginnings of 2,000 packets, whose ends are sought in 16 million empty chunks",
    needs_many: false,
    asks_for_kib: 256 * 1024,
    is_slow: true,
    run: |target| chains(target, 256 * 1024, false),
};

pub(crate) const SMALL: Case = Case {
    name: "evict_chains_small",
    tells: "the same with 4 million",
    asks_for_kib: 64 * 1024,
    run: |target| chains(target, 64 * 1024, false),
    ..CASE
};

pub(crate) const LARGE_RING: Case = Case {
    name: "evict_chains_large",
    tells: "the same with 50 million",
    asks_for_kib: 768 * 1024,
    run: |target| chains(target, 768 * 1024, false),
    ..CASE
};

pub(crate) const STATS: Case = Case {
    name: "unread_stats",
    tells: "stats of a session that is over and has millions of unread chunks, again and again",
    asks_for_kib: 64 * 1024,
    run: |target| chains(target, 64 * 1024, true),
    ..CASE
};

const WRITERS: u16 = 2000;
const IN_A_REQUEST: usize = 6000;
const BUFFER: u32 = 2;
const LARGE: usize = 65_000;

fn chains(target: &Target, kib: usize, only_stats: bool) -> io::Result<()> {
    let mut producer = target.producer("chains", 4096 * 16)?;
    producer.listen()?;
    let name = Some("chains".to_owned());
    producer.register(&DataSourceDescriptor { name, no_flush: Some(true), ..Default::default() })?;
    let mut consumer = target.consumer()?;
    consumer.have_enabled(&config(&format!(
        "buffers {{ size_kb: {kib} }} data_sources {{ config {{ name: 'chains' }} }}"
    )))?;
    // A ring of another size than a multiple of the last chunk: it has to turn for it.
    let rows = (kib * 1024 - LARGE + 1000 - usize::from(WRITERS) * 32) / (16 * usize::from(WRITERS));
    let begins = (1..=WRITERS).map(|writer| chunk(BUFFER, writer, 0, 1, LAST_CONTINUES, &[1, 8]));
    let empty = (1..=rows as u32)
        .flat_map(|row| (1..=WRITERS).map(move |writer| chunk(BUFFER, writer, row, 0, 0, &[])));
    commit_all(&mut producer, begins.chain(empty), IN_A_REQUEST)?;
    let written = consumer.stats()?.buffer_stats[0].chunks_written();
    Refused::unless(written > rows as u64 * u64::from(WRITERS), "they were not written")?;
    if only_stats {
        consumer.call("DisableTracing", &DisableTracingRequest::default())?;
        while target.goes_on() {
            consumer.stats()?;
        }
        for _ in 0..10 {
            consumer.stats()?;
        }
        return Ok(());
    }
    let mut payload = Vec::new();
    encode_varint(LARGE as u64 - 3, &mut payload);
    payload.resize(LARGE, 0);
    for id in 0..2 {
        commit_all(&mut producer, std::iter::once(chunk(BUFFER, 3000, id, 1, 0, &payload)), 1)?;
    }
    let overwritten = consumer.stats()?.buffer_stats[0].chunks_overwritten();
    Refused::unless(overwritten > 1000, &format!("only {overwritten} were overwritten"))
}
