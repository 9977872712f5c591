//! Segment memory: records that are appended one after the other, read by many, now and then overwritten
//! where they lie, and reused when nobody looks.
//!
//! These invariants make it sound, and all are kept in this file alone:
//!
//! 1. Bytes below `published` are whole records. A record is lent out to who holds a lock of its shard
//!    ([`Locked`]), or a [`Pin`] of it, or the whole segment [`Frozen`].
//! 2. A record is overwritten by who has its shard locked for itself ([`LockedAlone`]), is counted in
//!    `overwriting`, and sees no pin afterwards. Who has a pin took it with a lock of the shard, or saw
//!    after it had taken it that the shard had no record overwritten; so either the pin is seen, or its
//!    owner sees that it is too early, and gives it back. Who freezes a segment pins it, and waits
//!    until nobody is counted any more. (Each has two steps: it says what it is about to do, and looks
//!    whether others have. All four are `SeqCst`.)
//! 3. Bytes from `published` on are touched by the segment's one [`Writer`] only. A writer is made
//!    with the segment, or from a [`Share`] of a segment that nobody else has one or a pin of.
#![allow(unsafe_code)]

use std::ops::Deref;

use super::memory::{Blocks, Memory};
use super::pins::{Pin, Pins, Share};
use super::prefetch::prefetch;
use super::queues::is_sparser;
use super::readers::{Locked, LockedAlone};
use super::record::{FIXED_BYTES, Record, bytes_of_record, record_at};
use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::sync::wait_a_little;

const LINE_BYTES: usize = 64;
/// The processor fetches the rest itself, once somebody reads one line after the other.
const PREFETCHED_LINES: usize = 5;

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
    /// Records that are being overwritten.
    overwriting: AtomicU32,
    /// When the last of its items expires; the largest number if one never does.
    last_expiry_s: AtomicU32,
    /// Bytes that were taken for it above the budget, while it departs; 0: it is of the budget.
    above: AtomicUsize,
}

/// One record less that is being overwritten.
struct Overwriting<'a>(&'a AtomicU32);

impl Drop for Overwriting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// A segment in which nothing is overwritten as long as this lives.
#[derive(Debug, Clone)]
pub(crate) struct Frozen {
    /// Before the share: who drops the last share finds no pin of it.
    _pin: Pin,
    segment: Share,
}

impl Frozen {
    /// Waits for those who are overwriting records, which takes them less than a microsecond.
    pub(crate) fn new(segment: Share) -> Self {
        let pin = segment.pin(0);
        let mut looks = 0;
        while segment.tally.overwriting.load(Ordering::SeqCst) != 0 {
            wait_a_little(looks);
            looks = looks.saturating_add(1);
        }
        Self { _pin: pin, segment }
    }

    /// From now on records may be overwritten again.
    pub(crate) fn thaw(self) -> Share {
        self.segment
    }

    /// What was appended.
    pub(crate) fn published(&self) -> &[u8] {
        self.segment.lend(0, self.segment.published.load(Ordering::Acquire))
    }
}

impl Deref for Frozen {
    type Target = Segment;

    fn deref(&self) -> &Segment {
        &self.segment
    }
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

    /// Asks memory for the beginning of a record: its key, and of most values all that is not near it.
    pub(super) fn prefetch(&self, at: usize) {
        let record = self.memory.start().as_ptr().wrapping_add(at);
        (0..PREFETCHED_LINES).for_each(|line| prefetch(record.wrapping_add(line * LINE_BYTES)));
    }

