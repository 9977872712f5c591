//! Passing bytes: they wait for a client, which may take for ever, and are evicted when others need the memory.

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use super::{Account, Holder};

/// The account's record of passing bytes.
pub(super) struct PassingEntry {
    holder: Holder,
    /// 0 after eviction.
    bytes: usize,
    since: Instant,
    is_evicted: bool,
    waker: Option<Waker>,
}

/// Bytes that are counted until this is dropped, [cleared](Passing::clear) or evicted. On eviction its owner is woken
/// and releases them.
pub(crate) struct Passing {
    account: Arc<Account>,
    holder: Cell<Holder>,
    /// Its place in the account, while it has bytes.
    place: Cell<Option<usize>>,
}

impl PassingEntry {
    pub(super) fn holder(&self) -> Holder {
        self.holder
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    pub(super) fn bytes_per_second(&self, now: Instant) -> u128 {
        self.bytes as u128 * 1000 / (self.age(now).as_millis() + 1)
    }

    /// Wakes its owner, and returns the bytes that are no longer counted.
    pub(super) fn evict(&mut self) -> (Holder, usize) {
        self.is_evicted = true;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
        (self.holder, std::mem::take(&mut self.bytes))
    }
}

impl Passing {
    /// Counts nothing yet.
    pub(crate) fn new(account: &Arc<Account>, holder: Holder) -> Self {
        Self { account: Arc::clone(account), holder: Cell::new(holder), place: Cell::new(None) }
    }

    /// Later counts are charged to `holder`. Bytes that are counted already keep their holder.
    pub(crate) fn belongs_to(&self, holder: Holder) {
        self.holder.set(holder);
    }

    /// Replaces the count with `bytes`. Returns `false` if it was evicted, or if there is no room for more; in the
    /// second case the count stays as it was.
    pub(crate) fn set(&self, bytes: usize) -> bool {
        let Some(place) = self.place.get() else { return self.begin(bytes) };
        let (holder, before) = {
            let mut passing = self.account.lock();
            let Some(entry) = passing.get_mut(place).filter(|entry| !entry.is_evicted) else {
                return false;
            };
            let before = entry.bytes;
            if bytes <= before {
                entry.bytes = bytes;
                self.account.take_off(entry.holder, before - bytes);
                return true;
            }
            (entry.holder, before)
        };
        if !self.account.add_evicting(holder, bytes - before, Some(place)) {
            return false;
        }
        let mut passing = self.account.lock();
        match passing.get_mut(place).filter(|entry| !entry.is_evicted) {
            Some(entry) => {
                entry.bytes = bytes;
                true
            }
            // Evicted in between, with its previous count.
            None => {
                self.account.take_off(holder, bytes - before);
                false
            }
        }
    }

    fn begin(&self, bytes: usize) -> bool {
        let holder = self.holder.get();
        if !self.account.add_evicting(holder, bytes, None) {
            return false;
        }
        let entry =
            PassingEntry { holder, bytes, since: Instant::now(), is_evicted: false, waker: None };
        self.place.set(Some(self.account.lock().insert(entry)));
        true
    }

    /// Whether it is counted, or was until it was evicted.
    pub(crate) fn is_counted(&self) -> bool {
        self.place.get().is_some()
    }

    /// Bytes that are counted.
    pub(crate) fn bytes(&self) -> usize {
        let Some(place) = self.place.get() else { return 0 };
        self.account.lock().get(place).map_or(0, PassingEntry::bytes)
    }

    /// Whether it was evicted. If not, the task is woken when it is.
    pub(crate) fn is_evicted(&self, cx: &Context<'_>) -> bool {
        let Some(place) = self.place.get() else { return false };
        let mut passing = self.account.lock();
        let Some(entry) = passing.get_mut(place) else { return false };
        if !entry.is_evicted {
            match &mut entry.waker {
                Some(waker) => waker.clone_from(cx.waker()),
                None => entry.waker = Some(cx.waker().clone()),
            }
        }
        entry.is_evicted
    }

    /// Whether it was evicted.
    pub(crate) fn was_evicted(&self) -> bool {
        let Some(place) = self.place.get() else { return false };
        self.account.lock().get(place).is_some_and(|entry| entry.is_evicted)
    }

    /// Makes it older by `by`.
    #[cfg(test)]
    pub(super) fn ages(&self, by: Duration) {
        let Some(place) = self.place.get() else { return };
        if let Some(entry) = self.account.lock().get_mut(place) {
            entry.since -= by;
        }
    }

    /// Counts nothing any more, as if it were new.
    pub(crate) fn clear(&self) {
        if let Some(place) = self.place.take() {
            let entry = self.account.lock().remove(place);
            self.account.take_off(entry.holder, entry.bytes);
        }
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        self.clear();
    }
}
