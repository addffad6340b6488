//! The script language in which tests and the replay example drive a VM: one operation a line.
//! `tests/upstream-buffer` drives upstream's VM with it, too.
//!
//! | operation | prints |
//! |---|---|
//! | `vm MEMORY_LIMIT_BYTES PROGRAM [INITIAL_STATE]` | `vm` |
//! | `apply PACKET` | `apply ok`, `apply error` or `apply abort` |
//! | `state` | `state STATE` |
//! | `clone` (the VM becomes its own read-only clone) | `clone` |
//! | `memory` | `memory BYTES`, without the program |
//!
//! Programs, packets and states are hex, `-` for none. Lines that are blank or begin with `#` are skipped.

use std::fmt::Write;

use ferretto_protovm::{ApplyError, Program, Vm};

/// Where and why a script cannot be run.
pub(crate) type ScriptError = String;

/// A VM that scripts can drive.
pub(crate) trait Driven: Sized {
    fn create(memory_limit_bytes: usize, program: &[u8], state: Option<&[u8]>) -> Result<Self, ScriptError>;
    fn apply(&mut self, packet: &[u8]) -> Outcome;
    fn state(&self) -> Vec<u8>;
    fn clone_read_only(&self) -> Self;
    /// Without the program.
    fn memory_usage_bytes(&self) -> usize;
}

/// What became of a packet.
pub(crate) enum Outcome {
    Ok,
    Error,
    Abort,
}

/// Runs a script and gives what it prints.
pub(crate) fn run(script: &str) -> Result<String, ScriptError> {
    run_on::<Vm>(script)
}

/// The same with a VM of any make.
pub(crate) fn run_on<V: Driven>(script: &str) -> Result<String, ScriptError> {
    let (mut vm, mut printed) = (None::<V>, String::new());
    for (index, line) in script.lines().enumerate() {
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            let answer = step(&mut vm, line).map_err(|error| format!("line {}: {error}", index + 1))?;
            printed += &answer;
            printed.push('\n');
        }
    }
    Ok(printed)
}

impl Driven for Vm {
    fn create(memory_limit_bytes: usize, program: &[u8], state: Option<&[u8]>) -> Result<Self, ScriptError> {
        let program = Program::parse(program).map_err(|error| error.to_string())?;
        Ok(match state {
            None => Self::new(program, memory_limit_bytes),
            Some(state) => Self::with_state(program, memory_limit_bytes, state),
        })
    }

    fn apply(&mut self, packet: &[u8]) -> Outcome {
        match self.apply(packet) {
            Ok(()) => Outcome::Ok,
            Err(ApplyError::Failed) => Outcome::Error,
            Err(ApplyError::Aborted { .. } | ApplyError::ReadOnly) => Outcome::Abort,
        }
    }

    fn state(&self) -> Vec<u8> {
        let mut state = Vec::new();
        self.serialize_state(&mut state);
        state
    }

    fn clone_read_only(&self) -> Self {
        self.clone_read_only()
    }

    fn memory_usage_bytes(&self) -> usize {
        self.memory_usage_bytes() - self.program().memory_bytes()
    }
}

fn step<V: Driven>(vm: &mut Option<V>, line: &str) -> Result<String, ScriptError> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    if let ["vm", limit, program, state @ ..] = &words[..] {
        let limit = limit.parse().map_err(|_| format!("{limit:?} is no number of bytes"))?;
        let state = match state {
            [] => None,
            [state] => Some(bytes(state)?),
            _ => return Err("`vm` takes at most three words".into()),
        };
        *vm = Some(V::create(limit, &bytes(program)?, state.as_deref())?);
        return Ok("vm".into());
    }
    let vm = vm.as_mut().ok_or("`vm` must come first")?;
    Ok(match words[..] {
        ["apply", packet] => match vm.apply(&bytes(packet)?) {
            Outcome::Ok => "apply ok".into(),
            Outcome::Error => "apply error".into(),
            Outcome::Abort => "apply abort".into(),
        },
        ["state"] => format!("state {}", hex(&vm.state())),
        ["clone"] => {
            *vm = vm.clone_read_only();
            "clone".into()
        }
        ["memory"] => format!("memory {}", vm.memory_usage_bytes()),
        _ => return Err(format!("{line:?} is no operation")),
    })
}

fn bytes(hex: &str) -> Result<Vec<u8>, ScriptError> {
    if hex == "-" {
        return Ok(Vec::new());
    }
    let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap_or_default());
    let values = digits.map(|pair| u8::from_str_radix(pair, 16));
    values.collect::<Result<_, _>>().map_err(|_| format!("{hex:?} is not hex"))
}

fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "-".into();
    }
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
