//! Moves of parts of logical blocks to other physical blocks: because the current block accepts no more, to level the
//! wear of a die, or because dies swap their data.
//!
//! Each move is a copy with a newer stamp, then an update of the map, then the erase of the old block. A part is not
//! appended to while it moves. So after a power loss the block with more stripes is the part, and of equally long ones
//! the newer: an incomplete copy is shorter, and a complete one has all the data. This needs no record.
//!
//! # Swaps
//! Swaps of channels and dies exchange their data, block by block (FlashBlox §3.4.3).
//!
//! Rules that look at [`Vssds::channel_wear`] decide which dies are swapped. A swap begins with the pairs of dies,
//! which are in the catalogue from then on. Each step moves one part of a logical block: the part is held, read,
//! programmed on the other die and mapped there, and its old block is erased. All other blocks are read and written as
//! usual, and new ones go to their new die. When nothing is left to move, the catalogue records that the dies have been
//! swapped.
//!
//! The map shows which parts have moved, so no other progress is stored. A power loss costs the interrupted step. A
//! swap that is abandoned turns round, and moved parts go back.
//!
//! Moves alternate between both sides, so that the fill level of the dies changes by at most a block, for which there
//! is the spare.

use larder_ssd::nand::{BlockIndex, ChannelIndex, DieArray, DieIndex, Health};
use larder_ssd::raw::{BlockTag, Levelled};
use larder_ssd::{Error, ErrorKind};

use super::{Vssds, erase};
use crate::images::Images;
use crate::kind::{Isolation, LogicalBlock, VssdId};
use crate::state::{LENT_SEAT, SOFT_PLANES, Seat, SwapState};
use crate::table::Slot;

/// Remaining moves of parts of logical blocks between the two dies of a pair.
#[derive(Debug, Default)]
pub(super) struct Moves {
    queues: [Vec<Move>; 2],
}

/// A part of a logical block to move.
#[derive(Debug, Clone, Copy)]
struct Move {
    part: Part,
    to: DieIndex,
}

/// A part of a logical block: its data on one logical die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) vssd: u32,
    pub(super) slot: Slot,
    pub(super) member: usize,
}

/// The result of a step of a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swap {
    /// No swap is in progress any more: the dies have been swapped, or all data is back.
    Done,
    /// A part of a block was moved.
    Moved {
        /// The block.
        block: LogicalBlock,
        /// The old die.
        from: DieIndex,
        /// The new die.
        to: DieIndex,
        /// Pages that were copied.
        pages: u32,
    },
    /// Neither die of the pair has a free block, not even a spare one: a tenant must free one.
    Waiting,
}

/// What a swap does with parts of blocks that their tenants have not filled yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenParts {
    /// Leaves them: appends go on at the old place, and the part moves when it is full.
    Leave,
    /// Moves them with what they hold.
    Move,
}

/// The result of [`Vssds::swap_copy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copied {
    /// No swap is in progress any more.
    Done,
    /// A part of a block was copied. Its old copy on `from` is to be erased.
    Part {
        /// The block.
        block: LogicalBlock,
        /// The old die.
        from: DieIndex,
        /// The new die.
        to: DieIndex,
        /// Pages that were copied.
        pages: u32,
    },
    /// Nothing was copied: the old copy on this die must be erased first.
    OldCopy(DieIndex),
    /// All parts that are left are open.
    Open,
    /// Neither die of the pair has a free block, not even a spare one: a tenant must free one.
    Full,
}

