//! Connections that begin a frame and leave it at that, behind one of the largest that there are.

use std::io;
use std::thread;
use std::time::Duration;

use ferretto_protos::EnableTracingRequest;

use crate::client::Client;
use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "half_frames",
    tells: "2,900 connections that send a frame of 120 KB and six bytes of the next one",
    needs_many: true,
    asks_for_kib: 0,
    is_slow: true,
    run,
};

const CONNECTIONS: usize = 2900;
const FRAME_BYTES: usize = 120_000;
/// The length of a frame, and its first two bytes.
const BEGINNING: [u8; 6] = [100, 0, 0, 0, 1, 1];

fn run(target: &Target) -> io::Result<()> {
    let mut crowd: Vec<Client> = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut consumer = target.consumer()?;
        // No config that could be read: what is in it does not matter.
        let filler =
            EnableTracingRequest { trace_config: Some(vec![0xff; FRAME_BYTES].into()), ..Default::default() };
        let mut bytes = consumer.bytes_of("EnableTracing", &filler, true);
        bytes.extend(BEGINNING);
        consumer.write(&bytes)?;
        crowd.push(consumer);
    }
    while target.goes_on() {
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
