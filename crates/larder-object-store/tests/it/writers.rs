//! Writers and readers at once, with a checker of every answer.
//!
//! Each write of a path has the next version. A read that began when version `v` was written may return `v` or a later
//! one, and never bytes of two; with writers elsewhere it may also return the version that was current at most
//! `head_ttl` before it began.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use larder::{Config, FileDevice, Larder, RealClock};
use larder_object_store::Options;

use super::CachedStore;
use super::counting::Counting;
use super::object_store::path::Path;
use super::object_store::{Error, GetOptions, ObjectStore, ObjectStoreExt};
use crate::rig::{self, PART};

const PATHS: usize = 4;
const SIZE: u64 = 3 * PART + 500;
const WRITES: u32 = 40;

struct World {
    store: Counting,
    cached: CachedStore<Counting>,
    /// The version that is certainly there, by path.
    written: Vec<AtomicU32>,
    done: AtomicU32,
}

impl World {
    async fn new(options: Options) -> (Arc<Self>, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let file = FileDevice::create(directory.path().join("flash"), 32 << 20).unwrap();
        let config = Config { dram_bytes: 1 << 20, ..Config::default() };
        let cache = Larder::open(config, Some(Arc::new(file)), Arc::new(RealClock)).await.unwrap();
        let store = Counting::new();
        for path in 0..PATHS {
            store.write(&format!("o{path}"), rig::bytes_of(0, SIZE)).await;
        }
        let cached =
            CachedStore::with_options(store.clone(), Arc::new(cache), "b", options).unwrap();
        let written = (0..PATHS).map(|_| AtomicU32::new(0)).collect();
        (Arc::new(Self { store, cached, written, done: AtomicU32::new(0) }), directory)
    }

    /// Writes all versions of a path, through the cache or past it.
    async fn write_all(self: Arc<Self>, path: usize, is_elsewhere: bool) {
        let place = Path::from(format!("o{path}"));
        for version in 1..=WRITES {
            let bytes = rig::bytes_of(version, SIZE);
            if is_elsewhere {
                self.store.write(place.as_ref(), bytes).await;
            } else if version % 5 == 0 {
                let other = Path::from(format!("w{path}"));
                self.store.write(other.as_ref(), bytes).await;
                match version % 2 {
                    0 => self.cached.copy(&other, &place).await.unwrap(),
                    _ => self.cached.rename(&other, &place).await.unwrap(),
                }
            } else {
                self.cached.put(&place, bytes.into()).await.unwrap();
            }
            self.written[path].store(version, SeqCst);
            tokio::time::sleep(Duration::from_millis(u64::from(version % 4))).await;
        }
        self.done.fetch_add(1, SeqCst);
    }

    /// Reads until all is written; returns how many reads came to an end.
    async fn read_all(self: Arc<Self>, seed: u64, stale: Duration) -> u32 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut reads = 0;
        let mut history = vec![Vec::new(); PATHS];
        while self.done.load(SeqCst) < u32::try_from(PATHS).unwrap() {
            // A hit in DRAM does not wait, so it would keep the thread from the writers.
            tokio::task::yield_now().await;
            let path = random.usize(..PATHS);
            let place = Path::from(format!("o{path}"));
            let begun = tokio::time::Instant::now();
            let current = self.written[path].load(SeqCst);
            history[path].push((begun, current));
            // The newest that was certainly there so long before.
            let old = history[path].iter().rev().find(|(at, _)| *at + stale <= begun);
            let least = old.map_or(0, |(_, version)| *version);
            let least = if stale.is_zero() { current } else { least };
            let start = random.u64(..SIZE - 1);
            let end = random.u64(start + 1..=SIZE);
            let read = match random.u8(..3) {
                0 => self.cached.get_range(&place, start..end).await.map(|it| vec![(start, it)]),
                1 => {
                    let ranges = [0..start + 1, start..end];
                    let all = self.cached.get_ranges(&place, &ranges).await;
                    all.map(|all| [0, start].into_iter().zip(all).collect())
                }
                _ => match self.cached.get_opts(&place, GetOptions::default()).await {
                    Ok(result) => result.bytes().await.map(|it| vec![(0, it)]),
                    Err(error) => Err(error),
                },
            };
            if random.u8(..8) == 0 {
                // A reader that gives up.
                let read = self.cached.get(&place);
                let _ = tokio::time::timeout(Duration::from_micros(random.u64(..500)), read).await;
            }
            let pieces = match read {
                Ok(pieces) => pieces,
                Err(Error::Precondition { .. }) => continue,
                Err(error) => panic!("{error}"),
            };
            reads += 1;
            let is_of =
                |version: &u32| pieces.iter().all(|(at, bytes)| rig::is_of(bytes, *at, *version));
            let found = (least..=WRITES).find(is_of);
            assert!(found.is_some(), "no bytes of one version that is at least {least}");
        }
        reads
    }
}

async fn run(options: Options, is_elsewhere: bool, stale: Duration) -> World {
    let (world, _directory) = World::new(options).await;
    let writers: Vec<_> = (0..PATHS)
        .map(|path| tokio::spawn(Arc::clone(&world).write_all(path, is_elsewhere)))
        .collect();
    let readers: Vec<_> =
        (0..6).map(|seed| tokio::spawn(Arc::clone(&world).read_all(seed, stale))).collect();
    let mut reads = 0;
    for reader in readers {
        reads += reader.await.unwrap();
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert!(reads > 100, "{reads}");
    Arc::into_inner(world).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_version_before_a_write_through_the_store_comes_back() {
    let world = run(rig::trusting(3600), false, Duration::ZERO).await;
    let metrics = world.cached.metrics();
    assert!(metrics.head_hits > 0 && metrics.part_hits > 0, "{metrics:?}");
    assert_eq!(metrics.cache_errors, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_writers_elsewhere_nothing_is_mixed_and_by_default_nothing_is_old() {
    run(rig::options(), true, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_writers_elsewhere_what_is_old_is_no_older_than_the_trust_in_heads() {
    let trust = Duration::from_millis(20);
    run(Options { head_ttl: trust, ..rig::options() }, true, trust).await;
}
