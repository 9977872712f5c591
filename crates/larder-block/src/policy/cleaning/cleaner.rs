//! The cleaner: asks the cleaning policy, and enforces the limits.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::chunk::CHUNK_SECTORS;
use super::elapsed::Elapsed;
use super::full_classes::{ClassTurn, FullClasses};
use super::options::{AlruOptions, CleaningOptions, CleaningPolicy};
use super::rate::RateLimit;
use super::table::{CoreTable, TakenGrains};
use crate::Error;
use crate::layout::{ClassId, CoreId, SECTOR_BYTES, Span};

/// How long a core that has failed is left alone, as in ACP of Open CAS.
pub(super) const BACK_OFF: Duration = Duration::from_secs(5);
/// Shortest wait between two calls of [`Cleaning::work`].
const WAIT_MIN: Duration = Duration::from_millis(1);
/// Elapsed time at the start. Longer than any staleness, so that data found by a recovery is always stale.
const BEGIN: Duration = Duration::from_secs(3601);

/// What the cache tells the cleaner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleaningFacts {
    /// Dirty sectors, including those in flight.
    pub dirty_sectors: u64,
    /// Capacity of the cache in sectors.
    pub capacity_sectors: u64,
    /// Time since the last client request.
    pub idle: Duration,
}

/// Decides what is destaged when. All times are of one clock; setting that clock back or ahead does no harm.
#[derive(Debug)]
pub struct Cleaning {
    options: CleaningOptions,
    line_bytes: u32,
    elapsed: Elapsed,
    cores: BTreeMap<CoreId, CoreTable>,
    under_way: FxHashMap<Span, UnderWay>,
    /// Estimate of the dirty bytes in flight, without those for full classes.
    bytes_under_way: u64,
    rate: RateLimit,
    pub(super) full_classes: FullClasses,
    /// The dirty share has reached `dirty_high_percent`, and has since stayed above `dirty_low_percent`.
    is_above: bool,
    /// When the policy checks for work again, in elapsed time.
    wake_at: Duration,
    /// ALRU found work when it last looked.
    is_running: bool,
    cursor: Option<AcpCursor>,
}

/// The rest of the region that ACP is working on.
#[derive(Clone, Debug)]
struct AcpCursor {
    core: CoreId,
    sectors: Range<u64>,
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    taken: TakenGrains,
    /// Estimate of the dirty bytes in it.
    bytes: u64,
}

/// What to destage next.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// The least recently written data, if the last write was not after this time, in seconds.
    Oldest { written_max: u32 },
    /// The data in the regions with the most dirty bytes.
    Dirtiest,
}

impl Cleaning {
    /// A cleaner for a cache with lines of `line_bytes`, without dirty data.
    ///
    /// # Errors
    /// As for [`CleaningOptions::check`].
    pub fn new(options: CleaningOptions, line_bytes: u32) -> Result<Self, Error> {
        options.check()?;
        Ok(Self {
            options,
            line_bytes,
            elapsed: Elapsed::from(BEGIN),
            cores: BTreeMap::new(),
            under_way: FxHashMap::default(),
            bytes_under_way: 0,
            rate: RateLimit::new(options.bytes_per_second),
            full_classes: FullClasses::default(),
            is_above: false,
            wake_at: Duration::ZERO,
            is_running: false,
            cursor: None,
        })
    }

    /// Changes the options. Known dirty data stays known.
    ///
    /// # Errors
    /// [`CleaningOptions::check`]; then nothing has changed.
    pub fn set(&mut self, options: CleaningOptions) -> Result<(), Error> {
        options.check()?;
        if options.bytes_per_second != self.options.bytes_per_second {
            self.rate = RateLimit::new(options.bytes_per_second);
        }
        if options.policy == CleaningPolicy::Nop {
            self.full_classes.forget_wishes();
        }
        self.options = options;
        (self.wake_at, self.is_running, self.cursor) = (Duration::ZERO, false, None);
        Ok(())
    }

    /// The current options.
    pub fn options(&self) -> CleaningOptions {
        self.options
    }

