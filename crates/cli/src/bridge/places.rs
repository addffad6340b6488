//! The places of pages, of which no user has all: every user of the machine can connect, and say that he is a page.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Connections of pages that may, at a time. A page holds two for each recording, and some for a moment with adb.
pub(super) const MAX_CONNECTIONS: usize = 64;
/// Of others than root and the bridge's own user, together and for one of them. Who is not known is one of them.
const MAX_OF_OTHERS: usize = 48;
/// As above.
const MAX_OF_OTHER: usize = 12;

/// Who has how many.
#[derive(Debug, Default)]
pub(super) struct Places {
    users: Mutex<BTreeMap<Option<u32>, usize>>,
}

/// One of them; given back when dropped.
#[derive(Debug)]
pub(super) struct Place<'a> {
    places: &'a Places,
    user: Option<u32>,
}

impl Places {
    /// A place for this user, if there is one.
    pub(super) fn enter(&self, user: Option<u32>) -> Option<Place<'_>> {
        self.enter_as(user, is_privileged(user))
    }

    fn enter_as(&self, user: Option<u32>, is_privileged: bool) -> Option<Place<'_>> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = users.values().sum();
        let own = users.entry(user).or_default();
        let (max, max_of_user) = match is_privileged {
            true => (MAX_CONNECTIONS, MAX_CONNECTIONS),
            false => (MAX_OF_OTHERS, MAX_OF_OTHER),
        };
        if all >= max || *own >= max_of_user {
            return None;
        }
        *own += 1;
        Some(Place { places: self, user })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut users = self.places.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = users.get_mut(&self.user) {
            *own = own.saturating_sub(1);
        }
        users.retain(|_, own| *own > 0);
    }
}

fn is_privileged(user: Option<u32>) -> bool {
    user.is_some_and(|user| {
        let is_own = user == rustix::process::geteuid().as_raw();
        user == 0 || (is_own && Some(user) != ferretto_sys::overflow_user())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter_all<'a>(places: &'a Places, user: Option<u32>, is_privileged: bool) -> Vec<Place<'a>> {
        std::iter::from_fn(|| places.enter_as(user, is_privileged)).collect()
    }

    #[test]
    fn no_user_has_all_places_and_root_and_the_own_user_have_some_in_reserve() {
        let places = Places::default();
        let first = enter_all(&places, Some(1), false);
        let unknown = enter_all(&places, None, false);
        assert_eq!((first.len(), unknown.len()), (12, 12));
        let others: Vec<_> = (2..6).flat_map(|user| enter_all(&places, Some(user), false)).collect();
        assert_eq!(others.len(), 24);
        let own = enter_all(&places, Some(0), true);
        assert_eq!(own.len(), 16);
        drop(first);
        assert_eq!(enter_all(&places, Some(0), true).len(), 12);
        drop((own, others, unknown));
        assert!(places.users.lock().unwrap().is_empty());
        assert_eq!(enter_all(&places, Some(0), true).len(), MAX_CONNECTIONS);
    }
}
