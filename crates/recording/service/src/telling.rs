//! Telling all producers of a session something: to flush, or to say their names again.
//!
//! There may be thousands, and each message is a call of the system that wakes a process up: so they are told in steps.

use ferretto_protos::get_async_command_response::{self as command, Cmd};

use crate::commands::INSTANCES_PER_COMMAND;
use crate::ids::{ConsumerConn, ProducerId, SessionId};
use crate::now::Now;
use crate::service::Service;
use crate::work::{Budget, Job};

/// What it costs to tell a producer something, in [`Budget`]'s units: most of it is the system's.
pub(crate) const TELL_COST: usize = 10;
/// So many are told at once, and do not have to wait for other work.
const FEW: usize = 16;
/// Instances that are named in the time of one unit.
const INSTANCES_PER_COST: usize = 16;

/// Something that producers are told, and how far that is.
#[derive(Debug)]
pub(crate) struct Telling {
    pub(crate) session: SessionId,
    what: Told,
    last: Option<ProducerId>,
}

#[derive(Debug, Clone, Copy)]
enum Told {
    Flush {
        request_id: u64,
        flags: u64,
        /// Who has asked for it.
        by: Option<ConsumerConn>,
    },
    ClearIncrementalState,
}

/// What is being told to a session's producers and nobody has asked for: it does not begin anew before that is done.
#[derive(Debug, Default)]
pub(crate) struct Tellings {
    pub(crate) flush: bool,
    clear: bool,
}

impl Telling {
    /// Who waits for it.
    pub(crate) fn consumer(&self) -> Option<ConsumerConn> {
        match self.what {
            Told::Flush { by, .. } => by,
            Told::ClearIncrementalState => None,
        }
    }
}

impl Service {
    /// Tells those whom a flush waits for.
    pub(crate) fn tell_to_flush(
        &mut self,
        session_id: SessionId,
        request_id: u64,
        flags: u64,
        by: Option<ConsumerConn>,
        now: &Now,
    ) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        session.tellings.flush |= by.is_none();
        let are_few = session.flushes.get(&request_id).is_none_or(|flush| flush.waits_for.len() <= FEW);
        let what = Told::Flush { request_id, flags, by };
        let job = Job::Tell(Telling { session: session_id, what, last: None });
        match by.is_some() || are_few {
            true => self.begin(job, now),
            false => self.begin_in_turn(job, now),
        }
    }

    /// Has all that names things by numbers say the names again.
    pub(crate) fn ask_to_clear_incremental_state(&mut self, session_id: SessionId, now: &Now) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        if std::mem::replace(&mut session.tellings.clear, true) {
            return;
        }
        let are_few = session.instances.len() <= FEW;
        let what = Told::ClearIncrementalState;
        let job = Job::Tell(Telling { session: session_id, what, last: None });
        match are_few {
            true => self.begin(job, now),
            false => self.begin_in_turn(job, now),
        }
    }

    /// Goes on; what is left is given back.
    pub(crate) fn step_of_telling(&mut self, mut telling: Telling, budget: &mut Budget) -> Option<Telling> {
        let mut told = 0;
        while let Some(id) = self.next_to_tell(&telling) {
            if budget.is_spent() && told >= FEW {
                return Some(telling);
            }
            told += 1;
            telling.last = Some(id);
            self.tell(&telling, id, budget);
        }
        if let Some(session) = self.sessions.get_mut(&telling.session) {
            match telling.what {
                Told::Flush { by, .. } => session.tellings.flush &= by.is_some(),
                Told::ClearIncrementalState => session.tellings.clear = false,
            }
        }
        None
    }

    fn next_to_tell(&self, telling: &Telling) -> Option<ProducerId> {
        let session = self.sessions.get(&telling.session)?;
        match telling.what {
            // Not those who are gone meanwhile, nor anybody if it is over.
            Told::Flush { request_id, .. } => {
                session.flushes.get(&request_id)?.waits_for.next_after(telling.last)
            }
            Told::ClearIncrementalState => session.instances.next_clearing(telling.last),
        }
    }

    fn tell(&mut self, telling: &Telling, id: ProducerId, budget: &mut Budget) {
        let Some(session) = self.sessions.get(&telling.session) else { return };
        let instances: Vec<u64> = match telling.what {
            Told::Flush { .. } => session.instances.flushing_of(id).map(|(_, id)| id.0).collect(),
            Told::ClearIncrementalState => session.instances.clearing_of(id).map(|(_, id)| id.0).collect(),
        };
        budget.spend(TELL_COST + instances.len() / INSTANCES_PER_COST);
        // Who only scrapes its own memory is told of a flush, too.
        let parts = instances.chunks(INSTANCES_PER_COMMAND).chain(instances.is_empty().then_some(&[][..]));
        let count = instances.len().div_ceil(INSTANCES_PER_COMMAND).max(1) as u64;
        for (later, part) in (0..count).rev().zip(parts) {
            let data_source_ids = part.to_vec();
            let cmd = match telling.what {
                // It has flushed when it has answered the last one.
                Told::Flush { request_id, flags, .. } => {
                    let (request_id, flags) = (Some(request_id - later), Some(flags));
                    Cmd::Flush(command::Flush { data_source_ids, request_id, flags })
                }
                Told::ClearIncrementalState => {
                    Cmd::ClearIncrementalState(command::ClearIncrementalState { data_source_ids })
                }
            };
            self.command(id, cmd);
        }
    }
}
