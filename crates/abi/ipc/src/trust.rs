//! Whom a program takes for the service.
//!
//! Whoever listens where programs look for one gets what they trace, or makes up what they read. Root may, and oneself; somebody else only
//! where nobody but root or oneself can have put the socket: so not at an abstract name, which is anybody's who comes first, and not
//! below a folder like `/tmp`.

use std::io;
use std::path::{Path, PathBuf};

use crate::address::Address;
use crate::walk::{self, Held, Verdict, walk};

/// Whether root and this user may be taken for the service wherever they listen; others depend on the place.
pub(crate) fn is_trusted_anywhere(uid: u32) -> bool {
    // A number that stands for several users is nobody's own.
    uid == 0 || uid == rustix::process::geteuid().as_raw() && ferretto_sys::overflow_user() != Some(uid)
}

/// An error, if this user is not to be taken for the service there. Otherwise nobody but root, this user or the listener can lead the path
/// elsewhere from now on: what is connected to afterwards is what was looked at.
pub(crate) fn check_place(address: &Address, listener: u32) -> io::Result<()> {
    if let Address::Path(path) = address {
        // Whoever names a socket from where he is may be in a neighbour's folder.
        let here = if path.is_absolute() { PathBuf::new() } else { std::env::current_dir()? };
        match walk(&here.join(path), &|folder, step| judge(folder, step, listener)) {
            Ok(place) if place.found.is_some() => return Ok(()),
            Ok(_) => return Err(io::ErrorKind::NotFound.into()),
            Err(walk::Error::System(error)) => return Err(error),
            Err(walk::Error::Refused { .. }) => {}
        }
    }
    let message = format!(
        "the service on {address} is user {listener}'s, at a place that anybody may take: it is not trusted; start it as root or as this user, or put its socket into a folder of its own"
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

/// The same for a socket file's owner, of whom it is not known yet who listens.
pub(crate) fn check_owner(address: &Address) -> io::Result<()> {
    match address {
        Address::Path(path) => check_place(address, rustix::fs::stat(path)?.st_uid),
        _ => Ok(()),
    }
}

/// A step is of root or of this user, where nobody else can take it away; or of the listener, where nobody else could make it, either.
fn judge(folder: Option<&Held>, step: &Held, listener: u32) -> Verdict {
    let is_lawless = || folder.is_some_and(|folder| folder.is_lawless(listener));
    let is_shared = || folder.is_some_and(|folder| folder.is_shared(listener));
    let owner = step.found.owner;
    match is_trusted_anywhere(owner) && !is_lawless() || owner == listener && !is_shared() {
        true => Verdict::GoOn,
        false => Verdict::Refuse,
    }
}

pub(crate) fn folder_of(socket: &Path) -> &Path {
    match socket.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Somebody who is not there.
    const STRANGER: u32 = 4242;

    fn make(folder: &Path, mode: u32) {
        fs::create_dir(folder).unwrap();
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn may_listen(socket: &Path) -> bool {
        check_place(&Address::Path(socket.to_owned()), STRANGER).is_ok()
    }

    /// As the stranger makes it, if this is root.
    fn listen(socket: &Path) -> UnixListener {
        let listener = UnixListener::bind(socket).unwrap();
        let _ = lchown(socket, Some(STRANGER), None);
        listener
    }

    #[test]
    fn a_stranger_may_listen_where_only_root_or_oneself_can_have_let_him() {
        let place = tempfile::tempdir().unwrap();
        let (closed, open) = (place.path().join("closed"), place.path().join("open"));
        make(&closed, 0o750);
        make(&open, 0o1777);
        make(&open.join("own"), 0o755);
        let _listeners = [closed.join("s"), open.join("s"), open.join("own/s")].map(|socket| listen(&socket));
        assert!(may_listen(&closed.join("s")));
        assert!(may_listen(&open.join("own/s")), "whose folder it is counts");
        assert!(check_place(&Address::Abstract(b"name".to_vec()), STRANGER).is_err());
        for trusted in [0, rustix::process::geteuid().as_raw()] {
            assert!(is_trusted_anywhere(trusted));
        }
        let lawless = fs::Permissions::from_mode(0o777);
        fs::set_permissions(&open, lawless).unwrap();
        assert!(!may_listen(&open.join("own/s")), "others may exchange the folder");
    }

    /// The only test here to whom it matters where this process is.
    #[test]
    fn from_within_a_folder_it_lies_where_it_lies() {
        let place = tempfile::tempdir().unwrap();
        let (closed, open) = (place.path().join("closed"), place.path().join("open"));
        make(&closed, 0o755);
        make(&open, 0o1777);
        let before = std::env::current_dir().unwrap();
        let mut listeners = Vec::new();
        for folder in [&closed, &open] {
            make(&folder.join("theirs"), 0o755);
            listeners.push(listen(&folder.join("theirs/s")));
            let is_theirs = lchown(folder.join("theirs"), Some(STRANGER), None).is_ok();
            std::env::set_current_dir(folder.join("theirs")).unwrap();
            let may = !is_theirs || *folder == closed;
            assert_eq!(may_listen(Path::new("s")), may, "{}", folder.display());
            assert_eq!(may_listen(Path::new("./../theirs/s")), may, "{}", folder.display());
        }
        std::env::set_current_dir(before).unwrap();
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
        let mut listeners = vec![listen(&open.join("s"))];
        for folder in [&closed, &open] {
            make(&folder.join("theirs"), 0o755);
            listeners.push(listen(&folder.join("theirs/s")));
            lchown(folder.join("theirs"), Some(STRANGER), None).unwrap();
        }
        assert!(!may_listen(&open.join("s")), "anybody could be there");
        assert!(may_listen(&closed.join("theirs/s")), "root has put it there");
        assert!(!may_listen(&open.join("theirs/s")), "they have");
        let link = open.join("link");
        symlink(closed.join("theirs"), &link).unwrap();
        assert!(may_listen(&link.join("s")));
        lchown(&link, Some(STRANGER), None).unwrap();
        assert!(!may_listen(&link.join("s")));
    }

    #[test]
    fn a_link_to_a_place_for_all_is_no_better_than_that() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: only root can make things that are another user's");
        }
        let place = tempfile::tempdir().unwrap();
        let (closed, open) = (place.path().join("closed"), place.path().join("open"));
        make(&closed, 0o755);
        make(&open, 0o1777);
        make(&place.path().join("home"), 0o755);
        let _listeners = [open.join("s"), place.path().join("home/s")].map(|socket| listen(&socket));
        symlink(open.join("s"), closed.join("socket")).unwrap();
        assert!(!may_listen(&closed.join("socket")), "the socket's own name is a link");
        symlink(place.path().join("home"), open.join("between")).unwrap();
        symlink(open.join("between"), closed.join("link")).unwrap();
        assert!(may_listen(&closed.join("link/s")));
        lchown(open.join("between"), Some(STRANGER), None).unwrap();
        assert!(!may_listen(&closed.join("link/s")), "one link on the way is theirs");
    }

    #[test]
    fn a_place_for_a_group_is_a_place_for_all_unless_nobody_else_is_in_it() {
        /// Nobody's own.
        const TEAM: u32 = 4343;
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: only root can make things that are another user's");
        }
        let place = tempfile::tempdir().unwrap();
        let shared = place.path().join("shared");
        make(&shared, 0o755);
        make(&shared.join("own"), 0o755);
        let socket = shared.join("own/s");
        let _listener = listen(&socket);
        for (group, mode, may) in [
            (TEAM, 0o2755, true),
            (TEAM, 0o2775, false),
            (TEAM, 0o3775, true),
            (STRANGER, 0o775, true),
            (0, 0o775, true),
        ] {
            lchown(&shared, None, Some(group)).unwrap();
            fs::set_permissions(&shared, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(may_listen(&socket), may, "{group} {mode:o}");
        }
        // Source: linux/posix_acl_xattr.h; whose rights, which, and his number.
        let list = [(1, 7, -1), (2, 7, 4444), (4, 5, -1), (0x10, 7, -1), (0x20, 5, -1)];
        let entry = |(tag, rights, id): (u16, u16, i32)| {
            [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let list = [2_u32.to_le_bytes().to_vec(), list.map(entry).concat()].concat();
        match rustix::fs::setxattr(&shared, "system.posix_acl_access", &list, rustix::fs::XattrFlags::empty())
        {
            Ok(()) => assert!(!may_listen(&socket), "a further user may write there"),
            Err(errno) => println!("skipped: no lists of users here: {errno}"),
        }
    }
}
