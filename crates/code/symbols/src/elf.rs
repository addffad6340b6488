//! An ELF file: where its code is, what its functions are called, what says how to unwind their stacks.

use std::sync::Arc;

use object::read::{Object as _, ObjectSection as _, ObjectSymbol as _, ReadRef};
use object::{SectionFlags, SegmentFlags, SymbolKind, elf};

use crate::names::Names;
use crate::unwinding::{self, Unwinding};
use crate::within::{Meter, Within};

/// Bytes that are read of one file. Ours: a browser with all of its debugging information has half of that in what is read here.
const MAX_READ_BYTES: u64 = 2 << 30;
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
    /// How to unwind, if the file says it in a way that ends.
    pub unwinding: Option<Unwinding>,
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

/// What was read of a file within a limit.
#[derive(Clone, Debug)]
pub struct Read {
    /// It.
    pub elf: Elf,
    /// Bytes that were read.
    pub bytes: u64,
    /// The limit was enough.
    pub is_whole: bool,
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
        Self::read_within(MAX_READ_BYTES, file).map(|read| read.elf)
    }

    /// The same, of no more than so many bytes of the file. Sizes that the file says and has not are none, and what it says several times is counted
    /// several times. Of what is beyond there is nothing: there may be no names, or not all.
    ///
    /// # Errors
    ///
    /// If it is no ELF file, or the headers alone are more.
    pub fn read_within<'a>(limit_bytes: u64, file: impl ReadRef<'a>) -> Result<Read, Error> {
        let len = file.len().map_err(|()| Error("its size is not known".to_owned()))?;
        let meter = Meter::new(limit_bytes);
        let elf = Self::parse(len, Within { file, meter: &meter })?;
        Ok(Read { elf, bytes: meter.taken(), is_whole: !meter.is_short() })
    }

    fn parse<'a>(len: u64, file: impl ReadRef<'a>) -> Result<Self, Error> {
        let file = object::File::parse(file).map_err(|error| Error(error.to_string()))?;
        if file.format() != object::BinaryFormat::Elf {
            return Err(Error("it is of another format".to_owned()));
        }
        let build_id = file.build_id().ok().flatten().filter(|id| id.len() <= MAX_BUILD_ID_BYTES);
        let text = file.section_by_name(".text").filter(|section| is_code(section.flags()));
        let text = text.map(|text| text.address()..text.address().saturating_add(text.size()));
        let text_address = text.as_ref().map_or(0, |text| text.start);
        let unwinding = section(&file, ".eh_frame")
            .and_then(|rules| unwinding::read(rules, section(&file, ".eh_frame_hdr"), text_address));
        Ok(Self {
            build_id: build_id.map(Into::into),
            segments: file.segments().take(MAX_SEGMENTS).map(|segment| Segment::of(&segment)).collect(),
            names: names(&file, len),
            entry: file.entry(),
            unwinding,
            text,
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

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let unwinding = self.unwinding.as_ref();
        let sections = unwinding.map_or(0, |it| it.rules.bytes.len() + it.index.bytes.len());
        size_of::<Self>() + size_of_val(self.segments.as_slice()) + self.names.bytes() + sections
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

fn names<'a>(file: &object::File<'a, impl ReadRef<'a>>, len: u64) -> Names {
    let mut names = Names::within(len);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_knows_its_functions() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        let elf = Elf::read(own.as_slice()).unwrap();
        assert!(elf.functions() > 1000 && elf.unwinding.is_some());
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

    /// A file of one symbol table and one table of names: its symbols are called by what stands at these places.
    fn with_symbols(names: &[u8], places: &[u32]) -> Vec<u8> {
        const HEADER: u64 = 64;
        let (names_at, symbols_at) = (HEADER, HEADER + names.len() as u64);
        let symbol = |(n, place): (usize, &u32)| {
            // STT_FUNC, in section 1.
            [&place.to_le_bytes()[..], &[2, 0, 1, 0], &(n as u64 * 16).to_le_bytes(), &16u64.to_le_bytes()]
                .concat()
        };
        let none = vec![0; 24];
        let symbols: Vec<u8> =
            std::iter::once(none).chain(places.iter().enumerate().map(symbol)).flatten().collect();
        let section = |kind: u32, at: u64, len: u64, link: u32, entry: u64| {
            let words = [0, at, len].map(u64::to_le_bytes).concat();
            let ends = [link, 0].map(u32::to_le_bytes).concat();
            [&[0; 4][..], &kind.to_le_bytes(), &[0; 8], &words, &ends, &[0; 8], &entry.to_le_bytes()].concat()
        };
        let sections_at = symbols_at + symbols.len() as u64;
        let sections = [
            section(0, 0, 0, 0, 0),
            // SHT_STRTAB, SHT_SYMTAB.
            section(3, names_at, names.len() as u64, 0, 0),
            section(2, symbols_at, symbols.len() as u64, 1, 24),
        ];
        let mut header = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        // ET_DYN, x86-64.
        header.extend([3u16, 62].map(u16::to_le_bytes).concat());
        header.extend([1u32].map(u32::to_le_bytes).concat());
        header.extend([0, 0, sections_at].map(u64::to_le_bytes).concat());
        header.extend(0u32.to_le_bytes());
        header.extend([64u16, 56, 0, 64, 3, 1].map(u16::to_le_bytes).concat());
        [header, names.to_vec(), symbols, sections.concat()].concat()
    }

    #[test]
    fn names_take_no_more_than_the_file_has() {
        let name = [&[0][..], &[b'x'; 1000], &[0]].concat();
        let file = with_symbols(&name, &[1; 5000]);
        let elf = Elf::read(file.as_slice()).unwrap();
        assert_eq!(elf.name_of(7), Some("x".repeat(1000).as_str()));
        assert_eq!(
            elf.functions(),
            file.len() / 1000,
            "each has the same one, and the file's size is that of so many"
        );
        assert!(elf.bytes() < 2 * file.len());
    }

    #[test]
    fn a_name_is_no_longer_than_people_read() {
        let long = [&[0][..], &[b'x'; 4097], &[0], &[b'y'; 4096], &[0]].concat();
        let elf = Elf::read(with_symbols(&long, &[1, 4099]).as_slice()).unwrap();
        assert_eq!((elf.functions(), elf.name_of(0), elf.name_of(16).map(str::len)), (1, None, Some(4096)));
    }

    #[test]
    fn names_are_read_wherever_they_lie() {
        let text: Vec<u8> = (0..40_000).flat_map(|n| format!("\0name{n}").into_bytes()).chain([0]).collect();
        let ends = text.iter().enumerate().filter(|(_, byte)| **byte == 0).map(|(at, _)| at as u32 + 1);
        let places: Vec<u32> = ends.take(40_000).collect();
        let elf = Elf::read(with_symbols(&text, &places).as_slice()).unwrap();
        assert!((0..40_000).all(|n| elf.name_of(n * 16) == Some(format!("name{n}").as_str())));
    }

    #[test]
    fn a_file_is_read_for_so_many_bytes_whatever_it_says() {
        let file = with_symbols(&[0; 200_000], &[1; 10]);
        let read = Elf::read_within(1 << 20, file.as_slice()).unwrap();
        assert!(read.elf.functions() == 0 && read.is_whole && read.bytes < 70_000, "{}", read.bytes);
        let own = std::fs::read("/proc/self/exe").unwrap();
        let all = Elf::read_within(u64::MAX, own.as_slice()).unwrap().bytes;
        assert!(all > 100_000);
        for limit in [0, 1, 64, 1000, all / 2, all - 1] {
            let read = Elf::read_within(limit, own.as_slice());
            assert!(read.is_err() || read.is_ok_and(|read| read.bytes <= limit && !read.is_whole));
        }
        assert!(Elf::read_within(all, own.as_slice()).unwrap().is_whole);
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
