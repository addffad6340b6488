//! Looks into processes and files of strangers, who may let one wait for good: a page of a program's memory, or a file, may be of a file system that
//! never answers (FUSE). So it is done on a thread of its own, which is left behind if it takes too long, and at the cost of whose it is.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use crate::strangers::{FileBooks, Held, Kept, Left, MEMORY, PAUSE, Refused, Whose, Work};

/// What is read in microseconds.
const PROC_TIMEOUT: Duration = Duration::from_millis(100);
const OPEN_TIMEOUT: Duration = Duration::from_secs(1);
/// Of the largest programs symbols take some seconds. A file system of some user's own may not answer at all.
const FILE_TIMEOUT: Duration = Duration::from_secs(60);
const FUSE_TIMEOUT: Duration = Duration::from_secs(2);
/// However little time somebody has left, a busy machine takes so long to have a thread run.
const MIN_TIMEOUT: Duration = Duration::from_millis(50);
/// A process may say as much there as it likes. The maps of a large program are some hundred kilobytes.
const MAX_MAPS_BYTES: u64 = 8 << 20;
/// A path has 4,096, and the rest of a line of maps less than 100.
const MAX_LINE_BYTES: u64 = 4400;
/// Of a command line nobody looks at more (`scope.rs`).
const MAX_CMDLINE_BYTES: u64 = 512;
const MAX_STAT_BYTES: u64 = 4096;
/// What the path of such memory begins with.
const MEMORY_FILE: &[u8] = b" /memfd:";
/// FUSE_SUPER_MAGIC (statfs(2)).
const FUSE: u64 = 0x6573_5546;
/// What took less did not wait for a processor for long.
const SHORT_WORK: Duration = Duration::from_millis(1);

type Job = Box<dyn FnOnce(&mut Meter) + Send>;

/// Whoever looks.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    worker: Option<Sender<Job>>,
    pub(crate) books: FileBooks,
}

/// A process, as nobody else can be taken for it: its number may be another's soon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    /// Who it runs as.
    pub(crate) user: Option<u32>,
    pub(crate) whose: Whose,
    /// In the kernel's ticks since the machine was started, if that is known.
    pub(crate) started: Option<u64>,
}

/// What `/proc` says of a process.
#[derive(Debug, Default)]
pub(crate) struct Process {
    pub(crate) identity: Identity,
    /// The beginning of its file `cmdline`.
    pub(crate) cmdline: Vec<u8>,
    /// What its main thread is called.
    pub(crate) name: Vec<u8>,
    /// Of its file `maps` those lines that are code, or memory of a file that has no place (memfd_create(2)).
    pub(crate) code: Vec<u8>,
    pub(crate) parent: Option<u32>,
    /// On whose account it is kept.
    held: Option<Held>,
}

/// A file that is open.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: File,
    /// At whose cost it is read.
    pub(crate) whose: Whose,
    /// Who owns it.
    pub(crate) owner: u32,
    /// Which it is, if its file system can be believed: device, inode, size, and when it was changed.
    pub(crate) identity: Option<[u64; 5]>,
    is_fuse: bool,
}

impl Identity {
    /// One of which nothing is known any more.
    pub(crate) fn gone(pid: u32, books: &FileBooks) -> Self {
        Self { pid, whose: books.unknown(), ..Self::default() }
    }

    /// A child: it is who its parent is, until it runs another program.
    pub(crate) fn child(self, pid: u32) -> Self {
        Self { pid, started: None, ..self }
    }
}

impl Looks {
    pub(crate) fn with(books: &FileBooks) -> Self {
        Self { worker: None, books: books.clone() }
    }

    /// Who it is. Nobody is waited for: the kernel says it without looking into the process. Nothing if it is gone.
    pub(crate) fn identify(&self, pid: u32) -> Result<Option<Identity>, Refused> {
        let found = folder_of(pid).and_then(|(folder, user)| {
            // Of a process that is gone the kernel says that it is root's: it is there as long as this can be read.
            Ok((user, read_file(&folder, "stat", MAX_STAT_BYTES)?))
        });
        match found {
            Ok((user, stat)) => {
                let (whose, started) = (self.books.whose(user), started_in(&stat));
                Ok(Some(Identity { pid, user: Some(user), whose, started }))
            }
            Err(error) => self.note(error).map_or(Ok(None), Err),
        }
    }

