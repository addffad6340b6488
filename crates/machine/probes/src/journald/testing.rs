//! Makes journal files, object by object.

use super::file::MIN_HEADER_BYTES;

/// A file in the making; what it is so far is always whole.
#[derive(Debug, Clone)]
pub(crate) struct Builder {
    pub(crate) bytes: Vec<u8>,
    is_compact: bool,
    /// The last array, and its free items.
    array: Option<(usize, usize)>,
    array_items: usize,
    first_free: usize,
}

pub(crate) const BOOT: [u8; 16] = *b"this boot's id..";
pub(crate) const XZ: u8 = 1;
pub(crate) const ZSTD: u8 = 4;

impl Builder {
    /// With `array_items` entries in each array.
    pub(crate) fn new(is_compact: bool, array_items: usize) -> Self {
        let mut bytes = vec![0; MIN_HEADER_BYTES];
        bytes[..8].copy_from_slice(b"LPKSHHRH");
        // Keyed hashes, which every file has nowadays, and the compact layout.
        bytes[12] = 0b100 | if is_compact { 0b1_0000 } else { 0 };
        Self { bytes, is_compact, array: None, array_items, first_free: 0 }
    }

    pub(crate) fn patch(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn archive(&mut self) {
        self.bytes[16] = 2;
    }

    fn object(&mut self, kind: u8, flags: u8, body: &[u8]) -> usize {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let offset = self.bytes.len();
        self.bytes.extend([kind, flags, 0, 0, 0, 0, 0, 0]);
        self.bytes.extend((16 + body.len() as u64).to_le_bytes());
        self.bytes.extend(body);
        offset
    }

    pub(crate) fn field(&mut self, flags: u8, payload: &[u8]) -> usize {
        let head = vec![0; if self.is_compact { 56 } else { 48 }];
        self.object(1, flags, &[head, payload.to_vec()].concat())
    }

    /// An entry of these fields, at the end of the list.
    pub(crate) fn entry(&mut self, monotonic_us: u64, boot_id: [u8; 16], fields: &[usize]) -> usize {
        let mut body = [[0; 8], [0; 8], monotonic_us.to_le_bytes()].concat();
        body.extend(boot_id);
        body.extend([0; 8]);
        for &field in fields {
            match self.is_compact {
                true => body.extend((field as u32).to_le_bytes()),
                false => body.extend([(field as u64).to_le_bytes(), [7; 8]].concat()),
            }
        }
        let entry = self.object(3, 0, &body);
        self.list(entry);
        entry
    }

    /// As [`entry`](Self::entry), from text.
    pub(crate) fn message(&mut self, monotonic_us: u64, fields: &[&str]) {
        let fields: Vec<usize> = fields.iter().map(|field| self.field(0, field.as_bytes())).collect();
        self.entry(monotonic_us, BOOT, &fields);
    }

    fn list(&mut self, entry: usize) {
        let width = if self.is_compact { 4 } else { 8 };
        let (array, item) = match self.array.filter(|&(_, item)| item < self.array_items) {
            Some(array) => array,
            None => {
                let array = self.object(6, 0, &vec![0; 8 + self.array_items * width]);
                // The header has the first, each array the next.
                let link = self.array.map_or(176, |(previous, _)| previous + 16);
                self.patch(link, &(array as u64).to_le_bytes());
                (array, 0)
            }
        };
        self.patch(array + 24 + item * width, &(entry as u64).to_le_bytes()[..width]);
        self.array = Some((array, item + 1));
        self.first_free += 1;
        let entries = (self.first_free as u64).to_le_bytes();
        self.patch(152, &entries);
    }
}
