//! House rules and long checks of Larder: `cargo xtask help`.
//!
//! This crate has the rules (`tidy`, `mutants`), and the wrappers of cargo and of programs that cargo builds. The test
//! rigs are in `larder-harness`. Neither links another crate of the workspace, so that they can check a tree that does
//! not build.

mod all;
mod args;
mod bench_gate;
mod block_soak;
mod c_library;
mod dist;
mod files;
mod fuzz;
mod interleave;
mod judges;
mod kills;
mod mutants;
mod packages;
mod peers;
mod sanitize;
mod served_kills;
mod site;
mod soak;
mod spelling;
mod tidy;
mod toolchain;

use std::process::ExitCode;

use clap::Parser;
use larder_harness::{
    chart, conformance, frameworks, fs, guest, hits, monitoring, nbd, page, python, servers, ycsb,
};

use self::args::{Cli, Command};

fn main() -> ExitCode {
    let (name, verdict) = match Cli::parse().command {
        Command::Tidy(options) => return tidy::command(options),
        Command::All => return all::command(),
        Command::Msrv => ("msrv", toolchain::msrv()),
        Command::Targets => ("targets", toolchain::targets()),
        Command::Package => ("package", packages::package()),
        Command::Semver(options) => ("semver", packages::semver(&options)),
        Command::Deny => ("deny", packages::deny()),
        Command::Site => ("site", site::run()),
        Command::C(options) => ("c", c_library::run(&options)),
        Command::Dist(options) => ("dist", dist::run(&options)),
        Command::Spelling => ("spelling", spelling::check()),
        Command::Fuzz(options) => ("fuzz", fuzz::run(&options)),
        Command::Interleave => ("interleave", interleave::run()),
        Command::Sanitize => ("sanitize", sanitize::run()),
        Command::Soak(options) => ("soak", soak::run(&options)),
        Command::Kills(words) => ("kills", kills::run(&words.words)),
        Command::BlockSoak(words) => ("block-soak", block_soak::run(&words.words)),
        Command::ServedKills(words) => ("served-kills", served_kills::run(&words.words)),
        Command::Atomicity(words) => ("atomicity", served_kills::atomicity(&words.words)),
        Command::Judges => ("judges", judges::run()),
        Command::Mutants(options) => ("mutants", mutants::run(&options)),
        Command::Conformance(options) => ("conformance", conformance::run(&options)),
        Command::Frameworks(options) => ("frameworks", frameworks::run(&options)),
        Command::Python(options) => ("python", python::run(&options)),
        Command::Page => ("page", page::run()),
        Command::Chart => ("chart", chart::run()),
        Command::Monitoring(options) => ("monitoring", monitoring::run(&options)),
        Command::BenchGate(options) => ("bench-gate", bench_gate::run(&options)),
        Command::Hits => ("hits", hits::run()),
        Command::Fs(options) => ("fs", fs::run(&options)),
        Command::Nbd(options) => ("nbd", nbd::run(&options)),
        Command::Guest(options) => ("guest", guest::run(&options)),
        Command::Servers(options) => ("servers", servers::run(&options)),
        Command::Ycsb(options) => ("ycsb", ycsb::run(&options)),
        Command::Peers(words) => ("peers", peers::run(&words.words)),
    };
    all::report(&[(name, verdict)])
}
