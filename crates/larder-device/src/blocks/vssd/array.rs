//! An array that several stores share, behind one lock.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_ssd::nand::DieIndex;
use larder_ssd::raw::RawSsd;
use larder_ssd::vssd::{Images, Recovered, Request, Swap, Throughputs, VssdId, VssdInfo, Vssds};

use super::errors::of_model;
use super::keeper::Keeper;
use super::pages::Verified;
use super::state::{Power, State};
use super::store::VssdBlocks;
use crate::device::SECTOR_BYTES;
use crate::error::{Error, ErrorKind};

/// Virtual SSDs on one array of drives, with the bytes of their pages. Clones are the same array.
///
/// ```
/// use larder_device::blocks::vssd::{MemoryKeeper, VssdArray};
/// use larder_device::{BlockStore, IoBuffer, Stream};
/// use larder_ssd::raw::{RawConfig, RawSsd};
/// use larder_ssd::timed::small;
/// use larder_ssd::vssd::{Isolation, MemoryImages, Request, Throughputs};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = RawConfig { page_words: true, ..RawConfig::new(small().geometry(16)?) };
/// let drives = vec![RawSsd::new(config)?];
/// let rates = Throughputs { channel_mb_s: 400, die_mb_s: 100, soft_plane_mb_s: 25 };
/// let (images, keeper) = (Box::new(MemoryImages::default()), Box::new(MemoryKeeper::default()));
/// let array = VssdArray::create(drives, images, keeper, [7; 16], rates)?;
/// let id = array.alloc(Request { isolation: Isolation::Channel, mb_s: 0, bytes: 1 })?;
/// let store = array.store(id)?;
/// let block = store.alloc(Stream::DEFAULT, 7).wait()?;
/// store.append(block, 0, IoBuffer::zeroed(4096)).wait()?;
/// assert_eq!((store.list()[0].tag, store.list()[0].written_bytes), (7, 4096));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct VssdArray(Arc<Mutex<State>>);

impl fmt::Debug for VssdArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VssdArray").finish_non_exhaustive()
    }
}

/// Whether pages of these drives can be told apart, and be read and written.
fn check(drives: &[RawSsd]) -> Result<u32, Error> {
    let fail = |message: String| Err(Error::new(ErrorKind::Setup, message));
    let Some(first) = drives.first() else {
        return fail("virtual SSDs: no drives: an array has at least one".to_owned());
    };
    let page_bytes = first.geometry().mapping_bytes;
    if !page_bytes.is_power_of_two() || page_bytes < SECTOR_BYTES {
        return fail(format!(
            "virtual SSDs: mapping_bytes of {page_bytes}: must be a power of two of at least {SECTOR_BYTES}"
        ));
    }
    if !drives.iter().all(RawSsd::keeps_words) {
        return fail(
            "virtual SSDs: drives without page_words: set them, for bytes are found by them"
                .to_owned(),
        );
    }
    Ok(page_bytes)
}

impl VssdArray {
    /// A new array, as [`Vssds::create`] makes it. What `keeper` had is nobody's.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] for drives that no array can be made of, [`ErrorKind::InUse`] if an image is of an array
    /// already; what the storage below reports.
    pub fn create(
        drives: Vec<RawSsd>,
        images: Box<dyn Images + Send>,
        keeper: Box<dyn Keeper>,
        identity: [u8; 16],
        throughputs: Throughputs,
    ) -> Result<Self, Error> {
        let page_bytes = check(&drives)?;
        let array = Vssds::create(drives, images, identity, throughputs);
        let array = array.map_err(|failed| of_model("new virtual SSDs", failed.error()))?;
        Ok(Self(Arc::new(Mutex::new(State::begin(array, keeper, page_bytes)?))))
    }

    /// Opens an array, as [`Vssds::open`] does, and finds the bytes of its pages and its tails.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if no image can be believed, or they are of other drives: nothing was written;
    /// [`ErrorKind::Gone`] if the power failed; what the storage below reports.
    pub fn open(
        drives: Vec<RawSsd>,
        images: Box<dyn Images + Send>,
        keeper: Box<dyn Keeper>,
    ) -> Result<(Self, Recovered), Error> {
        let page_bytes = check(&drives)?;
        let (array, recovered) = Vssds::open(drives, images)
            .map_err(|failed| of_model("virtual SSDs", failed.error()))?;
        let state = State::begin(array, keeper, page_bytes)?;
        Ok((Self(Arc::new(Mutex::new(state))), recovered))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a vSSD, as [`Vssds::alloc`] does.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] for a request that makes no sense, [`ErrorKind::NoSpace`] if there are not as many free
    /// units: it says how many there are, and what they would hold; what the storage below reports.
    pub fn alloc(&self, request: Request) -> Result<VssdId, Error> {
        self.lock().operate("new vSSD", |array| array.alloc(request))
    }

