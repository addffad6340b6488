//! Files of `/proc/PID` for which the kernel looks into the process's memory: `cmdline`, `environ` and `smaps_rollup`.
//!
//! Such a read takes the lock of that memory (`mmap_lock`) and, when the file is opened, perhaps one that `execve` holds. A process can hold both
//! for as long as it likes: let it map a file of a FUSE file system of its own that does not answer. So they are read on a thread that does
//! nothing else, many in one go, and a read that does not come back is left behind with its thread. `maps`, `auxv` and `io` would wait, too.
//! What is read may also be as large as the process likes (`PR_SET_MM_MAP`), or be long in coming: of each file a beginning is read, and of each
//! user's processes as many as can be in a certain time.
//! `stat`, `status`, `comm`, `oom_score_adj`, `exe`, `task` and `fd` do not: they take spin locks only (Linux: fs/proc/array.c, base.c, fd.c).

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::CWD;

use crate::proc_fs::{leading_u64, read_at, read_beginning_at, read_start, words};

/// After so long a read that waits is given up. A whole batch takes a millisecond or two, and a page that comes from a disk less than this;
/// twice as long the kernel's buffers may wait to be read.
const PATIENCE: Duration = Duration::from_millis(50);
/// After so long one that does not wait is, too: adding up the pages of the largest processes takes tenths of a second.
const PATIENCE_AT_WORK: Duration = Duration::from_millis(250);
/// For so long, or until it comes back if that is later, a read that was given up counts; and for so long the time that reads have taken.
const MEMORY: Duration = Duration::from_secs(10);
/// Reads of one user's processes that count before no more of them are read: nobody has the probes wait for more than a fiftieth of the time.
const MAX_GIVEN_UP_OF_USER: usize = 4;
/// The same for all users. Each may be a thread that waits.
const MAX_GIVEN_UP: usize = 16;
/// Processes that are read in one go: the thread is woken once for all of them.
pub(crate) const BATCH: usize = 128;
/// A batch ends early when it has read so much, or for so long: then whose time it was is counted.
const BATCH_BYTES: usize = 1 << 20;
const BATCH_TIME: Duration = Duration::from_millis(20);
/// A read that took less did not wait for a processor for long: it is not looked up.
const SHORT_READ: Duration = Duration::from_millis(1);

/// A file of `/proc/PID`, and what may be spent on it.
#[derive(Debug)]
pub struct MemoryFile {
    name: &'static str,
    /// Of each no more is read.
    max_bytes: usize,
    /// Of a user's processes no more are read once they have taken so long, or given so much, within [`MEMORY`].
    user_time: Duration,
    user_bytes: usize,
}

impl MemoryFile {
    /// The command line. A beginning of four pages has more than all that people type; a fiftieth of the time for a user, and more text than
    /// thousands of ordinary processes have.
    pub const CMDLINE: Self = Self {
        name: "cmdline",
        max_bytes: 16 << 10,
        user_time: Duration::from_millis(200),
        user_bytes: 4 << 20,
    };
    /// The environment at its start, which programs may have replaced.
    pub const ENVIRON: Self = Self {
        name: "environ",
        max_bytes: 128 << 10,
        user_time: Duration::from_millis(500),
        user_bytes: 64 << 20,
    };
    /// The sums over its memory. The kernel adds up pages for it, which takes milliseconds of an honest process: a user may have half the time.
    pub const SMAPS_ROLLUP: Self = Self {
        name: "smaps_rollup",
        max_bytes: 4 << 10,
        user_time: Duration::from_secs(5),
        user_bytes: usize::MAX,
    };
    /// Where its descriptors lead: nothing that one waits for, but as many and as long paths as a process likes. Who reads them asks
    /// [`is_spent`](MemoryFiles::is_spent).
    pub(crate) const FDS: Self = Self {
        name: "fd",
        max_bytes: usize::MAX,
        user_time: Duration::from_millis(500),
        user_bytes: 8 << 20,
    };
}

/// A process that is to be read, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The process.
    pub pid: i32,
    /// The user who is to blame if it does not come back.
    pub uid: u32,
}

