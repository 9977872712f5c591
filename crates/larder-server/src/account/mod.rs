//! What clients cause in memory: one account of the process, which tenants share by their weights.
//!
//! What there is of it, and where that ends:
//!
//! - [`Kept`]: commands between MULTI and EXEC, watched keys, keys that a walk has found; refused beyond half of the
//!   tenant's share.
//! - [`Passing`]: half-sent requests, answers that a client does not take; beyond the share as long as others leave
//!   room; then the slowest end.
//! - [`Busy`]: buffers of a request that waits, for flash say; its tenant's next requests are not read before there
//!   is room.
//!
//! Connections that have not logged in share an eighth, whichever tenant they mean. Invariants: what is counted is what
//! its owner holds, or what was promised back by one that was evicted and runs next; kept bytes of all tenants together
//! are never more than half of the account, so that evicting what passes makes room for any tenant below its share.

mod passing;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use slab::Slab;

use self::passing::Entry;
pub(crate) use self::passing::Passing;

/// The part of clients that have not logged in.
const STRANGERS_PART: usize = 8;
/// What passes is not evicted for its own tenant's requests before it is as old.
const GRACE: Duration = Duration::from_secs(1);
/// What a request that waits has: two buffers, and its futures.
pub(crate) const BUSY_BYTES: usize = 36 << 10;

/// Whose bytes they are: the place of a tenant, or that of the clients that have not logged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder(usize);

/// See the module.
pub(crate) struct Account {
    bytes_max: usize,
    used: AtomicUsize,
    /// The most that was used since [`Account::take_peak`].
    peak: AtomicUsize,
    /// Of each tenant, and behind them of those that have not logged in.
    holders: Box<[Held]>,
    passing: Mutex<Slab<Entry>>,
    evicted: AtomicUsize,
}

#[derive(Default)]
struct Held {
    used: AtomicUsize,
    /// The part of `used` that is not evicted.
    kept: AtomicUsize,
    weight: AtomicUsize,
}

/// Bytes that are counted until this is dropped, and are not evicted.
pub(crate) struct Kept {
    account: Arc<Account>,
    holder: Holder,
    bytes: usize,
}

/// The buffers of a request that waits, until this is dropped.
pub(crate) struct Busy(Arc<Account>, Holder);

impl Account {
    /// An account of `bytes_max` bytes for `tenants` tenants of equal weights.
    pub(crate) fn new(bytes_max: usize, tenants: usize) -> Self {
        let held = || Held { weight: AtomicUsize::new(1), ..Held::default() };
        Self {
            bytes_max,
            used: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            holders: (0..=tenants).map(|_| held()).collect(),
            passing: Mutex::default(),
            evicted: AtomicUsize::new(0),
        }
    }

    /// The tenant of this number.
    pub(crate) fn tenant(&self, number: usize) -> Holder {
        assert!(number < self.holders.len() - 1, "there is such a tenant");
        Holder(number)
    }

    /// Clients that have not logged in.
    pub(crate) fn strangers(&self) -> Holder {
        Holder(self.holders.len() - 1)
    }

    /// A tenant has this weight from now on.
    pub(crate) fn set_weight(&self, tenant: usize, weight: u16) {
        self.holders[tenant].weight.store(usize::from(weight.max(1)), Ordering::Relaxed);
    }

    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Bytes that clients hold.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// The most that clients held at a time since this was called last.
    pub(crate) fn take_peak(&self) -> usize {
        self.peak.swap(self.used(), Ordering::Relaxed)
    }

    /// Half-sent requests and answers that were ended for the memory that they held.
    pub(crate) fn evicted(&self) -> usize {
        self.evicted.load(Ordering::Relaxed)
    }

    /// What `holder` may have when all want as much as they can get.
    pub(crate) fn share(&self, holder: Holder) -> usize {
        let strangers = self.bytes_max / STRANGERS_PART;
        if holder == self.strangers() {
            return strangers;
        }
        let weight = |held: &Held| held.weight.load(Ordering::Relaxed);
        let tenants = self.holders.split_last().map_or(&[][..], |(_, tenants)| tenants);
        let all: usize = tenants.iter().map(weight).sum();
        (self.bytes_max - strangers) / all.max(1) * weight(&self.holders[holder.0])
    }

    /// Nothing yet, of which more can be kept ([`Kept::grow`]).
    pub(crate) fn keep(self: &Arc<Self>, holder: Holder) -> Kept {
        Kept { account: Arc::clone(self), holder, bytes: 0 }
    }

    /// Counts the buffers of a request that has begun, and waits.
    pub(crate) fn is_busy(self: &Arc<Self>, holder: Holder) -> Busy {
        self.add(holder, BUSY_BYTES);
        Busy(Arc::clone(self), holder)
    }

