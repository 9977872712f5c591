//! What has died on flash, in a log on flash: so that a crash brings nothing back.
//!
//! A value is replaced or deleted in DRAM long before its bytes on flash are. After a crash DRAM is
//! gone and the bytes are still there. So before a set or a delete of a key that flash holds
//! answers, a tombstone goes to this log; whoever opens the device after a crash reads it and
//! leaves out what is dead.
//!
//! 1. A tombstone is durable before the operation that needs it answers. Operations that come
//!    together share a write: the block that is being filled is rewritten in place until it is full.
//! 2. What flash "does not hold" can be set without a tombstone. So nothing is forgotten in DRAM (a
//!    record, a region, a key of a bucket) before flash cannot bring it back any more: before its
//!    tombstone is durable, or its bytes are overwritten.
//! 3. The log is a ring. The oldest block gives way when the ring is full; what is still needed of
//!    it is copied to the block that is opened next, before anything new goes there. One block's
//!    needs always fit one block, and the copies are durable before the ring comes round to the
//!    place of their origin: blocks are opened in order, each when the one before is durable. A
//!    tombstone is needed until the region that holds the record is filled anew, or the bucket or table that
//!    holds the key is written without it, or a later tombstone of the key is durable. A ring that is full of what is
//!    needed is given up.
//! 4. A log that cannot be written is worse than none. If the superblock can be told to believe
//!    nothing after a crash, the cache goes on without; if not, the operation fails. What would have
//!    been logged is kept as long as there is room for it: after a while all of it is written, and the
//!    log is believed again (`trust`).
//! 5. Each block says in which second it was written. Time goes on from there after a crash. So what
//!    had expired by then needs no tombstone to be forgotten; what expired later is kept in mind
//!    until flash knows the time (`Tombstones::is_over`).
//!
//! "Durable" means that the device has said that the write is done: it survives the end of the
//! process ([`Durability::Process`]): of a file the open block is in the kernel's page cache, and nobody waits for a
//! disk. What it loses together with its power is a matter of [`Device::boot`]: then nothing is believed.
//!
//! Where the cache is to outlive a loss of power, "durable" means that ([`Durability::Power`]), wherever the rules
//! say it. What may be lost is any set of sectors of 512 bytes of writes that were neither durable nor flushed, and
//! of a write under way; so the rules need:
//!
//! - *Rule 1.* The open block is rewritten in place, and a rewriting may be torn. Each of its sectors is whole by
//!   itself and only grows (`block`), so nothing is lost that was durable before. Of a block whose first write was torn
//!   nobody was told anything: it is left out, and written anew by the next opening (`replay`).
//! - *Rule 2, overwritten.* Bytes are overwritten when that is durable: the write of a bucket, and of a region's
//!   footer. In between, the old bucket may come back with a key that the new one has dropped, whose next set has no
//!   tombstone; and a tombstone that ended with that write would be missed. A region is forgotten by its tombstone
//!   alone, before its first piece is written; its footer takes the tombstone's place (rule 3) when it is durable.
//!   Pieces in front need no order: each record says whose it is.
//! - *Rule 2, is not there.* What an opening finds may be in a volatile cache only. Before it is built upon, all
//!   of it is flushed (`flash::recovery`).
//! - *Rule 4.* The label is written with a flush after each copy.
//!
//! [`Durability::Process`]: larder_device::Durability::Process
//! [`Durability::Power`]: larder_device::Durability::Power

mod block;
mod commit;
mod dead;
mod epoch;
mod fillings;
mod keys;
mod lost;
mod number;
mod place;
mod replay;
mod sealing;
mod trust;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_device::label::Labeller;
use larder_device::{Device, IoFuture};

use crate::stats::Counters;
use crate::superblock::Superblock;
use crate::time::CacheClock;
use crate::turns::Turns;
use block::{BLOCK_BYTES, ENTRIES_MAX, Tombstone};
use dead::DeadByPlace;
pub(crate) use dead::KeysIn;
use fillings::Fillings;
pub(crate) use lost::{Firsts, Lost};
use number::BlockNumber;
use place::SPARE_BLOCKS;
pub(crate) use place::TombstonesPlace;
pub(crate) use replay::{Inheritance, erase, fuzz_log, replay};
use sealing::{FullBlock, Sealing};
use trust::Retry;

