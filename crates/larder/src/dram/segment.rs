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
//!    with the segment, or from a [`Spare`] one: which no entry names, nobody else has a share of but its
//!    slot, and nobody had a pin of after that. Who has found an entry before and pins now sees that the
//!    entry is gone, and gives the pin back (`index`).
//! 4. The first word of a published record holds its marks, which change while others read the record. So
//!    it is never lent out with it: whoever may be lent the record, by invariant 1, loads and changes the word
//!    atomically. Who overwrites the record has all of it, for by invariant 2 nobody else may be lent it then. Relaxed
//!    is enough: nothing else is read by what the marks say.
#![allow(unsafe_code)]

use std::ops::Deref;
use std::sync::Arc;

use super::memory::{Blocks, Memory};
use super::permits::Permits;
use super::pins::{Pin, Pins, Share};
use super::prefetch::prefetch;
use super::readers::{Locked, LockedAlone};
use super::record::{
    FIXED_BYTES, ItemView, LONG_BYTES, Marks, UNIT_BYTES, WORD_BYTES, bytes_of_long,
    bytes_of_record, marks_in, record_of, with_marks,
};
use super::sparse::is_sparser;
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
    /// Of its tier. `None`: it is for one record, and nobody else pays if it is kept.
    permits: Option<Arc<Permits>>,
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
    /// Bytes that were taken for it above the budget, while it is demoted; 0: it is of the budget.
    above: AtomicUsize,
    /// Its number ([`Slots`](super::slots::Slots)); 0 is none yet.
    slot: AtomicU32,
}

const _: () = {
    assert!(std::mem::offset_of!(Segment, tally).is_multiple_of(LINE_BYTES));
    assert!(align_of::<Tally>() == LINE_BYTES, "a hit reads no line that changes with the records");
};

/// One record less that is being overwritten.
struct Overwriting<'a>(&'a AtomicU32);

impl Drop for Overwriting<'_> {
    fn drop(&mut self) {
        let before = self.0.fetch_sub(1, Ordering::Release);
        debug_assert!(before > 0, "who ends overwriting has begun to");
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

    /// The record that begins at `at`, and where it ends.
    pub(crate) fn record_and_end(&self, at: usize) -> (ItemView<'_>, usize) {
        (self.segment.lend_record(at), at + self.segment.bytes_at(at))
    }

    /// Where what was appended ends.
    pub(crate) fn end(&self) -> usize {
        self.segment.published.load(Ordering::Acquire)
    }

    /// The records with their offsets, in the order in which they were written.
    pub(crate) fn records(&self) -> impl Iterator<Item = (usize, ItemView<'_>)> {
        let (mut at, end) = (0, self.end());
        std::iter::from_fn(move || {
            let begin = at;
            let record;
            (record, at) = (begin < end).then(|| self.record_and_end(begin))?;
            Some((begin, record))
        })
    }
}

impl Deref for Frozen {
    type Target = Segment;

    fn deref(&self) -> &Segment {
        &self.segment
    }
}

impl Segment {
    fn new(memory: Memory, permits: Option<Arc<Permits>>) -> Self {
        let pins = Pins::of_segment(memory.len());
        assert!(memory.start().cast::<u32>().is_aligned(), "records begin with a word");
        memory.forbid(); // until it is appended to
        Self { memory, published: AtomicUsize::new(0), pins, permits, tally: Tally::default() }
    }

    /// What whoever keeps a value of it takes first; `None` is nothing.
    #[inline]
    pub(crate) fn permits(&self) -> Option<&Permits> {
        self.permits.as_deref()
    }

    /// Whether it is one of many of this length, and is used again. Any other is left to those who pin it when the
    /// tier has no use for it any more.
    pub(super) fn is_usual(&self, segment_bytes: usize) -> bool {
        self.permits.is_some() && self.capacity() == segment_bytes
    }

    /// What it takes beside the memory for records.
    pub(crate) fn overhead_bytes(&self) -> usize {
        size_of::<Self>() + self.pins.memory_bytes()
    }

    /// Size of the memory.
    pub(crate) fn capacity(&self) -> usize {
        self.memory.len()
    }

    /// Its number among the slots; 0 is none yet.
    pub(super) fn slot(&self) -> u32 {
        self.tally.slot.load(Ordering::Relaxed)
    }

    /// It has been given a slot, which it keeps.
    pub(super) fn note_slot(&self, slot: u32) {
        debug_assert!(slot != 0, "0 is no slot");
        let before = self.tally.slot.swap(slot, Ordering::Relaxed);
        debug_assert!(before == 0, "a segment keeps its number");
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
    pub(crate) fn record(&self, at: usize, _locked: &Locked) -> ItemView<'_> {
        self.lend_record(at)
    }

