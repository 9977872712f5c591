//! How a cache keeps its budget of memory, and those that it shares one with keep theirs.

use std::sync::OnceLock;

use super::core::Core;
use super::demoting::Patience;
use super::lending::{Borrower, Membership};
use super::memory::{is_another, left_for_dram};
use super::{DEMOTED_PER_BROUGHT, Larder};
use crate::config::{DRAM_BYTES_MAX, DRAM_BYTES_MIN};
use crate::flash::Flash;

/// While the tier is above a smaller budget, whoever sends something to flash sends so many bytes.
const DEMOTED: std::ops::RangeInclusive<usize> = 32 << 10..=1 << 20;
const _: () = assert!(*DEMOTED.start() > 0 && *DEMOTED.start() <= *DEMOTED.end());

impl Core {
    /// Something went to flash, which may need more memory for it.
    pub(super) fn keep_memory_budget(&self) {
        if let Some(all) = self.memory.due() {
            self.divide_memory(all);
        }
    }

    /// Memory that flash needs, whatever its budget is.
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

/// Bytes of memory that a cache has, of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allotment {
    /// For DRAM; what flash needs comes on top.
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
        self.sender.relieves(); // begins the thread, if something leaves
    }

    fn is_above_budget(&self) -> bool {
        self.core.dram.is_shrinking()
    }

    fn membership(&self) -> &OnceLock<Membership<Self>> {
        &self.membership
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
        self.core.memory.set(bytes);
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
        self.core.memory.set(0);
        let bytes = if bytes == 0 { 0 } else { bytes.clamp(DRAM_BYTES_MIN, DRAM_BYTES_MAX) };
        self.set_budget(bytes);
    }

    /// What it has of a budget that nobody shares with it by lending; `None` if somebody does.
    pub(crate) fn allotment(&self) -> Option<Allotment> {
        if self.membership.get().is_some() {
            return None;
        }
        Some(match self.core.memory.get() {
            0 => Allotment::Dram(self.core.dram.budget_bytes()),
            all => Allotment::All(all),
        })
    }

    /// Bytes of memory that it may take, as they were last set: of everything, or of DRAM where only that is limited
    /// (see [`Config::memory_bytes`](crate::Config::memory_bytes)). A cache that lends memory to others has what it has
    /// now.
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

    /// Gives it another one.
    pub(crate) fn allot(&self, allotment: Allotment) {
        match allotment {
            Allotment::Dram(bytes) => self.set_dram_bytes(bytes),
            Allotment::All(bytes) => self.set_memory_bytes(bytes),
        }
    }

    /// How many bytes somebody sends to flash who brought so many to DRAM (rule 7), or is about to: those it
    /// has a budget with are told of them.
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

    /// Helps those that have to give something back to do so: they may have no calls of their own.
    pub(super) async fn help_debtors(&self, bytes: usize) {
        let Some(membership) = self.membership.get() else { return };
        for debtor in membership.lending().debtors(self) {
            // One that is being cleared or closed is left alone: nobody waits for another cache.
            let Some(_inside) = debtor.core.gate.try_enter() else { continue };
            debtor.give_way(bytes).await;
            // Its thread may not keep up with us.
            if debtor.sender.sends() && membership.lending().is_over() {
                let mut patience = Patience::new(&debtor.core, self.demotion_wait);
                debtor.wait_for_room(&mut patience, bytes).await;
            }
        }
    }
}
