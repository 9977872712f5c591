//! Inserts an item into the tier: over the record of its key, at the end of a segment, or above the budget.
//!
//! All of it happens under the lock of the key's index shard, which is taken once. If there is no room, the lock is
//! released, room is made, and everything starts again.

use super::index::{Location, PutOutcome, Putting, ShardFull};
use super::lane::{Lane, group_of, may_lie_with};
use super::policy::first_queue;
use super::queues::Queue;
use super::readers::{LockProof, LockProofAlone};
use super::record::{encode, record_bytes, record_in};
use super::segment::{Frozen, Pin, Writer};
use super::value::PinnedValue;
use super::{Admit, DramFull, DramTier, TakenBytes, lock};
use crate::base::item::{DramFields, ItemRef};
use crate::base::key::KeyHash;
use crate::base::sync::{begin_to_write, wait_a_little};
use crate::base::time::Seconds;

/// If all segments are pinned, most pins will be gone soon: this is the number of further checks before the insertion
/// fails.
const LOOKS_AT_PINS: u32 = 40;

/// An object above the budget, on its way to flash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnItsWay {
    hash: KeyHash,
    location: Location,
}

/// An item that goes to a segment: over the record of an older version, if that has the same length and its segment
/// is not pinned, or to the end of an open segment. Overwriting is better: the memory is still in the caches, and no
/// dead bytes remain.
struct ToSegment<'a> {
    tier: &'a DramTier,
    item: &'a ItemRef<'a>,
    /// The item with its version, which is drawn under the lock and dropped with it: so the later of two changes of a
    /// key has the larger version.
    drawn: Option<ItemRef<'a>>,
    /// Bytes of its record.
    bytes: usize,
    /// Asked only where the second matters: most items never expire and find room.
    now: &'a dyn Seconds,
    admit: Admit<'a>,
    /// Receives a pin of the inserted record. Such a record never overwrites another one, which others could pin.
    pinned: Option<&'a mut Option<Pin>>,
    /// The queue and group of the item, once known.
    place: Option<(Queue, usize)>,
    /// Whether the ghost has recalled the item, which it does until the item has its place.
    recalled: bool,
    appended: bool,
    /// Whether others may have to leave for it.
    makes_room: bool,
}

impl<'a> ToSegment<'a> {
    fn new(
        tier: &'a DramTier,
        item: &'a ItemRef<'a>,
        now: &'a dyn Seconds,
        admit: Admit<'a>,
        pinned: Option<&'a mut Option<Pin>>,
    ) -> Self {
        let (drawn, place, recalled, appended) = (None, None, false, false);
        let makes_room = true;
        Self {
            tier,
            item,
            drawn,
            bytes: 0,
            now,
            admit,
            pinned,
            place,
            recalled,
            appended,
            makes_room,
        }
    }

    fn drawn(&mut self) -> ItemRef<'a> {
        let Self { tier, item, .. } = *self;
        let drawn = *self.drawn.get_or_insert_with(|| tier.with_version(item));
        self.bytes = record_bytes(&drawn);
        debug_assert!(self.bytes <= bytes_at_most(item), "no version is longer than the longest");
        drawn
    }

    fn place(&mut self, locked: &LockProof) -> (Queue, usize) {
        if let Some(place) = self.place {
            return place;
        }
        let (tier, hash) = (self.tier, self.item.hash);
        self.recalled = tier.ghost.recalls(hash, tier.window(), locked);
        let queue = first_queue(tier.policy, self.recalled);
        *self.place.insert((queue, group_of(self.item.expiry_s, self.second_for_expiry())))
    }

    /// The current second, if the place of the item depends on it.
    fn second_for_expiry(&self) -> u32 {
        if self.item.expiry_s == 0 { 0 } else { self.now.now_s() }
    }
}

