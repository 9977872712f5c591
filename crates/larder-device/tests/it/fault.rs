//! Every fault, observed from outside.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use larder_device::{
    Device, ErrorKind, Fault, FaultDevice, FaultPlan, FaultRule, Io, IoEngine, ModelDevice,
};

use crate::support::{
    BLOCK, block_on, file, flush, model, options, pattern, read, start_read, start_write, write,
};

const CAPACITY: u64 = 1 << 20;

fn device(rule: FaultRule) -> FaultDevice<ModelDevice> {
    FaultDevice::new(model(CAPACITY), &FaultPlan::new(7).with(rule))
}

fn is_pending(future: &mut larder_device::IoFuture) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    matches!(Pin::new(future).poll(&mut context), Poll::Pending)
}

#[test]
fn an_error_hits_its_request_and_returns_the_buffer() {
    let device = device(FaultRule::new(Fault::Error).at_io(1));
    write(&device, 0, pattern(1, 2)).unwrap();
    let failure = write(&device, 0, pattern(2, 2)).unwrap_err();
    assert_eq!(failure.error.kind(), ErrorKind::Io);
    assert_eq!(failure.buffer.as_slice(), pattern(2, 2).as_slice());
    assert_eq!(read(&device, 0, 2).unwrap().as_slice(), pattern(1, 2).as_slice());
    assert_eq!((device.counts().errors, device.stats().failed_requests), (1, 1));
    assert_eq!(device.submissions(), 3);
}

#[test]
fn a_torn_write_leaves_its_first_blocks() {
    for reported_done in [false, true] {
        let fault = Fault::TornWrite { blocks: Some(3), reported_done };
        let device = device(FaultRule::new(fault).at_match(1));
        write(&device, 0, pattern(1, 8)).unwrap();
        let result = write(&device, 0, pattern(2, 8));
        assert_eq!(result.is_ok(), reported_done);
        let buffer = result.unwrap_or_else(|failure| failure.buffer);
        assert_eq!(buffer.as_slice(), pattern(2, 8).as_slice());
        let back = read(&device, 0, 8).unwrap();
        let edge = 3 * BLOCK;
        assert_eq!(back.as_slice()[..edge], pattern(2, 8).as_slice()[..edge]);
        assert_eq!(back.as_slice()[edge..], pattern(1, 8).as_slice()[edge..]);
        assert_eq!(device.counts().torn_writes, 1);
    }
}

#[test]
fn a_lost_write_is_reported_and_never_happens() {
    let device = device(FaultRule::new(Fault::LostWrite).within(4096..8192));
    write(&device, 0, pattern(1, 1)).unwrap();
    write(&device, 1, pattern(2, 1)).unwrap();
    assert_eq!(read(&device, 0, 1).unwrap().as_slice(), pattern(1, 1).as_slice());
    assert_eq!(read(&device, 1, 1).unwrap().as_slice(), [0; BLOCK]);
    assert_eq!(device.counts().lost_writes, 1);
}

#[test]
fn one_bit_flips_on_the_way() {
    let differing =
        |a: &[u8], b: &[u8]| -> u32 { a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum() };
    let original = pattern(1, 4);
    let reads = device(FaultRule::new(Fault::BitFlip).on_reads().at_most(1));
    write(&reads, 0, pattern(1, 4)).unwrap();
    let flipped = read(&reads, 0, 4).unwrap();
    assert_eq!(differing(flipped.as_slice(), original.as_slice()), 1);
    assert_eq!(read(&reads, 0, 4).unwrap().as_slice(), original.as_slice());
    let writes = device(FaultRule::new(Fault::BitFlip).on_writes());
    let returned = write(&writes, 0, pattern(1, 4)).unwrap();
    assert_eq!(returned.as_slice(), original.as_slice(), "the caller's bytes are untouched");
    let back = read(&writes, 0, 4).unwrap();
    assert_eq!(differing(back.as_slice(), original.as_slice()), 1);
    assert_eq!(reads.counts().bit_flips + writes.counts().bit_flips, 2);
}

#[test]
fn a_delayed_request_is_overtaken() {
    let device = device(FaultRule::new(Fault::Delay { submissions: 2 }).at_io(0));
    let mut slow = start_write(&device, 0, pattern(1, 1));
    assert!(is_pending(&mut slow));
    assert_eq!(read(&device, 0, 1).unwrap().as_slice(), [0; BLOCK]);
    assert!(is_pending(&mut slow));
    assert_eq!(read(&device, 0, 1).unwrap().as_slice(), [0; BLOCK]);
    block_on(slow).unwrap();
    assert_eq!(read(&device, 0, 1).unwrap().as_slice(), pattern(1, 1).as_slice());
    assert_eq!(device.counts().delays, 1);
}

