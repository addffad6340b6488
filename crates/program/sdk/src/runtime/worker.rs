//! The loop of the background thread.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ferretto_producer::log;
use ferretto_producer::{InstanceId, ProducerClient, ProducerEvent};
use rustix::event::{PollFd, Timespec, poll};

use super::ack::{Ack, Answer};
use super::backend::{Backend, Drain, NewBackend};
use super::inbox::{Command, Inbox, Reply};
use super::left_out::LeftOut;
use super::source::{Setup, Source, sources};
use super::stage::Stage;
use crate::backends::Backends;
use crate::clock::Calibrator;
use crate::track_event::source::end_startups;
use crate::track_event::{event, session};

/// How long the end of the runtime waits for data sources that answer later, and for services to take what they left.
const SHUT_DOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the end of the program waits for a service that reads too slowly to take what was traced last.
pub(super) const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves until it is told to end.
pub(super) fn run(backends: Vec<NewBackend>, inbox: Arc<Inbox>) {
    let mut worker = Worker {
        backends: Vec::new(),
        inbox,
        sources: Vec::new(),
        instances: Vec::new(),
        last_number: 0,
        calibrator: Calibrator::new(),
        calibration: None,
    };
    for backend in backends {
        worker.backends.push(backend.make());
    }
    event::with_thread_cell(|thread| worker.run(&mut Stage::new(thread)));
}

struct Worker {
    backends: Vec<Backend>,
    inbox: Arc<Inbox>,
    /// Those that services know, and their names.
    sources: Vec<(String, &'static dyn Source)>,
    /// With keys of our own, which are never used again. There are a few.
    instances: Vec<Instance>,
    last_number: u64,
    calibrator: Calibrator,
    /// When the clock is to be compared with the kernel's, while a session records.
    calibration: Option<Instant>,
}

/// What a session wants of a data source.
struct Instance {
    key: u64,
    backend: Backends,
    /// The service's id; `None` when the service is gone.
    id: Option<InstanceId>,
    /// `None` if it gets nothing: then all that is asked of it is answered at once.
    place: Option<Place>,
    /// Tells the session so.
    left_out: Option<LeftOut>,
    is_stopping: bool,
}

#[derive(Clone, Copy)]
struct Place {
    source: &'static dyn Source,
    slot: usize,
}

impl Worker {
    fn run(mut self, stage: &mut Stage<'_>) {
        loop {
            self.register_sources();
            if self.wait(stage).is_err() || self.turn(stage).is_break() {
                break;
            }
        }
        self.shut_down(stage);
        stage.set_open(Vec::new());
    }

    fn turn(&mut self, stage: &mut Stage<'_>) -> ControlFlow<()> {
        for backend in &mut self.backends {
            backend.client.process();
        }
        self.calibrate_if_due();
        for index in 0..self.backends.len() {
            while let Some(event) =
                self.backends.get_mut(index).and_then(|backend| backend.client.next_event())
            {
                self.handle(index, event, stage);
            }
            let is_there =
                |backend: &Backend| backend.client.is_connecting() || backend.client.is_connected();
            if !self.backends.get(index).is_some_and(is_there) {
                self.end_greetings(index, false, stage);
            }
        }
        while let Some(command) = self.inbox.pop() {
            self.execute(command, stage)?;
        }
        ControlFlow::Continue(())
    }

    /// Offers what is new to all services.
    fn register_sources(&mut self) {
        // Not locked meanwhile: data sources may come while one describes itself.
        for index in 0.. {
            let Some(source) = sources().get(index) else {
                return;
            };
            let has_news = source.take_news();
            if !has_news && index < self.sources.len() {
                continue;
            }
            let descriptor = source.descriptor();
            for backend in &mut self.backends {
                register(backend, descriptor.clone());
            }
            if index >= self.sources.len() {
                self.sources.push((source.name(), source));
            }
        }
    }

    /// Until something happens. An error is one of poll(), which would come again and again.
    fn wait(&mut self, stage: &mut Stage<'_>) -> rustix::io::Result<()> {
        let backends = &self.backends;
        let mut open = Vec::new();
        for backend in backends {
            open.extend_from_slice(&backend.client.open_fds());
        }
        stage.set_open(open);
        let deadlines = backends.iter().filter_map(|backend| backend.client.next_timeout());
        let deadline = deadlines.chain(self.calibration).min();
        let timeout = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut fds = Vec::new();
        for (fd, flags) in backends.iter().flat_map(|backend| backend.client.poll_fds()) {
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        }
        match stage.wait(|| poll(&mut fds, timeout.as_ref())) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => {
                log::error(format_args!(
                    "cannot wait for the tracing service: this program is not traced any more: {error}"
                ));
                Err(error)
            }
        }
    }

