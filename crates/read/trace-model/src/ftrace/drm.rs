//! Graphics: blanks of displays, jobs of rings, fences (upstream: drm_tracker.cc).

use std::collections::VecDeque;

use ferretto_trace_tables::tables::FlowRow;
use ferretto_trace_tables::{SliceId, TrackId};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::apply::At;
use super::numbers as event;
use super::payload::Payload;
use crate::args::ArgValue;
use crate::model::Model;
use crate::tracks::{Blueprint, Dimension, Dimensions};

const VBLANK: Blueprint = Blueprint::slice("drm_vblank", &[Dimension::Number("drm_crtc")]);
const RING: Blueprint = Blueprint::slice("drm_sched_ring", &[Dimension::Text("name")]);
const FENCE: Blueprint =
    Blueprint::slice("drm_fence", &[Dimension::Text("name"), Dimension::Number("context")]);
/// The timeline of fences that hold others; it would have a track for each.
const UNBOUND: &[u8] = b"unbound";

/// A job: what it is called where it is queued and begins, and what where it begins and is done.
#[derive(Clone, Copy, Debug)]
struct Job {
    at_begin: Name,
    at_end: Name,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Name {
    Number(u64),
    /// The context and the number of its fence.
    Fence(u64, u64),
}

/// What is kept of a machine's graphics.
#[derive(Debug, Default)]
pub(super) struct Drm {
    rings: HashMap<TrackId, Ring, RandomState>,
    /// The ring that a job runs on.
    busy: HashMap<Name, TrackId, RandomState>,
    timelines: HashMap<u32, Timeline, RandomState>,
}

#[derive(Debug, Default)]
struct Ring {
    running: VecDeque<Job>,
    /// Where jobs were queued.
    queued: HashMap<Name, SliceId, RandomState>,
}

#[derive(Debug)]
struct Timeline {
    track: TrackId,
    has_emit: bool,
    fences: VecDeque<u32>,
}

impl Model {
    /// Whether an event is of these; if so, it is done.
    pub(super) fn drm(&mut self, at: At<'_>, number: u32, payload: &Payload<'_>) -> bool {
        match number {
            event::drm_vblank_event::NUMBER => {
                use event::drm_vblank_event as field;
                self.vblank(at, "signal", payload.i32(field::CRTC), payload.u32(field::SEQ));
            }
            event::drm_vblank_event_delivered::NUMBER => {
                use event::drm_vblank_event_delivered as field;
                self.vblank(at, "deliver", payload.i32(field::CRTC), payload.u32(field::SEQ));
            }
            event::drm_sched_job::NUMBER => {
                use event::drm_sched_job as field;
                let name = Name::Number(payload.u64(field::ID));
                self.job_queued(
                    at,
                    payload.bytes(field::NAME),
                    Job { at_begin: name, at_end: Name::Number(0) },
                );
            }
            event::drm_run_job::NUMBER => {
                use event::drm_run_job as field;
                let job = Job {
                    at_begin: Name::Number(payload.u64(field::ID)),
                    at_end: Name::Number(payload.u64(field::FENCE)),
                };
                self.job_runs(at, payload.bytes(field::NAME), job);
            }
            event::drm_sched_process_job::NUMBER => {
                self.job_done(at, Name::Number(payload.u64(event::drm_sched_process_job::FENCE)));
            }
            event::drm_sched_job_queue::NUMBER => {
                use event::drm_sched_job_queue as field;
                let name = Name::Fence(payload.u64(field::FENCE_CONTEXT), payload.u64(field::FENCE_SEQNO));
                self.job_queued(at, payload.bytes(field::NAME), Job { at_begin: name, at_end: name });
            }
            event::drm_sched_job_run::NUMBER => {
                use event::drm_sched_job_run as field;
                let name = Name::Fence(payload.u64(field::FENCE_CONTEXT), payload.u64(field::FENCE_SEQNO));
                self.job_runs(at, payload.bytes(field::NAME), Job { at_begin: name, at_end: name });
            }
            event::drm_sched_job_done::NUMBER => {
                use event::drm_sched_job_done as field;
                let name = Name::Fence(payload.u64(field::FENCE_CONTEXT), payload.u64(field::FENCE_SEQNO));
                self.job_done(at, name);
            }
            _ => return self.fence(at, number, payload),
        }
        true
    }

