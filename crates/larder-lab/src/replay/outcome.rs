//! The result of a replay. Its JSON form is stable and documented in `docs/replay-json.md`.

use larder::{ArrayMemory, PlacementPlan};
use serde::Serialize;

use super::drive::DriveFacts;

/// The whole result of a `larder replay`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Outcome {
    /// Always "replay".
    pub command: &'static str,
    /// The parameters as resolved, defaults included.
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// One run for each placement setting: `on` before `off` where both were asked for.
    pub runs: Vec<Run>,
    /// Counters of the NVMe drive during the replay; null unless `device` is a real device on an NVMe drive.
    pub drive: Option<DriveFacts>,
}

/// One run over the workload. Client counters (requests, hits) count from the start; device counters (bytes, DLWA,
/// ALWA) are measured after warm-up.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Run {
    /// `on`: each stream has its own handle. `off`: all streams have the default handle.
    pub placement: &'static str,
    /// Whether any stream wrote with a placement handle of its own.
    pub placement_active: bool,
    /// Requests of the workload. Fills after misses are not requests.
    pub requests: u64,
    /// Requests of the warm-up.
    pub warmup_requests: u64,
    /// GETs among all requests.
    pub gets: u64,
    /// GETs that found their key.
    pub hits: u64,
    /// `hits / gets`; 0 without GETs.
    pub hit_ratio: f64,
    /// GETs answered from DRAM, of all GETs; 0 without GETs.
    pub dram_hit_ratio: f64,
    /// GETs answered from flash, of those that DRAM could not answer (CacheLib's "NVM hit ratio"); 0 if there are none.
    pub flash_hit_ratio: f64,
    /// Device-level write amplification: `media_bytes / host_bytes`; null if `media_bytes` is null or `host_bytes`
    /// is 0.
    pub dlwa: Option<f64>,
    /// Application-level write amplification: host bytes per byte of keys and values admitted to
    /// flash; null if none was.
    pub alwa: Option<f64>,
    /// Bytes written to the device: `soc_bytes + loc_bytes + array_bytes + metadata_bytes`.
    pub host_bytes: u64,
    /// Bytes that the device wrote to its media: `host_bytes + copied_bytes`. Null, as the next two, if there is no
    /// device or it does not count them (a file, a real device).
    pub media_bytes: Option<u64>,
    /// Bytes of media erased, in whole reclaim units.
    pub erased_bytes: Option<u64>,
    /// Bytes moved by garbage collection.
    pub copied_bytes: Option<u64>,
    /// Host bytes by placement handle, the default first; empty without flash.
    pub host_bytes_by_handle: Vec<u64>,
    /// How placement reaches the device, for people; null for the model and for files.
    pub placement_path: Option<String>,
    /// Host bytes written by the small-object engine, to its buckets and its log.
    pub soc_bytes: u64,
    /// Counters of the log in front of the buckets; null without one.
    pub soc_log: Option<SocLog>,
    /// Host bytes written by the large-object engine.
    pub loc_bytes: u64,
    /// Host bytes written by the array engine, for objects and index.
    pub array_bytes: u64,
    /// Counters of the array engine; null without one, and until it has written something.
    pub array: Option<ArrayRun>,
    /// Host bytes written for metadata.
    pub metadata_bytes: u64,
    /// Objects written to flash.
    pub admitted_objects: u64,
    /// Objects that the admission policy rejected: the sum of the next five.
    pub rejected_objects: u64,
    /// Rejected by `random`.
    pub rejected_at_random_objects: u64,
    /// Rejected by `reject-first`.
    pub rejected_on_first_visit_objects: u64,
    /// Rejected by `freq`.
    pub rejected_as_infrequent_objects: u64,
    /// Rejected by `budget`: more objects came than the budget allows.
    pub rejected_by_budget_objects: u64,
    /// Rejected by `budget`: it was used up, including the burst.
    pub rejected_for_exhausted_budget_objects: u64,
    /// SETs and fills of objects that no tier can hold.
    pub refused_objects: u64,
    /// Results of each shard, by number; empty unless there are several.
    pub shards: Vec<ShardRun>,
    /// The streams and their placement handles; empty without flash.
    pub streams: Vec<StreamPlan>,
    /// Times that the drive's capacity was written before the measurement began. DLWA measured after fewer than about 3
    /// is not steady yet. 0 without flash.
    pub drive_writes_before: f64,
    /// Requests per second of real time, including the time to generate or read them. The only value that differs
    /// between runs with the same seed; two runs at once share the machine.
    pub requests_per_second: f64,
    /// Whether the run was cut short.
    pub interrupted: bool,
    /// The run from its start, in at most 256 equal parts.
    pub intervals: Vec<Interval>,
    /// The drive at the end, for the report; not part of the JSON.
    #[serde(skip)]
    pub units: Vec<UnitPicture>,
    /// A notice to the user about the device; not part of the JSON.
    #[serde(skip)]
    pub notice: Option<String>,
    /// The plan of the streams as a table; not part of the JSON.
    #[serde(skip)]
    pub placement_table: String,
    /// The array engine's memory, if there is one; not part of the JSON.
    #[serde(skip)]
    pub array_memory: Option<ArrayMemory>,
}

/// A stream of writes and its placement handle.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StreamPlan {
    /// `SOC`, `LOC`, `SOC log`, `array, tables`, `array, TTL group N` or `metadata`.
    pub class: String,
    /// Expected lifetime in seconds, if the device is written over once a day; null if unknown.
    pub lifetime_s: Option<u64>,
    /// Expected part of the writes, 0 to 1.
    pub write_share: f64,
    /// The handle; 0 is the default.
    pub handle: u16,
    /// The classes that write with the same handle.
    pub shared_with: Vec<String>,
    /// The reason for this handle, for people.
    pub why: String,
}

