//! Files of code: each is read once, by whoever has it mapped first.

use std::io::BufReader;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use ferretto_symbols::Elf;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use object::ReadCache;

use crate::looks::{Identity, Looks, Opened};
use crate::strangers::{Held, Kept, Refused, Whose};

/// Files that are kept, of one user's and of all. A machine has some thousand libraries.
const MAX_MODULES_OF_A_STRANGER: usize = 4 << 10;
const MAX_MODULES: usize = 32 << 10;
/// Of a file on nobody's account no more is read than this, either. Ours: a browser with all of its debugging information has half of that.
const MAX_READ_BYTES: u64 = 2 << 30;

/// A file of code, or what stands in its place: `[vdso]`, memory without a file.
#[derive(Debug)]
pub(crate) struct Module {
    /// Among all, from 0.
    pub(crate) number: u32,
    /// As the kernel says it.
    pub(crate) path: String,
    pub(crate) build_id: Option<Box<[u8]>>,
    /// What it says of its code, if it could be read and is the one that was mapped.
    pub(crate) elf: Option<Arc<Code>>,
    /// It was not read, as that would have been too much, and may be later.
    pub(crate) refused: Option<Refused>,
}

/// What a file says, on the account of whoever has it read.
#[derive(Debug)]
pub(crate) struct Code {
    elf: Elf,
    _held: Held,
}

impl Deref for Code {
    type Target = Elf;

    fn deref(&self) -> &Elf {
        &self.elf
    }
}

/// A path, as programs of one user see it, and the build id of the file that was there. Those of one user are none of others: he may have anything there,
/// in a root of his own.
type Key = (Whose, String, Option<Box<[u8]>>);

/// All that were met.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    by_path: HashMap<Key, Arc<Module>, RandomState>,
    /// However many names it has.
    by_identity: HashMap<[u64; 5], Arc<Code>, RandomState>,
    /// How many paths of whom.
    paths: HashMap<Whose, usize, RandomState>,
    count: u32,
}

impl Modules {
    /// The file at a path as a process sees it, with the build id that the kernel has found in it, if it has.
    pub(crate) fn find(
        &mut self,
        of: Identity,
        path: &[u8],
        build_id: Option<&[u8]>,
        looks: &mut Looks,
    ) -> Arc<Module> {
        let path = String::from_utf8_lossy(path).into_owned();
        let key: Key = (of.whose, path, build_id.map(Into::into));
        let known = self.by_path.get(&key).filter(|known| !known.is_to_be_tried_again());
        if let Some(known) = known {
            return known.clone();
        }
        // What is no path, such as `[vdso]`, is no file either.
        let read = if key.1.starts_with('/') { self.read(of, &key.1, looks) } else { Ok(None) };
        let (elf, refused) = read.map_or_else(|refused| (None, Some(refused)), |elf| (elf, None));
        let elf = elf.filter(|elf| build_id.is_none_or(|id| elf.build_id() == Some(id)));
        let build_id = key.2.clone().or_else(|| elf.as_ref()?.build_id().map(Into::into));
        let number = self.count;
        self.count = self.count.wrapping_add(1);
        let module = Arc::new(Module { number, path: key.1.clone(), build_id, elf, refused });
        self.remember(key, module.clone());
        module
    }

    fn read(&mut self, of: Identity, path: &str, looks: &mut Looks) -> Result<Option<Arc<Code>>, Refused> {
        let Some(opened) = looks.open_mapped(of, path)? else { return Ok(None) };
        let (identity, whose) = (opened.identity, opened.whose);
        if let Some(known) = identity.and_then(|identity| self.by_identity.get(&identity)) {
            return Ok(Some(known.clone()));
        }
        let Some((elf, is_whole)) = read(opened, looks)? else { return Ok(None) };
        let mut held = Held::none(&looks.books, Kept::Bytes, whose);
        if !held.set(elf.bytes()) {
            self.forget_unused();
            if !held.set(elf.bytes()) {
                return Err(looks.later());
            }
        }
        let code = Arc::new(Code { elf, _held: held });
        if let Some(identity) = identity.filter(|_| is_whole) {
            if self.by_identity.len() >= MAX_MODULES {
                self.by_identity.clear();
            }
            self.by_identity.insert(identity, code.clone());
        }
        Ok(Some(code))
    }

    fn remember(&mut self, key: Key, module: Arc<Module>) {
        if let Some(known) = self.by_path.get_mut(&key) {
            *known = module;
            return;
        }
        if !self.is_room(key.0) {
            self.forget_unused();
        }
        if self.is_room(key.0) {
            *self.paths.entry(key.0).or_default() += 1;
            self.by_path.insert(key, module);
        }
    }

