//! Short texts behind numbers.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// Names of one trace. Ours: threads have some thousands; further ones are empty, and so is number 0.
const MAX_NAMES: usize = 1 << 18;
/// The kernel's names have 15 bytes; of what is longer only so much is kept, which bounds the memory.
const MAX_BYTES: usize = 64;

/// Threads whose last name is looked at first. Ours.
const LAST_NAMES: usize = 1 << 12;

/// A name.
pub(crate) type Name = u32;

/// All names.
#[derive(Debug, Default)]
pub(crate) struct Names {
    numbers: HashMap<Box<[u8]>, Name, RandomState>,
    texts: Vec<Box<[u8]>>,
    /// The last name of threads, by the end of their numbers.
    last: Vec<Name>,
}

impl Names {
    pub(crate) fn intern(&mut self, text: &[u8]) -> Name {
        let text = text.get(..text.len().min(MAX_BYTES)).unwrap_or_default();
        if let Some(name) = self.numbers.get(text) {
            return *name;
        }
        if self.texts.len() >= MAX_NAMES || text.is_empty() {
            return 0;
        }
        self.texts.push(text.into());
        let name = self.texts.len() as Name;
        self.numbers.insert(text.into(), name);
        name
    }

    /// The same of a thread, which mostly has the name that it had.
    #[inline]
    pub(crate) fn intern_of(&mut self, tid: i32, text: &[u8]) -> Name {
        let at = tid as usize % LAST_NAMES;
        if let Some(last) = self.last.get(at).copied()
            && last != 0
            && self.get(last) == text
        {
            return last;
        }
        let name = self.intern(text);
        self.last.resize(LAST_NAMES, 0);
        if let Some(last) = self.last.get_mut(at) {
            *last = name;
        }
        name
    }

    #[inline]
    pub(crate) fn get(&self, name: Name) -> &[u8] {
        let at = (name as usize).checked_sub(1);
        at.and_then(|at| self.texts.get(at)).map_or(&[], |text| text)
    }
}
