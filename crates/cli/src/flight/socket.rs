//! Where a flight recorder with a service of its own can be found: a socket in a folder that only its user may enter.
//!
//! That folder is what keeps others out: whoever reaches the socket may record, and read what is recorded. So it must be a real folder of
//! this user, closed to everybody else. Root under `sudo` asks the recorder of the user before it, and takes nobody else for that one.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ferretto_ipc::address::{Address, environment};
use ferretto_ipc::socket::Stream;
use rustix::process::geteuid;

use super::DEFAULT_NAME;
use crate::report::UserError;
use crate::user;

/// Of the folder: for its user only.
const MODE: u32 = 0o700;
/// All permissions of group and others.
const OTHERS: u32 = 0o077;

/// The socket of a new recorder. Its folder is there afterwards, and nobody answers at it: a socket that a dead recorder has left behind is
/// replaced.
pub(crate) fn claim(name: &str) -> Result<PathBuf> {
    let folder = own_folder();
    make(&folder)?;
    let path = in_folder(&folder, name);
    if Stream::connect(&Address::Path(path.clone())).is_ok() {
        let error = UserError::new(format!("a flight recorder named \"{name}\" runs already"));
        let snapshot = match name {
            DEFAULT_NAME => "ferretto snapshot".to_owned(),
            name => format!("ferretto snapshot --name {name}"),
        };
        return Err(error
            .help(format!("take a snapshot of it: {snapshot}"))
            .help("or give the new one another name: --name NAME")
            .into());
    }
    Ok(path)
}

/// Where a recorder of this user may listen, and for root under `sudo` one of the user before it; and who is to listen there.
pub(crate) fn where_to_look(name: &str) -> Vec<(PathBuf, u32)> {
    let mut folders = vec![(own_folder(), geteuid().as_raw())];
    if let Some(uid) = user::before_sudo() {
        folders.push((PathBuf::from(format!("/run/user/{uid}/ferretto")), uid));
        folders.push((shared_temp(uid), uid));
    }
    folders.retain(|(folder, uid)| check(folder, *uid).is_ok());
    folders.into_iter().map(|(folder, uid)| (in_folder(&folder, name), uid)).collect()
}

fn in_folder(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.sock"))
}

fn own_folder() -> PathBuf {
    let uid = geteuid();
    if uid.is_root() {
        return PathBuf::from("/run/ferretto");
    }
    let of_session = environment("XDG_RUNTIME_DIR").map(PathBuf::from);
    // It stays set for another user after `su`.
    let is_own = |folder: &PathBuf| fs::metadata(folder).is_ok_and(|meta| meta.uid() == uid.as_raw());
    of_session.filter(is_own).map_or_else(|| shared_temp(uid.as_raw()), |folder| folder.join("ferretto"))
}

fn shared_temp(uid: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/ferretto-{uid}"))
}

fn make(folder: &Path) -> Result<()> {
    match DirBuilder::new().mode(MODE).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| format!("cannot make the folder {}", folder.display()));
        }
        _ => {}
    }
    check(folder, geteuid().as_raw())
}

/// In a shared folder such as /tmp somebody else may have been first.
fn check(folder: &Path, uid: u32) -> Result<()> {
    let meta =
        fs::symlink_metadata(folder).with_context(|| format!("cannot look at {}", folder.display()))?;
    if meta.is_dir() && meta.uid() == uid && meta.mode() & OTHERS == 0 {
        return Ok(());
    }
    let error =
        UserError::new(format!("{} is not a folder of yours that is closed to others", folder.display()));
    Err(error
        .help("remove it, or chmod 700 it if it is yours")
        .help("or set XDG_RUNTIME_DIR to a folder of yours")
        .into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_a_closed_folder_of_ones_own_will_do() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("ferretto");
        make(&folder).unwrap();
        make(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, MODE);

        let open = place.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(make(&open).is_err());

        let link = place.path().join("link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        assert!(make(&link).is_err());
        assert!(make(&place.path().join("no/such/place")).is_err());
        let another = geteuid().as_raw() + 1;
        assert!(check(&folder, another).is_err(), "whoever looks, root too: it is somebody else's");
    }
}
