//! The table of all sequences.

use std::hash::{BuildHasherDefault, Hasher};

use crate::ProducerId;

/// Producer and writer in one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SequenceKey(u32);

impl SequenceKey {
    pub(crate) fn new(producer: ProducerId, writer: u16) -> Self {
        Self(u32::from(producer.0) << 16 | u32::from(writer))
    }

    pub(crate) fn producer(self) -> ProducerId {
        ProducerId((self.0 >> 16) as u16)
    }

    pub(crate) fn writer(self) -> u16 {
        self.0 as u16
    }
}

pub(crate) type KeyHasher = BuildHasherDefault<MixingHasher>;

/// Spreads a 32-bit key with one multiplication.
///
/// Writers choose 16 of the bits. The table's index comes from the product's upper half folded onto its lower,
/// so that no choice of them puts more than a few keys into one place.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct MixingHasher(u64);

impl Hasher for MixingHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, key: u32) {
        let product = (self.0 ^ u64::from(key)).wrapping_mul(0x9e37_79b9_7f4a_7c15); // 2^64 / golden ratio
        self.0 = product ^ (product >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Sequences {}
