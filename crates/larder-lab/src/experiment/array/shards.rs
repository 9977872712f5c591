//! Drives in virtual time, each with an index and a log of values: the performance of an array of SSDs.
//!
//! Only the lengths and positions of values and index entries exist. The index is at the front of the drive, each table
//! or page in a fixed place; the log follows and wraps around. It is filled with the values before clients come; what
//! they set follows. A value is read from a place among those that derives from its key, as if it had been written
//! some time ago. No value is lost when the log wraps, whatever the index. So indexes differ only in their reads and
//! writes. Clients that ask for the same key at the same time share its read, as in the cache.

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
/// Bytes of a shard's writes that may be in flight before writers wait, each for its turn.
pub(super) const IN_FLIGHT_MAX: u64 = 8 * PIECE_BYTES;
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

/// The values of a shard before clients come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Values {
    /// Bytes of each.
    pub(super) bytes: u64,
    pub(super) count: u64,
}

/// A drive, its index, and its log.
pub(super) struct Shard {
    device: VirtualTimeDevice<SsdTiming>,
    index: RefCell<Box<dyn ValueIndex>>,
    value_bytes: u64,
    index_bytes: u64,
    /// Pieces of the log that the values fill.
    filled_pieces: u64,
    log: RefCell<Log>,
    flights: RefCell<HashMap<u64, Rc<Flight>>>,
}

/// A lookup in flight: whether the key was found, once that is known, and the tasks that wait for it.
#[derive(Default)]
struct Flight {
    found: Cell<Option<bool>>,
    waiting: RefCell<Vec<Waker>>,
}

/// The position of the log, its writes in flight, and the writers that wait for them in turn.
#[derive(Default)]
struct Log {
    /// Bytes of the piece being filled.
    filled: u64,
    /// Number of pieces written.
    pieces: u64,
    writes: VecDeque<(u64, IoFuture)>,
    /// Bytes of the writes in flight.
    in_flight: u64,
    /// Turns that writers have taken, and that have come.
    taken: u64,
    come: u64,
    /// Everything that waits for a turn or for a write.
    waiting: Vec<Waker>,
}

impl Log {
    fn wake(&mut self) {
        std::mem::take(&mut self.waiting).into_iter().for_each(Waker::wake);
    }
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
    /// A drive of `bytes` bytes for `values`, with room for `tables` tables or pages of the index.
    pub(super) fn new(
        (bytes, speed): (u64, Speed),
        values: Values,
        tables: u64,
        index: Box<dyn ValueIndex>,
        clock: &Arc<VirtualClock>,
    ) -> Result<Self, Error> {
        let device = drive((bytes, speed), Payload::None, clock)?;
        let index_bytes = (tables * TABLE_BYTES).next_multiple_of(PIECE_BYTES);
        let filled_pieces = (values.bytes * values.count).div_ceil(PIECE_BYTES).max(1);
        let filled_pieces = filled_pieces.min((bytes - index_bytes) / PIECE_BYTES);
        Ok(Self {
            device,
            index: RefCell::new(index),
            value_bytes: values.bytes,
            index_bytes,
            filled_pieces,
            log: RefCell::new(Log { pieces: filled_pieces, ..Log::default() }),
            flights: RefCell::default(),
        })
    }

    /// Adds a key to the index only, as if it had been stored long ago.
    pub(super) fn load(&self, key: u64) {
        self.index.borrow_mut().set(key, &mut Vec::new());
    }

    /// Writes the values, tables interleaved with pieces of the log, so that both are on all dies.
    pub(super) async fn fill(&self) -> Result<(), Error> {
        let (tables, pieces) = (self.index_bytes / TABLE_BYTES, self.filled_pieces);
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
        self.turn().await;
        self.log.borrow_mut().filled += self.value_bytes;
        while let Some(place) = self.full_piece() {
            self.write_behind(place, PIECE_BYTES);
        }
        Ok(())
    }

    /// Ends writes, the oldest first, for ever.
    pub(super) async fn end_writes(&self) {
        loop {
            let (bytes, write) = poll_fn(|context| {
                let mut log = self.log.borrow_mut();
                match log.writes.pop_front() {
                    Some(write) => Poll::Ready(write),
                    None => {
                        log.waiting.push(context.waker().clone());
                        Poll::Pending
                    }
                }
            })
            .await;
            let ended = write.await;
            debug_assert!(ended.is_ok(), "the model does not fail");
            let mut log = self.log.borrow_mut();
            log.in_flight -= bytes;
            log.wake();
        }
    }

    /// Waits until the log is not too far behind, in the order of the calls.
    async fn turn(&self) {
        let turn = {
            let mut log = self.log.borrow_mut();
            log.taken += 1;
            log.taken - 1
        };
        poll_fn(|context| {
            let mut log = self.log.borrow_mut();
            if log.come == turn && log.in_flight < IN_FLIGHT_MAX {
                log.come += 1;
                log.wake();
                return Poll::Ready(());
            }
            log.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
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
                Kind::IndexWrite => {
                    self.turn().await;
                    self.write_behind(table(access.place), bytes);
                }
                Kind::ValueRead => {
                    let values = self.filled_pieces * PIECE_BYTES / self.value_bytes;
                    let value = super::index::spread(access.place, values);
                    let offset = self.index_bytes + value * self.value_bytes;
                    self.read(offset, self.value_bytes).await?;
                }
            }
        }
        Ok(())
    }

    /// Writes in the background.
    fn write_behind(&self, offset: u64, bytes: u64) {
        let write = self.write(offset, bytes);
        let mut log = self.log.borrow_mut();
        log.in_flight += bytes;
        log.writes.push_back((bytes, write));
        log.wake();
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
        let values = Values { bytes: 32 << 10, count: 1000 };
        let shard = Shard::new((64 << 20, Speed::OnePlane), values, 1, index, &clock).unwrap();
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
