//! Blocks on zones: the guarantees of every store, losses of power, few active zones, and the checks of an opening.

mod crash;
mod emulated;

use std::sync::Arc;

use larder_blocks::{BlockStore, IsolationLevel, Stream, ZonedBlocks};
use larder_device::{Error, ErrorKind, IoBuffer, ZoneState, ZonedDevice, block_on};

use super::promises::{a_block_store_keeps_its_promises, open_blocks_are_limited};
use emulated::{EmulatedZones, Shape};

const PAGE: usize = 4096;
/// The 1.5 KiB left over at the end of each zone are too short for a page.
const SHAPE: Shape =
    Shape { zones: 12, zone_bytes: 64 << 10, capacity_bytes: (48 << 10) + 1536, active: None };

fn device(shape: Shape) -> Arc<EmulatedZones> {
    Arc::new(EmulatedZones::new(shape, 1))
}

fn format(device: &Arc<EmulatedZones>) -> ZonedBlocks {
    block_on(ZonedBlocks::format(Arc::clone(device) as Arc<dyn ZonedDevice>)).unwrap()
}

fn open(device: &Arc<EmulatedZones>) -> Result<ZonedBlocks, Error> {
    block_on(ZonedBlocks::open(Arc::clone(device) as Arc<dyn ZonedDevice>))
}

fn pages(byte: u8, count: usize) -> IoBuffer {
    let mut buffer = IoBuffer::zeroed(count * PAGE);
    buffer.as_mut_slice().fill(byte);
    buffer
}

#[test]
fn zones_keep_the_promises() {
    for seed in 0..40 {
        let device = device(SHAPE);
        let store = Arc::new(format(&device));
        assert_eq!((store.info().block_bytes, store.info().blocks), (44 << 10, 10));
        assert_eq!(store.info().isolation, IsolationLevel::Unknown);
        a_block_store_keeps_its_promises(seed, store, |store| {
            drop(store);
            Arc::new(open(&device).unwrap())
        });
    }
}

#[test]
fn no_more_zones_are_active_than_may_be() {
    let device = device(Shape { active: Some(4), ..SHAPE });
    let store = format(&device);
    assert_eq!(store.info().open_blocks_max, Some(2));
    open_blocks_are_limited(&store);
    assert!(device.most_active() <= 4);
}

/// A restarted cache leaves blocks behind that it will not append to. They must not stop new blocks from being opened.
#[test]
fn blocks_of_before_are_closed_early_for_new_ones() {
    let device = device(Shape { active: Some(4), ..SHAPE });
    let mut store = format(&device);
    let mut written = Vec::new();
    for round in 0..4 {
        for number in 0..2 {
            let block = store.alloc(Stream::DEFAULT, round).wait().unwrap();
            store.append(block, 0, pages(number, 3)).wait().unwrap();
            written.push((block, number));
        }
        // A block that is still appended to is not closed.
        let (kept, byte) = written[written.len() - 1];
        store = open(&device).unwrap();
        store.append(kept, 3 * PAGE as u64, pages(byte, 1)).wait().unwrap();
        store.free(written.remove(written.len() - 2).0).wait().unwrap();
        let padded = store.padded_bytes();
        assert_eq!(padded, 0, "what is gone on with is not closed");
        store = open(&device).unwrap();
    }
    assert_eq!(store.list().iter().filter(|it| it.closed).count(), 3);
    store.alloc(Stream::DEFAULT, 9).wait().unwrap();
    assert_eq!(store.padded_bytes(), 0);
    store.alloc(Stream::DEFAULT, 9).wait().unwrap();
    assert_eq!(store.padded_bytes(), (44 << 10) + 1536 - 4 * PAGE as u64, "the last one is closed");
    drop(store);
    let store = open(&device).unwrap();
    for (block, byte) in written {
        let state = store.ledger().get(block).unwrap();
        let length = usize::try_from(state.written_bytes).unwrap();
        assert_eq!(length, 4 * PAGE, "{state:?}");
        let read = store.read(block, 0, IoBuffer::zeroed(length)).wait().unwrap();
        assert!(read.as_slice().iter().all(|it| *it == byte), "{state:?}");
    }
    assert!(device.most_active() <= 4);
}

