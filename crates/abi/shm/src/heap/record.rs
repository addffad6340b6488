//! What is in a record.

/// Of a stack at most so many bytes are copied.
pub const MAX_STACK_BYTES: usize = 64 << 10;
/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// Registers of the thread, in the code that writes the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Where it is.
    pub pc: u64,
    /// Where its stack ends; the copy begins here.
    pub sp: u64,
    /// The frame pointer.
    pub fp: u64,
    /// The link register, of architectures that have one.
    pub lr: u64,
}

/// A block that was sampled, without the stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alloc {
    /// The number of its heap among the program's.
    pub heap: u8,
    /// Where the block is.
    pub address: u64,
    /// Its bytes.
    pub size: u64,
    /// Bytes that it stands for.
    pub weight: u64,
    /// Who has asked for it.
    pub registers: Registers,
}

/// What happened, in the order in which it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A block, and a copy of the stack.
    Alloc(Alloc, &'a [u8]),
    /// One of these is no more.
    Free {
        /// Of which heap.
        heap: u8,
        /// Where it was.
        address: u64,
    },
}

/// Words of [`Record::Free`].
pub const FREE_WORDS: usize = 2;
/// What a record is: the first word's lowest byte; the next one is the heap.
const ALLOC: u64 = 1;
const FREE: u64 = 2;
const HEAP_SHIFT: u32 = 8;

impl Alloc {
    /// Words before the stack.
    pub const WORDS: usize = 9;

    /// As they are written, before `stack_bytes` of stack.
    #[inline]
    #[must_use]
    pub const fn pack(&self, stack_bytes: usize) -> [u64; Self::WORDS] {
        let Registers { pc, sp, fp, lr } = self.registers;
        [
            ALLOC | (self.heap as u64) << HEAP_SHIFT,
            self.address,
            self.size,
            self.weight,
            pc,
            sp,
            fp,
            lr,
            stack_bytes as u64,
        ]
    }
}

impl<'a> Record<'a> {
    /// That a block is no more, as it is written.
    #[inline]
    #[must_use]
    pub const fn pack_free(heap: u8, address: u64) -> [u64; FREE_WORDS] {
        [FREE | (heap as u64) << HEAP_SHIFT, address]
    }

    /// The record of a payload; nothing if it is none.
    #[must_use]
    pub fn parse(payload: &'a [u8]) -> Option<Self> {
        let word = |at: usize| payload.get(at * WORD..)?.first_chunk().map(|word| u64::from_ne_bytes(*word));
        let [kind, heap, ..] = word(0)?.to_le_bytes();
        match u64::from(kind) {
            FREE => Some(Self::Free { heap, address: word(1)? }),
            ALLOC => {
                let registers = Registers { pc: word(4)?, sp: word(5)?, fp: word(6)?, lr: word(7)? };
                let alloc = Alloc { heap, address: word(1)?, size: word(2)?, weight: word(3)?, registers };
                let len = usize::try_from(word(8)?).ok().filter(|len| *len <= MAX_STACK_BYTES)?;
                let stack = payload.get(Alloc::WORDS * WORD..)?.get(..len)?;
                Some(Self::Alloc(alloc, stack))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(words: &[u64], stack: &[u8]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).chain(stack.iter().copied()).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let registers = Registers { pc: 4, sp: 5, fp: 6, lr: 7 };
        let alloc = Alloc { heap: 9, address: 1, size: 2, weight: 3, registers };
        let stack = [9; 21];
        assert_eq!(Record::parse(&bytes(&alloc.pack(21), &stack)), Some(Record::Alloc(alloc, &stack)));
        assert_eq!(
            Record::parse(&bytes(&Record::pack_free(3, 7), &[])),
            Some(Record::Free { heap: 3, address: 7 })
        );
        assert_eq!(Record::parse(&bytes(&alloc.pack(22), &stack)), None);
        assert_eq!(Record::parse(&bytes(&alloc.pack(usize::MAX), &stack)), None);
    }

    proptest! {
        #[test]
        fn whatever_a_payload_is_it_is_read_or_refused(kind in 0u64..4, rest in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut payload = kind.to_ne_bytes().to_vec();
            payload.extend(rest);
            if let Some(Record::Alloc(_, stack)) = Record::parse(&payload) {
                prop_assert!(stack.len() <= payload.len());
            }
        }
    }
}
