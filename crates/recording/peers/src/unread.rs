//! Sockets of clients whose connection has ended, and who have not read all that they were sent.
//!
//! The kernel keeps that as long as such a client has its end open, and it is the daemon's: memory, a fraction of a megabyte for each, and
//! descriptors that are on their way, of which a user may have as many as a process may have open (unix(7), `ETOOMANYREFS`). So each keeps its
//! place until that is read, or the client is gone.

use std::collections::VecDeque;

use ferretto_ipc::socket::Stream;

use crate::elsewhere::{Elsewhere, close_stream, end_stream};
use crate::holdings::Holdings;

/// Whether the peer has not read all that it was sent, and is still there. Of Unix sockets only: no descriptors are on their way by others, and
/// what these hold the kernel gives up by itself.
pub fn has_unread(stream: &Stream) -> bool {
    stream.passes_fds() && ferretto_sys::unread_bytes(stream).is_ok_and(|bytes| bytes > 0)
}

/// Those sockets, and whose they are.
#[derive(Debug, Default)]
pub struct Unread {
    /// Those first that were not looked at for the longest time.
    sockets: VecDeque<(u32, Stream)>,
    elsewhere: Elsewhere,
}

impl Unread {
    /// None yet.
    pub fn new(elsewhere: Elsewhere) -> Self {
        Self { elsewhere, ..Self::default() }
    }

    /// Ends a connection and keeps its socket. Its user goes on having a place.
    ///
    /// `buffer` is for what it still holds, which is dropped.
    pub fn keep(&mut self, stream: Stream, user: u32, buffer: &mut [u8]) {
        // What is left after that is dropped when it is closed.
        end_stream(&stream, user, &self.elsewhere, buffer);
        self.sockets.push_back((user, stream));
    }

    /// Looks at so many of them. Where all is read it closes the socket and gives the place back.
    pub fn look(&mut self, count: usize, holdings: &mut Holdings, buffer: &mut [u8]) {
        for _ in 0..count.min(self.sockets.len()) {
            let Some((user, stream)) = self.sockets.pop_front() else { return };
            if has_unread(&stream) {
                self.sockets.push_back((user, stream));
            } else {
                close_stream(stream, user, &self.elsewhere, buffer);
                holdings.leave(user);
            }
        }
    }

    /// Closes all, read or not, at the end of a daemon.
    pub fn close_all(&mut self, buffer: &mut [u8]) {
        for (user, stream) in self.sockets.drain(..) {
            close_stream(stream, user, &self.elsewhere, buffer);
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: u32 = 1;
    const COUNT: usize = 16;

    /// As many as there are places, none of them read; and the clients' ends.
    fn unread() -> (Unread, Holdings, Vec<Stream>) {
        let (mut unread, mut clients) = (Unread::default(), Vec::new());
        let mut holdings = Holdings::new(COUNT, 1, Some(USER));
        for _ in 0..COUNT {
            let (near, far) = Stream::pair().unwrap();
            assert!(!has_unread(&near));
            near.send(b"something", None).unwrap();
            assert!(has_unread(&near));
            holdings.enter(USER).unwrap();
            unread.keep(near, USER, &mut [0; 16]);
            clients.push(far);
        }
        (unread, holdings, clients)
    }

    #[test]
    fn a_place_is_kept_until_all_is_read_or_the_client_is_gone() {
        let (mut unread, mut holdings, mut clients) = unread();
        let mut free = || {
            unread.look(COUNT, &mut holdings, &mut [0; 16]);
            let free = (0..COUNT).take_while(|_| holdings.enter(USER).is_ok()).count();
            (0..free).for_each(|_| holdings.leave(USER));
            free
        };
        let read = |client: &Stream, bytes| client.recv(&mut vec![0; bytes]).unwrap().len;
        assert_eq!(free(), 0);
        assert_eq!((read(&clients[0], 4), free()), (4, 0));
        assert_eq!((read(&clients[0], 16), free()), (5, 1));
        assert_eq!(read(&clients[0], 16), 0, "it sees the end");
        clients.truncate(12);
        assert_eq!(free(), 5);
    }

    #[test]
    fn those_that_were_not_looked_at_come_first() {
        let (mut unread, mut holdings, mut clients) = unread();
        let mut left = || {
            unread.look(10, &mut holdings, &mut [0; 16]);
            unread.sockets.len()
        };
        clients.truncate(12);
        assert_eq!([left(), left()], [16, 12]);
        clients.clear();
        assert_eq!([left(), left()], [2, 0]);
    }
}
