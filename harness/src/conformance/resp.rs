//! Redis' own tests of strings, collections, keys and channels, from the distribution's source package, and those
//! of redis-py.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::outcome::SuiteOutcome;
use super::source;
use crate::served::{Server, Subject, said};
use crate::step;

/// Options of the server.
const OPTIONS: [&str; 10] = [
    "--memory",
    "256M",
    "--flash",
    "0",
    "--value-max",
    "16M",
    "--collection-max",
    "16M",
    // A test packs three tables of 100,000 strings.
    "--script-memory-max",
    "64M",
];

/// The test files about strings, collections, keys, channels, and the protocol.
const FILES: [&str; 23] = [
    "unit/sort",
    "unit/type/hash",
    "unit/type/set",
    "unit/type/zset",
    "unit/type/list",
    "unit/type/list-2",
    "unit/type/list-3",
    "unit/bitops",
    "unit/bitfield",
    "unit/hyperloglog",
    "unit/type/string",
    "unit/type/incr",
    "unit/expire",
    "unit/keyspace",
    "unit/dump",
    "unit/multi",
    "unit/other",
    "unit/protocol",
    "unit/pubsub",
    "unit/tracking",
    "unit/scan",
    "unit/quit",
    SCRIPTS,
];

/// The tests of scripts, without those of functions: a copy of `unit/scripting`, which runs each test with both.
const SCRIPTS: &str = "unit/scripting-eval";
const WITH_FUNCTIONS: &str = "foreach is_eval {0 1} {";
const WITHOUT_FUNCTIONS: &str = "foreach is_eval {1} {";

/// The test publishes by another connection, and reads its subscriber's answer later.
const NOT_AWAITED: &str = "an order between two connections, which may be on different threads";

const MAXMEMORY: &str = "CONFIG SET maxmemory, below which nothing is refused: the cache evicts";
const TIME_LIMIT: &str =
    "CONFIG SET lua-time-limit, after which Redis answers BUSY: here the script is stopped";
const NOT_RESET: &str = "CONFIG RESETSTAT, and statistics of errors";

const WOKEN: &str =
    "a push is answered before the clients that it wakes, on other threads, have taken it";
const ACCESS_OF_DUMPS: &str = "the idle time or frequency of a dump, which begin anew here";
const WITHIN_SCRIPTS: &str =
    "a refusal of requests that wait: as in Valkey 8, they do not wait within a script";

/// The test waits, and sends no request that finds it.
const NOT_EXPIRED: &str = "a key whose time is over, before a request or an eviction finds that";

