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
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, fgetxattr, fstat, openat, readlinkat_raw};
use rustix::io::Errno;

/// As many links as the kernel follows on one path (path_resolution(7)).
const MAX_LINKS: usize = 40;
/// Everybody may make names in a folder with this mode bit, and
const OTHERS_WRITE: u32 = 0o002;
/// its group in one with this one.
const GROUP_WRITES: u32 = 0o020;
/// In a folder with this one too, only the owner of what has a name may take it away (unlink(2)).
const STICKY: u32 = 0o1000;

/// Whose something is, and what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The owner's user id.
    pub owner: u32,
    /// Its group's id.
    pub group: u32,
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
}

impl From<rustix::fs::Stat> for Found {
    #[allow(clippy::unnecessary_cast, reason = "their types differ between machines")]
    fn from(stat: rustix::fs::Stat) -> Self {
        Self {
            owner: stat.st_uid,
            group: stat.st_gid,
            mode: stat.st_mode,
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
        }
    }
}

/// Something on the way, held (`O_PATH`), and what it is.
#[derive(Debug)]
pub struct Held {
    /// The thing itself, links too.
    pub fd: OwnedFd,
    /// What it is.
    pub found: Found,
}

impl Held {
    /// Of a folder: whether others than its owner and this user may make names in it.
    pub fn is_shared(&self, user: u32) -> bool {
        self.found.mode & OTHERS_WRITE != 0 || self.found.mode & GROUP_WRITES != 0 && !self.is_group_of(user)
    }

    /// Of a folder: whether others than its owner and this user may exchange what is in it.
    pub fn is_lawless(&self, user: u32) -> bool {
        self.found.mode & STICKY == 0 && self.is_shared(user)
    }

    /// Whether nobody but the owner or this user has the rights that the mode gives to the group.
    #[inline(never)]
    fn is_group_of(&self, user: u32) -> bool {
        let Found { owner, group, .. } = self.found;
        let is_of_one =
            |user| ferretto_sys::is_group_of_one(group, user) && ferretto_sys::overflow_user() != Some(user);
        (is_of_one(owner) || is_of_one(user)) && !self.has_list()
    }

    /// Whether there is a list of further users (acl(5)): the group's rights are then the most that any of them has. Where it cannot be looked
    /// at there may be one.
    fn has_list(&self) -> bool {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(fd) = openat(&self.fd, c".", flags, Mode::empty()) else { return true };
        let list = fgetxattr(&fd, c"system.posix_acl_access", &mut [0; 1][..]);
        !matches!(list, Err(Errno::NODATA | Errno::OPNOTSUPP))
    }
}

/// What is to be done at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is taken.
    GoOn,
    /// It is not, and the path not followed to its end.
    Refuse,
    /// The path ends here, if it is its last name: a link is not followed.
    End,
}

