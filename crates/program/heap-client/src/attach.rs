//! Asks the profiler for a ring.
//!
//! The calls are the kernel's and nothing else: this may run inside of a `malloc`, in a process that was forked while another thread held whatever lock.

use core::ffi::{c_char, c_void};
use core::mem::{size_of, zeroed};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use ferretto_shm::heap::{DAEMON_NAME, HEAD_BYTES, MAX_RECORD_BYTES, PAGE_BYTES, Reply, SOCKET_ENV};

/// How long the profiler may take, who answers at once if he is there: a program must not wait for one that hangs. Nor for a daemon whom others keep busy:
/// it has not been started for him.
const TIMEOUT: libc::timeval = libc::timeval { tv_sec: 2, tv_usec: 0 };
const TIMEOUT_OF_DAEMON: libc::timeval = libc::timeval { tv_sec: 0, tv_usec: 200_000 };
/// Of `sockaddr_un`: a zero, which says that the name is abstract, and the name.
const MAX_NAME: usize = 108;
/// The profiler's rings are some megabytes.
const MAX_RING_BYTES: usize = 1 << 30;

/// The name of the profiler's socket, as bytes behind a zero: it is read once, and the environment may be the program's afterwards. Its length; 0 is none.
static NAME: [AtomicU8; MAX_NAME] = [const { AtomicU8::new(0) }; MAX_NAME];
static NAME_LEN: AtomicU8 = AtomicU8::new(0);
/// Whether it is that of a daemon.
static IS_DAEMON: AtomicBool = AtomicBool::new(false);

/// What there is to write to.
pub(crate) struct Attached {
    pub(crate) base: *mut u8,
    pub(crate) ring_bytes: usize,
    pub(crate) reply: Reply,
    /// Which session there is, of a profiler who has some later on.
    pub(crate) page: Option<*const AtomicU64>,
}

/// Asks the profiler whom the environment names, or a daemon of this user's or of root's, if one is there; whom is remembered. Not a program which has got
/// other rights as it started: its environment is its caller's (getauxval(3), AT_SECURE), and so would be what it allocates.
pub(crate) fn attach_first() -> Option<Attached> {
    // SAFETY: looks into what the kernel has told the program.
    // JUSTIFICATION: there is no other way to ask.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    match read_environment() {
        Some(true) => attach(),
        Some(false) => None,
        None => {
            // SAFETY: asks for a number.
            // JUSTIFICATION: as above.
            let own = unsafe { libc::geteuid() };
            name_daemon(own);
            let found = attach();
            if found.is_some() || own == 0 {
                return found;
            }
            name_daemon(0);
            attach()
        }
    }
}

/// Whether the profiler whom the environment names, if it names one, has a name that can be one.
fn read_environment() -> Option<bool> {
    let mut name = [0; SOCKET_ENV.len() + 1];
    for (to, from) in name.iter_mut().zip(SOCKET_ENV.bytes()) {
        *to = from;
    }
    // SAFETY: the name ends with a zero; the value is read before anybody else runs, at the program's start.
    // JUSTIFICATION: `std::env` allocates and takes a lock.
    let value = unsafe { libc::getenv(name.as_ptr().cast::<c_char>()) };
    if value.is_null() {
        return None;
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
            _ if at == 0 => return Some(false),
            byte => place.store(byte, Ordering::Relaxed),
        }
        len = at + 1;
    }
    NAME_LEN.store(u8::try_from(len).unwrap_or(0), Ordering::Relaxed);
    Some(len > 1 && len < MAX_NAME)
}

/// The name of a user's daemon.
fn name_daemon(user: libc::uid_t) {
    IS_DAEMON.store(true, Ordering::Relaxed);
    // The last digits first.
    let (mut digits, mut rest, mut count) = ([0; 10], user, 0);
    for digit in &mut digits {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        count += 1;
        if rest == 0 {
            break;
        }
    }
    let digits = digits.iter().take(count).rev();
    let mut len = 1;
    for (place, byte) in NAME.iter().skip(1).zip(DAEMON_NAME.as_bytes().iter().chain(digits)) {
        place.store(*byte, Ordering::Relaxed);
        len += 1;
    }
    NAME_LEN.store(len, Ordering::Relaxed);
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
    let (memory, page, reply) = receive(&socket)?;
    let len = length(&memory)?;
    let ring_bytes =
        len.checked_sub(HEAD_BYTES).filter(|bytes| (MAX_RECORD_BYTES..=MAX_RING_BYTES).contains(bytes))?;
    let base = map(&memory, len, libc::PROT_READ | libc::PROT_WRITE)?;
    let page = match page {
        Some(page) if reply.may_begin_later && length(&page)? == PAGE_BYTES => {
            Some(map(&page, PAGE_BYTES, libc::PROT_READ)?.cast_const().cast())
        }
        _ => None,
    };
    Some(Attached { base, ring_bytes, reply, page })
}

fn length(memory: &Fd) -> Option<usize> {
    // SAFETY: a structure of numbers, which the call fills.
    // JUSTIFICATION: the file's length is the ring's.
    let mut status: libc::stat = unsafe { zeroed() };
    // SAFETY: as above.
    // JUSTIFICATION: as above.
    let error = unsafe { libc::fstat(memory.0, &raw mut status) };
    usize::try_from(status.st_size).ok().filter(|_| error == 0)
}

fn map(memory: &Fd, len: usize, protection: i32) -> Option<*mut u8> {
    // SAFETY: no address is asked for, so nothing that is mapped is touched; the file has this length, and is sealed.
    // JUSTIFICATION: shared memory is what a ring is.
    let base = unsafe { libc::mmap(core::ptr::null_mut(), len, protection, libc::MAP_SHARED, memory.0, 0) };
    (base != libc::MAP_FAILED).then_some(base.cast())
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
    let timeout = if IS_DAEMON.load(Ordering::Relaxed) { TIMEOUT_OF_DAEMON } else { TIMEOUT };
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

/// The ring, a page if there is one, and what is said with them.
fn receive(socket: &Fd) -> Option<(Fd, Option<Fd>, Reply)> {
    // A header and two descriptors, with room to be aligned: words.
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
    // SAFETY: the kernel has filled the message; the header that it points to, if it does, is whole, and so many descriptors are behind it.
    // JUSTIFICATION: as above.
    let fds = unsafe {
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        let is_descriptors = !head.is_null()
            && (*head).cmsg_level == libc::SOL_SOCKET
            && (*head).cmsg_type == libc::SCM_RIGHTS;
        let is_of = |count: u32| {
            (*head).cmsg_len as usize == libc::CMSG_LEN(count * size_of::<i32>() as u32) as usize
        };
        let fd = |number| Fd(libc::CMSG_DATA(head).cast::<i32>().add(number).read_unaligned());
        match is_descriptors {
            true if is_of(1) => Some((fd(0), None)),
            true if is_of(2) => Some((fd(0), Some(fd(1)))),
            _ => None,
        }
    };
    let reply = Reply::unpack(bytes.get(..len)?)?;
    let (ring, page) = fds?;
    Some((ring, page, reply))
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

    #[test]
    fn a_daemon_is_called_by_the_number_of_its_user() {
        for (user, text) in [(0, "0"), (7, "7"), (1000, "1000"), (u32::MAX, "4294967295")] {
            name_daemon(user);
            let bytes: Vec<u8> = NAME.iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
            let len = usize::from(NAME_LEN.load(Ordering::Relaxed));
            assert_eq!(&bytes[..len], format!("\0{DAEMON_NAME}{text}").as_bytes());
        }
    }
}
