//! Verdicts of experiments whose mechanism is broken: each must differ from that of the experiment as it is, or the run
//! must be refused. Otherwise no regression could change the verdict.
//!
//! `cargo xtask judges` runs the whole table.

use larder_lab::experiment::{self, Seeds, Settings, Verdict};
use larder_lab::replay::Monitor;

/// Settings that break what an experiment is about.
struct Broken {
    experiment: &'static str,
    settings: &'static [&'static str],
    /// What they break.
    what: &'static str,
}

const fn broken(
    experiment: &'static str,
    settings: &'static [&'static str],
    what: &'static str,
) -> Broken {
    Broken { experiment, settings, what }
}

/// Those that take a second.
const QUICK: [Broken; 4] = [
    broken("carbon", &["dlwa_off=3.5"], "another write amplification than the table's"),
    broken("wear-adversary", &["migration=10"], "an exchange costs ten times its erases"),
    broken("die-wear", &["delta=.5", "sigma=3", "migration=10"], "exchanges are rare and dear"),
    broken("block-raw", &["memory_io_ns=100000"], "memory as slow as flash"),
];

/// Those that take up to minutes.
const SLOW: [Broken; 10] = [
    broken("block-invalidate", &["lines=512"], "a cache too small for its metadata"),
    broken("wear-mixes", &["migration=10"], "an exchange costs ten times its erases"),
    broken("block-full", &["depth=1"], "one request at a time"),
    broken("block-recovery", &["depth=1"], "one read at a time"),
    broken("block-placement", &["op=100"], "as much spare as data: nothing is left to gain"),
    broken("array-reinsertion", &["records=1000"], "everything fits, so nothing is reclaimed"),
    broken("energy", &["flash_mib=8"], "units that hold one object"),
    broken("gc-events", &["flash_mib=16"], "units that hold one object"),
    broken("hardware-vs-software", &["planes=1"], "dies that cannot fill their channel"),
    broken("websearch-mapreduce", &["searches=10"], "ten searches at a time"),
];

/// The verdict; `None` for a run that is refused.
fn verdict(name: &'static str, settings: &[&str]) -> Option<Verdict> {
    let experiment = experiment::find(name).unwrap();
    let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
    let settings = Settings::new(name, experiment.parameters, &settings).unwrap();
    let seeds = Seeds { first: 9_000, count: 1 };
    let result = experiment::run(experiment, &settings, seeds, &Monitor::default(), &|_| {});
    result.ok().map(|result| result.verdict).filter(|it| *it != Verdict::NotJudged)
}

fn check(table: &[Broken]) {
    let mut unnoticed = Vec::new();
    for Broken { experiment, settings, what } in table {
        let (whole, broken) = (verdict(experiment, &[]), verdict(experiment, settings));
        println!("{experiment} with {settings:?} ({what}): {whole:?}, then {broken:?}");
        assert!(whole.is_some(), "{experiment} is refused as it is");
        if whole == broken {
            unnoticed.push(format!("{experiment} with {settings:?} ({what})"));
        }
    }
    assert!(unnoticed.is_empty(), "the verdict stays for {unnoticed:?}");
}

#[test]
fn the_verdict_changes_with_a_broken_mechanism() {
    check(&QUICK);
}

#[test]
#[ignore = "takes minutes: `cargo xtask judges` runs it"]
fn the_verdict_changes_with_each_broken_mechanism() {
    check(&SLOW);
}
