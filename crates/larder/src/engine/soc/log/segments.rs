//! The life cycle of a log's segments.
//!
//! ```text
//!            activate              close, written             every record moved,
//!   Free ───────────────► Active ───────────────► Sealed ───► dropped or readmitted ──► Free
//!                            │ write failed
//!                            └──────────────────► Retired ── after a back-off ──► Free
//! ```
//!
//! Segments are a ring: they are filled in the order of their numbers and reclaimed in the same order. While one is
//! being filled, the next Sealed one after it, the *victim*, is reclaimed at the same pace, page by page; so the next
//! segment is free when it is needed.
//!
//! 1. At most one segment is Active, and its pages are in memory, also while they are written.
//! 2. A segment gets a new sequence number each time it becomes Active; numbers are never reused, not even after a
//!    restart.
//! 3. An index entry points into an Active or a Sealed segment, and was made in its current filling.

use std::ops::Range;

use larder_device::IoBuffer;
use larder_log::{Backoff, CacheId};

use super::SocLogPlace;
use super::page::{self, PAGE_BYTES, PageIdentity};
use crate::base::item::ItemRef;
use crate::engine::small_record;
use crate::engine::soc::log_index::LogPosition;

/// At most `1 / READMITTED_PART` of a segment is filled with readmitted objects.
const READMITTED_PART: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SegmentState {
    Free,
    Active,
    Sealed,
    Retired,
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    state: SegmentState,
    sequence: u64,
    /// State of the back-off after a failed write.
    backoff: Backoff,
}

/// The segment that is being reclaimed.
#[derive(Debug, Clone, Copy)]
struct Victim {
    segment: u32,
    next_page: u32,
}

/// The segment that is being filled, in memory.
#[derive(Debug)]
struct Active {
    /// The cache that fills it.
    cache: CacheId,
    segment: u32,
    sequence: u64,
    buffer: IoBuffer,
    /// The page that is being filled. Earlier pages are sealed, later ones empty.
    page: u32,
    closed: bool,
    failed: bool,
    /// Bytes of records that may still be readmitted.
    readmitted_room: usize,
}

#[derive(Debug)]
pub(super) struct Segments {
    all: Vec<Segment>,
    cache: CacheId,
    pages: u32,
    next_sequence: u64,
    /// The segment that was activated last.
    newest: u32,
    active: Option<Active>,
    victim: Option<Victim>,
}

/// Why an object is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    New,
    /// It was in the log already, in the victim.
    Readmitted,
}

/// An object that was added to the active segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AppendedObject {
    pub(super) place: LogPosition,
    /// Whether it started a new page.
    pub(super) began_page: bool,
}

/// Result of changing to the next segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activation {
    Done,
    /// The next segment must be reclaimed first: it is the victim now.
    Reclaim,
    /// All segments are retired.
    NoSegment,
}

/// Where the bytes of a page are.
pub(super) enum Whereabouts<'a> {
    Memory(&'a [u8]),
    Flash,
    Nowhere,
}

impl Segments {
    pub(super) fn new(place: &SocLogPlace) -> Self {
        assert!(place.segments > 0 && place.pages_per_segment() > 0, "{place:?}");
        let free = Segment { state: SegmentState::Free, sequence: 0, backoff: Backoff::default() };
        Self {
            all: vec![free; place.segments as usize],
            cache: place.cache,
            pages: place.pages_per_segment(),
            next_sequence: place.first_sequence,
            newest: place.segments - 1,
            active: None,
            victim: None,
        }
    }

    /// Whether a record of this length can be appended.
    pub(super) fn has_room(&self, record_bytes: usize) -> bool {
        self.active.as_ref().is_some_and(|active| {
            let last = active.page + 1 == self.pages;
            !active.closed && (!last || page::has_room(active.current(), record_bytes))
        })
    }

    /// Appends `item`. `None` if there is no room.
    pub(super) fn append(&mut self, item: &ItemRef<'_>, cause: Cause) -> Option<AppendedObject> {
        let pages = self.pages;
        let active = self.active.as_mut().filter(|active| !active.closed)?;
        let bytes = small_record::record_bytes(item);
        if cause == Cause::Readmitted && active.readmitted_room < bytes {
            return None;
        }
        let mut began_page = false;
        if !page::has_room(active.current(), bytes) {
            if active.page + 1 == pages {
                return None;
            }
            active.seal_page();
            active.page += 1;
            began_page = true;
        }
        debug_assert!(active.page < pages, "page {} of {pages}", active.page);
        let number = page::push(active.current_mut(), item)?;
        if cause == Cause::Readmitted {
            active.readmitted_room -= bytes;
        }
        let place = LogPosition { page: active.segment * pages + active.page, number };
        Some(AppendedObject { place, began_page })
    }

