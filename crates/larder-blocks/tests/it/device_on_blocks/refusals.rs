//! Refused requests and options, and the effects of failures.

use std::sync::Arc;

use larder_blocks::{
    BlockStore, DeviceOnBlocks, DeviceOnBlocksOptions, IsolationLevel, MemoryBlocks, StoreInfo,
    Stream,
};
use larder_device::{Device, ErrorKind, Io, IoBuffer, PlacementHandle, block_on};

use super::cut_blocks::{Cut, CutBlocks};
use super::{BLOCK_BYTES, OPTIONS, PAGE, format, open, read, slot_offset, write};

fn store() -> Arc<MemoryBlocks> {
    Arc::new(MemoryBlocks::new(20, BLOCK_BYTES, 4096).unwrap())
}

fn refusal(store: Arc<dyn BlockStore>, options: DeviceOnBlocksOptions) -> String {
    let before = store.list();
    let refused = block_on(DeviceOnBlocks::format(Arc::clone(&store), &options)).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Setup, "{refused}");
    assert_eq!(store.list(), before, "nothing was written");
    refused.to_string()
}

#[test]
fn impossible_devices_are_refused_with_the_way_out() {
    let odd = refusal(store(), DeviceOnBlocksOptions { front_bytes: 5000, ..OPTIONS });
    assert!(odd.contains("front_bytes of 5000: must be pages of 4096; give 8192"), "{odd}");
    let fits = OPTIONS.capacity_bytes;
    let odd = refusal(store(), DeviceOnBlocksOptions { capacity_bytes: fits + 4096, ..OPTIONS });
    assert!(
        odd.contains(&format!("must be 1 blocks of 32768, or a multiple; give {fits}")),
        "{odd}"
    );
    let odd = refusal(store(), DeviceOnBlocksOptions { capacity_bytes: 4096, ..OPTIONS });
    assert!(odd.contains("leaves 0 between"), "{odd}");
    let much = DeviceOnBlocksOptions { capacity_bytes: fits + 20 * BLOCK_BYTES, ..OPTIONS };
    let much = refusal(store(), much);
    assert!(much.contains("and the store has 20; give a capacity that is 425984 bytes"), "{much}");
    for handles in [0, 65] {
        let none = refusal(store(), DeviceOnBlocksOptions { handles, ..OPTIONS });
        assert!(none.contains(&format!("handles of {handles}: must be 1 to 64")), "{none}");
    }
    let huge = DeviceOnBlocksOptions {
        capacity_bytes: u64::MAX - u64::MAX % 4096,
        front_bytes: u64::MAX - u64::MAX % 4096,
        tail_bytes: 0,
        spare_percent: u32::MAX,
        slots_together: 1,
        handles: 1,
    };
    assert!(refusal(store(), huge).contains("more than can be mapped"));
    let long = StoreInfo {
        page_bytes: 16 << 10,
        isolation: IsolationLevel::Unknown,
        ..store().info().clone()
    };
    let long = refusal(Arc::new(MemoryBlocks::with_info(long).unwrap()), OPTIONS);
    assert!(long.contains("the store has pages of 16384 bytes"), "{long}");
    let short = refusal(Arc::new(MemoryBlocks::new(200, 16 << 10, 4096).unwrap()), OPTIONS);
    assert!(short.contains("must be at least 8 pages of 4096"), "{short}");
}

#[test]
fn an_opening_takes_only_what_is_its_own() {
    let refusal = |store: Arc<dyn BlockStore>| {
        let before = store.list();
        let refused = open(Arc::clone(&store)).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Setup, "{refused}");
        assert_eq!(store.list(), before, "nothing was written");
        refused.to_string()
    };
    assert!(refusal(store()).contains("there is none; format it"));
    let with_foreign = store();
    drop(format(with_foreign.clone()));
    with_foreign.alloc(Stream::DEFAULT, 7).wait().unwrap();
    let foreign = refusal(with_foreign.clone());
    assert!(foreign.contains("with tag 0x7 belongs to another program"), "{foreign}");
    drop(format(with_foreign.clone()));
    assert!(open(with_foreign).is_ok(), "a format begins anew");
    let made = store();
    let device = format(made.clone());
    write(&device, slot_offset(4), &[1; PAGE]).wait().unwrap();
    drop(device);
    let fewer =
        DeviceOnBlocksOptions { capacity_bytes: OPTIONS.capacity_bytes - BLOCK_BYTES, ..OPTIONS };
    let refused = block_on(DeviceOnBlocks::open(made.clone(), &fewer)).err().unwrap();
    assert!(refused.to_string().contains("it has a slot 4, and there are 4"), "{refused}");
    let other = DeviceOnBlocksOptions { spare_percent: 1, ..OPTIONS };
    let refused = block_on(DeviceOnBlocks::open(made, &other)).err().unwrap();
    assert!(refused.to_string().contains("made with capacity_bytes 249856"), "{refused}");
}

