//! A tar archive: its members, and the bytes of each.
//!
//! Members are those of POSIX's `ustar`, with the long names of GNU's tar and of pax. What is no file (folders, links, devices) is passed over.
//!
//! An archive is hostile. There are bounds on how many members there are and how long names may be; each header has a checksum, and a member ends
//! where the file does.
//!
//! ```
//! use std::io::{Cursor, Read};
//! use ferretto_trace_read::tar::Archive;
//!
//! let mut file = vec![0; 3 * 512];
//! file[..1].copy_from_slice(b"a");
//! file[124..136].copy_from_slice(b"00000000005\0");
//! file[148..156].copy_from_slice(b"001713\0 ");
//! file[156..163].copy_from_slice(b"0\0\0\0\0\0\0");
//! file[257..265].copy_from_slice(b"ustar\x0000");
//! let sum: u32 = file[..512].iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) }).sum();
//! file[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
//! file[512..517].copy_from_slice(b"hello");
//! let mut archive = Archive::open(Cursor::new(file)).unwrap();
//! assert_eq!(archive.members()[0].name, "a");
//! let mut text = String::new();
//! archive.read(0).unwrap().read_to_string(&mut text).unwrap();
//! assert_eq!(text, "hello");
//! ```

use std::io::{self, BufReader, Read, Seek, SeekFrom};

/// Members of an archive. Ours: an archive of traces has some dozens.
pub const MAX_MEMBERS: usize = 10_000;
/// Headers of an archive: a member may have several, and there is what is no file. Ours.
const MAX_HEADERS: usize = 8 * MAX_MEMBERS;
/// Bytes of a name, and of what pax says of a member. Ours: paths have some hundred.
const MAX_NAME_BYTES: u64 = 64 << 10;
/// Read at once.
const PIECE_BYTES: usize = 64 << 10;
/// A header's, and what members are filled up to.
const BLOCK: usize = 512;

/// What a header is of.
mod kind {
    pub(super) const FILE: u8 = b'0';
    pub(super) const OLD_FILE: u8 = 0;
    pub(super) const CONTIGUOUS_FILE: u8 = b'7';
    /// GNU's: the name of the next member.
    pub(super) const LONG_NAME: u8 = b'L';
    /// pax's: what is said of the next member.
    pub(super) const EXTENDED: u8 = b'x';
}

/// A file in an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Its path, as the archive has it.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Where its bytes are.
    offset: u64,
}

/// An archive.
#[derive(Debug)]
pub struct Archive<R> {
    file: R,
    members: Vec<Member>,
    is_cut_off: bool,
}

/// A header.
struct Header {
    name: String,
    bytes: u64,
    kind: u8,
}

impl<R: Read + Seek> Archive<R> {
    /// Goes from header to header.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or its first header is none.
    pub fn open(mut file: R) -> io::Result<Self> {
        let len = file.seek(SeekFrom::End(0))?;
        let mut members = Vec::new();
        // What was said of the next member.
        let (mut long_name, mut long_size) = (None, None);
        let mut at = 0;
        let mut is_cut_off = true;
        for turn in 0..MAX_HEADERS {
            file.seek(SeekFrom::Start(at))?;
            let mut block = [0; BLOCK];
            if !fill(&mut file, &mut block)? {
                break;
            }
            if block == [0; BLOCK] {
                is_cut_off = false;
                break;
            }
            let Some(header) = Header::read(&block) else {
                match turn {
                    0 => return Err(broken("its first header is damaged")),
                    _ => break,
                }
            };
            let offset = at.saturating_add(BLOCK as u64);
            let bytes = match header.kind {
                kind::LONG_NAME | kind::EXTENDED => header.bytes,
                _ => long_size.take().unwrap_or(header.bytes),
            };
            match header.kind {
                kind::LONG_NAME => {
                    let name = text(&mut file, bytes)?;
                    long_name = Some(name.trim_end_matches('\0').to_owned());
                }
                kind::EXTENDED => {
                    let said = text(&mut file, bytes)?;
                    long_name = said_of(&said, "path").map(str::to_owned).or(long_name);
                    long_size = said_of(&said, "size").and_then(|size| size.parse().ok());
                }
                kind::FILE | kind::OLD_FILE | kind::CONTIGUOUS_FILE => {
                    if members.len() >= MAX_MEMBERS {
                        return Err(broken("it has more members than are read"));
                    }
                    members.push(Member { name: long_name.take().unwrap_or(header.name), bytes, offset });
                }
                _ => long_name = None,
            }
            let filled = bytes.div_ceil(BLOCK as u64).saturating_mul(BLOCK as u64);
            at = offset.saturating_add(filled);
            if at > len {
                break;
            }
        }
        Ok(Self { file, members, is_cut_off })
    }

