//! Tests of drives with known components.

use super::*;
use crate::managed::{Geometry, GroupDies, ManagedConfig, Placement};
use crate::nand::DieArray;

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
    // Pieces are large enough that the dies are the limit, and not the commands.
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
    // Collecting a unit means programming 8 stripes on each die.
    let unit_ns = 8 * small().nand.program_ns;
    assert!(worst < unit_ns, "a write took {worst} ns, a unit takes {unit_ns} ns");
}

/// The erase time of a scaled-down unit is its share of a block's.
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
    // A unit has 8 stripes on a die: a whole block, or a sixtieth of one.
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
fn a_buffer_smaller_than_a_stripe_is_refused() {
    let timing = DriveTiming { write_buffer_bytes: 128 << 10, ..enterprise_tlc() };
    let geometry = Geometry { logical_pages: 100_000, pages_per_unit: 3072, units: 60 };
    let error = TimedSsd::new(ManagedConfig::new(geometry), timing).unwrap_err();
    assert!(error.to_string().contains("write buffer of 131072 bytes"), "{error}");
}

/// Each read waits for its own die alone: the link to the host sends whatever is ready.
#[test]
fn a_read_that_waits_holds_no_other_back() {
    let mut timing = small();
    timing.nand.suspend_ns = None;
    let stripe = u64::from(timing.stripe_pages());
    let mut ssd = drive(timing);
    ssd.write(0, 0, 4 * stripe, 0).unwrap();
    let start = ssd.idle_at() + 1_000_000;
    // The first die programs, the second does not.
    ssd.write(start, 4 * stripe, stripe, 0).unwrap();
    let read_at = start + 500_000;
    let waits = ssd.read(read_at, 0, 1).unwrap() - read_at;
    let does_not = ssd.read(read_at, stripe, 1).unwrap() - read_at;
    assert!(waits > 500_000 && does_not < 100_000, "{waits} and {does_not} ns");
}

/// Units of one stripe on a drive of many dies: each is on another die.
#[test]
fn small_units_leave_no_die_out() {
    let timing = DriveTiming { link_bytes_per_s: 100_000_000_000, ..pm9d3_like() };
    let expected = timing.program_bytes_per_s();
    let pages_per_unit = timing.stripe_pages();
    let geometry = Geometry { logical_pages: 30_000, pages_per_unit, units: 700 };
    let mut ssd = TimedSsd::new(ManagedConfig::new(geometry), timing).unwrap();
    let mut now = 0;
    for i in 0..8_000 {
        now = ssd.write(now, i * 16 % 30_000, 16, 0).unwrap();
    }
    #[allow(clippy::cast_precision_loss)]
    let rate = (8_000 * 16 * PAGE_BYTES) as f64 * 1e9 / ssd.idle_at() as f64;
    assert!((rate / expected - 1.0).abs() < 0.1, "{rate:.3e} of {expected:.3e} bytes/s");
}

/// Latencies in nanoseconds of bursts of host writes that fit the buffer of the drive, with the media idle in between,
/// and of reads after a burst has begun; both sorted. The drive is nearly full.
fn bursts(random: bool) -> [Vec<u64>; 2] {
    let timing = small();
    let burst = 6 * u64::from(timing.stripe_pages());
    let pages_per_unit = timing.stripe_pages() * timing.dies();
    let pages = u64::from(pages_per_unit) * 88;
    let geometry = Geometry { logical_pages: pages, pages_per_unit, units: 104 };
    let config = ManagedConfig { handles: 1, ..ManagedConfig::new(geometry) };
    let mut ssd = TimedSsd::new(config, timing).unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    let mut places = rng.fork();
    let mut next = 0;
    let mut page = || {
        next = (next + 1) % pages;
        if random { places.u64(..pages) } else { next }
    };
    let mut now = 0;
    (0..pages).for_each(|lpn| now = ssd.write(now, lpn, 1, 0).unwrap());
    (0..3 * pages).for_each(|_| now = ssd.write(now, page(), 1, 0).unwrap());
    let mut took = [Vec::new(), Vec::new()];
    for _ in 0..pages / burst {
        now = now.max(ssd.idle_at()) + 1_000_000;
        took[0].extend((0..burst).map(|_| ssd.write(now, page(), 1, 0).unwrap() - now));
        for _ in 0..8 {
            now += 500_000;
            took[1].push(ssd.read(now, rng.u64(..pages), 1).unwrap() - now);
        }
    }
    took.iter_mut().for_each(|took| took.sort_unstable());
    took
}

/// `took` must be sorted.
fn percentile(took: &[u64], percent: usize) -> u64 {
    took[took.len() * percent / 100]
}

