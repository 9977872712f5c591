//! Tests of TTL groups and placement handles, divided by written bytes.

use larder_device::{ModelDevice, Payload};
use larder_ssd::managed::{Geometry, ManagedConfig};

use super::*;

const REGIONS: u32 = 160;
/// Handles of groups; tables have the next one.
const HANDLES: u16 = 4;

/// A plan that assumes half of all bytes in the last group: that group has its own handle, and all others share the
/// rest.
fn with_handles() -> ArrayPlace {
    let mut place = place(REGIONS, (4, 8), 32);
    for (group, stream) in place.log.streams.iter_mut().enumerate() {
        let handle = match group {
            0..10 => 0,
            10..20 => 1,
            20..31 => 2,
            31 => 3,
            _ => HANDLES,
        };
        stream.handle = PlacementHandle::new(handle);
    }
    place
}

fn drive() -> Arc<dyn Device> {
    let bytes = u64::from(REGIONS * REGION_BYTES);
    let geometry = Geometry::with_overprovisioning(bytes, 256 << 10, 60.0).unwrap();
    let config = ManagedConfig { fdp: true, ..ManagedConfig::new(geometry) };
    Arc::new(ModelDevice::new(config, Payload::Memory).unwrap())
}

impl Bench {
    /// The handle of each group for regions that are begun from now on.
    fn handles(&self) -> Vec<u16> {
        let state = self.array.log.lock();
        (0..32).map(|group| state.handle(group).index()).collect()
    }

    /// Fills regions with objects that have these remaining times to live, in turn.
    fn fill(&self, regions: u64, left_s: &[u32]) {
        for key in 0..regions * u64::from(REGION_BYTES) / 32_768 {
            let left_s = left_s[usize::try_from(key).unwrap() % left_s.len()];
            assert!(self.set(key, &value(key, 0, 31_000), left_s));
        }
    }
}

#[test]
fn groups_that_are_written_most_have_handles_of_their_own() {
    let bench = Bench::on(drive(), with_handles());
    let assumed = bench.handles();
    bench.fill(24, &[30, 90, 150, 210]);
    assert_eq!(bench.handles(), assumed, "too little to go by");
    bench.fill(100, &[30, 90, 150, 210]);
    let handles = bench.handles();
    assert!(handles.is_sorted() && handles[31] == 3, "{handles:?}");
    assert_eq!(handles[..4], [0, 1, 2, 3], "each has a quarter of the bytes");
    let divisions = bench.counters.array_group_divisions.get();
    assert!((1..4).contains(&divisions), "{divisions}");
    // The same load again, slightly uneven: no division is much better.
    bench.fill(400, &[30, 90, 150, 210, 30, 90, 150, 210, 30]);
    assert_eq!(bench.counters.array_group_divisions.get(), divisions);
    // A region is written entirely with the handle that it was begun with; and tables have their own.
    let state = bench.array.log.lock();
    let regions = state.regions.all().iter().filter(|region| region.handle().is_some());
    let mut seen = [0; HANDLES as usize + 1];
    for region in regions {
        let (stream, handle) = (region.stream().unwrap(), region.handle().unwrap().index());
        seen[usize::from(handle)] += 1;
        assert_eq!(stream == 32, handle == HANDLES, "stream {stream}");
    }
    assert!(seen.iter().all(|&regions| regions > 0), "{seen:?}");
}

#[test]
fn a_division_follows_another_load_and_outlives_a_restart() {
    let layout = with_handles();
    let bench = Bench::on(drive(), layout.clone());
    bench.fill(120, &[30, 90, 150, 210]);
    bench.fill(800, &[0, 20 * 86_400, 40 * 86_400]);
    let handles = bench.handles();
    assert_eq!(handles[29..], [1, 2, 3], "{handles:?}");
    block_on(bench.array.finish());
    let part = block_on(bench.array.export(DeadRecords::Listed));
    let log = LogPlace { first_sequence: 2 << 32, ..layout.log.clone() };
    let later = ArrayPlace { log, ..layout };
    let mut again = Bench::on(Arc::clone(&bench.device), later.clone());
    block_on(again.array.import(&part, &ShutdownMark::Snapshot)).unwrap();
    assert_eq!(again.handles()[29..], [1, 2, 3], "from the first region on");
    // A snapshot that lacks a group is invalid.
    let short = &part[..part.len() - 8];
    assert!(!Bench::on(Arc::clone(&bench.device), later).array.import_all(short));
}
