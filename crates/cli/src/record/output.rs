//! Where the trace goes: a temporary name beside the target until it is whole, so that a good name never hides half a file.
//!
//! Where others may make names too, as in `/tmp`, a pipe or a link that is there may be somebody's who waits for what is written to it. So the
//! path is followed step by step ([`walk`]), and all that is done is done in the folder that it led to, without following anything further.
//! The kernel's `protected_symlinks` and `protected_fifos` are not everywhere, and do not know pipes that are opened as they are.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use ferretto_ipc::walk::{self, Found, Held, Place, Verdict, walk};
use ferretto_printable::printable;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, fstatfs, ftruncate, openat, renameat, stat,
    statat, unlinkat,
};
use rustix::process::geteuid;

use crate::report::UserError;
use crate::user;

/// Traces hold command lines and file names: for the user's own eyes (as upstream: perfetto_cmd.cc).
const MODE: u32 = 0o600;
/// Names tried for the temporary file before giving up: leftovers of crashed recordings may occupy some.
const MAX_PARTIAL_NAMES: u32 = 100;

/// An opened output.
#[derive(Debug)]
pub(crate) struct Output {
    /// Where the recording is now.
    file: File,
    /// The temporary name, and the good one; absent for pipes, devices and stdout, which cannot be renamed.
    names: Option<Names>,
}

#[derive(Debug)]
struct Names {
    /// Both names are in there.
    folder: OwnedFd,
    partial: OsString,
    target: OsString,
    /// Where the temporary name is, for people.
    partial_path: PathBuf,
    /// The target as the user wrote it.
    shown: PathBuf,
}

impl Output {
    /// Opens `path`, or says why a recording could not be kept there. `-` is stdout.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Self::stdout();
        }
        let place = walk(path, &judge).map_err(|error| cannot_go(path, error))?;
        let ends_in_folder = path.as_os_str().as_bytes().ends_with(b"/");
        match place.found.as_ref().map(Found::kind) {
            Some(FileType::Directory) => Err(is_a_directory(path)),
            _ if ends_in_folder => Err(cannot_write(path, &ErrorKind::NotADirectory.into())),
            Some(FileType::RegularFile) | None => Self::beside(place, path),
            Some(_) => Ok(Self { file: open_special(&place, path)?, names: None }),
        }
    }

    /// Nothing is to be written.
    pub(crate) fn nowhere() -> Result<Self> {
        Self::open(Path::new("/dev/null"))
    }

    fn stdout() -> Result<Self> {
        if io::IsTerminal::is_terminal(&io::stdout()) {
            let error = UserError::new("a trace is binary: it would garble the terminal");
            return Err(error.help("name a file with -o, or pipe the output somewhere").into());
        }
        let file = rustix::io::dup(io::stdout()).context("cannot use stdout")?.into();
        Ok(Self { file, names: None })
    }

    fn beside(place: Place, shown: &Path) -> Result<Self> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        if place.found.is_some() {
            // The rename would replace a file that its owner has protected; the system calls only ask the folder.
            let opened = openat(&place.folder.fd, &place.name, OFlags::WRONLY | flags, Mode::empty());
            opened.map_err(|errno| cannot_write(shown, &errno.into()))?;
        }
        for attempt in 0..MAX_PARTIAL_NAMES {
            let partial = partial_name(&place.name, attempt);
            let new = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | flags;
            match openat(&place.folder.fd, &partial, new, Mode::from_raw_mode(MODE)) {
                Ok(fd) => {
                    let partial_path = folder_path(&place, shown).join(&partial);
                    let Place { folder: Held { fd: folder, .. }, name: target, .. } = place;
                    let names = Names { folder, partial, target, partial_path, shown: shown.to_owned() };
                    return Ok(Self { file: fd.into(), names: Some(names) });
                }
                Err(rustix::io::Errno::EXIST) => {}
                Err(errno) => return Err(cannot_write(shown, &errno.into())),
            }
        }
        let leftover = folder_path(&place, shown).join(partial_name(&place.name, 0));
        Err(UserError::new(format!("too many unfinished recordings beside {}", shown.display()))
            .help(format!("remove the files named {}…", leftover.display()))
            .into())
    }

    /// The file itself, to hand to the service or to write to.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Whether the file can be read back while it grows.
    pub(crate) fn is_readable(&self) -> bool {
        self.names.is_some()
    }

    /// Where the data is while the recording runs, and stays if it is cut short.
    pub(crate) fn partial_path(&self) -> Option<&Path> {
        self.names.as_ref().map(|names| names.partial_path.as_path())
    }

    /// The good name, as the user wrote it.
    pub(crate) fn target_path(&self) -> Option<&Path> {
        self.names.as_ref().map(|names| names.shown.as_path())
    }

    /// Gives the whole trace its good name.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let Some(names) = self.names.take() else { return Ok(()) };
        renameat(&names.folder, &names.partial, &names.folder, &names.target).with_context(|| {
            format!(
                "cannot rename to {}; the trace is in {}",
                names.shown.display(),
                names.partial_path.display()
            )
        })
    }

    /// Leaves nothing of a trace that failed.
    pub(crate) fn discard(&mut self) {
        if let Some(names) = self.names.take() {
            // Nothing is lost if it stays.
            let _ = unlinkat(&names.folder, &names.partial, AtFlags::empty());
        }
    }
}

