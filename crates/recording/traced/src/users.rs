//! Users of this machine as the service's user name space shows them (user_namespaces(7)).
//!
//! A service in a container may see only some of them by a number of their own. All the others have one number together, the overflow
//! user's, usually 65534: who has that may be anybody, so it is nobody, and what one of them owns is not shown to the next.

use std::sync::OnceLock;

use ferretto_service::Peer;
use rustix::process::geteuid;

/// Asks the system, which may not be possible any more later: a daemon gives up rights.
pub(crate) fn learn() {
    known(0);
}

/// The user with this number, or [`Peer::UNKNOWN_UID`] if it stands for several.
pub(crate) fn known(uid: u32) -> u32 {
    static OVERFLOW_UID: OnceLock<Option<u32>> = OnceLock::new();
    let overflow_uid = OVERFLOW_UID.get_or_init(ferretto_sys::overflow_user);
    if Some(uid) == *overflow_uid { Peer::UNKNOWN_UID } else { uid }
}

/// Whether a user is root or the service's own: what they have made is as good as the service's.
pub(crate) fn is_trusted(uid: u32) -> bool {
    uid == 0 || known(uid) == geteuid().as_raw()
}
