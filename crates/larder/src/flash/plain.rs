//! A minimal engine for tests: a ring of blocks and a map in memory.
//!
//! An object is written in whole blocks at the head of the ring, over what was written one round earlier. A clean
//! shutdown exports the map; a crash empties it, so nothing needs a tombstone.
//!
//! ```text
//!   0  4  CRC-32C of the cache's identity and of what follows
//!   4  8  position: blocks written before, in all rounds
//!  12  4  bytes of the value
//!  16  4  second of expiry          20  4  flags
//!  24  2  bytes of the key          26  2  1 if it is for flash only
//!  28  *  key and value
//! ```

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_device::{Device, Io, IoBuffer, PlacementHandle};
use larder_log::CacheId;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::base::error::Error;
use crate::base::item::{FlashItem, ItemRef, Kind};
use crate::base::key::KeyHash;
use crate::base::tier::{Tier, Tiers};
use crate::engine::tombstones::Inheritance;
use crate::engine::{Cursor, DeadRecords, Engine, InvalidateOutcome, Judge, Memory, ShutdownMark};
use crate::observe::stats::{Counters, Stats};

const BLOCK_BYTES: usize = 4096;
const HEADER_BYTES: usize = size_of::<PlainHeader>();
/// The checksum covers what follows it.
const CHECKED_FROM: usize = size_of::<U32>();
const OBJECT_BYTES_MAX: usize = 16 << 10;
/// Bytes in the snapshot for each object: hash, position, blocks.
const OBJECT_SNAPSHOT_BYTES: usize = size_of::<PlainEntry>();

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct PlainHeader {
    checksum: U32,
    position: U64,
    value_bytes: U32,
    expiry_s: U32,
    flags: U32,
    key_bytes: U16,
    flash_only: U16,
}

/// An object in a snapshot.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct PlainEntry {
    hash: U64,
    position: U64,
    blocks: U32,
}

thread_local! {
    /// Percent of the usable space that the engine gets in caches that this thread opens.
    static PERCENT: Cell<u8> = const { Cell::new(0) };
}

/// Gives the engine this percent of the usable space in caches that this thread opens from now on.
pub(super) fn set_percent(percent: u8) {
    PERCENT.set(percent);
}

/// Takes the engine's share from the end of the usable space. Returns the bytes left for other engines and this
/// engine's number of blocks.
pub(super) fn carve(usable: u64) -> (u64, u64) {
    let blocks = usable / 100 * u64::from(PERCENT.get()) / BLOCK_BYTES as u64;
    (usable - blocks * BLOCK_BYTES as u64, blocks)
}

/// Upper bound of the bytes that it adds to a snapshot: each block may be an object.
pub(super) fn snapshot_bytes(blocks: u64) -> u64 {
    if blocks > 0 { (24 + OBJECT_SNAPSHOT_BYTES as u64 * blocks).next_multiple_of(4096) } else { 0 }
}

pub(super) struct PlainPlace {
    pub(super) offset: u64,
    pub(super) blocks: u64,
    pub(super) cache: CacheId,
    /// Above all positions that have been used on the device.
    pub(super) first_position: u64,
}

pub(super) struct Plain {
    device: Arc<dyn Device>,
    place: PlainPlace,
    state: Mutex<PlainState>,
    counters: Arc<Counters>,
}

#[derive(Default)]
struct PlainState {
    /// `map`: position and blocks of each object, by hash. `order`: hash, position and blocks of the last round, oldest
    /// first.
    map: HashMap<u64, (u64, u64)>,
    order: VecDeque<(u64, u64, u64)>,
    head: u64,
}

impl PlainState {
    /// Makes room for this number of blocks. Returns their position.
    fn advance(&mut self, blocks: u64, ring: u64) -> u64 {
        let left = ring - self.head % ring;
        let at = if left < blocks { self.head + left } else { self.head };
        self.head = at + blocks;
        while let Some(&(hash, position, _)) = self.order.front()
            && position + ring < self.head
        {
            self.order.pop_front();
            if self.map.get(&hash).is_some_and(|&(current, _)| current == position) {
                self.map.remove(&hash);
            }
        }
        at
    }
}

