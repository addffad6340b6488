//! Sessions that come and go, with much to say of a data source of somebody else's.

use std::io;
use std::thread;

use ferretto_interop::config;
use ferretto_protos::{EnableTracingRequest, FreeBuffersRequest};

use crate::bystanders::SOURCE;
use crate::{Case, Target};

pub(crate) const CASE: Case = Case {
    name: "setups",
    tells: "sessions come and go, each of which says 100 KB of the honest producer's data source, twice",
    needs_many: true,
    asks_for_kib: 0,
    is_slow: false,
    run,
};

/// A user may have five sessions.
const CONSUMERS: usize = 5;
/// Of a session.
const CONFIG_BYTES: usize = 100_000;
/// Sessions of one write.
const AT_ONCE: usize = 4;

fn run(target: &Target) -> io::Result<()> {
    let much = "x".repeat(CONFIG_BYTES);
    let text = format!(
        "buffers {{ size_kb: 64 }} data_sources {{ config {{ name: '{SOURCE}' legacy_config: '{much}' }} }}"
    );
    let request = EnableTracingRequest { trace_config: Some(config(&text).into()), ..Default::default() };
    thread::scope(|scope| {
        let attackers: Vec<_> =
            (0..CONSUMERS).map(|_| scope.spawn(|| come_and_go(target, &request))).collect();
        attackers.into_iter().try_for_each(|attacker| attacker.join().unwrap_or(Ok(())))
    })
}

fn come_and_go(target: &Target, request: &EnableTracingRequest) -> io::Result<()> {
    let mut consumer = target.consumer()?;
    while target.goes_on() {
        let mut sessions = Vec::new();
        for _ in 0..AT_ONCE {
            sessions.extend(consumer.bytes_of("EnableTracing", request, true));
            sessions.extend(consumer.bytes_of("FreeBuffers", &FreeBuffersRequest::default(), true));
        }
        consumer.write(&sessions)?;
        consumer.settle()?;
    }
    Ok(())
}
