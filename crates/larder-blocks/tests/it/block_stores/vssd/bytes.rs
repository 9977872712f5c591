//! Reads return the right bytes: during migrations, for block numbers of other vSSDs, with damaged pages, and with
//! appends out of order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use larder_blocks::vssd::{Keeper, MemoryKeeper, Tail};
use larder_blocks::{BlockId, BlockIo, BlockStore, Stream, VssdBlocks};
use larder_device::{Error, ErrorKind, IoBuffer};
use larder_ssd::nand::{BlockIndex, ChannelIndex, DieIndex};
use larder_ssd::raw::RawSsd;
use larder_vssd::{Isolation, Swap, channel_pairs};

use super::rig::{GEOMETRY, PAGE, Rig, request};

fn buffer(rng: &mut fastrand::Rng, pages: usize) -> IoBuffer {
    let mut buffer = IoBuffer::zeroed(pages * PAGE);
    rng.fill(buffer.as_mut_slice());
    buffer
}

/// One tenant, and the expected content of its blocks.
struct Tenant {
    store: VssdBlocks,
    blocks: BTreeMap<BlockId, Vec<u8>>,
}

impl Tenant {
    fn step(&mut self, rng: &mut fastrand::Rng) {
        let some: Vec<BlockId> = self.blocks.keys().copied().collect();
        let info = self.store.info().clone();
        match (rng.u32(..10), rng.choice(some)) {
            (0..2, _) | (_, None) if (self.blocks.len() as u64) < info.blocks => {
                let block = self.store.alloc(Stream::DEFAULT, 0).wait().unwrap();
                self.blocks.insert(block, Vec::new());
            }
            (2..7, Some(block)) => {
                let bytes = self.blocks.get_mut(&block).unwrap();
                let room = usize::try_from(info.block_bytes).unwrap() - bytes.len();
                if room > 0 {
                    let buffer = buffer(rng, rng.clone().usize(1..=(room / PAGE).min(9)));
                    let at = bytes.len() as u64;
                    bytes.extend(buffer.as_slice());
                    self.store.append(block, at, buffer).wait().unwrap();
                }
            }
            (7, Some(block)) => {
                self.store.free(block).wait().unwrap();
                self.blocks.remove(&block);
            }
            (_, Some(block)) => self.compare(block),
            _ => {}
        }
    }

    fn compare(&self, block: BlockId) {
        let bytes = &self.blocks[&block];
        if !bytes.is_empty() {
            let read = self.store.read(block, 0, IoBuffer::zeroed(bytes.len())).wait().unwrap();
            assert!(read.as_slice() == bytes, "block {block} has other bytes");
        }
    }
}

#[test]
fn bytes_stay_with_their_blocks_while_channels_change_places() {
    let (mut moved, mut swaps) = (0, 0);
    for seed in 0..30 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let array = Rig::new(1).array;
        let kinds = [
            Isolation::Channel,
            Isolation::Channel,
            Isolation::Die,
            Isolation::Software { weight: 1 },
            Isolation::None,
        ];
        let tenant = |isolation| {
            let id = array.alloc(request(isolation, 1)).unwrap();
            Tenant { store: array.store(id).unwrap(), blocks: BTreeMap::new() }
        };
        let mut tenants: Vec<Tenant> = kinds.into_iter().map(tenant).collect();
        for _ in 0..1500 {
            let at = rng.usize(..tenants.len());
            tenants[at].step(&mut rng);
            if rng.u32(..100) < 2 {
                let [a, b] = [rng.u32(..4), rng.u32(..4)].map(ChannelIndex);
                if let Ok(pairs) = channel_pairs(GEOMETRY.array, a, b, None) {
                    let begun = array.swap_begin(0, &pairs);
                    let refused = begun.as_ref().err().map(Error::kind);
                    assert!(matches!(refused, None | Some(ErrorKind::InUse)), "{begun:?}");
                    swaps += u32::from(begun.is_ok());
                }
            }
            if rng.bool() {
                moved += u32::from(matches!(array.swap_step().unwrap(), Swap::Moved { .. }));
            }
        }
        while array.swap_step().unwrap() != Swap::Done {}
        for tenant in &tenants {
            tenant.blocks.keys().for_each(|block| tenant.compare(*block));
        }
        let verified = array.verify().unwrap();
        assert_eq!(verified.wrong, Vec::<String>::new(), "seed {seed}");
    }
    println!("{swaps} exchanges, {moved} parts moved");
    assert!(swaps > 100 && moved > 2000, "{swaps} exchanges, {moved} parts moved");
}

