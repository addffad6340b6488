//! Random scripts. The same seed gives the same script.

pub(crate) mod filter;
pub(crate) mod protovm;
mod screen;
pub(crate) mod trace_buffer;
mod wire;

use crate::rng::Rng;

/// Something that happens once in so many times, or never.
#[derive(Debug, Clone, Copy)]
struct Odds(usize);

impl Odds {
    /// Each script has habits of its own: what is rare or never in one is common in another.
    fn any(rng: &mut Rng) -> Self {
        Self(rng.pick(&[0, 0, 2, 5, 20]))
    }

    fn come_up(self, rng: &mut Rng) -> bool {
        self.0 != 0 && rng.one_in(self.0)
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "-".to_owned();
    }
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}
