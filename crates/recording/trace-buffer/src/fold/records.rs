//! Messages that are said once and referred to by number: interned data, descriptions of tracks.
//!
//! They are kept as the bytes of their fields, one behind the other, so that giving them out is a copy. Both kinds have their number in
//! field 1.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use ferretto_protozero::read::{Fields, Value};
use hashbrown::HashTable;

/// Field number, and the value of the message's field 1.
type Key = (u32, u64);

/// Where a record begins, and the hash of its key.
#[derive(Debug, Clone, Copy)]
struct Place {
    hash: u32,
    at: u32,
}

/// The records of one sequence.
#[derive(Debug, Clone, Default)]
pub(crate) struct Records {
    bytes: Vec<u8>,
    places: HashTable<Place>,
    /// Bytes of records that others have replaced.
    replaced: usize,
}

impl Records {
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Memory taken, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.bytes.capacity() + self.places.allocation_size()
    }

    /// Adds a field (tag, length, message), unless there is one with its key: in interned data the first one counts for readers.
    pub(crate) fn add(&mut self, field: &[u8]) {
        let Some(key) = key_of(field) else { return };
        if self.find(key).is_none() {
            self.append(key, field);
        }
    }

    /// Adds a field in the place of the one with its key.
    pub(crate) fn replace(&mut self, field: &[u8]) {
        let Some(key) = key_of(field) else { return };
        let Some(at) = self.find(key) else { return self.append(key, field) };
        let old = record_at(&self.bytes, at as usize);
        if old == field {
            return;
        }
        self.replaced += old.len();
        let hash = hash(key);
        if let Ok(entry) = self.places.find_entry(spread(hash), |place| place.at == at) {
            entry.remove();
        }
        self.append(key, field);
        if self.replaced > self.bytes.len() / 2 {
            self.keep(|_, _| true);
        }
    }

    /// The records, in the order in which they came.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut at = 0;
        let all = std::iter::from_fn(move || {
            let record = record_at(&self.bytes, at);
            at += record.len();
            (!record.is_empty()).then_some((at - record.len(), record))
        });
        all.filter(|(at, record)| self.is_current(*at, record)).map(|(_, record)| record)
    }

    /// Drops those for which it is false; it is given the bytes before the record, and the record.
    pub(crate) fn keep(&mut self, mut wanted: impl FnMut(usize, &[u8]) -> bool) {
        let mut kept = Self::default();
        let mut before = 0;
        for record in self.iter() {
            if wanted(before, record)
                && let Some(key) = key_of(record)
            {
                kept.append(key, record);
            }
            before += record.len();
        }
        *self = kept;
    }

    /// Bytes of all records.
    pub(crate) fn len_bytes(&self) -> usize {
        self.bytes.len() - self.replaced
    }

    fn is_current(&self, at: usize, record: &[u8]) -> bool {
        let Some(key) = key_of(record) else { return false };
        self.replaced == 0 || self.find(key) == Some(at as u32)
    }

    fn find(&self, key: Key) -> Option<u32> {
        let hash = hash(key);
        let is_it = |place: &Place| {
            place.hash == hash && key_of(record_at(&self.bytes, place.at as usize)) == Some(key)
        };
        self.places.find(spread(hash), is_it).map(|place| place.at)
    }

    fn append(&mut self, key: Key, field: &[u8]) {
        let Ok(at) = u32::try_from(self.bytes.len()) else { return };
        // Not the double: there may be 65,000 sequences, and each has its own.
        if self.bytes.capacity() - self.bytes.len() < field.len() {
            self.bytes.reserve_exact(field.len() + self.bytes.len() / 4);
        }
        self.bytes.extend_from_slice(field);
        let hash = hash(key);
        self.places.insert_unique(spread(hash), Place { hash, at }, |place| spread(place.hash));
    }
}

/// The field that begins at `at`: empty at the end.
fn record_at(bytes: &[u8], at: usize) -> &[u8] {
    let rest = bytes.get(at..).unwrap_or_default();
    Fields::new(rest).next().and_then(Result::ok).map_or(&[], |field| field.raw)
}

fn key_of(field: &[u8]) -> Option<Key> {
    let field = Fields::new(field).next()?.ok()?;
    let Value::Bytes(message) = field.value else { return None };
    Some((field.number, number_of(message)?))
}

/// The value of field 1.
pub(crate) fn number_of(message: &[u8]) -> Option<u64> {
    Fields::new(message).map_while(Result::ok).find_map(|field| match (field.number, field.value) {
        (1, Value::Varint(number)) => Some(number),
        _ => None,
    })
}

/// Producers choose the keys: without a secret in it they could choose such that all fall into one place.
fn hash(key: Key) -> u32 {
    static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    SECRET.hash_one(key) as u32
}

/// The table looks at both ends of 64 bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, id: u8, name: &str) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 2, 4 + name.len() as u8, 8, id, 0x12, name.len() as u8];
        bytes.extend_from_slice(name.as_bytes());
        bytes
    }

    #[test]
    fn of_interned_data_the_first_counts_and_of_descriptions_the_last() {
        let mut records = Records::default();
        records.add(&field(2, 1, "a"));
        records.add(&field(2, 1, "b"));
        records.add(&field(1, 1, "c"));
        assert_eq!(records.iter().collect::<Vec<_>>(), [field(2, 1, "a"), field(1, 1, "c")]);
        records.replace(&field(2, 1, "other"));
        assert_eq!(records.iter().collect::<Vec<_>>(), [field(1, 1, "c"), field(2, 1, "other")]);
    }

    #[test]
    fn what_was_replaced_takes_no_memory() {
        let mut records = Records::default();
        for round in 0..10_000 {
            records.replace(&field(12, (round % 7) as u8, if round % 2 == 0 { "even" } else { "odd" }));
        }
        assert_eq!(records.iter().count(), 7);
        assert!(records.size() < 1024, "{}", records.size());
    }
}
