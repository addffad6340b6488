//! What the buffer promises about sizes, memory and its own state, where a script would be too long.

use std::sync::Mutex;

use ferretto_trace_buffer::{
    Chunk, ClientIdentity, CreateError, FillPolicy, HISTOGRAM_BUCKETS, OverwriteSink, ProducerId,
    TraceBuffer, chunk_flags, loss,
};

/// What is resident is the whole process's.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn ring(size_bytes: usize) -> TraceBuffer {
    TraceBuffer::new(size_bytes, FillPolicy::Ring).expect("a small buffer")
}

fn copy(buffer: &mut TraceBuffer, writer: u16, chunk_id: u32, num_fragments: u16, payload: &[u8]) {
    buffer.copy_chunk(&Chunk {
        producer: ProducerId(1),
        client: ClientIdentity { uid: 1000, pid: i32::from(writer), machine_id: 0 },
        writer,
        chunk_id,
        num_fragments,
        flags: 0,
        complete: true,
        payload,
    });
}

/// Writer and losses of every packet.
fn read_all(buffer: &mut TraceBuffer) -> Vec<(u16, u32)> {
    let mut packets = Vec::new();
    buffer.begin_read();
    while let Some(packet) = buffer.read_next() {
        packets.push((packet.writer, packet.loss));
    }
    packets
}

#[test]
fn sizes_are_rounded_up_to_pages_and_are_below_4_gib() {
    assert_eq!(ring(0).size(), 4096);
    assert_eq!(ring(4096).size(), 4096);
    assert_eq!(ring(4097).size(), 8192);
    for size_bytes in [(1 << 32) - 1, 1 << 32, usize::MAX] {
        let made = TraceBuffer::new(size_bytes, FillPolicy::Ring);
        assert_eq!(made.err(), Some(CreateError::TooLarge { size_bytes }));
    }
}

#[test]
fn memory_is_not_resident_before_it_is_used() {
    let _alone = ONE_AT_A_TIME.lock();
    let before = resident_kib();
    let buffer = ring(1 << 30);
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 16 * 1024, "an empty buffer of 1 GiB took {grown} KiB");
    assert_eq!(buffer.used_size(), 0);
}

/// The memory of a burst is kept for the next one; when that is smaller by far, it goes back.
#[test]
fn memory_goes_back_when_a_burst_is_over() {
    let _alone = ONE_AT_A_TIME.lock();
    const BURST_KIB: usize = 128 * 1024;
    const NOISE_KIB: usize = 32 * 1024;
    let mut buffer = ring(BURST_KIB * 1024);
    // One fragment, whose size takes two bytes.
    let payload = [&[0x80, 0x3e][..], &[1; 0x1f00]].concat();
    let num_chunks = (BURST_KIB * 1024 / (payload.len() + 32)) as u32;
    let mut write_and_read = |chunk_ids: std::ops::Range<u32>| {
        let num_packets = chunk_ids.len();
        chunk_ids.for_each(|chunk_id| copy(&mut buffer, 1, chunk_id, 1, &payload));
        assert_eq!(read_all(&mut buffer).len(), num_packets);
        buffer.compact(&mut ferretto_trace_buffer::CompactionBudget::default());
        assert_eq!(buffer.used_size(), 0);
        resident_kib()
    };
    let after_burst = write_and_read(0..num_chunks);
    let later = write_and_read(num_chunks..num_chunks + 1);
    if after_burst == 0 {
        return eprintln!("skipped: no /proc tells what is resident");
    }
    assert!(after_burst > BURST_KIB - NOISE_KIB, "{after_burst} KiB are not kept for the next burst");
    assert!(later + BURST_KIB < after_burst + NOISE_KIB, "{after_burst} KiB became {later} KiB only");
}

/// 0 where there is no /proc.
fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

#[test]
fn has_data_stays_true_once_a_chunk_came() {
    let mut buffer = ring(4096);
    assert!(!buffer.has_data());
    copy(&mut buffer, 1, 0, 1, b"\x01a");
    read_all(&mut buffer);
    buffer.compact(&mut ferretto_trace_buffer::CompactionBudget::default());
    assert!(buffer.has_data());
    assert_eq!(buffer.used_size(), 0);
    assert_eq!(read_all(&mut buffer), []);
}