    /// What is said of a process; nothing if there is none.
    pub(crate) fn process(&mut self, pid: u32) -> Result<Process, Refused> {
        let Some(identity) = self.identify(pid)? else {
            return Ok(Process { identity: Identity::gone(pid, &self.books), ..Process::default() });
        };
        let whose = identity.whose;
        let read = self.ask(Work::Processes, whose, PROC_TIMEOUT, move |left| {
            read_process(identity, left.bytes.min(MAX_MAPS_BYTES))
        })?;
        let (mut process, bytes) = match read {
            Ok(read) => read,
            Err(error) => self.note(error).map_or_else(|| Ok(Default::default()), Err)?,
        };
        self.books.spend(Work::Processes, whose, Duration::ZERO, bytes);
        process.identity = identity;
        let size = process.code.len() + process.cmdline.len() + size_of::<Process>();
        process.held = Some(self.books.hold(Kept::Bytes, whose, size).ok_or_else(|| self.later())?);
        Ok(process)
    }

    /// A file that a process has mapped, at this path as it sees it; nothing if there is none. Of a process that is gone it is looked for as this program
    /// sees it.
    pub(crate) fn open_mapped(&mut self, of: Identity, path: &str) -> Result<Option<Opened>, Refused> {
        let path = PathBuf::from(path);
        self.open(of, move || {
            let seen = open_as_seen(of, &path);
            // Who has no descriptors left finds nothing elsewhere either.
            if matches!(seen, Ok(_) | Err(Errno::MFILE | Errno::NFILE)) { seen } else { open(&path) }
        })
    }

    /// A file of somebody's.
    pub(crate) fn open(
        &mut self,
        of: Identity,
        open: impl FnOnce() -> Result<File, Errno> + Send + 'static,
    ) -> Result<Option<Opened>, Refused> {
        let found = self.ask(Work::Files, of.whose, OPEN_TIMEOUT, |_| {
            let file = open()?;
            let stat = fstat(&file)?;
            let is_fuse = rustix::fs::fstatfs(&file).is_ok_and(|of| of.f_type as u64 == FUSE);
            Ok((file, stat, is_fuse))
        })?;
        match found {
            Ok((file, stat, is_fuse)) => {
                let written_by_owner =
                    stat.st_mode & 0o002 == 0 && (stat.st_mode & 0o020 == 0 || stat.st_gid == 0);
                let whose = match (self.books.whose(stat.st_uid), of.whose) {
                    _ if self.books.trust_all() => Whose::Trusted,
                    (Whose::Trusted, _) if written_by_owner && !is_fuse => Whose::Trusted,
                    (_, process @ Whose::Stranger(_)) => process,
                    // A process of root's has it mapped. What a file system of somebody's own says of its owner means nothing.
                    (owner @ Whose::Stranger(_), Whose::Trusted) if !is_fuse => owner,
                    _ => self.books.unknown(),
                };
                #[expect(clippy::useless_conversion, reason = "not of the same type everywhere")]
                let identity = [
                    stat.st_dev.into(),
                    stat.st_ino.into(),
                    stat.st_size.cast_unsigned(),
                    stat.st_ctime.cast_unsigned(),
                    u64::from(stat.st_ctime_nsec),
                ];
                Ok(Some(Opened {
                    file,
                    whose,
                    owner: stat.st_uid,
                    identity: (!is_fuse).then_some(identity),
                    is_fuse,
                }))
            }
            Err(error) => self.note(error).map_or(Ok(None), Err),
        }
    }

