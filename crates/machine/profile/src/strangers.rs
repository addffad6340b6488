//! What is spent on programs of strangers, in time and bytes, and what is kept of them: each user's is bounded, so that none takes what others would have.
//!
//! A stranger is who is neither root nor the user that this program runs as. What he has his programs map is read at his cost, whatever is in it and however
//! long it takes; files that only root or this program's user can have written cost nobody anything. Once it is spent his programs have no names for a
//! while: what is spent is forgotten after [`MEMORY`], as the probes have it (`memory_files.rs` of ferretto-probes).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// For so long what was spent counts; and for so long, or until it comes back if that is later, a look that was left behind.
pub(crate) const MEMORY: Duration = Duration::from_secs(10);
/// Time of each kind of work, of a user's within [`MEMORY`]: a tenth. Nobody has others wait for longer.
const MAX_TIME: Duration = Duration::from_secs(1);
/// Bytes of each kind, of a user's within [`MEMORY`]. Of his own programs the symbols and the rest that is read are some ten megabytes, those of large ones
/// with debugging information 50.
const MAX_BYTES: u64 = 64 << 20;
/// Memory for names, rules of unwinding and what `/proc` said, of a user's programs together.
const MAX_KEPT_BYTES: usize = 256 << 20;
/// Mappings of code, of a user's processes together: several thousand processes with some dozen libraries each.
const MAX_MAPPINGS: usize = 256 << 10;
/// Threads that are left behind, of one user's things and of all. Beyond, these are not looked at.
const MAX_LEFT_OF_A_USER: usize = 2;
const MAX_LEFT: usize = 16;
/// For so long nothing is opened when there were no descriptors left.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);
/// As whose that is counted of which it is not known: no user has this number (chown(2)).
const NOBODY_KNOWN: u32 = u32::MAX;

/// Whose something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Whose {
    /// Root's, or this program's own user's.
    #[default]
    Trusted,
    /// Another user's.
    Stranger(u32),
}

impl Whose {
    fn of(user: u32) -> Self {
        let own = rustix::process::geteuid().as_raw();
        if user == 0 || user == own { Self::Trusted } else { Self::Stranger(user) }
    }
}

/// What is done for somebody's programs. Each kind has its own time and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Work {
    /// To ask `/proc` about them.
    Processes,
    /// To read their files, and to remember where these are mapped.
    Files,
    /// To unwind their stacks, beyond what an honest one takes.
    Stacks,
}

/// What is kept of somebody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kept {
    Bytes,
    Mappings,
}

impl Kept {
    fn most(self) -> usize {
        match self {
            Self::Bytes => MAX_KEPT_BYTES,
            Self::Mappings => MAX_MAPPINGS,
        }
    }
}

/// It is not to be had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) until: Instant,
}

/// What there is to spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) time: Duration,
    pub(crate) bytes: u64,
    /// That is all that there ever is.
    pub(crate) is_all: bool,
}

/// The books of all users. Clones are the same ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileBooks(Arc<Mutex<Books>>);

#[derive(Debug, Default)]
struct Books {
    /// All are trusted: whoever runs this has named the programs himself.
    trusts_all: bool,
    spent: HashMap<(Work, u32), Spent, RandomState>,
    kept: HashMap<(Kept, u32), usize, RandomState>,
    left_behind: Vec<LeftBehind>,
    paused_until: Option<Instant>,
    has_said_paused: bool,
}

#[derive(Clone, Copy, Debug)]
struct Spent {
    since: Instant,
    time: Duration,
    bytes: u64,
    has_said: bool,
}

impl Spent {
    fn is_all(&self) -> bool {
        self.time >= MAX_TIME || self.bytes >= MAX_BYTES
    }
}

#[derive(Debug)]
struct LeftBehind {
    of: Whose,
    at: Instant,
    is_back: Arc<AtomicBool>,
}

/// A part of what somebody may have kept; it is given back with this.
#[derive(Debug)]
pub(crate) struct Held {
    books: FileBooks,
    what: Kept,
    whose: Whose,
    amount: usize,
}

impl FileBooks {
    /// For programs that whoever runs this has named, and which may be his own or not: nothing is bounded but how long one waits.
    pub(crate) fn that_trust_all() -> Self {
        let books = Self::default();
        books.lock().trusts_all = true;
        books
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        // What panics elsewhere leaves numbers whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn trust_all(&self) -> bool {
        self.lock().trusts_all
    }

    /// Whose what has this owner is.
    pub(crate) fn whose(&self, user: u32) -> Whose {
        if self.lock().trusts_all { Whose::Trusted } else { Whose::of(user) }
    }

    /// As whose that counts of which it is not known.
    pub(crate) fn unknown(&self) -> Whose {
        self.whose(NOBODY_KNOWN)
    }

