//! Telling all producers of a session something: to flush, or to say their names again.
//!
//! There may be thousands, and each message is a call of the system that wakes a process up: so they are told in steps.

use ferretto_protos::get_async_command_response::{self as command, Cmd};

use crate::commands::INSTANCES_PER_COMMAND;
use crate::ids::{ConsumerConn, ProducerId, SessionId};
use crate::instance_set::InstanceKey;
use crate::now::Now;
use crate::service::Service;
use crate::work::{Budget, Job};

/// What it costs to tell a producer something, in [`Budget`]'s units: most of it is the system's.
pub(crate) const TELL_COST: usize = 10;
/// So many are told at once, and do not have to wait for other work.
const FEW: usize = 16;

/// Something that producers are told, and how far that is.
#[derive(Debug)]
pub(crate) struct Telling {
    pub(crate) session: SessionId,
    what: Told,
    last: Option<ProducerId>,
    /// The last one has more instances than fit into a command, and has been told of those up to this one.
    named: Option<InstanceKey>,
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
        let job = Job::Tell(Telling { session: session_id, what, last: None, named: None });
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
        let job = Job::Tell(Telling { session: session_id, what, last: None, named: None });
        match are_few {
            true => self.begin(job, now),
            false => self.begin_in_turn(job, now),
        }
    }

    /// Goes on; what is left is given back.
    pub(crate) fn step_of_telling(&mut self, mut telling: Telling, budget: &mut Budget) -> Option<Telling> {
        let mut told = 0;
        while let Some(id) = self.next_to_tell(&telling) {
            if budget.is_spent() && (told >= FEW || telling.named.is_some()) {
                return Some(telling);
            }
            telling.last = Some(id);
            telling.named = self.tell(&telling, id, budget);
            told += usize::from(telling.named.is_none());
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
        let rest_of = telling.named.map(|(id, _)| id);
        match telling.what {
            // Not those who are gone meanwhile, nor anybody if it is over.
            Told::Flush { request_id, .. } => {
                let waits_for = &session.flushes.get(&request_id)?.waits_for;
                let rest_of = rest_of.filter(|id| waits_for.contains(*id));
                rest_of.or_else(|| waits_for.next_after(telling.last))
            }
            Told::ClearIncrementalState => rest_of.or_else(|| session.instances.next_clearing(telling.last)),
        }
    }

    /// Names as many instances as a command has room for. Says which was the last, if there are more.
    fn tell(&mut self, telling: &Telling, id: ProducerId, budget: &mut Budget) -> Option<InstanceKey> {
        let instances = &self.sessions.get(&telling.session)?.instances;
        let after = telling.named.filter(|(named, _)| *named == id);
        let (part, more) = match telling.what {
            Told::Flush { .. } => part_of(instances.flushing_of(id, after)),
            Told::ClearIncrementalState => part_of(instances.clearing_of(id, after)),
        };
        let named = part.last().copied().filter(|_| more);
        // Their memory may be far away.
        budget.spend(TELL_COST + part.len());
        let data_source_ids = part.into_iter().map(|(_, instance)| instance.0).collect();
        self.command(
            id,
            match telling.what {
                // It has flushed when it has answered the last command: nobody waits for the number before.
                Told::Flush { request_id, flags, .. } => Cmd::Flush(command::Flush {
                    data_source_ids,
                    request_id: Some(request_id - u64::from(more)),
                    flags: Some(flags),
                }),
                Told::ClearIncrementalState => {
                    Cmd::ClearIncrementalState(command::ClearIncrementalState { data_source_ids })
                }
            },
        );
        named
    }
}

/// As many as a command has room for, and whether there are more.
fn part_of(mut keys: impl Iterator<Item = InstanceKey>) -> (Vec<InstanceKey>, bool) {
    let part = keys.by_ref().take(INSTANCES_PER_COMMAND).collect();
    (part, keys.next().is_some())
}
