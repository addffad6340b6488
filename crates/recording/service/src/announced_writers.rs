//! Writers that producers have announced, by user: bounded in sum, for each is remembered as long as its producer stays.

use std::collections::BTreeMap;

use crate::limits;

/// How many there are.
#[derive(Debug, Default)]
pub(crate) struct AnnouncedWriters {
    of_users: BTreeMap<u32, usize>,
}

impl AnnouncedWriters {
    /// One more of a user, if there is room for it.
    pub(crate) fn add(&mut self, user: u32) -> bool {
        let count = self.of_users.entry(user).or_default();
        let has_room = *count < limits::MAX_ANNOUNCED_WRITERS_PER_UID;
        *count += usize::from(has_room);
        has_room
    }

    pub(crate) fn remove(&mut self, user: u32, count: usize) {
        if let Some(found) = self.of_users.get_mut(&user) {
            *found = found.saturating_sub(count);
            if *found == 0 {
                self.of_users.remove(&user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_so_many_and_gets_those_back_that_go() {
        let mut writers = AnnouncedWriters::default();
        let added = |writers: &mut AnnouncedWriters, user| {
            (0..=limits::MAX_ANNOUNCED_WRITERS_PER_UID).take_while(|_| writers.add(user)).count()
        };
        assert_eq!(added(&mut writers, 1), limits::MAX_ANNOUNCED_WRITERS_PER_UID);
        assert!(writers.add(2));
        writers.remove(1, 3);
        assert_eq!(added(&mut writers, 1), 3);
        writers.remove(1, limits::MAX_ANNOUNCED_WRITERS_PER_UID);
        writers.remove(2, 1);
        assert!(writers.of_users.is_empty());
    }
}
