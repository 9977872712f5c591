//! Garbage collection: making erased units out of full ones.

use super::units::Owner;
use super::{Frontier, GcDestination, ManagedSsd};
use crate::error::{Error, ErrorKind};

impl ManagedSsd {
    /// Gives `handle` a unit with room, reclaiming others first while erased ones are short.
    pub(super) fn open_for_host(&mut self, handle: u16) -> Result<(), Error> {
        let reserve = self.config.gc_reserve_units as usize;
        while self.units.erased() < reserve {
            self.collect()?;
            // With a shared frontier, collection itself may have opened the unit that the host goes
            // on with.
            if self.host_frontiers[usize::from(handle)].room() > 0 {
                return Ok(());
            }
        }
        self.host_frontiers[usize::from(handle)] = self.open(Owner::Handle(handle))?;
        Ok(())
    }

    fn open(&mut self, owner: Owner) -> Result<Frontier, Error> {
        let unit = self.units.open(owner).ok_or_else(stuck)?;
        let pages_per_unit = self.config.geometry.pages_per_unit;
        let next = unit * pages_per_unit;
        Ok(Frontier { next, end: next + pages_per_unit })
    }

    /// Reclaims the full unit with the fewest live pages.
    fn collect(&mut self) -> Result<(), Error> {
        let victim = self.victims.fewest_live().ok_or_else(stuck)?;
        let (live, owner) = {
            let unit = self.units.get(victim);
            (unit.live, unit.owner)
        };
        if live == self.config.geometry.pages_per_unit {
            return Err(stuck());
        }
        self.victims.remove(victim, live);
        if live > 0 {
            self.move_live_pages(victim, owner)?;
            self.map.clear_unit(victim);
            self.units.get_mut(victim).live = 0;
            self.stats.copied_pages += u64::from(live);
            self.stats.media_pages += u64::from(live);
            self.stats.units_collected_with_copies += 1;
            let slot = match owner {
                Owner::Handle(handle) => usize::from(handle),
                Owner::Mixed | Owner::Nobody => usize::from(self.config.handles),
            };
            self.stats.copied_pages_by_owner[slot] += u64::from(live);
        }
        self.units.erase(victim);
        self.stats.erased_units += 1;
        Ok(())
    }

    /// Copies the live pages of `victim`, in their order, to where its owner's data goes.
    ///
    /// The victim has at least one dead page, so this opens at most one unit; the reserve holds it.
    fn move_live_pages(&mut self, victim: u32, owner: Owner) -> Result<(), Error> {
        let first = victim * self.config.geometry.pages_per_unit;
        let (destination_owner, frontier) = self.gc_frontier(owner);
        let mut frontier = *frontier;
        let mut batch_start = frontier.next;
        for word in 0..self.map.words_per_unit() {
            let mut bits = self.map.live_word(victim, word);
            #[allow(clippy::cast_possible_truncation)] // a unit has fewer than 2^32 pages
            let base = first + word as u32 * 64;
            while bits != 0 {
                let source = base + bits.trailing_zeros();
                bits &= bits - 1;
                if frontier.room() == 0 {
                    self.book_moved(batch_start, frontier.next);
                    frontier = self.open(destination_owner)?;
                    batch_start = frontier.next;
                }
                let lpn = self.map.logical(source).expect("a live page has a logical address");
                self.map.place(lpn, frontier.next);
                frontier.next += 1;
            }
        }
        self.book_moved(batch_start, frontier.next);
        *self.gc_frontier(owner).1 = frontier;
        Ok(())
    }

    fn book_moved(&mut self, start: u32, end: u32) {
        if end > start {
            self.pages_written(start, end - start);
        }
    }

    /// The frontier to which data of `owner` is moved, and who will own the unit there.
    fn gc_frontier(&mut self, owner: Owner) -> (Owner, &mut Frontier) {
        let handle = match owner {
            Owner::Handle(handle) => handle,
            Owner::Mixed | Owner::Nobody => 0,
        };
        match self.config.gc_destination {
            GcDestination::HostFrontier => {
                (Owner::Handle(handle), &mut self.host_frontiers[usize::from(handle)])
            }
            GcDestination::Shared => (Owner::Mixed, &mut self.gc_frontiers[0]),
            GcDestination::PerHandle => {
                (Owner::Handle(handle), &mut self.gc_frontiers[usize::from(handle)])
            }
        }
    }
}

fn stuck() -> Error {
    Error::new(
        ErrorKind::Stuck,
        "no reclaim unit can be reclaimed: every full one is entirely live",
    )
}
