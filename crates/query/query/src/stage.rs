//! Outputs: none has its good name before it is whole, and what never becomes whole is removed, whether by an error or by a signal.
//!
//! A file or folder is written beside its target, as `TARGET.partial`, and renamed at the end. A thread waits for the signals that end a
//! program: it removes what is unfinished, and lets the signal do what it does. It holds [`UNFINISHED`] from then on, which everybody takes who
//! makes a file or gives one its good name.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferretto_analysis::Stop;
use ferretto_convert::{Error, Folder, Out, manifest};
use rustix::fs::{CWD, RenameFlags};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::Failure;

/// Traces hold command lines and file names: what is made of them is for the user's own eyes, too.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;
/// Written at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Names tried beside the target: those of programs that were killed may be there.
const MAX_PARTIAL_NAMES: u32 = 100;

/// What a signal removes.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// What Ctrl-C ends, if that is not the program.
static INTERRUPTED: Mutex<Option<Stop>> = Mutex::new(None);

/// While there is one of these, Ctrl-C ends queries that were asked with its [`Stop`], and not the program; the second one does.
#[derive(Debug)]
pub(crate) struct Interruptible(pub(crate) Stop);

impl Interruptible {
    pub(crate) fn new() -> Self {
        let stop = Stop::new();
        *INTERRUPTED.lock().unwrap_or_else(PoisonError::into_inner) = Some(stop.clone());
        Self(stop)
    }
}

impl Drop for Interruptible {
    fn drop(&mut self) {
        INTERRUPTED.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Ends what may be ended, if there is something.
fn interrupt() -> bool {
    let stop = INTERRUPTED.lock().unwrap_or_else(PoisonError::into_inner).take();
    stop.map(|stop| stop.stop()).is_some()
}

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on Ctrl-C and its like leave nothing unfinished behind.
pub(crate) fn watch_signals() -> Result<(), Failure> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let watched = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(&status, *signal));
    let mut signals =
        Signals::new(watched).map_err(|error| Failure::new(format!("cannot watch signals: {error}")))?;
    let watch = move || {
        for signal in signals.forever() {
            if signal == SIGINT && interrupt() {
                continue;
            }
            let unfinished = unfinished();
            unfinished.iter().for_each(|path| remove(path));
            // Does not come back; until then nobody makes a file.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
            drop(unfinished);
        }
    };
    let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(watch);
    thread.map(drop).map_err(|error| Failure::new(format!("cannot start a thread: {error}")))
}

/// Whether a signal was ignored from the start, as under `nohup`: it stays so.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 != 0
}

fn remove(path: &Path) {
    // Nobody is left who could do more about it.
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

/// Stdout; binary formats are refused where they would garble a terminal.
pub(crate) fn stdout(is_binary: bool) -> Result<impl Write + Send, Failure> {
    let stdout = io::stdout();
    if is_binary && stdout.is_terminal() {
        return Err(
            Failure::new("the format is binary: it would garble the terminal").help("name a file with -o")
        );
    }
    Ok(BufWriter::with_capacity(BUFFER_BYTES, stdout))
}

/// What is written beside its target.
#[derive(Debug)]
struct Unfinished {
    partial: PathBuf,
    target: PathBuf,
}

impl Unfinished {
    fn beside(target: &Path, make: impl Fn(&Path) -> io::Result<()>) -> Result<Self, Failure> {
        for attempt in 0..MAX_PARTIAL_NAMES {
            let partial = partial_name(target, attempt);
            let mut unfinished = unfinished();
            match make(&partial) {
                Ok(()) => {
                    unfinished.push(partial.clone());
                    return Ok(Self { partial, target: target.to_owned() });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Failure::of("write", target, error)),
            }
        }
        let names = partial_name(target, 0);
        let failure = Failure::new(format!("too many unfinished outputs beside {}", target.display()));
        Err(failure.help(format!("remove those named {}…", names.display())))
    }

    /// Gives it its good name; a folder that is there is replaced as a whole, if its owner wants that.
    fn finish(&self) -> io::Result<()> {
        let mut unfinished = unfinished();
        if self.target.is_dir() {
            rustix::fs::renameat_with(CWD, &self.partial, CWD, &self.target, RenameFlags::EXCHANGE)?;
            // What was there has the other name now.
            fs::remove_dir_all(&self.partial)?;
        } else {
            fs::rename(&self.partial, &self.target)?;
        }
        unfinished.retain(|path| *path != self.partial);
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let mut unfinished = unfinished();
        if unfinished.contains(&self.partial) {
            remove(&self.partial);
            unfinished.retain(|path| *path != self.partial);
        }
    }
}

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct NewFile {
    to: BufWriter<File>,
    /// Nothing for pipes and devices, which cannot be renamed.
    unfinished: Option<Unfinished>,
}

impl NewFile {
    pub(crate) fn create(target: &Path) -> Result<Self, Failure> {
        let with = |file, unfinished| Self { to: BufWriter::with_capacity(BUFFER_BYTES, file), unfinished };
        match fs::metadata(target) {
            Ok(meta) if meta.is_dir() => {
                Err(Failure::new(format!("{} is a folder", target.display())).help("name a file with -o"))
            }
            Ok(meta) if !meta.is_file() => {
                let file = OpenOptions::new().write(true).open(target);
                file.map(|file| with(file, None)).map_err(|error| Failure::of("write", target, error))
            }
            there => {
                // Through a symbolic link, what it points to is replaced and the link stays.
                let target = there
                    .ok()
                    .and_then(|_| fs::canonicalize(target).ok())
                    .unwrap_or_else(|| target.to_owned());
                let unfinished = Unfinished::beside(&target, |path| new_file(path).map(drop))?;
                let file = OpenOptions::new().write(true).open(&unfinished.partial);
                let file = file.map_err(|error| Failure::of("write", &target, error))?;
                Ok(with(file, Some(unfinished)))
            }
        }
    }

    /// It is whole. Says how large it is.
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        self.to.flush()?;
        let bytes = self.to.get_ref().metadata().map_or(0, |meta| meta.len());
        self.unfinished.as_ref().map_or(Ok(()), Unfinished::finish)?;
        Ok(bytes)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// A folder that is being written.
#[derive(Debug)]
pub(crate) struct NewFolder<F> {
    unfinished: Unfinished,
    /// Hears the name of each file.
    each: F,
}

impl<F: FnMut(&str)> NewFolder<F> {
    /// `replace` a folder that is there, if it is one of ours.
    pub(crate) fn create(target: &Path, replace: bool, each: F) -> Result<Self, Failure> {
        match fs::symlink_metadata(target) {
            Err(_) => {}
            Ok(meta) if !meta.is_dir() => {
                return Err(Failure::new(format!("{} is there, and is no folder", target.display()))
                    .help("name another folder with -o"));
            }
            Ok(_) if fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_none()) => {}
            Ok(_) if !target.join(manifest::FILE_NAME).is_file() => {
                return Err(Failure::new(format!("{} is a folder with other files", target.display()))
                    .help("name another folder with -o"));
            }
            Ok(_) if replace => {}
            Ok(_) => {
                return Err(Failure::new(format!("{} is there already", target.display()))
                    .help("--force replaces it; or name another folder with -o"));
            }
        }
        let make = |path: &Path| DirBuilder::new().mode(FOLDER_MODE).create(path);
        Ok(Self { unfinished: Unfinished::beside(target, make)?, each })
    }

    /// It is whole. Says how large its files are.
    pub(crate) fn finish(self) -> io::Result<u64> {
        let files = fs::read_dir(&self.unfinished.partial)?;
        let bytes = files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum();
        self.unfinished.finish()?;
        Ok(bytes)
    }
}

impl<F: FnMut(&str)> Folder for NewFolder<F> {
    fn create(&mut self, name: &str) -> Result<Box<Out<'_>>, Error> {
        (self.each)(name);
        let _guard = unfinished();
        let file = new_file(&self.unfinished.partial.join(name))?;
        Ok(Box::new(BufWriter::with_capacity(BUFFER_BYTES, file)))
    }
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)
}

