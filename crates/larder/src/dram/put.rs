//! How an item comes to the tier: over the record of its key, at the end of a segment, or past the budget.

use super::index::{Crowded, Entry, Location};
use super::lane::{Lane, group_of, may_lie_with};
use super::pins::Share;
use super::queues::{Queue, first_queue};
use super::readers::{Locked, LockedAlone};
use super::record::{encode, record_at, record_bytes};
use super::segment::{Frozen, Writer};
use super::{Admit, DramTier, Full, Taken, lock};
use crate::key::KeyHash;
use crate::sync::{begin_to_write, wait_a_little};
use crate::value::{ItemRef, Value};

/// When all segments are pinned most pins will be gone in a moment: so often somebody looks again before it
/// gives up.
const LOOKS_AT_PINS: u32 = 40;

/// An object above the budget.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnItsWay {
    hash: KeyHash,
    location: Location,
}

impl DramTier {
    /// Puts `item` in the place of an older version, if `admit` agrees.
    pub(crate) fn insert(
        &self,
        item: &ItemRef<'_>,
        now_s: u32,
        admit: Admit<'_>,
    ) -> Result<(), Full> {
        self.prefetch_places(item.hash);
        if self.overwrite(item, now_s, admit).is_none() {
            self.put(item, now_s, admit, |_, _| ())?;
        }
        Ok(())
    }

    /// Puts `item` in the place of an older version if `admit` agrees, and returns what was put.
    pub(crate) fn insert_if(
        &self,
        item: &ItemRef<'_>,
        now_s: u32,
        admit: Admit<'_>,
    ) -> Result<Option<Value>, Full> {
        self.prefetch_places(item.hash);
        self.put(item, now_s, admit, |segment, at| Value::new(segment.pin(at)))
    }

    /// Asks memory for where a hash is, and whether it was. Several trips at once: the locks of those who
    /// put would wait for one before they begin the next.
    fn prefetch_places(&self, hash: KeyHash) {
        self.ghost.prefetch(hash, self.index.readers().enter().held());
        self.index.prefetch(hash);
    }

    /// Memory that [`DramTier::insert_to_depart`] takes for `item`.
    pub(crate) fn departing_bytes(&self, item: &ItemRef<'_>) -> usize {
        record_bytes(item).max(self.pool.segment_bytes())
    }

    /// Puts `item` where there is no budget for it, but bytes that were `taken` from what may depart above
    /// it, and sends it on to flash at once. Says where it is.
    pub(crate) fn insert_to_depart(
        &self,
        item: &ItemRef<'_>,
        taken: Taken<'_>,
        admit: Admit<'_>,
    ) -> Result<OnItsWay, Full> {
        let bytes = record_bytes(item);
        let mut writer = self.pool.open_anyway(bytes, self.other_bytes());
        let version = self.versions.next(item.hash);
        writer.append(bytes, |room| encode(room, item, version)).ok_or(Full)?;
        let slot = self.number(writer.segment())?;
        // Before it is found: what departs is not overwritten.
        let segment = Frozen::new(writer.segment().clone());
        let location = Location { slot, at: 0 };
        let pointed = self.point(item, location, admit);
        self.departures.add_above(segment, slot, taken);
        pointed.map(|_| OnItsWay { hash: item.hash, location })
    }

    /// Whether flash has not dealt with it yet.
    pub(crate) fn is_on_its_way(&self, it: OnItsWay) -> bool {
        self.is_at(it.hash, it.location)
    }

