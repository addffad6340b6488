//! Events of the old kind, whose phase is a letter (upstream: track_event_event_importer.h; Chrome's trace event format).

use ferretto_protos::fields::{debug_annotation, track_event as field};
use ferretto_trace_tables::{MachineId, Str, TrackId, Upid, Utid};

use super::apply::NoPlace;
use super::descriptor::DEFAULT_UUID;
use super::fields::{LegacyId, repeated};
use super::resolve::{Asker, Use, of_set};
use super::whole::InTurn;
use crate::args::ArgValue;
use crate::model::Model;
use crate::processes::{ProcessName, ThreadName};
use crate::stats::Stat;
use crate::track_sets::{Nesting, SetKey};
use crate::tracks::TrackType;
use crate::wire::bytes as bytes_of;

/// `LegacyEvent.InstantEventScope`.
mod instant_scope {
    pub(super) const GLOBAL: u64 = 1;
    pub(super) const PROCESS: u64 = 2;
}

/// What tells something asynchronous of the old kind apart.
#[derive(Clone, Copy, Debug)]
pub struct OldAsync {
    /// Its number, or what stands for it.
    pub id: i64,
    /// The process that the number means something to, if not to all.
    pub of_process: Option<Upid>,
    /// What numbers are of: a category, a name.
    pub scope: Option<Str>,
    /// The process of the event.
    pub upid: Upid,
}

impl Model {
    /// A phase may say that the event is not of its thread.
    pub(super) fn scope_by_phase(&mut self, it: &mut InTurn<'_>) -> Result<(), NoPlace> {
        if it.is_old_async() {
            it.passthrough = it.utid;
            return Ok(());
        }
        if !matches!(it.old_phase(), Some('i' | 'I')) {
            return Ok(());
        }
        match it.legacy.instant_scope {
            instant_scope::GLOBAL => {}
            instant_scope::PROCESS => _ = it.upid.ok_or(NoPlace)?,
            _ => return it.utid.map(|_| ()).ok_or(NoPlace),
        }
        it.passthrough = it.utid.take();
        Ok(())
    }

    /// The row that an event is on.
    pub(super) fn row_in_turn(&mut self, it: &mut InTurn<'_>, what: Use) -> Result<TrackId, NoPlace> {
        let falls_back = it.uuid == DEFAULT_UUID && it.falls_back;
        let row = match falls_back {
            true => None,
            false => {
                let has_first_packet = self.has_first_packet(it).filter(|_| it.uuid != DEFAULT_UUID);
                self.row_for(it.track, Asker { name: it.name, has_first_packet }, what)
            }
        };
        if it.is_old_async() {
            return self.old_async_row(it);
        }
        let scope = it.legacy.instant_scope;
        match it.old_phase() {
            Some('i' | 'I') if scope == instant_scope::GLOBAL => {
                Ok(self.old_row(it, "legacy_chrome_global_instants", None))
            }
            Some('i' | 'I') if scope == instant_scope::PROCESS => {
                Ok(self.old_row(it, "chrome_process_instant", it.upid))
            }
            _ if falls_back => {
                let utid = it.utid.ok_or(NoPlace)?;
                Ok(self.thread_track(it.whole.machine, utid))
            }
            _ => row.ok_or(NoPlace),
        }
    }

    fn old_row(&mut self, it: &InTurn<'_>, type_: &'static str, upid: Option<Upid>) -> TrackId {
        let dimensions: Vec<_> =
            upid.map(|upid| ("upid", ArgValue::Int(upid.0.into()))).into_iter().collect();
        let track = TrackType::slices(type_, &dimensions);
        let (row, is_new) = self.intern_track(it.whole.machine, track, |_| None);
        if is_new {
            let chrome = ArgValue::Text(self.tables.strings.intern("chrome"));
            self.say_of_track(row, &[("source", chrome)]);
        }
        row
    }

