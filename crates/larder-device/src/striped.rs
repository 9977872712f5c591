//! Several devices as one, with addresses distributed in stripes.
//!
//! Stripe `s` of the whole lies on device `s % n`, as its stripe `s / n`. Neighbouring stripes on one device are
//! therefore `n` apart in the whole, and a range of the whole is one range on each device: a request reaches each
//! device at most once.

use std::ops::Range;
use std::sync::Arc;

use crate::buffer::{BufferPool, IoBuffer};
use crate::device::Device;
use crate::device::Extent;
use crate::drive_report::DriveReport;
use crate::error::{Error, ErrorKind};
use crate::identity::Identity;
use crate::info::{DeviceInfo, DeviceStats};
use crate::io::{CheckedIo, Durability, Io, IoFailure, IoFuture, IoResult};
use crate::placement::{PlacementHandle, PlacementInfo};

/// The default stripe unit, in bytes.
pub const DEFAULT_STRIPE_BYTES: u64 = 1 << 20;

/// A device over several. Each contributes as much as the smallest one has.
///
/// A request within one stripe goes to its device unchanged. Other requests are split: their parts are in flight at the
/// same time, and their bytes are copied once, also those of a list of buffers. A request fails if one of its parts
/// does; requests to other devices are not affected. An error names the device.
///
/// The devices offer their placement handles if all offer the same. Counters add up; a split request counts as failed
/// on each device where it failed.
///
/// The content is found again only if the same devices are given in the same order with the same stripe unit.
pub struct StripedDevice<D> {
    devices: Vec<D>,
    /// Names of the devices in errors.
    names: Vec<Arc<str>>,
    layout: Layout,
    info: DeviceInfo,
    pool: BufferPool,
}

impl<D: Device> StripedDevice<D> {
    /// Stripes of `stripe_bytes` bytes, a multiple of every device's block, over `devices`. [`DEFAULT_STRIPE_BYTES`]
    /// suits most uses; a cache whose regions are one stripe each has no request split.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if there is no device, if one is smaller than a stripe, or if the stripe unit is zero or no
    /// multiple of a device's block.
    pub fn new(devices: Vec<D>, stripe_bytes: u64) -> Result<Self, Error> {
        let fail = |complaint: String| {
            Err(Error::new(ErrorKind::Setup, format!("striped device: {complaint}")))
        };
        let infos: Vec<&DeviceInfo> = devices.iter().map(Device::info).collect();
        let Some(first) = infos.first() else {
            return fail("no devices; give at least one".to_owned());
        };
        for info in &infos {
            if stripe_bytes == 0 || !stripe_bytes.is_multiple_of(u64::from(info.block_bytes)) {
                return fail(format!(
                    "stripe_bytes of {stripe_bytes}: must be a positive multiple of the {}-byte \
                     block of {}",
                    info.block_bytes, info.name
                ));
            }
            if info.capacity_bytes < stripe_bytes {
                return fail(format!(
                    "{} has {} bytes, less than one stripe of {stripe_bytes}; choose smaller \
                     stripes or a larger device",
                    info.name, info.capacity_bytes
                ));
            }
        }
        let layout = Layout { stripe_bytes, devices: devices.len() as u64 };
        let smallest = infos.iter().map(|info| info.capacity_bytes).min().unwrap_or(0);
        let stripes = smallest / stripe_bytes * layout.devices;
        let Some(capacity_bytes) = stripes.checked_mul(stripe_bytes) else {
            return fail(format!("{stripes} stripes of {stripe_bytes} bytes are too many"));
        };
        let same_placement = infos.iter().all(|info| info.placement == first.placement);
        let names: Vec<&str> = infos.iter().map(|info| info.name.as_str()).collect();
        let transfers = infos.iter().map(|info| info.max_transfer_bytes).min().unwrap_or(0);
        let info = DeviceInfo {
            name: format!("stripes of {stripe_bytes} over {}", names.join(", ")),
            capacity_bytes,
            block_bytes: infos.iter().map(|info| info.block_bytes).max().unwrap_or(0),
            max_transfer_bytes: transfers.min(u32::try_from(stripe_bytes).unwrap_or(u32::MAX)),
            volatile_cache: infos
                .iter()
                .fold(first.volatile_cache, |all, info| all.and(info.volatile_cache)),
            // A write that crosses from one device to the next is not atomic.
            atomic_write_bytes: infos
                .iter()
                .map(|info| info.atomic_write_bytes)
                .reduce(|all, one| Some(all?.min(one?)))
                .flatten()
                .map(|bytes| bytes.min(u32::try_from(stripe_bytes).unwrap_or(u32::MAX))),
            metadata_bytes: infos.iter().map(|info| info.metadata_bytes).max().unwrap_or(0),
            // Requests are split, which metadata do not support.
            keeps_metadata: false,
            identity: Identity::default(),
            placement: match same_placement {
                true => first.placement.clone(),
                false => PlacementInfo::none(),
            },
        };
        let name = |(i, name)| format!("device {i} of {} ({name})", layout.devices).into();
        let names = (1..).zip(&names).map(name).collect();
        Ok(Self { devices, names, layout, info, pool: BufferPool::new() })
    }

