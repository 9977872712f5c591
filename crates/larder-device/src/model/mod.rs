//! The SSD model as a device.
//!
//! The model's firmware decides where pages lie and counts what that costs. The bytes are kept separately, by logical
//! address, so garbage collection moves mappings but never a byte.
//!
//! [`ModelDevice`] has no time: every request completes at once, in the thread that submits it, so a run is a function
//! of its requests. [`virtual_time`] has devices whose requests take the time that a model says, by a clock for which
//! no thread waits in real time.

mod counts;
mod payload;

mod reporting;
mod spec;
pub mod virtual_time;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_ssd::managed::{ManagedConfig, ManagedSsd, PAGE_BYTES, Placement};

pub use payload::Payload;
pub use spec::ModelSpec;

use crate::buffer::IoBuffer;
use crate::clock::Clock;
use crate::device::Device;
use crate::error::{Error, ErrorKind};
use crate::info::{DeviceInfo, DeviceStats};
use crate::io::{CheckedIo, Io, IoFuture};
use counts::ModelCounts;
use payload::Contents;
use reporting::Reporting;

/// A simulated drive. Blocks are the model's 4096-byte pages.
///
/// # Examples
/// ```
/// use larder_device::{Device, Io, IoBuffer, ModelDevice, Payload, PlacementHandle};
/// use larder_ssd::managed::{Geometry, ManagedConfig};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let geometry = Geometry::with_overprovisioning(64 << 20, 256 << 10, 17.0)?;
/// let device = ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory)?;
/// let (buffer, handle) = (IoBuffer::zeroed(4096), PlacementHandle::new(1));
/// let buffer = device.submit(Io::write(0, buffer, handle)).wait()?;
/// device.submit(Io::Read { offset: 0, buffer }).wait()?;
/// assert_eq!(device.stats().dlwa(), Some(1.0));
/// # Ok(())
/// # }
/// ```
pub struct ModelDevice {
    info: DeviceInfo,
    state: Mutex<ModelState>,
}

struct ModelState {
    ssd: ManagedSsd,
    contents: Contents,
    counts: ModelCounts,
    reporting: Option<Reporting>,
}

impl ModelDevice {
    /// A new drive of `config`.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if no such drive could work, or if its payload does not fit the address space.
    pub fn new(config: ManagedConfig, payload: Payload) -> Result<Self, Error> {
        let info = counts::describe(&config, "model");
        let ssd = ManagedSsd::new(config)
            .map_err(|e| Error::new(ErrorKind::Setup, format!("SSD model: {e}")))?;
        let contents = Contents::checked(payload, info.capacity_bytes)?;
        let counts = ModelCounts::default();
        let state = ModelState { ssd, contents, counts, reporting: None };
        Ok(Self { info, state: Mutex::new(state) })
    }

    /// The same drive, which from now on reports its counters and FDP events as a drive of NVMe does
    /// ([`DeviceStats::drives`]), by the name `path`. The report is as of the moment when it is asked for, by `clock`,
    /// so there is no thread, and no event is missed. Events are those that [`nvme`](crate::nvme) drives are usually
    /// told to report: "reclaim unit not fully written", and "media reallocated" if its handles are initially
    /// isolated.
    ///
    /// Give each drive of a process a path of its own, because reports of the same path count once.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use larder_device::{Device, ModelDevice, Payload, RealClock};
    /// use larder_ssd::managed::{Geometry, ManagedConfig};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let geometry = Geometry::with_overprovisioning(64 << 20, 256 << 10, 17.0)?;
    /// let device = ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory)?;
    /// let device = device.reporting("model:64M", Arc::new(RealClock));
    /// assert_eq!(device.stats().drives[0].path, "model:64M");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn reporting(self, path: impl Into<String>, clock: Arc<dyn Clock>) -> Self {
        let mut state = self.lock();
        let reporting = Reporting::start(path.into(), clock, &mut state.ssd);
        state.reporting = Some(reporting);
        drop(state);
        self
    }

    /// Gives access to the drive itself: its units, maps and full counters. No request proceeds while `look` runs.
    pub fn with_ssd<R>(&self, look: impl FnOnce(&ManagedSsd) -> R) -> R {
        look(&self.lock().ssd)
    }

    /// Bytes of address space that have memory behind them; 0 without payload.
    pub fn payload_bytes(&self) -> u64 {
        self.lock().contents.held_bytes()
    }

    fn lock(&self) -> MutexGuard<'_, ModelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for ModelDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelDevice").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Device for ModelDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let mut io = io.into_inner();
        let outcome = self.lock().carry_out(&mut io);
        IoFuture::ready(match outcome {
            Ok(()) => Ok(io.into_buffer()),
            Err(error) => Err(counts::failure(&error, io, &self.info.name)),
        })
    }

    fn stats(&self) -> DeviceStats {
        let ModelState { ssd, counts, reporting, .. } = &mut *self.lock();
        let drives = reporting.iter_mut().map(|reporting| reporting.report(ssd)).collect();
        DeviceStats { drives, ..counts.with(ssd) }
    }

    /// It never loses power; for that, wrap it in a [`FaultDevice`](crate::FaultDevice).
    fn boot(&self) -> Option<u64> {
        Some(0)
    }
}

