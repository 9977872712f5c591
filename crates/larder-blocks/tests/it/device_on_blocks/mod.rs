//! A device on blocks through its public interface: compared with bytes in memory, through losses of power, and its
//! refusals.

mod crash;
mod cut_blocks;
mod handles;
mod oracle;
mod refusals;
mod versions;

use std::collections::BTreeSet;
use std::sync::Arc;

use larder_blocks::{
    BlockStore, BlocksOnDevice, BlocksOptions, DeviceOnBlocks, DeviceOnBlocksOptions,
};
use larder_device::{
    Claim, Device, Error, Io, IoBuffer, IoFuture, MemoryDevice, PlacementHandle, block_on,
};

pub(crate) const PAGE: usize = 4096;
pub(crate) const BLOCK_BYTES: u64 = 32 << 10;
const FRONT_PAGES: u64 = 12;
const TAIL_PAGES: u64 = 9;
pub(crate) const SLOTS: u64 = 5;

/// Small enough that cleaning runs all the time.
pub(crate) const OPTIONS: DeviceOnBlocksOptions = DeviceOnBlocksOptions {
    capacity_bytes: (FRONT_PAGES + TAIL_PAGES) * PAGE as u64 + SLOTS * BLOCK_BYTES,
    front_bytes: FRONT_PAGES * PAGE as u64,
    tail_bytes: TAIL_PAGES * PAGE as u64,
    spare_percent: 0,
    slots_together: 1,
    handles: 1,
};

/// The same with several placement handles.
pub(crate) const APART: DeviceOnBlocksOptions = DeviceOnBlocksOptions { handles: 3, ..OPTIONS };

pub(crate) fn open(store: Arc<dyn BlockStore>) -> Result<DeviceOnBlocks, Error> {
    block_on(DeviceOnBlocks::open(store, &OPTIONS))
}

pub(crate) fn format(store: Arc<dyn BlockStore>) -> DeviceOnBlocks {
    block_on(DeviceOnBlocks::format(store, &OPTIONS)).unwrap()
}

/// Options for blocks on such a device, with room for [`APART`].
pub(crate) fn blocks_options() -> BlocksOptions {
    BlocksOptions { block_bytes: BLOCK_BYTES, journal_log_pages: Some(5) }
}

/// Bytes of a device whose blocks have room for [`APART`].
pub(crate) fn bytes_below(store: &larder_blocks::StoreInfo) -> usize {
    let blocks = APART.blocks_needed(store).unwrap();
    usize::try_from(blocks * BLOCK_BYTES).unwrap() + (256 << 10)
}

pub(crate) fn blocks_on_memory() -> (Arc<MemoryDevice>, Arc<dyn BlockStore>) {
    let info = larder_blocks::MemoryBlocks::new(1, BLOCK_BYTES, 4096).unwrap().info().clone();
    let below = Arc::new(MemoryDevice::holding(vec![0; bytes_below(&info)]));
    let store = block_on(BlocksOnDevice::format(below.clone(), &blocks_options())).unwrap();
    (below, Arc::new(store))
}

/// A claim outlives its device while an abandoned request has not completed, so a new device at the same address must
/// not match it.
#[test]
fn a_device_is_told_from_those_that_were_where_it_is() {
    let (_, store) = blocks_on_memory();
    drop(format(Arc::clone(&store)));
    let (mut claims, mut places) = (Vec::new(), BTreeSet::new());
    for _ in 0..8 {
        let device = Arc::new(open(Arc::clone(&store)).unwrap());
        places.insert(Arc::as_ptr(&device).addr());
        claims.push(Claim::take(&device).unwrap());
        assert!(Claim::take(&device).is_err(), "it is this one all the same");
    }
    assert!(places.len() < 8, "some lay where others had");
}

pub(crate) fn write(device: &dyn Device, offset: u64, bytes: &[u8]) -> IoFuture {
    write_with(device, offset, bytes, 0)
}

pub(crate) fn write_with(device: &dyn Device, offset: u64, bytes: &[u8], handle: u16) -> IoFuture {
    let mut buffer = IoBuffer::zeroed(bytes.len());
    buffer.copy_in(0, bytes);
    device.submit(Io::write(offset, buffer, PlacementHandle::new(handle)))
}

pub(crate) fn read(device: &dyn Device, offset: u64, bytes: usize) -> IoFuture {
    // Prefill the buffer, so that leftover content cannot pass for data that was read.
    let mut buffer = IoBuffer::zeroed(bytes);
    buffer.as_mut_slice().fill(0xee);
    device.submit(Io::Read { offset, buffer })
}

pub(crate) fn slot_offset(slot: u64) -> u64 {
    OPTIONS.front_bytes + slot * BLOCK_BYTES
}