    fn put<T>(
        &self,
        item: &ItemRef<'_>,
        now_s: u32,
        admit: Admit<'_>,
        done: impl FnOnce(&Share, usize) -> T,
    ) -> Result<Option<T>, Full> {
        let place = (self.queue_of_newcomer(item.hash), group_of(item.expiry_s, now_s));
        let bytes = record_bytes(item);
        let other_bytes = self.other_bytes();
        let (mut opened, mut has_made_room, mut looks) = (false, false, 0);
        loop {
            let mut lane = self.lane(item.hash);
            if let Some((segment, location)) =
                lane.append(place, item, self.versions.next(item.hash))
            {
                let put = done(segment, location.at);
                let pointed = self.point(item, location, admit);
                if pointed != Ok(true) {
                    segment.note_dead(bytes);
                }
                let admitted = pointed?;
                drop(lane);
                self.keep_up(bytes, opened, other_bytes, now_s);
                return Ok(admitted.then_some(put));
            }
            let room = self.pool.open(bytes, self.other_bytes()).or_else(|| {
                // Above the budget, but less than before.
                let may = has_made_room && self.is_shrinking();
                may.then(|| self.pool.open_anyway(bytes, self.other_bytes()))
            });
            if let Some(writer) = room {
                self.reopen(&mut lane, place, writer)?;
                opened = true;
                continue;
            }
            drop(lane);
            if self.make_room(now_s) {
                has_made_room = true;
                continue;
            }
            if looks == LOOKS_AT_PINS || self.departures.make_room() {
                return Err(Full);
            }
            // There may be more than before once readers and those who pin have left.
            self.reclaim();
            wait_a_little(looks);
            looks += 1;
        }
    }

    /// After so many bytes have come, to memory of which `other_bytes` were no segments: brings index and
    /// budget up to date, and above flash makes some room ahead.
    fn keep_up(&self, bytes: usize, opened: bool, other_bytes: usize, now_s: u32) {
        if self.index.is_to_be_divided() {
            self.divide_a_shard();
        }
        if self.is_shrinking() {
            self.let_go(self.leaving_for(bytes), now_s);
            return;
        }
        if opened && self.above_flash {
            self.keep_headroom(now_s);
        }
        if self.other_bytes() > other_bytes {
            self.reclaim(); // the smaller tables
            self.keep_budget(now_s);
        }
    }

    /// Writes `item` over the record of an older version, if that is as long, nobody looks at its segment,
    /// and `admit` agrees, which it says. The memory is as near as it was to who read it last, and no
    /// dead bytes are left behind.
    fn overwrite(&self, item: &ItemRef<'_>, now_s: u32, admit: Admit<'_>) -> Option<bool> {
        let bytes = record_bytes(item);
        let fits = |at: Location, locked: &Locked| {
            let segment = self.slots.get(at, locked).segment();
            segment.record(at.at, locked).bytes() == bytes
                && may_lie_with(item.expiry_s, segment.last_expiry_s(), now_s)
        };
        let change = |at: Location, locked: &LockedAlone| {
            let segment = self.slots.get(at, locked).segment();
            segment.overwrite(at.at, bytes, locked, |room| {
                let admitted = admit(Some(&record_at(room, 0)));
                if admitted {
                    begin_to_write(room);
                    encode(room, item, self.versions.next(item.hash));
                    segment.note_expiry(item.expiry_s);
                }
                admitted
            })
        };
        self.index.overwrite(item.hash, item.key, item.clean, self, fits, change)
    }

    /// In which queue an item begins whose key is not here.
    fn queue_of_newcomer(&self, hash: KeyHash) -> Queue {
        let inside = self.index.readers().enter();
        first_queue(self.policy, self.ghost.recalls(hash, self.window(), inside.held()))
    }

    /// Points the index to the record of `item`, if `admit` agrees.
    fn point(
        &self,
        item: &ItemRef<'_>,
        location: Location,
        admit: Admit<'_>,
    ) -> Result<bool, Full> {
        let admit = |old: Option<Entry>, locked: &Locked| {
            let Some(old) = old.map(Entry::location) else { return admit(None) };
            let admitted = admit(Some(&self.record(old, locked)));
            if admitted {
                self.note_dead(old, locked);
            }
            admitted
        };
        let pointed = self.index.set(item.hash, item.key, location, item.clean, self, admit);
        pointed.map_err(|Crowded| Full)
    }

    pub(super) fn reopen(
        &self,
        lane: &mut Lane,
        place: (Queue, usize),
        writer: Writer,
    ) -> Result<(), Full> {
        let slot = self.number(writer.segment())?;
        if let Some(sealed) = lane.reopen(place, writer, slot) {
            lock(&self.queues).push(sealed);
        }
        Ok(())
    }

    /// Gives a segment of the pool a slot, or back to the pool if there is none left.
    fn number(&self, segment: &Share) -> Result<u32, Full> {
        self.slots.fill(segment.clone()).ok_or_else(|| {
            self.pool.give_back(segment.clone(), self.other_bytes());
            Full
        })
    }
}