    fn vblank(&mut self, at: At<'_>, what: &str, crtc: i32, seqno: u32) {
        let crtc = crtc as u32;
        let dimensions = Dimensions { number: Some(crtc.into()), ..Dimensions::default() };
        let track = self.kernel_track(&VBLANK, at.cpu.machine, dimensions, |strings| {
            strings.intern(&format!("vblank-{crtc}"))
        });
        let name = self.tables.strings.intern(what);
        self.instant(at.ts, track, None, Some(name), &[("vblank seqno", ArgValue::Uint(seqno.into()))]);
    }

    fn ring(&mut self, at: At<'_>, name: &[u8]) -> TrackId {
        let name = String::from_utf8_lossy(name);
        let track = self.text_track(&RING, at.cpu.machine, &name, |name| format!("sched-{name}"));
        self.kernel(at.cpu.machine).drm.rings.entry(track).or_default();
        track
    }

    fn job_queued(&mut self, at: At<'_>, ring: &[u8], job: Job) {
        let track = self.track_of_tid(at.cpu.machine, at.tid);
        let ring_name = self.tables.strings.intern_bytes(ring);
        let mut args = vec![("gpu sched ring", ArgValue::Text(ring_name))];
        args.extend(job_args(job));
        let name = self.tables.strings.intern("drm_sched_job_queue");
        let slice = self.instant(at.ts, track, None, Some(name), &args);
        if let Some(slice) = slice {
            let ring = self.ring(at, ring);
            if let Some(ring) = self.kernel(at.cpu.machine).drm.rings.get_mut(&ring) {
                ring.queued.insert(job.at_begin, slice);
            }
        }
    }

    fn job_runs(&mut self, at: At<'_>, ring: &[u8], job: Job) {
        let track = self.ring(at, ring);
        let drm = &mut self.kernel(at.cpu.machine).drm;
        drm.busy.entry(job.at_end).or_insert(track);
        let Some(ring) = drm.rings.get_mut(&track) else { return };
        ring.running.push_back(job);
        if ring.running.len() == 1 {
            self.begin_job(at, track);
        }
    }

    fn job_done(&mut self, at: At<'_>, name: Name) {
        let drm = &mut self.kernel(at.cpu.machine).drm;
        let Some(track) = drm.busy.remove(&name) else { return };
        let Some(ring) = drm.rings.get_mut(&track) else { return };
        ring.running.pop_front();
        let has_more = !ring.running.is_empty();
        self.end_slice(at.ts, track, None, None, &[]);
        if has_more {
            self.begin_job(at, track);
        }
    }

    fn begin_job(&mut self, at: At<'_>, track: TrackId) {
        let Some(ring) = self.kernel(at.cpu.machine).drm.rings.get_mut(&track) else { return };
        let Some(job) = ring.running.front().copied() else { return };
        let queued = ring.queued.get(&job.at_begin).copied();
        let name = self.tables.strings.intern("job");
        let args: Vec<_> = job_args(job).collect();
        let Some(slice) = self.begin_slice(at.ts, track, None, Some(name), &args) else { return };
        if let Some(queued) = queued {
            let row = FlowRow { slice_out: queued, slice_in: slice, ..FlowRow::default() };
            self.tables.flow.push(row);
            if let Some(ring) = self.kernel(at.cpu.machine).drm.rings.get_mut(&track) {
                ring.queued.remove(&job.at_begin);
            }
        }
    }

