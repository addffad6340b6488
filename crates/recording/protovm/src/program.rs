//! A program, parsed once.

use crate::wire::{Fields, Value};

/// The most instructions and path components together that a program may have. Real ones have hundreds.
pub const MAX_PROGRAM_SIZE: usize = 1 << 16;

/// The most levels of a program: nested instructions, and the path components on the way to them. It bounds
/// how deep the state can get, and the stack that running a program takes.
///
/// A compiled recursive merge takes four for each level of the messages it merges.
pub const MAX_DEPTH: usize = 256;

/// A `VmProgram`, checked against the bounds.
///
/// Malformed parts are no error: as upstream reads it, a message ends where it is malformed, and an
/// instruction without a known operation aborts the program once it is reached.
#[derive(Clone, Debug)]
pub struct Program {
    /// Each before those within it, so that they take no more than their own size: two bytes of a program may be an instruction.
    instructions: Box<[Instruction]>,
    /// The paths of all selects.
    components: Box<[Component]>,
    bytes: Box<[u8]>,
    /// With a packet that has none of these fields the program fails before it does anything. `None` if there are no such fields.
    first_fields: Option<Box<[u32]>>,
}

/// Why a program cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// It has more than [`MAX_PROGRAM_SIZE`] instructions and path components.
    #[error(
        "the program has more than {MAX_PROGRAM_SIZE} instructions and path components; merge fewer fields, or split it"
    )]
    TooLong,
    /// It goes deeper than [`MAX_DEPTH`].
    #[error(
        "the program is nested more than {MAX_DEPTH} levels deep (instructions and path components); merge fewer levels"
    )]
    TooDeep,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Instruction {
    pub(crate) operation: Operation,
    pub(crate) on_error: OnError,
    /// How many of the instructions after it are within it.
    inner: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Select(Select),
    RegLoad { cursor: Cursor, register: u8 },
    Merge { skip_submessages: bool, del_if_src_empty: bool },
    Set,
    Del,
    Unknown,
}

/// What happens when an instruction fails without aborting: its `abort_level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnError {
    Skip,
    BreakOuter,
    Abort,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Select {
    pub(crate) cursor: Cursor,
    pub(crate) create: bool,
    /// Its path among the program's components. It is no longer than [`MAX_DEPTH`].
    path_start: u32,
    path_len: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cursor {
    Src,
    Dst,
    /// `VM_CURSOR_BOTH`, and whatever upstream does not know: moves like the destination, but cannot iterate.
    Both,
}

/// One step of a path. Which of the numbers counts depends on where it stands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Component {
    pub(crate) field_id: Option<u32>,
    pub(crate) array_index: Option<u32>,
    pub(crate) map_key_field_id: Option<u32>,
    pub(crate) is_repeated: bool,
    pub(crate) register_to_match: Option<u8>,
    pub(crate) index_register: Option<u8>,
}

impl Program {
    /// Parses an encoded `VmProgram`.
    ///
    /// # Errors
    ///
    /// If the program exceeds a bound.
    pub fn parse(bytes: &[u8]) -> Result<Self, ProgramError> {
        let mut parser = Parser::default();
        for (id, value) in Fields::new(bytes) {
            if id == 2 {
                parser.instruction(bytes_of(value), 1)?;
            }
        }
        let (instructions, components) = (parser.instructions.into(), parser.components.into());
        let mut program = Self { instructions, components, bytes: bytes.into(), first_fields: None };
        program.first_fields = first_fields(&program);
        Ok(program)
    }

    /// The outermost instructions, with all that is within them.
    pub(crate) fn instructions(&self) -> Block<'_> {
        Block(&self.instructions)
    }

    pub(crate) fn path(&self, select: &Select) -> &[Component] {
        let start = select.path_start as usize;
        self.components.get(start..start + usize::from(select.path_len)).unwrap_or_default()
    }

    /// The bytes of memory that it takes: in most programs some ten for each of the encoded ones.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.instructions) + size_of_val(&*self.components) + self.bytes.len()
    }

    /// False if the program would certainly fail, and change nothing. Counts the fields that were looked at.
    pub(crate) fn concerns(&self, packet: &[u8], looked_at: &mut u64) -> bool {
        let Some(wanted) = &self.first_fields else { return true };
        let mut fields = Fields::new(packet);
        let concerns = fields.any(|(field, _)| wanted.contains(&field));
        *looked_at += fields.take_looked_at();
        concerns
    }

    /// False if no packet in these bytes can concern the program.
    pub(crate) fn may_concern(&self, bytes: &[u8]) -> bool {
        let Some(wanted) = &self.first_fields else { return true };
        wanted.iter().any(|&field| may_have(bytes, field))
    }

    /// The program as it was given to [`parse`](Self::parse).
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// All fields of a packet are compared with each: programs that begin with more selects are just run. Compilers make one for each kind of
/// packet.
const MAX_FIRST_FIELDS: usize = 8;