/// Data moved by collection is in the write buffer too. So a burst that fits the buffer without collection waits for
/// programs with it, long before the media are fully busy.
#[test]
fn collection_takes_room_from_the_host() {
    let ([alone, _], [collecting, _]) = (bursts(false), bursts(true));
    let (alone, collecting) = (percentile(&alone, 99), percentile(&collecting, 99));
    let program_ns = small().nand.program_ns;
    assert!(alone < program_ns / 4, "{alone} ns");
    assert!((program_ns / 2..program_ns * 8).contains(&collecting), "{collecting} ns");
}

/// Reads suspend programs, including those of collection, but not while the host waits for them.
#[test]
fn reads_wait_for_urgent_collection() {
    let ([_, alone], [_, collecting]) = (bursts(false), bursts(true));
    let (alone, collecting) = (percentile(&alone, 90), percentile(&collecting, 90));
    let program_ns = small().nand.program_ns;
    assert!(alone < program_ns / 6 && collecting > program_ns / 3, "{alone} and {collecting} ns");
}

/// Programs lose the die time that reads take, and the buffer empties later.
#[test]
fn reads_keep_the_buffer_full() {
    let fill = |reads: bool| {
        let mut ssd = drive(small());
        let stripe = u64::from(ssd.timing().stripe_pages());
        ssd.write(0, 0, 4 * stripe, 0).unwrap();
        let start = ssd.idle_at() + 1_000_000;
        let full = (4..12).map(|n| ssd.write(start, n * stripe, stripe, 0).unwrap()).max().unwrap();
        for n in 0..if reads { 32 } else { 0 } {
            ssd.read(full, n % 4 * stripe + n, 1).unwrap();
        }
        ssd.write(full, 12 * stripe, 1, 0).unwrap() - full
    };
    let (alone, with_reads) = (fill(false), fill(true));
    assert!(with_reads > alone + 8 * small().nand.read_ns * 9 / 10, "{alone} and {with_reads} ns");
}

/// The 99th percentile in nanoseconds of reads in one reclaim group, with or without a writer to another group at full
/// speed.
fn read_p99_next_to_a_writer(group_dies: GroupDies, writes: bool) -> u64 {
    let timing = small();
    let pages_per_unit = timing.stripe_pages() * 4;
    let geometry =
        Geometry { logical_pages: u64::from(pages_per_unit) * 60, pages_per_unit, units: 80 };
    let config =
        ManagedConfig { groups: 2, group_dies, handles: 1, ..ManagedConfig::new(geometry) };
    let mut ssd = TimedSsd::new(config, timing).unwrap();
    let half = geometry.logical_pages / 2;
    let of = |group| Placement { group, handle: 0 };
    ssd.write_placed(0, of(0), 0, half).unwrap();
    let mut now = ssd.idle_at() + 1_000_000;
    let mut rng = fastrand::Rng::with_seed(1);
    let (mut took, mut written, mut next) = (Vec::new(), now, 0);
    for _ in 0..4_000 {
        now += 100_000;
        while writes && written < now {
            written = ssd.write_placed(written, of(1), half + next % half, 4).unwrap();
            next += 4;
        }
        took.push(ssd.read(now, rng.u64(..half), 1).unwrap() - now);
    }
    took.sort_unstable();
    percentile(&took, 99)
}

#[test]
fn groups_on_channels_or_dies_of_their_own_do_not_wait_for_each_other() {
    let alone = read_p99_next_to_a_writer(GroupDies::Channels, false);
    for own in [GroupDies::Channels, GroupDies::Dies] {
        let beside = read_p99_next_to_a_writer(own, true);
        assert!(beside.abs_diff(alone) <= alone / 50, "{own:?}: {beside} ns, {alone} ns alone");
    }
    let shared = read_p99_next_to_a_writer(GroupDies::All, true);
    assert!(shared > alone * 3 / 2, "{shared} ns, {alone} ns alone");
}

#[test]
fn a_configuration_with_other_dies_than_the_timing_is_refused() {
    let timing = small();
    let geometry = Geometry { logical_pages: 6_000, pages_per_unit: 384, units: 60 };
    let array = Some(DieArray { channels: 4, dies_per_channel: 1 });
    let config = ManagedConfig { array, ..ManagedConfig::new(geometry) };
    let error = TimedSsd::new(config.clone(), timing.clone()).unwrap_err().to_string();
    assert!(error.contains("4 channels of 1 dies, and small has 2 of 2"), "{error}");
    let array = Some(timing.array());
    assert!(TimedSsd::new(ManagedConfig { array, ..config }, timing).is_ok());
}
