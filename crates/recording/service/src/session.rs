//! A tracing session.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::concurrent::ConcurrentEvents;
use crate::config::SessionConfig;
use crate::file_output::FileOutput;
use crate::filtering::Filtering;
use crate::flush::PendingFlush;
use crate::ids::{BufferId, ProducerId, SessionId};
use crate::instance_set::InstanceSet;
use crate::instances::InstanceConfig;
use crate::limits;
use crate::losses::SessionLosses;
use crate::machines::SessionMachines;
use crate::now::{ClockReadings, Deadline};
use crate::read_back::{OwnPackets, ReadPlace};
use crate::registry::Owner;
use crate::ring_upkeep::RingUpkeep;
use crate::scheduling::Boost;
use crate::scrape::Scrapes;
use crate::service_events::ServiceEvents;
use crate::telling::Tellings;
use crate::triggers::SessionTriggers;

/// Where a session stands (upstream: facts in tracing_service_session.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Data sources are set up and wait for StartTracing.
    Configured,
    Started,
    /// Stop was sent; data sources have until the deadline to say that they did.
    Stopping {
        deadline: Deadline,
    },
    /// Over; the buffers can be read.
    Disabled,
    /// A copy of another session: it never ran.
    ClonedReadOnly,
}

impl State {
    /// The name in QueryServiceState (upstream: `GetSessionStateName`).
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Configured => "CONFIGURED",
            Self::Started => "STARTED",
            Self::Stopping { .. } => "STOP_WAIT",
            Self::Disabled => "DISABLED",
            Self::ClonedReadOnly => "CLONED_READ_ONLY",
        }
    }
}

/// What becomes due, and when.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    pub(crate) duration: Option<Deadline>,
    pub(crate) all_started: Option<Deadline>,
    pub(crate) snapshot: Option<Deadline>,
    pub(crate) flush: Option<Deadline>,
    pub(crate) clear: Option<Deadline>,
    /// Until it starts by a trigger or not at all; or until it stops by one.
    pub(crate) trigger: Option<Deadline>,
    /// Clones do not wait any longer for a packet that is being filtered.
    pub(crate) clone: Option<Deadline>,
}

impl Timers {
    pub(crate) fn all(&self) -> impl Iterator<Item = Deadline> {
        let of_session =
            [self.duration, self.all_started, self.snapshot, self.flush, self.clear, self.trigger];
        of_session.into_iter().chain([self.clone]).flatten()
    }
}

/// How the last flush of a session went, for the stats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FinalFlush {
    Unspecified = 0,
    Succeeded = 1,
    Failed = 2,
}

impl FinalFlush {
    pub(crate) fn of(success: bool) -> Self {
        if success { Self::Succeeded } else { Self::Failed }
    }
}

/// Counters that become TraceStats.
#[derive(Debug, Clone)]
pub(crate) struct SessionCounters {
    pub(crate) invalid_packets: u64,
    pub(crate) flushes_requested: u64,
    pub(crate) flushes_succeeded: u64,
    pub(crate) flushes_failed: u64,
    pub(crate) final_flush: FinalFlush,
}

/// Clock readings that wait to be written into the trace.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClockSnapshots {
    pub(crate) initial: Option<ClockReadings>,
    pub(crate) ring: VecDeque<ClockReadings>,
}

/// Which one-off packets the next read-back still has to write.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Emitted {
    pub(crate) trace_config: bool,
    pub(crate) uuid: bool,
    pub(crate) provenance: bool,
    pub(crate) system_info: bool,
    pub(crate) protovms: bool,
}

/// The part of all ids that is forgotten when there are too many.
const SEQUENCE_IDS_FORGOTTEN_DIVISOR: usize = 16;

/// Sequence ids of a session, from 2: 1 is the service's own. In one table of plain numbers, which a clone copies in a millisecond.
#[derive(Debug, Clone)]
pub(crate) struct SequenceIds {
    ids: HashMap<(ProducerId, u16), u32>,
    /// Producers that are gone, some of which have some of these.
    gone: HashSet<ProducerId>,
    last: u32,
}

impl Default for SequenceIds {
    fn default() -> Self {
        Self { ids: HashMap::new(), gone: HashSet::new(), last: crate::read_back::SERVICE_SEQUENCE_ID }
    }
}

