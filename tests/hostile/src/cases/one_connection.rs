//! One connection that has all sessions of its user, as it detaches them, each with a filter that may be large once it is parsed.

use std::io;

use ferretto_interop::config;
use ferretto_protos::trace_config::TraceFilter;
use ferretto_protos::{DetachRequest, TraceConfig};
use ferretto_protozero::fnv::{fnv1a, fnv1a_on};
use prost::Message;

use crate::{Case, Refused, Target};

pub(crate) const CASE: Case = Case {
    name: "one_connection",
    tells: "five detached sessions of one connection, each with a filter of 42,000 messages",
    needs_many: false,
    asks_for_kib: SESSIONS as u64 * 64,
    is_slow: false,
    run,
};

/// A user has no more at one time.
const SESSIONS: usize = 5;
/// Three bytes each, of the 128 KiB that a program may have.
const MESSAGES: usize = 42_000;

fn run(target: &Target) -> io::Result<()> {
    let mut consumer = target.consumer()?;
    let mut bytes = config("buffers { size_kb: 64 }");
    let filter = TraceFilter { bytecode_v2: Some(program().into()), ..Default::default() };
    bytes.extend(TraceConfig { trace_filter: Some(filter), ..Default::default() }.encode_to_vec());
    for number in 0..SESSIONS {
        consumer.have_enabled(&bytes)?;
        if number + 1 < SESSIONS {
            consumer.call("Detach", &DetachRequest { key: Some(format!("key{number}")) })?;
        }
    }
    Refused::unless(consumer.sessions()? as usize >= SESSIONS, "a session was refused")
}

/// The first message keeps others of the second kind in its field 1; each of the others keeps its field 127, the last one that a table might
/// have.
fn program() -> Vec<u8> {
    const KEEP: u32 = 1;
    const MESSAGE: u32 = 3;
    const END: u32 = 0;
    let mut words = vec![1 << 3 | MESSAGE, 1, END];
    words.extend([127 << 3 | KEEP, END].repeat(MESSAGES));
    words.push(checksum(&words));
    let mut bytes = Vec::new();
    words.iter().for_each(|word| prost::encoding::encode_varint(u64::from(*word), &mut bytes));
    bytes
}

/// The low half of FNV-1a, which ends a program.
fn checksum(words: &[u32]) -> u32 {
    words.iter().fold(fnv1a(b""), |hash, word| fnv1a_on(hash, &word.to_le_bytes())) as u32
}
