//! Options of the small-object engine.

use super::limits::percent;
use super::soc_eviction::SocEviction;
use super::soc_layout::SocLayout;
use crate::base::error::Error;

/// Up to this number of bytes of flash for each byte of memory, all objects go to the large-object engine.
const FLASH_PER_MEMORY_WITHOUT_SOC: u64 = 16;
/// Longest object (key and value) that a bucket can hold.
pub(crate) const OBJECT_BYTES_MAX: usize = 4050;
/// Default share of the small-object engine if there is more flash, in percent.
pub(crate) const PERCENT: f64 = 4.0;

/// Up to this number of bytes of flash for small objects for each byte of memory, these are stored in pages by set.
const FLASH_PER_MEMORY_WITH_PAGES: u64 = 25;
/// With less, regions of pages and their directories are too large a part of it.
const PAGES_BYTES_MIN: u64 = 64 << 20;
/// Most bytes of the log before buckets for each byte of memory, if the cache chooses its size: the index of its
/// objects takes a fifth of memory then (27 bits for 208 bytes).
const LOG_PER_MEMORY: f64 = 12.0;
/// Bytes of a page of a set.
const PAGE_BYTES: u64 = 4096;
/// With fewer pages, a set that begins a page early has lost too much of them.
const PAGES_PER_SET_MIN: u64 = 24;
/// With more pages, too many look-ups of keys that are not there read one.
const PAGES_PER_SET_MAX: u64 = 192;

/// Configuration of the small-object engine (SOC): a part of [`Config`](crate::Config).
#[derive(Debug, Clone, PartialEq)]
pub struct SocConfig {
    /// Share of the cache's flash for the small-object engine (SOC), in percent (0 to 100). Objects of at most
    /// [`SocConfig::max_object_bytes`] go there, all others to the large-object engine (LOC).
    ///
    /// `None`, the default, lets the cache decide by the sizes of flash and memory when it starts empty. Later openings
    /// keep the decision, even if the memory budget has changed:
    ///
    /// - With up to 16 bytes of flash for each byte of memory (of
    ///   [`Config::memory_bytes`](crate::Config::memory_bytes), else [`Config::dram_bytes`](crate::Config::dram_bytes))
    ///   there is no SOC. The LOC writes sequentially, a fifth of what buckets write, and serves several times as many
    ///   requests. Its index takes up to 12 bytes of memory per object: as much as the whole budget again if objects
    ///   are 200 bytes long, and a quarter of it at 800 bytes.
    /// - With more flash the SOC gets 4 %, so that the many small objects take only a few bits of memory each. Set it
    ///   to the share of small objects in all bytes that should stay.
    pub percent: Option<f64>,
    /// How it stores its objects. `None`, the default, lets the cache decide when it starts empty: pages if their share
    /// of flash is 64 MiB to 25 times memory, and no setting of buckets is given ([`SocConfig::log_percent`],
    /// [`SocConfig::dynamic_placement`], [`SocConfig::eviction`]); otherwise buckets. Later openings keep the decision.
    /// A cache that was made with another layout than the given one is refused, or starts empty
    /// ([`Config::on_change`](crate::Config::on_change)).
    pub layout: Option<SocLayout>,
    /// Pages of each set, if objects are stored in pages by set: at least 2. `None`, the default: 3 times the bytes of
    /// flash for small objects by the bytes of memory, 24 to 192. Each set has a page in memory, so fewer pages a set
    /// take more of it; more pages a set need more reads for keys that are not there, one in 65,536 for each object of
    /// the set.
    pub pages_per_set: Option<u32>,
    /// Share of the cache's flash for a log in front of the small-object engine's buckets, in percent; 0 means no log.
    /// `None`, the default, lets the cache decide when it starts empty: if flash for small objects is more than 25
    /// times memory, and at least 64 MiB, and no other setting of buckets is given, the log has half of the bytes of
    /// the buckets, and at most 12 times memory, because its objects take 27 bits of memory each. Later openings keep
    /// the decision.
    ///
    /// Small objects wait in the log until several of them can be written to their bucket together, which divides the
    /// engine's write amplification by several. 5 is a good start. Together with [`SocConfig::percent`] at most 100. A
    /// clean shutdown keeps the content of the log, a crash does not.
    pub log_percent: Option<f64>,
    /// When a segment of the log is reclaimed, a bucket is rewritten with its objects if the log holds at least this
    /// number of objects for it; at least 1. With fewer, the objects with hits stay in the log; the others move if
    /// their bucket has room for them, and are dropped if the bucket would have to evict for them. Default 2.
    pub log_threshold: u8,
    /// Objects of at most this size (key and value, in bytes) are small: they go to the SOC. At most 4050.
    pub max_object_bytes: u32,
    /// Whether the small-object engine writes frequently rewritten buckets under a placement handle of their own (FDP
    /// paper, EuroSys'25, section 5.5): those whose recent intervals between rewrites are less than half of the average
    /// bucket's. The engine detects these at run time, with 8 bytes of memory per bucket. If there are too few handles,
    /// they share one with other data, and [`Larder::placement`](crate::Larder::placement) tells with which.
    pub dynamic_placement: bool,
    /// Which object of a full bucket makes room for a new one. It may change with each opening: the content stays.
    pub eviction: SocEviction,
}

