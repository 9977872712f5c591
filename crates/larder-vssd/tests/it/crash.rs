//! Power loss at thousands of points: during allocations, appends, frees, swaps, moves, writes of the catalogue, and
//! the openings after that. Acknowledged data is present, and no other data, especially not of another tenant.
//!
//! `LARDER_CRASH_POINTS` is the number of power losses (10,000), `LARDER_CRASH_SEED` the first seed.

use std::collections::{BTreeMap, BTreeSet};

use larder_ssd::nand::{BlockIndex, ChannelIndex, DieIndex, Endurance};
use larder_ssd::raw::{RawConfig, RawSsd};
use larder_ssd::{Error, ErrorKind};
use larder_vssd::{
    Copied, Isolation, LogicalBlock, OpenParts, Pages, Request, Swap, VssdId, Vssds, channel_pairs,
};

use super::rig::{self, BLOCK_BYTES, GEOMETRY, IDENTITY, PowerImages, RATES, STRIPE};

const DRIVES: usize = 2;
/// Power losses in the life of one array.
const POINTS_A_LIFE: u64 = 250;

/// The expected state of a block.
#[derive(Debug, Clone, Default, PartialEq)]
struct Block {
    tag: u64,
    words: Vec<u64>,
}

/// The operation that the power loss interrupted: it is done or not; an append may be done in part.
#[derive(Debug, Clone, PartialEq)]
enum Pending {
    Nothing,
    Vssd,
    Destroy(VssdId),
    Alloc(VssdId, u64),
    Append(LogicalBlock, Vec<u64>),
    Free(LogicalBlock),
}

#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
struct Tally {
    points: u64,
    appends: u64,
    swaps: u64,
    moved: u64,
    abandoned: u64,
    levelled: u64,
    torn_appends: u64,
    in_openings: u64,
    in_images: u64,
    read_only: u64,
    grown: u64,
}

struct World {
    array: Option<Vssds<PowerImages>>,
    rng: fastrand::Rng,
    tenants: BTreeMap<VssdId, BTreeMap<LogicalBlock, Block>>,
    /// Used numbers, to check that none is reused.
    used: BTreeSet<LogicalBlock>,
    pending: Pending,
    /// Last seen erases, by drive and block.
    erases: Vec<Vec<u32>>,
    next_word: u64,
    tally: Tally,
}

type Outcome = Result<(), Error>;