#[test]
fn packets_know_where_they_came_from() {
    let mut buffer = ring(4096);
    copy(&mut buffer, 7, 0, 1, b"\x03abc");
    buffer.begin_read();
    let packet = buffer.read_next().expect("one packet");
    assert_eq!((packet.producer, packet.writer), (ProducerId(1), 7));
    assert_eq!(packet.client, ClientIdentity { uid: 1000, pid: 7, machine_id: 0 });
    assert_eq!((packet.len(), packet.slices().len()), (3, 1));
    assert_eq!(packet.to_vec(), b"abc");
}

#[test]
fn writing_ends_a_read_pass() {
    let mut buffer = ring(4096);
    copy(&mut buffer, 1, 0, 2, b"\x01a\x01b");
    buffer.begin_read();
    assert!(buffer.read_next().is_some());
    copy(&mut buffer, 1, 1, 1, b"\x01c");
    assert!(buffer.read_next().is_none());
    assert_eq!(read_all(&mut buffer), [(1, 0), (1, 0)]);
}

#[test]
fn reading_without_beginning_gives_nothing() {
    let mut buffer = ring(4096);
    copy(&mut buffer, 1, 0, 1, b"\x01a");
    assert!(buffer.read_next().is_none());
}

#[test]
fn gaps_are_known_for_the_1024_writers_that_were_emptied_last() {
    const WRITERS: u16 = 1153;
    let mut buffer = ring(1 << 20);
    (1..=WRITERS).for_each(|writer| copy(&mut buffer, writer, 0, 1, b"\x01a"));
    assert_eq!(read_all(&mut buffer).len(), usize::from(WRITERS));
    // One more chunk, and the 129 writers that were emptied first are forgotten.
    copy(&mut buffer, 20000, 0, 1, b"\x01a");
    (1..=WRITERS).for_each(|writer| copy(&mut buffer, writer, 2, 1, b"\x01a"));

    let packets = read_all(&mut buffer);
    let told: Vec<u16> =
        packets.iter().filter(|(_, losses)| losses & loss::READ_GAP != 0).map(|p| p.0).collect();
    assert_eq!(told, (130..=WRITERS).collect::<Vec<_>>());
}

#[test]
fn up_to_1152_writers_without_chunks_are_all_remembered() {
    const WRITERS: u16 = 1152;
    let mut buffer = ring(1 << 20);
    (1..=WRITERS).for_each(|writer| copy(&mut buffer, writer, 0, 1, b"\x01a"));
    read_all(&mut buffer);
    (1..=WRITERS).for_each(|writer| copy(&mut buffer, writer, 2, 1, b"\x01a"));
    assert!(read_all(&mut buffer).iter().all(|(_, losses)| losses & loss::READ_GAP != 0));
}

#[test]
fn histograms_count_payloads_by_size_with_bounds_inclusive() {
    let mut buffer = ring(1 << 20);
    copy(&mut buffer, 5, 0, 1, b"\x07aaaaaaa"); // 8 bytes: the first bucket
    copy(&mut buffer, 5, 1, 1, b"\x08aaaaaaaa"); // 9 bytes: the second
    copy(&mut buffer, 5, 1, 1, b"\x08aaaaaaaa"); // counted when committed again, too
    let mut large = vec![0x9f, 0x9c, 0x01]; // 19999 bytes follow; 20002: the last
    large.resize(20002, 0);
    copy(&mut buffer, 6, 0, 1, &large);

    let of: Vec<_> =
        buffer.writer_stats().map(|(producer, writer, histogram)| (producer, writer, *histogram)).collect();
    assert_eq!((of[0].0, of[0].1), (ProducerId(1), 5));
    assert_eq!((&of[0].2.counts[..3], &of[0].2.sums_bytes[..3]), (&[1, 2, 0][..], &[8, 18, 0][..]));
    assert_eq!(of[1].1, 6);
    assert_eq!(
        (of[1].2.counts[HISTOGRAM_BUCKETS - 1], of[1].2.sums_bytes[HISTOGRAM_BUCKETS - 1]),
        (1, 20002)
    );
}

