//! Short texts behind numbers.

use ferretto_trace_read::recent::Recent;
use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// Names of one trace. Ours: threads have some thousands; further ones are empty, and so is number 0.
const MAX_NAMES: usize = 1 << 18;
/// The kernel's names have 15 bytes; of what is longer only so much is kept, which bounds the memory.
const MAX_BYTES: usize = 64;
/// Names that are looked at first. Ours: mostly a trace has fewer, and they stay in the processor's cache.
const RECENT_NAMES: usize = 1 << 10;

/// A name.
pub(crate) type Name = u32;

/// All names.
#[derive(Debug, Default)]
pub(crate) struct Names {
    numbers: HashMap<Box<[u8]>, Name, RandomState>,
    texts: Vec<Box<[u8]>>,
    /// Those of up to 15 bytes.
    recent: Box<Recent<u128, Name, RECENT_NAMES>>,
}

impl Names {
    #[inline]
    pub(crate) fn intern(&mut self, text: &[u8]) -> Name {
        let Some(word) = word_of(text) else { return self.find(text) };
        let place = place_of(word);
        if let Some(name) = self.recent.get(place, word) {
            return name;
        }
        let name = self.find(text);
        self.recent.put(place, word, name);
        name
    }

    fn find(&mut self, text: &[u8]) -> Name {
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

    #[inline]
    pub(crate) fn get(&self, name: Name) -> &[u8] {
        let at = (name as usize).checked_sub(1);
        at.and_then(|at| self.texts.get(at)).map_or(&[], |text| text)
    }
}

/// A text of up to 15 bytes as a number, with its length in the uppermost byte: two are the same if their texts are.
#[inline]
fn word_of(text: &[u8]) -> Option<u128> {
    let len = text.len();
    let word = match (text.first_chunk(), text.last_chunk(), text.first_chunk(), text.last_chunk()) {
        _ if len >= size_of::<u128>() => return None,
        (Some(first), Some(last), ..) => {
            u128::from(u64::from_le_bytes(*first)) | u128::from(u64::from_le_bytes(*last)) << (8 * (len - 8))
        }
        (.., Some(first), Some(last)) => {
            u128::from(u32::from_le_bytes(*first)) | u128::from(u32::from_le_bytes(*last)) << (8 * (len - 4))
        }
        _ => text.iter().fold(0, |word, byte| word << 8 | u128::from(*byte)),
    };
    Some(word | (len as u128) << 120)
}

#[inline]
fn place_of(word: u128) -> u64 {
    let folded = word as u64 ^ (word >> 64) as u64;
    folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_has_a_number_of_its_own_and_keeps_it() {
        let mut names = Names::default();
        let alphabet = b"abcdefghijklmnopqrstuvwxyz";
        let texts: Vec<&[u8]> = (0..alphabet.len()).flat_map(|len| alphabet.windows(len.max(1))).collect();
        let numbers: Vec<Name> = texts.iter().map(|text| names.intern(text)).collect();
        for (text, number) in texts.iter().zip(&numbers) {
            assert_eq!((names.intern(text), names.get(*number)), (*number, *text));
        }
        assert_eq!((names.intern(b""), names.intern(b"a\0") == names.intern(b"a")), (0, false));
    }
}
