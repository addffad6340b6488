//! Any bytes, read as a file of each other format, and as an archive of such: tables that hang together, errors with a place in the file.
#![no_main]

use ferretto_import::{Options, import};
use ferretto_trace_formats::recognize::{Format, Use, recognize};
use ferretto_trace_formats::{Error, read};
use ferretto_trace_model::model::Model;
use ferretto_trace_tables::consistency;
use libfuzzer_sys::fuzz_target;

/// Memory that an archive's tables may have: far more than so small an input needs.
const MEMORY_BYTES: u64 = 1 << 30;

fuzz_target!(|data: &[u8]| {
    let Some((&which, file)) = data.split_first() else { return };
    let _ = recognize(file);
    let read_ones: Vec<Format> =
        Format::ALL.iter().copied().filter(|format| format.use_() == Use::Imported).collect();
    match read_ones.get(usize::from(which)) {
        Some(format) => read_one(*format, file),
        None => read_archive(file),
    }
});

fn read_one(format: Format, file: &[u8]) {
    let mut model = Model::default();
    let end = read(format, file, &mut model);
    consistency::check(&model.finish()).expect("tables hang together");
    match end {
        Ok(()) | Err(Error::TooLarge { .. }) => {}
        Err(Error::Broken { offset, .. }) => assert!(offset <= file.len() as u64, "{offset}"),
        Err(error) => panic!("{error}"),
    }
}

fn read_archive(file: &[u8]) {
    let mut zip = b"PK\x03\x04".to_vec();
    zip.extend_from_slice(file);
    let options = Options { memory_bytes: MEMORY_BYTES, threads: 1, ..Options::default() };
    if let Ok((tables, _)) = import(zip.as_slice(), &options, &mut |_| true) {
        consistency::check(&tables).expect("tables hang together");
    }
}