impl Drop for Output {
    /// A recording that never wrote a byte leaves no file behind; any other keeps its temporary name.
    fn drop(&mut self) {
        if self.names.is_some() && self.file.metadata().is_ok_and(|meta| meta.len() == 0) {
            self.discard();
        }
    }
}

/// Opens a pipe or device.
fn open_special(place: &Place, shown: &Path) -> Result<File> {
    let mut found = place.found;
    let is_link = found.is_some_and(|found| found.kind() == FileType::Symlink);
    if is_link {
        found = statat(&place.folder.fd, &place.name, AtFlags::empty()).ok().map(Found::from);
    }
    // A pipe opened for reading too does not wait for its reader; whatever else might wait is not what was looked at.
    let is_pipe = found.is_some_and(|found| found.kind() == FileType::Fifo);
    let access = if is_pipe { OFlags::RDWR } else { OFlags::WRONLY };
    let follow = if is_link { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = access | follow | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = openat(&place.folder.fd, &place.name, flags, Mode::empty());
    let fd = opened.map_err(|errno| cannot_write(shown, &errno.into()))?;
    if !is_what_was_found(&fd, found) {
        return Err(was_exchanged(shown));
    }
    let flags = fcntl_getfl(&fd).context("cannot use the file")?;
    fcntl_setfl(&fd, flags - OFlags::NONBLOCK).context("cannot use the file")?;
    Ok(fd.into())
}

fn is_what_was_found(fd: &OwnedFd, found: Option<Found>) -> bool {
    let is_same =
        |now: Found| found.is_some_and(|before| (now.device, now.inode) == (before.device, before.inode));
    Found::of(fd).is_ok_and(is_same)
}

fn was_exchanged(shown: &Path) -> anyhow::Error {
    let error = UserError::new(format!("{} was exchanged meanwhile", shown.display()));
    error.help("choose a folder of your own: -o ~/trace.pftrace").into()
}

/// Opens a file to be written under its own name, empty, as `perfetto -o` has it; with as much care as [`Output`]. What is there is kept, if
/// `is_new`, and an error.
pub(crate) fn open_in_place(path: &Path, is_new: bool) -> Result<(Place, File)> {
    let place = walk(path, &judge_in_place).map_err(|error| cannot_go(path, error))?;
    let ends_in_folder = path.as_os_str().as_bytes().ends_with(b"/");
    let opened = match place.found.as_ref().map(Found::kind) {
        Some(FileType::Directory) => return Err(is_a_directory(path)),
        _ if ends_in_folder => return Err(cannot_write(path, &ErrorKind::NotADirectory.into())),
        found if is_new && (found.is_some() || place.is_by_link) => {
            return Err(cannot_write(path, &ErrorKind::AlreadyExists.into()));
        }
        Some(FileType::RegularFile) => open_again(&place, path)?,
        Some(_) => open_special(&place, path)?,
        None => {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let opened = openat(&place.folder.fd, &place.name, flags, Mode::from_raw_mode(MODE));
            opened.map_err(|errno| cannot_write(path, &errno.into()))?.into()
        }
    };
    Ok((place, opened))
}

/// Opens a file that is there, and empties it.
fn open_again(place: &Place, shown: &Path) -> Result<File> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = openat(&place.folder.fd, &place.name, flags, Mode::empty());
    let fd = opened.map_err(|errno| cannot_write(shown, &errno.into()))?;
    if !is_what_was_found(&fd, place.found) {
        return Err(was_exchanged(shown));
    }
    ftruncate(&fd, 0).map_err(|errno| cannot_write(shown, &errno.into()))?;
    Ok(fd.into())
}

