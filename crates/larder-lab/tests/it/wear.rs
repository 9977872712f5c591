//! The guarantees of wear levelling, over seeds and for parameters near the defaults. Migrations are counted.

use larder_lab::experiment::{self, Metrics, Settings};
use larder_lab::replay::Monitor;

fn measure(name: &str, assignments: &[&str], seed: u64) -> Metrics {
    let experiment = experiment::find(name).unwrap();
    let assignments: Vec<String> = assignments.iter().map(|text| (*text).to_owned()).collect();
    let settings = Settings::new(experiment.name, experiment.parameters, &assignments).unwrap();
    (experiment.measure)(&settings, seed, &Monitor::default()).unwrap()
}

/// The metrics that begin with `prefix`.
fn series<'a>(metrics: &'a Metrics, prefix: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
    let of_series = metrics.iter().filter(move |(name, _)| name.starts_with(prefix));
    of_series.map(|(name, &value)| (name.as_str(), value))
}

#[test]
fn hot_channels_wear_the_whole_drive() {
    for seed in 1..=3 {
        let metrics = measure("wear-adversary", &[], seed);
        let of = |name: &str| metrics[name];
        assert!((of("life.none.1") * 16.0 - 1.0).abs() <= 0.02, "{}", of("life.none.1"));
        for policy in ["pair1", "pair2", "pair4"] {
            assert!(of(&format!("life.{policy}.1")) >= 0.95, "{policy}");
            for (name, life) in series(&metrics, &format!("life.{policy}.")) {
                assert!((0.88..=1.0).contains(&life), "{name} {life}");
            }
            for (name, imbalance) in series(&metrics, &format!("imbalance.{policy}.")) {
                assert!((1.0..=1.1).contains(&imbalance), "{name} {imbalance}");
            }
        }
        for (name, migration) in series(&metrics, "migration.pair2.") {
            assert!(migration <= 0.02, "{name} {migration}");
        }
    }
}

/// Other drives: fewer and more channels, flash that endures less or more, cheaper migrations.
#[test]
fn other_drives_are_worn_as_evenly() {
    for assignments in [
        ["channels=8", "cycles=3000"],
        ["channels=12", "cycles=5000"],
        ["channels=24", "cycles=3000"],
        ["channels=32", "cycles=10000"],
        ["cycles=2000", "migration=0.5"],
        ["cycles=1500", "channels=10"],
        ["delta=0.07", "cycles=4000"],
        ["delta=0.13", "cycles=3000"],
    ] {
        let metrics = measure("wear-adversary", &assignments, 5);
        for (name, life) in series(&metrics, "life.pair2.") {
            let wanted = if name.ends_with(".1") { 0.95 } else { 0.88 };
            assert!(life >= wanted, "{assignments:?} {name} {life}");
        }
        let imbalance = metrics["imbalance.pair2.1"];
        assert!(imbalance <= 1.1, "{assignments:?} {imbalance}");
    }
}

/// A turn that is shorter than the cost of its exchange is refused.
#[test]
fn turns_that_cost_more_than_they_gain_are_refused() {
    let experiment = experiment::find("wear-adversary").unwrap();
    let assignments = ["delta=0.02", "cycles=300"].map(str::to_owned);
    let settings = Settings::new(experiment.name, experiment.parameters, &assignments).unwrap();
    let refused = (experiment.measure)(&settings, 1, &Monitor::default()).unwrap_err().to_string();
    assert!(refused.contains("gamma_min") && refused.contains("more cycles"), "{refused}");
}

/// The rule as published. Its result depends entirely on how ties are broken.
#[test]
fn the_published_rule_lives_by_ties() {
    let metrics = measure("wear-adversary", &[], 1);
    assert!(metrics["life.literal_tie.1"] >= 0.95, "{}", metrics["life.literal_tie.1"]);
    assert!(metrics["life.literal.1"] < 0.5, "{}", metrics["life.literal.1"]);
    assert!(metrics["life.week4.1"] < 0.85, "{}", metrics["life.week4.1"]);
    assert!(metrics["life.week1.1"] >= 0.95, "{}", metrics["life.week1.1"]);
}

#[test]
fn mixes_live_long_and_even_loads_are_left_alone() {
    for (seed, sigma) in [(1, "sigma=1.2"), (2, "sigma=1.2"), (3, "sigma=0.5"), (4, "sigma=2")] {
        let metrics = measure("wear-mixes", &["mixes=5", sigma], seed);
        let of = |name: &str| metrics[name];
        assert!(of("life_mean.pair2") >= 0.85, "{sigma} {}", of("life_mean.pair2"));
        assert!(of("life_mean.pair4") >= 0.9, "{sigma} {}", of("life_mean.pair4"));
        assert!(of("bursty_mean.pair2") >= 0.85, "{sigma} {}", of("bursty_mean.pair2"));
        assert!(of("migration_max.pair2") <= 0.02, "{sigma} {}", of("migration_max.pair2"));
        for (name, swaps) in series(&metrics, "even_swaps.") {
            assert_eq!(swaps, 0.0, "{name}");
        }
        let cycles: Vec<f64> = series(&metrics, "cycles.none.").map(|(_, cycles)| cycles).collect();
        let (least, most) =
            cycles.iter().fold((f64::MAX, 0.0_f64), |(a, b), &it| (a.min(it), b.max(it)));
        assert!((11.0..13.0).contains(&(most / least)), "{cycles:?}");
        assert!(of("wear_ratio.pair2") <= 1.2, "{}", of("wear_ratio.pair2"));
    }
}

#[test]
fn dies_wear_out_together() {
    for (seed, dies) in [(1, "dies=4"), (2, "dies=4"), (3, "dies=2"), (4, "dies=8")] {
        let metrics = measure("die-wear", &[dies], seed);
        for (name, imbalance) in series(&metrics, "imbalance.all.") {
            assert!((1.0..=1.1).contains(&imbalance), "{dies} {name} {imbalance}");
        }
        assert_eq!(metrics["die_swaps.all.even"] + metrics["swaps.all.even"], 0.0, "{dies}");
        assert!(metrics["imbalance.carried.mixed"] < metrics["imbalance.channels.mixed"], "{dies}");
    }
}
