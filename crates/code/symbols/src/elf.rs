//! An ELF file: where its code is, what its functions are called, what says how to unwind their stacks.

use std::sync::Arc;

use object::read::{Object as _, ObjectSection as _, ObjectSymbol as _, ReadRef};
use object::{SectionFlags, SegmentFlags, SymbolKind, elf};

use crate::names::Names;

/// Bytes of a section that is kept. Ours: that of the largest browsers has some 30 MB.
const MAX_SECTION_BYTES: u64 = 256 << 20;
/// A file has some four to ten.
const MAX_SEGMENTS: usize = 1024;
/// The largest page that a kernel maps files by (arm64, ppc64).
const MAX_PAGE_BYTES: u64 = 64 << 10;
/// Bytes of the code that a program begins with: the loader's, which has no unwinding information, is 60 of them on x86-64, 100 on AArch64.
const ENTRY_BYTES: u64 = 128;
/// SHA-1 has 20, and some have a few more.
const MAX_BUILD_ID_BYTES: usize = 64;

/// What is of use in it.
#[derive(Clone, Debug, Default)]
pub struct Elf {
    build_id: Option<Box<[u8]>>,
    segments: Vec<Segment>,
    names: Names,
    /// Where a process begins that is made of it; 0 of a library.
    entry: u64,
    /// `.eh_frame`: how to unwind.
    pub eh_frame: Option<Section>,
    /// `.eh_frame_hdr`: where in it which function is, if all that it says lies in there.
    pub eh_frame_hdr: Option<Section>,
    /// The addresses of `.text`.
    pub text: Option<std::ops::Range<u64>>,
}

/// A section's bytes, and the address that they are linked for.
#[derive(Clone, Debug)]
pub struct Section {
    /// Their address.
    pub address: u64,
    /// They.
    pub bytes: Arc<[u8]>,
}

/// A part of the file that is mapped.
#[derive(Clone, Copy, Debug)]
struct Segment {
    offset: u64,
    bytes: u64,
    address: u64,
    is_code: bool,
}

/// The file is no ELF file, or its headers point out of it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("it is no ELF file that can be read: {0}")]
pub struct Error(String);

impl Elf {
    /// Reads what is of use: the headers, the symbols (`.symtab`, or `.dynsym` of a file that was stripped), the sections for unwinding.
    ///
    /// # Errors
    ///
    /// If it is no ELF file.
    pub fn read<'a>(file: impl ReadRef<'a>) -> Result<Self, Error> {
        let file = object::File::parse(file).map_err(|error| Error(error.to_string()))?;
        if file.format() != object::BinaryFormat::Elf {
            return Err(Error("it is of another format".to_owned()));
        }
        let build_id = file.build_id().ok().flatten().filter(|id| id.len() <= MAX_BUILD_ID_BYTES);
        let text = file.section_by_name(".text").filter(|section| is_code(section.flags()));
        let eh_frame = section(&file, ".eh_frame");
        let eh_frame_hdr = section(&file, ".eh_frame_hdr");
        let eh_frame_hdr =
            eh_frame_hdr.filter(|index| eh_frame.as_ref().is_some_and(|of| is_index(index, of)));
        Ok(Self {
            build_id: build_id.map(Into::into),
            segments: file.segments().take(MAX_SEGMENTS).map(|segment| Segment::of(&segment)).collect(),
            names: names(&file),
            entry: file.entry(),
            eh_frame,
            eh_frame_hdr,
            text: text.map(|text| text.address()..text.address().saturating_add(text.size())),
        })
    }

    /// What the linker has called a file, if that can be read: nothing else of it is.
    pub fn build_id_of<'a>(file: impl ReadRef<'a>) -> Option<Box<[u8]>> {
        let file = object::File::parse(file).ok()?;
        let id = file.build_id().ok().flatten().filter(|id| id.len() <= MAX_BUILD_ID_BYTES)?;
        Some(id.into())
    }

    /// What the linker has called the file (`.note.gnu.build-id`).
    #[must_use]
    pub fn build_id(&self) -> Option<&[u8]> {
        self.build_id.as_deref()
    }

    /// The address that the code at this place of the file is linked for: what symbols and unwinding information go by. The place may lie before the segment
    /// of the code, on the same page, for whole pages are mapped.
    ///
    /// ```text
    /// place in the file ─ offset of its segment + address of its segment
    /// ```
    #[must_use]
    pub fn address_of(&self, place: u64) -> Option<u64> {
        let ends_behind = |segment: &&Segment| place < segment.offset.saturating_add(segment.bytes);
        let of_code = || self.segments.iter().filter(|segment| segment.is_code).filter(ends_behind);
        let exact = of_code().find(|segment| segment.offset <= place);
        let on_page = || of_code().find(|segment| segment.offset - segment.offset % MAX_PAGE_BYTES <= place);
        let segment = exact.or_else(on_page)?;
        Some(place.wrapping_sub(segment.offset).wrapping_add(segment.address))
    }

    /// The function that an address is in, as the linker calls it.
    #[must_use]
    pub fn name_of(&self, address: u64) -> Option<&str> {
        self.names.find(address)
    }

    /// Whether an address is in the code that a process begins with: nothing has called it.
    #[must_use]
    pub fn is_entry(&self, address: u64) -> bool {
        self.entry != 0 && (self.entry..self.entry.saturating_add(ENTRY_BYTES)).contains(&address)
    }

    /// How many functions have names.
    #[must_use]
    pub fn functions(&self) -> usize {
        self.names.len()
    }
}

