//! Heaps as traces have them.

use std::collections::{BTreeMap, BTreeSet};

use ferretto_protos::TracePacket;
use ferretto_protos::trace_packet::Data;

use crate::common::stacks::Stacks;

/// A site's figures in a dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) allocated: u64,
    pub(crate) freed: u64,
    pub(crate) max: u64,
}

/// By process: the last figures of each stack, functions from the outermost on, and how many dumps there were.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    pub(crate) sites: BTreeMap<(u32, u64), (Vec<String>, Figures)>,
    pub(crate) dumps: usize,
}

impl Heap {
    pub(crate) fn read(packets: &[TracePacket]) -> Self {
        Self::read_heap(packets, "libc.malloc")
    }

    /// Of a heap with this name.
    pub(crate) fn read_heap(packets: &[TracePacket], name: &str) -> Self {
        let (mut heap, mut stacks, mut next_index) = (Self::default(), Stacks::default(), 0);
        for packet in packets {
            stacks.hear(packet);
            let Some(Data::ProfilePacket(profile)) = &packet.data else { continue };
            assert_eq!(profile.index(), next_index, "none is missing");
            next_index += 1;
            let of_heap = profile.process_dumps.iter().filter(|dump| dump.heap_name() == name);
            for dump in of_heap {
                heap.dumps += usize::from(!profile.continued());
                assert!(!dump.buffer_overran());
                for sample in &dump.samples {
                    let figures = Figures {
                        allocated: sample.self_allocated(),
                        freed: sample.self_freed(),
                        max: sample.self_max(),
                    };
                    assert!(figures.freed <= figures.allocated || figures.max > 0);
                    let pid = u32::try_from(dump.pid()).unwrap();
                    let names = stacks.functions(sample.callstack_id()).expect("it was said before");
                    heap.sites.insert((pid, sample.callstack_id()), (names, figures));
                }
            }
        }
        heap
    }

    /// Of all stacks with a function that is called like this.
    pub(crate) fn of(&self, name: &str) -> Figures {
        self.within(name).fold(Figures::default(), |sum, (_, figures)| Figures {
            allocated: sum.allocated + figures.allocated,
            freed: sum.freed + figures.freed,
            max: sum.max + figures.max,
        })
    }

    pub(crate) fn within(&self, name: &str) -> impl Iterator<Item = (u32, Figures)> {
        let all = self
            .sites
            .iter()
            .filter(move |(_, (stack, _))| stack.iter().any(|function| function.contains(name)));
        all.map(|((pid, _), (_, figures))| (*pid, *figures))
    }

    pub(crate) fn live(&self, name: &str) -> u64 {
        let Figures { allocated, freed, .. } = self.of(name);
        allocated - freed
    }

    pub(crate) fn pids(&self, name: &str) -> BTreeSet<u32> {
        self.within(name).map(|(pid, _)| pid).collect()
    }
}

/// The noise of so many bytes, five sigma of it: that of as many points as there are intervals in them.
fn noise(bytes: u64, interval: u64) -> f64 {
    5.0 * (bytes as f64 * interval as f64).sqrt()
}

#[track_caller]
pub(crate) fn assert_about(found: u64, expected: u64, interval: u64) {
    let off = (found as f64 - expected as f64).abs();
    assert!(off <= noise(expected, interval), "{found}, not about {expected}");
}