    /// The devices, in the order of their stripes.
    pub fn devices(&self) -> &[D] {
        &self.devices
    }

    /// Starts `io`, whose addresses are those of device `device`.
    fn pass_on(&self, device: usize, io: Io) -> IoFuture {
        self.devices[device].submit(io).of(&self.names[device])
    }

    fn read(&self, range: Range<u64>, mut buffer: IoBuffer) -> IoFuture {
        let parts = self.layout.parts(&range);
        let layout = self.layout;
        let start = |part: &Part| {
            let buffer = self.pool.take(usize_of(part.bytes));
            self.pass_on(part.device, Io::Read { offset: part.offset, buffer })
        };
        let futures = parts.iter().map(start).collect();
        IoFuture::joined(futures, move |results| {
            let mut error = None;
            for (part, result) in parts.iter().zip(results) {
                match result {
                    Ok(bytes) => layout.each_stripe(&range, part, |inside, whole| {
                        buffer.copy_in(whole.start, &bytes.as_slice()[inside]);
                    }),
                    Err(failure) => drop(error.get_or_insert(failure.error)),
                }
            }
            end(error, buffer)
        })
    }

    fn write(
        &self,
        range: Range<u64>,
        buffer: IoBuffer,
        (handle, durability): (PlacementHandle, Durability),
    ) -> IoFuture {
        let start = |part: Part| {
            let mut bytes = self.pool.take(usize_of(part.bytes));
            self.layout.each_stripe(&range, &part, |inside, whole| {
                buffer.copy_out(whole.start, &mut bytes.as_mut_slice()[inside]);
            });
            let offset = part.offset;
            self.pass_on(part.device, Io::Write { offset, buffer: bytes, handle, durability })
        };
        let futures = self.layout.parts(&range).into_iter().map(start).collect();
        IoFuture::joined(futures, move |results| end(first_error(results), buffer))
    }

    /// A request without bytes; `io` makes a part from an offset and a length.
    fn each_part(&self, range: &Range<u64>, io: impl Fn(u64, u64) -> Io) -> IoFuture {
        let start = |part: Part| self.pass_on(part.device, io(part.offset, part.bytes));
        let futures = self.layout.parts(range).into_iter().map(start).collect();
        IoFuture::joined(futures, |results| end(first_error(results), IoBuffer::empty()))
    }

    fn flush(&self) -> IoFuture {
        let futures = (0..self.devices.len()).map(|device| self.pass_on(device, Io::Flush));
        let join = |results| end(first_error(results), IoBuffer::empty());
        IoFuture::joined(futures.collect(), join)
    }
}

fn first_error(results: Vec<IoResult>) -> Option<Error> {
    results.into_iter().find_map(|result| result.err().map(|failure| failure.error))
}

fn end(error: Option<Error>, buffer: IoBuffer) -> IoResult {
    match error {
        None => Ok(buffer),
        Some(error) => Err(IoFailure { error, buffer }),
    }
}

