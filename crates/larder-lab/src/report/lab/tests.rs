//! The page of experiments as a whole.

use serde_json::json;

use super::{LabResult, read_results, render};
use crate::experiment::{self, Seeds, Settings};
use crate::replay::Monitor;
use crate::report::tests::{assert_no_impossible_numbers, assert_well_formed};

fn result(name: &str, metrics: &[(&str, f64)]) -> LabResult {
    let spread = |mean: f64| json!({ "min": mean - 0.1, "mean": mean, "max": mean + 0.1 });
    let metrics: serde_json::Map<_, _> =
        metrics.iter().map(|(name, mean)| ((*name).to_owned(), spread(*mean))).collect();
    let result = json!({
        "experiment": name,
        "title": "what it shows",
        "reproduces": "Figure 1",
        "parameters": { "requests": "1000" },
        "seeds": [1, 2, 3],
        "metrics": metrics,
        "paper": { "dlwa.off.100": { "metric": "dlwa.off.100", "value": 3.5, "source": "Fig. 6" } },
        "criterion": "on <= 1.05",
        "verdict": "reproduced",
        "reason": "holds: on at most 1.01",
    });
    read_results(&result.to_string()).unwrap().remove(0)
}

const BY_UTILISATION: [(&str, f64); 4] =
    [("dlwa.on.50", 1.0), ("dlwa.on.100", 1.0), ("dlwa.off.50", 1.2), ("dlwa.off.100", 3.3)];

fn check(page: &str) {
    assert_well_formed(page);
    assert_no_impossible_numbers(page);
    for loading in ["src=", "url(", "@import", "<script", "<link", "http-equiv"] {
        assert!(!page.contains(loading), "{loading}");
    }
    let addresses = page.split("href=\"").skip(1);
    assert!(addresses.into_iter().all(|address| address.starts_with("#experiment-")));
}

#[test]
fn a_described_experiment_is_drawn_next_to_the_paper() {
    let page = render(&[result("utilization", &BY_UTILISATION)]);
    check(&page);
    assert!(page.contains("share of the drive that the cache uses (%)"));
    assert!(page.contains("DLWA (media bytes per host byte)"));
    assert_eq!(page.matches("class=\"published off\"").count(), 1);
    assert_eq!(page.matches("class=\"point on\"").count(), 3, "two points and the legend");
    assert!(page.contains("class=\"spread off\""));
    assert!(page.contains("requests = 1000") && page.contains("on &lt;= 1.05"));
    assert!(page.contains("✓ reproduced") && page.contains("holds: on at most 1.01"));
    assert!(page.contains("utilization: reproduced."));
}

#[test]
fn an_unknown_experiment_is_drawn_from_its_names() {
    let lines = render(&[result("of-tomorrow", &BY_UTILISATION)]);
    check(&lines);
    assert!(lines.contains("class=\"line off\"") && lines.contains("class=\"published off\""));
    let bars = [("dlwa.on.quiet", 1.0), ("dlwa.on.noisy", 2.0), ("x_us.all", 3.0)];
    let bars = render(&[result("of-tomorrow", &bars)]);
    check(&bars);
    assert!(bars.contains("class=\"bar on\"") && bars.contains(">noisy</text>"));
    let scalar = render(&[result("of-tomorrow", &[("wa", 4.8)])]);
    check(&scalar);
    assert!(!scalar.contains("<svg") && scalar.contains(">wa</th>"));
}

#[test]
fn a_described_experiment_with_other_metrics_still_gets_a_chart() {
    let page = render(&[result("gc-events", &[("other.on.1", 1.0), ("other.on.2", 2.0)])]);
    check(&page);
    assert!(page.contains("<svg"));
}

#[test]
fn one_point_is_a_bar() {
    let page = render(&[result("utilization", &BY_UTILISATION[1..2])]);
    check(&page);
    assert!(page.contains("class=\"bar on\"") && !page.contains("class=\"line on\""));
}

#[test]
fn long_series_are_one_row() {
    let names: Vec<String> = (1..=20).map(|n| format!("interval.on.50.{:03}", n * 5)).collect();
    let metrics: Vec<(&str, f64)> = names.iter().map(|name| (name.as_str(), 1.5)).collect();
    let page = render(&[result("dlwa-interval", &metrics)]);
    check(&page);
    assert!(page.contains(">interval.on.50.*</th>") && page.contains("20 points; DLWA of a"));
    assert!(!page.contains(">interval.on.50.005</th>"));
}