#[test]
fn waiting_or_releasing_or_dropping_ends_a_delay() {
    let device = device(FaultRule::new(Fault::Delay { submissions: 99 }).on_writes());
    start_write(&device, 0, pattern(1, 1)).wait().unwrap();
    let mut second = start_write(&device, 1, pattern(2, 1));
    assert!(is_pending(&mut second));
    device.release_delayed();
    assert!(!is_pending(&mut second));
    let third = start_write(&device, 2, pattern(3, 1));
    drop(device);
    third.wait().unwrap();
}

#[test]
fn a_device_that_is_gone_stays_gone() {
    let device = device(FaultRule::new(Fault::Gone).at_io(1));
    write(&device, 0, pattern(1, 1)).unwrap();
    for _ in 0..2 {
        assert_eq!(read(&device, 0, 1).unwrap_err().error.kind(), ErrorKind::Gone);
    }
    assert_eq!(device.restart().unwrap_err().kind(), ErrorKind::Gone);
    assert_eq!((device.counts().gone, device.counts().refused), (1, 1));
}

#[test]
fn a_crash_keeps_what_was_flushed_and_fails_what_follows() {
    let device = device(FaultRule::new(Fault::Crash).at_io(4));
    write(&device, 0, pattern(1, 4)).unwrap();
    flush(&device).unwrap();
    let mut delayed = start_write(&device, 8, pattern(3, 1));
    assert!(!is_pending(&mut delayed), "this plan delays nothing");
    write(&device, 4, pattern(2, 1)).unwrap();
    for _ in 0..3 {
        let failure = start_read(&device, 0, 4).wait().unwrap_err();
        assert_eq!((failure.error.kind(), failure.buffer.len()), (ErrorKind::Gone, 4 * BLOCK));
    }
    assert!(device.is_down());
    assert_eq!((device.counts().crashes, device.counts().refused), (1, 2));
    device.restart().unwrap();
    assert_eq!(read(&device, 0, 4).unwrap().as_slice(), pattern(1, 4).as_slice());
}

#[test]
fn a_delayed_request_fails_in_a_crash() {
    let plan = FaultPlan::new(1)
        .with(FaultRule::new(Fault::Delay { submissions: 9 }).at_io(0))
        .with(FaultRule::new(Fault::Crash).at_io(1));
    let device = FaultDevice::new(model(CAPACITY), &plan);
    let slow = start_write(&device, 0, pattern(1, 1));
    assert_eq!(flush(&device).unwrap_err().error.kind(), ErrorKind::Gone);
    let failure = slow.wait().unwrap_err();
    assert_eq!((failure.error.kind(), failure.buffer.len()), (ErrorKind::Gone, BLOCK));
}

/// One run: rounds of overlapping writes, some flushed, then power loss. Returns the image and
/// which outcomes were seen.
fn crash_run(device: &FaultDevice<impl Device>, seed: u64) -> Vec<u8> {
    const BLOCKS: usize = 16;
    let mut rng = fastrand::Rng::with_seed(seed);
    // For each block, every content that a crash may leave.
    let mut allowed: Vec<Vec<Vec<u8>>> = vec![vec![vec![0; BLOCK]]; BLOCKS];
    for round in 0..30u64 {
        let blocks = rng.usize(1..5);
        let first = rng.usize(..BLOCKS - blocks);
        let buffer = pattern(seed << 8 | round, blocks);
        let contents = buffer.as_slice().to_vec();
        write(device, first as u64, buffer).unwrap();
        for (i, bytes) in contents.chunks(BLOCK).enumerate() {
            allowed[first + i].push(bytes.to_vec());
        }
        if rng.u8(..8) == 0 {
            flush(device).unwrap();
            for versions in &mut allowed {
                versions.drain(..versions.len() - 1);
            }
        }
    }
    device.crash().unwrap();
    device.restart().unwrap();
    let image = read(device, 0, BLOCKS).unwrap();
    for (i, bytes) in image.as_slice().chunks(BLOCK).enumerate() {
        assert!(allowed[i].iter().any(|version| version == bytes), "seed {seed}, block {i}");
    }
    image.as_slice().to_vec()
}

#[test]
fn crashes_keep_lose_and_tear_unflushed_writes_by_seed() {
    let mut seen = (0, 0, 0);
    for seed in 0..20 {
        let run = || {
            let device = FaultDevice::new(model(CAPACITY), &FaultPlan::new(seed));
            (crash_run(&device, seed), device.counts())
        };
        let (image, counts) = run();
        assert!((image, counts) == run(), "seed {seed} is not deterministic");
        seen.0 += counts.kept_by_crash;
        seen.1 += counts.lost_by_crash;
        seen.2 += counts.torn_by_crash;
    }
    assert!(seen.0 > 0 && seen.1 > 0 && seen.2 > 0, "{seen:?}");
}

