//! A cache that is closed while other tasks still use it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Waker};

use larder::{
    Change, Config, Error, ErrorKind, FetchError, Larder, RealClock, Recovery, Shards, Tenant,
    Tenants, TenantsConfig, block_on,
};
use larder_device::label;
use larder_device::{Device, Fault, FaultPlan, FaultRule};

use crate::faults::faulty;
use crate::rig::{Rig, config, drive, key_of, logged, value_of};

const KEYS: u32 = 300;

fn bytes_of(key: u32) -> usize {
    if key.is_multiple_of(5) { 9_000 } else { 200 }
}

fn refused<T>(outcome: Result<T, Error>) {
    assert_eq!(outcome.err().map(|error| error.kind()), Some(ErrorKind::Closed));
}

fn refuses_every_call(cache: &Larder) {
    let key = b"key-00000000";
    refused(block_on(cache.get(key)));
    refused(cache.blocking().get(key));
    refused(block_on(cache.get_many(&[key])));
    refused(block_on(cache.contains(key)));
    refused(block_on(cache.set(key, b"late", None)));
    refused(block_on(cache.delete(key)));
    refused(block_on(cache.update(key, |_| Change::Keep)));
    refused(block_on(cache.touch(key, None)));
    refused(block_on(cache.incr(key, 1)));
    refused(block_on(cache.flush()));
    refused(block_on(cache.clear()));
    let fetch = async || Ok::<_, String>(b"late".to_vec());
    let fetched = block_on(cache.get_or_fetch(key, Default::default(), fetch));
    let Err(FetchError::Cache(error)) = fetched else { panic!("{fetched:?}") };
    assert_eq!(error.kind(), ErrorKind::Closed);
    let mut scan = cache.scan();
    assert!(block_on(scan.next()).is_none() && !scan.is_whole());
    assert_eq!(block_on(cache.rebuild()), 0);
}

#[test]
fn a_closed_cache_refuses_every_call() {
    let in_dram = block_on(Larder::open(Config::default(), None, Arc::new(RealClock))).unwrap();
    block_on(in_dram.set(b"key-00000000", b"early", None)).unwrap();
    block_on(in_dram.close()).unwrap();
    refuses_every_call(&in_dram);
    for config in [config(), logged()] {
        let drive = drive();
        let rig = Rig::open(config.clone(), &drive);
        (0..KEYS).for_each(|key| rig.set(key, 1, bytes_of(key)));
        let mut scan = rig.cache.scan();
        assert!(block_on(scan.next()).is_some());
        let closed = block_on(rig.cache.close()).unwrap();
        assert_eq!(closed.sets, u64::from(KEYS));
        let written = drive.stats().host_written_bytes;
        refuses_every_call(&rig.cache);
        assert!(block_on(scan.next()).is_none() && !scan.is_whole(), "one that was under way");
        assert_eq!(block_on(rig.cache.close()).unwrap().sets, closed.sets, "once more");
        assert!(rig.cache.stats().sets > 0 && rig.cache.layout().is_some());
        assert_eq!(drive.stats().host_written_bytes, written);
        // The first one still exists, but has released the device.
        let next = Rig::open(config, &drive);
        assert!(matches!(next.cache.recovery(), Some(Recovery::Clean { .. })));
        (0..KEYS).for_each(|key| assert_eq!(next.get(key), Some(1), "key {key}"));
        let mut scan = next.cache.scan();
        while block_on(scan.next()).is_some() {}
        assert!(scan.is_whole());
    }
}

