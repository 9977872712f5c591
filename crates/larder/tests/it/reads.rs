//! Reads of flash that are in flight while the key changes.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use larder::{Config, CrashSafety, SetOptions, Tiers, block_on};
use larder_device::{Fault, FaultDevice, FaultPlan, FaultRule, ModelDevice};

use crate::faults::faulty;
use crate::rig::{Rig, config, key_of, value_of, version_in};

const KEY: u32 = 7;

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A cache that has version 1 of the key only on flash, and a device that holds back reads.
fn rig(plan: &FaultPlan) -> (Rig, Arc<FaultDevice<ModelDevice>>) {
    let device = faulty(plan);
    let rig = Rig::open(config(), &device);
    rig.set(KEY, 1, 200);
    push_out(&rig);
    (rig, device)
}

fn push_out(rig: &Rig) {
    (1000..1400).for_each(|key| rig.set(key, 1, 100));
}

fn slow_reads() -> FaultPlan {
    FaultPlan::new(1).with(FaultRule::new(Fault::Delay { submissions: 1_000_000 }).on_reads())
}

#[test]
fn concurrent_misses_read_once() {
    let (rig, device) = rig(&FaultPlan::new(1));
    device.set_plan(&slow_reads());
    let key = key_of(KEY);
    let before = rig.cache.stats().soc_bucket_reads;
    let mut gets: Vec<_> = (0..5).map(|_| Box::pin(rig.cache.get(&key))).collect();
    assert!(gets.iter_mut().all(|get| poll(get.as_mut()).is_pending()));
    assert_eq!(rig.cache.stats().soc_bucket_reads - before, 1);
    device.set_plan(&FaultPlan::new(1));
    device.release_delayed();
    for get in &mut gets {
        let Poll::Ready(Ok(Some(value))) = poll(get.as_mut()) else { panic!("it was read") };
        assert_eq!(version_in(KEY, &value), 1);
    }
    drop(gets);
    assert_eq!(rig.cache.stats().soc_hits, 5);
}

#[test]
fn if_the_reading_caller_gives_up_another_reads() {
    let (rig, device) = rig(&FaultPlan::new(1));
    device.set_plan(&slow_reads());
    let key = key_of(KEY);
    let mut second = pin!(rig.cache.get(&key));
    {
        let mut first = pin!(rig.cache.get(&key));
        assert!(poll(first.as_mut()).is_pending());
        assert!(poll(second.as_mut()).is_pending());
    }
    device.set_plan(&FaultPlan::new(1));
    let Poll::Ready(Ok(Some(value))) = poll(second) else { panic!("the first is gone") };
    assert_eq!(version_in(KEY, &value), 1);
}

/// The read began before the change, so it may see either version. What it read must not come back afterwards, wherever
/// the newer version has gone since.
#[test]
fn a_read_that_was_overtaken_leaves_no_trace() {
    for goes_on_to_flash in [false, true] {
        for deletes in [false, true] {
            let (rig, device) = rig(&FaultPlan::new(1));
            let key = key_of(KEY);
            device.set_plan(&slow_reads());
            let mut get = pin!(rig.cache.get(&key));
            assert!(poll(get.as_mut()).is_pending());
            device.set_plan(&FaultPlan::new(1));
            if deletes {
                assert!(rig.delete(KEY));
            } else {
                rig.set(KEY, 2, 300);
            }
            if goes_on_to_flash {
                push_out(&rig);
            }
            device.release_delayed();
            let Poll::Ready(Ok(value)) = poll(get) else { panic!("it was read") };
            if let Some(value) = value {
                let seen = version_in(KEY, &value);
                assert!(seen == 1 || seen == 2 && !deletes, "{seen}");
            }
            let now = (!deletes).then_some(2);
            assert_eq!(rig.get(KEY), now, "deletes {deletes}, on flash {goes_on_to_flash}");
        }
    }
}

#[test]
fn a_get_after_a_change_does_not_wait_for_an_overtaken_read() {
    let (rig, device) = rig(&FaultPlan::new(1));
    let key = key_of(KEY);
    device.set_plan(&slow_reads());
    let mut old = pin!(rig.cache.get(&key));
    assert!(poll(old.as_mut()).is_pending());
    device.set_plan(&FaultPlan::new(1));
    block_on(rig.cache.set(&key, &value_of(KEY, 2, 300), None)).unwrap();
    push_out(&rig);
    assert_eq!(rig.get(KEY), Some(2), "while the old read is still under way");
    device.release_delayed();
    assert!(poll(old).is_ready());
    assert_eq!(rig.get(KEY), Some(2));
}

