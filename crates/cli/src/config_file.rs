//! Reads a TraceConfig from a file, and says precisely what is wrong with one.

use std::io::Read;
use std::path::Path;

use anyhow::Result;
use ferretto_protos::TraceConfig;
use ferretto_protos::text::{self, TextError};
use prost::Message;

use crate::record::output::plain;
use crate::report::UserError;

/// Configs are written by hand or by tools that write by hand; this is far above any, and bounds our memory.
const MAX_CONFIG_BYTES: u64 = 16 << 20;

/// The bytes of the file; `-` is stdin.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let reading = if path == Path::new("-") {
        std::io::stdin().lock().take(MAX_CONFIG_BYTES + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut bytes))
    };
    let name = path.display();
    reading.map_err(|error| UserError::new(format!("cannot read the config {name}: {}", plain(&error))))?;
    if bytes.len() as u64 > MAX_CONFIG_BYTES {
        return Err(UserError::new(format!("{name} is no config: it is larger than 16 MiB")).into());
    }
    if bytes.is_empty() {
        return Err(UserError::new(format!("the config {name} is empty")).into());
    }
    Ok(bytes)
}

/// A config whose form has to be found out: binary ones hold control characters, text does not.
pub(crate) fn parse_any(name: &Path, bytes: &[u8]) -> Result<Vec<u8>> {
    match as_text(bytes) {
        Some(text) => parse_text(name, text),
        None => parse_binary(name, bytes),
    }
}

/// A binary config as it is, once it is sure that it can be read.
pub(crate) fn parse_binary(name: &Path, bytes: &[u8]) -> Result<Vec<u8>> {
    match TraceConfig::decode(bytes) {
        Ok(_) => Ok(bytes.to_vec()),
        Err(error) => {
            let message = format!("{} is no binary TraceConfig: {error}", name.display());
            let advice = as_text(bytes).map(|_| "it looks like text: add --txt");
            let wrong = UserError::new(message);
            Err(advice.into_iter().fold(wrong, UserError::help).into())
        }
    }
}

/// A text config, as binary.
pub(crate) fn parse_text(name: &Path, text: &str) -> Result<Vec<u8>> {
    text::parse_trace_config(text).map_err(|error| pictured(name, text, &error).into())
}

/// A text config without what our schema does not know; what is left out is said on stderr.
pub(crate) fn parse_text_lossy(name: &Path, text: &str) -> Result<Vec<u8>> {
    let parsed = text::parse_trace_config_lossy(text).map_err(|error| pictured(name, text, &error))?;
    for dropped in &parsed.dropped {
        eprintln!("note: left out: {}", pictured(name, text, dropped));
    }
    Ok(parsed.bytes)
}

/// The text, unless control characters or bad UTF-8 say that it is none.
pub(crate) fn as_text(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let binary = text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'));
    (!binary).then_some(text)
}

/// The message, and the line with a caret under the place.
pub(crate) fn pictured(name: &Path, text: &str, error: &TextError) -> UserError {
    let (line, column) = (error.line, error.column);
    let place = UserError::new(format!("{}:{line}:{column}: {}", name.display(), error.message));
    let Some(source) = line.checked_sub(1).and_then(|index| text.lines().nth(index)) else {
        return place;
    };
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    // Tabs stay tabs, so that the caret stands where the terminal puts the character.
    let indent: String =
        source.chars().take(column.saturating_sub(1)).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    place.picture(format!(" {margin} |\n {number} | {source}\n {margin} | {indent}^"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_shown_in_its_line() {
        let text = "buffers {\n\tsize_kb: many\n}\n";
        let error = parse_text(Path::new("my.cfg"), text).unwrap_err().to_string();
        assert!(error.starts_with("my.cfg:2:"), "{error}");
        assert!(error.contains("\n   |\n 2 | \tsize_kb: many\n   | \t"), "{error}");
        assert!(error.ends_with('^'), "{error}");
    }

    #[test]
    fn both_forms_give_the_same_bytes() {
        let name = Path::new("c");
        let binary = parse_any(name, b"buffers { size_kb: 1024 } # a comment\nduration_ms: 10").unwrap();
        assert_eq!(parse_any(name, &binary).unwrap(), binary);
        let config = TraceConfig::decode(binary.as_slice()).unwrap();
        assert_eq!((config.buffers[0].size_kb(), config.duration_ms()), (1024, 10));
    }

    #[test]
    fn text_where_binary_was_expected_is_recognised() {
        let error = parse_binary(Path::new("c"), b"buffers { size_kb: 1024 }").unwrap_err();
        let said = crate::report::render(&error);
        assert!(said.contains("help: it looks like text: add --txt"), "{said}");
    }
}
