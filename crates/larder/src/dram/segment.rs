//! Segment memory: bytes that are appended once, read by many, and reused when nobody looks.
//!
//! Two invariants make this sound, and both are kept in this file alone:
//!
//! 1. Bytes below `published` are never written while the segment is shared. Only they are lent
//!    out.
//! 2. Bytes from `published` on are touched by the segment's one [`Writer`] only. A writer is made
//!    with the segment, or from a [`Share`] of a segment that nobody else has one or a pin of.
#![allow(unsafe_code)]

use super::memory::{Blocks, Memory};
use super::pins::{Pins, Share};
use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Memory for records. It is not reused while somebody has a [`Share`] or a [`Pin`](super::Pin) of it.
///
/// What every hit reads comes first, and is in a cache line that hardly ever changes.
#[derive(Debug)]
pub(crate) struct Segment {
    memory: Memory,
    published: AtomicUsize,
    pub(super) pins: Pins,
    tally: Tally,
}

/// What changes with the records.
#[repr(align(64))]
#[derive(Debug, Default)]
struct Tally {
    /// Bytes of records that newer ones have replaced.
    dead: AtomicUsize,
    /// Records that wait to be dealt with before the segment is freed.
    outstanding: AtomicU32,
}

impl Segment {
    fn new(memory: Memory) -> Self {
        let pins = Pins::of_segment(memory.len());
        Self { memory, published: AtomicUsize::new(0), pins, tally: Tally::default() }
    }

    /// What it takes beside the memory for records.
    pub(crate) fn overhead_bytes(&self) -> usize {
        size_of::<Self>() + self.pins.memory_bytes()
    }

    /// Size of the memory.
    pub(crate) fn capacity(&self) -> usize {
        self.memory.len()
    }

    /// Gives the memory back but keeps its place, if it has one that can be kept. The content is lost.
    pub(super) fn hollow_out(&mut self) -> bool {
        *self.published.get_mut() = 0;
        self.memory.hollow_out()
    }

    /// Takes the memory back that [`Segment::hollow_out`] gave.
    pub(super) fn refill(&mut self) {
        self.memory.refill();
    }

    /// Where the memory lies.
    #[cfg(test)]
    pub(super) fn address(&self) -> usize {
        self.memory.start().as_ptr().addr()
    }

    /// What has been appended.
    pub(crate) fn published(&self) -> &[u8] {
        let len = self.published.load(Ordering::Acquire);
        // SAFETY: `len` never exceeds the allocation; these bytes are initialised (the memory was
        // zeroed when it was made) and are not written while the segment is shared (invariant 1).
        unsafe { std::slice::from_raw_parts(self.memory.start().as_ptr(), len) }
    }

    /// Bytes that newer records have replaced.
    pub(crate) fn dead_bytes(&self) -> usize {
        self.tally.dead.load(Ordering::Relaxed)
    }

    /// A record of this length has been replaced or removed.
    pub(crate) fn note_dead(&self, bytes: usize) {
        self.tally.dead.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn set_outstanding(&self, records: u32) {
        self.tally.outstanding.store(records, Ordering::Release);
    }

    /// One record more to wait for.
    pub(crate) fn one_more(&self) {
        self.tally.outstanding.fetch_add(1, Ordering::AcqRel);
    }

    /// One record less to wait for. Says whether it was the last.
    pub(crate) fn one_settled(&self) -> bool {
        self.tally.outstanding.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// The one who may append to a segment.
#[derive(Debug)]
pub(crate) struct Writer {
    segment: Share,
}

impl Writer {
    /// A new segment of `bytes`, in memory of its own.
    pub(crate) fn allocate(bytes: usize) -> Self {
        Self { segment: Share::new(Segment::new(Memory::of_bytes(bytes))) }
    }

    /// A new segment of `bytes`, one of many.
    pub(super) fn allocate_in(blocks: &mut Blocks, bytes: usize) -> Self {
        Self { segment: Share::new(Segment::new(blocks.take(bytes))) }
    }

    /// Begins a segment anew. Given back if somebody else still holds it.
    pub(crate) fn recycle(mut segment: Share) -> Result<Self, Share> {
        match segment.get_mut() {
            Some(alone) => {
                *alone.published.get_mut() = 0;
                *alone.tally.dead.get_mut() = 0;
                Ok(Self { segment })
            }
            None => Err(segment),
        }
    }

    pub(crate) fn segment(&self) -> &Share {
        &self.segment
    }

    /// Lets `fill` write the next `bytes` and publishes them. Returns where they begin, or `None`
    /// if there is no room.
    pub(crate) fn append(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8])) -> Option<usize> {
        let at = self.segment.published.load(Ordering::Relaxed);
        if bytes > self.segment.capacity() - at {
            return None;
        }
        // SAFETY: the range lies in the allocation (checked above) and from `published` on, where
        // only this writer goes (invariant 2); `&mut self` keeps it from being lent out twice.
        let room = unsafe {
            std::slice::from_raw_parts_mut(self.segment.memory.start().as_ptr().add(at), bytes)
        };
        fill(room);
        self.segment.published.store(at + bytes, Ordering::Release);
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_appended_is_published_in_order() {
        let mut writer = Writer::allocate(16);
        assert_eq!(writer.append(6, |room| room.fill(1)), Some(0));
        assert_eq!(writer.append(6, |room| room.fill(2)), Some(6));
        assert_eq!(writer.append(6, |_| panic!("there is no room")), None);
        assert_eq!(writer.segment().published(), [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
    }

    #[test]
    fn a_pinned_segment_is_not_reused() {
        let mut writer = Writer::allocate(8);
        writer.append(8, |room| room.fill(7));
        let pin = writer.segment().pin();
        let Writer { segment } = writer;
        let segment = Writer::recycle(segment).unwrap_err();
        assert_eq!(pin.published(), [7; 8]);
        drop(pin);
        let mut writer = Writer::recycle(segment).unwrap();
        assert_eq!(writer.segment().published(), []);
        assert_eq!(writer.append(8, |room| room.fill(8)), Some(0));
    }

    #[test]
    fn readers_see_whole_records_while_a_writer_appends() {
        let mut writer = Writer::allocate(64 << 10);
        let shared = writer.segment().clone();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut seen = 0;
                    while seen < 64 << 10 {
                        let bytes = shared.published();
                        seen = bytes.len();
                        assert!(bytes.chunks_exact(64).all(|record| record == [record[0]; 64]));
                    }
                });
            }
            for record in 0..1024_u32 {
                writer.append(64, |room| room.fill(record.to_le_bytes()[0])).unwrap();
            }
        });
    }
}
