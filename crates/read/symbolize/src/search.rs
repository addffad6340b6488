//! Where programs and their debug information may lie, as debuggers look for them (gdb: "Debugging Information in Separate Files").
//!
//! Paths come from a trace, and from files that it names. Only files are opened, and none that is another one than was recorded.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::time::Duration;

use ferretto_symbols::{Elf, lines};
use object::ReadCache;
use rustix::fs::OFlags;

/// What a file may have. Programs with all of their debug information have some gigabytes.
const MAX_FILE_BYTES: u64 = 8 << 30;
/// `debuginfod-find` gives up by itself if nothing comes for a minute and a half.
const DEBUGINFOD_TIMEOUT: Duration = Duration::from_secs(600);
/// What it says is a path (PATH_MAX).
const MAX_ANSWER_BYTES: u64 = 8 << 10;
/// What the kernel adds to the path of a file that was deleted.
const DELETED: &[u8] = b" (deleted)";
/// Where distributions put debug information.
const SYSTEM: &str = "/usr/lib/debug";

/// Where to look, beside the paths themselves.
#[derive(Debug, Default)]
pub struct Search {
    /// Folders that somebody has named, with programs or debug information in them.
    pub folders: Vec<PathBuf>,
    /// Folders that are made like `/usr/lib/debug`.
    pub roots: Vec<PathBuf>,
    /// Folders of debuginfod's client: what it has fetched.
    pub caches: Vec<PathBuf>,
    /// Who is asked for what is nowhere else.
    pub servers: Option<Servers>,
}

/// The servers of debuginfod that the environment names, as its tool asks them.
#[derive(Debug)]
pub struct Servers {
    tool: PathBuf,
    /// It did not answer.
    gave_up: AtomicBool,
}

/// A file that is open.
pub(crate) struct Opened {
    pub(crate) path: PathBuf,
    pub(crate) cache: ReadCache<File>,
}

impl Search {
    /// What the environment says of debuginfod's cache and servers, and `/usr/lib/debug`.
    pub fn from_environment(folders: Vec<PathBuf>, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let said = |name: &str| variable(name).filter(|value| !value.is_empty());
        let home_cache = || said("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let cache = said("XDG_CACHE_HOME").map(PathBuf::from).or_else(home_cache);
        let caches = said("DEBUGINFOD_CACHE_PATH").map(PathBuf::from);
        let caches = caches.or_else(|| cache.map(|cache| cache.join("debuginfod_client")));
        let programs = said("PATH").filter(|_| said("DEBUGINFOD_URLS").is_some());
        let tool = programs.and_then(|paths| {
            let tools = std::env::split_paths(&paths).map(|folder| folder.join("debuginfod-find"));
            tools.into_iter().find(|tool| tool.is_absolute() && tool.is_file())
        });
        let roots = vec![PathBuf::from(SYSTEM)];
        Self { folders, roots, caches: caches.into_iter().collect(), servers: tool.map(Servers::new) }
    }

    /// Where the program itself may be.
    pub(crate) fn programs(&self, path: &Path) -> Vec<PathBuf> {
        let path = existing(path);
        let mut paths = vec![path.clone()];
        for folder in &self.folders {
            paths.push(folder.join(below(&path)));
            paths.extend(path.file_name().map(|name| folder.join(name)));
        }
        paths
    }

    /// Where a file of this build id may be that has debug information: as [`separate_below`] says, and in other places.
    pub(crate) fn by_build_id(&self, path: &Path, build_id: &[u8]) -> Vec<PathBuf> {
        let Some(below) = of_build_id(build_id) else { return Vec::new() };
        let mut paths: Vec<_> =
            self.folders.iter().chain(&self.roots).map(|root| root.join(&below)).collect();
        for folder in &self.folders {
            let name = existing(path).file_name().map(OsStr::to_owned);
            paths.extend(name.map(|name| folder.join(with(&name, ".debug"))));
        }
        paths.extend(self.caches.iter().map(|cache| cache.join(hex(build_id)).join("debuginfo")));
        paths
    }

    /// Where the file may be that a program names (`.gnu_debuglink`).
    pub(crate) fn by_link(&self, program: &Path, link: &[u8]) -> Vec<PathBuf> {
        // It is a name, not a path.
        let Some(name) = Path::new(OsStr::from_bytes(link)).file_name() else { return Vec::new() };
        let mut paths = Vec::new();
        let real = program.canonicalize().ok();
        for folder in [Some(program), real.as_deref()].into_iter().flatten().filter_map(Path::parent) {
            paths.push(folder.join(name));
            paths.push(folder.join(".debug").join(name));
            let below = folder.strip_prefix("/").unwrap_or(folder);
            paths.extend(self.roots.iter().map(|root| root.join(below).join(name)));
        }
        paths.extend(self.folders.iter().map(|folder| folder.join(name)));
        paths
    }

    /// Where what several files share may be, by its name in one of them.
    pub(crate) fn alternates(&self, main: &Path, (name, build_id): (&[u8], &[u8])) -> Vec<PathBuf> {
        let name = Path::new(OsStr::from_bytes(name));
        let mut paths = vec![beside(main, name)];
        paths.extend(main.canonicalize().ok().map(|real| beside(&real, name)));
        let file_name = || name.file_name();
        paths.extend(self.folders.iter().filter_map(|folder| Some(folder.join(file_name()?))));
        paths.extend(self.roots.iter().filter_map(|root| Some(root.join(".dwz").join(file_name()?))));
        paths.extend(self.by_build_id(name, build_id));
        paths
    }

    /// Where the units of a program may be together.
    pub(crate) fn packages(&self, files: &[&Path]) -> Vec<PathBuf> {
        let beside = files.iter().map(|path| PathBuf::from(with(path.as_os_str(), ".dwp")));
        let name = files.first().and_then(|path| path.file_name());
        let named = self.folders.iter().filter_map(|folder| Some(folder.join(with(name?, ".dwp"))));
        beside.chain(named).collect()
    }

    /// Where the file of a unit may be.
    pub(crate) fn units(&self, main: &Path, unit: &lines::Split) -> Vec<PathBuf> {
        let path = Path::new(OsStr::from_bytes(&unit.path));
        let folder = unit.folder.as_deref().map(|folder| Path::new(OsStr::from_bytes(folder)));
        let compiled = folder.map_or_else(|| beside(main, path), |folder| beside(main, &folder.join(path)));
        let mut paths = vec![compiled];
        if let Some(name) = path.file_name() {
            paths.push(beside(main, Path::new(name)));
            paths.extend(self.folders.iter().map(|folder| folder.join(name)));
        }
        paths
    }
}

impl Servers {
    /// `tool` is `debuginfod-find`.
    #[must_use]
    pub fn new(tool: PathBuf) -> Self {
        Self { tool, gave_up: AtomicBool::new(false) }
    }

