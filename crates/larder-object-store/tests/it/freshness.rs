//! What can be out of date, and for how long.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use larder::VirtualClock;
use larder_object_store::{Options, PathRule};

use super::CachedStore;
use super::counting::Counting;
use super::object_store::path::Path;
use super::object_store::{Error, GetOptions, ObjectStore, ObjectStoreExt, PutMultipartOptions};
use super::reading::settle;
use crate::rig::{self, PART};

const SIZE: u64 = 3 * PART;

struct Rig {
    store: Counting,
    cached: CachedStore<Counting>,
    clock: Arc<VirtualClock>,
}

impl Rig {
    async fn new(options: Options) -> Self {
        let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(1000)));
        let store = Counting::new();
        store.write("o", rig::bytes_of(0, SIZE)).await;
        let cache = rig::cache_by(&clock);
        let cached = CachedStore::with_options(store.clone(), cache, "b", options).unwrap();
        Self { store, cached, clock }
    }

    async fn version(&self, path: &str) -> u32 {
        version(&self.cached, path).await
    }

    fn wait(&self, seconds: u64) {
        use larder::Clock;
        self.clock.advance_to(self.clock.now() + Duration::from_secs(seconds));
    }
}

async fn version(cached: &CachedStore<Counting>, path: &str) -> u32 {
    let bytes = cached.get(&Path::from(path)).await.unwrap().bytes().await.unwrap();
    assert_eq!(u64::try_from(bytes.len()).unwrap(), SIZE);
    rig::version_of(&bytes, 0, 10)
}

#[tokio::test]
async fn by_default_nothing_is_out_of_date() {
    let rig = Rig::new(rig::options()).await;
    for number in 0..5 {
        rig.store.write("o", rig::bytes_of(number, SIZE)).await;
        assert_eq!(rig.version("o").await, number);
        assert_eq!(rig.version("o").await, number);
    }
}

#[tokio::test]
async fn a_head_is_trusted_for_its_time_and_no_longer() {
    let rig = Rig::new(rig::trusting(10)).await;
    assert_eq!(rig.version("o").await, 0);
    settle(&rig.cached, 3).await;
    rig.store.taken();
    rig.store.write("o", rig::bytes_of(1, SIZE)).await;
    rig.wait(9);
    assert_eq!(rig.version("o").await, 0);
    assert_eq!(rig.store.taken(), []);
    rig.wait(1);
    assert_eq!(rig.version("o").await, 1);
    assert_eq!(rig.store.taken().len(), 2, "the head, and the bytes of the new version");
}

#[tokio::test]
async fn a_program_that_learns_of_a_write_elsewhere_says_so() {
    let rig = Rig::new(rig::trusting(1000)).await;
    assert_eq!(rig.version("o").await, 0);
    rig.store.write("o", rig::bytes_of(1, SIZE)).await;
    rig.cached.invalidate(&Path::from("o")).await;
    assert_eq!(rig.version("o").await, 1);
}

#[tokio::test]
async fn mutable_paths_are_asked_for_each_time_and_immutable_ones_once() {
    let options = Options { immutable: vec![PathRule::prefix("data")], ..rig::trusting(1000) };
    let rig = Rig::new(options).await;
    for (path, asks) in
        [("data/_delta_log/1.json", 5), ("data/1.bin", 1), ("t/_last_checkpoint", 5)]
    {
        rig.store.write(path, rig::bytes_of(0, SIZE)).await;
        for _ in 0..5 {
            rig.version(path).await;
            settle(&rig.cached, 3).await;
            rig.wait(100);
        }
        assert_eq!(rig.store.taken().len(), asks, "{path}");
    }
    rig.store.write("t/_last_checkpoint", rig::bytes_of(7, SIZE)).await;
    assert_eq!(rig.version("t/_last_checkpoint").await, 7);
    rig.wait(1 << 25);
    rig.store.taken();
    rig.version("data/1.bin").await;
    assert_eq!(rig.store.taken(), []);
}

