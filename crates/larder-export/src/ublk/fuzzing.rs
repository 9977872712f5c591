//! Entry point for the fuzzer: arbitrary events and descriptors of the driver. Not part of the API.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use larder_device::IoBuffer;
use zerocopy::FromBytes;

use super::driver::{Driver, Event};
use super::queue::Queue;
use super::request::Limits;
use super::wire::{IoDescriptor, SECTOR_BYTES, request};
use crate::volume::Volume;

const DEPTH: u16 = 4;
/// Bytes of an event in the fuzzed input: its tag and result, and its descriptor.
const EVENT_BYTES: usize = 8 + size_of::<IoDescriptor>();

/// A driver with arbitrary events, which refuses answers beyond the disk.
struct FuzzDriver {
    limits: Limits,
    events: VecDeque<(Event, IoDescriptor)>,
    /// For each tag, the request since its last event; `None`: it was answered.
    asked: [Option<IoDescriptor>; DEPTH as usize],
    answers: usize,
}

impl FuzzDriver {
    fn asked(&self, tag: u16) -> IoDescriptor {
        self.asked[usize::from(tag)].expect("a tag of which something is asked")
    }

    fn bytes(&self, tag: u16) -> usize {
        usize::try_from(u64::from(self.asked(tag).sectors) * SECTOR_BYTES).expect("it was checked")
    }
}

impl Driver for FuzzDriver {
    fn fetch(&mut self, _: u16) -> io::Result<()> {
        Ok(())
    }

    fn commit(&mut self, tag: u16, result: i32) -> io::Result<()> {
        let asked = self.asked(tag);
        self.asked[usize::from(tag)] = None;
        self.answers += 1;
        let [what, ..] = asked.what.to_le_bytes();
        if result < 0 || what == request::FLUSH {
            return Ok(());
        }
        let end = u128::from(asked.first_sector) + u128::from(asked.sectors);
        let is_inside = end * u128::from(SECTOR_BYTES) <= u128::from(self.limits.size_bytes);
        assert!(is_inside && asked.sectors > 0, "{asked:?} was done");
        assert!(
            !self.limits.is_read_only || what == request::READ,
            "{asked:?} was done to what is read"
        );
        let moved = matches!(what, request::READ | request::WRITE);
        let Limits { io_bytes_max, range_bytes_max, block_bytes, .. } = self.limits;
        let (start, bytes) =
            (asked.first_sector * SECTOR_BYTES, u64::from(asked.sectors) * SECTOR_BYTES);
        assert!(bytes <= if moved { io_bytes_max } else { range_bytes_max }, "{asked:?}");
        assert!((start | bytes).is_multiple_of(block_bytes), "{asked:?}: half a block");
        let due = if moved { bytes } else { 0 };
        assert_eq!(u64::try_from(result), Ok(due), "{asked:?}");
        Ok(())
    }

    fn descriptor(&self, tag: u16) -> IoDescriptor {
        self.asked(tag)
    }

    fn copy_in(&self, tag: u16, buffer: &mut IoBuffer) -> io::Result<()> {
        assert_eq!(buffer.len(), self.bytes(tag));
        Ok(())
    }

    fn copy_out(&self, tag: u16, buffer: &IoBuffer) -> io::Result<()> {
        assert_eq!(buffer.len(), self.bytes(tag));
        Ok(())
    }

    fn next(&mut self) -> io::Result<Option<Event>> {
        let Some((event, descriptor)) = self.events.pop_front() else { return Ok(None) };
        if let Some(asked) = self.asked.get_mut(usize::from(event.tag))
            && event.result == 0
        {
            *asked = Some(descriptor);
        }
        Ok(Some(event))
    }

    fn enter(&mut self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }
}

/// Arbitrary bytes as events of the driver for a queue of `volume`, which ends its requests at once. Each request must
/// be answered once, or the queue must end with an error. Returns the number of answers.
///
/// # Panics
/// If an operation reaches beyond the volume, or is not answered.
pub fn queue(volume: &Arc<dyn Volume>, bytes: &[u8]) -> usize {
    let [how, events @ ..] = bytes else { return 0 };
    let limits = Limits {
        size_bytes: volume.info().size_bytes,
        block_bytes: if how & 2 == 0 { 512 } else { 4096 },
        io_bytes_max: 64 << 10,
        range_bytes_max: 256 << 10,
        is_read_only: how & 1 != 0,
    };
    let of = |event: &[u8]| {
        let (head, descriptor) = event.split_at(8);
        let descriptor =
            IoDescriptor::read_from_bytes(descriptor).expect("the rest is as long as a descriptor");
        let result = i32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        (Event { tag: u16::from_le_bytes([head[0], head[1]]), result }, descriptor)
    };
    let events = events.chunks_exact(EVENT_BYTES).map(of).collect();
    let mut said = FuzzDriver { limits, events, asked: [None; DEPTH as usize], answers: 0 };
    let queue = Queue::begin(Arc::clone(volume), limits, DEPTH, &mut said);
    let mut queue = queue.expect("the driver takes its tags");
    let ended = queue.turn(&mut said, &mut Context::from_waker(Waker::noop()));
    let is_answered = said.asked.iter().all(Option::is_none);
    assert!(is_answered || ended.is_err(), "a request without an answer: {:?}", said.asked);
    said.answers
}

#[cfg(test)]
mod tests {
    use larder_device::MemoryDevice;

    use super::*;
    use crate::volume::DeviceVolume;

    #[test]
    fn whatever_the_driver_says_stays_within_the_disk() {
        let device = MemoryDevice::holding(vec![0; 1 << 20]);
        let volume: Arc<dyn Volume> = Arc::new(DeviceVolume::new(Arc::new(device)));
        let mut rng = fastrand::Rng::with_seed(11);
        let mut answers = 0;
        for _ in 0..2000 {
            let mut bytes = vec![rng.u8(..4)];
            for _ in 0..rng.usize(..20) {
                let tag = if rng.u8(..30) == 0 { rng.u16(..) } else { rng.u16(..DEPTH) };
                let result = if rng.u8(..30) == 0 { rng.i32(-40..) } else { 0 };
                let firsts = [rng.u64(..2200), rng.u64(..300) * 8, rng.u64(..)];
                let first = firsts[rng.usize(..3)];
                let lengths = [rng.u32(..600), rng.u32(..20) * 8, rng.u32(..)];
                let sectors = lengths[rng.usize(..3)];
                bytes.extend(
                    tag.to_le_bytes().into_iter().chain([0, 0]).chain(result.to_le_bytes()),
                );
                bytes.extend((rng.u32(..7) | rng.u32(..) << 8).to_le_bytes());
                bytes.extend(sectors.to_le_bytes());
                bytes.extend(first.to_le_bytes().into_iter().chain([0; 8]));
            }
            answers += queue(&volume, &bytes);
        }
        assert!(answers > 5000, "{answers}");
    }
}
