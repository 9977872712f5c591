//! Write amplification under uniform random writes with one frontier that host and collection share. References: the
//! closed forms of greedy and FIFO (Desnoyers, SYSTOR'12) and an event simulation, which agree within 0.3 %; the mean
//! field of d random choices (Van Houdt, SIGMETRICS'13); and α / (α - 1) for a random victim.

use larder_ssd::managed::{GcDestination, Geometry, ManagedConfig, ManagedSsd, VictimPolicy};

use super::support::{Comparison, compare, drive, on_all_cores, second_half};

const ALPHAS: [f64; 4] = [1.07, 1.11, 1.20, 1.28];
const DATA_UNITS: u32 = 4_000;
const PASSES_EACH_HALF: u64 = 4;

fn write_amplification(pages_per_unit: u32, alpha: f64, policy: VictimPolicy) -> f64 {
    let config = drive(pages_per_unit, DATA_UNITS, alpha, 1, GcDestination::HostFrontier, policy);
    let logical_pages = config.geometry.logical_pages;
    let mut ssd = ManagedSsd::new(config).unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    ssd.write(0, logical_pages, 0).unwrap();
    second_half(&mut ssd, PASSES_EACH_HALF * logical_pages, |ssd| {
        ssd.write(rng.u64(..logical_pages), 1, 0).unwrap();
    })
}

/// One row per policy, one column per α. Fails beyond 1 %; returns the measured values.
fn check(pages_per_unit: u32, table: &[(VictimPolicy, [f64; 4])]) -> Vec<f64> {
    let cells: Vec<_> = table
        .iter()
        .flat_map(|&(policy, row)| ALPHAS.into_iter().zip(row).map(move |(a, w)| (policy, a, w)))
        .collect();
    let measured = on_all_cores(&cells, |&(policy, alpha, _)| {
        write_amplification(pages_per_unit, alpha, policy)
    });
    compare(cells.iter().zip(&measured).map(|(&(policy, alpha, reference), &measured)| {
        let name = format!("b={pages_per_unit} alpha={alpha} {policy:?}");
        Comparison { name, measured, reference, percent: 1.0 }
    }));
    measured
}

#[test]
fn greedy_matches_the_closed_form() {
    check(64, &[(VictimPolicy::Greedy, [7.005, 4.857, 3.051, 2.402])]);
    check(256, &[(VictimPolicy::Greedy, [7.582, 5.121, 3.151, 2.461])]);
}

#[test]
fn fifo_matches_the_closed_form() {
    check(64, &[(VictimPolicy::Fifo, [7.814, 5.221, 3.186, 2.481])]);
    check(256, &[(VictimPolicy::Fifo, [7.802, 5.217, 3.187, 2.481])]);
}

#[test]
fn a_random_victim_costs_alpha_over_alpha_less_one() {
    let row = ALPHAS.map(|alpha| alpha / (alpha - 1.0));
    check(64, &[(VictimPolicy::Random, row), (VictimPolicy::DChoices(1), row)]);
}

#[test]
fn d_choices_match_the_mean_field_with_64_pages_a_unit() {
    let measured = check(
        64,
        &[
            (VictimPolicy::DChoices(2), [10.277, 6.911, 4.203, 3.245]),
            (VictimPolicy::DChoices(3), [8.841, 6.000, 3.688, 2.866]),
            (VictimPolicy::DChoices(5), [7.875, 5.387, 3.343, 2.612]),
            (VictimPolicy::DChoices(10), [7.323, 5.041, 3.150, 2.471]),
            (VictimPolicy::DChoices(20), [7.131, 4.924, 3.086, 2.425]),
            (VictimPolicy::DChoices(50), [7.052, 4.879, 3.063, 2.408]),
        ],
    );
    more_choices_never_cost_more(&measured);
}

#[test]
#[ignore = "larger units: `cargo xtask all`"]
fn d_choices_match_the_mean_field_with_256_pages_a_unit() {
    let measured = check(
        256,
        &[
            (VictimPolicy::DChoices(2), [10.584, 7.050, 4.253, 3.274]),
            (VictimPolicy::DChoices(10), [7.828, 5.272, 3.234, 2.520]),
        ],
    );
    more_choices_never_cost_more(&measured);
    // With large units ten choices are worse than FIFO, which has 3.187 and 2.481.
    assert!(measured[6] > 3.187 && measured[7] > 2.481);
}

