//! The script language for trace filters, and both sides behind it.
//!
//! | line | effect | prints |
//! |---|---|---|
//! | `rule POLICY TYPES PREFIX PATTERN NAME` | adds a rule for strings; `TYPES` is a mask | |
//! | `program PROGRAM OVERLAY` | loads a program, with the rules so far | `ok`, `refused` |
//! | `root FIELD...` | goes to the messages that are filtered, from the first message on | `ok`, `refused` |
//! | `filter MESSAGE` | filters it | `kept BYTES`, `error`, or `error number` for a number that is no field's, or for too much nesting |
//!
//! Policy, mask and fields are decimal numbers; all else is hexadecimal, `-` for nothing.

use std::fmt::Write as _;

use ferretto_protozero::read::ReadError;
use ferretto_trace_filter::{Bytecode, FilterError, MessageFilter, Policy, Rule, StringFilter};

use crate::cpp;

type ScriptError = Box<dyn std::error::Error>;

/// A rule, as it stands in a script.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RuleLine {
    pub(crate) policy: u32,
    pub(crate) types: u128,
    pub(crate) prefix: Vec<u8>,
    pub(crate) pattern: Vec<u8>,
    pub(crate) name: Vec<u8>,
}

/// How filtering a message ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Filtered {
    Kept(Vec<u8>),
    Error,
    /// Upstream goes on where ours does not.
    OursOnly,
}

/// One side.
pub(crate) trait Driven: Default {
    /// The error says what is wrong with the script.
    fn rule(&mut self, rule: &RuleLine) -> Result<(), Box<dyn std::error::Error>>;
    fn program(&mut self, program: &[u8], overlay: &[u8]) -> bool;
    fn root(&mut self, path: &[u32]) -> bool;
    fn filter(&mut self, message: &[u8]) -> Filtered;
}

pub(crate) fn run_on<D: Driven>(script: &str) -> Result<String, String> {
    run::<D>(script).map_err(|error| error.to_string())
}

fn run<D: Driven>(script: &str) -> Result<String, ScriptError> {
    let mut driven = D::default();
    let mut printed = String::new();
    for line in script.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let said = |ok| if ok { "ok" } else { "refused" };
        match words[..] {
            ["rule", policy, types, prefix, pattern, name] => driven.rule(&RuleLine {
                policy: policy.parse()?,
                types: types.parse()?,
                prefix: bytes(prefix)?,
                pattern: bytes(pattern)?,
                name: bytes(name)?,
            })?,
            ["program", program, overlay] => {
                writeln!(printed, "{}", said(driven.program(&bytes(program)?, &bytes(overlay)?)))?;
            }
            ["root", ref path @ ..] => {
                let path: Vec<u32> = path.iter().map(|field| field.parse()).collect::<Result<_, _>>()?;
                writeln!(printed, "{}", said(driven.root(&path)))?;
            }
            ["filter", message] => match driven.filter(&bytes(message)?) {
                Filtered::Kept(kept) => writeln!(printed, "kept {}", crate::generate::hex(&kept))?,
                Filtered::Error => writeln!(printed, "error")?,
                Filtered::OursOnly => writeln!(printed, "{OURS_ONLY}")?,
            },
            _ => return Err(format!("what is {line:?}?").into()),
        }
    }
    Ok(printed)
}

const OURS_ONLY: &str = "error number";

/// What theirs printed, with ours where only ours refuses a message.
pub(crate) fn without_what_only_ours_refuses(ours: &str, theirs: &str) -> String {
    let line = |(ours, theirs)| if ours == OURS_ONLY { ours } else { theirs };
    let same = ours.lines().zip(theirs.lines()).map(line).flat_map(|line| [line, "\n"]).collect::<String>();
    let rest = theirs.lines().skip(ours.lines().count()).flat_map(|line| [line, "\n"]);
    same + &rest.collect::<String>()
}

fn bytes(word: &str) -> Result<Vec<u8>, ScriptError> {
    if word == "-" {
        return Ok(Vec::new());
    }
    let pairs = word.as_bytes().chunks(2);
    pairs.map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?)).collect()
}

#[derive(Default)]
pub(crate) struct Ours {
    strings: StringFilter,
    program: Bytecode,
    filter: MessageFilter,
}

impl Driven for Ours {
    fn rule(&mut self, rule: &RuleLine) -> Result<(), ScriptError> {
        let types: Vec<u32> = (0..128).filter(|bit| rule.types >> bit & 1 == 1).collect();
        self.strings.add(&Rule {
            policy: Policy::from_number(rule.policy.cast_signed()).ok_or("no such policy")?,
            pattern: std::str::from_utf8(&rule.pattern)?,
            atrace_payload_starts_with: std::str::from_utf8(&rule.prefix)?,
            name: std::str::from_utf8(&rule.name)?,
            semantic_types: &types,
        })?;
        Ok(())
    }

    fn program(&mut self, program: &[u8], overlay: &[u8]) -> bool {
        let parsed = Bytecode::parse(program, overlay);
        let is_ok = parsed.is_ok();
        self.program = parsed.unwrap_or_default();
        self.filter = MessageFilter::new(self.program.clone(), self.strings.clone());
        is_ok
    }

    fn root(&mut self, path: &[u32]) -> bool {
        let filter = MessageFilter::new(self.program.clone(), self.strings.clone()).with_root(path);
        let is_ok = filter.is_ok();
        if let Ok(filter) = filter {
            self.filter = filter;
        }
        is_ok
    }

    fn filter(&mut self, message: &[u8]) -> Filtered {
        let mut kept = Vec::new();
        match self.filter.filter(message, &mut kept) {
            Ok(()) => Filtered::Kept(kept),
            Err(FilterError::Malformed(ReadError::BadFieldNumber { .. }) | FilterError::TooDeep) => {
                Filtered::OursOnly
            }
            Err(_) => Filtered::Error,
        }
    }
}

impl Driven for cpp::Filter {
    fn rule(&mut self, rule: &RuleLine) -> Result<(), ScriptError> {
        self.add_rule(rule);
        Ok(())
    }

    fn program(&mut self, program: &[u8], overlay: &[u8]) -> bool {
        self.load(program, overlay)
    }

    fn root(&mut self, path: &[u32]) -> bool {
        self.set_root(path)
    }

    fn filter(&mut self, message: &[u8]) -> Filtered {
        self.filter(message).map_or(Filtered::Error, Filtered::Kept)
    }
}