/// Reads such files, and does not wait for those who keep them.
#[derive(Debug)]
pub struct MemoryFiles {
    /// /proc.
    folder: Arc<Path>,
    /// Waits for work; none before there is some.
    helper: Option<Helper>,
    given_up: Vec<GivenUp>,
    /// By file and user.
    spent: HashMap<(&'static str, u32), Spent>,
    has_said: bool,
    has_said_full: bool,
    has_said_cut: bool,
}

/// What one user's files have taken.
#[derive(Clone, Copy, Debug)]
struct Spent {
    since: Instant,
    time: Duration,
    bytes: usize,
    has_said: bool,
}

/// Tells how long a thread has worked, or has waited for something other than a processor: those are not the fault of whose file it reads.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Its `schedstat`, where the kernel keeps one.
    file: Option<File>,
    queued: Duration,
}

/// The thread that reads.
#[derive(Debug)]
struct Helper {
    jobs: Sender<Arc<Job>>,
    /// Where the kernel says whether it waits.
    stat: String,
}

/// Files that are read in one go.
#[derive(Debug)]
struct Job {
    folder: Arc<Path>,
    file: &'static MemoryFile,
    targets: Vec<Target>,
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Progress {
    /// What has been read, one after the other.
    bytes: Vec<u8>,
    /// Of each target so far where its text ends; none if it could not be read.
    ends: Vec<Option<usize>>,
    /// How long each took.
    times: Vec<Duration>,
    /// The thread has done with it.
    is_over: bool,
    /// Nobody waits for it any more.
    is_given_up: bool,
}

/// A read that did not come back in time.
#[derive(Debug)]
struct GivenUp {
    target: Target,
    at: Instant,
    job: Arc<Job>,
}

impl Default for MemoryFiles {
    fn default() -> Self {
        Self::below(Path::new("/proc"))
    }
}

impl MemoryFiles {
    /// Reads in another folder than /proc.
    pub(crate) fn below(folder: &Path) -> Self {
        Self {
            folder: folder.into(),
            helper: None,
            given_up: Vec::new(),
            spent: HashMap::new(),
            has_said: false,
            has_said_full: false,
            has_said_cut: false,
        }
    }

    /// Reads `file` of each and hands it on with the number of its target, in their order; none for what cannot be read, or not in time. Of a
    /// long one it is the beginning.
    pub fn read(
        &mut self,
        file: &'static MemoryFile,
        targets: &[Target],
        each: impl FnMut(usize, Option<&[u8]>),
    ) {
        self.read_until(None, file, targets, each);
    }

    /// As [`read`](Self::read), but begins with no more once it is so late; with how many it has done, which is one at least if there is one.
    pub fn read_until(
        &mut self,
        deadline: Option<Instant>,
        file: &'static MemoryFile,
        targets: &[Target],
        mut each: impl FnMut(usize, Option<&[u8]>),
    ) -> usize {
        self.forgive();
        let mut next = 0;
        let is_late = |next| next > 0 && deadline.is_some_and(|deadline| Instant::now() >= deadline);
        while next < targets.len() && !is_late(next) {
            let rest = targets.get(next..).unwrap_or_default();
            let refused = rest.iter().take_while(|target| self.refuses(file, **target)).count();
            (next..next + refused).for_each(|number| each(number, None));
            next += refused;
            let rest = rest.get(refused..).unwrap_or_default();
            let batch: Vec<Target> =
                rest.iter().take(BATCH).take_while(|target| !self.refuses(file, **target)).copied().collect();
            if batch.is_empty() {
                continue;
            }
            let count = batch.len();
            let done = match self.read_batch(file, batch) {
                Ok(job) => {
                    self.count(&job);
                    job.hand_on(|number, text| each(next + number, text))
                }
                Err(error) => {
                    let file = file.name;
                    tracing::error!("{file} of {count} processes could not be read: no thread: {error}");
                    (next..next + count).for_each(|number| each(number, None));
                    count
                }
            };
            next += done;
        }
        next
    }

    /// The next thread that reads is a new one, with the priority that the caller has now.
    pub(crate) fn renew_thread(&mut self) {
        self.helper = None;
    }

    /// Lets the thread read a batch, or its beginning. The last that was begun may have been given up.
    fn read_batch(&mut self, file: &'static MemoryFile, targets: Vec<Target>) -> io::Result<Arc<Job>> {
        let job = Arc::new(Job {
            folder: self.folder.clone(),
            file,
            targets,
            progress: Mutex::default(),
            changed: Condvar::new(),
        });
        let helper = match self.helper.take() {
            Some(helper) => helper,
            None => Helper::start()?,
        };
        let sent = helper.jobs.send(job.clone());
        sent.map_err(|_| io::Error::other("it has ended"))?;
        match job.wait(&helper) {
            None => self.helper = Some(helper),
            Some(target) => self.give_up(target, &job),
        }
        Ok(job)
    }

