//! Where a path leads, step by step, for those to whom it matters who has put what there.
//!
//! The kernel follows a path without a word about whose the links and folders on it are, and each call anew. Here each step is opened, in the
//! folder before it, and looked at; what comes of it is the folder itself, held open, so that nobody can exchange it any more.
//!
//! By bytes: what the standard library has for parts of paths is some kilobytes in each program with the SDK.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, fstatfs, openat, readlinkat, statat};
use rustix::io::Errno;

/// As many links as the kernel follows on one path (path_resolution(7)).
const MAX_LINKS: usize = 40;
/// Everybody may make names in a folder with this mode bit.
const OTHERS_WRITE: u32 = 0o002;
/// In a folder with this one too, only the owner of what has a name may take it away (unlink(2)).
const STICKY: u32 = 0o1000;

/// Whose something is, and what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The owner's user id.
    pub owner: u32,
    /// Kind and permissions, as in stat(2).
    pub mode: u32,
    /// The device, and
    pub device: u64,
    /// the number there: what is the same in both is the same thing.
    pub inode: u64,
}

impl Found {
    /// What is open there.
    pub fn of(fd: impl AsFd) -> io::Result<Self> {
        Ok(Self::from(fstat(fd)?))
    }

    /// What kind of thing it is.
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    /// Of a folder: whether everybody may make names in it.
    pub fn is_for_all(&self) -> bool {
        self.mode & OTHERS_WRITE != 0
    }

    /// Of a folder: whether everybody may exchange what others have made in it.
    pub fn is_lawless(&self) -> bool {
        self.is_for_all() && self.mode & STICKY == 0
    }
}

impl From<rustix::fs::Stat> for Found {
    #[allow(clippy::unnecessary_cast, reason = "their types differ between machines")]
    fn from(stat: rustix::fs::Stat) -> Self {
        Self { owner: stat.st_uid, mode: stat.st_mode, device: stat.st_dev as u64, inode: stat.st_ino as u64 }
    }
}

/// The end of a path.
#[derive(Debug)]
pub struct Place {
    /// The folder that the last name is in (`O_PATH`).
    pub folder: OwnedFd,
    /// What it is.
    pub folder_found: Found,
    /// The last name, which is no link; `.` if the path leads to the folder itself.
    pub name: OsString,
    /// What has this name; nothing if there is nothing.
    pub found: Option<Found>,
    /// The path's last name is a link, so that this one is elsewhere.
    pub is_by_link: bool,
    /// The name is one that the kernel itself gives to something without a path, such as a pipe at `/dev/stdout`: it is opened by following it.
    pub is_without_path: bool,
}

/// A path that is not followed to its end.
#[derive(Debug)]
pub enum Error {
    /// A step that is not to be taken.
    Refused {
        /// Its name.
        name: OsString,
        /// Whose it is.
        owner: u32,
    },
    /// What the system said.
    System(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { name, owner } => {
                write!(f, "{name:?} is user {owner}'s, at a place that others may make names in")
            }
            Self::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Self::System(errno.into())
    }
}

/// Follows a path. `may_take` is asked about each step that is there, links and the last name too: with the folder that it is in (none for the
/// root and for the folder that this process is in), and with what it is. Also about each folder that is left by `..`, for its name may have
/// been given to another one meanwhile.
pub fn walk(path: &Path, may_take: &dyn Fn(Option<&Found>, &Found) -> bool) -> Result<Place, Error> {
    let mut rest = path.as_os_str().as_bytes().to_vec();
    if rest.is_empty() {
        return Err(Errno::NOENT.into());
    }
    let mut links = 0;
    let mut is_by_link = false;
    let mut here = Step::start(&rest, may_take)?;
    loop {
        let Some((name, others)) = first_name(&rest) else {
            let Step { fd, found } = here;
            return Ok(Place {
                folder: fd,
                folder_found: found,
                name: ".".into(),
                found: Some(found),
                is_by_link,
                is_without_path: false,
            });
        };
        let is_last = first_name(others).is_none();
        let next = match Step::open(here.fd.as_fd(), OsStr::from_bytes(name)) {
            Ok(next) => next,
            Err(Errno::NOENT) if is_last && name != b".." => {
                return Ok(here.with_name(name, None, is_by_link));
            }
            Err(error) => return Err(error.into()),
        };
        let may_go_on = match name {
            b".." => may_take(Some(&next.found), &here.found) && may_take(None, &next.found),
            _ => may_take(Some(&here.found), &next.found),
        };
        if !may_go_on {
            let owner = next.found.owner;
            return Err(Error::Refused { name: OsStr::from_bytes(name).to_owned(), owner });
        }
        if next.found.kind() == FileType::Symlink {
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::LOOP.into());
            }
            is_by_link |= is_last;
            let mut target = readlinkat(&next.fd, c"", Vec::new())?.into_bytes();
            if is_last && is_of_the_kernel(&next.fd, &target)? {
                let found = statat(&here.fd, name, AtFlags::empty())?.into();
                let place = here.with_name(name, Some(found), is_by_link);
                return Ok(Place { is_without_path: true, ..place });
            }
            target.push(b'/');
            target.extend_from_slice(others);
            rest = target;
            if rest.first() == Some(&b'/') {
                here = Step::start(&rest, may_take)?;
            }
            continue;
        }
        if is_last && next.found.kind() != FileType::Directory {
            return Ok(here.with_name(name, Some(next.found), is_by_link));
        }
        rest = others.to_vec();
        here = next;
    }
}

