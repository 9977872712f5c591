//! Segment memory: records are appended one after the other, read by many threads, sometimes overwritten in place,
//! and the memory is reused when it has no readers.
//!
//! These invariants make it sound. All are maintained in this file alone:
//!
//! 1. Bytes below `published` are whole records. A record is lent to holders of a lock of its shard ([`LockProof`]), of
//!    a [`Pin`] of it, or of the whole segment [`Frozen`].
//! 2. A thread may overwrite a record if it holds the shard's write lock ([`LockProofAlone`]), is counted in
//!    `overwriting`, and sees no pin afterwards. A pin was taken under a lock of the shard, or its owner checked
//!    afterwards that no record of the shard was being overwritten. So either the pin is seen, or its owner sees that
//!    it came too early, and gives it back. A thread that freezes a segment pins it, and waits until `overwriting` is
//!    zero. (Each side has two steps: it announces what it is about to do, and then checks the others. All four
//!    accesses are `SeqCst`.)
//! 3. Bytes from `published` on are accessed only by the segment's single [`Writer`]. A writer is made with the
//!    segment, or from a [`Spare`] one: no entry names that segment, only its slot has another share of it, and it
//!    had no pins after that. A reader that found an entry before, and pins now, sees that the entry is gone, and
//!    gives the pin back (`index`).
//! 4. The first word of a published record holds its marks, which change while others read the record. So it is never
//!    lent out as part of the record: every thread to which the record may be lent, by invariant 1, loads and changes
//!    the word atomically. A thread that overwrites the record has exclusive access to all of it, because by
//!    invariant 2 it is lent to no other thread then. Relaxed is enough: nothing else is read depending on the marks.
#![allow(unsafe_code)]

mod parts;
mod pins;

use std::ops::Deref;
use std::sync::Arc;

use super::memory::{Blocks, Memory};
use super::permits::Permits;
use super::readers::{LockProof, LockProofAlone};
use super::record::{
    FIXED_BYTES, ItemView, LONG_BYTES, UNIT_BYTES, WORD_BYTES, bytes_of_long, bytes_of_near_key,
    bytes_of_record, marks_in, record_of, with_marks,
};
use super::sparse::is_sparser;
use crate::base::item::Marks;
use crate::base::prefetch::prefetch;
use crate::base::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::base::sync::wait_a_little;
use parts::Parts;
pub(super) use parts::{PARTS_MAX, Run};
use pins::Pins;
pub(crate) use pins::{Pin, Share};

const LINE_BYTES: usize = 64;
/// The processor prefetches the following lines itself, once they are read in sequence.
const PREFETCHED_LINES: usize = 5;
/// Fields and key of most records end at most here.
const HEAD_BYTES: usize = 47;

/// Memory for records. It is not reused while there is a [`Share`] or a [`Pin`](super::Pin) of it.
///
/// The fields that every hit reads come first, in a cache line that hardly ever changes.
#[derive(Debug)]
pub(crate) struct Segment {
    memory: Memory,
    published: AtomicUsize,
    pins: Pins,
    /// The permits of its tier. `None`: it holds a single record, so that keeping it costs no other record.
    permits: Option<Arc<Permits>>,
    tally: Tally,
}

/// Fields that change with the records.
#[repr(align(64))]
#[derive(Debug)]
struct Tally {
    /// Bytes of records that were replaced or removed.
    dead: AtomicUsize,
    /// Records to be dealt with before the segment is freed.
    outstanding: AtomicU32,
    /// Records that are being overwritten.
    overwriting: AtomicU32,
    /// Expiry of the item that lives longest; the largest number if one never expires.
    last_expiry_s: AtomicU32,
    /// Bytes taken for it above the budget, while it is demoted; 0: it is part of the budget.
    above: AtomicUsize,
    /// Its number ([`Slots`](super::slots::Slots)); 0 means none yet.
    slot: AtomicU32,
    /// From where its records are followed.
    parts: Parts,
}

impl Tally {
    fn of_segment(bytes: usize) -> Self {
        Self {
            dead: AtomicUsize::new(0),
            outstanding: AtomicU32::new(0),
            overwriting: AtomicU32::new(0),
            last_expiry_s: AtomicU32::new(0),
            above: AtomicUsize::new(0),
            slot: AtomicU32::new(0),
            parts: Parts::of_segment(bytes),
        }
    }
}

