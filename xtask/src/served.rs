//! `larder serve` for programs that others wrote, and what those say.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::hears::hears;
use crate::step::{self, Verdict};
use crate::workspace;

/// The `larder` program that is tested: this one, or one that is built now. The error is how the build ended.
pub(crate) fn program(given: Option<&Path>) -> Result<PathBuf, Verdict> {
    if let Some(larder) = given {
        // Suites have working directories of their own.
        return larder
            .canonicalize()
            .map_err(|cause| Verdict::Failed(format!("{}: {cause}", larder.display())));
    }
    match step::run(&mut step::cargo(&["build", "--release", "--locked", "-p", "larder-cli"])) {
        Verdict::Passed(_) => Ok(workspace::target().join("release/larder")),
        other => Err(other),
    }
}

/// What is under test.
#[derive(Debug)]
pub(crate) struct Subject {
    /// The `larder` program.
    pub(crate) larder: PathBuf,
    /// How it waits for sockets: epoll or io_uring.
    pub(crate) sockets: &'static str,
}

/// A server, until it is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: String,
}

impl Server {
    /// Speaks `protocol`, memcached or resp, on a port that is free; `words` are further options, its sizes among them.
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

/// What a program says, on either channel.
pub(crate) fn said(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|cause| cause.to_string())?;
    let text = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&text).into_owned())
}
