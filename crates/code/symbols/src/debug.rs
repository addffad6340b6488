//! The sections of a file that have its debug information, unpacked, and where the rest of it is.

use std::cell::OnceCell;
use std::io::Read;

use flate2::read::ZlibDecoder;
use gimli::SectionId;
use object::CompressionFormat;
use object::read::{Object as _, ObjectSection as _, ReadRef};
use ruzstd::decoding::StreamingDecoder;

/// Bytes of one file's sections, unpacked. The largest browsers have a gigabyte and a half.
const MAX_SECTION_BYTES: u64 = 2 << 30;
/// Files and sections that are kept for one lookup: each unit of split debug information is a file, each packed section of it some five more.
const MAX_KEPT: usize = 16 << 10;
/// SHA-1 has 20, and some have a few more.
const MAX_BUILD_ID_BYTES: usize = 64;

/// What lines and inlined functions are found by.
const SECTIONS: [SectionId; 12] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugCuIndex,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugTuIndex,
];

/// What packages of units have beside it: without these the places of the rest in them cannot be told.
const SECTIONS_OF_PACKAGES: [SectionId; 5] = [
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugMacinfo,
    SectionId::DebugMacro,
    SectionId::DebugTypes,
];

/// Bytes that live as long as what is read out of them: unpacked sections, and files that were asked for on the way.
#[derive(Debug)]
pub struct Kept {
    slots: Box<[OnceCell<Box<[u8]>>]>,
    used: std::cell::Cell<usize>,
}

impl Default for Kept {
    fn default() -> Self {
        Self { slots: (0..MAX_KEPT).map(|_| OnceCell::new()).collect(), used: std::cell::Cell::new(0) }
    }
}

impl Kept {
    /// Keeps bytes, if there is room.
    pub(crate) fn keep(&self, bytes: Vec<u8>) -> Option<&[u8]> {
        let slot = self.slots.get(self.used.get())?;
        self.used.set(self.used.get() + 1);
        Some(slot.get_or_init(|| bytes.into_boxed_slice()))
    }
}

/// What the headers of a file say of its debug information.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// What the linker has called the file.
    pub build_id: Option<Box<[u8]>>,
    /// Whether it has any.
    pub is_there: bool,
    /// A file with the rest: its name, and the sum of its bytes ([`crc32`]). (`.gnu_debuglink`)
    pub link: Option<(Vec<u8>, u32)>,
    /// A file that several share: its name, and its build id. (`.gnu_debugaltlink`, as dwz writes it)
    pub alternate: Option<(Vec<u8>, Vec<u8>)>,
}

/// Debug information of a file.
#[derive(Clone, Debug, Default)]
pub struct Debug<'a> {
    pub(crate) sections: Vec<(SectionId, &'a [u8])>,
    pub(crate) is_big_endian: bool,
}

/// Why nothing can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is no ELF file, or its headers point out of it.
    #[error("it is no ELF file that can be read: {0}")]
    File(String),
    /// It has more than anything that is known.
    #[error("its debug information has more than {} MiB", MAX_SECTION_BYTES >> 20)]
    TooLarge,
    /// A section cannot be unpacked.
    #[error("its section {0} cannot be unpacked")]
    Packed(&'static str),
    /// What it says makes no sense.
    #[error("its debug information is damaged: {0}")]
    Damaged(String),
    /// It leads round in circles.
    #[error("its debug information says too much")]
    TooMuch,
}

impl About {
    /// Reads the headers, and notes.
    ///
    /// # Errors
    ///
    /// If it is no ELF file.
    pub fn read<'a>(file: impl ReadRef<'a>) -> Result<Self, Error> {
        let file = parsed(file)?;
        let build_id = file.build_id().ok().flatten().filter(|id| id.len() <= MAX_BUILD_ID_BYTES);
        // Split units are no use without what means them, which has a section of this name, too.
        let whole = [SectionId::DebugInfo, SectionId::DebugLine].map(SectionId::name);
        let sections = whole.iter().filter_map(|name| find(&file, name));
        Ok(Self {
            build_id: build_id.map(Into::into),
            is_there: sections
                .into_iter()
                .any(|section| section.file_range().is_some_and(|(_, len)| len > 0)),
            link: file.gnu_debuglink().ok().flatten().map(|(name, sum)| (name.to_vec(), sum)),
            alternate: file.gnu_debugaltlink().ok().flatten().map(|(name, id)| (name.to_vec(), id.to_vec())),
        })
    }
}

fn parsed<'a, R: ReadRef<'a>>(file: R) -> Result<object::File<'a, R>, Error> {
    let file = object::File::parse(file).map_err(|error| Error::File(error.to_string()))?;
    match file.format() {
        object::BinaryFormat::Elf => Ok(file),
        _ => Err(Error::File("it is of another format".to_owned())),
    }
}