#[test]
fn so_do_shards_and_tenants() {
    let drives = [drive(), drive()];
    let devices =
        || drives.iter().map(|drive| Some(Arc::clone(drive) as Arc<dyn Device>)).collect();
    let open = || block_on(Shards::open(config(), devices(), Arc::new(RealClock))).unwrap();
    let shards = open();
    block_on(shards.set(b"a", b"1", None)).unwrap();
    block_on(shards.close()).unwrap();
    refused(block_on(shards.get(b"a")));
    block_on(shards.close()).unwrap();
    assert!(block_on(open().get(b"a")).unwrap().is_some());

    let drive = drive();
    let open = || {
        let tenants = vec![Tenant::new("web", 50.0), Tenant::new("mail", 50.0)];
        let config = TenantsConfig { tenants, ..TenantsConfig::default() };
        let device: Arc<dyn Device> = Arc::clone(&drive) as _;
        block_on(Tenants::open(config, Some(device), Arc::new(RealClock))).unwrap()
    };
    let tenants = open();
    block_on(tenants.tenant("web").unwrap().set(b"a", b"1", None)).unwrap();
    block_on(tenants.close()).unwrap();
    refused(block_on(tenants.tenant("web").unwrap().get(b"a")));
    refused(block_on(tenants.flush()));
    block_on(tenants.close()).unwrap();
    assert!(block_on(open().tenant("web").unwrap().get(b"a")).unwrap().is_some());
}

/// Each thread has keys of its own, and sets them one version after the other.
#[test]
fn what_was_completed_during_a_close_is_kept() {
    for round in 0..6 {
        let drive = drive();
        let rig = Rig::open(if round % 2 == 0 { config() } else { logged() }, &drive);
        let newest: Vec<AtomicU32> = (0..KEYS).map(|_| AtomicU32::new(0)).collect();
        let (late, begun) = (AtomicU32::new(0), AtomicU32::new(0));
        let is_closed = AtomicBool::new(false);
        let cache = &rig.cache;
        std::thread::scope(|scope| {
            for thread in 0..3_usize {
                let (newest, late, begun) = (&newest, &late, &begun);
                let is_closed = &is_closed;
                scope.spawn(move || {
                    for version in 1.. {
                        for key in (thread..KEYS as usize).step_by(3) {
                            let after = is_closed.load(Ordering::SeqCst);
                            let number = u32::try_from(key).unwrap();
                            let value = value_of(number, version, bytes_of(number));
                            let set = block_on(cache.set(&key_of(number), &value, None));
                            if let Err(error) = set {
                                assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
                                late.fetch_add(1, Ordering::SeqCst);
                                return;
                            }
                            assert!(!after, "set on a closed cache");
                            newest[key].store(version, Ordering::SeqCst);
                            begun.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                });
            }
            while begun.load(Ordering::SeqCst) < 400 + round * 37 {
                std::thread::yield_now();
            }
            block_on(cache.close()).unwrap();
            is_closed.store(true, Ordering::SeqCst);
        });
        assert_eq!(late.load(Ordering::SeqCst), 3);
        let next = Rig::open(if round % 2 == 0 { config() } else { logged() }, &drive);
        assert!(matches!(next.cache.recovery(), Some(Recovery::Clean { .. })));
        for (key, newest) in (0..).zip(&newest) {
            // All of them: there is room for more.
            let found = next.get(key).unwrap_or(0);
            assert_eq!(found, newest.load(Ordering::SeqCst), "key {key}");
        }
    }
}

#[test]
fn a_close_that_failed_or_was_dropped_can_be_repeated() {
    let device = faulty(&FaultPlan::new(9));
    let rig = Rig::open(config(), &device);
    (0..KEYS).for_each(|key| rig.set(key, 1, bytes_of(key)));
    let superblock = FaultRule::new(Fault::Error).on_writes().within(0..label::AREA_BYTES);
    device.set_plan(&FaultPlan::new(9).with(superblock));
    let failed = block_on(rig.cache.close());
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Device);
    refuses_every_call(&rig.cache);
    device.set_plan(&FaultPlan::new(9).with(FaultRule::new(Fault::Delay { submissions: 1 << 20 })));
    {
        let mut closing = Box::pin(rig.cache.close());
        let mut context = Context::from_waker(Waker::noop());
        assert!(closing.as_mut().poll(&mut context).is_pending());
    }
    refuses_every_call(&rig.cache);
    device.set_plan(&FaultPlan::new(9));
    device.release_delayed();
    block_on(rig.cache.close()).unwrap();
    let next = Rig::open(config(), &device);
    assert!(matches!(next.cache.recovery(), Some(Recovery::Clean { .. })));
    (0..KEYS).for_each(|key| assert_eq!(next.get(key), Some(1), "key {key}"));
}
