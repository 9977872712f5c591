//! Swaps of channels and dies: they exchange their data, block by block (FlashBlox §3.4.3).
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

use larder_ssd::nand::{BlockIndex, ChannelIndex, DieArray, DieIndex};
use larder_ssd::{Error, ErrorKind};

use super::array::{Move, Moves, Part, Vssds};
use super::images::Images;
use super::kind::{Isolation, LogicalBlock};
use super::state::{SOFT_PLANES, SwapState};

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
    /// Begins to swap the data of the dies of each of `pairs`, all on `drive`. The swap is in the catalogue when this
    /// returns.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] if a swap is in progress; [`ErrorKind::OutOfRange`] for no dies, dies that do not exist or
    /// occur twice; [`ErrorKind::NotOwned`] if a vSSD with channels of its own would have to share one afterwards;
    /// [`ErrorKind::ReadOnly`] for dies that accept no more blocks; [`ErrorKind::PowerLoss`].
    pub fn swap_begin(&mut self, drive: u32, pairs: &[(DieIndex, DieIndex)]) -> Result<(), Error> {
        self.journal.check()?;
        if self.state.swap.is_some() {
            let message = "dies are being exchanged: step until it is done, or give it up first";
            return Err(Error::new(ErrorKind::InUse, message));
        }
        let swap = SwapState { drive, pairs: pairs.to_vec(), back: false };
        self.state.check_swap(&swap).map_err(|why| Error::new(ErrorKind::OutOfRange, why))?;
        for die in pairs.iter().flat_map(|&(a, b)| [a, b]) {
            if self.drives[drive as usize].die(die).is_none_or(|view| view.read_only) {
                let message = format!("die {} of drive {drive} is read-only: leave it out", die.0);
                return Err(Error::new(ErrorKind::ReadOnly, message));
            }
        }
        self.check_isolation(&swap)?;
        self.state.swap = Some(swap);
        self.moves = Moves::default();
        self.write_catalogue()
    }

    /// Refuses a swap after which a vSSD with channels of its own would have only parts of channels.
    fn check_isolation(&self, swap: &SwapState) -> Result<(), Error> {
        let array = self.state.shape.geometry.array;
        for (&id, vssd) in &self.state.vssds {
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
        self.journal.check()?;
        let Some(drive) = self.state.swap.as_ref().map(|swap| swap.drive as usize) else {
            return Ok(Swap::Done);
        };
        loop {
            if self.moves.queues.iter().all(Vec::is_empty) && !self.find_moves() {
                self.end_swap()?;
                return Ok(Swap::Done);
            }
            // Move to the die with more room, so that the fill levels stay about equal.
            let room = |queue: &Vec<Move>| {
                queue.last().map(|next| self.drives[drive].room_to_move(next.to))
            };
            let [one, other] = &self.moves.queues;
            let queue = usize::from(room(other) > room(one));
            if room(&self.moves.queues[queue]) == Some(0) {
                return self.no_room(drive, queue);
            }
            let Some(next) = self.moves.queues[queue].pop() else { continue };
            let Some(from) = self.still_to_move(&next) else { continue };
            let pages = self.drives[drive].block(from).map_or(0, |view| view.written_pages);
            let from_die = self.state.shape.geometry.die_of(from);
            self.move_part(next.part, pages, next.to)?;
            let block = self.logical(next.part);
            return Ok(Swap::Moved { block, from: from_die, to: next.to, pages });
        }
    }

    /// Nothing can be moved to the dies of a pair: either they are full, or one is read-only.
    #[cold]
    fn no_room(&self, drive: usize, queue: usize) -> Result<Swap, Error> {
        let to = self.moves.queues[queue].last().map(|next| next.to);
        let full = to.and_then(|die| self.drives[drive].die(die)).is_some_and(|die| !die.read_only);
        if full {
            return Ok(Swap::Waiting);
        }
        let message = "a die to move to is read-only now: give up the swap";
        Err(Error::new(ErrorKind::ReadOnly, message))
    }

    /// The physical block of a move, if it still has to move: since the move was planned its block may have been freed,
    /// moved or never written.
    fn still_to_move(&self, next: &Move) -> Option<BlockIndex> {
        let vssd = self.state.vssds.get(&next.part.vssd)?;
        let slot = vssd.table.live_slot(next.part.slot)?;
        let block = vssd.table.member(slot, next.part.member)?;
        let written = self.drives[vssd.seats[next.part.member].drive as usize].block(block)?;
        (written.die != next.to && written.written_pages > 0).then_some(block)
    }

    /// Plans the moves of the first pair that has any. `false` if no pair has any.
    fn find_moves(&mut self) -> bool {
        let Some(swap) = self.state.swap.clone() else { return false };
        for (a, b) in &swap.pairs {
            let mut queues = [Vec::new(), Vec::new()];
            for (queue, home) in [a, b].into_iter().enumerate() {
                queues[queue] = self.moves_of(&swap, *home);
            }
            if queues.iter().any(|queue| !queue.is_empty()) {
                self.moves = Moves { queues };
                return true;
            }
        }
        false
    }

    /// All data of `home` that is not on the die where it belongs.
    fn moves_of(&self, swap: &SwapState, home: DieIndex) -> Vec<Move> {
        let to = swap.destination(home);
        let mut moves = Vec::new();
        let takes = self.drives[swap.drive as usize].die(to).is_some_and(|die| !die.read_only);
        if swap.back && !takes {
            // A die that became read-only cannot take its data back, so that data stays away.
            return moves;
        }
        for (&vssd, entry) in &self.state.vssds {
            let seats = entry.seats.iter().enumerate();
            let here = seats.filter(|(_, seat)| seat.drive == swap.drive && seat.die == home);
            for (member, _) in here {
                let part = |slot| Move { part: Part { vssd, slot, member }, to };
                let all = entry.table.live_slots().map(part);
                moves.extend(all.filter(|next| self.still_to_move(next).is_some()));
            }
        }
        // Moves are taken from the end: put the first slots last.
        moves.reverse();
        moves
    }

    /// Ends the swap: nothing is left to move, and the dies have been swapped.
    fn end_swap(&mut self) -> Result<(), Error> {
        let Some(swap) = self.state.swap.take() else { return Ok(()) };
        if !swap.back {
            let seats = self.state.vssds.values_mut().flat_map(|vssd| &mut vssd.seats);
            for seat in seats.filter(|seat| seat.drive == swap.drive) {
                seat.die = swap.destination(seat.die);
            }
            swap.pairs.iter().for_each(|&(a, b)| self.free.exchange(swap.drive, a, b));
        }
        let drive = swap.drive as usize;
        let erases = (0..self.state.shape.dies()).map(|die| {
            self.drives[drive].die(DieIndex(die)).map_or(0, |view| view.counters.erases)
        });
        self.state.erases_at_swap[drive] = erases.collect();
        self.write_catalogue()
    }

    /// Abandons the swap in progress: further steps move the data back. This is in the catalogue when this returns.
    /// Does nothing if the swap was already abandoned.
    ///
    /// # Errors
    /// [`ErrorKind::PowerLoss`].
    pub fn swap_abandon(&mut self) -> Result<(), Error> {
        self.journal.check()?;
        let Some(swap) = self.state.swap.as_mut().filter(|swap| !swap.back) else { return Ok(()) };
        swap.back = true;
        self.moves = Moves::default();
        self.write_catalogue()
    }

    /// The swap in progress.
    pub fn swap_under_way(&self) -> Option<&SwapState> {
        self.state.swap.as_ref()
    }
}
