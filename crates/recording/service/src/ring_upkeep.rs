//! What rings need while they are filled. Ours: upstream does nothing of it.
//!
//! Those that are written into a file may fill faster than the config thinks, and what is overwritten until then is lost. Whatever has come is written before its time once a quarter of the ring is new. What producers hold back is another matter: a packet
//! that began in a chunk of the ring and ends in one that its writer has not filled yet cannot be read, and is overwritten in the end; so
//! they are asked for it before the ring has turned. And if something was overwritten nevertheless, writers are asked to repeat their
//! names: what they write from then on would be unreadable, too, if those were among it. A ring that folds asks for it if it had to give
//! up what it kept of a sequence.

use crate::buffers::Buffer;
use crate::flush::{AfterFlush, FlushReason};
use crate::ids::SessionId;
use crate::limits;
use crate::now::{Deadline, Now};
use crate::service::Service;
use crate::session::{Session, State};

/// When a session's producers may be asked again.
#[derive(Debug, Default)]
pub(crate) struct RingUpkeep {
    next_flush: Option<Deadline>,
    next_clear: Option<Deadline>,
}

/// What the rings of a session need.
#[derive(Debug, Default)]
struct Needs {
    write: bool,
    flush: bool,
    clear: bool,
}

impl Service {
    /// Whether a buffer will overwrite what is not yet in the file, unless the file is now written before producers are looked at again.
    pub fn is_file_behind(&self) -> bool {
        let writing = |session: &&Session| session.file.as_ref().is_some_and(|file| file.takes_a_write());
        self.sessions.values().filter(writing).any(|session| {
            session.buffers.iter().any(|id| self.buffers.get(id).is_some_and(Buffer::is_crowded))
        })
    }

    pub(crate) fn tend_rings(&mut self, now: &Now) {
        let runs = |session: &&Session| session.state == State::Started;
        let ids: Vec<SessionId> = self.sessions.values().filter(runs).map(|session| session.id).collect();
        for id in ids {
            let needs = self.needs_of(id, now);
            if needs.write {
                self.start_periodic_write(id);
            }
            if needs.clear {
                self.ask_for_names(id, now);
            }
            if needs.flush {
                self.flush_before_rings_turn(id, now);
            }
        }
    }

    fn needs_of(&self, id: SessionId, now: &Now) -> Needs {
        let Some(session) = self.sessions.get(&id) else { return Needs::default() };
        let any = |needs: fn(&Buffer) -> bool| {
            session.buffers.iter().any(|id| self.buffers.get(id).is_some_and(needs))
        };
        let may = |next: Option<Deadline>| next.is_none_or(|next| now.is_over(next));
        let upkeep = &session.upkeep;
        let Some(file) = &session.file else {
            let clear = any(Buffer::has_lost_states) && may(upkeep.next_clear);
            return Needs { clear, ..Needs::default() };
        };
        // Who wants no flushes gets none.
        let flushes = file.spec.flush_first || session.config.flush_period_ms.is_some();
        Needs {
            write: any(Buffer::is_filling),
            flush: flushes && may(upkeep.next_flush) && session.flushes.is_empty() && any(Buffer::turns),
            clear: may(upkeep.next_clear) && any(Buffer::has_overwritten),
        }
    }

    fn flush_before_rings_turn(&mut self, id: SessionId, now: &Now) {
        self.note_in_rings(id, Buffer::note_flush);
        if let Some(session) = self.sessions.get_mut(&id) {
            session.upkeep.next_flush = Some(now.after_ms(limits::RING_UPKEEP_PERIOD_MS));
        }
        self.flush(id, None, FlushReason::Periodic.by_service(), AfterFlush::WriteFile, now);
    }

    fn ask_for_names(&mut self, id: SessionId, now: &Now) {
        self.note_in_rings(id, Buffer::note_clear);
        if let Some(session) = self.sessions.get_mut(&id) {
            let has_file = session.file.is_some();
            let period_ms =
                if has_file { limits::RING_UPKEEP_PERIOD_MS } else { limits::LOST_STATES_PERIOD_MS };
            session.upkeep.next_clear = Some(now.after_ms(period_ms));
        }
        self.ask_to_clear_incremental_state(id, now);
    }

    /// All that the buffers held was read into the file.
    pub(crate) fn note_buffers_read(&mut self, id: SessionId) {
        self.note_in_rings(id, Buffer::note_read);
    }

    fn note_in_rings(&mut self, id: SessionId, note: fn(&mut Buffer)) {
        let Some(session) = self.sessions.get(&id) else { return };
        for id in &session.buffers {
            if let Some(buffer) = self.buffers.get_mut(id) {
                note(buffer);
            }
        }
    }
}
