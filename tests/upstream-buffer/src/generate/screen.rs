//! Programs for which upstream's answer is known to differ, or is no answer. They are not given to either.

use super::wire::{Field, Value, decode};

/// Why a program is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Excluded {
    /// A number field with a string in it: upstream takes the string's address for the number (field.h, `int_value_`), so
    /// that its answer depends on where the program lies in memory. Ours takes the largest number.
    AddressAsNumber,
    /// `PathComponent.index_register`: ours has it, v59.0 skips it as an unknown field.
    IndexRegister,
}

/// What a message of a program is.
#[derive(Clone, Copy)]
enum Message {
    Program,
    Instruction,
    Select,
    PathComponent,
    /// `reg_load` and `merge` alike have two numbers.
    TwoNumbers,
}

/// Does any of the program's messages, however it may be reached, have such a field?
pub(super) fn screen(program: &[u8]) -> Option<Excluded> {
    screen_message(Message::Program, program)
}

fn screen_message(message: Message, bytes: &[u8]) -> Option<Excluded> {
    decode(bytes).0.iter().find_map(|field| screen_field(message, field))
}

fn screen_field(message: Message, field: &Field) -> Option<Excluded> {
    let inner = match (message, field.id) {
        (Message::Program, 2) | (Message::Instruction, 7) => Message::Instruction,
        (Message::Instruction, 1) => Message::Select,
        (Message::Instruction, 2 | 3) => Message::TwoNumbers,
        (Message::Select, 2) => Message::PathComponent,
        (Message::PathComponent, 7) => return Some(Excluded::IndexRegister),
        (Message::Instruction, 6)
        | (Message::Select, 1 | 3)
        | (Message::PathComponent, 1..=6)
        | (Message::TwoNumbers, 1 | 2) => {
            return matches!(field.value, Value::Bytes(_)).then_some(Excluded::AddressAsNumber);
        }
        _ => return None,
    };
    match &field.value {
        Value::Bytes(body) => screen_message(inner, body),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_upstream_cannot_answer_is_left_out() {
        let cases: &[(&[u8], Option<Excluded>)] = &[
            (&[0x12, 0x02, 0x1a, 0x00], None),
            // A select whose cursor is a string.
            (&[0x12, 0x04, 0x0a, 0x02, 0x0a, 0x00], Some(Excluded::AddressAsNumber)),
            // A path component with the field 7.
            (&[0x12, 0x06, 0x0a, 0x04, 0x12, 0x02, 0x38, 0x01], Some(Excluded::IndexRegister)),
            // The same, nested in a merge.
            (
                &[0x12, 0x0a, 0x1a, 0x00, 0x3a, 0x06, 0x0a, 0x04, 0x12, 0x02, 0x38, 0x01],
                Some(Excluded::IndexRegister),
            ),
        ];
        for (program, expected) in cases {
            assert_eq!(screen(program), *expected, "{program:x?}");
        }
    }
}
