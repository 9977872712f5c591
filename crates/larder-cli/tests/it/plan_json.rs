//! `docs/plan-json.md` names each key of the output, with its type, and no other.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::Value;

use crate::documented::{Tables, check, document, tables};
use crate::place::Place;

const SHORT: &str = "plan --simulate 8MiB --requests 30000 --dram 60G --soc-layout buckets";

/// The output of such a plan, which several tests read.
static PLAN: LazyLock<String> =
    LazyLock::new(|| Place::new().succeed(&format!("{SHORT} --json - --seed 1")).stdout);

fn plan() -> Value {
    serde_json::from_str(&PLAN).unwrap()
}

fn page() -> Tables {
    tables(&document("plan-json.md"), "## ")
}

fn check_plan(tables: &Tables, plan: &Value) {
    check(tables, "Result", plan);
    check(tables, "Parameters", &plan["parameters"]);
    check(tables, "Model", &plan["model"]);
    check(tables, "Load", &plan["load"]);
    let answers = plan["answers"].as_array().unwrap();
    assert_eq!(answers.len(), 2);
    for answer in answers {
        check(tables, "Answer", answer);
        if !answer["levelling"].is_null() {
            check(tables, "Levelling", &answer["levelling"]);
        }
        check(tables, "Limit", &answer["limit"]);
        check(tables, "Limit", &answer["limit_theory"]);
    }
    for layout in plan["layouts"].as_array().unwrap() {
        check(tables, "Layout", layout);
    }
    for point in plan["sweep"].as_array().unwrap() {
        check(tables, "Point", point);
    }
    assert!(plan["advice"].as_array().unwrap().iter().all(Value::is_string));
}

#[test]
fn all_headings_are_checked() {
    let headings: BTreeSet<String> = page().into_keys().collect();
    let checked = [
        "Result",
        "Parameters",
        "Model",
        "Load",
        "Answer",
        "Layout",
        "Levelling",
        "Limit",
        "Point",
    ];
    assert_eq!(headings, checked.map(str::to_owned).into());
}

#[test]
fn each_key_of_a_plan_is_named() {
    let tables = page();
    check_plan(&tables, &plan());
    let other = format!(
        "{SHORT} --tbw 3000 --utilization 75 --dlwa-limit 1.0001 --rate 0.1 --drive-rates 3,1"
    );
    check_plan(&tables, &Place::new().json(&other));
}

/// The options of the command equal the parameters of its result.
#[test]
fn parameters_are_the_options() {
    let help = Place::new().succeed("plan --help").stdout;
    let options: BTreeSet<String> = help
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("--"))
        .map(|option| option.split([' ', ',']).next().unwrap().replace('-', "_"))
        .filter(|name| !["config", "json", "report", "seed", "help"].contains(&name.as_str()))
        .collect();
    let tables = page();
    let named = tables["Parameters"].keys().filter(|key| *key != "trace").cloned();
    assert_eq!(options, named.collect());
}

#[test]
fn the_seed_decides() {
    let json = |seed: u64| Place::new().succeed(&format!("{SHORT} --json - --seed {seed}")).stdout;
    assert_eq!(*PLAN, json(1));
    assert_ne!(*PLAN, json(2).replace("\"seed\": 2", "\"seed\": 1"));
}

#[test]
fn ratings_prices_and_years_decide_what_follows() {
    let plan = plan();
    let changed = Place::new().json(&format!(
        "{SHORT} --seed 1 --endurance 2 --years 10 --price-flash 0.2 --price-dram 8 --carbon-flash 0.32"
    ));
    let number = |plan: &Value, key: &str| plan["answers"][1][key].as_f64().unwrap();
    let close = |key: &str, factor: f64| {
        let found = number(&changed, key) / number(&plan, key);
        assert!((found - factor).abs() < 1e-9, "{key}: {found}, expected {factor}");
    };
    close("dlwa", 1.0);
    close("life_years", 2.0);
    close("endurance_needed", 2.0);
    close("drives", 1.0);
    close("flash_kg", 2.0);
    close("dram_kg", 1.0);
    close("cost", 2.0);
}