    /// Records that these sectors are dirty. Call it when a write has ended, before the client is told: a piece that
    /// is destaged before this call need not contain the written data.
    pub fn written(&mut self, span: Span, now: Duration) {
        let at = self.elapsed.at(now);
        self.wrote(span, seconds_of(at) + 1);
    }

    /// Records that a recovery has found these sectors dirty. They count as stale.
    pub fn found_dirty(&mut self, span: Span) {
        self.wrote(span, 0);
    }

    /// Reports that a piece from [`work`](Self::work) has ended. If it has failed, it is still dirty, and its core is
    /// left alone for five seconds. Call `work` again afterwards.
    pub fn destaged(&mut self, piece: Span, was_well: bool, now: Duration) {
        let at = self.elapsed.at(now);
        // The core was forgotten while the piece was in flight.
        let Some(ended) = self.under_way.remove(&piece) else { return };
        self.bytes_under_way -= ended.bytes;
        if let Some(core) = self.cores.get_mut(&piece.core) {
            core.give_back(ended.taken, was_well);
            if !was_well {
                core.rests_until = at + BACK_OFF;
            }
        }
    }

    /// Forgets a core that was detached: none of its data is dirty here.
    pub fn forget(&mut self, core: CoreId) {
        self.cores.remove(&core);
        self.under_way.retain(|piece, _| piece.core != core);
        self.bytes_under_way = self.under_way.values().map(|it| it.bytes).sum();
        self.cursor = None;
    }

    /// Appends the pieces to destage now. Returns when to call again; `None`: only after a write or a destage. It may
    /// be called at any time, and should be called after every write or destage. A call without work to do is cheap.
    pub fn work(
        &mut self,
        now: Duration,
        facts: &CleaningFacts,
        destage: &mut Vec<Span>,
    ) -> Option<Duration> {
        let at = self.elapsed.at(now);
        self.look_at_watermarks(facts);
        let wait = self.clean(at, facts, destage)?;
        Some(now.saturating_add(wait.max(WAIT_MIN)))
    }

    /// Bytes of memory that grow with the dirty data.
    pub fn memory_bytes(&self) -> usize {
        self.cores.values().map(CoreTable::memory_bytes).sum()
    }

    fn wrote(&mut self, span: Span, seconds: u32) {
        debug_assert!(span.sectors > 0, "at least one sector");
        self.cores.entry(span.core).or_default().wrote(&(span.first..span.end()), seconds);
    }

    fn look_at_watermarks(&mut self, facts: &CleaningFacts) {
        let percent = |of: u8| u128::from(facts.capacity_sectors) * u128::from(of);
        let dirty = u128::from(facts.dirty_sectors) * 100;
        if dirty >= percent(self.options.dirty_high_percent) {
            self.is_above = true;
        } else if dirty <= percent(self.options.dirty_low_percent) {
            self.is_above = false;
        }
    }

    /// Returns how long to wait before the next call.
    fn clean(
        &mut self,
        at: Duration,
        facts: &CleaningFacts,
        destage: &mut Vec<Span>,
    ) -> Option<Duration> {
        if self.cores.values().all(|core| core.bytes() == 0) {
            return None;
        }
        let Some(order) = self.order(at, facts) else { return self.until_policy_wakes(at) };
        let bytes_max = self.bytes_max();
        if self.all_bytes_under_way() > bytes_max / 2 {
            // Wait until half of the limit is free. Pieces for the few bytes that have just ended would be short, and
            // so would be all later ones: a disk would seek back and forth between them and the client requests.
            return None;
        }
        let estimate = self.estimate(facts);
        while self.all_bytes_under_way() < bytes_max {
            let wait = self.rate.wait(at);
            if !wait.is_zero() {
                return Some(wait);
            }
            let budget = (bytes_max - self.all_bytes_under_way()).min(self.rate.piece_bytes());
            let Some((core, taken)) = self.take(order, at, estimate.of_dirty(budget)) else {
                // The rest may be in chunks with a piece in flight.
                self.is_running &= !self.under_way.is_empty();
                return [self.until_policy_wakes(at), self.until_rested(at)]
                    .into_iter()
                    .flatten()
                    .min();
            };
            let dirty = estimate.dirty_of(u64::from(taken.grains.bytes));
            let bytes = dirty.max(u64::from(self.line_bytes));
            self.rate.spend(at, bytes);
            self.bytes_under_way += bytes;
            let piece = self.span_of(core, taken);
            let before = self.under_way.insert(piece, UnderWay { taken, bytes });
            debug_assert!(before.is_none(), "{piece:?} goes out twice");
            destage.push(piece);
        }
        // Continues when a piece in flight has ended.
        None
    }

