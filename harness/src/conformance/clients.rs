//! Clients with their own tests: memccapable of libmemcached, and pymemcache.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::outcome::SuiteOutcome;
use crate::served::{Server, Subject, said};
use crate::step;

/// Options of the server.
const OPTIONS: [&str; 4] = ["--memory", "64M", "--flash", "0"];

/// The release whose tests are run, and its test dependencies.
const PYMEMCACHE: [&str; 3] = ["pymemcache==4.0.0", "pytest", "faker"];

/// Runs the tests of all clients that are available.
pub(super) fn run(subject: &Subject, dir: &Path) -> Vec<SuiteOutcome> {
    vec![
        memccapable("memccapable, text", "-a", subject),
        memccapable("memccapable, binary", "-b", subject),
        pymemcache(subject, dir),
    ]
}

fn memccapable(name: &str, dialect: &str, subject: &Subject) -> SuiteOutcome {
    let Some(program) = step::find_program(&["memccapable"]) else {
        return SuiteOutcome::skipped(name, "memccapable is not there (libmemcached-tools)");
    };
    let tried = Server::start(subject, "memcached", &OPTIONS).and_then(|server| {
        said(Command::new(program).args(["-h", "127.0.0.1", "-p", &server.port, dialect]))
    });
    match tried {
        Ok(text) => counted(name, &text, "[pass]", "[FAIL]"),
        Err(why) => SuiteOutcome::skipped(name, why),
    }
}

fn counted(name: &str, text: &str, pass: &str, fail: &str) -> SuiteOutcome {
    let (passed, failed) = (text.matches(pass).count(), text.matches(fail).count());
    // A client without output has not passed.
    let failed = failed + usize::from(passed + failed == 0);
    SuiteOutcome {
        name: name.to_owned(),
        passed,
        failed,
        skipped: 0,
        known: None,
        note: String::new(),
    }
}

fn pymemcache(subject: &Subject, dir: &Path) -> SuiteOutcome {
    let name = "pymemcache 4.0.0, test_integration";
    let tried = tests_of_pymemcache(dir).and_then(|(python, tests)| {
        let server = Server::start(subject, "memcached", &OPTIONS)?;
        let mut command = Command::new(python);
        command.args(["-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "--rootdir"]);
        command.arg(&tests).arg(tests.join("test_integration.py"));
        command.args(["--server", "127.0.0.1", "--port", &server.port]);
        said(&mut command)
    });
    match tried {
        Ok(text) => {
            let skipped = text.matches("\nSKIPPED ").count();
            SuiteOutcome { skipped, ..counted(name, &text, "\nPASSED ", "\nFAILED ") }
        }
        Err(why) => SuiteOutcome::skipped(name, why),
    }
}

/// The interpreter of a virtual environment with the client, and the directory of the client's tests.
fn tests_of_pymemcache(dir: &Path) -> Result<(PathBuf, PathBuf), String> {
    let environment = dir.join("pymemcache");
    let python = environment.join("bin/python");
    let find = "import os, pymemcache.test as t; print(os.path.dirname(t.__file__))";
    let find = || said(Command::new(&python).args(["-c", find]));
    let tests = |said: Result<String, String>| {
        said.ok().map(|said| PathBuf::from(said.trim())).filter(|path| path.is_dir())
    };
    if let Some(tests) = tests(find()) {
        return Ok((python, tests));
    }
    let mut make = Command::new("python3");
    make.args(["-m", "venv"]).arg(&environment);
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "-q"]).args(PYMEMCACHE);
    if !step::succeeds(&mut make) || !step::succeeds(&mut install) {
        return Err("pymemcache cannot be installed".to_owned());
    }
    tests(find()).map(|tests| (python.clone(), tests)).ok_or("it has no tests".to_owned())
}
