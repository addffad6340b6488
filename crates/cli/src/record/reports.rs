//! What programs that this recorder has started say of themselves: a line from each that could not be recorded, or only late.
//!
//! The file is open to every user, as the command may run as another one. Its name is not told to others: it is in a folder that they cannot
//! list, and in the environment of the command, which its own user may read. What is in it is still anybody's who runs there: bounded, and shown
//! without control characters.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ferretto_printable::is_unseen;

use crate::private::{temporary_path, unguessable};

/// Others may write, and read nothing.
const MODE: u32 = 0o622;
/// Of its folder: who knows a name may use it, and nobody else may learn one.
const FOLDER_MODE: u32 = 0o711;
/// Of the file as much as is looked at: some hundred programs.
const MAX_BYTES: u64 = 64 * 1024;
/// Of a line as much as is shown.
const MAX_SHOWN: usize = 200;

/// The file, for as long as the recording takes.
#[derive(Debug)]
pub(crate) struct Reports {
    path: PathBuf,
    file: File,
}

impl Reports {
    /// A new file with a name that nobody can know who is not told.
    pub(crate) fn create() -> Result<Self> {
        let folder = temporary_path("ferretto-reports");
        let path = folder.join(format!("{:016x}", unguessable()));
        let open = || -> io::Result<File> {
            DirBuilder::new().mode(0o700).create(&folder)?;
            fs::set_permissions(&folder, Permissions::from_mode(FOLDER_MODE))?;
            let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
            // Whatever the mask says.
            file.set_permissions(Permissions::from_mode(MODE))?;
            Ok(file)
        };
        let file = open().with_context(|| format!("cannot make the file {}", path.display()))?;
        Ok(Self { path, file })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What was said so far, each thing once.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut said = Vec::new();
        // What cannot be read was not said.
        let _ = self.file.try_clone().and_then(|file| file.take(MAX_BYTES).read_to_end(&mut said));
        let mut lines: Vec<String> = Vec::new();
        for line in String::from_utf8_lossy(&said).lines() {
            let line: String = line.chars().filter(|c| !is_unseen(*c)).take(MAX_SHOWN).collect();
            if !line.is_empty() && !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        // A file of some bytes that stays is no reason to fail.
        let _ = fs::remove_file(&self.path);
        let _ = self.path.parent().map(fs::remove_dir);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_programs_say_is_shown_once_bounded_and_without_control_characters() {
        let reports = Reports::create().unwrap();
        let path = reports.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        let mut program = OpenOptions::new().append(true).open(&path).unwrap();
        for line in ["1 a: b\n", "1 a: b\n", "2 \x1b[31mred\n", "\n"] {
            program.write_all(line.as_bytes()).unwrap();
        }
        program.write_all("x".repeat(MAX_BYTES as usize).as_bytes()).unwrap();
        let lines = reports.lines();
        assert_eq!(lines[..2], ["1 a: b", "2 [31mred"]);
        assert_eq!(lines[2], "x".repeat(MAX_SHOWN));
        drop(reports);
        assert!(!path.exists());
    }

    #[test]
    fn neighbours_do_not_learn_where_to_say_something() {
        let reports = Reports::create().unwrap();
        let folder = reports.path().parent().unwrap().to_owned();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, FOLDER_MODE);
        let (name, of_folder) = (reports.path().file_name().unwrap(), folder.file_name().unwrap());
        assert!(!of_folder.to_string_lossy().contains(&*name.to_string_lossy()));
        drop(reports);
        assert!(!folder.exists());
    }
}