    pub(super) fn all_bytes_under_way(&self) -> u64 {
        self.bytes_under_way + self.full_classes.bytes_under_way()
    }

    /// Limit on the dirty bytes in flight. Above the watermark it is at least one chunk. With shorter pieces, streams
    /// that go to the core would wait for the disk arm twice per piece.
    pub(super) fn bytes_max(&self) -> u64 {
        let buffers = u64::from(self.options.policy.flush_max_buffers());
        let chunk = if self.is_above { CHUNK_SECTORS * SECTOR_BYTES as u64 } else { 0 };
        (buffers * u64::from(self.line_bytes)).max(chunk)
    }

    fn order(&mut self, at: Duration, facts: &CleaningFacts) -> Option<Order> {
        match self.options.policy {
            CleaningPolicy::Acp(_) if self.is_above => Some(Order::Dirtiest),
            _ if self.is_above => Some(Order::Oldest { written_max: u32::MAX }),
            CleaningPolicy::Nop => None,
            CleaningPolicy::Alru(options) => self.alru(at, facts, options),
            CleaningPolicy::Acp(options) => {
                let is_awake = at >= self.wake_at;
                if is_awake {
                    self.wake_at = at + options.wake_up;
                }
                is_awake.then_some(Order::Dirtiest)
            }
        }
    }

    fn alru(&mut self, at: Duration, facts: &CleaningFacts, options: AlruOptions) -> Option<Order> {
        if !self.is_running && at < self.wake_at {
            return None;
        }
        self.wake_at = at + options.wake_up;
        // Stale data is destaged without a pause, as long as no client request arrives.
        self.is_running = facts.idle >= options.activity_threshold;
        let written_max = seconds_of(at - options.staleness);
        self.is_running.then_some(Order::Oldest { written_max })
    }

    fn until_policy_wakes(&self, at: Duration) -> Option<Duration> {
        let has_turns = !self.is_above && self.options.policy != CleaningPolicy::Nop;
        has_turns.then(|| self.wake_at.saturating_sub(at))
    }

    fn until_rested(&self, at: Duration) -> Option<Duration> {
        let resting = self.cores.values().filter(|core| core.bytes() > 0 && core.rests_until > at);
        resting.map(|core| core.rests_until - at).min()
    }

    fn take(&mut self, order: Order, at: Duration, budget: u64) -> Option<(CoreId, TakenGrains)> {
        match order {
            Order::Oldest { written_max } => {
                let awake = self.cores.iter_mut().filter(|(_, core)| core.rests_until <= at);
                let oldest = awake.filter_map(|(&id, core)| {
                    core.oldest().map(|(seconds, chunk)| (seconds, id, chunk))
                });
                let (_, id, chunk) =
                    oldest.min().filter(|(seconds, ..)| *seconds <= written_max)?;
                Some((id, self.cores.get_mut(&id)?.take(chunk, 0, budget)?))
            }
            Order::Dirtiest => {
                self.take_at_cursor(at, budget).or_else(|| {
                    let awake = self.cores.iter().filter(|(_, core)| core.rests_until <= at);
                    let regions = awake.filter_map(|(&id, core)| {
                        let (step, region) = core.dirtiest_region()?;
                        Some((step, Reverse(id), region))
                    });
                    // Of equal regions the first.
                    let (_, Reverse(core), region) =
                        regions.max_by_key(|(step, id, _)| (*step, *id))?;
                    self.cursor =
                        Some(AcpCursor { core, sectors: CoreTable::sectors_of_region(region) });
                    self.take_at_cursor(at, budget)
                })
            }
        }
    }

