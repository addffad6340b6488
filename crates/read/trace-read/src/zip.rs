//! A zip archive: its members, and the bytes of each.
//!
//! Members are those of the directory at the archive's end (APPNOTE.TXT of PKWARE, 4.3 and 4.4), also in its form for large archives. An archive
//! that was cut off has no directory: then they are those whose headers are met from the begin on. Members may be stored or deflated; what is
//! encrypted, or packed otherwise, is said by name.
//!
//! An archive is hostile. Its directory has a bound, members that lie in each other are refused, each is as long as the directory says and no
//! longer, and its checksum is that of the bytes that came out.
//!
//! ```
//! use std::io::{Cursor, Read};
//! use ferretto_trace_read::zip::Archive;
//!
//! let file = b"PK\x03\x04\x0a\0\0\0\0\0\0\0\0\0\x86\xa6\x10\x36\x05\0\0\0\x05\0\0\0\x01\0\0\0ahello";
//! let mut archive = Archive::open(Cursor::new(file)).unwrap();
//! assert_eq!(archive.members()[0].name, "a");
//! let mut text = String::new();
//! archive.read(0).unwrap().read_to_string(&mut text).unwrap();
//! assert_eq!(text, "hello");
//! ```

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use flate2::Crc;
use flate2::read::DeflateDecoder;

/// Members of an archive. Ours: an archive of traces has some dozens.
pub const MAX_MEMBERS: usize = 10_000;
/// Bytes of an archive's directory. Ours: some hundred a member.
const MAX_DIRECTORY_BYTES: u64 = 16 << 20;
/// Read at once.
const PIECE_BYTES: usize = 64 << 10;

/// What parts of an archive begin with.
mod signature {
    pub(super) const MEMBER: [u8; 4] = *b"PK\x03\x04";
    pub(super) const ENTRY: [u8; 4] = *b"PK\x01\x02";
    pub(super) const END: [u8; 4] = *b"PK\x05\x06";
    pub(super) const LARGE_END: [u8; 4] = *b"PK\x06\x06";
    pub(super) const LARGE_LOCATOR: [u8; 4] = *b"PK\x06\x07";
    pub(super) const DESCRIPTOR: [u8; 4] = *b"PK\x07\x08";
}

/// Bytes of the parts that have a fixed size.
mod size {
    pub(super) const MEMBER: usize = 30;
    pub(super) const ENTRY: usize = 46;
    pub(super) const END: usize = 22;
    pub(super) const LARGE_END: usize = 56;
    pub(super) const LARGE_LOCATOR: usize = 20;
    /// A comment behind the end.
    pub(super) const MAX_COMMENT: usize = 65_535;
}

mod method {
    pub(super) const STORED: u16 = 0;
    pub(super) const DEFLATED: u16 = 8;
}

/// Of the flags: the member is encrypted.
const ENCRYPTED: u16 = 1;
/// Of the flags: sizes stand behind the member.
const SIZES_BEHIND: u16 = 1 << 3;
/// Numbers that stand elsewhere.
const ELSEWHERE: u32 = u32::MAX;
/// The extra field with them.
const LARGE_NUMBERS: u16 = 1;

/// A file in an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Its path, as the archive has it.
    pub name: String,
    /// Its size in the archive.
    pub packed_bytes: u64,
    /// Its size; nothing if the archive was cut off before it says so.
    pub bytes: Option<u64>,
    /// Where its header is.
    offset: u64,
    crc: Option<u32>,
    method: u16,
    flags: u16,
}

/// Whether a file is one of those that systems put beside others: its name, or that of a folder that it is in, begins with a point or is
/// `__MACOSX`.
#[must_use]
pub fn is_hidden(path: &str) -> bool {
    let is_it = |part: &str| part == "__MACOSX" || (part.starts_with('.') && !matches!(part, "." | ".."));
    path.split('/').any(is_it)
}

/// An archive.
#[derive(Debug)]
pub struct Archive<R> {
    file: R,
    members: Vec<Member>,
    is_cut_off: bool,
}

impl<R: Read + Seek> Archive<R> {
    /// Reads the directory of an archive.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is no archive, or one that lies about where its members are.
    pub fn open(mut file: R) -> io::Result<Self> {
        let len = file.seek(SeekFrom::End(0))?;
        let (mut members, is_cut_off) = match directory(&mut file, len)? {
            Some(bytes) => (entries(&bytes)?, false),
            None => (walk(&mut file, len)?, true),
        };
        if members.is_empty() && is_cut_off {
            return Err(broken("this zip archive is cut off before its first member ends"));
        }
        members.retain(|member| member.offset < len);
        must_lie_apart(&members)?;
        Ok(Self { file, members, is_cut_off })
    }

