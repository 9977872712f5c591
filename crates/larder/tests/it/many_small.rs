//! Tens of millions of small objects: filled, opened again and scanned within the memory that docs/sizing.md states.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use larder::{Config, Larder, LocConfig, RealClock, SocConfig, SocLayout, block_on};
use larder_device::{Device, FileDevice, FileOptions};

use crate::resident::resident_bytes;

/// Key and value of 16 and 40 bytes; with their header 64 in a page.
const VALUE_BYTES: usize = 40;
const RECORD_BYTES: u64 = 64;
/// What is stated for an object of an index, in bits, when objects are tiny and hardly any was overwritten.
const STATED_BITS: f64 = 22.0;

struct Scale {
    objects: u64,
    dram_bytes: u64,
    flash_bytes: u64,
}

impl Scale {
    fn of(objects: u64) -> Self {
        // The last region and the pages that are being filled take less than a tenth, and a tenth is for large objects.
        let flash_bytes = (objects * RECORD_BYTES * 5 / 4).max(96 << 20);
        Self { objects, dram_bytes: flash_bytes / 16, flash_bytes }
    }

    fn open(&self, path: &PathBuf) -> Larder {
        let options = FileOptions {
            capacity_bytes: Some(self.flash_bytes),
            create: true,
            ..FileOptions::default()
        };
        let device: Arc<dyn Device> = Arc::new(FileDevice::open(path, &options).unwrap());
        let config = Config {
            dram_bytes: self.dram_bytes,
            soc: SocConfig {
                percent: Some(90.0),
                layout: Some(SocLayout::Pages),
                ..SocConfig::default()
            },
            loc: LocConfig { region_bytes: Some(1 << 20), ..LocConfig::default() },
            ..Config::default()
        };
        block_on(Larder::open(config, Some(device), Arc::new(RealClock))).unwrap()
    }
}

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key 00000000....";
    key[4..12].copy_from_slice(&number.to_le_bytes());
    key
}

fn value(number: u64) -> [u8; VALUE_BYTES] {
    let mut value = [7; VALUE_BYTES];
    value[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    value
}

/// Fills a cache, closes and opens it, and scans it. Returns what it held, and prints times and memory.
fn fill_restart_scan(scale: &Scale) -> u64 {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("flash");
    let before = resident_bytes();
    let cache = scale.open(&path);
    let began = Instant::now();
    for number in 0..scale.objects {
        cache.blocking().set(&key(number), &value(number), None).unwrap();
    }
    let filled = began.elapsed();
    let stats = cache.stats();
    let held = stats.soc_page_objects;
    let bits = stats.soc_page_index_bytes as f64 * 8.0 / held as f64;
    let stated = scale.dram_bytes + stats.flash_memory_bytes;
    let resident = resident_bytes() - before;
    println!(
        "{} objects set in {filled:.1?}, {held} in pages, {bits:.1} bits for each; {} MiB stated, {} resident",
        scale.objects,
        stated >> 20,
        resident >> 20
    );
    assert!(bits <= STATED_BITS, "{bits} bits");
    assert!(held + stats.dram_items >= scale.objects * 95 / 100, "{held}: {stats:?}");
    assert!(resident < stated * 5 / 4 + (16 << 20), "{resident} bytes resident, {stated} stated");
    block_on(cache.close()).unwrap();
    drop(cache);

    let began = Instant::now();
    let cache = scale.open(&path);
    let stats = cache.stats();
    println!("opened in {:.1?}, {} objects in pages", began.elapsed(), stats.soc_page_objects);
    assert!(stats.soc_page_objects >= held, "{}", stats.soc_page_objects);
    let began = Instant::now();
    let (mut scanned, mut most) = (0, 0);
    let mut scan = cache.scan();
    while let Some(batch) = block_on(scan.next()) {
        for item in batch {
            let bytes = item.key()[4..12].try_into().unwrap();
            assert_eq!(&item.value()[..], value(u64::from_le_bytes(bytes)));
            scanned += 1;
        }
        if scanned % (1 << 20) < 1000 {
            most = most.max(resident_bytes() - before);
        }
    }
    println!("{scanned} scanned in {:.1?}, {} MiB resident", began.elapsed(), most >> 20);
    assert!(scanned >= held && scanned <= scale.objects, "{scanned} of {held}");
    assert!(most < stated * 5 / 4 + (32 << 20), "{most} bytes resident, {stated} stated");
    block_on(cache.close()).unwrap();
    scanned
}

/// Number of objects, for a process of its own.
const OBJECTS: &str = "LARDER_MANY_SMALL";
/// The name of the test that has it.
const IN_ITS_OWN_PROCESS: &str =
    "many_small::fifty_million_small_objects_are_filled_found_again_and_scanned_within_memory";

/// Resident memory is that of all tests which run in a process, so this one gets its own.
#[test]
fn a_million_small_objects_are_filled_found_again_and_scanned_within_memory() {
    let mut alone = Command::new(std::env::current_exe().unwrap());
    alone.args(["--ignored", "--exact", IN_ITS_OWN_PROCESS, "--nocapture"]);
    let output = alone.env(OBJECTS, "1000000").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{errors}");
}

#[test]
#[ignore = "takes minutes and 4 GB of disk: `cargo xtask all` runs it"]
fn fifty_million_small_objects_are_filled_found_again_and_scanned_within_memory() {
    let asked = std::env::var(OBJECTS).ok();
    let objects = asked.map_or(50_000_000, |objects| objects.parse().unwrap());
    assert!(fill_restart_scan(&Scale::of(objects)) > objects * 95 / 100);
}
