//! Nearest names for a misspelt one.

/// How many candidates a message lists at most: more would hide the likely one.
const MAX_SUGGESTIONS: usize = 3;

/// The names that `wanted` probably means, nearest first; empty when nothing is near.
///
/// Near is at most a quarter of the letters wrong, or one name containing the other.
pub(crate) fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let limit = (wanted.chars().count() / 4).max(1);
    let mut near: Vec<(usize, &str)> = known
        .into_iter()
        .map(|name| (distance_to(wanted, name), name))
        .filter(|(distance, _)| *distance <= limit)
        .collect();
    near.sort();
    near.dedup();
    near.into_iter().take(MAX_SUGGESTIONS).map(|(_, name)| name).collect()
}

/// Edit distance, but a name that only lacks its prefix (`ftrace` for `linux.ftrace`) counts as one edit.
fn distance_to(wanted: &str, name: &str) -> usize {
    let last_part = name.rsplit(['.', '/']).next().unwrap_or(name);
    let whole = edit_distance(&fold(wanted), &fold(name));
    let part = edit_distance(&fold(wanted), &fold(last_part)).saturating_add(1);
    let other_prefix = match wanted.rsplit_once(['.', '/']) {
        Some((_, wanted_part)) => edit_distance(&fold(wanted_part), &fold(last_part)).saturating_add(1),
        None => usize::MAX,
    };
    whole.min(part).min(other_prefix)
}

/// Case and the choice of `-` or `_` are never what distinguishes two names.
fn fold(name: &str) -> Vec<char> {
    name.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
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
        let cases = [
            ("linux.ftraec", vec!["linux.ftrace"]),
            ("ftrace", vec!["linux.ftrace"]),
            ("linux.sysstats", vec!["linux.sys_stats"]),
            ("Linux.Process-Stats", vec!["linux.process_stats"]),
            ("trackevent", vec!["track_event"]),
            ("android.ftrace", vec!["linux.ftrace"]),
            ("com.example.mine", vec![]),
        ];
        for (wanted, expected) in cases {
            assert_eq!(nearest(wanted, known), expected, "{wanted}");
        }
    }

    #[test]
    fn edits_are_counted() {
        let distance = |a: &str, b: &str| edit_distance(&fold(a), &fold(b));
        assert_eq!(distance("", ""), 0);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("abc", "acb"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
