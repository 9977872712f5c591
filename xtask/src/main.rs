//! House rules and long checks of Larder: `cargo xtask help`.
//!
//! No dependencies, so that it builds in a moment and can judge a tree that does not build.

mod all;
mod browser;
mod files;
mod fuzz;
mod guest;
mod interleave;
mod kills;
mod mutants;
mod packages;
mod peers;
mod png;
mod report_check;
mod sanitize;
mod soak;
mod step;
mod tidy;
mod toolchain;
mod tools;
mod workspace;

use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask COMMAND

  tidy                 the house rules (also a test of this crate)
  all                  formatting, clippy, tests, documentation, tidy, msrv, targets, package, deny,
                       interleave, sanitize, fuzzing, soak, kills, mutants, guest, peers, the report in a browser
  msrv                 everything builds with the oldest Rust that Cargo.toml promises
  targets              the libraries build without a warning for other processors and systems
  package              every crate is packed, and built from what was packed
  deny                 licences, known faults and origins of dependencies (cargo-deny, deny.toml)
  fuzz [--seconds N]   every fuzz target for N seconds (default 30); needs nightly Rust and cargo-fuzz
  interleave           what threads share, in thousands of orders of its steps (shuttle)
  sanitize             the DRAM tier under AddressSanitizer, which knows its segments; needs nightly Rust
  soak --seeds N [--first-seed S] [--json FILE]
                       N seeds of the simulation of the cache; a failure says how to replay it
  soak --threads-ops N the cache on real threads, judged by its history
  kills --times N [OPTIONS]
                       N processes killed with the cache at full load on one file, every answer judged
                       afterwards; --help says more
  mutants [--sample N] [--seed S] [--skip K] | --only TEXT...
                       N small changes to the cache (default 100), but for the first K, and whether a
                       test notices each; or all with TEXT in their names; needs cargo-mutants
  guest [--only NAME]... [--list] [--keep] [--json FILE]
                       Linux under an emulator with an NVMe FDP drive; our programs and nvme-cli in it
  peers [OPTIONS]      speed and hit ratio beside foyer, quick_cache and moka; --help says more
  help                 this text
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["tidy"] => tidy::command(),
        ["all"] => all::command(),
        ["fuzz", rest @ ..] => match fuzz::seconds(rest) {
            Ok(seconds) => all::report(&[("fuzz", fuzz::run(seconds))]),
            Err(message) => refuse(&message),
        },
        ["msrv"] => all::report(&[("msrv", toolchain::msrv())]),
        ["targets"] => all::report(&[("targets", toolchain::targets())]),
        ["package"] => all::report(&[("package", packages::package())]),
        ["deny"] => all::report(&[("deny", packages::deny())]),
        ["interleave"] => all::report(&[("interleave", interleave::run())]),
        ["sanitize"] => all::report(&[("sanitize", sanitize::run())]),
        ["soak", rest @ ..] => match soak::Soak::read(rest) {
            Ok(soak) => all::report(&[("soak", soak::run(&soak))]),
            Err(message) => refuse(&message),
        },
        ["guest", rest @ ..] => match guest::Options::read(rest) {
            Ok(options) => all::report(&[("guest", guest::run(&options))]),
            Err(message) => refuse(&message),
        },
        ["mutants", rest @ ..] => match mutants::Options::read(rest) {
            Ok(options) => all::report(&[("mutants", mutants::run(&options))]),
            Err(message) => refuse(&message),
        },
        ["kills", rest @ ..] => all::report(&[("kills", kills::run(rest))]),
        ["peers", rest @ ..] => all::report(&[("peers", peers::run(rest))]),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        [] => refuse("a command is missing"),
        [other, ..] => refuse(&format!("cannot understand: {other}")),
    }
}

fn refuse(message: &str) -> ExitCode {
    eprintln!("xtask: {message}\n\n{HELP}");
    ExitCode::from(2)
}
