//! Moves of parts of logical blocks to other physical blocks: because the current block accepts no more, to level the
//! wear of a die, or because dies swap their data.
//!
//! Each move is a copy with a newer stamp, then an update of the map, then the erase of the old block. A part is not
//! appended to while it moves. So after a power loss the block with more stripes is the part, and of equally long ones
//! the newer: an incomplete copy is shorter, and a complete one has all the data. This needs no record.

use larder_ssd::nand::{BlockIndex, DieIndex, Health};
use larder_ssd::raw::{BlockTag, Levelled};
use larder_ssd::{Error, ErrorKind};

use super::array::{Part, Vssds, erase};
use super::images::Images;
use super::kind::{LogicalBlock, VssdId};
use super::state::Seat;

impl<I: Images> Vssds<I> {
    /// The logical die of `part`, and its physical block.
    pub(super) fn part(&self, part: Part) -> (Seat, Option<BlockIndex>) {
        let vssd = &self.state.vssds[&part.vssd];
        (vssd.seats[part.member], vssd.table.member(part.slot, part.member))
    }

    pub(super) fn set_part(&mut self, part: Part, block: Option<BlockIndex>) {
        let vssd = self.state.vssds.get_mut(&part.vssd);
        let vssd = vssd.unwrap_or_else(|| unreachable!("{part:?} is of a vSSD"));
        vssd.table.set_member(part.slot, part.member, block);
    }

    /// The logical block of `part`.
    pub(super) fn logical(&self, part: Part) -> LogicalBlock {
        LogicalBlock::new(VssdId(part.vssd), self.state.vssds[&part.vssd].table.number(part.slot))
    }

    /// The die for blocks of `seat`, and the alternative if it has no room. They are the same, unless the die is being
    /// swapped.
    pub(super) fn dies_of(&self, seat: &Seat) -> (DieIndex, DieIndex) {
        let swap = self.state.swap.as_ref().filter(|swap| swap.drive == seat.drive);
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
        let block = self.logical(part);
        let to = loop {
            let stamp = self.next_stamp()?;
            let tag = |erases| Self::tag(stamp, seat.id, block, erases);
            let drive = &mut self.drives[seat.drive as usize];
            match drive.copy_to(from, pages, die, tag) {
                // The block of the copy failed. Try again: the die has other blocks, or will become read-only.
                Err(error) if error.kind() == ErrorKind::BadBlock => {}
                copied => break copied?,
            }
        };
        self.set_part(part, Some(to));
        self.erase_old(seat, from)?;
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
        self.journal.check()?;
        let stamp = self.next_stamp()?;
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
        let part = self.part_of(tag.die, tag.block);
        let part = part.unwrap_or_else(|| unreachable!("{from:?} is part of a block"));
        debug_assert_eq!(self.part(part).1, Some(from), "the map says where it was");
        let (seat, _) = self.part(part);
        self.set_part(part, Some(to));
        self.erase_old(seat, from)?;
        Ok(true)
    }

    /// The part of block `number` on logical die `seat`, if the block exists.
    fn part_of(&self, seat: u32, number: u64) -> Option<Part> {
        self.state.vssds.iter().find_map(|(&vssd, entry)| {
            let member = entry.seats.iter().position(|other| other.id == seat)?;
            Some(Part { vssd, slot: entry.table.find(number)?, member })
        })
    }
}
