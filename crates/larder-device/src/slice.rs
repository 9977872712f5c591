//! A part of a device as a device: for one of several tenants of a drive, each with its own range of addresses and its
//! own handles.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::Device;
use crate::device::Extent;
use crate::error::{Error, ErrorKind};
use crate::identity::Identity;
use crate::info::{DeviceInfo, DeviceStats};
use crate::io::{CheckedIo, Io, IoFuture};
use crate::placement::{PlacementHandle, PlacementInfo};

/// A range of another device's addresses, with some of its handles.
///
/// The slice numbers its handles itself: handle `i` is the `i`-th of those that it was given, and its default is the
/// device's default. Counters are those of the whole device, unless [`SliceDevice::counting_its_own`] is used.
pub struct SliceDevice<D> {
    device: D,
    start: u64,
    handles: Vec<PlacementHandle>,
    info: DeviceInfo,
    own: Option<OwnCounters>,
}

/// Bytes of one slice's requests.
#[derive(Debug)]
struct OwnCounters {
    read: AtomicU64,
    /// By handle of the slice.
    written: Vec<AtomicU64>,
    durable: AtomicU64,
    deallocated: AtomicU64,
    zeroed: AtomicU64,
}

impl<D: Device> SliceDevice<D> {
    /// The addresses `range` of `device`, with `handles` in addition to the default.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if the range is empty, misaligned or beyond the device, or if the device lacks one of the
    /// handles.
    pub fn new(device: D, range: Range<u64>, handles: &[PlacementHandle]) -> Result<Self, Error> {
        let whole = device.info();
        let block = u64::from(whole.block_bytes);
        let fits = range.start < range.end
            && range.end <= whole.capacity_bytes
            && range.start.is_multiple_of(block)
            && range.end.is_multiple_of(block);
        let fail = |complaint: String| {
            let context = format!("slice {range:?} of {}: {complaint}", whole.name);
            Err(Error::new(ErrorKind::Setup, context))
        };
        if !fits {
            return fail(format!(
                "must be a range of whole {block}-byte blocks within {} bytes",
                whole.capacity_bytes
            ));
        }
        if let Some(unknown) = handles.iter().find(|h| h.index() >= whole.placement.handles) {
            return fail(format!("handle {unknown} is not among the device's"));
        }
        let handles: Vec<_> =
            [PlacementHandle::DEFAULT].into_iter().chain(handles.to_vec()).collect();
        let info = DeviceInfo {
            name: format!("{}[{}..{}]", whole.name, range.start, range.end),
            capacity_bytes: range.end - range.start,
            placement: PlacementInfo {
                handles: u16::try_from(handles.len()).unwrap_or(u16::MAX),
                // Only the code that chose the handles knows their groups.
                groups: 1,
                ..whole.placement.clone()
            },
            // The guarantee is for writes aligned on the device, so the slice's start must be aligned too.
            atomic_write_bytes: whole
                .atomic_write_bytes
                .filter(|bytes| range.start.is_multiple_of(u64::from(*bytes))),
            identity: Identity::default(),
            ..whole.clone()
        };
        Ok(Self { start: range.start, device, handles, info, own: None })
    }

    /// The same with `handle` of the device for writes that name no other.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if the device does not have the handle.
    pub fn defaulting_to(mut self, handle: PlacementHandle) -> Result<Self, Error> {
        if handle.index() >= self.device.info().placement.handles {
            let context = format!("{}: handle {handle} is not among the device's", self.info.name);
            return Err(Error::new(ErrorKind::Setup, context));
        }
        self.handles[0] = handle;
        Ok(self)
    }

    /// The same with counters of its own, for a tenant that must not see its neighbours' writes. Bytes read, written
    /// and deallocated are those that this slice asked for, including failed requests; handles are the slice's. Media
    /// bytes are the slice's share in proportion to its host bytes, because it is unknown whose pages a drive moves.
    /// Bytes moved or erased are unknown; failed requests are the whole device's.
    #[must_use]
    pub fn counting_its_own(mut self) -> Self {
        self.own = Some(OwnCounters {
            read: AtomicU64::new(0),
            written: self.handles.iter().map(|_| AtomicU64::new(0)).collect(),
            durable: AtomicU64::new(0),
            deallocated: AtomicU64::new(0),
            zeroed: AtomicU64::new(0),
        });
        self
    }
}

