//! What follows from what consumers call and what they are told.

use super::*;

impl Model {
    pub(crate) fn consumer_connects(&mut self, conn: ConsumerConn, uid: u32) {
        let consumer = Consumer {
            uid,
            session: None,
            enable: None,
            reading: None,
            packet: Vec::new(),
            key: String::new(),
            may_wait_for_ever: false,
        };
        self.consumers.insert(conn, consumer);
    }

    /// A call is about to be served.
    pub(crate) fn consumer_calls(
        &mut self,
        conn: ConsumerConn,
        token: Token,
        call: &ConsumerCall,
        plans: &[Plan],
        clocks: Clocks,
    ) {
        let Some(consumer) = self.consumers.get_mut(&conn) else { return };
        let session = consumer.session;
        match call {
            ConsumerCall::EnableTracing(request) => {
                consumer.enable = Some(token);
                if !request.attach_notification_only() {
                    self.attempt(
                        conn,
                        token,
                        request.trace_config.as_deref().unwrap_or_default(),
                        plans,
                        clocks,
                    );
                }
            }
            ConsumerCall::StartTracing(_) => {
                if let Some(session) = self.session_mut(session)
                    && session.state == State::Configured
                {
                    session.start(clocks);
                }
            }
            ConsumerCall::DisableTracing(_) => {
                self.promise(session);
                if let Some(session) = self.session_mut(session) {
                    session.stop(clocks);
                }
            }
            ConsumerCall::FreeBuffers(_) => self.before_free(conn),
            ConsumerCall::Detach(request) => {
                consumer.key = request.key().to_owned();
                // What is being read ends here.
                consumer.reading = None;
            }
            ConsumerCall::Attach(request) => consumer.key = request.key().to_owned(),
            ConsumerCall::ReadBuffers(_) => {
                let is_whole = self.session_mut(session).is_some_and(|session| session.state == State::Ended);
                if let Some(consumer) = self.consumers.get_mut(&conn) {
                    consumer.reading = Some(Reading { token, is_whole });
                }
            }
            ConsumerCall::Flush(request) => {
                let timeout_ms = match request.timeout_ms() {
                    0 => self
                        .session_mut(session)
                        .and_then(|session| Some(session.plan.as_ref()?.flush_timeout_ms)),
                    timeout_ms => Some(timeout_ms),
                };
                let until = timeout_ms.map_or(u64::MAX, |ms| clocks.monotonic + u64::from(ms) * NS_PER_MS);
                self.wait(conn, token, session, until);
            }
            ConsumerCall::CloneSession(request) => {
                let clones_by = match &request.selector {
                    Some(Selector::SessionId(u64::MAX)) => "clone by bugreport",
                    Some(Selector::UniqueSessionName(_)) => "clone by name",
                    _ => "clone",
                };
                self.expect_cleared_buffers();
                self.wait(conn, token, None, u64::MAX);
                if let Some(waiting) = self.waiting.last_mut() {
                    (waiting.is_clone, waiting.clones_by) = (true, clones_by);
                }
            }
            ConsumerCall::ChangeTraceConfig(request) => {
                let config = protos::TraceConfig::decode(request.trace_config.clone().unwrap_or_default());
                let more = config
                    .unwrap_or_default()
                    .data_sources
                    .into_iter()
                    .flat_map(|source| source.producer_name_filter);
                if let Some(session) = self.session_mut(session)
                    && !session.filter.is_empty()
                {
                    session.filter.extend(more);
                }
            }
            _ => {}
        }
    }

    fn session_mut(&mut self, key: Option<u32>) -> Option<&mut Session> {
        self.sessions.get_mut(&key?)
    }

