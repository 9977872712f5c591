//! What a user can choose.

mod crash_safety;
mod demotions;
mod dram_policy;
mod on_change;
mod shares;

use std::time::Duration;

use crate::admission::AdmissionPolicy;
pub use crate::array::config::ArrayConfig;
pub(crate) use crate::dram::{BYTES_MAX as DRAM_BYTES_MAX, BYTES_MIN as DRAM_BYTES_MIN};
use crate::endurance::Endurance;
use crate::error::Error;
pub use crate::loc::config::{LocConfig, Reinsertion};
use crate::removal::RemovalListener;
pub use crate::soc::config::SocConfig;
pub use crash_safety::CrashSafety;
pub use demotions::Demotions;
pub use dram_policy::DramPolicy;
pub use larder_log::RegionEviction;
pub use on_change::OnChange;

/// Of DRAM's budget so much may be on its way to flash above it, but so many bytes at least.
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
    /// Budget of the DRAM tier in bytes: keys, values and what the tier needs to keep them. From 8 KiB, of
    /// which an object gets 3, to 1 TiB, as all budgets of memory here; use [`Shards`](crate::Shards) for
    /// more. 0 is legal too: nothing stays in DRAM, all goes to flash.
    pub dram_bytes: u64,
    /// Budget of all memory of the cache, in bytes: the DRAM tier, and beside it what flash needs, which
    /// grows with what is on it (index, bloom filters, tombstones, admission, regions on their way).
    /// The tier then gets what the others leave, at least an eighth, and
    /// [`Config::dram_bytes`] is not used. As long as they leave that, the sum of
    /// [`Stats::dram_used_bytes`](crate::Stats::dram_used_bytes) and
    /// [`Stats::flash_memory_bytes`](crate::Stats::flash_memory_bytes) stays within 2 percent of it.
    /// Refused if flash needs more when the cache is opened, with the buffers of its regions. `None`:
    /// `dram_bytes` is the tier's, the others come on top.
    pub memory_bytes: Option<u64>,
    /// Which item leaves DRAM first.
    pub dram_policy: DramPolicy,
    /// Share of the device that the cache uses, in percent (more than 0, at most 100).
    pub utilization_percent: f64,
    /// The small-object engine.
    pub soc: SocConfig,
    /// The large-object engine.
    pub loc: LocConfig,
    /// The array engine, for large objects beside or instead of the large-object engine. Off by default.
    pub array: ArrayConfig,
    /// What a crash leaves of flash.
    pub crash_safety: CrashSafety,
    /// Bytes of the tombstone log, a multiple of 4096, from 16 KiB to 1 GiB; `None`: a 256th of the
    /// cache, but 64 KiB at least and 128 MiB at most. It bounds how much may be dead on flash: a 16th of
    /// it in bytes is that in objects, and beyond half of that regions are given up before their time.
    /// Without crash safety there is none.
    pub tombstone_log_bytes: Option<u32>,
    /// Which of the items that DRAM evicts are written to flash.
    pub admission: AdmissionPolicy,
    /// Most memory that admission takes for what it remembers of keys, in bytes, at least 4096. The
    /// policies that remember nothing take none. With less than 4 bytes per KiB of flash, keys are
    /// forgotten earlier.
    pub admission_memory_bytes: u64,
    /// What the drive is rated for. Then [`Stats::drive_life`](crate::Stats::drive_life) forecasts how
    /// long it lasts.
    pub endurance: Option<Endurance>,
    /// Whether streams of different lifetimes (SOC, LOC, …) are written under placement handles of
    /// their own, as far as the device has handles: see [`plan`](crate::plan).
    pub placement: bool,
    /// Start empty, whatever an earlier cache left on the device. Data of other programs is refused
    /// all the same.
    pub start_empty: bool,
    /// What to do if a setting has changed by which the device is divided, so that what an earlier cache left cannot
    /// be found again: [`Config::utilization_percent`], [`SocConfig::percent`], [`SocConfig::log_percent`],
    /// [`LocConfig::region_bytes`], [`ArrayConfig::percent`], [`ArrayConfig::region_bytes`],
    /// [`ArrayConfig::mean_object_bytes`], [`ArrayConfig::ttl_groups`], whether there is a tombstone log
    /// ([`Config::crash_safety`]), sometimes [`LocConfig::ru_aware_eviction`]. All others can change with every
    /// opening.
    ///
    /// A device that has grown is no such change: the cache goes on with what it had
    /// ([`Larder::unused_bytes`](crate::Larder::unused_bytes)), unless this is `Discard`.
    pub on_change: OnChange,
    /// How long the cache waits for the device to end a request: as long again for every further 16 MiB
    /// of it, and twelve times as long for a flush or a deallocation. `None` waits for ever. Default 5
    /// seconds.
    ///
    /// What has not ended by then has failed, and is counted ([`Stats::device_timeouts`]); it may still
    /// happen, so nothing else is sent to its bytes until it has ended. As long as the device answers
    /// nothing, no further request is sent to it: the cache goes on in DRAM, and what DRAM evicts is
    /// dropped, and counted.
    ///
    /// [`Stats::device_timeouts`]: crate::Stats::device_timeouts
    pub flash_wait: Option<Duration>,
    /// Who sends to flash what leaves DRAM: a thread of the cache, by default, or those who use it.
    pub demotions: Demotions,
    /// Most memory, in bytes, that objects take above DRAM's budget while they are on their way to flash:
    /// those that DRAM cannot hold or has no room for, and those for flash only
    /// ([`Tiers::FlashOnly`](crate::Tiers)). An object that is longer goes alone. Who brings more waits;
    /// see [`Config::demotion_wait`]. `None`, the default, is a quarter of DRAM's budget, but 16 MiB at
    /// least. What DRAM evicts is part of its budget until flash has it, at most a quarter of it.
    ///
    /// [`Stats::demoting_bytes`](crate::Stats::demoting_bytes) says how much it is.
    pub demoting_bytes_max: Option<u64>,
    /// How long a call that stores something waits, at most, where there is no room because what left DRAM
    /// is still on its way to flash: longer than flash takes for it means that flash is too slow for what
    /// comes. Then it is refused: a set stores nothing, leaves no older value behind and counts
    /// ([`Stats::rejected_demotions_objects`]); an update returns
    /// [`ErrorKind::Busy`](crate::ErrorKind::Busy) and changes nothing. 0 refuses as soon as waiting would be
    /// needed. Default 5 seconds.
    ///
    /// [`Stats::rejected_demotions_objects`]: crate::Stats::rejected_demotions_objects
    pub demotion_wait: Duration,
    /// Whether the cache measures how long its calls take ([`Stats::latencies`]): two looks at the
    /// clock a call. Off, a hit in DRAM costs no more than without.
    ///
    /// [`Stats::latencies`]: crate::Stats::latencies
    pub latency_histograms: bool,
    /// Whether a hit notes when it was ([`ValueMeta::since_access`](crate::ValueMeta::since_access)): a look at the
    /// clock for each, and a write to its item at most once a second. Whoever hosts the cache may pass a
    /// [`Clock`](crate::Clock) that is cheaper than the system's. Off by default: a hit asks for the time only if its
    /// value expires.
    pub access_times: bool,
    /// Who is told of each object that leaves the cache, and why; `None` is nobody, and costs nothing.
    pub removal_listener: Option<RemovalListener>,
    /// Seed of everything random, but for what [`Config::hash_seed`] says.
    pub seed: u64,
    /// Seed of the hash of keys, by which everything is found. `None` draws one that nobody can foresee
    /// whenever a cache begins empty, so that no client can make keys that share a place: who knows the
    /// seed can. Set it only where a run is to be repeated exactly. It says nothing for a cache that is
    /// on flash already: that keeps the seed that it began with.
    pub hash_seed: Option<u64>,
    /// Share of the cache's flash of an engine that shows what an engine needs, in percent.
    #[cfg(test)]
    pub(crate) plain_percent: u8,
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
            #[cfg(test)]
            plain_percent: 0,
        }
    }
}

