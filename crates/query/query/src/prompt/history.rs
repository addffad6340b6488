//! What was typed at the prompt, kept from one time to the next: a line an entry, in a file that only its owner reads.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

/// Entries that are kept.
const MAX_ENTRIES: usize = 1000;
/// Bytes of a file that is read: it is the user's, but may have become anything.
const MAX_BYTES: u64 = 8 << 20;

/// The entries. Where there is no place for a file they are gone at the end, which is no reason to end before.
#[derive(Debug)]
pub(crate) struct History {
    path: Option<PathBuf>,
    entries: Vec<String>,
}

impl History {
    /// That of this user.
    pub(crate) fn open() -> Self {
        Self::at(place())
    }

    fn at(path: Option<PathBuf>) -> Self {
        let is_small = |path: &PathBuf| path.metadata().is_ok_and(|meta| meta.len() <= MAX_BYTES);
        let text = path.as_ref().filter(|path| is_small(path)).and_then(|path| fs::read_to_string(path).ok());
        let mut entries: Vec<String> = text.iter().flat_map(|text| text.lines()).map(unescaped).collect();
        entries.drain(..entries.len().saturating_sub(MAX_ENTRIES));
        Self { path, entries }
    }

    /// The oldest first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(String::as_str)
    }

    /// Keeps one more.
    pub(crate) fn add(&mut self, entry: &str) {
        self.entries.push(entry.to_owned());
        // Else it is kept for this time only.
        let _ = self.write(entry);
    }

    fn write(&mut self, entry: &str) -> std::io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        if self.entries.len() > 2 * MAX_ENTRIES {
            self.entries.drain(..self.entries.len() - MAX_ENTRIES);
            let lines: String = self.entries.iter().map(|entry| escaped(entry) + "\n").collect();
            let beside = path.with_extension("new");
            let _ = fs::remove_file(&beside);
            options().create_new(true).open(&beside)?.write_all(lines.as_bytes())?;
            return fs::rename(beside, path);
        }
        let mut file: File = options().create(true).append(true).open(path)?;
        file.write_all((escaped(entry) + "\n").as_bytes())
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    // Queries name what is in traces.
    options.write(true).mode(0o600);
    options
}

/// `$XDG_STATE_HOME/ferretto/history`, or below the home folder.
fn place() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("ferretto/history"))
}

fn escaped(entry: &str) -> String {
    entry.replace('\\', "\\\\").replace('\n', "\\n")
}

fn unescaped(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line.chars();
    while let Some(it) = rest.next() {
        match it {
            '\\' => match rest.next() {
                Some('n') => out.push('\n'),
                Some(other) => out.push(other),
                None => {}
            },
            it => out.push(it),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_there_the_next_time_and_no_more_than_a_thousand() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/ferretto/history");
        let mut history = History::at(Some(path.clone()));
        history.add("select 1,\n  '\\n';");
        history.add("\\d slice");
        assert_eq!(History::at(Some(path.clone())).entries, ["select 1,\n  '\\n';", "\\d slice"]);
        for n in 0..2500 {
            history.add(&format!("select {n};"));
        }
        let again = History::at(Some(path.clone()));
        assert_eq!(again.entries.len(), MAX_ENTRIES);
        assert_eq!(again.entries.last().unwrap(), "select 2499;");
        // A place that cannot be written, and none.
        History::at(Some(path.join("below a file"))).add("select 1;");
        History::at(None).add("select 1;");
    }
}
