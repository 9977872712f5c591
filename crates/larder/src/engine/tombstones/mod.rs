//! A log on flash of what has died on flash, so that a crash brings nothing back.
//!
//! A value is replaced or deleted in DRAM long before its bytes on flash are. After a crash, DRAM is gone but the bytes
//! are still there. So before a set or a delete of a key that flash holds is answered, a tombstone is written to this
//! log. The next opening after a crash reads the log and leaves out what is dead.
//!
//! 1. A tombstone is durable before the operation that needs it is answered. Concurrent operations share a write: the
//!    block that is being filled is rewritten in place until it is full.
//! 2. A key that flash "does not hold" can be set without a tombstone. So nothing (a record, a region, a key of a
//!    bucket) is forgotten in DRAM while flash could still bring it back: its tombstone must be durable first, or its
//!    bytes overwritten.
//! 3. The log is a ring. When it is full, the oldest block is freed; its entries that are still needed are copied to
//!    the block that is opened next, before anything new goes there. The needed entries of one block always fit into
//!    one block. The copies are durable before the ring reaches the place of their originals: blocks are opened in
//!    order, each when the previous one is durable. A tombstone is needed until the region that holds the record is
//!    refilled, or the bucket or table that holds the key is written without it, or a later tombstone of the key is
//!    durable. A ring that is full of needed entries is given up.
//! 4. A log that cannot be written is worse than none. If the superblock can be changed to say that nothing is valid
//!    after a crash, the cache continues without the log; if not, the operation fails. The tombstones that could not be
//!    logged are kept in memory as long as there is room. After some time all of them are written, and the log is
//!    trusted again (`trust`).
//! 5. Each block contains the second in which it was written. After a crash, time continues from there. So what had
//!    expired by then can be forgotten without a tombstone. What expired later stays known until flash has that time
//!    (`Tombstones::is_over`).
//!
//! "Durable" means that the device has completed the write: it survives the end of the process
//! ([`Durability::Process`]). On a file, the open block is in the kernel's page cache, and no caller waits for a disk.
//! A power loss is detected with [`Device::boot`]: then nothing is trusted.
//!
//! If the cache must survive a power loss, "durable" means that ([`Durability::Power`]) wherever the rules use the
//! word. A power loss may lose any set of 512-byte sectors of writes that were neither durable nor flushed, and of a
//! write in flight. So the rules require:
//!
//! - *Rule 1.* The open block is rewritten in place, and a rewrite may be torn. Each of its sectors is valid by itself
//!   and only grows (`block`), so nothing is lost that was durable before. If the first write of a block was torn, no
//!   caller had been answered for its entries: it is left out, and the next opening writes it again (`replay`).
//! - *Rule 2, overwritten.* Bytes count as overwritten when the overwrite is durable: the write of a bucket, or of a
//!   region's footer. Before that, the old bucket may come back with a key that the new one has dropped, whose next set
//!   has no tombstone; and a tombstone that ended with that write would be missing. A region is voided by its tombstone
//!   alone, before its first piece is written; its footer replaces the tombstone (rule 3) when the footer is durable.
//!   The pieces before the footer need no order: each record carries its identity.
//! - *Rule 2, is not there.* What an opening finds may be only in a volatile cache. Before the cache builds on it, all
//!   of it is flushed (`flash::recovery`).
//! - *Rule 4.* The label is written with a flush after each copy.
//!
//! [`Durability::Process`]: larder_device::Durability::Process
//! [`Durability::Power`]: larder_device::Durability::Power

mod block;
mod commit;
mod dead;
mod fillings;
mod keys;
mod lost;
mod number;
mod place;
mod replay;
mod ring;
mod trust;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_device::label::Labeller;
use larder_device::{Device, IoFuture};

use crate::base::combining::Combining;
use crate::base::time::CacheClock;
use crate::engine::superblock::Superblock;
use crate::observe::stats::Counters;
use block::{BLOCK_BYTES, ENTRIES_MAX, Tombstone};
use commit::{FullBlock, Sealing};
use dead::DeadByPlace;
pub(crate) use dead::KeysIn;
use fillings::Fillings;
pub(crate) use lost::{Firsts, LostFillings};
use number::BlockNumber;
use place::SPARE_BLOCKS;
pub(crate) use place::TombstonesPlace;
pub(crate) use replay::{Inheritance, erase, fuzz_log, replay};
use ring::BlockRing;
use trust::Retry;

