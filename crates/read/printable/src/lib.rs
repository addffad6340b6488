//! What others have called something, as it may be shown: names of programs, data sources and files are anybody's, and could end a line, steer
//! a terminal or turn around what is beside them.
//!
//! ```
//! assert_eq!(ferretto_printable::printable("a\nLost: nothing"), "a\\nLost: nothing");
//! ```

#![forbid(unsafe_code)]

use std::borrow::Cow;

/// With what cannot be seen written out, line ends too.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    written_out(text, is_unseen)
}

/// The same for text of several lines.
#[must_use]
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    written_out(text, |character| character != '\n' && is_unseen(character))
}

/// Steers a terminal, ends a line for some readers, turns around what is beside it, or is not seen at all, so that two names look alike
/// (Unicode: control and formatting characters, line separators).
#[must_use]
pub fn is_unseen(character: char) -> bool {
    let is_format = matches!(
        character,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    );
    character.is_control() || is_format
}

fn written_out(text: &str, is_unseen: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_unseen) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match is_unseen(character) {
            true => out.extend(character.escape_default()),
            false => out.push(character),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        assert_eq!(printable("grüße\tan\u{1b}[31m alle\n\u{202e}"), "grüße\\tan\\u{1b}[31m alle\\n\\u{202e}");
        assert_eq!(printable_lines("a\nb\u{7}\n"), "a\nb\\u{7}\n");
        for unseen in
            "\u{ad}\u{61c}\u{180e}\u{200b}\u{200d}\u{2028}\u{2060}\u{206a}\u{feff}\u{fff9}\u{e0041}".chars()
        {
            assert_eq!(printable(&unseen.to_string()), unseen.escape_unicode().to_string());
        }
        assert!(matches!(printable("as it is"), Cow::Borrowed(_)));
    }
}