    /// Closes the active segment and returns its number and its bytes, to be written. `None` if there is none or it is
    /// already closed.
    pub(super) fn close(&mut self) -> Option<(u32, &[u8])> {
        let pages = self.pages;
        let active = self.active.as_mut().filter(|active| !active.closed)?;
        debug_assert!(!active.failed, "it was not written yet");
        active.closed = true;
        // The remaining, empty pages are sealed as well: pages are read individually later.
        active.seal_page();
        while active.page + 1 < pages {
            active.page += 1;
            active.seal_page();
        }
        Some((active.segment, active.buffer.as_slice()))
    }

    /// Notes the end of the closed segment's write.
    pub(super) fn written(&mut self, well: bool) {
        if let Some(active) = self.active.as_mut().filter(|_| !well) {
            active.failed = true;
        } else if let Some(active) = self.active.take() {
            let segment = &mut self.all[active.segment as usize];
            assert!(active.closed, "what is not written yet is not Sealed: {segment:?}");
            assert_eq!(segment.state, SegmentState::Active, "{segment:?}");
            segment.state = SegmentState::Sealed;
        }
    }

    /// The pages of the closed segment whose write failed: they are only in memory.
    pub(super) fn failed_pages(&self) -> Range<u32> {
        match self.active.as_ref().filter(|active| active.failed) {
            Some(active) => active.segment * self.pages..(active.segment + 1) * self.pages,
            None => 0..0,
        }
    }

    /// Retires the segment whose write failed. No index entry may point into it.
    pub(super) fn retire_failed(&mut self, now_s: u32) -> Option<u32> {
        let segment = self.active.take_if(|active| active.failed)?.segment;
        let failed = &mut self.all[segment as usize];
        assert_eq!(failed.state, SegmentState::Active, "its write failed: {failed:?}");
        failed.state = SegmentState::Retired;
        failed.backoff.failed(now_s);
        Some(segment)
    }

    /// Frees retired segments whose back-off is over, so that they are tried again.
    pub(super) fn revive(&mut self, now_s: u32) {
        let is_due = |segment: &&mut Segment| {
            segment.state == SegmentState::Retired && segment.backoff.is_due(now_s)
        };
        self.all.iter_mut().filter(is_due).for_each(|it| it.state = SegmentState::Free);
    }

    /// Starts filling the next segment of the ring, in `buffer`, if it is free.
    pub(super) fn activate(&mut self, buffer: impl FnOnce() -> IoBuffer) -> Activation {
        assert!(self.active.is_none(), "rule 1: at most one segment is Active");
        let Some(segment) = self.after(self.newest) else { return Activation::NoSegment };
        if self.all[segment as usize].state == SegmentState::Sealed {
            self.victim = Some(Victim { segment, next_page: 0 });
            return Activation::Reclaim;
        }
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let filled = &mut self.all[segment as usize];
        debug_assert_eq!(filled.state, SegmentState::Free, "nothing points into it: {filled:?}");
        debug_assert!(filled.sequence <= sequence, "rule 2: {filled:?} before {sequence}");
        *filled = Segment { state: SegmentState::Active, sequence, ..*filled };
        self.newest = segment;
        let mut buffer = buffer();
        assert_eq!(buffer.len(), self.pages as usize * PAGE_BYTES, "it holds the segment");
        page::clear(buffer.as_mut_slice());
        let readmitted_room = buffer.len() / READMITTED_PART;
        let (closed, failed) = (false, false);
        self.active = Some(Active {
            cache: self.cache,
            segment,
            sequence,
            buffer,
            page: 0,
            closed,
            failed,
            readmitted_room,
        });
        let sealed = |&segment: &u32| self.all[segment as usize].state == SegmentState::Sealed;
        self.victim =
            self.after(segment).filter(sealed).map(|segment| Victim { segment, next_page: 0 });
        Activation::Done
    }

    /// The next pages to reclaim, at most `most`.
    pub(super) fn victim_pages(&self, most: u32) -> Range<u32> {
        self.pages_of_victim(most, self.pages)
    }

