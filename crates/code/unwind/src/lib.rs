//! Stacks of a process, out of registers and a copy of its stack.
//!
//! A [`Space`] is what a process has mapped as code: addresses, and the files behind them. [`Space::unwind`] walks a stack in it by what compilers write
//! for exceptions (`.eh_frame`), and by frame pointers where there is none of that. It works on bytes that a stranger may have made: it reads nothing
//! but the copy that it is given, and ends after [`MAX_FRAMES`].
//!
//! On other architectures than x86-64 and AArch64 a stack has one frame.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::Arc;

use ferretto_symbols::Elf;
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder as _};

#[cfg(target_arch = "aarch64")]
use framehop::aarch64::{
    CacheAarch64 as ArchCache, UnwindRegsAarch64 as Unwinding, UnwinderAarch64 as Unwinder,
};
#[cfg(not(target_arch = "aarch64"))]
use framehop::x86_64::{CacheX86_64 as ArchCache, UnwindRegsX86_64 as Unwinding, UnwinderX86_64 as Unwinder};

/// Frames of a stack. As many as upstream's profilers keep (libunwindstack's limit in traced_perf).
pub const MAX_FRAMES: usize = 1000;
/// Mappings of code of one process. The kernel gives a process 65,530 of any kind (`vm.max_map_count`).
const MAX_MAPPINGS: usize = 65_530;
/// Bytes of a word of a stack.
const WORD_BYTES: u64 = 8;

/// Code that is mapped.
#[derive(Clone, Debug)]
pub struct Mapping<F> {
    /// Its first address.
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// Whatever the caller knows of the file.
    pub file: F,
}

/// Registers of a thread, of its own code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Where it is.
    pub pc: u64,
    /// Where its stack ends.
    pub sp: u64,
    /// The frame pointer, whatever is in it.
    pub fp: u64,
    /// The link register, of architectures that have one.
    pub lr: u64,
}

/// How a stack ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At the function in which the thread began.
    Root,
    /// The copy has no more of it.
    Copy,
    /// Nothing says how to go on, or what says it leads nowhere.
    Lost,
    /// It has more than [`MAX_FRAMES`].
    TooMany,
}

/// What is remembered of addresses that were met. One serves all processes.
pub struct Cache(ArchCache);

impl Default for Cache {
    fn default() -> Self {
        Self(ArchCache::new())
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}

/// The code of a process.
#[derive(Clone)]
pub struct Space<F> {
    mappings: BTreeMap<u64, Mapping<F>>,
    unwinder: Unwinder<Arc<[u8]>>,
}

impl<F> Default for Space<F> {
    fn default() -> Self {
        Self { mappings: BTreeMap::new(), unwinder: Unwinder::new() }
    }
}

impl<F> std::fmt::Debug for Space<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Space").field("mappings", &self.mappings.len()).finish_non_exhaustive()
    }
}

impl<F> Space<F> {
    /// Code is mapped, in the place of what was there. `elf` is the file, if it is known.
    pub fn map(&mut self, mapping: Mapping<F>, elf: Option<&Elf>) {
        if mapping.end <= mapping.start {
            return;
        }
        self.unmap(mapping.start, mapping.end);
        if self.mappings.len() >= MAX_MAPPINGS {
            return;
        }
        if let Some(module) = elf.and_then(|elf| module(&mapping, elf)) {
            self.unwinder.add_module(module);
        }
        self.mappings.insert(mapping.start, mapping);
    }

    /// How many mappings there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.mappings.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.mappings.is_empty()
    }

    /// Forgets what overlaps these addresses.
    pub fn unmap(&mut self, start: u64, end: u64) {
        let before = self.mappings.range(..start).next_back().filter(|(_, it)| it.end > start);
        let within = self.mappings.range(start..end);
        let gone: Vec<u64> = before.into_iter().chain(within).map(|(start, _)| *start).collect();
        for start in gone {
            self.mappings.remove(&start);
            self.unwinder.remove_module(start);
        }
    }

    /// The mapping that an address is in.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<&Mapping<F>> {
        self.mappings.range(..=address).next_back().map(|(_, it)| it).filter(|it| address < it.end)
    }

    /// The addresses of the frames of a stack, innermost first: that of `registers`, then those of calls. Of a call it is the address before the one that
    /// it returns to: it lies within the call. `copy` are the bytes of the stack from `registers.sp` on.
    pub fn unwind(&self, registers: Registers, copy: &[u8], cache: &mut Cache) -> (Vec<u64>, End) {
        let mut was_beyond = false;
        let mut read = |address: u64| {
            let word = address.checked_sub(registers.sp).and_then(|at| {
                let at = usize::try_from(at).ok()?;
                copy.get(at..)?.first_chunk()
            });
            was_beyond |= word.is_none()
                && address >= registers.sp.saturating_add(copy.len() as u64 - copy.len() as u64 % WORD_BYTES);
            word.map(|word| u64::from_ne_bytes(*word)).ok_or(())
        };
        let mut frames = Vec::new();
        if cfg!(not(any(target_arch = "x86_64", target_arch = "aarch64"))) {
            return (vec![registers.pc], End::Lost);
        }
        let mut walk = self.unwinder.iter_frames(registers.pc, unwinding(registers), &mut cache.0, &mut read);
        let end = loop {
            match walk.next() {
                Ok(Some(_)) if frames.len() >= MAX_FRAMES => break End::TooMany,
                Ok(Some(FrameAddress::InstructionPointer(address))) => frames.push(address),
                Ok(Some(address)) => frames.push(address.address_for_lookup()),
                Ok(None) => break End::Root,
                Err(_) => break End::Lost,
            }
        };
        match end {
            End::Lost if was_beyond => (frames, End::Copy),
            end => (frames, end),
        }
    }
}

