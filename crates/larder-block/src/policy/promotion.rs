//! Promotion: whether a miss is cached. As in Open CAS (`promotion/nhit`), in 8 bytes per line of the cache.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::layout::{CoreId, Span};
use crate::{Error, ErrorKind};

/// Which misses are cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PromotionPolicy {
    /// All of them.
    #[default]
    Always,
    /// Those of lines that are requested repeatedly.
    NHit(NHit),
}

/// Parameters of n-hit, with the defaults and ranges of Open CAS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NHit {
    /// The access at which a line is cached: 2 to 1000, default 3.
    pub insertion_threshold: u16,
    /// Everything is cached while less of the cache is occupied: 0 to 100 percent, default 80.
    pub trigger_percent: u8,
}

impl Default for NHit {
    fn default() -> Self {
        Self { insertion_threshold: 3, trigger_percent: 80 }
    }
}

impl NHit {
    fn complaint(self) -> Option<String> {
        if !(2..=1000).contains(&self.insertion_threshold) {
            let threshold = self.insertion_threshold;
            return Some(format!("insertion_threshold of {threshold}: give 2 to 1000"));
        }
        let percent = self.trigger_percent;
        (percent > 100).then(|| format!("trigger_percent of {percent}: give 0 to 100"))
    }
}

/// Decides for each miss whether it is cached.
///
/// Counts accesses for twice the number of lines of the cache. A count takes 4 bytes, with a fingerprint of 22 bits,
/// so 8 bytes per line of the cache, once the policy is n-hit and its trigger was reached. A line has 16 places for
/// its count; the least recently counted line in them gives way. About one line in a quarter of a million is mistaken
/// for another one.
pub struct Promotion {
    policy: PromotionPolicy,
    line_sectors: u32,
    sets: usize,
    /// Allocated at the first count. The most recently counted line comes first in its set.
    counts: Box<[Set]>,
}

/// Number of places in which a line may be counted.
const WAYS: usize = 16;
/// A fingerprint above a count of [`COUNT_BITS`] bits; 0 is an empty place.
type Mark = u32;
type Set = [Mark; WAYS];

const COUNT_BITS: u32 = 10;
const COUNT_MASK: Mark = (1 << COUNT_BITS) - 1;
const _: () = assert!(COUNT_MASK >= 1000, "the highest threshold can be counted to");

impl Promotion {
    /// A promotion policy for a cache of `lines` lines of `line_bytes` bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`], naming the parameter, if it is out of its range.
    pub fn new(policy: PromotionPolicy, lines: u64, line_bytes: u32) -> Result<Self, Error> {
        let line_sectors = line_bytes / 512;
        assert!(line_sectors > 0, "a line of {line_bytes} bytes is no sector");
        let marks = usize::try_from(lines.saturating_mul(2)).unwrap_or(usize::MAX);
        let sets = marks.div_ceil(WAYS).max(1);
        let mut promotion =
            Self { policy: PromotionPolicy::Always, line_sectors, sets, counts: Box::default() };
        promotion.set(policy)?;
        Ok(promotion)
    }

    /// Changes the policy from the next request on. Counts are kept if n-hit continues with other parameters.
    ///
    /// # Errors
    /// As [`new`](Self::new); then nothing has changed.
    pub fn set(&mut self, policy: PromotionPolicy) -> Result<(), Error> {
        match policy {
            PromotionPolicy::Always => self.counts = Box::default(),
            PromotionPolicy::NHit(parameters) => {
                if let Some(complaint) = parameters.complaint() {
                    return Err(Error::new(
                        ErrorKind::Setup,
                        format!("promotion n-hit: {complaint}"),
                    ));
                }
            }
        }
        self.policy = policy;
        Ok(())
    }

    /// Whether the missed part of `span` is cached; call it once per miss. It is cached if each of its lines is
    /// admitted. Do not ask for a request that is partly cached: if it were refused, the cached part would have to be
    /// invalidated.
    pub fn admits(&mut self, span: Span, occupancy_percent: u8) -> bool {
        let PromotionPolicy::NHit(NHit { insertion_threshold, trigger_percent }) = self.policy
        else {
            return true;
        };
        if occupancy_percent < trigger_percent {
            return true;
        }
        if self.counts.is_empty() {
            self.counts = vec![Set::default(); self.sets].into_boxed_slice();
        }
        let lines = self.lines(span);
        let mut is_admitted = true;
        for line in lines.clone() {
            // Count every line, even if another one is refused.
            is_admitted &= self.count(span.core, line) >= Mark::from(insertion_threshold);
        }
        if is_admitted {
            // After an eviction, the lines must be requested the same number of times again.
            lines.for_each(|line| self.drop_count(span.core, line));
        }
        is_admitted
    }

    /// Forgets the counts of these sectors, because they are discarded.
    pub fn forget(&mut self, span: Span) {
        if !self.counts.is_empty() {
            self.lines(span).for_each(|line| self.drop_count(span.core, line));
        }
    }

