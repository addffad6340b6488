//! The attacker's user.

use std::fs::{Permissions, set_permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_gid, set_thread_uid};

/// A user that no machine needs to know: numbers this high are nobody's by default.
pub const ATTACKER_UID: u32 = 54_321;

/// The attacker's user, if that can be another than this program's.
pub fn attacker_uid() -> Option<u32> {
    geteuid().is_root().then_some(ATTACKER_UID)
}

/// Lets the attacker come to these sockets, each in a folder of ours.
pub(crate) fn let_in(sockets: &[&Path]) {
    if attacker_uid().is_none() {
        return;
    }
    for socket in sockets {
        let _ = set_permissions(socket, Permissions::from_mode(0o666));
        let _ = socket.parent().map(|folder| set_permissions(folder, Permissions::from_mode(0o711)));
    }
}

/// Makes this thread, and those that it starts, the attacker's.
pub(crate) fn switch() -> io::Result<()> {
    let Some(uid) = attacker_uid() else { return Ok(()) };
    set_thread_gid(Gid::from_raw(uid))?;
    Ok(set_thread_uid(Uid::from_raw(uid))?)
}
