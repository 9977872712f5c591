//! The cleaner: asks its policy, and keeps to the limits.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::chunk::CHUNK_SECTORS;
use super::elapsed::Elapsed;
use super::full_classes::FullClasses;
use super::options::{AlruOptions, CleaningOptions, CleaningPolicy};
use super::rate::RateLimit;
use super::table::{CoreTable, Taken};
use crate::Error;
use crate::layout::{CoreId, SECTOR_BYTES, Span};

/// How long a core is left alone that has failed, as in ACP of Open CAS.
pub(super) const BACK_OFF: Duration = Duration::from_secs(5);
/// Nothing is asked for sooner than this.
pub(super) const WAIT_MIN: Duration = Duration::from_millis(1);
/// What begins as if so much time had passed: what is found at a recovery is then stale by every staleness.
const BEGIN: Duration = Duration::from_secs(3601);

/// What the cleaner is told of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleaningFacts {
    /// Sectors that are dirty, those under way included.
    pub dirty_sectors: u64,
    /// Sectors that the cache can hold.
    pub capacity_sectors: u64,
    /// How long no user has asked for anything.
    pub idle: Duration,
}

/// Says what is destaged when. Times are those of one clock; one that is set back or ahead does no harm.
#[derive(Debug)]
pub struct Cleaning {
    options: CleaningOptions,
    line_bytes: u32,
    pub(super) elapsed: Elapsed,
    cores: BTreeMap<CoreId, CoreTable>,
    under_way: FxHashMap<Span, UnderWay>,
    /// Dirty bytes under way, about, without those for full classes.
    bytes_under_way: u64,
    pub(super) rate: RateLimit,
    pub(super) full_classes: FullClasses,
    /// More was dirty than `dirty_high_percent`, and since then always more than `dirty_low_percent`.
    is_above: bool,
    /// When the policy looks again, in elapsed time.
    wake_at: Duration,
    /// ALRU is at it since it looked last.
    is_running: bool,
    cursor: Option<Cursor>,
}

/// What is left of the region that ACP goes through.
#[derive(Clone, Debug)]
struct Cursor {
    core: CoreId,
    sectors: Range<u64>,
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    taken: Taken,
    /// Dirty bytes in it, about.
    bytes: u64,
}

/// What is to be destaged next.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// What was written longest ago, if that is no later than this, in seconds.
    Oldest { written_max: u32 },
    /// What lies in the regions of which most is dirty.
    Dirtiest,
}

impl Cleaning {
    /// For a cache with lines of `line_bytes`, of which nothing is dirty yet.
    ///
    /// # Errors
    /// [`CleaningOptions::check`].
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

    /// Has other options from now on; what is known of dirty data stays known.
    ///
    /// # Errors
    /// [`CleaningOptions::check`]; nothing has changed then.
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

    /// What it does now.
    pub fn options(&self) -> CleaningOptions {
        self.options
    }

    /// These sectors are dirty. To be called when a write has ended, before anybody is told: a piece that goes out
    /// earlier need not have what was written.
    pub fn written(&mut self, span: Span, now: Duration) {
        let at = self.elapsed.at(now);
        self.wrote(span, seconds_of(at) + 1);
    }

    /// These sectors are dirty, and have been for long: they were found by a recovery.
    pub fn found_dirty(&mut self, span: Span) {
        self.wrote(span, 0);
    }

    /// A piece that [`work`](Self::work) gave has ended. One that has failed is still dirty, and its core is left
    /// alone for five seconds. Ask for work again then.
    pub fn destaged(&mut self, piece: Span, was_well: bool, now: Duration) {
        let at = self.elapsed.at(now);
        // A core that was detached meanwhile has none.
        let Some(ended) = self.under_way.remove(&piece) else { return };
        self.bytes_under_way -= ended.bytes;
        if let Some(core) = self.cores.get_mut(&piece.core) {
            core.give_back(ended.taken, was_well);
            if !was_well {
                core.rests_until = at + BACK_OFF;
            }
        }
    }

    /// A core was detached: nothing of it is dirty here any more.
    pub fn forget(&mut self, core: CoreId) {
        self.cores.remove(&core);
        self.under_way.retain(|piece, _| piece.core != core);
        self.bytes_under_way = self.under_way.values().map(|it| it.bytes).sum();
        self.cursor = None;
    }

    /// Appends the pieces that are to be destaged now, and says when it wants to be asked again; `None`: not before
    /// something was written or destaged. It may be asked at any time, and should be whenever something was: that
    /// costs little when there is nothing to do.
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

    /// Bytes of memory that grow with what may be dirty.
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

    /// How long to wait before it is asked again.
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
            // A piece for the little that has just ended would be short, and the next ones no longer: a disk would go
            // to and fro between them and what users ask.
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
                // What is left may be of chunks of which something is under way.
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
        // It goes on when one of those under way has ended.
        None
    }

    pub(super) fn all_bytes_under_way(&self) -> u64 {
        self.bytes_under_way + self.full_classes.bytes_under_way()
    }

    /// Dirty bytes under way at a time. Above the watermark a chunk at least: whoever writes streams to the core then
    /// would wait for an arm that goes to and fro, twice for each piece.
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
        // What is stale goes out without a pause, as long as nobody comes.
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

    fn take(&mut self, order: Order, at: Duration, budget: u64) -> Option<(CoreId, Taken)> {
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
                    // Of equal ones the first.
                    let (_, Reverse(core), region) =
                        regions.max_by_key(|(step, id, _)| (*step, *id))?;
                    self.cursor =
                        Some(Cursor { core, sectors: CoreTable::sectors_of_region(region) });
                    self.take_at_cursor(at, budget)
                })
            }
        }
    }

    /// Goes on where ACP is; `None` at the end of the region.
    fn take_at_cursor(&mut self, at: Duration, budget: u64) -> Option<(CoreId, Taken)> {
        let cursor = self.cursor.as_mut().filter(|cursor| !cursor.sectors.is_empty())?;
        let core = self.cores.get_mut(&cursor.core).filter(|core| core.rests_until <= at)?;
        let taken = core.take_from(cursor.sectors.start, budget)?;
        cursor.sectors.start = core.sectors(taken).end;
        Some((cursor.core, taken))
    }

    fn span_of(&self, core: CoreId, taken: Taken) -> Span {
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

/// What the table takes for dirty, and what is.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    bytes: u64,
    dirty: u64,
}

impl Estimate {
    /// How many of these bytes are dirty, likely.
    fn dirty_of(self, bytes: u64) -> u64 {
        scaled(bytes, self.dirty, self.bytes)
    }

    /// How many bytes of the table have so many that are dirty.
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

#[cfg(test)]
mod tests;