/// What a program looks for in a packet before all else, if it does nothing without: as compilers make them, programs begin with selects.
fn first_fields(program: &Program) -> Option<Box<[u32]>> {
    let outermost = || program.instructions().map(|(instruction, _)| instruction);
    let has_too_many = outermost().nth(MAX_FIRST_FIELDS).is_some();
    if has_too_many || !outermost().any(|instruction| instruction.on_error == OnError::BreakOuter) {
        return None;
    }
    outermost().map(|instruction| instruction.first_field(program)).collect()
}

/// Whether the first two bytes of a field's tag are anywhere in the bytes. It looks at sixteen bytes at a time, where a walk looks at a
/// field.
fn may_have(bytes: &[u8], field: u32) -> bool {
    const MORE_FOLLOWS: u8 = 0x80;
    // Below this number the tag is a single byte, of which any packet has many.
    const FIRST_WITH_TWO_BYTES: u32 = 16;
    // The bytes looked at before the next decision: enough to be quick, few enough to end early.
    const BLOCK_BYTES: usize = 256;
    if field < FIRST_WITH_TWO_BYTES {
        return true;
    }
    // Three bits of the first byte are the wire type; the last bit of the second says whether a third follows.
    let first = MORE_FOLLOWS | ((field & 0xf) << 3) as u8;
    let second = (field >> 4 & 0x7f) as u8;
    let Some(following) = bytes.get(1..) else { return false };
    bytes.chunks(BLOCK_BYTES).zip(following.chunks(BLOCK_BYTES)).any(|(bytes, following)| {
        let pairs = bytes.iter().zip(following);
        // Zero if both are as wanted: bytes without branches are what compilers make wide instructions of.
        let least =
            pairs.fold(u8::MAX, |least, (a, b)| least.min((a & !7 ^ first) | (b & !MORE_FOLLOWS ^ second)));
        least == 0
    })
}

/// Instructions, one after the other, each with those within it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a>(&'a [Instruction]);

impl<'a> Iterator for Block<'a> {
    type Item = (&'a Instruction, Self);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (first, rest) = self.0.split_first()?;
        let (inner, after) = rest.split_at_checked(first.inner as usize)?;
        self.0 = after;
        Some((first, Self(inner)))
    }
}

impl Instruction {
    /// The field of the packet without which the instruction fails, and does nothing but that.
    fn first_field(&self, program: &Program) -> Option<u32> {
        let Operation::Select(select @ Select { cursor: Cursor::Src, create: false, .. }) = &self.operation
        else {
            return None;
        };
        let path = program.path(select);
        let (first, rest) = path.split_first()?;
        let by_key = rest.first().is_some_and(|next| next.map_key_field_id.is_some());
        let fails = !first.is_repeated && !by_key && self.on_error != OnError::Abort;
        first.field_id.filter(|_| fails)
    }
}

/// Counts what it parses. The last one of a field's values counts, as everywhere in protobuf.
#[derive(Default)]
struct Parser {
    instructions: Vec<Instruction>,
    components: Vec<Component>,
}

impl Parser {
    /// There is to be one more, at this depth.
    fn check(&self, depth: usize) -> Result<(), ProgramError> {
        if self.instructions.len() + self.components.len() >= MAX_PROGRAM_SIZE {
            return Err(ProgramError::TooLong);
        }
        if depth > MAX_DEPTH { Err(ProgramError::TooDeep) } else { Ok(()) }
    }

    fn instruction(&mut self, message: &[u8], depth: usize) -> Result<(), ProgramError> {
        self.check(depth)?;
        let mut operations: [Option<&[u8]>; 5] = [None; 5];
        let mut on_error = OnError::BreakOuter;
        let mut has_inner = false;
        for (id, value) in Fields::new(message) {
            match id {
                1..=5 => {
                    if let Some(operation) = operations.get_mut(id as usize - 1) {
                        *operation = Some(bytes_of(value));
                    }
                }
                6 => on_error = on_error_of(number_of(value)),
                7 => has_inner = true,
                _ => {}
            }
        }
        let at = self.instructions.len();
        self.instructions.push(Instruction { operation: Operation::Unknown, on_error, inner: 0 });
        let operation = self.operation(operations, depth)?;
        if has_inner {
            self.inner_instructions(message, depth + operation.depth() + 1)?;
        }
        let inner = (self.instructions.len() - at - 1) as u32;
        if let Some(instruction) = self.instructions.get_mut(at) {
            (instruction.operation, instruction.inner) = (operation, inner);
        }
        Ok(())
    }