fn drive(rng: &mut fastrand::Rng) -> RawSsd {
    let block = |rng: &mut fastrand::Rng| rng.u32(..GEOMETRY.blocks());
    let failures = (0..rng.usize(..5)).map(|_| (BlockIndex(block(rng)), rng.u32(..6))).collect();
    let erases = (0..rng.usize(..5)).map(|_| (block(rng), rng.u32(1..8))).collect();
    let endurance = Endurance::Planned(erases);
    let config =
        RawConfig { program_failures: failures, endurance, level_threshold: 1, ..rig::config() };
    RawSsd::new(config).unwrap()
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let drives = (0..DRIVES).map(|_| drive(&mut rng)).collect();
        let images = PowerImages { seed, ..PowerImages::default() };
        let array = Vssds::create(drives, images, IDENTITY, RATES).unwrap();
        Self {
            array: Some(array),
            rng,
            tenants: BTreeMap::new(),
            used: BTreeSet::new(),
            pending: Pending::Nothing,
            erases: vec![vec![0; GEOMETRY.blocks() as usize]; DRIVES],
            next_word: 1,
            tally: Tally::default(),
        }
    }

    fn array(&mut self) -> &mut Vssds<PowerImages> {
        self.array.as_mut().unwrap()
    }

    fn any_tenant(&mut self) -> Option<VssdId> {
        let at = self.rng.usize(..self.tenants.len().max(1));
        self.tenants.keys().nth(at).copied()
    }

    fn any_block(&mut self) -> Option<LogicalBlock> {
        let id = self.any_tenant()?;
        let at = self.rng.usize(..self.tenants[&id].len().max(1));
        self.tenants[&id].keys().nth(at).copied()
    }

    fn step(&mut self) -> Outcome {
        match self.rng.u32(..100) {
            0..3 => self.make_vssd(),
            3..5 => self.destroy(),
            5..8 => self.grow(),
            8..17 => self.alloc(),
            17..62 => self.append(),
            62..72 => self.free(),
            72..76 => self.begin_swap(),
            76..95 => self.swap(),
            95 => self.abandon(),
            _ => self.level(),
        }
    }

    /// A vSSD grows, by units that may be too many or not those of a block.
    fn grow(&mut self) -> Outcome {
        let Some(id) = self.any_tenant() else { return Ok(()) };
        let (units, before) = (self.rng.u32(1..4), self.array().info(id)?.units);
        match self.array().grow(id, units) {
            Ok(()) => {
                assert_eq!(self.array().info(id)?.units, before + units);
                self.tally.grown += 1;
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::PowerLoss => Err(error),
            Err(_) => Ok(()),
        }
    }

    fn make_vssd(&mut self) -> Outcome {
        if self.tenants.len() >= 6 {
            return Ok(());
        }
        let isolation = match self.rng.u32(..4) {
            0 => Isolation::Channel,
            1 => Isolation::Die,
            2 => Isolation::Software { weight: self.rng.u32(1..5) },
            _ => Isolation::None,
        };
        let bytes = BLOCK_BYTES * self.rng.u64(1..60);
        self.pending = Pending::Vssd;
        match self.array().alloc(Request { isolation, mb_s: 0, bytes }) {
            Ok(id) => {
                assert!(self.tenants.insert(id, BTreeMap::new()).is_none());
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::NoResources => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn destroy(&mut self) -> Outcome {
        let Some(id) = self.any_tenant().filter(|_| self.rng.u32(..3) == 0) else { return Ok(()) };
        self.pending = Pending::Destroy(id);
        self.array().destroy(id)?;
        self.tenants.remove(&id);
        Ok(())
    }

    fn alloc(&mut self) -> Outcome {
        let Some(id) = self.any_tenant() else { return Ok(()) };
        let tag = self.rng.u64(..);
        self.pending = Pending::Alloc(id, tag);
        match self.array().alloc_block(id, tag) {
            Ok(block) => {
                assert!(self.used.insert(block), "{block:?} was used before");
                self.tenants.get_mut(&id).unwrap().insert(block, Block { tag, words: vec![] });
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::NoSpace => Ok(()),
            Err(error) => self.unless_read_only(error),
        }
    }

    /// Dies may become read-only: then they accept no more blocks and report so.
    fn unless_read_only(&mut self, error: Error) -> Outcome {
        if error.kind() == ErrorKind::ReadOnly {
            self.tally.read_only += 1;
            return Ok(());
        }
        Err(error)
    }

    fn append(&mut self) -> Outcome {
        let Some(block) = self.any_block() else { return Ok(()) };
        let id = block.vssd();
        let written = self.tenants[&id][&block].words.len() as u64;
        let room = self.array().info(id).unwrap().block_pages - written;
        let stripes = self.rng.u64(1..8).min(room / STRIPE);
        if stripes == 0 {
            return Ok(());
        }
        let words: Vec<u64> = (self.next_word..).take((stripes * STRIPE) as usize).collect();
        self.next_word += words.len() as u64;
        self.pending = Pending::Append(block, words.clone());
        let outcome = self.array().append(id, block, written, Pages::Words(&words));
        let done = match &outcome {
            Ok(()) => words.len() as u64,
            Err(error) if error.kind() == ErrorKind::ReadOnly => {
                self.array().written_pages(id, block).unwrap() - written
            }
            Err(_) => 0,
        };
        self.tally.appends += 1;
        let entry = self.tenants.get_mut(&id).unwrap().get_mut(&block).unwrap();
        entry.words.extend(&words[..done as usize]);
        outcome.or_else(|error| self.unless_read_only(error))
    }

    fn free(&mut self) -> Outcome {
        let Some(block) = self.any_block() else { return Ok(()) };
        self.pending = Pending::Free(block);
        self.array().free_block(block.vssd(), block)?;
        self.tenants.get_mut(&block.vssd()).unwrap().remove(&block);
        Ok(())
    }

    fn begin_swap(&mut self) -> Outcome {
        let drive = self.rng.u32(..DRIVES as u32);
        let (a, b) = (self.rng.u32(..4), self.rng.u32(..4));
        let pairs = if self.rng.bool() {
            let carried = Some((self.rng.u32(..2), self.rng.u32(..2)));
            channel_pairs(GEOMETRY.array, ChannelIndex(a), ChannelIndex(b), carried)
                .unwrap_or_default()
        } else {
            vec![(DieIndex(self.rng.u32(..8)), DieIndex(self.rng.u32(..8)))]
        };
        match self.array().swap_begin(drive, &pairs) {
            Err(error) if error.kind() == ErrorKind::PowerLoss => Err(error),
            Ok(()) => {
                self.tally.swaps += 1;
                Ok(())
            }
            // Dies that cannot be swapped, or are already being swapped.
            Err(_) => Ok(()),
        }
    }

    fn swap(&mut self) -> Outcome {
        match self.rng.u32(..4) {
            0 | 1 => return self.copy(),
            2 => {
                let olds = self.array().old_copies();
                let Some((drive, die)) = self.rng.choice(olds) else { return Ok(()) };
                return self.array().erase_old_copy(drive, die).map(|_| ());
            }
            _ => {}
        }
        match self.array().swap_step() {
            Ok(Swap::Moved { .. }) => {
                self.tally.moved += 1;
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::ReadOnly => self.array().swap_abandon(),
            Err(error) => Err(error),
        }
    }

    /// A part moves, and its old copy stays.
    fn copy(&mut self) -> Outcome {
        let open = if self.rng.bool() { OpenParts::Leave } else { OpenParts::Move };
        match self.array().swap_copy(open) {
            Ok(Copied::Part { .. }) => {
                self.tally.moved += 1;
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::ReadOnly => self.array().swap_abandon(),
            Err(error) => Err(error),
        }
    }

    fn abandon(&mut self) -> Outcome {
        let under_way = self.array().swap_under_way().is_some();
        self.tally.abandoned += u64::from(under_way);
        self.array().swap_abandon()
    }

    fn level(&mut self) -> Outcome {
        let (drive, die) = (self.rng.u32(..DRIVES as u32), DieIndex(self.rng.u32(..8)));
        match self.array().level_step(drive, die) {
            Ok(moved) => {
                self.tally.levelled += u64::from(moved);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::BadBlock => Ok(()),
            Err(error) => self.unless_read_only(error),
        }
    }

    /// Runs operations until the next power loss, then recovers.
    fn live_to_the_next_point(&mut self) {
        let cut = self.rng.u64(..60);
        if self.rng.u32(..4) == 0 {
            let images = self.array().images_mut();
            images.left = Some(cut / 4);
        } else {
            let drive = self.rng.u32(..DRIVES as u32);
            self.array().cut_power_after(drive, cut);
        }
        let error = loop {
            self.pending = Pending::Nothing;
            if let Err(error) = self.step() {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::PowerLoss, "{error}");
        self.tally.points += 1;
        self.tally.in_images += u64::from(error.to_string().contains("image"));
        self.open();
        self.settle();
        self.verify();
    }

    /// Opens the array; one time in three the power may fail during the opening, repeatedly.
    fn open(&mut self) {
        let (mut drives, mut images) = self.array.take().unwrap().into_parts();
        loop {
            drives.iter_mut().for_each(RawSsd::power_loss);
            (images.left, images.seed) = (None, self.rng.u64(..));
            // During a write of an image, or during an erase of blocks that the scan found.
            match self.rng.u32(..6) {
                0 => images.left = Some(self.rng.u64(..2)),
                1 => drives[self.rng.usize(..DRIVES)].cut_power_after(self.rng.u64(..3)),
                _ => {}
            }
            match Vssds::open(drives, images) {
                Ok((array, recovered)) => {
                    assert_eq!(recovered.cut_off, 0, "{recovered:?}");
                    self.array = Some(array);
                    self.array().images_mut().left = None;
                    return;
                }
                Err(failed) => {
                    assert_eq!(failed.error().kind(), ErrorKind::PowerLoss, "{failed}");
                    self.tally.in_openings += 1;
                    (drives, images) = failed.into_parts();
                }
            }
        }
    }

    /// Resolves the interrupted operation as done or not done, according to the array.
    fn settle(&mut self) {
        let array = self.array.as_ref().unwrap();
        match std::mem::replace(&mut self.pending, Pending::Nothing) {
            Pending::Nothing => {}
            Pending::Vssd => {
                let new = array.list().map(|info| info.id);
                let new: Vec<_> = new.filter(|id| !self.tenants.contains_key(id)).collect();
                assert!(new.len() <= 1);
                self.tenants.extend(new.into_iter().map(|id| (id, BTreeMap::new())));
            }
            Pending::Destroy(id) => {
                if array.info(id).is_err() {
                    self.tenants.remove(&id);
                }
            }
            Pending::Alloc(id, tag) => {
                let known = self.tenants.get_mut(&id).unwrap();
                let blocks = array.blocks(id).unwrap();
                if let Some(new) = blocks.iter().find(|state| !known.contains_key(&state.block)) {
                    assert_eq!((new.tag, new.written_pages), (tag, 0));
                    assert!(self.used.insert(new.block), "{new:?} was used before");
                    known.insert(new.block, Block { tag, words: vec![] });
                }
            }
            Pending::Append(block, words) => {
                let id = block.vssd();
                let entry = self.tenants.get_mut(&id).unwrap().get_mut(&block).unwrap();
                let there = array.written_pages(id, block).unwrap() as usize;
                let more = there.checked_sub(entry.words.len()).expect("what was acknowledged");
                assert!(more <= words.len() && more.is_multiple_of(STRIPE as usize));
                self.tally.torn_appends += u64::from(more > 0);
                entry.words.extend(&words[..more]);
            }
            Pending::Free(block) => {
                if array.written_pages(block.vssd(), block).is_err() {
                    self.tenants.get_mut(&block.vssd()).unwrap().remove(&block);
                }
            }
        }
    }

    fn verify(&mut self) {
        let array = self.array.as_mut().unwrap();
        array.audit().unwrap();
        let ids: Vec<VssdId> = array.list().map(|info| info.id).collect();
        assert_eq!(ids, self.tenants.keys().copied().collect::<Vec<_>>());
        for (&id, blocks) in &self.tenants {
            let mut found = BTreeMap::new();
            for state in array.blocks(id).unwrap() {
                array.read(id, state.block, 0, state.written_pages).unwrap();
                let word = |page| array.word(id, state.block, page).unwrap().unwrap();
                let words = (0..state.written_pages).map(word).collect();
                found.insert(state.block, Block { tag: state.tag, words });
            }
            assert_eq!(found, *blocks, "vSSD {id:?}");
            for other in self.tenants.keys().filter(|other| **other != id) {
                for block in blocks.keys().take(1) {
                    let refused = array.read(*other, *block, 0, 1).unwrap_err();
                    assert_eq!(refused.kind(), ErrorKind::NotOwned);
                }
            }
        }
        for (drive, erases) in self.erases.iter_mut().enumerate() {
            let raw = array.drive(drive as u32).unwrap();
            for (before, view) in erases.iter_mut().zip(raw.blocks()) {
                assert!(view.erases >= *before, "erases fell from {before}: {view:?}");
                *before = view.erases;
            }
        }
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

fn lives(points: u64, seed: u64) -> Tally {
    let mut sum = Tally::default();
    for life in 0..points.div_ceil(POINTS_A_LIFE) {
        let mut world = World::new(seed.wrapping_add(life));
        for _ in 0..POINTS_A_LIFE {
            world.live_to_the_next_point();
        }
        let Tally { points, appends, swaps, moved, abandoned, levelled, .. } = world.tally;
        sum.points += points;
        sum.appends += appends;
        sum.swaps += swaps;
        sum.moved += moved;
        sum.abandoned += abandoned;
        sum.levelled += levelled;
        sum.torn_appends += world.tally.torn_appends;
        sum.in_openings += world.tally.in_openings;
        sum.in_images += world.tally.in_images;
        sum.read_only += world.tally.read_only;
        sum.grown += world.tally.grown;
    }
    sum
}

#[test]
fn what_was_acknowledged_outlives_any_loss_of_power() {
    let points = setting("LARDER_CRASH_POINTS", 10_000);
    let tally = lives(points, setting("LARDER_CRASH_SEED", 1));
    println!("{tally:?}");
    assert!(tally.points >= points);
    // Check that enough operations of each kind were interrupted for the test to be meaningful.
    for often in [
        tally.appends,
        tally.swaps,
        tally.moved,
        tally.abandoned,
        tally.levelled,
        tally.torn_appends,
        tally.in_openings,
        tally.in_images,
        tally.read_only,
        tally.grown,
    ] {
        assert!(often >= points / 1000, "{tally:?}");
    }
}

#[test]
fn the_same_seed_is_the_same_life() {
    assert_eq!(lives(200, 7), lives(200, 7));
}
