//! The state of an array together with the two images that make it durable.

use larder_ssd::raw::BlockTag;
use larder_ssd::{Error, ErrorKind};

use crate::images::{Images, Journal};
use crate::record::Change;
use crate::state::State;

/// Stamps that a record of the journal reserves.
const STAMPS_RESERVED: u64 = 1 << 20;

/// The state of an array, its images, and the stamps of its tags.
///
/// Invariant: a stamp that [`Self::next_stamp`] returns is new, and is below the end that the images reserve.
#[derive(Debug)]
pub(super) struct Ledger<I> {
    state: State,
    journal: Journal<I>,
    /// Stamp of the next tag.
    stamp: u64,
}

impl<I: Images> Ledger<I> {
    pub(super) fn new(journal: Journal<I>, state: State) -> Self {
        let stamp = state.stamps_end;
        Self { state, journal, stamp }
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }

    /// The state for a change, which the caller then makes durable with [`Self::log`] or [`Self::write_catalogue`].
    /// The map to physical blocks is not in the images: opening the array finds it on flash.
    pub(super) fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    /// Refuses changes after a write to an image has failed.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.journal.check()
    }

    /// Rewrites the catalogue, and reserves stamps for the time after.
    pub(super) fn write_catalogue(&mut self) -> Result<(), Error> {
        self.state.stamps_end = (self.stamp + STAMPS_RESERVED).min(BlockTag::STAMPS - 1);
        self.journal.write_catalogue(&self.state)
    }

    /// Appends a change that was already applied to the state to the journal.
    pub(super) fn log(&mut self, change: &Change) -> Result<(), Error> {
        if self.journal.append(change)? {
            self.write_catalogue()?;
        }
        Ok(())
    }

    /// A stamp that no tag has used.
    pub(super) fn next_stamp(&mut self) -> Result<u64, Error> {
        if self.stamp == self.state.stamps_end {
            let end = self.stamp + STAMPS_RESERVED;
            if end >= BlockTag::STAMPS {
                let message = "all stamps were given out: make a new array";
                return Err(Error::new(ErrorKind::NoResources, message));
            }
            self.state.stamps_end = end;
            self.log(&Change::StampsReserved { end })?;
        }
        let stamp = self.stamp;
        self.stamp += 1;
        assert!(stamp < self.state.stamps_end, "stamps on flash are reserved before");
        Ok(stamp)
    }

    pub(super) fn identity(&self) -> [u8; 16] {
        self.journal.identity()
    }

    pub(super) fn images_mut(&mut self) -> &mut I {
        self.journal.images_mut()
    }

    pub(super) fn into_images(self) -> I {
        self.journal.into_images()
    }
}
