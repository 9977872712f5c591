//! A request allocates nothing once the first ones have filled the pools.

use allocation_counter::measure;
use larder_device::{Device, FileDevice, FileOptions, Io, IoBuffer, IoEngine, PlacementHandle};

const BLOCK: usize = 4096;
const MANY: usize = 32;

/// Writes, reads and deallocates `rounds` times with `MANY` requests under way. What it needs for
/// itself it takes from `spare` and `under_way`.
fn work(
    device: &dyn Device,
    rounds: usize,
    spare: &mut Vec<IoBuffer>,
    under_way: &mut Vec<larder_device::IoFuture>,
) {
    for round in 0..rounds {
        for slot in 0..MANY as u64 {
            let offset = slot * BLOCK as u64;
            let buffer = spare.pop().unwrap();
            under_way.push(device.submit(match round % 2 {
                0 => Io::Write { offset, buffer, handle: PlacementHandle::DEFAULT },
                _ => Io::Read { offset, buffer },
            }));
        }
        spare.extend(under_way.drain(..).map(|future| future.wait().unwrap()));
        device.submit(Io::Deallocate { offset: 0, bytes: BLOCK as u64 }).wait().unwrap();
    }
}

#[test]
fn requests_allocate_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    let options =
        FileOptions { capacity_bytes: Some(1 << 20), create: true, ..FileOptions::default() };
    let device = FileDevice::open(&path, &options).unwrap();
    if device.engine() != IoEngine::IoUring {
        println!("not tested: {:?}", device.engine_fallback());
        return;
    }
    let mut spare: Vec<_> = (0..MANY).map(|_| IoBuffer::zeroed(BLOCK)).collect();
    let mut under_way = Vec::with_capacity(MANY);
    work(&device, 4, &mut spare, &mut under_way);
    let counted = measure(|| work(&device, 50, &mut spare, &mut under_way));
    assert_eq!(counted.count_total, 0, "of {} requests", 50 * (MANY + 1));
    // The counter counts.
    assert!(measure(|| drop(IoBuffer::zeroed(BLOCK))).count_total > 0);
}
