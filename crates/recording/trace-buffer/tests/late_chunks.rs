//! Chunks that are refused because they come after later ones of their writer, and whether anything is lost with them.

use ferretto_trace_buffer::{Chunk, ClientIdentity, FillPolicy, ProducerId, TraceBuffer};

const SIZE: usize = 4096;

/// Copies a chunk of one packet for each byte, the last of them left out if it is scraped.
fn copy(buffer: &mut TraceBuffer, writer: u16, chunk_id: u32, packets: &[u8], complete: bool) {
    let payload: Vec<u8> = packets.iter().flat_map(|&packet| [1, packet]).collect();
    buffer.copy_chunk(&Chunk {
        producer: ProducerId(1),
        client: ClientIdentity::default(),
        writer,
        chunk_id,
        num_fragments: packets.len() as u16,
        flags: 0,
        complete,
        payload: &payload,
    });
}

fn read(buffer: &mut TraceBuffer) -> Vec<u8> {
    buffer.begin_read();
    let mut packets = Vec::new();
    while let Some(packet) = buffer.read_next() {
        packets.extend(packet.to_vec());
    }
    packets
}

/// Chunks refused, and those of which nothing is lost.
fn refused(buffer: &TraceBuffer) -> (u64, u64) {
    let stats = buffer.stats();
    (stats.chunks_discarded, stats.chunks_discarded_without_loss)
}

fn ring() -> TraceBuffer {
    TraceBuffer::new(SIZE, FillPolicy::Ring).unwrap()
}

#[test]
fn what_was_scraped_whole_and_read_is_not_lost() {
    let mut buffer = ring();
    copy(&mut buffer, 1, 0, b"ab", true);
    copy(&mut buffer, 1, 1, b"cd", true);
    assert_eq!(read(&mut buffer), b"abcd");
    copy(&mut buffer, 1, 0, b"ab", true);
    copy(&mut buffer, 1, 1, b"cd", true);
    assert_eq!((read(&mut buffer), refused(&buffer)), (vec![], (2, 2)));
}

#[test]
fn what_was_overwritten_before_it_was_handed_over_is_not_lost() {
    let mut buffer = ring();
    copy(&mut buffer, 1, 0, b"ab", true);
    copy(&mut buffer, 1, 1, b"cd", false);
    copy(&mut buffer, 2, 0, &[b'x'; 2000], true);
    copy(&mut buffer, 2, 1, &[b'x'; 2000], true);
    copy(&mut buffer, 1, 0, b"ab", true);
    assert_eq!(refused(&buffer), (1, 1));
    // Of what was scraped, a part is new.
    copy(&mut buffer, 1, 1, b"cd", true);
    assert_eq!(refused(&buffer), (1, 1));
    assert!(read(&mut buffer).contains(&b'd'));
}

#[test]
fn what_readers_went_past_is_lost() {
    for first in [0, 1] {
        let mut buffer = ring();
        for id in (first..4).filter(|id| *id != 2) {
            copy(&mut buffer, 1, id, b"a", true);
        }
        read(&mut buffer);
        copy(&mut buffer, 1, 2, b"b", true);
        assert_eq!(refused(&buffer), (1, 0), "{first}");
    }
    let mut buffer = ring();
    copy(&mut buffer, 1, 3, b"a", true);
    read(&mut buffer);
    copy(&mut buffer, 1, 1, b"b", true);
    assert_eq!(refused(&buffer), (1, 0), "the first chunks came last");
}
