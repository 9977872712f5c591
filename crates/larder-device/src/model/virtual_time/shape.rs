//! Storage described by a few numbers: the latency of a lone request, the number of requests served at a time, the
//! total bandwidth in each direction, and the costs of a flush and a seek.
//!
//! ```text
//!   request ──► the channel that is free first ──► latency (and seek) ──► transfer ──► end
//!                                                       └ all transfers of a direction: one link
//! ```
//!
//! - A request takes the channel that is free first, and holds it until it ends. If all channels are busy, it waits.
//! - Its bytes go over a link that all channels share. A link carries one request's bytes after the other's, and never
//!   exceeds its bandwidth. A request in its latency does not delay the bytes of others.
//! - Requests begin in the order in which they come. They are not sorted by address, as a disk with a queue would do.
//! - A write that must survive a loss of power takes the time of the write and a flush, where the cache is volatile.
//! - A flush begins when all writes before it have ended.
//!
//! The model has no garbage collection, no caches that fill up and no wear. For flash under load use
//! [`SsdTiming`](super::SsdTiming).

use crate::error::{Error, ErrorKind};
use crate::info::{DeviceInfo, DeviceStats, VolatileCache};
use crate::io::Io;
use crate::model::counts::MAX_TRANSFER_BYTES;

use super::{Moment, TimingModel};

/// The origin of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Published; the text says by whom and where.
    Published(&'static str),
    /// Chosen, to fit a result or for want of anything better. The text says to what, or why.
    Fitted(&'static str),
}

/// A number and its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sourced {
    /// The number, in the unit of its field's name.
    pub value: u64,
    /// Its origin.
    pub source: Source,
}

impl Sourced {
    /// A published number.
    pub const fn published(value: u64, by: &'static str) -> Self {
        Self { value, source: Source::Published(by) }
    }

    /// A chosen number.
    pub const fn fitted(value: u64, to: &'static str) -> Self {
        Self { value, source: Source::Fitted(to) }
    }
}

/// Speed of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Time before a request's bytes move, in nanoseconds; at most [`Shape::LONGEST_NS`].
    pub latency_ns: Sourced,
    /// Bandwidth of all channels together in bytes per second; at least 1.
    pub bytes_per_s: Sourced,
}

/// The cost of a move to another address, for storage with an arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seek {
    /// To the next track, in nanoseconds.
    pub shortest_ns: Sourced,
    /// From one end to the other, in nanoseconds. In between, the time grows with the square root of the distance.
    pub longest_ns: Sourced,
    /// Half a rotation, in nanoseconds: the average delay after a seek, and here the delay of every seek.
    pub half_turn_ns: Sourced,
}

/// A kind of storage, as data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Its name, for people.
    pub name: &'static str,
    /// Smallest addressable unit in bytes: a power of two from 512 to 4096.
    pub block_bytes: u32,
    /// Requests that are served at a time: 1 to 4096.
    pub channels: Sourced,
    /// Speed of reads.
    pub read: Transfer,
    /// Speed of writes.
    pub write: Transfer,
    /// Whether reads and writes have separate links; if not, they share one.
    pub is_duplex: bool,
    /// Time of a flush after all writes before it have ended, in nanoseconds.
    pub flush_ns: Sourced,
    /// Whether a loss of power loses unflushed data. Then a write that must survive it
    /// ([`Durability::Power`](crate::Durability::Power)) takes the time of a flush longer.
    pub volatile_cache: bool,
    /// Time of a deallocation, in nanoseconds.
    pub deallocate_ns: Sourced,
    /// Only for storage with an arm, which has one channel.
    pub seek: Option<Seek>,
}

impl Shape {
    /// Longest latency, seek or flush of a shape, in nanoseconds: 100 s.
    pub const LONGEST_NS: u64 = 100_000_000_000;

