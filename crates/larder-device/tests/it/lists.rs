//! Requests with a list of buffers: each byte reaches its place, whatever the lengths, and the buffers are returned
//! unchanged.

use larder_device::{
    BufferPool, Device, DirectIo, Durability, Fault, FaultDevice, FaultPlan, FaultRule,
    FileOptions, Io, IoBuffer, IoEngine, MemoryDevice, PlacementHandle,
};

use crate::support::{block_on, engines, file, options};

const CAPACITY: u64 = 4 << 20;

/// A list of buffers with the given numbers of sectors, filled with bytes derived from `tag`.
fn list(pool: &BufferPool, sectors: &[usize], tag: u64) -> IoBuffer {
    let mut rng = fastrand::Rng::with_seed(tag);
    let filled = |sectors: &usize| {
        let mut buffer = pool.take(sectors * 512);
        rng.fill(buffer.as_mut_slice());
        buffer
    };
    IoBuffer::list(sectors.iter().map(filled).collect())
}

fn bytes_of(buffer: &IoBuffer) -> Vec<u8> {
    buffer.runs().collect::<Vec<_>>().concat()
}

/// Writes a list, and reads it back into lists that are divided differently.
fn moves_lists(device: &dyn Device, sectors: &[usize], durability: Durability) {
    let name = &device.info().name;
    let pool = BufferPool::new();
    let all: usize = sectors.iter().sum();
    let buffer = list(&pool, sectors, 3);
    let bytes = bytes_of(&buffer);
    let (offset, handle) = (512, PlacementHandle::DEFAULT);
    let write = Io::Write { offset, buffer, handle, durability };
    let back = block_on(device.submit(write)).unwrap();
    assert!(bytes_of(&back) == bytes, "{name}: what was written comes back as it was");
    let lengths = back.into_list().iter().map(|it| it.len() / 512).collect::<Vec<_>>();
    assert_eq!(lengths, sectors, "{name}");
    for cut in [&[all][..], &[1, all - 1], &vec![1; all], sectors] {
        let read = Io::Read { offset, buffer: list(&pool, cut, 4) };
        let read = device.submit(read).wait().unwrap();
        assert!(bytes_of(&read) == bytes, "{name}: read into {} buffers", cut.len());
        assert_eq!(read.into_list().len(), cut.len(), "{name}");
    }
    assert_eq!(device.stats().failed_requests, 0);
}

#[test]
fn every_engine_moves_lists_of_sectors() {
    // More buffers than one call may take. With `max_transfer_bytes` of 8192, a piece has two pages.
    let many = vec![1; 2500];
    for engine in engines() {
        for (direct, largest) in [(DirectIo::Off, 1 << 20), (DirectIo::Auto, 8192)] {
            let base = options(CAPACITY, engine);
            let options = FileOptions { direct, max_transfer_bytes: largest, ..base };
            let (device, _directory) = file(&options);
            if device.info().block_bytes != 512 {
                println!("not tested: blocks of {}", device.info().block_bytes);
                continue;
            }
            for durability in [Durability::Device, Durability::Power, Durability::Process] {
                moves_lists(&device, &[3, 1, 40, 8, 17], durability);
            }
            moves_lists(&device, &many, Durability::Device);
            let written = device.stats().host_written_bytes;
            assert_eq!(written, (3 * 69 + 2500) * 512, "{engine}, {direct:?}");
        }
    }
}

#[test]
fn memory_takes_lists() {
    let device = MemoryDevice::with_blocks(vec![0; 1 << 20], 512).unwrap();
    moves_lists(&device, &[3, 1, 40, 8, 17], Durability::Device);
    #[cfg(target_os = "linux")]
    moves_lists(&crate::mapped::mapped(CAPACITY).0, &[3, 1, 40, 8, 17], Durability::Power);
}

/// A write is torn, lost or damaged as a whole, however many buffers it has.
#[test]
fn faults_happen_to_lists_as_to_others() {
    let pool = BufferPool::new();
    let faulty = |fault| {
        let plan = FaultPlan::new(5).with(FaultRule::new(fault).on_writes());
        let memory = MemoryDevice::with_blocks(vec![0; 1 << 20], 512).unwrap();
        let device = FaultDevice::new(memory, &plan);
        let buffer = list(&pool, &[2, 3, 4], 6);
        let bytes = bytes_of(&buffer);
        let result = device.submit(Io::write(0, buffer, PlacementHandle::DEFAULT)).wait();
        let given_back = result.unwrap_or_else(|failure| failure.buffer);
        assert!(bytes_of(&given_back) == bytes, "{fault:?} changes nothing of the caller's");
        (device.inner().bytes()[..9 * 512].to_vec(), bytes)
    };
    let (there, bytes) = faulty(Fault::TornWrite { blocks: Some(3), reported_done: false });
    assert!(there[..1536] == bytes[..1536] && there[1536..].iter().all(|byte| *byte == 0));
    let (there, bytes) = faulty(Fault::BitFlip);
    let flipped: u32 = there.iter().zip(&bytes).map(|(a, b)| (a ^ b).count_ones()).sum();
    assert_eq!(flipped, 1);
    let (there, bytes) = faulty(Fault::TornSectors);
    let kept = there.iter().zip(&bytes).take_while(|(a, b)| a == b).count() / 512 * 512;
    assert!(kept < 9 * 512 && there[kept..].iter().all(|byte| *byte == 0));
    let (there, bytes) = faulty(Fault::FailedButDone);
    assert!(there == bytes);
}

#[cfg(target_os = "linux")]
#[test]
fn a_hosted_ring_moves_lists() {
    let Ok(_ring) = larder_device::ring::host() else { return println!("no rings here") };
    let (device, _directory) = file(&options(CAPACITY, IoEngine::IoUring));
    let sectors = if device.info().block_bytes == 512 { vec![3, 1, 40] } else { return };
    let ended = || larder_device::ring::reap();
    let pool = BufferPool::new();
    let buffer = list(&pool, &sectors, 3);
    let bytes = bytes_of(&buffer);
    device.submit(Io::write(0, buffer, PlacementHandle::DEFAULT)).wait().unwrap();
    let read = Io::Read { offset: 0, buffer: list(&pool, &[40, 4], 1) };
    assert!(bytes_of(&device.submit(read).wait().unwrap()) == bytes);
    assert_eq!(ended(), 0, "the thread has fetched them itself");
}