    /// The record that a pin of it keeps.
    pub(super) fn pinned_record(pin: &Pin) -> ItemView<'_> {
        pin.lend_record(pin.at())
    }

    /// Bytes of the record that begins at `at`: one of the shard that is locked.
    pub(crate) fn record_bytes(&self, at: usize, _locked: &Locked) -> usize {
        self.bytes_at(at)
    }

    /// Marks the record that a pin keeps as hit, in this second if accesses are noted. `marks` were its marks
    /// a moment ago: most hits change none of them, and touch nothing.
    #[inline]
    pub(super) fn note_hit(pin: &Pin, marks: Marks, now_s: Option<u32>) {
        let after = marks.after_hit(now_s);
        if after != marks {
            let word = pin.word(pin.at(), pin.published.load(Ordering::Acquire));
            let before = word.load(Ordering::Relaxed);
            // In vain if somebody else is at it, who has seen the same hit or a better reason.
            let after = with_marks(before, marks_in(before).after_hit(now_s));
            let _ = word.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Marks a record of the shard that is locked as won. Says whether it was not.
    pub(super) fn win(&self, at: usize, _locked: &Locked) -> bool {
        let won = with_marks(0, Marks::WON);
        let word = self.word(at, self.published.load(Ordering::Acquire));
        !marks_in(word.fetch_or(won, Ordering::Relaxed)).is_won()
    }

    /// Gives a record the marks of another one, whose copy it is. The shard of both is locked.
    pub(super) fn take_marks(&self, at: usize, from: (&Self, usize), _locked: &LockedAlone) {
        let old = from.0.word(from.1, from.0.published.load(Ordering::Acquire));
        let marks = marks_in(old.load(Ordering::Relaxed));
        let word = self.word(at, self.published.load(Ordering::Acquire));
        word.store(with_marks(word.load(Ordering::Relaxed), marks), Ordering::Relaxed);
    }

    /// Lends this record alone: others may be being overwritten.
    #[inline]
    fn lend_record(&self, at: usize) -> ItemView<'_> {
        // Once: every hit comes here.
        let published = self.published.load(Ordering::Acquire);
        let (word, bytes) = self.measure(at, published);
        record_of(word, self.lend(at + WORD_BYTES, bytes - WORD_BYTES, published))
    }

    fn bytes_at(&self, at: usize) -> usize {
        self.measure(at, self.published.load(Ordering::Acquire)).1
    }

    /// The first word of the record that begins at `at`, and its length in bytes.
    #[inline]
    fn measure(&self, at: usize, published: usize) -> (u32, usize) {
        const FIXED: usize = FIXED_BYTES - WORD_BYTES;
        let word = self.word(at, published).load(Ordering::Relaxed);
        let fixed = self.lend(at + WORD_BYTES, FIXED, published).first_chunk();
        let bytes = bytes_of_record(word, fixed.expect("so many were asked for"));
        let bytes = bytes.unwrap_or_else(|| {
            let longer = self.lend(at + WORD_BYTES, LONG_BYTES, published).first_chunk();
            bytes_of_long(word, longer.expect("so many were asked for"))
        });
        (word, bytes)
    }

    /// The first word of a record. The caller is one of those in invariant 1, for this record.
    #[inline]
    fn word(&self, at: usize, published: usize) -> &std::sync::atomic::AtomicU32 {
        let is_record = at.is_multiple_of(WORD_BYTES) && at < published;
        assert!(is_record && WORD_BYTES <= published - at, "what is lent out was appended");
        // SAFETY: it is aligned, as the memory is (`Segment::new`) and `at` is; it lies in the allocation, which
        // `published` never exceeds, and is initialised. All who touch the word do so atomically, but for who
        // overwrites the record or appends it, who is alone (invariants 2 to 4).
        unsafe {
            std::sync::atomic::AtomicU32::from_ptr(self.memory.start().as_ptr().add(at).cast())
        }
    }

    /// The caller is one of those in invariant 1, for these bytes; `published` was loaded before.
    #[inline]
    fn lend(&self, at: usize, bytes: usize, published: usize) -> &[u8] {
        assert!(at <= published && bytes <= published - at, "what is lent out was appended");
        // SAFETY: `published` never exceeds the allocation; these bytes are initialised (the memory was
        // zeroed when it was made) and are not written while they are lent out (invariants 1, 2 and 4).
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
        let whole = self.bytes_at(at);
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
        debug_assert!(before + bytes <= self.capacity(), "a record dies once");
        is_sparser(before, before + bytes, self.capacity())
    }

    pub(crate) fn set_outstanding(&self, records: u32) {
        let before = self.tally.outstanding.swap(records, Ordering::AcqRel);
        debug_assert_eq!(before, 0, "it is demoted once at a time");
    }

    /// Notes how many bytes were taken for it above the budget, and says how many were before.
    pub(crate) fn note_above(&self, bytes: usize) -> usize {
        self.tally.above.swap(bytes, Ordering::AcqRel)
    }

    /// Whether it is demoted above the budget.
    pub(crate) fn is_above(&self) -> bool {
        self.tally.above.load(Ordering::Acquire) > 0
    }

    /// Whether it waits for no record.
    pub(crate) fn is_dealt_with(&self) -> bool {
        self.tally.outstanding.load(Ordering::Acquire) == 0
    }

    /// One record more to wait for.
    pub(crate) fn one_more(&self) {
        let before = self.tally.outstanding.fetch_add(1, Ordering::AcqRel);
        debug_assert!(before > 0, "records are given out while the segment itself is waited for");
    }

    /// One record less to wait for. Says whether it was the last.
    pub(crate) fn one_demoted(&self) -> bool {
        let before = self.tally.outstanding.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "a record is dealt with once");
        before == 1
    }
}

