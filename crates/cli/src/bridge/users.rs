//! Whose connections they are: what comes by TCP from this machine is a socket of it too, of which the kernel says the user (sock_diag(7)).
//!
//! The way to ask is made before the bridge is shut in, and kept. Answers come while the question is asked: nobody waits for one.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, netlink, recv, send, socket_with,
};

/// Of linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h and netinet/tcp.h.
const NLM_F_REQUEST: u16 = 1;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
const TCP_ESTABLISHED: u8 = 1;
const HEADER_LEN: usize = 16;
const ANSWER_LEN: usize = HEADER_LEN + 72;
/// Where in an answer these are, and how long the two ends of the connection.
const STATE_AT: usize = HEADER_LEN + 1;
const ENDS_AT: usize = HEADER_LEN + 4;
const ENDS_LEN: usize = 2 + 2 + 16 + 16;
const USER_AT: usize = HEADER_LEN + 64;
const INODE_AT: usize = HEADER_LEN + 68;

/// Asks the kernel.
#[derive(Debug)]
pub(crate) struct Users {
    /// Nothing where the kernel is not to be asked.
    kernel: Option<Mutex<OwnedFd>>,
}

impl Users {
    pub(crate) fn new() -> Self {
        let kernel = || {
            let kind = (SocketType::DGRAM, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG));
            let socket = socket_with(AddressFamily::NETLINK, kind.0, kind.1, kind.2)?;
            connect(&socket, &netlink::SocketAddrNetlink::new(0, 0))?;
            Ok::<_, rustix::io::Errno>(socket)
        };
        let kernel = kernel().inspect_err(|error| tracing::info!("users cannot be told apart: {error}"));
        Self { kernel: kernel.ok().map(Mutex::new) }
    }

    /// The user of the other end. Nothing if that is gone, or on another machine, or not to be known.
    pub(crate) fn of(&self, stream: &TcpStream) -> Option<u32> {
        let question = question(stream.peer_addr().ok()?, stream.local_addr().ok()?)?;
        let socket = self.kernel.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        send(&*socket, &question, SendFlags::DONTWAIT).ok()?;
        let mut answer = [0; 512];
        let (len, _) = recv(&*socket, &mut answer, RecvFlags::DONTWAIT).ok()?;
        user_in(answer.get(..len)?, question.get(ENDS_AT + 4..ENDS_AT + 4 + ENDS_LEN)?)
    }
}

/// About the socket whose own end is `near`, to which `far` is the other.
fn question(near: SocketAddr, far: SocketAddr) -> Option<Vec<u8>> {
    let family = match (near.ip(), far.ip()) {
        (IpAddr::V4(_), IpAddr::V4(_)) => AF_INET,
        (IpAddr::V6(_), IpAddr::V6(_)) => AF_INET6,
        _ => return None,
    };
    let mut body = vec![family, IPPROTO_TCP, 0, 0];
    body.extend(u32::MAX.to_ne_bytes()); // states
    body.extend(near.port().to_be_bytes());
    body.extend(far.port().to_be_bytes());
    body.extend(address(near.ip()));
    body.extend(address(far.ip()));
    body.extend([0; 4]); // any interface
    body.extend([0xff; 8]); // no cookie
    let len = u32::try_from(HEADER_LEN + body.len()).ok()?;
    let mut message = len.to_ne_bytes().to_vec();
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(NLM_F_REQUEST.to_ne_bytes());
    message.extend([0; 8]); // sequence and port
    message.extend(body);
    Some(message)
}

fn address(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => {
            let mut words = [0; 16];
            words.iter_mut().zip(ip.octets()).for_each(|(to, from)| *to = from);
            words
        }
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// Of a socket that somebody has: of one that was closed the kernel says that it is root's. Nor of another one, such as one that listens there.
fn user_in(answer: &[u8], ends: &[u8]) -> Option<u32> {
    let number = |at: usize| Some(u32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?));
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let is_it = answer.len() >= ANSWER_LEN
        && kind == SOCK_DIAG_BY_FAMILY
        && answer.get(STATE_AT) == Some(&TCP_ESTABLISHED)
        && answer.get(ENDS_AT..ENDS_AT + ENDS_LEN) == Some(ends)
        && number(INODE_AT)? != 0;
    is_it.then(|| number(USER_AT))?
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn pair(address: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(address).unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (far, listener.accept().unwrap().0)
    }

    #[test]
    fn a_connections_user_is_who_has_its_other_end() {
        let users = Users::new();
        let own = rustix::process::geteuid();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (far, near) = pair(address);
            if users.of(&near).is_none() {
                return println!("skipped: this kernel does not tell");
            }
            assert_eq!(users.of(&near), Some(own.as_raw()), "{address}");
            // One that is closed would be root's.
            drop(far);
            assert_eq!(users.of(&near), None, "{address}");
        }
    }
}
