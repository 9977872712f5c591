//! What a user can choose of the array engine.

use super::groups::GROUPS_MAX;
use super::table::TABLE_BYTES;
use crate::config::percent;
use crate::error::Error;

const REGION_BYTES: std::ops::RangeInclusive<u32> = 64 << 10..=1 << 30;
const _: () = assert!(4 * TABLE_BYTES == 64 << 10, "a region has room for some tables");
const MEAN_OBJECT_BYTES: std::ops::RangeInclusive<u32> = 1 << 10..=16 << 20;
const OPEN_BYTES: u64 = 64 << 20;
const OPEN_PART: u64 = 16;

/// Configuration of the array engine: a part of [`Config`](crate::Config). It keeps large objects under an index that
/// lies on flash itself, so that a byte of DRAM is enough for thousands of flash: a look-up that DRAM does not answer
/// makes two reads instead of one (BigKV, EuroSys'23).
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayConfig {
    /// Share of the cache's flash that the engine gets, in percent (0 to 100); 0, the default, is no such engine.
    /// What it and the small-object engine leave is the large-object engine's.
    pub percent: f64,
    /// Objects from this size on (key and value, in bytes) go to it, and shorter ones that are not small to the
    /// large-object engine. 0, the default: all that the small-object engine does not take; then there is no
    /// large-object engine, and no flash may be left for one.
    pub min_object_bytes: u32,
    /// Size of a region in bytes, a multiple of 4096, from 64 KiB to 1 GiB; the longest object is a little shorter.
    /// `None`: a power of two from 1 to 64 MiB with which there are at least 96.
    pub region_bytes: Option<u32>,
    /// How much of a region is written at a time, in bytes, a multiple of 4096; never more than a region. Default 256
    /// KiB.
    pub write_bytes: u32,
    /// Most memory, in bytes, for what waits to be written in all open regions together: there is one for each group of
    /// times to live that is in use. `None`: 64 MiB, but at most a 16th of the engine's flash, and two writes at least.
    pub open_bytes: Option<u64>,
    /// Mean size of the objects in bytes, from 1 KiB to 16 MiB, by which the index is laid out. With shorter ones its
    /// tables overflow before the flash is full
    /// ([`Stats::array_table_overflows`](crate::Stats::array_table_overflows)); with longer ones they are written
    /// emptier. Default 16 KiB.
    pub mean_object_bytes: u32,
    /// Memory for entries of the index, in bytes: at least 64 for each table on flash, of which there is one for each
    /// 753 objects. `None`: what `memory_bytes` leaves, or without that 2 bytes an object, an eighth of what all
    /// entries take.
    pub index_bytes: Option<u64>,
    /// All memory of the engine, in bytes: entries of the index, what is known of tables and regions, tombstones, write
    /// buffers, and what a close writes down ([`ArrayMemory`](crate::ArrayMemory)). If that is too little, the opening
    /// is refused with the number that would do. `None`, the default: as much as all of them take.
    pub memory_bytes: Option<u64>,
    /// Whether objects that were asked for lately are written again when their region gives way, half a region of
    /// them at most. Default true.
    pub reinsertion: bool,
    /// Whether objects share a region by what remains of their time to live, in 32 groups, so that regions expire
    /// whole. `false`, one group for all, is there to compare with. Default true.
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
    /// Whether there is such an engine.
    pub(crate) fn is_on(&self) -> bool {
        self.percent > 0.0
    }

    /// How many groups of times to live there are.
    pub(crate) fn groups(&self) -> u32 {
        if self.ttl_groups { GROUPS_MAX } else { 1 }
    }

    /// What may wait to be written, beside an engine of so many bytes.
    pub(crate) fn open_bytes_of(&self, array_bytes: u64) -> usize {
        let chosen = self.open_bytes.unwrap_or(OPEN_BYTES.min(array_bytes / OPEN_PART));
        usize::try_from(chosen.max(2 * u64::from(self.write_bytes))).unwrap_or(usize::MAX)
    }

    /// Refuses what cannot work on any device.
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
