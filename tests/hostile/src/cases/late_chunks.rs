//! Chunks that come before thousands of later ones of their writer, as many as fit into a frame.

use std::io;

use ferretto_interop::config;
use ferretto_protos::{
    CommitDataRequest, DataSourceDescriptor, SyncRequest, commit_data_request::ChunksToMove,
};

use crate::client::Client;
use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "late_chunks",
    tells: "6,000 chunks a request that come before 8,000 later ones, and before 130,000",
    needs_many: false,
    asks_for_kib: 16 * 1024,
    is_slow: true,
    run,
};

const BUFFER: u32 = 2;
const IN_A_REQUEST: usize = 6000;

fn run(target: &Target) -> io::Result<()> {
    let mut producer = target.producer("late", 4096 * 16)?;
    producer.listen()?;
    let name = Some("late".to_owned());
    producer.register(&DataSourceDescriptor { name, no_flush: Some(true), ..Default::default() })?;
    let mut consumer = target.consumer()?;
    consumer.have_enabled(&config("buffers { size_kb: 16384 } data_sources { config { name: 'late' } }"))?;
    for (writer, later) in [(1, 8000), (2, 130_000)] {
        // The last ones come first.
        commit(&mut producer, writer, (u32::MAX / 4..).take(later))?;
        for request in (0..40).take_while(|_| target.goes_on()) {
            let first = request * IN_A_REQUEST as u32;
            commit(&mut producer, writer, (first..).take(IN_A_REQUEST))?;
        }
    }
    producer.call("Sync", &SyncRequest::default())
}

/// Empty ones.
fn commit(producer: &mut Client, writer: u16, ids: impl Iterator<Item = u32>) -> io::Result<()> {
    let chunk = |id: u32| {
        let mut data = id.to_le_bytes().to_vec();
        data.extend(writer.to_le_bytes());
        data.extend([0, 0]);
        ChunksToMove { target_buffer: Some(BUFFER), data: Some(data.into()), ..Default::default() }
    };
    let chunks: Vec<ChunksToMove> = ids.map(chunk).collect();
    for part in chunks.chunks(IN_A_REQUEST) {
        let request = CommitDataRequest { chunks_to_move: part.to_vec(), ..Default::default() };
        producer.commit(&request)?;
    }
    producer.call("Sync", &SyncRequest::default())
}
