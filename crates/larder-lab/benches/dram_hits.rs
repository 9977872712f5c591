//! The cost of a hit in DRAM, and the gain of more threads.
//!
//! `cargo bench -p larder-lab --bench dram_hits [-- THREADS]`. Rounds of one thread and of THREADS (default 2)
//! alternate; prints medians and spread. The work is that of the `dram` workload of the comparison with other caches:
//! 250,000 keys of 16 bytes, values of 100 to 1000 bytes, zipf 0.9, everything in memory. Keys are drawn before the
//! clock starts.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use clap::Parser;
use larder::{Config, Larder, RealClock, block_on};
use larder_workload::generate::ZipfMandelbrot;
use larder_workload::{Spread, machine};

const KEYS: u32 = 250_000;
const ZIPF: f64 = 0.9;
const DRAM_BYTES: u64 = 256 << 20;
const DRAWN: usize = 1 << 20;
const OPS: usize = 4 << 20;
const ROUNDS: usize = 7;
const SEED: u64 = 1;

#[derive(Debug, Parser)]
struct Arguments {
    /// Threads to compare with one
    #[arg(default_value_t = 2)]
    threads: usize,
    /// Passed by cargo to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { threads, .. } = Arguments::parse();
    for line in machine::describe(&std::env::current_dir()?) {
        println!("{line}");
    }
    println!("{KEYS} keys, zipf {ZIPF}, {DRAM_BYTES} bytes of DRAM, seed {SEED}");
    let config = Config { dram_bytes: DRAM_BYTES, ..Config::default() };
    let cache = block_on(Larder::open(config, None, Arc::new(RealClock)))?;
    let mut rng = fastrand::Rng::with_seed(SEED);
    let lengths: Vec<usize> = (0..KEYS).map(|_| rng.usize(100..=1000)).collect();
    for key in 0..KEYS {
        cache.blocking().set(&key_bytes(key), &vec![7; lengths[key as usize]], None)?;
    }
    let drawn: Vec<Vec<u32>> = (0..threads).map(|_| draw(&mut rng)).collect();
    let kinds = [("get", 0), ("4 get : 1 set", 20), ("set", 100)];
    let mut results = [const { (Vec::new(), Vec::new()) }; 3];
    for _ in 0..ROUNDS {
        for ((_, set_percent), result) in kinds.iter().zip(&mut results) {
            result.0.push(round(&cache, &drawn[..1], &lengths, *set_percent));
            result.1.push(round(&cache, &drawn, &lengths, *set_percent));
        }
    }
    for ((name, _), (one, many)) in kinds.iter().zip(results) {
        let gains = one.iter().zip(&many).map(|(one, many)| many / one).collect();
        println!(
            "{name}: 1 thread {} M/s, {threads} threads {} M/s, {} times as many",
            spread(one),
            spread(many),
            spread(gains)
        );
    }
    Ok(())
}

/// Millions of operations a second, with one thread for each list of keys.
fn round(cache: &Larder, drawn: &[Vec<u32>], lengths: &[usize], set_percent: usize) -> f64 {
    let began = Instant::now();
    std::thread::scope(|scope| {
        for keys in drawn {
            scope.spawn(|| work(cache, keys, lengths, set_percent));
        }
    });
    #[allow(clippy::cast_precision_loss)] // far below 2^52
    let ops = (OPS * drawn.len()) as f64;
    ops / began.elapsed().as_secs_f64() / 1e6
}

fn work(cache: &Larder, keys: &[u32], lengths: &[usize], set_percent: usize) {
    let cache = cache.blocking();
    let room = [7; 1000];
    for op in 0..OPS {
        let key = keys[op % DRAWN];
        if op * 37 % 100 < set_percent {
            let value = &room[..lengths[key as usize]];
            cache.set(&key_bytes(key), value, None).expect("it fits");
        } else {
            let value = cache.get(&key_bytes(key)).expect("the key is valid");
            assert_eq!(value.map(|value| value.len()), Some(lengths[key as usize]));
        }
    }
}

fn key_bytes(key: u32) -> [u8; 16] {
    let mut bytes = *b"key-............";
    bytes[4..8].copy_from_slice(&key.to_le_bytes());
    bytes
}

/// Draws keys by popularity, which is independent of the order in which they were set.
fn draw(rng: &mut fastrand::Rng) -> Vec<u32> {
    let law = ZipfMandelbrot::new(u64::from(KEYS), 0.0, ZIPF);
    let mut order: Vec<u32> = (0..KEYS).collect();
    fastrand::Rng::with_seed(SEED).shuffle(&mut order);
    let ranks = (0..DRAWN).map(|_| usize::try_from(law.draw(rng)).expect("a rank of KEYS"));
    ranks.map(|rank| order[rank - 1]).collect()
}

/// Median, minimum and maximum.
fn spread(rounds: Vec<f64>) -> Spread {
    Spread::of(rounds).expect("there are rounds")
}