    fn attempt(&mut self, conn: ConsumerConn, token: Token, config: &[u8], plans: &[Plan], clocks: Clocks) {
        let serial = serial_of(config).filter(|serial| (1..=plans.len()).contains(&(*serial as usize)));
        let plan = serial.and_then(|serial| plans.get(serial as usize - 1)).cloned();
        let key = serial.unwrap_or_else(|| self.next_extra());
        if plan.as_ref().is_some_and(|plan| plan.exclusive_prio > 0) {
            self.make_way(conn);
        }
        let uid = self.consumers.get(&conn).map_or(0, |consumer| consumer.uid);
        // Also with a config that is refused for something else (upstream: tracing_service_impl.cc, `EnableTracing`).
        self.lockdown = plan.as_ref().and_then(|plan| plan.lockdown).unwrap_or(self.lockdown);
        let mut session = Session::new(plan, serial.unwrap_or(0), uid, conn);
        if session.state == State::Running {
            session.start(clocks);
        }
        // Garbage may want a file; when that is written is not known here.
        if session.plan.is_none() {
            let config = protos::TraceConfig::decode(config).unwrap_or_default();
            session.is_writing = config.write_into_file();
            session.may_be_file_only = session.is_writing;
        }
        let before = self.sessions.insert(key, session);
        assert!(before.is_none(), "the plan {key} is carried out twice");
        self.attempt = Some((conn, token, key));
    }

    /// An exclusive session ends and frees all others, unless there is one already. Those of which only the file is left do not count.
    fn make_way(&mut self, conn: ConsumerConn) {
        let is_exclusive = |session: &Session| {
            let wants_it = session.plan.as_ref().is_some_and(|plan| plan.exclusive_prio > 0);
            wants_it && session.state != State::Freed
        };
        let has_session = self.consumers.get(&conn).is_some_and(|consumer| consumer.session.is_some());
        if has_session || self.sessions.values().any(is_exclusive) {
            return;
        }
        for clone in self.clone_files.values_mut() {
            clone.may_be_erased = true;
        }
        self.making_way = self.sessions.keys().copied().collect();
        for key in self.making_way.clone() {
            self.free_soon(key);
        }
    }

    fn next_extra(&mut self) -> u32 {
        self.last_extra += 1;
        FIRST_EXTRA_KEY + self.last_extra
    }

    fn wait(&mut self, conn: ConsumerConn, token: Token, session: Option<u32>, until: u64) {
        let producers = BTreeSet::new();
        self.waiting.push(Waiting {
            conn,
            token,
            session,
            until,
            request_id: None,
            producers,
            is_clone: false,
            clones_by: "",
            is_put_off: false,
            ledger: None,
        });
    }

    /// Which session a clone will find is the service's secret; each that may be found loses what it has where it is to be cleared.
    fn expect_cleared_buffers(&mut self) {
        for session in self.sessions.values_mut() {
            if session.plan.as_ref().is_some_and(|plan| plan.buffers.iter().any(|buffer| buffer.clears)) {
                session.checker.emptied += 1;
            }
        }
    }

    /// A file goes along with a CloneSession call. If the clone needs it, all of it happens before the answer: buffers are taken away,
    /// and there is a session.
    pub(crate) fn clone_takes_file(&mut self, conn: ConsumerConn, token: Token, file: FileHandle) {
        for session in self.sessions.values_mut() {
            let takes_away = |plan: &Plan| plan.file.is_some() && plan.transfers();
            session.checker.emptied += u64::from(session.plan.as_ref().is_some_and(takes_away));
        }
        let ledger = self.ledger.clone();
        self.clone_files.insert(file, CloneFile { conn, token, ledger, may_be_erased: false, closed: None });
    }

    /// Whatever is acknowledged by now must be in the trace.
    pub(super) fn promise(&mut self, key: Option<u32>) {
        let Some(session) = key.and_then(|key| self.sessions.get_mut(&key)) else { return };
        if session.promised.is_none() {
            session.promised = Some(ledger_of(&self.ledger, session.serial));
        }
    }

    pub(super) fn before_free(&mut self, conn: ConsumerConn) {
        if let Some(key) = self.consumers.get(&conn).and_then(|consumer| consumer.session) {
            self.free_soon(key);
        }
    }

