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
    bytes: [u8; MAX_BYTES],
    len: u8,
    text: Str,
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
        let mut bytes = [0; MAX_BYTES];
        let (Some(start), Ok(len)) = (bytes.get_mut(..name.len()), u8::try_from(name.len())) else {
            return strings.intern_bytes(name);
        };
        start.copy_from_slice(name);
        let Some(place) = self.places.get_mut(tid as usize % PLACES) else {
            return strings.intern_bytes(name);
        };
        if let Some(comm) = place
            && comm.bytes == bytes
            && comm.len == len
        {
            return comm.text;
        }
        let text = strings.intern_bytes(name);
        *place = Some(Comm { bytes, len, text });
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
