//! Calls that wait for nothing, and need no future: they do what can be done now, or say that they cannot.

use std::sync::atomic::{AtomicBool, Ordering};

use super::change::Change;
use super::core::KeyLock;
use super::gate::GateEntry;
use super::{Larder, SetOptions, reentry};
use crate::base::error::Error;
use crate::base::key::{KeyHash, check_key, check_value};
use crate::dram::value::Value;
use crate::dram::{ItemView, Lookup};
use crate::observe::latency::TimedCall;

/// The lock of a key, and the right to be inside of the cache.
type HeldKey<'a> = (KeyLock<'a>, GateEntry<'a>);

impl Larder {
    /// Whether `key` certainly has no value, as far as that can be told without any wait. `true` counts as a look-up
    /// that misses; `false` gives no answer, and is not counted. For a loop that has got no answer from
    /// [`Larder::get_at_once_with`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an invalid key.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert!(!cache.misses_at_once(b"bread")? && cache.misses_at_once(b"cake")?);
    /// # Ok::<(), larder::Error>(())
    /// ```
    ///
    /// [`ErrorKind::InvalidInput`]: crate::ErrorKind::InvalidInput
    pub fn misses_at_once(&self, key: &[u8]) -> Result<bool, Error> {
        check_key(key)?;
        let core = &*self.core;
        if core.gate.is_closed() {
            return Ok(false); // the slow path returns the error
        }
        let (hash, begun) = (self.hasher.hash(key), self.stopwatch.begin());
        let misses = match &core.flash {
            None => {
                let found = core.dram.get_prefer_lock_free(hash, key, || core.now_ms());
                matches!(found, Lookup::Absent)
            }
            // In the order of `Larder::find`, which looks again under the key's lock if the key may have been changed.
            Some(flash) => {
                let seen = core.changes_so_far(hash);
                let is_nowhere = !core.dram.holds(hash) && !flash.may_answer(hash);
                let misses = is_nowhere && !core.may_have_changed(hash, seen);
                if misses {
                    flash.asked(hash);
                }
                misses
            }
        };
        if misses {
            core.counters.gets.add(1);
            self.note_get(begun, None);
        }
        Ok(misses)
    }

    /// As [`Larder::set_with`], without any wait. `false`: nothing has changed, because something has to be waited for
    /// (room in DRAM, the lock of the key, a write that voids an older value on flash); call [`Larder::set_with`] then.
    /// This is for a loop that does what it can at once, and starts the rest concurrently.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an invalid key.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// assert!(cache.set_at_once(b"bread", b"rye", SetOptions::default())?);
    /// assert_eq!(cache.get_at_once_with(b"bread", |value, _| value.len())?, Some(3));
    /// # Ok::<(), larder::Error>(())
    /// ```
    ///
    /// [`ErrorKind::InvalidInput`]: crate::ErrorKind::InvalidInput
    pub fn set_at_once(
        &self,
        key: &[u8],
        value: &[u8],
        options: SetOptions,
    ) -> Result<bool, Error> {
        check_key(key)?;
        let begun = self.stopwatch.begin();
        let stored = self.try_to_set(key, value, options).is_some();
        if stored {
            self.core.counters.sets.add(1);
            self.stopwatch.end(begun, TimedCall::Set);
            self.core.counters.removals.tell();
        }
        Ok(stored)
    }

    /// `None`: nothing has changed.
    fn try_to_set(&self, key: &[u8], value: &[u8], options: SetOptions) -> Option<()> {
        let core = &*self.core;
        if check_value(value).is_err() || !self.demoter.needs_no_help() {
            return None;
        }
        let hash = self.hasher.hash(key);
        let item = self.items.item(hash, key, value, options);
        if !core.stays_in_dram(&item) {
            return None;
        }
        let supersede = |there: Option<&ItemView<'_>>| self.supersede(hash, key, there);
        let _held = self.try_hold(hash)?;
        // Above flash, what has to leave for it would leave a second time for the call that comes after.
        let stored = match &core.flash {
            None => core.dram.insert(&item, &*core.clock, &supersede),
            Some(_) => core.dram.insert_into_room(&item, &*core.clock, &supersede),
        };
        stored.ok()?;
        self.demoter.has_brought(item.object_bytes());
        Some(())
    }