impl Config {
    /// What may be on its way to flash above a budget of so many bytes.
    pub(crate) fn demoting_bytes(&self, dram_bytes: u64) -> u64 {
        self.demoting_bytes_max.unwrap_or(DEMOTING_BYTES_MIN.max(dram_bytes / DEMOTING_PART))
    }

    /// Budget of memory, of whatever it is a budget.
    pub(crate) fn memory(&self) -> u64 {
        self.memory_bytes.unwrap_or(self.dram_bytes)
    }

    /// Refuses what cannot work on any device. So does whatever opens a cache, which looks at the device too.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config): the setting, its value, and what would do.
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

/// Refuses what is no share in percent.
pub(crate) fn percent(name: &str, value: f64) -> Result<(), Error> {
    if (0.0..=100.0).contains(&value) {
        return Ok(());
    }
    Err(Error::config(format!("{name} = {value}: must be 0 to 100")))
}

/// Refuses a budget of memory that cannot be meant, or would end in the allocator.
pub(crate) fn check_memory(name: &str, bytes: u64, least: u64) -> Result<(), Error> {
    if (least..=DRAM_BYTES_MAX).contains(&bytes) {
        return Ok(());
    }
    Err(Error::config(format!("{name} = {bytes}: must be {least} to {DRAM_BYTES_MAX}")))
}

/// The same for the tier, which may be none at all.
pub(crate) fn check_dram(bytes: u64) -> Result<(), Error> {
    if bytes == 0 || (DRAM_BYTES_MIN..=DRAM_BYTES_MAX).contains(&bytes) {
        return Ok(());
    }
    Err(Error::config(format!(
        "dram_bytes = {bytes}: must be {DRAM_BYTES_MIN} to {DRAM_BYTES_MAX}, or 0, with which everything \
         goes to flash"
    )))
}
