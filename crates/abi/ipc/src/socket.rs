//! Non-blocking sockets that carry frames and descriptors.
//!
//! Descriptors travel in a control message with the first byte of a frame, at most one a receive; a truncated control message is an
//! error (upstream: `unix_socket.cc`).

use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Gid, Mode, OFlags, chmod, chownat, flock, openat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    listen, recvmsg, sendmsg, socket_with, socketpair, sockopt,
};

use crate::address::Address;
use crate::walk::{Found, Held};
use crate::{remote, trust};

/// Connections that wait to be accepted; upstream's value. A thread that connects and hangs up fills any queue, and whoever comes has all of
/// it in front of him: of 4,096 a third of a second.
pub(crate) const BACKLOG: i32 = 128;

/// Beside sockets, in folders that others may read: who is about to listen locks it.
const LOCK_FILE: &str = ".ferretto.lock";

/// As many as can be sent at once (Linux: `SCM_MAX_FD`). One is meaningful; but those for that there is no room the kernel closes while
/// it receives, and to close one may take long.
const MAX_RECEIVED_FDS: usize = 253;

pub use ferretto_sys::PeerCredentials;

/// What one receive gave.
#[derive(Debug)]
pub struct Received {
    /// Bytes written to the caller's buffer; 0 means that the peer has closed its end.
    pub len: usize,
    /// The first descriptor that came along, close-on-exec.
    pub fd: Option<OwnedFd>,
    /// Those after it, which nobody wants. They may be anything, and to close one may take long.
    pub others: Vec<OwnedFd>,
    /// There were more than this process can have.
    pub is_truncated: bool,
}

/// One connection. Never blocks: [`io::ErrorKind::WouldBlock`] says to poll.
#[derive(Debug)]
pub struct Stream {
    fd: OwnedFd,
    passes_fds: bool,
}

impl Stream {
    /// Connects; for a Unix socket this succeeds or fails at once, over TCP and vsock it waits up to ten seconds (see
    /// [`Connecting`](crate::remote::Connecting) for a way not to).
    ///
    /// [`io::ErrorKind::WouldBlock`] says that somebody listens on the Unix socket, and that too many wait there already.
    ///
    /// Where anybody may make files, as in `/tmp`, and at abstract names anybody may pretend to be the service: there only root's and the
    /// caller's own are taken for it, and others are an error ([`io::ErrorKind::PermissionDenied`]). So it is where a link leads there.
    pub fn connect(address: &Address) -> io::Result<Self> {
        Self::connect_within(address, Duration::ZERO)
    }

