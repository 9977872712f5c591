//! Blocks on a device: the two halves of the journal, refused openings, and failures of the device.

use std::sync::Arc;

use larder_blocks::{BlockStore, BlocksOnDevice, BlocksOptions, Stream};
use larder_device::{
    Device, ErrorKind, Fault, FaultDevice, FaultPlan, FaultRule, Io, IoBuffer, MemoryDevice,
    ModelDevice, Payload, block_on,
};
use larder_ssd::managed::{Geometry, ManagedConfig};

use super::promises::a_block_store_keeps_its_promises;

pub(super) const BLOCK_BYTES: u64 = 32 << 10;
/// The heads (128 KiB), the halves of a journal, and about a dozen blocks.
pub(super) const DEVICE_BYTES: usize = 576 << 10;
const HEADS: [usize; 2] = [0, 64 << 10];
const BODY: usize = 128 << 10;

fn options() -> BlocksOptions {
    BlocksOptions { block_bytes: BLOCK_BYTES, journal_log_pages: Some(5) }
}

fn format(device: &Arc<impl Device + 'static>) -> BlocksOnDevice {
    block_on(BlocksOnDevice::format(Arc::clone(device) as Arc<dyn Device>, &options())).unwrap()
}

fn open(bytes: Vec<u8>) -> Result<BlocksOnDevice, larder_device::Error> {
    block_on(BlocksOnDevice::open(Arc::new(MemoryDevice::holding(bytes))))
}

fn pages(byte: u8, count: usize) -> IoBuffer {
    let mut buffer = IoBuffer::zeroed(count * 4096);
    buffer.as_mut_slice().fill(byte);
    buffer
}

#[test]
fn blocks_on_a_device_keep_the_promises() {
    for seed in 0..60 {
        let device = Arc::new(MemoryDevice::holding(vec![0; DEVICE_BYTES]));
        let store = Arc::new(format(&device));
        a_block_store_keeps_its_promises(seed, store, |before| {
            drop(before);
            Arc::new(block_on(BlocksOnDevice::open(device.clone())).unwrap())
        });
    }
}

#[test]
fn streams_are_handles_and_freed_regions_are_deallocated() {
    let geometry = Geometry::with_overprovisioning(4 << 20, 16 << 10, 60.0).unwrap();
    let drive = ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory).unwrap();
    let drive = Arc::new(drive);
    let store = format(&drive);
    assert_eq!(store.info().streams, 8);
    let block = store.alloc(Stream::new(3), 1).wait().unwrap();
    store.append(block, 0, pages(7, 2)).wait().unwrap();
    assert_eq!(drive.stats().host_written_bytes_by_handle[3], 8192);
    let stats = store.stats();
    assert_eq!((stats.host_written_bytes, stats.host_written_bytes_by_handle[3]), (8192, 8192));
    assert!(stats.media_written_bytes.unwrap() > 8192, "the journal is of the media");
    store.free(block).wait().unwrap();
    assert_eq!(drive.stats().deallocated_bytes, BLOCK_BYTES);
}

#[test]
fn impossible_stores_are_refused() {
    let refusal = |options: BlocksOptions, bytes: usize| {
        let device = Arc::new(MemoryDevice::holding(vec![7; bytes]));
        let refused = block_on(BlocksOnDevice::format(device.clone(), &options)).err().unwrap();
        assert!(device.bytes().iter().all(|byte| *byte == 7), "nothing was written");
        assert_eq!(refused.kind(), ErrorKind::Setup);
        refused.to_string()
    };
    let odd = refusal(BlocksOptions { block_bytes: 5000, ..options() }, DEVICE_BYTES);
    assert!(odd.contains("block_bytes of 5000"), "{odd}");
    let none = BlocksOptions { journal_log_pages: Some(0), ..options() };
    assert!(refusal(none, DEVICE_BYTES).contains("journal_log_pages of 0"));
    assert!(refusal(options(), 128 << 10).contains("0 blocks"));
}

/// A store whose journal has switched to the other half at least once, and the content of its device.
fn used() -> (Arc<MemoryDevice>, Vec<u8>) {
    let device = Arc::new(MemoryDevice::holding(vec![0; DEVICE_BYTES]));
    let store = format(&device);
    let block = store.alloc(Stream::DEFAULT, 7).wait().unwrap();
    for page in 0..7 {
        store.append(block, page * 4096, pages(7, 1)).wait().unwrap();
    }
    let bytes = device.bytes();
    (device, bytes)
}