    /// Its members, in their order.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Whether it has no end, for it was cut off or is damaged.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// The bytes of a member, by its turn.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or the member is not there. Reading it is an error where the file ends before it.
    pub fn read(&mut self, member: usize) -> io::Result<Box<dyn Read + '_>> {
        let member = self.members.get(member).ok_or_else(|| broken("there is no such member"))?;
        self.file.seek(SeekFrom::Start(member.offset))?;
        let bytes = BufReader::with_capacity(PIECE_BYTES, (&mut self.file).take(member.bytes));
        Ok(Box::new(Whole { bytes, left: member.bytes }))
    }
}

impl Header {
    /// Nothing if its checksum is another.
    fn read(block: &[u8; BLOCK]) -> Option<Self> {
        let part = |from: usize, to: usize| block.get(from..to).unwrap_or_default();
        let is_sum = |at: usize| (148..156).contains(&at);
        let byte = |(at, byte): (usize, &u8)| if is_sum(at) { u64::from(b' ') } else { u64::from(*byte) };
        let sum: u64 = block.iter().enumerate().map(byte).sum();
        if number(part(148, 156))? != sum {
            return None;
        }
        let name = words(part(0, 100));
        let prefix = words(part(345, 500));
        // GNU's tar has other things where POSIX has the begin of a long name.
        let is_posix = part(257, 263) == b"ustar\0";
        let name = if is_posix && !prefix.is_empty() { format!("{prefix}/{name}") } else { name };
        Some(Self { name, bytes: number(part(124, 136))?, kind: *part(156, 157).first()? })
    }
}

/// A field up to its first 0.
fn words(field: &[u8]) -> String {
    String::from_utf8_lossy(field.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

/// An octal number, or the bytes of a large one.
fn number(field: &[u8]) -> Option<u64> {
    if let Some((0x80, rest)) = field.split_first().map(|(first, rest)| (*first, rest)) {
        return rest.iter().try_fold(0_u64, |value, byte| {
            value.checked_mul(256).and_then(|value| value.checked_add(u64::from(*byte)))
        });
    }
    let digits = words(field);
    match digits.trim() {
        "" => Some(0),
        digits => u64::from_str_radix(digits, 8).ok(),
    }
}

/// What pax says by a key: lines `LENGTH KEY=VALUE`.
fn said_of<'a>(said: &'a str, key: &str) -> Option<&'a str> {
    let lines = said.lines().filter_map(|line| line.split_once(' ')?.1.split_once('='));
    lines.filter(|(name, _)| *name == key).map(|(_, value)| value).next_back()
}

