//! Files of `/proc/PID` for which the kernel looks into the process's memory: `cmdline`, `environ` and `smaps_rollup`.
//!
//! Such a read takes the lock of that memory (`mmap_lock`) and, when the file is opened, perhaps one that `execve` holds. A process can hold both
//! for as long as it likes: let it map a file of a FUSE file system of its own that does not answer. So they are read on a thread that does
//! nothing else, many in one go, and a read that does not come back is left behind with its thread. `maps`, `auxv` and `io` would wait, too.
//! `stat`, `status`, `comm`, `oom_score_adj`, `exe`, `task` and `fd` do not: they take spin locks only (Linux: fs/proc/array.c, base.c, fd.c).

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::CWD;

use crate::proc_fs::{read_at, read_small_at};

/// After so long a read that waits is given up. A whole batch takes a millisecond or two, and a page that comes from a disk less than this;
/// twice as long the kernel's buffers may wait to be read.
const PATIENCE: Duration = Duration::from_millis(50);
/// After so long one that does not wait is, too: adding up the pages of the largest processes takes tenths of a second.
const PATIENCE_AT_WORK: Duration = Duration::from_secs(1);
/// For so long, or until it comes back if that is later, a read that was given up counts.
const MEMORY: Duration = Duration::from_secs(10);
/// Reads of one user's processes that count before no more of them are read: nobody has the probes wait for more than a fiftieth of the time.
const MAX_GIVEN_UP_OF_USER: usize = 4;
/// The same for all users. Each may be a thread that waits.
const MAX_GIVEN_UP: usize = 16;
/// Processes that are read in one go: the thread is woken once for all of them.
pub(crate) const BATCH: usize = 128;
/// A batch ends early when it has read so much: command lines of many megabytes are possible.
const BATCH_BYTES: usize = 1 << 20;

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
    has_said: bool,
    has_said_full: bool,
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
    file: &'static str,
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
            has_said: false,
            has_said_full: false,
        }
    }

    /// Reads `file` of each and hands it on with the number of its target, in their order; none for what cannot be read, or not in time.
    pub fn read(
        &mut self,
        file: &'static str,
        targets: &[Target],
        mut each: impl FnMut(usize, Option<&[u8]>),
    ) {
        self.forgive();
        let mut next = 0;
        while next < targets.len() {
            let rest = targets.get(next..).unwrap_or_default();
            let refused = rest.iter().take_while(|target| self.refuses(**target)).count();
            (next..next + refused).for_each(|number| each(number, None));
            next += refused;
            let rest = rest.get(refused..).unwrap_or_default();
            let batch: Vec<Target> =
                rest.iter().take(BATCH).take_while(|target| !self.refuses(**target)).copied().collect();
            if batch.is_empty() {
                continue;
            }
            let count = batch.len();
            let done = match self.read_batch(file, batch) {
                Ok(job) => job.hand_on(|number, text| each(next + number, text)),
                Err(error) => {
                    tracing::error!("{file} of {count} processes could not be read: no thread: {error}");
                    (next..next + count).for_each(|number| each(number, None));
                    count
                }
            };
            next += done;
        }
    }

    /// The next thread that reads is a new one, with the priority that the caller has now.
    pub(crate) fn renew_thread(&mut self) {
        self.helper = None;
    }

    /// Lets the thread read a batch, or its beginning. The last that was begun may have been given up.
    fn read_batch(&mut self, file: &'static str, targets: Vec<Target>) -> io::Result<Arc<Job>> {
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
            job.file, target.pid, target.uid
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

    /// Whether it is not to be tried now.
    fn refuses(&self, target: Target) -> bool {
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
        for job in work {
            job.run();
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
    fn run(&self) {
        let folder = self.folder.display();
        let (mut path, mut text) = (String::new(), Vec::new());
        for target in &self.targets {
            path.clear();
            // Writing to a string cannot fail.
            let _ = write!(path, "{folder}/{}/{}", target.pid, self.file);
            let is_read = read_small_at(CWD, path.as_str(), &mut text);
            if self.progress().add(is_read.then_some(&text), self.targets.len()) {
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
    /// Adds the next file, of so many; true if it was the last.
    fn add(&mut self, text: Option<&Vec<u8>>, of: usize) -> bool {
        if !self.is_given_up {
            self.bytes.extend_from_slice(text.map_or(&[], Vec::as_slice));
            self.ends.push(text.map(|_| self.bytes.len()));
        }
        self.is_over = self.is_given_up || self.ends.len() >= of || self.bytes.len() >= BATCH_BYTES;
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
        files.read("cmdline", targets, |number, text| {
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
        folder.answers(100, "cmdline", &"x".repeat(BATCH_BYTES + 1));
        let mut files = MemoryFiles::below(&folder.0);
        let texts = read(&mut files, &of_user(1, 1..=300));
        for (pid, text) in (1..).zip(&texts) {
            match pid {
                100 => assert_eq!(text.as_ref().map(String::len), Some(BATCH_BYTES + 1)),
                _ if pid % 7 == 0 => assert_eq!(*text, None),
                _ => assert_eq!(text.as_deref(), Some(format!("program {pid}").as_str())),
            }
        }
        assert!(files.helper.is_some() && files.given_up.is_empty());
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
