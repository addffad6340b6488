//! One snapshot: a clone of the recorder's session, read into a file, and what can be said about it.

use std::time::Duration;

use anyhow::Result;
use ferretto_consumer::{Consumer, write_packet};
use ferretto_protos::fields::trace_packet;
use ferretto_protos::{CloneSessionRequest, TraceConfig};
use ferretto_protozero::read::{Fields, Value};
use ferretto_trace_info::Tally;
use prost::Message;
use rustix::time::{ClockId, clock_gettime};

use crate::record::output::Output;
use crate::record::plan::Plan;
use crate::record::summary::{self, Span, Summary};
use crate::report::UserError;

/// Clones, writes, and gives the summary: all of it, or the losses only.
pub(crate) fn take(
    consumer: &mut Consumer,
    request: &CloneSessionRequest,
    output: &mut Output,
    quiet: bool,
) -> Result<String> {
    let response = consumer.clone_session(request, None)?;
    if !response.success() {
        return Err(refused(response.error()));
    }
    let now_ns = boottime_ns();
    let (mut tally, mut bytes, mut config) = (Tally::default(), 0, None);
    let mut file = output.file();
    let read = consumer.read_buffers(|packet| {
        write_packet(&mut file, packet)?;
        tally.packet(packet);
        bytes += 1 + prost::length_delimiter_len(packet.len()) as u64 + packet.len() as u64;
        config = config.take().or_else(|| config_in(packet));
        Ok(())
    })?;
    tally.read_back(read.oversized_packets, read.torn);
    consumer.free()?;
    let target = output.target_path().map(ToOwned::to_owned);
    output.finish()?;
    let mut plan = Plan::of(&config.unwrap_or_default(), false);
    plan.is_ring = true;
    let summary = Summary {
        path: target.as_deref(),
        counted: true,
        bytes,
        span: Span::Last(tally.reaches_back(now_ns)),
        elapsed: Duration::ZERO,
        plan: &plan,
        tally: &tally,
        stats: None,
        torn: false,
        huge: 0,
        left_out: &[],
        reports: &[],
        outliving: &[],
    };
    if !quiet {
        return Ok(summary::render(&summary));
    }
    Ok(summary::losses(&summary).lines().map(|line| format!("{line}\n")).collect())
}

fn refused(error: &str) -> anyhow::Error {
    UserError::new(format!("the tracing service gave no snapshot: {error}"))
        .help("is the recorder still running?")
        .into()
}

/// The config of the recording stands in the trace.
fn config_in(packet: &[u8]) -> Option<TraceConfig> {
    let mut fields = Fields::new(packet).map_while(Result::ok);
    fields.find_map(|field| match field.value {
        Value::Bytes(bytes) if field.number == trace_packet::TRACE_CONFIG => TraceConfig::decode(bytes).ok(),
        _ => None,
    })
}

/// The clock of traces.
pub(crate) fn boottime_ns() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}
