//! Flushes by the thousand of 65,280 instances, whose producer reads nothing any more; then it hangs up.

use std::io::{self, Read as _};
use std::time::Duration;

use ferretto_interop::config;
use ferretto_protos::{DataSourceDescriptor, FlushRequest};

use crate::client::Client;
use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "held_flushes",
    tells: "flushes of 65,280 instances are asked for again and again, and their producer does not read of them",
    needs_many: true,
    asks_for_kib: 2 * 64,
    is_slow: true,
    run,
};

/// By name, how many a producer has, and how often a session wants each.
const MANY: (&str, usize, usize) = ("many", 256, 255);
const FEW: (&str, usize, usize) = ("few", 64, 256);
/// So many, of the smaller session, and the producer's socket is full.
const FILLING: usize = 12;
const FLUSHES: usize = 2000;
const SILENCE: Duration = Duration::from_millis(700);

fn run(target: &Target) -> io::Result<()> {
    let mut producer = target.producer("held", 4096 * 16)?;
    producer.listen()?;
    let mut bytes = Vec::new();
    for (name, sources, _) in [MANY, FEW] {
        let source = DataSourceDescriptor { name: Some(name.to_owned()), ..Default::default() };
        (0..sources).for_each(|_| bytes.extend(producer.register_bytes(&source)));
    }
    producer.write(&bytes)?;
    producer.sync()?;
    let mut many = session(target, MANY)?;
    let mut few = session(target, FEW)?;
    read_all(&producer)?;
    let flush = FlushRequest { timeout_ms: Some(1), ..Default::default() };
    // They fail: nobody answers them.
    (0..FILLING).try_for_each(|_| few.ask("Flush", &flush).map(drop))?;
    (0..FLUSHES).try_for_each(|_| many.ask("Flush", &flush).map(drop))
}

fn session(target: &Target, (name, _, times): (&str, usize, usize)) -> io::Result<Client> {
    let mut consumer = target.consumer()?;
    let sources = format!("data_sources {{ config {{ name: '{name}' }} }} ").repeat(times);
    consumer.have_enabled(&config(&format!("buffers {{ size_kb: 64 }} {sources}")))?;
    Ok(consumer)
}

/// What it is told up to now.
fn read_all(producer: &Client) -> io::Result<()> {
    let mut stream = producer.stream();
    stream.set_read_timeout(Some(SILENCE))?;
    let mut buffer = vec![0; 1 << 16];
    while let Ok(1..) = stream.read(&mut buffer) {}
    stream.set_read_timeout(None)
}
