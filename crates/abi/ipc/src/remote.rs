//! Sockets that reach other machines: TCP and vsock. No descriptors pass through them, and the kernel does not know who is at the
//! other end.
//!
//! Upstream: `unix_socket.cc` (options).

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use ferretto_sys::VsockAddr;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{
    AddressFamily, SocketAddr, SocketAddrAny, SocketType, bind, getpeername, getsockname, socket_with,
    sockopt,
};

use crate::address::Address;
use crate::socket::{BACKLOG, Stream, nonblocking_cloexec};

/// Connecting to another machine must not hang a caller for the minutes that TCP would.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A machine that lost its power says nothing: after this silence it is asked whether it lives, three times at this interval.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// As above.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// As above.
const KEEPALIVE_RETRIES: u32 = 3;

/// A connection that is being made, without waiting for it.
///
/// Wait until [`as_fd`](AsFd::as_fd) is writable, then call [`finish`](Self::finish).
#[derive(Debug)]
pub struct Connecting {
    stream: Stream,
    /// Other addresses of the same name.
    rest: VecDeque<SocketAddrAny>,
}

/// Where an address leads: what its name stands for.
#[derive(Debug, Clone)]
pub struct Resolved(VecDeque<SocketAddrAny>);

impl Resolved {
    /// Looks a name up, which may take seconds.
    pub fn look_up(address: &Address) -> io::Result<Self> {
        Ok(Self(resolve(address)?.into()))
    }

    /// Of an address without a name, which needs no look-up.
    pub fn of_numbers(address: &Address) -> Option<Self> {
        match address {
            Address::Tcp { host, .. } if host.parse::<IpAddr>().is_err() => None,
            Address::Tcp { .. } | Address::Vsock { .. } => Self::look_up(address).ok(),
            Address::Path(_) | Address::Abstract(_) => None,
        }
    }
}

/// What became of a [`Connecting`].
#[derive(Debug)]
pub enum Connected {
    /// It is there.
    Yes(Stream),
    /// Not yet. The descriptor to wait for may be another one now: the next address is tried.
    NotYet(Connecting),
}

impl Connecting {
    /// Begins to connect. A Unix socket succeeds or fails at once. A name is looked up first, which may take time.
    pub fn start(address: &Address) -> io::Result<Self> {
        if address.passes_fds() {
            return Ok(Self { stream: Stream::connect(address)?, rest: VecDeque::new() });
        }
        Self::try_next(resolve(address)?.into(), no_address(address))
    }

    /// Begins to connect to where an address leads.
    pub fn to(resolved: &Resolved) -> io::Result<Self> {
        Self::try_next(resolved.0.clone(), io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
    }

    /// Says how it went.
    pub fn finish(self) -> io::Result<Connected> {
        let error = match sockopt::socket_error(&self.stream)? {
            Err(error) => error,
            Ok(()) => match getpeername(&self.stream) {
                Ok(_) => return Ok(Connected::Yes(self.stream)),
                // Somebody looked too early.
                Err(Errno::NOTCONN) => return Ok(Connected::NotYet(self)),
                Err(error) => error,
            },
        };
        Self::try_next(self.rest, error.into()).map(Connected::NotYet)
    }

    fn try_next(mut rest: VecDeque<SocketAddrAny>, mut error: io::Error) -> io::Result<Self> {
        while let Some(address) = rest.pop_front() {
            match begin(&address) {
                Ok(stream) => return Ok(Self { stream, rest }),
                Err(failed) => error = failed,
            }
        }
        Err(error)
    }
}

impl AsFd for Connecting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Connects, for up to ten seconds.
pub(crate) fn connect(address: &Address) -> io::Result<Stream> {
    let mut connecting = Connecting::start(address)?;
    loop {
        let timeout = Timespec::try_from(CONNECT_TIMEOUT).ok();
        let mut fds = [PollFd::new(&connecting, PollFlags::OUT)];
        if rustix::io::retry_on_intr(|| poll(&mut fds, timeout.as_ref()))? == 0 {
            let message = format!("{address} did not answer within {} s", CONNECT_TIMEOUT.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        match connecting.finish()? {
            Connected::Yes(stream) => return Ok(stream),
            Connected::NotYet(rest) => connecting = rest,
        }
    }
}

/// A listening socket.
pub(crate) fn listen(address: &Address) -> io::Result<OwnedFd> {
    let mut error = no_address(address);
    for candidate in resolve(address)? {
        match listen_at(&candidate) {
            Ok(socket) => return Ok(socket),
            Err(failed) => error = failed,
        }
    }
    Err(error)
}

/// Takes over an accepted socket, which is non-blocking.
pub(crate) fn accepted(fd: OwnedFd) -> io::Result<Stream> {
    stream(fd)
}

/// The address at this end, with the port that the system chose.
pub(crate) fn local_address(fd: BorrowedFd<'_>) -> Option<Address> {
    to_address(&getsockname(fd).ok()?)
}

/// The other end's host, without port.
pub(crate) fn peer_host(fd: BorrowedFd<'_>) -> Option<String> {
    match to_address(&getpeername(fd).ok()??)? {
        Address::Tcp { host, .. } => Some(host),
        Address::Vsock { cid, .. } => Some(format!("vsock://{cid}")),
        Address::Path(_) | Address::Abstract(_) => None,
    }
}

fn to_address(address: &SocketAddrAny) -> Option<Address> {
    if let Ok(inet) = SocketAddr::try_from(address.clone()) {
        return Some(Address::Tcp { host: format!("{}", inet.ip()), port: inet.port() });
    }
    let VsockAddr { cid, port } = VsockAddr::from_any(address)?;
    Some(Address::Vsock { cid, port })
}

fn resolve(address: &Address) -> io::Result<Vec<SocketAddrAny>> {
    match address {
        Address::Tcp { host, port } => {
            let mut addresses = Vec::new();
            for address in (host.as_str(), *port).to_socket_addrs()? {
                addresses.push(address.into());
            }
            Ok(addresses)
        }
        Address::Vsock { cid, port } => Ok(vec![VsockAddr { cid: *cid, port: *port }.as_any()]),
        Address::Path(_) | Address::Abstract(_) => Ok(Vec::new()),
    }
}

fn no_address(address: &Address) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{address} has no address"))
}

fn new_socket(address: &SocketAddrAny) -> io::Result<OwnedFd> {
    Ok(socket_with(address.address_family(), SocketType::STREAM, nonblocking_cloexec(), None)?)
}

fn listen_at(address: &SocketAddrAny) -> io::Result<OwnedFd> {
    let socket = new_socket(address)?;
    // A service that starts again must not wait for the connections of the one before.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn begin(address: &SocketAddrAny) -> io::Result<Stream> {
    let socket = new_socket(address)?;
    match rustix::net::connect(&socket, address) {
        Ok(()) | Err(Errno::INPROGRESS) => stream(socket),
        Err(error) => Err(error.into()),
    }
}

fn stream(socket: OwnedFd) -> io::Result<Stream> {
    if sockopt::socket_domain(&socket)? != AddressFamily::VSOCK {
        // Replies are small, and others wait for them.
        sockopt::set_tcp_nodelay(&socket, true)?;
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_RETRIES)?;
    }
    Ok(Stream::without_fds(socket))
}
