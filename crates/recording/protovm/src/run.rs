//! Runs a program's instructions.

use crate::abort::{AbortReason, ApplyError, Step, Stop};
use crate::destination::{Destination, MergeFlags};
use crate::program::{Block, Component, Cursor, Instruction, OnError, Operation, Program, Select};
use crate::tree::{NodeId, Tree};
use crate::wire::{Fields, Value};

/// The most steps for one packet: instructions, steps of paths, elements iterated over, fields looked at.
///
/// Generous: a packet of a megabyte has less than half as many fields. At some ten nanoseconds each this stops
/// a program that iterates over its state for each element of a packet after some tens of milliseconds.
pub const MAX_STEPS: u64 = 1 << 22;

const NUM_REGISTERS: usize = 32;

/// What registers hold; they keep it from packet to packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registers([Option<u64>; NUM_REGISTERS]);

impl Registers {
    fn read(&self, register: u8) -> Step<u64> {
        let place = self.0.get(usize::from(register)).ok_or(AbortReason::NoSuchRegister(register))?;
        Ok(place.ok_or(AbortReason::EmptyRegister(register))?)
    }

    fn place(&mut self, register: u8) -> Step<&mut Option<u64>> {
        Ok(self.0.get_mut(usize::from(register)).ok_or(AbortReason::NoSuchRegister(register))?)
    }
}

/// Runs `program` on `packet`.
pub(crate) fn run(
    program: &Program,
    registers: &mut Registers,
    tree: &mut Tree,
    packet: &[u8],
    max_steps: u64,
) -> Result<(), ApplyError> {
    (tree.steps, tree.max_steps) = (0, max_steps);
    let mut runner = Runner { program, registers, tree, path: Vec::new() };
    let mut cursors = Cursors { src: Value::Bytes(packet), dst: Destination::ROOT, outer_node: None };
    match runner.instructions(program.instructions(), &mut cursors) {
        Ok(()) => Ok(()),
        Err(Stop::Failed) => Err(ApplyError::Failed),
        Err(Stop::Abort(reason)) => {
            let mut path = runner.path;
            path.reverse();
            Err(ApplyError::Aborted { reason: *reason, path })
        }
    }
}

/// Where an instruction works.
#[derive(Clone, Copy)]
struct Cursors<'p> {
    src: Value<'p>,
    dst: Destination,
    /// The node that the innermost select goes back to: it must not be deleted.
    outer_node: Option<NodeId>,
}

struct Runner<'a> {
    program: &'a Program,
    registers: &'a mut Registers,
    tree: &'a mut Tree,
    /// Where it aborted, innermost first.
    path: Vec<usize>,
}

impl<'p> Runner<'_> {
    fn step(&mut self) -> Step {
        self.tree.spend(1)
    }

    fn instructions(&mut self, instructions: Block<'_>, cursors: &mut Cursors<'p>) -> Step {
        for (index, (instruction, nested)) in instructions.enumerate() {
            if let Err(stop) = self.instruction(instruction, nested, cursors) {
                self.stopped(stop, instruction.on_error, index)?;
            }
        }
        Ok(())
    }

    /// An instruction stopped, the one with this index: is that the end of more?
    fn stopped(&mut self, stop: Stop, on_error: OnError, index: usize) -> Step {
        let stop = match (stop, on_error) {
            (Stop::Failed, OnError::Skip) => return Ok(()),
            (Stop::Failed, OnError::Abort) => AbortReason::AbortLevel.into(),
            (stop, _) => stop,
        };
        if matches!(stop, Stop::Abort(_)) {
            self.path.push(index);
        }
        Err(stop)
    }

    fn instruction(
        &mut self,
        instruction: &Instruction,
        nested: Block<'_>,
        cursors: &mut Cursors<'p>,
    ) -> Step {
        self.step()?;
        match &instruction.operation {
            Operation::Select(select) => return self.select(select, nested, *cursors),
            Operation::RegLoad { cursor, register } => self.load(*cursor, *register, cursors)?,
            Operation::Merge { skip_submessages, del_if_src_empty } => {
                let flags =
                    MergeFlags { skip_submessages: *skip_submessages, del_if_src_empty: *del_if_src_empty };
                cursors.dst.merge(self.tree, message(cursors.src)?, flags)?;
            }
            Operation::Set => cursors.dst.set(self.tree, cursors.src)?,
            Operation::Del => self.delete(cursors)?,
            Operation::Unknown => return Err(AbortReason::UnknownOperation.into()),
        }
        self.instructions(nested, cursors)
    }

    fn load(&mut self, cursor: Cursor, register: u8, cursors: &Cursors<'p>) -> Step {
        let place = self.registers.place(register)?;
        let value = match (cursor, cursors.src) {
            (Cursor::Src, Value::Scalar(scalar)) => scalar.value,
            (Cursor::Src, Value::Bytes(_)) => return Err(wrong_kind("a number", "bytes").into()),
            (Cursor::Dst | Cursor::Both, _) => cursors.dst.scalar(self.tree)?.value,
        };
        *place = Some(value);
        Ok(())
    }

    fn delete(&mut self, cursors: &mut Cursors<'p>) -> Step {
        let is_root = cursors.dst.is_root()?;
        if !is_root && cursors.outer_node.is_some() && cursors.outer_node == cursors.dst.node_here() {
            return Err(AbortReason::DeleteSelected.into());
        }
        cursors.dst.delete(self.tree)
    }