/// A section, also as older compilers have packed it: `.zdebug_info` is `.debug_info`.
fn find<'a, 'f, R: ReadRef<'a>>(
    file: &'f object::File<'a, R>,
    name: &str,
) -> Option<object::Section<'a, 'f, R>> {
    let packed = || file.section_by_name(&format!(".z{}", name.strip_prefix('.')?));
    file.section_by_name(name).or_else(packed)
}

impl<'a> Debug<'a> {
    /// Reads the sections that lines are found by, those of a split unit if it is one.
    ///
    /// # Errors
    ///
    /// If it is no ELF file, or its sections are too large or cannot be unpacked.
    pub fn read(file: impl ReadRef<'a>, kept: &'a Kept) -> Result<Self, Error> {
        let file = parsed(file)?;
        let mut debug = Self { is_big_endian: !file.is_little_endian(), ..Self::default() };
        let mut left = MAX_SECTION_BYTES;
        let is_package = find(&file, SectionId::DebugCuIndex.name()).is_some();
        let of_packages = SECTIONS_OF_PACKAGES.iter().filter(|_| is_package);
        for id in SECTIONS.iter().chain(of_packages) {
            let split = id.dwo_name().and_then(|name| Some((name, find(&file, name)?)));
            let whole = || Some((id.name(), find(&file, id.name())?));
            let Some((name, section)) = split.or_else(whole) else { continue };
            debug.sections.push((*id, bytes_of(name, &section, &mut left, kept)?));
        }
        Ok(debug)
    }

    pub(crate) fn section(&self, id: SectionId) -> &'a [u8] {
        self.sections.iter().find(|(of, _)| *of == id).map_or(&[], |(_, bytes)| bytes)
    }
}

fn bytes_of<'a, R: ReadRef<'a>>(
    name: &'static str,
    section: &object::Section<'a, '_, R>,
    left: &mut u64,
    kept: &'a Kept,
) -> Result<&'a [u8], Error> {
    let file_error = |error: object::Error| Error::File(error.to_string());
    // Of what it is in the file, and of what it says that it becomes.
    let range = section.compressed_file_range().map_err(file_error)?;
    let bytes = range.uncompressed_size.max(range.compressed_size);
    *left = left.checked_sub(bytes).ok_or(Error::TooLarge)?;
    let packed = section.compressed_data().map_err(file_error)?;
    let unpacked = match packed.format {
        CompressionFormat::None => return Ok(packed.data),
        CompressionFormat::Zlib => unpack(ZlibDecoder::new(packed.data), packed.uncompressed_size),
        CompressionFormat::Zstandard => {
            StreamingDecoder::new(packed.data).ok().and_then(|frame| unpack(frame, packed.uncompressed_size))
        }
        _ => None,
    };
    kept.keep(unpacked.ok_or(Error::Packed(name))?).ok_or(Error::TooLarge)
}

/// All of it, if it is as much as it says.
fn unpack(packed: impl Read, bytes: u64) -> Option<Vec<u8>> {
    let mut unpacked = Vec::new();
    packed.take(bytes).read_to_end(&mut unpacked).ok()?;
    (unpacked.len() as u64 == bytes).then_some(unpacked)
}

/// The sum that `.gnu_debuglink` has of the file that it names.
///
/// # Errors
///
/// If it cannot be read.
pub fn crc32(mut file: impl Read) -> std::io::Result<u32> {
    let (mut crc, mut piece) = (flate2::Crc::new(), vec![0; 64 << 10]);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(crc.sum()),
            Ok(len) => crc.update(piece.get(..len).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_section_is_what_it_says_that_it_becomes_or_nothing() {
        let bytes = b"unit".repeat(1000);
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        zlib.write_all(&bytes).unwrap();
        let zlib = zlib.finish().unwrap();
        let zstd =
            ruzstd::encoding::compress_to_vec(bytes.as_slice(), ruzstd::encoding::CompressionLevel::Fastest);
        let zlib = |len| unpack(ZlibDecoder::new(zlib.as_slice()), len);
        let zstd = |len| unpack(StreamingDecoder::new(zstd.as_slice()).unwrap(), len);
        for unpacked in [zlib(4000), zstd(4000)] {
            assert_eq!(unpacked.as_deref(), Some(bytes.as_slice()));
        }
        assert_eq!((zlib(4001), zstd(4001)), (None, None));
        // It says less than it becomes, and more is not unpacked.
        assert_eq!((zlib(4).map(|it| it.len()), zstd(4).map(|it| it.len())), (Some(4), Some(4)));
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let kept = Kept::default();
        assert!((0..MAX_KEPT).all(|at| kept.keep(vec![at as u8]) == Some(&[at as u8])));
        assert_eq!(kept.keep(vec![1]), None);
    }
}
