//! What `arrow-ipc` asks of the crate `zstd`, in Rust.
//!
//! DataFusion switches `arrow-ipc`'s Zstandard on without a feature that would switch it off (apache/datafusion#21914), and the real crate
//! compiles a C library. So this one stands in its place: packing by `zrip`, unpacking by `ruzstd`. The root `Cargo.toml` patches it in.

use std::ops::RangeInclusive;

/// Levels of compression.
pub mod zstd_safe {
    /// A level.
    pub type CompressionLevel = i32;
}

/// The levels that [`bulk::Compressor`] takes: zstd's own, of which `zrip` knows some and takes others for the nearest.
#[must_use]
pub fn compression_level_range() -> RangeInclusive<zstd_safe::CompressionLevel> {
    -7..=22
}

/// Whole buffers at once.
pub mod bulk {
    use std::io::{self, Read};
    use std::marker::PhantomData;

    /// Packs.
    #[derive(Debug)]
    pub struct Compressor<'a> {
        level: i32,
        dictionary: PhantomData<&'a ()>,
    }

    impl Compressor<'static> {
        /// One of this level.
        ///
        /// # Errors
        ///
        /// Never.
        pub fn new(level: i32) -> io::Result<Self> {
            Ok(Self { level: level.clamp(1, 4), dictionary: PhantomData })
        }
    }

    impl Compressor<'_> {
        /// A frame of these bytes.
        ///
        /// # Errors
        ///
        /// If `zrip` says that it cannot.
        pub fn compress(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
            zrip::compress(bytes, self.level).map_err(io::Error::other)
        }
    }

    /// Unpacks.
    #[derive(Debug)]
    pub struct Decompressor<'a> {
        dictionary: PhantomData<&'a ()>,
    }

    impl Decompressor<'static> {
        /// One.
        ///
        /// # Errors
        ///
        /// Never.
        pub fn new() -> io::Result<Self> {
            Ok(Self { dictionary: PhantomData })
        }
    }

    impl Decompressor<'_> {
        /// The bytes of a frame, at most `capacity`.
        ///
        /// # Errors
        ///
        /// If it is no frame, or has more.
        pub fn decompress(&mut self, frame: &[u8], capacity: usize) -> io::Result<Vec<u8>> {
            let decoder = ruzstd::decoding::StreamingDecoder::new(frame).map_err(io::Error::other)?;
            let mut bytes = Vec::new();
            decoder.take(capacity as u64 + 1).read_to_end(&mut bytes)?;
            if bytes.len() > capacity {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the frame has more than was said"));
            }
            Ok(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::bulk::{Compressor, Decompressor};

    #[test]
    fn what_was_packed_is_unpacked_and_no_more_than_was_said() {
        let bytes: Vec<u8> = (0..100_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        for level in super::compression_level_range() {
            let frame = Compressor::new(level).unwrap().compress(&bytes).unwrap();
            assert!(frame.len() < bytes.len());
            let mut decompressor = Decompressor::new().unwrap();
            assert_eq!(decompressor.decompress(&frame, bytes.len()).unwrap(), bytes);
            assert!(decompressor.decompress(&frame, bytes.len() - 1).is_err());
        }
    }
}
