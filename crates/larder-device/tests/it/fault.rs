//! Every fault, as the caller sees it.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use larder_device::{
    Device, Durability, ErrorKind, Fault, FaultDevice, FaultPlan, FaultRule, Io, IoBuffer,
    IoEngine, MemoryDevice, ModelDevice, PlacementHandle, VolatileCache,
};

use crate::support::{
    BLOCK, block_on, file, flush, model, options, pattern, read, start_read, start_write, write,
};

const CAPACITY: u64 = 1 << 20;
const SECTOR: usize = 512;

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

/// One run: rounds of overlapping writes, some of them flushed, then a power loss. Checks and returns the image.
fn crash_run(device: &FaultDevice<impl Device>, seed: u64) -> Vec<u8> {
    const BLOCKS: usize = 16;
    let mut rng = fastrand::Rng::with_seed(seed);
    // For each sector, every content that a crash may leave.
    let mut allowed: Vec<Vec<Vec<u8>>> = vec![vec![vec![0; SECTOR]]; BLOCKS * BLOCK / SECTOR];
    for round in 0..30u64 {
        let blocks = rng.usize(1..5);
        let first = rng.usize(..BLOCKS - blocks);
        let buffer = pattern(seed << 8 | round, blocks);
        let contents = buffer.as_slice().to_vec();
        write(device, first as u64, buffer).unwrap();
        for (i, bytes) in contents.chunks(SECTOR).enumerate() {
            allowed[first * BLOCK / SECTOR + i].push(bytes.to_vec());
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
    for (i, bytes) in image.as_slice().chunks(SECTOR).enumerate() {
        assert!(allowed[i].iter().any(|version| version == bytes), "seed {seed}, sector {i}");
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

/// Writes this number of versions of a block and loses power. Returns the version that each of its sectors has.
fn survivors(plan: &FaultPlan, versions: u64, durable: &[u64]) -> Vec<u64> {
    let device = FaultDevice::new(model(CAPACITY), plan);
    for tag in 0..versions {
        let durability =
            if durable.contains(&tag) { Durability::Power } else { Durability::Device };
        let (buffer, handle) = (pattern(tag, 1), PlacementHandle::DEFAULT);
        device.submit(Io::Write { offset: 0, buffer, handle, durability }).wait().unwrap();
    }
    device.crash().unwrap();
    device.restart().unwrap();
    versions_of(&read(&device, 0, 1).unwrap(), versions)
}

fn versions_of(block: &IoBuffer, versions: u64) -> Vec<u64> {
    let of = |(at, sector): (usize, &[u8])| {
        let written = |tag: &u64| &pattern(*tag, 1).as_slice()[at * SECTOR..][..SECTOR] == sector;
        (0..versions).find(written).unwrap_or(u64::MAX)
    };
    block.as_slice().chunks(SECTOR).enumerate().map(of).collect()
}

#[test]
fn any_subset_of_unflushed_sectors_survives_in_any_version() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let left = survivors(&FaultPlan::new(seed), 3, &[]);
        // `u64::MAX` is the content before the first version.
        seen.extend(left.windows(2).map(|pair| (pair[0], pair[1])));
    }
    for pair in [(0, 2), (2, 0), (2, u64::MAX), (u64::MAX, 2), (1, 0), (0, u64::MAX)] {
        assert!(seen.contains(&pair), "{pair:?} is not among {seen:?}");
    }
}

#[test]
fn what_became_durable_lies_under_what_did_not() {
    for seed in 0..40 {
        let left = survivors(&FaultPlan::new(seed).volatile_writes(2), 10, &[]);
        assert!(left.iter().all(|tag| (7..10).contains(tag)), "seed {seed}: {left:?}");
    }
}

#[test]
fn a_durable_write_survives_whole_and_nothing_older_does() {
    for seed in 0..100 {
        let left = survivors(&FaultPlan::new(seed), 4, &[1]);
        assert!(left.iter().all(|tag| (1..4).contains(tag)), "seed {seed}: {left:?}");
        assert_eq!(survivors(&FaultPlan::new(seed), 4, &[3]), [3; 8], "seed {seed}");
    }
}

#[test]
fn a_durable_write_that_is_under_way_is_torn() {
    let torn = (0..40).filter(|&seed| {
        let crash = FaultRule::new(Fault::Crash).on_writes().at_match(1);
        let device = FaultDevice::new(model(CAPACITY), &FaultPlan::new(seed).with(crash));
        for tag in 0..2 {
            let (buffer, handle) = (pattern(tag, 1), PlacementHandle::DEFAULT);
            let durability = Durability::Power;
            let _ends = device.submit(Io::Write { offset: 0, buffer, handle, durability }).wait();
        }
        device.restart().unwrap();
        let left = versions_of(&read(&device, 0, 1).unwrap(), 2);
        assert!(left.iter().all(|tag| *tag < 2), "seed {seed}: the one before was durable");
        left.contains(&0) && left.contains(&1)
    });
    assert!(torn.count() > 10);
}

#[test]
fn without_a_volatile_cache_all_that_completed_stays() {
    for seed in 0..20 {
        let plan = FaultPlan::new(seed).volatile_cache(false);
        assert_eq!(survivors(&plan, 3, &[]), [2; 8], "seed {seed}");
        let device = FaultDevice::new(model(CAPACITY), &plan);
        assert_eq!(device.info().volatile_cache, VolatileCache::No);
    }
    let device = FaultDevice::new(model(CAPACITY), &FaultPlan::new(1));
    assert_eq!(device.info().volatile_cache, VolatileCache::Yes);
}

/// Any 8-byte words of a 64-byte line may be new; a word is never torn.
#[test]
fn memory_is_torn_between_words() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let memory = MemoryDevice::with_blocks(vec![0; 4096], 64).unwrap();
        let crash = FaultRule::new(Fault::Crash).on_writes();
        let device = FaultDevice::new(memory, &FaultPlan::new(seed).with(crash));
        assert_eq!(device.info().atomic_write_bytes, Some(8));
        let mut buffer = IoBuffer::zeroed(64);
        buffer.as_mut_slice().fill(1);
        let _ends = device.submit(Io::write(128, buffer, PlacementHandle::DEFAULT)).wait();
        let left = device.inner().bytes();
        let words = left[128..192].chunks(8).map(|word| {
            assert!(word == [0; 8] || word == [1; 8], "seed {seed}: {word:?}");
            word[0]
        });
        seen.insert(words.collect::<Vec<u8>>());
        assert!(left[..128].iter().chain(&left[192..]).all(|byte| *byte == 0), "seed {seed}");
    }
    assert!(seen.len() > 40, "{} different ones", seen.len());
    assert!(seen.contains(&vec![0; 8]) && seen.contains(&vec![1; 8]));
}

