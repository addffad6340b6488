//! Call stacks and what each has cost: what flame graphs and profiles are made of.

use std::collections::HashMap;

use ferretto_symbols::demangle;
use ferretto_trace_tables::tables::Tables;
use ferretto_trace_tables::{CallsiteId, FrameId, Str, Upid, Utid};

use crate::Error;
use crate::owners::{Owner, process_name, thread_name};
use crate::samples::samples;

/// What stacks are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Call stacks of running threads: how many samples each has.
    Samples,
    /// Memory that was allocated and not given back: bytes.
    Heap,
    /// A profile that others have summed up: its values, of the first kind that it has.
    Profile,
    /// Slices within slices: nanoseconds that each has for itself.
    Slices,
}

impl Of {
    /// What the values count.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Samples | Self::Profile => "count",
            Self::Heap => "bytes",
            Self::Slices => "nanoseconds",
        }
    }

    /// What the values are.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Samples | Self::Profile => "samples",
            Self::Heap => "inuse_space",
            Self::Slices => "wall",
        }
    }
}

/// Stacks as a tree.
#[derive(Debug)]
pub(crate) struct Stacks {
    pub(crate) of: Of,
    /// Each comes after its parent.
    pub(crate) nodes: Vec<Node>,
    pub(crate) places: Vec<Place>,
    by_name: HashMap<Place, usize>,
    /// Lines of one function are places of their own.
    with_lines: bool,
    by_place: HashMap<(Option<usize>, usize), usize>,
}

/// A function, or whatever else a stack is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// For people.
    pub(crate) name: String,
    /// Of the source, if that is known.
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
}

impl Place {
    fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) parent: Option<usize>,
    /// Its number among the places.
    pub(crate) place: usize,
    /// Of this stack, without those that go on from it.
    pub(crate) value: i64,
}

impl Stacks {
    /// Those of `of`, or of the first of all that the trace has.
    pub(crate) fn new(tables: &Tables, of: Option<Of>) -> Result<Self, Error> {
        Self::with(tables, of, false)
    }

    /// The same with the lines of the source, each a place of its own.
    pub(crate) fn with_lines(tables: &Tables, of: Option<Of>) -> Result<Self, Error> {
        Self::with(tables, of, true)
    }

    fn with(tables: &Tables, of: Option<Of>, with_lines: bool) -> Result<Self, Error> {
        let of = of.unwrap_or(match () {
            () if samples(tables).any(|sample| sample.callsite.is_some()) => Of::Samples,
            () if !tables.heap_profile_allocation.is_empty() => Of::Heap,
            () if !tables.aggregate_sample.is_empty() => Of::Profile,
            () => Of::Slices,
        });
        let mut stacks = Self {
            of,
            nodes: Vec::new(),
            places: Vec::new(),
            by_name: HashMap::new(),
            with_lines,
            by_place: HashMap::new(),
        };
        match of {
            Of::Samples => stacks.add_samples(tables),
            Of::Heap => stacks.add_heap(tables),
            Of::Profile => stacks.add_profile(tables),
            Of::Slices => stacks.add_slices(tables),
        }
        if stacks.nodes.iter().all(|node| node.value <= 0) {
            let what = match of {
                Of::Samples => "no samples of call stacks",
                Of::Heap => "no profile of memory",
                Of::Profile => "no profile",
                Of::Slices => "no slices with an end",
            };
            return Err(Error::Nothing(format!("there are {what} in the trace to make stacks of")));
        }
        Ok(stacks)
    }

    /// The names of a stack, the outermost first.
    pub(crate) fn path(&self, node: usize) -> Vec<&str> {
        let mut path = Vec::new();
        let mut at = Some(node);
        while let Some(node) = at.and_then(|at| self.nodes.get(at)) {
            path.push(self.places.get(node.place).map_or("", |place| place.name.as_str()));
            at = node.parent;
        }
        path.reverse();
        path
    }

    fn node(&mut self, parent: Option<usize>, name: &str) -> usize {
        self.node_of(parent, Place::named(name))
    }

