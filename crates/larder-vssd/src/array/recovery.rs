//! Opening an array in any state: catalogue and journal say which blocks exist, the tags on flash say where their parts
//! are (FlashBlox §3.6).
//!
//! 1. The better image gives the state. If neither is valid, nothing is changed.
//! 2. Each drive is scanned. A tag names a logical die and a block. If that block exists, this is its part, or a copy
//!    of it: the longest is used, and of equally long ones the newest.
//! 3. A catalogue is written to both images, so that they agree again.
//! 4. Blocks without an owner are erased: blocks that were freed or whose vSSD is gone, unneeded copies, blocks whose
//!    first program was interrupted, and blocks that were lent: a loan ends with the power.
//!
//! A block that was torn by a program keeps the pages programmed before; the next append moves them to another block.
//! If the power fails during recovery, recovery simply starts over.

use std::collections::BTreeMap;

use larder_ssd::nand::{BlockIndex, Health};
use larder_ssd::raw::{BlockTag, FoundBlock, RawSsd};
use larder_ssd::{Error, ErrorKind};

use super::moves::Part;
use super::{NotOpened, Vssds, erase, shape_of};
use crate::images::{Images, Journal};
use crate::state::{State, Vssd};

/// The findings of opening an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovered {
    /// vSSDs.
    pub vssds: u64,
    /// Logical blocks.
    pub blocks: u64,
    /// Physical blocks that are parts of them.
    pub parts: u64,
    /// Physical blocks without an owner, which were erased.
    pub erased: u64,
    /// Logical blocks with a missing part in the middle: they were truncated before it. Never happens through power
    /// loss alone.
    pub cut_off: u64,
}

/// A physical block that may be a part.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    block: BlockIndex,
    health: Health,
    /// The larger rank wins: pages first, then the stamp.
    rank: (u32, u64),
}

/// The result of scanning the tags of a drive.
#[derive(Default)]
struct Scan {
    /// Blocks without an owner.
    stale: Vec<(usize, BlockIndex)>,
    parts: u64,
}

impl<I: Images> Vssds<I> {
    /// Opens an array: turns on the power of its drives and recovers everything that was acknowledged.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for drives that differ. [`ErrorKind::Catalogue`] if no image is valid, or the images
    /// belong to other drives or to two arrays, or disagree with the content of the drives: nothing was written or
    /// erased. [`ErrorKind::PowerLoss`] if the power failed again: open it once more.
    pub fn open(drives: Vec<RawSsd>, images: I) -> Result<(Self, Recovered), NotOpened<I>> {
        let shape = match shape_of(&drives) {
            Ok(shape) => shape,
            Err(error) => return Err(NotOpened::new(error, drives, images)),
        };
        let (journal, state) = match Journal::open(images, &shape) {
            Ok(opened) => opened,
            Err((images, error)) => return Err(NotOpened::new(error, drives, images)),
        };
        let mut array = Self::assemble(drives, journal, state);
        match array.recover() {
            Ok(recovered) => Ok((array, recovered)),
            Err(error) => Err(array.not_opened(error)),
        }
    }

    fn recover(&mut self) -> Result<Recovered, Error> {
        let scan = self.scan()?;
        self.ledger.write_catalogue()?;
        for &(drive, block) in &scan.stale {
            erase(&mut self.drives[drive], block)?;
        }
        let cut_off = self.cut_off()?;
        Ok(Recovered {
            vssds: self.ledger.state().vssds.len() as u64,
            blocks: self
                .ledger
                .state()
                .vssds
                .values()
                .map(|vssd| u64::from(vssd.table.live()))
                .sum(),
            parts: scan.parts,
            erased: scan.stale.len() as u64,
            cut_off,
        })
    }

