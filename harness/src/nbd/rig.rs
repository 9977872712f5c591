//! The environment of a suite: a file of 64 MiB, served at a Unix socket, either directly or behind a block cache of
//! half its length.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::hears::is_ready;
use crate::log::Log;
use crate::problem::Problem;
use crate::step;

/// Length of the export, in bytes.
pub(super) const BYTES: u64 = 64 << 20;
const CACHE_BYTES: u64 = 32 << 20;

/// How the file is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Front {
    /// By `larder block export`.
    Bare,
    /// By `larder block start`: it is the core of a write-back cache with this layout.
    Cache(&'static str),
}

impl Front {
    /// All kinds, with their names.
    pub(super) const ALL: [(&'static str, Self); 5] = [
        ("file", Self::Bare),
        ("log", Self::Cache("log")),
        ("ocf22", Self::Cache("ocf22")),
        ("ocf26", Self::Cache("ocf26")),
        ("wal", Self::Cache("wal")),
    ];

    /// Name of the export. A cache names its cores by number.
    fn export(self) -> &'static str {
        match self {
            Self::Bare => "pantry",
            Self::Cache(_) => "0",
        }
    }
}

pub(super) struct Rig {
    larder: PathBuf,
    front: Front,
    sockets: &'static str,
    dir: PathBuf,
    log: Log,
    serving: Option<Child>,
}

impl Rig {
    /// Makes and serves a fresh file in `dir`.
    pub(super) fn new(
        larder: &Path,
        front: Front,
        sockets: &'static str,
        dir: PathBuf,
    ) -> Result<Self, Problem> {
        let told = |cause: std::io::Error| format!("{}: {cause}", dir.display());
        if dir.exists() {
            fs::remove_dir_all(&dir).map_err(told)?;
        }
        fs::create_dir_all(&dir).map_err(told)?;
        let log = Log::new(dir.join("log"))?;
        let mut rig = Self { larder: larder.to_owned(), front, sockets, dir, log, serving: None };
        let file = |path: PathBuf, bytes| {
            File::create(path).and_then(|file| file.set_len(bytes)).map_err(|c| c.to_string())
        };
        file(rig.disk(), BYTES)?;
        if let Front::Cache(layout) = front {
            file(rig.cache(), CACHE_BYTES)?;
            let mut create = Command::new(larder);
            create.args(["block", "create", "--mode", "wb", "--layout", layout, "--core"]);
            rig.run(create.arg(rig.disk()).arg(rig.cache()))?;
        }
        rig.serve(&[])?;
        Ok(rig)
    }

    /// Whether there is a cache in front of the file.
    pub(super) fn is_cached(&self) -> bool {
        self.front != Front::Bare
    }

    /// Name of the export.
    pub(super) fn export(&self) -> &'static str {
        self.front.export()
    }

    fn cache(&self) -> PathBuf {
        self.dir.join("cache")
    }

    /// The path of the file.
    pub(super) fn disk(&self) -> PathBuf {
        self.dir.join("disk")
    }

    /// The path of another file in the same directory.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The path of the socket.
    pub(super) fn socket(&self) -> PathBuf {
        self.dir.join("s")
    }

    /// The export's URI for NBD clients.
    pub(super) fn uri(&self) -> String {
        format!("nbd+unix:///{}?socket={}", self.export(), self.socket().display())
    }

    /// Starts the server, with additional options.
    pub(super) fn serve(&mut self, words: &[&str]) -> Result<(), String> {
        let mut command = Command::new(&self.larder);
        command.arg("block");
        match self.front {
            Front::Bare => command.arg("export").arg(self.disk()).args(["--name", self.export()]),
            // All requests go through the cache. After a clean stop all data is on the core.
            Front::Cache(_) => command.arg("start").arg(self.cache()).args([
                "--cut-off",
                "never",
                "--flush-on-stop",
            ]),
        };
        command.arg("--unix").arg(self.socket()).args(["--sockets", self.sockets]);
        command.args(["--threads", "2"]).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(self.log.end()?);
        let mut child = command.spawn().map_err(|cause| format!("larder block: {cause}"))?;
        let is_ready = is_ready(&mut child);
        self.serving = Some(child);
        if is_ready { Ok(()) } else { Err("larder block: it does not start".to_owned()) }
    }

    /// Stops the server, cleanly or by SIGKILL.
    pub(super) fn end(&mut self, by_kill: bool) -> Result<(), String> {
        let Some(mut child) = self.serving.take() else { return Ok(()) };
        let pid = child.id().to_string();
        let signal = if by_kill { "-KILL" } else { "-TERM" };
        if !step::succeeds(Command::new("kill").args([signal, &pid])) {
            return Err("larder block has ended before it was told to".to_owned());
        }
        let status = child.wait().map_err(|cause| cause.to_string())?;
        if by_kill || status.success() { Ok(()) } else { Err(format!("its end: {status}")) }
    }

    /// Runs a command that must succeed within five minutes; see [`Log::run`].
    pub(super) fn run(&self, command: &Command) -> Result<String, Problem> {
        let mut within = Command::new("timeout");
        within.arg("300").arg(command.get_program()).args(command.get_args());
        self.log.run(within.current_dir(&self.dir))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(mut child) = self.serving.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
