//! The mapping itself, and the only code that dereferences pointers into it.
//!
//! What both processes may touch at the same time is accessed in two ways only. Header words are atomics.
//! Payload is written by volatile stores and read by relaxed atomic loads. The mapping is made by the system,
//! not by Rust's allocator, so to the compiler each access stands for itself: whatever the other process does
//! meanwhile, values read may be stale or torn but reading them is defined (see the documentation of
//! `core::ptr::read_volatile` on memory outside any Rust allocation).
#![allow(unsafe_code)]

use std::error::Error;
use std::ffi::c_void;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

/// The largest shared memory that a producer may have, in bytes: what the config of a session may ask for. (What a producer itself may
/// ask for is the service's business; upstream's `kMaxShmSize` in tracing_service_impl.h is 32 MiB for both.)
pub const MAX_LEN: usize = 256 << 20;

/// All sizes are multiples of the smallest page.
const GRANULE: usize = 4096;

/// A unit of `st_blocks` (stat(2)).
const BLOCK_BYTES: u64 = 512;

/// The name that shows up in /proc/PID/maps (upstream: memfd.cc).
const MEMFD_NAME: &str = "perfetto_shmem";

/// The file system that the pages of a memfd live in, unless they are huge (statfs(2)).
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

/// Memory that two processes, or the two ends within one process, share for tracing.
///
/// Its length never changes. It is unmapped when the last view is gone.
#[derive(Debug)]
pub struct SharedMemory {
    base: NonNull<u8>,
    len: usize,
    fd: Option<OwnedFd>,
}

/// Whether a descriptor that came from a peer must be sealed against change of its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seals {
    /// For the service, which must not be stopped by a producer: a file that shrinks would kill the service
    /// by SIGBUS at its next access (upstream: `PosixSharedMemory::AttachToFd` with
    /// `require_seals_if_supported`).
    Required,
    /// For producers, which trust the service that they chose to connect to; upstream's services fall back to
    /// an unlinked file, without seals, where there is no memfd.
    NotRequired,
}

/// Why there is no shared memory.
#[derive(Debug)]
pub enum MemoryError {
    /// The length is not one that the protocol allows.
    BadLength {
        /// The length found.
        len: u64,
    },
    /// The descriptor is no memfd, so nothing keeps its owner from truncating it.
    NotMemfd,
    /// The memfd is not sealed as it must be.
    NotSealed {
        /// The seals it has (`F_SEAL_*` bits).
        found: u32,
        /// The seals it needs.
        needed: u32,
    },
    /// The system refused.
    Os {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadLength { len } => write!(
                f,
                "shared memory of {len} bytes is not possible; it must be a positive multiple of 4096 up to 256 MiB"
            ),
            Self::NotMemfd => write!(
                f,
                "the descriptor is not a memfd of ordinary pages; shared memory from a peer must be one, as other files can be truncated"
            ),
            Self::NotSealed { found, needed } => write!(
                f,
                "the memfd has seals {found:#x} but needs SHRINK, GROW and SEAL ({needed:#x}); its owner must add them before sending it"
            ),
            Self::Os { action, .. } => write!(f, "cannot {action} for shared memory"),
        }
    }
}