    fn give_up(&mut self, target: Target, job: &Arc<Job>) {
        let text = format!(
            "{} of process {} (user {}) is left out: the process lets nobody look into its memory",
            job.file.name, target.pid, target.uid
        );
        match std::mem::replace(&mut self.has_said, true) {
            false => tracing::error!("{text}"),
            true => tracing::warn!("{text}"),
        }
        self.given_up.push(GivenUp { target, at: Instant::now(), job: job.clone() });
        if self.given_up.len() >= MAX_GIVEN_UP && !std::mem::replace(&mut self.has_said_full, true) {
            tracing::error!(
                "command lines and smaps_rollup are left out of all processes for a while: {MAX_GIVEN_UP} processes have let nobody look into their memory"
            );
        }
    }

    /// Puts what a batch took on the accounts of its users.
    fn count(&mut self, job: &Job) {
        let progress = job.progress();
        let mut start = 0;
        for ((target, end), time) in job.targets.iter().zip(&progress.ends).zip(&progress.times) {
            let bytes = end.map_or(0, |end| end - start);
            start = end.unwrap_or(start);
            self.spend(job.file, *target, *time, bytes);
            if bytes >= job.file.max_bytes && !std::mem::replace(&mut self.has_said_cut, true) {
                tracing::warn!(
                    "{} of process {} (user {}), and of others perhaps, is cut after {} bytes",
                    job.file.name,
                    target.pid,
                    target.uid,
                    job.file.max_bytes
                );
            }
        }
    }

    /// Whether no more of this user's processes is to be read for a while.
    pub(crate) fn is_spent(&mut self, file: &MemoryFile, target: Target) -> bool {
        self.forgive();
        self.spent.get(&(file.name, target.uid)).is_some_and(|spent| spent.is_all(file))
    }

    /// Puts what was read of a process on the account of its user.
    pub(crate) fn spend(&mut self, file: &'static MemoryFile, target: Target, time: Duration, bytes: usize) {
        let none = || Spent { since: Instant::now(), time: Duration::ZERO, bytes: 0, has_said: false };
        let spent = self.spent.entry((file.name, target.uid)).or_insert_with(none);
        spent.time += time;
        spent.bytes = spent.bytes.saturating_add(bytes);
        if spent.is_all(file) && !std::mem::replace(&mut spent.has_said, true) {
            tracing::warn!(
                "{} of more processes of user {} is left out for up to {} s: it has taken {} ms and {} bytes",
                file.name,
                target.uid,
                MEMORY.as_secs(),
                spent.time.as_millis(),
                spent.bytes
            );
        }
    }

    /// Whether it is not to be tried now.
    fn refuses(&self, file: &MemoryFile, target: Target) -> bool {
        if self.spent.get(&(file.name, target.uid)).is_some_and(|spent| spent.is_all(file)) {
            return true;
        }
        let of_user = self.given_up.iter().filter(|given_up| given_up.target.uid == target.uid).count();
        self.given_up.len() >= MAX_GIVEN_UP
            || of_user >= MAX_GIVEN_UP_OF_USER
            || self.given_up.iter().any(|given_up| given_up.target.pid == target.pid)
    }

    /// Forgets what is long ago and has come back.
    fn forgive(&mut self) {
        if !self.given_up.is_empty() {
            self.given_up
                .retain(|given_up| !given_up.job.progress().is_over || given_up.at.elapsed() < MEMORY);
        }
        self.spent.retain(|_, spent| spent.since.elapsed() < MEMORY);
    }
}

impl Spent {
    /// Whether there is no more to spend.
    fn is_all(&self, file: &MemoryFile) -> bool {
        self.time >= file.user_time || self.bytes >= file.user_bytes
    }
}

impl Meter {
    /// Of this thread.
    pub(crate) fn new() -> Self {
        let mut meter = Self { file: File::open("/proc/thread-self/schedstat").ok(), queued: Duration::ZERO };
        meter.queued = meter.queued();
        meter
    }

