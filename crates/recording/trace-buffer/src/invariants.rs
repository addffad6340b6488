//! Random operations with random bytes, and what must hold after each of them.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::{
    Chunk, ClientIdentity, FillPolicy, OverwriteSink, Packet, Patch, ProducerId, Stats, TraceBuffer, loss,
};

#[derive(Debug, Clone)]
enum Operation {
    Copy { writer: u16, chunk_id: u32, num_fragments: u16, flags: u8, complete: bool, payload: Vec<u8> },
    Patch { writer: u16, chunk_id: u32, patches: Vec<Patch>, more_pending: bool },
    Begin,
    Read(usize),
    Clone,
    Compact,
}

/// Chunk ids that collide, wrap round, and have no order among each other.
fn chunk_ids() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0u32..12, 2 => u32::MAX - 3..=u32::MAX, 1 => Just(1 << 31), 1 => any::<u32>()]
}

/// Bytes that look like fragments for a while.
fn payloads() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop_oneof![
        6 => proptest::collection::vec(any::<u8>(), 0..100).prop_map(|body| {
            let mut bytes = vec![body.len() as u8];
            bytes.extend(body);
            bytes
        }),
        1 => (200usize..2000).prop_map(|size| {
            let mut bytes = vec![size as u8 | 0x80, (size >> 7) as u8];
            bytes.resize(2 + size, 0);
            bytes
        }),
        1 => Just(vec![0xff, 0xff, 0xff, 0x7f]),
        1 => proptest::collection::vec(any::<u8>(), 0..20),
    ];
    proptest::collection::vec(fragment, 0..6).prop_map(|fragments| fragments.concat())
}

fn operations() -> impl Strategy<Value = Operation> {
    let copy = (1u16..4, chunk_ids(), 0u16..7, any::<u8>(), any::<bool>(), payloads()).prop_map(
        |(writer, chunk_id, num_fragments, flags, complete, payload)| Operation::Copy {
            writer,
            chunk_id,
            num_fragments,
            flags,
            complete,
            payload,
        },
    );
    let patches = proptest::collection::vec((0u32..150, any::<[u8; 4]>()), 0..4)
        .prop_map(|patches| patches.into_iter().map(|(offset, data)| Patch { offset, data }).collect());
    let patch = (1u16..4, chunk_ids(), patches, any::<bool>()).prop_map(
        |(writer, chunk_id, patches, more_pending)| Operation::Patch {
            writer,
            chunk_id,
            patches,
            more_pending,
        },
    );
    prop_oneof![
        10 => copy,
        3 => patch,
        2 => Just(Operation::Begin),
        4 => (0usize..8).prop_map(Operation::Read),
        1 => Just(Operation::Clone),
        1 => Just(Operation::Compact),
    ]
}

/// Looks at every packet that is overwritten.
struct Looks;

impl OverwriteSink for Looks {
    fn wants(&self, _producer: ProducerId) -> bool {
        true
    }

    fn take(&mut self, packet: &Packet<'_>) {
        assert_eq!(packet.to_vec().len(), packet.len());
        assert!(packet.slices().all(|slice| !slice.is_empty()));
        assert!(packet.in_one_piece().is_none_or(|bytes| bytes == packet.to_vec()));
    }
}

fn apply(buffer: &mut TraceBuffer, operation: &Operation, sink: &mut impl OverwriteSink) {
    match operation {
        Operation::Copy { writer, chunk_id, num_fragments, flags, complete, payload } => {
            let chunk = Chunk {
                producer: ProducerId(1),
                client: ClientIdentity::default(),
                writer: *writer,
                chunk_id: *chunk_id,
                num_fragments: *num_fragments,
                flags: *flags,
                complete: *complete,
                payload,
            };
            buffer.copy_chunk_with(&chunk, sink);
        }
        Operation::Patch { writer, chunk_id, patches, more_pending } => {
            buffer.try_patch(ProducerId(1), *writer, *chunk_id, patches, *more_pending);
        }
        Operation::Begin => buffer.begin_read(),
        Operation::Read(max) => {
            for _ in 0..*max {
                let Some(packet) = buffer.read_next() else { break };
                assert_eq!(packet.loss != 0, packet.loss & loss::DATA_LOSS_PRESENT != 0);
                assert_eq!(packet.to_vec().len(), packet.len());
                assert!(packet.slices().all(|slice| !slice.is_empty()));
            }
        }
        // Reading a clone to its end must be safe; the buffer itself goes on.
        Operation::Clone => {
            let mut clone = buffer.clone_read_only().expect("a small buffer");
            clone.begin_read();
            while clone.read_next().is_some() {}
            check(&clone);
        }
        Operation::Compact => drop(buffer.compact(&mut crate::CompactionBudget::default())),
    }
}

