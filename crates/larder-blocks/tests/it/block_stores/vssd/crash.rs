//! The power fails at thousands of points, in drives and in images: acknowledged data has its bytes.
//!
//! `LARDER_CRASH_POINTS` is the number of power failures (default 3,000), `LARDER_CRASH_SEED` the first seed.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use larder_blocks::{BlockId, BlockStore, Stream, VssdBlocks};
use larder_device::{Error, ErrorKind, IoBuffer};
use larder_ssd::nand::{ChannelIndex, DieIndex};
use larder_vssd::{Isolation, Swap, VssdId, channel_pairs};

use super::rig::{GEOMETRY, PAGE, Rig, request};

const DRIVES: u32 = 2;
const POINTS_A_LIFE: u64 = 100;

#[derive(Debug, Default)]
struct Known {
    tag: u64,
    bytes: Vec<u8>,
}

/// The operation that the power failure interrupted.
#[derive(Debug)]
enum Pending {
    Nothing,
    Alloc(VssdId, u64),
    Append(BlockId, Vec<u8>),
    Free(BlockId),
    Destroy(VssdId),
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Tally {
    points: u64,
    in_images: u64,
    in_openings: u64,
    in_part: u64,
    tails: u64,
    moved: u64,
    destroyed: u64,
}

struct World {
    rig: Rig,
    rng: fastrand::Rng,
    stores: BTreeMap<VssdId, VssdBlocks>,
    known: BTreeMap<VssdId, BTreeMap<BlockId, Known>>,
    used: BTreeSet<BlockId>,
    pending: Pending,
    tally: Tally,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            rig: Rig::new(DRIVES as usize),
            rng: fastrand::Rng::with_seed(seed),
            stores: BTreeMap::new(),
            known: BTreeMap::new(),
            used: BTreeSet::new(),
            pending: Pending::Nothing,
            tally: Tally::default(),
        }
    }

    /// Creates tenants while there is room.
    fn fill(&mut self) {
        while self.known.len() < 5 {
            let isolation = match self.rng.u32(..4) {
                0 => Isolation::Channel,
                1 => Isolation::Die,
                2 => Isolation::Software { weight: 2 },
                _ => Isolation::None,
            };
            let Ok(id) = self.rig.array.alloc(request(isolation, 1)) else { return };
            self.known.insert(id, BTreeMap::new());
            self.stores.insert(id, self.rig.array.store(id).unwrap());
        }
    }

    fn any(&mut self) -> (VssdId, Option<BlockId>) {
        let ids: Vec<VssdId> = self.known.keys().copied().collect();
        let id = self.rng.choice(ids).unwrap();
        let blocks: Vec<BlockId> = self.known[&id].keys().copied().collect();
        (id, self.rng.choice(blocks))
    }

    fn step(&mut self) -> Result<(), Error> {
        let (id, block) = self.any();
        match (self.rng.u32(..100), block) {
            (0..10, _) | (0..60, None) => self.alloc(id),
            (10..60, Some(block)) => self.append(id, block),
            (60..68, Some(block)) => self.free(id, block),
            (68, _) => self.destroy(id),
            (69..73, _) => self.begin_swap(),
            (73, _) => self.rig.array.swap_abandon(),
            (74..78, _) => {
                let die = DieIndex(self.rng.u32(..8));
                self.rig.array.level_step(self.rng.u32(..DRIVES), die).map(|_| ())
            }
            _ => {
                let step = self.rig.array.swap_step()?;
                self.tally.moved += u64::from(matches!(step, Swap::Moved { .. }));
                Ok(())
            }
        }
    }

    fn alloc(&mut self, id: VssdId) -> Result<(), Error> {
        let tag = self.rng.u64(..);
        self.pending = Pending::Alloc(id, tag);
        match self.stores[&id].alloc(Stream::DEFAULT, tag).wait() {
            Ok(block) => {
                assert!(self.used.insert(block), "{block} was used before");
                self.known.get_mut(&id).unwrap().insert(block, Known { tag, bytes: Vec::new() });
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::NoSpace => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn append(&mut self, id: VssdId, block: BlockId) -> Result<(), Error> {
        let bytes = &mut self.known.get_mut(&id).unwrap().get_mut(&block).unwrap().bytes;
        let block_bytes = usize::try_from(self.stores[&id].info().block_bytes).unwrap();
        let room = (block_bytes - bytes.len()) / PAGE;
        if room == 0 {
            return Ok(());
        }
        let mut buffer = IoBuffer::zeroed(self.rng.usize(1..=room.min(10)) * PAGE);
        self.rng.fill(buffer.as_mut_slice());
        let new = buffer.as_slice().to_vec();
        self.pending = Pending::Append(block, new.clone());
        let append = self.stores[&id].append(block, bytes.len() as u64, buffer).wait();
        append.map_err(|failure| failure.error)?;
        bytes.extend(new);
        Ok(())
    }

    fn free(&mut self, id: VssdId, block: BlockId) -> Result<(), Error> {
        self.pending = Pending::Free(block);
        self.stores[&id].free(block).wait().map_err(|failure| failure.error)?;
        self.known.get_mut(&id).unwrap().remove(&block);
        Ok(())
    }

    fn destroy(&mut self, id: VssdId) -> Result<(), Error> {
        self.pending = Pending::Destroy(id);
        self.stores.remove(&id);
        self.rig.array.destroy(id)?;
        self.known.remove(&id);
        self.tally.destroyed += 1;
        self.fill();
        Ok(())
    }

    fn begin_swap(&mut self) -> Result<(), Error> {
        let [a, b] = [self.rng.u32(..4), self.rng.u32(..4)].map(ChannelIndex);
        let Ok(pairs) = channel_pairs(GEOMETRY.array, a, b, None) else { return Ok(()) };
        match self.rig.array.swap_begin(self.rng.u32(..DRIVES), &pairs) {
            Err(error) if error.kind() == ErrorKind::Gone => Err(error),
            // It has begun, or another exchange is in progress.
            _ => Ok(()),
        }
    }

    fn live_to_the_next_point(&mut self) {
        self.fill();
        let cut = self.rng.u64(..40);
        if self.rng.u32(..4) == 0 {
            let mut images = self.rig.images.lock();
            (images.left, images.seed) = (Some(cut / 4), self.rng.u64(..));
        } else {
            self.rig.array.cut_power_after(self.rng.u32(..DRIVES), cut);
        }
        let error = loop {
            self.pending = Pending::Nothing;
            if let Err(error) = self.step() {
                break error;
            }
            // A tenant could not be created again: the power is gone.
            if self.known.is_empty() || self.stores.len() < self.known.len() {
                break Error::new(ErrorKind::Gone, "no tenant");
            }
        };
        assert_eq!(error.kind(), ErrorKind::Gone, "{error}");
        self.tally.points += 1;
        self.tally.in_images += u64::from(error.to_string().contains("image"));
        self.reopen();
        self.settle();
        self.judge();
    }

    /// One time in three the power also fails during the opening.
    fn reopen(&mut self) {
        self.stores.clear();
        loop {
            let mut images = self.rig.images.lock();
            (images.left, images.seed) = (None, self.rng.u64(..));
            match self.rng.u32(..6) {
                0 => images.left = Some(self.rng.u64(..2)),
                1 => {
                    drop(images);
                    // The drives are off now; the cut applies once they are on again.
                    let (drive, after) = (self.rng.u32(..DRIVES), self.rng.u64(..3));
                    self.rig.array.cut_power_after(drive, after);
                    images = self.rig.images.lock();
                }
                _ => {}
            }
            drop(images);
            match self.rig.array.power_cycle() {
                Ok(recovered) => {
                    assert_eq!(recovered.cut_off, 0, "{recovered:?}");
                    self.rig.images.lock().left = None;
                    return;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Gone, "{error}");
                    self.tally.in_openings += 1;
                }
            }
        }
    }

    /// Takes the interrupted operation as done or not done, depending on what the array reports.
    fn settle(&mut self) {
        let there: Vec<VssdId> = self.rig.array.list().iter().map(|info| info.id).collect();
        if let Pending::Destroy(id) = self.pending
            && !there.contains(&id)
        {
            self.known.remove(&id);
        }
        for id in there {
            // This also covers a vSSD whose creation the power failure interrupted.
            self.known.entry(id).or_default();
            self.stores.insert(id, self.rig.array.store(id).unwrap());
        }
        let listed: BTreeMap<BlockId, _> =
            self.stores.values().flat_map(|store| store.list()).map(|it| (it.block, it)).collect();
        match std::mem::replace(&mut self.pending, Pending::Nothing) {
            Pending::Nothing | Pending::Destroy(_) => {}
            Pending::Alloc(id, tag) => {
                let known = self.known.get_mut(&id).unwrap();
                for state in self.stores[&id].list() {
                    let Entry::Vacant(new) = known.entry(state.block) else { continue };
                    assert_eq!((state.tag, state.written_bytes), (tag, 0));
                    assert!(self.used.insert(state.block), "{state:?} was used before");
                    new.insert(Known { tag, bytes: Vec::new() });
                }
            }
            Pending::Append(block, new) => {
                let known = self.known.values_mut().find_map(|blocks| blocks.get_mut(&block));
                let bytes = &mut known.unwrap().bytes;
                let there = usize::try_from(listed[&block].written_bytes).unwrap();
                let more = there.checked_sub(bytes.len()).expect("what was acknowledged");
                assert!(more <= new.len(), "{more} of {}", new.len());
                self.tally.in_part += u64::from(more > 0 && more < new.len());
                bytes.extend(&new[..more]);
            }
            Pending::Free(block) => {
                if !listed.contains_key(&block) {
                    self.known.values_mut().for_each(|blocks| drop(blocks.remove(&block)));
                }
            }
        }
    }

    fn judge(&mut self) {
        assert!(self.stores.keys().eq(self.known.keys()), "{:?}", self.known.keys());
        for (id, store) in &self.stores {
            let listed = store.list();
            assert!(
                listed.iter().map(|state| &state.block).eq(self.known[id].keys()),
                "{listed:?}"
            );
            for state in listed {
                let known = &self.known[id][&state.block];
                assert_eq!((state.tag, state.written_bytes), (known.tag, known.bytes.len() as u64));
                if !known.bytes.is_empty() {
                    let buffer = IoBuffer::zeroed(known.bytes.len());
                    let read = store.read(state.block, 0, buffer).wait().unwrap();
                    assert!(read.as_slice() == known.bytes, "{state:?} has other bytes");
                }
                let stripe = 4 * PAGE as u64;
                self.tally.tails += u64::from(!state.written_bytes.is_multiple_of(stripe));
                for (_, other) in self.stores.iter().filter(|(other, _)| *other != id) {
                    let refused = other.read(state.block, 0, IoBuffer::zeroed(PAGE)).wait();
                    assert_eq!(refused.unwrap_err().error.kind(), ErrorKind::NotOpen);
                }
            }
        }
        assert_eq!(self.rig.array.verify().unwrap().wrong, Vec::<String>::new());
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

fn lives(points: u64, seed: u64) -> Tally {
    let mut sum = Tally::default();
    for life in 0..points.div_ceil(POINTS_A_LIFE) {
        let seed = seed + life;
        let lived = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            (0..POINTS_A_LIFE).for_each(|_| world.live_to_the_next_point());
            world.tally
        });
        let tally = lived.unwrap_or_else(|_| {
            panic!(
                "LARDER_CRASH_SEED={seed} LARDER_CRASH_POINTS={POINTS_A_LIFE} cargo test -p larder-blocks \
                 --test it block_stores::vssd::crash"
            )
        });
        sum.points += tally.points;
        sum.in_images += tally.in_images;
        sum.in_openings += tally.in_openings;
        sum.in_part += tally.in_part;
        sum.tails += tally.tails;
        sum.moved += tally.moved;
        sum.destroyed += tally.destroyed;
    }
    sum
}

#[test]
fn bytes_that_were_acknowledged_outlive_any_loss_of_power() {
    let points = setting("LARDER_CRASH_POINTS", 3000);
    let tally = lives(points, setting("LARDER_CRASH_SEED", 1));
    println!("{tally:?}");
    let Tally { in_images, in_openings, in_part, tails, moved, destroyed, .. } = tally;
    assert!(tally.points >= points);
    for often in [in_images, in_openings, in_part, tails, moved, destroyed] {
        assert!(often >= points / 100, "{tally:?}");
    }
}