/// Converts a length within a buffer.
fn usize_of(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a part of a buffer fits the address space")
}

impl<D: Device> Device for StripedDevice<D> {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let io = io.into_inner();
        let (_, offset, bytes) = io.extent();
        let range = offset..offset + bytes;
        let whole = self.layout.within_one_stripe(&range);
        match (io, whole) {
            (Io::Flush, _) => self.flush(),
            (Io::Read { buffer, .. }, Some((device, offset))) => {
                self.pass_on(device, Io::Read { offset, buffer })
            }
            (Io::Write { buffer, handle, durability, .. }, Some((device, offset))) => {
                self.pass_on(device, Io::Write { offset, buffer, handle, durability })
            }
            (Io::Deallocate { bytes, .. }, Some((device, offset))) => {
                self.pass_on(device, Io::Deallocate { offset, bytes })
            }
            (Io::WriteZeroes { bytes, .. }, Some((device, offset))) => {
                self.pass_on(device, Io::WriteZeroes { offset, bytes })
            }
            (Io::Read { buffer, .. }, None) => self.read(range, buffer),
            (Io::Write { buffer, handle, durability, .. }, None) => {
                self.write(range, buffer, (handle, durability))
            }
            (Io::Deallocate { .. }, None) => {
                self.each_part(&range, |offset, bytes| Io::Deallocate { offset, bytes })
            }
            (Io::WriteZeroes { .. }, None) => {
                self.each_part(&range, |offset, bytes| Io::WriteZeroes { offset, bytes })
            }
        }
    }

    fn stats(&self) -> DeviceStats {
        let all: Vec<DeviceStats> = self.devices.iter().map(Device::stats).collect();
        let drives = (0..).zip(&all).flat_map(|(i, stats)| self.layout.drives(i, stats));
        DeviceStats { drives: drives.collect(), ..DeviceStats::of_all(&all) }
    }

    fn stored_at(&self, range: Range<u64>) -> Vec<Extent> {
        let parts = self.layout.parts(&range).into_iter();
        let of =
            |Part { device, offset, bytes }| self.devices[device].stored_at(offset..offset + bytes);
        parts.flat_map(of).collect()
    }

    /// Changes when that of any device does.
    fn boot(&self) -> Option<u64> {
        let boots = self.devices.iter().map(Device::boot);
        // Depends on the order, and does not add up: two changes must not cancel each other out.
        boots.reduce(|all, one| Some(all?.rotate_left(17).wrapping_mul(0x9e37_79b9) ^ one?))?
    }
}

/// The layout of the stripes.
#[derive(Clone, Copy, Debug)]
struct Layout {
    stripe_bytes: u64,
    devices: u64,
}

/// The part of a range on one device: one range there, of whole stripes except at the ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    device: usize,
    offset: u64,
    bytes: u64,
}

impl Layout {
    /// The device and the address there, if the range lies within one stripe.
    fn within_one_stripe(self, range: &Range<u64>) -> Option<(usize, u64)> {
        let stripe = range.start / self.stripe_bytes;
        let fits = range.end <= (stripe + 1).saturating_mul(self.stripe_bytes);
        fits.then(|| (self.device(stripe), self.offset(range.start)))
    }

    fn device(self, stripe: u64) -> usize {
        usize_of(stripe % self.devices)
    }

    /// The address on its device of the byte at `address`.
    fn offset(self, address: u64) -> u64 {
        let stripe = address / self.stripe_bytes;
        stripe / self.devices * self.stripe_bytes + address % self.stripe_bytes
    }

    /// The address in the whole of the byte at `offset` of a device.
    fn address(self, device: u64, offset: u64) -> Option<u64> {
        let stripe = (offset / self.stripe_bytes).checked_mul(self.devices)?.checked_add(device)?;
        stripe.checked_mul(self.stripe_bytes)?.checked_add(offset % self.stripe_bytes)
    }

