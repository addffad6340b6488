//! Becoming another user, for good.

use std::fs;
use std::io;
use std::str::FromStr;

use rustix::thread::{
    Gid, Uid, set_keep_capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use crate::{Capability, UserError, capabilities};

/// A user as the files of the machine have it; made from the name or the number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl FromStr for User {
    type Err = UserError;

    fn from_str(name: &str) -> Result<Self, UserError> {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let found = find(name, &read("/etc/passwd"), &read("/etc/group"));
        found.ok_or_else(|| UserError::Unknown { user: name.to_owned() })
    }
}

/// Gives up this user, and all groups, for another. Of root's rights these stay.
///
/// It is for this thread and those that it starts: call it before the first.
///
/// # Errors
/// When this user may not become another.
pub fn become_user(user: &User, kept: &[Capability]) -> Result<(), UserError> {
    let failed = |what| move |error: rustix::io::Errno| (what, io::Error::from(error));
    let change = || {
        set_keep_capabilities(true).map_err(failed("keeping rights"))?;
        let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
        set_thread_groups(&groups).map_err(failed("setting the groups"))?;
        let gid = Gid::from_raw(user.gid);
        set_thread_res_gid(gid, gid, gid).map_err(failed("setting the group"))?;
        let uid = Uid::from_raw(user.uid);
        set_thread_res_uid(uid, uid, uid).map_err(failed("setting the user"))?;
        capabilities::keep(kept).map_err(|error| ("giving up rights", io::Error::other(error)))?;
        set_keep_capabilities(false).map_err(failed("keeping no more rights"))
    };
    change().map_err(|(what, source)| UserError::System { uid: user.uid, what, source })
}

/// Looks a user up in the texts of /etc/passwd and /etc/group. A number needs no line there: its group is of the same number.
fn find(wanted: &str, users: &str, groups: &str) -> Option<User> {
    let number = wanted.parse::<u32>().ok();
    let line = users.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| {
        let [name, _, uid, ..] = fields.as_slice() else { return false };
        *name == wanted || number.is_some() && uid.parse().ok() == number
    });
    let Some(line) = line else { return number.map(|uid| User { uid, gid: uid, groups: vec![uid] }) };
    let [name, _, uid, gid, ..] = line.as_slice() else { return None };
    let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
    let others = groups.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [_, _, id, members] = fields.as_slice() else { return None };
        members.split(',').any(|member| member == *name).then(|| id.parse().ok())?
    });
    let groups = std::iter::once(gid).chain(others.filter(|other| *other != gid)).collect();
    Some(User { uid, gid, groups })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number_with_their_groups() {
        let users = "root:x:0:0:root:/root:/bin/sh\nperfetto:x:107:108::/:/bin/false\nbroken:x\n";
        let groups =
            "root:x:0:\nperfetto:x:108:perfetto\nreadtracefs:x:109:someone,perfetto\nother:x:110:someone\n";
        let perfetto = Some(User { uid: 107, gid: 108, groups: vec![108, 109] });
        assert_eq!(find("perfetto", users, groups), perfetto);
        assert_eq!(find("107", users, groups), perfetto);
        assert_eq!(find("root", users, groups), Some(User { uid: 0, gid: 0, groups: vec![0] }));
        assert_eq!(find("4711", users, groups), Some(User { uid: 4711, gid: 4711, groups: vec![4711] }));
        assert_eq!(find("nobody", users, groups), None);
        assert_eq!(find("broken", users, groups), None);
        assert_eq!(find("", users, groups), None);
    }
}
