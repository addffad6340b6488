//! The public type.

use std::sync::Arc;

use bytes::Bytes;

use crate::abort::ApplyError;
use crate::destination::Destination;
use crate::program::Program;
use crate::run::{self, Registers};
use crate::serialize;
use crate::tree::Tree;
use crate::wire::Value;

/// A program and the state that it folds packets into.
#[derive(Debug)]
pub struct Vm {
    program: Arc<Program>,
    state: State,
}

#[derive(Debug)]
enum State {
    Live { registers: Box<Registers>, tree: Tree },
    ReadOnly(Bytes),
}

impl Vm {
    /// A VM with an empty state that may take up to `memory_limit_bytes`. Several may share a program.
    #[must_use]
    pub fn new(program: impl Into<Arc<Program>>, memory_limit_bytes: usize) -> Self {
        Self {
            program: program.into(),
            state: State::Live { registers: Box::default(), tree: Tree::new(memory_limit_bytes) },
        }
    }

    /// A VM that begins with an encoded message as its state. If that exceeds the limit the state is empty.
    #[must_use]
    pub fn with_state(program: impl Into<Arc<Program>>, memory_limit_bytes: usize, state: &[u8]) -> Self {
        let mut vm = Self::new(program, memory_limit_bytes);
        if let State::Live { tree, .. } = &mut vm.state {
            // Fails for want of memory only, and upstream goes on, too.
            let _too_large = Destination::ROOT.set(tree, Value::Bytes(state));
        }
        vm
    }

    /// Runs the program with `packet`, an encoded message, as the source.
    ///
    /// Takes at most [`MAX_STEPS`](crate::MAX_STEPS) steps, whatever program, packet and state are.
    ///
    /// # Errors
    ///
    /// If the program ended early. What it did before stays done.
    pub fn apply(&mut self, packet: &[u8]) -> Result<(), ApplyError> {
        self.apply_within(packet, run::MAX_STEPS)
    }

    /// The same, with another bound for the steps.
    ///
    /// # Errors
    ///
    /// As those of [`apply`](Self::apply).
    pub fn apply_within(&mut self, packet: &[u8], max_steps: u64) -> Result<(), ApplyError> {
        match &mut self.state {
            State::Live { registers, tree } => run::run(&self.program, registers, tree, packet, max_steps),
            State::ReadOnly(_) => Err(ApplyError::ReadOnly),
        }
    }

    /// Whether it makes a difference to [`apply`](Self::apply) the packet. If not, the program would fail at once, and change nothing.
    ///
    /// Much cheaper than applying it, for a program that begins with a look for a field that few packets have; `looked_at` grows by the
    /// fields that were looked at.
    #[must_use]
    pub fn concerns(&self, packet: &[u8], looked_at: &mut u64) -> bool {
        self.program.concerns(packet, looked_at)
    }

    /// Whether there may be packets among these bytes that concern the program: a quick look at many packets at once, with whatever is
    /// between them. False only if [`concerns`](Self::concerns) is false for each.
    #[must_use]
    pub fn may_concern(&self, bytes: &[u8]) -> bool {
        self.program.may_concern(bytes)
    }

    /// The steps that the program took for the last packet.
    #[must_use]
    pub const fn last_steps(&self) -> u64 {
        match &self.state {
            State::Live { tree, .. } => tree.steps,
            State::ReadOnly(_) => 0,
        }
    }

    /// Appends the state, an encoded message, to `out`.
    pub fn serialize_state(&self, out: &mut Vec<u8>) {
        match &self.state {
            State::Live { tree, .. } => serialize::serialize(tree, out),
            State::ReadOnly(state) => out.extend_from_slice(state),
        }
    }

    /// The state as an encoded message. That of a clone is there, and is not copied.
    #[must_use]
    pub fn encoded_state(&self) -> Bytes {
        match &self.state {
            State::Live { .. } => {
                let mut out = Vec::new();
                self.serialize_state(&mut out);
                out.into()
            }
            State::ReadOnly(state) => state.clone(),
        }
    }

    /// The program.
    #[must_use]
    pub const fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The bytes that program and state take, the latter as they count for the limit. Others may share the program.
    #[must_use]
    pub fn memory_usage_bytes(&self) -> usize {
        let state = match &self.state {
            State::Live { tree, .. } => tree.used(),
            State::ReadOnly(state) => state.len(),
        };
        self.program.memory_bytes() + state
    }

    /// A VM with the same state that packets cannot be applied to.
    #[must_use]
    pub fn clone_read_only(&self) -> Self {
        Self { program: self.program.clone(), state: State::ReadOnly(self.encoded_state()) }
    }
}
