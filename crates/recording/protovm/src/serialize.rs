//! Encodes the state.

use ferretto_protozero::{Sink, varint};

use crate::tree::{Content, NodeId, Tree};
use crate::wire::Encoding;

pub(crate) fn serialize(tree: &Tree, out: &mut Vec<u8>) {
    match tree.content(NodeId::ROOT) {
        Content::Bytes(bytes) => out.extend_from_slice(bytes),
        Content::Message(_) => message(tree, NodeId::ROOT, out),
        // A number alone, which a set of the root leaves, is no message.
        Content::Empty | Content::Scalar(_) | Content::Indexed(_) | Content::Mapped(_) => {}
    }
}

fn message(tree: &Tree, id: NodeId, out: &mut Vec<u8>) {
    for (number, node) in tree.content(id).map().into_iter().flat_map(|map| map.iter()) {
        field(tree, number as u32, node, out);
    }
}

fn field(tree: &Tree, number: u32, id: NodeId, out: &mut Vec<u8>) {
    match tree.content(id) {
        Content::Empty => {}
        Content::Scalar(scalar) => match scalar.encoding {
            Encoding::Varint => {
                tag(number, 0, out);
                varint::encode(scalar.value, out);
            }
            Encoding::Fixed32 => {
                tag(number, 5, out);
                out.extend_from_slice(&(scalar.value as u32).to_le_bytes());
            }
            Encoding::Fixed64 => {
                tag(number, 1, out);
                out.extend_from_slice(&scalar.value.to_le_bytes());
            }
        },
        Content::Bytes(bytes) => {
            tag(number, 2, out);
            varint::encode(bytes.len() as u64, out);
            out.extend_from_slice(bytes);
        }
        Content::Message(_) => {
            tag(number, 2, out);
            let len = out.reserve_len();
            message(tree, id, out);
            out.close_len(len);
        }
        Content::Indexed(elements) | Content::Mapped(elements) => {
            for (_, element) in elements.iter() {
                field(tree, number, element, out);
            }
        }
    }
}

/// A program may select fields whose numbers do not fit into a tag; upstream cuts off the upper bits.
fn tag(number: u32, wire_type: u32, out: &mut Vec<u8>) {
    varint::encode(u64::from(number << 3 | wire_type), out);
}