    /// What may be spent on it now.
    pub(crate) fn left(&self, work: Work, whose: Whose) -> Result<Left, Refused> {
        self.lock().left(work, whose)
    }

    /// Puts on somebody's account what was spent.
    pub(crate) fn spend(&self, work: Work, whose: Whose, time: Duration, bytes: u64) {
        if let Whose::Stranger(user) = whose {
            self.lock().spend((work, user), time, bytes);
        }
    }

    /// A look did not come back in time. Whoever is still there says so by what is returned, if he comes back.
    pub(crate) fn leave_behind(&self, of: Whose, is_back: Arc<AtomicBool>) {
        self.lock().left_behind.push(LeftBehind { of, at: Instant::now(), is_back });
    }

    /// There are no descriptors left: nothing is opened for a while.
    pub(crate) fn pause(&self, error: rustix::io::Errno) {
        let mut books = self.lock();
        books.paused_until = Some(Instant::now() + PAUSE);
        if !std::mem::replace(&mut books.has_said_paused, true) {
            tracing::error!(
                "files of programs are not read for a while, and these have no names: {error} (`ulimit -n`, or fs.file-max)"
            );
        }
    }

    /// So much of somebody's is kept, if it may be.
    pub(crate) fn hold(&self, what: Kept, whose: Whose, amount: usize) -> Option<Held> {
        let mut held = Held { books: self.clone(), what, whose, amount: 0 };
        held.set(amount).then_some(held)
    }

    #[cfg(test)]
    pub(crate) fn pass(&self, time: Duration) {
        let mut books = self.lock();
        books.spent.values_mut().for_each(|spent| spent.since -= time);
        books.left_behind.iter_mut().for_each(|left| left.at -= time);
        books.paused_until = books.paused_until.map(|until| until - time);
    }

    #[cfg(test)]
    pub(crate) fn kept(&self, what: Kept, whose: Whose) -> usize {
        let Whose::Stranger(user) = whose else { return 0 };
        self.lock().kept.get(&(what, user)).copied().unwrap_or_default()
    }
}

/// The time of a processor that this thread has taken.
pub(crate) fn own_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}

impl Books {
    fn left(&mut self, work: Work, whose: Whose) -> Result<Left, Refused> {
        self.forgive();
        if let Some(until) = self.paused_until {
            return Err(Refused { until });
        }
        let now = Instant::now();
        let of_user = self.left_behind.iter().filter(|left| left.of == whose).count();
        if self.left_behind.len() >= MAX_LEFT || of_user >= MAX_LEFT_OF_A_USER {
            return Err(Refused { until: now + MEMORY });
        }
        let Whose::Stranger(user) = whose else {
            return Ok(Left { time: Duration::MAX, bytes: u64::MAX, is_all: true });
        };
        match self.spent.get(&(work, user)) {
            Some(spent) if spent.is_all() => Err(Refused { until: spent.since + MEMORY }),
            Some(spent) => Ok(Left {
                time: MAX_TIME - spent.time,
                bytes: MAX_BYTES - spent.bytes,
                is_all: spent.bytes == 0,
            }),
            None => Ok(Left { time: MAX_TIME, bytes: MAX_BYTES, is_all: true }),
        }
    }

    fn spend(&mut self, of: (Work, u32), time: Duration, bytes: u64) {
        self.forgive();
        let none = || Spent { since: Instant::now(), time: Duration::ZERO, bytes: 0, has_said: false };
        let spent = self.spent.entry(of).or_insert_with(none);
        spent.time += time;
        spent.bytes = spent.bytes.saturating_add(bytes);
        if spent.is_all() && !std::mem::replace(&mut spent.has_said, true) {
            let (work, user) = of;
            let what = match work {
                Work::Processes => "what is said of more processes",
                Work::Files => "names of functions of more files and mappings",
                Work::Stacks => "all of each stack but where it is",
            };
            tracing::warn!(
                "{what} of user {user} is left out for up to {} s: it has taken {} ms and {} bytes",
                MEMORY.as_secs(),
                spent.time.as_millis(),
                spent.bytes
            );
        }
    }

    /// Forgets what is long ago and has come back.
    fn forgive(&mut self) {
        self.spent.retain(|_, spent| spent.since.elapsed() < MEMORY);
        self.left_behind.retain(|left| !left.is_back.load(Ordering::Acquire) || left.at.elapsed() < MEMORY);
        self.paused_until = self.paused_until.filter(|until| Instant::now() < *until);
    }
}

impl Held {
    /// Nothing yet.
    pub(crate) fn none(books: &FileBooks, what: Kept, whose: Whose) -> Self {
        Self { books: books.clone(), what, whose, amount: 0 }
    }