/// Removes a file that was opened in place, if it is still there.
pub(crate) fn remove_from_place(place: &Place, file: &File) {
    let now = statat(&place.folder.fd, &place.name, AtFlags::SYMLINK_NOFOLLOW).map(Found::from);
    let is_it =
        |now: Found| now.kind() == FileType::RegularFile && Found::of(file).is_ok_and(|opened| opened == now);
    if now.is_ok_and(is_it) {
        // An empty file that stays does no harm.
        let _ = unlinkat(&place.folder.fd, &place.name, AtFlags::empty());
    }
}

/// As [`judge`], but what a folder's owner has made there is not replaced: it is his, and so would be what is written to it.
fn judge_in_place(folder: Option<&Held>, step: &Held) -> Verdict {
    let is_file = step.found.kind() == FileType::RegularFile;
    match is_file && folder.is_some_and(is_others) && !user::is_as_oneself(step.found.owner) {
        true => Verdict::Refuse,
        false => judge(folder, step),
    }
}

/// Where others may make names, only links and things that are one's own are taken. A file that its folder's owner has made there is
/// replaced, not written to.
fn judge(folder: Option<&Held>, step: &Held) -> Verdict {
    let Some(folder) = folder else { return Verdict::GoOn };
    let is_ones_own = || user::is_as_oneself(step.found.owner);
    let may_be_taken = match step.found.kind() {
        FileType::Directory => true,
        FileType::RegularFile => is_ones_own() || !is_shared(folder),
        // One's own may have been brought there by others.
        FileType::Symlink => !is_others(folder) || is_ones_own() && !is_exchangeable(folder),
        _ => is_ones_own() || !is_others(folder),
    };
    match may_be_taken {
        false => Verdict::Refuse,
        true if step.found.kind() == FileType::Symlink && is_without_path(step) => Verdict::End,
        true => Verdict::GoOn,
    }
}

/// Whether a link is one of /proc to what has no path, as `pipe:[4242]` at `/dev/stdout`, or a file whose name is gone. Others there say the
/// path.
fn is_without_path(link: &Held) -> bool {
    let says_no_path = |target: &[u8]| {
        target.ends_with(b" (deleted)") || target.first() != Some(&b'/') && target.contains(&b':')
    };
    is_of_proc(link) && walk::read_link(link).is_ok_and(|target| says_no_path(&target))
}

fn is_of_proc(step: &Held) -> bool {
    /// Source: linux/magic.h, `PROC_SUPER_MAGIC`.
    const PROC: u64 = 0x9fa0;
    fstatfs(&step.fd).is_ok_and(|system| system.f_type as u64 == PROC)
}

/// Whether others than a folder's owner and this user may make names in it.
fn is_shared(folder: &Held) -> bool {
    folder.is_shared(geteuid().as_raw())
}

/// Whether somebody else may make names in a folder.
fn is_others(folder: &Held) -> bool {
    !is_ones_own(folder) || is_shared(folder)
}

/// Whether somebody else may take names in a folder away, and bring others.
fn is_exchangeable(folder: &Held) -> bool {
    !is_ones_own(folder) || folder.is_lawless(geteuid().as_raw())
}

/// Whether a folder's owner is as good as oneself. In a user name space a hidden user may be the machine's root or a neighbour: there only
/// those folders are taken for root's that can be nobody else's.
fn is_ones_own(folder: &Held) -> bool {
    user::is_as_oneself(folder.found.owner) || user::is_hidden(folder.found.owner) && is_the_systems(folder)
}

/// Whether a folder is the kernel's or the system's wherever the file hierarchy is as it should (hier(7)): `/dev/stdout` leads over these.
fn is_the_systems(folder: &Held) -> bool {
    let Found { device, inode, .. } = folder.found;
    let is_at =
        |path: &str| stat(path).map(Found::from).is_ok_and(|at| (at.device, at.inode) == (device, inode));
    is_of_proc(folder) || is_at("/") || is_at("/dev")
}

