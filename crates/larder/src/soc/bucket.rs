//! One 4 KiB bucket of the small-object engine, as it lies on flash. Little-endian.
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
//!           2  key length
//!           2  value length (14 bits); bit 14: for flash only; the top bit: there are flags
//!           4  expiry, second of the cache's clock; 0 is never
//!           4  flags, if they are not 0
//!           *  key, value
//! ```
//!
//! A bucket is a FIFO queue: new entries go to the end, room is made at the front. Bytes behind the
//! last entry mean nothing. A [`Bucket`] exists only over bytes that passed every check, so its
//! methods trust lengths.

use std::mem::offset_of;

use larder_device::IoBuffer;
use larder_device::label::FORMAT_VERSION;
use larder_log::CacheId;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::cache::Tiers;
use crate::item::{Fetched, Kind, is_expired};
use crate::key::{KeyHash, KeyHasher};

/// Bytes of a bucket.
pub(crate) const BUCKET_BYTES: usize = 4096;
pub(crate) const BUCKET_MAGIC: [u8; 4] = *b"LBKT";

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
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
const HEADER_BYTES: usize = size_of::<Header>();
const _: () = assert!(HEADER_BYTES == 32);
/// The checksum is of what follows it.
const CHECKED_FROM: usize = offset_of!(Header, used);

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

/// Identities and stamps are stored in so many bytes.
const NARROW_BYTES: usize = 6;
const FLAGS_BYTES: usize = size_of::<U32>();
/// In the value's length.
const HAS_FLAGS: u16 = 1 << 15;
/// The same.
const FLASH_ONLY: u16 = 1 << 14;
const LENGTH: u16 = FLASH_ONLY - 1;

/// Bytes that the entries of a bucket can take.
pub(super) const ENTRIES_BYTES_MAX: usize = BUCKET_BYTES - HEADER_BYTES;
/// Longest object (key and value) that a bucket can hold.
pub(crate) const OBJECT_BYTES_MAX: usize =
    BUCKET_BYTES - HEADER_BYTES - ENTRY_HEADER_BYTES - FLAGS_BYTES;

/// Why bytes are not the bucket that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadBucket {
    /// Not written by this program, or not in a version that it knows.
    Foreign,
    /// Damaged, or the bytes of another place.
    Corrupt,
    /// Whole, but of another cache, from an epoch whose buckets are void, or not what was written
    /// last: the device lost a write.
    Stale,
}

/// Which writing of which bucket the bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BucketIdentity {
    pub(crate) cache: CacheId,
    pub(crate) number: u64,
    pub(crate) epoch: u64,
    pub(crate) generation: u16,
    pub(crate) stamp: u64,
}

/// Which writings of which bucket are acceptable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) cache: CacheId,
    pub(crate) number: u64,
    /// First and last epoch to believe. What claims to come from a later one was not written by this
    /// cache.
    pub(crate) oldest_epoch: u64,
    pub(crate) latest_epoch: u64,
    /// `None` where nobody knows.
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
}

/// One object in a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) tag: u16,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) expiry_s: u32,
    pub(crate) flags: u32,
    pub(crate) tiers: Tiers,
}

impl Entry<'_> {
    pub(super) fn stored_bytes(&self) -> usize {
        self.header_bytes() + self.key.len() + self.value.len()
    }

    fn header_bytes(&self) -> usize {
        ENTRY_HEADER_BYTES + if self.flags == 0 { 0 } else { FLAGS_BYTES }
    }
}

impl Bucket {
    /// An empty bucket. What the buffer holds does not matter.
    pub(crate) fn empty(buffer: IoBuffer) -> Self {
        assert_eq!(buffer.len(), BUCKET_BYTES);
        Self { buffer, used: 0, count: 0, generation: 0, stamp: 0 }
    }

    /// Checks what was read from a bucket's place. A buffer that is not the bucket asked for is
    /// given back with the reason.
    pub(crate) fn parse(buffer: IoBuffer, wanted: Wanted) -> Result<Self, (BadBucket, IoBuffer)> {
        match check(buffer.as_slice(), wanted) {
            Ok((used, header)) => {
                let (count, generation) = (header.count.get(), header.generation.get());
                let stamp = wide(header.stamp);
                Ok(Self { buffer, used, count, generation, stamp })
            }
            Err(reason) => Err((reason, buffer)),
        }
    }