    /// Its members, in the order of its directory.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Whether it has no directory, for it was cut off.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// The bytes of a member, by its turn.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, the member is not there, or it is packed in a way that is not known here. Reading it is an error where its
    /// bytes are not what the directory says.
    pub fn read(&mut self, member: usize) -> io::Result<Box<dyn Read + '_>> {
        let member = self.members.get(member).ok_or_else(|| broken("there is no such member"))?;
        if member.flags & ENCRYPTED != 0 {
            return Err(unsupported("it is encrypted"));
        }
        let packed = start_of_data(&mut self.file, member.offset)?;
        self.file.seek(SeekFrom::Start(packed))?;
        let packed = BufReader::with_capacity(PIECE_BYTES, (&mut self.file).take(member.packed_bytes));
        match member.method {
            method::STORED => Ok(Box::new(Checked::new(packed, member))),
            method::DEFLATED => Ok(Box::new(Checked::new(DeflateDecoder::new(packed), member))),
            _ => Err(unsupported("it is packed by a method that is not read; pack it by deflate")),
        }
    }
}

/// Bytes that must be as many as were said, and have the checksum that was said.
struct Checked<R> {
    file: R,
    left: Option<u64>,
    crc: Option<u32>,
    seen: Crc,
}

impl<R: Read> Checked<R> {
    fn new(file: R, member: &Member) -> Self {
        Self { file, left: member.bytes, crc: member.crc, seen: Crc::new() }
    }
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if to.is_empty() {
            return Ok(0);
        }
        let len = self.file.read(to)?;
        if let Some(left) = &mut self.left {
            *left = left
                .checked_sub(len as u64)
                .ok_or_else(|| broken("a member of the zip archive is longer than its directory says"))?;
        }
        if len > 0 {
            self.seen.update(to.get(..len).unwrap_or_default());
        } else if self.left.is_some_and(|left| left > 0) {
            return Err(broken("a member of the zip archive ends early"));
        } else if self.crc.is_some_and(|crc| crc != self.seen.sum()) {
            return Err(broken("a member of the zip archive is damaged: its checksum is another"));
        }
        Ok(len)
    }
}

fn broken(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn unsupported(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, what)
}

/// The bytes of the directory; nothing if there is none.
fn directory<R: Read + Seek>(file: &mut R, len: u64) -> io::Result<Option<Vec<u8>>> {
    let tail_bytes = len.min((size::END + size::MAX_COMMENT) as u64);
    let tail_at = len - tail_bytes;
    let tail = read_at(file, tail_at, tail_bytes)?;
    // The last that fits: a comment may have anything in it.
    let is_end = |at: &usize| {
        let end = Bytes(tail.get(*at..).unwrap_or_default());
        end.starts_with(signature::END)
            && end.u16(20).is_some_and(|comment| size::END + comment as usize <= end.0.len())
    };
    let Some(at) = (0..tail.len().saturating_sub(size::END - 1)).rev().find(is_end) else { return Ok(None) };
    let end = Bytes(tail.get(at..).unwrap_or_default());
    let (mut bytes, mut offset) = (end.u32(12).map_or(0, u64::from), end.u32(16).map_or(0, u64::from));
    if bytes == u64::from(ELSEWHERE) || offset == u64::from(ELSEWHERE) || end.u16(10) == Some(u16::MAX) {
        let locator_at = (tail_at + at as u64).checked_sub(size::LARGE_LOCATOR as u64);
        if let Some(large) = locator_at.map(|at| large_end(file, at)).transpose()?.flatten() {
            (bytes, offset) = large;
        }
    }
    if bytes > MAX_DIRECTORY_BYTES {
        return Err(broken("the directory of this zip archive is larger than is read"));
    }
    if offset.checked_add(bytes).is_none_or(|end| end > len) {
        return Err(broken("the directory of this zip archive is not where its end says"));
    }
    read_at(file, offset, bytes).map(Some)
}

/// Size and place of the directory of a large archive.
fn large_end<R: Read + Seek>(file: &mut R, locator_at: u64) -> io::Result<Option<(u64, u64)>> {
    let locator = read_at(file, locator_at, size::LARGE_LOCATOR as u64)?;
    let locator = Bytes(&locator);
    let Some(at) = locator.u64(8).filter(|_| locator.starts_with(signature::LARGE_LOCATOR)) else {
        return Ok(None);
    };
    let end = read_at(file, at, size::LARGE_END as u64)?;
    let end = Bytes(&end);
    if !end.starts_with(signature::LARGE_END) {
        return Ok(None);
    }
    Ok(end.u64(40).zip(end.u64(48)))
}

