//! Where the trace goes: a temporary name beside the target until it is whole, so that a good name never hides half a file.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use rustix::process::geteuid;

use crate::report::UserError;

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
    partial: PathBuf,
    target: PathBuf,
    /// The target as the user wrote it.
    shown: PathBuf,
}

impl Output {
    /// Opens `path`, or says why a recording could not be kept there. `-` is stdout.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Self::stdout();
        }
        refuse_what_is_planted(path)?;
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => Err(is_a_directory(path)),
            Ok(meta) if !meta.is_file() => Self::special(path, meta.file_type().is_fifo()),
            // Through a symbolic link, what it points to is replaced and the link stays.
            Ok(_) => Self::beside(&fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()), path),
            Err(_) => Self::beside(path, path),
        }
    }

    /// Nothing is to be written.
    pub(crate) fn nowhere() -> Result<Self> {
        Self::special(Path::new("/dev/null"), false)
    }

    fn stdout() -> Result<Self> {
        if std::io::IsTerminal::is_terminal(&std::io::stdout()) {
            let error = UserError::new("a trace is binary: it would garble the terminal");
            return Err(error.help("name a file with -o, or pipe the output somewhere").into());
        }
        let file = rustix::io::dup(std::io::stdout()).context("cannot use stdout")?.into();
        Ok(Self { file, names: None })
    }

    fn special(path: &Path, is_fifo: bool) -> Result<Self> {
        // A pipe opened for reading too does not wait for its reader.
        let file =
            OpenOptions::new().write(true).read(is_fifo).open(path).map_err(|e| cannot_write(path, &e))?;
        Ok(Self { file, names: None })
    }

    fn beside(target: &Path, shown: &Path) -> Result<Self> {
        if target.exists() {
            // The rename would replace a file that its owner has protected; the system calls only ask the folder.
            OpenOptions::new().write(true).open(target).map_err(|e| cannot_write(shown, &e))?;
        }
        for attempt in 0..MAX_PARTIAL_NAMES {
            let partial = partial_name(target, attempt);
            let opened = OpenOptions::new().read(true).write(true).create_new(true).mode(MODE).open(&partial);
            match opened {
                Ok(file) => {
                    return Ok(Self {
                        file,
                        names: Some(Names { partial, target: target.to_owned(), shown: shown.to_owned() }),
                    });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(cannot_write(shown, &error)),
            }
        }
        let leftover = partial_name(target, 0);
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
        self.names.as_ref().map(|names| names.partial.as_path())
    }

    /// The good name, as the user wrote it.
    pub(crate) fn target_path(&self) -> Option<&Path> {
        self.names.as_ref().map(|names| names.shown.as_path())
    }

    /// Gives the whole trace its good name.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let Some(names) = self.names.take() else { return Ok(()) };
        fs::rename(&names.partial, &names.target).with_context(|| {
            format!(
                "cannot rename to {}; the trace is in {}",
                names.target.display(),
                names.partial.display()
            )
        })
    }
}

impl Drop for Output {
    /// A recording that never wrote a byte leaves no file behind; any other keeps its temporary name.
    fn drop(&mut self) {
        let Some(names) = &self.names else { return };
        if self.file.metadata().is_ok_and(|meta| meta.len() == 0) {
            // Nothing is lost if it stays.
            let _ = fs::remove_file(&names.partial);
        }
    }
}

/// Where anybody may make names, as in `/tmp`, a pipe or a link that is there may be another user's, who waits for what is written to it. The
/// kernel's `protected_symlinks` and `protected_fifos` are not everywhere, and do not know pipes that are opened as they are.
fn refuse_what_is_planted(path: &Path) -> Result<()> {
    const OTHERS_WRITE: u32 = 0o002;
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(()) };
    let is_own = meta.uid() == geteuid().as_raw() || meta.uid() == 0;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_common = fs::metadata(folder).is_ok_and(|folder| folder.mode() & OTHERS_WRITE != 0);
    if is_own || !is_common {
        return Ok(());
    }
    Err(UserError::new(format!(
        "{} is user {}'s, in a folder that anybody may write to",
        path.display(),
        meta.uid()
    ))
    .help("choose another name, or a folder of your own: -o ~/trace.pftrace")
    .into())
}

fn partial_name(target: &Path, attempt: u32) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(".partial");
    if attempt > 0 {
        name.push(format!(".{attempt}"));
    }
    name.into()
}

fn is_a_directory(path: &Path) -> anyhow::Error {
    let example = path.join("trace.pftrace");
    UserError::new(format!("{} is a directory", path.display()))
        .help(format!("name a file in it: -o {}", example.display()))
        .into()
}

fn cannot_write(path: &Path, error: &std::io::Error) -> anyhow::Error {
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
pub(crate) fn plain(error: &std::io::Error) -> String {
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
    use std::io::Write;

    use super::*;

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
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let mut output = Output::open(&link).unwrap();
        output.file().write_all(b"new").unwrap();
        output.finish().unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"new");
    }

    #[test]
    fn what_others_have_put_there_is_not_written_to() {
        if !geteuid().is_root() {
            return println!("skipped: only root can make things that are another user's");
        }
        let folder = tempfile::tempdir().unwrap();
        let of_stranger = |path: &Path| std::os::unix::fs::lchown(path, Some(4242), None).unwrap();
        fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o1777)).unwrap();
        let (own, file, link) =
            (folder.path().join("own"), folder.path().join("file"), folder.path().join("link"));
        fs::write(&own, b"").unwrap();
        fs::write(&file, b"").unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        for planted in [&file, &link] {
            of_stranger(planted);
            assert!(Output::open(planted).is_err(), "{}", planted.display());
        }
        Output::open(&own).unwrap();
        fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        Output::open(&file).unwrap();
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
