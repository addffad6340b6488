//! Messages written across ranges of any size decode to what a plain encoder writes.

use ferretto_protozero::read::{Fields, Value};
use ferretto_protozero::{Message, Range, RangeSink, Sink, varint};
use proptest::prelude::*;

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Varint(u32, u64),
    Fixed32(u32, u32),
    Fixed64(u32, u64),
    Bytes(u32, Vec<u8>),
    Packed(u32, Vec<u64>),
    Nested(u32, Vec<Self>),
}

fn field() -> impl Strategy<Value = u32> {
    prop_oneof![1u32..16, 16u32..2048, Just((1 << 29) - 1)]
}

fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0u32..64).prop_map(|(value, shift)| value >> shift)
}

fn tree() -> impl Strategy<Value = Vec<Node>> {
    let leaf = prop_oneof![
        (field(), number()).prop_map(|(field, value)| Node::Varint(field, value)),
        (field(), any::<u32>()).prop_map(|(field, value)| Node::Fixed32(field, value)),
        (field(), any::<u64>()).prop_map(|(field, value)| Node::Fixed64(field, value)),
        (field(), prop::collection::vec(any::<u8>(), 0..180))
            .prop_map(|(field, bytes)| Node::Bytes(field, bytes)),
        (field(), prop::collection::vec(number(), 0..12))
            .prop_map(|(field, values)| Node::Packed(field, values)),
    ];
    let node = leaf.prop_recursive(5, 60, 6, |inner| {
        (field(), prop::collection::vec(inner, 0..6)).prop_map(|(field, nodes)| Node::Nested(field, nodes))
    });
    prop::collection::vec(node, 0..8)
}

fn write<S: Sink>(message: &mut Message<'_, S>, nodes: &[Node]) {
    for node in nodes {
        match node {
            Node::Varint(field, value) => message.varint(*field, *value),
            Node::Fixed32(field, value) => message.fixed32(*field, *value),
            Node::Fixed64(field, value) => message.fixed64(*field, *value),
            Node::Bytes(field, bytes) => message.bytes(*field, bytes),
            Node::Packed(field, values) => message.packed_varints(*field, values.iter().copied()),
            Node::Nested(field, nodes) => write(&mut message.nested(*field), nodes),
        }
    }
}

/// The plain encoder: children first, minimal lengths.
fn plain(nodes: &[Node]) -> Vec<u8> {
    let mut out = Vec::new();
    for node in nodes {
        let (field, wire_type, body) = match node {
            Node::Varint(field, value) => {
                let mut body = Vec::new();
                varint::encode(*value, &mut body);
                (field, 0, body)
            }
            Node::Fixed64(field, value) => (field, 1, value.to_le_bytes().to_vec()),
            Node::Fixed32(field, value) => (field, 5, value.to_le_bytes().to_vec()),
            Node::Bytes(field, bytes) => (field, 2, bytes.clone()),
            Node::Packed(field, values) => {
                let mut body = Vec::new();
                values.iter().for_each(|value| varint::encode(*value, &mut body));
                if body.is_empty() {
                    continue;
                }
                (field, 2, body)
            }
            Node::Nested(field, nodes) => (field, 2, plain(nodes)),
        };
        varint::encode(u64::from(field << 3 | wire_type), &mut out);
        if wire_type == 2 {
            varint::encode(body.len() as u64, &mut out);
        }
        out.extend_from_slice(&body);
    }
    out
}