    fn handle(&mut self, backend: usize, event: ProducerEvent, stage: &mut Stage<'_>) {
        match event {
            ProducerEvent::Setup { instance, config } => {
                let Some(arbiter) = self.backends.get(backend).and_then(|backend| backend.client.arbiter())
                else {
                    return;
                };
                let setup = Setup { arbiter, config, backend: self.kind(backend) };
                self.set_up(backend, instance, setup, stage);
            }
            ProducerEvent::Start { instance, .. } => {
                if let Some(key) = self.key(backend, instance) {
                    self.start(key, stage);
                }
                self.end_greetings(backend, true, stage);
            }
            ProducerEvent::Stop { instance } => {
                if let Some(key) = self.key(backend, instance) {
                    self.stop(key, stage);
                }
            }
            ProducerEvent::Flush { request_id, instances, flags } => {
                self.flush(backend, request_id, &instances, flags, stage);
            }
            ProducerEvent::ClearIncrementalState { instances } => {
                for Place { source, slot } in self.places(backend, &instances) {
                    source.clear_incremental_state(slot, stage);
                }
            }
            ProducerEvent::Synced => {
                let syncs = self.backends.get_mut(backend).map(|backend| &mut backend.syncs);
                let drain = syncs.filter(|syncs| !syncs.is_empty()).map(|syncs| syncs.remove(0));
                finish(drain, true, stage);
            }
            ProducerEvent::Disconnected { .. } => self.disconnected(backend, stage),
            ProducerEvent::StartupEnded { .. } => end_startups(),
            ProducerEvent::Connected => self.greet(backend),
        }
    }

    fn set_up(&mut self, backend: usize, id: InstanceId, setup: Setup, stage: &mut Stage<'_>) {
        let source =
            self.sources.iter().find(|(name, _)| name == setup.config.name()).map(|(_, source)| *source);
        let Some(source) = source else {
            return;
        };
        let is_intercepted = setup.config.wants_interceptor();
        let slot = match is_intercepted {
            true => Err("it is to go to an interceptor, and this library has none".to_owned()),
            false => source.setup(&setup, stage),
        };
        let key = self.next_number();
        let Some(backend) = self.backends.get_mut(backend) else {
            return;
        };
        backend.instances.push((id, key));
        let left_out = slot.as_ref().err().and_then(|reason| {
            log::warn(format_args!("a session gets nothing of {}: {reason}", setup.config.name()));
            // Of an interceptor its config tells the session enough.
            (!is_intercepted).then(|| LeftOut::new(&setup, backend.client.name(), reason))
        });
        let place = slot.ok().map(|slot| Place { source, slot });
        let backend = setup.backend;
        self.instances.push(Instance { key, backend, id: Some(id), place, left_out, is_stopping: false });
    }

    fn start(&mut self, key: u64, stage: &mut Stage<'_>) {
        match self.instance(key).and_then(|instance| instance.place) {
            None => {
                self.left_out(key, LeftOut::say);
                self.answer(Answer::Started(key), stage);
            }
            Some(place) => {
                if self.calibration.is_none() {
                    self.calibration = self.calibrator.start().map(|after| Instant::now() + after);
                }
                place.source.start(place.slot, self.ack(Answer::Started(key), place), stage);
            }
        }
    }

    #[inline(never)]
    fn stop(&mut self, key: u64, stage: &mut Stage<'_>) {
        let Some(instance) = self.instances.iter_mut().find(|instance| instance.key == key) else {
            return;
        };
        if std::mem::replace(&mut instance.is_stopping, true) {
            return;
        }
        match instance.place {
            None => {
                self.left_out(key, LeftOut::say_last);
                self.answer(Answer::Stopped(key), stage);
            }
            Some(place) => {
                place.source.stop(place.slot, self.ack(Answer::Stopped(key), place), stage);
            }
        }
    }