#[test]
fn what_could_not_be_measured_is_said() {
    let mut gap = result("utilization", &BY_UTILISATION);
    let point = gap.metrics.get_mut("dlwa.on.50").unwrap();
    (point.min, point.mean, point.max) = (None, None, None);
    let page = render(&[gap]);
    check(&page);
    assert!(page.contains("not known"));
}

#[test]
fn verdicts_are_counted() {
    let mut other = result("twitter", &BY_UTILISATION);
    other.verdict = "diverges".to_owned();
    let page = render(&[result("utilization", &BY_UTILISATION), other.clone()]);
    assert!(page.contains("Of 2 experiments: 1 reproduced, 1 diverges."));
    other.verdict = "reproduced".to_owned();
    let page = render(&[result("utilization", &BY_UTILISATION), other]);
    assert!(page.contains("All 2 experiments reproduce what was published."));
}

#[test]
fn raw_metrics_are_folded() {
    let page = render(&[result("utilization", &BY_UTILISATION)]);
    let (before, folded) = page.split_once("<details class=\"raw\">").expect("a fold");
    assert!(!before.contains("class=\"metrics\""));
    assert!(folded.contains("what was measured: 4 metrics"));
    assert!(folded.split("</details>").next().unwrap().contains(">dlwa.on.50</th>"));
}

#[test]
fn other_parameters_than_the_defaults_are_marked() {
    let mut changed = result("utilization", &BY_UTILISATION);
    let plain = render(std::slice::from_ref(&changed));
    assert!(!plain.contains("class=\"changed") && !plain.contains("--first-seed"));
    changed.changed.insert("requests".to_owned(), "4000000".to_owned());
    changed.seeds = vec![7, 8];
    changed.verdict = "not judged".to_owned();
    let page = render(&[changed]);
    check(&page);
    assert!(page.contains("<span class=\"changed\">other parameters</span>"));
    assert!(page.contains("requests = 1000, by default 4000000."));
    assert!(page.contains("larder lab run utilization --seeds 2 --first-seed 7 --set"));
    assert!(page.contains("? not judged"));
}

#[test]
fn what_a_clock_has_measured_is_named_with_its_machine() {
    let mut timed = result("utilization", &BY_UTILISATION);
    assert!(!render(std::slice::from_ref(&timed)).contains("clock of a machine"));
    timed.by_clock = vec!["mb_s.*".to_owned(), "loss.*".to_owned()];
    timed.machine = vec!["cpu: fast <one>".to_owned(), "disk: ext4 on a".to_owned()];
    let page = render(&[timed]);
    check(&page);
    assert!(page.contains("by the clock of a machine") && page.contains("mb_s.*, loss.*"));
    assert!(page.contains("cpu: fast &lt;one&gt;; disk: ext4 on a"));
}

#[test]
fn hostile_results_are_text() {
    let hostile = "</td><script>alert('1')</script>\"&";
    let mut bad = result("utilization", &BY_UTILISATION);
    for text in [&mut bad.experiment, &mut bad.title, &mut bad.reason, &mut bad.verdict] {
        hostile.clone_into(text);
    }
    bad.parameters.insert(hostile.to_owned(), hostile.to_owned());
    bad.metrics.insert(format!("dlwa.on.{hostile}"), bad.metrics["dlwa.on.50"]);
    let page = render(&[bad]);
    check(&page);
    assert!(page.contains("&lt;script&gt;"));
}

#[test]
fn a_run_and_its_json_make_the_same_page() {
    let experiment = experiment::find("carbon").unwrap();
    let settings = Settings::new(experiment.name, experiment.parameters, &[]).unwrap();
    let seeds = Seeds { first: 1, count: 1 };
    let ran = experiment::run(experiment, &settings, seeds, &Monitor::default(), &|_| {}).unwrap();
    let of_run = LabResult::try_from(&ran).unwrap();
    let json = serde_json::to_string(&ran).unwrap();
    let page = render(&[of_run]);
    check(&page);
    assert_eq!(page, render(&read_results(&json).unwrap()));
    assert_eq!(page, render(&read_results(&format!("[{json}]")).unwrap()));
    assert!(page.contains("embodied carbon (kg CO2e)"));
}