/// Chunks in an order that makes every one of them late must not cost a walk over all before it.
#[test]
fn late_chunks_and_patches_for_missing_ones_cost_little_in_a_long_sequence() {
    const CHUNKS: u32 = 4_000;
    let mut buffer = ring(8 << 20);
    (0..CHUNKS).for_each(|n| copy(&mut buffer, 1, 2 * CHUNKS - 2 * n, 0, b""));
    for n in 0..CHUNKS {
        let patch = ferretto_trace_buffer::Patch { offset: 0, data: [0; 4] };
        assert!(!buffer.try_patch(ProducerId(1), 1, 2 * n + 1, &[patch], false));
    }
    assert_eq!(buffer.stats().chunks_committed_out_of_order, u64::from(CHUNKS) - 1);
}

#[test]
fn chunks_that_are_late_by_more_than_shared_memory_can_hold_are_refused() {
    const LATER: u32 = 8 * 1024;
    let mut buffer = ring(4 << 20);
    (1..=LATER).for_each(|chunk_id| copy(&mut buffer, 1, chunk_id + 1, 0, b""));
    copy(&mut buffer, 1, 1, 0, b"");
    assert_eq!((buffer.stats().chunks_written, buffer.stats().abi_violations), (u64::from(LATER) + 1, 0));
    copy(&mut buffer, 1, 0, 0, b"");
    assert_eq!((buffer.stats().chunks_written, buffer.stats().abi_violations), (u64::from(LATER) + 1, 1));
}

/// The first place of the ring holds a chunk that comes after all others: they would all go with it.
#[test]
fn a_chunk_that_goes_takes_only_so_many_with_it() {
    const CHUNKS: u32 = 100_000;
    let mut buffer = ring(4 << 20);
    copy(&mut buffer, 1, 1 << 30, 1, b"\x01z");
    (0..CHUNKS).for_each(|chunk_id| copy(&mut buffer, 1, chunk_id, 1, b"\x01a"));
    let written = buffer.stats().chunks_written;
    assert!(written < 20_000, "{written} were taken");
    for chunk_id in 0.. {
        copy(&mut buffer, 2, chunk_id, 1, b"\x01b");
        if buffer.stats().chunks_overwritten > 0 {
            break;
        }
    }
    assert_eq!(buffer.stats().chunks_overwritten, written);
}

/// They may be large: most of them go without being looked at, and that is said.
#[test]
fn large_chunks_that_go_with_another_are_not_all_gone_through() {
    let mut buffer = ring(64 << 20);
    let large = [&[0xff, 0xe8, 0x01][..], &[b'a'; 29_823]].concat();
    copy(&mut buffer, 1, 5000, 1, b"\x01z");
    (0..2000).for_each(|chunk_id| copy(&mut buffer, 1, chunk_id, 1, &large));
    let mut given = Counted::default();
    let mut looks = Vec::new();
    for chunk_id in 0.. {
        let chunk = Chunk {
            producer: ProducerId(1),
            client: ClientIdentity::default(),
            writer: 2,
            chunk_id,
            num_fragments: 1,
            flags: 0,
            complete: true,
            payload: &large,
        };
        buffer.copy_chunk_with(&chunk, &mut given);
        looks.push(buffer.looks_to_store());
        if buffer.stats().chunks_overwritten > 0 {
            break;
        }
    }
    assert!((30..40).contains(&given.packets), "{}", given.packets);
    assert_eq!(given.misses, 1);
    assert_eq!(buffer.stats().chunks_overwritten, 2001);
    assert!(
        looks.pop().is_some_and(|last| (16_000..20_000).contains(&last))
            && looks.iter().all(|looks| *looks == 0)
    );
}

/// What a sink got.
#[derive(Default)]
struct Counted {
    packets: usize,
    misses: usize,
}

impl OverwriteSink for Counted {
    fn wants(&self, _producer: ProducerId) -> bool {
        true
    }

    fn take(&mut self, _packet: &ferretto_trace_buffer::Packet<'_>) {
        self.packets += 1;
    }

    fn miss(&mut self, _producer: ProducerId) {
        self.misses += 1;
    }
}