    /// The same; where too many wait at a Unix socket of root's or one's own, or at a place that others cannot take, one waits with them for so
    /// long at most. After that it is [`io::ErrorKind::TimedOut`].
    pub fn connect_within(address: &Address, patience: Duration) -> io::Result<Self> {
        match address {
            Address::Path(_) | Address::Abstract(_) => {
                let stream = match connect_unix(address, Duration::ZERO) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock && !patience.is_zero() => {
                        // Nor does one wait for somebody who is not taken for the service.
                        trust::check_owner(address)?;
                        connect_unix(address, patience)?
                    }
                    connected => connected?,
                };
                let listener = ferretto_sys::peer_credentials(&stream.fd)?.uid;
                if trust::is_trusted_anywhere(listener) {
                    return Ok(stream);
                }
                trust::check_place(address, listener)?;
                // The place may have been another one before.
                Self::connect_to_user(address, listener, patience)
            }
            Address::Tcp { .. } | Address::Vsock { .. } => remote::connect(address),
        }
    }

    /// Connects to what this user, and nobody else, listens on, and waits for so long at most where too many do.
    pub fn connect_to_user(address: &Address, uid: u32, patience: Duration) -> io::Result<Self> {
        let stream = connect_unix(address, patience)?;
        let listener = ferretto_sys::peer_credentials(&stream.fd)?.uid;
        if listener != uid {
            let message = format!("user {listener} listens on {address}, not user {uid}");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        Ok(stream)
    }

    /// Two connected ends, for a service in the same process and for tests.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (left, right) = socketpair(AddressFamily::UNIX, SocketType::STREAM, nonblocking_cloexec(), None)?;
        Ok((Self::unix(left), Self::unix(right)))
    }

    /// Takes over a connected, non-blocking Unix socket.
    pub fn from_unix_fd(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self::unix(fd))
    }

    fn unix(fd: OwnedFd) -> Self {
        Self { fd, passes_fds: true }
    }

    /// A connected, non-blocking socket to another machine.
    pub(crate) fn without_fds(fd: OwnedFd) -> Self {
        Self { fd, passes_fds: false }
    }

    /// Whether descriptors can be sent (Unix sockets).
    pub fn passes_fds(&self) -> bool {
        self.passes_fds
    }

    /// Sends as much as the socket takes, the descriptor with the first byte. A peer that is gone is an error, never a signal.
    pub fn send(&self, bytes: &[u8], fd: Option<BorrowedFd<'_>>) -> io::Result<usize> {
        if fd.is_some() && !self.passes_fds {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "file descriptors cannot be sent over TCP or vsock: connect through a Unix socket",
            ));
        }
        let fds = fd.map(|fd| [fd]);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if let Some(fds) = &fds
            && !control.push(SendAncillaryMessage::ScmRights(fds))
        {
            return Err(io::Error::other("no room for a descriptor in the control message"));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let sent =
            rustix::io::retry_on_intr(|| sendmsg(&self.fd, &[IoSlice::new(bytes)], &mut control, flags))?;
        Ok(sent)
    }

    /// Receives once.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<Received> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_RECEIVED_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let message = rustix::io::retry_on_intr(|| {
            recvmsg(&self.fd, &mut [IoSliceMut::new(buffer)], &mut control, flags)
        })?;
        let (mut fd, mut others) = (None, Vec::new());
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = part {
                for received in fds {
                    match fd {
                        None => fd = Some(received),
                        Some(_) => others.push(received),
                    }
                }
            }
        }
        let is_truncated = message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
        Ok(Received { len: message.bytes, fd, others, is_truncated })
    }

    /// Who is at the other end; `None` where the kernel does not say (TCP, vsock).
    pub fn peer_credentials(&self) -> io::Result<Option<PeerCredentials>> {
        if !self.passes_fds {
            return Ok(None);
        }
        ferretto_sys::peer_credentials(&self.fd).map(Some)
    }

    /// The other end's host, without port; `None` for Unix sockets.
    pub fn peer_host(&self) -> Option<String> {
        if self.passes_fds { None } else { remote::peer_host(self.fd.as_fd()) }
    }

    /// Ends the connection in both directions; the peer sees the end of the stream.
    pub fn shutdown(&self) {
        // An error says that it has ended already.
        let _ = rustix::net::shutdown(&self.fd, rustix::net::Shutdown::Both);
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Accepts connections. A socket file that it made is removed when it is dropped.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    address: Address,
    passes_fds: bool,
    file: Option<SocketFile>,
}

/// Says which file this listener made, so that a successor's is not removed.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Listener {
    /// Listens. A socket file that a dead service left behind is removed first; one on which somebody answers, or a file that is no
    /// socket, is an error ([`io::ErrorKind::AddrInUse`]).
    pub fn bind(address: &Address) -> io::Result<Self> {
        Self::bind_with(address, None)
    }

    /// The same; a socket file has its group and its mode before anybody can connect.
    pub fn bind_with(address: &Address, permissions: Option<Permissions>) -> io::Result<Self> {
        match address {
            Address::Path(path) => {
                // Of two that start at once, the later one could take the new socket for the stale one, and remove it.
                let _lock = lock_folder(path);
                remove_stale_socket(path)?;
                let mut listener =
                    listen_unix(address, permissions.map(|permissions| (path.as_path(), permissions)))?;
                listener.file = SocketFile::of(path);
                Ok(listener)
            }
            Address::Abstract(_) if permissions.is_some() => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "{address} cannot have permissions: it is no file, and everybody may connect there; choose a path"
                ),
            )),
            Address::Abstract(_) => listen_unix(address, None),
            Address::Tcp { .. } | Address::Vsock { .. } => {
                let fd = remote::listen(address)?;
                Ok(Self { fd, address: address.clone(), passes_fds: false, file: None })
            }
        }
    }

    /// The next waiting connection, or [`io::ErrorKind::WouldBlock`].
    pub fn accept(&self) -> io::Result<Stream> {
        let fd = rustix::io::retry_on_intr(|| accept_with(&self.fd, nonblocking_cloexec()))?;
        if !self.passes_fds {
            return remote::accepted(fd);
        }
        Ok(Stream::unix(fd))
    }

    /// The address given to [`bind`](Self::bind).
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The address in use: differs from [`address`](Self::address) if the system was to choose the port.
    pub fn local_address(&self) -> Address {
        let local = if self.passes_fds { None } else { remote::local_address(self.fd.as_fd()) };
        local.unwrap_or_else(|| self.address.clone())
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(file) = &self.file
            && SocketFile::of(&file.path)
                .is_some_and(|now| now.inode == file.inode && now.device == file.device)
        {
            let _ = fs::remove_file(&file.path);
        }
    }
}

