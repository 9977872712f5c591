//! A server that is measured, until it is dropped.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::cgroup::Cgroup;
use super::settings::Bench;
use crate::step;

/// A server that does not listen after so long does not start.
const STARTS_WITHIN: Duration = Duration::from_secs(20);

/// See the module.
pub(super) struct Contestant {
    child: Child,
    /// As `larder bench` is told: a name, and where it listens.
    pub(super) targets: Vec<String>,
    /// Dropped behind the process, which is in it.
    _group: Option<Cgroup>,
}

/// How a server is started.
pub(super) struct Start<'a> {
    pub(super) name: &'a str,
    pub(super) memory_bytes: u64,
    /// Its flash, if it has any: where, and how much.
    pub(super) flash: Option<(&'a Path, u64)>,
    /// The memory that a control group allows it, page cache and all.
    pub(super) limit_bytes: Option<u64>,
}

impl Contestant {
    /// `larder serve`, which speaks both protocols; `sockets` is epoll or io_uring.
    pub(super) fn larder(bench: &Bench, start: &Start<'_>, sockets: &str) -> Result<Self, String> {
        let (memcached, resp) = (free_port()?, free_port()?);
        let mut command = Command::new(&bench.larder);
        command.args(["serve", "--admin", "none", "--drain", "0", "--sockets", sockets]);
        command.args(["--memcached", &local(memcached), "--resp", &local(resp)]);
        command.args(["--workers", &bench.settings.threads.to_string()]);
        command.args(["--memory", &start.memory_bytes.to_string()]);
        match start.flash {
            None => command.args(["--flash", "0"]),
            Some((dir, bytes)) => {
                command.args(["--flash", &bytes.to_string(), "--data-dir"]).arg(dir)
            }
        };
        let name = start.name;
        let targets = vec![
            format!("{name}=memcached://{}", local(memcached)),
            format!("{name}=redis://{}", local(resp)),
        ];
        Self::spawn(bench, &mut command, start, (targets, memcached))
    }

    pub(super) fn memcached(bench: &Bench, start: &Start<'_>) -> Result<Self, String> {
        let port = free_port()?;
        let mut command = Command::new(program("memcached")?);
        let mib = start.memory_bytes >> 20;
        command.args(["-u", "nobody", "-U", "0", "-l", "127.0.0.1", "-c", "20000"]);
        command.args(["-p", &port.to_string(), "-m", &mib.to_string()]);
        command.args(["-t", &bench.settings.threads.to_string()]);
        if let Some((dir, bytes)) = start.flash {
            let file = dir.join("extstore");
            let _ = std::fs::remove_file(&file);
            allow_others(dir);
            command.args(["-o", &format!("ext_path={}:{}G", file.display(), bytes >> 30)]);
        }
        let targets = vec![format!("{}=memcached://{}", start.name, local(port))];
        Self::spawn(bench, &mut command, start, (targets, port))
    }

    pub(super) fn valkey(bench: &Bench, start: &Start<'_>) -> Result<Self, String> {
        let port = free_port()?;
        let mut command = Command::new(program("valkey-server")?);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--appendonly", "no", "--daemonize", "no"]);
        command.args(["--io-threads", &bench.settings.threads.to_string()]);
        command.args(["--maxmemory", &start.memory_bytes.to_string()]);
        command.args(["--maxmemory-policy", "allkeys-lru"]);
        let targets = vec![format!("{}=redis://{}", start.name, local(port))];
        Self::spawn(bench, &mut command, start, (targets, port))
    }

    fn spawn(
        bench: &Bench,
        command: &mut Command,
        start: &Start<'_>,
        (targets, port): (Vec<String>, u16),
    ) -> Result<Self, String> {
        let mut pinned = Command::new("taskset");
        pinned.args(["-c", &bench.settings.server_cores]).arg(command.get_program());
        pinned.args(command.get_args());
        let quiet = pinned.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = quiet.spawn().map_err(|cause| format!("taskset {}: {cause}", start.name))?;
        let mut contestant = Self { child, targets, _group: None };
        if let Some(bytes) = start.limit_bytes {
            contestant._group = Some(Cgroup::of(contestant.child.id(), start.name, bytes)?);
        }
        contestant.wait(port).map(|()| contestant)
    }

    fn wait(&mut self, port: u16) -> Result<(), String> {
        let begin = Instant::now();
        while begin.elapsed() < STARTS_WITHIN {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("{}: ended at once, {status}", self.targets.join(" ")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(format!("{}: does not listen", self.targets.join(" ")))
    }

    /// Memory that it has now, without that of files.
    pub(super) fn resident_bytes(&self) -> Result<u64, String> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(&path).map_err(|cause| format!("{path}: {cause}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.map(|kib| kib << 10).ok_or_else(|| format!("{path}: no RssAnon"))
    }

    /// The port of its first target.
    pub(super) fn port(&self) -> Option<u16> {
        self.targets.first()?.rsplit_once(':')?.1.parse().ok()
    }
}

impl Drop for Contestant {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program(name: &str) -> Result<PathBuf, String> {
    step::find_program(&[name]).ok_or_else(|| {
        format!("{name} is not installed (Debian: apt install memcached; valkey-server is in bookworm-backports)")
    })
}

fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// A port that nobody has now.
fn free_port() -> Result<u16, String> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|bound| bound.local_addr());
    bound.map(|address| address.port()).map_err(|cause| format!("no free port: {cause}"))
}

/// memcached gives up its rights before it makes its file.
fn allow_others(dir: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let _ = std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o777));
}