    /// As it was read.
    pub(crate) fn generation(&self) -> u16 {
        self.generation
    }

    /// As it was read.
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Takes out what has one of these hashes, which are in order.
    pub(crate) fn remove_dead(&mut self, dead: &[u64], hasher: KeyHasher) {
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

    /// The object of `key`, and where its entry begins.
    pub(crate) fn find(&self, hash: KeyHash, key: &[u8]) -> Option<(usize, Entry<'_>)> {
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

    /// The object whose entry begins `at` bytes into the entries, with the bucket's buffer.
    pub(crate) fn into_fetched(self, hash: KeyHash, at: usize) -> Fetched {
        let entry = self.entry_at(at).expect("the caller found it there");
        let (key_bytes, value_bytes) = (entry.key.len(), entry.value.len());
        let (expiry_s, flags, tiers) = (entry.expiry_s, entry.flags, entry.tiers);
        let at = HEADER_BYTES + at + entry.header_bytes();
        let (buffer, kind) = (self.buffer, Kind::Whole);
        Fetched { buffer, hash, at, key_bytes, value_bytes, expiry_s, flags, kind, tiers }
    }

    /// Takes `key` out. Says whether it was there.
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

    /// [`Bucket::push_and_tell`], where nobody wants to know.
    #[cfg(test)]
    pub(crate) fn push(&mut self, entry: Entry<'_>, now_s: u32) -> (u16, u16) {
        self.push_and_tell(entry, now_s, &|_, _| ())
    }

    /// Puts an object at the end, dropping expired objects and then the oldest ones to make room.
    /// Returns how many were dropped: (expired, evicted). The key must not be in the bucket, and
    /// the object not longer than [`OBJECT_BYTES_MAX`].
    pub(crate) fn push_and_tell(
        &mut self,
        entry: Entry<'_>,
        now_s: u32,
        gone: &dyn Fn(&Entry<'_>, bool),
    ) -> (u16, u16) {
        let needed = entry.stored_bytes();
        assert!(needed <= BUCKET_BYTES - HEADER_BYTES, "checked at the door");
        let mut dropped = (0, 0);
        if HEADER_BYTES + self.used + needed > BUCKET_BYTES {
            dropped.0 = self.drop_expired(now_s, gone);
            dropped.1 = self.drop_oldest(needed, gone);
        }
        let at = HEADER_BYTES + self.used;
        let room = &mut self.buffer.as_mut_slice()[at..at + needed];
        let only = if entry.tiers == Tiers::FlashOnly { FLASH_ONLY } else { 0 };
        let marked = if entry.flags == 0 { 0 } else { HAS_FLAGS };
        let header = EntryHeader {
            tag: entry.tag.into(),
            key_bytes: length(entry.key).into(),
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

    /// Bytes of entries that can be put in before anything is dropped that has not expired.
    pub(crate) fn room(&self, now_s: u32) -> usize {
        let alive = self.entries().filter(|entry| !is_expired(entry.expiry_s, now_s));
        ENTRIES_BYTES_MAX - alive.map(|entry| entry.stored_bytes()).sum::<usize>()
    }

    /// Writes header and checksum; the bytes can go to flash.
    pub(crate) fn seal(mut self, identity: BucketIdentity) -> IoBuffer {
        let used = u16::try_from(self.used).expect("a bucket is shorter than 64 KiB");
        let bytes = self.buffer.as_mut_slice();
        *header_of(bytes) = Header {
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

    fn drop_expired(&mut self, now_s: u32, gone: &dyn Fn(&Entry<'_>, bool)) -> u16 {
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

    /// The entry that begins `at` bytes into the entries.
    fn entry_at(&self, at: usize) -> Option<Entry<'_>> {
        let entries = &self.buffer.as_slice()[HEADER_BYTES..HEADER_BYTES + self.used];
        Entries { bytes: &entries[at..] }.next()
    }

    fn drop_oldest(&mut self, needed: usize, gone: &dyn Fn(&Entry<'_>, bool)) -> u16 {
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

    /// Removes the bytes `from..to` of the entries, which are `entries` whole ones.
    fn cut(&mut self, from: usize, to: usize, entries: u16) {
        let moved = HEADER_BYTES + to..HEADER_BYTES + self.used;
        self.buffer.as_mut_slice().copy_within(moved, HEADER_BYTES + from);
        self.used -= to - from;
        self.count -= entries;
    }
}

/// Walks the entries of a bucket. Over unchecked bytes it stops at the first entry that does not
/// fit.
pub(crate) struct Entries<'a> {
    bytes: &'a [u8],
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let (header, rest) = EntryHeader::ref_from_prefix(self.bytes).ok()?;
        let value_bytes = header.value_bytes.get();
        let (flags, rest) = match value_bytes & HAS_FLAGS {
            0 => (0, rest),
            _ => {
                let (flags, rest) = U32::ref_from_prefix(rest).ok()?;
                (flags.get(), rest)
            }
        };
        let (key, rest) = rest.split_at_checked(usize::from(header.key_bytes.get()))?;
        let (value, rest) = rest.split_at_checked(usize::from(value_bytes & LENGTH))?;
        // Written flags are not 0: the entry's length depends on it.
        if value_bytes & HAS_FLAGS != 0 && flags == 0 {
            return None;
        }
        self.bytes = rest;
        let tiers = Tiers::on_flash(value_bytes & FLASH_ONLY != 0);
        let (tag, expiry_s) = (header.tag.get(), header.expiry_s.get());
        Some(Entry { tag, key, value, expiry_s, flags, tiers })
    }
}

#[deny(clippy::indexing_slicing)]
fn check(bytes: &[u8], wanted: Wanted) -> Result<(usize, &Header), BadBucket> {
    let known =
        |header: &&Header| header.magic == BUCKET_MAGIC && header.version.get() == FORMAT_VERSION;
    let Some(header) = Header::ref_from_prefix(bytes).ok().map(|(header, _)| header).filter(known)
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
    // The checksum vouches for what this program wrote; this check is for what somebody else wrote
    // with a checksum.
    let mut entries =
        Entries { bytes: bytes.get(HEADER_BYTES..HEADER_BYTES + used).unwrap_or(&[]) };
    let found = entries.by_ref().take_while(|entry| !entry.key.is_empty()).count();
    if found != usize::from(header.count.get()) || !entries.bytes.is_empty() {
        return Err(BadBucket::Corrupt);
    }
    Ok((used, header))
}

/// The number first: a bucket that was written to another's place is damaged.
fn checksum(number: u64, bytes: &[u8], used: usize) -> u32 {
    let place = crc32c::crc32c(&number.to_le_bytes());
    crc32c::crc32c_append(place, bytes.get(CHECKED_FROM..HEADER_BYTES + used).unwrap_or(&[]))
}

fn narrow(number: u64) -> [u8; NARROW_BYTES] {
    assert!(number < 1 << (8 * NARROW_BYTES), "a number of 48 bits");
    *number.to_le_bytes().first_chunk().expect("six of eight bytes")
}

fn wide([a, b, c, d, e, f]: [u8; NARROW_BYTES]) -> u64 {
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

fn length(part: &[u8]) -> u16 {
    u16::try_from(part.len()).expect("a part is shorter than its bucket")
}

fn header_of(bucket: &mut [u8]) -> &mut Header {
    let (header, _) = bucket.split_at_mut(HEADER_BYTES);
    Header::mut_from_bytes(header).expect("it is as long as a header")
}

/// Gives arbitrary bytes the marks of a bucket 0 in epoch 0, generation 0, checksum included: for
/// the fuzzer.
pub(crate) fn forge(mut buffer: IoBuffer) -> IoBuffer {
    let bytes = buffer.as_mut_slice();
    let header = header_of(bytes);
    let (count, used) = (header.count, header.used);
    *header = Header {
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IDENTITY: BucketIdentity =
        BucketIdentity { cache: CACHE, number: 5, epoch: 3, generation: 9, stamp: 1 << 40 };
    const CACHE: CacheId = CacheId::ZERO;
    const WANTED: Wanted =
        Wanted { cache: CACHE, number: 5, oldest_epoch: 3, latest_epoch: 3, generation: Some(9) };
    const FIRST: BucketIdentity =
        BucketIdentity { cache: CacheId::ZERO, number: 0, epoch: 0, generation: 0, stamp: 0 };
    const ZERO: Wanted = Wanted {
        cache: CacheId::ZERO,
        number: 0,
        oldest_epoch: 0,
        latest_epoch: 0,
        generation: Some(0),
    };

    fn entry<'a>(key: &'a [u8], value: &'a [u8], expiry_s: u32) -> Entry<'a> {
        let (tag, tiers) = (KeyHash::of(key).tag(), Tiers::on_flash(expiry_s % 2 == 1));
        Entry { tag, key, value, expiry_s, flags: expiry_s / 2, tiers }
    }

    fn empty() -> Bucket {
        let mut buffer = IoBuffer::zeroed(BUCKET_BYTES);
        buffer.as_mut_slice().fill(0xaa);
        Bucket::empty(buffer)
    }

    fn sealed(entries: &[(&[u8], &[u8])]) -> IoBuffer {
        let mut bucket = empty();
        for (key, value) in entries {
            bucket.push(entry(key, value, 0), 0);
        }
        bucket.seal(IDENTITY)
    }

    fn refusal(buffer: IoBuffer, wanted: Wanted) -> Option<BadBucket> {
        Bucket::parse(buffer, wanted).err().map(|(reason, _)| reason)
    }

    #[test]
    fn what_was_sealed_is_found_again() {
        let bucket = Bucket::parse(sealed(&[(b"a", b"one"), (b"bc", b"")]), WANTED).unwrap();
        assert_eq!((bucket.generation(), bucket.stamp()), (9, 1 << 40));
        assert_eq!(bucket.find(KeyHash::of(b"a"), b"a").unwrap().1.value, b"one");
        assert_eq!(bucket.find(KeyHash::of(b"bc"), b"bc").unwrap().1.value, b"");
        assert!(bucket.find(KeyHash::of(b"d"), b"d").is_none());
    }

    /// In version 9 of the formats.
    #[test]
    fn a_bucket_has_its_bytes_in_place() {
        let mut bucket = empty();
        let plain = Entry { tag: 0x0102, flags: 0, tiers: Tiers::Both, ..entry(b"k", b"plain", 0) };
        let full = Entry {
            tag: 0x1112,
            key: b"key",
            value: b"value",
            expiry_s: 0x2122_2324,
            flags: 0x3132_3334,
            tiers: Tiers::FlashOnly,
        };
        bucket.push(plain, 0);
        bucket.push(full, 0);
        let identity = BucketIdentity {
            cache: CacheId::from_number(0x4142_4344_4546),
            number: 0x5152_5354_5556_5758,
            epoch: 0x6162_6364,
            generation: 0x7172,
            stamp: 0x0182_8384_8586,
        };
        let sealed = bucket.seal(identity);
        let used: String =
            sealed.as_slice()[..70].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            used,
            "4c424b5409000200b1d8b18b2600727146454443424186858483820164636261020101000500000000006b706c61696e\
             1211030005c024232221343332316b657976616c7565"
        );
    }

    #[test]
    fn identity_is_checked() {
        let refusal_of = |identity| refusal(sealed(&[(b"a", b"b")]), identity);
        assert_eq!(refusal_of(WANTED), None);
        assert_eq!(refusal_of(Wanted { oldest_epoch: 1, generation: None, ..WANTED }), None);
        let number = Wanted { number: 6, ..WANTED };
        assert_eq!(refusal_of(number), Some(BadBucket::Corrupt));
        let epoch = Wanted { oldest_epoch: 4, latest_epoch: 9, ..WANTED };
        assert_eq!(refusal_of(epoch), Some(BadBucket::Stale));
        let future = Wanted { oldest_epoch: 1, latest_epoch: 2, ..WANTED };
        assert_eq!(refusal_of(future), Some(BadBucket::Stale));
        let another = Wanted { cache: CacheId::from_number(1), ..WANTED };
        assert_eq!(refusal_of(another), Some(BadBucket::Stale));
        let generation = Wanted { generation: Some(10), ..WANTED };
        assert_eq!(refusal_of(generation), Some(BadBucket::Stale));
        assert_eq!(refusal(IoBuffer::zeroed(BUCKET_BYTES), ZERO), Some(BadBucket::Foreign));
        assert_eq!(refusal(IoBuffer::zeroed(100), ZERO), Some(BadBucket::Foreign));
    }

    #[test]
    fn the_dead_are_taken_out_and_no_others() {
        let mut bucket = empty();
        [b"a", b"b", b"c", b"d"].iter().for_each(|key| _ = bucket.push(entry(*key, b"x", 0), 0));
        let mut dead: Vec<u64> = [b"a", b"c", b"z"].iter().map(|key| KeyHash::of(*key).0).collect();
        dead.sort_unstable();
        bucket.remove_dead(&dead, KeyHasher::UNSEEDED);
        let left: Vec<&[u8]> = bucket.entries().map(|entry| entry.key).collect();
        assert_eq!(left, [b"b", b"d"]);
    }

    #[test]
    fn expired_objects_make_room_before_the_oldest_do() {
        let mut bucket = empty();
        bucket.push(entry(b"old", &[1; 1000], 0), 0);
        bucket.push(entry(b"dead", &[2; 1000], 10), 0);
        bucket.push(entry(b"young", &[3; 1000], 0), 0);
        assert_eq!(bucket.push(entry(b"new", &[4; 1500], 0), 20), (1, 0));
        assert!(bucket.find(KeyHash::of(b"old"), b"old").is_some());
        assert_eq!(bucket.push(entry(b"newer", &[5; 1500], 0), 20), (0, 1));
        assert!(bucket.find(KeyHash::of(b"old"), b"old").is_none());
        assert_eq!(bucket.entries().count(), 3);
    }

    #[test]
    fn the_largest_object_fits_an_empty_bucket() {
        let mut bucket = empty();
        bucket.push(entry(b"small", b"object", 0), 0);
        let value = vec![9; OBJECT_BYTES_MAX - 3];
        assert_eq!(bucket.push(entry(b"big", &value, 0), 0), (0, 1));
        assert!(Bucket::parse(bucket.seal(FIRST), ZERO).is_ok());
    }

    proptest! {
        /// Flip any bit that counts: the bucket is refused, never misread.
        #[test]
        fn no_bit_flip_passes(bit in 0..(HEADER_BYTES + 28) * 8) {
            let mut buffer = sealed(&[(b"k1", b"v1"), (b"k2", b"v2")]);
            buffer.as_mut_slice()[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Bucket::parse(buffer, WANTED).is_err());
        }

        /// Even a valid checksum over nonsense is no reason to panic.
        #[test]
        fn arbitrary_bytes_never_panic(
            bytes in prop::collection::vec(any::<u8>(), BUCKET_BYTES..=BUCKET_BYTES),
            used in 0..=4064_u16,
        ) {
            let mut buffer = IoBuffer::zeroed(BUCKET_BYTES);
            let room = buffer.as_mut_slice();
            room.copy_from_slice(&bytes);
            header_of(room).used = used.into();
            if let Ok(bucket) = Bucket::parse(forge(buffer), ZERO) {
                prop_assert!(bucket.entries().count() < BUCKET_BYTES);
            }
        }

        /// A bucket behaves like a queue of bounded size.
        #[test]
        fn agrees_with_a_queue(
            ops in prop::collection::vec((any::<bool>(), 0_u8..30, 0_usize..900), 1..80),
        ) {
            let mut buffer = empty().seal(FIRST);
            let mut queue: Vec<(u8, usize)> = Vec::new();
            for (remove, key, value_bytes) in ops {
                let mut bucket = Bucket::parse(buffer, ZERO).unwrap();
                let hash = KeyHash::of(&[key]);
                prop_assert_eq!(bucket.remove(hash, &[key]), queue.iter().any(|&(k, _)| k == key));
                queue.retain(|&(k, _)| k != key);
                if !remove {
                    let (_, evicted) = bucket.push(entry(&[key], &vec![key; value_bytes], 0), 0);
                    queue.drain(..usize::from(evicted));
                    queue.push((key, value_bytes));
                }
                let found: Vec<_> = bucket.entries().map(|e| (e.key[0], e.value.len())).collect();
                prop_assert_eq!(&found, &queue);
                buffer = bucket.seal(FIRST);
            }
        }
    }
}
