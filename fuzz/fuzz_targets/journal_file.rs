//! Any bytes as a file of systemd's journal: entries or errors, in bounded time and memory.
#![no_main]

use ferretto_probes::journald::file::{Field, FieldBuffer, JournalFile};
use libfuzzer_sys::fuzz_target;

/// What is beyond this is left out (sd_journal_set_data_threshold).
const MAX_FIELD_BYTES: usize = 64 << 10;
/// As many as journald writes into one entry.
const MAX_FIELDS: usize = 1024;

fuzz_target!(|data: &[u8]| {
    let mut bytes = data.to_vec();
    // Nothing else is read without the signature, or with features from the future.
    if bytes.len() > 16 {
        bytes[..8].copy_from_slice(b"LPKSHHRH");
        bytes[12] &= 0b1_1111;
        bytes[13..16].fill(0);
    }
    let Ok(mut file) = JournalFile::open(&*bytes) else { return };
    let mut buffer = FieldBuffer::default();
    let mut entries = 0;
    while let Ok(Some(offset)) = file.next_entry() {
        entries += 1;
        assert!(entries <= bytes.len(), "an entry is listed in four bytes or more");
        let Ok(entry) = file.entry(offset) else { continue };
        assert!(entry.fields.len() <= MAX_FIELDS);
        for field in entry.fields {
            if let Ok(Field::Text(text)) = file.field(field, &mut buffer) {
                assert!(text.len() <= MAX_FIELD_BYTES);
            }
        }
    }
    if let Ok(mut file) = JournalFile::open(&*bytes) {
        let _ = file.skip_to_end();
    }
});
