//! What keeps the bytes of an array's pages, and its tails.

use std::collections::{BTreeMap, HashMap};

use larder_ssd::raw::RawSsd;
use larder_ssd::vssd::LogicalBlock;

use crate::error::{Error, ErrorKind};

/// Pages at the end of a block that are no whole stripe yet, in the drive's protected buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// The block.
    pub block: LogicalBlock,
    /// Pages of the block in front of it.
    pub at: u64,
    /// The words of its pages; fewer than a stripe has.
    pub words: Vec<u64>,
}

/// Keeps what outlives a loss of power beside what flash holds. What a call was told is kept when it returns; an
/// error says that this is not known, and that the array must be opened anew.
pub trait Keeper: Send {
    /// Keeps `page` in `slot`.
    ///
    /// # Errors
    /// What the storage below reports.
    fn write_page(&mut self, slot: u32, page: &[u8]) -> Result<(), Error>;

    /// Fills `page` from `slot`. Of one that was never written, or released, anything comes.
    ///
    /// # Errors
    /// What the storage below reports.
    fn read_page(&mut self, slot: u32, page: &mut [u8]) -> Result<(), Error>;

    /// Nobody needs what is in `slots`, which ascend.
    ///
    /// # Errors
    /// What the storage below reports.
    fn release(&mut self, slots: &[u32]) -> Result<(), Error>;

    /// Keeps `tail` as entry `entry` of the protected buffer, in place of what was there; `None` empties it.
    /// Entries are numbered from 0 on, and there are fewer than blocks of the drives. A loss of power leaves the
    /// old or the new one.
    ///
    /// # Errors
    /// What the storage below reports.
    fn write_tail(&mut self, entry: u32, tail: Option<&Tail>) -> Result<(), Error>;

    /// All tails that are kept, by entry.
    ///
    /// # Errors
    /// What the storage below reports.
    fn tails(&mut self) -> Result<Vec<(u32, Tail)>, Error>;

    /// Takes note of what was done to the media of `drives`, after each operation of the array.
    ///
    /// # Errors
    /// What the storage below reports.
    fn after_operation(&mut self, drives: &mut [RawSsd]) -> Result<(), Error>;

    /// Waits until all that is kept outlives a loss of power of this computer.
    ///
    /// # Errors
    /// What the storage below reports.
    fn sync(&mut self) -> Result<(), Error>;
}

/// Keeps all in memory: it outlives a loss of power of the model, which is told to it, and goes with its process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryKeeper {
    pages: HashMap<u32, Box<[u8]>>,
    tails: BTreeMap<u32, Tail>,
}

impl Keeper for MemoryKeeper {
    fn write_page(&mut self, slot: u32, page: &[u8]) -> Result<(), Error> {
        self.pages.insert(slot, page.into());
        Ok(())
    }

    fn read_page(&mut self, slot: u32, page: &mut [u8]) -> Result<(), Error> {
        match self.pages.get(&slot) {
            Some(kept) if kept.len() == page.len() => page.copy_from_slice(kept),
            Some(kept) => {
                let context = format!("slot {slot} has {} bytes, not {}", kept.len(), page.len());
                return Err(Error::new(ErrorKind::Io, context));
            }
            None => page.fill(0),
        }
        Ok(())
    }

    fn release(&mut self, slots: &[u32]) -> Result<(), Error> {
        slots.iter().for_each(|slot| drop(self.pages.remove(slot)));
        Ok(())
    }

    fn write_tail(&mut self, entry: u32, tail: Option<&Tail>) -> Result<(), Error> {
        match tail {
            Some(tail) => drop(self.tails.insert(entry, tail.clone())),
            None => drop(self.tails.remove(&entry)),
        }
        Ok(())
    }

    fn tails(&mut self) -> Result<Vec<(u32, Tail)>, Error> {
        Ok(self.tails.iter().map(|(&entry, tail)| (entry, tail.clone())).collect())
    }

    fn after_operation(&mut self, _: &mut [RawSsd]) -> Result<(), Error> {
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        Ok(())
    }
}
