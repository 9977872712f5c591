//! What a user can choose.

mod crash_safety;
mod demotions;
mod dram_policy;
mod on_change;
mod regions;

use std::time::Duration;

use crate::admission::AdmissionPolicy;
pub(crate) use crate::dram::{BYTES_MAX as DRAM_BYTES_MAX, BYTES_MIN as DRAM_BYTES_MIN};
use crate::endurance::Endurance;
use crate::error::Error;
use crate::removal::RemovalListener;
pub use crash_safety::CrashSafety;
pub use demotions::Demotions;
pub use dram_policy::DramPolicy;
pub use larder_log::RegionEviction;
pub use on_change::OnChange;
pub use regions::Reinsertion;

const TTL_CLASSES_MAX: usize = 8;

/// Of a region and of what is written of it at a time.
const REGION_BYTES_MAX: u32 = 1 << 30;

/// Of DRAM's budget so much may be on its way to flash above it, but so many bytes at least.
const DEMOTING_PART: u64 = 4;
const DEMOTING_BYTES_MIN: u64 = 16 << 20;

/// Up to so many bytes of flash a byte of memory all objects go to the large-object engine.
const FLASH_PER_MEMORY_WITHOUT_SOC: u64 = 16;
/// What the small-object engine gets of more, in percent.
pub(crate) const SOC_PERCENT: f64 = 4.0;

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
/// assert_eq!(config.soc_percent, None);
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
    /// Share of the cache's flash that the small-object engine (SOC) gets, in percent (0 to 100). Objects of at
    /// most [`Config::soc_max_object_bytes`] go there, all others to the large-object engine (LOC).
    ///
    /// `None`, the default, decides by flash and memory when a cache begins empty, and keeps what it finds
    /// later, however the budget changes meanwhile:
    ///
    /// - up to 16 bytes of flash for each byte of memory (of [`Config::memory_bytes`], else
    ///   [`Config::dram_bytes`]) there is no SOC. The LOC writes in order, a fifth of what buckets write, and
    ///   answers several times as many clients; its index takes up to 12 bytes of memory an object, which are those of
    ///   the budget again where objects are 200 bytes long, and a quarter of it at 800.
    /// - with more flash the SOC gets 4, so that the many that are small take no memory but a few bits. Set it
    ///   by the share of small objects in all bytes that shall stay.
    pub soc_percent: Option<f64>,
    /// Share of the cache's flash that goes to a log in front of the small-object engine's buckets,
    /// in percent; 0 is no log. Small objects wait in it until several of them can be written to
    /// their bucket together, which divides the engine's write amplification by several. A log of 5
    /// is a good start. Together with [`Config::soc_percent`] at most 100. A clean shutdown keeps what is
    /// in the log, a crash does not.
    pub soc_log_percent: f64,
    /// How many objects of one bucket the log must hold for the bucket to be rewritten with them
    /// when their segment is reclaimed, at least 1. Of fewer, those are kept in the log that were
    /// asked for; the others move if their bucket has room for them, and are dropped if something
    /// would have to leave it. Default 2.
    pub soc_log_threshold: u8,
    /// Objects of at most this size (key and value, in bytes) are small: they go to the SOC. At
    /// most 4050.
    pub soc_max_object_bytes: u32,
    /// Size of a region of the large-object engine in bytes, a multiple of 4096 of at most 1 GiB; the
    /// longest object is a little shorter. `None` picks 1 to 32 MiB by the size of the flash.
    pub region_bytes: Option<u32>,
    /// How much of a region is written at a time, in bytes, a multiple of 4096 of at most 1 GiB; never
    /// more than a region. Default 256 KiB.
    pub region_write_bytes: u32,
    /// Which region the large-object engine reclaims first.
    pub region_eviction: RegionEviction,
    /// Which objects of a region that is reclaimed are kept by writing them again.
    pub reinsertion: Reinsertion,
    /// Short for [`Reinsertion::Hits`], where [`Config::reinsertion`] says nothing. 0 keeps none; at
    /// most 7.
    pub reinsertion_hits: u8,
    /// Upper bounds of classes of times to live, in seconds, ascending, at most 8 of them. Large
    /// objects of a class fill regions of their own, under a placement handle of their own where the
    /// device has one left: each takes the first class whose bound is at least what remains of its
    /// time. Objects that live longer or without end share the others. A region all of whose objects
    /// have expired is filled anew before any other is reclaimed. Each class takes the memory of one
    /// write ([`Config::region_write_bytes`]) and a little more; and with [`CrashSafety::Process`] a `get`
    /// that finds a large object expired waits for its tombstone. Empty, the default, is no classes; not
    /// together with [`Config::ru_aware_eviction`].
    pub ttl_classes: Vec<u32>,
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
    /// Bytes of the tombstone log, a multiple of 4096, from 16 KiB to 1 GiB; `None`: a 256th of the
    /// cache, but 64 KiB at least and 128 MiB at most. It bounds how much may be dead on flash: a 16th of
    /// it in bytes is that in objects, and beyond half of that regions are given up before their time.
    /// Without crash safety there is none.
    pub tombstone_log_bytes: Option<u32>,
    /// After a clean shutdown, an opening indexes large objects before it returns if there are at most so
    /// many, and at most one region for each 64 of these. With more it serves at once, and they are found
    /// again beside, as after a crash: by [`Larder::rebuild`](crate::Larder::rebuild), and by whoever misses
    /// or changes something. 0 never waits, [`u64::MAX`] always. Default 65,536, a few hundredths of a
    /// second.
    pub eager_index_objects: u64,
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
    /// What to do if a setting has changed by which the device is divided, so that what an earlier cache
    /// left cannot be found again: [`Config::utilization_percent`], [`Config::soc_percent`],
    /// [`Config::soc_log_percent`], [`Config::region_bytes`], whether there is a tombstone log
    /// ([`Config::crash_safety`]), sometimes [`Config::ru_aware_eviction`]. All others can change with
    /// every opening.
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
            soc_percent: None,
            soc_log_percent: 0.0,
            soc_log_threshold: 2,
            soc_max_object_bytes: 640,
            region_bytes: None,
            region_write_bytes: 256 << 10,
            region_eviction: RegionEviction::default(),
            reinsertion: Reinsertion::default(),
            reinsertion_hits: 0,
            ttl_classes: Vec::new(),
            ru_aware_eviction: false,
            crash_safety: CrashSafety::default(),
            tombstone_log_bytes: None,
            eager_index_objects: 1 << 16,
            admission: AdmissionPolicy::All,
            admission_memory_bytes: 64 << 20,
            endurance: None,
            placement: true,
            dynamic_placement: false,
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

    /// The share of the small-object engine of so much flash, if the cache begins empty.
    pub(crate) fn soc_percent_of(&self, flash_bytes: u64) -> f64 {
        let memory_bytes = self.memory_bytes.unwrap_or(self.dram_bytes);
        let all_in_loc = flash_bytes <= memory_bytes.saturating_mul(FLASH_PER_MEMORY_WITHOUT_SOC);
        // A log is nothing without buckets.
        let chosen = if all_in_loc && self.soc_log_percent == 0.0 { 0.0 } else { SOC_PERCENT };
        self.soc_percent.unwrap_or(chosen)
    }

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
        let soc_percent = self.soc_percent.unwrap_or(SOC_PERCENT);
        percent("soc_percent", soc_percent)?;
        if self.utilization_percent == 0.0 {
            return Err(Error::config("utilization_percent = 0: must be more than 0"));
        }
        percent("soc_log_percent", self.soc_log_percent)?;
        if self.soc_log_percent > 0.0 && soc_percent == 0.0 {
            return Err(Error::config(format!(
                "soc_log_percent = {}: with soc_percent = 0 there are no buckets that the log \
                 could write to; set soc_percent too, or soc_log_percent = 0",
                self.soc_log_percent
            )));
        }
        if soc_percent + self.soc_log_percent > 100.0 {
            return Err(Error::config(format!(
                "soc_percent = {soc_percent} and soc_log_percent = {}: must be at most 100 together",
                self.soc_log_percent
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
        if self.flash_wait == Some(Duration::ZERO) {
            return Err(Error::config("flash_wait = 0s: must be more than 0; None waits for ever"));
        }
        self.check_sizes()?;
        self.check_reinsertion()?;
        self.check_ttl_classes()?;
        if let Some(endurance) = &self.endurance {
            endurance.check()?;
        }
        self.admission.check()
    }

    fn check_sizes(&self) -> Result<(), Error> {
        let written = [
            ("region_bytes", self.region_bytes),
            ("region_write_bytes", Some(self.region_write_bytes)),
        ];
        for (name, bytes) in written {
            let Some(bytes) = bytes else { continue };
            if bytes == 0 || !bytes.is_multiple_of(4096) || bytes > REGION_BYTES_MAX {
                return Err(Error::config(format!(
                    "{name} = {bytes}: must be a multiple of 4096, from 4096 to {REGION_BYTES_MAX}"
                )));
            }
        }
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

    fn check_reinsertion(&self) -> Result<(), Error> {
        let max = crate::loc::HITS_MAX;
        if self.reinsertion_hits > max {
            return Err(Error::config(format!(
                "reinsertion_hits = {}: must be at most {max}, what the index counts to",
                self.reinsertion_hits
            )));
        }
        if self.reinsertion_hits > 0 && self.reinsertion != Reinsertion::None {
            return Err(Error::config(format!(
                "reinsertion_hits = {} and reinsertion = {}: set one of them",
                self.reinsertion_hits, self.reinsertion
            )));
        }
        match self.reinsertion {
            Reinsertion::Hits(hits) if hits == 0 || hits > max => Err(Error::config(format!(
                "reinsertion = hits:{hits}: must be 1 to {max}, what the index counts to"
            ))),
            Reinsertion::Percent(percent) if percent == 0 || percent > 100 => {
                Err(Error::config(format!("reinsertion = percent:{percent}: must be 1 to 100")))
            }
            _ if self.region_eviction == RegionEviction::SegmentedFifo
                && self.effective_reinsertion() == Reinsertion::None =>
            {
                Err(Error::config(
                    "region_eviction = segmented-fifo: the upper segments hold what reinsertion \
                     keeps; set reinsertion too (hits:1 is a good start), or use fifo",
                ))
            }
            _ => Ok(()),
        }
    }

    fn check_ttl_classes(&self) -> Result<(), Error> {
        let classes = &self.ttl_classes;
        if classes.len() > TTL_CLASSES_MAX {
            return Err(Error::config(format!(
                "ttl_classes: {} classes, must be at most {TTL_CLASSES_MAX}",
                classes.len()
            )));
        }
        if classes.first() == Some(&0) || !classes.is_sorted_by(|a, b| a < b) {
            return Err(Error::config(format!(
                "ttl_classes = {classes:?}: must be seconds from 1 on, in ascending order"
            )));
        }
        if self.ru_aware_eviction && !classes.is_empty() {
            return Err(Error::config(
                "ttl_classes and ru_aware_eviction: classes would share reclaim units, which are \
                 reclaimed whole; use one of them",
            ));
        }
        if self.ru_aware_eviction && self.region_eviction == RegionEviction::SegmentedFifo {
            return Err(Error::config(
                "region_eviction = segmented-fifo and ru_aware_eviction: segments would share \
                 reclaim units, which are reclaimed whole; use one of them",
            ));
        }
        Ok(())
    }

    /// What [`Config::reinsertion`] and [`Config::reinsertion_hits`] say together.
    pub(crate) fn effective_reinsertion(&self) -> Reinsertion {
        match self.reinsertion_hits {
            0 => self.reinsertion,
            hits => Reinsertion::Hits(hits),
        }
    }
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
