//! The log of `larder serve`: lines on standard error, of the requested level.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::serve_command::{ANYWHERE, Serving, asks};

/// A server in `directory` with two shards, whose standard error goes to the file `told` there.
fn start(directory: &Path, words: &[&str]) -> Serving {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(["serve", "--memory", "64M", "--flash", "128M", "--workers", "2"]);
    for name in ["a", "b"] {
        command.arg("--file").arg(directory.join(name));
    }
    command.args(ANYWHERE).args(words);
    command.stdout(std::process::Stdio::piped());
    command.stderr(File::create(directory.join("told")).unwrap());
    Serving::run(command)
}

/// Waits until `told` has a line with all of `words`.
fn hears(directory: &Path, words: &[&str]) {
    let begun = Instant::now();
    loop {
        let told = fs::read_to_string(directory.join("told")).unwrap();
        if told.lines().any(|line| words.iter().all(|word| line.contains(word))) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{words:?} is not in {told}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_start_and_a_pause_of_the_process_are_told_and_no_shard_leaves() {
    let directory = tempfile::tempdir().unwrap();
    let serving = start(directory.path(), &[]);
    hears(directory.path(), &["INFO", "larder", "opened"]);
    let mut client = serving.connect("memcached");
    for key in 0..100 {
        asks(&mut client, &format!("set key{key} 0 0 5\r\nbread\r\n"), "STORED\r\n");
    }
    serving.signal("STOP");
    std::thread::sleep(Duration::from_secs(4));
    serving.signal("CONT");
    hears(directory.path(), &["WARN", "host paused", "time="]);
    asks(&mut client, "get key1\r\n", "VALUE key1 0 5\r\nbread\r\nEND\r\n");
    let told = fs::read_to_string(directory.path().join("told")).unwrap();
    assert!(!told.contains("shard down") && !told.contains("shard suspected"), "{told}");
}

#[test]
fn a_level_leaves_out_those_behind_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut serving = start(directory.path(), &["--log", "warn"]);
    serving.signal("TERM");
    assert!(serving.child.wait().unwrap().success());
    let told = fs::read_to_string(directory.path().join("told")).unwrap();
    assert!(!told.contains("INFO"), "{told}");
    // The reason for a failed start is printed once, with the names of the command's options.
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(["serve", "--memory", "64M", "--flash", "128M", "--array", "96"]);
    for name in ["a", "b"] {
        command.arg("--file").arg(directory.path().join(name));
    }
    let refused = command.args(ANYWHERE).output().unwrap();
    let told = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.contains("set on_change = \"discard\" to begin with an empty one"), "{told}");
}
