//! Takes over what an earlier opening has left of the large-object engine: regions with a footer, and after a crash the
//! regions that were being filled. The regions are read one by one while the engine already serves. After a crash and
//! after a clean shutdown, the tombstone log says which records are dead. Without such a log, the snapshot of a clean
//! shutdown lists the current records.
//!
//! A region is valid if its footer is whole and the tombstone log does not say that a later filling has begun. For a
//! filling that has begun but has no footer yet, the records are read one after another as far as they are whole, and a
//! footer is written for them. Such a region is not filled further, so no place is ever written twice in one filling.
//!
//! 1. A region is Unknown until it has been read: none of its objects are in the index, and it is not reclaimed. A get
//!    misses on them, which a cache may do.
//! 2. As long as there are Unknown regions, each change of a key adds a tombstone by hash, whether the index knows the
//!    key or not. It voids what fillings of earlier openings hold of the key. The task that puts records into the index
//!    respects this tombstone before the change looks at the index: either the change finds the record there, or the
//!    record does not get there.
//! 3. Over all regions, known or not, at most one version of a key has no tombstone and has not expired. When a version
//!    was replaced, either the index knew it (then its place has a tombstone), or its region was Unknown (then its hash
//!    has one: the version lay in a filling of an earlier opening, while its replacement went to a later filling). So
//!    the order in which regions are read does not matter.
//! 4. A record that is not put into the index, or that loses its slot there, gets a tombstone by place. When all
//!    regions are known and these tombstones are durable, the tombstones by hash are no longer necessary.
//! 5. Without tombstones, a crash leaves nothing, so memory is sufficient: `forgotten` has the hashes that were changed
//!    in this opening, and these void what earlier fillings hold of them. In this mode the engine learns of a change
//!    when the item leaves DRAM; until then, DRAM hides flash's version.
//!
//! A task that runs this may be dropped at any await; what was read and not yet indexed stays here.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::Poll;

use larder_device::IoFuture;
use larder_log::{Footer, FooterEntry, LogState, Record, RegionId, RegionIdentity, RegionState};

use super::death_source::{DeathSource, ListedRecords};
use super::index::Was;
use super::{LocLog, LocPlace};
use crate::base::error::Error;
use crate::base::key::{KeyHash, KeyHasher};
use crate::engine::tombstones::{Inheritance, LostFillings, Pressure};

/// Regions whose footers are read at a time.
const READS_AT_ONCE: usize = 32;
/// Records that are sorted and put into the index together.
const INDEXED_AT_ONCE: usize = 1 << 19;
/// Records that one of several threads sorts and puts into the index while others read footers.
const BATCH_RECORDS: usize = 1 << 16;
/// Records out of [`INDEXED_AT_ONCE`] to index before yielding to other tasks on the same thread.
const INDEXED_A_TURN: usize = 1 << 15;
/// Records to index during one hold of the index lock.
const LOCKED_AT_ONCE: usize = 1 << 12;
/// Records out of these whose index memory is touched in advance.
const WARMED_AT_ONCE: usize = 32;
const _: () = assert!(WARMED_AT_ONCE <= LOCKED_AT_ONCE && LOCKED_AT_ONCE <= INDEXED_A_TURN);
const _: () = assert!(INDEXED_A_TURN <= BATCH_RECORDS && BATCH_RECORDS <= INDEXED_AT_ONCE);
/// Void regions that are recorded together.
const VOID_AT_ONCE: usize = 32;
/// Regions that must be known before one of them is reclaimed.
const KNOWN_MIN: u32 = 8;

/// Content of some regions, on its way to the index.
struct Batch {
    fillings: Vec<FoundFilling>,
    records: Vec<FoundRecord>,
}

/// A valid record.
struct FoundRecord {
    entry: FooterEntry,
    region: RegionId,
}

/// A valid filling.
struct FoundFilling {
    identity: RegionIdentity,
    latest_expiry_s: u32,
    /// Tombstones that the log has for its records.
    dead: u32,
}

