//! The secondary cache of RocksDB: its test under AddressSanitizer, and a program of RocksDB's that is given it when it
//! starts.

use std::path::Path;
use std::process::{Command, Stdio};

use larder_harness::{step, workspace};

use super::{CRATE, passed};

/// What db_bench calls the hits of a secondary cache.
const HITS: &str = "rocksdb.secondary.cache.hits COUNT :";
const SYSTEM: [&str; 3] = ["-lpthread", "-ldl", "-lm"];

/// Builds and runs all of it, with the static library of `libraries`. Returns what was left out.
pub(super) fn check(libraries: &Path, dir: &Path) -> Result<String, String> {
    let mut version = Command::new("c++");
    if !step::succeeds(version.args([
        "-fsyntax-only",
        "-x",
        "c++",
        "-include",
        "rocksdb/version.h",
        "/dev/null",
    ])) {
        return Ok("without RocksDB (librocksdb-dev)".to_owned());
    }
    let fixed = libraries.join("liblarder_c.a");
    let test = dir.join("rocksdb-test");
    let mut build = compiler(&["test.cc", "secondary_cache.cc"], &test);
    passed(build.args(["-fsanitize=address,undefined"]).arg(&fixed).arg("-lrocksdb").args(SYSTEM))?;
    passed(Command::new(&test).arg(dir.join("rocksdb")))?;

    let shared = dir.join("liblarder_rocksdb.so");
    let mut build = compiler(&["secondary_cache.cc"], &shared);
    build.args(["-shared", "-fPIC", "-Wl,--exclude-libs,ALL"]).arg(&fixed);
    passed(build.arg("-lrocksdb").args(SYSTEM))?;
    let Some(db_bench) = step::find_program(&["db_bench"]) else {
        return Ok("RocksDB without db_bench (rocksdb-tools)".to_owned());
    };
    let hits = preloaded(&db_bench, &shared, dir)?;
    Ok(format!("db_bench had {hits} hits"))
}

fn compiler(sources: &[&str], to: &Path) -> Command {
    let root = workspace::root().join(CRATE);
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]);
    compiler.arg("-I").arg(root.join("include"));
    compiler.args(sources.iter().map(|source| root.join("rocksdb").join(source)));
    compiler.arg("-o").arg(to);
    compiler
}

/// Runs a program of RocksDB's that knows nothing of Larder. Returns the hits, of which there must be some.
fn preloaded(db_bench: &Path, shared: &Path, dir: &Path) -> Result<u64, String> {
    let flash = dir.join("db-bench-flash");
    let mut command = Command::new(db_bench);
    command.args(["--benchmarks=fillrandom,compact,readrandom", "--num=100000", "--reads=20000"]);
    command.args(["--cache_size=1048576", "--statistics"]);
    command.arg(format!("--db={}", dir.join("db-bench").display()));
    command.arg(format!(
        "--secondary_cache_uri=larder://path={};flash=64M;memory=2M",
        flash.display()
    ));
    command.env("LD_PRELOAD", shared).stderr(Stdio::inherit());
    eprintln!("\n$ {command:?}");
    let output = command.output().map_err(|cause| format!("db_bench: {cause}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let count = text.lines().find_map(|line| line.strip_prefix(HITS)?.trim().parse().ok());
    match count {
        Some(hits) if hits > 0 && output.status.success() => Ok(hits),
        _ => Err(format!("db_bench had no hits in Larder: {}\n{text}", output.status)),
    }
}