    /// The cursors are a copy: when the select ends they are where they were.
    fn select(&mut self, select: &Select, nested: Block<'_>, mut cursors: Cursors<'p>) -> Step {
        if select.cursor == Cursor::Src && select.create {
            return Err(AbortReason::CreateInSource.into());
        }
        cursors.outer_node = cursors.dst.node_here();
        self.descend(select, self.program.path(select), nested, &mut cursors)
    }

    fn descend(
        &mut self,
        select: &Select,
        mut path: &[Component],
        nested: Block<'_>,
        cursors: &mut Cursors<'p>,
    ) -> Step {
        while let Some((component, rest)) = path.split_first() {
            self.step()?;
            let field = component.field_id.ok_or(AbortReason::NoFieldId)?;
            if component.is_repeated {
                return self.for_each(select, component, field, rest, nested, cursors);
            }
            path = match rest.split_first() {
                Some((&Component { array_index: Some(index), .. }, rest)) => {
                    self.enter_index(select, field, index, cursors)?;
                    rest
                }
                Some((key @ &Component { map_key_field_id: Some(key_field), .. }, rest)) => {
                    let register = key.register_to_match.ok_or(AbortReason::NoKeyRegister)?;
                    // Upstream takes keys for 32 bits wide.
                    let value = u64::from(self.registers.read(register)? as u32);
                    self.enter_key(select, field, key_field, value, cursors)?;
                    rest
                }
                _ => {
                    self.enter_field(select, field, cursors)?;
                    rest
                }
            };
        }
        self.instructions(nested, cursors)
    }

    fn for_each(
        &mut self,
        select: &Select,
        component: &Component,
        field: u32,
        rest: &[Component],
        nested: Block<'_>,
        cursors: &mut Cursors<'p>,
    ) -> Step {
        match select.cursor {
            Cursor::Src => {
                let mut elements = Fields::new(message(cursors.src)?).only(field);
                for (index, (looked_at, element)) in elements.by_ref().enumerate() {
                    self.tree.steps += looked_at;
                    self.step()?;
                    self.store_index(component, index as u64)?;
                    cursors.src = element;
                    self.descend(select, rest, nested, cursors)?;
                }
                self.tree.steps += elements.looked_at();
            }
            Cursor::Dst => {
                let Some(repeated) = cursors.dst.repeated_field(self.tree, field)? else { return Ok(()) };
                let (mut key, mut index) = (None, 0);
                // Nothing below an element can change the field that it is an element of.
                while let Some((next, element)) =
                    self.tree.content(repeated).map().and_then(|elements| elements.next_after(key))
                {
                    self.step()?;
                    self.store_index(component, index)?;
                    cursors.dst = Destination::element(element);
                    self.descend(select, rest, nested, cursors)?;
                    (key, index) = (Some(next), index + 1);
                }
            }
            Cursor::Both => return Err(AbortReason::IterateBoth.into()),
        }
        Ok(())
    }

    /// `store_foreach_index_into_register`, which upstream reads but does not implement.
    fn store_index(&mut self, component: &Component, index: u64) -> Step {
        if let Some(register) = component.index_register {
            *self.registers.place(register)? = Some(index);
        }
        Ok(())
    }

    fn enter_field(&mut self, select: &Select, field: u32, cursors: &mut Cursors<'p>) -> Step {
        if select.cursor == Cursor::Src {
            cursors.src = self.find(cursors.src, field, 0)?;
            return Ok(());
        }
        self.must_exist(select, field, cursors)?;
        cursors.dst.enter_field(self.tree, field)
    }

    fn enter_index(&mut self, select: &Select, field: u32, index: u32, cursors: &mut Cursors<'p>) -> Step {
        if select.cursor != Cursor::Src {
            return cursors.dst.enter_index(self.tree, field, index);
        }
        // Upstream takes a number selected by index for a message without fields.
        cursors.src = match self.find(cursors.src, field, index)? {
            bytes @ Value::Bytes(_) => bytes,
            Value::Scalar(_) => Value::Bytes(&[]),
        };
        Ok(())
    }

    fn enter_key(
        &mut self,
        select: &Select,
        field: u32,
        key_field: u32,
        key: u64,
        cursors: &mut Cursors<'p>,
    ) -> Step {
        if select.cursor == Cursor::Src {
            return Err(AbortReason::KeyInSource.into());
        }
        self.must_exist(select, field, cursors)?;
        cursors.dst.enter_key(self.tree, field, key_field, key)
    }

    fn must_exist(&mut self, select: &Select, field: u32, cursors: &Cursors<'p>) -> Step {
        // Entering creates it then, and finds everything else that can be wrong.
        if select.create || cursors.dst.has_field(self.tree, field)? { Ok(()) } else { Err(Stop::Failed) }
    }

    /// The value of the `index`th field with this number.
    fn find(&mut self, src: Value<'p>, field: u32, index: u32) -> Step<Value<'p>> {
        let mut elements = Fields::new(message(src)?).only(field);
        let mut left = index;
        loop {
            let Some((looked_at, value)) = elements.next() else {
                self.tree.steps += elements.looked_at();
                return Err(Stop::Failed);
            };
            self.tree.steps += looked_at;
            if left == 0 {
                return Ok(value);
            }
            left -= 1;
        }
    }
}

fn message(value: Value<'_>) -> Step<&[u8]> {
    match value {
        Value::Bytes(bytes) => Ok(bytes),
        Value::Scalar(_) => Err(wrong_kind("a message", "a number").into()),
    }
}

const fn wrong_kind(wanted: &'static str, found: &'static str) -> AbortReason {
    AbortReason::WrongKind { wanted, found }
}