    /// Ends a vSSD that has no blocks.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] if it has blocks, or a store; [`ErrorKind::NotOpen`] if there is none of this number;
    /// what the storage below reports.
    pub fn dealloc(&self, id: VssdId) -> Result<(), Error> {
        self.lock().end(id, Vssds::dealloc)
    }

    /// Ends a vSSD with all that it holds.
    ///
    /// # Errors
    /// As [`VssdArray::dealloc`], but blocks do not matter.
    pub fn destroy(&self, id: VssdId) -> Result<(), Error> {
        self.lock().end(id, Vssds::destroy)
    }

    /// The store of a vSSD. There is one at a time: it keeps the state of the blocks.
    ///
    /// # Errors
    /// [`ErrorKind::NotOpen`] if there is none of this number, [`ErrorKind::InUse`] if it has a store already.
    pub fn store(&self, id: VssdId) -> Result<VssdBlocks, Error> {
        VssdBlocks::open(self, id)
    }

    /// Begins to exchange what dies of `drive` hold, as [`Vssds::swap_begin`] does. Stores go on meanwhile.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] if an exchange is under way, [`ErrorKind::OutOfRange`] for dies that cannot be
    /// exchanged; what the storage below reports.
    pub fn swap_begin(&self, drive: u32, pairs: &[(DieIndex, DieIndex)]) -> Result<(), Error> {
        self.lock().operate("exchange of dies", |array| array.swap_begin(drive, pairs))
    }

    /// Moves one part of a block, as [`Vssds::swap_step`] does.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`] if a die came to its end meanwhile: give the exchange up then; what the storage
    /// below reports.
    pub fn swap_step(&self) -> Result<Swap, Error> {
        let mut state = self.lock();
        let step = state.operate("exchange of dies", Vssds::swap_step)?;
        if let Swap::Moved { block, pages, .. } = step {
            let bytes = u64::from(pages) * u64::from(state.page_bytes);
            state.media_written(block.vssd(), bytes, bytes);
        }
        Ok(step)
    }

    /// Gives the exchange up, as [`Vssds::swap_abandon`] does.
    ///
    /// # Errors
    /// What the storage below reports.
    pub fn swap_abandon(&self) -> Result<(), Error> {
        self.lock().operate("exchange of dies", Vssds::swap_abandon)
    }

    /// One step of levelling within a die, as [`Vssds::level_step`].
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`] for a die that there is not; what the storage below reports.
    pub fn level_step(&self, drive: u32, die: DieIndex) -> Result<bool, Error> {
        self.lock().operate("levelling", |array| array.level_step(drive, die))
    }

    /// Asks the array whatever it answers.
    ///
    /// # Errors
    /// [`ErrorKind::Gone`] if it has no power.
    pub fn look<T>(
        &self,
        look: impl FnOnce(&Vssds<Box<dyn Images + Send>>) -> T,
    ) -> Result<T, Error> {
        self.lock().array().map(|array| look(array))
    }

    /// All vSSDs; none without power.
    pub fn list(&self) -> Vec<VssdInfo> {
        self.look(|array| array.list().collect()).unwrap_or_default()
    }

    /// Reads every page of every block, and compares it with its checksum; and whether map and drives agree.
    ///
    /// # Errors
    /// [`ErrorKind::Gone`] without power. What is wrong is no error but in the result.
    pub fn verify(&self) -> Result<Verified, Error> {
        self.lock().verify()
    }

    /// Waits until all that was acknowledged outlives a loss of power of this computer.
    ///
    /// # Errors
    /// What the storage below reports.
    pub fn sync(&self) -> Result<(), Error> {
        self.lock().keeper.sync()
    }

    /// Lets the power of `drive` fail during the operation of its media that comes after `operations` more.
    pub fn cut_power_after(&self, drive: u32, operations: u64) {
        match &mut self.lock().power {
            Power::On(array) => array.cut_power_after(drive, operations),
            Power::Off(drives, _) => {
                if let Some(drive) = drives.get_mut(drive as usize) {
                    drive.cut_power_after(operations);
                }
            }
        }
    }

    /// Cuts the power of all drives and opens the array anew: what was not acknowledged may be gone.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] while there are stores: they would not know; as [`VssdArray::open`], and it can be
    /// tried again.
    pub fn power_cycle(&self) -> Result<Recovered, Error> {
        self.lock().power_cycle()
    }
}
