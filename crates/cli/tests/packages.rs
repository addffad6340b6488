//! What crates.io asks of packages, and those who find them there: each that is published says what it is, and stands on published ones only.
//! That programs build from what is published `.ci/packages` sees.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// In `crates`, what nobody adds to a program: the file of `ferretto-preload` goes with the command, and `zstd` stands in the place of another.
const NOT_PUBLISHED: [&str; 2] = ["ferretto-preload", "zstd"];

/// <https://crates.io/category_slugs>, those that fit.
const CATEGORIES: [&str; 3] =
    ["command-line-utilities", "development-tools::debugging", "development-tools::profiling"];

struct Package {
    manifest: Value,
    folder: PathBuf,
}

impl Package {
    fn name(&self) -> &str {
        self.text("name")
    }

    fn text(&self, field: &str) -> &str {
        self.manifest[field].as_str().unwrap_or_default()
    }

    fn list(&self, field: &str) -> Vec<&str> {
        self.manifest[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// `publish = false` is an empty list of registries.
    fn is_published(&self) -> bool {
        self.manifest["publish"].is_null()
    }

    fn is_program(&self) -> bool {
        let targets = self.manifest["targets"].as_array().into_iter().flatten();
        targets.flat_map(|target| target["kind"].as_array().into_iter().flatten()).any(|kind| kind == "bin")
    }
}

fn packages() -> Vec<Package> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--locked", "--format-version", "1"]);
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter().map(|manifest| Package {
        manifest: manifest.clone(),
        folder: Path::new(manifest["manifest_path"].as_str().unwrap()).parent().unwrap().to_owned(),
    });
    packages.collect()
}

#[test]
fn what_is_published_is_in_crates_and_what_is_in_crates_is_published() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    for package in packages() {
        let expected = package.folder.starts_with(&crates) && !NOT_PUBLISHED.contains(&package.name());
        assert_eq!(package.is_published(), expected, "{}", package.name());
    }
}

/// What is wrong with a package, in the words of its manifest.
fn missing(package: &Package) -> Vec<&'static str> {
    let at_most = |list: &[&str]| (1..=5).contains(&list.len());
    let is_keyword = |word: &&str| {
        word.len() <= 20 && word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-')
    };
    let (keywords, categories) = (package.list("keywords"), package.list("categories"));
    let docs = &package.manifest["metadata"]["docs"]["rs"]["targets"];
    let is_there = |file: &str| !file.is_empty() && package.folder.join(file).is_file();
    let rules = [
        ("description", !package.text("description").is_empty()),
        ("license", package.text("license") == "MIT OR Apache-2.0"),
        ("files of the licences", is_there("LICENSE-MIT") && is_there("LICENSE-APACHE")),
        ("readme", is_there(package.text("readme"))),
        ("keywords", at_most(&keywords) && keywords.iter().all(is_keyword)),
        ("categories", at_most(&categories) && categories.iter().all(|it| CATEGORIES.contains(it))),
        ("rust-version", !package.text("rust_version").is_empty()),
        ("package.metadata.docs.rs.targets", package.is_program() || docs.as_array().is_some()),
    ];
    rules.into_iter().filter(|(_, holds)| !holds).map(|(what, _)| what).collect()
}

#[test]
fn each_published_package_says_what_it_is() {
    for package in packages().iter().filter(|package| package.is_published()) {
        assert_eq!(missing(package), Vec::<&str>::new(), "{}", package.name());
        assert_eq!(package.text("version"), env!("CARGO_PKG_VERSION"), "{}", package.name());
    }
}

/// Where tests need one that stands above theirs, neither could be published first: such a need has no version, and is left out of the archive.
#[test]
fn published_packages_stand_on_published_ones_of_the_same_release() {
    let packages = packages();
    let is_published: BTreeMap<&str, bool> =
        packages.iter().map(|package| (package.name(), package.is_published())).collect();
    let mut seen = 0;
    for package in packages.iter().filter(|package| package.is_published()) {
        let needs = package.manifest["dependencies"].as_array().unwrap().iter();
        for need in needs.filter(|need| !need["path"].is_null()) {
            let (name, wanted) = (need["name"].as_str().unwrap(), need["req"].as_str().unwrap());
            let what = format!("{} on {name} {wanted}", package.name());
            match need["kind"].as_str() {
                Some("dev") => assert_eq!(wanted, "*", "{what}, for its tests"),
                _ => {
                    assert_eq!(is_published.get(name), Some(&true), "{what}, which is not published");
                    assert_eq!(wanted, format!("={}", package.text("version")), "{what}");
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 50, "only {seen} needs");
}

#[test]
fn the_changelog_knows_this_version() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let changelog = std::fs::read_to_string(root.join("CHANGELOG.md")).unwrap();
    let heading = format!("## {}", env!("CARGO_PKG_VERSION"));
    assert!(changelog.lines().any(|line| line.starts_with(&heading)), "no heading {heading:?}");
}
