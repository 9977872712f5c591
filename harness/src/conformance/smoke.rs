//! Popular clients in several languages, with their most common operations. The programs in `smoke/` are ours; the
//! clients are fetched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::outcome::SuiteOutcome;
use crate::served::{Server, Subject, said};
use crate::{maven, step};

/// A client and its test program.
struct Client {
    name: &'static str,
    protocol: &'static str,
    /// Prepares the client in a directory, and returns the command that runs the program.
    prepare: fn(&Path) -> Result<Command, String>,
    /// Known failures that are the client's fault.
    known: Option<(usize, &'static str)>,
}

const CLIENTS: [Client; 6] = [
    Client { name: "redis-py", protocol: "resp", prepare: redis_py, known: None },
    Client { name: "go-redis", protocol: "resp", prepare: go_redis, known: None },
    Client { name: "ioredis", protocol: "resp", prepare: ioredis, known: None },
    Client { name: "Jedis", protocol: "resp", prepare: jedis, known: None },
    Client { name: "memjs", protocol: "memcached", prepare: memjs, known: None },
    Client {
        name: "meta-memcache",
        protocol: "memcached",
        prepare: meta_memcache,
        known: Some((1, "it reads versions (cas) of more than 32 bits as none")),
    },
];

/// Runs all clients that are available.
pub(super) fn run(subject: &Subject, dir: &Path) -> Vec<SuiteOutcome> {
    CLIENTS.iter().map(|client| of(client, subject, &dir.join("smoke").join(client.name))).collect()
}

fn of(client: &Client, subject: &Subject, dir: &Path) -> SuiteOutcome {
    let name = format!("smoke: {}", client.name);
    let made = fs::create_dir_all(dir).map_err(|cause| format!("{}: {cause}", dir.display()));
    let tried = made.and_then(|()| (client.prepare)(dir)).and_then(|mut command| {
        let server = Server::start(subject, client.protocol, &["--memory", "64M", "--flash", "0"])?;
        said(command.arg(&server.port).current_dir(dir))
    });
    match tried {
        Err(why) => SuiteOutcome::skipped(name, why),
        Ok(text) => counted(name, client.known, &text),
    }
}

pub(super) fn counted(
    name: String,
    known: Option<(usize, &'static str)>,
    text: &str,
) -> SuiteOutcome {
    let passed = text.lines().filter(|line| line.starts_with("ok ")).count();
    let wrong: Vec<&str> = text.lines().filter(|line| !line.starts_with("ok ")).collect();
    let failed = wrong.iter().filter(|line| line.starts_with("not ok ")).count();
    // A program that stops early has not passed either.
    let failed = failed.max(usize::from(passed == 0 || text.contains("Traceback")));
    let note = if failed > 0 { format!(" ({})", wrong.join("; ")) } else { String::new() };
    SuiteOutcome { name, passed, failed, skipped: 0, known, note }
}

/// Runs a command silently. It must succeed.
fn done(command: &mut Command, what: &str) -> Result<(), String> {
    match step::succeeds(command) {
        true => Ok(()),
        false => Err(format!("{what} cannot be had")),
    }
}

/// A virtual environment with a package, and the command that runs a program of ours in it.
pub(super) fn python(dir: &Path, package: &str, program: &str) -> Result<Command, String> {
    let python = dir.join("bin/python");
    let install = [python.as_os_str(), "-m".as_ref(), "pip".as_ref(), "install".as_ref()];
    if !python.exists() {
        done(Command::new("python3").args(["-m", "venv"]).arg(dir), "a Python environment")?;
    }
    done(Command::new(install[0]).args(&install[1..]).args(["-q", package]), package)?;
    let mut command = Command::new(python);
    command.arg(put(dir, "check.py", program)?);
    Ok(command)
}

fn redis_py(dir: &Path) -> Result<Command, String> {
    python(dir, "redis", include_str!("smoke/redis_py.py"))
}

fn meta_memcache(dir: &Path) -> Result<Command, String> {
    python(dir, "meta-memcache", include_str!("smoke/meta_client.py"))
}

fn node(dir: &Path, package: &str, program: &str) -> Result<Command, String> {
    let mut install = Command::new("npm");
    install.args(["install", "--silent", "--no-save", "--prefix"]).arg(dir).arg(package);
    done(&mut install, package)?;
    let mut command = Command::new("node");
    command.arg(put(dir, "check.js", program)?);
    Ok(command)
}

fn ioredis(dir: &Path) -> Result<Command, String> {
    node(dir, "ioredis", include_str!("smoke/ioredis.js"))
}

fn memjs(dir: &Path) -> Result<Command, String> {
    node(dir, "memjs", include_str!("smoke/memjs.js"))
}

fn go_redis(dir: &Path) -> Result<Command, String> {
    put(dir, "main.go", include_str!("smoke/go_redis.go"))?;
    put(dir, "go.mod", "module check\n\ngo 1.21\n")?;
    let go = |words: &[&str]| {
        let mut command = Command::new("go");
        command.current_dir(dir).env("GOFLAGS", "-mod=mod").args(words);
        command
    };
    done(&mut go(&["get", "github.com/redis/go-redis/v9"]), "go-redis")?;
    done(&mut go(&["build", "-o", "check", "."]), "go-redis")?;
    Ok(Command::new(dir.join("check")))
}

fn jedis(dir: &Path) -> Result<Command, String> {
    maven::fetch(dir, ("redis.clients", "jedis", "5.2.0"))?;
    let mut command = Command::new("java");
    command.arg("-cp").arg(dir.join(maven::JARS).join("*"));
    command.arg(put(dir, "Smoke.java", include_str!("smoke/Jedis.java"))?);
    Ok(command)
}

fn put(dir: &Path, name: &str, text: &str) -> Result<PathBuf, String> {
    let path = dir.join(name);
    fs::write(&path, text).map_err(|cause| format!("{}: {cause}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_stops_in_the_middle_has_not_passed() {
        let counts = |text| {
            let SuiteOutcome { passed, failed, .. } = counted(String::new(), None, text);
            (passed, failed)
        };
        assert_eq!(counts("ok a\nok b\n"), (2, 0));
        assert_eq!(counts("ok a\nnot ok b\n"), (1, 1));
        assert_eq!(counts("ok a\nTraceback (most recent call last):\n"), (1, 1));
        assert_eq!(counts(""), (0, 1));
    }
}
