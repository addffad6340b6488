//! Requests to commit that are large once they are decoded, and wait for their next steps, all at one time.

use std::io;

use ferretto_protos::{CommitDataRequest, commit_data_request::ChunksToMove};

use crate::client::Client;
use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "commit_pile",
    tells: "240 producers that commit 63,000 empty chunks each",
    needs_many: true,
    asks_for_kib: 0,
    is_slow: true,
    run,
};

const PRODUCERS: usize = 240;
/// As many as a frame has room for, of two bytes each.
const CHUNKS: usize = 63_000;

fn run(target: &Target) -> io::Result<()> {
    let mut crowd: Vec<Client> =
        (0..PRODUCERS).map(|_| target.producer("crowd", 4096)).collect::<io::Result<_>>()?;
    let chunks_to_move = vec![ChunksToMove::default(); CHUNKS];
    let request = CommitDataRequest { chunks_to_move, ..Default::default() };
    for producer in &mut crowd {
        let bytes = producer.bytes_of("CommitData", &request, true);
        producer.write_for(&bytes, target)?;
    }
    crowd.iter_mut().try_for_each(Client::sync)
}
