//! What a file says of how its stacks are unwound (`.eh_frame`), if whoever goes by it comes to an end.
//!
//! It is programs: instructions that make a table of rules, and expressions in it that jump. Parsers run them as they are (gimli sets no bound by itself,
//! framehop none for it), so one that jumps back is one that never ends. Compilers write none of these: what a file has of them is looked for once, and
//! then it says nothing.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use gimli::{
    BaseAddresses, CallFrameInstruction, CallFrameInstructionIter, CieOrFde, CommonInformationEntry, EhFrame,
    EhFrameOffset, Encoding, EndianSlice, FrameDescriptionEntry, LittleEndian, Operation, UnwindExpression,
    UnwindSection as _,
};

use crate::elf::Section;

/// Instructions for one function. Ours: the largest functions of browsers and compilers have some hundred, several for each way out.
const MAX_INSTRUCTIONS: usize = 16 << 10;
/// Bytes of an expression: those of the linker's for the PLT have 11, those of the C library for a signal's frame 4.
const MAX_EXPRESSION_BYTES: usize = 256;
/// What a search table begins with: version 1, DW_EH_PE_pcrel and sdata4, DW_EH_PE_udata4, DW_EH_PE_datarel and sdata4. All linkers write it so.
const INDEX_HEAD: [u8; 4] = [1, 0x1b, 0x03, 0x3b];

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// An `.eh_frame` and its search table.
#[derive(Clone, Debug)]
pub struct Unwinding {
    /// `.eh_frame`.
    pub rules: Section,
    /// `.eh_frame_hdr`, or what stands in its place: where in `rules` which function is.
    pub index: Section,
}

/// A file's, if it is one that can be gone by. Of one without an index, or with one of another form, that is made here.
pub(crate) fn read(rules: Section, index: Option<Section>, text: u64) -> Option<Unwinding> {
    let index = index.filter(|index| is_index(index, &rules));
    let check = Check::new(&rules, index.as_ref(), text);
    let index = match index {
        Some(index) => entries(&index)?
            .iter()
            .all(|[_, entry]| {
                let place = at(index.address, entry).wrapping_sub(rules.address);
                usize::try_from(place).is_ok_and(|place| check.is_harmless_at(place))
            })
            .then_some(index),
        None => check.index(),
    };
    Some(Unwinding { index: index?, rules })
}

/// Whether a search table is as all linkers write it, and points into the rules only. Parsers take its word for that: gimli 0.33 subtracts without
/// looking.
///
/// ```text
/// version 1 │ three encodings │ .eh_frame, from here (i32) │ how many (u32) │ a function and its entry, from the section's start (i32, i32) │ …
/// ```
fn is_index(index: &Section, of: &Section) -> bool {
    let first = index.bytes.get(INDEX_HEAD.len()..).and_then(|rest| rest.first_chunk());
    let is_in =
        |address: u64| address.checked_sub(of.address).is_some_and(|place| place < of.bytes.len() as u64);
    index.bytes.starts_with(&INDEX_HEAD)
        && first
            .is_some_and(|word| at(index.address.wrapping_add(INDEX_HEAD.len() as u64), word) == of.address)
        && entries(index).is_some_and(|all| all.iter().all(|[_, entry]| is_in(at(index.address, entry))))
}

fn entries(index: &Section) -> Option<&[[[u8; 4]; 2]]> {
    let (words, _) = index.bytes.get(INDEX_HEAD.len()..)?.as_chunks::<4>();
    let [_, count, table @ ..] = words else { return None };
    let (entries, _) = table.as_chunks::<2>();
    entries.get(..u32::from_le_bytes(*count) as usize)
}

fn at(from: u64, word: &[u8; 4]) -> u64 {
    from.wrapping_add_signed(i64::from(i32::from_le_bytes(*word)))
}

/// Looks at the programs of a section.
struct Check<'a> {
    section: EhFrame<Bytes<'a>>,
    address: u64,
    bases: BaseAddresses,
    /// Beginnings of several functions that are known to be harmless.
    known: RefCell<HashSet<usize>>,
    /// So many more may be looked at: functions that lie within each other, which no compiler writes, would make it take for ever.
    instructions_left: Cell<usize>,
}