impl Error for MemoryError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Os { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl MemoryError {
    fn os(action: &'static str) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::Os { action, source: errno.into() }
    }
}

impl SharedMemory {
    /// Makes memory of `len` bytes that can be sent to another process: a memfd, zeroed, sealed so that its
    /// size is fixed.
    ///
    /// # Errors
    ///
    /// If `len` is not a positive multiple of 4096 up to [`MAX_LEN`], or the system has no memory or
    /// descriptors left.
    ///
    /// ```
    /// let memory = ferretto_shm::SharedMemory::create(256 * 1024).unwrap();
    /// assert_eq!(memory.len(), 256 * 1024);
    /// assert!(memory.as_fd().is_some());
    /// ```
    pub fn create(len: usize) -> Result<Self, MemoryError> {
        check_len(len as u64)?;
        let fd = rustix::fs::memfd_create(MEMFD_NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(MemoryError::os("create a memfd"))?;
        rustix::fs::ftruncate(&fd, len as u64).map_err(MemoryError::os("set the size of the memfd"))?;
        rustix::fs::fcntl_add_seals(&fd, needed_seals()).map_err(MemoryError::os("seal the memfd"))?;
        Self::map_fd(fd, len)
    }

    /// The same, that other processes can read only: since Linux 5.1.
    pub(crate) fn create_for_readers(len: usize) -> Result<Self, MemoryError> {
        check_len(len as u64)?;
        let fd = rustix::fs::memfd_create(MEMFD_NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(MemoryError::os("create a memfd"))?;
        rustix::fs::ftruncate(&fd, len as u64).map_err(MemoryError::os("set the size of the memfd"))?;
        let memory = Self::map_fd(fd, len)?;
        let seals = needed_seals() | SealFlags::FUTURE_WRITE;
        if let Some(fd) = &memory.fd {
            rustix::fs::fcntl_add_seals(fd, seals).map_err(MemoryError::os("seal the memfd"))?;
        }
        Ok(memory)
    }

    /// Gives back what the system provides from here to the end: it is all 0 then.
    pub(crate) fn give_back(&self, from: usize) {
        use rustix::fs::FallocateFlags;
        if let Some(fd) = &self.fd {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // What is not given back is written over some time.
            let _ = rustix::fs::fallocate(fd, flags, from as u64, self.len.saturating_sub(from) as u64);
        }
    }

    /// Maps memory that a peer has sent.
    ///
    /// # Errors
    ///
    /// If the file's length is not a positive multiple of 4096 up to [`MAX_LEN`], if it cannot be mapped for
    /// writing, or if `seals` are required and it is not a memfd with all of them. A memfd of huge pages is
    /// refused then too: holes punched into one can make access fail in spite of the seals.
    pub fn from_fd(fd: OwnedFd, seals: Seals) -> Result<Self, MemoryError> {
        if seals == Seals::Required {
            check_seals(&fd)?;
        }
        let stat = rustix::fs::fstat(&fd).map_err(MemoryError::os("look at the descriptor"))?;
        let len = check_len(u64::try_from(stat.st_size).unwrap_or(0))?;
        Self::map_fd(fd, len)
    }

    /// Makes memory of `len` bytes for two ends within one process, zeroed.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create).
    pub fn in_process(len: usize) -> Result<Self, MemoryError> {
        check_len(len as u64)?;
        // SAFETY: no address is asked for, so no existing mapping is touched; `len` is positive.
        // JUSTIFICATION: mapping memory outside Rust's allocator is what makes concurrent access through
        // volatile and atomic operations defined.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
            )
        };
        Self::mapped(base, len, None)
    }

    /// Bytes that the system provides memory for, as somebody has written or read there; `None` if that cannot be told.
    pub(crate) fn provided_bytes(&self) -> Option<u64> {
        let blocks = rustix::fs::fstat(self.fd.as_ref()?).ok()?.st_blocks;
        Some(u64::try_from(blocks).ok()?.saturating_mul(BLOCK_BYTES))
    }

    /// Whether the word at `offset` may be another than 0. To look there would make the system provide memory, if it has not. To ask where
    /// it has (lseek(2)) would wait for whoever is writing into the file or is punching holes into it, for as long as he likes.
    pub(crate) fn may_be_set(&self, offset: usize) -> bool {
        let mut word = [0; size_of::<u32>()];
        match self.fd.as_ref().map(|fd| rustix::io::pread(fd, &mut word, offset as u64)) {
            Some(Ok(len)) if len == word.len() => word != [0; size_of::<u32>()],
            _ => true,
        }
    }

