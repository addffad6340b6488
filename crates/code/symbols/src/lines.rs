//! Functions, those that were inlined too, and lines of addresses, as compilers write them down for debuggers (DWARF).
//!
//! Debug information may be spread over files: units in files of their own (`.dwo`, `.dwp`), parts that several programs share (dwz). Who asks opens
//! them. It is read in rounds, so that what is kept of it has a bound; an address that says too much has no lines.

use std::sync::Arc;

use addr2line::{Context, FrameIter, LookupContinuation as _, LookupResult, SplitDwarfLoad};
use gimli::{Dwarf, DwarfPackage, DwoId, RunTimeEndian, SectionId};

pub use crate::debug::{About, Debug, Error, Kept, crc32};
use crate::demangle;
use crate::metered::{Meter, Metered};

/// Inlined functions at an address, and the one that they are in. Of programs built with much optimization some twenty.
pub const MAX_PLACES: usize = 256;
/// Bytes of a name or a path.
const MAX_NAME_BYTES: usize = 4096;
/// Reads of debug information until all that is kept of it is forgotten. What is kept of a read is some hundred bytes at most.
const READS_OF_A_ROUND: u64 = 32 << 20;
/// Reads for one address, with those that begin a round.
const MAX_READS_OF_A_ROUND: u64 = 64 << 20;
/// Addresses that may say too much.
const MAX_FAILED: usize = 4;
/// Rounds in all. A file of a gigabyte needs some thirty, if all of it is asked for.
const MAX_ROUNDS: usize = 128;

/// A function, and a line in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// As people write it.
    pub function: Option<String>,
    /// The path of the source.
    pub file: Option<String>,
    /// From 1.
    pub line: Option<u32>,
}

/// A unit whose debug information is in a file of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The folder that it was compiled in.
    pub folder: Option<Vec<u8>>,
    /// Where it is, as seen from there.
    pub path: Vec<u8>,
}

/// The files that have the debug information of one program or library.
#[derive(Clone, Debug, Default)]
pub struct DebugFiles<'a> {
    /// Itself, or the file that has what was stripped of it.
    pub main: Debug<'a>,
    /// What it shares with others.
    pub alternate: Option<Debug<'a>>,
    /// Units in files of their own, together (`.dwp`).
    pub package: Option<Debug<'a>>,
}

type Read<'m> = Metered<'m>;

impl<'a> DebugFiles<'a> {
    /// Finds addresses, each of which the file is linked for. `split` gives the bytes of a unit's own file; `found` is told of each address that
    /// something is known of: the innermost inlined function first.
    ///
    /// # Errors
    ///
    /// If it is damaged as a whole, or says too much. Of some addresses something may have been found nevertheless.
    pub fn find(
        &self,
        addresses: &[u64],
        kept: &'a Kept,
        split: &mut dyn FnMut(&Split) -> Option<Vec<u8>>,
        found: &mut dyn FnMut(u64, Vec<Place>),
    ) -> Result<(), Error> {
        let (mut rest, mut failed) = (addresses, 0);
        for _ in 0..MAX_ROUNDS {
            if rest.is_empty() {
                return Ok(());
            }
            if !self.round(&mut rest, &Meter::new(MAX_READS_OF_A_ROUND), kept, split, found)? {
                failed += 1;
            }
            if failed > MAX_FAILED {
                break;
            }
        }
        Err(Error::TooMuch)
    }

    /// Takes addresses off `rest`, one at least, until they have cost enough. Says whether all were found that could be: not the one that has used up all
    /// that there was for a round.
    fn round(
        &self,
        rest: &mut &[u64],
        meter: &Meter,
        kept: &'a Kept,
        split: &mut dyn FnMut(&Split) -> Option<Vec<u8>>,
        found: &mut dyn FnMut(u64, Vec<Place>),
    ) -> Result<bool, Error> {
        let damaged = |error: gimli::Error| match meter.is_over() {
            true => Error::TooMuch,
            false => Error::Damaged(error.to_string()),
        };
        let mut dwarf = self.main.dwarf(meter);
        if let Some(alternate) = &self.alternate {
            dwarf.set_sup(alternate.dwarf(meter));
        }
        let package = self.package.as_ref().and_then(|package| package.package(meter));
        let context = Context::from_dwarf(dwarf).map_err(damaged)?;
        while let [address, others @ ..] = *rest {
            *rest = others;
            // addr2line adds one to it.
            if *address == u64::MAX {
                continue;
            }
            let mut lookup = context.find_frames(*address);
            let frames = loop {
                match lookup {
                    LookupResult::Output(frames) => break frames,
                    LookupResult::Load { load, continuation } => {
                        lookup = continuation.resume(unit(&load, package.as_ref(), kept, split, meter));
                    }
                }
            };
            // Of one unit that is damaged others know nothing.
            if let Ok(places) = frames.and_then(places)
                && !places.is_empty()
            {
                found(*address, places);
            }
            if meter.is_over() {
                return Ok(false);
            }
            if meter.left() < MAX_READS_OF_A_ROUND - READS_OF_A_ROUND {
                break;
            }
        }
        Ok(true)
    }
}