impl<'a> Check<'a> {
    fn new(rules: &'a Section, index: Option<&Section>, text: u64) -> Self {
        let mut section = EhFrame::new(&rules.bytes, LittleEndian);
        section.set_address_size(8);
        // The same as those that framehop has: what is said of an address is said relative to them.
        let bases = BaseAddresses::default()
            .set_eh_frame(rules.address)
            .set_eh_frame_hdr(index.map_or(rules.address, |index| index.address))
            .set_text(text)
            .set_got(0);
        let instructions_left = Cell::new(rules.bytes.len());
        Self { section, address: rules.address, bases, known: RefCell::default(), instructions_left }
    }

    /// Of the function whose entry begins there. What cannot be read is harmless: nobody runs it.
    fn is_harmless_at(&self, place: usize) -> bool {
        let found = self.section.fde_from_offset(&self.bases, EhFrameOffset(place), EhFrame::cie_from_offset);
        found.map_or(true, |fde| self.is_harmless(&fde))
    }

    fn is_harmless(&self, fde: &FrameDescriptionEntry<Bytes<'a>>) -> bool {
        let instructions = fde.instructions(&self.section, &self.bases);
        let encoding = fde.cie().encoding();
        self.is_beginning_harmless(fde.cie()) && self.ends(instructions, encoding)
    }

    fn is_beginning_harmless(&self, cie: &CommonInformationEntry<Bytes<'a>>) -> bool {
        self.known.borrow().contains(&cie.offset())
            || self.ends(cie.instructions(&self.section, &self.bases), cie.encoding())
                && self.known.borrow_mut().insert(cie.offset())
    }

    fn ends(&self, mut instructions: CallFrameInstructionIter<'_, Bytes<'a>>, encoding: Encoding) -> bool {
        for _ in 0..MAX_INSTRUCTIONS {
            let Ok(Some(instruction)) = instructions.next() else { return true };
            let Some(left) = self.instructions_left.get().checked_sub(1) else { return false };
            self.instructions_left.set(left);
            let (CallFrameInstruction::DefCfaExpression { expression }
            | CallFrameInstruction::Expression { expression, .. }
            | CallFrameInstruction::ValExpression { expression, .. }) = instruction
            else {
                continue;
            };
            if !self.is_forward(&expression, encoding) {
                return false;
            }
        }
        false
    }