    /// The record that begins at `at`: one of the shard that is locked.
    pub(crate) fn record(&self, at: usize, _locked: &Locked) -> Record<'_> {
        self.lend_record(at)
    }

    /// The record that a pin of it keeps.
    pub(super) fn pinned_record(pin: &Pin) -> Record<'_> {
        pin.lend_record(pin.at())
    }

    /// Lends this record alone: others may be being overwritten.
    #[inline]
    fn lend_record(&self, at: usize) -> Record<'_> {
        let fixed = self.lend(at, FIXED_BYTES).first_chunk().expect("so many were asked for");
        record_at(self.lend(at, bytes_of_record(fixed)), 0)
    }

    /// The caller is one of those in invariant 1, for these bytes.
    #[inline]
    fn lend(&self, at: usize, bytes: usize) -> &[u8] {
        let published = self.published.load(Ordering::Acquire);
        assert!(at <= published && bytes <= published - at, "what is lent out was appended");
        // SAFETY: `published` never exceeds the allocation; these bytes are initialised (the memory was
        // zeroed when it was made) and are not written while they are lent out (invariants 1 and 2).
        unsafe { std::slice::from_raw_parts(self.memory.start().as_ptr().add(at), bytes) }
    }

    /// Lets `fill` overwrite a record of the shard that is locked, of so many bytes. `None` if somebody
    /// may look at the segment without a lock of its shards.
    pub(crate) fn overwrite<T>(
        &self,
        at: usize,
        bytes: usize,
        _locked: &LockedAlone,
        fill: impl FnOnce(&mut [u8]) -> T,
    ) -> Option<T> {
        self.tally.overwriting.fetch_add(1, Ordering::SeqCst);
        let _overwriting = Overwriting(&self.tally.overwriting);
        if self.pins.are_any() {
            return None;
        }
        let whole = self.lend_record(at).bytes();
        assert_eq!(bytes, whole, "a record is overwritten whole");
        // SAFETY: the range is that of a record (just seen), which nobody else has (invariant 2).
        let room =
            unsafe { std::slice::from_raw_parts_mut(self.memory.start().as_ptr().add(at), bytes) };
        Some(fill(room))
    }

    /// One of its items expires then: 0 is never.
    pub(crate) fn note_expiry(&self, expiry_s: u32) {
        let expiry_s = if expiry_s == 0 { u32::MAX } else { expiry_s };
        if self.last_expiry_s() < expiry_s {
            self.tally.last_expiry_s.fetch_max(expiry_s, Ordering::Relaxed);
        }
    }

    /// When the last of its items expires; the largest number if one never does.
    pub(crate) fn last_expiry_s(&self) -> u32 {
        self.tally.last_expiry_s.load(Ordering::Relaxed)
    }

    /// Bytes that newer records have replaced.
    pub(crate) fn dead_bytes(&self) -> usize {
        self.tally.dead.load(Ordering::Relaxed)
    }

    /// A record of this length has been replaced or removed. Says whether the segment is worth more to
    /// compact by now.
    pub(crate) fn note_dead(&self, bytes: usize) -> bool {
        let before = self.tally.dead.fetch_add(bytes, Ordering::Relaxed);
        is_sparser(before, before + bytes, self.capacity())
    }

    pub(crate) fn set_outstanding(&self, records: u32) {
        self.tally.outstanding.store(records, Ordering::Release);
    }

    /// Notes how many bytes were taken for it above the budget, and says how many were before.
    pub(crate) fn note_above(&self, bytes: usize) -> usize {
        self.tally.above.swap(bytes, Ordering::AcqRel)
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
                *alone.tally.last_expiry_s.get_mut() = 0;
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
        // only this writer goes (invariant 3); `&mut self` keeps it from being lent out twice.
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
    use super::super::record::{encode, record_bytes};
    use super::*;
    use crate::key::KeyHash;
    use crate::value::ItemRef;

    const KEY: &[u8] = b"bread";

    fn item(value: &[u8]) -> ItemRef<'_> {
        ItemRef::new(KeyHash::of(KEY), KEY, value, 0)
    }

    fn append(writer: &mut Writer, value: &[u8]) -> usize {
        let item = item(value);
        writer.append(record_bytes(&item), |room| encode(room, &item, 1)).expect("there is room")
    }

    fn overwrite(segment: &Share, at: usize, value: &[u8]) -> bool {
        let item = item(value);
        let locked = LockedAlone::new();
        let fill = |room: &mut [u8]| encode(room, &item, 2);
        segment.overwrite(at, record_bytes(&item), &locked, fill).is_some()
    }

    #[test]
    fn what_is_appended_is_published_in_order() {
        let mut writer = Writer::allocate(16);
        assert_eq!(writer.append(6, |room| room.fill(1)), Some(0));
        assert_eq!(writer.append(6, |room| room.fill(2)), Some(6));
        assert_eq!(writer.append(6, |_| panic!("there is no room")), None);
        let segment = Frozen::new(writer.segment().clone());
        assert_eq!(segment.published(), [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
    }

    #[test]
    fn a_pinned_segment_is_not_reused() {
        let mut writer = Writer::allocate(64);
        let at = append(&mut writer, b"rye");
        let pin = writer.segment().pin(at);
        let Writer { segment } = writer;
        let segment = Writer::recycle(segment).unwrap_err();
        assert_eq!(pin.record().value, b"rye");
        drop(pin);
        let mut writer = Writer::recycle(segment).unwrap();
        assert_eq!(Frozen::new(writer.segment().clone()).published(), []);
        assert_eq!(append(&mut writer, b"oat"), 0);
    }

    #[test]
    fn what_somebody_may_look_at_is_not_overwritten() {
        let mut writer = Writer::allocate(4 << 10);
        let (rye, oat) = (append(&mut writer, b"rye"), append(&mut writer, b"oat"));
        let segment = writer.segment().clone();
        assert!(overwrite(&segment, rye, b"bun"));
        let pin = segment.pin(rye);
        assert!(!overwrite(&segment, rye, b"pie") && !overwrite(&segment, oat, b"pie"));
        assert_eq!(pin.record().value, b"bun");
        drop(pin);
        let frozen = Frozen::new(segment);
        assert!(!overwrite(writer.segment(), oat, b"pie"));
        let segment = frozen.thaw();
        assert!(overwrite(&segment, oat, b"pie"));
        let version = |at: usize| segment.pin(at).record().version;
        assert_eq!([rye, oat].map(version), [2, 2]);
    }

    #[test]
    fn who_freezes_a_segment_waits_for_those_who_overwrite() {
        const VALUES: [[u8; 512]; 2] = [[3; 512], [4; 512]];
        let mut writer = Writer::allocate(16 << 10);
        let places: Vec<_> = (0..16).map(|_| append(&mut writer, &VALUES[0])).collect();
        let segment = writer.segment().clone();
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                let mut overwritten = 0;
                for turn in 0..20_000 {
                    let done = overwrite(&segment, places[turn % 16], &VALUES[turn / 16 % 2]);
                    overwritten += u32::from(done);
                }
                overwritten
            });
            while !writing.is_finished() {
                let frozen = Frozen::new(segment.clone());
                let values = super::super::record::records(frozen.published());
                assert!(
                    values.into_iter().all(|(_, record)| VALUES.iter().any(|v| v == record.value))
                );
                drop(frozen);
                std::thread::yield_now();
            }
            assert!(writing.join().unwrap() > 0);
        });
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
                        let segment = Frozen::new(shared.clone());
                        let bytes = segment.published();
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