    fn node_of(&mut self, parent: Option<usize>, place: Place) -> usize {
        let place = match self.by_name.get(&place) {
            Some(known) => *known,
            None => {
                self.places.push(place.clone());
                self.by_name.insert(place, self.places.len() - 1);
                self.places.len() - 1
            }
        };
        let next = self.nodes.len();
        let node = *self.by_place.entry((parent, place)).or_insert(next);
        if node == next {
            self.nodes.push(Node { parent, place, value: 0 });
        }
        node
    }

    fn add(&mut self, node: Option<usize>, value: i64) {
        if let Some(node) = node.and_then(|node| self.nodes.get_mut(node)) {
            node.value = node.value.saturating_add(value);
        }
    }

    /// Below the process and the thread.
    fn of_thread(&mut self, tables: &Tables, utid: Utid) -> usize {
        let process = tables.thread.upid.get(utid.index()).map(|upid| self.of_process(tables, upid));
        self.node(process, &thread_name(tables, utid))
    }

    fn of_process(&mut self, tables: &Tables, upid: Upid) -> usize {
        self.node(None, &process_name(tables, upid))
    }

    fn add_samples(&mut self, tables: &Tables) {
        let mut known = HashMap::new();
        for sample in samples(tables) {
            let Some(callsite) = sample.callsite else { continue };
            let root = Some(self.of_thread(tables, sample.utid));
            let node = self.callsite(tables, root, callsite, &mut known);
            self.add(node, 1);
        }
    }

    fn add_heap(&mut self, tables: &Tables) {
        let mut known = HashMap::new();
        let heap = &tables.heap_profile_allocation;
        for row in 0..heap.len() {
            let root = Some(self.of_process(tables, heap.upid.at(row)));
            let node = self.callsite(tables, root, heap.callsite_id.at(row), &mut known);
            self.add(node, heap.size.at(row));
        }
    }

    fn add_profile(&mut self, tables: &Tables) {
        let mut known = HashMap::new();
        let samples = &tables.aggregate_sample;
        let first = samples.aggregate_profile_id.first();
        for row in 0..samples.len() {
            if samples.aggregate_profile_id.get(row) == first {
                let node = self.callsite(tables, None, samples.callsite_id[row], &mut known);
                self.add(node, samples.value[row] as i64);
            }
        }
    }

    fn callsite(
        &mut self,
        tables: &Tables,
        root: Option<usize>,
        callsite: CallsiteId,
        known: &mut HashMap<(Option<usize>, CallsiteId), usize>,
    ) -> Option<usize> {
        // Up to what is known, then down again.
        let mut missing = Vec::new();
        let mut at = Some(callsite);
        let mut node = root;
        while let Some(callsite) = at {
            if let Some(found) = known.get(&(root, callsite)) {
                node = Some(*found);
                break;
            }
            missing.push(callsite);
            at = tables.callsite.parent_id.get(callsite.index());
        }
        for callsite in missing.into_iter().rev() {
            for place in functions(tables, callsite) {
                let place = if self.with_lines { place } else { Place::named(&place.name) };
                node = Some(self.node_of(node, place));
            }
            if let Some(node) = node {
                known.insert((root, callsite), node);
            }
        }
        node
    }

    /// What a slice had for itself: its time without that of the slices within it.
    fn add_slices(&mut self, tables: &Tables) {
        let slices = &tables.slice;
        let mut nodes = vec![None; slices.len()];
        for row in 0..slices.len() {
            let name = slices.name.at(row).map_or("(no name)", |name| tables.strings.get(name));
            let parent = slices.parent_id.get(row).map(|parent| parent.index());
            let above = match parent.and_then(|parent| nodes.get(parent).copied().flatten()) {
                Some(above) => Some(above),
                None => self.root_of_track(tables, row),
            };
            let node = self.node(above, name);
            if let Some(mine) = nodes.get_mut(row) {
                *mine = Some(node);
            }
            let dur = slices.dur.at(row).max(0);
            self.add(Some(node), dur);
            if let Some(parent) = parent
                && slices.dur.get(parent).is_some_and(|dur| dur >= 0)
            {
                self.add(above, -dur);
            }
        }
    }

