//! Where the service is. Its name is looked up on a thread, for that may take seconds, in which the loop serves those who are connected.
//!
//! What was found is kept until nobody can be reached there; and used until something else is found. Numbers need no look-up.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use ferretto_ipc::address::Address;
use ferretto_ipc::remote::Resolved;
use rustix::event::{EventfdFlags, eventfd};

/// Shortest time from one look-up to the next: a service that is not there is tried for each producer that comes.
const PAUSE: Duration = Duration::from_secs(1);

type Resolve = dyn Fn(&Address) -> io::Result<Resolved> + Send + Sync;

/// Looks an address up, and may take its time.
#[derive(Clone)]
pub(crate) struct Resolver(pub(crate) Arc<Resolve>);

/// The address of the service, and what is known of it.
#[derive(Debug)]
pub(crate) struct Lookup {
    address: Address,
    has_name: bool,
    resolver: Resolver,
    known: Option<Resolved>,
    /// There was an answer, or there will be none.
    is_answered: bool,
    is_under_way: bool,
    may_begin_at: Option<Instant>,
    answer: Sender<io::Result<Resolved>>,
    answers: Receiver<io::Result<Resolved>>,
    /// Rings when there is an answer.
    bell: Arc<OwnedFd>,
}

impl Lookup {
    pub(crate) fn new(address: Address, resolver: Resolver) -> io::Result<Self> {
        let (answer, answers) = channel();
        let known = Resolved::of_numbers(&address);
        Ok(Self {
            address,
            resolver,
            has_name: known.is_none(),
            is_answered: known.is_some(),
            known,
            is_under_way: false,
            may_begin_at: None,
            answer,
            answers,
            bell: Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?),
        })
    }

    /// Where the service is, as far as it is known.
    pub(crate) fn current(&self) -> io::Result<&Resolved> {
        let unknown =
            || io::Error::new(io::ErrorKind::NotFound, format!("nobody knows yet where {} is", self.address));
        self.known.as_ref().ok_or_else(unknown)
    }

    /// Whether it is known, or cannot be known so soon.
    pub(crate) fn is_answered(&self) -> bool {
        self.is_answered
    }

    /// Nobody can be reached there, or it is not known: looks it up, unless that is done or was lately.
    pub(crate) fn look_up(&mut self, now: Instant) {
        let is_early = self.may_begin_at.is_some_and(|at| now < at);
        if self.is_under_way || is_early || !self.has_name {
            return;
        }
        self.may_begin_at = Some(now + PAUSE);
        let (address, resolver) = (self.address.clone(), self.resolver.clone());
        let (answer, bell) = (self.answer.clone(), Arc::clone(&self.bell));
        let begun = thread::Builder::new().name("ferretto-looks-up".to_owned()).spawn(move || {
            // Whoever asked may have gone.
            let _ = answer.send((resolver.0)(&address));
            let _ = rustix::io::write(&bell, &1_u64.to_ne_bytes());
        });
        match begun {
            Ok(_) => self.is_under_way = true,
            Err(error) => {
                self.is_answered = true;
                tracing::error!("cannot start a thread to look up {}: {error}", self.address);
            }
        }
    }

    /// The bell has rung.
    pub(crate) fn take_answer(&mut self) {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        while let Ok(answer) = self.answers.try_recv() {
            (self.is_under_way, self.is_answered) = (false, true);
            match answer {
                Ok(found) => self.known = Some(found),
                Err(error) => tracing::warn!("cannot look up {}: {error}", self.address),
            }
        }
    }
}

impl AsFd for Lookup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Default for Resolver {
    fn default() -> Self {
        Self(Arc::new(Resolved::look_up))
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}
