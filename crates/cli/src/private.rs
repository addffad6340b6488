//! Names that nobody can guess, and folders that nobody else may enter: for what is between our own processes.

use std::collections::hash_map::RandomState;
use std::fs::{self, DirBuilder};
use std::hash::BuildHasher;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ferretto_ipc::address::environment;

/// For its user only.
const MODE: u32 = 0o700;

/// A number that nobody can know before.
pub(crate) fn unguessable() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// A new path among temporary files, which begins its name like this.
pub(crate) fn temporary_path(begins: &str) -> PathBuf {
    let folder = environment("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    folder.join(format!("{begins}-{:016x}", unguessable()))
}

/// A folder, with all in it removed at the end.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// A new one: that somebody else's is there already is an error.
    pub(crate) fn create() -> Result<Self> {
        let path = temporary_path("ferretto");
        let made = DirBuilder::new().mode(MODE).create(&path);
        made.with_context(|| format!("cannot make the folder {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // An empty folder that stays is no reason to fail.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_is_ones_own_and_leaves_nothing() {
        let (folder, other) = (Folder::create().unwrap(), Folder::create().unwrap());
        assert_ne!(folder.path(), other.path());
        assert_eq!(fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777, MODE);
        let path = folder.path().to_owned();
        fs::write(path.join("something"), b"").unwrap();
        drop(folder);
        assert!(!path.exists());
    }
}
