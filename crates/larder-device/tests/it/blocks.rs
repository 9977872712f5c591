//! 512-byte blocks: on every device that has them, requests for single sectors reach the right place, and requests that
//! are not whole blocks are refused.

use std::sync::Arc;

use larder_device::{
    Device, DirectIo, Durability, ErrorKind, FaultDevice, FaultPlan, FileDevice, FileOptions, Io,
    IoBuffer, MemoryDevice, PlacementHandle, SliceDevice, StripedDevice,
};

use crate::support::{engines, file, options};

const SECTOR: usize = 512;
const CAPACITY: usize = 256 << 10;

type DynDevice = Arc<dyn Device>;

fn memory(bytes: usize) -> DynDevice {
    Arc::new(MemoryDevice::with_blocks(vec![0; bytes], 512).unwrap())
}

fn write(device: &dyn Device, offset: usize, bytes: &[u8]) {
    let mut buffer = IoBuffer::zeroed(bytes.len());
    buffer.as_mut_slice().copy_from_slice(bytes);
    let handle = PlacementHandle::DEFAULT;
    device.submit(Io::write(offset as u64, buffer, handle)).wait().unwrap();
}

fn read(device: &dyn Device, offset: usize, bytes: usize) -> IoBuffer {
    let io = Io::Read { offset: offset as u64, buffer: IoBuffer::zeroed(bytes) };
    device.submit(io).wait().unwrap()
}

/// Writes and reads runs of sectors that ignore the bounds of 4 KiB pages, and compares with a shadow.
fn holds_single_sectors(device: &dyn Device, name: &str) {
    assert_eq!(device.info().block_bytes, 512, "{name}");
    let capacity = usize::try_from(device.info().capacity_bytes).unwrap().min(CAPACITY);
    let mut rng = fastrand::Rng::with_seed(7);
    let mut shadow = vec![0; capacity];
    write(device, 0, &shadow);
    for turn in 0..400 {
        let sectors = rng.usize(1..=20);
        let first = rng.usize(..=capacity / SECTOR - sectors);
        let range = first * SECTOR..(first + sectors) * SECTOR;
        if rng.bool() {
            let bytes: Vec<u8> = (0..range.len()).map(|_| rng.u8(..)).collect();
            write(device, range.start, &bytes);
            shadow[range].copy_from_slice(&bytes);
        } else {
            let found = read(device, range.start, range.len());
            assert!(found.as_slice() == &shadow[range.clone()], "{name}: {range:?} in turn {turn}");
        }
    }
    assert!(read(device, 0, capacity).as_slice() == shadow, "{name}");
    for (offset, bytes) in [(256, 512), (0, 700)] {
        let io = Io::Read { offset, buffer: IoBuffer::zeroed(bytes) };
        let failure = device.submit(io).wait().unwrap_err();
        assert_eq!(failure.error.kind(), ErrorKind::InvalidRequest, "{name}");
        assert!(failure.to_string().contains("512-byte block"), "{name}: {failure}");
    }
}

#[test]
fn devices_in_memory_and_around_them_take_single_sectors() {
    holds_single_sectors(&memory(CAPACITY), "memory");
    let fault = FaultDevice::new(memory(CAPACITY), &FaultPlan::new(1));
    holds_single_sectors(&fault, "fault");
    let slice = SliceDevice::new(memory(CAPACITY + 1024), 512..CAPACITY as u64 + 512, &[]).unwrap();
    holds_single_sectors(&slice, "slice");
    let striped = StripedDevice::new(vec![memory(CAPACITY / 2), memory(CAPACITY / 2)], 1536);
    holds_single_sectors(&striped.unwrap(), "stripes of three sectors");
}

/// A striped device has the largest block size of its devices.
#[test]
fn stripes_have_the_largest_block_of_their_devices() {
    let coarse: DynDevice = Arc::new(MemoryDevice::holding(vec![0; CAPACITY]));
    let striped = StripedDevice::new(vec![memory(CAPACITY), coarse], 8192).unwrap();
    assert_eq!(striped.info().block_bytes, 4096);
    assert!(MemoryDevice::with_blocks(vec![0; CAPACITY], 32).is_err());
    assert!(MemoryDevice::with_blocks(vec![0; CAPACITY], 1536).is_err());
}

#[test]
fn files_have_the_block_that_the_kernel_asks_for() {
    for engine in engines() {
        let buffered = FileOptions { direct: DirectIo::Off, ..options(CAPACITY as u64, engine) };
        holds_single_sectors(&file(&buffered).0, "buffered file");
        let (direct, _directory) = file(&options(CAPACITY as u64, engine));
        match (direct.direct(), direct.info().block_bytes) {
            (true, 512) => holds_single_sectors(&direct, "file with direct I/O"),
            (direct, block) => println!("not tested: direct {direct}, blocks of {block}"),
        }
    }
}

/// A file with an odd number of sectors is a device; one with half a sector is not.
#[test]
fn a_capacity_is_whole_blocks() {
    let [engine, ..] = engines()[..] else { unreachable!("there is one") };
    let buffered = FileOptions { direct: DirectIo::Off, ..options(4096 + 512, engine) };
    assert_eq!(file(&buffered).0.info().capacity_bytes, 4608);
    let directory = tempfile::tempdir().unwrap();
    let odd = FileOptions { capacity_bytes: Some(5000), ..buffered.clone() };
    assert!(FileDevice::open(directory.path().join("odd"), &odd).is_err());
    // Without a requested capacity, the capacity is rounded down to whole 4 KiB pages, whatever the block size.
    let path = directory.path().join("cache");
    std::fs::write(&path, vec![0; 3 * 4096 + 1536]).unwrap();
    let whole = FileOptions { capacity_bytes: None, create: false, ..buffered };
    assert_eq!(FileDevice::open(&path, &whole).unwrap().info().capacity_bytes, 3 * 4096);
}

/// After a loss of power each unflushed sector is either old or new, never a mixture.
#[test]
fn a_crash_leaves_whole_sectors() {
    let (mut old, mut new) = (0, 0);
    for seed in 0..40 {
        let device = FaultDevice::new(memory(CAPACITY), &FaultPlan::new(seed));
        write(&device, 0, &[1; 3 * SECTOR]);
        device.submit(Io::Flush).wait().unwrap();
        write(&device, SECTOR, &[2; SECTOR]);
        let (buffer, handle) = (IoBuffer::zeroed(SECTOR), PlacementHandle::DEFAULT);
        let io = Io::Write { offset: 1024, buffer, handle, durability: Durability::Power };
        device.submit(io).wait().unwrap();
        device.crash().unwrap();
        device.restart().unwrap();
        let found = read(&device, 0, 3 * SECTOR);
        let sectors: Vec<&[u8]> = found.as_slice().chunks(SECTOR).collect();
        assert_eq!((sectors[0], sectors[2]), (&[1; SECTOR][..], &[0; SECTOR][..]), "seed {seed}");
        match sectors[1] {
            it if it == [1; SECTOR] => old += 1,
            it if it == [2; SECTOR] => new += 1,
            _ => panic!("seed {seed}: half a sector"),
        }
    }
    assert!(old > 0 && new > 0, "{old} and {new}");
}
