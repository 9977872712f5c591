//! The guarantees of every block store, checked against a map in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use larder_blocks::{BlockId, BlockStore, Stream};
use larder_device::{ErrorKind, IoBuffer, IoFuture};

/// The expected state of a block.
#[derive(Debug, Clone)]
struct Shadow {
    stream: Stream,
    tag: u64,
    bytes: Vec<u8>,
}

struct Trial {
    store: Arc<dyn BlockStore>,
    shadow: BTreeMap<BlockId, Shadow>,
    /// The highest block number so far.
    newest: Option<BlockId>,
    freed: Vec<BlockId>,
    rng: fastrand::Rng,
}

/// Runs 400 random operations derived from `seed`, with every error that a bad request can return. `reopen` returns the
/// store as it is found after the process has ended.
pub(crate) fn a_block_store_keeps_its_promises(
    seed: u64,
    store: Arc<dyn BlockStore>,
    mut reopen: impl FnMut(Arc<dyn BlockStore>) -> Arc<dyn BlockStore>,
) {
    assert!(store.list().is_empty(), "the trial begins with an empty store");
    let mut trial = Trial {
        store,
        shadow: BTreeMap::new(),
        newest: None,
        freed: Vec::new(),
        rng: fastrand::Rng::with_seed(seed),
    };
    for _ in 0..400 {
        match trial.rng.u32(..100) {
            0..15 => trial.alloc(),
            15..60 => trial.append(),
            60..80 => trial.read(),
            80..88 => trial.free(),
            88..97 => trial.bad_request(),
            97..99 => drop(trial.store.flush().wait().unwrap()),
            _ => {
                let Trial { store, shadow, newest, freed, rng } = trial;
                let store = reopen(store);
                trial = Trial { store, shadow, newest, freed, rng };
            }
        }
        trial.compare();
    }
}

impl Trial {
    fn page(&self) -> usize {
        self.store.info().page_bytes as usize
    }

    fn any(&mut self) -> Option<BlockId> {
        let blocks: Vec<_> = self.shadow.keys().copied().collect();
        self.rng.choice(blocks)
    }

    fn end(&self, block: BlockId) -> u64 {
        self.shadow[&block].bytes.len() as u64
    }

