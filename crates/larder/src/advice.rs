//! Which settings would serve an observed load better, and by how much.
//!
//! The choice of engines is a trade of memory for writes. The log of large objects writes each object once, but its
//! index takes memory for each. Buckets take a few bytes of memory for many objects, but each small object costs the
//! write of a bucket. Pages by set are written once too, and take memory for each page that is being filled. All follow
//! from the sizes of the objects, so they are computed, not guessed. What a bucket or a page costs is measured where
//! the cache has it.

use crate::config::{SOC_BUCKET_BYTES, SOC_RECORD_BYTES, SocConfig, SocLayout};
use crate::observe::load::FlashLoad;

/// Memory of the index of large objects, for an object, in bytes.
const INDEX_BYTES: f64 = 12.0;
/// Bytes that pages write for a byte of a record: ends that are not filled, objects that ride along, directories.
const PAGE_ALWA: f64 = 1.25;
/// What a record takes beside key and value, in bytes.
const RECORD_BYTES: f64 = 32.0;
/// Limits of small objects that are compared, in bytes.
const SMALL_BYTES: [u64; 4] = [256, 512, 1024, 2048];
/// Flash should leave this part of the memory for the DRAM tier.
const MEMORY_PART: f64 = 0.5;
/// A hint is given from this share on.
const SHARE_MIN: f64 = 0.1;
/// Objects that a judgement needs.
const OBJECTS_MIN: u64 = 1000;

/// A cache and its load, for [`advise`].
///
/// ```
/// use larder::advice::{Situation, advise};
///
/// let nothing = Situation::default();
/// assert!(advise(&nothing).is_none(), "no object has reached flash yet");
/// let two = Situation { flash_bytes: 1 << 30, ..nothing.clone() }.and(&nothing);
/// assert_eq!(two.flash_bytes, 1 << 30);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Situation {
    /// Flash that the cache uses, in bytes.
    pub flash_bytes: u64,
    /// Memory of the cache, with what its flash needs, in bytes.
    pub memory_bytes: u64,
    /// Share of the flash for small objects now, in percent; 0: they are in the log.
    pub soc_percent: f64,
    /// How small objects are stored now; `None` if they are in the log.
    pub soc_layout: Option<SocLayout>,
    /// Longest small object now, in bytes.
    pub soc_max_object_bytes: u64,
    /// Objects that DRAM evicted and flash could take.
    pub load: FlashLoad,
    /// Objects that admission accepted.
    pub admitted_objects: u64,
    /// Bytes that all engines wrote.
    pub written_bytes: u64,
    /// Bytes that the engine for small objects wrote.
    pub soc_written_bytes: u64,
    /// Reads that flash answered.
    pub flash_hits: u64,
    /// Time in which this was observed, in seconds.
    pub seconds: u64,
}

/// Engines, and what they cost with the observed load.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Choice {
    /// Share of the flash for small objects, in percent; 0: all objects are in the log.
    pub soc_percent: f64,
    /// How small objects are stored: as now, or as a cache that begins empty would choose; `None` if all objects are in
    /// the log.
    pub soc_layout: Option<SocLayout>,
    /// Longest small object, in bytes.
    pub soc_max_object_bytes: u64,
    /// Memory that flash needs when it is full, in bytes.
    pub memory_bytes: u64,
    /// Bytes that the cache writes for a byte of an object (ALWA).
    pub alwa: f64,
    /// Bytes that the cache writes in a day at the observed rate, if everything is admitted.
    pub written_bytes_per_day: u64,
    /// Whether the cache has these engines now.
    pub is_current: bool,
}

/// Settings that would serve the load better.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Advice {
    /// All engines that were compared. The current ones are first.
    pub choices: Vec<Choice>,
    /// The place of the best of them in `choices`.
    pub best: usize,
    /// Why it is the best.
    pub why: String,
    /// Other settings, with what they would change, one sentence each.
    pub hints: Vec<String>,
}

