//! Where the trace of a test goes: `target/traces/NAME.pftrace`.

use std::env;
use std::io;
use std::path::{Path, PathBuf};

/// Where cargo builds, if that is said from outside.
const TARGET_DIR_ENV: &str = "CARGO_TARGET_DIR";
/// Cargo writes the first into each target folder that it makes itself, and the second into all that it has found (a mounted one).
const TARGET_MARKS: [&str; 2] = ["CACHEDIR.TAG", ".rustc_info.json"];

/// No folder for traces.
#[derive(Debug, thiserror::Error)]
pub(super) enum TargetError {
    #[error("cannot tell where this program is: {0}")]
    NoProgram(#[source] io::Error),
    #[error(
        "{} lies in no target folder of cargo, and {TARGET_DIR_ENV} names none by an absolute path: say where the trace should go, `path = \"…\"`",
        .program.display()
    )]
    NoTarget { program: PathBuf },
    #[error("cannot make the folder {}: {source}", .folder.display())]
    Folder { folder: PathBuf, source: io::Error },
}

/// A name that no other function has. The module's path begins with the crate, which tells enough if it is the package's own.
pub(super) fn file_name(module: &str, function: &str, package: Option<&str>) -> String {
    let crate_name = module.split("::").next().unwrap_or_default();
    let package = package.filter(|package| package.replace('-', "_") != crate_name);
    let prefix = package.map(|package| format!("{package}.")).unwrap_or_default();
    format!("{prefix}{}.{function}.pftrace", module.replace("::", "."))
}

/// `target/traces`.
pub(super) fn traces_folder() -> Result<PathBuf, TargetError> {
    let named = env::var_os(TARGET_DIR_ENV).map(PathBuf::from);
    let program = env::current_exe().map_err(TargetError::NoProgram)?;
    let is_target = |folder: &Path| TARGET_MARKS.iter().any(|mark| folder.join(mark).exists());
    Ok(target_folder(named, &program, is_target)?.join("traces"))
}

/// A relative name would be relative to where cargo was called, which is not known here.
fn target_folder(
    named: Option<PathBuf>,
    program: &Path,
    is_target: impl Fn(&Path) -> bool,
) -> Result<PathBuf, TargetError> {
    let named = named.filter(|named| named.is_absolute());
    let around = || program.ancestors().skip(1).find(|folder| is_target(folder)).map(Path::to_owned);
    named.or_else(around).ok_or_else(|| TargetError::NoTarget { program: program.to_owned() })
}

pub(super) fn make_folder_of(path: &Path) -> Result<(), TargetError> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    std::fs::create_dir_all(folder)
        .map_err(|source| TargetError::Folder { folder: folder.to_owned(), source })
}

/// What the program calls itself as a producer: its file's name without cargo's hash.
pub(super) fn program_name() -> String {
    let program = env::current_exe().unwrap_or_default();
    let name = program.file_stem().unwrap_or_default().to_string_lossy();
    match name.rsplit_once('-') {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            name.to_owned()
        }
        _ => name.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_package_module_and_function() {
        let cases = [
            ("shop::cart::tests", "adds", Some("shop"), "shop.cart.tests.adds.pftrace"),
            ("my_shop::cart", "adds", Some("my-shop"), "my_shop.cart.adds.pftrace"),
            ("integration", "adds", Some("shop"), "shop.integration.adds.pftrace"),
            ("integration", "adds", None, "integration.adds.pftrace"),
        ];
        for (module, function, package, name) in cases {
            assert_eq!(file_name(module, function, package), name);
        }
    }

    #[test]
    fn the_target_folder_is_around_the_program_or_where_the_environment_says() {
        let program = Path::new("/w/target/x86_64-unknown-linux-gnu/debug/deps/shop-0123456789abcdef");
        let find = |named: Option<&str>, exists: &str| {
            target_folder(named.map(PathBuf::from), program, |folder| folder == Path::new(exists))
        };
        assert_eq!(find(None, "/w/target").unwrap(), Path::new("/w/target"));
        assert_eq!(find(Some("/t"), "/w/target").unwrap(), Path::new("/t"));
        assert_eq!(find(Some("relative"), "/w/target").unwrap(), Path::new("/w/target"));
        let error = find(Some("relative"), "").unwrap_err().to_string();
        assert!(error.contains("path = "), "{error}");
    }

    #[test]
    fn a_program_is_called_without_its_hash() {
        assert_eq!(program_name(), "ferretto");
    }
}
