//! What others have called something, as it may be shown: names of programs and data sources are anybody's, and could end a line, steer a
//! terminal or turn around what is beside them.

use std::borrow::Cow;

/// With what cannot be seen written out, line ends too.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    written_out(text, is_unseen)
}

/// The same for text of several lines.
pub(crate) fn printable_lines(text: &str) -> Cow<'_, str> {
    written_out(text, |character| character != '\n' && is_unseen(character))
}

/// Steers a terminal, ends a line for some readers, or turns around what is beside it (Unicode: line separators, bidirectional
/// formatting).
pub(crate) fn is_unseen(character: char) -> bool {
    let is_format =
        matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}');
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
        assert!(matches!(printable("as it is"), Cow::Borrowed(_)));
    }
}