impl SequenceIds {
    pub(crate) fn get(&mut self, producer: ProducerId, writer: u16) -> u32 {
        if let Some(id) = self.ids.get(&(producer, writer)) {
            return *id;
        }
        if self.ids.len() >= limits::MAX_SEQUENCE_IDS {
            self.forget_some();
        }
        self.last = self.last.wrapping_add(1);
        self.ids.insert((producer, writer), self.last);
        self.last
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Those of producers that are gone go first, of these and of the others those of who has the most: whoever has so many is no program with
    /// threads. A part of all goes at once, for all are looked at for that.
    fn forget_some(&mut self) {
        let mut counts = HashMap::<ProducerId, usize>::new();
        for (producer, _) in self.ids.keys() {
            *counts.entry(*producer).or_default() += 1;
        }
        let mut counts: Vec<(bool, usize, ProducerId)> = counts
            .into_iter()
            .map(|(producer, count)| (self.gone.contains(&producer), count, producer))
            .collect();
        counts.sort_unstable();
        let mut left = limits::MAX_SEQUENCE_IDS / SEQUENCE_IDS_FORGOTTEN_DIVISOR;
        let mut forgotten = HashSet::new();
        while left > 0
            && let Some((_, count, producer)) = counts.pop()
        {
            left = left.saturating_sub(count);
            forgotten.insert(producer);
        }
        self.ids.retain(|(producer, _), _| !forgotten.contains(producer));
        self.gone.retain(|producer| !forgotten.contains(producer));
    }

    /// A producer is gone.
    pub(crate) fn note_gone(&mut self, producer: ProducerId) {
        self.gone.insert(producer);
    }

    /// All that could be read has been: of producers that are gone nothing comes any more, or the end of what they had begun.
    pub(crate) fn forget_gone(&mut self, is_there: impl Fn(ProducerId) -> bool) {
        if self.ids.len() < limits::MANY_SEQUENCE_IDS {
            return;
        }
        self.ids.retain(|(producer, _), _| is_there(*producer));
        self.gone.clear();
    }
}

/// A tracing session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) config: SessionConfig,
    pub(crate) uuid: (i64, i64),
    pub(crate) owner_uid: u32,
    /// The consumer that has it; none while it is detached, or when nothing but the file is left to do.
    pub(crate) owner: Owner,
    pub(crate) detach_key: Option<String>,
    pub(crate) state: State,
    /// On the boot clock.
    pub(crate) state_since_ns: u64,
    /// Global ids of the buffers, in the config's order.
    pub(crate) buffers: Vec<BufferId>,
    pub(crate) instances: InstanceSet,
    /// What producers are told of each of the config's data sources.
    pub(crate) instance_configs: Vec<InstanceConfig>,
    /// More instances come, of what is registered already; those of a session that has started are started at once.
    pub(crate) is_setting_up: bool,
    /// Where the config's data sources of each name stand in it.
    pub(crate) wanted: HashMap<Arc<str>, Vec<usize>>,
    /// What was registered since then joins it step by step.
    pub(crate) is_being_joined: bool,
    /// Its data sources are being told to stop: not all have heard of it.
    pub(crate) is_being_stopped: bool,
    /// Nobody waits until they have.
    pub(crate) stops_at_once: bool,
    pub(crate) all_started_reported: bool,
    pub(crate) start_realtime_ns: u64,
    pub(crate) timers: Timers,
    pub(crate) flushes: BTreeMap<u64, PendingFlush>,
    pub(crate) tellings: Tellings,
    /// What is over when the memory of producers was looked at.
    pub(crate) scrapes: Scrapes,
    pub(crate) counters: SessionCounters,
    pub(crate) losses: SessionLosses,
    pub(crate) clocks: ClockSnapshots,
    pub(crate) events: ServiceEvents,
    pub(crate) machines: SessionMachines,
    pub(crate) triggers: SessionTriggers,
    pub(crate) concurrent: ConcurrentEvents,
    pub(crate) emitted: Emitted,
    pub(crate) sync_marker_armed: bool,
    pub(crate) stats_armed: bool,
    pub(crate) sequences: SequenceIds,
    /// How far its buffers have been read.
    pub(crate) read_place: ReadPlace,
    /// What its reader gets next.
    pub(crate) own_packets: OwnPackets,
    /// A packet that its source was filtering when it was cloned, and the buffer of it by its index.
    pub(crate) carried: Option<(Option<usize>, Vec<u8>)>,
    /// None of the trace is written without it, if there is one.
    pub(crate) filtering: Option<Filtering>,
    pub(crate) file: Option<FileOutput>,
    /// It had a file, which is complete.
    pub(crate) wrote_into_file: bool,
    /// How the service's thread is scheduled while there is this session.
    pub(crate) boost: Option<Boost>,
    /// Why it ended, if not as asked.
    pub(crate) error: String,
    /// Erase it as soon as its file is written.
    pub(crate) free_when_written: bool,
    pub(crate) upkeep: RingUpkeep,
}

