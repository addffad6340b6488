//! Asks the profiler for a ring.
//!
//! The calls are the kernel's and nothing else: this may run inside of a `malloc`, in a process that was forked while another thread held whatever lock.

use core::ffi::{c_char, c_void};
use core::mem::{size_of, zeroed};
use core::sync::atomic::{AtomicU8, Ordering};

use ferretto_shm::heap::{HEAD_BYTES, MAX_RECORD_BYTES, Reply, SOCKET_ENV};

/// How long the profiler may take, who answers at once if he is there: a program must not wait for one that hangs.
const TIMEOUT_SECONDS: libc::time_t = 2;
/// Of `sockaddr_un`: a zero, which says that the name is abstract, and the name.
const MAX_NAME: usize = 108;
/// The profiler's rings are some megabytes.
const MAX_RING_BYTES: usize = 1 << 30;

/// The name of the profiler's socket, as bytes behind a zero: it is read once, and the environment may be the program's afterwards. Its length; 0 is none.
static NAME: [AtomicU8; MAX_NAME] = [const { AtomicU8::new(0) }; MAX_NAME];
static NAME_LEN: AtomicU8 = AtomicU8::new(0);

/// What there is to write to.
pub(crate) struct Attached {
    pub(crate) base: *mut u8,
    pub(crate) ring_bytes: usize,
    pub(crate) reply: Reply,
}

/// Whether a profiler is named in the environment, which is remembered. Not in that of a program which has got other rights as it started: that is its
/// caller's (getauxval(3), AT_SECURE), and so would be what it allocates.
pub(crate) fn read_environment() -> bool {
    // SAFETY: looks into what the kernel has told the program.
    // JUSTIFICATION: there is no other way to ask.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return false;
    }
    let mut name = [0; SOCKET_ENV.len() + 1];
    for (to, from) in name.iter_mut().zip(SOCKET_ENV.bytes()) {
        *to = from;
    }
    // SAFETY: the name ends with a zero; the value is read before anybody else runs, at the program's start.
    // JUSTIFICATION: `std::env` allocates and takes a lock.
    let value = unsafe { libc::getenv(name.as_ptr().cast::<c_char>()) };
    if value.is_null() {
        return false;
    }
    let mut len = 0;
    for (at, place) in NAME.iter().enumerate() {
        // SAFETY: the text ends with a zero, at which the loop ends.
        // JUSTIFICATION: as above.
        let byte = unsafe { value.add(at).read() }.cast_unsigned();
        match byte {
            0 => break,
            // `@` stands for the zero.
            b'@' if at == 0 => {}
            // Nothing but abstract names.
            _ if at == 0 => return false,
            byte => place.store(byte, Ordering::Relaxed),
        }
        len = at + 1;
    }
    NAME_LEN.store(u8::try_from(len).unwrap_or(0), Ordering::Relaxed);
    len > 1 && len < MAX_NAME
}

/// A descriptor that is closed.
struct Fd(i32);

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: it is ours.
        // JUSTIFICATION: `OwnedFd` checks in debug builds by a call that may panic.
        unsafe { libc::close(self.0) };
    }
}

/// Connects, and maps what the profiler sends. Nothing is left open.
pub(crate) fn attach() -> Option<Attached> {
    let socket = connect()?;
    let (memory, reply) = receive(&socket)?;
    // SAFETY: a structure of numbers, which the call fills.
    // JUSTIFICATION: the file's length is the ring's.
    let mut status: libc::stat = unsafe { zeroed() };
    // SAFETY: as above.
    // JUSTIFICATION: as above.
    if unsafe { libc::fstat(memory.0, &raw mut status) } != 0 {
        return None;
    }
    let len = usize::try_from(status.st_size).ok()?;
    let ring_bytes =
        len.checked_sub(HEAD_BYTES).filter(|bytes| (MAX_RECORD_BYTES..=MAX_RING_BYTES).contains(bytes))?;
    // SAFETY: no address is asked for, so nothing that is mapped is touched; the file has this length, and is sealed.
    // JUSTIFICATION: shared memory is what a ring is.
    let base = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            memory.0,
            0,
        )
    };
    (base != libc::MAP_FAILED).then_some(Attached { base: base.cast(), ring_bytes, reply })
}