#[test]
fn a_failed_append_closes_its_block_and_its_zone() {
    let device = device(Shape { active: Some(3), ..SHAPE });
    let store = format(&device);
    for _ in 0..5 {
        let block = store.alloc(Stream::DEFAULT, 7).wait().unwrap();
        store.append(block, 0, pages(1, 2)).wait().unwrap();
        device.fail_one_in(1);
        let failed = store.append(block, 2 * PAGE as u64, pages(2, 5)).wait().unwrap_err();
        assert_eq!((failed.error.kind(), failed.buffer.len()), (ErrorKind::Io, 5 * PAGE));
        device.fail_one_in(0);
        let refused = store.append(block, 2 * PAGE as u64, pages(2, 1)).wait().unwrap_err();
        assert_eq!(refused.error.kind(), ErrorKind::NotOpen, "{refused}");
    }
    let last = store.alloc(Stream::DEFAULT, 8).wait().unwrap();
    store.free(last).wait().unwrap();
    let store = open(&device).unwrap();
    for state in store.list() {
        assert_eq!((state.written_bytes, state.closed), (2 * PAGE as u64, true));
        let read = store.read(state.block, 0, IoBuffer::zeroed(2 * PAGE)).wait().unwrap();
        assert!(read.as_slice().iter().all(|it| *it == 1));
    }
}

/// No number is given twice, even when the block with the highest number was freed and its zone no longer records it.
#[test]
fn numbers_are_given_once() {
    let device = device(SHAPE);
    drop(format(&device));
    let mut highest = None;
    for _ in 0..1200 {
        let store = open(&device).unwrap();
        let block = store.alloc(Stream::DEFAULT, 0).wait().unwrap();
        assert!(Some(block) > highest, "{block} after {highest:?}");
        highest = Some(block);
        store.free(block).wait().unwrap();
    }
}

#[test]
fn an_opening_takes_only_what_is_its_own() {
    let refusal = |device: &Arc<EmulatedZones>| {
        let before = device.zones();
        let refused = open(device).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Setup, "{refused}");
        assert_eq!(device.zones(), before, "nothing was written");
        refused.to_string()
    };
    let empty = device(SHAPE);
    assert!(refusal(&empty).contains("there is none; format it"));
    let used = device(SHAPE);
    let store = format(&used);
    let block = store.alloc(Stream::DEFAULT, 7).wait().unwrap();
    store.append(block, 0, pages(1, 1)).wait().unwrap();
    drop(store);
    used.change_zone(2, |_, bytes| bytes[40] ^= 1);
    assert!(refusal(&used).contains("the zone at 131072 has something else, or is damaged"));
    used.change_zone(2, |_, bytes| bytes[40] ^= 1);
    let (mut log, mut half) = (Vec::new(), 0);
    for number in 0..2 {
        used.change_zone(number, |zone, bytes| {
            if zone.state != ZoneState::Empty {
                (log, half) = (bytes.to_vec(), number);
            }
        });
    }
    used.change_zone(half, |_, bytes| bytes[8] += 1);
    assert!(refusal(&used).contains("it is in version 2 of its format, which is later"));
    used.change_zone(half, |_, bytes| bytes[..4096].fill(0));
    assert!(refusal(&used).contains("there is none"));
    used.change_zone(half, |_, bytes| bytes.copy_from_slice(&log));
    assert_eq!(open(&used).unwrap().list()[0].written_bytes, PAGE as u64);
    // A newly formatted store does not accept blocks of the old one, wherever they turn up.
    let mut old = Vec::new();
    used.change_zone(2, |_, bytes| old = bytes.to_vec());
    drop(format(&used));
    assert!(open(&used).unwrap().list().is_empty());
    used.change_zone(5, |zone, bytes| {
        bytes.copy_from_slice(&old);
        (zone.state, zone.write_pointer) = (ZoneState::Closed, zone.start + 8192);
    });
    assert!(refusal(&used).contains("has a block of another one"));
}

#[test]
fn zones_that_will_not_do_are_refused_with_the_reason() {
    let refused = |shape: Shape| {
        let device = device(shape);
        let made = block_on(ZonedBlocks::format(device as Arc<dyn ZonedDevice>));
        let error = made.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Setup);
        error.to_string()
    };
    assert!(refused(Shape { zones: 1, ..SHAPE }).contains("less than two zones"));
    assert!(refused(Shape { zones: 2, ..SHAPE }).contains("no zone is left"));
    assert!(refused(Shape { active: Some(2), ..SHAPE }).contains("at least 3 are needed"));
    assert!(refused(Shape { capacity_bytes: 16384, ..SHAPE }).contains("too short for the log"));
}
