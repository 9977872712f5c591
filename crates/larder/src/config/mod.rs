//! Configuration of a cache.

// Uses `base` and, for the rating of a drive, `observe`. The wings above take their settings, and the limits that the
// settings are checked against, from here; a wing whose format sets such a limit asserts that it is the same.
//
// Invariants:
//
// 1. A setting that cannot work is refused before the device is touched, with its name, its value and what is legal.
// 2. What is written as text is read back as the same value.
//
// | file | what it is |
// |---|---|
// | `soc`, `loc`, `array` | options of each engine |
// | `shares` | how the engines share the flash |
// | `admission`, `dram_policy` | which items go to flash, and which leave DRAM first |
// | `soc_eviction` | which object of a full bucket makes room |
// | `crash_safety`, `on_change`, `demotions` | what a crash leaves, what a changed setting does, what sends items |
// | `limits` | checks of single settings |

mod admission;
mod array;
mod crash_safety;
mod demotions;
mod dram_policy;
mod limits;
mod loc;
mod on_change;
mod shares;
mod soc;
mod soc_eviction;
mod soc_layout;

use std::time::Duration;

use crate::base::error::Error;
use crate::base::removal::RemovalListener;
use crate::observe::endurance::Endurance;
pub(crate) use admission::ASKS_MAX;
pub use admission::AdmissionPolicy;
pub use array::ArrayConfig;
pub use crash_safety::CrashSafety;
pub use demotions::Demotions;
pub use dram_policy::DramPolicy;
pub use larder_log::RegionEviction;
use limits::percent;
pub(crate) use limits::{DRAM_BYTES_MAX, DRAM_BYTES_MIN, check_dram, check_memory};
pub(crate) use loc::HITS_MAX;
pub use loc::{LocConfig, Reinsertion};
pub use on_change::OnChange;
pub use soc::SocConfig;
pub(crate) use soc::{OBJECT_BYTES_MAX as SOC_OBJECT_BYTES_MAX, PERCENT as SOC_PERCENT};
pub use soc_eviction::SocEviction;
pub use soc_layout::SocLayout;
pub(crate) use soc_layout::{BUCKET_BYTES as SOC_BUCKET_BYTES, RECORD_BYTES as SOC_RECORD_BYTES};

/// Objects on their way to flash may take this part of DRAM's budget on top of it, but at least the constant below.
const DEMOTING_PART: u64 = 4;
const DEMOTING_BYTES_MIN: u64 = 16 << 20;