/// The regions that an earlier opening has left, on their way to the index. Every method takes the log whose regions
/// they are.
pub(super) struct LeftRegions {
    /// Number of regions of the log.
    regions: u32,
    /// Valid numbers of fillings of earlier openings.
    fillings: Range<u64>,
    hasher: KeyHasher,
    /// What was read, until all of it is in the index. If it is taken together with the log's writer, the writer comes
    /// first. It is never taken while the log's state is locked.
    rebuild: async_lock::Mutex<Option<Rebuild>>,
    /// Whether everything that an earlier opening has left is in the index.
    indexed: AtomicBool,
    /// Number of threads that are putting a batch of records, taken out of `rebuild`, into the index.
    batches: AtomicU32,
    /// Number of regions in state Unknown.
    unindexed: AtomicU32,
    /// Number of objects found so far in regions that were Unknown.
    found: AtomicU64,
    /// Without tombstones: hashes whose records in Unknown regions are no longer valid.
    forgotten: LostFillings,
}

/// State of what was read of the regions that an earlier opening has left, and is not yet in the index.
struct Rebuild {
    death_source: DeathSource,
    /// A filling number that is never used for a filling: everything older in void regions is dead.
    void_before: u64,
    /// The first region whose footer read has not been started.
    next: u32,
    /// `None`: the read failed, or the task that waited for it was dropped after it had ended.
    reads: VecDeque<(RegionId, Option<IoFuture>)>,
    fillings: Vec<FoundFilling>,
    /// Of this number of `fillings`, records may be in the index already.
    recognized: usize,
    records: Vec<FoundRecord>,
    void: Vec<RegionId>,
    /// Regions read, and records found in them.
    seen: (u32, u64),
}

impl LeftRegions {
    /// Nothing is left, for regions in this place.
    pub(super) fn none_in(place: &LocPlace) -> Self {
        Self {
            regions: place.log.regions,
            fillings: place.oldest_sequence..place.log.first_sequence,
            hasher: place.hasher,
            rebuild: async_lock::Mutex::new(None),
            indexed: AtomicBool::new(true),
            batches: AtomicU32::new(0),
            unindexed: AtomicU32::new(0),
            found: AtomicU64::new(0),
            forgotten: LostFillings::default(),
        }
    }

    /// Forgets everything that is left: a new epoch has voided it. The caller makes sure that no other request uses the
    /// engine and that nothing is in flight.
    pub(super) fn clear(&self) {
        // The lock is free. A task that held it and was dropped has left what it had read.
        if let Some(mut rebuild) = self.rebuild.try_lock() {
            *rebuild = None;
        }
        self.forgotten.end();
        self.unindexed.store(0, Ordering::Release);
        self.indexed.store(true, Ordering::Release);
    }

    /// Without tombstones: voids what Unknown regions hold of this hash. The caller holds the lock of the log's state.
    pub(super) fn void(&self, log: &LocLog, hash: KeyHash) {
        if !self.is_indexed() && log.host().tombstones().is_none() {
            self.forgotten.add(hash.0, self.fillings.end);
        }
    }

    /// Marks all regions Unknown: an earlier opening has left them.
    pub(super) fn inherit(&mut self, log: &LocLog, inheritance: Arc<Inheritance>) {
        log.lock().regions.forget_all();
        self.begin_rebuild(log, DeathSource::Log(inheritance), self.regions);
    }

    /// Marks these regions Unknown: a clean shutdown has left them.
    pub(super) fn begin_rebuild_of(
        &mut self,
        log: &LocLog,
        listed: HashMap<RegionId, ListedRecords>,
    ) {
        debug_assert!(
            log.host().tombstones().is_none(),
            "where there are, the log says what is dead"
        );
        listed.keys().for_each(|&region| log.lock().regions.forget(region));
        self.forgotten.begin(HashMap::new());
        let regions = u32::try_from(listed.len()).expect("no more than there are regions");
        self.begin_rebuild(log, DeathSource::Snapshot(listed), regions);
    }

