//! Tests of buckets: what goes in comes out, and damage is detected.

use super::*;
use proptest::prelude::*;

const IDENTITY: BucketIdentity =
    BucketIdentity { cache: CACHE, number: 5, epoch: 3, generation: 9, stamp: 1 << 40 };
const CACHE: CacheId = CacheId::ZERO;
const WANTED: AcceptedWrites = AcceptedWrites {
    cache: CACHE,
    number: 5,
    oldest_epoch: 3,
    latest_epoch: 3,
    generation: Some(9),
};
const FIRST: BucketIdentity =
    BucketIdentity { cache: CacheId::ZERO, number: 0, epoch: 0, generation: 0, stamp: 0 };
const ZERO: AcceptedWrites = AcceptedWrites {
    cache: CacheId::ZERO,
    number: 0,
    oldest_epoch: 0,
    latest_epoch: 0,
    generation: Some(0),
};

fn entry<'a>(key: &'a [u8], value: &'a [u8], expiry_s: u32) -> BucketEntry<'a> {
    let (tag, tiers) = (KeyHash::of(key).tag(), Tiers::on_flash(expiry_s % 2 == 1));
    BucketEntry { tag, key, value, expiry_s, flags: expiry_s / 2, tiers }
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

fn refusal(buffer: IoBuffer, wanted: AcceptedWrites) -> Option<BadBucket> {
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
    let plain =
        BucketEntry { tag: 0x0102, flags: 0, tiers: Tiers::Both, ..entry(b"k", b"plain", 0) };
    let full = BucketEntry {
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
    let used: String = sealed.as_slice()[..70].iter().map(|byte| format!("{byte:02x}")).collect();
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
    assert_eq!(refusal_of(AcceptedWrites { oldest_epoch: 1, generation: None, ..WANTED }), None);
    let number = AcceptedWrites { number: 6, ..WANTED };
    assert_eq!(refusal_of(number), Some(BadBucket::Corrupt));
    let epoch = AcceptedWrites { oldest_epoch: 4, latest_epoch: 9, ..WANTED };
    assert_eq!(refusal_of(epoch), Some(BadBucket::Stale));
    let future = AcceptedWrites { oldest_epoch: 1, latest_epoch: 2, ..WANTED };
    assert_eq!(refusal_of(future), Some(BadBucket::Stale));
    let another = AcceptedWrites { cache: CacheId::from_number(1), ..WANTED };
    assert_eq!(refusal_of(another), Some(BadBucket::Stale));
    let generation = AcceptedWrites { generation: Some(10), ..WANTED };
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

    /// Even a valid checksum over arbitrary bytes causes no panic.
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