/// Behind a chunk that waits for its patch: however many they are, a call looks at a part of them.
#[test]
fn chunks_that_cannot_be_read_are_not_all_looked_at_at_once() {
    let mut buffer = ring(4 << 20);
    buffer.copy_chunk(&Chunk {
        producer: ProducerId(1),
        client: ClientIdentity::default(),
        writer: 1,
        chunk_id: 0,
        num_fragments: 1,
        flags: chunk_flags::LAST_CONTINUES_ON_NEXT | chunk_flags::NEEDS_PATCHING,
        complete: true,
        payload: b"\x01x",
    });
    (1..20_000).for_each(|chunk_id| copy(&mut buffer, 1, chunk_id, 1, b"\x01x"));
    assert_eq!(read_all(&mut buffer), []);
    assert_eq!((buffer.unread(100).chunks, buffer.unread(usize::MAX).chunks), (100, 20_000));
    assert!(buffer.compact(&mut ferretto_trace_buffer::CompactionBudget::default()).is_none());
    assert_eq!((buffer.stats().compactions, buffer.stats().compactions_skipped), (0, 1));
}

/// Longer ones are lost: to look for their ends would take as long as there are chunks.
#[test]
fn packets_go_on_through_64_ki_chunks_at_most() {
    const MOST: u32 = 64 * 1024;
    for (chunks_after_first, is_whole) in [(MOST, true), (MOST + 1, false)] {
        let mut buffer = ring(4 << 20);
        let mut copy = |chunk_id: u32, flags: u8| {
            buffer.copy_chunk(&Chunk {
                producer: ProducerId(1),
                client: ClientIdentity::default(),
                writer: 1,
                chunk_id,
                num_fragments: 1,
                flags,
                complete: true,
                payload: b"\x01x",
            });
        };
        copy(0, chunk_flags::LAST_CONTINUES_ON_NEXT);
        let goes_on = chunk_flags::FIRST_CONTINUES_FROM_PREVIOUS | chunk_flags::LAST_CONTINUES_ON_NEXT;
        (1..chunks_after_first).for_each(|id| copy(id, goes_on));
        copy(chunks_after_first, chunk_flags::FIRST_CONTINUES_FROM_PREVIOUS);
        buffer.begin_read();
        assert_eq!(buffer.read_next().is_some(), is_whole);
        assert!(buffer.read_next().is_none());
    }
}

/// It takes 4 to 8 bytes to know where a chunk is.
#[test]
fn a_ring_has_not_so_many_chunks_that_knowing_them_takes_half_of_it() {
    let mut buffer = ring(1 << 20);
    let mut chunks = 0;
    while buffer.stats().write_wrap_count == 0 {
        copy(&mut buffer, 1, chunks, 0, b"");
        chunks += 1;
    }
    assert!((33_000..36_000).contains(&chunks), "{chunks}, where 65,536 empty ones had room");
    assert_eq!((buffer.stats().chunks_discarded, buffer.stats().abi_violations), (0, 0));
}

#[test]
fn to_make_room_for_a_chunk_a_bounded_number_of_others_is_looked_at() {
    const WRITERS: u16 = 100;
    let mut buffer = ring(4 << 20);
    for writer in 1..=WRITERS {
        buffer.copy_chunk(&Chunk {
            producer: ProducerId(1),
            client: ClientIdentity::default(),
            writer,
            chunk_id: 0,
            num_fragments: 1,
            flags: chunk_flags::LAST_CONTINUES_ON_NEXT,
            complete: true,
            payload: &[2, 8, 1],
        });
    }
    let mut chunk_id = 0;
    while buffer.used_size() + 60_000 < buffer.size() {
        chunk_id += 1;
        (1..=WRITERS).for_each(|writer| copy(&mut buffer, writer, chunk_id, 0, b""));
    }
    assert!(chunk_id > 500);
    let begin = buffer.stats().readaheads_failed;
    copy(&mut buffer, WRITERS + 1, 0, 1, &[&[0xe0, 0xd4, 0x03][..], &[0; 60_000]].concat());
    let failed = buffer.stats().readaheads_failed - begin;
    assert!(failed > 50, "{failed} beginnings were overwritten");
    // And those in its way, of 16 bytes at the least.
    assert!(buffer.looks_to_store() <= 16 * 1024 + 60_016 / 16, "{} looks", buffer.looks_to_store());
    copy(&mut buffer, WRITERS + 1, 1, 1, b"\x03abc");
    assert!(buffer.looks_to_store() < 32, "{} looks", buffer.looks_to_store());
}
