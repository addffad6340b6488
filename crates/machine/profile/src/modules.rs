//! Files of code: each is read once, by whoever has it mapped first.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferretto_symbols::Elf;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use object::ReadCache;
use rustix::fs::OFlags;

use crate::looks::Looks;

/// Files that are kept. A machine has some thousand libraries.
const MAX_MODULES: usize = 16 << 10;

/// A file of code, or what stands in its place: `[vdso]`, memory without a file.
#[derive(Debug)]
pub(crate) struct Module {
    /// Among all, from 0.
    pub(crate) number: u32,
    /// As the kernel says it.
    pub(crate) path: String,
    pub(crate) build_id: Option<Box<[u8]>>,
    /// What it says of its code, if it could be read and is the one that was mapped.
    pub(crate) elf: Option<Elf>,
}

/// A path, and the build id of the file that was there.
type Key = (String, Option<Box<[u8]>>);

/// All that were met.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    by_file: HashMap<Key, Arc<Module>, RandomState>,
}

impl Modules {
    /// The file at a path as a process sees it, with the build id that the kernel has found in it, if it has.
    pub(crate) fn find(
        &mut self,
        pid: u32,
        path: &[u8],
        build_id: Option<&[u8]>,
        looks: &mut Looks,
    ) -> Arc<Module> {
        let path = String::from_utf8_lossy(path).into_owned();
        let key: Key = (path, build_id.map(Into::into));
        if let Some(known) = self.by_file.get(&key) {
            return known.clone();
        }
        let path = key.0.clone();
        // What is no path, such as `[vdso]`, is no file either.
        let elf = if path.starts_with('/') {
            looks.file(pid, move || open_as_seen(pid, &path), |file| Elf::read(&ReadCache::new(file)).ok())
        } else {
            None
        };
        let elf = elf.filter(|elf| build_id.is_none_or(|id| elf.build_id() == Some(id)));
        let build_id = key.1.clone().or_else(|| elf.as_ref()?.build_id().map(Into::into));
        let number = u32::try_from(self.by_file.len()).unwrap_or(u32::MAX);
        let module = Arc::new(Module { number, path: key.0.clone(), build_id, elf });
        if self.by_file.len() < MAX_MODULES {
            self.by_file.insert(key, module.clone());
        }
        module
    }
}

/// Opens a file, where the process sees it, or, if that has ended, where this one does.
fn open_as_seen(pid: u32, path: &str) -> Option<File> {
    let path = Path::new(path);
    let as_it_sees =
        path.strip_prefix("/").ok().map(|path| PathBuf::from(format!("/proc/{pid}/root")).join(path))?;
    open(&as_it_sees).or_else(|| open(path))
}

/// Only files: a program may have anything mapped, and what it names afterwards may be something that never answers.
pub(crate) fn open(path: &Path) -> Option<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path).ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_once_and_only_if_it_is_the_one_that_was_mapped() {
        let own = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
        let (mut modules, mut looks) = (Modules::default(), Looks::default());
        let mut find = |pid, path, build_id: Option<&[u8]>| modules.find(pid, path, build_id, &mut looks);
        let pid = std::process::id();
        let this = find(pid, own.as_bytes(), None);
        assert!(this.elf.is_some());
        assert!(Arc::ptr_eq(&this, &find(pid, own.as_bytes(), None)));
        // Of a process that is gone it is found all the same.
        assert!(find(u32::MAX, own.as_bytes(), None).elf.is_some());
        assert!(find(pid, own.as_bytes(), Some(&[1; 20])).elf.is_none(), "another one had been there");
        for path in
            ["[vdso]", "", "//anon", "/dev/zero (deleted)", "/dev/tty", "/proc/self/exe/x", "relative"]
        {
            let module = find(pid, path.as_bytes(), None);
            assert!(module.elf.is_none() && module.path == path);
        }
    }
}