impl SocketFile {
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::symlink_metadata(path).ok()?;
        let is_socket = metadata.file_type().is_socket();
        is_socket.then(|| Self { path: path.to_owned(), device: metadata.dev(), inode: metadata.ino() })
    }
}

/// Who may connect at a socket file (`traced --set-socket-permissions`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permissions {
    /// The file's group; `None` leaves it.
    pub group: Option<u32>,
    /// The file's mode bits.
    pub mode: u32,
}

impl Permissions {
    /// To a socket file, and to nothing that somebody has put in its place: a link of his would have another file's mode changed.
    pub fn apply(self, path: &Path) -> io::Result<()> {
        let fd = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        if Found::of(&fd)?.kind() != FileType::Socket {
            let message = format!("{} is no socket any more", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        if let Some(group) = self.group {
            chownat(&fd, c"", None, Some(Gid::from_raw(group)), AtFlags::EMPTY_PATH)?;
        }
        // The path of what is open leads there only. It is the one way to change a mode by such a descriptor before Linux 6.6.
        let opened = format!("/proc/self/fd/{}", fd.as_raw_fd());
        chmod(opened, Mode::from_raw_mode(self.mode))?;
        Ok(())
    }
}

/// The id of a group, given by name or number.
pub fn group_id(group: &str) -> io::Result<u32> {
    if let Ok(id) = group.parse() {
        return Ok(id);
    }
    let groups = fs::read_to_string("/etc/group")?;
    find_group(&groups, group).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("there is no group {group:?} in /etc/group"))
    })
}

/// The name of a group, if /etc/group has one for this id.
pub fn group_name(id: u32) -> Option<String> {
    let groups = fs::read_to_string("/etc/group").ok()?;
    parse_groups(&groups).find(|(_, found)| *found == id).map(|(name, _)| name.to_owned())
}

fn find_group(groups: &str, wanted: &str) -> Option<u32> {
    parse_groups(groups).find(|(name, _)| *name == wanted).map(|(_, id)| id)
}

/// Lines of group(5): `NAME:PASSWORD:ID:MEMBERS`.
fn parse_groups(groups: &str) -> impl Iterator<Item = (&str, u32)> {
    groups.lines().filter_map(|line| {
        let mut fields = line.split(':');
        Some((fields.next()?, fields.nth(1)?.parse().ok()?))
    })
}

pub(crate) fn nonblocking_cloexec() -> SocketFlags {
    SocketFlags::NONBLOCK | SocketFlags::CLOEXEC
}

fn unix_address(address: &Address) -> io::Result<SocketAddrUnix> {
    match address {
        Address::Path(path) => Ok(SocketAddrUnix::new(path)?),
        Address::Abstract(name) => Ok(SocketAddrUnix::new_abstract_name(name)?),
        Address::Tcp { .. } | Address::Vsock { .. } => Err(Errno::AFNOSUPPORT.into()),
    }
}

/// Those who wait get their turns in order, as the kernel has it; whoever merely tried again and again would come after all of them.
fn connect_unix(address: &Address, patience: Duration) -> io::Result<Stream> {
    let waits = !patience.is_zero();
    let flags = if waits { SocketFlags::CLOEXEC } else { nonblocking_cloexec() };
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    if waits {
        sockopt::set_socket_timeout(&fd, sockopt::Timeout::Send, Some(patience))?;
    }
    let connected = rustix::io::retry_on_intr(|| connect(&fd, &unix_address(address).map_err(to_errno)?));
    if waits && connected == Err(Errno::AGAIN) {
        let message =
            "too many wait to be taken by the service, which did not come to this in the time that there was";
        return Err(io::Error::new(io::ErrorKind::TimedOut, message));
    }
    connected?;
    rustix::io::ioctl_fionbio(&fd, true)?;
    Ok(Stream::unix(fd))
}

fn to_errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::INVAL)
}