impl Segment {
    fn of<'a>(segment: &impl object::ObjectSegment<'a>) -> Self {
        let (offset, bytes) = segment.file_range();
        let is_code =
            matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.0 & elf::PF_X.0 != 0);
        Self { offset, bytes, address: segment.address(), is_code }
    }
}

fn is_code(flags: SectionFlags) -> bool {
    matches!(flags, SectionFlags::Elf { sh_flags, .. } if sh_flags.0 & elf::SHF_EXECINSTR.0 != 0)
}

fn names<'a>(file: &object::File<'a, impl ReadRef<'a>>) -> Names {
    let mut names = Names::default();
    let mut push = |symbol: object::Symbol<'a, '_, _>| {
        if symbol.kind() == SymbolKind::Text && symbol.is_definition() {
            names.push(symbol.address(), symbol.size(), symbol.name().unwrap_or_default());
        }
    };
    match file.symbols().next() {
        Some(_) => file.symbols().for_each(&mut push),
        None => file.dynamic_symbols().for_each(&mut push),
    }
    names.finish()
}

fn section<'a>(file: &object::File<'a, impl ReadRef<'a>>, name: &str) -> Option<Section> {
    let section = file.section_by_name(name).filter(|section| section.size() <= MAX_SECTION_BYTES)?;
    Some(Section { address: section.address(), bytes: section.data().ok()?.into() })
}

/// Whether `.eh_frame_hdr` is as all linkers write it, and points into `.eh_frame` only. Parsers take its word for that: gimli 0.33 subtracts without
/// looking.
///
/// ```text
/// version 1 │ three encodings │ .eh_frame, from here (i32) │ how many (u32) │ a function and its entry, from the section's start (i32, i32) │ …
/// ```
fn is_index(index: &Section, of: &Section) -> bool {
    /// DW_EH_PE_pcrel, DW_EH_PE_udata4, DW_EH_PE_datarel, of sdata4.
    const USUAL: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
    let Some((USUAL, rest)) = index.bytes.split_first_chunk().map(|(head, rest)| (*head, rest)) else {
        return false;
    };
    let (words, _) = rest.as_chunks::<4>();
    let [first, count, table @ ..] = words else { return false };
    let at = |from: u64, word: &[u8; 4]| from.wrapping_add_signed(i64::from(i32::from_le_bytes(*word)));
    let (entries, _) = table.as_chunks::<2>();
    let Some(entries) = entries.get(..u32::from_le_bytes(*count) as usize) else { return false };
    let is_in =
        |address: u64| address.checked_sub(of.address).is_some_and(|place| place < of.bytes.len() as u64);
    at(index.address.wrapping_add(USUAL.len() as u64), first) == of.address
        && entries.iter().all(|[_, entry]| is_in(at(index.address, entry)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_points_elsewhere_is_none() {
        let of = Section { address: 0x2000, bytes: [0; 64].into() };
        let index = |words: &[i32]| {
            let words = words.iter().flat_map(|word| word.to_le_bytes());
            let bytes: Vec<u8> = [1, 0x1b, 0x03, 0x3b].into_iter().chain(words).collect();
            Section { address: 0x1000, bytes: bytes.into() }
        };
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

    #[test]
    fn this_program_knows_its_functions() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        let elf = Elf::read(own.as_slice()).unwrap();
        assert!(elf.functions() > 1000 && elf.eh_frame.is_some() && elf.eh_frame_hdr.is_some());
        let text = elf.text.clone().unwrap();
        let segment = elf.segments.iter().find(|it| it.is_code && it.address <= text.start).unwrap();
        let place = text.start - segment.address + segment.offset;
        assert_eq!(elf.address_of(place), Some(text.start));
        let named = text.clone().step_by(64).filter_map(|address| elf.name_of(address));
        assert!(named.map(crate::demangle).any(|name| name.starts_with("ferretto_symbols::")));
        let page = segment.offset - segment.offset % 4096;
        assert_eq!(elf.address_of(page), Some(segment.address.wrapping_sub(segment.offset - page)));
        assert_eq!(elf.address_of(u64::MAX), None);
    }

    #[test]
    fn a_file_that_ends_anywhere_or_has_other_bytes_is_read_or_refused() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        let head = &own[..own.len().min(1 << 16)];
        for len in (0..head.len()).step_by(97) {
            let _ = Elf::read(&head[..len]);
        }
        for at in 0..512 {
            let mut other = head.to_vec();
            other[at] ^= 0xff;
            let _ = Elf::read(other.as_slice()).map(|elf| (elf.address_of(1), elf.name_of(1).map(str::len)));
        }
        assert!(Elf::read(&b"#!/bin/sh\n"[..]).is_err());
    }
}
