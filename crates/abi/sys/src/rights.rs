//! What this process may do beyond whoever started it, and whom a number of a user or group stands for.

use std::ffi::c_ulong;

use crate::read_file;

/// Whether the program has rights that whoever started it has not: it is set-user-id, set-group-id, or its file has capabilities
/// (AT_SECURE, getauxval(3)). Then what the environment says is a stranger's word.
///
/// ```
/// assert!(!ferretto_sys::has_rights_of_its_own());
/// ```
pub fn has_rights_of_its_own() -> bool {
    // SAFETY: the function takes a number and looks into memory of the C library's own.
    // JUSTIFICATION: nothing safe tells; user and group alone do not, for files can have capabilities.
    unsafe { getauxval(AT_SECURE) != 0 }
}

/// The number that stands for all users whom this process's user name space does not show, if there are such (user_namespaces(7)): two
/// that have it may be anybody. Where /proc does not say, there are.
pub fn overflow_user() -> Option<u32> {
    hidden_as(&read_file(c"/proc/self/uid_map"), &read_file(c"/proc/sys/kernel/overflowuid"))
}

fn hidden_as(uid_map: &[u8], overflow_uid: &[u8]) -> Option<u32> {
    /// Source: linux/highuid.h, `DEFAULT_OVERFLOWUID`.
    const DEFAULT: u64 = 65534;
    /// As many numbers as there are: the name space of the machine itself maps them all.
    const ALL_USERS: u64 = u32::MAX as u64;
    // Lines of three numbers, of which the last says how many users are shown.
    let shown = numbers(uid_map).skip(2).step_by(3).fold(0, u64::saturating_add);
    let number = || numbers(overflow_uid).next().unwrap_or(DEFAULT);
    (shown < ALL_USERS).then(|| u32::try_from(number()).unwrap_or(u32::MAX))
}

/// Whether nobody but this user is in a group: most systems give each user one, with the user's number or name, and let its members write to what
/// he makes. `/etc/group` and `/etc/passwd` are asked who else is in it; what is listed elsewhere (LDAP) they do not know.
pub fn is_group_of_one(group: u32, user: u32) -> bool {
    is_listed_as_of_one(&read_file(c"/etc/group"), &read_file(c"/etc/passwd"), group, user)
}

fn is_listed_as_of_one(groups: &[u8], users: &[u8], group: u32, user: u32) -> bool {
    let mut name: &[u8] = b"";
    for line in users.split(|&byte| byte == b'\n') {
        if number(line, 2) == Some(user.into()) {
            name = field(line, 0);
        } else if number(line, 3) == Some(group.into()) {
            return false;
        }
    }
    let mut is_users = group == user;
    for line in groups.split(|&byte| byte == b'\n') {
        if number(line, 2) == Some(group.into()) {
            let members = field(line, 3);
            if !members.is_empty() && members != name {
                return false;
            }
            is_users |= !name.is_empty() && field(line, 0) == name;
        }
    }
    is_users
}

/// Of a line of group(5) or passwd(5), counted from 0.
#[inline(never)]
fn field(line: &[u8], at: usize) -> &[u8] {
    let (mut from, mut before) = (0, 0);
    for (to, &byte) in line.iter().enumerate() {
        if byte == b':' {
            if before == at {
                return line.get(from..to).unwrap_or_default();
            }
            (from, before) = (to + 1, before + 1);
        }
    }
    if before == at { line.get(from..).unwrap_or_default() } else { &[] }
}

#[inline(never)]
fn number(line: &[u8], at: usize) -> Option<u64> {
    let field = field(line, at);
    if field.is_empty() { None } else { Some(value(field)) }
}

fn numbers(text: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    words.map(value)
}

#[inline(never)]
fn value(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |number: u64, digit| {
        number.saturating_mul(10).saturating_add(u64::from(digit.wrapping_sub(b'0')))
    })
}

/// Source: linux/auxvec.h.
const AT_SECURE: c_ulong = 23;

// SAFETY: as getauxval(3) declares it; the C library has it.
// JUSTIFICATION: the crate `libc` for one function is too much for programs that only link the SDK.
unsafe extern "C" {
    fn getauxval(kind: c_ulong) -> c_ulong;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overflow_user_is_somebody_only_where_all_users_are_shown() {
        let whole = b"         0          0 4294967295\n";
        let root_only = b"         0       1000          1\n";
        let most = b"0 100000 65536\n65536 200000 1000\n";
        assert_eq!(hidden_as(whole, b"65534\n"), None);
        assert_eq!(hidden_as(root_only, b"65534\n"), Some(65534));
        assert_eq!(hidden_as(most, b"99\n"), Some(99));
        assert_eq!(hidden_as(b"", b""), Some(65534));
    }

    #[test]
    fn a_group_of_one_is_a_users_by_number_or_name_and_has_nobody_else() {
        let groups = b"root:x:0:root\nteam:x:100:\n# none\nann:x:1000:\nbob:x:2001:bob\ncai:x:1002:cai,ann\neve:x:1003:\neva:x:1003:ann\n+\n";
        let users = b"root:x:0:0:root:/root:/bin/sh\ndaemon:x:100:1:::\nann:x:1000:1000:::\nbob:x:1001:2001:::\ncai:x:1002:1002:::\neve:x:1003:1003:::\ndan:x:1004:100:::\n";
        let is_of_one = |group, user| is_listed_as_of_one(groups, users, group, user);
        for (group, user) in [(0, 0), (1000, 1000), (2001, 1001), (70_000, 70_000)] {
            assert!(is_of_one(group, user), "{group} {user}");
        }
        for (group, user, why) in [
            (1000, 1001, "somebody else's"),
            (70_000, 70_001, "nobody knows it"),
            (1002, 1002, "another is in it"),
            (1003, 1003, "its other name has another in it"),
            (100, 100, "it is another's first group"),
            (100, 1004, "it is not named as its user"),
        ] {
            assert!(!is_of_one(group, user), "{why}");
        }
    }
}
