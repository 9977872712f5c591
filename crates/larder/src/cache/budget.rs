//! The cache's memory budget, and the cooperation of caches that share one.

use std::sync::OnceLock;

use super::core::Core;
use super::demoting::Patience;
use super::lending::{Borrower, Membership};
use super::memory::{is_another, left_for_dram};
use super::{DEMOTED_PER_BROUGHT, Larder};
use crate::config::{DRAM_BYTES_MAX, DRAM_BYTES_MIN};
use crate::flash::Flash;

/// While the tier is above a reduced budget, each caller that helps sends a number of bytes in this range to flash.
const DEMOTED: std::ops::RangeInclusive<usize> = 32 << 10..=1 << 20;
const _: () = assert!(*DEMOTED.start() > 0 && *DEMOTED.start() <= *DEMOTED.end());

impl Core {
    /// Called after something went to flash, which may need more memory for it.
    pub(super) fn keep_memory_budget(&self) {
        if let Some(all) = self.memory.due() {
            self.divide_memory(all);
        }
    }

    /// Memory that flash needs, regardless of the budget.
    fn flash_bytes(&self) -> u64 {
        self.flash.as_deref().map_or(0, Flash::memory_bytes_to_keep)
    }

    fn divide_memory(&self, all: u64) {
        let needed = self.flash_bytes();
        let share = left_for_dram(all, needed).max(DRAM_BYTES_MIN);
        if is_another(share, self.dram.budget_bytes(), all) {
            self.dram.set_budget(share, self.now_s());
        }
    }
}

/// A cache's part of a memory budget, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allotment {
    /// For DRAM; flash takes its memory on top.
    Dram(u64),
    /// For everything.
    All(u64),
}

impl Borrower for Larder {
    fn flash_bytes(&self) -> u64 {
        self.core.flash_bytes()
    }

    fn used_bytes(&self) -> u64 {
        self.core.dram.used_bytes()
    }

    fn budget_bytes(&self) -> u64 {
        self.core.dram.budget_bytes()
    }

    fn set_budget(&self, bytes: u64) {
        self.core.dram.set_budget(bytes, self.core.now_s());
        self.sender.relieves(); // starts the thread, if something must leave
    }

    fn is_above_budget(&self) -> bool {
        self.core.dram.is_shrinking()
    }

    fn membership(&self) -> &OnceLock<Membership<Self>> {
        &self.membership
    }
}

impl Larder {
    /// Changes [`Config::memory_bytes`](crate::Config::memory_bytes): from now on the budget of all memory is
    /// `bytes`. The DRAM tier gets what flash leaves, as with [`Larder::set_dram_bytes`], but at least an eighth.
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
        self.core.memory.set(bytes);
        self.core.divide_memory(bytes);
        self.sender.relieves(); // starts the thread, if something must leave
    }

    /// Changes the budget of the DRAM tier, in bytes. A budget of all memory no longer applies then. Values below
    /// 8 KiB, except 0, become 8 KiB, and values above 1 TiB become 1 TiB. The budget cannot fall below 1/256 of the
    /// largest budget that the cache has had, because the index keeps a few bytes of that.
    ///
    /// After a reduction, the excess leaves in steps while the cache serves: up to 64 MiB before this returns, the
    /// rest with later calls. A set evicts several times as much as it brings, so the excess has left after sets of
    /// half as many bytes as the new budget. None of these sets is refused if it fits the new budget. A get evicts
    /// one segment (1 MiB at most). Without calls nothing leaves. If the old budget was more than twice the new one,
    /// memory that values in use pin is no longer counted, and is freed when the values are dropped.
    ///
    /// With flash, evicted objects must be written there, at the speed of flash. The cache's thread does that until
    /// all has left. With [`Demotions::Callers`](crate::config::Demotions::Callers) the callers that set, or miss
    /// DRAM, do it; then hits in DRAM alone evict no further than the next segment.
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
        self.core.memory.set(0);
        let bytes = if bytes == 0 { 0 } else { bytes.clamp(DRAM_BYTES_MIN, DRAM_BYTES_MAX) };
        self.set_budget(bytes);
    }

    /// The cache's part of a budget, unless it shares one by lending: then `None`.
    pub(crate) fn allotment(&self) -> Option<Allotment> {
        if self.membership.get().is_some() {
            return None;
        }
        Some(match self.core.memory.get() {
            0 => Allotment::Dram(self.core.dram.budget_bytes()),
            all => Allotment::All(all),
        })
    }

    /// The memory limit in bytes, as it was last set: of everything, or of DRAM if only that is limited (see
    /// [`Config::memory_bytes`](crate::Config::memory_bytes)). For a cache that lends memory to others: its current
    /// budget.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// cache.set_dram_bytes(5 << 20);
    /// assert_eq!(cache.memory_limit_bytes(), 5 << 20);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn memory_limit_bytes(&self) -> u64 {
        match self.core.memory.get() {
            0 => self.core.dram.budget_bytes(),
            all => all,
        }
    }

    /// Sets the cache's part of a budget.
    pub(crate) fn allot(&self, allotment: Allotment) {
        match allotment {
            Allotment::Dram(bytes) => self.set_dram_bytes(bytes),
            Allotment::All(bytes) => self.set_memory_bytes(bytes),
        }
    }

    /// Bytes to send to flash for a caller that brings `brought` bytes to DRAM (rule 7), or is about to. Also reports
    /// the bytes to the caches that share the budget.
    pub(super) fn demoted_for(&self, brought: usize) -> usize {
        if let Some(membership) = self.membership.get() {
            membership.note_brought(brought as u64);
        }
        let usual = brought * DEMOTED_PER_BROUGHT;
        if !self.core.dram.is_shrinking() {
            return usual;
        }
        self.core.dram.leaving_for(brought).clamp(*DEMOTED.start(), *DEMOTED.end()).max(usual)
    }

    /// Helps caches that must give memory back and may have no calls of their own.
    pub(super) async fn demote_for_debtors(&self, bytes: usize) {
        let Some(membership) = self.membership.get() else { return };
        for debtor in membership.lending().debtors(self) {
            // Skip one that is being cleared or closed: a cache never waits for another.
            let Some(_inside) = debtor.core.gate.try_enter() else { continue };
            debtor.demote_or_shrink(bytes).await;
            // Its thread may not keep up with this cache.
            if debtor.sender.sends() && membership.lending().is_over() {
                let mut patience = Patience::new(&debtor.core, self.demotion_wait);
                debtor.wait_for_room(&mut patience, bytes).await;
            }
        }
    }
}
