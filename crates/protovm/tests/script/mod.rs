//! The script language in which tests and the replay example drive a VM: one operation a line.
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

/// Runs a script and gives what it prints.
pub(crate) fn run(script: &str) -> Result<String, ScriptError> {
    let (mut vm, mut printed) = (None, String::new());
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

fn step(vm: &mut Option<Vm>, line: &str) -> Result<String, ScriptError> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    if let ["vm", limit, program, state @ ..] = &words[..] {
        let limit = limit.parse().map_err(|_| format!("{limit:?} is no number of bytes"))?;
        let program = Program::parse(&bytes(program)?).map_err(|error| error.to_string())?;
        *vm = Some(match state {
            [] => Vm::new(program, limit),
            [state] => Vm::with_state(program, limit, &bytes(state)?),
            _ => return Err("`vm` takes at most three words".into()),
        });
        return Ok("vm".into());
    }
    let vm = vm.as_mut().ok_or("`vm` must come first")?;
    Ok(match words[..] {
        ["apply", packet] => match vm.apply(&bytes(packet)?) {
            Ok(()) => "apply ok".into(),
            Err(ApplyError::Failed) => "apply error".into(),
            Err(ApplyError::Aborted { .. } | ApplyError::ReadOnly) => "apply abort".into(),
        },
        ["state"] => {
            let mut state = Vec::new();
            vm.serialize_state(&mut state);
            format!("state {}", hex(&state))
        }
        ["clone"] => {
            *vm = vm.clone_read_only();
            "clone".into()
        }
        ["memory"] => format!("memory {}", vm.memory_usage_bytes() - vm.program().as_bytes().len()),
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