/// There must be no time between the tombstone for flash's version and the new value in DRAM at which the key is
/// missing.
#[test]
fn a_key_that_is_overwritten_has_a_value_all_the_time() {
    for bytes in [200, 5000] {
        let device = faulty(&FaultPlan::new(1));
        let rig = Rig::open(Config { crash_safety: CrashSafety::Process, ..config() }, &device);
        rig.set(KEY, 1, bytes);
        push_out(&rig);
        let flushed = block_on(rig.cache.flush()).unwrap();
        assert_eq!((flushed.refused, flushed.lost), (0, 0));
        let slow = FaultRule::new(Fault::Delay { submissions: 1_000_000 }).on_writes();
        device.set_plan(&FaultPlan::new(1).with(slow));
        let (key, new) = (key_of(KEY), value_of(KEY, 2, bytes));
        let mut set = pin!(rig.cache.set(&key, &new, None));
        assert!(poll(set.as_mut()).is_pending(), "it waits for its tombstone");
        let mut get = pin!(rig.cache.get(&key));
        let early = poll(get.as_mut());
        device.set_plan(&FaultPlan::new(1));
        device.release_delayed();
        assert!(matches!(poll(set), Poll::Ready(Ok(()))));
        let found = if early.is_ready() { early } else { poll(get) };
        let Poll::Ready(Ok(Some(value))) = found else { panic!("it has one: {found:?}, {bytes}") };
        assert!((1..=2).contains(&version_in(KEY, &value)), "both are of this time");
    }
}

/// The same if DRAM does not keep the new value: it is on flash before those who wait for the change look again.
#[test]
fn nor_is_it_missing_if_its_new_value_goes_on_to_flash_at_once() {
    let only_flash = SetOptions { tiers: Tiers::FlashOnly, ..SetOptions::default() };
    for (dram_bytes, options, bytes) in [
        (0, SetOptions::default(), 200),
        (0, SetOptions::default(), 5000),
        (20 << 10, only_flash, 200),
        (20 << 10, only_flash, 5000),
    ] {
        let device = faulty(&FaultPlan::new(1));
        let crash_safety = CrashSafety::Process;
        let rig = Rig::open(Config { dram_bytes, crash_safety, ..config() }, &device);
        let (key, old) = (key_of(KEY), value_of(KEY, 1, bytes));
        block_on(rig.cache.set_with(&key, &old, options)).unwrap();
        let flushed = block_on(rig.cache.flush()).unwrap();
        assert_eq!((flushed.refused, flushed.lost), (0, 0));
        let slow = FaultRule::new(Fault::Delay { submissions: 1_000_000 }).on_writes();
        device.set_plan(&FaultPlan::new(1).with(slow));
        let new = value_of(KEY, 2, bytes);
        let mut set = pin!(rig.cache.set_with(&key, &new, options));
        assert!(poll(set.as_mut()).is_pending(), "it waits for its tombstone");
        let version = |value: &[u8]| version_in(KEY, value);
        let mut looks: [Pin<Box<dyn Future<Output = Option<u32>>>>; 4] = [
            Box::pin(async { rig.cache.get(&key).await.unwrap().map(|value| version(&value)) }),
            Box::pin(async { rig.cache.peek_with(&key, |value, _| version(value)).await.unwrap() }),
            Box::pin(async { rig.cache.contains(&key).await.unwrap().then_some(2) }),
            Box::pin(async {
                let mut stream = rig.cache.get_stream(&key).await.unwrap()?;
                stream.next().await.unwrap().map(|value| version(&value))
            }),
        ];
        let early: Vec<_> = looks.iter_mut().map(|look| poll(look.as_mut())).collect();
        device.set_plan(&FaultPlan::new(1));
        device.release_delayed();
        assert!(matches!(poll(set), Poll::Ready(Ok(()))));
        for (number, (early, look)) in early.into_iter().zip(&mut looks).enumerate() {
            let found = match early {
                Poll::Ready(found) => found,
                Poll::Pending => block_on(look),
            };
            assert!(matches!(found, Some(1 | 2)), "look {number}: {found:?}, {bytes} bytes");
        }
    }
}
