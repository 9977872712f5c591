//! Wear: levelled if configured, read-only at the end of life, and never an endless loop.

use larder_ssd::ErrorKind;
use larder_ssd::managed::{Endurance, Geometry, ManagedConfig, ManagedSsd, UnitState};

fn config(units: u32) -> ManagedConfig {
    let geometry = Geometry { logical_pages: 2_048, pages_per_unit: 32, units };
    ManagedConfig { handles: 2, ..ManagedConfig::new(geometry) }
}

/// Fills the drive once and then writes only to a tenth of it.
fn wear_a_tenth(ssd: &mut ManagedSsd, writes: u64) {
    let pages = ssd.config().geometry.logical_pages;
    let mut rng = fastrand::Rng::with_seed(1);
    ssd.write(0, pages, 0).unwrap();
    for _ in 0..writes {
        ssd.write(rng.u64(..pages / 10), 1, 1).unwrap();
    }
    ssd.audit().unwrap();
}

#[test]
fn static_levelling_bounds_the_gap_that_cold_data_opens() {
    let gap = |wear_levelling_gap| {
        let config = ManagedConfig { wear_levelling_gap, ..config(80) };
        let mut ssd = ManagedSsd::new(config).unwrap();
        wear_a_tenth(&mut ssd, 400_000);
        let wear = ssd.wear();
        println!("{wear:?}, {} pages moved", ssd.stats().wear_levelled_pages);
        (wear.max_erases - wear.min_erases, ssd.stats().clone())
    };
    let (left_alone, _) = gap(None);
    let (levelled, stats) = gap(Some(20));
    assert!(left_alone > 200, "{left_alone}");
    assert!(levelled <= 25, "{levelled}");
    assert!(stats.wear_levelled_pages > 0 && stats.wear_levelled_pages <= stats.copied_pages);
}

#[test]
fn uniform_writes_wear_evenly_without_help() {
    let mut ssd = ManagedSsd::new(config(80)).unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..400_000 {
        ssd.write(rng.u64(..2_048), 1, 0).unwrap();
    }
    let wear = ssd.wear();
    assert!(f64::from(wear.max_erases - wear.min_erases) < 0.2 * wear.mean_erases, "{wear:?}");
    let total: u64 = ssd.units().map(|unit| u64::from(unit.erases)).sum();
    assert_eq!(total, ssd.stats().erased_units);
}

#[test]
fn a_drive_lives_its_rated_life_and_then_becomes_read_only() {
    let endurance = Endurance::Rated { rated: 50, certain: 100 };
    let mut ssd = ManagedSsd::new(ManagedConfig { endurance, ..config(90) }).unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    let spare = ssd.wear().spare_units;
    let error = loop {
        if let Err(error) = ssd.write(rng.u64(..2_048), 1, rng.u16(..2)) {
            break error;
        }
    };
    ssd.audit().unwrap();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    let wear = ssd.wear();
    assert!(wear.read_only && wear.retired_units > spare, "{wear:?}, {spare} spare");
    assert!(wear.mean_erases > 45.0 && wear.max_erases < 100, "{wear:?}");
    let retired = ssd.units().filter(|unit| unit.state == UnitState::Retired).count();
    assert_eq!(retired as u64, wear.retired_units);
    // Its data remains, and no more writes are accepted.
    let held = (0..2_048).filter(|&lpn| ssd.is_mapped(lpn)).count();
    assert!(held > 2_000);
    assert_eq!(ssd.write(0, 1, 0).unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(ssd.deallocate(0, 1).unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!((0..2_048).filter(|&lpn| ssd.is_mapped(lpn)).count(), held);
}

#[test]
fn planned_failures_take_out_the_units_that_they_name() {
    let endurance = Endurance::Planned(vec![(3, 1), (7, 2), (8, 2)]);
    let mut ssd = ManagedSsd::new(ManagedConfig { endurance, ..config(90) }).unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..100_000 {
        ssd.write(rng.u64(..2_048), 1, 0).unwrap();
    }
    ssd.audit().unwrap();
    let retired: Vec<_> = (0..)
        .zip(ssd.units())
        .filter(|(_, unit)| unit.state == UnitState::Retired)
        .map(|(number, unit)| (number, unit.erases))
        .collect();
    assert_eq!(retired, [(3, 0), (7, 1), (8, 1)]);
    assert_eq!(ssd.event_counts().unit_retired, 3);
    assert!(!ssd.wear().read_only);
}

#[test]
fn a_batch_of_failures_at_once_ends_in_an_error_or_goes_on_but_never_hangs() {
    for seed in 0..40 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let plan = (0..90).filter(|_| rng.u8(..3) == 0).map(|unit| (unit, 3)).collect();
        let endurance = Endurance::Planned(plan);
        let mut ssd = ManagedSsd::new(ManagedConfig { endurance, ..config(90) }).unwrap();
        for _ in 0..40_000 {
            if let Err(error) = ssd.write(rng.u64(..2_048), 1, rng.u16(..2)) {
                assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
                break;
            }
        }
        ssd.audit().unwrap();
    }
}