/// Tests that need features that the server does not have: prefix of the name, and the missing feature.
const SKIPPED: [(&str, &str); 60] = [
    ("LCS", "common subsequences"),
    ("RESTORE can set LRU", ACCESS_OF_DUMPS),
    ("RESTORE can set LFU", ACCESS_OF_DUMPS),
    ("MIGRATE cached connections", "MIGRATE"),
    ("EXEC fails if there are errors while queueing commands #2", MAXMEMORY),
    ("SAVE - make sure there are all the types as values", "SAVE"),
    ("Perform a final SAVE to leave a clean DB on disk", "SAVE"),
    ("RESET clears MONITOR state", "MONITOR"),
    ("RESET clears authenticated state", "users that clients make"),
    ("EVAL - Scripts can't run bl", WITHIN_SCRIPTS),
    ("EVAL - Scripts can't run br", WITHIN_SCRIPTS),
    ("EVAL - Scripts can't run bz", WITHIN_SCRIPTS),
    (
        "Redis should actively expire keys incrementally",
        "an expired key counts until a call finds it expired",
    ),
    ("COPY basic usage for stream", "streams"),
    (
        "Regression for pattern matching very long nested loops",
        "a long pattern is followed to its end, and fits",
    ),
    ("Keyspace notifications: stream events", "streams"),
    ("Keyspace notifications: evicted events", MAXMEMORY),
    ("Keyspace notifications: expired events (background expire)", NOT_EXPIRED),
    ("Tracking gets notification of expired keys", NOT_EXPIRED),
    ("Tracking invalidation message of eviction keys should be before response", MAXMEMORY),
    (
        "Tracking only occurs for scripts when a command calls a read-only command",
        "a script's declared keys, which it does not read: as in Valkey, those that it reads are tracked",
    ),
    ("PUBLISH/SUBSCRIBE after UNSUBSCRIBE without arguments", NOT_AWAITED),
    ("PUBLISH/PSUBSCRIBE after PUNSUBSCRIBE without arguments", NOT_AWAITED),
    ("Script - disallow write on OOM", MAXMEMORY),
    ("EVAL - Scripts can't run XREAD", "streams"),
    ("CLUSTER RESET can not be invoke", "CLUSTER RESET"),
    ("Script ACL check", "users that clients make"),
    ("Timedout read-only scripts can be killed", TIME_LIMIT),
    ("Timedout script does not cause a false dead client", TIME_LIMIT),
    ("Timedout script link is still usable", TIME_LIMIT),
    ("allow-oom shebang flag", MAXMEMORY),
    ("not enough good replicas", "replicas"),
    ("reject script do not cause a Lua stack leak", MAXMEMORY),
    ("Consistent eval error reporting", NOT_RESET),
    ("LUA redis.error_reply API", NOT_RESET),
    ("LUA redis.status_reply API", NOT_RESET),
    ("SETBIT/BITFIELD only increase dirty", "a count of changes since the last dump"),
    ("Hash ziplist of various encodings", "dumps with ziplists, as before Redis 7"),
    ("List ziplist of various encodings", "dumps with ziplists, as before Redis 7"),
    ("Linked LMOVEs", WOKEN),
    ("Circular BRPOPLPUSH", WOKEN),
    ("WATCH will consider touched expired keys", NOT_EXPIRED),
    ("DISCARD should not fail during OOM", MAXMEMORY),
    ("EXEC with only read commands should not be rejected when OOM", MAXMEMORY),
    ("EXEC with at least one use-memory command should fail", MAXMEMORY),
    ("MULTI with config error", MAXMEMORY),
    ("MULTI and script timeout", TIME_LIMIT),
    ("EXEC and script timeout", TIME_LIMIT),
    ("MULTI-EXEC body and script timeout", TIME_LIMIT),
    ("just EXEC and script timeout", TIME_LIMIT),
    ("Blocking commands ignores the timeout", "streams"),
    ("MULTI with SAVE", "SAVE"),
    ("MULTI with SHUTDOWN", "SHUTDOWN: a client cannot end this server"),
    ("HyperLogLog self test passes", "a self test over the protocol"),
    ("HyperLogLogs are promote", "PFDEBUG"),
    ("HyperLogLog sparse encoding stress test", "PFDEBUG"),
    ("PFDEBUG GETREG", "PFDEBUG"),
    (
        "Corrupted sparse HyperLogLogs doesn't cause overflow and out-of-bounds with XZERO",
        "PFDEBUG",
    ),
    (
        "Corrupted sparse HyperLogLogs doesn't cause overflow and out-of-bounds with ZERO",
        "values of more than value_max",
    ),
    ("PFADD / PFCOUNT cache invalidation works", "a stored count: a read changes nothing"),
];

/// Excludes tests that need more than strings and keys, or a server that the harness started itself.
const TAGS: &str = "-needs:debug -needs:repl -external:skip -large-memory -slow";

/// The release whose tests are run, and its test dependencies.
const REDIS_PY: &str = "redis==8.1.0";
const REDIS_PY_NEEDS: [&str; 5] =
    ["pytest", "pytest-asyncio", "pytest-timeout", "packaging", "mock"];
/// Tests of redis-py, selected by name.
const REDIS_PY_TESTS: &str = "(test_set or test_get or test_mset or test_mget or test_incr or test_decr or test_append \
                              or test_expire or test_pexpire or test_ttl or test_pttl or test_persist or test_rename \
                              or test_exists or test_delete or test_unlink or test_touch or test_strlen or test_scan \
                              or test_keys or test_ping or test_echo or test_dbsize or test_randomkey) \
                              and not bit and not bf and not json and not script and not list and not hash";