    /// Something out of it, and how many bytes that were.
    pub(crate) fn read<T: Send + 'static>(
        &mut self,
        opened: Opened,
        read: impl FnOnce(File, Left) -> (Option<T>, u64) + Send + 'static,
    ) -> Result<Option<T>, Refused> {
        let Opened { file, whose, is_fuse, .. } = opened;
        let timeout = if is_fuse { FUSE_TIMEOUT } else { FILE_TIMEOUT };
        let (found, bytes) = self.ask(Work::Files, whose, timeout, move |left| read(file, left))?;
        self.books.spend(Work::Files, whose, Duration::ZERO, bytes);
        Ok(found)
    }

    fn ask<T: Send + 'static>(
        &mut self,
        work: Work,
        whose: Whose,
        timeout: Duration,
        look: impl FnOnce(Left) -> T + Send + 'static,
    ) -> Result<T, Refused> {
        let left = self.books.left(work, whose)?;
        let timeout = timeout.min(left.time.max(MIN_TIMEOUT));
        let (answer, answered) = channel();
        let is_back = Arc::new(AtomicBool::new(false));
        let comes_back = is_back.clone();
        let job: Job = Box::new(move |meter| {
            let began = Instant::now();
            let found = look(left);
            let time = meter.since(began);
            comes_back.store(true, Ordering::Release);
            // Nobody may wait for it any more.
            let _ = answer.send((found, time));
        });
        if self.worker.is_none() {
            self.worker = start();
        }
        let sent = self.worker.as_ref().is_some_and(|worker| worker.send(job).is_ok());
        match answered.recv_timeout(if sent { timeout } else { Duration::ZERO }) {
            Ok((found, time)) => {
                self.books.spend(work, whose, time, 0);
                Ok(found)
            }
            Err(_) if !sent => {
                self.worker = None;
                Err(self.later())
            }
            Err(_) => {
                tracing::warn!(?whose, "a process or a file of it cannot be looked into: it does not answer");
                self.worker = None;
                self.books.spend(work, whose, timeout, 0);
                self.books.leave_behind(whose, is_back);
                Err(self.later())
            }
        }
    }

    /// Whether it failed for now only.
    fn note(&self, error: Errno) -> Option<Refused> {
        matches!(error, Errno::MFILE | Errno::NFILE).then(|| {
            self.books.pause(error);
            Refused { until: Instant::now() + PAUSE }
        })
    }

    pub(crate) fn later(&self) -> Refused {
        Refused { until: Instant::now() + MEMORY }
    }
}

/// Of a process's folder in `/proc`, which leads nowhere once it is gone, and who it runs as.
fn folder_of(pid: u32) -> Result<(rustix::fd::OwnedFd, u32), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(CWD, format!("/proc/{pid}"), flags, Mode::empty())?;
    let user = fstat(&folder)?.st_uid;
    Ok((folder, user))
}

fn open_file(folder: &rustix::fd::OwnedFd, name: &str) -> Result<File, Errno> {
    openat(folder, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map(File::from)
}

fn read_file(folder: &rustix::fd::OwnedFd, name: &str, most: u64) -> Result<Vec<u8>, Errno> {
    let mut read = Vec::new();
    let result = open_file(folder, name)?.take(most).read_to_end(&mut read);
    result.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(read)
}

/// With how many bytes that were.
fn read_process(identity: Identity, most: u64) -> Result<(Process, u64), Errno> {
    let (folder, _) = folder_of(identity.pid)?;
    let stat = read_file(&folder, "stat", MAX_STAT_BYTES)?;
    // Who has its number by now is somebody else.
    if started_in(&stat) != identity.started {
        return Err(Errno::SRCH);
    }
    let cmdline = read_file(&folder, "cmdline", MAX_CMDLINE_BYTES).unwrap_or_default();
    let (code, bytes) = read_code(BufReader::new(open_file(&folder, "maps")?.take(most)));
    let bytes = bytes + (stat.len() + cmdline.len()) as u64;
    let (name, parent) = (name_in(&stat).to_vec(), parent_in(&stat));
    Ok((Process { cmdline, name, code, parent, ..Process::default() }, bytes))
}

/// The lines of maps that are wanted, and how many bytes were read.
fn read_code(mut maps: impl std::io::BufRead) -> (Vec<u8>, u64) {
    let (mut code, mut line, mut bytes) = (Vec::new(), Vec::new(), 0);
    loop {
        line.clear();
        let read = maps.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line).unwrap_or_default();
        if read == 0 {
            return (code, bytes);
        }
        bytes += read as u64;
        let rights = line.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        let is_wanted =
            rights.contains(&b'x') || line.windows(MEMORY_FILE.len()).any(|part| part == MEMORY_FILE);
        if is_wanted && line.ends_with(b"\n") {
            code.extend_from_slice(&line);
        }
    }
}

/// Fields of `/proc/PID/stat` from the third on: behind the name, which may have anything in it.
fn fields(stat: &[u8]) -> impl Iterator<Item = &str> {
    let end = stat.iter().rposition(|byte| *byte == b')').map_or(stat.len(), |at| at + 1);
    std::str::from_utf8(stat.get(end..).unwrap_or_default()).unwrap_or_default().split_ascii_whitespace()
}

/// The second of them: a name that may have anything in it, in parentheses.
fn name_in(stat: &[u8]) -> &[u8] {
    let start = stat.iter().position(|byte| *byte == b'(').map(|at| at + 1);
    let end = stat.iter().rposition(|byte| *byte == b')');
    start.zip(end).and_then(|(start, end)| stat.get(start..end)).unwrap_or_default()
}

