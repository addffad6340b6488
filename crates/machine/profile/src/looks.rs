//! Looks into processes and files of strangers, who may let one wait for good: a page of a program's memory, or a file, may be of a file system that
//! never answers (FUSE). So it is done on a thread of its own, which is left behind if it takes too long.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// What is read in microseconds.
const PROC_TIMEOUT: Duration = Duration::from_millis(100);
const OPEN_TIMEOUT: Duration = Duration::from_secs(1);
/// Of the largest programs symbols take some seconds. A file system of some user's own may not answer at all.
const FILE_TIMEOUT: Duration = Duration::from_secs(60);
const FUSE_TIMEOUT: Duration = Duration::from_secs(2);
/// A process may say as much there as it likes. The maps of a large program are some hundred kilobytes.
const MAX_PROC_BYTES: u64 = 8 << 20;
/// FUSE_SUPER_MAGIC (statfs(2)).
const FUSE: u64 = 0x6573_5546;
/// Threads that are left behind, of one user's things and of all. Beyond, these are not looked at any more.
const MAX_LEFT_OF_A_USER: usize = 2;
const MAX_LEFT: usize = 16;

type Work = Box<dyn FnOnce() + Send>;

/// Whoever looks.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    worker: Option<Sender<Work>>,
    /// By the user whose they were.
    left_behind: HashMap<u32, usize, RandomState>,
}

/// What `/proc` says of a process: its files `cmdline`, `maps` and `stat`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    pub(crate) cmdline: Vec<u8>,
    pub(crate) maps: Vec<u8>,
    pub(crate) stat: Vec<u8>,
}

impl Looks {
    /// What is said of a process; nothing if there is none.
    pub(crate) fn process(&mut self, pid: u32) -> Process {
        let file = move |name| read_beginning(&format!("/proc/{pid}/{name}")).unwrap_or_default();
        let read = move || Process { cmdline: file("cmdline"), maps: file("maps"), stat: file("stat") };
        self.ask(pid, PROC_TIMEOUT, read).unwrap_or_default()
    }

    /// Something out of a file that a process has mapped.
    pub(crate) fn file<T: Send + 'static>(
        &mut self,
        pid: u32,
        open: impl FnOnce() -> Option<File> + Send + 'static,
        read: impl FnOnce(File) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        let open = || {
            let file = open()?;
            let is_fuse = rustix::fs::fstatfs(&file).is_ok_and(|of| of.f_type as u64 == FUSE);
            Some((file, is_fuse))
        };
        let (file, is_fuse) = self.ask(pid, OPEN_TIMEOUT, open).flatten()?;
        self.ask(pid, if is_fuse { FUSE_TIMEOUT } else { FILE_TIMEOUT }, || read(file)).flatten()
    }

    fn ask<T: Send + 'static>(
        &mut self,
        pid: u32,
        timeout: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        // Whose a process is the kernel says without looking into it. One that is gone makes nobody wait.
        let user = std::fs::metadata(format!("/proc/{pid}")).map_or(0, |process| process.uid());
        let left: usize = self.left_behind.values().sum();
        if left >= MAX_LEFT || self.left_behind.get(&user).is_some_and(|left| *left >= MAX_LEFT_OF_A_USER) {
            return None;
        }
        let (answer, answered) = channel();
        let work: Work = Box::new(move || {
            // Nobody may wait for it any more.
            let _ = answer.send(work());
        });
        if self.worker.is_none() {
            self.worker = start();
        }
        self.worker.as_ref()?.send(work).ok()?;
        let found = answered.recv_timeout(timeout).ok();
        if found.is_none() {
            tracing::warn!(pid, user, "a process or a file of it cannot be looked into: it does not answer");
            self.worker = None;
            *self.left_behind.entry(user).or_default() += 1;
        }
        found
    }
}

fn read_beginning(path: &str) -> std::io::Result<Vec<u8>> {
    let mut read = Vec::new();
    File::open(path)?.take(MAX_PROC_BYTES).read_to_end(&mut read)?;
    Ok(read)
}

/// A thread that works until nobody asks any more.
fn start() -> Option<Sender<Work>> {
    let (sender, work): (Sender<Work>, Receiver<Work>) = channel();
    let run = move || work.iter().for_each(|work| work());
    std::thread::Builder::new().name("looks".to_owned()).spawn(run).ok()?;
    Some(sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_answer_is_left_behind_and_not_asked_again() {
        let mut looks = Looks::default();
        let own = std::process::id();
        let found = looks.process(own);
        assert!([found.cmdline, found.maps, found.stat].iter().all(|text| !text.is_empty()));
        assert_eq!(looks.process(u32::MAX).maps, b"");
        assert_eq!(looks.file(own, || File::open("/proc/self/exe").ok(), |_| Some(7)), Some(7));
        assert_eq!(looks.file(own, || None, |_| Some(7)), None);
        let (hold, held) = channel::<()>();
        let held = std::sync::Arc::new(std::sync::Mutex::new(held));
        for _ in 0..MAX_LEFT_OF_A_USER {
            let held = held.clone();
            let never = move || held.lock().map(|held| held.recv().is_ok()).ok();
            assert_eq!(looks.ask(own, Duration::from_millis(10), never), None);
        }
        assert_eq!(looks.ask(own, FILE_TIMEOUT, || 7), None, "this user's are not looked at any more");
        drop(hold);
    }
}