    /// The same, limited to pages that are behind the pace of the filling.
    pub(super) fn due_pages(&self, most: u32) -> Range<u32> {
        let filled = self.active.as_ref().map_or(0, |active| active.page + 1);
        self.pages_of_victim(most, filled)
    }

    fn pages_of_victim(&self, most: u32, before: u32) -> Range<u32> {
        let Some(Victim { segment, next_page }) = self.victim else { return 0..0 };
        let first = segment * self.pages;
        first + next_page..first + before.min(next_page + most).max(next_page)
    }

    /// Notes that no index entry points into the next page to reclaim any more. Returns whether it was the segment's
    /// last page.
    pub(super) fn page_reclaimed(&mut self) -> bool {
        let Some(victim) = &mut self.victim else { return false };
        debug_assert_eq!(self.all[victim.segment as usize].state, SegmentState::Sealed);
        victim.next_page += 1;
        if victim.next_page < self.pages {
            return false;
        }
        self.all[victim.segment as usize].state = SegmentState::Free;
        self.victim = None;
        true
    }

    pub(super) fn identity(&self, page: u32) -> PageIdentity {
        let segment = page / self.pages;
        let sequence = self.all.get(segment as usize).map_or(0, |segment| segment.sequence);
        PageIdentity { cache: self.cache, sequence, segment, page: page % self.pages }
    }

    pub(super) fn whereabouts(&self, page: u32) -> Whereabouts<'_> {
        let number = page / self.pages;
        match self.all.get(number as usize).map(|segment| segment.state) {
            Some(SegmentState::Sealed) => Whereabouts::Flash,
            Some(SegmentState::Active) => match &self.active {
                Some(active) if active.segment == number => {
                    Whereabouts::Memory(active.page(page % self.pages))
                }
                _ => Whereabouts::Nowhere,
            },
            _ => Whereabouts::Nowhere,
        }
    }

    /// The segment that was filled last, and number and sequence number of each sealed segment.
    pub(super) fn sealed(&self) -> (u32, Vec<(u32, u64)>) {
        let numbered = (0..).zip(&self.all);
        let sealed = numbered.filter(|(_, segment)| segment.state == SegmentState::Sealed);
        (self.newest, sealed.map(|(number, segment)| (number, segment.sequence)).collect())
    }

    /// Takes over what [`Segments::sealed`] returned in an earlier opening. Returns whether it is valid.
    pub(super) fn restore(&mut self, newest: u32, sealed: &[(u32, u64)]) -> bool {
        let count = self.all.len();
        let known = (newest as usize) < count
            && sealed.iter().all(|&(number, sequence)| {
                (number as usize) < count && sequence < self.next_sequence
            });
        if known {
            self.newest = newest;
            debug_assert!(self.active.is_none(), "an opening takes over before it fills");
            for &(number, sequence) in sealed {
                let restored = &mut self.all[number as usize];
                *restored = Segment { state: SegmentState::Sealed, sequence, ..*restored };
            }
        }
        known
    }

    /// The next usable segment of the ring.
    fn after(&self, segment: u32) -> Option<u32> {
        let count = u32::try_from(self.all.len()).expect("segments are counted in 32 bits");
        let ring = (1..=count).map(|step| (segment + step) % count);
        ring.into_iter().find(|&number| self.all[number as usize].state != SegmentState::Retired)
    }
}

impl Active {
    fn page(&self, page: u32) -> &[u8] {
        let at = page as usize * PAGE_BYTES;
        &self.buffer.as_slice()[at..at + PAGE_BYTES]
    }

    fn current(&self) -> &[u8] {
        self.page(self.page)
    }

    fn current_mut(&mut self) -> &mut [u8] {
        let at = self.page as usize * PAGE_BYTES;
        &mut self.buffer.as_mut_slice()[at..at + PAGE_BYTES]
    }

