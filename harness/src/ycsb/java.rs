//! YCSB's core and our binding to it, compiled.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::served::said;
use crate::{maven, step};

const BINDING: &str = include_str!("LarderClient.java");
const CORE: (&str, &str, &str) = ("site.ycsb", "core", "0.17.0");
/// Checksums of the core and of its dependencies, in the versions it was published with.
const SHA256: &str = "\
e1c64d09bfc642715428c2e53ec129b0a98a0e634ee32bf0ae77e5b4eebb3cda  core-0.17.0.jar
8e68b9608ab107690350b904eab24087785f69218e5c6acd860d28116eded708  HdrHistogram-2.1.4.jar
5d45b7904857c3e4ad36b3bcc57be2d2c5f308c69b5f6a58bd86aa7d48a25ef6  htrace-core4-4.1.0-incubating.jar
6129e1b91d7850ba250b1375094c8ca215a0f7cf234b6f60a2f4a88d5b1272c9  jackson-core-asl-1.9.4.jar
f013389c3eb92aa997df801e4a352464925af634a4af3e5bd77c6c0763dc9c99  jackson-mapper-asl-1.9.4.jar
";
/// Timeout of YCSB, in seconds.
const ENDS_WITHIN: &str = "1800";

/// Runs YCSB.
pub(super) struct Java {
    class_path: OsString,
}

impl Java {
    /// Fetches what is missing below a directory, and compiles the binding. The error says what is not available.
    pub(super) fn find(dir: &Path) -> Result<Self, String> {
        fs::create_dir_all(dir).map_err(|cause| format!("{}: {cause}", dir.display()))?;
        compiler()?;
        let jars = dir.join(maven::JARS);
        if !are_ours(&jars) {
            maven::fetch(dir, CORE)?;
            if !are_ours(&jars) {
                return Err(format!("what is in {} is not what was published", jars.display()));
            }
        }
        let source = dir.join("LarderClient.java");
        fs::write(&source, BINDING).map_err(|cause| format!("{}: {cause}", source.display()))?;
        let (jars, classes) = (jars.join("*").into_os_string(), dir.join("classes"));
        let mut compile = Command::new("javac");
        compile.arg("-Werror").arg("-cp").arg(&jars).arg("-d").arg(&classes).arg(&source);
        let output = compile.output().map_err(|cause| format!("javac: {cause}"))?;
        if !output.status.success() {
            return Err(format!("javac: {}", String::from_utf8_lossy(&output.stderr)));
        }
        let mut class_path = jars;
        class_path.push(":");
        class_path.push(classes);
        Ok(Self { class_path })
    }

    /// Runs YCSB's client with these options. Returns its output.
    pub(super) fn run(&self, words: &[String]) -> Result<String, String> {
        let mut command = Command::new("timeout");
        command.args([ENDS_WITHIN, "java", "-cp"]).arg(&self.class_path);
        command.args(["site.ycsb.Client", "-db", "larder.LarderClient"]);
        said(command.args(words))
    }
}

/// Finds Java's compiler, or installs it where possible.
fn compiler() -> Result<(), String> {
    if step::find_program(&["javac"]).is_none() {
        let mut install = Command::new("apt-get");
        install.args(["install", "--yes", "--quiet", "default-jdk-headless"]);
        step::succeeds(&mut install);
    }
    for (program, package) in [("javac", "default-jdk-headless"), ("mvn", "maven")] {
        if step::find_program(&[program]).is_none() {
            return Err(format!("{program} is not installed ({package})"));
        }
    }
    Ok(())
}

/// Whether all jars are present, with the checksums above.
fn are_ours(jars: &Path) -> bool {
    let mut sums = Command::new("sha256sum");
    sums.args(["--check", "--strict", "--status"]).current_dir(jars);
    let silent = sums.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = silent.spawn() else { return false };
    let told = child.stdin.take().is_some_and(|mut pipe| pipe.write_all(SHA256.as_bytes()).is_ok());
    child.wait().is_ok_and(|status| told && status.success())
}
