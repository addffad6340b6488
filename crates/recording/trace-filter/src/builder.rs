//! Writes programs (upstream: filter_bytecode_generator.cc).

use std::collections::BTreeMap;

use ferretto_protozero::varint;

use crate::bytecode::{MAX_SEMANTIC_TYPE, OPCODE_BITS, checksum, opcode};

/// Protobuf's limit: 29 bits.
const MAX_FIELD_NUMBER: u32 = (1 << 29) - 1;

/// Writes the program of a filter: first the messages, then their fields. The first message is the root, which for a trace config is
/// `Trace`.
///
/// Fields may come in any order. What is wrong is said by [`build`](Self::build).
#[derive(Debug, Clone, Default)]
pub struct BytecodeBuilder {
    messages: Vec<BTreeMap<u32, Entry>>,
    error: Option<BuildError>,
}

/// A message of the builder that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageId(u32);

#[derive(Debug, Clone, Copy)]
enum Entry {
    Keep { count: u32 },
    String { semantic_type: u32 },
    Message(u32),
}

/// What goes into a trace config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// For the field of this name.
    pub bytecode_v2: Vec<u8>,
    /// For the field of this name; empty if no string has a semantic type. Services before v54 ignore it, and treat these strings as if
    /// they had none.
    pub bytecode_overlay_v54: Vec<u8>,
}

/// What cannot be written as a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum BuildError {
    #[error("a filter needs at least one message, the root")]
    NoMessage,
    #[error("message {message} is not of this builder")]
    UnknownMessage { message: u32 },
    #[error("{count} field(s) from {field} on: field numbers are 1 to {MAX_FIELD_NUMBER}")]
    FieldNumber { field: u32, count: u32 },
    #[error("field {field} of message {message} is there twice")]
    Duplicate { message: u32, field: u32 },
    #[error("semantic type {semantic_type} is above {MAX_SEMANTIC_TYPE}")]
    SemanticType { semantic_type: u32 },
}

impl BytecodeBuilder {
    /// Without messages.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message, of which no field is kept yet.
    pub fn message(&mut self) -> MessageId {
        self.messages.push(BTreeMap::new());
        MessageId((self.messages.len() - 1) as u32)
    }

    /// Keeps a field: a number, a string, bytes, or a message with all that is in it.
    pub fn keep(&mut self, message: MessageId, field: u32) -> &mut Self {
        self.keep_range(message, field, 1)
    }

    /// Keeps so many fields, from `field` on.
    pub fn keep_range(&mut self, message: MessageId, field: u32, count: u32) -> &mut Self {
        self.add(message, field, Entry::Keep { count })
    }

    /// Keeps a string after the rules for strings of this semantic type; 0 stands for none.
    pub fn string(&mut self, message: MessageId, field: u32, semantic_type: u32) -> &mut Self {
        if semantic_type > MAX_SEMANTIC_TYPE {
            self.fail(BuildError::SemanticType { semantic_type });
        }
        self.add(message, field, Entry::String { semantic_type })
    }

    /// Keeps a field that holds a message, and of that what `inner` says. A message may be named several times, and within itself.
    pub fn nested(&mut self, message: MessageId, field: u32, inner: MessageId) -> &mut Self {
        if inner.0 as usize >= self.messages.len() {
            self.fail(BuildError::UnknownMessage { message: inner.0 });
        }
        self.add(message, field, Entry::Message(inner.0))
    }

    fn fail(&mut self, error: BuildError) {
        self.error.get_or_insert(error);
    }

    fn add(&mut self, message: MessageId, field: u32, entry: Entry) -> &mut Self {
        let count = if let Entry::Keep { count } = entry { count } else { 1 };
        let last = count.checked_sub(1).and_then(|more| field.checked_add(more));
        let Some(last) = last.filter(|last| field > 0 && *last <= MAX_FIELD_NUMBER) else {
            self.fail(BuildError::FieldNumber { field, count });
            return self;
        };
        let Some(fields) = self.messages.get_mut(message.0 as usize) else {
            self.fail(BuildError::UnknownMessage { message: message.0 });
            return self;
        };
        let before = fields.range(..=last).next_back();
        if let Some((&before, entry)) = before {
            let count = if let Entry::Keep { count } = entry { *count } else { 1 };
            if before + (count - 1) >= field {
                self.fail(BuildError::Duplicate { message: message.0, field: field.max(before) });
                return self;
            }
        }
        fields.insert(field, entry);
        self
    }

