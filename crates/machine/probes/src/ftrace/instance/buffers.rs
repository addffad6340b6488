//! The kernel's buffers: how large they are, of which pages, and by which clock.

use ferretto_protos::FtraceConfig;

use super::Instance;
use super::limits::{Limits, memory_bytes};
use crate::ftrace::stats::SetupErrors;

/// The default size of a CPU's buffer: on machines with 7 GiB and more, and on others (upstream: ftrace_config_muxer.cc).
const LARGE_BUFFER_KB: u64 = 8 << 10;
pub(super) const SMALL_BUFFER_KB: u64 = 2 << 10;
const LARGE_MEMORY_BYTES: u64 = 7 << 30;
/// The pages of instances of our own, where they are at least so many. Larger ones save no more, and are harder to find memory for.
const LARGE_PAGE_KB: u64 = 16;
const MIN_PAGES: u64 = 64;

impl Instance {
    /// KiB per CPU that a session gets.
    pub(super) fn granted_kb(&self, config: &FtraceConfig, limits: Limits, errors: &mut SetupErrors) -> u64 {
        let requested_kb =
            buffer_size_kb(config.buffer_size_kb(), config.buffer_size_lower_bound(), memory_bytes());
        let most_kb = most_kb_per_cpu(limits.buffers_kb, self.tracefs.cpus().len());
        if requested_kb > most_kb {
            errors.message(format!(
                "buffer_size_kb: {requested_kb} KiB per CPU are more of the machine's memory than ftrace may take here; {most_kb} KiB are taken"
            ));
        }
        requested_kb.min(most_kb)
    }

    /// Gives a session beside others as much as it asks for: those that came first may have wanted less. What the buffers hold stays.
    pub(super) fn grow(&mut self, config: &FtraceConfig, limits: Limits, errors: &mut SetupErrors) {
        let wanted_kb = self.granted_kb(config, limits, errors);
        let Some(state) = self.state.as_mut().filter(|state| wanted_kb > state.requested_kb) else { return };
        if let Err(error) = self.tracefs.set_cpu_buffer_size_kb(wanted_kb) {
            return errors.message(format!(
                "could not make the buffers larger, they stay at {} KiB per CPU: {error}",
                state.requested_kb
            ));
        }
        state.requested_kb = wanted_kb;
        state.buffer_kb = self.tracefs.cpu_buffer_size_kb();
    }

    /// Sets the buffer of each CPU, of larger pages if nobody else is to read them and it has many: each page costs a call, a lock and
    /// more, and with these a sixth less is spent for an event.
    pub(super) fn set_buffer_size_kb(&self, size_kb: u64) -> std::io::Result<()> {
        let is_large = self.is_private && size_kb >= MIN_PAGES * LARGE_PAGE_KB;
        if is_large
            && system_page_kb() < LARGE_PAGE_KB
            && self.tracefs.set_page_size_kb(LARGE_PAGE_KB).is_ok()
        {
            if self.tracefs.set_cpu_buffer_size_kb(size_kb).is_ok() {
                return Ok(());
            }
            // Memory may be too scattered for them.
            let _ = self.tracefs.set_page_size_kb(system_page_kb());
        }
        self.tracefs.set_cpu_buffer_size_kb(size_kb)
    }

    pub(super) fn update_buffer_percent(&self) {
        let wanted = self.active.iter().filter_map(|session| self.wanted.get(session)?.buffer_percent);
        if let Some(percent) = wanted.filter(|&percent| percent > 0).min()
            && let Err(error) = self.tracefs.set_buffer_percent(u64::from(percent))
        {
            tracing::warn!("linux.ftrace: drain_buffer_percent has no effect: {error}");
        }
    }

    /// Whether an active session wants to be woken when a buffer is that full.
    pub(crate) fn wants_watermark(&self) -> bool {
        self.active.iter().any(|session| {
            self.wanted.get(session).is_some_and(|wanted| wanted.buffer_percent.is_some_and(|p| p > 0))
        })
    }

    /// The kernel's memory for all of its buffers, in KiB.
    pub(crate) fn buffers_kb(&self) -> u64 {
        let cpus = self.tracefs.cpus().len() as u64;
        self.state.as_ref().map_or(0, |state| state.buffer_kb.saturating_mul(cpus))
    }

    /// The pages of one CPU's buffer, as asked of the kernel.
    pub(crate) fn buffer_pages(&self) -> usize {
        let kb = self.state.as_ref().map_or(0, |state| state.requested_kb);
        usize::try_from(kb * 1024).unwrap_or(usize::MAX) / self.layout.page_size.max(1)
    }
}

pub(super) fn system_page_kb() -> u64 {
    (rustix::param::page_size() / 1024).max(1) as u64
}

/// The best clock on offer: the boot clock is the one that traces use.
pub(super) fn choose_clock<'a>(offered: &'a [String], wants_mono_raw: bool, current: &'a str) -> &'a str {
    let preferred = ["boot", "global", "local"];
    let wanted = wants_mono_raw.then_some("mono_raw").into_iter().chain(preferred);
    wanted
        .filter_map(|clock| offered.iter().find(|offer| *offer == clock))
        .next()
        .map_or(current, String::as_str)
}

/// `FtraceClock` of ftrace_event_bundle.proto.
pub(super) fn clock_number(clock: &str) -> u64 {
    match clock {
        "boot" => 0,
        "global" => 2,
        "local" => 3,
        "mono_raw" => 4,
        _ => 1,
    }
}

/// KiB per CPU: what was asked for, else a default by the machine's memory; at least a page.
pub(super) fn buffer_size_kb(requested_kb: u32, is_lower_bound: bool, memory_bytes: u64) -> u64 {
    let default_kb = if memory_bytes >= LARGE_MEMORY_BYTES { LARGE_BUFFER_KB } else { SMALL_BUFFER_KB };
    let requested_kb = u64::from(requested_kb);
    let page_kb = (rustix::param::page_size() / 1024).max(1) as u64;
    let kb = if requested_kb == 0 || (is_lower_bound && requested_kb < default_kb) {
        default_kb
    } else {
        requested_kb
    };
    (kb / page_kb).max(1) * page_kb
}

/// What of so much memory is for each CPU. A small buffer there is always.
pub(super) fn most_kb_per_cpu(all_kb: u64, cpus: usize) -> u64 {
    let page_kb = system_page_kb();
    let kb = all_kb / (cpus.max(1) as u64) / page_kb * page_kb;
    kb.max(SMALL_BUFFER_KB)
}