/// A segment whose content is of no use to anybody (invariant 3).
#[derive(Debug)]
pub(super) struct Spare(Share);

impl Spare {
    /// The caller says that no entry names a record of the segment. Given back if somebody keeps it.
    pub(super) fn new(segment: Share) -> Result<Self, Share> {
        if !segment.is_alone() {
            return Err(segment);
        }
        segment.memory.forbid();
        Ok(Self(segment))
    }

    pub(super) fn capacity(&self) -> usize {
        self.0.capacity()
    }

    pub(super) fn is_usual(&self, segment_bytes: usize) -> bool {
        self.0.is_usual(segment_bytes)
    }

    /// Gives the memory back but keeps its place, if it has one that can be kept.
    pub(super) fn hollow_out(&self) -> bool {
        self.0.published.store(0, Ordering::Relaxed);
        self.0.memory.hollow_out()
    }

    /// Takes the memory back that [`Spare::hollow_out`] gave.
    pub(super) fn refill(&self) {
        self.0.memory.refill();
    }

    pub(super) fn into_share(self) -> Share {
        self.0
    }
}

/// The one who may append to a segment.
#[derive(Debug)]
pub(crate) struct Writer {
    segment: Share,
}

impl Writer {
    /// A new segment of `bytes` for one record, in memory of its own.
    pub(crate) fn allocate(bytes: usize) -> Self {
        Self { segment: Share::new(Segment::new(Memory::of_bytes(bytes), None)) }
    }

    /// A new segment of `bytes`, one of many.
    pub(super) fn allocate_in(blocks: &mut Blocks, bytes: usize, permits: Arc<Permits>) -> Self {
        Self { segment: Share::new(Segment::new(blocks.take(bytes), Some(permits))) }
    }

    /// Begins a segment anew.
    pub(super) fn recycle(Spare(segment): Spare) -> Self {
        segment.published.store(0, Ordering::Relaxed);
        debug_assert_eq!(
            segment.tally.outstanding.load(Ordering::Relaxed),
            0,
            "flash has dealt with it"
        );
        debug_assert!(!segment.is_above(), "what was above the budget is not used again as it is");
        segment.tally.dead.store(0, Ordering::Relaxed);
        segment.tally.last_expiry_s.store(0, Ordering::Relaxed);
        Self { segment }
    }

    pub(crate) fn segment(&self) -> &Share {
        &self.segment
    }

    /// Whether so many bytes more can be appended.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        bytes <= self.segment.capacity() - self.segment.published.load(Ordering::Relaxed)
    }

    /// Lets `fill` write the next `bytes` and publishes them. Returns where they begin, or `None`
    /// if there is no room.
    pub(crate) fn append(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8])) -> Option<usize> {
        let at = self.segment.published.load(Ordering::Relaxed);
        debug_assert!(at.is_multiple_of(UNIT_BYTES), "an entry can name where a record begins");
        if bytes > self.segment.capacity() - at {
            return None;
        }
        self.segment.memory.allow(at..at + bytes);
        // SAFETY: the range lies in the allocation (checked above) and from `published` on, where
        // only this writer goes (invariant 3); `&mut self` keeps it from being lent out twice.
        let room = unsafe {
            std::slice::from_raw_parts_mut(self.segment.memory.start().as_ptr().add(at), bytes)
        };
        fill(room);
        debug_assert_eq!(
            self.segment.published.load(Ordering::Relaxed),
            at,
            "a segment has one writer"
        );
        self.segment.published.store(at + bytes, Ordering::Release);
        Some(at)
    }
}

#[cfg(test)]
mod tests;
