//! A 4 KiB bucket of the small-object engine, as stored on flash. Little-endian.
//!
//! ```text
//!  offset  bytes  field
//!       0      4  magic "LBKT"
//!       4      2  version of the formats
//!       6      2  number of entries
//!       8      4  CRC-32C of the bucket's number (8 bytes) and of bytes 12 to 32 + used
//!      12      2  used: bytes of entries
//!      14      2  generation: grows by 1 with each write of the bucket, wraps around
//!      16      6  identity of the cache
//!      22      6  stamp: index of the first tombstone that the bucket does not know of
//!      28      4  epoch in which the bucket was written
//!      32      *  entries, oldest first, without gaps
//!
//!  entry    2  tag: the lower 16 bits of the key's hash
//!           2  key length (13 bits); the upper 3 bits: prediction, with the bits of 6 inverted
//!           2  value length (14 bits); bit 14: for flash only; the top bit: there are flags
//!           4  expiry, second of the cache's clock; 0 is never
//!           4  flags, if they are not 0
//!           *  key, value
//! ```
//!
//! New entries go to the end. Room is made at the front (FIFO), or by predictions: 0 is near, 6 is that of a new entry,
//! 7 is far and goes first. Bytes after the last entry have no meaning. A [`Bucket`] exists only for bytes that passed
//! every check, so its methods trust the lengths.

use std::mem::offset_of;

use larder_device::IoBuffer;
use larder_device::label::FORMAT_VERSION;
use larder_log::CacheId;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::hit_bits::Hits;
use super::prediction::{PREDICTION_BITS, Prediction};
use crate::base::item::{FlashItem, Kind, is_expired};
use crate::base::key::{KeyHash, KeyHasher};
use crate::base::tier::Tiers;
use crate::config::{SOC_OBJECT_BYTES_MAX as OBJECT_BYTES_MAX, SocEviction};

/// Bytes of a bucket.
pub(crate) const BUCKET_BYTES: usize = 4096;
pub(crate) const BUCKET_MAGIC: [u8; 4] = *b"LBKT";

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct BucketHeader {
    magic: [u8; 4],
    version: U16,
    count: U16,
    checksum: U32,
    used: U16,
    generation: U16,
    cache: [u8; NARROW_BYTES],
    stamp: [u8; NARROW_BYTES],
    epoch: U32,
}
const HEADER_BYTES: usize = size_of::<BucketHeader>();
const _: () = assert!(HEADER_BYTES == 32);
/// The checksum covers what follows it.
const CHECKED_FROM: usize = offset_of!(BucketHeader, used);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct EntryHeader {
    tag: U16,
    key_bytes: U16,
    value_bytes: U16,
    expiry_s: U32,
}
const ENTRY_HEADER_BYTES: usize = size_of::<EntryHeader>();
const _: () = assert!(ENTRY_HEADER_BYTES == 10);

/// Identities and stamps are stored in this number of bytes.
const NARROW_BYTES: usize = 6;
const FLAGS_BYTES: usize = size_of::<U32>();
/// Bit in the value length.
const HAS_FLAGS: u16 = 1 << 15;
/// Bit in the value length.
const FLASH_ONLY: u16 = 1 << 14;
const LENGTH: u16 = FLASH_ONLY - 1;
const _: () = assert!(OBJECT_BYTES_MAX <= LENGTH as usize, "lengths have 14 bits");
/// Bits of the key length. The prediction has those above.
const KEY_LENGTH_BITS: u32 = u16::BITS - PREDICTION_BITS;
const KEY_LENGTH: u16 = (1 << KEY_LENGTH_BITS) - 1;
const _: () = assert!(OBJECT_BYTES_MAX <= KEY_LENGTH as usize, "key lengths have 13 bits");
const _: () = assert!(ENTRIES_BYTES_MAX <= u16::MAX as usize, "`used` has 16 bits");

/// Bytes available for the entries of a bucket.
pub(super) const ENTRIES_BYTES_MAX: usize = BUCKET_BYTES - HEADER_BYTES;
const _: () = assert!(
    OBJECT_BYTES_MAX == ENTRIES_BYTES_MAX - ENTRY_HEADER_BYTES - FLAGS_BYTES,
    "the longest object fills a bucket"
);

