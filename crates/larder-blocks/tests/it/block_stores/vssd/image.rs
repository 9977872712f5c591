//! The model image: every prefix of the sequence of writes is an image of drives that lost power at that point. Damage
//! is repaired from the copy, or refused.
//!
//! `LARDER_IMAGE_SEEDS` is the number of runs to take apart (default 2), `LARDER_IMAGE_SEED` the first seed.

#![allow(clippy::cast_possible_truncation, reason = "images of tests are small")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use larder_blocks::vssd::{ImageFile, VssdArray, VssdBlocks};
use larder_blocks::{BlockId, BlockStore, Stream};
use larder_device::{Error, ErrorKind, IoBuffer};
use larder_ssd::nand::{ChannelIndex, DieArray, NandGeometry};
use larder_ssd::raw::RawConfig;
use larder_vssd::image::{ImageConfig, ImageIo};
use larder_vssd::{ImageFailed, Isolation, Swap, VssdId, channel_pairs};

use super::rig::{RATES, request};

const PAGE: usize = 512;
/// 4 channels of 2 dies of 8 blocks of 3 stripes of 4 pages.
const GEOMETRY: NandGeometry = NandGeometry {
    array: DieArray { channels: 4, dies_per_channel: 2 },
    planes: 1,
    bits: 2,
    blocks_per_die: 8,
    pages_per_block: 6,
    page_bytes: 1024,
    mapping_bytes: 512,
};

fn config() -> ImageConfig {
    let drive = RawConfig { spare_per_mille: 200, level_threshold: 2, ..RawConfig::new(GEOMETRY) };
    ImageConfig { identity: *b"an image of test", drives: 1, drive }
}

/// One recorded write.
#[derive(Debug, Clone)]
enum Write {
    Bytes(u64, Vec<u8>),
    Released(u64, u64),
}

#[derive(Debug, Default)]
struct Written {
    bytes: Vec<u8>,
    log: Vec<Write>,
}

/// An image in memory that records the writes in order.
#[derive(Debug, Clone, Default)]
struct Recording(Arc<Mutex<Written>>);

impl Recording {
    fn holding(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(Written { bytes, log: Vec::new() })))
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        self.0.lock().unwrap()
    }
}

fn apply(bytes: &mut [u8], write: &Write) {
    let range = |at: u64, length: usize| at as usize..at as usize + length;
    match write {
        Write::Bytes(at, new) => bytes[range(*at, new.len())].copy_from_slice(new),
        // The content of a released range is undefined.
        Write::Released(at, count) => bytes[range(*at, *count as usize)].fill(0xee),
    }
}

impl ImageIo for Recording {
    fn bytes(&mut self) -> Result<u64, ImageFailed> {
        Ok(self.lock().bytes.len() as u64)
    }

    fn set_bytes(&mut self, bytes: u64) -> Result<(), ImageFailed> {
        self.lock().bytes.resize(bytes as usize, 0);
        Ok(())
    }

    fn read_at(&mut self, at: u64, into: &mut [u8]) -> Result<(), ImageFailed> {
        let written = self.lock();
        let bytes = written.bytes.get(at as usize..at as usize + into.len());
        into.copy_from_slice(bytes.ok_or_else(|| ImageFailed("behind the end".to_owned()))?);
        Ok(())
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<(), ImageFailed> {
        let written = &mut *self.lock();
        let write = Write::Bytes(at, bytes.to_vec());
        apply(&mut written.bytes, &write);
        written.log.push(write);
        Ok(())
    }

    fn release(&mut self, at: u64, bytes: u64) -> Result<(), ImageFailed> {
        let written = &mut *self.lock();
        let write = Write::Released(at, bytes);
        apply(&mut written.bytes, &write);
        written.log.push(write);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), ImageFailed> {
        Ok(())
    }
}

/// The acknowledged state.
#[derive(Debug, Clone, Default, PartialEq)]
struct Shadow {
    vssds: BTreeSet<VssdId>,
    blocks: BTreeMap<BlockId, Arc<Vec<u8>>>,
}

struct Life {
    array: VssdArray,
    stores: BTreeMap<VssdId, VssdBlocks>,
    shadow: Shadow,
    rng: fastrand::Rng,
}

impl Life {
    fn step(&mut self) {
        let ids: Vec<VssdId> = self.stores.keys().copied().collect();
        let id = self.rng.choice(ids);
        let blocks: Vec<BlockId> = self.shadow.blocks.keys().copied().collect();
        match (self.rng.u32(..100), id, self.rng.choice(blocks)) {
            (0..4, ..) | (_, None, _) => self.make(),
            (4, Some(id), _) => self.destroy(id),
            (5..17, Some(id), _) | (_, Some(id), None) => self.alloc(id),
            (17..60, _, Some(block)) => self.append(block),
            (60..68, _, Some(block)) => {
                self.store_of(block).free(block).wait().unwrap();
                self.shadow.blocks.remove(&block);
            }
            (68..72, ..) => {
                let [a, b] = [self.rng.u32(..4), self.rng.u32(..4)].map(ChannelIndex);
                let pairs = channel_pairs(GEOMETRY.array, a, b, None);
                let _ = pairs.map(|pairs| self.array.swap_begin(0, &pairs));
            }
            (72, ..) => self.array.swap_abandon().unwrap(),
            (73..76, ..) => {
                let die = larder_ssd::nand::DieIndex(self.rng.u32(..8));
                self.array.level_step(0, die).unwrap();
            }
            _ => drop(self.array.swap_step().unwrap()),
        }
    }

