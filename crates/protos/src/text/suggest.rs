//! Finds the name that somebody probably meant.

/// Longer words than this are not compared: no name in the system is that long, and the comparison costs their product.
const MAX_WORD_CHARS: usize = 128;

/// The candidate nearest to `word`, if one is near enough to be a slip: a third of its letters at most may differ.
///
/// ```
/// use ferretto_protos::text::nearest;
/// assert_eq!(nearest("linux.ftrac", ["linux.ftrace", "linux.sys_stats"]), Some("linux.ftrace"));
/// assert_eq!(nearest("zebra", ["linux.ftrace"]), None);
/// ```
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.chars().map(|c| c.to_ascii_lowercase()).collect();
    if word.len() > MAX_WORD_CHARS {
        return None;
    }
    let most = (word.len() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The number of letters to insert, delete or change (Levenshtein's), case folded.
fn distance(word: &[char], candidate: &str) -> usize {
    let mut row: Vec<usize> = (0..=word.len()).collect();
    for (i, c) in candidate.chars().take(MAX_WORD_CHARS).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &w) in word.iter().enumerate() {
            let changed = diagonal + usize::from(w != c.to_ascii_lowercase());
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[word.len()]
}