/// Memory that a child finds full of zeros after a fork; none if the kernel does not do that.
pub(crate) fn wiped_memory(bytes: usize) -> Option<*mut u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: no address is asked for.
    // JUSTIFICATION: of an allocator it cannot be had.
    let base = unsafe { libc::mmap(core::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    (base != libc::MAP_FAILED && wipe_on_fork(base.cast(), bytes)).then_some(base.cast())
}

/// Whether these pages will be wiped in children.
pub(crate) fn wipe_on_fork(base: *mut u8, bytes: usize) -> bool {
    // SAFETY: pages of ours; what is in them does not change here.
    // JUSTIFICATION: no handler of `fork` is called by all that forks.
    unsafe { libc::madvise(base.cast::<c_void>(), bytes, libc::MADV_WIPEONFORK) == 0 }
}

fn connect() -> Option<Fd> {
    // SAFETY: a structure of numbers.
    // JUSTIFICATION: std's and rustix's addresses are checked by what may panic or allocate.
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path.iter_mut().zip(&NAME) {
        *to = from.load(Ordering::Relaxed).cast_signed() as c_char;
    }
    let len = size_of::<libc::sa_family_t>() + usize::from(NAME_LEN.load(Ordering::Relaxed));
    // SAFETY: makes a descriptor.
    // JUSTIFICATION: no more than system calls.
    let socket = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return None;
    }
    let socket = Fd(socket);
    let timeout = libc::timeval { tv_sec: TIMEOUT_SECONDS, tv_usec: 0 };
    for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        let value = (&raw const timeout).cast::<c_void>();
        // SAFETY: the value is of the length that is said.
        // JUSTIFICATION: as above.
        let error = unsafe {
            libc::setsockopt(
                socket.0,
                libc::SOL_SOCKET,
                option,
                value,
                size_of::<libc::timeval>() as libc::socklen_t,
            )
        };
        if error != 0 {
            return None;
        }
    }
    // SAFETY: the address is of the length that is said, or longer.
    // JUSTIFICATION: as above.
    let error = unsafe { libc::connect(socket.0, (&raw const address).cast(), len as libc::socklen_t) };
    (error == 0 && is_trusted(&socket)).then_some(socket)
}

/// Whether who listens may see what is on this program's stacks: root, and its own user.
fn is_trusted(socket: &Fd) -> bool {
    let mut who = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: libc::gid_t::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let place = (&raw mut who).cast::<c_void>();
    // SAFETY: the place is of the length that is said.
    // JUSTIFICATION: as above.
    let error =
        unsafe { libc::getsockopt(socket.0, libc::SOL_SOCKET, libc::SO_PEERCRED, place, &raw mut len) };
    // SAFETY: asks for a number.
    // JUSTIFICATION: as above.
    error == 0 && trusts(unsafe { libc::geteuid() }, who.uid)
}

fn trusts(own: libc::uid_t, whose: libc::uid_t) -> bool {
    whose == 0 || whose == own
}

fn receive(socket: &Fd) -> Option<(Fd, Reply)> {
    // A header and a descriptor, with room to be aligned: words.
    let mut control = [0u64; 8];
    let mut bytes = [0u8; Reply::BYTES + 1];
    let mut piece = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: a structure of numbers and null pointers.
    // JUSTIFICATION: its padding differs between C libraries.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: all that the message points to is there, and of the lengths that it says.
    // JUSTIFICATION: descriptors come this way only.
    let len = unsafe { libc::recvmsg(socket.0, &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    let len = usize::try_from(len).ok()?;
    // SAFETY: the kernel has filled the message; the header that it points to, if it does, is whole.
    // JUSTIFICATION: as above.
    let fd = unsafe {
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        let is_descriptor = !head.is_null()
            && (*head).cmsg_level == libc::SOL_SOCKET
            && (*head).cmsg_type == libc::SCM_RIGHTS
            && (*head).cmsg_len as usize == libc::CMSG_LEN(size_of::<i32>() as u32) as usize;
        is_descriptor.then(|| Fd(libc::CMSG_DATA(head).cast::<i32>().read_unaligned()))
    };
    let reply = Reply::unpack(bytes.get(..len)?)?;
    Some((fd?, reply))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

    use super::*;

    #[test]
    fn only_root_and_ones_own_user_are_trusted() {
        assert!(trusts(1000, 0) && trusts(1000, 1000) && trusts(0, 0));
        assert!(!trusts(0, 1000) && !trusts(1000, 1001) && !trusts(1000, libc::uid_t::MAX));
        let name = format!("ferretto-test-trust-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let _listener = UnixListener::bind_addr(&address).unwrap();
        let stream = UnixStream::connect_addr(&address).unwrap();
        let own = Fd(stream.as_raw_fd());
        assert!(is_trusted(&own), "this process itself");
        std::mem::forget(own);
        assert!(!is_trusted(&Fd(-1)));
    }
}