/// `x/` is `x`: the unfinished folder lies beside it, not in it.
fn partial_name(target: &Path, attempt: u32) -> PathBuf {
    let mut name = target.components().as_path().as_os_str().to_owned();
    name.push(".partial");
    if attempt > 0 {
        name.push(format!(".{attempt}"));
    }
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn write_folder(target: &Path, replace: bool, finish: bool) -> Result<(), Failure> {
        let mut folder = NewFolder::create(target, replace, |_| {})?;
        for name in ["a", manifest::FILE_NAME] {
            let mut out = Folder::create(&mut folder, name).unwrap();
            out.write_all(b"text").unwrap();
            out.flush().unwrap();
        }
        if finish {
            assert_eq!(folder.finish().unwrap(), 8);
        }
        Ok(())
    }

    #[test]
    fn a_file_has_its_name_when_it_is_whole_and_leaves_nothing_if_not() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x.csv");
        fs::write(&target, "old").unwrap();
        let mut file = NewFile::create(&target).unwrap();
        file.write_all(b"new text").unwrap();
        assert_eq!(names(dir.path()), ["x.csv", "x.csv.partial"]);
        drop(file);
        assert_eq!(
            (names(dir.path()), fs::read_to_string(&target).unwrap()),
            (vec!["x.csv".to_owned()], "old".to_owned())
        );
        let mut file = NewFile::create(&target).unwrap();
        file.write_all(b"new text").unwrap();
        assert_eq!(file.finish().unwrap(), 8);
        assert_eq!(
            (names(dir.path()), fs::read_to_string(&target).unwrap()),
            (vec!["x.csv".to_owned()], "new text".to_owned())
        );
    }

    #[test]
    fn a_folder_has_its_name_when_it_is_whole_and_leaves_nothing_if_not() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x/");
        write_folder(&target, false, false).unwrap();
        assert!(names(dir.path()).is_empty());
        write_folder(&target, false, true).unwrap();
        assert_eq!(
            (names(dir.path()), names(&target)),
            (vec!["x".to_owned()], vec!["a".to_owned(), "manifest.json".to_owned()])
        );
    }

    #[test]
    fn a_folder_is_replaced_only_if_it_is_ours_and_somebody_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let (ours, others) = (dir.path().join("ours"), dir.path().join("others"));
        write_folder(&ours, false, true).unwrap();
        fs::write(ours.join("old"), "").unwrap();
        assert!(write_folder(&ours, false, true).is_err());
        write_folder(&ours, true, true).unwrap();
        assert_eq!(names(&ours), ["a", "manifest.json"]);
        fs::create_dir(&others).unwrap();
        write_folder(&others, false, true).unwrap();
        fs::remove_file(others.join(manifest::FILE_NAME)).unwrap();
        assert!(write_folder(&others, true, true).is_err());
        assert_eq!(names(dir.path()), ["others", "ours"]);
    }

    #[test]
    fn what_was_ignored_stays_so() {
        let status = "Name:\tx\nSigIgn:\t0000000000001001\n";
        assert_eq!([1, 2, 13].map(|signal| is_ignored(status, signal)), [true, false, true]);
    }
}
