//! Moves objects from the log to the buckets. Objects that justify a write of their bucket move, requested objects stay
//! in the log, others move if their bucket has room, and the rest is dropped.

use std::ops::Range;

use super::page;
use super::segments::Cause;
use super::{Log, Page};
use crate::base::item::{ItemRef, is_expired};
use crate::base::removal::RemovalReason;
use crate::base::side_by_side::{run_all, together};
use crate::engine::small_record::SmallRecord;
use crate::engine::soc::bucket::{Bucket, BucketEntry, ENTRIES_BYTES_MAX};
use crate::engine::soc::buckets::Stripe;
use crate::engine::soc::log_index::{LogEntry, LogPosition};
use crate::engine::soc::prediction::Prediction;

/// Pages that are reclaimed at the same time.
const PAGES_AT_ONCE: u32 = 8;
/// Pages that are read at the same time for one bucket.
const READS_AT_ONCE: usize = 8;

/// Objects that move to a bucket.
struct Move {
    bucket: Bucket,
    /// Bytes of the entries that were added.
    bytes: usize,
    /// Their places in the log, which forgets them once the bucket is written.
    places: Vec<LogPosition>,
    objects: u64,
    expired: u64,
}

/// Objects of one bucket that leave a page.
struct SortedObjects {
    /// They move to the bucket.
    moving: Vec<LogEntry>,
    /// Too few to justify a write of the bucket, and without hits.
    few: Vec<LogEntry>,
}

impl Log {
    /// Reclaims the victim as far as the active segment has been filled.
    pub(super) async fn keep_pace(&self, now_s: u32) {
        let _turn = self.take_turn().await;
        loop {
            let pages = self.segments().due_pages(PAGES_AT_ONCE);
            if pages.is_empty() {
                return;
            }
            self.reclaim_pages(pages, now_s).await;
        }
    }

    /// Reclaims what is left of the victim. The caller holds the turn.
    pub(super) async fn reclaim_victim(&self, now_s: u32) {
        loop {
            let pages = self.segments().victim_pages(PAGES_AT_ONCE);
            if pages.is_empty() {
                return;
            }
            self.reclaim_pages(pages, now_s).await;
        }
    }

    /// Reclaims pages of the victim concurrently. The caller holds the turn.
    async fn reclaim_pages(&self, pages: Range<u32>, now_s: u32) {
        debug_assert!(!pages.is_empty() && pages.len() <= PAGES_AT_ONCE as usize, "{pages:?}");
        self.empty_pages(pages.clone(), now_s).await;
        pages.for_each(|_| self.page_reclaimed());
    }

    fn page_reclaimed(&self) {
        if self.segments().page_reclaimed() {
            self.counters.soc_log_reclaimed_segments.add(1);
        }
    }

    /// Removes all objects in these pages from the index, many buckets at a time. The caller holds the turn. If it is
    /// dropped, it can be started again.
    pub(super) async fn empty_pages(&self, pages: Range<u32>, now_s: u32) {
        let read = together(pages.clone().map(|page| self.read_page(page))).await;
        let read: Vec<(u32, Option<Page>)> = pages.zip(read).collect();
        let mut leaving = Vec::new();
        for (page, read) in &read {
            let Some(read) = read else {
                self.give_up_page(*page).await;
                continue;
            };
            for (number, record) in (0..=u8::MAX).zip(page::records(read.buffer.as_slice())) {
                let bucket = self.buckets.number_of_key(record.key);
                if self.index.holds(bucket, LogPosition { page: *page, number }) {
                    leaving.push((bucket, *page, read));
                }
            }
        }
        // In the order of the buckets on flash. Objects of one bucket in one page leave it together.
        leaving.sort_by_key(|(bucket, page, _)| (*bucket, *page));
        leaving.dedup_by_key(|(bucket, page, _)| (*bucket, *page));
        let each = leaving
            .into_iter()
            .map(|(bucket, page, read)| self.reclaim_bucket(bucket, (page, read), now_s));
        run_all(each.collect()).await;
    }

