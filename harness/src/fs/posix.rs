//! `pjdfstest`: checks each system call against POSIX, as several users.

use std::fs;
use std::process::Command;

use super::rig::Rig;
use crate::problem::Problem;
use crate::{step, tools};

const CRATE: &str = "pjdfstest@0.2.2";
/// Users that exist on every Debian, with their groups.
const USERS: [(&str, &str); 2] = [("nobody", "nogroup"), ("games", "games")];
/// Tests that may be skipped, with the reason. Any other skipped test counts as failed.
const SKIPPED: [(&str, &str); 1] =
    [("link::link_count_max", "FUSE has no way to say how many links a file may have (pathconf)")];

pub(super) fn run(rig: &mut Rig) -> Result<String, Problem> {
    let program = tools::find(CRATE).map_err(Problem::Missing)?;
    for (user, _) in USERS {
        if !step::succeeds(Command::new("id").arg(user)) {
            return Err(Problem::Missing(format!("there is no user {user}")));
        }
    }
    let path = path_with_plain_mount(rig)?;
    let ran = |remounts: bool, words: &[&str]| {
        let config = rig.scratch().join("pjdfstest.toml");
        let written = fs::write(&config, configuration(remounts));
        written.map_err(|cause| format!("{}: {cause}", config.display()))?;
        let mut command = Command::new(&program);
        command.env("PATH", &path).env("RUST_BACKTRACE", "0").arg("-c").arg(&config);
        command.arg("-p").arg(rig.mnt()).arg("-s").arg(rig.scratch()).args(words);
        let (said, _) = rig.log().output(&mut command)?;
        Ok::<_, Problem>(PosixResults::read(&said))
    };
    // On any file system, some tests leave files open, so that nothing can be remounted after them.
    let read_only = ran(true, &["erofs"])?;
    let mut all = ran(false, &[])?;
    all.skipped.retain(|name| !name.contains("::erofs_"));
    all.passed += read_only.passed;
    all.failed.extend(read_only.failed.into_iter().chain(read_only.skipped));
    rig.remount()?;
    all.judged()
}

fn configuration(remounts: bool) -> String {
    let features =
        ["posix_fallocate", "rename_ctime", "stat_st_birthtime", "utime_now", "utimensat"];
    let features: String = features.iter().map(|feature| format!("{feature} = {{}}\n")).collect();
    let users = USERS.map(|(user, group)| format!("[\"{user}\", \"{group}\"]")).join(", ");
    format!(
        "[features]\n{features}[settings]\nnaptime = 0.01\nallow_remount = {remounts}\n\
         [dummy_auth]\nentries = [{users}]\n"
    )
}

/// The EROFS tests call `mount -o remount`, which would look for a FUSE mount helper, but the kernel can do it. Returns
/// a `PATH` with a plain `mount`.
fn path_with_plain_mount(rig: &Rig) -> Result<String, Problem> {
    let mount = step::find_program(&["mount"]).ok_or_else(|| {
        Problem::Missing("mount is not installed (apt-get install mount)".to_owned())
    })?;
    let bin = rig.scratch().join("bin");
    let script = bin.join("mount");
    let text = format!("#!/bin/sh\nexec {} -i \"$@\"\n", mount.display());
    let made = fs::create_dir_all(&bin).and_then(|()| fs::write(&script, text));
    made.map_err(|cause| format!("{}: {cause}", script.display()))?;
    rig.run(Command::new("chmod").arg("755").arg(&script))?;
    Ok(format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default()))
}

/// Test names by result.
#[derive(Debug, Default, PartialEq, Eq)]
struct PosixResults {
    passed: usize,
    skipped: Vec<String>,
    failed: Vec<String>,
}

impl PosixResults {
    /// Reads lines such as `link::enoent    ok`. Indented lines are details of a failure.
    fn read(said: &str) -> Self {
        let mut outcome = Self::default();
        for line in said.lines().filter(|line| !line.starts_with(char::is_whitespace)) {
            let mut words = line.split_whitespace();
            match (words.next(), words.next(), words.next()) {
                (Some(name), Some(ended), None) if name.contains("::") => match ended {
                    "ok" => outcome.passed += 1,
                    "skipped" => outcome.skipped.push(name.to_owned()),
                    _ => outcome.failed.push(name.to_owned()),
                },
                _ => {}
            }
        }
        outcome
    }

    fn judged(&self) -> Result<String, Problem> {
        let known = |name: &&String| SKIPPED.iter().any(|(skipped, _)| skipped == name);
        let mut failed = self.failed.clone();
        failed.extend(self.skipped.iter().filter(|name| !known(name)).cloned());
        if !failed.is_empty() || self.passed == 0 {
            let passed = self.passed;
            return Err(Problem::Failed(format!(
                "{passed} passed; failed or skipped: {}",
                failed.join(", ")
            )));
        }
        let skipped = SKIPPED.iter().filter(|(name, _)| self.skipped.iter().any(|it| it == name));
        let skipped: Vec<String> =
            skipped.map(|(name, why)| format!("; {name} was skipped: {why}")).collect();
        Ok(format!("{} tests{}", self.passed, skipped.concat()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says_is_read() {
        let said = "link::enoent     ok\nlink::link_count_max      skipped\n\tfor a reason\n\
                    open::eperm    FAILED\n\tcalled `a::b` on c\n\nSummary: 1 failed\n";
        let outcome = PosixResults::read(said);
        assert_eq!((outcome.passed, outcome.failed.len()), (1, 1));
        let failed = outcome.judged();
        assert!(
            matches!(failed, Err(Problem::Failed(why)) if why.contains("skipped: open::eperm"))
        );
        let passed = PosixResults { failed: Vec::new(), ..outcome }.judged();
        assert!(matches!(passed, Ok(said) if said.contains("1 tests; link::link_count_max was")));
        let unknown =
            PosixResults { passed: 1, skipped: vec!["a::b".to_owned()], failed: Vec::new() };
        assert!(unknown.judged().is_err(), "a skip without a reason");
        assert!(PosixResults::read("").judged().is_err(), "nothing ran");
    }
}
