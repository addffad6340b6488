//! Starts a browser, where there is one that can be seen.

use std::env;
use std::process::{Command, Stdio};

use rustix::process::geteuid;

/// What a user would rather have (as of xdg-open(1), a command; only its first word is taken).
const BROWSER_ENV: &str = "BROWSER";
const DISPLAYS: [&str; 2] = ["DISPLAY", "WAYLAND_DISPLAY"];

/// Whether one was asked. Root's browser would be one with all rights: none is started.
pub(super) fn start(url: &str) -> bool {
    if geteuid().is_root() {
        return false;
    }
    let chosen = env::var(BROWSER_ENV).ok();
    let chosen =
        chosen.as_deref().and_then(|words| words.split([' ', ':']).next()).filter(|it| !it.is_empty());
    let is_seen = DISPLAYS.iter().any(|name| env::var_os(name).is_some_and(|value| !value.is_empty()));
    let Some(program) = chosen.or(is_seen.then_some("xdg-open")) else { return false };
    let mut command = Command::new(program);
    let started = command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = started else { return false };
    // Nobody waits for it, but it shall leave nothing behind.
    std::thread::spawn(move || _ = child.wait());
    true
}
