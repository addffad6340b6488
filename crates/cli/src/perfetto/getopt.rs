//! Options as the C library's `getopt_long` reads them, because scripts rely on its habits: flags and operands in
//! any order, `-t10s`, `--time=10s`, unambiguous abbreviations (`--back`), clustered short flags, and `--` as the end.

/// One option that a program knows.
pub(crate) struct Spec<K: 'static> {
    pub(crate) long: &'static str,
    pub(crate) short: Option<char>,
    pub(crate) takes_value: bool,
    pub(crate) key: K,
}

/// What was found, in the order of the command line.
#[derive(Debug, PartialEq)]
pub(crate) enum Item<K> {
    Flag(K),
    Value(K, String),
    Operand(String),
}

/// Reads a whole command line. The error is one line for stderr.
pub(crate) fn parse<K: Copy>(specs: &[Spec<K>], args: &[String]) -> Result<Vec<Item<K>>, String> {
    let mut items = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        if arg == "--" {
            items.extend(rest.by_ref().cloned().map(Item::Operand));
        } else if let Some(long) = arg.strip_prefix("--") {
            items.push(long_option(specs, long, &mut rest)?);
        } else if arg.len() > 1 && arg.starts_with('-') {
            short_options(specs, &arg[1..], &mut rest, &mut items)?;
        } else {
            items.push(Item::Operand(arg.clone()));
        }
    }
    Ok(items)
}

type Rest<'a> = std::slice::Iter<'a, String>;

fn long_option<K: Copy>(specs: &[Spec<K>], text: &str, rest: &mut Rest<'_>) -> Result<Item<K>, String> {
    let (name, inline) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    let spec = find_long(specs, name)?;
    match (spec.takes_value, inline) {
        (false, None) => Ok(Item::Flag(spec.key)),
        (false, Some(_)) => Err(format!("option '--{}' doesn't allow an argument", spec.long)),
        (true, Some(value)) => Ok(Item::Value(spec.key, value)),
        (true, None) => match rest.next() {
            Some(value) => Ok(Item::Value(spec.key, value.clone())),
            None => Err(format!("option '--{}' requires an argument", spec.long)),
        },
    }
}

/// The exact name, or else the only one that begins so.
fn find_long<'s, K>(specs: &'s [Spec<K>], name: &str) -> Result<&'s Spec<K>, String> {
    if let Some(exact) = specs.iter().find(|spec| spec.long == name) {
        return Ok(exact);
    }
    let mut candidates = specs.iter().filter(|spec| !name.is_empty() && spec.long.starts_with(name));
    match (candidates.next(), candidates.next()) {
        (Some(only), None) => Ok(only),
        (Some(_), Some(_)) => Err(format!("option '--{name}' is ambiguous")),
        (None, _) => Err(format!("unrecognized option '--{name}'")),
    }
}

fn short_options<K: Copy>(
    specs: &[Spec<K>],
    cluster: &str,
    rest: &mut Rest<'_>,
    items: &mut Vec<Item<K>>,
) -> Result<(), String> {
    let mut letters = cluster.chars();
    while let Some(letter) = letters.next() {
        let known = specs.iter().find(|spec| spec.short == Some(letter));
        let spec = known.ok_or_else(|| format!("invalid option -- '{letter}'"))?;
        if !spec.takes_value {
            items.push(Item::Flag(spec.key));
            continue;
        }
        let attached = letters.as_str();
        let value = if attached.is_empty() { rest.next().cloned() } else { Some(attached.to_owned()) };
        let value = value.ok_or_else(|| format!("option requires an argument -- '{letter}'"))?;
        items.push(Item::Value(spec.key, value));
        break;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECS: [Spec<u8>; 4] = [
        Spec { long: "time", short: Some('t'), takes_value: true, key: 1 },
        Spec { long: "txt", short: None, takes_value: false, key: 2 },
        Spec { long: "txt-lossy", short: None, takes_value: false, key: 3 },
        Spec { long: "background", short: Some('d'), takes_value: false, key: 4 },
    ];

    fn check(line: &str) -> String {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match parse(&SPECS, &args) {
            Ok(items) => items.iter().map(show).collect::<Vec<_>>().join(" "),
            Err(error) => error,
        }
    }

    fn show(item: &Item<u8>) -> String {
        match item {
            Item::Flag(key) => format!("{key}"),
            Item::Value(key, value) => format!("{key}={value}"),
            Item::Operand(text) => text.clone(),
        }
    }

    #[test]
    fn command_lines_are_read_as_getopt_long_reads_them() {
        let cases = [
            ("-t 10s a/b", "1=10s a/b"),
            ("-t10s", "1=10s"),
            ("--time=10s", "1=10s"),
            ("--time 10s", "1=10s"),
            ("--time=", "1="),
            ("--ti 1s --back", "1=1s 4"),
            ("-dt 1s", "4 1=1s"),
            ("sched -d freq", "sched 4 freq"),
            ("-d -- -t x", "4 -t x"),
            ("-", "-"),
            ("--txt", "2"),
            ("--tx", "option '--tx' is ambiguous"),
            ("--txt=1", "option '--txt' doesn't allow an argument"),
            ("--time", "option '--time' requires an argument"),
            ("-t", "option requires an argument -- 't'"),
            ("-x", "invalid option -- 'x'"),
            ("--nope", "unrecognized option '--nope'"),
        ];
        for (line, expected) in cases {
            assert_eq!(check(line), expected, "{line}");
        }
    }
}
