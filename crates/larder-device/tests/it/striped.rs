//! Several devices as one: every byte in its place, and a failure affects only its device.

use std::sync::Arc;

use larder_device::{
    Device, ErrorKind, Fault, FaultDevice, FaultPlan, FaultRule, Io, IoBuffer, IoEngine,
    ModelDevice, PlacementHandle, PlacementInfo, SliceDevice, StripedDevice,
};

use crate::history::run;
use crate::support::{
    BLOCK, block_on, engines, file, flush, model, options, pattern, read, start_read, start_write,
    write,
};

const CAPACITY: u64 = 1 << 20;

type Faulty = FaultDevice<ModelDevice>;

fn models(count: usize) -> Vec<ModelDevice> {
    (0..count).map(|_| model(CAPACITY)).collect()
}

fn faulty(count: u64, stripe_blocks: u64) -> StripedDevice<Arc<Faulty>> {
    let device = |seed| Arc::new(FaultDevice::new(model(CAPACITY), &FaultPlan::new(seed)));
    StripedDevice::new((0..count).map(device).collect(), stripe_blocks * BLOCK as u64).unwrap()
}

#[test]
fn models_together_hold_what_was_written() {
    for (devices, stripe_blocks) in [(1, 4), (2, 1), (3, 5), (4, 64)] {
        let device = StripedDevice::new(models(devices), stripe_blocks * BLOCK as u64).unwrap();
        run(&device, fastrand::u64(..), 1000);
    }
}

#[test]
fn files_together_hold_what_was_written_through_every_engine() {
    for engine in engines() {
        let files: Vec<_> = (0..3).map(|_| file(&options(CAPACITY, engine))).collect();
        let (devices, _directories): (Vec<_>, Vec<_>) = files.into_iter().unzip();
        let device = StripedDevice::new(devices, 3 * BLOCK as u64).unwrap();
        run(&device, fastrand::u64(..), 400);
    }
}

#[test]
fn the_smallest_counts_and_the_stripes_go_round() {
    let devices = vec![model(2 * CAPACITY), model(CAPACITY)];
    let stripe = 3 * BLOCK as u64;
    let device = StripedDevice::new(devices, stripe).unwrap();
    let stripes = CAPACITY / stripe;
    assert_eq!(device.info().capacity_bytes, 2 * stripes * stripe);
    assert_eq!(device.info().max_transfer_bytes, 12288);
    write(&device, 3, pattern(1, 6)).unwrap();
    let of_second = read(&device.devices()[1], 0, 3).unwrap();
    assert_eq!(of_second.as_slice(), &pattern(1, 6).as_slice()[..3 * BLOCK]);
    let of_first = read(&device.devices()[0], 3, 3).unwrap();
    assert_eq!(of_first.as_slice(), &pattern(1, 6).as_slice()[3 * BLOCK..]);
    let last = device.info().capacity_bytes / BLOCK as u64 - 1;
    write(&device, last, pattern(2, 1)).unwrap();
    assert_eq!(read(&device, last, 1).unwrap().as_slice(), pattern(2, 1).as_slice());
    assert_eq!(read(&device, last, 2).unwrap_err().error.kind(), ErrorKind::InvalidRequest);
}

#[test]
fn a_request_within_a_stripe_is_not_copied() {
    let device = StripedDevice::new(models(2), 4 * BLOCK as u64).unwrap();
    let buffer = pattern(1, 4);
    let address = buffer.as_slice().as_ptr();
    let buffer = write(&device, 4, buffer).unwrap();
    assert_eq!(buffer.as_slice().as_ptr(), address);
    let io = Io::Read { offset: 4 * BLOCK as u64, buffer };
    assert_eq!(device.submit(io).wait().unwrap().as_slice().as_ptr(), address);
}

#[test]
fn impossible_stripes_are_refused() {
    let complaint = |devices, stripe| {
        StripedDevice::new(devices, stripe).err().expect("must be refused").to_string()
    };
    assert!(complaint(Vec::new(), 4096).contains("no devices"));
    assert!(complaint(models(1), 0).contains("stripe_bytes of 0"));
    assert!(complaint(models(1), 5000).contains("stripe_bytes of 5000"));
    assert!(complaint(models(1), 2 << 20).contains("less than one stripe"));
}

#[test]
fn handles_pass_through_if_all_devices_offer_the_same() {
    let device = StripedDevice::new(models(2), 4096).unwrap();
    assert_eq!(device.info().placement, model(CAPACITY).info().placement);
    let handle = PlacementHandle::new(3);
    for block in 0..4 {
        let io = Io::write(block * 4096, IoBuffer::zeroed(BLOCK), handle);
        device.submit(io).wait().unwrap();
    }
    assert_eq!(device.stats().host_written_bytes_by_handle[3], 4 * 4096);
    assert_eq!(device.devices()[1].stats().host_written_bytes_by_handle[3], 2 * 4096);
    let some = [PlacementHandle::new(1)];
    let different = vec![
        SliceDevice::new(model(CAPACITY), 0..CAPACITY, &some).unwrap(),
        SliceDevice::new(model(CAPACITY), 0..CAPACITY, &[]).unwrap(),
    ];
    let device = StripedDevice::new(different, 4096).unwrap();
    assert_eq!(device.info().placement, PlacementInfo::none());
}

