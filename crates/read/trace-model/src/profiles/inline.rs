//! Call stacks that a packet brings itself, and stacks of events of programs (upstream: track_event_event_importer.h, `ParseCallstack`;
//! stack_sample_importer/module.cc).

use ferretto_protos::fields::inline_callstack::{self, frame};
use ferretto_trace_tables::{CallsiteId, MappingId, Upid};

use super::resolve::MAX_FRAMES;
use super::stacks::Source;
use crate::model::Model;
use crate::sequence::Generation;
use crate::wire;

/// Who brings stacks with names in them: their frames are in a mapping of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bringer {
    /// Events of programs.
    TrackEvent,
    /// Samples of any profiler.
    StackSample,
}

/// The mappings of their frames, once there were some.
#[derive(Debug, Default)]
pub struct InlineMappings {
    track_event: Option<MappingId>,
    stack_sample: Option<MappingId>,
}

/// A stack as a packet says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callstack<'a> {
    /// By its number among what is interned.
    Interned(u64),
    /// With names: `InlineCallstack`.
    Inline(&'a [u8]),
}

impl Model {
    /// The row of a stack; nothing if it has no frames, or one that is not known. To be called in the order of time.
    pub fn callsite_of(
        &mut self,
        stack: Callstack<'_>,
        bringer: Bringer,
        upid: Option<Upid>,
        state: &Generation,
    ) -> Option<CallsiteId> {
        match stack {
            Callstack::Interned(iid) => self.interned_callsite(state, upid, iid),
            Callstack::Inline(message) => self.inline_callsite(message, bringer),
        }
    }

    /// The row of an interned stack.
    pub fn interned_callsite(
        &mut self,
        state: &Generation,
        upid: Option<Upid>,
        iid: u64,
    ) -> Option<CallsiteId> {
        let mut kept = state.profiles.borrow_mut();
        self.profiles.resolver(state, &mut kept.found, &mut self.tables, &mut self.stats).callstack(upid, iid)
    }

    /// The row of an interned mapping of no process.
    pub fn interned_mapping(&mut self, state: &Generation, iid: u64) -> Option<MappingId> {
        let mut kept = state.profiles.borrow_mut();
        self.profiles.resolver(state, &mut kept.found, &mut self.tables, &mut self.stats).mapping(None, iid)
    }

    fn inline_callsite(&mut self, message: &[u8], bringer: Bringer) -> Option<CallsiteId> {
        let Self { tables, profiles, .. } = self;
        let stacks = &mut profiles.stacks;
        let (mapping, name) = match bringer {
            Bringer::TrackEvent => (&mut profiles.inline.track_event, "track_event_inline"),
            Bringer::StackSample => (&mut profiles.inline.stack_sample, "stack_sample_inline"),
        };
        let mapping = *mapping.get_or_insert_with(|| stacks.invented_mapping(tables, name));
        let mut callsite = None;
        for (frame, depth) in wire::all_bytes(message, inline_callstack::FRAMES).take(MAX_FRAMES).zip(0..) {
            let (mut function, mut source) = (None, Source::default());
            for field in wire::fields(frame) {
                match (field.number, field.value.as_bytes(), field.value.as_u64()) {
                    (frame::FUNCTION_NAME, Some(name), _) => {
                        function = Some(tables.strings.intern_bytes(name))
                    }
                    (frame::SOURCE_FILE, Some(name), _) => {
                        source.file = Some(tables.strings.intern_bytes(name))
                    }
                    (frame::LINE_NUMBER, _, Some(line)) => source.line = Some(line as u32),
                    _ => {}
                }
            }
            let frame = stacks.frame_without_address(tables, mapping, function, source);
            callsite = Some(stacks.callsite(tables, callsite, frame, depth));
        }
        callsite
    }
}
