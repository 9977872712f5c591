//! The memory that clients use: one account for the process, which tenants share by weight.
//!
//! What is counted, and where it ends:
//!
//! - [`KeptBytes`]: commands between MULTI and EXEC, watched keys, keys that a walk has found, subscriptions and their
//!   messages, lines for watchers. Refused beyond half of the tenant's share.
//! - [`Passing`]: incomplete requests, and answers that a client does not take. May exceed the share as long as others
//!   leave room; then the slowest end.
//! - [`Busy`]: buffers of a request that waits, for flash for example. The tenant's next requests are not read before
//!   there is room.
//!
//! Connections that have not logged in share an eighth, whichever tenant they mean. Invariants: a counted byte is held
//! by its owner, or by an evicted owner that will release it when it runs next; kept bytes of all tenants together are
//! at most half of the account, so that evicting passing bytes makes room for any tenant below its share.

mod passing;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use slab::Slab;

pub(crate) use self::passing::Passing;
use self::passing::PassingEntry;

/// Clients that have not logged in share one part in this number of the account.
const STRANGERS_PART: usize = 8;
/// The passing bytes of a tenant are not evicted for the tenant's own requests before they are this old.
const GRACE: Duration = Duration::from_secs(1);
/// Memory of a request that waits: two buffers, and its futures.
pub(crate) const BUSY_BYTES: usize = 36 << 10;

/// The owner of bytes: the number of a tenant, or the number after the last for clients that have not logged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder(usize);

/// The account of the memory that clients use; see the module.
pub(crate) struct Account {
    bytes_max: usize,
    used: AtomicUsize,
    /// The most that was used since the last [`Account::take_peak`].
    peak: AtomicUsize,
    /// One for each tenant; the last is that of clients that have not logged in.
    holders: Box<[HolderBytes]>,
    passing: Mutex<Slab<PassingEntry>>,
    evicted: AtomicUsize,
}

#[derive(Default)]
struct HolderBytes {
    used: AtomicUsize,
    /// The part of `used` that is never evicted.
    kept: AtomicUsize,
    weight: AtomicUsize,
}

/// Bytes that are counted until this is dropped, and never evicted.
pub(crate) struct KeptBytes {
    account: Arc<Account>,
    holder: Holder,
    bytes: usize,
}

/// The buffers of a request that waits, counted until this is dropped.
pub(crate) struct Busy(Arc<Account>, Holder);

impl Account {
    /// An account of `bytes_max` bytes for `tenants` tenants of equal weight.
    pub(crate) fn new(bytes_max: usize, tenants: usize) -> Self {
        let held = || HolderBytes { weight: AtomicUsize::new(1), ..HolderBytes::default() };
        Self {
            bytes_max,
            used: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            holders: (0..=tenants).map(|_| held()).collect(),
            passing: Mutex::default(),
            evicted: AtomicUsize::new(0),
        }
    }

    /// The holder of the tenant with this number.
    pub(crate) fn tenant(&self, number: usize) -> Holder {
        assert!(number < self.holders.len() - 1, "there is such a tenant");
        Holder(number)
    }

    /// The holder of clients that have not logged in.
    pub(crate) fn strangers(&self) -> Holder {
        Holder(self.holders.len() - 1)
    }

    /// Sets the weight of a tenant.
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

    /// The most bytes that clients held at one time since the last call.
    pub(crate) fn take_peak(&self) -> usize {
        self.peak.swap(self.used(), Ordering::Relaxed)
    }

    /// How many incomplete requests and answers were ended to free their memory.
    pub(crate) fn evicted(&self) -> usize {
        self.evicted.load(Ordering::Relaxed)
    }

    /// The bytes that `holder` gets when all holders want as much as they can get.
    pub(crate) fn share(&self, holder: Holder) -> usize {
        let strangers = self.bytes_max / STRANGERS_PART;
        if holder == self.strangers() {
            return strangers;
        }
        let weight = |held: &HolderBytes| held.weight.load(Ordering::Relaxed);
        let tenants = self.holders.split_last().map_or(&[][..], |(_, tenants)| tenants);
        let all: usize = tenants.iter().map(weight).sum();
        (self.bytes_max - strangers) / all.max(1) * weight(&self.holders[holder.0])
    }

