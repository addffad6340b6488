//! Numbers and texts out of bytes, the lowest byte first.

/// Bytes that are taken from the front.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn len(self) -> usize {
        self.0.len()
    }

    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A number so many bytes before the end.
    pub(super) fn u64_before_end(self, before: usize) -> Option<u64> {
        let at = self.0.len().checked_sub(before)?;
        Self(self.0.get(at..)?).u64()
    }

    /// A text up to its 0, or all.
    pub(super) fn text(self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        self.0.get(..end).unwrap_or_default()
    }

    /// A text behind its length.
    pub(super) fn counted_text(&mut self) -> Option<String> {
        let len = self.u32()? as usize;
        let text = Bytes(self.take(len)?).text();
        Some(String::from_utf8_lossy(text).into_owned())
    }
}
