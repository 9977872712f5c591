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
    let prediction = Prediction::LONG;
    BucketEntry { tag, key, value, expiry_s, flags: expiry_s / 2, tiers, prediction }
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
        prediction: Prediction::NEAR,
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
        "4c424b54090002009204a4ce2600727146454443424186858483820164636261020101000500000000006b706c61696e\
         121103c005c024232221343332316b657976616c7565"
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

/// What a bucket does that evicts by predictions, in a list: key, bytes, prediction as a number, and whether the entry
/// is of this rewrite.
#[derive(Default)]
struct RripModel(Vec<(u8, usize, u8, bool)>);

impl RripModel {
    fn begin_rewrite(&mut self, hits: Hits) -> usize {
        let mut promoted = 0;
        for (position, entry) in self.0.iter_mut().enumerate() {
            entry.3 = false;
            if hits.has(position) {
                entry.2 = 0;
                promoted += 1;
            }
        }
        promoted
    }

    fn remove(&mut self, key: u8) -> bool {
        let before = self.0.len();
        self.0.retain(|entry| entry.0 != key);
        self.0.len() < before
    }

    /// Returns the evicted keys, none of them expired.
    fn push(&mut self, key: u8, bytes: usize) -> Vec<(u8, bool)> {
        let mut gone = Vec::new();
        while self.0.iter().map(|entry| entry.1).sum::<usize>() + bytes > ENTRIES_BYTES_MAX {
            if self.0.iter().all(|entry| entry.3) {
                gone.push((self.0.remove(0).0, false));
                continue;
            }
            while !self.0.iter().any(|entry| !entry.3 && entry.2 == 7) {
                self.0.iter_mut().filter(|entry| !entry.3).for_each(|entry| entry.2 += 1);
            }
            let far = self.0.iter().position(|entry| !entry.3 && entry.2 == 7).unwrap();
            gone.push((self.0.remove(far).0, false));
        }
        self.0.push((key, bytes, 6, true));
        gone
    }

    fn content(&self) -> Vec<(u8, Prediction)> {
        let prediction = |number: u8| Prediction::NEAR.aged(number);
        self.0.iter().map(|&(key, _, number, _)| (key, prediction(number))).collect()
    }
}

/// Puts 1200 bytes under `key`, after hits of the objects at these positions.
fn rewrite(buffer: IoBuffer, hit: &[usize], key: &[u8], eviction: SocEviction) -> IoBuffer {
    let mut bucket = Bucket::parse(buffer, ZERO).unwrap();
    bucket.promote(hit.iter().fold(Hits::default(), |hits, &position| hits.with(position)));
    bucket.push_and_tell(entry(key, &[1; 1200], 0), (eviction, 0), &|_, _| ());
    bucket.seal(FIRST)
}

fn keys_of(buffer: IoBuffer) -> String {
    let bucket = Bucket::parse(buffer, ZERO).unwrap();
    bucket.entries().map(|entry| char::from(entry.key[0])).collect()
}

#[test]
fn an_object_with_a_hit_outlives_those_without() {
    let filled = |eviction| {
        let mut buffer = empty().seal(FIRST);
        for key in [b"a", b"b", b"c", b"d"] {
            let hit: &[usize] = if key == b"d" { &[0] } else { &[] };
            buffer = rewrite(buffer, hit, key, eviction);
        }
        buffer
    };
    // Three objects fit. The hit was of "a", the oldest.
    assert_eq!(keys_of(filled(SocEviction::Fifo)), "bcd");
    assert_eq!(keys_of(filled(SocEviction::Rrip)), "acd");
    // Without another hit it ages by one with each second rewrite: it takes twelve to get from near to far.
    let mut buffer = filled(SocEviction::Rrip);
    for key in [b"e", b"f", b"g", b"h", b"i", b"j", b"k", b"l", b"m", b"n", b"o"] {
        buffer = rewrite(buffer, &[], key, SocEviction::Rrip);
        let bucket = Bucket::parse(buffer, ZERO).unwrap();
        assert!(bucket.find(KeyHash::of(b"a"), b"a").is_some(), "until {key:?}");
        buffer = bucket.seal(FIRST);
    }
    assert_eq!(keys_of(rewrite(buffer, &[], b"p", SocEviction::Rrip)), "nop");
}

/// The bytes of a bucket do not depend on what it evicts by, until there was a hit.
#[test]
fn either_eviction_reads_what_the_other_wrote() {
    use SocEviction::{Fifo, Rrip};
    let plain = |eviction| rewrite(empty().seal(FIRST), &[], b"a", eviction);
    assert_eq!(plain(Fifo).as_slice()[..1100], plain(Rrip).as_slice()[..1100]);
    let mut buffer = plain(Fifo);
    buffer = rewrite(buffer, &[], b"b", Rrip);
    buffer = rewrite(buffer, &[0], b"c", Rrip);
    buffer = rewrite(buffer, &[], b"d", Rrip);
    assert_eq!(keys_of(rewrite(plain(Rrip), &[], b"x", Fifo)), "ax");
    let bucket = Bucket::parse(buffer, ZERO).unwrap();
    assert_eq!(bucket.entries().map(|entry| entry.key).collect::<Vec<_>>(), [b"a", b"c", b"d"]);
    // The hit of "a" does not count in a FIFO, and the prediction stays with the others.
    assert_eq!(keys_of(rewrite(bucket.seal(FIRST), &[], b"e", Fifo)), "cde");
}