fn cannot_go(path: &Path, error: walk::Error) -> anyhow::Error {
    match error {
        walk::Error::System(error) => cannot_write(path, &error),
        walk::Error::Refused { name, owner } => {
            let (path, name) = (path.display().to_string(), Path::new(&name).display().to_string());
            let whose = format!("user {owner}'s, in a folder that others may write to");
            let what = match path.ends_with(&name) {
                true => format!("{path} is {whose}"),
                false => format!("{path} leads over {name}, which is {whose}"),
            };
            UserError::new(printable(&what).into_owned())
                .help("choose another name, or a folder of your own: -o ~/trace.pftrace")
                .help("or let the shell open it, if it is meant to be there: -o - > FILE")
                .into()
        }
    }
}

/// Where the names are: beside the name that the user wrote, unless that is a link to elsewhere.
fn folder_path(place: &Place, shown: &Path) -> PathBuf {
    let beside = || shown.parent().unwrap_or(Path::new("")).to_owned();
    match place.is_by_link {
        true => std::fs::read_link(format!("/proc/self/fd/{}", place.folder.fd.as_raw_fd()))
            .unwrap_or_else(|_| beside()),
        false => beside(),
    }
}

fn partial_name(target: &OsStr, attempt: u32) -> OsString {
    let mut name = target.to_owned();
    name.push(".partial");
    if attempt > 0 {
        name.push(format!(".{attempt}"));
    }
    name
}

fn is_a_directory(path: &Path) -> anyhow::Error {
    let example = path.join("trace.pftrace");
    UserError::new(format!("{} is a directory", path.display()))
        .help(format!("name a file in it: -o {}", example.display()))
        .into()
}

fn cannot_write(path: &Path, error: &io::Error) -> anyhow::Error {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let user_error = UserError::new(format!("cannot write {}: {}", path.display(), plain(error)));
    let advice = match error.kind() {
        ErrorKind::NotFound => format!("the folder {} does not exist: mkdir -p {0}", folder.display()),
        ErrorKind::PermissionDenied => "choose a place of your own: -o ~/trace.pftrace".to_owned(),
        _ => "choose another place with -o".to_owned(),
    };
    user_error.help(advice).into()
}

/// The system's words without `(os error N)`.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

/// The name of a recording that was given none: `trace-YYYYMMDD-HHMMSS.pftrace`, in UTC.
pub(crate) fn default_name(now: SystemTime) -> PathBuf {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let time = date_time(since).replace(['-', ':'], "").replace(' ', "-");
    format!("trace-{time}.pftrace").into()
}

