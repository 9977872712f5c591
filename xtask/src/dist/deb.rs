//! The package for Debian: the server with its unit, configuration, manual pages and completions.

use std::fs;
use std::process::Command;

use larder_harness::workspace;

use super::binary::Binary;
use super::making::{Dist, kib, ran, told};
use super::stage::Stage;

const DOC: &str = "usr/share/doc/larder";

/// Debian's name of this machine's processor.
pub(super) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The name of the package's file.
pub(super) fn name(dist: &Dist) -> String {
    format!("larder_{}_{}.deb", dist.version, architecture())
}

pub(super) fn build(dist: &Dist, binary: &Binary) -> Result<(), String> {
    let stage = Stage::new(dist, "deb")?;
    stage.program(&binary.program, "usr/bin/larder")?;
    let unit = ours("contrib/systemd/larder.service")?.replace("/usr/local/bin/", "/usr/bin/");
    stage.text(unit, "lib/systemd/system/larder.service")?;
    stage.file("contrib/debian/larder.toml", "etc/larder/larder.toml")?;
    for (page, text) in &binary.pages {
        stage.gzip(text, &format!("usr/share/man/man1/{page}"))?;
    }
    for (path, text) in &binary.completions {
        stage.text(text, &format!("usr/share/{path}"))?;
    }
    stage.file("contrib/debian/copyright", &format!("{DOC}/copyright"))?;
    stage.gzip(changelog(dist)?, &format!("{DOC}/changelog"))?;
    stage.gzip(&binary.sbom, &format!("{DOC}/sbom.cdx.json"))?;
    stage.file("contrib/larder.toml", &format!("{DOC}/examples/larder.toml"))?;
    let overrides = "usr/share/lintian/overrides/larder";
    stage.file("contrib/debian/lintian-overrides", overrides)?;
    let size = kib(stage.root())?;
    let control = ours("contrib/debian/control")?;
    let control = control.replace("@VERSION@", &dist.version).replace("@SIZE@", &size);
    let control = control.replace("@ARCHITECTURE@", architecture());
    stage.text(sums(&stage)?, "DEBIAN/md5sums")?;
    stage.text(control, "DEBIAN/control")?;
    stage.text("/etc/larder/larder.toml\n", "DEBIAN/conffiles")?;
    for script in ["postinst", "prerm", "postrm"] {
        let from = workspace::root().join("contrib/debian").join(script);
        stage.program(&from, &format!("DEBIAN/{script}"))?;
    }
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--root-owner-group", "-Zxz", "--build"]).env("SOURCE_DATE_EPOCH", &dist.epoch);
    ran(pack.arg(stage.root()).arg(dist.dir.join(name(dist))))
}

/// Checksums by which `dpkg --verify` finds files that were changed.
fn sums(stage: &Stage) -> Result<String, String> {
    let all = "find usr lib -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum";
    told(Command::new("sh").args(["-c", all]).current_dir(stage.root()))
}

fn changelog(dist: &Dist) -> Result<String, String> {
    let mut date = Command::new("date");
    date.args(["--utc", "--rfc-email", "--date"]).arg(format!("@{}", dist.epoch));
    let date = told(date.env("LC_ALL", "C"))?;
    let author = "The Larder authors <larder-cache@users.noreply.github.com>";
    let news = "What is new: https://github.com/larder-cache/larder/blob/main/CHANGELOG.md";
    let version = &dist.version;
    Ok(format!("larder ({version}) stable; urgency=medium\n\n  * {news}\n\n -- {author}  {date}"))
}

fn ours(path: &str) -> Result<String, String> {
    let path = workspace::root().join(path);
    fs::read_to_string(&path).map_err(|cause| format!("{}: {cause}", path.display()))
}
