//! One fetch per key, and who wins against it.

use std::cell::Cell;
use std::future::{Future, pending, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use larder::{Config, FetchError, Larder, RealClock, SetOptions, block_on};

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
    panic!("somebody else fetches")
}

#[test]
fn those_who_miss_together_fetch_once() {
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
fn if_the_one_who_fetches_gives_up_another_fetches() {
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
        assert_eq!(&*value, b"old", "who asked before the change may see what was before");
        assert_eq!(block_on(cache.get(b"k")).unwrap(), None);
    }
}

#[test]
fn a_fetch_refused_by_the_cache_says_so() {
    let cache = cache();
    let empty = block_on(cache.get_or_fetch(b"", SetOptions::default(), never)).unwrap_err();
    assert!(matches!(empty, FetchError::Cache(_)), "{empty}");
    let huge = async || Ok::<_, io::Error>(vec![0; (16 << 20) + 1]);
    let refused = block_on(cache.get_or_fetch(b"k", SetOptions::default(), huge)).unwrap_err();
    assert!(refused.to_string().contains("16777216"), "{refused}");
}