    fn map_fd(fd: OwnedFd, len: usize) -> Result<Self, MemoryError> {
        // SAFETY: no address is asked for, so no existing mapping is touched; `len` is positive and within
        // the file.
        // JUSTIFICATION: mapping the memory is what shared memory is; no safe wrapper exists that does not
        // hand out slices.
        let base = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &fd,
                0,
            )
        };
        Self::mapped(base, len, Some(fd))
    }

    fn mapped(
        base: Result<*mut c_void, Errno>,
        len: usize,
        fd: Option<OwnedFd>,
    ) -> Result<Self, MemoryError> {
        let base = base.map_err(MemoryError::os("map memory"))?;
        let base = NonNull::new(base.cast()).ok_or_else(|| MemoryError::os("map memory")(Errno::NOMEM))?;
        Ok(Self { base, len, fd })
    }

    /// The length in bytes.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// The descriptor to send to the peer; `None` for memory within one process.
    #[must_use]
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// The header word at `offset`: `None` if it is not within the memory or not aligned.
    #[inline]
    pub(crate) fn word(&self, offset: usize) -> Option<&AtomicU32> {
        if !offset.is_multiple_of(4) || offset.checked_add(4)? > self.len {
            return None;
        }
        // SAFETY: the four bytes are within the mapping, which lives as long as `self`, and aligned, as
        // mappings start at a page. All access to header words in this process is atomic.
        // JUSTIFICATION: an atomic at an address that another process shares cannot be had otherwise.
        Some(unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset).cast()) })
    }

    /// The long word at `offset`: `None` if it is not within the memory or not aligned.
    #[inline]
    pub(crate) fn long(&self, offset: usize) -> Option<&AtomicU64> {
        if !offset.is_multiple_of(8) || offset.checked_add(8)? > self.len {
            return None;
        }
        // SAFETY: the eight bytes are within the mapping, which lives as long as `self`, and aligned, as mappings start at a page. All
        // access to them in this process is atomic.
        // JUSTIFICATION: an atomic at an address that another process shares cannot be had otherwise.
        Some(unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) })
    }

    /// Appends `len` bytes from `offset` to `out`; nothing if they are not all within the memory. Both are
    /// multiples of four.
    ///
    /// The copy is what may be validated. The bytes may come from different moments if the other side writes
    /// meanwhile.
    pub(crate) fn copy_out(&self, offset: usize, len: usize, out: &mut Vec<u8>) {
        debug_assert!(offset.is_multiple_of(4) && len.is_multiple_of(4));
        if !offset.is_multiple_of(4)
            || !len.is_multiple_of(4)
            || offset.checked_add(len).is_none_or(|end| end > self.len)
        {
            return;
        }
        out.reserve(len);
        let target = out.spare_capacity_mut().as_mut_ptr().cast::<u8>();
        // SAFETY: the source range is within the mapping and aligned to four bytes; the target has room for
        // `len` bytes, is private to us, and all `len` bytes are initialised before the length is set.
        // JUSTIFICATION: this is the one copy out of memory that another process may be writing.
        unsafe {
            copy_words(self.base.as_ptr().add(offset), target, len);
            out.set_len(out.len() + len);
        }
    }

    /// The `len` bytes from `offset`, to write to; `None` if they are not all within the memory.
    ///
    /// The ABI gives them to one owner at a time, but nothing breaks if it is violated except the bytes.
    pub(crate) fn piece(self: &Arc<Self>, offset: usize, len: usize) -> Option<Piece> {
        if !offset.is_multiple_of(4) || offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: `offset` is within the mapping, so the pointer is too and is not null.
        // JUSTIFICATION: chunk writers keep the address so that a trace point need not compute it.
        let base = unsafe { self.base.add(offset) };
        Some(Piece { base, len, _memory: Arc::clone(self) })
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: base and length are those of our mapping; nothing borrows from it any more, as all that
        // points into it holds an `Arc` of `self` or borrows it.
        // JUSTIFICATION: the counterpart of mapping.
        let result = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(result.is_ok(), "unmapping our own mapping cannot fail");
    }
}

// SAFETY: the memory is accessed by atomics and volatile operations only, which any thread may do.
// JUSTIFICATION: raw pointers opt out of Send; the mapping is made to be used from several threads.
unsafe impl Send for SharedMemory {}
// SAFETY: as for Send; the length and the descriptor do not change.
// JUSTIFICATION: as for Send.
unsafe impl Sync for SharedMemory {}

/// A part of the memory that its holder writes to: a chunk.
#[derive(Debug)]
pub(crate) struct Piece {
    base: NonNull<u8>,
    len: usize,
    /// Keeps the mapping.
    _memory: Arc<SharedMemory>,
}

impl Piece {
    #[inline(always)]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Stores `bytes` at `offset`; `false`, and nothing stored, if they do not fit.
    #[inline(always)]
    pub(crate) fn store(&mut self, offset: usize, bytes: &[u8]) -> bool {
        if offset > self.len || bytes.len() > self.len - offset {
            return false;
        }
        // SAFETY: the target range is within the mapping; the source is private memory of the same length.
        // JUSTIFICATION: the bytes of a trace event go straight to memory that the service maps.
        unsafe { store_bytes(bytes, self.base.as_ptr().add(offset)) };
        true
    }

    /// Stores all of `bytes` at `offset` at once; `false`, and nothing stored, if they do not fit.
    #[inline(always)]
    pub(crate) fn store_small(&mut self, offset: usize, bytes: [u8; 16]) -> bool {
        if offset.checked_add(bytes.len()).is_none_or(|end| end > self.len) {
            return false;
        }
        // SAFETY: the 16 bytes from `offset` are within the mapping.
        // JUSTIFICATION: two stores for a small field are what makes trace points cheap.
        unsafe { store_pair(bytes, self.base.as_ptr().add(offset)) };
        true
    }

    /// Loads bytes back; `false`, and `target` unchanged, if they are not all within the piece.
    pub(crate) fn load(&self, offset: usize, target: &mut [u8]) -> bool {
        if offset > self.len || target.len() > self.len - offset {
            return false;
        }
        for (index, byte) in target.iter_mut().enumerate() {
            // SAFETY: `offset + index` is within the piece by the check above.
            // JUSTIFICATION: reading back what was written, without a reference into shared memory.
            *byte = unsafe { self.base.as_ptr().add(offset + index).read_volatile() };
        }
        true
    }

    /// The header word at `offset`: `None` if it is not within the piece or not aligned.
    #[inline(always)]
    pub(crate) fn word(&self, offset: usize) -> Option<&AtomicU32> {
        if !offset.is_multiple_of(4) || offset > self.len || self.len - offset < 4 {
            return None;
        }
        // SAFETY: the four bytes are within the piece, whose mapping lives as long as `self`; pieces start at
        // multiples of four. All access to header words in this process is atomic.
        // JUSTIFICATION: an atomic at an address that another process shares cannot be had otherwise.
        Some(unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset).cast()) })
    }
}

