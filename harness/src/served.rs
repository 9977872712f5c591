//! Runs `larder serve` for independent test programs, and captures their output.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::hears::hears;
use crate::step::{self, Verdict};
use crate::workspace;

/// The `larder` program under test: the given one, or one that is built now. The error is the verdict of the build.
pub(crate) fn program(given: Option<&Path>) -> Result<PathBuf, Verdict> {
    if let Some(larder) = given {
        // Make the path absolute, because suites have their own working directories.
        return larder
            .canonicalize()
            .map_err(|cause| Verdict::Failed(format!("{}: {cause}", larder.display())));
    }
    match step::run(&mut step::cargo(&["build", "--release", "--locked", "-p", "larder-cli"])) {
        Verdict::Passed(_) => Ok(workspace::target().join("release/larder")),
        other => Err(other),
    }
}

/// The program under test.
#[derive(Debug)]
pub(crate) struct Subject {
    /// The `larder` program.
    pub(crate) larder: PathBuf,
    /// How the server waits for sockets: epoll or io_uring.
    pub(crate) sockets: &'static str,
}

/// A server, stopped on drop.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: String,
}

impl Server {
    /// Starts a server for `protocol`, memcached or resp, on a free port. `words` are additional options, including its
    /// sizes.
    pub(crate) fn start(subject: &Subject, protocol: &str, words: &[&str]) -> Result<Self, String> {
        let other = if protocol == "resp" { "--memcached" } else { "--resp" };
        let mut command = Command::new(&subject.larder);
        command.args(["serve", &format!("--{protocol}"), "127.0.0.1:0", other, "none"]);
        command.args(["--admin", "none", "--drain", "0"]);
        command.args(["--sockets", subject.sockets]).args(words);
        let started = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn();
        let mut child = started.map_err(|cause| format!("larder serve: {cause}"))?;
        let of_protocol = |line: String| Some(line.strip_prefix(protocol)?.trim().to_owned());
        let address = hears(&mut child, of_protocol);
        match address.as_deref().and_then(|address| address.rsplit_once(':')) {
            Some((_, port)) => Ok(Self { child, port: port.to_owned() }),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                Err("larder serve: it does not say where it listens".to_owned())
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The output of a program, on both channels.
pub(crate) fn said(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|cause| cause.to_string())?;
    let text = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&text).into_owned())
}
