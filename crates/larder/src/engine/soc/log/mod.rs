//! The log in front of the buckets: small objects wait in it until several objects of one bucket can be written
//! together (Kangaroo, SOSP'21).
//!
//! ```text
//!   set ──► segment in memory ──full──► log on flash, a ring ──reclaimed──► buckets, several at a time
//!                  ▲                                             │
//!                  └────────── hit, or newer than its bucket ◄───┴──► dropped: alone, never hit,
//!                                                                     and no room in the bucket
//! ```
//!
//! When a segment is reclaimed, its objects go to their bucket together with all other objects of the log that belong
//! there, if there are at least `threshold` of them: one write of the bucket serves all of them. Fewer objects are not
//! worth the ones that they would push out of the bucket: they move only if the bucket has room.
//!
//! 1. An object's log entry and bucket change under the lock of the bucket. No task waits for the log's turn while it
//!    holds a bucket lock.
//! 2. The log is newer than the bucket. The index knows at most one object of a key, the newest; while it does,
//!    look-ups do not ask the bucket for the key.
//! 3. So the index forgets an object only when its bucket has it, or when no older version of the key can be in the
//!    bucket: the filter says no, or the bucket was emptied.
//! 4. An index entry identifies a record by its place. The record says which key it belongs to.
//!
//! 5. After a crash the log is empty. Its objects were newer than those in the buckets, so with tombstones no old
//!    version comes back instead. An object that is itself invalidated is marked dead here, and no longer moves to its
//!    bucket.
//!
//! Reads take no lock. A page that was reclaimed while it was read is detected by its sequence number, and the look-up
//! starts again.

mod look;
pub(crate) mod page;
mod reclaim;
mod segments;
mod snapshot;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_device::{BufferPool, Device, Io, IoBuffer, IoFuture, PlacementHandle};

use crate::base::item::{FlashItem, ItemRef};
use crate::base::key::KeyHash;
use crate::base::removal::RemovalReason;
use crate::engine::breaker::CircuitBreaker;
use crate::engine::small_record::{self, SmallRecord};
use crate::engine::soc::buckets::Buckets;
use crate::engine::soc::log_index::{self, LogPosition, PageIndex};
use crate::observe::events;
use crate::observe::stats::Counters;
use larder_log::CacheId;
use page::{PAGE_BYTES, PageIdentity};
use segments::{Activation, AppendedObject, Cause, Segments, Whereabouts};
pub(crate) use snapshot::snapshot_bytes_max;

/// Maximum bytes of a log.
pub(crate) const BYTES_MAX: u64 = log_index::PAGES_MAX * PAGE_BYTES as u64;

/// What fits into a bucket fits into a page.
const _: () = assert!(crate::config::SOC_OBJECT_BYTES_MAX <= page::OBJECT_BYTES_MAX);

/// Result of a look-up in the log.
pub(super) enum LogLookup {
    Found(FlashItem),
    /// Its newest version has expired or cannot be read: an older version must not answer for it.
    Gone,
    /// It is not in the log; the bucket may have it.
    Absent,
    /// It moved during each attempt.
    Moving,
}

/// Where the log lies, and its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocLogPlace {
    /// Byte address of segment 0.
    pub(crate) offset: u64,
    /// At least 1.
    pub(crate) segments: u32,
    /// A whole number of pages.
    pub(crate) segment_bytes: u32,
    pub(crate) handle: PlacementHandle,
    /// Number of objects of one bucket that justify a write of the bucket.
    pub(crate) threshold: u8,
    /// Identity to write into pages and to expect in them.
    pub(crate) cache: CacheId,
    /// Larger than any sequence number that was ever used on the device.
    pub(crate) first_sequence: u64,
}

impl SocLogPlace {
    fn pages_per_segment(&self) -> u32 {
        debug_assert!(self.segment_bytes.is_multiple_of(4096), "whole pages: {self:?}");
        self.segment_bytes / u32::try_from(PAGE_BYTES).expect("4096")
    }
}

/// The write of a segment that is still in flight. It outlives the call that started it: if that call is dropped, it
/// stays here, and the next holder of the turn waits for its end first.
type SegmentWrite = Option<IoFuture>;

/// The log in front of the buckets of a small-object engine.
pub(super) struct Log {
    buckets: Arc<Buckets>,
    device: Arc<dyn Device>,
    /// The buckets take their buffers from the same pool.
    pool: BufferPool,
    breaker: Arc<CircuitBreaker>,
    counters: Arc<Counters>,
    place: SocLogPlace,
    index: Arc<PageIndex>,
    segments: Mutex<Segments>,
    /// Held by a task that writes a segment, reclaims, or changes to the next segment.
    turn: async_lock::Mutex<SegmentWrite>,
}