// SAFETY: a piece is a pointer into memory that any thread may access, and an `Arc` that keeps it.
// JUSTIFICATION: a thread's chunk is handed to the thread that commits it.
unsafe impl Send for Piece {}

fn check_len(len: u64) -> Result<usize, MemoryError> {
    let bad = MemoryError::BadLength { len };
    match usize::try_from(len) {
        Ok(len @ 1..=MAX_LEN) if len.is_multiple_of(GRANULE) => Ok(len),
        _ => Err(bad),
    }
}

/// Seals that fix the size and themselves (upstream: posix_shared_memory.cc).
fn needed_seals() -> SealFlags {
    SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL
}

fn check_seals(fd: &OwnedFd) -> Result<(), MemoryError> {
    // Files that cannot be sealed answer EINVAL, whatever they are.
    let found = rustix::fs::fcntl_get_seals(fd).map_err(|_| MemoryError::NotMemfd)?;
    let statfs = rustix::fs::fstatfs(fd).map_err(MemoryError::os("look at the descriptor"))?;
    if statfs.f_type != TMPFS_MAGIC {
        return Err(MemoryError::NotMemfd);
    }
    if found.contains(needed_seals()) {
        Ok(())
    } else {
        Err(MemoryError::NotSealed { found: found.bits(), needed: needed_seals().bits() })
    }
}

/// Copies out of shared memory by words.
///
/// # Safety
///
/// `source` is aligned to four bytes and readable for `len` bytes, a multiple of four, in memory that is not
/// Rust's; `target` is writable for `len` bytes that nobody else accesses.
#[inline]
unsafe fn copy_words(source: *const u8, target: *mut u8, len: usize) {
    let mut done = 0;
    // SAFETY: (all below) `done` plus the size of each access stays within `len`; the loads of 8 bytes are
    // aligned because a first load of 4 bytes makes them so; the stores need no alignment.
    // JUSTIFICATION: loads of 8 bytes cost within a third of memcpy for 4 KiB and within a tenth for 32 KiB
    // (memory outside the caches, as it is when another process wrote it), and concurrent writes are defined.
    unsafe {
        let load4 = |at: usize| AtomicU32::from_ptr(source.add(at).cast_mut().cast()).load(Ordering::Relaxed);
        let load8 = |at: usize| AtomicU64::from_ptr(source.add(at).cast_mut().cast()).load(Ordering::Relaxed);
        if !source.addr().is_multiple_of(8) && len >= 4 {
            target.cast::<u32>().write_unaligned(load4(0));
            done = 4;
        }
        while len - done >= 32 {
            let words = [load8(done), load8(done + 8), load8(done + 16), load8(done + 24)];
            target.add(done).cast::<[u64; 4]>().write_unaligned(words);
            done += 32;
        }
        while len - done >= 8 {
            target.add(done).cast::<u64>().write_unaligned(load8(done));
            done += 8;
        }
        if len - done >= 4 {
            target.add(done).cast::<u32>().write_unaligned(load4(done));
        }
    }
}

/// Stores bytes into shared memory.
///
/// # Safety
///
/// `target` is writable for the length of `bytes`, in memory that is not Rust's.
#[inline]
unsafe fn store_bytes(bytes: &[u8], mut target: *mut u8) {
    let (blocks, rest) = bytes.as_chunks::<16>();
    // SAFETY: (all below) `target` advances by what was stored, which adds up to the length of `bytes`; byte
    // arrays need no alignment.
    // JUSTIFICATION: volatile stores keep the compiler from assuming that nobody else reads the memory.
    unsafe {
        for block in blocks {
            store_pair(*block, target);
            target = target.add(16);
        }
        for byte in rest {
            target.write_volatile(*byte);
            target = target.add(1);
        }
    }
}

/// Stores 16 bytes into shared memory as two words, from registers: bytes of an array would go through the
/// stack first. The release of the chunk's header, which follows, is what keeps these stores from coming later.
///
/// # Safety
///
/// `target` is writable for 16 bytes, in memory that is not Rust's.
#[inline(always)]
unsafe fn store_pair(bytes: [u8; 16], target: *mut u8) {
    let word = u128::from_le_bytes(bytes);
    // SAFETY: both words are within the 16 bytes, and need no alignment.
    // JUSTIFICATION: these are most of what a trace point does. (Volatile stores at any address go through the
    // stack.)
    unsafe {
        target.cast::<u64>().write_unaligned((word as u64).to_le());
        target.add(8).cast::<u64>().write_unaligned(((word >> 64) as u64).to_le());
    }
}
