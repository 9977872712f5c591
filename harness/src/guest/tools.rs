//! The programs that guests need: the emulator, and programs for the guest. Missing ones are installed where possible.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::packages::Apt;
use crate::step;

const EMULATOR: &str = "qemu-system-x86_64";
/// The first version that emulates Flexible Data Placement.
const EMULATOR_MAJOR_MIN: u32 = 8;
/// Administration programs are not on every user's path.
const MORE_PATHS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// The programs that were found.
#[derive(Debug)]
pub(super) struct Tools {
    pub(super) emulator: PathBuf,
    /// Its version string.
    pub(super) version: String,
    pub(super) busybox: PathBuf,
    pub(super) nvme: PathBuf,
}

/// Finds or installs the programs. The error says what is missing and why.
pub(super) fn find(dir: &Path) -> Result<Tools, String> {
    let mut source: Option<Source> = None;
    let emulator = emulator();
    if emulator.is_none() {
        let source = Source::prepared(&mut source, dir, EMULATOR)?;
        source.install("qemu-system-x86", true)?;
    }
    for (program, package) in [("busybox", "busybox-static"), ("nvme", "nvme-cli")] {
        if program_path(program).is_none() {
            Source::prepared(&mut source, dir, program)?.install(package, false)?;
        }
    }
    let (path, version) = emulator.or_else(self::emulator).ok_or_else(|| {
        format!(
            "{EMULATOR} {EMULATOR_MAJOR_MIN} or later is not installed, nor is it in the archive"
        )
    })?;
    let found = |name: &str| program_path(name).ok_or_else(|| format!("{name} is not installed"));
    Ok(Tools { emulator: path, version, busybox: found("busybox")?, nvme: found("nvme")? })
}

/// The path of a program.
pub(super) fn program_path(name: &str) -> Option<PathBuf> {
    let more =
        || MORE_PATHS.iter().map(|dir| Path::new(dir).join(name)).find(|path| path.is_file());
    step::find_program(&[name]).or_else(more)
}

/// The shared libraries of a program, and its loader.
pub(super) fn libraries(program: &Path) -> Result<Vec<PathBuf>, String> {
    let output = Command::new("ldd").arg(program).stderr(Stdio::null()).output();
    let output = output.map_err(|cause| format!("ldd: {cause}"))?;
    // For a static program, `ldd` says that it is not dynamic, and fails.
    read_ldd(&String::from_utf8_lossy(&output.stdout))
        .map_err(|missing| format!("{} needs {missing}, which is not there", program.display()))
}

fn read_ldd(output: &str) -> Result<Vec<PathBuf>, String> {
    let mut libraries = Vec::new();
    for line in output.lines() {
        let place = match line.split_once("=>") {
            Some((name, place)) if place.trim() == "not found" => {
                return Err(name.trim().to_owned());
            }
            Some((_, place)) => place,
            None => line,
        };
        let path = place.trim().split(" (").next().unwrap_or("");
        if path.starts_with('/') {
            libraries.push(PathBuf::from(path));
        }
    }
    Ok(libraries)
}

/// The emulator, if it is new enough, and its version.
fn emulator() -> Option<(PathBuf, String)> {
    let path = program_path(EMULATOR)?;
    let output = Command::new(&path).arg("--version").output().ok()?;
    let version = version(&String::from_utf8_lossy(&output.stdout))?;
    let major: u32 = version.split('.').next()?.parse().ok()?;
    (major >= EMULATOR_MAJOR_MIN).then_some((path, version))
}

fn version(output: &str) -> Option<String> {
    let word = output.split("version ").nth(1)?.split_whitespace().next()?;
    Some(word.to_owned())
}

/// The archive of the running Debian release, for root.
struct Source {
    apt: Apt,
    release: String,
}

impl Source {
    /// Makes it on first use.
    fn prepared<'a>(
        source: &'a mut Option<Self>,
        dir: &Path,
        program: &str,
    ) -> Result<&'a mut Self, String> {
        if source.is_none() {
            let missing = |why: &str| format!("{program} is not installed, and {why}");
            let about = fs::read_to_string("/etc/os-release").unwrap_or_default();
            let release = release(&about).ok_or_else(|| missing("this is no Debian"))?;
            if !is_root() {
                return Err(missing("only root may install it"));
            }
            let suites = [release.as_str(), &format!("{release}-backports")];
            *source = Some(Self { apt: Apt::new(&dir.join("apt-tools"), &suites), release });
        }
        source.as_mut().ok_or_else(|| "no source of packages".to_owned())
    }

    fn install(&mut self, package: &str, backport: bool) -> Result<(), String> {
        let suite =
            if backport { format!("{}-backports", self.release) } else { self.release.clone() };
        self.apt
            .install(package, &suite)
            .map_err(|cause| format!("{package} is not to be had: {cause}"))
    }
}

fn release(about: &str) -> Option<String> {
    let field = |name: &str| {
        let value = about.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
        Some(value.trim_matches('"').to_owned())
    };
    if field("ID")? == "debian" { field("VERSION_CODENAME") } else { None }
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read() {
        let output = "\tlinux-vdso.so.1 (0x00007fa7b7207000)\n\
                      \tlibz.so.1 => /lib/x/libz.so.1 (0x00007fa7b70ac000)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007fa7b7209000)\n";
        let expected = ["/lib/x/libz.so.1", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(read_ldd(output).unwrap(), expected);
        assert_eq!(read_ldd("\tnot a dynamic executable\n").unwrap(), Vec::<PathBuf>::new());
        assert_eq!(read_ldd("\tlibq.so => not found\n"), Err("libq.so".to_owned()));
    }

    #[test]
    fn versions_and_releases_are_read() {
        let output = "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright (c)\n";
        assert_eq!(version(output).as_deref(), Some("10.0.2"));
        assert_eq!(version("what"), None);
        let about = "PRETTY_NAME=\"x\"\nVERSION_CODENAME=bookworm\nID=debian\n";
        assert_eq!(release(about).as_deref(), Some("bookworm"));
        assert_eq!(release("ID=other\nVERSION_CODENAME=x\n"), None);
    }
}
