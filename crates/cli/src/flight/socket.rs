//! Where a flight recorder with a service of its own can be found: a socket in a folder that only its user may enter.
//!
//! That folder is what keeps others out: whoever reaches the socket may record, and read what is recorded. So it must be a real folder of
//! this user, closed to everybody else: where a neighbour has made one of its name before, another one is taken. Root under `sudo` asks the recorder of the user before it, and takes nobody else for that one.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ferretto_ipc::address::{Address, environment};
use ferretto_ipc::socket::Stream;
use rustix::process::geteuid;

use super::DEFAULT_NAME;
use crate::private::unguessable;
use crate::report::UserError;
use crate::user;

/// Of the folder: for its user only.
const MODE: u32 = 0o700;
/// All permissions of group and others.
const OTHERS: u32 = 0o077;

/// The socket of a new recorder. Its folder is there afterwards, and nobody answers at it: a socket that a dead recorder has left behind is
/// replaced.
pub(crate) fn claim(name: &str) -> Result<PathBuf> {
    let home = Home::own();
    let folder = home.make()?;
    let runs = |folder: &PathBuf| Stream::connect(&Address::Path(in_folder(folder, name))).is_ok();
    if home.folders().iter().any(runs) {
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
    Ok(in_folder(&folder, name))
}

/// Where a recorder of this user may listen, and for root under `sudo` one of the user before it; and who is to listen there.
pub(crate) fn where_to_look(name: &str) -> Vec<(PathBuf, u32)> {
    let mut homes = vec![Home::own()];
    if let Some(user) = user::before_sudo() {
        homes.push(Home { user, place: Place::Own(PathBuf::from(format!("/run/user/{user}/ferretto"))) });
        homes.push(Home::in_temp(user));
    }
    let sockets = |home: &Home| {
        home.folders().into_iter().map(|folder| (in_folder(&folder, name), home.user)).collect::<Vec<_>>()
    };
    homes.iter().flat_map(sockets).collect()
}

fn in_folder(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.sock"))
}

/// Where a user's recorders have their folder.
#[derive(Debug)]
struct Home {
    user: u32,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// This is the folder, and nobody else can have made it.
    Own(PathBuf),
    /// It is in this one, in which everybody may make names: `ferretto-UID`, or if somebody else was first, one that begins like this and that
    /// nobody could know.
    Shared(PathBuf),
}

impl Home {
    fn own() -> Self {
        let user = geteuid();
        if user.is_root() {
            return Self { user: 0, place: Place::Own(PathBuf::from("/run/ferretto")) };
        }
        let user = user.as_raw();
        let of_session = environment("XDG_RUNTIME_DIR").map(PathBuf::from);
        // It stays set for another user after `su`.
        let is_own = |folder: &PathBuf| fs::metadata(folder).is_ok_and(|meta| meta.uid() == user);
        match of_session.filter(is_own) {
            Some(folder) => Self { user, place: Place::Own(folder.join("ferretto")) },
            None => Self::in_temp(user),
        }
    }

    fn in_temp(user: u32) -> Self {
        Self { user, place: Place::Shared(PathBuf::from("/tmp")) }
    }

    /// Those that are there and will do, best first.
    fn folders(&self) -> Vec<PathBuf> {
        let will_do = |folder: &PathBuf| check(folder, self.user).is_ok();
        let shared = match &self.place {
            Place::Own(folder) => return Some(folder.clone()).filter(will_do).into_iter().collect(),
            Place::Shared(shared) => shared,
        };
        let first = self.name();
        let begins = format!("{first}-");
        let names = fs::read_dir(shared).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let further = names.filter(|name| name.as_encoded_bytes().starts_with(begins.as_bytes()));
        std::iter::once(first.into()).chain(further).map(|name| shared.join(name)).filter(will_do).collect()
    }

    /// One that is there afterwards.
    fn make(&self) -> Result<PathBuf> {
        let folder = match &self.place {
            Place::Own(folder) => folder.clone(),
            Place::Shared(shared) => match self.folders().into_iter().next() {
                Some(found) => return Ok(found),
                None => shared.join(self.name()),
            },
        };
        match (make(&folder), &self.place) {
            (Ok(()), _) => Ok(folder),
            (Err(error), Place::Own(_)) => Err(error),
            (Err(_), Place::Shared(shared)) => {
                let folder = shared.join(format!("{}-{:016x}", self.name(), unguessable()));
                make(&folder).map(|()| folder)
            }
        }
    }

    fn name(&self) -> String {
        format!("ferretto-{}", self.user)
    }
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

    #[test]
    fn who_takes_the_first_name_keeps_nobody_out() {
        let temp = tempfile::tempdir().unwrap();
        let home = Home { user: geteuid().as_raw(), place: Place::Shared(temp.path().to_owned()) };
        let first = temp.path().join(home.name());
        fs::create_dir(&first).unwrap();
        fs::set_permissions(&first, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(home.folders().is_empty());
        let other = home.make().unwrap();
        assert!(other != first && check(&other, home.user).is_ok(), "{}", other.display());
        // A neighbour's or a link would not do either.
        fs::create_dir(temp.path().join(format!("{}-planted", home.name()))).unwrap();
        assert_eq!(home.folders(), std::slice::from_ref(&other));
        assert_eq!(home.make().unwrap(), other);
        fs::remove_dir(&first).unwrap();
        let neighbour = Home { user: home.user + 1, place: Place::Shared(temp.path().to_owned()) };
        assert!(neighbour.folders().is_empty());
        fs::remove_dir(&other).unwrap();
        assert_eq!(home.make().unwrap(), first);
    }
}
