//! `cargo xtask c`: the library for C. The header is what the code says, and programs in C work with both kinds of
//! library. So does the secondary cache of RocksDB.

mod rocksdb;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use larder_harness::step::{self, Verdict};
use larder_harness::{tools, workspace};

const CBINDGEN: &str = "cbindgen@0.29.4";
const CRATE: &str = "crates/larder-c";

#[derive(Debug, Args)]
pub(crate) struct COptions {
    /// Write the header instead of comparing it.
    #[arg(long)]
    write: bool,
    /// Do not make the header again: cbindgen need not be there.
    #[arg(long)]
    without_header: bool,
}

pub(crate) fn usual() -> Verdict {
    run(&COptions { write: false, without_header: false })
}

pub(crate) fn run(options: &COptions) -> Verdict {
    let header = match options.without_header {
        true => Ok(()),
        false => header(options.write),
    };
    match header.and_then(|()| programs()) {
        Ok(remark) => Verdict::Passed(remark),
        Err(why) => Verdict::Failed(why),
    }
}

fn header(write: bool) -> Result<(), String> {
    let root = workspace::root().join(CRATE);
    let kept = root.join("include/larder.h");
    let made = workspace::target().join("xtask/larder.h");
    let mut cbindgen = Command::new(tools::find(CBINDGEN)?);
    cbindgen.arg("--config").arg(root.join("cbindgen.toml"));
    passed(cbindgen.arg("--output").arg(if write { &kept } else { &made }).arg(&root))?;
    if write || fs::read(&kept).ok() == fs::read(&made).ok() {
        return Ok(());
    }
    Err(format!("{} is not what the code says: cargo xtask c --write", kept.display()))
}

/// Builds and runs the tests and the example. Returns what was left out.
fn programs() -> Result<String, String> {
    passed(&mut step::cargo(&["build", "--locked", "--package", "larder-c"]))?;
    let libraries = workspace::target().join("debug");
    let dir = workspace::target().join("xtask/c");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).map_err(|cause| format!("{}: {cause}", dir.display()))?;
    let shared = [format!("-L{}", libraries.display()), "-llarder_c".to_owned()];
    let fixed = [libraries.join("liblarder_c.a").display().to_string()];
    let system = ["-lpthread", "-ldl", "-lm"].map(str::to_owned);
    let of_static = [&fixed[..], &system].concat();
    let test = compiled("tests/calls.c", &dir.join("calls"), &shared)?;
    let static_test = compiled("tests/calls.c", &dir.join("calls-static"), &of_static)?;
    let example = compiled("examples/cache.c", &dir.join("cache"), &shared)?;
    // C++ accepts the header too.
    let mut cpp = Command::new("c++");
    cpp.args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-x", "c++"]);
    passed(cpp.arg(workspace::root().join(CRATE).join("include/larder.h")))?;
    let without_io_uring =
        compiled("tests/without_io_uring.c", &dir.join("without_io_uring"), &[])?;
    let valgrind = step::find_program(&["valgrind"]);
    for (number, program) in [test, static_test, example].iter().enumerate() {
        let flash = dir.join(format!("flash-{number}"));
        passed(Command::new(program).arg(flash).env("LD_LIBRARY_PATH", &libraries))?;
        let Some(valgrind) = &valgrind else { continue };
        let mut command = Command::new(&without_io_uring);
        command.arg(valgrind).args(["--error-exitcode=9", "--leak-check=full", "--quiet"]);
        // Threads that wait for requests may end after the program.
        command.args(["--errors-for-leak-kinds=definite", "--show-leak-kinds=definite"]);
        command.arg(program).arg(dir.join(format!("flash-{number}-valgrind")));
        passed(command.env("LD_LIBRARY_PATH", &libraries))?;
    }
    let below_rocksdb = rocksdb::check(&libraries, &dir)?;
    Ok(format!("{}; {below_rocksdb}", valgrind.map_or("without valgrind", |_| "under valgrind")))
}

fn compiled(source: &str, to: &Path, libraries: &[String]) -> Result<PathBuf, String> {
    let root = workspace::root().join(CRATE);
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]);
    cc.arg("-I").arg(root.join("include")).arg(root.join(source)).arg("-o").arg(to);
    passed(cc.args(libraries).arg("-lpthread"))?;
    Ok(to.to_owned())
}

fn passed(command: &mut Command) -> Result<(), String> {
    match step::run(command) {
        Verdict::Failed(why) => Err(why),
        _ => Ok(()),
    }
}