/// Clocks end here: buckets keep 48 bits of them, and half of those leave room to count on.
pub(crate) const CLOCK_MAX: u64 = 1 << 47;
/// Part of the log's room: above it tombstones of records are worked off, and above all of it the log is given
/// up.
const RECORDS_PART: u64 = 2;
/// The same for hashes whose large objects are lost. From here on all are waited for that make them
/// needless; from twice as many on, until none is left.
const LOST_PART: u64 = 16;
/// Twice as far as anybody counts fits the six bytes of a stamp.
const _: () = assert!(2 * CLOCK_MAX <= 1 << 48);

/// Whether what needs tombstones of a kind must go on before more come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pressure {
    None,
    Some,
    High,
}

/// A tombstone on its way: everything up to this position must be durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[must_use]
pub(crate) struct Receipt(u64);

pub(crate) struct Tombstones {
    device: Arc<dyn Device>,
    place: TombstonesPlace,
    /// What the device's superblock says, but for its epochs: see [`State::epochs`].
    superblock: Superblock,
    labeller: Labeller,
    fillings: Fillings,
    lost: Lost,
    state: Mutex<State>,
    turns: Turns<Turn>,
    clock: Arc<CacheClock>,
    counters: Arc<Counters>,
}

struct State {
    dead: DeadByPlace,
    /// Index of the next key's tombstone.
    clock: u64,
    /// New tombstones that no block has taken yet.
    waiting: VecDeque<Tombstone>,
    /// Positions of new tombstones: below `taken` they are in a block, below `durable` on flash.
    taken: u64,
    durable: u64,
    /// Places whose tombstones are on their way, with their positions: a caller that gave up and
    /// comes again goes on waiting for the same one.
    on_their_way: HashMap<Tombstone, u64>,
    /// The open block, and what is in it: copies of what gave way, then new tombstones.
    number: BlockNumber,
    open: Vec<Tombstone>,
    /// So many of `open` are on flash.
    open_durable: usize,
    /// The first block that counts. Its place is not written while it does.
    oldest: BlockNumber,
    /// Those from there on that the device did not take. What was in them is logged anew; until they have given way
    /// a crash would find a log that lacks something, and believe nothing.
    not_sealed: BTreeSet<BlockNumber>,
    /// Blocks in a row that copies have filled.
    blocks_of_copies: u64,
    /// The latest second that flash knows of.
    second: u32,
    trust: Trust,
    said: Said,
    retry: Retry,
    /// The current and the oldest one, which a clear changes.
    epochs: (u64, u64),
}

/// What a crash now would leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// A log that says everything.
    Log,
    /// A log that lacks something: every operation must mend it first.
    Owed,
    /// A superblock that says to believe nothing.
    Nothing,
}

/// What the superblock on flash says of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Believe,
    Nothing,
    /// A write of it failed: it may have happened.
    Unknown,
}

/// More is needed than the log has room for.
struct Full;

/// The open block on its way.
struct BlockWrite {
    future: IoFuture,
    number: BlockNumber,
    /// New tombstones below this position are in it or in earlier blocks.
    up_to: u64,
    entries: usize,
    second: u32,
}

/// What is still under way. It outlives the caller who began it.
#[derive(Default)]
struct Turn {
    unfinished: Option<Unfinished>,
    /// It outlives the process, and waits for the one before to be sealed.
    full: Option<FullBlock>,
    sealing: Option<Sealing>,
}

#[allow(clippy::large_enum_variant)] // there is one, and blocks are what is written most often
enum Unfinished {
    Block(BlockWrite),
    /// The superblock, and whether it says to believe the log.
    Superblock(LabelWrite, bool),
    /// The superblock with a new epoch. What it says of the log is what it said before.
    Epoch(LabelWrite),
}

