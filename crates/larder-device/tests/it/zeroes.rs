//! `Io::WriteZeroes`: the zeros are there without a transfer from the caller, they are counted, and a power loss may
//! undo them like other writes.

use std::sync::Arc;

use larder_device::{
    Device, Durability, Fault, FaultDevice, FaultPlan, FaultRule, FileDevice, Io, IoBuffer,
    IoEngine, MemoryDevice, PlacementHandle, SliceDevice,
};

use crate::support::{
    BLOCK, TinyFilesystem, engines, file, flush, model, options, pattern, read, write,
};

fn zero(device: &dyn Device, block: u64, blocks: u64) -> larder_device::IoResult {
    let (offset, bytes) = (block * BLOCK as u64, blocks * BLOCK as u64);
    device.submit(Io::WriteZeroes { offset, bytes }).wait()
}

/// Zeros between other bytes: a single block, and more blocks than are written at a time where zeros must be written.
fn makes_zeros(device: &dyn Device) {
    let name = &device.info().name;
    write(device, 0, pattern(1, 100)).unwrap();
    assert!(zero(device, 3, 1).unwrap().is_empty(), "{name}: there is no buffer to give back");
    zero(device, 10, 40).unwrap();
    let there = read(device, 0, 100).unwrap();
    let before = pattern(1, 100);
    let blocks = there.as_slice().chunks(BLOCK).zip(before.as_slice().chunks(BLOCK));
    for (number, (there, before)) in blocks.enumerate() {
        let expected = if number == 3 || (10..50).contains(&number) { &[0; BLOCK] } else { before };
        assert!(there == expected, "{name}: block {number}");
    }
    let beyond = device.info().capacity_bytes / BLOCK as u64 - 1;
    assert!(zero(device, beyond, 2).is_err(), "{name}: behind the end");
    assert_eq!(device.stats().zeroed_bytes, 41 * BLOCK as u64, "{name}");
}

#[test]
fn files_make_zeros_without_writing_them() {
    for engine in engines() {
        let (device, _directory) = file(&options(4 << 20, engine));
        makes_zeros(&device);
        let stats = device.stats();
        // The filesystem of the test directory may not support this; then zeros are written, as in the next test.
        assert!([0, 41 * BLOCK as u64].contains(&stats.zeroes_written_bytes));
        assert_eq!(stats.host_written_bytes, 100 * BLOCK as u64 + stats.zeroes_written_bytes);
        println!("{engine}: {} bytes of zeros were written", stats.zeroes_written_bytes);
    }
}

/// A tmpfs does not have such a call.
#[test]
fn zeros_are_written_where_the_file_system_has_no_call_for_them() {
    let Some(filesystem) = TinyFilesystem::mount("size=16m") else { return };
    for engine in engines() {
        let device = FileDevice::open(filesystem.file(), &options(4 << 20, engine)).unwrap();
        makes_zeros(&device);
        let stats = device.stats();
        assert_eq!(stats.zeroes_written_bytes, 41 * BLOCK as u64, "{engine}");
        assert_eq!(stats.host_written_bytes, 141 * BLOCK as u64, "{engine}");
        assert_eq!(stats.failed_requests, 0, "the one behind the end is not sent: {engine}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn mapped_memory_makes_zeros_by_storing_them() {
    let (device, _directory) = crate::mapped::mapped(1 << 20);
    makes_zeros(&device);
    assert_eq!(device.stats().host_written_bytes, 141 * BLOCK as u64);
}

#[test]
fn simulated_devices_make_zeros_too() {
    makes_zeros(&MemoryDevice::holding(vec![7; 1 << 20]));
    let model = model(1 << 20);
    makes_zeros(&model);
    let stats = model.stats();
    assert_eq!(stats.host_written_bytes, 141 * BLOCK as u64, "the drive writes them as others");
    assert_eq!(stats.zeroes_written_bytes, 41 * BLOCK as u64);
    let whole = Arc::new(MemoryDevice::holding(vec![7; 2 << 20]));
    let slice = SliceDevice::new(whole, 4096..(1 << 20) + 4096, &[]).unwrap().counting_its_own();
    makes_zeros(&slice);
    makes_zeros(&FaultDevice::new(MemoryDevice::holding(vec![7; 1 << 20]), &FaultPlan::new(1)));
}

/// Flushed zeros stay; unflushed ones may be undone.
#[test]
fn a_crash_may_undo_zeros_that_were_not_flushed() {
    let (mut old, mut new) = (0, 0);
    for seed in 0..40 {
        let memory = MemoryDevice::holding(vec![7; 1 << 20]);
        let device = FaultDevice::new(memory, &FaultPlan::new(seed));
        zero(&device, 0, 1).unwrap();
        flush(&device).unwrap();
        zero(&device, 1, 1).unwrap();
        device.crash().unwrap();
        let bytes = device.inner().bytes();
        assert!(bytes[..BLOCK] == [0; BLOCK], "seed {seed}");
        for sector in bytes[BLOCK..2 * BLOCK].chunks(512) {
            assert!(sector == [0; 512] || sector == [7; 512], "seed {seed}");
            if sector[0] == 0 { new += 1 } else { old += 1 }
        }
    }
    assert!(old > 0 && new > 0, "{old} and {new}");
}

#[test]
fn faults_of_writes_happen_to_zeros() {
    let faulty = |fault| {
        let plan = FaultPlan::new(3).with(FaultRule::new(fault).on_writes());
        let device = FaultDevice::new(MemoryDevice::holding(vec![7; 1 << 20]), &plan);
        let ended = zero(&device, 0, 4);
        let buffer = ended.as_ref().unwrap_or_else(|failure| &failure.buffer);
        assert!(buffer.is_empty(), "{fault:?}");
        (ended.is_ok(), device.inner().bytes()[..4 * BLOCK].to_vec())
    };
    let zeros = |bytes: &[u8]| bytes.iter().take_while(|byte| **byte == 0).count();
    let (is_ok, bytes) = faulty(Fault::LostWrite);
    assert_eq!((is_ok, zeros(&bytes)), (true, 0));
    let (is_ok, bytes) = faulty(Fault::TornWrite { blocks: Some(3), reported_done: false });
    assert_eq!((is_ok, zeros(&bytes), bytes[3 * BLOCK]), (false, 3 * BLOCK, 7));
    let (is_ok, bytes) = faulty(Fault::FailedButDone);
    assert_eq!((is_ok, zeros(&bytes)), (false, 4 * BLOCK));
    let (is_ok, bytes) = faulty(Fault::BitFlip);
    assert_eq!((is_ok, bytes.iter().map(|byte| byte.count_ones()).sum::<u32>()), (true, 1));
}

/// Zeros over the result of a power-durable write, on each engine: the later request wins.
#[test]
fn zeros_come_after_what_was_written_before() {
    for engine in engines().into_iter().chain([IoEngine::Auto]) {
        let (device, _directory) = file(&options(1 << 20, engine));
        let (buffer, handle, offset) = (pattern(1, 8), PlacementHandle::DEFAULT, 0);
        for durability in [Durability::Process, Durability::Power] {
            let mut copy = IoBuffer::zeroed(8 * BLOCK);
            copy.as_mut_slice().copy_from_slice(buffer.as_slice());
            device.submit(Io::Write { offset, buffer: copy, handle, durability }).wait().unwrap();
            zero(&device, 0, 8).unwrap();
            assert!(read(&device, 0, 8).unwrap().as_slice() == [0; 8 * BLOCK], "{engine}");
        }
    }
}
