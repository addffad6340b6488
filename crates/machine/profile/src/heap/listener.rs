//! Where programs ask for rings.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ferretto_shm::heap::{DAEMON_NAME, Reply, RingReader};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, accept_with, bind, listen, sendmsg, socket_with, sockopt,
};
use rustix::process::{Pid, PidfdFlags, Uid, geteuid, pidfd_open};

/// Programs that wait to be answered, each for less than a millisecond.
const BACKLOG: i32 = 128;

/// A socket with a name that only those know who are told it.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    address: String,
}

/// Who was there to be answered.
#[derive(Debug)]
pub(crate) enum Accepted {
    Nobody,
    Asking(Asking),
    /// He gets no ring.
    Refused,
    /// He waits.
    NoDescriptors,
}

/// A program that asks.
#[derive(Debug)]
pub(crate) struct Asking {
    pub(crate) connection: AskingConnection,
    pub(crate) pid: u32,
    pub(crate) user: u32,
    /// Readable when the process has ended.
    pub(crate) pidfd: OwnedFd,
}

impl Listener {
    /// Listens at an abstract name, which nobody else must be able to guess.
    ///
    /// # Errors
    ///
    /// If the name is taken, or too long for the system.
    pub fn bind(name: &str) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        listen(&socket, BACKLOG)?;
        Ok(Self { socket, address: format!("@{name}") })
    }

    /// Listens as this user's daemon, whom programs look for that no profiler has started.
    ///
    /// # Errors
    ///
    /// If the name is taken.
    pub fn bind_daemon() -> io::Result<Self> {
        Self::bind(&format!("{DAEMON_NAME}{}", geteuid().as_raw()))
    }

    /// What a program's environment says of it (`ferretto_shm::heap::SOCKET_ENV`).
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The next one who waits, if anybody does; an error if he may not have a ring. Programs of other users may if this one is root's, whose profiler sees
    /// all that they do anyway.
    pub(crate) fn accept(&self) -> Accepted {
        use rustix::io::Errno;
        let connection = match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(connection) => connection,
            Err(Errno::CONNABORTED | Errno::INTR) => return Accepted::Refused,
            Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                return Accepted::NoDescriptors;
            }
            Err(_) => return Accepted::Nobody,
        };
        let Ok(peer) = sockopt::socket_peercred(&connection) else { return Accepted::Refused };
        if !may_have(geteuid(), peer.uid) {
            return Accepted::Refused;
        }
        // It waits for an answer, so its number is not another's yet.
        let Ok(pidfd) = pidfd_open(peer.pid, PidfdFlags::empty()) else { return Accepted::Refused };
        let (pid, user) = (number(peer.pid), peer.uid.as_raw());
        Accepted::Asking(Asking { connection: AskingConnection(connection), pid, user, pidfd })
    }
}

fn may_have(own: Uid, whose: Uid) -> bool {
    own.is_root() || whose == own
}

fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().cast_unsigned()
}

/// Where he is answered.
#[derive(Debug)]
pub(crate) struct AskingConnection(OwnedFd);

impl AskingConnection {
    /// Hands the ring over, and a page beside it if there is one. He has gone, if that fails.
    pub(crate) fn answer(self, reply: Reply, ring: &RingReader, page: Option<BorrowedFd<'_>>) -> Option<()> {
        let fds: Vec<BorrowedFd<'_>> = [ring.as_fd()?].into_iter().chain(page).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&fds));
        let flags = SendFlags::NOSIGNAL;
        sendmsg(&self.0, &[IoSlice::new(&reply.pack())], &mut control, flags).ok()?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_for_ones_own_programs_and_for_all_if_one_is_root() {
        let [one, other] = [1000, 1001].map(Uid::from_raw);
        assert!(may_have(one, one) && may_have(Uid::ROOT, one) && may_have(Uid::ROOT, Uid::ROOT));
        assert!(!may_have(one, other) && !may_have(one, Uid::ROOT));
    }
}