const _: () = {
    assert!(std::mem::offset_of!(Segment, tally).is_multiple_of(LINE_BYTES));
    assert!(align_of::<Tally>() == LINE_BYTES, "a hit reads no line that changes with the records");
};

/// Decrements the number of records that are being overwritten.
struct Overwriting<'a>(&'a AtomicU32);

impl Drop for Overwriting<'_> {
    fn drop(&mut self) {
        let before = self.0.fetch_sub(1, Ordering::Release);
        debug_assert!(before > 0, "an overwrite that ends was counted");
    }
}

/// A segment in which no record is overwritten while this lives.
#[derive(Debug, Clone)]
pub(crate) struct Frozen {
    /// Dropped before the share: when the last share is dropped, this pin must be gone.
    _pin: Pin,
    segment: Share,
}

impl Frozen {
    /// Waits for threads that are overwriting records, which takes them less than a microsecond.
    pub(crate) fn new(segment: Share) -> Self {
        let pin = segment.pin(0);
        let mut looks = 0;
        while segment.tally.overwriting.load(Ordering::SeqCst) != 0 {
            wait_a_little(looks);
            looks = looks.saturating_add(1);
        }
        Self { _pin: pin, segment }
    }

    /// Allows overwriting again.
    pub(crate) fn thaw(self) -> Share {
        self.segment
    }

    /// The record at `at`, and its end.
    pub(crate) fn record_and_end(&self, at: usize) -> (ItemView<'_>, usize) {
        let published = self.end();
        let (word, bytes) = self.segment.measure(at, published);
        (record_of(word, self.segment.lend_body(at, bytes, published)), at + bytes)
    }

    /// End of the published records.
    pub(crate) fn end(&self) -> usize {
        self.segment.published.load(Ordering::Acquire)
    }

    /// The records in runs, which can be followed independently of each other.
    pub(super) fn runs(&self) -> Vec<Run> {
        self.segment.tally.parts.runs(self.end())
    }

