//! Who this process is, where it matters who has made something, and what is its own.

use ferretto_ipc::address::environment;
use rustix::process::geteuid;

/// Root of the machine. A root of a user name space has the rights of whoever made that, and is to others no more than he.
pub(crate) fn is_root() -> bool {
    geteuid().is_root() && ferretto_sys::overflow_user().is_none()
}

/// The user who has become root by `sudo`.
pub(crate) fn before_sudo() -> Option<u32> {
    let uid = environment("SUDO_UID").filter(|_| geteuid().is_root())?;
    uid.to_str()?.parse().ok()
}

/// Whether what this user has made is as good as one's own: what root made, and under `sudo` what the user before it made.
pub(crate) fn is_as_oneself(uid: u32) -> bool {
    let is_oneself = || uid == geteuid().as_raw() && !is_hidden(uid);
    uid == 0 || is_oneself() || before_sudo() == Some(uid)
}

/// Whether this number stands for all users whom a user name space does not show, root of the machine among them.
pub(crate) fn is_hidden(uid: u32) -> bool {
    ferretto_sys::overflow_user() == Some(uid)
}
