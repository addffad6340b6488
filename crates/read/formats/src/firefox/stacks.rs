//! Frames and call stacks of a thread.
//!
//! A raw profile has one text a frame, `FUNCTION (in LIBRARY)` or any other; a processed one has functions, which have a file, a line and a
//! resource, such as a library.

use ferretto_trace_model::model::Model;
use ferretto_trace_model::profiles::resolve::MAX_FRAMES;
use ferretto_trace_model::profiles::stacks::Source;
use ferretto_trace_tables::{CallsiteId, FrameId, MappingId};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::table::Table;
use super::wire::{Shared, Thread};

/// What frames of no library belong to. Upstream's name.
const NO_LIBRARY: &str = "gecko";

/// Libraries that were met.
#[derive(Debug, Default)]
pub(super) struct Mappings(HashMap<String, MappingId, RandomState>);

impl Mappings {
    fn get(&mut self, model: &mut Model, name: &str) -> MappingId {
        if let Some(known) = self.0.get(name) {
            return *known;
        }
        let Model { tables, profiles, .. } = model;
        let id = profiles.stacks.invented_mapping(tables, name);
        self.0.insert(name.to_owned(), id);
        id
    }
}

/// The stacks of a thread, by their number.
#[derive(Debug, Default)]
pub(super) struct Stacks(Vec<Option<(CallsiteId, u32)>>);

impl Stacks {
    /// Those of a thread's own tables, which stand on what is shared.
    pub(super) fn of_thread(
        model: &mut Model,
        mappings: &mut Mappings,
        texts: &[String],
        thread: &Thread,
        shared: &Shared,
    ) -> Self {
        let frames = Frames {
            texts,
            frames: either(&thread.frame_table, &shared.frame_table),
            functions: either(&thread.func_table, &shared.func_table),
            resources: either(&thread.resource_table, &shared.resource_table),
            sources: &shared.sources,
        };
        Self::read(model, mappings, &frames, &thread.stack_table)
    }

    /// Those that all threads share.
    pub(super) fn of_all(model: &mut Model, mappings: &mut Mappings, shared: &Shared) -> Self {
        let frames = Frames {
            texts: &shared.texts,
            frames: &shared.frame_table,
            functions: &shared.func_table,
            resources: &shared.resource_table,
            sources: &shared.sources,
        };
        Self::read(model, mappings, &frames, &shared.stack_table)
    }

    fn read(model: &mut Model, mappings: &mut Mappings, frames: &Frames<'_>, table: &Table) -> Self {
        let mut known: Vec<Option<FrameId>> = vec![None; frames.frames.len()];
        let mut stacks: Vec<Option<(CallsiteId, u32)>> = Vec::with_capacity(table.len());
        for row in 0..table.len() {
            let frame = table.index("frame", row).map(|frame| frame as usize);
            let Some(cell) = frame.and_then(|frame| known.get_mut(frame)) else {
                stacks.push(None);
                continue;
            };
            let frame = *cell.get_or_insert_with(|| frames.read(model, mappings, frame.unwrap_or(0)));
            // A caller comes before what it calls.
            let caller =
                table.index("prefix", row).and_then(|prefix| stacks.get(prefix as usize).copied().flatten());
            let depth = caller.map_or(0, |(_, depth)| depth + 1);
            stacks.push(match caller {
                Some(caller) if depth as usize >= MAX_FRAMES => Some(caller),
                caller => {
                    let Model { tables, profiles, .. } = &mut *model;
                    let caller = caller.map(|(caller, _)| caller);
                    Some((profiles.stacks.callsite(tables, caller, frame, depth), depth))
                }
            });
        }
        Self(stacks)
    }

    /// The stack of a number.
    pub(super) fn callsite(&self, number: u32) -> Option<CallsiteId> {
        self.0.get(number as usize).copied().flatten().map(|(callsite, _)| callsite)
    }
}

fn either<'a>(own: &'a Table, of_all: &'a Table) -> &'a Table {
    if own.is_empty() { of_all } else { own }
}

struct Frames<'a> {
    texts: &'a [String],
    frames: &'a Table,
    functions: &'a Table,
    resources: &'a Table,
    sources: &'a Table,
}

impl Frames<'_> {
    fn text(&self, index: Option<u32>) -> Option<&str> {
        self.texts.get(index? as usize).map(String::as_str)
    }

    fn read(&self, model: &mut Model, mappings: &mut Mappings, row: usize) -> FrameId {
        let (name, library, source) = match self.frames.index("func", row) {
            Some(function) => self.of_function(model, row, function as usize),
            None => {
                let location = self.text(self.frames.index("location", row)).unwrap_or_default();
                let (name, library) = split(location);
                (name, library, Source::default())
            }
        };
        let mapping = mappings.get(model, library.unwrap_or(NO_LIBRARY));
        let Model { tables, profiles, .. } = model;
        let name = Some(tables.strings.intern(name));
        profiles.stacks.frame_without_address(tables, mapping, name, source)
    }

    fn of_function(&self, model: &mut Model, row: usize, function: usize) -> (&str, Option<&str>, Source) {
        let functions = self.functions;
        let name = self.text(functions.index("name", function)).unwrap_or_default();
        let resource = functions.index("resource", function);
        let library =
            resource.and_then(|resource| self.text(self.resources.index("name", resource as usize)));
        let file = functions.index("fileName", function).or_else(|| {
            let source = functions.index("source", function)? as usize;
            self.sources.index("filename", source)
        });
        let file = self.text(file).map(|file| model.tables.strings.intern(file));
        let line = self.frames.index("line", row).or_else(|| functions.index("lineNumber", function));
        (name, library.filter(|name| !name.is_empty()), Source { file, line })
    }
}

/// `FUNCTION (in LIBRARY)`
fn split(location: &str) -> (&str, Option<&str>) {
    match location.split_once(" (in ") {
        Some((name, rest)) => (name, Some(rest.split_once(')').map_or(rest, |(library, _)| library))),
        None => (location, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_a_function_and_perhaps_a_library() {
        for (text, expected) in [
            ("f(int) (in libc.so)", ("f(int)", Some("libc.so"))),
            ("f (in libc.so", ("f", Some("libc.so"))),
            ("render (app.js:3)", ("render (app.js:3)", None)),
            ("", ("", None)),
        ] {
            assert_eq!(split(text), expected);
        }
    }
}
