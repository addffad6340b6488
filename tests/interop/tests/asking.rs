//! Others ask us: the Python package `perfetto` a server of ours, pandas and polars what a query has written.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ferretto_interop::{ferretto_query, need, readers};

const SLICES: u64 = 1000;
const NAMES: u64 = 7;

/// A trace of slices one behind the other, with their whole duration in nanoseconds.
fn trace(folder: &Path) -> (PathBuf, u64) {
    let (mut text, mut sum) = (String::from("["), 0);
    for at in 0..SLICES {
        let dur = 1 + at % 13;
        sum += dur * 1000;
        let comma = if at > 0 { "," } else { "" };
        let name = at % NAMES;
        write!(
            text,
            "{comma}\n{{\"ph\":\"X\",\"name\":\"n{name}\",\"ts\":{},\"dur\":{dur},\"pid\":1,\"tid\":1}}",
            at * 20
        )
        .unwrap();
    }
    let path = folder.join("slices.json");
    fs::write(&path, text + "\n]").unwrap();
    (path, sum)
}

/// Numbers by name, as readers.py prints them.
fn numbers(mut command: Command) -> BTreeMap<String, u64> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let number = |line: &str| {
        let (name, number) = line.split_once('\t')?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    text.lines().map(|line| number(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_python_package_asks_a_server() {
    let mut package = need!(readers());
    let mut serve = need!(ferretto_query());
    let folder = tempfile::tempdir().unwrap();
    let (path, sum) = trace(folder.path());
    serve.arg("serve").arg(path).args(["--listen", "127.0.0.1:0"]).stderr(Stdio::piped());
    let mut server = Ended(serve.spawn().unwrap());
    let mut lines = BufReader::new(server.0.stderr.take().unwrap()).lines();
    let address = lines.find_map(|line| {
        let line = line.unwrap();
        let (_, rest) = line.split_once("http://")?;
        rest.split(' ').next().map(str::to_owned)
    });
    package.arg("package").arg(address.unwrap());
    let said = numbers(package);
    assert_eq!((said["names"], said["slices"], said["dur"]), (NAMES, SLICES, sum));
}

#[test]
fn pandas_and_polars_read_an_arrow_stream() {
    let mut reader = need!(readers());
    let mut query = need!(ferretto_query());
    let folder = tempfile::tempdir().unwrap();
    let (path, sum) = trace(folder.path());
    let out = folder.path().join("slices.arrow");
    query
        .arg("query")
        .arg(path)
        .arg("select name, ts, dur from slice")
        .args(["--format", "arrow", "-o"])
        .arg(&out);
    assert!(query.status().unwrap().success());
    reader.arg("stream").arg(out);
    let said = numbers(reader);
    assert_eq!((said["slices"], said["dur"]), (SLICES, sum));
}
