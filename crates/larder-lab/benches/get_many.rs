//! The gain of looking up many keys at once, in a tier far larger than the processor's caches.
//!
//! `cargo bench -p larder-lab --bench get_many [-- KEYS_AT_ONCE]`. Rounds of single gets and of gets of KEYS_AT_ONCE
//! (default 16) keys alternate on the same keys, uniformly drawn from a tier of 1 GiB that is full of values of 300
//! bytes; prints medians and spread. Each value is copied to one buffer, as a server does. Keys are drawn before the
//! clock starts.

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use clap::Parser;
use larder::{Blocking, Config, Larder, RealClock, block_on};
use larder_workload::{Spread, machine};

const DRAM_BYTES: u64 = 1 << 30;
const VALUE_BYTES: usize = 300;
/// Number of keys that fit.
const KEYS: u32 = 3_000_000;
const DRAWN: usize = 1 << 20;
const ROUNDS: usize = 9;
const SEED: u64 = 1;

type Key = [u8; 16];
/// A way to look up keys, and its name.
type Way<'a> = (&'a str, &'a dyn Fn(&[Key]));

#[derive(Debug, Parser)]
struct Arguments {
    /// Keys of one call
    #[arg(default_value_t = 16)]
    at_once: usize,
    /// Passed by cargo to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { at_once, .. } = Arguments::parse();
    for line in machine::describe(&std::env::current_dir()?) {
        println!("{line}");
    }
    println!(
        "{KEYS} keys, uniform, {VALUE_BYTES} bytes a value, {DRAM_BYTES} bytes of DRAM, seed {SEED}"
    );
    let config = Config { dram_bytes: DRAM_BYTES, ..Config::default() };
    let cache = block_on(Larder::open(config, None, Arc::new(RealClock)))?;
    for key in 0..KEYS {
        cache.blocking().set(&key_bytes(key), &[7; VALUE_BYTES], None)?;
    }
    let mut rng = fastrand::Rng::with_seed(SEED);
    let drawn: Vec<Key> = (0..DRAWN).map(|_| key_bytes(rng.u32(..KEYS))).collect();
    let cache = cache.blocking();
    let ways: [Way<'_>; 4] = [
        ("get, one by one", &|keys| one_by_one(cache, keys)),
        ("get_into, one by one", &|keys| into_one_by_one(cache, keys)),
        ("get_many", &|keys| many(cache, keys)),
        ("get_many_with", &|keys| many_with(cache, keys)),
    ];
    let mut took = vec![Vec::new(); ways.len()];
    for _ in 0..ROUNDS {
        for ((_, way), took) in ways.iter().zip(&mut took) {
            let began = Instant::now();
            drawn.chunks_exact(at_once).for_each(way);
            #[allow(clippy::cast_precision_loss)] // far below 2^52
            took.push(began.elapsed().as_secs_f64() * 1e9 / DRAWN as f64);
        }
    }
    let first = took[0].clone();
    for ((name, _), took) in ways.iter().zip(took) {
        let ratios = took.iter().zip(&first).map(|(one, other)| one / other).collect();
        println!(
            "{name}: {} ns a key, {} times as long as the first",
            spread(took),
            spread(ratios)
        );
    }
    Ok(())
}

fn one_by_one(cache: Blocking<'_>, keys: &[Key]) {
    let mut reply = Vec::with_capacity(keys.len() * VALUE_BYTES);
    for key in keys {
        let value = cache.get(key).expect("the key is valid").expect("all fit");
        reply.extend_from_slice(&value);
    }
    black_box(reply);
}

fn into_one_by_one(cache: Blocking<'_>, keys: &[Key]) {
    let mut reply = Vec::with_capacity(keys.len() * VALUE_BYTES);
    for key in keys {
        cache.get_into(key, &mut reply).expect("there is room").expect("all fit");
    }
    black_box(reply);
}

fn many(cache: Blocking<'_>, keys: &[Key]) {
    let mut reply = Vec::with_capacity(keys.len() * VALUE_BYTES);
    for value in cache.get_many(keys).expect("the keys are valid") {
        reply.extend_from_slice(&value.expect("all fit"));
    }
    black_box(reply);
}

fn many_with(cache: Blocking<'_>, keys: &[Key]) {
    let mut reply = Vec::with_capacity(keys.len() * VALUE_BYTES);
    let found = cache.get_many_with(keys, |_, value, _| reply.extend_from_slice(value));
    assert_eq!(found.expect("the keys are valid"), keys.len());
    black_box(reply);
}

fn key_bytes(key: u32) -> Key {
    let mut bytes = *b"key-............";
    bytes[4..8].copy_from_slice(&key.to_le_bytes());
    bytes
}

/// Median, minimum and maximum.
fn spread(rounds: Vec<f64>) -> Spread {
    Spread::of(rounds).expect("there are rounds")
}