    /// Checks that the numbers are in range.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] that names the field and its valid values.
    pub fn check(&self) -> Result<(), Error> {
        let complaint = |what: String| {
            Err(Error::new(ErrorKind::Setup, format!("shape {}: {what}", self.name)))
        };
        if !(512..=4096).contains(&self.block_bytes) || !self.block_bytes.is_power_of_two() {
            return complaint(format!(
                "block_bytes {}: must be a power of two from 512 to 4096",
                self.block_bytes
            ));
        }
        let channels = self.channels.value;
        if !(1..=4096).contains(&channels) {
            return complaint(format!("channels {channels}: must be 1 to 4096"));
        }
        for (field, rate) in [("read", self.read), ("write", self.write)] {
            if rate.bytes_per_s.value == 0 {
                return complaint(format!("{field}.bytes_per_s 0: must be at least 1"));
            }
        }
        let mut times = vec![
            ("read.latency_ns", self.read.latency_ns),
            ("write.latency_ns", self.write.latency_ns),
            ("flush_ns", self.flush_ns),
            ("deallocate_ns", self.deallocate_ns),
        ];
        if let Some(seek) = self.seek {
            times.push(("seek.longest_ns", seek.longest_ns));
            times.push(("seek.half_turn_ns", seek.half_turn_ns));
            if channels != 1 {
                return complaint(format!("channels {channels}: must be 1 where there is a seek"));
            }
            if seek.shortest_ns.value > seek.longest_ns.value {
                return complaint(format!(
                    "seek.shortest_ns {}: must be at most seek.longest_ns {}",
                    seek.shortest_ns.value, seek.longest_ns.value
                ));
            }
        }
        match times.into_iter().find(|(_, time)| time.value > Self::LONGEST_NS) {
            Some((field, time)) => {
                complaint(format!("{field} {}: must be at most {}", time.value, Self::LONGEST_NS))
            }
            None => Ok(()),
        }
    }
}

/// Storage of a [`Shape`] and a size, with its current load.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use larder_device::model::virtual_time::{ShapedStorage, VirtualTimeDevice, shapes};
/// use larder_device::{Clock, Device, Io, IoBuffer, Payload, VirtualClock};
///
/// let disk = ShapedStorage::new(shapes::HDD, 1 << 40)?;
/// let clock = Arc::new(VirtualClock::default());
/// let disk = VirtualTimeDevice::new(disk, Payload::Memory, Arc::clone(&clock))?;
/// disk.submit(Io::Read { offset: 1 << 39, buffer: IoBuffer::zeroed(4096) }).wait()?;
/// assert!(clock.now() > Duration::from_millis(10), "the arm has to go half of the way");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ShapedStorage {
    shape: Shape,
    capacity_bytes: u64,
    /// When each channel becomes free.
    free_at: Vec<Moment>,
    /// When each link has carried all that was given to it: reads, writes.
    links: [Moment; 2],
    /// When the last of the writes so far ends.
    writes_end: Moment,
    /// The address after the byte that was moved last.
    arm: u64,
    busy_ns: u64,
    written_bytes: u64,
}

impl ShapedStorage {
    /// Storage of `shape` and `capacity_bytes` bytes, a multiple of its blocks.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] that names the field if it is out of range.
    pub fn new(shape: Shape, capacity_bytes: u64) -> Result<Self, Error> {
        shape.check()?;
        let block = u64::from(shape.block_bytes);
        if capacity_bytes == 0 || !capacity_bytes.is_multiple_of(block) {
            let context = format!(
                "shape {}: capacity_bytes {capacity_bytes}: must be a multiple of {block}, and not 0",
                shape.name
            );
            return Err(Error::new(ErrorKind::Setup, context));
        }
        // At most 4096, as checked.
        let channels = usize::try_from(shape.channels.value).unwrap_or(1);
        Ok(Self {
            free_at: vec![Moment::default(); channels],
            links: Default::default(),
            writes_end: Moment::default(),
            arm: 0,
            busy_ns: 0,
            written_bytes: 0,
            shape,
            capacity_bytes,
        })
    }

    /// Its shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Nanoseconds that its channels were busy, or will be with the requests so far, added up.
    pub fn busy_ns(&self) -> u64 {
        self.busy_ns
    }

    /// When all requests so far are done.
    pub fn idle_at(&self) -> Moment {
        self.free_at.iter().copied().max().unwrap_or_default()
    }

    /// Serves a read that comes at `now`, like [`serve`](TimingModel::serve), for callers without a buffer. Returns
    /// when it ends.
    pub fn read(&mut self, now: Moment, offset: u64, bytes: u64) -> Moment {
        self.hold(now, |storage, begin| storage.transfer(begin, offset, bytes, false))
    }