#[test]
fn objects_of_one_rewrite_push_out_older_ones_and_then_one_another() {
    let mut buffer = empty().seal(FIRST);
    buffer = rewrite(buffer, &[], b"a", SocEviction::Rrip);
    buffer = rewrite(buffer, &[], b"b", SocEviction::Rrip);
    let mut bucket = Bucket::parse(buffer, ZERO).unwrap();
    bucket.promote(Hits::default().with(0).with(1));
    for key in [b"c", b"d", b"e", b"f"] {
        bucket.push_and_tell(entry(key, &[1; 1200], 0), (SocEviction::Rrip, 0), &|_, _| ());
    }
    // Even near ones: each new object is stored, as its caller was told.
    assert_eq!(keys_of(bucket.seal(FIRST)), "def");
}

#[test]
fn expired_objects_make_room_before_far_ones_do() {
    let mut bucket = empty();
    let near = |key, expiry_s| {
        let value: &[u8] = &[1; 1200];
        BucketEntry { prediction: Prediction::NEAR, ..entry(key, value, expiry_s) }
    };
    bucket.push(BucketEntry { prediction: Prediction::FAR, ..near(b"far", 0) }, 0);
    bucket.push(near(b"dead", 10), 0);
    bucket.push(near(b"near", 0), 0);
    let mut bucket = Bucket::parse(bucket.seal(FIRST), ZERO).unwrap();
    let mut push = |key| bucket.push_and_tell(near(key, 0), (SocEviction::Rrip, 20), &|_, _| ());
    assert_eq!((push(b"new"), push(b"newer")), ((1, 0), (0, 1)));
    assert!(bucket.find(KeyHash::of(b"far"), b"far").is_none());
    assert_eq!(keys_of(bucket.seal(FIRST)), "nnn");
}

#[test]
fn a_position_is_that_of_the_entry_that_was_found() {
    let mut bucket = empty();
    for key in [&b"a"[..], b"bb", b"ccc"] {
        bucket.push(entry(key, b"value", 3), 0);
    }
    for (position, key) in [&b"a"[..], b"bb", b"ccc"].into_iter().enumerate() {
        let (at, _) = bucket.find(KeyHash::of(key), key).unwrap();
        assert_eq!(bucket.position_of(at), position);
    }
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

    /// Whatever a bucket evicts by, its bytes are those of the entries, with all their predictions.
    #[test]
    fn predictions_are_read_as_they_were_written(
        stored in prop::collection::vec(0..8_u16, 1..20),
        hit in prop::collection::vec(0..40_usize, 0..5),
    ) {
        let mut bucket = empty();
        for (number, &stored) in (0_u8..).zip(&stored) {
            let prediction = Prediction::of_stored(stored);
            bucket.push(BucketEntry { prediction, ..entry(&[number; 3], b"value", 7) }, 0);
        }
        let mut read = Bucket::parse(bucket.seal(FIRST), ZERO).unwrap();
        let hits = hit.iter().fold(Hits::default(), |hits, &position| hits.with(position));
        read.promote(hits);
        let again = Bucket::parse(read.seal(FIRST), ZERO).unwrap();
        let found: Vec<_> = again.entries().map(|entry| entry.prediction).collect();
        let wanted = stored.iter().enumerate().map(|(position, &stored)| {
            if hits.has(position) { Prediction::NEAR } else { Prediction::of_stored(stored) }
        });
        prop_assert_eq!(found, wanted.collect::<Vec<_>>());
        let whole = |entry: BucketEntry<'_>| (entry.key.len(), entry.value == b"value", entry.flags);
        prop_assert!(again.entries().all(|entry| whole(entry) == (3, true, 3)));
    }

    /// A bucket agrees with a simple model of RRIP, over rewrites with several new entries each.
    #[test]
    fn agrees_with_a_model_of_predictions(
        rewrites in prop::collection::vec(
            (
                prop::collection::vec(0..12_usize, 0..4),
                prop::collection::vec((0_u8..40, 0_usize..900), 1..5),
                prop::option::of(0_u8..40),
            ),
            1..60,
        ),
    ) {
        let mut buffer = empty().seal(FIRST);
        let mut model = RripModel::default();
        for (hits, new, removed) in rewrites {
            let mut bucket = Bucket::parse(buffer, ZERO).unwrap();
            let hits = hits.iter().fold(Hits::default(), |hits, &position| hits.with(position));
            bucket.promote(hits);
            prop_assert_eq!(usize::from(bucket.promoted()), model.begin_rewrite(hits));
            if let Some(key) = removed {
                prop_assert_eq!(bucket.remove(KeyHash::of(&[key]), &[key]), model.remove(key));
            }
            for (key, value_bytes) in new {
                bucket.remove(KeyHash::of(&[key]), &[key]);
                model.remove(key);
                let gone = std::cell::RefCell::new(Vec::new());
                let (name, value) = ([key], vec![key; value_bytes]);
                let new = entry(&name, &value, 0);
                let note = |entry: &BucketEntry<'_>, expired| {
                    gone.borrow_mut().push((entry.key[0], expired));
                };
                let (expired, evicted) = bucket.push_and_tell(new, (SocEviction::Rrip, 0), &note);
                let wanted = model.push(key, new.stored_bytes());
                prop_assert_eq!((expired, usize::from(evicted)), (0, wanted.len()));
                prop_assert_eq!(gone.into_inner(), wanted);
            }
            let found: Vec<_> = bucket.entries().map(|e| (e.key[0], e.prediction)).collect();
            prop_assert_eq!(found, model.content());
            buffer = bucket.seal(FIRST);
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
