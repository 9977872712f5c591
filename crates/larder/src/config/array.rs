//! Options of the array engine.

use super::limits::percent;
use crate::base::error::Error;
use crate::base::ttl_groups::GROUPS_MAX;

const REGION_BYTES: std::ops::RangeInclusive<u32> = 64 << 10..=1 << 30;
const MEAN_OBJECT_BYTES: std::ops::RangeInclusive<u32> = 1 << 10..=16 << 20;
const OPEN_BYTES: u64 = 64 << 20;
const OPEN_PART: u64 = 16;

/// Configuration of the array engine: a part of [`Config`](crate::Config). The engine keeps large objects with an index
/// that is itself on flash, so that one byte of DRAM is enough for thousands of bytes of flash. A look-up that DRAM
/// cannot answer takes two reads instead of one (BigKV, EuroSys'23).
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayConfig {
    /// Share of the cache's flash for the engine, in percent (0 to 100); 0, the default, means no array engine. The
    /// large-object engine gets what this engine and the small-object engine leave.
    pub percent: f64,
    /// Objects of at least this size (key and value, in bytes) go to the array; shorter ones that are not small go to
    /// the large-object engine. 0, the default: the array gets every object that the small-object engine does not take;
    /// then there is no large-object engine, and no flash may be left for one.
    pub min_object_bytes: u32,
    /// Size of a region in bytes, a multiple of 4096, from 64 KiB to 1 GiB; the longest object stored in one piece is a
    /// little shorter. `None`: a power of two from 1 to 64 MiB that gives at least 96 regions.
    pub region_bytes: Option<u32>,
    /// Bytes of a region that are written at a time, a multiple of 4096; never more than a region. Default 256 KiB.
    pub write_bytes: u32,
    /// Maximum memory, in bytes, for data that waits to be written, in all open regions together. There is one open
    /// region for each TTL group in use. `None`: 64 MiB, but at most a 16th of the engine's flash, and at least two
    /// writes.
    pub open_bytes: Option<u64>,
    /// Mean size of the objects in bytes, from 1 KiB to 16 MiB; it determines the size of the index. With shorter
    /// objects the tables of the index overflow before the flash is full
    /// ([`Stats::array_table_overflows`](crate::Stats::array_table_overflows)); with longer objects the tables are
    /// written emptier. Default 16 KiB.
    pub mean_object_bytes: u32,
    /// Memory for entries of the index, in bytes: at least 64 for each table on flash; there is one table for each 753
    /// objects. `None`: what `memory_bytes` leaves, or without that 2 bytes per object, an eighth of the size of all
    /// entries.
    pub index_bytes: Option<u64>,
    /// All memory of the engine, in bytes: entries of the index, data about tables and regions, tombstones, write
    /// buffers, and the snapshot that a close writes ([`ArrayMemory`](crate::ArrayMemory)). If it is too little,
    /// opening fails with an error that states the required number. `None`, the default: as much as all of them take.
    pub memory_bytes: Option<u64>,
    /// Whether requested objects are written again before their region is reclaimed: those with the most hits, spread
    /// over the filling of a region. How many of them follows what the drive has time for, from 8 % of a region while
    /// writes wait for the drive to half of a region while it is idle. Default true.
    pub reinsertion: bool,
    /// Whether objects are grouped into regions by their remaining time to live (TTL), in 32 groups, so that regions
    /// expire as a whole. `false`, one group for all objects, exists for comparison. Default true.
    pub ttl_groups: bool,
}

impl Default for ArrayConfig {
    fn default() -> Self {
        Self {
            percent: 0.0,
            min_object_bytes: 0,
            region_bytes: None,
            write_bytes: 256 << 10,
            open_bytes: None,
            mean_object_bytes: 16 << 10,
            index_bytes: None,
            memory_bytes: None,
            reinsertion: true,
            ttl_groups: true,
        }
    }
}

