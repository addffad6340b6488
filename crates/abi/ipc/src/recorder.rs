//! What a recorder and the programs that it starts tell each other, beside the protocol.
//!
//! Who is started by `ferretto record` finds [`RECORDER_ENV`] in its environment, as do its children: somebody waits for what it traces.
//! So it waits, too, until it is recorded; and if it is not, it leaves a line in the file that the variable names. Programs with rights of
//! their own (set-user-id) do not heed it.

use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::write;

use crate::address::environment;

/// Names the file of a recorder that programs are started by.
pub const RECORDER_ENV: &str = "FERRETTO_RECORDER";

/// Whether a recorder has started this process or one that it comes from.
pub fn has_recorder() -> bool {
    environment(RECORDER_ENV).is_some()
}

/// Tells the recorder, if there is one, why it sees nothing of this process, or not all. A line in one write: many programs may have
/// something to say.
pub fn tell_recorder(line: &str) {
    let path = environment(RECORDER_ENV).and_then(|path| CString::new(path.into_vec()).ok());
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let Some(file) = path.and_then(|path| open(path.as_c_str(), flags, Mode::empty()).ok()) else { return };
    // A recorder that has ended hears nothing; and nobody's devices and pipes are written to on the word of a variable.
    if fstat(&file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile) {
        let _ = write(&file, line.as_bytes());
    }
}
