//! A program that lives for a moment: `sdk-brief return` traces its first and its last event and returns; `sdk-brief kill` is killed after
//! them.

#![forbid(unsafe_code)]

use rustix::process::{Signal, getpid, kill_process};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    ferretto::init("ferretto.brief")?;
    ferretto::instant!("brief", "first");
    ferretto::instant!("brief", "last");
    if std::env::args().nth(1).as_deref() == Some("kill") {
        kill_process(getpid(), Signal::KILL)?;
    }
    Ok(())
}