#[test]
fn counters_add_up() {
    let device = StripedDevice::new(models(3), 4096).unwrap();
    write(&device, 0, pattern(1, 7)).unwrap();
    read(&device, 1, 5).unwrap();
    device.submit(Io::Deallocate { offset: 0, bytes: 6 * 4096 }).wait().unwrap();
    let stats = device.stats();
    assert_eq!((stats.host_written_bytes, stats.host_read_bytes), (7 * 4096, 5 * 4096));
    assert_eq!((stats.deallocated_bytes, stats.failed_requests), (6 * 4096, 0));
    assert!(stats.dlwa().is_some(), "all models count their media bytes");
    let (one, _directory) = file(&options(CAPACITY, IoEngine::Threads));
    let devices: Vec<Arc<dyn Device>> = vec![Arc::new(one), Arc::new(model(CAPACITY))];
    let mixed = StripedDevice::new(devices, 4096).unwrap();
    write(&mixed, 0, pattern(1, 2)).unwrap();
    assert_eq!(mixed.stats().media_written_bytes, None, "the file does not");
}

/// Random requests while one device of three fails everything. Requests that do not touch it work; the others fail and
/// name it. Every buffer comes back.
#[test]
fn a_failing_device_fails_only_what_touches_it() {
    const STRIPE: u64 = 4;
    const BLOCKS: u64 = 192;
    for seed in 0..4 {
        let device = faulty(3, STRIPE);
        let mut shadow = vec![0; 192 * BLOCK];
        let mut known = [true; 192];
        let broken = FaultPlan::new(seed).with(FaultRule::new(Fault::Error));
        device.devices()[1].set_plan(&broken);
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut failed, mut split) = (0, 0);
        for step in 0..600u64 {
            let first = rng.u64(..BLOCKS);
            let blocks = rng.u64(1..=(BLOCKS - first).min(10));
            let touched = first / STRIPE..=(first + blocks - 1) / STRIPE;
            let fails = touched.clone().any(|stripe| stripe % 3 == 1);
            let (at, len) = (usize::try_from(first).unwrap(), usize::try_from(blocks).unwrap());
            let range = at * BLOCK..(at + len) * BLOCK;
            let writes = rng.bool();
            let future = match writes {
                true => start_write(&device, first, pattern(step, len)),
                false => start_read(&device, first, len),
            };
            if rng.u8(..8) == 0 {
                drop(future);
                if writes {
                    known[at..at + len].fill(false);
                }
                continue;
            }
            let result = if rng.bool() { future.wait() } else { block_on(future) };
            assert_eq!(result.is_err(), fails, "seed {seed} step {step}");
            failed += u32::from(fails);
            split += u32::from(touched.count() > 1);
            match result {
                Err(failure) => {
                    assert_eq!(failure.error.kind(), ErrorKind::Io);
                    let message = failure.error.to_string();
                    assert!(message.starts_with("device 2 of 3 (model"), "{message}");
                    assert_eq!(failure.buffer.len(), len * BLOCK);
                    if writes {
                        assert_eq!(failure.buffer.as_slice(), pattern(step, len).as_slice());
                        known[at..at + len].fill(false);
                    }
                }
                Ok(buffer) if writes => {
                    shadow[range].copy_from_slice(buffer.as_slice());
                    known[at..at + len].fill(true);
                }
                Ok(buffer) => {
                    let blocks = buffer.as_slice().chunks(BLOCK).zip(shadow[range].chunks(BLOCK));
                    for (i, (got, expected)) in blocks.enumerate() {
                        assert!(!known[at + i] || got == expected, "seed {seed} step {step}");
                    }
                }
            }
        }
        assert!(failed > 50 && split > 50, "{failed} failed, {split} split");
        assert!(flush(&device).unwrap_err().error.to_string().contains("device 2 of 3"));
        device.devices()[1].set_plan(&FaultPlan::new(seed));
        write(&device, 0, pattern(seed, 192)).unwrap();
        assert_eq!(read(&device, 0, 192).unwrap().as_slice(), pattern(seed, 192).as_slice());
        flush(&device).unwrap();
    }
}

#[test]
fn dropped_futures_do_not_stop_their_parts() {
    for engine in engines() {
        let files: Vec<_> = (0..2).map(|_| file(&options(CAPACITY, engine))).collect();
        let (devices, directories): (Vec<_>, Vec<_>) = files.into_iter().unzip();
        let device = StripedDevice::new(devices, BLOCK as u64).unwrap();
        for round in 0..16 {
            drop(start_write(&device, round * 16, pattern(round, 16)));
            drop(start_read(&device, round * 16, 16));
        }
        drop(device);
        let open = |directory: &tempfile::TempDir| {
            let path = directory.path().join("cache");
            larder_device::FileDevice::open(path, &options(CAPACITY, engine)).unwrap()
        };
        let devices = directories.iter().map(open).collect();
        let device = StripedDevice::new(devices, BLOCK as u64).unwrap();
        for round in 0..16 {
            let back = read(&device, round * 16, 16).unwrap();
            assert_eq!(back.as_slice(), pattern(round, 16).as_slice());
        }
    }
}

#[test]
fn a_delay_on_one_device_ends_when_a_thread_waits_for_the_whole() {
    let device = faulty(2, 1);
    let slow = FaultPlan::new(1).with(FaultRule::new(Fault::Delay { submissions: 1000 }));
    device.devices()[1].set_plan(&slow);
    write(&device, 0, pattern(1, 4)).unwrap();
    device.devices()[1].set_plan(&FaultPlan::new(1));
    assert_eq!(read(&device, 0, 4).unwrap().as_slice(), pattern(1, 4).as_slice());
}
