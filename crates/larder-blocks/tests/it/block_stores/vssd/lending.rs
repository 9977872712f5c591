//! Clean data on dies of another vSSD: it vanishes when its owner needs them, and nothing else does.

use std::sync::Arc;
use std::time::Duration;

use larder_blocks::{
    BlockId, BlockStore, DeviceOnBlocks, DeviceOnBlocksOptions, Stream, VssdArray, VssdBlocks,
};
use larder_device::{Device, ErrorKind, Io, IoBuffer, PlacementHandle, block_on};
use larder_vssd::{Isolation, LendingRules, VssdId};

use super::rig::{Rig, request};

/// A borrower and a lender, both with channels of their own.
fn pair() -> (VssdArray, VssdId, VssdId) {
    let array = Rig::new(1).array;
    let [borrower, lender] = [(); 2].map(|()| {
        let one = array.look(|array| array.unit_bytes(Isolation::Channel)).unwrap();
        array.alloc(request(Isolation::Channel, one)).unwrap()
    });
    let rules = LendingRules { lent_percent: 100, idle_ns: 0, ..LendingRules::default() };
    array.lending_rules(rules).unwrap();
    array.lend_of(lender, true).unwrap();
    array.borrow_for(borrower, true).unwrap();
    (array, borrower, lender)
}

fn content(store: &VssdBlocks, seed: u64) -> IoBuffer {
    let mut buffer = IoBuffer::zeroed(usize::try_from(store.info().block_bytes).unwrap());
    for (at, word) in (0..).zip(buffer.as_mut_slice().chunks_exact_mut(8)) {
        word.copy_from_slice(&(seed << 32 | at).to_le_bytes());
    }
    buffer
}

fn fill(store: &VssdBlocks, block: BlockId, seed: u64) {
    store.append(block, 0, content(store, seed)).wait().unwrap();
}

fn check(store: &VssdBlocks, block: BlockId, seed: u64) {
    let expected = content(store, seed);
    let read = store.read(block, 0, IoBuffer::zeroed(expected.len())).wait().unwrap();
    assert_eq!(read.as_slice(), expected.as_slice(), "block {block}");
}

/// Blocks for clean data, as many as the store takes, with their content.
fn clean(store: &VssdBlocks, most: usize) -> Vec<(BlockId, u64)> {
    let blocks = (0..most as u64).map_while(|seed| {
        let block = store.alloc_clean(Stream::DEFAULT, seed).wait().ok()?;
        fill(store, block, seed);
        Some((block, seed))
    });
    blocks.collect()
}

#[test]
fn clean_data_vanishes_when_its_lender_needs_the_blocks_and_own_data_stays() {
    let (array, borrower, lender) = pair();
    let (store, owner) = (array.store(borrower).unwrap(), array.store(lender).unwrap());
    // Twice: bytes of what vanishes are released.
    for round in 0..2 {
        let blocks = clean(&store, 6);
        blocks.iter().for_each(|&(block, seed)| check(&store, block, seed));
        let loans = array.loans().unwrap();
        let of = |id| *loans.tenants.iter().find(|it| it.id == id).unwrap();
        assert_eq!((of(borrower).borrowed, of(lender).lent), (3, 3), "every second one");
        assert!(of(borrower).borrows && of(lender).lends);
        assert_eq!(array.verify().unwrap().wrong, Vec::<String>::new());
        let mut own = Vec::new();
        while let Ok(block) = owner.alloc(Stream::DEFAULT, 0).wait() {
            fill(&owner, block, 1000 + block.number());
            own.push(block);
        }
        assert_eq!(own.len() as u64, owner.info().blocks, "each of its blocks is its own");
        own.iter().for_each(|&block| check(&owner, block, 1000 + block.number()));
        let gone: Vec<_> = blocks.iter().filter(|(block, _)| store.is_gone(*block)).collect();
        assert_eq!(gone.len(), 3, "{round}");
        for &&(block, _) in &gone {
            let read = store.read(block, 0, IoBuffer::zeroed(4096)).wait().unwrap_err();
            assert_eq!(read.error.kind(), ErrorKind::NotOpen, "{}", read.error);
        }
        for &(block, seed) in blocks.iter().filter(|it| !gone.contains(it)) {
            check(&store, block, seed);
        }
        assert_eq!(array.verify().unwrap().wrong, Vec::<String>::new());
        blocks.iter().for_each(|&(block, _)| drop(store.free(block).wait().unwrap()));
        own.into_iter().for_each(|block| drop(owner.free(block).wait().unwrap()));
        assert!(store.list().is_empty() && owner.list().is_empty());
        // What the owner has allocated in the last two seconds stays its own.
        std::thread::sleep(Duration::from_millis(if round == 0 { 2_010 } else { 0 }));
    }
    let totals = array.loans().unwrap();
    let of = totals.tenants.iter().find(|it| it.id == borrower).unwrap();
    assert_eq!((of.totals.called_back, of.borrowed), (6, 0));
    let erases: u64 = totals.erases.iter().flatten().sum();
    assert!(erases > 0 && erases == of.totals.erases, "{totals:?}");
}