    fn begin_rebuild(&mut self, log: &LocLog, death_source: DeathSource, regions: u32) {
        debug_assert!(self.rebuild.get_mut().is_none(), "an opening inherits once");
        debug_assert!(regions <= self.regions, "{regions} of {}", self.regions);
        let void_before = log.lock().regions.number_filling();
        self.unindexed.store(regions, Ordering::Release);
        self.indexed.store(false, Ordering::Release);
        *self.rebuild.get_mut() = Some(Rebuild {
            death_source,
            void_before,
            next: 0,
            reads: VecDeque::new(),
            fillings: Vec::new(),
            recognized: 0,
            records: Vec::new(),
            void: Vec::new(),
            seen: (0, 0),
        });
    }

    /// Whether the index knows everything in regions.
    pub(super) fn is_indexed(&self) -> bool {
        self.indexed.load(Ordering::Acquire)
    }

    /// Number of regions that the index knows nothing of.
    pub(super) fn unindexed_regions(&self) -> u32 {
        self.unindexed.load(Ordering::Acquire)
    }

    /// Number of objects of an earlier opening that were found so far.
    pub(super) fn found_objects(&self) -> u64 {
        self.found.load(Ordering::Acquire)
    }

    /// Objects that a snapshot lists in regions that are still Unknown.
    pub(super) async fn unindexed_objects(&self, log: &LocLog) -> u64 {
        let rebuild = self.rebuild.lock().await;
        let Some(Rebuild { death_source: DeathSource::Snapshot(regions), .. }) = &*rebuild else {
            return 0;
        };
        let state = log.lock();
        let unknown = regions
            .iter()
            .filter(|(region, _)| state.regions.get(**region).state() == RegionState::Unknown);
        unknown.map(|(_, listed)| listed.current()).sum()
    }

    /// Counts this number of found objects.
    pub(super) fn note_found(&self, objects: u64) {
        self.found.fetch_add(objects, Ordering::AcqRel);
    }

    /// Reads all regions. Returns the number that were read; some may be left if the device fails.
    pub(super) async fn index_all(&self, log: &LocLog) -> u64 {
        self.index_until(log, &|| false).await
    }

    /// The same, until `stop` returns true. Several threads that call it share the work: while one thread sorts what it
    /// has read and puts it into the index, the next one reads on.
    pub(super) async fn index_until(&self, log: &LocLog, stop: &(dyn Fn() -> bool + Sync)) -> u64 {
        let mut regions = 0;
        while !self.is_indexed() && !stop() {
            let mut rebuild = self.rebuild.lock().await;
            match self.look_at_one(log, &mut rebuild, READS_AT_ONCE).await {
                Ok(looked_at) => regions += u64::from(looked_at),
                Err(_) => break,
            }
            let batch = rebuild.as_mut().and_then(Rebuild::take_batch);
            if let Some(batch) = batch {
                // No await until the batch is in the index, so a dropped task never drops a batch.
                self.batches.fetch_add(1, Ordering::AcqRel);
                drop(rebuild);
                self.index_batch(log, batch);
                self.batches.fetch_sub(1, Ordering::AcqRel);
                yield_now().await;
            }
        }
        regions
    }

    /// Reads one region if no other task is reading. Under pressure from tombstones by hash, waits for its turn; under
    /// high pressure, reads all regions.
    pub(super) async fn index_a_little(&self, log: &LocLog) {
        if self.is_indexed() {
            return;
        }
        let mut rebuild = match log.host().tombstones().map(|tombstones| tombstones.pressure()) {
            Some(Pressure::High) => {
                self.index_all(log).await;
                return;
            }
            Some(Pressure::Some) => self.rebuild.lock().await,
            Some(Pressure::None) | None => match self.rebuild.try_lock() {
                Some(rebuild) => rebuild,
                None => return,
            },
        };
        // One step at a time: a region may hold many objects. An error here is not fatal: it occurs again for a request
        // that needs the result.
        if !rebuild.as_ref().is_some_and(Rebuild::is_behind) {
            let _ = self.look_at_one(log, &mut rebuild, 1).await;
        }
        self.index_found(log, &mut rebuild, LOCKED_AT_ONCE);
    }

