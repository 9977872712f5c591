//! A part of a device as a device: one of several tenants of a drive, each with a range of
//! addresses and handles of its own.

use std::ops::Range;

use crate::device::{Device, DeviceInfo, DeviceStats};
use crate::error::{Error, ErrorKind};
use crate::io::{CheckedIo, Io, IoFuture};
use crate::placement::{PlacementHandle, PlacementInfo};

/// A range of another device's addresses, with some of its handles.
///
/// The handles of the slice are numbers of its own: handle `i` is the `i`-th of those that it was
/// given, and its default is the device's default. Counters are those of the whole device.
pub struct SliceDevice<D> {
    device: D,
    start: u64,
    handles: Vec<PlacementHandle>,
    info: DeviceInfo,
}

impl<D: Device> SliceDevice<D> {
    /// The addresses `range` of `device`, with `handles` beside the default.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if the range is empty, misaligned or beyond the device, or if the
    /// device does not have a handle.
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
                ..whole.placement.clone()
            },
            ..whole.clone()
        };
        Ok(Self { start: range.start, device, handles, info })
    }
}

impl<D: Device> Device for SliceDevice<D> {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        self.device.submit(match io.into_inner() {
            Io::Read { offset, buffer } => Io::Read { offset: self.start + offset, buffer },
            Io::Write { offset, buffer, handle } => Io::Write {
                offset: self.start + offset,
                buffer,
                handle: self.handles[usize::from(handle.index())],
            },
            Io::Deallocate { offset, bytes } => {
                Io::Deallocate { offset: self.start + offset, bytes }
            }
            Io::Flush => Io::Flush,
        })
    }

    fn stats(&self) -> DeviceStats {
        self.device.stats()
    }

    fn boot(&self) -> Option<u64> {
        self.device.boot()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use larder_ssd::managed::{Geometry, ManagedConfig};

    use super::*;
    use crate::buffer::IoBuffer;
    use crate::model::{ModelDevice, Payload};

    fn drive() -> Arc<ModelDevice> {
        let geometry = Geometry::with_overprovisioning(16 << 20, 256 << 10, 40.0).unwrap();
        Arc::new(ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory).unwrap())
    }

    fn write(device: &impl Device, offset: u64, byte: u8, handle: u16) -> bool {
        let mut buffer = IoBuffer::zeroed(4096);
        buffer.as_mut_slice().fill(byte);
        let handle = PlacementHandle::new(handle);
        device.submit(Io::Write { offset, buffer, handle }).wait().is_ok()
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
    fn impossible_slices_are_refused() {
        for range in [0..0, 0..17 << 20, 100..4096, 0..4097] {
            assert!(SliceDevice::new(drive(), range, &[]).is_err());
        }
        let unknown = [PlacementHandle::new(8)];
        assert!(SliceDevice::new(drive(), 0..4096, &unknown).is_err());
    }
}
