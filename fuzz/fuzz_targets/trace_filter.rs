//! Any program, rules and messages: errors or less than there was, in bounded time.
#![no_main]

use ferretto_trace_filter::{
    Bytecode, FilterError, MAX_DEPTH, MessageFilter, Policy, Rule, StringFilter, assemble,
};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

/// Each is compiled and tried on each string.
const MAX_RULES: usize = 8;

#[derive(Arbitrary, Debug)]
struct Script {
    program: Words,
    overlay: Option<Words>,
    rules: Vec<FuzzRule>,
    root: Option<u8>,
    messages: Vec<Vec<u8>>,
}

#[derive(Arbitrary, Debug)]
enum Words {
    Raw(Vec<u8>),
    /// With the checksum that belongs to them.
    Any(Vec<u32>),
    Made(Vec<(Field, u8)>),
}

#[derive(Arbitrary, Debug)]
enum Field {
    End,
    Keep(u8),
    Range(u8),
    Message(u8),
    String(u8),
    Typed(u8),
}

#[derive(Arbitrary, Debug)]
struct FuzzRule {
    policy: u8,
    pattern: String,
    prefix: String,
    name: Option<bool>,
    types: Vec<u8>,
}

impl Words {
    fn encoded(&self) -> Vec<u8> {
        match self {
            Self::Raw(bytes) => bytes.clone(),
            Self::Any(words) => assemble(words),
            Self::Made(fields) => {
                let mut words = Vec::new();
                for (field, argument) in fields {
                    let word = |number: &u8, opcode| u32::from(*number) << 3 | opcode;
                    match field {
                        Field::End => words.push(0),
                        Field::Keep(number) => words.push(word(number, 1)),
                        Field::Range(number) => words.extend([word(number, 2), u32::from(*argument)]),
                        Field::Message(number) => words.extend([word(number, 3), u32::from(argument % 4)]),
                        Field::String(number) => words.push(word(number, 4)),
                        Field::Typed(number) => words.extend([word(number, 5), u32::from(*argument)]),
                    }
                }
                words.push(0);
                assemble(&words)
            }
        }
    }
}

fuzz_target!(|script: Script| {
    let mut strings = StringFilter::default();
    for rule in script.rules.iter().take(MAX_RULES) {
        let types: Vec<u32> = rule.types.iter().map(|number| u32::from(*number)).collect();
        let added = strings.add(&Rule {
            policy: Policy::from_number(i32::from(rule.policy % 5) + 1).expect("all five are known"),
            pattern: &rule.pattern,
            atrace_payload_starts_with: &rule.prefix,
            name: rule.name.map_or("", |one| if one { "one" } else { "two" }),
            semantic_types: &types,
        });
        if let Err(error) = added {
            assert!(!error.to_string().is_empty());
        }
    }
    let overlay = script.overlay.map(|overlay| overlay.encoded()).unwrap_or_default();
    let program = match Bytecode::parse(&script.program.encoded(), &overlay) {
        Ok(program) => program,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let root: Vec<u32> = script.root.into_iter().map(u32::from).collect();
    let Ok(filter) = MessageFilter::new(program, strings.clone()).with_root(&root) else { return };
    let mut kept = Vec::new();
    for message in &script.messages {
        match filter.filter(message, &mut kept) {
            Ok(()) => check_kept(&filter, message, &kept),
            Err(error) => {
                assert!(kept.is_empty());
                assert!(error != FilterError::TooDeep || message.len() > MAX_DEPTH);
            }
        }
        let mut text = message.clone();
        strings.redact(&mut text, 0);
        assert_eq!(text.len(), message.len());
    }
});

/// What was kept is a message, of which everything is kept.
fn check_kept(filter: &MessageFilter, message: &[u8], kept: &[u8]) {
    assert!(kept.len() <= message.len());
    let mut again = Vec::new();
    assert_eq!(filter.filter(kept, &mut again), Ok(()));
    assert!(again.len() <= kept.len());
}
