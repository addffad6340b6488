//! What users may pass to have their trace written into it.
//!
//! The service writes with its own rights and under its own name. Whoever reads a socket may be told who wrote (`SO_PASSCRED`), a terminal may
//! be somebody else's, and files of the kernel ask who writes, not only who has opened them. So it is files and pipes, which ask once.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, FileType, StatxFlags, fstatfs, statx};

use crate::users;

/// What is written to these stays nowhere: /dev/null, /dev/zero and /dev/full (Documentation/admin-guide/devices.txt).
const MEMORY_DEVICES: u32 = 1;
const SINKS: [u32; 3] = [3, 5, 7];

/// File systems whose files are the kernel's own (linux/magic.h): procfs, sysfs, both versions of cgroups, tracefs, debugfs, configfs, securityfs,
/// selinuxfs and smackfs.
const OF_THE_KERNEL: [u32; 10] = [
    0x9fa0,
    0x6265_6572,
    0x0027_e0eb,
    0x6367_7270,
    0x7472_6163,
    0x6462_6720,
    0x6265_6570,
    0x7363_6673,
    0xf97c_ff8c,
    0x4341_5d53,
];

/// Whether the service may write into this for a user, by its kind. Asks no file system, which might take its time.
pub(super) fn check_kind(file: impl AsFd, user: u32) -> io::Result<()> {
    let is_known = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = statx(file, "", is_known, StatxFlags::TYPE)?;
    let is_sink = stat.stx_rdev_major == MEMORY_DEVICES && SINKS.contains(&stat.stx_rdev_minor);
    match FileType::from_raw_mode(stat.stx_mode.into()) {
        FileType::RegularFile | FileType::Fifo => Ok(()),
        FileType::CharacterDevice if is_sink => Ok(()),
        FileType::Socket => refuse("a socket", user),
        FileType::CharacterDevice | FileType::BlockDevice => refuse("a device", user),
        _ => refuse("neither a file nor a pipe", user),
    }
}

/// The same, by where a file is. Its file system is asked.
pub(super) fn check_place(file: impl AsFd, user: u32) -> io::Result<()> {
    // Types of file systems are 32 bits, whatever the C library has them in.
    match OF_THE_KERNEL.contains(&(fstatfs(file)?.f_type as u32)) {
        true => refuse("a file of the kernel", user),
        false => Ok(()),
    }
}

/// An error, if so many bytes more go into what its file system keeps for root, which the service may write into (ext4: `resuid`).
pub(super) fn check_room(file: impl AsFd, bytes: usize, user: u32) -> io::Result<()> {
    if users::is_trusted(user) {
        return Ok(());
    }
    let system = fstatfs(file)?;
    match is_reserved(bytes as u64, system.f_bsize as u64, system.f_bavail as u64, system.f_bfree as u64) {
        true => Err(io::ErrorKind::StorageFull.into()),
        false => Ok(()),
    }
}

/// Whether there is room for so many bytes, but not for everybody. Some file systems say that there is none at all.
fn is_reserved(bytes: u64, block_bytes: u64, blocks_for_all: u64, blocks: u64) -> bool {
    blocks > blocks_for_all && bytes > blocks_for_all.saturating_mul(block_bytes)
}

/// Root and the service's own user have its rights anyway.
fn refuse(what: &str, user: u32) -> io::Result<()> {
    if users::is_trusted(user) {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "it is {what}, to which the service would write as its own user; pass a file or a pipe (-o - | cat)"
    )))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use rustix::process::geteuid;

    use super::*;

    fn open(path: &str) -> OwnedFd {
        File::options().read(true).open(path).unwrap().into()
    }

    fn refused(file: &OwnedFd, user: u32) -> String {
        let checked = check_kind(file, user).and_then(|()| check_place(file, user));
        checked.map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn what_is_kept_for_root_is_not_a_users() {
        for (bytes, blocks_for_all, blocks, expected) in [
            (4096, 10, 20, false),
            (40_960, 10, 20, false),
            (40_961, 10, 20, true),
            (1, 0, 20, true),
            // Full for everybody: the write says so. And nothing is known of how much there is.
            (40_961, 10, 10, false),
            (1, 0, 0, false),
        ] {
            assert_eq!(
                is_reserved(bytes, 4096, blocks_for_all, blocks),
                expected,
                "{bytes} {blocks_for_all}"
            );
        }
        let file = tempfile::tempfile().unwrap();
        assert!(check_room(&file, usize::MAX, 0).is_ok());
        assert!(check_room(&file, 1, 54_321).is_ok());
    }

    #[test]
    fn a_users_trace_goes_into_files_and_pipes_only() {
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).unwrap();
        let cases: [(OwnedFd, &str); 8] = [
            (tempfile::tempfile().unwrap().into(), ""),
            (rustix::pipe::pipe().unwrap().1, ""),
            (open("/dev/null"), ""),
            (UnixStream::pair().unwrap().0.into(), "it is a socket, to"),
            (open("/proc/self/status"), "it is a file of the kernel, to"),
            (open("/dev/random"), "it is a device, to"),
            (open("/"), "it is neither a file nor a pipe, to"),
            (event, "it is neither a file nor a pipe, to"),
        ];
        let own = geteuid().as_raw();
        for (file, expected) in cases {
            let told = refused(&file, own.wrapping_add(1).max(1));
            assert!(told.starts_with(expected) && told.is_empty() == expected.is_empty(), "{file:?}: {told}");
            assert_eq!([refused(&file, 0), refused(&file, own)], ["", ""]);
        }
    }
}
