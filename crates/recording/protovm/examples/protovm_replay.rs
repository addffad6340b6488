//! Runs a script of VM operations from standard input and prints what it prints.
//!
//! The language is described in `tests/script/mod.rs`. To compare with another implementation, give the same
//! script to both.

#[path = "../tests/script/mod.rs"]
mod script;

use std::io::{Read, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut text = String::new();
    if let Err(error) = std::io::stdin().read_to_string(&mut text) {
        eprintln!("cannot read the script from standard input: {error}");
        return ExitCode::FAILURE;
    }
    let printed = match script::run(&text) {
        Ok(printed) => printed,
        Err(error) => {
            eprintln!("bad script: {error}");
            return ExitCode::FAILURE;
        }
    };
    match std::io::stdout().write_all(printed.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot print the result: {error}");
            ExitCode::FAILURE
        }
    }
}
