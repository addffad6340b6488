//! How long a writer waits for memory.
//!
//! Only who has a chunk can give one back. What the service has comes back when it gets round to it. What writers hold comes back when
//! they have filled it: if they are all of the thread that waits, never; if they are of other threads, soon or, where those are idle, never.

use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// How long a writer stalls at most. Upstream waits about as long and aborts the process then.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long it waits for other threads while none of them takes a chunk or gives one back: a thread without pause fills hundreds in that
/// time, and for one that writes now and then nobody can say when it is done.
const THREADS_TIMEOUT: Duration = Duration::from_millis(100);
/// The longest pause between looks. Upstream's grow to 100 ms, in which a reader of the kernel's buffers falls behind by more than they
/// hold; a service that is only busy frees chunks within a few milliseconds.
const MAX_PAUSE: Duration = Duration::from_millis(2);

thread_local! {
    /// Its address tells threads apart that live at one time.
    static MARK: u8 = const { 0 };
}

/// No thread, and more than one: no variable lies there.
const NONE: usize = 0;
const SEVERAL: usize = 1;

/// Who takes chunks, and how many were taken.
#[derive(Debug, Default)]
pub(crate) struct Takers {
    thread: AtomicUsize,
    taken: AtomicU64,
    /// One more than `taken` when somebody last waited in vain for the service, and for other threads; 0 if nobody has.
    service_in_vain: AtomicU64,
    threads_in_vain: AtomicU64,
}

impl Takers {
    /// This thread has taken a chunk.
    pub(crate) fn take(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
        let this = this_thread();
        let known = self.thread.load(Ordering::Relaxed);
        if known != this && known != SEVERAL {
            let first = self.thread.compare_exchange(NONE, this, Ordering::Relaxed, Ordering::Relaxed);
            if first.is_err() {
                self.thread.store(SEVERAL, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether no other thread has ever taken one.
    pub(crate) fn are_this_thread(&self) -> bool {
        self.thread.load(Ordering::Relaxed) == this_thread()
    }
}

fn this_thread() -> usize {
    MARK.with(|mark| ptr::from_ref(mark).addr())
}

/// Who could give a chunk back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// The service, which has some or is being told of some; or a chunk has just become free.
    Service,
    /// Writers only, and not all of them are of this thread; or what is kept for a session that is still to come.
    Threads,
    /// Writers of this thread only: it cannot do both, wait and write.
    Nobody,
}

/// A wait of one writer.
#[derive(Debug)]
pub(crate) struct Stall {
    pause: Duration,
    waited: Duration,
    /// The part of it, up to now, in which only other threads could help and nothing happened.
    idle: Duration,
    taken: u64,
    /// Chunks were taken by others while it lasted.
    has_seen_others: bool,
}

impl Stall {
    /// So many chunks have been taken before.
    pub(crate) fn new(taken: u64) -> Self {
        let zero = Duration::ZERO;
        Self { pause: zero, waited: zero, idle: zero, taken, has_seen_others: false }
    }

    /// How long to sleep before the next look; `None` to give up.
    ///
    /// Where one has waited in vain another does not wait, for as long as nobody has got a chunk: a thread with many writers, each of which
    /// would wait, does nothing else for minutes otherwise.
    pub(crate) fn next_pause(&mut self, outlook: Outlook, takers: &Takers) -> Option<Duration> {
        let taken = takers.taken();
        let others_took = taken != self.taken;
        self.taken = taken;
        self.has_seen_others |= others_took;
        if outlook != Outlook::Threads || others_took {
            self.idle = Duration::ZERO;
        }
        let (in_vain, is_over) = match outlook {
            Outlook::Nobody => return None,
            Outlook::Service => (&takers.service_in_vain, self.waited >= STALL_TIMEOUT),
            Outlook::Threads => {
                (&takers.threads_in_vain, self.waited >= STALL_TIMEOUT || self.idle >= THREADS_TIMEOUT)
            }
        };
        if is_over && !self.has_seen_others {
            in_vain.store(taken.wrapping_add(1), Ordering::Relaxed);
        }
        if is_over || in_vain.load(Ordering::Relaxed) == taken.wrapping_add(1) {
            return None;
        }
        let pause = self.pause;
        self.waited += pause;
        self.idle += pause;
        self.pause = next_pause(pause);
        Some(pause)
    }
}

/// Upstream's ladder, but not as high: 0, 8 µs, 72 µs, 584 µs, [`MAX_PAUSE`].
fn next_pause(pause: Duration) -> Duration {
    ((pause + Duration::from_micros(1)) * 8).min(MAX_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a writer waits that sees this, and has `others` take a chunk every so often.
    fn waits(takers: &Takers, outlook: Outlook, others: Option<Duration>) -> Duration {
        let mut stall = Stall::new(takers.taken());
        let (mut waited, mut last) = (Duration::ZERO, Duration::ZERO);
        while let Some(pause) = stall.next_pause(outlook, takers) {
            waited += pause;
            if others.is_some_and(|period| waited >= last + period) {
                last = waited;
                takers.take();
            }
        }
        waited
    }

    /// As much as is asked for, or the pause more that has begun by then.
    fn is_about(waited: Duration, expected: Duration) -> bool {
        waited >= expected && waited <= expected + MAX_PAUSE
    }

    #[test]
    fn pauses_of_a_stall_stay_short() {
        let pauses = std::iter::successors(Some(Duration::ZERO), |pause| Some(next_pause(*pause)));
        let micros: Vec<u128> = pauses.take(6).map(|pause| pause.as_micros()).collect();
        assert_eq!(micros, [0, 8, 72, 584, 2000, 2000]);
    }

    #[test]
    fn the_service_is_waited_for_longest_and_the_own_thread_never() {
        let period = Some(Duration::from_millis(60));
        assert!(is_about(waits(&Takers::default(), Outlook::Service, None), STALL_TIMEOUT));
        assert!(is_about(waits(&Takers::default(), Outlook::Threads, None), THREADS_TIMEOUT));
        assert!(is_about(waits(&Takers::default(), Outlook::Threads, period), STALL_TIMEOUT));
        assert_eq!(waits(&Takers::default(), Outlook::Nobody, None), Duration::ZERO);
    }

    #[test]
    fn where_one_has_waited_in_vain_the_next_does_not() {
        let takers = Takers::default();
        assert!(is_about(waits(&takers, Outlook::Service, None), STALL_TIMEOUT));
        assert_eq!(waits(&takers, Outlook::Service, None), Duration::ZERO);
        takers.take();
        assert!(is_about(waits(&takers, Outlook::Threads, None), THREADS_TIMEOUT));
        assert_eq!(waits(&takers, Outlook::Threads, None), Duration::ZERO);
        assert!(is_about(waits(&takers, Outlook::Service, None), STALL_TIMEOUT), "it has chunks now");
    }

    #[test]
    fn who_gets_none_while_others_do_keeps_nobody_from_waiting() {
        let takers = Takers::default();
        assert!(is_about(waits(&takers, Outlook::Service, Some(Duration::from_secs(20))), STALL_TIMEOUT));
        assert!(is_about(waits(&takers, Outlook::Service, None), STALL_TIMEOUT));
    }

    #[test]
    fn threads_that_take_chunks_are_told_apart() {
        let takers = Takers::default();
        assert!(!takers.are_this_thread());
        takers.take();
        takers.take();
        assert!(takers.are_this_thread());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(!takers.are_this_thread());
                takers.take();
                assert!(!takers.are_this_thread());
            });
        });
        takers.take();
        assert!(!takers.are_this_thread());
    }
}
