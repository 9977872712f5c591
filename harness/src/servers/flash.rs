//! Hits on flash: the working set is four times the memory, with the object sizes of Meta's sample. Every server is in
//! a control group with the same memory limit, so that the page cache counts, and uses that memory as one would
//! configure it: Larder reads past the page cache and takes nearly all of it; memcached has the headers of all objects
//! in memory, and leaves a third to the page cache, through which extstore reads.
//!
//! extstore drops what it cannot write in time, so keys are stored slowly, and the share of hits stands beside each
//! number. The last row is what a user sees: a miss costs a millisecond in a backend.

use std::path::{Path, PathBuf};

use super::contestant::{Contestant, Start};
use super::objects;
use super::rounds::{LoadResults, Series, ratios, spread};
use super::settings::Bench;

/// Memory limit of each server, including file pages.
const LIMIT: u64 = 256 << 20;
/// Memory that Larder is configured to use. The rest is for connections, buffers and the program.
const LARDER_MEMORY: u64 = 192 << 20;
/// The same of memcached. The rest is its page cache, too.
const MEMCACHED_MEMORY: u64 = 160 << 20;
/// Keys a second that are stored before the measurement.
const FILL_RATE: &str = "12000";
/// Milliseconds that a backend takes for a miss, in the last row.
const BACKEND_MS: &str = "1";
const FLASH: u64 = 4 << 30;
/// The mean value size of meta-kv. The number of values is chosen so that they are four times the memory.
const VALUE_BYTES: u64 = 1024;
/// Seconds in which the caches fill with the workload's objects.
const WARM_UP: &str = "4";

/// Measures, and prints. Returns what was not available.
pub(super) fn run(bench: &Bench) -> Result<Vec<String>, String> {
    let dirs = ["larder-epoll", "larder-io_uring", "memcached"].map(|name| bench.dir.join(name));
    for dir in &dirs {
        std::fs::create_dir_all(dir).map_err(|cause| format!("{}: {cause}", dir.display()))?;
    }
    let measured = measure(bench, &dirs);
    dirs.iter().for_each(|dir| drop(std::fs::remove_dir_all(dir)));
    measured
}

fn measure(bench: &Bench, dirs: &[PathBuf; 3]) -> Result<Vec<String>, String> {
    let [epoll_dir, ring_dir, memcached_dir] = dirs;
    let larder = |name, dir| start(name, dir, LARDER_MEMORY);
    let epoll = Contestant::larder(bench, &larder("larder-epoll", epoll_dir), "epoll")?;
    let ring = Contestant::larder(bench, &larder("larder-io_uring", ring_dir), "io_uring")?;
    let with_extstore = start("memcached", memcached_dir, MEMCACHED_MEMORY);
    let memcached = Contestant::memcached(bench, &with_extstore)?;
    let targets = [&memcached, &epoll, &ring].map(|contestant| contestant.targets[0].as_str());
    let keys = (4 * LIMIT / VALUE_BYTES).to_string();
    let value = VALUE_BYTES.to_string();
    let every = ["--keys", &keys, "--value-bytes", &value, "--look-aside"];
    // Only once: the second shape reads what the first has stored.
    let slowly = [&every[..], &["--fill-rate", FILL_RATE]].concat();
    let answered = LoadResults::measure(bench, &targets, &slowly)?;
    println!("\nflash hits, {} MiB of memory each\n{}", LIMIT >> 20, answered.about());
    print("every key as likely, pipeline 1", &answered, &targets);
    let every = [&every[..], &["--no-fill"]].concat();
    let answered =
        LoadResults::measure(bench, &targets, &[&every[..], &["--pipeline", "16"]].concat())?;
    print("every key as likely, pipeline 16", &answered, &targets);
    sixteen_at_a_time(bench, &targets[1..], &every)?;
    println!("\nmemory for each object on flash, bytes");
    for server in [&epoll, &ring] {
        println!("{:42} {:.1}", server.targets[0], objects::of_larder(server.admin.unwrap_or(0))?);
    }
    println!("{:42} {:.1}", targets[0], objects::of_memcached(memcached.port().unwrap_or(0))?);
    // The most popular keys are in the memory of each server.
    let words = ["--workload", "meta-kv", "--look-aside", "--warm-up", WARM_UP];
    print("meta-kv", &LoadResults::measure(bench, &targets, &words)?, &targets);
    let words = [&words[..], &["--backend-ms", BACKEND_MS]].concat();
    let shape = format!("meta-kv, and {BACKEND_MS} ms in a backend for a miss");
    print(&shape, &LoadResults::measure(bench, &targets, &words)?, &targets);
    Ok(Vec::new())
}

/// Latency of one connection with sixteen pipelined requests, compared with one at a time.
fn sixteen_at_a_time(bench: &Bench, targets: &[&str], words: &[&str]) -> Result<(), String> {
    let rates = |pipeline| -> Result<Vec<Series>, String> {
        let words = [words, &["--connections", "1", "--pipeline", pipeline]].concat();
        let answered = LoadResults::measure(bench, targets, &words)?;
        Ok((0..targets.len()).map(|at| answered.series(at, "requests_per_second")).collect())
    };
    let (one, sixteen) = (rates("1")?, rates("16")?);
    println!("\none connection: the time of 16 hits asked together, in times of one");
    for (target, (one, sixteen)) in targets.iter().zip(one.iter().zip(&sixteen)) {
        let times: Series = ratios(one, sixteen).iter().map(|ratio| ratio * 16.0).collect();
        println!("{target:42} {}", spread(&times, 2));
    }
    Ok(())
}

fn start<'a>(name: &'a str, dir: &'a Path, memory_bytes: u64) -> Start<'a> {
    Start { name, memory_bytes, flash: Some((dir, FLASH)), limit_bytes: Some(LIMIT) }
}

fn print(shape: &str, answered: &LoadResults, targets: &[&str]) {
    println!("\n{shape}");
    println!(
        "{:42} {:>22} {:>26} {:>26} {:>10}",
        "", "CPU us a request", "hits/s", "p99 us", "hits"
    );
    let a_second = |at: usize| answered.series(at, "requests_per_second");
    let hits = |at: usize| -> Vec<f64> {
        let rounds = answered.series(at, "hits").into_iter().zip(answered.series(at, "requests"));
        let each = rounds.zip(answered.series(at, "requests_per_second"));
        each.map(|((hits, requests), a_second)| hits / requests.max(1.0) * a_second).collect()
    };
    for (at, target) in targets.iter().enumerate() {
        let keys = answered.sum(at, "keys").max(1.0);
        println!(
            "{:42} {:>22} {:>26} {:>26} {:>8.2} %  {:.0} requests/s",
            target,
            spread(&answered.series(at, "server_cpu_us"), 1),
            spread(&hits(at), 0),
            spread(&answered.series(at, "p99_us"), 0),
            answered.sum(at, "hits") / keys * 100.0,
            a_second(at).iter().sum::<f64>() / a_second(at).len().max(1) as f64
        );
    }
    for (ours, target) in targets.iter().enumerate().skip(1) {
        let of = |number| {
            spread(&ratios(&answered.series(ours, number), &answered.series(0, number)), 2)
        };
        let name = target.split('=').next().unwrap_or_default();
        println!(
            "{:42} {:>22} {:>26} {:>26}",
            format!("{name} / memcached"),
            of("server_cpu_us"),
            spread(&ratios(&hits(ours), &hits(0)), 2),
            of("p99_us")
        );
    }
}
