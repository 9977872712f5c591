//! Options of the large-object engine.

use std::fmt;
use std::str::FromStr;

use larder_log::RegionEviction;

use crate::base::error::Error;

/// What the index counts the hits of an object to.
pub(crate) const HITS_MAX: u8 = 7;
const TTL_CLASSES_MAX: usize = 8;

/// Upper bound of `region_bytes` and `write_bytes`.
const REGION_BYTES_MAX: u32 = 1 << 30;

/// Configuration of the large-object engine (LOC): a part of [`Config`](crate::Config).
#[derive(Debug, Clone, PartialEq)]
pub struct LocConfig {
    /// Size of a region of the large-object engine in bytes, a multiple of 4096 of at most 1 GiB; the longest object
    /// stored in one piece is a little shorter. `None` picks 1 to 32 MiB according to the size of the flash.
    pub region_bytes: Option<u32>,
    /// Bytes of a region that are written at a time, a multiple of 4096 of at most 1 GiB; never more than a region.
    /// Default 256 KiB.
    pub write_bytes: u32,
    /// Which region the large-object engine reclaims first.
    pub eviction: RegionEviction,
    /// Which objects of a reclaimed region are reinserted, that is, kept by writing them again.
    pub reinsertion: Reinsertion,
    /// Upper bounds of classes of times to live (TTL), in seconds, ascending, at most 8. Large objects of a class fill
    /// regions of their own, under a placement handle of their own where the device has one left. An object goes to the
    /// first class whose bound is at least its remaining time to live. Objects that live longer or never expire share
    /// the other regions. A region in which all objects have expired is refilled before any other region is reclaimed.
    /// Each class takes the memory of one write ([`LocConfig::write_bytes`]) and a little more; and with
    /// [`CrashSafety::Process`](crate::CrashSafety::Process) a `get` that finds an expired large object waits for its
    /// tombstone. Empty, the default, means no classes. It cannot be combined with [`LocConfig::ru_aware_eviction`].
    pub ttl_classes: Vec<u32>,
    /// Whether the large-object engine evicts by whole reclaim units of the device: when it needs a region, it reclaims
    /// all regions of a unit and deallocates the unit's bytes (FDP paper, EuroSys'25, section 5.5). The device then
    /// finds whole units dead; in return, the cache evicts up to a unit of objects earlier than necessary.
    /// [`LocConfig::reinsertion`] keeps at most half a region of objects per unit instead of per region.
    ///
    /// Opening fails if the device does not report the size of its units, or if `region_bytes` neither divides a unit
    /// nor is a whole number of units; `None` picks a size that fits.
    pub ru_aware_eviction: bool,
    /// After a clean shutdown, an opening indexes the large objects before it returns if there are at most this number
    /// of objects, and at most one region for each 64 of it. If there are more, the cache serves at once, and the
    /// objects are found again in the background as after a crash: by [`Larder::rebuild`](crate::Larder::rebuild), and
    /// by requests that miss or that change something. 0 never waits, [`u64::MAX`] always. Default 65,536, which takes
    /// a few hundredths of a second.
    pub eager_index_objects: u64,
}

impl Default for LocConfig {
    fn default() -> Self {
        Self {
            region_bytes: None,
            write_bytes: 256 << 10,
            eviction: RegionEviction::default(),
            reinsertion: Reinsertion::default(),
            ttl_classes: Vec::new(),
            ru_aware_eviction: false,
            eager_index_objects: 1 << 16,
        }
    }
}