    /// The call being served frees a session.
    fn free_soon(&mut self, key: u32) {
        self.promise(Some(key));
        let Some(session) = self.sessions.get_mut(&key) else { return };
        session.is_stopping = true;
        session.state = State::Freed;
        session.key = None;
        if let Some(owner) = session.owner.and_then(|owner| self.consumers.get_mut(&owner)) {
            owner.reading = None;
        }
    }

    /// A call was served and all that it brought about was told.
    pub(crate) fn consumer_has_called(&mut self, conn: ConsumerConn, call: &'static str, fate: &mut Fate) {
        if let Some((_, _, key)) = self.attempt.take() {
            if let Some(consumer) = self.consumers.get_mut(&conn) {
                consumer.session = Some(key);
            }
            fate.report.sessions += 1;
            if let Some(plan) = self.sessions.get(&key).and_then(|session| session.plan.as_ref()) {
                fate.tell(format_args!("consumer {} has the session {key}: {plan:?}", conn.0));
                plan.note(fate);
            }
        }
        for key in std::mem::take(&mut self.making_way) {
            self.has_freed(key);
        }
        if call == "FreeBuffers" {
            self.after_free(conn);
        }
        // Of what still waits without a flush, it is the file: the next flush is another's.
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.conn == conn) {
            waiting.is_put_off |= waiting.is_clone && waiting.request_id.is_none() && self.is_working;
            waiting.request_id.get_or_insert(0);
        }
        self.check();
    }

    fn after_free(&mut self, conn: ConsumerConn) {
        if let Some(key) = self.consumers.get(&conn).and_then(|consumer| consumer.session) {
            self.has_freed(key);
        }
    }

    /// A session is freed, but for its file.
    fn has_freed(&mut self, key: u32) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        if let Some(owner) = session.owner.take().and_then(|owner| self.consumers.get_mut(&owner)) {
            owner.session = None;
        }
        if !session.is_writing {
            self.forget(key);
        }
    }

    pub(super) fn forget(&mut self, key: u32) {
        if let Some(session) = self.sessions.remove(&key)
            && !session.is_copy
        {
            self.instances.retain(|_, instance| instance.session != key);
            self.gone.insert(key, session);
        }
    }

    pub(crate) fn consumer_vanishes(&mut self, conn: ConsumerConn) {
        self.before_free(conn);
    }

    pub(crate) fn consumer_has_vanished(&mut self, conn: ConsumerConn) {
        self.after_free(conn);
        self.consumers.remove(&conn);
        self.waiting.retain(|waiting| waiting.conn != conn);
        for clone in self.clone_files.values_mut().filter(|clone| clone.conn == conn) {
            clone.may_be_erased = true;
        }
        self.check();
    }

    /// The service answers a consumer.
    pub(crate) fn consumer_is_told(
        &mut self,
        conn: ConsumerConn,
        method: &'static str,
        reply: &Reply,
        clocks: Clocks,
        fate: &mut Fate,
    ) {
        match method {
            "EnableTracing" => self.enable_answered(conn, reply, fate),
            "ReadBuffers" => self.read_answered(conn, reply, fate),
            "Flush" => self.flush_answered(conn, reply, clocks, fate),
            "CloneSession" => self.clone_answered(conn, reply, fate),
            "Detach" if reply.body.is_some() => self.detach_answered(conn, fate),
            "Attach" => self.attach_answered(conn, reply, fate),
            "GetTraceStats" => self.stats_answered(conn, reply, fate),
            "ObserveEvents" if reply.has_more => fate.saw("observed events"),
            "QueryServiceState" => self.state_answered(conn, reply, fate),
            "ChangeTraceConfig" => fate.saw("change config"),
            _ => {}
        }
    }

    fn enable_answered(&mut self, conn: ConsumerConn, reply: &Reply, fate: &mut Fate) {
        // Rejected: a second call has taken its place.
        let Some(body) = &reply.body else { return };
        let Some(consumer) = self.consumers.get_mut(&conn) else { return };
        assert_eq!(consumer.enable.take(), Some(reply.token), "EnableTracing answered out of turn");
        let error = protos::EnableTracingResponse::decode(body.clone())
            .expect("a response")
            .error
            .unwrap_or_default();
        if let Some((from, token, key)) = self.attempt
            && (from, token) == (conn, reply.token)
        {
            assert!(!error.is_empty(), "tracing ends before it begins");
            fate.saw("config refused");
            self.attempt = None;
            let refused = self.sessions.remove(&key);
            if error.contains("semaphore") {
                self.check_refused_semaphore(refused, fate);
            }
            return;
        }
        let key = consumer.session;
        // The file stays open for a clone that copies it.
        let may_be_copied = self.clones_under_way().next().is_some();
        let Some(session) = key.and_then(|key| self.sessions.get_mut(&key)) else { return };
        let is_known = session.plan.is_some() && session.state != State::Freed;
        assert!(
            !is_known || session.is_stopping || session.was_detached || !error.is_empty(),
            "the session {key:?} ended and nobody knows why"
        );
        assert!(
            !session.is_writing || !is_known || may_be_copied,
            "the end is told before the file is closed"
        );
        // To whoever attaches to a copy it has ended long since.
        if session.state == State::Freed || session.is_copy {
            return;
        }
        session.state = State::Ended;
        session.is_writing = false;
        session.watch = Watch::Nothing;
        if session.plan.as_ref().is_none_or(|plan| plan.file.is_none()) {
            session.promised = Some(ledger_of(&self.ledger, session.serial));
        }
    }

    /// A session may be refused for a semaphore only if there are more that hold it than all of them allow.
    fn check_refused_semaphore(&self, refused: Option<Session>, fate: &mut Fate) {
        fate.saw("session refused for a semaphore");
        // Garbage may name one, too.
        let Some(plan) = refused.and_then(|session| session.plan) else { return };
        let is_held = plan.semaphores.iter().any(|semaphore| {
            let others = self.holders(semaphore.name, |_| true);
            let allowed = others.iter().fold(semaphore.max_others, |least, max| least.min(*max));
            others.len() as u64 > allowed
        });
        assert!(is_held, "refused for a semaphore that is free: {plan:?}");
    }

    fn read_answered(&mut self, conn: ConsumerConn, reply: &Reply, fate: &mut Fate) {
        let Some(consumer) = self.consumers.get_mut(&conn) else { return };
        let body = reply.body.clone().expect("ReadBuffers is not rejected");
        let response = protos::ReadBuffersResponse::decode(body).expect("a response");
        let mut session = consumer.session.and_then(|key| self.sessions.get_mut(&key));
        if let Some(session) = session.as_ref().filter(|session| session.waits_for_trigger()) {
            assert!(response.slices.is_empty(), "the session {} is read without its trigger", session.serial);
        }
        for slice in response.slices {
            consumer.packet.extend_from_slice(slice.data());
            if slice.last_slice_for_packet() {
                let session = session.as_mut().expect("packets come from a session");
                session.is_read = true;
                session.checker.packet(&std::mem::take(&mut consumer.packet), &self.people);
                if session.state == State::Running {
                    fate.saw("read while recording");
                }
            }
        }
        if reply.has_more {
            return;
        }
        assert!(consumer.packet.is_empty(), "a packet without end");
        let read = consumer.reading.take_if(|reading| reading.token == reply.token);
        let is_elsewhere = |session: &Session| session.plan.as_ref().is_some_and(|plan| plan.file.is_some());
        if let Some(session) = session.filter(|session| !is_elsewhere(session))
            && read.is_some_and(|read| read.is_whole)
        {
            check_whole(session, fate);
        }
    }

    fn flush_answered(&mut self, conn: ConsumerConn, reply: &Reply, clocks: Clocks, fate: &mut Fate) {
        let waiting = self.take_waiting(conn, reply.token);
        if reply.body.is_some() {
            assert!(
                waiting.producers.is_empty(),
                "a flush is over and {:?} are not asked",
                waiting.producers
            );
            return fate.saw("flush acknowledged");
        }
        if waiting.request_id.is_none() {
            return fate.saw("flush refused");
        }
        let session = waiting.session.and_then(|key| self.sessions.get(&key));
        let is_gone = session.is_none_or(|session| session.state == State::Freed || session.owner.is_none());
        assert!(clocks.monotonic >= waiting.until || is_gone, "a flush failed before its time was over");
        if !is_gone {
            fate.saw("flush timed out");
        }
    }

    fn take_waiting(&mut self, conn: ConsumerConn, token: Token) -> Waiting {
        let found = self.waiting.iter().position(|waiting| waiting.conn == conn && waiting.token == token);
        self.waiting.remove(found.expect("only what was asked for is answered"))
    }

    fn take_clone_file(&mut self, conn: ConsumerConn, token: Token) -> Option<CloneFile> {
        let mut files = self.clone_files.iter();
        let (handle, _) = files.find(|(_, clone)| (clone.conn, clone.token) == (conn, token))?;
        let handle = *handle;
        self.clone_files.remove(&handle)
    }

    fn clone_answered(&mut self, conn: ConsumerConn, reply: &Reply, fate: &mut Fate) {
        let waiting = self.take_waiting(conn, reply.token);
        let file = self.take_clone_file(conn, reply.token);
        let body = reply.body.clone().expect("CloneSession is answered");
        let response = protos::CloneSessionResponse::decode(body).expect("a response");
        if !response.success() {
            fate.tell(format_args!("{}", response.error()));
            return note_refusal(response.error(), fate);
        }
        let Some(consumer) = self.consumers.get(&conn) else { return };
        let key = u32::try_from(response.uuid_lsb()).unwrap_or_default();
        let source = self.sessions.get_mut(&key).or_else(|| self.gone.get_mut(&key));
        let Some(source) = source else {
            // A copy of what was made from garbage.
            let key = self.next_extra();
            return self.add_copy(conn, key, None);
        };
        assert!(
            consumer.uid == 0 || consumer.uid == source.uid,
            "{} cloned {}'s session",
            consumer.uid,
            source.uid
        );
        fate.saw(waiting.clones_by);
        fate.tell(format_args!("consumer {} has a clone of the session {}", conn.0, source.serial));
        let mut copy = Session::copy_of(source, consumer.uid, conn);
        // Bugreports are not filtered (upstream: tracing_service_impl.cc, `CloneSession`), but for what was in a file before.
        if waiting.clones_by == "clone by bugreport" && copy.checker.is_filtered == Some(true) {
            copy.checker.is_filtered = if response.was_write_into_file() { None } else { Some(false) };
        }
        if response.was_write_into_file() {
            let file = file.expect("a clone goes into a file that was sent along");
            copy.promised = Some(ledger_of(&file.ledger, source.serial));
            check_clone_file(&mut copy, file, &self.people, fate);
        } else {
            let unused = file.is_none_or(|file| file.closed.is_some_and(|(bytes, _)| bytes.is_empty()));
            assert!(unused, "the file of a clone that does not need it is used, or left open");
            if waiting.ledger.is_some() {
                fate.saw("clone in steps");
            }
            let ledger = waiting.ledger.as_ref().unwrap_or(&self.ledger);
            copy.promised = Some(ledger_of(ledger, source.serial));
            let transfers = source.plan.as_ref().is_some_and(Plan::transfers);
            source.checker.emptied += u64::from(transfers);
            if transfers {
                fate.saw("clone with transferred buffers");
            } else if source.checker.emptied > 0 {
                fate.saw("clone with cleared buffers");
            }
        }
        let key = self.next_extra();
        self.add_copy(conn, key, Some(copy));
    }

    fn add_copy(&mut self, conn: ConsumerConn, key: u32, copy: Option<Session>) {
        let Some(consumer) = self.consumers.get_mut(&conn) else { return };
        assert_eq!(consumer.session, None, "a copy for a consumer that has a session");
        let mut copy = copy.unwrap_or_else(|| Session::new(None, 0, consumer.uid, conn));
        copy.is_copy = true;
        copy.checker.is_copy = true;
        copy.state = State::Ended;
        consumer.session = Some(key);
        self.sessions.insert(key, copy);
    }

    fn detach_answered(&mut self, conn: ConsumerConn, fate: &mut Fate) {
        fate.saw("detach");
        let Some(consumer) = self.consumers.get_mut(&conn) else { return };
        let key = consumer.session.take();
        consumer.reading = None;
        consumer.may_wait_for_ever |= consumer.enable.is_some();
        let (name, uid) = (consumer.key.clone(), consumer.uid);
        // A key is free again only when its session has freed itself.
        let before =
            self.sessions.iter().find(|(_, other)| other.uid == uid && other.key.as_ref() == Some(&name));
        if let Some((before, other)) = before.map(|(key, other)| (*key, other)) {
            assert!(other.may_be_gone(), "two sessions under one key");
            self.forget(before);
        }
        let session = self.session_mut(key).expect("what is detached is a session");
        fate.tell(format_args!("the session {key:?}, of {}, is left alone", session.serial));
        session.owner = None;
        session.was_detached = true;
        session.key = Some(name);
    }

    fn attach_answered(&mut self, conn: ConsumerConn, reply: &Reply, fate: &mut Fate) {
        let Some(body) = &reply.body else { return fate.saw("attach refused") };
        let Some(consumer) = self.consumers.get_mut(&conn) else { return };
        let config = protos::AttachResponse::decode(body.clone()).expect("a response").trace_config;
        let is_it = |session: &&mut Session| {
            session.owner.is_none()
                && session.uid == consumer.uid
                && session.key.as_ref() == Some(&consumer.key)
        };
        let (key, session) = self
            .sessions
            .iter_mut()
            .map(|(key, session)| (*key, session))
            .find(|(_, session)| is_it(session))
            .expect("a user attaches only to own sessions that are detached");
        assert_eq!(
            serial_of(&config.unwrap_or_default()).unwrap_or(0),
            session.serial,
            "another session is attached"
        );
        session.owner = Some(conn);
        session.key = None;
        consumer.session = Some(key);
        fate.tell(format_args!("consumer {} attaches to the session {key}, of {}", conn.0, session.serial));
        fate.saw("attach");
    }

    fn stats_answered(&mut self, conn: ConsumerConn, reply: &Reply, fate: &mut Fate) {
        let key = self.consumers.get(&conn).and_then(|consumer| consumer.session);
        let may_be_gone = key.and_then(|key| self.sessions.get(&key)).is_some_and(|it| self.may_be_gone(it));
        assert!(may_be_gone || key.is_some() == reply.body.is_some(), "stats come from a session");
        let Some(body) = reply.body.clone() else { return };
        let stats =
            protos::GetTraceStatsResponse::decode(body).expect("a response").trace_stats.unwrap_or_default();
        self.check_totals(&stats);
        fate.saw("stats queried");
    }
}

fn note_refusal(error: &str, fate: &mut Fate) {
    let reasons = [
        ("another user", "clone of another user refused"),
        ("needs a file descriptor", "clone without a file refused"),
        ("cannot be written", "clone into a file fails"),
    ];
    for (_, behaviour) in reasons.into_iter().filter(|(reason, _)| error.contains(reason)) {
        fate.saw(behaviour);
    }
}

/// A clone is in its file, from the beginning of its source's.
fn check_clone_file(copy: &mut Session, file: CloneFile, people: &People, fate: &mut Fate) {
    let (bytes, has_failed) = file.closed.expect("a clone is complete before anybody hears of it");
    assert!(!has_failed, "a clone whose file fails is none");
    assert!(copy.plan.as_ref().is_some_and(|plan| plan.file.is_some()), "a clone goes into a file unasked");
    copy.may_be_file_only = file.may_be_erased;
    copy.checker.file(&bytes, false, people);
    check_whole(copy, fate);
    fate.saw("clone into a file");
}
