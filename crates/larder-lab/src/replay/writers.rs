//! The host between a cache and the drive: how many writes it has under way.
//!
//! CacheLib writes with a fixed number of threads, each with one request at a time. A write that finds them all busy
//! waits in a queue of the host, and its latency counts from when a thread takes it.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use larder_device::{
    Advance, CheckedIo, Completer, Device, DeviceInfo, DeviceStats, Extent, Io, IoBuffer, IoFuture,
    VirtualClock, steps,
};

/// A device that has at most a number of writes under way. The others wait in the order in which they came.
pub(super) struct Writers {
    device: Arc<dyn Device>,
    turns: Arc<Turns>,
    time: Arc<Time>,
}

impl Writers {
    /// `writers` writes of `device` under way at a time, at least 1. A thread that waits for one advances `clock`.
    pub(super) fn new(device: Arc<dyn Device>, writers: usize, clock: Arc<VirtualClock>) -> Self {
        let queue = Queue { free: writers.max(1), waiting: VecDeque::new() };
        Self { device, turns: Arc::new(Turns(Mutex::new(queue))), time: Arc::new(Time(clock)) }
    }
}

impl Device for Writers {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let io = io.into_inner();
        if !matches!(io, Io::Write { .. }) {
            return self.device.submit(io);
        }
        let (device, turns) = (Arc::clone(&self.device), Arc::clone(&self.turns));
        let (future, completer) = IoFuture::pending();
        completer.advanced_by(&self.time);
        steps::carry_on(async move {
            if let Some(turn) = turns.take() {
                _ = turn.await;
            }
            let result = device.submit(io).await;
            turns.give_back();
            completer.complete(result);
        });
        future
    }

    fn stored_at(&self, range: Range<u64>) -> Vec<Extent> {
        self.device.stored_at(range)
    }

    fn stats(&self) -> DeviceStats {
        self.device.stats()
    }
}

/// Moves on for a thread that waits for a write, before the clients run.
struct Time(Arc<VirtualClock>);

impl Advance for Time {
    fn advance(&self) {
        self.0.advance_to_next();
    }
}

struct Turns(Mutex<Queue>);

struct Queue {
    /// Writes that may start at once.
    free: usize,
    /// Those that wait, the first one first.
    waiting: VecDeque<Completer>,
}

impl Turns {
    /// Takes a turn. If there is none, returns what ends when it has come.
    fn take(&self) -> Option<IoFuture> {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.free > 0 {
            queue.free -= 1;
            return None;
        }
        let (turn, completer) = IoFuture::pending();
        queue.waiting.push_back(completer);
        Some(turn)
    }

    /// Gives a turn to the next in the queue.
    fn give_back(&self) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = queue.waiting.pop_front();
        queue.free += usize::from(next.is_none());
        drop(queue);
        if let Some(next) = next {
            next.complete(Ok(IoBuffer::empty()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use larder::Clock;
    use larder_device::model::virtual_time::{SsdTiming, VirtualTimeDevice};
    use larder_device::{Payload, PlacementHandle};
    use larder_ssd::managed::{Geometry, ManagedConfig};
    use larder_ssd::timed::small;

    use super::*;

    /// How long `writes` writes of a page take that are sent at once.
    fn took(writers: usize, writes: u64) -> Duration {
        let geometry = Geometry { logical_pages: 19_200, pages_per_unit: 192, units: 120 };
        let model = SsdTiming::new(ManagedConfig::new(geometry), small()).unwrap();
        let clock = Arc::new(VirtualClock::default());
        let drive = VirtualTimeDevice::new(model, Payload::Memory, Arc::clone(&clock)).unwrap();
        let device = Writers::new(Arc::new(drive), writers, Arc::clone(&clock));
        let write =
            |page| Io::write(page * 4096, IoBuffer::zeroed(4096), PlacementHandle::default());
        let sent: Vec<_> = (0..writes).map(|page| device.submit(write(page))).collect();
        sent.into_iter().for_each(|write| _ = write.wait().unwrap());
        clock.now()
    }

    #[test]
    fn writes_above_the_number_wait_for_their_turn() {
        let one = took(1, 1);
        // The link carries one page after the other, so writes that are sent at once take a little longer than one.
        let together = took(8, 8);
        assert!(together < one * 2, "{together:?} {one:?}");
        assert!(took(4, 8) > together, "two rounds");
        assert_eq!(took(1, 8), one * 8, "one after the other");
        assert_eq!(took(8, 8), took(100, 8));
    }

    #[test]
    fn a_turn_goes_to_one_write_at_a_time() {
        let turns = Turns(Mutex::new(Queue { free: 1, waiting: VecDeque::new() }));
        assert!(turns.take().is_none());
        let waits = turns.take().unwrap();
        turns.give_back();
        waits.wait().unwrap();
        turns.give_back();
        assert!(turns.take().is_none());
        assert!(turns.take().is_some(), "a turn is given back once");
    }
}