    fn fence(&mut self, at: At<'_>, number: u32, payload: &Payload<'_>) -> bool {
        use event::dma_fence_init as field;
        let (context, seqno) = (payload.u32(field::CONTEXT), payload.u32(field::SEQNO));
        let timeline = payload.bytes(field::TIMELINE);
        match number {
            event::dma_fence_wait_start::NUMBER => {
                let track = self.track_of_tid(at.cpu.machine, at.tid);
                let name = self.tables.strings.intern("dma_fence_wait");
                let args = [
                    ("fence context", ArgValue::Uint(context.into())),
                    ("fence seqno", ArgValue::Uint(seqno.into())),
                ];
                self.begin_slice(at.ts, track, None, Some(name), &args);
            }
            event::dma_fence_wait_end::NUMBER => {
                let track = self.track_of_tid(at.cpu.machine, at.tid);
                self.end_slice(at.ts, track, None, None, &[]);
            }
            event::dma_fence_init::NUMBER if timeline != UNBOUND => {
                self.fence_begins(at, timeline, context, seqno, false);
            }
            event::dma_fence_emit::NUMBER if timeline != UNBOUND => {
                self.fence_begins(at, timeline, context, seqno, true);
            }
            event::dma_fence_signaled::NUMBER if timeline != UNBOUND => {
                self.fence_signaled(at, timeline, context, seqno);
            }
            event::dma_fence_init::NUMBER
            | event::dma_fence_emit::NUMBER
            | event::dma_fence_signaled::NUMBER => {}
            _ => return false,
        }
        true
    }

    fn timeline(&mut self, at: At<'_>, name: &[u8], context: u32) -> Option<&mut Timeline> {
        if !self.kernel(at.cpu.machine).drm.timelines.contains_key(&context) {
            let name = String::from_utf8_lossy(name);
            let text = Some(self.tables.strings.intern(&name));
            let dimensions = Dimensions { text, number: Some(context.into()), ..Dimensions::default() };
            let track = self.kernel_track(&FENCE, at.cpu.machine, dimensions, |strings| {
                strings.intern(&format!("fence-{name}-{context}"))
            });
            let timeline = Timeline { track, has_emit: false, fences: VecDeque::new() };
            self.kernel(at.cpu.machine).drm.timelines.insert(context, timeline);
        }
        self.kernel(at.cpu.machine).drm.timelines.get_mut(&context)
    }

    /// Where a timeline tells when fences are emitted, that counts; else when they were made.
    fn fence_begins(&mut self, at: At<'_>, name: &[u8], context: u32, seqno: u32, is_emit: bool) {
        let Some(timeline) = self.timeline(at, name, context) else { return };
        if !is_emit && timeline.has_emit {
            return;
        }
        let begins_anew = is_emit && !timeline.has_emit;
        timeline.has_emit |= is_emit;
        let ends = begins_anew && !timeline.fences.is_empty();
        if ends {
            timeline.fences.clear();
        }
        timeline.fences.push_back(seqno);
        let (track, is_first) = (timeline.track, timeline.fences.len() == 1);
        if ends {
            self.end_slice(at.ts, track, None, None, &[]);
        }
        if is_first {
            self.begin_fence(at, track, seqno);
        }
    }

    fn fence_signaled(&mut self, at: At<'_>, name: &[u8], context: u32, seqno: u32) {
        let Some(timeline) = self.timeline(at, name, context) else { return };
        if timeline.fences.front().is_none_or(|first| seqno < *first) {
            return;
        }
        timeline.fences.pop_front();
        let (track, next) = (timeline.track, timeline.fences.front().copied());
        self.end_slice(at.ts, track, None, None, &[]);
        if let Some(next) = next {
            self.begin_fence(at, track, next);
        }
    }

    fn begin_fence(&mut self, at: At<'_>, track: TrackId, seqno: u32) {
        let name = self.tables.strings.intern("fence");
        self.begin_slice(at.ts, track, None, Some(name), &[("fence seqno", ArgValue::Uint(seqno.into()))]);
    }
}

fn job_args(job: Job) -> impl Iterator<Item = (&'static str, ArgValue)> {
    let (first, second) = match job.at_begin {
        Name::Fence(context, seqno) => {
            (("fence context", ArgValue::Uint(context)), Some(("fence seqno", ArgValue::Uint(seqno))))
        }
        Name::Number(id) => (("gpu sched job", ArgValue::Uint(id)), None),
    };
    [Some(first), second].into_iter().flatten()
}