/// Number of known failures among them, with the reason.
const REDIS_PY_KNOWN: (usize, &str) =
    (3, "several nodes, and points in time beyond the year 2106 (two)");

/// Fetches the tests and runs them.
pub(super) fn run(subject: &Subject, dir: &Path) -> Vec<SuiteOutcome> {
    let mut outcomes = match prepared(dir) {
        Ok(tests) => FILES.iter().map(|file| run_file(file, subject, &tests)).collect(),
        Err(why) => vec![SuiteOutcome::skipped("redis tests/unit", why)],
    };
    outcomes.push(redis_py(subject, dir));
    outcomes
}

/// The source directory, with placeholder programs where the tests look for them. The tests do not start them.
fn prepared(dir: &Path) -> Result<PathBuf, String> {
    if step::find_program(&["tclsh"]).is_none() {
        return Err("tclsh is not there (tcl)".to_owned());
    }
    let tests = source::find("redis", dir)?;
    for name in ["redis-server", "redis-cli", "redis-benchmark"] {
        let program = tests.join("src").join(name);
        let made = fs::write(&program, "#!/bin/sh\n").and_then(|()| executable(&program));
        made.map_err(|cause| format!("cannot write {}: {cause}", program.display()))?;
    }
    let read = |name: &str| {
        let file = tests.join("tests").join(name).with_extension("tcl");
        fs::read_to_string(&file)
            .map_err(|cause| format!("cannot read {}: {cause}", file.display()))
    };
    let scripts = read("unit/scripting")?;
    if !scripts.contains(WITH_FUNCTIONS) {
        return Err("unit/scripting is not the one that is known".to_owned());
    }
    let file = tests.join("tests").join(SCRIPTS).with_extension("tcl");
    let written = fs::write(&file, scripts.replace(WITH_FUNCTIONS, WITHOUT_FUNCTIONS));
    written.map_err(|cause| format!("cannot write {}: {cause}", file.display()))?;
    Ok(tests)
}