#[test]
fn damage_is_told_from_what_was_cut_short() {
    let store = Arc::new(MemoryBlocks::new(8, 256 * 4096, 4096).unwrap());
    let options = DeviceOnBlocksOptions {
        capacity_bytes: 40 * 4096,
        front_bytes: 40 * 4096,
        tail_bytes: 0,
        spare_percent: 0,
        slots_together: 1,
        handles: 1,
    };
    let device = block_on(DeviceOnBlocks::format(store.clone(), &options)).unwrap();
    for page in 0..40 {
        write(&device, page * 4096, &[7; PAGE]).wait().unwrap();
    }
    drop(device);
    // A copy of its block in which the header of the second batch is invalid. 78 pages follow it, or 178.
    let [state] = store.list()[..] else { panic!("{:?}", store.list()) };
    let length = usize::try_from(state.written_bytes).unwrap();
    let whole = store.read(state.block, 0, IoBuffer::zeroed(length)).wait().unwrap();
    for (more, is_damage) in [(0, false), (100, true)] {
        let copy = Arc::new(MemoryBlocks::new(8, 256 * 4096, 4096).unwrap());
        let block = copy.alloc(Stream::DEFAULT, state.tag).wait().unwrap();
        assert_eq!(block, larder_blocks::BlockId::new(1));
        let mut bytes = IoBuffer::zeroed(length + more * PAGE);
        bytes.copy_in(0, whole.as_slice());
        let mut header = vec![0; PAGE];
        bytes.copy_out(0, &mut header);
        // The two blocks have different numbers, so the header of the first batch gets the new number and a new
        // checksum.
        header[40..48].copy_from_slice(&1_u64.to_le_bytes());
        let checksum = larder_checksum::crc32c(&header[16..]);
        header[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes.copy_in(0, &header);
        copy.append(block, 0, bytes).wait().unwrap();
        let found = block_on(DeviceOnBlocks::open(copy, &options));
        match found {
            Ok(_) => assert!(!is_damage),
            Err(error) => {
                assert!(is_damage && error.to_string().contains("page 1 of block 1"), "{error}");
            }
        }
    }
}

#[test]
fn handles_are_streams() {
    let store = store();
    let device = format(store.clone());
    assert_eq!((device.info().placement.handles, device.info().block_bytes), (4, 4096));
    assert_eq!(device.info().placement.reclaim_unit_bytes, Some(BLOCK_BYTES));
    let buffer = IoBuffer::zeroed(8192);
    device.submit(Io::write(slot_offset(1), buffer, PlacementHandle::new(3))).wait().unwrap();
    assert!(store.list().iter().any(|state| state.stream == Stream::new(3)));
    let stats = device.stats();
    assert_eq!((stats.host_written_bytes, stats.host_written_bytes_by_handle[3]), (8192, 8192));
    assert_eq!(stats.media_written_bytes, Some(8192 + 4096), "what a format writes is a page");
}

/// One append in four fails. Acknowledged data is kept, a failed request changes nothing, and afterwards the device
/// works on.
#[test]
fn failures_cost_what_failed_alone() {
    for seed in 0..300 {
        let store = Arc::new(CutBlocks::new(40, Cut::Whole, seed));
        let device = store.finish(DeviceOnBlocks::format(store.clone(), &OPTIONS)).unwrap();
        let mut rng = fastrand::Rng::with_seed(seed);
        store.fail_appends(4);
        let pages = usize::try_from(OPTIONS.front_bytes).unwrap() / PAGE;
        let mut known: Vec<Option<u8>> = vec![Some(0); pages];
        for number in 1..120_u8 {
            let page = rng.usize(..pages);
            let written = store.finish(write(&device, (page * PAGE) as u64, &[number; PAGE]));
            match written {
                Ok(_) => known[page] = Some(number),
                Err(failure) => {
                    let kind = failure.error.kind();
                    let expected = matches!(kind, ErrorKind::Io | ErrorKind::NoSpace);
                    assert!(expected, "seed {seed}: {failure}");
                }
            }
            // A page whose write failed has its old content.
            let page = rng.usize(..pages);
            let found = store.finish(read(&device, (page * PAGE) as u64, PAGE)).unwrap();
            assert_eq!(Some(found.as_slice()[0]), known[page], "seed {seed}, page {page}");
        }
        store.fail_appends(0);
        let _after_failures = store.finish(write(&device, 0, &[200; PAGE]));
        store.finish(write(&device, 0, &[201; PAGE])).unwrap_or_else(|failure| {
            panic!("seed {seed}: {failure}");
        });
    }
}

#[test]
fn a_slot_of_which_a_write_failed_is_written_anew() {
    let store = Arc::new(CutBlocks::new(20, Cut::Whole, 1));
    let device = store.finish(DeviceOnBlocks::format(store.clone(), &OPTIONS)).unwrap();
    let at = |page: u64| slot_offset(2) + page * PAGE as u64;
    store.finish(write(&device, at(0), &[1; 2 * PAGE])).unwrap();
    store.fail_appends(1);
    let failed = store.finish(write(&device, at(2), &[2; PAGE])).unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::Io);
    assert_eq!(failed.buffer.as_slice(), [2; PAGE], "its buffer comes back");
    store.fail_appends(0);
    let refused = store.finish(write(&device, at(2), &[2; PAGE])).unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::NotOpen);
    let says = format!("write it anew from its start at {}", slot_offset(2));
    assert!(refused.to_string().contains(&says), "{refused}");
    let there = store.finish(read(&device, at(0), 2 * PAGE)).unwrap();
    assert_eq!(there.as_slice(), [1; 2 * PAGE], "what landed is there");
    let behind = store.finish(read(&device, at(1), 2 * PAGE)).unwrap_err();
    assert_eq!(behind.error.kind(), ErrorKind::Io, "{behind}");
    store.finish(write(&device, at(0), &[3; PAGE])).unwrap();
    let there = store.finish(read(&device, at(0), 3 * PAGE)).unwrap();
    assert_eq!(there.as_slice()[..PAGE], [3; PAGE]);
    assert_eq!(there.as_slice()[PAGE..], [0; 2 * PAGE]);
}

