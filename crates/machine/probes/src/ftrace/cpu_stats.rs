//! What the kernel's ring buffer of a processor says about itself.

use crate::proc_fs::{leading_u64, lines};

/// `per_cpu/cpuN/stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CpuStats {
    pub(crate) cpu: u32,
    pub(crate) entries: u64,
    pub(crate) overrun: u64,
    pub(crate) commit_overrun: u64,
    pub(crate) bytes: u64,
    /// In seconds of the buffer's clock, as the next.
    pub(crate) oldest_event_ts: f64,
    pub(crate) now_ts: f64,
    pub(crate) dropped_events: u64,
    pub(crate) read_events: u64,
}

impl CpuStats {
    pub(crate) fn parse(cpu: u32, text: &[u8]) -> Self {
        let mut stats = Self { cpu, ..Self::default() };
        for line in lines(text) {
            let Some(colon) = line.iter().position(|&b| b == b':') else { continue };
            let (key, value) = line.split_at(colon);
            let value = value.get(1..).unwrap_or(&[]).trim_ascii();
            let count = leading_u64(value).unwrap_or(0);
            let seconds = || std::str::from_utf8(value).ok().and_then(|v| v.parse().ok()).unwrap_or(0.0);
            match key.trim_ascii() {
                b"entries" => stats.entries = count,
                b"overrun" => stats.overrun = count,
                b"commit overrun" => stats.commit_overrun = count,
                b"bytes" => stats.bytes = count,
                b"oldest event ts" => stats.oldest_event_ts = seconds(),
                b"now ts" => stats.now_ts = seconds(),
                b"dropped events" => stats.dropped_events = count,
                b"read events" => stats.read_events = count,
                _ => {}
            }
        }
        stats
    }

    /// `now_ts` in ns.
    pub(crate) fn now_ns(&self) -> u64 {
        // Saturates; the kernel prints microseconds.
        (self.now_ts * 1e9) as u64
    }
}