fn listen_unix(address: &Address, permissions: Option<(&Path, Permissions)>) -> io::Result<Listener> {
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, nonblocking_cloexec(), None)?;
    bind(&fd, &unix_address(address)?)?;
    if let Some((path, permissions)) = permissions
        && let Err(error) = permissions.apply(path)
    {
        let _ = fs::remove_file(path);
        return Err(error);
    }
    // Until here nobody can connect.
    listen(&fd, BACKLOG)?;
    Ok(Listener { fd, address: address.clone(), passes_fds: true, file: None })
}

/// What holds up whoever else is about to listen in the same folder.
#[derive(Debug)]
struct Lock {
    _held: OwnedFd,
    /// Where there is a file that goes with it.
    folder: Option<OwnedFd>,
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            // Under the lock: who has waited for it looks whether it is still the same.
            let _ = unlinkat(folder, LOCK_FILE, AtFlags::empty());
        }
    }
}

/// Without it, where nothing can be locked or somebody keeps it locked, all goes on: then two that start at once may disturb each other.
fn lock_folder(socket: &Path) -> Option<Lock> {
    const PAUSE: Duration = Duration::from_millis(10);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(trust::folder_of(socket), flags, Mode::empty()).ok()?;
    let folder = Held { found: Found::of(&fd).ok()?, fd };
    let (by_file, attempts) = how_to_lock(&folder);
    for _ in 0..attempts {
        match try_to_lock(&folder.fd, by_file) {
            Ok(held) => return Some(Lock { _held: held, folder: by_file.then_some(folder.fd) }),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
            Err(_) => return None,
        }
    }
    None
}

/// Whether a file is locked for the folder, and how often to try. Whoever is about to listen takes some milliseconds, more on a busy machine; a
/// neighbour who may lock has no end. Whoever may read something may lock it (flock(2)): so a folder that others may read has a file of one's own.
fn how_to_lock(folder: &Held) -> (bool, u32) {
    const OTHERS_READ: u32 = 0o044;
    match folder.is_shared(rustix::process::geteuid().as_raw()) {
        true => (false, 10),
        false => (folder.found.mode & OTHERS_READ != 0, 100),
    }
}

fn try_to_lock(folder: &OwnedFd, by_file: bool) -> Result<OwnedFd, Errno> {
    let (name, flags, mode) = match by_file {
        true => (LOCK_FILE, OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW, Mode::RUSR | Mode::WUSR),
        false => (".", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()),
    };
    let held = openat(folder, name, flags | OFlags::CLOEXEC, mode)?;
    flock(&held, FlockOperation::NonBlockingLockExclusive)?;
    let now = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map(Found::from);
    match now.is_ok_and(|now| Found::of(&held).is_ok_and(|held| held.inode == now.inode)) {
        true => Ok(held),
        // Whoever had it before has removed it.
        false => Err(Errno::WOULDBLOCK),
    }
}

/// Only a socket on which nobody answers is stale.
fn remove_stale_socket(path: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let in_use = |what: &str| {
        let message = format!("cannot listen on {}: {what}", path.display());
        Err(io::Error::new(io::ErrorKind::AddrInUse, message))
    };
    if !metadata.file_type().is_socket() {
        return in_use("a file that is no socket is in the way; remove it or choose another name");
    }
    match connect_unix(&Address::Path(path.to_owned()), Duration::ZERO) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        _ => in_use("another service answers there; stop it or choose another name"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn neighbours_do_not_keep_a_folder_locked_for_long() {
        let folder = tempfile::tempdir().unwrap();
        let held = || {
            let fd = OwnedFd::from(fs::File::open(folder.path()).unwrap());
            Held { found: Found::of(&fd).unwrap(), fd }
        };
        let locked = |mode| {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            how_to_lock(&held())
        };
        assert_eq!((locked(0o1777), locked(0o700), locked(0o755)), ((false, 10), (false, 100), (true, 100)));
        let neighbours = try_to_lock(&held().fd, false).unwrap();
        let lock = lock_folder(&folder.path().join("socket")).unwrap();
        let file = fs::metadata(folder.path().join(LOCK_FILE)).unwrap();
        assert_eq!(file.mode() & 0o777, 0o600, "nobody else may open it, and so lock it");
        assert_eq!(try_to_lock(&held().fd, true).unwrap_err(), Errno::WOULDBLOCK);
        drop((lock, neighbours));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing stays");
    }
}
