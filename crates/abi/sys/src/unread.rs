//! How much of what was sent through a socket is still there (SIOCOUTQ, unix(7)).

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// What the peer of a Unix socket has not read, in bytes of the kernel's memory; nothing as soon as it has closed its end.
///
/// # Errors
///
/// If it is no socket of that kind.
///
/// ```
/// use std::io::Write;
///
/// let (mut ours, theirs) = std::os::unix::net::UnixStream::pair()?;
/// ours.write_all(b"hello")?;
/// assert!(ferretto_sys::unread_bytes(&ours)? >= 5);
/// drop(theirs);
/// assert_eq!(ferretto_sys::unread_bytes(&ours)?, 0);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn unread_bytes(socket: impl AsFd) -> io::Result<usize> {
    let mut bytes: c_int = 0;
    // SAFETY: the call writes to `bytes`, which is ours and of its type.
    // JUSTIFICATION: neither std nor rustix has it, and who leaves what it was sent unread would cost nothing once it is hung up on.
    if unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(usize::try_from(bytes).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_is_read_or_whose_reader_is_gone_is_not_there() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let unread = |ours: &UnixStream| unread_bytes(ours).unwrap() > 0;
        assert!(!unread(&ours));
        ours.write_all(b"some").unwrap();
        ours.shutdown(std::net::Shutdown::Both).unwrap();
        assert!(unread(&ours), "also when it has ended");
        theirs.read_to_end(&mut Vec::new()).unwrap();
        assert!(!unread(&ours));
        assert!(unread_bytes(std::fs::File::open("/proc/self/stat").unwrap()).is_err());
    }
}