/// Whether flash for small objects is too large for pages.
fn is_beyond_pages(bytes: u64, memory_bytes: u64) -> bool {
    bytes > memory_bytes.saturating_mul(FLASH_PER_MEMORY_WITH_PAGES)
}

impl Default for SocConfig {
    fn default() -> Self {
        Self {
            percent: None,
            layout: None,
            pages_per_set: None,
            log_percent: None,
            log_threshold: 2,
            max_object_bytes: 640,
            dynamic_placement: false,
            eviction: SocEviction::default(),
        }
    }
}

impl SocConfig {
    /// The engine's share for these sizes of flash and memory, if the cache starts empty.
    pub(crate) fn percent_of(&self, flash_bytes: u64, memory_bytes: u64) -> f64 {
        let all_in_loc = flash_bytes <= memory_bytes.saturating_mul(FLASH_PER_MEMORY_WITHOUT_SOC);
        // A log is useless without buckets.
        let chosen = if all_in_loc && !self.has_log() { 0.0 } else { PERCENT };
        self.percent.unwrap_or(chosen)
    }

    /// How a cache that begins empty stores small objects, with this number of bytes of flash for them and of memory
    /// for the cache.
    ///
    /// ```
    /// use larder::{SocConfig, SocLayout};
    ///
    /// let soc = SocConfig::default();
    /// assert_eq!(soc.layout_for(25 << 30, 1 << 30), SocLayout::Pages);
    /// assert_eq!(soc.layout_for(26 << 30, 1 << 30), SocLayout::Buckets);
    /// let soc = SocConfig { log_percent: Some(5.0), ..soc };
    /// assert_eq!(soc.layout_for(25 << 30, 1 << 30), SocLayout::Buckets, "a log is before buckets");
    /// ```
    pub fn layout_for(&self, bytes: u64, memory_bytes: u64) -> SocLayout {
        let fits = bytes >= PAGES_BYTES_MIN && !is_beyond_pages(bytes, memory_bytes);
        let is_for_buckets = self.has_log() || self.has_bucket_settings();
        let chosen = if fits && !is_for_buckets { SocLayout::Pages } else { SocLayout::Buckets };
        self.layout.unwrap_or(chosen)
    }

    /// The share of the log, in percent, of a cache that begins empty, whose small objects have the share `percent` of
    /// `flash_bytes`: this number of bytes.
    #[allow(clippy::cast_precision_loss)] // sizes of drives
    pub(crate) fn log_percent_for(
        &self,
        (percent, bytes): (f64, u64),
        (flash_bytes, memory_bytes): (u64, u64),
    ) -> f64 {
        let is_chosen = self.layout.is_none()
            && !self.has_bucket_settings()
            && bytes >= PAGES_BYTES_MIN
            && is_beyond_pages(bytes, memory_bytes);
        let by_memory = memory_bytes as f64 * LOG_PER_MEMORY / flash_bytes.max(1) as f64 * 100.0;
        // Rounded down, so that a later opening finds the number again.
        let chosen = (percent / 2.0).min(by_memory).min(100.0 - percent).max(0.0);
        let chosen = if is_chosen { (chosen * 100.0).floor() / 100.0 } else { 0.0 };
        self.log_percent.unwrap_or(chosen)
    }

    /// Whether a log is asked for.
    fn has_log(&self) -> bool {
        self.log_percent.is_some_and(|percent| percent > 0.0)
    }

