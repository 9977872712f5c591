//! Atomic read-modify-write operations.

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::time::Duration;

use super::demoting::{Patience, Wait};
use super::place::PUTS_BEFORE_WRITE_AROUND;
use super::{Larder, SetOptions, reentry};
use crate::base::error::{Error, ErrorKind};
use crate::base::item::ItemRef;
use crate::base::key::{KeyHash, check_key, check_value};
use crate::base::removal::RemovalReason;
use crate::base::tier::Tiers;
use crate::dram::value::{PinnedValue, Value};
use crate::dram::{DramFull, ItemView, TakenBytes};

/// The change that [`Larder::update`] makes to a key.
///
/// ```
/// use larder::Change;
///
/// assert_ne!(Change::Keep, Change::StoreKeepingExpiry(b"rye"[..].into()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<'a> {
    /// Leave the value as it is.
    Keep,
    /// Store a value.
    Store(Cow<'a, [u8]>, SetOptions),
    /// Store a value with the expiry of the existing one; it is [stale](crate::ValueMeta::stale) if the existing one
    /// is.
    StoreKeepingExpiry(Cow<'a, [u8]>),
    /// The same, with a given version, as in [`SetOptions::version`]: a caller that must report the version draws it
    /// first ([`Larder::draw_version`]).
    StoreKeepingExpiryAs(Cow<'a, [u8]>, NonZeroU64),
    /// Keep the value and its version, and set its remaining lifetime; `None` means for ever.
    Touch(Option<Duration>),
    /// Keep the value, but mark it as stale, as [`Larder::invalidate`] does.
    Invalidate {
        /// Its remaining lifetime; `None` keeps the old one, [`Duration::MAX`] means for ever.
        ttl: Option<Duration>,
        /// Its new version; `None` assigns a larger one.
        version: Option<NonZeroU64>,
    },
}

/// Outcome of [`Larder::cas`].
///
/// ```
/// # use larder::{Cas, Larder, RealClock, block_on};
/// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
/// let missing = block_on(cache.cas(b"bread", b"rye", 1, Default::default()))?;
/// assert_eq!(missing, Cas::NotFound);
/// # Ok::<(), larder::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Cas {
    /// The value was stored.
    Stored,
    /// The value has another version.
    OtherVersion,
    /// There is no value.
    #[default]
    NotFound,
}

/// Outcome of an attempt to update.
enum Attempt {
    /// The value that was there before, if any.
    Done(Option<Value>),
    /// Another caller was faster.
    Again,
    /// There is no room in DRAM yet.
    Full,
    /// The item is for flash only, and this number of bytes must be taken from the limit first.
    NoneTaken(usize),
}

impl Larder {
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
        self.check_reentry()?;
        let inside = self.enter().await?;
        let updated = self.update_inside(self.hasher.hash(key), key, &mut change).await;
        self.leave(inside);
        updated
    }

    async fn update_inside<'a>(
        &self,
        hash: KeyHash,
        key: &[u8],
        change: &mut impl FnMut(Option<&Value>) -> Change<'a>,
    ) -> Result<Option<Value>, Error> {
        let mut patience = Patience::new(&self.core, self.demotion_wait);
        let mut taken = None;
        let mut goes_above = false;
        loop {
            let attempt = self.try_update(hash, key, change, (&mut taken, goes_above)).await?;
            let waited = match attempt {
                Attempt::Done(before) => {
                    let brought = before.as_ref().map_or(0, |value| value.len()) + key.len();
                    self.demote_for(brought).await;
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
                    self.wait_for_room(&mut patience, bytes).await
                }
                Attempt::NoneTaken(bytes) => {
                    taken = self.take_above(bytes, &mut patience).await;
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
        self.count_refused(reason, &ItemRef::new(self.hasher.hash(key), key, &[], 0));
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
        let changed = reentry::updating(self.id(), || change(before.as_ref()));
        let Some(item) = self.item_after(hash, key, &changed, before.as_ref()) else {
            return Ok(Attempt::Done(before.map(Value::kept)));
        };
        check_value(item.value)?;
        if !self.core.dram.can_hold(item.object_bytes()) {
            let message = format!("object of {} bytes: DRAM cannot hold it", item.object_bytes());
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let goes_above = goes_above && item.tiers != Tiers::DramOnly;
        let stays = !goes_above && self.stays_in_dram(&item);
        if !stays && taken.is_none() {
            return Ok(Attempt::NoneTaken(self.core.dram.demoting_bytes(&item)));
        }
        let told_flash = self.invalidate_on_flash(hash).await;
        let now_s = self.core.now_s();
        let now_ms = self.core.now_ms();
        let unchanged = |there: Option<&ItemView<'_>>| {
            let alive = there.filter(|record| !record.is_over(now_ms));
            // With flash, the key's lock keeps others away. Without flash this check does: the value pins its record,
            // so no other record can have its address, while given versions may repeat.
            let is_seen = match (alive, &before) {
                (Some(record), Some(value)) => value.is_of(record),
                (alive, before) => alive.is_none() && before.is_none(),
            };
            (self.core.flash.is_some() || is_seen) && self.supersede(hash, key, alive)
        };
        let inserted = match taken.take().filter(|_| !stays) {
            None => self.core.dram.insert_if(&item, now_s, &unchanged).map(|there| there.is_some()),
            // There is flash, so no other caller has changed the key under its lock.
            Some(taken) => self.core.dram.insert_to_demote(&item, taken, &unchanged).map(|_| true),
        };
        // Flash has already voided its version: if DRAM does not have the key either, the value would be lost.
        let inserted = match inserted {
            Err(DramFull)
                if self.core.flash.is_some() && before.is_some() && !self.core.dram.holds(hash) =>
            {
                let above = self.core.dram.demotions().above();
                let taken = above.try_take(self.core.dram.demoting_bytes(&item));
                let may = |_: &TakenBytes<'_>| item.tiers != Tiers::DramOnly;
                taken.filter(may).map_or(Err(DramFull), |taken| {
                    self.core.dram.insert_to_demote(&item, taken, &unchanged).map(|_| true)
                })
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
}

/// Whether the value has this version. 0 is the version of values that DRAM has no room for, and matches none.
fn names(version: u64, value: &Value) -> bool {
    version != 0 && value.version() == version
}

fn number_in(value: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(value).ok()?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}
