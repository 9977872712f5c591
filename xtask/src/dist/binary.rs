//! A static binary, and what it says of itself: manual pages and completions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use larder_harness::step::{self, Verdict};
use larder_harness::workspace;

use super::making::{Dist, told};
use super::sbom;

/// A binary with certain features.
pub(super) struct Features {
    name: &'static str,
    words: &'static [&'static str],
}

/// What operators run.
pub(super) const SERVER: Features =
    Features { name: "server", words: &["--no-default-features", "--features", "serve,block"] };

/// All commands.
pub(super) const EVERYTHING: Features = Features { name: "full", words: &["--features", "otlp"] };

/// A binary and its papers.
pub(super) struct Binary {
    pub(super) program: PathBuf,
    /// Names and texts, in order.
    pub(super) pages: Vec<(String, Vec<u8>)>,
    /// Paths below `share`, and texts.
    pub(super) completions: Vec<(&'static str, String)>,
    pub(super) sbom: String,
}

const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/larder"),
    ("fish", "fish/vendor_completions.d/larder.fish"),
    ("zsh", "zsh/vendor-completions/_larder"),
];

pub(super) fn build(dist: &Dist, features: &Features, dev: bool) -> Result<Binary, String> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let (profile, place) = if dev { ("dev", "debug") } else { ("dist", "dist") };
    let dir = workspace::target().join("xtask/dist/target");
    let mut cargo = step::cargo(&["build", "--locked", "--package", "larder-cli"]);
    cargo.args(["--profile", profile, "--target", &target]).args(features.words);
    let paths = replaced_paths();
    // The linker takes the static libraries of the C library only if a target is named.
    let flags = ["-Ctarget-feature=+crt-static".to_owned()].into_iter();
    let rust = paths.iter().map(|(path, shown)| format!("--remap-path-prefix={path}={shown}"));
    let c = paths.iter().map(|(path, shown)| format!("-ffile-prefix-map={path}={shown}"));
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.chain(rust).collect::<Vec<_>>().join("\u{1f}"));
    cargo.env("CFLAGS", c.collect::<Vec<_>>().join(" "));
    cargo.env("SOURCE_DATE_EPOCH", &dist.epoch).env("CARGO_TARGET_DIR", &dir);
    cargo.env_remove("RUSTC_WORKSPACE_WRAPPER");
    if let Verdict::Failed(why) = step::run(&mut cargo) {
        return Err(why);
    }
    let program = dir.join(&target).join(place).join("larder");
    is_static(&program)?;
    let pages = pages(&program, &dir.join(features.name))?;
    let mut completions = Vec::new();
    for (shell, path) in COMPLETIONS {
        completions.push((path, told(Command::new(&program).args(["completions", shell]))?));
    }
    // The next build overwrites the program.
    let kept = dir.join(features.name).join("larder");
    fs::copy(&program, &kept).map_err(|cause| format!("{}: {cause}", kept.display()))?;
    // The other profile strips by itself.
    told(Command::new("strip").arg(&kept))?;
    let sbom = sbom::of(dist, features.words)?;
    Ok(Binary { program: kept, pages, completions, sbom })
}

/// Directories of this machine, and what a binary says instead.
fn replaced_paths() -> Vec<(String, &'static str)> {
    let home = std::env::var("HOME").unwrap_or_default();
    let cargo = std::env::var("CARGO_HOME").unwrap_or_else(|_| format!("{home}/.cargo"));
    vec![(workspace::root().display().to_string(), "/larder"), (cargo, "/cargo")]
}

fn is_static(program: &Path) -> Result<(), String> {
    let headers = told(Command::new("readelf").args(["--program-headers", "--wide"]).arg(program))?;
    match headers.contains("INTERP") {
        true => Err(format!("{} needs a loader: it is not static", program.display())),
        false => Ok(()),
    }
}

fn pages(program: &Path, dir: &Path) -> Result<Vec<(String, Vec<u8>)>, String> {
    let dir = dir.join("man");
    let _ = fs::remove_dir_all(&dir);
    told(Command::new(program).args(["man", "--to"]).arg(&dir))?;
    let mut pages = Vec::new();
    for entry in fs::read_dir(&dir).map_err(|cause| cause.to_string())? {
        let entry = entry.map_err(|cause| cause.to_string())?;
        let text = fs::read(entry.path()).map_err(|cause| cause.to_string())?;
        pages.push((entry.file_name().to_string_lossy().into_owned(), text));
    }
    pages.sort();
    if pages.is_empty() { Err("larder man has written no page".to_owned()) } else { Ok(pages) }
}
