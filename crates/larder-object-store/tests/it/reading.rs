//! What a read asks of the store, and what it returns.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use larder::Route;
use larder_object_store::Options;

use super::CachedStore;
use super::counting::{Asked, Counting};
use super::object_store::path::Path;
use super::object_store::{
    Attribute, Attributes, GetOptions, GetRange, ObjectStore, ObjectStoreExt,
};
use crate::rig::{self, PART};

async fn stored(options: Options, length: u64) -> (Counting, CachedStore<Counting>) {
    let store = Counting::new();
    store.write("f/o", rig::bytes_of(1, length)).await;
    let cached = CachedStore::with_options(store.clone(), rig::cache(), "bucket", options).unwrap();
    (store, cached)
}

fn path() -> Path {
    Path::from("f/o")
}

/// Reads a range and checks its bytes.
async fn read(cached: &CachedStore<Counting>, range: std::ops::Range<u64>) {
    let bytes = cached.get_range(&path(), range.clone()).await.unwrap();
    assert_eq!(u64::try_from(bytes.len()).unwrap(), range.end - range.start, "{range:?}");
    assert_eq!(rig::version_of(&bytes, range.start, 3), 1, "{range:?}");
}

/// Waits until what was fetched is stored.
pub(super) async fn settle<R: Route>(cached: &CachedStore<Counting, R>, parts: u64) {
    for _ in 0..10_000 {
        if cached.metrics().stored_parts >= parts {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("{:?}", cached.metrics());
}

#[tokio::test]
async fn a_cold_read_fetches_whole_parts_and_a_warm_one_nothing() {
    let (store, cached) = stored(rig::immutable(), 10 * PART + 5).await;
    read(&cached, PART + 10..PART + 20).await;
    assert_eq!(store.ranges(), [Some(PART..2 * PART)]);
    read(&cached, PART..2 * PART).await;
    read(&cached, 2 * PART - 3..2 * PART).await;
    assert_eq!(store.ranges(), []);
    // The last part is short.
    read(&cached, 10 * PART + 1..10 * PART + 5).await;
    read(&cached, 10 * PART..10 * PART + 4).await;
    assert_eq!(store.ranges(), [Some(10 * PART..10 * PART + 5)]);
    let metrics = cached.metrics();
    assert_eq!(metrics.upstream_bytes, PART + 5);
    assert!(metrics.cache_bytes >= 7 && metrics.head_hits == 4, "{metrics:?}");
}

#[tokio::test]
async fn with_default_options_each_read_asks_for_the_head_and_bytes_come_from_the_cache() {
    let (store, cached) = stored(rig::options(), 4 * PART).await;
    read(&cached, 0..PART).await;
    settle(&cached, 1).await;
    assert_eq!(store.ranges(), [Some(0..PART)]);
    read(&cached, 5..PART - 5).await;
    let head = Asked { range: None, if_match: None, head: true };
    assert_eq!(store.taken(), [head]);
}

#[tokio::test]
async fn missing_parts_side_by_side_are_one_request() {
    let (store, cached) = stored(rig::immutable(), 20 * PART).await;
    read(&cached, 3 * PART..4 * PART).await;
    settle(&cached, 1).await;
    store.taken();
    // Parts 1, 2 and 4, 5, 6 are missing.
    read(&cached, PART..7 * PART).await;
    assert_eq!(store.ranges(), [Some(PART..3 * PART), Some(4 * PART..7 * PART)]);
    assert_eq!(cached.metrics().merged_parts, 3);
}

#[tokio::test]
async fn missing_parts_close_to_each_other_are_one_request_if_options_say_so() {
    let options = Options { merge_gap: PART, ..rig::immutable() };
    let (store, cached) = stored(options, 20 * PART).await;
    read(&cached, 3 * PART..4 * PART).await;
    settle(&cached, 1).await;
    store.taken();
    read(&cached, PART..7 * PART).await;
    assert_eq!(store.ranges(), [Some(PART..7 * PART)]);
}

#[tokio::test]
async fn a_long_read_is_several_requests_and_all_its_bytes_come_in_order() {
    let (store, cached) = stored(rig::immutable(), 30 * PART + 7).await;
    for _ in 0..2 {
        let result = cached.get(&path()).await.unwrap();
        assert_eq!((result.range.clone(), result.meta.size), (0..30 * PART + 7, 30 * PART + 7));
        let bytes = result.bytes().await.unwrap();
        assert_eq!(bytes, rig::bytes_of(1, 30 * PART + 7));
        settle(&cached, 31).await;
    }
    let ranges = store.ranges();
    assert_eq!(ranges.len(), 4, "{ranges:?}");
    assert_eq!(ranges[0], Some(0..8 * PART));
    let metrics = cached.metrics();
    assert_eq!((metrics.part_misses + metrics.part_joins, metrics.part_hits), (31, 31));
}

#[tokio::test]
async fn ranges_are_looked_up_together_and_merged() {
    let options = Options { merge_gap: PART, ..rig::immutable() };
    let (store, cached) = stored(options, 40 * PART).await;
    cached.head(&path()).await.unwrap();
    store.taken();
    let ranges = [5..9, PART..PART + 5, 3 * PART..3 * PART + 1, 30 * PART..31 * PART, 0..2 * PART];
    for round in 0..2 {
        let all = cached.get_ranges(&path(), &ranges).await.unwrap();
        for (range, bytes) in ranges.iter().zip(&all) {
            assert_eq!(
                *bytes,
                rig::bytes_of(1, range.end)[usize::try_from(range.start).unwrap()..]
            );
        }
        let asked = store.ranges();
        match round {
            0 => assert_eq!(asked, [Some(0..4 * PART), Some(30 * PART..31 * PART)]),
            _ => assert_eq!(asked, []),
        }
        settle(&cached, 5).await;
    }
    assert!(cached.get_ranges(&path(), &[]).await.unwrap().is_empty());
    assert!(cached.get_ranges(&path(), &[0..1, 50 * PART..51 * PART]).await.is_err());
}

#[tokio::test]
async fn asked_bytes_are_delivered_while_the_rest_is_on_its_way() {
    let (store, cached) = stored(rig::immutable(), 4 * PART).await;
    store.state().is_body_gated.store(true, SeqCst);
    let mut stream = cached.get(&path()).await.unwrap().into_stream();
    let first = stream.try_next().await.unwrap().unwrap();
    assert_eq!(first.len(), 10_000, "the body is stuck after its first piece");
    // A read whose bytes are there ends, although its part does not.
    store.state().gate.add_permits(1);
    read(&cached, 100..15_000).await;
    store.state().is_body_gated.store(false, SeqCst);
    store.state().gate.add_permits(100);
    let rest: Vec<Bytes> = stream.try_collect().await.unwrap();
    assert_eq!([&[first], &rest[..]].concat().concat(), rig::bytes_of(1, 4 * PART));
    assert_eq!(store.ranges(), [Some(0..8 * PART)]);
}

#[tokio::test]
async fn what_was_fetched_beyond_the_asked_bytes_is_stored_without_the_reader() {
    let (store, cached) = stored(rig::immutable(), 4 * PART).await;
    store.state().is_body_gated.store(true, SeqCst);
    read(&cached, 0..10).await;
    assert_eq!(cached.metrics().stored_parts, 0);
    store.state().gate.add_permits(100);
    settle(&cached, 1).await;
    store.taken();
    read(&cached, 0..PART).await;
    assert_eq!(store.ranges(), []);
}

#[tokio::test]
async fn suffixes_offsets_and_the_head_are_answered_from_the_cache() {
    let (store, cached) = stored(rig::immutable(), 3 * PART + 100).await;
    let suffix = || GetOptions::new().with_range(Some(GetRange::Suffix(50)));
    for round in 0..2 {
        let result = cached.get_opts(&path(), suffix()).await.unwrap();
        assert_eq!(result.range, 3 * PART + 50..3 * PART + 100);
        let bytes = result.bytes().await.unwrap();
        assert_eq!(rig::version_of(&bytes, 3 * PART + 50, 3), 1);
        settle(&cached, 1).await;
        let asked = store.taken();
        match round {
            0 => assert_eq!(asked[0].range, Some(GetRange::Suffix(50 + PART - 1))),
            _ => assert_eq!(asked, []),
        }
    }
    let offset = GetOptions::new().with_range(Some(GetRange::Offset(3 * PART + 1)));
    assert_eq!(cached.get_opts(&path(), offset).await.unwrap().bytes().await.unwrap().len(), 99);
    assert_eq!(cached.head(&path()).await.unwrap().size, 3 * PART + 100);
    assert_eq!(store.taken(), []);
}

#[tokio::test]
async fn the_end_of_a_file_is_fetched_in_one_request() {
    let options = Options {
        prefetch_footer: 40_000,
        immutable: vec![larder_object_store::PathRule::prefix("t")],
        ..rig::options()
    };
    let (store, cached) = stored(options, PART).await;
    let size = 9 * PART + 1000;
    // By the head, a suffix, and a short read at the end.
    for (name, first) in [("a", 0), ("b", 1), ("c", 2)] {
        let place = format!("t/{name}.parquet");
        store.write(&place, rig::bytes_of(1, size)).await;
        let place = Path::from(place);
        match first {
            0 => assert_eq!(cached.head(&place).await.unwrap().size, size),
            1 => {
                let suffix = GetOptions::new().with_range(Some(GetRange::Suffix(8)));
                cached.get_opts(&place, suffix).await.unwrap().bytes().await.unwrap();
            }
            _ => _ = cached.get_range(&place, size - 8..size).await.unwrap(),
        }
        assert_eq!(store.taken().len(), 1, "{name}");
        // The footer before the last bytes is in another part.
        let footer = cached.get_range(&place, size - 30_000..size - 8).await.unwrap();
        assert_eq!(rig::version_of(&footer, size - 30_000, 3), 1);
        assert_eq!(store.taken(), [], "{name}");
    }
    // And when the head is known.
    let place = Path::from("t/d.parquet");
    store.write("t/d.parquet", rig::bytes_of(1, size)).await;
    cached.get_range(&place, 0..PART).await.unwrap();
    store.taken();
    cached.get_range(&place, size - 8..size).await.unwrap();
    assert_eq!(store.ranges(), [Some(8 * PART..size)]);
    assert_eq!(cached.metrics().footer_prefetches, 4);
}

#[tokio::test]
async fn attributes_and_dates_are_those_of_the_store() {
    let store = Counting::new();
    let attributes = Attributes::from_iter([
        (Attribute::ContentType, "text/plain"),
        (Attribute::Metadata("k".into()), "v"),
    ]);
    let options = attributes.clone().into();
    store.put_opts(&path(), "abc".into(), options).await.unwrap();
    let cached =
        CachedStore::with_options(store.clone(), rig::cache(), "bucket", rig::immutable()).unwrap();
    let of_store = store.get(&path()).await.unwrap();
    for _ in 0..2 {
        let result = cached.get(&path()).await.unwrap();
        assert_eq!((&result.attributes, &result.meta), (&attributes, &of_store.meta));
        assert_eq!(result.bytes().await.unwrap(), "abc");
        assert_eq!(cached.head(&path()).await.unwrap(), of_store.meta);
    }
}

#[tokio::test]
async fn an_empty_object_is_read_and_its_head_is_kept() {
    let (store, cached) = stored(rig::immutable(), 0).await;
    for _ in 0..2 {
        let result = cached.get(&path()).await.unwrap();
        assert_eq!(result.range, 0..0);
        assert!(result.bytes().await.unwrap().is_empty());
    }
    assert!(cached.get_range(&path(), 0..1).await.is_err());
    assert!(store.taken().len() <= 3);
}

#[tokio::test]
async fn a_stream_may_be_left_at_any_place() {
    let (_store, cached) = stored(rig::immutable(), 30 * PART).await;
    for pieces in 0..20 {
        let stream = cached.get(&path()).await.unwrap().into_stream();
        let some: Vec<_> = stream.take(pieces).try_collect().await.unwrap();
        assert_eq!(some.len(), pieces);
    }
    read(&cached, 0..30 * PART).await;
}