    /// Fills the map from the tags of all drives.
    fn scan(&mut self) -> Result<Scan, Error> {
        let seats = seats(self.ledger.state());
        let mut scan = Scan::default();
        for drive in 0..self.drives.len() {
            let mut best: BTreeMap<(u32, u64), (Part, Candidate)> = BTreeMap::new();
            for found in self.drives[drive].power_on() {
                let candidate = Candidate {
                    block: found.block,
                    health: found.health,
                    rank: (found.written_pages, 0),
                };
                let Some((part, tag)) = self.part_found(&seats, drive, &found) else {
                    scan.leave(drive, candidate);
                    continue;
                };
                let candidate = Candidate { rank: (found.written_pages, tag.stamp), ..candidate };
                let address = (tag.die, tag.block);
                let loser = match best.get(&address) {
                    Some((_, other)) if other.rank >= candidate.rank => Some(candidate),
                    _ => best.insert(address, (part, candidate)).map(|(_, other)| other),
                };
                loser.into_iter().for_each(|loser| scan.leave(drive, loser));
            }
            scan.parts += best.len() as u64;
            for (part, found) in best.into_values() {
                self.check_place(part, found.block)?;
                self.set_part(part, Some(found.block));
            }
        }
        Ok(scan)
    }

    /// Refuses a catalogue in which `block`, which holds `part`, is on a die of another vSSD.
    fn check_place(&self, part: Part, block: BlockIndex) -> Result<(), Error> {
        let (seat, _) = self.part(part);
        let (home, other) = self.dies_of(&seat);
        let die = self.ledger.state().shape.geometry.die_of(block);
        if die == home || die == other || self.is_at_its_end(seat.drive, home) {
            return Ok(());
        }
        let message = format!(
            "block {} of drive {} holds data of vSSD {}, which has nothing on die {}: the images are of another time, \
             or damaged; nothing was written",
            block.0, seat.drive, part.vssd, die.0
        );
        Err(Error::new(ErrorKind::Catalogue, message))
    }

    /// The part of an existing block that `found` is, or is a copy of.
    fn part_found(
        &self,
        seats: &BTreeMap<u32, (u32, usize)>,
        drive: usize,
        found: &FoundBlock,
    ) -> Option<(Part, BlockTag)> {
        let tag = BlockTag::decode(&found.tag?)?;
        let &(vssd, at) = seats.get(&tag.die)?;
        let entry = &self.ledger.state().vssds[&vssd];
        let slot = entry.table.find(tag.block)?;
        let member = entry.member_at(slot, at)?;
        debug_assert_eq!(
            self.drives[drive].block(found.block).map(|view| BlockTag::saturated(view.erases)),
            Some(tag.erases),
            "the tag says how worn its block is"
        );
        let here = entry.seats[at].drive as usize == drive && found.written_pages > 0;
        here.then_some((Part { vssd, slot, member }, tag))
    }

    /// Drops all stripes after a gap: stripes without their predecessors are of no use.
    fn cut_off(&mut self) -> Result<u64, Error> {
        let stripe_pages = self.ledger.state().shape.geometry.stripe_pages();
        let (mut cut, mut blocks) = (Vec::new(), 0);
        for (&vssd, entry) in &self.ledger.state().vssds {
            for slot in entry.table.live_slots() {
                let stripes = self.written_of(entry, slot) / u64::from(stripe_pages);
                let width = entry.table.width() as u64;
                let parts = (0u64..).zip(0..entry.table.width());
                let before = cut.len();
                for (offset, member) in parts {
                    // Rows of this part before the first missing stripe.
                    let rows = (stripes + width - 1 - offset) / width;
                    if u64::from(self.rows(entry, slot, member)) > rows {
                        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
                        cut.push((Part { vssd, slot, member }, rows * stripe_pages));
                    }
                }
                blocks += u64::from(cut.len() > before);
            }
        }
        for (part, pages) in cut {
            self.relocate(part, pages)?;
        }
        Ok(blocks)
    }
}

impl Scan {
    /// Marks `candidate` as having no owner. A block that cannot be erased is out of use, and no map refers to it.
    fn leave(&mut self, drive: usize, candidate: Candidate) {
        if matches!(candidate.health, Health::Good | Health::Torn) {
            self.stale.push((drive, candidate.block));
        }
    }
}

/// By logical die: its vSSD, and its position there.
fn seats(state: &State) -> BTreeMap<u32, (u32, usize)> {
    let of = |(&id, vssd): (&u32, &Vssd)| {
        vssd.seats.iter().enumerate().map(move |(at, seat)| (seat.id, (id, at))).collect::<Vec<_>>()
    };
    state.vssds.iter().flat_map(of).collect()
}