/// A page that passed its checks.
struct Page {
    buffer: IoBuffer,
    identity: PageIdentity,
}

/// A page that is being read.
enum Reading {
    Here(Page),
    Flash(IoFuture, PageIdentity),
    Nowhere,
}

impl Page {
    fn record(&self, number: u8) -> Option<SmallRecord<'_>> {
        page::records(self.buffer.as_slice()).nth(usize::from(number))
    }
}

impl Log {
    pub(super) fn new(
        place: SocLogPlace,
        buckets: Arc<Buckets>,
        (device, pool): (Arc<dyn Device>, BufferPool),
        (counters, breaker): (Arc<Counters>, Arc<CircuitBreaker>),
    ) -> Self {
        let bytes = u64::from(place.segments) * u64::from(place.segment_bytes);
        assert!((1..=BYTES_MAX).contains(&bytes), "the index has bits for its pages: {place:?}");
        assert!(place.threshold > 0, "a write is for one object at least: {place:?}");
        Self {
            place,
            index: Arc::new(PageIndex::new(buckets.count())),
            segments: Mutex::new(Segments::new(&place)),
            turn: async_lock::Mutex::new(None),
            buckets,
            device,
            pool,
            breaker,
            counters,
        }
    }

    /// Whether an object of this hash may be in the log. "No" is certain, unless the object is marked dead.
    pub(super) fn may_hold(&self, hash: KeyHash) -> bool {
        self.index.may_hold(self.buckets.number_of(hash), hash)
    }

    /// Memory of the index.
    pub(super) fn index_bytes(&self) -> u64 {
        self.index.memory_bytes()
    }

    /// Objects in the log.
    pub(super) fn len(&self) -> u64 {
        self.index.len()
    }

    /// Forgets everything. Sequence numbers continue with this one.
    pub(super) fn clear(&self, first_sequence: u64) {
        let mut segments = self.segments();
        *segments = Segments::new(&SocLogPlace { first_sequence, ..self.place });
        self.index.clear();
    }

    fn segments(&self) -> MutexGuard<'_, Segments> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs `item` in place of the version at `older`. `None` if there is no room. The caller holds the lock of the
    /// bucket.
    fn append(
        &self,
        bucket: u64,
        item: &ItemRef<'_>,
        older: Option<LogPosition>,
        cause: Cause,
    ) -> Option<AppendedObject> {
        let mut segments = self.segments();
        debug_assert!(!item.key.is_empty(), "a record without a key is damage");
        let appended = segments.append(item, cause)?;
        debug_assert_ne!(older, Some(appended.place), "two objects, two places");
        if let Some(older) = older {
            self.index.remove(bucket, older);
        }
        // Before the segment can be written and reclaimed, therefore under its lock.
        self.index.insert(bucket, item.hash, appended.place, false);
        Some(appended)
    }

    /// Whether the page still has this identity.
    fn is_current(&self, page: u32, identity: PageIdentity) -> bool {
        self.segments().identity(page) == identity
    }

    fn offset_of(&self, page: u32) -> u64 {
        debug_assert!(page < self.place.segments * self.place.pages_per_segment(), "page {page}");
        self.place.offset + u64::from(page) * PAGE_BYTES as u64
    }

    /// Waits for all writes in flight.
    pub(super) async fn finish_writes(&self) {
        drop(self.take_turn().await);
    }

    /// Marks the log's object of this hash dead. This may also hit an object of another key that the index cannot tell
    /// from it.
    pub(in crate::engine::soc) async fn invalidate(&self, hash: KeyHash) {
        if !self.may_hold(hash) {
            return;
        }
        let number = self.buckets.number_of(hash);
        // Under the bucket's lock, so not while the object moves.
        let _stripe = self.buckets.lock(number).await;
        for candidate in self.index.candidates(number, hash) {
            self.index.touch(number, candidate.place, true);
        }
    }

    /// Logs `item` in place of an older version. Returns whether it is stored; if not, no version of the key is stored.
    /// `None` if the log cannot take it.
    pub(super) async fn set(&self, item: &ItemRef<'_>, now_s: u32) -> Option<bool> {
        let number = self.buckets.number_of(item.hash);
        loop {
            let stripe = self.buckets.lock(number).await;
            if !self.buckets.is_usable(number) {
                // It would be lost when it moves to its bucket.
                self.counters.lost_to_device_errors_objects.add(1);
                self.buckets.note_item(RemovalReason::Lost, item);
                return Some(false);
            }
            let older = self.find(number, item.hash, item.key, now_s).await;
            let older = older.map(|(place, _)| place);
            let appended = self.append(number, item, older, Cause::New);
            drop(stripe);
            if let Some(AppendedObject { began_page, .. }) = appended {
                self.counters.soc_log_objects.add(1);
                if began_page {
                    self.keep_pace(now_s).await;
                }
                return Some(true);
            }
            if !self.rotate(small_record::record_bytes(item), now_s).await {
                return None;
            }
        }
    }

