//! Host pages per second of the bare model, on one core.
//!
//! `cargo bench -p larder-ssd`. Rounds of the patterns are interleaved; medians and spread are
//! printed.

use std::time::Instant;

use larder_ssd::managed::{Geometry, ManagedConfig, ManagedSsd};

const LOGICAL_PAGES: u64 = 1 << 20;
const PAGES_PER_UNIT: u64 = 256;
const OP_PERCENT: f64 = 28.0;
const SEED: u64 = 1;
const ROUNDS: usize = 5;

fn main() {
    println!("machine: {}", machine());
    println!(
        "parameters: {LOGICAL_PAGES} logical pages of 4 KiB, {PAGES_PER_UNIT} pages a unit, \
         OP {OP_PERCENT} %, greedy, \
         shared GC unit, seed {SEED}, {ROUNDS} rounds"
    );
    let mut sequential = drive();
    let mut random = drive();
    let mut rng = fastrand::Rng::with_seed(SEED);
    // Reach the steady state before the first measured round.
    write_random(&mut random, &mut rng, 5 * LOGICAL_PAGES);
    let before = random.stats().clone();
    let mut rates = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        rates[0].push(rate(4 * LOGICAL_PAGES, || write_sequential(&mut sequential, 4, 64)));
        rates[1].push(rate(4 * LOGICAL_PAGES, || write_sequential(&mut sequential, 4, 1)));
        rates[2].push(rate(2 * LOGICAL_PAGES, || {
            write_random(&mut random, &mut rng, 2 * LOGICAL_PAGES)
        }));
    }
    let wa = random.stats().dlwa_since(&before).unwrap_or(f64::NAN);
    report("sequential, 64 pages a write", &mut rates[0], "WA 1.000");
    report("sequential, 1 page a write", &mut rates[1], "WA 1.000");
    report("uniform random, 1 page a write", &mut rates[2], &format!("WA {wa:.3}"));
    #[allow(clippy::cast_precision_loss)]
    let per_page =
        random.map_memory_bytes() as f64 / random.config().geometry.physical_pages() as f64;
    println!("mapping: {per_page:.2} bytes per physical 4 KiB");
}

fn drive() -> ManagedSsd {
    let bytes = LOGICAL_PAGES * 4096;
    let geometry =
        Geometry::with_overprovisioning(bytes, PAGES_PER_UNIT * 4096, OP_PERCENT).expect("valid");
    let mut ssd = ManagedSsd::new(ManagedConfig::new(geometry)).expect("valid");
    ssd.write(0, LOGICAL_PAGES, 0).expect("in range");
    ssd
}

fn write_sequential(ssd: &mut ManagedSsd, passes: u64, pages: u64) {
    for _ in 0..passes {
        for lpn in (0..LOGICAL_PAGES).step_by(usize::try_from(pages).expect("small")) {
            ssd.write(lpn, pages, 0).expect("in range");
        }
    }
}

fn write_random(ssd: &mut ManagedSsd, rng: &mut fastrand::Rng, pages: u64) {
    for _ in 0..pages {
        ssd.write(rng.u64(..LOGICAL_PAGES), 1, 0).expect("in range");
    }
}

#[allow(clippy::cast_precision_loss)]
fn rate(pages: u64, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    pages as f64 / start.elapsed().as_secs_f64() / 1e6
}

fn report(name: &str, rates: &mut [f64], note: &str) {
    rates.sort_by(f64::total_cmp);
    println!(
        "{name:32} {:7.1} M host pages/s (min {:.1}, max {:.1})  {note}",
        rates[rates.len() / 2],
        rates[0],
        rates[rates.len() - 1]
    );
}

fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{}, {cores} cores", model.map_or("unknown CPU", |(_, name)| name))
}
