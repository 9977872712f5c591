//! Garbage collection and wear: turns full units into erased ones.
//!
//! Invariant: a group has at least one erased unit whenever collection starts. It holds because the host opens a unit
//! only while the reserve (at least two) is erased, and because reclaiming a unit opens at most one other and gives
//! itself back. Two things can break it: an erase that fails, and a power loss between the opening and the erase. Then
//! a victim is taken only if its live pages fit into the open unit.
//!
//! An erase that fails retires its unit. *Dynamic* levelling opens the least worn erased unit first, but it does not
//! reach units whose data never dies. *Static* levelling does: when the gap between the most and the least worn unit
//! grows too large, the least worn full unit, which holds the coldest data, is copied to the most worn erased unit and
//! returns to the pool. The copy keeps its owner, so isolation holds. Dead pages of the old unit become padding in the
//! new one, so no space is gained or lost.

use super::ManagedSsd;
use super::events::Event;
use super::frontier::{Frontier, Placement};
use super::options::{GcDestination, VictimPolicy, VictimScope};
use super::units::{Owner, Role, UnitState};
use crate::error::{Error, ErrorKind};
use crate::nand::BlockIndex;

impl ManagedSsd {
    /// Gives host frontier `index` a unit with room. Reclaims others first while erased units are short.
    pub(super) fn open_for_host(&mut self, index: usize) -> Result<(), Error> {
        let group = self.frontiers.group_of(index);
        self.fill_reserve(group, index)?;
        // With a shared frontier, collection may itself have opened a unit with room for the host.
        if self.frontiers.host(index).room() > 0 {
            return Ok(());
        }
        // Each erase may fail and take a unit of the reserve, which the next move needs: refill the reserve before
        // anything else is moved or opened. If the failed erase takes the last spare unit, nothing more is moved or
        // opened, as the erased units left may not suffice.
        while self.collect_ahead(group, index)? {
            self.fill_reserve(group, index)?;
        }
        self.level_wear(group)?;
        self.fill_reserve(group, index)?;
        if self.frontiers.host(index).room() == 0 {
            let owner = self.frontiers.owner_of(index);
            let role = Role::Host(narrow(index));
            let full = self.frontiers.host(index);
            let frontier = self.open(group, owner, role)?;
            *self.frontiers.host_mut(index) = frontier;
            if full.is_of_a_unit() {
                let (placement, unit) =
                    (self.frontiers.placement_of(index), self.map.unit_of(frontier.next));
                self.events.record(Event::MovedOn { placement, unit });
            }
        }
        Ok(())
    }

    /// Reclaims units of `group` until the reserve is erased, or until at least one unit is erased and host frontier
    /// `index` has room.
    fn fill_reserve(&mut self, group: usize, index: usize) -> Result<(), Error> {
        let pages_per_unit = self.config.geometry.pages_per_unit;
        // Collections in a row that freed no page: some policies take entirely live units.
        let mut fruitless = 0;
        self.check_not_worn_out()?;
        while self.units.erased(group) < self.reserve {
            let victim = self.choose_victim(group, index, fruitless)?;
            let live = self.reclaim(victim, group)?;
            self.check_not_worn_out()?;
            if self.frontiers.host(index).room() > 0 && self.units.erased(group) > 0 {
                break;
            }
            fruitless = if live == pages_per_unit { fruitless + 1 } else { 0 };
        }
        Ok(())
    }

