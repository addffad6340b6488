//! Users of this machine as the service's user name space shows them (user_namespaces(7)).
//!
//! A service in a container may see only some of them by a number of their own. All the others have one number together, the overflow
//! user's, usually 65534: who has that may be anybody, so it is nobody, and what one of them owns is not shown to the next.

use std::sync::OnceLock;

use ferretto_service::Peer;

/// As many numbers as there are: the name space of the machine itself maps them all.
const ALL_USERS: u64 = u32::MAX as u64;

/// Asks the system, which may not be possible any more later: a daemon gives up rights.
pub(crate) fn learn() {
    known(0);
}

/// The user with this number, or [`Peer::UNKNOWN_UID`] if it stands for several.
pub(crate) fn known(uid: u32) -> u32 {
    static OVERFLOW_UID: OnceLock<Option<u32>> = OnceLock::new();
    let overflow_uid = OVERFLOW_UID.get_or_init(|| {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        overflow_uid(&read("/proc/self/uid_map"), &read("/proc/sys/kernel/overflowuid"))
    });
    if Some(uid) == *overflow_uid { Peer::UNKNOWN_UID } else { uid }
}

/// The number of all users that the map does not show, if there are such. Where /proc does not say, there are.
fn overflow_uid(uid_map: &str, overflow_uid: &str) -> Option<u32> {
    /// Source: linux/highuid.h, `DEFAULT_OVERFLOWUID`.
    const DEFAULT: u32 = 65534;
    let counts = uid_map.lines().filter_map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok());
    let shown: u64 = counts.sum();
    (shown < ALL_USERS).then(|| overflow_uid.trim().parse().unwrap_or(DEFAULT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overflow_user_is_somebody_only_where_all_users_are_shown() {
        let whole = "         0          0 4294967295\n";
        let root_only = "         0       1000          1\n";
        let most = "0 100000 65536\n65536 200000 1000\n";
        assert_eq!(overflow_uid(whole, "65534\n"), None);
        assert_eq!(overflow_uid(root_only, "65534\n"), Some(65534));
        assert_eq!(overflow_uid(most, "99\n"), Some(99));
        assert_eq!(overflow_uid("", ""), Some(65534));
    }
}
