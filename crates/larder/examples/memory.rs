//! A cache in memory alone: set, get, lifetimes, counters, compare-and-swap.
//!
//! `cargo run -p larder --example memory`

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use larder::{Cas, Config, Larder, RealClock, SetOptions, block_on};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // 64 MiB for keys, values and the index. Without a device nothing is written to flash.
    let config = Config { dram_bytes: 64 << 20, ..Config::default() };
    let cache = block_on(Larder::open(config, None, Arc::new(RealClock)))?;
    // Plain threads call `blocking()`; in async code, await the calls of the cache itself.
    let calls = cache.blocking();

    calls.set(b"bread", b"rye", None)?;
    let value = calls.get(b"bread")?.expect("set a moment ago");
    assert_eq!(&*value, b"rye"); // a value in DRAM is read in place, without a copy

    // An item leaves after its lifetime, or earlier if the cache needs room.
    let hour = Some(Duration::from_secs(3600));
    calls.set(b"milk", b"fresh", hour)?;

    // Each of these is one step, whatever other threads do.
    calls.set(b"visits", b"41", None)?;
    assert_eq!(calls.incr(b"visits", 1)?, Some(42));
    assert!(!calls.add(b"bread", b"wheat", SetOptions::default())?); // it exists already

    // Compare and swap: store only if no other caller has changed the value since.
    let seen = calls.get(b"bread")?.expect("still there");
    let outcome = calls.cas(b"bread", b"spelt", seen.version(), SetOptions::default())?;
    assert_eq!(outcome, Cas::Stored);

    assert!(calls.delete(b"bread")?);
    assert!(calls.get(b"bread")?.is_none());
    println!("{} gets, {} of them hits", cache.stats().gets, cache.stats().dram_hits);
    Ok(())
}
