//! What profilers say: call stacks, samples, heaps, and where memory is (upstream: profile_module.cc).
//!
//! | module | what it does |
//! |---|---|
//! | [`stacks`] | mappings, frames and call stacks, each once |
//! | [`resolve`] | stacks behind numbers of what is interned |
//! | [`inline`] | stacks that a packet brings itself, and those of events of programs |
//! | [`samples`] | what rows of samples share |
//! | [`perf`] | samples of `linux.perf`, and the counters read with them |
//! | [`perf_counters`] | what the counters of `linux.perf` are called |
//! | [`stack_sample`] | samples of any profiler |
//! | [`stack_counters`] | the counters that such samples bring |
//! | [`streaming`] | samples of Chrome's own profiler |
//! | [`heap`] | dumps of heaps |
//! | [`heap_sequence`] | what a sequence of such dumps has said before |
//! | [`heap_graph`] | the objects of Java heaps |
//! | [`smaps`] | where the memory of a process lies |
//! | [`symbols`] | names and lines that were found after recording |
//! | [`deobfuscation`] | names of Java before they were shortened |
//! | [`memory_snapshot`] | what programs say of their memory |
//! | [`memory_graph`] | who owns which part of it |

pub mod deobfuscation;
pub mod heap;
pub mod heap_graph;
pub mod heap_sequence;
pub mod inline;
pub mod memory_graph;
pub mod memory_snapshot;
pub mod perf;
pub mod perf_counters;
pub mod resolve;
pub mod samples;
pub mod smaps;
pub mod stack_counters;
pub mod stack_sample;
pub mod stacks;
pub mod streaming;
pub mod symbols;

use ferretto_protos::fields::trace_packet as kind;
use ferretto_trace_tables::tables::Tables;

use crate::event::WholePacket;
use crate::model::Model;
use crate::sequence::Generation;
use crate::stats::{Stat, Stats};
use resolve::{Found, Resolver};

/// `TracePacket.memory_tracker_snapshot`, which the messages here do without.
const MEMORY_TRACKER_SNAPSHOT: u32 = 73;

/// What is known of profiles.
#[derive(Debug, Default)]
pub struct Profiles {
    /// All call stacks.
    pub stacks: stacks::Stacks,
    inline: inline::InlineMappings,
    contexts: samples::Contexts,
    perf: perf::Sessions,
    stack_samples: stack_sample::Sessions,
    heap_dumps: heap::Dumps,
    heap_graphs: heap_graph::HeapGraphs,
    snapshots: memory_snapshot::Snapshots,
    pub(crate) deobfuscation: deobfuscation::Names,
}

/// What profiles keep with what a sequence has interned.
#[derive(Debug, Default)]
pub struct Kept {
    found: Found,
    heap: heap_sequence::HeapSequence,
    tasks: stack_sample::FoundTasks,
}

impl Profiles {
    fn resolver<'a>(
        &'a mut self,
        state: &'a Generation,
        found: &'a mut Found,
        tables: &'a mut Tables,
        stats: &'a mut Stats,
    ) -> Resolver<'a> {
        Resolver { state, found, stacks: &mut self.stacks, tables, stats }
    }
}

impl Model {
    /// Applies a packet of a profiler; says whether it was one.
    pub fn apply_profile(&mut self, ts: i64, packet: &WholePacket) -> bool {
        match packet.kind {
            kind::PERF_SAMPLE => self.apply_perf_sample(ts, packet),
            kind::STACK_SAMPLE => self.apply_stack_sample(ts, packet),
            kind::PROFILE_PACKET => self.apply_heap_packet(ts, packet),
            kind::SMAPS_PACKET => self.apply_smaps(ts, packet),
            kind::MODULE_SYMBOLS => self.apply_module_symbols(&packet.data),
            kind::DEOBFUSCATION_MAPPING => {
                self.args.translations.add_classes(&mut self.tables.strings, &packet.data);
                self.profiles.deobfuscation.add(&packet.data);
            }
            kind::STREAMING_PROFILE_PACKET => self.apply_streaming_sample(ts, packet),
            heap_graph::HEAP_GRAPH => self.apply_heap_graph(ts, packet),
            heap_graph::oome::ART_PROCESS_METADATA => {
                self.apply_art_process(ts, packet.origin.machine, &packet.data);
            }
            MEMORY_TRACKER_SNAPSHOT => self.apply_memory_snapshot(ts, packet),
            _ => return false,
        }
        true
    }

    /// Nothing more comes.
    pub fn finish_profiles(&mut self) {
        self.finish_memory_snapshots();
        self.finish_heap_graphs();
        self.deobfuscate();
        self.count_what_cannot_be_symbolized();
    }

    /// Files that were pushed to a device for a test, and have no build id (upstream: profile_module.cc, `OnEventsFullyExtracted`).
    fn count_what_cannot_be_symbolized(&mut self) {
        let Self { tables, stats, .. } = self;
        for (name, build_id) in tables.mapping.name.iter().zip(&tables.mapping.build_id) {
            let text = |it: &Option<_>| it.map(|it| tables.strings.get(it)).unwrap_or_default();
            if text(name).starts_with("/data/local/tmp/") && text(build_id).is_empty() {
                stats.count(Stat::SymbolizationTmpBuildIdNotFound);
            }
        }
    }
}
