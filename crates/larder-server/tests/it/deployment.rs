//! The files in `contrib/` can be parsed, and they use only names that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use larder::device::nvme::{DriveReport, Written};
use larder::{Endurance, OpenMetrics, RealClock, Stats, Tenant, Tenants, TenantsConfig, block_on};
use larder_server::{Server, ServerConfig};

use crate::admin::get;
use crate::serving::{Client, config};

fn contrib() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib")
}

fn json(path: &str) -> serde_json::Value {
    let text = fs::read_to_string(contrib().join(path)).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All files below `folder` whose names end with `end`.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = entries.flat_map(|path| match path.is_dir() {
        true => files(&path, end),
        false => vec![path],
    });
    below.filter(|path| path.to_string_lossy().ends_with(end)).collect()
}

/// The names of the families that a text declares.
fn declared(text: &str) -> BTreeSet<String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// All families of a server whose drive reports everything.
fn all_families() -> BTreeSet<String> {
    let own = larder::Config { latency_histograms: true, ..larder::Config::default() };
    let tenants = TenantsConfig {
        dram_bytes: 4 << 20,
        tenants: vec![Tenant { config: own, ..Tenant::new("default", 100.0) }],
        endurance: Some(Endurance::of_tbw(600)),
        ..TenantsConfig::default()
    };
    let flash = tempfile::NamedTempFile::new().unwrap();
    let device = Arc::new(larder::FileDevice::create(flash.path(), 64 << 20).unwrap());
    let tenants = block_on(Tenants::open(tenants, Some(device), Arc::new(RealClock))).unwrap();
    let admin = Some(([127, 0, 0, 1], 0).into());
    let server = Server::start(ServerConfig { admin, ..config() }, tenants).unwrap();
    let mut client = Client::memcached(&server);
    client.asks(
        "set bread 0 0 3\r\nrye\r\nget bread\r\n",
        "STORED\r\nVALUE bread 0 3\r\nrye\r\nEND\r\n",
    );
    let mut told = declared(&get(&server, "/metrics", ""));
    let written = Some(Written { host_bytes: 1, media_bytes: 1, ..Written::default() });
    let drive =
        DriveReport { looks: 1, since_open: written, recent: written, ..DriveReport::default() };
    let mut stats = Stats::default();
    (stats.drives, stats.admitted_bytes) = (vec![Arc::new(drive)], 1);
    told.extend(declared(&OpenMetrics::new().cache(&[], &stats).unwrap().to_string()));
    told
}

#[test]
fn every_metric_of_the_dashboard_and_of_the_alerts_exists() {
    let dashboard = json("grafana/larder.json").to_string();
    let alerts = fs::read_to_string(contrib().join("prometheus/larder.rules.yml")).unwrap();
    let known = all_families();
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let names = |text: &'static str| -> BTreeSet<&str> {
        text.split(|it| !is_part(it)).filter(|it| it.starts_with("larder_")).collect()
    };
    let (dashboard, alerts) = (names(dashboard.leak()), names(alerts.leak()));
    assert!(dashboard.len() > 30 && alerts.len() > 5, "{dashboard:?} {alerts:?}");
    let named: BTreeSet<&str> = dashboard.union(&alerts).copied().collect();
    for name in named {
        let family = ["_total", "_bucket", "_count", "_info"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(name);
        assert!(known.contains(family), "{name} is told by no server");
    }
}

/// `cargo xtask monitoring` runs the tests of alerts; here each alert has one that fires and one that does not.
#[test]
fn every_alert_is_tested() {
    let text = |path: &str| fs::read_to_string(contrib().join(path)).unwrap();
    let (rules, tests) =
        (text("prometheus/larder.rules.yml"), text("prometheus/larder.rules.test.yml"));
    let alerts: Vec<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() >= 14, "{alerts:?}");
    for alert in alerts {
        let asks = format!("- expr: ALERTS{{alertname=\"{alert}\", alertstate=\"firing\"}}");
        assert_eq!(tests.matches(&asks).count(), 2, "{alert}");
    }
}

#[test]
fn configurations_in_json_can_be_read() {
    assert_eq!(
        json("proxies/mcrouter.json")["pools"]["larder"]["servers"].as_array().unwrap().len(),
        3
    );
    let calls = json("docker/seccomp-io-uring.json");
    assert!(calls["names"].as_array().unwrap().contains(&"io_uring_enter".into()));
}

/// Turns a Helm template into YAML: replaces each expression by a word, and drops control lines.
fn filled_in(template: &str) -> String {
    let mut text = String::new();
    for line in template.lines().filter(|line| !line.trim_start().starts_with("{{-")) {
        let mut rest = line;
        while let Some((before, behind)) = rest.split_once("{{") {
            text += before;
            text += "x";
            rest = behind.split_once("}}").unwrap().1;
        }
        text += rest;
        text += "\n";
    }
    // The template has an indented block at the margin; indent it.
    text.replace("\nx\n", "\n    x\n")
}

#[test]
fn configurations_in_yaml_can_be_read() {
    let python = |code: &str| {
        let mut command = Command::new("python3");
        command
            .args(["-c", code])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command.spawn()
    };
    let has_parser = python("import yaml")
        .is_ok_and(|child| child.wait_with_output().is_ok_and(|it| it.status.success()));
    if !has_parser {
        eprintln!("skipped: no parser of YAML is at hand");
        return;
    }
    let all = [files(&contrib(), ".yaml"), files(&contrib(), ".yml")].concat();
    assert!(all.len() >= 8, "{all:?}");
    for path in all {
        let text = filled_in(&fs::read_to_string(&path).unwrap());
        let mut child =
            python("import sys, yaml; assert list(yaml.safe_load_all(sys.stdin))").unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{}: {said}\n{text}", path.display());
    }
}