/// Pairs of the dies of two channels, row by row. `carried` exchanges the partners of two dies of the first channel: so
/// its most worn die is paired with the die of the second channel that was written least.
///
/// # Errors
/// [`ErrorKind::OutOfRange`] for channels or rows that do not exist, or twice the same channel.
pub fn channel_pairs(
    array: DieArray,
    a: ChannelIndex,
    b: ChannelIndex,
    carried: Option<(u32, u32)>,
) -> Result<Vec<(DieIndex, DieIndex)>, Error> {
    let (most, rows) = carried.unwrap_or((0, 0));
    let there = a.0 < array.channels && b.0 < array.channels && a != b;
    if !there || most >= array.dies_per_channel || rows >= array.dies_per_channel {
        let message = format!(
            "channels {} and {} and rows {most} and {rows}: two of {} channels of {} dies",
            a.0, b.0, array.channels, array.dies_per_channel
        );
        return Err(Error::new(ErrorKind::OutOfRange, message));
    }
    let mut partners: Vec<DieIndex> = array.dies_of(b).collect();
    partners.swap(most as usize, rows as usize);
    Ok(array.dies_of(a).zip(partners).collect())
}

impl<I: Images> Vssds<I> {
    /// The logical die of `part`, and its physical block.
    pub(super) fn part(&self, part: Part) -> (Seat, Option<BlockIndex>) {
        let vssd = &self.ledger.state().vssds[&part.vssd];
        (vssd.seat(part.slot, part.member), vssd.table.member(part.slot, part.member))
    }

    pub(super) fn set_part(&mut self, part: Part, block: Option<BlockIndex>) {
        let vssd = self.ledger.state_mut().vssds.get_mut(&part.vssd);
        let vssd = vssd.unwrap_or_else(|| unreachable!("{part:?} is of a vSSD"));
        vssd.table.set_member(part.slot, part.member, block);
    }

    /// The logical block of `part`.
    pub(super) fn logical(&self, part: Part) -> LogicalBlock {
        LogicalBlock::new(
            VssdId(part.vssd),
            self.ledger.state().vssds[&part.vssd].table.number(part.slot),
        )
    }

    /// The die for blocks of `seat`, and the alternative if it has no room. They are the same, unless the die is being
    /// swapped.
    pub(super) fn dies_of(&self, seat: &Seat) -> (DieIndex, DieIndex) {
        let swap = self.ledger.state().swap.as_ref().filter(|swap| swap.drive == seat.drive);
        let Some(swap) = swap else { return (seat.die, seat.die) };
        let home = swap.destination(seat.die);
        (home, swap.partner(home).unwrap_or(home))
    }

    /// Moves the data of `part` to another block, because its block accepts no more programs. `None` if it has no data:
    /// then it has no block any more.
    pub(super) fn replace(&mut self, part: Part) -> Result<Option<BlockIndex>, Error> {
        let (seat, Some(from)) = self.part(part) else { return Ok(None) };
        let pages =
            self.drives[seat.drive as usize].block(from).map_or(0, |view| view.written_pages);
        self.relocate(part, pages)
    }

    /// The same for the first `pages` pages of `part`; the others are dropped.
    pub(super) fn relocate(&mut self, part: Part, pages: u32) -> Result<Option<BlockIndex>, Error> {
        let (seat, Some(from)) = self.part(part) else { return Ok(None) };
        if pages == 0 {
            self.set_part(part, None);
            self.erase_old(seat, from)?;
            return Ok(None);
        }
        let (home, other) = self.dies_of(&seat);
        let drive = &self.drives[seat.drive as usize];
        let to = if drive.room_to_move(home) == 0 && drive.room_to_move(other) > 0 {
            other
        } else {
            home
        };
        self.move_part(part, pages, to).map(Some)
    }

    /// Moves the first `pages` pages of `part`, at least a stripe, to `die` of its drive.
    pub(super) fn move_part(
        &mut self,
        part: Part,
        pages: u32,
        die: DieIndex,
    ) -> Result<BlockIndex, Error> {
        let (seat, from) = self.part(part);
        let from = from.unwrap_or_else(|| unreachable!("{part:?} has nothing to move"));
        let to = self.copy_part(part, pages, die)?;
        self.erase_old(seat, from)?;
        Ok(to)
    }

