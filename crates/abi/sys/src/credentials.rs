//! Who is at the other end of a Unix socket (SO_PEERCRED, unix(7)).
//!
//! rustix has the call, but no way to say a process that is not to be seen from here: it takes its 0 for a failure of the call.

use std::ffi::{c_int, c_uint, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// A process and its user and group when it made the connection, as the kernel says: they cannot be forged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerCredentials {
    /// The process, or 0 if it lives in a process name space that this process cannot see.
    pub pid: i32,
    /// Its effective user, by its number in this process's user name space; one that has none is the overflow user.
    pub uid: u32,
    /// Its effective group, likewise.
    pub gid: u32,
}

/// Who is at the other end of a connected Unix socket.
///
/// # Errors
///
/// If it is no socket of that kind.
///
/// ```
/// let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
/// let peer = ferretto_sys::peer_credentials(&ours)?;
/// assert_eq!(peer.pid.cast_unsigned(), std::process::id());
/// # drop(theirs);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn peer_credentials(socket: impl AsFd) -> io::Result<PeerCredentials> {
    let mut raw = Ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<Ucred>() as c_uint;
    // SAFETY: the pointers are to a value of as many bytes as `len` says, of which any value is one, and to `len`; both outlive the call.
    // JUSTIFICATION: nothing safe tells of a peer without a process id, and whoever takes the failure for "not known" lets it say itself
    // who it is.
    let error = unsafe {
        getsockopt(
            socket.as_fd().as_raw_fd(),
            SOL_SOCKET,
            SO_PEERCRED,
            (&raw mut raw).cast::<c_void>(),
            &raw mut len,
        )
    };
    if error != 0 {
        return Err(io::Error::last_os_error());
    }
    if len as usize != size_of::<Ucred>() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the kernel does not say all of who the peer is",
        ));
    }
    Ok(PeerCredentials { pid: raw.pid, uid: raw.uid, gid: raw.gid })
}

/// `struct ucred` of linux/socket.h.
#[repr(C)]
struct Ucred {
    pid: i32,
    uid: u32,
    gid: u32,
}

// SAFETY: as POSIX declares it; the standard library links it.
// JUSTIFICATION: the crate `libc` for one function is too much for programs that only link the SDK.
unsafe extern "C" {
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut c_uint) -> c_int;
}

// asm/socket.h: nearly all processors have those of asm-generic.
#[cfg(any(target_arch = "mips", target_arch = "mips64", target_arch = "sparc", target_arch = "sparc64"))]
const SOL_SOCKET: c_int = 0xffff;
#[cfg(not(any(
    target_arch = "mips",
    target_arch = "mips64",
    target_arch = "sparc",
    target_arch = "sparc64"
)))]
const SOL_SOCKET: c_int = 1;
#[cfg(any(target_arch = "mips", target_arch = "mips64"))]
const SO_PEERCRED: c_int = 18;
#[cfg(any(target_arch = "sparc", target_arch = "sparc64"))]
const SO_PEERCRED: c_int = 0x40;
#[cfg(any(target_arch = "powerpc", target_arch = "powerpc64"))]
const SO_PEERCRED: c_int = 21;
#[cfg(not(any(
    target_arch = "mips",
    target_arch = "mips64",
    target_arch = "sparc",
    target_arch = "sparc64",
    target_arch = "powerpc",
    target_arch = "powerpc64"
)))]
const SO_PEERCRED: c_int = 17;

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn only_unix_sockets_know_their_peers() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let peer = peer_credentials(&ours).unwrap();
        assert_eq!(peer.pid.cast_unsigned(), std::process::id());
        assert_eq!(peer.uid, std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()));
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // The kernel answers for any socket; nobody is there.
        let peer = peer_credentials(&stream).unwrap();
        assert_eq!((peer.pid, peer.uid), (0, u32::MAX));
        assert!(peer_credentials(std::fs::File::open("/proc/self/stat").unwrap()).is_err());
    }
}