    /// A track of something asynchronous: by its number, and by its category, its name, or a scope that it says.
    fn old_async_row(&mut self, it: &mut InTurn<'_>) -> Result<TrackId, NoPlace> {
        let (id, of_process) = match it.legacy.id.ok_or(NoPlace)? {
            LegacyId::Unscoped(id) | LegacyId::Global(id) => (id as i64, None),
            LegacyId::Local(id) => (id as i64, Some(it.upid.ok_or(NoPlace)?)),
        };
        it.source_id = Some(id);
        let phase = it.old_phase();
        let scope = match it.legacy.id_scope {
            Some(scope) => {
                let category = it.category.map(|category| self.tables.strings.get(category));
                let text = format!("{}:{}", category.unwrap_or(""), String::from_utf8_lossy(scope));
                Some(self.tables.strings.intern(&text))
            }
            None if matches!(phase, Some('S' | 'T' | 'p' | 'F')) => it.name,
            None => it.category,
        };
        let of = OldAsync { id, of_process, scope, upid: it.upid.unwrap_or_default() };
        self.row_of_old_async(it.whole.machine, of, it.name, phase).ok_or(NoPlace)
    }

    /// The track of something asynchronous of the old kind, for an event of this name and phase. Nothing if an end has no begin.
    pub fn row_of_old_async(
        &mut self,
        machine: MachineId,
        of: OldAsync,
        name: Option<Str>,
        phase: Option<char>,
    ) -> Option<TrackId> {
        let OldAsync { id, of_process, scope, upid } = of;
        // The first name of a number is the one that its tracks go by.
        let root = *self.old_async_names.entry((of_process, id)).or_insert(name);
        let key = SetKey {
            type_: match of_process {
                Some(_) => "legacy_async_process_slice",
                None => "legacy_async_global_slice",
            },
            machine,
            utid: None,
            upid: of_process,
            numbers: [0; 2],
            texts: [scope, root],
        };
        let set = self.track_sets.get(key);
        let place = match phase {
            Some('b' | 'S') => self.track_sets.begin(set, id, Nesting::Counted),
            Some('e' | 'T') => self.track_sets.end(set, id),
            _ => self.track_sets.instant(set, id),
        };
        let place = place?;
        if let Some(row) = place.row {
            return Some(row);
        }
        let mut dimensions = of_set(key);
        dimensions.extend([
            ("scope", ArgValue::of_text(scope)),
            ("name", ArgValue::of_text(root)),
            ("track_compressor_idx", ArgValue::Int(place.index.into())),
        ]);
        let row = self.add_track_of_set(key, place, name, &dimensions);
        let chrome = ArgValue::Text(self.tables.strings.intern("chrome"));
        self.say_of_track(
            row,
            &[
                ("source", chrome),
                ("trace_id_is_process_scoped", ArgValue::Bool(of_process.is_some())),
                ("upid", ArgValue::Uint(upid.0.into())),
                ("source_scope", ArgValue::of_text(scope)),
            ],
        );
        Some(row)
    }

    /// The track for a complete slice of a thread that has no place on the thread's own, which overlaps with others there.
    pub fn row_of_overlapping(
        &mut self,
        machine: MachineId,
        utid: Utid,
        ts: i64,
        dur: i64,
    ) -> Option<TrackId> {
        let key = SetKey {
            type_: "thread_overlapping_slice",
            machine,
            utid: Some(utid),
            upid: None,
            numbers: [0; 2],
            texts: [None; 2],
        };
        let set = self.track_sets.get(key);
        let place = self.track_sets.scoped(set, ts, dur)?;
        if let Some(row) = place.row {
            return Some(row);
        }
        let mut dimensions = of_set(key);
        dimensions.push(("track_compressor_idx", ArgValue::Int(place.index.into())));
        Some(self.add_track_of_set(key, place, None, &dimensions))
    }