/// Configuration of a cache. `Config::default()` is a safe start; set at least
/// [`Config::dram_bytes`].
///
/// ```
/// use larder::{Config, CrashSafety, SocConfig};
///
/// let config = Config {
///     dram_bytes: 1 << 30,
///     soc: SocConfig { max_object_bytes: 1024, ..SocConfig::default() },
///     crash_safety: CrashSafety::Off,
///     admission: "random:0.5".parse()?,
///     ..Config::default()
/// };
/// assert_eq!(config.soc.percent, None);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Budget of the DRAM tier in bytes: keys, values and the tier's own overhead. Like all memory budgets here, from
    /// 8 KiB (enough for an object of 3 KiB) to 1 TiB; use [`Shards`](crate::Shards) for more. 0 is legal too: then
    /// nothing stays in DRAM and everything goes to flash.
    pub dram_bytes: u64,
    /// Budget of all memory of the cache, in bytes: the DRAM tier plus the memory that flash needs, which grows with
    /// its content (index, bloom filters, tombstones, admission, regions in flight). The tier gets the rest, but at
    /// least an eighth, and [`Config::dram_bytes`] is not used. While the rest is at least an eighth, the sum of
    /// [`Stats::dram_used_bytes`](crate::Stats::dram_used_bytes) and
    /// [`Stats::flash_memory_bytes`](crate::Stats::flash_memory_bytes) stays within 2 percent of the budget. The
    /// opening fails if flash needs more at that time, its region buffers included. `None`: the tier gets
    /// `dram_bytes`, and flash takes its memory on top.
    pub memory_bytes: Option<u64>,
    /// Which item leaves DRAM first.
    pub dram_policy: DramPolicy,
    /// Share of the device that the cache uses, in percent (more than 0, at most 100).
    pub utilization_percent: f64,
    /// The small-object engine.
    pub soc: SocConfig,
    /// The large-object engine.
    pub loc: LocConfig,
    /// The array engine, for large objects, next to or instead of the large-object engine. Off by default.
    pub array: ArrayConfig,
    /// What flash keeps after a crash.
    pub crash_safety: CrashSafety,
    /// Bytes of the tombstone log: a multiple of 4096, from 16 KiB to 1 GiB. `None`: 1/256 of the cache, but at least
    /// 64 KiB and at most 128 MiB. The size limits the number of dead objects on flash: one for each 16 bytes of the
    /// log. Beyond half of that number, regions are given up early. Without crash safety there is no log.
    pub tombstone_log_bytes: Option<u32>,
    /// Which of the items that DRAM evicts are written to flash.
    pub admission: AdmissionPolicy,
    /// Maximum memory in bytes for what admission remembers of keys, at least 4096. Policies without memory take
    /// none. With less than 4 bytes per KiB of flash, keys are forgotten earlier.
    pub admission_memory_bytes: u64,
    /// The drive's endurance rating. With it, [`Stats::drive_life`](crate::Stats::drive_life) forecasts the remaining
    /// life.
    pub endurance: Option<Endurance>,
    /// Whether streams of different lifetimes (SOC, LOC, …) are written under placement handles of their own, as far
    /// as the device has handles: see [`plan`](crate::plan).
    pub placement: bool,
    /// Start empty, whatever an earlier cache left on the device. An opening still refuses a device with data of
    /// other programs.
    pub start_empty: bool,
    /// What an opening does if a setting that determines the layout of the device has changed, so that the content of
    /// the earlier cache cannot be found: [`Config::utilization_percent`], [`SocConfig::percent`],
    /// [`SocConfig::log_percent`], [`LocConfig::region_bytes`], [`ArrayConfig::percent`],
    /// [`ArrayConfig::region_bytes`], [`ArrayConfig::mean_object_bytes`], [`ArrayConfig::ttl_groups`], whether there
    /// is a tombstone log ([`Config::crash_safety`]), sometimes [`LocConfig::ru_aware_eviction`]. All other settings
    /// may change with every opening.
    ///
    /// A larger device is no such change: the cache goes on with its old size
    /// ([`Larder::unused_bytes`](crate::Larder::unused_bytes)), unless this is `Discard`.
    pub on_change: OnChange,
    /// Timeout of a device request: this long for each 16 MiB or part of it, and twelve times as long for a flush or
    /// a deallocation. `None` waits for ever. Default 5 seconds.
    ///
    /// A request that exceeds its timeout has failed and is counted ([`Stats::device_timeouts`]). It may still
    /// complete, so no other request is sent to its bytes until it has ended. While the device answers nothing, no
    /// further request is sent to it: the cache goes on in DRAM, and it drops and counts what DRAM evicts.
    ///
    /// [`Stats::device_timeouts`]: crate::Stats::device_timeouts
    pub flash_wait: Option<Duration>,
    /// What sends objects from DRAM to flash: a thread of the cache (the default), or the threads of the callers.
    pub demotions: Demotions,
    /// Maximum memory in bytes, above DRAM's budget, of objects on their way to flash: those that DRAM cannot hold or
    /// has no room for, and those for flash only ([`Tiers::FlashOnly`](crate::Tiers)). A longer object goes alone. A
    /// caller that would exceed the limit waits; see [`Config::demotion_wait`]. `None`, the default, is a quarter of
    /// DRAM's budget, but at least 16 MiB. Evicted objects stay part of DRAM's budget until flash has them, at most a
    /// quarter of the budget.
    ///
    /// [`Stats::demoting_bytes`](crate::Stats::demoting_bytes) reports the current amount.
    pub demoting_bytes_max: Option<u64>,
    /// Maximum time that a storing call waits for room while evicted objects are still on their way to flash. If
    /// flash takes longer, it is too slow for the load, and the call is refused. A set then stores nothing, leaves no
    /// older value behind and is counted ([`Stats::rejected_demotions_objects`]); an update returns
    /// [`ErrorKind::Busy`](crate::ErrorKind::Busy) and changes nothing. With 0 a call that would have to wait is
    /// refused at once. Default 5 seconds.
    ///
    /// [`Stats::rejected_demotions_objects`]: crate::Stats::rejected_demotions_objects
    pub demotion_wait: Duration,
    /// Whether the cache measures the latency of its calls ([`Stats::latencies`]). That takes two clock readings per
    /// call. If off, a hit in DRAM has no extra cost.
    ///
    /// [`Stats::latencies`]: crate::Stats::latencies
    pub latency_histograms: bool,
    /// Whether a hit records its time ([`ValueMeta::since_access`](crate::ValueMeta::since_access)): one clock
    /// reading per hit, and a write to the item at most once a second. The host program may pass a
    /// [`Clock`](crate::Clock) that is cheaper than the system's. Off by default: then a hit reads the clock only if
    /// its value expires.
    pub access_times: bool,
    /// Called for each object that leaves the cache, with the reason. `None` costs nothing.
    pub removal_listener: Option<RemovalListener>,
    /// Seed of all random choices, except those that [`Config::hash_seed`] covers.
    pub seed: u64,
    /// Seed of the key hash, which determines the place of every object. `None` draws an unpredictable seed whenever
    /// a cache begins empty, so that no client can make keys that collide; a client that knows the seed can. Set it
    /// only where a run must be repeatable. It has no effect on a cache that is already on flash: that cache keeps
    /// its seed.
    pub hash_seed: Option<u64>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            dram_bytes: 64 << 20,
            memory_bytes: None,
            dram_policy: DramPolicy::default(),
            utilization_percent: 100.0,
            soc: SocConfig::default(),
            loc: LocConfig::default(),
            array: ArrayConfig::default(),
            crash_safety: CrashSafety::default(),
            tombstone_log_bytes: None,
            admission: AdmissionPolicy::All,
            admission_memory_bytes: 64 << 20,
            endurance: None,
            placement: true,
            start_empty: false,
            on_change: OnChange::default(),
            flash_wait: Some(Duration::from_secs(5)),
            demotions: Demotions::default(),
            demoting_bytes_max: None,
            demotion_wait: Duration::from_secs(5),
            latency_histograms: false,
            access_times: false,
            removal_listener: None,
            seed: 0,
            hash_seed: None,
        }
    }
}

