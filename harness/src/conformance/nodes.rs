//! Two nodes that divide the keys. One is killed under load and comes back. Tested behind twemproxy in both its modes,
//! with the configuration of `contrib/`, and with a cluster client that knows the slots.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::outcome::SuiteOutcome;
use super::smoke;
use crate::fetched;
use crate::port::{self, local};
use crate::process::Process;
use crate::served::Subject;
use crate::{step, workspace};

/// How long the clients make requests, when a node is killed, and when it is restarted.
const ASKED: Duration = Duration::from_secs(20);
const KILLED: Duration = Duration::from_secs(6);
const BACK: Duration = Duration::from_secs(10);

const CLIENT: &str = include_str!("nodes/client.py");

/// Runs what is available.
pub(super) fn run(subject: &Subject, dir: &Path) -> Vec<SuiteOutcome> {
    let dir = dir.join("nodes");
    ["memcached", "redis", "cluster"].iter().map(|kind| of(kind, subject, &dir)).collect()
}

fn of(kind: &str, subject: &Subject, dir: &Path) -> SuiteOutcome {
    let name = match kind {
        "cluster" => "two nodes, cluster client".to_owned(),
        _ => format!("two nodes, nutcracker, {kind}"),
    };
    match tried(kind, subject, dir) {
        Ok(text) => {
            let told: Vec<&str> = text.lines().collect();
            SuiteOutcome {
                note: format!(" ({})", told.join("; ")),
                ..smoke::counted(name, None, &text)
            }
        }
        Err(why) => SuiteOutcome::skipped(name, why),
    }
}

/// Returns the client's output.
fn tried(kind: &str, subject: &Subject, dir: &Path) -> Result<String, String> {
    let package = if kind == "memcached" { "pymemcache" } else { "redis" };
    let home = dir.join(package);
    fs::create_dir_all(&home).map_err(|cause| format!("{}: {cause}", home.display()))?;
    let mut client = fetched::python(&home, &[package], &[("check.py", CLIENT)])?;
    let mut nodes = [Node::new(kind, subject, dir, 0)?, Node::new(kind, subject, dir, 1)?];
    let ports = nodes.each_ref().map(|node| node.port);
    for node in &mut nodes {
        node.start(kind, &ports)?;
    }
    let (_proxy, port) = match kind {
        "cluster" => (None, ports[0]),
        _ => proxy(kind, dir, &ports).map(|(proxy, port)| (Some(proxy), port))?,
    };
    client.args([kind, &ASKED.as_secs().to_string(), &port.to_string()]);
    let client = client.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let client = client.map_err(|cause| cause.to_string())?;
    std::thread::sleep(KILLED);
    let [_, killed] = &mut nodes;
    killed.process = None;
    std::thread::sleep(BACK.saturating_sub(KILLED));
    killed.start(kind, &ports)?;
    let output = client.wait_with_output().map_err(|cause| cause.to_string())?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// A server, and the place of its persistent files.
struct Node {
    larder: PathBuf,
    sockets: &'static str,
    home: PathBuf,
    port: u16,
    process: Option<Process>,
}

impl Node {
    fn new(kind: &str, subject: &Subject, dir: &Path, number: u8) -> Result<Self, String> {
        let home = dir.join(format!("{kind}-{number}"));
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(&home).map_err(|cause| format!("{}: {cause}", home.display()))?;
        let (larder, sockets) = (subject.larder.clone(), subject.sockets);
        Ok(Self { larder, sockets, home, port: port::free()?, process: None })
    }

    fn start(&mut self, kind: &str, ports: &[u16; 2]) -> Result<(), String> {
        let (ours, other) =
            if kind == "memcached" { ("--memcached", "--resp") } else { ("--resp", "--memcached") };
        let mut command = Command::new(&self.larder);
        command.args(["serve", ours, &local(self.port), other, "none", "--admin", "none"]);
        command
            .args(["--sockets", self.sockets, "--memory", "64M", "--flash", "256M", "--data-dir"])
            .arg(&self.home);
        if kind == "cluster" {
            command.arg("--config").arg(self.slots(ports)?);
        }
        self.process = Some(Process::start(&mut command, self.port)?);
        Ok(())
    }

    /// Writes a configuration with the slots of both nodes.
    fn slots(&self, [first, second]: &[u16; 2]) -> Result<PathBuf, String> {
        let text = format!(
            "[cluster]\nmyself = \"{}\"\nslots = {{ \"0-8191\" = \"{}\", \"8192-16383\" = \"{}\" }}\n",
            local(self.port),
            local(*first),
            local(*second)
        );
        let path = self.home.join("larder.toml");
        fs::write(&path, text).map_err(|cause| format!("{}: {cause}", path.display()))?;
        Ok(path)
    }
}

/// Starts twemproxy with the configuration in `contrib/`, except for the addresses and the number of servers.
fn proxy(kind: &str, dir: &Path, ports: &[u16; 2]) -> Result<(Process, u16), String> {
    let program = step::find_program(&["nutcracker"]).ok_or("nutcracker is not there")?;
    let path = workspace::root().join("contrib/proxies/nutcracker.yml");
    let text = fs::read_to_string(&path).map_err(|cause| format!("{}: {cause}", path.display()))?;
    let pool = if kind == "memcached" { "larder_memcached:" } else { "larder_redis:" };
    let port = port::free()?;
    let ours = dir.join(format!("nutcracker-{kind}.yml"));
    fs::write(&ours, pool_of(&text, pool, port, ports)?)
        .map_err(|cause| format!("{}: {cause}", ours.display()))?;
    let mut command = Command::new(program);
    command.arg("-c").arg(ours).args(["-s", &port::free()?.to_string()]);
    Ok((Process::start(&mut command, port)?, port))
}

/// One pool of a configuration, at this port. The given servers replace all of its servers.
fn pool_of(text: &str, pool: &str, port: u16, servers: &[u16]) -> Result<String, String> {
    let lines = text.lines().skip_while(|line| *line != pool);
    let lines = lines.enumerate().take_while(|(at, line)| *at == 0 || line.starts_with(' '));
    let (mut taken, mut servers) = (String::new(), servers.iter());
    for (_, line) in lines {
        let line = match line.trim_start() {
            setting if setting.starts_with("listen:") => format!("  listen: {}", local(port)),
            server if server.starts_with("- ") => {
                let Some(server_port) = servers.next() else { continue };
                let name = server.rsplit(' ').next().unwrap_or_default();
                format!("    - {}:1 {name}", local(*server_port))
            }
            _ => line.to_owned(),
        };
        taken.push_str(&line);
        taken.push('\n');
    }
    match taken.is_empty() || servers.next().is_some() {
        true => Err(format!("contrib's nutcracker.yml has no {pool} with that number of servers")),
        false => Ok(taken),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_of_the_configuration_is_taken_with_other_addresses() {
        let text = "a:\n  listen: 1.1.1.1:1\n  hash: x\n  servers:\n    - 2.2.2.2:2:1 one\n\
                    \x20   - 2.2.2.2:3:1 two\n\nb:\n  hash: y\n";
        let pool = pool_of(text, "a:", 7, &[8]).unwrap();
        assert_eq!(
            pool,
            "a:\n  listen: 127.0.0.1:7\n  hash: x\n  servers:\n    - 127.0.0.1:8:1 one\n"
        );
        assert!(pool_of(text, "c:", 7, &[8]).is_err());
        assert!(pool_of(text, "a:", 7, &[8, 9, 10]).is_err());
    }
}
