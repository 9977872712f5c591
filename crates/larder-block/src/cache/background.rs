//! What the cache does by itself, in the background: it reads ahead, destages and loads metadata. The times depend only
//! on the time that the driver of the cache passes in.
//!
//! *Always:* a piece that is read ahead holds its range lock exclusively from before the read of the core until the
//! piece is cached. Writes of these sectors wait, so the cached data equals the data of the core. Reads of them wait
//! too, so nothing is read twice; if the piece was not cached, they read the core themselves. The lock is taken only
//! where no request holds or wants one: read-ahead never reads what another request reads, and never waits. Clients do
//! not see how it ends.
//!
//! A whole core is destaged on request, a few chunks at a time. IO classes that are full of dirty data are destaged
//! for as well: their requests bypass the cache until there is room.
//!
//! A request loads the parts of the metadata that it needs when it arrives
//! ([`Layout::load_part`](crate::layout::Layout::load_part)). [`Cache::work`] loads the rest part by part, within the
//! time in [`CacheOptions::load_time`](super::CacheOptions). The cleaning of a whole core needs all parts; while one
//! waits, loading goes on without a pause.

use std::time::Duration;

use super::Cache;
use super::ahead::absent_pieces;
use super::op::{Clean, Op, OpKind, Step};
use crate::layout::{
    ClassId, CoreId, DeviceIo, LayoutRequest, RequestId, SECTOR_BYTES, Span, Target,
};
use crate::policy::ReadAheadPolicy;
use crate::policy::cleaning::{ClassTurn, CleaningFacts};

/// Length of a chunk, in sectors: 4 MiB. Chunks are long enough for long runs, and short enough for the data to fit in
/// memory.
const CHUNK_SECTORS: u64 = (4 << 20) / SECTOR_BYTES as u64;
/// Chunks of a core that are destaged at the same time.
const CHUNKS_MAX: usize = 4;

impl Cache {
    /// Does the work that is due at `now`. Returns when work is due next, if that is known. Call [`turn`](Self::turn)
    /// afterwards.
    pub fn work(&mut self, now: Duration) -> Option<Duration> {
        self.at(now);
        if self.ops.is_held() {
            return None;
        }
        if self.health.takes_retry(self.now) {
            self.layout.retry();
        }
        let loads_at = self.go_on_loading();
        let relieves_at = self.relieve_full_classes();
        let facts = CleaningFacts {
            dirty_sectors: self.layout.usage().dirty_sectors,
            capacity_sectors: self.capacity_sectors(),
            idle: self.now - self.asked_at,
        };
        let mut pieces = Vec::new();
        let cleans_at = self.cleaning.work(self.now, &facts, &mut pieces);
        pieces.into_iter().for_each(|span| self.destage_as(LayoutRequest::Destage { span }, None));
        let dues = [self.health.retry_at(), loads_at, relieves_at, cleans_at, self.admission.due()];
        dues.into_iter().flatten().min()
    }

    fn capacity_sectors(&self) -> u64 {
        self.admission.shape().capacity_bytes / SECTOR_BYTES as u64
    }

    /// Begins read-ahead after a client read that the cache serves, for the IO class of that read.
    pub(super) fn read_ahead(&mut self, key: usize, span: Span) {
        if self.admission.options().read_ahead == ReadAheadPolicy::Off {
            return;
        }
        let Some(core_sectors) = self.ahead.core_sectors(span.core) else { return };
        let Some(part) = self.admission.next_ahead(span, core_sectors, &*self.layout) else {
            return;
        };
        if !self.may_read_ahead(key) {
            return;
        }
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        self.layout.lookup(part, &mut pieces);
        let refused = absent_pieces(&pieces).find(|absent| !self.begin_ahead(key, *absent));
        self.pieces = pieces;
        // The next read of the stream retries the refused piece.
        let end = refused.map_or(part.end(), |refused| refused.first);
        self.admission.was_read_ahead(span, end);
    }

    /// Whether read-ahead for the class of this op is allowed now.
    fn may_read_ahead(&self, key: usize) -> bool {
        self.health.is_whole() && self.admission.may_read_ahead(self.ops[key].class, &*self.layout)
    }