    fn root_of_track(&mut self, tables: &Tables, slice: usize) -> Option<usize> {
        let track = tables.slice.track_id.at(slice);
        let name =
            tables.track.name.get(track.index()).copied().flatten().map(|name| tables.strings.get(name));
        match Owner::of(tables, track) {
            Owner::Thread(utid) => Some(self.of_thread(tables, utid)),
            Owner::Process(upid) => {
                let process = self.of_process(tables, upid);
                Some(self.node(Some(process), name.unwrap_or("(no name)")))
            }
            Owner::Cpu(cpu) => Some(self.node(None, &format!("CPU {cpu}"))),
            Owner::Trace => name.map(|name| self.node(None, name)),
        }
    }
}

/// The functions that a frame stands for, the outermost first: the one that it is in, and those that were inlined there. At least one.
pub(crate) fn functions(tables: &Tables, callsite: CallsiteId) -> Vec<Place> {
    let frame = tables.callsite.frame_id.get(callsite.index());
    let mut functions: Vec<Place> = frame.map(|frame| symbols(tables, *frame).collect()).unwrap_or_default();
    functions.reverse();
    if functions.is_empty() {
        functions.push(Place::named(&demangle(&frame_name(tables, callsite))));
    }
    functions
}

/// What a symbolizer has said of it, the innermost first.
fn symbols(tables: &Tables, frame: FrameId) -> impl Iterator<Item = Place> {
    let (table, set) = (&tables.symbol, tables.frame.symbol_set_id.get(frame.index()));
    let of_set = move |row: &usize| table.symbol_set_id.get(*row).copied() == set;
    let rows = set.into_iter().flat_map(|set| set.0 as usize..table.len()).take_while(of_set);
    rows.filter_map(move |row| {
        let text = |texts: &[Option<Str>]| Some(tables.strings.get(texts.get(row).copied().flatten()?));
        let name = text(&table.name).filter(|name| !name.is_empty())?;
        let file = text(&table.source_file).filter(|file| !file.is_empty()).map(str::to_owned);
        let line = table.line_number.get(row).filter(|line| *line > 0);
        Some(Place { name: demangle(name), file, line })
    })
}

/// As the trace has it.
pub(crate) fn frame_name(tables: &Tables, callsite: CallsiteId) -> String {
    let Some(frame) = tables.callsite.frame_id.get(callsite.index()) else { return "(unknown)".to_owned() };
    let row = frame.index();
    let name = tables.frame.deobfuscated_name.get(row).copied().flatten().or(tables
        .frame
        .name
        .get(row)
        .copied()
        .flatten());
    match name.map(|name| tables.strings.get(name)) {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => {
            let mapping = tables
                .frame
                .mapping
                .get(row)
                .and_then(|id| tables.mapping.name.get(id.index()).copied().flatten());
            let file = mapping.map_or("?", |name| tables.strings.get(name));
            let file = file.rsplit('/').next().unwrap_or(file);
            format!("{file}+{:#x}", tables.frame.rel_pc.get(row).copied().unwrap_or(0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::symbolized;

    fn names(stacks: &Stacks) -> Vec<(Vec<&str>, i64)> {
        let nodes = stacks.nodes.iter().enumerate().filter(|(_, node)| node.value > 0);
        nodes.map(|(index, node)| (stacks.path(index), node.value)).collect()
    }

    #[test]
    fn functions_that_were_inlined_stand_above_the_one_that_they_are_in_and_names_are_for_people() {
        let stacks = Stacks::new(&symbolized(), None).unwrap();
        let expected = (vec!["app", "std::io::stdio::_print", "outer", "inner"], 150);
        assert_eq!(names(&stacks), [expected], "of both lines");
    }

    #[test]
    fn lines_are_places_of_their_own_where_they_are_wanted() {
        let stacks = Stacks::with_lines(&symbolized(), None).unwrap();
        assert_eq!(names(&stacks).len(), 2);
        let lines: Vec<_> = stacks.places.iter().map(|place| (place.name.as_str(), place.line)).collect();
        let expected = [("std::io::stdio::_print", None), ("outer", Some(13)), ("inner", Some(4))];
        assert_eq!(
            lines,
            [&[("app", None)][..], &expected, &[("outer", Some(14)), ("inner", Some(5))]].concat()
        );
        assert!(stacks.places[2..].iter().all(|place| place.file.as_deref() == Some("/src/a.c")));
    }
}
