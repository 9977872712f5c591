//! The cost of TLS: the same hits in DRAM with it and without.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::contestant::{Contestant, Start};
use super::dram::{MEMORY, SHAPES};
use super::rounds::{LoadResults, Pair};
use super::settings::Bench;
use crate::step;

const PAIRS: [Pair; 2] = [("io_uring, TLS / plain", 1, 0), ("epoll, TLS / plain", 3, 2)];

/// Measures, and prints. Returns what was not available.
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
        let answered = LoadResults::measure(bench, &targets, words)?;
        if at == 0 {
            println!(
                "\nTLS 1.3 beside none, {} threads\n{}",
                bench.settings.threads,
                answered.about()
            );
        }
        answered.print(shape, &targets, &PAIRS);
    }
    Ok(Vec::new())
}

/// A self-signed certificate and its key.
fn certificate(dir: &Path) -> Option<(PathBuf, PathBuf)> {
    let (certificate, key) = (dir.join("certificate.pem"), dir.join("key.pem"));
    let mut make = Command::new(step::find_program(&["openssl"])?);
    make.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
    make.args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]);
    make.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
    step::succeeds(&mut make).then_some((certificate, key))
}
