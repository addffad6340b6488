//! What a file is by its first bytes, and its bytes without what it is packed into.

use std::io::{self, Read};

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
