//! EnableTracing: from a config to a session with buffers (upstream: tracing_service_impl.cc, `EnableTracing`).

use std::collections::HashMap;

use bytes::Bytes;
use ferretto_protos::EnableTracingRequest;
use ferretto_trace_buffer::{CreateError, TraceBuffer};

use crate::buffers::Buffer;
use crate::config::{BufferSpec, Claims, ConfigError, Draft, FileSpec, SessionConfig};
use crate::file_output::FileOutput;
use crate::ids::{BufferId, ConsumerConn, FileHandle, SessionId, Token};
use crate::instances::{indexes_by_name, instance_configs};
use crate::limits;
use crate::now::Now;
use crate::output::Reply;
use crate::sequence_account::SequenceAccount;
use crate::service::Service;
use crate::session::{Session, State};

/// When a user's trace of this name with guardrails began.
#[derive(Debug)]
pub(crate) struct GuardedStart {
    uid: u32,
    name: String,
    boottime_ns: u64,
}

/// Why no session was made. The text is the error of the EnableTracing response.
#[derive(Debug, thiserror::Error)]
enum EnableError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("this consumer has a tracing session already; free its buffers first")]
    HasSession,
    #[error(
        "a session with exclusive_prio {running} is running; a config needs a higher exclusive_prio to end it"
    )]
    Exclusive { running: u32 },
    #[error("exclusive_prio may only be used by root")]
    ExclusiveNotAllowed,
    #[error(
        "lockdown_mode may only be used by root and by the user of the service: it keeps others' programs out"
    )]
    LockdownNotAllowed,
    #[error(
        "a session of yours with unique_session_name {0:?} exists already; stop it or choose another name"
    )]
    NameInUse(String),
    #[error("session semaphore {name:?}: {others} other session(s) hold it, {allowed} are allowed")]
    Semaphore { name: String, others: u64, allowed: u64 },
    #[error("a trace named {name:?} was started less than {spacing} s ago", spacing = limits::MIN_SPACING_WITH_GUARDRAILS.as_secs())]
    TooSoon { name: String },
    #[error("user {uid} has {max} concurrent tracing sessions already; stop one first", max = limits::MAX_SESSIONS_PER_UID)]
    TooManyOfUid { uid: u32 },
    #[error("there are {max} concurrent tracing sessions already; stop one first", max = limits::MAX_SESSIONS)]
    TooMany,
    #[error(
        "priority_boost may only be used by root and by the user of the service: it is taken from all others"
    )]
    BoostNotAllowed,
    #[error("priority_boost: {0}; the service needs the capability CAP_SYS_NICE for it")]
    Boost(String),
    #[error(
        "output_path {path:?} would be made with the rights of the service's user, who is another one; pass a file descriptor instead, as ferretto and perfetto do with -o"
    )]
    OutputPathOfOther { path: String },
    #[error("the trace cannot go into the file that was passed: {0}")]
    File(String),
    #[error("cannot create output_path {path:?}: {error}")]
    OutputPath { path: String, error: String },
    #[error("buffers[{index}]: {error}")]
    Buffer { index: usize, error: CreateError },
    #[error("all {max} trace buffers of this service are in use; free sessions first", max = u16::MAX)]
    NoBufferId,
}

/// A semaphore that sessions hold.
struct HeldSemaphore {
    holders: u64,
    last_holder: SessionId,
    /// What the strictest of them allows.
    allowed: u64,
}

/// By name. Of several that a session has by one name its first counts.
fn held_semaphores<'a>(sessions: impl Iterator<Item = &'a Session>) -> HashMap<&'a str, HeldSemaphore> {
    let mut all: HashMap<&str, HeldSemaphore> = HashMap::new();
    for session in sessions {
        for (name, max) in &session.config.claims.semaphores {
            let first = HeldSemaphore { holders: 0, last_holder: SessionId(0), allowed: u64::MAX };
            let held = all.entry(name).or_insert(first);
            if held.last_holder != session.id {
                held.last_holder = session.id;
                held.holders += 1;
                held.allowed = held.allowed.min(*max);
            }
        }
    }
    all
}

impl Service {
    pub(crate) fn handle_enable_tracing(
        &mut self,
        from: ConsumerConn,
        token: Token,
        request: EnableTracingRequest,
        file: Option<FileHandle>,
        now: &Now,
    ) {
        // One call at a time awaits the end; an earlier one of the same consumer is given up (upstream: consumer_ipc_service.cc).
        let Some(consumer) = self.consumers.get_mut(&from) else { return };
        if let Some(old) = consumer.enable.replace(token) {
            self.reply_consumer(from, Reply::rejected(old));
        }
        if request.attach_notification_only() {
            self.close_files(file);
            return self.answer_if_over(from);
        }
        let raw = request.trace_config.unwrap_or_default();
        if let Err(error) = self.enable_tracing(from, raw, file, now) {
            tracing::info!(%from, "EnableTracing refused: {error}");
            self.close_files(file);
            self.answer_enable_tracing(from, &error.to_string());
        }
    }