    fn alloc(&mut self) {
        let info = self.store.info().clone();
        let (stream, tag) = (Stream::new(self.rng.u16(..info.streams)), self.rng.u64(..));
        let allocated = self.store.alloc(stream, tag).wait();
        if self.shadow.len() as u64 == info.blocks {
            let error = allocated.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NoSpace);
            assert!(error.to_string().contains("free one"), "{error}");
            return;
        }
        let block = allocated.unwrap();
        assert!(Some(block) > self.newest, "{block} after {:?}: numbers grow", self.newest);
        self.newest = Some(block);
        self.shadow.insert(block, Shadow { stream, tag, bytes: Vec::new() });
    }

    /// One append, or several in flight at the same time.
    fn append(&mut self) {
        let Some(block) = self.any() else { return };
        let (page, block_bytes) = (self.page(), self.store.info().block_bytes);
        let mut under_way: Vec<(IoFuture, Vec<u8>)> = Vec::new();
        for _ in 0..self.rng.usize(1..5) {
            let at = self.end(block);
            let room = usize::try_from((block_bytes - at) / page as u64).unwrap();
            if room == 0 {
                let full = self.store.append(block, at, IoBuffer::zeroed(page)).wait().unwrap_err();
                assert_eq!(full.error.kind(), ErrorKind::BlockFull, "{full}");
                break;
            }
            let mut buffer = IoBuffer::zeroed(self.rng.usize(1..=room.min(4)) * page);
            self.rng.fill(buffer.as_mut_slice());
            let bytes = buffer.as_slice().to_vec();
            self.shadow.get_mut(&block).unwrap().bytes.extend(&bytes);
            under_way.push((self.store.append(block, at, buffer), bytes));
        }
        if self.rng.bool() {
            // Waiting for the last append is enough: all before it have landed.
            under_way.drain(..under_way.len().saturating_sub(1));
        }
        for (append, bytes) in under_way {
            assert!(append.wait().unwrap().as_slice() == bytes, "its buffer comes back");
        }
    }

    fn read(&mut self) {
        let Some(block) = self.any() else { return };
        let (page, end) = (self.page(), self.end(block));
        let pages = usize::try_from(end).unwrap() / page;
        if pages == 0 {
            return;
        }
        let first = self.rng.usize(..pages);
        let count = self.rng.usize(1..=pages - first);
        let buffer = IoBuffer::zeroed(count * page);
        let read = self.store.read(block, (first * page) as u64, buffer).wait().unwrap();
        let expected = &self.shadow[&block].bytes[first * page..(first + count) * page];
        assert!(read.as_slice() == expected, "block {block}, page {first}");
    }

    fn free(&mut self) {
        let Some(block) = self.any() else { return };
        self.store.free(block).wait().unwrap();
        self.shadow.remove(&block);
        self.freed.push(block);
    }

    /// Each is refused with the right kind, returns its buffer, and changes nothing.
    fn bad_request(&mut self) {
        let page = self.page();
        let buffer = || IoBuffer::zeroed(page);
        let refused = |ended: larder_device::IoResult, kind, says: &str| {
            let failure = ended.unwrap_err();
            assert_eq!(failure.error.kind(), kind, "{failure}");
            assert!(failure.error.to_string().contains(says), "{failure}, not {says}");
        };
        let freed = self.rng.choice(&self.freed).copied().unwrap_or(BlockId::new(u64::MAX));
        let store = &self.store;
        refused(store.append(freed, 0, buffer()).wait(), ErrorKind::NotOpen, "no such block");
        refused(store.read(freed, 0, buffer()).wait(), ErrorKind::NotOpen, "no such block");
        refused(store.free(freed).wait(), ErrorKind::NotOpen, "no such block");
        let streams = store.info().streams;
        let error = store.alloc(Stream::new(streams), 0).wait().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfRange, "{error}");
        let Some(block) = self.any() else { return };
        let (store, end) = (&self.store, self.end(block));
        let block_bytes = store.info().block_bytes;
        let behind = store.append(block, end + page as u64, buffer()).wait();
        refused(behind, ErrorKind::NotSequential, &format!("begins at {end}"));
        if end > 0 {
            let before = store.append(block, end - page as u64, buffer()).wait();
            refused(before, ErrorKind::NotSequential, &format!("begins at {end}"));
        }
        let pages = usize::try_from((block_bytes - end) / page as u64).unwrap();
        let long = store.append(block, end, IoBuffer::zeroed((pages + 1) * page)).wait();
        assert_eq!(long.as_ref().unwrap_err().buffer.len(), (pages + 1) * page);
        refused(long, ErrorKind::BlockFull, "");
        refused(store.append(block, end + 1, buffer()).wait(), ErrorKind::Misaligned, "page");
        let odd = store.append(block, end, IoBuffer::zeroed(page + 1)).wait();
        refused(odd, ErrorKind::Misaligned, &format!("give {}", 2 * page));
        let nothing = store.append(block, end, IoBuffer::empty()).wait();
        refused(nothing, ErrorKind::Misaligned, &format!("give {page}"));
        let unwritten = store.read(block, end, buffer()).wait();
        refused(unwritten, ErrorKind::OutOfRange, &format!("{end} bytes are written"));
        let far = store.read(block, u64::MAX - page as u64 + 1, buffer()).wait();
        refused(far, ErrorKind::OutOfRange, "are written");
    }

    fn compare(&self) {
        let listed = self.store.list();
        let numbers: Vec<_> = listed.iter().map(|state| state.block).collect();
        assert_eq!(numbers, self.shadow.keys().copied().collect::<Vec<_>>());
        for state in listed {
            let Shadow { stream, tag, bytes } = &self.shadow[&state.block];
            assert_eq!((state.stream, state.tag, state.closed), (*stream, *tag, false));
            assert_eq!(state.written_bytes, bytes.len() as u64, "{state:?}");
        }
    }
}

/// Expects a store with blocks of two pages and a limit of two open blocks.
pub(crate) fn open_blocks_are_limited(store: &dyn BlockStore) {
    let whole = usize::try_from(store.info().block_bytes).unwrap();
    let [first, second] = [1, 2].map(|tag| store.alloc(Stream::DEFAULT, tag).wait().unwrap());
    let refused = || {
        let error = store.alloc(Stream::DEFAULT, 3).wait().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        assert!(error.to_string().contains("fill or free"), "{error}");
    };
    refused();
    store.append(first, 0, IoBuffer::zeroed(whole)).wait().unwrap();
    let third = store.alloc(Stream::DEFAULT, 3).wait().unwrap();
    refused();
    store.free(second).wait().unwrap();
    assert!(store.alloc(Stream::DEFAULT, 4).wait().unwrap() > third);
}
