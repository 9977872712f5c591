//! `larder serve` on four simulated drives, one of which is written more than the others: with `drive_levelling`, its
//! keys move to another drive, a step a day. Days pass by memcached's `debugtime`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use larder::{Config, Device, RealClock, Shards, block_on};
use larder_device::MemoryDevice;
use serde_json::Value;

use crate::place::Place;
use crate::placed_server::{metric, refused, serve};
use crate::serve_command::{Serving, admin, asks};

const DRIVES: &str = "\
memory = \"48M\"
hash_seed = 7
file = [\"model:64M,op=20\", \"model:64M,op=20\", \"model:64M,op=20\", \"model:64M,op=20\"]
planned_service = 1
endurance = \"1G\"
";
const BYTES: usize = 4_000;
const DAY_S: u64 = 86_400;

/// Keys by the shard of a set of four like drives that has them.
fn keys_by_shard(count: u32) -> Vec<Vec<String>> {
    let device =
        |_| -> Option<Arc<dyn Device>> { Some(Arc::new(MemoryDevice::holding(vec![0; 64 << 20]))) };
    let config = Config { hash_seed: Some(7), ..Config::default() };
    let devices = (0..4).map(device).collect();
    let set = block_on(Shards::open(config, devices, Arc::new(RealClock))).unwrap();
    let mut keys = vec![Vec::new(); 4];
    for key in (0..count).map(|key| format!("key{key}")) {
        keys[set.home_of(key.as_bytes())].push(key);
    }
    block_on(set.close()).unwrap();
    keys
}

fn value_of(key: &str, version: u32) -> String {
    format!("{key} {version} {}", "x".repeat(BYTES))
}

fn set_all(serving: &Serving, keys: &[String], version: u32) {
    let mut client = serving.connect("memcached");
    for some in keys.chunks(100) {
        let request = |key: &String| {
            let value = value_of(key, version);
            format!("set {key} 0 0 {}\r\n{value}\r\n", value.len())
        };
        asks(
            &mut client,
            &some.iter().map(request).collect::<String>(),
            &"STORED\r\n".repeat(some.len()),
        );
    }
}

/// Each of these keys has this version.
fn check_all(serving: &Serving, keys: &[String], version: u32) {
    let mut client = serving.connect("memcached");
    for key in keys {
        let value = value_of(key, version);
        let answer = format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\n", value.len());
        asks(&mut client, &format!("get {key}\r\n"), &answer);
    }
}

fn report(serving: &Serving) -> Value {
    let answer = admin(serving, "GET /api/array", "");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

/// Waits until a look at the drives fulfils the condition.
#[track_caller]
fn wait(serving: &Serving, is_met: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let report = report(serving);
        if is_met(&report) {
            return report;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{report:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Lets seconds pass, and waits for the look at the drives that follows.
fn pass(serving: &Serving, seconds: u64) -> Value {
    let looked_at = |report: &Value| report["levelling"]["looked_at_s"].as_u64();
    let before = looked_at(&wait(serving, |report| looked_at(report).is_some())).unwrap();
    let mut client = serving.connect("memcached");
    asks(&mut client, &format!("debugtime {seconds}\r\n"), "OK\r\n");
    wait(serving, |report| looked_at(report) >= Some(before + seconds))
}

#[test]
fn keys_move_from_the_drive_that_wears_fastest() {
    let place = Place::new();
    let toml = format!("{DRIVES}drive_levelling = true\n");
    let serving = Serving::run(serve(place.path(), &toml, &["--debug-time"]));
    let keys = keys_by_shard(80_000);
    let begun = wait(&serving, |report| report["levelling"]["looked_at_s"].is_u64());
    assert!(begun["levelling"]["pause"].as_str().unwrap().contains("fewer than two"), "{begun:#}");
    set_all(&serving, &keys[0], 1);
    for others in &keys[1..] {
        set_all(&serving, &others[..others.len() / 3], 1);
    }
    let stepped = pass(&serving, DAY_S + 60);
    let forecast = |shard: usize| stepped["shards"][shard]["wear"]["forecast"].as_f64().unwrap();
    assert!((1..4).all(|other| forecast(0) > 1.3 * forecast(other)), "{stepped:#}");
    let moved = &stepped["moved"][0];
    assert_eq!((moved["from"].as_u64(), moved["parts"].as_u64()), (Some(0), Some(28)));
    assert!(stepped["levelling"]["last_step"]["ratio"].as_f64() >= Some(1.3));
    let to = moved["to"].as_u64().unwrap();
    assert!(metric(&serving, "larder_server_shard_keys_moved_ratio") > 0.002);
    assert!((metric(&serving, "larder_server_set_moved_parts_total") - 28.0).abs() < 0.1);
    let text = admin(&serving, "GET /metrics", "");
    for family in [
        "larder_server_shard_used_ratio{shard=\"0\"}",
        "larder_server_shard_used_per_day_ratio{shard=\"0\"}",
        "larder_server_shard_forecast_ratio{shard=\"0\"}",
        "larder_server_shard_dlwa_ratio{shard=\"0\"}",
        "larder_server_set_levelling_info{pause=\"\"}",
        "larder_server_set_levelling_step_timestamp_seconds",
    ] {
        assert!(text.contains(family), "{family}");
    }

    // New keys of the first drive, before the second step, after it, and changed.
    let some = &keys[0][..2_000];
    set_all(&serving, some, 2);
    let waiting = pass(&serving, 3_600);
    let why = waiting["levelling"]["pause"].as_str().unwrap();
    assert!(why.contains("the next step is due in"), "{why}");
    let again = pass(&serving, DAY_S);
    assert_eq!(again["moved"][0]["parts"].as_u64(), Some(56), "{again:#}");
    check_all(&serving, some, 2);
    assert!(metric(&serving, "larder_server_set_old_home_gets_total") > 0.0, "some have not moved");
    set_all(&serving, some, 3);
    let before = metric(&serving, "larder_server_set_old_home_gets_total");
    check_all(&serving, some, 3);
    let after = metric(&serving, "larder_server_set_old_home_gets_total");
    assert!((before - after).abs() < 0.1, "they have moved");

    let at = format!("--server {}", serving.place("admin"));
    let shown = place.succeed(&format!("array status {at}")).stdout;
    for says in
        [&*format!("keys of shard 0 at shard {to}: 0.56 %"), "wear of shard 3:", "levelling: moved"]
    {
        assert!(shown.contains(says), "{says}: {shown}");
    }

    // SIGHUP switches it off; what has moved stays where it is.
    let file = place.path().join("larder.toml");
    std::fs::write(file, format!("{DRIVES}drive_levelling = false\n")).unwrap();
    serving.signal("HUP");
    std::thread::sleep(Duration::from_millis(300));
    let off = pass(&serving, DAY_S + 60);
    assert_eq!(off["levelling"]["pause"].as_str(), Some("off"), "{off:#}");
    assert_eq!(off["moved"][0]["parts"].as_u64(), Some(56));
    check_all(&serving, some, 3);
}

#[test]
fn the_settings_are_checked_and_explained() {
    let place = Place::new();
    place.write("larder.toml", format!("{DRIVES}drive_levelling = true\n"));
    let explained = place.succeed("check larder.toml").stdout;
    let line = |name: &str| {
        let line = explained.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("drive_levelling"), "drive_levelling true file");
    assert_eq!(line("planned_service"), "planned_service 1 years file");
    let alone = "memory = \"48M\"\nfile = \"model:64M\"\ndrive_levelling = true\n";
    let said = refused(place.path(), alone, &[]);
    assert!(said.contains("drive_levelling") && said.contains("at least two files"), "{said}");
    let never = format!("{DRIVES}drive_levelling = true\n").replace("service = 1", "service = 0");
    let said = refused(place.path(), &never, &[]);
    assert!(said.contains("planned_service = 0: must be 0.01 to 100 years"), "{said}");
    let said = refused(place.path(), DRIVES, &["--planned-service", "200"]);
    assert!(said.contains("--planned-service") && said.contains("must be 0.01 to 100"), "{said}");
}
