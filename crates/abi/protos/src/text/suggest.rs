//! Finds the names that somebody probably meant.

/// Longer names than this are not compared: none in the system is that long, and the comparison costs their product.
const MAX_NAME_CHARS: usize = 128;

/// How many candidates a message lists at most: more would hide the likely one.
const MAX_SUGGESTIONS: usize = 3;

/// The names that `wanted` probably means, nearest first; empty when nothing is near.
///
/// Near is at most a third of the letters wrong. A missing or wrong prefix, up to a dot or slash, counts as one letter.
///
/// ```
/// use ferretto_protos::text::nearest;
/// assert_eq!(nearest("linux.ftrac", ["linux.ftrace", "linux.sys_stats"]), ["linux.ftrace"]);
/// assert_eq!(nearest("ftrace", ["linux.ftrace", "linux.sys_stats"]), ["linux.ftrace"]);
/// assert!(nearest("zebra", ["linux.ftrace"]).is_empty());
/// ```
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    if fold(wanted).is_none() {
        return Vec::new();
    }
    let mut near: Vec<(usize, &str)> =
        known.into_iter().filter_map(|name| Some((distance_to(wanted, name)?, name))).collect();
    near.sort_unstable();
    near.dedup();
    if near.first().is_some_and(|&(distance, _)| distance == 0) {
        near.truncate(1); // nothing else was meant
    }
    near.into_iter().take(MAX_SUGGESTIONS).map(|(_, name)| name).collect()
}

/// How many letters are wrong; none if it is too many.
fn distance_to(wanted: &str, name: &str) -> Option<usize> {
    let (wanted_part, name_part) = (last_part(wanted), last_part(name));
    let pairs = [(wanted, name, 0), (wanted, name_part, 1), (wanted_part, name_part, 1)];
    let distances = pairs.into_iter().filter_map(|(wanted, name, missing_prefix)| {
        let (wanted, name) = (fold(wanted)?, fold(name)?);
        let distance = edit_distance(&wanted, &name);
        (distance <= (wanted.len() / 3).max(1)).then_some(distance + missing_prefix)
    });
    distances.min()
}

fn last_part(name: &str) -> &str {
    name.rsplit(['.', '/']).next().unwrap_or(name)
}

/// Case and the choice of `-` or `_` are never what distinguishes two names. None for one that is too long.
fn fold(name: &str) -> Option<Vec<char>> {
    let folded: Vec<char> = name
        .chars()
        .take(MAX_NAME_CHARS + 1)
        .map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() })
        .collect();
    (folded.len() <= MAX_NAME_CHARS).then_some(folded)
}

/// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`.
fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, cb) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(ca != cb)).min(last[j + 1] + 1).min(row[j] + 1);
            let swapped = i > 0 && j > 0 && *ca == b[j - 1] && a[i - 1] == *cb;
            if swapped {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_was_meant_comes_first() {
        let known =
            ["linux.ftrace", "linux.process_stats", "linux.sys_stats", "linux.system_info", "track_event"];
        let too_long = "linux.ftrace".repeat(100);
        let cases = [
            ("linux.ftraec", vec!["linux.ftrace"]),
            ("ftrace", vec!["linux.ftrace"]),
            ("linux.sysstats", vec!["linux.sys_stats"]),
            ("Linux.Process-Stats", vec!["linux.process_stats"]),
            ("trackevent", vec!["track_event"]),
            ("android.ftrace", vec!["linux.ftrace"]),
            ("com.example.mine", vec![]),
            (&too_long, vec![]),
        ];
        for (wanted, expected) in cases {
            assert_eq!(nearest(wanted, known), expected, "{wanted}");
        }
    }

    #[test]
    fn edits_are_counted() {
        let distance = |a: &str, b: &str| edit_distance(&fold(a).unwrap(), &fold(b).unwrap());
        assert_eq!(distance("", ""), 0);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("abc", "acb"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
