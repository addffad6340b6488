//! Names that others have chosen: they could end a line, steer a terminal, turn around what is beside them, or be as long as a book.

/// The longest that is kept of a name.
const MAX_NAME: usize = 200;

/// With what cannot be seen written out, and cut.
pub(crate) fn printable(text: &str) -> String {
    match text.char_indices().nth(MAX_NAME) {
        Some((end, _)) => ferretto_printable::printable(&text[..end]).into_owned() + "…",
        None => ferretto_printable::printable(text).into_owned(),
    }
}

/// No wider than that: of paths the end is kept, of others the begin.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    match text.starts_with('/') {
        true => std::iter::once('…').chain(text.chars().skip(count - kept)).collect(),
        false => text.chars().take(kept).chain(['…']).collect(),
    }
}

/// As text of HTML and of SVG in it, also within quotes.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // What no document may hold.
            c if c.is_control() && !matches!(c, '\n' | '\t') => out.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_place() {
        assert_eq!(printable("a\n\u{1b}[31m\u{202e}b"), "a\\n\\u{1b}[31m\\u{202e}b");
        assert_eq!(printable(&"x".repeat(300)).chars().count(), MAX_NAME + 1);
        assert_eq!(escaped("<script a='\"'>&\u{1}"), "&lt;script a=&#39;&quot;&#39;&gt;&amp;\u{fffd}");
        assert_eq!(
            [cut("/usr/lib/rustc", 7), cut("a long name", 7), cut("short", 7)],
            ["…/rustc", "a long…", "short"]
        );
    }
}