#[test]
fn what_is_atomic_is_not_torn() {
    let mut seen = BTreeSet::new();
    for seed in 0..60 {
        let left = survivors(&FaultPlan::new(seed).atomic_write_bytes(4096), 3, &[]);
        assert!(left.iter().all(|tag| *tag == left[0]), "seed {seed}: {left:?}");
        seen.insert(left[0]);
    }
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[test]
fn a_flush_covers_what_had_completed_when_it_was_submitted() {
    let lost = (0..40).filter(|&seed| {
        let late = FaultRule::new(Fault::Delay { submissions: 2 }).on_flushes();
        let device = FaultDevice::new(model(CAPACITY), &FaultPlan::new(seed).with(late));
        write(&device, 0, pattern(0, 1)).unwrap();
        let late = device.submit(Io::Flush);
        write(&device, 0, pattern(1, 1)).unwrap();
        write(&device, 1, pattern(1, 1)).unwrap();
        late.wait().unwrap();
        device.crash().unwrap();
        device.restart().unwrap();
        let left = versions_of(&read(&device, 0, 1).unwrap(), 2);
        assert!(!left.contains(&u64::MAX), "seed {seed}: it was flushed");
        left.contains(&0)
    });
    assert!(lost.count() > 10, "what came after the flush was not");
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

/// A block and its metadata are one unit at a power loss.
#[test]
fn a_block_is_torn_from_others_and_not_from_its_metadata() {
    let mut torn = 0;
    for seed in 0..200 {
        let memory = MemoryDevice::with_blocks(vec![0; 1 << 16], 512).unwrap().keeping_metadata(8);
        let device = Arc::new(memory);
        let crash = FaultRule::new(Fault::Crash).on_writes().at_match(3);
        let tear = FaultRule::new(Fault::TornSectors).on_writes().at_match(2);
        let plan = FaultPlan::new(seed).with(crash).with(tear);
        let faulty = FaultDevice::new(Arc::clone(&device), &plan);
        for version in 1..=4_u8 {
            let mut buffer = IoBuffer::zeroed(8 * 512).with_metadata(IoBuffer::zeroed(8 * 8));
            buffer.as_mut_slice().fill(version);
            buffer.metadata_mut().unwrap().fill(version);
            let write = Io::write(u64::from(version) * 512, buffer, PlacementHandle::DEFAULT);
            let _fails = faulty.submit(write).wait();
        }
        let (bytes, metadata) = (device.bytes(), device.metadata());
        for (block, beside) in bytes.chunks(512).zip(metadata.chunks(8)) {
            assert!(block.iter().chain(beside).all(|byte| *byte == block[0]), "{seed}");
        }
        torn += faulty.counts().torn_by_crash + faulty.counts().torn_writes;
    }
    assert!(torn > 100, "{torn} were torn");
}

/// A write without metadata clears the metadata that was there before.
#[test]
fn what_is_written_without_metadata_has_zeros_there() {
    let device = MemoryDevice::holding(vec![0; 1 << 16]).keeping_metadata(8);
    let handle = PlacementHandle::DEFAULT;
    let mut buffer = IoBuffer::zeroed(8192).with_metadata(IoBuffer::zeroed(16));
    buffer.metadata_mut().unwrap().fill(7);
    device.submit(Io::write(0, buffer, handle)).wait().unwrap();
    device.submit(Io::write(0, IoBuffer::zeroed(4096), handle)).wait().unwrap();
    assert_eq!((device.metadata()[0], device.metadata()[8]), (0, 7));
    device.submit(Io::WriteZeroes { offset: 4096, bytes: 4096 }).wait().unwrap();
    assert!(device.metadata().iter().all(|byte| *byte == 0));
}
