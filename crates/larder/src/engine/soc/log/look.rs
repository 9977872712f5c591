//! Looks a key up in the log.

use super::{Log, LogLookup, Page};
use crate::base::item::{FlashItem, ItemRef, Kind, is_expired};
use crate::base::key::KeyHash;
use crate::base::removal::RemovalReason;
use crate::base::tier::Tier;
use crate::engine::small_record::SmallRecord;
use crate::engine::soc::log_index::LogPosition;

/// Attempts of a look-up while the log is changing.
const LOOKS: usize = 3;

/// Result of trying one candidate.
enum CandidateOutcome {
    Is(LogLookup),
    /// It belongs to another key.
    Other,
    /// It was moved while it was read.
    Moved,
}

impl Log {
    /// Looks `key` up in the log. Costs no read if the index does not know it or its page is still in memory; otherwise
    /// one read for each object with the same tag, of which there is rarely more than one.
    pub(in crate::engine::soc) async fn look(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_s: u32,
    ) -> LogLookup {
        let number = self.buckets.number_of(hash);
        'look: for _ in 0..LOOKS {
            for candidate in self.index.candidates(number, hash) {
                if candidate.dead {
                    return LogLookup::Gone;
                }
                match self.try_candidate(hash, key, candidate.place, now_s).await {
                    CandidateOutcome::Is(looked) => return looked,
                    CandidateOutcome::Other => {}
                    CandidateOutcome::Moved => continue 'look,
                }
            }
            return LogLookup::Absent;
        }
        LogLookup::Moving
    }

    async fn try_candidate(
        &self,
        hash: KeyHash,
        key: &[u8],
        place: LogPosition,
        now_s: u32,
    ) -> CandidateOutcome {
        let number = self.buckets.number_of(hash);
        let page = self.read_page(place.page).await;
        let record = page.as_ref().and_then(|page| page.record(place.number));
        let Some(record) = record.filter(|record| record.key == key) else {
            // The result for this place counts only if the place belonged to this object during the whole read.
            let stayed = page.as_ref().is_none_or(|p| self.is_current(place.page, p.identity));
            if !stayed || !self.index.holds(number, place) {
                return CandidateOutcome::Moved;
            }
            if record.is_none() {
                return CandidateOutcome::Is(LogLookup::Gone);
            }
            self.counters.soc_log_false_positives.add(1);
            return CandidateOutcome::Other;
        };
        if is_expired(record.expiry_s, now_s) {
            self.counters.expired.add(1);
            self.note_record(RemovalReason::Expired, &record);
            if self.buckets.may_hold(hash) {
                self.index.touch(number, place, true);
            } else {
                self.index.remove(number, place);
            }
            return CandidateOutcome::Is(LogLookup::Gone);
        }
        self.index.touch(number, place, false);
        self.counters.soc_log_hits.add(1);
        let (at, key_bytes, value_bytes) = (record.at, record.key.len(), record.value.len());
        let SmallRecord { expiry_s, flags, tiers, .. } = record;
        let Some(Page { buffer, .. }) = page else { return CandidateOutcome::Other };
        let kind = Kind::Whole;
        let fetched =
            FlashItem { buffer, hash, at, key_bytes, value_bytes, expiry_s, flags, kind, tiers };
        CandidateOutcome::Is(LogLookup::Found(fetched))
    }

    /// Reports the object of this record as removed.
    pub(super) fn note_record(&self, reason: RemovalReason, record: &SmallRecord<'_>) {
        let bytes = record.key.len() + record.value.len();
        self.counters.removals.key(reason, Tier::SmallObjects, record.key, bytes);
    }

    /// Whether the log has objects of this bucket.
    pub(in crate::engine::soc) fn has_objects_of(&self, number: u64) -> bool {
        !self.index.of_bucket(number).is_empty()
    }

    /// Applies `judge` to the objects that the log has of a bucket. Also returns the keys of all of these, alive or
    /// not, or `None` if one of them cannot be read. The caller holds the bucket's lock. Counts no hit.
    pub(in crate::engine::soc) async fn peek<T>(
        &self,
        number: u64,
        judge: &(dyn Fn(&ItemRef<'_>) -> Option<T> + Sync),
    ) -> (Vec<T>, Option<Vec<Box<[u8]>>>) {
        let (mut judged, mut keys) = (Vec::new(), Some(Vec::new()));
        for found in self.index.of_bucket(number) {
            let page = self.read_page(found.place.page).await;
            let Some(record) = page.as_ref().and_then(|page| page.record(found.place.number))
            else {
                keys = None;
                continue;
            };
            if let Some(keys) = &mut keys {
                keys.push(Box::from(record.key));
            }
            let hash = self.buckets.hash_of(record.key);
            let item = ItemRef::new(hash, record.key, record.value, record.expiry_s);
            let SmallRecord { flags, tiers, .. } = record;
            let item = ItemRef { flags, tiers, clean: true, ..item };
            // Check again after `judge`: an object invalidated in between is marked dead here.
            let alive = judge(&item).filter(|_| {
                let now = self.index.of_bucket(number);
                now.iter().any(|other| other.place == found.place && !other.dead)
            });
            judged.extend(alive);
        }
        (judged, keys)
    }

    /// The place of `key`'s object in the log, and whether it is alive. The caller holds the bucket's lock for writing.
    ///
    /// An object that cannot be read may belong to the key: it is forgotten, and the bucket is emptied because it may
    /// hold an older version.
    pub(in crate::engine::soc) async fn find(
        &self,
        number: u64,
        hash: KeyHash,
        key: &[u8],
        now_s: u32,
    ) -> Option<(LogPosition, bool)> {
        for candidate in self.index.candidates(number, hash) {
            let page = self.read_page(candidate.place.page).await;
            match page.as_ref().and_then(|page| page.record(candidate.place.number)) {
                Some(record) if record.key == key => {
                    let alive = !candidate.dead && !is_expired(record.expiry_s, now_s);
                    return Some((candidate.place, alive));
                }
                Some(_) => self.counters.soc_log_false_positives.add(1),
                None => self.give_up(number, candidate.place),
            }
        }
        None
    }

    /// Removes the object that [`Log::find`] found at this place.
    pub(in crate::engine::soc) fn remove(&self, number: u64, place: LogPosition) {
        self.index.remove(number, place);
    }

    /// Removes all objects of a bucket from the log. The caller holds the bucket's lock for writing, and empties the
    /// bucket.
    pub(in crate::engine::soc) fn remove_all_of(&self, number: u64) {
        for found in self.index.of_bucket(number) {
            self.index.remove(number, found.place);
        }
    }

    /// Forgets an object that cannot be read, together with the content of its bucket, which may hold an older version.
    /// The caller holds the bucket's lock for writing.
    pub(super) fn give_up(&self, number: u64, place: LogPosition) {
        if !self.buckets.is_empty(number) {
            self.buckets.empty(number);
        }
        if self.index.remove(number, place) {
            self.counters.lost_to_device_errors_objects.add(1);
            self.counters.removals.unknown(RemovalReason::Lost, Tier::SmallObjects, 1);
        }
    }
}