    /// For how long the thread has worked and waited for other things since then, when it was last asked.
    pub(crate) fn since(&mut self, then: Instant) -> Duration {
        let elapsed = then.elapsed();
        if elapsed < SHORT_READ {
            return elapsed;
        }
        let now = self.queued();
        let before = std::mem::replace(&mut self.queued, now);
        elapsed.saturating_sub(self.queued.saturating_sub(before))
    }

    /// For how long it has waited for a processor, ever (Linux: Documentation/scheduler/sched-stats.rst).
    fn queued(&self) -> Duration {
        let mut text = [0; 64];
        let read = self.file.as_ref().and_then(|file| read_start(file, &mut text).ok()).unwrap_or(0);
        let queued_ns = words(text.get(..read).unwrap_or_default()).nth(1).and_then(leading_u64);
        Duration::from_nanos(queued_ns.unwrap_or(0))
    }
}

impl Helper {
    fn start() -> io::Result<Self> {
        let (jobs, work) = channel();
        let (tell, told) = channel();
        let body = move || {
            let _ = tell.send(rustix::thread::gettid());
            Self::run(&work);
        };
        std::thread::Builder::new().name("probes-memory".to_owned()).spawn(body)?;
        let tid = told.recv().map_err(io::Error::other)?;
        Ok(Self { jobs, stat: format!("/proc/self/task/{}/stat", tid.as_raw_nonzero()) })
    }

    /// Until nobody has more work. It is never joined: it may be in a read that does not come back.
    fn run(work: &Receiver<Arc<Job>>) {
        let mut meter = Meter::new();
        for job in work {
            job.run(&mut meter);
        }
    }

    /// Whether the kernel has it wait for something, and not for a processor.
    fn waits(&self) -> bool {
        let mut stat = Vec::new();
        read_at(CWD, self.stat.as_str(), &mut stat);
        let state = stat.iter().rposition(|&b| b == b')').and_then(|at| stat.get(at + 2));
        state != Some(&b'R')
    }
}

impl Job {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// On the helper's thread.
    fn run(&self, meter: &mut Meter) {
        let folder = self.folder.display();
        let (mut path, mut text) = (String::new(), vec![0; self.file.max_bytes]);
        let started = Instant::now();
        for (number, target) in self.targets.iter().enumerate() {
            path.clear();
            // Writing to a string cannot fail.
            let _ = write!(path, "{folder}/{}/{}", target.pid, self.file.name);
            let began = Instant::now();
            let read = read_beginning_at(CWD, path.as_str(), &mut text);
            let time = meter.since(began);
            let is_last = number + 1 >= self.targets.len() || started.elapsed() >= BATCH_TIME;
            if self.progress().add(read.and_then(|read| text.get(..read)), time, is_last) {
                break;
            }
        }
        self.changed.notify_one();
    }

    /// Waits until it is over; else says whose file is given up.
    fn wait(&self, helper: &Helper) -> Option<Target> {
        let (mut at, mut since) = (0, Instant::now());
        loop {
            let is_going_on = |progress: &mut Progress| !progress.is_over;
            let waited = self.changed.wait_timeout_while(self.progress(), PATIENCE, is_going_on);
            let progress = waited.unwrap_or_else(PoisonError::into_inner).0;
            if progress.is_over {
                return None;
            }
            if progress.ends.len() > at {
                (at, since) = (progress.ends.len(), Instant::now());
            }
            drop(progress);
            // On a busy machine, or with much to add up, it is only slow. Without the lock: it would wait for that.
            let is_hopeless = helper.waits() || since.elapsed() > PATIENCE_AT_WORK;
            let mut progress = self.progress();
            if progress.is_over {
                return None;
            }
            if is_hopeless && progress.ends.len() == at {
                progress.is_given_up = true;
                progress.ends.push(None);
                // Counted otherwise.
                progress.times.push(Duration::ZERO);
                return self.targets.get(at).copied();
            }
        }
    }

    /// Hands on what has been read; how many that was.
    fn hand_on(&self, mut each: impl FnMut(usize, Option<&[u8]>)) -> usize {
        let (bytes, ends) = self.progress().take();
        let mut start = 0;
        for (number, end) in ends.iter().enumerate() {
            each(number, end.and_then(|end| bytes.get(start..end)));
            start = end.unwrap_or(start);
        }
        ends.len()
    }
}

impl Progress {
    /// Adds the next file, and how long it took; true if it was the last.
    fn add(&mut self, text: Option<&[u8]>, time: Duration, is_last: bool) -> bool {
        if !self.is_given_up {
            self.bytes.extend_from_slice(text.unwrap_or_default());
            self.ends.push(text.map(|_| self.bytes.len()));
            self.times.push(time);
        }
        self.is_over = self.is_given_up || is_last || self.bytes.len() >= BATCH_BYTES;
        self.is_over
    }

