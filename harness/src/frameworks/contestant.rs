//! The servers that the programs run against: `larder serve`, Valkey and memcached.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::framework::Backend;
use crate::process::Process;
use crate::served::{Server, Subject, said};
use crate::{fetched, port, step};

/// A server that runs until it is dropped.
pub(super) enum Contestant {
    Larder(Server),
    Other { _process: Process, port: String },
}

impl Contestant {
    /// `larder serve` in DRAM.
    pub(super) fn larder(
        subject: &Subject,
        backend: Backend,
        options: &[&str],
    ) -> Result<Self, String> {
        let words = [&["--memory", "64M", "--flash", "0"], options].concat();
        Server::start(subject, backend.protocol(), &words).map(Self::Larder)
    }

    /// `larder serve` with flash, whose file is new and in this directory.
    pub(super) fn larder_with_flash(
        subject: &Subject,
        backend: Backend,
        options: &[&str],
        dir: &Path,
    ) -> Result<Self, String> {
        let home = dir.join("data");
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(&home).map_err(|cause| format!("{}: {cause}", home.display()))?;
        let shown = home.to_string_lossy().into_owned();
        let sizes = ["--memory", "64M", "--flash", "256M", "--data-dir", &shown];
        let words = [&sizes, options].concat();
        Server::start(subject, backend.protocol(), &words).map(Self::Larder)
    }

    /// Valkey or memcached.
    pub(super) fn other(backend: Backend) -> Result<Self, String> {
        let port = port::free()?;
        let shown = port.to_string();
        let mut command = match backend {
            Backend::Resp => {
                let mut command = Command::new(fetched::needs("valkey-server", "valkey-server")?);
                command.args(["--port", &shown, "--bind", "127.0.0.1", "--save", ""]);
                command
            }
            Backend::Memcached => {
                let mut command = Command::new(fetched::needs("memcached", "memcached")?);
                command.args(["-u", "nobody", "-U", "0", "-l", "127.0.0.1", "-p", &shown]);
                command
            }
        };
        let process = Process::start(&mut command, port)?;
        Ok(Self::Other { _process: process, port: shown })
    }

    pub(super) fn port(&self) -> &str {
        match self {
            Self::Larder(server) => &server.port,
            Self::Other { port, .. } => port,
        }
    }
}

/// The versions of the servers that are here, a line each.
pub(super) fn versions(subject: &Subject) -> Vec<String> {
    let version =
        |name: &str| said(Command::new(step::find_program(&[name])?).arg("--version")).ok();
    let larder = said(Command::new(&subject.larder).arg("--version")).ok();
    let all = [larder, version("valkey-server"), version("memcached")];
    all.into_iter().flatten().map(|text| text.trim().to_owned()).collect()
}
