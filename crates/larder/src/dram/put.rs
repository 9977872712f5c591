//! How an item comes to the tier: over the record of its key, at the end of a segment, or past the budget.

use std::cell::Cell;

use super::index::{Crowded, Entry, Location};
use super::lane::{Lane, group_of, may_lie_with};
use super::pins::Share;
use super::queues::{Queue, first_queue};
use super::readers::{Locked, LockedAlone};
use super::record::{encode, record_bytes, record_in};
use super::segment::{Frozen, Writer};
use super::versions::is_outdated;
use super::{Admit, DramTier, Full, lock};
use crate::key::KeyHash;
use crate::sync::{begin_to_write, wait_a_little};
use crate::value::{DramFields, ItemRef, Value};

/// When all segments are pinned most pins will be gone in a moment: so often somebody looks again before it
/// gives up.
const LOOKS_AT_PINS: u32 = 40;

/// How it ended to point the index to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pointed {
    Admitted,
    Refused,
    /// The key has a later version by now than the one that was drawn.
    Outdated,
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
        self.put(item, now_s, admit, |segment, at| Value::new(segment.pin(at), item.dram.marks))
    }

    /// Asks memory for where a hash is, and whether it was. Several trips at once: the locks of those who
    /// put would wait for one before they begin the next.
    fn prefetch_places(&self, hash: KeyHash) {
        self.ghost.prefetch(hash, self.index.readers().enter().held());
        self.index.prefetch(hash);
    }

    /// Puts `item` where there is no budget for it, and sends it on to flash at once.
    pub(crate) fn insert_to_depart(
        &self,
        item: &ItemRef<'_>,
        admit: Admit<'_>,
    ) -> Result<(), Full> {
        loop {
            let drawn = self.with_version(item);
            let bytes = record_bytes(&drawn);
            let mut writer = self.pool.open_anyway(bytes, self.other_bytes());
            writer.append(bytes, |room| encode(room, &drawn)).ok_or(Full)?;
            let slot = self.number(writer.segment())?;
            // Before it is found: what departs is not overwritten.
            let segment = Frozen::new(writer.segment().clone());
            let location = Location { slot, at: 0 };
            let pointed = self.point(&drawn, location, item.dram.version == 0, admit);
            self.departures.add(segment, slot);
            if pointed != Ok(Pointed::Outdated) {
                return pointed.map(|_| ());
            }
        }
    }

    fn put<T>(
        &self,
        item: &ItemRef<'_>,
        now_s: u32,
        admit: Admit<'_>,
        done: impl Fn(&Share, usize) -> T,
    ) -> Result<Option<T>, Full> {
        let place = (self.queue_of_newcomer(item.hash), group_of(item.expiry_s, now_s));
        let other_bytes = self.other_bytes();
        let (mut opened, mut has_made_room, mut looks) = (false, false, 0);
        loop {
            let mut lane = self.lane(item.hash);
            let drawn = self.with_version(item);
            let bytes = record_bytes(&drawn);
            if let Some((segment, location)) = lane.append(place, &drawn) {
                let put = done(segment, location.at);
                let pointed = self.point(&drawn, location, item.dram.version == 0, admit);
                if pointed != Ok(Pointed::Admitted) {
                    segment.note_dead(bytes);
                }
                if pointed? == Pointed::Outdated {
                    continue;
                }
                drop(lane);
                self.keep_up(bytes, opened, other_bytes, now_s);
                return Ok((pointed == Ok(Pointed::Admitted)).then_some(put));
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
            if looks == LOOKS_AT_PINS || self.departures.wait() {
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
        // Drawn when the key is found and locked: of two, the later change has the larger version.
        let drawn = Cell::new(*item);
        let fits = |at: Location, locked: &Locked| {
            drawn.set(self.with_version(item));
            let segment = self.slots.get(at, locked).segment();
            segment.record_bytes(at.at, locked) == record_bytes(&drawn.get())
                && may_lie_with(item.expiry_s, segment.last_expiry_s(), now_s)
        };
        let change = |at: Location, locked: &LockedAlone| {
            let segment = self.slots.get(at, locked).segment();
            let item = drawn.get();
            segment.overwrite(at.at, record_bytes(&item), locked, |room| {
                let admitted = admit(Some(&record_in(room)));
                if admitted {
                    begin_to_write(room);
                    encode(room, &item);
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

    /// `item` with the version that it was given, or one that is drawn for it.
    fn with_version<'a>(&self, item: &ItemRef<'a>) -> ItemRef<'a> {
        let mut version = item.dram.version;
        if version == 0 {
            version = self.versions.next(item.key);
        } else {
            self.versions.note_given(item.key, version);
        }
        ItemRef { dram: DramFields { version, ..item.dram }, ..*item }
    }

    /// Points the index to the record of `item`, if `admit` agrees, and if its version was drawn, the key has
    /// no later one.
    fn point(
        &self,
        item: &ItemRef<'_>,
        location: Location,
        was_drawn: bool,
        admit: Admit<'_>,
    ) -> Result<Pointed, Full> {
        let outdated = Cell::new(false);
        let admit = |old: Option<Entry>, locked: &Locked| {
            let Some(old) = old.map(Entry::location) else { return admit(None) };
            let record = self.record(old, locked);
            // Somebody overwrote the record since.
            outdated.set(was_drawn && is_outdated(item.dram.version, record.version));
            let admitted = !outdated.get() && admit(Some(&record));
            if admitted {
                self.note_dead(old, locked);
            }
            admitted
        };
        let pointed = self.index.set(item.hash, item.key, location, item.clean, self, admit);
        Ok(match pointed.map_err(|Crowded| Full)? {
            true => Pointed::Admitted,
            false if outdated.get() => Pointed::Outdated,
            false => Pointed::Refused,
        })
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
