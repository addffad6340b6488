//! What this process may do beyond whoever started it, and whom a number of a user stands for.

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

fn numbers(text: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    words.map(|word| {
        word.iter().fold(0, |number: u64, digit| {
            number.saturating_mul(10).saturating_add(u64::from(digit.wrapping_sub(b'0')))
        })
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
}
