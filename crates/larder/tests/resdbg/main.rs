//! Resident memory beside the budget, with as many objects as a small machine can hold the index of.
//!
//! `cargo test --release -p larder --test it -- resident --ignored --nocapture`; `LARDER_RESIDENT_OBJECTS` for another
//! number than 50 million.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use larder::plan::{self, Class};
use larder::{ArrayConfig, Config, Larder, RealClock, SocConfig, block_on};
use larder_device::{
    CheckedIo, Device, DeviceInfo, DeviceStats, Io, IoFuture, PlacementHandle, PlacementInfo,
};

const OBJECTS: u64 = 50_000_000;
/// Flash that each of them has: no region gives way.
const FLASH_BYTES_PER_OBJECT: u64 = 1400;
/// Of all memory.
const BUDGET_BYTES_PER_OBJECT: u64 = 12;
const HANDLES: u16 = 40;

/// A drive that keeps metadata and the tables of the index, in a file, and of objects only that they were written.
struct Sizes {
    info: DeviceInfo,
    file: File,
    /// What is written with these is kept.
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

/// Of this process, in bytes.
fn resident_bytes() -> u64 {
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
        soc: SocConfig { percent: Some(0.0), log_percent: 0.0, ..SocConfig::default() },
        array: ArrayConfig { percent: 100.0, mean_object_bytes: 1024, ..ArrayConfig::default() },
        utilization_percent: 100.0,
        ..Config::default()
    };
    let planned = plan::plan(&[("", config.clone(), capacity_bytes)], &info).unwrap();
    let tables = planned.handle_of("", Class::ArrayTables);
    assert_ne!(tables, PlacementHandle::DEFAULT);
    let device = Arc::new(Sizes::new(info, tables));
    crate::counted::print("before");
    let before = resident_bytes();
    let cache = block_on(Larder::open(config, Some(device), Arc::new(RealClock))).unwrap();
    crate::counted::print("opened");
    println!("opened resident {}", resident_bytes() - before);
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
    crate::counted::print("end");
    println!("{}", std::fs::read_to_string("/proc/self/smaps_rollup").unwrap());
    #[allow(unsafe_code)]
    {
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> i32;
            fn malloc_stats();
        }
        std::fs::copy("/proc/self/smaps", "/work/smaps0.txt").unwrap();
        unsafe {
            malloc_stats();
        }
        unsafe {
            malloc_trim(0);
        }
        println!("resident after trim {}", resident_bytes() - before);
        std::fs::copy("/proc/self/smaps", "/work/smaps.txt").unwrap();
    }
    let (least, most) = (budget / 10 * 9, budget / 10 * 11);
    assert!((least..=most).contains(&resident), "{resident} of {budget} bytes");
    assert!(stats.array_objects > objects / 10 * 9, "{}", stats.array_objects);
}
pub(crate) mod counted {
    #![allow(unsafe_code)]
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
    pub(crate) struct A;
    pub(crate) static LIVE: [AtomicI64; 64 * 8] = [const { AtomicI64::new(0) }; 512];
    pub(crate) static COUNT: [AtomicI64; 64 * 8] = [const { AtomicI64::new(0) }; 512];
    fn class(n: usize) -> usize {
        let b = 63 - (n.max(8) as u64).leading_zeros() as usize;
        b * 8 + ((n.max(8) >> (b - 3)) & 7)
    }
    unsafe impl GlobalAlloc for A {
        unsafe fn alloc(&self, l: Layout) -> *mut u8 {
            LIVE[class(l.size())].fetch_add(l.size() as i64, Relaxed);
            COUNT[class(l.size())].fetch_add(1, Relaxed);
            unsafe { System.alloc(l) }
        }
        unsafe fn alloc_zeroed(&self, l: Layout) -> *mut u8 {
            LIVE[class(l.size())].fetch_add(l.size() as i64, Relaxed);
            COUNT[class(l.size())].fetch_add(1, Relaxed);
            unsafe { System.alloc_zeroed(l) }
        }
        unsafe fn dealloc(&self, p: *mut u8, l: Layout) {
            LIVE[class(l.size())].fetch_sub(l.size() as i64, Relaxed);
            COUNT[class(l.size())].fetch_sub(1, Relaxed);
            unsafe { System.dealloc(p, l) }
        }
    }
    pub(crate) fn print(what: &str) {
        let total: i64 = LIVE.iter().map(|it| it.load(Relaxed)).sum();
        println!("{what}: heap live {total}");
        for (c, (live, count)) in LIVE.iter().zip(&COUNT).enumerate() {
            let live = live.load(Relaxed);
            if live > 200_000 {
                println!(
                    "   size ~{:>10} count {:>8} bytes {live}",
                    (1usize << (c / 8)) * (8 + c % 8) / 8,
                    count.load(Relaxed)
                );
            }
        }
    }
    #[global_allocator]
    static G: A = A;
}
