//! RocksDB's own tools: a log-structured store is filled, overwritten, read, and checked.

use std::process::Command;

use super::rig::Rig;
use crate::log::program;
use crate::problem::Problem;

const PACKAGE: &str = "rocksdb-tools";
const KEYS: u64 = 150_000;

pub(super) fn run(rig: &mut Rig) -> Result<String, Problem> {
    for benchmark in ["fillseq", "fillrandom", "overwrite", "readrandom"] {
        bench(rig, benchmark)?;
        check(rig)?;
    }
    rig.remount()?;
    check(rig)?;
    bench(rig, "readrandom")?;
    bench(rig, "overwrite")?;
    rig.remount()?;
    check(rig)?;
    Ok(format!("{KEYS} keys filled, overwritten and read; consistent after two mounts"))
}

fn bench(rig: &Rig, benchmark: &str) -> Result<(), Problem> {
    let mut command: Command = program("db_bench", PACKAGE)?;
    command.args(["--db=db", "--value_size=400", "--compression_type=none", "--sync=0"]);
    command.arg(format!("--num={KEYS}")).arg(format!("--benchmarks={benchmark}"));
    // A small write buffer, so that memtable flushes occur and are tested.
    command.args(["--write_buffer_size=8388608", "--verify_checksum=1", "--threads=2"]);
    if matches!(benchmark, "overwrite" | "readrandom") {
        command.arg("--use_existing_db=1");
    }
    let said = rig.run_there(&mut command)?;
    let result = said.lines().find(|line| line.starts_with(benchmark));
    let result = result.ok_or_else(|| format!("db_bench says nothing of {benchmark}"))?;
    eprintln!("    {result}");
    // The tool reports how many of the requested keys it found.
    if benchmark == "readrandom" && result.contains("(0 of") {
        return Err(Problem::Failed(format!("no key was found: {result}")));
    }
    Ok(())
}

fn check(rig: &Rig) -> Result<(), Problem> {
    let mut command = program("ldb", PACKAGE)?;
    let said = rig.run_there(command.args(["--db=db", "checkconsistency"]))?;
    match said.contains("OK") {
        true => Ok(()),
        false => Err(Problem::Failed(format!("ldb checkconsistency: {}", said.trim()))),
    }
}
