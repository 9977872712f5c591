//! Reading: look-ups of keys, in DRAM and below it, one or many, with and without a fetch of what is missing.
//!
//! A read of flash holds no lock of its key. It is a call that other callers join when they miss the key
//! (`single_flight.rs`), and that a change of the key overtakes. The result enters DRAM under the lock of the key's
//! index shard, and only if the call was not overtaken. So an older version never replaces a newer one:
//!
//! - A set overtakes under the same lock, in the step in which its version enters DRAM.
//! - A delete overtakes after flash has forgotten the key and before DRAM does. A read that began before is
//!   overtaken; a read that begins later finds nothing.
//! - The leader of a call checks DRAM once more before it reads: it finds a value that was set before it joined, or
//!   that value has gone on to flash.
//!
//! A key that is overwritten always has a value. A look-up that finds nothing checks whether the key was changed
//! meanwhile, or is being changed: then the version on flash was void already, and the new one not in DRAM yet, or on
//! flash by the time that the look-up came to DRAM. It looks again, under the key's lock.

use std::future::Future;

use bytes::BufMut;
use larder_device::block_on;

use super::core::ChangesSeen;
use super::fetch::{Absent, Bringing, Brought, Errand};
use super::look::{Hit, MissedKey, copy, copy_many};
use super::stream::ValueStream;
use super::{Copied, FetchError, Fetched, Larder, SetOptions};
use crate::base::error::Error;
use crate::base::key::{KeyHash, check_key};
use crate::base::removal::RemovalReason;
use crate::base::side_by_side::together;
use crate::base::tier::Tier;
use crate::dram::value::{PinnedValue, Value, ValueMeta};
use crate::dram::{ItemView, Lookup};
use crate::flash::Flash;
use crate::observe::latency::{CallStart, TimedCall};