    /// Advances by one step, in turn with other tasks. Returns whether there is more to find.
    pub(super) async fn index_in_turn(&self, log: &LocLog) -> bool {
        if self.is_indexed() {
            return false;
        }
        let mut rebuild = self.rebuild.lock().await;
        let is_behind = rebuild.as_ref().is_some_and(Rebuild::is_behind);
        if !is_behind && self.look_at_one(log, &mut rebuild, READS_AT_ONCE).await.is_err() {
            return false;
        }
        self.index_found(log, &mut rebuild, LOCKED_AT_ONCE);
        drop(rebuild);
        yield_now().await;
        !self.is_indexed()
    }

    /// Makes sure that there is a region to fill, if any region can be had.
    pub(super) async fn find_room(&self, log: &LocLog) {
        while !self.is_indexed() {
            let mut rebuild = self.rebuild.lock().await;
            self.index_found(log, &mut rebuild, usize::MAX);
            let known = self.regions - self.unindexed_regions();
            let found = log.has_next();
            if found && known >= KNOWN_MIN {
                break;
            }
            let ended = match &mut *rebuild {
                Some(rebuild) if !found && !rebuild.void.is_empty() => {
                    self.write_void(log, rebuild).await
                }
                _ => self.look_at_one(log, &mut rebuild, KNOWN_MIN as usize).await.map(drop),
            };
            if ended.is_err() {
                break;
            }
        }
    }

    /// Advances by one region, with the footers of up to `ahead` regions in flight. Returns whether there was one.
    async fn look_at_one(
        &self,
        log: &LocLog,
        slot: &mut Option<Rebuild>,
        ahead: usize,
    ) -> Result<bool, Error> {
        let Some(rebuild) = slot else { return Ok(false) };
        while rebuild.reads.len() < ahead && rebuild.next < self.regions {
            let region = RegionId::new(rebuild.next);
            if rebuild.death_source.knows_of(region) {
                rebuild.reads.push_back((region, Some(log.read_tail(region))));
            }
            rebuild.next += 1;
        }
        let looked_at = self.look_at_first(log, rebuild).await;
        let is_last = rebuild.reads.is_empty() && rebuild.next == self.regions;
        if is_last || rebuild.records.len() >= INDEXED_AT_ONCE {
            while slot.as_ref().is_some_and(Rebuild::is_behind) {
                self.index_found(log, slot, INDEXED_A_TURN);
                yield_now().await;
            }
        }
        while is_last && self.batches.load(Ordering::Acquire) > 0 {
            yield_now().await;
        }
        let Some(rebuild) = slot else { return Ok(looked_at) };
        if is_last || rebuild.void.len() >= VOID_AT_ONCE {
            self.write_void(log, rebuild).await?;
        }
        if is_last {
            debug_assert_eq!(self.unindexed_regions(), 0, "nothing Unknown is left (rule 4)");
            if let Some(tombstones) = log.host().tombstones() {
                tombstones.commit(tombstones.all_so_far()).await?;
                tombstones.all_found();
            }
            *slot = None;
            self.forgotten.end();
            self.indexed.store(true, Ordering::Release);
        }
        Ok(looked_at)
    }

