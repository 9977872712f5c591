//! Memory that several caches share: it is divided again as they need it, and lent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use larder::config::Demotions;
use larder::{
    Config, ErrorKind, Larder, LocConfig, RealClock, Shards, Stats, Tenant, Tenants, TenantsConfig,
    block_on,
};
use larder_device::{Device, Fault, FaultDevice, FaultPlan, FaultRule};

use crate::rig::{self, drive_of, key_of, model_of, value_of, version_in};

const MIB: u64 = 1 << 20;
const ALL: u64 = 16 * MIB;
const BYTES: usize = 1000;

fn borrower(name: &str, percent: f64, borrow_max: u64) -> Tenant {
    let config = Config { flash_wait: None, ..rig::config() };
    Tenant { config, dram_borrow_max_bytes: borrow_max, ..Tenant::new(name, percent) }
}

fn open(config: TenantsConfig, device: Option<Arc<dyn Device>>) -> Tenants {
    block_on(Tenants::open(config, device, Arc::new(RealClock))).unwrap()
}

fn two(borrow_max: u64, device: Option<Arc<dyn Device>>) -> Tenants {
    two_by(Demotions::Callers, borrow_max, device)
}

fn two_by(demotions: Demotions, borrow_max: u64, device: Option<Arc<dyn Device>>) -> Tenants {
    let mut tenants = vec![borrower("greedy", 50.0, borrow_max), borrower("idle", 50.0, 0)];
    tenants.iter_mut().for_each(|tenant| tenant.config.demotions = demotions);
    open(TenantsConfig { dram_bytes: ALL, tenants, ..TenantsConfig::default() }, device)
}

fn set(cache: &Larder, key: u32) {
    block_on(cache.set(&key_of(key), &value_of(key, 1, BYTES), None)).unwrap();
}

fn holds(cache: &Larder, key: u32) -> bool {
    let found = block_on(cache.get(&key_of(key))).unwrap();
    found.is_some_and(|found| version_in(key, &found) == 1)
}

fn used(cache: &Larder) -> u64 {
    cache.stats().dram_used_bytes
}

/// Keys for this number of bytes, starting with `from`.
fn keys(from: u32, bytes: u64) -> std::ops::Range<u32> {
    from..from + u32::try_from(bytes / BYTES as u64).unwrap()
}

#[test]
fn a_tenant_that_needs_more_borrows_unused_bytes_up_to_its_limit() {
    for (borrow_max, most) in [(0, 8 * MIB), (3 * MIB, 11 * MIB), (64 * MIB, 15 * MIB)] {
        let tenants = two(borrow_max, None);
        let greedy = tenants.tenant("greedy").unwrap();
        keys(0, 2 * ALL).for_each(|key| set(greedy, key));
        let has = used(greedy);
        assert!(has <= most && has >= most - most / 8, "{has} of {most}, {borrow_max}");
    }
}

/// The lender gets its share back from the first set on, and the total stays within the limit, even if the borrower
/// makes no calls.
#[test]
fn a_lender_gets_its_share_back_when_it_needs_it() {
    for (above_flash, demotions) in
        [(false, Demotions::Callers), (true, Demotions::Callers), (true, Demotions::Thread)]
    {
        let device = || drive_of(64 << 20, true) as Arc<dyn Device>;
        let tenants = two_by(demotions, 64 * MIB, above_flash.then(device));
        let (greedy, idle) = (tenants.tenant("greedy").unwrap(), tenants.tenant("idle").unwrap());
        let greedys = keys(0, 14 * MIB);
        greedys.clone().for_each(|key| set(greedy, key));
        assert!(used(greedy) > 12 * MIB, "{}", used(greedy));
        let before = greedys.clone().filter(|&key| holds(greedy, key)).count();
        let own = keys(0, 6 * MIB);
        for key in own.clone() {
            set(idle, key);
            let sum = used(greedy) + used(idle);
            assert!(sum <= ALL + ALL / 25, "{sum} of {ALL} after {key}, {above_flash}");
        }
        assert!(own.clone().all(|key| holds(idle, key)), "{above_flash}");
        assert!(used(greedy) <= 9 * MIB + MIB / 2, "{}, {above_flash}", used(greedy));
        let after = greedys.filter(|&key| holds(greedy, key)).count();
        if above_flash {
            assert_eq!((before, after), (14680, 14680), "what it gave back is on flash");
        }
        // And back again.
        block_on(idle.clear()).unwrap();
    }
}