    /// Whether an expression goes on with what is behind, always, and is not long.
    fn is_forward(&self, expression: &UnwindExpression<usize>, encoding: Encoding) -> bool {
        let Ok(expression) = expression.get(&self.section) else { return true };
        if expression.0.len() > MAX_EXPRESSION_BYTES {
            return false;
        }
        let mut operations = expression.operations(encoding);
        loop {
            match operations.next() {
                Ok(Some(Operation::Skip { target } | Operation::Bra { target })) if target < 0 => {
                    return false;
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return true,
            }
        }
    }

    /// A search table of all functions, one behind the other as they stand.
    fn index(&self) -> Option<Section> {
        let mut entries = self.section.entries(&self.bases);
        let mut found = Vec::new();
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else { continue };
            if !self.is_harmless(&fde) {
                return None;
            }
            let from_here = |address: u64| i32::try_from(address.wrapping_sub(self.address).cast_signed());
            let (Ok(function), Ok(entry)) = (from_here(fde.initial_address()), i32::try_from(fde.offset()))
            else {
                continue;
            };
            found.push((function, entry));
        }
        found.sort_unstable();
        let count = u32::try_from(found.len()).ok()?;
        // As if it were at the address of the rules: only what it says counts.
        let rules = -(INDEX_HEAD.len() as i32);
        let table = found.iter().flat_map(|(function, entry)| [*function, *entry]);
        let words = [rules.to_le_bytes(), count.to_le_bytes()].into_iter();
        let words = words.chain(table.map(i32::to_le_bytes)).flatten();
        let bytes: Vec<u8> = INDEX_HEAD.into_iter().chain(words).collect();
        Some(Section { address: self.address, bytes: bytes.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: u64 = 0x2000;

    fn section(address: u64, bytes: &[u8]) -> Section {
        Section { address, bytes: bytes.into() }
    }

    fn index(words: &[i32]) -> Section {
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        let bytes: Vec<u8> = INDEX_HEAD.into_iter().chain(words).collect();
        section(0x1000, &bytes)
    }

    fn entry(body: &[u8]) -> Vec<u8> {
        let len = u32::try_from(body.len()).unwrap();
        [&len.to_le_bytes()[..], body].concat()
    }

    /// A beginning for several functions, and one of 16 bytes at 0x5000, with these instructions. Behind it there is room for what an address misses.
    fn rules(instructions: &[u8]) -> Section {
        let beginning = entry(&[&[0, 0, 0, 0, 1, 0, 1, 0x78, 16][..], &[0; 3]].concat());
        let numbers = [beginning.len() as u32 + 4].map(u32::to_le_bytes).concat();
        let function = [0x5000u64, 16].map(u64::to_le_bytes).concat();
        let of_function = entry(&[&numbers[..], &function, instructions].concat());
        section(ADDRESS, &[&beginning[..], &of_function, &[0; 64]].concat())
    }

    /// DW_CFA_def_cfa_expression.
    fn expression(operations: &[u8]) -> Vec<u8> {
        [&[0x0f, u8::try_from(operations.len()).unwrap()], operations].concat()
    }

    /// DW_OP_skip, DW_OP_bra.
    fn jump(kind: u8, target: i16) -> Vec<u8> {
        [&[kind][..], &target.to_le_bytes()].concat()
    }

    #[test]
    fn programs_that_might_not_end_are_none() {
        let table = |rules: &Section| {
            let of = rules.address as i32 - 0x1000;
            index(&[of - 4, 1, 0x4000, of + 16])
        };
        let read = |instructions: &[u8], with_index: bool| {
            let rules = rules(instructions);
            let index = with_index.then(|| table(&rules));
            read(rules, index, 0).is_some()
        };
        for with_index in [true, false] {
            // DW_CFA_nop, DW_OP_breg7 0, forward.
            for harmless in [vec![], vec![0; 9], expression(&[0x77, 0]), expression(&jump(0x2f, 0))] {
                assert!(read(&harmless, with_index), "{harmless:?}");
            }
            for endless in [
                expression(&jump(0x2f, -3)),
                expression(&[&[0x31][..], &jump(0x28, -4)].concat()),
                // DW_CFA_expression and DW_CFA_val_expression of register 3.
                [&[0x10, 3, 3][..], &jump(0x2f, -3)].concat(),
                [&[0, 0x16, 3, 3][..], &jump(0x2f, -3)].concat(),
                vec![0; MAX_INSTRUCTIONS],
            ] {
                assert!(!read(&endless, with_index), "{endless:?}");
            }
        }
    }

    #[test]
    fn functions_within_each_other_are_looked_at_for_so_long_only() {
        let rules = rules(&[0; 8000]);
        let of = rules.address as i32 - 0x1000;
        let entries = |count: usize| [0x4000, of + 16].repeat(count);
        let table = |count: usize| index(&[&[of - 4, count as i32][..], &entries(count)].concat());
        assert!(read(rules.clone(), Some(table(1)), 0).is_some());
        assert!(read(rules, Some(table(1000)), 0).is_none());
    }

    #[test]
    fn without_an_index_one_is_made() {
        let rules = rules(&[]);
        let made = read(rules.clone(), None, 0).unwrap();
        assert!(is_index(&made.index, &rules));
        let [[function, place]] = entries(&made.index).unwrap() else { panic!() };
        assert_eq!((at(ADDRESS, function), at(ADDRESS, place)), (0x5000, ADDRESS + 16));
    }

    #[test]
    fn an_index_that_points_elsewhere_is_none() {
        let of = section(ADDRESS, &[0; 64]);
        assert!(is_index(&index(&[0x1000 - 4, 2, 5, 0x1000, 9, 0x1000 + 63]), &of));
        for words in [
            &[][..],
            &[0x1000 - 4, 1, 5],
            &[0x1000 - 4, 2, 5, 0x1000],
            &[0x1000 - 4, -1, 5, 0x1000],
            &[0x1000 - 4, 1, 5, 0x1000 + 64],
            &[0x1000 - 4, 1, 5, 0xfff],
            &[0x1000 - 4, 1, 5, i32::MIN],
            &[0x1000, 1, 5, 0x1000],
        ] {
            assert!(!is_index(&index(words), &of), "{words:?}");
        }
    }
}
