//! The cache: `get`, `set`, `delete` over both tiers, and the rules that keep them from
//! contradicting each other.
//!
//! 1. Whatever changes a key, or moves it between tiers, holds the key's lock: a stripe of async
//!    mutexes. A hit in DRAM takes none.
//! 2. DRAM is newer than flash. As long as a key is in DRAM (or on its way out), nobody asks flash
//!    for it.
//! 3. When an item leaves DRAM, flash ends up with this version or with none; an older one is never
//!    left behind.
//! 4. No lock is held while waiting for another key's lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use larder_device::{Assignment, Clock, Device};

use crate::config::Config;
use crate::dram::{DramTier, Lookup};
use crate::error::{Error, ErrorKind};
use crate::flash::{Engine, Flash, Layout, Recovery};
use crate::key::{KeyHash, check_key, check_value};
use crate::stats::{Counters, Stats};
use crate::value::{Item, Value};

/// Locks for all keys: two keys that share one only wait needlessly.
const STRIPES: usize = 1024;

/// A hybrid cache, DRAM in front of flash. Share it between threads and tasks behind an [`Arc`].
///
/// Every future may be dropped at any point: the cache stays consistent, though what was under way
/// may be lost.
pub struct Larder {
    dram: Mutex<DramTier>,
    flash: Option<Flash>,
    stripes: Vec<async_lock::Mutex<()>>,
    clock: Arc<dyn Clock>,
    counters: Arc<Counters>,
}

impl Larder {
    /// Opens a cache on `device`, or in DRAM only. A device that was shut down cleanly comes back
    /// with its content; see [`Larder::recovery`].
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for settings that cannot work or do not fit the device,
    /// [`ErrorKind::Foreign`] if the device holds something else, [`ErrorKind::Device`] if its
    /// metadata cannot be read or written.
    pub async fn open(
        config: Config,
        device: Option<Arc<dyn Device>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        config.check()?;
        let counters = Arc::new(Counters::default());
        let flash = match device {
            Some(device) => {
                Some(Flash::open(&config, device, Arc::clone(&counters), clock.now()).await?)
            }
            None => None,
        };
        Ok(Self {
            dram: Mutex::new(DramTier::new(config.dram_bytes, config.dram_policy)),
            flash,
            stripes: (0..STRIPES).map(|_| async_lock::Mutex::new(())).collect(),
            clock,
            counters,
        })
    }