#[cfg(unix)]
fn executable(file: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn executable(_: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

fn run_file(file: &str, subject: &Subject, tests: &Path) -> SuiteOutcome {
    let name = format!("redis {file}");
    let tried = Server::start(subject, "resp", &OPTIONS).and_then(|server| {
        let mut command = Command::new("tclsh");
        command.current_dir(tests).args(["tests/test_helper.tcl", "--host", "127.0.0.1"]);
        command.args(["--port", &server.port, "--singledb", "--ignore-encoding"]);
        command.args(["--ignore-digest", "--durable", "--timeout", "120", "--single", file]);
        // One that fails may leave its connection in the middle of something, or end the file.
        for (begin, _) in SKIPPED {
            command.arg("--skiptest").arg(format!("/^{}", pattern_of(begin)));
        }
        said(command.args(["--tags", TAGS]))
    });
    match tried {
        Ok(text) => judged(name, &text),
        Err(why) => SuiteOutcome::skipped(name, why),
    }
}

/// A regular expression that fits this text alone.
fn pattern_of(text: &str) -> String {
    let mut pattern = String::new();
    for letter in text.chars() {
        if !letter.is_alphanumeric() && letter != ' ' {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

/// Counts the results in the coloured output of the harness.
fn judged(name: String, text: &str) -> SuiteOutcome {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let mut unknown = Vec::new();
    for line in text.lines() {
        let plain = without_colours(line);
        if plain.starts_with("[ok]:") {
            passed += 1;
        } else if plain.starts_with("[ignore]:") || plain.starts_with("[skip]:") {
            skipped += 1;
        } else if let Some(test) = plain.strip_prefix("[err]: ") {
            match SKIPPED.iter().any(|(begin, _)| test.starts_with(begin)) {
                true => skipped += 1,
                false => {
                    failed += 1;
                    unknown.push(test.split(" in tests/").next().unwrap_or(test).to_owned());
                }
            }
        }
    }
    // A suite without output has not passed.
    failed += usize::from(passed + failed + skipped == 0);
    SuiteOutcome { name, passed, failed, skipped, known: None, note: unknown.join("; ") }
}

fn without_colours(line: &str) -> String {
    let mut plain = String::new();
    let mut parts = line.split('\u{1b}');
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        plain.push_str(part.split_once('m').map_or(part, |(_, behind)| behind));
    }
    plain
}

fn redis_py(subject: &Subject, dir: &Path) -> SuiteOutcome {
    let name = "redis-py 8.1.0, test_commands";
    let tried = tests_of_redis_py(dir).and_then(|(python, tests)| {
        let server = Server::start(subject, "resp", &OPTIONS)?;
        let mut command = Command::new(python);
        command.current_dir(tests).args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
        command.args(["tests/test_commands.py", "--redis-url"]);
        command.arg(format!("redis://127.0.0.1:{}/0", server.port));
        said(command.args(["-k", REDIS_PY_TESTS]))
    });
    match tried {
        Ok(text) => {
            let last = text.lines().rev().find(|line| line.contains(" in ")).unwrap_or_default();
            let of = |word: &str| count_before(last, word);
            let failed = of("failed") + of("error") + of("errors");
            let failed = failed + usize::from(of("passed") + failed == 0);
            let note = String::new();
            let (passed, skipped) = (of("passed"), of("skipped"));
            SuiteOutcome {
                name: name.to_owned(),
                passed,
                failed,
                skipped,
                known: Some(REDIS_PY_KNOWN),
                note,
            }
        }
        Err(why) => SuiteOutcome::skipped(name, why),
    }
}

/// The number before a word.
fn count_before(line: &str, word: &str) -> usize {
    let words: Vec<&str> = line.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let pair = words.windows(2).find(|pair| pair.get(1) == Some(&word));
    pair.and_then(|pair| pair.first()?.parse().ok()).unwrap_or(0)
}

/// A Python with the client, and the directory of its tests, which only the source package contains.
fn tests_of_redis_py(dir: &Path) -> Result<(PathBuf, PathBuf), String> {
    let python = step::find_program(&["python3"]).ok_or("python3 is not there")?;
    let own = dir.join("redis-py");
    let (venv, tests) = (own.join("venv"), own.join("redis-8.1.0"));
    let inside = venv.join("bin/python");
    if !tests.is_dir() {
        let made = step::succeeds(Command::new(python).args(["-m", "venv"]).arg(&venv))
            && step::succeeds(
                Command::new(&inside).args(["-m", "pip", "install", REDIS_PY]).args(REDIS_PY_NEEDS),
            )
            && step::succeeds(Command::new(&inside).current_dir(&own).args([
                "-m",
                "pip",
                "download",
                "--no-deps",
                "--no-binary",
                "redis",
                REDIS_PY,
            ]))
            && step::succeeds(
                Command::new("tar").current_dir(&own).args(["-xzf", "redis-8.1.0.tar.gz"]),
            );
        if !made {
            return Err("redis-py cannot be had".to_owned());
        }
    }
    Ok((inside, tests))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_harness_says_is_counted() {
        let text = "[\u{1b}[0;32mok\u{1b}[0m]: SET and GET an item (1 ms)\n[ignore]: x: tag\n\
                    [\u{1b}[0;31;49merr\u{1b}[0m]: LCS len in tests/unit/type/string.tcl\n[err]: INCR in tests/x.tcl\n";
        let outcome = judged("a".to_owned(), text);
        assert_eq!((outcome.passed, outcome.failed, outcome.skipped), (1, 1, 2));
        assert_eq!(outcome.note, "INCR");
        assert_eq!(judged("a".to_owned(), "").failed, 1);
        assert_eq!(pattern_of("SAVE - it's #2"), "SAVE \\- it\\'s \\#2");
        assert_eq!(count_before("3 failed, 195 passed, 101 skipped in 9.2s", "passed"), 195);
    }
}