impl ArrayConfig {
    /// Whether the engine is configured.
    pub(crate) fn is_on(&self) -> bool {
        self.percent > 0.0
    }

    /// Number of TTL groups.
    pub(crate) fn groups(&self) -> u32 {
        if self.ttl_groups { GROUPS_MAX } else { 1 }
    }

    /// Maximum bytes that may wait to be written, in an engine of `array_bytes`.
    pub(crate) fn open_bytes_of(&self, array_bytes: u64) -> usize {
        let chosen = self.open_bytes.unwrap_or(OPEN_BYTES.min(array_bytes / OPEN_PART));
        usize::try_from(chosen.max(2 * u64::from(self.write_bytes))).unwrap_or(usize::MAX)
    }

    /// Refuses settings that cannot work on any device.
    pub(crate) fn check(&self) -> Result<(), Error> {
        percent("array.percent", self.percent)?;
        if let Some(bytes) = self.region_bytes
            && (!bytes.is_multiple_of(4096) || !REGION_BYTES.contains(&bytes))
        {
            return Err(Error::config(format!(
                "array.region_bytes = {bytes}: must be a multiple of 4096, from {} to {}",
                REGION_BYTES.start(),
                REGION_BYTES.end()
            )));
        }
        let bytes = self.write_bytes;
        if bytes == 0 || !bytes.is_multiple_of(4096) || bytes > *REGION_BYTES.end() {
            return Err(Error::config(format!(
                "array.write_bytes = {bytes}: must be a multiple of 4096, from 4096 to {}",
                REGION_BYTES.end()
            )));
        }
        if let Some(bytes) = self.open_bytes
            && bytes < 2 * u64::from(self.write_bytes)
        {
            return Err(Error::config(format!(
                "array.open_bytes = {bytes}: must be at least {}, two writes of array.write_bytes",
                2 * u64::from(self.write_bytes)
            )));
        }
        let bytes = self.mean_object_bytes;
        if !MEAN_OBJECT_BYTES.contains(&bytes) {
            return Err(Error::config(format!(
                "array.mean_object_bytes = {bytes}: must be {} to {}",
                MEAN_OBJECT_BYTES.start(),
                MEAN_OBJECT_BYTES.end()
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(config: &ArrayConfig) -> String {
        config.check().unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_work_is_refused_with_the_way_out() {
        let base = ArrayConfig::default;
        assert!(base().check().is_ok() && !base().is_on());
        for (config, field) in [
            (ArrayConfig { percent: 100.5, ..base() }, "array.percent = 100.5: must be 0 to 100"),
            (ArrayConfig { percent: f64::NAN, ..base() }, "array.percent = NaN"),
            (
                ArrayConfig { region_bytes: Some(61_440), ..base() },
                "array.region_bytes = 61440: must be",
            ),
            (
                ArrayConfig { region_bytes: Some((1 << 20) + 1), ..base() },
                "a multiple of 4096, from 65536",
            ),
            (ArrayConfig { write_bytes: 0, ..base() }, "array.write_bytes = 0: must be"),
            (
                ArrayConfig { open_bytes: Some(1 << 19), write_bytes: 1 << 20, ..base() },
                "at least 2097152",
            ),
            (
                ArrayConfig { mean_object_bytes: 1023, ..base() },
                "array.mean_object_bytes = 1023: must be 1024",
            ),
        ] {
            let said = refused(&config);
            assert!(said.contains(field), "{said}");
        }
    }

    #[test]
    fn what_may_wait_to_be_written_is_a_part_of_the_flash() {
        let config = ArrayConfig::default();
        assert_eq!(config.open_bytes_of(1 << 40), 64 << 20);
        assert_eq!(config.open_bytes_of(1 << 28), 16 << 20);
        assert_eq!(config.open_bytes_of(1 << 20), 512 << 10);
        let chosen = ArrayConfig { open_bytes: Some(8 << 20), ..config };
        assert_eq!(chosen.open_bytes_of(1 << 40), 8 << 20);
    }
}
