//! Levelling that runs by itself: it exchanges channels beside the tenants, and a process that is killed in the middle
//! of an exchange loses nothing.
//!
//! `LARDER_LEVELLING_KILLS` is the number of kills during exchanges (default 6), `LARDER_LEVELLING_SEED` the first
//! seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use larder_blocks::vssd::{ImageFile, Levelling, MemoryKeeper, VssdArray, VssdBlocks};
use larder_blocks::{BlockId, BlockStore, Stream};
use larder_device::IoBuffer;
use larder_ssd::nand::{ChannelIndex, DieArray, Endurance, NandGeometry};
use larder_ssd::raw::{RawConfig, RawSsd};
use larder_vssd::image::ImageConfig;
use larder_vssd::levelling::PaceLimits;
use larder_vssd::service::{Cause, ServiceOptions};
use larder_vssd::{Isolation, MemoryImages};

use super::rig::{RATES, request};

const PAGE: usize = 512;
/// Nothing here takes longer.
const PATIENCE: Duration = Duration::from_secs(30);
/// 4 channels of 2 dies of 24 blocks of 3 stripes of 4 pages.
const GEOMETRY: NandGeometry = NandGeometry {
    array: DieArray { channels: 4, dies_per_channel: 2 },
    planes: 1,
    bits: 2,
    blocks_per_die: 24,
    pages_per_block: 6,
    page_bytes: 1024,
    mapping_bytes: 512,
};

fn drive() -> RawConfig {
    RawConfig {
        spare_per_mille: 100,
        endurance: Endurance::Rated { rated: 400, certain: 800 },
        page_words: true,
        ..RawConfig::new(GEOMETRY)
    }
}

/// The page of a block.
fn page(block: BlockId, number: u64) -> Vec<u8> {
    let word = block.number().wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number;
    word.to_le_bytes().repeat(PAGE / 8)
}

fn pages(block: BlockId, range: std::ops::Range<u64>) -> Vec<u8> {
    range.flat_map(|number| page(block, number)).collect()
}

fn append(store: &VssdBlocks, block: BlockId, range: std::ops::Range<u64>) {
    let bytes = pages(block, range.clone());
    let mut buffer = IoBuffer::zeroed(bytes.len());
    buffer.as_mut_slice().copy_from_slice(&bytes);
    store.append(block, range.start * PAGE as u64, buffer).wait().unwrap();
}

fn check(store: &VssdBlocks, block: BlockId, written: u64) {
    let bytes = usize::try_from(written).unwrap();
    if bytes == 0 {
        return;
    }
    let read = store.read(block, 0, IoBuffer::zeroed(bytes)).wait().unwrap();
    assert!(read.as_slice() == pages(block, 0..written / PAGE as u64), "{block}");
}

#[test]
fn a_busy_channel_gives_its_tenant_away() {
    let drives = vec![RawSsd::new(drive()).unwrap()];
    let (images, keeper) = (Box::new(MemoryImages::default()), Box::new(MemoryKeeper::default()));
    let array = VssdArray::create(drives, images, keeper, [7; 16], RATES).unwrap();
    let ids = [(); 4].map(|()| array.alloc(request(Isolation::Channel, 1)).unwrap());
    let stores = ids.map(|id| array.store(id).unwrap());
    let options = ServiceOptions {
        pace: PaceLimits::around(200_000_000),
        open_wait_ns: 1_000_000,
        busy_erase_ns: 1_000_000,
        ..ServiceOptions::default()
    };
    let levelling = Levelling::start(array.clone(), options).unwrap();
    let block_pages = stores[0].info().block_bytes / PAGE as u64;
    let begin = Instant::now();
    let mut blocks = Vec::new();
    let exchanges = || levelling.report().unwrap().drives[0].exchanges;
    let overwrite = |blocks: &mut Vec<BlockId>| {
        if blocks.len() == 8 {
            stores[0].free(blocks.remove(0)).wait().unwrap();
        }
        let block = stores[0].alloc(Stream::DEFAULT, 0).wait().unwrap();
        append(&stores[0], block, 0..block_pages);
        blocks.push(block);
    };
    while exchanges() < 2 {
        assert!(begin.elapsed() < PATIENCE, "{:?}", levelling.report());
        overwrite(&mut blocks);
    }
    blocks.iter().for_each(|&block| check(&stores[0], block, block_pages * PAGE as u64));
    let report = levelling.report().unwrap();
    let worn = report.drives[0].channels.iter().filter(|channel| channel.erases > 50).count();
    assert!(worn >= 2 && report.drives[0].spent_erases > 0, "{report:?}");
    assert_eq!(report.last.unwrap().cause, Cause::Due);

    // A pause holds, and what is dropped does nothing any more.
    levelling.pause().unwrap();
    let before = exchanges();
    (0..2000).for_each(|_| overwrite(&mut blocks));
    assert!(exchanges() <= before + 1, "the one in progress may have been at its end");
    levelling.resume().unwrap();
    drop(levelling);
    assert!(array.verify().unwrap().wrong.is_empty());
}

