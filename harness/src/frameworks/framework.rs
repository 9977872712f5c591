//! A framework or a library with a program that uses it.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::told::Told;
use crate::fetched::{self, Source};
use crate::step;

/// A program that takes longer is stopped. Each of its features has 30 s.
const ENDS_WITHIN: Duration = Duration::from_secs(300);

/// A protocol in which a framework stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backend {
    Resp,
    Memcached,
}

impl Backend {
    /// The name that programs and `larder serve` give it.
    pub(super) fn protocol(self) -> &'static str {
        match self {
            Self::Resp => "resp",
            Self::Memcached => "memcached",
        }
    }
}

/// Where the packages are from.
pub(super) enum Packages {
    Pip(&'static [&'static str]),
    Npm(&'static [&'static str]),
    Go(&'static [&'static str]),
    /// Group, artifact, version.
    Maven((&'static str, &'static str, &'static str)),
    /// An interpreter, and packages of the distribution.
    Debian(&'static str, &'static [&'static str]),
}

/// See the module.
pub(super) struct Framework {
    pub(super) name: &'static str,
    pub(super) backends: &'static [Backend],
    pub(super) packages: Packages,
    pub(super) sources: &'static [Source],
    /// Options of `larder serve` that it needs.
    pub(super) larder: &'static [&'static str],
}

impl Framework {
    /// Fetches the packages into a directory. Returns the command that runs the program.
    pub(super) fn prepare(&self, dir: &Path) -> Result<Command, String> {
        fs::create_dir_all(dir).map_err(|cause| format!("{}: {cause}", dir.display()))?;
        let sources = self.sources;
        match self.packages {
            Packages::Pip(packages) => fetched::python(dir, packages, sources),
            Packages::Npm(packages) => fetched::node(dir, packages, sources),
            Packages::Go(modules) => fetched::go(dir, modules, sources),
            Packages::Maven(library) => fetched::java(dir, library, sources),
            Packages::Debian(interpreter, packages) => {
                fetched::debian(dir, (interpreter, packages), sources)
            }
        }
    }

    /// The name in the table, with the protocol if there are two.
    pub(super) fn shown(&self, backend: Backend) -> String {
        match (self.backends, backend) {
            ([_], _) => self.name.to_owned(),
            (_, Backend::Resp) => format!("{}, Redis", self.name),
            (_, Backend::Memcached) => format!("{}, memcached", self.name),
        }
    }
}

/// Runs a program against the server at a port. What it writes stays in the directory, in files with this name.
pub(super) fn run(
    command: &Command,
    dir: &Path,
    (backend, port): (Backend, &str),
    name: &str,
) -> Result<Told, String> {
    let [output, errors] = ["out", "err"].map(|kind| dir.join(format!("{name}.{kind}")));
    let file =
        |path: &Path| File::create(path).map_err(|cause| format!("{}: {cause}", path.display()));
    let mut again = Command::new(command.get_program());
    again.args(command.get_args()).args([backend.protocol(), port]).current_dir(dir);
    again.stdout(file(&output)?).stderr(file(&errors)?);
    // A program that does not end in time has told the outcome of some features.
    step::waited_within(&mut again, ENDS_WITHIN).map_err(|cause| format!("{again:?}: {cause}"))?;
    let text = fs::read(&output).map_err(|cause| format!("{}: {cause}", output.display()))?;
    let told = Told::read(&String::from_utf8_lossy(&text));
    let is_silent = told.features().next().is_none();
    if is_silent {
        return Err(format!("the program has told nothing: {}", errors.display()));
    }
    Ok(told)
}
