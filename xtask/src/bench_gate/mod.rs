//! `cargo xtask bench-gate`: what a request costs, in counts that are the same on every run: instructions, system
//! calls, allocations and their bytes.
//!
//! The numbers stand in docs/bench-gate.md. A count that differs from its number by more than [`TOLERANCE_PERCENT`], in
//! either direction, fails, until the new number is written down with its reason. Times stay in benches.
//!
//! | module | content |
//! |---|---|
//! | `program` | the example `counts` under valgrind, under strace and alone: the counts of one kind of request |
//! | `numbers` | the page, and what differs from it |

mod numbers;
mod program;

use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::Args;
use larder_harness::step::{self, Verdict};
use larder_harness::workspace;

use self::numbers::{Measured, Page, TOLERANCE_PERCENT};
use self::program::{KINDS, Program};

/// Where the numbers stand, below the root of the workspace.
const PAGE: &str = "docs/bench-gate.md";

/// Options of `cargo xtask bench-gate`.
#[derive(Debug, Default, Args)]
pub(crate) struct BenchGateOptions {
    /// Write the numbers that differ into docs/bench-gate.md, with this reason
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,
    /// Count with the program of the dev profile: allocations alone, which no optimisation changes
    #[arg(long)]
    dev: bool,
    /// Features that the tests of the dev profile were built with, in cargo's format: then nothing is built again
    #[arg(long, value_name = "LIST", requires = "dev", default_value = "")]
    features: String,
    /// Count with this program instead of one that is built now
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Kinds of requests to count, such as dram-hit [default: all]
    #[arg(long, value_name = "KIND", value_parser = KINDS.map(|kind| kind.name))]
    only: Vec<String>,
}

/// Counts everything.
pub(crate) fn usual() -> Verdict {
    run(&BenchGateOptions::default())
}

/// Counts, and compares with the page, or changes the page.
pub(crate) fn run(options: &BenchGateOptions) -> Verdict {
    if !cfg!(target_os = "linux") {
        return Verdict::Skipped("valgrind and strace are asked on Linux alone".to_owned());
    }
    match counted(options) {
        Ok(Counted { measured, skipped }) => judged(options, &measured, &skipped)
            .unwrap_or_else(|cause| Verdict::Failed(format!("{PAGE}: {cause}"))),
        Err(verdict) => verdict,
    }
}

/// What could be counted, and what could not, with the reason.
struct Counted {
    measured: Vec<Measured>,
    skipped: Vec<String>,
}

fn counted(options: &BenchGateOptions) -> Result<Counted, Verdict> {
    let dir = workspace::target().join("xtask/bench-gate");
    fs::create_dir_all(&dir)
        .map_err(|cause| Verdict::Failed(format!("cannot make {}: {cause}", dir.display())))?;
    let file = options.program.clone().map_or_else(|| built(options), Ok)?;
    let program = Program { file, dir, is_release: !options.dev };
    let mut skipped = program.not_counted();
    let mut measured = Vec::new();
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|o| o == name);
    for kind in KINDS.iter().filter(|kind| wanted(kind.name)) {
        match program.count(kind) {
            Ok(Some(counts)) => measured.extend(counts),
            Ok(None) => skipped.push(format!("{}: the kernel refuses io_uring", kind.name)),
            Err(why) => return Err(Verdict::Failed(format!("{}: {why}", kind.name))),
        }
    }
    Ok(Counted { measured, skipped })
}

/// Builds the example: as users build the libraries, or with the tests of the workspace, which have built all of it.
fn built(options: &BenchGateOptions) -> Result<PathBuf, Verdict> {
    let profile = if options.dev { "debug" } else { "release" };
    let mut words = vec!["build", "--quiet", "--locked"];
    match options.dev {
        true => words.extend(["--workspace", "--features", &options.features]),
        false => words.extend(["--release", "--package", "larder-harness"]),
    }
    words.extend(["--example", "counts"]);
    match step::run(&mut step::cargo(&words)) {
        Verdict::Passed(_) => Ok(workspace::target().join(profile).join("examples/counts")),
        other => Err(other),
    }
}

fn judged(
    options: &BenchGateOptions,
    measured: &[Measured],
    skipped: &[String],
) -> io::Result<Verdict> {
    let path: &Path = &workspace::root().join(PAGE);
    let compiler = compiler()?;
    let mut page = Page::read(&fs::read_to_string(path)?).map_err(io::Error::other)?;
    let differing = page.differing(measured);
    for line in measured.iter().map(|one| page.line(one)) {
        println!("{line}");
    }
    let without = match skipped {
        [] => String::new(),
        some => format!("; not counted: {}", some.join("; ")),
    };
    if differing.is_empty() {
        return Ok(Verdict::Passed(format!(
            "{} numbers within {TOLERANCE_PERCENT} %{without}",
            measured.len()
        )));
    }
    if let Some(reason) = &options.reason {
        differing.iter().for_each(|one| page.write_down(one, &compiler, reason));
        fs::write(path, page.text())?;
        return Ok(Verdict::Passed(format!("{} numbers written down{without}", differing.len())));
    }
    Ok(Verdict::Failed(format!(
        "{} of {} numbers differ from {PAGE} by more than {TOLERANCE_PERCENT} %: {}. This is {compiler}. If the change \
         is wanted, write it down: cargo xtask bench-gate{} --reason \"WHY\"{without}",
        differing.len(),
        measured.len(),
        differing.iter().map(|one| page.difference(one)).collect::<Vec<_>>().join(", "),
        if options.dev { " --dev" } else { "" },
    )))
}

/// The compiler that builds the program, such as `rustc 1.95.0`.
fn compiler() -> io::Result<String> {
    let mut rustc = std::process::Command::new("rustc");
    let said = rustc.arg("--version").current_dir(workspace::root()).output()?.stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    Ok(said.split(" (").next().unwrap_or_default().trim().to_owned())
}

/// A reason is one cell of a table.
fn reason(text: &str) -> Result<String, String> {
    if text.trim().is_empty() || text.contains(['|', '\n']) {
        return Err("must be one line of text without |".to_owned());
    }
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_number_for_each_count_of_each_kind() {
        let text = fs::read_to_string(workspace::root().join(PAGE)).unwrap();
        let page = Page::read(&text).unwrap();
        assert_eq!(page.text(), text, "reading and writing changes nothing");
        let wanted: Vec<(&str, &str)> = KINDS
            .iter()
            .flat_map(|kind| kind.counts.iter().map(|count| (kind.name, count.name())))
            .collect();
        assert_eq!(page.names(), wanted);
    }

    #[test]
    fn options_are_read() {
        let options = |line: &str| match crate::args::read(line) {
            Ok(crate::args::Command::BenchGate(options)) => Ok(options),
            other => Err(format!("{other:?}")),
        };
        let given =
            options("bench-gate --dev --features a/b --only dram-hit --reason why").unwrap();
        assert_eq!((given.reason.as_deref(), &given.features[..]), (Some("why"), "a/b"));
        assert!(given.dev && given.only == ["dram-hit"]);
        assert!(options("bench-gate --features a/b").unwrap_err().contains("--dev"));
        assert!(options("bench-gate --only wish").unwrap_err().contains("dram-hit"));
    }

    #[test]
    fn a_reason_is_a_cell() {
        assert_eq!(reason(" one copy less ").unwrap(), "one copy less");
        for refused in ["", "  ", "a|b", "a\nb"] {
            assert!(reason(refused).is_err(), "{refused:?}");
        }
    }
}