    /// Begins the read of one piece. `false` if too much is in flight, or if the class may have no more. Skips a piece
    /// that another request has locked.
    fn begin_ahead(&mut self, of: usize, span: Span) -> bool {
        let class = self.ops[of].class;
        if !self.ahead.have_room_for(span) || self.layout.refuses(class, span.sectors).is_some() {
            return false;
        }
        let Some(key) = self.ops.begin_own_locked(OpKind::Ahead(span), span) else { return true };
        self.ops[key].class = class;
        self.ahead.begin(span);
        self.tally.read_ahead(span);
        let (target, offset, bytes) = (Target::Core(span.core), span.offset(), span.bytes());
        self.own_io(key, Step::Ahead, DeviceIo::Read { target, offset, bytes, reader: None });
        true
    }

    /// The core has answered: caches the data, if that is still allowed.
    pub(super) fn ahead_was_read(&mut self, key: usize, is_well: bool) {
        if !is_well {
            self.tally.read_ahead_failed();
        }
        if !is_well || !self.may_read_ahead(key) {
            return self.forget(key);
        }
        let (span, data) = (self.ops[key].span(), self.ops[key].data.take());
        self.insert(key, span, data.expect("the core has answered with them"));
    }

    /// Begins with the first chunk, even if it is clean: with this request the layout makes durable on the core what
    /// it had destaged by itself before.
    pub(super) fn begin_cleaning(&mut self, key: usize) {
        if self.layout.unloaded_parts() > 0 {
            return self.loading.wait(key);
        }
        let OpKind::Clean(clean) = &mut self.ops[key].what else { unreachable!("it cleans") };
        let first = first_chunk(clean.core);
        (clean.next, clean.outstanding) = (Some(first.end()), 1);
        let request = clean.request(first);
        self.destage_as(request, Some(key));
        self.go_on_cleaning(key);
    }

    /// Begins the next chunks, or ends. Pauses while requests are held back, because the holder waits for all I/Os to
    /// end.
    fn go_on_cleaning(&mut self, key: usize) {
        let pauses = self.ops.is_held();
        loop {
            let OpKind::Clean(clean) = &mut self.ops[key].what else { unreachable!("it cleans") };
            let dirty = clean.next.filter(|_| clean.outstanding < CHUNKS_MAX && !pauses);
            let dirty = dirty.map(|from| match clean.settles {
                true => self.layout.looks_dirty_after(clean.core, from),
                false => self.layout.dirty_after(clean.core, from),
            });
            match dirty {
                None => break,
                Some(None) => {
                    clean.next = None;
                    if std::mem::take(&mut clean.closes) {
                        clean.outstanding += 1;
                        let request = clean.request(first_chunk(clean.core));
                        self.destage_as(request, Some(key));
                    }
                }
                Some(Some(dirty)) => {
                    let chunk = chunk_of(dirty);
                    (clean.next, clean.outstanding) = (Some(chunk.end()), clean.outstanding + 1);
                    let request = clean.request(chunk);
                    self.destage_as(request, Some(key));
                }
            }
        }
        let OpKind::Clean(clean) = &self.ops[key].what else { unreachable!("it cleans") };
        if clean.outstanding == 0 && !(pauses && clean.next.is_some()) {
            let is_well = !clean.has_failed;
            self.end(key, is_well);
        }
    }

    /// Continues the cleanings that had paused ([`Cache::is_quiet`]).
    pub(super) fn resume_cleaning(&mut self) {
        for key in self.ops.paused_cleanings() {
            self.go_on_cleaning(key);
        }
    }

    fn destage_as(&mut self, request: LayoutRequest, of: Option<usize>) {
        let span = request.span().expect("a chunk");
        let key = self.ops.begin_own(OpKind::Destage { span, of });
        self.step(key, Step::Destage);
        self.ask_layout(key, request);
    }

    pub(super) fn destage_ended(&mut self, key: usize, is_well: bool) {
        let (Op { what: OpKind::Destage { span, of }, .. }, _) = self.ops.remove(key) else {
            unreachable!("it destages")
        };
        let Some(of) = of else { return self.cleaning.destaged(span, is_well, self.now) };
        let OpKind::Clean(clean) = &mut self.ops[of].what else { unreachable!("it cleans") };
        clean.outstanding -= 1;
        clean.has_failed |= !is_well;
        self.go_on_cleaning(of);
    }