#[test]
fn blocks_of_others_are_none_of_ours() {
    let array = Rig::new(1).array;
    let [one, other] = [Isolation::Channel, Isolation::Die].map(|isolation| {
        let id = array.alloc(request(isolation, 1)).unwrap();
        array.store(id).unwrap()
    });
    let block = one.alloc(Stream::DEFAULT, 1).wait().unwrap();
    one.append(block, 0, IoBuffer::zeroed(PAGE)).wait().unwrap();
    let ended = [
        other.append(block, PAGE as u64, IoBuffer::zeroed(PAGE)).wait(),
        other.read(block, 0, IoBuffer::zeroed(PAGE)).wait(),
        other.free(block).wait(),
    ];
    for refused in ended {
        assert_eq!(refused.unwrap_err().error.kind(), ErrorKind::NotOpen);
    }
    assert!(other.list().is_empty());
    one.read(block, 0, IoBuffer::zeroed(PAGE)).wait().unwrap();
}

/// A shared keeper in memory, so that a test can damage the pages.
#[derive(Clone, Default)]
struct Damaging(Arc<Mutex<MemoryKeeper>>);

impl Keeper for Damaging {
    fn write_page(&mut self, slot: u32, page: &[u8]) -> Result<(), Error> {
        self.0.lock().unwrap().write_page(slot, page)
    }

    fn read_page(&mut self, slot: u32, page: &mut [u8]) -> Result<(), Error> {
        self.0.lock().unwrap().read_page(slot, page)
    }

    fn release(&mut self, slots: &[u32]) -> Result<(), Error> {
        self.0.lock().unwrap().release(slots)
    }

    fn write_tail(&mut self, entry: u32, tail: Option<&Tail>) -> Result<(), Error> {
        self.0.lock().unwrap().write_tail(entry, tail)
    }

    fn tails(&mut self) -> Result<Vec<(u32, Tail)>, Error> {
        self.0.lock().unwrap().tails()
    }

