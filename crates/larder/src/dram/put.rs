//! How an item comes to the tier: over the record of its key, at the end of a segment, or past the budget.
//!
//! All of it happens with the lock of the key's index shard, which is taken once; where there is no room it is
//! given back, room is made, and all begins anew.

use super::index::{Location, Put, Putting, ShardFull};
use super::lane::{Lane, group_of, may_lie_with};
use super::pins::{Pin, Share};
use super::policy::first_queue;
use super::queues::Queue;
use super::readers::{Locked, LockedAlone};
use super::record::{encode, record_bytes, record_in};
use super::segment::{Frozen, Writer};
use super::{Admit, DramTier, Full, Taken, lock};
use crate::item::{DramFields, ItemRef};
use crate::key::KeyHash;
use crate::sync::{begin_to_write, wait_a_little};
use crate::value::Pinned;

/// When all segments are pinned most pins will be gone in a moment: so often somebody looks again before it
/// gives up.
const LOOKS_AT_PINS: u32 = 40;

/// An object above the budget.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnItsWay {
    hash: KeyHash,
    location: Location,
}

/// An item that goes to a segment: over the record of an older version, if that is as long and nobody looks
/// at its segment, or to the end of an open one. The one is better: the memory is as near as it was to who
/// read it last, and no dead bytes are left behind.
struct ToSegment<'a> {
    tier: &'a DramTier,
    item: &'a ItemRef<'a>,
    /// With its version, which is drawn with the lock held and forgotten with it: so of two changes of a key
    /// the later one has the larger version.
    drawn: Option<ItemRef<'a>>,
    /// Of its record.
    bytes: usize,
    now_s: u32,
    admit: Admit<'a>,
    /// For a pin of what was put: it is not put over another record then, which others could pin.
    pinned: Option<&'a mut Option<Pin>>,
    /// The queue and the group that it goes to, once that is known: a ghost recalls once.
    place: Option<(Queue, usize)>,
    appended: bool,
}

impl<'a> ToSegment<'a> {
    fn new(
        tier: &'a DramTier,
        item: &'a ItemRef<'a>,
        now_s: u32,
        admit: Admit<'a>,
        pinned: Option<&'a mut Option<Pin>>,
    ) -> Self {
        let drawn = None;
        Self { tier, item, drawn, bytes: 0, now_s, admit, pinned, place: None, appended: false }
    }

    fn drawn(&mut self) -> ItemRef<'a> {
        let Self { tier, item, .. } = *self;
        let drawn = *self.drawn.get_or_insert_with(|| tier.with_version(item));
        self.bytes = record_bytes(&drawn);
        debug_assert!(self.bytes <= bytes_at_most(item), "no version is longer than the longest");
        drawn
    }

    fn place(&mut self) -> (Queue, usize) {
        let Self { tier, item, now_s, .. } = *self;
        let find = || (tier.queue_of_newcomer(item.hash), group_of(item.expiry_s, now_s));
        *self.place.get_or_insert_with(find)
    }
}

impl Putting for ToSegment<'_> {
    fn fits(&mut self, old: Location, locked: &Locked) -> bool {
        if self.pinned.is_some() {
            return false;
        }
        let bytes = record_bytes(&self.drawn());
        let segment = self.tier.slots.get(old, locked).segment();
        segment.record_bytes(old.at, locked) == bytes
            && may_lie_with(self.item.expiry_s, segment.last_expiry_s(), self.now_s)
    }

    fn overwrite(&mut self, old: Location, locked: &LockedAlone) -> Option<Put> {
        let drawn = self.drawn();
        let segment = self.tier.slots.get(old, locked).segment();
        segment.overwrite(old.at, self.bytes, locked, |room| {
            if !(self.admit)(Some(&record_in(room))) {
                return Put::Refused;
            }
            begin_to_write(room);
            encode(room, &drawn);
            segment.note_expiry(drawn.expiry_s);
            Put::Done
        })
    }

    fn append(&mut self, old: Option<Location>, locked: &Locked) -> Result<Location, Put> {
        let (place, drawn) = (self.place(), self.drawn());
        let tier = self.tier;
        let mut lane = tier.lane(drawn.hash);
        if !lane.has_room(place, self.bytes) {
            self.drawn = None;
            return Err(Put::NoRoom);
        }
        if !tier.admits(self.admit, old, locked) {
            return Err(Put::Refused);
        }
        let (segment, location) = lane.append(place, &drawn).expect("it has room");
        debug_assert_eq!(location.slot, segment.slot(), "readers find the segment by its slot");
        debug_assert!(!self.appended, "an item is appended once");
        if let Some(pinned) = &mut self.pinned {
            **pinned = Some(segment.pin(location.at));
        }
        self.appended = true;
        Ok(location)
    }

    fn take_back(&mut self, appended: Location, locked: &Locked) {
        debug_assert!(self.appended, "what is taken back was appended");
        self.tier.slots.get(appended, locked).segment().note_dead(self.bytes);
        if let Some(pinned) = &mut self.pinned {
            **pinned = None;
        }
    }
}

/// An item that is on its way to flash: its record has a segment of its own. One that is of no use is demoted,
/// and turns out to be nobody's.
struct ToDemote<'a> {
    tier: &'a DramTier,
    item: &'a ItemRef<'a>,
    writer: Writer,
    slot: u32,
    admit: Admit<'a>,
}

