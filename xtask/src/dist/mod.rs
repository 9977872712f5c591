//! `cargo xtask dist`: what users install. Static binaries in archives, a package for Debian, an image for containers,
//! a list of what is in them, and checksums.
//!
//! Two runs of one commit give the same bytes: times are that of the commit, names of directories of this machine are
//! replaced, and archives are sorted. Nothing is fetched if `cargo fetch` has run before.

mod binary;
mod deb;
mod image;
mod making;
mod sbom;
mod stage;
mod trial;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use larder_harness::step::Verdict;
use larder_harness::workspace;

use self::binary::Binary;
use self::making::{Dist, ran, told};
use self::stage::Stage;

#[derive(Debug, Args)]
pub(crate) struct DistOptions {
    /// Directory for the files [default: dist in the build directory].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Build with the profile of tests, in a fraction of the time: to try packages, not to ship them.
    #[arg(long)]
    dev: bool,
    /// Build only what the server's package and image need.
    #[arg(long)]
    server_only: bool,
    /// Try what was built: lintian, an installation in a fresh Debian, the image under runc. Needs root, lintian,
    /// mmdebstrap, runc and umoci; what is missing is skipped and named.
    #[arg(long)]
    check: bool,
}

/// With the checks, as `cargo xtask all` runs it.
pub(crate) fn usual() -> Verdict {
    run(&DistOptions { dir: None, dev: true, server_only: true, check: true })
}

pub(crate) fn run(options: &DistOptions) -> Verdict {
    match made(options) {
        Ok(remark) => Verdict::Passed(remark),
        Err(why) => Verdict::Failed(why),
    }
}

fn made(options: &DistOptions) -> Result<String, String> {
    let dir = options.dir.clone().unwrap_or_else(|| workspace::target().join("dist"));
    // What an earlier run has left must not get a checksum.
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).map_err(|cause| format!("{}: {cause}", dir.display()))?;
    let dist = Dist { dir, version: version()?, epoch: epoch()? };
    let server = binary::build(&dist, &binary::SERVER, options.dev)?;
    archive(&dist, &server, "server")?;
    deb::build(&dist, &server)?;
    image::build(&dist, &server)?;
    if !options.server_only {
        let full = binary::build(&dist, &binary::EVERYTHING, options.dev)?;
        archive(&dist, &full, "full")?;
    }
    checksums(&dist)?;
    let remark = format!("{} in {}", dist.version, dist.dir.display());
    if !options.check {
        return Ok(remark);
    }
    let tried = trial::run(&dist)?;
    Ok(format!("{remark}; {tried}"))
}

/// An archive for any Linux: the binary with manual pages, completions, examples and the licence.
fn archive(dist: &Dist, binary: &Binary, which: &str) -> Result<(), String> {
    let name = format!("larder-{}-{}-linux-{which}", dist.version, std::env::consts::ARCH);
    let stage = Stage::new(dist, &name)?;
    let below = |path: &str| format!("{name}/{path}");
    stage.program(&binary.program, &below("bin/larder"))?;
    for (page, text) in &binary.pages {
        stage.text(text, &below(&format!("share/man/man1/{page}")))?;
    }
    for (path, text) in &binary.completions {
        stage.text(text, &below(&format!("share/{path}")))?;
    }
    stage.text(&binary.sbom, &below("sbom.cdx.json"))?;
    for (from, to) in [
        ("LICENSE", "LICENSE"),
        ("README.md", "README.md"),
        ("contrib/larder.toml", "examples/larder.toml"),
        ("contrib/systemd/larder.service", "examples/larder.service"),
    ] {
        stage.file(from, &below(to))?;
    }
    stage.tar(&name, &dist.dir.join(format!("{name}.tar")))?;
    ran(Command::new("gzip").args(["-9n"]).arg(dist.dir.join(format!("{name}.tar"))))
}

fn checksums(dist: &Dist) -> Result<(), String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(&dist.dir).map_err(|cause| cause.to_string())? {
        let entry = entry.map_err(|cause| cause.to_string())?;
        if entry.path().is_file() {
            names.push(entry.file_name());
        }
    }
    names.sort();
    let sums = told(Command::new("sha256sum").args(names).current_dir(&dist.dir))?;
    print!("{sums}");
    let path = dist.dir.join("SHA256SUMS");
    fs::write(&path, sums).map_err(|cause| format!("{}: {cause}", path.display()))
}

fn version() -> Result<String, String> {
    let manifest = workspace::root().join("Cargo.toml");
    let text = fs::read_to_string(&manifest).map_err(|cause| cause.to_string())?;
    let line = text.lines().find_map(|line| line.strip_prefix("version = \""));
    let version = line.and_then(|rest| rest.strip_suffix('"'));
    version.map(str::to_owned).ok_or_else(|| format!("{}: no version", manifest.display()))
}

/// `SOURCE_DATE_EPOCH`, or the time of the last commit.
fn epoch() -> Result<String, String> {
    if let Ok(epoch) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(epoch);
    }
    let mut git = Command::new("git");
    let seconds = told(git.args(["log", "-1", "--format=%ct"]).current_dir(workspace::root()))?;
    Ok(seconds.trim().to_owned())
}