    /// The reports of a device's drives, with addresses in the whole.
    fn drives(self, device: u64, stats: &DeviceStats) -> Vec<Arc<DriveReport>> {
        let of_whole = |drive: &Arc<DriveReport>| match drive.moves.is_empty() {
            true => Arc::clone(drive),
            false => Arc::new(drive.moved_to(|offset| self.address(device, offset))),
        };
        stats.drives.iter().map(of_whole).collect()
    }

    /// The part of `range` in the stripe `stripe`.
    fn cut(self, range: &Range<u64>, stripe: u64) -> Range<u64> {
        let start = stripe * self.stripe_bytes;
        range.start.max(start)..range.end.min(start + self.stripe_bytes)
    }

    /// The part of `range`, which is not empty, on each device.
    fn parts(self, range: &Range<u64>) -> Vec<Part> {
        let first = range.start / self.stripe_bytes;
        let last = (range.end - 1) / self.stripe_bytes;
        let part = |from: u64| {
            let to = last - (last - from) % self.devices;
            let offset = self.offset(self.cut(range, from).start);
            let end = self.offset(self.cut(range, to).end - 1) + 1;
            Part { device: self.device(from), offset, bytes: end - offset }
        };
        (first..=last.min(first + self.devices - 1)).map(part).collect()
    }

    /// Calls `each` for the stripes of `part`, with the range in the part's buffer and the range in the buffer of the
    /// whole request, which covers `range`.
    fn each_stripe(
        self,
        range: &Range<u64>,
        part: &Part,
        mut each: impl FnMut(Range<usize>, Range<usize>),
    ) {
        let mut at = 0;
        while at < part.bytes {
            let offset = part.offset + at;
            let stripe = offset / self.stripe_bytes * self.devices + part.device as u64;
            let cut = self.cut(range, stripe);
            let bytes = usize_of(cut.end - cut.start);
            let (inside, whole) = (usize_of(at), usize_of(cut.start - range.start));
            each(inside..inside + bytes, whole..whole + bytes);
            at += cut.end - cut.start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_one_range_on_each_device() {
        let layout = Layout { stripe_bytes: 10, devices: 3 };
        assert_eq!(layout.within_one_stripe(&(40..50)), Some((1, 10)));
        assert_eq!(layout.within_one_stripe(&(45..51)), None);
        let part = |device, offset, bytes| Part { device, offset, bytes };
        assert_eq!(layout.parts(&(5..15)), [part(0, 5, 5), part(1, 0, 5)]);
        // Stripes 0 to 4, the outer ones in part: 0 and 3 on the first device.
        assert_eq!(layout.parts(&(5..42)), [part(0, 5, 15), part(1, 0, 12), part(2, 0, 10)]);
        for address in [0, 9, 10, 29, 30, 47] {
            let (device, _) = layout.within_one_stripe(&(address..address + 1)).unwrap();
            let back = layout.address(device as u64, layout.offset(address));
            assert_eq!(back, Some(address));
        }
        let mut seen = Vec::new();
        layout.each_stripe(&(5..42), &part(0, 5, 15), |inside, whole| seen.push((inside, whole)));
        assert_eq!(seen, [(0..5, 0..5), (5..15, 25..35)]);
    }

    #[test]
    fn every_byte_is_in_one_part_at_its_address() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..2000 {
            let layout = Layout { stripe_bytes: rng.u64(1..20), devices: rng.u64(1..6) };
            let start = rng.u64(..200);
            let range = start..start + rng.u64(1..200);
            let mut seen = vec![false; usize_of(range.end - range.start)];
            for part in layout.parts(&range) {
                layout.each_stripe(&range, &part, |inside, whole| {
                    assert_eq!(inside.len(), whole.len());
                    for (inside, whole) in inside.zip(whole) {
                        assert!(!std::mem::replace(&mut seen[whole], true));
                        let address = range.start + whole as u64;
                        assert_eq!(part.offset + inside as u64, layout.offset(address));
                        assert_eq!(part.device, layout.device(address / layout.stripe_bytes));
                    }
                });
            }
            assert!(seen.iter().all(|seen| *seen), "{layout:?} {range:?}");
        }
    }
}