    /// Makes sure that the active segment has room for a record of this length. `false` if no segment is available: all
    /// are retired.
    async fn rotate(&self, record_bytes: usize, now_s: u32) -> bool {
        let mut turn = self.take_turn().await;
        if self.segments().has_room(record_bytes) {
            return true; // an earlier holder of the turn made room
        }
        self.write_active(&mut turn, now_s).await;
        loop {
            self.reclaim_victim(now_s).await;
            let buffer = || self.pool.take(self.place.segment_bytes as usize);
            let activation = {
                let mut segments = self.segments();
                segments.revive(self.breaker.now_s());
                segments.activate(buffer)
            };
            match activation {
                Activation::Done => return true,
                Activation::Reclaim => {}
                Activation::NoSegment => return false,
            }
        }
    }

    /// Waits for the turn, and for a write that an earlier holder may have left in flight.
    async fn take_turn(&self) -> async_lock::MutexGuard<'_, SegmentWrite> {
        let mut turn = self.turn.lock().await;
        self.finish_segment(&mut turn).await;
        turn
    }

    /// Writes the active segment as it is. If that fails, its objects go to their buckets from memory, and its place is
    /// retired.
    async fn write_active(&self, turn: &mut SegmentWrite, now_s: u32) {
        assert!(
            turn.is_none(),
            "the holder of the turn has waited for the previous holder's write"
        );
        let closed = self.segments().close().map(|(segment, bytes)| {
            let mut buffer = self.pool.take(bytes.len());
            buffer.as_mut_slice().copy_from_slice(bytes);
            (segment, buffer)
        });
        if let Some((segment, buffer)) = closed {
            self.counters.soc_log_written_bytes.add(buffer.len() as u64);
            let offset = self.offset_of(segment * self.place.pages_per_segment());
            let handle = self.place.handle;
            *turn = Some(self.device.submit(Io::write(offset, buffer, handle)));
            self.finish_segment(turn).await;
        }
        let failed = self.segments().failed_pages();
        self.empty_pages(failed, now_s).await;
        let retired = self.segments().retire_failed(self.breaker.now_s());
        if let Some(segment) = retired {
            self.counters.soc_log_retired_segments.add(1);
            // Its objects have been saved or counted page by page.
            events::retired(events::Place::Segment, segment.into(), 0);
        }
    }

    /// Waits for the end of the write in flight.
    async fn finish_segment(&self, turn: &mut SegmentWrite) {
        let Some(future) = turn else { return };
        let ended = future.await;
        *turn = None;
        if let Err(failure) = &ended {
            self.counters.device_failed(&failure.error);
        }
        self.breaker.ended(ended.is_ok());
        self.segments().written(ended.is_ok());
    }

    /// Starts reading a page of the log.
    fn start_reading(&self, page: u32) -> Reading {
        let segments = self.segments();
        let identity = segments.identity(page);
        match segments.whereabouts(page) {
            Whereabouts::Nowhere => return Reading::Nowhere,
            Whereabouts::Memory(bytes) => {
                let mut buffer = self.pool.take(PAGE_BYTES);
                buffer.as_mut_slice().copy_from_slice(bytes);
                return Reading::Here(Page { buffer, identity });
            }
            Whereabouts::Flash => {}
        }
        drop(segments);
        self.counters.soc_log_reads.add(1);
        let read = Io::Read { offset: self.offset_of(page), buffer: self.pool.take(PAGE_BYTES) };
        Reading::Flash(self.device.submit(read), identity)
    }

    /// Waits for a page. `None` if it cannot be read, or is not the page that was requested.
    async fn finish_reading(&self, page: u32, reading: Reading) -> Option<Page> {
        let (future, identity) = match reading {
            Reading::Here(page) => return Some(page),
            Reading::Nowhere => return None,
            Reading::Flash(future, identity) => (future, identity),
        };
        let buffer = match future.await {
            Ok(buffer) => buffer,
            Err(failure) => {
                self.counters.device_failed(&failure.error);
                return None;
            }
        };
        let valid = page::is_valid(buffer.as_slice(), identity);
        if !valid && self.is_current(page, identity) {
            self.counters.soc_log_bad_pages.add(1);
        }
        valid.then_some(Page { buffer, identity })
    }

    async fn read_page(&self, page: u32) -> Option<Page> {
        let reading = self.start_reading(page);
        self.finish_reading(page, reading).await
    }
}
