//! The flags of `ferretto record`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::flight::{self, Keep};
use crate::units;

/// Records this machine into a trace file.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RecordArgs {
    /// The trace; `-` is stdout [default: trace-YYYYMMDD-HHMMSS.pftrace here, the time in UTC].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// How long, such as 500ms, 5s, 2m or 1h [default: until Ctrl-C, or until COMMAND ends].
    #[arg(short, long, value_name = "TIME", value_parser = units::parse_duration)]
    pub(crate) time: Option<Duration>,

    /// A TraceConfig, text or binary, instead of the built-in one; `-` is stdin.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Memory for events on their way to the file [default: 64mb].
    #[arg(short, long, value_name = "SIZE", value_parser = size_kb, conflicts_with = "config")]
    pub(crate) buffer: Option<u32>,

    /// Memory of the kernel for events of each CPU [default: 8mb].
    #[arg(long, value_name = "SIZE", value_parser = size_kb, conflicts_with = "config")]
    pub(crate) kernel_buffer: Option<u32>,

    /// Memory that each program shares with the tracing service, at least; up to 256mb [default: as the program asks, 32mb with our
    /// library].
    #[arg(long, value_name = "SIZE", value_parser = shared_memory_kb, conflicts_with = "config")]
    pub(crate) shared_memory: Option<u32>,

    /// Record through the tracing service that runs on this machine, or fail. Without this and --own it is used if it runs.
    #[arg(long, conflicts_with = "own")]
    pub(crate) system: bool,

    /// Start a tracing service even if one runs: programs that are connected to that one will not appear.
    #[arg(long)]
    pub(crate) own: bool,

    /// Accept data sources that nobody knows yet: a program that starts later may offer them.
    #[arg(long)]
    pub(crate) any_source: bool,

    /// Show no progress and no summary; errors and losses only.
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Keep the latest in memory instead of writing a file; `ferretto snapshot` writes it out, as often as one likes. With -o, the last
    /// moments are written at the end, too.
    #[arg(long, help_heading = "Flight recorder")]
    pub(crate) flight: bool,

    /// How much to keep: memory, such as 256mb, or a time, such as 30s, whose memory is then guessed [default: 64mb].
    #[arg(long, value_name = "SIZE|TIME", value_parser = Keep::parse, requires = "flight", conflicts_with_all = ["buffer", "config"],
        help_heading = "Flight recorder")]
    pub(crate) keep: Option<Keep>,

    /// Write a numbered file whenever this trigger is called out, as by `ferretto trigger NAME`; may be given several times.
    #[arg(long = "trigger", value_name = "NAME", requires = "flight", help_heading = "Flight recorder")]
    pub(crate) triggers: Vec<String>,

    /// For `ferretto snapshot --name NAME`, where there are several [default: flight].
    #[arg(long, value_name = "NAME", value_parser = flight::parse_name, requires = "flight", help_heading = "Flight recorder")]
    pub(crate) name: Option<String>,

    /// Run this, record for as long as it runs, and exit with its status.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  ferretto record -o trace.pftrace -t 5s      five seconds of this machine
  sudo ferretto record                        scheduling too, until Ctrl-C
  ferretto record -- make -j8                 while make runs
  ferretto record -c my.cfg -t 1m             what my.cfg asks for
  ferretto record --flight --keep 256mb       the latest, until something happens: then ferretto snapshot";

/// A buffer's size in KiB.
pub(crate) fn size_kb(text: &str) -> Result<u32, String> {
    let kb = units::parse_size_kb(text).ok_or("expected a number and kb, mb or gb, as in 64mb")?;
    match u32::try_from(kb) {
        Ok(0) => Err("a buffer needs at least 1kb".to_owned()),
        // The service counts bytes of a buffer in 32 bits.
        Ok(kb) if kb < 4 << 20 => Ok(kb),
        _ => Err("a buffer must be smaller than 4gb".to_owned()),
    }
}

/// The most that services give (shm_size_kb).
pub(crate) const MAX_SHARED_MEMORY_KB: u64 = 256 << 10;
/// What it is a multiple of.
const PAGE_KB: u64 = 4;

/// A shared memory's size in KiB.
pub(crate) fn shared_memory_kb(text: &str) -> Result<u32, String> {
    let kb = units::parse_size_kb(text).ok_or("expected a number and kb or mb, as in 64mb")?;
    match u32::try_from(kb) {
        Ok(valid) if (PAGE_KB..=MAX_SHARED_MEMORY_KB).contains(&kb) && kb.is_multiple_of(PAGE_KB) => {
            Ok(valid)
        }
        _ => Err("shared memory has 4kb to 256mb, in steps of 4kb".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_sizes() {
        assert_eq!(size_kb("64mb"), Ok(65536));
        for text in ["", "0", "64", "4gb", "lots"] {
            assert!(size_kb(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_of_shared_memory() {
        assert_eq!(shared_memory_kb("64mb"), Ok(65536));
        assert_eq!(shared_memory_kb("256mb"), Ok(256 << 10));
        for text in ["", "0", "2kb", "63kb", "257mb", "lots"] {
            assert!(shared_memory_kb(text).is_err(), "{text}");
        }
    }
}