/// The fourth field.
fn parent_in(stat: &[u8]) -> Option<u32> {
    fields(stat).nth(1)?.parse().ok()
}

/// The 22nd: when it was started.
fn started_in(stat: &[u8]) -> Option<u64> {
    fields(stat).nth(19)?.parse().ok()
}

/// A file below the root of a process, if that is still the one that is meant.
pub(crate) fn open_as_seen(of: Identity, path: &Path) -> Result<File, Errno> {
    let (folder, user) = folder_of(of.pid)?;
    let stat = read_file(&folder, "stat", MAX_STAT_BYTES)?;
    let is_same =
        of.user == Some(user) && of.started.is_none_or(|started| started_in(&stat) == Some(started));
    if !is_same {
        return Err(Errno::SRCH);
    }
    let path = path.strip_prefix("/").map_err(|_| Errno::NOENT)?;
    open_at(folder, &Path::new("root").join(path))
}

/// A file, as this program sees it.
pub(crate) fn open(path: &Path) -> Result<File, Errno> {
    open_at(CWD, path)
}

/// Only files, and nothing else is opened: of a device, a pipe or a terminal that may do something, and may wait. A program may have anything mapped, and
/// what it names afterwards may be something else. The paths are those that the kernel has found, in which there are no links.
fn open_at(folder: impl rustix::fd::AsFd, path: &Path) -> Result<File, Errno> {
    let place = openat(folder, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    if rustix::fs::FileType::from_raw_mode(fstat(&place)?.st_mode) != rustix::fs::FileType::RegularFile {
        return Err(Errno::NOENT);
    }
    let place = format!("/proc/self/fd/{}", rustix::fd::AsRawFd::as_raw_fd(&place));
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(CWD, place, flags, Mode::empty()).map(File::from)
}

/// Tells how long a thread has worked or waited for something other than a processor: the rest is nobody's fault whose file it reads.
#[derive(Debug)]
struct Meter {
    queued: Duration,
}

impl Meter {
    fn since(&mut self, then: Instant) -> Duration {
        let elapsed = then.elapsed();
        if elapsed < SHORT_WORK {
            return elapsed;
        }
        let before = std::mem::replace(&mut self.queued, Self::queued());
        elapsed.saturating_sub(self.queued.saturating_sub(before))
    }

    /// For how long the thread has waited for a processor, ever (Linux: Documentation/scheduler/sched-stats.rst).
    fn queued() -> Duration {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let queued_ns = text.split_ascii_whitespace().nth(1).and_then(|word| word.parse().ok());
        Duration::from_nanos(queued_ns.unwrap_or_default())
    }
}

/// A thread that works until nobody asks any more.
fn start() -> Option<Sender<Job>> {
    let (sender, work): (Sender<Job>, Receiver<Job>) = channel();
    let run = move || {
        let mut meter = Meter { queued: Meter::queued() };
        work.iter().for_each(|job| job(&mut meter));
    };
    std::thread::Builder::new().name("looks".to_owned()).spawn(run).ok()?;
    Some(sender)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const HE: Whose = Whose::Stranger(4_000_001);

    fn his() -> Identity {
        Identity { pid: u32::MAX, whose: HE, ..Identity::default() }
    }

    fn own() -> Identity {
        Looks::default().identify(std::process::id()).unwrap().unwrap()
    }

    #[test]
    fn what_does_not_answer_is_left_behind_and_asked_again_when_it_has_come_back() {
        let mut looks = Looks::default();
        let (hold, held) = channel::<()>();
        let held = Arc::new(std::sync::Mutex::new(held));
        for _ in 0..2 {
            let held = held.clone();
            let never = move |_| held.lock().map(|held| held.recv().is_ok()).ok();
            assert!(looks.ask(Work::Files, HE, Duration::from_millis(10), never).is_err());
        }
        looks.books.pass(MEMORY);
        assert!(looks.ask(Work::Files, HE, FILE_TIMEOUT, |_| 7).is_err(), "his are not looked at any more");
        assert_eq!(looks.ask(Work::Files, Whose::Trusted, FILE_TIMEOUT, |_| 7), Ok(7));
        drop(hold);
        let until = Instant::now() + Duration::from_secs(60);
        while looks.ask(Work::Files, HE, FILE_TIMEOUT, |_| 7) != Ok(7) {
            assert!(Instant::now() < until);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn how_long_files_let_one_wait_is_on_their_users_account() {
        let mut looks = Looks::default();
        let slow = || {
            std::thread::sleep(Duration::from_millis(450));
            Err(Errno::NOENT)
        };
        // Each answers, and none is left behind.
        let waited = (0..9).take_while(|_| looks.open(his(), slow).is_ok()).count();
        assert!(waited <= 3, "{waited}");
        assert!(looks.open(his(), || File::open("/proc/self/exe").map_err(|_| Errno::NOENT)).is_err());
        looks.books.pass(MEMORY);
        assert!(looks.open(his(), || Err(Errno::NOENT)).unwrap().is_none());
    }

    #[test]
    fn bytes_of_files_are_on_their_users_account_and_roots_on_nobodys() {
        let mut looks = Looks::default();
        let own = std::env::current_exe().unwrap();
        let opened = looks.open_mapped(his(), own.to_str().unwrap()).unwrap().unwrap();
        // It is this user's.
        assert_eq!(opened.whose, Whose::Trusted);
        assert!(looks.books.left(Work::Files, HE).unwrap().bytes > 10);
        let his_file = Opened { whose: HE, ..opened };
        assert_eq!(looks.read(his_file, |_, left| (Some(left.bytes), left.bytes)).unwrap(), Some(64 << 20));
        assert!(looks.books.left(Work::Files, HE).is_err());
        assert!(looks.open_mapped(his(), own.to_str().unwrap()).is_err(), "it is not even opened");
    }

    #[test]
    fn only_files_are_opened_and_no_links_are_followed() {
        let folder = std::env::temp_dir().join(format!("ferretto-looks-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| folder.join(name);
        std::fs::write(path("file"), "x").unwrap();
        symlink(path("file"), path("link")).unwrap();
        rustix::fs::mknodat(CWD, path("pipe"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(open(&path("file")).is_ok() && open_as_seen(own(), &path("file")).is_ok());
        for name in ["link", "pipe", "none", "."] {
            assert!(open(&path(name)).is_err() && open_as_seen(own(), &path(name)).is_err(), "{name}");
        }
        assert!(open(Path::new("/dev/null")).is_err() && open(Path::new("/dev/tty")).is_err());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_number_that_is_another_processes_by_now_is_nobodys() {
        let own = own();
        assert!(own.whose == Whose::Trusted && own.started.is_some());
        let exe = std::env::current_exe().unwrap();
        assert!(open_as_seen(own, &exe).is_ok() && open_as_seen(own.child(own.pid), &exe).is_ok());
        for other in [
            Identity { started: own.started.map(|at| at + 1), ..own },
            Identity { user: own.user.map(|user| user + 1), ..own },
            Identity { user: None, ..own },
        ] {
            assert_eq!(open_as_seen(other, &exe).unwrap_err(), Errno::SRCH);
        }
        let other = Identity { started: Some(1), ..own };
        assert_eq!(read_process(other, 1000).unwrap_err(), Errno::SRCH);
        assert_eq!(Looks::default().identify(u32::MAX), Ok(None));
    }

    #[test]
    fn of_a_process_what_is_code_is_kept_and_no_more_is_read_than_may_be() {
        let mut looks = Looks::default();
        let found = looks.process(std::process::id()).unwrap();
        assert!(!found.cmdline.is_empty() && !found.code.is_empty());
        assert_eq!(found.parent, Some(std::os::unix::process::parent_id()));
        assert!(looks.process(u32::MAX).unwrap().code.is_empty());
        let line = "7f00-8000 r-xp 00001000 fe:00 1234 /lib\n";
        let maps = format!("{line}8000-9000 rw-p 0 00:00 0 x\n{line}7f00-8000 r-x");
        assert_eq!(read_code(maps.as_bytes()), ([line, line].concat().into_bytes(), maps.len() as u64));
        let long = format!("7f00-8000 r-xp 0 00:00 0 /{}\n{line}", "x".repeat(10_000));
        assert_eq!(read_code(long.as_bytes()).0, line.as_bytes());
    }

    #[test]
    fn without_descriptors_it_is_tried_again_later() {
        let mut looks = Looks::default();
        assert!(looks.open(own(), || Err(Errno::MFILE)).is_err());
        assert!(looks.open(own(), || Err(Errno::NOENT)).is_err(), "it is not even tried");
        assert!(looks.process(std::process::id()).is_err());
        looks.books.pass(PAUSE);
        assert!(looks.open(own(), || Err(Errno::NOENT)).unwrap().is_none());
    }
}
