//! A virtual environment of an interpreter that is new enough.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step;

/// Interpreters by name, the usual one first.
const INTERPRETERS: [&str; 5] = ["python3", "python3.14", "python3.13", "python3.12", "python3.11"];
const IS_NEW_ENOUGH: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))";

/// A virtual environment.
pub(super) struct Environment {
    python: PathBuf,
}

impl Environment {
    /// The environment in a directory, with these packages. The error says what cannot be had.
    pub(super) fn make(dir: &Path, packages: &[&str]) -> Result<Self, String> {
        let python = dir.join("bin/python");
        if !step::succeeds(Command::new(&python).args(["-c", IS_NEW_ENOUGH])) {
            let mut make = Command::new(interpreter()?);
            if !step::succeeds(make.args(["-m", "venv", "--clear"]).arg(dir)) {
                return Err(format!("no virtual environment can be made in {}", dir.display()));
            }
        }
        let environment = Self { python };
        environment.install(packages)?;
        Ok(environment)
    }

    /// A command of its interpreter.
    pub(super) fn run(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.python);
        command.args(words);
        command
    }

    fn install(&self, packages: &[&str]) -> Result<(), String> {
        // What is there is not looked for elsewhere.
        let mut install = self.run(&["-m", "pip", "install", "--quiet"]);
        match step::succeeds(install.args(packages)) {
            true => Ok(()),
            false => Err(format!("pip cannot install {}", packages.join(", "))),
        }
    }

    /// Installs a file, whatever version was there.
    pub(super) fn install_file(&self, file: &Path) -> Result<(), String> {
        let mut install = self.run(&["-m", "pip", "install", "--quiet", "--no-deps"]);
        match step::succeeds(install.arg("--force-reinstall").arg(file)) {
            true => Ok(()),
            false => Err(format!("pip cannot install {}", file.display())),
        }
    }

    /// The source of a package, unpacked below a directory: pip fetches it.
    pub(super) fn source(&self, package: &str, dir: &Path) -> Result<PathBuf, String> {
        if let Some(there) = unpacked(package, dir) {
            return Ok(there);
        }
        let mut fetch = self.run(&["-m", "pip", "download", "--quiet", "--no-deps"]);
        fetch.args(["--no-binary", ":all:", "--dest"]).arg(dir);
        if !step::succeeds(fetch.arg(package)) {
            return Err(format!("pip cannot fetch the source of {package}"));
        }
        let archive = entries(dir).find(|path| {
            let name = path.file_name().map(|name| name.to_string_lossy().replace('-', "_"));
            let is_it = |name: String| name.to_lowercase().starts_with(&package.replace('-', "_"));
            path.extension().is_some_and(|it| it == "gz") && name.is_some_and(is_it)
        });
        let archive = archive.ok_or_else(|| format!("the source of {package} cannot be had"))?;
        if !step::succeeds(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(dir)) {
            return Err(format!("{} cannot be unpacked", archive.display()));
        }
        unpacked(package, dir).ok_or_else(|| format!("{} has no folder", archive.display()))
    }
}

/// The folder of a package's source.
fn unpacked(package: &str, dir: &Path) -> Option<PathBuf> {
    let wanted = package.replace('-', "_");
    entries(dir).filter(|path| path.is_dir()).find(|path| {
        let name = path.file_name().map(|name| name.to_string_lossy().replace('-', "_"));
        name.is_some_and(|name| name.to_lowercase().starts_with(&wanted))
    })
}

fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(dir).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
}

fn interpreter() -> Result<PathBuf, String> {
    let is_new_enough =
        |path: &PathBuf| step::succeeds(Command::new(path).args(["-c", IS_NEW_ENOUGH]));
    let found = INTERPRETERS.iter().filter_map(|name| step::find_program(&[name]));
    found.into_iter().find(is_new_enough).ok_or_else(|| {
        "no Python of 3.11 or newer with venv is there: it needs `apt-get install python3-venv`"
            .to_owned()
    })
}