/// Why bytes are not the requested bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadBucket {
    /// Not written by this program, or in an unknown version.
    Foreign,
    /// Damaged, or the bytes of another bucket.
    Corrupt,
    /// Intact, but of another cache, from a void epoch, or not the latest write: the device lost a write.
    Stale,
}

/// Identifies one write of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BucketIdentity {
    pub(crate) cache: CacheId,
    pub(crate) number: u64,
    pub(crate) epoch: u64,
    pub(crate) generation: u16,
    pub(crate) stamp: u64,
}

/// Which writes of a bucket are acceptable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AcceptedWrites {
    pub(crate) cache: CacheId,
    pub(crate) number: u64,
    /// First and last valid epoch. A bucket that claims a later epoch was not written by this cache.
    pub(crate) oldest_epoch: u64,
    pub(crate) latest_epoch: u64,
    /// `None` if it is not known.
    pub(crate) generation: Option<u16>,
}

/// A valid bucket, in the buffer that it was read into and will be written from.
#[derive(Debug)]
pub(crate) struct Bucket {
    buffer: IoBuffer,
    used: usize,
    count: u16,
    generation: u16,
    stamp: u64,
    /// Bytes of the entries that are older than this rewrite; newer entries are behind them.
    older: usize,
    /// Entries that hits have made near.
    promoted: u16,
}

/// One object in a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BucketEntry<'a> {
    pub(crate) tag: u16,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) expiry_s: u32,
    pub(crate) flags: u32,
    pub(crate) tiers: Tiers,
    pub(crate) prediction: Prediction,
}

impl BucketEntry<'_> {
    pub(super) fn stored_bytes(&self) -> usize {
        self.header_bytes() + self.key.len() + self.value.len()
    }

    fn header_bytes(&self) -> usize {
        ENTRY_HEADER_BYTES + if self.flags == 0 { 0 } else { FLAGS_BYTES }
    }
}

impl Bucket {
    /// An empty bucket. The content of the buffer does not matter.
    pub(crate) fn empty(buffer: IoBuffer) -> Self {
        assert_eq!(buffer.len(), BUCKET_BYTES, "a bucket is written whole");
        Self { buffer, used: 0, count: 0, generation: 0, stamp: 0, older: 0, promoted: 0 }
    }

    /// Checks what was read from a bucket's place. If it is not the requested bucket, returns the reason and the
    /// buffer.
    pub(crate) fn parse(
        buffer: IoBuffer,
        wanted: AcceptedWrites,
    ) -> Result<Self, (BadBucket, IoBuffer)> {
        match check(buffer.as_slice(), wanted) {
            Ok((used, header)) => {
                let (count, generation) = (header.count.get(), header.generation.get());
                let stamp = wide(header.stamp);
                let (older, promoted) = (used, 0);
                let bucket = Self { buffer, used, count, generation, stamp, older, promoted };
                debug_assert_eq!(bucket.entries().count(), usize::from(count), "it was checked");
                Ok(bucket)
            }
            Err(reason) => Err((reason, buffer)),
        }
    }

    /// Makes the entries near that were hit. Call it before the bucket is changed: hits name positions as they were
    /// read.
    pub(crate) fn promote(&mut self, hits: Hits) {
        if hits == Hits::default() {
            return;
        }
        let (mut at, mut position) = (0, 0);
        while let Some(entry) = self.entry_at(at) {
            let stored = entry.stored_bytes();
            if hits.has(position) {
                self.predict(at, Prediction::NEAR);
                self.promoted += 1;
            }
            at += stored;
            position += 1;
        }
    }

    /// Number of entries that [`Bucket::promote`] has made near.
    pub(crate) fn promoted(&self) -> u16 {
        self.promoted
    }

    /// The position of the entry that starts `at` bytes into the entries: 0 for the first.
    pub(crate) fn position_of(&self, at: usize) -> usize {
        let starts = self.entries().scan(0, |start, entry| {
            let this = *start;
            *start += entry.stored_bytes();
            Some(this)
        });
        starts.take_while(|start| *start < at).count()
    }

