//! Drives in virtual time, each with an index and a log of values: the performance of an array of SSDs.
//!
//! Only the lengths and positions of values and index entries exist. The index is at the front of the drive, each table
//! or page in a fixed place; the log follows and wraps around. A value is read from a place that derives from its key,
//! as if it had been written some time ago. No value is lost when the log wraps, whatever the index. So indexes differ
//! only in their reads and writes. Clients that ask for the same key at the same time share its read, as in the cache.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Poll, Waker};

use larder_device::model::virtual_time::{SsdTiming, VirtualTimeDevice};
use larder_device::{
    Device, Durability, Io, IoBuffer, IoFuture, Payload, PlacementHandle, VirtualClock,
};
use larder_ssd::managed::{Geometry, ManagedConfig};
use larder_ssd::timed::{DieService, DriveTiming, NandTiming, open_channel};

use super::index::{Access, Kind, ValueIndex};
use crate::Error;

/// Bytes of one write to the drive.
const PIECE_BYTES: u64 = 256 << 10;
/// Writes of a shard that may be in flight before a writer waits for the oldest of them.
const WRITES_MAX: usize = 8;
/// Bytes of a table or page of an index.
const TABLE_BYTES: u64 = 16 << 10;
const OP_PERCENT: f64 = 17.0;
/// Bytes of a reclaim unit for each plane of a die: a page on each die.
const UNIT_BYTES_PER_PLANE: u64 = 512 << 10;

/// The speed of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speed {
    /// Dies of one plane: it programs 0.75 GB/s.
    OnePlane,
    /// As a PM9A3: dies of four planes, which program 3 GB/s, behind a link of 3.4 GB/s.
    Pm9a3,
}

impl FromStr for Speed {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        match name {
            "one-plane" => Ok(Self::OnePlane),
            "pm9a3" => Ok(Self::Pm9a3),
            _ => Err(()),
        }
    }
}

impl Speed {
    fn planes(self) -> u32 {
        match self {
            Self::OnePlane => 1,
            Self::Pm9a3 => 4,
        }
    }

    /// 8 channels of 4 dies. Pages of 16 KiB take 60 us to sense, 40 us to transfer and 700 us to program, and reads
    /// have priority. A value of 32 KiB takes two senses on two dies; a table, or a page of it, takes one.
    fn timing(self) -> DriveTiming {
        let base = open_channel();
        let link_bytes_per_s = match self {
            Self::OnePlane => base.link_bytes_per_s,
            Self::Pm9a3 => 3_400_000_000,
        };
        DriveTiming {
            channels: 8,
            nand: NandTiming { planes: self.planes(), ..base.nand },
            service: DieService::ReadsSuspend,
            buffer_ns: 4000,
            link_bytes_per_s,
            ..base
        }
    }
}

/// A drive, its index, and its log.
pub(super) struct Shard {
    device: VirtualTimeDevice<SsdTiming>,
    index: RefCell<Box<dyn ValueIndex>>,
    value_bytes: u64,
    index_bytes: u64,
    log: RefCell<Log>,
    flights: RefCell<HashMap<u64, Rc<Flight>>>,
}

/// A lookup in flight: whether the key was found, once that is known, and the tasks that wait for it.
#[derive(Default)]
struct Flight {
    found: Cell<Option<bool>>,
    waiting: RefCell<Vec<Waker>>,
}

/// The position of the log, and its writes in flight.
#[derive(Default)]
struct Log {
    /// Bytes of the piece being filled.
    filled: u64,
    /// Number of pieces written.
    pieces: u64,
    writes: VecDeque<IoFuture>,
}

/// A fresh drive of `bytes` bytes.
pub(super) fn drive(
    (bytes, speed): (u64, Speed),
    payload: Payload,
    clock: &Arc<VirtualClock>,
) -> Result<VirtualTimeDevice<SsdTiming>, Error> {
    let wrong = |cause: String| Error::usage(format!("a drive of {bytes} bytes: {cause}"));
    let unit_bytes = UNIT_BYTES_PER_PLANE * u64::from(speed.planes());
    let geometry = Geometry::with_overprovisioning(bytes, unit_bytes, OP_PERCENT)
        .map_err(|cause| wrong(cause.to_string()))?;
    let ssd = SsdTiming::new(ManagedConfig::new(geometry), speed.timing());
    let ssd = ssd.map_err(|cause| wrong(cause.to_string()))?;
    let device = VirtualTimeDevice::new(ssd, payload, Arc::clone(clock));
    device.map_err(|cause| wrong(cause.to_string()))
}

impl Shard {
    /// A drive of `bytes` bytes for values of `value_bytes` bytes, with room for `tables` tables or pages of the index.
    pub(super) fn new(
        (bytes, speed): (u64, Speed),
        value_bytes: u64,
        tables: u64,
        index: Box<dyn ValueIndex>,
        clock: &Arc<VirtualClock>,
    ) -> Result<Self, Error> {
        let device = drive((bytes, speed), Payload::None, clock)?;
        let index_bytes = (tables * TABLE_BYTES).next_multiple_of(PIECE_BYTES);
        let (index, log, flights) = (RefCell::new(index), RefCell::default(), RefCell::default());
        Ok(Self { device, index, value_bytes, index_bytes, log, flights })
    }

    /// Adds a key to the index only, as if it had been stored long ago.
    pub(super) fn load(&self, key: u64) {
        self.index.borrow_mut().set(key, &mut Vec::new());
    }

