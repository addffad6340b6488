//! Traces that nothing here records, written by hand: the same each time.

pub(crate) mod chrome_json;
pub(crate) mod ftrace_text;
pub(crate) mod memory;
pub(crate) mod profiles;

/// Xorshift: numbers that look random and are the same each time.
pub(crate) struct Numbers(u64);

impl Numbers {
    /// Those of this seed.
    pub(crate) fn of(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// One from 0 to before the bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
