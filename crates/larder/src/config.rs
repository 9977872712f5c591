//! What a user can choose.

use std::str::FromStr;

use crate::admission::AdmissionPolicy;
use crate::endurance::Endurance;
use crate::error::Error;

/// Configuration of a cache. `Config::default()` is a safe start; set at least
/// [`Config::dram_bytes`].
///
/// ```
/// use larder::{Config, CrashSafety};
///
/// let config = Config {
///     dram_bytes: 1 << 30,
///     soc_max_object_bytes: 1024,
///     crash_safety: CrashSafety::Off,
///     admission: "random:0.5".parse()?,
///     ..Config::default()
/// };
/// assert_eq!(config.soc_percent, 4.0);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Budget of the DRAM tier in bytes: keys, values and what the tier needs to keep them.
    pub dram_bytes: u64,
    /// Which item leaves DRAM first.
    pub dram_policy: DramPolicy,
    /// Share of the device that the cache uses, in percent (more than 0, at most 100).
    pub utilization_percent: f64,
    /// Share of the cache's flash that the small-object engine gets, in percent (0 to 100).
    pub soc_percent: f64,
    /// Share of the cache's flash that goes to a log in front of the small-object engine's buckets,
    /// in percent; 0 is no log. Small objects wait in it until several of them can be written to
    /// their bucket together, which divides the engine's write amplification by several. A log of 5
    /// is a good start. Together with [`Config::soc_percent`] at most 100. A clean shutdown keeps what is
    /// in the log, a crash does not.
    pub soc_log_percent: f64,
    /// How many objects of one bucket the log must hold for the bucket to be rewritten with them
    /// when their segment is reclaimed, at least 1. Of fewer, those are kept in the log that were
    /// asked for, and the others are dropped. Default 2.
    pub soc_log_threshold: u8,
    /// Objects of at most this size (key and value, in bytes) are small: they go to the SOC. At
    /// most 4050.
    pub soc_max_object_bytes: u32,
    /// Size of a region of the large-object engine in bytes, a multiple of 4096; the longest object
    /// is a little shorter. `None` picks 1 to 32 MiB by the size of the flash.
    pub region_bytes: Option<u32>,
    /// How much of a region is written at a time, in bytes, a multiple of 4096. Default 256 KiB.
    pub region_write_bytes: u32,
    /// Which region the large-object engine reclaims first.
    pub region_eviction: RegionEviction,
    /// When a region is reclaimed, objects with at least this many hits are kept by writing them
    /// again. 0 keeps none; at most 7.
    pub reinsertion_hits: u8,
    /// Whether the large-object engine evicts by whole reclaim units of the device: when it needs a
    /// region it reclaims all regions of a unit and deallocates the unit's bytes (FDP paper,
    /// EuroSys'25, section 5.5). The device then finds whole units dead; the cache gives up to a
    /// unit of objects away early. Of [`Config::reinsertion_hits`] half a region is kept, not of
    /// each region but of the whole unit.
    ///
    /// Opening refuses a device that does not say how large its units are, and `region_bytes` that
    /// neither divides a unit nor is a whole number of them; `None` picks a size that fits.
    pub ru_aware_eviction: bool,
    /// What a crash leaves of flash.
    pub crash_safety: CrashSafety,
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
    /// Whether the small-object engine writes the buckets that are rewritten often under a handle
    /// of their own (FDP paper, EuroSys'25, section 5.5): those whose recent intervals between
    /// rewrites are less than half of the average bucket's. Which they are is found at run time, at 8
    /// bytes of memory a bucket. Where there are too few handles they share one, and
    /// [`Larder::placement`](crate::Larder::placement) says with whom.
    pub dynamic_placement: bool,
    /// Start empty, whatever an earlier cache left on the device. Data of other programs is refused
    /// all the same.
    pub start_empty: bool,
    /// Seed of everything random.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            dram_bytes: 64 << 20,
            dram_policy: DramPolicy::default(),
            utilization_percent: 100.0,
            soc_percent: 4.0,
            soc_log_percent: 0.0,
            soc_log_threshold: 2,
            soc_max_object_bytes: 640,
            region_bytes: None,
            region_write_bytes: 256 << 10,
            region_eviction: RegionEviction::default(),
            reinsertion_hits: 0,
            ru_aware_eviction: false,
            crash_safety: CrashSafety::default(),
            admission: AdmissionPolicy::All,
            admission_memory_bytes: 64 << 20,
            endurance: None,
            placement: true,
            dynamic_placement: false,
            start_empty: false,
            seed: 0,
        }
    }
}