    /// Handles the region whose footer read is the oldest.
    async fn look_at_first(&self, log: &LocLog, rebuild: &mut Rebuild) -> bool {
        let Some((region, read)) = rebuild.reads.front_mut() else { return false };
        let region = *region;
        let tail = match read {
            Some(read) => read.await.ok(),
            None => None,
        };
        *read = None;
        // Read again if that failed: the device may have been overloaded.
        let footer = match tail {
            Some(tail) => log.footer_in(region, &tail).await,
            None => log.read_any_footer(region).await,
        };
        // Regions that cannot be read contain nothing valid: older versions have tombstones as long as their regions
        // are full.
        let footer = footer.ok().flatten();
        let footer = footer.filter(|footer| rebuild.death_source.believes(region, footer));
        let first = rebuild.death_source.first_filling(region);
        let counts = first.max(self.fillings.start)..self.fillings.end;
        let filling = match footer.filter(|footer| counts.contains(&footer.sequence)) {
            Some(filling) => Some(filling),
            None if counts.contains(&first) && rebuild.death_source.is_log() => {
                let hasher = self.hasher;
                let unsealed = RegionIdentity { region, sequence: first };
                let hash_of = |record: &Record<'_>| hasher.hash(record.key()).0;
                log.seal_unsealed(unsealed, hash_of, |_| None).await.ok().flatten()
            }
            None => None,
        };
        rebuild.reads.pop_front();
        match filling {
            Some(filling) => rebuild.add(region, &filling),
            None => rebuild.void.push(region),
        }
        rebuild.seen.0 += 1;
        if rebuild.seen.0 == self.regions.min(32) {
            // Extrapolate: the other regions are probably similar.
            let expected = rebuild.seen.1 * u64::from(self.unindexed_regions());
            let index = &mut log.lock().entries;
            if !index.knows_what_to_expect() {
                index.expect(expected / u64::from(rebuild.seen.0));
            }
        }
        true
    }

    /// Records that regions without valid content stay empty after a crash. Then they are free.
    async fn write_void(&self, log: &LocLog, rebuild: &mut Rebuild) -> Result<(), Error> {
        let sequence = rebuild.void_before;
        log.void_before(&rebuild.void, sequence).await?;
        let mut state = log.lock();
        for &region in &rebuild.void {
            state.regions.empty(region, sequence, RegionState::Free);
        }
        let void = u32::try_from(rebuild.void.len()).unwrap_or(0);
        let before = self.unindexed.fetch_sub(void, Ordering::AcqRel);
        assert!(void <= before, "{void} of {before} regions were Unknown");
        rebuild.void.clear();
        Ok(())
    }

    /// Puts at most `most` records into the index, in the order of the index, so that its memory is accessed
    /// sequentially. When no record is left, their regions become Sealed.
    fn index_found(&self, log: &LocLog, slot: &mut Option<Rebuild>, most: usize) {
        let Some(rebuild) = slot else { return };
        if rebuild.recognized < rebuild.fillings.len() {
            self.recognize(log, &rebuild.fillings[rebuild.recognized..]);
            rebuild.recognized = rebuild.fillings.len();
            rebuild.records.sort_unstable_by_key(|found| found.entry.hash);
        }
        let rest = rebuild.records.len().saturating_sub(most);
        for records in rebuild.records[rest..].chunks(LOCKED_AT_ONCE) {
            self.index_records(log, records);
        }
        rebuild.records.truncate(rest);
        if rest == 0 {
            self.restore(log, &rebuild.fillings);
            rebuild.fillings.clear();
            rebuild.recognized = 0;
        }
    }

    /// Puts a whole batch into the index.
    fn index_batch(&self, log: &LocLog, mut batch: Batch) {
        batch.records.sort_unstable_by_key(|found| found.entry.hash);
        self.recognize(log, &batch.fillings);
        batch.records.chunks(LOCKED_AT_ONCE).for_each(|records| self.index_records(log, records));
        self.restore(log, &batch.fillings);
    }

    /// Makes these fillings readable; called before their records enter the index.
    fn recognize(&self, log: &LocLog, fillings: &[FoundFilling]) {
        let mut state = log.lock();
        for FoundFilling { identity, dead, .. } in fillings {
            state.regions.recognize(*identity);
            if let Some(tombstones) = log.host().tombstones() {
                tombstones.inherit_filling(identity.region.number(), identity.sequence, *dead);
            }
        }
    }

    /// Marks these fillings Sealed: all of their records are in the index.
    fn restore(&self, log: &LocLog, fillings: &[FoundFilling]) {
        let mut state = log.lock();
        for FoundFilling { identity, latest_expiry_s, .. } in fillings {
            state.regions.restore(*identity, *latest_expiry_s);
        }
        let regions = u32::try_from(fillings.len()).unwrap_or(0);
        let before = self.unindexed.fetch_sub(regions, Ordering::AcqRel);
        assert!(regions <= before, "{regions} of {before} regions were Unknown");
    }

