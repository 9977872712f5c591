//! Isolates a single hit, in DRAM or of a large object on flash, in a function of its own, to study the code that runs
//! in it.
//!
//! `cargo run -p larder-harness --example one_hit -- dram` hits in DRAM. With `fill FILE` it makes a file of 64 MiB,
//! and with `loc FILE` it hits an object there. `cargo xtask hits` runs it, and counts the source files that each hit
//! passes through.

use std::future::Future;
use std::hint::black_box;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use larder::{Larder, SetOptions, Tiers, Value, block_on};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const KEY: &[u8] = b"bread";
const DRAM_BYTES: u64 = 4 << 20;
const FLASH_BYTES: u64 = 64 << 20;
/// Larger than what goes to buckets.
const LARGE_BYTES: usize = 20_000;

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["dram"] => dram()?,
        ["fill", file] => return fill(Path::new(file)),
        ["loc", file] => loc(Path::new(file))?,
        _ => return Err("one_hit dram, or one_hit fill FILE and one_hit loc FILE".into()),
    }
    // Exit without dropping any cache: returning memory needs the page size, which rustix reads from a place where
    // valgrind has nothing.
    std::process::exit(0)
}

fn dram() -> Outcome<()> {
    let cache = ManuallyDrop::new(Larder::in_memory(DRAM_BYTES)?);
    block_on(cache.set(KEY, b"rye", None))?;
    assert_eq!(dram_hit(&cache)?.as_deref(), Some(&b"rye"[..]));
    let counted = hit_in_dram(&cache)?;
    assert!(counted.is_some() && cache.stats().dram_hits == 2);
    Ok(())
}

fn fill(file: &Path) -> Outcome<()> {
    let cache = block_on(Larder::at(file, FLASH_BYTES))?;
    // A read of such a value does not bring it to DRAM.
    let only = SetOptions { tiers: Tiers::FlashOnly, ..SetOptions::default() };
    block_on(cache.set_with(KEY, &[7; LARGE_BYTES], only))?;
    block_on(cache.close())?;
    Ok(())
}

fn loc(file: &Path) -> Outcome<()> {
    let cache = ManuallyDrop::new(block_on(Larder::at(file, FLASH_BYTES))?);
    block_on(cache.rebuild());
    assert_eq!(loc_hit(&cache)?.map(|value| value.len()), Some(LARGE_BYTES));
    let counted = hit_in_loc(&cache)?;
    assert!(counted.is_some() && cache.stats().loc_hits == 2);
    Ok(())
}

/// The function that is counted: caches and lazy initialization are warm by now.
#[inline(never)]
fn hit_in_dram(cache: &Larder) -> Outcome<Option<Value>> {
    dram_hit(black_box(cache))
}

#[inline(never)]
fn hit_in_loc(cache: &Larder) -> Outcome<Option<Value>> {
    loc_hit(black_box(cache))
}

/// A DRAM hit is ready when the future is polled for the first time.
fn dram_hit(cache: &Larder) -> Outcome<Option<Value>> {
    match pin!(cache.get(KEY)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(found) => Ok(found?),
        Poll::Pending => Err("a hit in DRAM waits for nothing".into()),
    }
}

fn loc_hit(cache: &Larder) -> Outcome<Option<Value>> {
    Ok(block_on(cache.get(KEY))?)
}
