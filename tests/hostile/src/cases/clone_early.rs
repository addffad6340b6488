//! A packet with a fragment in each part of a ring is read while the ring is being copied: each part has to be copied before that.

use std::io;
use std::thread;
use std::time::Duration;

use ferretto_interop::config;
use ferretto_protos::clone_session_request::Selector;
use ferretto_protos::{CloneSessionRequest, CommitDataRequest, DataSourceDescriptor, ReadBuffersRequest};
use prost::encoding::encode_varint;

use crate::chunks::{FIRST_CONTINUES, LAST_CONTINUES, chunk};
use crate::{Case, Refused, Target};

pub(crate) const CASE: Case = Case {
    name: "clone_early",
    tells: "a packet in 17,000 pieces all over a ring of 1 GiB is read while that is being cloned",
    needs_many: true,
    asks_for_kib: 2 * 1024 * 1024,
    is_slow: true,
    run: |target| clone_early(target, 1024 * 1024),
};

pub(crate) const SMALL: Case = Case {
    name: "clone_early_small",
    tells: "a packet in 4,000 pieces all over a ring of 256 MiB is read while that is being cloned",
    asks_for_kib: 2 * 256 * 1024,
    run: |target| clone_early(target, 256 * 1024),
    ..CASE
};

const FILLER: usize = 60_000;
const BUFFER: u32 = 2;

fn clone_early(target: &Target, kib: usize) -> io::Result<()> {
    let mut producer = target.producer("early", 4096 * 16)?;
    producer.listen()?;
    let name = Some("early".to_owned());
    producer.register(&DataSourceDescriptor { name, no_flush: Some(true), ..Default::default() })?;
    let mut consumer = target.consumer()?;
    consumer.have_enabled(&config(&format!(
        "buffers {{ size_kb: {kib} }} data_sources {{ config {{ name: 'early' }} }} unique_session_name: 'early'"
    )))?;
    let rows = (kib * 1024 / (FILLER + 64) - 2) as u32;
    let mut filler = Vec::new();
    encode_varint(FILLER as u64 - 3, &mut filler);
    filler.resize(FILLER, 0);
    for row in 0..rows {
        let mut flags = 0;
        if row > 0 {
            flags |= FIRST_CONTINUES;
        }
        if row + 1 < rows {
            flags |= LAST_CONTINUES;
        }
        let chunks_to_move =
            vec![chunk(BUFFER, 1, row, 1, flags, &[2, 8, 1]), chunk(BUFFER, 2, row, 1, 0, &filler)];
        producer.commit(&CommitDataRequest { chunks_to_move, ..Default::default() })?;
    }
    producer.sync()?;
    let mut cloner = target.consumer()?;
    let selector = Some(Selector::UniqueSessionName("early".to_owned()));
    cloner.send("CloneSession", &CloneSessionRequest { selector, ..Default::default() })?;
    thread::sleep(Duration::from_millis(10));
    consumer.send("ReadBuffers", &ReadBuffersRequest::default())?;
    cloner.settle()?;
    Refused::unless(cloner.stats().is_ok(), "no clone")?;
    Ok(())
}
