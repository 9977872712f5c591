//! Mapped files: the guarantees of every device, in blocks of 64 bytes, and what is special to mapped files.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use larder_device::{
    Device, Durability, ErrorKind, FileOptions, Io, IoBuffer, IoEngine, MappedDevice,
    PlacementHandle, VolatileCache,
};

use crate::support::{LoopDisk, TinyFilesystem, flush, options};

const CAPACITY: u64 = 1 << 20;

/// A mapped file, and the temporary directory that holds it.
pub(crate) fn mapped(capacity_bytes: u64) -> (MappedDevice, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let options = options(capacity_bytes, IoEngine::Auto);
    let device = MappedDevice::open(directory.path().join("cache"), &options).unwrap();
    (device, directory)
}

fn filled(bytes: usize, tag: u64) -> IoBuffer {
    let mut buffer = IoBuffer::zeroed(bytes);
    fastrand::Rng::with_seed(tag).fill(buffer.as_mut_slice());
    buffer
}

fn read(device: &MappedDevice, offset: u64, bytes: usize) -> Vec<u8> {
    let read = device.submit(Io::Read { offset, buffer: filled(bytes, 0) }).wait().unwrap();
    read.as_slice().to_vec()
}

#[test]
fn lines_are_written_alone_and_outlive_the_device() {
    let (device, directory) = mapped(CAPACITY);
    let handle = PlacementHandle::DEFAULT;
    for (number, durability) in
        (0..).zip([Durability::Process, Durability::Device, Durability::Power])
    {
        let (offset, buffer) = (4096 - 64 + 64 * number, filled(64, number));
        device.submit(Io::Write { offset, buffer, handle, durability }).wait().unwrap();
    }
    flush(&device).unwrap();
    let stats = device.stats();
    assert_eq!((stats.host_written_bytes, stats.durable_written_bytes), (192, 64));
    drop(device);
    let again =
        MappedDevice::open(directory.path().join("cache"), &FileOptions::default()).unwrap();
    assert_eq!(again.info().capacity_bytes, CAPACITY);
    let lines: Vec<u8> = (0..3).flat_map(|tag| filled(64, tag).as_slice().to_vec()).collect();
    assert_eq!(read(&again, 4096 - 128, 320), [&[0; 64][..], &lines, &[0; 64]].concat());
    let odd = again.submit(Io::Read { offset: 32, buffer: IoBuffer::zeroed(64) }).wait();
    assert!(odd.unwrap_err().error.to_string().contains("no multiple of the 64-byte block"));
}

/// Space that was not reserved may be missing when a store touches it, and a store cannot report an error.
#[test]
fn all_room_is_there_from_the_beginning_and_stays() {
    let (device, directory) = mapped(CAPACITY);
    let taken = || std::fs::metadata(directory.path().join("cache")).unwrap().blocks() * 512;
    assert!(taken() >= CAPACITY, "{} bytes", taken());
    device.submit(Io::Deallocate { offset: 0, bytes: CAPACITY }).wait().unwrap();
    assert!(taken() >= CAPACITY, "{} bytes", taken());
    assert_eq!(device.stats().deallocated_bytes, CAPACITY);
    let Some(full) = TinyFilesystem::mount("size=2m") else { return };
    let error = MappedDevice::open(full.file(), &options(4 << 20, IoEngine::Auto)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    let opened = MappedDevice::open(full.file(), &options(1 << 20, IoEngine::Auto)).unwrap();
    assert!(opened.is_emulated(), "memory without DAX");
}

#[test]
fn it_says_what_it_is() {
    let (device, _directory) = mapped(CAPACITY);
    let info = device.info();
    assert_eq!((info.block_bytes, info.atomic_write_bytes), (64, Some(8)));
    assert_eq!(device.is_emulated(), info.name.ends_with("(emulated)"), "{}", info.name);
    assert_eq!(!device.is_emulated(), info.volatile_cache == VolatileCache::No);
}

#[test]
fn what_cannot_be_mapped_is_refused_with_a_way_out() {
    let refused = |path: &std::path::Path| {
        MappedDevice::open(path, &FileOptions::default()).unwrap_err().to_string()
    };
    let null = refused("/dev/null".as_ref());
    assert!(null.contains("sysfs says no size of it") && null.contains("/dev/dax0.0"), "{null}");
    if let Some(disk) = LoopDisk::attach(16 << 20) {
        let block = refused(disk.path());
        assert!(block.contains("a block device") && block.contains("-o dax"), "{block}");
    }
    let (_device, directory) = mapped(CAPACITY);
    let impatient = FileOptions { lock_wait: Duration::ZERO, ..FileOptions::default() };
    let again = MappedDevice::open(directory.path().join("cache"), &impatient).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::InUse, "{again}");
}
