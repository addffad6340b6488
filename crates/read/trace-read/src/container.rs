//! What a file is by its first bytes, and its bytes without what it is packed into.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

/// What a trace may be packed into as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// Nothing: its bytes are a trace, or no format that this knows.
    None,
    /// gzip, of one member or several.
    Gzip,
    /// A frame of zstd.
    Zstd,
    /// zip: a folder of files.
    Zip,
}

impl Container {
    /// What begins like this.
    #[must_use]
    pub fn of(first_bytes: &[u8]) -> Self {
        match first_bytes {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            [b'P', b'K', 3, 4, ..] => Self::Zip,
            _ => Self::None,
        }
    }
}

/// The bytes of a file, without gzip or zstd around them.
///
/// # Errors
///
/// If the file cannot be read, a zstd frame cannot be opened, or it is a zip.
pub fn unpacked<'a>(mut file: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut first = [0; 4];
    let mut len = 0;
    while len < first.len() {
        match file.read(first.get_mut(len..).unwrap_or_default()) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let first = first.get(..len).unwrap_or_default().to_vec();
    let container = Container::of(&first);
    let whole = io::Cursor::new(first).chain(file);
    match container {
        Container::None => Ok(Box::new(whole)),
        Container::Gzip => Ok(Box::new(MultiGzDecoder::new(whole))),
        Container::Zstd => StreamingDecoder::new(whole)
            .map(|frame| Box::new(frame) as Box<dyn Read>)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string())),
        Container::Zip => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "it is a zip archive; unpack it, and give its traces one by one",
        )),
    }
}

/// How many bytes a file has, packed as it is, or how many of them were read: what [`crate::Reader::within`] bounds it by.
///
/// ```
/// use ferretto_trace_read::Reader;
/// use ferretto_trace_read::container::{FileBytes, unpacked};
///
/// let (file, file_bytes) = (&b"\x0a\x03one"[..], FileBytes::default());
/// let trace = unpacked(file_bytes.of(file))?;
/// let end = Reader::new(trace).within(file_bytes.clone()).for_each(|_, _| {})?;
/// assert_eq!((end.packets, file_bytes.get()), (1, 5));
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct FileBytes(Arc<AtomicU64>);

/// A file whose bytes are counted when they are read.
#[derive(Debug)]
pub struct Counted<R> {
    file: R,
    bytes: FileBytes,
}

impl FileBytes {
    /// Of a file that has so many.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(AtomicU64::new(bytes)))
    }

    /// Counts those that are read of `file`.
    pub fn of<R: Read>(&self, file: R) -> Counted<R> {
        Counted { file, bytes: self.clone() }
    }

    /// How many.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let len = self.file.read(to)?;
        self.bytes.0.fetch_add(len as u64, Relaxed);
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_is_packed_comes_out() {
        let bytes = b"\x0a\x03one".repeat(1000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&bytes).unwrap();
        let gzip = gzip.finish().unwrap();
        let zstd =
            ruzstd::encoding::compress_to_vec(bytes.as_slice(), ruzstd::encoding::CompressionLevel::Fastest);
        for (packed, expected) in
            [(&bytes, 1), (&gzip, 1), (&[gzip.clone(), gzip.clone()].concat(), 2), (&zstd, 1)]
        {
            let mut out = Vec::new();
            unpacked(packed.as_slice()).unwrap().read_to_end(&mut out).unwrap();
            assert_eq!(out, bytes.repeat(expected));
        }
    }

    #[test]
    fn short_files_are_what_they_are() {
        for bytes in [&b""[..], b"\x0a", b"\x1f", b"abc"] {
            let mut out = Vec::new();
            unpacked(bytes).unwrap().read_to_end(&mut out).unwrap();
            assert_eq!(out, bytes);
        }
        assert!(unpacked(&b"PK\x03\x04"[..]).is_err());
        assert!(unpacked(&b"\x28\xb5\x2f\xfd"[..]).is_err());
    }
}
