//! Where programs ask for rings.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ferretto_shm::heap::{Reply, RingReader};
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

/// A program that asks.
#[derive(Debug)]
pub(crate) struct Asking {
    connection: OwnedFd,
    pub(crate) pid: u32,
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
    pub(crate) fn accept(&self) -> Option<Result<Asking, Refused>> {
        let connection = match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(connection) => connection,
            Err(rustix::io::Errno::CONNABORTED | rustix::io::Errno::INTR) => return Some(Err(Refused)),
            Err(_) => return None,
        };
        let Ok(peer) = sockopt::socket_peercred(&connection) else { return Some(Err(Refused)) };
        if !may_have(geteuid(), peer.uid) {
            return Some(Err(Refused));
        }
        // It waits for an answer, so its number is not another's yet.
        let Ok(pidfd) = pidfd_open(peer.pid, PidfdFlags::empty()) else { return Some(Err(Refused)) };
        Some(Ok(Asking { connection, pid: number(peer.pid), pidfd }))
    }
}

fn may_have(own: Uid, whose: Uid) -> bool {
    own.is_root() || whose == own
}

/// He gets no ring.
#[derive(Debug)]
pub(crate) struct Refused;

fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().cast_unsigned()
}

impl Asking {
    /// Hands the ring over. He has gone, if that fails.
    pub(crate) fn answer(self, reply: Reply, ring: &RingReader) -> Option<OwnedFd> {
        let fd = ring.as_fd()?;
        let fds = [fd];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&fds));
        let flags = SendFlags::NOSIGNAL;
        sendmsg(&self.connection, &[IoSlice::new(&reply.pack())], &mut control, flags).ok()?;
        Some(self.pidfd)
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
