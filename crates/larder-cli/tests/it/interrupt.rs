//! Ctrl-C: the run ends with the results so far.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::place::{Place, Ran};

/// Nothing here takes longer than this.
const PATIENCE: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(5);

/// A process that ends with the test in any case.
struct Running(Option<Child>);

impl Running {
    fn start(mut command: Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(Some(command.spawn().unwrap()))
    }

    fn id(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    /// Waits until the process handles SIGINT. Before that, SIGINT would kill it.
    fn await_handler(&self) {
        let status = format!("/proc/{}/status", self.id());
        wait_until(|| {
            let text = fs::read_to_string(&status).unwrap();
            let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
            u64::from_str_radix(caught.trim(), 16).unwrap() & (1 << 1) != 0
        });
    }

    fn interrupt(&self) {
        let kill = format!("kill -INT {}", self.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    fn wait(mut self) -> Ran {
        let child = self.0.as_mut().unwrap();
        wait_until(|| child.try_wait().unwrap().is_some());
        Ran::from(self.0.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[track_caller]
fn wait_until(mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited for too long");
        std::thread::sleep(STEP);
    }
}

fn interrupted(place: &Place, arguments: &str, ready: impl FnMut() -> bool) -> Ran {
    let running = Running::start(place.command(arguments));
    running.await_handler();
    wait_until(ready);
    running.interrupt();
    running.wait()
}

fn check_json(path: &Path, runs: usize) {
    let outcome: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let found = outcome["runs"].as_array().unwrap();
    assert_eq!(found.len(), runs);
    for run in found {
        assert_eq!(run["interrupted"], true);
        let requests = run["requests"].as_u64().unwrap();
        assert!((1..1_000_000_000).contains(&requests), "{requests}");
        let intervals = run["intervals"].as_array().unwrap();
        assert_eq!(intervals.last().unwrap()["requests"], requests);
    }
}

/// A run that would take an hour.
const LONG_RUN: &str = "replay --workload uniform --requests 1000000 --repeat 1000 --flash 8M";

#[test]
fn the_table_the_json_and_the_page_are_there() {
    let place = Place::new();
    let arguments = format!("{LONG_RUN} --json result.json --report page");
    let ran = interrupted(&place, &arguments, || true);
    assert_eq!(ran.status, Some(130), "{ran:?}");
    let row = ran.stdout.lines().find(|line| line.starts_with("complete")).unwrap();
    assert_eq!(row.matches("interrupted").count(), 2, "{row}");
    check_json(&place.path().join("result.json"), 2);
    assert!(place.path().join("page/index.html").is_file());
    assert_eq!(place.files().len(), 2, "{:?}", place.files().keys());
}

#[test]
fn the_file_of_a_device_goes() {
    let place = Place::new();
    let drive = place.path().join("drive");
    let arguments = format!("{LONG_RUN} --device file:drive --json result.json");
    let ran = interrupted(&place, &arguments, || drive.exists());
    assert_eq!(ran.status, Some(130), "{ran:?}");
    check_json(&place.path().join("result.json"), 1);
    assert_eq!(place.files().len(), 1, "{:?}", place.files().keys());
}
