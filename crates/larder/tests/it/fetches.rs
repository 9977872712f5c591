//! One fetch per key, and which operations win against it.

use std::cell::Cell;
use std::future::{Future, pending, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use larder::{Config, ErrorKind, FetchError, Larder, RealClock, SetOptions, block_on};
use larder_device::{Device, FileDevice};

use crate::rig::{Rig, config, drive, drive_of, key_of, value_of};

fn cache() -> Larder {
    block_on(Larder::open(Config::default(), None, Arc::new(RealClock))).unwrap()
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A fetch that ends when the cell has a value.
async fn wait_for(cell: &Cell<Option<Vec<u8>>>) -> Result<Vec<u8>, io::Error> {
    poll_fn(|_| match cell.take() {
        Some(value) => Poll::Ready(Ok(value)),
        None => Poll::Pending,
    })
    .await
}

async fn never() -> Result<Vec<u8>, io::Error> {
    panic!("another caller fetches")
}

#[test]
fn concurrent_misses_fetch_once() {
    let cache = cache();
    let source = Cell::new(None);
    let options = SetOptions { flags: 4, ..SetOptions::default() };
    let mut first = pin!(cache.get_or_fetch(b"k", options, || wait_for(&source)));
    let mut second = pin!(cache.get_or_fetch(b"k", options, never));
    assert!(poll(first.as_mut()).is_pending());
    assert!(poll(second.as_mut()).is_pending());
    source.set(Some(b"fetched".to_vec()));
    let Poll::Ready(Ok(value)) = poll(first) else { panic!("it was fetched") };
    assert_eq!((&*value, value.flags()), (&b"fetched"[..], 4));
    let Poll::Ready(Ok(value)) = poll(second) else { panic!("it was fetched") };
    assert_eq!(&*value, b"fetched");
    let again = block_on(cache.get_or_fetch(b"k", options, never)).unwrap();
    assert_eq!(&*again, b"fetched");
}

#[test]
fn an_error_is_shared_and_not_kept() {
    let cache = cache();
    let gate = Cell::new(None);
    let options = SetOptions::default();
    let failing = || async {
        wait_for(&gate).await?;
        Err::<Vec<u8>, _>(io::Error::other("the source is down"))
    };
    let mut first = pin!(cache.get_or_fetch(b"k", options, failing));
    let mut second = pin!(cache.get_or_fetch(b"k", options, never));
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    gate.set(Some(Vec::new()));
    for outcome in [poll(first), poll(second)] {
        let Poll::Ready(Err(FetchError::Fetch(error))) = outcome else { panic!("it failed") };
        assert_eq!(error.to_string(), "the source is down");
    }
    let fine = async || Ok::<_, io::Error>(b"up again".to_vec());
    assert_eq!(&*block_on(cache.get_or_fetch(b"k", options, fine)).unwrap(), b"up again");
}

#[test]
fn if_the_fetching_caller_gives_up_another_fetches() {
    let cache = cache();
    let options = SetOptions::default();
    let mut second =
        pin!(cache.get_or_fetch(b"k", options, async || {
            Ok::<_, io::Error>(b"by the second".to_vec())
        }));
    {
        let hanging = || pending::<Result<Vec<u8>, io::Error>>();
        let mut first = pin!(cache.get_or_fetch(b"k", options, hanging));
        assert!(poll(first.as_mut()).is_pending());
        assert!(poll(second.as_mut()).is_pending());
    }
    let Poll::Ready(Ok(value)) = poll(second) else { panic!("the first is gone") };
    assert_eq!(&*value, b"by the second");
}

#[test]
fn a_delete_or_a_set_beats_a_fetch_that_is_under_way() {
    let options = SetOptions::default();
    for deletes in [true, false] {
        let cache = cache();
        let source = Cell::new(None);
        let mut fetch = pin!(cache.get_or_fetch(b"k", options, || wait_for(&source)));
        assert!(poll(fetch.as_mut()).is_pending());
        if deletes {
            block_on(cache.delete(b"k")).unwrap();
        } else {
            block_on(cache.set(b"k", b"newer", None)).unwrap();
            block_on(cache.delete(b"k")).unwrap();
        }
        source.set(Some(b"old".to_vec()));
        let Poll::Ready(Ok(value)) = poll(fetch) else { panic!("it was fetched") };
        assert_eq!(&*value, b"old", "a caller that asked before the change may get the old value");
        assert_eq!(block_on(cache.get(b"k")).unwrap(), None);
    }
}

#[test]
fn a_fetch_refused_by_the_cache_says_so() {
    let cache = cache();
    let empty =
        block_on(cache.get_or_fetch(&[7; 65_536], SetOptions::default(), never)).unwrap_err();
    assert!(matches!(empty, FetchError::Cache(_)), "{empty}");
    let huge = async || Ok::<_, io::Error>(vec![0; larder::VALUE_BYTES_MAX + 1]);
    let refused = block_on(cache.get_or_fetch(b"k", SetOptions::default(), huge)).unwrap_err();
    assert!(refused.to_string().contains("134217728"), "{refused}");
}

async fn bring(value: Vec<u8>) -> Result<Vec<u8>, io::Error> {
    Ok(value)
}

/// A fetched value is stored like one that is set: even if DRAM is full of items on their way to flash, or cannot hold
/// it.
#[test]
fn what_was_fetched_is_there_afterwards() {
    for (keys, bytes) in [(60, 100_000), (400, 3_000), (2_000, 100)] {
        let drive = drive_of(32 << 20, true);
        let set = Rig::open(config(), &drive);
        let missing = |rig: &Rig, store: &dyn Fn(u32)| {
            let gone = |key: &u32| {
                store(*key);
                rig.get(*key).is_none()
            };
            (0..keys).filter(gone).count()
        };
        let after_set = missing(&set, &|key| set.set(key, 1, bytes));
        let fetched = Rig::open(config(), &drive_of(32 << 20, true));
        let after_fetch = missing(&fetched, &|key| {
            let fetch = || bring(value_of(key, 1, bytes));
            let options = SetOptions::default();
            block_on(fetched.cache.get_or_fetch(&key_of(key), options, fetch)).unwrap();
        });
        assert_eq!((after_set, after_fetch), (0, 0), "of {keys} values of {bytes} bytes");
    }
}

#[test]
fn many_threads_that_fetch_lose_nothing() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let device: Arc<dyn Device> = Arc::new(FileDevice::create(file.path(), 64 << 20).unwrap());
    let small = Config { dram_bytes: 1 << 20, ..config() };
    let cache = block_on(Larder::open(small, Some(device), Arc::new(RealClock))).unwrap();
    let gone: usize = std::thread::scope(|scope| {
        let fetches = |thread: u32| {
            let cache = &cache;
            move || {
                let keys = (0..500).map(|n| thread * 1000 + n);
                let is_gone = |key: &u32| {
                    let fetch = || bring(value_of(*key, 1, 100));
                    let key = key_of(*key);
                    block_on(cache.get_or_fetch(&key, SetOptions::default(), fetch)).unwrap();
                    block_on(cache.get(&key)).unwrap().is_none()
                };
                keys.filter(is_gone).count()
            }
        };
        let threads: Vec<_> = (0..16).map(|thread| scope.spawn(fetches(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let stats = cache.stats();
    let counted = stats.soc_evicted_objects
        + stats.rejected_dram_pinned_objects
        + stats.lost_to_device_errors_objects;
    assert_eq!((gone, stats.fetches), (0, 8_000), "{counted} counted");
}

#[test]
fn a_miss_counts_once_and_fetches_are_counted() {
    let cache = cache();
    let options = SetOptions::default();
    for key in 0..100_u32 {
        block_on(cache.get_or_fetch(&key_of(key), options, || bring(vec![1]))).unwrap();
        block_on(cache.get_or_fetch(&key_of(key), options, never)).unwrap();
    }
    let failing = async || Err::<Vec<u8>, _>(io::Error::other("down"));
    block_on(cache.get_or_fetch(b"k", options, failing)).unwrap_err();
    let stats = cache.stats();
    assert_eq!((stats.gets, stats.hits()), (201, 100));
    assert_eq!((stats.fetches, stats.failed_fetches, stats.fetch_waits), (101, 1, 0));
    let source = Cell::new(None);
    let mut first = pin!(cache.get_or_fetch(b"l", options, || wait_for(&source)));
    let mut second = pin!(cache.get_or_fetch(b"l", options, never));
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    source.set(Some(vec![1]));
    assert!(poll(first).is_ready() && poll(second).is_ready());
    assert_eq!((cache.stats().fetches, cache.stats().fetch_waits), (102, 1));
}

#[test]
fn a_fetch_may_say_how_its_value_is_stored() {
    let drive = drive();
    let rig = Rig::open(config(), &drive);
    let minute = SetOptions {
        ttl: Some(std::time::Duration::from_secs(60)),
        flags: 3,
        ..SetOptions::default()
    };
    let fetch = async || Ok::<_, io::Error>(larder::Fetched::with(b"rye".to_vec(), minute));
    let value = block_on(rig.cache.get_or_fetch(b"k", SetOptions::default(), fetch)).unwrap();
    assert_eq!((value.flags(), &*value), (3, &b"rye"[..]));
    rig.clock.advance_to(std::time::Duration::from_secs(1100));
    assert_eq!(block_on(rig.cache.get(b"k")).unwrap(), None, "its minute is over");
}

#[test]
fn a_fetch_that_would_wait_for_itself_gets_an_error() {
    let drive = drive();
    let rig = Rig::open(config(), &drive);
    let (cache, options) = (&rig.cache, SetOptions::default());
    let itself = || async {
        let inner = cache.get_or_fetch(b"k", options, never).await;
        inner.map(|value| value.to_vec())
    };
    let told = block_on(cache.get_or_fetch(b"k", options, itself)).unwrap_err();
    assert!(told.to_string().contains("would wait for itself"), "{told}");
    let other = || async {
        cache.get_or_fetch(b"other", options, || bring(vec![2])).await.map(|v| v.to_vec())
    };
    assert_eq!(&*block_on(cache.get_or_fetch(b"k", options, other)).unwrap(), [2]);

    // The error occurs for every key, not only for keys that share a lock.
    for key in 0..50 {
        let mut told = None;
        block_on(cache.update(b"k", |_| {
            told = block_on(cache.set(&key_of(key), b"v", None)).err();
            larder::Change::Keep
        }))
        .unwrap();
        assert_eq!(told.map(|error| error.kind()), Some(ErrorKind::InvalidInput));
    }
    block_on(cache.set(&key_of(0), b"v", None)).unwrap();
}
