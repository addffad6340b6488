//! Whom a program takes for the service.
//!
//! Whoever listens where programs look for one gets what they trace, or makes up what they read. Root may, and oneself; somebody else only
//! where nobody but root or oneself can have put the socket: so not at an abstract name, which is anybody's who comes first, and not
//! below a folder like `/tmp`.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{lstat, stat};

use crate::address::Address;

/// Everybody may make names in a folder with this mode bit.
const OTHERS_WRITE: u32 = 0o002;

/// An error, if this user is not to be taken for the service there.
pub(crate) fn check(address: &Address, listener: u32) -> io::Result<()> {
    let is_trusted = is_trusted_anywhere(listener)
        || match address {
            Address::Path(path) => is_placed_by_the_trusted(path, listener)?,
            _ => false,
        };
    if is_trusted {
        return Ok(());
    }
    let message = format!(
        "the service on {address} is user {listener}'s, at a place that anybody may take: it is not trusted; start it as root or as this user, or put its socket into a folder of its own"
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

fn is_trusted_anywhere(uid: u32) -> bool {
    // A number that stands for several users is nobody's own.
    uid == 0 || uid == rustix::process::geteuid().as_raw() && ferretto_sys::overflow_user() != Some(uid)
}

/// Symbolic links on the way, and where they lead.
fn is_placed_by_the_trusted(socket: &Path, listener: u32) -> io::Result<bool> {
    let folder = folder_of(socket);
    Ok(leads_to_the_trusted(folder, listener)? && leads_to_the_trusted(&fs::canonicalize(folder)?, listener)?)
}

/// Whether each name on the way is of root or of this user, or of the listener where not everybody could make it.
///
/// By bytes: what the standard library has for parts of paths is some kilobytes in each program with the SDK.
fn leads_to_the_trusted(folder: &Path, listener: u32) -> io::Result<bool> {
    let folder = folder.as_os_str().as_bytes();
    let mut is_for_all = false;
    for end in 1..=folder.len() {
        // The root, and each name with all before it.
        let step = folder.get(..end).unwrap_or(folder);
        if step != b"/" && end != folder.len() && folder.get(end) != Some(&b'/') {
            continue;
        }
        let step = OsStr::from_bytes(step);
        let owner = lstat(step)?.st_uid;
        if !(is_trusted_anywhere(owner) || owner == listener && !is_for_all) {
            return Ok(false);
        }
        is_for_all = stat(step)?.st_mode & OTHERS_WRITE != 0;
    }
    Ok(!is_for_all)
}

pub(crate) fn folder_of(socket: &Path) -> &Path {
    match socket.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    use super::*;

    /// Somebody who is not there.
    const STRANGER: u32 = 4242;

    fn make(folder: &Path, mode: u32) {
        fs::create_dir(folder).unwrap();
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn may_listen(socket: &Path) -> bool {
        check(&Address::Path(socket.to_owned()), STRANGER).is_ok()
    }

    #[test]
    fn a_stranger_may_listen_where_only_root_or_oneself_can_have_let_him() {
        let place = tempfile::tempdir().unwrap();
        let (closed, open) = (place.path().join("closed"), place.path().join("open"));
        make(&closed, 0o750);
        make(&open, 0o777);
        assert!(may_listen(&closed.join("s")));
        assert!(!may_listen(&open.join("s")), "anybody could be there");
        // From where this program is.
        let here = format!("..{}", "/..".repeat(60));
        let relative = Path::new(&here).join(closed.strip_prefix("/").unwrap());
        assert!(may_listen(&relative.join("s")));
        make(&open.join("own"), 0o755);
        assert!(may_listen(&open.join("own/s")), "whose folder it is counts");
        assert!(check(&Address::Abstract(b"name".to_vec()), STRANGER).is_err());
        for trusted in [0, rustix::process::geteuid().as_raw()] {
            check(&Address::Abstract(b"name".to_vec()), trusted).unwrap();
        }
    }

    #[test]
    fn a_strangers_folder_or_link_is_no_better_than_where_it_lies() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: only root can make things that are another user's");
        }
        let place = tempfile::tempdir().unwrap();
        let (closed, open) = (place.path().join("closed"), place.path().join("open"));
        make(&closed, 0o755);
        make(&open, 0o1777);
        for folder in [&closed, &open] {
            make(&folder.join("theirs"), 0o755);
            lchown(folder.join("theirs"), Some(STRANGER), None).unwrap();
        }
        assert!(may_listen(&closed.join("theirs/s")), "root has put it there");
        assert!(!may_listen(&open.join("theirs/s")), "they have");
        let link = open.join("link");
        symlink(closed.join("theirs"), &link).unwrap();
        assert!(may_listen(&link.join("s")));
        lchown(&link, Some(STRANGER), None).unwrap();
        assert!(!may_listen(&link.join("s")));
    }
}