impl ModelState {
    /// The model goes first: if it refuses a request, the contents stay unchanged.
    fn carry_out(&mut self, io: &mut Io) -> Result<(), larder_ssd::Error> {
        let outcome = match io {
            Io::Read { offset, buffer } => {
                self.contents.read_into(*offset, buffer);
                Ok(())
            }
            Io::Write { offset, buffer, handle, .. } => self.write(*offset, buffer, handle.index()),
            Io::WriteZeroes { offset, bytes } => self.write_zeroes(*offset, *bytes),
            Io::Deallocate { offset, bytes } => self.deallocate(*offset, *bytes),
            Io::Flush => Ok(()),
        };
        self.counts.note(io, &outcome);
        if let Some(reporting) = &mut self.reporting {
            reporting.hear(&mut self.ssd);
        }
        outcome
    }

    fn write(
        &mut self,
        offset: u64,
        buffer: &IoBuffer,
        handle: u16,
    ) -> Result<(), larder_ssd::Error> {
        let per_group = self.ssd.config().handles.max(1);
        let placement = Placement { group: handle / per_group, handle: handle % per_group };
        let pages = buffer.len() as u64 / PAGE_BYTES;
        self.ssd.write_placed(placement, offset / PAGE_BYTES, pages)?;
        self.contents.write_from(offset, buffer);
        Ok(())
    }

    /// Zeros are ordinary data to the drive: its map has no pages without data.
    fn write_zeroes(&mut self, offset: u64, bytes: u64) -> Result<(), larder_ssd::Error> {
        let placement = Placement { group: 0, handle: 0 };
        self.ssd.write_placed(placement, offset / PAGE_BYTES, bytes / PAGE_BYTES)?;
        self.contents.clear(offset, bytes);
        Ok(())
    }

    fn deallocate(&mut self, offset: u64, bytes: u64) -> Result<(), larder_ssd::Error> {
        self.ssd.deallocate(offset / PAGE_BYTES, bytes / PAGE_BYTES)?;
        self.contents.clear(offset, bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use larder_ssd::managed::Geometry;

    use super::*;
    use crate::placement::{Isolation, PlacementHandle};

    fn config() -> ManagedConfig {
        let geometry = Geometry::with_overprovisioning(16 << 20, 256 << 10, 40.0).unwrap();
        ManagedConfig::new(geometry)
    }

    fn write(device: &ModelDevice, offset: u64, byte: u8, handle: u16) {
        let mut buffer = IoBuffer::zeroed(4096);
        buffer.as_mut_slice().fill(byte);
        let handle = PlacementHandle::new(handle);
        device.submit(Io::write(offset, buffer, handle)).wait().unwrap();
    }

    fn read(device: &ModelDevice, offset: u64) -> u8 {
        let buffer = IoBuffer::zeroed(4096);
        device.submit(Io::Read { offset, buffer }).wait().unwrap().as_slice()[4095]
    }

    #[test]
    fn bytes_survive_garbage_collection_and_die_with_deallocation() {
        let device = ModelDevice::new(config(), Payload::Memory).unwrap();
        let pages = device.info().capacity_bytes / 4096;
        let mut rng = fastrand::Rng::with_seed(1);
        let mut shadow = vec![0u8; usize::try_from(pages).unwrap()];
        for _ in 0..40_000 {
            let page = rng.usize(..shadow.len());
            shadow[page] = rng.u8(..);
            write(&device, page as u64 * 4096, shadow[page], rng.u16(..8));
        }
        let stats = device.stats();
        assert!(stats.copied_bytes.unwrap() > 0 && stats.erased_bytes.unwrap() > 0);
        assert_eq!(stats.host_written_bytes, 40_000 * 4096);
        assert_eq!(stats.host_written_bytes_by_handle.iter().sum::<u64>(), 40_000 * 4096);
        assert!(stats.dlwa().unwrap() > 1.0);
        for (page, &byte) in shadow.iter().enumerate() {
            assert_eq!(read(&device, page as u64 * 4096), byte, "page {page}");
        }
        device.submit(Io::Deallocate { offset: 0, bytes: 1 << 20 }).wait().unwrap();
        assert_eq!(read(&device, 4096), 0);
        assert_eq!(device.stats().deallocated_bytes, 1 << 20);
        assert!(!device.with_ssd(|ssd| ssd.is_mapped(1)));
    }

    #[test]
    fn placement_is_what_the_drive_was_configured_to_offer() {
        let shared = ModelDevice::new(config(), Payload::None).unwrap();
        assert_eq!(shared.info().placement.handles, 8);
        assert_eq!(shared.info().placement.isolation, Some(Isolation::InitiallyIsolated));
        let off = ModelDevice::new(ManagedConfig { fdp: false, ..config() }, Payload::None);
        assert!(!off.unwrap().info().placement.is_active());
    }

    #[test]
    fn an_untouched_drive_holds_no_payload() {
        let device = ModelDevice::new(config(), Payload::Memory).unwrap();
        assert_eq!((device.payload_bytes(), read(&device, 0)), (0, 0));
        write(&device, 0, 1, 0);
        assert_eq!(device.payload_bytes(), 1 << 20);
    }

    #[test]
    fn an_impossible_drive_is_refused() {
        let geometry = Geometry::with_overprovisioning(16 << 20, 256 << 10, 0.0).unwrap();
        let error = ModelDevice::new(ManagedConfig::new(geometry), Payload::None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setup);
    }
}
