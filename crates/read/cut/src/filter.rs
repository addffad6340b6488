//! Events and samples that are left out though they are in the range: those of other processes, and of other categories.

use std::collections::BTreeSet;

use ferretto_protos::fields::trace_packet;
use ferretto_protos::fields::{interned_data, track_descriptor, track_event};
use ferretto_trace_read::fields::{Fields, Value};
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use crate::event::{SLICE_BEGIN, SLICE_END, TrackEvent};
use crate::index::{place, track_key};
use crate::kind::Kind;
use crate::packed;
use crate::tracks::TrackKey;
use crate::walk::{Seen, Walk};

/// Numbers that stand for one text at once, in all sequences. Ours.
const MAX_NUMBERS: usize = 1 << 20;
/// Slices that are open at once. Ours: the ends of further ones are kept.
const MAX_OPEN: usize = 1 << 20;
/// Processes of one name. Ours.
const MAX_PROCESSES: usize = 1 << 16;
/// `ProcessTree.processes`, and its fields `pid` and `cmdline` (upstream: process_tree.proto).
const PROCESSES: u32 = 1;
const PID: u32 = 1;
const CMDLINE: u32 = 3;
/// `ProcessDescriptor.process_name` (upstream: process_descriptor.proto).
const PROCESS_NAME: u32 = 6;

/// The numbers that stand for one text.
#[derive(Debug)]
pub(crate) struct Numbers {
    field: u32,
    text: Vec<u8>,
    /// Of which sequence, generation, and which number.
    found: HashSet<(usize, u64, u64), RandomState>,
}

impl Numbers {
    /// `field` is one of `InternedData`.
    pub(crate) fn new(field: u32, text: &str) -> Self {
        Self { field, text: text.as_bytes().to_vec(), found: HashSet::default() }
    }

    pub(crate) fn is(&self, text: &[u8]) -> bool {
        self.text == text
    }

    pub(crate) fn has(&self, walk: &Walk, seen: &Seen<'_>, iid: u64) -> bool {
        self.found.contains(&(seen.sequence, place(walk, seen).generation, iid))
    }

    pub(crate) fn arrive(&mut self, walk: &Walk, seen: &Seen<'_>) {
        let Some(interned) = seen.head.interned_data else { return };
        let parts = Fields::new(interned).whole().filter(|part| part.number == self.field);
        for part in parts {
            let Value::Bytes(entry) = part.value else { continue };
            let fields = || Fields::new(entry).whole();
            let is_it = fields().any(|part| part.number == 2 && part.value == Value::Bytes(&self.text));
            let iid = fields().find(|part| part.number == 1).and_then(|part| part.value.as_u64());
            if let Some(iid) = iid.filter(|_| is_it && self.found.len() < MAX_NUMBERS) {
                self.found.insert((seen.sequence, place(walk, seen).generation, iid));
            }
        }
    }
}

/// The processes of one name.
#[derive(Debug)]
pub(crate) struct Processes {
    name: Vec<u8>,
    pub(crate) pids: BTreeSet<i32>,
}

impl Processes {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.as_bytes().to_vec(), pids: BTreeSet::new() }
    }

    pub(crate) fn arrive(&mut self, seen: &Seen<'_>) {
        match seen.head.data {
            Some((trace_packet::PROCESS_TREE, tree)) => {
                for part in Fields::new(tree).whole().filter(|part| part.number == PROCESSES) {
                    self.take(part.value, CMDLINE);
                }
            }
            Some((trace_packet::TRACK_DESCRIPTOR, track)) => {
                let mut parts = Fields::new(track).whole();
                if let Some(part) = parts.find(|part| part.number == track_descriptor::PROCESS) {
                    self.take(part.value, PROCESS_NAME);
                }
            }
            _ => {}
        }
    }

    fn take(&mut self, process: Value<'_>, name_field: u32) {
        let Value::Bytes(process) = process else { return };
        let fields = || Fields::new(process).whole();
        let pid = fields().find(|part| part.number == PID).and_then(|part| part.value.as_u64());
        let name = fields().find(|part| part.number == name_field).and_then(|part| part.value.as_bytes());
        let (Some(pid), Some(name)) = (pid, name) else { return };
        let last = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if (name == self.name || last == self.name) && self.pids.len() < MAX_PROCESSES {
            self.pids.insert(pid as i32);
        }
    }
}

/// What is left out.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    pids: Option<BTreeSet<i32>>,
    category: Option<Numbers>,
    /// Of each track the open slices, and whether they are kept.
    stacks: HashMap<TrackKey, Vec<bool>, RandomState>,
    open: usize,
}

impl Filter {
    pub(crate) fn new(pids: Option<BTreeSet<i32>>, category: Option<&str>) -> Self {
        let category = category.map(|name| Numbers::new(interned_data::EVENT_CATEGORIES, name));
        Self { pids, category, ..Self::default() }
    }

    /// Takes the next packet of the file; says whether it may be kept.
    pub(crate) fn keeps(&mut self, walk: &Walk, seen: &Seen<'_>, kind: Kind) -> bool {
        if self.pids.is_none() && self.category.is_none() {
            return true;
        }
        if let Some(category) = &mut self.category {
            category.arrive(walk, seen);
        }
        match kind {
            Kind::TrackEvent => self.keeps_event(walk, seen),
            Kind::PerfSample => {
                let data = seen.head.data.map_or(&[][..], |(_, data)| data);
                let pid = Fields::new(data).whole().find(|part| part.number == 2);
                let pid = pid.and_then(|pid| pid.value.as_u64()).map(|pid| pid as i32);
                self.is_of_process(pid)
            }
            _ => true,
        }
    }

    fn is_of_process(&self, pid: Option<i32>) -> bool {
        match (&self.pids, pid) {
            (Some(pids), Some(pid)) => pids.contains(&pid),
            _ => true,
        }
    }

    fn keeps_event(&mut self, walk: &Walk, seen: &Seen<'_>) -> bool {
        let sequence = walk.sequences.get(seen.sequence);
        if !self.is_of_process(sequence.and_then(|sequence| sequence.trusted_pid)) {
            return false;
        }
        let Some(category) = &self.category else { return true };
        let Some((_, data)) = seen.head.data else { return true };
        let is_it = is_of_category(category, walk, seen, data);
        let event = TrackEvent::of(data);
        let uuid = event.track_uuid.or_else(|| sequence.and_then(|sequence| sequence.track_uuid));
        let key = track_key(seen.head.machine_id, uuid, seen.sequence);
        match event.kind {
            SLICE_BEGIN if self.open < MAX_OPEN => {
                self.open += 1;
                self.stacks.entry(key).or_default().push(is_it);
                is_it
            }
            SLICE_END => {
                let Some(stack) = self.stacks.get_mut(&key) else { return true };
                let begin = stack.pop();
                if stack.is_empty() {
                    self.stacks.remove(&key);
                }
                self.open -= usize::from(begin.is_some());
                begin.unwrap_or(true)
            }
            _ => is_it,
        }
    }
}

fn is_of_category(category: &Numbers, walk: &Walk, seen: &Seen<'_>, event: &[u8]) -> bool {
    Fields::new(event).whole().any(|part| match (part.number, part.value) {
        (track_event::CATEGORIES, Value::Bytes(text)) => category.is(text),
        (track_event::CATEGORY_IIDS, value) => {
            let mut is_it = false;
            packed::each(value, |iid| is_it |= category.has(walk, seen, iid));
            is_it
        }
        _ => false,
    })
}
