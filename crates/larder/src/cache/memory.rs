//! One budget for all memory: the DRAM tier gives way to what flash needs.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::core::Core;
use super::lending::Place;
use super::{DEMOTED_PER_BROUGHT, Larder};
use crate::config::{DRAM_BYTES_MAX, DRAM_BYTES_MIN};
use crate::error::Error;
use crate::flash::Flash;

/// The tier keeps this part of the budget, whatever flash needs.
const TIER_PART_MIN: u64 = 8;
/// A budget that is less than this part of it too small stays.
const SLACK_PART: u64 = 32;
/// So many times something is sent to flash between two looks at what flash needs.
const SENT_PER_LOOK: u64 = 64;
/// While the tier is above a smaller budget, whoever sends something to flash sends so many bytes.
const DEMOTED: std::ops::RangeInclusive<usize> = 32 << 10..=1 << 20;

/// The budget of everything, where there is one.
#[derive(Debug)]
pub(super) struct MemoryBudget {
    /// 0: none, the tier has a budget of its own.
    bytes: AtomicU64,
    sent: AtomicU64,
    /// Among others that it has a budget with.
    pub(super) place: OnceLock<Place>,
}

impl MemoryBudget {
    pub(super) fn new(bytes: Option<u64>) -> Self {
        let bytes = AtomicU64::new(bytes.unwrap_or(0));
        Self { bytes, sent: AtomicU64::new(0), place: OnceLock::new() }
    }

    /// What is left for the tier beside flash.
    ///
    /// # Errors
    /// If that is too little from the start.
    pub(super) fn first_share(bytes: u64, flash: Option<&Flash>) -> Result<u64, Error> {
        let needed = flash.map_or(0, Flash::memory_bytes_to_keep);
        check_all(bytes, needed, DRAM_BYTES_MIN, "flash")?;
        Ok(bytes - needed)
    }
}

/// Refuses a budget of all memory of which too little is left for DRAM, `dram_min` at least, beside what
/// the flash needs that is called so.
pub(super) fn check_all(bytes: u64, needed: u64, dram_min: u64, flash: &str) -> Result<(), Error> {
    let dram = (bytes / TIER_PART_MIN).max(dram_min);
    if needed.saturating_add(dram) <= bytes {
        return Ok(());
    }
    let least = needed.saturating_mul(TIER_PART_MIN) / (TIER_PART_MIN - 1) + 1;
    let least = least.max(needed.saturating_add(dram_min));
    Err(Error::config(format!(
        "memory_bytes = {bytes}: {flash} alone needs {needed} of it, and DRAM what is left; set at least \
         {least}, or use less flash, or a smaller loc.write_bytes"
    )))
}

/// What DRAM has of a budget of all memory.
pub(super) fn left_for_dram(bytes: u64, needed: u64) -> u64 {
    bytes.saturating_sub(needed).max(bytes / TIER_PART_MIN)
}

/// Whether a tier is to have another budget than it `has`: buffers come and go, and it need not breathe with
/// them, if these are a small part of `all`.
pub(super) fn is_another(budget: u64, has: u64, all: u64) -> bool {
    budget < has || budget - has > all / SLACK_PART
}

impl Core {
    /// Something went to flash, which may need more memory for it.
    pub(super) fn keep_memory_budget(&self) {
        let all = self.memory.bytes.load(Ordering::Relaxed);
        let is_due =
            || self.memory.sent.fetch_add(1, Ordering::Relaxed).is_multiple_of(SENT_PER_LOOK);
        if all > 0 && is_due() {
            self.divide_memory(all);
        }
    }

    fn divide_memory(&self, all: u64) {
        let needed = self.flash.as_ref().map_or(0, Flash::memory_bytes_to_keep);
        let share = left_for_dram(all, needed).max(DRAM_BYTES_MIN);
        if is_another(share, self.dram.budget_bytes(), all) {
            self.dram.set_budget(share, self.now_s());
        }
    }
}

impl Larder {
    /// Changes [`Config::memory_bytes`](crate::Config::memory_bytes): from now on that many bytes are
    /// for everything. The DRAM tier gets what flash leaves, as [`Larder::set_dram_bytes`] would give it,
    /// but an eighth at least.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// cache.set_memory_bytes(8 << 20);
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert!(cache.stats().dram_used_bytes <= 8 << 20);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn set_memory_bytes(&self, bytes: u64) {
        let bytes = bytes.max(1);
        self.core.memory.bytes.store(bytes, Ordering::Relaxed);
        self.core.divide_memory(bytes);
        self.sender.relieves(); // begins the thread, if something leaves
    }

    /// Changes the budget of the DRAM tier, in bytes; there is no budget of everything then. Less than 8
    /// KiB, but not 0, is 8 KiB, and more than 1 TiB is 1 TiB. Less than a 256th of the largest budget
    /// that the cache has had is that: the index keeps a few bytes of the larger one.
    ///
    /// What is above a smaller budget leaves in steps, while everybody goes on: up to 64 MiB of it before
    /// this returns, the rest with the calls that come. A set lets several times as much go as it brings, so
    /// that after sets of half as many bytes as the new budget all of it has left; none is refused
    /// meanwhile that fits the new budget. A get lets one segment go (of 1 MiB at most). Where nobody calls,
    /// nothing leaves. What values in use keep of a budget that was more than twice as large is not counted
    /// any more, and is freed when these are dropped.
    ///
    /// Above flash, what leaves has to be written there, and takes as long as flash takes for it. The cache's
    /// thread does so until all has left; with
    /// [`Demotions::Callers`](crate::config::Demotions::Callers) those do who set, or get what DRAM does not
    /// have, and hits in DRAM alone get no further than to the next segment.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// cache.set_dram_bytes(8 << 20);
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert_eq!(cache.stats().dram_items, 1);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn set_dram_bytes(&self, bytes: u64) {
        self.core.memory.bytes.store(0, Ordering::Relaxed);
        let bytes = if bytes == 0 { 0 } else { bytes.clamp(DRAM_BYTES_MIN, DRAM_BYTES_MAX) };
        self.core.dram.set_budget(bytes, self.core.now_s());
        self.sender.relieves();
    }

    /// How many bytes somebody sends to flash who brought so many to DRAM (rule 7), or is about to: those it
    /// has a budget with are told of them.
    pub(super) fn demoted_for(&self, brought: usize) -> usize {
        self.note_brought(brought);
        let usual = brought * DEMOTED_PER_BROUGHT;
        if !self.core.dram.is_shrinking() {
            return usual;
        }
        self.core.dram.leaving_for(brought).clamp(*DEMOTED.start(), *DEMOTED.end()).max(usual)
    }
}
