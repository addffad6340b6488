//! Files that configs name, and the service makes (`output_path`).
//!
//! The kernel would follow a link that a neighbour has put into a folder like `/tmp`, and make the file where he likes. So the path is followed
//! step by step ([`walk`]), and the file is made in the folder that it has led to, whatever its name leads to meanwhile.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use ferretto_ipc::walk::{self, Held, Place, Verdict, walk};
use rustix::fs::{FileType, Mode, OFlags, openat};
use rustix::process::geteuid;

use crate::users;

/// What a trace says of others is for its owner (upstream: 0644).
const MODE: u32 = 0o600;

/// Makes a file that must not be there.
///
/// # Errors
///
/// What the system says, or whose link it is that the path leads over.
pub(super) fn make(path: &Path) -> io::Result<OwnedFd> {
    let place = walk(path, &judge).map_err(explain)?;
    if place.found.is_some() || place.is_by_link {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    make_in(&place)
}

fn make_in(place: &Place) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(&place.folder.fd, &place.name, flags, Mode::from_raw_mode(MODE))?)
}

/// Links lead on where nobody else can have put them.
fn judge(folder: Option<&Held>, step: &Held) -> Verdict {
    let Some(folder) = folder.filter(|_| step.found.kind() == FileType::Symlink) else {
        return Verdict::GoOn;
    };
    let user = geteuid().as_raw();
    let is_the_services = users::is_trusted(folder.found.owner);
    let is_put_by_itself =
        !folder.is_shared(user) || users::is_trusted(step.found.owner) && !folder.is_lawless(user);
    match is_the_services && is_put_by_itself {
        true => Verdict::GoOn,
        false => Verdict::Refuse,
    }
}

fn explain(error: walk::Error) -> io::Error {
    match error {
        walk::Error::System(error) => error,
        walk::Error::Refused { name, owner } => {
            let name = OsStr::to_string_lossy(&name).into_owned();
            let text = format!(
                "it leads over the link {name:?}, which user {owner} has put there or could exchange; name where it leads to"
            );
            io::Error::other(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
    use std::path::PathBuf;

    use super::*;

    const NEIGHBOUR: u32 = 54_321;

    /// A folder with this mode, where a link leads to another one.
    fn place(mode: u32) -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("folder");
        fs::create_dir(&folder).unwrap();
        fs::create_dir(place.path().join("elsewhere")).unwrap();
        symlink("../elsewhere", folder.join("link")).unwrap();
        symlink("../elsewhere/dangling", folder.join("dangling")).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        (place, folder)
    }

    #[test]
    fn ones_own_link_is_followed_where_nobody_else_can_exchange_it() {
        for (mode, is_followed) in [(0o755, true), (0o1777, true), (0o777, false)] {
            let (place, folder) = place(mode);
            let made = make(&folder.join("link/trace"));
            assert_eq!(made.is_ok(), is_followed, "{mode:o}: {made:?}");
            assert_eq!(place.path().join("elsewhere/trace").exists(), is_followed);
            assert!(make(&folder.join("trace")).is_ok(), "{mode:o}");
        }
    }

    #[test]
    fn what_is_there_is_not_replaced_and_a_last_link_not_followed() {
        let (place, folder) = place(0o755);
        for name in ["dangling", "link", ".", "../folder"] {
            assert_eq!(make(&folder.join(name)).unwrap_err().kind(), io::ErrorKind::AlreadyExists, "{name}");
        }
        assert_eq!(make(&folder.join("no/such")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!place.path().join("elsewhere/dangling").exists());
        make(&folder.join("trace")).unwrap();
        assert_eq!(fs::metadata(folder.join("trace")).unwrap().permissions().mode() & 0o777, MODE);
    }

    #[test]
    fn a_neighbours_link_is_not_followed() {
        if !geteuid().is_root() {
            return println!("skipped: only root can make what is a neighbour's");
        }
        let (_place, shared) = place(0o1777);
        lchown(shared.join("link"), Some(NEIGHBOUR), None).unwrap();
        let error = make(&shared.join("link/trace")).unwrap_err().to_string();
        assert!(error.contains("\"link\", which user 54321"), "{error}");
        // Nor is what root has made in a neighbour's folder, who can bring anything there.
        let (_place, his) = place(0o755);
        chown(&his, Some(NEIGHBOUR), None).unwrap();
        assert!(make(&his.join("link/trace")).is_err());
    }

    #[test]
    fn what_the_name_leads_to_meanwhile_does_not_matter() {
        let (place, folder) = place(0o755);
        let held = walk(&folder.join("trace"), &judge).unwrap();
        fs::rename(&folder, place.path().join("moved")).unwrap();
        symlink("elsewhere", &folder).unwrap();
        make_in(&held).unwrap();
        assert!(place.path().join("moved/trace").exists() && !place.path().join("elsewhere/trace").exists());
    }
}
