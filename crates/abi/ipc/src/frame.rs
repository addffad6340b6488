//! Frames: a little-endian `u32` length and that many bytes of a serialised [`IpcFrame`].
//!
//! Upstream: `buffered_frame_deserializer.cc`, `wire_protocol.proto`.

use bytes::{Buf, Bytes, BytesMut};
use ferretto_protos::IpcFrame;
use ferretto_protozero::control::ControlError;

pub use crate::frame_size::{FrameError, HEADER_SIZE, MAX_FRAME_SIZE};
use crate::log;
use crate::wire::{self, EncodedFrame};

/// The largest payload that fits into a frame.
pub const MAX_PAYLOAD_SIZE: usize = MAX_FRAME_SIZE - HEADER_SIZE;

/// A decoder's buffer above this capacity is given back as soon as little is in it, so that idle connections stay small.
const KEPT_CAPACITY: usize = 4 * 1024;

/// Serialises a frame with its length before it.
pub fn encode(frame: &IpcFrame) -> Result<Vec<u8>, FrameError> {
    let frame = EncodedFrame::new(frame)?;
    let mut bytes = Vec::with_capacity(frame.size());
    frame.parts().into_iter().for_each(|part| bytes.extend_from_slice(part));
    Ok(bytes)
}

/// Cuts a stream of bytes into frames, however the stream was split.
///
/// Empty frames are skipped. A payload that is no `IpcFrame` is skipped and counted: the connection survives it, as with upstream.
/// A length above the limit is an error, now and at every later call: where the next frame starts cannot be known.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: BytesMut,
    /// What lay before it in the same memory.
    taken: usize,
    undecodable: u64,
    failed: Option<FrameError>,
}

impl Decoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds received bytes. Ignored once a frame was too large.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// The next whole frame; `None` when more bytes are needed.
    #[expect(clippy::should_implement_trait, reason = "a decoder is refilled after None")]
    pub fn next(&mut self) -> Result<Option<IpcFrame>, FrameError> {
        self.next_decoded(wire::decode)
    }

    /// As [`next`](Self::next), with a decoder of its own.
    pub(crate) fn next_decoded<T>(
        &mut self,
        decode: fn(&Bytes) -> Result<T, ControlError>,
    ) -> Result<Option<T>, FrameError> {
        while let Some(payload) = self.next_payload()? {
            if payload.is_empty() {
                continue;
            }
            match decode(&payload) {
                Ok(frame) => return Ok(Some(frame)),
                Err(error) => {
                    self.undecodable = self.undecodable.saturating_add(1);
                    log::debug(format_args!("skipped an IPC frame that could not be decoded: {error}"));
                }
            }
        }
        Ok(None)
    }

    /// How many frames were skipped because their payload could not be decoded.
    pub fn undecodable_frames(&self) -> u64 {
        self.undecodable
    }

    /// The memory that a frame's beginning takes, with all that lies there besides.
    #[cfg(test)]
    fn kept_bytes(&self) -> usize {
        self.taken + self.buffer.capacity()
    }

    /// Bytes received that are not yet part of a whole frame.
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    fn next_payload(&mut self) -> Result<Option<Bytes>, FrameError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let Some(header) = self.buffer.first_chunk::<HEADER_SIZE>() else {
            self.give_back();
            return Ok(None);
        };
        let payload = usize::try_from(u32::from_le_bytes(*header)).unwrap_or(usize::MAX);
        if payload > MAX_PAYLOAD_SIZE {
            let error = FrameError::TooLarge { size: payload.saturating_add(HEADER_SIZE) };
            self.buffer = BytesMut::new();
            self.failed = Some(error.clone());
            return Err(error);
        }
        if self.buffer.len() < HEADER_SIZE + payload {
            self.give_back();
            return Ok(None);
        }
        self.taken = self.taken.saturating_add(HEADER_SIZE + payload);
        self.buffer.advance(HEADER_SIZE);
        Ok(Some(self.buffer.split_to(payload).freeze()))
    }

    /// The beginning of a frame keeps the memory of those before it: it moves to some of its own, if it is small beside that.
    fn give_back(&mut self) {
        let kept = self.taken.saturating_add(self.buffer.capacity());
        if kept > KEPT_CAPACITY + 2 * self.buffer.len() {
            self.buffer = BytesMut::from(&*self.buffer);
            self.taken = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_frame_does_not_keep_those_before_it() {
        let filler = IpcFrame { data_for_testing: vec![vec![0; 120_000].into()], ..Default::default() };
        let mut stream = encode(&filler).unwrap();
        stream.extend([100, 0, 0, 0, 1, 1]);
        let mut decoder = Decoder::new();
        for part in stream.chunks(64 * 1024) {
            decoder.push(part);
            while decoder.next().unwrap().is_some() {}
        }
        assert_eq!(decoder.buffered_bytes(), 6);
        assert!(decoder.kept_bytes() < 2 * KEPT_CAPACITY, "{decoder:?}");
    }
}