    /// The same, but its old block stays, and belongs to no part any more.
    fn copy_part(&mut self, part: Part, pages: u32, die: DieIndex) -> Result<BlockIndex, Error> {
        let (seat, from) = self.part(part);
        let from = from.unwrap_or_else(|| unreachable!("{part:?} has nothing to move"));
        let block = self.logical(part);
        let to = loop {
            let stamp = self.ledger.next_stamp()?;
            let tag = |erases| Self::tag(stamp, seat.id, block, erases);
            let drive = &mut self.drives[seat.drive as usize];
            match drive.copy_to(from, pages, die, tag) {
                // The block of the copy failed. Try again: the die has other blocks, or will become read-only.
                Err(error) if error.kind() == ErrorKind::BadBlock => {}
                copied => break copied?,
            }
        };
        self.set_part(part, Some(to));
        Ok(to)
    }

    /// Erases the old block of a move. A block whose program failed cannot be erased: it is out of use permanently.
    fn erase_old(&mut self, seat: Seat, block: BlockIndex) -> Result<(), Error> {
        let drive = &mut self.drives[seat.drive as usize];
        let health = drive.block(block).map(|view| view.health);
        if matches!(health, Some(Health::Good | Health::Torn)) {
            erase(drive, block)
        } else {
            Ok(())
        }
    }

    /// One step of static levelling in a die: see [`RawSsd::level_step`](larder_ssd::raw::RawSsd::level_step). Returns
    /// whether a block was moved.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`] for a drive or die that does not exist; [`ErrorKind::ReadOnly`] for a die that accepts
    /// no more blocks; [`ErrorKind::BadBlock`] if the target block failed: the data is still in the old block;
    /// [`ErrorKind::PowerLoss`].
    pub fn level_step(&mut self, drive: u32, die: DieIndex) -> Result<bool, Error> {
        self.ledger.check()?;
        // Otherwise an old copy could be the block to move.
        self.erase_old_copy(drive, die)?;
        self.erase_returned_on(drive, die)?;
        let stamp = self.ledger.next_stamp()?;
        let drives = self.drives.len();
        let Some(raw) = self.drives.get_mut(drive as usize) else {
            let message = format!("drive {drive}: there are {drives}");
            return Err(Error::new(ErrorKind::OutOfRange, message));
        };
        let mut moved = None;
        let retag = |old, erases| {
            let old = BlockTag::decode(&old);
            let old = old.unwrap_or_else(|| unreachable!("blocks have tags of this array"));
            moved = Some(old);
            BlockTag { erases: BlockTag::saturated(erases), stamp, ..old }.encode()
        };
        let Some(Levelled { from, to }) = raw.level_step(die, retag)? else { return Ok(false) };
        let tag = moved.unwrap_or_else(|| unreachable!("a copy has a tag"));
        let part = if tag.die == LENT_SEAT {
            self.lent_part_at(drive, from)
        } else {
            self.part_of(tag.die, tag.block)
        };
        let part = part.unwrap_or_else(|| unreachable!("{from:?} is part of a block"));
        debug_assert_eq!(self.part(part).1, Some(from), "the map says where it was");
        let pages = self.drives[drive as usize].block(from).map_or(0, |view| view.written_pages);
        self.levelling_mut(drive).moved_pages += u64::from(pages);
        self.set_part(part, Some(to));
        self.erase_for_move(drive, die, from)?;
        Ok(true)
    }

    /// The part of block `number` on logical die `seat`, if the block exists.
    fn part_of(&self, seat: u32, number: u64) -> Option<Part> {
        self.ledger.state().vssds.iter().find_map(|(&vssd, entry)| {
            let at = entry.seats.iter().position(|other| other.id == seat)?;
            let slot = entry.table.find(number)?;
            Some(Part { vssd, slot, member: entry.member_at(slot, at)? })
        })
    }