#[test]
fn an_exchange_that_was_asked_for_is_reported_and_taken_back() {
    let drives = vec![RawSsd::new(drive()).unwrap()];
    let (images, keeper) = (Box::new(MemoryImages::default()), Box::new(MemoryKeeper::default()));
    let array = VssdArray::create(drives, images, keeper, [7; 16], RATES).unwrap();
    let id = array.alloc(request(Isolation::Channel, 1)).unwrap();
    let store = array.store(id).unwrap();
    let block_pages = store.info().block_bytes / PAGE as u64;
    let blocks: Vec<BlockId> = (0..10)
        .map(|_| {
            let block = store.alloc(Stream::DEFAULT, 0).wait().unwrap();
            append(&store, block, 0..block_pages);
            block
        })
        .collect();
    // A part of 6 KiB in 100 ms.
    let options = ServiceOptions { pace: PaceLimits::around(30_000), ..ServiceOptions::default() };
    let levelling = Levelling::start(array.clone(), options).unwrap();
    let home = array.list()[0].dies.clone();
    let channel = GEOMETRY.array.channel_of(home[0].1);
    let other = ChannelIndex((channel.0 + 1) % 4);
    assert!(
        levelling.exchange(1, channel, other).is_err()
            && levelling.exchange(0, channel, channel).is_err()
    );
    levelling.exchange(0, channel, other).unwrap();
    assert!(levelling.exchange(0, channel, other).is_err(), "one at a time");
    let report = levelling.report().unwrap().exchange.unwrap();
    assert_eq!(
        (report.channels, report.cause, report.back),
        ((channel, other), Cause::Asked, false)
    );
    assert!(report.done < 1.0, "{report:?}");
    levelling.take_back().unwrap();
    let begin = Instant::now();
    while levelling.report().unwrap().exchange.is_some() {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(array.list()[0].dies, home);
    blocks.iter().for_each(|&block| check(&store, block, block_pages * PAGE as u64));
}

/// What the victim has told before it was killed, a record of 24 bytes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Bytes of a block up to here were acknowledged.
    Written(BlockId, u64),
    /// A block is about to be freed.
    Freeing(BlockId),
    /// It was.
    Freed(BlockId),
}

impl Told {
    fn write(self, into: &mut File) {
        let (kind, block, end) = match self {
            Self::Written(block, end) => (1_u64, block, end),
            Self::Freeing(block) => (2, block, 0),
            Self::Freed(block) => (3, block, 0),
        };
        let numbers = [kind, block.number(), end];
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        into.write_all(&bytes).unwrap();
    }

    fn read(record: &[u8]) -> Self {
        let number = |at: usize| u64::from_le_bytes(record[at * 8..][..8].try_into().unwrap());
        let block = BlockId::new(number(1));
        match number(0) {
            1 => Self::Written(block, number(2)),
            2 => Self::Freeing(block),
            _ => Self::Freed(block),
        }
    }
}

const VICTIM: &str = "block_stores::vssd::levelling::a_victim_that_is_killed";
const VICTIM_DIR: &str = "LARDER_LEVELLING_VICTIM";