#[test]
fn a_file_crashes_like_the_model() {
    for seed in 0..3 {
        let (below, _directory) = file(&options(CAPACITY, IoEngine::Auto));
        let over_file = FaultDevice::new(below, &FaultPlan::new(seed));
        let over_model = FaultDevice::new(model(CAPACITY), &FaultPlan::new(seed));
        assert!(crash_run(&over_file, seed) == crash_run(&over_model, seed));
        assert_eq!(over_file.counts(), over_model.counts());
        let host = |device: &dyn Device| {
            (device.stats().host_read_bytes, device.stats().host_written_bytes)
        };
        assert_eq!(host(&over_file), host(&over_model), "housekeeping is not the host's");
    }
}

#[test]
fn old_writes_become_durable_without_a_flush() {
    for seed in 0..20 {
        let plan = FaultPlan::new(seed).volatile_writes(2);
        let device = FaultDevice::new(model(CAPACITY), &plan);
        for block in 0..10 {
            write(&device, block, pattern(block, 1)).unwrap();
        }
        device.crash().unwrap();
        device.restart().unwrap();
        for block in 0..8 {
            let back = read(&device, block, 1).unwrap();
            assert_eq!(back.as_slice(), pattern(block, 1).as_slice(), "seed {seed}");
        }
    }
}

#[test]
fn a_failed_flush_makes_nothing_durable() {
    let lost_any = (0..20).any(|seed| {
        let plan = FaultPlan::new(seed).with(FaultRule::new(Fault::Error).on_flushes());
        let device = FaultDevice::new(model(CAPACITY), &plan);
        write(&device, 0, pattern(1, 1)).unwrap();
        flush(&device).unwrap_err();
        device.crash().unwrap();
        device.restart().unwrap();
        read(&device, 0, 1).unwrap().as_slice() == [0; BLOCK]
    });
    assert!(lost_any);
}

#[test]
fn a_shared_device_can_be_wrapped_and_plans_changed() {
    let below: std::sync::Arc<dyn Device> = std::sync::Arc::new(model(CAPACITY));
    let device = FaultDevice::new(
        std::sync::Arc::clone(&below),
        &FaultPlan::new(0).with(FaultRule::new(Fault::Error)),
    );
    write(&device, 0, pattern(1, 1)).unwrap_err();
    device.set_plan(&FaultPlan::new(0));
    write(&device, 0, pattern(1, 1)).unwrap();
    device.submit(Io::Deallocate { offset: 0, bytes: 4096 }).wait().unwrap();
    assert_eq!(read(&*below, 0, 1).unwrap().as_slice(), [0; BLOCK]);
}

#[test]
fn a_torn_write_survives_as_its_first_blocks() {
    let mut edges = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let device = FaultDevice::new(model(CAPACITY), &FaultPlan::new(seed));
        write(&device, 3, pattern(1, 6)).unwrap();
        flush(&device).unwrap();
        write(&device, 3, pattern(2, 6)).unwrap();
        device.crash().unwrap();
        device.restart().unwrap();
        let (old, new) = (pattern(1, 6), pattern(2, 6));
        let back = read(&device, 3, 6).unwrap();
        let edge = (0..=6).find(|blocks| {
            let edge = blocks * BLOCK;
            back.as_slice()[..edge] == new.as_slice()[..edge]
                && back.as_slice()[edge..] == old.as_slice()[edge..]
        });
        edges.insert(edge.unwrap_or_else(|| panic!("seed {seed}: not a prefix")));
    }
    assert!(edges.len() > 3, "{edges:?}");
}

#[test]
fn what_became_durable_lies_under_what_did_not() {
    for seed in 0..40 {
        let plan = FaultPlan::new(seed).volatile_writes(2);
        let device = FaultDevice::new(model(CAPACITY), &plan);
        (0..10).for_each(|tag| drop(write(&device, 0, pattern(tag, 1)).unwrap()));
        device.crash().unwrap();
        device.restart().unwrap();
        let back = read(&device, 0, 1).unwrap();
        let latest = (7..10).any(|tag| back.as_slice() == pattern(tag, 1).as_slice());
        assert!(latest, "seed {seed}: an overwritten version came back");
    }
}

#[test]
fn counters_are_those_of_the_host() {
    let device = FaultDevice::new(model(CAPACITY), &FaultPlan::new(3));
    for block in 0..20 {
        write(&device, block, pattern(block, 4)).unwrap();
    }
    device.crash().unwrap();
    device.restart().unwrap();
    read(&device, 0, 2).unwrap();
    let (outside, inside) = (device.stats(), device.inner().stats());
    assert_eq!((outside.host_written_bytes, outside.host_read_bytes), (20 * 4 * 4096, 2 * 4096));
    assert_eq!(outside.host_written_bytes_by_handle[0], 20 * 4 * 4096);
    assert!(inside.host_read_bytes > outside.host_read_bytes);
    assert!(inside.host_written_bytes > outside.host_written_bytes);
}
