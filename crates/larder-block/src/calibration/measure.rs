//! Measures a device.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use larder_device::{BufferPool, Clock, Device, Io, IoBuffer, PlacementHandle};

use super::profile::{DeviceProfile, Point};
use super::{DEPTHS, SIZES};
use crate::policy::Direction;
use crate::{Error, ErrorKind};

/// Fewest requests per point, even if they take longer than the given time.
const REQUESTS_MIN: u64 = 16;
/// A point takes at most this multiple of the given time.
const LONGER: u32 = 16;

/// Options of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasureOptions {
    /// The range of the device; `None`: all of it. Whole blocks, at least 512 KiB.
    pub range: Option<std::ops::Range<u64>>,
    /// Whether it is also written. The content of the range is lost.
    pub writes: bool,
    /// Time per point; up to 16 times as long if requests take long. 1 ms to 10 s; default 100 ms.
    pub time: Duration,
    /// Selects the offsets.
    pub seed: u64,
}

impl Default for MeasureOptions {
    fn default() -> Self {
        Self { range: None, writes: false, time: Duration::from_millis(100), seed: 0 }
    }
}

impl MeasureOptions {
    fn check(&self, device: &dyn Device) -> Result<std::ops::Range<u64>, Error> {
        let info = device.info();
        let refused = |what: String| {
            Err(Error::new(ErrorKind::Setup, format!("calibrating {}: {what}", info.name)))
        };
        if !(Duration::from_millis(1)..=Duration::from_secs(10)).contains(&self.time) {
            return refused(format!("time of {:?}: give 1 ms to 10 s", self.time));
        }
        let range = self.range.clone().unwrap_or(0..info.capacity_bytes);
        let block = u64::from(info.block_bytes);
        let is_whole = range.start.is_multiple_of(block) && range.end <= info.capacity_bytes;
        let longest = u64::from(SIZES[SIZES.len() - 1]);
        if !is_whole || range.end < range.start || range.end - range.start < longest {
            return refused(format!(
                "range {range:?} of {} bytes: give {longest} bytes of it at least, from a multiple of {block} on",
                info.capacity_bytes
            ));
        }
        Ok(range)
    }
}

/// Measures `device` with `clock`: random requests of each of [`SIZES`] at each of [`DEPTHS`].
///
/// # Errors
/// [`ErrorKind::Setup`], naming the option, if it cannot be measured so; [`ErrorKind::Device`] if it refuses a
/// request.
pub async fn measure(
    device: &Arc<dyn Device>,
    options: &MeasureOptions,
    clock: &dyn Clock,
) -> Result<DeviceProfile, Error> {
    let range = options.check(&**device)?;
    let mut points = Vec::new();
    let directions = [Direction::Read, Direction::Write];
    for direction in directions.into_iter().take(if options.writes { 2 } else { 1 }) {
        for bytes in SIZES {
            for depth in DEPTHS {
                let number = points.len() as u64;
                let rng = fastrand::Rng::with_seed(options.seed ^ (number << 32));
                let mut load = Load { device, range: &range, direction, bytes, rng };
                points.push(load.point(depth, options.time, clock).await?);
            }
        }
    }
    Ok(DeviceProfile { points })
}

/// Random requests of one kind.
struct Load<'a> {
    device: &'a Arc<dyn Device>,
    range: &'a std::ops::Range<u64>,
    direction: Direction,
    bytes: u32,
    rng: fastrand::Rng,
}

impl Load<'_> {
    fn next(&mut self, pool: &BufferPool, random: &IoBuffer) -> Io {
        let bytes = u64::from(self.bytes);
        let places = (self.range.end - self.range.start) / bytes;
        let offset = self.range.start + self.rng.u64(..places) * bytes;
        let mut buffer = pool.take(random.len());
        match self.direction {
            Direction::Read => Io::Read { offset, buffer },
            Direction::Write => {
                // Compressible data could be written faster.
                buffer.copy_buffer_in(0, random);
                Io::write(offset, buffer, PlacementHandle::DEFAULT)
            }
        }
    }

    /// Measures from the first completion to the last: the start and the end of a run do not count.
    async fn point(
        &mut self,
        depth: u16,
        time: Duration,
        clock: &dyn Clock,
    ) -> Result<Point, Error> {
        let pool = BufferPool::new();
        let mut random = IoBuffer::zeroed(self.bytes as usize);
        self.rng.fill(random.as_mut_slice());
        let began = clock.monotonic();
        let (mut first, mut last, mut ended) = (None, began, 0_u64);
        let mut under_way = FuturesUnordered::new();
        loop {
            while under_way.len() < usize::from(depth) {
                under_way.push(self.device.submit(self.next(&pool, &random)));
            }
            let end = under_way.next().await.expect("there is one at least");
            end.map_err(|failure| Error::of_device("calibrating", &failure.error))?;
            let now = clock.monotonic();
            let first = *first.get_or_insert(now);
            if now > first {
                (last, ended) = (now, ended + 1);
            }
            let spent = now.saturating_sub(began);
            if (spent >= time && ended >= REQUESTS_MIN) || spent >= time * LONGER {
                break;
            }
        }
        while let Some(end) = under_way.next().await {
            end.map_err(|failure| Error::of_device("calibrating", &failure.error))?;
        }
        let spent = last.saturating_sub(first.unwrap_or(began));
        Ok(Point::of(self.direction, self.bytes, depth, ended, spent))
    }
}
