//! Look-ups of keys, in DRAM and below it.
//!
//! A read of flash holds no lock of its key. It is a call that other callers join when they miss the key
//! (`single_flight.rs`), and that a change of the key overtakes. The result enters DRAM under the lock of the key's
//! index shard, and only if the call was not overtaken. So an older version never replaces a newer one:
//!
//! - A set overtakes under the same lock, in the step in which its version enters DRAM.
//! - A delete overtakes after flash has forgotten the key and before DRAM does. A read that began before is
//!   overtaken; a read that begins later finds nothing.
//! - The leader of a call checks DRAM once more before it reads: it finds a value that was set before it joined, or
//!   that value has gone on to flash. A look-up that finds nothing waits for a change in flight and checks DRAM
//!   again, so that a key that is overwritten always has a value.

use larder_device::block_on;

use super::Larder;
use crate::base::error::Error;
use crate::base::key::{KeyHash, check_key};
use crate::base::removal::RemovalReason;
use crate::base::tier::Tier;
use crate::dram::value::{PinnedValue, Value};
use crate::dram::{ItemView, Lookup};
use crate::flash::Flash;
use crate::observe::latency::{CallStart, TimedCall};

/// A value and the tier where it was found.
#[derive(Debug, Clone)]
pub(super) struct Hit<V = PinnedValue> {
    pub(super) value: V,
    tier: Tier,
}

