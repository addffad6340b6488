//! Which memory is taken from a peer, and which is not.
#![cfg(not(loom))]

use std::os::fd::OwnedFd;

use ferretto_shm::{MAX_LEN, MemoryError, Seals, SharedMemory};
use rustix::fs::{MemfdFlags, SealFlags};

const NEEDED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

fn memfd(len: u64, seals: SealFlags) -> OwnedFd {
    let fd = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&fd, len).unwrap();
    rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
    fd
}

fn temp_file(len: u64) -> OwnedFd {
    let fd = rustix::fs::open(
        std::env::temp_dir(),
        rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR,
        rustix::fs::Mode::RUSR,
    )
    .unwrap();
    rustix::fs::ftruncate(&fd, len).unwrap();
    fd
}

#[test]
fn what_one_side_creates_the_other_accepts() {
    let ours = SharedMemory::create(65536).unwrap();
    let sent = ours.as_fd().unwrap().try_clone_to_owned().unwrap();
    assert!(rustix::io::fcntl_getfd(&sent).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    let name =
        std::fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&sent))).unwrap();
    assert!(name.to_string_lossy().contains("memfd:perfetto_shmem"), "{name:?}");
    assert!(rustix::fs::ftruncate(&sent, 0).is_err(), "nobody can shrink it");
    let theirs = SharedMemory::from_fd(sent, Seals::Required).unwrap();
    assert_eq!(theirs.len(), 65536);
}

#[test]
fn impossible_lengths_are_refused_wherever_they_come_from() {
    for len in [0, 1, 4095, 4097, MAX_LEN + 4096] {
        assert!(matches!(SharedMemory::create(len), Err(MemoryError::BadLength { .. })), "{len}");
        assert!(matches!(SharedMemory::in_process(len), Err(MemoryError::BadLength { .. })), "{len}");
        let found = SharedMemory::from_fd(memfd(len as u64, NEEDED), Seals::Required);
        assert!(matches!(found, Err(MemoryError::BadLength { .. })), "{len}");
    }
    assert_eq!(SharedMemory::create(MAX_LEN).unwrap().len(), MAX_LEN);
}

#[test]
fn the_service_takes_only_what_cannot_shrink() {
    for missing in [SealFlags::SHRINK, SealFlags::GROW, SealFlags::SEAL] {
        let found = SharedMemory::from_fd(memfd(4096, NEEDED - missing), Seals::Required);
        assert!(matches!(found, Err(MemoryError::NotSealed { .. })), "{missing:?}");
    }
    let found = SharedMemory::from_fd(temp_file(4096), Seals::Required);
    assert!(matches!(found, Err(MemoryError::NotMemfd)), "a file");
    let (pipe, _other) = rustix::pipe::pipe().unwrap();
    let found = SharedMemory::from_fd(pipe, Seals::Required);
    assert!(matches!(found, Err(MemoryError::NotMemfd)), "a pipe");
}

#[test]
fn a_producer_takes_what_its_service_gives_if_it_can_be_mapped() {
    assert!(SharedMemory::from_fd(memfd(8192, SealFlags::empty()), Seals::NotRequired).is_ok());
    assert!(SharedMemory::from_fd(temp_file(8192), Seals::NotRequired).is_ok());
    let found = SharedMemory::from_fd(memfd(8192, SealFlags::WRITE), Seals::NotRequired);
    assert!(matches!(found, Err(MemoryError::Os { .. })), "not writable");
    let (pipe, _other) = rustix::pipe::pipe().unwrap();
    assert!(SharedMemory::from_fd(pipe, Seals::NotRequired).is_err(), "a pipe");
}

#[test]
fn memory_of_huge_pages_is_refused() {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
    let Ok(fd) = rustix::fs::memfd_create("test", flags) else {
        println!("skipped: this kernel has no memfd of huge pages");
        return;
    };
    if rustix::fs::ftruncate(&fd, 2 << 20).and_then(|()| rustix::fs::fcntl_add_seals(&fd, NEEDED)).is_err() {
        println!("skipped: this kernel has no huge pages of 2 MiB");
        return;
    }
    assert!(matches!(SharedMemory::from_fd(fd, Seals::Required), Err(MemoryError::NotMemfd)));
}

#[test]
fn memory_is_unmapped_when_the_last_owner_is_gone() {
    let mappings = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.contains("unmapped_test")).count()
    };
    let fd = rustix::fs::memfd_create("unmapped_test", MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&fd, 4096).unwrap();
    let memory = SharedMemory::from_fd(fd, Seals::NotRequired).unwrap();
    assert_eq!(mappings(), 1);
    drop(memory);
    assert_eq!(mappings(), 0);
}