/// The borrower's flash is slow, and its thread does the writing: a lender that needs its memory waits, and the total
/// stays within the limit.
#[test]
fn the_sum_is_kept_where_a_thread_gives_back_on_slow_flash() {
    let drive = Arc::new(FaultDevice::new(model_of(64 << 20, true), &FaultPlan::new(1)));
    let device = Arc::clone(&drive) as Arc<dyn Device>;
    let tenants = two_by(Demotions::Thread, 64 * MIB, Some(device));
    let (greedy, idle) = (tenants.tenant("greedy").unwrap(), tenants.tenant("idle").unwrap());
    keys(0, 14 * MIB).for_each(|key| set(greedy, key));
    while greedy.stats().demoting_bytes > 0 {
        std::thread::yield_now();
    }
    drive.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Stall).on_writes()));
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            drive.set_plan(&FaultPlan::new(1));
            while !ended.load(Ordering::SeqCst) {
                drive.release_delayed();
                std::thread::yield_now();
            }
        });
        let mut peak = 0;
        for key in keys(0, 6 * MIB) {
            set(idle, key);
            peak = peak.max(used(greedy) + used(idle));
        }
        ended.store(true, Ordering::SeqCst);
        assert!(peak <= ALL + ALL / 25, "{peak} of {ALL}");
    });
}

#[test]
fn one_budget_of_all_memory_is_kept_by_tenants_and_by_shards() {
    let config = |all| Config {
        loc: LocConfig { region_bytes: Some(64 << 10), write_bytes: 16 << 10, ..rig::config().loc },
        memory_bytes: all,
        ..rig::config()
    };
    let all = 3 * MIB;
    let within = |stats: &Stats| {
        let sum = stats.dram_used_bytes + stats.flash_memory_bytes;
        assert!(sum <= all + all / 50, "{sum} of {all}: {stats:?}");
        sum
    };
    let tenants = [("a", 60.0), ("b", 40.0)];
    let tenants = tenants
        .map(|(name, percent)| Tenant { config: config(None), ..Tenant::new(name, percent) });
    let tenants = TenantsConfig {
        memory_bytes: Some(all),
        dram_bytes: 0,
        tenants: tenants.to_vec(),
        ..TenantsConfig::default()
    };
    let little = TenantsConfig { memory_bytes: Some(100 << 10), ..tenants.clone() };
    let refused = block_on(Tenants::open(
        little,
        Some(drive_of(32 << 20, true) as Arc<dyn Device>),
        Arc::new(RealClock),
    ));
    let refused = refused.err().expect("it is too little");
    assert_eq!(refused.kind(), ErrorKind::Config);
    assert!(refused.to_string().contains("memory_bytes = 102400"), "{refused}");
    let tenants = open(tenants, Some(drive_of(32 << 20, true) as _));
    let (a, b) = (tenants.tenant("a").unwrap(), tenants.tenant("b").unwrap());
    for key in keys(0, 4 * all) {
        set(if key % 5 < 3 { a } else { b }, key);
        within(&tenants.stats());
    }
    assert!(within(&tenants.stats()) > all - all / 10);
    tenants.set_memory_bytes(2 * MIB);
    keys(0, 4 * MIB).for_each(|key| set(if key % 2 == 0 { a } else { b }, key));
    let stats = tenants.stats();
    let sum = stats.dram_used_bytes + stats.flash_memory_bytes;
    assert!(sum <= 2 * MIB + 2 * MIB / 50, "{sum}");

    let devices = (0..2).map(|_| Some(drive_of(16 << 20, true) as Arc<dyn Device>)).collect();
    let shards = block_on(Shards::open(config(Some(all)), devices, Arc::new(RealClock))).unwrap();
    for key in keys(0, 4 * all) {
        block_on(shards.set(&key_of(key), &value_of(key, 1, BYTES), None)).unwrap();
        within(&shards.stats());
    }
    assert!(within(&shards.stats()) > all - all / 10);
}

/// No deadlock: a cache never waits for another cache's lock.
#[test]
fn threads_that_lend_borrow_clear_and_close_end() {
    let tenants = vec![borrower("a", 50.0, ALL), borrower("b", 50.0, ALL)];
    let config = TenantsConfig { dram_bytes: MIB, tenants, ..TenantsConfig::default() };
    let tenants = open(config, Some(drive_of(32 << 20, true) as _));
    let closed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (name, first) in [("a", 0), ("b", 0), ("a", 10_000), ("b", 10_000)] {
            let (cache, closed) = (tenants.tenant(name).unwrap(), &closed);
            scope.spawn(move || {
                for key in (first..first + 4000).cycle() {
                    let set = block_on(cache.set(&key_of(key), &value_of(key, 1, BYTES), None));
                    if set.is_err() {
                        assert!(closed.load(Ordering::SeqCst));
                        return;
                    }
                }
            });
        }
        for round in 0..20 {
            let name = ["a", "b"][round % 2];
            block_on(tenants.tenant(name).unwrap().clear()).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        closed.store(true, Ordering::SeqCst);
        block_on(tenants.close()).unwrap();
    });
}
