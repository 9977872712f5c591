//! Tools of libnbd: export information, copies, and a script for requests that no tool makes.

use std::fs;

use super::rig::{BYTES, Rig};
use crate::log::program;
use crate::problem::Problem;

/// A script with checks. libnbd itself closes a connection if replies violate the protocol.
const SCRIPT: &str = include_str!("nbdsh.py");

/// `nbdinfo`: it understands everything that is offered, and the map covers the export.
pub(super) fn info(rig: &mut Rig) -> Result<String, Problem> {
    let mut info = program("nbdinfo", "libnbd-bin")?;
    let said = rig.run(info.arg(rig.uri()))?;
    for line in [
        "protocol: newstyle-fixed without TLS, using structured packets",
        "export-size: 67108864 (64M)",
        "base:allocation",
        "can_df: true",
        "can_fast_zero: true",
        "can_flush: true",
        "can_fua: true",
        "can_multi_conn: true",
        "can_trim: true",
        "can_zero: true",
        "is_read_only: false",
        "block_size_preferred: 4096",
    ] {
        if !said.contains(line) {
            return Err(format!("nbdinfo does not say {line:?}").into());
        }
    }
    let mut list = program("nbdinfo", "libnbd-bin")?;
    rig.run(list.args(["--list"]).arg(rig.uri()))?;
    let mut map = program("nbdinfo", "libnbd-bin")?;
    let map = rig.run(map.args(["--map", "--totals"]).arg(rig.uri()))?;
    if !map.contains(&BYTES.to_string()) {
        return Err(format!("nbdinfo --map does not cover the export: {map}").into());
    }
    if rig.is_cached() {
        return cached(rig);
    }
    rig.end(false)?;
    rig.serve(&["--read-only"])?;
    let mut info = program("nbdinfo", "libnbd-bin")?;
    let said = rig.run(info.args(["--is", "read-only"]).arg(rig.uri()))?;
    Ok(format!("what is offered, its list, its map; read-only{said}"))
}

/// Block status contexts of an export.
fn contexts(rig: &Rig) -> &'static [&'static str] {
    const ALL: [&str; 3] = ["base:allocation", "x-larder:cached", "x-larder:dirty"];
    if rig.is_cached() { &ALL } else { &ALL[..1] }
}

/// Checks a cache's block status: which blocks are cached, and which of these are dirty.
fn cached(rig: &Rig) -> Result<String, Problem> {
    let written = rig.file("written");
    fs::write(&written, vec![1; 1 << 20]).map_err(|cause| cause.to_string())?;
    let mut copy = program("nbdcopy", "libnbd-bin")?;
    rig.run(copy.arg("--flush").arg(&written).arg(rig.uri()))?;
    for context in &contexts(rig)[1..] {
        let mut map = program("nbdinfo", "libnbd-bin")?;
        let map = rig.run(map.arg(format!("--map={context}")).arg("--totals").arg(rig.uri()))?;
        // One of 64 MiB is cached.
        if !map.lines().any(|line| line.trim_start().starts_with("1048576 ")) {
            return Err(format!("{context}: of 1048576 bytes nbdinfo says {map}").into());
        }
    }
    Ok("what is offered, its list, its maps".to_owned())
}

/// `nbdcopy`: copies in over several connections and out again, and compares.
pub(super) fn copy(rig: &mut Rig) -> Result<String, Problem> {
    let (source, back) = (rig.file("source"), rig.file("back"));
    let content = noise();
    fs::write(&source, &content).map_err(|cause| cause.to_string())?;
    let mut fill = program("nbdcopy", "libnbd-bin")?;
    rig.run(
        fill.args(["--connections=4", "--requests=64", "--flush"]).arg(&source).arg(rig.uri()),
    )?;
    let mut take = program("nbdcopy", "libnbd-bin")?;
    rig.run(take.arg(rig.uri()).arg(&back))?;
    rig.end(false)?;
    let read = |path| fs::read(path).map_err(|cause: std::io::Error| cause.to_string());
    if read(back)? != content || read(rig.disk())? != content {
        return Err("what was copied differs".to_owned().into());
    }
    Ok("64 MiB in by four connections and out again".to_owned())
}

/// Bytes with runs of zeros. nbdcopy zeroes these runs instead of sending them.
fn noise() -> Vec<u8> {
    let mut state = 1_u64;
    let words = (0..BYTES / 8).map(|word| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if word / 8192 % 3 == 0 { 0 } else { state }
    });
    words.flat_map(u64::to_le_bytes).collect()
}

/// `nbdsh`: edge cases that the tools do not reach.
pub(super) fn script(rig: &mut Rig) -> Result<String, Problem> {
    let script = rig.file("script.py");
    fs::write(&script, SCRIPT).map_err(|cause| cause.to_string())?;
    // libnbd's module belongs to the system's interpreter.
    let mut python = program("python3", "python3-libnbd")?;
    let python_of_the_system = std::path::Path::new("/usr/bin/python3");
    if python_of_the_system.is_file() {
        python = std::process::Command::new(python_of_the_system);
    }
    let missing = "libnbd for Python is not installed (apt-get install python3-libnbd)";
    if rig.run(std::process::Command::new(python.get_program()).args(["-c", "import nbd"])).is_err()
    {
        return Err(Problem::Missing(missing.to_owned()));
    }
    let said = rig.run(python.arg(script).args([&*rig.uri(), rig.export()]).args(contexts(rig)))?;
    Ok(said.trim().to_owned())
}
