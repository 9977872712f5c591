//! Programs that cargo can install if they are missing.

use std::path::PathBuf;

use crate::step::{self, Verdict};
use crate::workspace;

/// The program of a crate `NAME` or `NAME@VERSION`: the one on the path, whatever its version, or one that is installed
/// into the build directory. The error says what is not available.
pub fn find(wanted: &str) -> Result<PathBuf, String> {
    let name = wanted.split_once('@').map_or(wanted, |(name, _)| name);
    let dir = workspace::target().join("xtask");
    let program = step::find_program(&[name]).unwrap_or_else(|| dir.join("bin").join(name));
    if !program.is_file() {
        let mut install = step::cargo(&["install", wanted, "--locked", "--root"]);
        if !matches!(step::run(install.arg(&dir)), Verdict::Passed(_)) {
            return Err(format!("{name} is not there and cannot be installed"));
        }
    }
    Ok(program)
}