fn entries(directory: &[u8]) -> io::Result<Vec<Member>> {
    let mut members = Vec::new();
    let mut rest = directory;
    while Bytes(rest).starts_with(signature::ENTRY) {
        if members.len() >= MAX_MEMBERS {
            return Err(broken("this zip archive has more members than are read"));
        }
        let Some((member, bytes)) = entry(Bytes(rest)) else { break };
        members.push(member);
        rest = rest.get(bytes..).unwrap_or_default();
    }
    Ok(members)
}

/// A member, and how many bytes the directory has of it.
fn entry(entry: Bytes<'_>) -> Option<(Member, usize)> {
    let (name_bytes, extra_bytes, comment_bytes) =
        (usize::from(entry.u16(28)?), usize::from(entry.u16(30)?), usize::from(entry.u16(32)?));
    let name_end = size::ENTRY + name_bytes;
    let name = entry.0.get(size::ENTRY..name_end)?;
    let extra = entry.0.get(name_end..name_end + extra_bytes)?;
    let mut large = large_numbers(extra);
    let mut number = |at: usize| -> Option<u64> {
        match entry.u32(at)? {
            ELSEWHERE => large.next(),
            number => Some(u64::from(number)),
        }
    };
    // In this order they stand in the extra field.
    let bytes = number(24)?;
    let packed_bytes = number(20)?;
    let offset = number(42)?;
    let member = Member {
        name: String::from_utf8_lossy(name).into_owned(),
        packed_bytes,
        bytes: Some(bytes),
        offset,
        crc: Some(entry.u32(16)?),
        method: entry.u16(10)?,
        flags: entry.u16(8)?,
    };
    Some((member, name_end + extra_bytes + comment_bytes))
}

/// The numbers of 64 bits of a large member.
fn large_numbers(extra: &[u8]) -> impl Iterator<Item = u64> {
    let mut rest = extra;
    let mut found: &[u8] = &[];
    while let Some((id, len)) = Bytes(rest).u16(0).zip(Bytes(rest).u16(2)) {
        let end = 4 + usize::from(len);
        if id == LARGE_NUMBERS {
            found = rest.get(4..end.min(rest.len())).unwrap_or_default();
        }
        rest = rest.get(end..).unwrap_or_default();
    }
    let (words, _) = found.as_chunks();
    words.iter().map(|word| u64::from_le_bytes(*word))
}

/// The members that are met from the begin on.
fn walk<R: Read + Seek>(file: &mut R, len: u64) -> io::Result<Vec<Member>> {
    let mut members = Vec::new();
    let mut at = 0;
    while members.len() < MAX_MEMBERS {
        let head = read_at(file, at, size::MEMBER as u64)?;
        let head = Bytes(&head);
        if !head.starts_with(signature::MEMBER) {
            break;
        }
        let Some((mut member, data)) = header(file, head, at)? else { break };
        let behind = match member.bytes {
            Some(_) => data.saturating_add(member.packed_bytes),
            None => {
                let Some(packed_bytes) = packed_bytes(file, &member, data)? else {
                    // Its end is not there: what is of it may be read.
                    member.packed_bytes = len - data;
                    members.push(member);
                    break;
                };
                member.packed_bytes = packed_bytes;
                behind_descriptor(file, data + packed_bytes)?
            }
        };
        member.packed_bytes = member.packed_bytes.min(len.saturating_sub(data));
        members.push(member);
        at = behind;
    }
    Ok(members)
}

/// What a member's own header says of it, and where its bytes begin.
fn header<R: Read + Seek>(file: &mut R, head: Bytes<'_>, offset: u64) -> io::Result<Option<(Member, u64)>> {
    let lens = head.u16(26).zip(head.u16(28));
    let numbers = head.u16(6).zip(head.u16(8)).zip(head.u32(14)).zip(head.u32(18).zip(head.u32(22)));
    let (Some((name_bytes, extra_bytes)), Some((((flags, method), crc), (packed, bytes)))) = (lens, numbers)
    else {
        return Ok(None);
    };
    let behind = read_at(file, offset + size::MEMBER as u64, u64::from(name_bytes) + u64::from(extra_bytes))?;
    let (name, extra) = behind.split_at(usize::from(name_bytes).min(behind.len()));
    let mut large = large_numbers(extra);
    let mut number = |short: u32| if short == ELSEWHERE { large.next() } else { Some(u64::from(short)) };
    let (bytes, packed_bytes) = (number(bytes), number(packed));
    let is_said = flags & SIZES_BEHIND == 0;
    let member = Member {
        name: String::from_utf8_lossy(name).into_owned(),
        packed_bytes: packed_bytes.unwrap_or(0),
        bytes: bytes.filter(|_| is_said),
        offset,
        crc: is_said.then_some(crc),
        method,
        flags,
    };
    Ok(Some((member, offset + (size::MEMBER + behind.len()) as u64)))
}

