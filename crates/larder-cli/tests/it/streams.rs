//! Results go to standard output, everything else to standard error.

use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Stdio};

use crate::place::{Place, Ran};

const RUN: &str = "replay --requests 50000 --flash 8M --dram 256K";

#[test]
fn the_table_goes_to_standard_output() {
    let ran = Place::new().succeed(RUN);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let columns: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(columns, ["placement", "on", "off"]);
    for row in ["requests", "hit ratio", "DLWA", "ALWA", "complete"] {
        assert!(lines.iter().any(|line| line.starts_with(row)), "no {row} in:\n{}", ran.stdout);
    }
    assert_eq!(ran.stderr, "");
}

#[test]
fn show_handles_prints_the_handle_of_each_stream() {
    let place = Place::new();
    let ran = place.succeed(&format!("{RUN} --show-handles"));
    let (_, on) = ran.stdout.split_once("\nplacement on\n").unwrap();
    let (on, off) = on.split_once("\nplacement off\n").unwrap();
    assert_eq!(on.matches("a handle of its own").count(), 2, "{on}");
    assert_eq!(off.matches("placement is off").count(), 2, "{off}");
    let outcome = place.json(RUN);
    let handles = |run: usize| -> Vec<u64> {
        let streams = outcome["runs"][run]["streams"].as_array().unwrap();
        streams.iter().map(|stream| stream["handle"].as_u64().unwrap()).collect()
    };
    assert_eq!((handles(0), handles(1)), (vec![1, 2, 0], vec![0, 0, 0]));
}

#[test]
fn json_on_standard_output_is_alone_there() {
    let place = Place::new();
    let ran = place.succeed(&format!("{RUN} --json -"));
    let outcome: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(outcome["command"], "replay");
    assert!(ran.stderr.starts_with("placement") && ran.stderr.contains("DLWA"), "{}", ran.stderr);
    let ran = place.succeed("workload stats uniform --requests 1000 --json -");
    let stats: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&stats["requests"], ran.stderr.as_str()), (&1000.into(), ""));
    assert!(place.files().is_empty());
}

/// A file gets the same as standard output, and replaces an older file.
#[test]
fn json_in_a_file() {
    let place = Place::new();
    place.write("result.json", "old");
    let command = "workload stats uniform --requests 1000";
    place.succeed(&format!("{command} --json result.json"));
    let printed = place.succeed(&format!("{command} --json -")).stdout;
    let files = place.files();
    assert_eq!(files.len(), 1, "{:?}", files.keys());
    assert!(files.values().all(|content| content == printed.as_bytes()));
}

/// `read` reads some of standard output and closes it while the command still writes.
#[track_caller]
fn with_reader(arguments: &str, read: impl FnOnce(ChildStdout)) {
    let place = Place::new();
    let mut command = place.command(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    read(child.stdout.take().unwrap());
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.status, Some(0), "larder {arguments}: {ran:?}");
    assert!(!ran.stderr.contains("panicked") && !ran.stderr.contains("error"), "{ran:?}");
}

#[test]
fn a_reader_that_closes_the_pipe_early_is_no_failure() {
    let commands = [
        "--help",
        "workload list",
        "workload stats uniform --requests 1000",
        "workload stats uniform --requests 1000 --json -",
        RUN,
    ];
    for command in commands {
        with_reader(command, drop);
    }
    // As `head -1`. 256 intervals of two runs are more than a pipe holds.
    with_reader("replay --requests 600000 --flash 8M --dram 256K --json -", |stdout| {
        let mut first = String::new();
        BufReader::new(stdout).read_line(&mut first).unwrap();
        assert_eq!(first, "{\n");
    });
}

#[test]
fn help_of_each_command() {
    let place = Place::new();
    for command in ["", "replay ", "workload ", "workload list ", "workload stats "] {
        for option in ["--help", "-h"] {
            let ran = place.succeed(&format!("{command}{option}"));
            assert!(ran.stdout.contains("Usage: larder"), "{ran:?}");
            assert_eq!(ran.stderr, "");
        }
    }
    let help = place.succeed("replay --help").stdout;
    let (_, examples) = help.split_once("EXAMPLES:").unwrap();
    assert!(examples.lines().filter(|line| line.starts_with("  larder replay")).count() > 1);
}

/// The examples in the help are valid command lines: each is parsed (with `--repeat 0`, which is then refused).
#[test]
fn examples_in_the_help_are_command_lines() {
    let place = Place::new();
    place.write("trace.csv.zst", "0,1,100\n");
    let help = place.succeed("replay --help").stdout;
    let (_, examples) = help.split_once("EXAMPLES:").unwrap();
    for line in examples.lines().filter_map(|line| line.strip_prefix("  larder ")) {
        let command = line.split("  ").next().unwrap();
        let ran = place.run(&format!("{command} --repeat 0"));
        ran.check_error(2, &["--repeat and --requests: must be at least 1"]);
    }
}

#[test]
fn no_command_and_unknown_commands() {
    let place = Place::new();
    for arguments in ["", "bake", "workload", "replay --bake"] {
        let ran = place.run(arguments);
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(2), ""), "larder {arguments}");
        assert!(ran.stderr.contains("--help") || ran.stderr.contains("Usage"), "{ran:?}");
    }
    let ran = place.succeed("--version");
    assert_eq!(ran.stdout, format!("larder {}\n", env!("CARGO_PKG_VERSION")));
}