/// One thing on the way, held.
struct Step {
    fd: OwnedFd,
    found: Found,
}

impl Step {
    /// The folder that a path starts from.
    fn start(path: &[u8], may_take: &dyn Fn(Option<&Found>, &Found) -> bool) -> Result<Self, Error> {
        let name = if path.first() == Some(&b'/') { "/" } else { "." };
        let start = Self::open(CWD, OsStr::new(name))?;
        if may_take(None, &start.found) {
            return Ok(start);
        }
        Err(Error::Refused { name: name.into(), owner: start.found.owner })
    }

    fn open(folder: BorrowedFd<'_>, name: &OsStr) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(folder, name, flags, Mode::empty())?;
        let found = Found::from(fstat(&fd)?);
        Ok(Self { fd, found })
    }

    fn with_name(self, name: &[u8], found: Option<Found>, is_by_link: bool) -> Place {
        let name = OsString::from_vec(name.to_vec());
        let Self { fd: folder, found: folder_found } = self;
        Place { folder, folder_found, name, found, is_by_link, is_without_path: false }
    }
}

/// The first name of a path that says something, and what is after it.
fn first_name(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = path;
    while !rest.is_empty() {
        let end = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
        let (name, others) = rest.split_at(end);
        rest = others.get(1..).unwrap_or_default();
        if !matches!(name, b"" | b".") {
            return Some((name, rest));
        }
    }
    None
}

/// Whether a link is one of /proc to what has no path, as `pipe:[4242]` or a file whose name is gone. Others of /proc say the path.
fn is_of_the_kernel(link: &OwnedFd, target: &[u8]) -> Result<bool, Errno> {
    /// Source: linux/magic.h, `PROC_SUPER_MAGIC`.
    const PROC: u64 = 0x9fa0;
    let says_no_path =
        target.ends_with(b" (deleted)") || target.first() != Some(&b'/') && target.contains(&b':');
    Ok(says_no_path && fstatfs(link)?.f_type as u64 == PROC)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    use super::*;

    fn all(_: Option<&Found>, _: &Found) -> bool {
        true
    }

    #[test]
    fn a_path_ends_in_a_folder_that_is_held() {
        let place = tempfile::tempdir().unwrap();
        let (folder, other) = (place.path().join("a"), place.path().join("b"));
        fs::create_dir(&folder).unwrap();
        let found = walk(&folder.join("./../a//new"), &all).unwrap();
        assert_eq!((found.name.to_str(), found.found, found.is_by_link), (Some("new"), None, false));
        fs::rename(&folder, &other).unwrap();
        let path = fs::read_link(format!("/proc/self/fd/{}", found.folder.as_raw_fd())).unwrap();
        assert_eq!(path, fs::canonicalize(&other).unwrap());
        let whole = walk(&other, &all).unwrap();
        assert_eq!((whole.name.to_str(), whole.found), (Some("."), Some(whole.folder_found)));
    }

    #[test]
    fn links_are_followed_to_what_is_none() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::create_dir(path("folder")).unwrap();
        fs::write(path("folder/file"), "").unwrap();
        symlink("folder", path("to-folder")).unwrap();
        symlink(path("to-folder/file"), path("to-file")).unwrap();
        symlink("round", path("round")).unwrap();
        symlink("folder/nothing", path("dangling")).unwrap();
        let file = Found::of(fs::File::open(path("folder/file")).unwrap()).unwrap();
        for (name, by_link) in [("to-file", true), ("to-folder/file", false), ("to-folder/../to-file", true)]
        {
            let found = walk(&path(name), &all).unwrap();
            assert_eq!((found.found, found.is_by_link), (Some(file), by_link), "{name}");
        }
        assert_eq!(walk(&path("dangling"), &all).unwrap().name, "nothing");
        for (name, expected) in [
            ("round", Errno::LOOP),
            ("no/such", Errno::NOENT),
            ("folder/file/x", Errno::NOTDIR),
            ("no/..", Errno::NOENT),
        ] {
            match walk(&path(name), &all) {
                Err(Error::System(error)) => assert_eq!(error.raw_os_error(), Some(expected.raw_os_error())),
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    #[test]
    fn every_step_is_asked_about() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::create_dir(path("folder")).unwrap();
        fs::write(path("folder/file"), "").unwrap();
        symlink("folder", path("link")).unwrap();
        let kinds = RefCell::new(Vec::new());
        let note = |_: Option<&Found>, step: &Found| {
            kinds.borrow_mut().push(step.kind());
            true
        };
        walk(&path("link/file"), &note).unwrap();
        let kinds = kinds.into_inner();
        let last = kinds.get(kinds.len() - 3..).unwrap();
        assert_eq!(last, [FileType::Symlink, FileType::Directory, FileType::RegularFile]);
        let no_links = |_: Option<&Found>, step: &Found| step.kind() != FileType::Symlink;
        assert!(
            matches!(walk(&path("link/file"), &no_links), Err(Error::Refused { name, .. }) if name == "link")
        );
    }

    #[test]
    fn what_has_no_path_is_found_where_the_kernel_names_it() {
        let (reader, _writer) = io::pipe().unwrap();
        for fd in [reader.as_fd(), tempfile::tempfile().unwrap().as_fd()] {
            let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
            let found = walk(Path::new(&path), &all).unwrap();
            assert!(found.is_without_path);
            assert_eq!(found.found, Some(Found::of(fd).unwrap()));
        }
    }
}
