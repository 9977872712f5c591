//! Verdicts on made-up numbers: as published, right in shape only, wrong.

use larder_lab::experiment::Verdict::{self, Diverges, InShape, Reproduced};
use larder_lab::experiment::{self, Judgement, Metrics, Summary};

fn judge(name: &str, values: &[(&str, f64)]) -> Judgement {
    let experiment = experiment::find(name).unwrap();
    let metrics: Metrics = values.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    (experiment.judge)(&Summary::of(&[metrics]))
}

/// Judges `good` with `changes` put over it.
#[track_caller]
fn expect(name: &str, good: &[(&str, f64)], changes: &[(&str, f64)], verdict: Verdict) {
    let values: Vec<_> = good.iter().chain(changes).copied().collect();
    let judgement = judge(name, &values);
    assert_eq!(judgement.verdict, verdict, "{name} {changes:?}: {}", judgement.reason);
}

#[test]
fn half_and_full() {
    let good =
        [("dlwa.on.50", 1.0), ("dlwa.on.100", 1.01), ("dlwa.off.50", 1.3), ("dlwa.off.100", 3.5)];
    for name in ["dlwa-interval", "twitter", "write-only", "full-scale"] {
        expect(name, &good, &[], Reproduced);
        expect(name, &good, &[("dlwa.on.100", 1.2)], InShape);
        expect(name, &good, &[("dlwa.off.100", 2.0)], InShape);
        expect(name, &good, &[("dlwa.on.100", 3.6)], Diverges);
        assert_eq!(judge(name, &[]).verdict, Diverges, "{name}: nothing was measured");
        expect(name, &good, &[("dlwa.on.50", f64::NAN)], Diverges);
    }
    for name in ["dlwa-interval", "full-scale"] {
        expect(name, &good, &[("dlwa.off.50", 1.6)], InShape);
    }
}

#[test]
fn utilization() {
    let good = [
        ("dlwa.on.50", 1.0),
        ("dlwa.on.90", 1.0),
        ("dlwa.on.100", 1.01),
        ("dlwa.off.50", 1.2),
        ("dlwa.off.90", 2.4),
        ("dlwa.off.100", 3.5),
    ];
    expect("utilization", &good, &[], Reproduced);
    expect("utilization", &good, &[("dlwa.off.50", 1.6)], InShape);
    expect("utilization", &good, &[("dlwa.on.100", 1.06)], Diverges);
    expect("utilization", &good, &[("dlwa.off.90", 3.7)], Diverges);
    let reason = judge("utilization", &good).reason;
    assert!(reason.contains("diverges from the paper's remark"), "{reason}");
}

#[test]
fn soc_size() {
    let good = [
        ("half_op", 8.5),
        ("dlwa.on.4", 1.005),
        ("dlwa.on.8", 1.05),
        ("dlwa.on.64", 2.5),
        ("dlwa.on.96", 3.3),
        ("dlwa.off.64", 3.3),
        ("gain.64", 0.25),
        ("gain.96", 0.02),
    ];
    expect("soc-size", &good, &[], Reproduced);
    expect("soc-size", &good, &[("dlwa.on.8", 1.2)], InShape);
    expect("soc-size", &good, &[("gain.96", 0.2)], InShape);
    expect("soc-size", &good, &[("dlwa.on.96", 2.4)], Diverges);
    expect("soc-size", &good, &[("dlwa.off.64", 2.4)], Diverges);
    assert!(judge("soc-size", &good).reason.contains("from SOC 96 % on"));
}

#[test]
fn gc_events() {
    let good = [
        ("erase_ratio", 3.5),
        ("dlwa_ratio", 3.4),
        ("host_pages.on", 1000.0),
        ("host_pages.off", 1000.0),
    ];
    expect("gc-events", &good, &[], Reproduced);
    expect("gc-events", &good, &[("dlwa_ratio", 2.9)], InShape);
    expect("gc-events", &good, &[("erase_ratio", 2.0), ("dlwa_ratio", 2.0)], InShape);
    expect("gc-events", &good, &[("host_pages.off", 900.0)], Diverges);
    expect("gc-events", &good, &[("erase_ratio", 0.9)], Diverges);
}