/// How many bytes a deflated member has, found by unpacking it.
fn packed_bytes<R: Read + Seek>(file: &mut R, member: &Member, data: u64) -> io::Result<Option<u64>> {
    if member.method != method::DEFLATED {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(data))?;
    let mut unpacked = flate2::bufread::DeflateDecoder::new(BufReader::with_capacity(PIECE_BYTES, file));
    match io::copy(&mut unpacked, &mut io::sink()) {
        Ok(_) => Ok(Some(unpacked.total_in())),
        Err(_) => Ok(None),
    }
}

/// Behind a member whose sizes stand there: they are of 32 or 64 bits, and may have a mark.
fn behind_descriptor<R: Read + Seek>(file: &mut R, at: u64) -> io::Result<u64> {
    const LONGEST: u64 = 24 + 4;
    let bytes = read_at(file, at, LONGEST)?;
    let skip = if Bytes(&bytes).starts_with(signature::DESCRIPTOR) { 4 } else { 0 };
    let is_next = |len: &usize| {
        let next = Bytes(bytes.get(skip + len..).unwrap_or_default());
        next.starts_with(signature::MEMBER) || next.starts_with(signature::ENTRY)
    };
    let len = [12, 20].into_iter().find(is_next).unwrap_or(12);
    Ok(at + (skip + len) as u64)
}

/// Where a member's bytes begin: its own header may have other extra fields than the directory.
fn start_of_data<R: Read + Seek>(file: &mut R, offset: u64) -> io::Result<u64> {
    let head = read_at(file, offset, size::MEMBER as u64)?;
    let head = Bytes(&head);
    match head.u16(26).zip(head.u16(28)) {
        Some((name, extra)) if head.starts_with(signature::MEMBER) => {
            Ok(offset + size::MEMBER as u64 + u64::from(name) + u64::from(extra))
        }
        _ => Err(broken("a member of the zip archive is not where its directory says")),
    }
}

/// Of members that share bytes the same bytes would come out again and again.
fn must_lie_apart(members: &[Member]) -> io::Result<()> {
    let mut places: Vec<(u64, u64)> =
        members.iter().map(|member| (member.offset, member.packed_bytes)).collect();
    places.sort_unstable();
    let are_apart = places.windows(2).all(|pair| match pair {
        [(start, bytes), (next, _)] => {
            start.saturating_add(*bytes).saturating_add(size::MEMBER as u64) <= *next
        }
        _ => true,
    });
    if are_apart { Ok(()) } else { Err(broken("members of this zip archive lie in each other")) }
}

/// So many bytes at a place; fewer where the file ends.
fn read_at<R: Read + Seek>(file: &mut R, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(at))?;
    let mut found = Vec::new();
    file.take(bytes).read_to_end(&mut found)?;
    Ok(found)
}

