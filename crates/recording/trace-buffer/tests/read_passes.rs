//! Read passes that rest, and go on after something was written.

use ferretto_trace_buffer::{Chunk, ClientIdentity, FillPolicy, Patch, ProducerId, TraceBuffer, chunk_flags};

const SIZE: usize = 64 * 1024;

fn copy(buffer: &mut TraceBuffer, writer: u16, chunk_id: u32, flags: u8, fragments: &[&[u8]]) {
    let payload: Vec<u8> =
        fragments.iter().flat_map(|bytes| [&[bytes.len() as u8], *bytes].concat()).collect();
    buffer.copy_chunk(&Chunk {
        producer: ProducerId(1),
        client: ClientIdentity::default(),
        writer,
        chunk_id,
        num_fragments: fragments.len() as u16,
        flags,
        complete: true,
        payload: &payload,
    });
}

/// All that a pass gives until it rests or ends.
fn read_on(buffer: &mut TraceBuffer) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| buffer.read_next().map(|packet| packet.to_vec())).collect()
}

/// Reads as much as there is, looking at so many chunks at a time. Says in how many parts, too.
fn read_in_parts(buffer: &mut TraceBuffer, looks: usize) -> (Vec<Vec<u8>>, usize) {
    let (mut packets, mut parts) = (Vec::new(), 0);
    buffer.begin_read();
    while buffer.is_reading() {
        buffer.look_at_most(looks);
        packets.extend(read_on(buffer));
        parts += 1;
        assert!(parts < 100_000, "it goes on");
    }
    (packets, parts)
}

fn ring() -> TraceBuffer {
    TraceBuffer::new(SIZE, FillPolicy::Ring).unwrap()
}

/// Writers that wait for patches, chunks with nothing in them, packets in pieces, chunks that come before earlier ones.
fn filled() -> TraceBuffer {
    let mut buffer = ring();
    let (begins, continues) =
        (chunk_flags::LAST_CONTINUES_ON_NEXT, chunk_flags::FIRST_CONTINUES_FROM_PREVIOUS);
    copy(&mut buffer, 1, 0, begins | chunk_flags::NEEDS_PATCHING, &[b"stalled"]);
    for id in 0..200 {
        copy(&mut buffer, 1, id + 1, 0, &[b""]);
        copy(&mut buffer, 2, 1000 - id, 0, &[&id.to_le_bytes(), b""]);
        copy(&mut buffer, 3, 2 * id, begins, &[b"a", b"be"]);
        copy(&mut buffer, 3, 2 * id + 1, continues, &[b"gin"]);
        copy(&mut buffer, 4, id, 0, &[]);
    }
    buffer
}

#[test]
fn a_pass_in_parts_gives_what_one_at_once_gives() {
    let (expected, parts) = read_in_parts(&mut filled(), usize::MAX);
    assert_eq!((expected.len(), parts), (200 + 2 * 200, 1));
    for looks in [1, 2, 7, 100, 10_000] {
        let mut buffer = filled();
        let (packets, parts) = read_in_parts(&mut buffer, looks);
        assert_eq!(packets, expected, "{looks}");
        assert!(parts >= 800 / looks, "{looks}: {parts}");
        assert_eq!(buffer.stats(), &{
            let mut other = filled();
            read_in_parts(&mut other, usize::MAX);
            *other.stats()
        });
    }
}

/// The search for the end of a packet, and the walk through chunks that are earlier than the one that is next in the ring.
#[test]
fn no_single_read_looks_at_more_chunks_than_it_may() {
    let mut buffer = ring();
    copy(&mut buffer, 1, 2000, 0, &[b"last"]);
    (0..1999).for_each(|id| copy(&mut buffer, 1, id, 0, &[b""]));
    let (packets, parts) = read_in_parts(&mut buffer, 100);
    assert_eq!(packets, [b"last"]);
    assert!(parts >= 19, "{parts}");

    let mut buffer = ring();
    for writer in 1..=10 {
        copy(&mut buffer, writer, 0, chunk_flags::LAST_CONTINUES_ON_NEXT, &[b"begin"]);
        (1..200).for_each(|id| copy(&mut buffer, writer, id, 0, &[]));
    }
    let (packets, parts) = read_in_parts(&mut buffer, 100);
    assert!(packets.is_empty() && parts >= 10, "{parts}");
}

#[test]
fn a_pass_goes_on_where_it_was_when_something_was_written() {
    let mut buffer = ring();
    let begins = chunk_flags::LAST_CONTINUES_ON_NEXT;
    copy(&mut buffer, 1, 0, begins | chunk_flags::NEEDS_PATCHING, &[b"\0begin"]);
    copy(&mut buffer, 1, 1, chunk_flags::FIRST_CONTINUES_FROM_PREVIOUS, &[b"end"]);
    (0..100).for_each(|id| copy(&mut buffer, 2, id, 0, &[&[id as u8], b"x"]));
    buffer.begin_read();
    buffer.look_at_most(50);
    let mut found = read_on(&mut buffer);
    assert!(buffer.is_reading() && !found.is_empty());
    // It is written and patched, which ends the pass.
    copy(&mut buffer, 2, 100, 0, &[b"new"]);
    let patch = Patch { offset: 1, data: *b"abcd" };
    assert!(buffer.try_patch(ProducerId(1), 1, 0, &[patch], false));
    assert!(buffer.read_next().is_none() && !buffer.is_reading());
    buffer.resume_read();
    buffer.look_at_most(60);
    found.extend(read_on(&mut buffer));
    assert!(!buffer.is_reading(), "it did not look at the first chunks again");
    assert_eq!(found.len(), 201);
    assert_eq!(found.last().unwrap(), b"new");
    // What was patched is for the next one.
    buffer.begin_read();
    assert_eq!(read_on(&mut buffer).len(), 1);
}

#[test]
fn a_pass_whose_place_was_overwritten_goes_on_with_the_oldest_chunk() {
    for written in [0, 1, 20, 39, 40, 41, 80, 81] {
        let mut buffer = TraceBuffer::new(4096, FillPolicy::Ring).unwrap();
        let body = [7; 84]; // 40 chunks of 102 bytes and more fill the ring, and a gap
        let write = |buffer: &mut TraceBuffer, id: u32| copy(buffer, 1, id, 0, &[&id.to_le_bytes(), &body]);
        (0..60).for_each(|id| write(&mut buffer, id));
        buffer.begin_read();
        buffer.look_at_most(10);
        let mut found = read_on(&mut buffer);
        (60..60 + written).for_each(|id| write(&mut buffer, id));
        buffer.resume_read();
        found.extend(read_on(&mut buffer));
        let ids: Vec<u32> = found
            .iter()
            .filter_map(|bytes| bytes.as_slice().try_into().ok().map(u32::from_le_bytes))
            .collect();
        assert!(ids.is_sorted_by(|a, b| a < b), "{written}: {ids:?}");
        assert_eq!(ids.last(), Some(&(59 + written)));
        let mut again = ids.clone();
        again.dedup();
        assert_eq!(ids, again);
        buffer.begin_read();
        assert!(buffer.read_next().is_none(), "{written}: nothing was passed over");
    }
}