    fn flush(
        &mut self,
        backend: usize,
        request_id: u64,
        ids: &[InstanceId],
        flags: u64,
        stage: &mut Stage<'_>,
    ) {
        let number = self.next_number();
        let places = self.places(backend, ids);
        for id in ids {
            if let Some(key) = self.key(backend, *id) {
                self.left_out(key, LeftOut::say);
            }
        }
        if let Some(backend) = self.backends.get_mut(backend) {
            // One more is answered here, so that it is answered if there are none.
            backend.begin_flush(number, request_id, places.len() + 1);
        }
        for place in places {
            place.source.flush(place.slot, flags, self.ack(Answer::Flushed(number), place), stage);
        }
        self.answer(Answer::Flushed(number), stage);
    }

    /// Instances of a lost service have been told to stop already.
    #[inline(never)]
    fn disconnected(&mut self, backend: usize, stage: &mut Stage<'_>) {
        let kind = self.kind(backend);
        for instance in self.instances.iter_mut().filter(|instance| instance.backend == kind) {
            instance.id = None;
        }
        let drains = self.backends.get_mut(backend).map(Backend::disconnected).unwrap_or_default();
        for drain in drains {
            finish(Some(drain), false, stage);
        }
    }

    #[inline(never)]
    fn answer(&mut self, answer: Answer, stage: &mut Stage<'_>) {
        match answer {
            Answer::Started(key) => {
                if let Some((client, id)) = self.client_of(key) {
                    client.notify_started(id);
                }
            }
            Answer::Stopped(key) => self.stopped(key, stage),
            Answer::Flushed(number) => {
                for backend in &mut self.backends {
                    backend.flushed(number);
                }
            }
        }
    }

    #[inline(never)]
    fn stopped(&mut self, key: u64, stage: &mut Stage<'_>) {
        if let Some(Place { source, slot }) = self.instance(key).and_then(|instance| instance.place) {
            source.stopped(slot, stage);
        }
        if let Some((client, id)) = self.client_of(key) {
            client.notify_stopped(id);
        }
        for backend in &mut self.backends {
            backend.instances.retain(|(_, other)| *other != key);
        }
        self.instances.retain(|instance| instance.key != key);
        if self.instances.iter().all(|instance| instance.place.is_none()) {
            self.calibration = None;
        }
    }