/// The end of a path.
#[derive(Debug)]
pub struct Place {
    /// The folder that the last name is in.
    pub folder: Held,
    /// The last name; `.` if the path leads to the folder itself.
    pub name: OsString,
    /// What has this name, nothing if there is nothing. It is no link, unless one was to be the end.
    pub found: Option<Found>,
    /// The path's last name is a link, so that this one is elsewhere.
    pub is_by_link: bool,
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

/// Follows a path. `judge` is asked about each step that is there, links and the last name too: with the folder that it is in (none for the
/// root and for the folder that this process is in), and with what it is. Also about each folder that is left by `..`, for its name may have
/// been given to another one meanwhile.
pub fn walk(path: &Path, judge: &dyn Fn(Option<&Held>, &Held) -> Verdict) -> Result<Place, Error> {
    let mut text = path.as_os_str().as_bytes().to_vec();
    let (mut at, mut links, mut is_by_link) = (0, 0, false);
    let mut here = start(&text, judge)?;
    let (name, found) = loop {
        let (from, to) = next_name(&text, at);
        let name = text.get(from..to).unwrap_or_default();
        if name.is_empty() {
            break (&b"."[..], Some(here.found));
        }
        let is_last = next_name(&text, to).0 == text.len();
        let next = match hold(here.fd.as_fd(), name) {
            Err(Errno::NOENT) if is_last && name != b".." => break (name, None),
            next => next?,
        };
        let verdict = match name {
            b".." => match judge(Some(&next), &here) {
                Verdict::Refuse => Verdict::Refuse,
                _ => judge(None, &next),
            },
            _ => judge(Some(&here), &next),
        };
        if verdict == Verdict::Refuse {
            return Err(refused(name, &next));
        }
        let kind = next.found.kind();
        is_by_link |= is_last && kind == FileType::Symlink;
        if is_last && kind != FileType::Directory && (kind != FileType::Symlink || verdict == Verdict::End) {
            break (name, Some(next.found));
        }
        if kind != FileType::Symlink {
            (at, here) = (to, next);
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        let mut target = read_link(&next)?;
        target.extend_from_slice(text.get(to..).unwrap_or_default());
        (at, text) = (0, target);
        if text.first() == Some(&b'/') {
            here = start(&text, judge)?;
        }
    };
    Ok(Place { name: OsStr::from_bytes(name).to_owned(), folder: here, found, is_by_link })
}

/// The folder that a path starts from.
fn start(path: &[u8], judge: &dyn Fn(Option<&Held>, &Held) -> Verdict) -> Result<Held, Error> {
    let name = match path.first() {
        None => return Err(Errno::NOENT.into()),
        Some(b'/') => b"/",
        Some(_) => b".",
    };
    let start = hold(CWD, name)?;
    match judge(None, &start) {
        Verdict::Refuse => Err(refused(name, &start)),
        _ => Ok(start),
    }
}

#[inline(never)]
fn hold(folder: BorrowedFd<'_>, name: &[u8]) -> Result<Held, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(folder, name, flags, Mode::empty())?;
    let found = Found::from(fstat(&fd)?);
    Ok(Held { fd, found })
}

#[inline(never)]
fn refused(name: &[u8], what: &Held) -> Error {
    Error::Refused { name: OsStr::from_bytes(name).to_owned(), owner: what.found.owner }
}

/// What a link says.
pub fn read_link(link: &Held) -> Result<Vec<u8>, Errno> {
    /// No link says more (Linux: `PATH_MAX`).
    const LONGEST: usize = 4096;
    let mut target = vec![0; LONGEST];
    let len = readlinkat_raw(&link.fd, c"", target.as_mut_slice())?;
    target.truncate(len);
    Ok(target)
}

/// From where to where the first name of a path goes that says something, after so many bytes of it.
fn next_name(path: &[u8], after: usize) -> (usize, usize) {
    let is_end = |at: usize| path.get(at).is_none_or(|&byte| byte == b'/');
    let mut from = after;
    while from < path.len() && (is_end(from) || path.get(from) == Some(&b'.') && is_end(from + 1)) {
        from += 1;
    }
    let mut to = from;
    while !is_end(to) {
        to += 1;
    }
    (from, to)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    use super::*;

    fn all(_: Option<&Held>, _: &Held) -> Verdict {
        Verdict::GoOn
    }

    #[test]
    fn a_path_ends_in_a_folder_that_is_held() {
        let place = tempfile::tempdir().unwrap();
        let (folder, other) = (place.path().join("a"), place.path().join("b"));
        fs::create_dir(&folder).unwrap();
        let found = walk(&folder.join("./../a//new"), &all).unwrap();
        assert_eq!((found.name.to_str(), found.found, found.is_by_link), (Some("new"), None, false));
        fs::rename(&folder, &other).unwrap();
        let path = fs::read_link(format!("/proc/self/fd/{}", found.folder.fd.as_raw_fd())).unwrap();
        assert_eq!(path, fs::canonicalize(&other).unwrap());
        let whole = walk(&other, &all).unwrap();
        assert_eq!((whole.name.to_str(), whole.found), (Some("."), Some(whole.folder.found)));
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
        let note = |_: Option<&Held>, step: &Held| {
            kinds.borrow_mut().push(step.found.kind());
            Verdict::GoOn
        };
        walk(&path("link/file"), &note).unwrap();
        let kinds = kinds.into_inner();
        let last = kinds.get(kinds.len() - 3..).unwrap();
        assert_eq!(last, [FileType::Symlink, FileType::Directory, FileType::RegularFile]);
        let at_links = |verdict| {
            move |_: Option<&Held>, step: &Held| match step.found.kind() {
                FileType::Symlink => verdict,
                _ => Verdict::GoOn,
            }
        };
        let refused = walk(&path("link/file"), &at_links(Verdict::Refuse));
        assert!(matches!(refused, Err(Error::Refused { name, .. }) if name == "link"));
        let kind = |name: &str| walk(&path(name), &at_links(Verdict::End)).unwrap().found.unwrap().kind();
        assert_eq!((kind("link"), kind("link/file")), (FileType::Symlink, FileType::RegularFile));
    }

    #[test]
    fn names_are_what_is_between_slashes() {
        let names = |path: &str| {
            let (mut at, mut names) = (0, Vec::new());
            loop {
                let (from, to) = next_name(path.as_bytes(), at);
                if from == to {
                    return names.join(" ");
                }
                names.push(path.get(from..to).unwrap().to_owned());
                at = to;
            }
        };
        let cases = [
            ("", ""),
            ("/", ""),
            ("./.", ""),
            ("a", "a"),
            ("//a/./b//", "a b"),
            ("..", ".."),
            ("/.a/../b./.", ".a .. b."),
        ];
        for (path, expected) in cases {
            assert_eq!(names(path), expected, "{path}");
        }
    }
}