    /// Gives up the objects of a page that cannot be read.
    async fn give_up_page(&self, page: u32) {
        for (number, place) in self.index.of_page(page) {
            let _stripe = self.buckets.lock(number).await;
            if self.index.holds(number, place) {
                self.give_up(number, place);
            }
        }
    }

    /// Takes the objects of one bucket out of a page.
    async fn reclaim_bucket(&self, number: u64, page: (u32, &Page), now_s: u32) {
        let mut stripe = self.buckets.lock(number).await;
        let all = self.index.of_bucket(number);
        let (leaving, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|found| found.place.page == page.0);
        if !self.buckets.is_usable(number) {
            leaving.iter().for_each(|found| self.lose(number, *found, page.1));
            return;
        }
        let SortedObjects { mut moving, few } =
            self.sort_out(number, leaving, (&others, page.1), now_s);
        if moving.is_empty() && few.is_empty() {
            return;
        }
        let bucket = self.buckets.load_or_empty(number).await;
        if moving.is_empty() {
            moving = self.fit_or_drop(&bucket, few, page.1, now_s);
        } else {
            moving.extend(few); // the bucket is written anyway, for other objects
        }
        if !moving.is_empty() {
            let moving = (&moving[..], page.1);
            self.move_together(&mut stripe, (number, bucket), moving, &others, now_s).await;
        }
    }

    /// Loses an object that cannot move to its bucket, together with the older version that it may hide there.
    fn lose(&self, number: u64, found: LogEntry, page: &Page) {
        let Some(record) = page.record(found.place.number) else {
            return self.give_up(number, found.place);
        };
        if self.buckets.may_hold(self.buckets.hash_of(record.key)) {
            self.buckets.empty(number);
        }
        if self.index.remove(number, found.place) {
            self.counters.lost_to_device_errors_objects.add(1);
            self.note_record(RemovalReason::Lost, &record);
        }
    }

    /// For objects that are too few for a write of their bucket: returns those that the bucket has room for. Without
    /// the log they would be in the bucket, and nothing would have been evicted for them. The others would evict as
    /// many objects as they are, so they are dropped.
    fn fit_or_drop(
        &self,
        bucket: &Bucket,
        mut few: Vec<LogEntry>,
        page: &Page,
        now_s: u32,
    ) -> Vec<LogEntry> {
        let mut room = bucket.room(now_s);
        few.retain(|found| {
            let Some(record) = page.record(found.place.number) else { return false };
            let needed = self.entry_of(&record).stored_bytes();
            if needed <= room {
                room -= needed;
                return true;
            }
            self.counters.soc_log_dropped_objects.add(1);
            self.note_record(RemovalReason::LogDropped, &record);
            self.index.remove(self.buckets.number_of_key(record.key), found.place);
            false
        });
        few
    }

    /// Sorts the objects that leave a page: forgets dead ones, and readmits requested ones if there is no write of the
    /// bucket for them.
    fn sort_out(
        &self,
        number: u64,
        leaving: Vec<LogEntry>,
        (others, page): (&[LogEntry], &Page),
        now_s: u32,
    ) -> SortedObjects {
        let is_dead = |found: &LogEntry| {
            let record = page.record(found.place.number);
            found.dead || record.is_none_or(|record| is_expired(record.expiry_s, now_s))
        };
        let alive = leaving.iter().filter(|found| !is_dead(found)).count();
        let alive = alive + others.iter().filter(|found| !found.dead).count();
        let is_worth_a_write = alive >= usize::from(self.place.threshold);
        let mut sorted = SortedObjects { moving: Vec::new(), few: Vec::new() };
        for found in leaving {
            let Some(record) = page.record(found.place.number) else {
                self.give_up(number, found.place);
                continue;
            };
            let hash = self.buckets.hash_of(record.key);
            let hides_older = self.buckets.may_hold(hash);
            let dead = is_dead(&found);
            if dead && !hides_older {
                if !found.dead {
                    self.counters.expired.add(1);
                    self.note_record(RemovalReason::Expired, &record);
                }
                self.index.remove(number, found.place);
            } else if is_worth_a_write {
                sorted.moving.push(found);
            } else if !found.hit && !hides_older {
                sorted.few.push(found);
            } else if !self.readmit(number, (found.place, dead), &record) {
                sorted.moving.push(found);
            }
        }
        sorted
    }

