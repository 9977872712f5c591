//! The log file of a suite's programs. The end of it is shown on a failure.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::problem::Problem;
use crate::step;

/// Lines shown on a failure.
const LINES: usize = 25;

pub(crate) struct Log(PathBuf);

impl Log {
    pub(crate) fn new(path: PathBuf) -> Result<Self, String> {
        File::create(&path).map_err(|cause| format!("{}: {cause}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// An output for a child that appends to the log.
    pub(crate) fn end(&self) -> Result<Stdio, String> {
        let opened = OpenOptions::new().append(true).open(&self.0);
        opened.map(Stdio::from).map_err(|cause| format!("{}: {cause}", self.0.display()))
    }

    /// Runs a command that must succeed, and returns its standard output.
    pub(crate) fn run(&self, command: &mut Command) -> Result<String, Problem> {
        let (said, succeeded) = self.output(command)?;
        if succeeded {
            return Ok(said);
        }
        let program = Path::new(command.get_program()).file_name().unwrap_or_default();
        let why = format!("{} failed; all of it: {}", program.display(), self.0.display());
        self.tail();
        Err(Problem::Failed(why))
    }

    /// Runs a command, and returns its standard output and whether it succeeded.
    pub(crate) fn output(&self, command: &mut Command) -> Result<(String, bool), Problem> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let line = words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
        eprintln!("  $ {line}");
        self.note(&format!("\n$ {line}\n"))?;
        let output = command.stdin(Stdio::null()).stderr(self.end()?).output();
        let output = output.map_err(|cause| format!("{line}: {cause}"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        self.note(&said)?;
        self.note(&format!("\n({})\n", output.status))?;
        Ok((said, output.status.success()))
    }

    fn note(&self, text: &str) -> Result<(), String> {
        let opened = OpenOptions::new().append(true).open(&self.0);
        let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|cause| format!("{}: {cause}", self.0.display()))
    }

    fn tail(&self) {
        let text = fs::read(&self.0).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        let from = lines.len().saturating_sub(LINES);
        lines[from..].iter().for_each(|line| eprintln!("    {line}"));
    }
}

/// A program of a Debian package, or an error that says what is missing.
pub(crate) fn program(name: &str, package: &str) -> Result<Command, Problem> {
    let found = step::find_program(&[name]).map(Command::new);
    found.ok_or_else(|| {
        Problem::Missing(format!("{name} is not installed (apt-get install {package})"))
    })
}
