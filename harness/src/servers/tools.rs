//! Compares `larder bench` with independent load generators: the same servers, the same load, in turn.

use std::process::{Command, Stdio};

use super::contestant::{Contestant, Start};
use super::dram::MEMORY;
use super::rounds::{LoadResults, Series, ratios, spread};
use super::settings::Bench;
use crate::step;

/// Measures, and prints. Returns what was not available.
pub(super) fn run(bench: &Bench) -> Result<Vec<String>, String> {
    let start = |name| Start { name, memory_bytes: MEMORY, flash: None, limit_bytes: None };
    let larder = Contestant::larder(bench, &start("larder"), "io_uring")?;
    println!(
        "\nrequests/s as others count them, and as larder bench does; 50 connections, values of 100 B"
    );
    println!("{:58} {:>26} {:>26} {:>20}", "", "theirs", "larder bench", "ours / theirs");
    let mut missing = Vec::new();
    match (step::find_program(&["redis-benchmark"]), Contestant::valkey(bench, &start("valkey"))) {
        (Some(_), Ok(valkey)) => {
            for pipeline in ["1", "16"] {
                for target in [&larder.targets[1], &valkey.targets[0]] {
                    redis_benchmark(bench, target, pipeline)?;
                }
            }
        }
        _ => missing.push("redis-benchmark or Valkey".to_owned()),
    }
    match (step::find_program(&["memcaslap"]), Contestant::memcached(bench, &start("memcached"))) {
        (Some(_), Ok(memcached)) => {
            for target in [&larder.targets[0], &memcached.targets[0]] {
                memcaslap(bench, target)?;
            }
        }
        _ => missing.push("memcaslap or memcached".to_owned()),
    }
    Ok(missing)
}

fn redis_benchmark(bench: &Bench, target: &str, pipeline: &str) -> Result<(), String> {
    let port = port_of(target)?;
    let requests = if pipeline == "1" { "150000" } else { "1500000" };
    let theirs = [
        "-p", port, "-c", "50", "-d", "100", "-r", "10000", "-P", pipeline, "-n", requests, "-t",
        "get", "-q",
    ];
    let ours = ["--keys", "10000", "--pipeline", pipeline];
    let name = format!("redis-benchmark, pipeline {pipeline}: {target}");
    beside(bench, &name, ("redis-benchmark", &theirs), (target, &ours), |text| {
        let said =
            text.split(['\r', '\n']).rev().find(|line| line.contains("requests per second"))?;
        number_before(said, "requests per second")
    })
}

fn memcaslap(bench: &Bench, target: &str) -> Result<(), String> {
    let server = format!("127.0.0.1:{}", port_of(target)?);
    let theirs = ["-s", &server, "-T", "1", "-c", "50", "-t", "2s", "-X", "100"];
    let ours = ["--keys", "10000", "--sets", "10"];
    beside(
        bench,
        &format!("memcaslap, 10 % sets: {target}"),
        ("memcaslap", &theirs),
        (target, &ours),
        |text| {
            let said = text.lines().rev().find(|line| line.contains("TPS:"))?;
            number_behind(said, "TPS:")
        },
    )
}

/// Runs one tool and ours in turn, against one server.
fn beside(
    bench: &Bench,
    name: &str,
    (tool, theirs): (&str, &[&str]),
    (target, ours): (&str, &[&str]),
    told: fn(&str) -> Option<f64>,
) -> Result<(), String> {
    let [mut of_theirs, mut of_ours]: [Series; 2] = [Vec::new(), Vec::new()];
    for _ in 0..bench.settings.rounds {
        let mut command = Command::new("taskset");
        command.args(["-c", &bench.settings.client_cores, tool]).args(theirs);
        let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
        let output = output.map_err(|cause| format!("{tool}: {cause}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        of_theirs
            .push(told(&text).ok_or_else(|| format!("{tool} says no requests a second: {text}"))?);
        of_ours.extend(
            LoadResults::of_one_round(bench, target, ours)?.series(0, "requests_per_second"),
        );
    }
    println!(
        "{name:58} {:>26} {:>26} {:>20}",
        spread(&of_theirs, 0),
        spread(&of_ours, 0),
        spread(&ratios(&of_ours, &of_theirs), 2)
    );
    Ok(())
}

pub(super) fn port_of(target: &str) -> Result<&str, String> {
    target.rsplit_once(':').map(|(_, port)| port).ok_or_else(|| format!("{target} has no port"))
}

pub(super) fn number_before(text: &str, words: &str) -> Option<f64> {
    text.split(words).next()?.split_whitespace().last()?.parse().ok()
}

fn number_behind(text: &str, word: &str) -> Option<f64> {
    text.split(word).nth(1)?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_what_tools_say() {
        let said = "GET: 93457.94 requests per second, p50=0.271 msec";
        assert_eq!(number_before(said, "requests per second"), Some(93457.94));
        let said = "Run time: 2.0s Ops: 293382 TPS: 146615 Net_rate: 15.4M/s";
        assert_eq!(number_behind(said, "TPS:"), Some(146_615.0));
        assert_eq!(number_behind("nothing", "TPS:"), None);
    }
}
