//! Host pages per second of the bare model, on one core.
//!
//! `cargo bench -p larder-ssd`. Rounds of the patterns are interleaved; medians and spread are
//! printed.

mod report;

use larder_ssd::managed::{Geometry, ManagedConfig, ManagedSsd, Stats, VictimPolicy};
use report::{machine, print_rates, rate};

const LOGICAL_PAGES: u64 = 1 << 20;
const PAGES_PER_UNIT: u64 = 256;
const OP_PERCENT: f64 = 28.0;
const SEED: u64 = 1;
const ROUNDS: usize = 5;
const UNIT: &str = "host pages";

fn main() {
    println!("machine: {}", machine());
    println!(
        "parameters: {LOGICAL_PAGES} logical pages of 4 KiB, {PAGES_PER_UNIT} pages a unit, \
         OP {OP_PERCENT} %, greedy unless said, shared GC unit, seed {SEED}, {ROUNDS} rounds"
    );
    let mut sequential = drive(|_| {});
    let mut wide_rates = Vec::new();
    let mut narrow_rates = Vec::new();
    let mut rng = fastrand::Rng::with_seed(SEED);
    let mut random: Vec<_> = variants().map(|(name, ssd)| Random::new(name, ssd, &mut rng)).into();
    let together = Random::new("the same, 64 pages a call", drive(|_| {}), &mut rng);
    random.insert(1, Random { write: write_scattered, ..together });
    for _ in 0..ROUNDS {
        wide_rates.push(rate(4 * LOGICAL_PAGES, || write_sequential(&mut sequential, 4, 64)));
        narrow_rates.push(rate(4 * LOGICAL_PAGES, || write_sequential(&mut sequential, 4, 1)));
        for variant in &mut random {
            variant.round(&mut rng);
        }
    }
    print_rates("sequential, 64 pages a write", UNIT, &mut wide_rates, "WA 1.000");
    print_rates("sequential, 1 page a write", UNIT, &mut narrow_rates, "WA 1.000");
    for variant in &mut random {
        variant.report();
    }
}

/// The default first; then other options of the firmware, one at a time.
fn variants() -> [(&'static str, ManagedSsd); 5] {
    use VictimPolicy::{CostBenefit, DChoices, Fifo};
    [
        ("uniform random, 1 page a write", drive(|_| {})),
        ("the same, FIFO", drive(|config| config.victim_policy = Fifo)),
        ("the same, 10 choices", drive(|config| config.victim_policy = DChoices(10))),
        ("the same, cost-benefit", drive(|config| config.victim_policy = CostBenefit)),
        ("the same, with out-of-band data", drive(|config| config.out_of_band = true)),
    ]
}

/// A drive under uniform random writes, in its steady state.
struct Random {
    name: &'static str,
    ssd: ManagedSsd,
    write: fn(&mut ManagedSsd, &mut fastrand::Rng, u64),
    before: Stats,
    rates: Vec<f64>,
}

impl Random {
    fn new(name: &'static str, mut ssd: ManagedSsd, rng: &mut fastrand::Rng) -> Self {
        write_random(&mut ssd, rng, 5 * LOGICAL_PAGES);
        let before = ssd.stats().clone();
        Self { name, before, ssd, write: write_random, rates: Vec::new() }
    }

    fn round(&mut self, rng: &mut fastrand::Rng) {
        let pages = 2 * LOGICAL_PAGES;
        self.rates.push(rate(pages, || (self.write)(&mut self.ssd, rng, pages)));
    }

    fn report(&mut self) {
        let wa = self.ssd.stats().dlwa_since(&self.before).unwrap_or(f64::NAN);
        #[allow(clippy::cast_precision_loss)]
        let per_page =
            self.ssd.map_memory_bytes() as f64 / self.ssd.config().geometry.physical_pages() as f64;
        let note = format!("WA {wa:.3}, {per_page:.2} bytes of maps a physical page");
        print_rates(self.name, UNIT, &mut self.rates, &note);
    }
}

fn drive(change: impl FnOnce(&mut ManagedConfig)) -> ManagedSsd {
    let bytes = LOGICAL_PAGES * 4096;
    let geometry =
        Geometry::with_overprovisioning(bytes, PAGES_PER_UNIT * 4096, OP_PERCENT).expect("valid");
    let mut config = ManagedConfig::new(geometry);
    change(&mut config);
    let mut ssd = ManagedSsd::new(config).expect("valid");
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

#[allow(clippy::cast_possible_truncation)] // the drive is small
fn write_scattered(ssd: &mut ManagedSsd, rng: &mut fastrand::Rng, pages: u64) {
    for _ in 0..pages / 64 {
        let lpns: [u32; 64] = std::array::from_fn(|_| rng.u64(..LOGICAL_PAGES) as u32);
        ssd.write_scattered(&lpns, 0).expect("in range");
    }
}