#[test]
#[ignore = "another 40 s of the same: the choices between 2 and 10, and above"]
fn further_d_choices_match_the_mean_field_with_256_pages_a_unit() {
    let measured = check(
        256,
        &[
            (VictimPolicy::DChoices(3), [9.232, 6.177, 3.751, 2.903]),
            (VictimPolicy::DChoices(5), [8.327, 5.592, 3.417, 2.655]),
            (VictimPolicy::DChoices(20), [7.669, 5.171, 3.177, 2.478]),
            (VictimPolicy::DChoices(50), [7.614, 5.136, 3.158, 2.465]),
        ],
    );
    more_choices_never_cost_more(&measured);
}

/// Rows are in the order of d.
fn more_choices_never_cost_more(measured: &[f64]) {
    for (i, pair) in measured.iter().zip(&measured[4..]).enumerate() {
        assert!(pair.0 >= pair.1, "alpha={}: {} then {}", ALPHAS[i % 4], pair.0, pair.1);
    }
}

#[test]
fn policies_keep_their_order_with_small_units() {
    use VictimPolicy::{DChoices, Fifo, Greedy, Random, Windowed};
    let policies = [Greedy, DChoices(50), DChoices(10), Fifo, DChoices(2), Random];
    let costs = on_all_cores(&policies, |&policy| write_amplification(32, 1.11, policy));
    println!("{policies:?}: {costs:.3?}");
    assert!(costs.is_sorted_by(|a, b| a <= &(b * 1.002)), "{policies:?}: {costs:?}");
    let windows = [Windowed(1), Windowed(100), Windowed(1000), Windowed(u32::MAX)];
    let windowed = on_all_cores(&windows, |&policy| write_amplification(32, 1.11, policy));
    println!("{windows:?}: {windowed:.3?}");
    assert!(windowed.is_sorted_by(|a, b| a >= b), "a wider window costs less: {windowed:?}");
    assert!((windowed[0] / costs[3] - 1.0).abs() < 1e-9, "a window of one is FIFO");
    assert!(
        (windowed[3] / costs[0] - 1.0).abs() < 0.005,
        "a window as wide as the drive is greedy"
    );
}

#[test]
fn each_page_once_a_pass_costs_less_than_chance() {
    let rows = on_all_cores(&ALPHAS, |&alpha| {
        let config = drive(64, 2_000, alpha, 1, GcDestination::HostFrontier, VictimPolicy::Greedy);
        let logical_pages = config.geometry.logical_pages;
        let mut rng = fastrand::Rng::with_seed(1);
        let mut order: Vec<u64> = (0..logical_pages).collect();
        let mut ssd = ManagedSsd::new(config).unwrap();
        ssd.write(0, logical_pages, 0).unwrap();
        let mut at = order.len();
        let permuted = second_half(&mut ssd, 5 * logical_pages, |ssd| {
            if at == order.len() {
                rng.shuffle(&mut order);
                at = 0;
            }
            ssd.write(order[at], 1, 0).unwrap();
            at += 1;
        });
        (permuted, write_amplification(64, alpha, VictimPolicy::Greedy))
    });
    for (alpha, (permuted, uniform)) in ALPHAS.iter().zip(rows) {
        println!("alpha={alpha}: permutation {permuted:.3}, uniform {uniform:.3}");
        assert!(permuted < uniform * 0.99, "alpha={alpha}: {permuted} and {uniform}");
    }
}

#[test]
fn sequential_overwrites_are_free() {
    let geometry = Geometry::with_overprovisioning(64 << 20, 256 << 10, 17.0).unwrap();
    for victim_policy in [VictimPolicy::Greedy, VictimPolicy::Fifo, VictimPolicy::CostBenefit] {
        let mut ssd =
            ManagedSsd::new(ManagedConfig { victim_policy, ..ManagedConfig::new(geometry) })
                .unwrap();
        for _ in 0..10 {
            ssd.write(0, geometry.logical_pages, 1).unwrap();
        }
        assert_eq!(ssd.stats().media_pages, ssd.stats().host_pages);
        assert!(ssd.stats().erased_units > 0);
        ssd.audit().unwrap();
    }
}