    /// Collects an almost empty unit, if lazy collection is on. Returns whether it did.
    fn collect_ahead(&mut self, group: usize, index: usize) -> Result<bool, Error> {
        let Some(lazy) = self.config.lazy_collection else { return Ok(false) };
        if self.units.erased(group) >= lazy.below_erased_units as usize {
            return Ok(false);
        }
        let pages_per_unit = u64::from(self.config.geometry.pages_per_unit);
        let live_max = pages_per_unit * u64::from(lazy.live_percent_max) / 100;
        match self.policy_choice(group, index) {
            Some(victim) if u64::from(self.units.get(victim).live) <= live_max => {
                self.reclaim(victim, group)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Opens an erased unit of `group` for the frontier in `role`.
    pub(super) fn open(
        &mut self,
        group: usize,
        owner: Owner,
        role: Role,
    ) -> Result<Frontier, Error> {
        let Some(unit) = self.units.open(group, owner, role) else {
            return Err(self.no_room(group));
        };
        let pages_per_unit = self.config.geometry.pages_per_unit;
        let next = unit * pages_per_unit;
        Ok(Frontier { next, end: next + pages_per_unit })
    }

    /// Opens another unit for moved data, which has filled one. If a host handle was filling that unit too, the handle
    /// moves to the new unit without a host command.
    fn open_for_moved(
        &mut self,
        group: usize,
        owner: Owner,
        role: Role,
        full: Frontier,
    ) -> Result<Frontier, Error> {
        let frontier = self.open(group, owner, role)?;
        if let Role::Host(index) = role
            && full.is_of_a_unit()
        {
            let placement = self.frontiers.placement_of(index as usize);
            let unit = self.map.unit_of(frontier.next);
            self.events.record(Event::ImplicitlyModified { placement, unit });
        }
        Ok(frontier)
    }

    /// Chooses the unit to reclaim so that host frontier `index` gets room.
    fn choose_victim(&mut self, group: usize, index: usize, fruitless: u32) -> Result<u32, Error> {
        let desperate = self.units.erased(group) == 0 || fruitless > self.config.units_per_group();
        let victim = if desperate {
            self.emptiest_that_fits(group)
        } else {
            self.policy_choice(group, index).filter(|&unit| self.is_worth_moving(group, unit))
        };
        victim.ok_or_else(|| self.no_room(group))
    }

    /// An entirely live unit is moved only to get at other units with dead pages, which must exist: FIFO and random
    /// policies need this. Greedy has no better choice, so moving it would gain nothing.
    fn is_worth_moving(&self, group: usize, unit: u32) -> bool {
        self.units.get(unit).live < self.config.geometry.pages_per_unit
            || (self.config.victim_policy != VictimPolicy::Greedy
                && self.emptiest_that_fits(group).is_some())
    }

    /// After a power loss: finishes the interrupted collection, if it had taken the last erased unit of a group. The
    /// host must not get the room that is left for it.
    pub(super) fn finish_collections(&mut self) -> Result<(), Error> {
        for group in 0..usize::from(self.config.groups) {
            if self.units.erased(group) == 0
                && let Some(victim) = self.emptiest_that_fits(group)
            {
                self.reclaim(victim, group)?;
            }
        }
        Ok(())
    }

    /// The policy's choice for host frontier `index`, within the configured scope.
    fn policy_choice(&mut self, group: usize, index: usize) -> Option<u32> {
        if self.config.victim_scope == VictimScope::Global {
            return self.victims.choose(narrow(group), &self.units);
        }
        let streams = self.frontiers.streams();
        let first = narrow(group * (streams + 1));
        let own = self.victims.choose(first + narrow(self.frontiers.stream_of(index)), &self.units);
        let frees = |unit: &u32| self.units.get(*unit).live < self.config.geometry.pages_per_unit;
        own.filter(frees).or_else(|| {
            (first..=first + narrow(streams))
                .filter_map(|set| self.victims.choose(set, &self.units))
                .min_by_key(|&unit| self.units.get(unit).live)
        })
    }

    /// The full unit of `group` with the fewest live pages and at least one dead page, among those whose live pages can
    /// be moved. Scans all units; used only when nothing else helps.
    fn emptiest_that_fits(&self, group: usize) -> Option<u32> {
        let any_erased = self.units.erased(group) > 0;
        let candidates = self.units.of_group(group).filter(|&number| {
            let unit = self.units.get(number);
            unit.state == UnitState::Full
                && unit.live < self.config.geometry.pages_per_unit
                && (any_erased || unit.live <= self.room_for(group, unit.owner))
        });
        candidates.min_by_key(|&number| self.units.get(number).live)
    }

    fn room_for(&self, group: usize, owner: Owner) -> u32 {
        let (_, role) = self.frontiers.destination(group, owner);
        self.frontiers.of(role).map_or(0, Frontier::room)
    }

    /// Moves the live pages of the full unit `victim` and erases it. Returns the number of moved pages.
    pub(super) fn reclaim(&mut self, victim: u32, group: usize) -> Result<u32, Error> {
        let unit = *self.units.get(victim);
        self.victims.remove(victim, unit.set, unit.live);
        if unit.live > 0 {
            let (owner, role) = self.frontiers.destination(group, unit.owner);
            let mut frontier = self.frontiers.of(role).unwrap_or_default();
            let moved = self.move_live_pages(victim, group, owner, role, &mut frontier);
            self.frontiers.set(role, frontier);
            moved?;
        }
        self.finish_unit(victim, unit.live);
        Ok(unit.live)
    }

    /// Erases a unit whose `moved` live pages have all been copied.
    pub(super) fn finish_unit(&mut self, unit: u32, moved: u32) {
        if moved > 0 {
            self.events.record_moved(self.map.live_pages(unit));
            self.map.clear_unit(unit);
            self.units.get_mut(unit).live = 0;
            self.stats.units_collected_with_copies += 1;
            let source = self.written_with(unit);
            self.events.record(Event::MediaReallocated { unit, source, pages: moved });
        }
        self.erase(unit);
    }

    /// Copies the live pages of `victim`, in order, to `frontier`, and on to a further unit for `owner` in `role`. At
    /// most one further unit: either the victim has no more live pages than a unit, or `frontier` has room for them.
    pub(super) fn move_live_pages(
        &mut self,
        victim: u32,
        group: usize,
        owner: Owner,
        role: Role,
        frontier: &mut Frontier,
    ) -> Result<(), Error> {
        let first = victim * self.config.geometry.pages_per_unit;
        let slot = self.copies_slot(self.units.get(victim).owner);
        let mut batch_start = frontier.next;
        // Move runs of neighbours together, unless each page needs out-of-band data or a journal entry.
        let longest = if self.out_of_band.is_some() || self.journal.is_kept() { 1 } else { 64 };
        for word in 0..self.map.words_per_unit() {
            let mut bits = self.map.live_word(victim, word);
            let base = first + narrow(word) * 64;
            while bits != 0 {
                let start = bits.trailing_zeros();
                let source = base + start;
                if frontier.room() == 0 {
                    self.book_moved(batch_start, frontier.next, slot);
                    *frontier = self.open_for_moved(group, owner, role, *frontier)?;
                    batch_start = frontier.next;
                }
                if self.out_of_band.is_some() && !self.copy_beside(source, frontier.next) {
                    self.book_moved(batch_start, frontier.next, slot);
                    return Err(self.power_failed());
                }
                let count = (bits >> start).trailing_ones().min(frontier.room()).min(longest);
                bits &= !(u64::MAX >> (64 - count) << start);
                self.map.relocate(source, frontier.next, count);
                self.journal.moved(source, frontier.next);
                frontier.next += count;
            }
        }
        self.book_moved(batch_start, frontier.next, slot);
        Ok(())
    }

    /// The placement with which the host wrote all data in `unit`, if it was only one.
    fn written_with(&self, unit: u32) -> Option<Placement> {
        match self.units.get(unit).owner {
            // The units of a noisy handle also receive moved data of other handles.
            Owner::Handle(handle)
                if self.config.gc_destination != GcDestination::Handle(handle) =>
            {
                let group = u16::try_from(self.units.group_of(unit)).ok()?;
                Some(Placement { group, handle })
            }
            _ => None,
        }
    }

    fn book_moved(&mut self, start: u32, end: u32, slot: usize) {
        if end > start {
            let pages = u64::from(end - start);
            self.stats.copied_pages += pages;
            self.stats.media_pages += pages;
            self.stats.copied_pages_by_owner[slot] += pages;
            self.pages_written(start, end - start);
        }
    }

    /// The entry under which copies out of a unit of `owner` are counted.
    fn copies_slot(&self, owner: Owner) -> usize {
        match owner {
            Owner::Handle(handle) => usize::from(handle),
            Owner::Sequential => 0,
            Owner::Mixed | Owner::Unowned => usize::from(self.config.handles),
        }
    }

    /// Erases `unit`, whose live pages were all moved, or retires it if the erase fails.
    pub(super) fn erase(&mut self, unit: u32) {
        if let Some(beside) = &mut self.out_of_band {
            beside.before_erase(&self.map);
        }
        let outcome = self.medium.erase(BlockIndex(unit));
        let erases = self.erases_of(unit);
        if outcome.is_err() {
            self.units.retire(unit);
            self.stats.retired_units += 1;
            self.events.record(Event::UnitRetired { unit, erases });
            self.read_only |= self.spare_is_used_up(self.units.group_of(unit));
        } else {
            self.units.erased_again(unit, erases);
            self.journal.erased(unit);
            self.stats.erased_units += 1;
        }
    }

    fn erases_of(&self, unit: u32) -> u32 {
        self.medium.block(BlockIndex(unit)).erases
    }

    fn spare_is_used_up(&self, group: usize) -> bool {
        self.units.good_of_all() < self.config.units_required()
            || u64::from(self.units.good(group)) <= self.config.group_overhead_units()
    }

    /// Static wear levelling: moves at most one unit each time the host opens one.
    pub(super) fn level_wear(&mut self, group: usize) -> Result<(), Error> {
        let Some(gap) = self.config.wear_levelling_gap else { return Ok(()) };
        let counts = self.medium.wear();
        let max = counts.max();
        if max - counts.min() <= gap {
            return Ok(());
        }
        let full = self
            .units
            .of_group(group)
            .filter(|&unit| self.units.get(unit).state == UnitState::Full);
        let Some(coldest) = full.min_by_key(|&unit| self.erases_of(unit)) else {
            return Ok(());
        };
        let erases = self.erases_of(coldest);
        match self.units.most_worn_erased(group) {
            Some((worn, worn_erases)) if worn_erases > erases && max - erases > gap => {
                self.relocate(coldest, worn, group)
            }
            _ => Ok(()),
        }
    }

    /// Copies the live pages of `from` to `to`, which is erased, and erases `from`.
    fn relocate(&mut self, from: u32, to: u32, group: usize) -> Result<(), Error> {
        let source = *self.units.get(from);
        if source.live == 0 {
            return self.reclaim(from, group).map(|_| ());
        }
        self.victims.remove(from, source.set, source.live);
        self.units.open_this(to, source.owner, Role::Levelling);
        let pages_per_unit = self.config.geometry.pages_per_unit;
        let next = to * pages_per_unit;
        let mut frontier = Frontier { next, end: next + pages_per_unit };
        self.move_live_pages(from, group, source.owner, Role::Levelling, &mut frontier)?;
        self.stats.wear_levelled_pages += u64::from(source.live);
        self.pad(frontier);
        self.finish_unit(from, source.live);
        Ok(())
    }

    /// Fails once failed erases have used up the spare units.
    #[inline]
    pub(super) fn check_not_worn_out(&self) -> Result<(), Error> {
        if self.read_only { Err(self.worn_out()) } else { Ok(()) }
    }

    #[cold]
    pub(super) fn worn_out(&self) -> Error {
        Error::new(
            ErrorKind::ReadOnly,
            format!(
                "the drive is read-only: {} of its {} reclaim units are retired and {} are needed; \
                 what it holds can be read",
                self.stats.retired_units,
                self.config.geometry.units,
                self.config.units_required(),
            ),
        )
    }

    /// The error for a `group` that cannot provide a unit.
    #[cold]
    fn no_room(&mut self, group: usize) -> Error {
        if self.units.erased(group) == 0 {
            // Failed erases took the last units into which data could be moved.
            self.read_only = true;
            return self.worn_out();
        }
        Error::new(
            ErrorKind::NoSpace,
            format!(
                "reclaim group {group} is full: each of its {} full units is entirely live; \
                 deallocate pages that lie there or write to another group",
                self.units
                    .of_group(group)
                    .filter(|&unit| self.units.get(unit).state == UnitState::Full)
                    .count()
            ),
        )
    }
}

/// Numbers of sets, frontiers and words. All are below 2^32, as the check of the configuration ensures.
#[allow(clippy::cast_possible_truncation)]
#[inline]
fn narrow(n: usize) -> u32 {
    n as u32
}