/// Numbers in bytes, the lowest byte first.
#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn starts_with(self, signature: [u8; 4]) -> bool {
        self.0.starts_with(&signature)
    }

    fn array<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    fn u16(self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    fn u32(self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    fn u64(self, at: usize) -> Option<u64> {
        self.array(at).map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use super::*;

    /// An archive of deflated members, the second of which says its sizes behind it.
    fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
        let (mut file, mut directory) = (Vec::new(), Vec::new());
        for (number, (name, bytes)) in members.iter().enumerate() {
            let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
            deflate.write_all(bytes).unwrap();
            let packed = deflate.finish().unwrap();
            let mut crc = Crc::new();
            crc.update(bytes);
            let sizes = [crc.sum(), packed.len() as u32, bytes.len() as u32];
            let is_behind = number == 1;
            let offset = file.len() as u32;
            let flags: u16 = if is_behind { SIZES_BEHIND } else { 0 };
            let put = |out: &mut Vec<u8>, sizes: [u32; 3]| {
                for number in [20, flags, method::DEFLATED, 0, 0] {
                    out.extend(number.to_le_bytes());
                }
                sizes.iter().for_each(|size| out.extend(size.to_le_bytes()));
                out.extend((name.len() as u16).to_le_bytes());
                out.extend(0u16.to_le_bytes());
            };
            file.extend(signature::MEMBER);
            put(&mut file, if is_behind { [0; 3] } else { sizes });
            file.extend(name.bytes());
            file.extend(&packed);
            if is_behind {
                file.extend(signature::DESCRIPTOR);
                sizes.iter().for_each(|size| file.extend(size.to_le_bytes()));
            }
            directory.extend(signature::ENTRY);
            directory.extend(20u16.to_le_bytes());
            put(&mut directory, sizes);
            directory.extend([0; 10]);
            directory.extend(offset.to_le_bytes());
            directory.extend(name.bytes());
        }
        let at = file.len() as u32;
        let count = members.len() as u16;
        file.extend(&directory);
        file.extend(signature::END);
        file.extend([0; 4]);
        [count, count].iter().for_each(|count| file.extend(count.to_le_bytes()));
        file.extend((directory.len() as u32).to_le_bytes());
        file.extend(at.to_le_bytes());
        file.extend(7u16.to_le_bytes());
        file.extend(b"comment");
        file
    }

    fn all(file: &[u8]) -> io::Result<Vec<(String, io::Result<Vec<u8>>)>> {
        let mut archive = Archive::open(Cursor::new(file))?;
        let names: Vec<String> = archive.members().iter().map(|member| member.name.clone()).collect();
        Ok(names
            .into_iter()
            .enumerate()
            .map(|(at, name)| {
                let mut bytes = Vec::new();
                let end = archive.read(at).and_then(|mut member| member.read_to_end(&mut bytes));
                (name, end.map(|_| bytes))
            })
            .collect())
    }

    const MEMBERS: [(&str, &[u8]); 3] = [("a.json", b"aaaaaaaaaaaaaaaaaaaaaaaa"), ("d/b", b"bb"), ("c", b"")];

    #[test]
    fn members_come_out_as_they_went_in() {
        let found = all(&archive(&MEMBERS)).unwrap();
        for ((name, bytes), (found_name, found)) in MEMBERS.iter().zip(found) {
            assert_eq!((*name, *bytes), (found_name.as_str(), found.unwrap().as_slice()));
        }
    }

    #[test]
    fn an_archive_that_is_cut_off_anywhere_gives_what_is_whole() {
        let file = archive(&MEMBERS);
        let mut most = 0;
        for end in 0..file.len() {
            let whole =
                all(&file[..end]).map_or(0, |found| found.iter().filter(|(_, bytes)| bytes.is_ok()).count());
            assert!(whole >= most, "{end}: {whole} of {most}");
            most = whole;
        }
        assert_eq!(most, 3);
    }

    #[test]
    fn an_archive_with_any_byte_changed_is_read_or_refused() {
        let file = archive(&MEMBERS);
        for at in 0..file.len() {
            for change in [1, 0x80, 0xff] {
                let mut bytes = file.clone();
                bytes[at] ^= change;
                for (_, member) in all(&bytes).into_iter().flatten() {
                    assert!(member.map_or(0, |bytes| bytes.len()) <= 24);
                }
            }
        }
    }

    #[test]
    fn lies_are_found_out() {
        let file = archive(&MEMBERS);
        let entry = file.windows(4).position(|window| window == signature::ENTRY).unwrap();
        let changed = |at: usize, byte: u8| {
            let mut bytes = file.clone();
            bytes[at] = byte;
            all(&bytes)
        };
        // Another checksum, another size, another place, a method that is none.
        let error = |found: io::Result<Vec<(String, io::Result<Vec<u8>>)>>| {
            found.unwrap().swap_remove(0).1.unwrap_err().to_string()
        };
        assert!(error(changed(entry + 16, 9)).contains("checksum"));
        assert!(error(changed(entry + 24, 9)).contains("longer"));
        assert!(error(changed(entry + 24, 90)).contains("ends early"));
        assert!(error(changed(entry + 10, 99)).contains("method"));
        assert!(error(changed(entry + 8, 1)).contains("encrypted"));
        // The place of the second is that of the first.
        let second = entry + size::ENTRY + MEMBERS[0].0.len();
        assert!(changed(second + 42, 0).unwrap_err().to_string().contains("lie in each other"));
        assert!(all(b"PK\x03\x04").is_err() && all(b"").is_err());
    }

    #[test]
    fn files_that_systems_put_beside_others_are_known() {
        let found = ["a/b.json", ".DS_Store", "__MACOSX/._a", "a/.git/x", "./a", "../a"].map(is_hidden);
        assert_eq!(found, [false, true, true, true, false, false]);
    }
}
