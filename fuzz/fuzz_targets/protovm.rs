//! Any program on any packets: errors or a state, in bounded time and within the memory limit.
#![no_main]

use ferretto_protos as protos;
use ferretto_protos::vm_instruction::Operation;
use ferretto_protos::vm_op_select::{PathComponent, path_component::Field as Step};
use ferretto_protovm::{ApplyError, Program, Vm};
use ferretto_protozero::Message as Writer;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use prost::Message as _;

/// Each may take [`ferretto_protovm::MAX_STEPS`] steps.
const MAX_PACKETS: usize = 4;
/// Deeper than a program may be, and far less than the stack takes.
const MAX_NESTING: u32 = 300;

#[derive(Arbitrary, Debug)]
struct Script {
    program: Bytes<Vec<Instruction>>,
    memory_limit: u16,
    initial_state: Option<Bytes<Vec<Field>>>,
    packets: Vec<Bytes<Vec<Field>>>,
}

#[derive(Arbitrary, Debug)]
enum Bytes<T> {
    Raw(Vec<u8>),
    Made(T),
}

#[derive(Arbitrary, Debug)]
struct Instruction {
    operation: Kind,
    abort_level: Option<u8>,
    nested: Vec<Instruction>,
}

#[derive(Arbitrary, Debug)]
enum Kind {
    Select { cursor: u8, path: Vec<Part>, create: bool },
    Load { cursor: u8, register: u8 },
    Merge { skip_submessages: bool, del_if_src_empty: bool },
    Set,
    Del,
    None,
}

#[derive(Arbitrary, Debug)]
enum Part {
    Field { id: u8, repeated: bool, store_index: Option<u8> },
    Index(u8),
    Key { field: u8, register: Option<u8> },
    Nothing,
}

/// Few numbers, so that programs and packets meet.
#[derive(Arbitrary, Debug)]
struct Field {
    id: u8,
    value: Value,
}

#[derive(Arbitrary, Debug)]
enum Value {
    Small(u8),
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(Vec<u8>),
    Message(Vec<Field>),
}

fuzz_target!(|script: Script| {
    let Ok(program) = Program::parse(&script.program.encoded()) else { return };
    let limit = usize::from(script.memory_limit);
    let program_size = program.memory_bytes();
    let mut vm = match &script.initial_state {
        Some(state) => Vm::with_state(program, limit, &state.encoded()),
        None => Vm::new(program, limit),
    };
    for packet in script.packets.iter().take(MAX_PACKETS) {
        let packet = packet.encoded();
        let concerns = vm.concerns(&packet, &mut 0);
        assert!(vm.may_concern(&packet) || !concerns);
        let result = vm.apply(&packet);
        assert!(concerns || result == Err(ApplyError::Failed));
        if let Err(error) = result {
            assert!(!error.to_string().is_empty());
        }
        assert!(vm.memory_usage_bytes() <= program_size + limit);
        check_state(&vm, limit);
    }
});

fn check_state(vm: &Vm, limit: usize) {
    let state = state_of(vm);
    assert!(state.len() <= limit, "the account is no less than what is stored");
    let mut clone = vm.clone_read_only();
    assert_eq!(state_of(&clone), state);
    assert_eq!(clone.apply(&[]), Err(ApplyError::ReadOnly));
    let again = Vm::with_state(vm.program().clone(), limit, &state);
    assert_eq!(state_of(&again), state, "a state that fits is a state to begin with");
}

fn state_of(vm: &Vm) -> Vec<u8> {
    let mut state = Vec::new();
    vm.serialize_state(&mut state);
    state
}

impl Bytes<Vec<Instruction>> {
    fn encoded(&self) -> Vec<u8> {
        match self {
            Self::Raw(bytes) => bytes.clone(),
            Self::Made(instructions) => {
                let instructions = instructions.iter().map(|one| one.message(MAX_NESTING)).collect();
                protos::VmProgram { instructions, ..Default::default() }.encode_to_vec()
            }
        }
    }
}

impl Instruction {
    fn message(&self, levels: u32) -> protos::VmInstruction {
        let nested = if levels == 0 { &[][..] } else { &self.nested };
        protos::VmInstruction {
            abort_level: self.abort_level.map(|level| i32::from(level % 5)),
            nested_instructions: nested.iter().map(|one| one.message(levels - 1)).collect(),
            operation: self.operation.message(),
        }
    }
}

impl Kind {
    fn message(&self) -> Option<Operation> {
        let cursor = |number: &u8| Some(i32::from(number % 5));
        Some(match self {
            Self::Select { cursor: number, path, create } => Operation::Select(protos::VmOpSelect {
                cursor: cursor(number),
                relative_path: path.iter().map(Part::message).collect(),
                create_if_not_exist: Some(*create),
            }),
            Self::Load { cursor: number, register: to } => Operation::RegLoad(protos::VmOpRegLoad {
                cursor: cursor(number),
                dst_register: Some(register(*to)),
            }),
            Self::Merge { skip_submessages, del_if_src_empty } => Operation::Merge(protos::VmOpMerge {
                skip_submessages: Some(*skip_submessages),
                del_if_src_empty: Some(*del_if_src_empty),
            }),
            Self::Set => Operation::Set(protos::VmOpSet {}),
            Self::Del => Operation::Del(protos::VmOpDel {}),
            Self::None => return None,
        })
    }
}

impl Part {
    fn message(&self) -> PathComponent {
        match self {
            Self::Field { id, repeated, store_index } => PathComponent {
                field: Some(Step::FieldId(number(*id))),
                is_repeated: Some(*repeated),
                store_foreach_index_into_register: store_index.map(register),
                ..Default::default()
            },
            Self::Index(index) => {
                PathComponent { field: Some(Step::ArrayIndex(u32::from(index % 8))), ..Default::default() }
            }
            Self::Key { field, register: from } => PathComponent {
                field: Some(Step::MapKeyFieldId(number(*field))),
                register_to_match: from.map(register),
                ..Default::default()
            },
            Self::Nothing => PathComponent::default(),
        }
    }
}

impl Bytes<Vec<Field>> {
    fn encoded(&self) -> Vec<u8> {
        match self {
            Self::Raw(bytes) => bytes.clone(),
            Self::Made(fields) => {
                let mut out = Vec::new();
                let mut message = Writer::new(&mut out);
                write(fields, &mut message, MAX_NESTING);
                drop(message);
                out
            }
        }
    }
}

fn write(fields: &[Field], message: &mut Writer<'_, Vec<u8>>, levels: u32) {
    for field in fields {
        let id = number(field.id);
        match &field.value {
            Value::Small(value) => message.varint(id, u64::from(value % 4)),
            Value::Varint(value) => message.varint(id, *value),
            Value::Fixed64(value) => message.fixed64(id, *value),
            Value::Fixed32(value) => message.fixed32(id, *value),
            Value::Bytes(bytes) => message.bytes(id, bytes),
            Value::Message(inner) if levels > 0 => write(inner, &mut message.nested(id), levels - 1),
            Value::Message(_) => {}
        }
    }
}

fn number(id: u8) -> u32 {
    u32::from(id % 4) + 1
}

/// One of the few that are used, or one that does not exist.
fn register(number: u8) -> u32 {
    if number < 250 { u32::from(number % 3) } else { u32::from(number) }
}