impl Config {
    /// Limit of bytes on their way to flash above a DRAM budget of `dram_bytes`.
    pub(crate) fn demoting_bytes(&self, dram_bytes: u64) -> u64 {
        self.demoting_bytes_max.unwrap_or(DEMOTING_BYTES_MIN.max(dram_bytes / DEMOTING_PART))
    }

    /// The memory budget: `memory_bytes` if it is set, else `dram_bytes`.
    pub(crate) fn memory(&self) -> u64 {
        self.memory_bytes.unwrap_or(self.dram_bytes)
    }

    /// Refuses settings that cannot work on any device. Every opening does the same and checks the device too.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config): names the setting, its value and the legal values.
    ///
    /// ```
    /// use larder::{ArrayConfig, Config};
    ///
    /// let array = ArrayConfig { percent: 101.0, ..ArrayConfig::default() };
    /// let error = Config { array, ..Config::default() }.check().unwrap_err();
    /// assert!(error.to_string().contains("array.percent = 101"), "{error}");
    /// ```
    pub fn check(&self) -> Result<(), Error> {
        percent("utilization_percent", self.utilization_percent)?;
        if self.utilization_percent == 0.0 {
            return Err(Error::config("utilization_percent = 0: must be more than 0"));
        }
        self.soc.check()?;
        self.loc.check()?;
        self.array.check()?;
        self.check_shares()?;
        if self.flash_wait == Some(Duration::ZERO) {
            return Err(Error::config("flash_wait = 0s: must be more than 0; None waits for ever"));
        }
        self.check_sizes()?;
        if let Some(endurance) = &self.endurance {
            endurance.check()?;
        }
        self.admission.check()
    }

    fn check_sizes(&self) -> Result<(), Error> {
        if let Some(bytes) = self.tombstone_log_bytes
            && (!bytes.is_multiple_of(4096) || !(16 << 10..=1 << 30).contains(&bytes))
        {
            return Err(Error::config(format!(
                "tombstone_log_bytes = {bytes}: must be a multiple of 4096, from 16384 to 1073741824"
            )));
        }
        match self.memory_bytes {
            Some(bytes) => check_memory("memory_bytes", bytes, DRAM_BYTES_MIN)?,
            None => check_dram(self.dram_bytes)?,
        }
        check_memory("admission_memory_bytes", self.admission_memory_bytes, 4096)
    }
}