#[cfg(target_arch = "aarch64")]
fn unwinding(Registers { sp, fp, lr, .. }: Registers) -> Unwinding {
    Unwinding::new(lr, sp, fp)
}

#[cfg(not(target_arch = "aarch64"))]
fn unwinding(Registers { pc, sp, fp, .. }: Registers) -> Unwinding {
    Unwinding::new(pc, sp, fp)
}

/// What framehop wants to know of a mapping.
fn module<F>(mapping: &Mapping<F>, elf: &Elf) -> Option<Module<Arc<[u8]>>> {
    let linked_at = elf.address_of(mapping.offset)?;
    // What is added to an address of the file where it is mapped; of programs that lie where they were linked for it is 0.
    let bias = mapping.start.wrapping_sub(linked_at);
    let range = |section: &ferretto_symbols::Section| {
        section.address..section.address.saturating_add(section.bytes.len() as u64)
    };
    let info = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: elf.text.clone(),
        eh_frame_svma: elf.unwinding.as_ref().map(|it| range(&it.rules)),
        eh_frame: elf.unwinding.as_ref().map(|it| it.rules.bytes.clone()),
        eh_frame_hdr_svma: elf.unwinding.as_ref().map(|it| range(&it.index)),
        eh_frame_hdr: elf.unwinding.as_ref().map(|it| it.index.bytes.clone()),
        ..ExplicitModuleSectionInfo::default()
    };
    Some(Module::new(String::new(), mapping.start..mapping.end, bias, info))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mapping(start: u64, end: u64, file: u32) -> Mapping<u32> {
        Mapping { start, end, offset: 0, file }
    }

    fn at(space: &Space<u32>, address: u64) -> Option<u32> {
        space.find(address).map(|mapping| mapping.file)
    }

    #[test]
    fn what_is_mapped_later_takes_the_place_of_what_was_there() {
        let mut space = Space::default();
        space.map(mapping(100, 200, 1), None);
        space.map(mapping(300, 400, 2), None);
        space.map(mapping(500, 500, 3), None);
        assert_eq!(
            [99, 100, 199, 200, 399, 500].map(|address| at(&space, address)),
            [None, Some(1), Some(1), None, Some(2), None]
        );
        space.map(mapping(150, 350, 4), None);
        assert_eq!([100, 150, 349, 350].map(|address| at(&space, address)), [None, Some(4), Some(4), None]);
    }

    #[test]
    fn without_anything_known_frame_pointers_are_followed() {
        // rbp → [rbp of the caller, return address].
        let mut copy = vec![0u8; 64];
        let mut put = |at: usize, word: u64| copy[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        put(16, 0x1000 + 40);
        put(24, 0x5001);
        put(40, 0);
        put(48, 0);
        let registers = Registers { pc: 0x4000, sp: 0x1000, fp: 0x1000 + 16, lr: 0 };
        let (frames, _) = Space::<u32>::default().unwind(registers, &copy, &mut Cache::default());
        if cfg!(target_arch = "x86_64") {
            assert_eq!(frames, [0x4000, 0x5000]);
        }
    }

    proptest! {
        #[test]
        fn whatever_a_stack_is_it_ends(
            copy in proptest::collection::vec(any::<u8>(), 0..600),
            pc in any::<u64>(), sp in any::<u64>(), fp in any::<u64>(),
        ) {
            let mut space = Space::default();
            space.map(mapping(pc & !0xfff, (pc & !0xfff).saturating_add(0x1000), 0), Some(&Elf::default()));
            for registers in [Registers { pc, sp, fp, lr: pc }, Registers { pc, sp, fp: sp.wrapping_add(8), lr: 0 }] {
                let (frames, _) = space.unwind(registers, &copy, &mut Cache::default());
                prop_assert!(frames.len() <= MAX_FRAMES);
            }
        }
    }
}