impl Larder {
    /// Looks `key` up. `None` is a miss. A hit on flash brings the item back to DRAM.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) for an invalid key. Device errors count as misses,
    /// and are counted.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// assert!(block_on(cache.get(b"bread"))?.is_none());
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert_eq!(block_on(cache.get(b"bread"))?.as_deref(), Some(&b"rye"[..]));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.look_up(key, PinnedValue::keep).await
    }

    /// Whether `key` has a value. Brings nothing to DRAM and does not count as a use.
    ///
    /// # Errors
    /// As [`Larder::get`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert!(block_on(cache.contains(b"bread"))? && !block_on(cache.contains(b"cake"))?);
    /// assert_eq!(cache.stats().gets, 0);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn contains(&self, key: &[u8]) -> Result<bool, Error> {
        check_key(key)?;
        self.core.gate.check()?;
        let hash = self.hasher.hash(key);
        // DRAM first, without a lock. If flash has the key after that, its version was the newest at some moment
        // since then, because a newer version comes to DRAM before it hides the older one.
        if let Some(alive) = self.core.dram.contains(hash, key, self.core.now_ms()) {
            return Ok(alive);
        }
        let Some(flash) = &self.core.flash else { return Ok(false) };
        let inside = self.enter().await?;
        let found = flash.get(hash, key, self.core.now_s()).await.is_some();
        self.leave(inside);
        Ok(found)
    }

    /// Whether a look-up of `key` may have to read flash: DRAM does not have it, and flash might. For programs that
    /// limit concurrent reads of flash. The answer may have changed by the time of the look-up.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, block_on};
    /// let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// assert!(!cache.may_read_flash(b"bread"));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn may_read_flash(&self, key: &[u8]) -> bool {
        let hash = self.hasher.hash(key);
        let Some(flash) = &self.core.flash else { return false };
        flash.may_answer(hash) && !self.core.dram.holds(hash)
    }

    /// Looks `key` up in DRAM; counts a hit.
    pub(super) fn get_at_once(
        &self,
        hash: KeyHash,
        key: &[u8],
        begun: CallStart,
    ) -> Option<PinnedValue> {
        if self.core.gate.is_closed() {
            return None; // the slow path returns the error
        }
        if self.core.dram.is_shrinking() {
            self.core.dram.shrink_by_segment(self.core.now_s());
        }
        let value = self.core.dram.get_at_once(hash, key, || self.core.now_ms())?;
        self.core.counters.hits_at_once.add(1);
        self.stopwatch.end(begun, TimedCall::GetDram);
        Some(value)
    }

    /// Looks `key` up. `look` converts a value that DRAM has at once; it may take no permit if the value is dropped
    /// before any wait.
    pub(crate) async fn look_up(
        &self,
        key: &[u8],
        look: impl FnOnce(PinnedValue) -> Value,
    ) -> Result<Option<Value>, Error> {
        check_key(key)?;
        let hash = self.hasher.hash(key);
        let begun = self.stopwatch.begin();
        match self.get_at_once(hash, key, begun) {
            Some(found) => Ok(Some(look(found))),
            None => self.get_below_dram(hash, key, begun).await,
        }
    }

    /// As [`Larder::look_up`], for a thread that may block: creates no future if DRAM answers.
    pub(crate) fn look_up_blocking(
        &self,
        key: &[u8],
        look: impl FnOnce(PinnedValue) -> Value,
    ) -> Result<Option<Value>, Error> {
        check_key(key)?;
        let hash = self.hasher.hash(key);
        let begun = self.stopwatch.begin();
        match self.get_at_once(hash, key, begun) {
            Some(found) => Ok(Some(look(found))),
            None => block_on(self.get_below_dram(hash, key, begun)),
        }
    }

    /// Continues a look-up that DRAM did not answer at once.
    pub(super) async fn get_below_dram(
        &self,
        hash: KeyHash,
        key: &[u8],
        begun: CallStart,
    ) -> Result<Option<Value>, Error> {
        self.check_reentry()?;
        let inside = self.enter().await?;
        self.core.counters.gets.add(1);
        if let Some(flash) = &self.core.flash {
            flash.asked(hash);
        }
        let found = self.find(hash, key).await;
        self.leave(inside);
        self.note_get(begun, found.as_ref().map(|hit| hit.tier));
        Ok(found.map(|hit| hit.value))
    }

    /// Records the end of a get that DRAM did not answer at once; `found` is the tier of its hit.
    pub(super) fn note_get(&self, begun: CallStart, found: Option<Tier>) {
        let timed = match found {
            None => TimedCall::GetMiss,
            Some(Tier::Dram) => TimedCall::GetDram,
            Some(_) => TimedCall::GetFlash,
        };
        self.stopwatch.end(begun, timed);
        if let Some(tier) = found {
            self.core.counters.hit(tier);
        }
    }

    /// Looks `key` up without counting a get. A hit on flash brings the item to DRAM. The caller is inside the gate.
    pub(super) async fn find(&self, hash: KeyHash, key: &[u8]) -> Option<Hit<Value>> {
        let found = match &self.core.flash {
            // Most misses end here, without a read.
            Some(flash) if flash.may_answer(hash) || self.core.dram.holds(hash) => {
                match self.read_together(flash, hash, key).await {
                    None => self.look_behind_change(hash, key).await,
                    found => found,
                }
            }
            Some(flash) => {
                flash.index_a_little().await;
                self.look_behind_change(hash, key).await
            }
            // Without flash there is no call to join, so the answer need not be later than anything.
            None => match self.core.dram.get_prefer_lock_free(hash, key, || self.core.now_ms()) {
                Lookup::Hit(value) => Some(Hit { value, tier: Tier::Dram }),
                Lookup::Expired => self.look(hash, key).await,
                Lookup::Absent => None,
            },
        };
        // Keep the value before any wait.
        let keep = |Hit { value, tier }| Hit { value: PinnedValue::keep(value), tier };
        let found = found.map(keep);
        if let Some(Hit { value, tier }) = &found
            && *tier != Tier::Dram
        {
            self.demote_for(key.len() + value.len()).await;
        } else if self.core.dram.is_shrinking() {
            self.demote_for(0).await;
        }
        found
    }

    /// Checks DRAM after a miss on flash. A change of a key first voids the version on flash and then stores the new
    /// one in DRAM. In between the key is in neither tier, though it had a value all the time.
    async fn look_behind_change(&self, hash: KeyHash, key: &[u8]) -> Option<Hit> {
        if self.core.is_changing(hash) {
            drop(self.core.lock_key(hash).await);
        }
        if !self.core.dram.holds(hash) {
            return None;
        }
        match self.core.dram.get(hash, key, || self.core.now_ms()) {
            Lookup::Hit(value) => Some(Hit { value, tier: Tier::Dram }),
            Lookup::Expired | Lookup::Absent => None,
        }
    }

    /// Reads flash, or waits for another caller's read.
    async fn read_together(&self, flash: &Flash, hash: KeyHash, key: &[u8]) -> Option<Hit> {
        let participant = self.reads.join(hash, hash.0);
        let mut outcome = participant.outcome().await;
        if let Some(found) = &*outcome {
            // A key must not get the value of another key with the same hash.
            return found.clone().filter(|found| found.value.key() == key);
        }
        let found = match self.core.dram.get(hash, key, || self.core.now_ms()) {
            Lookup::Hit(value) => Some(Hit { value, tier: Tier::Dram }),
            Lookup::Expired => {
                let _key_lock = self.core.lock_key(hash).await;
                self.look(hash, key).await
            }
            Lookup::Absent => {
                let unchanged =
                    |there: Option<&ItemView<'_>>| there.is_none() && !participant.is_overtaken();
                self.fetch_from(flash, hash, key, &unchanged).await
            }
        };
        debug_assert!(
            found.as_ref().is_none_or(|found| found.value.key() == key),
            "what it brings is this key's"
        );
        participant.close();
        *outcome = Some(found.clone());
        found
    }

    /// Looks `key` up in both tiers. A hit on flash brings the item to DRAM. The caller holds the key's lock.
    pub(super) async fn look(&self, hash: KeyHash, key: &[u8]) -> Option<Hit> {
        debug_assert!(self.core.is_key_locked(hash), "the caller holds the key's lock");
        // The previous holder of the lock may have brought the key to DRAM, or found it expired.
        match self.core.dram.get(hash, key, || self.core.now_ms()) {
            Lookup::Hit(value) => return Some(Hit { value, tier: Tier::Dram }),
            Lookup::Expired => {
                self.core.counters.expired.add(1);
                let (_, bytes) = self.tier_and_bytes(hash, key).unwrap_or((Tier::Dram, 0));
                self.note_expired(Tier::Dram, key, bytes);
                // Flash first: while the key is in DRAM, it hides an older version on flash.
                if let Some(flash) = &self.core.flash {
                    flash.forget(hash, key, self.core.now_s()).await;
                }
                self.reads.overtake(hash, &hash.0);
                self.core.dram.remove_expired(hash, key, self.core.now_ms());
                return None;
            }
            Lookup::Absent => {}
        }
        let flash = self.core.flash.as_deref()?;
        let found = self.fetch_from(flash, hash, key, &|there| there.is_none()).await;
        if found.is_some() || flash.is_indexed() || flash.is_behind() {
            return found;
        }
        // An operation that depends on whether the key exists waits for the index after a crash, too.
        flash.index_until_known(hash).await;
        self.fetch_from(flash, hash, key, &|there| there.is_none()).await
    }

    fn note_expired(&self, tier: Tier, key: &[u8], bytes: usize) {
        self.core.counters.removals.key(RemovalReason::Expired, tier, key, bytes);
    }

    /// Reads `key` from flash, and brings it to DRAM if `unchanged` still holds there.
    async fn fetch_from(
        &self,
        flash: &Flash,
        hash: KeyHash,
        key: &[u8],
        unchanged: &(dyn Fn(Option<&ItemView<'_>>) -> bool + Sync),
    ) -> Option<Hit> {
        let (fetched, tier) = flash.get(hash, key, self.core.now_s()).await?;
        let mut item = fetched.item();
        if item.is_expired(self.core.now_s()) {
            self.core.counters.expired.add(1); // it expired during the read
            self.note_expired(tier, key, item.object_bytes());
            return None;
        }
        let now_s = self.notes_access.then(|| self.core.now_s());
        item.dram.marks = item.dram.marks.after_hit(now_s);
        let kept = if self.stays_in_dram(&item) {
            let kept =
                self.core.dram.insert_if(&item, self.core.now_s(), &|there| unchanged(there));
            kept.ok().flatten().map(PinnedValue::unmarked)
        } else {
            None
        };
        // If DRAM has no room, flash still has the item.
        let value = kept.unwrap_or_else(|| PinnedValue::alone(&item));
        debug_assert!(value.key() == key, "an engine answers for the key that it was asked for");
        Some(Hit { value, tier })
    }
}