    /// Where they have put the debug information of this build id.
    pub(crate) fn ask(&self, build_id: &[u8]) -> Option<PathBuf> {
        if self.gave_up.load(Relaxed) || build_id.is_empty() {
            return None;
        }
        let mut command = Command::new(&self.tool);
        command.args(["debuginfo", &hex(build_id)]).stdin(Stdio::null()).stderr(Stdio::null());
        let mut asked = command.stdout(Stdio::piped()).spawn().ok()?;
        let mut stdout = asked.stdout.take()?.take(MAX_ANSWER_BYTES);
        let (answer, answered) = channel();
        std::thread::spawn(move || {
            let mut said = Vec::new();
            let read = stdout.read_to_end(&mut said).map(|_| said);
            // Nobody may wait for it any more.
            let _ = answer.send(read);
        });
        let said = answered.recv_timeout(DEBUGINFOD_TIMEOUT);
        if said.is_err() {
            self.gave_up.store(true, Relaxed);
        }
        // What has answered has no more to do.
        let _ = asked.kill();
        let _ = asked.wait();
        let path = said.ok()?.ok()?;
        let path = PathBuf::from(OsString::from_vec(path.trim_ascii().to_vec()));
        path.is_absolute().then_some(path)
    }
}

impl Opened {
    /// Opens a file, and nothing else.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), cache: ReadCache::new(open(path)?) })
    }

    /// The first of them that is there and has this build id.
    pub(crate) fn of_build_id(paths: &[PathBuf], build_id: &[u8]) -> Option<Self> {
        let has_it = |opened: &Self| Elf::build_id_of(&opened.cache).as_deref() == Some(build_id);
        paths.iter().filter_map(|path| Self::open(path).ok()).find(has_it)
    }

    /// The first of them whose bytes have this sum.
    pub(crate) fn of_sum(paths: &[PathBuf], sum: u32) -> Option<Self> {
        let has_it = |path: &&PathBuf| open(path).and_then(lines::crc32).is_ok_and(|of| of == sum);
        paths.iter().find(has_it).and_then(|path| Self::open(path).ok())
    }
}

/// What is named may be anything: a pipe that nobody writes to, a device.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    if about.len() > MAX_FILE_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(file)
}

/// All bytes of a file that has so many at most.
pub(crate) fn read(path: &Path, most: u64) -> Option<Vec<u8>> {
    let mut file = open(path).ok().filter(|file| file.metadata().is_ok_and(|about| about.len() <= most))?;
    let mut bytes = Vec::new();
    file.rewind().ok()?;
    file.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The path without what the kernel adds to it of files that were deleted: there may be another now, or the same again.
fn existing(path: &Path) -> PathBuf {
    let bytes = path.as_os_str().as_bytes();
    OsStr::from_bytes(bytes.strip_suffix(DELETED).unwrap_or(bytes)).into()
}

/// Where a program is looked for below a folder.
pub(crate) fn below(program: &Path) -> PathBuf {
    let path = existing(program);
    let below = path.strip_prefix("/").unwrap_or(&path);
    let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
    if is_plain { below.to_owned() } else { path.file_name().map(PathBuf::from).unwrap_or_default() }
}

/// Where what was stripped of a program is looked for below a folder.
pub(crate) fn separate_below(separate: &Opened) -> PathBuf {
    let named = || separate.path.file_name().map(PathBuf::from).unwrap_or_default();
    Elf::build_id_of(&separate.cache).as_deref().and_then(of_build_id).unwrap_or_else(named)
}

fn of_build_id(build_id: &[u8]) -> Option<PathBuf> {
    let hex = hex(build_id);
    let (first, rest) = hex.split_at_checked(2).filter(|(_, rest)| !rest.is_empty())?;
    Some(Path::new(".build-id").join(first).join(format!("{rest}.debug")))
}

/// A path as seen from where a file is.
fn beside(file: &Path, path: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new("/")).join(path)
}

fn with(name: &OsStr, ending: &str) -> OsString {
    [name, OsStr::new(ending)].into_iter().collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
