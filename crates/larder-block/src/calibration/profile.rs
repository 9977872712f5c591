//! The measurements, and their stored format. Little-endian.
//!
//! ```text
//!  offset  bytes  field
//!       0      2  form: 1
//!       2      2  n: number of devices, at least 2: the cache device, then the cores
//!       4         n devices
//!
//!  device
//!       0      2  number of the core; 0 of the cache device
//!       2      2  p: number of points, at most 64
//!       4   24 p  points
//!
//!  point
//!       0      4  bytes of a request
//!       4      2  requests at a time
//!       6      1  direction: 0 reads, 1 writes
//!       7      1  reserved, 0
//!       8      8  bytes a second
//!      16      8  mean latency of a request, in nanoseconds
//! ```

#![deny(clippy::indexing_slicing)]

use std::time::Duration;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::layout::CoreId;
use crate::policy::Direction;
use crate::policy::routing::RoutingCalibration;
use crate::{Error, ErrorKind};

const FORM: u16 = 1;
const POINTS_MAX: usize = 64;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Head {
    first: U16,
    second: U16,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FixedPoint {
    bytes: U32,
    depth: U16,
    direction: u8,
    reserved: u8,
    bytes_per_second: U64,
    latency_ns: U64,
}

const _: () = assert!(size_of::<Head>() == 4 && size_of::<FixedPoint>() == 24);

/// The performance of a device with requests of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The direction of the requests, which have random offsets.
    pub direction: Direction,
    /// Bytes of a request.
    pub bytes: u32,
    /// Requests in flight.
    pub depth: u16,
    /// Bytes per second of all requests together.
    pub bytes_per_second: u64,
    /// Mean latency of a request.
    pub latency: Duration,
}

impl Point {
    /// The point for `ended` requests in `spent`, with always `depth` in flight.
    pub(super) fn of(
        direction: Direction,
        bytes: u32,
        depth: u16,
        ended: u64,
        spent: Duration,
    ) -> Self {
        let nanoseconds = spent.as_nanos().max(1);
        let moved = u128::from(ended) * u128::from(bytes) * 1_000_000_000;
        let bytes_per_second = u64::try_from(moved / nanoseconds).unwrap_or(u64::MAX);
        // Little's law.
        let latency_ns = nanoseconds * u128::from(depth) / u128::from(ended.max(1));
        let latency = Duration::from_nanos(u64::try_from(latency_ns).unwrap_or(u64::MAX));
        Self { direction, bytes, depth, bytes_per_second, latency }
    }
}

/// The performance of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceProfile {
    /// Measured points, ordered by direction, size and depth.
    pub points: Vec<Point>,
}

impl DeviceProfile {
    /// The point for reads of `bytes` at depth `depth`; `None` if it was not measured.
    pub fn reads(&self, bytes: u32, depth: u16) -> Option<&Point> {
        let is_it = |point: &&Point| {
            point.direction == Direction::Read && point.bytes == bytes && point.depth == depth
        };
        self.points.iter().find(is_it)
    }
}

/// The performance of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreProfile {
    /// The core.
    pub core: CoreId,
    /// Its performance.
    pub device: DeviceProfile,
}

/// The performance of the devices of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The cache device.
    pub cache: DeviceProfile,
    /// The cores, at least one.
    pub cores: Vec<CoreProfile>,
}

impl Profile {
    /// The starting point of routing: reads of 4 KiB, of the fastest core. `None` if they were not measured.
    pub fn routing(&self) -> Option<RoutingCalibration> {
        let deep = |device: &DeviceProfile| Some(device.reads(4096, 32)?.bytes_per_second);
        let core_bytes_per_second =
            self.cores.iter().filter_map(|core| deep(&core.device)).max()?;
        Some(RoutingCalibration {
            cache_bytes_per_second: deep(&self.cache).filter(|rate| *rate > 0)?,
            core_bytes_per_second,
            cache_latency: self.cache.reads(4096, 1)?.latency,
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let head = |first: u16, second: usize| Head {
            first: first.into(),
            second: u16::try_from(second).unwrap_or(u16::MAX).into(),
        };
        let mut content = head(FORM, 1 + self.cores.len()).as_bytes().to_vec();
        let cores = self.cores.iter().map(|core| (core.core.get(), &core.device));
        for (number, device) in std::iter::once((0, &self.cache)).chain(cores) {
            content.extend_from_slice(head(number, device.points.len()).as_bytes());
            for point in &device.points {
                content.extend_from_slice(fixed(point).as_bytes());
            }
        }
        content
    }

    pub(crate) fn parse(content: &[u8]) -> Result<Self, Error> {
        let wrong =
            |what: &str| Error::new(ErrorKind::Format, format!("calibration of a cache: {what}"));
        let cut = || wrong("it ends too early");
        let (head, mut rest) = Head::ref_from_prefix(content).map_err(|_| cut())?;
        if head.first.get() != FORM || head.second.get() < 2 {
            return Err(wrong("its form is unknown, or it has fewer than two devices"));
        }
        let mut devices = Vec::new();
        for _ in 0..head.second.get() {
            let (head, behind) = Head::ref_from_prefix(rest).map_err(|_| cut())?;
            let count = usize::from(head.second.get());
            if count > POINTS_MAX {
                return Err(wrong("a device has more than 64 points"));
            }
            let (points, behind) =
                <[FixedPoint]>::ref_from_prefix_with_elems(behind, count).map_err(|_| cut())?;
            let points: Option<Vec<Point>> = points.iter().map(point).collect();
            let points = points.ok_or_else(|| wrong("a point has an unknown direction"))?;
            devices.push((head.first.get(), DeviceProfile { points }));
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(wrong("bytes follow its last device"));
        }
        let mut devices = devices.into_iter();
        let (_, cache) = devices.next().ok_or_else(cut)?;
        let core = |(number, device)| Some(CoreProfile { core: CoreId::new(number)?, device });
        let cores: Option<Vec<CoreProfile>> = devices.map(core).collect();
        Ok(Self { cache, cores: cores.ok_or_else(|| wrong("a core's number is too high"))? })
    }
}

fn fixed(point: &Point) -> FixedPoint {
    FixedPoint {
        bytes: point.bytes.into(),
        depth: point.depth.into(),
        direction: u8::from(point.direction == Direction::Write),
        reserved: 0,
        bytes_per_second: point.bytes_per_second.into(),
        latency_ns: u64::try_from(point.latency.as_nanos()).unwrap_or(u64::MAX).into(),
    }
}

fn point(fixed: &FixedPoint) -> Option<Point> {
    let direction = match (fixed.direction, fixed.reserved) {
        (0, 0) => Direction::Read,
        (1, 0) => Direction::Write,
        _ => return None,
    };
    Some(Point {
        direction,
        bytes: fixed.bytes.get(),
        depth: fixed.depth.get(),
        bytes_per_second: fixed.bytes_per_second.get(),
        latency: Duration::from_nanos(fixed.latency_ns.get()),
    })
}
