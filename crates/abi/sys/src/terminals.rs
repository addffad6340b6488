//! Terminals that a program was started with, beside its standard input and outputs.

use std::io::{self, IsTerminal};
use std::os::fd::{BorrowedFd, RawFd};

/// The standard input and outputs come before this one.
const FIRST_OTHER: RawFd = 3;

/// Closes all descriptors of terminals above those of the standard input and outputs. For a program that opens no terminals, and has no
/// other thread yet.
pub fn close_terminals() -> io::Result<()> {
    let numbers = std::fs::read_dir("/proc/self/fd")?.flatten();
    let numbers: Vec<RawFd> = numbers
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd >= FIRST_OTHER)
        .collect();
    for number in numbers {
        // SAFETY: it is asked for what it is, within this turn of the loop; if it has been closed since it was listed, that is an error.
        // JUSTIFICATION: an inherited descriptor is a number, and nothing safe makes more of it.
        let is_terminal = unsafe { BorrowedFd::borrow_raw(number) }.is_terminal();
        if is_terminal {
            // SAFETY: no memory is touched. Nobody here owns it: this program opens no terminals.
            // JUSTIFICATION: what is typed there, such as a password, could be read as long as it is open.
            unsafe { rustix::io::close(number) };
        }
    }
    Ok(())
}