/// The ring is chunks back to back, and its chunks are those of the sequences.
fn check(buffer: &TraceBuffer) {
    assert!(buffer.write_at <= buffer.used_size() && buffer.used_size() <= buffer.size());
    let mut in_ring = BTreeSet::new();
    let mut starts = BTreeSet::from([buffer.used_size()]);
    let mut at = 0;
    while at < buffer.used_size() {
        let header = buffer.ring.header(at);
        assert!(header.payload_size <= header.size && header.unread <= header.payload_size);
        in_ring.extend(header.slot.map(|slot| (slot, at)));
        starts.insert(at);
        at += header.outer_size();
    }
    assert_eq!(at, buffer.used_size());
    assert!(starts.contains(&buffer.write_at), "a chunk begins at the write cursor");
    assert_eq!(in_ring, buffer.sequences.all_chunks().collect());
}

fn check_counters(before: &Stats, after: &Stats) {
    assert!(after.chunks_written >= before.chunks_written);
    assert!(after.bytes_written >= 16 * after.chunks_written);
    assert!(after.bytes_read >= 32 * after.chunks_read, "only chunks with a payload count as read");
    assert!(after.bytes_overwritten >= 32 * after.chunks_overwritten);
    assert!(after.chunks_committed_out_of_order <= after.chunks_written);
    assert!(after.padding_bytes_cleared <= after.bytes_written + after.padding_bytes_written);
    assert!(after.chunks_read + after.chunks_overwritten <= after.chunks_written + after.chunks_rewritten);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_operations_in_any_order_keep_the_buffer_whole(
        size in prop_oneof![Just(4096usize), Just(8192)],
        discard in any::<bool>(),
        folds in any::<bool>(),
        operations in proptest::collection::vec(operations(), 1..150),
    ) {
        let policy = if discard { FillPolicy::Discard } else { FillPolicy::Ring };
        let mut buffer = TraceBuffer::new(size, policy).unwrap();
        if folds {
            buffer = buffer.fold_overwritten();
        }
        for operation in &operations {
            let before = *buffer.stats();
            apply(&mut buffer, operation, &mut ());
            check(&buffer);
            check_counters(&before, buffer.stats());
        }
    }

    /// The two ways to evict, with and without looking at what goes, leave the same buffer behind.
    #[test]
    fn looking_at_what_is_overwritten_changes_nothing(
        operations in proptest::collection::vec(operations(), 1..150),
    ) {
        let mut looked_at = TraceBuffer::new(4096, FillPolicy::Ring).unwrap();
        let mut plain = TraceBuffer::new(4096, FillPolicy::Ring).unwrap();
        for operation in &operations {
            apply(&mut looked_at, operation, &mut Looks);
            apply(&mut plain, operation, &mut ());
            prop_assert_eq!(looked_at.stats(), plain.stats());
        }
        looked_at.begin_read();
        plain.begin_read();
        loop {
            let packets = [&mut looked_at, &mut plain].map(|buffer| {
                buffer.read_next().map(|packet| (packet.writer, packet.loss, packet.to_vec()))
            });
            prop_assert_eq!(&packets[0], &packets[1]);
            if packets[0].is_none() {
                break;
            }
        }
    }

    /// Whatever happens in between, a clone that is made part by part is the one that was made at once when it began.
    #[test]
    fn a_clone_that_takes_its_time_is_of_its_beginning(
        folds in any::<bool>(),
        before in proptest::collection::vec(operations(), 1..60),
        between in proptest::collection::vec((operations(), any::<bool>()), 0..60),
    ) {
        let mut buffer = TraceBuffer::new(8192, FillPolicy::Ring).unwrap();
        if folds {
            buffer = buffer.fold_overwritten();
        }
        before.iter().for_each(|operation| apply(&mut buffer, operation, &mut ()));
        let mut at_once = buffer.clone_read_only().unwrap();
        buffer.begin_clone().unwrap();
        let mut made = None;
        for (operation, continues) in &between {
            apply(&mut buffer, operation, &mut ());
            if *continues && made.is_none() {
                made = buffer.continue_clone();
            }
            prop_assert_eq!(buffer.is_being_cloned(), made.is_none());
        }
        let mut made = std::iter::repeat_with(|| made.take().or_else(|| buffer.continue_clone())).flatten();
        let mut made = made.next().unwrap();
        prop_assert_eq!(made.ring.bytes(), at_once.ring.bytes());
        prop_assert_eq!(read_all(&mut made), read_all(&mut at_once));
    }
}

/// Of each packet its writer, losses and bytes.
fn read_all(buffer: &mut TraceBuffer) -> Vec<(u16, u32, Vec<u8>)> {
    buffer.begin_read();
    let next = || buffer.read_next().map(|packet| (packet.writer, packet.loss, packet.to_vec()));
    std::iter::from_fn(next).collect()
}