    fn take(&mut self) -> (Vec<u8>, Vec<Option<usize>>) {
        (std::mem::take(&mut self.bytes), std::mem::take(&mut self.ends))
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use std::fs::File;
    use std::path::PathBuf;

    use rustix::fs::{FileType, Mode};

    use super::*;

    /// A folder as /proc is, where a process lets nobody look into its memory: its file is a pipe, which takes as long to open as nobody writes.
    pub(crate) struct Folder(pub(crate) PathBuf);

    impl Folder {
        pub(crate) fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("ferretto-memory-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir(&folder).unwrap();
            Self(folder)
        }

        pub(crate) fn answers(&self, pid: i32, file: &str, text: &str) {
            std::fs::create_dir_all(self.0.join(pid.to_string())).unwrap();
            std::fs::write(self.path(pid, file), text).unwrap();
        }

        pub(crate) fn hangs(&self, pid: i32, file: &str) {
            std::fs::create_dir_all(self.0.join(pid.to_string())).unwrap();
            let mode = Mode::RUSR | Mode::WUSR;
            rustix::fs::mknodat(CWD, self.path(pid, file), FileType::Fifo, mode, 0).unwrap();
        }

        /// Whoever has waited goes on.
        pub(crate) fn lets_go(&self, pid: i32, file: &str) {
            drop(File::options().write(true).open(self.path(pid, file)).unwrap());
        }

        fn path(&self, pid: i32, file: &str) -> PathBuf {
            self.0.join(format!("{pid}/{file}"))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::Folder;
    use super::*;

    fn read(files: &mut MemoryFiles, targets: &[Target]) -> Vec<Option<String>> {
        let mut texts = Vec::new();
        files.read(&MemoryFile::CMDLINE, targets, |number, text| {
            assert_eq!(number, texts.len());
            texts.push(text.map(|text| String::from_utf8_lossy(text).into_owned()));
        });
        assert_eq!(texts.len(), targets.len());
        texts
    }

    fn of_user(uid: u32, pids: impl IntoIterator<Item = i32>) -> Vec<Target> {
        pids.into_iter().map(|pid| Target { pid, uid }).collect()
    }

    fn threads() -> usize {
        let names = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        names
            .filter(|task| {
                std::fs::read(task.path().join("comm")).is_ok_and(|name| name == b"probes-memory\n")
            })
            .count()
    }

    #[test]
    fn many_are_read_in_their_order_with_those_who_are_gone_between_them() {
        let folder = Folder::new("order");
        let pids = || (1..=300).filter(|pid| pid % 7 != 0);
        pids().for_each(|pid| folder.answers(pid, "cmdline", &format!("program {pid}")));
        folder.answers(100, "cmdline", &"x".repeat(MemoryFile::CMDLINE.max_bytes + 1));
        let mut files = MemoryFiles::below(&folder.0);
        let texts = read(&mut files, &of_user(1, 1..=300));
        for (pid, text) in (1..).zip(&texts) {
            match pid {
                100 => assert_eq!(text.as_ref().map(String::len), Some(MemoryFile::CMDLINE.max_bytes)),
                _ if pid % 7 == 0 => assert_eq!(*text, None),
                _ => assert_eq!(text.as_deref(), Some(format!("program {pid}").as_str())),
            }
        }
        assert!(files.helper.is_some() && files.given_up.is_empty() && files.has_said_cut);
    }

    #[test]
    fn a_users_processes_are_read_for_so_long_and_so_much_within_a_time() {
        let folder = Folder::new("budget");
        let long = "x".repeat(MemoryFile::CMDLINE.max_bytes);
        (1..=400).for_each(|pid| folder.answers(pid, "cmdline", &long));
        folder.answers(1000, "cmdline", "honest");
        let mut files = MemoryFiles::below(&folder.0);
        let honest = of_user(2, [1000]);
        let texts = read(&mut files, &[of_user(1, 1..=400), honest.clone()].concat());
        let count = texts.iter().flatten().count() - 1;
        // As much as is allowed, and what was read in one go with it.
        let most = (MemoryFile::CMDLINE.user_bytes + BATCH_BYTES) / long.len();
        assert!(count <= most && count > 0, "{count}");
        assert_eq!(texts.last().unwrap().as_deref(), Some("honest"));

        let of_third = of_user(3, [1]);
        files.spend(&MemoryFile::CMDLINE, of_third[0], MemoryFile::CMDLINE.user_time / 2, 0);
        assert!(read(&mut files, &of_third)[0].is_some());
        files.spend(&MemoryFile::CMDLINE, of_third[0], MemoryFile::CMDLINE.user_time / 2, 0);
        assert_eq!(read(&mut files, &of_third), [None]);
        assert!(!files.refuses(&MemoryFile::SMAPS_ROLLUP, of_third[0]), "each file has its own");
        files.spent.values_mut().for_each(|spent| spent.since -= MEMORY);
        assert!(read(&mut files, &of_third)[0].is_some());
    }

    #[test]
    fn what_is_late_is_not_begun() {
        let folder = Folder::new("late");
        (1..=300).for_each(|pid| folder.answers(pid, "cmdline", "honest"));
        let mut files = MemoryFiles::below(&folder.0);
        let mut numbers = Vec::new();
        let late = Some(Instant::now());
        let targets = of_user(1, 1..=300);
        let done = files.read_until(late, &MemoryFile::CMDLINE, &targets, |number, _| numbers.push(number));
        assert!((1..=BATCH).contains(&done), "{done}");
        assert_eq!(numbers, Vec::from_iter(0..done));
    }

    #[test]
    fn who_keeps_a_read_waiting_is_left_behind_and_read_again_when_it_lets_go() {
        let folder = Folder::new("hangs");
        [1, 3, 4].iter().for_each(|pid| folder.answers(*pid, "cmdline", "honest"));
        folder.hangs(2, "cmdline");
        let mut files = MemoryFiles::below(&folder.0);
        let honest = Some("honest".to_owned());
        let started = Instant::now();
        let expected = [honest.clone(), None, honest.clone(), honest.clone()];
        assert_eq!(read(&mut files, &of_user(1, 1..=4)), expected);
        assert!(started.elapsed() >= PATIENCE);
        let started = Instant::now();
        assert_eq!(read(&mut files, &of_user(1, 1..=4)), expected);
        assert!(started.elapsed() < PATIENCE || files.given_up.len() > 1, "nobody waits for it twice");
        assert_eq!(files.given_up.len(), 1);

        folder.lets_go(2, "cmdline");
        let until = Instant::now() + Duration::from_secs(20);
        while !files.given_up[0].job.progress().is_over {
            assert!(Instant::now() < until);
            std::thread::yield_now();
        }
        files.given_up[0].at -= MEMORY;
        std::fs::remove_file(folder.0.join("2/cmdline")).unwrap();
        folder.answers(2, "cmdline", "honest");
        assert_eq!(read(&mut files, &of_user(1, 1..=4)), vec![honest; 4]);
    }

    #[test]
    fn threads_that_wait_are_bounded_for_a_user_and_for_all() {
        let folder = Folder::new("bounds");
        (1..=40).for_each(|pid| folder.hangs(pid, "cmdline"));
        folder.answers(100, "cmdline", "honest");
        let mut files = MemoryFiles::below(&folder.0);
        let honest = of_user(1000, [100]);
        let hostile = of_user(1, 1..=8);
        assert_eq!(
            read(&mut files, &[hostile, honest.clone()].concat()).last().unwrap().as_deref(),
            Some("honest")
        );
        assert_eq!(files.given_up.len(), MAX_GIVEN_UP_OF_USER);

        let many_users: Vec<Target> = (9..=40).map(|pid| Target { pid, uid: pid.cast_unsigned() }).collect();
        read(&mut files, &many_users);
        assert_eq!(files.given_up.len(), MAX_GIVEN_UP);
        assert_eq!(read(&mut files, &honest), [None]);
        assert!(files.has_said_full && threads() >= MAX_GIVEN_UP);
        // Neither it nor the process waits for them at its end.
        drop(files);
        (1..=40).for_each(|pid| {
            let pipe = folder.0.join(format!("{pid}/cmdline"));
            let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
            // Fails where nobody waits.
            drop(rustix::fs::open(pipe, flags, rustix::fs::Mode::empty()));
        });
    }
}
