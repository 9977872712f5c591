//! The list of what is in a binary, as CycloneDX: each crate with version, licence and origin.

use std::collections::{BTreeMap, BTreeSet};

use larder_harness::step;
use serde_json::{Value, json};

use super::making::{Dist, told};

/// The crates that a binary with these features is built from, build scripts and macros excepted.
pub(super) fn of(dist: &Dist, features: &[&str]) -> Result<String, String> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut tree = step::cargo(&["tree", "--locked", "--package", "larder-cli", "--target"]);
    tree.arg(target).args(features);
    let listed = told(tree.args(["--edges", "normal", "--prefix", "none", "--format", "{p}"]))?;
    // `name v1.2.3 (path or origin)`, and `(*)` where it was listed before.
    let used: BTreeSet<(&str, &str)> = listed
        .lines()
        .filter_map(|line| {
            let (name, rest) = line.split_once(" v")?;
            Some((name, rest.split(' ').next()?))
        })
        .collect();
    let metadata = told(&mut step::cargo(&["metadata", "--locked", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|cause| cause.to_string())?;
    let empty = Vec::new();
    let packages = metadata["packages"].as_array().unwrap_or(&empty);
    let known: BTreeMap<(&str, &str), &Value> = packages
        .iter()
        .filter_map(|it| Some(((it["name"].as_str()?, it["version"].as_str()?), it)))
        .collect();
    let mut components = Vec::new();
    for crate_of in &used {
        let package = known.get(crate_of).ok_or_else(|| format!("{crate_of:?} is not known"))?;
        components.push(component(crate_of, package));
    }
    let list = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "larder",
                "name": "larder",
                "version": dist.version,
                "licenses": [{ "expression": "Apache-2.0" }],
            },
        },
        "components": components,
    });
    serde_json::to_string_pretty(&list).map(|text| text + "\n").map_err(|cause| cause.to_string())
}

fn component((name, version): &(&str, &str), package: &Value) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": format!("{name}@{version}"),
        "name": name,
        "version": version,
    });
    if let Some(licence) = package["license"].as_str() {
        // An older notation of "or".
        component["licenses"] = json!([{ "expression": licence.replace('/', " OR ") }]);
    }
    // What has an origin was fetched; the others are ours.
    if package["source"].is_string() {
        component["purl"] = json!(format!("pkg:cargo/{name}@{version}"));
    }
    component
}