#[test]
fn dram_tradeoff() {
    let good = [
        ("flash_hit.10", 0.38),
        ("flash_hit.50", 0.31),
        ("flash_hit.100", 0.17),
        ("dlwa.on.10", 1.0),
        ("dlwa.on.50", 1.0),
        ("dlwa.on.100", 1.0),
        ("dlwa.off.100", 3.3),
    ];
    expect("dram-tradeoff", &good, &[], Reproduced);
    expect("dram-tradeoff", &good, &[("flash_hit.50", 0.4)], InShape);
    expect("dram-tradeoff", &good, &[("dlwa.on.50", 1.1)], InShape);
    expect("dram-tradeoff", &good, &[("flash_hit.10", 0.1)], Diverges);
}

#[test]
fn tenants() {
    let good = [
        ("dlwa.on.identical", 1.0),
        ("dlwa.on.different", 1.0),
        ("dlwa.on.four", 1.0),
        ("dlwa.on.one_short", 1.0),
        ("dlwa.on.half_short", 2.0),
        ("dlwa.off.identical", 3.5),
        ("dlwa.off.different", 3.4),
        ("dlwa.off.four", 3.6),
        ("fallen_back.half_short", 4.0),
    ];
    expect("tenants", &good, &[], Reproduced);
    expect("tenants", &good, &[("dlwa.on.four", 1.1)], InShape);
    expect("tenants", &good, &[("dlwa.on.half_short", 1.0)], InShape);
    expect("tenants", &good, &[("fallen_back.half_short", 0.0)], InShape);
    expect("tenants", &good, &[("dlwa.on.four", 3.7)], Diverges);
}

#[test]
fn model_validation() {
    let good = [
        ("error.4", 0.01),
        ("error.64", 0.12),
        ("error_weighted.64", 0.2),
        ("uniform_error.17", 0.05),
        ("sim.4", 1.0),
        ("sim.64", 2.5),
    ];
    expect("model-validation", &good, &[], Reproduced);
    expect("model-validation", &good, &[("error.64", 0.2)], InShape);
    expect("model-validation", &good, &[("uniform_error.17", 0.08)], InShape);
    expect("model-validation", &good, &[("sim.64", 0.9)], Diverges);
}

#[test]
fn carbon() {
    let good = [("error_kg", 0.09), ("ratio.ssd", 3.15), ("ratio.headline", 3.29)];
    expect("carbon", &good, &[], Reproduced);
    expect("carbon", &good, &[("error_kg", 0.2)], InShape);
    expect("carbon", &good, &[("ratio.ssd", 0.9)], Diverges);
    let reason = judge("carbon", &good).reason;
    assert!(reason.contains("headline of 4 times diverges"), "{reason}");
}

#[test]
fn isolation_type() {
    let good = [("difference.17.4", 0.01), ("difference.10.4", -0.2), ("difference.17.64", -0.3)];
    expect("isolation-type", &good, &[], Reproduced);
    expect("isolation-type", &good, &[("difference.28.4", -0.06)], InShape);
}

#[test]
fn what_must_rise() {
    let mislabelled = [("dlwa.on.0", 1.0), ("dlwa.on.10", 1.4), ("dlwa.on.50", 3.0)];
    expect("mislabelled", &mislabelled, &[], Reproduced);
    expect("mislabelled", &mislabelled, &[("dlwa.on.10", 1.0)], Diverges);
    assert_eq!(judge("mislabelled", &mislabelled[..1]).verdict, Diverges);
    let noisy = [("dlwa.on.quiet", 1.6), ("dlwa.on.noisy", 1.9)];
    expect("noisy-handle", &noisy, &[], Reproduced);
    expect("noisy-handle", &noisy, &[("dlwa.on.noisy", 1.6)], Diverges);
}
