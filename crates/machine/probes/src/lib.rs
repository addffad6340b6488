//! The Linux data sources as a producer: ftrace, process and system statistics, system information, batteries, paths of
//! files, systemd's journal.
//!
//! [`run`] is the daemon's loop; [`availability()`] says, before anything is recorded, what this user and this kernel allow.
//! Every data source is a module whose parsers take bytes, so that tests feed them recorded files.
#![forbid(unsafe_code)]

mod availability;
mod boost;
mod clock;
mod daemon;
pub mod ftrace;
mod inode_file_map;
pub mod journald;
mod memory_files;
mod packets;
mod pids;
mod proc_fs;
mod process_stats;
mod sys_stats;
mod sysfs_power;
mod system_info;

pub use availability::{Availability, Limitation, availability};
pub use daemon::{Error, ProbesOptions, run};
pub use ftrace::reset::{cleanup_after_crash, reset_ftrace};
pub use memory_files::{MemoryFile, MemoryFiles, Target};
