//! The kernel's names of threads: which text each had last.
//!
//! Scheduling says two names with each switch, nearly always the ones that it said before. A name has at most 16 bytes, so whether it is the
//! same is told by two numbers, without looking for it among all texts.

use ferretto_trace_tables::{Str, Strings};

/// Places: threads whose numbers are alike modulo so many share one. Ours: a power of two above the threads that most machines run.
const PLACES: usize = 4096;
/// `TASK_COMM_LEN`.
const MAX_BYTES: usize = 16;

/// The last name of each place.
#[derive(Debug)]
pub struct Comms {
    places: Box<[Option<Comm>]>,
}

#[derive(Clone, Copy, Debug)]
struct Comm {
    name: Short,
    text: Str,
}

/// A name of at most `MAX_BYTES`: how many it has, and its first and its last eight, or all of them. They say which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Short {
    len: usize,
    words: [u64; 2],
}

impl Short {
    #[inline]
    fn of(name: &[u8]) -> Option<Self> {
        let words = match (name.first_chunk(), name.last_chunk()) {
            (Some(first), Some(last)) if name.len() <= MAX_BYTES => {
                [u64::from_le_bytes(*first), u64::from_le_bytes(*last)]
            }
            (None, None) => [name.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0],
            _ => return None,
        };
        Some(Self { len: name.len(), words })
    }
}

impl Default for Comms {
    fn default() -> Self {
        Self { places: vec![None; PLACES].into() }
    }
}

impl Comms {
    /// The text of a thread's name.
    #[inline]
    pub fn get(&mut self, tid: i64, name: &[u8], strings: &mut Strings) -> Str {
        let (Some(short), Some(place)) = (Short::of(name), self.places.get_mut(tid as usize % PLACES)) else {
            return strings.intern_bytes(name);
        };
        if let Some(comm) = place
            && comm.name == short
        {
            return comm.text;
        }
        let text = strings.intern_bytes(name);
        *place = Some(Comm { name: short, text });
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart_whichever_thread_has_them() {
        let mut strings = Strings::default();
        let mut comms = Comms::default();
        for (tid, name) in [
            (1, "a"),
            (1, "a\0"),
            (1, "\0a"),
            (1, "worker-1"),
            (1, "worker-12"),
            (1, "worker-1worker-1"),
            (1, "worker-1"),
            (1, "worker-2worker-1"),
            (1, "b"),
            (PLACES as i64 + 1, "a"),
            (1, "a"),
            (-1, ""),
            (2, "a name that is too long for the kernel"),
        ] {
            let text = comms.get(tid, name.as_bytes(), &mut strings);
            assert_eq!(strings.get(text), name);
        }
    }
}