#[tokio::test]
async fn every_write_through_the_store_is_seen_at_once() {
    let rig = Rig::new(rig::trusting(1 << 20)).await;
    let (cached, path) = (&rig.cached, Path::from("o"));
    assert_eq!(rig.version("o").await, 0);
    cached.put(&path, rig::bytes_of(1, SIZE).into()).await.unwrap();
    assert_eq!(rig.version("o").await, 1);

    let options = PutMultipartOptions::default();
    let mut upload = cached.put_multipart_opts(&path, options).await.unwrap();
    upload.put_part(rig::bytes_of(2, SIZE).into()).await.unwrap();
    assert_eq!(rig.version("o").await, 1);
    upload.complete().await.unwrap();
    assert_eq!(rig.version("o").await, 2);

    rig.store.write("p", rig::bytes_of(3, SIZE)).await;
    cached.copy(&Path::from("p"), &path).await.unwrap();
    assert_eq!((rig.version("o").await, rig.version("p").await), (3, 3));
    rig.store.write("p", rig::bytes_of(4, SIZE)).await;
    cached.rename(&Path::from("p"), &path).await.unwrap();
    assert_eq!(rig.version("o").await, 4);
    let gone = cached.get(&Path::from("p")).await.unwrap_err();
    assert!(matches!(gone, Error::NotFound { .. }), "{gone}");

    cached.delete(&path).await.unwrap();
    let gone = cached.head(&path).await.unwrap_err();
    assert!(matches!(gone, Error::NotFound { .. }), "{gone}");
}