    fn inner_instructions(&mut self, message: &[u8], depth: usize) -> Result<(), ProgramError> {
        for (id, value) in Fields::new(message) {
            if id == 7 {
                self.instruction(bytes_of(value), depth)?;
            }
        }
        Ok(())
    }

    /// If a message has several operations, this is the order in which upstream looks for them (parser.cc,
    /// `ParseInstruction`).
    fn operation(&mut self, found: [Option<&[u8]>; 5], depth: usize) -> Result<Operation, ProgramError> {
        Ok(match found {
            [Some(select), ..] => Operation::Select(self.select(select, depth)?),
            [_, Some(reg_load), ..] => parse_reg_load(reg_load),
            [.., Some(_del)] => Operation::Del,
            [_, _, Some(merge), ..] => parse_merge(merge),
            [_, _, _, Some(_set), _] => Operation::Set,
            _ => Operation::Unknown,
        })
    }

    fn select(&mut self, message: &[u8], depth: usize) -> Result<Select, ProgramError> {
        let start = self.components.len();
        let (mut cursor, mut create) = (Cursor::Src, false);
        for (id, value) in Fields::new(message) {
            match id {
                1 => cursor = cursor_of(number_of(value)),
                2 => {
                    self.check(depth + self.components.len() - start + 1)?;
                    self.components.push(parse_component(bytes_of(value)));
                }
                3 => create = number_of(value) != 0,
                _ => {}
            }
        }
        let path_len = (self.components.len() - start) as u16;
        Ok(Select { cursor, create, path_start: start as u32, path_len })
    }
}

impl Operation {
    /// How many levels it adds.
    fn depth(&self) -> usize {
        match self {
            Self::Select(select) => usize::from(select.path_len),
            _ => 0,
        }
    }
}

fn parse_reg_load(message: &[u8]) -> Operation {
    let (mut cursor, mut register) = (Cursor::Src, 0);
    for (id, value) in Fields::new(message) {
        match id {
            1 => cursor = cursor_of(number_of(value)),
            2 => register = register_of(value),
            _ => {}
        }
    }
    Operation::RegLoad { cursor, register }
}

fn parse_merge(message: &[u8]) -> Operation {
    let (mut skip_submessages, mut del_if_src_empty) = (false, false);
    for (id, value) in Fields::new(message) {
        match id {
            1 => skip_submessages = number_of(value) != 0,
            2 => del_if_src_empty = number_of(value) != 0,
            _ => {}
        }
    }
    Operation::Merge { skip_submessages, del_if_src_empty }
}

fn parse_component(message: &[u8]) -> Component {
    let mut component = Component::default();
    for (id, value) in Fields::new(message) {
        let number = number_of(value) as u32;
        match id {
            1 => component.field_id = Some(number),
            2 => component.array_index = Some(number),
            3 => component.map_key_field_id = Some(number),
            5 => component.is_repeated = number_of(value) != 0,
            6 => component.register_to_match = Some(register_of(value)),
            7 => component.index_register = Some(register_of(value)),
            _ => {}
        }
    }
    component
}

fn on_error_of(number: u64) -> OnError {
    match number as u32 {
        2 => OnError::BreakOuter,
        3 => OnError::Abort,
        _ => OnError::Skip,
    }
}

fn cursor_of(number: u64) -> Cursor {
    match number as u32 {
        1 => Cursor::Src,
        2 => Cursor::Dst,
        _ => Cursor::Both,
    }
}

/// Upstream takes the lowest eight bits, so that register 256 is register 0.
fn register_of(value: Value<'_>) -> u8 {
    number_of(value) as u8
}

/// A message field with a number in it is an empty message.
fn bytes_of(value: Value<'_>) -> &[u8] {
    match value {
        Value::Bytes(bytes) => bytes,
        Value::Scalar(_) => &[],
    }
}

/// A number field with bytes in it is something for upstream (it takes their address), so it counts as set.
fn number_of(value: Value<'_>) -> u64 {
    value.number().unwrap_or(u64::MAX)
}