    /// Begins the destages that are due for full classes. Returns when the next one is due, if that is known.
    fn relieve_full_classes(&mut self) -> Option<Duration> {
        let capacity_sectors = self.capacity_sectors();
        while let Some(class) = self.layout.take_full_of_dirty() {
            let share = self.admission.options().classes.shares().get(class);
            self.cleaning.class_is_full(class, share.of(capacity_sectors));
        }
        // While requests are held back, the holder waits for all I/Os to end: begin no new ones.
        if self.ops.is_held() || !self.health.is_whole() {
            return None;
        }
        loop {
            match self.cleaning.class_turn(self.now) {
                ClassTurn::Now(class, sectors) => self.relieve(class, sectors),
                ClassTurn::At(due) => return Some(due),
                ClassTurn::NoClass => return None,
            }
        }
    }

    fn relieve(&mut self, class: ClassId, sectors: u64) {
        let key = self.ops.begin_own(OpKind::Relieve { class, sectors: 0 });
        let begun = self.layout.destage_oldest(RequestId(key as u64), class, sectors);
        self.cleaning.class_began(class, begun, self.now);
        if begun == 0 {
            self.ops.remove(key);
            return;
        }
        self.ops[key].what = OpKind::Relieve { class, sectors: begun };
        self.step(key, Step::Relieve);
    }

    /// Continues at once: the cores set the pace.
    pub(super) fn relief_ended(&mut self, key: usize, is_well: bool) {
        let (Op { what: OpKind::Relieve { class, sectors }, .. }, _) = self.ops.remove(key) else {
            unreachable!("it is for a class")
        };
        if is_well {
            self.tally.destaged_for_classes(sectors);
        }
        self.cleaning.class_destaged(class, is_well, self.now);
        self.relieve_full_classes();
    }

    /// Loads the parts that are due. Returns when the next part is due.
    fn go_on_loading(&mut self) -> Option<Duration> {
        let left = self.layout.unloaded_parts();
        let due = self.loading.due(left, self.now, self.admission.options().load_time)?;
        (0..due.parts).for_each(|_| self.layout.load_part());
        self.hear_of_loaded();
        if self.layout.unloaded_parts() == 0 {
            self.loading.end();
            return None;
        }
        let is_late = due.is_behind || self.loading.is_awaited();
        Some(if is_late { self.now } else { self.now + due.pace })
    }

    /// Tells the cleaning policy about loaded dirty data.
    fn hear_of_loaded(&mut self) {
        for dirty in self.layout.take_loaded_dirty() {
            // Dirty data of a missing core stays here.
            if !self.missing.contains(&dirty.core) {
                self.cleaning.found_dirty(dirty);
            }
        }
    }

    /// Begins the waiting cleanings if all parts are loaded. If `work` is never called, nothing else would load them:
    /// then this loads all parts here, unless an I/O is in flight whose completion causes the next turn.
    pub(super) fn begin_loaded(&mut self) {
        if !self.loading.is_awaited() || self.ops.is_held() {
            return;
        }
        let is_told_the_time = self.loading.has_begun();
        while !is_told_the_time && self.layout.unloaded_parts() > 0 {
            self.layout.load_part();
            if self.ops.has_ios() {
                break;
            }
        }
        if self.layout.unloaded_parts() > 0 {
            return;
        }
        self.hear_of_loaded();
        for key in self.loading.take_waiting() {
            self.begin_cleaning(key);
        }
    }
}

impl Clean {
    fn request(&self, span: Span) -> LayoutRequest {
        if self.settles { LayoutRequest::Settle { span } } else { LayoutRequest::Destage { span } }
    }
}

fn first_chunk(core: CoreId) -> Span {
    chunk_of(Span { core, first: 0, sectors: 1 })
}

/// The chunk that contains the beginning of a span.
fn chunk_of(span: Span) -> Span {
    let sectors = u32::try_from(CHUNK_SECTORS).expect("a few MiB");
    Span { first: span.first - span.first % CHUNK_SECTORS, sectors, ..span }
}