/// Maximum clock after recovery: buckets store 48 bits of it, and one opening may count up to as many again.
pub(crate) const CLOCK_MAX: u64 = 1 << 47;
/// Above `1 / RECORDS_PART` of the log's room, tombstones of records are worked off. If the log runs out of room, it is
/// given up.
const RECORDS_PART: u64 = 2;
/// The same for hashes whose large objects are lost. Above this part, callers wait for the work that makes them
/// unnecessary; above twice this part, until none is left.
const LOST_PART: u64 = 16;
/// Twice the maximum clock fits into the six bytes of a stamp.
const _: () = assert!(2 * CLOCK_MAX <= 1 << 48);

/// Whether the work that reduces a kind of tombstones must advance before more are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pressure {
    None,
    Some,
    High,
}

/// A tombstone that is not durable yet: everything up to this position must become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[must_use]
pub(crate) struct Receipt(u64);

pub(crate) struct Tombstones {
    ring: BlockRing,
    place: TombstonesPlace,
    /// What the device's superblock says, except for its epochs: see [`TombstonesState::epochs`].
    superblock: Superblock,
    labeller: Labeller,
    fillings: Fillings,
    lost: LostFillings,
    state: Mutex<TombstonesState>,
    combining: Combining<Turn>,
    clock: Arc<CacheClock>,
    counters: Arc<Counters>,
}

struct TombstonesState {
    dead: DeadByPlace,
    /// Index of the next key tombstone.
    clock: u64,
    /// New tombstones that are not in a block yet.
    waiting: VecDeque<Tombstone>,
    /// Positions of new tombstones: below `taken` they are in a block, below `durable` on flash.
    taken: u64,
    durable: u64,
    /// Place tombstones that are not durable yet, with their positions: a call that was dropped and is repeated waits
    /// for the same tombstone.
    on_their_way: HashMap<Tombstone, u64>,
    /// The open block and its entries: copies from freed blocks, then new tombstones.
    number: BlockNumber,
    open: Vec<Tombstone>,
    /// Number of entries in `open` that are on flash.
    open_durable: usize,
    /// The oldest valid block. Its slot is not written while it is valid.
    oldest: BlockNumber,
    /// Blocks from there on that the device did not take. Their entries are logged again. Until these blocks are freed,
    /// a crash would find an incomplete log and trust nothing.
    not_sealed: BTreeSet<BlockNumber>,
    /// Consecutive blocks that were filled with copies.
    blocks_of_copies: u64,
    /// The latest second that flash has.
    second: u32,
    trust: Trust,
    said: Said,
    retry: Retry,
    /// The current and the oldest epoch, which a clear changes.
    epochs: (u64, u64),
}

/// What a crash would find now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// A complete log.
    Log,
    /// An incomplete log: every operation must repair it first.
    Owed,
    /// A superblock that says that nothing is valid.
    Nothing,
}

/// What the superblock on flash says about the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Believe,
    Nothing,
    /// A write of it failed: it may have reached the device.
    Unknown,
}

/// More entries are needed than the log has room for.
struct LogFull;

/// The write of the open block.
struct BlockWrite {
    future: IoFuture,
    number: BlockNumber,
    /// New tombstones below this position are in it or in earlier blocks.
    up_to: u64,
    entries: usize,
    second: u32,
}

/// The writes in flight. They outlive the caller that started them.
#[derive(Default)]
struct Turn {
    unfinished: Option<UnfinishedStep>,
    /// A full block that survives the process, and waits for the previous block to be sealed.
    full: Option<FullBlock>,
    sealing: Option<Sealing>,
}

#[allow(clippy::large_enum_variant)] // there is only one, and blocks are the most frequent writes
enum UnfinishedStep {
    Block(BlockWrite),
    /// The superblock, and whether it says that the log is valid.
    Superblock(LabelWrite, bool),
    /// The superblock with a new epoch. What it says about the log is unchanged.
    Epoch(LabelWrite),
}

/// A label write in flight.
type LabelWrite = Pin<Box<dyn Future<Output = Result<(), larder_device::Error>> + Send>>;

