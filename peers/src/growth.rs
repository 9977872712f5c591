//! The cost of a cache in memory as it grows: one thread, values of 300 bytes, twice as many keys as fit.

use std::time::{Duration, Instant};

use larder_workload::Spread;
use serde_json::{Value, json};

use crate::item::Item;
use crate::options::Options;
use crate::summary::short;
use crate::system::{DramCache, System, open_in_dram};
use crate::workload::Scale;
use crate::{child, machine, process};

const VALUE_BYTES: usize = 300;
const ITEM_BYTES: u64 = 16 + VALUE_BYTES as u64;
/// Largest number of operations after the fill.
const OPS_MAX: u64 = 4_000_000;
const ROUNDS: usize = 3;
const MIB: u64 = 1 << 20;
/// The reported numbers of a run, with their units.
const COLUMNS: [(&str, &str); 6] = [
    ("fill_us", "fill, us a set"),
    ("fill_cpu_us", "... of CPU"),
    ("look_aside_us", "look-aside, us"),
    ("sets_us", "sets later, us"),
    ("worst_ms", "worst operation, ms"),
    ("resident_mib", "resident MiB"),
];

/// Runs systems with several budgets, round by round, and prints a table.
pub(crate) fn all(options: &Options) -> Result<(), String> {
    machine::describe(&options.dir).iter().for_each(|line| println!("{line}"));
    let usual = [System::Larder, System::QuickCache];
    let systems = options.systems.as_deref().unwrap_or(&usual);
    let budgets: Vec<u64> = match (options.dram_bytes, options.scale()) {
        (Some(bytes), _) => vec![bytes],
        (None, Scale::Full) => vec![256 * MIB, 1024 * MIB, 4096 * MIB, 12288 * MIB],
        (None, Scale::Quick) => vec![256 * MIB, 1024 * MIB],
        (None, Scale::Tiny) => vec![4 * MIB],
    };
    let names: Vec<_> = COLUMNS.iter().map(|(_, name)| *name).collect();
    println!("\n| budget MiB | system | {} | load |", names.join(" | "));
    println!("|---:|---|{}---:|", "---:|".repeat(COLUMNS.len()));
    for budget in budgets {
        let mut done = vec![Vec::new(); systems.len()];
        for round in 0..options.rounds.unwrap_or(ROUNDS) {
            for turn in 0..systems.len() {
                let at = (turn + round) % systems.len();
                done[at].push(of(systems[at], budget, options.seed + round as u64)?);
            }
        }
        for (system, rounds) in systems.iter().zip(&done) {
            let cell = |name: &str| {
                let numbers = rounds.iter().filter_map(|round| round[name].as_f64());
                Spread::of(numbers).map_or_else(String::new, |spread| short(&spread))
            };
            let cells: Vec<_> = COLUMNS.iter().map(|(name, _)| cell(name)).collect();
            let (name, load) = (system.name(), cell("load_average"));
            println!("| {} | {name} | {} | {load} |", budget / MIB, cells.join(" | "));
        }
    }
    Ok(())
}

fn of(system: System, budget: u64, seed: u64) -> Result<Value, String> {
    let words = |mode: &str| {
        [
            mode.to_owned(),
            format!("--system={}", system.name()),
            format!("--dram-bytes={budget}"),
            format!("--seed={seed}"),
        ]
    };
    let what = format!("growth with {}", system.name());
    // In a virtual machine, the host may allocate memory only at the first write, which takes longer than a set. So a
    // first process uses the same amount of memory in the same way, just before the run.
    child::last_line(&words("growth-fill"), &what)?;
    let line = child::last_line(&words("growth-one"), &what)?;
    serde_json::from_str(&line).map_err(|cause| format!("growth: {line}: {cause}"))
}

/// Makes one run in this process.
pub(crate) fn one(options: &Options) -> Result<(), String> {
    let (cache, budget) = open(options)?;
    println!("{}", run(&*cache, budget, options.seed)?);
    Ok(())
}

/// Makes only the fill of a run.
pub(crate) fn fill_only(options: &Options) -> Result<(), String> {
    let (cache, budget) = open(options)?;
    fill(&*cache, budget).map(|_| ())
}

fn open(options: &Options) -> Result<(Box<dyn DramCache>, u64), String> {
    let (Some([system]), Some(budget)) = (options.systems.as_deref(), options.dram_bytes) else {
        return Err("growth: a run needs one --system and --dram-bytes".to_owned());
    };
    Ok((open_in_dram(*system, budget, budget / ITEM_BYTES)?, budget))
}

/// Times consecutive operations: each begins where the previous one ends.
struct Laps {
    began: Instant,
    last: Instant,
    worst: Duration,
    laps: u64,
}

impl Laps {
    fn start() -> Self {
        let now = Instant::now();
        Self { began: now, last: now, worst: Duration::ZERO, laps: 0 }
    }

    fn lap(&mut self) {
        let now = Instant::now();
        self.worst = self.worst.max(now - self.last);
        self.last = now;
        self.laps += 1;
    }

    fn us(&self) -> f64 {
        (self.last - self.began).as_secs_f64() * 1e6 / self.laps.max(1) as f64
    }
}

/// Twice as many keys as fit.
fn keys(budget: u64) -> u64 {
    2 * budget / ITEM_BYTES
}

fn fill(cache: &dyn DramCache, budget: u64) -> Result<Laps, String> {
    let mut room = Vec::new();
    let mut fill = Laps::start();
    for key in 0..keys(budget) {
        let item = Item::new(key, VALUE_BYTES);
        cache.set(&item, item.value(&mut room))?;
        fill.lap();
    }
    Ok(fill)
}

fn run(cache: &dyn DramCache, budget: u64, seed: u64) -> Result<Value, String> {
    let keys = keys(budget);
    let mut room = Vec::new();
    let mut rng = fastrand::Rng::with_seed(seed);
    let cpu = process::cpu_seconds()?;
    let fill = fill(cache, budget)?;
    let fill_cpu_us = (process::cpu_seconds()? - cpu) * 1e6 / keys as f64;
    let mut look_aside = Laps::start();
    for _ in 0..keys.min(OPS_MAX) {
        let item = Item::new(rng.u64(..keys), VALUE_BYTES);
        if !cache.get(&item)? {
            cache.set(&item, item.value(&mut room))?;
        }
        look_aside.lap();
    }
    let mut sets = Laps::start();
    for _ in 0..keys.min(OPS_MAX) {
        let item = Item::new(rng.u64(..keys), VALUE_BYTES);
        cache.set(&item, item.value(&mut room))?;
        sets.lap();
    }
    let worst = fill.worst.max(look_aside.worst).max(sets.worst);
    Ok(json!({
        "fill_us": fill.us(),
        "fill_cpu_us": fill_cpu_us,
        "look_aside_us": look_aside.us(),
        "sets_us": sets.us(),
        "worst_ms": worst.as_secs_f64() * 1e3,
        "resident_mib": process::resident_bytes()? as f64 / MIB as f64,
        "load_average": process::load_average(),
    }))
}
