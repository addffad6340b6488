//! Where things come to their end that others have made: on threads that nobody waits for.
//!
//! To close a descriptor may block for as long as its maker likes: a socket that lingers, a file of a file system in a user's hands. So
//! those that clients pass are closed elsewhere, each user's one after another: whoever makes one that blocks waits for it himself. Sockets
//! are told not to linger first. What is large takes its time, too.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use ferretto_ipc::socket::Stream;
use rustix::net::sockopt::set_socket_linger;

/// Things of one user that may wait for their end; of a client that adds more it is the last that is heard.
pub const MAX_WAITING: usize = 1024;

/// At the end of a daemon what usually closes at once has so long for it.
const LAST_PATIENCE: Duration = Duration::from_millis(100);

/// Enough to close something.
const STACK_BYTES: usize = 64 * 1024;

/// Something that ends by being dropped.
type Thing = Box<dyn Send>;

/// A descriptor that a client has passed. As a socket it does not linger when it is dropped.
#[derive(Debug)]
pub struct Passed(pub OwnedFd);

impl Drop for Passed {
    fn drop(&mut self) {
        // Whoever passed it might have asked for hours. Of a descriptor that is no socket this is an error that says nothing.
        let _ = set_socket_linger(&self.0, None);
    }
}

/// Who has brought something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whose {
    /// A user who has connected.
    User(u32),
    /// Memory, which never blocks.
    Service,
}

impl Whose {
    fn user(&self) -> Option<u32> {
        match self {
            Self::User(user) => Some(*user),
            Self::Service => None,
        }
    }
}

/// What waits for its end, by those who brought it. There is a thread for each that is in here.
type Waiting = BTreeMap<Whose, VecDeque<Thing>>;

/// The way there; a copy leads to the same place.
#[derive(Clone, Default)]
pub struct Elsewhere(Arc<Mutex<Waiting>>);

impl Elsewhere {
    /// Drops a thing on a thread. Says how many of the same owner wait.
    pub fn end(&self, whose: Whose, thing: impl Send + 'static) -> usize {
        let mut waiting = self.lock();
        if let Some(queue) = waiting.get_mut(&whose) {
            queue.push_back(Box::new(thing));
            return queue.len();
        }
        waiting.insert(whose, VecDeque::from([Box::new(thing) as Thing]));
        drop(waiting);
        let there = self.clone();
        let name = "ferretto-closes".to_owned();
        let thread = thread::Builder::new().name(name).stack_size(STACK_BYTES);
        if let Err(error) = thread.spawn(move || there.end_all_of(whose)) {
            // Whoever made the service run out of threads would make it wait here: rather leave it open for good.
            tracing::error!(
                "cannot start a thread to close what a client has passed, which stays open: {error}"
            );
            std::mem::forget(self.lock().remove(&whose));
        }
        1
    }

    /// Closes descriptors that a user has passed. Says how many of his wait for that: above [`MAX_WAITING`] he is heard no more.
    pub fn close_passed(&self, user: u32, fds: impl IntoIterator<Item = OwnedFd>) -> usize {
        fds.into_iter().map(|fd| self.end(Whose::User(user), Passed(fd))).max().unwrap_or(0)
    }

    /// At the end of a daemon: what still does not close may keep the process from ending, against SIGKILL too, and the log says whose it is.
    /// Waits a moment for the rest.
    pub fn warn_of_what_stays(&self) {
        let users = self.users_after(LAST_PATIENCE);
        if !users.is_empty() {
            tracing::warn!(
                "descriptors that the users {users:?} have passed do not close, and this process may not end before they do: a file system \
                 in a user's hands is ended by root, who writes to /sys/fs/fuse/connections/*/abort"
            );
        }
    }

