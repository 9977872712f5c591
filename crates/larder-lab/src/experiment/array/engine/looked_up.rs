//! The array engine as one of the indexes: the device requests of each operation, and their purpose.
//!
//! A record fills a block and is written to the device at once. So every lookup that finds a value reads the device, as
//! with the other indexes. The flash has room for every value that is ever set, so that reclaim drops none.

use std::sync::Arc;

use larder::plan::Class;
use larder::{ArrayConfig, Larder, VirtualClock, block_on};
use larder_device::PlacementHandle;

use super::config::engine_alone;
use super::values::Values;
use super::watched::{Asked, BLOCK_BYTES, WatchedDevice};
use crate::Error;
use crate::experiment::array::index::{Access, Kind, ValueIndex};

const REGION_BYTES: u32 = 1 << 20;
/// Room for tables, region footers and regions being reclaimed, as a factor of the room for values.
const ROOM: f64 = 1.5;
const HANDLES: u16 = 8;

/// See the [module](self).
pub(in crate::experiment::array) struct EngineIndex {
    cache: Larder,
    device: Arc<WatchedDevice>,
    tables: PlacementHandle,
    values: Values,
    /// Reads so far that no client waited for.
    upkeep_reads: u64,
    dram_bytes: u64,
}

impl EngineIndex {
    /// The engine for `objects` objects, each of which is set `sets` times on average, with index entries in
    /// `dram_bytes` bytes.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub(in crate::experiment::array) fn new(
        objects: u64,
        sets: f64,
        dram_bytes: u64,
        seed: u64,
    ) -> Result<Self, Error> {
        let bytes = (objects as f64 * BLOCK_BYTES as f64 * sets * ROOM) as u64;
        let regions = bytes.div_ceil(REGION_BYTES.into()).max(64);
        let bytes = regions * u64::from(REGION_BYTES);
        let device = Arc::new(WatchedDevice::new(bytes, HANDLES));
        let array = ArrayConfig {
            region_bytes: Some(REGION_BYTES),
            write_bytes: BLOCK_BYTES as u32,
            mean_object_bytes: u32::try_from(bytes / objects).unwrap_or(u32::MAX),
            index_bytes: Some(dram_bytes),
            ttl_groups: false,
            ..ArrayConfig::default()
        };
        let config = engine_alone(array, seed);
        let clock = Arc::new(VirtualClock::default());
        let cache = block_on(Larder::open(config, Some(Arc::clone(&device) as _), clock));
        let cache = cache.map_err(|error| Error::run(error.to_string()))?;
        let tables = cache.placement().handle_of("", Class::ArrayTables);
        device.take_asked();
        let values = Values::of_records(BLOCK_BYTES);
        Ok(Self { tables, cache, device, values, upkeep_reads: 0, dram_bytes })
    }

    /// Notes the requests to the device that concern index and values. The operation certainly waited for `awaited`
    /// table reads. Other table reads may be upkeep, which does not count.
    fn note(&mut self, asked: &mut Vec<Access>, awaited: usize) {
        let requests = self.device.take_asked();
        let is_table = |it: &Asked| it.handle == self.tables;
        let reads = requests.iter().filter(|it| it.is_read && is_table(it)).count();
        let mut waited_for = reads;
        if reads > awaited {
            let stats = self.cache.stats();
            // Upkeep reads: tables that are moved or refreshed, and the footers of reclaimed regions.
            let upkeep_reads = stats.array_upkeep_reads + stats.array_reclaimed_regions;
            let upkeep = upkeep_reads - std::mem::replace(&mut self.upkeep_reads, upkeep_reads);
            waited_for = reads.saturating_sub(usize::try_from(upkeep).unwrap_or(usize::MAX));
        }
        for request in requests {
            let bytes = u32::try_from(request.bytes).unwrap_or(u32::MAX);
            let access = |kind| Access { kind, bytes, place: request.offset };
            match (is_table(&request), request.is_read) {
                // Upkeep reads come after the reads that the operation waits for.
                (true, true) if waited_for == 0 => {}
                (true, true) => {
                    waited_for -= 1;
                    asked.push(access(Kind::IndexRead));
                }
                (true, false) => asked.push(access(Kind::IndexWrite)),
                (false, true) => asked.push(access(Kind::ValueRead)),
                // A value write, or the write of a region footer.
                (false, false) => {}
            }
        }
    }
}

impl ValueIndex for EngineIndex {
    fn get(&mut self, key: u64, asked: &mut Vec<Access>) -> bool {
        let found = block_on(self.cache.get(&key.to_le_bytes()));
        let found = found.expect("the device does not fail");
        let is_found = found.is_some_and(|value| {
            self.values.check(key, &value).expect("values are not mixed up");
            true
        });
        // A lookup that finds its entry in DRAM reads no table. Any other lookup reads its own table first.
        self.note(asked, 1);
        is_found
    }

    fn set(&mut self, key: u64, asked: &mut Vec<Access>) {
        let set = block_on(self.cache.set(&key.to_le_bytes(), &self.values.of(key), None));
        set.expect("the device does not fail");
        self.note(asked, 0);
    }

    fn dram_bytes(&self) -> u64 {
        self.dram_bytes
    }
}