    /// An empty charge; [`KeptBytes::grow`] adds to it.
    pub(crate) fn keep(self: &Arc<Self>, holder: Holder) -> KeptBytes {
        KeptBytes { account: Arc::clone(self), holder, bytes: 0 }
    }

    /// Counts the buffers of a request that has begun and waits.
    pub(crate) fn is_busy(self: &Arc<Self>, holder: Holder) -> Busy {
        self.add(holder, BUSY_BYTES);
        Busy(Arc::clone(self), holder)
    }

    /// Whether half of the account is free, so that any request may be read.
    pub(crate) fn has_plenty(&self) -> bool {
        self.used() + BUSY_BYTES <= self.bytes_max / 2
    }

    /// Whether the next request of `holder` may be read. May evict the slowest passing bytes to make room.
    pub(crate) fn may_begin(&self, holder: Holder) -> bool {
        if self.has_plenty() {
            return true;
        }
        let used = self.holders[holder.0].used.load(Ordering::Relaxed);
        if used + BUSY_BYTES > self.share(holder) {
            return self.evict_own(holder);
        }
        // It is within its share, whatever others hold beyond theirs.
        self.make_room(holder, BUSY_BYTES, None);
        true
    }

    /// Evicts the slowest passing bytes of `holder` that are at least [`GRACE`] old. Returns whether there were any.
    fn evict_own(&self, holder: Holder) -> bool {
        let (mut passing, now) = (self.lock(), Instant::now());
        let old = |entry: &PassingEntry| {
            entry.holder() == holder && entry.bytes() > 0 && entry.age(now) >= GRACE
        };
        let slowest = passing.iter_mut().filter(|(_, entry)| old(entry));
        let slowest = slowest.min_by_key(|(_, entry)| entry.bytes_per_second(now));
        let Some((_, entry)) = slowest else { return false };
        self.end(entry);
        true
    }

    fn end(&self, entry: &mut PassingEntry) {
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

    /// Counts `bytes` more, and evicts what [`Account::make_room`] allows. On `false` nothing is counted.
    fn add_evicting(&self, holder: Holder, bytes: usize, own: Option<usize>) -> bool {
        self.try_add(holder, bytes)
            || self.make_room(holder, bytes, own) && self.try_add(holder, bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Slab<PassingEntry>> {
        self.passing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Evicts until there is room for `bytes` of `holder`; never evicts the entry `own`. Returns whether there is room.
    fn make_room(&self, holder: Holder, bytes: usize, own: Option<usize>) -> bool {
        let mut passing = self.lock();
        while self.used() + bytes > self.bytes_max {
            let Some(place) = self.slowest(&passing, holder, bytes, own) else { return false };
            let Some(entry) = passing.get_mut(place) else { return false };
            self.end(entry);
        }
        true
    }

    /// The entry to evict next for `wanting`: the slowest of the holder that is furthest above its share. Unless
    /// `wanting` stays within its share and another holder is above, only entries older than [`GRACE`] are evicted.
    fn slowest(
        &self,
        passing: &Slab<PassingEntry>,
        wanting: Holder,
        bytes: usize,
        own: Option<usize>,
    ) -> Option<usize> {
        let excess = |holder: Holder, more: usize| {
            let used = self.holders[holder.0].used.load(Ordering::Relaxed) + more;
            // In thousandths of the share, which is precise enough.
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

impl KeptBytes {
    /// Counts `bytes` more. On `false` there is no room, and nothing is counted.
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

    /// Counts `bytes` less.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        assert!(bytes <= self.bytes, "what was counted is there");
        self.bytes -= bytes;
        self.account.holders[self.holder.0].kept.fetch_sub(bytes, Ordering::Relaxed);
        self.account.take_off(self.holder, bytes);
    }
}

impl Drop for KeptBytes {
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
