//! What TLS costs: the same hits in DRAM with it and without.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::contestant::{Contestant, Start};
use super::dram::{MEMORY, SHAPES};
use super::rounds::{Answered, ratios, spread};
use super::settings::Bench;
use crate::step;

/// Measures, and prints. Returns what could not be had.
pub(super) fn run(bench: &Bench) -> Result<Vec<String>, String> {
    let Some((certificate, key)) = certificate(&bench.dir) else {
        return Ok(vec!["TLS (openssl makes its certificate)".to_owned()]);
    };
    let start = |name| Start { name, memory_bytes: MEMORY, flash: None, limit_bytes: None };
    let files = (certificate.as_path(), key.as_path());
    let ring = Contestant::larder_with_tls(bench, &start("io_uring"), "io_uring", files)?;
    let epoll = Contestant::larder_with_tls(bench, &start("epoll"), "epoll", files)?;
    let of = |server: &Contestant| [server.targets[0].clone(), server.targets[1].clone()];
    let targets = [of(&ring), of(&epoll)].concat();
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    for (at, (shape, words)) in SHAPES.iter().enumerate() {
        let answered = Answered::measure(bench, &targets, words)?;
        if at == 0 {
            println!(
                "\nTLS 1.3 beside none, {} threads\n{}",
                bench.settings.threads,
                answered.about()
            );
        }
        print(shape, &answered, &targets);
    }
    Ok(Vec::new())
}

fn print(shape: &str, answered: &Answered, targets: &[&str]) {
    println!("\n{shape}");
    println!("{:42} {:>26} {:>26} {:>22}", "", "CPU us a request", "requests/s", "p99 us");
    for (at, target) in targets.iter().enumerate() {
        let number = |name, digits| spread(&answered.series(at, name), digits);
        println!(
            "{target:42} {:>26} {:>26} {:>22}",
            number("server_cpu_us", 2),
            number("requests_per_second", 0),
            number("p99_us", 0)
        );
    }
    for (name, with, without) in [("io_uring, TLS / plain", 1, 0), ("epoll, TLS / plain", 3, 2)] {
        let of = |number| {
            spread(&ratios(&answered.series(with, number), &answered.series(without, number)), 2)
        };
        println!(
            "{name:42} {:>26} {:>26} {:>22}",
            of("server_cpu_us"),
            of("requests_per_second"),
            of("p99_us")
        );
    }
}

/// A certificate that nobody else trusts, and its key.
fn certificate(dir: &Path) -> Option<(PathBuf, PathBuf)> {
    let (certificate, key) = (dir.join("certificate.pem"), dir.join("key.pem"));
    let mut make = Command::new(step::find_program(&["openssl"])?);
    make.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
    make.args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]);
    make.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
    step::succeeds(&mut make).then_some((certificate, key))
}