/// The label on its way to the device.
type LabelWrite = Pin<Box<dyn Future<Output = Result<(), larder_device::Error>> + Send>>;

impl Tombstones {
    /// An empty log; `superblock` is what the device will say.
    pub(crate) fn new(
        device: Arc<dyn Device>,
        place: TombstonesPlace,
        (superblock, labeller): (Superblock, Labeller),
        (counters, clock): (Arc<Counters>, Arc<CacheClock>),
    ) -> Self {
        assert!(place.offset.is_multiple_of(BLOCK_BYTES as u64), "{place:?}");
        assert!(place.blocks > SPARE_BLOCKS, "a ring has room beside what is spare: {place:?}");
        let state = State {
            dead: DeadByPlace::default(),
            clock: 1,
            waiting: VecDeque::new(),
            taken: 0,
            durable: 0,
            on_their_way: HashMap::new(),
            number: BlockNumber::FIRST,
            open: Vec::new(),
            open_durable: 0,
            oldest: BlockNumber::FIRST,
            not_sealed: BTreeSet::new(),
            blocks_of_copies: 0,
            second: superblock.second,
            trust: Trust::Log,
            said: Said::Believe,
            retry: Retry::new(place.entries()),
            epochs: (superblock.epoch, superblock.oldest_epoch),
        };
        Self {
            device,
            place,
            superblock,
            labeller,
            fillings: Fillings::new(superblock.layout.regions()),
            lost: Lost::default(),
            state: Mutex::new(state),
            turns: Turns::default(),
            clock,
            counters,
        }
    }

    /// Goes on behind what an earlier opening left.
    pub(crate) fn inherit(&self, inheritance: &mut Inheritance) {
        for (region, sequence, dead) in inheritance.fillings() {
            self.fillings.inherit(region, sequence, dead, false);
        }
        if self.superblock.layout.loc_regions > 0 {
            self.lost.begin(std::mem::take(&mut inheritance.lost));
        }
        let mut state = self.lock();
        assert!(
            state.waiting.is_empty() && state.open.is_empty(),
            "nothing has died in this opening"
        );
        assert!(
            inheritance.oldest <= inheritance.next_number,
            "what counts lies before what comes"
        );
        debug_assert!(inheritance.clock >= state.clock, "clocks grow");
        state.clock = inheritance.clock;
        state.number = inheritance.next_number;
        state.oldest = inheritance.oldest;
        // Of those in tables the engine is told as well: they say what of its data it may not find again.
        let tables = inheritance.table_keys.clone();
        state.dead.inherit(std::mem::take(&mut inheritance.keys), tables);
    }

    /// Declares a record of the large-object engine dead.
    pub(crate) fn invalidate_record(&self, region: u32, offset: u32, sequence: u64) -> Receipt {
        self.invalidate_place(Tombstone::Record { region, offset, sequence })
    }

    /// Declares dead what fillings before this one hold of a hash, as long as it is not known what
    /// they hold. `None` as soon as that is known.
    pub(crate) fn invalidate_hash(&self, hash: u64, before: u64) -> Option<Receipt> {
        let is_new = self.lost.add(hash, before)?;
        let mut state = self.lock();
        if is_new {
            state.enqueue(Tombstone::Lost { hash, sequence: before });
            self.counters.tombstones.add(1);
        }
        // Also if it is dead already: its tombstone may still be on its way.
        Some(state.receipt())
    }

