//! Drives in virtual time, each with an index and a log of values: what an array of SSDs does for its clients.
//!
//! Of values and index only the lengths are there, and where they lie on the drive: the index in front, a table or page
//! at a place of its own; behind it the log, which goes round and round. A value is read from a place by its key, as if
//! it had been written some time ago; no value is lost when the log comes round, whatever index there is. So what
//! differs between indexes is what they read and write, and nothing else. Those who ask for a key together share its
//! read, as they do in the cache.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
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

/// What goes to the drive at once.
const PIECE_BYTES: u64 = 256 << 10;
/// Writes of a shard that may be under way before whoever writes waits for the first of them.
const WRITES_MAX: usize = 8;
/// Room of a table or page of an index.
const TABLE_BYTES: u64 = 16 << 10;
const OP_PERCENT: f64 = 17.0;
/// A reclaim unit: a page on each die.
const UNIT_BYTES: u64 = 512 << 10;

/// 8 channels of 4 dies, pages of 16 KiB sensed in 60 us, moved in 40 us and programmed in 700 us, reads first:
/// a value of 32 KiB is two senses, on two dies, and a table or a page of it is one.
fn timing() -> DriveTiming {
    let base = open_channel();
    let nand = NandTiming { planes: 1, ..base.nand };
    DriveTiming { channels: 8, nand, service: DieService::ReadsSuspend, buffer_ns: 4000, ..base }
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

/// A key that is being looked up: whether it was found, as soon as that is known, and who waits for it.
#[derive(Default)]
struct Flight {
    found: Cell<Option<bool>>,
    waiting: RefCell<Vec<Waker>>,
}

/// Where the log is, and what is on its way to the drive.
#[derive(Default)]
struct Log {
    /// Bytes of the piece that is being filled.
    filled: u64,
    /// Pieces that were written.
    pieces: u64,
    writes: VecDeque<IoFuture>,
}

/// A fresh drive of so many bytes.
pub(super) fn drive(
    bytes: u64,
    payload: Payload,
    clock: &Arc<VirtualClock>,
) -> Result<VirtualTimeDevice<SsdTiming>, Error> {
    let wrong = |cause: String| Error::usage(format!("a drive of {bytes} bytes: {cause}"));
    let geometry = Geometry::with_overprovisioning(bytes, UNIT_BYTES, OP_PERCENT)
        .map_err(|cause| wrong(cause.to_string()))?;
    let ssd = SsdTiming::new(ManagedConfig::new(geometry), timing());
    let ssd = ssd.map_err(|cause| wrong(cause.to_string()))?;
    let device = VirtualTimeDevice::new(ssd, payload, Arc::clone(clock));
    device.map_err(|cause| wrong(cause.to_string()))
}

impl Shard {
    /// A drive of so many bytes for values of this length, whose index has so many tables or pages.
    pub(super) fn new(
        bytes: u64,
        value_bytes: u64,
        tables: u64,
        index: Box<dyn ValueIndex>,
        clock: &Arc<VirtualClock>,
    ) -> Result<Self, Error> {
        let device = drive(bytes, Payload::None, clock)?;
        let index_bytes = (tables * TABLE_BYTES).next_multiple_of(PIECE_BYTES);
        let (index, log, flights) = (RefCell::new(index), RefCell::default(), RefCell::default());
        Ok(Self { device, index, value_bytes, index_bytes, log, flights })
    }

    /// Stores a key in the index alone, as if it had been there for long.
    pub(super) fn load(&self, key: u64) {
        self.index.borrow_mut().set(key, &mut Vec::new());
    }

    /// Writes the whole drive, tables between the pieces of the log: so both lie on all dies.
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

    /// Reads a value. Whether the index knew where it is.
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

    /// Writes a value: it is done when it is in memory, and the log not too far behind.
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

    /// Takes a piece that is full, and says where it goes.
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

    /// Writes without waiting, unless too much is under way.
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

    /// How long a number of GETs take that come together.
    fn took(keys: &[u64]) -> Duration {
        let clock = Arc::new(VirtualClock::default());
        let index = Box::new(WholeIndex::new(1000));
        let shard = Shard::new(64 << 20, 32 << 10, 1, index, &clock).unwrap();
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
    fn those_who_ask_for_a_key_together_share_its_read() {
        let one = took(&[5]);
        assert!(one >= Duration::from_micros(60 + 40), "a sense and a transfer: {one:?}");
        assert_eq!(took(&[5; 64]), one);
        // Neighbours lie on the same dies.
        assert!(took(&[5, 6, 7, 8]) > one, "{one:?}");
    }
}