    /// The generation that was read.
    pub(crate) fn generation(&self) -> u16 {
        self.generation
    }

    /// The stamp that was read.
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Removes the entries whose hash is in `dead`, which is sorted.
    pub(crate) fn remove_dead(&mut self, dead: &[u64], hasher: KeyHasher) {
        debug_assert!(dead.is_sorted(), "they are searched by halves");
        let mut at = 0;
        while !dead.is_empty()
            && let Some(entry) = self.entry_at(at)
        {
            let stored = entry.stored_bytes();
            if dead.binary_search(&hasher.hash(entry.key).0).is_ok() {
                self.cut(at, at + stored, 1);
            } else {
                at += stored;
            }
        }
    }

    /// The objects, oldest first.
    pub(crate) fn entries(&self) -> Entries<'_> {
        Entries { bytes: &self.buffer.as_slice()[HEADER_BYTES..HEADER_BYTES + self.used] }
    }

    /// The object of `key`, and the offset of its entry.
    pub(crate) fn find(&self, hash: KeyHash, key: &[u8]) -> Option<(usize, BucketEntry<'_>)> {
        let tag = hash.tag();
        let mut at = 0;
        for entry in self.entries() {
            if entry.tag == tag && entry.key == key {
                return Some((at, entry));
            }
            at += entry.stored_bytes();
        }
        None
    }

    /// The object whose entry starts `at` bytes into the entries, with the bucket's buffer.
    pub(crate) fn into_fetched(self, hash: KeyHash, at: usize) -> FlashItem {
        let entry = self.entry_at(at).expect("the caller found it there");
        let (key_bytes, value_bytes) = (entry.key.len(), entry.value.len());
        let (expiry_s, flags, tiers) = (entry.expiry_s, entry.flags, entry.tiers);
        let at = HEADER_BYTES + at + entry.header_bytes();
        let (buffer, kind) = (self.buffer, Kind::Whole);
        FlashItem { buffer, hash, at, key_bytes, value_bytes, expiry_s, flags, kind, tiers }
    }

    /// Removes `key`. Returns whether it was there.
    pub(crate) fn remove(&mut self, hash: KeyHash, key: &[u8]) -> bool {
        let mut at = 0;
        for entry in self.entries() {
            let stored = entry.stored_bytes();
            if entry.tag == hash.tag() && entry.key == key {
                self.cut(at, at + stored, 1);
                return true;
            }
            at += stored;
        }
        false
    }

    /// [`Bucket::push_and_tell`] in a FIFO, without a callback.
    #[cfg(test)]
    pub(crate) fn push(&mut self, entry: BucketEntry<'_>, now_s: u32) -> (u16, u16) {
        self.push_and_tell(entry, (SocEviction::Fifo, now_s), &|_, _| ())
    }

    /// Adds an object at the end. To make room, drops expired objects and then others, in the order of `eviction`.
    /// Returns the numbers dropped: (expired, evicted). The key must not be in the bucket, and the object must not be
    /// longer than [`OBJECT_BYTES_MAX`].
    pub(crate) fn push_and_tell(
        &mut self,
        entry: BucketEntry<'_>,
        (eviction, now_s): (SocEviction, u32),
        gone: &dyn Fn(&BucketEntry<'_>, bool),
    ) -> (u16, u16) {
        let needed = entry.stored_bytes();
        assert!(needed <= ENTRIES_BYTES_MAX, "checked before it comes here");
        debug_assert!(!entry.key.is_empty(), "an entry without a key is damage");
        debug_assert!(
            self.entries().all(|other| other.key != entry.key),
            "a bucket holds one version of a key"
        );
        let mut dropped = (0, 0);
        if HEADER_BYTES + self.used + needed > BUCKET_BYTES {
            dropped.0 = self.drop_expired(now_s, gone);
            dropped.1 = match eviction {
                SocEviction::Fifo => self.drop_oldest(needed, gone),
                SocEviction::Rrip => self.drop_farthest(needed, gone),
            };
        }
        let at = HEADER_BYTES + self.used;
        assert!(at + needed <= BUCKET_BYTES, "{dropped:?} made room for {needed} bytes");
        let room = &mut self.buffer.as_mut_slice()[at..at + needed];
        let only = if entry.tiers == Tiers::FlashOnly { FLASH_ONLY } else { 0 };
        let marked = if entry.flags == 0 { 0 } else { HAS_FLAGS };
        let header = EntryHeader {
            tag: entry.tag.into(),
            key_bytes: key_field(entry.key.len(), entry.prediction).into(),
            value_bytes: (length(entry.value) | only | marked).into(),
            expiry_s: entry.expiry_s.into(),
        };
        let (front, behind) = room.split_at_mut(ENTRY_HEADER_BYTES);
        front.copy_from_slice(header.as_bytes());
        if entry.flags != 0 {
            behind[..FLAGS_BYTES].copy_from_slice(U32::new(entry.flags).as_bytes());
        }
        let (key, value) = room[entry.header_bytes()..].split_at_mut(entry.key.len());
        key.copy_from_slice(entry.key);
        value.copy_from_slice(entry.value);
        self.used += needed;
        self.count += 1;
        dropped
    }

    /// Bytes of entries that can be added without dropping an entry that has not expired.
    pub(crate) fn room(&self, now_s: u32) -> usize {
        let alive = self.entries().filter(|entry| !is_expired(entry.expiry_s, now_s));
        let alive = alive.map(|entry| entry.stored_bytes()).sum::<usize>();
        debug_assert!(alive <= self.used, "{alive} bytes of entries of {}", self.used);
        ENTRIES_BYTES_MAX - alive
    }

    /// Writes header and checksum, so that the bytes can go to flash.
    pub(crate) fn seal(mut self, identity: BucketIdentity) -> IoBuffer {
        debug_assert_eq!(self.entries().count(), usize::from(self.count), "it would be damage");
        let used = u16::try_from(self.used).expect("a bucket is shorter than 64 KiB");
        let bytes = self.buffer.as_mut_slice();
        *header_of(bytes) = BucketHeader {
            magic: BUCKET_MAGIC,
            version: FORMAT_VERSION.into(),
            count: self.count.into(),
            checksum: 0.into(),
            used: used.into(),
            generation: identity.generation.into(),
            cache: identity.cache.bytes(),
            stamp: narrow(identity.stamp),
            epoch: u32::try_from(identity.epoch).expect("epochs end at 2^32").into(),
        };
        header_of(bytes).checksum = checksum(identity.number, bytes, self.used).into();
        self.buffer
    }

    fn drop_expired(&mut self, now_s: u32, gone: &dyn Fn(&BucketEntry<'_>, bool)) -> u16 {
        let mut dropped = 0;
        let mut at = 0;
        while let Some(entry) = self.entry_at(at) {
            let stored = entry.stored_bytes();
            if is_expired(entry.expiry_s, now_s) {
                gone(&entry, true);
                self.cut(at, at + stored, 1);
                dropped += 1;
            } else {
                at += stored;
            }
        }
        dropped
    }

    /// The entry that starts `at` bytes into the entries.
    fn entry_at(&self, at: usize) -> Option<BucketEntry<'_>> {
        let entries = &self.buffer.as_slice()[HEADER_BYTES..HEADER_BYTES + self.used];
        Entries { bytes: &entries[at..] }.next()
    }

    fn drop_oldest(&mut self, needed: usize, gone: &dyn Fn(&BucketEntry<'_>, bool)) -> u16 {
        let mut dropped = 0;
        let mut at = 0;
        for entry in self.entries() {
            if HEADER_BYTES + self.used - at + needed <= BUCKET_BYTES {
                break;
            }
            gone(&entry, false);
            at += entry.stored_bytes();
            dropped += 1;
        }
        self.cut(0, at, dropped);
        dropped
    }

    /// Drops the farthest entries until there is room; of equals, the oldest. A search that finds none at far first
    /// ages all older entries until one is. Entries of this rewrite do not age, and go only when no older one is left:
    /// their hits have had no time to come.
    fn drop_farthest(&mut self, needed: usize, gone: &dyn Fn(&BucketEntry<'_>, bool)) -> u16 {
        let mut dropped = 0;
        while HEADER_BYTES + self.used + needed > BUCKET_BYTES {
            let (at, steps) = self.farthest();
            self.age(steps);
            let entry = self.entry_at(at).expect("a full bucket has entries");
            gone(&entry, false);
            self.cut(at, at + entry.stored_bytes(), 1);
            dropped += 1;
        }
        dropped
    }

    /// Where the entry starts that goes next, and by how much all older entries age first.
    fn farthest(&self) -> (usize, u8) {
        let (mut at, mut farthest) = (0, (0, Prediction::NEAR));
        while at < self.older
            && let Some(entry) = self.entry_at(at)
        {
            if at == 0 || entry.prediction > farthest.1 {
                farthest = (at, entry.prediction);
            }
            at += entry.stored_bytes();
        }
        (farthest.0, farthest.1.steps_to_far())
    }

    /// Ages all entries that are older than this rewrite.
    fn age(&mut self, steps: u8) {
        let mut at = 0;
        while steps > 0
            && at < self.older
            && let Some(entry) = self.entry_at(at)
        {
            let (stored, prediction) = (entry.stored_bytes(), entry.prediction.aged(steps));
            self.predict(at, prediction);
            at += stored;
        }
    }

    /// Sets the prediction of the entry that starts `at` bytes into the entries.
    fn predict(&mut self, at: usize, prediction: Prediction) {
        let entries = &mut self.buffer.as_mut_slice()[HEADER_BYTES..HEADER_BYTES + self.used];
        let (header, _) =
            EntryHeader::mut_from_prefix(&mut entries[at..]).expect("an entry starts here");
        let key_bytes = usize::from(header.key_bytes.get() & KEY_LENGTH);
        header.key_bytes = key_field(key_bytes, prediction).into();
    }

    /// Removes bytes `from..to` of the entries, which must be `entries` whole entries.
    fn cut(&mut self, from: usize, to: usize, entries: u16) {
        assert!(from <= to && to <= self.used, "{from} to {to} of {}", self.used);
        assert!(entries <= self.count, "{entries} of {} entries", self.count);
        let moved = HEADER_BYTES + to..HEADER_BYTES + self.used;
        self.buffer.as_mut_slice().copy_within(moved, HEADER_BYTES + from);
        self.used -= to - from;
        self.count -= entries;
        self.older -= to.min(self.older) - from.min(self.older);
        debug_assert_eq!(self.used == 0, self.count == 0, "an entry has bytes");
    }
}

/// Iterates over the entries of a bucket. In unchecked bytes it stops at the first entry that does not fit.
pub(crate) struct Entries<'a> {
    bytes: &'a [u8],
}

impl<'a> Iterator for Entries<'a> {
    type Item = BucketEntry<'a>;

    fn next(&mut self) -> Option<BucketEntry<'a>> {
        let (header, rest) = EntryHeader::ref_from_prefix(self.bytes).ok()?;
        let value_bytes = header.value_bytes.get();
        let (flags, rest) = match value_bytes & HAS_FLAGS {
            0 => (0, rest),
            _ => {
                let (flags, rest) = U32::ref_from_prefix(rest).ok()?;
                (flags.get(), rest)
            }
        };
        let key_field = header.key_bytes.get();
        let (key, rest) = rest.split_at_checked(usize::from(key_field & KEY_LENGTH))?;
        let (value, rest) = rest.split_at_checked(usize::from(value_bytes & LENGTH))?;
        // Written flags are never 0: the entry's length depends on it.
        if value_bytes & HAS_FLAGS != 0 && flags == 0 {
            return None;
        }
        self.bytes = rest;
        let tiers = Tiers::on_flash(value_bytes & FLASH_ONLY != 0);
        let (tag, expiry_s) = (header.tag.get(), header.expiry_s.get());
        let prediction = Prediction::of_stored(key_field >> KEY_LENGTH_BITS);
        Some(BucketEntry { tag, key, value, expiry_s, flags, tiers, prediction })
    }
}

