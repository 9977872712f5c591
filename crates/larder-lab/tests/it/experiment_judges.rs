//! Verdicts on made-up numbers: as published, right only in shape, wrong, and not judged.

use larder_lab::experiment::Verdict::{self, Diverges, InShape, NotJudged, Reproduced};
use larder_lab::experiment::{self, Judgement, Metrics, Settings, Summary};

use crate::experiment_goods::GOODS;

fn judge_with(name: &str, values: &[(&str, f64)], assignments: &[&str]) -> Judgement {
    let experiment = experiment::find(name).unwrap();
    let assignments: Vec<String> = assignments.iter().map(|text| (*text).to_owned()).collect();
    let settings = Settings::new(experiment.name, experiment.parameters, &assignments).unwrap();
    let metrics: Metrics = values.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    experiment::judge(experiment, &settings, &Summary::of(&[metrics]))
}

fn judge(name: &str, values: &[(&str, f64)]) -> Judgement {
    judge_with(name, values, &[])
}

fn good(name: &str) -> Vec<(&'static str, f64)> {
    let found = GOODS.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no good numbers of {name}")).1.to_vec()
}

/// The good numbers of `name`, overridden by `changes`.
fn changed(name: &str, changes: &[(&'static str, f64)]) -> Vec<(&'static str, f64)> {
    good(name).into_iter().chain(changes.iter().copied()).collect()
}

/// Judges the good numbers, overridden by `changes`.
#[track_caller]
fn expect(name: &str, changes: &[(&'static str, f64)], verdict: Verdict) {
    let judgement = judge(name, &changed(name, changes));
    assert_eq!(judgement.verdict, verdict, "{name} {changes:?}: {}", judgement.reason);
}

#[test]
fn good_numbers_reproduce() {
    for experiment in experiment::all() {
        expect(experiment.name, &[], Reproduced);
    }
}

/// Bounds have two sides: a number much higher or much lower than the published one does not reproduce it.
#[test]
fn numbers_far_from_the_published_do_not_reproduce() {
    for experiment in experiment::all() {
        let judged = experiment.references.iter().filter(|p| experiment.needs.contains(&p.metric));
        for paper in judged {
            let (high, low) = (paper.value * 2.2 + 0.2, paper.value * 0.4 - 0.2);
            // An error is a distance: it cannot be too small.
            let doctored =
                if paper.metric.starts_with("error") { vec![high] } else { vec![high, low] };
            for doctored in doctored {
                let judgement =
                    judge(experiment.name, &changed(experiment.name, &[(paper.metric, doctored)]));
                let (name, metric) = (experiment.name, paper.metric);
                assert_ne!(judgement.verdict, Reproduced, "{name} {metric} = {doctored}");
            }
        }
    }
}

/// No result passes with a missing or unmeasured point.
#[test]
fn what_was_not_measured_is_not_judged() {
    for experiment in experiment::all() {
        assert!(!experiment.needs.is_empty(), "{}", experiment.name);
        assert_eq!(judge(experiment.name, &[]).verdict, NotJudged, "{}", experiment.name);
        for needed in experiment.needs {
            let mut values = good(experiment.name);
            assert!(values.iter().any(|(name, _)| name == needed), "{}: {needed}", experiment.name);
            values.retain(|(name, _)| name != needed);
            let judgement = judge(experiment.name, &values);
            assert_eq!(judgement.verdict, NotJudged, "{} without {needed}", experiment.name);
            assert!(judgement.reason.contains(needed), "{}", judgement.reason);
            let judgement =
                judge(experiment.name, &changed(experiment.name, &[(needed, f64::NAN)]));
            assert_eq!(judgement.verdict, NotJudged, "{}: {needed} = NaN", experiment.name);
        }
    }
}

#[test]
fn a_drive_that_has_not_settled_is_refused() {
    let cases = [
        ("drive_writes_before.100", 11.9, "drive_writes_before.100 = 11.90"),
        ("loc_wraps_before.100", 2.5, "loc_wraps_before.100 = 2.50"),
        ("drift.100", 0.11, "drift.100 = 0.11"),
        ("drift.100", f64::NAN, "drift.100 = NaN"),
        ("drift", 0.2, "drift = 0.20"),
    ];
    for (metric, value, wanted) in cases {
        let judgement = judge("write-only", &changed("write-only", &[(metric, value)]));
        assert_eq!(judgement.verdict, NotJudged, "{metric} = {value}");
        assert!(judgement.reason.contains(wanted), "{}", judgement.reason);
    }
    let settled =
        [("drive_writes_before.100", 12.0), ("loc_wraps_before.100", 3.0), ("drift.100", 0.1)];
    expect("write-only", &settled, Reproduced);
}

#[test]
fn other_parameters_than_the_defaults_are_named() {
    let plain = judge("utilization", &good("utilization"));
    assert!(!plain.reason.contains("by default"), "{}", plain.reason);
    let judgement = judge_with("utilization", &good("utilization"), &["flash_mib=64"]);
    assert_eq!(judgement.verdict, Reproduced);
    assert!(judgement.reason.ends_with("flash_mib = 64 (512 by default)"), "{}", judgement.reason);
}

#[test]
fn half_and_full() {
    for name in ["dlwa-interval", "twitter", "write-only", "full-scale"] {
        expect(name, &[("dlwa.on.100", 1.2)], InShape);
        expect(name, &[("dlwa.on.50", 0.9)], InShape);
        expect(name, &[("dlwa.off.100", 2.0)], InShape);
        expect(name, &[("dlwa.off.100", 6.0)], InShape);
        expect(name, &[("dlwa.off.50", 1.6)], InShape);
        expect(name, &[("dlwa.off.50", 3.6)], Diverges);
        expect(name, &[("dlwa.on.100", 3.6)], Diverges);
    }
}

#[test]
fn utilization() {
    let high = [("dlwa.off.50", 1.6), ("dlwa.off.60", 1.6), ("dlwa.off.70", 1.6)];
    let higher = [("dlwa.off.80", 1.6), ("dlwa.off.90", 1.7)];
    expect("utilization", &[&high[..], &higher].concat(), InShape);
    expect("utilization", &[("dlwa.on.70", 1.06)], Diverges);
    expect("utilization", &[("dlwa.on.70", 0.9)], Diverges);
    expect("utilization", &[("dlwa.off.90", 3.7)], Diverges);
    expect("utilization", &[("dlwa.off.80", 1.0)], Diverges);
}

/// The figure claims that 50 to 90 % are similar. If that does not hold, the verdict says so, whatever else agrees.
#[test]
fn utilization_holds_the_paper_to_its_claim() {
    let ours = [("dlwa.off.50", 1.26), ("dlwa.off.60", 1.4), ("dlwa.off.70", 1.5)];
    let high = [("dlwa.off.80", 1.8), ("dlwa.off.90", 2.45)];
    let judgement = judge("utilization", &changed("utilization", &[&ours[..], &high].concat()));
    assert_eq!(judgement.verdict, Diverges);
    let reason = judgement.reason;
    let wanted = "does not hold: off at 60 to 90 % is similar to 1.26 at 50 %: it is 1.40 at 60 %, \
                  1.50 at 70 %, 1.80 at 80 %, 2.45 at 90 %. Holds: ";
    assert!(reason.starts_with(wanted), "{reason}");
    assert!(reason.contains("off at 100 %: 3.500"), "{reason}");
}

#[test]
fn utilization_causes() {
    let name = "utilization-causes";
    let nowhere = [("explained", 0.0), ("holds.greedy.op20.soc85", 0.0)];
    expect(name, &nowhere, InShape);
    expect(name, &[("holds.greedy.op20.soc85", 0.5)], InShape);
    let reason = judge(name, &good(name)).reason;
    let wanted = "at greedy.op20.soc85 (1.17 at 50 %, 1.20 at 90 %, 3.52 at 100 %)";
    assert!(reason.contains(wanted), "{reason}");
}

#[test]
fn soc_size() {
    let name = "soc-size";
    expect(name, &[("dlwa.on.8", 1.2)], InShape);
    expect(name, &[("dlwa.off.64", 4.0)], InShape);
    expect(name, &[("gain.96", 0.2)], InShape);
    expect(name, &[("gain.96", -0.2)], InShape);
    expect(name, &[("dlwa.on.96", 2.4)], Diverges);
    expect(name, &[("dlwa.off.64", 2.4)], Diverges);
    assert!(judge(name, &good(name)).reason.contains("from SOC 96 % on"));
}

/// An event is a unit from which something had to be copied: an identity of counters is not enough.
#[test]
fn gc_events() {
    let name = "gc-events";
    expect(name, &[("relocation_ratio", 8.05)], InShape);
    expect(name, &[("relocation_ratio", 2.0)], InShape);
    expect(name, &[("dlwa_ratio", 2.5), ("erase_ratio", 2.5)], InShape);
    expect(name, &[("dlwa_ratio", 5.0), ("erase_ratio", 5.0)], InShape);
    expect(name, &[("relocation_ratio", 0.9)], Diverges);
    expect(name, &[("host_pages.off", 900.0)], Diverges);
    expect(name, &[("erase_ratio", 0.9)], Diverges);
    expect(name, &[("copied_pages.off", 2000.0)], InShape);
    expect(name, &[("copied_pages.on", 60.0)], InShape);
    expect(name, &[("copied_pages.on", 2600.0)], Diverges);
    let reason = judge(name, &changed(name, &[("relocation_ratio", 8.05)])).reason;
    assert!(reason.contains("relocation events, times fewer: 8.050, published 3.6"), "{reason}");
}

#[test]
fn dram_tradeoff() {
    let name = "dram-tradeoff";
    expect(name, &[("flash_hit.50", 0.4), ("flash_hit_off.50", 0.4)], InShape);
    expect(name, &[("flash_hit.10", 0.55), ("flash_hit_off.10", 0.55)], InShape);
    expect(name, &[("hit.50", 0.98), ("hit_off.50", 0.98)], InShape);
    expect(name, &[("dlwa.on.50", 1.1)], InShape);
    expect(name, &[("hit_off.100", 0.5)], Diverges);
    expect(name, &[("flash_hit.10", 0.1), ("flash_hit_off.10", 0.1)], Diverges);
}

/// The workload is fitted to the hit ratio with all of the DRAM, so that shows nothing.
#[test]
fn what_was_fitted_is_shown_and_not_judged() {
    let far = [("hit.100", 0.7), ("hit_off.100", 0.7)];
    let judgement = judge("dram-tradeoff", &changed("dram-tradeoff", &far));
    assert_eq!(judgement.verdict, Reproduced);
    assert!(judgement.reason.contains("fitted to hit.100: 0.7000, published 0.9032"));
    assert!(!judgement.reason.contains("hit.100: 0.700,"), "{}", judgement.reason);
    expect("dram-throughput", &[("kget_per_client.on.100", 10.0)], Reproduced);
}

#[test]
fn tenants() {
    let name = "tenants";
    expect(name, &[("dlwa.on.four", 1.1)], InShape);
    expect(name, &[("dlwa.on.four", 0.9)], InShape);
    expect(name, &[("dlwa.off.different", 5.0)], InShape);
    expect(name, &[("dlwa.on.half_short", 2.1)], InShape);
    expect(name, &[("dlwa.first_come.half_short", 1.0)], InShape);
    expect(name, &[("shared.half_short", 0.0)], InShape);
    expect(name, &[("fallen_back.half_short", 0.0)], InShape);
    expect(name, &[("dlwa.on.four", 3.7)], Diverges);
}

#[test]
fn model_validation() {
    let name = "model-validation";
    expect(name, &[("error.64", 0.2)], InShape);
    expect(name, &[("error.16", 0.2)], InShape);
    expect(name, &[("uniform_error.17", 0.08)], InShape);
    expect(name, &[("sim.64", 3.1)], InShape);
    expect(name, &[("sim.64", 0.9)], Diverges);
}

#[test]
fn carbon() {
    expect("carbon", &[("error_kg", 0.2)], InShape);
    expect("carbon", &[("error_kg", 72.0)], InShape);
    expect("carbon", &[("ratio.ssd", 0.9)], Diverges);
    expect("carbon", &[("ratio.total", 0.9)], Diverges);
}

/// The table of the paper supports its cells, but not the headline. That is a note, so that the verdict is about what
/// can hold.
#[test]
fn carbon_notes_the_headline_and_judges_the_cells() {
    let reason = judge("carbon", &good("carbon")).reason;
    assert!(
        reason.starts_with("holds: each of the six cells of Table 2 within 0.09 kg"),
        "{reason}"
    );
    assert!(
        reason.contains("Note: the headline of 4 times less carbon does not follow"),
        "{reason}"
    );
    assert!(reason.contains("3.15 times for the drive and 3.29 times with 42 GB"), "{reason}");
    assert!(reason.contains("105.5 kg of operational carbon"), "{reason}");
    assert!(reason.contains("the sum is 2.40 times less"), "{reason}");
}

#[test]
fn isolation_type() {
    let name = "isolation-type";
    expect(name, &[("difference.28.4", -0.06)], InShape);
    expect(name, &[("difference.17.4", 0.06)], InShape);
    expect(name, &[("difference.10.4", -0.05)], InShape);
    expect(name, &[("dlwa.ii.17.4", 1.1), ("dlwa.pi.17.4", 1.1)], InShape);
    expect(name, &[("dlwa.pi.17.64", 3.5)], Diverges);
    expect(name, &[("dlwa.pi.17.64", 1.5)], Diverges);
    // Small units are reported, not judged.
    let small = [("small_difference.17.4", -0.3)];
    expect(name, &small, Reproduced);
    let reason = judge(name, &changed(name, &small)).reason;
    assert!(reason.contains("small units less usual ones: OP 17 % SOC 4 % -0.300"), "{reason}");
    assert!(reason.contains("better at OP 10 % SOC 64 %, OP 17 % SOC 64 %"), "{reason}");
}

#[test]
fn ftl_uniform() {
    expect("ftl-uniform", &[("wa", 4.8)], InShape);
    expect("ftl-uniform", &[("wa", 4.95)], InShape);
    expect("ftl-uniform", &[("wa", 6.0)], Diverges);
    expect("ftl-uniform", &[("wa", 3.0)], Diverges);
    // Another over-provisioning has another published value.
    expect("ftl-uniform", &[("wa", 3.0), ("wa_formula", 3.01)], Reproduced);
}

#[test]
fn ru_aware_eviction() {
    let name = "ru-aware-eviction";
    expect(name, &[("gain.document", 0.06)], InShape);
    expect(name, &[("gain.kv", -0.06)], Diverges);
    expect(name, &[("deallocated_bytes.unit.kv", 0.0)], Diverges);
    expect(name, &[("deallocated_bytes.region.kv", 4096.0)], Diverges);
    let reason = judge(name, &good(name)).reason;
    assert!(reason.contains("hit ratio 50.000 % by regions, 49.000 % by units"), "{reason}");
}

#[test]
fn dynamic_placement() {
    let name = "dynamic-placement";
    expect(name, &[("gain.32", 0.2)], InShape);
    expect(name, &[("gain.32", -0.2)], Diverges);
    expect(name, &[("hit.dynamic.4", 0.8)], Diverges);
}

#[test]
fn mislabelled() {
    let name = "mislabelled";
    expect(name, &[("dlwa.on.0", 1.2)], InShape);
    expect(name, &[("dlwa.on.50", 5.0)], InShape);
    expect(name, &[("dlwa.on.50", 1.5)], InShape);
    expect(name, &[("dlwa.on.10", 1.0)], Diverges);
}

/// An increase alone does not reproduce WARP's result.
#[test]
fn noisy_handle() {
    let name = "noisy-handle";
    expect(name, &[("dlwa.on.noisy", 1.63)], InShape);
    expect(name, &[("dlwa.on.noisy", 2.4)], InShape);
    expect(name, &[("dlwa.off.noisy", 6.0)], InShape);
    expect(name, &[("dlwa.on.noisy", 1.6)], Diverges);
    expect(name, &[("dlwa.off.noisy", 1.5)], Diverges);
}

/// The whole range of loads is judged, not only the load that fits best.
#[test]
fn latency() {
    for load in ["50", "75", "95"] {
        let metric = |name: &str| -> &'static str { format!("{name}.{load}").leak() };
        expect("latency", &[(metric("write_p99_ratio"), 6000.0)], InShape);
        expect("latency", &[(metric("write_p99_ratio"), 1.0)], Diverges);
        expect("latency", &[(metric("read_p99_ratio"), 0.9)], Diverges);
        expect("latency", &[(metric("read_p99_ratio"), 4.0)], InShape);
        expect("latency", &[(metric("throughput_ratio"), 1.5)], InShape);
    }
}

/// A threshold of the write buffer moves the percentile by ten times: it is judged as a range, not by its best point.
#[test]
fn latency_is_judged_by_its_range() {
    for part in ["write_p99_ratio_by.75.buffer4.q4", "write_p99_ratio_by.50.q3"] {
        for far in [49.0, 3.3] {
            expect("latency", &[(part, far)], InShape);
        }
        expect("latency", &[(part, f64::NAN)], InShape);
    }
    let reason =
        judge("latency", &changed("latency", &[("write_p99_ratio_by.75.q3", 49.0)])).reason;
    assert!(reason.contains("p99 of writes at 75 %: 9.00 to 49.00 times better"), "{reason}");
    expect("performance", &[("write_p99_ratio_by.wo.q3", 49.0)], InShape);
}

#[test]
fn energy() {
    expect("energy", &[("energy_ratio", 5.0)], InShape);
    expect("energy", &[("theorem_error", 0.3)], InShape);
    expect("energy", &[("energy_ratio", 0.9)], Diverges);
}

#[test]
fn performance() {
    let name = "performance";
    expect(name, &[("throughput_ratio.used90", 1.3)], InShape);
    expect(name, &[("throughput_ratio.soc64", 0.8)], InShape);
    expect(name, &[("write_p99_ratio.wo", 1.0)], InShape);
    expect(name, &[("write_p99_ratio.wo", 100.0)], InShape);
    expect(name, &[("read_p99_ratio.wo", 0.8)], Diverges);
    expect(name, &[("hit.off.used90", 0.8)], Diverges);
}

#[test]
fn tenant_latency() {
    let name = "tenant-latency";
    expect(name, &[("write_p999_ratio.2", 1.0)], InShape);
    expect(name, &[("throughput_ratio.1", 1.2)], InShape);
    expect(name, &[("read_p999_ratio.1", 0.5)], Diverges);
    expect(name, &[("read_p999_ratio_by.1.q4", 1.2)], InShape);
    expect(name, &[("write_p999_us.on.2", 25.0)], InShape);
}

#[test]
fn tenant_mix_latency() {
    let name = "tenant-mix-latency";
    expect(name, &[("write_p999_ratio.2", 4.0)], InShape);
    expect(name, &[("throughput_ratio.2", 1.2)], InShape);
    expect(name, &[("write_p999_us.on.1", 300.0)], InShape);
    expect(name, &[("read_p999_ratio.2", 0.5)], Diverges);
    assert!(judge(name, &good(name)).reason.contains("given, not measured"));
}

#[test]
fn dram_throughput() {
    let name = "dram-throughput";
    expect(name, &[("kget_ratio.on.10", 0.85)], InShape);
    expect(name, &[("placement_gain.50", 1.3)], InShape);
    expect(name, &[("kget_ratio.on.50", 1.1)], Diverges);
}

#[test]
fn real_drive() {
    let name = "real-drive";
    expect(name, &[("last.off.4", 3.1)], InShape);
    expect(name, &[("last.on.20", 1.32)], InShape);
    for (metric, low, high) in [
        ("hit.4", 0.74, 0.82),
        ("hit.40", 0.74, 0.82),
        ("alwa.mean", 3.6, 5.0),
        ("put_bytes.mean", 830.0, 1140.0),
    ] {
        expect(name, &[(metric, low)], InShape);
        expect(name, &[(metric, high)], InShape);
    }
    expect(name, &[("last.on.40", 3.2)], Diverges);
    expect(name, &[("last.on.20", f64::NAN)], NotJudged);
}

#[test]
fn wear_analysis() {
    let name = "wear-analysis";
    expect(name, &[("days100.n16_d10", 11.0)], InShape);
    expect(name, &[("turns_walked.n64_d10", 631.0)], InShape);
    expect(name, &[("turns_walked.n64_d10", 300.0)], InShape);
    expect(name, &[("swaps.n16_d20", 150.0)], Diverges);
}

#[test]
fn wear_adversary() {
    let name = "wear-adversary";
    expect(name, &[("life.none.1", 0.065)], InShape);
    expect(name, &[("life.pair2.1", 0.94)], InShape);
    expect(name, &[("life.pair2.8", 0.87)], InShape);
    expect(name, &[("life.pair2.8", 1.01)], InShape);
    expect(name, &[("imbalance.pair2.1", 1.11)], InShape);
    expect(name, &[("migration.pair2.1", 0.021)], InShape);
    expect(name, &[("life.pair2.1", 0.3)], Diverges);
    for (life, low, high) in [("life.week4.1", 0.59, 0.96), ("life.literal.1", 0.24, 0.61)] {
        expect(name, &[(life, low)], InShape);
        expect(name, &[(life, high)], InShape);
    }
}

#[test]
fn wear_mixes() {
    let name = "wear-mixes";
    expect(name, &[("life_mean.pair2", 0.84)], InShape);
    expect(name, &[("life_mean.pair4", 0.89)], InShape);
    expect(name, &[("migration_max.pair2", 0.021)], InShape);
    expect(name, &[("even_swaps.pair4", 1.0)], InShape);
    expect(name, &[("wear_ratio.pair2", 1.3)], InShape);
    expect(name, &[("life_mean.pair2", 0.3)], Diverges);
}

#[test]
fn die_wear() {
    let name = "die-wear";
    expect(name, &[("imbalance.all.one_die", 1.11)], InShape);
    expect(name, &[("die_swaps.all.even", 2.0)], InShape);
    expect(name, &[("migration.all.one_die", 0.051)], InShape);
    expect(name, &[("imbalance.carried_one.mixed", 2.41)], InShape);
    expect(name, &[("imbalance.all.mixed", 2.5)], Diverges);
}

#[test]
fn placement_and_isolation() {
    let name = "placement-and-isolation";
    expect(name, &[("dlwa.on.own", 1.06)], InShape);
    expect(name, &[("p99_us.in_order.on.own", 3000.0)], InShape);
    expect(name, &[("p99_us.in_order.off.shared", 140.0)], Diverges);
}

#[test]
fn vssd_accounting() {
    let name = "vssd-accounting";
    expect(name, &[("unaccounted", 1.0)], InShape);
    expect(name, &[("pages.moved", 0.0)], InShape);
    // Each engine has bounds on both sides.
    for (dlwa, low, high) in [
        ("dlwa.raw.loc", 0.99, 1.06),
        ("dlwa.raw.loc_safe", 0.99, 1.11),
        ("dlwa.raw.both", 1.39, 3.01),
        ("dlwa.raw.pages", 0.99, 1.11),
        ("dlwa.raw.pages_mapped", 0.99, 1.41),
    ] {
        expect(name, &[(dlwa, low)], InShape);
        expect(name, &[(dlwa, high)], InShape);
    }
    // A header for each tombstone, as it was.
    expect(name, &[("dlwa.raw.loc_safe", 1.45)], InShape);
    // Without what they write to the random area, nothing is shown of it.
    expect(name, &[("random_share.loc_safe", 0.04)], InShape);
    expect(name, &[("random_share.both", 0.04)], InShape);
    expect(name, &[("map_mb_per_tb", 8.1)], InShape);
    expect(name, &[("dlwa.raw.loc", 3.0)], Diverges);
    expect(name, &[("dlwa.raw.both", 1.0)], Diverges);
}

#[test]
fn array_index() {
    let name = "array-index";
    expect(name, &[("get_reads_max.entries.hotspot.4", 3.0)], InShape);
    expect(name, &[("set_reads_max.entries.hotspot.4", 2.0)], InShape);
    expect(name, &[("get_reads_max.engine.hotspot.4", 3.0)], InShape);
    expect(name, &[("set_reads_max.engine.hotspot.4", 2.0)], InShape);
    expect(name, &[("get_reads.engine.zipf.32", 1.39)], InShape);
    expect(name, &[("set_kib.engine.hotspot.32", 1.61)], InShape);
    expect(name, &[("get_reads.entries.hotspot.32", 1.8)], InShape);
    expect(name, &[("get_reads.paged.zipf.8", 1.61)], InShape);
    expect(name, &[("set_kib.entries.uniform.8", 0.61)], InShape);
    expect(name, &[("set_kib.entries.hotspot.32", 1.61)], InShape);
    expect(name, &[("get_reads.entries.hotspot.4", 1.51)], Diverges);
    expect(name, &[("get_reads.paged.uniform.4", 1.76)], Diverges);
}

#[test]
fn array_throughput() {
    let name = "array-throughput";
    for (metric, low, high) in [
        ("throughput_gain.engine.udepot-cache.hotspot.3.1", 2.0, 4.7),
        ("get_mean_cut.engine.udepot-cache.hotspot.3.1", 0.35, 0.72),
        ("get_p99_cut.engine.udepot-cache.hotspot.3.1", 0.71, 0.88),
    ] {
        expect(name, &[(metric, low)], InShape);
        expect(name, &[(metric, high)], InShape);
    }
    expect(name, &[("of_entries.hotspot.3.1", 0.89)], InShape);
    expect(name, &[("of_entries.zipf.85.1", 0.89)], InShape);
    expect(name, &[("throughput_gain.engine.udepot-cache.ycsb-c.85.1", 0.99)], Diverges);
    expect(name, &[("throughput_gain.entries.udepot-cache.hotspot.85.1", 0.99)], Diverges);
    expect(name, &[("throughput_gain.engine.slickcache.hotspot.85.1", 0.99)], Diverges);
    expect(name, &[("throughput_gain.entries.slickcache.hotspot.85.1", 0.99)], Diverges);
    let said = judge(name, &good(name)).reason;
    assert!(said.contains("2.60 times, published 3.1"), "{said}");
    assert!(said.contains("mean over all workloads") && said.contains(", 85 % filled"), "{said}");
}

#[test]
fn array_ttl_and_collisions() {
    expect("array-ttl", &[("live_share.groups", 0.44)], InShape);
    expect("array-ttl", &[("expired_returned.groups", 1.0)], InShape);
    expect("array-ttl", &[("hit.groups", 0.7)], Diverges);
    expect("array-ttl", &[("live_share.engine", 0.44)], InShape);
    expect("array-ttl", &[("expired_returned.engine", 1.0)], InShape);
    expect("array-ttl", &[("expiry_reads.engine", 1.0)], InShape);
    expect("array-ttl", &[("hit.engine", 0.7)], Diverges);
    expect("array-collisions", &[("lost.24", 0.036)], InShape);
    expect("array-collisions", &[("lost.24", 0.023)], InShape);
    expect("array-collisions", &[("wrong.24", 1.0)], Diverges);
}

#[test]
fn array_placement_and_reinsertion() {
    expect("array-placement", &[("dlwa.fdp", 1.11)], InShape);
    expect("array-placement", &[("dlwa.raw", 1.06)], InShape);
    expect("array-placement", &[("dlwa.one", 1.04)], Diverges);
    expect("array-reinsertion", &[("hit.on.zipf", 0.9)], Diverges);
    expect("array-reinsertion", &[("data_alwa.on.hotspot", 0.9)], InShape);
    expect(
        "array-reinsertion",
        &[("reinserted_alwa.on.hotspot", 0.8), ("data_alwa.on.hotspot", 0.69)],
        InShape,
    );
}

#[test]
fn array_pressure() {
    let name = "array-pressure";
    expect(name, &[("throughput_kept.hotspot", 0.94)], InShape);
    expect(name, &[("throughput_kept.hotspot", 1.2)], InShape);
    expect(name, &[("gain_kept.hotspot", 0.59)], InShape);
    expect(name, &[("gain_kept.hotspot", 1.5)], InShape);
    expect(name, &[("p99_times.half.hotspot", 1.51)], InShape);
    expect(name, &[("p99_times.half.hotspot", 0.4)], InShape);
    expect(name, &[("hit.on.half.hotspot", 0.9)], Diverges);
}

#[test]
fn block_caches() {
    let name = "block-raw";
    expect(name, &[("records_per_page.4", 320.0)], InShape);
    expect(name, &[("mb_s.write.pmem.1.64", 1000.0)], Diverges);
    expect(name, &[("mb_s.read.pmem.1.4", 600.0)], Diverges);
    let name = "block-access";
    expect(name, &[("loss.pmem.ocf22.16", 0.31)], InShape);
    expect(name, &[("optane_lead.ocf22.512", 1.1)], InShape);
    expect(name, &[("loss.p5800x.log.64", 0.11)], InShape);
    expect(name, &[("optane_lead.ocf22.512", 0.99)], Diverges);
    expect(name, &[("loss.pmem.ocf22.16", 0.1)], Diverges);
    expect(name, &[("loss.p5800x.ocf22.4", 0.35)], Diverges);
    expect(name, &[("file_mb_s.second.pm9a3.ocf22.4.150", 700.0)], Diverges);
    let name = "block-full";
    expect(name, &[("of_core.nvme.hdd.lines", 0.36)], InShape);
    expect(name, &[("of_core.pmem.pm9a3.stream", 0.89)], InShape);
    expect(name, &[("dirty.nvme.sata.runs", 0.4)], Diverges);
    let name = "block-recovery";
    expect(name, &[("terabyte_s.log.nvme", 2.1)], InShape);
    expect(name, &[("terabyte_s.log.nvme", 40.0)], Diverges);
    expect(name, &[("dirty_kept.ocf26", 0.9999)], Diverges);
    let name = "block-metadata";
    expect(name, &[("cw.first.ocf26.4.150", 2.04)], InShape);
    expect(name, &[("cw.first.ocf22.4.150", 2.17)], InShape);
    expect(name, &[("cw.second.ocf22.4.50", 1.001)], InShape);
    expect(name, &[("cw.first.log.4.50", 1.16)], InShape);
    expect(name, &[("cw.first.log.4.50", 2.01)], Diverges);
    expect(name, &[("cw.first.dax.4.50", 1.031)], InShape);
    expect(name, &[("cw.first.beside.4.50", 1.021)], InShape);
    expect(name, &[("kw.second.ocf26.4.150", 0.6)], Diverges);
    expect(name, &[("kw.second.ocf22.16.75", 0.1)], Diverges);
    let name = "block-eviction";
    expect(name, &[("cw.stream.ocf26.4", 2.02)], InShape);
    expect(name, &[("kw.zipf.ocf22.300", 0.148)], InShape);
    expect(name, &[("kw.zipf.log.150", 0.063)], InShape);
    expect(name, &[("kw.zipf.log.300", 0.18)], InShape);
    expect(name, &[("cw.zipf.log.150", 1.06)], InShape);
    expect(name, &[("cr.stream.log.16", 0.31)], InShape);
    expect(name, &[("cw.stream.log.4", 1.98)], Diverges);
    let name = "block-cpu";
    expect(name, &[("cw.memory.first.ocf26.4.1", 2.05)], InShape);
    expect(name, &[("cw.memory.second.ocf22.4.1", 1.001)], InShape);
    expect(name, &[("cw.files.first.ocf26.4.32", 2.03)], InShape);
    expect(name, &[("cw.files.first.log.4.1", 1.15)], InShape);
    expect(name, &[("cw.files.first.log.4.1", 2.02), ("block_bytes.files", 4096.0)], Reproduced);
    expect(name, &[("cw.files.second.log.4.32", 1.135)], InShape);
    expect(name, &[("kw.memory.first.log.4.1", 0.01)], InShape);
    expect(name, &[("logic_of_cpu.files.first.log.4.32", 0.21)], Diverges);
    expect(name, &[("loss.files.ocf22.4.1", -0.01), ("loss.files.log.4.1", -0.02)], Diverges);
    expect(name, &[("loss.files.log.4.1", 0.46)], Diverges);
    let name = "block-invalidate";
    expect(name, &[("around.second.ocf26.4.125", 0.16)], InShape);
    expect(name, &[("around.first.ocf22.128.200", 0.44)], InShape);
    expect(name, &[("around.second.ocf22.128.75", 0.01)], Diverges);
}

#[test]
fn block_offload() {
    let name = "block-offload";
    expect(name, &[("gain.hits.40", 1.29)], InShape);
    expect(name, &[("of_best.writes.80", 0.84)], InShape);
    expect(name, &[("lowest.misses.10", 0.96)], InShape);
    expect(name, &[("gain.writes.20", 0.96)], InShape);
    expect(name, &[("gain.misses.20", 0.89)], Diverges);
}

#[test]
fn array_crash_memory_and_failure() {
    expect("array-crash", &[("kept.clean.64", 0.998)], InShape);
    expect("array-crash", &[("kept.crash.64", 0.89)], InShape);
    expect("array-crash", &[("read_share.crash.64", 0.11)], InShape);
    expect("array-crash", &[("stale.crash.64", 1.0)], Diverges);
    expect("array-memory", &[("of_budget.32.1024", 1.11)], InShape);
    expect("array-memory", &[("index_per_object.32.1024", 8.1)], Diverges);
    let name = "array-failure";
    expect(name, &[("kops.dead", 77.0)], InShape);
    expect(name, &[("others_p99_us.dead_again", 331.0)], InShape);
    expect(name, &[("hit.back_again", 0.94)], InShape);
    expect(name, &[("capacity_share.array", 0.75)], InShape);
    expect(name, &[("errors", 1.0)], Diverges);
    expect(name, &[("stale", 1.0)], Diverges);
}

#[test]
fn drive_levelling() {
    let name = "drive-levelling";
    expect(name, &[("life.on", 0.84)], InShape);
    expect(name, &[("life.off", 0.56)], InShape);
    expect(name, &[("hits_lost", 0.51)], InShape);
    expect(name, &[("life.on", 0.59)], Diverges);
    expect(name, &[("wrong", 1.0)], Diverges);
}

#[test]
fn small_objects() {
    let name = "small-objects";
    expect(name, &[("writes.pages.32.64", 1.71)], InShape);
    expect(name, &[("writes.pages.32.64", 1.71), ("writes_max", 2.0)], Reproduced);
    expect(name, &[("hit.pages.32.40", 92.69)], InShape);
    expect(name, &[("hit.pages.32.64", 93.61)], Reproduced);
    expect(name, &[("hit.pages.32.4", 95.5)], InShape);
    expect(name, &[("hit.pages.32.4", 96.0)], Diverges);
    expect(name, &[("bits.pages.32.64", 22.1)], InShape);
    expect(name, &[("reads_hit.pages.32.20", 1.06)], InShape);
    expect(name, &[("reads_miss.pages.32.20", 0.031)], InShape);
    expect(name, &[("writes.pages.32.20", 0.99)], Diverges);
    expect(name, &[("writes.pages.32.20", 9.4)], Diverges);
    for fault in ["wrong", "overfull", "unaccounted"] {
        expect(name, &[(fault, 1.0)], Diverges);
    }
    // With less DRAM it is not judged, but said.
    let little =
        [("writes.pages.128.64", 3.0), ("hit.pages.128.64", 90.0), ("hit.fifo.128.64", 94.0)];
    expect(name, &little, Reproduced);
    let reason = judge(name, &changed(name, &little)).reason;
    assert!(reason.contains("128.64: 3.00 written, hits -4.00"), "{reason}");
}

#[test]
fn hardware_vs_software() {
    let name = "hardware-vs-software";
    expect(name, &[("gain.bucket", 1.02)], Reproduced);
    expect(name, &[("gain.bucket", 1.27)], Reproduced);
    expect(name, &[("gain.bucket", 1.28)], InShape);
    expect(name, &[("gain.bucket", 0.99)], Diverges);
    expect(name, &[("p99_ratio.bucket", 1.12)], InShape);
    expect(name, &[("p99_ratio.bucket", 2.54)], Reproduced);
    expect(name, &[("p99_ratio.bucket", 2.57)], InShape);
    // Equal limits are not those of the weights.
    let equal = [("tenant_mb_s.bucket.1", 700.0), ("tenant_mb_s.bucket.4", 700.0)];
    expect(name, &equal, InShape);
}

#[test]
fn isolation_latency() {
    let name = "isolation-latency";
    expect(name, &[("p99_ratio.rw.reads_first.software", 2.0)], InShape);
    let high = [("p99_ratio.rw.reads_first.software", 4.7), ("p99_ratio.rw.reads_first.none", 4.7)];
    expect(name, &high, InShape);
    expect(name, &[("p99_ratio.search.in_order.none", 10.0)], Diverges);
    expect(name, &[("p99_ratio.search.reads_suspend.die", 0.9)], Diverges);
    expect(name, &[("kept.in_order.channel", 0.39)], InShape);
}

#[test]
fn websearch_mapreduce() {
    let name = "websearch-mapreduce";
    for (metric, low, high) in [
        ("tail.in_order.none", 1.3, 3.1),
        ("slower.reads_first.channel", 1.03, 2.4),
        ("slower.reads_suspend.bucket", 2.6, 6.1),
    ] {
        expect(name, &[(metric, low)], InShape);
        expect(name, &[(metric, high)], InShape);
    }
    expect(name, &[("tail.reads_suspend.bucket", 0.6)], InShape);
    expect(name, &[("tail.in_order.bucket", 1.6)], InShape);
    expect(name, &[("tail.in_order.bucket", 5.5)], Diverges);
    expect(name, &[("tail.reads_suspend.none", 1.0)], Diverges);
}

#[test]
fn ycsb() {
    let name = "ycsb";
    for (metric, low, high) in [
        ("throughput_gain.2.bucket", 1.06, 2.41),
        ("p99_gain.2.die", 1.13, 2.56),
        ("p99_gain.2.bucket", 1.72, 3.91),
    ] {
        expect(name, &[(metric, low)], InShape);
        expect(name, &[(metric, high)], InShape);
    }
    expect(name, &[("throughput_gain.2.die", 1.96)], InShape);
    expect(name, &[("throughput_gain.2.die", 0.94)], Diverges);
    expect(name, &[("p99_gain.2.bucket", 0.9)], Diverges);
}

#[test]
fn exchange() {
    let name = "exchange";
    expect(name, &[("write_ratio.2000+300.moved", 1.51)], InShape);
    expect(name, &[("read_ratio.1000+100.moved", 0.4)], InShape);
    expect(name, &[("read_ratio.1000+0.moved", 2.1)], Diverges);
    expect(name, &[("read_ratio.1000+full.others", 1.06)], InShape);
    expect(name, &[("write_ratio.2000+300.others", 0.89)], InShape);
    expect(name, &[("ended.2000+300", 0.5)], InShape);
}

#[test]
fn harvesting() {
    let name = "harvesting";
    expect(name, &[("gain.idle", 1.29)], InShape);
    expect(name, &[("gain.bursts", 2.1)], InShape);
    expect(name, &[("gain.bursts", 1.0)], Diverges);
    expect(name, &[("p99_ratio.bursts", 1.11)], InShape);
    expect(name, &[("p99_ratio.fills", 0.8)], InShape);
    expect(name, &[("copied_pages", 1.0)], InShape);
    expect(name, &[("called_back.fills", 0.0)], InShape);
    expect(name, &[("wear_ratio", 1.1)], InShape);
}
