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
    let options = Options { memory_bytes: MEMORY_BYTES, threads: 1, ..Options::default() };
    for archive in [[&b"PK\x03\x04"[..], file].concat(), tar(file)] {
        if let Ok((tables, _)) = import(archive.as_slice(), &options, &mut |_| true) {
            consistency::check(&tables).expect("tables hang together");
        }
    }
}

/// The bytes with the mark and the checksum that the first header of a tar has.
fn tar(file: &[u8]) -> Vec<u8> {
    const BLOCK: usize = 512;
    const SUM: std::ops::Range<usize> = 148..156;
    let mut file = file.to_vec();
    file.resize(file.len().max(BLOCK), 0);
    file[257..263].copy_from_slice(b"ustar\0");
    file[SUM].fill(b' ');
    let sum: u32 = file[..BLOCK].iter().map(|byte| u32::from(*byte)).sum();
    file[SUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    file
}