    fn is_room(&self, whose: Whose) -> bool {
        let of_this = self.paths.get(&whose).copied().unwrap_or_default();
        self.by_path.len() < MAX_MODULES && (whose == Whose::Trusted || of_this < MAX_MODULES_OF_A_STRANGER)
    }

    /// Those that no process has mapped.
    fn forget_unused(&mut self) {
        self.by_path.retain(|_, module| Arc::strong_count(module) > 1);
        self.by_identity.retain(|_, code| Arc::strong_count(code) > 1);
        self.paths.clear();
        for (whose, ..) in self.by_path.keys() {
            *self.paths.entry(*whose).or_default() += 1;
        }
    }
}

impl Module {
    pub(crate) fn elf(&self) -> Option<&Elf> {
        self.elf.as_deref().map(Deref::deref)
    }

    fn is_to_be_tried_again(&self) -> bool {
        self.refused.is_some_and(|refused| Instant::now() >= refused.until)
    }
}

/// What a file says, and whether that is all; nothing if it is no file of code.
fn read(opened: Opened, looks: &mut Looks) -> Result<Option<(Elf, bool)>, Refused> {
    let found = looks.read(opened, |file, left| {
        let limit = left.bytes.min(MAX_READ_BYTES);
        match Elf::read_within(limit, &ReadCache::new(BufReader::new(file))) {
            Ok(read) => (Some((read.elf, read.is_whole, left.is_all)), read.bytes),
            Err(_) => (None, ELF_HEADERS_BYTES.min(limit)),
        }
    })?;
    match found {
        // There will be more to spend later.
        Some((_, false, false)) => Err(looks.later()),
        Some((elf, is_whole, _)) => Ok(Some((elf, is_whole))),
        None => Ok(None),
    }
}

/// What is counted of a file that is none of code.
const ELF_HEADERS_BYTES: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Identity {
        Looks::default().identify(std::process::id()).unwrap().unwrap()
    }

    #[test]
    fn a_file_is_read_once_and_only_if_it_is_the_one_that_was_mapped() {
        let own_path = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
        let (mut modules, mut looks) = (Modules::default(), Looks::default());
        let gone = Identity::gone(u32::MAX, &looks.books);
        let mut find = |of, path, build_id: Option<&[u8]>| modules.find(of, path, build_id, &mut looks);
        let this = find(own(), own_path.as_bytes(), None);
        assert!(this.elf.is_some());
        assert!(Arc::ptr_eq(&this, &find(own(), own_path.as_bytes(), None)));
        // Of a process that is gone it is found all the same, and not read again.
        let of_other = find(gone, own_path.as_bytes(), None);
        assert!(Arc::ptr_eq(of_other.elf.as_ref().unwrap(), this.elf.as_ref().unwrap()));
        assert!(find(own(), own_path.as_bytes(), Some(&[1; 20])).elf.is_none(), "another one had been there");
        for path in
            ["[vdso]", "", "//anon", "/dev/zero (deleted)", "/dev/tty", "/proc/self/exe/x", "relative"]
        {
            let module = find(own(), path.as_bytes(), None);
            assert!(module.elf.is_none() && module.path == path);
        }
    }

    #[test]
    fn what_a_stranger_has_at_a_path_is_not_what_others_have_there() {
        let path = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
        let (mut modules, mut looks) = (Modules::default(), Looks::default());
        let he = Identity::gone(u32::MAX, &looks.books);
        looks.books.spend(crate::strangers::Work::Files, he.whose, crate::strangers::MEMORY, 0);
        let module = modules.find(he, path.as_bytes(), None, &mut looks);
        assert!(module.elf.is_none() && module.refused.is_some());
        assert!(modules.find(own(), path.as_bytes(), None, &mut looks).elf.is_some());
        let again = modules.find(he, path.as_bytes(), None, &mut looks);
        assert!(Arc::ptr_eq(&module, &again), "it is not tried before it may be");
    }

    #[test]
    fn a_stranger_takes_no_more_places_than_his() {
        let (mut modules, mut looks) = (Modules::default(), Looks::default());
        let he = Identity::gone(u32::MAX, &looks.books);
        let used: Vec<_> = (0..MAX_MODULES_OF_A_STRANGER + 10)
            .map(|n| modules.find(he, format!("[{n}]").as_bytes(), None, &mut looks))
            .collect();
        assert_eq!(modules.by_path.len(), MAX_MODULES_OF_A_STRANGER);
        assert_eq!(used.last().unwrap().path, format!("[{}]", MAX_MODULES_OF_A_STRANGER + 9));
        drop(used);
        modules.find(he, b"[new]", None, &mut looks);
        assert_eq!(modules.by_path.len(), 1, "what nobody has mapped any more makes room");
    }
}
