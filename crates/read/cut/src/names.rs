//! Short texts behind numbers.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// Names of one trace. Ours: threads have some thousands; further ones are empty, and so is number 0.
const MAX_NAMES: usize = 1 << 18;
/// The kernel's names have 15 bytes; of what is longer only so much is kept, which bounds the memory.
const MAX_BYTES: usize = 64;

/// A name.
pub(crate) type Name = u32;

/// All names.
#[derive(Debug, Default)]
pub(crate) struct Names {
    numbers: HashMap<Box<[u8]>, Name, RandomState>,
    texts: Vec<Box<[u8]>>,
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

    pub(crate) fn get(&self, name: Name) -> &[u8] {
        let at = (name as usize).checked_sub(1);
        at.and_then(|at| self.texts.get(at)).map_or(&[], |text| text)
    }
}
