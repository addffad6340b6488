//! Connections that are there and hold what they may.

use std::io;

use ferretto_protos::DataSourceDescriptor;

use crate::client::Client;
use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "idle_connections",
    tells: "400 connections that leave a frame of 128 KiB unfinished, and 400 producers with a descriptor of 100 KiB",
    needs_many: true,
    asks_for_kib: 0,
    is_slow: false,
    run,
};

const CONNECTIONS: usize = 400;
/// The length of the largest frame there is, and all of it but the last byte.
const FRAME_BYTES: usize = 128 * 1024 - 5;
const DESCRIPTOR_BYTES: usize = 100 * 1024;

fn run(target: &Target) -> io::Result<()> {
    let mut held: Vec<Client> = Vec::new();
    let mut unfinished = u32::try_from(FRAME_BYTES + 1).unwrap_or(0).to_le_bytes().to_vec();
    unfinished.resize(4 + FRAME_BYTES, 0);
    for _ in 0..CONNECTIONS {
        let mut consumer = target.consumer()?;
        consumer.write(&unfinished)?;
        held.push(consumer);
        let mut producer = target.producer("idle", 4096 * 16)?;
        let name = Some("idle".to_owned());
        let protovm_program = Some(vec![0; DESCRIPTOR_BYTES].into());
        producer.register(&DataSourceDescriptor { name, protovm_program, ..Default::default() })?;
        producer.write(&unfinished)?;
        held.push(producer);
    }
    while target.goes_on() {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Ok(())
}
