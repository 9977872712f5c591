//! Compares resident memory with the budget, with as many objects as a small machine can index.
//!
//! `cargo test --release -p larder --test it -- resident --ignored --nocapture`; set `LARDER_RESIDENT_OBJECTS` for a
//! number other than 50 million.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use larder::plan::{self, Class};
use larder::{ArrayConfig, Config, Larder, RealClock, SocConfig, block_on};
use larder_device::{
    CheckedIo, Device, DeviceInfo, DeviceStats, Io, IoFuture, PlacementHandle, PlacementInfo,
};

const OBJECTS: u64 = 50_000_000;
/// Bytes of flash per object: no region is reclaimed.
const FLASH_BYTES_PER_OBJECT: u64 = 1400;
/// Total memory budget.
const BUDGET_BYTES_PER_OBJECT: u64 = 12;
const HANDLES: u16 = 40;

/// A drive that stores metadata and the tables of the index in a file, and counts objects as written without storing
/// them.
struct Sizes {
    info: DeviceInfo,
    file: File,
    /// Handles whose writes are stored.
    kept: [PlacementHandle; 2],
}

impl Sizes {
    fn new(info: DeviceInfo, tables: PlacementHandle) -> Self {
        let file = tempfile::tempfile().unwrap();
        file.set_len(info.capacity_bytes).unwrap();
        Self { info, file, kept: [PlacementHandle::DEFAULT, tables] }
    }
}

impl Device for Sizes {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let mut io = io.into_inner();
        match &mut io {
            Io::Read { offset, buffer } => {
                let mut bytes = vec![0; buffer.len()];
                self.file.read_exact_at(&mut bytes, *offset).unwrap();
                buffer.copy_in(0, &bytes);
            }
            Io::Write { offset, buffer, handle, .. } if self.kept.contains(handle) => {
                let mut bytes = vec![0; buffer.len()];
                buffer.copy_out(0, &mut bytes);
                self.file.write_all_at(&bytes, *offset).unwrap();
            }
            _ => {}
        }
        IoFuture::ready(Ok(io.into_buffer()))
    }

    fn stats(&self) -> DeviceStats {
        DeviceStats::default()
    }
}

/// Resident memory of this process, in bytes.
pub(crate) fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
#[ignore = "minutes; alone in its process"]
fn resident_memory_is_the_budget() {
    let objects = std::env::var("LARDER_RESIDENT_OBJECTS").ok().and_then(|it| it.parse().ok());
    let objects: u64 = objects.unwrap_or(OBJECTS);
    let capacity_bytes = (objects * FLASH_BYTES_PER_OBJECT).next_multiple_of(1 << 20);
    let placement = PlacementInfo { handles: HANDLES, path: "sizes", ..PlacementInfo::none() };
    let info = DeviceInfo { placement, ..DeviceInfo::new("sizes", capacity_bytes, 4096, 1 << 20) };
    let budget = objects * BUDGET_BYTES_PER_OBJECT;
    let config = Config {
        memory_bytes: Some(budget),
        soc: SocConfig { percent: Some(0.0), log_percent: Some(0.0), ..SocConfig::default() },
        array: ArrayConfig { percent: 100.0, mean_object_bytes: 1024, ..ArrayConfig::default() },
        utilization_percent: 100.0,
        ..Config::default()
    };
    let planned = plan::plan(&[("", config.clone(), capacity_bytes)], &info).unwrap();
    let tables = planned.handle_of("", Class::ArrayTables);
    assert_ne!(tables, PlacementHandle::DEFAULT);
    let device = Arc::new(Sizes::new(info, tables));
    let before = resident_bytes();
    let cache = block_on(Larder::open(config, Some(device), Arc::new(RealClock))).unwrap();
    let begun = std::time::Instant::now();
    for object in 0..objects {
        block_on(cache.set(&object.to_le_bytes(), b"as small as they come", None)).unwrap();
    }
    let _left = block_on(cache.flush()).unwrap();
    let (resident, stats) = (resident_bytes() - before, cache.stats());
    let lines = [
        ("objects in the index", stats.array_objects),
        ("seconds", begun.elapsed().as_secs()),
        ("budget", budget),
        ("  DRAM tier", stats.dram_used_bytes),
        ("  flash", stats.flash_memory_bytes),
        ("    of these, entries, tables and regions", stats.array_index_bytes),
        ("resident", resident),
    ];
    lines.iter().for_each(|(what, count)| println!("{what:44} {count:>14}"));
    let (least, most) = (budget / 10 * 9, budget / 10 * 11);
    assert!((least..=most).contains(&resident), "{resident} of {budget} bytes");
    assert!(stats.array_objects > objects / 10 * 9, "{}", stats.array_objects);
}
