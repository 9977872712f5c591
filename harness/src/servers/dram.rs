//! Hits in DRAM: 32-byte keys, 100-byte values, 50 connections.

use super::contestant::{Contestant, Start};
use super::rounds::{LoadResults, Pair};
use super::settings::Bench;

/// Enough room for all keys, several times over.
pub(super) const MEMORY: u64 = 1 << 30;

/// A shape of the load, and its options for `larder bench`.
pub(super) const SHAPES: [(&str, &[&str]); 5] = [
    ("pipeline 1", &[]),
    ("pipeline 1, 10 % sets", &["--sets", "10"]),
    ("pipeline 16", &["--pipeline", "16"]),
    ("pipeline 16, 10 % sets", &["--pipeline", "16", "--sets", "10"]),
    ("16 keys a request", &["--multiget", "16"]),
];

const PAIRS: [Pair; 5] = [
    ("epoll / memcached", 1, 0),
    ("io_uring / memcached", 2, 0),
    ("epoll / Valkey", 4, 3),
    ("io_uring / Valkey", 5, 3),
    ("epoll / io_uring", 1, 2),
];

/// Measures, and prints. Returns what was not available.
pub(super) fn run(bench: &Bench) -> Result<Vec<String>, String> {
    let start = |name| Start { name, memory_bytes: MEMORY, flash: None, limit_bytes: None };
    let memcached = Contestant::memcached(bench, &start("memcached"))?;
    let epoll = Contestant::larder(bench, &start("larder-epoll"), "epoll")?;
    let ring = Contestant::larder(bench, &start("larder-io_uring"), "io_uring")?;
    let valkey = Contestant::valkey(bench, &start("valkey"))?;
    let targets = [
        &memcached.targets[0],
        &epoll.targets[0],
        &ring.targets[0],
        &valkey.targets[0],
        &epoll.targets[1],
        &ring.targets[1],
    ]
    .map(String::as_str);
    for (at, (shape, words)) in SHAPES.iter().enumerate() {
        let answered = LoadResults::measure(bench, &targets, words)?;
        if at == 0 {
            println!("\nDRAM hits, {} threads each\n{}", bench.settings.threads, answered.about());
        }
        answered.print(shape, &targets, &PAIRS);
    }
    Ok(Vec::new())
}