#[test]
fn a_journal_both_of_whose_halves_are_gone_is_refused() {
    let (_, bytes) = used();
    assert_eq!(open(bytes.clone()).unwrap().list()[0].written_bytes, 7 * 4096);
    let mut damaged = bytes;
    for head in HEADS {
        damaged[head + 70] ^= 1;
    }
    let device = Arc::new(MemoryDevice::holding(damaged.clone()));
    let refused = block_on(BlocksOnDevice::open(device.clone())).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Setup);
    assert!(refused.to_string().contains("both halves are damaged"), "{refused}");
    assert!(device.bytes() == damaged, "nothing was written");
    let none = open(vec![0; DEVICE_BYTES]).err().unwrap();
    assert!(none.to_string().contains("there is none"), "{none}");
}

/// Falling back to the old half would be wrong: it describes the state before the newer half.
#[test]
fn an_old_half_is_not_believed_when_the_newer_one_is_damaged() {
    let (_, mut bytes) = used();
    bytes[HEADS[1] + 70] ^= 1;
    let refused = open(bytes).err().unwrap().to_string();
    assert!(refused.contains("a newer half is known to be there"), "{refused}");
}

/// A head states that the snapshot behind it is whole. An old head must not vouch for pages that are being overwritten.
#[test]
fn a_half_has_no_head_while_it_is_overwritten() {
    let below = MemoryDevice::holding(vec![0; DEVICE_BYTES]);
    let device = Arc::new(FaultDevice::new(below, &FaultPlan::new(1)));
    let options = BlocksOptions { journal_log_pages: Some(1), ..options() };
    let store = block_on(BlocksOnDevice::format(device.clone(), &options)).unwrap();
    let block = store.alloc(Stream::DEFAULT, 7).wait().unwrap();
    // The first half has room for two records; the second has room for one, behind its snapshot. The next record
    // switches back to the first half.
    store.append(block, 0, pages(1, 1)).wait().unwrap();
    store.append(block, 4096, pages(2, 1)).wait().unwrap();
    let first_page = BODY as u64..BODY as u64 + 4096;
    let interrupted = FaultRule::new(Fault::FailedButDone).on_writes().within(first_page);
    device.set_plan(&FaultPlan::new(1).with(interrupted));
    store.append(block, 8192, pages(3, 1)).wait().unwrap_err();
    drop(store);
    let mut bytes = device.inner().bytes();
    assert_eq!(bytes[BODY + 32], 3, "the third filling's snapshot is there");
    assert!(bytes[HEADS[0]..][..4096] == [0; 4096], "and the first one's head is not");
    let state = open(bytes.clone()).unwrap().list()[0];
    assert_eq!((state.block, state.written_bytes), (block, 8192), "the other half serves");
    bytes[HEADS[1] + 70] ^= 1;
    let refused = open(bytes).err().expect("no half is whole").to_string();
    assert!(refused.contains("both halves are damaged"), "{refused}");
}

#[test]
fn a_page_that_was_damaged_later_is_told_from_one_that_was_cut_short() {
    let (_, bytes) = used();
    // The second half: body, a snapshot of one page, the log with two records.
    let marks: Vec<usize> = (BODY..DEVICE_BYTES)
        .step_by(4096)
        .filter(|&at| bytes[at..].starts_with(b"LARDERBJ"))
        .collect();
    let newest = marks.iter().copied().filter(|&at| bytes[at + 32] == 2).collect::<Vec<_>>();
    let [snapshot, first, second] = newest[..] else { panic!("{newest:?}") };
    let with = |damaged: &[usize]| {
        let mut bytes = bytes.clone();
        damaged.iter().for_each(|&at| bytes[at + 100] ^= 1);
        open(bytes)
    };
    assert!(with(&[snapshot]).err().unwrap().to_string().contains("of a snapshot, is damaged"));
    let middle = with(&[first]).err().unwrap().to_string();
    assert!(middle.contains("one before it is damaged"), "{middle}");
    assert_eq!(with(&[second]).unwrap().list()[0].written_bytes, 6 * 4096, "as if cut short");
    let mut later = bytes.clone();
    later[8] += 1;
    assert!(open(later).err().unwrap().to_string().contains("version"));
    let short = bytes[..DEVICE_BYTES - (64 << 10)].to_vec();
    assert!(open(short).err().unwrap().to_string().contains("give the whole device"));
}