    fn execute(&mut self, command: Command, stage: &mut Stage<'_>) -> ControlFlow<()> {
        match command {
            Command::Drain(reply) => self.drain(reply, false, stage),
            Command::Settle(reply) => self.drain(reply, true, stage),
            Command::HandOver(reply) => {
                let deadline = Instant::now() + HAND_OVER_TIMEOUT;
                for backend in &mut self.backends {
                    backend.client.hand_over(deadline);
                }
                stage.call(|| reply(true));
            }
            Command::ActivateTriggers(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                for backend in &mut self.backends {
                    backend.client.activate_triggers(&names);
                }
            }
            Command::AddBackend(backend) => {
                let mut backend = backend.make();
                for (_, source) in &self.sources {
                    register(&mut backend, source.descriptor());
                }
                // Connects, which somebody may wait for.
                backend.client.process();
                self.backends.push(backend);
            }
            Command::Answer(answer) => self.answer(answer, stage),
            Command::News => {}
            Command::ShutDown => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    /// Says when all services have served what came before; if it `greets`, those that are about to know this program, too.
    fn drain(&mut self, reply: Reply, greets: bool, stage: &mut Stage<'_>) {
        let drain = Rc::new(Drain { has_failed: Cell::new(false), reply });
        let mut is_asked = false;
        // What was registered until now counts.
        self.register_sources();
        for backend in &mut self.backends {
            if greets && backend.client.is_connecting() {
                is_asked = true;
                backend.greetings.push(Rc::clone(&drain));
            } else if backend.client.sync() {
                is_asked = true;
                backend.syncs.push(Rc::clone(&drain));
            }
        }
        finish(Some(drain), is_asked, stage);
    }

    /// The service knows this program: what it wants of it comes before the answer to this. Older ones, which do not answer, are taken at
    /// their first word.
    #[inline(never)]
    fn greet(&mut self, backend: usize) {
        if let Some(backend) = self.backends.get_mut(backend) {
            while !backend.greetings.is_empty() && backend.client.sync() {
                let greeting = backend.greetings.remove(0);
                backend.syncs.push(greeting);
            }
        }
    }

    /// Nobody waits for a service that is not there.
    #[inline(never)]
    fn end_greetings(&mut self, backend: usize, is_done: bool, stage: &mut Stage<'_>) {
        let greetings = self.backends.get_mut(backend).map(|backend| std::mem::take(&mut backend.greetings));
        for greeting in greetings.into_iter().flatten() {
            finish(Some(greeting), is_done, stage);
        }
    }

    /// Stops everything, and lets services take what there is.
    fn shut_down(&mut self, stage: &mut Stage<'_>) {
        let keys: Vec<u64> = self.instances.iter().map(|instance| instance.key).collect();
        for key in keys {
            self.stop(key, stage);
        }
        let deadline = Instant::now() + SHUT_DOWN_TIMEOUT;
        while !self.instances.is_empty() && Instant::now() < deadline {
            match self.inbox.pop() {
                Some(Command::Answer(answer)) => self.answer(answer, stage),
                Some(Command::Drain(reply) | Command::Settle(reply) | Command::HandOver(reply)) => {
                    stage.call(|| reply(false));
                }
                Some(_) => {}
                // Answers of other threads.
                None => stage.wait(|| std::thread::sleep(Duration::from_millis(1))),
            }
        }
        let late: Vec<u64> = self.instances.iter().map(|instance| instance.key).collect();
        late.into_iter().for_each(|key| self.stopped(key, stage));
        for backend in &mut self.backends {
            backend.client.drain(deadline.saturating_duration_since(Instant::now()));
        }
        for index in 0..self.backends.len() {
            self.disconnected(index, stage);
            self.end_greetings(index, false, stage);
        }
        while let Some(command) = self.inbox.pop() {
            if let Command::Drain(reply) | Command::Settle(reply) | Command::HandOver(reply) = command {
                stage.call(|| reply(false));
            }
        }
        self.backends.clear();
        end_startups();
    }

    fn calibrate_if_due(&mut self) {
        if self.calibration.is_some_and(|at| at <= Instant::now()) {
            let next = self.calibrator.calibrate();
            self.calibration = next.map(|after| Instant::now() + after);
            session::announce_clock();
        }
    }

    fn ack(&self, answer: Answer, place: Place) -> Ack {
        Ack::new(answer, place.source, place.slot, &self.inbox)
    }

    fn kind(&self, backend: usize) -> Backends {
        self.backends.get(backend).map_or(Backends::NONE, |backend| backend.kind)
    }

    fn instance(&self, key: u64) -> Option<&Instance> {
        self.instances.iter().find(|instance| instance.key == key)
    }

    /// Has the session told what it does not get, if this is such an instance.
    #[inline(never)]
    fn left_out(&mut self, key: u64, say: fn(&mut LeftOut)) {
        let instance = self.instances.iter_mut().find(|instance| instance.key == key);
        if let Some(left_out) = instance.and_then(|instance| instance.left_out.as_mut()) {
            say(left_out);
        }
    }

    fn key(&self, backend: usize, id: InstanceId) -> Option<u64> {
        let instances = &self.backends.get(backend)?.instances;
        instances.iter().find(|(other, _)| *other == id).map(|(_, key)| *key)
    }

    #[inline(never)]
    fn places(&self, backend: usize, ids: &[InstanceId]) -> Vec<Place> {
        let mut places = Vec::new();
        for id in ids {
            let instance = self.key(backend, *id).and_then(|key| self.instance(key));
            if let Some(place) = instance.and_then(|instance| instance.place) {
                places.push(place);
            }
        }
        places
    }

    /// The service that waits to hear of this instance.
    #[inline(never)]
    fn client_of(&mut self, key: u64) -> Option<(&mut ProducerClient, InstanceId)> {
        let instance = self.instances.iter().find(|instance| instance.key == key)?;
        let backend = self.backends.iter_mut().find(|backend| backend.kind == instance.backend)?;
        Some((&mut backend.client, instance.id?))
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

#[inline(never)]
fn register(backend: &mut Backend, descriptor: Bytes) {
    // Made by this program, so that it can be read.
    let _ = backend.client.register_encoded_data_source(descriptor);
}

#[inline(never)]
fn finish(drain: Option<Rc<Drain>>, is_done: bool, stage: &mut Stage<'_>) {
    if let Some((reply, is_done)) = drain.and_then(|drain| drain.finish(is_done)) {
        stage.call(|| reply(is_done));
    }
}