    /// It is so much from now on, unless that is more than may be: then it is as it was.
    #[must_use]
    pub(crate) fn set(&mut self, amount: usize) -> bool {
        let Whose::Stranger(user) = self.whose else { return true };
        let mut books = self.books.lock();
        let all = books.kept.entry((self.what, user)).or_default();
        let after = *all - self.amount + amount;
        let is_room = amount <= self.amount || after <= self.what.most();
        if is_room {
            *all = after;
            self.amount = amount;
        }
        if *all == 0 {
            books.kept.remove(&(self.what, user));
        }
        is_room
    }

    pub(crate) fn amount(&self) -> usize {
        self.amount
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Less is always possible.
        let _ = self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HE: Whose = Whose::Stranger(4_000_001);
    const SHE: Whose = Whose::Stranger(4_000_002);

    #[test]
    fn a_stranger_has_so_much_time_and_so_many_bytes_and_others_theirs() {
        for (time, bytes) in [(MAX_TIME, 0), (Duration::ZERO, MAX_BYTES)] {
            let books = FileBooks::default();
            books.spend(Work::Files, HE, time / 2, bytes / 2);
            let left = books.left(Work::Files, HE).unwrap();
            assert_eq!((left.time, left.bytes), (MAX_TIME - time / 2, MAX_BYTES - bytes / 2));
            assert_eq!(left.is_all, bytes == 0);
            books.spend(Work::Files, HE, time, bytes);
            let refused = books.left(Work::Files, HE).unwrap_err();
            assert!(refused.until > Instant::now());
            assert!(books.left(Work::Processes, HE).is_ok(), "each kind has its own");
            books.spend(Work::Files, Whose::Trusted, time * 9, bytes);
            assert!(books.left(Work::Files, SHE).is_ok() && books.left(Work::Files, Whose::Trusted).is_ok());
            books.pass(MEMORY);
            assert!(books.left(Work::Files, HE).is_ok());
        }
    }

    #[test]
    fn what_is_kept_of_a_stranger_is_bounded_and_given_back() {
        let books = FileBooks::default();
        let most = Kept::Bytes.most();
        let mut first = books.hold(Kept::Bytes, HE, most - 1).unwrap();
        assert!(books.hold(Kept::Bytes, HE, 2).is_none() && !first.set(most + 1));
        assert!(books.hold(Kept::Bytes, SHE, most).is_some() && books.hold(Kept::Mappings, HE, 2).is_some());
        assert!(books.hold(Kept::Bytes, Whose::Trusted, usize::MAX).is_some());
        assert!(first.set(most / 2));
        let second = books.hold(Kept::Bytes, HE, most / 2).unwrap();
        drop((first, second));
        assert_eq!(books.kept(Kept::Bytes, HE), 0);
        assert!(books.lock().kept.is_empty());
    }

    #[test]
    fn looks_left_behind_count_for_a_time_and_until_they_come_back() {
        let books = FileBooks::default();
        let (first, second) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
        books.leave_behind(HE, first.clone());
        assert!(books.left(Work::Files, HE).is_ok());
        books.leave_behind(HE, second);
        assert!(books.left(Work::Files, HE).is_err() && books.left(Work::Files, SHE).is_ok());
        books.pass(MEMORY);
        assert!(books.left(Work::Files, HE).is_ok(), "one has come back, and that is long ago");
        books.leave_behind(HE, Arc::new(AtomicBool::new(false)));
        books.pass(MEMORY);
        assert!(books.left(Work::Files, HE).is_err(), "two are still there, however long ago");
        first.store(true, Ordering::Release);
        assert!(books.left(Work::Files, HE).is_ok());
        for user in 0..MAX_LEFT as u32 {
            books.leave_behind(Whose::Stranger(5_000_000 + user), Arc::new(AtomicBool::new(false)));
        }
        assert!(books.left(Work::Files, Whose::Trusted).is_err());
    }

    #[test]
    fn without_descriptors_nothing_is_opened_for_a_while() {
        let books = FileBooks::default();
        books.pause(rustix::io::Errno::MFILE);
        assert!(books.left(Work::Files, Whose::Trusted).is_err());
        books.pass(PAUSE);
        assert!(books.left(Work::Files, Whose::Trusted).is_ok());
    }

    #[test]
    fn programs_that_were_named_are_not_bounded() {
        let own = rustix::process::geteuid().as_raw();
        assert_eq!([0, own].map(Whose::of), [Whose::Trusted; 2]);
        let books = FileBooks::default();
        assert_eq!(books.whose(4_000_001), HE);
        assert_eq!(FileBooks::that_trust_all().whose(4_000_001), Whose::Trusted);
    }
}