#[deny(clippy::indexing_slicing)]
fn check(bytes: &[u8], wanted: AcceptedWrites) -> Result<(usize, &BucketHeader), BadBucket> {
    let known = |header: &&BucketHeader| {
        header.magic == BUCKET_MAGIC && header.version.get() == FORMAT_VERSION
    };
    let Some(header) =
        BucketHeader::ref_from_prefix(bytes).ok().map(|(header, _)| header).filter(known)
    else {
        return Err(BadBucket::Foreign);
    };
    if bytes.len() != BUCKET_BYTES {
        return Err(BadBucket::Foreign);
    }
    let used = usize::from(header.used.get());
    if used > BUCKET_BYTES - HEADER_BYTES
        || header.checksum.get() != checksum(wanted.number, bytes, used)
    {
        return Err(BadBucket::Corrupt);
    }
    let epochs = wanted.oldest_epoch..=wanted.latest_epoch;
    if header.cache != wanted.cache.bytes()
        || !epochs.contains(&u64::from(header.epoch.get()))
        || wanted.generation.is_some_and(|wanted| header.generation.get() != wanted)
    {
        return Err(BadBucket::Stale);
    }
    // The checksum covers what this program wrote; this check is for content that another program wrote with a valid
    // checksum.
    let mut entries =
        Entries { bytes: bytes.get(HEADER_BYTES..HEADER_BYTES + used).unwrap_or(&[]) };
    let found = entries.by_ref().take_while(|entry| !entry.key.is_empty()).count();
    if found != usize::from(header.count.get()) || !entries.bytes.is_empty() {
        return Err(BadBucket::Corrupt);
    }
    Ok((used, header))
}