    /// Takes the next records of a run, at most `most`.
    pub(super) fn take_of<'a>(
        &'a self,
        run: &mut Run,
        most: usize,
    ) -> impl Iterator<Item = (usize, ItemView<'a>)> {
        let next = move || {
            let at = run.at;
            let record;
            (record, run.at) = (at < run.end).then(|| self.record_and_end(at))?;
            Some((at, record))
        };
        std::iter::from_fn(next).take(most)
    }

    /// Prefetches the fields and the key of a record.
    pub(super) fn prefetch_head(&self, at: usize) {
        let record = self.segment.memory.start().as_ptr().wrapping_add(at);
        prefetch(record);
        prefetch(record.wrapping_add(HEAD_BYTES));
    }

    /// The records with their offsets, in the order in which they were written.
    #[cfg(test)]
    pub(crate) fn records(&self) -> impl Iterator<Item = (usize, ItemView<'_>)> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let begin = at;
            let record;
            (record, at) = (begin < self.end()).then(|| self.record_and_end(begin))?;
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
        let tally = Tally::of_segment(memory.len());
        Self { memory, published: AtomicUsize::new(0), pins, permits, tally }
    }

    /// The permits that a caller needs to keep a value of it; `None` means no permit is needed.
    #[inline]
    pub(crate) fn permits(&self) -> Option<&Permits> {
        self.permits.as_deref()
    }

    /// Whether it is one of many segments of this length, and is reused. Any other is freed with its last pin when
    /// the tier gives it up.
    pub(super) fn is_usual(&self, segment_bytes: usize) -> bool {
        self.permits.is_some() && self.capacity() == segment_bytes
    }

    /// Whether it has pins.
    pub(super) fn is_pinned(&self) -> bool {
        self.pins.are_any()
    }

    /// Memory besides that for records.
    pub(crate) fn overhead_bytes(&self) -> usize {
        size_of::<Self>() + self.pins.memory_bytes() + self.tally.parts.memory_bytes()
    }

    /// Size of the memory.
    pub(crate) fn capacity(&self) -> usize {
        self.memory.len()
    }

    /// Its number among the slots; 0 means none yet.
    pub(super) fn slot(&self) -> u32 {
        self.tally.slot.load(Ordering::Relaxed)
    }

    /// Sets its slot number, which it keeps.
    pub(super) fn note_slot(&self, slot: u32) {
        debug_assert!(slot != 0, "0 is no slot");
        let before = self.tally.slot.swap(slot, Ordering::Relaxed);
        debug_assert!(before == 0, "a segment keeps its number");
    }

    /// Address of the memory.
    #[cfg(test)]
    pub(super) fn address(&self) -> usize {
        self.memory.start().as_ptr().addr()
    }

    /// Prefetches the beginning of a record: its key, and for most values all of the value.
    pub(super) fn prefetch(&self, at: usize) {
        let record = self.memory.start().as_ptr().wrapping_add(at);
        (0..PREFETCHED_LINES).for_each(|line| prefetch(record.wrapping_add(line * LINE_BYTES)));
    }

    /// The record at `at`, which belongs to the locked shard.
    pub(crate) fn record(&self, at: usize, _locked: &LockProof) -> ItemView<'_> {
        self.lend_record(at)
    }

    /// Whether the record at `at`, which belongs to the locked shard, has this key.
    pub(crate) fn has_key(&self, at: usize, key: &[u8], _locked: &LockProof) -> bool {
        self.is_of_key(at, key)
    }

    /// Whether the record that a pin keeps has this key.
    #[inline]
    pub(super) fn pinned_has_key(pin: &Pin, key: &[u8]) -> bool {
        pin.is_of_key(pin.at(), key)
    }

    /// The caller is entitled to this record by invariant 1. Most look-ups compare a key, and nothing else: they need
    /// not decode the record.
    #[inline]
    fn is_of_key(&self, at: usize, key: &[u8]) -> bool {
        let published = self.published.load(Ordering::Acquire);
        let word = self.word(at, published).load(Ordering::Relaxed);
        match bytes_of_near_key(word, self.lend_fixed(at, published)) {
            Some(bytes) => {
                bytes == key.len() && self.lend(at + FIXED_BYTES, bytes, published) == key
            }
            None => self.lend_record(at).key == key,
        }
    }

    /// The record that a pin keeps.
    pub(super) fn pinned_record(pin: &Pin) -> ItemView<'_> {
        pin.lend_record(pin.at())
    }

    /// Bytes of the record at `at`, which belongs to the locked shard.
    pub(crate) fn record_bytes(&self, at: usize, _locked: &LockProof) -> usize {
        self.bytes_at(at)
    }

    /// Marks the pinned record as hit, with the time if access times are recorded. `marks` are its marks as read just
    /// before: most hits change nothing, and write nothing.
    #[inline]
    pub(super) fn note_hit(pin: &Pin, marks: Marks, now_s: Option<u32>) {
        let after = marks.after_hit(now_s);
        if after != marks {
            let word = pin.word(pin.at(), pin.published.load(Ordering::Acquire));
            let before = word.load(Ordering::Relaxed);
            // May fail if another thread changes the marks: that has seen the same hit, or has a more important mark.
            let after = with_marks(before, marks_in(before).after_hit(now_s));
            let _ = word.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Marks a record of the locked shard as won. Returns whether it was not won before.
    pub(super) fn win(&self, at: usize, _locked: &LockProof) -> bool {
        let won = with_marks(0, Marks::WON);
        let word = self.word(at, self.published.load(Ordering::Acquire));
        !marks_in(word.fetch_or(won, Ordering::Relaxed)).is_won()
    }

    /// Gives a record the marks of another one, of which it is a copy. The shard of both is locked.
    pub(super) fn take_marks(&self, at: usize, from: (&Self, usize), _locked: &LockProofAlone) {
        let old = from.0.word(from.1, from.0.published.load(Ordering::Acquire));
        let marks = marks_in(old.load(Ordering::Relaxed));
        let word = self.word(at, self.published.load(Ordering::Acquire));
        word.store(with_marks(word.load(Ordering::Relaxed), marks), Ordering::Relaxed);
    }

    /// Lends only this record: others may be being overwritten.
    #[inline]
    fn lend_record(&self, at: usize) -> ItemView<'_> {
        // Load it once, because every hit comes here.
        let published = self.published.load(Ordering::Acquire);
        let (word, bytes) = self.measure(at, published);
        record_of(word, self.lend_body(at, bytes, published))
    }

    /// A record without its first word.
    #[inline]
    fn lend_body(&self, at: usize, bytes: usize, published: usize) -> &[u8] {
        self.lend(at + WORD_BYTES, bytes - WORD_BYTES, published)
    }

    fn bytes_at(&self, at: usize) -> usize {
        self.measure(at, self.published.load(Ordering::Acquire)).1
    }

    /// The first word of the record at `at`, and its length in bytes.
    #[inline]
    fn measure(&self, at: usize, published: usize) -> (u32, usize) {
        let word = self.word(at, published).load(Ordering::Relaxed);
        let bytes = bytes_of_record(word, self.lend_fixed(at, published)).unwrap_or_else(|| {
            let longer = self.lend(at + WORD_BYTES, LONG_BYTES, published).first_chunk();
            bytes_of_long(word, longer.expect("`lend` returns the length asked for"))
        });
        (word, bytes)
    }

    /// The fixed fields of a record, without its first word.
    #[inline]
    fn lend_fixed(&self, at: usize, published: usize) -> &[u8; FIXED_BYTES - WORD_BYTES] {
        let fixed = self.lend(at + WORD_BYTES, FIXED_BYTES - WORD_BYTES, published);
        fixed.first_chunk().expect("`lend` returns the length asked for")
    }

    /// The first word of a record. The caller is entitled to this record by invariant 1.
    #[inline]
    fn word(&self, at: usize, published: usize) -> &std::sync::atomic::AtomicU32 {
        let is_record = at.is_multiple_of(WORD_BYTES) && at < published;
        assert!(is_record && WORD_BYTES <= published - at, "what is lent out was appended");
        // SAFETY: it is aligned, as the memory (`Segment::new`) and `at` are; it lies in the allocation, which
        // `published` never exceeds, and is initialised. All accesses to the word are atomic, except those of the
        // thread that overwrites or appends the record, which has exclusive access (invariants 2 to 4).
        unsafe {
            std::sync::atomic::AtomicU32::from_ptr(self.memory.start().as_ptr().add(at).cast())
        }
    }

    /// The caller is entitled to these bytes by invariant 1; `published` was loaded before.
    #[inline]
    fn lend(&self, at: usize, bytes: usize, published: usize) -> &[u8] {
        assert!(at <= published && bytes <= published - at, "what is lent out was appended");
        // SAFETY: `published` never exceeds the allocation. These bytes are initialised (the memory was zeroed when
        // it was made) and are not written while they are lent out (invariants 1, 2 and 4).
        unsafe { std::slice::from_raw_parts(self.memory.start().as_ptr().add(at), bytes) }
    }

    /// Lets `fill` overwrite a record of the locked shard, of `bytes` bytes. `None` if there may be readers of the
    /// segment without a lock of its shards.
    pub(crate) fn overwrite<T>(
        &self,
        at: usize,
        bytes: usize,
        _locked: &LockProofAlone,
        fill: impl FnOnce(&mut [u8]) -> T,
    ) -> Option<T> {
        self.tally.overwriting.fetch_add(1, Ordering::SeqCst);
        let _overwriting = Overwriting(&self.tally.overwriting);
        if self.pins.are_any() {
            return None;
        }
        let whole = self.bytes_at(at);
        assert_eq!(bytes, whole, "a record is overwritten whole");
        // SAFETY: the range is that of a record (just checked), which is lent to no one else (invariant 2).
        let room =
            unsafe { std::slice::from_raw_parts_mut(self.memory.start().as_ptr().add(at), bytes) };
        Some(fill(room))
    }

    /// Records that one of its items expires at this time; 0 means never.
    pub(crate) fn note_expiry(&self, expiry_s: u32) {
        let expiry_s = if expiry_s == 0 { u32::MAX } else { expiry_s };
        if self.last_expiry_s() < expiry_s {
            self.tally.last_expiry_s.fetch_max(expiry_s, Ordering::Relaxed);
        }
    }

    /// Expiry of the item that lives longest; the largest number if one never expires.
    pub(crate) fn last_expiry_s(&self) -> u32 {
        self.tally.last_expiry_s.load(Ordering::Relaxed)
    }

    /// Bytes of replaced or removed records.
    pub(crate) fn dead_bytes(&self) -> usize {
        self.tally.dead.load(Ordering::Relaxed)
    }

    /// Records that a record of this length was replaced or removed. Returns whether that made the segment more
    /// worthwhile to compact.
    pub(crate) fn note_dead(&self, bytes: usize) -> bool {
        let before = self.tally.dead.fetch_add(bytes, Ordering::Relaxed);
        debug_assert!(before + bytes <= self.capacity(), "a record dies once");
        is_sparser(before, before + bytes, self.capacity())
    }

    pub(crate) fn set_outstanding(&self, records: u32) {
        let before = self.tally.outstanding.swap(records, Ordering::AcqRel);
        debug_assert_eq!(before, 0, "it is demoted once at a time");
    }

    /// Sets the bytes taken for it above the budget. Returns the previous number.
    pub(crate) fn note_above(&self, bytes: usize) -> usize {
        self.tally.above.swap(bytes, Ordering::AcqRel)
    }

    /// Whether it is demoted above the budget.
    pub(crate) fn is_above(&self) -> bool {
        self.tally.above.load(Ordering::Acquire) > 0
    }

    /// Whether all of its records were dealt with.
    pub(crate) fn is_dealt_with(&self) -> bool {
        self.tally.outstanding.load(Ordering::Acquire) == 0
    }

    /// Adds a record to be dealt with.
    pub(crate) fn one_more(&self) {
        let before = self.tally.outstanding.fetch_add(1, Ordering::AcqRel);
        debug_assert!(before > 0, "records are given out while the segment itself is waited for");
    }

    /// Records that one record was dealt with. Returns whether it was the last.
    pub(crate) fn one_demoted(&self) -> bool {
        let before = self.tally.outstanding.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "a record is dealt with once");
        before == 1
    }
}

