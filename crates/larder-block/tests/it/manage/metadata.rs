//! A cache whose headers are in the metadata of its device's blocks.

use super::*;

fn keeping(bytes: Vec<u8>) -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::holding(bytes).keeping_metadata(64))
}

#[test]
fn headers_travel_in_metadata_and_are_found_there() {
    let device = keeping(vec![0; 8 * MIB]);
    let rig = Rig { device: device.clone(), ..Rig::new() };
    rig.create(&log());
    let first = rig.open();
    for number in 0..100 {
        write_to(&first, 0, number * 8192, 1, 4096);
    }
    write_to(&first, 5, 0, 2, 65536);
    // As after a crash: memory keeps its content.
    drop(first);
    let headers = device.metadata().chunks(64).filter(|block| block.starts_with(b"LBMH")).count();
    assert!(headers > 100, "{headers} headers");
    let second = rig.open();
    assert_eq!((second.started.dirty_sectors, second.started.torn), (100 * 8 + 128, 0));
    assert!(read_from(&second, 0, 99 * 8192, 4096) == [1; 4096]);
    assert!(read_from(&second, 5, 0, 65536) == [2; 65536]);
    drop(second);
    // The same bytes on a device without metadata.
    let without = Rig { device: Arc::new(MemoryDevice::holding(device.bytes())), ..Rig::new() };
    let (kind, message) = without.refusal(&options());
    assert_eq!(kind, ErrorKind::Setup);
    assert!(message.contains("keeps 0 bytes of metadata beside blocks of 4096"), "{message}");
    assert!(message.contains("headers in 64 beside blocks of 4096"), "{message}");
}

#[test]
fn a_cache_that_was_made_without_metadata_goes_on_without_them() {
    let device = Arc::new(MemoryDevice::holding(vec![0; 8 * MIB]));
    let mut rig = Rig { device: device.clone(), ..Rig::new() };
    rig.create(&log());
    let first = rig.open();
    write_to(&first, 0, 0, 1, 4096);
    drop(first);
    let device = keeping(device.bytes());
    rig.device = device.clone();
    let second = rig.open();
    write_to(&second, 0, 4096, 2, 4096);
    drop(second);
    let third = rig.open();
    assert!(read_from(&third, 0, 0, 8192) == [[1; 4096], [2; 4096]].concat());
    assert!(device.metadata().iter().all(|byte| *byte == 0));
}

/// On a device that loses, keeps or tears between blocks the data that no flush covers.
#[test]
fn what_was_acknowledged_outlives_a_loss_of_power() {
    for seed in 0..40 {
        let memory = keeping(vec![0; 8 * MIB]);
        let mut rig = Rig { device: memory.clone(), ..Rig::new() };
        rig.create(&log());
        let crash = FaultRule::new(Fault::Crash).on_writes().at_match(20 + 5 * seed);
        let plan = FaultPlan::new(seed).with(crash);
        rig.device = Arc::new(FaultDevice::new(Arc::clone(&memory), &plan));
        let first = rig.open();
        let exported = first.cache.core(core(0)).unwrap();
        let mut acknowledged = vec![0; 64];
        let mut last = (0, 0);
        for number in 0..2000_u64 {
            let (at, fill) = (number * 7 % 64, u8::try_from(number % 250 + 1).unwrap());
            let mut buffer = IoBuffer::zeroed(4096);
            buffer.as_mut_slice().fill(fill);
            last = (at, fill);
            let write = Io::Write {
                offset: at * 4096,
                buffer,
                handle: PlacementHandle::DEFAULT,
                durability: larder_device::Durability::Power,
            };
            if exported.submit(write).wait().is_err() {
                break;
            }
            acknowledged[usize::try_from(at).unwrap()] = fill;
        }
        drop(exported);
        drop(first);
        rig.device = memory;
        let second = rig.open();
        for (at, fill) in (0..).zip(&acknowledged) {
            let found = read_from(&second, 0, at * 4096, 4096);
            let may_be = at == last.0 && found.iter().all(|byte| *byte == last.1);
            assert!(may_be || found.iter().all(|byte| byte == fill), "seed {seed}, block {at}");
        }
    }
}