impl Session {
    pub(crate) fn new(id: SessionId, config: SessionConfig, owner_uid: u32, owner: Owner) -> Self {
        let filtering = config.trace_filter.clone().map(Filtering::new);
        Self {
            id,
            config,
            uuid: (0, 0),
            owner_uid,
            owner,
            detach_key: None,
            state: State::Configured,
            state_since_ns: 0,
            buffers: Vec::new(),
            instances: InstanceSet::default(),
            instance_configs: Vec::new(),
            is_setting_up: false,
            wanted: HashMap::new(),
            is_being_joined: false,
            is_being_stopped: false,
            stops_at_once: false,
            all_started_reported: false,
            start_realtime_ns: 0,
            timers: Timers::default(),
            flushes: BTreeMap::new(),
            tellings: Tellings::default(),
            scrapes: Scrapes::default(),
            counters: SessionCounters {
                invalid_packets: 0,
                flushes_requested: 0,
                flushes_succeeded: 0,
                flushes_failed: 0,
                final_flush: FinalFlush::Unspecified,
            },
            losses: SessionLosses::default(),
            clocks: ClockSnapshots::default(),
            events: ServiceEvents::default(),
            machines: SessionMachines::default(),
            triggers: SessionTriggers::default(),
            concurrent: ConcurrentEvents::default(),
            emitted: Emitted::default(),
            sync_marker_armed: false,
            stats_armed: false,
            sequences: SequenceIds::default(),
            read_place: ReadPlace::default(),
            own_packets: OwnPackets::default(),
            carried: None,
            filtering,
            file: None,
            wrote_into_file: false,
            boost: None,
            error: String::new(),
            free_when_written: false,
            upkeep: RingUpkeep::default(),
        }
    }

    /// It is freed, and only its file is not written to the end yet. Upstream writes that at once.
    pub(crate) fn is_leaving(&self) -> bool {
        self.free_when_written
    }

    /// To give back what it has takes longer than to hand it to another thread, its buffers aside.
    pub(crate) fn is_large(&self) -> bool {
        let sources = self.instances.len().max(self.losses.seen_sources());
        sources > limits::MANY_INSTANCES || self.sequences.len() > limits::MANY_SEQUENCE_IDS
    }

    /// Data sources may join it: it is not being stopped.
    pub(crate) fn is_joinable(&self) -> bool {
        matches!(self.state, State::Configured | State::Started)
    }

    /// It counts against the limits: a copy and a finished session hold buffers too.
    pub(crate) fn is_active(&self) -> bool {
        self.state != State::ClonedReadOnly && self.state != State::Disabled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_forgotten_before_they_are_too_many_and_never_those_of_programs() {
        let mut ids = SequenceIds::default();
        let program = ids.get(ProducerId(1), 1);
        let mut last = program;
        for producer in 2..20 {
            for writer in 1..30_000 {
                let id = ids.get(ProducerId(producer), writer);
                assert!(id > last);
                last = id;
            }
            assert!(ids.len() <= limits::MAX_SEQUENCE_IDS);
        }
        assert_eq!(ids.get(ProducerId(1), 1), program);
        assert_eq!(ids.get(ProducerId(19), 29_999), last);
        ids.forget_gone(|producer| producer == ProducerId(1));
        assert_eq!((ids.len(), ids.get(ProducerId(1), 1)), (1, program));
    }

    #[test]
    fn of_producers_that_come_and_go_a_part_is_forgotten_at_once_and_those_first_that_are_gone() {
        let mut ids = SequenceIds::default();
        let program: Vec<u32> = (1..100).map(|writer| ids.get(ProducerId(1), writer)).collect();
        for producer in 2..=u16::MAX {
            for writer in 1..6 {
                ids.get(ProducerId(producer), writer);
            }
            ids.note_gone(ProducerId(producer));
        }
        assert!(ids.len() > limits::MAX_SEQUENCE_IDS * 7 / 8 && ids.len() <= limits::MAX_SEQUENCE_IDS);
        assert!((1..100).zip(program).all(|(writer, id)| ids.get(ProducerId(1), writer) == id));
    }

    #[test]
    fn few_sequences_are_not_forgotten() {
        let mut ids = SequenceIds::default();
        let gone = ids.get(ProducerId(1), 1);
        ids.forget_gone(|_| false);
        assert_eq!(ids.get(ProducerId(1), 1), gone);
    }
}