impl OwnCounters {
    fn count(&self, io: &Io) {
        let (_, _, bytes) = io.extent();
        let counter = match io {
            Io::Read { .. } => &self.read,
            Io::Write { handle, .. } => &self.written[usize::from(handle.index())],
            Io::Deallocate { .. } => &self.deallocated,
            Io::WriteZeroes { .. } => &self.zeroed,
            Io::Flush => return,
        };
        counter.fetch_add(bytes, Ordering::Relaxed);
        if io.is_power_durable() {
            self.durable.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn stats(&self, whole: DeviceStats) -> DeviceStats {
        let by_handle: Vec<u64> =
            self.written.iter().map(|bytes| bytes.load(Ordering::Relaxed)).collect();
        let written: u64 = by_handle.iter().sum();
        let part_of = |media: u64| {
            let part = u128::from(media) * u128::from(written);
            u64::try_from(part / u128::from(whole.host_written_bytes.max(1))).unwrap_or(u64::MAX)
        };
        let counts = whole.media_written_bytes.is_some()
            || whole.drives.iter().any(|drive| drive.beyond_own_bytes().is_some());
        DeviceStats {
            host_read_bytes: self.read.load(Ordering::Relaxed),
            host_written_bytes: written,
            host_written_bytes_by_handle: by_handle,
            media_written_bytes: counts.then(|| part_of(whole.flash_written_bytes())),
            copied_bytes: None,
            erased_bytes: None,
            deallocated_bytes: self.deallocated.load(Ordering::Relaxed),
            durable_written_bytes: self.durable.load(Ordering::Relaxed),
            zeroed_bytes: self.zeroed.load(Ordering::Relaxed),
            ..whole
        }
    }
}

impl<D: Device> Device for SliceDevice<D> {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let io = io.into_inner();
        if let Some(own) = &self.own {
            own.count(&io);
        }
        self.device.submit(match io {
            Io::Read { offset, buffer } => Io::Read { offset: self.start + offset, buffer },
            Io::Write { offset, buffer, handle, durability } => Io::Write {
                offset: self.start + offset,
                buffer,
                handle: self.handles[usize::from(handle.index())],
                durability,
            },
            Io::Deallocate { offset, bytes } => {
                Io::Deallocate { offset: self.start + offset, bytes }
            }
            Io::WriteZeroes { offset, bytes } => {
                Io::WriteZeroes { offset: self.start + offset, bytes }
            }
            Io::Flush => Io::Flush,
        })
    }

    fn stats(&self) -> DeviceStats {
        let mut whole = self.device.stats();
        let here = |offset: u64| {
            offset.checked_sub(self.start).filter(|&offset| offset < self.info.capacity_bytes)
        };
        // The default may be one of the others too: then it goes by that number.
        let own_number = |handle: PlacementHandle| {
            let at = self.handles.iter().rposition(|known| *known == handle)?;
            u16::try_from(at).ok().map(PlacementHandle::new)
        };
        whole.drives.iter_mut().filter(|drive| !drive.events.is_empty()).for_each(|drive| {
            let mut own = drive.moved_to(here);
            own.rename_handles(own_number);
            *drive = Arc::new(own);
        });
        match &self.own {
            Some(own) => own.stats(whole),
            None => whole,
        }
    }

    fn boot(&self) -> Option<u64> {
        self.device.boot()
    }

    fn stored_at(&self, range: Range<u64>) -> Vec<Extent> {
        self.device.stored_at(self.start + range.start..self.start + range.end)
    }
}

#[cfg(test)]
mod tests {
    use larder_ssd::managed::{Geometry, ManagedConfig};

    use super::*;
    use crate::buffer::IoBuffer;
    use crate::clock::VirtualClock;
    use crate::drive_report::{DriveReport, HandleEvents, Move};
    use crate::model::{ModelDevice, Payload};

    fn drive() -> Arc<ModelDevice> {
        let geometry = Geometry::with_overprovisioning(16 << 20, 256 << 10, 40.0).unwrap();
        Arc::new(ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory).unwrap())
    }

    fn write(device: &impl Device, offset: u64, byte: u8, handle: u16) -> bool {
        let mut buffer = IoBuffer::zeroed(4096);
        buffer.as_mut_slice().fill(byte);
        let handle = PlacementHandle::new(handle);
        device.submit(Io::write(offset, buffer, handle)).wait().is_ok()
    }

    #[test]
    fn tenants_write_to_their_own_places_under_their_own_handles() {
        let drive = drive();
        let handles = [PlacementHandle::new(3), PlacementHandle::new(4)];
        let left = SliceDevice::new(Arc::clone(&drive), 0..8 << 20, &[]).unwrap();
        let right = SliceDevice::new(Arc::clone(&drive), 8 << 20..16 << 20, &handles).unwrap();
        assert!(write(&left, 0, 1, 0) && write(&right, 0, 2, 2));
        assert!(!write(&left, 0, 1, 1), "the left one has the default only");
        assert!(!write(&right, 8 << 20, 2, 0), "beyond the slice");
        let by_handle = drive.stats().host_written_bytes_by_handle;
        assert_eq!((by_handle[0], by_handle[4]), (4096, 4096));
        let read = Io::Read { offset: 8 << 20, buffer: IoBuffer::zeroed(4096) };
        assert_eq!(drive.submit(read).wait().unwrap().as_slice()[0], 2);
    }

