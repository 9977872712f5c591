//! A server under measurement, stopped on drop.

use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::cgroup::Cgroup;
use super::settings::Bench;
use crate::port::{self, local};
use crate::step;

/// A server that does not listen within this time has failed to start.
const STARTS_WITHIN: Duration = Duration::from_secs(20);

/// See the module.
pub(super) struct Contestant {
    child: Child,
    /// Targets in the form of `larder bench`: a name, and the address.
    pub(super) targets: Vec<String>,
    /// The port of its metrics, if it has any.
    pub(super) admin: Option<u16>,
    /// Dropped after the process, which is in the group.
    _group: Option<Cgroup>,
}

/// How to start a server.
pub(super) struct Start<'a> {
    pub(super) name: &'a str,
    pub(super) memory_bytes: u64,
    /// Directory and size of its flash, if it has any.
    pub(super) flash: Option<(&'a Path, u64)>,
    /// Memory limit of its control group, which includes the page cache.
    pub(super) limit_bytes: Option<u64>,
}

impl Contestant {
    /// `larder serve`, with both protocols; `sockets` is epoll or io_uring.
    pub(super) fn larder(bench: &Bench, start: &Start<'_>, sockets: &str) -> Result<Self, String> {
        let (memcached, resp) = (port::free()?, port::free()?);
        let admin = port::free()?;
        let mut command = larder(bench, start, sockets);
        command.args(["--admin", &local(admin)]);
        command.args(["--memcached", &local(memcached), "--resp", &local(resp)]);
        let name = start.name;
        let targets = vec![
            format!("{name}=memcached://{}", local(memcached)),
            format!("{name}=redis://{}", local(resp)),
        ];
        let mut server = Self::spawn(bench, &mut command, start, (targets, memcached))?;
        server.admin = Some(admin);
        Ok(server)
    }

    /// The same with memcached's protocol, once without and once with TLS.
    pub(super) fn larder_with_tls(
        bench: &Bench,
        start: &Start<'_>,
        sockets: &str,
        (certificate, key): (&Path, &Path),
    ) -> Result<Self, String> {
        let (plain, secret) = (port::free()?, port::free()?);
        let mut command = larder(bench, start, sockets);
        command.args(["--admin", "none", "--resp", "none", "--memcached", &local(plain)]);
        command.args(["--memcached-tls", &local(secret)]);
        command.arg("--tls-certificate").arg(certificate).arg("--tls-key").arg(key);
        let targets = vec![
            format!("{}=memcached://{}", start.name, local(plain)),
            format!("{} TLS=memcached+tls://{}", start.name, local(secret)),
        ];
        Self::spawn(bench, &mut command, start, (targets, plain))
    }

    /// The same for two tenants that have half each, with a target for each: the quiet one's first.
    pub(super) fn larder_for_two(
        bench: &Bench,
        start: &Start<'_>,
        sockets: &str,
    ) -> Result<Self, String> {
        let ports = [("quiet", port::free()?), ("loud", port::free()?)];
        let tenant = |(name, port): (&str, u16)| {
            let place = local(port);
            format!("[[tenant]]\nname = \"{name}\"\nshare = 50\nmemcached = \"{place}\"\n\n")
        };
        let file = bench.dir.join("two-tenants.toml");
        std::fs::write(&file, ports.map(tenant).concat())
            .map_err(|cause| format!("{}: {cause}", file.display()))?;
        let mut command = larder(bench, start, sockets);
        command.args(["--admin", "none", "--resp", "none", "--memcached", "none"]);
        command.args(["--value-max", "16M", "--connections", "12000", "--config"]).arg(file);
        let target = |(name, port): (&str, u16)| format!("{name}=memcached://{}", local(port));
        Self::spawn(bench, &mut command, start, (ports.map(target).to_vec(), ports[0].1))
    }

    pub(super) fn memcached(bench: &Bench, start: &Start<'_>) -> Result<Self, String> {
        let port = port::free()?;
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
        let port = port::free()?;
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
        let mut contestant = Self { child, targets, admin: None, _group: None };
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

    /// Its current resident memory, without file pages.
    pub(super) fn resident_bytes(&self) -> Result<u64, String> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(&path).map_err(|cause| format!("{path}: {cause}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.map(|kib| kib << 10).ok_or_else(|| format!("{path}: no RssAnon"))
    }

    /// Processor time that it has taken, in seconds, in steps of 10 ms.
    pub(super) fn cpu_seconds(&self) -> Result<f64, String> {
        /// `USER_HZ`, which is the same on all systems of this processor.
        const TICKS_A_SECOND: f64 = 100.0;
        let path = format!("/proc/{}/stat", self.child.id());
        let text = std::fs::read_to_string(&path).map_err(|cause| format!("{path}: {cause}"))?;
        // Behind the name in brackets; user and kernel time are the 14th and 15th field of all.
        let fields = text.rsplit_once(") ").map(|(_, fields)| fields.split(' '));
        let ticks = fields.map(|fields| fields.skip(11).take(2).filter_map(|it| it.parse().ok()));
        let ticks: Option<Vec<u32>> = ticks.map(Iterator::collect);
        match ticks.as_deref() {
            Some([user, kernel]) => Ok(f64::from(user + kernel) / TICKS_A_SECOND),
            _ => Err(format!("{path}: no times")),
        }
    }

    /// The port of its first target.
    pub(super) fn port(&self) -> Option<u16> {
        self.port_of(0)
    }

    /// The port of a target.
    pub(super) fn port_of(&self, target: usize) -> Option<u16> {
        self.targets.get(target)?.rsplit_once(':')?.1.parse().ok()
    }

    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Contestant {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `larder serve` with the options that all variants have in common.
fn larder(bench: &Bench, start: &Start<'_>, sockets: &str) -> Command {
    let mut command = Command::new(&bench.larder);
    command.args(["serve", "--drain", "0", "--sockets", sockets]);
    command.args(["--workers", &bench.settings.threads.to_string()]);
    command.args(["--memory", &start.memory_bytes.to_string()]);
    match start.flash {
        None => command.args(["--flash", "0"]),
        Some((dir, bytes)) => command.args(["--flash", &bytes.to_string(), "--data-dir"]).arg(dir),
    };
    command
}

pub(super) fn program(name: &str) -> Result<PathBuf, String> {
    step::find_program(&[name]).ok_or_else(|| {
        format!("{name} is not installed (Debian: apt install memcached; valkey-server is in bookworm-backports)")
    })
}

/// memcached drops its privileges before it creates its file.
fn allow_others(dir: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let _ = std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o777));
}
