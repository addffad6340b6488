//! The protobuf text format, for configs that people write by hand and for messages that they read.
//!
//! The parser is our own because its errors are a promise: each names the line and the column, what was found there, what was expected,
//! and the nearest known names. The format is protobuf's (<https://protobuf.dev/reference/protobuf/textformat-spec/>); upstream's
//! configs (`*.pbtx`, `*.cfg`, `--txt`) are written in it.
//!
//! ```
//! use ferretto_protos::text;
//!
//! let config = text::parse_trace_config("buffers { size_kb: 4096 }  duration_ms: 5000").unwrap();
//! assert_eq!(text::format("perfetto.protos.TraceConfig", &config).unwrap(), "buffers {\n  size_kb: 4096\n}\nduration_ms: 5000\n");
//!
//! let error = text::parse_trace_config("bufers { size_kb: 4096 }").unwrap_err();
//! assert_eq!(error.to_string(), "1:1: unknown field `bufers` in TraceConfig; did you mean `buffers`?");
//! ```

pub mod literal;
mod parser;
mod print;
mod suggest;
pub mod token;

use std::sync::LazyLock;

use prost::Message as _;
use prost_reflect::DescriptorPool;

pub use print::format;
pub use suggest::nearest;

/// The full name of the message that a recording is configured with.
pub const TRACE_CONFIG: &str = "perfetto.protos.TraceConfig";

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(crate::DESCRIPTORS)
        .expect("the descriptors that were generated with this crate decode")
});

/// The descriptors of all messages that have Rust types.
pub fn descriptor_pool() -> &'static DescriptorPool {
    &POOL
}

/// A mistake in a text, or (from the lossy functions) something that was left out of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct TextError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What was found, what was expected, and the nearest known name.
    pub message: String,
}

/// A text that was parsed leniently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lossy {
    /// The message, serialized.
    pub bytes: Vec<u8>,
    /// The unknown fields and enum values that were left out.
    pub dropped: Vec<TextError>,
}

/// Parses a `TraceConfig` and serializes it.
///
/// # Errors
/// The first mistake in the text.
pub fn parse_trace_config(text: &str) -> Result<Vec<u8>, TextError> {
    parse(TRACE_CONFIG, text)
}

/// As [`parse_trace_config`], but unknown fields and enum values are left out instead of being errors (upstream's `--txt-lossy`).
///
/// # Errors
/// The first mistake of another kind.
pub fn parse_trace_config_lossy(text: &str) -> Result<Lossy, TextError> {
    let mut parser = parser::Parser::new(text, true)?;
    let message = parser.parse(&message_descriptor(TRACE_CONFIG))?;
    Ok(Lossy { bytes: message.encode_to_vec(), dropped: parser.into_dropped() })
}

/// Parses any message of this crate by its full name (`perfetto.protos.DataSourceConfig`) and serializes it.
///
/// # Errors
/// The first mistake in the text.
///
/// # Panics
/// If there is no message of that name: it is the caller's constant, not input.
pub fn parse(full_name: &str, text: &str) -> Result<Vec<u8>, TextError> {
    let message = parser::Parser::new(text, false)?.parse(&message_descriptor(full_name))?;
    Ok(message.encode_to_vec())
}

/// The places, as line and column from 1, of the quoted strings that say `wanted`. None if `text` has a mistake.
///
/// For mistakes that are found after parsing, which know a name and not where it stood.
///
/// ```
/// let text = "name: \"a\" # \"a\"\nname: 'b' name: 'a'";
/// assert_eq!(ferretto_protos::text::places_of(text, "a"), [(1, 7), (2, 17)]);
/// ```
pub fn places_of(text: &str, wanted: &str) -> Vec<(usize, usize)> {
    let tokens = token::tokenize(text).unwrap_or_default();
    let found = tokens.iter().filter(|token| token.kind == token::Kind::Text(wanted.as_bytes().to_vec()));
    found.map(|token| (token.place.line, token.place.column)).collect()
}

fn message_descriptor(full_name: &str) -> prost_reflect::MessageDescriptor {
    POOL.get_message_by_name(full_name).unwrap_or_else(|| panic!("no message is called {full_name}"))
}