    /// After Attach: the session may have ended while nobody was attached.
    fn answer_if_over(&mut self, from: ConsumerConn) {
        let session = self.session_of(from).and_then(|id| self.sessions.get(&id));
        if session.is_none_or(|session| !session.is_active() && session.file.is_none()) {
            self.answer_enable_tracing(from, "");
        }
    }

    fn enable_tracing(
        &mut self,
        from: ConsumerConn,
        raw: Bytes,
        file: Option<FileHandle>,
        now: &Now,
    ) -> Result<(), EnableError> {
        let draft = Draft::decode(raw)?;
        let uid = self.consumers.get(&from).map_or(u32::MAX, |consumer| consumer.peer.uid);
        if let Some(lockdown) = draft.lockdown() {
            // Upstream lets everybody.
            if !self.may_decide_for_all(from) {
                return Err(EnableError::LockdownNotAllowed);
            }
            self.lockdown = lockdown;
        }
        if self.session_of(from).is_some() {
            return Err(EnableError::HasSession);
        }
        let checked = draft.check()?;
        self.check_against_others(uid, &checked.claims(), now)?;
        let config = checked.into_session_config(file.is_some())?;
        self.check_output_path(from, &config)?;
        // A process of the service or of a producer would run before all others on somebody's word. Upstream lets everybody.
        let wants_boost =
            config.boost.is_some() || config.data_sources.iter().any(|source| source.wants_boost);
        if wants_boost && !self.may_decide_for_all(from) {
            return Err(EnableError::BoostNotAllowed);
        }
        // What the machine may refuse comes after the config's own mistakes, unlike upstream's: the file last, so that none is left behind.
        let buffers = self.make_buffers(&config.buffers, uid)?;
        self.raise_scheduling(config.boost).map_err(EnableError::Boost)?;
        let output = match &config.file {
            Some(spec) => Some(self.open_output(spec, file).inspect_err(|_| self.lower_scheduling())?),
            None => None,
        };
        if output.is_none() {
            self.close_files(file);
        }
        self.add_session(from, uid, config, buffers, output, now);
        Ok(())
    }

    /// What depends on who else is tracing, in upstream's order.
    fn check_against_others(&mut self, uid: u32, claims: &Claims, now: &Now) -> Result<(), EnableError> {
        self.make_way_for_exclusive(uid, claims.exclusive_priority, now)?;
        let name = &claims.unique_name;
        let not_copied = || {
            let sessions = self.sessions.values().filter(|session| session.state != State::ClonedReadOnly);
            sessions.filter(|session| !session.is_leaving())
        };
        // Each user has own names, lest a neighbour takes them. Upstream's are everybody's.
        let mut own = not_copied().filter(|session| session.owner_uid == uid);
        if !name.is_empty() && own.any(|session| session.config.claims.unique_name == *name) {
            return Err(EnableError::NameInUse(name.clone()));
        }
        let held = held_semaphores(not_copied().filter(|session| session.is_active()));
        for (name, max_others) in &claims.semaphores {
            let Some(held) = held.get(name.as_str()) else { continue };
            let (others, allowed) = (held.holders, held.allowed.min(*max_others));
            if others > allowed {
                return Err(EnableError::Semaphore { name: name.clone(), others, allowed });
            }
        }
        if claims.guardrails && self.is_too_soon(uid, name, now) {
            return Err(EnableError::TooSoon { name: name.clone() });
        }
        if self.sessions.values().filter(|session| session.owner_uid == uid).count()
            >= limits::MAX_SESSIONS_PER_UID
        {
            return Err(EnableError::TooManyOfUid { uid });
        }
        if self.sessions.len() >= limits::max_sessions(uid) {
            return Err(EnableError::TooMany);
        }
        Ok(())
    }

    /// A session that wants to be alone ends and frees all others, finished ones and copies too, if none of them wants it as much.
    fn make_way_for_exclusive(&mut self, uid: u32, priority: u32, now: &Now) -> Result<(), EnableError> {
        let staying = self.sessions.values().filter(|session| !session.is_leaving());
        let priorities = staying.map(|session| session.config.claims.exclusive_priority);
        let running = priorities.max().unwrap_or(0);
        if running > 0 && running >= priority {
            return Err(EnableError::Exclusive { running });
        }
        if priority == 0 {
            return Ok(());
        }
        // Upstream's trace_config.proto says so; its service checks on Android only.
        if uid != 0 {
            return Err(EnableError::ExclusiveNotAllowed);
        }
        for session_id in self.sessions.keys().copied().collect::<Vec<SessionId>>() {
            if let Some(session) = self.sessions.get_mut(&session_id) {
                session.error = format!("ended by a session with exclusive_prio {priority}");
            }
            self.free_session(session_id, now);
        }
        Ok(())
    }