/// A segment whose content is not needed any more (invariant 3).
#[derive(Debug)]
pub(super) struct Spare(Share);

impl Spare {
    /// The caller guarantees that no entry names a record of the segment. Returns the segment if there are other
    /// references.
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

    /// Frees the memory but keeps its address space, if that is possible.
    pub(super) fn hollow_out(&self) -> bool {
        self.0.published.store(0, Ordering::Relaxed);
        self.0.memory.hollow_out()
    }

    /// Takes the memory into use again after [`Spare::hollow_out`].
    pub(super) fn refill(&self) {
        self.0.memory.refill();
    }

    pub(super) fn into_share(self) -> Share {
        self.0
    }
}

/// The only owner that may append to a segment.
#[derive(Debug)]
pub(crate) struct Writer {
    segment: Share,
}

impl Writer {
    /// A new segment of `bytes` for one record, in a separate allocation.
    pub(crate) fn allocate(bytes: usize) -> Self {
        Self { segment: Share::new(Segment::new(Memory::of_bytes(bytes), None)) }
    }

    /// A new segment of `bytes`, in a block.
    pub(super) fn allocate_in(blocks: &mut Blocks, bytes: usize, permits: Arc<Permits>) -> Self {
        Self { segment: Share::new(Segment::new(blocks.take(bytes), Some(permits))) }
    }