/// Number of keys whose memory is prefetched at a time: a few more than the memory accesses that a core has in
/// flight, and few enough that all are still in its caches when they are read.
const ASKED_TOGETHER: usize = 16;

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
        let inside = self.core.enter().await?;
        let look = || async move {
            match self.core.dram.contains(hash, key, self.core.now_ms()) {
                None => flash.get(hash, key, self.core.now_s()).await.map(|_| true),
                alive => alive,
            }
        };
        let found = self.core.look_twice(hash, look).await;
        self.core.leave(inside);
        Ok(found == Some(true))
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
        self.core.check_reentry()?;
        let inside = self.core.enter().await?;
        self.core.counters.gets.add(1);
        if let Some(flash) = &self.core.flash {
            flash.asked(hash);
        }
        let found = self.find(hash, key).await;
        self.core.leave(inside);
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
        let seen = self.core.changes_so_far(hash);
        let found = match &self.core.flash {
            // Most misses end here, without a read. DRAM first: what is not there any more, flash has.
            Some(flash) if self.core.dram.holds(hash) || flash.may_answer(hash) => {
                match self.read_together(flash, hash, key).await {
                    None => self.look_behind_change(flash, hash, key, seen).await,
                    found => found,
                }
            }
            Some(flash) => {
                flash.index_a_little().await;
                self.look_behind_change(flash, hash, key, seen).await
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
            self.demoter.demote_for(key.len() + value.len()).await;
        } else if self.core.dram.is_shrinking() {
            self.demoter.demote_for(0).await;
        }
        found
    }

    /// Looks again after a look-up that found nothing, if the key may have been changed since `seen`.
    async fn look_behind_change(
        &self,
        flash: &Flash,
        hash: KeyHash,
        key: &[u8],
        seen: ChangesSeen,
    ) -> Option<Hit> {
        if self.core.may_have_changed(hash, seen) {
            let _key_lock = self.core.lock_key(hash).await;
            return match self.look_in_dram(hash, key).await {
                Lookup::Hit(value) => Some(Hit { value, tier: Tier::Dram }),
                Lookup::Expired => None,
                Lookup::Absent => self.fetch_from(flash, hash, key, &|it| it.is_none()).await,
            };
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
        match self.look_in_dram(hash, key).await {
            Lookup::Hit(value) => return Some(Hit { value, tier: Tier::Dram }),
            Lookup::Expired => return None,
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

    /// Looks `key` up in DRAM, and removes an expired value from both tiers. The caller holds the key's lock.
    async fn look_in_dram(&self, hash: KeyHash, key: &[u8]) -> Lookup {
        debug_assert!(self.core.is_key_locked(hash), "the caller holds the key's lock");
        // The previous holder of the lock may have brought the key to DRAM, or found it expired.
        let found = self.core.dram.get(hash, key, || self.core.now_ms());
        if matches!(found, Lookup::Expired) {
            self.core.counters.expired.add(1);
            let (_, bytes) = self.core.tier_and_bytes(hash, key).unwrap_or((Tier::Dram, 0));
            self.note_expired(Tier::Dram, key, bytes);
            // Flash first: while the key is in DRAM, it hides an older version on flash.
            if let Some(flash) = &self.core.flash {
                flash.forget(hash, key, self.core.now_s()).await;
            }
            self.reads.overtake(hash, &hash.0);
            self.core.dram.remove_expired(hash, key, self.core.now_ms());
        }
        found
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
        let now_s = self.items.accessed_s();
        item.dram.marks = item.dram.marks.after_hit(now_s);
        let kept = if self.core.stays_in_dram(&item) {
            let kept =
                self.core.dram.insert_if(&item, &*self.core.clock, &|there| unchanged(there));
            kept.ok().flatten().map(PinnedValue::unmarked)
        } else {
            None
        };
        // If DRAM has no room, flash still has the item.
        let value = kept.unwrap_or_else(|| PinnedValue::alone(&item));
        debug_assert!(value.key() == key, "an engine answers for the key that it was asked for");
        Some(Hit { value, tier })
    }

    /// Looks `key` up and calls `look` with its value and metadata. `None` is a miss.
    ///
    /// The value is kept only while `look` runs, because its memory may have to be written out and reused. That waits
    /// for `look`, so `look` should copy or count, and not wait. It may call the cache.
    ///
    /// # Errors
    /// As [`Larder::get`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// let seen = block_on(cache.get_with(b"bread", |value, meta| (value.len(), meta.flags)))?;
    /// assert_eq!(seen, Some((3, 0)));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn get_with<T>(
        &self,
        key: &[u8],
        look: impl FnOnce(&[u8], ValueMeta) -> T,
    ) -> Result<Option<T>, Error> {
        let found = self.look_up(key, PinnedValue::for_now).await?;
        Ok(found.map(|value| value.look_with(look)))
    }

    /// Looks `key` up in DRAM only, without any wait: calls `look` with its value if it is there. `None` gives no
    /// answer; call [`Larder::get_with`] or a similar method then. This is for a loop that answers what it can at
    /// once, and starts the rest concurrently.
    ///
    /// A hit counts like one of [`Larder::get`]; `None` is not counted.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an invalid key.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert_eq!(cache.get_at_once_with(b"bread", |value, _| value.len())?, Some(3));
    /// assert_eq!(cache.get_at_once_with(b"cake", |value, _| value.len())?, None);
    /// # Ok::<(), larder::Error>(())
    /// ```
    ///
    /// [`ErrorKind::InvalidInput`]: crate::ErrorKind::InvalidInput
    pub fn get_at_once_with<T>(
        &self,
        key: &[u8],
        look: impl FnOnce(&[u8], ValueMeta) -> T,
    ) -> Result<Option<T>, Error> {
        check_key(key)?;
        let found = self.get_at_once(self.hasher.hash(key), key, self.stopwatch.begin());
        Ok(found.map(|value| value.look_with(look)))
    }

    /// Calls `look` with the value of `key`, without counting a use: the value is not marked as found, stays in its
    /// tier, and appears in no statistics. For questions about an item. `None` is a miss.
    ///
    /// # Errors
    /// As [`Larder::get`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// let fetched = || block_on(cache.peek_with(b"bread", |_, meta| meta.fetched));
    /// assert_eq!([fetched()?, fetched()?], [Some(false), Some(false)]);
    /// block_on(cache.get(b"bread"))?;
    /// assert_eq!(fetched()?, Some(true));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn peek_with<T>(
        &self,
        key: &[u8],
        look: impl FnOnce(&[u8], ValueMeta) -> T,
    ) -> Result<Option<T>, Error> {
        self.peek_at(key, |value| value.look_with(look)).await
    }

    /// The value itself, without counting a use.
    pub(crate) async fn peek(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.peek_at(key, PinnedValue::keep).await
    }

    async fn peek_at<T>(
        &self,
        key: &[u8],
        look: impl FnOnce(PinnedValue) -> T,
    ) -> Result<Option<T>, Error> {
        check_key(key)?;
        self.core.gate.check()?;
        let hash = self.hasher.hash(key);
        // DRAM first, for the reason given in `Larder::contains`.
        if let Some(resident) = self.resident(hash, key) {
            let alive = !resident.is_over(self.core.now_ms());
            return Ok(alive.then(|| look(resident)));
        }
        let Some(flash) = &self.core.flash else { return Ok(None) };
        let inside = self.core.enter().await?;
        let find = || async move {
            match self.resident(hash, key) {
                None => {
                    let found = flash.get(hash, key, self.core.now_s()).await;
                    found.map(|(fetched, _)| PinnedValue::alone(&fetched.item()))
                }
                resident => resident,
            }
        };
        let found = self.core.look_twice(hash, find).await;
        self.core.leave(inside);
        Ok(found.filter(|value| !value.is_over(self.core.now_ms())).map(look))
    }

    /// The value of `key` that DRAM has, expired or not. Counts no use.
    fn resident(&self, hash: KeyHash, key: &[u8]) -> Option<PinnedValue> {
        let residents = self.core.dram.residents(hash).into_iter();
        residents.map(|it| it.value).find(|value| value.key() == key)
    }

    /// Looks `key` up and appends its value to `buffer`. `None` is a miss; then nothing is appended.
    ///
    /// # Errors
    /// As [`Larder::get`]. [`ErrorKind::InvalidInput`] if `buffer` has no room for the value; then nothing is
    /// appended.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// let mut reply = b"VALUE bread 0 3\r\n".to_vec();
    /// assert!(block_on(cache.get_into(b"bread", &mut reply))?.is_some());
    /// assert_eq!(reply, b"VALUE bread 0 3\r\nrye");
    /// # Ok::<(), larder::Error>(())
    /// ```
    ///
    /// [`ErrorKind::InvalidInput`]: crate::ErrorKind::InvalidInput
    pub async fn get_into(
        &self,
        key: &[u8],
        buffer: &mut impl BufMut,
    ) -> Result<Option<ValueMeta>, Error> {
        let found = self.look_up(key, PinnedValue::for_now).await?;
        found.map(|value| copy(&value, buffer)).transpose()
    }

    /// Looks all `keys` up as [`Larder::get_many`] does and appends the values found to `buffer`, in the order of
    /// `keys`. Returns for each key the length and the metadata of its value, if there is one.
    ///
    /// To put other bytes between the values use [`Larder::get_many_with`], which shows them one by one.
    ///
    /// # Errors
    /// As [`Larder::get_many`]. [`ErrorKind::InvalidInput`] if `buffer` has no room for all of them; then nothing is
    /// appended.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"rye", b"1 loaf", None))?;
    /// block_on(cache.set(b"oat", b"2 loaves", None))?;
    /// let mut reply = Vec::new();
    /// let copied = block_on(cache.get_many_into(&["rye", "corn", "oat"], &mut reply))?;
    /// assert_eq!(reply, b"1 loaf2 loaves");
    /// let bytes = |at: usize| copied[at].map(|copied| copied.bytes);
    /// assert_eq!([bytes(0), bytes(1), bytes(2)], [Some(6), None, Some(8)]);
    /// # Ok::<(), larder::Error>(())
    /// ```
    ///
    /// [`ErrorKind::InvalidInput`]: crate::ErrorKind::InvalidInput
    pub async fn get_many_into<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        buffer: &mut impl BufMut,
    ) -> Result<Vec<Option<Copied>>, Error> {
        copy_many(&self.look_up_many(keys, PinnedValue::for_now).await?, buffer)
    }

    /// Looks all `keys` up; the answers are in the same order. Look-ups in DRAM wait for memory together, and reads
    /// of flash run concurrently.
    ///
    /// # Errors
    /// As [`Larder::get`], for the first key that has one.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"rye", b"1", None))?;
    /// let found = block_on(cache.get_many(&["rye", "oat"]))?;
    /// assert_eq!(found[0].as_deref(), Some(&b"1"[..]));
    /// assert!(found[1].is_none());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>, Error> {
        self.look_up_many(keys, PinnedValue::keep).await
    }

    /// As [`Larder::look_up`], for many keys.
    pub(super) async fn look_up_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        look: impl Fn(PinnedValue) -> Value,
    ) -> Result<Vec<Option<Value>>, Error> {
        let mut found = vec![None; keys.len()];
        let missed = self.get_many_at_once(keys, |at, value| found[at] = Some(look(value)))?;
        if missed.is_empty() {
            return Ok(found);
        }
        // Keep the values found so far before the first wait.
        found.iter_mut().for_each(|value| *value = value.take().map(Value::kept));
        for (at, value) in self.get_missed(keys, &missed).await? {
            found[at] = value;
        }
        Ok(found)
    }

    /// Looks all `keys` up as [`Larder::get_many`] does and calls `look` for each value found, with the index of its
    /// key, the value and its metadata. Values in DRAM come first. Returns the number of values found.
    ///
    /// Each value is kept only while `look` runs, and no list of values is built: a server can copy each to its send
    /// buffer.
    ///
    /// # Errors
    /// As [`Larder::get`], for the first key that has one.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"oat", b"2", None))?;
    /// let mut reply = Vec::new();
    /// let copy = |at: usize, value: &[u8], _| reply.push((at, value.to_vec()));
    /// assert_eq!(block_on(cache.get_many_with(&["rye", "oat"], copy))?, 1);
    /// assert_eq!(reply, [(1, b"2".to_vec())]);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn get_many_with<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut look: impl FnMut(usize, &[u8], ValueMeta),
    ) -> Result<usize, Error> {
        let mut hits = 0;
        let mut show = |at: usize, value: Value| {
            hits += 1;
            value.look_with(|value, meta| look(at, value, meta));
        };
        let missed = self.get_many_at_once(keys, |at, value| show(at, value.for_now()))?;
        for (at, value) in self.get_missed(keys, &missed).await? {
            if let Some(value) = value {
                show(at, value);
            }
        }
        Ok(hits)
    }

    /// Calls `hit` for each value in DRAM. Returns the keys that DRAM cannot answer at once.
    pub(crate) fn get_many_at_once<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut hit: impl FnMut(usize, PinnedValue),
    ) -> Result<Vec<MissedKey>, Error> {
        keys.iter().try_for_each(|key| check_key(key.as_ref()))?;
        let mut missed = Vec::new();
        let mut hashes = [KeyHash(0); ASKED_TOGETHER];
        for (chunk, keys) in keys.chunks(ASKED_TOGETHER).enumerate() {
            for (hash, key) in hashes.iter_mut().zip(keys) {
                *hash = self.hasher.hash(key.as_ref());
            }
            self.core.dram.prefetch(&hashes[..keys.len()]);
            for (at, (key, hash)) in keys.iter().zip(hashes).enumerate() {
                let at = chunk * ASKED_TOGETHER + at;
                match self.get_at_once(hash, key.as_ref(), self.stopwatch.begin()) {
                    Some(value) => hit(at, value),
                    None => missed.push(MissedKey { at, hash }),
                }
            }
        }
        debug_assert!(missed.is_sorted_by(|a, b| a.at < b.at), "a key is missed once");
        Ok(missed)
    }

    /// Looks up the keys that DRAM could not answer at once.
    pub(crate) async fn get_missed<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        missed: &[MissedKey],
    ) -> Result<Vec<(usize, Option<Value>)>, Error> {
        if missed.is_empty() {
            return Ok(Vec::new());
        }
        debug_assert!(missed.iter().all(|missed| missed.at < keys.len()), "of these keys");
        let get = |&MissedKey { at, hash }: &MissedKey| {
            self.get_below_dram(hash, keys[at].as_ref(), self.stopwatch.begin())
        };
        let values: Result<Vec<_>, _> =
            together(missed.iter().map(get)).await.into_iter().collect();
        Ok(missed.iter().map(|missed| missed.at).zip(values?).collect())
    }

    /// Looks `key` up and returns its value in chunks. A value that is longer than a region lies in parts on flash,
    /// and each part is a chunk; any other value is one chunk. A part is at most an eighth of a region, and only one
    /// is in memory at a time. The value is not brought to DRAM.
    ///
    /// All chunks belong to one version, the newest when this returns. A later set or delete of the key does not stop
    /// the stream, unless a part of it is reclaimed before it is read.
    ///
    /// # Errors
    /// If the key is invalid or the cache is closed.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// let mut stream = block_on(cache.get_stream(b"bread"))?.unwrap();
    /// assert_eq!(stream.value_bytes(), 3);
    /// assert_eq!(block_on(stream.next())?.as_deref(), Some(&b"rye"[..]));
    /// assert!(block_on(stream.next())?.is_none());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn get_stream(&self, key: &[u8]) -> Result<Option<ValueStream<'_>>, Error> {
        check_key(key)?;
        let hash = self.hasher.hash(key);
        let begun = self.stopwatch.begin();
        if let Some(found) = self.get_at_once(hash, key, begun) {
            return Ok(Some(ValueStream::whole(&self.core, found.keep())));
        }
        self.core.check_reentry()?;
        let inside = self.core.enter().await?;
        self.core.counters.gets.add(1);
        let found = ValueStream::begin(&self.core, hash, key).await;
        self.core.leave(inside);
        self.note_get(begun, found.as_ref().map(|(_, tier)| *tier));
        Ok(found.map(|(stream, _)| stream))
    }

    /// Looks `key` up. If it is missing, fetches its value, stores it as [`Larder::set_with`] does, with `options` or
    /// those that the fetch returns, and returns it. While a key is being fetched, other callers that miss it wait
    /// for the same fetch and get its value or its error. If the fetching caller's future is dropped, one of the
    /// waiting callers fetches instead.
    ///
    /// A concurrent [`Larder::set`] or [`Larder::delete`] of the key wins: the fetched value is returned, but not
    /// stored. A value that no tier can hold, or that DRAM has no room for because values in use pin it, is returned
    /// and counted, but not stored. A value that arrives after the cache was closed is returned, but not stored. If
    /// flash may hold an older value and cannot record that it is void, the fetched value is stored all the same, and
    /// the error is counted: a crash may bring the older value back, as after a [`Larder::set`] that fails in this
    /// way.
    ///
    /// # Errors
    /// [`FetchError`]. A fetch that asks for the key that it is fetching would wait for itself: that is
    /// [`FetchError::Cache`] if it can be detected, on the same thread.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let bake = async || Ok::<_, std::io::Error>(b"rye".to_vec());
    /// let bread = block_on(cache.get_or_fetch(b"bread", SetOptions::default(), bake)).unwrap();
    /// assert_eq!(*bread, *b"rye");
    /// assert!(block_on(cache.contains(b"bread"))?);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn get_or_fetch<F, V, E>(
        &self,
        key: &[u8],
        options: SetOptions,
        fetch: impl FnOnce() -> F,
    ) -> Result<Value, FetchError>
    where
        F: Future<Output = Result<V, E>>,
        V: Into<Fetched>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.get_or_replace(key, options, |_| true, fetch).await
    }

    /// As [`Larder::get_or_fetch`]; a value for which `good` is false counts as missing.
    pub(crate) async fn get_or_replace<F, V, E>(
        &self,
        key: &[u8],
        options: SetOptions,
        mut good: impl FnMut(&Value) -> bool,
        fetch: impl FnOnce() -> F,
    ) -> Result<Value, FetchError>
    where
        F: Future<Output = Result<V, E>>,
        V: Into<Fetched>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if let Some(value) = self.get(key).await?.filter(&mut good) {
            return Ok(value);
        }
        self.fetch_missed(key, options, good, fetch).await
    }

    /// As [`Larder::get_or_replace`], after a look-up that missed.
    pub(crate) async fn fetch_missed<F, V, E>(
        &self,
        key: &[u8],
        options: SetOptions,
        mut good: impl FnMut(&Value) -> bool,
        fetch: impl FnOnce() -> F,
    ) -> Result<Value, FetchError>
    where
        F: Future<Output = Result<V, E>>,
        V: Into<Fetched>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        // A caller that joined a copy that found nothing must fetch after all.
        let mut fetch = Some(fetch);
        loop {
            let bring = async || match fetch.take() {
                Some(fetch) => Ok(Brought::Fetched(fetch().await.map_err(Into::into)?.into())),
                None => Err(Absent.into()),
            };
            let call = Bringing { cache: self, key, options, errand: Errand::Fetch };
            let outcome = call.together(&mut good, bring).await;
            self.core.counters.removals.tell();
            match outcome {
                Err(FetchError::Fetch(error)) if fetch.is_some() && error.is::<Absent>() => {}
                outcome => return outcome,
            }
        }
    }

    /// The fetched value of a key that is not stored anywhere.
    pub(crate) fn unstored(&self, key: &[u8], fetched: &Fetched, options: SetOptions) -> Value {
        let (value, options) = fetched.parts(options);
        Value::alone(&self.items.item(self.hasher.hash(key), key, value, options))
    }

    /// After a look-up that missed: stores what `copy` brings from elsewhere, and returns it. The value keeps its
    /// flags, its version and its expiry. Other callers that miss the key wait for it. A change of the key overtakes
    /// it, as with a fetch.
    pub(crate) async fn copy_missed<F>(
        &self,
        key: &[u8],
        copy: impl FnOnce() -> F,
    ) -> Result<Option<Value>, Error>
    where
        F: Future<Output = Option<Value>>,
    {
        let bring = async || copy().await.map(Brought::Copied).ok_or_else(|| Absent.into());
        let (options, any) = (SetOptions::default(), &mut |_: &Value| true);
        let call = Bringing { cache: self, key, options, errand: Errand::Copy };
        let outcome = call.together(any, bring).await;
        self.core.counters.removals.tell();
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(FetchError::Fetch(_)) => Ok(None),
            Err(FetchError::Cache(error)) => Err(Error::new(error.kind(), error.to_string())),
        }
    }
}