    /// Whether the next request of `holder` may be read. If that needs it, what passes slowest is evicted.
    pub(crate) fn may_begin(&self, holder: Holder) -> bool {
        if self.used() + BUSY_BYTES <= self.bytes_max / 2 {
            return true;
        }
        let used = self.holders[holder.0].used.load(Ordering::Relaxed);
        if used + BUSY_BYTES > self.share(holder) {
            return self.evict_own(holder);
        }
        // It has its share, whatever others hold beyond theirs.
        self.make_room(holder, BUSY_BYTES, None);
        true
    }

    /// Evicts the slowest of what passes for `holder`, if it had its time. Says whether there was something.
    fn evict_own(&self, holder: Holder) -> bool {
        let (mut passing, now) = (self.lock(), Instant::now());
        let old = |entry: &Entry| {
            entry.holder() == holder && entry.bytes() > 0 && entry.age(now) >= GRACE
        };
        let slowest = passing.iter_mut().filter(|(_, entry)| old(entry));
        let slowest = slowest.min_by_key(|(_, entry)| entry.bytes_per_second(now));
        let Some((_, entry)) = slowest else { return false };
        self.end(entry);
        true
    }

    fn end(&self, entry: &mut Entry) {
        let (whose, freed) = entry.evict();
        self.take_off(whose, freed);
        self.evicted.fetch_add(1, Ordering::Relaxed);
    }

    fn add(&self, holder: Holder, bytes: usize) {
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        self.peak.fetch_max(before + bytes, Ordering::Relaxed);
        self.holders[holder.0].used.fetch_add(bytes, Ordering::Relaxed);
    }

    fn take_off(&self, holder: Holder, bytes: usize) {
        let before = self.holders[holder.0].used.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "what was counted is there");
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts `bytes` more if the account has room for them.
    fn try_add(&self, holder: Holder, bytes: usize) -> bool {
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > self.bytes_max {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.peak.fetch_max(before + bytes, Ordering::Relaxed);
        self.holders[holder.0].used.fetch_add(bytes, Ordering::Relaxed);
        true
    }

    /// Counts `bytes` more, and evicts for them what [`Account::make_room`] may. `false`: nothing is counted.
    fn add_evicting(&self, holder: Holder, bytes: usize, own: Option<usize>) -> bool {
        self.try_add(holder, bytes)
            || self.make_room(holder, bytes, own) && self.try_add(holder, bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Slab<Entry>> {
        self.passing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Evicts until there is room for `bytes` of `holder`, all but what is at `own`. Says whether there is.
    fn make_room(&self, holder: Holder, bytes: usize, own: Option<usize>) -> bool {
        let mut passing = self.lock();
        while self.used() + bytes > self.bytes_max {
            let Some(place) = self.slowest(&passing, holder, bytes, own) else { return false };
            let Some(entry) = passing.get_mut(place) else { return false };
            self.end(entry);
        }
        true
    }

    /// What is evicted next for `wanting`: the slowest of the tenant that is furthest above its share.
    /// Among equals, which have what they are due, only what had its time.
    fn slowest(
        &self,
        passing: &Slab<Entry>,
        wanting: Holder,
        bytes: usize,
        own: Option<usize>,
    ) -> Option<usize> {
        let excess = |holder: Holder, more: usize| {
            let used = self.holders[holder.0].used.load(Ordering::Relaxed) + more;
            // In parts of the share, of which a thousandth is enough to tell them apart.
            used.saturating_mul(1000) / self.share(holder).max(1)
        };
        let others =
            || passing.iter().filter(|(place, entry)| Some(*place) != own && entry.bytes() > 0);
        let furthest = others().map(|(_, entry)| entry.holder()).max_by_key(|it| excess(*it, 0))?;
        let is_due = excess(wanting, bytes) <= 1000;
        if furthest != wanting && excess(furthest, 0) <= 1000 {
            return None;
        }
        let (now, grace) =
            (Instant::now(), if is_due && furthest != wanting { Duration::ZERO } else { GRACE });
        others()
            .filter(|(_, entry)| entry.holder() == furthest && entry.age(now) >= grace)
            .min_by_key(|(_, entry)| entry.bytes_per_second(now))
            .map(|(place, _)| place)
    }
}

impl Kept {
    /// Counts `bytes` more. `false`: there is no room for them, and nothing is counted.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let Self { account, holder, .. } = self;
        let kept = &account.holders[holder.0].kept;
        let before = kept.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= account.share(*holder) / 2
            && account.add_evicting(*holder, bytes, None);
        if fits {
            self.bytes += bytes;
        } else {
            kept.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.account.holders[self.holder.0].kept.fetch_sub(self.bytes, Ordering::Relaxed);
        self.account.take_off(self.holder, self.bytes);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.take_off(self.1, BUSY_BYTES);
    }
}
