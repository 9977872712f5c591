//! The place where mutants are listed and built: a copy of the workspace, with its own build directory.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::Mutant;

/// `cargo-mutants`, which lists the possible changes, and the directories where they are tested.
pub(super) struct Workshop {
    program: PathBuf,
    dir: PathBuf,
    tree: PathBuf,
}

impl Workshop {
    pub(super) fn new(program: PathBuf, dir: &Path) -> Self {
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        Self { program, tree: dir.join("tree"), dir }
    }

    /// The directory of everything.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The copy of the workspace.
    pub(super) fn tree(&self) -> &Path {
        &self.tree
    }

    /// Lists all mutants of these folders.
    pub(super) fn list(&self, folders: &[&str]) -> Result<Vec<Mutant>, String> {
        let mut command = Command::new(&self.program);
        command.args(["mutants", "--list", "--json", "--package", "larder"]);
        for folder in folders {
            command.arg("--file").arg(format!("crates/larder/src/{folder}/**"));
        }
        let output = command.current_dir(&self.tree).output();
        let output = output.map_err(|cause| format!("{}: {cause}", self.program.display()))?;
        let entries: Vec<Value> = serde_json::from_slice(&output.stdout).map_err(|cause| {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!("the list of cargo-mutants: {cause}; {}", errors.trim())
        })?;
        entries.iter().map(|entry| Mutant::read(entry, &self.tree)).collect()
    }

    /// A program that runs in the copy, with cargo's environment.
    pub(super) fn command(&self, program: &OsStr) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.tree).env("CARGO_TARGET_DIR", self.dir.join("build"));
        // No debugger is used, and the code is compiled once for each mutant, so debug information would only cost
        // time.
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "1");
        command
    }
}
