//! Calls that wait for nothing, and need no future: they do what can be done now, or say that they cannot.

use super::{Larder, SetOptions};
use crate::base::error::Error;
use crate::base::key::{check_key, check_value};
use crate::dram::{ItemView, Lookup};
use crate::observe::latency::TimedCall;

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
        let _held = match &core.flash {
            // The slow path returns the error of a closed cache.
            None => {
                core.gate.check().ok()?;
                None
            }
            Some(flash) => {
                core.check_reentry().ok()?;
                let inside = core.gate.try_enter()?;
                let key_lock = core.try_lock_key(hash)?;
                if flash.has_to_void(hash) {
                    return None;
                }
                // In the order in which they are given back.
                Some((key_lock, inside))
            }
        };
        // Above flash, what has to leave for it would leave a second time for the call that comes after.
        let stored = match &core.flash {
            None => core.dram.insert(&item, &*core.clock, &supersede),
            Some(_) => core.dram.insert_into_room(&item, &*core.clock, &supersede),
        };
        stored.ok()?;
        self.demoter.has_brought(item.object_bytes());
        Some(())
    }
}