impl Tombstones {
    /// Creates an empty log; `superblock` is what the device will contain.
    pub(crate) fn new(
        device: Arc<dyn Device>,
        place: TombstonesPlace,
        (superblock, labeller): (Superblock, Labeller),
        (counters, clock): (Arc<Counters>, Arc<CacheClock>),
    ) -> Self {
        assert!(place.offset.is_multiple_of(BLOCK_BYTES as u64), "{place:?}");
        assert!(place.blocks > SPARE_BLOCKS, "a ring has room beside what is spare: {place:?}");
        let state = TombstonesState {
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
        let ring = BlockRing::new(device, place, superblock, Arc::clone(&counters));
        Self {
            ring,
            place,
            superblock,
            labeller,
            fillings: Fillings::new(superblock.layout.regions()),
            lost: LostFillings::default(),
            state: Mutex::new(state),
            combining: Combining::default(),
            clock,
            counters,
        }
    }

    /// Continues after what an earlier opening has left.
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
        // The engine gets the keys in tables as well: they tell which of its data must not be found again.
        let tables = inheritance.table_keys.clone();
        state.dead.inherit(std::mem::take(&mut inheritance.keys), tables);
    }

    /// Marks a record of the large-object engine dead.
    pub(crate) fn invalidate_record(&self, region: u32, offset: u32, sequence: u64) -> Receipt {
        self.invalidate_place(Tombstone::Record { region, offset, sequence })
    }

    /// Marks dead what fillings before this one hold of a hash, while their content is not known. `None` once it is
    /// known.
    pub(crate) fn invalidate_hash(&self, hash: u64, before: u64) -> Option<Receipt> {
        let is_new = self.lost.add(hash, before)?;
        let mut state = self.lock();
        if is_new {
            state.enqueue(Tombstone::Lost { hash, sequence: before });
            self.counters.tombstones.add(1);
        }
        // Even if it is dead already: its tombstone may not be durable yet.
        Some(state.receipt())
    }

    /// Whether [`Tombstones::invalidate_hash`] still adds tombstones.
    pub(crate) fn takes_hashes(&self) -> bool {
        self.lost.is_open()
    }

    /// The lost large objects. None are added while this is held.
    pub(crate) fn firsts(&self) -> Firsts<'_> {
        self.lost.firsts()
    }

    /// Notes that everything lost by hash now has tombstones by place, all of them durable.
    pub(crate) fn all_found(&self) {
        self.lost.end();
    }

    /// How urgent it is to find what was lost by hash.
    pub(crate) fn pressure(&self) -> Pressure {
        let limit = self.place.entries() / LOST_PART;
        match self.lost.len() {
            few if few <= limit => Pressure::None,
            some if some <= 2 * limit => Pressure::Some,
            _ => Pressure::High,
        }
    }

    /// Notes that the footer of a filling that a crash has left was read; the log has `dead` tombstones of its records.
    pub(crate) fn inherit_filling(&self, region: u32, sequence: u64, dead: u32) {
        self.fillings.inherit(region, sequence, dead, true);
    }

    /// Marks dead what a region held before this filling. Call [`Tombstones::filling_began`] once it is durable.
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

    /// Notes that the filling's footer is on flash.
    pub(crate) fn filling_sealed(&self, region: u32, sequence: u64) {
        self.fillings.seal(region, sequence);
    }

    /// A receipt for everything so far.
    pub(crate) fn all_so_far(&self) -> Receipt {
        self.lock().receipt()
    }

    /// A region that should be given up because the log is full of tombstones of its records.
    pub(crate) fn region_to_give_up(&self) -> Option<u32> {
        let too_many = self.fillings.dead_records() > self.place.entries() / RECORDS_PART;
        too_many.then(|| self.fillings.deadest())?
    }

    /// Whether the next opening could recover the cache if it crashed now.
    pub(crate) fn is_trusted(&self) -> bool {
        self.lock().trust == Trust::Log
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        // A key and its index, in a tree that is two thirds full.
        let keys = self.lock().dead.len() as u64 * 24;
        keys + self.fillings.memory_bytes() + self.lost.len() * 24
    }

    fn lock(&self) -> MutexGuard<'_, TombstonesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TombstonesState {
    /// Queues a tombstone. Returns whether it is kept, to be written.
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

    /// A receipt for everything queued so far.
    fn receipt(&self) -> Receipt {
        debug_assert!(self.durable <= self.taken, "what is durable is in a block");
        Receipt(self.taken + self.waiting.len() as u64)
    }

    /// Number of valid blocks, except the open one.
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
        // Rule 3: the copies in the open block are durable here.
        assert_eq!(self.open_durable, self.open.len(), "a block is opened behind a durable one");
        self.open.clear();
        self.open_durable = 0;
        self.number = self.number.next();
    }

    /// Moves new tombstones into the open block, as many as fit.
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
