//! A file of the corpus: trace configs, and what happens while they are recorded.
//!
//! The file is a TraceConfig in the text format that opens with a comment. `# ---` lines separate the configs of several sessions.
//! Comment lines that begin with `#>` are the steps of a script, see [`script`](crate::script); without any, the first config is
//! recorded until its session ends. Patterns in `#~` lines name the keys whose values depend
//! on time: they are compared as none or some. Those in `#-` lines name keys that are not compared, since even that depends on time.

use std::fs;
use std::path::Path;

use ferretto_interop::config;

/// One is kept whenever clocks have drifted apart, the time stamp counter among them.
const ALWAYS_LOOSE: &str = "*.packets.clock_snapshot";

/// A file of the corpus.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// Serialized.
    pub(crate) configs: Vec<Vec<u8>>,
    /// The words of each step.
    pub(crate) steps: Vec<Vec<String>>,
    /// Patterns of keys.
    pub(crate) loose: Vec<String>,
    pub(crate) ignored: Vec<String>,
}

/// All files, in the order of their names.
pub(crate) fn all() -> Vec<Case> {
    let mut cases: Vec<Case> = fs::read_dir(folder())
        .expect("the corpus")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txtpb"))
        .map(|path| Case::read(&path))
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases
}

pub(crate) fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/parity"))
}

/// Whether a text is what a pattern says, in which each `*` stands for anything.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(start) else { return false };
    text.char_indices()
        .map(|(at, _)| at)
        .chain([text.len()])
        .any(|at| text.get(at..).is_some_and(|text| matches(rest, text)))
}

impl Case {
    fn read(path: &Path) -> Self {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(path).expect("a text file");
        assert!(text.starts_with("# "), "{name} does not open with a comment");
        let directive = |mark| text.lines().filter_map(move |line| line.strip_prefix(mark));
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let mut steps: Vec<_> = directive("#>").map(words).collect();
        if steps.is_empty() {
            steps.push(words("record 1"));
        }
        Self {
            name,
            configs: text.split("\n# ---\n").map(config).collect(),
            steps,
            loose: directive("#~").flat_map(words).collect(),
            ignored: directive("#-").flat_map(words).collect(),
        }
    }

    /// Whether upstream's client library takes part.
    pub(crate) fn needs_client(&self) -> bool {
        self.steps.iter().any(|words| words.first().is_some_and(|word| word == "client"))
    }

    pub(crate) fn is_loose(&self, key: &str) -> bool {
        matches(ALWAYS_LOOSE, key) || self.loose.iter().any(|pattern| matches(pattern, key))
    }

    pub(crate) fn is_ignored(&self, key: &str) -> bool {
        self.ignored.iter().any(|pattern| matches(pattern, key))
    }
}

#[test]
fn stars_stand_for_anything() {
    for (pattern, text, expected) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("a*", "ab", true),
        ("*b", "ab", true),
        ("a*c*e", "abcde", true),
        ("a*c*e", "abcd", false),
        ("*", "", true),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }
}