    /// Bytes of memory for counts.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.counts)
    }

    fn lines(&self, span: Span) -> std::ops::RangeInclusive<u64> {
        let sectors = u64::from(self.line_sectors);
        span.first / sectors..=(span.end() - 1) / sectors
    }

    /// Counts an access, and returns the count.
    fn count(&mut self, core: CoreId, line: u64) -> Mark {
        let (set, fingerprint) = self.place(core, line);
        let found = set.iter().position(|mark| mark & !COUNT_MASK == fingerprint);
        // An unknown line replaces the least recently counted one.
        let (at, before) = found.map_or((WAYS - 1, 0), |at| (at, set[at] & COUNT_MASK));
        let count = (before + 1).min(COUNT_MASK);
        set.copy_within(..at, 1);
        set[0] = fingerprint | count;
        count
    }

    fn drop_count(&mut self, core: CoreId, line: u64) {
        let (set, fingerprint) = self.place(core, line);
        if let Some(at) = set.iter().position(|mark| mark & !COUNT_MASK == fingerprint) {
            set.copy_within(at + 1.., at);
            set[WAYS - 1] = 0;
        }
    }

    fn place(&mut self, core: CoreId, line: u64) -> (&mut Set, Mark) {
        // No seed: the same requests get the same answers in each run.
        let mut hasher = DefaultHasher::new();
        (core, line).hash(&mut hasher);
        let hash = hasher.finish();
        // The upper bits select the set, the lower ones the line in it.
        let at = (u128::from(hash) * self.counts.len() as u128) >> 64;
        #[allow(clippy::cast_possible_truncation)] // the lower bits are intended
        let fingerprint = ((hash as u32) | 1) << COUNT_BITS;
        let at = usize::try_from(at).expect("below the number of sets");
        (&mut self.counts[at], fingerprint)
    }
}

impl fmt::Debug for Promotion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Promotion");
        shown.field("policy", &self.policy).field("memory_bytes", &self.memory_bytes());
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: u64 = 1 << 12;

    fn n_hit(insertion_threshold: u16, trigger_percent: u8) -> PromotionPolicy {
        PromotionPolicy::NHit(NHit { insertion_threshold, trigger_percent })
    }

    fn promotion(policy: PromotionPolicy) -> Promotion {
        Promotion::new(policy, LINES, 4096).unwrap()
    }

    fn line(number: u64) -> Span {
        Span { core: CoreId::new(0).unwrap(), first: number * 8, sectors: 8 }
    }

    #[test]
    fn a_line_is_kept_with_its_nth_access() {
        for threshold in [2, 3, 1000] {
            let mut promotion = promotion(n_hit(threshold, 0));
            for _ in 0..2 {
                let refused = (0..5000).position(|_| promotion.admits(line(7), 100)).unwrap();
                assert_eq!(refused, usize::from(threshold) - 1);
            }
        }
    }

    #[test]
    fn everything_is_kept_below_the_trigger_and_by_default() {
        let mut promotion = promotion(n_hit(3, 80));
        assert!(promotion.admits(line(0), 79));
        assert_eq!(promotion.memory_bytes(), 0, "and costs nothing");
        assert!(!promotion.admits(line(0), 80));
        promotion.set(PromotionPolicy::Always).unwrap();
        assert!(promotion.admits(line(0), 100));
        assert_eq!(promotion.memory_bytes(), 0);
    }

    #[test]
    fn a_request_is_kept_if_each_of_its_lines_is() {
        let mut promotion = promotion(n_hit(2, 0));
        assert!(!promotion.admits(line(0), 100));
        let three = Span { first: 0, sectors: 17, ..line(0) };
        assert!(!promotion.admits(three, 100), "lines 1 and 2 came once");
        assert!(promotion.admits(three, 100));
        let other_core = Span { core: CoreId::new(1).unwrap(), ..line(1) };
        assert!(!promotion.admits(other_core, 100));
    }

    #[test]
    fn what_is_discarded_is_forgotten() {
        let mut promotion = promotion(n_hit(2, 0));
        (0..2).for_each(|it| assert!(!promotion.admits(line(it), 100)));
        promotion.forget(Span { sectors: 1, ..line(0) });
        assert!(!promotion.admits(line(0), 100));
        assert!(promotion.admits(line(1), 100));
    }

    #[test]
    fn lines_are_remembered_for_about_as_long_as_the_cache_is_and_memory_is_bounded() {
        // After a pass over as many lines as the cache has, the next pass knows nearly all of them. After a pass over
        // eight times that number, it knows nearly none.
        for (lines, expected) in [(LINES, 0.97..1.0), (8 * LINES, 0.0..0.02)] {
            let mut promotion = promotion(n_hit(2, 0));
            (0..lines).for_each(|number| _ = promotion.admits(line(number), 100));
            let known = (0..lines).filter(|&number| promotion.admits(line(number), 100)).count();
            #[allow(clippy::cast_precision_loss)]
            let part = known as f64 / lines as f64;
            assert!(expected.contains(&part), "{part} of {lines}");
            assert_eq!(promotion.memory_bytes() as u64, 8 * LINES);
        }
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        for (policy, field) in [
            (n_hit(1, 0), "insertion_threshold of 1: give 2 to 1000"),
            (n_hit(1001, 0), "insertion_threshold of 1001: give 2 to 1000"),
            (n_hit(2, 101), "trigger_percent of 101: give 0 to 100"),
        ] {
            let error = Promotion::new(policy, LINES, 4096).unwrap_err();
            assert!(error.to_string().contains(field), "{error}");
            let mut promotion = promotion(n_hit(2, 0));
            promotion.set(policy).unwrap_err();
            assert_eq!(promotion.policy, n_hit(2, 0), "nothing has changed");
        }
    }
}