    /// Keeps other changes of a key away, if that needs no wait and flash has no older value to void.
    fn try_hold(&self, hash: KeyHash) -> Option<Option<HeldKey<'_>>> {
        let core = &*self.core;
        let Some(flash) = &core.flash else {
            // The slow path returns the error of a closed cache.
            core.gate.check().ok()?;
            return Some(None);
        };
        core.check_reentry().ok()?;
        let inside = core.gate.try_enter()?;
        let key_lock = core.try_lock_key(hash)?;
        // In the order in which they are given back.
        (!flash.has_to_void(hash)).then_some(Some((key_lock, inside)))
    }

    /// As [`Larder::update`], without any wait. `None`: nothing has changed, because something has to be waited for
    /// (a value on flash, room in DRAM, the lock of the key, another change of the key); call [`Larder::update`] then,
    /// which calls `change` again. Otherwise the value as it was before.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an invalid key.
    ///
    /// ```
    /// # use larder::{Change, Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// let before = cache.update_at_once(b"bread", |_| Change::Store(b"oat"[..].into(), SetOptions::default()))?;
    /// assert_eq!(before.flatten().as_deref(), Some(&b"rye"[..]));
    /// # Ok::<(), larder::Error>(())
    /// ```
    ///
    /// [`ErrorKind::InvalidInput`]: crate::ErrorKind::InvalidInput
    #[allow(clippy::option_option)] // whether it was done, and what was there
    pub fn update_at_once<'a>(
        &self,
        key: &[u8],
        change: impl FnOnce(Option<&Value>) -> Change<'a>,
    ) -> Result<Option<Option<Value>>, Error> {
        check_key(key)?;
        let before = self.try_to_update(key, change);
        self.core.counters.removals.tell();
        Ok(before)
    }

    #[allow(clippy::option_option)] // as above
    fn try_to_update<'a>(
        &self,
        key: &[u8],
        change: impl FnOnce(Option<&Value>) -> Change<'a>,
    ) -> Option<Option<Value>> {
        let core = &*self.core;
        if !self.demoter.needs_no_help() {
            return None;
        }
        let hash = self.hasher.hash(key);
        let _held = self.try_hold(hash)?;
        let before = match core.dram.get(hash, key, || core.now_ms()) {
            Lookup::Hit(value) => Some(value.for_now()),
            Lookup::Expired => return None,
            Lookup::Absent if core.flash.as_ref().is_some_and(|it| it.may_answer(hash)) => {
                return None;
            }
            Lookup::Absent => None,
        };
        let changed = reentry::updating(core.id(), || change(before.as_ref()));
        let Some(item) = self.items.item_after(hash, key, &changed, before.as_ref()) else {
            return Some(before.map(Value::kept));
        };
        let can_hold = check_value(item.value).is_ok() && core.dram.can_hold(item.object_bytes());
        if !can_hold || !core.stays_in_dram(&item) {
            return None;
        }
        let now_ms = core.now_ms();
        let is_admitted = AtomicBool::new(false);
        let unchanged = |there: Option<&ItemView<'_>>| {
            let admits = self.is_unchanged(hash, key, (there, now_ms), before.as_ref());
            is_admitted.store(admits, Ordering::Relaxed);
            admits
        };
        // As in `try_to_set`.
        let stored = match &core.flash {
            None => core.dram.insert(&item, &*core.clock, &unchanged),
            Some(_) => core.dram.insert_into_room(&item, &*core.clock, &unchanged),
        };
        if stored.is_err() || !is_admitted.into_inner() {
            return None;
        }
        self.demoter.has_brought(item.object_bytes());
        Some(before.map(Value::kept))
    }
}