    fn store_of(&self, block: BlockId) -> &VssdBlocks {
        let id = larder_vssd::LogicalBlock::from_number(block.number()).vssd();
        &self.stores[&id]
    }

    fn make(&mut self) {
        let kinds = [
            Isolation::Channel,
            Isolation::Die,
            Isolation::Software { weight: 1 },
            Isolation::None,
        ];
        let isolation = self.rng.choice(kinds).unwrap();
        if self.stores.len() < 4
            && let Ok(id) = self.array.alloc(request(isolation, 1))
        {
            self.stores.insert(id, self.array.store(id).unwrap());
            self.shadow.vssds.insert(id);
        }
    }

    fn destroy(&mut self, id: VssdId) {
        self.stores.remove(&id);
        self.array.destroy(id).unwrap();
        self.shadow.vssds.remove(&id);
        let of = |block: &BlockId| larder_vssd::LogicalBlock::from_number(block.number()).vssd();
        self.shadow.blocks.retain(|block, _| of(block) != id);
    }

    fn alloc(&mut self, id: VssdId) {
        if let Ok(block) = self.stores[&id].alloc(Stream::DEFAULT, 9).wait() {
            self.shadow.blocks.insert(block, Arc::default());
        }
    }

    fn append(&mut self, block: BlockId) {
        let bytes = Arc::clone(&self.shadow.blocks[&block]);
        let room = self.store_of(block).info().block_bytes as usize - bytes.len();
        if room == 0 {
            return;
        }
        let mut buffer = IoBuffer::zeroed(self.rng.usize(1..=(room / PAGE).min(9)) * PAGE);
        self.rng.fill(buffer.as_mut_slice());
        let all = [&bytes[..], buffer.as_slice()].concat();
        self.store_of(block).append(block, bytes.len() as u64, buffer).wait().unwrap();
        self.shadow.blocks.insert(block, Arc::new(all));
    }
}

/// The content of an image.
fn found(array: &VssdArray) -> Shadow {
    let mut shadow = Shadow::default();
    for info in array.list() {
        let store = array.store(info.id).unwrap();
        for state in store.list() {
            let bytes = match state.written_bytes as usize {
                0 => Vec::new(),
                count => {
                    let read = store.read(state.block, 0, IoBuffer::zeroed(count)).wait().unwrap();
                    read.as_slice().to_vec()
                }
            };
            shadow.blocks.insert(state.block, Arc::new(bytes));
        }
        shadow.vssds.insert(info.id);
    }
    shadow
}

/// Whether `found` is a possible state between two acknowledgements.
fn is_between(found: &Shadow, before: &Shadow, after: &Shadow) -> bool {
    let vssds = found.vssds == before.vssds || found.vssds == after.vssds;
    let of_vssd = |block: &BlockId| {
        let id = larder_vssd::LogicalBlock::from_number(block.number()).vssd();
        found.vssds.contains(&id)
    };
    let kept = before.blocks.iter().filter(|(block, _)| of_vssd(block)).all(|(block, bytes)| {
        match (found.blocks.get(block), after.blocks.get(block)) {
            (Some(found), Some(after)) => after.starts_with(found) && found.len() >= bytes.len(),
            (Some(found), None) => found == bytes,
            // It was being freed.
            (None, after) => after.is_none(),
        }
    });
    let known = |block: &BlockId, bytes: &Arc<Vec<u8>>| {
        before.blocks.contains_key(block)
            || after.blocks.get(block).is_some_and(|_| bytes.is_empty())
    };
    vssds && kept && found.blocks.iter().all(|(block, bytes)| known(block, bytes))
}

fn check(bytes: Vec<u8>, before: &Shadow, after: &Shadow, at: &str) {
    let opened = VssdArray::open_image(Recording::holding(bytes));
    let (array, recovered) = opened.unwrap_or_else(|error| panic!("{at}: {error}"));
    assert_eq!(recovered.cut_off, 0, "{at}");
    assert_eq!(array.verify().unwrap().wrong, Vec::<String>::new(), "{at}");
    let found = found(&array);
    assert!(is_between(&found, before, after), "{at}: {found:?}\nof {before:?}\nto {after:?}");
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

#[test]
fn every_beginning_of_what_was_written_is_an_image() {
    let (first, seeds) = (setting("LARDER_IMAGE_SEED", 1), setting("LARDER_IMAGE_SEEDS", 2));
    let (mut whole, mut torn) = (0, 0);
    for seed in first..first + seeds {
        let io = Recording::default();
        let array = VssdArray::format_image(io.clone(), config(), RATES).unwrap();
        let mut bytes = io.lock().bytes.clone();
        io.lock().log.clear();
        let rng = fastrand::Rng::with_seed(seed);
        let mut life = Life { array, stores: BTreeMap::new(), shadow: Shadow::default(), rng };
        let mut acknowledged = vec![(0, Shadow::default())];
        for _ in 0..500 {
            life.step();
            acknowledged.push((io.lock().log.len(), life.shadow.clone()));
        }
        let log = io.lock().log.clone();
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut next = 0;
        for count in 0..=log.len() {
            while next + 1 < acknowledged.len() && acknowledged[next + 1].0 <= count {
                next += 1;
            }
            let before = &acknowledged[next].1;
            let after = &acknowledged[(next + 1).min(acknowledged.len() - 1)].1;
            let at = format!("LARDER_IMAGE_SEED={seed}, {count} writes of {}", log.len());
            check(bytes.clone(), before, after, &at);
            whole += 1;
            let Some(write) = log.get(count) else { break };
            if let (Write::Bytes(to, new), true) = (write, count % 4 == 0) {
                let mut cut = bytes.clone();
                let part = new[..rng.usize(..new.len())].to_vec();
                apply(&mut cut, &Write::Bytes(*to, part));
                check(cut, before, after, &format!("{at}, and a part of the next"));
                torn += 1;
            }
            apply(&mut bytes, write);
        }
    }
    println!("{whole} beginnings, {torn} with a part of a write");
    assert!(whole > 1000 && torn > 250);
}

/// An image with some blocks, one of them with a tail: its bytes and its expected content.
fn example() -> (Vec<u8>, Shadow) {
    let io = Recording::default();
    let array = VssdArray::format_image(io.clone(), config(), RATES).unwrap();
    let rng = fastrand::Rng::with_seed(5);
    let mut life = Life { array, stores: BTreeMap::new(), shadow: Shadow::default(), rng };
    (0..200).for_each(|_| life.step());
    let block = loop {
        let id = *life.stores.keys().next().unwrap();
        if let Ok(block) = life.stores[&id].alloc(Stream::DEFAULT, 1).wait() {
            life.shadow.blocks.insert(block, Arc::default());
            break block;
        }
        let block = *life.shadow.blocks.keys().next().unwrap();
        life.store_of(block).free(block).wait().unwrap();
        life.shadow.blocks.remove(&block);
    };
    life.store_of(block).append(block, 0, IoBuffer::zeroed(3 * PAGE)).wait().unwrap();
    life.shadow.blocks.insert(block, Arc::new(vec![0; 3 * PAGE]));
    let bytes = io.lock().bytes.clone();
    (bytes, life.shadow)
}

fn refused(bytes: &[u8]) -> Error {
    let io = Recording::holding(bytes.to_vec());
    let error = VssdArray::open_image(io.clone()).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Setup, "{error}");
    assert!(io.lock().log.is_empty(), "nothing is written: {error}");
    error
}

#[test]
fn of_what_is_there_twice_the_copy_serves_and_both_gone_are_refused() {
    let (good, shadow) = example();
    let layout =
        *larder_vssd::image::ModelImage::open(Recording::holding(good.clone())).unwrap().0.layout();
    let [headers, catalogues, records, tails] = layout.copies();
    for (what, [one, other], offset, says) in [
        ("header", headers, 40, "checksum"),
        ("catalogue", catalogues, 60, "catalogue"),
        ("record", records, 48 * 3 + 5, "block 3 of drive 0"),
        ("tail", tails, 9, "protected buffer"),
    ] {
        for damaged in [one, other] {
            let mut bytes = good.clone();
            bytes[(damaged + offset) as usize] ^= 1;
            check(bytes.clone(), &shadow, &shadow, what);
            // The opening has repaired it, so now the other copy may be damaged.
            let io = Recording::holding(bytes);
            drop(VssdArray::open_image(io.clone()).unwrap());
            let mut bytes = io.lock().bytes.clone();
            let second = one + other - damaged;
            bytes[(second + offset) as usize] ^= 1;
            check(bytes, &shadow, &shadow, what);
        }
        let mut bytes = good.clone();
        bytes[(one + offset) as usize] ^= 1;
        bytes[(other + offset) as usize] ^= 1;
        let error = refused(&bytes);
        assert!(error.to_string().contains(says), "{what}: {error}");
    }
}

#[test]
fn what_is_no_image_says_why() {
    let (good, _) = example();
    for length in [0, 100, 8191, 8192, good.len() / 2, good.len() - 1] {
        let error = refused(&good[..length]).to_string();
        let says = if length < 8192 { "no model image" } else { "cut short" };
        assert!(error.contains(says), "{length}: {error}");
    }
    let mut newer = good.clone();
    (newer[8], newer[4096 + 8]) = (3, 3);
    assert!(refused(&newer).to_string().contains("version 3, and this program knows 2"));
    assert!(refused(&vec![7; good.len()]).to_string().contains("no model image"));
}

/// Each page has a checksum of its own: damage makes a read fail, and affects no other page.
#[test]
fn damaged_pages_are_found() {
    let (good, _) = example();
    let layout =
        *larder_vssd::image::ModelImage::open(Recording::holding(good.clone())).unwrap().0.layout();
    let at = (layout.bytes - layout.slots * layout.slot_bytes) as usize;
    let mut bytes = good;
    bytes[at + 17] ^= 1;
    let (array, _) = VssdArray::open_image(Recording::holding(bytes)).unwrap();
    let wrong = array.verify().unwrap().wrong;
    assert_eq!(wrong.len(), 1, "{wrong:?}");
}

#[test]
fn a_file_is_locked_and_goes_on_where_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.img");
    let missing = ImageFile::open(&path).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Setup, "{missing}");
    let array =
        VssdArray::format_image(ImageFile::create(&path).unwrap(), config(), RATES).unwrap();
    let used = ImageFile::open(&path).unwrap_err();
    assert_eq!(used.kind(), ErrorKind::InUse, "{used}");
    assert!(ImageFile::create(&path).unwrap_err().to_string().contains("it is there"));
    let id = array.alloc(request(Isolation::Channel, 1)).unwrap();
    let store = array.store(id).unwrap();
    let mut shadow = Vec::new();
    for number in 0..4 {
        let block = store.alloc(Stream::DEFAULT, number).wait().unwrap();
        let mut buffer = IoBuffer::zeroed(11 * PAGE);
        buffer.as_mut_slice().fill(number as u8 + 1);
        store.append(block, 0, buffer).wait().unwrap();
        shadow.push(block);
    }
    let pairs = channel_pairs(GEOMETRY.array, ChannelIndex(0), ChannelIndex(1), None).unwrap();
    array.swap_begin(0, &pairs).unwrap();
    assert!(matches!(array.swap_step().unwrap(), Swap::Moved { .. }));
    drop(store);
    drop(array);
    let (array, recovered) = VssdArray::open_image(ImageFile::open(&path).unwrap()).unwrap();
    assert_eq!((recovered.vssds, recovered.blocks), (1, 4));
    let mut moved = 0;
    while array.swap_step().unwrap() != Swap::Done {
        moved += 1;
    }
    assert!(moved > 0, "what was begun goes on");
    let store = array.store(id).unwrap();
    for (number, block) in (1..).zip(shadow) {
        let read = store.read(block, 0, IoBuffer::zeroed(11 * PAGE)).wait().unwrap();
        assert!(read.as_slice() == vec![number; 11 * PAGE]);
    }
    array.sync().unwrap();
}
