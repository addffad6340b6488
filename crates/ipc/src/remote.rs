//! Sockets that reach other machines: TCP and vsock. No descriptors pass through them, and the kernel does not know who is at the
//! other end.
//!
//! Upstream: `unix_socket.cc` (options).

use std::collections::VecDeque;
use std::io;
use std::net::ToSocketAddrs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};

use crate::address::Address;
use crate::socket::{BACKLOG, Stream};

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
/// Wait until [`as_fd`](AsFd::as_fd) is writable, then call [`finish`](Self::finish). A name is looked up when it starts, which may take
/// time; numbers need no look-up.
#[derive(Debug)]
pub struct Connecting {
    stream: Stream,
    /// Other addresses of the same name.
    rest: VecDeque<SockAddr>,
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
    /// Begins to connect. A Unix socket succeeds or fails at once.
    pub fn start(address: &Address) -> io::Result<Self> {
        if address.passes_fds() {
            return Ok(Self { stream: Stream::connect(address)?, rest: VecDeque::new() });
        }
        Self::try_next(resolve(address)?.into(), no_address(address))
    }

    /// Says how it went.
    pub fn finish(self) -> io::Result<Connected> {
        let error = match rustix::net::sockopt::socket_error(&self.stream)? {
            Err(error) => error,
            Ok(()) => match rustix::net::getpeername(&self.stream) {
                Ok(_) => return Ok(Connected::Yes(self.stream)),
                // Somebody looked too early.
                Err(rustix::io::Errno::NOTCONN) => return Ok(Connected::NotYet(self)),
                Err(error) => error,
            },
        };
        Self::try_next(self.rest, error.into()).map(Connected::NotYet)
    }

    fn try_next(mut rest: VecDeque<SockAddr>, mut error: io::Error) -> io::Result<Self> {
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
            Ok(socket) => return Ok(socket.into()),
            Err(failed) => error = failed,
        }
    }
    Err(error)
}

/// Takes over an accepted socket.
pub(crate) fn accepted(fd: OwnedFd) -> io::Result<Stream> {
    let socket = Socket::from(fd);
    socket.set_nonblocking(true)?;
    stream(socket)
}

/// The address at this end, with the port that the system chose.
pub(crate) fn local_address(fd: BorrowedFd<'_>) -> Option<Address> {
    let socket = Socket::from(fd.try_clone_to_owned().ok()?);
    to_address(&socket.local_addr().ok()?)
}

/// The other end's host, without port.
pub(crate) fn peer_host(fd: BorrowedFd<'_>) -> Option<String> {
    let socket = Socket::from(fd.try_clone_to_owned().ok()?);
    match to_address(&socket.peer_addr().ok()?)? {
        Address::Tcp { host, .. } => Some(host),
        Address::Vsock { cid, .. } => Some(format!("vsock://{cid}")),
        Address::Path(_) | Address::Abstract(_) => None,
    }
}

fn to_address(address: &SockAddr) -> Option<Address> {
    if let Some(inet) = address.as_socket() {
        return Some(Address::Tcp { host: inet.ip().to_string(), port: inet.port() });
    }
    let (cid, port) = address.as_vsock_address()?;
    Some(Address::Vsock { cid, port })
}

fn resolve(address: &Address) -> io::Result<Vec<SockAddr>> {
    match address {
        Address::Tcp { host, port } => {
            Ok((host.as_str(), *port).to_socket_addrs()?.map(SockAddr::from).collect())
        }
        Address::Vsock { cid, port } => Ok(vec![SockAddr::vsock(*cid, *port)]),
        Address::Path(_) | Address::Abstract(_) => Ok(Vec::new()),
    }
}

fn no_address(address: &Address) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{address} has no address"))
}

fn new_socket(address: &SockAddr) -> io::Result<Socket> {
    let protocol = address.is_ipv4() || address.is_ipv6();
    let socket = Socket::new(address.domain(), Type::STREAM, protocol.then_some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn listen_at(address: &SockAddr) -> io::Result<Socket> {
    let socket = new_socket(address)?;
    // A service that starts again must not wait for the connections of the one before.
    socket.set_reuse_address(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

fn begin(address: &SockAddr) -> io::Result<Stream> {
    let socket = new_socket(address)?;
    match socket.connect(address) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
        Err(error) => return Err(error),
    }
    stream(socket)
}

fn stream(socket: Socket) -> io::Result<Stream> {
    if socket.domain()? != Domain::VSOCK {
        // Replies are small, and others wait for them.
        socket.set_tcp_nodelay(true)?;
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE_IDLE)
            .with_interval(KEEPALIVE_INTERVAL)
            .with_retries(KEEPALIVE_RETRIES);
        socket.set_tcp_keepalive(&keepalive)?;
    }
    Ok(Stream::without_fds(socket.into()))
}