    #[test]
    fn a_slice_that_counts_its_own_sees_nothing_of_its_neighbours() {
        let drive = drive();
        let slice = |range| {
            let handles = [PlacementHandle::new(3), PlacementHandle::new(4)];
            SliceDevice::new(Arc::clone(&drive), range, &handles).unwrap().counting_its_own()
        };
        let (left, right) = (slice(0..8 << 20), slice(8 << 20..16 << 20));
        assert!(write(&left, 0, 1, 1) && write(&left, 4096, 1, 2) && write(&right, 0, 1, 0));
        left.submit(Io::Deallocate { offset: 0, bytes: 4096 }).wait().unwrap();
        let (left, right) = (left.stats(), right.stats());
        assert_eq!(left.host_written_bytes_by_handle, [0, 4096, 4096]);
        assert_eq!((left.host_written_bytes, right.host_written_bytes), (8192, 4096));
        assert_eq!((left.media_written_bytes, right.media_written_bytes), (Some(8192), Some(4096)));
        assert_eq!((left.deallocated_bytes, right.deallocated_bytes), (4096, 0));
    }

    #[test]
    fn events_of_the_drive_have_the_numbers_of_the_slice() {
        let drive = Arc::into_inner(drive()).unwrap();
        let drive = Arc::new(drive.reporting("model", Arc::new(VirtualClock::default())));
        let slice = |range, handles: &[u16]| {
            let handles: Vec<_> = handles.iter().copied().map(PlacementHandle::new).collect();
            SliceDevice::new(Arc::clone(&drive), range, &handles).unwrap()
        };
        let (left, right) = (slice(0..8 << 20, &[3]), slice(8 << 20..16 << 20, &[4, 5]));
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            assert!(write(&right, rng.u64(..2048) * 4096, 1, 2) && write(&left, 0, 2, 1));
        }
        let report = |device: &SliceDevice<Arc<ModelDevice>>| Arc::clone(&device.stats().drives[0]);
        let moves = |report: &DriveReport, handle: u16| {
            let of = |it: &&HandleEvents| it.handle == Some(PlacementHandle::new(handle));
            report.handles.iter().find(of).map_or(0, HandleEvents::moves)
        };
        let (whole, left, right) =
            (Arc::clone(&drive.stats().drives[0]), report(&left), report(&right));
        assert!(moves(&whole, 5) > 0 && moves(&whole, 3) > 0, "{:?}", whole.handles);
        assert_eq!((moves(&left, 1), moves(&right, 2)), (moves(&whole, 3), moves(&whole, 5)));
        // What names no handle is the same for all, and a neighbour's handles are not listed.
        assert_eq!((left.handles.len(), right.handles.len(), whole.handles.len()), (2, 2, 3));
        assert_eq!((&left.handles[0], &right.handles[0]), (&whole.handles[0], &whole.handles[0]));
        let own = |report: &DriveReport, number: u16| {
            let is = |one: &&Move| one.handle == Some(PlacementHandle::new(number));
            let own: Vec<Move> = report.moves.iter().filter(is).copied().collect();
            assert!(!own.is_empty() && own.iter().all(|one| one.offset.is_some()), "{own:?}");
        };
        own(&left, 1);
        own(&right, 2);
    }

    #[test]
    fn the_default_of_a_slice_can_be_another_handle() {
        let drive = drive();
        let slice = || SliceDevice::new(Arc::clone(&drive), 0..8 << 20, &[]).unwrap();
        let other = slice().defaulting_to(PlacementHandle::new(5)).unwrap();
        assert!(write(&other, 0, 1, 0));
        assert_eq!(drive.stats().host_written_bytes_by_handle[5], 4096);
        assert!(slice().defaulting_to(PlacementHandle::new(8)).is_err());
    }

    #[test]
    fn impossible_slices_are_refused() {
        for range in [0..0, 0..17 << 20, 100..4096, 0..4097] {
            assert!(SliceDevice::new(drive(), range, &[]).is_err());
        }
        let unknown = [PlacementHandle::new(8)];
        assert!(SliceDevice::new(drive(), 0..4096, &unknown).is_err());
    }
}