impl Putting for ToDemote<'_> {
    fn append(&mut self, old: Option<Location>, locked: &Locked) -> Result<Location, Put> {
        if !self.tier.admits(self.admit, old, locked) {
            return Err(Put::Refused);
        }
        let drawn = self.tier.with_version(self.item);
        let encode = |room: &mut [u8]| encode(room, &drawn);
        let at = self.writer.append(record_bytes(&drawn), encode);
        Ok(Location { slot: self.slot, at: at.expect("it was made for the longest version") })
    }
}

impl DramTier {
    /// Puts `item` in the place of an older version, if `admit` agrees.
    pub(crate) fn insert(
        &self,
        item: &ItemRef<'_>,
        now_s: u32,
        admit: Admit<'_>,
    ) -> Result<(), Full> {
        self.put(ToSegment::new(self, item, now_s, admit, None))?;
        Ok(())
    }

    /// Puts `item` in the place of an older version if `admit` agrees, and returns what was put.
    pub(crate) fn insert_if(
        &self,
        item: &ItemRef<'_>,
        now_s: u32,
        admit: Admit<'_>,
    ) -> Result<Option<Pinned>, Full> {
        let mut pinned = None;
        self.put(ToSegment::new(self, item, now_s, admit, Some(&mut pinned)))?;
        Ok(pinned.map(|pin| Pinned::new(pin, item.dram.marks)))
    }

    /// Memory that [`DramTier::insert_to_demote`] takes for `item`.
    pub(crate) fn demoting_bytes(&self, item: &ItemRef<'_>) -> usize {
        bytes_at_most(item).max(self.pool.segment_bytes())
    }

    /// Puts `item` where there is no budget for it, but bytes that were `taken` from what may be demoted above
    /// it, and sends it on to flash at once. Says where it is.
    pub(crate) fn insert_to_demote(
        &self,
        item: &ItemRef<'_>,
        taken: Taken<'_>,
        admit: Admit<'_>,
    ) -> Result<OnItsWay, Full> {
        let writer = self.pool.open_anyway(bytes_at_most(item), self.other_bytes());
        let slot = self.number(writer.segment())?;
        // Before it is found: what is demoted is not overwritten.
        let segment = Frozen::new(writer.segment().clone());
        let mut putting = ToDemote { tier: self, item, writer, slot, admit };
        let put = self.index.put(item.hash, item.key, item.clean, self, &mut putting);
        drop(putting);
        self.demotions.add_above(segment, slot, taken);
        debug_assert_ne!(put, Ok(Put::NoRoom), "its segment was made for it");
        let location = Location { slot, at: 0 };
        put.map(|_| OnItsWay { hash: item.hash, location }).map_err(|ShardFull| Full)
    }

    /// Whether flash has not dealt with it yet. Another of this hash that lies there after the
    /// segment was used again is meant only if it is above the budget too.
    pub(crate) fn is_on_its_way(&self, it: OnItsWay) -> bool {
        let found = self.index.peek(it.hash, |entry, locked| {
            let at = entry.location();
            let is_above = || self.slots.get(at, locked).segment().is_above();
            (at == it.location).then(is_above)
        });
        found.unwrap_or(false)
    }

    /// Asks memory for where a hash is, and whether it was. Several trips at once: the lock of whoever puts
    /// would wait for one before it begins the next.
    fn prefetch_places(&self, hash: KeyHash) {
        self.ghost.prefetch(hash, self.index.readers().enter().held());
        self.index.prefetch(hash);
    }

    fn put(&self, mut putting: ToSegment<'_>) -> Result<(), Full> {
        let ToSegment { item, now_s, .. } = putting;
        self.prefetch_places(item.hash);
        let other_bytes = self.other_bytes();
        let (mut opened, mut has_made_room, mut looks) = (false, false, 0);
        loop {
            let put = self.index.put(item.hash, item.key, item.clean, self, &mut putting);
            if put.map_err(|ShardFull| Full)? != Put::NoRoom {
                if putting.appended {
                    self.keep_up(putting.bytes, opened, other_bytes, now_s);
                }
                return Ok(());
            }
            let (place, bytes) = (putting.place(), putting.bytes);
            let mut lane = self.lane(item.hash);
            if lane.has_room(place, bytes) {
                continue; // somebody else has opened a segment
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
            if looks == LOOKS_AT_PINS || self.demotions.will_make_room() {
                return Err(Full);
            }
            // There may be more than before once those who pin have left.
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

    /// In which queue an item begins whose key is not here.
    fn queue_of_newcomer(&self, hash: KeyHash) -> Queue {
        let inside = self.index.readers().enter();
        first_queue(self.policy, self.ghost.recalls(hash, self.window(), inside.held()))
    }

    /// `item` with the version that it was given, or one that is drawn for it.
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

    /// Whether `admit` agrees to what takes the place of the record there, if there is one, which is dead
    /// then.
    fn admits(&self, admit: Admit<'_>, old: Option<Location>, locked: &Locked) -> bool {
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
    ) -> Result<(), Full> {
        let slot = self.number(writer.segment())?;
        if let Some(sealed) = lane.reopen(place, writer, slot) {
            lock(&self.queues).push(sealed);
        }
        Ok(())
    }

    /// Gives a segment of the pool a slot, or back to the pool if there is none left.
    fn number(&self, segment: &Share) -> Result<u32, Full> {
        self.slots.fill(segment).ok_or_else(|| {
            self.pool.give_back(segment.clone(), self.other_bytes());
            Full
        })
    }
}

/// Bytes of its record, whatever version it is given.
fn bytes_at_most(item: &ItemRef<'_>) -> usize {
    let longest = DramFields { version: u64::MAX, ..item.dram };
    record_bytes(&ItemRef { dram: longest, ..*item })
}
