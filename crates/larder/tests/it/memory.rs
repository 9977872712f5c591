//! One budget for all memory.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use larder::{Config, ErrorKind, LocConfig, Stats};
use larder_device::{Fault, FaultPlan, FaultRule};

use crate::faults::faulty;
use crate::rig::{Rig, config, drive_of};

const ALL: u64 = 2 << 20;

fn sum(stats: &Stats) -> u64 {
    stats.dram_used_bytes + stats.flash_memory_bytes
}

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
        assert!(sum(&stats) <= ALL + ALL / 50, "{key}: {} bytes, {stats:?}", sum(&stats));
    }
    let stats = rig.cache.stats();
    assert!(stats.flash_memory_bytes > at_first.flash_memory_bytes, "it had to grow");
    assert!(stats.dram_used_bytes >= ALL / 16 && stats.dram_items > 0, "{stats:?}");
    rig.cache.set_memory_bytes(4 * ALL);
    (0..20_000).for_each(|key| rig.set(key, 2, 100));
    assert!(rig.cache.stats().dram_used_bytes > ALL, "a larger budget is used");
}

/// On a slow device, one region is being written while the next is filled, with pieces of both in flight; with TTL
/// classes, several are filled.
#[test]
fn the_sum_is_kept_while_regions_come_and_go() {
    for (bytes, ttl_classes) in [(900, vec![]), (9_000, vec![]), (900, vec![60])] {
        let config = Config {
            loc: LocConfig {
                region_bytes: Some(128 << 10),
                write_bytes: 16 << 10,
                ttl_classes,
                ..within(ALL).loc
            },
            flash_wait: None,
            ..within(ALL)
        };
        let device = faulty(&FaultPlan::new(3));
        let rig = Rig::open(config.clone(), &device);
        let slow = FaultRule::new(Fault::Delay { submissions: 1000 }).on_writes();
        device.set_plan(&FaultPlan::new(3).with(slow));
        let (ended, sets) = (AtomicBool::new(false), AtomicUsize::new(0));
        let (most, least) = std::thread::scope(|scope| {
            // As slow as a device may be before sets wait: it completes its requests after the number of sets whose
            // bytes may be in flight. This depends on the sets and not on the clock, so the amount in flight does not
            // depend on the scheduler. If a set waits nevertheless, this thread releases it.
            scope.spawn(|| {
                let mut before = usize::MAX;
                while !ended.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(10));
                    let now = sets.load(Ordering::Relaxed);
                    if now == std::mem::replace(&mut before, now) {
                        device.release_delayed();
                    }
                }
            });
            let seen = most_and_least(&rig, bytes, || {
                if sets.fetch_add(1, Ordering::Relaxed) % ((64 << 10) / bytes) == 0 {
                    device.release_delayed();
                }
            });
            ended.store(true, Ordering::Relaxed);
            seen
        });
        let shape = format!("{bytes} bytes, {:?}", config.loc.ttl_classes);
        assert!(most <= ALL + ALL / 50, "{most} of {ALL}: {shape}");
        assert!(least >= ALL - ALL / 25, "{least} of {ALL}: {shape}");
    }
}

/// The maximum and minimum of the sum during three further passes, after a first pass of as many bytes as the budget.
fn most_and_least(rig: &Rig, bytes: usize, and_then: impl Fn()) -> (u64, u64) {
    let pass = u32::try_from(ALL).unwrap() / u32::try_from(bytes).unwrap();
    let (mut most, mut least) = (0, u64::MAX);
    for key in 0..4 * pass {
        match key % 3 {
            0 => rig.set_for(key, 1, bytes, Duration::from_secs(50)),
            _ => rig.set(key, 1, bytes),
        }
        and_then();
        if key >= pass {
            let now = sum(&rig.cache.stats());
            (most, least) = (most.max(now), least.min(now));
        }
    }
    (most, least)
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
