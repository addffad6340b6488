//! How much of a frame has come that is not all there yet: so much the service has to keep for it.
//!
//! Frames begin with their length; what else is in them is for [`Asked`] to look at.

use ferretto_ipc::frame::{HEADER_SIZE, MAX_FRAME_SIZE};

use crate::asked::{Asked, Refused};

/// Where in its frames a stream of bytes is.
#[derive(Debug, Default)]
pub(crate) struct Unfinished {
    header: [u8; HEADER_SIZE],
    /// Bytes of the frame that have come, with its header.
    come: usize,
    asked: Asked,
}

impl Unfinished {
    /// More has come, unless it is to go no further.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<(), Refused> {
        while let Some((first, rest)) = bytes.split_first() {
            if let Some(place) = self.header.get_mut(self.come) {
                *place = *first;
                self.come += 1;
                bytes = rest;
            } else {
                let taken = self.missing().min(bytes.len());
                let (body, rest) = bytes.split_at_checked(taken).unwrap_or((bytes, &[]));
                self.asked.push(body)?;
                self.come += taken;
                bytes = rest;
            }
            if self.come >= HEADER_SIZE && self.missing() == 0 {
                self.asked.finish()?;
                self.come = 0;
            }
        }
        Ok(())
    }

    /// Bytes that wait for the rest of their frame. Of one that is larger than it may be the service keeps nothing.
    pub(crate) fn bytes(&self) -> usize {
        self.come.min(MAX_FRAME_SIZE)
    }

    /// Of a frame whose header is there.
    fn missing(&self) -> usize {
        let body = usize::try_from(u32::from_le_bytes(self.header)).unwrap_or(usize::MAX);
        body.saturating_add(HEADER_SIZE).saturating_sub(self.come)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Full of numbers.
    fn frame(fields: usize) -> Vec<u8> {
        let len = 2 * fields;
        [&u32::try_from(len).unwrap().to_le_bytes()[..], &b"\x10\x7f".repeat(fields)].concat()
    }

    #[test]
    fn what_is_missing_of_a_frame_is_known_however_it_comes() {
        let frames = [frame(0), frame(5), frame(300), frame(35_000), frame(1)];
        let bytes = frames.concat();
        for piece in [1, 2, 3, 7, 1000, 64 * 1024, bytes.len()] {
            let mut unfinished = Unfinished::default();
            let mut come = 0;
            for part in bytes.chunks(piece) {
                unfinished.push(part).unwrap();
                come += part.len();
                let mut left = come;
                let complete = frames.iter().take_while(|frame| {
                    let is_there = frame.len() <= left;
                    left -= if is_there { frame.len() } else { 0 };
                    is_there
                });
                complete.for_each(drop);
                assert_eq!(unfinished.bytes(), left, "{come} bytes by {piece}");
            }
        }
    }

    #[test]
    fn of_a_frame_that_is_too_large_no_more_counts_than_of_the_largest() {
        let mut unfinished = Unfinished::default();
        unfinished.push(&u32::MAX.to_le_bytes()).unwrap();
        unfinished.push(&b"\x10\x7f".repeat(1 << 19)).unwrap();
        assert_eq!(unfinished.bytes(), MAX_FRAME_SIZE);
    }
}