#[tokio::test]
async fn deletions_in_bulk_are_seen_and_errors_do_not_hide_them() {
    let rig = Rig::new(rig::trusting(1 << 20)).await;
    let paths: Vec<_> = (0..20).map(|number| Path::from(format!("d/{number}"))).collect();
    for path in &paths {
        rig.store.write(path.as_ref(), rig::bytes_of(1, SIZE)).await;
        rig.version(path.as_ref()).await;
    }
    let wrong = Error::NotSupported { source: "wrong".into() };
    let wanted = paths.clone().into_iter().map(Ok).chain([Err(wrong)]);
    let deleted: Vec<_> =
        rig.cached.delete_stream(stream::iter(wanted.collect::<Vec<_>>()).boxed()).collect().await;
    assert_eq!(deleted.iter().filter(|it| it.is_ok()).count(), 20);
    assert_eq!(deleted.len(), 21);
    for path in &paths {
        assert!(rig.cached.get(path).await.is_err(), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_was_under_way_during_a_write_brings_nothing_old_back() {
    for is_whole in [false, true] {
        let rig = Rig::new(rig::trusting(1 << 20)).await;
        // The store reads the old version, and answers after the write.
        rig.store.state().is_gated.store(true, SeqCst);
        let reader = rig.cached.clone();
        let reading = tokio::spawn(async move {
            match is_whole {
                true => version(&reader, "o").await,
                false => u32::try_from(reader.head(&Path::from("o")).await.unwrap().size).unwrap(),
            }
        });
        rig.store.wait_for(1).await;
        rig.cached.put(&Path::from("o"), rig::bytes_of(1, SIZE).into()).await.unwrap();
        rig.store.state().is_gated.store(false, SeqCst);
        rig.store.state().gate.add_permits(10);
        assert!(!is_whole || reading.await.unwrap() <= 1);
        assert_eq!(rig.version("o").await, 1);
        assert_eq!(rig.version("o").await, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_reader_was_told_during_a_write_is_not_believed_after_it() {
    for is_dropped in [false, true] {
        let rig = Rig::new(rig::trusting(1 << 20)).await;
        rig.store.state().is_put_gated.store(true, SeqCst);
        let writer = rig.cached.clone();
        let bytes = rig::bytes_of(1, SIZE);
        let writing = tokio::spawn(async move { writer.put(&Path::from("o"), bytes.into()).await });
        while rig.cached.metrics().invalidations == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(rig.version("o").await, 0);
        settle(&rig.cached, 3).await;
        assert_eq!(rig.version("o").await, 0, "a trusted head");
        // The write is made, but not answered.
        let inner = &rig.store.state().inner;
        let old = inner.head(&Path::from("o")).await.unwrap().e_tag;
        rig.store.state().put_gate.add_permits(1);
        while inner.head(&Path::from("o")).await.unwrap().e_tag == old {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if is_dropped {
            writing.abort();
            assert!(writing.await.unwrap_err().is_cancelled());
        } else {
            rig.store.state().put_gate.add_permits(1);
            writing.await.unwrap().unwrap();
        }
        assert_eq!(rig.version("o").await, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_is_not_told_what_was_asked_before_it_came() {
    let rig = Rig::new(rig::options()).await;
    rig.version("o").await;
    settle(&rig.cached, 3).await;
    rig.store.taken();
    rig.store.state().is_gated.store(true, SeqCst);
    let earlier = rig.cached.clone();
    let earlier = tokio::spawn(async move { version(&earlier, "o").await });
    rig.store.wait_for(1).await;
    // The first request has its answer, which is on its way.
    tokio::time::sleep(Duration::from_millis(20)).await;
    rig.store.write("o", rig::bytes_of(1, SIZE)).await;
    let later: Vec<_> = (0..10)
        .map(|_| {
            let later = rig.cached.clone();
            tokio::spawn(async move { version(&later, "o").await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(20)).await;
    rig.store.state().is_gated.store(false, SeqCst);
    rig.store.state().gate.add_permits(100);
    assert!(earlier.await.unwrap() <= 1);
    for later in later {
        assert_eq!(later.await.unwrap(), 1);
    }
    let heads = rig.store.taken().iter().filter(|asked| asked.head).count();
    assert!(heads <= 12, "{heads}");
}

#[tokio::test]
async fn an_object_that_changes_during_a_read_is_never_mixed() {
    for ignores in [false, true] {
        let rig = Rig::new(rig::trusting(1 << 20)).await;
        rig.store.state().ignores_if_match.store(ignores, SeqCst);
        let long = 40 * PART;
        rig.store.write("l", rig::bytes_of(0, long)).await;
        let path = Path::from("l");
        // It changes between two requests of a stream.
        let mut stream = rig.cached.get(&path).await.unwrap().into_stream();
        let mut read = stream.try_next().await.unwrap().unwrap().to_vec();
        rig.store.write("l", rig::bytes_of(1, long)).await;
        let error = loop {
            match stream.try_next().await {
                Ok(Some(more)) => read.extend_from_slice(&more),
                Ok(None) => panic!("a stream of two versions"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Precondition { .. }), "{error}");
        assert_eq!(rig::version_of(&read, 0, 2), 0);
        // What comes after it finds the new version, at once.
        let bytes = rig.cached.get(&path).await.unwrap().bytes().await.unwrap();
        assert_eq!(rig::version_of(&bytes, 0, 2), 1);
        // It changes while some parts are in the cache: a read begins anew.
        rig.store.write("l", rig::bytes_of(2, long)).await;
        rig.cached.invalidate(&path).await;
        rig.cached.get_range(&path, 0..PART).await.unwrap();
        rig.store.write("l", rig::bytes_of(3, long)).await;
        let range = rig.cached.get_range(&path, 0..3 * PART).await.unwrap();
        assert_eq!(rig::version_of(&range, 0, 4), 3);
        let ranges = [0..PART, 20 * PART..21 * PART];
        rig.store.write("l", rig::bytes_of(4, long)).await;
        let ranges = rig.cached.get_ranges(&path, &ranges).await.unwrap();
        assert_eq!(rig::version_of(&ranges[0], 0, 5), 4);
        assert_eq!(rig::version_of(&ranges[1], 20 * PART, 5), 4);
        assert!(rig.cached.metrics().changed_objects >= 1);
    }
}

#[tokio::test]
async fn conditions_are_answered_by_a_trusted_head_and_passed_through_without_one() {
    for trusting in [true, false] {
        let rig = Rig::new(rig::trusting(if trusting { 1000 } else { 0 })).await;
        let path = Path::from("o");
        rig.version("o").await;
        settle(&rig.cached, 3).await;
        let meta = rig.store.state().inner.head(&path).await.unwrap();
        let earlier = meta.last_modified - Duration::from_secs(5);
        rig.store.taken();
        let ask = async |options: GetOptions| rig.cached.get_opts(&path, options).await;
        let good = [
            GetOptions::new().with_if_match(meta.e_tag.clone()),
            GetOptions::new().with_if_none_match(Some("\"other\"")),
            GetOptions::new().with_if_modified_since(Some(earlier)),
            GetOptions::new().with_if_unmodified_since(Some(meta.last_modified)),
        ];
        for options in good {
            let bytes = ask(options.clone()).await.unwrap().bytes().await.unwrap();
            assert_eq!(rig::version_of(&bytes, 0, 2), 0);
            let head = ask(options.with_head(true)).await.unwrap();
            assert_eq!(head.meta, meta);
        }
        let changed = ask(GetOptions::new().with_if_match(Some("\"other\""))).await.unwrap_err();
        assert!(matches!(changed, Error::Precondition { .. }), "{changed}");
        let same = ask(GetOptions::new().with_if_none_match(meta.e_tag.clone())).await.unwrap_err();
        assert!(matches!(same, Error::NotModified { .. }), "{same}");
        let asked = store_and_bypassed(&rig);
        assert_eq!(asked, if trusting { (0, 0) } else { (10, 10) });
    }
}

fn store_and_bypassed(rig: &Rig) -> (usize, u64) {
    (rig.store.taken().len(), rig.cached.metrics().bypassed_condition)
}

#[tokio::test]
async fn listings_are_cached_if_options_say_so_and_writes_void_them() {
    let minute = Duration::from_secs(60);
    let rig = Rig::new(Options { list_ttl: minute, ..rig::options() }).await;
    let names = async |prefix: &str| {
        let (all, level) = (Path::from(prefix), Path::from(prefix));
        let all: Vec<_> = rig.cached.list(Some(&all)).try_collect().await.unwrap();
        let level = rig.cached.list_with_delimiter(Some(&level)).await.unwrap();
        let all: Vec<_> = all.into_iter().map(|meta| meta.location.to_string()).collect();
        (all, level.objects.len(), level.common_prefixes.len())
    };
    rig.store.write("a/b/1", vec![1]).await;
    assert_eq!(names("a").await, (vec!["a/b/1".to_owned()], 0, 1));
    assert_eq!(rig.store.lists(), 2);
    rig.store.write("a/b/2", vec![1]).await;
    assert_eq!(names("a").await.0.len(), 1, "it is trusted for a minute");
    assert_eq!((rig.store.lists(), rig.cached.metrics().list_hits), (0, 2));
    rig.cached.put(&Path::from("a/b/3"), vec![1].into()).await.unwrap();
    assert_eq!(names("a").await.0.len(), 3, "the write has voided it");
    assert_eq!(names("").await.0.len(), 4);
    rig.store.write("a/4", vec![1]).await;
    rig.wait(60);
    assert_eq!(
        names("a").await,
        (["a/4", "a/b/1", "a/b/2", "a/b/3"].map(str::to_owned).to_vec(), 1, 1)
    );
    rig.cached.delete(&Path::from("a/4")).await.unwrap();
    assert_eq!(names("a").await.1, 0);

    let plain = Rig::new(rig::trusting(1000)).await;
    for _ in 0..2 {
        plain.cached.list_with_delimiter(None).await.unwrap();
        plain.cached.list(None).try_collect::<Vec<_>>().await.unwrap();
    }
    assert_eq!(plain.store.lists(), 4, "by default they are not cached");
}