    /// Serves a write that comes at `now`; with `is_durable`, it must survive a loss of power. Returns when it ends.
    pub fn write(&mut self, now: Moment, offset: u64, bytes: u64, is_durable: bool) -> Moment {
        self.written_bytes += bytes;
        // The write flushes only its own bytes, but takes the time of a full flush, and holds the channel for it.
        let flushes = self.shape.volatile_cache && is_durable;
        let flush_ns = if flushes { self.shape.flush_ns.value } else { 0 };
        let end =
            self.hold(now, |it, begin| it.transfer(begin, offset, bytes, true).after(flush_ns));
        self.writes_end = self.writes_end.max(end);
        end
    }

    /// Serves a flush that comes at `now`. Returns when it ends.
    pub fn flush(&mut self, now: Moment) -> Moment {
        let ready = now.max(self.writes_end);
        self.hold(ready, |it, begin| begin.after(it.shape.flush_ns.value))
    }

    /// Serves a deallocation that comes at `now`. Returns when it ends.
    pub fn deallocate(&mut self, now: Moment) -> Moment {
        self.hold(now, |it, begin| begin.after(it.shape.deallocate_ns.value))
    }

    /// Holds the channel that is free first, from `ready` at the earliest. `serve` gets the begin and returns the end.
    fn hold(&mut self, ready: Moment, serve: impl FnOnce(&mut Self, Moment) -> Moment) -> Moment {
        let first = (0..self.free_at.len()).min_by_key(|channel| self.free_at[*channel]);
        let channel = first.expect("there is a channel");
        let begin = self.free_at[channel].max(ready);
        let end = serve(self, begin);
        assert!(end >= begin, "{end:?}: nothing ends before it began at {begin:?}");
        self.busy_ns += end.as_nanos() - begin.as_nanos();
        self.free_at[channel] = end;
        end
    }

    /// Moves `bytes` bytes, the first of them at `offset`. Returns when that is done.
    fn transfer(&mut self, begin: Moment, offset: u64, bytes: u64, is_write: bool) -> Moment {
        let direction = if is_write { self.shape.write } else { self.shape.read };
        let ready = begin.after(direction.latency_ns.value).after(self.seek_ns(offset));
        self.arm = offset + bytes;
        let moving_ns = transfer_ns(bytes, direction.bytes_per_s.value);
        let link = &mut self.links[usize::from(is_write && self.shape.is_duplex)];
        *link = (*link).max(begin).after(moving_ns);
        (*link).max(ready.after(moving_ns))
    }

    /// Time of the seek to `offset`; 0 if it follows the byte that was moved last.
    fn seek_ns(&self, offset: u64) -> u64 {
        let Some(seek) = self.shape.seek.filter(|_| offset != self.arm) else { return 0 };
        let way = u128::from(offset.abs_diff(self.arm)) << 32;
        // At most 2^32, so its root is at most 2^16. Integers only, so the result is the same everywhere.
        let share = u64::try_from(way / u128::from(self.capacity_bytes)).unwrap_or(u64::MAX);
        let root = share.min(1 << 32).isqrt();
        let longer_ns = seek.longest_ns.value - seek.shortest_ns.value;
        seek.shortest_ns.value + ((longer_ns * root) >> 16) + seek.half_turn_ns.value
    }
}

/// Rounded up, so that no transfer takes no time.
fn transfer_ns(bytes: u64, bytes_per_s: u64) -> u64 {
    let ns = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(bytes_per_s));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

impl TimingModel for ShapedStorage {
    fn info(&self) -> DeviceInfo {
        let Shape { name, block_bytes, .. } = self.shape;
        let volatile_cache = match self.shape.volatile_cache {
            true => VolatileCache::Yes,
            false => VolatileCache::No,
        };
        DeviceInfo {
            volatile_cache,
            ..DeviceInfo::new(name, self.capacity_bytes, block_bytes, MAX_TRANSFER_BYTES)
        }
    }

    fn serve(&mut self, now: Moment, io: &Io) -> Result<Moment, larder_ssd::Error> {
        let (_, offset, bytes) = io.extent();
        let end = match io {
            Io::Read { .. } => self.read(now, offset, bytes),
            // The cost of zeros is not published; assume that of other bytes.
            Io::Write { .. } | Io::WriteZeroes { .. } => {
                self.write(now, offset, bytes, io.is_power_durable())
            }
            Io::Deallocate { .. } => self.deallocate(now),
            Io::Flush => self.flush(now),
        };
        Ok(end)
    }

    fn stats(&self) -> DeviceStats {
        DeviceStats { host_written_bytes: self.written_bytes, ..DeviceStats::default() }
    }
}

#[cfg(test)]
mod tests;