/// Compares the engines of a cache with others for its load. `None` if flash was offered fewer than 1,000 objects,
/// which is too few to tell.
///
/// The best choice writes least among those that leave half of the memory to the DRAM tier; if none does, it is the one
/// that takes the least memory.
///
/// ```
/// # use larder::{Larder, advice};
/// # let cache = Larder::in_memory(1 << 20)?;
/// match cache.situation().and_then(|situation| advice::advise(&situation)) {
///     Some(advice) => println!("{:?}, because {}", advice.choices[advice.best], advice.why),
///     None => println!("too few objects went to flash"),
/// }
/// # Ok::<(), larder::Error>(())
/// ```
pub fn advise(situation: &Situation) -> Option<Advice> {
    let load = &situation.load;
    if load.objects() < OBJECTS_MIN || situation.flash_bytes == 0 {
        return None;
    }
    let current = (situation.soc_percent, situation.soc_max_object_bytes);
    let mut choices = vec![situation.choice(current.0, current.1, true)];
    if current.0 > 0.0 {
        let anew = situation.choice(current.0, current.1, false);
        if anew.soc_layout != choices[0].soc_layout {
            choices.push(anew);
        }
        choices.push(situation.choice(0.0, current.1, false));
    }
    for bytes in SMALL_BYTES {
        let share = load.small(bytes).1 / load.bytes() as f64;
        let percent = (share * 100.0).ceil().clamp(1.0, 95.0);
        if share > 0.0 && (percent, bytes) != current {
            choices.push(situation.choice(percent, bytes, false));
        }
    }
    let most = situation.memory_bytes as f64 * MEMORY_PART;
    let fits = |choice: &Choice| choice.memory_bytes as f64 <= most;
    let all = || choices.iter().enumerate();
    // Of equal ones the first: the current one stays unless another is better.
    let least_written =
        all().filter(|(_, choice)| fits(choice)).min_by(|a, b| a.1.alwa.total_cmp(&b.1.alwa));
    let least_memory = all().min_by_key(|(_, choice)| choice.memory_bytes);
    let (best, why) = match (least_written, least_memory) {
        (Some((at, _)), _) => {
            (at, "it writes least of those that leave half of the memory to DRAM")
        }
        (None, Some((at, _))) => (at, "none leaves half of the memory to DRAM; it takes the least"),
        (None, None) => return None,
    };
    let layout_hint = situation.layout_hint(&choices);
    let hints = [layout_hint, situation.ttl_hint(), situation.admission_hint()];
    let hints = hints.into_iter().flatten().collect();
    Some(Advice { choices, best, why: why.to_owned(), hints })
}