    /// Continues in the region that ACP is working on; `None` at its end.
    fn take_at_cursor(&mut self, at: Duration, budget: u64) -> Option<(CoreId, TakenGrains)> {
        let cursor = self.cursor.as_mut().filter(|cursor| !cursor.sectors.is_empty())?;
        let core = self.cores.get_mut(&cursor.core).filter(|core| core.rests_until <= at)?;
        let taken = core.take_from(cursor.sectors.start, budget)?;
        cursor.sectors.start = core.sectors(taken).end;
        Some((cursor.core, taken))
    }

    fn span_of(&self, core: CoreId, taken: TakenGrains) -> Span {
        let sectors = self.cores[&core].sectors(taken);
        let count = u32::try_from(sectors.end - sectors.start).expect("a part of a chunk");
        Span { core, first: sectors.start, sectors: count }
    }

    fn estimate(&self, facts: &CleaningFacts) -> Estimate {
        let bytes = self.cores.values().map(CoreTable::bytes).sum::<u64>() + self.bytes_under_way;
        let dirty = facts.dirty_sectors.saturating_mul(SECTOR_BYTES as u64);
        Estimate { bytes: bytes.max(dirty), dirty }
    }
}

/// The dirty bytes by the table (`bytes`) and by the layout (`dirty`).
#[derive(Clone, Copy, Debug)]
struct Estimate {
    bytes: u64,
    dirty: u64,
}

impl Estimate {
    /// The likely number of dirty bytes among `bytes` bytes of the table.
    fn dirty_of(self, bytes: u64) -> u64 {
        scaled(bytes, self.dirty, self.bytes)
    }

    /// The number of bytes of the table that likely contain `dirty` dirty bytes.
    fn of_dirty(self, dirty: u64) -> u64 {
        scaled(dirty, self.bytes, self.dirty)
    }
}

fn scaled(number: u64, by: u64, of: u64) -> u64 {
    u64::try_from(u128::from(number) * u128::from(by) / u128::from(of.max(1))).unwrap_or(u64::MAX)
}

fn seconds_of(at: Duration) -> u32 {
    u32::try_from(at.as_secs()).unwrap_or(u32::MAX - 1)
}

/// Destages for classes that are full of dirty data.
impl Cleaning {
    /// A class with a share of `share_sectors` was refused room because its data is dirty.
    pub fn class_is_full(&mut self, class: ClassId, share_sectors: u64) {
        if self.options().policy != CleaningPolicy::Nop {
            self.full_classes.refused(class, share_sectors);
        }
    }

    /// The shares have changed: a class that is refused room asks again.
    pub fn shares_change(&mut self) {
        self.full_classes.forget_wishes();
    }

    /// The class for which data is to be destaged now.
    pub fn class_turn(&mut self, now: Duration) -> ClassTurn {
        if self.full_classes.is_batch_under_way() {
            return ClassTurn::NoClass;
        }
        let at = self.elapsed.at(now);
        let later = |wait: Duration| ClassTurn::At(now.saturating_add(wait.max(WAIT_MIN)));
        let Some((class, wanted)) = self.full_classes.next(at) else {
            return self.full_classes.until_rested(at).map_or(ClassTurn::NoClass, later);
        };
        let (under_way, bytes_max) = (self.all_bytes_under_way(), self.bytes_max());
        if under_way > bytes_max / 2 {
            return ClassTurn::NoClass;
        }
        let wait = self.rate.wait(at);
        if !wait.is_zero() {
            return later(wait);
        }
        let budget = (bytes_max - under_way).min(self.rate.piece_bytes()) / SECTOR_BYTES as u64;
        ClassTurn::Now(class, wanted.min(budget).max(1))
    }

    /// The destage of `sectors` sectors of a class has begun; 0: no data was found.
    pub fn class_began(&mut self, class: ClassId, sectors: u64, now: Duration) {
        let at = self.elapsed.at(now);
        let bytes = self.full_classes.began(class, sectors, at);
        if bytes > 0 {
            self.rate.spend(at, bytes);
        }
    }

    /// The batch has ended. After a failure of a device the class is left alone for five seconds, and still wants the
    /// batch.
    pub fn class_destaged(&mut self, class: ClassId, was_well: bool, now: Duration) {
        let at = self.elapsed.at(now);
        self.full_classes.destaged(class, was_well, at + BACK_OFF);
    }
}

#[cfg(test)]
mod tests;
