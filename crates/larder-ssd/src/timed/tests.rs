//! What a drive of known parts must do.

use super::*;
use crate::managed::{Geometry, ManagedConfig};

fn drive(timing: DriveTiming) -> TimedSsd {
    let stripe = timing.stripe_pages();
    // A unit is one block of 8 stripes on every die.
    let pages_per_unit = stripe * timing.dies() * 8;
    let geometry =
        Geometry { logical_pages: u64::from(pages_per_unit) * 30, pages_per_unit, units: 48 };
    TimedSsd::new(ManagedConfig::new(geometry), timing).unwrap()
}

#[test]
fn a_lone_read_takes_command_sensing_and_transfers() {
    let mut ssd = drive(enterprise_tlc());
    ssd.write(0, 0, 4096, 0).unwrap();
    let start = ssd.idle_at() + 1_000_000;
    let took = ssd.read(start, 100, 1).unwrap() - start;
    assert!((50_000..=90_000).contains(&took), "{took} ns");
    let unmapped = ssd.read(start + 1_000_000, 100_000, 1).unwrap() - start - 1_000_000;
    assert!(unmapped < 15_000, "{unmapped} ns for a page that holds nothing");
}

#[test]
fn sequential_writes_run_at_the_dies_program_rate() {
    let timing = DriveTiming { link_bytes_per_s: 100_000_000_000, ..enterprise_tlc() };
    let expected = timing.program_bytes_per_s();
    let mut ssd = drive(timing);
    let pages = ssd.ssd().config().geometry.logical_pages;
    let mut now = 0;
    for lpn in (0..pages).step_by(64) {
        now = ssd.write(now, lpn, 64, 0).unwrap();
    }
    #[allow(clippy::cast_precision_loss)]
    let rate = (pages * PAGE_BYTES) as f64 * 1e9 / ssd.idle_at() as f64;
    assert!((rate / expected - 1.0).abs() < 0.05, "{rate:.3e} of {expected:.3e} bytes/s");
}

#[test]
fn a_slow_link_bounds_writes() {
    let timing = DriveTiming { link_bytes_per_s: 500_000_000, ..enterprise_tlc() };
    let mut ssd = drive(timing);
    let mut now = 0;
    for lpn in (0..32_768).step_by(64) {
        now = ssd.write(now, lpn, 64, 0).unwrap();
    }
    #[allow(clippy::cast_precision_loss)]
    let rate = 32_768.0 * PAGE_BYTES as f64 * 1e9 / now as f64;
    assert!((0.9..1.0).contains(&(rate / 5e8)), "{rate:.3e} bytes/s");
}

#[test]
fn a_write_is_acknowledged_from_the_buffer() {
    let mut ssd = drive(enterprise_tlc());
    let took = ssd.write(1000, 0, 1, 0).unwrap() - 1000;
    assert!(took < 20_000, "{took} ns");
}

#[test]
fn collection_slows_writes_down_and_stops_none_for_a_unit() {
    // Pieces large enough that the dies are the limit, and not the commands.
    const PIECE: u64 = 4;
    let overwrite = |random: bool| {
        let mut ssd = drive(small());
        let pieces = ssd.ssd().config().geometry.logical_pages / PIECE;
        let mut rng = fastrand::Rng::with_seed(1);
        let (mut now, mut worst) = (0, 0);
        for i in 0..4 * pieces {
            let piece = if random && i >= pieces { rng.u64(..pieces) } else { i % pieces };
            let end = ssd.write(now, piece * PIECE, PIECE, 0).unwrap();
            worst = worst.max(end - now);
            now = end;
        }
        (now, worst, ssd.ssd().stats().clone())
    };
    let (sequential, _, stats) = overwrite(false);
    assert_eq!(stats.copied_pages, 0);
    let (random, worst, stats) = overwrite(true);
    assert!(stats.copied_pages > 0 && random > sequential * 5 / 4, "{random} / {sequential}");
    // To collect a unit is to program 8 stripes on each die.
    let unit_ns = 8 * small().nand.program_ns;
    assert!(worst < unit_ns, "a write took {worst} ns, a unit takes {unit_ns} ns");
}

/// What a scaled-down unit takes to erase is its share of a block.
#[test]
fn slices_of_blocks_erase_as_blocks_do() {
    let overwrite = |block_stripes: u32| {
        let mut timing = small();
        timing.nand.block_stripes = block_stripes;
        let mut ssd = drive(timing);
        let pages = ssd.ssd().config().geometry.logical_pages;
        let mut now = 0;
        for i in 0..4 * pages / 64 {
            now = ssd.write(now, i * 64 % pages, 64, 0).unwrap();
        }
        (ssd.idle_at(), ssd.ssd().stats().erased_units)
    };
    // A unit has 8 stripes on a die: whole blocks, or sixtieths of them.
    let ((whole, erased), (slices, _)) = (overwrite(8), overwrite(480));
    let more = erased * small().nand.erase_ns;
    let found = whole - slices;
    assert!(found.abs_diff(more) < more / 10, "{found} ns for {erased} erases");
}

#[test]
fn the_same_history_takes_the_same_time() {
    let run = || {
        let mut ssd = drive(small());
        let mut rng = fastrand::Rng::with_seed(5);
        let mut now = 0;
        for _ in 0..20_000 {
            let lpn = rng.u64(..ssd.ssd().config().geometry.logical_pages);
            now = if rng.bool() {
                ssd.write(now, lpn, 1, 1).unwrap()
            } else {
                ssd.read(now, lpn, 1).unwrap()
            };
        }
        now
    };
    assert_eq!(run(), run());
}

#[test]
fn a_buffer_that_could_jam_is_refused() {
    let timing = DriveTiming { write_buffer_bytes: 1 << 20, ..enterprise_tlc() };
    let geometry = Geometry { logical_pages: 100_000, pages_per_unit: 3072, units: 60 };
    let error = TimedSsd::new(ManagedConfig::new(geometry), timing).unwrap_err();
    assert!(error.to_string().contains("write buffer of 1048576 bytes"), "{error}");
}
