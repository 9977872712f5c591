//! Kernels and programs from Debian's archive. They are fetched by apt, which knows the mirror, the proxy and the keys.
//! Lists and downloads are stored below the build directory, so that fetching a kernel needs no root and does not
//! change the system's apt.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::scenario::Kernel;
use crate::step;

/// Suites of the kernels: the old one, then the new one.
pub(super) const KERNEL_SUITES: [&str; 2] = ["bookworm", "trixie-backports"];

const ARCHIVE: &str = "http://deb.debian.org/debian";
const OPTIONS: &str = "apt.conf";
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Smaller packages are empty: the index also lists kernels without content.
const KERNEL_BYTES_MIN: u64 = 10_000_000;
const LISTS_LIMIT: Duration = Duration::from_secs(180);
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(600);

/// An entry of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Package {
    name: String,
    version: String,
    bytes: u64,
    sha256: String,
}

/// Apt with its own lists.
#[derive(Debug)]
pub(super) struct Apt {
    dir: PathBuf,
    suites: Vec<String>,
    listed: bool,
}

impl Apt {
    /// An apt for these suites that works in this directory.
    pub(super) fn new(dir: &Path, suites: &[&str]) -> Self {
        let suites = suites.iter().map(|suite| (*suite).to_owned()).collect();
        Self { dir: dir.to_owned(), suites, listed: false }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("-c").arg(self.dir.join(OPTIONS)).env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    /// Options that keep apt away from the system's lists.
    fn options(&self) -> String {
        let dir = self.dir.display();
        format!(
            "Dir::Etc::SourceList \"{dir}/sources.list\";\n\
             Dir::Etc::SourceParts \"-\";\n\
             Dir::State::Lists \"{dir}/lists\";\n\
             Dir::Cache \"{dir}/cache\";\n\
             Acquire::Languages \"none\";\n\
             Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n\
             // Else it would fetch as a user that may not write here.\n\
             APT::Sandbox::User \"\";\n"
        )
    }

    /// Fetches the lists, once.
    fn list(&mut self) -> Result<(), String> {
        if self.listed {
            return Ok(());
        }
        if step::find_program(&["apt-get"]).is_none() {
            return Err("there is no apt here".to_owned());
        }
        let told = |cause: std::io::Error| format!("{}: {cause}", self.dir.display());
        for part in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(self.dir.join(part)).map_err(told)?;
        }
        let lines = self
            .suites
            .iter()
            .map(|suite| format!("deb [arch=amd64 signed-by={KEYS}] {ARCHIVE} {suite} main\n"));
        fs::write(self.dir.join("sources.list"), lines.collect::<String>()).map_err(told)?;
        fs::write(self.dir.join(OPTIONS), self.options()).map_err(told)?;
        let mut command = self.command("apt-get");
        command.args(["-qq", "--error-on=any", "update"]);
        step::run_within(&mut command, LISTS_LIMIT)?;
        self.listed = true;
        Ok(())
    }

    /// Installs a package from this suite. Needs root.
    pub(super) fn install(&mut self, package: &str, suite: &str) -> Result<(), String> {
        self.list()?;
        let mut command = self.command("apt-get");
        command.args(["-qq", "-y", "--no-install-recommends", "-t", suite, "install", package]);
        step::run_within(&mut command, DOWNLOAD_LIMIT)
    }

    /// Fetches the newest kernel of this kind and unpacks it below `dir`, unless there is one.
    pub(super) fn kernel(&mut self, kernel: Kernel, dir: &Path) -> Result<PathBuf, String> {
        let home = dir.join(match kernel {
            Kernel::New => "new",
            Kernel::Old => "old",
        });
        if let Some(image) = image_in(&home) {
            return Ok(image);
        }
        self.list()?;
        let package = newest(&self.index()?, kernel).ok_or_else(|| {
            format!("{} has no such kernel with contents", self.suites.join(", "))
        })?;
        eprintln!("  {} {}, {} bytes", package.name, package.version, package.bytes);
        let told = |cause: std::io::Error| format!("{}: {cause}", home.display());
        let fresh = home.with_extension("unpacked");
        let _ = fs::remove_dir_all(&fresh);
        fs::create_dir_all(&fresh).map_err(told)?;
        // Apt verifies the download against the index, and the index against its signature.
        let mut download = self.command("apt-get");
        download.args(["-qq", "download", &format!("{}={}", package.name, package.version)]);
        step::run_within(download.current_dir(&fresh), DOWNLOAD_LIMIT)?;
        let archive = first_with(&fresh, |name| has_extension(name, "deb"));
        let archive = archive.ok_or("apt-get download left no package")?;
        same_sum(&archive, &package.sha256)?;
        let mut unpack = Command::new("dpkg-deb");
        step::run_within(unpack.arg("--extract").arg(&archive).arg(&fresh), DOWNLOAD_LIMIT)?;
        fs::remove_file(&archive).map_err(told)?;
        let _ = fs::remove_dir_all(&home);
        // Rename last, so that the directory is complete whenever it exists.
        fs::rename(&fresh, &home).map_err(told)?;
        image_in(&home).ok_or_else(|| format!("{} has no kernel in it", package.name))
    }