/// What the frames of an address are, innermost first.
fn places(mut frames: FrameIter<'_, Read<'_>>) -> gimli::Result<Vec<Place>> {
    let mut places = Vec::new();
    while let Some(frame) = frames.next()? {
        if places.len() == MAX_PLACES {
            break;
        }
        let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
        let location = frame.location.as_ref();
        let file = location.and_then(|it| it.file).filter(|file| !file.is_empty());
        let place = Place {
            function: name.map(|name| demangle(&bounded(&name))).filter(|name| !name.is_empty()),
            file: file.map(bounded),
            line: location.and_then(|it| it.line),
        };
        places.push(place);
    }
    // Of a place of which nothing is known nothing is said.
    if places.iter().all(|place| *place == Place::default()) {
        places.clear();
    }
    Ok(places)
}

/// Its beginning.
fn bounded(name: &str) -> String {
    let beginning = name.as_bytes().get(..MAX_NAME_BYTES);
    beginning.map_or_else(|| name.to_owned(), |beginning| String::from_utf8_lossy(beginning).into_owned())
}

/// The debug information of a unit that is in a file of its own.
#[expect(clippy::arc_with_non_send_sync, reason = "addr2line wants it so; it stays on this thread")]
fn unit<'m>(
    load: &SplitDwarfLoad<Read<'m>>,
    package: Option<&DwarfPackage<Read<'m>>>,
    kept: &'m Kept,
    split: &mut dyn FnMut(&Split) -> Option<Vec<u8>>,
    meter: &'m Meter,
) -> Option<Arc<Dwarf<Read<'m>>>> {
    if let Some(unit) = package.and_then(|package| package.find_cu(load.dwo_id, &load.parent).ok().flatten())
    {
        return Some(Arc::new(unit));
    }
    let text = |text: &Read<'m>| gimli::Reader::to_slice(text).ok().map(std::borrow::Cow::into_owned);
    let path = load.path.as_ref().and_then(text)?;
    let asked = Split { folder: load.comp_dir.as_ref().and_then(text), path };
    let file = kept.keep(split(&asked)?)?;
    let mut unit = Debug::read(file, kept).ok()?.dwarf(meter);
    unit.make_dwo(&load.parent);
    (id_of(&unit)? == load.dwo_id).then(|| Arc::new(unit))
}

/// Which unit a file is of.
fn id_of(dwarf: &Dwarf<Read<'_>>) -> Option<DwoId> {
    let header = dwarf.units().next().ok().flatten()?;
    dwarf.unit(header).ok()?.dwo_id
}

impl<'a> Debug<'a> {
    fn reader<'m>(&self, id: SectionId, meter: &'m Meter) -> Read<'m>
    where
        'a: 'm,
    {
        let endian = if self.is_big_endian { RunTimeEndian::Big } else { RunTimeEndian::Little };
        Metered::new(self.section(id), endian, meter)
    }

    fn dwarf<'m>(&self, meter: &'m Meter) -> Dwarf<Read<'m>>
    where
        'a: 'm,
    {
        let load = |id| Ok::<_, std::convert::Infallible>(self.reader(id, meter));
        match Dwarf::load(load) {
            Ok(dwarf) => dwarf,
            Err(never) => match never {},
        }
    }

    fn package<'m>(&self, meter: &'m Meter) -> Option<DwarfPackage<Read<'m>>>
    where
        'a: 'm,
    {
        let endian = if self.is_big_endian { RunTimeEndian::Big } else { RunTimeEndian::Little };
        let load = |id| Ok::<_, gimli::Error>(self.reader(id, meter));
        DwarfPackage::load(load, Metered::new(&[], endian, meter)).ok()
    }
}

#[cfg(test)]
mod tests {
    use object::ReadCache;

    use super::*;

    /// What was found of addresses, and how it ended.
    type Found = (Vec<(u64, Vec<Place>)>, Result<(), Error>);

