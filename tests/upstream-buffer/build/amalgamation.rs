//! Takes an amalgamation apart: the file into which upstream pastes all its C++ sources, each header where it is first included.
//!
//! Its markers say where a file begins, not where it ends. A header ends with its include guard; what follows belongs to the
//! file that included it. An include that was replaced by the file's text, there or earlier, is kept as a comment, which tells
//! what each file needs.

use std::collections::{BTreeMap, BTreeSet};

/// The files of an amalgamation by name.
#[derive(Debug, Default)]
pub(crate) struct Amalgamation {
    /// In an order in which they can be compiled.
    headers: Vec<(String, String)>,
    sources: BTreeMap<String, String>,
}

const HEADER: &str = "// gen_amalgamated begin header: ";
const SOURCE: &str = "// gen_amalgamated begin source: ";
const INCLUDED: &str = "// gen_amalgamated expanded: #include \"";

/// What a header's name begins with when an include does not say it.
const FOLDERS: [&str; 4] = ["", "include/", "gen/", "gen/build_config/"];

impl Amalgamation {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Self::default();
        let mut source = None;
        let mut open_headers: Vec<(String, String)> = Vec::new();
        let mut depth = 0;
        for line in text.lines() {
            if let Some(name) = line.strip_prefix(SOURCE) {
                if let Some((header, _)) = open_headers.last() {
                    return Err(format!("{header} has no end before {name}"));
                }
                source = Some(name);
            } else if let Some(name) = line.strip_prefix(HEADER) {
                open_headers.push((name.to_owned(), String::new()));
            } else if let Some((_, body)) = open_headers.last_mut() {
                push_line(body, line);
                depth += nesting(line);
                if depth == 0 && is_directive(line, "endif") {
                    parts.headers.extend(open_headers.pop());
                }
            } else if let Some(name) = source {
                push_line(parts.sources.entry(name.to_owned()).or_default(), line);
            }
        }
        Ok(parts)
    }

    /// One source that consists of the sources named and of all headers that they need.
    pub(crate) fn cut(&self, sources: &[&str]) -> Result<String, String> {
        let mut bodies = Vec::new();
        for name in sources {
            bodies.push(self.sources.get(*name).ok_or_else(|| format!("there is no {name}"))?.as_str());
        }
        let needed = self.needed(&bodies);
        let headers = self.headers.iter().filter(|(name, _)| needed.contains(name.as_str()));
        Ok(headers.map(|(_, body)| body.as_str()).chain(bodies).collect())
    }

    /// The headers that the texts include, and those include in turn. What is not among the headers is in a file beside.
    fn needed(&self, texts: &[&str]) -> BTreeSet<&str> {
        let by_name: BTreeMap<&str, &str> =
            self.headers.iter().map(|(name, body)| (name.as_str(), body.as_str())).collect();
        let mut needed = BTreeSet::new();
        let mut to_scan = texts.to_vec();
        while let Some(text) = to_scan.pop() {
            for include in text.lines().filter_map(|line| line.strip_prefix(INCLUDED)) {
                let Some((path, _)) = include.split_once('"') else { continue };
                let names = FOLDERS.map(|folder| format!("{folder}{path}"));
                let Some((name, body)) = names.iter().find_map(|name| by_name.get_key_value(name.as_str()))
                else {
                    continue;
                };
                if needed.insert(*name) {
                    to_scan.push(body);
                }
            }
        }
        needed
    }
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn is_directive(line: &str, name: &str) -> bool {
    line.trim_start().strip_prefix('#').is_some_and(|rest| rest.trim_start().starts_with(name))
}

/// How a line changes the depth of conditional compilation.
fn nesting(line: &str) -> i32 {
    i32::from(is_directive(line, "if")) - i32::from(is_directive(line, "endif"))
}
