//! The tables that we make of a trace beside those of upstream's Trace Processor, row by row.
//!
//! `beside` says which table and which columns of Trace Processor are beside which of ours, `differences` where they may differ and why.

mod beside;
mod cells;
mod comparison;
mod differences;
mod facts;

use ferretto_interop::{need, trace_query};

use self::comparison::ParentChanged;
use crate::kinds::Kind;

/// Recordings of a kind until one can be compared.
const ATTEMPTS: usize = 3;

fn check(kind: Kind) {
    let sql = need!(trace_query());
    for _ in 0..ATTEMPTS {
        match comparison::compare(&sql, &need!(kind.trace())) {
            Ok(()) => return,
            Err(ParentChanged) => kind.forget(),
        }
    }
    panic!("in each of {ATTEMPTS} recordings the parent of a process has changed");
}

/// A test for each kind of trace.
macro_rules! compare {
    ($($name:ident: $kind:ident,)*) => {$(
        #[test]
        fn $name() {
            check(Kind::$kind);
        }
    )*};
}

compare! {
    events_of_every_kind_of_our_library: OurLibrary,
    events_of_every_kind_through_upstreams_service: OurLibraryAtUpstreams,
    tasks_of_ours_and_of_tracing: Tasks,
    events_of_upstreams_library: UpstreamsLibrary,
    a_machine_by_our_probes: Probes,
    a_machine_by_our_probes_with_compact_scheduling: ProbesCompact,
    a_machine_by_upstreams_probes: UpstreamsProbes,
    two_machines_through_our_relay: Machines,
    two_machines_through_our_relay_to_upstreams_service: MachinesAtUpstreams,
    rings_that_have_gone_round: Ring,
    dumps_of_heaps: Heaps,
    samples_of_processors: Samples,
    snapshots_of_memory: Memory,
    events_of_chrome: ChromeJson,
    ftrace_as_text: FtraceText,
}
