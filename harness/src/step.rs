//! One step of a long check, and its verdict.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::workspace;

/// Interval at which a child with a time limit is polled.
const POLL: Duration = Duration::from_millis(50);

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Everything passed, with a remark about what was checked, or an empty text.
    Passed(String),
    /// Something failed.
    Failed(String),
    /// The step could not run here.
    Skipped(String),
}

impl Verdict {
    /// Passed, without a remark.
    pub fn passed() -> Self {
        Self::Passed(String::new())
    }
}

/// A `cargo` command at the root of the workspace.
pub fn cargo<S: AsRef<OsStr>>(arguments: &[S]) -> Command {
    let mut command = Command::new(cargo_program());
    command.args(arguments).current_dir(workspace::root());
    command
}

/// The cargo that started us.
pub fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Runs a command with its output on the terminal.
pub fn run(command: &mut Command) -> Verdict {
    let shown = shown(command);
    eprintln!("\n$ {shown}");
    match command.status() {
        Ok(status) if status.success() => Verdict::passed(),
        Ok(status) => Verdict::Failed(format!("{shown}: {status}")),
        Err(cause) => Verdict::Failed(format!("{shown}: {cause}")),
    }
}

/// Runs a command silently. Returns whether it succeeded.
pub fn succeeds(command: &mut Command) -> bool {
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    silent.status().is_ok_and(|status| status.success())
}

/// Runs a command silently. After `limit` it is killed and counts as failed.
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> Result<(), String> {
    let shown = shown(command);
    eprintln!("\n$ {shown}");
    match ended_within(command, limit) {
        Ok(Some(status)) if status.success() => Ok(()),
        Ok(Some(status)) => Err(format!("{shown}: {status}")),
        Ok(None) => Err(format!("{shown}: not done after {} s", limit.as_secs())),
        Err(cause) => Err(format!("{shown}: {cause}")),
    }
}

/// Runs a command silently and returns its exit status. After `limit` it is killed with all processes that it has
/// started, and the result is `None`.
pub fn ended_within(command: &mut Command, limit: Duration) -> io::Result<Option<ExitStatus>> {
    waited_within(command.stdout(Stdio::null()).stderr(Stdio::null()), limit)
}

/// The same for a command with the output that it has.
pub(crate) fn waited_within(
    command: &mut Command,
    limit: Duration,
) -> io::Result<Option<ExitStatus>> {
    // Use its own process group, so that its children are killed with it.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let mut child = command.stdin(Stdio::null()).spawn()?;
    let begin = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(Some(status)),
            None if begin.elapsed() < limit => thread::sleep(POLL),
            None => {
                let group = format!("-{}", child.id());
                if !cfg!(unix) || !succeeds(Command::new("kill").args(["-KILL", "--", &group])) {
                    child.kill()?;
                }
                child.wait()?;
                return Ok(None);
            }
        }
    }
}

/// The first of these programs on the path.
pub fn find_program(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names.iter().flat_map(|name| dirs.iter().map(move |dir| dir.join(name))).find(|p| is_file(p))
}

/// Whether these arguments for another program contain a directory for its files.
pub fn names_dir(arguments: &[OsString]) -> bool {
    let names = |word: &OsString| word == "--dir" || word.as_encoded_bytes().starts_with(b"--dir=");
    arguments.iter().any(names)
}

fn is_file(path: &Path) -> bool {
    path.is_file()
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_says_which() {
        let verdict = run(&mut cargo(&["no-such-command-of-cargo"]));
        assert!(matches!(verdict, Verdict::Failed(text) if text.contains("no-such-command")));
    }

    #[test]
    fn a_missing_program_is_a_failure_and_no_panic() {
        let verdict = run(&mut Command::new("no-such-program-anywhere"));
        assert!(matches!(verdict, Verdict::Failed(_)));
        assert!(!succeeds(&mut Command::new("no-such-program-anywhere")));
        assert_eq!(find_program(&["no-such-program-anywhere"]), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_command_that_takes_too_long_is_ended() {
        let error = run_within(Command::new("sleep").arg("60"), Duration::from_millis(10));
        assert!(error.unwrap_err().contains("not done after"));
    }

    #[cfg(unix)]
    #[test]
    fn what_a_command_started_is_ended_with_it() {
        let file = std::env::temp_dir().join(format!("xtask-step-{}", std::process::id()));
        let script = format!("(sleep 1; touch {}) & wait", file.display());
        let mut command = Command::new("sh");
        let ended = ended_within(command.args(["-c", &script]), Duration::from_millis(100));
        assert_eq!(ended.unwrap(), None);
        thread::sleep(Duration::from_millis(1500));
        assert!(!file.exists(), "its child went on");
    }
}
