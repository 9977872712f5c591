//! `nbd-tester-client`, the test program of the reference server (NetworkBlockDevice/nbd, `tests/run`; no package
//! contains it). It tests the oldest negotiation, throughput of reads and writes of 1 KiB, requests that are too long,
//! and a trace in which every read is compared. Its longer trace is not used: it has writes of 50 MB, which an export
//! refuses, because clients may only assume 32 MiB.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::rig::Rig;
use crate::problem::Problem;
use crate::step;

const PROGRAM: &str = "nbd-tester-client";
/// Modes that expect zeros. Each changes what the next ones read.
const MODES: [&[&str]; 7] = [&["-h"], &["-l"], &[], &["-f"], &["-o"], &["-w"], &["-w", "-f"]];

pub(super) fn run(rig: &mut Rig) -> Result<String, Problem> {
    let Some(program) = step::find_program(&[PROGRAM]) else {
        return Err(Problem::Missing(format!(
            "{PROGRAM} is not on the path (CONTRIBUTING.md says how to build it)"
        )));
    };
    // Run the trace first: the modes do not leave zeros behind.
    let trace = trace_beside(&program)?;
    test(rig, &program, &[&["-i", "-t"][..], &[&*trace.to_string_lossy()]].concat())?;
    for words in MODES {
        test(rig, &program, words)?;
    }
    Ok(format!("a trace of reads and writes, and {} tests", MODES.len()))
}

fn trace_beside(program: &Path) -> Result<PathBuf, Problem> {
    let trace = program.with_file_name("integrity-test.tr");
    if trace.is_file() {
        return Ok(trace);
    }
    Err(Problem::Missing(format!("{} is not there", trace.display())))
}

fn test(rig: &Rig, program: &Path, words: &[&str]) -> Result<(), Problem> {
    let mut command = Command::new(program);
    command.args(["-N", rig.export(), "-u"]).arg(rig.socket()).args(words);
    rig.run(&command).map(|_| ())
}
