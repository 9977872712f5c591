//! Getters and setters with more threads than cores: how they slow each other down.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use larder_workload::Spread;
use serde_json::{Value, json};

use crate::item::Item;
use crate::options::Options;
use crate::summary::short;
use crate::system::{DramCache, System, open_in_dram};
use crate::{child, machine, process};

const VALUE_BYTES: usize = 300;
const DRAM_BYTES: u64 = 256 << 20;
/// A third more than fit.
const KEYS: u64 = 1_000_000;
/// Numbers of getters and setters.
const CROWDS: [(usize, usize); 4] = [(2, 1), (8, 2), (16, 2), (62, 2)];
const ROUNDS: usize = 3;
const SECONDS: f64 = 3.0;

/// Runs systems with several crowds, round by round, and prints a table.
pub(crate) fn all(options: &Options) -> Result<(), String> {
    machine::describe(&options.dir).iter().for_each(|line| println!("{line}"));
    let usual = [System::Larder, System::QuickCache];
    let systems = options.systems.as_deref().unwrap_or(&usual);
    println!(
        "\n| getters + setters | system | sets/s | if getters only spin | share | worst set ms | \
         if getters only spin | gets/s |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|");
    for (getters, setters) in CROWDS {
        let mut done = vec![[Vec::new(), Vec::new()]; systems.len()];
        for _ in 0..options.rounds.unwrap_or(ROUNDS) {
            for (system, done) in systems.iter().zip(&mut done) {
                for (spin, done) in done.iter_mut().enumerate() {
                    done.push(of(*system, getters, setters, spin == 1)?);
                }
            }
        }
        for (system, [with, control]) in systems.iter().zip(&done) {
            let of = |rounds: &[Value], name: &str| {
                let numbers = rounds.iter().filter_map(|round| round[name].as_f64());
                Spread::of(numbers).map_or_else(String::new, |spread| short(&spread))
            };
            let number = |round: &Value| round["sets_per_second"].as_f64().unwrap_or(f64::NAN);
            let shares = with.iter().zip(control).map(|(with, alone)| number(with) / number(alone));
            println!(
                "| {getters} + {setters} | {} | {} | {} | {} | {} | {} | {} |",
                system.name(),
                of(with, "sets_per_second"),
                of(control, "sets_per_second"),
                Spread::of(shares).map_or_else(String::new, |spread| short(&spread)),
                of(with, "worst_set_ms"),
                of(control, "worst_set_ms"),
                of(with, "gets_per_second"),
            );
        }
    }
    Ok(())
}

fn of(system: System, getters: usize, setters: usize, spin: bool) -> Result<Value, String> {
    let words = [
        if spin { "threads-control" } else { "threads-one" }.to_owned(),
        format!("--system={}", system.name()),
        format!("--clients={getters},{setters}"),
    ];
    let line = child::last_line(&words, &format!("threads with {}", system.name()))?;
    serde_json::from_str(&line).map_err(|cause| format!("threads: {line}: {cause}"))
}

/// Makes one run in this process. In the control run, getters only spin.
pub(crate) fn one(options: &Options, spin: bool) -> Result<(), String> {
    let (Some([system]), Some(&[getters, setters])) =
        (options.systems.as_deref(), options.clients.as_deref())
    else {
        return Err("threads-one: needs one --system and --clients GETTERS,SETTERS".to_owned());
    };
    let cache = open_in_dram(*system, DRAM_BYTES, DRAM_BYTES / (16 + VALUE_BYTES as u64))?;
    println!("{}", run(&*cache, getters, setters, spin)?);
    Ok(())
}

fn run(cache: &dyn DramCache, getters: usize, setters: usize, spin: bool) -> Result<Value, String> {
    let mut room = Vec::new();
    for key in 0..KEYS {
        let item = Item::new(key, VALUE_BYTES);
        cache.set(&item, item.value(&mut room))?;
    }
    // Start the clock when all threads are ready: with many threads for each core, the last one starts a second after
    // the first.
    let all_there = Barrier::new(getters + setters + 1);
    let (over, gets) = (AtomicBool::new(false), AtomicU64::new(0));
    let is_over = || over.load(Ordering::Relaxed);
    let get = |seed: u64| -> Result<(), String> {
        let (mut rng, mut done) = (fastrand::Rng::with_seed(seed), 0);
        cache.get(&Item::new(rng.u64(..KEYS), VALUE_BYTES))?; // a thread's first operation is more expensive
        all_there.wait();
        while !is_over() {
            let item = Item::new(rng.u64(..KEYS), VALUE_BYTES);
            if !spin {
                cache.get(&item)?;
            }
            done += 1;
        }
        gets.fetch_add(done, Ordering::Relaxed);
        Ok(())
    };
    let set = |seed: u64| -> Result<(u64, Duration), String> {
        let (mut rng, mut room) = (fastrand::Rng::with_seed(seed), Vec::new());
        let item = Item::new(rng.u64(..KEYS), VALUE_BYTES);
        cache.set(&item, item.value(&mut room))?;
        all_there.wait();
        let (mut done, mut worst, mut last) = (0, Duration::ZERO, Instant::now());
        while !is_over() {
            let item = Item::new(rng.u64(..KEYS), VALUE_BYTES);
            cache.set(&item, item.value(&mut room))?;
            let now = Instant::now();
            (worst, last, done) = (worst.max(now - last), now, done + 1);
        }
        Ok((done, worst))
    };
    let (sets, worst, seconds) = std::thread::scope(|scope| {
        let (get, set) = (&get, &set);
        let getting: Vec<_> =
            (0..getters as u64).map(|at| scope.spawn(move || get(100 + at))).collect();
        let setting: Vec<_> = (0..setters as u64).map(|at| scope.spawn(move || set(at))).collect();
        all_there.wait();
        let began = Instant::now();
        std::thread::sleep(Duration::from_secs_f64(SECONDS));
        let seconds = began.elapsed().as_secs_f64();
        over.store(true, Ordering::Relaxed);
        let died = |_| "a thread panicked".to_owned();
        getting.into_iter().try_for_each(|thread| thread.join().map_err(died)?)?;
        let mut all = (0, Duration::ZERO);
        for thread in setting {
            let (sets, worst) = thread.join().map_err(died)??;
            all = (all.0 + sets, all.1.max(worst));
        }
        Ok::<_, String>((all.0, all.1, seconds))
    })?;
    Ok(json!({
        "sets_per_second": sets as f64 / seconds,
        "gets_per_second": gets.into_inner() as f64 / seconds,
        "worst_set_ms": worst.as_secs_f64() * 1e3,
        "load_average": process::load_average(),
    }))
}
