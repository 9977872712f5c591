//! An array of drives that several stores share, behind one lock.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_device::{Error, ErrorKind};
use larder_ssd::nand::DieIndex;
use larder_ssd::raw::RawSsd;
use larder_vssd::levelling::PausedBy;
use larder_vssd::service::ServiceReport;
use larder_vssd::{Images, Recovered, Request, Swap, Throughputs, VssdId, VssdInfo, Vssds};

use super::errors::of_model;
use super::keeper::Keeper;
use super::load::unix_s;
use super::pages::Verified;
use super::state::{ArrayState, Power};
use crate::info::PAGE_BYTES_MIN;

/// Virtual SSDs on one array of drives, with the bytes of their pages. Clones share the same array.
///
/// ```
/// use larder_blocks::vssd::{MemoryKeeper, VssdArray};
/// use larder_blocks::{BlockStore, Stream};
/// use larder_device::IoBuffer;
/// use larder_ssd::raw::{RawConfig, RawSsd};
/// use larder_ssd::timed::small;
/// use larder_vssd::{Isolation, MemoryImages, Request, Throughputs};
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
pub struct VssdArray(Arc<Mutex<ArrayState>>);

impl fmt::Debug for VssdArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VssdArray").finish_non_exhaustive()
    }
}

/// Checks that the pages of these drives can be identified, read and written. Returns the page size.
fn check(drives: &[RawSsd]) -> Result<u32, Error> {
    let fail = |message: String| Err(Error::new(ErrorKind::Setup, message));
    let Some(first) = drives.first() else {
        return fail("virtual SSDs: no drives: an array has at least one".to_owned());
    };
    let page_bytes = first.geometry().mapping_bytes;
    if !page_bytes.is_power_of_two() || page_bytes < PAGE_BYTES_MIN {
        return fail(format!(
            "virtual SSDs: mapping_bytes of {page_bytes}: must be a power of two of at least {PAGE_BYTES_MIN}"
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
    /// A new array, made by [`Vssds::create`]. Data that `keeper` had is abandoned.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] for drives that cannot form an array, [`ErrorKind::InUse`] if an image already belongs to
    /// an array; errors of the storage below.
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
        Ok(Self(Arc::new(Mutex::new(ArrayState::begin(array, keeper, page_bytes)?))))
    }

    /// Opens an array with [`Vssds::open`], and finds the bytes of its pages and its tails.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if no image is valid, or they belong to other drives: nothing was written;
    /// [`ErrorKind::Gone`] if the power failed; errors of the storage below.
    pub fn open(
        drives: Vec<RawSsd>,
        images: Box<dyn Images + Send>,
        keeper: Box<dyn Keeper>,
    ) -> Result<(Self, Recovered), Error> {
        let page_bytes = check(&drives)?;
        let (array, recovered) = Vssds::open(drives, images)
            .map_err(|failed| of_model("virtual SSDs", failed.error()))?;
        let state = ArrayState::begin(array, keeper, page_bytes)?;
        Ok((Self(Arc::new(Mutex::new(state))), recovered))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ArrayState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a vSSD with [`Vssds::alloc`].
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] for an invalid request, [`ErrorKind::NoSpace`] if there are too few free units (the message
    /// says how many there are, and what they would hold); errors of the storage below.
    pub fn alloc(&self, request: Request) -> Result<VssdId, Error> {
        self.lock().operate("new vSSD", |array| array.alloc(request))
    }

    /// Makes a vSSD for an owner with [`Vssds::alloc_named`].
    ///
    /// # Errors
    /// As [`VssdArray::alloc`]; [`ErrorKind::Setup`] also for a name that another vSSD has, or that is too long.
    pub fn alloc_named(&self, name: &str, request: Request) -> Result<VssdId, Error> {
        self.lock().operate("new vSSD", |array| array.alloc_named(name, request))
    }

    /// Adds units to a vSSD with [`Vssds::grow`]. A store of it that is in use has the blocks that it had; the next one
    /// has all.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] for a number of units that the vSSD cannot grow by, [`ErrorKind::NoSpace`] if there are too
    /// few free units, [`ErrorKind::NotOpen`] if there is no vSSD of this number; errors of the storage below.
    pub fn grow(&self, id: VssdId, units: u32) -> Result<(), Error> {
        self.lock().operate("growth of a vSSD", |array| array.grow(id, units))
    }

    /// Ends a vSSD that has no blocks.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] if it has blocks, or a store; [`ErrorKind::NotOpen`] if there is no vSSD of this number;
    /// errors of the storage below.
    pub fn dealloc(&self, id: VssdId) -> Result<(), Error> {
        self.lock().end(id, Vssds::dealloc)
    }

    /// Ends a vSSD with all that it holds.
    ///
    /// # Errors
    /// As [`VssdArray::dealloc`], except that blocks do not matter.
    pub fn destroy(&self, id: VssdId) -> Result<(), Error> {
        self.lock().end(id, Vssds::destroy)
    }

    /// Begins to exchange the contents of dies of `drive`, with [`Vssds::swap_begin`]. Stores keep working during the
    /// exchange.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] if an exchange is in progress, [`ErrorKind::OutOfRange`] for dies that cannot be exchanged;
    /// errors of the storage below.
    pub fn swap_begin(&self, drive: u32, pairs: &[(DieIndex, DieIndex)]) -> Result<(), Error> {
        self.lock().operate("exchange of dies", |array| array.swap_begin(drive, pairs))
    }

    /// Moves one part of a block, with [`Vssds::swap_step`].
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`] if a die has worn out during the exchange: abandon the exchange then; errors of the
    /// storage below.
    pub fn swap_step(&self) -> Result<Swap, Error> {
        let mut state = self.lock();
        let step = state.operate("exchange of dies", Vssds::swap_step)?;
        if let Swap::Moved { block, pages, .. } = step {
            let bytes = u64::from(pages) * u64::from(state.page_bytes);
            state.media_written(block.vssd(), bytes, bytes);
        }
        Ok(step)
    }

    /// Abandons the exchange, with [`Vssds::swap_abandon`].
    ///
    /// # Errors
    /// Those of the storage below.
    pub fn swap_abandon(&self) -> Result<(), Error> {
        self.lock().operate("exchange of dies", Vssds::swap_abandon)
    }

    /// One step of wear levelling within a die, with [`Vssds::level_step`].
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`] for a die that does not exist; errors of the storage below.
    pub fn level_step(&self, drive: u32, die: DieIndex) -> Result<bool, Error> {
        self.lock().operate("levelling", |array| array.level_step(drive, die))
    }

    /// Stops the moves of levelling, or lets them go on, with [`Vssds::pause_levelling`]. Later processes do the same.
    ///
    /// # Errors
    /// Those of the storage below.
    pub fn pause_levelling(&self, pause: bool) -> Result<(), Error> {
        let paused = pause.then_some(PausedBy::Operator);
        self.lock().operate("levelling", |array| array.pause_levelling(paused))
    }

    /// Wear, exchanges and forecasts as the catalogue has them, for an array without [`Levelling`](super::Levelling).
    ///
    /// # Errors
    /// [`ErrorKind::Gone`] if the array has no power.
    pub fn levelling_report(&self) -> Result<ServiceReport, Error> {
        let mut state = self.lock();
        let array = state.array()?;
        for drive in 0..array.drives_mut().len() {
            array.count_erases(u32::try_from(drive).unwrap_or(u32::MAX));
        }
        Ok(ServiceReport::of(array, unix_s()))
    }

    /// Calls `look` with the array.
    ///
    /// # Errors
    /// [`ErrorKind::Gone`] if the array has no power.
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

    /// Reads every page of every block and compares it with its checksum. Also checks that the map and the drives
    /// agree.
    ///
    /// # Errors
    /// [`ErrorKind::Gone`] without power. Problems that it finds are in the result, not errors.
    pub fn verify(&self) -> Result<Verified, Error> {
        self.lock().verify()
    }

    /// Waits until everything that was acknowledged survives a loss of power of this computer.
    ///
    /// # Errors
    /// Those of the storage below.
    pub fn sync(&self) -> Result<(), Error> {
        self.lock().keeper.sync()
    }

    /// Makes the power of `drive` fail during the media operation after the next `operations` ones.
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

    /// Cuts the power of all drives and opens the array again. What was not acknowledged may be gone.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] while there are stores, because they would not notice; otherwise as [`VssdArray::open`],
    /// and the call can be repeated.
    pub fn power_cycle(&self) -> Result<Recovered, Error> {
        self.lock().power_cycle()
    }
}
