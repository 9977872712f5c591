//! One budget for all memory.

use larder::{Config, ErrorKind};

use crate::rig::{Rig, config, drive_of};

const ALL: u64 = 512 << 10;

fn within(all: u64) -> Config {
    Config { memory_bytes: Some(all), dram_bytes: 1, ..config() }
}

#[test]
fn the_tier_gives_way_to_what_flash_needs() {
    let drive = drive_of(8 << 20, true);
    let rig = Rig::open(within(ALL), &drive);
    let at_first = rig.cache.stats();
    assert!(at_first.flash_memory_bytes < ALL / 4, "{at_first:?}");
    for key in 0..20_000 {
        rig.set(key, 1, if key % 8 == 0 { 900 } else { 100 });
        let stats = rig.cache.stats();
        let all = stats.dram_used_bytes + stats.flash_memory_bytes;
        // A region and its pieces come at once, and the tier gives way item by item.
        assert!(all <= ALL + (256 << 10) * 3, "{key}: {all} bytes, {stats:?}");
    }
    let stats = rig.cache.stats();
    assert!(stats.flash_memory_bytes > at_first.flash_memory_bytes, "it had to grow");
    assert!(stats.dram_used_bytes >= ALL / 16 && stats.dram_items > 0, "{stats:?}");
    rig.cache.set_memory_bytes(4 * ALL);
    (0..20_000).for_each(|key| rig.set(key, 2, 100));
    assert!(rig.cache.stats().dram_used_bytes > ALL, "a larger budget is used");
}

#[test]
fn a_budget_that_flash_alone_needs_is_refused_with_the_least_that_works() {
    let drive = drive_of(8 << 20, true);
    let refused = Rig::try_open(within(8 << 10), &drive).err().expect("it is too little");
    assert_eq!(refused.kind(), ErrorKind::Config);
    let message = refused.to_string();
    let least = message.split("at least ").nth(1).and_then(|rest| rest.split(',').next());
    let least: u64 = least.and_then(|number| number.parse().ok()).expect("it names a number");
    assert!(message.contains("memory_bytes = 8192"), "{message}");
    drop(Rig::open(within(least), &drive));
}
