//! Requests that complete out of order, and what a power loss leaves of those that have not completed.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use larder_device::{
    Device, Durability, FaultDevice, FaultPlan, Io, IoBuffer, IoFuture, MemoryDevice,
    PlacementHandle,
};

use crate::support::{BLOCK, flush, read, start_write, write};

/// Longer than any test runs: a request is held back until a caller waits for it.
const UNTIL_WAITED: u32 = 1 << 20;

fn memory(plan: &FaultPlan) -> FaultDevice<MemoryDevice> {
    FaultDevice::new(MemoryDevice::holding(vec![0; 1 << 20]), plan)
}

fn filled(byte: u8) -> IoBuffer {
    let mut buffer = IoBuffer::zeroed(BLOCK);
    buffer.as_mut_slice().fill(byte);
    buffer
}

fn has_ended(future: &mut IoFuture) -> bool {
    matches!(Pin::new(future).poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(_)))
}

/// The numbers of the writes in the order of their completion.
fn order_of(seed: u64) -> Vec<u64> {
    let device = memory(&FaultPlan::new(seed).completing_out_of_order(8));
    let (mut under_way, mut order) = (Vec::new(), Vec::new());
    for number in 0..100_u8 {
        under_way.push((u64::from(number), start_write(&device, number.into(), filled(number))));
        under_way.retain_mut(|(number, future)| {
            let ended = has_ended(future);
            order.extend(ended.then_some(*number));
            !ended
        });
    }
    device.release_delayed();
    order.extend(under_way.into_iter().map(|(number, future)| {
        future.wait().unwrap();
        number
    }));
    for number in 0..100_u8 {
        let there = read(&device, number.into(), 1).unwrap();
        assert_eq!(there.as_slice(), filled(number).as_slice());
    }
    assert!((50..200).contains(&device.counts().held_back), "{:?}", device.counts());
    order
}

#[test]
fn requests_complete_out_of_order_by_seed() {
    let order = order_of(1);
    assert_eq!(order, order_of(1));
    assert_ne!(order, order_of(2));
    let overtaken = order.windows(2).filter(|pair| pair[0] > pair[1]).count();
    assert!(overtaken > 10, "{order:?}");
    let mut all = order;
    all.sort_unstable();
    assert_eq!(all, (0..100).collect::<Vec<_>>(), "each once");
}

/// A flush need not cover a write that has happened but had not completed when the flush was submitted. It covers all
/// writes that had completed.
#[test]
fn a_flush_covers_only_what_had_completed_when_it_was_submitted() {
    let (mut happened, mut lost) = (0, 0);
    for seed in 0..200 {
        let device = memory(&FaultPlan::new(seed).completing_out_of_order(UNTIL_WAITED));
        write(&device, 0, filled(1)).unwrap();
        let untold = start_write(&device, 1, filled(2));
        let has_happened = device.inner().bytes()[BLOCK] == 2;
        let flushing = device.submit(Io::Flush);
        // It completes while the flush is in flight: too late.
        untold.wait().unwrap();
        flushing.wait().unwrap();
        device.crash().unwrap();
        let bytes = device.inner().bytes();
        assert!(bytes[..BLOCK] == *filled(1).as_slice(), "seed {seed}: it had completed");
        if has_happened {
            happened += 1;
            lost += u32::from(bytes[BLOCK..2 * BLOCK] != *filled(2).as_slice());
        }
    }
    assert!(happened > 50 && lost > 10, "{lost} of {happened} were lost");
}

/// The same with a second flush, which does cover it.
#[test]
fn a_later_flush_covers_what_has_completed_before_it() {
    for seed in 0..100 {
        let device = memory(&FaultPlan::new(seed).completing_out_of_order(UNTIL_WAITED));
        let untold = start_write(&device, 1, filled(2));
        flush(&device).unwrap();
        untold.wait().unwrap();
        flush(&device).unwrap();
        device.crash().unwrap();
        assert!(device.inner().bytes()[BLOCK..2 * BLOCK] == *filled(2).as_slice(), "seed {seed}");
    }
}

/// A durable write survives a power loss once it has completed, but not necessarily before.
#[test]
fn a_durable_write_is_certain_when_it_has_completed() {
    let (mut happened, mut lost) = (0, 0);
    for seed in 0..200 {
        for has_cache in [true, false] {
            let plan = FaultPlan::new(seed).volatile_cache(has_cache);
            let device = memory(&plan.completing_out_of_order(UNTIL_WAITED));
            let (handle, durability) = (PlacementHandle::DEFAULT, Durability::Power);
            let durable = |block: u64, byte| {
                let (offset, buffer) = (block * BLOCK as u64, filled(byte));
                device.submit(Io::Write { offset, buffer, handle, durability })
            };
            durable(0, 1).wait().unwrap();
            let untold = durable(1, 2);
            let has_happened = device.inner().bytes()[BLOCK] == 2;
            device.crash().unwrap();
            assert!(untold.wait().is_err(), "power was lost before its end");
            let bytes = device.inner().bytes();
            assert!(bytes[..BLOCK] == *filled(1).as_slice(), "seed {seed}: it had completed");
            if has_happened {
                happened += 1;
                lost += u32::from(bytes[BLOCK..2 * BLOCK] != *filled(2).as_slice());
            }
        }
    }
    assert!(happened > 100 && lost > 20, "{lost} of {happened} were lost");
}
