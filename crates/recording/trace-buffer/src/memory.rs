//! A buffer's memory: reserved at once, resident as it is written, given back a part at a time.

use std::ops::{Deref, DerefMut, Range};

use memmap2::MmapMut;

use crate::CreateError;

/// What is given back at a time: some hundred microseconds.
#[cfg(target_os = "linux")]
const GIVEN_BACK_BYTES: usize = 1 << 20;

/// Zeros at first.
#[derive(Debug)]
pub(crate) struct Memory(MmapMut);

impl Memory {
    /// Reserves so many bytes, which become resident when they are written.
    pub(crate) fn reserve(size: usize) -> Result<Self, CreateError> {
        MmapMut::map_anon(size).map(Self).map_err(|_| CreateError::OutOfMemory { size_bytes: size })
    }

    /// With large pages the processor looks up a five hundredth of the addresses, and the kernel hands out as few pages when a buffer is
    /// cloned. Kernels that have none say no; no harm done.
    pub(crate) fn prefer_large_pages(&self) {
        #[cfg(target_os = "linux")]
        let _ = self.0.advise(memmap2::Advice::HugePage);
    }

    /// The kernel hands out the pages of a part at once: one by one, as they are touched, they take as long as to copy it. (Large pages
    /// would be fewer, but some machines need milliseconds for each.) Kernels before 5.14 say no; no harm done.
    pub(crate) fn make_resident(&self, _part: &Range<usize>) {
        #[cfg(target_os = "linux")]
        let _ = self.0.advise_range(memmap2::Advice::PopulateWrite, _part.start, _part.len());
    }

    /// Gives the pages of a part back. All of it reads as zeros then, or as before where the kernel says no.
    #[cfg(target_os = "linux")]
    #[allow(unsafe_code)]
    fn give_back(&mut self, part: Range<usize>) {
        // SAFETY: nobody borrows the memory, and any bytes are good ones. The mapping is private and anonymous, so it is there still, with
        // zeros.
        // JUSTIFICATION: to unmap 256 MiB takes 25 ms, in which no other thread maps or unmaps anything: one that serves clients waited
        // for 20 ms (tests/hostile, `clones`). There is no safe call that gives back a part.
        let _ = unsafe {
            self.0.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, part.start, part.len())
        };
    }
}

/// Unmapping is one step to the kernel, however much is resident: so little is by then.
#[cfg(target_os = "linux")]
impl Drop for Memory {
    fn drop(&mut self) {
        let size = self.0.len();
        for start in (GIVEN_BACK_BYTES..size).step_by(GIVEN_BACK_BYTES) {
            self.give_back(start..size.min(start + GIVEN_BACK_BYTES));
        }
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_no_longer_resident() {
        let mut memory = Memory::reserve(3 * GIVEN_BACK_BYTES + 5).unwrap();
        memory.fill(7);
        memory.give_back(GIVEN_BACK_BYTES..2 * GIVEN_BACK_BYTES);
        let sevens = |part: Range<usize>| memory[part].iter().filter(|byte| **byte == 7).count();
        assert_eq!(sevens(0..GIVEN_BACK_BYTES), GIVEN_BACK_BYTES);
        assert_eq!(sevens(GIVEN_BACK_BYTES..2 * GIVEN_BACK_BYTES), 0);
        assert_eq!(sevens(2 * GIVEN_BACK_BYTES..3 * GIVEN_BACK_BYTES + 5), GIVEN_BACK_BYTES + 5);
    }
}