    /// Logs the object at `place` again. Of a dead object only the key matters. Returns whether there was room.
    fn readmit(
        &self,
        number: u64,
        (place, dead): (LogPosition, bool),
        record: &SmallRecord<'_>,
    ) -> bool {
        let hash = self.buckets.hash_of(record.key);
        let value = if dead { &[] } else { record.value };
        let SmallRecord { flags, tiers, .. } = *record;
        let item =
            ItemRef { flags, tiers, ..ItemRef::new(hash, record.key, value, record.expiry_s) };
        let appended = self.append(number, &item, Some(place), Cause::Readmitted);
        if let Some(appended) = appended {
            if dead {
                self.index.touch(number, appended.place, true);
            }
            self.counters.soc_log_readmitted_objects.add(1);
        }
        appended.is_some()
    }

    /// Writes a bucket with the objects that leave the page and with as many of the log's other objects as fit. The
    /// index forgets them once they are in the bucket.
    async fn move_together(
        &self,
        stripe: &mut Stripe,
        (number, mut bucket): (u64, Bucket),
        (leaving, page): (&[LogEntry], &Page),
        others: &[LogEntry],
        now_s: u32,
    ) {
        let change = self.buckets.invalidate_dead(number, &mut bucket);
        let mut gathered = Move { bucket, bytes: 0, places: Vec::new(), objects: 0, expired: 0 };
        for found in leaving {
            if let Some(record) = page.record(found.place.number) {
                self.put_in(&mut gathered, *found, &record, now_s);
            }
        }
        self.gather(number, &mut gathered, others, now_s).await;
        let Move { bucket, places, objects, expired, .. } = gathered;
        debug_assert!(objects <= places.len() as u64, "what moves leaves its place");
        self.counters.soc_log_moved_objects.add(objects);
        self.counters.expired.add(expired);
        // If this call is dropped here, the next holder of the bucket's lock finishes it.
        let moving = self.index.moving(number, places);
        self.buckets.store_moved(stripe, number, bucket, change, Some(moving)).await;
    }

    /// Adds objects of other pages, oldest first, until they fill the bucket; stops before they would evict one
    /// another.
    async fn gather(&self, number: u64, gathered: &mut Move, others: &[LogEntry], now_s: u32) {
        for group in others.chunks(READS_AT_ONCE) {
            let readings: Vec<_> =
                group.iter().map(|found| self.start_reading(found.place.page)).collect();
            for (found, reading) in group.iter().zip(readings) {
                // An unreadable object stays: it may be readable when its page is reclaimed.
                let Some(page) = self.finish_reading(found.place.page, reading).await else {
                    continue;
                };
                let Some(record) = page.record(found.place.number) else { continue };
                if self.buckets.number_of_key(record.key) != number {
                    continue;
                }
                if gathered.bytes + self.entry_of(&record).stored_bytes() > ENTRIES_BYTES_MAX {
                    return;
                }
                self.put_in(gathered, *found, &record, now_s);
            }
        }
    }

    /// Puts an object into the bucket in place of an older version. For an expired object, only removes the older
    /// version.
    fn put_in(&self, gathered: &mut Move, found: LogEntry, record: &SmallRecord<'_>, now_s: u32) {
        gathered.bucket.remove(self.buckets.hash_of(record.key), record.key);
        gathered.places.push(found.place);
        if found.dead || is_expired(record.expiry_s, now_s) {
            if !found.dead {
                gathered.expired += 1;
                self.note_record(RemovalReason::Expired, record);
            }
            return;
        }
        let entry = self.entry_of(record);
        gathered.bytes += entry.stored_bytes();
        gathered.objects += 1;
        self.buckets.push(&mut gathered.bucket, entry, now_s);
    }

    fn entry_of<'a>(&self, record: &SmallRecord<'a>) -> BucketEntry<'a> {
        let SmallRecord { key, value, expiry_s, flags, tiers, .. } = *record;
        let (tag, prediction) = (self.buckets.hash_of(key).tag(), Prediction::LONG);
        BucketEntry { tag, key, value, expiry_s, flags, tiers, prediction }
    }
}