    /// Looks `key` up. `None` is a miss. A hit on flash brings the item back to DRAM.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an impossible key. Device errors are misses, and counted.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        check_key(key)?;
        let hash = KeyHash::of(key);
        let now_s = self.now_s();
        self.counters.gets.add(1);
        if let Lookup::Hit(item) = self.dram().get(hash, key, now_s) {
            self.counters.dram_hits.add(1);
            return Ok(Some(item.to_value()));
        }
        self.get_below_dram(hash, key).await
    }

    /// Stores `value` under `key`, in place of an older value. It expires after `ttl` (rounded up
    /// to seconds), or never.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a key or a value that no tier can hold; the key then has no
    /// value at all.
    pub async fn set(&self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> Result<(), Error> {
        check_key(key)?;
        let hash = KeyHash::of(key);
        self.counters.sets.add(1);
        if let Err(refusal) = check_value(value) {
            self.remove(hash, key).await;
            return Err(refusal);
        }
        let item = Item::new(hash, key, value, self.expiry_s(ttl));
        if !self.can_hold(item.object_bytes()) {
            self.remove(hash, key).await;
            return Err(self.too_large(item.object_bytes()));
        }
        let departures = {
            let _turn = self.stripe(hash).lock().await;
            self.dram().insert(item)
        };
        if departures {
            self.settle_departures().await;
        }
        Ok(())
    }

    /// Removes `key` from both tiers. Says whether it was there.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an impossible key.
    pub async fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        check_key(key)?;
        self.counters.deletes.add(1);
        Ok(self.remove(KeyHash::of(key), key).await)
    }

    /// Shuts down cleanly: what DRAM holds goes to flash as if evicted, and the next
    /// [`Larder::open`] goes on with it.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if the metadata cannot be written; the next opening then starts empty.
    pub async fn close(self) -> Result<Stats, Error> {
        self.dram().evict_all();
        self.settle_departures().await;
        let counters = Arc::clone(&self.counters);
        if let Some(flash) = self.flash {
            flash.close().await?;
        }
        Ok(counters.snapshot())
    }

    /// Counters since the cache was opened.
    pub fn stats(&self) -> Stats {
        let dram = self.dram();
        let (dram_items, dram_used_bytes) = (dram.len() as u64, dram.used_bytes());
        drop(dram);
        Stats { dram_items, dram_used_bytes, ..self.counters.snapshot() }
    }

    /// Which stream writes with which placement handle. Empty without flash.
    pub fn placement(&self) -> &[Assignment] {
        self.flash.as_ref().map_or(&[], Flash::assignments)
    }

    /// How the device is divided. `None` without flash.
    pub fn layout(&self) -> Option<&Layout> {
        self.flash.as_ref().map(Flash::layout)
    }

    /// What the opening found. `None` without flash.
    pub fn recovery(&self) -> Option<&Recovery> {
        self.flash.as_ref().map(Flash::recovery)
    }

    async fn get_below_dram(&self, hash: KeyHash, key: &[u8]) -> Result<Option<Value>, Error> {
        let turn = self.stripe(hash).lock().await;
        let now_s = self.now_s();
        // Who held the lock before may have brought the key to DRAM, or found it expired.
        let lookup = self.dram().get(hash, key, now_s);
        match lookup {
            Lookup::Hit(item) => {
                self.counters.dram_hits.add(1);
                return Ok(Some(item.to_value()));
            }
            Lookup::Expired => {
                self.counters.expired.add(1);
                // Flash first: as long as the key is in DRAM, an older version on flash stays out
                // of sight.
                if let Some(flash) = &self.flash {
                    flash.remove(hash, key).await;
                }
                self.dram().remove(hash, key);
                return Ok(None);
            }
            Lookup::Absent => {}
        }
        let Some(flash) = &self.flash else { return Ok(None) };
        let Some((item, engine)) = flash.get(hash, key, now_s).await else { return Ok(None) };
        if item.is_expired(self.now_s()) {
            self.counters.expired.add(1); // while it was being read
            return Ok(None);
        }
        match engine {
            Engine::Soc => self.counters.soc_hits.add(1),
            Engine::Loc => self.counters.loc_hits.add(1),
        }
        let value = item.to_value();
        let departures = self.dram().insert(item);
        drop(turn);
        if departures {
            self.settle_departures().await;
        }
        Ok(Some(value))
    }

    /// Removes `key` from both tiers.
    async fn remove(&self, hash: KeyHash, key: &[u8]) -> bool {
        let _turn = self.stripe(hash).lock().await;
        let on_flash = match &self.flash {
            Some(flash) => flash.remove(hash, key).await,
            None => false,
        };
        let in_dram = self.dram().remove(hash, key);
        in_dram.is_some_and(|item| !item.is_expired(self.now_s())) || on_flash
    }

    /// Sends what DRAM has evicted to flash, until nothing is left to send.
    async fn settle_departures(&self) {
        loop {
            let Some(item) = self.dram().next_departure() else { return };
            let mut unsettled = Unsettled { dram: &self.dram, item: Some(item) };
            let Some(item) = &unsettled.item else { return };
            if let Some(flash) = &self.flash {
                let _turn = self.stripe(item.hash).lock().await;
                let still_departs = self.dram().is_departing(item);
                if still_departs {
                    flash.settle(item, self.now_s()).await;
                }
                self.dram().departed(item);
            } else {
                self.dram().departed(item);
            }
            unsettled.item = None;
        }
    }

    fn dram(&self) -> MutexGuard<'_, DramTier> {
        self.dram.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stripe(&self, hash: KeyHash) -> &async_lock::Mutex<()> {
        let stripe = hash.spread_over(self.stripes.len() as u64);
        &self.stripes[usize::try_from(stripe).expect("below the number of stripes")]
    }

    fn now_s(&self) -> u32 {
        u32::try_from(self.clock.now().as_secs()).unwrap_or(u32::MAX)
    }

    fn expiry_s(&self, ttl: Option<Duration>) -> u32 {
        let Some(ttl) = ttl else { return 0 };
        // Rounded up as a sum: a value lives at least as long as it was promised.
        let end = self.clock.now().saturating_add(ttl);
        let seconds = end.as_secs().saturating_add(u64::from(end.subsec_nanos() > 0)).max(1);
        u32::try_from(seconds).unwrap_or(u32::MAX)
    }

    fn can_hold(&self, object_bytes: usize) -> bool {
        // Flash first: it answers without a lock.
        self.flash.as_ref().is_some_and(|flash| flash.engine_for(object_bytes).is_some())
            || self.dram().can_hold(object_bytes)
    }

    fn too_large(&self, object_bytes: usize) -> Error {
        let message = match &self.flash {
            Some(flash) => format!(
                "object of {object_bytes} bytes: flash holds at most {} (set region_bytes higher), \
                 and dram_bytes is too small for it",
                flash.object_bytes_max()
            ),
            None => format!("object of {object_bytes} bytes: dram_bytes is too small for it"),
        };
        Error::new(ErrorKind::InvalidInput, message)
    }
}

/// An item that is being sent to flash. If the sender is dropped on the way, the next one takes
/// over.
struct Unsettled<'a> {
    dram: &'a Mutex<DramTier>,
    item: Option<Item>,
}

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        if let Some(item) = self.item.take() {
            self.dram.lock().unwrap_or_else(PoisonError::into_inner).requeue_departure(item);
        }
    }
}
