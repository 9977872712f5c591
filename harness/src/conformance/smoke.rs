//! Popular clients in several languages, with their most common operations. The programs in `smoke/` are ours; the
//! clients are fetched.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::outcome::SuiteOutcome;
use crate::fetched;
use crate::served::{Server, Subject, said};

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

fn redis_py(dir: &Path) -> Result<Command, String> {
    fetched::python(dir, &["redis"], &[("check.py", include_str!("smoke/redis_py.py"))])
}

fn meta_memcache(dir: &Path) -> Result<Command, String> {
    let program = ("check.py", include_str!("smoke/meta_client.py"));
    fetched::python(dir, &["meta-memcache"], &[program])
}

fn ioredis(dir: &Path) -> Result<Command, String> {
    fetched::node(dir, &["ioredis"], &[("check.js", include_str!("smoke/ioredis.js"))])
}

fn memjs(dir: &Path) -> Result<Command, String> {
    fetched::node(dir, &["memjs"], &[("check.js", include_str!("smoke/memjs.js"))])
}

fn go_redis(dir: &Path) -> Result<Command, String> {
    let program = ("main.go", include_str!("smoke/go_redis.go"));
    fetched::go(dir, &["github.com/redis/go-redis/v9"], &[program])
}

fn jedis(dir: &Path) -> Result<Command, String> {
    let program = ("Smoke.java", include_str!("smoke/Jedis.java"));
    fetched::java(dir, ("redis.clients", "jedis", "5.2.0"), &[program])
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
