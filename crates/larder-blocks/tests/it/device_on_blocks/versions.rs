//! A page that is written again and again alone: its versions follow one another without headers, and the last one
//! that was acknowledged is there after an opening.

use std::sync::Arc;

use larder_blocks::{BlocksOnDevice, DeviceOnBlocks};
use larder_device::{Error, MemoryDevice, block_on};

use super::cut_blocks::{Cut, CutBlocks};
use super::{APART, PAGE, blocks_on_memory, format, open, read, write, write_with};

const MAGIC: &[u8; 8] = b"LARDERDB";

fn headers(device: &DeviceOnBlocks) -> u64 {
    device.counts().header_bytes / PAGE as u64
}

/// The device with all blocks on these bytes, opened.
fn on_bytes(bytes: Vec<u8>) -> Result<DeviceOnBlocks, Error> {
    let below = Arc::new(MemoryDevice::holding(bytes));
    open(Arc::new(block_on(BlocksOnDevice::open(below)).unwrap()))
}

/// Offsets of the headers on the device below, in the order of their sequence.
fn header_offsets(bytes: &[u8]) -> Vec<usize> {
    let pages = bytes.chunks(PAGE).enumerate();
    let headers = pages.filter(|(_, page)| page.starts_with(MAGIC));
    let sequence = |page: &[u8]| u64::from_le_bytes(page[32..40].try_into().unwrap());
    let mut found: Vec<(u64, usize)> =
        headers.map(|(number, page)| (sequence(page), number * PAGE)).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, offset)| offset).collect()
}

#[test]
fn a_page_written_again_alone_takes_no_more_headers() {
    let (below, store) = blocks_on_memory();
    let device = format(store);
    let before = headers(&device);
    for number in 1..=4 {
        write(&device, 0, &[number; PAGE]).wait().unwrap();
    }
    assert_eq!(headers(&device) - before, 1, "one for four");
    write(&device, PAGE as u64, &[7; PAGE]).wait().unwrap();
    write(&device, 0, &[5; PAGE]).wait().unwrap();
    assert_eq!(headers(&device) - before, 3, "each change of the page takes one");
    for number in 6..100 {
        write(&device, 0, &[number; PAGE]).wait().unwrap();
    }
    // A block of eight pages has a header and the page seven times: no page is left over.
    let written = headers(&device) - before;
    assert_eq!(written, 2 + 95_u64.div_ceil(7), "two for the first five, then one a block");
    drop(device);
    let device = on_bytes(below.bytes()).unwrap();
    let found = read(&device, 0, 2 * PAGE).wait().unwrap();
    assert_eq!((found.as_slice()[0], found.as_slice()[PAGE]), (99, 7));
}

/// Recovery takes a page that begins as a header for one, so such content never follows without one.
#[test]
fn content_that_looks_like_a_header_has_a_header() {
    let (below, store) = blocks_on_memory();
    let device = format(store);
    write(&device, 0, &[1; PAGE]).wait().unwrap();
    let before = headers(&device);
    let bytes = below.bytes();
    let copied = *header_offsets(&bytes).last().unwrap();
    let header = bytes[copied..copied + PAGE].to_vec();
    write(&device, 0, &header).wait().unwrap();
    assert_eq!(headers(&device) - before, 1);
    write(&device, 0, &[2; PAGE]).wait().unwrap();
    write(&device, 0, &header).wait().unwrap();
    drop(device);
    let device = on_bytes(below.bytes()).unwrap();
    assert!(read(&device, 0, PAGE).wait().unwrap().as_slice() == header);
}

/// A version counts as old as the header in front of it, so a later write of the page with another handle ends them.
#[test]
fn a_write_with_another_handle_ends_the_versions() {
    let (below, store) = blocks_on_memory();
    let device = block_on(DeviceOnBlocks::format(store, &APART)).unwrap();
    for (number, handle) in [(1, 0), (2, 0), (3, 1), (4, 0)] {
        write_with(&device, 0, &[number; PAGE], handle).wait().unwrap();
    }
    drop(device);
    let below = Arc::new(MemoryDevice::holding(below.bytes()));
    let store = Arc::new(block_on(BlocksOnDevice::open(below)).unwrap());
    let device = block_on(DeviceOnBlocks::open(store, &APART)).unwrap();
    assert_eq!(read(&device, 0, PAGE).wait().unwrap().as_slice()[0], 4);
}

/// The same if that write failed: it may be stored all the same.
#[test]
fn a_failed_write_with_another_handle_ends_the_versions_too() {
    let store = Arc::new(CutBlocks::new(20, Cut::Whole, 1));
    let device = store.finish(DeviceOnBlocks::format(store.clone(), &APART)).unwrap();
    let put = |number: u8, handle| {
        store.finish(write_with(&device, 0, &[number; PAGE], handle)).map(drop)
    };
    put(1, 0).unwrap();
    put(2, 0).unwrap();
    store.fail_appends_that_land(1);
    put(3, 1).unwrap_err();
    store.fail_appends(0);
    put(4, 0).unwrap();
    drop(device);
    let store = Arc::new(store.restarted(1));
    let device = store.finish(DeviceOnBlocks::open(store.clone(), &APART)).unwrap();
    let found = store.finish(read(&device, 0, PAGE)).unwrap();
    assert_eq!(found.as_slice()[0], 4, "the last that was acknowledged");
}

/// A damaged header behind versions passes for one of them. The next header has another number of versions before it.
#[test]
fn a_header_that_passes_for_a_version_is_damage() {
    let (below, store) = blocks_on_memory();
    let device = format(store);
    for page in [0, 0, 1, 2] {
        write(&device, page * PAGE as u64, &[1; PAGE]).wait().unwrap();
    }
    drop(device);
    let mut bytes = below.bytes();
    // Of the format, of pages 0, 1 and 2.
    let offsets = header_offsets(&bytes);
    assert_eq!(offsets.len(), 4);
    assert!(on_bytes(bytes.clone()).is_ok());
    bytes[offsets[2]] ^= 1;
    let refused = on_bytes(bytes).err().unwrap();
    assert!(refused.to_string().contains("is damaged; format it"), "{refused}");
}

/// Version 9 of the format has no versions of pages. What it has is read, and goes on in the present version.
#[test]
fn a_device_of_version_9_is_opened() {
    let (below, store) = blocks_on_memory();
    let device = format(store);
    write(&device, 0, &[3; 2 * PAGE]).wait().unwrap();
    drop(device);
    let mut bytes = below.bytes();
    for offset in header_offsets(&bytes) {
        assert_eq!(bytes[offset + 8..offset + 10], [10, 0]);
        bytes[offset + 8] = 9;
    }
    let below = Arc::new(MemoryDevice::holding(bytes));
    let store = Arc::new(block_on(BlocksOnDevice::open(below.clone())).unwrap());
    let device = open(store).unwrap();
    for number in 4..7 {
        write(&device, 0, &[number; PAGE]).wait().unwrap();
    }
    drop(device);
    let device = on_bytes(below.bytes()).unwrap();
    let found = read(&device, 0, 2 * PAGE).wait().unwrap();
    assert_eq!((found.as_slice()[0], found.as_slice()[PAGE]), (6, 3));
}