    /// Writes the whole drive, tables interleaved with pieces of the log, so that both are on all dies.
    pub(super) async fn fill(&self) -> Result<(), Error> {
        let (tables, pieces) = (self.index_bytes / TABLE_BYTES, self.pieces());
        let mut written = 0;
        for piece in 0..pieces {
            self.write(self.index_bytes + piece * PIECE_BYTES, PIECE_BYTES)
                .await
                .map_err(failed)?;
            while written * pieces < (piece + 1) * tables {
                self.write(written * TABLE_BYTES, TABLE_BYTES).await.map_err(failed)?;
                written += 1;
            }
        }
        Ok(())
    }

    /// Reads a value. Returns whether the index found it.
    pub(super) async fn get(&self, key: u64) -> Result<bool, Error> {
        let under_way = self.flights.borrow().get(&key).cloned();
        if let Some(flight) = under_way {
            return Ok(flight.landed().await);
        }
        let flight = Rc::new(Flight::default());
        self.flights.borrow_mut().insert(key, Rc::clone(&flight));
        let mut asked = Vec::new();
        let found = self.index.borrow_mut().get(key, &mut asked);
        let made = self.make(&asked).await;
        self.flights.borrow_mut().remove(&key);
        flight.land(found);
        made.map(|()| found)
    }

    /// Writes a value. The call ends when the value is in memory and the log is not too far behind.
    pub(super) async fn set(&self, key: u64) -> Result<(), Error> {
        let mut asked = Vec::new();
        self.index.borrow_mut().set(key, &mut asked);
        self.make(&asked).await?;
        self.log.borrow_mut().filled += self.value_bytes;
        while let Some(place) = self.full_piece() {
            self.write_behind(place, PIECE_BYTES).await?;
        }
        Ok(())
    }

    /// Takes a full piece, if there is one, and returns its offset.
    fn full_piece(&self) -> Option<u64> {
        let mut log = self.log.borrow_mut();
        log.filled = log.filled.checked_sub(PIECE_BYTES)?;
        log.pieces += 1;
        Some(self.index_bytes + (log.pieces - 1) % self.pieces() * PIECE_BYTES)
    }

    async fn make(&self, asked: &[Access]) -> Result<(), Error> {
        for access in asked {
            let bytes = u64::from(access.bytes);
            let table = |place: u64| place * TABLE_BYTES;
            match access.kind {
                Kind::IndexRead => self.read(table(access.place), bytes).await?,
                Kind::IndexWrite => self.write_behind(table(access.place), bytes).await?,
                Kind::ValueRead => {
                    let room = self.device.info().capacity_bytes - self.index_bytes;
                    let value = super::index::spread(access.place, room / self.value_bytes);
                    let offset = self.index_bytes + value * self.value_bytes;
                    self.read(offset, self.value_bytes).await?;
                }
            }
        }
        Ok(())
    }

    /// Writes in the background, unless too many writes are in flight.
    async fn write_behind(&self, offset: u64, bytes: u64) -> Result<(), Error> {
        let write = self.write(offset, bytes);
        let first = {
            let mut log = self.log.borrow_mut();
            log.writes.push_back(write);
            if log.writes.len() > WRITES_MAX { log.writes.pop_front() } else { None }
        };
        match first {
            Some(first) => first.await.map(drop).map_err(failed),
            None => Ok(()),
        }
    }

    fn pieces(&self) -> u64 {
        (self.device.info().capacity_bytes - self.index_bytes) / PIECE_BYTES
    }

    fn write(&self, offset: u64, bytes: u64) -> IoFuture {
        let (handle, durability) = (PlacementHandle::default(), Durability::Device);
        self.device.submit(Io::Write { offset, buffer: buffer(bytes), handle, durability })
    }

    async fn read(&self, offset: u64, bytes: u64) -> Result<(), Error> {
        let read = self.device.submit(Io::Read { offset, buffer: buffer(bytes) });
        read.await.map(drop).map_err(failed)
    }
}

impl Flight {
    async fn landed(&self) -> bool {
        poll_fn(|context| match self.found.get() {
            Some(found) => Poll::Ready(found),
            None => {
                self.waiting.borrow_mut().push(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    fn land(&self, found: bool) {
        self.found.set(Some(found));
        self.waiting.take().into_iter().for_each(Waker::wake);
    }
}

fn buffer(bytes: u64) -> IoBuffer {
    IoBuffer::zeroed(usize::try_from(bytes).unwrap_or(0))
}

fn failed(cause: impl std::fmt::Display) -> Error {
    Error::run(format!("a drive of the array: {cause}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use larder_device::Clock;
    use larder_sim::executor::Executor;

    use super::super::index::WholeIndex;
    use super::*;

    /// How long simultaneous GETs of `keys` take.
    fn took(keys: &[u64]) -> Duration {
        let clock = Arc::new(VirtualClock::default());
        let index = Box::new(WholeIndex::new(1000));
        let shard = Shard::new((64 << 20, Speed::OnePlane), 32 << 10, 1, index, &clock).unwrap();
        keys.iter().for_each(|&key| shard.load(key));
        let mut executor = Executor::new(Arc::clone(&clock));
        executor.spawn(async { shard.fill().await.unwrap() });
        executor.run().unwrap();
        let begun = clock.now();
        for &key in keys {
            let shard = &shard;
            executor.spawn(async move { assert!(shard.get(key).await.unwrap()) });
        }
        executor.run().unwrap();
        clock.now() - begun
    }

    #[test]
    fn concurrent_gets_of_a_key_share_its_read() {
        let one = took(&[5]);
        assert!(one >= Duration::from_micros(60 + 40), "a sense and a transfer: {one:?}");
        assert_eq!(took(&[5; 64]), one);
        // Adjacent values are on the same dies.
        assert!(took(&[5, 6, 7, 8]) > one, "{one:?}");
    }
}