impl Plain {
    pub(super) fn new(device: Arc<dyn Device>, place: PlainPlace, counters: Arc<Counters>) -> Self {
        let head = place.first_position.next_multiple_of(place.blocks);
        let state = Mutex::new(PlainState { head, ..PlainState::default() });
        Self { device, place, state, counters }
    }

    fn lock(&self) -> MutexGuard<'_, PlainState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offset_of(&self, position: u64) -> u64 {
        self.place.offset + position % self.place.blocks * BLOCK_BYTES as u64
    }

    fn encode(&self, item: &ItemRef<'_>, position: u64) -> IoBuffer {
        let length = HEADER_BYTES + item.object_bytes();
        let header = PlainHeader {
            checksum: 0.into(),
            position: position.into(),
            value_bytes: u32::try_from(item.value.len()).expect("it fits").into(),
            expiry_s: item.expiry_s.into(),
            flags: item.flags.into(),
            key_bytes: u16::try_from(item.key.len()).expect("a key").into(),
            flash_only: u16::from(item.tiers == Tiers::FlashOnly).into(),
        };
        let mut whole = [header.as_bytes(), item.key, item.value].concat();
        let checksum = self.place.cache.checksum(&whole[CHECKED_FROM..]);
        whole[..CHECKED_FROM].copy_from_slice(U32::new(checksum).as_bytes());
        let mut buffer = IoBuffer::zeroed(length.next_multiple_of(BLOCK_BYTES));
        buffer.as_mut_slice()[..length].copy_from_slice(&whole);
        buffer
    }

    fn parse(&self, buffer: IoBuffer, hash: KeyHash, position: u64) -> Option<FlashItem> {
        let bytes = buffer.as_slice();
        let (header, _) = PlainHeader::read_from_prefix(bytes).ok()?;
        let (key_bytes, value_bytes) = (header.key_bytes.get(), header.value_bytes.get() as usize);
        let length = HEADER_BYTES + usize::from(key_bytes) + value_bytes;
        let checksum = self.place.cache.checksum(bytes.get(CHECKED_FROM..length)?);
        let is_it = (header.checksum.get(), header.position.get()) == (checksum, position);
        let (expiry_s, flags) = (header.expiry_s.get(), header.flags.get());
        let tiers = if header.flash_only.get() == 1 { Tiers::FlashOnly } else { Tiers::Both };
        is_it.then_some(FlashItem {
            buffer,
            hash,
            at: HEADER_BYTES,
            key_bytes: key_bytes.into(),
            value_bytes,
            expiry_s,
            flags,
            kind: Kind::Whole,
            tiers,
        })
    }

    async fn read(&self, hash: KeyHash) -> Option<FlashItem> {
        let (position, blocks) = *self.lock().map.get(&hash.0)?;
        let bytes = usize::try_from(blocks).ok()? * BLOCK_BYTES;
        let read = Io::Read { offset: self.offset_of(position), buffer: IoBuffer::zeroed(bytes) };
        match self.device.submit(read).await {
            // A block that was overwritten while the read ran contains another position.
            Ok(buffer) => self.parse(buffer, hash, position),
            Err(failure) => {
                self.counters.device_failed(&failure.error);
                None
            }
        }
    }

    async fn write(&self, item: &ItemRef<'_>) -> bool {
        let blocks = (HEADER_BYTES + item.object_bytes()).div_ceil(BLOCK_BYTES) as u64;
        let position = {
            let mut state = self.lock();
            // Whether or not the write succeeds, the older version is invalid.
            state.map.remove(&item.hash.0);
            state.advance(blocks, self.place.blocks)
        };
        let buffer = self.encode(item, position);
        let write = Io::write(self.offset_of(position), buffer, PlacementHandle::DEFAULT);
        if let Err(failure) = self.device.submit(write).await {
            self.counters.device_failed(&failure.error);
            self.counters.lost_to_device_errors_objects.add(1);
            return false;
        }
        let mut state = self.lock();
        // While the write ran, the head may have come round to its blocks.
        if position + self.place.blocks >= state.head {
            state.map.insert(item.hash.0, (position, blocks));
            state.order.push_back((item.hash.0, position, blocks));
        }
        true
    }
}