/// The bucket's number comes first: a bucket written to another bucket's place is detected as damaged.
fn checksum(number: u64, bytes: &[u8], used: usize) -> u32 {
    let place = larder_checksum::crc32c(&number.to_le_bytes());
    larder_checksum::crc32c_append(
        place,
        bytes.get(CHECKED_FROM..HEADER_BYTES + used).unwrap_or(&[]),
    )
}

fn narrow(number: u64) -> [u8; NARROW_BYTES] {
    assert!(number < 1 << (8 * NARROW_BYTES), "a number of 48 bits");
    *number.to_le_bytes().first_chunk().expect("six of eight bytes")
}

fn wide([a, b, c, d, e, f]: [u8; NARROW_BYTES]) -> u64 {
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

/// A key's length with the prediction above it.
fn key_field(key_bytes: usize, prediction: Prediction) -> u16 {
    assert!(key_bytes <= usize::from(KEY_LENGTH), "checked before it comes here");
    let key_bytes = u16::try_from(key_bytes).expect("13 bits");
    key_bytes | prediction.stored() << KEY_LENGTH_BITS
}

fn length(part: &[u8]) -> u16 {
    u16::try_from(part.len()).expect("a part is shorter than its bucket")
}

fn header_of(bucket: &mut [u8]) -> &mut BucketHeader {
    let (header, _) = bucket.split_at_mut(HEADER_BYTES);
    BucketHeader::mut_from_bytes(header).expect("it is as long as a header")
}

/// For the fuzzer: gives arbitrary bytes the header of bucket 0 in epoch 0, generation 0, including the checksum.
pub(crate) fn forge(mut buffer: IoBuffer) -> IoBuffer {
    let bytes = buffer.as_mut_slice();
    let header = header_of(bytes);
    let (count, used) = (header.count, header.used);
    *header = BucketHeader {
        magic: BUCKET_MAGIC,
        version: FORMAT_VERSION.into(),
        count,
        checksum: 0.into(),
        used,
        generation: 0.into(),
        cache: CacheId::ZERO.bytes(),
        stamp: [0; NARROW_BYTES],
        epoch: 0.into(),
    };
    header_of(bytes).checksum = checksum(0, bytes, usize::from(used.get())).into();
    buffer
}

#[cfg(test)]
mod tests;