/// A write that arrives before those in front of it waits for them.
#[test]
fn writes_of_a_slot_that_come_in_another_order_are_written_in_theirs() {
    let store = Arc::new(CutBlocks::new(20, Cut::Whole, 5));
    let device = store.finish(DeviceOnBlocks::format(store.clone(), &OPTIONS)).unwrap();
    let at = |page: u64| slot_offset(2) + page * PAGE as u64;
    let first = write(&device, at(0), &[1; PAGE]);
    let last = write(&device, at(3), &[4; PAGE]);
    let middle = write(&device, at(1), &[2; 2 * PAGE]);
    for ended in [last, middle, first] {
        store.finish(ended).unwrap();
    }
    let there = store.finish(read(&device, at(0), 4 * PAGE)).unwrap();
    let stamps: Vec<u8> = there.as_slice().iter().step_by(PAGE).copied().collect();
    assert_eq!((stamps, device.counts().padded_bytes), (vec![1, 2, 2, 4], 0));
}

/// A reader that looked up a page before it was cleaned looks it up again.
#[test]
fn a_page_that_moves_while_it_is_read_is_found() {
    let mut moved = 0;
    for seed in 0..60 {
        let store = Arc::new(CutBlocks::new(20, Cut::Whole, seed));
        let device = store.finish(DeviceOnBlocks::format(store.clone(), &OPTIONS)).unwrap();
        store.finish(write(&device, 0, &[9; 12 * PAGE])).unwrap();
        let tail = OPTIONS.capacity_bytes - OPTIONS.tail_bytes;
        store.finish(write(&device, tail, &[9; 9 * PAGE])).unwrap();
        let mut rng = fastrand::Rng::with_seed(seed);
        for number in 0..60_u8 {
            let reading = read(&device, 0, 4 * PAGE);
            // The store completes the requests in any order.
            for _ in 0..3 {
                let page = tail + rng.u64(..9) * PAGE as u64;
                store.finish(write(&device, page, &[number; PAGE])).unwrap();
            }
            let there = store.finish(reading).unwrap();
            assert!(there.as_slice().iter().all(|byte| *byte == 9), "seed {seed}");
        }
        moved += device.counts().moved_bytes;
    }
    assert!(moved > 0);
}

/// When a region of two blocks is restarted, its second block keeps nothing of the old content.
#[test]
fn slots_together_are_given_up_together() {
    let store = store();
    let options = DeviceOnBlocksOptions {
        capacity_bytes: OPTIONS.capacity_bytes + BLOCK_BYTES,
        slots_together: 2,
        ..OPTIONS
    };
    let odd = refusal(store.clone(), DeviceOnBlocksOptions { slots_together: 2, ..OPTIONS });
    assert!(odd.contains("must be 2 blocks of 32768, or a multiple"), "{odd}");
    let none = refusal(store.clone(), DeviceOnBlocksOptions { slots_together: 0, ..OPTIONS });
    assert!(none.contains("slots_together of 0"), "{none}");
    let device = block_on(DeviceOnBlocks::format(store, &options)).unwrap();
    let whole = vec![1; 2 * usize::try_from(BLOCK_BYTES).unwrap()];
    for first in [0, 2] {
        write(&device, slot_offset(first), &whole).wait().unwrap();
    }
    write(&device, slot_offset(2), &[2; PAGE]).wait().unwrap();
    // This page is at the end of the region, far behind the written part.
    let last = slot_offset(4) - PAGE as u64;
    write(&device, last, &[3; PAGE]).wait().unwrap();
    let there = read(&device, slot_offset(2), whole.len()).wait().unwrap();
    let stamps: Vec<u8> = there.as_slice().iter().step_by(PAGE).copied().collect();
    assert_eq!((stamps[0], stamps[15]), (2, 3));
    assert!(stamps[1..15].iter().all(|stamp| *stamp == 0), "{stamps:?}");
    let other = read(&device, slot_offset(0), whole.len()).wait().unwrap();
    assert!(other.as_slice() == whole, "the others are what they were");
    // A write of the whole region: restarting it must not discard what this write has written.
    let whole = vec![4; whole.len()];
    write(&device, slot_offset(2), &whole).wait().unwrap();
    let there = read(&device, slot_offset(2), whole.len()).wait().unwrap();
    assert!(there.as_slice() == whole);
}