/// A block that vanishes while it is written takes the rest, which vanishes too.
#[test]
fn what_is_appended_to_a_vanished_block_vanishes() {
    let (array, borrower, lender) = pair();
    let store = array.store(borrower).unwrap();
    let block = store.alloc_clean(Stream::DEFAULT, 0).wait().unwrap();
    store.append(block, 0, IoBuffer::zeroed(4096)).wait().unwrap();
    array.lend_of(lender, false).unwrap();
    assert!(store.is_gone(block));
    store.append(block, 4096, IoBuffer::zeroed(8192)).wait().unwrap();
    let read = store.read(block, 4096, IoBuffer::zeroed(4096)).wait().unwrap_err();
    assert_eq!(read.error.kind(), ErrorKind::NotOpen);
    store.free(block).wait().unwrap();
    assert!(!store.is_gone(block) && store.list().is_empty());
    let own = store.alloc_clean(Stream::DEFAULT, 0).wait().unwrap();
    fill(&store, own, 5);
    let other = store.alloc(Stream::DEFAULT, 0).wait().unwrap();
    assert!(array.loans().unwrap().open.is_empty(), "none lends");
    check(&store, own, 5);
    store.free(other).wait().unwrap();
}

/// A store that is opened anew after a loss of power has its own blocks, and none that were lent.
#[test]
fn loans_end_with_the_power() {
    let (array, borrower, _) = pair();
    let store = array.store(borrower).unwrap();
    let blocks = clean(&store, 4);
    let own: Vec<_> = {
        let open = array.loans().unwrap().open;
        let is_lent =
            |block: &BlockId| open.iter().any(|loan| loan.block.number() == block.number());
        blocks.iter().copied().filter(|(block, _)| !is_lent(block)).collect()
    };
    assert_eq!(own.len(), 2);
    drop(store);
    array.power_cycle().unwrap();
    let store = array.store(borrower).unwrap();
    let listed: Vec<_> = store.list().iter().map(|state| state.block).collect();
    assert_eq!(listed, own.iter().map(|&(block, _)| block).collect::<Vec<_>>());
    own.iter().for_each(|&(block, seed)| check(&store, block, seed));
    assert_eq!(array.verify().unwrap().wrong, Vec::<String>::new());
}

/// A device on such a store reads zeros where a region has vanished, and writes it anew.
#[test]
fn a_device_has_zeros_for_what_has_vanished() {
    let (array, borrower, lender) = pair();
    let store = Arc::new(array.store(borrower).unwrap());
    let block_bytes = store.info().block_bytes;
    let (front, slots) = (16 * 4096, 3);
    let options = DeviceOnBlocksOptions {
        capacity_bytes: front + slots * block_bytes,
        front_bytes: front,
        tail_bytes: 0,
        spare_percent: 25,
        slots_together: 1,
        handles: 1,
    };
    let device = block_on(DeviceOnBlocks::format(Arc::clone(&store) as _, &options)).unwrap();
    let write = |slot: u64, seed| {
        let offset = front + slot * block_bytes;
        let io = Io::write(offset, content(&store, seed), PlacementHandle::DEFAULT);
        device.submit(io).wait().unwrap();
    };
    let read = |slot: u64| {
        let buffer = IoBuffer::zeroed(usize::try_from(block_bytes).unwrap());
        let io = Io::Read { offset: front + slot * block_bytes, buffer };
        device.submit(io).wait().unwrap().as_slice().to_vec()
    };
    (0..slots).for_each(|slot| write(slot, slot));
    let lent = array.loans().unwrap().open.len();
    assert!(lent > 0);
    array.lend_of(lender, false).unwrap();
    let zeros = (0..slots).filter(|&slot| read(slot).iter().all(|&byte| byte == 0));
    let zeros: Vec<u64> = zeros.collect();
    assert_eq!(zeros.len(), lent);
    for slot in (0..slots).filter(|slot| !zeros.contains(slot)) {
        assert_eq!(read(slot), content(&store, slot).as_slice());
    }
    for slot in 0..slots {
        write(slot, 70 + slot);
        assert_eq!(read(slot), content(&store, 70 + slot).as_slice());
    }
    drop(device);
    let device = block_on(DeviceOnBlocks::open(Arc::clone(&store) as _, &options)).unwrap();
    drop(device);
}
