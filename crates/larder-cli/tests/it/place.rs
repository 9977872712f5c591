//! A directory in which the command runs, and the result of a run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// The command.
pub(crate) fn larder() -> Command {
    Command::new(env!("CARGO_BIN_EXE_larder"))
}

/// A directory that ends with the test, and another one where `larder block` keeps its records.
pub(crate) struct Place(TempDir, TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file in it.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// The command in this directory, with arguments that are separated by blanks.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = larder();
        command.current_dir(self.path()).args(arguments.split_whitespace());
        if arguments.starts_with("block ") {
            command.env("STATE_DIRECTORY", self.1.path());
        }
        command
    }

    pub(crate) fn run(&self, arguments: &str) -> Ran {
        Ran::from(self.command(arguments).output().unwrap())
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub(crate) fn succeed(&self, arguments: &str) -> Ran {
        let ran = self.run(arguments);
        assert_eq!(ran.status, Some(0), "larder {arguments}: {}", ran.stderr);
        ran
    }

    /// The JSON output of `arguments` with `--json -`.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &str) -> Value {
        let ran = self.succeed(&format!("{arguments} --json -"));
        serde_json::from_str(&ran.stdout).unwrap()
    }

    /// Runs a command that must be refused with this status, and with one message that has these parts. It must have no
    /// other effect: no output, no new file, no changed file.
    #[track_caller]
    pub(crate) fn refuse(&self, arguments: &str, status: i32, parts: &[&str]) {
        let before = self.files();
        let ran = self.run(arguments);
        ran.check_error(status, parts);
        assert_eq!(ran.stdout, "", "larder {arguments}");
        let after = self.files();
        let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&before), names(&after), "larder {arguments}");
        assert!(before == after, "larder {arguments} changed a file");
    }

    /// All files in it, with their content.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut directories = vec![self.path().to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                } else {
                    let content = fs::read(&path).unwrap();
                    files.insert(path, content);
                }
            }
        }
        files
    }
}

/// Exit status and output of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Exit status; `None` if a signal ended it.
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// Checks the error message: one line, with optional notes before it and a hint to the help after it.
    #[track_caller]
    pub(crate) fn check_error(&self, status: i32, parts: &[&str]) {
        assert_eq!(self.status, Some(status), "{self:?}");
        let mut lines = self.stderr.lines().skip_while(|line| line.starts_with("note: "));
        let message = lines.next().unwrap_or_default();
        assert!(message.starts_with("error: "), "{self:?}");
        // The names of all experiments are the longest list.
        assert!(message.len() < 1000 && !message.contains(char::is_control), "{message:?}");
        for part in parts {
            assert!(message.contains(part), "no {part:?} in: {message}");
        }
        for line in lines.filter(|line| !line.is_empty()) {
            assert_eq!(line, "For more information, try '--help'.", "{self:?}");
        }
    }
}

/// A small trace with all kinds of sizes: GETs of 500 keys.
pub(crate) fn trace_of_gets(requests: u32) -> String {
    let mut text = String::from("time,object,size\n");
    let mut state = 1_u32;
    for number in 0..requests {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let key = (state >> 16) % 500;
        text += &format!("{},{key},{}\n", number / 100, 20 + key * 3);
    }
    text
}