    fn seal_page(&mut self) {
        let Self { cache, segment, page, sequence, .. } = *self;
        let identity = PageIdentity { cache, sequence, segment, page };
        page::seal(self.current_mut(), identity);
        debug_assert!(page::is_valid(self.current(), identity), "{identity:?} is read back");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::KeyHash;
    use larder_device::PlacementHandle;

    fn place() -> SocLogPlace {
        SocLogPlace {
            offset: 0,
            segments: 3,
            segment_bytes: 2 * 4096,
            handle: PlacementHandle::DEFAULT,
            threshold: 2,
            cache: CacheId::ZERO,
            first_sequence: 100,
        }
    }

    fn activate(segments: &mut Segments) -> Activation {
        segments.activate(|| IoBuffer::zeroed(2 * PAGE_BYTES))
    }

    fn append(segments: &mut Segments, cause: Cause) -> Option<AppendedObject> {
        let value = [7; 2900];
        segments.append(&ItemRef::new(KeyHash::of(b"key"), b"key", &value, 0), cause)
    }

    /// Fills the active segment and writes it.
    fn fill(segments: &mut Segments) {
        while append(segments, Cause::New).is_some() {}
        assert!(segments.close().is_some() && segments.close().is_none());
        segments.written(true);
    }

    #[test]
    fn segments_are_reclaimed_at_the_pace_of_the_filling() {
        let mut segments = Segments::new(&place());
        for expected in 0..3 {
            assert_eq!(activate(&mut segments), Activation::Done);
            assert_eq!(!segments.victim_pages(8).is_empty(), expected == 2);
            let first = append(&mut segments, Cause::New).unwrap();
            assert_eq!((first.place.page, first.began_page), (expected * 2, false));
            if expected == 2 {
                break;
            }
            fill(&mut segments);
        }
        assert_eq!(segments.due_pages(8), 0..1);
        assert!(!segments.page_reclaimed());
        assert!(segments.due_pages(8).is_empty());
        assert_eq!(segments.victim_pages(8), 1..2);
        assert!(append(&mut segments, Cause::New).unwrap().began_page);
        assert_eq!(segments.due_pages(8), 1..2);
        assert!(segments.page_reclaimed());
        assert!(segments.victim_pages(8).is_empty());
        fill(&mut segments);
        assert_eq!(activate(&mut segments), Activation::Done);
        let identity = PageIdentity { cache: CacheId::ZERO, sequence: 103, segment: 0, page: 1 };
        assert_eq!(segments.identity(1), identity);
    }

    #[test]
    fn what_is_not_reclaimed_is_not_filled() {
        let mut segments = Segments::new(&place());
        for _ in 0..3 {
            assert_eq!(activate(&mut segments), Activation::Done);
            fill(&mut segments);
        }
        assert_eq!(activate(&mut segments), Activation::Reclaim);
        assert_eq!((segments.victim_pages(8), segments.victim_pages(1)), (0..2, 0..1));
        assert!(!segments.page_reclaimed() && segments.page_reclaimed());
        assert_eq!(activate(&mut segments), Activation::Done);
    }

    #[test]
    fn a_failed_write_retires_the_place_and_keeps_the_bytes_until_then() {
        let mut segments = Segments::new(&place());
        for failed in 0..3 {
            assert_eq!(activate(&mut segments), Activation::Done);
            append(&mut segments, Cause::New).unwrap();
            segments.close().unwrap();
            segments.written(false);
            assert_eq!(segments.failed_pages(), failed * 2..failed * 2 + 2);
            assert!(matches!(segments.whereabouts(failed * 2), Whereabouts::Memory(_)));
            let retired = [segments.retire_failed(0), segments.retire_failed(0)];
            assert_eq!(retired, [Some(failed), None]);
            assert!(matches!(segments.whereabouts(failed * 2), Whereabouts::Nowhere));
        }
        assert_eq!(activate(&mut segments), Activation::NoSegment);
    }

    #[test]
    fn readmitted_objects_get_half_a_segment() {
        let mut segments = Segments::new(&place());
        activate(&mut segments);
        assert!(append(&mut segments, Cause::Readmitted).is_some());
        assert!(append(&mut segments, Cause::Readmitted).is_none());
        assert!(append(&mut segments, Cause::New).is_some());
    }

    #[test]
    fn a_restart_goes_on_behind_the_newest() {
        let mut segments = Segments::new(&place());
        (0..2).for_each(|_| {
            activate(&mut segments);
            fill(&mut segments);
        });
        let (newest, sealed) = segments.sealed();
        assert_eq!((newest, &sealed[..]), (1, &[(0, 100), (1, 101)][..]));
        let later = SocLogPlace { first_sequence: 200, ..place() };
        let mut segments = Segments::new(&later);
        assert!(!segments.restore(3, &sealed) && !segments.restore(1, &[(0, 200)]));
        assert!(segments.restore(newest, &sealed));
        assert_eq!(activate(&mut segments), Activation::Done);
        assert_eq!(segments.identity(4).sequence, 200);
        assert_eq!((segments.victim_pages(8), segments.victim_pages(1)), (0..2, 0..1));
    }
}
