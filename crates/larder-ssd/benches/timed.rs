//! Host I/Os that the timed drive simulates per second, on one core.
//!
//! `cargo bench -p larder-ssd --bench timed`. Rounds of the loads are interleaved; medians and spread
//! are printed.

mod report;

use larder_ssd::managed::{Geometry, ManagedConfig};
use larder_ssd::timed::{TimedSsd, enterprise_tlc};
use report::{machine, print_rates, rate};

const UNITS: u32 = 48;
const STRIPES_PER_DIE: u32 = 8;
const IOS: u64 = 1_000_000;
const ROUNDS: usize = 5;
const SEED: u64 = 1;

fn main() {
    println!("parameters: enterprise TLC drive of 64 dies, {UNITS} units, 4 KiB I/Os, seed {SEED}");
    println!("machine: {}; {ROUNDS} rounds of {IOS} I/Os", machine());
    let mut drive = drive();
    let mut rng = fastrand::Rng::with_seed(SEED);
    let mut now = 0;
    let mut rates = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        for (rates, reads) in rates.iter_mut().zip([true, false]) {
            rates.push(rate(IOS, || now = load(&mut drive, &mut rng, now, reads)));
        }
    }
    print_rates("random reads", "I/Os", &mut rates[0], "");
    print_rates("half reads, half random writes", "I/Os", &mut rates[1], "");
}

fn drive() -> TimedSsd {
    let timing = enterprise_tlc();
    let pages_per_unit = timing.stripe_pages() * timing.dies() * STRIPES_PER_DIE;
    let logical_pages = u64::from(pages_per_unit) * u64::from(UNITS) * 3 / 5;
    let geometry = Geometry { logical_pages, pages_per_unit, units: UNITS };
    let mut drive = TimedSsd::new(ManagedConfig::new(geometry), timing).expect("a valid drive");
    drive.write(0, 0, logical_pages, 0).expect("in range");
    drive
}

/// A closed loop of one client.
fn load(drive: &mut TimedSsd, rng: &mut fastrand::Rng, mut now: u64, reads: bool) -> u64 {
    let pages = drive.ssd().config().geometry.logical_pages;
    for _ in 0..IOS {
        let lpn = rng.u64(..pages);
        let done =
            if reads || rng.bool() { drive.read(now, lpn, 1) } else { drive.write(now, lpn, 1, 0) };
        now = done.expect("in range");
    }
    now
}
