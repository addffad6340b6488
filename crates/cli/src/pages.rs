//! `ferretto pages DIR`: man pages, and completions for shells, as files for whoever makes a package of the command (`.ci/release`).
//!
//! Only with the feature `pages`: where the command is installed they lie in their folders, and nobody needs their writers any more, which are large.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::Cli;

/// Where the file of each shell is looked for, below `share`.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/ferretto"),
    (Shell::Zsh, "zsh/site-functions/_ferretto"),
    (Shell::Fish, "fish/vendor_completions.d/ferretto.fish"),
];
const MAN: &str = "man/man1";

/// Writes the man page of each command, and completions for bash, zsh and fish.
#[derive(clap::Args, Debug)]
pub(crate) struct PagesArgs {
    /// A folder such as /usr/share, in which the files get their usual places.
    dir: PathBuf,
}

pub(crate) fn main(args: &PagesArgs) -> Result<ExitCode> {
    let folder =
        |path: &Path| fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()));
    let man = args.dir.join(MAN);
    folder(&man)?;
    // Without what the version was built from: the pages are of a release.
    let command = || Cli::command().version(crate::VERSION);
    clap_mangen::generate_to(command(), &man)
        .with_context(|| format!("cannot write into {}", man.display()))?;
    for (shell, file) in COMPLETIONS {
        let path = args.dir.join(file);
        folder(path.parent().unwrap_or(&args.dir))?;
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command(), "ferretto", &mut text);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn written() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        main(&PagesArgs { dir: dir.path().to_owned() }).unwrap();
        dir
    }

    #[test]
    fn each_command_has_a_page_with_each_of_its_options() {
        let dir = written();
        let mut cli = Cli::command();
        cli.build();
        for command in cli.get_subcommands().filter(|it| !it.is_hide_set() && it.get_name() != "help") {
            let path = dir.path().join(MAN).join(format!("ferretto-{}.1", command.get_name()));
            let page =
                fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            for option in
                command.get_arguments().filter(|it| !it.is_hide_set()).filter_map(|it| it.get_long())
            {
                // In a page `-` is written so that it can be copied.
                assert!(page.contains(&option.replace('-', "\\-")), "{}: no {option}", path.display());
            }
        }
        assert!(dir.path().join(MAN).join("ferretto.1").exists());
        assert!(!dir.path().join(MAN).join("ferretto-pages.1").exists());
    }

    #[test]
    fn a_shell_completes_commands_and_options() {
        let dir = written();
        let script = dir.path().join(COMPLETIONS[0].1);
        for (words, expected) in [("ferretto rec", "record"), ("ferretto cut --fr", "--from")] {
            let last = words.split(' ').count() - 1;
            let program = format!(
                "source {}; COMP_WORDS=({words}) COMP_CWORD={last}; _ferretto ferretto \"${{COMP_WORDS[{last}]}}\" \"${{COMP_WORDS[{last}-1]}}\"; echo \"${{COMPREPLY[*]}}\"",
                script.display()
            );
            let Ok(output) = Command::new("bash").args(["--norc", "-c", &program]).output() else {
                return println!("skipped: there is no bash");
            };
            let (text, error) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert_eq!((text.trim(), &*error), (expected, ""), "{words}");
        }
    }
}