    /// Users whose things still wait for their end, after so long at most.
    fn users_after(&self, patience: Duration) -> Vec<u32> {
        let until = Instant::now() + patience;
        loop {
            let users: Vec<u32> = self.lock().keys().filter_map(Whose::user).collect();
            if users.is_empty() || Instant::now() >= until {
                return users;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn end_all_of(&self, whose: Whose) {
        while let Some(thing) = self.next_of(whose) {
            drop(thing);
        }
    }

    fn next_of(&self, whose: Whose) -> Option<Thing> {
        let mut waiting = self.lock();
        let next = waiting.get_mut(&whose)?.pop_front();
        if next.is_none() {
            waiting.remove(&whose);
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // No code under the lock leaves the queues half changed.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let waiting: Vec<(Whose, usize)> =
            self.lock().iter().map(|(whose, queue)| (*whose, queue.len())).collect();
        f.debug_tuple("Elsewhere").field(&waiting).finish()
    }
}

/// Closes a socket. The kernel would close the descriptors that are on their way to it, and its user's would be waited for.
///
/// `buffer` is for what it still holds, which is dropped.
pub fn close_stream(stream: Stream, user: u32, elsewhere: &Elsewhere, buffer: &mut [u8]) {
    if stream.passes_fds() && !end_stream(&stream, user, elsewhere, buffer) {
        elsewhere.end(Whose::User(user), stream);
    }
}

/// Ends a connection, and drops what its socket still holds. Says whether that was all: else somebody found a way to send on; or has so much
/// waiting that what the socket still holds must not become descriptors of this process.
pub(crate) fn end_stream(stream: &Stream, user: u32, elsewhere: &Elsewhere, buffer: &mut [u8]) -> bool {
    /// More than a socket holds, by the kernel's limits for what is on its way.
    const MAX_RECEIVES: usize = 4096;
    stream.shutdown();
    for _ in 0..MAX_RECEIVES {
        let received = match stream.recv(buffer) {
            Ok(received) if received.len > 0 => received,
            _ => return true,
        };
        if elsewhere.close_passed(user, received.fd.into_iter().chain(received.others)) > MAX_WAITING {
            break;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    /// Ends when it is allowed to, and says so.
    struct Slow(Receiver<()>, Sender<()>);

    impl Drop for Slow {
        fn drop(&mut self) {
            let _ = self.0.recv();
            let _ = self.1.send(());
        }
    }

    fn slow() -> (Slow, Sender<()>, Receiver<()>) {
        let ((may_end, allowed), (ended, has_ended)) = (channel(), channel());
        (Slow(allowed, ended), may_end, has_ended)
    }

    /// The near end of a connection whose far end reads nothing, which lingers for an hour.
    fn lingering() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        set_socket_linger(&near, Some(Duration::from_secs(3600))).unwrap();
        near.set_nonblocking(true).unwrap();
        while (&near).write(&[0; 64 * 1024]).is_ok() {}
        near.set_nonblocking(false).unwrap();
        (near.into(), far)
    }

    #[test]
    fn a_socket_that_a_client_passed_does_not_linger() {
        let elsewhere = Elsewhere::default();
        let (near, far) = lingering();
        let (next, next_may_end, next_has_ended) = slow();
        next_may_end.send(()).unwrap();
        elsewhere.end(Whose::User(1), Passed(near));
        elsewhere.end(Whose::User(1), next);
        next_has_ended.recv_timeout(TIMEOUT).unwrap();
        drop(far);
    }

    #[test]
    fn one_users_things_wait_for_each_other_and_nobody_elses() {
        let elsewhere = Elsewhere::default();
        let (first, first_may_end, first_has_ended) = slow();
        let (second, second_may_end, second_has_ended) = slow();
        let (others, others_may_end, others_have_ended) = slow();
        elsewhere.end(Whose::User(1), first);
        elsewhere.end(Whose::User(1), second);
        elsewhere.end(Whose::User(2), others);
        others_may_end.send(()).unwrap();
        others_have_ended.recv_timeout(TIMEOUT).unwrap();
        assert!(elsewhere.users_after(Duration::ZERO).contains(&1));
        second_may_end.send(()).unwrap();
        assert!(second_has_ended.try_recv().is_err());
        first_may_end.send(()).unwrap();
        first_has_ended.recv_timeout(TIMEOUT).unwrap();
        second_has_ended.recv_timeout(TIMEOUT).unwrap();
        // And the thread has gone or goes.
        assert!(elsewhere.users_after(TIMEOUT).is_empty());
    }
}
