//! `get_or_fetch`: a miss asks the database once, however many callers wait, and errors reach all of them.
//!
//! `cargo run -p larder --example fetch`

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use std::{fmt, thread};

use larder::{Config, FetchError, Larder, RealClock, SetOptions, block_on};

/// An error of the database.
#[derive(Debug)]
struct Unreachable;

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the database is unreachable")
    }
}

impl Error for Unreachable {}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let config = Config { dram_bytes: 8 << 20, ..Config::default() };
    let cache = block_on(Larder::open(config, None, Arc::new(RealClock)))?;
    let options = SetOptions { ttl: Some(Duration::from_secs(60)), ..SetOptions::default() };

    let queries = AtomicU32::new(0);
    let query = async || {
        queries.fetch_add(1, Relaxed);
        thread::sleep(Duration::from_millis(50));
        Ok::<_, Unreachable>(b"rye".to_vec())
    };
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let value = block_on(cache.get_or_fetch(b"bread", options, query));
                assert_eq!(&*value.expect("the query succeeds"), b"rye");
            });
        }
    });
    println!("8 callers, {} query", queries.load(Relaxed));
    assert_eq!(queries.load(Relaxed), 1);

    // A fetch that fails stores nothing; its error names the cause.
    let down = async || Err::<Vec<u8>, _>(Unreachable);
    let error = block_on(cache.get_or_fetch(b"cake", options, down)).expect_err("the fetch failed");
    assert!(matches!(error, FetchError::Fetch(_)), "{error:?}");
    println!("error: {error}");
    assert!(block_on(cache.get(b"cake"))?.is_none());
    Ok(())
}