    /// Which large objects are lost, for as long as this is held.
    pub(crate) fn firsts(&self) -> Firsts<'_> {
        self.lost.firsts()
    }

    /// What was lost by hash has tombstones by place, all of them durable.
    pub(crate) fn all_found(&self) {
        self.lost.end();
    }

    /// How much hurry there is to find what was lost by hash.
    pub(crate) fn pressure(&self) -> Pressure {
        let limit = self.place.entries() / LOST_PART;
        match self.lost.len() {
            few if few <= limit => Pressure::None,
            some if some <= 2 * limit => Pressure::Some,
            _ => Pressure::High,
        }
    }

    /// The footer of a filling that a crash has left was read; the log has so many tombstones of
    /// its records.
    pub(crate) fn inherit_filling(&self, region: u32, sequence: u64, dead: u32) {
        self.fillings.inherit(region, sequence, dead, true);
    }

    /// Declares dead what a region held before this filling. Once it is durable,
    /// [`Tombstones::filling_began`].
    pub(crate) fn invalidate_region(&self, region: u32, sequence: u64) -> Receipt {
        self.invalidate_place(Tombstone::Region { region, sequence })
    }

    fn invalidate_place(&self, tombstone: Tombstone) -> Receipt {
        let mut state = self.lock();
        if let Some(&position) = state.on_their_way.get(&tombstone) {
            return Receipt(position);
        }
        if let Tombstone::Record { region, .. } = tombstone {
            self.fillings.invalidate_record(region);
        }
        self.counters.tombstones.add(1);
        state.enqueue(tombstone);
        let receipt = state.receipt();
        if state.trust != Trust::Nothing {
            state.on_their_way.insert(tombstone, receipt.0);
        }
        receipt
    }

    pub(crate) fn filling_began(&self, region: u32, sequence: u64) {
        self.fillings.begin(region, sequence);
    }

    /// The filling's footer is on flash.
    pub(crate) fn filling_sealed(&self, region: u32, sequence: u64) {
        self.fillings.seal(region, sequence);
    }

    /// For everything so far.
    pub(crate) fn all_so_far(&self) -> Receipt {
        self.lock().receipt()
    }

    /// A region that should be given up because the log is full of its dead.
    pub(crate) fn region_to_give_up(&self) -> Option<u32> {
        let too_many = self.fillings.dead_records() > self.place.entries() / RECORDS_PART;
        too_many.then(|| self.fillings.deadest())?
    }

    /// Whether a crash now would leave a cache that can be taken over.
    pub(crate) fn is_trusted(&self) -> bool {
        self.lock().trust == Trust::Log
    }

    /// Memory that it takes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        // A key and its index, in a tree that is two thirds full.
        let keys = self.lock().dead.len() as u64 * 24;
        keys + self.fillings.memory_bytes() + self.lost.len() * 24
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Says whether it is kept, to be written.
    fn enqueue(&mut self, tombstone: Tombstone) -> bool {
        let is_kept = self.trust != Trust::Nothing || self.retry.keeps(self.waiting.len());
        if is_kept {
            self.waiting.push_back(tombstone);
        } else {
            self.waiting = VecDeque::new();
            self.dead.forget_replaced();
            self.retry.forget();
        }
        is_kept
    }

    /// For all that was enqueued so far.
    fn receipt(&self) -> Receipt {
        debug_assert!(self.durable <= self.taken, "what is durable is in a block");
        Receipt(self.taken + self.waiting.len() as u64)
    }

    /// Blocks that count, but for the open one.
    fn blocks_that_count(&self) -> u64 {
        self.number.since(self.oldest).expect("what counts lies before what comes")
    }

    /// The oldest block, if its slot will be needed soon.
    fn block_to_free(&self, blocks: u64) -> Option<BlockNumber> {
        (self.blocks_that_count() + SPARE_BLOCKS >= blocks).then_some(self.oldest)
    }

    /// Opens the next block if the open one is full and on flash.
    fn open_next(&mut self) {
        if self.open_durable < ENTRIES_MAX {
            return;
        }
        // Rule 3: here what was copied to the open block is durable.
        assert_eq!(self.open_durable, self.open.len(), "a block is opened behind a durable one");
        self.open.clear();
        self.open_durable = 0;
        self.number = self.number.next();
    }

    /// Puts new tombstones into the open block, as many as there is room for.
    fn fill_open(&mut self) {
        debug_assert!(self.open_durable <= self.open.len(), "a block only grows");
        let fit = self.waiting.len().min(ENTRIES_MAX - self.open.len());
        self.open.extend(self.waiting.drain(..fit));
        self.taken += fit as u64;
    }
}

#[cfg(test)]
mod key_tests;
#[cfg(test)]
mod tests;