impl Putting for ToSegment<'_> {
    fn fits(&mut self, old: Location, locked: &LockProof) -> bool {
        if self.pinned.is_some() {
            return false;
        }
        let bytes = record_bytes(&self.drawn());
        let segment = self.tier.segments.get(old, locked).segment();
        segment.record_bytes(old.at, locked) == bytes
            && may_lie_with(self.item.expiry_s, segment.last_expiry_s(), self.second_for_expiry())
    }

    fn overwrite(&mut self, old: Location, locked: &LockProofAlone) -> Option<PutOutcome> {
        let drawn = self.drawn();
        let segment = self.tier.segments.get(old, locked).segment();
        segment.overwrite(old.at, self.bytes, locked, |room| {
            if !(self.admit)(Some(&record_in(room))) {
                return PutOutcome::Refused;
            }
            begin_to_write(room);
            encode(room, &drawn);
            segment.note_expiry(drawn.expiry_s);
            PutOutcome::Done
        })
    }

    fn append(
        &mut self,
        old: Option<Location>,
        locked: &LockProof,
    ) -> Result<Location, PutOutcome> {
        let (place, drawn) = (self.place(locked), self.drawn());
        let tier = self.tier;
        let mut lane = tier.lane(drawn.hash);
        if !lane.has_room(place, self.bytes) {
            self.drawn = None;
            return Err(PutOutcome::NoRoom);
        }
        if !tier.admits(self.admit, old, locked) {
            return Err(PutOutcome::Refused);
        }
        let (segment, location) = lane.append(place, &drawn).expect("it has room");
        debug_assert_eq!(location.slot, segment.slot(), "readers find the segment by its slot");
        debug_assert!(!self.appended, "an item is appended once");
        if let Some(pinned) = &mut self.pinned {
            **pinned = Some(segment.pin(location.at));
        }
        self.appended = true;
        if self.recalled {
            tier.ghost.forget(self.item.hash, locked);
        }
        Ok(location)
    }

    fn take_back(&mut self, appended: Location, locked: &LockProof) {
        debug_assert!(self.appended, "what is taken back was appended");
        self.tier.segments.get(appended, locked).segment().note_dead(self.bytes);
        if let Some(pinned) = &mut self.pinned {
            **pinned = None;
        }
    }
}

/// An item that goes to flash at once: its record has a segment of its own. A record that is not used is demoted all
/// the same, and then found to be void.
struct ToDemote<'a> {
    tier: &'a DramTier,
    item: &'a ItemRef<'a>,
    writer: Writer,
    slot: u32,
    admit: Admit<'a>,
}

impl Putting for ToDemote<'_> {
    fn append(
        &mut self,
        old: Option<Location>,
        locked: &LockProof,
    ) -> Result<Location, PutOutcome> {
        if !self.tier.admits(self.admit, old, locked) {
            return Err(PutOutcome::Refused);
        }
        let drawn = self.tier.with_version(self.item);
        let encode = |room: &mut [u8]| encode(room, &drawn);
        let at = self.writer.append(record_bytes(&drawn), encode);
        Ok(Location { slot: self.slot, at: at.expect("it was made for the longest version") })
    }
}

impl DramTier {
    /// Stores `item` and replaces an older version, if `admit` agrees.
    pub(crate) fn insert(
        &self,
        item: &ItemRef<'_>,
        now: &dyn Seconds,
        admit: Admit<'_>,
    ) -> Result<(), DramFull> {
        self.put(ToSegment::new(self, item, now, admit, None))?;
        Ok(())
    }

    /// Stores `item` and replaces an older version, if `admit` agrees and there is room: nothing leaves for it, so that
    /// a caller that has to come again has changed nothing.
    pub(crate) fn insert_into_room(
        &self,
        item: &ItemRef<'_>,
        now: &dyn Seconds,
        admit: Admit<'_>,
    ) -> Result<(), DramFull> {
        let putting = ToSegment::new(self, item, now, admit, None);
        self.put(ToSegment { makes_room: false, ..putting })
    }

    /// Stores `item` and replaces an older version, if `admit` agrees. Returns the stored value.
    pub(crate) fn insert_if(
        &self,
        item: &ItemRef<'_>,
        now: &dyn Seconds,
        admit: Admit<'_>,
    ) -> Result<Option<PinnedValue>, DramFull> {
        let mut pinned = None;
        self.put(ToSegment::new(self, item, now, admit, Some(&mut pinned)))?;
        Ok(pinned.map(|pin| PinnedValue::new(pin, item.dram.marks)))
    }

    /// Memory that [`DramTier::insert_to_demote`] takes for `item`.
    pub(crate) fn demoting_bytes(&self, item: &ItemRef<'_>) -> usize {
        bytes_at_most(item).max(self.segments.pool().segment_bytes())
    }

    /// Stores `item` above the budget, with bytes `taken` from the allowance for that, and demotes it at once.
    /// Returns its place.
    pub(crate) fn insert_to_demote(
        &self,
        item: &ItemRef<'_>,
        taken: TakenBytes<'_>,
        admit: Admit<'_>,
    ) -> Result<OnItsWay, DramFull> {
        let writer = self.segments.pool().open_anyway(bytes_at_most(item), self.other_bytes());
        let slot = self.segments.number(&writer, self.other_bytes()).ok_or(DramFull)?;
        // Freeze it before it can be found: a demoting record is not overwritten.
        let segment = Frozen::new(writer.segment().clone());
        let mut putting = ToDemote { tier: self, item, writer, slot, admit };
        let put = self.index.put(item.hash, item.key, item.clean, self, &mut putting);
        drop(putting);
        self.demotions.add_above(segment, slot, taken);
        debug_assert_ne!(put, Ok(PutOutcome::NoRoom), "its segment was made for it");
        let location = Location { slot, at: 0 };
        put.map(|_| OnItsWay { hash: item.hash, location }).map_err(|ShardFull| DramFull)
    }