    /// Begins to swap the data of the dies of each of `pairs`, all on `drive`. The swap is in the catalogue when this
    /// returns.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] if a swap is in progress; [`ErrorKind::OutOfRange`] for no dies, dies that do not exist or
    /// occur twice; [`ErrorKind::NotOwned`] if a vSSD with channels of its own would have to share one afterwards;
    /// [`ErrorKind::ReadOnly`] for dies that accept no more blocks; [`ErrorKind::PowerLoss`].
    pub fn swap_begin(&mut self, drive: u32, pairs: &[(DieIndex, DieIndex)]) -> Result<(), Error> {
        self.ledger.check()?;
        if self.ledger.state().swap.is_some() {
            let message = "dies are being exchanged: step until it is done, or give it up first";
            return Err(Error::new(ErrorKind::InUse, message));
        }
        let swap = SwapState { drive, pairs: pairs.to_vec(), back: false };
        self.ledger
            .state()
            .check_swap(&swap)
            .map_err(|why| Error::new(ErrorKind::OutOfRange, why))?;
        for die in pairs.iter().flat_map(|&(a, b)| [a, b]) {
            if self.drives[drive as usize].die(die).is_none_or(|view| view.read_only) {
                let message = format!("die {} of drive {drive} is read-only: leave it out", die.0);
                return Err(Error::new(ErrorKind::ReadOnly, message));
            }
        }
        self.check_isolation(&swap)?;
        self.end_loans_for_swap(&swap)?;
        self.ledger.state_mut().swap = Some(swap);
        self.moves = Moves::default();
        self.ledger.write_catalogue()
    }

    /// Refuses a swap after which a vSSD with channels of its own would have only parts of channels.
    fn check_isolation(&self, swap: &SwapState) -> Result<(), Error> {
        let array = self.ledger.state().shape.geometry.array;
        for (&id, vssd) in &self.ledger.state().vssds {
            if vssd.isolation != Isolation::Channel {
                continue;
            }
            let mut dies_on = vec![0; array.channels as usize];
            for seat in vssd.seats.iter().filter(|seat| seat.drive == swap.drive) {
                debug_assert_eq!(seat.planes, SOFT_PLANES);
                dies_on[array.channel_of(swap.destination(seat.die)).at()] += 1;
            }
            if dies_on.iter().any(|&dies| dies != 0 && dies != array.dies_per_channel) {
                let message = format!(
                    "vSSD {id} has channels of its own, and these dies are parts of some: exchange \
                     whole channels, or dies of one"
                );
                return Err(Error::new(ErrorKind::NotOwned, message));
            }
        }
        Ok(())
    }

    /// Moves one part of a block, or ends the swap if nothing is left to move. Its operations on the media are recorded
    /// with those of the drive and counted as migrated pages.
    ///
    /// # Errors
    /// [`ErrorKind::ReadOnly`] if a die has become read-only: [`Self::swap_abandon`] moves the data back.
    /// [`ErrorKind::PowerLoss`].
    pub fn swap_step(&mut self) -> Result<Swap, Error> {
        loop {
            self.erase_old_copies()?;
            return Ok(match self.swap_copy(OpenParts::Move)? {
                Copied::Done => Swap::Done,
                Copied::Part { block, from, to, pages } => {
                    self.erase_old_copies()?;
                    Swap::Moved { block, from, to, pages }
                }
                Copied::Full => Swap::Waiting,
                Copied::OldCopy(_) | Copied::Open => continue,
            });
        }
    }

