//! Which chunk is patched, of a writer that has many.

use ferretto_trace_buffer::{Chunk, ClientIdentity, FillPolicy, Patch, ProducerId, TraceBuffer};

const PRODUCER: ProducerId = ProducerId(1);
const WRITER: u16 = 1;
const CHUNKS: u32 = 700;
/// Ids wrap round on the way.
const FIRST: u32 = u32::MAX - CHUNKS;

/// Every other id is missing, and each second chunk comes before the one before it.
fn ring() -> TraceBuffer {
    let mut buffer = TraceBuffer::new(64 * 1024, FillPolicy::Ring).unwrap();
    for number in 0..CHUNKS {
        let payload = [5, 1, 0, 0, 0, 0];
        buffer.copy_chunk(&Chunk {
            producer: PRODUCER,
            client: ClientIdentity::default(),
            writer: WRITER,
            chunk_id: FIRST.wrapping_add(2 * (number ^ 1)),
            num_fragments: 1,
            flags: 0,
            complete: true,
            payload: &payload,
        });
    }
    buffer
}

#[test]
fn a_chunk_is_found_wherever_it_is_and_one_that_is_not_there_is_not() {
    let mut buffer = ring();
    for number in 0..CHUNKS {
        let id = FIRST.wrapping_add(2 * number);
        let patches = [Patch { offset: 2, data: number.to_le_bytes() }];
        assert!(buffer.try_patch(PRODUCER, WRITER, id, &patches, false), "{number}");
        for other in [id.wrapping_add(1), id.wrapping_sub(1)] {
            assert!(!buffer.try_patch(PRODUCER, WRITER, other, &patches, false), "{number}");
        }
    }
    buffer.begin_read();
    for number in 0..CHUNKS {
        let packet = buffer.read_next().unwrap().to_vec();
        assert_eq!(packet[1..], number.to_le_bytes());
    }
}