/// `2026-11-24 23:15:02`, of seconds since 1970.
pub(crate) fn date_time(since: u64) -> String {
    let (year, month, day) = civil_from_days(since / 86_400);
    let (hour, minute, second) = (since / 3600 % 24, since / 60 % 60, since % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Gregorian date of a number of days since 1970-01-01, counting in eras of 400 years that begin on a 1 March.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Write};
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    use rustix::fs::CWD;

    use super::*;

    /// Somebody who is not there.
    const STRANGER: u32 = 4242;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_good_name_appears_only_when_the_trace_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let mut output = Output::open(&folder.path().join("t")).unwrap();
        output.file().write_all(b"data").unwrap();
        assert_eq!(names(folder.path()), ["t.partial"]);
        output.finish().unwrap();
        drop(output);
        assert_eq!(names(folder.path()), ["t"]);
    }

    #[test]
    fn a_recording_cut_short_keeps_its_data_beside_the_old_trace() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("t");
        fs::write(&target, b"old").unwrap();
        for _ in 0..2 {
            let output = Output::open(&target).unwrap();
            output.file().write_all(b"half").unwrap();
        }
        assert_eq!(names(folder.path()), ["t", "t.partial", "t.partial.1"]);
        assert_eq!(fs::read(&target).unwrap(), b"old");
    }

    #[test]
    fn a_recording_that_wrote_nothing_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        drop(Output::open(&folder.path().join("t")).unwrap());
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_link_to_a_trace_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("t"), folder.path().join("latest"));
        fs::write(&target, b"old").unwrap();
        symlink(&target, &link).unwrap();
        let mut output = Output::open(&link).unwrap();
        output.file().write_all(b"new").unwrap();
        output.finish().unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"new");
    }

    fn make(folder: &Path, mode: u32) {
        fs::create_dir(folder).unwrap();
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn make_pipe(path: &Path) {
        rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    }

    #[test]
    fn what_others_have_put_there_is_not_written_to() {
        if !geteuid().is_root() {
            return println!("skipped: only root can make things that are another user's");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let of_stranger = |name: &str| lchown(path(name), Some(STRANGER), None).unwrap();
        make(&path("common"), 0o1777);
        make(&path("common/theirs"), 0o755);
        fs::write(path("own"), b"mine").unwrap();
        fs::write(path("common/file"), b"").unwrap();
        fs::write(path("common/theirs/file"), b"").unwrap();
        for pipe in ["common/pipe", "common/theirs/pipe"] {
            make_pipe(&path(pipe));
            of_stranger(pipe);
        }
        for link in ["common/link", "common/theirs/link"] {
            symlink(path("own"), path(link)).unwrap();
            of_stranger(link);
        }
        symlink(path("common/theirs"), path("common/way")).unwrap();
        symlink(path("common/pipe"), path("to-pipe")).unwrap();
        symlink(path("common/way"), path("to-way")).unwrap();
        for name in ["common/file", "common/theirs", "common/theirs/file", "common/way"] {
            of_stranger(name);
        }
        for planted in [
            "common/file",
            "common/link",
            "common/pipe",
            "common/theirs/link",
            "common/theirs/pipe",
            "common/way/new",
            "to-pipe",
            "to-way/new",
        ] {
            assert!(Output::open(&path(planted)).is_err(), "{planted}");
        }
        assert_eq!(fs::read(path("own")).unwrap(), b"mine");
        for free in ["own", "common/new", "common/theirs/new", "common/theirs/file"] {
            let output = Output::open(&path(free)).unwrap();
            assert!(output.partial_path().is_some(), "{free}");
        }
    }

    #[test]
    fn a_folder_for_a_group_is_one_for_all() {
        /// Nobody's own.
        const TEAM: u32 = 4343;
        if !geteuid().is_root() {
            return println!("skipped: only root can make things that are another user's");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        make(&path("share"), 0o755);
        fs::write(path("victim"), b"precious").unwrap();
        fs::write(path("share/file"), b"").unwrap();
        make_pipe(&path("share/pipe"));
        for name in ["share/link", "share/own"] {
            symlink(path("victim"), path(name)).unwrap();
        }
        for name in ["share/file", "share/pipe", "share/link"] {
            lchown(path(name), Some(STRANGER), None).unwrap();
        }
        let refused = |group: u32, mode: u32| {
            lchown(path("share"), None, Some(group)).unwrap();
            fs::set_permissions(path("share"), fs::Permissions::from_mode(mode)).unwrap();
            ["file", "pipe", "link", "own"].map(|name| Output::open(&path("share").join(name)).is_err())
        };
        assert_eq!(refused(TEAM, 0o2775), [true; 4]);
        assert_eq!(refused(TEAM, 0o3775), [true, true, true, false], "nobody else can have brought that one");
        assert_eq!(refused(TEAM, 0o2755), [false; 4], "its owner has made them what they are");
        assert_eq!(refused(0, 0o2775), [false; 4], "nobody else is in root's group");
    }

    #[test]
    fn what_is_written_in_place_is_ones_own() {
        if !geteuid().is_root() {
            return println!("skipped: only root can make things that are another user's");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        make(&path("common"), 0o1777);
        make(&path("theirs"), 0o755);
        fs::write(path("victim"), b"precious").unwrap();
        for name in ["common/file", "theirs/file"] {
            fs::write(path(name), b"").unwrap();
        }
        make_pipe(&path("common/pipe"));
        symlink(path("victim"), path("common/link")).unwrap();
        for name in ["common/file", "common/pipe", "common/link", "theirs/file", "theirs"] {
            lchown(path(name), Some(STRANGER), None).unwrap();
        }
        for planted in ["common/file", "common/pipe", "common/link", "theirs/file"] {
            assert!(open_in_place(&path(planted), false).is_err(), "{planted}");
        }
        assert_eq!(fs::read(path("victim")).unwrap(), b"precious");
        symlink(path("victim"), path("link")).unwrap();
        for own in ["common/new", "common/new", "theirs/new", "link"] {
            let (place, mut file) = open_in_place(&path(own), false).unwrap();
            assert!(open_in_place(&path(own), true).is_err(), "it is there");
            assert_eq!(fs::read(path(own)).unwrap(), b"");
            file.write_all(b"trace").unwrap();
            assert_eq!(fs::read(path(own)).unwrap(), b"trace");
            if own == "link" {
                remove_from_place(&place, &file);
            }
        }
        assert!(path("link").is_symlink() && !path("victim").exists());
        let (place, file) = open_in_place(&path("common/gone"), true).unwrap();
        fs::rename(path("common/gone"), path("moved")).unwrap();
        fs::write(path("common/gone"), b"").unwrap();
        remove_from_place(&place, &file);
        assert!(path("common/gone").exists(), "it is another");
    }

    /// Between the look at a name and its use.
    #[test]
    fn what_others_put_there_meanwhile_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let (target, secret) = (folder.path().join("t"), folder.path().join("secret"));
        fs::write(&secret, b"precious").unwrap();
        let plant: [&dyn Fn(); 2] = [&|| make_pipe(&target), &|| symlink(&secret, &target).unwrap()];
        for plant in plant {
            let mut output = Output::open(&target).unwrap();
            plant();
            output.file().write_all(b"trace").unwrap();
            output.finish().unwrap();
            assert!(fs::symlink_metadata(&target).unwrap().is_file());
            let place = walk(&target, &judge).unwrap();
            fs::remove_file(&target).unwrap();
            plant();
            assert!(Output::beside(place, &target).is_err(), "it was a file");
            fs::remove_file(&target).unwrap();
        }
        assert_eq!(fs::read(&secret).unwrap(), b"precious");
        make_pipe(&target);
        let place = walk(&target, &judge).unwrap();
        fs::rename(&target, folder.path().join("first")).unwrap();
        make_pipe(&target);
        assert!(open_special(&place, &target).is_err(), "another pipe");
    }

    #[test]
    fn a_folder_is_the_same_to_the_end_whatever_its_name_leads_to() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        make(&path("folder"), 0o755);
        make(&path("other"), 0o755);
        let mut output = Output::open(&path("folder/t")).unwrap();
        output.file().write_all(b"trace").unwrap();
        fs::rename(path("folder"), path("moved")).unwrap();
        symlink(path("other"), path("folder")).unwrap();
        output.finish().unwrap();
        assert_eq!((names(&path("moved")), names(&path("other"))), (vec!["t".to_owned()], Vec::new()));
    }

    #[test]
    fn ones_own_pipes_are_written_to() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let pipe = folder.path().join("pipe");
        make_pipe(&pipe);
        let output = Output::open(&pipe).unwrap();
        let mut reader = File::open(&pipe).unwrap();
        output.file().write_all(b"trace").unwrap();
        drop(output);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, b"trace");
        // As `/dev/stdout` and `>(command)` name them.
        let (mut reader, writer) = io::pipe().unwrap();
        let by_number = format!("/proc/self/fd/{}", writer.as_raw_fd());
        let output = Output::open(Path::new(&by_number)).unwrap();
        output.file().write_all(b"trace").unwrap();
        drop((output, writer));
        let nameless = tempfile::tempfile().unwrap();
        let by_number = format!("/proc/self/fd/{}", nameless.as_raw_fd());
        Output::open(Path::new(&by_number)).unwrap().file().write_all(b"trace").unwrap();
        assert_eq!(nameless.metadata().unwrap().len(), 5);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, b"trace");
    }

    #[test]
    fn what_cannot_be_written_is_said_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("no/such/t");
        for path in [folder.path(), &missing, Path::new("/proc/t")] {
            assert!(Output::open(path).is_err(), "{}", path.display());
        }
        assert!(Output::open(Path::new("/dev/null")).unwrap().partial_path().is_none());
    }

    #[test]
    fn names_tell_the_time() {
        let cases = [
            (0, "trace-19700101-000000.pftrace"),
            (951_827_696, "trace-20000229-123456.pftrace"),
            (1_795_239_345, "trace-20261121-053545.pftrace"),
            (4_107_542_399, "trace-21000228-235959.pftrace"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(default_name(UNIX_EPOCH + Duration::from_secs(seconds)), Path::new(expected));
        }
    }
}
