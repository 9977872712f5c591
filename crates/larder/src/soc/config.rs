//! What a user can choose of the small-object engine.

use super::bucket::OBJECT_BYTES_MAX;
use crate::config::percent;
use crate::error::Error;

/// Up to so many bytes of flash a byte of memory all objects go to the large-object engine.
const FLASH_PER_MEMORY_WITHOUT_SOC: u64 = 16;
/// What the small-object engine gets of more, in percent.
pub(crate) const PERCENT: f64 = 4.0;

/// Configuration of the small-object engine (SOC): a part of [`Config`](crate::Config).
#[derive(Debug, Clone, PartialEq)]
pub struct SocConfig {
    /// Share of the cache's flash that the small-object engine (SOC) gets, in percent (0 to 100). Objects of at
    /// most [`SocConfig::max_object_bytes`] go there, all others to the large-object engine (LOC).
    ///
    /// `None`, the default, decides by flash and memory when a cache begins empty, and keeps what it finds
    /// later, however the budget changes meanwhile:
    ///
    /// - up to 16 bytes of flash for each byte of memory (of [`Config::memory_bytes`](crate::Config::memory_bytes),
    ///   else [`Config::dram_bytes`](crate::Config::dram_bytes)) there is no SOC. The LOC writes in order, a fifth of
    ///   what buckets write, and answers several times as many clients; its index takes up to 12 bytes of memory an
    ///   object, which are those of the budget again where objects are 200 bytes long, and a quarter of it at 800.
    /// - with more flash the SOC gets 4, so that the many that are small take no memory but a few bits. Set it
    ///   by the share of small objects in all bytes that shall stay.
    pub percent: Option<f64>,
    /// Share of the cache's flash that goes to a log in front of the small-object engine's buckets,
    /// in percent; 0 is no log. Small objects wait in it until several of them can be written to
    /// their bucket together, which divides the engine's write amplification by several. A log of 5
    /// is a good start. Together with [`SocConfig::percent`] at most 100. A clean shutdown keeps what is
    /// in the log, a crash does not.
    pub log_percent: f64,
    /// How many objects of one bucket the log must hold for the bucket to be rewritten with them
    /// when their segment is reclaimed, at least 1. Of fewer, those are kept in the log that were
    /// asked for; the others move if their bucket has room for them, and are dropped if something
    /// would have to leave it. Default 2.
    pub log_threshold: u8,
    /// Objects of at most this size (key and value, in bytes) are small: they go to the SOC. At
    /// most 4050.
    pub max_object_bytes: u32,
    /// Whether the small-object engine writes the buckets that are rewritten often under a handle
    /// of their own (FDP paper, EuroSys'25, section 5.5): those whose recent intervals between
    /// rewrites are less than half of the average bucket's. Which they are is found at run time, at 8
    /// bytes of memory a bucket. Where there are too few handles they share one, and
    /// [`Larder::placement`](crate::Larder::placement) says with whom.
    pub dynamic_placement: bool,
}

impl Default for SocConfig {
    fn default() -> Self {
        Self {
            percent: None,
            log_percent: 0.0,
            log_threshold: 2,
            max_object_bytes: 640,
            dynamic_placement: false,
        }
    }
}

impl SocConfig {
    /// Its share of so much flash beside so much memory, if the cache begins empty.
    pub(crate) fn percent_of(&self, flash_bytes: u64, memory_bytes: u64) -> f64 {
        let all_in_loc = flash_bytes <= memory_bytes.saturating_mul(FLASH_PER_MEMORY_WITHOUT_SOC);
        // A log is nothing without buckets.
        let chosen = if all_in_loc && self.log_percent == 0.0 { 0.0 } else { PERCENT };
        self.percent.unwrap_or(chosen)
    }

    /// Refuses what cannot work on any device.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let buckets = self.percent.unwrap_or(PERCENT);
        percent("soc.percent", buckets)?;
        percent("soc.log_percent", self.log_percent)?;
        if self.log_percent > 0.0 && buckets == 0.0 {
            return Err(Error::config(format!(
                "soc.log_percent = {}: with soc.percent = 0 there are no buckets that the log \
                 could write to; set soc.percent too, or soc.log_percent = 0",
                self.log_percent
            )));
        }
        if buckets + self.log_percent > 100.0 {
            return Err(Error::config(format!(
                "soc.percent = {buckets} and soc.log_percent = {}: must be at most 100 together",
                self.log_percent
            )));
        }
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
}
