//! `git` on the mount: a clone, commits, a repack, and `git fsck`.

use std::process::Command;

use super::rig::Rig;
use crate::log::program;
use crate::problem::Problem;
use crate::workspace;

pub(super) fn run(rig: &mut Rig) -> Result<String, Problem> {
    let mut clone = program("git", "git")?;
    rig.run_there(
        clone.args(["clone", "--quiet", "--no-local"]).arg(workspace::root()).arg("clone"),
    )?;
    check(rig)?;
    git(rig, &["checkout", "--quiet", "-b", "work"])?;
    for number in 0..20 {
        let file = rig.mnt().join("clone").join(format!("note-{number}"));
        let written = std::fs::write(&file, format!("note {number}\n").repeat(1000));
        written.map_err(|cause| format!("{}: {cause}", file.display()))?;
        git(rig, &["add", "--all"])?;
        git(
            rig,
            &["-c", "user.name=x", "-c", "user.email=x@localhost", "commit", "-qm", "A note"],
        )?;
    }
    rig.remount()?;
    check(rig)?;
    git(rig, &["gc", "--quiet", "--prune=now"])?;
    check(rig)?;
    rig.remount()?;
    check(rig)?;
    let count = git(rig, &["rev-list", "--count", "HEAD"])?;
    Ok(format!("{} commits, sound before and after two new mounts and a repack", count.trim()))
}

fn git(rig: &Rig, words: &[&str]) -> Result<String, Problem> {
    let mut command: Command = program("git", "git")?;
    rig.run(command.args(words).current_dir(rig.mnt().join("clone")))
}

fn check(rig: &Rig) -> Result<(), Problem> {
    git(rig, &["fsck", "--full", "--strict", "--no-progress"])?;
    let changed = git(rig, &["status", "--porcelain"])?;
    match changed.is_empty() {
        true => Ok(()),
        false => Err(Problem::Failed(format!("git status: {changed}"))),
    }
}