    /// The program.
    pub fn build(&self) -> Result<Built, BuildError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        if self.messages.is_empty() {
            return Err(BuildError::NoMessage);
        }
        let (mut words, mut overlay) = (Vec::new(), Vec::new());
        for (index, fields) in (0..).zip(&self.messages) {
            for (&field, &entry) in fields {
                let word = |opcode| field << OPCODE_BITS | opcode;
                match entry {
                    Entry::Keep { count: 1 } => words.push(word(opcode::KEEP)),
                    Entry::Keep { count } => words.extend([word(opcode::KEEP_RANGE), count]),
                    Entry::Message(inner) => words.extend([word(opcode::MESSAGE), inner]),
                    Entry::String { semantic_type } => {
                        words.push(word(opcode::STRING));
                        if semantic_type > 0 {
                            overlay.extend([index, word(opcode::TYPED_STRING), semantic_type]);
                        }
                    }
                }
            }
            words.push(opcode::END);
        }
        let bytecode_overlay_v54 = if overlay.is_empty() { Vec::new() } else { assemble(&overlay) };
        Ok(Built { bytecode_v2: assemble(&words), bytecode_overlay_v54 })
    }
}

/// Words as bytes with their checksum: a program by hand.
#[must_use]
pub fn assemble(words: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in words.iter().copied().chain([checksum(words)]) {
        varint::encode(word.into(), &mut bytes);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytecode::{Bytecode, Verdict};

    #[test]
    fn what_is_built_is_read_the_same() {
        let mut builder = BytecodeBuilder::new();
        let (root, inner) = (builder.message(), builder.message());
        builder.string(inner, 300, 7).string(inner, 1, 0).keep(inner, 2).nested(inner, 3, inner);
        builder.keep_range(root, 120, 20).nested(root, 1, inner);
        let built = builder.build().unwrap();
        let program = Bytecode::parse(&built.bytecode_v2, &built.bytecode_overlay_v54).unwrap();
        for (message, field, expected) in [
            (0, 1, Verdict::Message(1)),
            (0, 119, Verdict::Drop),
            (0, 120, Verdict::Keep),
            (0, 139, Verdict::Keep),
            (0, 140, Verdict::Drop),
            (1, 1, Verdict::String { semantic_type: 0 }),
            (1, 2, Verdict::Keep),
            (1, 3, Verdict::Message(1)),
            (1, 300, Verdict::String { semantic_type: 7 }),
        ] {
            assert_eq!(program.verdict(message, field), expected, "field {field} of message {message}");
        }
        let old = Bytecode::parse(&built.bytecode_v2, &[]).unwrap();
        assert_eq!(old.verdict(1, 300), Verdict::String { semantic_type: 0 });
    }

    #[test]
    fn what_cannot_be_built_is_said() {
        let check = |build: fn(&mut BytecodeBuilder, MessageId), expected: BuildError| {
            let mut builder = BytecodeBuilder::new();
            let root = builder.message();
            build(&mut builder, root);
            assert_eq!(builder.build(), Err(expected));
        };
        let twice = |field| BuildError::Duplicate { message: 0, field };
        check(|it, root| _ = it.keep(root, 5).string(root, 5, 0), twice(5));
        check(|it, root| _ = it.keep_range(root, 5, 3).keep(root, 7), twice(7));
        check(|it, root| _ = it.keep(root, 7).keep_range(root, 5, 3), twice(7));
        check(|it, root| _ = it.keep(root, 0), BuildError::FieldNumber { field: 0, count: 1 });
        check(|it, root| _ = it.keep_range(root, 3, 0), BuildError::FieldNumber { field: 3, count: 0 });
        check(
            |it, root| _ = it.keep_range(root, MAX_FIELD_NUMBER, 2),
            BuildError::FieldNumber { field: MAX_FIELD_NUMBER, count: 2 },
        );
        check(|it, root| _ = it.nested(root, 1, MessageId(1)), BuildError::UnknownMessage { message: 1 });
        check(|it, _| _ = it.keep(MessageId(3), 1), BuildError::UnknownMessage { message: 3 });
        check(
            |it, root| _ = it.string(root, 1, 1 << 16),
            BuildError::SemanticType { semantic_type: 1 << 16 },
        );
        assert_eq!(BytecodeBuilder::new().build(), Err(BuildError::NoMessage));
    }
}