/// The device fails some writes of a store. A failed write to a block closes the block; a failed write to the journal
/// fails the requests that wait for it.
#[test]
fn a_failed_append_closes_its_block() {
    let below = MemoryDevice::holding(vec![0; DEVICE_BYTES]);
    let device = Arc::new(FaultDevice::new(below, &FaultPlan::new(1)));
    let store = format(&device);
    let block = store.alloc(Stream::DEFAULT, 1).wait().unwrap();
    store.append(block, 0, pages(1, 1)).wait().unwrap();
    device.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Error).on_writes().at_match(0)));
    let first = store.append(block, 4096, pages(2, 1)).wait().unwrap_err();
    assert_eq!((first.error.kind(), first.buffer.as_slice()[0]), (ErrorKind::Io, 2));
    let next = store.append(block, 8192, pages(3, 1)).wait().unwrap_err();
    assert_eq!(next.error.kind(), ErrorKind::NotOpen, "{next}");
    assert!(next.error.to_string().contains("takes no more"), "{next}");
    let state = store.list()[0];
    assert_eq!((state.written_bytes, state.closed), (4096, true));
    assert!(store.read(block, 0, pages(0, 1)).wait().unwrap().as_slice() == [1; 4096]);
    store.free(block).wait().unwrap();
    assert!(store.list().is_empty());
}

#[test]
fn a_failed_page_of_the_journal_fails_what_waits_for_it_and_nothing_else() {
    let below = MemoryDevice::holding(vec![0; DEVICE_BYTES]);
    let device = Arc::new(FaultDevice::new(below, &FaultPlan::new(1)));
    let store = format(&device);
    let kept = store.alloc(Stream::DEFAULT, 1).wait().unwrap();
    for fault in [Fault::Error, Fault::FailedButDone] {
        let fails = FaultPlan::new(1).with(FaultRule::new(fault).on_writes().at_match(0));
        device.set_plan(&fails);
        assert!(store.alloc(Stream::DEFAULT, 2).wait().is_err());
        device.set_plan(&fails);
        assert!(store.free(kept).wait().is_err());
        assert!(store.list()[0].closed, "it may be freed or not, and takes no more");
    }
    // All regions can still be allocated, and the journal continues.
    store.free(kept).wait().unwrap();
    let all = store.info().blocks;
    for tag in 0..all {
        store.alloc(Stream::DEFAULT, tag).wait().unwrap();
    }
    assert_eq!(store.alloc(Stream::DEFAULT, all).wait().unwrap_err().kind(), ErrorKind::NoSpace);
    drop(store);
    let store = block_on(BlocksOnDevice::open(device)).unwrap();
    let tags: Vec<u64> = store.list().iter().map(|state| state.tag).collect();
    assert_eq!(tags, (0..all).collect::<Vec<_>>());
}

/// With several appends in flight to one block, none lands before those in front of it.
#[test]
fn appends_land_in_order_whatever_order_their_bytes_do() {
    let below = MemoryDevice::holding(vec![0; DEVICE_BYTES]);
    let device = Arc::new(FaultDevice::new(below, &FaultPlan::new(1)));
    let store = format(&device);
    let block = store.alloc(Stream::DEFAULT, 1).wait().unwrap();
    let slow = Fault::Delay { submissions: 1 << 20 };
    device.set_plan(&FaultPlan::new(1).with(FaultRule::new(slow).on_writes().at_match(0)));
    let first = store.append(block, 0, pages(1, 1));
    let second = store.append(block, 4096, pages(2, 1));
    let freeing = store.free(block);
    assert_eq!(store.list()[0].written_bytes, 0, "the second is there and has not landed");
    assert_eq!(device.stats().deallocated_bytes, 0, "it is freed when its appends have ended");
    device.release_delayed();
    let landed = [first.wait().unwrap(), second.wait().unwrap()];
    assert_eq!(landed.map(|buffer| buffer.as_slice()[0]), [1, 2]);
    freeing.wait().unwrap();
    assert!(store.list().is_empty());
}

/// The region may belong to another block by now, so the bytes must not be returned.
#[test]
fn a_read_of_a_block_that_is_freed_during_the_read_fails() {
    let below = MemoryDevice::holding(vec![0; DEVICE_BYTES]);
    let device = Arc::new(FaultDevice::new(below, &FaultPlan::new(1)));
    let store = format(&device);
    let block = store.alloc(Stream::DEFAULT, 1).wait().unwrap();
    store.append(block, 0, pages(1, 1)).wait().unwrap();
    let slow = Fault::Delay { submissions: 1 << 20 };
    device.set_plan(&FaultPlan::new(1).with(FaultRule::new(slow).on_reads()));
    let read = store.read(block, 0, pages(0, 1));
    store.free(block).wait().unwrap();
    device.release_delayed();
    assert_eq!(read.wait().unwrap_err().error.kind(), ErrorKind::NotOpen);
    assert!(device.submit(Io::Flush).wait().is_ok());
}
