//! Many readers of the same bytes: one request, whatever becomes of the reader that was first.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::future::{join_all, try_join_all};
use larder_object_store::{Options, Spawn};

use super::CachedStore;
use super::counting::Counting;
use super::object_store::path::Path;
use super::object_store::{Error, ObjectStoreExt};
use crate::rig::{self, PART};

/// Time in which a head is stored in the background. Until it is, a reader asks for it and its bytes in one request,
/// which a reader that finds it stored does not join.
const TO_STORE: Duration = Duration::from_millis(200);

async fn stored(options: Options) -> (Counting, CachedStore<Counting>) {
    let store = Counting::new();
    store.write("f/o", rig::bytes_of(1, 20 * PART)).await;
    let cached = CachedStore::with_options(store.clone(), rig::cache(), "bucket", options).unwrap();
    (store, cached)
}

fn path() -> Path {
    Path::from("f/o")
}

/// Ends a test that hangs.
async fn soon<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect("it hangs")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_readers_share_the_head_and_each_part() {
    let (store, cached) = stored(rig::immutable()).await;
    *store.state().delay.lock().unwrap() = Duration::from_millis(50);
    let readers = (0..16).map(|_| {
        let cached = cached.clone();
        tokio::spawn(async move { cached.get_range(&path(), 10..PART + 10).await })
    });
    for read in soon(join_all(readers)).await {
        assert_eq!(rig::version_of(&read.unwrap().unwrap(), 10, 2), 1);
    }
    assert_eq!(store.ranges(), [Some(0..2 * PART)]);
    let metrics = cached.metrics();
    assert_eq!(metrics.upstream_bytes, 2 * PART);
    assert!(metrics.head_joins + metrics.head_hits >= 15, "{metrics:?}");
    // With the head known, and parts that overlap.
    let readers = (4..12).map(|part| {
        let cached = cached.clone();
        tokio::spawn(async move { cached.get_range(&path(), part * PART..(part + 2) * PART).await })
    });
    soon(join_all(readers)).await.into_iter().for_each(|read| drop(read.unwrap().unwrap()));
    assert_eq!(cached.metrics().upstream_bytes, 11 * PART, "each part came once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_is_dropped_holds_up_no_other() {
    for is_known in [false, true] {
        let (store, cached) = stored(rig::immutable()).await;
        if is_known {
            cached.head(&path()).await.unwrap();
            tokio::time::sleep(TO_STORE).await;
        }
        store.taken();
        store.state().is_gated.store(true, SeqCst);
        let first = cached.clone();
        let first = tokio::spawn(async move { first.get_range(&path(), 0..100).await });
        store.wait_for(1).await;
        let second = cached.clone();
        let second = tokio::spawn(async move { second.get_range(&path(), 50..200).await });
        tokio::time::sleep(Duration::from_millis(10)).await;
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        store.state().is_gated.store(false, SeqCst);
        store.state().gate.add_permits(10);
        let bytes = soon(second).await.unwrap().unwrap();
        assert_eq!(rig::version_of(&bytes, 50, 2), 1);
        assert_eq!(store.ranges(), [Some(0..PART)], "its request went on");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_reaches_those_that_wait_and_is_not_kept() {
    let (store, cached) = stored(rig::immutable()).await;
    cached.head(&path()).await.unwrap();
    tokio::time::sleep(TO_STORE).await;
    store.taken();
    store.state().failing.store(1, SeqCst);
    *store.state().delay.lock().unwrap() = Duration::from_millis(50);
    let readers = (0..8).map(|_| {
        let cached = cached.clone();
        tokio::spawn(async move { cached.get_range(&path(), 0..10).await })
    });
    // A reader that comes after the failure asks again, and finds the store well.
    let mut failed = 0;
    for read in soon(join_all(readers)).await {
        let Err(error) = read.unwrap() else { continue };
        assert!(matches!(error, Error::Generic { store: "Counting", .. }), "{error}");
        assert!(error.to_string().contains("on fire"), "{error}");
        failed += 1;
    }
    assert!(failed >= 1, "none was told");
    assert_eq!(cached.metrics().failed_fetches, 1);
    let bytes = soon(cached.get_range(&path(), 0..10)).await.unwrap();
    assert_eq!(rig::version_of(&bytes, 0, 2), 1);
    // Of a head too, and with its kind.
    let missing = Path::from("f/none");
    let reads = soon(join_all((0..4).map(|_| cached.get(&missing)))).await;
    for read in reads {
        assert!(matches!(read, Err(Error::NotFound { .. })), "{read:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_which_the_body_breaks_off_ends_with_an_error() {
    let (store, cached) = stored(rig::immutable()).await;
    store.state().failing.store(2, SeqCst);
    let error = soon(cached.get(&path())).await.unwrap_err();
    assert!(error.to_string().contains("on fire"), "{error}");
    let mut stream = soon(cached.get(&path())).await.unwrap().into_stream();
    stream.try_next().await.unwrap();
    store.state().failing.store(usize::MAX, SeqCst);
    let error = loop {
        match soon(stream.try_next()).await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("a stream without its end"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("on fire"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_upstream_are_limited_and_waiting_streams_hold_none() {
    let options = Options { upstream_requests: 2, pending_bytes: 8 * PART, ..rig::immutable() };
    let (store, cached) = stored(options).await;
    *store.state().delay.lock().unwrap() = Duration::from_millis(5);
    let mut streams = Vec::new();
    // None of them is read, and no later one waits for them. Some are passed through.
    for number in 0..12 {
        let name = match number % 3 {
            0 => format!("untagged-{number}"),
            _ => format!("f/{number}"),
        };
        store.write(&name, rig::bytes_of(1, 20 * PART)).await;
        streams.push(soon(cached.get(&Path::from(name))).await.unwrap().into_stream());
    }
    let reads = streams.into_iter().map(TryStreamExt::try_collect::<Vec<_>>);
    for pieces in soon(try_join_all(reads)).await.unwrap() {
        assert_eq!(pieces.concat(), rig::bytes_of(1, 20 * PART));
    }
    assert!(store.most_at_once() <= 2, "{}", store.most_at_once());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_that_drops_tasks_costs_an_error_and_hangs_nothing() {
    let options = Options { spawn: Some(Spawn::new(drop)), ..rig::immutable() };
    let (_store, cached) = stored(options).await;
    assert!(soon(cached.get_range(&path(), 0..10)).await.is_err());
    assert!(cached.metrics().abandoned_fetches > 0);
}

#[test]
fn it_works_without_a_runtime() {
    larder::block_on(async {
        let (store, cached) = stored(rig::immutable()).await;
        for _ in 0..2 {
            let bytes = cached.get(&path()).await.unwrap().bytes().await.unwrap();
            assert_eq!(bytes, rig::bytes_of(1, 20 * PART));
        }
        assert!(!store.taken().is_empty());
    });
}
