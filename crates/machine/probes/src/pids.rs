//! Sets of thread ids as bitmaps: the kernel hands ids out densely and never above a limit.

/// The kernel's upper limit for thread ids (PID_MAX_LIMIT); larger numbers are damage.
const MAX_PID: usize = 1 << 22;

/// Threads, in no order. At most 512 KiB.
#[derive(Debug, Default)]
pub(crate) struct PidBits(Vec<u64>);

impl PidBits {
    /// Adds one; true if it was not there. Numbers that no thread can have are never there.
    pub(crate) fn insert(&mut self, pid: i32) -> bool {
        let Some((word, bit)) = position(pid) else { return false };
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let Some(bits) = self.0.get_mut(word) else { return false };
        let is_new = *bits & bit == 0;
        *bits |= bit;
        is_new
    }

    pub(crate) fn contains(&self, pid: i32) -> bool {
        position(pid).is_some_and(|(word, bit)| self.0.get(word).is_some_and(|bits| bits & bit != 0))
    }

    pub(crate) fn remove(&mut self, pid: i32) {
        if let Some((word, bit)) = position(pid)
            && let Some(bits) = self.0.get_mut(word)
        {
            *bits &= !bit;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.fill(0);
    }
}

#[inline]
fn position(pid: i32) -> Option<(usize, u64)> {
    let pid = usize::try_from(pid).ok().filter(|&pid| pid < MAX_PID)?;
    Some((pid / 64, 1 << (pid % 64)))
}

/// Threads, each once, in the order in which they were first seen.
#[derive(Debug, Default)]
pub(crate) struct PidSet {
    seen: PidBits,
    pids: Vec<i32>,
}

impl PidSet {
    #[inline]
    pub(crate) fn insert(&mut self, pid: i32) {
        if !self.seen.contains(pid) {
            self.insert_new(pid);
        }
    }

    #[cold]
    fn insert_new(&mut self, pid: i32) {
        if self.seen.insert(pid) {
            self.pids.push(pid);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = i32> + '_ {
        self.pids.iter().copied()
    }

    pub(crate) fn clear(&mut self) {
        for pid in self.pids.drain(..) {
            self.seen.remove(pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_kept_once_in_order_and_nonsense_not_at_all() {
        let mut pids = PidSet::default();
        for pid in [5, 70, 5, -1, i32::MAX, i32::MIN, 4_194_303, 0, 70, 4_194_304] {
            pids.insert(pid);
        }
        assert_eq!(pids.iter().collect::<Vec<_>>(), [5, 70, 4_194_303, 0]);
        pids.clear();
        pids.insert(70);
        assert_eq!(pids.iter().collect::<Vec<_>>(), [70]);
    }
}