    /// Copies one part of a block, and leaves its old copy to [`Self::erase_old_copy`]; or ends the swap if nothing is
    /// left. Reads find the part at its new place from then on.
    ///
    /// # Errors
    /// As [`Self::swap_step`].
    pub fn swap_copy(&mut self, open: OpenParts) -> Result<Copied, Error> {
        self.ledger.check()?;
        let Some(drive) = self.ledger.state().swap.as_ref().map(|swap| swap.drive as usize) else {
            return Ok(Copied::Done);
        };
        loop {
            if self.moves.queues.iter().all(Vec::is_empty) && !self.find_moves(open) {
                if open == OpenParts::Leave && self.find_moves(OpenParts::Move) {
                    self.moves = Moves::default();
                    return Ok(Copied::Open);
                }
                let number = u32::try_from(drive).unwrap_or(u32::MAX);
                let old = self.old_copies().into_iter().find(|(on, _)| *on == number);
                if let Some((_, die)) = old {
                    return Ok(Copied::OldCopy(die));
                }
                self.end_swap()?;
                return Ok(Copied::Done);
            }
            // Move to the die with more room, so that the fill levels stay about equal.
            let room = |queue: &Vec<Move>| {
                queue.last().map(|next| self.drives[drive].room_to_move(next.to))
            };
            let [one, other] = &self.moves.queues;
            let queue = usize::from(room(other) > room(one));
            let Some(&next) = self.moves.queues[queue].last() else { continue };
            let number = u32::try_from(drive).unwrap_or(u32::MAX);
            if self.drives[drive].room_to_move(next.to) == 0 {
                if self.has_old_copy(number, next.to) {
                    return Ok(Copied::OldCopy(next.to));
                }
                return self.no_room(drive, queue);
            }
            let from = self.still_to_move(&next, open);
            let from_die = from.map(|from| self.ledger.state().shape.geometry.die_of(from));
            if let Some(die) = from_die.filter(|&die| self.has_old_copy(number, die)) {
                return Ok(Copied::OldCopy(die));
            }
            self.moves.queues[queue].pop();
            let (Some(from), Some(from_die)) = (from, from_die) else { continue };
            let pages = self.drives[drive].block(from).map_or(0, |view| view.written_pages);
            self.copy_part(next.part, pages, next.to)?;
            self.leave_old_copy(number, from);
            self.levelling_mut(number).moved_pages += u64::from(pages);
            let block = self.logical(next.part);
            return Ok(Copied::Part { block, from: from_die, to: next.to, pages });
        }
    }

    /// Nothing can be moved to the dies of a pair: either they are full, or one is read-only.
    #[cold]
    fn no_room(&self, drive: usize, queue: usize) -> Result<Copied, Error> {
        let to = self.moves.queues[queue].last().map(|next| next.to);
        let full = to.and_then(|die| self.drives[drive].die(die)).is_some_and(|die| !die.read_only);
        if full {
            return Ok(Copied::Full);
        }
        let message = "a die to move to is read-only now: give up the swap";
        Err(Error::new(ErrorKind::ReadOnly, message))
    }

    /// The physical block of a move, if it still has to move: since the move was planned its block may have been freed,
    /// moved or never written; or it is open, and such parts are left.
    fn still_to_move(&self, next: &Move, open: OpenParts) -> Option<BlockIndex> {
        let vssd = self.ledger.state().vssds.get(&next.part.vssd)?;
        let slot =
            vssd.table.live_slot(next.part.slot).filter(|slot| !vssd.table.is_lent(*slot))?;
        let block = vssd.table.member(slot, next.part.member)?;
        let seat = vssd.seat(slot, next.part.member);
        let written = self.drives[seat.drive as usize].block(block)?;
        let block_pages = self.ledger.state().shape.geometry.block_pages();
        let moves = open == OpenParts::Move || written.written_pages == block_pages;
        (written.die != next.to && written.written_pages > 0 && moves).then_some(block)
    }

    /// Plans the moves of the first pair that has any. `false` if no pair has any.
    fn find_moves(&mut self, open: OpenParts) -> bool {
        let Some(swap) = self.ledger.state().swap.clone() else { return false };
        for (a, b) in &swap.pairs {
            let mut queues = [Vec::new(), Vec::new()];
            for (queue, home) in [a, b].into_iter().enumerate() {
                queues[queue] = self.moves_of(&swap, *home, open);
            }
            if queues.iter().any(|queue| !queue.is_empty()) {
                self.moves = Moves { queues };
                return true;
            }
        }
        false
    }