impl FlashLoad {
    /// Objects of at most this size and their bytes. A class that the limit cuts counts in proportion.
    #[allow(clippy::cast_precision_loss)] // counts, far below 2^53
    fn small(&self, bytes: u64) -> (f64, f64) {
        let part = |up_to: u64| {
            let above = up_to / 2;
            (bytes.saturating_sub(above) as f64 / (up_to - above).max(1) as f64).min(1.0)
        };
        self.sizes.iter().fold((0.0, 0.0), |(objects, sum), class| {
            let part = part(class.up_to_bytes);
            (objects + part * class.objects as f64, sum + part * class.bytes as f64)
        })
    }
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
impl Situation {
    /// Two caches of one owner as one, on flash and memory of both.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        Self {
            flash_bytes: self.flash_bytes + other.flash_bytes,
            memory_bytes: self.memory_bytes + other.memory_bytes,
            load: self.load.and(&other.load),
            admitted_objects: self.admitted_objects + other.admitted_objects,
            written_bytes: self.written_bytes + other.written_bytes,
            soc_written_bytes: self.soc_written_bytes + other.soc_written_bytes,
            flash_hits: self.flash_hits + other.flash_hits,
            seconds: self.seconds.max(other.seconds),
            ..self
        }
    }

    fn choice(&self, soc_percent: f64, soc_max_object_bytes: u64, is_current: bool) -> Choice {
        let (all, all_bytes) = (self.load.objects() as f64, self.load.bytes() as f64);
        let (small, small_bytes) = match soc_percent > 0.0 {
            true => self.load.small(soc_max_object_bytes),
            false => (0.0, 0.0),
        };
        let (large, large_bytes) = (all - small, all_bytes - small_bytes);
        let flash = self.flash_bytes as f64;
        let of_small = flash * soc_percent / 100.0;
        let log = flash * (1.0 - soc_percent / 100.0);
        let mean = large_bytes / large.max(1.0) + RECORD_BYTES;
        let indexed = if large > 0.0 { log / mean } else { 0.0 };
        let layout = self.layout(soc_percent, is_current);
        let mean_small = small_bytes / small.max(1.0);
        let small_memory = layout.map_or(0.0, |layout| {
            layout.estimated_memory_bytes(of_small, self.memory_bytes as f64, mean_small)
        });
        let small_written = match layout {
            None => 0.0,
            Some(SocLayout::Buckets) => small * self.bucket_bytes(),
            Some(SocLayout::Pages) => small_bytes * self.page_alwa(small, small_bytes),
        };
        let written = small_written + large_bytes + large * RECORD_BYTES;
        let alwa = written / all_bytes.max(1.0);
        let a_day = all_bytes / self.seconds.max(1) as f64 * 86_400.0;
        Choice {
            soc_percent,
            soc_layout: layout,
            soc_max_object_bytes,
            memory_bytes: (indexed * INDEX_BYTES + small_memory) as u64,
            alwa,
            written_bytes_per_day: (a_day * alwa) as u64,
            is_current,
        }
    }

    /// How small objects are stored with this share of the flash: as now, or as the cache would choose.
    fn layout(&self, soc_percent: f64, is_current: bool) -> Option<SocLayout> {
        if soc_percent == 0.0 || is_current {
            return self.soc_layout.filter(|_| soc_percent > 0.0);
        }
        let bytes = self.flash_bytes as f64 * soc_percent / 100.0;
        Some(SocConfig::default().layout_for(bytes as u64, self.memory_bytes))
    }

    /// Bytes that buckets write for an object: as measured, or a whole bucket.
    fn bucket_bytes(&self) -> f64 {
        let written = self.written_for_an_object(SocLayout::Buckets);
        written.unwrap_or(SOC_BUCKET_BYTES)
    }

    /// Bytes that pages write for a byte of these objects: as measured, or what such records take.
    fn page_alwa(&self, objects: f64, bytes: f64) -> f64 {
        let (small, small_bytes) = self.load.small(self.soc_max_object_bytes);
        match self.written_for_an_object(SocLayout::Pages) {
            Some(written) if small_bytes > 0.0 => written * small / small_bytes,
            _ => (1.0 + objects * SOC_RECORD_BYTES / bytes.max(1.0)) * PAGE_ALWA,
        }
    }

    /// Bytes that the small-object engine wrote for an object, if it has this layout now.
    fn written_for_an_object(&self, layout: SocLayout) -> Option<f64> {
        let small =
            self.load.small(self.soc_max_object_bytes).0 / self.load.objects().max(1) as f64;
        let admitted = self.admitted_objects as f64 * small;
        let is_measured = self.soc_layout == Some(layout) && self.soc_written_bytes > 0;
        (is_measured && admitted > 0.0).then(|| self.soc_written_bytes as f64 / admitted)
    }

    /// Another layout of small objects, if the cache would choose it and it writes less, or if pages take too much
    /// memory.
    fn layout_hint(&self, choices: &[Choice]) -> Option<String> {
        let current = choices.first()?;
        let same_share = |it: &&Choice| {
            let share = (it.soc_percent, it.soc_max_object_bytes);
            share == (current.soc_percent, current.soc_max_object_bytes)
        };
        let anew = choices.iter().skip(1).find(same_share)?;
        let (layout, times) = (anew.soc_layout?, self.times_memory());
        let pages_write_less = layout == SocLayout::Pages && anew.alwa < current.alwa;
        let why = match layout {
            SocLayout::Pages if pages_write_less => "which is in the range of pages",
            SocLayout::Buckets => {
                "which is outside of the range of pages (64 MiB of flash to 25 times memory)"
            }
            SocLayout::Pages => return None,
        };
        Some(format!(
            "soc.layout = \"{layout}\": flash for small objects is {times:.1} times memory, {why}; the cache would \
             write {:.2} bytes for a byte instead of {:.2}",
            anew.alwa, current.alwa
        ))
    }

    /// Flash for small objects now, by memory.
    fn times_memory(&self) -> f64 {
        self.flash_bytes as f64 * self.soc_percent / 100.0 / self.memory_bytes.max(1) as f64
    }

    /// Classes of large objects by time to live, if objects that have expired take much of the flash.
    fn ttl_hint(&self) -> Option<String> {
        let all = self.load.bytes() as f64;
        // Time in which all of the flash is written once.
        let round_s =
            self.flash_bytes as f64 / self.written_bytes.max(1) as f64 * self.seconds as f64;
        let dying = |up_to: Option<u64>| {
            up_to.map(|seconds| seconds as f64).filter(|it| *it < round_s / 4.0)
        };
        let classes = self.load.lifetimes.iter();
        let short =
            classes.filter_map(|class| Some((dying(class.up_to_seconds)?, class.bytes as f64)));
        let short: Vec<(f64, f64)> = short.collect();
        let bytes: f64 = short.iter().map(|(_, bytes)| bytes).sum();
        let dead: f64 =
            short.iter().map(|(seconds, bytes)| bytes * (1.0 - seconds / round_s)).sum();
        let bound = short.last()?.0;
        let mixed = (SHARE_MIN..=1.0 - SHARE_MIN).contains(&(bytes / all));
        (mixed && dead / all >= SHARE_MIN).then(|| {
            format!(
                "loc.ttl_classes = [{bound:.0}]: {:.0} % of the bytes live {bound:.0} s at most, and flash is \
                 written over in {round_s:.0} s; in regions of their own they make room when they expire, which is up \
                 to {:.0} % of the flash",
                bytes / all * 100.0,
                dead / all * 100.0
            )
        })
    }

    /// A stricter admission, if few objects are read again.
    fn admission_hint(&self) -> Option<String> {
        let has_filled = self.written_bytes >= self.flash_bytes;
        let read_again = self.flash_hits as f64 / self.admitted_objects.max(1) as f64;
        (has_filled && read_again < SHARE_MIN).then(|| {
            format!(
                "admission.policy = \"reject-first\": flash answered {} reads for {} objects that it took, so at least \
                 {:.0} % of its writes were for nothing",
                self.flash_hits,
                self.admitted_objects,
                (1.0 - read_again) * 100.0
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::load::LoadCounts;

    /// A load of these sizes, lifetimes and numbers of objects.
    fn load(classes: &[(u64, Option<u32>, u64)]) -> FlashLoad {
        let counts = LoadCounts::default();
        for &(bytes, left, objects) in classes {
            (0..objects).for_each(|_| counts.note(bytes, left));
        }
        counts.load()
    }

    fn situation(load: FlashLoad) -> Situation {
        Situation {
            flash_bytes: 8 << 30,
            memory_bytes: 1 << 30,
            soc_max_object_bytes: 640,
            admitted_objects: load.objects(),
            written_bytes: load.bytes(),
            flash_hits: load.objects(),
            seconds: 3600,
            load,
            ..Situation::default()
        }
    }

    #[test]
    fn large_objects_stay_in_the_log() {
        let advice = advise(&situation(load(&[(8000, None, 5000)]))).unwrap();
        assert_eq!(advice.best, 0, "{advice:?}");
        assert!(advice.choices[0].is_current && advice.choices[0].soc_percent < 1.0);
        assert!((1.0..1.01).contains(&advice.choices[0].alwa), "{advice:?}");
    }

    #[test]
    fn small_objects_leave_the_log_when_their_index_would_fill_the_memory() {
        // 100 bytes each: 8 GiB of them have an index of 750 MiB, of a memory of 1 GiB.
        let small = load(&[(100, None, 5000), (8000, None, 5)]);
        let advice = advise(&situation(small.clone())).unwrap();
        let best = advice.choices[advice.best];
        assert_eq!(best.soc_layout, Some(SocLayout::Pages), "{advice:?}");
        assert!(best.soc_percent > 30.0 && best.alwa < 1.5, "{advice:?}");
        assert!(best.memory_bytes < advice.choices[0].memory_bytes / 2, "{advice:?}");
        // Where flash for them is more than 25 times memory, pages are no choice.
        let poor = Situation { memory_bytes: 256 << 20, ..situation(small.clone()) };
        let advice = advise(&poor).unwrap();
        let best = advice.choices[advice.best];
        assert_eq!(best.soc_layout, Some(SocLayout::Buckets), "{advice:?}");
        assert!(best.memory_bytes < advice.choices[0].memory_bytes / 4, "{advice:?}");
        assert!(best.alwa > 10.0, "that is what it costs: {advice:?}");
        // With twenty times the memory the log is better.
        let rich = Situation { memory_bytes: 20 << 30, ..situation(small) };
        assert_eq!(advise(&rich).unwrap().best, 0);
    }

    #[test]
    fn what_a_bucket_write_costs_is_measured() {
        let one = situation(load(&[(300, None, 2000)]));
        let stored = |layout| Situation { soc_layout: Some(layout), ..one.clone() };
        let written = |bytes, layout| Situation {
            soc_percent: 50.0,
            soc_written_bytes: bytes,
            ..stored(layout)
        };
        let alwa = |of: &Situation| of.choice(50.0, 640, true).alwa;
        let pages = stored(SocLayout::Pages);
        assert!((alwa(&pages) - 308.0 / 300.0 * 1.25).abs() < 0.01, "{}", alwa(&pages));
        let pages = written(900_000, SocLayout::Pages);
        assert!((alwa(&pages) - 1.5).abs() < 0.01, "{}", alwa(&pages));
        // What buckets wrote says nothing of pages.
        let other = written(2_000_000, SocLayout::Buckets).choice(50.0, 640, false);
        assert_eq!(other.soc_layout, Some(SocLayout::Pages));
        assert!((other.alwa - 308.0 / 300.0 * 1.25).abs() < 0.01, "{other:?}");
        let (one, with) = (stored(SocLayout::Buckets), written(2_000_000, SocLayout::Buckets));
        assert!((alwa(&one) - 4096.0 / 300.0).abs() < 0.1, "{}", alwa(&one));
        assert!((alwa(&with) - 1000.0 / 300.0).abs() < 0.1, "{}", alwa(&with));
    }

    #[test]
    fn another_layout_of_small_objects_is_named() {
        let small = load(&[(300, None, 5000), (8000, None, 50)]);
        let with = |layout, memory_bytes| Situation {
            soc_percent: 80.0,
            soc_layout: Some(layout),
            memory_bytes,
            ..situation(small.clone())
        };
        let hints = |of: &Situation| advise(of).unwrap().hints;
        let rich = hints(&with(SocLayout::Buckets, 1 << 30));
        assert!(
            rich[0].starts_with("soc.layout = \"pages\": flash for small objects is 6.4"),
            "{rich:?}"
        );
        let poor = hints(&with(SocLayout::Pages, 128 << 20));
        assert!(
            poor[0].starts_with("soc.layout = \"buckets\"") && poor[0].contains("51.2"),
            "{poor:?}"
        );
        assert_eq!(hints(&with(SocLayout::Pages, 1 << 30)), [""; 0]);
        assert_eq!(hints(&with(SocLayout::Buckets, 128 << 20)), [""; 0]);
    }

    #[test]
    fn objects_that_die_soon_among_others_get_a_class() {
        let mixed = load(&[(8000, Some(60), 2000), (8000, None, 3000)]);
        let filled = Situation { written_bytes: 8 << 30, ..situation(mixed) };
        let hints = advise(&filled).unwrap().hints;
        assert_eq!(hints.len(), 1, "{hints:?}");
        assert!(
            hints[0].contains("ttl_classes = [64]") && hints[0].contains("40 % of the bytes"),
            "{hints:?}"
        );
        // All of them die soon: there is nothing to keep apart.
        let all =
            Situation { written_bytes: 8 << 30, ..situation(load(&[(8000, Some(60), 5000)])) };
        assert_eq!(advise(&all).unwrap().hints, [""; 0]);
    }

    #[test]
    fn flash_that_is_never_read_should_take_less() {
        let unread = Situation {
            flash_hits: 100,
            written_bytes: 9 << 30,
            ..situation(load(&[(8000, None, 5000)]))
        };
        let hints = advise(&unread).unwrap().hints;
        assert!(hints[0].contains("reject-first") && hints[0].contains("98 %"), "{hints:?}");
        let young = Situation { written_bytes: 1 << 20, ..unread };
        assert_eq!(advise(&young).unwrap().hints, [""; 0], "flash was not filled once");
    }

    #[test]
    fn too_few_objects_tell_nothing() {
        assert_eq!(advise(&situation(load(&[(8000, None, 999)]))), None);
    }
}