    /// `X`: begin and end in one.
    pub(super) fn import_complete(&mut self, it: &mut InTurn<'_>) -> Result<(), NoPlace> {
        it.utid.ok_or(NoPlace)?;
        let dur = it.legacy.duration_us.unwrap_or(0).wrapping_mul(1000);
        if dur < 0 {
            return Err(NoPlace);
        }
        let track = self.row_in_turn(it, Use::Plain)?;
        let Some(slice) = self.complete_event_slice(it.ts, dur, track, it.label()) else { return Ok(()) };
        self.say(it, track, None);
        let thread_dur = it.legacy.thread_duration_us.unwrap_or(0).wrapping_mul(1000);
        let delta = it.legacy.thread_instruction_delta.unwrap_or(0);
        self.set_thread_columns(it, slice, Some((thread_dur, delta)));
        self.add_flows(it, slice);
        self.add_callstack(it, slice, track);
        Ok(())
    }

    /// `T`, `p`: something asynchronous goes on. It is an instant here.
    pub(super) fn import_step(&mut self, it: &mut InTurn<'_>) -> Result<(), NoPlace> {
        let track = self.row_in_turn(it, Use::Instant)?;
        if let Some(slice) = self.complete_event_slice(it.ts, 0, track, it.label()) {
            self.say(it, track, it.old_phase());
            self.add_callstack(it, slice, track);
        }
        Ok(())
    }

    /// `s`, `t`, `f`: an arrow begins, goes on or ends at what is open on the track.
    pub(super) fn import_old_flow(&mut self, it: &mut InTurn<'_>, phase: char) -> Result<(), NoPlace> {
        let Some(LegacyId::Unscoped(id)) = it.legacy.id else {
            self.stats.count(Stat::FlowInvalidId);
            return Err(NoPlace);
        };
        let flow = self.flows.of_old(id, it.category, it.name);
        let track = self.row_in_turn(it, Use::Plain)?;
        if phase == 'f' && !it.legacy.bind_to_enclosing {
            self.flows.end_at_next(track, flow);
            return Ok(());
        }
        let Some(slice) = self.slices().0.top(track) else {
            self.stats.count(Stat::FlowNoEnclosingSlice);
            return Ok(());
        };
        let mut out =
            crate::slices::Out { tables: &mut self.tables, args: &mut self.args, stats: &mut self.stats };
        match phase {
            's' => self.flows.begin(&mut out, slice, flow),
            't' => self.flows.step(&mut out, slice, flow),
            _ => self.flows.end(&mut out, slice, flow, false),
        }
        Ok(())
    }

    /// `M`: what the thread or the process is called. Upstream keeps others for those who write Chrome's JSON again.
    pub(super) fn import_metadata(&mut self, it: &InTurn<'_>) -> Result<(), NoPlace> {
        let name = it.name.ok_or(NoPlace)?;
        let is_of_thread = match self.tables.strings.get(name) {
            "thread_name" => true,
            "process_name" => false,
            _ => return Ok(()),
        };
        let whose = (it.utid.filter(|_| is_of_thread), it.upid.filter(|_| !is_of_thread));
        if whose == (None, None) {
            return Err(NoPlace);
        }
        let mut annotations = repeated(&it.whole.message, field::DEBUG_ANNOTATIONS);
        let annotation = annotations.next().and_then(|value| value.as_bytes()).ok_or(NoPlace)?;
        let text = bytes_of(annotation, debug_annotation::STRING_VALUE).filter(|text| !text.is_empty());
        let Some(text): Option<Str> = text.map(|text| self.tables.strings.intern_bytes(text)) else {
            return Ok(());
        };
        let (tables, processes) = self.processes(it.whole.machine);
        match whose {
            (Some(utid), _) => processes.name_thread(tables, utid, text, ThreadName::ChromeType),
            (_, Some(upid)) => processes.name_process(tables, upid, text, ProcessName::TrackDescriptor),
            _ => {}
        }
        Ok(())
    }
}