    fn index(&self) -> Result<Vec<Package>, String> {
        let output = self.command("apt-cache").arg("dumpavail").stderr(Stdio::null()).output();
        let output = output.map_err(|cause| format!("apt-cache: {cause}"))?;
        Ok(read_index(&String::from_utf8_lossy(&output.stdout)))
    }
}

/// Parses an index: paragraphs of `Name: value`. Skips incomplete entries.
fn read_index(text: &str) -> Vec<Package> {
    let entry = |paragraph: &str| {
        let field = |name: &str| {
            let mut lines = paragraph.lines();
            let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))?;
            Some(value.trim().to_owned())
        };
        Some(Package {
            name: field("Package")?,
            version: field("Version")?,
            bytes: field("Size")?.parse().ok()?,
            sha256: field("SHA256")?,
        })
    };
    text.split("\n\n").filter_map(entry).collect()
}

/// The newest non-empty kernel of this kind for virtual machines.
fn newest(index: &[Package], kernel: Kernel) -> Option<Package> {
    let fits = |package: &&Package| {
        let release = package.name.strip_prefix("linux-image-")?.strip_suffix("-cloud-amd64")?;
        let (major, minor) = match numbers(release).as_slice() {
            [major, minor, ..] => (*major, *minor),
            _ => return None,
        };
        let kind = match kernel {
            Kernel::New => major == 6 && minor >= 16,
            Kernel::Old => (major, minor) == (6, 1),
        };
        (kind && package.bytes >= KERNEL_BYTES_MIN).then_some(())
    };
    let fitting = index.iter().filter(|package| fits(package).is_some());
    fitting.max_by_key(|package| numbers(&package.version)).cloned()
}

/// The numbers in a version, which order the versions of one kernel.
fn numbers(version: &str) -> Vec<u64> {
    let words = version.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
    words.filter_map(|word| word.parse().ok()).collect()
}

fn same_sum(file: &Path, sha256: &str) -> Result<(), String> {
    let output = Command::new("sha256sum").arg(file).output();
    let output = output.map_err(|cause| format!("sha256sum: {cause}"))?;
    let sum = String::from_utf8_lossy(&output.stdout);
    let sum = sum.trim_start_matches('\\').split(' ').next().unwrap_or("").to_owned();
    if sum == sha256 {
        return Ok(());
    }
    Err(format!("{} has the SHA-256 {sum}, its index says {sha256}", file.display()))
}

fn image_in(home: &Path) -> Option<PathBuf> {
    first_with(&home.join("boot"), |name| name.starts_with("vmlinuz-"))
}

fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found == extension)
}

fn first_with(dir: &Path, fits: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let entries = fs::read_dir(dir).ok()?.filter_map(Result::ok);
    entries
        .map(|entry| entry.path())
        .find(|path| path.file_name().is_some_and(|name| name.to_str().is_some_and(&fits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(entries: &[(&str, &str, u64)]) -> String {
        let entry = |(name, version, bytes): &(&str, &str, u64)| {
            format!(
                "Package: linux-image-{name}\nVersion: {version}\nInstalled-Size: 1\n\
                 Description: x\n Size: 7\nSize: {bytes}\nSHA256: s{bytes}\n\n"
            )
        };
        entries.iter().map(entry).collect()
    }

    #[test]
    fn the_newest_kernel_with_contents_is_taken() {
        let text = index(&[
            ("6.18.9+deb13-cloud-amd64", "6.18.9-1~bpo13+1", 49_137_464),
            ("6.18.15+deb13-cloud-amd64", "6.18.15-1~bpo13+1", 49_146_196),
            ("6.19.11+deb13-cloud-amd64", "6.19.11-1~bpo13+1", 2068),
            ("6.18.20+deb13-cloud-amd64-unsigned", "6.18.20-1~bpo13+1", 49_000_000),
            ("6.18.30+deb13-amd64", "6.18.30-1~bpo13+1", 90_000_000),
            ("cloud-amd64", "6.19.11-1", 50_000_000),
            ("6.1.0-9-cloud-amd64", "6.1.170-3", 26_429_640),
            ("6.1.0-50-cloud-amd64", "6.1.176-1", 26_484_304),
            ("6.12.1-cloud-amd64", "6.12.1-1", 30_000_000),
        ]);
        let packages = read_index(&text);
        assert_eq!(packages.len(), 9);
        let new = newest(&packages, Kernel::New).unwrap();
        assert_eq!(
            (new.name.as_str(), new.bytes),
            ("linux-image-6.18.15+deb13-cloud-amd64", 49_146_196)
        );
        assert_eq!(new.sha256, "s49146196");
        assert_eq!(newest(&packages, Kernel::Old).unwrap().version, "6.1.176-1");
        assert_eq!(newest(&packages[2..6], Kernel::New), None);
    }

    #[test]
    fn entries_that_lack_something_are_passed_over() {
        assert!(
            read_index("Package: a\nVersion: 1\nSize: 5\n\nPackage: b\nSHA256: x\n").is_empty()
        );
        assert!(read_index("Package: a\nVersion: 1\nSize: x\nSHA256: y\n").is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn a_file_with_another_sum_is_refused() {
        let file = std::env::temp_dir().join(format!("larder-sum-{}", std::process::id()));
        fs::write(&file, "abc").unwrap();
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(same_sum(&file, sum), Ok(()));
        assert!(same_sum(&file, "00").unwrap_err().contains(sum));
        fs::remove_file(&file).unwrap();
    }
}