    /// Starts to fill a segment again.
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
        segment.tally.parts.restart();
        Self { segment }
    }

    pub(crate) fn segment(&self) -> &Share {
        &self.segment
    }

    /// Whether `bytes` bytes more can be appended.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        bytes <= self.segment.capacity() - self.segment.published.load(Ordering::Relaxed)
    }

    /// Lets `fill` write the next `bytes` and publishes them. Returns their offset, or `None` if there is no room.
    pub(crate) fn append(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8])) -> Option<usize> {
        let at = self.segment.published.load(Ordering::Relaxed);
        debug_assert!(at.is_multiple_of(UNIT_BYTES), "an entry can name where a record begins");
        if bytes > self.segment.capacity() - at {
            return None;
        }
        self.segment.memory.allow(at..at + bytes);
        // SAFETY: the range lies in the allocation (checked above) and starts at `published`, where only this writer
        // writes (invariant 3); `&mut self` prevents a second reference.
        let room = unsafe {
            std::slice::from_raw_parts_mut(self.segment.memory.start().as_ptr().add(at), bytes)
        };
        fill(room);
        debug_assert_eq!(
            self.segment.published.load(Ordering::Relaxed),
            at,
            "a segment has one writer"
        );
        self.segment.tally.parts.note(at, self.segment.capacity());
        self.segment.published.store(at + bytes, Ordering::Release);
        Some(at)
    }
}

#[cfg(test)]
mod tests;
