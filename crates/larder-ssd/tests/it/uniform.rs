//! Write amplification under uniform random writes, against the table of greedy garbage collection
//! with one frontier that host and collector share: an event simulation and Desnoyers' formula
//! (SYSTOR'12), which agree within 0.3 %.

use larder_ssd::managed::{GcDestination, Geometry, ManagedConfig, ManagedSsd};

/// Fills the drive, writes it ten times over, i.i.d. uniform, and measures the second half.
fn write_amplification(pages_per_unit: u32, data_units: u32, alpha: f64, seed: u64) -> f64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let physical_units = (f64::from(data_units) * alpha).round() as u32 + 4;
    let logical_pages = u64::from(pages_per_unit) * u64::from(data_units);
    let geometry = Geometry { logical_pages, pages_per_unit, units: physical_units };
    let mut ssd = ManagedSsd::new(ManagedConfig {
        handles: 1,
        gc_destination: GcDestination::HostFrontier,
        gc_reserve_units: 2,
        ..ManagedConfig::new(geometry)
    })
    .unwrap();
    let mut rng = fastrand::Rng::with_seed(seed);
    ssd.write(0, logical_pages, 0).unwrap();
    for _ in 0..5 * logical_pages {
        ssd.write(rng.u64(..logical_pages), 1, 0).unwrap();
    }
    let before = ssd.stats().clone();
    for _ in 0..5 * logical_pages {
        ssd.write(rng.u64(..logical_pages), 1, 0).unwrap();
    }
    ssd.audit().unwrap();
    ssd.stats().dlwa_since(&before).unwrap()
}

fn check(pages_per_unit: u32, data_units: u32, rows: &[(f64, f64)]) {
    for &(alpha, expected) in rows {
        let measured = write_amplification(pages_per_unit, data_units, alpha, 1);
        let error = (measured / expected - 1.0) * 100.0;
        println!(
            "b={pages_per_unit} alpha={alpha}: {measured:.3}, table {expected:.3} ({error:+.2} %)"
        );
        assert!(
            error.abs() < 1.0,
            "b={pages_per_unit} alpha={alpha}: {measured} against {expected}"
        );
    }
}

#[test]
fn greedy_with_64_pages_a_unit_matches_the_table() {
    check(64, 16_000, &[(1.07, 7.005), (1.11, 4.857), (1.20, 3.051), (1.28, 2.402)]);
}

#[test]
fn greedy_with_256_pages_a_unit_matches_the_table() {
    check(256, 6_000, &[(1.07, 7.582), (1.11, 5.121), (1.20, 3.151), (1.28, 2.461)]);
}

#[test]
fn sequential_overwrites_are_free() {
    let geometry = Geometry::with_overprovisioning(64 << 20, 256 << 10, 17.0).unwrap();
    let mut ssd = ManagedSsd::new(ManagedConfig::new(geometry)).unwrap();
    for _ in 0..10 {
        ssd.write(0, geometry.logical_pages, 1).unwrap();
    }
    assert_eq!(ssd.stats().media_pages, ssd.stats().host_pages);
    assert!(ssd.stats().erased_units > 0);
    ssd.audit().unwrap();
}