    /// Whether flash has not dealt with it yet. After the segment is reused, another record of this hash at the same
    /// place counts only if it is above the budget too.
    pub(crate) fn is_on_its_way(&self, it: OnItsWay) -> bool {
        let found = self.index.peek(it.hash, |entry, locked| {
            let at = entry.location();
            let is_above = || self.segments.get(at, locked).segment().is_above();
            (at == it.location).then(is_above)
        });
        found.unwrap_or(false)
    }

    /// Prefetches the index and ghost entries of a hash together, because under the lock one access would wait for
    /// the other.
    fn prefetch_places(&self, hash: KeyHash) {
        self.ghost.prefetch(hash, self.index.readers().enter().held());
        self.index.prefetch(hash);
    }

    fn put(&self, mut putting: ToSegment<'_>) -> Result<(), DramFull> {
        let ToSegment { item, now, .. } = putting;
        self.prefetch_places(item.hash);
        let other_bytes = self.other_bytes();
        let (mut opened, mut has_made_room, mut looks) = (false, false, 0);
        loop {
            let put = self.index.put(item.hash, item.key, item.clean, self, &mut putting);
            if put.map_err(|ShardFull| DramFull)? != PutOutcome::NoRoom {
                if putting.appended {
                    self.keep_up(putting.bytes, opened, other_bytes, now);
                }
                return Ok(());
            }
            let place = putting.place.expect("there was no room at its place");
            let bytes = putting.bytes;
            let mut lane = self.lane(item.hash);
            if lane.has_room(place, bytes) {
                continue; // another caller has opened a segment
            }
            let room = self.segments.pool().open(bytes, self.other_bytes()).or_else(|| {
                // This exceeds the budget, but by less than before.
                let may = has_made_room && self.is_shrinking();
                may.then(|| self.segments.pool().open_anyway(bytes, self.other_bytes()))
            });
            if let Some(writer) = room {
                self.reopen(&mut lane, place, writer)?;
                opened = true;
                continue;
            }
            drop(lane);
            if !putting.makes_room {
                return Err(DramFull);
            }
            if self.make_room(now.now_s()) {
                has_made_room = true;
                continue;
            }
            if looks == LOOKS_AT_PINS || self.demotions.will_make_room() {
                return Err(DramFull);
            }
            // More segments may be free once readers and pins have left.
            self.reclaim();
            wait_a_little(looks);
            looks += 1;
        }
    }

    /// Follow-up work after `bytes` new bytes: brings index and budget up to date, and makes some room ahead if there
    /// is flash. `other_bytes` is the memory besides segments before the insertion.
    fn keep_up(&self, bytes: usize, opened: bool, other_bytes: usize, now: &dyn Seconds) {
        if self.index.is_to_be_divided() {
            self.divide_a_shard();
        }
        if self.is_shrinking() {
            self.shrink_by(self.leaving_for(bytes), now.now_s());
            return;
        }
        if opened && self.above_flash {
            self.keep_headroom(now.now_s());
        }
        if self.other_bytes() > other_bytes {
            self.reclaim(); // the smaller tables
            self.keep_budget(now.now_s());
        }
    }

    /// `item` with its given version, or with a new one.
    fn with_version<'a>(&self, item: &ItemRef<'a>) -> ItemRef<'a> {
        let mut version = item.dram.version;
        if version == 0 {
            version = self.versions.next(item.key);
        } else {
            self.versions.note_given(item.key, version);
        }
        debug_assert!(version != 0, "0 is the version of what no tier keeps");
        ItemRef { dram: DramFields { version, ..item.dram }, ..*item }
    }

    /// Asks `admit` whether the record there, if there is one, may be replaced. If so, the old record becomes dead.
    fn admits(&self, admit: Admit<'_>, old: Option<Location>, locked: &LockProof) -> bool {
        let Some(old) = old else { return admit(None) };
        let admitted = admit(Some(&self.record(old, locked)));
        if admitted {
            self.note_dead(old, locked);
        }
        admitted
    }

    pub(super) fn reopen(
        &self,
        lane: &mut Lane,
        place: (Queue, usize),
        writer: Writer,
    ) -> Result<(), DramFull> {
        let slot = self.segments.number(&writer, self.other_bytes()).ok_or(DramFull)?;
        if let Some(sealed) = lane.reopen(place, writer, slot) {
            lock(&self.queues).push(sealed);
        }
        Ok(())
    }
}

/// Maximum bytes of its record, for any version.
fn bytes_at_most(item: &ItemRef<'_>) -> usize {
    let longest = DramFields { version: u64::MAX, ..item.dram };
    record_bytes(&ItemRef { dram: longest, ..*item })
}
