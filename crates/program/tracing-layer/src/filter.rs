//! Which callsites are wanted: those whose categories a session records now.

use tracing_core::subscriber::Interest;
use tracing_core::{Level, Metadata, callsite};
use tracing_subscriber::layer::{Context, Filter};

use crate::callsite::Callsite;

/// The packages that write and take in traces. What they say about their work would be work again, and some of them hold locks while they
/// say it.
const OWN: [&str; 18] = [
    "ferretto",
    "ferretto_cli",
    "ferretto_consumer",
    "ferretto_derive",
    "ferretto_ipc",
    "ferretto_probes",
    "ferretto_producer",
    "ferretto_protos",
    "ferretto_protovm",
    "ferretto_protozero",
    "ferretto_relay",
    "ferretto_service",
    "ferretto_shm",
    "ferretto_sys",
    "ferretto_trace_buffer",
    "ferretto_trace_filter",
    "ferretto_traced",
    "ferretto_tracing",
];

/// Lets through what sessions record, and spans that sessions record unless they are told otherwise, as one may begin while they are open.
/// Other callsites that nobody records are switched off where they stand, until that changes.
#[derive(Debug)]
pub struct Categories {
    /// Whether changes are heard of. Else each event asks.
    is_told: bool,
    /// Whether spans are let through that no session records.
    keeps_open: bool,
}

impl Categories {
    pub(crate) fn new(keeps_open: bool) -> Self {
        // Sessions come and go on the tracing thread, which holds no lock when it says so.
        Self { is_told: ferretto::on_categories_change(callsite::rebuild_interest_cache), keeps_open }
    }

    /// Whether this is a span that is to be known when a session begins. What is off by default is not: such spans are short and many.
    fn keeps(&self, metadata: &Metadata<'_>) -> bool {
        self.keeps_open && metadata.is_span() && *metadata.level() <= Level::INFO
    }
}

impl<S> Filter<S> for Categories {
    fn enabled(&self, metadata: &Metadata<'_>, _context: &Context<'_, S>) -> bool {
        // Only asked while another layer has no fixed opinion, and about records of the `log` crate. Those have targets of their own here,
        // and the target `log` when they come: they are judged then.
        let is_wanted = || Callsite::known(metadata).is_none_or(|callsite| callsite.category.is_enabled());
        !is_own(metadata) && (self.keeps(metadata) || is_wanted())
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_own(metadata) {
            return Interest::never();
        }
        // Known from now on, that configs can choose it.
        match Callsite::of(metadata).category.is_enabled() {
            _ if self.keeps(metadata) => Interest::always(),
            _ if !self.is_told => Interest::sometimes(),
            true => Interest::always(),
            false => Interest::never(),
        }
    }
}

fn is_own(metadata: &Metadata<'_>) -> bool {
    let package = metadata.target().split("::").next().unwrap_or_default();
    OWN.contains(&package)
}
