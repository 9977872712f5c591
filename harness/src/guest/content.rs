//! The content of a guest: our programs, usually built statically; other programs with their libraries; and the init
//! process. The kernel unpacks it into memory.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::cpio::Archive;
use super::modules;
use super::scenario::{Binary, Scenario};
use super::tools::{self, Tools};
use crate::step::{self, Verdict};
use crate::workspace;

const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Builds in a third of the time of a release.
const PROFILE: &str = "guest";
const INIT: &str = include_str!("init.sh");
/// Shell functions that scenarios share.
const SHARED: [(&str, &str); 4] = [
    ("writers", include_str!("writers.sh")),
    ("served", include_str!("served.sh")),
    ("sick", include_str!("sick.sh")),
    ("logged", include_str!("logged.sh")),
];

/// How the programs of this workspace are built.
#[derive(Debug, Clone, Copy)]
pub(super) enum Build<'a> {
    /// Statically, in a separate build directory, and optimized, because the emulator translates every instruction.
    Guest,
    /// As for the tests of the whole workspace, with these features. After such tests nothing has to be built.
    Dev { features: &'a str },
}

impl Build<'_> {
    /// Builds the programs that the scenarios name.
    pub(super) fn run(self, scenarios: &[Scenario], dir: &Path) -> Result<(), String> {
        let binaries: BTreeSet<&Binary> = scenarios.iter().flat_map(|s| &s.binaries).collect();
        if binaries.is_empty() {
            return Ok(());
        }
        let mut words = vec!["build", "--locked"];
        match self {
            Self::Guest => {
                words.extend(["--profile", PROFILE, "--target", TARGET]);
                let packages: BTreeSet<&str> =
                    binaries.iter().map(|binary| binary.package.as_str()).collect();
                words.extend(packages.into_iter().flat_map(|package| ["--package", package]));
            }
            // With the tests, since what they depend on decides the features of much else.
            Self::Dev { features } => {
                words.extend(["--workspace", "--features", features, "--tests"]);
            }
        }
        for binary in binaries {
            words.push(if binary.example { "--example" } else { "--bin" });
            words.push(binary.name.as_str());
        }
        let mut command = step::cargo(&words);
        if matches!(self, Self::Guest) {
            command.env("CARGO_TARGET_DIR", target(dir));
            command.env("RUSTFLAGS", "-C target-feature=+crt-static");
            command.env_remove("CARGO_ENCODED_RUSTFLAGS");
        }
        match step::run(&mut command) {
            Verdict::Failed(text) | Verdict::Skipped(text) => Err(text),
            Verdict::Passed(_) => Ok(()),
        }
    }

    /// The directory of the built programs.
    pub(super) fn built(self, dir: &Path) -> PathBuf {
        match self {
            Self::Guest => target(dir).join(TARGET).join(PROFILE),
            Self::Dev { .. } => workspace::target().join("debug"),
        }
    }
}

fn target(dir: &Path) -> PathBuf {
    dir.join("build")
}

/// The archive that a scenario's guest boots from.
pub(super) fn archive(
    scenario: &Scenario,
    tools: &Tools,
    kernel: &Path,
    built: &Path,
) -> Result<Vec<u8>, String> {
    let mut content = Content::default();
    content.archive.file("init", INIT.as_bytes())?;
    for (name, text) in SHARED {
        content.archive.file(name, text.as_bytes())?;
    }
    content.archive.file("scenario", scenario.script.as_bytes())?;
    let nodes = scenario.drive.nodes().join("\n") + "\n";
    content.archive.file("expected", nodes.as_bytes())?;
    for (number, module) in modules::of(kernel, &scenario.modules)?.iter().enumerate() {
        let path = format!("modules/{number:02}-{}.ko", module.name);
        content.archive.file(&path, &module.content)?;
    }
    content.program("busybox", &tools.busybox)?;
    content.program("nvme", &tools.nvme)?;
    for name in &scenario.programs {
        let path = tools::program_path(name);
        content.program(name, &path.ok_or_else(|| format!("{name} is not installed"))?)?;
    }
    for binary in &scenario.binaries {
        let name = &binary.name;
        let path =
            if binary.example { built.join("examples").join(name) } else { built.join(name) };
        content.program(name, &path)?;
    }
    content.archive.finish()
}

#[derive(Default)]
struct Content {
    archive: Archive,
    libraries: BTreeSet<PathBuf>,
}

impl Content {
    fn program(&mut self, name: &str, path: &Path) -> Result<(), String> {
        self.archive.file(&format!("bin/{name}"), &read(path)?)?;
        for library in tools::libraries(path)? {
            if self.libraries.insert(library.clone()) {
                let content = read(&library)?;
                let inside = library.display().to_string();
                self.archive.file(inside.trim_start_matches('/'), &content)?;
            }
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|cause| format!("{}: {cause}", path.display()))
}