impl LocConfig {
    /// Refuses settings that cannot work on any device.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let written =
            [("loc.region_bytes", self.region_bytes), ("loc.write_bytes", Some(self.write_bytes))];
        for (name, bytes) in written {
            let Some(bytes) = bytes else { continue };
            if bytes == 0 || !bytes.is_multiple_of(4096) || bytes > REGION_BYTES_MAX {
                return Err(Error::config(format!(
                    "{name} = {bytes}: must be a multiple of 4096, from 4096 to {REGION_BYTES_MAX}"
                )));
            }
        }
        self.check_reinsertion()?;
        self.check_ttl_classes()
    }

    fn check_reinsertion(&self) -> Result<(), Error> {
        match self.reinsertion {
            Reinsertion::Hits(hits) if hits == 0 || hits > HITS_MAX => Err(Error::config(format!(
                "loc.reinsertion = hits:{hits}: must be 1 to {HITS_MAX}, what the index counts to"
            ))),
            Reinsertion::Percent(percent) if percent == 0 || percent > 100 => {
                Err(Error::config(format!("loc.reinsertion = percent:{percent}: must be 1 to 100")))
            }
            Reinsertion::None if self.eviction == RegionEviction::SegmentedFifo => {
                Err(Error::config(
                    "loc.eviction = segmented-fifo: the upper segments hold what reinsertion \
                     keeps; set loc.reinsertion too (hits:1 is a good start), or use fifo",
                ))
            }
            _ => Ok(()),
        }
    }

    fn check_ttl_classes(&self) -> Result<(), Error> {
        let classes = &self.ttl_classes;
        if classes.len() > TTL_CLASSES_MAX {
            return Err(Error::config(format!(
                "loc.ttl_classes: {} classes, must be at most {TTL_CLASSES_MAX}",
                classes.len()
            )));
        }
        if classes.first() == Some(&0) || !classes.is_sorted_by(|a, b| a < b) {
            return Err(Error::config(format!(
                "loc.ttl_classes = {classes:?}: must be seconds from 1 on, in ascending order"
            )));
        }
        if self.ru_aware_eviction && !classes.is_empty() {
            return Err(Error::config(
                "loc.ttl_classes and loc.ru_aware_eviction: classes would share reclaim units, which are \
                 reclaimed whole; use one of them",
            ));
        }
        if self.ru_aware_eviction && self.eviction == RegionEviction::SegmentedFifo {
            return Err(Error::config(
                "loc.eviction = segmented-fifo and loc.ru_aware_eviction: segments would share \
                 reclaim units, which are reclaimed whole; use one of them",
            ));
        }
        Ok(())
    }
}

/// Which objects of a reclaimed region are kept by writing them again; at most half a region of them.
///
/// ```
/// use larder::Reinsertion;
///
/// assert_eq!("hits:2".parse(), Ok(Reinsertion::Hits(2)));
/// assert_eq!(Reinsertion::ReuseTime.to_string(), "reuse-time");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Reinsertion {
    /// None.
    #[default]
    None,
    /// Objects with at least this number of hits since they were last written, 1 to 7.
    Hits(u8),
    /// Objects whose next hit is still expected: the time since the last hit is at most the average interval between
    /// hits. An object that was requested frequently and then no longer is not kept. Time is counted in fillings of
    /// regions, in quarters of a round of the log.
    ReuseTime,
    /// This percentage of all objects, chosen at random, 1 to 100.
    Percent(u8),
}

impl fmt::Display for Reinsertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Hits(hits) => write!(f, "hits:{hits}"),
            Self::ReuseTime => f.write_str("reuse-time"),
            Self::Percent(percent) => write!(f, "percent:{percent}"),
        }
    }
}

impl FromStr for Reinsertion {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().ok();
        let parsed = match s.split_once(':') {
            None if s == "none" => Some(Self::None),
            None if s == "reuse-time" => Some(Self::ReuseTime),
            Some(("hits", hits)) => number(hits).map(Self::Hits),
            Some(("percent", percent)) => number(percent).map(Self::Percent),
            _ => None,
        };
        parsed.ok_or_else(|| {
            format!(
                "\"{s}\" is not a reinsertion policy: use none, hits:N (1 to 7), reuse-time or \
                 percent:P (1 to 100)"
            )
        })
    }
}
