//! Which traces are meant: files, folders, patterns.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use ferretto_import::is_trace;

use crate::failure::Failure;

/// Traces of one command: what is known of each is kept.
const MAX_TRACES: usize = 1 << 20;
/// Folders within folders. No tree of anybody's is deeper, and paths have an end, too.
const MAX_DEPTH: usize = 64;
/// Bytes that say what a file is.
const HEAD_BYTES: u64 = 64 << 10;
/// What makes a pattern of a name.
const PATTERN: [char; 3] = ['*', '?', '['];

/// Whether this may stand for several traces. A file is a file, whatever it is called.
pub(crate) fn is_several(path: &Path) -> bool {
    path.is_dir() || scheme(path).is_some() || is_pattern(path)
}

fn is_pattern(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.contains(PATTERN)) && fs::symlink_metadata(path).is_err()
}

/// `s3` of `s3://bucket/traces`.
fn scheme(path: &Path) -> Option<&str> {
    let (scheme, _) = path.to_str()?.split_once("://")?;
    let is_word = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_word && fs::symlink_metadata(path).is_err()).then_some(scheme)
}

/// The traces: of a folder all that lie below it, by what they are and not by their names. Their order is that of the arguments, and of their
/// paths; each is there once.
pub(crate) fn find(args: &[PathBuf]) -> Result<Vec<String>, Failure> {
    let mut found = Found::default();
    for arg in args {
        match scheme(arg) {
            Some(scheme) => return Err(no_store(arg, scheme)),
            None if is_pattern(arg) => found.matching(arg)?,
            None => found.named(arg)?,
        }
    }
    if found.paths.is_empty() {
        return Err(Failure::new(format!(
            "there is no trace in {}",
            args.iter().map(|arg| arg.display().to_string()).collect::<Vec<_>>().join(", ")
        )));
    }
    Ok(found.paths)
}

fn no_store(arg: &Path, scheme: &str) -> Failure {
    let failure =
        Failure::new(format!("{} is not on this machine, and {scheme}:// is not read", arg.display()));
    failure.help("copy the traces to a folder, and name that")
}

#[derive(Default)]
struct Found {
    paths: Vec<String>,
    seen: std::collections::HashSet<String>,
}

impl Found {
    /// A file, whatever it is, or what lies in a folder.
    fn named(&mut self, path: &Path) -> Result<(), Failure> {
        match path.is_dir() {
            true => self.below(path, 0),
            false => self.push(path),
        }
    }

    fn matching(&mut self, pattern: &Path) -> Result<(), Failure> {
        let text = pattern.display().to_string();
        let fail = |error: &dyn std::fmt::Display| Failure::new(format!("{text} is no pattern: {error}"));
        let before = self.paths.len();
        for path in glob::glob(&text).map_err(|error| fail(&error))? {
            self.named(&path.map_err(|error| Failure::of("read", error.path(), error.error()))?)?;
        }
        match self.paths.len() > before {
            true => Ok(()),
            false => Err(Failure::new(format!("no trace matches {text}"))),
        }
    }

    fn below(&mut self, folder: &Path, depth: usize) -> Result<(), Failure> {
        if depth >= MAX_DEPTH {
            return Err(Failure::new(format!(
                "{} lies more than {MAX_DEPTH} folders deep",
                folder.display()
            )));
        }
        let fail = |error| Failure::of("read", folder, error);
        let entries = fs::read_dir(folder).map_err(fail)?.collect::<Result<Vec<_>, _>>().map_err(fail)?;
        let mut paths: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let Ok(meta) = fs::symlink_metadata(&path) else { continue };
            if meta.is_dir() {
                self.below(&path, depth + 1)?;
            } else if path.is_file() && seems_a_trace(&path) {
                // A link to a folder may lead around.
                self.push(&path)?;
            }
        }
        Ok(())
    }

    fn push(&mut self, path: &Path) -> Result<(), Failure> {
        let path = path.to_string_lossy().into_owned();
        if self.seen.insert(path.clone()) {
            self.paths.push(path);
        }
        match self.paths.len() > MAX_TRACES {
            true => Err(Failure::new(format!("there are more than {MAX_TRACES} traces"))),
            false => Ok(()),
        }
    }
}

/// Whether it is to be asked: also one that cannot be looked into, so that somebody hears of it.
fn seems_a_trace(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    read.is_err() || is_trace(&head)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &[u8] = b"\x0a\x02\x40\x01";

    fn found(dir: &Path, args: &[&str]) -> Vec<String> {
        let args: Vec<_> = args.iter().map(|arg| dir.join(arg)).collect();
        let strip = |path: String| Path::new(&path).strip_prefix(dir).unwrap().display().to_string();
        find(&args).unwrap().into_iter().map(strip).collect()
    }

    #[test]
    fn a_folder_is_all_traces_below_by_what_they_are() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("b/c")).unwrap();
        for (name, bytes) in [
            ("z", TRACE),
            ("b/c/x.txt", TRACE),
            ("b/notes", b"a text\n"),
            ("b/trace.json", b"{\"traceEvents\": []}"),
            ("b/package.json", b"{\"name\": \"x\"}"),
            ("empty", b""),
        ] {
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        assert_eq!(found(dir.path(), &[""]), ["b/c/x.txt", "b/trace.json", "z"]);
        assert_eq!(found(dir.path(), &["z", "b/notes", ""]), ["z", "b/notes", "b/c/x.txt", "b/trace.json"]);
        assert_eq!(found(dir.path(), &["b/*"]), ["b/c/x.txt", "b/notes", "b/package.json", "b/trace.json"]);
        assert_eq!(found(dir.path(), &["**/*.txt", "not there"]), ["b/c/x.txt", "not there"]);
        assert!(find(&[dir.path().join("nothing*")]).is_err());
        assert!(find(&[PathBuf::from("s3://bucket/traces")]).is_err());
    }

    #[test]
    fn a_file_is_one_trace_whatever_it_is_called() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a[1]*.pftrace");
        assert!(is_several(&path) && is_several(dir.path()));
        fs::write(&path, TRACE).unwrap();
        assert!(!is_several(&path) && !is_several(Path::new("-")));
        assert!(is_several(Path::new("gs://bucket/x.pftrace")));
    }
}
