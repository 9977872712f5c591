//! memcached's own tests, from the distribution's source package.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use super::outcome::SuiteOutcome;
use super::{source, tap};
use crate::served::Subject;
use crate::step;

/// A wrapper that runs our server under memcached's name, with memcached's options.
const WRAPPER: &str = include_str!("memcached-debug.sh");

/// The test files about client-visible behaviour.
const FILES: [&str; 46] = [
    "00-startup",
    "64bit",
    "ascii-auth",
    "binary",
    "binary-get",
    "binary-sasl",
    "bogus-commands",
    "cas",
    "chunked-items",
    "conn-limits",
    "daemonize",
    "dash-M",
    "flags",
    "flush-all",
    "getandtouch",
    "getset",
    "idle-timeout",
    "incrdecr",
    "issue_104",
    "issue_108",
    "issue_152",
    "issue_163",
    "issue_192",
    "issue_29",
    "issue_3",
    "issue_41",
    "issue_50",
    "issue_61",
    "issue_67",
    "issue_68",
    "issue_70",
    "item_size_max",
    "line-lengths",
    "malicious-commands",
    "maxconns",
    "metaget",
    "multiversioning",
    "noreply",
    "quit",
    "shutdown",
    "stats-conns",
    "stats-detail",
    "strtol-testing",
    "touch",
    "unixsocket",
    "expirations",
];

/// Known failures: file, number, and reason.
const KNOWN: [(&str, usize, &str); 16] = [
    (
        "00-startup",
        3,
        "-C, -b and -B are no settings: versions are always there, the protocol is found out",
    ),
    ("64bit", 4, "slabs, and a memory that takes no more"),
    ("cas", 2, "versions of different keys may be equal"),
    ("conn-limits", 3, "answers are sent when they become much, where memcached refuses"),
    ("dash-M", 1, "a full cache evicts"),
    ("flush-all", 3, "-F and -C are no settings"),
    ("idle-timeout", 3, "idle_kicks is not counted"),
    ("issue_163", 1, "slabs"),
    ("issue_29", 2, "slabs"),
    ("issue_50", 1, "an endpoint for the binary protocol alone"),
    ("issue_61", 1, "conn_yields: there are none"),
    ("issue_67", 24, "UDP"),
    ("item_size_max", 1, "values are at most 16 MiB"),
    ("shutdown", 3, "clients do not end the server"),
    ("stats-conns", 4, "a client is told of itself and of listeners, not of others; UDP"),
    ("stats-detail", 21, "nothing is counted by prefixes of keys"),
];

/// Fetches the tests and runs them, each file with its own servers.
pub(super) fn run(subject: &Subject, dir: &Path) -> Vec<SuiteOutcome> {
    match source::find("memcached", dir).and_then(|source| prepare(&source).map(|()| source)) {
        Ok(source) => FILES.iter().map(|file| run_file(file, subject, &source)).collect(),
        Err(why) => vec![SuiteOutcome::skipped("memcached t/*.t", why)],
    }
}

/// Makes the files that the tests expect to be built.
fn prepare(source: &Path) -> Result<(), String> {
    let wrapper = source.join("memcached-debug");
    let made = fs::write(&wrapper, WRAPPER).and_then(|()| make_executable(&wrapper));
    made.map_err(|cause| format!("cannot write {}: {cause}", wrapper.display()))?;
    if step::find_program(&["prove"]).is_none() {
        return Err("prove is not there (perl)".to_owned());
    }
    let mut compile = Command::new("cc");
    compile.current_dir(source).args(["-w", "-o", "timedrun", "timedrun.c"]);
    match step::succeeds(&mut compile) {
        true => Ok(()),
        false => Err("timedrun.c does not compile".to_owned()),
    }
}

#[cfg(unix)]
fn make_executable(file: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn run_file(file: &'static str, subject: &Subject, source: &Path) -> SuiteOutcome {
    let name = format!("memcached t/{file}.t");
    let path = format!("t/{file}.t");
    if !source.join(&path).is_file() {
        return SuiteOutcome::skipped(name, "this release does not have it");
    }
    eprintln!("{name}");
    let mut command = Command::new("timeout");
    command
        .args(["60", "perl", &path])
        .current_dir(source)
        .env("LARDER", &subject.larder)
        .env("LARDER_SOCKETS", subject.sockets);
    let output = match command.stdin(Stdio::null()).stderr(Stdio::null()).output() {
        Ok(output) => output,
        Err(cause) => return SuiteOutcome::skipped(name, cause.to_string()),
    };
    let tap::TapCounts { passed, failed, skipped } =
        tap::count(&String::from_utf8_lossy(&output.stdout));
    let known = KNOWN.iter().find(|known| known.0 == file).map(|known| (known.1, known.2));
    SuiteOutcome { name, passed, failed, skipped, known, note: String::new() }
}