impl Engine for Plain {
    fn tier(&self) -> Tier {
        Tier::LargeObjects
    }

    fn section(&self) -> [u8; 4] {
        *b"TEST"
    }

    fn takes(&self, item: &ItemRef<'_>) -> bool {
        item.object_bytes() <= OBJECT_BYTES_MAX
    }

    fn object_bytes_max(&self) -> usize {
        OBJECT_BYTES_MAX
    }

    fn may_hold(&self, hash: KeyHash) -> bool {
        self.lock().map.contains_key(&hash.0)
    }

    async fn holds(&self, hash: KeyHash, _key: &[u8], _now_s: u32) -> bool {
        self.may_hold(hash)
    }

    async fn get(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<FlashItem> {
        let found = self.read(hash).await.filter(|found| found.item().key == key)?;
        (!found.item().is_expired(now_s)).then_some(found)
    }

    async fn set(&self, item: &ItemRef<'_>, _now_s: u32) -> bool {
        self.write(item).await
    }

    async fn remove(&self, hash: KeyHash, _key: &[u8], _now_s: u32) -> bool {
        self.lock().map.remove(&hash.0).is_some()
    }

    async fn void(&self, hash: KeyHash) {
        self.lock().map.remove(&hash.0);
    }

    async fn invalidate(&self, hash: KeyHash) -> Result<InvalidateOutcome, Error> {
        let was_there = self.lock().map.remove(&hash.0).is_some();
        Ok(InvalidateOutcome { was_there, receipt: None })
    }

    fn inherit(&mut self, _log: &Arc<Inheritance>) {}

    async fn import(&mut self, part: &[u8], _kept: &ShutdownMark) -> Result<(), Error> {
        let Some((head, objects)) = part.split_first_chunk::<8>() else { return Ok(()) };
        let listed = <[PlainEntry]>::ref_from_bytes(objects).unwrap_or_default();
        let read = |it: &PlainEntry| (it.hash.get(), it.position.get(), it.blocks.get().into());
        let mut order: Vec<(u64, u64, u64)> = listed.iter().map(read).collect();
        order.sort_unstable_by_key(|(_, position, _)| *position);
        let map = order.iter().map(|&(hash, position, blocks)| (hash, (position, blocks)));
        // Continue where the last opening ended.
        let (map, head) = (map.collect(), u64::from_le_bytes(*head));
        *self.lock() = PlainState { map, order: order.into(), head };
        Ok(())
    }

    async fn finish(&self) {}

    async fn export(&self, _dead: DeadRecords) -> Vec<u8> {
        let state = self.lock();
        let objects = state.map.iter().map(|(hash, (position, blocks))| {
            let blocks = u32::try_from(*blocks).expect("of one object").into();
            let (hash, position) = (U64::new(*hash), U64::new(*position));
            PlainEntry { hash, position, blocks }.as_bytes().to_vec()
        });
        state.head.to_le_bytes().into_iter().chain(objects.flatten()).collect()
    }

    async fn finish_writes(&self) {}

    fn clear(&self, epoch: u64) {
        let head = (epoch << 32).next_multiple_of(self.place.blocks);
        *self.lock() = PlainState { head, ..PlainState::default() };
    }

    fn memory(&self) -> Memory {
        Memory { index_bytes: self.lock().map.len() as u64 * 48, ..Memory::default() }
    }

    fn add_to(&self, stats: &mut Stats) {
        stats.loc_objects += self.lock().map.len() as u64;
    }

    fn estimated_len(&self) -> u64 {
        self.lock().map.len() as u64
    }

    fn scan(&self, hashes: &RangeInclusive<u64>) -> Cursor {
        let state = self.lock();
        let names =
            state.map.keys().filter(|hash| hashes.contains(hash)).map(|&hash| KeyHash(hash));
        Cursor { parts: 0..0, names: names.collect() }
    }

    async fn scan_on<T>(&self, cursor: &mut Cursor, judge: Judge<'_, T>) -> Option<Vec<T>> {
        let name = *cursor.names.last()?;
        let judged = self.read(name).await.and_then(|found| judge(&found.item()));
        cursor.names.pop();
        Some(judged.filter(|_| self.may_hold(name)).into_iter().collect())
    }
}