    /// Traces of a user without a name count as of one name. In whole seconds, as upstream counts, to whom all users are one.
    fn is_too_soon(&mut self, uid: u32, name: &str, now: &Now) -> bool {
        let seconds = |boottime_ns: u64| boottime_ns / 1_000_000_000;
        let now_ns = now.clocks.boottime;
        let spacing = limits::MIN_SPACING_WITH_GUARDRAILS.as_secs();
        self.last_starts
            .retain(|start| seconds(now_ns).saturating_sub(seconds(start.boottime_ns)) <= spacing);
        if self.last_starts.iter().any(|start| start.uid == uid && start.name == name) {
            return true;
        }
        // A user who starts many displaces own ones.
        if self.last_starts.len() >= limits::MAX_REMEMBERED_NAMES {
            let own = self.last_starts.iter().position(|start| start.uid == uid);
            self.last_starts.remove(own.unwrap_or_default());
        }
        self.last_starts.push_back(GuardedStart { uid, name: name.to_owned(), boottime_ns: now_ns });
        false
    }

    fn make_buffers(
        &mut self,
        specs: &[BufferSpec],
        uid: u32,
    ) -> Result<Vec<(BufferId, Buffer)>, EnableError> {
        let mut made: Vec<(BufferId, Buffer)> = Vec::with_capacity(specs.len());
        let account = SequenceAccount::of(uid);
        let ids = self.free_buffer_ids(specs.len()).ok_or(EnableError::NoBufferId)?;
        for (index, (spec, id)) in specs.iter().zip(ids).enumerate() {
            let size = usize::try_from(spec.size_kb).unwrap_or(usize::MAX).saturating_mul(1024);
            let buffer =
                TraceBuffer::new(size, spec.policy).map_err(|error| EnableError::Buffer { index, error })?;
            self.last_buffer = id.0;
            let buffer = buffer.with_histograms(limits::MAX_HISTOGRAMS_PER_SESSION / specs.len());
            let buffer = buffer.one_of(specs.len());
            let buffer = if spec.folds_overwritten { buffer.fold_overwritten() } else { buffer };
            made.push((id, Buffer::new(buffer).with_account(&account)));
        }
        Ok(made)
    }

    /// A file is made where the service may make one, so only for those who could do so themselves: root, and the service's own user.
    fn check_output_path(&self, from: ConsumerConn, config: &SessionConfig) -> Result<(), EnableError> {
        let Some(path) = config.file.as_ref().and_then(|file| file.output_path.clone()) else {
            return Ok(());
        };
        if self.may_decide_for_all(from) { Ok(()) } else { Err(EnableError::OutputPathOfOther { path }) }
    }

    /// Root, and the service's own user.
    fn may_decide_for_all(&self, from: ConsumerConn) -> bool {
        let peer = self.consumers.get(&from).map(|consumer| consumer.peer);
        peer.is_some_and(|peer| !peer.emulated && self.is_privileged(peer.uid))
    }

    fn open_output(&mut self, spec: &FileSpec, file: Option<FileHandle>) -> Result<FileOutput, EnableError> {
        let handle = match &spec.output_path {
            Some(path) => {
                let error = |error| EnableError::OutputPath { path: path.clone(), error };
                self.environment.create_output(path).map_err(error)?
            }
            None => {
                let file = file.ok_or(ConfigError::NoFile)?;
                self.environment.check_file(file).map_err(EnableError::File)?;
                file
            }
        };
        Ok(FileOutput::new(handle, spec.clone()))
    }

    fn add_session(
        &mut self,
        from: ConsumerConn,
        uid: u32,
        config: SessionConfig,
        buffers: Vec<(BufferId, Buffer)>,
        output: Option<FileOutput>,
        now: &Now,
    ) {
        self.last_session += 1;
        let id = SessionId(self.last_session);
        let deferred = config.deferred_start;
        let mut session = Session::new(id, config, uid, Some(from));
        session.uuid = match session.config.uuid {
            Some(uuid) => uuid,
            None => (self.environment.random_u64() as i64, self.environment.random_u64() as i64),
        };
        session.boost = session.config.boost;
        session.losses.at_start = self.totals_before();
        session.file = output;
        session.buffers = buffers.iter().map(|(id, _)| *id).collect();
        session.instance_configs = instance_configs(&session);
        session.wanted = indexes_by_name(&session);
        self.buffers.extend(buffers);
        self.sessions.insert(id, session);
        self.introduce_others(id);
        if let Some(consumer) = self.consumers.get_mut(&from) {
            consumer.session = Some(id);
        }
        tracing::info!(session = %id, uid, deferred, "session configured");
        self.announce_state(id, now);
        let waits_for_trigger = self.arm_triggers(id, now);
        self.set_up_all(id, now);
        if !deferred && !waits_for_trigger {
            self.start_tracing(id, now);
        }
    }

    /// Only wider producer filters are taken over (upstream: `ChangeTraceConfig`).
    pub(crate) fn change_trace_config(&mut self, from: ConsumerConn, raw: Bytes, now: &Now) {
        let Some(session_id) = self.session_of(from) else { return };
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        // Of one that stops, a new data source would neither be started nor stopped, and the stop would wait for it.
        if !session.is_joinable() {
            return;
        }
        match session.config.add_filters(&raw) {
            Ok(true) => self.add_newly_matching(session_id, now),
            Ok(false) => {
                tracing::info!(%session_id, "ChangeTraceConfig without additional producer filters has no effect")
            }
            Err(error) => tracing::warn!(%session_id, "ChangeTraceConfig ignored: {error}"),
        }
    }
}
