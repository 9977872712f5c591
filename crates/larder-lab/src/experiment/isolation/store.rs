//! A tenant that keeps objects in a log on its vSSD, overwrites them, and cleans the log.

use std::collections::BTreeMap;

use larder_ssd::timed::Nanoseconds;
use larder_vssd::timed::TimedVssds;
use larder_vssd::{LogicalBlock, MemoryImages, Pages, VssdId};

use super::failed;
use crate::Error;

/// Share of live objects in the blocks, without the head block and those that cleaning needs.
const LIVE: f64 = 0.6;
/// The store cleans while fewer blocks than this are free.
const FREE_BLOCKS: usize = 3;
/// Live objects moved with each write: enough for blocks of which three quarters are live.
const MOVED_WITH_EACH: usize = 3;
/// How often everything is overwritten before the measurement.
const ROUNDS: usize = 2;
/// The token of requests that no tenant waits for.
pub(super) const UNAWAITED: u64 = 0;

/// The place of an object: a block, and the first page.
type Place = (LogicalBlock, u64);

/// A log of objects of one size.
#[derive(Debug)]
pub(super) struct ObjectStore {
    vssd: VssdId,
    object_pages: u32,
    block_pages: u64,
    /// Largest number of blocks.
    limit: usize,
    places: Vec<Place>,
    /// Object numbers in each block, in the order of their writes.
    blocks: BTreeMap<LogicalBlock, Vec<usize>>,
    /// Live objects in each block.
    live: BTreeMap<LogicalBlock, usize>,
    head: Option<(LogicalBlock, u64)>,
    /// The block being cleaned, and the position of the cleaner in it.
    victim: Option<(LogicalBlock, usize)>,
}

/// An operation of the store on its vSSD.
enum Op {
    Read(Place),
    Append(Place),
    Free(LogicalBlock),
}

impl ObjectStore {
    /// A store that has been overwritten a few times, in no simulated time.
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
    pub(super) fn new(
        timed: &mut TimedVssds<MemoryImages>,
        vssd: VssdId,
        object_pages: u32,
        rng: &mut fastrand::Rng,
    ) -> Result<Self, Error> {
        let info = timed.array().info(vssd).map_err(failed)?;
        let (block_pages, limit) = (info.block_pages, info.blocks as usize);
        let room = limit.saturating_sub(FREE_BLOCKS) as u64 * block_pages / u64::from(object_pages);
        let objects = (room as f64 * LIVE) as usize;
        let mut store = Self {
            vssd,
            object_pages,
            block_pages,
            limit,
            places: Vec::with_capacity(objects),
            blocks: BTreeMap::new(),
            live: BTreeMap::new(),
            head: None,
            victim: None,
        };
        let writes = (0..objects).chain((0..ROUNDS * objects).map(|_| rng.usize(..objects)));
        for object in writes {
            for op in store.overwrite(timed, object)? {
                store.now(timed, &op)?;
            }
        }
        Ok(store)
    }

    /// Reads an object or overwrites one at `now`, in turn. The completion carries `token`.
    pub(super) fn ask(
        &mut self,
        timed: &mut TimedVssds<MemoryImages>,
        now: Nanoseconds,
        rng: &mut fastrand::Rng,
        token: u64,
    ) -> Result<(), Error> {
        let object = rng.usize(..self.places.len());
        if rng.bool() {
            return self.begin(timed, now, &Op::Read(self.places[object]), token);
        }
        let ops = self.overwrite(timed, object)?;
        let last = ops.iter().rposition(|op| matches!(op, Op::Append(_)));
        for (number, op) in ops.iter().enumerate() {
            let token = if Some(number) == last { token } else { UNAWAITED };
            self.begin(timed, now, op, token)?;
        }
        Ok(())
    }

    fn begin(
        &self,
        timed: &mut TimedVssds<MemoryImages>,
        now: Nanoseconds,
        op: &Op,
        token: u64,
    ) -> Result<(), Error> {
        let pages = self.object_pages;
        match *op {
            Op::Read((block, at)) => timed.read(now, self.vssd, block, at, pages.into(), token),
            Op::Append((block, at)) => {
                timed.append(now, self.vssd, block, at, Pages::Count(pages), token)
            }
            Op::Free(block) => timed.free(now, self.vssd, block),
        }
        .map_err(failed)
    }

    /// Executes an operation without taking time.
    fn now(&self, timed: &mut TimedVssds<MemoryImages>, op: &Op) -> Result<(), Error> {
        let array = timed.array_mut();
        match *op {
            Op::Read(_) => Ok(()),
            Op::Append((block, at)) => {
                array.append(self.vssd, block, at, Pages::Count(self.object_pages))
            }
            Op::Free(block) => array.free_block(self.vssd, block),
        }
        .map_err(failed)
    }

    /// The operations of an overwrite of `object`: moves by the cleaner, and then the write itself.
    fn overwrite(
        &mut self,
        timed: &mut TimedVssds<MemoryImages>,
        object: usize,
    ) -> Result<Vec<Op>, Error> {
        let mut ops = Vec::new();
        if self.victim.is_some() || self.limit - self.blocks.len() < FREE_BLOCKS {
            self.clean(timed, &mut ops)?;
        }
        let place = self.place(timed, object)?;
        ops.push(Op::Append(place));
        Ok(ops)
    }

    /// Moves some live objects of the victim block. A block without live objects is freed.
    fn clean(
        &mut self,
        timed: &mut TimedVssds<MemoryImages>,
        ops: &mut Vec<Op>,
    ) -> Result<(), Error> {
        let head = self.head.map(|(block, _)| block);
        let full = || self.live.iter().filter(|(block, _)| Some(**block) != head);
        let emptiest = || full().min_by_key(|(_, live)| **live).map(|(block, _)| (*block, 0));
        let Some((victim, mut looked)) = self.victim.or_else(emptiest) else { return Ok(()) };
        let mut moved = 0;
        while moved < MOVED_WITH_EACH
            && let Some(&object) = self.blocks[&victim].get(looked)
        {
            let at = looked as u64 * u64::from(self.object_pages);
            looked += 1;
            if self.places[object] == (victim, at) {
                ops.push(Op::Read((victim, at)));
                ops.push(Op::Append(self.place(timed, object)?));
                moved += 1;
            }
        }
        self.victim = Some((victim, looked));
        if looked == self.blocks[&victim].len() {
            self.blocks.remove(&victim);
            self.live.remove(&victim);
            self.victim = None;
            ops.push(Op::Free(victim));
        }
        Ok(())
    }

    /// Returns a place at the head of the log and moves `object` there.
    fn place(
        &mut self,
        timed: &mut TimedVssds<MemoryImages>,
        object: usize,
    ) -> Result<Place, Error> {
        let (block, at) = match self.head {
            Some(head) => head,
            None => (timed.array_mut().alloc_block(self.vssd, 0).map_err(failed)?, 0),
        };
        if let Some(&(before, _)) = self.places.get(object) {
            *self.live.entry(before).or_default() -= 1;
            self.places[object] = (block, at);
        } else {
            self.places.push((block, at));
        }
        self.blocks.entry(block).or_default().push(object);
        *self.live.entry(block).or_default() += 1;
        let end = at + u64::from(self.object_pages);
        self.head = (end < self.block_pages).then_some((block, end));
        Ok((block, at))
    }
}