    /// All data of `home` that is not on the die where it belongs.
    fn moves_of(&self, swap: &SwapState, home: DieIndex, open: OpenParts) -> Vec<Move> {
        let to = swap.destination(home);
        let mut moves = Vec::new();
        let takes = self.drives[swap.drive as usize].die(to).is_some_and(|die| !die.read_only);
        if swap.back && !takes {
            // A die that became read-only cannot take its data back, so that data stays away.
            return moves;
        }
        for (&vssd, entry) in &self.ledger.state().vssds {
            let seats = entry.seats.iter().enumerate();
            let here = seats.filter(|(_, seat)| seat.drive == swap.drive && seat.die == home);
            for (at, _) in here {
                let part = |(slot, member)| Move { part: Part { vssd, slot, member }, to };
                let all = entry.kept_on(at).map(part);
                moves.extend(all.filter(|next| self.still_to_move(next, open).is_some()));
            }
        }
        // Moves are taken from the end: put the first slots last.
        moves.reverse();
        moves
    }

    /// Ends the swap: nothing is left to move, and the dies have been swapped.
    fn end_swap(&mut self) -> Result<(), Error> {
        let Some(swap) = self.ledger.state_mut().swap.take() else { return Ok(()) };
        if !swap.back {
            let seats = self.ledger.state_mut().vssds.values_mut().flat_map(|vssd| &mut vssd.seats);
            for seat in seats.filter(|seat| seat.drive == swap.drive) {
                seat.die = swap.destination(seat.die);
            }
            swap.pairs.iter().for_each(|&(a, b)| self.free.exchange(swap.drive, a, b));
            self.count_erases(swap.drive);
            self.carry_rates(&swap);
        }
        let drive = swap.drive as usize;
        let erases = (0..self.ledger.state().shape.dies()).map(|die| {
            self.drives[drive].die(DieIndex(die)).map_or(0, |view| view.counters.erases)
        });
        self.ledger.state_mut().erases_at_swap[drive] = erases.collect();
        self.ledger.write_catalogue()
    }

    /// Abandons the swap in progress: further steps move the data back. This is in the catalogue when this returns.
    /// Does nothing if the swap was already abandoned.
    ///
    /// # Errors
    /// [`ErrorKind::PowerLoss`].
    pub fn swap_abandon(&mut self) -> Result<(), Error> {
        self.ledger.check()?;
        let Some(swap) = self.ledger.state_mut().swap.as_mut().filter(|swap| !swap.back) else {
            return Ok(());
        };
        swap.back = true;
        self.moves = Moves::default();
        self.ledger.write_catalogue()
    }

    /// Pages of the swap in progress: those that have yet to move, and all of its vSSDs on its dies.
    pub fn swap_pages(&self) -> (u64, u64) {
        let Some(swap) = &self.ledger.state().swap else { return (0, 0) };
        let raw = &self.drives[swap.drive as usize];
        let pages = |block| raw.block(block).map_or(0, |view| u64::from(view.written_pages));
        let homes = swap.pairs.iter().flat_map(|&(a, b)| [a, b]);
        let left = homes.flat_map(|home| self.moves_of(swap, home, OpenParts::Move));
        let left = left.filter_map(|next| self.part(next.part).1).map(pages).sum();
        let mut all = 0;
        for entry in self.ledger.state().vssds.values() {
            for (at, seat) in entry.seats.iter().enumerate() {
                if seat.drive == swap.drive && swap.partner(seat.die).is_some() {
                    let parts = entry.kept_on(at);
                    let blocks =
                        parts.filter_map(|(slot, member)| entry.table.member(slot, member));
                    all += blocks.map(pages).sum::<u64>();
                }
            }
        }
        (left, all)
    }

    /// The swap in progress.
    pub fn swap_under_way(&self) -> Option<&SwapState> {
        self.ledger.state().swap.as_ref()
    }
}
