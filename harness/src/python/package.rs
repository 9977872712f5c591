//! The package: as a folder with the library of the dev profile, or as a wheel.

use std::fs;
use std::path::{Path, PathBuf};

use super::environment::Environment;
use crate::step::{self, Verdict};
use crate::workspace;

/// Builds with the tests of the workspace, which have built all of it, and puts the package into a folder. Returns the
/// folder.
pub(super) fn of_dev_profile(features: &str, dir: &Path) -> Result<PathBuf, Verdict> {
    let mut words =
        vec!["build", "--quiet", "--locked", "--workspace", "--lib", "--bins", "--tests"];
    words.extend(["--features", features]);
    built(step::run(&mut step::cargo(&words)))?;
    let library = workspace::target().join("debug/lib_larder.so");
    put(dir, &library).map_err(|cause| Verdict::Failed(format!("{}: {cause}", dir.display())))?;
    Ok(dir.to_owned())
}

fn put(dir: &Path, library: &Path) -> std::io::Result<()> {
    let package = dir.join("larder");
    if package.exists() {
        fs::remove_dir_all(&package)?;
    }
    fs::create_dir_all(&package)?;
    for entry in fs::read_dir(workspace::root().join("python/lib/larder"))? {
        let path = entry?.path();
        if let (true, Some(name)) = (path.is_file(), path.file_name()) {
            fs::copy(&path, package.join(name))?;
        }
    }
    fs::copy(library, package.join("_larder.abi3.so")).map(drop)
}

/// Builds the wheel with maturin. Returns its file.
pub(super) fn wheel(environment: &Path, dir: &Path) -> Result<PathBuf, Verdict> {
    let build = Environment::make(environment, &["maturin"]).map_err(Verdict::Skipped)?;
    if dir.exists() {
        fs::remove_dir_all(dir)
            .map_err(|cause| Verdict::Failed(format!("{}: {cause}", dir.display())))?;
    }
    let mut command = build.run(&["-m", "maturin", "build", "--release", "--locked"]);
    command.arg("--manifest-path").arg(workspace::root().join("python/Cargo.toml"));
    command.arg("--out").arg(dir).env("CARGO_TARGET_DIR", workspace::target());
    built(step::run(&mut command))?;
    let mut files = fs::read_dir(dir).into_iter().flatten().filter_map(|it| Some(it.ok()?.path()));
    let wheel = files.find(|path| path.extension().is_some_and(|it| it == "whl"));
    wheel.ok_or_else(|| Verdict::Failed(format!("maturin left no wheel in {}", dir.display())))
}

fn built(verdict: Verdict) -> Result<(), Verdict> {
    match verdict {
        Verdict::Passed(_) => Ok(()),
        other => Err(other),
    }
}
