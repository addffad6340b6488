//! Prints what it costs a program to have the SDK: the time of a build from nothing, and what the stripped binary grows by.
//!
//! Builds a program that does nothing and one that uses the SDK, with cargo's default profiles and nothing but `strip = true`. Downloads
//! what is not on this machine yet before it takes the time.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const EMPTY: &str = "fn main() {}";

const HELLO: &str = r#"
fn main() {
    ferretto::init("org.example.hello").expect("tracing");
    for number in 0..10 {
        let _slice = ferretto::slice!("hello", "work", number = number);
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    ferretto::flush(std::time::Duration::from_secs(1));
}
"#;

fn main() -> Result<(), String> {
    let dir = std::env::temp_dir().join(format!("ferretto-cost-of-having-{}", std::process::id()));
    let measured = measure(&dir);
    let _ = std::fs::remove_dir_all(&dir);
    measured
}

fn measure(dir: &Path) -> Result<(), String> {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/program/sdk");
    let sdk = sdk.canonicalize().map_err(|error| format!("cannot find the SDK: {error}"))?;
    let empty = Package::new(&dir.join("empty"), "", EMPTY)?;
    let dependency = format!("ferretto = {{ path = {sdk:?} }}");
    let hello = Package::new(&dir.join("hello"), &dependency, HELLO)?;
    hello.cargo(&["fetch"])?;

    println!("{:<8} {:>10} {:>14} {:>14}", "profile", "build, s", "processor, s", "growth, KB");
    for (profile, folder) in [("dev", "debug"), ("release", "release")] {
        empty.cargo(&["build", "--profile", profile])?;
        let (start, before) = (Instant::now(), children_cpu_s()?);
        hello.cargo(&["build", "--offline", "--profile", profile])?;
        let (elapsed, cpu) = (start.elapsed().as_secs_f64(), children_cpu_s()? - before);
        let growth = hello.size(folder)?.saturating_sub(empty.size(folder)?);
        println!("{profile:<8} {elapsed:>10.1} {cpu:>14.1} {:>14.0}", growth as f64 / 1000.0);
    }
    Ok(())
}

/// A crate outside of any workspace, with its own target folder.
struct Package {
    dir: PathBuf,
}

impl Package {
    fn new(dir: &Path, dependency: &str, main: &str) -> Result<Self, String> {
        let manifest = format!(
            "[package]\nname = \"program\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n{dependency}\n\n\
             [profile.dev]\nstrip = true\n\n[profile.release]\nstrip = true\n\n[workspace]\n"
        );
        let write = |path: PathBuf, text: &str| {
            std::fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
        };
        std::fs::create_dir_all(dir.join("src")).map_err(|error| format!("cannot make {dir:?}: {error}"))?;
        write(dir.join("Cargo.toml"), &manifest)?;
        write(dir.join("src/main.rs"), main)?;
        Ok(Self { dir: dir.to_owned() })
    }

    fn cargo(&self, args: &[&str]) -> Result<(), String> {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(args).arg("--quiet").current_dir(&self.dir);
        // As a user has it: nothing of the build that this program came from.
        command.env("CARGO_TARGET_DIR", self.dir.join("target")).env_remove("RUSTFLAGS");
        let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("cargo {} failed", args.join(" "))) }
    }

    fn size(&self, folder: &str) -> Result<u64, String> {
        let path = self.dir.join("target").join(folder).join("program");
        let metadata = std::fs::metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(metadata.len())
    }
}

/// Processor time of all children so far that have ended (proc(5): `cutime` and `cstime`).
fn children_cpu_s() -> Result<f64, String> {
    let stat = std::fs::read_to_string("/proc/self/stat").map_err(|error| error.to_string())?;
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let ticks: u64 = fields.skip(13).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