    /// Whether something else is asked for that only buckets have.
    fn has_bucket_settings(&self) -> bool {
        self.dynamic_placement || self.eviction != SocEviction::default()
    }

    /// The number of sets for this number of bytes of pages. `None` if it is too large.
    pub(crate) fn sets_for(&self, bytes: u64, memory_bytes: u64) -> Option<u32> {
        let pages = bytes / PAGE_BYTES;
        let automatic = u128::from(bytes) * 3 / u128::from(memory_bytes.max(1));
        let automatic = u64::try_from(automatic)
            .unwrap_or(u64::MAX)
            .clamp(PAGES_PER_SET_MIN, PAGES_PER_SET_MAX);
        let pages_per_set = self.pages_per_set.map_or(automatic, u64::from);
        u32::try_from((pages / pages_per_set.max(1)).max(1)).ok().filter(|&sets| sets < u32::MAX)
    }

    /// Refuses settings that cannot work on any device.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let buckets = self.percent.unwrap_or(PERCENT);
        percent("soc.percent", buckets)?;
        let log = self.log_percent.unwrap_or(0.0);
        percent("soc.log_percent", log)?;
        if log > 0.0 && buckets == 0.0 {
            return Err(Error::config(format!(
                "soc.log_percent = {log}: with soc.percent = 0 there are no buckets that the log \
                 could write to; set soc.percent too, or soc.log_percent = 0"
            )));
        }
        if buckets + log > 100.0 {
            return Err(Error::config(format!(
                "soc.percent = {buckets} and soc.log_percent = {log}: must be at most 100 together"
            )));
        }
        self.check_pages()?;
        if self.log_threshold == 0 {
            return Err(Error::config("soc.log_threshold = 0: must be at least 1"));
        }
        let bytes = self.max_object_bytes;
        if bytes == 0 || bytes as usize > OBJECT_BYTES_MAX {
            return Err(Error::config(format!(
                "soc.max_object_bytes = {bytes}: must be 1 to {OBJECT_BYTES_MAX}, what a bucket can hold"
            )));
        }
        Ok(())
    }

    /// Refuses settings of buckets together with pages.
    fn check_pages(&self) -> Result<(), Error> {
        if self.pages_per_set.is_some_and(|pages| pages < 2) {
            return Err(Error::config("soc.pages_per_set: must be at least 2"));
        }
        if self.layout != Some(SocLayout::Pages) {
            return Ok(());
        }
        let is_of_buckets = [
            (self.has_log(), "soc.log_percent", "0"),
            (self.dynamic_placement, "soc.dynamic_placement", "false"),
            (self.eviction != SocEviction::default(), "soc.eviction", "fifo"),
        ];
        match is_of_buckets.into_iter().find(|(is_set, ..)| *is_set) {
            Some((_, name, unset)) => Err(Error::config(format!(
                "{name} is a setting of buckets, and soc.layout = pages has none; set {name} = {unset}, or \
                 soc.layout = buckets"
            ))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_chosen_beyond_the_range_of_pages_and_bounded_by_memory() {
        let log = |soc: &SocConfig, percent: u32, times: u64| {
            let bytes = (times << 30) * u64::from(percent) / 100;
            soc.log_percent_for((percent.into(), bytes), (times << 30, 1 << 30))
        };
        let soc = SocConfig::default();
        assert_eq!(log(&soc, 50, 50), 0.0, "25 times memory: pages");
        let edge = soc.log_percent_for((50.0, 25 << 30), ((50 << 30) + 1, 1 << 30));
        assert_eq!(edge, 0.0, "half a byte more than 25 times memory: the same as for pages");
        assert_eq!(log(&soc, 50, 51), 23.52, "12 times memory");
        assert_eq!(log(&soc, 4, 640), 1.87, "the same");
        assert_eq!(log(&soc, 90, 28), 10.0, "what is left");
        assert_eq!(log(&SocConfig { log_percent: Some(0.0), ..soc.clone() }, 50, 60), 0.0);
        assert_eq!(log(&SocConfig { dynamic_placement: true, ..soc.clone() }, 50, 60), 0.0);
        assert_eq!(log(&SocConfig { layout: Some(SocLayout::Buckets), ..soc }, 50, 60), 0.0);
    }
}
