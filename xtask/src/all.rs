//! `cargo xtask all`: runs every check in order, and prints a table of the results.

use std::process::ExitCode;

use larder_harness::step::{self, Verdict};
use larder_harness::{chart, frameworks, fs, guest, monitoring, nbd, page, python, report, ycsb};

use crate::{
    bench_gate, block_soak, c_library, dist, fuzz, interleave, kills, mutants, packages, peers,
    sanitize, served_kills, site, soak, spelling, tidy, toolchain,
};

/// Seconds for each fuzz target.
const FUZZ_SECONDS: u32 = 30;

/// Name of a step, and its function.
type Step = (&'static str, fn() -> Verdict);

const STEPS: [Step; 41] = [
    ("formatting", || step::run(&mut step::cargo(&["fmt", "--all", "--check"]))),
    ("clippy", || {
        let arguments =
            ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
        step::run(&mut step::cargo(&arguments))
    }),
    ("tests", || step::run(&mut step::cargo(&["test", "--workspace", "--locked"]))),
    // Features that are off by default have tests too.
    ("features", || {
        let wanted =
            ["--features", "serde,tracing", "--test", "it", "--locked", "--", "events", "typed"];
        let arguments: Vec<_> = ["test", "-p", "larder"].into_iter().chain(wanted).collect();
        step::run(&mut step::cargo(&arguments))
    }),
    // As users have it who take no feature.
    ("plain", || step::run(&mut step::cargo(&["check", "--package", "larder", "--locked"]))),
    // Each group of commands builds by itself, as packages and containers build some of them.
    ("commands", || {
        for group in ["bench", "block", "lab", "serve", "vssd"] {
            let only = ["check", "-p", "larder-cli", "--no-default-features", "--features", group];
            let verdict = step::run(step::cargo(&only).env("RUSTFLAGS", "-D warnings"));
            if verdict != Verdict::passed() {
                return verdict;
            }
        }
        Verdict::passed()
    }),
    // Servers use io_uring for sockets where they can; epoll must pass as well.
    ("epoll", || {
        let mut tests = step::cargo(&["test", "-p", "larder-server", "--locked", "--test", "it"]);
        step::run(tests.env("LARDER_TEST_SOCKETS", "epoll"))
    }),
    // The slow tests of figures in the documentation, and the long runs of the lab.
    ("figures", || {
        let packages = ["larder-cli", "larder-lab", "larder-ssd"].map(|package| ["-p", package]);
        let arguments: Vec<_> = ["test", "--release", "--locked"]
            .into_iter()
            .chain(packages.into_iter().flatten())
            .chain(["--lib", "--bins", "--tests", "--", "--ignored"])
            .collect();
        step::run(&mut step::cargo(&arguments))
    }),
    ("many-small", || {
        let words = "test --release --locked -p larder --test it -- fifty_million --ignored";
        step::run(&mut step::cargo(&words.split(' ').collect::<Vec<_>>()))
    }),
    ("documentation", || {
        let arguments = ["doc", "--workspace", "--no-deps", "--locked"];
        step::run(step::cargo(&arguments).env("RUSTDOCFLAGS", "-D warnings"))
    }),
    ("tidy", tidy::verdict),
    ("spelling", spelling::check),
    ("msrv", toolchain::msrv),
    ("targets", toolchain::targets),
    ("package", packages::package),
    ("semver", || packages::semver(&packages::SemverOptions::default())),
    ("deny", packages::deny),
    ("site", site::run),
    ("c", c_library::usual),
    ("dist", dist::usual),
    ("interleave", interleave::run),
    ("sanitize", sanitize::run),
    ("fuzz", || fuzz::run(&fuzz::FuzzOptions { seconds: FUZZ_SECONDS })),
    ("soak", || soak::run(&soak::SoakOptions::USUAL)),
    ("kills", kills::usual),
    ("served-kills", served_kills::usual),
    ("atomicity", served_kills::usual_atomicity),
    ("block-soak", block_soak::usual),
    ("ycsb", ycsb::usual),
    ("mutants", || mutants::run(&mutants::MutantsOptions::usual())),
    ("frameworks", frameworks::usual),
    ("python", python::usual),
    ("fs", fs::usual),
    ("nbd", nbd::usual),
    ("guest", guest::usual),
    ("bench-gate", bench_gate::usual),
    ("peers", peers::check),
    ("report", report::run),
    ("page", page::run),
    ("monitoring", monitoring::usual),
    ("chart", chart::run),
];

/// Runs every step, even if an earlier one failed.
pub(crate) fn command() -> ExitCode {
    let verdicts: Vec<(&str, Verdict)> =
        STEPS.iter().map(|(name, step)| (*name, announced(name, *step))).collect();
    report(&verdicts)
}

fn announced(name: &str, step: fn() -> Verdict) -> Verdict {
    eprintln!("\n── {name}");
    step()
}

/// Prints the results of the steps. The exit code says whether everything that could run passed.
pub(crate) fn report(verdicts: &[(&str, Verdict)]) -> ExitCode {
    print!("\n{}", table(verdicts));
    let failed = verdicts.iter().any(|(_, verdict)| matches!(verdict, Verdict::Failed(_)));
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn table(verdicts: &[(&str, Verdict)]) -> String {
    let width = verdicts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines = verdicts.iter().map(|(name, verdict)| {
        let (word, joint, text) = match verdict {
            Verdict::Passed(text) if text.is_empty() => ("passed", "", text),
            Verdict::Passed(text) => ("passed", ": ", text),
            Verdict::Failed(text) => ("FAILED", ": ", text),
            Verdict::Skipped(text) => ("skipped", ": because ", text),
        };
        format!("{name:width$}  {word}{joint}{text}\n")
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_gives_reasons() {
        let verdicts = [
            ("a", Verdict::passed()),
            ("tidy", Verdict::Passed("12 files".to_owned())),
            ("fuzz", Verdict::Skipped("nightly Rust is not installed".to_owned())),
            ("doc", Verdict::Failed("exit 1".to_owned())),
        ];
        assert_eq!(
            table(&verdicts),
            "a     passed\n\
             tidy  passed: 12 files\n\
             fuzz  skipped: because nightly Rust is not installed\n\
             doc   FAILED: exit 1\n"
        );
    }
}