    fn index_records(&self, log: &LocLog, records: &[FoundRecord]) {
        debug_assert!(
            records.is_sorted_by_key(|found| found.entry.hash),
            "in the order of the index: one part of its memory after another"
        );
        let mut dead = Vec::new();
        let mut found = 0;
        {
            let LogState { entries: index, regions, .. } = &mut *log.lock();
            let firsts = match log.host().tombstones() {
                Some(tombstones) => tombstones.firsts(),
                None => self.forgotten.firsts(),
            };
            let any_lost = !firsts.is_empty();
            let age = |region: RegionId, offset: u32| (regions.get(region).sequence(), offset);
            for (at, record) in records.iter().enumerate() {
                if at % WARMED_AT_ONCE == 0 {
                    let soon = records[at..].iter().take(WARMED_AT_ONCE);
                    index.warm(soon.map(|found| KeyHash(found.entry.hash)));
                }
                let FoundRecord { entry: FooterEntry { hash, offset, length, .. }, region } =
                    *record;
                if any_lost && regions.get(region).sequence() < firsts.of(hash) {
                    dead.push((region, offset));
                    continue;
                }
                // An object that was forgotten without a tombstone had expired, so the newest record is the valid one.
                // If the other record belongs to another key that the index cannot tell from this one, that key is
                // lost; this is accepted.
                let is_newer = |there: RegionId, at: u32| age(there, at) > age(region, offset);
                match index.set_unless(KeyHash(hash), (region, offset, length), is_newer) {
                    Was::Absent => found += 1,
                    Was::Older(there, at) => dead.push((there, at)),
                    Was::Newer => dead.push((region, offset)),
                }
            }
        }
        self.note_found(found);
        let Some(tombstones) = log.host().tombstones() else { return };
        for (region, offset) in dead {
            let RegionIdentity { region, sequence } = log.lock().filling(region);
            let _before_the_end = tombstones.invalidate_record(region.number(), offset, sequence);
        }
    }
}

impl Rebuild {
    /// Whether something was read that is not in the index yet.
    fn is_behind(&self) -> bool {
        !self.fillings.is_empty()
    }

    /// What was read, if it is enough for a batch and indexing of it has not begun.
    fn take_batch(&mut self) -> Option<Batch> {
        (self.records.len() >= BATCH_RECORDS && self.recognized == 0).then(|| Batch {
            fillings: std::mem::take(&mut self.fillings),
            records: std::mem::take(&mut self.records),
        })
    }

    /// Adds the records of a filling, except the dead ones.
    fn add(&mut self, region: RegionId, footer: &Footer) {
        let Footer { sequence, latest_expiry_s, entries: listed, .. } = footer;
        let identity = RegionIdentity { region, sequence: *sequence };
        let sequence = *sequence;
        debug_assert!(sequence < self.void_before, "filling {sequence} is of an earlier opening");
        let before = self.records.len();
        let dead = match &self.death_source {
            DeathSource::Log(log) => {
                let dead = log.dead_in(region.number(), sequence);
                let alive = |entry: &&FooterEntry| {
                    dead.is_empty() || dead.binary_search(&entry.offset).is_err()
                };
                let found = listed.iter().filter(alive);
                self.records.extend(found.map(|&entry| FoundRecord { entry, region }));
                u32::try_from(dead.len()).unwrap_or(u32::MAX)
            }
            DeathSource::Snapshot(regions) => {
                let current = |at: usize| regions.get(&region).is_some_and(|it| it.is_current(at));
                let found = (0..).zip(listed).filter(|(at, _)| current(*at));
                self.records.extend(found.map(|(_, &entry)| FoundRecord { entry, region }));
                0
            }
        };
        self.seen.1 += (self.records.len() - before) as u64;
        self.fillings.push(FoundFilling { identity, latest_expiry_s: *latest_expiry_s, dead });
    }
}

/// Yields to other tasks on the thread.
async fn yield_now() {
    let mut gave_way = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut gave_way, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
