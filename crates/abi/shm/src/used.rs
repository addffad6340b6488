//! Which pages of a producer's memory somebody has used. To look at others would make the system provide memory for them, on the account of
//! who looks.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::pages::Pages;

/// The smallest page is as large as the system's, or smaller.
const SYSTEM_PAGE: usize = 4096;

/// What is known of that. A page that was used once may be looked at from then on.
#[derive(Debug)]
pub(crate) struct Used {
    /// A bit a page.
    words: Box<[AtomicU64]>,
    count: AtomicU32,
    /// Some that were used are so no more. No honest producer does that; whoever looks there waits until it is done with it (fallocate(2)).
    is_torn: AtomicBool,
}

impl Used {
    pub(crate) fn new(pages: &Pages) -> Self {
        let words = pages.count().div_ceil(u64::BITS);
        Self {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            count: AtomicU32::new(0),
            is_torn: AtomicBool::new(false),
        }
    }

    pub(crate) fn is_known(&self, page: u32) -> bool {
        self.word(page).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// Whether a page is used. Of memory that is torn none is.
    #[inline]
    pub(crate) fn find_out(&self, pages: &Pages, page: u32) -> bool {
        !self.is_torn() && (self.is_known(page) || self.look(pages, page))
    }

    pub(crate) fn is_torn(&self) -> bool {
        self.is_torn.load(Ordering::Relaxed)
    }

    /// Asks whether it is. Once it was, it stays so.
    pub(crate) fn look_for_tears(&self, pages: &Pages) {
        // Of each page that is used the system provides the first part at least.
        if pages.memory().provided_bytes().is_some_and(|provided| provided < self.known_bytes()) {
            self.is_torn.store(true, Ordering::Relaxed);
        }
    }

    #[cold]
    fn look(&self, pages: &Pages, page: u32) -> bool {
        let Some((word, bit)) = self.word(page) else { return false };
        let is_used = pages.memory().may_be_set(page as usize * pages.page_size().bytes());
        if is_used && word.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        is_used
    }

    /// Whether there are none but those that are known. May be `false` where there are none, too.
    pub(crate) fn are_all_known(&self, pages: &Pages) -> bool {
        // Of a larger page only a part may be provided, which says nothing of others.
        let is_exact = pages.page_size().bytes() == SYSTEM_PAGE;
        let known = if is_exact { self.known_bytes() } else { 0 };
        pages.memory().provided_bytes().is_some_and(|provided| provided <= known)
    }

    fn known_bytes(&self) -> u64 {
        u64::from(self.count.load(Ordering::Relaxed)) * SYSTEM_PAGE as u64
    }

    fn word(&self, page: u32) -> Option<(&AtomicU64, u64)> {
        Some((self.words.get((page / u64::BITS) as usize)?, 1 << (page % u64::BITS)))
    }
}
