//! Commands of collections and a script, beside Valkey: `redis-benchmark` loads both servers in turn.
//!
//! Of `M` collections with `M` members each, a request changes or reads a random member of a random one. Lists grow
//! from nothing to about as many elements.

use std::process::{Command, Stdio};

use super::contestant::{Contestant, Start};
use super::dram::MEMORY;
use super::rounds::{Series, ratios, spread};
use super::settings::Bench;
use super::tools::{number_before, port_of};
use crate::step;

/// A limiter of rates, as libraries send it.
const LIMITER: &str = "local n = redis.call('INCR', KEYS[1]) \
                       if n == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end return n";
/// The place of a random number below the option `-r`.
const RANDOM: &str = "__rand_int__";

/// A request: its name, and its words, in which `*` is a random number.
type Request = (&'static str, &'static [&'static str]);

const REQUESTS: [Request; 7] = [
    ("HSET", &["HSET", "h:*", "f:*", "0123456789"]),
    ("HGET", &["HGET", "h:*", "f:*"]),
    ("SADD", &["SADD", "s:*", "m:*"]),
    ("ZADD", &["ZADD", "z:*", "*", "m:*"]),
    ("ZRANGE 0 9", &["ZRANGE", "z:*", "0", "9"]),
    ("LPUSH", &["LPUSH", "l:*", "0123456789"]),
    ("EVAL", &["EVAL", LIMITER, "1", "n:*", "60"]),
];

/// The requests whose cost grows with the collection, on a single one.
const LARGE: [Request; 3] = [
    ("HSET", &["HSET", "large", "f:*", "0123456789"]),
    ("SADD", &["SADD", "large", "m:*"]),
    ("ZADD", &["ZADD", "large", "*", "m:*"]),
];

/// One line of the table.
struct Shape {
    request: Request,
    members: u32,
    pipeline: u32,
    requests: u32,
}

/// Measures, and prints. Returns what was not available.
pub(super) fn run(bench: &Bench) -> Result<Vec<String>, String> {
    let start = |name| Start { name, memory_bytes: MEMORY, flash: None, limit_bytes: None };
    let valkey = Contestant::valkey(bench, &start("valkey"));
    let (Some(_), Ok(valkey)) = (step::find_program(&["redis-benchmark"]), valkey) else {
        return Ok(vec!["redis-benchmark or Valkey".to_owned()]);
    };
    let larder = Contestant::larder(bench, &start("larder"), "io_uring")?;
    println!("\ncollections beside Valkey; 50 connections, sockets by io_uring");
    println!(
        "{:12} {:>7} {:>8} {:>24} {:>24} {:>20} {:>20}",
        "request", "members", "pipeline", "Valkey, CPU us", "Larder, CPU us", "CPU", "requests/s"
    );
    for members in [10, 100] {
        for pipeline in [1, 16] {
            for request in REQUESTS {
                let requests = if pipeline == 1 { 100_000 } else { 500_000 };
                measure(bench, &valkey, &larder, &Shape { request, members, pipeline, requests })?;
            }
        }
    }
    for members in [1000, 10_000] {
        for request in LARGE {
            let requests = 20_000_000 / members;
            measure(bench, &valkey, &larder, &Shape { request, members, pipeline: 16, requests })?;
        }
    }
    Ok(Vec::new())
}

fn measure(
    bench: &Bench,
    valkey: &Contestant,
    larder: &Contestant,
    shape: &Shape,
) -> Result<(), String> {
    let [mut cpu, mut rates]: [[Series; 2]; 2] = Default::default();
    let targets = [(valkey, &valkey.targets[0]), (larder, &larder.targets[1])];
    for (_, target) in targets {
        fill(bench, target, shape)?;
    }
    for _ in 0..bench.settings.rounds {
        for (at, (server, target)) in targets.into_iter().enumerate() {
            if shape.request.0 == "LPUSH" {
                load(bench, target, ("1", "1", "1"), &["FLUSHALL"])?;
            }
            let before = server.cpu_seconds()?;
            let numbers = shape.numbers();
            let (requests, pipeline) = (shape.requests.to_string(), shape.pipeline.to_string());
            let rate = load(bench, target, (&requests, &pipeline, &numbers), shape.request.1)?;
            let spent = server.cpu_seconds()? - before;
            cpu[at].push(spent * 1e6 / f64::from(shape.requests));
            rates[at].push(rate);
        }
    }
    println!(
        "{:12} {:>7} {:>8} {:>24} {:>24} {:>20} {:>20}",
        shape.request.0,
        shape.members,
        shape.pipeline,
        spread(&cpu[0], 2),
        spread(&cpu[1], 2),
        spread(&ratios(&cpu[1], &cpu[0]), 2),
        spread(&ratios(&rates[1], &rates[0]), 2)
    );
    Ok(())
}

impl Shape {
    /// How many random numbers there are.
    fn numbers(&self) -> String {
        match self.request.0 {
            "LPUSH" => (self.requests / self.members).to_string(),
            _ => self.members.to_string(),
        }
    }
}

/// Makes the collections that a shape works with.
fn fill(bench: &Bench, target: &str, shape: &Shape) -> Result<(), String> {
    let words: &[&str] = match shape.request.0 {
        "HGET" => REQUESTS[0].1,
        "ZRANGE 0 9" => REQUESTS[3].1,
        _ => shape.request.1,
    };
    load(bench, target, ("1", "1", "1"), &["FLUSHALL"])?;
    let cells = match shape.request.1.contains(&"large") {
        true => shape.members,
        false => shape.members * shape.members,
    };
    // With five draws for each, one in 150 is missed.
    load(bench, target, (&(5 * cells).to_string(), "16", &shape.numbers()), words).map(drop)
}

/// Runs `redis-benchmark` once: requests, pipeline, random numbers. Returns the requests per second.
fn load(
    bench: &Bench,
    target: &str,
    (requests, pipeline, numbers): (&str, &str, &str),
    words: &[&str],
) -> Result<f64, String> {
    let mut command = Command::new("taskset");
    command.args(["-c", &bench.settings.client_cores, "redis-benchmark", "-p", port_of(target)?]);
    let clients = if requests == "1" { "1" } else { "50" };
    command.args(["-c", clients, "-n", requests, "-P", pipeline, "-r", numbers, "-q"]);
    command.args(words.iter().map(|word| match word.starts_with("local") {
        true => (*word).to_owned(),
        false => word.replace('*', RANDOM),
    }));
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
    let output = output.map_err(|cause| format!("redis-benchmark: {cause}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.split(['\r', '\n']).rev().find(|line| line.contains("requests per second"));
    let rate = line.and_then(|line| number_before(line, "requests per second"));
    rate.ok_or_else(|| format!("redis-benchmark says no requests a second: {text}"))
}
