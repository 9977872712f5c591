//! Storage for the bytes of an array's pages, and for its tails.

use std::collections::{BTreeMap, HashMap};

use larder_device::{Error, ErrorKind};
use larder_ssd::raw::RawSsd;
use larder_vssd::LogicalBlock;

/// Pages at the end of a block that do not fill a stripe yet, in the drive's protected buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// The block.
    pub block: LogicalBlock,
    /// Number of pages of the block before the tail.
    pub at: u64,
    /// The words of its pages; fewer than a stripe has.
    pub words: Vec<u64>,
}

/// Keeps the data that survive a loss of power in addition to those on flash. Data are kept once the call returns.
/// After an error it is unknown whether they are, and the array must be opened again.
pub trait Keeper: Send {
    /// Keeps `page` in `slot`.
    ///
    /// # Errors
    /// Those of the storage below.
    fn write_page(&mut self, slot: u32, page: &[u8]) -> Result<(), Error>;

    /// Fills `page` from `slot`. The content of a slot that was never written, or was released, is unspecified.
    ///
    /// # Errors
    /// Those of the storage below.
    fn read_page(&mut self, slot: u32, page: &mut [u8]) -> Result<(), Error>;

    /// Releases `slots`, which are in ascending order: their content is no longer needed.
    ///
    /// # Errors
    /// Those of the storage below.
    fn release(&mut self, slots: &[u32]) -> Result<(), Error>;

    /// Keeps `tail` as entry `entry` of the protected buffer, in place of the old one; `None` empties the entry.
    /// Entries are numbered from 0, and there are fewer than blocks of the drives. A loss of power leaves the old tail
    /// or the new one.
    ///
    /// # Errors
    /// Those of the storage below.
    fn write_tail(&mut self, entry: u32, tail: Option<&Tail>) -> Result<(), Error>;

    /// All kept tails, by entry.
    ///
    /// # Errors
    /// Those of the storage below.
    fn tails(&mut self) -> Result<Vec<(u32, Tail)>, Error>;

    /// Records what was done to the media of `drives`. Called after each operation of the array.
    ///
    /// # Errors
    /// Those of the storage below.
    fn after_operation(&mut self, drives: &mut [RawSsd]) -> Result<(), Error>;

    /// Waits until all kept data survive a loss of power of this computer.
    ///
    /// # Errors
    /// Those of the storage below.
    fn sync(&mut self) -> Result<(), Error>;
}

/// Keeps everything in memory. The data survive a simulated loss of power of the model, and are gone with the process.
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