/// The text that stands here.
fn text(file: &mut impl Read, bytes: u64) -> io::Result<String> {
    if bytes > MAX_NAME_BYTES {
        return Err(broken("a name in it is longer than any"));
    }
    let mut text = Vec::new();
    file.take(bytes).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Whether there was as much.
fn fill(file: &mut impl Read, block: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(block) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Bytes that must be as many as were said.
struct Whole<R> {
    bytes: R,
    left: u64,
}

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let len = self.bytes.read(to)?;
        if len == 0 && self.left > 0 && !to.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "a member of the tar archive ends early",
            ));
        }
        self.left = self.left.saturating_sub(len as u64);
        Ok(len)
    }
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("this tar archive is broken: {what}"))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn header(name: &str, kind: u8, bytes: usize) -> Vec<u8> {
        let mut block = vec![0; BLOCK];
        block[..name.len()].copy_from_slice(name.as_bytes());
        block[124..135].copy_from_slice(format!("{bytes:011o}").as_bytes());
        block[148..156].fill(b' ');
        block[156] = kind;
        block[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        block
    }

    fn member(name: &str, kind: u8, bytes: &[u8]) -> Vec<u8> {
        let mut file = header(name, kind, bytes.len());
        file.extend(bytes);
        file.resize(file.len().next_multiple_of(BLOCK), 0);
        file
    }

    /// A name, and the bytes or why there are none.
    type Content = (String, Result<Vec<u8>, String>);

    fn read(file: &[u8]) -> (Vec<Content>, bool) {
        let mut archive = Archive::open(Cursor::new(file)).unwrap();
        let names: Vec<_> = archive.members().iter().map(|member| member.name.clone()).collect();
        let mut content = |at| {
            let mut bytes = Vec::new();
            let end = archive.read(at).unwrap().read_to_end(&mut bytes);
            end.map(|_| bytes).map_err(|error| error.to_string())
        };
        let members = names.into_iter().enumerate().map(|(at, name)| (name, content(at))).collect();
        (members, archive.is_cut_off())
    }

    #[test]
    fn files_have_their_names_however_long() {
        let long = "folder/".repeat(20);
        let file = [
            member("a", b'0', b"one"),
            member("folder", b'5', b""),
            member("././@LongLink", b'L', format!("{long}b\0").as_bytes()),
            member("cut", b'0', &[7; 600]),
            member("pax", b'x', format!("11 mtime=1\n{} path={long}c\n", long.len() + 9).as_bytes()),
            member("cut", 0, b""),
            member("link", b'2', b""),
            vec![0; 2 * BLOCK],
        ]
        .concat();
        let (members, is_cut_off) = read(&file);
        let expected = [
            ("a".to_owned(), Ok(b"one".to_vec())),
            (format!("{long}b"), Ok(vec![7; 600])),
            (format!("{long}c"), Ok(Vec::new())),
        ];
        assert_eq!((members, is_cut_off), (expected.to_vec(), false));
    }

    #[test]
    fn what_is_cut_off_or_damaged_is_read_up_to_there() {
        let file = [member("a", b'0', b"one"), member("b", b'0', &[7; 600]), vec![0; 2 * BLOCK]].concat();
        for end in BLOCK..3 * BLOCK + 600 {
            let (members, is_cut_off) = read(&file[..end]);
            assert!(is_cut_off, "{end}");
            assert_eq!(members[0].1.is_ok(), end >= BLOCK + 3, "{end}");
            assert_eq!(members.len(), if end < 3 * BLOCK { 1 } else { 2 }, "{end}");
        }
        let mut damaged = file.clone();
        damaged[2 * BLOCK] ^= 1;
        assert_eq!(read(&damaged).0.len(), 1);
        damaged[0] ^= 1;
        assert!(Archive::open(Cursor::new(damaged)).unwrap_err().to_string().contains("first header"));
        assert!(Archive::open(Cursor::new(b"short".to_vec())).unwrap().members().is_empty());
    }

    #[test]
    fn lies_about_sizes_end() {
        let mut huge = header("a", b'0', 0);
        huge[124..136].copy_from_slice(&[0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        huge[148..156].fill(b' ');
        let sum: u32 = huge.iter().map(|byte| u32::from(*byte)).sum();
        huge[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        let (members, is_cut_off) = read(&huge);
        assert_eq!(
            (members[0].1.clone(), is_cut_off),
            (Err("a member of the tar archive ends early".to_owned()), true)
        );
        let long = member("n", b'L', &vec![b'x'; 70 << 10]);
        assert!(Archive::open(Cursor::new(long)).unwrap_err().to_string().contains("longer than any"));
    }
}