/// Not a test of its own: the process that the next test kills.
#[test]
fn a_victim_that_is_killed() {
    let Some(dir) = std::env::var_os(VICTIM_DIR).map(PathBuf::from) else { return };
    let (array, _) = VssdArray::open_image(ImageFile::open(&dir.join("m.img")).unwrap()).unwrap();
    let mut told = OpenOptions::new().create(true).append(true).open(dir.join("told")).unwrap();
    let options = ServiceOptions {
        // An exchange takes about a third of a second.
        pace: PaceLimits::around(1_000_000),
        open_wait_ns: 10_000_000,
        busy_erase_ns: 5_000_000,
        ..ServiceOptions::default()
    };
    let levelling = Levelling::start(array.clone(), options).unwrap();
    let stores: Vec<VssdBlocks> =
        array.list().iter().map(|info| array.store(info.id).unwrap()).collect();
    let mut rng = fastrand::Rng::with_seed(setting("LARDER_LEVELLING_SEED", 1));
    loop {
        if levelling.report().unwrap().exchange.is_none() {
            let [a, b] = [rng.u32(..4), rng.u32(..4)].map(ChannelIndex);
            let _ = levelling.exchange(0, a, b);
        }
        let store = &stores[rng.usize(..stores.len())];
        let listed = store.list();
        let open = listed.iter().find(|state| state.written_bytes < store.info().block_bytes);
        let block = match open.map(|state| (state.block, state.written_bytes)) {
            Some(open) => open,
            None if listed.len() < 14 => (store.alloc(Stream::DEFAULT, 0).wait().unwrap(), 0),
            None => {
                let block = listed[rng.usize(..listed.len())].block;
                Told::Freeing(block).write(&mut told);
                store.free(block).wait().unwrap();
                Told::Freed(block).write(&mut told);
                continue;
            }
        };
        let (block, begin) = (block.0, block.1 / PAGE as u64);
        let left = store.info().block_bytes / PAGE as u64 - begin;
        let end = begin + rng.u64(1..=left.min(7));
        append(store, block, begin..end);
        Told::Written(block, end * PAGE as u64).write(&mut told);
    }
}

/// Ends the victim with the test.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn a_kill_during_an_exchange_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.img");
    let config = ImageConfig { identity: *b"an image of test", drives: 1, drive: drive() };
    let array = VssdArray::format_image(ImageFile::create(&path).unwrap(), config, RATES).unwrap();
    for _ in 0..3 {
        array.alloc(request(Isolation::Channel, 1)).unwrap();
    }
    drop(array);
    let seed = setting("LARDER_LEVELLING_SEED", 1);
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut during, mut kills, mut checked) = (0, 0, 0);
    while during < setting("LARDER_LEVELLING_KILLS", 6) {
        let told = directory.path().join("told");
        let before = std::fs::metadata(&told).map_or(0, |metadata| metadata.len());
        let mut victim = Command::new(std::env::current_exe().unwrap());
        victim.args([VICTIM, "--exact"]).env(VICTIM_DIR, directory.path());
        victim.env("LARDER_LEVELLING_SEED", (seed + kills).to_string());
        victim.stdout(Stdio::null());
        let mut victim = Victim(victim.spawn().unwrap());
        let begin = Instant::now();
        while std::fs::metadata(&told).map_or(0, |metadata| metadata.len()) < before + 240 {
            assert!(begin.elapsed() < PATIENCE && victim.0.try_wait().unwrap().is_none());
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(rng.u64(..60_000)));
        drop(victim);
        kills += 1;
        let (array, _) = VssdArray::open_image(ImageFile::open(&path).unwrap()).unwrap();
        during += u64::from(array.look(|array| array.swap_under_way().is_some()).unwrap());
        checked += judge(&array, &told);
        assert!(kills < 1000, "{during} of {kills} kills came during an exchange");
    }
    println!("{kills} kills, {during} during an exchange, {checked} blocks compared");
}

/// Compares all blocks with what the victim has told. Returns their number.
fn judge(array: &VssdArray, told: &Path) -> u64 {
    let mut written: BTreeMap<BlockId, u64> = BTreeMap::new();
    // Blocks whose end is unknown, because their victim was killed while it freed them.
    let (mut freeing, mut freed) = (BTreeSet::new(), BTreeSet::new());
    for record in std::fs::read(told).unwrap().chunks_exact(24) {
        match Told::read(record) {
            Told::Written(block, end) => {
                written.insert(block, end);
                freeing.remove(&block);
            }
            Told::Freeing(block) => {
                freeing.insert(block);
            }
            Told::Freed(block) => {
                written.remove(&block);
                freed.insert(block);
            }
        }
    }
    let mut blocks = 0;
    for info in array.list() {
        let store = array.store(info.id).unwrap();
        for state in store.list() {
            assert!(!freed.contains(&state.block), "{state:?} was freed");
            check(&store, state.block, state.written_bytes);
            if let Some(end) = written.remove(&state.block) {
                assert!(state.written_bytes >= end, "{state:?} was acknowledged up to {end}");
            }
            blocks += 1;
        }
    }
    written.retain(|block, _| !freeing.contains(block));
    assert!(written.is_empty(), "{written:?} are gone");
    let verified = array.verify().unwrap();
    assert!(verified.wrong.is_empty(), "{:?}", verified.wrong);
    blocks
}