/// Decodes with the tree at hand to say which bytes are nested messages.
fn assert_decodes(bytes: &[u8], nodes: &[Node]) {
    let mut fields = Fields::new(bytes);
    for node in nodes {
        if matches!(node, Node::Packed(_, values) if values.is_empty()) {
            continue;
        }
        let found = fields.next().expect("a field is missing").expect("a field is malformed");
        match (node, found.value) {
            (Node::Varint(field, value), Value::Varint(found_value)) => {
                assert_eq!((found.number, found_value), (*field, *value));
            }
            (Node::Fixed32(field, value), Value::Fixed32(found_value)) => {
                assert_eq!((found.number, found_value), (*field, *value));
            }
            (Node::Fixed64(field, value), Value::Fixed64(found_value)) => {
                assert_eq!((found.number, found_value), (*field, *value));
            }
            (Node::Bytes(field, bytes), Value::Bytes(found_bytes)) => {
                assert_eq!((found.number, found_bytes), (*field, &bytes[..]));
            }
            (Node::Packed(field, values), Value::Bytes(found_bytes)) => {
                assert_eq!(found.number, *field);
                let found: Option<Vec<u64>> =
                    ferretto_protozero::read::PackedVarints::new(found_bytes).collect();
                assert_eq!(found.as_ref(), Some(values));
            }
            (Node::Nested(field, nodes), Value::Bytes(found_bytes)) => {
                assert_eq!(found.number, *field);
                assert_decodes(found_bytes, nodes);
            }
            (expected, found) => panic!("expected {expected:?}, found {found:?}"),
        }
    }
    assert_eq!(fields.next(), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn messages_cut_anywhere_and_patched_decode_to_the_same_tree(
        nodes in tree(),
        sizes in prop::collection::vec(prop_oneof![4usize..40, 4usize..400], 1..40),
    ) {
        let mut sink = RangeSink::new(sizes.iter().copied().cycle());
        write(&mut Message::new(&mut sink), &nodes);
        let ranges = sink.into_ranges();
        for (range, size) in ranges.iter().zip(sizes.iter().cycle()) {
            prop_assert!(range.bytes.len() <= *size);
            for patch in &range.patches {
                let at = patch.offset as usize;
                // Until it is patched, a length says nothing, so that a reader does not trust it.
                prop_assert_eq!(&range.bytes[at..at + 4], &[0; 4]);
            }
        }
        let whole: Vec<u8> = ranges.iter().flat_map(Range::patched).collect();
        assert_decodes(&whole, &nodes);
    }

    #[test]
    fn on_the_heap_lengths_are_minimal_or_four_bytes(nodes in tree()) {
        let mut bytes = Vec::new();
        write(&mut Message::new(&mut bytes), &nodes);
        assert_decodes(&bytes, &nodes);
        let plain = plain(&nodes);
        assert_decodes(&plain, &nodes);
        prop_assert!(bytes.len() >= plain.len());
        if plain.len() < 128 {
            prop_assert_eq!(bytes, plain);
        }
    }

    #[test]
    fn any_bytes_end_in_fields_or_in_one_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let found: Vec<_> = Fields::new(&bytes).collect();
        let errors = found.iter().filter(|field| field.is_err()).count();
        prop_assert!(errors <= 1 && found.len() <= bytes.len());
        prop_assert!(errors == 0 || found.last().is_some_and(Result::is_err));
    }

    #[test]
    fn a_cut_message_yields_its_whole_fields_first(nodes in tree(), cut: prop::sample::Index) {
        let bytes = plain(&nodes);
        let cut = cut.index(bytes.len() + 1);
        let whole: Vec<_> = Fields::new(&bytes).map(Result::unwrap).collect();
        let found: Vec<_> = Fields::new(&bytes[..cut]).filter_map(Result::ok).collect();
        prop_assert_eq!(&found[..], &whole[..found.len()]);
    }
}

#[test]
fn a_message_too_long_for_four_bytes_of_length_gets_more_on_the_heap() {
    let mut bytes = Vec::new();
    let mut message = Message::new(&mut bytes);
    let mut nested = message.nested(1);
    let block = vec![0; 1 << 24];
    for _ in 0..16 {
        nested.raw(&block);
    }
    nested.finish();
    message.finish();
    let (length, size) = varint::decode(&bytes[1..]).unwrap();
    assert_eq!((length, size, bytes.len()), (1 << 28, 5, (1 << 28) + 6));
}

#[test]
fn a_forgotten_message_keeps_its_length_open() {
    let mut bytes = Vec::new();
    let mut message = Message::new(&mut bytes);
    let mut nested = message.nested(1);
    nested.varint(1, 1);
    nested.forget();
    message.finish();
    assert_eq!(bytes, [0x0a, 0, 0, 0, 0, 0x08, 1]);
}