impl Config {
    /// Refuses what cannot work on any device.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let percent = |name: &str, value: f64| {
            if (0.0..=100.0).contains(&value) {
                Ok(())
            } else {
                Err(Error::config(format!("{name} = {value}: must be 0 to 100")))
            }
        };
        percent("utilization_percent", self.utilization_percent)?;
        percent("soc_percent", self.soc_percent)?;
        if self.utilization_percent == 0.0 {
            return Err(Error::config("utilization_percent = 0: must be more than 0"));
        }
        percent("soc_log_percent", self.soc_log_percent)?;
        if self.soc_log_percent > 0.0 && self.soc_percent == 0.0 {
            return Err(Error::config(format!(
                "soc_log_percent = {}: with soc_percent = 0 there are no buckets that the log \
                 could write to; set soc_percent too, or soc_log_percent = 0",
                self.soc_log_percent
            )));
        }
        if self.soc_percent + self.soc_log_percent > 100.0 {
            return Err(Error::config(format!(
                "soc_percent = {} and soc_log_percent = {}: must be at most 100 together",
                self.soc_percent, self.soc_log_percent
            )));
        }
        if self.soc_log_threshold == 0 {
            return Err(Error::config("soc_log_threshold = 0: must be at least 1"));
        }
        let max = crate::soc::OBJECT_BYTES_MAX;
        if self.soc_max_object_bytes == 0 || self.soc_max_object_bytes as usize > max {
            return Err(Error::config(format!(
                "soc_max_object_bytes = {}: must be 1 to {max}, what a bucket can hold",
                self.soc_max_object_bytes
            )));
        }
        if let Some(bytes) = self.region_bytes
            && (bytes == 0 || !bytes.is_multiple_of(4096) || bytes > 1 << 30)
        {
            return Err(Error::config(format!(
                "region_bytes = {bytes}: must be a multiple of 4096 of at most 1 GiB"
            )));
        }
        let piece = self.region_write_bytes;
        if piece == 0 || !piece.is_multiple_of(4096) {
            return Err(Error::config(format!(
                "region_write_bytes = {piece}: must be a multiple of 4096"
            )));
        }
        let max = crate::loc::HITS_MAX;
        if self.reinsertion_hits > max {
            return Err(Error::config(format!(
                "reinsertion_hits = {}: must be at most {max}, what the index counts to",
                self.reinsertion_hits
            )));
        }
        if self.admission_memory_bytes < 4096 {
            return Err(Error::config(format!(
                "admission_memory_bytes = {}: must be at least 4096",
                self.admission_memory_bytes
            )));
        }
        if let Some(endurance) = &self.endurance {
            endurance.check()?;
        }
        self.admission.check()
    }
}

/// What a crash leaves of flash. A clean shutdown always keeps everything, and nothing that was
/// replaced, deleted or dropped ever comes back.
///
/// ```
/// use larder::CrashSafety;
///
/// assert_eq!("process".parse(), Ok(CrashSafety::Process));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CrashSafety {
    /// A crash empties flash. Nothing is written to make it otherwise.
    Off,
    /// What had reached flash outlives the process, however it ends (`kill -9`, a panic, a fault).
    /// A loss of power, or a boot, empties flash: a drive may forget what it has in its own memory.
    ///
    /// For this a log of tombstones is kept: a `set` or `delete` of a key that flash holds waits
    /// for a write of 4 KiB, which all that come together share. It takes a 256th of the cache's
    /// flash, 64 KiB to 128 MiB. Where most large objects are shorter than a few KiB and are replaced
    /// before they are evicted, it fills up; then regions are given up before their time
    /// ([`Stats::loc_given_up_regions`](crate::Stats::loc_given_up_regions)).
    #[default]
    Process,
}

impl FromStr for CrashSafety {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "off" => Ok(Self::Off),
            "process" => Ok(Self::Process),
            _ => Err(format!("\"{s}\" is not a crash safety: use off or process")),
        }
    }
}

/// Which item leaves DRAM first.
///
/// ```
/// use larder::DramPolicy;
///
/// assert_eq!("s3-fifo".parse(), Ok(DramPolicy::S3Fifo));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DramPolicy {
    /// Three FIFO queues (Yang et al., SOSP'23): new items must prove themselves in a small queue.
    #[default]
    S3Fifo,
    /// The least recently used one.
    Lru,
}

impl FromStr for DramPolicy {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "s3-fifo" => Ok(Self::S3Fifo),
            "lru" => Ok(Self::Lru),
            _ => Err(format!("\"{s}\" is not a DRAM policy: use s3-fifo or lru")),
        }
    }
}

/// Which region the large-object engine reclaims first.
///
/// ```
/// use larder::RegionEviction;
///
/// assert_eq!("lru".parse(), Ok(RegionEviction::Lru));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RegionEviction {
    /// The oldest. Writes the device in order, which keeps its write amplification lowest.
    #[default]
    Fifo,
    /// The one whose objects were hit longest ago.
    Lru,
}

impl FromStr for RegionEviction {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "fifo" => Ok(Self::Fifo),
            "lru" => Ok(Self::Lru),
            _ => Err(format!("\"{s}\" is not a region eviction policy: use fifo or lru")),
        }
    }
}