    fn find(files: &DebugFiles<'_>, addresses: &[u64]) -> Found {
        let (kept, mut found) = (Kept::default(), Vec::new());
        let files = DebugFiles { main: files.main.clone(), ..DebugFiles::default() };
        let end = files.find(addresses, &kept, &mut |_| None, &mut |address, places| {
            found.push((address, places));
        });
        (found, end)
    }

    #[test]
    fn this_program_knows_its_lines() {
        let (kept, own) = (Kept::default(), std::fs::File::open("/proc/self/exe").unwrap());
        let cache = ReadCache::new(own);
        let main = Debug::read(&cache, &kept).unwrap();
        if !About::read(&cache).unwrap().is_there {
            return eprintln!("skipped: the tests are built without lines");
        }
        let elf = crate::Elf::read(&cache).unwrap();
        let text = elf.text.clone().unwrap();
        let is_here = |address: &u64| {
            elf.name_of(*address).is_some_and(|name| demangle(name).ends_with("this_program_knows_its_lines"))
        };
        let address = text.step_by(8).find(is_here).unwrap();
        let (found, end) = find(&DebugFiles { main, ..DebugFiles::default() }, &[address, u64::MAX, 1]);
        assert_eq!((found.len(), end), (1, Ok(())));
        let place = found[0].1.last().unwrap();
        assert!(place.file.as_deref().unwrap().ends_with("crates/code/symbols/src/lines.rs"), "{place:?}");
        assert!(place.function.as_deref().unwrap().ends_with("this_program_knows_its_lines"), "{place:?}");
        assert!(place.line.unwrap() > 100);
    }

    /// A unit with a function from 0x1000 to 0x2000, and in it `depth` inlined functions, each in the one before.
    fn nested(depth: usize) -> (Vec<u8>, Vec<u8>) {
        const ADDRESSES: [u8; 8] = [0x11, 0x01, 0x12, 0x06, 0x55, 0x17, 0, 0];
        let (low_high, _) = ADDRESSES.split_at(4);
        let declared = |code: u8, tag: u8, attributes: &[u8]| [&[code, tag, 1], attributes, &[0, 0]].concat();
        // DW_TAG_compile_unit, DW_TAG_subprogram, DW_TAG_inlined_subroutine; DW_AT_low_pc as an address, DW_AT_high_pc as four bytes.
        let abbreviations =
            [declared(1, 0x11, low_high), declared(2, 0x2e, low_high), declared(3, 0x1d, low_high), vec![0]]
                .concat();
        let range = [&0x1000u64.to_le_bytes()[..], &0x1000u32.to_le_bytes()].concat();
        let entry = |code: u8| [&[code][..], &range].concat();
        let unit = [entry(1), entry(2), entry(3).repeat(depth)].concat();
        // Version 4, abbreviations from 0 on, addresses of eight bytes.
        let head = [4, 0, 0, 0, 0, 0, 8];
        let len = u32::try_from(head.len() + unit.len()).unwrap();
        ([&len.to_le_bytes()[..], &head, &unit].concat(), abbreviations)
    }

    #[test]
    fn what_nests_without_end_is_no_reason_to_crash() {
        for (depth, is_found) in [(3, true), (1 << 20, false)] {
            let (info, abbreviations) = nested(depth);
            let sections = vec![
                (SectionId::DebugInfo, info.as_slice()),
                (SectionId::DebugAbbrev, abbreviations.as_slice()),
            ];
            let main = Debug { sections, ..Debug::default() };
            let (found, end) = find(&DebugFiles { main, ..DebugFiles::default() }, &[0x1800]);
            // They have neither names nor lines.
            assert_eq!((found.len(), end), (0, Ok(())), "{is_found}");
        }
    }

    #[test]
    fn of_sections_that_end_anywhere_or_have_other_bytes_nothing_is_found_or_something() {
        let (info, abbreviations) = nested(3);
        for at in 0..info.len() {
            for (len, flip) in [(at, 0), (info.len(), 0xff), (info.len(), 0x01)] {
                let mut other = info[..len].to_vec();
                if let Some(byte) = other.get_mut(at) {
                    *byte ^= flip;
                }
                let sections = vec![
                    (SectionId::DebugInfo, other.as_slice()),
                    (SectionId::DebugAbbrev, abbreviations.as_slice()),
                    (SectionId::DebugLine, other.as_slice()),
                ];
                let main = Debug { sections, ..Debug::default() };
                let _ = find(&DebugFiles { main, ..DebugFiles::default() }, &[0x1800, 0]);
            }
        }
    }
}
