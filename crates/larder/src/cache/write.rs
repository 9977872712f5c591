//! Writing: values are set, changed in one step, and removed.

use std::num::NonZeroU64;
use std::time::Duration;

use super::change::{Attempt, names, number_in};
use super::demoting::Wait;
use super::place::{PUTS_BEFORE_WRITE_AROUND, Placing};
use super::stream::{Source, store_parts};
use super::{Cas, Change, FetchError, Larder, SetOptions, reentry};
use crate::base::error::{Error, ErrorKind};
use crate::base::item::ItemRef;
use crate::base::key::{KeyHash, check_key, check_length, check_value};
use crate::base::removal::RemovalReason;
use crate::base::tier::{Tier, Tiers};
use crate::dram::value::{PinnedValue, Value};
use crate::dram::{Admit, DramFull, ItemView, TakenBytes};
use crate::engine::long::NewParts;
use crate::flash::{EngineId, Flash};
use crate::observe::latency::TimedCall;

impl Larder {
    /// Stores `value` under `key` and replaces any older value. It expires after `ttl` (rounded up to milliseconds,
    /// and on flash to whole seconds), or never.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a key or a value that no tier can hold; the key then has no value at all.
    /// [`ErrorKind::Device`] if flash holds an older value and cannot record that it is void: the new value is
    /// stored, but a crash may bring the older one back.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// use std::time::Duration;
    /// block_on(cache.set(b"bread", b"rye", Some(Duration::from_secs(3600))))?;
    /// block_on(cache.set(b"bread", b"oat", None))?; // in its place
    /// assert_eq!(block_on(cache.get(b"bread"))?.as_deref(), Some(&b"oat"[..]));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn set(&self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> Result<(), Error> {
        self.set_with(key, value, SetOptions { ttl, ..SetOptions::default() }).await
    }

    /// As [`Larder::set`], with all options of a value.
    ///
    /// # Errors
    /// As [`Larder::set`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set_with(b"bread", b"rye", SetOptions { flags: 7, ..Default::default() }))?;
    /// assert_eq!(block_on(cache.get(b"bread"))?.map(|value| value.flags()), Some(7));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn set_with(
        &self,
        key: &[u8],
        value: &[u8],
        options: SetOptions,
    ) -> Result<(), Error> {
        if self.set_at_once(key, value, options)? {
            return Ok(());
        }
        self.core.check_reentry()?;
        let inside = self.core.enter().await?;
        let begun = self.stopwatch.begin();
        let stored = self.store(key, value, options).await;
        self.stopwatch.end(begun, TimedCall::Set);
        self.core.leave(inside);
        stored
    }

    /// [`Larder::set_with`], for a valid key.
    async fn store(&self, key: &[u8], value: &[u8], options: SetOptions) -> Result<(), Error> {
        let hash = self.hasher.hash(key);
        self.core.counters.sets.add(1);
        if let Err(refusal) = check_value(value) {
            self.remove(hash, key).await?;
            return Err(refusal);
        }
        let item = self.items.item(hash, key, value, options);
        if !self.core.can_hold(&item) {
            self.remove(hash, key).await?;
            return Err(self.core.too_large(&item));
        }
        let supersede = |there: Option<&ItemView<'_>>| self.supersede(hash, key, there);
        let (stored, told_flash) = self.placing(&item, &supersede).run(None).await;
        if !stored {
            self.remove(hash, key).await?;
        }
        told_flash
    }

    /// A version for a value of `key` that is about to be stored, for [`SetOptions::version`]: larger than those of
    /// all earlier values of the key. For callers that must report the version of their change.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let version = cache.draw_version(b"bread");
    /// let options = SetOptions { version: Some(version), ..SetOptions::default() };
    /// block_on(cache.set_with(b"bread", b"rye", options))?;
    /// assert_eq!(block_on(cache.get(b"bread"))?.map(|it| it.version()), Some(version.get()));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn draw_version(&self, key: &[u8]) -> NonZeroU64 {
        self.core.dram.draw_version(key)
    }

    /// Removes `key` from both tiers. Returns whether it was there. A large object on flash counts as there even if
    /// it has expired, because it is not read to find out.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an invalid key; [`ErrorKind::Device`] as for
    /// [`Larder::set`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert!(block_on(cache.delete(b"bread"))?);
    /// assert!(!block_on(cache.delete(b"bread"))?);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        check_key(key)?;
        self.core.check_reentry()?;
        let inside = self.core.enter().await?;
        self.core.counters.deletes.add(1);
        let begun = self.stopwatch.begin();
        let removed = self.remove(self.hasher.hash(key), key).await;
        self.stopwatch.end(begun, TimedCall::Delete);
        self.core.leave(inside);
        removed
    }

    /// As [`Larder::delete`], for a key that has another place in a set of shards: no call of a client, so it does not
    /// count as one.
    pub(crate) async fn forget(&self, key: &[u8]) -> Result<bool, Error> {
        check_key(key)?;
        self.core.check_reentry()?;
        let inside = self.core.enter().await?;
        let removed = self.remove(self.hasher.hash(key), key).await;
        self.core.leave(inside);
        removed
    }

    /// For an item on its way into the cache.
    pub(super) fn placing<'a>(&'a self, item: &'a ItemRef<'a>, admit: Admit<'a>) -> Placing<'a> {
        Placing { core: &self.core, demoter: &self.demoter, item, admit }
    }

    /// Called at the moment at which the key changes: overtakes reads and fetches in flight, and counts the replaced
    /// value.
    pub(super) fn supersede(
        &self,
        hash: KeyHash,
        key: &[u8],
        there: Option<&ItemView<'_>>,
    ) -> bool {
        self.reads.overtake(hash, &hash.0);
        self.fetches.overtake(hash, key);
        if let Some(ItemView { key, value, .. }) = there {
            self.core.counters.replaced_objects.add(1);
            let bytes = key.len() + value.len();
            self.core.counters.removals.key(RemovalReason::Replaced, Tier::Dram, key, bytes);
        }
        true
    }

    /// Removes `key` from both tiers.
    async fn remove(&self, hash: KeyHash, key: &[u8]) -> Result<bool, Error> {
        let _key_lock = self.core.lock_key(hash).await;
        let seen = self.core.tier_and_bytes(hash, key);
        let on_flash = match &self.core.flash {
            Some(flash) => flash.remove(hash, key, self.core.now_s()).await,
            None => Ok(false),
        };
        // Overtake between the two removals: a read that begins now finds nothing on flash, and one that began before
        // brings nothing to DRAM afterwards.
        self.supersede(hash, key, None);
        let in_dram = self.core.dram.remove(hash, key, self.core.now_ms());
        let was_there = in_dram.unwrap_or(matches!(on_flash, Ok(true)));
        if was_there {
            self.core.counters.deleted_objects.add(1);
            let (tier, bytes) = seen.unwrap_or((Tier::SmallObjects, 0));
            self.core.counters.removals.key(RemovalReason::Deleted, tier, key, bytes);
        }
        on_flash.map(|_| was_there)
    }

    /// Reads the value of `key` and changes it in one atomic step. `change` may be called more than once, and must
    /// not call the cache, because the key is locked. Returns the value as it was before.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an invalid key, or a value that DRAM cannot hold (then the old value stays),
    /// and for any call that `change` makes to a cache with flash. [`ErrorKind::Device`] as for [`Larder::set`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// use larder::Change;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// let before = block_on(cache.update(b"bread", |current| match current {
    ///     Some(value) => Change::StoreKeepingExpiry(value.to_ascii_uppercase().into()),
    ///     None => Change::Keep,
    /// }))?;
    /// assert_eq!(before.as_deref(), Some(&b"rye"[..]));
    /// assert_eq!(block_on(cache.get(b"bread"))?.as_deref(), Some(&b"RYE"[..]));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn update<'a>(
        &self,
        key: &[u8],
        mut change: impl FnMut(Option<&Value>) -> Change<'a>,
    ) -> Result<Option<Value>, Error> {
        check_key(key)?;
        self.core.check_reentry()?;
        let inside = self.core.enter().await?;
        let updated = self.update_inside(self.hasher.hash(key), key, &mut change).await;
        self.core.leave(inside);
        updated
    }

    async fn update_inside<'a>(
        &self,
        hash: KeyHash,
        key: &[u8],
        change: &mut impl FnMut(Option<&Value>) -> Change<'a>,
    ) -> Result<Option<Value>, Error> {
        let mut patience = self.demoter.patience();
        let mut taken = None;
        let mut goes_above = false;
        loop {
            let attempt = self.try_update(hash, key, change, (&mut taken, goes_above)).await?;
            let waited = match attempt {
                Attempt::Done(before) => {
                    let brought = before.as_ref().map_or(0, |value| value.len()) + key.len();
                    self.demoter.demote_for(brought).await;
                    return Ok(before);
                }
                Attempt::Again => Wait::Again,
                // If DRAM holds only one of the old and the new version, concurrent updates may evict each other's
                // value again and again. After some attempts the new version goes past DRAM.
                Attempt::Full
                    if self.core.flash.is_some()
                        && patience.fulls >= PUTS_BEFORE_WRITE_AROUND
                        && patience.may_go_above() =>
                {
                    goes_above = true;
                    Wait::Again
                }
                Attempt::Full if goes_above || patience.pinned == PUTS_BEFORE_WRITE_AROUND => {
                    let message = "values in use pin all of DRAM; drop them or raise dram_bytes";
                    return Err(self.refuse(RemovalReason::RejectedDramPinned, key, message));
                }
                Attempt::Full => {
                    let bytes = self.core.dram.segment_bytes();
                    self.demoter.wait_for_room(&mut patience, bytes).await
                }
                Attempt::NoneTaken(bytes) => {
                    taken = self.demoter.take_above(bytes, &mut patience).await;
                    if taken.is_some() { Wait::Again } else { Wait::Over }
                }
            };
            if waited == Wait::Over {
                let message = "too much is on its way to flash, and flash is slow; try later, or raise \
                               demotion_wait";
                return Err(self.refuse(RemovalReason::RejectedDemotions, key, message));
            }
        }
    }

    /// Counts a change that was not made because there was no room.
    fn refuse(&self, reason: RemovalReason, key: &[u8], message: &str) -> Error {
        self.core.count_refused(reason, &ItemRef::new(self.hasher.hash(key), key, &[], 0));
        Error::new(ErrorKind::Busy, message)
    }

    /// Stores `value` if `key` has none. Returns whether it was stored.
    ///
    /// # Errors
    /// As [`Larder::update`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// assert!(block_on(cache.add(b"bread", b"rye", SetOptions::default()))?);
    /// assert!(!block_on(cache.add(b"bread", b"oat", SetOptions::default()))?);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn add(&self, key: &[u8], value: &[u8], options: SetOptions) -> Result<bool, Error> {
        let before = self
            .update(key, |current| match current {
                None => Change::Store(value.into(), options),
                Some(_) => Change::Keep,
            })
            .await?;
        Ok(before.is_none())
    }

    /// Stores `value` if `key` has a value already. Returns whether it was stored.
    ///
    /// # Errors
    /// As [`Larder::update`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// assert!(!block_on(cache.replace(b"bread", b"rye", SetOptions::default()))?);
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert!(block_on(cache.replace(b"bread", b"oat", SetOptions::default()))?);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn replace(
        &self,
        key: &[u8],
        value: &[u8],
        options: SetOptions,
    ) -> Result<bool, Error> {
        let before = self
            .update(key, |current| match current {
                None => Change::Keep,
                Some(_) => Change::Store(value.into(), options),
            })
            .await?;
        Ok(before.is_some())
    }

    /// Stores `value` if the key's value still has this [`Value::version`]. Version 0 matches no value.
    ///
    /// # Errors
    /// As [`Larder::update`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// use larder::Cas;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// let version = block_on(cache.get(b"bread"))?.map_or(0, |value| value.version());
    /// let cas = |value| block_on(cache.cas(b"bread", value, version, SetOptions::default()));
    /// assert_eq!(cas(b"oat")?, Cas::Stored);
    /// assert_eq!(cas(b"spelt")?, Cas::OtherVersion);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn cas(
        &self,
        key: &[u8],
        value: &[u8],
        version: u64,
        options: SetOptions,
    ) -> Result<Cas, Error> {
        let before = self
            .update(key, |current| match current {
                Some(current) if names(version, current) => Change::Store(value.into(), options),
                _ => Change::Keep,
            })
            .await?;
        Ok(match before {
            Some(before) if names(version, &before) => Cas::Stored,
            Some(_) => Cas::OtherVersion,
            None => Cas::NotFound,
        })
    }

    /// Sets the remaining lifetime of the key's value; `None` means for ever. The value keeps its version. Returns
    /// whether there is a value.
    ///
    /// # Errors
    /// As [`Larder::update`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// use std::time::Duration;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert!(block_on(cache.touch(b"bread", Some(Duration::from_secs(60))))?);
    /// assert!(!block_on(cache.touch(b"cake", None))?);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn touch(&self, key: &[u8], ttl: Option<Duration>) -> Result<bool, Error> {
        let before = self
            .update(key, |current| match current {
                Some(_) => Change::Touch(ttl),
                None => Change::Keep,
            })
            .await?;
        Ok(before.is_some())
    }

    /// Adds `delta` to a value that is a decimal number, and returns the sum, which wraps around at 2^64 as in
    /// memcached. `None` if there is no value. The number keeps its expiry.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the value is not a number; and as [`Larder::update`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"loaves", b"41", None))?;
    /// assert_eq!(block_on(cache.incr(b"loaves", 1))?, Some(42));
    /// assert_eq!(block_on(cache.incr(b"cakes", 1))?, None);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn incr(&self, key: &[u8], delta: u64) -> Result<Option<u64>, Error> {
        self.count(key, |number| number.wrapping_add(delta)).await
    }

    /// Subtracts `delta` from a value that is a decimal number; the result is at least 0. See [`Larder::incr`].
    ///
    /// # Errors
    /// As [`Larder::incr`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"loaves", b"3", None))?;
    /// assert_eq!(block_on(cache.decr(b"loaves", 5))?, Some(0));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn decr(&self, key: &[u8], delta: u64) -> Result<Option<u64>, Error> {
        self.count(key, |number| number.saturating_sub(delta)).await
    }

    /// Appends `tail` to the existing value. Returns whether there was one.
    ///
    /// # Errors
    /// As [`Larder::update`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert!(block_on(cache.append(b"bread", b" loaf"))?);
    /// assert_eq!(block_on(cache.get(b"bread"))?.as_deref(), Some(&b"rye loaf"[..]));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn append(&self, key: &[u8], tail: &[u8]) -> Result<bool, Error> {
        self.extend(key, |current| [current, tail].concat()).await
    }

    /// Prepends `head` to the existing value. Returns whether there was one.
    ///
    /// # Errors
    /// As [`Larder::update`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"loaf", None))?;
    /// assert!(block_on(cache.prepend(b"bread", b"rye "))?);
    /// assert_eq!(block_on(cache.get(b"bread"))?.as_deref(), Some(&b"rye loaf"[..]));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn prepend(&self, key: &[u8], head: &[u8]) -> Result<bool, Error> {
        self.extend(key, |current| [head, current].concat()).await
    }

    async fn extend(&self, key: &[u8], extend: impl Fn(&[u8]) -> Vec<u8>) -> Result<bool, Error> {
        let before = self
            .update(key, |current| match current {
                Some(current) => Change::StoreKeepingExpiry(extend(current).into()),
                None => Change::Keep,
            })
            .await?;
        Ok(before.is_some())
    }

    async fn count(
        &self,
        key: &[u8],
        next: impl Fn(u64) -> u64 + Sync,
    ) -> Result<Option<u64>, Error> {
        let mut counted = None;
        let before = self
            .update(key, |current| {
                counted = current.and_then(|value| number_in(value)).map(&next);
                match counted {
                    Some(number) => {
                        Change::StoreKeepingExpiry(number.to_string().into_bytes().into())
                    }
                    None => Change::Keep,
                }
            })
            .await?;
        if before.is_some() && counted.is_none() {
            let message = "the value is not a decimal number below 2^64";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        Ok(counted)
    }

    async fn try_update<'a>(
        &self,
        hash: KeyHash,
        key: &[u8],
        change: &mut impl FnMut(Option<&Value>) -> Change<'a>,
        (taken, goes_above): (&mut Option<TakenBytes<'_>>, bool),
    ) -> Result<Attempt, Error> {
        let _key_lock = self.core.lock_key(hash).await;
        // Without flash nothing waits here, and the value is identified by its address, so a copy would not do.
        let look = if self.core.flash.is_some() { PinnedValue::keep } else { PinnedValue::for_now };
        let before = self.look(hash, key).await.map(|found| look(found.value));
        let changed = reentry::updating(self.core.id(), || change(before.as_ref()));
        let Some(item) = self.items.item_after(hash, key, &changed, before.as_ref()) else {
            return Ok(Attempt::Done(before.map(Value::kept)));
        };
        check_value(item.value)?;
        if !self.core.dram.can_hold(item.object_bytes()) {
            let message = format!("object of {} bytes: DRAM cannot hold it", item.object_bytes());
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let goes_above = goes_above && item.tiers != Tiers::DramOnly;
        let stays = !goes_above && self.core.stays_in_dram(&item);
        if !stays && taken.is_none() {
            return Ok(Attempt::NoneTaken(self.core.dram.demoting_bytes(&item)));
        }
        let told_flash = self.core.invalidate_on_flash(hash).await;
        let now_ms = self.core.now_ms();
        let clock = &*self.core.clock;
        let unchanged = |there: Option<&ItemView<'_>>| {
            self.is_unchanged(hash, key, (there, now_ms), before.as_ref())
        };
        let inserted = match taken.take().filter(|_| !stays) {
            None => self.core.dram.insert_if(&item, clock, &unchanged).map(|there| there.is_some()),
            // There is flash, so no other caller has changed the key under its lock.
            Some(taken) => self.core.dram.insert_to_demote(&item, taken, &unchanged).map(|_| true),
        };
        // Flash has already voided its version: if DRAM does not have the key either, the value would be lost.
        let inserted = match inserted {
            Err(DramFull)
                if self.core.flash.is_some() && before.is_some() && !self.core.dram.holds(hash) =>
            {
                self.core.insert_above(&item, &unchanged).map(|_| true)
            }
            inserted => inserted,
        };
        Ok(match inserted {
            Ok(true) => {
                told_flash?;
                Attempt::Done(before.map(Value::kept))
            }
            Ok(false) => Attempt::Again,
            Err(DramFull) => {
                // The version in DRAM must go to flash again when it leaves, because flash has voided its own.
                self.core.dram.note_dirty(hash, key);
                Attempt::Full
            }
        })
    }

    /// Whether a key has the value still that an update has seen, or none. Then the update replaces it.
    pub(super) fn is_unchanged(
        &self,
        hash: KeyHash,
        key: &[u8],
        (there, now_ms): (Option<&ItemView<'_>>, u64),
        before: Option<&Value>,
    ) -> bool {
        let alive = there.filter(|record| !record.is_over(now_ms));
        // With flash, the key's lock keeps others away. Without flash this check does: the value pins its record, so no
        // other record can have its address, while given versions may repeat.
        let is_seen = match (alive, before) {
            (Some(record), Some(value)) => value.is_of(record),
            (alive, before) => alive.is_none() && before.is_none(),
        };
        (self.core.flash.is_some() || is_seen) && self.supersede(hash, key, alive)
    }

    /// Marks the key's value as [stale](crate::ValueMeta::stale): it is still served, from DRAM only, until it is
    /// replaced or evicted, and the first caller that asks for the right to replace it gets it ([`Larder::win`]). The
    /// value gets a new version, and lives on for `ttl`, or for its old lifetime. Returns whether there is a value.
    ///
    /// A value that replaces it is not stale. [`Larder::touch`], [`Larder::append`], [`Larder::incr`] and similar
    /// calls leave it stale. [`Change::Invalidate`] does the same inside an update, and can set the version.
    ///
    /// # Errors
    /// As [`Larder::update`]: a value that DRAM cannot hold is not marked. Delete it.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye of yesterday", None))?;
    /// assert!(block_on(cache.invalidate(b"bread", None))?);
    /// let meta = block_on(cache.get_with(b"bread", |_, meta| meta))?.unwrap();
    /// assert!(meta.stale && !meta.won);
    /// assert!(cache.win(b"bread", meta.version)?, "bake!");
    /// assert!(!cache.win(b"bread", meta.version)?, "another caller bakes");
    /// block_on(cache.set(b"bread", b"rye of today", None))?;
    /// assert!(!block_on(cache.get_with(b"bread", |_, meta| meta.stale))?.unwrap());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn invalidate(&self, key: &[u8], ttl: Option<Duration>) -> Result<bool, Error> {
        let before = self
            .update(key, |current| match current {
                Some(_) => Change::Invalidate { ttl, version: None },
                None => Change::Keep,
            })
            .await?;
        Ok(before.is_some())
    }

    /// Asks for the right to replace this version of the key's value, because it is stale, expires soon, or is a
    /// stub. Returns whether the caller has won it: no other caller wins with this version. The cache remembers that
    /// while this version is in DRAM. Also returns `false` if the version is not there any more.
    ///
    /// It does not wait, and changes nothing but [`ValueMeta::won`](crate::ValueMeta::won).
    ///
    /// # Errors
    /// As [`Larder::get`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// // A stub for callers that come while we fetch.
    /// let stub = SetOptions { won: true, ..SetOptions::default() };
    /// assert!(block_on(cache.add(b"bread", b"", stub))?, "we fetch");
    /// let meta = block_on(cache.get_with(b"bread", |_, meta| meta))?.unwrap();
    /// assert!(meta.won && !cache.win(b"bread", meta.version)?, "they wait");
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn win(&self, key: &[u8], version: u64) -> Result<bool, Error> {
        check_key(key)?;
        self.core.gate.check()?;
        Ok(version != 0
            && self.core.dram.win(self.hasher.hash(key), key, version, self.core.now_ms()))
    }

    /// Stores a value of `value_bytes` bytes that `source` returns in pieces of any length, and replaces an older
    /// value. If the value will lie in parts on flash, it goes there as it comes, past DRAM, with the memory of a
    /// part; any other value is collected and set as usual. The key keeps its older value until the whole new one is
    /// there; a look-up during the last step waits for it.
    ///
    /// # Errors
    /// The error of the source, or an error if the source ends (with an empty piece) too early or goes on too long:
    /// then nothing has changed. As [`Larder::set_with`]: then the key has no value.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// let mut pieces = ["rye ", "loaf"].into_iter();
    /// let source = async || Ok::<_, std::io::Error>(pieces.next().unwrap_or(""));
    /// block_on(cache.set_stream(b"bread", 8, SetOptions::default(), source)).unwrap();
    /// assert_eq!(block_on(cache.get(b"bread"))?.as_deref(), Some(&b"rye loaf"[..]));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn set_stream<B, E>(
        &self,
        key: &[u8],
        value_bytes: usize,
        options: SetOptions,
        source: impl AsyncFnMut() -> Result<B, E>,
    ) -> Result<(), FetchError>
    where
        B: AsRef<[u8]>,
        E: std::error::Error + Send + Sync + 'static,
    {
        check_key(key)?;
        check_length(value_bytes)?;
        let hash = self.hasher.hash(key);
        let mut source = Source::of(source, value_bytes);
        let item = self.items.item(hash, key, &[], options);
        let begun = match &self.core.flash {
            Some(flash) => {
                let begun = flash.new_parts(&item, value_bytes, self.core.now_s());
                begun.map(|begun| (flash, begun))
            }
            None => None,
        };
        let Some((flash, (engine, parts))) = begun else {
            let value = source.take(value_bytes).await?;
            source.end().await?;
            return Ok(self.set_with(key, &value, options).await?);
        };
        self.core.check_reentry()?;
        let stored = store_parts(&self.core, flash, (engine, parts), &mut source).await?;
        let inside = self.core.enter().await?;
        let ended = match stored {
            Some(parts) => self.store_head(flash, (engine, &parts), key, options).await,
            None => self.remove(hash, key).await.map(|_| ()),
        };
        self.core.counters.sets.add(1);
        self.core.leave(inside);
        Ok(ended?)
    }

    /// Stores the head, which makes the new value replace that of the key.
    async fn store_head(
        &self,
        flash: &Flash,
        (engine, parts): (EngineId, &NewParts),
        key: &[u8],
        options: SetOptions,
    ) -> Result<(), Error> {
        let hash = self.hasher.hash(key);
        let _key_lock = self.core.lock_key(hash).await;
        let seen = self.core.tier_and_bytes(hash, key);
        let now_s = self.core.now_s();
        flash.remove(hash, key, now_s).await?;
        self.supersede(hash, key, None);
        if self.core.dram.remove(hash, key, self.core.now_ms()).is_some() || seen.is_some() {
            self.core.counters.replaced_objects.add(1);
        }
        flash.add_head(engine, parts, &self.items.item(hash, key, &[], options), now_s).await;
        // Reads that began before the head was there find nothing, and later callers must not join them.
        self.reads.overtake(hash, &hash.0);
        Ok(())
    }
}
