//! Any bytes, read as a trace, whole or in pieces: tables that hang together, the same ones however the bytes came.
#![no_main]

use ferretto_trace_model::Import;
use ferretto_trace_read::{Batch, PacketStream, Place, Reader};
use ferretto_trace_tables::{Tables, consistency};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&piece, trace)) = data.split_first() else { return };
    let mut import = Import::default();
    let end =
        Reader::new(trace).for_each(|packet, place| import.push(packet, place)).expect("memory can be read");
    let tables = import.finish();
    consistency::check(&tables).expect("tables hang together");
    if end.packets > 0 {
        let again = in_pieces(trace, usize::from(piece) + 1);
        assert!(again.is_none_or(|again| rows(&again) == rows(&tables)));
    }
});

/// The same packets, cut by another hand; nothing if some of them are in batches.
fn in_pieces(trace: &[u8], piece_bytes: usize) -> Option<Tables> {
    let mut import = Import::default();
    let mut stream = PacketStream::default();
    let mut has_batches = false;
    for piece in trace.chunks(piece_bytes) {
        stream.push(piece, &mut |packet, offset| {
            has_batches |= Batch::of(packet).is_some();
            import.push(packet, Place { offset, in_batch: None });
        });
    }
    (!has_batches).then(|| import.finish())
}

fn rows(tables: &Tables) -> Vec<usize> {
    tables.all().iter().map(|table| table.len()).collect()
}