    fn after_operation(&mut self, _: &mut [RawSsd]) -> Result<(), Error> {
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

#[test]
fn damaged_bytes_are_an_error_and_no_others_are() {
    let keeper = Damaging::default();
    let array = Rig::with(1, Box::new(keeper.clone()), &[]).array;
    let id = array.alloc(request(Isolation::Die, 1)).unwrap();
    let store = array.store(id).unwrap();
    let block = store.alloc(Stream::DEFAULT, 1).wait().unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    // One stripe, and a tail of two pages.
    store.append(block, 0, buffer(&mut rng, 6)).wait().unwrap();
    let good = array.verify().unwrap();
    assert_eq!((good.blocks, good.pages, good.wrong.len()), (1, 6, 0));
    for slot in 0..6 {
        let mut page = vec![0; PAGE];
        keeper.clone().read_page(slot, &mut page).unwrap();
        page[100] ^= 4;
        keeper.clone().write_page(slot, &page).unwrap();
        let verified = array.verify().unwrap();
        assert_eq!(verified.wrong.len(), 1, "{verified:?}");
        assert!(verified.wrong[0].contains(&format!("page {slot} of block")), "{verified:?}");
        let read = store.read(block, u64::from(slot) * PAGE as u64, IoBuffer::zeroed(PAGE));
        assert_eq!(read.wait().unwrap_err().error.kind(), ErrorKind::Io);
        page[100] ^= 4;
        keeper.clone().write_page(slot, &page).unwrap();
    }
    assert_eq!(array.verify().unwrap(), good);
}

/// As when two threads append: the second append is admitted after the first, but reaches the store before it.
#[test]
fn appends_land_in_the_order_of_their_places() {
    let array = Rig::new(1).array;
    let id = array.alloc(request(Isolation::Die, 1)).unwrap();
    let store = array.store(id).unwrap();
    let admitted = |block, at: usize, byte: u8| {
        let mut buffer = IoBuffer::zeroed(PAGE);
        buffer.as_mut_slice().fill(byte);
        let io = BlockIo::Append { block, at: (at * PAGE) as u64, buffer };
        store.ledger().admit(store.info(), io).unwrap()
    };
    let block = store.alloc(Stream::DEFAULT, 1).wait().unwrap();
    let [first, second, third] =
        [(0, 1), (1, 2), (2, 3)].map(|(at, byte)| admitted(block, at, byte));
    let late = [store.start(third), store.start(second)];
    assert_eq!(store.list()[0].written_bytes, 0);
    store.start(first).wait().unwrap();
    for (append, byte) in late.into_iter().zip([3, 2]) {
        assert_eq!(append.wait().unwrap().as_slice()[0], byte);
    }
    let read = store.read(block, 0, IoBuffer::zeroed(3 * PAGE)).wait().unwrap();
    assert_eq!([0, 1, 2].map(|at| read.as_slice()[at * PAGE]), [1, 2, 3]);
    // An append that waits for one that never comes fails when its block is freed or its store is dropped.
    let [_, second] = [3, 4].map(|at| admitted(block, at, 9));
    let waits = store.start(second);
    store.free(block).wait().unwrap();
    assert_eq!(waits.wait().unwrap_err().error.kind(), ErrorKind::NotOpen);
    let block = store.alloc(Stream::DEFAULT, 1).wait().unwrap();
    let [_, second] = [0, 1].map(|at| admitted(block, at, 9));
    let waits = store.start(second);
    drop(store);
    assert_eq!(waits.wait().unwrap_err().error.kind(), ErrorKind::NotOpen);
}

/// A program fails, and the die has no block left to replace the failed one.
#[test]
fn what_was_acknowledged_stays_when_a_die_comes_to_its_end() {
    let all: Vec<_> = (0..12).map(|block| (BlockIndex(block), 4)).collect();
    let array = Rig::with(1, Box::new(MemoryKeeper::default()), &all).array;
    let id = array.alloc(request(Isolation::Die, 1)).unwrap();
    let store = array.store(id).unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    let block = store.alloc(Stream::DEFAULT, 1).wait().unwrap();
    let first = buffer(&mut rng, 6);
    let bytes = first.as_slice().to_vec();
    store.append(block, 0, first).wait().unwrap();
    let failed = store.append(block, 6 * PAGE as u64, buffer(&mut rng, 5)).wait().unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::NoSpace, "{failed}");
    let more = store.append(block, 11 * PAGE as u64, buffer(&mut rng, 1)).wait().unwrap_err();
    assert_eq!(more.error.kind(), ErrorKind::NotOpen, "{more}");
    drop(store);
    array.power_cycle().unwrap();
    let store = array.store(id).unwrap();
    assert_eq!(store.list()[0].written_bytes, 6 * PAGE as u64);
    let read = store.read(block, 0, IoBuffer::zeroed(6 * PAGE)).wait().unwrap();
    assert!(read.as_slice() == bytes, "the tail too");
    assert_eq!(array.verify().unwrap().wrong, Vec::<String>::new());
}

/// A read-only vSSD refuses every allocation with this reason.
#[test]
fn a_read_only_vssd_says_so_each_time() {
    let blocks = GEOMETRY.blocks_of(DieIndex(0));
    let failures: Vec<(BlockIndex, u32)> = blocks.map(|block| (block, 0)).collect();
    let rig = Rig::with(1, Box::new(MemoryKeeper::default()), &failures);
    let id = rig.array.alloc(request(Isolation::Die, 1)).unwrap();
    let store = rig.array.store(id).unwrap();
    let block = store.alloc(Stream::DEFAULT, 1).wait().unwrap();
    let stripe = IoBuffer::zeroed(4 * PAGE);
    let failed = store.append(block, 0, stripe).wait().unwrap_err();
    assert!(failed.to_string().contains("is read-only"), "{failed}");
    for _ in 0..3 {
        let refused = store.alloc(Stream::DEFAULT, 2).wait().unwrap_err();
        assert!(refused.to_string().contains("is read-only"), "{refused}");
    }
}
