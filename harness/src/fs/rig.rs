//! A mounted file system for a suite: an image with one vSSD, and the process that serves it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::log::Log;
use crate::problem::Problem;
use crate::step;

/// A drive of 2 GiB: 8 channels of 4 dies of 128 blocks of 512 KiB, a hundredth of them spare.
const FORMAT: &str = "--channels 8 --dies 4 --blocks 128 --block-size 512K";
const CAPACITY: &str = "1600M";
const POLL: Duration = Duration::from_millis(20);
/// Timeout of a mount or an unmount.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) struct Rig {
    larder: PathBuf,
    dir: PathBuf,
    log: Log,
    keep: bool,
    serving: Option<Child>,
}

impl Rig {
    /// Makes and mounts a fresh image in `dir`.
    pub(super) fn new(larder: PathBuf, dir: PathBuf, keep: bool) -> Result<Self, String> {
        let told = |cause: std::io::Error| format!("{}: {cause}", dir.display());
        let _ = step::succeeds(Command::new("umount").args(["-q", "-l"]).arg(dir.join("mnt")));
        if dir.exists() {
            fs::remove_dir_all(&dir).map_err(told)?;
        }
        fs::create_dir_all(dir.join("mnt")).map_err(told)?;
        fs::create_dir_all(dir.join("scratch")).map_err(told)?;
        let log = Log::new(dir.join("log"))?;
        let mut rig = Self { larder, dir, log, keep, serving: None };
        rig.vssd(&format!("format {FORMAT}"))?;
        rig.vssd(&format!("create --isolation channel --capacity {CAPACITY}"))?;
        rig.mount("")?;
        Ok(rig)
    }

    /// The mount point.
    pub(super) fn mnt(&self) -> PathBuf {
        self.dir.join("mnt")
    }

    /// A directory next to it, on another file system.
    pub(super) fn scratch(&self) -> PathBuf {
        self.dir.join("scratch")
    }

    pub(super) fn log(&self) -> &Log {
        &self.log
    }

    /// Runs a command that must succeed; see [`Log::run`].
    pub(super) fn run(&self, command: &mut Command) -> Result<String, Problem> {
        self.log.run(command)
    }

    /// Runs a command in the mounted directory. It must succeed.
    pub(super) fn run_there(&self, command: &mut Command) -> Result<String, Problem> {
        self.log.run(command.current_dir(self.mnt()))
    }

    /// Unmounts and mounts again, so that everything read afterwards comes from the image.
    pub(super) fn remount(&mut self) -> Result<(), String> {
        self.unmount()?;
        self.mount("--check")
    }

    /// Unmounts and checks the image. What a suite leaves must be consistent.
    pub(super) fn finish(mut self) -> Result<(), String> {
        self.unmount()?;
        self.vssd("fsck")?;
        if !self.keep {
            let image = self.image();
            fs::remove_file(&image).map_err(|cause| format!("{}: {cause}", image.display()))?;
            fs::remove_dir_all(self.scratch()).map_err(|cause| format!("scratch: {cause}"))?;
        }
        Ok(())
    }

    fn image(&self) -> PathBuf {
        self.dir.join("drive.img")
    }

    fn vssd(&self, words: &str) -> Result<(), String> {
        let mut command = self.command(words);
        match self.log.run(&mut command) {
            Ok(_) => Ok(()),
            Err(Problem::Failed(why) | Problem::Missing(why)) => Err(why),
        }
    }

    fn command(&self, words: &str) -> Command {
        let (name, rest) = words.split_once(' ').unwrap_or((words, ""));
        let mut command = Command::new(&self.larder);
        command.args(["vssd", name, "--image"]).arg(self.image()).args(rest.split_whitespace());
        command
    }

    fn mount(&mut self, words: &str) -> Result<(), String> {
        let mnt = self.mnt();
        let mut command = self.command(&format!("mount --for-all {words}"));
        command.args(["0"]).arg(&mnt).stdin(Stdio::null());
        command.stdout(self.log.end()?).stderr(self.log.end()?);
        let child = command.spawn().map_err(|cause| format!("larder vssd mount: {cause}"))?;
        let child = self.serving.insert(child);
        let begin = Instant::now();
        while !is_mounted(&mnt)? {
            let ended = child.try_wait().map_err(|cause| cause.to_string())?;
            if ended.is_some() || begin.elapsed() > PATIENCE {
                let log = self.log.path().display();
                return Err(format!("{} is not mounted; see {log}", mnt.display()));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn unmount(&mut self) -> Result<(), String> {
        let mut serving = self.serving.take().ok_or("nothing is mounted")?;
        let umount = step::run_within(Command::new("umount").arg(self.mnt()), PATIENCE);
        if umount.is_err() {
            self.serving = Some(serving);
            return umount;
        }
        let begin = Instant::now();
        loop {
            match serving.try_wait().map_err(|cause| cause.to_string())? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    let log = self.log.path().display();
                    return Err(format!("larder vssd mount ended with {status}; see {log}"));
                }
                None if begin.elapsed() > PATIENCE => {
                    self.serving = Some(serving);
                    return Err("larder vssd mount goes on after an unmount".to_owned());
                }
                None => thread::sleep(POLL),
            }
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let Some(mut serving) = self.serving.take() else { return };
        let _ = step::succeeds(Command::new("umount").arg("-l").arg(self.mnt()));
        let _ = serving.kill();
        let _ = serving.wait();
    }
}

fn is_mounted(mnt: &Path) -> Result<bool, String> {
    let mounts =
        fs::read_to_string("/proc/mounts").map_err(|cause| format!("/proc/mounts: {cause}"))?;
    let mnt = mnt.canonicalize().map_err(|cause| format!("{}: {cause}", mnt.display()))?;
    let wanted = mnt.to_string_lossy().replace(' ', "\\040");
    Ok(mounts.lines().any(|line| line.split(' ').nth(1) == Some(wanted.as_str())))
}