impl StreamPlan {
    /// All streams of a cache.
    pub(super) fn of(plan: &PlacementPlan) -> Vec<Self> {
        let streams = plan.streams().iter().map(|stream| Self {
            class: stream.class.to_string(),
            lifetime_s: stream.lifetime.map(|lifetime| lifetime.as_secs()),
            write_share: stream.write_share,
            handle: stream.handle.index(),
            shared_with: stream.shared_with.iter().map(|(_, class)| class.to_string()).collect(),
            why: stream.why.to_string(),
        });
        streams.collect()
    }
}

/// Counters of the small-object log after warm-up, and its content at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SocLog {
    /// Host bytes written to the log.
    pub bytes: u64,
    /// Objects logged.
    pub objects: u64,
    /// Objects moved to their buckets.
    pub moved_objects: u64,
    /// Rewrites of buckets.
    pub bucket_writes: u64,
    /// Objects dropped because their bucket had too few and they were never read.
    pub dropped_objects: u64,
    /// Objects logged again.
    pub readmitted_objects: u64,
    /// Objects found in the log.
    pub hits: u64,
    /// Pages of the log read from the device.
    pub reads: u64,
    /// Lookups in the log that found another key.
    pub false_positives: u64,
    /// Objects in the log at the end.
    pub held_objects: u64,
    /// Memory of its index at the end, in bytes.
    pub index_bytes: u64,
}

/// Counters of the array engine after warm-up, and its content at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ArrayRun {
    /// Host bytes of records and their region footers, including reinserted records.
    pub data_bytes: u64,
    /// Host bytes of tables and their region footers.
    pub index_written_bytes: u64,
    /// Bytes of objects reinserted when their region was reclaimed.
    pub reinserted_bytes: u64,
    /// Records read.
    pub record_reads: u64,
    /// Tables read, as a whole or one page.
    pub table_reads: u64,
    /// Tables written.
    pub table_writes: u64,
    /// Regions reclaimed.
    pub reclaimed_regions: u64,
    /// Regions freed without a read because all of their objects had expired.
    pub expired_regions: u64,
    /// Objects lost because their slot in a table was full.
    pub table_overflows: u64,
    /// Objects lost, or not found, because another key has the same hash.
    pub collisions: u64,
    /// Entries recognized as stale without a read.
    pub stale_entries: u64,
    /// Approximate number of objects at the end.
    pub objects: u64,
    /// Memory of its index at the end, in bytes.
    pub index_bytes: u64,
}

/// Results of one shard and its drive: client counters over the whole run, drive counters after warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ShardRun {
    /// Its number in the set.
    pub number: usize,
    /// GETs of its keys.
    pub gets: u64,
    /// GETs that found their key.
    pub hits: u64,
    /// `hits / gets`; null without GETs.
    pub hit_ratio: Option<f64>,
    /// Media bytes per host byte; null if nothing was written.
    pub dlwa: Option<f64>,
    /// Bytes written to its drive.
    pub host_bytes: u64,
    /// Bytes that its drive wrote to its media.
    pub media_bytes: Option<u64>,
    /// Bytes of media erased.
    pub erased_bytes: Option<u64>,
    /// Bytes moved by garbage collection.
    pub copied_bytes: Option<u64>,
}

/// One part of a run.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Interval {
    /// Requests since the start of the run, at the end of this part.
    pub requests: u64,
    /// Host bytes written in this part.
    pub host_bytes: u64,
    /// DLWA of this part; null where nothing was written or media bytes are unknown.
    pub dlwa: Option<f64>,
    /// Hit ratio of this part; null without GETs.
    pub hit_ratio: Option<f64>,
    /// Part of `host_bytes` that was written by the small-object engine.
    pub soc_bytes: u64,
    /// Part of `host_bytes` that was written by the large-object engine.
    pub loc_bytes: u64,
    /// Part of `host_bytes` that was written by the array engine.
    pub array_bytes: u64,
    /// Part of `host_bytes` that was written for metadata.
    pub metadata_bytes: u64,
    /// Whether this part belongs to the warm-up.
    pub warmup: bool,
}

/// One reclaim unit of the simulated drive: its number of pages by content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnitPicture {
    /// Live pages of the small-object engine.
    pub soc: u32,
    /// Live pages of the large-object engine.
    pub loc: u32,
    /// Live pages of the array engine.
    pub array: u32,
    /// Live pages of metadata.
    pub metadata: u32,
    /// Dead pages: written, but overwritten elsewhere or deallocated since.
    pub dead: u32,
    /// Pages not written since the last erase.
    pub free: u32,
    /// Whether the unit is open for writing.
    pub open: bool,
}

#[cfg(test)]
mod tests {
    use larder_json_page::{Table, check};

    use super::*;
    use crate::replay::DriveFacts;

    #[test]
    fn the_page_has_the_types() {
        let tables = [
            ("### Result", Table::of::<Outcome>()),
            ("### Run", Table::of::<Run>()),
            ("### Drive", Table::of::<DriveFacts>()),
            ("### Log", Table::of::<SocLog>()),
            ("### Array", Table::of::<ArrayRun>()),
            ("### Shard", Table::of::<ShardRun>()),
            ("### Stream", Table::of::<StreamPlan>()),
            ("### Interval", Table::of::<Interval>()),
        ];
        check("replay-json.md", "-p larder-lab --lib the_page_has_the_types", &tables);
    }
}
